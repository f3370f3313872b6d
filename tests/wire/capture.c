/* capture.c - a session of 1,000 calls whose bytes and whose meaning are both written down, for decode.py to compare.
 *
 *     capture FOLDER [messages] [change SIDE OFFSET VALUE]
 *
 * Two sessions of cb_rpc.h talk over sinks of this file. FOLDER/capture gets every piece of bytes in the order in which
 * it was handed to its reader; FOLDER/log.jsonl gets, from the application's side alone, what each of the two made, got,
 * gave and was told, one JSON object a line. Nothing depends on time or chance: two runs write the same files.
 * `messages`: over a message transport. `change`: the byte at OFFSET of what SIDE (a or b) sends arrives as VALUE; the last
 * line is then `verdict: ...`: what the reader made of it.
 *
 * capture  = "cbcap1" 0x0A, `s` (stream) or `m` (messages), then pieces: side:u8 (0 a, 1 b) now_ns:u64 (the reader's clock) size:u32
 *            bytes, numbers least significant byte first.
 */
#define CB_CODEC_IMPLEMENTATION
#include "cb_codec.h"
#define CB_RPC_IMPLEMENTATION
#include "cb_rpc.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__GNUC__)
#define UNUSED __attribute__((unused))
#else
#define UNUSED
#endif

/* -- messages -- */
#define POINT(F)                    \
    F(quant, x, -8192, 8192, 16)    \
    F(flag,  up)                    \
    F(quant, y, 0, 1, 24)           \
    F(range, height, -100, 155)
CB_CODEC_SCHEMA(point, POINT)

#define PLAIN(F) F(u16, a) F(i32, b)
CB_CODEC_SCHEMA(plain, PLAIN)

#define NUMBER(F) F(i32, n)
CB_CODEC_SCHEMA(number, NUMBER)

CB_CODEC_EMPTY(nothing)

#define SCALARS(F)                              \
    F(u8, a) F(u16, b) F(u32, c) F(u64, d)      \
    F(i8, e) F(i16, f) F(i32, g) F(i64, h)      \
    F(f32, i) F(f64, j) F(varu, k) F(vari, l)   \
    F(flag, m)                                  \
    F(range, n, -5, 5)                          \
    F(enum, o, 5)                               \
    F(quant, p, -1, 1, 1)                       \
    F(range, q, -2147483647, 2147483647)        \
    F(enum, r, 256)                             \
    F(range, s, 7, 7)                           \
    F(flag, t)
CB_CODEC_SCHEMA(scalars, SCALARS)

#define PROFILE(F)                  \
    F(u32,   id)                    \
    F(text,  name, 24)              \
    F(text,  motto, 300)            \
    F(opt,   age, u8)               \
    F(opt,   at, point)             \
    F(opt,   weight, f32)           \
    F(opt,   debt, vari)            \
    F(opt,   well, flag)            \
    F(enum,  colour, 6)             \
    F(bytes, avatar, 16)            \
    F(view,  blob, 600)             \
    F(list,  scores, i32, 8)        \
    F(list,  sums, varu, 300)       \
    F(list,  marks, flag, 20)       \
    F(list,  path, point, 5)        \
    F(list,  pairs, plain, 4)       \
    F(nest,  home, point)           \
    F(list,  big, f64, 2)           \
    F(flag,  last)
CB_CODEC_SCHEMA(profile, PROFILE)

#define WORDS(F) F(text, said, 70000)
CB_CODEC_SCHEMA(words, WORDS)

#define WIRE(CALL, EVENT)                        \
    CALL(1,    twice,       number,  number)     \
    CALL(2,    echo_scalars, scalars, scalars)   \
    CALL(3,    echo_profile, profile, profile)   \
    CALL(7,    later,       number,  profile)    \
    CALL(16,   refuse,      words,   number)     \
    CALL(112,  echo_words,  words,   words)      \
    CALL(113,  nothing_at_all, nothing, nothing) \
    CALL(300,  missing,     number,  number)     \
    CALL(301,  altered,     point,   number)     \
    CALL(302,  an_event_there, number, number)   \
    CALL(303,  unhandled,   number,  number)     \
    EVENT(20,  noticed,     profile)             \
    EVENT(21,  a_call_there, number)             \
    EVENT(22,  noticed_altered, point)           \
    EVENT(23,  noticed_missing, number)          \
    EVENT(1023, tick,       nothing)             \
    CALL(401,  altered_b,   scalars, number)     \
    EVENT(402, an_event_there_b, number)         \
    CALL(403,  a_call_there_b, number, nothing)  \
    EVENT(404, noticed_altered_b, number)
CB_RPC_CONTRACT(wire, WIRE)

/* -- chance that is the same everywhere -- */
static uint64_t random_at = 88172645463325252u;
static uint32_t chance(uint32_t below)
{
    random_at ^= random_at << 13;
    random_at ^= random_at >> 7;
    random_at ^= random_at << 17;
    return (uint32_t)((random_at >> 20) % below);
}

/* A number of `bits` bits: often one of the limits, often small. */
static uint64_t some_number(unsigned bits)
{
    uint64_t top = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1u;
    uint64_t r = chance(1u << 30); /* one call a statement: operands have no order */
    r = r << 30 | chance(1u << 30);
    r = r << 4 | chance(16);
    switch (chance(6)) {
    case 0: return 0;
    case 1: return top;
    case 2: return top >> 1;
    case 3: return (top >> 1) + 1u;
    case 4: return (r & top) >> chance(bits);
    default: return r & top;
    }
}

/* -- the log: JSON from the structs' members, by macros over the same lists -- */
static FILE *log_file;

static void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(log_file, format, args);
    va_end(args);
}

static void say_text(const char *text)
{
    const char *at;
    fputc('"', log_file);
    for (at = text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\') {
            fprintf(log_file, "\\%c", *at);
        } else if ((unsigned char)*at < 0x20u) {
            fprintf(log_file, "\\u%04x", (unsigned)*at);
        } else {
            fputc(*at, log_file);
        }
    }
    fputc('"', log_file);
}

static void say_bytes(const uint8_t *data, size_t size)
{
    size_t i;
    fputc('"', log_file);
    for (i = 0; i < size; i++) {
        fprintf(log_file, "%02x", data[i]);
    }
    fputc('"', log_file);
}

static void say_f32(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    say("\"f32:%08lx\"", (unsigned long)bits);
}

static void say_f64(double f)
{
    uint64_t bits;
    memcpy(&bits, &f, 8);
    say("\"f64:%016llx\"", (unsigned long long)bits);
}

static void point_say(const point *v);
static void plain_say(const plain *v);

#define SAY_ONE_u8(x) say("%u", (unsigned)(x))
#define SAY_ONE_u16(x) say("%u", (unsigned)(x))
#define SAY_ONE_u32(x) say("%lu", (unsigned long)(x))
#define SAY_ONE_u64(x) say("%llu", (unsigned long long)(x))
#define SAY_ONE_i8(x) say("%d", (int)(x))
#define SAY_ONE_i16(x) say("%d", (int)(x))
#define SAY_ONE_i32(x) say("%ld", (long)(x))
#define SAY_ONE_i64(x) say("%lld", (long long)(x))
#define SAY_ONE_f32(x) say_f32(x)
#define SAY_ONE_f64(x) say_f64(x)
#define SAY_ONE_varu(x) SAY_ONE_u64(x)
#define SAY_ONE_vari(x) SAY_ONE_i64(x)
#define SAY_ONE_flag(x) say((x) ? "true" : "false")
#define SAY_ONE_point(x) point_say(&(x))
#define SAY_ONE_plain(x) plain_say(&(x))

#define SAY_KEY(n) say("%s\"" #n "\":", comma); comma = ",";
#define SAY_u8(n) SAY_KEY(n) SAY_ONE_u8(v->n);
#define SAY_u16(n) SAY_KEY(n) SAY_ONE_u16(v->n);
#define SAY_u32(n) SAY_KEY(n) SAY_ONE_u32(v->n);
#define SAY_u64(n) SAY_KEY(n) SAY_ONE_u64(v->n);
#define SAY_i8(n) SAY_KEY(n) SAY_ONE_i8(v->n);
#define SAY_i16(n) SAY_KEY(n) SAY_ONE_i16(v->n);
#define SAY_i32(n) SAY_KEY(n) SAY_ONE_i32(v->n);
#define SAY_i64(n) SAY_KEY(n) SAY_ONE_i64(v->n);
#define SAY_f32(n) SAY_KEY(n) SAY_ONE_f32(v->n);
#define SAY_f64(n) SAY_KEY(n) SAY_ONE_f64(v->n);
#define SAY_varu(n) SAY_KEY(n) SAY_ONE_u64(v->n);
#define SAY_vari(n) SAY_KEY(n) SAY_ONE_i64(v->n);
#define SAY_flag(n) SAY_KEY(n) SAY_ONE_flag(v->n);
#define SAY_range(n, lo, hi) SAY_KEY(n) SAY_ONE_i32(v->n);
#define SAY_enum(n, values) SAY_KEY(n) SAY_ONE_u32(v->n);
#define SAY_quant(n, lo, hi, bits) SAY_KEY(n) say_f32(v->n);
#define SAY_text(n, max) SAY_KEY(n) say_text(v->n);
#define SAY_bytes(n, max) SAY_KEY(n) say_bytes(v->n, v->n##_size);
#define SAY_view(n, max) SAY_KEY(n) say_bytes(v->n.data, v->n.size);
#define SAY_nest(n, schema) SAY_KEY(n) schema##_say(&v->n);
#define SAY_opt(n, element) SAY_KEY(n) if (v->has_##n) { SAY_ONE_##element(v->n); } else { say("null"); }
#define SAY_list(n, element, max) \
    SAY_KEY(n) say("["); \
    for (i = 0; i < v->n##_count; i++) { say(i != 0 ? "," : ""); SAY_ONE_##element(v->n[i]); } \
    say("]");
#define SAY_FIELD(kind, ...) SAY_##kind(__VA_ARGS__)
#define SAY_TYPE(T, LIST) \
    static void T##_say(const T *v) \
    { \
        const char *comma = ""; \
        uint32_t i = 0; \
        (void)i; \
        say("{"); \
        LIST(SAY_FIELD) \
        say("}"); \
        (void)comma; \
    }
SAY_TYPE(point, POINT)
SAY_TYPE(plain, PLAIN)
SAY_TYPE(number, NUMBER)
SAY_TYPE(scalars, SCALARS)
SAY_TYPE(profile, PROFILE)
SAY_TYPE(words, WORDS)
static void nothing_say(const nothing *v)
{
    (void)v;
    say("{}");
}

/* -- values, limits among them -- */
static float some_quant(double lo, double hi)
{
    switch (chance(6)) {
    case 0: return (float)lo;
    case 1: return (float)hi;
    case 2: return (float)(lo - 1.0); /* outside: becomes the bound */
    case 3: return (float)(hi + 1.0);
    default: return (float)(lo + (hi - lo) * (double)chance(1000001) / 1000000.0);
    }
}

static float some_f32(void)
{
    uint32_t bits = (uint32_t)some_number(32);
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static double some_f64(void)
{
    uint64_t bits = some_number(64);
    double f;
    memcpy(&f, &bits, 8);
    return f;
}

static void some_text(char *out, uint32_t max)
{
    static const char *const pieces[] = { "a", "Z", " ", "\"", "\\", "\t", "\x7f", "\xC2\x80", "\xC3\xA4", "\xDF\xBF",
                                          "\xE0\xA0\x80", "\xE2\x82\xAC", "\xED\x9F\xBF", "\xEE\x80\x80", "\xEF\xBF\xBF",
                                          "\xF0\x90\x80\x80", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF", "\x01" };
    uint32_t want = chance(4) == 0 ? max : chance(3) == 0 ? 0 : chance(max + 1u);
    uint32_t size = 0, tries;
    for (tries = 0; size < want && tries < 2u * max; tries++) {
        const char *p = pieces[chance((uint32_t)(sizeof pieces / sizeof pieces[0]))];
        uint32_t n = (uint32_t)strlen(p);
        if (n <= want - size) {
            memcpy(out + size, p, n);
            size += n;
        }
    }
    out[size] = '\0';
}

static uint32_t some_count(uint32_t max)
{
    uint32_t which = chance(4);
    return which == 0 ? max : which == 1 ? 0 : chance(max + 1u);
}

static uint8_t view_bytes[600];

#define SOME_ONE_u8(x) (x) = (uint8_t)some_number(8)
#define SOME_ONE_u16(x) (x) = (uint16_t)some_number(16)
#define SOME_ONE_u32(x) (x) = (uint32_t)some_number(32)
#define SOME_ONE_u64(x) (x) = some_number(64)
#define SOME_ONE_i8(x) (x) = (int8_t)some_number(8)
#define SOME_ONE_i16(x) (x) = (int16_t)some_number(16)
#define SOME_ONE_i32(x) (x) = (int32_t)some_number(32)
#define SOME_ONE_i64(x) (x) = (int64_t)some_number(64)
#define SOME_ONE_f32(x) (x) = some_f32()
#define SOME_ONE_f64(x) (x) = some_f64()
#define SOME_ONE_varu(x) (x) = some_number(1u + chance(64)) /* chance first: it is an argument */
#define SOME_ONE_vari(x) (x) = (int64_t)some_number(64); (x) /= (int64_t)1 << chance(63)
#define SOME_ONE_flag(x) (x) = chance(2) != 0
#define SOME_ONE_point(x) point_some(&(x))
#define SOME_ONE_plain(x) plain_some(&(x))
#define SOME_u8(n) SOME_ONE_u8(v->n);
#define SOME_u16(n) SOME_ONE_u16(v->n);
#define SOME_u32(n) SOME_ONE_u32(v->n);
#define SOME_u64(n) SOME_ONE_u64(v->n);
#define SOME_i8(n) SOME_ONE_i8(v->n);
#define SOME_i16(n) SOME_ONE_i16(v->n);
#define SOME_i32(n) SOME_ONE_i32(v->n);
#define SOME_i64(n) SOME_ONE_i64(v->n);
#define SOME_f32(n) SOME_ONE_f32(v->n);
#define SOME_f64(n) SOME_ONE_f64(v->n);
#define SOME_varu(n) SOME_ONE_varu(v->n);
#define SOME_vari(n) SOME_ONE_vari(v->n);
#define SOME_flag(n) SOME_ONE_flag(v->n);
#define SOME_range(n, lo, hi) v->n = (int32_t)((int64_t)(lo) + (int64_t)(some_number(32) % (uint64_t)((int64_t)(hi) - (lo) + 1)));
#define SOME_enum(n, values) v->n = chance(3) == 0 ? (values) - 1u : chance(values);
#define SOME_quant(n, lo, hi, bits) v->n = some_quant((lo), (hi));
#define SOME_text(n, max) some_text(v->n, (max));
#define SOME_bytes(n, max) v->n##_size = some_count(max); for (i = 0; i < v->n##_size; i++) { v->n[i] = (uint8_t)chance(256); }
#define SOME_view(n, max) v->n.size = some_count(max); v->n.data = view_bytes;
#define SOME_nest(n, schema) schema##_some(&v->n);
#define SOME_opt(n, element) v->has_##n = chance(2) != 0; if (v->has_##n) { SOME_ONE_##element(v->n); }
#define SOME_list(n, element, max) v->n##_count = some_count(max); for (i = 0; i < v->n##_count; i++) { SOME_ONE_##element(v->n[i]); }
#define SOME_FIELD(kind, ...) SOME_##kind(__VA_ARGS__)
#define SOME_TYPE(T, LIST) \
    UNUSED static void T##_some(T *v) \
    { \
        uint32_t i = 0; \
        (void)i; \
        LIST(SOME_FIELD) \
    }
SOME_TYPE(point, POINT)
SOME_TYPE(plain, PLAIN)
SOME_TYPE(number, NUMBER)
SOME_TYPE(scalars, SCALARS)
SOME_TYPE(profile, PROFILE)

/* -- two sides -- */
#define ROWS_MAX 24
#define CALLS_MAX 2000
#define TOKENS_MAX 64
typedef struct side {
    const char *name;
    int index;
    uint64_t ahead_ns;          /* its clock, over now_ns */
    cb_rpc_row rows[ROWS_MAX];
    cb_rpc_slot slots[ROWS_MAX];
    cb_rpc_contract contract;
    cb_rpc_hub hub;
    cb_rpc_session session;
    uint8_t piece[512];
    uint8_t *out;               /* everything that this side ever sent */
    size_t out_size, out_cap, out_delivered;
    size_t *ends;               /* of its messages */
    size_t end_count, end_at;
    uint8_t *in;                /* what arrived and is not used up */
    size_t in_size;
    cb_rpc_token tokens[TOKENS_MAX]; /* calls of the peer that wait for their late answer */
    uint32_t token_ids[TOKENS_MAX];
    uint32_t token_count;
    uint32_t wire_id;           /* of the call being dispatched */
    uint32_t calls;
    const char *expected[CALLS_MAX]; /* names of the results that a call may have, space between */
} side;

static side sides[2];
static FILE *capture_file;
static uint64_t now_ns = 5000000000u;
static bool is_messages;
static int change_side = -1;
static size_t change_offset;
static uint8_t change_value;
static bool corrupt_next; /* the next profile that is encoded breaks its schema on the wire */

static void verdict(const char *what, const char *who, const char *detail)
{
    printf("verdict: %s %s: %s\n", what, who, detail);
    exit(change_side < 0);
}

static void *must(void *p)
{
    if (p == NULL) {
        fprintf(stderr, "capture: no memory\n");
        exit(2);
    }
    return p;
}

static void check(cb_rpc_status got, cb_rpc_status want, const char *what)
{
    if (got != want) {
        verdict("failed", what, cb_rpc_status_str(got));
    }
}

static size_t sink_room(void *user, bool owed)
{
    (void)user;
    (void)owed;
    return (size_t)1 << 20;
}

static uint8_t *sink_reserve(void *user, size_t size)
{
    side *s = (side *)user;
    (void)size;
    return s->piece;
}

static void sink_commit(void *user, size_t size, bool more)
{
    side *s = (side *)user;
    if (s->out_size + size > s->out_cap) {
        s->out_cap = (s->out_cap + size) * 2u;
        s->out = (uint8_t *)must(realloc(s->out, s->out_cap));
    }
    memcpy(s->out + s->out_size, s->piece, size);
    s->out_size += size;
    if (!more && size != 0) {
        if ((s->end_count & (s->end_count + 1u)) == 0) {
            s->ends = (size_t *)must(realloc(s->ends, (s->end_count + 1u) * 2u * sizeof *s->ends));
        }
        s->ends[s->end_count++] = s->out_size;
    }
}

static void head(const side *s, const char *did)
{
    say("{\"side\":\"%s\",\"did\":\"%s\"", s->name, did);
}

static void finish(void)
{
    say("}\n");
}

static const cb_rpc_row *row_of(const side *s, const char *name)
{
    size_t i;
    for (i = 0; i < s->contract.count; i++) {
        if (strcmp(s->rows[i].name, name) == 0) {
            return &s->rows[i];
        }
    }
    verdict("failed", "row_of", name);
    return NULL;
}

/* The arguments or the answer of a row, by the name of its type's functions. */
static void say_value(const char *key, const cb_rpc_type *type, const void *value)
{
    say(",\"%s\":", key);
    if (type->layout_hash == number_layout_hash) {
        number_say((const number *)value);
    } else if (type->layout_hash == scalars_layout_hash) {
        scalars_say((const scalars *)value);
    } else if (type->layout_hash == profile_layout_hash) {
        profile_say((const profile *)value);
    } else if (type->layout_hash == words_layout_hash) {
        words_say((const words *)value);
    } else if (type->layout_hash == point_layout_hash) {
        point_say((const point *)value);
    } else {
        nothing_say((const nothing *)value);
    }
}

/* -- what the application does when it is called -- */
static side *side_of(cb_rpc_session *s)
{
    return (side *)cb_rpc_session_user(s);
}

static void log_gave(side *s, uint32_t id, const cb_rpc_type *type, const void *value)
{
    head(s, "gave");
    say(",\"id\":%lu", (unsigned long)id);
    say_value("value", type, value);
    finish();
}

static void log_refused(side *s, uint32_t id, int code, const char *reason)
{
    head(s, "refused");
    say(",\"id\":%lu,\"code\":%d,\"reason\":", (unsigned long)id, code);
    say_text(reason);
    finish();
}

static void log_got(side *s, const char *name, cb_rpc_session *from, const cb_rpc_type *type, const void *args)
{
    uint64_t deadline = cb_rpc_call_deadline(from);
    head(s, "got");
    say(",\"id\":%lu,\"method\":\"%s\",\"deadline_ms\":", (unsigned long)s->wire_id, name);
    if (deadline == CB_RPC_NEVER) {
        say("null");
    } else {
        say("%llu", (unsigned long long)((deadline - (now_ns + s->ahead_ns)) / 1000000u));
    }
    say_value("args", type, args);
    finish();
}

#define GOT(name) side *s = side_of(from); (void)user; log_got(s, #name, from, cb_rpc_row_of_##name.args, a);
#define GAVE(name) log_gave(s, s->wire_id, cb_rpc_row_of_##name.reply, reply)

static cb_rpc_status on_twice(void *user, cb_rpc_session *from, const number *a, number *reply)
{
    GOT(twice)
    reply->n = (int32_t)(((uint32_t)a->n * 2u) & 0x7fffffffu);
    GAVE(twice);
    return CB_RPC_OK;
}

static cb_rpc_status on_echo_scalars(void *user, cb_rpc_session *from, const scalars *a, scalars *reply)
{
    GOT(echo_scalars)
    *reply = *a;
    GAVE(echo_scalars);
    return CB_RPC_OK;
}

static cb_rpc_status on_echo_profile(void *user, cb_rpc_session *from, const profile *a, profile *reply)
{
    GOT(echo_profile)
    *reply = *a;
    GAVE(echo_profile);
    return CB_RPC_OK;
}

static cb_rpc_status on_echo_words(void *user, cb_rpc_session *from, const words *a, words *reply)
{
    GOT(echo_words)
    memcpy(reply->said, a->said, strlen(a->said) + 1u);
    if (a->said[0] == 'D') { /* doubled: longer than a frame where it is long */
        strcat(reply->said, a->said);
    }
    GAVE(echo_words); /* although the engine may find it too long */
    return CB_RPC_OK;
}

static cb_rpc_status on_nothing_at_all(void *user, cb_rpc_session *from, const nothing *a, nothing *reply)
{
    GOT(nothing_at_all)
    memset(reply, 0, sizeof *reply);
    GAVE(nothing_at_all);
    return CB_RPC_OK;
}

static cb_rpc_status on_refuse(void *user, cb_rpc_session *from, const words *a, number *reply)
{
    char cut[201];
    GOT(refuse)
    (void)reply;
    if (a->said[0] == '!') { /* fails without a word */
        log_refused(s, s->wire_id, 1, "");
        return CB_RPC_E_HANDLER;
    }
    memcpy(cut, a->said, sizeof cut);
    cut[strlen(a->said) == 201 ? 199 : 200] = '\0';
    log_refused(s, s->wire_id, 0, cut);
    return cb_rpc_refuse(from, a->said);
}

static cb_rpc_status on_later(void *user, cb_rpc_session *from, const number *a, profile *reply)
{
    cb_rpc_token t;
    GOT(later)
    (void)reply;
    t = cb_rpc_later(from);
    if (t.id == 0 || s->token_count == TOKENS_MAX) {
        verdict("failed", s->name, "no token");
    }
    s->tokens[s->token_count] = t;
    s->token_ids[s->token_count++] = s->wire_id;
    return CB_RPC_LATER;
}

static cb_rpc_status on_never(void *user, cb_rpc_session *from, const number *a, number *reply)
{
    (void)user;
    (void)a;
    (void)reply;
    verdict("failed", side_of(from)->name, "a handler ran that nobody may call");
    return CB_RPC_OK;
}

static cb_rpc_status on_altered(void *user, cb_rpc_session *from, const point *a, number *reply)
{
    (void)a;
    return on_never(user, from, NULL, reply);
}

static cb_rpc_status on_altered_b(void *user, cb_rpc_session *from, const scalars *a, number *reply)
{
    (void)a;
    return on_never(user, from, NULL, reply);
}

static cb_rpc_status on_a_call_there_b(void *user, cb_rpc_session *from, const number *a, nothing *reply)
{
    (void)reply;
    return on_never(user, from, a, NULL);
}

static void got_event(cb_rpc_session *from, const char *name, const cb_rpc_type *type, const void *args)
{
    side *s = side_of(from);
    head(s, "got_event");
    say(",\"method\":\"%s\"", name);
    say_value("args", type, args);
    finish();
}

static void on_noticed(void *user, cb_rpc_session *from, const profile *a)
{
    (void)user;
    got_event(from, "noticed", cb_rpc_row_of_noticed.args, a);
}

static void on_tick(void *user, cb_rpc_session *from, const nothing *a)
{
    (void)user;
    got_event(from, "tick", cb_rpc_row_of_tick.args, a);
}

static void on_number_event(void *user, cb_rpc_session *from, const number *a)
{
    (void)user;
    (void)a;
    verdict("failed", side_of(from)->name, "an event came that differs");
}

static void on_point_event(void *user, cb_rpc_session *from, const point *a)
{
    (void)a;
    on_number_event(user, from, NULL);
}

static void on_cancel(void *user, cb_rpc_session *from, cb_rpc_token token, cb_rpc_status why)
{
    side *s = side_of(from);
    uint32_t i;
    (void)user;
    for (i = 0; i < s->token_count && s->tokens[i].id != token.id; i++) {
    }
    if (i == s->token_count) {
        verdict("failed", s->name, "a token is gone that nobody has");
    }
    head(s, "gone");
    say(",\"id\":%lu,\"code\":%d", (unsigned long)s->token_ids[i], why == CB_RPC_E_CANCELLED ? 8 : 6);
    finish();
    s->token_count--;
    memmove(&s->tokens[i], &s->tokens[i + 1u], (s->token_count - i) * sizeof s->tokens[0]);
    memmove(&s->token_ids[i], &s->token_ids[i + 1u], (s->token_count - i) * sizeof s->token_ids[0]);
}

static const wire_handlers handlers = {
    on_twice, on_echo_scalars, on_echo_profile, on_later, on_refuse, on_echo_words, on_nothing_at_all, on_never, on_altered,
    on_never, NULL, on_noticed, on_number_event, on_point_event, on_number_event, on_tick, on_altered_b, on_number_event,
    on_a_call_there_b, on_number_event
};

/* -- what the application is told -- */
static const char *name_of(cb_rpc_status s)
{
    switch (s) {
#define STATUS_NAME(name, value, text) case CB_RPC_##name: return #name;
    CB_RPC_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
    default: return "?";
    }
}

static void told(uintptr_t tag, const cb_rpc_result *res, const cb_rpc_type *type, const void *reply)
{
    side *s = &sides[tag & 1u];
    uint32_t call = (uint32_t)(tag >> 1);
    const char *name = name_of(res->status), *found = strstr(s->expected[call], name);
    head(s, "told");
    say(",\"call\":%lu,\"status\":\"%s\",\"reason\":", (unsigned long)call, name);
    say_text(res->reason);
    if (res->status == CB_RPC_OK) {
        say_value("value", type, reply);
    }
    finish();
    if (found == NULL || (found[strlen(name)] != ' ' && found[strlen(name)] != '\0')) {
        fprintf(stderr, "call %lu of %s: %s, expected: %s\n", (unsigned long)call, s->name, name, s->expected[call]);
        verdict(name, s->name, res->reason);
    }
    s->expected[call] = ""; /* a second result would not be expected */
}

static void number_told(void *user, const cb_rpc_result *res, const number *reply)
{
    told((uintptr_t)user, res, cb_rpc_row_of_twice.reply, reply);
}

static void scalars_told(void *user, const cb_rpc_result *res, const scalars *reply)
{
    told((uintptr_t)user, res, cb_rpc_row_of_echo_scalars.reply, reply);
}

static void profile_told(void *user, const cb_rpc_result *res, const profile *reply)
{
    told((uintptr_t)user, res, cb_rpc_row_of_echo_profile.reply, reply);
}

static void words_told(void *user, const cb_rpc_result *res, const words *reply)
{
    told((uintptr_t)user, res, cb_rpc_row_of_echo_words.reply, reply);
}

static void nothing_told(void *user, const cb_rpc_result *res, const nothing *reply)
{
    told((uintptr_t)user, res, cb_rpc_row_of_nothing_at_all.reply, reply);
}

static cb_rpc_any_fn receiver_of(const cb_rpc_row *row)
{
    return row->reply->layout_hash == number_layout_hash ? (cb_rpc_any_fn)number_told
         : row->reply->layout_hash == scalars_layout_hash ? (cb_rpc_any_fn)scalars_told
         : row->reply->layout_hash == profile_layout_hash ? (cb_rpc_any_fn)profile_told
         : row->reply->layout_hash == words_layout_hash ? (cb_rpc_any_fn)words_told : (cb_rpc_any_fn)nothing_told;
}

/* -- sending -- */
static bool send_call(side *s, const char *name, const void *args, uint64_t timeout_ns, const char *expected, cb_rpc_call *call)
{
    const cb_rpc_row *row = row_of(s, name);
    uintptr_t tag = (uintptr_t)s->calls << 1 | (uintptr_t)s->index;
    cb_rpc_session *to = timeout_ns != 0 ? cb_rpc_with_timeout(&s->session, timeout_ns) : &s->session;
    cb_rpc_status st = cb_rpc_call_send(to, row, args, receiver_of(row), (void *)tag);
    if (st == CB_RPC_E_TOO_BIG) {
        return false;
    }
    check(st, CB_RPC_OK, name);
    if (call != NULL) {
        *call = cb_rpc_last_call(&s->session);
    }
    s->expected[s->calls] = expected;
    head(s, "sent");
    say(",\"call\":%lu,\"method\":\"%s\",\"deadline_ms\":", (unsigned long)s->calls++, name);
    if (timeout_ns != 0) {
        uint64_t ms = (timeout_ns + 999999u) / 1000000u;
        say("%llu", (unsigned long long)(ms < 0xFFFFFFFFu ? ms : 0xFFFFFFFFu));
    } else {
        say("null");
    }
    if (corrupt_next) {
        say(",\"args\":\"unreadable\"");
    } else {
        say_value("args", row->args, args);
    }
    corrupt_next = false;
    finish();
    return true;
}

static void send_event(side *s, const char *name, const void *args)
{
    const cb_rpc_row *row = row_of(s, name);
    check(cb_rpc_event_send(&s->session, row, args), CB_RPC_OK, name);
    head(s, "sent_event");
    say(",\"method\":\"%s\"", name);
    say_value("args", row->args, args);
    finish();
}

/* A wrapper around a profile's encode: breaks one byte in such a way that no reader may take it. */
static bool encode_broken(const void *value, uint8_t *out, size_t cap, size_t *size)
{
    if (!cb_rpc_row_of_echo_profile.args->encode(value, out, cap, size)) {
        return false;
    }
    if (corrupt_next) {
        memset(out, 0xFF, *size);
    }
    return true;
}

/* -- moving bytes -- */
static void put_number(uint64_t x, int bytes)
{
    while (bytes-- > 0) {
        fputc((int)(x & 0xffu), capture_file);
        x >>= 8;
    }
}

static cb_rpc_status drive(side *s, cb_span *in, bool is_message)
{
    for (;;) {
        cb_rpc_event e;
        cb_slice m;
        cb_rpc_status st;
        m.data = in->data;
        m.size = in->size;
        st = is_message ? cb_rpc_next_message(&s->session, m, now_ns + s->ahead_ns, &e)
                        : cb_rpc_next(&s->session, in, now_ns + s->ahead_ns, &e);
        if (is_message && st != CB_RPC_NEED_OUTPUT) {
            in->size = 0;
        }
        if (st != CB_RPC_OK) {
            return st;
        }
        if (e.kind == CB_RPC_EVENT_CALL) {
            s->wire_id = e.wire_id;
        }
        check(cb_rpc_dispatch(&s->session, &e), CB_RPC_OK, "dispatch");
    }
}

static void drive_empty(side *s)
{
    uint8_t none = 0;
    cb_span in;
    cb_rpc_status st;
    in.data = &none;
    in.size = 0;
    st = drive(s, &in, is_messages);
    if (st != CB_RPC_NEED_INPUT) {
        verdict(name_of(st), s->name, cb_rpc_reason(&s->session));
    }
}

/* Hands the next piece of what `from` sent to the other side; false: there is none. */
static bool deliver(side *from, bool whole)
{
    side *to = &sides[1 - from->index];
    size_t left = from->out_size - from->out_delivered, size = left;
    cb_rpc_status st = CB_RPC_NEED_INPUT;
    cb_span in;
    if (left == 0) {
        return false;
    }
    if (is_messages) {
        size = from->ends[from->end_at++] - from->out_delivered;
    } else if (!whole) {
        size = 1u + chance(chance(4) == 0 ? 4u : 400u);
        size = size < left ? size : left;
    }
    to->in = (uint8_t *)must(realloc(to->in, to->in_size + size));
    memcpy(to->in + to->in_size, from->out + from->out_delivered, size);
    if (change_side == from->index && change_offset - from->out_delivered < size) {
        to->in[to->in_size + (change_offset - from->out_delivered)] = change_value;
    }
    fputc(from->index, capture_file);
    put_number(now_ns + to->ahead_ns, 8);
    put_number(size, 4);
    fwrite(from->out + from->out_delivered, 1, size, capture_file);
    from->out_delivered += size;
    to->in_size += size;
    if (to->in_size >= cb_rpc_need(&to->session)) {
        in.data = to->in;
        in.size = to->in_size;
        st = drive(to, &in, is_messages);
        if (in.size != 0) {
            memmove(to->in, to->in + (to->in_size - in.size), in.size);
        }
        to->in_size = in.size;
    }
    if (st != CB_RPC_NEED_INPUT) {
        verdict(name_of(st), to->name, cb_rpc_reason(&to->session));
    }
    return true;
}

static void deliver_all(void)
{
    bool again = true;
    while (again) {
        again = deliver(&sides[0], false);
        again = deliver(&sides[1], false) || again;
        if (!again) {
            drive_empty(&sides[0]);
            drive_empty(&sides[1]);
            again = sides[0].out_delivered != sides[0].out_size || sides[1].out_delivered != sides[1].out_size;
        }
    }
}

static void answer_late(side *s, uint32_t which)
{
    static profile p;
    cb_rpc_token t = s->tokens[which];
    uint32_t id = s->token_ids[which];
    s->token_count--;
    memmove(&s->tokens[which], &s->tokens[which + 1u], (s->token_count - which) * sizeof s->tokens[0]);
    memmove(&s->token_ids[which], &s->token_ids[which + 1u], (s->token_count - which) * sizeof s->token_ids[0]);
    if (chance(4) == 0) {
        log_refused(s, id, 0, "n\xC3\xB6, later");
        check(cb_rpc_token_refuse(t, "n\xC3\xB6, later"), CB_RPC_OK, "token_refuse");
        return;
    }
    memset(&p, 0, sizeof p);
    profile_some(&p);
    p.sums_count = p.sums_count > 60u ? 60u : p.sums_count; /* within the other side's frames */
    log_gave(s, id, cb_rpc_row_of_later.reply, &p);
    check(cb_rpc_token_answer(t, row_of(s, "later"), &p), CB_RPC_OK, "token_answer");
}

/* -- the session -- */
static void pass_deadlines(side *s)
{
    cb_rpc_tick(&s->session, now_ns + s->ahead_ns);
    drive_empty(s);
}

static void log_cancel(const side *s, uint32_t call, int code)
{
    head(s, "cancelled");
    say(",\"call\":%lu,\"code\":%d", (unsigned long)call, code);
    finish();
}

static void call_later(side *s)
{
    cb_rpc_call call;
    uint32_t number_of_call = s->calls;
    side *peer = &sides[1 - s->index];
    number n;
    n.n = (int32_t)chance(1000);
    switch (chance(7)) {
    case 0: /* cancelled while it travels or waits, or when its answer is on the way */
        send_call(s, "later", &n, 0, "E_CANCELLED", &call);
        if (chance(3) != 0) {
            deliver(s, chance(2) != 0);
        }
        while (chance(3) == 0 && peer->token_count != 0) {
            answer_late(peer, chance(peer->token_count));
        }
        log_cancel(s, number_of_call, 8);
        check(cb_rpc_call_cancel(&s->session, call), CB_RPC_OK, "cancel");
        drive_empty(s);
        break;
    case 1: /* its deadline passes here */
        deliver_all();
        send_call(s, "later", &n, 1500000u + chance(3) * 250000u, "E_TIMEOUT", NULL);
        if (chance(2) != 0) {
            deliver_all();
        }
        if (chance(3) == 0 && peer->token_count != 0) {
            answer_late(peer, peer->token_count - 1u); /* in time, but it does not arrive in time */
        }
        now_ns += 9000000u;
        log_cancel(s, number_of_call, 6);
        pass_deadlines(s);
        break;
    case 2: /* its deadline passes there first */
        deliver_all();
        if (peer->token_count < 4) {
            send_call(s, "later", &n, 3000000u, "E_PEER_TIMEOUT", NULL);
            deliver(s, true);
            peer->ahead_ns += 3000000u;
            pass_deadlines(peer);
            deliver_all();
            break;
        }
        send_call(s, "later", &n, 0xFFFFFFFFu * (uint64_t)1000000u, "OK E_REFUSED E_PEER_BUSY", NULL);
        break;
    case 3:
        send_call(s, "later", &n, chance(2) != 0 ? 86400000000000u : UINT64_MAX / 2u, /* more than a number on the wire can say */
                  "OK E_REFUSED E_PEER_BUSY", NULL);
        break;
    default:
        send_call(s, "later", &n, 0, "OK E_REFUSED E_PEER_BUSY", NULL);
        break;
    }
}

static void call_words(side *s)
{
    static words w;
    uint32_t size = 2048; /* the lesser of the two frame limits holds both ways */
    switch (chance(4)) {
    case 0: some_text(w.said, 60); break;
    case 1: some_text(w.said, 1900); break;
    default: /* the longest that a frame takes: the engine says when */
        memset(w.said, chance(2) == 0 ? 'D' : 'x', size);
        for (w.said[size] = '\0'; !send_call(s, "echo_words", &w, 0, "OK E_ANSWER_TOO_BIG", NULL); w.said[--size] = '\0') {
        }
        return;
    }
    send_call(s, "echo_words", &w, 0, "OK E_ANSWER_TOO_BIG", NULL);
}

static void call_refuse(side *s)
{
    static words w;
    static const char *const reasons[] = { "!", "", "no", "the room is full", "\xE2\x82\xAC 5 are owed" };
    uint32_t which = chance(7);
    if (which < 5) {
        strcpy(w.said, reasons[which]);
    } else {
        memset(w.said, 'r', 200);
        strcpy(w.said + 199, which == 5 ? "r" : "\xC3\xA4"); /* as long as a reason may be, and a byte longer: cut before the character */
    }
    send_call(s, "refuse", &w, 0, which == 0 ? "E_HANDLER" : "E_REFUSED", NULL);
}

static void call_profile(side *s)
{
    static profile p;
    memset(&p, 0, sizeof p);
    profile_some(&p);
    corrupt_next = chance(8) == 0;
    p.sums_count = p.sums_count > 60u ? 60u : p.sums_count; /* small enough for a's frames; 300 would be 3,000 bytes */
    if (!send_call(s, "echo_profile", &p, 0, corrupt_next ? "E_ARGUMENTS" : "OK E_ANSWER_TOO_BIG", NULL)) {
        verdict("failed", s->name, "a profile was too long");
    }
}

static void call_differing(side *s)
{
    static scalars sc;
    number n;
    point p;
    memset(&p, 0, sizeof p);
    number_some(&n);
    point_some(&p);
    switch (chance(s->index == 0 ? 4 : 3)) {
    case 0:
        if (s->index == 0) {
            send_call(s, "altered", &p, 0, "E_LAYOUT", NULL);
        } else {
            scalars_some(&sc);
            send_call(s, "altered", &sc, 0, "E_LAYOUT", NULL);
        }
        break;
    case 1: send_call(s, s->index == 0 ? "an_event_there" : "missing_b", &n, 0, s->index == 0 ? "E_LAYOUT" : "E_UNKNOWN_METHOD", NULL); break;
    case 2: send_call(s, "unhandled", &n, 0, "E_UNKNOWN_METHOD", NULL); break;
    default: send_call(s, "missing", &n, 0, "E_UNKNOWN_METHOD", NULL); break;
    }
}

static void some_event(side *s)
{
    static profile p;
    nothing none;
    number n;
    point at;
    memset(&none, 0, sizeof none);
    number_some(&n);
    switch (chance(6)) {
    case 0:
        memset(&p, 0, sizeof p);
        profile_some(&p);
        p.sums_count = p.sums_count > 60u ? 60u : p.sums_count;
        send_event(s, "noticed", &p);
        break;
    case 1:
        if (s->index == 0) {
            send_event(s, "a_call_there", &n);
            break;
        }
        /* fall through */
    case 2:
        if (s->index == 0) {
            memset(&at, 0, sizeof at);
            point_some(&at);
            send_event(s, "noticed_altered", &at);
            break;
        }
        /* fall through */
    case 3:
        if (s->index == 0) {
            send_event(s, "noticed_missing", &n);
            break;
        }
        /* fall through */
    default: send_event(s, "tick", &none); break;
    }
}

static void one_call(side *s)
{
    scalars sc;
    number n;
    nothing none;
    switch (chance(12)) {
    case 0: case 1: case 2:
        number_some(&n);
        send_call(s, "twice", &n, chance(8) == 0 ? 1000000000u + chance(3) : 0, "OK", NULL);
        break;
    case 3:
        memset(&sc, 0, sizeof sc);
        scalars_some(&sc);
        send_call(s, "echo_scalars", &sc, 0, "OK", NULL);
        break;
    case 4: case 5: call_profile(s); break;
    case 6: call_words(s); break;
    case 7: call_refuse(s); break;
    case 8: call_differing(s); break;
    case 9:
        memset(&none, 0, sizeof none);
        send_call(s, "nothing_at_all", &none, 0, "OK", NULL);
        break;
    case 10:
        if (chance(8) == 0) { /* more at once than the peer lets wait */
            side *peer = &sides[1 - s->index];
            uint32_t i;
            deliver_all();
            for (i = 0; i < 8u && sides[0].calls + sides[1].calls < 1000u; i++) {
                n.n = (int32_t)i;
                send_call(s, "later", &n, 0, "OK E_REFUSED E_PEER_BUSY", NULL);
            }
            deliver_all();
            while (peer->token_count > 1u) {
                answer_late(peer, chance(peer->token_count));
            }
            break;
        }
        /* fall through */
    default: call_later(s); break;
    }
}

static void talk(void)
{
    while (sides[0].calls + sides[1].calls < 1000u) {
        side *s = &sides[chance(4) == 0];
        one_call(s);
        if (chance(5) == 0) {
            some_event(&sides[chance(2)]);
        }
        if (chance(3) == 0) {
            deliver(&sides[0], chance(2) == 0);
        }
        if (chance(3) == 0) {
            deliver(&sides[1], chance(2) == 0);
        }
        if (sides[1].token_count > 2u || (chance(4) == 0 && sides[1].token_count != 0)) {
            answer_late(&sides[1], chance(sides[1].token_count));
        }
        if (sides[0].token_count > 2u || (chance(3) == 0 && sides[0].token_count != 0)) {
            answer_late(&sides[0], chance(sides[0].token_count));
        }
        if (chance(12) == 0) {
            deliver_all();
        }
        if (chance(4) == 0) {
            now_ns += 1000u * chance(1000);
        }
    }
    deliver_all();
    while (sides[0].token_count != 0) {
        answer_late(&sides[0], 0);
    }
    while (sides[1].token_count != 0) {
        answer_late(&sides[1], 0);
    }
    deliver_all();
}

/* -- making the two sides: the same list, but b numbers it otherwise, misses a method and has others under the same names -- */
static void add_row(side *s, const cb_rpc_slot *from, const char *name, uint16_t number_of_row)
{
    size_t i = s->contract.count++;
    s->rows[i] = *from->row;
    s->rows[i].name = name;
    s->rows[i].number = number_of_row;
    s->slots[i].row = &s->rows[i];
    s->slots[i].handler_at = from->handler_at;
}

static void make_rows(side *s)
{
    const cb_rpc_contract *all = wire_contract();
    static cb_rpc_type broken;
    size_t i;
    broken = *cb_rpc_row_of_echo_profile.args;
    broken.encode = encode_broken;
    for (i = 0; i < all->count; i++) {
        const cb_rpc_slot *slot = &all->slots[i];
        const char *name = slot->row->name;
        size_t length = strlen(name);
        bool is_b = length > 2 && strcmp(name + length - 2, "_b") == 0;
        if (s->index == 0 && !is_b) {
            add_row(s, slot, name, slot->row->number);
        } else if (s->index != 0 && is_b) {
            static char names[8][32];
            char *own = names[s->contract.count % 8u];
            memcpy(own, name, length - 2);
            own[length - 2] = '\0';
            add_row(s, slot, own, (uint16_t)(slot->row->number - 390u)); /* 11 to 14 */
        } else if (s->index != 0 && strcmp(name, "missing") == 0) {
            add_row(s, slot, "missing_b", 200);
        } else if (s->index != 0 && slot->row->number != 301 && slot->row->number != 302 &&
                   (slot->row->number < 21 || slot->row->number > 23)) {
            add_row(s, slot, name, (uint16_t)(1024u - slot->row->number)); /* the other way round */
        }
    }
    for (i = 0; i < s->contract.count; i++) {
        if (strcmp(s->rows[i].name, "echo_profile") == 0) {
            s->rows[i].args = &broken;
        }
    }
    s->contract.name = s->name;
    s->contract.slots = s->slots;
}

static int by_number(const void *a, const void *b)
{
    return (int)((const cb_rpc_row *)a)->number - (int)((const cb_rpc_row *)b)->number;
}

static void log_hello(side *s, const cb_rpc_hub_desc *d)
{
    cb_rpc_row sorted[ROWS_MAX];
    size_t i;
    memcpy(sorted, s->rows, sizeof sorted);
    qsort(sorted, s->contract.count, sizeof sorted[0], by_number);
    head(s, "hello");
    say(",\"frame_bytes_max\":%lu,\"calls_max\":%lu,\"methods\":[", (unsigned long)d->frame_bytes_max, (unsigned long)d->calls_waiting_max);
    for (i = 0; i < s->contract.count; i++) {
        say("%s{\"number\":%u,\"is_event\":%s,\"name\":\"%s\",\"args\":\"%016llx\",\"reply\":\"%016llx\"}", i != 0 ? "," : "",
            (unsigned)sorted[i].number, sorted[i].is_event ? "true" : "false", sorted[i].name,
            (unsigned long long)sorted[i].args->layout_hash(),
            (unsigned long long)(sorted[i].reply != NULL ? sorted[i].reply->layout_hash() : 0));
    }
    say("]");
    finish();
}

static void make_side(side *s, int index)
{
    cb_rpc_hub_desc d;
    cb_rpc_session_desc sd;
    s->name = index == 0 ? "a" : "b";
    s->index = index;
    make_rows(s);
    memset(&d, 0, sizeof d);
    wire_bind(&d, &handlers, NULL);
    d.contract = &s->contract;
    d.frame_bytes_max = index == 0 ? 2048 : 8192;
    d.calls_waiting_max = 5;
    d.on_cancel = on_cancel;
    check(cb_rpc_hub_init(&s->hub, &d), CB_RPC_OK, "hub_init");
    memset(&sd, 0, sizeof sd);
    sd.sink.room = sink_room;
    sd.sink.reserve = sink_reserve;
    sd.sink.commit = sink_commit;
    sd.sink.user = s;
    sd.sink.piece_max = sizeof s->piece;
    sd.is_message_based = is_messages;
    sd.is_server = index != 0;
    sd.user = s;
    check(cb_rpc_session_init(&s->session, &s->hub, &sd), CB_RPC_OK, "session_init");
    log_hello(s, &d);
}

static FILE *open_file(const char *folder, const char *name)
{
    char path[1000];
    FILE *f;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path || (f = fopen(path, "wb")) == NULL) {
        fprintf(stderr, "capture: cannot write %s in %s\n", name, folder);
        exit(2);
    }
    return f;
}

static void options(int argc, char **argv)
{
    int i;
    for (i = 2; i < argc; i++) {
        if (strcmp(argv[i], "messages") == 0) {
            is_messages = true;
        } else if (strcmp(argv[i], "change") == 0 && i + 3 < argc) {
            change_side = argv[i + 1][0] == 'b';
            change_offset = (size_t)strtoul(argv[i + 2], NULL, 10);
            change_value = (uint8_t)strtoul(argv[i + 3], NULL, 10);
            i += 3;
        } else {
            fprintf(stderr, "usage: capture FOLDER [messages] [change SIDE OFFSET VALUE]\n");
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    size_t i;
    if (argc < 2) {
        fprintf(stderr, "usage: capture FOLDER [messages] [change SIDE OFFSET VALUE]\n");
        return 2;
    }
    options(argc, argv);
    for (i = 0; i < sizeof view_bytes; i++) {
        view_bytes[i] = (uint8_t)(i * 7u);
    }
    log_file = open_file(argv[1], "log.jsonl");
    capture_file = open_file(argv[1], "capture");
    fprintf(capture_file, "cbcap1\n%c", is_messages ? 'm' : 's');
    make_side(&sides[0], 0);
    make_side(&sides[1], 1);
    drive_empty(&sides[0]);
    drive_empty(&sides[1]);
    talk();
    fclose(capture_file);
    fclose(log_file);
    for (i = 0; i < 2; i++) {
        check(cb_rpc_session_deinit(&sides[i].session), CB_RPC_OK, "session_deinit");
        check(cb_rpc_hub_deinit(&sides[i].hub), CB_RPC_OK, "hub_deinit");
        free(sides[i].out);
        free(sides[i].ends);
        free(sides[i].in);
    }
    printf("verdict: accepted: %lu calls\n", (unsigned long)(sides[0].calls + sides[1].calls));
    return change_side >= 0;
}
