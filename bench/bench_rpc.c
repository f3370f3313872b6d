/* bench_rpc.c - figures of cb_rpc.h. cc -O2 -I. bench/bench_rpc.c -o b && ./b [--name part-of-a-name]
 *     ./b --connections 64 --depth 4 --bytes 1000     other sizes: the figures rpc/64x4_1000_...
 *
 * Small calls carry an int32 drawn uniformly and answer with one, as fixed four bytes each.
 *
 *     memory_*   both ends in one process and no system call; one call at a time, one-way calls 32 at a time. Floor:
 *                hand_rpc.h, the same frames, a table of handlers, a table of open calls, twice: with plain varints and
 *                with a test for the short form
 *     tcp_*      both ends in one process over loopback, one call at a time. Floor: hand_rpc.h over epoll in one loop,
 *                the 6 system calls that there must be
 *     the rest   a server process bound to core 0, this process on core 1. CPU a call is the server's own, of its process
 *                clock; the client's is this process's. Floors are servers of their own: `echo` sends back the bytes that
 *                one read gave, parsing nothing; `hand` reads calls by hand_rpc.h (small ones only). Their client counts bytes and
 *                sends as many frames as it was answered, one write for all. Windows of subject and floors take turns
 *     bytes      counted in the sinks of two sessions, 32 calls in flight
 *     syscalls   strace -c of the server process, 8 connections with 32 calls each
 */
#include "raw.h"
#include "hand_rpc.h"
#define CB_CODEC_IMPLEMENTATION
#include "cb_codec.h"
#define CB_LOOP_IMPLEMENTATION
#include "cb_loop.h"
#define CB_RPC_IMPLEMENTATION
#define CB_RPC_WITH_LOOP
#include "cb_rpc.h"

#define NUMBER(F) F(i32, n)
CB_CODEC_SCHEMA(number, NUMBER)
#define BLOB(F) F(view, data, 65535)
CB_CODEC_SCHEMA(blob, BLOB)
#define COUNTER(F) F(u64, bytes)
CB_CODEC_SCHEMA(counter, COUNTER)
#define WORK(CALL, EVENT)                     \
    CALL (1, work_add,   number, number)      \
    EVENT(2, work_note,  number)              \
    CALL (3, work_echo,  blob,   blob)        \
    CALL (4, work_taken, number, counter)
CB_RPC_CONTRACT(work, WORK)

#define PAYLOAD_MAX 60000u
#define SAMPLES_MAX (1u << 20)

static void need(cb_rpc_status st, const char *what)
{
    if (st != CB_RPC_OK) {
        fprintf(stderr, "bench_rpc: %s: %s\n", what, cb_rpc_status_str(st));
        exit(1);
    }
}

static uint64_t random_state = 1;
static inline uint32_t random_next(void) /* the same generator for subject and floors: a multiplication and a shift */
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

/* -- handlers -- */
static uint64_t notes;
static cb_rpc_status on_work_add(void *user, cb_rpc_session *from, const number *a, number *reply)
{
    (void)user;
    (void)from;
    reply->n = (int32_t)((uint32_t)a->n + 1u);
    return CB_RPC_OK;
}

static void on_work_note(void *user, cb_rpc_session *from, const number *a)
{
    (void)user;
    (void)from;
    notes += (uint32_t)a->n;
}

static cb_rpc_status on_work_echo(void *user, cb_rpc_session *from, const blob *a, blob *reply)
{
    (void)user;
    (void)from;
    reply->data = a->data;
    return CB_RPC_OK;
}

static cb_rpc_status on_work_taken(void *user, cb_rpc_session *from, const number *a, counter *reply)
{
    (void)user;
    (void)from;
    (void)a;
    reply->bytes = cbt_malloc_bytes();
    return CB_RPC_OK;
}
static const work_handlers handlers = { on_work_add, on_work_note, on_work_echo, on_work_taken };

/* ======================================== memory ======================================== */

static cb_rpc_hub hub;
static cb_rpc_pair pair;
static uint32_t expected, answered;

static void on_added(void *user, const cb_rpc_result *res, const number *reply)
{
    (void)user;
    if (res->status != CB_RPC_OK || (uint32_t)reply->n != expected) {
        abort();
    }
    answered++;
}

static void memory_receiver(void *user, uint64_t ops)
{
    (void)user;
    while (ops-- != 0) {
        number a;
        uint32_t before = answered;
        a.n = (int32_t)random_next();
        expected = (uint32_t)a.n + 1u;
        if (work_add(&pair.a, &a, on_added, NULL) != CB_RPC_OK || cb_rpc_pair_run(&pair, 0) != CB_RPC_OK ||
            answered != before + 1u) {
            abort();
        }
    }
}

static void memory_future(void *user, uint64_t ops)
{
    cb_rpc_future f;
    number reply;
    (void)user;
    memset(&f, 0, sizeof f);
    while (ops-- != 0) {
        number a;
        a.n = (int32_t)random_next();
        if (work_add_future(&pair.a, &a, &reply, &f) != CB_RPC_OK || cb_rpc_pair_run(&pair, 0) != CB_RPC_OK ||
            f.state != CB_RPC_FUTURE_DONE || f.status != CB_RPC_OK || (uint32_t)reply.n != (uint32_t)a.n + 1u) {
            abort();
        }
    }
}

/* Operations in groups of 32, for what is sent without an answer is sent in groups. */
static void memory_one_way(void *user, uint64_t ops)
{
    uint64_t sum = notes, i;
    (void)user;
    for (i = 0; i < ops; i++) {
        number a;
        a.n = (int32_t)random_next();
        sum += (uint32_t)a.n;
        if (work_note(&pair.a, &a) != CB_RPC_OK || (i % 32u == 31u && cb_rpc_pair_run(&pair, 0) != CB_RPC_OK)) {
            abort();
        }
    }
    if (cb_rpc_pair_run(&pair, 0) != CB_RPC_OK || sum != notes) {
        abort();
    }
}

/* 32 calls on the way at a time, as a busy connection has them. */
static void memory_receiver_32(void *user, uint64_t ops)
{
    number a;
    (void)user;
    a.n = (int32_t)random_next();
    expected = (uint32_t)a.n + 1u;
    while (ops != 0) {
        uint32_t before = answered, n = ops < 32u ? (uint32_t)ops : 32u, i;
        for (i = 0; i < n; i++) {
            if (work_add(&pair.a, &a, on_added, NULL) != CB_RPC_OK) {
                abort();
            }
        }
        if (cb_rpc_pair_run(&pair, 0) != CB_RPC_OK || answered != before + n) {
            abort();
        }
        ops -= n;
    }
}

/* -- the floor of it -- */
static hand_client hand;
static hand_server hand_at;
static hand_buffer hand_out, hand_back;

static bool hand_add(void *user, uint32_t args, uint32_t *reply)
{
    (void)user;
    *reply = args + 1u;
    return true;
}

static void hand_note(void *user, uint32_t args)
{
    (void)user;
    notes += args;
}

static void hand_added(void *user, uint32_t value)
{
    (void)user;
    if (value != expected) {
        abort();
    }
    answered++;
}

static void hand_done(void *user, uint32_t value)
{
    hand_future *f = (hand_future *)user;
    f->reply = value;
    f->state = 2;
}

static inline void hand_run(bool is_short)
{
    if (hand_serve(&hand_at, hand_out.bytes, hand_out.size, is_short, &hand_back) != hand_out.size ||
        hand_receive(&hand, hand_back.bytes, hand_back.size, is_short) != hand_back.size) {
        abort();
    }
    hand_out.size = 0;
    hand_back.size = 0;
}

static inline void hand_receiver_ops(uint64_t ops, bool is_short)
{
    while (ops-- != 0) {
        uint32_t value = random_next(), before = answered;
        expected = value + 1u;
        if (!hand_call_send(&hand, &hand_out, value, hand_added, NULL)) {
            abort();
        }
        bench_use_ptr(hand_out.bytes);
        hand_run(is_short);
        if (answered != before + 1u) {
            abort();
        }
    }
}

static inline void hand_future_ops(uint64_t ops, bool is_short)
{
    while (ops-- != 0) {
        uint32_t value = random_next();
        hand_future f;
        f.state = 1;
        if (!hand_call_send(&hand, &hand_out, value, hand_done, &f)) {
            abort();
        }
        bench_use_ptr(hand_out.bytes);
        hand_run(is_short);
        if (f.state != 2 || f.reply != value + 1u) {
            abort();
        }
    }
}

static inline void hand_one_way_ops(uint64_t ops, bool is_short)
{
    uint64_t sum = notes, i;
    for (i = 0; i < ops; i++) {
        uint32_t value = random_next();
        sum += value;
        if (!hand_event_send(&hand_out, value)) {
            abort();
        }
        bench_use_ptr(hand_out.bytes);
        if (i % 32u == 31u) {
            hand_run(is_short);
        }
    }
    hand_run(is_short);
    if (sum != notes) {
        abort();
    }
}

static inline void hand_receiver_32_ops(uint64_t ops, bool is_short)
{
    uint32_t value = random_next();
    expected = value + 1u;
    while (ops != 0) {
        uint32_t before = answered, n = ops < 32u ? (uint32_t)ops : 32u, i;
        for (i = 0; i < n; i++) {
            if (!hand_call_send(&hand, &hand_out, value, hand_added, NULL)) {
                abort();
            }
        }
        bench_use_ptr(hand_out.bytes);
        hand_run(is_short);
        if (answered != before + n) {
            abort();
        }
        ops -= n;
    }
}
#define HAND_PAIR(name)                                                                                      \
    static void hand_##name##_plain(void *user, uint64_t ops) { (void)user; hand_##name##_ops(ops, false); } \
    static void hand_##name##_short(void *user, uint64_t ops) { (void)user; hand_##name##_ops(ops, true); }
HAND_PAIR(receiver)
HAND_PAIR(future)
HAND_PAIR(one_way)
HAND_PAIR(receiver_32)

static void hand_prepare(void)
{
    hand_client_init(&hand);
    memset(&hand_at, 0, sizeof hand_at);
    hand_at.call[1] = hand_add;
    hand_at.event[2] = hand_note;
    bench_use_ptr(&hand_at); /* the compiler may not know which handler it is */
}

static void run_memory(void)
{
    static const struct {
        const char *name;
        bench_fn subject, plain, quick;
    } rows[] = {
        { "rpc/memory_receiver", memory_receiver, hand_receiver_plain, hand_receiver_short },
        { "rpc/memory_future", memory_future, hand_future_plain, hand_future_short },
        { "rpc/memory_one_way", memory_one_way, hand_one_way_plain, hand_one_way_short },
        { "rpc/memory_receiver_32", memory_receiver_32, hand_receiver_32_plain, hand_receiver_32_short },
    };
    cb_rpc_hub_desc d;
    size_t i;
    memset(&d, 0, sizeof d);
    work_bind(&d, &handlers, NULL);
    need(cb_rpc_hub_init(&hub, &d), "hub");
    need(cb_rpc_pair_init(&pair, &hub, &hub, NULL), "pair");
    hand_prepare();
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench_spec s;
        bench_clear(&s, rows[i].name);
        bench_subject(&s, rows[i].subject, NULL);
        bench_floor(&s, "plain", rows[i].plain, NULL);
        bench_floor(&s, "short", rows[i].quick, NULL);
        bench_run(&s);
    }
    cb_rpc_pair_deinit(&pair);
    (void)cb_rpc_hub_deinit(&hub);
}

/* ===================================== bytes a call ===================================== */

/* A sink that keeps everything in one buffer and counts. */
typedef struct lane {
    uint8_t bytes[1 << 20];
    size_t size;
    uint64_t total;
} lane;

static size_t lane_room(void *user, bool owed)
{
    (void)owed;
    return sizeof ((lane *)user)->bytes - ((lane *)user)->size;
}

static uint8_t *lane_reserve(void *user, size_t size)
{
    (void)size;
    return ((lane *)user)->bytes + ((lane *)user)->size;
}

static void lane_commit(void *user, size_t size, bool more)
{
    (void)more;
    ((lane *)user)->size += size;
    ((lane *)user)->total += size;
}

static cb_sink lane_sink(lane *l)
{
    cb_sink s;
    memset(&s, 0, sizeof s);
    s.room = lane_room;
    s.reserve = lane_reserve;
    s.commit = lane_commit;
    s.user = l;
    s.piece_max = 65536;
    return s;
}

static lane lane_out, lane_back;

static void lane_show(cb_rpc_session *to, lane *l)
{
    cb_span in;
    cb_rpc_status st;
    in.data = l->bytes;
    in.size = l->size;
    st = cb_rpc_drive(to, &in, 0);
    if (st != CB_RPC_NEED_INPUT || in.size != 0) {
        need(st, "drive");
        abort();
    }
    l->size = 0;
}

static void on_echoed(void *user, const cb_rpc_result *res, const blob *reply)
{
    (void)user;
    if (res->status != CB_RPC_OK || reply->data.size != expected) {
        abort();
    }
    answered++;
}

static uint8_t payload[PAYLOAD_MAX];

/* Bytes of `calls` calls with `depth` on the way; bytes 0: the small one. Also leaves the client's hello in `hello`. */
static void count_bytes(size_t bytes, uint32_t depth, uint64_t calls, double *out, double *back, uint8_t *hello, size_t *hello_size)
{
    cb_rpc_hub_desc d;
    cb_rpc_session_desc sd;
    cb_rpc_session a, b;
    uint64_t i, base_out, base_back;
    memset(&d, 0, sizeof d);
    work_bind(&d, &handlers, NULL);
    need(cb_rpc_hub_init(&hub, &d), "hub");
    memset(&lane_out, 0, sizeof lane_out);
    memset(&lane_back, 0, sizeof lane_back);
    memset(&sd, 0, sizeof sd);
    sd.sink = lane_sink(&lane_out);
    need(cb_rpc_session_init(&a, &hub, &sd), "session");
    sd.sink = lane_sink(&lane_back);
    sd.is_server = true;
    need(cb_rpc_session_init(&b, &hub, &sd), "session");
    lane_back.size = 0;
    lane_show(&a, &lane_back); /* nothing yet: each side writes its hello on its first turn */
    if (hello != NULL) {
        *hello_size = lane_out.size;
        memcpy(hello, lane_out.bytes, lane_out.size);
    }
    lane_show(&b, &lane_out);
    lane_show(&a, &lane_back);
    base_out = lane_out.total;
    base_back = lane_back.total;
    expected = bytes != 0 ? (uint32_t)bytes : 0;
    for (i = 0; i < calls; i++) {
        if (bytes == 0) {
            number n;
            n.n = (int32_t)random_next();
            expected = (uint32_t)n.n + 1u;
            need(work_add(&a, &n, NULL, NULL), "call");
        } else {
            blob m;
            m.data.data = payload;
            m.data.size = bytes;
            need(work_echo(&a, &m, on_echoed, NULL), "call");
        }
        if (i % depth == depth - 1u || i == calls - 1u || lane_out.size > sizeof lane_out.bytes / 2u) {
            lane_show(&b, &lane_out);
            lane_show(&a, &lane_back);
        }
    }
    *out = (double)(lane_out.total - base_out) / (double)calls;
    *back = (double)(lane_back.total - base_back) / (double)calls;
    cb_rpc_end(&a, CB_RPC_E_CLOSED, NULL);
    cb_rpc_end(&b, CB_RPC_E_CLOSED, NULL);
    need(cb_rpc_session_deinit(&a), "deinit");
    need(cb_rpc_session_deinit(&b), "deinit");
    need(cb_rpc_hub_deinit(&hub), "deinit");
}

static void print_bytes(const char *name, double value)
{
    bench_series s;
    if (!bench_wanted(name)) {
        return;
    }
    memset(&s, 0, sizeof s);
    bench_add(&s, value);
    bench_print(name, "B", &s, NULL, 0, false, -1);
}

static void run_bytes(void)
{
    double out, back;
    count_bytes(0, 32, 3200, &out, &back, NULL, NULL);
    print_bytes("rpc/small_bytes_out", out);
    print_bytes("rpc/small_bytes_back", back);
    count_bytes(4096, 32, 320, &out, &back, NULL, NULL);
    print_bytes("rpc/kb4_bytes_past", (out > back ? out : back) - 4096.0);
}

/* ======================================= servers ======================================== */

static void say_port(int out, unsigned port)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%u\n", port);
    raw_need(write(out, text, (size_t)n) == n, "write");
}

static int serve_ours(void *user, int in, int out)
{
    cb_loop loop;
    cb_rpc_hub_desc d;
    cb_loop_address at;
    (void)user;
    (void)in;
    memset(&d, 0, sizeof d);
    d.url = "tcp://127.0.0.1:0";
    work_bind(&d, &handlers, NULL);
    if (cb_loop_init(&loop, NULL) != CB_LOOP_OK) {
        return 1;
    }
    need(cb_rpc_serve(&hub, &loop, &d), "serve");
    need(cb_rpc_serve_address(&hub, &at), "address");
    say_port(out, cb_loop_address_port(&at));
    return cb_loop_run(&loop) != CB_LOOP_OK;
}

typedef struct served {
    raw_conn c;
    uint8_t kept[16];
    size_t kept_size;
} served;

static bool served_input(served *s, bool by_hand, uint8_t *buffer)
{
    ssize_t n;
    size_t size, used;
    memcpy(buffer, s->kept, s->kept_size);
    n = recv(s->c.fd, buffer + s->kept_size, RAW_BUFFER - s->kept_size, 0);
    if (n <= 0) {
        return n < 0 && errno == EAGAIN;
    }
    if (!by_hand) {
        return raw_send(&s->c, buffer, (size_t)n);
    }
    size = s->kept_size + (size_t)n;
    for (used = 0;;) { /* answers leave in pieces of hand_back, as a rule one */
        size_t part = size - used < 14000u ? size - used : 14000u, did;
        hand_back.size = 0;
        did = hand_serve(&hand_at, buffer + used, part, true, &hand_back);
        if (did == SIZE_MAX || (hand_back.size != 0 && !raw_send(&s->c, hand_back.bytes, hand_back.size))) {
            return false;
        }
        used += did;
        if (did == 0 || used == size) {
            break;
        }
    }
    s->kept_size = size - used;
    if (s->kept_size > sizeof s->kept) {
        return false;
    }
    memcpy(s->kept, buffer + used, s->kept_size);
    return true;
}

/* The floors' server. user != NULL: by hand_rpc.h, else echo. */
static int serve_raw(void *user, int in, int out)
{
    static uint8_t buffer[RAW_BUFFER];
    struct epoll_event events[64];
    uint16_t port;
    int epoll = epoll_create1(EPOLL_CLOEXEC), listener = raw_listen(&port), n, i;
    (void)in;
    hand_prepare();
    raw_watch(epoll, listener, NULL);
    say_port(out, port);
    while ((n = epoll_wait(epoll, events, 64, -1)) >= 0 || errno == EINTR) {
        for (i = 0; i < n; i++) {
            served *s = (served *)events[i].data.ptr;
            bool good;
            if (s == NULL) {
                int fd = accept(listener, NULL, NULL);
                s = (served *)calloc(1, sizeof *s);
                raw_need(fd >= 0 && s != NULL, "accept");
                raw_nonblocking(fd);
                s->c.fd = fd;
                s->c.epoll = epoll;
                raw_watch(epoll, fd, s);
                continue;
            }
            good = (events[i].events & EPOLLOUT) != 0 ? raw_flush(&s->c) : served_input(s, user != NULL, buffer);
            if (!good) {
                close(s->c.fd);
                free(s->c.rest);
                free(s);
            }
        }
    }
    return 1;
}

/* ======================================= clients ======================================== */

typedef struct setup {
    uint32_t connections, depth;
    size_t bytes; /* 0: the small call */
    size_t frame; /* on the wire, each way */
} setup;

typedef struct window {
    double rate, server_cpu, client_cpu, p50, p99; /* calls/s, ns, ns, ns, ns */
    uint64_t calls, taken; /* taken: bytes asked of malloc in this process */
} window;

typedef enum side_kind { OURS, ECHO, HAND, SIDES } side_kind;

static uint32_t *samples;
static size_t sample_count;
static uint64_t calls_done;
static bool stopping;

static int compare_samples(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void sample(uint64_t since)
{
    if (sample_count < SAMPLES_MAX) {
        uint64_t took = bench_wall_ns() - since;
        samples[sample_count++] = took > UINT32_MAX ? UINT32_MAX : (uint32_t)took;
    }
}

/* -- ours: each slot is one call on the way; one slot of a connection at a time is timed -- */
struct conn;
typedef struct slot {
    struct conn *c;
    uint32_t expected;
} slot;

typedef struct conn {
    cb_rpc_session session;
    slot *slots;
    const slot *timed;
    uint64_t since;
    raw_conn raw; /* of the floors' client */
    uint64_t sent, got_bytes, timed_frame;
} conn;

typedef struct client {
    setup what;
    conn *conns;
    cb_loop loop;
    cb_rpc_hub hub;
    uint32_t flying;
    int epoll;
    uint8_t *frames; /* depth of them, ready */
} client;
static client *now_client;

static void slot_send(slot *k);
static void slot_answered(slot *k)
{
    conn *c = k->c;
    calls_done++;
    if (c->timed == k) {
        sample(c->since);
        c->timed = NULL;
    }
    if (stopping) {
        now_client->flying--;
    } else {
        slot_send(k);
    }
}

static void on_slot_added(void *user, const cb_rpc_result *res, const number *reply)
{
    slot *k = (slot *)user;
    if (res->status != CB_RPC_OK || (uint32_t)reply->n != k->expected) {
        fprintf(stderr, "bench_rpc: %s\n", res->reason);
        exit(1);
    }
    slot_answered(k);
}

static void on_slot_echoed(void *user, const cb_rpc_result *res, const blob *reply)
{
    slot *k = (slot *)user;
    if (res->status != CB_RPC_OK || reply->data.size != now_client->what.bytes || reply->data.data[0] != payload[0]) {
        fprintf(stderr, "bench_rpc: %s\n", res->reason);
        exit(1);
    }
    slot_answered(k);
}

static void slot_send(slot *k)
{
    conn *c = k->c;
    if (c->timed == NULL) {
        c->timed = k;
        c->since = bench_wall_ns();
    }
    if (now_client->what.bytes == 0) {
        number a;
        a.n = (int32_t)random_next();
        k->expected = (uint32_t)a.n + 1u;
        need(work_add(&c->session, &a, on_slot_added, k), "call");
    } else {
        blob a;
        a.data.data = payload;
        a.data.size = now_client->what.bytes;
        need(work_echo(&c->session, &a, on_slot_echoed, k), "call");
    }
}

static void client_open(client *me, const setup *what, side_kind side, unsigned port)
{
    uint32_t i, k;
    char url[64];
    memset(me, 0, sizeof *me);
    me->what = *what;
    me->conns = (conn *)calloc(what->connections, sizeof *me->conns);
    raw_need(me->conns != NULL, "calloc");
    if (side != OURS) {
        me->epoll = epoll_create1(EPOLL_CLOEXEC);
        me->frames = (uint8_t *)calloc(what->depth, what->frame);
        raw_need(me->frames != NULL, "calloc");
        for (i = 0; side == HAND && i < what->depth; i++) { /* echo does not look at them */
            uint8_t *f = me->frames + i * what->frame;
            f[0] = 6;
            f[1] = HAND_METHOD + 1;
            f[2] = (uint8_t)(i * 2u);
        }
        for (i = 0; i < what->connections; i++) {
            me->conns[i].raw.fd = raw_connect((uint16_t)port);
            me->conns[i].raw.epoll = me->epoll;
            raw_watch(me->epoll, me->conns[i].raw.fd, &me->conns[i]);
        }
        return;
    }
    {
        cb_rpc_hub_desc d;
        memset(&d, 0, sizeof d);
        work_bind(&d, NULL, NULL);
        need(cb_rpc_hub_init(&me->hub, &d), "hub");
        raw_need(cb_loop_init(&me->loop, NULL) == CB_LOOP_OK, "loop");
    }
    snprintf(url, sizeof url, "tcp://127.0.0.1:%u", port);
    for (i = 0; i < what->connections; i++) {
        conn *c = &me->conns[i];
        need(cb_rpc_connect(&me->hub, &me->loop, &c->session, url), "connect");
        c->slots = (slot *)calloc(what->depth, sizeof *c->slots);
        raw_need(c->slots != NULL, "calloc");
        for (k = 0; k < what->depth; k++) {
            c->slots[k].c = c;
        }
    }
}

/* The operating system closes what the floors' client opened when this process ends; sessions are closed here. */
static void client_close(client *me, side_kind side)
{
    uint32_t i;
    if (side == OURS) {
        for (i = 0; i < me->what.connections; i++) {
            cb_rpc_close(&me->conns[i].session);
        }
        for (i = 0; i < 100u; i++) {
            (void)cb_loop_step(&me->loop, 1000000u);
        }
        cb_loop_deinit(&me->loop);
        (void)cb_rpc_hub_deinit(&me->hub);
    }
    for (i = 0; i < me->what.connections; i++) {
        if (side != OURS) {
            close(me->conns[i].raw.fd);
            free(me->conns[i].raw.rest);
        }
        free(me->conns[i].slots);
    }
    if (side != OURS) {
        close(me->epoll);
    }
    free(me->frames);
    free(me->conns);
}

static void ours_window(client *me, uint64_t until)
{
    uint32_t i, k;
    for (i = 0; i < me->what.connections; i++) {
        for (k = 0; k < me->what.depth; k++) {
            slot_send(&me->conns[i].slots[k]);
        }
    }
    me->flying = me->what.connections * me->what.depth;
    while (me->flying != 0) {
        raw_need(cb_loop_step(&me->loop, 1000000000u) == CB_LOOP_OK, "step");
        if (!stopping && bench_wall_ns() >= until) {
            stopping = true;
        }
    }
}

/* -- the floors' client: counts bytes, sends as many frames as it was answered -- */
static void conn_send(client *me, conn *c, uint64_t frames)
{
    if (c->since == 0) {
        c->timed_frame = c->sent;
        c->since = bench_wall_ns();
    }
    c->sent += frames;
    raw_need(raw_send(&c->raw, me->frames, (size_t)frames * me->what.frame), "send");
}

static void conn_input(client *me, conn *c)
{
    static uint8_t buffer[RAW_BUFFER];
    ssize_t n = recv(c->raw.fd, buffer, sizeof buffer, 0);
    uint64_t before = c->got_bytes / me->what.frame, frames;
    if (n < 0 && errno == EAGAIN) {
        return;
    }
    raw_need(n > 0, "recv");
    c->got_bytes += (uint64_t)n;
    frames = c->got_bytes / me->what.frame - before;
    calls_done += frames;
    if (c->since != 0 && before + frames > c->timed_frame) {
        sample(c->since);
        c->since = 0;
    }
    if (stopping) {
        me->flying -= (uint32_t)frames;
    } else if (frames != 0) {
        conn_send(me, c, frames);
    }
}

static void raw_window(client *me, uint64_t until)
{
    struct epoll_event events[64];
    uint32_t i;
    int n, k;
    for (i = 0; i < me->what.connections; i++) {
        conn_send(me, &me->conns[i], me->what.depth);
    }
    me->flying = me->what.connections * me->what.depth;
    while (me->flying != 0) {
        n = epoll_wait(me->epoll, events, 64, 1000);
        for (k = 0; k < n; k++) {
            conn *c = (conn *)events[k].data.ptr;
            if ((events[k].events & EPOLLOUT) != 0) {
                raw_need(raw_flush(&c->raw), "send");
            } else {
                conn_input(me, c);
            }
        }
        if (!stopping && bench_wall_ns() >= until) {
            stopping = true;
        }
    }
}

static double percentile(double p)
{
    return sample_count == 0 ? 0 : (double)samples[(size_t)(p * (double)(sample_count - 1u))];
}

/* One window of about wall_ns: calls go on all the time, then those on the way are waited for. */
static window client_window(client *me, side_kind side, const bench_child *server, uint64_t wall_ns)
{
    uint64_t wall = bench_wall_ns(), own = bench_cpu_ns(), theirs = bench_child_cpu_ns(server);
    window w;
    now_client = me;
    w.taken = cbt_malloc_bytes();
    stopping = false;
    calls_done = 0;
    sample_count = 0;
    if (side == OURS) {
        ours_window(me, wall + wall_ns);
    } else {
        raw_window(me, wall + wall_ns);
    }
    own = bench_cpu_ns() - own;
    wall = bench_wall_ns() - wall;
    theirs = bench_child_cpu_ns(server) - theirs;
    w.taken = cbt_malloc_bytes() - w.taken;
    qsort(samples, sample_count, sizeof samples[0], compare_samples);
    w.calls = calls_done;
    w.rate = (double)calls_done * 1e9 / (double)wall;
    w.server_cpu = (double)theirs / (double)calls_done;
    w.client_cpu = (double)own / (double)calls_done;
    w.p50 = percentile(0.5);
    w.p99 = percentile(0.99);
    return w;
}

/* Bytes that the server has asked of malloc, told by itself. */
static uint64_t server_taken(client *me)
{
    cb_rpc_future f;
    number a;
    counter reply;
    memset(&f, 0, sizeof f);
    a.n = 0;
    need(work_taken_future(&me->conns[0].session, &a, &reply, &f), "call");
    need(cb_rpc_wait(&me->loop, &f, 5000000000u), "wait");
    return reply.bytes;
}

typedef struct figure { /* what to print of the windows; NULL: not */
    const char *rate, *server_cpu, *client_cpu, *p50, *p99;
} figure;

static const char *const side_names[SIDES] = { "subject", "echo", "hand" };

static void print_windows(const char *name, const char *unit, double scale, bool higher, size_t offset,
                          window w[SIDES][BENCH_REPS_MAX], unsigned reps, unsigned sides, double alloc)
{
    bench_series s[SIDES];
    unsigned i, r;
    if (name == NULL || !bench_wanted(name)) {
        return;
    }
    memset(s, 0, sizeof s);
    for (i = 0; i < sides; i++) {
        for (r = 0; r < reps; r++) {
            double v;
            memcpy(&v, (const uint8_t *)&w[i][r] + offset, sizeof v);
            bench_add(&s[i], v * scale);
        }
        if (bench.verbose && i != 0) {
            printf("# %s floor %s %.4f %s\n", name, side_names[i], bench_best(&s[i], higher), unit);
        }
    }
    bench_print(name, unit, &s[0], s + 1, sides - 1u, higher, alloc);
}

static bool figure_wanted(const figure *f)
{
    const char *const names[] = { f->rate, f->server_cpu, f->client_cpu, f->p50, f->p99 };
    size_t i;
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i] != NULL && bench_wanted(names[i])) {
            return true;
        }
    }
    return false;
}

static void run_pinned(bench_child server[SIDES], const unsigned port[SIDES], const setup *what, const figure *f)
{
    static window w[SIDES][BENCH_REPS_MAX];
    static client clients[SIDES];
    unsigned sides = what->bytes == 0 && what->depth <= 64u ? SIDES : HAND, reps = bench.quick ? 15u : 31u, r, i;
    uint64_t wall_ns = bench.quick ? 50000000u : 200000000u, calls, taken; /* short: one of many meets a quiet machine */
    if (!figure_wanted(f)) {
        return;
    }
    for (i = 0; i < sides; i++) {
        client_open(&clients[i], what, (side_kind)i, port[i]);
        (void)client_window(&clients[i], (side_kind)i, &server[i], wall_ns / 2u);
    }
    for (r = 0; r < reps; r++) {
        unsigned k;
        for (k = 0; k < sides; k++) {
            i = (k + r) % sides;
            w[i][r] = client_window(&clients[i], (side_kind)i, &server[i], wall_ns);
        }
    }
    /* Allocations in a window right behind another: after a second of silence, which the floors' turns are, the loop has
     * given its pooled buffers back and would take them again. */
    (void)client_window(&clients[OURS], OURS, &server[OURS], wall_ns / 2u);
    taken = server_taken(&clients[OURS]);
    w[OURS][reps] = client_window(&clients[OURS], OURS, &server[OURS], wall_ns);
    taken = server_taken(&clients[OURS]) - taken + w[OURS][reps].taken;
    calls = w[OURS][reps].calls;
    {
        double alloc = CBT_MALLOC_COUNTED ? (double)taken / (double)calls : -1.0;
        print_windows(f->rate, "calls/s", 1, true, offsetof(window, rate), w, reps, sides, alloc);
        print_windows(f->server_cpu, "us", 0.001, false, offsetof(window, server_cpu), w, reps, sides, alloc);
        print_windows(f->client_cpu, "us", 0.001, false, offsetof(window, client_cpu), w, reps, sides, alloc);
        print_windows(f->p50, "us", 0.001, false, offsetof(window, p50), w, reps, sides, alloc);
        print_windows(f->p99, "us", 0.001, false, offsetof(window, p99), w, reps, sides, alloc);
    }
    for (i = 0; i < sides; i++) {
        client_close(&clients[i], (side_kind)i);
    }
}

static setup make_setup(uint32_t connections, uint32_t depth, size_t bytes)
{
    setup what;
    double out, back;
    what.connections = connections;
    what.depth = depth;
    what.bytes = bytes;
    count_bytes(bytes, depth, (uint64_t)depth * 4u, &out, &back, NULL, NULL);
    what.frame = (size_t)((out + back) / 2.0 + 0.5);
    return what;
}

static void start_servers(bench_child server[SIDES], unsigned port[SIDES])
{
    static int by_hand;
    char line[32];
    unsigned i;
    for (i = 0; i < SIDES; i++) {
        raw_need(bench_child_start(&server[i], i == OURS ? serve_ours : serve_raw, i == HAND ? &by_hand : NULL, 0), "fork");
        raw_need(bench_child_line(&server[i], line, sizeof line), "server");
        port[i] = (unsigned)strtoul(line, NULL, 10);
    }
}

static void run_processes(void)
{
    static const struct {
        uint32_t connections, depth;
        size_t bytes;
        figure f;
    } rows[] = {
        { 1, 1, 0, { NULL, "rpc/small_1x1_cpu", NULL, "rpc/small_1x1_p50", NULL } },
        { 8, 32, 0, { "rpc/small_8x32_rate", "rpc/small_8x32_cpu", "rpc/small_8x32_client_cpu", NULL, "rpc/small_8x32_p99" } },
        { 1, 1, 4096, { NULL, NULL, NULL, "rpc/kb4_1x1_p50", NULL } },
        { 8, 32, 4096, { "rpc/kb4_8x32_rate", "rpc/kb4_8x32_cpu", NULL, NULL, NULL } },
    };
    bench_child server[SIDES];
    unsigned port[SIDES], i;
    long connections = bench_option("--connections", 0), depth = bench_option("--depth", 1), bytes = bench_option("--bytes", 4);
    bool custom = connections != 0 || bench_option("--depth", 0) != 0 || bench_option("--bytes", 0) != 0;
    start_servers(server, port);
    raw_need(bench_pin(1), "pin");
    if (custom) {
        char text[5][64];
        const char *const ends[5] = { "rate", "cpu", "client_cpu", "p50", "p99" };
        setup what;
        figure f;
        connections = connections < 1 ? 1 : connections > 4096 ? 4096 : connections;
        depth = depth < 1 ? 1 : depth > 1024 ? 1024 : depth;
        bytes = bytes < 4 ? 4 : bytes > (long)PAYLOAD_MAX ? (long)PAYLOAD_MAX : bytes;
        what = make_setup((uint32_t)connections, (uint32_t)depth, bytes == 4 ? 0 : (size_t)bytes);
        for (i = 0; i < 5u; i++) {
            snprintf(text[i], sizeof text[i], "rpc/%ldx%ld_%ld_%s", connections, depth, bytes, ends[i]);
        }
        f.rate = text[0];
        f.server_cpu = text[1];
        f.client_cpu = text[2];
        f.p50 = text[3];
        f.p99 = text[4];
        run_pinned(server, port, &what, &f);
    } else {
        for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            setup what = make_setup(rows[i].connections, rows[i].depth, rows[i].bytes);
            run_pinned(server, port, &what, &rows[i].f);
        }
    }
    for (i = 0; i < SIDES; i++) {
        (void)bench_child_stop(&server[i]);
    }
}

/* ================================ both ends, one process ================================ */

typedef struct both {
    cb_loop loop;
    cb_rpc_hub server, client;
    cb_rpc_session session;
    int epoll;
    served at_server;
    raw_conn at_client;
    uint8_t *buffer;
} both;
static both us;

static void tcp_receiver(void *user, uint64_t ops)
{
    (void)user;
    while (ops-- != 0) {
        number a;
        uint32_t before = answered;
        a.n = (int32_t)random_next();
        expected = (uint32_t)a.n + 1u;
        need(work_add(&us.session, &a, on_added, NULL), "call");
        while (answered == before) {
            raw_need(cb_loop_step(&us.loop, 1000000000u) == CB_LOOP_OK, "step");
        }
    }
}

static void tcp_future(void *user, uint64_t ops)
{
    cb_rpc_future f;
    number a, reply;
    (void)user;
    memset(&f, 0, sizeof f);
    while (ops-- != 0) {
        a.n = (int32_t)random_next();
        need(work_add_future(&us.session, &a, &reply, &f), "call");
        need(cb_rpc_wait(&us.loop, &f, 5000000000u), "wait");
        if ((uint32_t)reply.n != (uint32_t)a.n + 1u) {
            abort();
        }
    }
}

/* One loop, both sockets in it: send, wait, receive, send, wait, receive. */
static void tcp_hand_turn(uint32_t value, hand_receiver receiver, void *user, const volatile uint32_t *done, uint32_t until)
{
    struct epoll_event events[16];
    if (!hand_call_send(&hand, &hand_out, value, receiver, user) ||
        !raw_send(&us.at_client, hand_out.bytes, hand_out.size)) {
        abort();
    }
    hand_out.size = 0;
    while (*done != until) {
        int n = epoll_wait(us.epoll, events, 16, 1000), i;
        for (i = 0; i < n; i++) {
            if (events[i].data.ptr == &us.at_server) {
                raw_need(served_input(&us.at_server, true, us.buffer), "serve");
            } else {
                ssize_t got = recv(us.at_client.fd, us.buffer, RAW_BUFFER, 0);
                if (got <= 0 || hand_receive(&hand, us.buffer, (size_t)got, true) != (size_t)got) {
                    abort();
                }
            }
        }
    }
}

static void tcp_hand_receiver(void *user, uint64_t ops)
{
    (void)user;
    while (ops-- != 0) {
        uint32_t value = random_next();
        expected = value + 1u;
        tcp_hand_turn(value, hand_added, NULL, &answered, answered + 1u);
    }
}

static uint32_t future_done;
static void hand_future_done(void *user, uint32_t value)
{
    hand_done(user, value);
    future_done++;
}

static void tcp_hand_future(void *user, uint64_t ops)
{
    (void)user;
    while (ops-- != 0) {
        uint32_t value = random_next();
        hand_future f;
        f.state = 1;
        tcp_hand_turn(value, hand_future_done, &f, &future_done, future_done + 1u);
        if (f.state != 2 || f.reply != value + 1u) {
            abort();
        }
    }
}

static void run_both(void)
{
    static const struct {
        const char *name;
        bench_fn subject, floor;
    } rows[] = {
        { "rpc/tcp_receiver", tcp_receiver, tcp_hand_receiver },
        { "rpc/tcp_future", tcp_future, tcp_hand_future },
    };
    cb_rpc_hub_desc d;
    cb_loop_address at;
    char url[64], text[64];
    uint16_t port;
    int listener = raw_listen(&port);
    size_t i;
    raw_need(cb_loop_init(&us.loop, NULL) == CB_LOOP_OK, "loop");
    memset(&d, 0, sizeof d);
    d.url = "tcp://127.0.0.1:0";
    work_bind(&d, &handlers, NULL);
    need(cb_rpc_serve(&us.server, &us.loop, &d), "serve");
    need(cb_rpc_serve_address(&us.server, &at), "address");
    memset(&d, 0, sizeof d);
    work_bind(&d, NULL, NULL);
    need(cb_rpc_hub_init(&us.client, &d), "hub");
    snprintf(url, sizeof url, "tcp://%s", cb_loop_address_str(&at, text, sizeof text));
    need(cb_rpc_connect(&us.client, &us.loop, &us.session, url), "connect");

    us.epoll = epoll_create1(EPOLL_CLOEXEC);
    us.buffer = (uint8_t *)malloc(RAW_BUFFER);
    us.at_client.fd = raw_connect(port);
    us.at_server.c.fd = accept(listener, NULL, NULL);
    raw_need(us.at_server.c.fd >= 0, "accept");
    raw_nonblocking(us.at_server.c.fd);
    us.at_client.epoll = us.at_server.c.epoll = us.epoll;
    raw_watch(us.epoll, us.at_client.fd, &us.at_client);
    raw_watch(us.epoll, us.at_server.c.fd, &us.at_server);
    hand_prepare();
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench_spec s;
        bench_clear(&s, rows[i].name);
        s.rep_ns = bench.quick ? 20000000u : 60000000u;
        bench_subject(&s, rows[i].subject, NULL);
        bench_floor(&s, "hand", rows[i].floor, NULL);
        bench_run(&s);
    }
    cb_rpc_close(&us.session);
    for (i = 0; i < 10u; i++) {
        (void)cb_loop_step(&us.loop, 1000000u);
    }
    cb_rpc_unserve(&us.server);
    for (i = 0; i < 10u; i++) {
        (void)cb_loop_step(&us.loop, 1000000u);
    }
    cb_loop_deinit(&us.loop);
    (void)cb_rpc_hub_deinit(&us.client);
    (void)cb_rpc_hub_deinit(&us.server);
    close(us.at_client.fd);
    close(us.at_server.c.fd);
    close(listener);
    close(us.epoll);
    free(us.buffer);
}

/* =================================== idle bytes, syscalls =============================== */

typedef struct idle_plan {
    uint16_t port;
    size_t count, hello_size;
    uint8_t hello[4096];
} idle_plan;

/* The far ends: each says hello, reads the answer and stays. */
static int idle_peers(void *user, int in, int out)
{
    const idle_plan *plan = (const idle_plan *)user;
    size_t i;
    char c;
    (void)raw_descriptors();
    for (i = 0; i < plan->count; i++) {
        int fd = raw_connect_blocking(plan->port);
        raw_need(send(fd, plan->hello, plan->hello_size, MSG_NOSIGNAL) == (ssize_t)plan->hello_size, "send");
    }
    say_port(out, 1);
    return read(in, &c, 1) < 0;
}

static void run_idle(void)
{
    static idle_plan plan;
    static cb_rpc_hub server;
    cb_loop loop;
    cb_rpc_hub_desc d;
    cb_loop_address at;
    bench_child child;
    uint64_t before, until;
    double out, back;
    char line[16];
    if (!bench_wanted("rpc/session_idle_bytes")) {
        return;
    }
    if (!CBT_MALLOC_COUNTED) {
        bench_skip("rpc/session_idle_bytes", "B", "malloc is not counted here (needs glibc)");
        return;
    }
    plan.count = 1000;
    if (raw_descriptors() < plan.count + 64u) {
        bench_skip("rpc/session_idle_bytes", "B", "too few file descriptors (ulimit -n)");
        return;
    }
    count_bytes(0, 1, 1, &out, &back, plan.hello, &plan.hello_size);
    raw_need(cb_loop_init(&loop, NULL) == CB_LOOP_OK, "loop");
    memset(&d, 0, sizeof d);
    d.url = "tcp://127.0.0.1:0";
    work_bind(&d, &handlers, NULL);
    need(cb_rpc_serve(&server, &loop, &d), "serve");
    need(cb_rpc_serve_address(&server, &at), "address");
    plan.port = cb_loop_address_port(&at);
    (void)cb_loop_step(&loop, 0);
    cb_loop_trim(&loop);
    before = cbt_malloc_live();
    raw_need(bench_child_start(&child, idle_peers, &plan, -1), "fork");
    until = bench_wall_ns() + 20000000000u;
    while (server.sessions < plan.count && bench_wall_ns() < until) {
        raw_need(cb_loop_step(&loop, 1000000u) == CB_LOOP_OK, "step");
    }
    raw_need(bench_child_line(&child, line, sizeof line), "peers");
    for (until = bench_wall_ns() + 100000000u; bench_wall_ns() < until;) { /* until all hellos were answered */
        raw_need(cb_loop_step(&loop, 10000000u) == CB_LOOP_OK, "step");
    }
    cb_loop_trim(&loop);
    bench_exact("rpc/session_idle_bytes", "B", (int64_t)((cbt_malloc_live() - before) / plan.count), -1);
    (void)bench_child_wait(&child, 2000000000u);
    cb_rpc_unserve(&server);
    cb_loop_deinit(&loop);
    (void)cb_rpc_hub_deinit(&server);
}

/* System calls of a server under strace while `calls` calls were answered. */
static double syscalls_of(const char *self, side_kind side, uint64_t *calls)
{
    static client me;
    char *argv[10], trace[64], line[128], command[160];
    bench_child child;
    setup what = make_setup(8, 32, 0);
    unsigned port;
    int64_t total;
    const char *const words[SIDES] = { "ours", "echo", "hand" };
    char *const fixed[] = { "strace", "-f", "-c", "-o", trace, (char *)(uintptr_t)self, "--serve", (char *)(uintptr_t)words[side], NULL };
    memcpy(argv, fixed, sizeof fixed);
    snprintf(trace, sizeof trace, "/tmp/cb_bench_rpc.%ld", (long)getpid());
    raw_need(bench_child_spawn(&child, argv, 0), "spawn");
    if (!bench_child_line(&child, line, sizeof line) || (port = (unsigned)strtoul(line, NULL, 10)) == 0) {
        (void)bench_child_wait(&child, 1000000000u);
        (void)unlink(trace);
        return -1;
    }
    client_open(&me, &what, side, port);
    *calls = client_window(&me, side, &child, bench.quick ? 200000000u : 500000000u).calls;
    client_close(&me, side);
    (void)bench_child_wait(&child, 5000000000u); /* its input has ended: it leaves by itself */
    snprintf(command, sizeof command, "awk '$NF == \"total\" { print $4 }' %s", trace);
    total = bench_number_of(command);
    (void)unlink(trace);
    return total < 0 ? -1 : (double)total;
}

static void run_syscalls(const char *self)
{
    const char *name = "rpc/small_8x32_syscalls";
    bench_series s[3];
    uint64_t calls;
    unsigned i;
    if (!bench_wanted(name)) {
        return;
    }
    if (!bench_has("strace")) {
        bench_skip(name, "calls", "strace is missing (apt-get install strace)");
        return;
    }
    memset(s, 0, sizeof s);
    for (i = 0; i < SIDES; i++) {
        double total = syscalls_of(self, (side_kind)i, &calls);
        if (total >= 0) {
            bench_add(&s[i], total / (double)calls);
        } else if (i == OURS) {
            bench_skip(name, "calls", "strace may not trace here");
            return;
        }
    }
    bench_print(name, "calls", &s[0], s + 1, 2, false, -1);
}

static void on_input_end(int sig)
{
    (void)sig;
    _exit(0);
}

/* A server as a program of its own; it leaves when its standard input ends. */
static int serve_program(const char *kind)
{
    static int by_hand;
    (void)signal(SIGIO, on_input_end);
    (void)fcntl(0, F_SETOWN, getpid());
    (void)fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_ASYNC);
    if (strcmp(kind, "ours") == 0) {
        return serve_ours(NULL, 0, 1);
    }
    return serve_raw(strcmp(kind, "hand") == 0 ? &by_hand : NULL, 0, 1);
}

int main(int argc, char **argv)
{
    size_t i;
    bool custom;
    if (argc == 3 && strcmp(argv[1], "--serve") == 0) {
        return serve_program(argv[2]);
    }
    bench_start(argc, argv);
    samples = (uint32_t *)malloc(SAMPLES_MAX * sizeof *samples);
    raw_need(samples != NULL, "malloc");
    for (i = 0; i < sizeof payload; i++) {
        payload[i] = (uint8_t)random_next();
    }
    custom = bench_option("--connections", 0) != 0 || bench_option("--depth", 0) != 0 || bench_option("--bytes", 0) != 0;
    if (!custom) {
        run_memory();
        run_both();
        run_bytes();
        run_idle();
    }
    run_processes();
    if (!custom) {
        run_syscalls(argv[0]);
    }
    free(samples);
    return bench_finish();
}
