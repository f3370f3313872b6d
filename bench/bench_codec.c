/* bench_codec.c - figures of cb_codec.h. cc -O2 -I. bench/bench_codec.c -o b && ./b [--name part-of-a-name]
 *
 * Every floor is the least code that does the same: from the plain struct to the same bytes and back, refusing what
 * the schema refuses (count above the bound, bytes missing or left over, a full buffer). Equality of the bytes is
 * checked before anything is timed. The *_random figures take 1,024 different payloads in turn, because one payload
 * again and again teaches the branch predictor what no server sees.
 *
 *     entities   libc's memcpy with the size hidden (gcc turns a known 600 into `rep movs`, six times slower);
 *                16 bytes at a time by vectors where there is SSE2; field by field
 *     bools      64-bit arithmetic on 8 flags at a time (SWAR); SSE2 with movemask and unpack; no flag is branched on
 *     tiny       one store, one load
 *     player     what a person would write for the message of the README: text, quantised floats, a list
 *     inputs     the last four inputs of a player, by hand
 */
#include "support/bench.h"
#define CB_CODEC_IMPLEMENTATION
#include "cb_codec.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "shapes.h"
#define TINY(F) F(u8, value)
CB_CODEC_SCHEMA(tiny, TINY)

#define POOL 1024u

/* Everything of one message type: structs, their bytes, scratch. */
#define POOL_OF(T)                                                     \
    typedef struct T##_pool {                                          \
        T value[POOL], out;                                            \
        uint8_t wire[POOL][T##_max_size], bytes[T##_max_size];         \
        size_t size[POOL];                                             \
        size_t mask; /* payloads taken in turn, less one */            \
    } T##_pool;                                                        \
    BENCH_UNUSED static T##_pool T##_one, T##_many;                    \
    static void T##_encode_ours(void *user, uint64_t ops)              \
    {                                                                  \
        T##_pool *p = (T##_pool *)user;                                \
        uint64_t i;                                                    \
        for (i = 0; i < ops; i++) {                                    \
            size_t size;                                               \
            if (T##_encode(&p->value[i & p->mask], p->bytes, sizeof p->bytes, &size, NULL) != CB_CODEC_OK) { \
                abort();                                               \
            }                                                          \
            bench_use(size);                                           \
            bench_use_ptr(p->bytes);                                   \
        }                                                              \
    }                                                                  \
    static void T##_decode_ours(void *user, uint64_t ops)              \
    {                                                                  \
        T##_pool *p = (T##_pool *)user;                                \
        uint64_t i;                                                    \
        for (i = 0; i < ops; i++) {                                    \
            size_t k = i & p->mask;                                    \
            if (T##_decode(&p->out, p->wire[k], p->size[k], NULL) != CB_CODEC_OK) { \
                abort();                                               \
            }                                                          \
            bench_use_ptr(&p->out);                                    \
        }                                                              \
    }

/* Loops around a floor: `bool enc(const T *, uint8_t *out, size_t cap, size_t *size)`, `bool dec(T *, in, size)`. */
#define FLOOR_OF(T, name, enc, dec)                                    \
    static void T##_encode_##name(void *user, uint64_t ops)            \
    {                                                                  \
        T##_pool *p = (T##_pool *)user;                                \
        uint64_t i;                                                    \
        for (i = 0; i < ops; i++) {                                    \
            size_t size;                                               \
            if (!enc(&p->value[i & p->mask], p->bytes, sizeof p->bytes, &size)) { \
                abort();                                               \
            }                                                          \
            bench_use(size);                                           \
            bench_use_ptr(p->bytes);                                   \
        }                                                              \
    }                                                                  \
    static void T##_decode_##name(void *user, uint64_t ops)            \
    {                                                                  \
        T##_pool *p = (T##_pool *)user;                                \
        uint64_t i;                                                    \
        for (i = 0; i < ops; i++) {                                    \
            size_t k = i & p->mask;                                    \
            if (!dec(&p->out, p->wire[k], p->size[k])) {               \
                abort();                                               \
            }                                                          \
            bench_use_ptr(&p->out);                                    \
        }                                                              \
    }                                                                  \
    static void T##_check_##name(T##_pool *p)                          \
    {                                                                  \
        size_t k, size;                                                \
        for (k = 0; k <= p->mask; k++) {                               \
            memset(&p->out, 0xee, sizeof p->out);                      \
            if (!enc(&p->value[k], p->bytes, sizeof p->bytes, &size) || size != p->size[k] || \
                memcmp(p->bytes, p->wire[k], size) != 0 || !dec(&p->out, p->wire[k], p->size[k]) || \
                !T##_equal(&p->out, &p->value[k]) || dec(&p->out, p->wire[k], p->size[k] - 1u) || \
                enc(&p->value[k], p->bytes, size - 1u, &size)) {       \
                fprintf(stderr, "bench_codec: the floor %s of %s does other work\n", #name, #T); \
                exit(1);                                               \
            }                                                          \
        }                                                              \
    }

#define PREPARE(T, p, count)                                           \
    do {                                                               \
        size_t k_;                                                     \
        (p)->mask = (count) - 1u;                                      \
        for (k_ = 0; k_ < (count); k_++) {                             \
            if (T##_encode(&(p)->value[k_], (p)->wire[k_], T##_max_size, &(p)->size[k_], NULL) != CB_CODEC_OK || \
                T##_decode(&(p)->out, (p)->wire[k_], (p)->size[k_], NULL) != CB_CODEC_OK ||                      \
                !T##_equal(&(p)->out, &(p)->value[k_])) {              \
                abort();                                               \
            }                                                          \
        }                                                              \
    } while (0)

static uint64_t random_state;
static uint64_t random_next(void) /* splitmix64 */
{
    uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

POOL_OF(entities)
POOL_OF(bools)
POOL_OF(tiny)
POOL_OF(player)
POOL_OF(inputs)

/* -- entities -- */
static bool entities_put_copy(const entities *v, uint8_t *out, size_t cap, size_t *size)
{
    size_t bytes = (size_t)v->items_count * 6u;
    if (v->items_count > 100u || cap < bytes + 1u) {
        return false;
    }
    out[0] = (uint8_t)v->items_count;
    memcpy(out + 1, v->items, bytes);
    *size = bytes + 1u;
    return true;
}

static bool entities_get_copy(entities *v, const uint8_t *in, size_t size)
{
    if (size < 1u || in[0] > 100u || size != 1u + 6u * (size_t)in[0]) {
        return false;
    }
    v->items_count = in[0];
    memcpy(v->items, in + 1, size - 1u);
    return true;
}
FLOOR_OF(entities, memcpy, entities_put_copy, entities_get_copy)

static bool entities_put_fields(const entities *v, uint8_t *out, size_t cap, size_t *size)
{
    size_t i;
    if (v->items_count > 100u || cap < (size_t)v->items_count * 6u + 1u) {
        return false;
    }
    *out++ = (uint8_t)v->items_count;
    for (i = 0; i < v->items_count; i++, out += 6) {
        const entity *e = &v->items[i];
        out[0] = e->id;
        out[1] = e->x;
        out[2] = e->y;
        out[3] = e->z;
        out[4] = e->orientation;
        out[5] = e->animation;
    }
    *size = (size_t)v->items_count * 6u + 1u;
    return true;
}

static bool entities_get_fields(entities *v, const uint8_t *in, size_t size)
{
    size_t i;
    if (size < 1u || in[0] > 100u || size != 1u + 6u * (size_t)in[0]) {
        return false;
    }
    v->items_count = *in++;
    for (i = 0; i < v->items_count; i++, in += 6) {
        entity *e = &v->items[i];
        e->id = in[0];
        e->x = in[1];
        e->y = in[2];
        e->z = in[3];
        e->orientation = in[4];
        e->animation = in[5];
    }
    return true;
}
FLOOR_OF(entities, fields, entities_put_fields, entities_get_fields)

#if defined(__SSE2__)
/* 64 bytes a step, then 16, then what is left. */
static void copy_vectors(uint8_t *to, const uint8_t *from, size_t n)
{
    for (; n >= 64u; n -= 64u, to += 64, from += 64) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)from);
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + 48));
        _mm_storeu_si128((__m128i *)(void *)to, a);
        _mm_storeu_si128((__m128i *)(void *)(to + 16), b);
        _mm_storeu_si128((__m128i *)(void *)(to + 32), c);
        _mm_storeu_si128((__m128i *)(void *)(to + 48), d);
    }
    for (; n >= 16u; n -= 16u, to += 16, from += 16) {
        _mm_storeu_si128((__m128i *)(void *)to, _mm_loadu_si128((const __m128i *)(const void *)from));
    }
    for (; n != 0; n--) {
        *to++ = *from++;
    }
}

static bool entities_put_vectors(const entities *v, uint8_t *out, size_t cap, size_t *size)
{
    size_t bytes = (size_t)v->items_count * 6u;
    if (v->items_count > 100u || cap < bytes + 1u) {
        return false;
    }
    out[0] = (uint8_t)v->items_count;
    copy_vectors(out + 1, (const uint8_t *)v->items, bytes);
    *size = bytes + 1u;
    return true;
}

static bool entities_get_vectors(entities *v, const uint8_t *in, size_t size)
{
    if (size < 1u || in[0] > 100u || size != 1u + 6u * (size_t)in[0]) {
        return false;
    }
    v->items_count = in[0];
    copy_vectors((uint8_t *)v->items, in + 1, size - 1u);
    return true;
}
FLOOR_OF(entities, vectors, entities_put_vectors, entities_get_vectors)
#endif

/* -- booleans -- */
static bool bools_open(const bools *v, uint8_t *out, size_t cap, size_t *size)
{
    size_t bytes = ((size_t)v->flags_count + 7u) / 8u;
    if (v->flags_count > 1000u || cap < bytes + 2u) {
        return false;
    }
    out[0] = (uint8_t)(v->flags_count & 0xffu);
    out[1] = (uint8_t)(v->flags_count >> 8);
    *size = bytes + 2u;
    return true;
}

static bool bools_close(bools *v, const uint8_t *in, size_t size)
{
    size_t count;
    if (size < 2u) {
        return false;
    }
    count = (size_t)in[0] | (size_t)in[1] << 8;
    if (count > 1000u || size != 2u + (count + 7u) / 8u || (count % 8u != 0 && in[size - 1u] >> (count % 8u) != 0)) {
        return false;
    }
    v->flags_count = (uint32_t)count;
    return true;
}

static void bits_pack(uint8_t *to, const bool *from, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++) {
        if (i % 8u == 0) {
            to[i / 8u] = 0;
        }
        to[i / 8u] = (uint8_t)(to[i / 8u] | (uint8_t)(from[i] ? 1u : 0u) << (i % 8u));
    }
}

static void bits_unpack(bool *to, const uint8_t *from, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++) {
        to[i] = (from[i / 8u] >> (i % 8u) & 1u) != 0;
    }
}

/* Eight flags of 0 or 1 are gathered by one multiplication: bit 8k of x lands in bit 56 + k. */
static bool bools_put_swar(const bools *v, uint8_t *out, size_t cap, size_t *size)
{
    size_t i, n = v->flags_count;
    if (!bools_open(v, out, cap, size)) {
        return false;
    }
    for (i = 0; i + 8u <= n; i += 8u) {
        uint64_t x;
        memcpy(&x, v->flags + i, 8);
        out[2u + i / 8u] = (uint8_t)((x * 0x0102040810204080u) >> 56);
    }
    bits_pack(out + 2u + i / 8u, v->flags + i, n - i);
    return true;
}

/* A byte in all eight places, one bit of it left in each, and that bit carried to the top and down again. */
static bool bools_get_swar(bools *v, const uint8_t *in, size_t size)
{
    size_t i, n;
    if (!bools_close(v, in, size)) {
        return false;
    }
    n = v->flags_count;
    for (i = 0; i + 8u <= n; i += 8u) {
        uint64_t x = in[2u + i / 8u] * 0x0101010101010101u & 0x8040201008040201u;
        x = (x + 0x007f7f7f7f7f7f7fu) >> 7 & 0x0101010101010101u;
        memcpy(v->flags + i, &x, 8);
    }
    bits_unpack(v->flags + i, in + 2u + i / 8u, n - i);
    return true;
}
FLOOR_OF(bools, swar, bools_put_swar, bools_get_swar)

#if defined(__SSE2__)
static uint32_t mask_of(const bool *at) /* the lowest bit of each byte to its top, then the tops */
{
    return (uint32_t)_mm_movemask_epi8(_mm_slli_epi16(_mm_loadu_si128((const __m128i *)(const void *)at), 7));
}

static bool bools_put_sse2(const bools *v, uint8_t *out, size_t cap, size_t *size)
{
    size_t i, n = v->flags_count;
    if (!bools_open(v, out, cap, size)) {
        return false;
    }
    for (i = 0; i + 64u <= n; i += 64u) {
        const bool *at = v->flags + i;
        uint64_t low = mask_of(at) | mask_of(at + 16) << 16;
        uint64_t high = mask_of(at + 32) | mask_of(at + 48) << 16;
        low |= high << 32;
        memcpy(out + 2u + i / 8u, &low, 8);
    }
    for (; i + 8u <= n; i += 8u) {
        uint64_t x;
        memcpy(&x, v->flags + i, 8);
        out[2u + i / 8u] = (uint8_t)((x * 0x0102040810204080u) >> 56);
    }
    bits_pack(out + 2u + i / 8u, v->flags + i, n - i);
    return true;
}

/* Eight bytes to 64: each is doubled three times, its bits are masked out, and whatever is left becomes 1. */
static bool bools_get_sse2(bools *v, const uint8_t *in, size_t size)
{
    const __m128i bits = _mm_set1_epi64x((long long)0x8040201008040201u), one = _mm_set1_epi8(1);
    size_t i, n;
    if (!bools_close(v, in, size)) {
        return false;
    }
    n = v->flags_count;
    for (i = 0; i + 64u <= n; i += 64u) {
        __m128i x = _mm_loadl_epi64((const __m128i *)(const void *)(in + 2u + i / 8u)), a, b;
        __m128i *to = (__m128i *)(void *)(v->flags + i);
        x = _mm_unpacklo_epi8(x, x);
        a = _mm_unpacklo_epi16(x, x);
        b = _mm_unpackhi_epi16(x, x);
        _mm_storeu_si128(to, _mm_min_epu8(_mm_and_si128(_mm_unpacklo_epi32(a, a), bits), one));
        _mm_storeu_si128(to + 1, _mm_min_epu8(_mm_and_si128(_mm_unpackhi_epi32(a, a), bits), one));
        _mm_storeu_si128(to + 2, _mm_min_epu8(_mm_and_si128(_mm_unpacklo_epi32(b, b), bits), one));
        _mm_storeu_si128(to + 3, _mm_min_epu8(_mm_and_si128(_mm_unpackhi_epi32(b, b), bits), one));
    }
    for (; i + 8u <= n; i += 8u) {
        uint64_t x = in[2u + i / 8u] * 0x0101010101010101u & 0x8040201008040201u;
        x = (x + 0x007f7f7f7f7f7f7fu) >> 7 & 0x0101010101010101u;
        memcpy(v->flags + i, &x, 8);
    }
    bits_unpack(v->flags + i, in + 2u + i / 8u, n - i);
    return true;
}
FLOOR_OF(bools, sse2, bools_put_sse2, bools_get_sse2)
#endif

/* -- tiny -- */
static bool tiny_put_store(const tiny *v, uint8_t *out, size_t cap, size_t *size)
{
    if (cap < 1u) {
        return false;
    }
    out[0] = v->value;
    *size = 1;
    return true;
}

static bool tiny_get_load(tiny *v, const uint8_t *in, size_t size)
{
    if (size != 1u) {
        return false;
    }
    v->value = in[0];
    return true;
}
FLOOR_OF(tiny, store, tiny_put_store, tiny_get_load)

/* -- player: 33 bits (x, y, alive), id, name, items -- */
static bool text_is_valid(const uint8_t *s, size_t n) /* ASCII in steps of 8, the rest as RFC 3629 has it */
{
    size_t i = 0;
    while (i < n) {
        uint64_t w;
        uint8_t c = s[i];
        size_t more, k;
        if (n - i >= 8u) {
            memcpy(&w, s + i, 8);
            if ((w & 0x8080808080808080u) == 0 && ((w - 0x0101010101010101u) & ~w & 0x8080808080808080u) == 0) {
                i += 8u;
                continue;
            }
        }
        if (c == 0) {
            return false;
        }
        if (c < 0x80u) {
            i++;
            continue;
        }
        more = c < 0xc2u ? 0 : c < 0xe0u ? 1 : c < 0xf0u ? 2 : c < 0xf5u ? 3 : 0;
        if (more == 0 || n - i <= more) {
            return false;
        }
        for (k = 1; k <= more; k++) {
            if ((s[i + k] & 0xc0u) != 0x80u) {
                return false;
            }
        }
        if ((c == 0xe0u && s[i + 1] < 0xa0u) || (c == 0xedu && s[i + 1] >= 0xa0u) || (c == 0xf0u && s[i + 1] < 0x90u) ||
            (c == 0xf4u && s[i + 1] >= 0x90u)) {
            return false;
        }
        i += more + 1u;
    }
    return true;
}

static bool player_quantise(float value, uint32_t *step)
{
    double at;
    if (!(value >= 0 || value <= 0)) {
        return false;
    }
    at = ((double)value + 8192.0) * (65535.0 / 16384.0) + 0.5;
    *step = at >= 65535.0 ? 65535u : at > 0 ? (uint32_t)at : 0u;
    return true;
}

static bool player_put_hand(const player *v, uint8_t *out, size_t cap, size_t *size)
{
    const char *end = (const char *)memchr(v->name, 0, sizeof v->name);
    size_t name, items = v->items_count;
    uint32_t x, y;
    if (end == NULL || items > 32u) {
        return false;
    }
    name = (size_t)(end - v->name);
    if (!text_is_valid((const uint8_t *)v->name, name) || cap < 11u + name + 2u * items ||
        !player_quantise(v->x, &x) || !player_quantise(v->y, &y)) {
        return false;
    }
    x |= y << 16;
    memcpy(out, &x, 4);
    out[4] = v->alive ? 1 : 0;
    memcpy(out + 5, &v->id, 4);
    out[9] = (uint8_t)name;
    memcpy(out + 10, v->name, name);
    out[10 + name] = (uint8_t)items;
    memcpy(out + 11 + name, v->items, 2u * items);
    *size = 11u + name + 2u * items;
    return true;
}

static bool player_get_hand(player *v, const uint8_t *in, size_t size)
{
    size_t name, items;
    uint32_t bits;
    if (size < 11u || in[4] > 1u || in[9] > 24u) {
        return false;
    }
    name = in[9];
    if (size < 11u + name || !text_is_valid(in + 10, name)) {
        return false;
    }
    items = in[10 + name];
    if (items > 32u || size != 11u + name + 2u * items) {
        return false;
    }
    memcpy(&bits, in, 4);
    v->x = (float)(-8192.0 + (double)(bits & 0xffffu) * (16384.0 / 65535.0));
    v->y = (float)(-8192.0 + (double)(bits >> 16) * (16384.0 / 65535.0));
    v->alive = in[4] != 0;
    memcpy(&v->id, in + 5, 4);
    memcpy(v->name, in + 10, name);
    v->name[name] = '\0';
    v->items_count = (uint32_t)items;
    memcpy(v->items, in + 11 + name, 2u * items);
    return true;
}
FLOOR_OF(player, hand, player_put_hand, player_get_hand)

/* -- inputs: LEB128 of up to 10 bytes, the shortest form only -- */
static size_t var_size(uint64_t x)
{
    size_t n = 1;
    for (; x >= 0x80u; x >>= 7) {
        n++;
    }
    return n;
}

static uint8_t *var_put(uint8_t *out, uint64_t x)
{
    for (; x >= 0x80u; x >>= 7) {
        *out++ = (uint8_t)(x | 0x80u);
    }
    *out++ = (uint8_t)x;
    return out;
}

static const uint8_t *var_get(const uint8_t *in, const uint8_t *end, uint64_t *x)
{
    unsigned shift = 0;
    *x = 0;
    for (; in != end && shift <= 63u; shift += 7u) {
        uint8_t c = *in++;
        if (shift == 63u && c > 1u) {
            return NULL;
        }
        *x |= (uint64_t)(c & 0x7fu) << shift;
        if (c < 0x80u) {
            return c == 0 && shift != 0 ? NULL : in;
        }
    }
    return NULL;
}

static bool inputs_put_hand(const inputs *v, uint8_t *out, size_t cap, size_t *size)
{
    uint8_t *at = out;
    size_t i, need;
    if (v->last_count > 4u) {
        return false;
    }
    need = var_size(v->ack_tick) + 1u;
    for (i = 0; i < v->last_count; i++) {
        need += var_size(v->last[i].seq) + 3u;
    }
    if (cap < need) {
        return false;
    }
    at = var_put(at, v->ack_tick);
    *at++ = (uint8_t)v->last_count;
    for (i = 0; i < v->last_count; i++) {
        at = var_put(at, v->last[i].seq);
        memcpy(at, &v->last[i].aim, 2);
        at[2] = v->last[i].controls;
        at += 3;
    }
    *size = need;
    return true;
}

static bool inputs_get_hand(inputs *v, const uint8_t *in, size_t size)
{
    const uint8_t *end = in + size;
    size_t i;
    in = var_get(in, end, &v->ack_tick);
    if (in == NULL || in == end || *in > 4u) {
        return false;
    }
    v->last_count = *in++;
    for (i = 0; i < v->last_count; i++) {
        in = var_get(in, end, &v->last[i].seq);
        if (in == NULL || end - in < 3) {
            return false;
        }
        memcpy(&v->last[i].aim, in, 2);
        v->last[i].controls = in[2];
        in += 3;
    }
    return in == end;
}
FLOOR_OF(inputs, hand, inputs_put_hand, inputs_get_hand)

/* -- payloads -- */
static void make_entities(entities_pool *p, size_t count)
{
    size_t k, i;
    for (k = 0; k < count; k++) {
        p->value[k].items_count = 100;
        for (i = 0; i < sizeof p->value[k].items; i++) {
            ((uint8_t *)p->value[k].items)[i] = (uint8_t)(random_next() >> 40);
        }
    }
    PREPARE(entities, p, count);
    entities_check_memcpy(p);
    entities_check_fields(p);
#if defined(__SSE2__)
    entities_check_vectors(p);
#endif
}

static void make_bools(bools_pool *p, size_t count)
{
    size_t k, i;
    for (k = 0; k < count; k++) {
        p->value[k].flags_count = 1000;
        for (i = 0; i < 1000u; i++) {
            p->value[k].flags[i] = count == 1u || random_next() >> 63 != 0;
        }
    }
    PREPARE(bools, p, count);
    bools_check_swar(p);
#if defined(__SSE2__)
    bools_check_sse2(p);
#endif
}

static void make_players(player_pool *p, size_t count)
{
    size_t k, i, n;
    for (k = 0; k < count; k++) {
        player *v = &p->value[k];
        v->id = (uint32_t)random_next();
        n = 3u + random_next() % 22u;
        for (i = 0; i < n; i++) {
            v->name[i] = (char)('a' + random_next() % 26u);
        }
        v->x = (float)(random_next() % 16384u) - 8192.0f;
        v->y = (float)(random_next() % 16384u) - 8192.0f;
        v->alive = random_next() >> 63 != 0;
        v->items_count = (uint32_t)(random_next() % 33u);
        for (i = 0; i < v->items_count; i++) {
            v->items[i] = (uint16_t)(random_next() >> 48);
        }
    }
    PREPARE(player, p, count);
    player_check_hand(p);
}

static void make_inputs(inputs_pool *p, size_t count)
{
    size_t k, i;
    for (k = 0; k < count; k++) { /* a game of some minutes: 2 bytes of sequence number, 3 of tick */
        inputs *v = &p->value[k];
        v->ack_tick = 20000u + k;
        v->last_count = 4;
        for (i = 0; i < 4u; i++) {
            v->last[i].seq = 9000u + k + i;
            v->last[i].aim = (uint16_t)(random_next() >> 48);
            v->last[i].controls = (uint8_t)(random_next() >> 56);
        }
    }
    PREPARE(inputs, p, count);
    inputs_check_hand(p);
}

/* -- figures -- */
#define BENCH_ADD_FLOOR(T, side, name) bench_floor(&s, #name, T##_##side##_##name, p)
#define RUN_SIDE(T, label, side, FLOORS)                               \
    do {                                                               \
        bench_spec s;                                                  \
        bench_clear(&s, label);                                        \
        bench_subject(&s, T##_##side##_ours, p);                       \
        FLOORS(T, side);                                               \
        bench_run(&s);                                                 \
    } while (0)

#if defined(__SSE2__)
#define ENTITIES_FLOORS(T, side) \
    BENCH_ADD_FLOOR(T, side, memcpy); BENCH_ADD_FLOOR(T, side, vectors); BENCH_ADD_FLOOR(T, side, fields)
#define BOOLS_FLOORS(T, side) BENCH_ADD_FLOOR(T, side, swar); BENCH_ADD_FLOOR(T, side, sse2)
#else
#define ENTITIES_FLOORS(T, side) BENCH_ADD_FLOOR(T, side, memcpy); BENCH_ADD_FLOOR(T, side, fields)
#define BOOLS_FLOORS(T, side) BENCH_ADD_FLOOR(T, side, swar)
#endif
#define TINY_FLOORS(T, side) BENCH_ADD_FLOOR(T, side, store)
#define HAND_FLOORS(T, side) BENCH_ADD_FLOOR(T, side, hand)

static void run_entities(entities_pool *p, const char *encode, const char *decode, const char *bytes)
{
    RUN_SIDE(entities, encode, encode, ENTITIES_FLOORS);
    RUN_SIDE(entities, decode, decode, ENTITIES_FLOORS);
    bench_exact(bytes, "B", (int64_t)p->size[0], 601);
}

static void run_bools(bools_pool *p, const char *encode, const char *decode, const char *bytes)
{
    RUN_SIDE(bools, encode, encode, BOOLS_FLOORS);
    RUN_SIDE(bools, decode, decode, BOOLS_FLOORS);
    bench_exact(bytes, "B", (int64_t)p->size[0], 127);
}

int main(int argc, char **argv)
{
    bench_start(argc, argv);
    random_state = 1;
    make_entities(&entities_one, 1);
    make_entities(&entities_many, POOL);
    make_bools(&bools_one, 1);
    make_bools(&bools_many, POOL);
    tiny_one.value[0].value = 7;
    PREPARE(tiny, &tiny_one, 1u);
    tiny_check_store(&tiny_one);
    make_players(&player_many, POOL);
    make_inputs(&inputs_many, POOL);

    run_entities(&entities_one, "codec/entities_encode", "codec/entities_decode", "codec/entities_bytes");
    run_entities(&entities_many, "codec/entities_random_encode", "codec/entities_random_decode",
                 "codec/entities_random_bytes");
    run_bools(&bools_one, "codec/bools_encode", "codec/bools_decode", "codec/bools_bytes");
    run_bools(&bools_many, "codec/bools_random_encode", "codec/bools_random_decode", "codec/bools_random_bytes");
    {
        tiny_pool *p = &tiny_one;
        RUN_SIDE(tiny, "codec/tiny_encode", encode, TINY_FLOORS);
        RUN_SIDE(tiny, "codec/tiny_decode", decode, TINY_FLOORS);
        bench_exact("codec/tiny_bytes", "B", (int64_t)p->size[0], 1);
    }
    {
        player_pool *p = &player_many;
        RUN_SIDE(player, "codec/player_encode", encode, HAND_FLOORS);
        RUN_SIDE(player, "codec/player_decode", decode, HAND_FLOORS);
    }
    {
        inputs_pool *p = &inputs_many;
        bench_exact("codec/input_one", "B", (int64_t)input_size(&p->value[0].last[0]), 5);
        RUN_SIDE(inputs, "codec/inputs_four_made", encode, HAND_FLOORS);
        RUN_SIDE(inputs, "codec/inputs_four_read", decode, HAND_FLOORS);
        bench_exact("codec/inputs_four_a", "B", (int64_t)p->size[0], 24);
    }
    return bench_finish();
}
