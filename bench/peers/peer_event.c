/* peer_event.c - libevent doing the work of some figures of bench_loop.c, by raw events, which are its quickest. */
#include "peers/peer.h"
#include <arpa/inet.h>
#include <event2/event.h>
#include <event2/event_struct.h>
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

static void long_delay(struct timeval *t)
{
    uint32_t ms = 1000u + random_next() % 29000u;
    t->tv_sec = ms / 1000u;
    t->tv_usec = (int)(ms % 1000u) * 1000;
}

static struct event_base *timer_base;
static struct event group[GROUP], live[LIVE];
static uint64_t fired;

static void on_timer(evutil_socket_t fd, short what, void *user)
{
    (void)fd;
    (void)what;
    (void)user;
    fired++;
}

static void timers_prepare(int want_live)
{
    static int lively;
    struct timeval t;
    size_t i;
    if (timer_base == NULL) {
        timer_base = event_base_new();
        for (i = 0; i < GROUP; i++) {
            event_assign(&group[i], timer_base, -1, 0, on_timer, NULL);
        }
        for (i = 0; i < LIVE; i++) {
            event_assign(&live[i], timer_base, -1, 0, on_timer, NULL);
        }
    }
    for (i = 0; want_live && !lively && i < LIVE; i++) {
        long_delay(&t);
        event_add(&live[i], &t);
    }
    lively |= want_live;
}

static void fire_one(void *user, uint64_t ops)
{
    static const struct timeval none;
    (void)user;
    timers_prepare(0);
    while (ops-- != 0) {
        uint64_t before = fired;
        event_add(&group[0], &none);
        while (fired == before) {
            event_base_loop(timer_base, EVLOOP_NONBLOCK);
        }
    }
}

static void fire(void *user, uint64_t ops)
{
    static const struct timeval none;
    (void)user;
    timers_prepare(0);
    while (ops != 0) {
        uint64_t before = fired;
        uint32_t n = ops < GROUP ? (uint32_t)ops : GROUP, i;
        for (i = 0; i < n; i++) {
            event_add(&group[i], &none);
        }
        while (fired - before < n) {
            event_base_loop(timer_base, EVLOOP_NONBLOCK);
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
        struct timeval t;
        long_delay(&t);
        event_add(&live[k], &t);
        if (i % GROUP == 0) {
            event_base_loop(timer_base, EVLOOP_NONBLOCK);
        }
    }
}

static void stop(void *user, uint64_t ops)
{
    static const struct timeval five = { 5, 0 };
    uint64_t i;
    (void)user;
    timers_prepare(1);
    for (i = 1; i <= ops; i++) {
        event_add(&group[i % GROUP], &five);
        event_del(&group[i % GROUP]);
        if (i % GROUP == 0) {
            event_base_loop(timer_base, EVLOOP_NONBLOCK);
        }
    }
}

static struct event_base *post_base;
static struct event posted;
static uint64_t ran;

static void on_posted(evutil_socket_t fd, short what, void *user)
{
    (void)fd;
    (void)what;
    (void)user;
    ran++;
}

static void post(void *user, uint64_t ops)
{
    (void)user;
    if (post_base == NULL) {
        post_base = event_base_new();
        event_assign(&posted, post_base, -1, 0, on_posted, NULL);
    }
    while (ops-- != 0) {
        uint64_t before = ran;
        event_active(&posted, EV_TIMEOUT, 1);
        while (ran == before) {
            event_base_loop(post_base, EVLOOP_NONBLOCK);
        }
    }
}

static struct event_base *tcp_base;
static struct event watch[2]; /* client, server */
static int fds[2];
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

static void on_server(evutil_socket_t fd, short what, void *user)
{
    ssize_t n = recv(fd, in, sizeof in, 0);
    (void)what;
    (void)user;
    if (n > 0) {
        send_on(fd, in, (size_t)n);
    }
}

static void on_client(evutil_socket_t fd, short what, void *user)
{
    ssize_t n = recv(fd, in, sizeof in, 0);
    (void)what;
    (void)user;
    if (n <= 0) {
        abort();
    }
    for (got += (size_t)n; got >= sizeof message; got -= sizeof message) {
        if (--left != 0) {
            send_on(fd, message, sizeof message);
        }
    }
}

static void tcp_prepare(void)
{
    struct sockaddr_in a = { 0 };
    socklen_t size = sizeof a;
    int listener, one = 1, i;
    if (tcp_base != NULL) {
        return;
    }
    tcp_base = event_base_new();
    listener = socket(AF_INET, SOCK_STREAM, 0);
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&a, sizeof a) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&a, &size) != 0) {
        abort();
    }
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fds[0], (struct sockaddr *)&a, sizeof a) != 0) {
        abort();
    }
    fds[1] = accept(listener, NULL, NULL);
    for (i = 0; i < 2; i++) {
        fcntl(fds[i], F_SETFL, fcntl(fds[i], F_GETFL) | O_NONBLOCK);
        setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        event_assign(&watch[i], tcp_base, fds[i], EV_READ | EV_PERSIST, i == 0 ? on_client : on_server, NULL);
        event_add(&watch[i], NULL);
    }
}

static void tcp_echo(void *user, uint64_t ops)
{
    (void)user;
    tcp_prepare();
    left = ops;
    send_on(fds[0], message, sizeof message);
    while (left != 0) {
        event_base_loop(tcp_base, EVLOOP_ONCE);
    }
}

static void pass_idle(void *user, uint64_t ops)
{
    (void)user;
    tcp_prepare();
    while (ops-- != 0) {
        event_base_loop(tcp_base, EVLOOP_NONBLOCK);
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
