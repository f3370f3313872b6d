/* Tests of cb_loop.h. Every case that touches the system runs over both backends; one named loop_a08_... or
 * loop_b01_... shows the fault kind of that number in the list of faults that tests/PITFALLS.md answers. */
#include <stddef.h>

/* The seam: every system call that can fail in an interesting way passes through a function of this file. */
static int seam_accept(int fd, void *address, void *size);
static int seam_connect(int fd, const void *address, unsigned size);
static int seam_socket(int family, int type, int protocol);
static ptrdiff_t seam_recv(int fd, void *data, size_t size);
static ptrdiff_t seam_send(int fd, const void *data, size_t size);
static ptrdiff_t seam_sendmsg(int fd, const void *message);
static int seam_epoll_wait(int fd, void *events, int count, int ms);
static int seam_poll(void *fds, unsigned long count, int ms);
#define CBI_LOOP_SYS_ACCEPT(fd, address, size) seam_accept(fd, address, size)
#define CBI_LOOP_SYS_CONNECT(fd, address, size) seam_connect(fd, address, size)
#define CBI_LOOP_SYS_SOCKET(family, type, protocol) seam_socket(family, type, protocol)
#define CBI_LOOP_SYS_RECV(fd, data, size) seam_recv(fd, data, size)
#define CBI_LOOP_SYS_SEND(fd, data, size) seam_send(fd, data, size)
#define CBI_LOOP_SYS_SENDMSG(fd, message) seam_sendmsg(fd, message)
#define CBI_LOOP_SYS_EPOLL_WAIT(fd, events, count, ms) seam_epoll_wait(fd, events, count, ms)
#define CBI_LOOP_SYS_POLL(fds, count, ms) seam_poll(fds, count, ms)

#define CB_LOOP_IMPLEMENTATION
#include "cb_loop.h"
#ifndef CB_LOOP_IMPLEMENTED
#error "the implementation was not compiled"
#endif
#include "support/cbt.h"
#include "support/cbt_malloc.h"
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#define MS UINT64_C(1000000)
#define SEC UINT64_C(1000000000)

/* -------------------------------------- the seam and its faults --------------------------------------- */

typedef struct faults {
    int accept_error, accept_times;
    int connect_error, socket_error;
    int recv_error, recv_times;
    int send_error, send_times;
    size_t send_max; /* 0: no limit; else every second call is refused and the others take this much */
    bool send_turn;
    size_t recv_max;
    unsigned accepts, waits, sends, recvs;
    int last_ms;
    bool no_wait;      /* waits return at once, as if the time had passed */
    uint64_t *advance; /* a clock that they then move */
} faults;
static __thread faults fault; /* a loop in another thread has its own */

static int seam_accept(int fd, void *address, void *size)
{
    fault.accepts++;
    if (fault.accept_times > 0) {
        fault.accept_times--;
        errno = fault.accept_error;
        return -1;
    }
#if defined(__linux__)
    return accept4(fd, (struct sockaddr *)address, (socklen_t *)size, SOCK_NONBLOCK | SOCK_CLOEXEC);
#else
    fd = accept(fd, (struct sockaddr *)address, (socklen_t *)size);
    if (fd >= 0) {
        fcntl(fd, F_SETFL, O_NONBLOCK);
    }
    return fd;
#endif
}

static int seam_connect(int fd, const void *address, unsigned size)
{
    if (fault.connect_error != 0) {
        errno = fault.connect_error;
        return -1;
    }
    return connect(fd, (const struct sockaddr *)address, (socklen_t)size);
}

static int seam_socket(int family, int type, int protocol)
{
    if (fault.socket_error != 0) {
        errno = fault.socket_error;
        return -1;
    }
    return socket(family, type, protocol);
}

static ptrdiff_t seam_recv(int fd, void *data, size_t size)
{
    fault.recvs++;
    if (fault.recv_times > 0) {
        fault.recv_times--;
        errno = fault.recv_error;
        return -1;
    }
    return recv(fd, data, fault.recv_max != 0 && size > fault.recv_max ? fault.recv_max : size, 0);
}

static bool send_fault(void)
{
    fault.sends++;
    if (fault.send_times > 0) {
        fault.send_times--;
        errno = fault.send_error;
        return true;
    }
    fault.send_turn = !fault.send_turn;
    if (fault.send_max != 0 && fault.send_turn) {
        errno = fault.sends % 3 == 0 ? EINTR : EAGAIN;
        return true;
    }
    return false;
}

static ptrdiff_t seam_send(int fd, const void *data, size_t size)
{
    if (send_fault()) {
        return -1;
    }
    return send(fd, data, fault.send_max != 0 && size > fault.send_max ? fault.send_max : size, MSG_NOSIGNAL);
}

static ptrdiff_t seam_sendmsg(int fd, const void *message)
{
    struct msghdr m = *(const struct msghdr *)message;
    struct iovec v[64];
    size_t i, left = fault.send_max;
    if (send_fault()) {
        return -1;
    }
    for (i = 0; i < (size_t)m.msg_iovlen && fault.send_max != 0; i++) {
        v[i] = m.msg_iov[i];
        v[i].iov_len = v[i].iov_len < left ? v[i].iov_len : left;
        left -= v[i].iov_len;
    }
    m.msg_iov = fault.send_max != 0 ? v : m.msg_iov;
    return sendmsg(fd, &m, MSG_NOSIGNAL);
}

static int seam_wait(int ms)
{
    fault.waits++;
    fault.last_ms = ms;
    if (fault.no_wait && ms != 0) {
        if (fault.advance != NULL) {
            *fault.advance += (uint64_t)(unsigned)ms * MS;
        }
        return 0;
    }
    return ms;
}

static int seam_epoll_wait(int fd, void *events, int count, int ms)
{
#if defined(__linux__)
    return epoll_wait(fd, (struct epoll_event *)events, count, seam_wait(ms));
#else
    (void)fd;
    (void)events;
    (void)count;
    (void)ms;
    return -1;
#endif
}

static int seam_poll(void *fds, unsigned long count, int ms)
{
    return poll((struct pollfd *)fds, (nfds_t)count, seam_wait(ms));
}

/* --------------------------------------------- the world ---------------------------------------------- */

enum { PEERS = 16 };
typedef struct world world;

typedef struct peer { /* one end of a stream, and all that was seen of it */
    cb_loop_stream s;
    world *w;
    uint8_t *got;
    size_t got_size, got_cap;
    unsigned shows, opens, ends, drains, closes;
    size_t largest, last_size;
    cb_loop_status why;
    char reason[160];
    bool late; /* a callback came after on_closed, or out of order */
    bool used, echo, keep_all, stay_on_end;
    size_t eat;        /* most that one on_data consumes; 0: all */
    size_t want;       /* wanted at each on_data that leaves something */
    void (*hook)(struct peer *p, char event); /* 'o' 'd' 'e' 'r' 'c' */
    void *extra;
} peer;

struct world {
    cb_loop loop;
    cb_loop_listener listener;
    cb_loop_stream_desc stream; /* for both ends; set before listen and connect */
    cb_loop_listener_desc listen;
    int backend;
    cbt_mem mem;
    uint64_t time;
    char url[96];
    peer server[PEERS], client[PEERS];
    peer template_server;
    unsigned accepted, refused, listener_closed;
    bool refuse;
    uint16_t port;
};

static uint64_t world_clock(void *user)
{
    return ((world *)user)->time;
}

static uint64_t real_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * SEC + (uint64_t)ts.tv_nsec;
}

static void hook(peer *p, char event)
{
    if (p->hook != NULL) {
        p->hook(p, event);
    }
}

static void peer_seen(peer *p)
{
    p->late = p->late || p->closes != 0;
}

static void peer_store(peer *p, const uint8_t *data, size_t size)
{
    if (p->got_size + size > p->got_cap) {
        p->got_cap = (p->got_size + size) * 2u;
        p->got = (uint8_t *)realloc(p->got, p->got_cap);
    }
    if (size != 0) {
        memcpy(p->got + p->got_size, data, size);
    }
    p->got_size += size;
}

static size_t peer_on_data(void *user, cb_loop_stream *s, cb_span in)
{
    peer *p = (peer *)user;
    size_t used = in.size;
    peer_seen(p);
    p->late = p->late || p->opens == 0 || p->ends != 0;
    p->shows++;
    p->last_size = in.size;
    p->largest = in.size > p->largest ? in.size : p->largest;
    hook(p, 'd');
    if (p->eat != 0 && used > p->eat) {
        used = p->eat;
    }
    if (p->keep_all) {
        used = 0;
    }
    if (p->echo) {
        used = cb_loop_stream_write(s, in.data, used);
    }
    peer_store(p, in.data, used);
    if (p->want != 0 && in.size - used < p->want) {
        cb_loop_stream_want(s, p->want);
    }
    return used;
}

static void peer_on_open(void *user, cb_loop_stream *s)
{
    peer *p = (peer *)user;
    (void)s;
    peer_seen(p);
    p->opens++;
    hook(p, 'o');
}

static void peer_on_end(void *user, cb_loop_stream *s)
{
    peer *p = (peer *)user;
    peer_seen(p);
    p->ends++;
    hook(p, 'e');
    if (!p->stay_on_end) {
        cb_loop_stream_close(s);
    }
}

static void peer_on_drain(void *user, cb_loop_stream *s)
{
    peer *p = (peer *)user;
    (void)s;
    peer_seen(p);
    p->drains++;
    hook(p, 'r');
}

static void peer_on_closed(void *user, cb_loop_stream *s, cb_loop_status why)
{
    peer *p = (peer *)user;
    p->closes++;
    p->why = why;
    snprintf(p->reason, sizeof p->reason, "%s", cb_loop_stream_reason(s));
    hook(p, 'c');
    if (p->closes == 1 && s == &p->s) {
        memset(s, 0xA5, sizeof *s); /* A-01: the memory is ours */
    }
}

static cb_loop_stream *world_on_accept(void *user, cb_loop_listener *l, const cb_loop_address *from,
                                       void **stream_user)
{
    world *w = (world *)user;
    peer *p = &w->server[w->accepted];
    CBT_CHECK(l == &w->listener);
    CBT_CHECK(from->port != 0);
    if (w->refuse || w->accepted == PEERS) {
        w->refused++;
        return NULL;
    }
    w->accepted++;
    *p = w->template_server;
    p->w = w;
    p->used = true;
    *stream_user = p;
    return &p->s;
}

static void world_on_listener_closed(void *user, cb_loop_listener *l)
{
    (void)l;
    ((world *)user)->listener_closed++;
}

/* A loop of its own, nothing listening yet. With a virtual clock its time moves by hand. */
static bool world_begin(world *w, int backend, bool virtual_clock)
{
    cb_loop_desc d;
    memset(w, 0, sizeof *w);
    memset(&fault, 0, sizeof fault);
    memset(&d, 0, sizeof d);
    w->backend = backend;
    w->time = 1000 * SEC;
    d.backend = backend;
    d.alloc.alloc = cbt_mem_alloc;
    d.alloc.release = cbt_mem_release;
    d.alloc.user = &w->mem;
    d.clock = virtual_clock ? world_clock : NULL;
    d.clock_user = w;
    w->stream.on_data = peer_on_data;
    w->stream.on_open = peer_on_open;
    w->stream.on_end = peer_on_end;
    w->stream.on_drain = peer_on_drain;
    w->stream.on_closed = peer_on_closed;
    w->listen.url = "tcp://127.0.0.1:0";
    w->listen.on_accept = world_on_accept;
    w->listen.on_closed = world_on_listener_closed;
    w->listen.user = w;
    return cb_loop_init(&w->loop, &d) == CB_LOOP_OK;
}

static cb_loop_status world_listen(world *w)
{
    cb_loop_address a;
    cb_loop_status st;
    w->listen.stream = w->stream;
    st = cb_loop_listen(&w->loop, &w->listener, &w->listen);
    if (st == CB_LOOP_OK) {
        CBT_EQ(cb_loop_listener_address(&w->listener, &a), CB_LOOP_OK);
        w->port = cb_loop_address_port(&a);
        memcpy(w->url, "tcp://", 7);
        cb_loop_address_str(&a, w->url + 6, sizeof w->url - 6);
    }
    return st;
}

static cb_loop_status world_connect(world *w, peer *p)
{
    cb_loop_connect_desc d;
    memset(&d, 0, sizeof d);
    d.url = w->url;
    d.stream = w->stream;
    d.stream.user = p;
    p->w = w;
    p->used = true;
    return cb_loop_connect(&w->loop, &p->s, &d);
}

/* Passes until the condition holds, for at most 20 s of real time. */
#define UNTIL(w, condition) \
    do { \
        uint64_t until_ = real_ns() + 20 * SEC; \
        while (!(condition) && real_ns() < until_) { \
            cb_loop_step(&(w)->loop, 2 * MS); \
        } \
        CBT_CHECK(condition); \
    } while (0)

static void world_steps(world *w, int count)
{
    while (count-- > 0) {
        cb_loop_step(&w->loop, 0);
    }
}

/* Every stream that was handed over has had its one notice, and no memory is left. */
static void world_end(world *w)
{
    int i;
    memset(&fault, 0, sizeof fault);
    cb_loop_deinit(&w->loop);
    for (i = 0; i < PEERS; i++) {
        CBT_EQ(w->server[i].closes, w->server[i].used ? 1 : 0);
        CBT_EQ(w->client[i].closes, w->client[i].used ? 1 : 0);
        CBT_CHECK(!w->server[i].late && !w->client[i].late);
        free(w->server[i].got);
        free(w->client[i].got);
    }
    CBT_EQ(w->mem.live_bytes, 0);
}

/* One connected pair: server[n] and client[n]. */
static bool world_pair(world *w)
{
    unsigned n = w->accepted;
    if (world_connect(w, &w->client[n]) != CB_LOOP_OK) {
        return false;
    }
    UNTIL(w, w->accepted == n + 1 && w->server[n].opens == 1 && w->client[n].opens == 1);
    return w->client[n].opens == 1;
}

/* A plain blocking socket as the peer; it may misbehave. */
static int raw_connect(const world *w)
{
    struct sockaddr_in in;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    memset(&in, 0, sizeof in);
    in.sin_family = AF_INET;
    in.sin_port = htons(w->port);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)(void *)&in, sizeof in) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void raw_reset(int fd)
{
    struct linger now;
    now.l_onoff = 1;
    now.l_linger = 0;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

static bool raw_send(int fd, const void *data, size_t size)
{
    return send(fd, data, size, MSG_NOSIGNAL) == (ptrdiff_t)size;
}

/* Both backends, one after the other. */
typedef void (*world_case)(world *w, int backend);
static void on_both(world_case fn)
{
    static world w; /* large */
    int backend;
#if defined(__linux__)
    for (backend = CB_LOOP_BACKEND_EPOLL; backend <= CB_LOOP_BACKEND_POLL; backend++) {
#else
    for (backend = CB_LOOP_BACKEND_POLL; backend <= CB_LOOP_BACKEND_POLL; backend++) {
#endif
        fn(&w, backend);
    }
}
#define BOTH(name) \
    static void name##_on(world *w, int backend); \
    static void name(void) \
    { \
        on_both(name##_on); \
    } \
    static void name##_on(world *w, int backend)

static void pattern_fill(uint8_t *data, size_t size, uint64_t at)
{
    size_t i;
    for (i = 0; i < size; i++) {
        data[i] = (uint8_t)((at + i) * 2654435761u >> 13);
    }
}

/* ----------------------------------------------- timers ----------------------------------------------- */

enum { MODEL = 3000 };
typedef struct model_timer {
    cb_loop_timer t;
    uint64_t deadline, order;
    bool active;
} model_timer;
static model_timer model[MODEL];
static uint64_t model_order, model_last_deadline, model_last_order;
static unsigned model_fired, model_wrong;
static cb_loop *model_loop;

static void model_on_time(void *user, cb_loop_timer *t, uint64_t now)
{
    model_timer *m = (model_timer *)user;
    (void)t;
    model_wrong += !m->active || m->deadline > now;
    model_wrong += m->deadline < model_last_deadline ||
                   (m->deadline == model_last_deadline && m->order < model_last_order);
    model_last_deadline = m->deadline;
    model_last_order = m->order;
    m->active = false;
    model_fired++;
}

static void model_start(world *w, model_timer *m, uint64_t delay)
{
    m->deadline = cb_loop_now(&w->loop) + delay;
    m->order = ++model_order;
    m->active = true;
    CBT_EQ(cb_loop_timer_start(model_loop, &m->t, delay), CB_LOOP_OK);
}

/* Deadlines of every size, restarts and stops, against a plain array. */
static void loop_timers_run_in_exact_order(void)
{
    static world w;
    static const uint64_t spans[] = {
        1, 3, 60, 64, 5000, 300000, 20000000, UINT64_C(4000000000), UINT64_C(90000000000000)
    };
    int round, i;
    CBT_REQUIRE(world_begin(&w, CB_LOOP_BACKEND_DEFAULT, true));
    model_loop = &w.loop;
    model_wrong = 0;
    for (i = 0; i < MODEL; i++) {
        cb_loop_timer_init(&model[i].t, model_on_time, &model[i]);
        model[i].active = false;
    }
    for (round = 0; round < 4000; round++) {
        uint64_t due = UINT64_MAX;
        for (i = 0; i < 12; i++) {
            model_timer *m = &model[cbt_rand_below(MODEL)];
            if (cbt_rand_below(5) == 0) {
                cb_loop_timer_stop(&w.loop, &m->t);
                m->active = false;
            } else {
                model_start(&w, m, cbt_rand() % spans[cbt_rand_below(9)]);
            }
        }
        w.time += cbt_rand() % spans[cbt_rand_below(8)];
        model_last_deadline = 0;
        world_steps(&w, 1);
        for (i = 0; i < MODEL; i++) {
            CBT_EQ(cb_loop_timer_is_active(&model[i].t), model[i].active);
            due = model[i].active && model[i].deadline < due ? model[i].deadline : due;
        }
        CBT_CHECK(due > w.time);
    }
    CBT_EQ(model_wrong, 0);
    CBT_CHECK(model_fired > 10000);
    world_end(&w);
}

typedef struct timer_note {
    cb_loop_timer t;
    cb_loop *loop;
    unsigned fired;
    uint64_t at;
    struct timer_note *other;
    int act;
} timer_note;

static void note_on_time(void *user, cb_loop_timer *t, uint64_t now)
{
    timer_note *n = (timer_note *)user;
    n->fired++;
    n->at = now;
    switch (n->act) {
    case 1: cb_loop_timer_start(n->loop, t, 0); break;
    case 2: cb_loop_timer_stop(n->loop, &n->other->t); break;
    case 3: memset(n, 0, sizeof *n); free(n); break;
    case 4: cb_loop_timer_stop(n->loop, t); break;
    case 5: cb_loop_stop(n->loop); break;
    default: break;
    }
}

static void note_init(timer_note *n, cb_loop *loop, int act)
{
    memset(n, 0, sizeof *n);
    cb_loop_timer_init(&n->t, note_on_time, n);
    n->loop = loop;
    n->act = act;
}

/* A timer that always starts itself anew with no delay runs once a pass, and sockets are served beside it. */
BOTH(loop_a08_zero_delay_timer_does_not_starve)
{
    timer_note n;
    CBT_REQUIRE(world_begin(w, backend, false) && world_listen(w) == CB_LOOP_OK);
    note_init(&n, &w->loop, 1);
    cb_loop_timer_start(&w->loop, &n.t, 0);
    world_steps(w, 1);
    CBT_EQ(n.fired, 1);
    w->template_server.echo = true;
    CBT_REQUIRE(world_pair(w));
    CBT_EQ(cb_loop_stream_write(&w->client[0].s, "ping", 4), 4);
    UNTIL(w, w->client[0].got_size == 4);
    cb_loop_timer_stop(&w->loop, &n.t);
    world_end(w);
}

BOTH(loop_a09_timers_stop_each_other_and_free_themselves)
{
    timer_note a, b, *c = (timer_note *)malloc(sizeof *c), every;
    CBT_REQUIRE(c != NULL && world_begin(w, backend, true));
    note_init(&a, &w->loop, 2);
    note_init(&b, &w->loop, 2);
    note_init(c, &w->loop, 3);
    note_init(&every, &w->loop, 4);
    a.other = &b;
    b.other = &a;
    cb_loop_timer_start(&w->loop, &a.t, 10);
    cb_loop_timer_start(&w->loop, &b.t, 10);
    cb_loop_timer_start(&w->loop, &c->t, 10);
    cb_loop_timer_start_every(&w->loop, &every.t, 10, 10);
    w->time += 10;
    world_steps(w, 1);
    w->time += 100;
    world_steps(w, 3);
    CBT_EQ(a.fired + b.fired, 1);
    CBT_EQ(every.fired, 1);
    CBT_CHECK(!cb_loop_timer_is_active(&a.t) && !cb_loop_timer_is_active(&b.t) &&
              !cb_loop_timer_is_active(&every.t));
    cb_loop_timer_stop(&w->loop, &a.t);
    world_end(w);
}

static timer_note late_timer;
static uint64_t late_begin;
static void late_hook(peer *p, char event)
{
    if (event == 'c') {
        late_begin = real_ns();
        cb_loop_timer_start(&p->w->loop, &late_timer.t, 20 * MS);
    }
}

/* A timer started by the last callback of a pass counts for the wait that follows. */
BOTH(loop_a10_timer_started_late_in_the_pass_is_not_missed)
{
    CBT_REQUIRE(world_begin(w, backend, false) && world_listen(w) == CB_LOOP_OK && world_pair(w));
    note_init(&late_timer, &w->loop, 5);
    w->client[0].hook = late_hook;
    cb_loop_stream_abort(&w->client[0].s, CB_LOOP_E_STATE);
    CBT_EQ(cb_loop_run(&w->loop), CB_LOOP_OK);
    CBT_EQ(late_timer.fired, 1);
    CBT_CHECK(real_ns() - late_begin >= 20 * MS && real_ns() - late_begin < 10 * SEC);
    world_end(w);
}

static uint64_t slow_begin;
static void slow_on_time(void *user, cb_loop_timer *t, uint64_t now)
{
    timer_note *n = (timer_note *)user;
    uint64_t begin = real_ns();
    (void)t;
    (void)now;
    while (real_ns() - begin < 30 * MS) {
    }
    slow_begin = real_ns();
    cb_loop_timer_start(n->loop, &n->other->t, 40 * MS);
}

/* A callback that blocks for 30 ms and then asks for 40 ms gets no less. */
BOTH(loop_a11_delay_after_a_slow_callback_is_not_short)
{
    timer_note a, b;
    CBT_REQUIRE(world_begin(w, backend, false));
    note_init(&a, &w->loop, 0);
    note_init(&b, &w->loop, 5);
    cb_loop_timer_init(&a.t, slow_on_time, &a);
    a.other = &b;
    cb_loop_timer_start(&w->loop, &a.t, 0);
    CBT_EQ(cb_loop_run(&w->loop), CB_LOOP_OK);
    CBT_CHECK(real_ns() - slow_begin >= 40 * MS);
    world_end(w);
}

BOTH(loop_a11_interval_keeps_its_phase_and_skips_what_was_missed)
{
    timer_note n;
    uint64_t begin;
    CBT_REQUIRE(world_begin(w, backend, true));
    begin = w->time;
    note_init(&n, &w->loop, 0);
    CBT_EQ(cb_loop_timer_start_every(&w->loop, &n.t, 5, 0), CB_LOOP_E_ARG);
    CBT_EQ(cb_loop_timer_start_every(&w->loop, &n.t, 5, 100), CB_LOOP_OK);
    w->time = begin + 4;
    world_steps(w, 1);
    CBT_EQ(n.fired, 0);
    w->time = begin + 5;
    world_steps(w, 2);
    CBT_EQ(n.fired, 1);
    w->time = begin + 5 + 370; /* three were missed */
    world_steps(w, 2);
    CBT_EQ(n.fired, 2);
    w->time = begin + 5 + 399;
    world_steps(w, 1);
    CBT_EQ(n.fired, 2);
    w->time = begin + 5 + 400;
    world_steps(w, 1);
    CBT_EQ(n.fired, 3);
    world_end(w);
}

BOTH(loop_a13_clock_that_steps_back_stands_still)
{
    timer_note n;
    CBT_REQUIRE(world_begin(w, backend, true));
    note_init(&n, &w->loop, 0);
    cb_loop_timer_start(&w->loop, &n.t, 2 * MS);
    w->time -= 3 * MS;
    world_steps(w, 1);
    CBT_EQ(cb_loop_now(&w->loop), 1000 * SEC);
    w->time = 1000 * SEC + 2 * MS - 1;
    world_steps(w, 1);
    CBT_EQ(n.fired, 0);
    w->time += 1;
    world_steps(w, 1);
    CBT_EQ(n.fired, 1);
    world_end(w);
}

/* Timers across the moments at which narrow counters of milli- and nanoseconds wrap. */
BOTH(loop_a14_timers_cross_the_wrap_of_narrow_counters)
{
    static const uint64_t ends[] = { UINT64_C(1) << 31, UINT64_C(1) << 32, (UINT64_C(1) << 31) * MS,
                                     (UINT64_C(1) << 32) * MS, UINT64_C(1) << 63 };
    size_t i;
    for (i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        timer_note n;
        CBT_REQUIRE(world_begin(w, backend, true));
        w->time = ends[i] > 1000 * SEC ? ends[i] - 5 : ends[i] + 1000 * SEC;
        world_steps(w, 1);
        note_init(&n, &w->loop, 0);
        cb_loop_timer_start(&w->loop, &n.t, 10);
        w->time += 9;
        world_steps(w, 1);
        CBT_EQ(n.fired, 0);
        w->time += 1;
        world_steps(w, 1);
        CBT_EQ(n.fired, 1);
        world_end(w);
    }
}

BOTH(loop_a15_very_long_delays_neither_fire_nor_wrap)
{
    static const uint64_t delays[] = { (UINT64_C(1) << 31) * MS, (UINT64_C(1) << 32) * MS, UINT64_MAX / 2,
                                       UINT64_MAX - 1, UINT64_MAX };
    size_t i;
    for (i = 0; i < sizeof delays / sizeof delays[0]; i++) {
        timer_note n;
        CBT_REQUIRE(world_begin(w, backend, true));
        note_init(&n, &w->loop, 0);
        cb_loop_timer_start(&w->loop, &n.t, delays[i]);
        fault.no_wait = true;
        cb_loop_step(&w->loop, CB_LOOP_FOREVER);
        CBT_EQ(n.fired, 0);
        CBT_CHECK(fault.last_ms > 1000000);
        w->time += SEC;
        world_steps(w, 1);
        CBT_EQ(n.fired, 0);
        CBT_CHECK(cb_loop_timer_is_active(&n.t));
        world_end(w);
    }
}

/* 300 us left: one wait of 1 ms, not many of 0. */
BOTH(loop_a16_wait_is_rounded_up)
{
    timer_note n;
    CBT_REQUIRE(world_begin(w, backend, true));
    note_init(&n, &w->loop, 0);
    cb_loop_timer_start(&w->loop, &n.t, 300000);
    fault.no_wait = true;
    fault.advance = &w->time;
    cb_loop_step(&w->loop, CB_LOOP_FOREVER);
    while (n.fired == 0 && fault.waits < 10) {
        cb_loop_step(&w->loop, CB_LOOP_FOREVER);
    }
    CBT_EQ(n.fired, 1);
    CBT_CHECK(fault.waits <= 2);
    world_end(w);
}

static void on_alarm(int number)
{
    (void)number;
}

/* A signal 100 times a second during a wait of 200 ms. */
BOTH(loop_a19_interrupted_wait_goes_on_with_the_time_left)
{
    struct itimerval every, off;
    struct sigaction act, old;
    timer_note n;
    uint64_t begin = real_ns();
    memset(&every, 0, sizeof every);
    memset(&off, 0, sizeof off);
    memset(&act, 0, sizeof act);
    act.sa_handler = on_alarm;
    CBT_REQUIRE(world_begin(w, backend, false));
    CBT_REQUIRE(sigaction(SIGALRM, &act, &old) == 0);
    every.it_interval.tv_usec = 10000;
    every.it_value.tv_usec = 10000;
    setitimer(ITIMER_REAL, &every, NULL);
    note_init(&n, &w->loop, 5);
    cb_loop_timer_start(&w->loop, &n.t, 200 * MS);
    CBT_EQ(cb_loop_run(&w->loop), CB_LOOP_OK);
    setitimer(ITIMER_REAL, &off, NULL);
    sigaction(SIGALRM, &old, NULL);
    CBT_EQ(n.fired, 1);
    CBT_CHECK(real_ns() - begin >= 200 * MS && real_ns() - begin < 10 * SEC);
    world_end(w);
}

static void loop_timers_are_inactive_after_deinit(void)
{
    static world w;
    timer_note a, b, c;
    CBT_REQUIRE(world_begin(&w, CB_LOOP_BACKEND_DEFAULT, true));
    note_init(&a, &w.loop, 0);
    note_init(&b, &w.loop, 0);
    note_init(&c, &w.loop, 0);
    cb_loop_timer_start(&w.loop, &a.t, 5 * SEC);
    world_steps(&w, 1);
    cb_loop_timer_start_at(&w.loop, &b.t, 1);
    cb_loop_timer_start_every(&w.loop, &c.t, 1, 1);
    world_end(&w);
    CBT_CHECK(!cb_loop_timer_is_active(&a.t) && !cb_loop_timer_is_active(&b.t) &&
              !cb_loop_timer_is_active(&c.t));
    cb_loop_timer_stop(&w.loop, &a.t);
    CBT_EQ(cb_loop_timer_start(&w.loop, &a.t, 1), CB_LOOP_E_CLOSED);
    CBT_EQ(a.fired + b.fired + c.fired, 0);
}

/* A start of absolute time that has passed takes its place among those that are due. */
static void loop_timers_past_deadlines_run_in_their_order(void)
{
    static world w;
    timer_note a, b, c;
    CBT_REQUIRE(world_begin(&w, CB_LOOP_BACKEND_DEFAULT, true));
    note_init(&a, &w.loop, 2);
    note_init(&b, &w.loop, 0);
    note_init(&c, &w.loop, 2);
    a.other = &b; /* each would stop b, if it came first */
    c.other = &b;
    cb_loop_timer_start_at(&w.loop, &a.t, 50);
    cb_loop_timer_start(&w.loop, &c.t, 5);
    cb_loop_timer_start_at(&w.loop, &b.t, 20);
    w.time += 10;
    world_steps(&w, 1);
    CBT_EQ(b.fired, 1);
    CBT_EQ(a.fired + c.fired, 2);
    world_end(&w);
}

/* ------------------------------------- clock, pass, posts, events ------------------------------------- */

static unsigned clock_reads;
static uint64_t counting_clock(void *user)
{
    clock_reads++;
    return ((world *)user)->time;
}

/* No handles: no system call; nobody asks for the time: no reading of the clock, else one a pass. */
BOTH(loop_pass_without_handles_makes_no_system_call)
{
    cb_loop loop;
    cb_loop_desc d;
    timer_note n;
    (void)world_begin(w, backend, true);
    memset(&d, 0, sizeof d);
    d.backend = backend;
    d.clock = counting_clock;
    d.clock_user = w;
    CBT_REQUIRE(cb_loop_init(&loop, &d) == CB_LOOP_OK);
    fault.waits = 0;
    note_init(&n, &loop, 1);
    cb_loop_timer_start(&loop, &n.t, 0);
    clock_reads = 0;
    cb_loop_step(&loop, 0);
    cb_loop_step(&loop, 0);
    CBT_EQ(n.fired, 2);
    CBT_EQ(fault.waits, 0);
    CBT_EQ(clock_reads, 2);
    cb_loop_deinit(&loop);
    world_end(w);
}

typedef struct post_note {
    cb_loop_task task;
    cb_loop *loop;
    unsigned ran, closed, again, nested, stop_at;
    uint32_t number;
} post_note;

static void post_on_run(void *user, cb_loop_task *t, cb_loop_status st)
{
    post_note *n = (post_note *)user;
    n->ran += st == CB_LOOP_OK;
    n->closed += st == CB_LOOP_E_CLOSED;
    if (n->ran == n->stop_at && st == CB_LOOP_OK) {
        cb_loop_stop(n->loop);
    }
    CBT_CHECK(cb_loop_in_callback(n->loop));
    n->nested += cb_loop_run(n->loop) == CB_LOOP_E_BUSY && cb_loop_step(n->loop, 0) == CB_LOOP_E_BUSY;
    if (n->again > 0) {
        n->again--;
        CBT_EQ(cb_loop_post(n->loop, t), st == CB_LOOP_OK ? CB_LOOP_OK : CB_LOOP_E_CLOSED);
    }
}

static void post_init(post_note *n, cb_loop *loop)
{
    memset(n, 0, sizeof *n);
    n->loop = loop;
    cb_loop_task_init(&n->task, post_on_run, n);
}

/* From the own thread: in order, once, what a task posts runs in the next pass, and nobody enters the loop
 * twice. */
BOTH(loop_posts_run_once_and_reposts_in_the_next_pass)
{
    post_note n;
    CBT_REQUIRE(world_begin(w, backend, false));
    post_init(&n, &w->loop);
    n.again = 2;
    CBT_EQ(cb_loop_post(&w->loop, &n.task), CB_LOOP_OK);
    CBT_CHECK(!cb_loop_in_callback(&w->loop));
    world_steps(w, 1);
    CBT_EQ(n.ran, 1);
    world_steps(w, 1);
    CBT_EQ(n.ran, 2);
    world_steps(w, 2);
    CBT_EQ(n.ran, 3);
    CBT_EQ(n.nested, 3);
    n.again = 1;
    CBT_EQ(cb_loop_post(&w->loop, &n.task), CB_LOOP_OK);
    world_end(w);
    CBT_EQ(n.closed, 1);
    CBT_EQ(cb_loop_post(&w->loop, &n.task), CB_LOOP_E_CLOSED);
}

enum { POSTERS = 3, POSTS = 4000 };
typedef struct poster {
    pthread_t thread;
    cb_loop *loop;
    cb_loop_task task[POSTS];
    uint32_t next, wrong, posted, given_back;
} poster;
static poster posters[POSTERS];

static void poster_on_run(void *user, cb_loop_task *t, cb_loop_status st)
{
    poster *p = (poster *)user;
    if (st == CB_LOOP_E_CLOSED) {
        p->given_back++;
    }
    p->wrong += t != &p->task[p->next];
    p->next++;
}

static void *poster_main(void *arg)
{
    poster *p = (poster *)arg;
    uint32_t i;
    for (i = 0; i < POSTS; i++) {
        cb_loop_task_init(&p->task[i], poster_on_run, p);
        if (cb_loop_post(p->loop, &p->task[i]) != CB_LOOP_OK) {
            break;
        }
        p->posted++;
    }
    return NULL;
}

static void posters_start(cb_loop *loop)
{
    int i;
    memset(posters, 0, sizeof posters);
    for (i = 0; i < POSTERS; i++) {
        posters[i].loop = loop;
        CBT_EQ(pthread_create(&posters[i].thread, NULL, poster_main, &posters[i]), 0);
    }
}

static void posters_join(void)
{
    int i;
    for (i = 0; i < POSTERS; i++) {
        pthread_join(posters[i].thread, NULL);
        CBT_EQ(posters[i].wrong, 0);
        CBT_EQ(posters[i].next, posters[i].posted);
    }
}

/* Three threads post while the loop sleeps and works; each one's tasks run in its order. */
BOTH(loop_a17_posts_from_threads_are_neither_lost_nor_late)
{
    CBT_REQUIRE(world_begin(w, backend, false));
    posters_start(&w->loop);
    UNTIL(w, posters[0].next == POSTS && posters[1].next == POSTS && posters[2].next == POSTS);
    posters_join();
    world_end(w);
}

/* The loop ends while threads post: each task runs, is given back, or was refused. */
BOTH(loop_a18_end_of_the_loop_races_with_posters)
{
    int round;
    for (round = 0; round < 12; round++) {
        CBT_REQUIRE(world_begin(w, backend, false));
        posters_start(&w->loop);
        cb_loop_step(&w->loop, 1 * MS);
        cb_loop_step(&w->loop, 0);
        world_end(w);
        posters_join();
    }
}

static void *stopper_main(void *arg)
{
    cb_loop_stop((cb_loop *)arg);
    return NULL;
}

/* Nothing is registered: run sleeps until it is stopped, by a thread or by a stop asked for before. */
BOTH(loop_a20_run_ends_by_stop_alone)
{
    pthread_t thread;
    CBT_REQUIRE(world_begin(w, backend, false));
    CBT_EQ(pthread_create(&thread, NULL, stopper_main, &w->loop), 0);
    CBT_EQ(cb_loop_run(&w->loop), CB_LOOP_OK);
    pthread_join(thread, NULL);
    cb_loop_stop(&w->loop);
    cb_loop_stop(&w->loop);
    CBT_EQ(cb_loop_run(&w->loop), CB_LOOP_OK);
    world_end(w);
    cb_loop_stop(&w->loop);
}

static unsigned stop_calls;
static void stopping_on_time(void *user, cb_loop_timer *t, uint64_t now)
{
    world *w = (world *)user;
    (void)now;
    stop_calls++;
    cb_loop_stop(&w->loop);
    CBT_EQ(cb_loop_timer_start(&w->loop, t, 0), CB_LOOP_OK);
}

/* A stop asked for in a callback ends the run after that very pass, and ends one run only; one that is asked
 * for behind it ends the next. */
BOTH(loop_stop_in_a_callback_ends_that_pass)
{
    cb_loop_timer t;
    post_note n;
    CBT_REQUIRE(world_begin(w, backend, false));
    cb_loop_timer_init(&t, stopping_on_time, w);
    stop_calls = 0;
    CBT_EQ(cb_loop_timer_start(&w->loop, &t, 0), CB_LOOP_OK);
    CBT_EQ(cb_loop_run(&w->loop), CB_LOOP_OK);
    CBT_EQ(stop_calls, 1);
    CBT_EQ(cb_loop_run(&w->loop), CB_LOOP_OK);
    CBT_EQ(stop_calls, 2);
    cb_loop_timer_stop(&w->loop, &t);
    cb_loop_stop(&w->loop);
    CBT_EQ(cb_loop_run(&w->loop), CB_LOOP_OK);
    post_init(&n, &w->loop);
    n.stop_at = 3;
    n.again = 9;
    CBT_EQ(cb_loop_post(&w->loop, &n.task), CB_LOOP_OK);
    CBT_EQ(cb_loop_run(&w->loop), CB_LOOP_OK); /* no earlier stop is left to end it */
    CBT_EQ(n.ran, 3);
    n.again = 0;
    cb_loop_stop(&w->loop); /* what the last one left in the queue does not swallow it */
    CBT_EQ(cb_loop_run(&w->loop), CB_LOOP_OK);
    CBT_EQ(n.ran, 4);
    world_end(w);
}

static cb_loop_task order_late;
static char order_log[8];
static void order_on_run(void *user, cb_loop_task *t, cb_loop_status st)
{
    (void)st;
    strncat(order_log, t == &order_late ? "2" : "1", 2);
    (void)user;
}

static void order_on_time(void *user, cb_loop_timer *t, uint64_t now)
{
    (void)t;
    (void)now;
    CBT_EQ(cb_loop_post(&((world *)user)->loop, &order_late), CB_LOOP_OK);
}

/* What a thread posted before it ran the loop comes before what it posts while it does. */
BOTH(loop_posts_keep_their_order_when_a_thread_takes_over)
{
    cb_loop_timer t;
    cb_loop_task early;
    CBT_REQUIRE(world_begin(w, backend, false));
    order_log[0] = 0;
    cb_loop_timer_init(&t, order_on_time, w);
    cb_loop_task_init(&early, order_on_run, NULL);
    cb_loop_task_init(&order_late, order_on_run, NULL);
    CBT_EQ(cb_loop_timer_start(&w->loop, &t, 0), CB_LOOP_OK);
    CBT_EQ(cb_loop_post(&w->loop, &early), CB_LOOP_OK);
    world_steps(w, 3);
    CBT_STR(order_log, "12");
    world_end(w);
}

static cb_loop *signal_loop;
static void on_signal(int number)
{
    (void)number;
    cb_loop_stop(signal_loop);
}

BOTH(loop_stop_from_a_signal_handler)
{
    struct itimerval once;
    struct sigaction act, old;
    memset(&once, 0, sizeof once);
    memset(&act, 0, sizeof act);
    act.sa_handler = on_signal;
    CBT_REQUIRE(world_begin(w, backend, false));
    signal_loop = &w->loop;
    CBT_REQUIRE(sigaction(SIGALRM, &act, &old) == 0);
    once.it_value.tv_usec = 5000;
    setitimer(ITIMER_REAL, &once, NULL);
    CBT_EQ(cb_loop_run(&w->loop), CB_LOOP_OK);
    sigaction(SIGALRM, &old, NULL);
    world_end(w);
}

typedef struct event_note {
    cb_loop_event_listener l;
    char name;
    void (*act)(struct event_note *n);
} event_note;
static char event_log[64];
static size_t event_logged;
static cb_loop_event the_event;
static event_note ev[6];

static void event_on(void *user, void *payload)
{
    event_note *n = (event_note *)user;
    CBT_CHECK(payload == event_log);
    event_log[event_logged++] = n->name;
    event_log[event_logged] = '\0';
    if (n->act != NULL) {
        n->act(n);
    }
}

static void event_act_edit(event_note *n)
{
    n->act = NULL;
    cb_loop_event_unlisten(&the_event, &ev[1].l); /* the next one */
    cb_loop_event_unlisten(&the_event, &n->l);    /* itself */
    cb_loop_event_listen(&the_event, &ev[4].l, 100); /* first, but from the next emit on */
    cb_loop_event_listen(&the_event, &ev[5].l, -5);
}

static void event_act_nest(event_note *n)
{
    n->act = NULL;
    cb_loop_event_emit(&the_event, event_log);
    cb_loop_event_unlisten(&the_event, &ev[3].l);
}

static void loop_events_keep_order_while_edited(void)
{
    int i;
    cb_loop_event_init(&the_event);
    event_logged = 0;
    for (i = 0; i < 6; i++) {
        cb_loop_event_listener_init(&ev[i].l, event_on, &ev[i]);
        ev[i].name = (char)('a' + i);
        ev[i].act = NULL;
    }
    cb_loop_event_listen(&the_event, &ev[2].l, 0);
    cb_loop_event_listen(&the_event, &ev[0].l, 10);
    cb_loop_event_listen(&the_event, &ev[3].l, 0);
    cb_loop_event_listen(&the_event, &ev[1].l, 5);
    cb_loop_event_emit(&the_event, event_log);
    CBT_STR(event_log, "abcd");
    event_logged = 0;
    ev[0].act = event_act_edit;
    cb_loop_event_emit(&the_event, event_log);
    CBT_STR(event_log, "acd");
    event_logged = 0;
    ev[2].act = event_act_nest;
    cb_loop_event_emit(&the_event, event_log);
    CBT_STR(event_log, "ececdff"); /* the inner one is whole, the outer one lost d */
    event_logged = 0;
    cb_loop_event_listen(&the_event, &ev[2].l, -9); /* again: moved */
    cb_loop_event_emit(&the_event, event_log);
    CBT_STR(event_log, "efc");
    for (i = 0; i < 6; i++) {
        cb_loop_event_unlisten(&the_event, &ev[i].l);
        cb_loop_event_unlisten(&the_event, &ev[i].l);
    }
    event_log[0] = '\0';
    cb_loop_event_emit(&the_event, event_log);
    CBT_STR(event_log, "");
}

/* --------------------------------------------- addresses ---------------------------------------------- */

static void loop_urls_say_what_is_wrong(void)
{
    static const char *const cases[][2] = {
        { "foo", "url 'foo': a scheme is missing, as in tcp://127.0.0.1:4000" },
        { "udp://127.0.0.1:1", "url 'udp://127.0.0.1:1': unknown scheme, only tcp is built so far" },
        { "tcp://", "url 'tcp://': a port is missing" },
        { "tcp://127.0.0.1", "url 'tcp://127.0.0.1': a port is missing" },
        { "tcp://127.0.0.1:", "url 'tcp://127.0.0.1:': a port is missing" },
        { "tcp://localhost:80", "url 'tcp://localhost:80': not a numeric address" },
        { "tcp://[::1:80", "url 'tcp://[::1:80': a port is missing" },
        { "tcp://[zz]:80", "url 'tcp://[zz]:80': not a numeric address" },
        { "tcp://127.0.0.1:65536", "url 'tcp://127.0.0.1:65536': the port is not a number up to 65535" },
        { "tcp://127.0.0.1:99999999999999999999",
          "url 'tcp://127.0.0.1:99999999999999999999': the port is not a number up to 65535" },
        { "tcp://127.0.0.1:8x", "url 'tcp://127.0.0.1:8x': the port is not a number up to 65535" },
        { "tcp://1111:2222:3333:4444:5555:6666:7777:8888:9999:1", NULL },
        { "", "url '': a scheme is missing, as in tcp://127.0.0.1:4000" },
        { NULL, "url: none given" },
    };
    static world w;
    cb_loop_stream s;
    cb_loop_connect_desc c;
    cb_loop_address a;
    char buf[56], tiny[5];
    size_t i;
    CBT_REQUIRE(world_begin(&w, CB_LOOP_BACKEND_DEFAULT, false));
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memset(&c, 0, sizeof c);
        c.url = cases[i][0];
        w.listen.url = cases[i][0];
        CBT_EQ(cb_loop_connect(&w.loop, &s, &c), CB_LOOP_E_URL);
        CBT_EQ(world_listen(&w), CB_LOOP_E_URL);
        if (cases[i][1] != NULL) {
            CBT_STR(cb_loop_reason(&w.loop), cases[i][1]);
        }
    }
    c.url = "tcp://127.0.0.1:0";
    CBT_EQ(cb_loop_connect(&w.loop, &s, &c), CB_LOOP_E_URL);
    w.listen.url = "tcp://127.0.0.1:0";
    w.listen.on_accept = NULL;
    CBT_EQ(world_listen(&w), CB_LOOP_E_ARG);
    CBT_STR(cb_loop_reason(&w.loop), "listen: on_accept is missing");
    CBT_CHECK(cbi_loop_address_parse(&a, "[2001:db8::1]:65535") == NULL && a.family == 6);
    CBT_STR(cb_loop_address_str(&a, buf, sizeof buf), "[2001:db8::1]:65535");
    CBT_STR(cb_loop_address_str(&a, tiny, sizeof tiny), "[200");
    CBT_STR(cb_loop_status_str(CB_LOOP_E_SLOW_PEER), "the peer does not take its output");
    CBT_STR(cb_loop_status_str((cb_loop_status)77), "?");
    world_end(&w);
}

static void loop_init_refuses_contradictions(void)
{
    cb_loop loop;
    cb_loop_desc d;
    cbt_mem mem = { 0, 0, 0 };
    cb_loop_task t;
    memset(&d, 0, sizeof d);
    d.backend = 9;
    CBT_EQ(cb_loop_init(&loop, &d), CB_LOOP_E_ARG);
    cb_loop_task_init(&t, poster_on_run, NULL);
    CBT_EQ(cb_loop_post(&loop, &t), CB_LOOP_E_CLOSED);
    CBT_EQ(cb_loop_run(&loop), CB_LOOP_E_STATE);
    CBT_EQ(cb_loop_step(&loop, 0), CB_LOOP_E_STATE);
    cb_loop_stop(&loop);
    cb_loop_trim(&loop);
    cb_loop_deinit(&loop);
    memset(&d, 0, sizeof d);
    d.alloc.alloc = cbt_mem_alloc;
    CBT_EQ(cb_loop_init(&loop, &d), CB_LOOP_E_ARG);
    d.alloc.release = cbt_mem_release;
    d.alloc.user = &mem;
    d.read_bytes = 4095;
    CBT_EQ(cb_loop_init(&loop, &d), CB_LOOP_E_ARG);
    d.read_bytes = 4096;
    mem.fail_at = 1;
    CBT_EQ(cb_loop_init(&loop, &d), CB_LOOP_E_NOMEM);
    CBT_STR(cb_loop_reason(&loop), "out of memory");
    d.backend = CB_LOOP_BACKEND_POLL;
    mem.calls = 0;
    mem.fail_at = 2;
    CBT_EQ(cb_loop_init(&loop, &d), CB_LOOP_E_NOMEM);
    mem.fail_at = 0;
    CBT_EQ(cb_loop_init(&loop, &d), CB_LOOP_OK);
    cb_loop_deinit(&loop);
    cb_loop_deinit(&loop);
    cb_loop_deinit(NULL);
    CBT_EQ(mem.live_bytes, 0);
}

/* --------------------------------------------- listeners ---------------------------------------------- */

BOTH(loop_listen_on_a_busy_port_says_so)
{
    cb_loop_listener second;
    char want[160];
    CBT_REQUIRE(world_begin(w, backend, false) && world_listen(w) == CB_LOOP_OK);
    w->listen.url = w->url;
    CBT_EQ(cb_loop_listen(&w->loop, &second, &w->listen), CB_LOOP_E_IN_USE);
    snprintf(want, sizeof want, "bind %s: address in use", w->url);
    CBT_STR(cb_loop_reason(&w->loop), want);
    cb_loop_listener_close(&second); /* harmless */
    w->listen.url = "tcp://192.0.2.1:80";
    CBT_EQ(cb_loop_listen(&w->loop, &second, &w->listen), CB_LOOP_E_IN_USE);
    cb_loop_listener_close(&w->listener);
    cb_loop_listener_close(&w->listener);
    CBT_EQ(cb_loop_listener_address(&w->listener, &second.address), CB_LOOP_E_STATE);
    world_steps(w, 1);
    CBT_EQ(w->listener_closed, 1);
    w->listen.url = w->url;
    CBT_EQ(cb_loop_listen(&w->loop, &second, &w->listen), CB_LOOP_OK); /* the port is free again */
    world_end(w);
    CBT_EQ(w->listener_closed, 2);
}

BOTH(loop_on_accept_may_refuse)
{
    CBT_REQUIRE(world_begin(w, backend, false) && world_listen(w) == CB_LOOP_OK);
    w->refuse = true;
    CBT_EQ(world_connect(w, &w->client[0]), CB_LOOP_OK);
    UNTIL(w, w->client[0].closes == 1);
    CBT_EQ(w->refused, 1);
    world_end(w);
}

/* accept says EMFILE for ever: a few calls in a second, old connections served, and it recovers by itself. */
BOTH(loop_b01_out_of_descriptors_on_accept_backs_off)
{
    unsigned before;
    int i, fd;
    CBT_REQUIRE(world_begin(w, backend, true));
    w->template_server.echo = true;
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK && world_pair(w));
    fault.accept_error = EMFILE;
    fault.accept_times = 1000000;
    fd = raw_connect(w);
    CBT_REQUIRE(fd >= 0);
    before = fault.accepts;
    for (i = 0; i < 3000; i++) { /* three seconds */
        w->time += MS;
        cb_loop_step(&w->loop, 0);
        if (i == 1500) {
            CBT_EQ(cb_loop_stream_write(&w->client[0].s, "old", 3), 3);
        }
    }
    CBT_CHECK(fault.accepts - before >= 8 && fault.accepts - before <= 12); /* 5 10 20 .. 640 1000 ms */
    CBT_EQ(w->client[0].got_size, 3);
    CBT_EQ(w->listener.accept_failures, fault.accepts - before);
    fault.accept_times = 0;
    w->time += SEC;
    world_steps(w, 3);
    CBT_EQ(w->accepted, 2);
    close(fd);
    world_end(w);
}

BOTH(loop_b02_aborted_connections_do_not_stop_the_listener)
{
    static const int errors[] = { ECONNABORTED, EPROTO, EINTR, ENETDOWN };
    size_t i;
    CBT_REQUIRE(world_begin(w, backend, true) && world_listen(w) == CB_LOOP_OK);
    for (i = 0; i < 4; i++) {
        int fd = raw_connect(w);
        fault.accept_error = errors[i];
        fault.accept_times = 3;
        UNTIL(w, w->accepted == i + 1);
        close(fd);
    }
    raw_reset(raw_connect(w)); /* reset before accept */
    UNTIL(w, w->accepted == 5);
    UNTIL(w, w->server[4].closes == 1);
    world_end(w);
}

/* --------------------------------------------- connecting --------------------------------------------- */

static uint16_t free_port(world *w)
{
    cb_loop_listener l;
    cb_loop_address a;
    a.port = 0;
    if (cb_loop_listen(&w->loop, &l, &w->listen) == CB_LOOP_OK) {
        cb_loop_listener_address(&l, &a);
        cb_loop_listener_close(&l);
        world_steps(w, 1);
    }
    return a.port;
}

BOTH(loop_b05_refused_connection_is_told_once_with_its_reason)
{
    char want[160];
    int six;
    CBT_REQUIRE(world_begin(w, backend, false));
    for (six = 0; six < 2; six++) {
        w->listen.url = six ? "tcp://[::1]:0" : "tcp://127.0.0.1:0";
        if (six && world_listen(w) != CB_LOOP_OK) {
            break; /* no IPv6 here */
        }
        snprintf(w->url, sizeof w->url, six ? "tcp://[::1]:%u" : "tcp://127.0.0.1:%u",
                 (unsigned)free_port(w));
        CBT_EQ(world_connect(w, &w->client[six]), CB_LOOP_OK);
        CBT_EQ(w->client[six].closes, 0);
        CBT_EQ(cb_loop_stream_write(&w->client[six].s, "x", 1), 1);
        UNTIL(w, w->client[six].closes == 1);
        CBT_EQ(w->client[six].why, CB_LOOP_E_REFUSED);
        CBT_EQ(w->client[six].opens, 0);
        snprintf(want, sizeof want, "connect %s: connection refused", w->url);
        CBT_STR(w->client[six].reason, want);
    }
    world_end(w);
}

/* What fails at once fails in one way: by the return when it is ours, by on_closed when it is the network's.
 */
BOTH(loop_b06_immediate_failures_are_told_in_one_way)
{
    CBT_REQUIRE(world_begin(w, backend, false));
    memcpy(w->url, "tcp://127.0.0.1:9", 18);
    fault.socket_error = EMFILE;
    CBT_EQ(world_connect(w, &w->client[0]), CB_LOOP_E_DESCRIPTORS);
    CBT_STR(cb_loop_reason(&w->loop), "connect tcp://127.0.0.1:9: too many open files");
    CBT_EQ(world_listen(w), CB_LOOP_E_DESCRIPTORS);
    w->client[0].used = false;
    fault.socket_error = 0;
    fault.connect_error = ENETUNREACH;
    CBT_EQ(world_connect(w, &w->client[1]), CB_LOOP_OK);
    CBT_EQ(w->client[1].closes, 0);
    world_steps(w, 1);
    CBT_EQ(w->client[1].closes, 1);
    CBT_EQ(w->client[1].why, CB_LOOP_E_UNREACHABLE);
    CBT_STR(w->client[1].reason, "connect tcp://127.0.0.1:9: no route to network");
    world_end(w);
}

/* A queue of one that is full: the system answers nothing, and our deadline does. */
BOTH(loop_connect_has_a_deadline)
{
    struct sockaddr_in in;
    socklen_t size = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM, 0), fill[4], i;
    memset(&in, 0, sizeof in);
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CBT_REQUIRE(bind(fd, (struct sockaddr *)(void *)&in, sizeof in) == 0 && listen(fd, 0) == 0);
    CBT_REQUIRE(getsockname(fd, (struct sockaddr *)(void *)&in, &size) == 0);
    CBT_REQUIRE(world_begin(w, backend, true));
    for (i = 0; i < 4; i++) {
        fill[i] = socket(AF_INET, SOCK_STREAM, 0);
        fcntl(fill[i], F_SETFL, O_NONBLOCK);
        (void)connect(fill[i], (struct sockaddr *)(void *)&in, sizeof in);
    }
    snprintf(w->url, sizeof w->url, "tcp://127.0.0.1:%u", (unsigned)ntohs(in.sin_port));
    CBT_EQ(world_connect(w, &w->client[0]), CB_LOOP_OK);
    world_steps(w, 3);
    w->time += 20 * SEC - 1;
    world_steps(w, 3);
    if (w->client[0].opens == 0) { /* else this system's queue is longer than asked for */
        CBT_EQ(w->client[0].closes, 0);
        w->time += 1;
        world_steps(w, 2);
        CBT_EQ(w->client[0].closes, 1);
        CBT_EQ(w->client[0].why, CB_LOOP_E_TIMEOUT);
        CBT_CHECK(strstr(w->client[0].reason, "the deadline passed") != NULL);
    }
    for (i = 0; i < 4; i++) {
        close(fill[i]);
    }
    close(fd);
    world_end(w);
}

static void reconnect_hook(peer *p, char event)
{
    if (event == 'c' && p->extra != NULL) {
        peer *next = (peer *)p->extra;
        CBT_EQ(world_connect(p->w, next), CB_LOOP_OK);
    }
}

BOTH(loop_connect_again_from_on_closed_and_close_while_connecting)
{
    CBT_REQUIRE(world_begin(w, backend, false) && world_listen(w) == CB_LOOP_OK);
    w->client[0].hook = reconnect_hook;
    w->client[0].extra = &w->client[1];
    CBT_EQ(world_connect(w, &w->client[0]), CB_LOOP_OK);
    cb_loop_stream_close(&w->client[0].s); /* nothing written: no connection is waited for */
    UNTIL(w, w->client[1].opens == 1);
    CBT_EQ(w->client[0].opens, 0);
    CBT_EQ(w->client[0].why, CB_LOOP_OK);
    CBT_EQ(world_connect(w, &w->client[2]), CB_LOOP_OK);
    CBT_EQ(cb_loop_stream_write(&w->client[2].s, "late", 4), 4);
    cb_loop_stream_close(&w->client[2].s); /* something written: it arrives first */
    UNTIL(w, w->accepted >= 2 && w->server[w->accepted - 1].ends == 1 && w->client[2].closes == 1);
    CBT_EQ(w->server[w->accepted - 1].got_size, 4);
    CBT_EQ(w->client[2].opens, 0);
    world_end(w);
}

/* ------------------------------------------ life of streams ------------------------------------------- */

static char close_at;
static void close_hook(peer *p, char event)
{
    if (event == close_at) {
        cb_loop_stream_close(&p->s);
        cb_loop_stream_close(&p->s);
        CBT_EQ(cb_loop_stream_write(&p->s, "no", 2), 0);
    }
}

/* close, twice, in each callback: one notice, nothing after it. */
BOTH(loop_a02_a03_close_in_every_callback)
{
    static const char at[] = "oder";
    int i;
    for (i = 0; i < 4; i++) {
        CBT_REQUIRE(world_begin(w, backend, false));
        w->stream.output_bytes_soft = 1000;
        w->template_server.hook = close_hook;
        close_at = at[i];
        CBT_REQUIRE(world_listen(w) == CB_LOOP_OK);
        CBT_EQ(world_connect(w, &w->client[0]), CB_LOOP_OK);
        CBT_EQ(cb_loop_stream_write(&w->client[0].s, "hello", 5), 5);
        UNTIL(w, w->accepted == 1);
        if (at[i] == 'e') {
            cb_loop_stream_shutdown(&w->client[0].s);
        }
        if (at[i] == 'r') {
            static const char big[2000];
            CBT_EQ(cb_loop_stream_write(&w->server[0].s, big, 2000), 1000);
        }
        UNTIL(w, w->server[0].closes == 1 && w->client[0].closes == 1);
        CBT_EQ(w->server[0].why, CB_LOOP_OK);
        world_end(w);
    }
}

static void abort_hook(peer *p, char event)
{
    if (event == 'd' || event == 'o') {
        cb_loop_stream_abort(&p->s, CB_LOOP_E_STATE);
        cb_loop_stream_close(&p->s);
    }
}

BOTH(loop_abort_resets_and_says_why)
{
    CBT_REQUIRE(world_begin(w, backend, false));
    w->template_server.hook = abort_hook;
    w->template_server.opens = 0;
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK);
    CBT_EQ(world_connect(w, &w->client[0]), CB_LOOP_OK);
    UNTIL(w, w->accepted == 1 && w->server[0].closes == 1 && w->client[0].closes == 1);
    CBT_EQ(w->server[0].why, CB_LOOP_E_STATE);
    CBT_EQ(w->client[0].why, CB_LOOP_E_RESET);
    CBT_CHECK(strstr(w->server[0].reason, ": not possible in this state") != NULL);
    CBT_CHECK(strstr(w->client[0].reason, "connection reset by peer") != NULL);
    CBT_CHECK(strncmp(w->client[0].reason, "read tcp://127.0.0.1:", 21) == 0);
    world_end(w);
}

static void kill_all_hook(peer *p, char event)
{
    int i;
    for (i = 0; event == 'd' && i < 8; i++) {
        if (&p->w->server[i] != p && p->w->server[i].used && p->w->server[i].closes == 0) {
            cb_loop_stream_abort(&p->w->server[i].s, CB_LOOP_E_STATE);
        }
    }
}

/* All have data in one batch; the first to be called closes all the others, and connects anew so that
 * descriptor numbers come back while their old events wait. */
BOTH(loop_a04_a05_closing_neighbours_within_a_batch)
{
    int fd[8], again[8], i;
    unsigned shows = 0;
    CBT_REQUIRE(world_begin(w, backend, false));
    w->template_server.hook = kill_all_hook;
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK);
    for (i = 0; i < 8; i++) {
        fd[i] = raw_connect(w);
    }
    UNTIL(w, w->accepted == 8 && w->server[7].opens == 1);
    for (i = 0; i < 8; i++) {
        CBT_CHECK(raw_send(fd[i], "x", 1));
    }
    for (i = 0; i < 8; i++) {
        again[i] = raw_connect(w); /* accepted in the same batch, maybe after the closes */
    }
    UNTIL(w, w->accepted == 16);
    for (i = 0; i < 8; i++) {
        shows += w->server[i].shows;
    }
    CBT_EQ(shows, 1);
    for (i = 8; i < 16; i++) {
        CBT_EQ(w->server[i].closes, 0);
        CBT_EQ(w->server[i].shows, 0);
        CBT_EQ(w->server[i].ends, 0);
    }
    for (i = 0; i < 8; i++) {
        close(fd[i]);
        close(again[i]);
    }
    world_end(w);
}

static void stale_on_time(void *user, cb_loop_timer *t, uint64_t now)
{
    (void)t;
    (void)now;
    cb_loop_stream_abort((cb_loop_stream *)user, CB_LOOP_E_STATE);
}

/* The one event of a batch belongs to a stream that a timer of the same pass has closed. */
BOTH(loop_a06_stale_batch_is_no_fault)
{
    cb_loop_timer t;
    int fd;
    CBT_REQUIRE(world_begin(w, backend, true) && world_listen(w) == CB_LOOP_OK);
    fd = raw_connect(w);
    UNTIL(w, w->accepted == 1 && w->server[0].opens == 1);
    CBT_CHECK(raw_send(fd, "x", 1));
    cb_loop_timer_init(&t, stale_on_time, &w->server[0].s);
    cb_loop_timer_start(&w->loop, &t, 0);
    CBT_EQ(cb_loop_step(&w->loop, 0), CB_LOOP_OK);
    CBT_EQ(w->server[0].shows, 0);
    CBT_EQ(w->server[0].closes, 1);
    close(fd);
    world_end(w);
}

/* A copy of the descriptor lives on (fork does that): after our close its events wake nobody. */
BOTH(loop_a07_registration_does_not_outlive_the_stream)
{
    int fd, copy;
    unsigned waits;
    CBT_REQUIRE(world_begin(w, backend, false) && world_listen(w) == CB_LOOP_OK);
    fd = raw_connect(w);
    UNTIL(w, w->accepted == 1 && w->server[0].opens == 1);
    copy = dup(w->server[0].s.io.fd);
    cb_loop_stream_close(&w->server[0].s);
    shutdown(fd, SHUT_WR);
    UNTIL(w, w->server[0].closes == 1);
    CBT_CHECK(raw_send(copy, "x", 1) || true);
    waits = fault.waits;
    cb_loop_step(&w->loop, 50 * MS);
    CBT_EQ(fault.waits - waits, 1);
    close(fd);
    close(copy);
    world_end(w);
}

static void each_other_hook(peer *p, char event)
{
    if (event == 'd') {
        cb_loop_stream_abort(&((peer *)p->extra)->s, CB_LOOP_E_STATE);
        cb_loop_stream_close(&p->s);
    }
    if (event == 'c' && ((peer *)p->extra)->closes == 0) {
        cb_loop_stream_close(&((peer *)p->extra)->s);
    }
}

BOTH(loop_two_streams_close_each_other)
{
    CBT_REQUIRE(world_begin(w, backend, false) && world_listen(w) == CB_LOOP_OK && world_pair(w) &&
                world_pair(w));
    w->server[0].hook = each_other_hook;
    w->server[1].hook = each_other_hook;
    w->server[0].extra = &w->server[1];
    w->server[1].extra = &w->server[0];
    CBT_EQ(cb_loop_stream_write(&w->client[0].s, "x", 1), 1);
    CBT_EQ(cb_loop_stream_write(&w->client[1].s, "x", 1), 1);
    UNTIL(w, w->server[0].closes == 1 && w->server[1].closes == 1 && w->client[0].closes == 1 &&
                 w->client[1].closes == 1);
    CBT_EQ(w->server[0].shows + w->server[1].shows, 1);
    world_end(w);
}

static char end_order[8];
static void order_hook(peer *p, char event)
{
    if (event == 'c') {
        strncat(end_order, p->w->listener_closed == 1 ? "s" : "?", 1);
    }
}

BOTH(loop_m12_deinit_closes_listeners_then_streams_then_posts)
{
    post_note n;
    CBT_REQUIRE(world_begin(w, backend, false));
    w->template_server.hook = order_hook;
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK && world_pair(w));
    end_order[0] = '\0';
    w->client[0].hook = order_hook;
    post_init(&n, &w->loop);
    CBT_EQ(cb_loop_post(&w->loop, &n.task), CB_LOOP_OK);
    world_end(w);
    CBT_STR(end_order, "ss");
    CBT_EQ(n.closed, 1);
    CBT_EQ(w->client[0].why, CB_LOOP_E_CLOSED);
    CBT_CHECK(strstr(w->client[0].reason, "the loop has ended") != NULL);
    CBT_EQ(world_connect(w, &w->client[0]), CB_LOOP_E_CLOSED);
    CBT_EQ(world_listen(w), CB_LOOP_E_CLOSED);
}

/* ------------------------------------------------ data ------------------------------------------------ */

typedef struct feed { /* sends a pattern of `total` bytes as fast as the stream takes it */
    size_t at, total;
    bool close_after, shut_after;
} feed;
static feed feeds[PEERS];

static void feed_push(peer *p)
{
    feed *f = (feed *)p->extra;
    uint8_t piece[3001];
    while (f->at < f->total) {
        size_t n = f->total - f->at < sizeof piece ? f->total - f->at : sizeof piece, taken;
        pattern_fill(piece, n, f->at);
        taken = cb_loop_stream_write(&p->s, piece, n);
        f->at += taken;
        if (taken < n) {
            return;
        }
    }
    if (f->close_after) {
        cb_loop_stream_close(&p->s);
    }
    if (f->shut_after) {
        cb_loop_stream_shutdown(&p->s);
    }
}

static void feed_hook(peer *p, char event)
{
    if (event == 'o' || event == 'r') {
        feed_push(p);
    }
}

static void feed_begin(peer *p, int i, size_t total)
{
    memset(&feeds[i], 0, sizeof feeds[i]);
    feeds[i].total = total;
    p->extra = &feeds[i];
    p->hook = feed_hook;
}

static void check_pattern(const peer *p, size_t total)
{
    uint8_t *want = (uint8_t *)malloc(total + 1);
    CBT_REQUIRE(want != NULL);
    pattern_fill(want, total, 0);
    CBT_EQ(p->got_size, total);
    if (p->got_size == total) {
        CBT_MEM(p->got, want, total);
    }
    free(want);
}

/* 8 MiB there and back through tiny buffers and bounds: each side refuses, waits, and goes on where it was.
 */
BOTH(loop_echo_of_8_mib_through_tiny_buffers)
{
    const size_t total = (size_t)8 << 20;
    CBT_REQUIRE(world_begin(w, backend, false));
    w->stream.send_buffer_bytes = 4096;
    w->stream.recv_buffer_bytes = 4096;
    w->stream.output_bytes_soft = 20000;
    w->stream.input_bytes_max = 30000;
    w->template_server.echo = true;
    feed_begin(&w->client[0], 0, total);
    feeds[0].shut_after = true;
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK);
    CBT_EQ(world_connect(w, &w->client[0]), CB_LOOP_OK);
    UNTIL(w, w->client[0].closes == 1 && w->accepted == 1 && w->server[0].closes == 1);
    check_pattern(&w->client[0], total);
    CBT_EQ(w->server[0].why, CB_LOOP_OK);
    CBT_EQ(w->client[0].why, CB_LOOP_OK);
    CBT_CHECK(w->client[0].drains > 100);
    world_end(w);
}

/* Sends are cut to every small size, and refused in between: no byte twice, none missing. */
BOTH(loop_b07_gather_writes_cut_at_every_size)
{
    static uint8_t shared_bytes[700];
    size_t cut;
    int i;
    for (cut = 1; cut < 120; cut += cut < 20 ? 1 : 7) {
        cb_shared shared;
        uint8_t piece[300];
        memset(&shared, 0, sizeof shared);
        pattern_fill(shared_bytes, sizeof shared_bytes, 1000);
        shared.data = shared_bytes;
        shared.size = sizeof shared_bytes;
        shared.refs = 1;
        CBT_REQUIRE(world_begin(w, backend, false) && world_listen(w) == CB_LOOP_OK && world_pair(w));
        fault.send_max = cut;
        pattern_fill(piece, sizeof piece, 0);
        CBT_EQ(cb_loop_stream_write(&w->client[0].s, piece, 300), 300);
        pattern_fill(piece, sizeof piece, 300);
        for (i = 0; i < 3; i++) {
            CBT_EQ(cb_loop_stream_write(&w->client[0].s, piece + i * 100, 100), 100);
        }
        pattern_fill(piece, sizeof piece, 600);
        CBT_EQ(cb_loop_stream_write(&w->client[0].s, piece, 200), 200);
        pattern_fill(piece, sizeof piece, 800);
        CBT_EQ(cb_loop_stream_write(&w->client[0].s, piece, 200), 200);
        CBT_CHECK(cb_loop_stream_share(&w->client[0].s, &shared));
        CBT_EQ(shared.refs, 2);
        pattern_fill(piece, sizeof piece, 1700);
        CBT_EQ(cb_loop_stream_write(&w->client[0].s, piece, 300), 300);
        CBT_EQ(cb_loop_stream_unsent(&w->client[0].s), 2000);
        UNTIL(w, w->server[0].got_size >= 2000);
        CBT_EQ(shared.refs, 1);
        check_pattern(&w->server[0], 2000);
        world_end(w);
    }
}

/* The socket is full; what another callback writes then comes behind what waits. */
BOTH(loop_b08_small_write_does_not_overtake)
{
    int fd, i;
    size_t size = 0, first;
    uint8_t *big = (uint8_t *)malloc(3000000), *got = (uint8_t *)malloc(3000100);
    CBT_REQUIRE(big != NULL && got != NULL && world_begin(w, backend, false));
    pattern_fill(big, 3000000, 0);
    w->stream.send_buffer_bytes = 4096;
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK);
    fd = raw_connect(w);
    UNTIL(w, w->accepted == 1 && w->server[0].opens == 1);
    first = cb_loop_stream_write(&w->server[0].s, big, 3000000);
    CBT_EQ(first, 3000000);
    world_steps(w, 3);
    CBT_CHECK(cb_loop_stream_unsent(&w->server[0].s) != 0);
    for (i = 0; i < 5; i++) {
        CBT_EQ(cb_loop_stream_write(&w->server[0].s, "small", 5), 5);
        world_steps(w, 1);
    }
    cb_loop_stream_close(&w->server[0].s);
    for (;;) {
        ptrdiff_t n = recv(fd, got + size, 3000100 - size, MSG_DONTWAIT);
        if (n == 0) {
            break;
        }
        size += n > 0 ? (size_t)n : 0;
        cb_loop_step(&w->loop, 0);
    }
    CBT_EQ(size, 3000025);
    CBT_MEM(got, big, 3000000);
    CBT_MEM(got + 3000000, "smallsmallsmallsmallsmall", 25);
    close(fd);
    UNTIL(w, w->server[0].closes == 1);
    free(big);
    free(got);
    world_end(w);
}

/* Many writes and shared buffers wait, the peer resets: one notice with the reason, references back, no
 * signal. */
BOTH(loop_b09_b10_b21_write_error_drops_all_that_waits)
{
    static uint8_t bytes[300000];
    cb_shared shared;
    int fd, i;
    memset(&shared, 0, sizeof shared);
    shared.data = bytes;
    shared.size = sizeof bytes;
    shared.refs = 1;
    CBT_REQUIRE(world_begin(w, backend, false));
    w->stream.output_bytes_soft = (size_t)32 << 20;
    w->stream.send_buffer_bytes = 4096;
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK);
    fd = raw_connect(w);
    UNTIL(w, w->accepted == 1 && w->server[0].opens == 1);
    for (i = 0; i < 20; i++) {
        CBT_CHECK(cb_loop_stream_share(&w->server[0].s, &shared));
        CBT_EQ(cb_loop_stream_write(&w->server[0].s, bytes, 1000), 1000);
    }
    CBT_EQ(shared.refs, 21);
    world_steps(w, 3);
    raw_reset(fd);
    UNTIL(w, w->server[0].closes == 1);
    CBT_EQ(w->server[0].why, CB_LOOP_E_RESET);
    CBT_EQ(shared.refs, 1);
    fd = raw_connect(w); /* and with nothing waiting: write twice to a peer that has gone */
    UNTIL(w, w->accepted == 2 && w->server[1].opens == 1);
    cb_loop_stream_pause(&w->server[1].s);
    world_steps(w, 2);
    raw_reset(fd);
    for (i = 0; i < 1000 && w->server[1].closes == 0; i++) {
        (void)cb_loop_stream_write(&w->server[1].s, "x", 1);
        cb_loop_step(&w->loop, MS);
    }
    CBT_EQ(w->server[1].closes, 1);
    CBT_EQ(w->server[1].why, CB_LOOP_E_RESET);
    CBT_CHECK(strncmp(w->server[1].reason, "write tcp://127.0.0.1:", 22) == 0);
    world_end(w);
}

/* Paused, and the peer resets: no spinning, and after resume first the data, then the error. */
BOTH(loop_b03_hang_up_while_paused_does_not_spin)
{
    int fd;
    unsigned before;
    CBT_REQUIRE(world_begin(w, backend, false) && world_listen(w) == CB_LOOP_OK);
    fd = raw_connect(w);
    UNTIL(w, w->accepted == 1 && w->server[0].opens == 1);
    cb_loop_stream_pause(&w->server[0].s);
    world_steps(w, 1);
    CBT_CHECK(raw_send(fd, "last words", 10));
    raw_reset(fd);
    before = fault.waits;
    cb_loop_step(&w->loop, 60 * MS);
    CBT_CHECK(fault.waits - before <= 2);
    CBT_EQ(w->server[0].closes, 0);
    CBT_EQ(w->server[0].shows, 0);
    cb_loop_stream_resume(&w->server[0].s);
    UNTIL(w, w->server[0].closes == 1);
    CBT_EQ(w->server[0].why, CB_LOOP_E_RESET);
#if defined(__linux__)
    CBT_EQ(w->server[0].got_size, 10);
#endif
    world_end(w);
}

/* The peer writes and closes at once while we are busy: all of it, then the end. */
BOTH(loop_b04_data_before_hang_up_is_delivered)
{
    uint8_t data[9000];
    int fd;
    CBT_REQUIRE(world_begin(w, backend, false));
    pattern_fill(data, sizeof data, 0);
    w->template_server.eat = 700;
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK);
    fd = raw_connect(w);
    CBT_CHECK(raw_send(fd, data, sizeof data));
    close(fd);
    UNTIL(w, w->accepted == 1 && w->server[0].ends == 1 && w->server[0].closes == 1);
    CBT_CHECK(w->server[0].got_size == 1400); /* shown on arrival, and once more at the end */
    CBT_EQ(w->server[0].largest, 9000);
    CBT_EQ(w->server[0].why, CB_LOOP_OK);
    fault.recv_max = 100;
    w->template_server.eat = 0;
    fd = raw_connect(w);
    CBT_CHECK(raw_send(fd, data, sizeof data));
    close(fd);
    UNTIL(w, w->accepted == 2 && w->server[1].closes == 1);
    check_pattern(&w->server[1], 9000);
    world_end(w);
}

/* More than the socket takes is written and closed in the same callback; a slow reader gets it all. */
BOTH(loop_b11_close_flushes_first)
{
    CBT_REQUIRE(world_begin(w, backend, false));
    w->stream.send_buffer_bytes = 4096;
    w->stream.recv_buffer_bytes = 4096;
    w->stream.output_bytes_soft = 3000000;
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK);
    feed_begin(&w->client[0], 0, 2000000);
    feeds[0].close_after = true;
    fault.recv_max = 5000;
    CBT_EQ(world_connect(w, &w->client[0]), CB_LOOP_OK);
    UNTIL(w, w->accepted == 1 && w->server[0].ends == 1 && w->client[0].closes == 1);
    check_pattern(&w->server[0], 2000000);
    CBT_EQ(w->client[0].why, CB_LOOP_OK);
    world_end(w);
}

/* The peer goes on sending while we send a large answer and close: it gets the answer and an end, no reset.
 */
BOTH(loop_b12_close_with_unread_input_is_no_reset)
{
    static uint8_t junk[100000], got[400000];
    size_t size = 0;
    ptrdiff_t n = -1;
    int fd, i;
    CBT_REQUIRE(world_begin(w, backend, true));
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK);
    fd = raw_connect(w);
    UNTIL(w, w->accepted == 1 && w->server[0].opens == 1);
    feed_begin(&w->server[0], 0, 400000);
    feeds[0].close_after = true;
    CBT_CHECK(raw_send(fd, junk, 50000));
    feed_push(&w->server[0]);
    for (i = 0; i < 100000 && size < sizeof got; i++) {
        (void)send(fd, junk, 2000, MSG_DONTWAIT | MSG_NOSIGNAL);
        cb_loop_step(&w->loop, 0);
        n = recv(fd, got + size, sizeof got - size, MSG_DONTWAIT);
        size += n > 0 ? (size_t)n : 0;
    }
    CBT_EQ(size, 400000);
    for (i = 0; i < 100000 && n != 0; i++) {
        cb_loop_step(&w->loop, 0);
        n = recv(fd, got, 1, MSG_DONTWAIT);
    }
    CBT_EQ(n, 0); /* the end, although it still writes */
    CBT_EQ(w->server[0].closes, 0);
    w->time += 2 * SEC; /* and it never ends its side: the deadline does */
    world_steps(w, 2);
    CBT_EQ(w->server[0].closes, 1);
    CBT_EQ(w->server[0].why, CB_LOOP_OK);
    close(fd);
    world_end(w);
}

static void answer_hook(peer *p, char event)
{
    if (event == 'e') {
        feed_push(p); /* the request has ended; now the long answer */
    }
    if (event == 'r') {
        feed_push(p);
    }
}

/* Each side ends by itself: the client ends its own first and then gets a long reply; and the other way
 * round. */
BOTH(loop_b13_half_close_both_ways)
{
    CBT_REQUIRE(world_begin(w, backend, false));
    w->stream.output_bytes_soft = 100000;
    w->template_server.stay_on_end = true;
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK && world_pair(w));
    feed_begin(&w->server[0], 0, 1000000);
    feeds[0].close_after = true;
    w->server[0].hook = answer_hook;
    CBT_EQ(cb_loop_stream_write(&w->client[0].s, "request", 7), 7);
    cb_loop_stream_shutdown(&w->client[0].s);
    cb_loop_stream_shutdown(&w->client[0].s);
    CBT_EQ(cb_loop_stream_write(&w->client[0].s, "more", 4), 0);
    UNTIL(w, w->client[0].closes == 1 && w->server[0].closes == 1);
    CBT_EQ(w->server[0].got_size, 7);
    check_pattern(&w->client[0], 1000000);
    CBT_REQUIRE(world_pair(w)); /* the server ends first, the client goes on sending, then both have ended */
    w->server[1].stay_on_end = true;
    w->client[1].stay_on_end = true;
    cb_loop_stream_shutdown(&w->server[1].s);
    UNTIL(w, w->client[1].ends == 1);
    CBT_EQ(w->client[1].closes, 0);
    CBT_EQ(cb_loop_stream_write(&w->client[1].s, "still", 5), 5);
    UNTIL(w, w->server[1].got_size == 5);
    cb_loop_stream_shutdown(&w->client[1].s);
    UNTIL(w, w->server[1].closes == 1 && w->client[1].closes == 1);
    CBT_EQ(w->server[1].ends, 1);
    CBT_EQ(w->server[1].why, CB_LOOP_OK);
    CBT_EQ(w->client[1].why, CB_LOOP_OK);
    world_end(w);
}

/* Our side had ended long before the close: the peer still gets no more than linger_ns to end its own. */
BOTH(loop_close_after_shutdown_lingers_no_longer)
{
    int fd;
    CBT_REQUIRE(world_begin(w, backend, true));
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK);
    fd = raw_connect(w);
    UNTIL(w, w->accepted == 1 && w->server[0].opens == 1);
    cb_loop_stream_shutdown(&w->server[0].s);
    world_steps(w, 3);
    w->time += 60 * SEC; /* no deadline runs while only our side has ended */
    world_steps(w, 3);
    CBT_EQ(w->server[0].closes, 0);
    cb_loop_stream_close(&w->server[0].s);
    world_steps(w, 3);
    w->time += SEC;
    CBT_CHECK(raw_send(fd, "x", 1)); /* what it sends meanwhile gives it no more time */
    world_steps(w, 3);
    CBT_EQ(w->server[0].closes, 0);
    w->time += SEC;
    world_steps(w, 3);
    CBT_EQ(w->server[0].closes, 1);
    CBT_EQ(w->server[0].why, CB_LOOP_OK);
    close(fd);
    world_end(w);
}

/* Writing has failed, and what is still read is held back at the bound because it cannot be answered: nothing
 * would ever move again, so the stream ends. */
BOTH(loop_write_error_ends_a_stream_that_is_held_back)
{
    static uint8_t data[20000];
    int fd;
    CBT_REQUIRE(world_begin(w, backend, false));
    w->stream.input_bytes_max = 4096;
    w->template_server.echo = true;
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK);
    fd = raw_connect(w);
    UNTIL(w, w->accepted == 1 && w->server[0].opens == 1);
    fault.send_error = EPIPE;
    fault.send_times = 1;
    CBT_CHECK(raw_send(fd, data, sizeof data));
    UNTIL(w, w->server[0].closes == 1);
    CBT_EQ(w->server[0].got_size, 4096);
    CBT_EQ(w->server[0].why, CB_LOOP_E_RESET);
    close(fd);
    world_end(w);
}

typedef struct abort_shared {
    cb_shared b;
    cb_loop_stream *s;
    unsigned released;
} abort_shared;

static void abort_on_release(cb_shared *b)
{
    abort_shared *a = (abort_shared *)(void *)b;
    a->released++;
    cb_loop_stream_abort(a->s, CB_LOOP_E_RESET);
}

/* The program itself was away for longer than the deadlines: who was ready in time has not failed. */
BOTH(loop_deadlines_do_not_punish_peers_for_a_slow_program)
{
    static uint8_t big[8000000], got[65536];
    int fd;
    CBT_REQUIRE(world_begin(w, backend, true));
    w->stream.output_bytes_soft = sizeof big;
    w->stream.send_buffer_bytes = 16384;
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK);
    CBT_EQ(world_connect(w, &w->client[0]), CB_LOOP_OK);
    w->time += 60 * SEC; /* connected by now, and the time for it is over */
    UNTIL(w, w->accepted == 1 && w->client[0].opens + w->client[0].closes == 1);
    CBT_EQ(w->client[0].opens, 1);
    fd = raw_connect(w);
    UNTIL(w, w->accepted == 2 && w->server[1].opens == 1);
    CBT_EQ(cb_loop_stream_write(&w->server[1].s, big, sizeof big), sizeof big);
    CBT_EQ(cb_loop_stream_write(&w->server[1].s, big, 1), 0); /* somebody waits */
    world_steps(w, 5);
    CBT_CHECK(cb_loop_stream_unsent(&w->server[1].s) != 0);
    while (recv(fd, got, sizeof got, MSG_DONTWAIT) > 0) {
    }
    w->time += 60 * SEC; /* the peer has read, and the loop has not looked */
    world_steps(w, 3);
    CBT_EQ(w->server[1].closes, 0);
    world_steps(w, 5);
    w->time += 29 * SEC;
    world_steps(w, 3);
    CBT_EQ(w->server[1].closes, 0);
    w->time += 2 * SEC; /* now it has not */
    world_steps(w, 3);
    CBT_EQ(w->server[1].closes, 1);
    CBT_EQ(w->server[1].why, CB_LOOP_E_SLOW_PEER);
    close(fd);
    world_end(w);
}

/* A show that is asked for while the stream is connecting waits for on_open. */
BOTH(loop_reshow_while_connecting_comes_after_on_open)
{
    CBT_REQUIRE(world_begin(w, backend, false));
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK);
    CBT_EQ(world_connect(w, &w->client[0]), CB_LOOP_OK);
    cb_loop_stream_reshow(&w->client[0].s);
    UNTIL(w, w->client[0].shows == 1);
    CBT_EQ(w->client[0].opens, 1);
    world_end(w); /* checks that on_data was not early */
}

static void now_hook(peer *p, char event)
{
    if (event == 'd') {
        CBT_EQ(cb_loop_now(&p->w->loop), p->w->time);
    }
}

/* What was asked for outside is done in front of the wait; callbacks there see the time of this pass as well,
 * else deadlines counted from it would be short by all the time that the program was away. */
BOTH(loop_a11_now_is_of_this_pass_in_every_callback)
{
    CBT_REQUIRE(world_begin(w, backend, true));
    w->template_server.hook = now_hook;
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK && world_pair(w));
    CBT_EQ(cb_loop_now(&w->loop), w->time);
    w->time += 60 * SEC;
    cb_loop_stream_reshow(&w->server[0].s);
    world_steps(w, 1);
    CBT_EQ(w->server[0].shows, 1);
    world_end(w);
}

static void timer_hook(peer *p, char event)
{
    if (event == 'c') {
        CBT_CHECK(!cb_loop_timer_is_active(&p->s.timer)); /* it would be called in memory that is ours */
    }
}

/* The release of shared output comes from the middle of a flush; it may end the stream, whose timer must not
 * be started behind that. */
BOTH(loop_release_of_shared_output_may_abort)
{
    static uint8_t data[2000];
    static abort_shared a;
    CBT_REQUIRE(world_begin(w, backend, true));
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK && world_pair(w));
    memset(&a, 0, sizeof a);
    a.b.data = data;
    a.b.size = 100;
    a.b.release = abort_on_release;
    a.s = &w->client[0].s;
    w->client[0].hook = timer_hook;
    CBT_CHECK(cb_loop_stream_share(a.s, &a.b));
    CBT_EQ(cb_loop_stream_write(a.s, data, 1000), 1000);
    fault.send_max = 100;
    world_steps(w, 3);
    CBT_EQ(a.released, 1);
    CBT_EQ(w->client[0].closes, 1);
    w->time += 60 * SEC; /* no deadline of it is left */
    world_steps(w, 3);
    world_end(w);
}

/* The peer ends its side, then resets, while our output waits, and while none does. */
BOTH(loop_b14_reset_after_half_close)
{
    static uint8_t big[3000000];
    int waiting;
    for (waiting = 0; waiting < 2; waiting++) {
        int fd;
        CBT_REQUIRE(world_begin(w, backend, false));
        w->template_server.stay_on_end = true;
        w->stream.send_buffer_bytes = 4096;
        CBT_REQUIRE(world_listen(w) == CB_LOOP_OK);
        fd = raw_connect(w);
        UNTIL(w, w->accepted == 1 && w->server[0].opens == 1);
        shutdown(fd, SHUT_WR);
        UNTIL(w, w->server[0].ends == 1);
        if (waiting) {
            CBT_EQ(cb_loop_stream_write(&w->server[0].s, big, sizeof big), sizeof big);
            world_steps(w, 3);
            CBT_CHECK(cb_loop_stream_unsent(&w->server[0].s) != 0);
        }
        CBT_EQ(w->server[0].closes, 0);
        raw_reset(fd);
        UNTIL(w, w->server[0].closes == 1);
        CBT_EQ(w->server[0].why, CB_LOOP_E_RESET);
        world_end(w);
    }
}

static void pause_hook(peer *p, char event)
{
    if (event == 'd') {
        cb_loop_stream_pause(&p->s);
    }
}

/* Paused in on_data with more there: nothing until resume; what was left is shown again then. */
BOTH(loop_b15_pause_in_on_data_takes_effect)
{
    static uint8_t data[100000];
    int fd;
    CBT_REQUIRE(world_begin(w, backend, false));
    pattern_fill(data, sizeof data, 0);
    w->template_server.hook = pause_hook;
    w->template_server.eat = 10;
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK);
    fd = raw_connect(w);
    CBT_CHECK(raw_send(fd, data, sizeof data));
    UNTIL(w, w->accepted == 1 && w->server[0].shows == 1);
    shutdown(fd, SHUT_WR);
    cb_loop_stream_reshow(&w->server[0].s); /* waits for resume as well */
    world_steps(w, 10);
    CBT_EQ(w->server[0].shows, 1);
    CBT_CHECK(cb_loop_stream_kept(&w->server[0].s).size == w->server[0].last_size - 10);
    w->server[0].hook = NULL;
    w->server[0].eat = 0;
    cb_loop_stream_resume(&w->server[0].s);
    UNTIL(w, w->server[0].closes == 1);
    check_pattern(&w->server[0], sizeof data);
    close(fd);
    world_end(w);
}

/* One peer floods; in each pass it gets one read, and the ping beside it is answered within a few passes. */
BOTH(loop_b16_flooding_peer_does_not_starve_others)
{
    static uint8_t junk[200000];
    int flood, ping, i, passes = 0;
    char got[4];
    size_t most = 0;
    CBT_REQUIRE(world_begin(w, backend, false) && world_listen(w) == CB_LOOP_OK);
    flood = raw_connect(w);
    UNTIL(w, w->accepted == 1 && w->server[0].opens == 1);
    w->template_server.echo = true;
    ping = raw_connect(w);
    UNTIL(w, w->accepted == 2 && w->server[1].opens == 1);
    fcntl(flood, F_SETFL, O_NONBLOCK);
    for (i = 0; i < 50; i++) {
        size_t before = w->server[0].got_size;
        (void)send(flood, junk, sizeof junk, MSG_NOSIGNAL);
        if (i == 20) {
            CBT_CHECK(raw_send(ping, "ping", 4));
        }
        cb_loop_step(&w->loop, 0);
        most = w->server[0].got_size - before > most ? w->server[0].got_size - before : most;
        passes += i >= 20 && recv(ping, got, 4, MSG_DONTWAIT | MSG_PEEK) != 4;
    }
    CBT_CHECK(most <= 65536);
    CBT_CHECK(passes <= 10);
    close(flood);
    close(ping);
    world_end(w);
}

/* A peer that does not read: what is kept for it stays within the bound, and memory comes back when it goes.
 */
BOTH(loop_b22_output_to_a_peer_that_does_not_read_is_bounded)
{
    static uint8_t piece[10000];
    size_t taken, total = 0, idle, room;
    cb_sink sink;
    int fd;
    CBT_REQUIRE(world_begin(w, backend, true));
    w->stream.output_bytes_soft = 1000000;
    w->stream.send_buffer_bytes = 4096;
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK);
    fd = raw_connect(w);
    UNTIL(w, w->accepted == 1 && w->server[0].opens == 1);
    cb_loop_trim(&w->loop);
    idle = w->mem.live_bytes;
    do {
        taken = cb_loop_stream_write(&w->server[0].s, piece, sizeof piece);
        total += taken;
        world_steps(w, 1);
    } while (taken == sizeof piece && total < 100000000);
    CBT_EQ(cb_loop_stream_unsent(&w->server[0].s), 1000000);
    CBT_CHECK(w->mem.live_bytes - idle < 1100000);
    CBT_EQ(cb_loop_stream_write(&w->server[0].s, "x", 1), 0);
    sink = cb_loop_stream_sink(&w->server[0].s);
    CBT_EQ(sink.room(sink.user, false), 0);
    room = sink.room(sink.user, true);
    CBT_EQ(room, 1000000); /* owed answers may go to the hard bound */
    w->time += 30 * SEC - 1;
    world_steps(w, 2);
    CBT_EQ(w->server[0].closes, 0);
    w->time += 1;
    world_steps(w, 2);
    CBT_EQ(w->server[0].closes, 1);
    CBT_EQ(w->server[0].why, CB_LOOP_E_SLOW_PEER);
    CBT_CHECK(strstr(w->server[0].reason, "the peer does not take its output") != NULL);
    cb_loop_trim(&w->loop);
    CBT_CHECK(w->mem.live_bytes <= idle);
    close(fd);
    world_end(w);
}

/* Below the soft bound and nothing refused, a peer may be as slow as it likes. */
BOTH(loop_slow_peer_that_nobody_waits_for_is_kept)
{
    static uint8_t big[3000000];
    int fd;
    CBT_REQUIRE(world_begin(w, backend, true));
    w->stream.send_buffer_bytes = 4096;
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK);
    fd = raw_connect(w);
    UNTIL(w, w->accepted == 1 && w->server[0].opens == 1);
    CBT_EQ(cb_loop_stream_write(&w->server[0].s, big, sizeof big), sizeof big);
    world_steps(w, 3);
    CBT_CHECK(cb_loop_stream_unsent(&w->server[0].s) != 0);
    w->time += 31 * SEC;
    world_steps(w, 2);
    CBT_EQ(w->server[0].closes, 0);
    cb_loop_stream_close(&w->server[0].s); /* now we do wait */
    world_steps(w, 2);
    w->time += 31 * SEC;
    world_steps(w, 2);
    CBT_EQ(w->server[0].closes, 1);
    CBT_EQ(w->server[0].why, CB_LOOP_E_SLOW_PEER);
    close(fd);
    world_end(w);
}

/* --------------------------------------- input: want and bounds --------------------------------------- */

typedef struct framer { /* frames of a u32 length and that many bytes */
    unsigned frames;
    size_t wrong, shows;
} framer;
static framer frames;

static size_t framer_on_data(void *user, cb_loop_stream *s, cb_span in)
{
    size_t used = 0;
    (void)user;
    frames.shows++;
    for (;;) {
        uint32_t n;
        uint8_t *p = in.data + used;
        size_t left = in.size - used;
        if (left < 4) {
            cb_loop_stream_want(s, 4);
            return used;
        }
        n = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        if (left - 4 < n) {
            cb_loop_stream_want(s, 4u + (size_t)n);
            return used;
        }
        frames.wrong += n != 0 && (p[4] != (uint8_t)n || p[3 + n] != (uint8_t)n);
        frames.frames++;
        used += 4u + n;
    }
}

static size_t frame_put(uint8_t *to, uint32_t n)
{
    to[0] = (uint8_t)n;
    to[1] = (uint8_t)(n >> 8);
    to[2] = (uint8_t)(n >> 16);
    to[3] = (uint8_t)(n >> 24);
    memset(to + 4, (uint8_t)n, n);
    return 4u + (size_t)n;
}

/* Frames of all sizes, small, large and none, cut at random: each is seen once, and shown no more often than
 * it must. */
BOTH(loop_want_calls_when_enough_is_there)
{
    static const uint32_t sizes[] = { 0, 1, 15, 300, 4000, 5000, 20000, 65535, 70000, 300000, 2000000 };
    static uint8_t bytes[6000000];
    size_t cut;
    for (cut = 0; cut < 4; cut++) {
        static const size_t cuts[] = { 0, 1448, 100000, 7 };
        size_t size = 0, at = 0, i, n = cut == 3 ? 7 : 11;
        unsigned count = 0, round;
        int fd;
        for (round = 0; round < (cut == 3 ? 1u : 2u); round++) {
            for (i = 0; i < n; i++) {
                size += frame_put(bytes + size, sizes[round == 0 ? i : n - 1 - i]);
                count++;
            }
        }
        memset(&frames, 0, sizeof frames);
        CBT_REQUIRE(world_begin(w, backend, false));
        w->stream.on_data = framer_on_data;
        CBT_REQUIRE(world_listen(w) == CB_LOOP_OK);
        fd = raw_connect(w);
        fcntl(fd, F_SETFL, O_NONBLOCK);
        fault.recv_max = cuts[cut];
        while (at < size) {
            ptrdiff_t sent = send(fd, bytes + at, size - at, MSG_NOSIGNAL);
            at += sent > 0 ? (size_t)sent : 0;
            world_steps(w, 1);
        }
        UNTIL(w, frames.frames == count);
        CBT_EQ(frames.wrong, 0);
        CBT_CHECK(frames.shows <= 2 * (size_t)count + 4);
        close(fd);
        UNTIL(w, w->server[0].closes == 1);
        world_end(w);
    }
}

/* on_data consumes nothing: at the bound reading stops, TCP holds the peer back, and the bytes are there
 * afterwards. */
BOTH(loop_hold_policy_keeps_exactly_the_bound)
{
    static uint8_t data[300000];
    size_t i, sent = 0;
    int fd;
    CBT_REQUIRE(world_begin(w, backend, false));
    pattern_fill(data, sizeof data, 0);
    w->stream.input_bytes_max = 50000;
    w->stream.recv_buffer_bytes = 4096;
    w->template_server.keep_all = true;
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK);
    fd = raw_connect(w);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (i = 0; i < 300; i++) {
        ptrdiff_t n = send(fd, data + sent, sizeof data - sent, MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        world_steps(w, 1);
    }
    UNTIL(w, cb_loop_stream_kept(&w->server[0].s).size == 50000);
    CBT_EQ(w->server[0].largest, 50000);
    CBT_EQ(w->server[0].closes, 0);
    i = fault.waits;
    cb_loop_step(&w->loop, 30 * MS);
    CBT_EQ(fault.waits - i, 1); /* and no spinning */
    w->server[0].keep_all = false;
    w->server[0].eat = 1000;
    cb_loop_stream_reshow(&w->server[0].s);
    UNTIL(w, w->server[0].got_size >= 2000);
    w->server[0].eat = 0;
    cb_loop_stream_reshow(&w->server[0].s);
    while (sent < sizeof data) {
        ptrdiff_t n = send(fd, data + sent, sizeof data - sent, MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        world_steps(w, 1);
    }
    UNTIL(w, w->server[0].got_size == sizeof data);
    check_pattern(&w->server[0], sizeof data);
    close(fd);
    world_end(w);
}

/* The bound less one and the bound are kept, one more closes; a want above the bound closes at once. */
BOTH(loop_close_policy_at_the_bound)
{
    static uint8_t data[50001];
    int over;
    for (over = -1; over <= 2; over++) {
        int fd;
        CBT_REQUIRE(world_begin(w, backend, false));
        w->stream.input_bytes_max = 50000;
        w->stream.input_policy = CB_LOOP_CLOSE;
        w->template_server.keep_all = true;
        w->template_server.want = over == 2 ? 50001 : 0;
        CBT_REQUIRE(world_listen(w) == CB_LOOP_OK);
        fd = raw_connect(w);
        CBT_CHECK(raw_send(fd, data, over == 2 ? 1u : (size_t)(50000 + over)));
        if (over <= 0) {
            UNTIL(w, w->accepted == 1 && w->server[0].largest == (size_t)(50000 + over));
            world_steps(w, 3);
            CBT_EQ(w->server[0].closes, 0);
        } else {
            UNTIL(w, w->accepted == 1 && w->server[0].closes == 1);
            CBT_EQ(w->server[0].why, CB_LOOP_E_TOO_BIG);
            CBT_CHECK(strstr(w->server[0].reason, "more input than the bound allows") != NULL);
        }
        close(fd);
        world_end(w);
    }
}

/* Whoever gets a wanted number of bytes byte by byte pays once for each byte, not for all before it. */
BOTH(loop_want_at_exact_sizes_byte_by_byte)
{
    static const size_t wants[] = { 1, 2, 4095, 4096, 4097, 5000 };
    static uint8_t data[5000];
    size_t k, i;
    for (k = 0; k < sizeof wants / sizeof wants[0]; k++) {
        CBT_REQUIRE(world_begin(w, backend, false));
        w->template_server.want = wants[k];
        w->template_server.hook = NULL;
        CBT_REQUIRE(world_listen(w) == CB_LOOP_OK && world_pair(w));
        fault.recv_max = 1;
        cb_loop_stream_want(&w->server[0].s, wants[k]);
        CBT_EQ(cb_loop_stream_write(&w->client[0].s, data, wants[k] - 1), wants[k] - 1);
        for (i = 0; i < wants[k] + 20; i++) {
            world_steps(w, 1);
        }
        CBT_EQ(w->server[0].shows, 0);
        CBT_EQ(cb_loop_stream_kept(&w->server[0].s).size, wants[k] - 1);
        w->server[0].want = 0;
        CBT_EQ(cb_loop_stream_write(&w->client[0].s, data, 1), 1);
        UNTIL(w, w->server[0].shows == 1);
        CBT_EQ(w->server[0].largest, wants[k]);
        CBT_EQ(w->server[0].got_size, wants[k]);
        CBT_EQ(cb_loop_stream_kept(&w->server[0].s).size, 0);
        world_end(w);
    }
}

static size_t other_on_data(void *user, cb_loop_stream *s, cb_span in)
{
    (void)s;
    *(size_t *)user += in.size;
    return in.size;
}

BOTH(loop_reshow_and_exchange_of_handlers)
{
    cb_loop_stream_desc d;
    size_t seen = 0;
    CBT_REQUIRE(world_begin(w, backend, false));
    w->template_server.keep_all = true;
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK && world_pair(w));
    cb_loop_stream_reshow(&w->server[0].s);
    CBT_EQ(w->server[0].shows, 0);
    world_steps(w, 1);
    CBT_EQ(w->server[0].shows, 1);
    CBT_EQ(w->server[0].last_size, 0); /* nothing is kept: an empty span */
    CBT_EQ(cb_loop_stream_write(&w->client[0].s, "seven..", 7), 7);
    UNTIL(w, w->server[0].last_size == 7);
    CBT_EQ(w->server[0].shows, 2);
    cb_loop_stream_want(&w->server[0].s, 100);
    cb_loop_stream_reshow(&w->server[0].s); /* whatever is wanted */
    world_steps(w, 1);
    CBT_EQ(w->server[0].shows, 3);
    memset(&d, 0, sizeof d);
    d.on_data = other_on_data;
    d.user = &seen;
    d.output_bytes_hard = 1;
    CBT_EQ(cb_loop_stream_set_handlers(&w->server[0].s, &d), CB_LOOP_E_ARG);
    d.output_bytes_hard = 0;
    CBT_EQ(cb_loop_stream_set_handlers(&w->server[0].s, &d), CB_LOOP_OK);
    CBT_CHECK(cb_loop_stream_user(&w->server[0].s) == &seen);
    world_steps(w, 1);
    CBT_EQ(seen, 7);
    d = w->stream;
    CBT_EQ(cb_loop_stream_set_handlers(&w->server[0].s, &d), CB_LOOP_OK);
    cb_loop_stream_set_user(&w->server[0].s, &w->server[0]);
    w->server[0].keep_all = false;
    CBT_EQ(cb_loop_stream_write(&w->client[0].s, "more", 4), 4);
    UNTIL(w, w->server[0].got_size == 4);
    CBT_CHECK(cb_loop_stream_loop(&w->server[0].s) == &w->loop);
    world_end(w);
}

/* ---------------------------------------------- the sink ---------------------------------------------- */

static unsigned released;
static void on_release(cb_shared *b)
{
    (void)b;
    released++;
}

/* Pieces and shared buffers in order; both bounds; a refusal is noticed and on_drain comes. */
BOTH(loop_sink_lends_room_and_keeps_order)
{
    uint8_t bytes[4000], *at;
    cb_shared shared;
    cb_sink sink;
    size_t i;
    CBT_REQUIRE(world_begin(w, backend, false));
    w->stream.output_bytes_soft = 50000;
    w->stream.output_bytes_hard = 80000;
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK && world_pair(w));
    sink = cb_loop_stream_sink(&w->client[0].s);
    CBT_EQ(sink.piece_max, 16384);
    CBT_EQ(sink.room(sink.user, false), 50000);
    CBT_EQ(sink.room(sink.user, true), 80000);
    at = sink.reserve(sink.user, 16384);
    CBT_REQUIRE(at != NULL);
    pattern_fill(at, 16000, 0);
    sink.commit(sink.user, 16000, true);
    at = sink.reserve(sink.user, 16384);
    CBT_REQUIRE(at != NULL);
    sink.commit(sink.user, 0, true); /* given back */
    for (i = 16000; i < 30000; i += 100) {
        at = sink.reserve(sink.user, 100);
        CBT_REQUIRE(at != NULL);
        pattern_fill(at, 100, i);
        sink.commit(sink.user, 100, false);
    }
    memset(&shared, 0, sizeof shared);
    pattern_fill(bytes, sizeof bytes, 30000);
    shared.data = bytes;
    shared.size = sizeof bytes;
    shared.refs = 1;
    shared.release = on_release;
    CBT_CHECK(sink.share(sink.user, &shared, false));
    CBT_EQ(cb_loop_stream_unsent(&w->client[0].s), 34000);
    CBT_EQ(sink.room(sink.user, false), 16000);
    shared.refs--; /* the stream alone holds it now */
    released = 0;
    UNTIL(w, w->server[0].got_size == 34000);
    CBT_EQ(released, 1);
    check_pattern(&w->server[0], 34000);
    world_end(w);
}

BOTH(loop_sink_refusals_lead_to_on_drain)
{
    cb_sink sink;
    uint8_t *at;
    CBT_REQUIRE(world_begin(w, backend, false));
    w->stream.output_bytes_soft = 1000;
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK && world_pair(w));
    sink = cb_loop_stream_sink(&w->client[0].s);
    CBT_EQ(sink.room(sink.user, false), 1000);
    at = sink.reserve(sink.user, 400);
    CBT_REQUIRE(at != NULL);
    memset(at, 1, 400);
    sink.commit(sink.user, 400, false);
    world_steps(w, 3);
    CBT_EQ(w->client[0].drains, 0); /* nothing was refused */
    CBT_EQ(sink.room(sink.user, false), 1000);
    at = sink.reserve(sink.user, 400);
    CBT_REQUIRE(at != NULL);
    memset(at, 1, 400);
    sink.commit(sink.user, 400, false);
    CBT_EQ(sink.room(sink.user, false), 600); /* an engine with 700 would not go on */
    world_steps(w, 3);
    CBT_EQ(w->client[0].drains, 1);
    UNTIL(w, w->server[0].got_size == 800);
    world_end(w);
}

/* Without memory the sink still lends what it promised, and the stream closes with E_NOMEM. */
BOTH(loop_m08_sink_without_memory_never_lends_null)
{
    cb_sink sink;
    uint8_t *at;
    CBT_REQUIRE(world_begin(w, backend, false) && world_listen(w) == CB_LOOP_OK && world_pair(w));
    sink = cb_loop_stream_sink(&w->client[0].s);
    cb_loop_trim(&w->loop);
    CBT_CHECK(sink.room(sink.user, false) > 100000);
    w->mem.fail_at = w->mem.calls + 1;
    at = sink.reserve(sink.user, 16384);
    CBT_REQUIRE(at != NULL);
    memset(at, 7, 16384);
    sink.commit(sink.user, 16384, true);
    at = sink.reserve(sink.user, 16384);
    CBT_REQUIRE(at != NULL);
    sink.commit(sink.user, 16384, false);
    CBT_EQ(sink.room(sink.user, true), 0);
    world_steps(w, 2);
    CBT_EQ(w->client[0].closes, 1);
    CBT_EQ(w->client[0].why, CB_LOOP_E_NOMEM);
    world_end(w);
}

/* ----------------------------------- memory, and everything at once ----------------------------------- */

static void scenario(world *w)
{
    static uint8_t bytes[60000];
    cb_shared shared;
    uint64_t end = real_ns() + 20 * SEC;
    memset(&shared, 0, sizeof shared);
    shared.data = bytes;
    shared.size = sizeof bytes;
    shared.refs = 1;
    w->template_server.echo = true;
    w->stream.output_bytes_soft = 40000; /* so that input is kept */
    w->stream.output_bytes_hard = 200000;
    if (world_listen(w) != CB_LOOP_OK) {
        return;
    }
    if (world_connect(w, &w->client[0]) != CB_LOOP_OK) {
        w->client[0].used = false;
        return;
    }
    (void)cb_loop_stream_write(&w->client[0].s, bytes, 30000);
    (void)cb_loop_stream_share(&w->client[0].s, &shared);
    cb_loop_stream_shutdown(&w->client[0].s);
    while (w->client[0].closes == 0 && real_ns() < end) {
        cb_loop_step(&w->loop, 2 * MS);
    }
    CBT_EQ(w->client[0].closes, 1);
    CBT_EQ(shared.refs, 1);
}

/* Each allocation in turn fails: an error somewhere, nothing leaked, every notice given. */
BOTH(loop_m08_each_allocation_fails_in_turn)
{
    size_t k, calls = 1;
    for (k = 1; k <= calls + 2; k++) {
        if (!world_begin(w, backend, false)) {
            CBT_CHECK(false);
            return;
        }
        w->mem.fail_at = w->mem.calls + k;
        calls = k == 1 ? 40 : calls;
        scenario(w);
        world_end(w);
    }
}

/* Once warm, echoes, timers, posts and reads that leave a rest touch no allocator, ours or libc's. */
BOTH(loop_nothing_is_allocated_once_warm)
{
    static uint8_t bytes[20000];
    size_t calls = 0, i;
    uint64_t mallocs = 0;
    timer_note n;
    post_note p;
    CBT_REQUIRE(world_begin(w, backend, false));
    w->template_server.echo = true;
    CBT_REQUIRE(world_listen(w) == CB_LOOP_OK && world_pair(w));
    w->client[0].got = (uint8_t *)malloc(8000000);
    w->server[0].got = (uint8_t *)malloc(8000000);
    w->client[0].got_cap = 8000000;
    w->server[0].got_cap = 8000000;
    note_init(&n, &w->loop, 0);
    post_init(&p, &w->loop);
    for (i = 0; i < 300; i++) {
        size_t want = w->client[0].got_size + 20000;
        if (i == 100) {
            calls = w->mem.calls;
            mallocs = cbt_malloc_calls();
        }
        w->server[0].eat = i % 3 == 0 ? 7000 : 0;
        cb_loop_timer_start(&w->loop, &n.t, 0);
        CBT_EQ(cb_loop_post(&w->loop, &p.task), CB_LOOP_OK);
        CBT_EQ(cb_loop_stream_write(&w->client[0].s, bytes, 20000), 20000);
        while (w->client[0].got_size < want) {
            cb_loop_stream_reshow(&w->server[0].s);
            cb_loop_step(&w->loop, 0);
        }
        cb_loop_step(&w->loop, 0);
    }
    CBT_EQ(w->mem.calls, calls);
#if CBT_MALLOC_COUNTED
    CBT_EQ(cbt_malloc_calls(), mallocs);
#else
    (void)mallocs;
#endif
    world_end(w);
}

/* What an idle connection holds, before and after use: nothing but its struct and its share of the settings.
 */
BOTH(loop_idle_stream_holds_no_buffer)
{
    static uint8_t bytes[16384];
    size_t before, i;
    CBT_REQUIRE(world_begin(w, backend, false) && world_listen(w) == CB_LOOP_OK && world_pair(w));
    CBT_CHECK(sizeof(void *) != 8 || sizeof(cb_loop_stream) <= 192);
    before = w->mem.live_bytes;
    for (i = 1; i < 4; i++) {
        CBT_REQUIRE(world_pair(w));
    }
    CBT_CHECK(w->mem.live_bytes - before <= 3 * sizeof(cbi_loop_settings)); /* each client has another user
                                                                               here */
    before = w->mem.live_bytes;
    for (i = 0; i < 4; i++) {
        CBT_EQ(cb_loop_stream_write(&w->client[i].s, bytes, sizeof bytes), sizeof bytes);
        CBT_EQ(cb_loop_stream_write(&w->server[i].s, bytes, sizeof bytes), sizeof bytes);
        UNTIL(w, w->client[i].got_size == sizeof bytes && w->server[i].got_size == sizeof bytes);
    }
    cb_loop_trim(&w->loop);
    CBT_EQ(w->mem.live_bytes, before);
    CBT_EQ(cb_loop_stream_write(&w->client[0].s, bytes, sizeof bytes), sizeof bytes);
    UNTIL(w, w->server[0].got_size == 2 * sizeof bytes);
    CBT_CHECK(w->mem.live_bytes > before);
    UNTIL(w, w->mem.live_bytes == before); /* a second or two of silence give buffers back */
    world_end(w);
}

static void *own_loop_main(void *arg)
{
    static __thread world w;
    int i;
    (void)arg;
    for (i = 0; i < 3; i++) {
        cb_loop loop;
        timer_note n;
        if (cb_loop_init(&loop, NULL) != CB_LOOP_OK) {
            return &w;
        }
        note_init(&n, &loop, 5);
        cb_loop_timer_start(&loop, &n.t, MS);
        (void)cb_loop_run(&loop);
        cb_loop_deinit(&loop);
        if (n.fired != 1) {
            return &w;
        }
    }
    return NULL;
}

static void loop_m07_two_loops_in_two_threads(void)
{
    pthread_t a, b;
    void *x = NULL, *y = NULL;
    CBT_REQUIRE(pthread_create(&a, NULL, own_loop_main, NULL) == 0);
    CBT_REQUIRE(pthread_create(&b, NULL, own_loop_main, NULL) == 0);
    pthread_join(a, &x);
    pthread_join(b, &y);
    CBT_CHECK(x == NULL && y == NULL);
}

/* Eight echoing pairs; the servers take random parts, want at random, pause and go on; every byte is
 * compared. */
static void soak_hook(peer *p, char event)
{
    if (event == 'd') {
        p->eat = cbt_rand_below(3) == 0 ? 0 : 1 + cbt_rand_below(9000);
        p->want = cbt_rand_below(4) == 0 ? 1 + cbt_rand_below(12000) : 0;
        if (cbt_rand_below(8) == 0) {
            cb_loop_stream_pause(&p->s);
        }
        if (p->eat != 0) {
            cb_loop_stream_reshow(&p->s); /* else what is left at the end would be lost */
        }
    }
}

BOTH(loop_soak_of_random_cuts_pauses_and_wants)
{
    unsigned closed = 0;
    uint64_t end = real_ns() + 60 * SEC;
    size_t total[8];
    int i, round;
    for (round = 0; round < 3; round++) {
        CBT_REQUIRE(world_begin(w, backend, false));
        w->stream.output_bytes_soft = round == 0 ? 3000 : 60000;
        w->stream.input_bytes_max = 20000;
        w->stream.send_buffer_bytes = round == 2 ? 0 : 4096;
        fault.recv_max = round == 1 ? 777 : 0;
        w->template_server.echo = true;
        w->template_server.hook = soak_hook;
        CBT_REQUIRE(world_listen(w) == CB_LOOP_OK);
        for (i = 0; i < 8; i++) {
            total[i] = cbt_rand_below(400000);
            feed_begin(&w->client[i], i, total[i]);
            feeds[i].shut_after = true;
            CBT_EQ(world_connect(w, &w->client[i]), CB_LOOP_OK);
        }
        for (closed = 0; closed < 8 && real_ns() < end;) {
            cb_loop_step(&w->loop, MS);
            for (closed = 0, i = 0; i < 8; i++) {
                closed += w->client[i].closes;
                if (w->server[i].used && w->server[i].closes == 0 && cbt_rand_below(4) == 0) {
                    w->server[i].want = 0;
                    cb_loop_stream_resume(&w->server[i].s);
                    cb_loop_stream_reshow(&w->server[i].s);
                }
            }
        }
        CBT_EQ(closed, 8);
        for (i = 0; i < 8; i++) {
            check_pattern(&w->client[i], total[i]);
        }
        world_end(w);
    }
}

static const cbt_case cases[] = {
    CBT_CASE(loop_timers_run_in_exact_order),
    CBT_CASE(loop_timers_are_inactive_after_deinit),
    CBT_CASE(loop_timers_past_deadlines_run_in_their_order),
    CBT_CASE(loop_a08_zero_delay_timer_does_not_starve),
    CBT_CASE(loop_a09_timers_stop_each_other_and_free_themselves),
    CBT_CASE(loop_a10_timer_started_late_in_the_pass_is_not_missed),
    CBT_CASE(loop_a11_delay_after_a_slow_callback_is_not_short),
    CBT_CASE(loop_a11_interval_keeps_its_phase_and_skips_what_was_missed),
    CBT_CASE(loop_a13_clock_that_steps_back_stands_still),
    CBT_CASE(loop_a14_timers_cross_the_wrap_of_narrow_counters),
    CBT_CASE(loop_a15_very_long_delays_neither_fire_nor_wrap),
    CBT_CASE(loop_a16_wait_is_rounded_up),
    CBT_CASE(loop_a19_interrupted_wait_goes_on_with_the_time_left),
    CBT_CASE(loop_pass_without_handles_makes_no_system_call),
    CBT_CASE(loop_posts_run_once_and_reposts_in_the_next_pass),
    CBT_CASE(loop_a17_posts_from_threads_are_neither_lost_nor_late),
    CBT_CASE(loop_a18_end_of_the_loop_races_with_posters),
    CBT_CASE(loop_a20_run_ends_by_stop_alone),
    CBT_CASE(loop_stop_in_a_callback_ends_that_pass),
    CBT_CASE(loop_posts_keep_their_order_when_a_thread_takes_over),
    CBT_CASE(loop_stop_from_a_signal_handler),
    CBT_CASE(loop_events_keep_order_while_edited),
    CBT_CASE(loop_urls_say_what_is_wrong),
    CBT_CASE(loop_init_refuses_contradictions),
    CBT_CASE(loop_listen_on_a_busy_port_says_so),
    CBT_CASE(loop_on_accept_may_refuse),
    CBT_CASE(loop_b01_out_of_descriptors_on_accept_backs_off),
    CBT_CASE(loop_b02_aborted_connections_do_not_stop_the_listener),
    CBT_CASE(loop_b05_refused_connection_is_told_once_with_its_reason),
    CBT_CASE(loop_b06_immediate_failures_are_told_in_one_way),
    CBT_CASE(loop_connect_has_a_deadline),
    CBT_CASE(loop_connect_again_from_on_closed_and_close_while_connecting),
    CBT_CASE(loop_a02_a03_close_in_every_callback),
    CBT_CASE(loop_abort_resets_and_says_why),
    CBT_CASE(loop_a04_a05_closing_neighbours_within_a_batch),
    CBT_CASE(loop_a06_stale_batch_is_no_fault),
    CBT_CASE(loop_a07_registration_does_not_outlive_the_stream),
    CBT_CASE(loop_two_streams_close_each_other),
    CBT_CASE(loop_m12_deinit_closes_listeners_then_streams_then_posts),
    CBT_CASE(loop_echo_of_8_mib_through_tiny_buffers),
    CBT_CASE(loop_b07_gather_writes_cut_at_every_size),
    CBT_CASE(loop_b08_small_write_does_not_overtake),
    CBT_CASE(loop_b09_b10_b21_write_error_drops_all_that_waits),
    CBT_CASE(loop_b03_hang_up_while_paused_does_not_spin),
    CBT_CASE(loop_b04_data_before_hang_up_is_delivered),
    CBT_CASE(loop_b11_close_flushes_first),
    CBT_CASE(loop_b12_close_with_unread_input_is_no_reset),
    CBT_CASE(loop_b13_half_close_both_ways),
    CBT_CASE(loop_close_after_shutdown_lingers_no_longer),
    CBT_CASE(loop_write_error_ends_a_stream_that_is_held_back),
    CBT_CASE(loop_deadlines_do_not_punish_peers_for_a_slow_program),
    CBT_CASE(loop_release_of_shared_output_may_abort),
    CBT_CASE(loop_a11_now_is_of_this_pass_in_every_callback),
    CBT_CASE(loop_reshow_while_connecting_comes_after_on_open),
    CBT_CASE(loop_b14_reset_after_half_close),
    CBT_CASE(loop_b15_pause_in_on_data_takes_effect),
    CBT_CASE(loop_b16_flooding_peer_does_not_starve_others),
    CBT_CASE(loop_b22_output_to_a_peer_that_does_not_read_is_bounded),
    CBT_CASE(loop_slow_peer_that_nobody_waits_for_is_kept),
    CBT_CASE(loop_want_calls_when_enough_is_there),
    CBT_CASE(loop_want_at_exact_sizes_byte_by_byte),
    CBT_CASE(loop_hold_policy_keeps_exactly_the_bound),
    CBT_CASE(loop_close_policy_at_the_bound),
    CBT_CASE(loop_reshow_and_exchange_of_handlers),
    CBT_CASE(loop_sink_lends_room_and_keeps_order),
    CBT_CASE(loop_sink_refusals_lead_to_on_drain),
    CBT_CASE(loop_m08_sink_without_memory_never_lends_null),
    CBT_CASE(loop_m08_each_allocation_fails_in_turn),
    CBT_CASE(loop_nothing_is_allocated_once_warm),
    CBT_CASE(loop_idle_stream_holds_no_buffer),
    CBT_CASE(loop_m07_two_loops_in_two_threads),
    CBT_CASE(loop_soak_of_random_cuts_pauses_and_wants),
};

int main(int argc, char **argv)
{
    return cbt_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
