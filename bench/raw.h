/* raw.h - what the floors of bench_loop.c and bench_rpc.c are made of: bare sockets and epoll, no library. Linux. */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H
#include "support/bench.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#define RAW_BUFFER 65536u /* most that one read takes, as the loop's default */

BENCH_UNUSED static void raw_need(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
        exit(1);
    }
}

BENCH_UNUSED static void raw_nonblocking(int fd)
{
    int one = 1;
    raw_need(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0, "fcntl");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* Raises the limit of descriptors as far as allowed and says what it is. */
BENCH_UNUSED static size_t raw_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return 0;
    }
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (size_t)limit.rlim_cur : 0;
}

BENCH_UNUSED static int raw_listen(uint16_t *port)
{
    struct sockaddr_in a;
    socklen_t size = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memset(&a, 0, sizeof a);
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    raw_need(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 4096) == 0 &&
             getsockname(fd, (struct sockaddr *)&a, &size) == 0, "listen");
    *port = ntohs(a.sin_port);
    return fd;
}

BENCH_UNUSED static int raw_connect_blocking(uint16_t port)
{
    struct sockaddr_in a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memset(&a, 0, sizeof a);
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons(port);
    raw_need(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0, "connect");
    return fd;
}

BENCH_UNUSED static int raw_connect(uint16_t port)
{
    int fd = raw_connect_blocking(port);
    raw_nonblocking(fd);
    return fd;
}

BENCH_UNUSED static void raw_watch(int epoll, int fd, void *user)
{
    struct epoll_event ev;
    memset(&ev, 0, sizeof ev);
    ev.events = EPOLLIN;
    ev.data.ptr = user;
    raw_need(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) == 0, "epoll_ctl");
}

/* -- an output that a full socket left over; while there is one, nothing is read -- */
typedef struct raw_conn {
    int fd, epoll;
    uint8_t *rest;
    size_t rest_size, rest_cap;
} raw_conn;

BENCH_UNUSED static void raw_interest(raw_conn *c, uint32_t events)
{
    struct epoll_event ev;
    memset(&ev, 0, sizeof ev);
    ev.events = events;
    ev.data.ptr = c;
    (void)epoll_ctl(c->epoll, EPOLL_CTL_MOD, c->fd, &ev);
}

/* One send; what does not fit is kept and leaves by raw_flush. False: the connection is gone. */
BENCH_UNUSED static bool raw_send(raw_conn *c, const uint8_t *data, size_t size)
{
    ssize_t n = c->rest_size != 0 ? 0 : send(c->fd, data, size, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN) {
        return false;
    }
    n = n < 0 ? 0 : n;
    if ((size_t)n == size) {
        return true;
    }
    if (c->rest_size + size > c->rest_cap) {
        c->rest_cap = (c->rest_size + size) * 2u;
        c->rest = (uint8_t *)realloc(c->rest, c->rest_cap);
        raw_need(c->rest != NULL, "realloc");
    }
    if (c->rest_size == 0) {
        raw_interest(c, EPOLLOUT);
    }
    memcpy(c->rest + c->rest_size, data + n, size - (size_t)n);
    c->rest_size += size - (size_t)n;
    return true;
}

BENCH_UNUSED static bool raw_flush(raw_conn *c)
{
    ssize_t n = send(c->fd, c->rest, c->rest_size, MSG_NOSIGNAL);
    if (n < 0) {
        return errno == EAGAIN;
    }
    c->rest_size -= (size_t)n;
    memmove(c->rest, c->rest + n, c->rest_size);
    if (c->rest_size == 0) {
        raw_interest(c, EPOLLIN);
    }
    return true;
}
#endif
