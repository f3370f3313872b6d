/* peer_uv.c - libuv doing the work of some figures of bench_loop.c. */
#include "peers/peer.h"
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define GROUP 1000u
#define LIVE 10000u
static uint64_t random_state = 1;
static uint32_t random_next(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

static uint64_t long_delay_ms(void)
{
    return 1000u + random_next() % 29000u;
}

/* -- timers -- */
static uv_loop_t timer_loop;
static uv_timer_t group[GROUP], live[LIVE];
static uint64_t fired;

static void on_timer(uv_timer_t *t)
{
    (void)t;
    fired++;
}

static void timers_prepare(int want_live)
{
    static int ready, lively;
    size_t i;
    if (!ready) {
        ready = 1;
        uv_loop_init(&timer_loop);
        for (i = 0; i < GROUP; i++) {
            uv_timer_init(&timer_loop, &group[i]);
        }
        for (i = 0; i < LIVE; i++) {
            uv_timer_init(&timer_loop, &live[i]);
        }
    }
    for (i = 0; want_live && !lively && i < LIVE; i++) {
        uv_timer_start(&live[i], on_timer, long_delay_ms(), 0);
    }
    lively |= want_live;
}

static void fire_one(void *user, uint64_t ops)
{
    (void)user;
    timers_prepare(0);
    while (ops-- != 0) {
        uint64_t before = fired;
        uv_timer_start(&group[0], on_timer, 0, 0);
        while (fired == before) {
            uv_run(&timer_loop, UV_RUN_NOWAIT);
        }
    }
}

static void fire(void *user, uint64_t ops)
{
    (void)user;
    timers_prepare(0);
    while (ops != 0) {
        uint64_t before = fired;
        uint32_t n = ops < GROUP ? (uint32_t)ops : GROUP, i;
        for (i = 0; i < n; i++) {
            uv_timer_start(&group[i], on_timer, 0, 0);
        }
        while (fired - before < n) {
            uv_run(&timer_loop, UV_RUN_NOWAIT);
        }
        ops -= n;
    }
}

static void restart(void *user, uint64_t ops)
{
    uint64_t i;
    (void)user;
    timers_prepare(1);
    for (i = 1; i <= ops; i++) {
        uint32_t k = (uint32_t)((uint64_t)random_next() * LIVE >> 32);
        uv_timer_start(&live[k], on_timer, long_delay_ms(), 0);
        if (i % GROUP == 0) {
            uv_run(&timer_loop, UV_RUN_NOWAIT);
        }
    }
}

static void stop(void *user, uint64_t ops)
{
    uint64_t i;
    (void)user;
    timers_prepare(1);
    for (i = 1; i <= ops; i++) {
        uv_timer_start(&group[i % GROUP], on_timer, 5000, 0);
        uv_timer_stop(&group[i % GROUP]);
        if (i % GROUP == 0) {
            uv_run(&timer_loop, UV_RUN_NOWAIT);
        }
    }
}

/* -- posts -- */
static uv_loop_t post_loop;
static uv_async_t async;
static uint64_t ran;

static void on_async(uv_async_t *a)
{
    (void)a;
    ran++;
}

static void post(void *user, uint64_t ops)
{
    static int ready;
    (void)user;
    if (!ready) {
        ready = 1;
        uv_loop_init(&post_loop);
        uv_async_init(&post_loop, &async, on_async);
    }
    while (ops-- != 0) {
        uint64_t before = ran;
        uv_async_send(&async);
        while (ran == before) {
            uv_run(&post_loop, UV_RUN_NOWAIT);
        }
    }
}

/* -- TCP: uv_try_write, which is libuv's quickest -- */
static uv_loop_t tcp_loop;
static uv_tcp_t listener, server, client;
static char in[65536], message[100];
static size_t got;
static uint64_t left;
static int accepted, connected;

static void on_alloc(uv_handle_t *h, size_t size, uv_buf_t *buf)
{
    (void)h;
    (void)size;
    *buf = uv_buf_init(in, sizeof in);
}

static void send_on(uv_stream_t *s, char *data, size_t size)
{
    uv_buf_t b = uv_buf_init(data, (unsigned)size);
    if (uv_try_write(s, &b, 1) != (int)size) {
        abort();
    }
}

static void on_server_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    if (n > 0) {
        send_on(s, buf->base, (size_t)n);
    }
}

static void on_client_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    (void)buf;
    if (n <= 0) {
        abort();
    }
    for (got += (size_t)n; got >= sizeof message; got -= sizeof message) {
        if (--left != 0) {
            send_on(s, message, sizeof message);
        }
    }
}

static void on_connection(uv_stream_t *s, int status)
{
    (void)status;
    uv_tcp_init(&tcp_loop, &server);
    if (uv_accept(s, (uv_stream_t *)&server) == 0) {
        uv_tcp_nodelay(&server, 1);
        uv_read_start((uv_stream_t *)&server, on_alloc, on_server_read);
        accepted = 1;
    }
}

static void on_connect(uv_connect_t *c, int status)
{
    (void)c;
    connected = status == 0;
}

static void tcp_prepare(void)
{
    static int ready;
    static uv_connect_t request;
    struct sockaddr_in a;
    int size = sizeof a;
    if (ready) {
        return;
    }
    ready = 1;
    uv_loop_init(&tcp_loop);
    uv_tcp_init(&tcp_loop, &listener);
    uv_tcp_init(&tcp_loop, &client);
    uv_ip4_addr("127.0.0.1", 0, &a);
    uv_tcp_bind(&listener, (const struct sockaddr *)&a, 0);
    uv_listen((uv_stream_t *)&listener, 16, on_connection);
    uv_tcp_getsockname(&listener, (struct sockaddr *)&a, &size);
    uv_tcp_connect(&request, &client, (const struct sockaddr *)&a, on_connect);
    while (!accepted || !connected) {
        uv_run(&tcp_loop, UV_RUN_ONCE);
    }
    uv_tcp_nodelay(&client, 1);
    uv_read_start((uv_stream_t *)&client, on_alloc, on_client_read);
}

static void tcp_echo(void *user, uint64_t ops)
{
    (void)user;
    tcp_prepare();
    left = ops;
    send_on((uv_stream_t *)&client, message, sizeof message);
    while (left != 0) {
        uv_run(&tcp_loop, UV_RUN_ONCE);
    }
}

static void pass_idle(void *user, uint64_t ops)
{
    (void)user;
    tcp_prepare();
    while (ops-- != 0) {
        uv_run(&tcp_loop, UV_RUN_NOWAIT);
    }
}

const peer_work *peer_table(void)
{
    static const peer_work table[] = {
        { "loop/timer_arm_fire_one", fire_one }, { "loop/timer_arm_fire", fire }, { "loop/timer_restart_10k", restart },
        { "loop/timer_arm_stop", stop }, { "loop/post_same_thread", post }, { "loop/tcp_echo_100", tcp_echo },
        { "loop/pass_idle_handles", pass_idle }, { NULL, NULL },
    };
    return table;
}
