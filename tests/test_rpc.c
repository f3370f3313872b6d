/* Tests of cb_rpc.h: the engine over sinks of the test's own and over the in-memory pair, then the glue over cb_loop.h where
 * that has a backend. Byte strings are worked out by hand from docs/wire-rpc.md. */
#if !defined(_WIN32) /* cb_loop.h has no backend for Windows yet: there the engine alone is tested */
#define TEST_RPC_LOOP 1
#define CB_LOOP_IMPLEMENTATION
#define CB_RPC_WITH_LOOP
#endif
#define CB_CODEC_IMPLEMENTATION
#define CB_RPC_IMPLEMENTATION
#include "cb_rpc.h"
#include "cb_codec.h"
#ifndef CB_RPC_IMPLEMENTED
#error "implementation macro misspelt: this file would test nothing"
#endif
#include "support/cbt.h"
#include <time.h>
#include "support/cbt_malloc.h"

/* -- the contract of these tests -- */
#define NUMBER(F) F(i32, n)
CB_CODEC_SCHEMA(number, NUMBER)
#define NOTE(F) F(text, words, 24) F(u8, level)
CB_CODEC_SCHEMA(note, NOTE)
#define BLOB(F) F(bytes, data, 70000)
CB_CODEC_SCHEMA(blob, BLOB)

#define CALC(CALL, EVENT)                     \
    CALL(1, calc_add, number, number)         \
    CALL(2, calc_late, number, number)        \
    EVENT(3, calc_note, note)                 \
    CALL(200, calc_echo, blob, blob)          \
    EVENT(5, calc_lossy, number, UNRELIABLE)
CB_RPC_CONTRACT(calc, CALC)

/* The same service two releases on: other numbers and order, calc_add with another layout, calc_late gone, one method more. */
#define WIDE(F) F(i64, n)
CB_CODEC_SCHEMA(wide, WIDE)
#define NEXT(CALL, EVENT)                     \
    CALL(7, calc_echo, blob, blob)            \
    CALL(2, calc_add, wide, number)           \
    EVENT(1, calc_note, note)                 \
    CALL(9, calc_gone, number, number)
/* Names of functions are taken by CALC, so this contract is spelt by hand from rows of its own. */
CB_RPC_TYPE_OF(next_number, number)
CB_RPC_TYPE_OF(next_note, note)
CB_RPC_TYPE_OF(next_blob, blob)
CB_RPC_TYPE_OF(next_wide, wide)
static bool next_is_handled(const void *member) { return member == NULL; }
static cb_rpc_status next_run(const void *m, void *u, cb_rpc_session *s, const void *a, void *r)
{
    (void)m; (void)u; (void)s; (void)a; (void)r;
    return CB_RPC_E_HANDLER;
}
static int next_results;
static cb_rpc_status next_status;
static char next_reason[256];
static void next_deliver(cb_rpc_any_fn fn, void *user, const cb_rpc_result *res, const void *reply)
{
    (void)fn; (void)user; (void)reply;
    next_results++;
    next_status = res->status;
    snprintf(next_reason, sizeof next_reason, "%s", res->reason);
}
static void next_any(void) {}
static const cb_rpc_row next_echo = { 7, false, false, "calc_echo", &next_blob, &next_blob, next_is_handled, next_run, next_deliver };
static const cb_rpc_row next_add = { 2, false, false, "calc_add", &next_wide, &next_number, next_is_handled, next_run, next_deliver };
static const cb_rpc_row next_say = { 1, true, false, "calc_note", &next_note, NULL, next_is_handled, next_run, NULL };
static const cb_rpc_row next_gone = { 9, false, false, "calc_gone", &next_number, &next_number, next_is_handled, next_run, next_deliver };
static const cb_rpc_row next_kind = { 3, true, false, "calc_late", &next_number, NULL, next_is_handled, next_run, NULL };
static const cb_rpc_slot next_slots[] = { { &next_echo, 0 }, { &next_add, 0 }, { &next_say, 0 }, { &next_gone, 0 }, { &next_kind, 0 } };
static const cb_rpc_contract next_contract = { "next", next_slots, 5 };

/* -- a service that logs what happens -- */
typedef struct service {
    char log[4000];
    cb_rpc_token token;
    cb_rpc_status cancelled;
    int adds, lates, notes, lossy, echoes;
    cb_rpc_session *close_me;    /* calc_add closes it inside its handler */
    bool close_late;             /* calc_late closes its session after it took a token, and returns OK */
    cb_rpc_pair *deinit_pair;    /* calc_add deinitialises it inside its handler */
    cb_rpc_session *echo_lossy;  /* the first calc_lossy sends one more on it */
    cb_rpc_session *drive_me;    /* calc_add drives it inside its handler */
    cb_rpc_session *recall;      /* a failing receiver calls again on it */
    cb_rpc_status handler_returns;
    cb_rpc_status deinit_said, dispatch_said;
} service;

static void service_log(service *v, const char *what, int64_t n)
{
    size_t at = strlen(v->log);
    snprintf(v->log + at, sizeof v->log - at, "%s %lld;", what, (long long)n);
}

static cb_rpc_status on_add(void *user, cb_rpc_session *from, const number *a, number *reply)
{
    service *v = (service *)user;
    v->adds++;
    service_log(v, "add", a->n);
    if (a->n == 13) {
        return cb_rpc_refuse(from, "not that number");
    }
    if (a->n == 14) { /* words that end with the handler */
        char words[32];
        cb_rpc_status st;
        snprintf(words, sizeof words, "not %d either", (int)a->n);
        st = cb_rpc_refuse(from, words);
        memset(words, 'x', sizeof words);
        return st;
    }
    if (v->handler_returns != CB_RPC_OK) {
        return v->handler_returns;
    }
    cb_rpc_pair_deinit(v->deinit_pair);
    if (v->drive_me != NULL) {
        cb_slice nothing;
        cb_span none;
        none.data = NULL;
        nothing.data = NULL;
        none.size = nothing.size = 0;
        v->dispatch_said = v->drive_me->is_message_based ? cb_rpc_drive_message(v->drive_me, nothing, 0)
                                                         : cb_rpc_drive(v->drive_me, &none, 0);
    }
    if (v->close_me != NULL) {
        cb_span none;
        v->deinit_said = cb_rpc_session_deinit(v->close_me);
        none.data = NULL;
        none.size = 0;
        v->dispatch_said = cb_rpc_drive(v->close_me, &none, 0);
        cb_rpc_close(v->close_me);
    }
    CBT_EQ(reply->n, 0); /* it was cleared */
    reply->n = a->n + 1;
    return CB_RPC_OK;
}

static cb_rpc_status on_late(void *user, cb_rpc_session *from, const number *a, number *reply)
{
    service *v = (service *)user;
    (void)reply;
    v->lates++;
    service_log(v, "late", a->n);
    v->token = cb_rpc_later(from);
    if (v->close_late) {
        cb_rpc_close(from);
        return CB_RPC_OK;
    }
    return v->token.id != 0 ? CB_RPC_LATER : cb_rpc_refuse(from, "no memory");
}

static void on_note(void *user, cb_rpc_session *from, const note *a)
{
    (void)from;
    ((service *)user)->notes++;
    service_log((service *)user, a->words, a->level);
}

static cb_rpc_status on_echo(void *user, cb_rpc_session *from, const blob *a, blob *reply)
{
    (void)from;
    ((service *)user)->echoes++;
    service_log((service *)user, "echo", a->data_size);
    reply->data_size = a->data_size;
    memcpy(reply->data, a->data, a->data_size);
    return CB_RPC_OK;
}

static void on_lossy(void *user, cb_rpc_session *from, const number *a)
{
    service *v = (service *)user;
    number next;
    (void)from;
    service_log(v, "lossy", a->n);
    if (v->lossy++ == 0 && v->echo_lossy != NULL) {
        next.n = a->n + 1;
        CBT_CHECK(calc_lossy(v->echo_lossy, &next) == CB_RPC_OK);
    }
}

static void on_cancel(void *user, cb_rpc_session *from, cb_rpc_token token, cb_rpc_status why)
{
    service *v = (service *)user;
    (void)from;
    CBT_CHECK(!cb_rpc_token_is_waiting(token));
    CBT_CHECK(v->lates > 1 || token.id == v->token.id);
    v->cancelled = why;
}

static const calc_handlers handlers = { on_add, on_late, on_note, on_echo, on_lossy };

/* What a receiver was told. */
typedef struct told {
    int count;
    cb_rpc_status status;
    int32_t n;
    char reason[256];
    cb_rpc_session *recall;
    const cb_sink *restart;
    cb_rpc_call cancel;
    cb_rpc_status recall_said;
} told;

static void on_number(void *user, const cb_rpc_result *res, const number *reply)
{
    told *t = (told *)user;
    t->count++;
    t->status = res->status;
    t->n = reply != NULL ? reply->n : -1;
    CBT_CHECK((reply != NULL) == (res->status == CB_RPC_OK));
    snprintf(t->reason, sizeof t->reason, "%s", res->reason);
    if (t->cancel.id != 0) {
        t->recall_said = cb_rpc_call_cancel(t->recall, t->cancel);
    } else if (t->restart != NULL) {
        t->recall_said = cb_rpc_session_restart(t->recall, t->restart);
    } else if (t->recall != NULL) {
        number a;
        a.n = 1;
        t->recall_said = calc_add(t->recall, &a, on_number, t);
    }
}

static void hub_desc(cb_rpc_hub_desc *d, service *v, cbt_mem *m)
{
    memset(d, 0, sizeof *d);
    memset(v, 0, sizeof *v);
    calc_bind(d, &handlers, v);
    d->on_cancel = on_cancel;
    if (m != NULL) {
        d->alloc.alloc = cbt_mem_alloc;
        d->alloc.release = cbt_mem_release;
        d->alloc.user = m;
    }
}

/* Two sessions of one hub joined in memory. */
typedef struct joined {
    cbt_mem mem;
    service v;
    cb_rpc_hub hub;
    cb_rpc_pair pair;
} joined;

static bool joined_init(joined *j, const cb_rpc_hub_desc *more, const cb_rpc_pair_desc *pd)
{
    cb_rpc_hub_desc d;
    cb_rpc_pair_desc p;
    memset(&j->mem, 0, sizeof j->mem);
    hub_desc(&d, &j->v, &j->mem);
    if (more != NULL) {
        d.frame_bytes_max = more->frame_bytes_max;
        d.calls_open_max = more->calls_open_max;
        d.calls_waiting_max = more->calls_waiting_max;
        d.call_timeout_ns = more->call_timeout_ns;
        d.answer_timeout_ns = more->answer_timeout_ns;
    }
    memset(&p, 0, sizeof p);
    if (pd != NULL) {
        p = *pd;
    }
    p.alloc = d.alloc;
    if (cb_rpc_hub_init(&j->hub, &d) != CB_RPC_OK) {
        return false;
    }
    return cb_rpc_pair_init(&j->pair, &j->hub, &j->hub, &p) == CB_RPC_OK;
}

static void joined_end(joined *j)
{
    cb_rpc_pair_deinit(&j->pair);
    CBT_CHECK(cb_rpc_hub_deinit(&j->hub) == CB_RPC_OK);
    CBT_EQ(j->mem.live_bytes, 0);
}

/* -- a sink of the test's own: keeps what was written -- */
typedef struct tap {
    uint8_t bytes[200000];
    size_t size, room_soft, room_hard, lent;
    int messages;
} tap;

static size_t tap_room(void *user, bool owed)
{
    tap *t = (tap *)user;
    size_t bound = owed ? t->room_hard : t->room_soft;
    return bound > t->size ? bound - t->size : 0;
}

static uint8_t *tap_reserve(void *user, size_t size)
{
    tap *t = (tap *)user;
    CBT_CHECK(size <= 4096 && size <= sizeof t->bytes - t->size);
    memset(t->bytes + t->size, 0xee, size);
    t->lent = size;
    return t->bytes + t->size;
}

static void tap_commit(void *user, size_t size, bool more)
{
    tap *t = (tap *)user;
    CBT_CHECK(size <= t->lent);
    t->lent = 0;
    t->size += size;
    t->messages += size != 0 && !more;
}

static cb_sink tap_sink(tap *t)
{
    cb_sink k;
    memset(t, 0, sizeof *t);
    t->room_soft = t->room_hard = sizeof t->bytes;
    k.room = tap_room;
    k.reserve = tap_reserve;
    k.commit = tap_commit;
    k.share = NULL;
    k.user = t;
    k.piece_max = 4096;
    return k;
}

/* One session whose peer is the test. */
typedef struct lone {
    cbt_mem mem;
    service v;
    cb_rpc_hub hub;
    cb_rpc_session s;
    tap out;
} lone;

static bool lone_init(lone *l, const cb_rpc_hub_desc *more)
{
    cb_rpc_hub_desc d;
    cb_rpc_session_desc sd;
    memset(&l->mem, 0, sizeof l->mem);
    hub_desc(&d, &l->v, &l->mem);
    if (more != NULL) {
        d.frame_bytes_max = more->frame_bytes_max;
        d.calls_open_max = more->calls_open_max;
        d.calls_waiting_max = more->calls_waiting_max;
    }
    memset(&sd, 0, sizeof sd);
    sd.sink = tap_sink(&l->out);
    if (cb_rpc_hub_init(&l->hub, &d) != CB_RPC_OK) {
        return false;
    }
    return cb_rpc_session_init(&l->s, &l->hub, &sd) == CB_RPC_OK;
}

static void lone_end(lone *l)
{
    CBT_CHECK(cb_rpc_session_deinit(&l->s) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_session_deinit(&l->s) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_hub_deinit(&l->hub) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_hub_deinit(&l->hub) == CB_RPC_OK);
    CBT_EQ(l->mem.live_bytes, 0);
}

/* Shows an exact-size copy; what is left over stays out of sight. */
static cb_rpc_status lone_feed(lone *l, const void *data, size_t size)
{
    uint8_t *copy = (uint8_t *)cbt_dup(data, size);
    cb_rpc_status st;
    cb_span in;
    in.data = copy;
    in.size = size;
    st = cb_rpc_drive(&l->s, &in, 0);
    free(copy);
    return st;
}

static cb_rpc_status lone_idle(lone *l, uint64_t now)
{
    cb_span none;
    none.data = NULL;
    none.size = 0;
    return cb_rpc_drive(&l->s, &none, now);
}

/* The hello of a peer with the methods of CALC: FNV-1a 32 of the names by hand, layout hashes by the documented formula. */
static size_t calc_hello(uint8_t *out, uint32_t frame_max_varu2)
{
    static const struct { unsigned coded; uint32_t name; uint64_t (*args)(void); uint64_t (*reply)(void); } rows[] = {
        { 3, 0xb83a3568u, number_layout_hash, number_layout_hash },   /* 1, call: calc_add */
        { 5, 0x784c91d5u, number_layout_hash, number_layout_hash },   /* 2, call: calc_late */
        { 6, 0x70541149u, note_layout_hash, NULL },                   /* 3, event: calc_note */
        { 10, 0xde1cef2du, number_layout_hash, NULL },                /* 5, event: calc_lossy */
        { 401, 0x326ab1d0u, blob_layout_hash, blob_layout_hash },     /* 200, call: calc_echo */
    };
    uint8_t *p = out + 1;
    size_t i, k;
    memcpy(p, "\0cbr\1\0", 6);
    p += 6;
    *p++ = (uint8_t)(frame_max_varu2 | 0x80u);
    *p++ = (uint8_t)(frame_max_varu2 >> 7);
    *p++ = 100; /* calls that may wait */
    *p++ = 5;
    for (i = 0; i < 5; i++) {
        uint64_t args = rows[i].args(), reply = rows[i].reply != NULL ? rows[i].reply() : 0;
        uint32_t h = 2166136261u;
        for (k = 0; k < 16; k++) {
            h = (h ^ (uint32_t)(((k < 8 ? args : reply) >> (8u * (k & 7u))) & 255u)) * 16777619u;
        }
        if (rows[i].coded >= 128) {
            *p++ = (uint8_t)(rows[i].coded | 128u);
            *p++ = (uint8_t)(rows[i].coded >> 7);
        } else {
            *p++ = (uint8_t)rows[i].coded;
        }
        for (k = 0; k < 4; k++) {
            *p++ = (uint8_t)(rows[i].name >> (8u * k));
        }
        for (k = 0; k < 4; k++) {
            *p++ = (uint8_t)(h >> (8u * k));
        }
    }
    out[0] = (uint8_t)(p - out - 1);
    return (size_t)(p - out);
}

static size_t hello(uint8_t *out)
{
    return calc_hello(out, 0x2000); /* frames up to 8,192 bytes */
}

/* ================================= the wire ================================= */
static void rpc_wire_small_call_and_answer_take_seven_bytes_each(void)
{
    uint8_t want[128];
    lone *l = (lone *)malloc(sizeof *l);
    number a;
    told t;
    size_t n;
    CBT_REQUIRE(l != NULL && lone_init(l, NULL));
    memset(&t, 0, sizeof t);
    a.n = 21;
    CBT_CHECK(calc_add(&l->s, &a, on_number, &t) == CB_RPC_OK);
    n = calc_hello(want, 0x2000);
    CBT_EQ(l->out.size, n + 2 + 1 + 7);         /* ours says 8 MiB and 256: two bytes and one more */
    CBT_MEM(l->out.bytes + 1, want + 1, 6);     /* kind, magic, version, capabilities */
    CBT_MEM(l->out.bytes + 7, "\x80\x80\x80\x04\x80\x02\x05", 7);
    CBT_MEM(l->out.bytes + 14, want + 11, n - 11);
    CBT_MEM(l->out.bytes + n + 3, "\x06\x10\x00\x15\x00\x00\x00", 7);
    l->out.size = 0;
    n = hello(want);
    CBT_CHECK(lone_feed(l, want, n) == CB_RPC_NEED_INPUT);
    CBT_EQ(cb_rpc_session_peer_calls_max(&l->s), 100);
    CBT_CHECK(lone_feed(l, "\x06\x01\x00\x2a\x00\x00\x00", 7) == CB_RPC_NEED_INPUT);
    CBT_EQ(t.count, 1);
    CBT_EQ(t.n, 42);
    CBT_CHECK(lone_feed(l, "\x06\x10\x02\x15\x00\x00\x00", 7) == CB_RPC_NEED_INPUT); /* their call 1 */
    CBT_EQ(l->out.size, 7);
    CBT_MEM(l->out.bytes, "\x06\x01\x01\x16\x00\x00\x00", 7);
    lone_end(l);
    free(l);
}

static void rpc_wire_deadline_cancel_refusal_and_event_are_as_documented(void)
{
    uint8_t h[128];
    lone *l = (lone *)malloc(sizeof *l);
    number a;
    note e;
    told t;
    CBT_REQUIRE(l != NULL && lone_init(l, NULL));
    memset(&t, 0, sizeof t);
    memset(&e, 0, sizeof e);
    CBT_CHECK(lone_feed(l, h, hello(h)) == CB_RPC_NEED_INPUT);
    l->out.size = 0;
    a.n = 5;
    CBT_CHECK(calc_add(cb_rpc_with_timeout(&l->s, 300000001), &a, on_number, &t) == CB_RPC_OK); /* 300.000001 ms: 301 */
    CBT_MEM(l->out.bytes, "\x08\x10\x01\xad\x02\x05\x00\x00\x00", 9);
    CBT_EQ(l->out.size, 9);
    l->out.size = 0;
    CBT_CHECK(lone_idle(l, 300000001) == CB_RPC_NEED_INPUT);
    CBT_MEM(l->out.bytes, "\x03\x03\x00\x06", 4); /* cancel, its deadline passed */
    CBT_EQ(l->out.size, 4);
    CBT_EQ(t.status, CB_RPC_E_TIMEOUT);
    l->out.size = 0;
    CBT_CHECK(calc_add(&l->s, &a, on_number, &t) == CB_RPC_OK); /* id 0 is not free before its answer has come */
    CBT_MEM(l->out.bytes, "\x06\x10\x02\x05\x00\x00\x00", 7);
    l->out.size = 0;
    CBT_CHECK(cb_rpc_call_cancel(&l->s, cb_rpc_last_call(&l->s)) == CB_RPC_OK);
    CBT_CHECK(lone_idle(l, 300000001) == CB_RPC_NEED_INPUT);
    CBT_MEM(l->out.bytes, "\x03\x03\x01\x08", 4);
    l->out.size = 0;
    CBT_CHECK(lone_feed(l, "\x06\x10\x02\x0d\x00\x00\x00", 7) == CB_RPC_NEED_INPUT); /* 13: refused */
    CBT_MEM(l->out.bytes, "\x12\x02\x01\x00not that number", 19);
    CBT_EQ(l->out.size, 19);
    l->out.size = 0;
    CBT_CHECK(CB_CODEC_SET_TEXT(&e, words, "hi") == CB_CODEC_OK);
    e.level = 7;
    CBT_CHECK(calc_note(&l->s, &e) == CB_RPC_OK);
    CBT_MEM(l->out.bytes, "\x05\x12\x02hi\x07", 6);
    l->out.size = 0;
    CBT_CHECK(lone_feed(l, "\x06\x11\x0a\x01\x00\x00\x00", 7) == CB_RPC_NEED_INPUT);
    CBT_EQ(l->v.lates, 1);
    CBT_CHECK(lone_feed(l, "\x07\x11\x0d\x00\x01\x00\x00\x00", 8) == CB_RPC_NEED_INPUT); /* id 6 with 0 ms left */
    CBT_EQ(l->v.lates, 1);
    CBT_MEM(l->out.bytes, "\x03\x02\x06\x06", 4);
    lone_end(l);
    free(l);
}

static void rpc_wire_high_method_number_takes_two_bytes(void)
{
    static const uint8_t want[] = { 0x06, 0xd7, 0x01, 0x00, 0x01, 0x00, 0x00 }; /* 15 + 200 = 215; the length has 4 bytes */
    uint8_t h[128];
    lone *l = (lone *)malloc(sizeof *l);
    blob *b = (blob *)calloc(1, sizeof *b);
    CBT_REQUIRE(l != NULL && b != NULL && lone_init(l, NULL));
    CBT_CHECK(lone_feed(l, h, hello(h)) == CB_RPC_NEED_INPUT);
    l->out.size = 0;
    CBT_CHECK(calc_echo(&l->s, b, NULL, NULL) == CB_RPC_OK);
    CBT_EQ(l->out.size, 8); /* length 7, kind in two, id 0, length of the bytes in four (70,000 at most) */
    CBT_EQ(l->out.bytes[0], 7);
    CBT_MEM(l->out.bytes + 1, want + 1, 3);
    free(b);
    lone_end(l);
    free(l);
}

/* ============================ parsing, however cut ============================ */
/* Hello, a call, an event, two calls at once, a late one, its cancel, an unreadable one, a refused one. */
static size_t some_input(uint8_t *out)
{
    static const uint8_t frames[] = {
        0x06, 0x10, 0x00, 1, 0, 0, 0,
        0x05, 0x12, 0x02, 'h', 'i', 3,
        0x06, 0x10, 0x02, 2, 0, 0, 0, 0x06, 0x10, 0x04, 3, 0, 0, 0,
        0x06, 0x11, 0x06, 4, 0, 0, 0,
        0x03, 0x03, 0x03, 0x08,
        0x05, 0x10, 0x00, 1, 0, 0,
        0x08, 0x10, 0x01, 0x80, 0x01, 13, 0, 0, 0,
    };
    size_t n = hello(out);
    memcpy(out + n, frames, sizeof frames);
    return n + sizeof frames;
}

static const char some_log[] = "add 1;hi 3;add 2;add 3;late 4;add 13;";

/* A caller that keeps what is left over and shows it again with more behind, each time in a new exact-size block. */
typedef struct cutter {
    uint8_t left[4096];
    size_t size;
} cutter;

static cb_rpc_status cutter_feed(lone *l, cutter *c, const uint8_t *data, size_t size)
{
    uint8_t *block;
    cb_rpc_status st;
    cb_span in;
    memcpy(c->left + c->size, data, size);
    c->size += size;
    block = (uint8_t *)cbt_dup(c->left, c->size);
    in.data = block;
    in.size = c->size;
    st = cb_rpc_drive(&l->s, &in, 0);
    if (st == CB_RPC_NEED_INPUT) {
        CBT_CHECK(cb_rpc_need(&l->s) > in.size);
    }
    memcpy(c->left, in.data, in.size); /* as next left them */
    c->size = in.size;
    free(block);
    return st;
}

static void rpc_next_gives_the_same_events_byte_by_byte(void)
{
    uint8_t in[512], whole[1024];
    lone *l = (lone *)malloc(sizeof *l);
    cutter c;
    size_t n = some_input(in), i, out_size;
    CBT_REQUIRE(l != NULL && lone_init(l, NULL));
    CBT_CHECK(lone_feed(l, in, n) == CB_RPC_NEED_INPUT);
    CBT_STR(l->v.log, some_log);
    out_size = l->out.size;
    CBT_REQUIRE(out_size <= sizeof whole);
    memcpy(whole, l->out.bytes, out_size);
    lone_end(l);
    CBT_REQUIRE(lone_init(l, NULL));
    c.size = 0;
    for (i = 0; i < n; i++) {
        CBT_CHECK(cutter_feed(l, &c, in + i, 1) == CB_RPC_NEED_INPUT);
    }
    CBT_STR(l->v.log, some_log);
    CBT_EQ(l->out.size, out_size);
    CBT_MEM(l->out.bytes, whole, out_size);
    lone_end(l);
    free(l);
}

static void rpc_next_gives_the_same_events_at_every_split(void)
{
    uint8_t in[512];
    lone *l = (lone *)malloc(sizeof *l);
    size_t n = some_input(in), cut;
    CBT_REQUIRE(l != NULL);
    for (cut = 0; cut <= n; cut++) {
        cutter c;
        CBT_REQUIRE(lone_init(l, NULL));
        c.size = 0;
        CBT_CHECK(cutter_feed(l, &c, in, cut) == CB_RPC_NEED_INPUT);
        CBT_CHECK(cutter_feed(l, &c, in + cut, n - cut) == CB_RPC_NEED_INPUT);
        CBT_STR(l->v.log, some_log);
        CBT_CHECK(l->v.cancelled == CB_RPC_E_CANCELLED);
        lone_end(l);
    }
    free(l);
}

typedef struct bad_frame {
    const char *bytes;
    size_t size;
    cb_rpc_status status;
    const char *reason;
} bad_frame;
#define BAD(bytes, status, reason) { bytes, sizeof(bytes) - 1u, CB_RPC_##status, reason }

static void rpc_next_refuses_every_broken_frame_with_a_reason(void)
{
    static const bad_frame table[] = {
        BAD("\x00", E_PROTOCOL, "an empty frame"),
        BAD("\x86\x00\x10\x00\x01\x00\x00\x00", E_PROTOCOL, "a frame's length is not in its shortest form"),
        BAD("\xff\xff\xff\xff\x1f", E_PROTOCOL, "a frame's length is not in its shortest form"),
        BAD("\x80\x80\x80\x80\x80", E_PROTOCOL, "a frame's length is not in its shortest form"),
        BAD("\xff\xff\xff\xff\x0f", E_FRAME_TOO_BIG, "a frame longer than frame_bytes_max"),
        BAD("\x81\x80\x80\x04", E_FRAME_TOO_BIG, "a frame longer than frame_bytes_max"),
        BAD("\x01\x80", E_PROTOCOL, "a frame's kind cannot be read"),
        BAD("\x02\x90\x00", E_PROTOCOL, "a frame's kind cannot be read"),
        BAD("\x01\x04", E_PROTOCOL, "a frame of an unknown kind"),
        BAD("\x01\x0f", E_PROTOCOL, "a frame of an unknown kind"),
        BAD("\x05\x00" "cbr\x01", E_PROTOCOL, "a second hello"),
        BAD("\x06\x13\x00\x01\x00\x00\x00", E_PROTOCOL, "a method number that the hello did not name"),
        BAD("\x07\xd8\x01\x00\x00\x00\x00\x00", E_PROTOCOL, "a method number that the hello did not name"),
        BAD("\x06\xff\xff\xff\xff\x0f\x00", E_PROTOCOL, "a method number that the hello did not name"),
        BAD("\x01\x10", E_PROTOCOL, "a call's head is cut off"),
        BAD("\x02\x10\x01", E_PROTOCOL, "a call's head is cut off"),
        BAD("\x03\x10\x01\x80", E_PROTOCOL, "a call's head is cut off"),
        BAD("\x06\x11\x00\x01\x00\x00\x00\x06\x10\x00\x01\x00\x00\x00", E_PROTOCOL, "a call's id is still in use"),
        BAD("\x06\x01\x01\x01\x00\x00\x00", E_PROTOCOL, "an answer to no call"),
        BAD("\x06\x01\x00\x01\x00\x00\x00\x06\x01\x00\x01\x00\x00\x00", E_PROTOCOL, "an answer to no call"),
        BAD("\x07\x01\xff\xff\xff\xff\x0f\x00", E_PROTOCOL, "an answer to no call"),
        BAD("\x01\x01", E_PROTOCOL, "an answer to no call"),
        BAD("\x03\x02\x01\x00", E_PROTOCOL, "a refusal of no call"),
        BAD("\x02\x02\x00", E_PROTOCOL, "a refusal of no call"),
        BAD("\x02\x03\x00", E_PROTOCOL, "a cancel that cannot be read"),
        BAD("\x04\x03\x00\x08\x08", E_PROTOCOL, "a cancel that cannot be read"),
        BAD("\x03\x03\x00\x07", E_PROTOCOL, "a cancel that cannot be read"),
    };
    uint8_t in[256];
    lone *l = (lone *)malloc(sizeof *l);
    size_t i;
    CBT_REQUIRE(l != NULL);
    for (i = 0; i < sizeof table / sizeof table[0]; i++) {
        size_t n = hello(in);
        number a;
        told t;
        memset(&t, 0, sizeof t);
        memset(&a, 0, sizeof a);
        CBT_REQUIRE(lone_init(l, NULL));
        CBT_CHECK(calc_add(&l->s, &a, on_number, &t) == CB_RPC_OK); /* id 0 is open */
        memcpy(in + n, "\x05\x12\x02hi\x01", 6);                    /* something sound first */
        memcpy(in + n + 6, table[i].bytes, table[i].size);
        CBT_EQ(lone_feed(l, in, n + 6 + table[i].size), table[i].status);
        CBT_STR(cb_rpc_reason(&l->s), table[i].reason);
        CBT_EQ(l->v.notes, 1);
        CBT_EQ(lone_feed(l, "\x05\x12\x02hi\x01", 6), table[i].status); /* sticky */
        CBT_EQ(l->v.notes, 1);
        CBT_CHECK(calc_add(&l->s, &a, on_number, &t) == CB_RPC_E_CLOSED);
        cb_rpc_end(&l->s, CB_RPC_E_CUT, NULL);
        CBT_CHECK(lone_idle(l, 0) == CB_RPC_CLOSED);
        CBT_EQ(t.count, 1);
        if (t.status != CB_RPC_OK) {
            CBT_EQ(t.status, table[i].status);
            CBT_STR(t.reason, table[i].reason);
        }
        lone_end(l);
    }
    free(l);
}

static void rpc_next_refuses_every_broken_hello(void)
{
    uint8_t good[128], bad[160];
    lone *l = (lone *)malloc(sizeof *l);
    size_t n = hello(good), cut;
    CBT_REQUIRE(l != NULL);
    for (cut = 2; cut < n; cut++) { /* cut short, with a length that says so */
        CBT_REQUIRE(lone_init(l, NULL));
        memcpy(bad, good, cut);
        bad[0] = (uint8_t)(cut - 1);
        CBT_CHECK(lone_feed(l, bad, cut) == CB_RPC_E_PROTOCOL);
        CBT_CHECK(cb_rpc_reason(&l->s)[0] != '\0');
        lone_end(l);
    }
    for (cut = 0; cut < 6; cut++) { /* version 0, a wrong letter, a small frame, number 0, numbers falling, a number too high */
        static const struct { size_t at; uint8_t value; } change[] = { { 5, 0 }, { 2, 'x' }, { 8, 0 }, { 11, 1 }, { 20, 3 }, { 48, 0x7f } };
        CBT_REQUIRE(lone_init(l, NULL));
        memcpy(bad, good, n);
        bad[change[cut].at] = change[cut].value;
        if (cut == 2) {
            bad[7] = 0x3f; /* 63 bytes at most */
            memmove(bad + 8, bad + 9, n - 9);
            bad[0]--;
        }
        CBT_CHECK(lone_feed(l, bad, cut == 2 ? n - 1 : n) == CB_RPC_E_PROTOCOL);
        lone_end(l);
    }
    CBT_REQUIRE(lone_init(l, NULL)); /* a later version with more behind */
    memcpy(bad, good, n);
    memcpy(bad + n, "more", 4);
    bad[5] = 2;
    bad[0] = (uint8_t)(bad[0] + 4);
    CBT_CHECK(lone_feed(l, bad, n + 4) == CB_RPC_NEED_INPUT);
    CBT_CHECK(lone_feed(l, "\x06\x10\x00\x01\x00\x00\x00", 7) == CB_RPC_NEED_INPUT);
    CBT_EQ(l->v.adds, 1);
    lone_end(l);
    CBT_REQUIRE(lone_init(l, NULL)); /* a call before any hello */
    CBT_CHECK(lone_feed(l, "\x06\x10\x00\x01\x00\x00\x00", 7) == CB_RPC_E_PROTOCOL);
    lone_end(l);
    free(l);
}

static void rpc_frame_limit_holds_at_its_edges_and_before_the_bytes_come(void)
{
    uint8_t in[400], h[128];
    cb_rpc_hub_desc d;
    lone *l = (lone *)malloc(sizeof *l);
    int over;
    CBT_REQUIRE(l != NULL);
    memset(&d, 0, sizeof d);
    d.frame_bytes_max = 200;
    for (over = -1; over <= 1; over++) {
        size_t size = (size_t)(200 + over);
        CBT_REQUIRE(lone_init(l, &d));
        CBT_CHECK(lone_feed(l, h, hello(h)) == CB_RPC_NEED_INPUT);
        memset(in, 0, sizeof in);
        in[0] = (uint8_t)(size | 0x80u);
        in[1] = (uint8_t)(size >> 7);
        in[2] = 0xd7;
        in[3] = 0x01; /* calc_echo, id 0 */
        in[5] = (uint8_t)(size - 3u - 4u);
        CBT_EQ(lone_feed(l, in, 2), over == 1 ? CB_RPC_E_FRAME_TOO_BIG : CB_RPC_NEED_INPUT);
        if (over != 1) {
            CBT_EQ(cb_rpc_need(&l->s), 2 + size);
            CBT_EQ(lone_feed(l, in, 2 + size), CB_RPC_NEED_INPUT);
            CBT_EQ(l->v.echoes, 1);
        }
        lone_end(l);
    }
    free(l);
}

static void rpc_send_limit_is_the_smaller_of_both_sides(void)
{
    uint8_t h[128];
    lone *l = (lone *)malloc(sizeof *l);
    blob *b = (blob *)calloc(1, sizeof *b);
    cb_rpc_future f;
    CBT_REQUIRE(l != NULL && b != NULL && lone_init(l, NULL));
    memset(&f, 0, sizeof f);
    CBT_CHECK(lone_feed(l, h, calc_hello(h, 300)) == CB_RPC_NEED_INPUT); /* the peer reads 300 bytes at most */
    l->out.size = 0;
    b->data_size = 300 - 3 - 4;
    CBT_CHECK(calc_echo(&l->s, b, NULL, NULL) == CB_RPC_OK);
    CBT_EQ(l->out.size, 302);
    b->data_size++;
    CBT_CHECK(calc_echo(&l->s, b, NULL, NULL) == CB_RPC_E_TOO_BIG);
    CBT_CHECK(calc_echo_future(&l->s, b, b, &f) == CB_RPC_E_TOO_BIG);
    CBT_CHECK(f.state == CB_RPC_FUTURE_DONE && f.status == CB_RPC_E_TOO_BIG && f.reason[0] != '\0');
    CBT_EQ(l->out.size, 302);
    CBT_EQ(cb_rpc_last_call(&l->s).id, 0);
    free(b);
    lone_end(l);
    free(l);
}

/* ================================== calls ================================== */
static void rpc_call_answers_receivers_and_futures(void)
{
    unsigned mode;
    for (mode = 0; mode < 3; mode++) { /* a stream, a stream one byte at a time, messages */
        joined *j = (joined *)malloc(sizeof *j);
        cb_rpc_pair_desc pd;
        cb_rpc_future f;
        number a, reply;
        told t;
        CBT_REQUIRE(j != NULL);
        memset(&pd, 0, sizeof pd);
        memset(&f, 0, sizeof f);
        memset(&t, 0, sizeof t);
        pd.cut_max = mode == 1 ? 1 : 0;
        pd.is_message_based = mode == 2;
        CBT_REQUIRE(joined_init(j, NULL, &pd));
        a.n = 41;
        CBT_CHECK(calc_add(&j->pair.a, &a, on_number, &t) == CB_RPC_OK);
        CBT_CHECK(calc_add_future(&j->pair.b, &a, &reply, &f) == CB_RPC_OK); /* either side calls */
        CBT_EQ(t.count, 0);
        CBT_CHECK(cb_rpc_pair_run(&j->pair, 0) == CB_RPC_OK);
        CBT_EQ(t.count, 1);
        CBT_EQ(t.n, 42);
        CBT_CHECK(f.state == CB_RPC_FUTURE_DONE && f.status == CB_RPC_OK && f.reason[0] == '\0');
        CBT_EQ(reply.n, 42);
        a.n = 13;
        CBT_CHECK(calc_add(&j->pair.a, &a, on_number, &t) == CB_RPC_OK);
        CBT_CHECK(cb_rpc_pair_run(&j->pair, 0) == CB_RPC_OK);
        CBT_EQ(t.status, CB_RPC_E_REFUSED);
        CBT_STR(t.reason, "not that number");
        a.n = 14;
        CBT_CHECK(calc_add(&j->pair.a, &a, on_number, &t) == CB_RPC_OK);
        CBT_CHECK(cb_rpc_pair_run(&j->pair, 0) == CB_RPC_OK);
        CBT_STR(t.reason, "not 14 either");
        a.n = 13;
        CBT_CHECK(calc_add(&j->pair.a, &a, NULL, NULL) == CB_RPC_OK); /* nobody listens */
        CBT_CHECK(cb_rpc_pair_run(&j->pair, 0) == CB_RPC_OK);
        joined_end(j);
        free(j);
    }
}

static void rpc_call_survives_every_cut_pattern(void)
{
    uint64_t seed;
    for (seed = 0; seed < 50; seed++) {
        joined *j = (joined *)malloc(sizeof *j);
        blob *b = (blob *)calloc(1, sizeof *b), *reply = (blob *)calloc(1, sizeof *reply);
        cb_rpc_pair_desc pd;
        cb_rpc_future f;
        CBT_REQUIRE(j != NULL && b != NULL && reply != NULL);
        memset(&pd, 0, sizeof pd);
        pd.cut_max = 1 + seed * 97;
        pd.seed = seed;
        pd.piece_max = 64 + seed;
        CBT_REQUIRE(joined_init(j, NULL, &pd));
        for (b->data_size = 0; b->data_size < 40000; b->data_size = b->data_size * 2 + 1) {
            uint32_t i;
            for (i = 0; i < b->data_size; i++) {
                b->data[i] = (uint8_t)(i * 7u + seed);
            }
            CBT_CHECK(calc_echo_future(&j->pair.a, b, reply, &f) == CB_RPC_OK);
            CBT_CHECK(cb_rpc_pair_run(&j->pair, 0) == CB_RPC_OK);
            CBT_REQUIRE(f.state == CB_RPC_FUTURE_DONE && f.status == CB_RPC_OK);
            CBT_CHECK(blob_equal(b, reply));
        }
        joined_end(j);
        free(reply);
        free(b);
        free(j);
    }
}

static void rpc_late_answer_comes_through_its_token_once(void)
{
    joined *j = (joined *)malloc(sizeof *j);
    cb_rpc_token first;
    number a;
    told t;
    blob *b = (blob *)calloc(1, sizeof *b);
    CBT_REQUIRE(j != NULL && b != NULL && joined_init(j, NULL, NULL));
    memset(&t, 0, sizeof t);
    a.n = 1;
    CBT_CHECK(calc_late(&j->pair.a, &a, on_number, &t) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_pair_run(&j->pair, 0) == CB_RPC_OK);
    CBT_EQ(t.count, 0);
    first = j->v.token;
    CBT_CHECK(cb_rpc_token_is_waiting(first));
    CBT_CHECK(calc_echo_answer(first, b) == CB_RPC_E_ARG); /* another method's answer */
    a.n = 77;
    CBT_CHECK(calc_late_answer(first, &a) == CB_RPC_OK);
    CBT_CHECK(calc_late_answer(first, &a) == CB_RPC_E_STALE);
    CBT_CHECK(cb_rpc_token_refuse(first, "too late") == CB_RPC_E_STALE);
    CBT_CHECK(cb_rpc_pair_run(&j->pair, 0) == CB_RPC_OK);
    CBT_EQ(t.count, 1);
    CBT_EQ(t.n, 77);
    CBT_CHECK(calc_late(&j->pair.a, &a, on_number, &t) == CB_RPC_OK); /* the same slot, another generation */
    CBT_CHECK(cb_rpc_pair_run(&j->pair, 0) == CB_RPC_OK);
    CBT_CHECK(calc_late_answer(first, &a) == CB_RPC_E_STALE);
    CBT_CHECK(cb_rpc_token_refuse(j->v.token, "no room") == CB_RPC_OK);
    CBT_CHECK(cb_rpc_pair_run(&j->pair, 0) == CB_RPC_OK);
    CBT_EQ(t.status, CB_RPC_E_REFUSED);
    CBT_STR(t.reason, "no room");
    free(b);
    joined_end(j);
    free(j);
}

static void rpc_token_is_stale_after_its_peer_has_gone(void)
{
    joined *j = (joined *)malloc(sizeof *j);
    cb_rpc_token token;
    number a;
    told t;
    CBT_REQUIRE(j != NULL && joined_init(j, NULL, NULL));
    memset(&t, 0, sizeof t);
    a.n = 1;
    CBT_CHECK(calc_late(&j->pair.a, &a, on_number, &t) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_pair_run(&j->pair, 0) == CB_RPC_OK);
    token = j->v.token;
    cb_rpc_pair_cut(&j->pair);
    CBT_CHECK(cb_rpc_pair_run(&j->pair, 0) == CB_RPC_OK || t.count == 1);
    CBT_EQ(t.count, 1);
    CBT_EQ(t.status, CB_RPC_E_CUT);
    CBT_CHECK(calc_late_answer(token, &a) == CB_RPC_E_STALE);
    cb_rpc_pair_deinit(&j->pair);
    CBT_CHECK(calc_late_answer(token, &a) == CB_RPC_E_STALE); /* the hub outlives its sessions */
    joined_end(j);
    free(j);
}

static void rpc_disconnect_tells_every_open_call_exactly_once(void)
{
    int before_hello;
    for (before_hello = 0; before_hello < 2; before_hello++) {
        joined *j = (joined *)malloc(sizeof *j);
        told t[20];
        number a;
        int i;
        CBT_REQUIRE(j != NULL && joined_init(j, NULL, NULL));
        memset(t, 0, sizeof t);
        a.n = 3;
        if (!before_hello) {
            (void)cb_rpc_pair_run(&j->pair, 0);
        }
        for (i = 0; i < 20; i++) {
            CBT_CHECK(calc_late(&j->pair.a, &a, on_number, &t[i]) == CB_RPC_OK);
        }
        if (!before_hello) {
            (void)cb_rpc_pair_run(&j->pair, 0);
            CBT_EQ(j->v.lates, 20);
        }
        t[3].recall = &j->pair.a; /* a failure that calls again: refused at once, told to nobody, no recursion */
        cb_rpc_pair_cut(&j->pair);
        (void)cb_rpc_pair_run(&j->pair, 0);
        (void)cb_rpc_pair_run(&j->pair, 0);
        for (i = 0; i < 20; i++) {
            CBT_EQ(t[i].count, 1);
            CBT_EQ(t[i].status, CB_RPC_E_CUT);
        }
        CBT_EQ(t[3].recall_said, CB_RPC_E_CLOSED);
        CBT_EQ(j->pair.b.waiting_count, 0);
        joined_end(j);
        free(j);
    }
}

static void rpc_deadline_reaches_both_sides_and_frees_the_entry(void)
{
    joined *j = (joined *)malloc(sizeof *j);
    cb_rpc_token token;
    number a;
    told t;
    int i;
    CBT_REQUIRE(j != NULL && joined_init(j, NULL, NULL));
    memset(&t, 0, sizeof t);
    a.n = 1;
    CBT_EQ(cb_rpc_deadline(&j->pair.a), CB_RPC_NEVER);
    for (i = 1; i <= 100; i++) { /* far more than the table would hold if they stayed in it */
        uint64_t now = (uint64_t)i * 1000000000u;
        (void)cb_rpc_pair_run(&j->pair, now);
        CBT_CHECK(calc_late(cb_rpc_with_timeout(&j->pair.a, 5000000), &a, on_number, &t) == CB_RPC_OK);
        CBT_EQ(cb_rpc_deadline(&j->pair.a), now + 5000000u);
        (void)cb_rpc_pair_run(&j->pair, now);
        token = j->v.token;
        CBT_EQ(cb_rpc_deadline(&j->pair.b), now + 5000000u);
        cb_rpc_tick(&j->pair.a, now + 4999999u);
        (void)cb_rpc_pair_run(&j->pair, now + 4999999u);
        CBT_EQ(t.count, i - 1);
        (void)cb_rpc_pair_run(&j->pair, now + 5000000u);
        CBT_EQ(t.count, i);
        CBT_EQ(t.status, CB_RPC_E_TIMEOUT);
        CBT_CHECK(calc_late_answer(token, &a) == CB_RPC_E_STALE);
        CBT_EQ(j->pair.a.open_count, 0);
        CBT_EQ(j->pair.b.waiting_count, 0);
        CBT_CHECK(j->v.cancelled == CB_RPC_E_PEER_TIMEOUT);
    }
    CBT_EQ(j->pair.a.open_cap, 8);
    joined_end(j);
    free(j);
}

static void rpc_answer_timeout_bounds_late_answers_of_callers_without_deadline(void)
{
    joined *j = (joined *)malloc(sizeof *j);
    cb_rpc_hub_desc d;
    number a;
    told t;
    memset(&d, 0, sizeof d);
    d.answer_timeout_ns = 1000;
    CBT_REQUIRE(j != NULL && joined_init(j, &d, NULL));
    memset(&t, 0, sizeof t);
    a.n = 1;
    CBT_CHECK(calc_late(&j->pair.a, &a, on_number, &t) == CB_RPC_OK);
    (void)cb_rpc_pair_run(&j->pair, 0);
    (void)cb_rpc_pair_run(&j->pair, 999);
    CBT_EQ(t.count, 0);
    (void)cb_rpc_pair_run(&j->pair, 1000);
    CBT_EQ(t.status, CB_RPC_E_PEER_TIMEOUT);
    joined_end(j);
    free(j);
}

static void rpc_deadlines_fire_in_order_whatever_the_order_of_calls(void)
{
    joined *j = (joined *)malloc(sizeof *j);
    told t[64];
    number a;
    unsigned i, now, fired = 0;
    CBT_REQUIRE(j != NULL && joined_init(j, NULL, NULL));
    memset(t, 0, sizeof t);
    a.n = 1;
    for (i = 0; i < 64; i++) {
        CBT_CHECK(calc_late(cb_rpc_with_timeout(&j->pair.a, 1000000u * (1u + i * 37u % 64u)), &a, on_number, &t[i]) == CB_RPC_OK);
    }
    for (i = 0; i < 64; i += 5) { /* some leave the middle of the heap */
        cb_rpc_call c;
        c.id = j->pair.a.open[i].serial << 16 | i;
        CBT_CHECK(cb_rpc_call_cancel(&j->pair.a, c) == CB_RPC_OK);
        CBT_CHECK(cb_rpc_call_cancel(&j->pair.a, c) == CB_RPC_E_STALE);
    }
    for (now = 0; now <= 64; now++) {
        (void)cb_rpc_pair_run(&j->pair, now * 1000000u);
        for (i = 0; i < 64; i++) {
            bool due = 1u + i * 37u % 64u <= now;
            CBT_EQ(t[i].count, i % 5u == 0 || due ? 1 : 0);
            fired += i % 5u != 0 && t[i].status == CB_RPC_E_TIMEOUT && now == 64;
        }
    }
    CBT_EQ(fired, 51);
    joined_end(j);
    free(j);
}

static void rpc_cancel_crosses_an_answer_without_harm(void)
{
    joined *j = (joined *)malloc(sizeof *j);
    number a, reply;
    cb_rpc_future f;
    told t, u;
    CBT_REQUIRE(j != NULL && joined_init(j, NULL, NULL));
    memset(&t, 0, sizeof t);
    memset(&u, 0, sizeof u);
    a.n = 1;
    (void)cb_rpc_pair_run(&j->pair, 0);
    CBT_CHECK(calc_late(&j->pair.a, &a, on_number, &t) == CB_RPC_OK);
    (void)cb_rpc_pair_run(&j->pair, 0);
    CBT_CHECK(calc_late_answer(j->v.token, &a) == CB_RPC_OK); /* on its way */
    CBT_CHECK(cb_rpc_call_cancel(&j->pair.a, cb_rpc_last_call(&j->pair.a)) == CB_RPC_OK);
    (void)cb_rpc_pair_run(&j->pair, 0);
    CBT_EQ(t.count, 1);
    CBT_EQ(t.status, CB_RPC_E_CANCELLED);
    CBT_EQ(j->pair.a.open_count, 0);

    CBT_CHECK(calc_late_future(&j->pair.a, &a, &reply, &f) == CB_RPC_OK);
    reply.n = 555;
    cb_rpc_future_cancel(&f); /* at once: f and reply are ours */
    CBT_CHECK(f.state == CB_RPC_FUTURE_DONE && f.status == CB_RPC_E_CANCELLED);
    memset(&f, 0xee, sizeof f);
    CBT_CHECK(calc_add(&j->pair.a, &a, on_number, &u) == CB_RPC_OK); /* must not be taken for the cancelled one */
    (void)cb_rpc_pair_run(&j->pair, 0);
    CBT_EQ(u.n, 2);
    CBT_EQ(reply.n, 555);
    CBT_EQ(j->pair.a.open_count, 0);
    joined_end(j);
    free(j);
}

static void rpc_cancel_inside_another_receiver_and_of_itself(void)
{
    joined *j = (joined *)malloc(sizeof *j);
    number a;
    told t, u;
    CBT_REQUIRE(j != NULL && joined_init(j, NULL, NULL));
    memset(&t, 0, sizeof t);
    memset(&u, 0, sizeof u);
    a.n = 1;
    CBT_CHECK(calc_late(&j->pair.a, &a, on_number, &u) == CB_RPC_OK);
    t.cancel = cb_rpc_last_call(&j->pair.a);
    t.recall = &j->pair.a;
    CBT_CHECK(calc_add(&j->pair.a, &a, on_number, &t) == CB_RPC_OK);
    (void)cb_rpc_pair_run(&j->pair, 0);
    CBT_EQ(t.count, 1);
    CBT_EQ(t.recall_said, CB_RPC_OK);
    CBT_CHECK(u.count == 1 && u.status == CB_RPC_E_CANCELLED);
    CBT_CHECK(calc_add(&j->pair.a, &a, on_number, &t) == CB_RPC_OK);
    t.cancel = cb_rpc_last_call(&j->pair.a); /* its receiver cancels its own call: that has ended */
    (void)cb_rpc_pair_run(&j->pair, 0);
    CBT_EQ(t.count, 2);
    CBT_EQ(t.recall_said, CB_RPC_E_STALE);
    joined_end(j);
    free(j);
}

static void rpc_call_ids_of_old_calls_are_stale(void)
{
    joined *j = (joined *)malloc(sizeof *j);
    cb_rpc_call old;
    number a;
    told t;
    CBT_REQUIRE(j != NULL && joined_init(j, NULL, NULL));
    memset(&t, 0, sizeof t);
    a.n = 1;
    j->pair.a.serial = (UINT64_C(1) << 48) - 3; /* near where a 48-bit serial would wrap */
    CBT_CHECK(calc_add(&j->pair.a, &a, on_number, &t) == CB_RPC_OK);
    old = cb_rpc_last_call(&j->pair.a);
    (void)cb_rpc_pair_run(&j->pair, 0);
    CBT_CHECK(calc_late(&j->pair.a, &a, on_number, &t) == CB_RPC_OK); /* the same slot */
    CBT_CHECK(cb_rpc_call_cancel(&j->pair.a, old) == CB_RPC_E_STALE);
    old.id = 0;
    CBT_CHECK(cb_rpc_call_cancel(&j->pair.a, old) == CB_RPC_E_STALE);
    old.id = UINT64_MAX;
    CBT_CHECK(cb_rpc_call_cancel(&j->pair.a, old) == CB_RPC_E_STALE);
    (void)cb_rpc_pair_run(&j->pair, 0);
    CBT_EQ(t.count, 1);
    joined_end(j);
    free(j);
}

static void rpc_handler_returns_become_failure_kinds(void)
{
    static const struct { cb_rpc_status returned, told; } table[] = {
        { CB_RPC_E_HANDLER, CB_RPC_E_HANDLER }, { CB_RPC_E_PEER_BUSY, CB_RPC_E_PEER_BUSY }, { CB_RPC_E_REFUSED, CB_RPC_E_REFUSED },
        { CB_RPC_E_NOMEM, CB_RPC_E_HANDLER }, { CB_RPC_CLOSED, CB_RPC_E_HANDLER }, { CB_RPC_E_UNKNOWN_METHOD, CB_RPC_E_UNKNOWN_METHOD },
    };
    size_t i;
    joined *j = (joined *)malloc(sizeof *j);
    CBT_REQUIRE(j != NULL && joined_init(j, NULL, NULL));
    for (i = 0; i < sizeof table / sizeof table[0]; i++) {
        number a;
        told t;
        memset(&t, 0, sizeof t);
        a.n = 1;
        j->v.handler_returns = table[i].returned;
        CBT_CHECK(calc_add(&j->pair.a, &a, on_number, &t) == CB_RPC_OK);
        (void)cb_rpc_pair_run(&j->pair, 0);
        CBT_EQ(t.status, table[i].told);
        CBT_CHECK(t.reason[0] != '\0');
    }
    joined_end(j);
    free(j);
}

static void rpc_close_inside_a_handler_is_deferred_and_its_answer_dropped(void)
{
    joined *j = (joined *)malloc(sizeof *j);
    number a;
    told t;
    CBT_REQUIRE(j != NULL && joined_init(j, NULL, NULL));
    memset(&t, 0, sizeof t);
    a.n = 1;
    j->v.close_me = &j->pair.b;
    CBT_CHECK(calc_add(&j->pair.a, &a, on_number, &t) == CB_RPC_OK);
    (void)cb_rpc_pair_run(&j->pair, 0);
    CBT_EQ(j->v.deinit_said, CB_RPC_E_BUSY);
    CBT_EQ(j->v.dispatch_said == CB_RPC_OK, 0);
    CBT_EQ(t.count, 0); /* no answer was sent */
    CBT_CHECK(calc_add(&j->pair.b, &a, on_number, &t) == CB_RPC_E_CLOSED);
    CBT_STR(cb_rpc_reason(&j->pair.b), "closed here");
    cb_rpc_pair_cut(&j->pair);
    (void)cb_rpc_pair_run(&j->pair, 0);
    CBT_EQ(t.count, 1);
    joined_end(j);
    free(j);
}

static void rpc_drive_inside_a_handler_takes_nothing(void)
{
    unsigned mode;
    for (mode = 0; mode < 2; mode++) { /* a stream, messages */
        joined *j = (joined *)malloc(sizeof *j);
        cb_rpc_pair_desc pd;
        number a, reply;
        cb_rpc_future f;
        memset(&pd, 0, sizeof pd);
        pd.is_message_based = mode == 1;
        CBT_REQUIRE(j != NULL && joined_init(j, NULL, &pd));
        a.n = 1;
        CBT_CHECK(calc_late_future(&j->pair.a, &a, &reply, &f) == CB_RPC_OK);
        CBT_CHECK(cb_rpc_pair_run(&j->pair, 0) == CB_RPC_OK);
        CBT_CHECK(cb_rpc_call_cancel(&j->pair.a, f.call) == CB_RPC_OK); /* an event that waits for the next drive */
        j->v.drive_me = &j->pair.a;
        CBT_CHECK(calc_add(&j->pair.b, &a, NULL, NULL) == CB_RPC_OK);
        CBT_CHECK(calc_add(&j->pair.a, &a, NULL, NULL) == CB_RPC_OK); /* its handler, at b, drives a */
        CBT_CHECK(cb_rpc_pair_run(&j->pair, 0) == CB_RPC_OK);
        CBT_EQ(j->v.dispatch_said, CB_RPC_E_BUSY);
        CBT_CHECK(f.state == CB_RPC_FUTURE_DONE && f.status == CB_RPC_E_CANCELLED);
        joined_end(j);
        free(j);
    }
}

static void rpc_future_is_the_callers_once_cancelled_between_next_and_dispatch(void)
{
    uint8_t h[128], in[7] = { 6, 1, 0, 42, 0, 0, 0 };
    lone *l = (lone *)malloc(sizeof *l);
    cb_rpc_future *f = (cb_rpc_future *)malloc(sizeof *f), g, last;
    number a, *reply = (number *)malloc(sizeof *reply), other;
    cb_rpc_event e;
    cb_span span;
    CBT_REQUIRE(l != NULL && f != NULL && reply != NULL && lone_init(l, NULL));
    CBT_CHECK(lone_feed(l, h, hello(h)) == CB_RPC_NEED_INPUT);
    a.n = 1;
    CBT_CHECK(calc_add_future(&l->s, &a, reply, f) == CB_RPC_OK);
    span.data = in;
    span.size = 7;
    CBT_CHECK(cb_rpc_next(&l->s, &span, 0, &e) == CB_RPC_OK);
    CBT_CHECK(calc_add_future(&l->s, &a, &other, &g) == CB_RPC_OK); /* takes the id over */
    cb_rpc_future_cancel(f);
    CBT_CHECK(f->state == CB_RPC_FUTURE_DONE && f->status == CB_RPC_E_CANCELLED);
    free(f);
    free(reply);
    CBT_CHECK(cb_rpc_dispatch(&l->s, &e) == CB_RPC_OK); /* touches neither of the two */
    CBT_CHECK(lone_feed(l, "\x06\x01\x00\x2b\x00\x00\x00", 7) == CB_RPC_NEED_INPUT);
    CBT_CHECK(g.state == CB_RPC_FUTURE_DONE && other.n == 43);
    CBT_CHECK(calc_add_future(&l->s, &a, &other, &last) == CB_RPC_OK);
    span.data = in;
    span.size = 7;
    CBT_CHECK(cb_rpc_next(&l->s, &span, 0, &e) == CB_RPC_OK); /* and its session goes before it is told */
    lone_end(l);
    CBT_CHECK(last.state == CB_RPC_FUTURE_DONE && last.status == CB_RPC_E_CLOSED);
    free(l);
}

static void rpc_clean_end_lets_late_answers_out(void)
{
    uint8_t h[128];
    lone *l = (lone *)malloc(sizeof *l);
    number a;
    CBT_REQUIRE(l != NULL && lone_init(l, NULL));
    CBT_CHECK(lone_feed(l, h, hello(h)) == CB_RPC_NEED_INPUT);
    CBT_CHECK(lone_feed(l, "\x06\x11\x00\x01\x00\x00\x00", 7) == CB_RPC_NEED_INPUT);
    cb_rpc_end(&l->s, CB_RPC_OK, NULL);
    CBT_EQ(lone_idle(l, 0), CB_RPC_WAIT);
    l->out.size = 0;
    a.n = 9;
    CBT_CHECK(calc_add(&l->s, &a, on_number, NULL) == CB_RPC_E_CLOSED); /* no answer could come */
    CBT_CHECK(calc_late_answer(l->v.token, &a) == CB_RPC_OK);
    CBT_MEM(l->out.bytes, "\x06\x01\x00\x09\x00\x00\x00", 7);
    CBT_EQ(lone_idle(l, 0), CB_RPC_CLOSED);
    CBT_EQ(lone_idle(l, 0), CB_RPC_CLOSED);
    lone_end(l);
    free(l);
}

static void rpc_late_calls_of_a_peer_that_ended_are_given_up(void)
{
    uint8_t h[128];
    lone *l = (lone *)malloc(sizeof *l);
    number a;
    CBT_REQUIRE(l != NULL && lone_init(l, NULL));
    CBT_CHECK(lone_feed(l, h, hello(h)) == CB_RPC_NEED_INPUT);
    CBT_CHECK(lone_feed(l, "\x06\x11\x00\x01\x00\x00\x00", 7) == CB_RPC_NEED_INPUT);
    CBT_CHECK(lone_idle(l, 5) == CB_RPC_NEED_INPUT);
    cb_rpc_end(&l->s, CB_RPC_OK, NULL); /* a half-close, or all that a dead peer's system still says */
    CBT_EQ(lone_idle(l, 5), CB_RPC_WAIT);
    CBT_EQ(cb_rpc_deadline(&l->s), UINT64_C(30000000005));
    CBT_EQ(lone_idle(l, UINT64_C(30000000004)), CB_RPC_WAIT);
    CBT_CHECK(cb_rpc_token_is_waiting(l->v.token));
    CBT_EQ(lone_idle(l, UINT64_C(30000000005)), CB_RPC_CLOSED);
    a.n = 1;
    CBT_CHECK(calc_late_answer(l->v.token, &a) == CB_RPC_E_STALE);
    CBT_STR(cb_rpc_reason(&l->s), "the peer has gone");
    lone_end(l);
    free(l);
}

static void rpc_close_cancels_its_open_calls_at_the_peer(void)
{
    joined *j = (joined *)malloc(sizeof *j);
    number a;
    told t;
    CBT_REQUIRE(j != NULL && joined_init(j, NULL, NULL));
    memset(&t, 0, sizeof t);
    a.n = 1;
    CBT_CHECK(calc_late(&j->pair.a, &a, on_number, &t) == CB_RPC_OK);
    (void)cb_rpc_pair_run(&j->pair, 0);
    CBT_CHECK(cb_rpc_token_is_waiting(j->v.token));
    cb_rpc_close(&j->pair.a);
    (void)cb_rpc_pair_run(&j->pair, 0);
    CBT_CHECK(t.count == 1 && t.status == CB_RPC_E_CLOSED);
    CBT_EQ(j->v.cancelled, CB_RPC_E_CANCELLED);
    CBT_CHECK(!cb_rpc_token_is_waiting(j->v.token));
    joined_end(j);
    free(j);
}

static void rpc_peer_that_says_no_hello_is_given_up(void)
{
    lone *l = (lone *)malloc(sizeof *l);
    number a;
    told t;
    CBT_REQUIRE(l != NULL && lone_init(l, NULL));
    memset(&t, 0, sizeof t);
    a.n = 1;
    CBT_CHECK(calc_add(&l->s, &a, on_number, &t) == CB_RPC_OK);
    CBT_EQ(cb_rpc_deadline(&l->s), CB_RPC_NEVER); /* nothing is connected yet */
    CBT_CHECK(lone_idle(l, 5) == CB_RPC_NEED_INPUT);
    CBT_EQ(cb_rpc_deadline(&l->s), UINT64_C(10000000005));
    CBT_CHECK(lone_idle(l, UINT64_C(10000000004)) == CB_RPC_NEED_INPUT);
    CBT_CHECK(lone_idle(l, UINT64_C(10000000005)) == CB_RPC_E_TIMEOUT);
    CBT_STR(cb_rpc_reason(&l->s), "the peer did not say hello in time");
    cb_rpc_end(&l->s, CB_RPC_E_TIMEOUT, NULL);
    CBT_CHECK(lone_idle(l, UINT64_C(10000000005)) == CB_RPC_CLOSED);
    CBT_CHECK(t.count == 1 && t.status == CB_RPC_E_TIMEOUT);
    lone_end(l);
    free(l);
}

static void rpc_session_restarts_after_it_closed(void)
{
    uint8_t h[128];
    lone *l = (lone *)malloc(sizeof *l);
    cb_sink k;
    number a;
    told t;
    CBT_REQUIRE(l != NULL && lone_init(l, NULL));
    memset(&t, 0, sizeof t);
    a.n = 1;
    k = l->s.out;
    CBT_CHECK(lone_feed(l, h, hello(h)) == CB_RPC_NEED_INPUT);
    CBT_CHECK(calc_add(&l->s, &a, on_number, &t) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_session_restart(&l->s, &k) == CB_RPC_E_STATE);
    cb_rpc_end(&l->s, CB_RPC_E_CUT, "the cable was pulled");
    CBT_CHECK(cb_rpc_session_restart(&l->s, &k) == CB_RPC_E_STATE); /* the call was not told yet */
    CBT_EQ(lone_idle(l, 0), CB_RPC_CLOSED);
    CBT_STR(t.reason, "the cable was pulled");
    CBT_STR(cb_rpc_reason(&l->s), "the cable was pulled");
    CBT_CHECK(cb_rpc_session_restart(&l->s, &k) == CB_RPC_OK);
    l->out.size = 0;
    CBT_CHECK(lone_feed(l, h, hello(h)) == CB_RPC_NEED_INPUT);
    CBT_CHECK(calc_add(&l->s, &a, on_number, &t) == CB_RPC_OK);
    CBT_CHECK(lone_feed(l, "\x06\x01\x00\x2a\x00\x00\x00", 7) == CB_RPC_NEED_INPUT);
    CBT_EQ(t.n, 42);
    lone_end(l);
    free(l);
}

/* ================================== limits ================================== */
static void rpc_calls_waiting_limit_refuses_busy_before_the_method_runs(void)
{
    uint32_t limit;
    for (limit = 4; limit <= 4; limit++) {
        cb_rpc_hub_desc d;
        joined *j = (joined *)malloc(sizeof *j);
        told t[6];
        number a;
        unsigned i;
        memset(&d, 0, sizeof d);
        d.calls_waiting_max = limit;
        CBT_REQUIRE(j != NULL && joined_init(j, &d, NULL));
        memset(t, 0, sizeof t);
        a.n = 1;
        for (i = 0; i < limit + 1; i++) {
            CBT_CHECK(calc_late(&j->pair.a, &a, on_number, &t[i]) == CB_RPC_OK);
            (void)cb_rpc_pair_run(&j->pair, 0);
            CBT_EQ(j->v.lates, i < limit ? i + 1 : limit);
        }
        CBT_EQ(t[limit - 1].count, 0);
        CBT_EQ(t[limit].status, CB_RPC_E_PEER_BUSY);
        CBT_EQ(cb_rpc_session_peer_calls_max(&j->pair.a), limit);
        CBT_CHECK(calc_late_answer(j->v.token, &a) == CB_RPC_OK); /* one place is free again */
        CBT_CHECK(calc_late(&j->pair.a, &a, on_number, &t[limit]) == CB_RPC_OK);
        (void)cb_rpc_pair_run(&j->pair, 0);
        CBT_EQ(j->v.lates, limit + 1);
        cb_rpc_pair_cut(&j->pair);
        (void)cb_rpc_pair_run(&j->pair, 0);
        joined_end(j);
        free(j);
    }
}

static void rpc_calls_open_limit_refuses_and_recovers(void)
{
    cb_rpc_hub_desc d;
    joined *j = (joined *)malloc(sizeof *j);
    told t[12];
    number a;
    cb_rpc_future f;
    unsigned i;
    memset(&d, 0, sizeof d);
    d.calls_open_max = 11;
    CBT_REQUIRE(j != NULL && joined_init(j, &d, NULL));
    memset(t, 0, sizeof t);
    a.n = 1;
    for (i = 0; i < 11; i++) {
        CBT_CHECK(calc_add(&j->pair.a, &a, on_number, &t[i]) == CB_RPC_OK);
    }
    CBT_CHECK(calc_add(&j->pair.a, &a, on_number, &t[11]) == CB_RPC_E_FULL);
    CBT_CHECK(calc_add_future(&j->pair.a, &a, &a, &f) == CB_RPC_E_FULL);
    CBT_CHECK(f.state == CB_RPC_FUTURE_DONE && f.status == CB_RPC_E_FULL);
    a.n = 1;
    (void)cb_rpc_pair_run(&j->pair, 0);
    CBT_EQ(t[10].count, 1);
    CBT_EQ(t[11].count, 0);
    CBT_CHECK(calc_add(&j->pair.a, &a, on_number, &t[11]) == CB_RPC_OK);
    (void)cb_rpc_pair_run(&j->pair, 0);
    CBT_EQ(t[11].count, 1);
    joined_end(j);
    free(j);
}

static void rpc_output_bounds_refuse_new_calls_and_let_answers_pass(void)
{
    uint8_t h[128];
    lone *l = (lone *)malloc(sizeof *l);
    number a;
    told t;
    CBT_REQUIRE(l != NULL && lone_init(l, NULL));
    memset(&t, 0, sizeof t);
    CBT_CHECK(lone_feed(l, h, hello(h)) == CB_RPC_NEED_INPUT);
    l->out.size = 0;
    l->out.room_soft = 6; /* one byte short of a call */
    a.n = 1;
    CBT_CHECK(calc_add(&l->s, &a, on_number, &t) == CB_RPC_E_FULL);
    CBT_EQ(l->out.size, 0);
    l->out.room_soft = 7; /* exactly */
    CBT_CHECK(calc_add(&l->s, &a, on_number, &t) == CB_RPC_OK);
    CBT_EQ(l->out.size, 7);
    CBT_CHECK(lone_feed(l, "\x06\x10\x00\x01\x00\x00\x00", 7) == CB_RPC_NEED_INPUT); /* an answer passes the soft bound */
    CBT_EQ(l->out.size, 14);
    l->out.room_hard = 14 + 31; /* not enough for a refusal: the call is not taken */
    {
        uint8_t call[7] = { 0x06, 0x10, 0x00, 1, 0, 0, 0 };
        cb_span in;
        in.data = call;
        in.size = 7;
        CBT_CHECK(cb_rpc_drive(&l->s, &in, 0) == CB_RPC_NEED_OUTPUT);
        CBT_EQ(in.size, 7);
        CBT_EQ(l->v.adds, 1);
        l->out.room_hard = sizeof l->out.bytes;
        CBT_CHECK(cb_rpc_drive(&l->s, &in, 0) == CB_RPC_NEED_INPUT);
        CBT_EQ(l->v.adds, 2);
    }
    lone_end(l);
    free(l);
}

static void rpc_call_whose_answer_may_not_fit_waits_above_the_soft_bound(void)
{
    static uint8_t in[2008];
    uint8_t h[128], cancel[4] = { 3, 3, 1, 8 };
    lone *l = (lone *)malloc(sizeof *l);
    cb_span span;
    CBT_REQUIRE(l != NULL && lone_init(l, NULL));
    CBT_CHECK(lone_feed(l, h, hello(h)) == CB_RPC_NEED_INPUT); /* reads frames up to 8,192 bytes */
    l->out.size = 0;
    l->out.room_soft = 3000;
    l->out.room_hard = 3000 + 8192 + 64;
    memset(in, 0, sizeof in);
    memcpy(in, "\xd6\x0f\xd7\x01\x00\xcf\x07\0\0", 9); /* calc_echo, id 0, 1,999 bytes */
    while (l->out.size <= l->out.room_soft) {
        span.data = in;
        span.size = sizeof in;
        CBT_CHECK(cb_rpc_drive(&l->s, &span, 0) == CB_RPC_NEED_INPUT);
        memcpy(in, "\xd6\x0f\xd7\x01\x00\xcf\x07\0\0", 9);
    }
    span.data = in;
    span.size = sizeof in;
    CBT_CHECK(cb_rpc_drive(&l->s, &span, 0) == CB_RPC_NEED_OUTPUT); /* a peer that reads slowly is no error */
    CBT_EQ(span.size, sizeof in);
    CBT_EQ(l->v.echoes, 2);
    l->out.size = 0;
    CBT_CHECK(cb_rpc_drive(&l->s, &span, 0) == CB_RPC_NEED_INPUT);
    CBT_EQ(l->v.echoes, 3);
    CBT_CHECK(lone_feed(l, "\x06\x11\x02\x01\x00\x00\x00", 7) == CB_RPC_NEED_INPUT); /* calc_late, id 1 */
    l->out.size = l->out.room_hard;
    span.data = cancel;
    span.size = 4;
    CBT_CHECK(cb_rpc_drive(&l->s, &span, 0) == CB_RPC_NEED_OUTPUT); /* its refusal waits too */
    CBT_EQ(span.size, 4);
    l->out.size = 0;
    CBT_CHECK(cb_rpc_drive(&l->s, &span, 0) == CB_RPC_NEED_INPUT);
    CBT_EQ(l->v.cancelled, CB_RPC_E_CANCELLED);
    lone_end(l);
    free(l);
}

static void rpc_answer_beyond_the_hard_bound_ends_the_session(void)
{
    uint8_t h[128], in[200];
    lone *l = (lone *)malloc(sizeof *l);
    CBT_REQUIRE(l != NULL && lone_init(l, NULL));
    CBT_CHECK(lone_feed(l, h, hello(h)) == CB_RPC_NEED_INPUT);
    l->out.size = 0;
    l->out.room_hard = 60;
    memset(in, 0, sizeof in);
    memcpy(in, "\x6b\xd7\x01\x00\x64", 5); /* 107 bytes: calc_echo, id 0, 100 bytes */
    CBT_CHECK(lone_feed(l, in, 108) == CB_RPC_E_SLOW_PEER);
    CBT_STR(cb_rpc_reason(&l->s), "the peer does not read its answers");
    cb_rpc_end(&l->s, CB_RPC_E_SLOW_PEER, NULL);
    CBT_CHECK(lone_idle(l, 0) == CB_RPC_CLOSED);
    lone_end(l);
    free(l);
}

static void rpc_answer_too_long_for_the_caller_is_said_so(void)
{
    uint8_t h[128], in[400];
    lone *l = (lone *)malloc(sizeof *l);
    CBT_REQUIRE(l != NULL && lone_init(l, NULL));
    CBT_CHECK(lone_feed(l, h, calc_hello(h, 200)) == CB_RPC_NEED_INPUT); /* a caller that reads 200 bytes */
    l->out.size = 0;
    memset(in, 0, sizeof in);
    memcpy(in, "\xb3\x02\xd7\x01\x00\x2c\x01", 7); /* 307 bytes: calc_echo of 300 */
    CBT_CHECK(lone_feed(l, in, 309) == CB_RPC_NEED_INPUT);
    CBT_EQ(l->v.echoes, 1);
    CBT_EQ(l->out.size, 4);
    CBT_MEM(l->out.bytes, "\x03\x02\x00\x07", 4);
    lone_end(l);
    free(l);
}

static void rpc_hub_init_refuses_contradictions(void)
{
    cb_rpc_hub_desc d;
    service v;
    cb_rpc_hub hub;
    cb_rpc_slot slots[2];
    cb_rpc_row row = next_echo;
    cb_rpc_contract c = { "c", slots, 2 };
    hub_desc(&d, &v, NULL);
    d.contract = NULL;
    CBT_CHECK(cb_rpc_hub_init(&hub, &d) == CB_RPC_E_ARG);
    hub_desc(&d, &v, NULL);
    d.frame_bytes_max = 63;
    CBT_CHECK(cb_rpc_hub_init(&hub, &d) == CB_RPC_E_ARG);
    d.frame_bytes_max = 64;
    CBT_CHECK(cb_rpc_hub_init(&hub, &d) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_hub_deinit(&hub) == CB_RPC_OK);
    d.calls_open_max = 65537;
    CBT_CHECK(cb_rpc_hub_init(&hub, &d) == CB_RPC_E_ARG);
    hub_desc(&d, &v, NULL);
    d.alloc.alloc = cbt_mem_alloc;
    CBT_CHECK(cb_rpc_hub_init(&hub, &d) == CB_RPC_E_ARG);
    d.alloc.alloc = NULL;
    d.contract = &c;
    slots[0].row = &next_echo;
    slots[1].row = &row;
    slots[0].handler_at = slots[1].handler_at = 0;
    CBT_CHECK(cb_rpc_hub_init(&hub, &d) == CB_RPC_E_ARG); /* a number used twice */
    row.number = 8;
    CBT_CHECK(cb_rpc_hub_init(&hub, &d) == CB_RPC_E_ARG); /* a name used twice */
    row.name = "other";
    CBT_CHECK(cb_rpc_hub_init(&hub, &d) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_hub_deinit(&hub) == CB_RPC_OK);
    row.number = 1024;
    CBT_CHECK(cb_rpc_hub_init(&hub, &d) == CB_RPC_E_ARG);
    row.number = 0;
    CBT_CHECK(cb_rpc_hub_init(&hub, &d) == CB_RPC_E_ARG);
    CBT_CHECK(cb_rpc_hub_deinit(NULL) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_hub_deinit(&hub) == CB_RPC_OK);
    CBT_CHECK(strcmp(cb_rpc_status_str((cb_rpc_status)77), "?") == 0);
    CBT_STR(cb_rpc_status_str(CB_RPC_E_REFUSED), "the handler refused the call");
}

/* ============================== other releases ============================== */
static void rpc_hello_maps_methods_of_another_release(void)
{
    service v;
    cb_rpc_hub_desc d;
    cb_rpc_hub ours, theirs;
    cb_rpc_pair pair;
    wide w;
    number a;
    note e;
    blob *b = (blob *)calloc(1, sizeof *b);
    hub_desc(&d, &v, NULL);
    CBT_REQUIRE(b != NULL && cb_rpc_hub_init(&ours, &d) == CB_RPC_OK);
    d.contract = &next_contract;
    d.handlers = NULL;
    CBT_REQUIRE(cb_rpc_hub_init(&theirs, &d) == CB_RPC_OK);
    CBT_REQUIRE(cb_rpc_pair_init(&pair, &theirs, &ours, NULL) == CB_RPC_OK);
    memset(&e, 0, sizeof e);
    CBT_CHECK(CB_CODEC_SET_TEXT(&e, words, "ho") == CB_CODEC_OK);
    e.level = 2;
    CBT_CHECK(cb_rpc_event_send(&pair.a, &next_say, &e) == CB_RPC_OK); /* number 1 there, 3 here */
    b->data_size = 3;
    next_results = 0;
    CBT_CHECK(cb_rpc_call_send(&pair.a, &next_echo, b, next_any, NULL) == CB_RPC_OK); /* 7 there, 200 here */
    CBT_CHECK(cb_rpc_pair_run(&pair, 0) == CB_RPC_OK);
    CBT_STR(v.log, "ho 2;echo 3;");
    CBT_CHECK(next_results == 1 && next_status == CB_RPC_OK);
    w.n = 1;
    CBT_CHECK(cb_rpc_call_send(&pair.a, &next_add, &w, next_any, NULL) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_pair_run(&pair, 0) == CB_RPC_OK);
    CBT_EQ(next_status, CB_RPC_E_LAYOUT);
    CBT_STR(next_reason, "calc_add: another layout there (field 'n' is i64 here, i32 there)");
    a.n = 1;
    CBT_CHECK(cb_rpc_call_send(&pair.a, &next_gone, &a, next_any, NULL) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_pair_run(&pair, 0) == CB_RPC_OK);
    CBT_EQ(next_status, CB_RPC_E_UNKNOWN_METHOD);
    CBT_STR(next_reason, "calc_gone (9): the server does not have this method");
    CBT_CHECK(cb_rpc_event_send(&pair.a, &next_kind, &a) == CB_RPC_OK); /* a call here, an event there: dropped */
    CBT_CHECK(cb_rpc_pair_run(&pair, 0) == CB_RPC_OK);
    CBT_EQ(ours.events_dropped, 1);
    CBT_EQ(v.lates, 0);
    CBT_CHECK(cb_rpc_call_send(&pair.a, &next_kind, &a, next_any, NULL) == CB_RPC_E_ARG);
    CBT_CHECK(calc_add(&pair.a, &a, NULL, NULL) == CB_RPC_E_ARG); /* not in this hub's contract */
    CBT_CHECK(calc_fingerprint() != cb_rpc_contract_fingerprint(&next_contract));
    CBT_EQ(calc_fingerprint(), cb_rpc_contract_fingerprint(calc_contract()));
    cb_rpc_pair_deinit(&pair);
    CBT_CHECK(cb_rpc_hub_deinit(&ours) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_hub_deinit(&theirs) == CB_RPC_OK);
    free(b);
}

static void layout_case(const char *theirs, const char *want)
{
    uint8_t frame[300], h[128];
    lone *l = (lone *)malloc(sizeof *l);
    size_t n = strlen(theirs);
    note e;
    number a;
    told t;
    CBT_REQUIRE(l != NULL && lone_init(l, NULL));
    memset(&t, 0, sizeof t);
    memset(&e, 0, sizeof e);
    CBT_CHECK(lone_feed(l, h, hello(h)) == CB_RPC_NEED_INPUT);
    a.n = 1;
    CBT_CHECK(calc_add(&l->s, &a, on_number, &t) == CB_RPC_OK);
    frame[0] = (uint8_t)(n + 3);
    memcpy(frame + 1, "\x02\x00\x03", 3);
    memcpy(frame + 4, theirs, n);
    CBT_CHECK(lone_feed(l, frame, n + 4) == CB_RPC_NEED_INPUT);
    CBT_EQ(t.status, CB_RPC_E_LAYOUT);
    CBT_STR(t.reason, want);
    lone_end(l);
    free(l);
}

static void rpc_layout_difference_is_told_in_words(void) /* ours: n:i32>n:i32 */
{
    layout_case("n:u8>n:i32", "calc_add: another layout there (field 'n' is i32 here, u8 there)");
    layout_case("m:i32,k:u8>n:i32", "calc_add: another layout there (field 'k' is missing here, u8 there)");
    layout_case(">n:i32", "calc_add: another layout there (field 'n' is i32 here, missing there)");
    layout_case("n:i32>n:list{a:u8,b:u8} 4", "calc_add: another layout there (field 'n' is i32 here, list{a:u8,b:u8} 4 there)");
    layout_case("n:i32>n:i32,x:flag", "calc_add: another layout there (field 'x' is missing here, flag there)");
    layout_case("", "calc_add: another layout there (field 'n' is i32 here, missing there)");
    layout_case("n:i32>n:i32", "calc_add: another layout there");
    layout_case("}}}},,,>>>{{{::::", "calc_add: another layout there (field 'n' is i32 here, missing there)");
}

/* ============================ hostile and odd peers ============================ */
static void rpc_texts_of_the_peer_are_bounded_and_printable(void)
{
    static uint8_t frame[70000];
    uint8_t h[128];
    lone *l = (lone *)malloc(sizeof *l);
    number a;
    told t;
    size_t i;
    CBT_REQUIRE(l != NULL && lone_init(l, NULL));
    memset(&t, 0, sizeof t);
    CBT_CHECK(lone_feed(l, h, hello(h)) == CB_RPC_NEED_INPUT);
    a.n = 1;
    CBT_CHECK(calc_add(&l->s, &a, on_number, &t) == CB_RPC_OK);
    memset(frame, 'x', sizeof frame);
    memcpy(frame, "\xc0\x9a\x04\x02\x00\x00%s%n\x00\x1b[31m\x7f", 17); /* 0x40 + 0x1a * 128 + 4 * 16,384 = 68,928 */
    CBT_CHECK(lone_feed(l, frame, 3 + 68928) == CB_RPC_NEED_INPUT);
    CBT_EQ(t.status, CB_RPC_E_REFUSED);
    CBT_EQ(strlen(t.reason), CB_RPC_REASON_MAX);
    CBT_CHECK(strncmp(t.reason, "%s%n??[31m?xxx", 14) == 0);
    for (i = 0; t.reason[i] != '\0'; i++) {
        CBT_CHECK((unsigned char)t.reason[i] >= 0x20 && t.reason[i] != 0x7f);
    }
    CBT_CHECK(calc_add(&l->s, &a, on_number, &t) == CB_RPC_OK);
    CBT_CHECK(lone_feed(l, "\x03\x02\x00\xee", 4) == CB_RPC_NEED_INPUT); /* an unknown code reads as refused */
    CBT_EQ(t.status, CB_RPC_E_REFUSED);
    CBT_STR(t.reason, "the handler refused the call");
    CBT_CHECK(calc_add(&l->s, &a, on_number, &t) == CB_RPC_OK);
    CBT_CHECK(lone_feed(l, "\x05\x01\x00\x01\x02\x03", 6) == CB_RPC_NEED_INPUT); /* an answer of 3 bytes */
    CBT_EQ(t.status, CB_RPC_E_ANSWER);
    CBT_CHECK(strstr(t.reason, "number") != NULL);
    lone_end(l);
    free(l);
}

static void rpc_texts_are_cut_between_characters_and_hold_only_text(void)
{
    uint8_t h[128];
    char words[300];
    lone *l = (lone *)malloc(sizeof *l);
    number a;
    told t;
    CBT_REQUIRE(l != NULL && lone_init(l, NULL));
    memset(&t, 0, sizeof t);
    a.n = 1;
    CBT_CHECK(lone_feed(l, h, hello(h)) == CB_RPC_NEED_INPUT);
    CBT_CHECK(calc_add(&l->s, &a, on_number, &t) == CB_RPC_OK);
    /* refusal of call 0: a stray byte, an over-long form, a surrogate, a C1 control, then sound characters of 2, 3 and 4 bytes */
    CBT_CHECK(lone_feed(l, "\x15\x02\x00\x00\xff\xc0\x80\xed\xa0\x80\xc2\x85\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z", 22)
              == CB_RPC_NEED_INPUT);
    CBT_STR(t.reason, "???????\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z");
    memset(words, 'a', sizeof words);
    memcpy(words + 199, "\xc3\xa4", 3); /* a character over the edge of 200 bytes */
    CBT_CHECK(lone_feed(l, "\x06\x11\x00\x01\x00\x00\x00", 7) == CB_RPC_NEED_INPUT);
    l->out.size = 0;
    CBT_CHECK(cb_rpc_token_refuse(l->v.token, words) == CB_RPC_OK);
    CBT_EQ(l->out.size, 2 + 3 + 199);
    CBT_EQ(l->out.bytes[l->out.size - 1], 'a');
    lone_end(l);
    free(l);
}

static void rpc_unreadable_arguments_are_answered_and_unreadable_events_counted(void)
{
    uint8_t h[128];
    lone *l = (lone *)malloc(sizeof *l);
    CBT_REQUIRE(l != NULL && lone_init(l, NULL));
    CBT_CHECK(lone_feed(l, h, hello(h)) == CB_RPC_NEED_INPUT);
    l->out.size = 0;
    CBT_CHECK(lone_feed(l, "\x07\x10\x00\x01\x00\x00\x00\x00", 8) == CB_RPC_NEED_INPUT); /* a byte too much */
    CBT_MEM(l->out.bytes + 1, "\x02\x00\x04number", 9);
    CBT_CHECK(lone_feed(l, "\x05\x12\x02h\xff\x01", 6) == CB_RPC_NEED_INPUT); /* not UTF-8 */
    CBT_EQ(l->hub.events_dropped, 1);
    CBT_EQ(l->v.adds + l->v.notes, 0);
    lone_end(l);
    free(l);
}

static void rpc_peer_tables_are_shared_by_equal_hellos_and_freed(void)
{
    joined *j = (joined *)malloc(sizeof *j);
    cb_rpc_pair more[3];
    size_t live;
    int i;
    CBT_REQUIRE(j != NULL && joined_init(j, NULL, NULL));
    (void)cb_rpc_pair_run(&j->pair, 0);
    live = j->mem.live_bytes;
    for (i = 0; i < 3; i++) {
        CBT_REQUIRE(cb_rpc_pair_init(&more[i], &j->hub, &j->hub, NULL) == CB_RPC_OK);
        (void)cb_rpc_pair_run(&more[i], 0);
        CBT_CHECK(more[i].a.peer == j->pair.a.peer);
    }
    CBT_EQ(j->mem.live_bytes, live);
    CBT_CHECK(cb_rpc_hub_deinit(&j->hub) == CB_RPC_E_BUSY);
    for (i = 0; i < 3; i++) {
        cb_rpc_pair_deinit(&more[i]);
    }
    joined_end(j);
    free(j);
}

/* ================================ the pair ================================ */
static void rpc_pair_delays_loses_and_reorders(void)
{
    cb_rpc_pair_desc pd;
    joined *j = (joined *)malloc(sizeof *j);
    number a;
    told t;
    int i, seen;
    CBT_REQUIRE(j != NULL);
    memset(&pd, 0, sizeof pd);
    memset(&t, 0, sizeof t);
    pd.is_message_based = true;
    pd.delay_ns = 1000;
    pd.lose_percent = 50;
    pd.reorder_percent = 50;
    pd.seed = 7;
    CBT_REQUIRE(joined_init(j, NULL, &pd));
    a.n = 1;
    CBT_CHECK(calc_add(&j->pair.a, &a, on_number, &t) == CB_RPC_OK);
    (void)cb_rpc_pair_run(&j->pair, 999);
    CBT_EQ(j->v.adds, 0);
    (void)cb_rpc_pair_run(&j->pair, 1000);
    CBT_EQ(j->v.adds, 1);
    CBT_EQ(t.count, 0);
    (void)cb_rpc_pair_run(&j->pair, 2000);
    CBT_EQ(t.count, 1);
    for (i = 0; i < 200; i++) {
        a.n = i;
        CBT_CHECK(calc_lossy(&j->pair.a, &a) == CB_RPC_OK);
    }
    (void)cb_rpc_pair_run(&j->pair, 3000);
    seen = j->v.lossy;
    CBT_CHECK(seen > 60 && seen < 140);
    {   /* each at most once, and not all in order */
        const char *p = j->v.log;
        bool had[200];
        int last = -1, back = 0;
        memset(had, 0, sizeof had);
        while ((p = strstr(p, "lossy ")) != NULL) {
            int n = atoi(p + 6);
            CBT_CHECK(n >= 0 && n < 200 && !had[n]);
            had[n] = true;
            back += n < last;
            last = n;
            p++;
        }
        CBT_CHECK(back > 5);
    }
    joined_end(j);
    free(j);
}

static void rpc_restart_waits_until_closed_was_seen(void)
{
    lone *l = (lone *)malloc(sizeof *l);
    cb_sink k;
    number a;
    told t;
    CBT_REQUIRE(l != NULL && lone_init(l, NULL));
    memset(&t, 0, sizeof t);
    k = l->s.out;
    a.n = 1;
    t.restart = &k;
    t.recall = &l->s;
    CBT_CHECK(calc_add(&l->s, &a, on_number, &t) == CB_RPC_OK);
    cb_rpc_end(&l->s, CB_RPC_E_CUT, NULL);
    CBT_EQ(lone_idle(l, 0), CB_RPC_CLOSED);
    CBT_CHECK(t.count == 1 && t.recall_said == CB_RPC_E_STATE);
    CBT_CHECK(cb_rpc_session_restart(&l->s, &k) == CB_RPC_OK);
    lone_end(l);
    free(l);
}

static void rpc_handler_may_close_after_it_took_a_token(void)
{
    joined *j = (joined *)malloc(sizeof *j);
    number a;
    told t;
    CBT_REQUIRE(j != NULL && joined_init(j, NULL, NULL));
    memset(&t, 0, sizeof t);
    j->v.close_late = true; /* and returns OK, which is ignored then */
    a.n = 1;
    CBT_CHECK(calc_late(&j->pair.a, &a, on_number, &t) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_pair_run(&j->pair, 0) == CB_RPC_OK);
    CBT_CHECK(j->v.token.id != 0 && !cb_rpc_token_is_waiting(j->v.token));
    CBT_EQ(t.count, 0);
    joined_end(j);
    free(j);
}

static void rpc_message_that_was_used_is_not_asked_for_again(void)
{
    lone *l = (lone *)malloc(sizeof *l);
    cb_rpc_session_desc sd;
    cb_rpc_session s;
    cb_slice message;
    CBT_REQUIRE(l != NULL && lone_init(l, NULL));
    memset(&sd, 0, sizeof sd);
    sd.sink = l->s.out;
    sd.is_message_based = true;
    CBT_REQUIRE(cb_rpc_session_init(&s, &l->hub, &sd) == CB_RPC_OK);
    l->out.room_soft = l->out.room_hard = 0; /* our hello does not leave yet */
    message.data = (const uint8_t *)"\x14\x01\x00\x00\x00"; /* an event that has overtaken their hello */
    message.size = 5;
    CBT_EQ(cb_rpc_drive_message(&s, message, 0), CB_RPC_NEED_INPUT);
    CBT_EQ(cb_rpc_hub_events_dropped(&l->hub), 1);
    message.size = 0;
    CBT_EQ(cb_rpc_drive_message(&s, message, 0), CB_RPC_NEED_OUTPUT);
    CBT_CHECK(cb_rpc_session_deinit(&s) == CB_RPC_OK);
    lone_end(l);
    free(l);
}

static int layout_hashes;
static uint64_t counted_layout_hash(void)
{
    layout_hashes++;
    return 1;
}

static void rpc_hello_costs_no_hashing_of_our_layouts(void)
{
    uint8_t in[3000], *p = in + 3;
    lone *l = (lone *)malloc(sizeof *l);
    cb_rpc_type type = next_number;
    cb_rpc_row row = next_add;
    cb_rpc_slot slot;
    cb_rpc_contract contract = { "counted", NULL, 1 };
    cb_rpc_session_desc sd;
    cb_rpc_hub_desc d;
    unsigned i;
    CBT_REQUIRE(l != NULL);
    memset(l, 0, sizeof *l);
    memset(&d, 0, sizeof d);
    memset(&sd, 0, sizeof sd);
    type.layout_hash = counted_layout_hash;
    row.args = row.reply = &type;
    slot.row = &row;
    slot.handler_at = 0;
    contract.slots = &slot;
    d.contract = &contract;
    sd.sink = tap_sink(&l->out);
    CBT_REQUIRE(cb_rpc_hub_init(&l->hub, &d) == CB_RPC_OK);
    CBT_REQUIRE(cb_rpc_session_init(&l->s, &l->hub, &sd) == CB_RPC_OK);
    memcpy(p, "cbr\1\0\x80\x20\x05\xc8\1", 10); /* 200 methods, each with the name calc_add */
    p += 10;
    for (i = 1; i <= 200; i++) {
        if (i < 64) {
            *p++ = (uint8_t)(2 * i + 1);
        } else {
            *p++ = (uint8_t)((2 * i + 1) | 128u);
            *p++ = (uint8_t)((2 * i + 1) >> 7);
        }
        memcpy(p, "\x68\x35\x3a\xb8\0\0\0\0", 8);
        p += 8;
    }
    in[0] = (uint8_t)((size_t)(p - in - 2) | 128u);
    in[1] = (uint8_t)((size_t)(p - in - 2) >> 7);
    in[2] = 0;
    layout_hashes = 0;
    CBT_EQ(lone_feed(l, in, (size_t)(p - in)), CB_RPC_NEED_INPUT);
    CBT_CHECK(l->s.peer != NULL);
    CBT_EQ(layout_hashes, 0);
    CBT_CHECK(cb_rpc_session_deinit(&l->s) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_hub_deinit(&l->hub) == CB_RPC_OK);
    free(l);
}

static void rpc_pair_refuses_sizes_out_of_range(void)
{
    joined *j = (joined *)malloc(sizeof *j);
    cb_rpc_pair_desc pd;
    cb_rpc_pair pair;
    CBT_REQUIRE(j != NULL && joined_init(j, NULL, NULL));
    memset(&pd, 0, sizeof pd);
    pd.cut_max = SIZE_MAX;
    CBT_CHECK(cb_rpc_pair_init(&pair, &j->hub, &j->hub, &pd) == CB_RPC_E_ARG);
    pd.cut_max = 0;
    pd.bytes_max = SIZE_MAX;
    CBT_CHECK(cb_rpc_pair_init(&pair, &j->hub, &j->hub, &pd) == CB_RPC_E_ARG);
    cb_rpc_pair_deinit(&pair);
    joined_end(j);
    free(j);
}

static void rpc_pair_is_kept_inside_its_own_handlers(void)
{
    joined *j = (joined *)malloc(sizeof *j);
    number a;
    told t;
    CBT_REQUIRE(j != NULL && joined_init(j, NULL, NULL));
    memset(&t, 0, sizeof t);
    j->v.deinit_pair = &j->pair;
    a.n = 1;
    CBT_CHECK(calc_add(&j->pair.a, &a, on_number, &t) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_pair_run(&j->pair, 0) == CB_RPC_OK);
    CBT_CHECK(t.count == 1 && t.n == 2);
    joined_end(j);
    free(j);
}

static void rpc_pair_leaves_a_message_alone_while_it_is_read(void)
{
    joined *j = (joined *)malloc(sizeof *j);
    cb_rpc_pair_desc pd;
    number a;
    CBT_REQUIRE(j != NULL);
    memset(&pd, 0, sizeof pd);
    pd.is_message_based = true;
    pd.reorder_percent = 100;
    CBT_REQUIRE(joined_init(j, NULL, &pd));
    CBT_CHECK(cb_rpc_pair_run(&j->pair, 0) == CB_RPC_OK);
    j->v.echo_lossy = &j->pair.a; /* the handler of 1 sends 2 on the very lane that 1 came by */
    a.n = 1;
    CBT_CHECK(calc_lossy(&j->pair.a, &a) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_pair_run(&j->pair, 0) == CB_RPC_OK);
    CBT_STR(j->v.log, "lossy 1;lossy 2;");
    joined_end(j);
    free(j);
}

static void rpc_unreliable_before_the_hello_is_dropped_and_counted(void)
{
    lone *l = (lone *)malloc(sizeof *l);
    cb_rpc_session_desc sd;
    cb_rpc_event e;
    cb_slice m;
    uint8_t h[128];
    size_t n = hello(h);
    CBT_REQUIRE(l != NULL && lone_init(l, NULL));
    CBT_CHECK(cb_rpc_session_deinit(&l->s) == CB_RPC_OK);
    memset(&sd, 0, sizeof sd);
    sd.sink = tap_sink(&l->out);
    sd.is_message_based = true;
    CBT_REQUIRE(cb_rpc_session_init(&l->s, &l->hub, &sd) == CB_RPC_OK);
    m.data = (const uint8_t *)"\x14\x01\x00\x00\x00"; /* calc_lossy */
    m.size = 5;
    CBT_CHECK(cb_rpc_next_message(&l->s, m, 0, &e) == CB_RPC_NEED_INPUT);
    CBT_EQ(l->hub.events_dropped, 1);
    m.data = h + 1; /* no length on a message */
    m.size = n - 1;
    CBT_CHECK(cb_rpc_next_message(&l->s, m, 0, &e) == CB_RPC_OK && e.kind == CB_RPC_EVENT_HELLO);
    m.data = (const uint8_t *)"\x14\x01\x00\x00\x00";
    m.size = 5;
    CBT_CHECK(cb_rpc_next_message(&l->s, m, 0, &e) == CB_RPC_OK && e.kind == CB_RPC_EVENT_ONE_WAY);
    lone_end(l);
    free(l);
}

/* ================================ memory ================================ */
/* One of everything; returns whether all went as without failing allocations. */
static bool everything(joined *j)
{
    static blob b;
    cb_rpc_future f;
    number a, reply;
    told t;
    bool ok;
    memset(&t, 0, sizeof t);
    memset(&f, 0, sizeof f);
    a.n = 1;
    b.data_size = 20000; /* more than a piece */
    ok = calc_add(cb_rpc_with_timeout(&j->pair.a, 1000), &a, on_number, &t) == CB_RPC_OK;
    ok = calc_late_future(cb_rpc_with_timeout(&j->pair.a, 1000), &a, &reply, &f) == CB_RPC_OK && ok;
    ok = calc_echo(&j->pair.a, &b, NULL, NULL) == CB_RPC_OK && ok;
    ok = cb_rpc_pair_run(&j->pair, 0) == CB_RPC_OK && ok;
    ok = calc_late_answer(j->v.token, &a) == CB_RPC_OK && ok;
    ok = cb_rpc_pair_run(&j->pair, 0) == CB_RPC_OK && ok;
    cb_rpc_pair_cut(&j->pair);
    (void)cb_rpc_pair_run(&j->pair, 0);
    CBT_CHECK(f.state == CB_RPC_FUTURE_DONE);
    return ok && t.status == CB_RPC_OK && f.status == CB_RPC_OK && j->v.echoes == 1;
}

static void rpc_survives_each_failing_allocation(void)
{
    size_t k;
    bool whole = false;
    for (k = 1; !whole && k < 100; k++) {
        joined *j = (joined *)malloc(sizeof *j);
        cb_rpc_hub_desc d;
        cb_rpc_pair_desc p;
        CBT_REQUIRE(j != NULL);
        memset(j, 0, sizeof *j);
        hub_desc(&d, &j->v, &j->mem);
        j->mem.fail_at = k;
        memset(&p, 0, sizeof p);
        p.alloc = d.alloc;
        if (cb_rpc_hub_init(&j->hub, &d) == CB_RPC_OK) {
            if (cb_rpc_pair_init(&j->pair, &j->hub, &j->hub, &p) == CB_RPC_OK) {
                whole = everything(j) && j->mem.calls < k;
            }
            joined_end(j);
        }
        CBT_EQ(j->mem.live_bytes, 0);
        free(j);
    }
    CBT_CHECK(whole && k > 10);
}

static void rpc_takes_no_memory_once_warm(void)
{
    static blob b;
    joined *j = (joined *)malloc(sizeof *j);
    cb_rpc_future f;
    uint64_t mallocs = 0;
    number a, reply;
    note e;
    told t;
    size_t calls = 0;
    int i;
    CBT_REQUIRE(j != NULL && joined_init(j, NULL, NULL));
    memset(&t, 0, sizeof t);
    memset(&e, 0, sizeof e);
    a.n = 1;
    b.data_size = 20000;
    for (i = 0; i < 300; i++) {
        if (i == 100) {
            calls = j->mem.calls;
            mallocs = cbt_malloc_calls();
        }
        CBT_CHECK(calc_add(cb_rpc_with_timeout(&j->pair.a, 1000000), &a, on_number, &t) == CB_RPC_OK);
        CBT_CHECK(calc_late_future(&j->pair.a, &a, &reply, &f) == CB_RPC_OK);
        CBT_CHECK(calc_note(&j->pair.b, &e) == CB_RPC_OK);
        CBT_CHECK(calc_echo(&j->pair.a, &b, NULL, NULL) == CB_RPC_OK);
        (void)cb_rpc_pair_run(&j->pair, (uint64_t)i);
        CBT_CHECK(calc_late_answer(j->v.token, &a) == CB_RPC_OK);
        (void)cb_rpc_pair_run(&j->pair, (uint64_t)i);
        CBT_CHECK(f.state == CB_RPC_FUTURE_DONE && f.status == CB_RPC_OK);
        j->v.log[0] = '\0';
    }
    CBT_EQ(j->mem.calls, calls);
#if CBT_MALLOC_COUNTED
    CBT_EQ(cbt_malloc_calls(), mallocs);
#else
    (void)mallocs;
#endif
    joined_end(j);
    free(j);
}

static void rpc_driver_of_next_answers_by_event_tokens(void)
{
    uint8_t h[128];
    lone *l = (lone *)malloc(sizeof *l);
    uint8_t call[7] = { 0x06, 0x10, 0x00, 5, 0, 0, 0 };
    cb_rpc_event e;
    cb_rpc_token token;
    cb_span in;
    number a;
    CBT_REQUIRE(l != NULL && lone_init(l, NULL));
    in.data = h;
    in.size = hello(h);
    CBT_CHECK(cb_rpc_next(&l->s, &in, 0, &e) == CB_RPC_OK && e.kind == CB_RPC_EVENT_HELLO);
    in.data = call;
    in.size = 7;
    CBT_CHECK(cb_rpc_next(&l->s, &in, 0, &e) == CB_RPC_OK && e.kind == CB_RPC_EVENT_CALL);
    CBT_EQ(e.row->number, calc_add_number);
    CBT_EQ(e.body.size, 4);
    CBT_CHECK(e.deadline_ns == CB_RPC_NEVER);
    token = cb_rpc_event_token(&l->s, &e);
    CBT_CHECK(cb_rpc_next(&l->s, &in, 0, &e) == CB_RPC_NEED_INPUT);
    l->out.size = 0;
    a.n = 6;
    CBT_CHECK(calc_add_answer(token, &a) == CB_RPC_OK);
    CBT_MEM(l->out.bytes, "\x06\x01\x00\x06\x00\x00\x00", 7);
    CBT_EQ(l->v.adds, 0); /* no handler ran */
    lone_end(l);
    free(l);
}

/* =============================== over cb_loop.h =============================== */
#ifdef TEST_RPC_LOOP
typedef struct served {
    cb_loop loop;
    service v;
    cb_rpc_hub server, client;
    cb_rpc_session s;
    char url[64];
    int ups, downs, closed;
    cb_rpc_status why;
    char reason[256];
} served;

static served *served_now; /* the notices of both hubs carry the service; this is the test that runs */

static void on_up(void *user, cb_rpc_session *s)
{
    (void)user;
    served_now->ups += s == &served_now->s;
}

static void on_down(void *user, cb_rpc_session *s, const cb_rpc_result *why)
{
    (void)user;
    if (s == &served_now->s) {
        served_now->downs++;
        served_now->why = why->status;
        snprintf(served_now->reason, sizeof served_now->reason, "%s", why->reason);
    }
}

static void on_session_closed(void *user, cb_rpc_session *s)
{
    (void)user;
    served_now->closed += s == &served_now->s;
    memset(s, 0xdb, sizeof *s); /* it is ours again */
}

static bool served_serve(served *x, const char *url)
{
    cb_rpc_hub_desc d;
    cb_loop_address at;
    char text[56];
    hub_desc(&d, &x->v, NULL);
    d.url = url;
    if (cb_rpc_serve(&x->server, &x->loop, &d) != CB_RPC_OK || cb_rpc_serve_address(&x->server, &at) != CB_RPC_OK) {
        return false;
    }
    snprintf(x->url, sizeof x->url, "tcp://%s", cb_loop_address_str(&at, text, sizeof text));
    return true;
}

static bool served_client(served *x)
{
    cb_rpc_hub_desc d;
    memset(&d, 0, sizeof d);
    calc_bind(&d, &handlers, &x->v);
    d.on_up = on_up;
    d.on_down = on_down;
    d.on_closed = on_session_closed;
    d.redial_ns_min = 1000000;
    d.redial_ns_max = 4000000;
    return cb_rpc_hub_init(&x->client, &d) == CB_RPC_OK;
}

static bool served_init(served *x)
{
    memset(x, 0, sizeof *x);
    served_now = x;
    return cb_loop_init(&x->loop, NULL) == CB_LOOP_OK && served_serve(x, "tcp://127.0.0.1:0") && served_client(x)
        && cb_rpc_connect(&x->client, &x->loop, &x->s, x->url) == CB_RPC_OK;
}

/* Steps until the condition holds; 10 s are more than any machine needs. */
#define STEP_UNTIL(x, condition) \
    do { \
        uint64_t step_end_ = cb_loop_now(&(x)->loop) + UINT64_C(10000000000); \
        while (!(condition) && cb_loop_now(&(x)->loop) < step_end_) { \
            CBT_CHECK(cb_loop_step(&(x)->loop, 1000000) == CB_LOOP_OK); \
        } \
        CBT_CHECK(condition); \
    } while (0)

static void served_end(served *x)
{
    cb_loop_deinit(&x->loop);
    CBT_CHECK(cb_rpc_hub_deinit(&x->client) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_hub_deinit(&x->server) == CB_RPC_OK);
}

static void rpc_loop_serves_calls_made_before_the_connection_is_up(void)
{
    served *x = (served *)malloc(sizeof *x);
    cb_rpc_future f;
    number a, reply;
    told t;
    CBT_REQUIRE(x != NULL && served_init(x));
    memset(&t, 0, sizeof t);
    a.n = 1;
    CBT_CHECK(calc_add(&x->s, &a, on_number, &t) == CB_RPC_OK);
    CBT_CHECK(calc_add_future(&x->s, &a, &reply, &f) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_wait(&x->loop, &f, UINT64_C(10000000000)) == CB_RPC_OK);
    CBT_EQ(reply.n, 2);
    CBT_EQ(t.n, 2);
    CBT_EQ(x->ups, 1);
    CBT_CHECK(cb_rpc_wait(&x->loop, &f, 0) == CB_RPC_OK); /* final already */
    cb_rpc_close(&x->s);
    STEP_UNTIL(x, x->closed == 1);
    CBT_EQ(x->downs, 1);
    CBT_EQ(x->why, CB_RPC_E_CLOSED);
    served_end(x);
    free(x);
}

static void rpc_loop_carries_messages_longer_than_any_buffer(void)
{
    served *x = (served *)malloc(sizeof *x);
    static blob b, reply;
    cb_rpc_future f[8];
    int i;
    CBT_REQUIRE(x != NULL && served_init(x));
    for (b.data_size = 0; b.data_size < 70000; b.data_size++) {
        b.data[b.data_size] = (uint8_t)(b.data_size * 31u);
    }
    for (i = 0; i < 8; i++) {
        CBT_CHECK(calc_echo_future(&x->s, &b, &reply, &f[i]) == CB_RPC_OK);
    }
    for (i = 0; i < 8; i++) {
        CBT_CHECK(cb_rpc_wait(&x->loop, &f[i], UINT64_C(20000000000)) == CB_RPC_OK);
        CBT_CHECK(blob_equal(&b, &reply));
    }
    served_end(x);
    CBT_EQ(x->closed, 1);
    free(x);
}

static cb_rpc_status waited;
static void wait_in_a_callback(void *user, cb_loop_timer *timer, uint64_t now_ns)
{
    served *x = (served *)user;
    number a, reply;
    cb_rpc_future f;
    (void)timer;
    (void)now_ns;
    a.n = 1;
    CBT_CHECK(calc_add_future(&x->s, &a, &reply, &f) == CB_RPC_OK);
    waited = cb_rpc_wait(&x->loop, &f, 1000);
    cb_rpc_future_cancel(&f);
}

static void rpc_loop_wait_times_out_and_is_refused_in_callbacks(void)
{
    served *x = (served *)malloc(sizeof *x);
    cb_loop_timer timer;
    cb_rpc_future f;
    number a, reply;
    CBT_REQUIRE(x != NULL && served_init(x));
    memset(&f, 0, sizeof f);
    CBT_CHECK(cb_rpc_wait(&x->loop, &f, 1000) == CB_RPC_E_STATE); /* never called */
    a.n = 1;
    CBT_CHECK(calc_late_future(&x->s, &a, &reply, &f) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_wait(&x->loop, &f, 20000000) == CB_RPC_E_TIMEOUT);
    CBT_CHECK(f.state == CB_RPC_FUTURE_DONE && f.status == CB_RPC_E_TIMEOUT);
    CBT_STR(f.reason, "the time for it has passed");
    STEP_UNTIL(x, x->v.lates == 1 && !cb_rpc_token_is_waiting(x->v.token)); /* the cancel arrives there too */
    waited = CB_RPC_OK;
    cb_loop_timer_init(&timer, wait_in_a_callback, x);
    CBT_CHECK(cb_loop_timer_start(&x->loop, &timer, 0) == CB_LOOP_OK);
    STEP_UNTIL(x, waited != CB_RPC_OK);
    CBT_EQ(waited, CB_RPC_E_BUSY);
    served_end(x);
    free(x);
}

static void rpc_loop_deadline_fires_without_traffic(void)
{
    served *x = (served *)malloc(sizeof *x);
    number a;
    told t;
    CBT_REQUIRE(x != NULL && served_init(x));
    memset(&t, 0, sizeof t);
    a.n = 1;
    CBT_CHECK(calc_late(cb_rpc_with_timeout(&x->s, 5000000), &a, on_number, &t) == CB_RPC_OK);
    STEP_UNTIL(x, t.count == 1);
    CBT_EQ(t.status, CB_RPC_E_TIMEOUT);
    CBT_CHECK(calc_late(&x->s, &a, on_number, &t) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_call_cancel(&x->s, cb_rpc_last_call(&x->s)) == CB_RPC_OK); /* told from a later pass */
    CBT_EQ(t.count, 1);
    STEP_UNTIL(x, t.count == 2);
    CBT_EQ(t.status, CB_RPC_E_CANCELLED);
    served_end(x);
    free(x);
}

static void rpc_loop_redials_and_keeps_the_session(void)
{
    served *x = (served *)malloc(sizeof *x);
    cb_rpc_future f;
    char url[64];
    number a, reply;
    told t;
    CBT_REQUIRE(x != NULL && served_init(x));
    memset(&t, 0, sizeof t);
    a.n = 1;
    snprintf(url, sizeof url, "%s", x->url);
    CBT_CHECK(calc_late(&x->s, &a, on_number, &t) == CB_RPC_OK);
    STEP_UNTIL(x, x->v.lates == 1);
    cb_rpc_unserve(&x->server); /* the server goes in mid-call */
    STEP_UNTIL(x, t.count == 1 && x->downs >= 2); /* once the connection, then at least one dial that failed */
    CBT_CHECK(t.status < 0);
    CBT_EQ(x->why, CB_RPC_E_CONNECT);
    CBT_CHECK(strstr(x->reason, "refused") != NULL);
    memset(&f, 0, sizeof f);
    CBT_CHECK(cb_rpc_hub_deinit(&x->server) == CB_RPC_OK); /* nothing of it is left */
    CBT_REQUIRE(served_serve(x, url));
    STEP_UNTIL(x, x->ups == 2);
    CBT_CHECK(calc_add_future(&x->s, &a, &reply, &f) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_wait(&x->loop, &f, UINT64_C(10000000000)) == CB_RPC_OK);
    CBT_EQ(reply.n, 2);
    served_end(x);
    CBT_EQ(x->closed, 1);
    free(x);
}

static void rpc_loop_close_while_down_gives_the_session_back(void)
{
    served *x = (served *)malloc(sizeof *x);
    cb_rpc_future f;
    number a;
    CBT_REQUIRE(x != NULL);
    memset(x, 0, sizeof *x);
    served_now = x;
    CBT_REQUIRE(cb_loop_init(&x->loop, NULL) == CB_LOOP_OK && served_serve(x, "tcp://127.0.0.1:0") && served_client(x));
    cb_rpc_unserve(&x->server);
    STEP_UNTIL(x, cb_rpc_hub_deinit(&x->server) == CB_RPC_OK); /* its port is closed now */
    CBT_CHECK(cb_rpc_connect(&x->client, &x->loop, &x->s, x->url) == CB_RPC_OK);
    a.n = 1;
    CBT_CHECK(calc_add_future(&x->s, &a, &a, &f) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_wait(&x->loop, &f, UINT64_C(10000000000)) == CB_RPC_E_CONNECT);
    CBT_CHECK(strstr(f.reason, "refused") != NULL);
    STEP_UNTIL(x, x->downs >= 1);
    if (calc_add_future(&x->s, &a, &a, &f) != CB_RPC_OK) { /* between two dials: at once, with the last reason */
        CBT_CHECK(f.status == CB_RPC_E_CLOSED && strstr(f.reason, "refused") != NULL);
    } else {
        cb_rpc_future_cancel(&f);
    }
    cb_rpc_close(&x->s);
    STEP_UNTIL(x, x->closed == 1);
    served_end(x);
    free(x);
}

static void rpc_loop_says_why_it_cannot_serve_or_dial(void)
{
    served *x = (served *)malloc(sizeof *x);
    cb_rpc_hub_desc d;
    cb_rpc_hub second;
    cb_rpc_session s;
    CBT_REQUIRE(x != NULL && served_init(x));
    hub_desc(&d, &x->v, NULL);
    d.url = x->url;
    CBT_CHECK(cb_rpc_serve(&second, &x->loop, &d) == CB_RPC_E_CONNECT);
    {
        char want[128];
        snprintf(want, sizeof want, "bind %s: address in use", x->url);
        CBT_STR(cb_rpc_serve_reason(&x->loop), want);
    }
    CBT_CHECK(cb_rpc_hub_deinit(&second) == CB_RPC_OK);
    d.url = NULL;
    CBT_CHECK(cb_rpc_serve(&second, &x->loop, &d) == CB_RPC_E_ARG);
    d.url = "nonsense";
    CBT_CHECK(cb_rpc_serve(&second, &x->loop, &d) != CB_RPC_OK);
    CBT_CHECK(cb_rpc_hub_deinit(&second) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_connect(&x->client, &x->loop, &s, "tcp://nowhere") == CB_RPC_E_ARG);
    CBT_CHECK(strstr(cb_loop_reason(&x->loop), "nowhere") != NULL);
    CBT_CHECK(cb_rpc_session_deinit(&s) == CB_RPC_OK);
    served_end(x);
    free(x);
}

static void rpc_loop_peers_that_speak_otherwise_are_dropped(void)
{
    served *x = (served *)malloc(sizeof *x);
    cb_rpc_future f;
    number a, reply;
    cb_loop_stream stream;
    cb_loop_connect_desc d;
    CBT_REQUIRE(x != NULL && served_init(x));
    memset(&d, 0, sizeof d);
    d.url = x->url;
    CBT_CHECK(cb_loop_connect(&x->loop, &stream, &d) == CB_LOOP_OK);
    CBT_EQ(cb_loop_stream_write(&stream, "GET / HTTP/1.1\r\nHost: example.test\r\nUser-Agent: of another protocol altogether\r\n\r\n", 82), 82);
    a.n = 1;
    CBT_CHECK(calc_add_future(&x->s, &a, &reply, &f) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_wait(&x->loop, &f, UINT64_C(10000000000)) == CB_RPC_OK); /* the others do not notice */
    STEP_UNTIL(x, x->server.sessions == 1);
    served_end(x);
    free(x);
}

/* A client whose server has just gone: it has dialled once or more, and waits for its next dial. */
static bool served_between_dials(served *x)
{
    if (!served_init(x)) {
        return false;
    }
    x->client.desc.redial_ns_min = x->client.desc.redial_ns_max = 30000000;
    STEP_UNTIL(x, x->ups == 1);
    cb_rpc_unserve(&x->server);
    STEP_UNTIL(x, x->downs >= 1);
    return cb_loop_step(&x->loop, 0) == CB_LOOP_OK; /* what the break had posted has run */
}

static void rpc_loop_close_counts_although_the_next_dial_is_due(void)
{
    served *x = (served *)malloc(sizeof *x);
    uint64_t until;
    CBT_REQUIRE(x != NULL && served_between_dials(x));
    cb_rpc_close(&x->s);
    until = (uint64_t)clock() + CLOCKS_PER_SEC / 10; /* one pass sees the close and that the pause is over */
    while ((uint64_t)clock() < until) {
    }
    STEP_UNTIL(x, x->closed == 1);
    CBT_EQ(x->downs, 1);
    served_end(x);
    free(x);
}

static void rpc_loop_end_gives_a_session_back_that_waits_for_its_next_dial(void)
{
    served *x = (served *)malloc(sizeof *x);
    CBT_REQUIRE(x != NULL && served_between_dials(x));
    served_end(x);
    CBT_EQ(x->closed, 1);
    free(x);
}

static void rpc_loop_hub_may_go_on_with_another_loop(void)
{
    served *x = (served *)malloc(sizeof *x);
    cb_rpc_future f;
    number a, reply;
    CBT_REQUIRE(x != NULL && served_init(x));
    STEP_UNTIL(x, x->ups == 1);
    cb_rpc_close(&x->s);
    STEP_UNTIL(x, x->closed == 1);
    cb_loop_deinit(&x->loop);
    CBT_CHECK(cb_rpc_hub_deinit(&x->server) == CB_RPC_OK);
    CBT_CHECK(x->client.desc.clock == NULL); /* that of a loop which is gone */
    CBT_REQUIRE(cb_loop_init(&x->loop, NULL) == CB_LOOP_OK && served_serve(x, "tcp://127.0.0.1:0"));
    CBT_REQUIRE(cb_rpc_connect(&x->client, &x->loop, &x->s, x->url) == CB_RPC_OK);
    a.n = 1;
    CBT_CHECK(calc_add_future(cb_rpc_with_timeout(&x->s, UINT64_C(9000000000)), &a, &reply, &f) == CB_RPC_OK);
    CBT_CHECK(cb_rpc_wait(&x->loop, &f, UINT64_C(10000000000)) == CB_RPC_OK);
    served_end(x);
    free(x);
}

static int unserve_ups;
static void on_up_unserve(void *user, cb_rpc_session *s)
{
    (void)user;
    (void)s;
    unserve_ups++;
    cb_rpc_unserve(&served_now->server);
}

/* Connections that one pass accepts: their sessions begin only at its end. */
static void served_dial_raw(served *x, cb_loop_stream *streams, int count)
{
    int i;
    for (i = 0; i < count; i++) {
        cb_loop_connect_desc d;
        memset(&d, 0, sizeof d);
        d.url = x->url;
        CBT_CHECK(cb_loop_connect(&x->loop, &streams[i], &d) == CB_LOOP_OK);
    }
}

static void rpc_loop_unserve_closes_peers_whose_session_has_not_begun(void)
{
    served *x = (served *)malloc(sizeof *x);
    cb_loop_stream streams[4];
    CBT_REQUIRE(x != NULL);
    memset(x, 0, sizeof *x);
    served_now = x;
    unserve_ups = 0;
    CBT_REQUIRE(cb_loop_init(&x->loop, NULL) == CB_LOOP_OK && served_serve(x, "tcp://127.0.0.1:0"));
    x->server.desc.on_up = on_up_unserve;
    served_dial_raw(x, streams, 4);
    STEP_UNTIL(x, cb_rpc_hub_deinit(&x->server) == CB_RPC_OK);
    CBT_EQ(unserve_ups, 1);
    cb_loop_deinit(&x->loop);
    free(x);
}

static uint32_t most_sessions;
static void on_up_count(void *user, cb_rpc_session *s)
{
    (void)user;
    most_sessions = s->hub->sessions > most_sessions ? s->hub->sessions : most_sessions;
}

static void rpc_loop_sessions_max_holds_within_a_pass(void)
{
    served *x = (served *)malloc(sizeof *x);
    cb_loop_stream streams[8];
    CBT_REQUIRE(x != NULL);
    memset(x, 0, sizeof *x);
    served_now = x;
    most_sessions = 0;
    CBT_REQUIRE(cb_loop_init(&x->loop, NULL) == CB_LOOP_OK && served_serve(x, "tcp://127.0.0.1:0"));
    x->server.desc.on_up = on_up_count;
    x->server.desc.sessions_max = 3;
    served_dial_raw(x, streams, 8);
    STEP_UNTIL(x, x->server.sessions != 0);
    CBT_CHECK(cb_loop_step(&x->loop, 1000000) == CB_LOOP_OK);
    CBT_EQ(most_sessions, 3);
    cb_loop_deinit(&x->loop);
    CBT_CHECK(cb_rpc_hub_deinit(&x->server) == CB_RPC_OK);
    free(x);
}

static void rpc_loop_serves_without_an_output_bound(void)
{
    served *x = (served *)malloc(sizeof *x);
    cb_rpc_hub_desc d;
    CBT_REQUIRE(x != NULL);
    memset(x, 0, sizeof *x);
    CBT_REQUIRE(cb_loop_init(&x->loop, NULL) == CB_LOOP_OK);
    hub_desc(&d, &x->v, NULL);
    d.url = "tcp://127.0.0.1:0";
    d.output_bytes_soft = SIZE_MAX;
    CBT_CHECK(cb_rpc_serve(&x->server, &x->loop, &d) == CB_RPC_OK);
    cb_loop_deinit(&x->loop);
    CBT_CHECK(cb_rpc_hub_deinit(&x->server) == CB_RPC_OK);
    free(x);
}

#if defined(__linux__) /* a full queue of a listener leaves who dials unanswered there */
static void rpc_loop_time_for_the_hello_begins_with_the_connection(void)
{
    served *x = (served *)malloc(sizeof *x);
    struct sockaddr_in at;
    socklen_t size = (socklen_t)sizeof at;
    int listener, fill[3], i;
    number a;
    told t;
    CBT_REQUIRE(x != NULL);
    memset(x, 0, sizeof *x);
    memset(&t, 0, sizeof t);
    served_now = x;
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    CBT_REQUIRE(listener >= 0 && bind(listener, (struct sockaddr *)(void *)&at, size) == 0);
    CBT_REQUIRE(listen(listener, 0) == 0 && getsockname(listener, (struct sockaddr *)(void *)&at, &size) == 0);
    for (i = 0; i < 3; i++) {
        fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(fill[i], (struct sockaddr *)(void *)&at, size);
    }
    snprintf(x->url, sizeof x->url, "tcp://127.0.0.1:%u", (unsigned)ntohs(at.sin_port));
    CBT_REQUIRE(cb_loop_init(&x->loop, NULL) == CB_LOOP_OK && served_client(x));
    x->client.desc.hello_ns = 1000000;
    CBT_CHECK(cb_rpc_connect(&x->client, &x->loop, &x->s, x->url) == CB_RPC_OK);
    a.n = 1;
    CBT_CHECK(calc_add(cb_rpc_with_timeout(&x->s, 50000000), &a, on_number, &t) == CB_RPC_OK);
    STEP_UNTIL(x, t.count == 1); /* its own time has passed, and the dial goes on */
    CBT_STR(t.reason, "the time for it has passed");
    CBT_EQ(x->downs, 0);
    cb_loop_deinit(&x->loop);
    CBT_CHECK(cb_rpc_hub_deinit(&x->client) == CB_RPC_OK);
    for (i = 0; i < 3; i++) {
        (void)close(fill[i]);
    }
    (void)close(listener);
    free(x);
}
#endif

static void rpc_loop_frame_that_only_was_announced_takes_little_memory(void)
{
    served *x = (served *)malloc(sizeof *x);
    cbt_mem mem;
    cb_loop_desc ld;
    cb_loop_stream stream;
    cb_loop_connect_desc d;
    CBT_REQUIRE(x != NULL);
    memset(x, 0, sizeof *x);
    memset(&mem, 0, sizeof mem);
    memset(&ld, 0, sizeof ld);
    memset(&d, 0, sizeof d);
    ld.alloc.alloc = cbt_mem_alloc;
    ld.alloc.release = cbt_mem_release;
    ld.alloc.user = &mem;
    CBT_REQUIRE(cb_loop_init(&x->loop, &ld) == CB_LOOP_OK && served_serve(x, "tcp://127.0.0.1:0"));
    d.url = x->url;
    CBT_CHECK(cb_loop_connect(&x->loop, &stream, &d) == CB_LOOP_OK);
    CBT_EQ(cb_loop_stream_write(&stream, "\x80\x80\x80\x04\x00", 5), 5); /* 8 MiB are to come, and never do */
    STEP_UNTIL(x, x->server.sessions == 1);
    CBT_CHECK(cb_loop_step(&x->loop, 1000000) == CB_LOOP_OK);
    CBT_EQ(cb_loop_stream_write(&stream, "", 1), 1);
    CBT_CHECK(cb_loop_step(&x->loop, 1000000) == CB_LOOP_OK);
    CBT_CHECK(cb_loop_step(&x->loop, 1000000) == CB_LOOP_OK);
    CBT_CHECK(mem.live_bytes < 2000000u);
    CBT_EQ(x->server.sessions, 1);
    cb_loop_deinit(&x->loop);
    CBT_CHECK(cb_rpc_hub_deinit(&x->server) == CB_RPC_OK);
    free(x);
}

static void rpc_loop_takes_no_memory_once_warm(void)
{
    served *x = (served *)malloc(sizeof *x);
    uint64_t mallocs = 0;
    int i, k;
    CBT_REQUIRE(x != NULL && served_init(x));
    for (i = 0; i < 60; i++) {
        cb_rpc_future f[16];
        number a, reply;
        note e;
        memset(&e, 0, sizeof e);
        a.n = 100 + i;
        if (i == 20) {
            mallocs = cbt_malloc_calls();
        }
        for (k = 0; k < 16; k++) {
            CBT_CHECK(calc_add_future(cb_rpc_with_timeout(&x->s, UINT64_C(60000000000)), &a, &reply, &f[k]) == CB_RPC_OK);
            CBT_CHECK(calc_note(&x->s, &e) == CB_RPC_OK);
        }
        for (k = 0; k < 16; k++) {
            CBT_EQ(cb_rpc_wait(&x->loop, &f[k], UINT64_C(10000000000)), CB_RPC_OK);
        }
        x->v.log[0] = '\0';
    }
#if CBT_MALLOC_COUNTED
    CBT_EQ(cbt_malloc_calls(), mallocs);
#else
    (void)mallocs;
#endif
    served_end(x);
    free(x);
}
#endif /* TEST_RPC_LOOP */

static const cbt_case cases[] = {
    CBT_CASE(rpc_wire_small_call_and_answer_take_seven_bytes_each),
    CBT_CASE(rpc_wire_deadline_cancel_refusal_and_event_are_as_documented),
    CBT_CASE(rpc_wire_high_method_number_takes_two_bytes),
    CBT_CASE(rpc_next_gives_the_same_events_byte_by_byte),
    CBT_CASE(rpc_next_gives_the_same_events_at_every_split),
    CBT_CASE(rpc_next_refuses_every_broken_frame_with_a_reason),
    CBT_CASE(rpc_next_refuses_every_broken_hello),
    CBT_CASE(rpc_frame_limit_holds_at_its_edges_and_before_the_bytes_come),
    CBT_CASE(rpc_send_limit_is_the_smaller_of_both_sides),
    CBT_CASE(rpc_call_answers_receivers_and_futures),
    CBT_CASE(rpc_call_survives_every_cut_pattern),
    CBT_CASE(rpc_late_answer_comes_through_its_token_once),
    CBT_CASE(rpc_token_is_stale_after_its_peer_has_gone),
    CBT_CASE(rpc_disconnect_tells_every_open_call_exactly_once),
    CBT_CASE(rpc_deadline_reaches_both_sides_and_frees_the_entry),
    CBT_CASE(rpc_answer_timeout_bounds_late_answers_of_callers_without_deadline),
    CBT_CASE(rpc_deadlines_fire_in_order_whatever_the_order_of_calls),
    CBT_CASE(rpc_cancel_crosses_an_answer_without_harm),
    CBT_CASE(rpc_cancel_inside_another_receiver_and_of_itself),
    CBT_CASE(rpc_call_ids_of_old_calls_are_stale),
    CBT_CASE(rpc_handler_returns_become_failure_kinds),
    CBT_CASE(rpc_close_inside_a_handler_is_deferred_and_its_answer_dropped),
    CBT_CASE(rpc_drive_inside_a_handler_takes_nothing),
    CBT_CASE(rpc_future_is_the_callers_once_cancelled_between_next_and_dispatch),
    CBT_CASE(rpc_clean_end_lets_late_answers_out),
    CBT_CASE(rpc_late_calls_of_a_peer_that_ended_are_given_up),
    CBT_CASE(rpc_close_cancels_its_open_calls_at_the_peer),
    CBT_CASE(rpc_peer_that_says_no_hello_is_given_up),
    CBT_CASE(rpc_session_restarts_after_it_closed),
    CBT_CASE(rpc_calls_waiting_limit_refuses_busy_before_the_method_runs),
    CBT_CASE(rpc_calls_open_limit_refuses_and_recovers),
    CBT_CASE(rpc_output_bounds_refuse_new_calls_and_let_answers_pass),
    CBT_CASE(rpc_call_whose_answer_may_not_fit_waits_above_the_soft_bound),
    CBT_CASE(rpc_answer_beyond_the_hard_bound_ends_the_session),
    CBT_CASE(rpc_answer_too_long_for_the_caller_is_said_so),
    CBT_CASE(rpc_hub_init_refuses_contradictions),
    CBT_CASE(rpc_hello_maps_methods_of_another_release),
    CBT_CASE(rpc_layout_difference_is_told_in_words),
    CBT_CASE(rpc_texts_of_the_peer_are_bounded_and_printable),
    CBT_CASE(rpc_texts_are_cut_between_characters_and_hold_only_text),
    CBT_CASE(rpc_unreadable_arguments_are_answered_and_unreadable_events_counted),
    CBT_CASE(rpc_peer_tables_are_shared_by_equal_hellos_and_freed),
    CBT_CASE(rpc_pair_delays_loses_and_reorders),
    CBT_CASE(rpc_restart_waits_until_closed_was_seen),
    CBT_CASE(rpc_handler_may_close_after_it_took_a_token),
    CBT_CASE(rpc_message_that_was_used_is_not_asked_for_again),
    CBT_CASE(rpc_hello_costs_no_hashing_of_our_layouts),
    CBT_CASE(rpc_pair_refuses_sizes_out_of_range),
    CBT_CASE(rpc_pair_is_kept_inside_its_own_handlers),
    CBT_CASE(rpc_pair_leaves_a_message_alone_while_it_is_read),
    CBT_CASE(rpc_unreliable_before_the_hello_is_dropped_and_counted),
    CBT_CASE(rpc_survives_each_failing_allocation),
    CBT_CASE(rpc_takes_no_memory_once_warm),
    CBT_CASE(rpc_driver_of_next_answers_by_event_tokens),
#ifdef TEST_RPC_LOOP
    CBT_CASE(rpc_loop_serves_calls_made_before_the_connection_is_up),
    CBT_CASE(rpc_loop_carries_messages_longer_than_any_buffer),
    CBT_CASE(rpc_loop_wait_times_out_and_is_refused_in_callbacks),
    CBT_CASE(rpc_loop_deadline_fires_without_traffic),
    CBT_CASE(rpc_loop_redials_and_keeps_the_session),
    CBT_CASE(rpc_loop_close_while_down_gives_the_session_back),
    CBT_CASE(rpc_loop_says_why_it_cannot_serve_or_dial),
    CBT_CASE(rpc_loop_peers_that_speak_otherwise_are_dropped),
    CBT_CASE(rpc_loop_close_counts_although_the_next_dial_is_due),
    CBT_CASE(rpc_loop_end_gives_a_session_back_that_waits_for_its_next_dial),
    CBT_CASE(rpc_loop_hub_may_go_on_with_another_loop),
    CBT_CASE(rpc_loop_unserve_closes_peers_whose_session_has_not_begun),
    CBT_CASE(rpc_loop_sessions_max_holds_within_a_pass),
    CBT_CASE(rpc_loop_serves_without_an_output_bound),
#if defined(__linux__)
    CBT_CASE(rpc_loop_time_for_the_hello_begins_with_the_connection),
#endif
    CBT_CASE(rpc_loop_frame_that_only_was_announced_takes_little_memory),
    CBT_CASE(rpc_loop_takes_no_memory_once_warm),
#endif
};

int main(int argc, char **argv)
{
    return cbt_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
