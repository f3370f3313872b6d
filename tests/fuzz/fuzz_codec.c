/* fuzz_codec.c - any bytes into decode: the first byte chooses a schema, the rest is the message.
 *
 * What must hold: both ways of decoding agree in status and reason; what is accepted is a value that encode
 * writes as exactly these bytes, in both ways, that is equal to itself, passes validate, and whose size is
 * right; what is refused leaves zeros. Readers, the bit reader and the text and varint leaves see the same
 * bytes.
 *
 * parser: ^cbi_codec_get_|^cb_codec_(decode|varu_get|text_valid|flags_unpack) */
#define CB_CODEC_IMPLEMENTATION
#define CB_CODEC_FAST 1
#include "cb_codec.h"
#include <stdlib.h>

#define SPOT(F) F(flag, lit) F(quant, level, 0, 7, 3) F(u8, id)
CB_CODEC_SCHEMA(spot, SPOT)
#define POINT(F) F(i16, x) F(i16, y)
CB_CODEC_SCHEMA(point, POINT)
CB_CODEC_EMPTY(nothing)
#define PART(F) F(enum, kind, 3) F(text, name, 8)
CB_CODEC_SCHEMA(part, PART)
#define LIMB(F) F(flag, on) F(list, parts, part, 4)
CB_CODEC_SCHEMA(limb, LIMB)
#define BODY(F) F(opt, arm, limb) F(nest, leg, limb) F(u8, after)
CB_CODEC_SCHEMA(body, BODY)
#define NUMBERS(F) \
    F(u8, a) F(u16, b) F(u32, c) F(u64, d) F(i8, e) F(i16, f) F(i32, g) F(i64, h) F(f32, i) F(f64, j) \
    F(varu, k) F(vari, l) F(flag, m) F(range, n, -100, 1000) F(enum, o, 200) F(quant, p, -64, 64, 20)
CB_CODEC_SCHEMA(numbers, NUMBERS)
#define RUNS(F) \
    F(text, a, 12) F(text, b, 300) F(bytes, d, 40) F(bytes, e, 300) F(view, f, 9) F(view, g, 70000)
CB_CODEC_SCHEMA(runs, RUNS)
#define LISTS(F) \
    F(list, a, u8, 300) F(list, b, u32, 5) F(list, c, flag, 40) F(list, d, flag, 300) F(list, e, varu, 6) \
    F(list, f, vari, 6) F(list, g, spot, 4) F(list, h, point, 7) F(list, i, body, 3) F(list, j, f64, 3)
CB_CODEC_SCHEMA(lists, LISTS)
#define OPTS(F) \
    F(opt, a, u16) F(opt, b, spot) F(opt, c, flag) F(opt, d, vari) F(opt, e, nothing) F(opt, f, body) \
    F(nest, g, spot) F(flag, h) F(opt, i, point) F(range, j, 0, 4)
CB_CODEC_SCHEMA(opts, OPTS)
#define ALL(F) F(nest, numbers, numbers) F(nest, runs, runs) F(nest, lists, lists) F(nest, opts, opts)
CB_CODEC_SCHEMA(all, ALL)

#define MUST(condition) \
    do { \
        if (!(condition)) { \
            abort(); \
        } \
    } while (0)

#define TRY(T) \
    static void try_##T(const uint8_t *in, size_t size) \
    { \
        static T fast, slow; \
        static T zero; /* never written */ \
        cb_codec_error why, other; \
        uint8_t *out = (uint8_t *)malloc(size + 1u); \
        size_t used = 0; \
        cb_codec_status st; \
        memset(&fast, 0xa5, sizeof fast); \
        memset(&slow, 0x5a, sizeof slow); \
        memset(&why, 0, sizeof why); \
        memset(&other, 0, sizeof other); \
        st = T##_decode(&fast, in, size, &why); \
        MUST(st == cb_codec_decode(T##_schema(), &slow, in, size, &other)); \
        MUST(memcmp(&why, &other, sizeof why) == 0); \
        MUST((st == CB_CODEC_OK) == (why.reason[0] == 0)); \
        if (st == CB_CODEC_OK) { \
            MUST(T##_equal(&fast, &slow) && T##_validate(&fast, NULL) == CB_CODEC_OK && \
                T##_size(&fast) == size); \
            MUST(out != NULL && T##_encode(&fast, out, size, &used, NULL) == CB_CODEC_OK && used == size); \
            MUST(size == 0 || memcmp(out, in, size) == 0); \
            memset(out, 0, size); \
            MUST(cb_codec_encode(T##_schema(), &slow, out, size, &used, NULL) == CB_CODEC_OK && \
                used == size); \
            MUST(size == 0 || memcmp(out, in, size) == 0); \
            MUST(size == 0 || T##_encode(&fast, out, size - 1u, &used, NULL) == CB_CODEC_E_FULL); \
        } else { \
            MUST(memcmp(&fast, &zero, sizeof fast) == 0); \
        } \
        free(out); \
    }
TRY(numbers) TRY(runs) TRY(lists) TRY(opts) TRY(body) TRY(nothing) TRY(point) TRY(all)

static void try_readers(const uint8_t *in, size_t size)
{
    cb_codec_reader r;
    cb_codec_bit_reader b;
    char text[301];
    size_t i;
    cb_codec_reader_init(&r, in, size);
    for (i = 0; i < size && r.status == CB_CODEC_OK; i++) {
        switch (in[i] % 6u) {
        case 0: (void)cb_codec_read_uint(&r, in[i] % 8u + 1u); break;
        case 1: (void)cb_codec_read_varu(&r); break;
        case 2: (void)cb_codec_read_vari(&r); break;
        case 3: (void)cb_codec_read_bytes(&r, in[i]); break;
        case 4: cb_codec_read_text(&r, text, 300); break;
        default: (void)cb_codec_read_f64(&r); break;
        }
        MUST(r.at <= size);
    }
    (void)cb_codec_reader_end(&r);
    cb_codec_bit_reader_init(&b, in, size);
    for (i = 0; i < size && b.status == CB_CODEC_OK; i++) {
        (void)cb_codec_bits_read(&b, in[i] % 66u);
        MUST(b.at <= size);
    }
    (void)cb_codec_bit_reader_end(&b);
    (void)cb_codec_text_valid(in, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const tries[])(const uint8_t *, size_t) = {
        try_numbers, try_runs, try_lists, try_opts, try_body, try_nothing, try_point, try_all, try_readers
    };
    if (size != 0) {
        tries[data[0] % (sizeof tries / sizeof tries[0])](data + 1, size - 1u);
    }
    return 0;
}
