/* Program 4: a service and its client. The text uses port 4000; here both get a free one and share a loop.
 * Around it: the schemas, the room, and an end. */
#define CB_CODEC_IMPLEMENTATION
#define CB_LOOP_IMPLEMENTATION
#define CB_RPC_IMPLEMENTATION
#define CB_RPC_WITH_LOOP
#include "cb_codec.h"
#include "cb_loop.h"
#include "cb_rpc.h"
#include "program.h"

#define JOIN_ARGS(F) F(text, room, 32)
CB_CODEC_SCHEMA(join_args, JOIN_ARGS)
#define JOIN_REPLY(F) F(u32, members)
CB_CODEC_SCHEMA(join_reply, JOIN_REPLY)
#define SAY_ARGS(F) F(text, words, 64)
CB_CODEC_SCHEMA(say_args, SAY_ARGS)

typedef struct lobby {
    uint32_t members;
    uint32_t heard;
} lobby;

static bool room_is_full(void *user)
{
    return ((const lobby *)user)->members == 2;
}

static uint32_t room_add(void *user, cb_rpc_session *from, const char *name)
{
    PROGRAM_REQUIRE(from != NULL && strcmp(name, "lobby") == 0);
    return ++((lobby *)user)->members;
}

static void on_say(void *user, cb_rpc_session *from, const say_args *a)
{
    (void)from;
    PROGRAM_REQUIRE(strcmp(a->words, "good evening") == 0);
    ((lobby *)user)->heard++;
}

static lobby room;
static cb_loop loop;
static cb_rpc_session session;
static cb_rpc_hub *server;
static unsigned closed;

/* In place of cb_rpc_serve and cb_rpc_connect: another port. */
static cb_rpc_status program_serve(cb_rpc_hub *at, cb_loop *on, const cb_rpc_hub_desc *desc)
{
    cb_rpc_hub_desc d = *desc;
    PROGRAM_REQUIRE(strcmp(d.url, "tcp://0.0.0.0:4000") == 0);
    d.url = "tcp://127.0.0.1:0";
    server = at;
    return cb_rpc_serve(at, on, &d);
}

static cb_rpc_status program_connect(cb_rpc_hub *at, cb_loop *on, cb_rpc_session *s, const char *url)
{
    cb_loop_address address;
    char where[56], free_url[64];
    PROGRAM_REQUIRE(strcmp(url, "tcp://127.0.0.1:4000") == 0);
    CB_CHECK(cb_rpc_serve_address(server, &address));
    (void)snprintf(free_url, sizeof free_url, "tcp://%s", cb_loop_address_str(&address, where, sizeof where));
    return cb_rpc_connect(at, on, s, free_url);
}

#define cb_rpc_serve(hub, loop, desc) program_serve(hub, loop, desc)
#define cb_rpc_connect(hub, loop, s, url) program_connect(hub, loop, s, url)

/* program: begin */
#define CHAT(CALL, EVENT)                       \
    CALL (1, chat_join, join_args, join_reply)  \
    EVENT(2, chat_say,  say_args)
CB_RPC_CONTRACT(chat, CHAT)

/* server */
static cb_rpc_status on_join(void *user, cb_rpc_session *from, const join_args *a, join_reply *reply)
{
    if (room_is_full(user)) { return cb_rpc_refuse(from, "the room is full"); }
    reply->members = room_add(user, from, a->room);
    return CB_RPC_OK;
}
static const chat_handlers handlers = { on_join, on_say };

/* program: end */
static void serve(void)
{
    static cb_rpc_hub hub;
    cb_rpc_hub_desc d;
/* program: begin */
memset(&d, 0, sizeof d);
d.url = "tcp://0.0.0.0:4000";
chat_bind(&d, &handlers, &room);                /* typed: contract, handlers and user together */
CB_CHECK(cb_rpc_serve(&hub, &loop, &d));

/* program: end */
}

/* program: begin */
/* client */
static void on_joined(void *user, const cb_rpc_result *res, const join_reply *reply)
{
    (void)user;
    if (res->status != CB_RPC_OK) { fprintf(stderr, "join: %s\n", res->reason); return; }
    printf("%u in the room\n", reply->members);
}
/* program: end */
static void on_closed(void *user, cb_rpc_session *s)
{
    (void)user;
    PROGRAM_REQUIRE(s == &session);
    closed++;
}

static void client(void)
{
    static cb_rpc_hub hub;
    cb_rpc_hub_desc d;
    join_args args;
    join_reply reply;
    say_args say;
    memset(&d, 0, sizeof d);
    chat_bind(&d, NULL, NULL);
    d.on_closed = on_closed;
    CB_CHECK(cb_rpc_hub_init(&hub, &d));
    memset(&say, 0, sizeof say);
    CB_CODEC_SET_TEXT(&say, words, "good evening");
/* program: begin */
CB_CHECK(cb_rpc_connect(&hub, &loop, &session, "tcp://127.0.0.1:4000"));  /* redials by itself */
memset(&args, 0, sizeof args);
CB_CODEC_SET_TEXT(&args, room, "lobby");
chat_join(&session, &args, on_joined, NULL);    /* receiver */
chat_say(&session, &say);                       /* one-way */

cb_rpc_future f;                                /* or a future and a reply of the caller's own */
chat_join_future(&session, &args, &reply, &f);
CB_CHECK(cb_rpc_wait(&loop, &f, 5000000000));   /* not inside a handler: there, take a token and go on later */
/* program: end */
    PROGRAM_REQUIRE(reply.members == 2 && room.members == 2 && room.heard == 1);
    chat_join_future(&session, &args, &reply, &f);
    PROGRAM_REQUIRE(cb_rpc_wait(&loop, &f, 5000000000) == CB_RPC_E_REFUSED);
    PROGRAM_REQUIRE(strcmp(f.reason, "the room is full") == 0);
    cb_rpc_close(&session);
    while (closed == 0) {
        CB_CHECK(cb_loop_step(&loop, CB_LOOP_FOREVER));
    }
    CB_CHECK(cb_rpc_hub_deinit(&hub));
}

int main(void)
{
    CB_CHECK(cb_loop_init(&loop, NULL));
    serve();
    client();
    cb_rpc_unserve(server);
    while (cb_rpc_hub_deinit(server) != CB_RPC_OK) {
        CB_CHECK(cb_loop_step(&loop, CB_LOOP_FOREVER));
    }
    cb_loop_deinit(&loop);
    return 0;
}
