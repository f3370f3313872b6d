/* budget_loop.c - what the hot operations of cb_loop.h cost in instructions and system calls; see budget.h. Timers run on
 * a clock that the program turns. */
#define CB_LOOP_IMPLEMENTATION
#include "cb_loop.h"
#include "budget.h"

#define GROUP 100u
#define LIVE 10000u
static cb_loop loop;
static uint64_t now_ns = 1000000000u, done;
static cb_loop_timer timers[LIVE + GROUP];
static cb_loop_task tasks[GROUP];

static uint64_t turned_clock(void *user)
{
    (void)user;
    return now_ns;
}

static void loop_open(bool turned)
{
    cb_loop_desc d;
    memset(&d, 0, sizeof d);
    d.clock = turned ? turned_clock : NULL;
    budget_need(cb_loop_init(&loop, &d) == CB_LOOP_OK, "init");
    (void)cb_loop_step(&loop, 0);
}

static uint32_t mixed(uint64_t i) /* the same sequence always */
{
    return (uint32_t)((i * 6364136223846793005u + 1442695040888963407u) >> 33);
}

/* -- events -- */
static void on_event(void *user, void *payload)
{
    (void)user;
    (void)payload;
    done++;
}

static void event_dispatch(uint64_t ops)
{
    cb_loop_event event;
    cb_loop_event_listener listener;
    cb_loop_event_init(&event);
    cb_loop_event_listener_init(&listener, on_event, NULL);
    cb_loop_event_listen(&event, &listener, 0);
    while (ops-- != 0) {
        cb_loop_event_emit(&event, &event);
    }
}

/* -- timers -- */
static void on_timer(void *user, cb_loop_timer *timer, uint64_t at)
{
    (void)user;
    (void)timer;
    (void)at;
    done++;
}

static void timers_open(size_t live)
{
    size_t i;
    loop_open(true);
    for (i = 0; i < LIVE + GROUP; i++) {
        cb_loop_timer_init(&timers[i], on_timer, NULL);
    }
    for (i = 0; i < live; i++) {
        (void)cb_loop_timer_start(&loop, &timers[GROUP + i], 1000000000u + mixed(i) % 30000u * UINT64_C(1000000));
    }
    (void)cb_loop_step(&loop, 0);
}

static void timer_arm_fire(uint64_t ops)
{
    timers_open(0);
    while (ops != 0) {
        uint64_t before = done, i, n = ops < GROUP ? ops : GROUP;
        for (i = 0; i < n; i++) {
            (void)cb_loop_timer_start(&loop, &timers[i], 0);
        }
        now_ns += 1000;
        (void)cb_loop_step(&loop, 0);
        budget_need(done - before == n, "fire");
        ops -= n;
    }
}

static void timer_restart_10k(uint64_t ops)
{
    uint64_t i;
    timers_open(LIVE);
    for (i = 1; i <= ops; i++) {
        (void)cb_loop_timer_start(&loop, &timers[GROUP + mixed(i) % LIVE], 1000000000u + mixed(i + ops) % 30000u * UINT64_C(1000000));
        if (i % GROUP == 0) {
            now_ns += 10000;
            (void)cb_loop_step(&loop, 0);
        }
    }
}

static void timer_arm_stop(uint64_t ops)
{
    uint64_t i;
    timers_open(LIVE);
    for (i = 1; i <= ops; i++) {
        (void)cb_loop_timer_start(&loop, &timers[i % GROUP], 5000000000u);
        cb_loop_timer_stop(&loop, &timers[i % GROUP]);
    }
}

/* LIVE timers of 10 ms on a clock that moves by 1 us an operation, so each operation is one firing. */
static void timer_interval(uint64_t ops)
{
    uint64_t i, before;
    timers_open(0);
    for (i = 0; i < LIVE; i++) {
        (void)cb_loop_timer_start_every(&loop, &timers[i], 1000000u + i * 1000u, 10000000u);
    }
    for (i = 0; i < 1000u; i++) { /* to where the first is due */
        now_ns += 1000;
        (void)cb_loop_step(&loop, 0);
    }
    before = done;
    for (i = 0; i < ops; i += 10u) {
        now_ns += 10000;
        (void)cb_loop_step(&loop, 0);
    }
    budget_need(done - before >= ops / 2u, "intervals");
}

/* -- posts and passes -- */
static void on_task(void *user, cb_loop_task *task, cb_loop_status status)
{
    (void)user;
    (void)task;
    (void)status;
    done++;
}

static void post_same_thread(uint64_t ops)
{
    uint64_t i;
    loop_open(false);
    for (i = 0; i < GROUP; i++) {
        cb_loop_task_init(&tasks[i], on_task, NULL);
    }
    while (ops != 0) {
        uint64_t n = ops < GROUP ? ops : GROUP;
        for (i = 0; i < n; i++) {
            budget_need(cb_loop_post(&loop, &tasks[i]) == CB_LOOP_OK, "post");
        }
        (void)cb_loop_step(&loop, 0);
        ops -= n;
    }
}

static void pass_empty(uint64_t ops)
{
    loop_open(false);
    while (ops-- != 0) {
        (void)cb_loop_step(&loop, 0);
    }
}

/* -- streams -- */
static cb_loop_listener listener;
static cb_loop_stream client, server;
static const uint8_t message[100];
static uint64_t echoes;
static bool accepted;

static size_t on_server_data(void *user, cb_loop_stream *s, cb_span in)
{
    (void)user;
    return cb_loop_stream_write(s, in.data, in.size);
}

static size_t on_client_data(void *user, cb_loop_stream *s, cb_span in)
{
    (void)user;
    if (in.size < sizeof message) {
        return 0;
    }
    if (--echoes != 0) {
        (void)cb_loop_stream_write(s, message, sizeof message);
    }
    return sizeof message;
}

static cb_loop_stream *on_accept(void *user, cb_loop_listener *l, const cb_loop_address *from, void **stream_user)
{
    (void)user;
    (void)l;
    (void)from;
    (void)stream_user;
    accepted = true;
    return &server;
}

static void streams_open(void)
{
    cb_loop_listener_desc d;
    cb_loop_connect_desc c;
    cb_loop_address at;
    char url[64];
    loop_open(true); /* a clock that stands, so that nothing falls due by how long the run takes */
    memset(&d, 0, sizeof d);
    d.url = "tcp://127.0.0.1:0";
    d.on_accept = on_accept;
    d.stream.on_data = on_server_data;
    budget_need(cb_loop_listen(&loop, &listener, &d) == CB_LOOP_OK &&
                cb_loop_listener_address(&listener, &at) == CB_LOOP_OK, "listen");
    memset(&c, 0, sizeof c);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%u", (unsigned)cb_loop_address_port(&at));
    c.url = url;
    c.stream.on_data = on_client_data;
    budget_need(cb_loop_connect(&loop, &client, &c) == CB_LOOP_OK, "connect");
    while (!accepted) {
        (void)cb_loop_step(&loop, 1000000000u);
    }
    for (echoes = 1; cb_loop_stream_write(&client, message, sizeof message) == 0;) {
    }
    while (echoes != 0) {
        (void)cb_loop_step(&loop, 1000000000u);
    }
}

static void tcp_echo_100(uint64_t ops)
{
    streams_open();
    echoes = ops;
    (void)cb_loop_stream_write(&client, message, sizeof message);
    while (echoes != 0) {
        (void)cb_loop_step(&loop, 1000000000u);
    }
}

static void pass_idle_handles(uint64_t ops)
{
    streams_open();
    while (ops-- != 0) {
        (void)cb_loop_step(&loop, 0);
    }
}

int main(int argc, char **argv)
{
    static const budget_op ops[] = {
        { "loop/event_dispatch", event_dispatch },     { "loop/timer_arm_fire", timer_arm_fire },
        { "loop/timer_restart_10k", timer_restart_10k }, { "loop/timer_arm_stop", timer_arm_stop },
        { "loop/timer_interval", timer_interval },     { "loop/post_same_thread", post_same_thread },
        { "loop/pass_empty", pass_empty },             { "loop/pass_idle_handles", pass_idle_handles },
        { "loop/tcp_echo_100", tcp_echo_100 },
    };
    return budget_main(argc, argv, ops, sizeof ops / sizeof ops[0]);
}
