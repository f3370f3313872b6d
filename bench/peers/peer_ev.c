/* peer_ev.c - libev doing the work of some figures of bench_loop.c; reading and writing are the user's there. */
#include "peers/peer.h"
#include <arpa/inet.h>
#include <ev.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

#define GROUP 1000u
#define LIVE 10000u
static uint64_t random_state = 1;
static uint32_t random_next(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

static double long_delay(void)
{
    return (1000u + random_next() % 29000u) * 0.001;
}

static struct ev_loop *timer_loop;
static ev_timer group[GROUP], live[LIVE];
static uint64_t fired;

static void on_timer(struct ev_loop *l, ev_timer *t, int events)
{
    (void)l;
    (void)t;
    (void)events;
    fired++;
}

static void timers_prepare(int want_live)
{
    static int lively;
    size_t i;
    if (timer_loop == NULL) {
        timer_loop = ev_loop_new(EVBACKEND_EPOLL);
        for (i = 0; i < GROUP; i++) {
            ev_timer_init(&group[i], on_timer, 0., 0.);
        }
        for (i = 0; i < LIVE; i++) {
            ev_timer_init(&live[i], on_timer, 0., 0.);
        }
    }
    for (i = 0; want_live && !lively && i < LIVE; i++) {
        live[i].repeat = long_delay();
        ev_timer_again(timer_loop, &live[i]);
    }
    lively |= want_live;
}

static void fire_one(void *user, uint64_t ops)
{
    (void)user;
    timers_prepare(0);
    while (ops-- != 0) {
        uint64_t before = fired;
        ev_timer_set(&group[0], 0., 0.);
        ev_timer_start(timer_loop, &group[0]);
        while (fired == before) {
            ev_run(timer_loop, EVRUN_NOWAIT);
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
            ev_timer_set(&group[i], 0., 0.);
            ev_timer_start(timer_loop, &group[i]);
        }
        while (fired - before < n) {
            ev_run(timer_loop, EVRUN_NOWAIT);
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
        live[k].repeat = long_delay();
        ev_timer_again(timer_loop, &live[k]);
        if (i % GROUP == 0) {
            ev_run(timer_loop, EVRUN_NOWAIT);
        }
    }
}

static void stop(void *user, uint64_t ops)
{
    uint64_t i;
    (void)user;
    timers_prepare(1);
    for (i = 1; i <= ops; i++) {
        ev_timer_set(&group[i % GROUP], 5., 0.);
        ev_timer_start(timer_loop, &group[i % GROUP]);
        ev_timer_stop(timer_loop, &group[i % GROUP]);
        if (i % GROUP == 0) {
            ev_run(timer_loop, EVRUN_NOWAIT);
        }
    }
}

static struct ev_loop *post_loop;
static ev_async async;
static uint64_t ran;

static void on_async(struct ev_loop *l, ev_async *a, int events)
{
    (void)l;
    (void)a;
    (void)events;
    ran++;
}

static void post(void *user, uint64_t ops)
{
    (void)user;
    if (post_loop == NULL) {
        post_loop = ev_loop_new(EVBACKEND_EPOLL);
        ev_async_init(&async, on_async);
        ev_async_start(post_loop, &async);
    }
    while (ops-- != 0) {
        uint64_t before = ran;
        ev_async_send(post_loop, &async);
        while (ran == before) {
            ev_run(post_loop, EVRUN_NOWAIT);
        }
    }
}

static struct ev_loop *tcp_loop;
static ev_io watch[2]; /* client, server */
static char in[65536];
static const char message[100];
static size_t got;
static uint64_t left;

static void send_on(int fd, const char *data, size_t size)
{
    if (send(fd, data, size, MSG_NOSIGNAL) != (ssize_t)size) {
        abort();
    }
}

static void on_server(struct ev_loop *l, ev_io *w, int events)
{
    ssize_t n = recv(w->fd, in, sizeof in, 0);
    (void)l;
    (void)events;
    if (n > 0) {
        send_on(w->fd, in, (size_t)n);
    }
}

static void on_client(struct ev_loop *l, ev_io *w, int events)
{
    ssize_t n = recv(w->fd, in, sizeof in, 0);
    (void)l;
    (void)events;
    if (n <= 0) {
        abort();
    }
    for (got += (size_t)n; got >= sizeof message; got -= sizeof message) {
        if (--left != 0) {
            send_on(w->fd, message, sizeof message);
        }
    }
}

static void tcp_prepare(void)
{
    struct sockaddr_in a = { 0 };
    socklen_t size = sizeof a;
    int fd[2], listener, one = 1, i;
    if (tcp_loop != NULL) {
        return;
    }
    tcp_loop = ev_loop_new(EVBACKEND_EPOLL);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&a, sizeof a) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&a, &size) != 0) {
        abort();
    }
    fd[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd[0], (struct sockaddr *)&a, sizeof a) != 0) {
        abort();
    }
    fd[1] = accept(listener, NULL, NULL);
    for (i = 0; i < 2; i++) {
        fcntl(fd[i], F_SETFL, fcntl(fd[i], F_GETFL) | O_NONBLOCK);
        setsockopt(fd[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        ev_io_init(&watch[i], i == 0 ? on_client : on_server, fd[i], EV_READ);
        ev_io_start(tcp_loop, &watch[i]);
    }
}

static void tcp_echo(void *user, uint64_t ops)
{
    (void)user;
    tcp_prepare();
    left = ops;
    send_on(watch[0].fd, message, sizeof message);
    while (left != 0) {
        ev_run(tcp_loop, EVRUN_ONCE);
    }
}

static void pass_idle(void *user, uint64_t ops)
{
    (void)user;
    tcp_prepare();
    while (ops-- != 0) {
        ev_run(tcp_loop, EVRUN_NOWAIT);
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
