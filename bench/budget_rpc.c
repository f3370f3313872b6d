/* budget_rpc.c - what the hot operations of cb_rpc.h cost in instructions and system calls; see budget.h. */
#define CB_CODEC_IMPLEMENTATION
#include "cb_codec.h"
#define CB_LOOP_IMPLEMENTATION
#include "cb_loop.h"
#define CB_RPC_IMPLEMENTATION
#define CB_RPC_WITH_LOOP
#include "cb_rpc.h"
#include "budget.h"

#define NUMBER(F) F(i32, n)
CB_CODEC_SCHEMA(number, NUMBER)
#define WORK(CALL, EVENT)               \
    CALL (1, work_add,  number, number) \
    EVENT(2, work_note, number)
CB_RPC_CONTRACT(work, WORK)

static cb_rpc_hub hub, server;
static cb_rpc_pair pair;
static cb_rpc_session session;
static cb_loop loop;
static uint64_t done;

static cb_rpc_status on_work_add(void *user, cb_rpc_session *from, const number *a, number *reply)
{
    (void)user;
    (void)from;
    reply->n = a->n / 2 + 1;
    return CB_RPC_OK;
}

static void on_work_note(void *user, cb_rpc_session *from, const number *a)
{
    (void)user;
    (void)from;
    (void)a;
    done++;
}

static void on_added(void *user, const cb_rpc_result *res, const number *reply)
{
    (void)user;
    (void)reply;
    budget_need(res->status == CB_RPC_OK, "call");
    done++;
}

static const work_handlers handlers = { on_work_add, on_work_note };

static void pair_open(void)
{
    cb_rpc_hub_desc d;
    memset(&d, 0, sizeof d);
    work_bind(&d, &handlers, NULL);
    budget_need(cb_rpc_hub_init(&hub, &d) == CB_RPC_OK && cb_rpc_pair_init(&pair, &hub, &hub, NULL) == CB_RPC_OK &&
                cb_rpc_pair_run(&pair, 0) == CB_RPC_OK, "pair");
}

static void memory_receiver(uint64_t ops)
{
    uint64_t i;
    pair_open();
    for (i = 0; i < ops; i++) {
        number a;
        a.n = (int32_t)i;
        budget_need(work_add(&pair.a, &a, on_added, NULL) == CB_RPC_OK && cb_rpc_pair_run(&pair, 0) == CB_RPC_OK, "call");
    }
    budget_need(done == ops, "answers");
}

static void memory_future(uint64_t ops)
{
    cb_rpc_future f;
    number a, reply;
    memset(&f, 0, sizeof f);
    a.n = 1;
    pair_open();
    while (ops-- != 0) {
        budget_need(work_add_future(&pair.a, &a, &reply, &f) == CB_RPC_OK && cb_rpc_pair_run(&pair, 0) == CB_RPC_OK &&
                    f.state == CB_RPC_FUTURE_DONE, "call");
    }
}

static void memory_one_way(uint64_t ops)
{
    uint64_t i;
    number a;
    a.n = 1;
    pair_open();
    for (i = 1; i <= ops; i++) {
        budget_need(work_note(&pair.a, &a) == CB_RPC_OK, "event");
        if (i % 20u == 0) {
            budget_need(cb_rpc_pair_run(&pair, 0) == CB_RPC_OK, "run");
        }
    }
}

static uint64_t standing_clock(void *user) /* so that what timers do does not depend on how long anything takes */
{
    (void)user;
    return 1000000000u;
}

static void tcp_receiver(uint64_t ops)
{
    cb_rpc_hub_desc d;
    cb_loop_desc ld;
    cb_loop_address at;
    char url[64], text[64];
    uint64_t i;
    memset(&d, 0, sizeof d);
    d.url = "tcp://127.0.0.1:0";
    work_bind(&d, &handlers, NULL);
    memset(&ld, 0, sizeof ld);
    ld.clock = standing_clock;
    budget_need(cb_loop_init(&loop, &ld) == CB_LOOP_OK && cb_rpc_serve(&server, &loop, &d) == CB_RPC_OK &&
                cb_rpc_serve_address(&server, &at) == CB_RPC_OK, "serve");
    memset(&d, 0, sizeof d);
    work_bind(&d, NULL, NULL);
    snprintf(url, sizeof url, "tcp://%s", cb_loop_address_str(&at, text, sizeof text));
    budget_need(cb_rpc_hub_init(&hub, &d) == CB_RPC_OK && cb_rpc_connect(&hub, &loop, &session, url) == CB_RPC_OK, "connect");
    for (i = 0; i < ops; i++) {
        uint64_t before = done;
        number a;
        a.n = (int32_t)i;
        budget_need(work_add(&session, &a, on_added, NULL) == CB_RPC_OK, "call");
        while (done == before) {
            (void)cb_loop_step(&loop, 1000000000u);
        }
    }
}

int main(int argc, char **argv)
{
    static const budget_op ops[] = {
        { "rpc/memory_receiver", memory_receiver }, { "rpc/memory_future", memory_future },
        { "rpc/memory_one_way", memory_one_way },   { "rpc/tcp_receiver", tcp_receiver },
    };
    return budget_main(argc, argv, ops, sizeof ops / sizeof ops[0]);
}
