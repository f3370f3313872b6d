/* fuzz_rpc.c - one session of cb_rpc.h against any peer.
 *
 * The first four bytes choose the mode (see `mode_` below), then each byte chooses a step: bytes of the peer, raw or built as
 * a frame, time passing, calls of ours, answers to the peer's, a full sink, the end. After every step the promises of the header
 * are checked: each call is told once, each future and token ends once, errors stay, what is sent can be read as frames, each
 * call of the peer is answered once, and at last CLOSED and no memory is left. One allocation may fail.
 *
 * parser: ^cbi_rpc_(read_|take_frame|rows_read|get_varu|in_varu|answered|field_read|layout_reason|text_difference|entry_of|peer_get)
 */
#define CB_CODEC_IMPLEMENTATION
#include "cb_codec.h"
#define CB_RPC_IMPLEMENTATION
#include "cb_rpc.h"
#include "tests/support/cbt.h"

#define NUMBER(F) F(i32, n)
CB_CODEC_SCHEMA(number, NUMBER)
#define NOTE(F) F(text, said, 24) F(opt, at, u16)
CB_CODEC_SCHEMA(note, NOTE)
#define LONG_NOTE(F) F(bytes, all, 6000)
CB_CODEC_SCHEMA(long_note, LONG_NOTE)

#define FUZZ(CALL, EVENT)                  \
    CALL(1,  quick,    number, number)     \
    CALL(2,  late,     number, note)       \
    CALL(3,  stubborn, note,   number)     \
    CALL(4,  nobody,   note,   note)       \
    CALL(200, far,     long_note, long_note) \
    EVENT(5, heard,    note)
CB_RPC_CONTRACT(fuzz, FUZZ)

enum {
    MODE_MESSAGES = 1, MODE_HELLO = 2, MODE_CALLS = 4, MODE_FAIL_ALLOC = 8, MODE_BY_HAND = 16, MODE_SMALL_SINK = 32,
    MODE_RAW = 64, MODE_DROP = 128 /* deinit without driving to CLOSED */
};
#define CALLS_MAX 96u
#define TOKENS_MAX 32u
#define OUT_MAX 65536u
#define SHOWN_MAX 32768u

typedef struct input {
    const uint8_t *data;
    size_t size;
} input;

static uint8_t mode;
static cbt_mem mem;
static cb_rpc_hub hub;
static cb_rpc_session session;
static uint64_t now_ns;
static uint8_t pending[SHOWN_MAX];    /* the peer's bytes that are not used up */
static size_t pending_size;
static uint8_t out[OUT_MAX];
static size_t out_size, out_checked, out_room, owed_room; /* owed_room: kept for answers, over out_room */
static uint8_t piece[64 + 4096];
static uint32_t piece_max;
static unsigned told[CALLS_MAX], sent;  /* how often, by call */
static cb_rpc_call calls[CALLS_MAX];
static cb_rpc_future futures[8];
static number future_replies[8];
static bool future_used[8];
static cb_rpc_token tokens[TOKENS_MAX];
static unsigned token_count, owed;    /* owed: calls of the peer that came, less answers and refusals that went */
static cb_rpc_status stuck, last;     /* the sticky error that next gave; what it gave last */
static bool ended, closed, is_closing;

#define MUST(c) do { if (!(c)) { fprintf(stderr, "FAIL %s:%d: %s\n", __FILE__, __LINE__, #c); abort(); } } while (0)

static uint8_t take(input *in)
{
    if (in->size == 0) {
        return 0;
    }
    in->size--;
    return *in->data++;
}

static uint32_t take_number(input *in)
{
    uint8_t b = take(in);
    uint32_t x;
    switch (b & 7u) {
    case 0: return UINT32_MAX;
    case 1: x = take(in); return x | (uint32_t)take(in) << 8 | (uint32_t)take(in) << 16 | (uint32_t)take(in) << 24;
    case 2: return take(in);
    default: return b >> 3;
    }
}

/* -- the sink -- */
static size_t sink_room(void *user, bool is_owed)
{
    (void)user;
    MUST(!ended);
    return is_owed ? out_room + owed_room : out_room;
}

static uint8_t *sink_reserve(void *user, size_t size)
{
    (void)user;
    MUST(!ended && size <= piece_max);
    return piece;
}

static void sink_commit(void *user, size_t size, bool more)
{
    (void)user;
    (void)more;
    MUST(!ended && size <= piece_max);
    if (out_size + size <= OUT_MAX) {
        memcpy(out + out_size, piece, size);
    }
    out_size += size;
    out_room -= size < out_room ? size : out_room;
}

static uint32_t varu_at(size_t *at, size_t end)
{
    uint32_t x = 0, shift = 0;
    for (;;) {
        MUST(*at < end && shift < 35u);
        x |= (uint32_t)(out[*at] & 0x7fu) << shift;
        shift += 7u;
        if (out[(*at)++] < 0x80u) {
            return x;
        }
    }
}

/* What the session sent are whole frames, the hello first, and no more answers than calls came. */
static void check_out(void)
{
    while ((mode & MODE_MESSAGES) == 0 && out_checked < out_size && out_size <= OUT_MAX) {
        size_t at = out_checked;
        uint32_t length = varu_at(&at, out_size), kind;
        MUST(length >= 1u && length <= out_size - at);
        out_checked = at + length;
        kind = varu_at(&at, out_checked);
        MUST((kind == 0) == (at - 1u <= 2u));
        MUST(kind <= 3u || (kind >= 16u && kind <= 215u));
        if (kind == 1u || kind == 2u) {
            MUST(owed != 0);
            owed--;
        }
    }
}

/* -- the application -- */
static void was_told(void *user, const cb_rpc_result *res)
{
    size_t i, at = (size_t)(uintptr_t)user;
    MUST(at < sent && told[at] == 0);
    told[at]++;
    MUST(res->reason != NULL && strlen(res->reason) <= CB_RPC_REASON_MAX);
    for (i = 0; res->reason[i] != '\0'; i++) {
        MUST((uint8_t)res->reason[i] >= 0x20u && res->reason[i] != 0x7f);
    }
    MUST(cb_codec_text_valid((const uint8_t *)res->reason, i));
    MUST(calls[at].id == 0 || calls[at].id == res->call.id);
}

static void number_told(void *user, const cb_rpc_result *res, const number *reply)
{
    was_told(user, res);
    MUST(res->status != CB_RPC_OK || reply != NULL);
}

static void note_told(void *user, const cb_rpc_result *res, const note *reply)
{
    was_told(user, res);
    MUST(res->status != CB_RPC_OK || cb_codec_text_size(reply->said, 24) != SIZE_MAX);
}

static void long_note_told(void *user, const cb_rpc_result *res, const long_note *reply)
{
    was_told(user, res);
    MUST(res->status != CB_RPC_OK || reply->all_size <= 6000u);
}

static void add_token(cb_rpc_token t)
{
    if (t.id != 0 && token_count < TOKENS_MAX) {
        tokens[token_count++] = t;
    } else if (t.id != 0) {
        (void)cb_rpc_token_refuse(t, "too many");
    }
}

static cb_rpc_status on_quick(void *user, cb_rpc_session *from, const number *a, number *reply)
{
    (void)user;
    MUST(cb_rpc_call_deadline(from) > 0);
    if (a->n == 77) { /* calls from inside, and ends the session from inside */
        note t;
        memset(&t, 0, sizeof t);
        (void)heard(from, &t);
        cb_rpc_close(from);
        closed = true;
    }
    reply->n = a->n;
    return CB_RPC_OK;
}

static cb_rpc_status on_late(void *user, cb_rpc_session *from, const number *a, note *reply)
{
    cb_rpc_token t = cb_rpc_later(from);
    (void)user;
    if (a->n == 5) { /* answered although it is still being dispatched */
        memset(reply, 0, sizeof *reply);
        if (t.id != 0) {
            (void)late_answer(t, reply);
        }
        return t.id != 0 ? CB_RPC_LATER : CB_RPC_E_NOMEM;
    }
    add_token(t);
    return t.id != 0 ? CB_RPC_LATER : CB_RPC_E_NOMEM;
}

static cb_rpc_status on_stubborn(void *user, cb_rpc_session *from, const note *a, number *reply)
{
    (void)user;
    (void)reply;
    MUST(cb_codec_text_size(a->said, 24) != SIZE_MAX);
    return a->said[0] == '\0' ? CB_RPC_E_HANDLER : cb_rpc_refuse(from, a->said);
}

static cb_rpc_status on_far(void *user, cb_rpc_session *from, const long_note *a, long_note *reply)
{
    (void)user;
    (void)from;
    memset(reply, 0, sizeof *reply);
    reply->all_size = a->all_size != 0 ? 6000u : 0u;
    return CB_RPC_OK;
}

static void on_heard(void *user, cb_rpc_session *from, const note *a)
{
    (void)user;
    (void)from;
    MUST(cb_codec_text_size(a->said, 24) != SIZE_MAX);
}

static const fuzz_handlers handlers = { on_quick, on_late, on_stubborn, NULL, on_far, on_heard };

static void on_cancel(void *user, cb_rpc_session *from, cb_rpc_token token, cb_rpc_status why)
{
    unsigned i;
    (void)user;
    (void)from;
    MUST(why == CB_RPC_E_CANCELLED || why == CB_RPC_E_PEER_TIMEOUT);
    MUST(!cb_rpc_token_is_waiting(token));
    for (i = 0; i < token_count; i++) {
        if (tokens[i].id == token.id) {
            tokens[i] = tokens[--token_count]; /* told at most once, as it is not there any more */
            return;
        }
    }
}

/* -- driving -- */
static void after_next(cb_rpc_status st, size_t left)
{
    switch (st) {
    case CB_RPC_NEED_INPUT:
        MUST(cb_rpc_need(&session) > left);
        MUST(stuck == CB_RPC_OK);
        break;
    case CB_RPC_NEED_OUTPUT: MUST(stuck == CB_RPC_OK); break;
    case CB_RPC_WAIT: MUST(ended || is_closing); break;
    case CB_RPC_CLOSED: MUST(ended || closed || is_closing); break;
    case CB_RPC_E_CUT: MUST((ended || closed) && (mode & MODE_MESSAGES) != 0); break; /* a message after the end */
    case CB_RPC_E_PROTOCOL: case CB_RPC_E_FRAME_TOO_BIG: case CB_RPC_E_SLOW_PEER: case CB_RPC_E_NOMEM: case CB_RPC_E_TIMEOUT:
        MUST(stuck == CB_RPC_OK || stuck == st);
        MUST(cb_rpc_reason(&session)[0] != '\0');
        MUST(st != CB_RPC_E_NOMEM || (mode & MODE_FAIL_ALLOC) != 0);
        stuck = st;
        break;
    default: fprintf(stderr, "FAIL next gave %d (%s)\n", (int)st, cb_rpc_status_str(st)); abort();
    }
}

static cb_rpc_status next_events(const uint8_t *data, size_t size, size_t *used)
{
    cb_span in;
    cb_rpc_event e;
    cb_rpc_status st;
    unsigned rounds = 0;
    in.data = (uint8_t *)(uintptr_t)data;
    in.size = size;
    for (;;) {
        size_t before = in.size;
        bool is_message = (mode & MODE_MESSAGES) != 0 && rounds == 0 && size != 0;
        if ((mode & MODE_MESSAGES) != 0) {
            cb_slice m;
            m.data = is_message ? data : NULL;
            m.size = is_message ? size : 0;
            st = cb_rpc_next_message(&session, m, now_ns, &e);
            in.size = 0;
        } else {
            st = cb_rpc_next(&session, &in, now_ns, &e);
        }
        MUST(in.size <= before && ++rounds < 100000u);
        if (st != CB_RPC_OK) {
            break;
        }
        MUST(stuck == CB_RPC_OK || e.kind == CB_RPC_EVENT_RESULT || e.kind == CB_RPC_EVENT_CANCELLED);
        if (e.kind == CB_RPC_EVENT_CALL && (mode & MODE_BY_HAND) != 0 && e.row == &cb_rpc_row_of_late) {
            cb_rpc_token t = cb_rpc_event_token(&session, &e);
            if (t.id != 0) {
                add_token(t);
                continue;
            }
        }
        MUST(cb_rpc_dispatch(&session, &e) == CB_RPC_OK);
        check_out();
    }
    last = st;
    after_next(st, (mode & MODE_MESSAGES) != 0 ? 0 : in.size);
    check_out();
    *used = size - in.size;
    return st;
}

/* The bytes are shown at the very end of a heap block, so that AddressSanitizer sees a read beyond them. */
static void drive(const uint8_t *data, size_t size)
{
    static uint8_t *arena;
    uint8_t *whole;
    size_t used;
    if (arena == NULL && (arena = (uint8_t *)malloc(SHOWN_MAX)) == NULL) {
        abort();
    }
    MUST(pending_size + size <= SHOWN_MAX);
    whole = arena + SHOWN_MAX - (pending_size + size);
    if (pending_size != 0) {
        memcpy(whole, pending, pending_size);
    }
    if (size != 0) {
        memcpy(whole + pending_size, data, size);
    }
    size += pending_size;
    pending_size = 0;
    owed += (unsigned)size; /* a call takes more than a byte: an upper bound of what may be answered */
    (void)next_events(whole, size, &used);
    if ((mode & MODE_MESSAGES) == 0 && used != size && !ended && stuck == CB_RPC_OK) {
        pending_size = size - used;
        memcpy(pending, whole + used, pending_size);
    }
    memset(whole, 0xDB, size); /* what was lent is void now */
}

static void feed(input *cuts, const uint8_t *data, size_t size)
{
    if ((mode & MODE_MESSAGES) != 0) {
        drive(data, size);
        return;
    }
    while (size != 0) {
        size_t n = take(cuts) & 31u;
        n = n == 0 || n > size ? size : n;
        drive(data, n);
        data += n;
        size -= n;
    }
}

/* -- building the peer's frames -- */
static uint8_t frame[4096 + 64];
static size_t frame_size;

static void add(const void *data, size_t size)
{
    if (frame_size + size <= sizeof frame) {
        memcpy(frame + frame_size, data, size);
        frame_size += size;
    }
}

static void add_u8(unsigned x)
{
    uint8_t b = (uint8_t)x;
    add(&b, 1);
}

static void add_varu(uint32_t x)
{
    for (; x >= 0x80u; x >>= 7) {
        add_u8((x & 0x7fu) | 0x80u);
    }
    add_u8(x);
}

static void add_bytes(input *in, size_t n)
{
    n = n < in->size ? n : in->size;
    add(in->data, n);
    in->data += n;
    in->size -= n;
}

static void add_u32(uint32_t x)
{
    add_u8(x);
    add_u8(x >> 8);
    add_u8(x >> 16);
    add_u8(x >> 24);
}

static uint32_t fnv(uint32_t h, const void *data, size_t size)
{
    const uint8_t *p = (const uint8_t *)data;
    while (size-- != 0) {
        h = (h ^ *p++) * 16777619u;
    }
    return h;
}

/* A hello of our own contract, with what differs in it. */
static void build_hello(input *in, uint8_t variant)
{
    const cb_rpc_contract *c = fuzz_contract();
    size_t i, k;
    add_u8(0);
    add("cbr", 3);
    add_u8(variant & 1u ? take(in) : 1u);
    add_varu(variant & 2u ? take_number(in) : 0);
    add_varu(variant & 4u ? take_number(in) : 4096u);
    add_varu(variant & 8u ? take_number(in) : 4u);
    add_varu((uint32_t)c->count + 1u + (variant & 16u ? take(in) : 0u));
    for (i = 0; i <= c->count; i++) {
        /* heard stands behind far in the list, so sort: 1 2 3 4 5 200, and 300 that nobody knows */
        static const uint8_t order[] = { 0, 1, 2, 3, 5, 4 };
        const cb_rpc_row *row = i < c->count ? c->slots[order[i]].row : NULL;
        uint64_t layouts[2];
        uint32_t layout = 2166136261u;
        layouts[0] = row != NULL ? row->args->layout_hash() : 0;
        layouts[1] = row != NULL && row->reply != NULL ? row->reply->layout_hash() : 0;
        for (k = 0; k < 16u; k++) {
            uint8_t b = (uint8_t)(layouts[k / 8u] >> (k % 8u * 8u));
            layout = fnv(layout, &b, 1);
        }
        layout ^= variant & 32u && (take(in) & 3u) == 0 ? 1u : 0u; /* another layout */
        add_varu((row == NULL ? 300u : row->number) * 2u + (row != NULL && row->is_event ? 0u : 1u));
        add_u32(row != NULL ? fnv(2166136261u, row->name, strlen(row->name)) : 1u);
        add_u32(layout);
    }
    if (variant & 64u) {
        add_bytes(in, take(in)); /* of a later version */
    }
}

static void build_value(input *in)
{
    uint8_t how = take(in);
    switch (how & 3u) {
    case 0: add_u32(how >> 2); break;                    /* a number */
    case 1: add_u8(how >> 7); if (how >> 7) { add_u8(1); add_u8(0); } add_u8((how >> 2) % 25u); add_bytes(in, (how >> 2) % 25u); break;
    case 2: add_u8(how >> 2); add_u8(0); add_bytes(in, how >> 2); break;
    default: add_bytes(in, take(in)); break;
    }
}

static void build_frame(input *in, uint8_t what)
{
    frame_size = 0;
    switch (what % 7u) {
    case 0: build_hello(in, take(in)); break;
    case 1: case 2: { /* a call */
        static const uint16_t numbers[] = { 1, 2, 2, 3, 4, 200, 300, 6 };
        uint32_t id = take_number(in), deadline = take(in);
        add_varu(15u + numbers[take(in) & 7u]);
        add_varu(id * 2u + (deadline & 1u));
        if (deadline & 1u) {
            add_varu(deadline == 255u ? UINT32_MAX : deadline >> 1);
        }
        build_value(in);
        break;
    }
    case 3: add_u8(1); add_varu(take_number(in)); build_value(in); break;
    case 4: { /* a refusal; of another layout with a description */
        uint32_t id = take_number(in);
        uint8_t code = take(in) % 10u;
        add_u8(2);
        add_varu(id);
        add_u8(code);
        if (code == 3u && (take(in) & 1u)) {
            char text[256];
            size_t n = id & 1u ? number_describe(text, sizeof text) : note_describe(text, sizeof text);
            text[take(in) % n] = (char)take(in);
            add(text, n);
            add_u8('>');
            add(text, take(in) % (n + 1u));
        } else {
            add_bytes(in, take(in));
        }
        break;
    }
    case 5: add_u8(3); add_varu(take_number(in)); add_u8(take(in) & 1u ? 8u : 6u); if (take(in) == 0) { add_u8(0); } break;
    default: add_varu(take(in) & 1u ? 20u : take_number(in)); build_value(in); break;
    }
}

static void send_frame(input *in)
{
    uint8_t head[5], how = take(in);
    size_t n = 0, length = frame_size;
    if (how == 1u) {
        length += take(in); /* a wrong length */
    } else if (how == 2u && length > 1u) {
        length -= 1u;
    } else if (how == 3u && frame_size != 0) {
        frame_size = take(in) % frame_size; /* cut off, with a right length */
        length = frame_size;
    }
    if ((mode & MODE_MESSAGES) == 0) {
        while (length >= 0x80u) {
            head[n++] = (uint8_t)((length & 0x7fu) | 0x80u);
            length >>= 7;
        }
        head[n++] = (uint8_t)length;
        if (how == 4u && n < 5u) { /* not the shortest form */
            head[n - 1u] = (uint8_t)(head[n - 1u] | 0x80u);
            head[n++] = 0;
        }
        feed(in, head, n);
    }
    feed(in, frame, frame_size);
}

/* -- our own side -- */
static void make_call(input *in)
{
    uint8_t what = take(in);
    cb_rpc_session *to = &session;
    void *user = (void *)(uintptr_t)sent;
    cb_rpc_status st;
    number n;
    note t;
    static long_note l;
    if (sent == CALLS_MAX) {
        return;
    }
    n.n = what;
    memset(&t, 0, sizeof t);
    t.said[0] = what & 8u ? (char)0xFF : 'x'; /* breaks its schema */
    l.all_size = (uint32_t)take(in) * 24u; /* up to 6,120: breaks its schema, or is too long for a frame */
    if (what & 16u) {
        to = cb_rpc_with_timeout(&session, (uint64_t)(1u + take(in)) * 500000u);
    }
    sent++; /* a receiver that is told at once would be a breach that was_told must see */
    switch (what & 7u) {
    case 0: st = quick(to, &n, number_told, user); break;
    case 1: st = late(to, &n, note_told, user); break;
    case 2: st = stubborn(to, &t, number_told, user); break;
    case 3: st = nobody(to, &t, note_told, user); break;
    case 4: st = far(to, &l, long_note_told, user); break;
    default: {
        unsigned i = (what >> 5) & 7u;
        sent--;
        if (futures[i].state == CB_RPC_FUTURE_WAITING) {
            return;
        }
        st = quick_future(to, &n, &future_replies[i], &futures[i]);
        MUST(st != CB_RPC_OK || futures[i].state == CB_RPC_FUTURE_WAITING);
        MUST(st == CB_RPC_OK || (futures[i].state == CB_RPC_FUTURE_DONE && futures[i].status == st));
        future_used[i] = true;
        return;
    }
    }
    MUST(sent != 0 && told[sent - 1u] == 0);
    if (st == CB_RPC_OK) {
        calls[sent - 1u] = cb_rpc_last_call(&session);
        MUST(calls[sent - 1u].id != 0);
    } else {
        MUST((int)st < 0 && cb_rpc_last_call(&session).id == 0);
        sent--;
    }
}

static void settle_token(input *in)
{
    uint8_t how = take(in);
    static note reply;
    cb_rpc_token t;
    cb_rpc_status st;
    bool was_waiting;
    if (token_count == 0) {
        return;
    }
    t = tokens[(how >> 2) % token_count];
    was_waiting = cb_rpc_token_is_waiting(t);
    memset(&reply, 0, sizeof reply);
    reply.said[0] = how & 2u ? (char)0xFF : 'y';
    st = how & 1u ? cb_rpc_token_refuse(t, "later: no") : late_answer(t, &reply);
    MUST(was_waiting != (st == CB_RPC_E_STALE));
    MUST(st == CB_RPC_OK || st == CB_RPC_E_STALE || st == CB_RPC_E_ENCODE || st == CB_RPC_E_NOMEM || st == CB_RPC_E_TOO_BIG ||
         (st == CB_RPC_E_CLOSED && cb_rpc_reason(&session)[0] != '\0') || st == CB_RPC_E_SLOW_PEER);
    MUST(cb_rpc_token_is_waiting(t) == (st == CB_RPC_E_ENCODE || st == CB_RPC_E_NOMEM));
    if (!cb_rpc_token_is_waiting(t)) {
        tokens[(how >> 2) % token_count] = tokens[token_count - 1u];
        token_count--;
    }
}

static void cancel_something(input *in)
{
    uint8_t what = take(in);
    if (what & 1u) {
        cb_rpc_future_cancel(&futures[(what >> 1) & 7u]);
        MUST(futures[(what >> 1) & 7u].state != CB_RPC_FUTURE_WAITING);
    } else if (sent != 0) {
        unsigned i = (what >> 1) % sent;
        cb_rpc_status st = cb_rpc_call_cancel(&session, calls[i]);
        MUST((st == CB_RPC_OK || st == CB_RPC_E_STALE) && (told[i] == 0 || st == CB_RPC_E_STALE));
    }
}

static void end_session(uint8_t how)
{
    if (how & 1u) {
        cb_rpc_end(&session, CB_RPC_OK, NULL);
        is_closing = stuck == CB_RPC_OK && !closed && !ended;
        ended = ended || stuck != CB_RPC_OK;
    } else if (how & 2u) {
        cb_rpc_end(&session, CB_RPC_E_CUT, how & 4u ? "the cable" : NULL);
        ended = true; /* also behind a clean end */
    } else {
        cb_rpc_close(&session);
        closed = true;
    }
}

static void step(input *in)
{
    uint8_t what = take(in);
    note t;
    switch (what & 15u) {
    case 0: feed(in, in->data, in->size < (size_t)(what >> 4) + 1u ? in->size : (size_t)(what >> 4) + 1u);
            in->data += in->size < (size_t)(what >> 4) + 1u ? in->size : (size_t)(what >> 4) + 1u;
            in->size -= in->size < (size_t)(what >> 4) + 1u ? in->size : (size_t)(what >> 4) + 1u; break;
    case 1: case 2: case 3: case 4: case 5: case 6: build_frame(in, what >> 4); send_frame(in); break;
    case 7: case 8: make_call(in); break;
    case 9: cancel_something(in); break;
    case 10: case 11: settle_token(in); break;
    case 12: now_ns += (uint64_t)take(in) * 300000u; cb_rpc_tick(&session, now_ns); (void)cb_rpc_deadline(&session); drive(NULL, 0); break;
    case 13: out_room = what & 16u ? 0 : (size_t)take(in) * 16u; owed_room = what & 32u ? 0 : 256u; drive(NULL, 0); break;
    case 14:
        memset(&t, 0, sizeof t);
        t.said[0] = what & 16u ? '\0' : 'e';
        (void)heard(&session, &t);
        break;
    default: if ((what >> 4) < 3u) { end_session((uint8_t)(take(in))); } else { drive(NULL, 0); } break;
    }
    check_out();
}

static bool begin(uint8_t fail_at, uint8_t limits)
{
    cb_rpc_hub_desc d;
    cb_rpc_session_desc sd;
    memset(&mem, 0, sizeof mem);
    mem.fail_at = mode & MODE_FAIL_ALLOC ? fail_at % 16u + 1u : 0u;
    memset(&d, 0, sizeof d);
    fuzz_bind(&d, &handlers, NULL);
    d.frame_bytes_max = limits & 1u ? 64u : limits & 2u ? 512u : 5000u;
    d.calls_open_max = limits & 4u ? 2u : 0u;
    d.calls_waiting_max = limits & 8u ? 2u : 0u;
    d.call_timeout_ns = limits & 16u ? 5000000u : 0u;
    d.answer_timeout_ns = limits & 32u ? 7000000u : 0u;
    d.on_cancel = on_cancel;
    d.alloc.alloc = cbt_mem_alloc;
    d.alloc.release = cbt_mem_release;
    d.alloc.user = &mem;
    if (cb_rpc_hub_init(&hub, &d) != CB_RPC_OK) {
        MUST((mode & MODE_FAIL_ALLOC) != 0 && mem.live_bytes == 0);
        return false;
    }
    memset(&sd, 0, sizeof sd);
    piece_max = mode & MODE_SMALL_SINK ? 64u : 4096u;
    sd.sink.room = sink_room;
    sd.sink.reserve = sink_reserve;
    sd.sink.commit = sink_commit;
    sd.sink.piece_max = piece_max;
    sd.is_message_based = (mode & MODE_MESSAGES) != 0;
    sd.is_server = (limits & 64u) != 0;
    MUST(cb_rpc_session_init(&session, &hub, &sd) == CB_RPC_OK);
    return true;
}

static void begin_connection(void)
{
    out_size = out_checked = 0;
    out_room = 1u << 20;
    owed_room = 256u;
    owed = 0;
    stuck = CB_RPC_OK;
    ended = closed = is_closing = false;
    pending_size = 0;
    token_count = 0;
}

/* Ends the connection if it has not ended and sees everything told. */
static void finish(void)
{
    if (!closed) {
        cb_rpc_end(&session, CB_RPC_E_CUT, NULL);
    }
    pending_size = 0;
    out_room = 1u << 20;
    ended = true;
    drive(NULL, 0);
    MUST(last == CB_RPC_CLOSED);
}

static void all_told(void)
{
    unsigned i;
    for (i = 0; i < sent; i++) {
        MUST(told[i] == 1u);
    }
    for (i = 0; i < 8u; i++) {
        MUST(!future_used[i] || futures[i].state == CB_RPC_FUTURE_DONE);
    }
}

#ifdef __cplusplus
extern "C"
#endif
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in;
    uint8_t fail_at, limits, variant;
    unsigned steps = 0;
    in.data = data;
    in.size = size < SHOWN_MAX / 2u ? size : SHOWN_MAX / 2u;
    mode = take(&in);
    fail_at = take(&in);
    limits = take(&in);
    variant = take(&in);
    sent = 0;
    now_ns = 1000;
    memset(told, 0, sizeof told);
    memset(calls, 0, sizeof calls);
    memset(futures, 0, sizeof futures);
    memset(future_used, 0, sizeof future_used);
    begin_connection();
    if (!begin(fail_at, limits)) {
        return 0;
    }
    if (mode & MODE_HELLO) {
        input none;
        none.data = NULL;
        none.size = 0;
        frame_size = 0;
        build_hello(&none, 0);
        send_frame(&none);
    }
    if (mode & MODE_CALLS) {
        static const uint8_t what[] = { 0, 0, 1, 0, 1 + 16, 9, 0, 37, 0, 4, 7, 0, 2, 0 };
        input some;
        some.data = what;
        some.size = sizeof what;
        while (some.size != 0) {
            make_call(&some);
        }
    }
    if (mode & MODE_RAW) { /* all the rest are the peer's bytes, in pieces of one size */
        input cut;
        cut.data = &variant;
        cut.size = 1;
        while (in.size != 0) {
            size_t n = variant % 33u == 0 || variant % 33u > in.size ? in.size : variant % 33u;
            cut.size = 0;
            feed(&cut, in.data, n);
            in.data += n;
            in.size -= n;
        }
    }
    while (in.size != 0 && steps++ < 200u) {
        step(&in);
    }
    if ((mode & MODE_DROP) == 0) {
        finish();
        all_told();
        if (variant & 1u && cb_rpc_session_is_closed(&session) == false) { /* the same session over a new connection */
            cb_sink sink;
            unsigned before = sent;
            memset(&sink, 0, sizeof sink);
            sink.room = sink_room;
            sink.reserve = sink_reserve;
            sink.commit = sink_commit;
            sink.piece_max = piece_max;
            begin_connection();
            MUST(cb_rpc_session_restart(&session, &sink) == CB_RPC_OK);
            drive(NULL, 0);
            if (stuck == CB_RPC_OK && sent < CALLS_MAX) {
                number n;
                n.n = 1;
                sent++;
                if (quick(&session, &n, number_told, (void *)(uintptr_t)before) != CB_RPC_OK) {
                    sent--;
                }
            }
            finish();
            all_told();
        }
    }
    MUST(cb_rpc_session_deinit(&session) == CB_RPC_OK);
    for (steps = 0; steps < 8u; steps++) {
        MUST(!future_used[steps] || futures[steps].state == CB_RPC_FUTURE_DONE);
    }
    for (steps = 0; steps < token_count; steps++) {
        MUST(!cb_rpc_token_is_waiting(tokens[steps]));
    }
    MUST(cb_rpc_hub_deinit(&hub) == CB_RPC_OK);
    MUST(mem.live_bytes == 0);
    MUST(cbt_failures == 0);
    return 0;
}
