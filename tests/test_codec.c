/* test_codec.c - tests of cb_codec.h. Byte vectors are worked out by hand (docs/wire-codec.md shows how),
 * never taken from the code; a second writer in this file, bit by bit and without tables, is what random
 * messages are held against. Straight-line code (CB_CODEC_FAST) and the walks over tables (cb_codec_encode,
 * cb_codec_decode) are both run on all. */
#define CB_CODEC_IMPLEMENTATION
#if !defined(CB_CODEC_SMALL)
#define CB_CODEC_FAST 1 /* also where this file is compiled without optimisation */
#endif
#include "cb_codec.h"
#ifndef CB_CODEC_IMPLEMENTED
#error "the implementation of cb_codec.h was not compiled"
#endif
#include "support/cbt.h"

/* ---- schemas: one for each kind, and one with all ---- */
#define INTS(F) F(u8, a) F(u16, b) F(u32, c) F(u64, d) F(i8, e) F(i16, f) F(i32, g) F(i64, h)
CB_CODEC_SCHEMA(ints, INTS)
#define REALS(F) F(f32, a) F(f64, b)
CB_CODEC_SCHEMA(reals, REALS)
#define VARS(F) F(varu, u) F(vari, i)
CB_CODEC_SCHEMA(vars, VARS)
#define SMALLS(F) F(flag, a) F(range, b, -5, 10) F(enum, c, 5) F(flag, d)
CB_CODEC_SCHEMA(smalls, SMALLS)
#define PART(F) F(range, n, 1, 5)
CB_CODEC_SCHEMA(part, PART)
#define WIDE(F) \
    F(range, a, -2147483647 - 1, 2147483647) F(enum, b, 2147483647) F(flag, c) F(quant, d, -1000, 1000, 24)
CB_CODEC_SCHEMA(wide, WIDE)
#define LEVELS(F) F(quant, a, 0, 255, 8) F(quant, b, -1, 1, 2)
CB_CODEC_SCHEMA(levels, LEVELS)
#define WORDS(F) F(text, a, 5) F(text, b, 300) F(text, c, 70000)
CB_CODEC_SCHEMA(words, WORDS)
#define BLOBS(F) F(bytes, a, 4) F(view, b, 300)
CB_CODEC_SCHEMA(blobs, BLOBS)
#define POINT(F) F(i16, x) F(i16, y)
CB_CODEC_SCHEMA(point, POINT)
#define SPOT(F) F(flag, lit) F(quant, level, 0, 7, 3) F(u8, id)
CB_CODEC_SCHEMA(spot, SPOT)
#define LISTS(F) \
    F(list, a, u16, 32) F(list, b, flag, 300) F(list, c, vari, 4) F(list, d, point, 3) F(list, e, spot, 3)
CB_CODEC_SCHEMA(lists, LISTS)
#define NESTS(F) F(flag, a) F(nest, b, spot) F(flag, c) F(nest, d, point)
CB_CODEC_SCHEMA(nests, NESTS)
CB_CODEC_EMPTY(nothing)
#define OPTS(F) F(opt, a, u32) F(opt, b, spot) F(opt, c, flag) F(opt, d, vari) F(opt, e, nothing)
CB_CODEC_SCHEMA(opts, OPTS)
#define DEEP_1(F) F(enum, kind, 3) F(text, name, 8)
CB_CODEC_SCHEMA(deep_1, DEEP_1)
#define DEEP_2(F) F(flag, on) F(list, parts, deep_1, 4)
CB_CODEC_SCHEMA(deep_2, DEEP_2)
#define DEEP_3(F) F(opt, arm, deep_2) F(nest, leg, deep_2) F(u8, after)
CB_CODEC_SCHEMA(deep_3, DEEP_3)
#define BULK(F) F(list, items, u8, 70000)
CB_CODEC_SCHEMA(bulk, BULK)
#define ENTITY(F) F(u8, a) F(u8, b) F(u8, c) F(u8, d) F(u8, e) F(u8, f)
CB_CODEC_SCHEMA(entity, ENTITY)
#define ENTITIES(F) F(list, items, entity, 100)
CB_CODEC_SCHEMA(entities, ENTITIES)
#define BOOLS(F) F(list, items, flag, 1000)
CB_CODEC_SCHEMA(bools, BOOLS)
#define PLAYER(F)                   \
    F(u32,   id)                    \
    F(text,  name, 24)              \
    F(quant, x, -8192, 8192, 16)    \
    F(quant, y, -8192, 8192, 16)    \
    F(flag,  alive)                 \
    F(list,  items, u16, 32)
CB_CODEC_SCHEMA(player, PLAYER)

#define EVERY(F) \
    F(u8, a) F(flag, b) F(u16, c) F(u32, d) F(range, e, -100, 1000) F(u64, f) F(i8, g) F(enum, h, 200) \
    F(i16, i) F(i32, j) F(i64, k) F(quant, l, -64, 64, 20) F(f32, m) F(f64, n) F(varu, o) F(vari, p) \
    F(text, q, 12) F(bytes, r, 300) F(view, s, 9) F(list, t, u32, 5) F(list, u, flag, 40) F(list, v, varu, 6) \
    F(list, w, spot, 4) F(list, x, point, 7) F(nest, y, spot) F(opt, z, i16) F(opt, aa, spot) \
    F(nest, bb, deep_3) F(flag, cc) F(list, dd, deep_2, 2) F(opt, ee, point) F(list, ff, f64, 3)
CB_CODEC_SCHEMA(every, EVERY)

/* ---- any schema through one set of pointers ---- */
typedef struct ops {
    const cb_codec_schema *(*schema)(void);
    cb_codec_status (*encode)(const void *, uint8_t *, size_t, size_t *, cb_codec_error *);
    cb_codec_status (*decode)(void *, const uint8_t *, size_t, cb_codec_error *);
    size_t (*size)(const void *);
    bool (*equal)(const void *, const void *);
    cb_codec_status (*brief)(void *, const uint8_t *, size_t); /* what decode says under CB_CODEC_BRIEF */
} ops;

#if defined(CB_CODEC_FAST)
#define BRIEF(T) \
    cbi_codec_get g; \
    g.at = in; \
    g.slack = size; \
    if (cbi_codec_get_some_##T(&g, (T *)v, 1) && cbi_codec_get_end(&g)) { \
        return CB_CODEC_OK; \
    } \
    return cbi_codec_rule_status(g.fault.rule);
#else
#define BRIEF(T) return T##_decode((T *)v, in, size, NULL);
#endif

#define OPS(T) \
    static cb_codec_status T##_enc(const void *v, uint8_t *out, size_t cap, size_t *size, \
        cb_codec_error *why) \
    { \
        return T##_encode((const T *)v, out, cap, size, why); \
    } \
    static cb_codec_status T##_dec(void *v, const uint8_t *in, size_t size, cb_codec_error *why) \
    { \
        return T##_decode((T *)v, in, size, why); \
    } \
    static size_t T##_siz(const void *v) { return T##_size((const T *)v); } \
    static bool T##_equ(const void *a, const void *b) { return T##_equal((const T *)a, (const T *)b); } \
    static cb_codec_status T##_bri(void *v, const uint8_t *in, size_t size) { BRIEF(T) } \
    static const ops T##_ops = { T##_schema, T##_enc, T##_dec, T##_siz, T##_equ, T##_bri };
OPS(ints) OPS(reals) OPS(vars) OPS(smalls) OPS(wide) OPS(levels) OPS(words) OPS(blobs) OPS(lists) OPS(nests)
OPS(opts) OPS(part) OPS(deep_3) OPS(bulk) OPS(entities) OPS(bools) OPS(player) OPS(every) OPS(nothing)

static void clear_error(cb_codec_error *why)
{
    memset(why, 0, sizeof *why);
}

static size_t from_hex(const char *hex, uint8_t *out)
{
    size_t n = 0;
    while (*hex != 0) {
        unsigned value;
        if (*hex == ' ') {
            hex++;
            continue;
        }
        if (sscanf(hex, "%2x", &value) != 1) {
            abort();
        }
        out[n++] = (uint8_t)value;
        hex += 2;
    }
    return n;
}

/* What straight-line code and the walk over the table say about these bytes, which must be the same. The
 * bytes are given at their exact size and at an odd address. *v: what was decoded. */
static cb_codec_status decode_both(const ops *t, void *v, const uint8_t *bytes, size_t size,
    cb_codec_error *why)
{
    size_t memory = t->schema()->memory;
    uint8_t *block = (uint8_t *)malloc(size + 1u);
    uint8_t *other = (uint8_t *)malloc(memory);
    cb_codec_error slow_why;
    cb_codec_status fast, slow;
    if (block == NULL || other == NULL) {
        abort();
    }
    memset(other, 0x5a, memory);
    if (size != 0) {
        memcpy(block + 1, bytes, size);
    }
    clear_error(why);
    clear_error(&slow_why);
    fast = t->decode(v, block + 1, size, why);
    slow = cb_codec_decode(t->schema(), other, block + 1, size, &slow_why);
    CBT_EQ(fast, slow);
    CBT_EQ(t->brief(other, block + 1, size), slow);
    /* once more into what is not zero now */
    slow = cb_codec_decode(t->schema(), other, block + 1, size, &slow_why);
    CBT_EQ(fast, slow);
    CBT_STR(why->field, slow_why.field);
    CBT_STR(why->reason, slow_why.reason);
    CBT_EQ(why->field[0] == 0, fast == CB_CODEC_OK); /* written on failure, and only then */
    if (fast == CB_CODEC_OK) { /* views still point into block: compared before it goes */
        uint8_t *again = (uint8_t *)malloc(size + 1u);
        size_t used = 0;
        CBT_CHECK(t->equal(v, other));
        CBT_CHECK(again != NULL && t->encode(other, again, size, &used, NULL) == CB_CODEC_OK);
        CBT_EQ(used, size); /* one value, one form: what decode accepts is what encode writes */
        CBT_MEM(again, block + 1, size);
        free(again);
    }
    free(other);
    free(block);
    return fast;
}

static void refused(const ops *t, const char *hex, cb_codec_status status, const char *field,
    const char *reason)
{
    static uint8_t bytes[1024];
    size_t memory = t->schema()->memory, i, size = from_hex(hex, bytes);
    uint8_t *v = (uint8_t *)malloc(memory);
    cb_codec_error why;
    if (v == NULL) {
        abort();
    }
    memset(v, 0xa5, memory);
    CBT_EQ(decode_both(t, v, bytes, size, &why), status);
    CBT_STR(why.field, field);
    CBT_STR(why.reason, reason);
    i = 0;
    while (i < memory && v[i] == 0) {
        i++;
    }
    CBT_EQ(i, memory); /* nothing of a refused message is left */
    free(v);
}

/* Every capacity below the size is refused, with nothing written behind it and *size as it was. */
static void every_capacity(const ops *t, const void *v, size_t size)
{
    size_t cap, got;
    for (cap = 0; cap < size; cap++) {
        uint8_t *out = (uint8_t *)malloc(cap + 1u); /* exact: one byte more is a report of the sanitizer */
        if (out == NULL) {
            abort();
        }
        out[cap] = 0xee;
        got = 77;
        CBT_EQ(t->encode(v, out, cap, &got, NULL), CB_CODEC_E_FULL);
        CBT_EQ(cb_codec_encode(t->schema(), v, out, cap, &got, NULL), CB_CODEC_E_FULL);
        CBT_EQ(got, 77);
        CBT_EQ(out[cap], 0xee);
        free(out);
    }
}

/* v encodes to exactly these bytes, in both ways, and back; every cut of them and one byte more is refused. */
static void exactly(const ops *t, const void *v, const uint8_t *bytes, size_t size)
{
    size_t memory = t->schema()->memory, got = 0, i;
    uint8_t *out = (uint8_t *)malloc(size + 1u), *back = (uint8_t *)malloc(memory);
    cb_codec_error why;
    if (out == NULL || back == NULL) {
        abort();
    }
    clear_error(&why);
    CBT_EQ(t->size(v), size);
    CBT_CHECK(size >= t->schema()->min_size && size <= t->schema()->max_size);
    CBT_EQ(t->encode(v, out, size, &got, &why), CB_CODEC_OK);
    CBT_STR(why.reason, "");
    CBT_EQ(got, size);
    CBT_MEM(out, bytes, size);
    memset(out, 0, size);
    CBT_EQ(cb_codec_encode(t->schema(), v, out, size, &got, &why), CB_CODEC_OK);
    CBT_EQ(got, size);
    CBT_MEM(out, bytes, size);
    memset(back, 0xa5, memory);
    CBT_EQ(t->decode(back, bytes, size, NULL), CB_CODEC_OK);
    CBT_CHECK(t->equal(back, v));
    CBT_EQ(decode_both(t, back, bytes, size, &why), CB_CODEC_OK);
    for (i = 0; i < size; i++) {
        cb_codec_status st = decode_both(t, back, bytes, i, &why);
        CBT_CHECK(st != CB_CODEC_OK);
    }
    memcpy(out, bytes, size);
    out[size] = 0;
    CBT_EQ(decode_both(t, back, out, size + 1u, &why), CB_CODEC_E_TRAILING);
    CBT_STR(why.reason, "1 bytes left over");
    free(out);
    free(back);
    every_capacity(t, v, size);
}

static void exactly_hex(const ops *t, const void *v, const char *hex)
{
    static uint8_t bytes[1024];
    exactly(t, v, bytes, from_hex(hex, bytes));
}

/* encode refuses this value in both ways, with this reason; *size stays. */
static void unencodable(const ops *t, const void *v, const char *field, const char *reason)
{
    static uint8_t out[80000];
    cb_codec_error why;
    size_t size = 77;
    clear_error(&why);
    CBT_EQ(t->encode(v, out, sizeof out, &size, &why), CB_CODEC_E_VALUE);
    CBT_STR(why.field, field);
    CBT_STR(why.reason, reason);
    CBT_EQ(cb_codec_encode(t->schema(), v, out, sizeof out, &size, NULL), CB_CODEC_E_VALUE);
    clear_error(&why);
    CBT_EQ(cb_codec_validate(t->schema(), v, &why), CB_CODEC_E_VALUE);
    CBT_STR(why.field, field);
    CBT_EQ(size, 77);
}

/* ---- golden vectors, one kind after the other ---- */
static void codec_integers_are_little_endian(void)
{
    ints v;
    memset(&v, 0, sizeof v);
    v.a = 0x12;
    v.b = 0x3456;
    v.c = 0x789abcde;
    v.d = UINT64_C(0x0123456789abcdef);
    v.e = -2;
    v.f = -3;
    v.g = -4;
    v.h = -5;
    exactly_hex(&ints_ops, &v, "12 5634 debc9a78 efcdab8967452301 fe fdff fcffffff fbffffffffffffff");
    CBT_EQ(INTS_MIN_SIZE, 30);
    CBT_EQ(INTS_MAX_SIZE, 30);
}

static void codec_floats_keep_every_bit(void)
{
    reals v;
    uint32_t nan32 = 0x7fc12345;
    uint64_t nan64 = UINT64_C(0xfff0000000000001);
    memset(&v, 0, sizeof v);
    v.a = 1.5f; /* 0x3fc00000 */
    v.b = -2.0; /* 0xc000000000000000 */
    exactly_hex(&reals_ops, &v, "0000c03f 00000000000000c0");
    v.a = -0.0f;
    v.b = 0.0;
    exactly_hex(&reals_ops, &v, "00000080 0000000000000000");
    /* quiet and signalling NaN with their payloads; memcpy, for x87 would quieten them */
    memcpy(&v.a, &nan32, 4);
    memcpy(&v.b, &nan64, 8);
    exactly_hex(&reals_ops, &v, "4523c17f 010000000000f0ff");
}

static void codec_varints_take_the_least_bytes(void)
{
    static const struct { uint64_t u; int64_t i; const char *hex; } rows[] = {
        { 0, 0, "00 00" }, { 1, -1, "01 01" }, { 127, -64, "7f 7f" }, { 128, 64, "8001 8001" },
        { 300, 63, "ac02 7e" },
        { 16383, -8192, "ff7f ff7f" }, { 16384, 8192, "808001 808001" },
        { UINT64_MAX, INT64_MIN, "ffffffffffffffffff01 ffffffffffffffffff01" },
        { UINT64_C(1) << 63, INT64_MAX, "80808080808080808001 feffffffffffffffff01" },
    };
    size_t i;
    vars v;
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        v.u = rows[i].u;
        v.i = rows[i].i;
        exactly_hex(&vars_ops, &v, rows[i].hex);
    }
}

/* Bits 0: a; 1 to 4: b + 5 = 8; 5 to 7: c = 4; 8: d. So 1 + (8 << 1) + (4 << 5) = 145 = 0x91, then 1. */
static void codec_bits_fill_bytes_from_the_lowest(void)
{
    smalls v;
    memset(&v, 0, sizeof v);
    v.a = true;
    v.b = 3;
    v.c = 4;
    v.d = true;
    exactly_hex(&smalls_ops, &v, "91 01");
    v.a = false;
    v.b = -5;
    v.c = 0;
    v.d = false;
    exactly_hex(&smalls_ops, &v, "00 00");
    v.b = 10; /* 15 << 1 */
    exactly_hex(&smalls_ops, &v, "1e 00");
    CBT_EQ(SMALLS_MAX_SIZE, 2);
}

/* 32 + 31 + 1 + 24 bits: numbers that end exactly on the steps in which the block is filled. */
static void codec_bits_of_full_width(void)
{
    wide v;
    memset(&v, 0, sizeof v);
    v.a = INT32_MIN;
    v.d = -1000.0f;
    exactly_hex(&wide_ops, &v, "00000000 00000000 000000");
    v.a = INT32_MAX;
    v.b = 2147483646;
    v.c = true;
    v.d = 1000.0f;
    exactly_hex(&wide_ops, &v, "ffffffff feffffff ffffff");
    v.a = 0; /* 2^31 from lo */
    v.b = 1;
    v.c = false;
    v.d = -1000.0f;
    exactly_hex(&wide_ops, &v, "00000080 01000000 000000");
    CBT_EQ(WIDE_MAX_SIZE, 11);
}

/* a has 255 steps of 1; b has 3 steps of 2/3 from -1. Two bits of b stand above the eight of a. */
static void codec_quants_take_the_nearest_step_and_saturate(void)
{
    static const struct { float a, b; const char *hex; } rows[] = {
        { 3.4f, -1.0f, "03 00" }, { 3.6f, -0.7f, "04 00" }, { -1.0f, -0.6f, "00 01" },
        { 1e30f, 0.4f, "ff 02" },
        { 254.6f, 0.6f, "ff 02" }, { 0.4f, 0.7f, "00 03" }, { 255.0f, 5.0f, "ff 03" },
    };
    size_t i, size = 0;
    uint8_t out[2], want[2];
    levels v, back;
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        v.a = rows[i].a;
        v.b = rows[i].b;
        from_hex(rows[i].hex, want);
        CBT_EQ(levels_encode(&v, out, sizeof out, &size, NULL), CB_CODEC_OK);
        CBT_MEM(out, want, 2);
        CBT_EQ(levels_decode(&back, out, size, NULL), CB_CODEC_OK);
        CBT_CHECK(levels_equal(&v, &back)); /* by step, so what was rounded is equal */
    }
    /* the ends are exact */
    CBT_CHECK(back.a >= 255.0f && back.a <= 255.0f && back.b >= 1.0f && back.b <= 1.0f);
    v.a = 300.0f;
    v.b = -1e-3f;
    exactly_hex(&levels_ops, &v, "ff 01");
}

static void codec_every_step_of_a_quant_comes_back(void)
{
    uint32_t step;
    wide v, back;
    size_t size = 0;
    uint8_t out[WIDE_MAX_SIZE];
    memset(&v, 0, sizeof v);
    for (step = 0; step < (1u << 24); step += 1u + cbt_rand_below(997)) {
        v.d = cbi_codec_dequantise(step, -1000, 1000, 24);
        CBT_EQ(cbi_codec_quantise(v.d, -1000, 1000, 24), step);
        CBT_EQ(wide_encode(&v, out, sizeof out, &size, NULL), CB_CODEC_OK);
        CBT_EQ(out[8] | (uint32_t)out[9] << 8 | (uint32_t)out[10] << 16, step);
        CBT_EQ(wide_decode(&back, out, size, NULL), CB_CODEC_OK);
        CBT_CHECK(back.d >= v.d && back.d <= v.d);
    }
}

static void codec_text_has_a_length_as_wide_as_its_bound(void)
{
    static words v;
    memset(&v, 0, sizeof v);
    CBT_EQ(CB_CODEC_SET_TEXT(&v, a, "ab"), CB_CODEC_OK);
    CBT_EQ(CB_CODEC_SET_TEXT(&v, b, "h\xc3\xa9"), CB_CODEC_OK);
    CBT_EQ(CB_CODEC_SET_TEXT(&v, c, "c"), CB_CODEC_OK);
    exactly_hex(&words_ops, &v, "02 6162 0300 68c3a9 01000000 63");
    CBT_EQ(WORDS_MIN_SIZE, 1 + 2 + 4);
    CBT_EQ(WORDS_MAX_SIZE, 1 + 5 + 2 + 300 + 4 + 70000);
    CBT_EQ(CB_CODEC_SET_TEXT(&v, a, "12345"), CB_CODEC_OK);
    CBT_EQ(CB_CODEC_SET_TEXT(&v, b, ""), CB_CODEC_OK);
    exactly_hex(&words_ops, &v, "05 3132333435 0000 01000000 63");
}

static void codec_set_text_refuses_what_does_not_fit(void)
{
    static words v;
    memset(&v, 0, sizeof v);
    CBT_EQ(CB_CODEC_SET_TEXT(&v, a, "1234"), CB_CODEC_OK);
    CBT_EQ(CB_CODEC_SET_TEXT(&v, a, "12345"), CB_CODEC_OK);
    CBT_EQ(CB_CODEC_SET_TEXT(&v, a, "123456"), CB_CODEC_E_VALUE);
    CBT_STR(v.a, "12345");
    CBT_EQ(CB_CODEC_SET_TEXT(&v, a, "\xff"), CB_CODEC_E_VALUE);
    CBT_STR(v.a, "12345");
}

static void codec_bytes_and_views(void)
{
    static const uint8_t lent[3] = { 9, 8, 7 };
    blobs v, back;
    uint8_t in[8];
    size_t size = from_hex("02 0a0b 0300 090807", in);
    memset(&v, 0, sizeof v);
    v.a_size = 2;
    v.a[0] = 10;
    v.a[1] = 11;
    v.b.data = lent;
    v.b.size = sizeof lent;
    exactly(&blobs_ops, &v, in, size);
    CBT_EQ(blobs_decode(&back, in, size, NULL), CB_CODEC_OK);
    CBT_CHECK(back.b.data == in + 5); /* borrowed, not copied */
    memset(&v, 0, sizeof v); /* an empty view may point nowhere */
    exactly_hex(&blobs_ops, &v, "00 0000");
}

/* b: ten flags, the first and the last set: 01 02. c: -1 is 1, 64 is 128. e: 1 + (5 << 1) = 0b in a byte of
 * its own. */
static void codec_lists(void)
{
    static lists v;
    memset(&v, 0, sizeof v);
    v.a_count = 2;
    v.a[0] = 1;
    v.a[1] = 0x0203;
    v.b_count = 10;
    v.b[0] = v.b[9] = true;
    v.c_count = 2;
    v.c[0] = -1;
    v.c[1] = 64;
    v.d_count = 2;
    v.d[0].x = 1;
    v.d[0].y = -1;
    v.d[1].x = 2;
    v.e_count = 2;
    v.e[0].lit = true;
    v.e[0].level = 5;
    v.e[0].id = 0x55;
    v.e[1].id = 0x66;
    exactly_hex(&lists_ops, &v, "02 0100 0302  0a00 0102  02 01 8001  02 0100ffff 02000000  02 0b55 0066");
    memset(&v, 0, sizeof v);
    exactly_hex(&lists_ops, &v, "00 0000 00 00 00");
    CBT_EQ(LISTS_MAX_SIZE, 1 + 64 + 2 + 38 + 1 + 40 + 1 + 12 + 1 + 6);
}

/* Bit 0: a; 1: b.lit; 2 to 4: b.level = 5; 5: c. 1 + 2 + (5 << 2) + 32 = 0x37. Then b.id, then d. */
static void codec_nests_share_the_bits_of_their_parent(void)
{
    nests v;
    memset(&v, 0, sizeof v);
    v.a = v.c = v.b.lit = true;
    v.b.level = 5;
    v.b.id = 0x42;
    v.d.x = 3;
    v.d.y = -2;
    exactly_hex(&nests_ops, &v, "37 42 0300 feff");
    CBT_EQ(NESTS_MAX_SIZE, 6);
}

static void codec_opts_begin_a_block_of_their_own(void)
{
    opts v, back;
    memset(&v, 0, sizeof v);
    exactly_hex(&opts_ops, &v, "00");
    v.has_a = v.has_b = v.has_c = v.has_d = v.has_e = true;
    v.a = 7;
    v.b.lit = true;
    v.b.level = 7;
    v.b.id = 9;
    v.c = true;
    v.d = -1;
    exactly_hex(&opts_ops, &v, "1f 07000000 0f09 01 01");
    v.has_a = v.has_b = v.has_d = v.has_e = false;
    v.c = false;
    exactly_hex(&opts_ops, &v, "04 00");
    memset(&back, 0xff, sizeof back); /* an absent value becomes zero */
    CBT_EQ(opts_decode(&back, (const uint8_t *)"\0", 1, NULL), CB_CODEC_OK);
    CBT_EQ(back.a, 0);
    CBT_EQ(back.b.id, 0);
    CBT_EQ(back.d, 0);
    CBT_EQ(OPTS_MAX_SIZE, 1 + 4 + 2 + 1 + 10);
}

static void codec_a_message_without_fields_is_no_bytes(void)
{
    nothing v;
    memset(&v, 0, sizeof v);
    exactly_hex(&nothing_ops, &v, "");
    CBT_EQ(nothing_min_size, 0);
    CBT_EQ(nothing_max_size, 0);
    CBT_EQ(nothing_decode(&v, NULL, 0, NULL), CB_CODEC_OK);
}

/* 65535 steps over 16384: x = 12.5 is step floor(8204.5 * 65535 / 16384 + 0.5) = 32817 = 0x8031; y = 0 is
 * 32768. */
static void codec_player_of_the_readme(void)
{
    player v;
    memset(&v, 0, sizeof v);
    v.id = 7;
    v.x = 12.5f;
    v.alive = true;
    CB_CODEC_SET_TEXT(&v, name, "ada");
    v.items_count = 2;
    v.items[0] = 5;
    v.items[1] = 600;
    exactly_hex(&player_ops, &v, "3180 0080 01 07000000 03 616461 02 0500 5802");
    CBT_EQ(PLAYER_MIN_SIZE, 5 + 4 + 1 + 1);
    CBT_EQ(PLAYER_MAX_SIZE, 5 + 4 + 25 + 65);
}

static void codec_sizes_of_the_two_shapes(void)
{
    static entities e;
    static bools b;
    size_t i;
    uint8_t bytes[601], bits[127];
    memset(&e, 0, sizeof e);
    memset(&b, 0, sizeof b);
    e.items_count = 100;
    b.items_count = 1000;
    bytes[0] = 100;
    bits[0] = 0xe8;
    bits[1] = 0x03;
    memset(bits + 2, 0, 125);
    for (i = 0; i < 100; i++) {
        e.items[i].a = bytes[1 + 6 * i] = (uint8_t)i;
        e.items[i].b = bytes[2 + 6 * i] = (uint8_t)(i + 1);
        e.items[i].c = bytes[3 + 6 * i] = (uint8_t)(i + 2);
        e.items[i].d = bytes[4 + 6 * i] = (uint8_t)(i + 3);
        e.items[i].e = bytes[5 + 6 * i] = (uint8_t)(i + 4);
        e.items[i].f = bytes[6 + 6 * i] = (uint8_t)(i + 5);
    }
    for (i = 0; i < 1000; i++) {
        b.items[i] = i % 3u == 0;
        bits[2 + i / 8u] = (uint8_t)(bits[2 + i / 8u] | (i % 3u == 0 ? 1u << i % 8u : 0u));
    }
    CBT_EQ(ENTITIES_MAX_SIZE, 601);
    CBT_EQ(BOOLS_MAX_SIZE, 127);
    exactly(&entities_ops, &e, bytes, 601);
    exactly(&bools_ops, &b, bits, 127);
}

/* ---- each way in which bytes can be wrong ---- */
static void codec_varint_refuses_ten_bytes_that_go_on(void) /* */
{
    refused(&vars_ops, "80808080808080808080 00", CB_CODEC_E_FORM, "vars.u",
        "number longer than it needs or than 64 bits");
    refused(&vars_ops, "00 ffffffffffffffffffffff", CB_CODEC_E_FORM, "vars.i",
        "number longer than it needs or than 64 bits");
    refused(&vars_ops, "8080808080808080808000 00", CB_CODEC_E_FORM, "vars.u",
        "number longer than it needs or than 64 bits");
    refused(&vars_ops, "80 80", CB_CODEC_E_CUT, "vars.u", "1 bytes needed, 0 left");
}

static void codec_varint_refuses_above_64_bits(void) /* */
{
    vars v;
    cb_codec_error why;
    uint8_t bytes[32];
    size_t size = from_hex("ffffffffffffffffff01 00", bytes);
    CBT_EQ(decode_both(&vars_ops, &v, bytes, size, &why), CB_CODEC_OK);
    CBT_CHECK(v.u == UINT64_MAX);
    refused(&vars_ops, "ffffffffffffffffff02 00", CB_CODEC_E_FORM, "vars.u",
        "number longer than it needs or than 64 bits");
    refused(&vars_ops, "8080808080808080807f 00", CB_CODEC_E_FORM, "vars.u",
        "number longer than it needs or than 64 bits");
}

/* values, elements and opts alike; lengths have one form */
static void codec_varint_refuses_longer_forms(void)
{
    refused(&vars_ops, "8100 00", CB_CODEC_E_FORM, "vars.u", "number longer than it needs or than 64 bits");
    refused(&vars_ops, "01 818000", CB_CODEC_E_FORM, "vars.i", "number longer than it needs or than 64 bits");
    refused(&vars_ops, "80808080808080808000 00", CB_CODEC_E_FORM, "vars.u",
        "number longer than it needs or than 64 bits");
    refused(&lists_ops, "00 0000 01 8100 00 00", CB_CODEC_E_FORM, "lists.c",
        "number longer than it needs or than 64 bits");
    refused(&opts_ops, "08 8000", CB_CODEC_E_FORM, "opts.d", "number longer than it needs or than 64 bits");
}

static void codec_decode_refuses_lengths_near_the_end_of_the_type(void) /* */
{
    refused(&words_ops, "ff 0000 00000000", CB_CODEC_E_BOUND, "words.a", "255 bytes, at most 5");
    refused(&words_ops, "00 ffff 00000000", CB_CODEC_E_BOUND, "words.b", "65535 bytes, at most 300");
    refused(&words_ops, "00 0000 ffffffff", CB_CODEC_E_BOUND, "words.c", "4294967295 bytes, at most 70000");
    refused(&words_ops, "00 0000 70110100", CB_CODEC_E_CUT, "words.c", "70000 bytes needed, 0 left");
    refused(&bulk_ops, "ffffffff", CB_CODEC_E_BOUND, "bulk.items", "4294967295 elements, at most 70000");
    refused(&bulk_ops, "fcffffff", CB_CODEC_E_BOUND, "bulk.items", "4294967292 elements, at most 70000");
    refused(&bulk_ops, "71110100", CB_CODEC_E_BOUND, "bulk.items", "70001 elements, at most 70000");
}

/* each element is paid for by bytes */
static void codec_decode_refuses_counts_without_bytes(void)
{
    refused(&bulk_ops, "70110100", CB_CODEC_E_CUT, "bulk.items", "70000 bytes needed, 0 left");
    refused(&lists_ops, "20 0000 00 00 00", CB_CODEC_E_CUT, "lists.a", "64 bytes needed, 0 left");
    refused(&lists_ops, "00 2c01 00 00 00", CB_CODEC_E_CUT, "lists.b", "38 bytes needed, 0 left");
    refused(&lists_ops, "00 0000 04 00 00", CB_CODEC_E_CUT, "lists.c", "4 bytes needed, 0 left");
    refused(&lists_ops, "00 0000 00 03 00", CB_CODEC_E_CUT, "lists.d", "12 bytes needed, 0 left");
    refused(&lists_ops, "00 0000 00 00 03", CB_CODEC_E_CUT, "lists.e", "6 bytes needed, 0 left");
}

static void codec_decode_refuses_counts_above_the_bound(void)
{
    refused(&lists_ops, "21 0000 00 00 00", CB_CODEC_E_BOUND, "lists.a", "33 elements, at most 32");
    refused(&lists_ops, "00 2d01 00 00 00", CB_CODEC_E_BOUND, "lists.b", "301 elements, at most 300");
    refused(&lists_ops, "00 0000 05 00 00", CB_CODEC_E_BOUND, "lists.c", "5 elements, at most 4");
    refused(&lists_ops, "00 0000 00 04 00", CB_CODEC_E_BOUND, "lists.d", "4 elements, at most 3");
    refused(&lists_ops, "00 0000 00 00 04", CB_CODEC_E_BOUND, "lists.e", "4 elements, at most 3");
    refused(&blobs_ops, "05 0000 0000000000", CB_CODEC_E_BOUND, "blobs.a", "5 bytes, at most 4");
    refused(&blobs_ops, "00 2d01", CB_CODEC_E_BOUND, "blobs.b", "301 bytes, at most 300");
    refused(&blobs_ops, "00 0200 01", CB_CODEC_E_CUT, "blobs.b", "2 bytes needed, 1 left");
    refused(&player_ops, "3180 0080 01 07000000 00 28", CB_CODEC_E_BOUND, "player.items",
        "40 elements, at most 32");
}

static void codec_decode_refuses_numbers_beyond_their_bounds(void)
{
    refused(&smalls_ops, "a0 00", CB_CODEC_E_BOUND, "smalls.c", "5, at most 4"); /* 5 << 5 */
    refused(&smalls_ops, "e0 00", CB_CODEC_E_BOUND, "smalls.c", "7, at most 4");
    refused(&part_ops, "05", CB_CODEC_E_BOUND, "part.n", "6, allowed 1 to 5");
    refused(&part_ops, "07", CB_CODEC_E_BOUND, "part.n", "8, allowed 1 to 5");
    refused(&wide_ops, "00000000 ffffff7f 000000", CB_CODEC_E_BOUND, "wide.b",
        "2147483647, at most 2147483646");
}

static void codec_decode_refuses_unused_bits(void)
{
    refused(&smalls_ops, "00 02", CB_CODEC_E_FORM, "smalls", "unused bits set");
    refused(&smalls_ops, "00 80", CB_CODEC_E_FORM, "smalls", "unused bits set");
    refused(&nests_ops, "40 00 0000 0000", CB_CODEC_E_FORM, "nests", "unused bits set");
    refused(&opts_ops, "20", CB_CODEC_E_FORM, "opts", "unused bits set");
    refused(&opts_ops, "04 02", CB_CODEC_E_FORM, "opts.c", "unused bits set");
    refused(&opts_ops, "02 1000", CB_CODEC_E_FORM, "opts.b", "unused bits set");
    refused(&lists_ops, "00 0a00 0004 00 00 00", CB_CODEC_E_FORM, "lists.b", "unused bits set");
    refused(&lists_ops, "00 0100 80 00 00 00", CB_CODEC_E_FORM, "lists.b", "unused bits set");
    refused(&lists_ops, "00 0000 00 00 02 0000 1000", CB_CODEC_E_FORM, "lists.e[1]", "unused bits set");
}

static void codec_text_refuses_bad_utf8_and_zero_bytes(void) /* */
{
    static const char *const bad[] = {
        "80", "bf", "c0af", "c1bf", "c3", "c328", "e08080", "e09fbf", "eda080", "edbfbf", "e282", "e28228",
        "f0808080", "f08fbfbf", "f4908080", "f5808080", "f09082", "ff", "fe", "00", "610062", "6100"
    };
    static const char *const good[] = {
        "61", "7f", "c280", "dfbf", "e0a080", "ed9fbf", "ee8080", "efbfbf", "f0908080", "f48fbfbf", "6162c3a9"
    };
    size_t i, n;
    uint8_t raw[64];
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char hex[128];
        size_t lead;
        n = from_hex(bad[i], raw);
        CBT_CHECK(!cb_codec_text_valid(raw, n));
        /* behind plain text of every length, for the eight-at-once path */
        for (lead = 0; lead < 20; lead++) {
            memset(raw, 'x', lead);
            from_hex(bad[i], raw + lead);
            memset(raw + lead + n, 'y', 9);
            CBT_CHECK(!cb_codec_text_valid(raw, lead + n + 9u));
        }
        snprintf(hex, sizeof hex, "00 %02x00 %s 00000000", (unsigned)n, bad[i]);
        refused(&words_ops, hex, CB_CODEC_E_TEXT, "words.b", "not UTF-8, or a zero byte inside");
    }
    for (i = 0; i < sizeof good / sizeof good[0]; i++) {
        CBT_CHECK(cb_codec_text_valid(raw, from_hex(good[i], raw)));
    }
    CBT_CHECK(cb_codec_text_valid(NULL, 0));
}

static void codec_text_without_an_end_mark_is_refused(void) /* nothing is read beyond the field */
{
    static words v;
    char *edge = (char *)cbt_dup("abcd", 4);
    memset(&v, 0, sizeof v);
    memset(v.a, 'x', sizeof v.a);
    unencodable(&words_ops, &v, "words.a", "no end within 5 bytes");
    CBT_EQ(words_size(&v), 0);
    v.a[5] = 0;
    CBT_EQ(words_validate(&v, NULL), CB_CODEC_OK);
    v.a[1] = '\xe9';
    unencodable(&words_ops, &v, "words.a", "not UTF-8, or a zero byte inside");
    CBT_CHECK(cb_codec_text_size(edge, 3) == SIZE_MAX);
    free(edge);
}

static void codec_decode_refuses_one_byte_more(void) /* Q-18; exactly() tries it on every vector as well */
{
    refused(&smalls_ops, "00 00 00", CB_CODEC_E_TRAILING, "smalls", "1 bytes left over");
    refused(&nothing_ops, "00", CB_CODEC_E_TRAILING, "nothing", "1 bytes left over");
    refused(&lists_ops, "00 0000 00 00 00 01 02", CB_CODEC_E_TRAILING, "lists", "2 bytes left over");
}

/* arm present (1), leg.on 0; arm: bits 00, one part: bits 03 (kind 3 of 3 values), name "". leg.parts,
 * after. */
static void codec_error_inside_a_nested_part_comes_out(void)
{
    refused(&deep_3_ops, "01 00 02 00 00 03 00 00 00", CB_CODEC_E_BOUND, "deep_3.arm.parts[1].kind",
        "3, at most 2");
    refused(&deep_3_ops, "00 01 00 09 00", CB_CODEC_E_BOUND, "deep_3.leg.parts[0].name",
        "9 bytes, at most 8");
    refused(&deep_3_ops, "00 05 00", CB_CODEC_E_BOUND, "deep_3.leg.parts", "5 elements, at most 4");
    refused(&deep_3_ops, "01 02 00 00 00", CB_CODEC_E_FORM, "deep_3.arm", "unused bits set");
    refused(&deep_3_ops, "00 00 07 08", CB_CODEC_E_TRAILING, "deep_3", "1 bytes left over");
}

static void codec_no_field_takes_bytes_that_are_promised_to_others(void)
{
    /* the text may only take what is left beyond b's and c's lengths: 3 bytes are there behind the first
     * length */
    refused(&words_ops, "05 0000 00000000", CB_CODEC_E_CUT, "words.a", "5 bytes needed, 0 left");
    refused(&words_ops, "05 3132 0000 00000000", CB_CODEC_E_CUT, "words.a", "5 bytes needed, 2 left");
    refused(&vars_ops, "ff 01", CB_CODEC_E_CUT, "vars.u", "1 bytes needed, 0 left");
}

/* ---- each value that encode refuses ---- */
static void codec_encode_refuses_what_decode_refuses(void) /* Q-09, at limit and limit + 1 */
{
    static lists v;
    static bulk b;
    blobs bl;
    smalls s;
    memset(&v, 0, sizeof v);
    v.a_count = 32;
    CBT_EQ(lists_validate(&v, NULL), CB_CODEC_OK);
    v.a_count = 33;
    unencodable(&lists_ops, &v, "lists.a", "33 elements, at most 32");
    CBT_EQ(lists_size(&v), 0);
    v.a_count = UINT32_MAX;
    unencodable(&lists_ops, &v, "lists.a", "4294967295 elements, at most 32");
    v.a_count = 0;
    v.d_count = 4;
    unencodable(&lists_ops, &v, "lists.d", "4 elements, at most 3");
    b.items_count = 70000;
    CBT_EQ(bulk_size(&b), 70004);
    b.items_count = 70001;
    unencodable(&bulk_ops, &b, "bulk.items", "70001 elements, at most 70000");
    memset(&bl, 0, sizeof bl);
    bl.a_size = 5;
    unencodable(&blobs_ops, &bl, "blobs.a", "5 bytes, at most 4");
    bl.a_size = 4;
    bl.b.size = 301;
    unencodable(&blobs_ops, &bl, "blobs.b", "301 bytes, at most 300");
    memset(&s, 0, sizeof s);
    s.b = 11;
    unencodable(&smalls_ops, &s, "smalls.b", "11, allowed -5 to 10");
    s.b = -6;
    unencodable(&smalls_ops, &s, "smalls.b", "-6, allowed -5 to 10");
    s.b = INT32_MIN;
    unencodable(&smalls_ops, &s, "smalls.b", "-2147483648, allowed -5 to 10");
    s.b = 10;
    s.c = 5;
    unencodable(&smalls_ops, &s, "smalls.c", "5, at most 4");
}

static void codec_odd_scalars(void) /* */
{
    static every e;
    uint32_t nan_bits = 0x7fc00000, inf_bits = 0x7f800000, minus_inf = 0xff800000;
    smalls s;
    levels v;
    vars x;
    uint8_t out[32], two = 2;
    size_t size = 0;
    memset(&v, 0, sizeof v);
    memcpy(&v.a, &nan_bits, 4);
    unencodable(&levels_ops, &v, "levels.a", "not a number");
    memcpy(&v.a, &inf_bits, 4); /* infinite lies outside, like any large number */
    memcpy(&v.b, &minus_inf, 4);
    exactly_hex(&levels_ops, &v, "ff 00");
    memset(&s, 0, sizeof s);
    memcpy(&s.a, &two, 1); /* a bool of 2 is true, not two bits */
    CBT_EQ(smalls_encode(&s, out, sizeof out, &size, NULL), CB_CODEC_OK);
    CBT_EQ(out[0], 1 + (5 << 1));
    CBT_EQ(cb_codec_encode(smalls_schema(), &s, out, sizeof out, &size, NULL), CB_CODEC_OK);
    CBT_EQ(out[0], 1 + (5 << 1));
    x.u = 0;
    x.i = INT64_MIN; /* no negation that overflows */
    exactly_hex(&vars_ops, &x, "00 ffffffffffffffffff01");
    memset(&e, 0, sizeof e);
    e.h = UINT32_MAX;
    unencodable(&every_ops, &e, "every.h", "4294967295, at most 199");
}

static void codec_reason_for_a_full_buffer(void)
{
    smalls s;
    cb_codec_error why;
    uint8_t out[2];
    size_t size = 5;
    memset(&s, 0, sizeof s);
    CBT_EQ(smalls_encode(&s, out, 1, &size, &why), CB_CODEC_E_FULL);
    CBT_STR(why.field, "smalls");
    CBT_STR(why.reason, "2 bytes, room for 1");
    CBT_EQ(smalls_encode(&s, NULL, 0, &size, &why), CB_CODEC_E_FULL);
    CBT_EQ(size, 5);
    s.c = 9; /* a bad value is told first, whatever the room */
    CBT_EQ(smalls_encode(&s, out, 1, &size, &why), CB_CODEC_E_VALUE);
}

static void codec_long_paths_lose_their_front(void)
{
    cb_codec_error why;
    int i;
    clear_error(&why);
    for (i = 0; i < 20; i++) {
        cbi_codec_why_inside(&why, "abcdefgh");
        cbi_codec_why_element(&why, 7);
    }
    CBT_EQ(strlen(why.field), sizeof why.field - 1u);
    CBT_STR(why.field + sizeof why.field - 1u - 20u, "abcdefgh[7].abcdefgh");
}

/* ---- the second writer: one bit at a time, one field at a time, written from docs/wire-codec.md ---- */
typedef struct ref {
    uint8_t bytes[4096];
    size_t size;     /* bytes so far */
    size_t bit_base; /* where the bits of the block at hand begin */
    size_t bit_at;   /* how many of them are written */
} ref;

static size_t ref_begin(ref *r, size_t bits) /* a block; gives what ref_end takes */
{
    size_t outer = r->bit_base << 16 | r->bit_at;
    r->bit_base = r->size;
    r->bit_at = 0;
    memset(r->bytes + r->size, 0, (bits + 7u) / 8u);
    r->size += (bits + 7u) / 8u;
    return outer;
}

static void ref_end(ref *r, size_t outer)
{
    r->bit_base = outer >> 16;
    r->bit_at = outer & 0xffffu;
}

static void ref_bits(ref *r, uint64_t value, int count)
{
    int i;
    for (i = 0; i < count; i++, r->bit_at++) {
        if (value >> i & 1u) {
            r->bytes[r->bit_base + r->bit_at / 8u] |= (uint8_t)(1u << r->bit_at % 8u);
        }
    }
}

static void ref_int(ref *r, uint64_t value, int bytes)
{
    for (; bytes > 0; bytes--, value /= 256u) {
        r->bytes[r->size++] = (uint8_t)(value % 256u);
    }
}

static void ref_varu(ref *r, uint64_t value)
{
    for (; value > 127u; value /= 128u) {
        ref_int(r, 128u + value % 128u, 1);
    }
    ref_int(r, value, 1);
}

static void ref_vari(ref *r, int64_t value) /* 0, -1, 1, -2, 2 .. become 0, 1, 2, 3, 4 .. */
{
    ref_varu(r, value < 0 ? 2u * (uint64_t)(-(value + 1)) + 1u : 2u * (uint64_t)value);
}

static void ref_run(ref *r, const void *data, size_t size, int prefix)
{
    const uint8_t *p = (const uint8_t *)data;
    size_t i;
    ref_int(r, size, prefix);
    for (i = 0; i < size; i++) {
        ref_int(r, p[i], 1);
    }
}

static uint64_t ref_real(const void *real, size_t size) /* bits of a float or double as a number */
{
    uint32_t u32;
    uint64_t u64;
    memcpy(size == 4 ? (void *)&u32 : (void *)&u64, real, size);
    return size == 4 ? u32 : u64;
}

static void ref_quant(ref *r, float value, double lo, double hi, int bits) /* tries the steps around */
{
    double steps = (double)((UINT64_C(1) << bits) - 1u), best = 1e300;
    int64_t guess = (int64_t)(((double)value - lo) / (hi - lo) * steps), step, found = 0;
    for (step = guess - 2; step <= guess + 2; step++) {
        double away = lo + (double)step * (hi - lo) / steps - (double)value;
        away = away < 0 ? -away : away;
        if (step >= 0 && (double)step <= steps && away <= best) { /* ties go up */
            best = away;
            found = step;
        }
    }
    ref_bits(r, (uint64_t)found, bits);
}

static void ref_spot_bits(ref *r, const spot *v)
{
    ref_bits(r, v->lit, 1);
    ref_quant(r, v->level, 0, 7, 3);
}

static void ref_spot(ref *r, const spot *v)
{
    size_t outer = ref_begin(r, 4);
    ref_spot_bits(r, v);
    ref_int(r, v->id, 1);
    ref_end(r, outer);
}

static void ref_point(ref *r, const point *v)
{
    ref_int(r, (uint16_t)v->x, 2);
    ref_int(r, (uint16_t)v->y, 2);
}

static void ref_deep_2_bytes(ref *r, const deep_2 *v)
{
    size_t i, outer;
    ref_int(r, v->parts_count, 1);
    for (i = 0; i < v->parts_count; i++) {
        outer = ref_begin(r, 2);
        ref_bits(r, v->parts[i].kind, 2);
        ref_run(r, v->parts[i].name, strlen(v->parts[i].name), 1);
        ref_end(r, outer);
    }
}

static void ref_deep_2(ref *r, const deep_2 *v)
{
    size_t outer = ref_begin(r, 1);
    ref_bits(r, v->on, 1);
    ref_deep_2_bytes(r, v);
    ref_end(r, outer);
}

/* The bits of EVERY in the order of its fields, those of its nests in their places. */
static void ref_every_bits(ref *r, const every *v)
{
    ref_bits(r, v->b, 1);
    ref_bits(r, (uint64_t)(v->e + 100), 11);
    ref_bits(r, v->h, 8);
    ref_quant(r, v->l, -64, 64, 20);
    ref_spot_bits(r, &v->y);
    ref_bits(r, v->has_z, 1);
    ref_bits(r, v->has_aa, 1);
    ref_bits(r, v->bb.has_arm, 1);
    ref_bits(r, v->bb.leg.on, 1);
    ref_bits(r, v->cc, 1);
    ref_bits(r, v->has_ee, 1);
}

static void ref_every_lists(ref *r, const every *v)
{
    size_t i, outer;
    ref_int(r, v->t_count, 1);
    for (i = 0; i < v->t_count; i++) {
        ref_int(r, v->t[i], 4);
    }
    ref_int(r, v->u_count, 1);
    outer = ref_begin(r, v->u_count);
    for (i = 0; i < v->u_count; i++) {
        ref_bits(r, v->u[i], 1);
    }
    ref_end(r, outer);
    ref_int(r, v->v_count, 1);
    for (i = 0; i < v->v_count; i++) {
        ref_varu(r, v->v[i]);
    }
    ref_int(r, v->w_count, 1);
    for (i = 0; i < v->w_count; i++) {
        ref_spot(r, &v->w[i]);
    }
    ref_int(r, v->x_count, 1);
    for (i = 0; i < v->x_count; i++) {
        ref_point(r, &v->x[i]);
    }
}

static void ref_every(ref *r, const every *v)
{
    size_t i, outer;
    r->size = r->bit_base = r->bit_at = 0;
    outer = ref_begin(r, 50);
    ref_every_bits(r, v);
    CBT_EQ(r->bit_at, 50);
    ref_int(r, v->a, 1);
    ref_int(r, v->c, 2);
    ref_int(r, v->d, 4);
    ref_int(r, v->f, 8);
    ref_int(r, (uint8_t)v->g, 1);
    ref_int(r, (uint16_t)v->i, 2);
    ref_int(r, (uint32_t)v->j, 4);
    ref_int(r, (uint64_t)v->k, 8);
    ref_int(r, ref_real(&v->m, 4), 4);
    ref_int(r, ref_real(&v->n, 8), 8);
    ref_varu(r, v->o);
    ref_vari(r, v->p);
    ref_run(r, v->q, strlen(v->q), 1);
    ref_run(r, v->r, v->r_size, 2);
    ref_run(r, v->s.data, v->s.size, 1);
    ref_every_lists(r, v);
    ref_int(r, v->y.id, 1);
    if (v->has_z) {
        ref_int(r, (uint16_t)v->z, 2);
    }
    if (v->has_aa) {
        ref_spot(r, &v->aa);
    }
    if (v->bb.has_arm) {
        ref_deep_2(r, &v->bb.arm);
    }
    ref_deep_2_bytes(r, &v->bb.leg);
    ref_int(r, v->bb.after, 1);
    ref_int(r, v->dd_count, 1);
    for (i = 0; i < v->dd_count; i++) {
        ref_deep_2(r, &v->dd[i]);
    }
    if (v->has_ee) {
        ref_point(r, &v->ee);
    }
    ref_int(r, v->ff_count, 1);
    for (i = 0; i < v->ff_count; i++) {
        ref_int(r, ref_real(&v->ff[i], 8), 8);
    }
    ref_end(r, outer);
}

/* ---- random messages ---- */
static uint64_t random_varu(void)
{
    return cbt_rand() >> cbt_rand_below(64);
}

static float random_real(float lo, float hi)
{
    return lo + (hi - lo) * ((float)cbt_rand_below(1u << 20) / (float)(1u << 20));
}

static void random_text(char *text, uint32_t max)
{
    static const char *const pieces[] = { "a", "Z", " ", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8e\xb2" };
    size_t at = 0, want = cbt_rand_below(max + 1u);
    for (;;) {
        const char *piece = pieces[cbt_rand_below(6)];
        if (at + strlen(piece) > want) {
            break;
        }
        memcpy(text + at, piece, strlen(piece));
        at += strlen(piece);
    }
    text[at] = 0;
}

static void random_spot(spot *v)
{
    v->lit = cbt_rand_below(2) != 0;
    v->level = random_real(0, 7);
    v->id = (uint8_t)cbt_rand_below(256);
}

static void random_deep_2(deep_2 *v)
{
    size_t i;
    v->on = cbt_rand_below(2) != 0;
    v->parts_count = cbt_rand_below(5);
    for (i = 0; i < v->parts_count; i++) {
        v->parts[i].kind = cbt_rand_below(3);
        random_text(v->parts[i].name, 8);
    }
}

static void random_every_lists(every *v)
{
    size_t i;
    v->t_count = cbt_rand_below(6);
    v->u_count = cbt_rand_below(41);
    for (i = 0; i < v->u_count; i++) {
        v->u[i] = cbt_rand_below(2) != 0;
    }
    v->v_count = cbt_rand_below(7);
    for (i = 0; i < v->v_count; i++) {
        v->v[i] = random_varu();
    }
    v->w_count = cbt_rand_below(5);
    for (i = 0; i < v->w_count; i++) {
        random_spot(&v->w[i]);
    }
    v->x_count = cbt_rand_below(8);
    v->dd_count = cbt_rand_below(3);
    for (i = 0; i < v->dd_count; i++) {
        random_deep_2(&v->dd[i]);
    }
    v->ff_count = cbt_rand_below(4);
}

static void random_every(every *v)
{
    static const uint8_t lent[9] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    every noise;
    cbt_rand_fill(&noise, sizeof noise);
    memset(v, 0, sizeof *v);
    v->a = noise.a;
    v->c = noise.c;
    v->d = noise.d;
    v->f = noise.f;
    v->g = noise.g;
    v->i = noise.i;
    v->j = noise.j;
    v->k = noise.k;
    memcpy(&v->m, &noise.m, sizeof v->m);
    memcpy(&v->n, &noise.n, sizeof v->n);
    memcpy(v->r, noise.r, sizeof v->r);
    memcpy(v->t, noise.t, sizeof v->t);
    memcpy(v->x, noise.x, sizeof v->x);
    memcpy(v->ff, noise.ff, sizeof v->ff);
    v->b = cbt_rand_below(2) != 0;
    v->cc = cbt_rand_below(2) != 0;
    v->e = (int32_t)cbt_rand_below(1101) - 100;
    v->h = cbt_rand_below(200);
    v->l = random_real(-64, 64);
    v->o = random_varu();
    v->p = (int64_t)(random_varu() >> 1) * (cbt_rand_below(2) != 0 ? 1 : -1);
    random_text(v->q, 12);
    v->r_size = cbt_rand_below(301);
    v->s.data = lent;
    v->s.size = cbt_rand_below(10);
    random_every_lists(v);
    random_spot(&v->y);
    v->has_z = cbt_rand_below(2) != 0;
    v->z = noise.z;
    v->has_aa = cbt_rand_below(2) != 0;
    random_spot(&v->aa);
    v->bb.has_arm = cbt_rand_below(2) != 0;
    random_deep_2(&v->bb.arm);
    random_deep_2(&v->bb.leg);
    v->bb.after = noise.bb.after;
    v->has_ee = cbt_rand_below(2) != 0;
    v->ee = noise.ee;
}

static void codec_random_messages_as_the_second_writer_has_them(void)
{
    static every v, back;
    static ref r;
    static uint8_t out[EVERY_MAX_SIZE];
    cb_codec_error why;
    size_t size = 0;
    int round;
    for (round = 0; round < 3000; round++) {
        random_every(&v);
        ref_every(&r, &v);
        CBT_EQ(every_size(&v), r.size);
        CBT_REQUIRE(every_encode(&v, out, sizeof out, &size, NULL) == CB_CODEC_OK);
        CBT_EQ(size, r.size);
        CBT_MEM(out, r.bytes, size);
        CBT_REQUIRE(cb_codec_encode(every_schema(), &v, out, r.size, &size, NULL) == CB_CODEC_OK);
        CBT_MEM(out, r.bytes, size);
        CBT_REQUIRE(decode_both(&every_ops, &back, out, size, &why) == CB_CODEC_OK);
        CBT_EQ(every_decode(&back, out, size, NULL), CB_CODEC_OK);
        CBT_CHECK(every_equal(&v, &back));
        CBT_STR(v.q, back.q);
        CBT_CHECK(v.p == back.p && v.k == back.k && v.bb.leg.parts_count == back.bb.leg.parts_count);
    }
}

static void codec_every_kind_at_every_cut_and_capacity(void)
{
    static every v;
    static ref r;
    int round;
    for (round = 0; round < 8; round++) {
        random_every(&v);
        ref_every(&r, &v);
        exactly(&every_ops, &v, r.bytes, r.size);
    }
}

/* messages and structs, with UBSan in the sanitizer build */
static void codec_every_kind_at_odd_addresses(void)
{
    static every v, back;
    static ref r;
    uint8_t *moved = (uint8_t *)malloc(EVERY_MAX_SIZE + 8u), *in = (uint8_t *)malloc(EVERY_MAX_SIZE + 8u);
    size_t shift, size = 0;
    if (moved == NULL || in == NULL) {
        abort();
    }
    random_every(&v);
    ref_every(&r, &v);
    for (shift = 0; shift < 8; shift++) {
        CBT_EQ(every_encode(&v, moved + shift, EVERY_MAX_SIZE, &size, NULL), CB_CODEC_OK);
        CBT_MEM(moved + shift, r.bytes, r.size);
        memcpy(in + shift, r.bytes, r.size);
        CBT_EQ(every_decode(&back, in + shift, r.size, NULL), CB_CODEC_OK);
        CBT_CHECK(every_equal(&v, &back));
    }
    free(moved);
    free(in);
}

/* One changed bit or byte anywhere: both ways agree, and what is still accepted encodes to the same bytes. */
static void codec_changed_bytes_are_refused_or_canonical(void)
{
    static every v, back;
    static ref r;
    cb_codec_error why;
    size_t i, bit, accepted = 0;
    int round;
    for (round = 0; round < 6; round++) {
        random_every(&v);
        ref_every(&r, &v);
        for (i = 0; i < r.size; i++) {
            for (bit = 0; bit < 8; bit++) {
                r.bytes[i] ^= (uint8_t)(1u << bit);
                accepted += decode_both(&every_ops, &back, r.bytes, r.size, &why) == CB_CODEC_OK;
                r.bytes[i] ^= (uint8_t)(1u << bit);
            }
        }
    }
    CBT_CHECK(accepted > 100); /* most of the bytes are values */
}

static void codec_random_bytes_are_refused_or_canonical(void)
{
    static const ops *const all[] = {
        &ints_ops, &reals_ops, &vars_ops, &smalls_ops, &wide_ops, &levels_ops, &words_ops, &blobs_ops,
        &lists_ops,
        &nests_ops, &opts_ops, &part_ops, &deep_3_ops, &player_ops, &every_ops, &nothing_ops
    };
    static every room; /* the largest of them but words, which has its own */
    static words room_of_words;
    uint8_t bytes[160];
    cb_codec_error why;
    size_t k, i;
    int round;
    for (round = 0; round < 2000; round++) {
        size_t size = cbt_rand_below(sizeof bytes + 1u);
        /* small numbers make more bytes that are counts */
        uint8_t sparse = cbt_rand_below(2) != 0 ? 3 : 0xff;
        cbt_rand_fill(bytes, size);
        for (i = 0; i < size; i++) {
            bytes[i] &= cbt_rand_below(4) != 0 ? sparse : (uint8_t)0xff;
        }
        for (k = 0; k < sizeof all / sizeof all[0]; k++) {
            void *v = all[k] == &words_ops ? (void *)&room_of_words : (void *)&room;
            decode_both(all[k], v, bytes,
                size < all[k]->schema()->max_size ? size : all[k]->schema()->max_size, &why);
        }
    }
}

static void codec_decode_twice_into_one_struct(void) /* nothing of the first message shows through */
{
    static every full, empty, back;
    static ref r;
    static uint8_t out[EVERY_MAX_SIZE];
    size_t size = 0;
    int round;
    memset(&empty, 0, sizeof empty);
    for (round = 0; round < 20; round++) {
        random_every(&full);
        full.has_z = full.has_aa = true;
        ref_every(&r, &full);
        CBT_EQ(every_decode(&back, r.bytes, r.size, NULL), CB_CODEC_OK);
        CBT_EQ(every_encode(&empty, out, sizeof out, &size, NULL), CB_CODEC_OK);
        CBT_EQ(every_decode(&back, out, size, NULL), CB_CODEC_OK);
        CBT_CHECK(every_equal(&back, &empty));
        CBT_CHECK(!back.has_z && back.z == 0 && !back.has_aa && back.aa.id == 0 && !back.aa.lit &&
            !back.bb.has_arm);
        CBT_CHECK(back.q[0] == 0 && back.r_size == 0 && back.s.size == 0 && back.t_count == 0 &&
            back.dd_count == 0);
    }
}

/* ---- the other functions of a schema ---- */
static void codec_equal_means_the_same_bytes(void)
{
    static every a, b;
    static uint8_t x[EVERY_MAX_SIZE], y[EVERY_MAX_SIZE];
    size_t n = 0, m = 0;
    int round;
    for (round = 0; round < 400; round++) {
        random_every(&a);
        b = a;
        /* what lies behind does not count */
        memset(b.q + strlen(b.q) + 1u, 'x', sizeof b.q - strlen(b.q) - 1u);
        b.r[b.r_size < 300 ? b.r_size : 0] ^= b.r_size < 300 ? 0xff : 0;
        b.l += 1e-6f;
        switch (cbt_rand_below(12)) {
        case 0: b.a ^= 1; break;
        case 1: b.b = !b.b; break;
        case 2: b.k = ~b.k; break;
        case 3: b.q[0] ^= 1; break;
        case 4: b.t_count ^= 1; break;
        case 5: b.has_z = !b.has_z; break;
        case 6: b.z ^= 1; break;
        case 7: b.w[0].level = 7 - b.w[0].level; break;
        case 8: b.bb.leg.on = !b.bb.leg.on; break;
        case 9: b.x[0].y ^= 1; break;
        case 10: b.s.size = b.s.size != 0 ? b.s.size - 1u : 1u; break;
        default: break;
        }
        if (every_encode(&b, y, sizeof y, &m, NULL) != CB_CODEC_OK) {
            continue; /* the flipped text or count is not allowed; equality is promised for what encodes */
        }
        CBT_EQ(every_encode(&a, x, sizeof x, &n, NULL), CB_CODEC_OK);
        CBT_EQ(every_equal(&a, &b), n == m && memcmp(x, y, n) == 0);
    }
}

/* Made by hand of the rule in docs/wire-codec.md, with no table. */
static uint64_t hash_row(uint64_t hash, int kind, int element, int bits, uint32_t bound, int32_t base,
    double lo, double hi)
{
    uint8_t row[27];
    uint64_t real[2];
    size_t i, at = 3;
    memcpy(&real[0], &lo, 8);
    memcpy(&real[1], &hi, 8);
    row[0] = (uint8_t)kind;
    row[1] = (uint8_t)element;
    row[2] = (uint8_t)bits;
    for (i = 0; i < 4; i++, at++) {
        row[at] = (uint8_t)(bound >> 8 * i);
        row[at + 4] = (uint8_t)((uint32_t)base >> 8 * i);
    }
    for (i = 0; i < 16; i++) {
        row[11 + i] = (uint8_t)(real[i / 8u] >> 8 * (i % 8u));
    }
    for (i = 0; i < sizeof row; i++) {
        hash = (hash ^ row[i]) * UINT64_C(1099511628211);
    }
    return hash;
}

#define HASH_END(h) (((h) ^ 0xffu) * UINT64_C(1099511628211))

static void codec_layout_hash_is_of_the_layout_alone(void)
{
    uint64_t h = UINT64_C(14695981039346656037), one, two;
    two = hash_row(h, 6, 0, 0, 0, 0, 0, 0); /* i16 */
    two = HASH_END(hash_row(two, 6, 0, 0, 0, 0, 0, 0));
    CBT_CHECK(point_layout_hash() == two);
    one = hash_row(h, 13, 0, 1, 0, 0, 0, 0);     /* flag */
    one = hash_row(one, 14, 0, 4, 15, -5, 0, 0); /* range -5 10 */
    one = hash_row(one, 15, 0, 3, 4, 0, 0, 0);   /* enum 5 */
    one = HASH_END(hash_row(one, 13, 0, 1, 0, 0, 0, 0));
    CBT_CHECK(smalls_layout_hash() == one);
    one = hash_row(h, 16, 0, 8, 0, 0, 0, 255); /* quants */
    one = HASH_END(hash_row(one, 16, 0, 2, 0, 0, -1, 1));
    CBT_CHECK(levels_layout_hash() == one);
    one = hash_row(h, 20, 22, 0, 100, 0, 0, 0); /* list of a schema, its own fields behind */
    for (two = 0; two < 6; two++) {
        one = hash_row(one, 1, 0, 0, 0, 0, 0, 0);
    }
    one = HASH_END(HASH_END(one));
    CBT_CHECK(entities_layout_hash() == one);
    CBT_CHECK(nothing_layout_hash() == HASH_END(h));
}

#define SAME_A(F) F(u16, speed) F(list, items, u8, 9)
CB_CODEC_SCHEMA(same_a, SAME_A)
#define SAME_B(F) F(u16, pace) F(list, things, u8, 9)
CB_CODEC_SCHEMA(same_b, SAME_B)
#define OTHER_A(F) F(i16, speed) F(list, items, u8, 9)
CB_CODEC_SCHEMA(other_a, OTHER_A)
#define OTHER_B(F) F(list, items, u8, 9) F(u16, speed)
CB_CODEC_SCHEMA(other_b, OTHER_B)
#define OTHER_C(F) F(u16, speed) F(list, items, u8, 10)
CB_CODEC_SCHEMA(other_c, OTHER_C)
#define OTHER_D(F) F(u16, speed) F(list, items, i8, 9)
CB_CODEC_SCHEMA(other_d, OTHER_D)

static void codec_layout_hash_tells_layouts_apart(void)
{
    uint64_t h[6];
    size_t i, k;
    h[0] = same_a_layout_hash();
    h[1] = same_b_layout_hash();
    h[2] = other_a_layout_hash();
    h[3] = other_b_layout_hash();
    h[4] = other_c_layout_hash();
    h[5] = other_d_layout_hash();
    CBT_CHECK(h[0] == h[1]);
    for (i = 1; i < 6; i++) {
        for (k = i + 1; k < 6; k++) {
            CBT_CHECK(h[i] != h[k]);
        }
    }
}

static void codec_describe_as_snprintf(void)
{
    static const char want[] = "id:u32,name:text 24,x:quant -8192 8192 16,y:quant -8192 8192 16,alive:flag,"
        "items:list u16 32";
    char out[512];
    size_t cap;
    CBT_EQ(player_describe(out, sizeof out), sizeof want - 1u);
    CBT_STR(out, want);
    for (cap = 0; cap < sizeof want + 2u; cap++) {
        memset(out, 'z', sizeof out);
        CBT_EQ(player_describe(out, cap), sizeof want - 1u);
        CBT_EQ(out[cap], 'z');
        if (cap != 0) {
            CBT_EQ(strlen(out), cap <= sizeof want - 1u ? cap - 1u : sizeof want - 1u);
            CBT_CHECK(memcmp(out, want, strlen(out)) == 0);
        }
    }
    CBT_EQ(player_describe(NULL, 0), sizeof want - 1u);
    deep_3_describe(out, sizeof out);
    CBT_STR(out,
        "arm:opt{on:flag,parts:list{kind:enum 3,name:text 8} 4},"
        "leg:nest{on:flag,parts:list{kind:enum 3,name:text 8} 4},"
                 "after:u8");
    opts_describe(out, sizeof out);
    CBT_STR(out, "a:opt u32,b:opt{lit:flag,level:quant 0 7 3,id:u8},c:opt flag,d:opt vari,e:opt{}");
    smalls_describe(out, sizeof out);
    CBT_STR(out, "a:flag,b:range -5 10,c:enum 5,d:flag");
    nothing_describe(out, sizeof out);
    CBT_STR(out, "");
}

static void codec_describe_writes_bounds_of_quants(void)
{
    static const struct { double x; const char *text; } rows[] = {
        { 0, "0" }, { -1, "-1" }, { 0.5, "0.5" }, { -8192.25, "-8192.25" }, { 6.283185, "6.283185" },
        { 0.1, "0.1" },
        { 0.000001, "0.000001" }, { 0.0000001, "0" }, { 0.9999999, "1" }, { 123456789, "123456789" },
        { 1e20, "100000000000000e6" },
        { 3.05, "3.05" }, { 1e300, "100000000000000e286" },
    };
    size_t i;
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char out[64];
        cbi_codec_text t;
        t.out = out;
        t.capacity = sizeof out;
        t.size = 0;
        cbi_codec_say_real(&t, rows[i].x);
        cbi_codec_say_end(&t);
        if (i != 12) { /* the last digits of the largest are the processor's */
            CBT_STR(out, rows[i].text);
        }
    }
}

static void codec_fields_tell_where_things_are(void)
{
    size_t count = 0;
    const cb_codec_field *f = player_fields(&count);
    player v;
    uint32_t items;
    CBT_EQ(count, 6);
    CBT_STR(f[1].name, "name");
    CBT_EQ(f[1].kind, CB_CODEC_KIND_TEXT);
    CBT_EQ(f[1].bound, 24);
    CBT_EQ(f[1].offset, offsetof(player, name));
    CBT_EQ(f[5].element, CB_CODEC_KIND_U16);
    CBT_EQ(f[2].bits, 16);
    CBT_CHECK(f[2].lo >= -8192 && f[2].lo <= -8192 && f[2].hi >= 8192 && f[2].hi <= 8192);
    memset(&v, 0, sizeof v);
    v.items_count = 9;
    memcpy(&items, (const uint8_t *)&v + f[5].mark, sizeof items);
    CBT_EQ(items, 9);
    CBT_CHECK(player_fields(NULL) == f);
    CBT_CHECK(entities_fields(NULL)[0].schema() == entity_schema());
    CBT_EQ(player_schema()->memory, sizeof(player));
    CBT_STR(player_schema()->name, "player");
    CBT_EQ(every_schema()->bits, 50);
}

/* ---- writers and readers ---- */
static void codec_writer_and_reader_carry_every_type(void)
{
    uint8_t bytes[128], want[128];
    cb_codec_writer w;
    cb_codec_reader r;
    char text[9];
    cb_slice s;
    float f32;
    double f64;
    size_t size = from_hex("12 5634 debc9a78 efcdab8967452301 fe fdff fcffffff fbffffffffffffff 0000c03f "
        "00000000000000c0"
                           "ac02 7f 0304ff 02 6162", want);
    cb_codec_writer_init(&w, bytes, sizeof bytes);
    cb_codec_write_u8(&w, 0x12);
    cb_codec_write_u16(&w, 0x3456);
    cb_codec_write_u32(&w, 0x789abcde);
    cb_codec_write_u64(&w, UINT64_C(0x0123456789abcdef));
    cb_codec_write_i8(&w, -2);
    cb_codec_write_i16(&w, -3);
    cb_codec_write_i32(&w, -4);
    cb_codec_write_i64(&w, -5);
    cb_codec_write_f32(&w, 1.5f);
    cb_codec_write_f64(&w, -2.0);
    cb_codec_write_varu(&w, 300);
    cb_codec_write_vari(&w, -64);
    cb_codec_write_bytes(&w, "\x03\x04\xff", 3);
    cb_codec_write_text(&w, "ab", 8);
    CBT_EQ(w.status, CB_CODEC_OK);
    CBT_EQ(w.size, size);
    CBT_MEM(bytes, want, size);
    cb_codec_reader_init(&r, bytes, w.size);
    CBT_EQ(cb_codec_read_u8(&r), 0x12);
    CBT_EQ(cb_codec_read_u16(&r), 0x3456);
    CBT_EQ(cb_codec_read_u32(&r), 0x789abcde);
    CBT_CHECK(cb_codec_read_u64(&r) == UINT64_C(0x0123456789abcdef));
    CBT_CHECK(cb_codec_read_i8(&r) == -2 && cb_codec_read_i16(&r) == -3);
    CBT_CHECK(cb_codec_read_i32(&r) == -4 && cb_codec_read_i64(&r) == -5);
    CBT_CHECK((f32 = cb_codec_read_f32(&r), ref_real(&f32, 4)) == 0x3fc00000);
    CBT_CHECK((f64 = cb_codec_read_f64(&r), ref_real(&f64, 8)) == UINT64_C(0xc000000000000000));
    CBT_EQ(cb_codec_read_varu(&r), 300);
    CBT_CHECK(cb_codec_read_vari(&r) == -64);
    s = cb_codec_read_bytes(&r, 3);
    CBT_CHECK(s.size == 3 && s.data == bytes + size - 6);
    CBT_EQ(cb_codec_reader_end(&r), CB_CODEC_E_TRAILING);
    cb_codec_read_text(&r, text, 8);
    CBT_STR(text, "ab");
    CBT_EQ(cb_codec_reader_end(&r), CB_CODEC_OK);
}

static void codec_writer_failure_sticks(void)
{
    uint8_t bytes[4];
    cb_codec_writer w;
    memset(bytes, 0xee, sizeof bytes);
    cb_codec_writer_init(&w, bytes, 3);
    cb_codec_write_u16(&w, 1);
    cb_codec_write_u16(&w, 2); /* whole or not at all */
    CBT_EQ(w.status, CB_CODEC_E_FULL);
    cb_codec_write_u8(&w, 3);
    CBT_EQ(w.size, 2);
    CBT_EQ(bytes[2], 0xee);
    cb_codec_writer_init(&w, bytes, 3);
    cb_codec_write_bytes(&w, NULL, 0);
    cb_codec_write_text(&w, "long", 3);
    CBT_EQ(w.status, CB_CODEC_E_VALUE);
    cb_codec_writer_init(&w, NULL, 0);
    cb_codec_write_bytes(&w, NULL, 0);
    CBT_EQ(w.status, CB_CODEC_OK);
    cb_codec_write_varu(&w, 0);
    CBT_EQ(w.status, CB_CODEC_E_FULL);
    cb_codec_writer_init(&w, bytes, 4);
    cb_codec_write_text(&w, "abc", 300);
    CBT_EQ(w.status, CB_CODEC_E_FULL);
    CBT_EQ(w.size, 0);
}

static void codec_reader_failure_sticks(void)
{
    static const struct { const char *hex; cb_codec_status want; } texts[] = {
        { "0361", CB_CODEC_E_CUT }, { "09", CB_CODEC_E_BOUND }, { "0180", CB_CODEC_E_TEXT },
        { "", CB_CODEC_E_CUT }, { "00", CB_CODEC_OK },
    };
    cb_codec_reader r;
    uint8_t raw[16];
    char text[9];
    size_t i;
    cb_codec_reader_init(&r, "\x01\x02\x03", 3);
    CBT_EQ(cb_codec_read_u16(&r), 0x0201);
    CBT_EQ(cb_codec_read_u16(&r), 0);
    CBT_EQ(r.status, CB_CODEC_E_CUT);
    CBT_EQ(cb_codec_read_u8(&r), 0);
    CBT_EQ(r.at, 2);
    CBT_EQ(cb_codec_reader_end(&r), CB_CODEC_E_CUT);
    CBT_CHECK(cb_codec_read_bytes(&r, 0).data == NULL);
    cb_codec_reader_init(&r, raw, from_hex("8100", raw));
    CBT_EQ(cb_codec_read_varu(&r), 0);
    CBT_EQ(r.status, CB_CODEC_E_FORM);
    cb_codec_reader_init(&r, raw, from_hex("80", raw));
    CBT_EQ(cb_codec_read_vari(&r), 0);
    CBT_EQ(r.status, CB_CODEC_E_CUT);
    cb_codec_reader_init(&r, NULL, 0);
    CBT_EQ(cb_codec_reader_end(&r), CB_CODEC_OK);
    CBT_EQ(cb_codec_read_varu(&r), 0);
    CBT_EQ(r.status, CB_CODEC_E_CUT);
    cb_codec_reader_init(&r, raw, 2);
    (void)cb_codec_read_bytes(&r, SIZE_MAX); /* no sum that wraps */
    CBT_EQ(r.status, CB_CODEC_E_CUT);
    for (i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        cb_codec_reader_init(&r, raw, from_hex(texts[i].hex, raw));
        memset(text, 'x', sizeof text);
        cb_codec_read_text(&r, text, 8);
        CBT_EQ(r.status, texts[i].want);
        CBT_STR(text, "");
        CBT_EQ(r.at, texts[i].want == CB_CODEC_OK ? 1 : 0);
    }
}

static void codec_bits_as_one_at_a_time(void)
{
    static ref r;
    uint8_t bytes[600];
    uint64_t values[64];
    uint32_t counts[64];
    cb_codec_bit_writer w;
    cb_codec_bit_reader in;
    size_t size = 0, i;
    int round;
    for (round = 0; round < 500; round++) {
        size_t total = 0;
        cb_codec_bit_writer_init(&w, bytes, sizeof bytes);
        r.size = 0;
        (void)ref_begin(&r, 64 * 64);
        for (i = 0; i < 64; i++) {
            counts[i] = cbt_rand_below(65);
            values[i] = counts[i] != 0 ? cbt_rand() >> (64u - counts[i]) : 0;
            cb_codec_bits_write(&w, values[i], counts[i]);
            ref_bits(&r, values[i], (int)counts[i]);
            total += counts[i];
        }
        CBT_EQ(cb_codec_bit_writer_end(&w, &size), CB_CODEC_OK);
        CBT_EQ(size, (total + 7u) / 8u);
        CBT_MEM(bytes, r.bytes, size);
        cb_codec_bit_reader_init(&in, bytes, size);
        for (i = 0; i < 64; i++) {
            CBT_CHECK(cb_codec_bits_read(&in, counts[i]) == values[i]);
        }
        CBT_EQ(cb_codec_bit_reader_end(&in), CB_CODEC_OK);
    }
}

static void codec_bits_refuse_at_their_limits(void)
{
    uint8_t bytes[3];
    cb_codec_bit_writer w;
    cb_codec_bit_reader r;
    size_t size = 9;
    memset(bytes, 0xee, sizeof bytes);
    cb_codec_bit_writer_init(&w, bytes, 2);
    cb_codec_bits_write(&w, 0x1ff, 9);
    cb_codec_bits_write(&w, 0x7f, 7);
    CBT_EQ(w.status, CB_CODEC_OK);
    cb_codec_bits_write(&w, 0, 1);
    CBT_EQ(w.status, CB_CODEC_E_FULL);
    CBT_EQ(cb_codec_bit_writer_end(&w, &size), CB_CODEC_E_FULL);
    CBT_EQ(size, 9);
    CBT_EQ(bytes[2], 0xee);
    cb_codec_bit_writer_init(&w, bytes, 2);
    cb_codec_bits_write(&w, 4, 2); /* a value is not cut down to its bits */
    CBT_EQ(w.status, CB_CODEC_E_VALUE);
    cb_codec_bit_writer_init(&w, bytes, 2);
    cb_codec_bits_write(&w, 1, 65);
    CBT_EQ(w.status, CB_CODEC_E_VALUE);
    cb_codec_bit_reader_init(&r, "\xff\x03", 2);
    CBT_EQ(cb_codec_bits_read(&r, 10), 0x3ff);
    CBT_EQ(cb_codec_bit_reader_end(&r), CB_CODEC_OK);
    CBT_EQ(cb_codec_bits_read(&r, 7), 0);
    CBT_EQ(r.status, CB_CODEC_E_CUT);
    cb_codec_bit_reader_init(&r, "\xff\x03", 2);
    CBT_EQ(cb_codec_bits_read(&r, 9), 0x1ff);
    CBT_EQ(cb_codec_bit_reader_end(&r), CB_CODEC_E_FORM);
    cb_codec_bit_reader_init(&r, "\x01\x00", 2);
    CBT_EQ(cb_codec_bits_read(&r, 8), 1);
    CBT_EQ(cb_codec_bit_reader_end(&r), CB_CODEC_E_TRAILING);
    CBT_EQ(cb_codec_bits_read(&r, 65), 0);
    CBT_EQ(r.status, CB_CODEC_E_ARG);
}

/* ---- leaves: each faster form against the plain one, at every alignment and size ---- */
static void codec_flags_fast_forms_equal_the_plain_one(void)
{
    uint8_t flags[200], packed[32], plain[32], back[200], plain_back[200];
    size_t count, shift, i, done;
    for (count = 0; count <= 150; count++) {
        for (shift = 0; shift < 16; shift++) {
            for (i = 0; i < sizeof flags; i++) {
                flags[i] = (uint8_t)(cbt_rand_below(3) == 0 ? cbt_rand_below(256) : cbt_rand_below(2));
            }
            memset(packed, 0xee, sizeof packed);
            memset(plain, 0xee, sizeof plain);
            cbi_codec_flags_pack_plain(plain, flags + shift, count);
            cb_codec_flags_pack(packed, (const bool *)(const void *)(flags + shift), count);
            CBT_MEM(packed, plain, sizeof packed);
            memset(back, 0xee, sizeof back);
            memset(plain_back, 0xee, sizeof plain_back);
            cbi_codec_flags_unpack_plain(plain_back + shift, plain, count);
            cb_codec_flags_unpack((bool *)(void *)(back + shift), plain, count);
            CBT_MEM(back, plain_back, sizeof back);
#if !defined(CB_CODEC_SMALL)
            done = cbi_codec_flags_pack_swar_hot(packed, flags + shift, count);
            CBT_MEM(packed, plain, done / 8u);
            done = cbi_codec_flags_unpack_swar_hot(back + shift, plain, count);
            CBT_MEM(back + shift, plain_back + shift, done);
#else
            (void)done;
#endif
        }
    }
}

static void codec_copy_at_every_size(void)
{
    static uint8_t from[2300], to[2300];
    size_t size;
    cbt_rand_fill(from, sizeof from);
    for (size = 0; size < 2200; size += size < 200 || size > 2000 ? 1u : 7u) {
        memset(to, 0xee, sizeof to);
        cb_codec_copy(to + 3, from + 5, size);
        CBT_MEM(to + 3, from + 5, size);
        CBT_EQ(to[2], 0xee);
        CBT_EQ(to[3 + size], 0xee);
    }
    cb_codec_copy(NULL, NULL, 0);
}

static void codec_text_clip_cuts_and_ends(void)
{
    char out[4];
    cb_codec_text_clip(out, sizeof out, "abc");
    CBT_STR(out, "abc");
    cb_codec_text_clip(out, sizeof out, "abcd");
    CBT_STR(out, "abc");
    cb_codec_text_clip(out, 1, "abcd");
    CBT_STR(out, "");
}

static void codec_varint_leaf_at_every_size(void)
{
    uint8_t at[10];
    uint64_t x, back;
    size_t size, cut;
    unsigned k;
    for (k = 0; k < 64; k++) {
        for (x = (UINT64_C(1) << k) - 1u; x <= (UINT64_C(1) << k) + 1u && x + 1u != 0; x++) {
            size = cb_codec_varu_put(at, x);
            CBT_EQ(size, cb_codec_varu_size(x));
            CBT_EQ(cb_codec_varu_get(at, size, &back), size);
            CBT_CHECK(back == x);
            for (cut = 0; cut < size; cut++) {
                CBT_EQ(cb_codec_varu_get(at, cut, &back), 0);
            }
        }
    }
}

static void codec_statuses_have_texts_and_bands(void)
{
    CBT_STR(cb_codec_status_str(CB_CODEC_OK), "done");
    CBT_STR(cb_codec_status_str(CB_CODEC_STATUS_FORCE_32), "?");
    CBT_CHECK(CB_CODEC_E_VALUE > -20 && CB_CODEC_E_FULL > -40 && CB_CODEC_E_FULL <= -20 &&
        CB_CODEC_E_CUT <= -40);
    CBT_EQ(CB_CODEC_E_FULL, -21);
}

int main(int argc, char **argv)
{
    static const cbt_case cases[] = {
        CBT_CASE(codec_integers_are_little_endian),
        CBT_CASE(codec_floats_keep_every_bit),
        CBT_CASE(codec_varints_take_the_least_bytes),
        CBT_CASE(codec_bits_fill_bytes_from_the_lowest),
        CBT_CASE(codec_bits_of_full_width),
        CBT_CASE(codec_quants_take_the_nearest_step_and_saturate),
        CBT_CASE(codec_every_step_of_a_quant_comes_back),
        CBT_CASE(codec_text_has_a_length_as_wide_as_its_bound),
        CBT_CASE(codec_set_text_refuses_what_does_not_fit),
        CBT_CASE(codec_bytes_and_views),
        CBT_CASE(codec_lists),
        CBT_CASE(codec_nests_share_the_bits_of_their_parent),
        CBT_CASE(codec_opts_begin_a_block_of_their_own),
        CBT_CASE(codec_a_message_without_fields_is_no_bytes),
        CBT_CASE(codec_player_of_the_readme),
        CBT_CASE(codec_sizes_of_the_two_shapes),
        CBT_CASE(codec_varint_refuses_ten_bytes_that_go_on),
        CBT_CASE(codec_varint_refuses_above_64_bits),
        CBT_CASE(codec_varint_refuses_longer_forms),
        CBT_CASE(codec_decode_refuses_lengths_near_the_end_of_the_type),
        CBT_CASE(codec_decode_refuses_counts_without_bytes),
        CBT_CASE(codec_decode_refuses_counts_above_the_bound),
        CBT_CASE(codec_decode_refuses_numbers_beyond_their_bounds),
        CBT_CASE(codec_decode_refuses_unused_bits),
        CBT_CASE(codec_text_refuses_bad_utf8_and_zero_bytes),
        CBT_CASE(codec_text_without_an_end_mark_is_refused),
        CBT_CASE(codec_decode_refuses_one_byte_more),
        CBT_CASE(codec_error_inside_a_nested_part_comes_out),
        CBT_CASE(codec_no_field_takes_bytes_that_are_promised_to_others),
        CBT_CASE(codec_encode_refuses_what_decode_refuses),
        CBT_CASE(codec_odd_scalars),
        CBT_CASE(codec_reason_for_a_full_buffer),
        CBT_CASE(codec_long_paths_lose_their_front),
        CBT_CASE(codec_random_messages_as_the_second_writer_has_them),
        CBT_CASE(codec_every_kind_at_every_cut_and_capacity),
        CBT_CASE(codec_every_kind_at_odd_addresses),
        CBT_CASE(codec_changed_bytes_are_refused_or_canonical),
        CBT_CASE(codec_random_bytes_are_refused_or_canonical),
        CBT_CASE(codec_decode_twice_into_one_struct),
        CBT_CASE(codec_equal_means_the_same_bytes),
        CBT_CASE(codec_layout_hash_is_of_the_layout_alone),
        CBT_CASE(codec_layout_hash_tells_layouts_apart),
        CBT_CASE(codec_describe_as_snprintf),
        CBT_CASE(codec_describe_writes_bounds_of_quants),
        CBT_CASE(codec_fields_tell_where_things_are),
        CBT_CASE(codec_writer_and_reader_carry_every_type),
        CBT_CASE(codec_writer_failure_sticks),
        CBT_CASE(codec_reader_failure_sticks),
        CBT_CASE(codec_bits_as_one_at_a_time),
        CBT_CASE(codec_bits_refuse_at_their_limits),
        CBT_CASE(codec_flags_fast_forms_equal_the_plain_one),
        CBT_CASE(codec_copy_at_every_size),
        CBT_CASE(codec_text_clip_cuts_and_ends),
        CBT_CASE(codec_varint_leaf_at_every_size),
        CBT_CASE(codec_statuses_have_texts_and_bands),
    };
    return cbt_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
