/* Program 1: an echo server. The text serves port 4000 for ever; here it is given a free port, a client
 * that wants a large message back, and an end. */
#define CB_LOOP_IMPLEMENTATION
#include "cb_loop.h"
#include "program.h"

#define MESSAGE_BYTES 300000u /* more than one read takes */
#define PATIENCE_NS 20000000000u

static uint8_t message[MESSAGE_BYTES];
static size_t echoed;
static cb_loop_listener *server;

static size_t on_echo(void *user, cb_loop_stream *s, cb_span in)
{
    (void)user;
    PROGRAM_REQUIRE(in.size <= MESSAGE_BYTES - echoed && memcmp(in.data, message + echoed, in.size) == 0);
    echoed += in.size;
    if (echoed == MESSAGE_BYTES) {
        cb_loop_stop(cb_loop_stream_loop(s));
    }
    return in.size;
}

static void on_late(void *user, cb_loop_timer *timer, uint64_t now_ns)
{
    (void)timer;
    (void)now_ns;
    fprintf(stderr, "FAIL only %u bytes came back\n", (unsigned)echoed);
    cb_loop_stop((cb_loop *)user);
}

/* In place of cb_loop_listen: another port. */
static cb_loop_status program_listen(cb_loop *loop, cb_loop_listener *listener,
                                     const cb_loop_listener_desc *desc)
{
    cb_loop_listener_desc d = *desc;
    PROGRAM_REQUIRE(strcmp(d.url, "tcp://127.0.0.1:4000") == 0);
    d.url = "tcp://127.0.0.1:0";
    server = listener;
    return cb_loop_listen(loop, listener, &d);
}

/* In place of cb_loop_run: a client, and an end. */
static cb_loop_status program_run(cb_loop *loop)
{
    cb_loop_connect_desc d;
    cb_loop_stream client;
    cb_loop_timer late;
    cb_loop_address address;
    char where[56], url[64];
    cb_loop_status st;
    size_t i;
    for (i = 0; i < MESSAGE_BYTES; i++) {
        message[i] = (uint8_t)(i * 7u % 251u);
    }
    CB_CHECK(cb_loop_listener_address(server, &address));
    (void)snprintf(url, sizeof url, "tcp://%s", cb_loop_address_str(&address, where, sizeof where));
    memset(&d, 0, sizeof d);
    d.url = url;
    d.stream.on_data = on_echo;
    CB_CHECK(cb_loop_connect(loop, &client, &d));
    PROGRAM_REQUIRE(cb_loop_stream_write(&client, message, MESSAGE_BYTES) == MESSAGE_BYTES);
    cb_loop_timer_init(&late, on_late, loop);
    CB_CHECK(cb_loop_timer_start(loop, &late, PATIENCE_NS));
    st = cb_loop_run(loop);
    cb_loop_deinit(loop);
    return st;
}

#define cb_loop_listen(loop, listener, desc) program_listen(loop, listener, desc)
#define cb_loop_run(loop) program_run(loop)
#define main program_main
int program_main(void);

/* program: begin */
#define CB_LOOP_IMPLEMENTATION
#include "cb_loop.h"
#include <string.h>

static cb_loop_stream pool[64];                 /* any memory of yours */
static size_t used;

static size_t on_data(void *user, cb_loop_stream *s, cb_span in)
{
    (void)user;
    return cb_loop_stream_write(s, in.data, in.size); /* takes what fits; the rest is shown again once the peer has read */
}

static cb_loop_stream *on_accept(void *user, cb_loop_listener *l, const cb_loop_address *from, void **stream_user)
{
    (void)user; (void)l; (void)from; (void)stream_user;
    return used < 64 ? &pool[used++] : NULL;    /* NULL refuses the connection */
}

int main(void)
{
    cb_loop loop;
    cb_loop_listener listener;
    cb_loop_listener_desc d;
    memset(&d, 0, sizeof d);
    d.url = "tcp://127.0.0.1:4000";             /* or "local://echo", or "tls://..." with d.tls set */
    d.on_accept = on_accept;
    d.stream.on_data = on_data;
    CB_CHECK(cb_loop_init(&loop, NULL));        /* NULL: every default */
    CB_CHECK(cb_loop_listen(&loop, &listener, &d));
    return cb_loop_run(&loop) == CB_LOOP_OK ? 0 : 1;
}
/* program: end */
#undef main

int main(void)
{
    CB_CHECK(program_main());
    PROGRAM_REQUIRE(echoed == MESSAGE_BYTES);
    return 0;
}
