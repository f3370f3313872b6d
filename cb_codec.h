/* cb_codec.h - v0.1.0 - bytes, bits and messages by schema - SPDX: Unlicense OR MIT-0
 *
 * Declare a message once, as a list of fields; get a plain C struct and functions that turn it into few bytes
 * and back. Every bound stands in the list, so whatever decode accepts is within it. Beneath: writers and
 * readers of plain values and of bits.
 *
 * BUILD      in exactly one .c or .cpp file:
 *                #define CB_CODEC_IMPLEMENTATION
 *                #include "cb_codec.h"
 *            everywhere else just #include it. Link: nothing.
 * NEEDS      C99 or C++11; <stdbool.h> <stddef.h> <stdint.h> <string.h>; bytes of 8 bits, bool of one byte,
 *            IEEE floats.
 * DOES NOT   allocate, frame (the caller knows where a message ends), compress, or read messages of another
 *            layout: compare layout hashes first.
 *
 * EXAMPLE    #define CB_CODEC_IMPLEMENTATION
 *            #include "cb_codec.h"
 *            #include <stdio.h>
 *            #define PLAYER(F)                   \
 *                F(u32,   id)                    \
 *                F(text,  name, 24)              \
 *                F(quant, x, -8192, 8192, 16)    \
 *                F(flag,  alive)                 \
 *                F(list,  items, u16, 32)
 *            CB_CODEC_SCHEMA(player, PLAYER)
 *            int main(void)
 *            {
 *                uint8_t bytes[PLAYER_MAX_SIZE];
 *                size_t size;
 *                cb_codec_error why;
 *                player a, b;
 *                memset(&a, 0, sizeof a);
 *                a.id = 7;
 *                CB_CODEC_SET_TEXT(&a, name, "ada");
 *                if (player_encode(&a, bytes, sizeof bytes, &size, &why) != CB_CODEC_OK ||
 *                    player_decode(&b, bytes, size, &why) != CB_CODEC_OK) {
 *                    printf("%s: %s\n", why.field, why.reason);
 *                    return 1;
 *                }
 *                printf("%s in %u bytes\n", b.name, (unsigned)size);
 *                return 0;
 *            }
 *
 * API        schema  CB_CODEC_SCHEMA  CB_CODEC_EMPTY  CB_CODEC_SET_TEXT; for a schema T: T_encode  T_decode
 *                    T_size  T_equal  T_validate  T_layout_hash  T_describe  T_fields  T_schema; for any
 *                    schema: cb_codec_encode  cb_codec_decode  cb_codec_size ...
 *            values  cb_codec_writer_init  cb_codec_write_u8 .. _i64 _f32 _f64 _varu _vari _bytes _text
 *                    cb_codec_reader_init  cb_codec_read_u8 .. (the same)  cb_codec_reader_end
 *            bits    cb_codec_bit_writer_init  cb_codec_bits_write  cb_codec_bit_writer_end
 *                    cb_codec_bit_reader_init  cb_codec_bits_read  cb_codec_bit_reader_end
 *            leaves  cb_codec_flags_pack  cb_codec_flags_unpack  cb_codec_text_valid  cb_codec_text_size
 *                    cb_codec_varu_size  cb_codec_varu_put  cb_codec_varu_get  cb_codec_copy
 *            info    cb_codec_status_str
 *
 * CONFIG     CB_CODEC_STATIC      every function static to the including file
 *            CB_CODEC_DEF, CBDEF  linkage word of your own
 *            CB_CODEC_NO_STDLIB   for small machines: no <assert.h>, nothing but mem* and strlen; with any
 *                                 optimisation also CB_CODEC_FAST and CB_CODEC_BRIEF
 *            CB_CODEC_NO_STRINGS  no names, reasons and descriptions
 *            CB_CODEC_FAST        straight-line code for each schema; default where the compiler optimises
 *                                 for speed. CB_CODEC_SMALL: tables alone, no SIMD; default with -Os. The
 *                                 bytes and the answers are the same, so files may differ
 *            CB_CODEC_BRIEF       errors name the type and the status alone, and tables are not linked
 *            CB_CODEC_NO_SIMD     no SSE2
 *            CB_CODEC_ASSERT(c)   default: assert of <assert.h>
 *
 * MEMORY     the caller's alone. Structs hold their arrays; sizes are bounded at compile time.
 * ERRORS     0 done; -1.. the caller's values, -20.. no room, -40.. the bytes. Writers and readers keep
 *            their first.
 * THREADS    no state anywhere; what is constant may be used by all threads at once.
 * LIMITS     a message below 256 MiB, counts below 2^32; nesting as deep as you declare (two C calls a
 *            level).
 * SECURITY   decode may be given any bytes: it reads inside them, writes inside the struct, and takes time in
 *            proportion to their number. Encode writes nothing that decode refuses. Structs are trusted to be
 *            yours.
 */
/* ---- feature macros: keep this block byte-identical in all cb_*.h headers ---- */
#if defined(CB_LOOP_IMPLEMENTATION) && !defined(_GNU_SOURCE)
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wreserved-macro-identifier"
#pragma clang diagnostic ignored "-Wreserved-id-macro"
#endif
#define _GNU_SOURCE 1 /* accept4, recvmmsg and pthread names; must precede the first libc include */
#if defined(__clang__)
#pragma clang diagnostic pop
#endif
#endif
/* ---- end feature macros ---- */
#ifndef CB_CODEC_H
#define CB_CODEC_H
#define CB_CODEC_VERSION 0x000100 /* 0xMMmmpp */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h> /* memcpy, memset: the functions that a schema generates copy */

/* Linkage. CBDEF, when the user defined it, applies to every cb_*.h at once. Static mode says `inline` and
 * not `unused`, because the functions that a schema generates do use what is declared here. */
#ifndef CB_CODEC_DEF
#if defined(CBDEF)
#define CB_CODEC_DEF CBDEF
#elif defined(CB_CODEC_STATIC)
#define CB_CODEC_DEF static inline
#else
#define CB_CODEC_DEF extern
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- shared by all cb_*.h headers: keep this block byte-identical ---- */
#ifndef CB_SHARED_ABI
#define CB_SHARED_ABI 1
typedef struct cb_alloc { /* both functions or neither; neither: libc's, unless CB_X_NO_STDLIB */
    void *(*alloc)(void *user, size_t size, size_t align);   /* NULL on failure */
    void (*release)(void *user, void *ptr, size_t size);     /* ptr may be NULL */
    void *user;
} cb_alloc;
typedef struct cb_span { /* borrowed, may be overwritten */
    uint8_t *data;
    size_t size;
} cb_span;
typedef struct cb_slice { /* borrowed, read only */
    const uint8_t *data;
    size_t size;
} cb_slice;
typedef struct cb_shared { /* prepared once, referenced by many; one thread */
    const uint8_t *data;
    size_t size;
    uint32_t refs;
    void (*release)(struct cb_shared *b); /* called when refs falls to 0; NULL: nothing to do */
} cb_shared;
typedef struct cb_sink { /* where an engine's output goes; never calls back into the engine or the user */
    /* bytes that will be taken now; owed: answers and protocol replies, which have a bound of their own */
    size_t (*room)(void *user, bool owed);
    /* size <= piece_max; never NULL within room(); void at the sink's next call */
    uint8_t *(*reserve)(void *user, size_t size);
    /* size <= reserved, 0 gives back; !more ends a message where the transport has messages */
    void (*commit)(void *user, size_t size, bool more);
    /* takes a reference; NULL or false: copy in pieces instead */
    bool (*share)(void *user, cb_shared *b, bool more);
    void *user;
    size_t piece_max;
} cb_sink;
#endif
/* ---- end shared block ---- */
#if CB_SHARED_ABI != 1
#error "cb_codec.h: a cb header of another release was included before"
#endif

/* ============================== statuses and reasons ============================== */

#define CB_CODEC_STATUS_LIST(X) \
    X(OK, 0, "done") \
    X(E_ARG, -1, "bad argument") \
    X(E_VALUE, -5, "a value that the schema does not allow") \
    X(E_FULL, -21, "the buffer has no room left") \
    X(E_CUT, -40, "the bytes end too early") \
    X(E_TRAILING, -41, "bytes are left over") \
    X(E_BOUND, -42, "a value, count or length beyond its bound") \
    X(E_FORM, -43, "a number longer than it needs, or unused bits that are set") \
    X(E_TEXT, -44, "text that is not UTF-8 or holds a zero byte")

typedef enum cb_codec_status {
#define CB_CODEC_STATUS_ITEM(name, value, text) CB_CODEC_##name = (value),
    CB_CODEC_STATUS_LIST(CB_CODEC_STATUS_ITEM)
#undef CB_CODEC_STATUS_ITEM
    CB_CODEC_STATUS_FORCE_32 = 0x7fffffff
} cb_codec_status;

/* Why a message was refused, for a log: printf("%s: %s\n", why.field, why.reason) gives
 * "player.items: 40 elements, at most 32". Both are NUL-terminated, always; a path longer than `field` loses
 * its front. Written only on failure; empty under CB_CODEC_NO_STRINGS. Nothing in it comes from the bytes but
 * numbers. */
typedef struct cb_codec_error {
    char field[64];  /* "fleet.ships[3].name"; the type alone where it is about the whole message */
    char reason[64];
} cb_codec_error;

/* Never NULL; static storage. Unknown values give "?"; under CB_CODEC_NO_STRINGS all give "". */
CB_CODEC_DEF const char *cb_codec_status_str(cb_codec_status status);

/* ============================== writers and readers ============================== */

/* Writes plain values one behind the other into memory of the caller. The first failure sticks: from then on
 * nothing is written and `status` keeps what happened, so it is enough to look once, at the end. A value is
 * written whole or not at all. Read the fields as you like; change them only through the functions. */
typedef struct cb_codec_writer {
    uint8_t *data;
    size_t capacity;
    size_t size;            /* bytes written so far */
    cb_codec_status status; /* OK, or the first failure: E_FULL, E_VALUE */
} cb_codec_writer;

/* data: borrowed until the last call with w; NULL is fine with capacity 0. */
CB_CODEC_DEF void cb_codec_writer_init(cb_codec_writer *w, void *data, size_t capacity);
/* The low `width` bytes of value, 1 to 8, little-endian. The typed forms below call it. */
CB_CODEC_DEF void cb_codec_write_uint(cb_codec_writer *w, uint64_t value, size_t width);
CB_CODEC_DEF void cb_codec_write_f32(cb_codec_writer *w, float value);
CB_CODEC_DEF void cb_codec_write_f64(cb_codec_writer *w, double value);
CB_CODEC_DEF void cb_codec_write_varu(cb_codec_writer *w, uint64_t value); /* LEB128, 1 to 10 bytes */
CB_CODEC_DEF void cb_codec_write_vari(cb_codec_writer *w, int64_t value);  /* zigzag, then LEB128 */
/* The bytes alone, no length. data: borrowed for the call; may be NULL with size 0. */
CB_CODEC_DEF void cb_codec_write_bytes(cb_codec_writer *w, const void *data, size_t size);
/* As the kind `text` does with this bound: the length in 1, 2 or 4 bytes (bound up to 255, up to 65535,
 * above), then the bytes. E_VALUE: longer than max bytes, or not UTF-8. */
CB_CODEC_DEF void cb_codec_write_text(cb_codec_writer *w, const char *text, uint32_t max);

/* The counterpart: reads what a writer wrote, at any alignment, never beyond `size`. After the first failure
 * every call gives zero and moves nothing, so a loop over a count that was read ends at once. */
typedef struct cb_codec_reader {
    const uint8_t *data;
    size_t size;
    size_t at;              /* bytes read so far */
    cb_codec_status status; /* OK, or the first failure: E_CUT, E_FORM, E_BOUND, E_TEXT */
} cb_codec_reader;

/* data: borrowed until the last call with r and for the life of slices read from it. */
CB_CODEC_DEF void cb_codec_reader_init(cb_codec_reader *r, const void *data, size_t size);
CB_CODEC_DEF uint64_t cb_codec_read_uint(cb_codec_reader *r, size_t width); /* 1 to 8 bytes, little-endian */
CB_CODEC_DEF float cb_codec_read_f32(cb_codec_reader *r);
CB_CODEC_DEF double cb_codec_read_f64(cb_codec_reader *r);
CB_CODEC_DEF uint64_t cb_codec_read_varu(cb_codec_reader *r); /* E_FORM: longer than needed, or too large */
CB_CODEC_DEF int64_t cb_codec_read_vari(cb_codec_reader *r);
/* Borrows the next `size` bytes from the input; { NULL, 0 } on failure. */
CB_CODEC_DEF cb_slice cb_codec_read_bytes(cb_codec_reader *r, size_t size);
/* What write_text wrote with the same max. out has max + 1 bytes and is NUL-terminated in any case.
 * E_BOUND: longer than max; E_TEXT: not UTF-8, or a zero byte inside. */
CB_CODEC_DEF void cb_codec_read_text(cb_codec_reader *r, char *out, uint32_t max);
/* The first failure, or E_TRAILING where bytes are left, or OK. Changes nothing. */
CB_CODEC_DEF cb_codec_status cb_codec_reader_end(const cb_codec_reader *r);

static inline void cb_codec_write_u8(cb_codec_writer *w, uint8_t value)
{
    cb_codec_write_uint(w, value, 1);
}

static inline void cb_codec_write_u16(cb_codec_writer *w, uint16_t value)
{
    cb_codec_write_uint(w, value, 2);
}

static inline void cb_codec_write_u32(cb_codec_writer *w, uint32_t value)
{
    cb_codec_write_uint(w, value, 4);
}

static inline void cb_codec_write_u64(cb_codec_writer *w, uint64_t value)
{
    cb_codec_write_uint(w, value, 8);
}

static inline void cb_codec_write_i8(cb_codec_writer *w, int8_t value)
{
    cb_codec_write_uint(w, (uint64_t)value, 1);
}

static inline void cb_codec_write_i16(cb_codec_writer *w, int16_t value)
{
    cb_codec_write_uint(w, (uint64_t)value, 2);
}

static inline void cb_codec_write_i32(cb_codec_writer *w, int32_t value)
{
    cb_codec_write_uint(w, (uint64_t)value, 4);
}

static inline void cb_codec_write_i64(cb_codec_writer *w, int64_t value)
{
    cb_codec_write_uint(w, (uint64_t)value, 8);
}

static inline uint8_t cb_codec_read_u8(cb_codec_reader *r)
{
    return (uint8_t)(cb_codec_read_uint(r, 1) & 0xffu);
}

static inline uint16_t cb_codec_read_u16(cb_codec_reader *r)
{
    return (uint16_t)(cb_codec_read_uint(r, 2) & 0xffffu);
}

static inline uint32_t cb_codec_read_u32(cb_codec_reader *r)
{
    return (uint32_t)(cb_codec_read_uint(r, 4) & 0xffffffffu);
}

static inline uint64_t cb_codec_read_u64(cb_codec_reader *r)
{
    return cb_codec_read_uint(r, 8);
}

/* Two's complement by arithmetic: C99 leaves the conversion of a large unsigned number to the compiler. */
static inline int64_t cbi_codec_signed(uint64_t value, unsigned bits)
{
    uint64_t half = (uint64_t)1 << (bits - 1u);
    return value < half ? (int64_t)value : (int64_t)(value - half) - (int64_t)(half - 1u) - 1;
}

static inline int8_t cb_codec_read_i8(cb_codec_reader *r)
{
    return (int8_t)cbi_codec_signed(cb_codec_read_uint(r, 1), 8);
}

static inline int16_t cb_codec_read_i16(cb_codec_reader *r)
{
    return (int16_t)cbi_codec_signed(cb_codec_read_uint(r, 2), 16);
}

static inline int32_t cb_codec_read_i32(cb_codec_reader *r)
{
    return (int32_t)cbi_codec_signed(cb_codec_read_uint(r, 4), 32);
}

static inline int64_t cb_codec_read_i64(cb_codec_reader *r)
{
    return cbi_codec_signed(cb_codec_read_uint(r, 8), 64);
}

/* -- bits: numbers of 0 to 64 bits, low bits first, filling bytes from the lowest; sticky, too -- */
typedef struct cb_codec_bit_writer {
    uint8_t *data;
    size_t capacity;
    size_t size;            /* whole bytes written so far */
    uint64_t held;          /* bits that do not fill a byte yet, and how many */
    uint32_t held_count;
    cb_codec_status status; /* OK, E_FULL, or E_VALUE: value had more bits, or count was above 64 */
} cb_codec_bit_writer;

typedef struct cb_codec_bit_reader {
    const uint8_t *data;
    size_t size;
    size_t at;              /* whole bytes taken in so far */
    uint64_t held;
    uint32_t held_count;
    cb_codec_status status; /* OK, E_CUT, or E_ARG: count was above 64 */
} cb_codec_bit_reader;

CB_CODEC_DEF void cb_codec_bit_writer_init(cb_codec_bit_writer *w, void *data, size_t capacity);
CB_CODEC_DEF void cb_codec_bits_write(cb_codec_bit_writer *w, uint64_t value, uint32_t count);
/* Fills the last byte up with zeros. *size (may be NULL): bytes in all, written only on OK. The status. */
CB_CODEC_DEF cb_codec_status cb_codec_bit_writer_end(cb_codec_bit_writer *w, size_t *size);
CB_CODEC_DEF void cb_codec_bit_reader_init(cb_codec_bit_reader *r, const void *data, size_t size);
CB_CODEC_DEF uint64_t cb_codec_bits_read(cb_codec_bit_reader *r, uint32_t count); /* 0 after a failure */
/* OK when every byte was begun and the bits left in the last one are zero; E_TRAILING, E_FORM, or the first
 * failure. */
CB_CODEC_DEF cb_codec_status cb_codec_bit_reader_end(const cb_codec_bit_reader *r);

/* Booleans of one byte each, from and to 8 a byte, first one in the lowest bit; unused bits of the last byte
 * are written as zero and not looked at. flags: count of them; bytes: (count + 7) / 8. The two must not
 * overlap. */
CB_CODEC_DEF void cb_codec_flags_pack(uint8_t *bytes, const bool *flags, size_t count);
CB_CODEC_DEF void cb_codec_flags_unpack(bool *flags, const uint8_t *bytes, size_t count);

/* memcpy that also takes size 0 and is quicker than libc's from 64 bytes to a few thousand. */
CB_CODEC_DEF void cb_codec_copy(uint8_t *to, const uint8_t *from, size_t size);

/* UTF-8 as RFC 3629 has it: no over-long forms, no surrogates, nothing above U+10FFFF; and no zero byte. */
CB_CODEC_DEF bool cb_codec_text_valid(const uint8_t *data, size_t size);
/* Length of a NUL-terminated text, or SIZE_MAX: no NUL within its first max + 1 bytes, or not valid. */
CB_CODEC_DEF size_t cb_codec_text_size(const char *text, size_t max);
/* LEB128: bytes that x takes; put writes them and returns how many; get reads one number from 1 or more bytes
 * and returns how many, 0 where more bytes are needed, SIZE_MAX for a form that put never writes. */
CB_CODEC_DEF size_t cb_codec_varu_size(uint64_t x);
CB_CODEC_DEF size_t cb_codec_varu_put(uint8_t *at, uint64_t x);
CB_CODEC_DEF size_t cb_codec_varu_get(const uint8_t *at, size_t size, uint64_t *x);

/* CB_CODEC_SET_TEXT(&player, name, "ada") fills a text field. text: NUL-terminated, copied. E_VALUE where it
 * is longer than the field or not UTF-8; the field then keeps what it had, nothing is cut off. */
#define CB_CODEC_SET_TEXT(message, field, text) \
    cb_codec_text_set((message)->field, sizeof (message)->field, (text))
CB_CODEC_DEF cb_codec_status cb_codec_text_set(char *field, size_t field_bytes, const char *text);
/* Copies what fits, NUL-terminated; capacity is at least 1. For texts that may be cut, such as reasons. */
CB_CODEC_DEF void cb_codec_text_clip(char *out, size_t capacity, const char *text);

/* ============================== schemas: what a program uses ============================== */

/* A schema is a list of fields, F(kind, name and parameters), that CB_CODEC_SCHEMA turns into a struct and
 * its functions (no semicolon behind it). `w` below is 1, 2 or 4 bytes: for a bound up to 255, up to 65535,
 * above.
 *
 *   kind and parameters           member                     bytes, and what they mean
 *   F(u8, n) to F(u64, n)         uint8_t n to uint64_t n    1, 2, 4, 8, little-endian
 *   F(i8, n) to F(i64, n)         int8_t n to int64_t n      the same, two's complement
 *   F(f32, n)  F(f64, n)          float n, double n          4, 8; every bit is kept, NaN too
 *   F(varu, n)  F(vari, n)        uint64_t n, int64_t n      1 to 10: few for small numbers (vari: small by
 *                                                            magnitude)
 *   F(flag, n)                    bool n                     1 bit
 *   F(range, n, lo, hi)           int32_t n                  as many bits as hi - lo needs; lo to hi
 *   F(enum, n, values)            uint32_t n                 as many bits as values - 1 needs; below values
 *   F(quant, n, lo, hi, bits)     float n                    bits, 1 to 24: 2^bits - 1 equal steps from lo to
 *                                                            hi; what lies outside becomes lo or hi, NaN is
 *                                                            refused
 *   F(text, n, max)               char n[max + 1]            w + its bytes: NUL-terminated UTF-8, at most max
 *                                                            bytes
 *   F(bytes, n, max)              n_size, uint8_t n[max]     w + n_size
 *   F(view, n, max)               cb_slice n                 as bytes, borrowed: decode points into its input
 *   F(list, n, element, max)      n_count, element n[max]    w + the elements; flags are packed, 8 a byte
 *   F(opt, n, element)            has_n, element n           1 bit, and the element where has_n
 *   F(nest, n, schema)            schema n                   its fields in place; its bits join ours
 *
 * n_size and n_count are uint32_t, has_n is bool. An element is a kind without parameters (u8 to f64, varu,
 * vari, flag) or the name of a schema. The bits of a message stand in front of its bytes; each element of a
 * list or opt begins anew (docs/wire-codec.md has every byte).
 *
 * CB_CODEC_SCHEMA(ship, SHIP) declares the struct `ship` and, as static functions, so that it may stand in a
 * header:
 *
 *   ship_encode(from, out, capacity, &size, why)
 *       OK. E_VALUE: the schema does not allow a value of *from. E_FULL: capacity is below the size; what is
 *       in `out` is then undefined, but nothing is written beyond capacity.
 *   ship_decode(to, in, size, why)
 *       The whole of `in` is one message. OK: every field is set, and what lies behind a count, a size or a
 *       NUL keeps what it held. -40 and below: encode does not write these bytes for any value; *to is then
 *       all zero.
 *   ship_size(from)                 bytes that encode will write (where it would refuse: 0, or any possible
 *                                   size)
 *   ship_equal(a, b)                whether both encode to the same bytes: floats by bits, quants by step
 *   ship_validate(from, why)        OK or E_VALUE: what encode would say with room enough
 *   ship_layout_hash()              of kinds, parameters and order, names apart: equal ones read each other's
 *                                   bytes
 *   ship_describe(out, capacity)    the layout as text, "id:u32,x:quant -8192 8192 16,cargo:list{kind:u8}
 *                                   64"; as snprintf does, the full length is returned and what fits is
 *                                   written
 *   ship_fields(&count)             the table behind all of these (count may be NULL); ship_schema() is the
 *                                   same as one object, for the cb_codec_* calls below
 *   SHIP_MIN_SIZE, SHIP_MAX_SIZE    the least and most that encode writes; also ship_min_size, ship_max_size
 *
 * *size is written only on OK, *why only on failure; why may be NULL. Pointers are borrowed for the call.
 * Nothing allocates. No struct contains itself, so depth is that of the declarations. */
#define CB_CODEC_SCHEMA(T, LIST) \
    CB_CODEC_DECLARE(T, LIST) \
    enum { LIST##_MIN_SIZE = (int)T##_min_size, LIST##_MAX_SIZE = (int)T##_max_size }; \
    CB_CODEC_DEFINE(T, LIST)

/* The same for a message without fields, 0 bytes long. Its struct has a byte, `unused`, as C wants one. */
#define CB_CODEC_EMPTY(T) \
    CB_CODEC_DECLARE(T, CB_CODEC_NO_FIELDS) \
    CB_CODEC_DEFINE(T, CB_CODEC_NO_FIELDS)
#define CB_CODEC_NO_FIELDS(F) F(none, unused)

typedef enum cb_codec_kind { /* in the order of widths: everything up to F64 is copied as it is */
    CB_CODEC_KIND_NONE,
    CB_CODEC_KIND_U8, CB_CODEC_KIND_U16, CB_CODEC_KIND_U32, CB_CODEC_KIND_U64,
    CB_CODEC_KIND_I8, CB_CODEC_KIND_I16, CB_CODEC_KIND_I32, CB_CODEC_KIND_I64,
    CB_CODEC_KIND_F32, CB_CODEC_KIND_F64,
    CB_CODEC_KIND_VARU, CB_CODEC_KIND_VARI, CB_CODEC_KIND_FLAG,
    CB_CODEC_KIND_RANGE, CB_CODEC_KIND_ENUM, CB_CODEC_KIND_QUANT,
    CB_CODEC_KIND_TEXT, CB_CODEC_KIND_BYTES, CB_CODEC_KIND_VIEW,
    CB_CODEC_KIND_LIST, CB_CODEC_KIND_OPT, CB_CODEC_KIND_NEST,
    CB_CODEC_KIND_FORCE_32 = 0x7fffffff
} cb_codec_kind;

/* One field of a schema, for code that walks over messages (inspectors, scripting, other formats). Offsets
 * are into the struct; the tables are static and constant. */
typedef struct cb_codec_field {
    const char *name;      /* as declared; "" under CB_CODEC_NO_STRINGS */
    const struct cb_codec_schema *(*schema)(void); /* of a nest, or of a list's or opt's element; or NULL */
    double lo, hi;         /* quant */
    uint32_t offset;       /* of the value */
    uint32_t mark;         /* of n_count, n_size or has_n; else the same as offset */
    uint32_t bound;        /* most bytes or elements; enum: values - 1; range: hi - lo */
    int32_t base;          /* range: lo */
    uint8_t kind;          /* cb_codec_kind */
    uint8_t element;       /* cb_codec_kind of a list's or opt's elements; NEST for those of a schema */
    uint8_t width;         /* least bytes on the wire of the value, or of an element that is no schema */
    uint8_t bits;          /* in the bit block: flag, opt, range, enum, quant */
} cb_codec_field;

typedef struct cb_codec_schema {
    const char *name;             /* the type */
    const cb_codec_field *fields;
    uint32_t field_count;
    uint32_t memory;              /* sizeof the struct */
    uint32_t bits;                /* of its bit block, those of nests included */
    uint32_t min_size, max_size;  /* bytes on the wire */
} cb_codec_schema;

/* What the generated functions call; the statuses are theirs. message points to the schema's struct. */
CB_CODEC_DEF cb_codec_status cb_codec_encode(const cb_codec_schema *s, const void *message, uint8_t *out,
                                             size_t capacity, size_t *size, cb_codec_error *why);
CB_CODEC_DEF cb_codec_status cb_codec_decode(const cb_codec_schema *s, void *message, const uint8_t *in,
                                             size_t size, cb_codec_error *why);
CB_CODEC_DEF size_t cb_codec_size(const cb_codec_schema *s, const void *message);
CB_CODEC_DEF bool cb_codec_equal(const cb_codec_schema *s, const void *a, const void *b);
CB_CODEC_DEF cb_codec_status cb_codec_validate(const cb_codec_schema *s, const void *message,
                                               cb_codec_error *why);
CB_CODEC_DEF uint64_t cb_codec_layout_hash(const cb_codec_schema *s);
CB_CODEC_DEF size_t cb_codec_describe(const cb_codec_schema *s, char *out, size_t capacity);

/* ============================== schemas: how the lists become code ==============================
 *
 * A list such as SHIP(F) is expanded several times, each time with another macro as F:
 *
 *   CB_CODEC_MEMBER                   the members of the struct
 *   CB_CODEC_BITS  _MIN  _MAX         the sums that make the size constants
 *   CB_CODEC_ROW                      the table of cb_codec_field
 *   CB_CODEC_PUT  CB_CODEC_GET        straight-line code, see further below
 *
 * They all look at one row a kind, CB_CODEC_FIELD_<kind>, whose columns they pick:
 *
 *   members | bits | least bytes | most bytes | way | schema | name | { row of the table }
 *
 * `way` says how the straight-line code goes about the value: cbi_plain, _var, _number, _run, _list and _opt
 * are the field functions of those names; cbi_nest, cbi_each (a list of a schema) and cbi_maybe (an opt of
 * one) go on into another schema's code. To add a kind: a row here, its cases in the field functions, one in
 * cb_codec_equal. */
#define CB_CODEC_EXPAND(x) x                                  /* for compilers that pass __VA_ARGS__ as one */
#define CB_CODEC_CALL(m, ...) CB_CODEC_EXPAND(m(__VA_ARGS__)) /* expands the arguments before m sees them */
#define CB_CODEC_PICK(m, kind, ...) CB_CODEC_CALL(m, CB_CODEC_EXPAND(CB_CODEC_FIELD_##kind(__VA_ARGS__)))

#define CB_CODEC_MEMBER(kind, ...) CB_CODEC_PICK(CB_CODEC_MEMBER_OF, kind, __VA_ARGS__)
#define CB_CODEC_BITS(kind, ...) CB_CODEC_PICK(CB_CODEC_BITS_OF, kind, __VA_ARGS__)
#define CB_CODEC_MIN(kind, ...) CB_CODEC_PICK(CB_CODEC_MIN_OF, kind, __VA_ARGS__)
#define CB_CODEC_MAX(kind, ...) CB_CODEC_PICK(CB_CODEC_MAX_OF, kind, __VA_ARGS__)
#define CB_CODEC_ROW(kind, ...) CB_CODEC_PICK(CB_CODEC_ROW_OF, kind, __VA_ARGS__)
#define CB_CODEC_PUT(kind, ...) CB_CODEC_PICK(CB_CODEC_PUT_OF, kind, __VA_ARGS__)
#define CB_CODEC_GET(kind, ...) CB_CODEC_PICK(CB_CODEC_GET_OF, kind, __VA_ARGS__)
#define CB_CODEC_MEMBER_OF(members, bits, lo, hi, way, T, n, ...) members
#define CB_CODEC_BITS_OF(members, bits, lo, hi, way, T, n, ...) + (bits)
#define CB_CODEC_MIN_OF(members, bits, lo, hi, way, T, n, ...) + (lo)
#define CB_CODEC_MAX_OF(members, bits, lo, hi, way, T, n, ...) + (hi)
#define CB_CODEC_ROW_OF(members, bits, lo, hi, way, T, n, ...) __VA_ARGS__,
#define CB_CODEC_PUT_OF(members, bits, lo, hi, way, T, n, ...) CB_CODEC_PUT_##way(T, n)
#define CB_CODEC_GET_OF(members, bits, lo, hi, way, T, n, ...) CB_CODEC_GET_##way(T, n)

/* -- the kinds -- */
#define CB_CODEC_FIELD_none(n) \
    uint8_t n;, 0, 0, 0, cbi_leaf, ~, n, CB_CODEC_PLAIN(CB_CODEC_KIND_NONE, n, 0, 0)
#define CB_CODEC_FIXED(type, kind, n, width) \
    type n;, 0, width, width, cbi_plain, ~, n, CB_CODEC_PLAIN(kind, n, width, 0)
#define CB_CODEC_FIELD_u8(n) CB_CODEC_FIXED(uint8_t, CB_CODEC_KIND_U8, n, 1)
#define CB_CODEC_FIELD_u16(n) CB_CODEC_FIXED(uint16_t, CB_CODEC_KIND_U16, n, 2)
#define CB_CODEC_FIELD_u32(n) CB_CODEC_FIXED(uint32_t, CB_CODEC_KIND_U32, n, 4)
#define CB_CODEC_FIELD_u64(n) CB_CODEC_FIXED(uint64_t, CB_CODEC_KIND_U64, n, 8)
#define CB_CODEC_FIELD_i8(n) CB_CODEC_FIXED(int8_t, CB_CODEC_KIND_I8, n, 1)
#define CB_CODEC_FIELD_i16(n) CB_CODEC_FIXED(int16_t, CB_CODEC_KIND_I16, n, 2)
#define CB_CODEC_FIELD_i32(n) CB_CODEC_FIXED(int32_t, CB_CODEC_KIND_I32, n, 4)
#define CB_CODEC_FIELD_i64(n) CB_CODEC_FIXED(int64_t, CB_CODEC_KIND_I64, n, 8)
#define CB_CODEC_FIELD_f32(n) CB_CODEC_FIXED(float, CB_CODEC_KIND_F32, n, 4)
#define CB_CODEC_FIELD_f64(n) CB_CODEC_FIXED(double, CB_CODEC_KIND_F64, n, 8)
#define CB_CODEC_FIELD_varu(n) \
    uint64_t n;, 0, 1, 10, cbi_var, ~, n, CB_CODEC_PLAIN(CB_CODEC_KIND_VARU, n, 1, 0)
#define CB_CODEC_FIELD_vari(n) \
    int64_t n;, 0, 1, 10, cbi_var, ~, n, CB_CODEC_PLAIN(CB_CODEC_KIND_VARI, n, 1, 0)
#define CB_CODEC_FIELD_flag(n) \
    bool n;, 1, 0, 0, cbi_number, ~, n, CB_CODEC_PLAIN(CB_CODEC_KIND_FLAG, n, 0, 1)
#define CB_CODEC_FIELD_range(n, low, high) \
    int32_t n;, CB_CODEC_SPAN_BITS(low, high), 0, 0, cbi_number, ~, n, \
    CB_CODEC_ENTRY(CB_CODEC_KIND_RANGE, CB_CODEC_KIND_NONE, n, n, CB_CODEC_SPAN(low, high), \
                   CB_CODEC_CHECKED((low) <= (high) && (low) >= -2147483647 - 1 && (high) <= 2147483647, \
                                    low), 0, CB_CODEC_SPAN_BITS(low, high), 0, 0, NULL)
#define CB_CODEC_FIELD_enum(n, values) \
    uint32_t n;, CB_CODEC_SPAN_BITS(1, values), 0, 0, cbi_number, ~, n, \
    CB_CODEC_ENTRY(CB_CODEC_KIND_ENUM, CB_CODEC_KIND_NONE, n, n, \
                   CB_CODEC_CHECKED((values) >= 1, (values) - 1), 0, 0, \
                   CB_CODEC_SPAN_BITS(1, values), 0, 0, NULL)
#define CB_CODEC_FIELD_quant(n, low, high, bits) \
    float n;, bits, 0, 0, cbi_number, ~, n, \
    CB_CODEC_ENTRY(CB_CODEC_KIND_QUANT, CB_CODEC_KIND_NONE, n, n, 0, 0, 0, \
                   CB_CODEC_CHECKED((bits) >= 1 && (bits) <= 24, bits), low, high, NULL)
#define CB_CODEC_FIELD_text(n, max) \
    char n[(max) + 1];, 0, CB_CODEC_PREFIX(max), CB_CODEC_PREFIX(max) + (max), cbi_run, ~, n, \
    CB_CODEC_BOUNDED(CB_CODEC_KIND_TEXT, n, n, max)
#define CB_CODEC_FIELD_bytes(n, max) \
    uint32_t n##_size; uint8_t n[max];, 0, CB_CODEC_PREFIX(max), CB_CODEC_PREFIX(max) + (max), cbi_run, ~, \
    n, CB_CODEC_BOUNDED(CB_CODEC_KIND_BYTES, n, n##_size, max)
#define CB_CODEC_FIELD_view(n, max) \
    cb_slice n;, 0, CB_CODEC_PREFIX(max), CB_CODEC_PREFIX(max) + (max), cbi_run, ~, n, \
    CB_CODEC_BOUNDED(CB_CODEC_KIND_VIEW, n, n, max)
#define CB_CODEC_FIELD_nest(n, T) \
    T n;, (int)cbi_codec_bits_##T, (int)cbi_codec_body_min_##T, (int)cbi_codec_body_max_##T, cbi_nest, T, n, \
    CB_CODEC_ENTRY(CB_CODEC_KIND_NEST, CB_CODEC_KIND_NEST, n, n, 0, 0, 0, 0, 0, 0, cbi_codec_schema_##T)

/* Lists and opts take an element. A kind without parameters has a row CB_CODEC_ELEMENT_<kind>, which begins
 * with a place holder; anything else is a schema's name: CB_CODEC_ELEMENT_<name> then stays one unknown word,
 * and the columns that follow it are those of CB_CODEC_ELEMENT_SCHEMA. So the columns from the second on are
 * right in both cases:
 *
 *   place holder | type | least bits | most bits | kind | width | schema function | way in a list, an opt */
#define CB_CODEC_FIELD_list(n, e, max) \
    CB_CODEC_CALL(CB_CODEC_FIELD_LIST, n, max, e, CB_CODEC_ELEMENT_##e, CB_CODEC_ELEMENT_SCHEMA(e))
#define CB_CODEC_FIELD_opt(n, e) \
    CB_CODEC_CALL(CB_CODEC_FIELD_OPT, n, e, CB_CODEC_ELEMENT_##e, CB_CODEC_ELEMENT_SCHEMA(e))
#define CB_CODEC_FIELD_LIST(n, max, e, probe, type, lo, hi, kind, width, schema, way, opt_way, ...) \
    uint32_t n##_count; type n[max];, 0, CB_CODEC_PREFIX(max), \
    CB_CODEC_PREFIX(max) + ((max) * (hi) + 7) / 8, way, e, n, \
    CB_CODEC_ENTRY(CB_CODEC_KIND_LIST, kind, n, n##_count, \
                   CB_CODEC_CHECKED((max) >= 1 && (lo) >= 1, max), 0, width, 0, 0, 0, schema)
#define CB_CODEC_FIELD_OPT(n, e, probe, type, lo, hi, kind, width, schema, list_way, way, ...) \
    bool has_##n; type n;, 1, 0, ((hi) + 7) / 8, way, e, n, \
    CB_CODEC_ENTRY(CB_CODEC_KIND_OPT, kind, n, has_##n, 1, 0, width, 1, 0, 0, schema)
#define CB_CODEC_ELEMENT_u8 ~, uint8_t, 8, 8, CB_CODEC_KIND_U8, 1, NULL, cbi_list, cbi_opt
#define CB_CODEC_ELEMENT_u16 ~, uint16_t, 16, 16, CB_CODEC_KIND_U16, 2, NULL, cbi_list, cbi_opt
#define CB_CODEC_ELEMENT_u32 ~, uint32_t, 32, 32, CB_CODEC_KIND_U32, 4, NULL, cbi_list, cbi_opt
#define CB_CODEC_ELEMENT_u64 ~, uint64_t, 64, 64, CB_CODEC_KIND_U64, 8, NULL, cbi_list, cbi_opt
#define CB_CODEC_ELEMENT_i8 ~, int8_t, 8, 8, CB_CODEC_KIND_I8, 1, NULL, cbi_list, cbi_opt
#define CB_CODEC_ELEMENT_i16 ~, int16_t, 16, 16, CB_CODEC_KIND_I16, 2, NULL, cbi_list, cbi_opt
#define CB_CODEC_ELEMENT_i32 ~, int32_t, 32, 32, CB_CODEC_KIND_I32, 4, NULL, cbi_list, cbi_opt
#define CB_CODEC_ELEMENT_i64 ~, int64_t, 64, 64, CB_CODEC_KIND_I64, 8, NULL, cbi_list, cbi_opt
#define CB_CODEC_ELEMENT_f32 ~, float, 32, 32, CB_CODEC_KIND_F32, 4, NULL, cbi_list, cbi_opt
#define CB_CODEC_ELEMENT_f64 ~, double, 64, 64, CB_CODEC_KIND_F64, 8, NULL, cbi_list, cbi_opt
#define CB_CODEC_ELEMENT_varu ~, uint64_t, 8, 80, CB_CODEC_KIND_VARU, 1, NULL, cbi_list, cbi_opt
#define CB_CODEC_ELEMENT_vari ~, int64_t, 8, 80, CB_CODEC_KIND_VARI, 1, NULL, cbi_list, cbi_opt
#define CB_CODEC_ELEMENT_flag ~, bool, 1, 1, CB_CODEC_KIND_FLAG, 1, NULL, cbi_list, cbi_opt
#define CB_CODEC_ELEMENT_SCHEMA(e) \
    e, ((int)e##_min_size * 8), ((int)e##_max_size * 8), CB_CODEC_KIND_NEST, 0, \
    cbi_codec_schema_##e, cbi_each, cbi_maybe, ~

/* -- what the rows are made of -- */
#define CB_CODEC_PLAIN(kind, n, width, bits) \
    CB_CODEC_ENTRY(kind, CB_CODEC_KIND_NONE, n, n, 0, 0, width, bits, 0, 0, NULL)
#define CB_CODEC_BOUNDED(kind, n, mark, max) \
    CB_CODEC_ENTRY(kind, CB_CODEC_KIND_NONE, n, mark, CB_CODEC_CHECKED((max) >= 1, max), 0, \
                   CB_CODEC_PREFIX(max), 0, 0, 0, NULL)
#define CB_CODEC_ENTRY(kind, element, n, mark, bound, base, width, bits, low, high, schema) \
    { CB_CODEC_NAME(n), schema, (double)(low), (double)(high), (uint32_t)offsetof(cbi_codec_self, n), \
      (uint32_t)offsetof(cbi_codec_self, mark), (uint32_t)(bound), (int32_t)(base), \
      (uint8_t)(kind), (uint8_t)(element), (uint8_t)(width), (uint8_t)(bits) }
#if defined(CB_CODEC_NO_STRINGS)
#define CB_CODEC_NAME(n) ""
#else
#define CB_CODEC_NAME(n) #n
#endif
/* The value, or "array size is negative" at the field whose parameters are impossible. */
#define CB_CODEC_CHECKED(condition, value) ((value) * (int)sizeof(char[(condition) ? 1 : -1]))
#define CB_CODEC_PREFIX(max) ((max) <= 255 ? 1 : (max) <= 65535 ? 2 : 4)
#define CB_CODEC_SPAN(low, high) ((int64_t)(high) - (int64_t)(low))
/* Bits that hold the numbers 0 to high - low: one for each power of two that is not above it. */
#define CB_CODEC_SPAN_BITS(low, high) (CB_CODEC_BITS_8(low, high, 0) + CB_CODEC_BITS_8(low, high, 8) + \
                                       CB_CODEC_BITS_8(low, high, 16) + CB_CODEC_BITS_8(low, high, 24))
#define CB_CODEC_BITS_8(low, high, k) \
    (CB_CODEC_BIT(low, high, (k)) + CB_CODEC_BIT(low, high, (k) + 1) + \
     CB_CODEC_BIT(low, high, (k) + 2) + CB_CODEC_BIT(low, high, (k) + 3) + \
     CB_CODEC_BIT(low, high, (k) + 4) + CB_CODEC_BIT(low, high, (k) + 5) + \
     CB_CODEC_BIT(low, high, (k) + 6) + CB_CODEC_BIT(low, high, (k) + 7))
#define CB_CODEC_BIT(low, high, k) (CB_CODEC_SPAN(low, high) >> (k) != 0)

/* -- the struct and its constants -- */
#define CB_CODEC_DECLARE(T, LIST) \
    typedef struct T { LIST(CB_CODEC_MEMBER) } T; \
    enum { \
        cbi_codec_bits_##T = 0 LIST(CB_CODEC_BITS), \
        cbi_codec_bit_bytes_##T = ((0 LIST(CB_CODEC_BITS)) + 7) / 8, \
        cbi_codec_body_min_##T = 0 LIST(CB_CODEC_MIN), \
        cbi_codec_body_max_##T = 0 LIST(CB_CODEC_MAX), \
        T##_min_size = ((0 LIST(CB_CODEC_BITS)) + 7) / 8 LIST(CB_CODEC_MIN), \
        T##_max_size = ((0 LIST(CB_CODEC_BITS)) + 7) / 8 LIST(CB_CODEC_MAX) \
    };

/* -- the functions. The last one is never called: it keeps compilers from calling the others unused. -- */
#define CB_CODEC_DEFINE(T, LIST) \
    static const cb_codec_schema *cbi_codec_schema_##T(void) \
    { \
        typedef T cbi_codec_self; \
        static const cb_codec_field fields[] = { LIST(CB_CODEC_ROW) }; \
        static const cb_codec_schema schema = { \
            CB_CODEC_NAME(T), fields, (uint32_t)(sizeof fields / sizeof fields[0]), (uint32_t)sizeof(T), \
            (uint32_t)cbi_codec_bits_##T, (uint32_t)T##_min_size, (uint32_t)T##_max_size \
        }; \
        return &schema; \
    } \
    CB_CODEC_STRAIGHT(T, LIST) \
    static cb_codec_status T##_encode(const T *from, uint8_t *out, size_t capacity, size_t *size, \
                                      cb_codec_error *why) \
    { \
        CB_CODEC_DO_ENCODE(T) \
    } \
    static cb_codec_status T##_decode(T *to, const uint8_t *in, size_t size, cb_codec_error *why) \
    { \
        CB_CODEC_DO_DECODE(T) \
    } \
    static size_t T##_size(const T *from) { return cb_codec_size(cbi_codec_schema_##T(), from); } \
    static bool T##_equal(const T *a, const T *b) { return cb_codec_equal(cbi_codec_schema_##T(), a, b); } \
    static cb_codec_status T##_validate(const T *from, cb_codec_error *why) \
    { \
        return cb_codec_validate(cbi_codec_schema_##T(), from, why); \
    } \
    static uint64_t T##_layout_hash(void) { return cb_codec_layout_hash(cbi_codec_schema_##T()); } \
    static size_t T##_describe(char *out, size_t capacity) \
    { \
        return cb_codec_describe(cbi_codec_schema_##T(), out, capacity); \
    } \
    static const cb_codec_schema *T##_schema(void) { return cbi_codec_schema_##T(); } \
    static const cb_codec_field *T##_fields(size_t *count) \
    { \
        if (count != NULL) { \
            *count = cbi_codec_schema_##T()->field_count; \
        } \
        return cbi_codec_schema_##T()->fields; \
    } \
    CB_CODEC_UNUSED static void cbi_codec_keep_##T(void) \
    { \
        (void)T##_encode; (void)T##_decode; (void)T##_size; (void)T##_equal; (void)T##_validate; \
        (void)T##_layout_hash; (void)T##_describe; (void)T##_schema; (void)T##_fields; \
    }
#if defined(__GNUC__) || defined(__clang__)
#define CB_CODEC_UNUSED __attribute__((unused))
#else
#define CB_CODEC_UNUSED
#endif

/* ============================== schemas: the field functions ==============================
 *
 * What happens to one field, written once and compiled in two ways. With a field of a constant table they
 * fold to straight-line code (a u32 becomes one load and one store); the loops over tables in the
 * implementation call the same functions with a field that is not known before. The first is taken where the
 * compiler optimises for speed (CB_CODEC_SMALL and CB_CODEC_FAST decide otherwise); when it meets a refusal
 * it gives up without a word, and the second goes over the message again and says why. So reasons cost
 * nothing until they are wanted.
 *
 * Room is counted by promises. A block begins only where its least size is there; that much is set aside, and
 * `slack` is what is left beyond it. From then on fixed fields need no check at all: only what is longer than
 * its least (a text's bytes, a list's elements) is compared with slack and taken from it. At the end of a
 * decode, slack is the number of bytes left over. */
#if !defined(CB_CODEC_FAST) && !defined(CB_CODEC_SMALL) && defined(__OPTIMIZE__) && \
    (!defined(__OPTIMIZE_SIZE__) || defined(CB_CODEC_NO_STDLIB))
#define CB_CODEC_FAST 1
#endif
#if !defined(CB_CODEC_BRIEF) && defined(CB_CODEC_FAST) && defined(CB_CODEC_NO_STDLIB)
#define CB_CODEC_BRIEF 1
#endif
#if !defined(CB_CODEC_FAST) && !defined(CB_CODEC_SMALL) && defined(__OPTIMIZE_SIZE__)
#define CB_CODEC_SMALL 1
#endif
#if defined(CB_CODEC_FAST) && (defined(__GNUC__) || defined(__clang__))
#define CB_CODEC_HOT static inline __attribute__((always_inline)) /* folding is the point */
#else
#define CB_CODEC_HOT static inline
#endif
#if defined(CB_CODEC_FAST)
#define CB_CODEC_STEP CB_CODEC_HOT
#elif defined(__clang__)
#define CB_CODEC_STEP static inline __attribute__((noinline)) /* one copy of each, as gcc does */
#else
#define CB_CODEC_STEP static inline
#endif
#if defined(_MSC_VER) || (defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
#define CB_CODEC_LITTLE 1 /* memory of a number is its wire form */
#else
#define CB_CODEC_LITTLE 0
#endif

typedef enum cbi_codec_rule { /* which rule was broken; a reason is made of it only where one is wanted */
    CBI_CODEC_FULL, CBI_CODEC_CUT, CBI_CODEC_TRAILING, CBI_CODEC_COUNT, CBI_CODEC_LENGTH, CBI_CODEC_NUMBER,
    CBI_CODEC_RANGE, CBI_CODEC_VARINT, CBI_CODEC_PADDING, CBI_CODEC_TEXT, CBI_CODEC_UNENDED, CBI_CODEC_NAN
} cbi_codec_rule;

typedef struct cbi_codec_fault {
    cbi_codec_rule rule;
    uint64_t number, limit; /* what was met and what was allowed; their meaning is the rule's */
} cbi_codec_fault;

typedef struct cbi_codec_bits { /* where the bit block of the block at hand stands */
    uint64_t held;              /* bits not yet written, or read and not yet used; low ones first */
    uint32_t held_count;
    uint8_t *to;                /* put: the next byte of the bit block */
    const uint8_t *from, *end;  /* get: the next one, and the end of the bit block */
} cbi_codec_bits;

typedef struct cbi_codec_put {
    uint8_t *at; /* next byte field */
    size_t slack;
    cbi_codec_bits bits;
    cbi_codec_fault fault;
} cbi_codec_put;

typedef struct cbi_codec_get {
    const uint8_t *at;
    size_t slack;
    cbi_codec_bits bits;
    cbi_codec_fault fault;
} cbi_codec_get;

#define CB_CODEC_REFUSED SIZE_MAX /* measure: no size, the fault tells */

CB_CODEC_HOT bool cbi_codec_refuse(cbi_codec_fault *fault, cbi_codec_rule rule, uint64_t number,
                                   uint64_t limit)
{
    fault->rule = rule;
    fault->number = number;
    fault->limit = limit;
    return false;
}

/* -- numbers in memory and on the wire; width is 1, 2, 4 or 8 -- */
CB_CODEC_HOT uint64_t cbi_codec_peek(const uint8_t *memory, size_t width)
{
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    switch (width) {
    case 1: return *memory;
    case 2: memcpy(&u16, memory, 2); return u16;
    case 4: memcpy(&u32, memory, 4); return u32;
    default: memcpy(&u64, memory, 8); return u64;
    }
}

CB_CODEC_HOT void cbi_codec_poke(uint8_t *memory, uint64_t value, size_t width)
{
    uint16_t u16 = (uint16_t)(value & 0xffffu);
    uint32_t u32 = (uint32_t)(value & 0xffffffffu);
    switch (width) {
    case 1: *memory = (uint8_t)(value & 0xffu); break;
    case 2: memcpy(memory, &u16, 2); break;
    case 4: memcpy(memory, &u32, 4); break;
    default: memcpy(memory, &value, 8); break;
    }
}

CB_CODEC_HOT void cbi_codec_store(uint8_t *wire, uint64_t value, size_t width)
{
#if CB_CODEC_LITTLE
    cbi_codec_poke(wire, value, width);
#else
    size_t i;
    for (i = 0; i < width; i++) {
        wire[i] = (uint8_t)(value >> (8u * i) & 0xffu);
    }
#endif
}

CB_CODEC_HOT uint64_t cbi_codec_load(const uint8_t *wire, size_t width)
{
#if CB_CODEC_LITTLE
    return cbi_codec_peek(wire, width);
#else
    uint64_t value = 0;
    size_t i;
    for (i = 0; i < width; i++) {
        value |= (uint64_t)wire[i] << (8u * i);
    }
    return value;
#endif
}

/* Text and bytes, mostly short. */
CB_CODEC_HOT void cbi_codec_copy(uint8_t *to, const uint8_t *from, size_t size)
{
    if (size != 0) { /* the pointers may be NULL then */
        memcpy(to, from, size);
    }
}

/* Lists and whole structs. A short copy of known size becomes a few moves; a long one must not be known, for
 * gcc makes `rep movs` of it, which takes several times as long. */
CB_CODEC_HOT void cbi_codec_copy_items(uint8_t *to, const uint8_t *from, size_t size)
{
#if defined(__GNUC__) || defined(__clang__)
    if (__builtin_constant_p(size) && size <= 64) {
        cbi_codec_copy(to, from, size);
        return;
    }
#endif
    cb_codec_copy(to, from, size);
}

CB_CODEC_HOT uint64_t cbi_codec_zigzag(uint64_t x) { return (x << 1) ^ (0u - (x >> 63)); }
CB_CODEC_HOT uint64_t cbi_codec_unzigzag(uint64_t x) { return (x >> 1) ^ (0u - (x & 1u)); }
CB_CODEC_HOT size_t cbi_codec_prefix(uint32_t bound)
{
    return bound <= 255u ? 1u : bound <= 65535u ? 2u : 4u;
}

/* Bytes that an element of a parameterless kind takes in memory. */
CB_CODEC_HOT size_t cbi_codec_memory(int kind, size_t width)
{
    return kind == CB_CODEC_KIND_VARU || kind == CB_CODEC_KIND_VARI ? 8u : width;
}

/* -- the bit block: in steps of 4 bytes, so that a number of up to 32 bits always finds room -- */
CB_CODEC_STEP void cbi_codec_put_bits(cbi_codec_put *o, uint32_t value, uint32_t count)
{
    o->bits.held |= (uint64_t)value << o->bits.held_count;
    o->bits.held_count += count;
    if (o->bits.held_count >= 32u) {
        cbi_codec_store(o->bits.to, o->bits.held, 4);
        o->bits.to += 4;
        o->bits.held >>= 32;
        o->bits.held_count -= 32u;
    }
}

CB_CODEC_STEP uint32_t cbi_codec_get_bits(cbi_codec_get *in, uint32_t count)
{
    uint64_t value;
    if (in->bits.held_count < count) { /* the block has as many bits as its fields, so these are there */
        size_t left = (size_t)(in->bits.end - in->bits.from);
        uint64_t more = 0;
        switch (left) {
        case 1: more = in->bits.from[0]; break;
        case 2: more = cbi_codec_load(in->bits.from, 2); break;
        case 3: more = cbi_codec_load(in->bits.from, 2) | (uint64_t)in->bits.from[2] << 16; break;
        default: more = cbi_codec_load(in->bits.from, 4); left = 4; break;
        }
        in->bits.held |= more << in->bits.held_count;
        in->bits.held_count += (uint32_t)(8u * left);
        in->bits.from += left;
    }
    value = in->bits.held & (((uint64_t)1 << count) - 1u);
    in->bits.held >>= count;
    in->bits.held_count -= count;
    return (uint32_t)value;
}

/* A block's bytes have been promised before; its bits come first. */
CB_CODEC_HOT void cbi_codec_put_open(cbi_codec_put *o, size_t bit_bytes)
{
    o->bits.held = 0;
    o->bits.held_count = 0;
    o->bits.to = o->at;
    o->bits.from = o->bits.end = NULL;
    o->at += bit_bytes;
}

CB_CODEC_STEP void cbi_codec_put_close(cbi_codec_put *o)
{
    switch ((o->bits.held_count + 7u) / 8u) {
    case 1: o->bits.to[0] = (uint8_t)(o->bits.held & 0xffu); break;
    case 2: cbi_codec_store(o->bits.to, o->bits.held, 2); break;
    case 3:
        cbi_codec_store(o->bits.to, o->bits.held, 2);
        o->bits.to[2] = (uint8_t)(o->bits.held >> 16);
        break;
    case 4: cbi_codec_store(o->bits.to, o->bits.held, 4); break;
    default: break;
    }
}

CB_CODEC_HOT void cbi_codec_get_open(cbi_codec_get *in, size_t bit_bytes)
{
    in->bits.held = 0;
    in->bits.held_count = 0;
    in->bits.to = NULL;
    in->bits.from = in->at;
    in->at += bit_bytes;
    in->bits.end = in->at;
}

CB_CODEC_HOT bool cbi_codec_get_close(cbi_codec_get *in)
{
    return in->bits.held == 0 ? true : cbi_codec_refuse(&in->fault, CBI_CODEC_PADDING, 0, 0);
}

/* -- quant: the nearest step; NaN was refused before, and what lies outside takes the nearest end -- */
CB_CODEC_STEP uint32_t cbi_codec_quantise(float value, double lo, double hi, uint32_t bits)
{
    double steps = (double)(((uint32_t)1 << bits) - 1u);
    double at = ((double)value - lo) * (steps / (hi - lo)) + 0.5;
    if (at >= steps) {
        return ((uint32_t)1 << bits) - 1u;
    }
    return at > 0 ? (uint32_t)at : 0u;
}

CB_CODEC_STEP float cbi_codec_dequantise(uint32_t step, double lo, double hi, uint32_t bits)
{
    double steps = (double)(((uint32_t)1 << bits) - 1u);
    return (float)(lo + (double)step * ((hi - lo) / steps));
}

/* -- measure: whether a value is allowed, and how many bytes it takes beyond its least; CB_CODEC_REFUSED if
 * not. Put and get follow, one function for each group of kinds: plain (copied as it is), var, number (of
 * bits), run (bytes behind a length), list, opt; and `leaf`, which picks one of them by the kind. -- */
CB_CODEC_STEP size_t cbi_codec_measure_scalar(int kind, const uint8_t *memory)
{
    uint64_t x;
    if (kind != CB_CODEC_KIND_VARU && kind != CB_CODEC_KIND_VARI) {
        return 0;
    }
    x = cbi_codec_peek(memory, 8);
    return cb_codec_varu_size(kind == CB_CODEC_KIND_VARI ? cbi_codec_zigzag(x) : x) - 1u;
}

CB_CODEC_STEP size_t cbi_codec_measure_number(const cb_codec_field *f, const uint8_t *message,
                                              cbi_codec_fault *fault)
{
    const uint8_t *memory = message + f->offset;
    bool ok = true;
    uint64_t x = 0;
    float real;
    switch ((int)f->kind) {
    case CB_CODEC_KIND_ENUM:
        x = cbi_codec_peek(memory, 4);
        ok = x <= f->bound || cbi_codec_refuse(fault, CBI_CODEC_NUMBER, x, f->bound);
        break;
    case CB_CODEC_KIND_RANGE: /* the distance from lo, modulo 2^32: below lo it is above every hi - lo */
        x = (cbi_codec_peek(memory, 4) - (uint64_t)f->base) & 0xffffffffu;
        ok = x <= f->bound || cbi_codec_refuse(fault, CBI_CODEC_RANGE, x, f->bound);
        break;
    case CB_CODEC_KIND_QUANT: /* NaN is neither below nor above; bounds in the wrong order allow nothing */
        memcpy(&real, memory, sizeof real);
        ok = ((real <= 0 || real >= 0) && f->lo < f->hi) || cbi_codec_refuse(fault, CBI_CODEC_NAN, 0, 0);
        break;
    default: break;
    }
    return ok ? 0u : CB_CODEC_REFUSED;
}

CB_CODEC_STEP size_t cbi_codec_measure_run(const cb_codec_field *f, const uint8_t *message,
                                           cbi_codec_fault *fault)
{
    const uint8_t *memory = message + f->offset;
    size_t size;
    cb_slice view;
    if (f->kind == CB_CODEC_KIND_TEXT) {
        size = cb_codec_text_size((const char *)memory, f->bound);
        if (size == SIZE_MAX) {
            bool ended = memchr(memory, 0, (size_t)f->bound + 1u) != NULL;
            cbi_codec_refuse(fault, ended ? CBI_CODEC_TEXT : CBI_CODEC_UNENDED, 0, f->bound);
        }
        return size;
    }
    size = (size_t)cbi_codec_peek(message + f->mark, 4);
    if (f->kind == CB_CODEC_KIND_VIEW) {
        memcpy(&view, memory, sizeof view);
        size = view.size;
    }
    if (size > f->bound) {
        cbi_codec_refuse(fault, CBI_CODEC_LENGTH, size, f->bound);
        return CB_CODEC_REFUSED;
    }
    return size;
}

/* The count of any list, whether its elements are a schema's or not. */
CB_CODEC_STEP bool cbi_codec_measure_count(const cb_codec_field *f, const uint8_t *message, size_t *count,
                                           cbi_codec_fault *fault)
{
    *count = (size_t)cbi_codec_peek(message + f->mark, 4);
    return *count <= f->bound || cbi_codec_refuse(fault, CBI_CODEC_COUNT, *count, f->bound);
}

CB_CODEC_STEP size_t cbi_codec_measure_list(const cb_codec_field *f, const uint8_t *message,
                                            cbi_codec_fault *fault)
{
    size_t i, count, size;
    if (!cbi_codec_measure_count(f, message, &count, fault)) {
        return CB_CODEC_REFUSED;
    }
    if (f->element == CB_CODEC_KIND_FLAG) {
        return (count + 7u) / 8u;
    }
    size = count * f->width; /* no more than the array takes in memory, so this cannot wrap */
    if (f->element == CB_CODEC_KIND_VARU || f->element == CB_CODEC_KIND_VARI) {
        for (i = 0; i < count; i++) {
            size += cbi_codec_measure_scalar(f->element, message + f->offset + 8u * i);
        }
    }
    return size;
}

CB_CODEC_STEP size_t cbi_codec_measure_opt(const cb_codec_field *f, const uint8_t *message)
{
    return message[f->mark] != 0 ? f->width + cbi_codec_measure_scalar(f->element, message + f->offset) : 0;
}

CB_CODEC_STEP size_t cbi_codec_measure_leaf(const cb_codec_field *f, const uint8_t *message,
                                            cbi_codec_fault *fault)
{
    switch ((int)f->kind) {
    case CB_CODEC_KIND_RANGE:
    case CB_CODEC_KIND_ENUM:
    case CB_CODEC_KIND_QUANT: return cbi_codec_measure_number(f, message, fault);
    case CB_CODEC_KIND_TEXT:
    case CB_CODEC_KIND_BYTES:
    case CB_CODEC_KIND_VIEW: return cbi_codec_measure_run(f, message, fault);
    case CB_CODEC_KIND_LIST: return cbi_codec_measure_list(f, message, fault);
    case CB_CODEC_KIND_OPT: return cbi_codec_measure_opt(f, message);
    default: return cbi_codec_measure_scalar(f->kind, message + f->offset);
    }
}

/* -- put: measures, takes what is beyond the least out of slack, and writes -- */
CB_CODEC_STEP bool cbi_codec_put_extra(cbi_codec_put *o, size_t size)
{
    if (size > o->slack) { /* CB_CODEC_REFUSED too, whose fault is already told */
        return size != CB_CODEC_REFUSED && cbi_codec_refuse(&o->fault, CBI_CODEC_FULL, size, o->slack);
    }
    o->slack -= size;
    return true;
}

CB_CODEC_STEP void cbi_codec_put_prefix(cbi_codec_put *o, uint32_t bound, size_t value)
{
    cbi_codec_store(o->at, value, cbi_codec_prefix(bound));
    o->at += cbi_codec_prefix(bound);
}

/* A value of a parameterless kind that has been measured; a flag here is a block of one bit. */
CB_CODEC_STEP void cbi_codec_put_scalar(cbi_codec_put *o, int kind, size_t width, const uint8_t *memory)
{
    uint64_t x = cbi_codec_peek(memory, cbi_codec_memory(kind, width));
    if (kind == CB_CODEC_KIND_VARU || kind == CB_CODEC_KIND_VARI) {
        x = kind == CB_CODEC_KIND_VARI ? cbi_codec_zigzag(x) : x;
        if (x < 0x80u) {
            *o->at++ = (uint8_t)x;
        } else {
            o->at += cb_codec_varu_put(o->at, x);
        }
        return;
    }
    cbi_codec_store(o->at, kind == CB_CODEC_KIND_FLAG ? (uint64_t)(x != 0) : x, width);
    o->at += width;
}

CB_CODEC_STEP bool cbi_codec_put_plain(cbi_codec_put *o, const cb_codec_field *f, const void *from)
{
    cbi_codec_store(o->at, cbi_codec_peek((const uint8_t *)from + f->offset, f->width), f->width);
    o->at += f->width;
    return true;
}

CB_CODEC_STEP bool cbi_codec_put_var(cbi_codec_put *o, const cb_codec_field *f, const void *from)
{
    const uint8_t *memory = (const uint8_t *)from + f->offset;
    if (!cbi_codec_put_extra(o, cbi_codec_measure_scalar(f->kind, memory))) {
        return false;
    }
    cbi_codec_put_scalar(o, f->kind, 1, memory);
    return true;
}

CB_CODEC_STEP bool cbi_codec_put_number(cbi_codec_put *o, const cb_codec_field *f, const void *from)
{
    const uint8_t *memory = (const uint8_t *)from + f->offset;
    uint32_t x;
    float real;
    if (cbi_codec_measure_number(f, (const uint8_t *)from, &o->fault) == CB_CODEC_REFUSED) {
        return false;
    }
    switch ((int)f->kind) {
    case CB_CODEC_KIND_FLAG: x = *memory != 0 ? 1u : 0u; break; /* a bool of 2 is no two bits */
    case CB_CODEC_KIND_QUANT:
        memcpy(&real, memory, sizeof real);
        x = cbi_codec_quantise(real, f->lo, f->hi, f->bits);
        break;
    default: x = (uint32_t)((cbi_codec_peek(memory, 4) - (uint64_t)f->base) & 0xffffffffu); break;
    }
    cbi_codec_put_bits(o, x, f->bits);
    return true;
}

CB_CODEC_STEP bool cbi_codec_put_run(cbi_codec_put *o, const cb_codec_field *f, const void *from)
{
    const uint8_t *memory = (const uint8_t *)from + f->offset;
    size_t size = cbi_codec_measure_run(f, (const uint8_t *)from, &o->fault);
    cb_slice view;
    if (!cbi_codec_put_extra(o, size)) {
        return false;
    }
    if (f->kind == CB_CODEC_KIND_VIEW) {
        memcpy(&view, memory, sizeof view);
        memory = view.data;
    }
    cbi_codec_put_prefix(o, f->bound, size);
    cbi_codec_copy(o->at, memory, size);
    o->at += size;
    return true;
}

CB_CODEC_STEP bool cbi_codec_put_list(cbi_codec_put *o, const cb_codec_field *f, const void *from)
{
    const uint8_t *message = (const uint8_t *)from;
    const uint8_t *memory = message + f->offset;
    size_t size = cbi_codec_measure_list(f, message, &o->fault);
    size_t i, count = (size_t)cbi_codec_peek(message + f->mark, 4);
    if (!cbi_codec_put_extra(o, size)) {
        return false;
    }
    cbi_codec_put_prefix(o, f->bound, count);
    if (f->element == CB_CODEC_KIND_FLAG) {
        cb_codec_flags_pack(o->at, (const bool *)memory, count);
        o->at += size;
    } else if (f->element <= CB_CODEC_KIND_F64 && (CB_CODEC_LITTLE || f->width == 1)) {
        cbi_codec_copy_items(o->at, memory, size);
        o->at += size;
    } else {
        for (i = 0; i < count; i++) {
            cbi_codec_put_scalar(o, f->element, f->width, memory);
            memory += cbi_codec_memory(f->element, f->width);
        }
    }
    return true;
}

CB_CODEC_STEP bool cbi_codec_put_opt(cbi_codec_put *o, const cb_codec_field *f, const void *from)
{
    const uint8_t *message = (const uint8_t *)from;
    bool has = message[f->mark] != 0;
    if (!cbi_codec_put_extra(o, cbi_codec_measure_opt(f, message))) {
        return false;
    }
    cbi_codec_put_bits(o, has ? 1u : 0u, 1);
    if (has) {
        cbi_codec_put_scalar(o, f->element, f->width, message + f->offset);
    }
    return true;
}

CB_CODEC_STEP bool cbi_codec_put_leaf(cbi_codec_put *o, const cb_codec_field *f, const void *from)
{
    switch ((int)f->kind) {
    case CB_CODEC_KIND_NONE: return true;
    case CB_CODEC_KIND_VARU:
    case CB_CODEC_KIND_VARI: return cbi_codec_put_var(o, f, from);
    case CB_CODEC_KIND_FLAG:
    case CB_CODEC_KIND_RANGE:
    case CB_CODEC_KIND_ENUM:
    case CB_CODEC_KIND_QUANT: return cbi_codec_put_number(o, f, from);
    case CB_CODEC_KIND_TEXT:
    case CB_CODEC_KIND_BYTES:
    case CB_CODEC_KIND_VIEW: return cbi_codec_put_run(o, f, from);
    case CB_CODEC_KIND_LIST: return cbi_codec_put_list(o, f, from);
    case CB_CODEC_KIND_OPT: return cbi_codec_put_opt(o, f, from);
    default: return cbi_codec_put_plain(o, f, from);
    }
}

/* -- get: every rule is judged before the value is stored, every length before its bytes are touched -- */
CB_CODEC_STEP bool cbi_codec_get_extra(cbi_codec_get *in, size_t size)
{
    if (size > in->slack) {
        return cbi_codec_refuse(&in->fault, CBI_CODEC_CUT, size, in->slack);
    }
    in->slack -= size;
    return true;
}

CB_CODEC_STEP bool cbi_codec_get_prefix(cbi_codec_get *in, uint32_t bound, cbi_codec_rule rule, size_t *value)
{
    uint64_t x = cbi_codec_load(in->at, cbi_codec_prefix(bound));
    in->at += cbi_codec_prefix(bound);
    *value = (size_t)x;
    return x <= bound || cbi_codec_refuse(&in->fault, rule, x, bound);
}

CB_CODEC_STEP bool cbi_codec_get_varint(cbi_codec_get *in, int kind, uint8_t *memory)
{
    uint64_t x = *in->at;
    size_t used = 1;
    if (x >= 0x80u) { /* the first byte was promised; more of them may only come out of slack */
        used = cb_codec_varu_get(in->at, in->slack < 9u ? in->slack + 1u : 10u, &x);
        if (used == 0) {
            return cbi_codec_refuse(&in->fault, CBI_CODEC_CUT, in->slack + 1u, in->slack);
        }
        if (used == SIZE_MAX) {
            return cbi_codec_refuse(&in->fault, CBI_CODEC_VARINT, 0, 0);
        }
    }
    in->at += used;
    in->slack -= used - 1u;
    cbi_codec_poke(memory, kind == CB_CODEC_KIND_VARI ? cbi_codec_unzigzag(x) : x, 8);
    return true;
}

CB_CODEC_STEP bool cbi_codec_get_scalar(cbi_codec_get *in, int kind, size_t width, uint8_t *memory)
{
    uint64_t x;
    if (kind == CB_CODEC_KIND_VARU || kind == CB_CODEC_KIND_VARI) {
        return cbi_codec_get_varint(in, kind, memory);
    }
    x = cbi_codec_load(in->at, width);
    in->at += width;
    if (kind == CB_CODEC_KIND_FLAG && x > 1u) { /* an opt flag: a block of one bit */
        return cbi_codec_refuse(&in->fault, CBI_CODEC_PADDING, 0, 0);
    }
    cbi_codec_poke(memory, x, width);
    return true;
}

CB_CODEC_STEP bool cbi_codec_get_plain(cbi_codec_get *in, const cb_codec_field *f, void *to)
{
    cbi_codec_poke((uint8_t *)to + f->offset, cbi_codec_load(in->at, f->width), f->width);
    in->at += f->width;
    return true;
}

CB_CODEC_STEP bool cbi_codec_get_var(cbi_codec_get *in, const cb_codec_field *f, void *to)
{
    return cbi_codec_get_varint(in, f->kind, (uint8_t *)to + f->offset);
}

CB_CODEC_STEP bool cbi_codec_get_number(cbi_codec_get *in, const cb_codec_field *f, void *to)
{
    uint8_t *memory = (uint8_t *)to + f->offset;
    uint32_t x = cbi_codec_get_bits(in, f->bits);
    float real;
    switch ((int)f->kind) {
    case CB_CODEC_KIND_FLAG: *memory = (uint8_t)x; return true;
    case CB_CODEC_KIND_QUANT:
        real = cbi_codec_dequantise(x, f->lo, f->hi, f->bits);
        memcpy(memory, &real, sizeof real);
        return true;
    default:
        if (x > f->bound) {
            cbi_codec_rule rule = f->kind == CB_CODEC_KIND_ENUM ? CBI_CODEC_NUMBER : CBI_CODEC_RANGE;
            return cbi_codec_refuse(&in->fault, rule, x, f->bound);
        }
        cbi_codec_poke(memory, (uint64_t)f->base + x, 4);
        return true;
    }
}

CB_CODEC_STEP bool cbi_codec_get_run(cbi_codec_get *in, const cb_codec_field *f, void *to)
{
    uint8_t *memory = (uint8_t *)to + f->offset;
    cb_slice run;
    if (!cbi_codec_get_prefix(in, f->bound, CBI_CODEC_LENGTH, &run.size) ||
        !cbi_codec_get_extra(in, run.size)) {
        return false;
    }
    run.data = in->at;
    in->at += run.size;
    if (f->kind == CB_CODEC_KIND_VIEW) {
        memcpy(memory, &run, sizeof run);
        return true;
    }
    if (f->kind == CB_CODEC_KIND_TEXT) {
        if (!cb_codec_text_valid(run.data, run.size)) {
            return cbi_codec_refuse(&in->fault, CBI_CODEC_TEXT, 0, 0);
        }
        memory[run.size] = 0;
    } else {
        cbi_codec_poke((uint8_t *)to + f->mark, run.size, 4);
    }
    cbi_codec_copy(memory, run.data, run.size);
    return true;
}

CB_CODEC_STEP bool cbi_codec_get_flags(cbi_codec_get *in, uint8_t *memory, size_t count)
{
    size_t size = (count + 7u) / 8u;
    if (!cbi_codec_get_extra(in, size)) {
        return false;
    }
    if (count % 8u != 0 && in->at[size - 1u] >> (count % 8u) != 0) {
        return cbi_codec_refuse(&in->fault, CBI_CODEC_PADDING, 0, 0);
    }
    cb_codec_flags_unpack((bool *)memory, in->at, count);
    in->at += size;
    return true;
}

CB_CODEC_STEP bool cbi_codec_get_list(cbi_codec_get *in, const cb_codec_field *f, void *to)
{
    uint8_t *memory = (uint8_t *)to + f->offset;
    size_t i, count;
    if (!cbi_codec_get_prefix(in, f->bound, CBI_CODEC_COUNT, &count)) {
        return false;
    }
    cbi_codec_poke((uint8_t *)to + f->mark, count, 4);
    if (f->element == CB_CODEC_KIND_FLAG) {
        return cbi_codec_get_flags(in, memory, count);
    }
    if (!cbi_codec_get_extra(in, count * f->width)) { /* count is within the bound, so this cannot wrap */
        return false;
    }
    if (f->element <= CB_CODEC_KIND_F64 && (CB_CODEC_LITTLE || f->width == 1)) {
        cbi_codec_copy_items(memory, in->at, count * f->width);
        in->at += count * f->width;
        return true;
    }
    for (i = 0; i < count; i++) {
        uint8_t *item = memory + i * cbi_codec_memory(f->element, f->width);
        if (!cbi_codec_get_scalar(in, f->element, f->width, item)) {
            return false;
        }
    }
    return true;
}

/* The presence bit of any opt. An absent value becomes zero, so nothing of an earlier message stays. */
CB_CODEC_STEP bool cbi_codec_get_has(cbi_codec_get *in, const cb_codec_field *f, uint8_t *message,
                                     size_t memory_size)
{
    bool has = cbi_codec_get_bits(in, 1) != 0;
    message[f->mark] = has ? 1u : 0u;
    if (!has) {
        memset(message + f->offset, 0, memory_size);
    }
    return has;
}

CB_CODEC_STEP bool cbi_codec_get_opt(cbi_codec_get *in, const cb_codec_field *f, void *to)
{
    uint8_t *message = (uint8_t *)to;
    if (!cbi_codec_get_has(in, f, message, cbi_codec_memory(f->element, f->width))) {
        return true;
    }
    return cbi_codec_get_extra(in, f->width) &&
           cbi_codec_get_scalar(in, f->element, f->width, message + f->offset);
}

CB_CODEC_STEP bool cbi_codec_get_leaf(cbi_codec_get *in, const cb_codec_field *f, void *to)
{
    switch ((int)f->kind) {
    case CB_CODEC_KIND_NONE: ((uint8_t *)to)[f->offset] = 0; return true;
    case CB_CODEC_KIND_VARU:
    case CB_CODEC_KIND_VARI: return cbi_codec_get_var(in, f, to);
    case CB_CODEC_KIND_FLAG:
    case CB_CODEC_KIND_RANGE:
    case CB_CODEC_KIND_ENUM:
    case CB_CODEC_KIND_QUANT: return cbi_codec_get_number(in, f, to);
    case CB_CODEC_KIND_TEXT:
    case CB_CODEC_KIND_BYTES:
    case CB_CODEC_KIND_VIEW: return cbi_codec_get_run(in, f, to);
    case CB_CODEC_KIND_LIST: return cbi_codec_get_list(in, f, to);
    case CB_CODEC_KIND_OPT: return cbi_codec_get_opt(in, f, to);
    default: return cbi_codec_get_plain(in, f, to);
    }
}

CB_CODEC_HOT bool cbi_codec_get_end(cbi_codec_get *in)
{
    return in->slack == 0 ? true : cbi_codec_refuse(&in->fault, CBI_CODEC_TRAILING, in->slack, 0);
}

/* -- refusals -- */
CB_CODEC_STEP cb_codec_status cbi_codec_rule_status(cbi_codec_rule rule)
{
    switch ((int)rule) {
    case CBI_CODEC_CUT: return CB_CODEC_E_CUT;
    case CBI_CODEC_TRAILING: return CB_CODEC_E_TRAILING;
    case CBI_CODEC_VARINT:
    case CBI_CODEC_PADDING: return CB_CODEC_E_FORM;
    case CBI_CODEC_TEXT: return CB_CODEC_E_TEXT;
    default: return CB_CODEC_E_BOUND;
    }
}

/* The whole of an error under CB_CODEC_BRIEF: the type and the status. */
CB_CODEC_STEP cb_codec_status cbi_codec_brief(cb_codec_error *why, const char *type, cb_codec_status status)
{
    if (why != NULL) {
        cb_codec_text_clip(why->field, sizeof why->field, type);
        cb_codec_text_clip(why->reason, sizeof why->reason, cb_codec_status_str(status));
    }
    return status;
}

/* ============================== schemas: straight-line code ==============================
 *
 * For each schema, three functions each way: `body` is one statement a field, in the parent's block where the
 * schema is nested; `block` is a body with bits of its own; `some` is a number of blocks, as many as one
 * message, an opt or a list holds. A struct without padding, bits or variable parts is already what the wire
 * wants (`same`: its fields are in order and nothing else adds to its size), so a list of those is one
 * memcpy. */
#if !defined(CB_CODEC_FAST)
#define CB_CODEC_STRAIGHT(T, LIST)
#define CB_CODEC_DO_ENCODE(T) return cb_codec_encode(cbi_codec_schema_##T(), from, out, capacity, size, why);
#define CB_CODEC_DO_DECODE(T) return cb_codec_decode(cbi_codec_schema_##T(), to, in, size, why);
#else
#define CB_CODEC_DO_ENCODE(T) \
    cbi_codec_put o; \
    o.at = out; \
    o.slack = capacity; \
    if (cbi_codec_put_some_##T(&o, from, 1)) { \
        *size = capacity - o.slack; \
        return CB_CODEC_OK; \
    } \
    CB_CODEC_REFUSE_ENCODE(T)
#define CB_CODEC_DO_DECODE(T) \
    cbi_codec_get g; \
    g.at = in; \
    g.slack = size; \
    if (cbi_codec_get_some_##T(&g, to, 1) && cbi_codec_get_end(&g)) { \
        return CB_CODEC_OK; \
    } \
    CB_CODEC_REFUSE_DECODE(T)
#if defined(CB_CODEC_BRIEF) /* nothing below needs the tables, so a linker can leave them out */
#define CB_CODEC_REFUSE_ENCODE(T) \
    (void)size; \
    return cbi_codec_brief(why, CB_CODEC_NAME(T), \
                           o.fault.rule == CBI_CODEC_FULL ? CB_CODEC_E_FULL : CB_CODEC_E_VALUE);
#define CB_CODEC_REFUSE_DECODE(T) \
    memset(to, 0, sizeof(T)); \
    return cbi_codec_brief(why, CB_CODEC_NAME(T), cbi_codec_rule_status(g.fault.rule));
#else
#define CB_CODEC_REFUSE_ENCODE(T) \
    return cb_codec_encode(cbi_codec_schema_##T(), from, out, capacity, size, why);
#define CB_CODEC_REFUSE_DECODE(T) \
    return cb_codec_decode(cbi_codec_schema_##T(), to, in, size, why);
#endif

#define CB_CODEC_STRAIGHT(T, LIST) \
    enum { \
        cbi_codec_same_##T = CB_CODEC_LITTLE && cbi_codec_bits_##T == 0 && \
                             (int)T##_min_size == (int)T##_max_size && (size_t)T##_max_size == sizeof(T) \
    }; \
    CB_CODEC_HOT bool cbi_codec_put_body_##T(cbi_codec_put *o, const T *v) \
    { \
        const cb_codec_field *f = cbi_codec_schema_##T()->fields; \
        LIST(CB_CODEC_PUT) \
        (void)f; \
        return true; \
    } \
    CB_CODEC_HOT bool cbi_codec_put_block_##T(cbi_codec_put *o, const T *v) \
    { \
        cbi_codec_put_open(o, cbi_codec_bit_bytes_##T); \
        if (!cbi_codec_put_body_##T(o, v)) { \
            return false; \
        } \
        cbi_codec_put_close(o); \
        return true; \
    } \
    CB_CODEC_HOT bool cbi_codec_put_some_##T(cbi_codec_put *o, const T *v, size_t count) \
    { \
        size_t i; \
        if (!cbi_codec_put_extra(o, count * (size_t)T##_min_size)) { \
            return false; \
        } \
        if (cbi_codec_same_##T) { \
            cbi_codec_copy_items(o->at, (const uint8_t *)v, count * sizeof(T)); \
            o->at += count * sizeof(T); \
            return true; \
        } \
        for (i = 0; i < count; i++) { \
            if (!cbi_codec_put_block_##T(o, &v[i])) { \
                return false; \
            } \
        } \
        return true; \
    } \
    CB_CODEC_HOT bool cbi_codec_get_body_##T(cbi_codec_get *in, T *v) \
    { \
        const cb_codec_field *f = cbi_codec_schema_##T()->fields; \
        LIST(CB_CODEC_GET) \
        (void)f; \
        return true; \
    } \
    CB_CODEC_HOT bool cbi_codec_get_block_##T(cbi_codec_get *in, T *v) \
    { \
        cbi_codec_get_open(in, cbi_codec_bit_bytes_##T); \
        return cbi_codec_get_body_##T(in, v) && cbi_codec_get_close(in); \
    } \
    CB_CODEC_HOT bool cbi_codec_get_some_##T(cbi_codec_get *in, T *v, size_t count) \
    { \
        size_t i; \
        if (!cbi_codec_get_extra(in, count * (size_t)T##_min_size)) { \
            return false; \
        } \
        if (cbi_codec_same_##T) { \
            cbi_codec_copy_items((uint8_t *)v, in->at, count * sizeof(T)); \
            in->at += count * sizeof(T); \
            return true; \
        } \
        for (i = 0; i < count; i++) { \
            if (!cbi_codec_get_block_##T(in, &v[i])) { \
                return false; \
            } \
        } \
        return true; \
    }
#endif

/* One statement a field: v is the message, f its row in the table, which moves on. The bits of the enclosing
 * block wait while elements are at work. */
#define CB_CODEC_PUT_cbi_leaf(T, n) CB_CODEC_DO(cbi_codec_put_leaf(o, f, v))
#define CB_CODEC_PUT_cbi_plain(T, n) CB_CODEC_DO(cbi_codec_put_plain(o, f, v))
#define CB_CODEC_PUT_cbi_var(T, n) CB_CODEC_DO(cbi_codec_put_var(o, f, v))
#define CB_CODEC_PUT_cbi_number(T, n) CB_CODEC_DO(cbi_codec_put_number(o, f, v))
#define CB_CODEC_PUT_cbi_run(T, n) CB_CODEC_DO(cbi_codec_put_run(o, f, v))
#define CB_CODEC_PUT_cbi_list(T, n) CB_CODEC_DO(cbi_codec_put_list(o, f, v))
#define CB_CODEC_PUT_cbi_opt(T, n) CB_CODEC_DO(cbi_codec_put_opt(o, f, v))
#define CB_CODEC_GET_cbi_leaf(T, n) CB_CODEC_DO(cbi_codec_get_leaf(in, f, v))
#define CB_CODEC_GET_cbi_plain(T, n) CB_CODEC_DO(cbi_codec_get_plain(in, f, v))
#define CB_CODEC_GET_cbi_var(T, n) CB_CODEC_DO(cbi_codec_get_var(in, f, v))
#define CB_CODEC_GET_cbi_number(T, n) CB_CODEC_DO(cbi_codec_get_number(in, f, v))
#define CB_CODEC_GET_cbi_run(T, n) CB_CODEC_DO(cbi_codec_get_run(in, f, v))
#define CB_CODEC_GET_cbi_list(T, n) CB_CODEC_DO(cbi_codec_get_list(in, f, v))
#define CB_CODEC_GET_cbi_opt(T, n) CB_CODEC_DO(cbi_codec_get_opt(in, f, v))
#define CB_CODEC_DO(call) \
    if (!call) { \
        return false; \
    } \
    f++;
#define CB_CODEC_PUT_cbi_nest(T, n) CB_CODEC_DO(cbi_codec_put_body_##T(o, &v->n))
#define CB_CODEC_PUT_cbi_each(T, n) \
    { \
        cbi_codec_bits outer = o->bits; \
        size_t count; \
        if (!cbi_codec_measure_count(f, (const uint8_t *)v, &count, &o->fault)) { \
            return false; \
        } \
        cbi_codec_put_prefix(o, f->bound, count); \
        if (!cbi_codec_put_some_##T(o, v->n, count)) { \
            return false; \
        } \
        o->bits = outer; \
        f++; \
    }
#define CB_CODEC_PUT_cbi_maybe(T, n) \
    { \
        bool has = ((const uint8_t *)v)[f->mark] != 0; \
        cbi_codec_put_bits(o, has ? 1u : 0u, 1); \
        if (has) { \
            cbi_codec_bits outer = o->bits; \
                if (!cbi_codec_put_some_##T(o, &v->n, 1)) { \
                return false; \
            } \
            o->bits = outer; \
            } \
        f++; \
    }
#define CB_CODEC_GET_cbi_nest(T, n) CB_CODEC_DO(cbi_codec_get_body_##T(in, &v->n))
#define CB_CODEC_GET_cbi_each(T, n) \
    { \
        cbi_codec_bits outer = in->bits; \
        size_t count; \
        if (!cbi_codec_get_prefix(in, f->bound, CBI_CODEC_COUNT, &count) || \
            !cbi_codec_get_some_##T(in, v->n, count)) { \
            return false; \
        } \
        v->n##_count = (uint32_t)count; \
        in->bits = outer; \
        f++; \
    }
#define CB_CODEC_GET_cbi_maybe(T, n) \
    if (cbi_codec_get_has(in, f, (uint8_t *)v, sizeof(T))) { \
        cbi_codec_bits outer = in->bits; \
        if (!cbi_codec_get_some_##T(in, &v->n, 1)) { \
            return false; \
        } \
        in->bits = outer; \
    } \
    f++;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* CB_CODEC_H */

/* ================================= implementation ================================= */
#if defined(CB_CODEC_IMPLEMENTATION) && !defined(CB_CODEC_IMPLEMENTED)
#define CB_CODEC_IMPLEMENTED 1

#ifndef CB_CODEC_ASSERT
#if defined(CB_CODEC_NO_STDLIB)
#define CB_CODEC_ASSERT(c) ((void)0)
#else
#include <assert.h>
#define CB_CODEC_ASSERT(c) assert(c)
#endif
#endif
#if defined(__SSE2__) && !defined(CB_CODEC_SMALL) && !defined(CB_CODEC_NO_SIMD)
#include <emmintrin.h>
#define CBI_CODEC_SSE2 1
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* -- 1. pure leaves: varints -- */
CB_CODEC_DEF size_t cb_codec_varu_size(uint64_t x)
{
    size_t size = 1;
    for (; x >= 0x80u; x >>= 7) {
        size++;
    }
    return size;
}

CB_CODEC_DEF size_t cb_codec_varu_put(uint8_t *at, uint64_t x)
{
    size_t size = 0;
    for (; x >= 0x80u; x >>= 7) {
        at[size++] = (uint8_t)((x & 0x7fu) | 0x80u);
    }
    at[size++] = (uint8_t)x;
    return size;
}

/* A last byte of zero would make a longer form of a shorter number; a tenth byte has one bit to give. */
CB_CODEC_DEF size_t cb_codec_varu_get(const uint8_t *at, size_t size, uint64_t *x)
{
    uint64_t value = 0;
    size_t i;
    for (i = 0; i < size && i < 10u; i++) {
        value |= (uint64_t)(at[i] & 0x7fu) << (7u * i);
        if (at[i] < 0x80u) {
            if ((i != 0 && at[i] == 0) || (i == 9u && at[i] > 1u)) {
                return SIZE_MAX;
            }
            *x = value;
            return i + 1u;
        }
    }
    return i == 10u ? SIZE_MAX : 0u;
}

/* -- 2. pure leaves: copies and text -- */

/* Hot: blocks of 64 become vector moves on every target that has them; the last block overlaps the one
 * before, so there is no tail. Shorter and longer ones are libc's. */
CB_CODEC_DEF void cb_codec_copy(uint8_t *to, const uint8_t *from, size_t size)
{
#if !defined(CB_CODEC_SMALL)
    size_t i;
    if (size >= 64u && size <= 2048u) {
        for (i = 0; i < size - 64u; i += 64) {
            memcpy(to + i, from + i, 64);
        }
        memcpy(to + size - 64u, from + size - 64u, 64);
        return;
    }
#endif
    cbi_codec_copy(to, from, size);
}

/* Bytes of the character that begins at `at`, or 0 where none does (RFC 3629 section 4). The second byte of
 * some leads has a narrower range: that is what keeps over-long forms, surrogates and the too large out. */
static size_t cbi_codec_utf8_char(const uint8_t *at, size_t left)
{
    uint8_t lead = at[0], low = 0x80, high = 0xbf;
    size_t i, size = lead < 0xe0u ? 2u : lead < 0xf0u ? 3u : 4u;
    if (lead < 0x80u) {
        return lead != 0 ? 1u : 0u;
    }
    if (lead < 0xc2u || lead > 0xf4u || left < size) {
        return 0;
    }
    low = lead == 0xe0u ? 0xa0 : lead == 0xf0u ? 0x90 : low;
    high = lead == 0xedu ? 0x9f : lead == 0xf4u ? 0x8f : high;
    if (at[1] < low || at[1] > high) {
        return 0;
    }
    for (i = 2; i < size; i++) {
        if ((at[i] & 0xc0u) != 0x80u) {
            return 0;
        }
    }
    return size;
}

/* Eight bytes at once while all are from 1 to 127: subtracting 1 from each raises the top bit of a zero. */
CB_CODEC_DEF bool cb_codec_text_valid(const uint8_t *data, size_t size)
{
    size_t at = 0, step;
    while (at < size) {
        if (size - at >= 8u) {
            uint64_t eight = cbi_codec_load(data + at, 8);
            if (((eight | (eight - 0x0101010101010101u)) & 0x8080808080808080u) == 0) {
                at += 8;
                continue;
            }
        }
        step = cbi_codec_utf8_char(data + at, size - at);
        if (step == 0) {
            return false;
        }
        at += step;
    }
    return true;
}

CB_CODEC_DEF size_t cb_codec_text_size(const char *text, size_t max)
{
    const char *end = (const char *)memchr(text, 0, max + 1u);
    if (end == NULL || !cb_codec_text_valid((const uint8_t *)text, (size_t)(end - text))) {
        return SIZE_MAX;
    }
    return (size_t)(end - text);
}

CB_CODEC_DEF cb_codec_status cb_codec_text_set(char *field, size_t field_bytes, const char *text)
{
    size_t size = strlen(text);
    if (size >= field_bytes || !cb_codec_text_valid((const uint8_t *)text, size)) {
        return CB_CODEC_E_VALUE;
    }
    memcpy(field, text, size + 1u);
    return CB_CODEC_OK;
}

CB_CODEC_DEF void cb_codec_text_clip(char *out, size_t capacity, const char *text)
{
    size_t size = strlen(text);
    size = size < capacity ? size : capacity - 1u;
    memcpy(out, text, size);
    out[size] = 0;
}

/* -- 3. pure leaves: flags -- */

/* The plain forms, which also do the tails and are what the tests hold the others against. */
static void cbi_codec_flags_pack_plain(uint8_t *bytes, const uint8_t *flags, size_t count)
{
    size_t i, k;
    for (i = 0; i < count; i += 8) {
        unsigned byte = 0;
        for (k = 0; k < 8 && i + k < count; k++) {
            byte |= flags[i + k] != 0 ? 1u << k : 0u;
        }
        bytes[i / 8u] = (uint8_t)byte;
    }
}

static void cbi_codec_flags_unpack_plain(uint8_t *flags, const uint8_t *bytes, size_t count)
{
    size_t i;
    for (i = 0; i < count; i++) {
        flags[i] = (uint8_t)(((unsigned)bytes[i / 8u] >> (i % 8u)) & 1u);
    }
}

#if !defined(CB_CODEC_SMALL)
/* Hot: eight flags in one word. Folding x into "not zero" and multiplying moves bit 8k to bit 56 + k; the way
 * back spreads the byte over eight lanes, keeps one bit in each, and makes ones of them. Returns how many
 * were done. */
static size_t cbi_codec_flags_pack_swar_hot(uint8_t *bytes, const uint8_t *flags, size_t count)
{
    size_t i;
    for (i = 0; i + 8u <= count; i += 8) {
        uint64_t x = cbi_codec_load(flags + i, 8);
        x = ((x & 0x7f7f7f7f7f7f7f7fu) + 0x7f7f7f7f7f7f7f7fu) | x;
        x = x >> 7 & 0x0101010101010101u;
        bytes[i / 8u] = (uint8_t)(x * 0x0102040810204080u >> 56);
    }
    return i;
}

static size_t cbi_codec_flags_unpack_swar_hot(uint8_t *flags, const uint8_t *bytes, size_t count)
{
    size_t i;
    for (i = 0; i + 8u <= count; i += 8) {
        uint64_t x = bytes[i / 8u] * 0x0101010101010101u & 0x8040201008040201u;
        x = (x + 0x7f7f7f7f7f7f7f7fu) | x; /* no lane carries: at most 0x80 + 0x7f */
        cbi_codec_store(flags + i, x >> 7 & 0x0101010101010101u, 8);
    }
    return i;
}
#endif

#if defined(CBI_CODEC_SSE2)
/* Hot: 64 flags become one word. Comparing with zero and taking the top bit of each lane gives the flags
 * upside down; four of these are turned over and stored at once, which is what makes it keep up with the
 * loads. */
static uint64_t cbi_codec_flags_zero_hot(const uint8_t *flags)
{
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)flags);
    return (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(x, _mm_setzero_si128()));
}

static size_t cbi_codec_flags_pack_sse2_hot(uint8_t *bytes, const uint8_t *flags, size_t count)
{
    size_t i;
    for (i = 0; i + 64u <= count; i += 64) {
        const uint8_t *at = flags + i;
        uint64_t low = cbi_codec_flags_zero_hot(at) | cbi_codec_flags_zero_hot(at + 16) << 16;
        uint64_t high = cbi_codec_flags_zero_hot(at + 32) | cbi_codec_flags_zero_hot(at + 48) << 16;
        cbi_codec_store(bytes + i / 8u, ~(low | high << 32), 8);
    }
    return i;
}

/* Hot: eight bytes become 64 flags. Each byte is doubled three times, so that it fills eight lanes; one bit
 * is kept in each lane, and what is left of it becomes one. */
static size_t cbi_codec_flags_unpack_sse2_hot(uint8_t *flags, const uint8_t *bytes, size_t count)
{
    const __m128i lane = _mm_set1_epi64x((long long)0x8040201008040201u);
    const __m128i one = _mm_set1_epi8(1);
    size_t i;
    for (i = 0; i + 64u <= count; i += 64) {
        __m128i *to = (__m128i *)(void *)(flags + i);
        __m128i x = _mm_loadl_epi64((const __m128i *)(const void *)(bytes + i / 8u));
        __m128i two = _mm_unpacklo_epi8(x, x);
        __m128i low = _mm_unpacklo_epi16(two, two), high = _mm_unpackhi_epi16(two, two);
        _mm_storeu_si128(to, _mm_min_epu8(_mm_and_si128(_mm_unpacklo_epi32(low, low), lane), one));
        _mm_storeu_si128(to + 1, _mm_min_epu8(_mm_and_si128(_mm_unpackhi_epi32(low, low), lane), one));
        _mm_storeu_si128(to + 2, _mm_min_epu8(_mm_and_si128(_mm_unpacklo_epi32(high, high), lane), one));
        _mm_storeu_si128(to + 3, _mm_min_epu8(_mm_and_si128(_mm_unpackhi_epi32(high, high), lane), one));
    }
    return i;
}
#endif

CB_CODEC_DEF void cb_codec_flags_pack(uint8_t *bytes, const bool *flags, size_t count)
{
    const uint8_t *from = (const uint8_t *)flags; /* a bool that holds neither 0 nor 1 counts as true */
    size_t done = 0;
#if defined(CBI_CODEC_SSE2)
    done = cbi_codec_flags_pack_sse2_hot(bytes, from, count);
#endif
#if !defined(CB_CODEC_SMALL)
    done += cbi_codec_flags_pack_swar_hot(bytes + done / 8u, from + done, count - done);
#endif
    cbi_codec_flags_pack_plain(bytes + done / 8u, from + done, count - done);
}

CB_CODEC_DEF void cb_codec_flags_unpack(bool *flags, const uint8_t *bytes, size_t count)
{
    uint8_t *to = (uint8_t *)flags;
    size_t done = 0;
#if defined(CBI_CODEC_SSE2)
    done = cbi_codec_flags_unpack_sse2_hot(to, bytes, count);
#endif
#if !defined(CB_CODEC_SMALL)
    done += cbi_codec_flags_unpack_swar_hot(to + done, bytes + done / 8u, count - done);
#endif
    cbi_codec_flags_unpack_plain(to + done, bytes + done / 8u, count - done);
}

/* -- 4. writers and readers -- */
CB_CODEC_DEF void cb_codec_writer_init(cb_codec_writer *w, void *data, size_t capacity)
{
    CB_CODEC_ASSERT(w != NULL && (data != NULL || capacity == 0));
    w->data = (uint8_t *)data;
    w->capacity = capacity;
    w->size = 0;
    w->status = CB_CODEC_OK;
}

/* Room for `size` bytes at the end, now written by the caller; NULL (and E_FULL) where there is none. */
static uint8_t *cbi_codec_writer_take(cb_codec_writer *w, size_t size)
{
    uint8_t *at;
    if (w->status == CB_CODEC_OK && size > w->capacity - w->size) {
        w->status = CB_CODEC_E_FULL;
    }
    if (w->status != CB_CODEC_OK || size == 0) {
        return NULL;
    }
    at = w->data + w->size;
    w->size += size;
    return at;
}

CB_CODEC_DEF void cb_codec_write_uint(cb_codec_writer *w, uint64_t value, size_t width)
{
    uint8_t *at;
    size_t i;
    CB_CODEC_ASSERT(width >= 1 && width <= 8);
    at = cbi_codec_writer_take(w, width);
    for (i = 0; at != NULL && i < width; i++) {
        at[i] = (uint8_t)(value >> (8u * i) & 0xffu);
    }
}

CB_CODEC_DEF void cb_codec_write_f32(cb_codec_writer *w, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    cb_codec_write_uint(w, bits, 4);
}

CB_CODEC_DEF void cb_codec_write_f64(cb_codec_writer *w, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, 8);
    cb_codec_write_uint(w, bits, 8);
}

CB_CODEC_DEF void cb_codec_write_varu(cb_codec_writer *w, uint64_t value)
{
    uint8_t *at = cbi_codec_writer_take(w, cb_codec_varu_size(value));
    if (at != NULL) {
        cb_codec_varu_put(at, value);
    }
}

CB_CODEC_DEF void cb_codec_write_vari(cb_codec_writer *w, int64_t value)
{
    cb_codec_write_varu(w, cbi_codec_zigzag((uint64_t)value));
}

CB_CODEC_DEF void cb_codec_write_bytes(cb_codec_writer *w, const void *data, size_t size)
{
    uint8_t *at = cbi_codec_writer_take(w, size);
    if (at != NULL) {
        memcpy(at, data, size);
    }
}

CB_CODEC_DEF void cb_codec_write_text(cb_codec_writer *w, const char *text, uint32_t max)
{
    size_t size = cb_codec_text_size(text, max), width = cbi_codec_prefix(max);
    uint8_t *at;
    if (size == SIZE_MAX) {
        w->status = w->status == CB_CODEC_OK ? CB_CODEC_E_VALUE : w->status;
        return;
    }
    at = cbi_codec_writer_take(w, width + size);
    if (at != NULL) {
        cbi_codec_store(at, size, width);
        memcpy(at + width, text, size);
    }
}

CB_CODEC_DEF void cb_codec_reader_init(cb_codec_reader *r, const void *data, size_t size)
{
    CB_CODEC_ASSERT(r != NULL && (data != NULL || size == 0));
    r->data = (const uint8_t *)data;
    r->size = size;
    r->at = 0;
    r->status = CB_CODEC_OK;
}

static void cbi_codec_reader_fail(cb_codec_reader *r, cb_codec_status status)
{
    r->status = r->status == CB_CODEC_OK ? status : r->status;
}

CB_CODEC_DEF cb_slice cb_codec_read_bytes(cb_codec_reader *r, size_t size)
{
    cb_slice bytes;
    bytes.data = NULL;
    bytes.size = 0;
    if (size > r->size - r->at) {
        cbi_codec_reader_fail(r, CB_CODEC_E_CUT);
    }
    if (r->status == CB_CODEC_OK && r->data != NULL) {
        bytes.data = r->data + r->at;
        bytes.size = size;
        r->at += size;
    }
    return bytes;
}

CB_CODEC_DEF uint64_t cb_codec_read_uint(cb_codec_reader *r, size_t width)
{
    cb_slice bytes;
    uint64_t value = 0;
    size_t i;
    CB_CODEC_ASSERT(width >= 1 && width <= 8);
    bytes = cb_codec_read_bytes(r, width);
    for (i = 0; i < bytes.size; i++) {
        value |= (uint64_t)bytes.data[i] << (8u * i);
    }
    return value;
}

CB_CODEC_DEF float cb_codec_read_f32(cb_codec_reader *r)
{
    uint32_t bits = cb_codec_read_u32(r);
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

CB_CODEC_DEF double cb_codec_read_f64(cb_codec_reader *r)
{
    uint64_t bits = cb_codec_read_u64(r);
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

CB_CODEC_DEF uint64_t cb_codec_read_varu(cb_codec_reader *r)
{
    uint64_t value = 0;
    size_t used = 0;
    if (r->at < r->size) {
        used = cb_codec_varu_get(r->data + r->at, r->size - r->at, &value);
    }
    if (used == 0 || used == SIZE_MAX) {
        cbi_codec_reader_fail(r, used == 0 ? CB_CODEC_E_CUT : CB_CODEC_E_FORM);
    }
    if (r->status != CB_CODEC_OK) {
        return 0;
    }
    r->at += used;
    return value;
}

CB_CODEC_DEF int64_t cb_codec_read_vari(cb_codec_reader *r)
{
    return cbi_codec_signed(cbi_codec_unzigzag(cb_codec_read_varu(r)), 64);
}

CB_CODEC_DEF void cb_codec_read_text(cb_codec_reader *r, char *out, uint32_t max)
{
    cb_codec_reader ahead = *r; /* moves r only when the whole text is good */
    uint64_t size = cb_codec_read_uint(&ahead, cbi_codec_prefix(max));
    cb_slice bytes;
    out[0] = 0;
    if (size > max) {
        cbi_codec_reader_fail(&ahead, CB_CODEC_E_BOUND);
    }
    bytes = cb_codec_read_bytes(&ahead, (size_t)size);
    if (ahead.status == CB_CODEC_OK && !cb_codec_text_valid(bytes.data, bytes.size)) {
        ahead.status = CB_CODEC_E_TEXT;
    }
    if (ahead.status != CB_CODEC_OK) {
        r->status = ahead.status;
        return;
    }
    *r = ahead;
    memcpy(out, bytes.data, bytes.size);
    out[bytes.size] = 0;
}

CB_CODEC_DEF cb_codec_status cb_codec_reader_end(const cb_codec_reader *r)
{
    return r->status == CB_CODEC_OK && r->at != r->size ? CB_CODEC_E_TRAILING : r->status;
}

/* -- 5. bit writer and reader: up to 7 bits stay held between calls, so 56 more always fit -- */
CB_CODEC_DEF void cb_codec_bit_writer_init(cb_codec_bit_writer *w, void *data, size_t capacity)
{
    CB_CODEC_ASSERT(w != NULL && (data != NULL || capacity == 0));
    w->data = (uint8_t *)data;
    w->capacity = capacity;
    w->size = 0;
    w->held = 0;
    w->held_count = 0;
    w->status = CB_CODEC_OK;
}

/* count: 0 to 56, room and value checked. */
static void cbi_codec_bits_write_some(cb_codec_bit_writer *w, uint64_t value, uint32_t count)
{
    w->held |= value << w->held_count;
    w->held_count += count;
    while (w->held_count >= 8u) {
        w->data[w->size++] = (uint8_t)(w->held & 0xffu);
        w->held >>= 8;
        w->held_count -= 8u;
    }
}

CB_CODEC_DEF void cb_codec_bits_write(cb_codec_bit_writer *w, uint64_t value, uint32_t count)
{
    uint32_t low = count < 32u ? count : 32u;
    if (w->status != CB_CODEC_OK) {
        return;
    }
    if (count > 64u || (count < 64u && value >> count != 0)) {
        w->status = CB_CODEC_E_VALUE;
        return;
    }
    if ((w->held_count + count + 7u) / 8u > w->capacity - w->size) { /* with the last, unfilled byte */
        w->status = CB_CODEC_E_FULL;
        return;
    }
    cbi_codec_bits_write_some(w, value & (((uint64_t)1 << low) - 1u), low);
    cbi_codec_bits_write_some(w, count > 32u ? value >> 32 : 0u, count - low);
}

CB_CODEC_DEF cb_codec_status cb_codec_bit_writer_end(cb_codec_bit_writer *w, size_t *size)
{
    if (w->status == CB_CODEC_OK && w->held_count != 0) {
        cbi_codec_bits_write_some(w, 0, 8u - w->held_count);
    }
    if (w->status == CB_CODEC_OK && size != NULL) {
        *size = w->size;
    }
    return w->status;
}

CB_CODEC_DEF void cb_codec_bit_reader_init(cb_codec_bit_reader *r, const void *data, size_t size)
{
    CB_CODEC_ASSERT(r != NULL && (data != NULL || size == 0));
    r->data = (const uint8_t *)data;
    r->size = size;
    r->at = 0;
    r->held = 0;
    r->held_count = 0;
    r->status = CB_CODEC_OK;
}

/* count: 0 to 32, known to be there. */
static uint64_t cbi_codec_bits_read_some(cb_codec_bit_reader *r, uint32_t count)
{
    uint64_t value;
    while (r->held_count < count) {
        r->held |= (uint64_t)r->data[r->at++] << r->held_count;
        r->held_count += 8u;
    }
    value = r->held & (((uint64_t)1 << count) - 1u);
    r->held >>= count;
    r->held_count -= count;
    return value;
}

CB_CODEC_DEF uint64_t cb_codec_bits_read(cb_codec_bit_reader *r, uint32_t count)
{
    uint32_t low = count < 32u ? count : 32u;
    uint64_t value;
    if (r->status == CB_CODEC_OK && count > 64u) {
        r->status = CB_CODEC_E_ARG;
    }
    if (r->status == CB_CODEC_OK && count > r->held_count &&
        (count - r->held_count + 7u) / 8u > r->size - r->at) {
        r->status = CB_CODEC_E_CUT;
    }
    if (r->status != CB_CODEC_OK) {
        return 0;
    }
    value = cbi_codec_bits_read_some(r, low);
    return count > 32u ? value | cbi_codec_bits_read_some(r, count - 32u) << 32 : value;
}

CB_CODEC_DEF cb_codec_status cb_codec_bit_reader_end(const cb_codec_bit_reader *r)
{
    if (r->status == CB_CODEC_OK && r->at != r->size) {
        return CB_CODEC_E_TRAILING;
    }
    return r->status == CB_CODEC_OK && r->held != 0 ? CB_CODEC_E_FORM : r->status;
}

/* -- 6. text of reasons and layouts: what fits is written, the length counts on -- */
#if !defined(CB_CODEC_NO_STRINGS)
typedef struct cbi_codec_text {
    char *out;
    size_t capacity, size;
} cbi_codec_text;

static void cbi_codec_say(cbi_codec_text *t, const char *text)
{
    for (; *text != 0; text++) {
        if (t->size + 1u < t->capacity) {
            t->out[t->size] = *text;
        }
        t->size++;
    }
}

static void cbi_codec_say_number(cbi_codec_text *t, uint64_t x)
{
    char digits[21];
    size_t at = sizeof digits - 1u;
    digits[at] = 0;
    do {
        digits[--at] = (char)('0' + (int)(x % 10u));
        x /= 10u;
    } while (x != 0);
    cbi_codec_say(t, digits + at);
}

static void cbi_codec_say_signed(cbi_codec_text *t, int64_t x)
{
    cbi_codec_say(t, x < 0 ? "-" : "");
    cbi_codec_say_number(t, x < 0 ? 0u - (uint64_t)x : (uint64_t)x);
}

/* Bounds of quants: six decimals at most, the last zeros left out; beyond 10^15 whole multiples of a power of
 * ten. */
static void cbi_codec_say_real(cbi_codec_text *t, double x)
{
    uint64_t whole, part, unit;
    int tens = 0;
    cbi_codec_say(t, x < 0 ? "-" : "");
    x = x < 0 ? -x : x;
    for (; x >= 1e15 && tens < 310; tens++) {
        x /= 10.0;
    }
    whole = (uint64_t)x;
    part = (uint64_t)((x - (double)whole) * 1e6 + 0.5);
    whole += part / 1000000u;
    part %= 1000000u;
    cbi_codec_say_number(t, whole);
    for (unit = 100000u; part != 0; unit /= 10u) {
        cbi_codec_say(t, unit == 100000u ? "." : "");
        cbi_codec_say_number(t, part / unit);
        part %= unit;
    }
    if (tens != 0) {
        cbi_codec_say(t, "e");
        cbi_codec_say_number(t, (uint64_t)tens);
    }
}

static void cbi_codec_say_end(cbi_codec_text *t)
{
    if (t->capacity != 0) {
        t->out[t->size < t->capacity ? t->size : t->capacity - 1u] = 0;
    }
}

/* "<number><middle><limit><end>" */
static void cbi_codec_say_fault(cbi_codec_text *t, const cbi_codec_fault *fault, const char *middle,
                                const char *end)
{
    cbi_codec_say_number(t, fault->number);
    cbi_codec_say(t, middle);
    cbi_codec_say_number(t, fault->limit);
    cbi_codec_say(t, end);
}

static void cbi_codec_say_range(cbi_codec_text *t, const cb_codec_field *f, const cbi_codec_fault *fault)
{
    cbi_codec_say_signed(t, cbi_codec_signed((fault->number + (uint64_t)f->base) & 0xffffffffu, 32));
    cbi_codec_say(t, ", allowed ");
    cbi_codec_say_signed(t, f->base);
    cbi_codec_say(t, " to ");
    cbi_codec_say_signed(t, (int64_t)f->base + (int64_t)f->bound);
}

static void cbi_codec_say_reason(cbi_codec_text *t, const cb_codec_field *f, const cbi_codec_fault *fault)
{
    switch ((int)fault->rule) {
    case CBI_CODEC_FULL: cbi_codec_say_fault(t, fault, " bytes, room for ", ""); break;
    case CBI_CODEC_CUT: cbi_codec_say_fault(t, fault, " bytes needed, ", " left"); break;
    case CBI_CODEC_TRAILING:
        cbi_codec_say_number(t, fault->number);
        cbi_codec_say(t, " bytes left over");
        break;
    case CBI_CODEC_COUNT: cbi_codec_say_fault(t, fault, " elements, at most ", ""); break;
    case CBI_CODEC_LENGTH: cbi_codec_say_fault(t, fault, " bytes, at most ", ""); break;
    case CBI_CODEC_NUMBER: cbi_codec_say_fault(t, fault, ", at most ", ""); break;
    case CBI_CODEC_RANGE: cbi_codec_say_range(t, f, fault); break;
    case CBI_CODEC_VARINT: cbi_codec_say(t, "number longer than it needs or than 64 bits"); break;
    case CBI_CODEC_PADDING: cbi_codec_say(t, "unused bits set"); break;
    case CBI_CODEC_TEXT: cbi_codec_say(t, "not UTF-8, or a zero byte inside"); break;
    case CBI_CODEC_UNENDED:
        cbi_codec_say(t, "no end within ");
        cbi_codec_say_number(t, fault->limit);
        cbi_codec_say(t, " bytes");
        break;
    default: cbi_codec_say(t, f->lo < f->hi ? "not a number" : "bounds the wrong way round"); break;
    }
}
#endif

/* Fills `why` in steps, from the inside out: the reason where a rule was broken, then a piece of the path for
 * each level that is left. why may be NULL. */
static void cbi_codec_why_begin(cb_codec_error *why, const cb_codec_field *f, const cbi_codec_fault *fault)
{
    if (why == NULL) {
        return;
    }
    why->field[0] = 0;
    why->reason[0] = 0;
#if !defined(CB_CODEC_NO_STRINGS)
    {
        cbi_codec_text t;
        t.out = why->reason;
        t.capacity = sizeof why->reason;
        t.size = 0;
        cbi_codec_say_reason(&t, f, fault);
        cbi_codec_say_end(&t);
    }
#endif
    (void)f;
    (void)fault;
}

/* Puts a piece in front of the path; what does not fit any more is lost at the front. */
static void cbi_codec_why_prepend(cb_codec_error *why, const char *piece, bool dot)
{
    size_t have = strlen(why->field), size = strlen(piece) + (dot ? 1u : 0u);
    size_t room = sizeof why->field - 1u - have;
    size_t lost = size > room ? size - room : 0u;
    size_t i;
    memmove(why->field + (size - lost), why->field, have + 1u);
    for (i = lost; i < size; i++) {
        why->field[i - lost] = dot && i + 1u == size ? '.' : piece[i];
    }
}

static void cbi_codec_why_inside(cb_codec_error *why, const char *name)
{
    if (why != NULL) {
        cbi_codec_why_prepend(why, name, why->field[0] != 0 && why->field[0] != '[');
    }
}

static void cbi_codec_why_element(cb_codec_error *why, size_t index)
{
#if !defined(CB_CODEC_NO_STRINGS)
    char piece[24];
    cbi_codec_text t;
    if (why != NULL) {
        t.out = piece;
        t.capacity = sizeof piece;
        t.size = 0;
        cbi_codec_say(&t, "[");
        cbi_codec_say_number(&t, index);
        cbi_codec_say(&t, "]");
        cbi_codec_say_end(&t);
        cbi_codec_why_prepend(why, piece, why->field[0] != 0 && why->field[0] != '[');
    }
#endif
    (void)why;
    (void)index;
}

/* -- 7. the walks over tables. Each is a pair that calls itself in turns, as deep as the declarations are
 * nested: `fields` for one struct, `some` for the blocks of a message, an opt (indexed false) or a list -- */
static size_t cbi_codec_measure_some(const cb_codec_schema *s, const uint8_t *items, size_t count,
                                     bool indexed, cb_codec_error *why);

static size_t cbi_codec_measure_field(const cb_codec_field *f, const uint8_t *message, cb_codec_error *why);

/* Bytes beyond the least size, or CB_CODEC_REFUSED and the reason. */
static size_t cbi_codec_measure_fields(const cb_codec_schema *s, const uint8_t *message, cb_codec_error *why)
{
    size_t total = 0, size;
    uint32_t i;
    for (i = 0; i < s->field_count; i++) {
        size = cbi_codec_measure_field(&s->fields[i], message, why);
        if (size == CB_CODEC_REFUSED) {
            cbi_codec_why_inside(why, s->fields[i].name);
            return CB_CODEC_REFUSED;
        }
        total += size;
    }
    return total;
}

static size_t cbi_codec_measure_some(const cb_codec_schema *s, const uint8_t *items, size_t count,
                                     bool indexed, cb_codec_error *why)
{
    size_t total = count * s->min_size, size, i;
    for (i = 0; i < count; i++) {
        size = cbi_codec_measure_fields(s, items + i * s->memory, why);
        if (size == CB_CODEC_REFUSED) {
            if (indexed) {
                cbi_codec_why_element(why, i);
            }
            return CB_CODEC_REFUSED;
        }
        total += size;
    }
    return total;
}

static size_t cbi_codec_measure_field(const cb_codec_field *f, const uint8_t *message, cb_codec_error *why)
{
    cbi_codec_fault fault;
    size_t size, count = 1;
    bool is_list = f->kind == CB_CODEC_KIND_LIST;
    if (f->kind == CB_CODEC_KIND_NEST) {
        return cbi_codec_measure_fields(f->schema(), message + f->offset, why);
    }
    if (f->schema == NULL) {
        size = cbi_codec_measure_leaf(f, message, &fault);
    } else if (is_list && !cbi_codec_measure_count(f, message, &count, &fault)) {
        size = CB_CODEC_REFUSED;
    } else if (!is_list && message[f->mark] == 0) {
        return 0;
    } else {
        return cbi_codec_measure_some(f->schema(), message + f->offset, count, is_list, why);
    }
    if (size == CB_CODEC_REFUSED) {
        cbi_codec_why_begin(why, f, &fault);
    }
    return size;
}

static bool cbi_codec_put_some(cbi_codec_put *o, const cb_codec_schema *s, const uint8_t *items,
                               size_t count);

static bool cbi_codec_put_fields(cbi_codec_put *o, const cb_codec_schema *s, const uint8_t *message)
{
    const cb_codec_field *f = s->fields;
    const cb_codec_field *end = f + s->field_count;
    bool ok = true;
    for (; ok && f != end; f++) {
        const uint8_t *memory = message + f->offset;
        cbi_codec_bits outer = o->bits;
        size_t count = 1;
        if (f->schema == NULL) {
            ok = cbi_codec_put_leaf(o, f, message);
            continue;
        }
        if (f->kind == CB_CODEC_KIND_NEST) {
            ok = cbi_codec_put_fields(o, f->schema(), memory);
            continue;
        }
        if (f->kind == CB_CODEC_KIND_LIST) {
            count = (size_t)cbi_codec_peek(message + f->mark, 4);
            cbi_codec_put_prefix(o, f->bound, count);
        } else {
            count = message[f->mark] != 0 ? 1u : 0u;
            cbi_codec_put_bits(o, (uint32_t)count, 1);
            outer = o->bits;
        }
        ok = cbi_codec_put_some(o, f->schema(), memory, count);
        o->bits = outer;
    }
    return ok;
}

static bool cbi_codec_put_some(cbi_codec_put *o, const cb_codec_schema *s, const uint8_t *items, size_t count)
{
    size_t i;
    if (!cbi_codec_put_extra(o, count * s->min_size)) {
        return false;
    }
    for (i = 0; i < count; i++) {
        cbi_codec_put_open(o, (s->bits + 7u) / 8u);
        if (!cbi_codec_put_fields(o, s, items + i * s->memory)) {
            return false;
        }
        cbi_codec_put_close(o);
    }
    return true;
}

static bool cbi_codec_get_some(cbi_codec_get *in, const cb_codec_schema *s, uint8_t *items, size_t count,
                               bool indexed, cb_codec_error *why);
static bool cbi_codec_get_field(cbi_codec_get *in, const cb_codec_field *f, uint8_t *message,
                                cb_codec_error *why);

static bool cbi_codec_get_fields(cbi_codec_get *in, const cb_codec_schema *s, uint8_t *message,
                                 cb_codec_error *why)
{
    uint32_t i;
    for (i = 0; i < s->field_count; i++) {
        if (!cbi_codec_get_field(in, &s->fields[i], message, why)) {
            cbi_codec_why_inside(why, s->fields[i].name);
            return false;
        }
    }
    return true;
}

static bool cbi_codec_get_some(cbi_codec_get *in, const cb_codec_schema *s, uint8_t *items, size_t count,
                               bool indexed, cb_codec_error *why)
{
    size_t i;
    bool ok = cbi_codec_get_extra(in, count * s->min_size); /* count is within its bound: it cannot wrap */
    if (!ok) {
        cbi_codec_why_begin(why, NULL, &in->fault);
    }
    for (i = 0; ok && i < count; i++) {
        cbi_codec_get_open(in, (s->bits + 7u) / 8u);
        ok = cbi_codec_get_fields(in, s, items + i * s->memory, why);
        if (ok && !cbi_codec_get_close(in)) {
            cbi_codec_why_begin(why, NULL, &in->fault);
            ok = false;
        }
        if (!ok && indexed) {
            cbi_codec_why_element(why, i);
        }
    }
    return ok;
}

static bool cbi_codec_get_field(cbi_codec_get *in, const cb_codec_field *f, uint8_t *message,
                                cb_codec_error *why)
{
    const cb_codec_schema *s = f->schema != NULL ? f->schema() : NULL;
    bool is_list = f->kind == CB_CODEC_KIND_LIST, ok;
    cbi_codec_bits outer;
    size_t count = 1;
    if (s != NULL && f->kind == CB_CODEC_KIND_NEST) {
        return cbi_codec_get_fields(in, s, message + f->offset, why);
    }
    if (s == NULL) {
        ok = cbi_codec_get_leaf(in, f, message);
    } else if (is_list) {
        ok = cbi_codec_get_prefix(in, f->bound, CBI_CODEC_COUNT, &count);
        cbi_codec_poke(message + f->mark, count, 4);
    } else {
        count = cbi_codec_get_has(in, f, message, s->memory) ? 1u : 0u;
        ok = true;
    }
    if (!ok) {
        cbi_codec_why_begin(why, f, &in->fault);
        return false;
    }
    if (s != NULL) {
        outer = in->bits;
        ok = cbi_codec_get_some(in, s, message + f->offset, count, is_list, why);
        in->bits = outer;
    }
    return ok;
}

/* -- 8. public: encode and decode -- */
CB_CODEC_DEF cb_codec_status cb_codec_validate(const cb_codec_schema *s, const void *message,
                                               cb_codec_error *why)
{
    CB_CODEC_ASSERT(s != NULL && message != NULL);
    if (cbi_codec_measure_fields(s, (const uint8_t *)message, why) == CB_CODEC_REFUSED) {
        cbi_codec_why_inside(why, s->name);
        return CB_CODEC_E_VALUE;
    }
    return CB_CODEC_OK;
}

CB_CODEC_DEF size_t cb_codec_size(const cb_codec_schema *s, const void *message)
{
    size_t extra;
    CB_CODEC_ASSERT(s != NULL && message != NULL);
    extra = cbi_codec_measure_fields(s, (const uint8_t *)message, NULL);
    return extra != CB_CODEC_REFUSED ? s->min_size + extra : 0u;
}

CB_CODEC_DEF cb_codec_status cb_codec_encode(const cb_codec_schema *s, const void *message, uint8_t *out,
                                             size_t capacity, size_t *size, cb_codec_error *why)
{
    cbi_codec_put o;
    cb_codec_status status = cb_codec_validate(s, message, why);
    size_t need;
    CB_CODEC_ASSERT(size != NULL && (out != NULL || capacity == 0));
    if (status != CB_CODEC_OK) {
        return status;
    }
    need = cb_codec_size(s, message);
    o.at = out;
    o.slack = capacity;
    if (need > capacity || !cbi_codec_put_some(&o, s, (const uint8_t *)message, 1)) {
        cbi_codec_refuse(&o.fault, CBI_CODEC_FULL, need, capacity);
        cbi_codec_why_begin(why, NULL, &o.fault);
        cbi_codec_why_inside(why, s->name);
        return CB_CODEC_E_FULL;
    }
    *size = need;
    return CB_CODEC_OK;
}

CB_CODEC_DEF cb_codec_status cb_codec_decode(const cb_codec_schema *s, void *message, const uint8_t *in,
                                             size_t size, cb_codec_error *why)
{
    cbi_codec_get g;
    bool ok;
    CB_CODEC_ASSERT(s != NULL && message != NULL && (in != NULL || size == 0));
    g.at = in;
    g.slack = size;
    ok = cbi_codec_get_some(&g, s, (uint8_t *)message, 1, false, why);
    if (ok && !cbi_codec_get_end(&g)) {
        cbi_codec_why_begin(why, NULL, &g.fault);
        ok = false;
    }
    if (ok) {
        return CB_CODEC_OK;
    }
    cbi_codec_why_inside(why, s->name);
    memset(message, 0, s->memory); /* half a message would be taken for one sooner or later */
    return cbi_codec_rule_status(g.fault.rule);
}

/* -- 9. public: equality -- */
static bool cbi_codec_equal_fields(const cb_codec_schema *s, const uint8_t *a, const uint8_t *b);

static bool cbi_codec_equal_some(const cb_codec_schema *s, const uint8_t *a, const uint8_t *b, size_t count)
{
    size_t i;
    for (i = 0; i < count; i++) {
        if (!cbi_codec_equal_fields(s, a + i * s->memory, b + i * s->memory)) {
            return false;
        }
    }
    return true;
}

static bool cbi_codec_equal_bytes(const void *a, const void *b, size_t size)
{
    return size == 0 || memcmp(a, b, size) == 0;
}

static bool cbi_codec_equal_quant(const cb_codec_field *f, const uint8_t *a, const uint8_t *b)
{
    float x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return cbi_codec_quantise(x, f->lo, f->hi, f->bits) == cbi_codec_quantise(y, f->lo, f->hi, f->bits);
}

static bool cbi_codec_equal_text(const cb_codec_field *f, const uint8_t *a, const uint8_t *b)
{
    size_t i;
    for (i = 0; i <= f->bound && a[i] == b[i]; i++) {
        if (a[i] == 0) {
            return true;
        }
    }
    return false;
}

static bool cbi_codec_equal_flags(const uint8_t *a, const uint8_t *b, size_t count)
{
    size_t i;
    for (i = 0; i < count; i++) {
        if ((a[i] != 0) != (b[i] != 0)) {
            return false;
        }
    }
    return true;
}

/* Bytes, lists and opts: what they hold is compared as far as the equal counts go. */
static bool cbi_codec_equal_counted(const cb_codec_field *f, const uint8_t *a, const uint8_t *b)
{
    bool is_opt = f->kind == CB_CODEC_KIND_OPT;
    size_t count = is_opt ? (a[f->mark] != 0 ? 1u : 0u) : (size_t)cbi_codec_peek(a + f->mark, 4);
    size_t other = is_opt ? (b[f->mark] != 0 ? 1u : 0u) : (size_t)cbi_codec_peek(b + f->mark, 4);
    const uint8_t *x = a + f->offset, *y = b + f->offset;
    if (count != other || count > f->bound) {
        return false;
    }
    if (f->schema != NULL) {
        return cbi_codec_equal_some(f->schema(), x, y, count);
    }
    if (f->element == CB_CODEC_KIND_FLAG) {
        return cbi_codec_equal_flags(x, y, count);
    }
    if (f->kind != CB_CODEC_KIND_BYTES) {
        count *= cbi_codec_memory(f->element, f->width);
    }
    return cbi_codec_equal_bytes(x, y, count);
}

static bool cbi_codec_equal_field(const cb_codec_field *f, const uint8_t *a, const uint8_t *b)
{
    const uint8_t *x = a + f->offset, *y = b + f->offset;
    cb_slice v, w;
    switch ((int)f->kind) {
    case CB_CODEC_KIND_NONE: return true;
    case CB_CODEC_KIND_FLAG: return cbi_codec_equal_flags(x, y, 1);
    case CB_CODEC_KIND_RANGE:
    case CB_CODEC_KIND_ENUM: return memcmp(x, y, 4) == 0;
    case CB_CODEC_KIND_QUANT: return cbi_codec_equal_quant(f, x, y);
    case CB_CODEC_KIND_TEXT: return cbi_codec_equal_text(f, x, y);
    case CB_CODEC_KIND_VIEW:
        memcpy(&v, x, sizeof v);
        memcpy(&w, y, sizeof w);
        return v.size == w.size && cbi_codec_equal_bytes(v.data, w.data, v.size);
    case CB_CODEC_KIND_BYTES:
    case CB_CODEC_KIND_LIST:
    case CB_CODEC_KIND_OPT: return cbi_codec_equal_counted(f, a, b);
    case CB_CODEC_KIND_NEST: return cbi_codec_equal_fields(f->schema(), x, y);
    default: return memcmp(x, y, cbi_codec_memory(f->kind, f->width)) == 0;
    }
}

static bool cbi_codec_equal_fields(const cb_codec_schema *s, const uint8_t *a, const uint8_t *b)
{
    uint32_t i;
    for (i = 0; i < s->field_count; i++) {
        if (!cbi_codec_equal_field(&s->fields[i], a, b)) {
            return false;
        }
    }
    return true;
}

CB_CODEC_DEF bool cb_codec_equal(const cb_codec_schema *s, const void *a, const void *b)
{
    CB_CODEC_ASSERT(s != NULL && a != NULL && b != NULL);
    return cbi_codec_equal_fields(s, (const uint8_t *)a, (const uint8_t *)b);
}

/* -- 10. public: the layout -- */

/* FNV-1a over what decides the bytes, little-endian: kind, element, bits, bound, base, lo, hi; a nested
 * schema stands where it is used, between its field and an end mark. */
static uint64_t cbi_codec_hash(uint64_t hash, uint64_t value, size_t bytes)
{
    size_t i;
    for (i = 0; i < bytes; i++) {
        hash = (hash ^ (value >> (8u * i) & 0xffu)) * 0x100000001b3u;
    }
    return hash;
}

static uint64_t cbi_codec_hash_fields(uint64_t hash, const cb_codec_schema *s)
{
    uint32_t i;
    for (i = 0; i < s->field_count; i++) {
        const cb_codec_field *f = &s->fields[i];
        uint64_t lo, hi;
        if (f->kind == CB_CODEC_KIND_NONE) {
            continue;
        }
        memcpy(&lo, &f->lo, sizeof lo);
        memcpy(&hi, &f->hi, sizeof hi);
        hash = cbi_codec_hash(hash, f->kind, 1);
        hash = cbi_codec_hash(hash, f->element, 1);
        hash = cbi_codec_hash(hash, f->bits, 1);
        hash = cbi_codec_hash(hash, f->bound, 4);
        hash = cbi_codec_hash(hash, (uint64_t)f->base, 4);
        hash = cbi_codec_hash(hash, lo, 8);
        hash = cbi_codec_hash(hash, hi, 8);
        hash = f->schema != NULL ? cbi_codec_hash_fields(hash, f->schema()) : hash;
    }
    return cbi_codec_hash(hash, 0xff, 1);
}

CB_CODEC_DEF uint64_t cb_codec_layout_hash(const cb_codec_schema *s)
{
    CB_CODEC_ASSERT(s != NULL);
    return cbi_codec_hash_fields(0xcbf29ce484222325u, s);
}

#if !defined(CB_CODEC_NO_STRINGS)
static const char cbi_codec_kind_names[][6] = { /* in the order of cb_codec_kind */
    "none", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f32", "f64", "varu", "vari", "flag",
    "range", "enum", "quant", "text", "bytes", "view", "list", "opt", "nest"
};

static void cbi_codec_describe_fields(cbi_codec_text *t, const cb_codec_schema *s);

/* What stands behind the kind's name: parameters, or an element, or a schema in braces. */
static void cbi_codec_describe_parameters(cbi_codec_text *t, const cb_codec_field *f)
{
    if (f->schema != NULL) {
        cbi_codec_say(t, "{");
        cbi_codec_describe_fields(t, f->schema());
        cbi_codec_say(t, "}");
    } else if (f->element != CB_CODEC_KIND_NONE) {
        cbi_codec_say(t, " ");
        cbi_codec_say(t, cbi_codec_kind_names[f->element]);
    }
    switch ((int)f->kind) {
    case CB_CODEC_KIND_RANGE:
        cbi_codec_say(t, " ");
        cbi_codec_say_signed(t, f->base);
        cbi_codec_say(t, " ");
        cbi_codec_say_signed(t, (int64_t)f->base + (int64_t)f->bound);
        break;
    case CB_CODEC_KIND_QUANT:
        cbi_codec_say(t, " ");
        cbi_codec_say_real(t, f->lo);
        cbi_codec_say(t, " ");
        cbi_codec_say_real(t, f->hi);
        cbi_codec_say(t, " ");
        cbi_codec_say_number(t, f->bits);
        break;
    case CB_CODEC_KIND_TEXT:
    case CB_CODEC_KIND_BYTES:
    case CB_CODEC_KIND_VIEW:
    case CB_CODEC_KIND_LIST:
    case CB_CODEC_KIND_ENUM:
        cbi_codec_say(t, " ");
        cbi_codec_say_number(t, (uint64_t)f->bound + (f->kind == CB_CODEC_KIND_ENUM ? 1u : 0u));
        break;
    default: break;
    }
}

static void cbi_codec_describe_fields(cbi_codec_text *t, const cb_codec_schema *s)
{
    uint32_t i;
    for (i = 0; i < s->field_count && s->fields[i].kind != CB_CODEC_KIND_NONE; i++) {
        cbi_codec_say(t, i != 0 ? "," : "");
        cbi_codec_say(t, s->fields[i].name);
        cbi_codec_say(t, ":");
        cbi_codec_say(t, cbi_codec_kind_names[s->fields[i].kind]);
        cbi_codec_describe_parameters(t, &s->fields[i]);
    }
}
#endif

CB_CODEC_DEF size_t cb_codec_describe(const cb_codec_schema *s, char *out, size_t capacity)
{
    CB_CODEC_ASSERT(s != NULL && (out != NULL || capacity == 0));
#if defined(CB_CODEC_NO_STRINGS)
    (void)s;
    if (capacity != 0) {
        out[0] = 0;
    }
    return 0;
#else
    {
        cbi_codec_text t;
        t.out = out;
        t.capacity = capacity;
        t.size = 0;
        cbi_codec_describe_fields(&t, s);
        cbi_codec_say_end(&t);
        return t.size;
    }
#endif
}

CB_CODEC_DEF const char *cb_codec_status_str(cb_codec_status status)
{
#if defined(CB_CODEC_NO_STRINGS)
    (void)status;
    return "";
#else
    switch ((int)status) {
#define CBI_CODEC_ITEM(name, value, text) case (value): return text;
        CB_CODEC_STATUS_LIST(CBI_CODEC_ITEM)
#undef CBI_CODEC_ITEM
    default: return "?";
    }
#endif
}

#if defined(CBI_CODEC_SSE2)
#undef CBI_CODEC_SSE2
#endif

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* CB_CODEC_IMPLEMENTATION */

/* MIT No Attribution
 *
 * Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
 * associated documentation files (the "Software"), to deal in the Software without restriction, including
 * without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
 * copies of the Software, and to permit persons to whom the Software is furnished to do so.
 *
 * THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT
 * LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO
 * EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER
 * IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE
 * USE OR OTHER DEALINGS IN THE SOFTWARE.
 */
