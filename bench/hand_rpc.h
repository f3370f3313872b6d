/* hand_rpc.h - the floor of bench_rpc.c: calls written by hand for two methods, the same frames as docs/wire-rpc.md.
 *
 * It leaves out what a library has to have (limits, deadlines, cancellation, late answers, method maps, a bound on output)
 * and keeps what every call needs: a frame with its length checked, a method looked up in a table of handlers, an id, a
 * table of open calls, arguments and answer read and written, the receiver called. Two spellings of the varint: `plain`
 * loops; `short` tests all three varints of a small frame at once and falls back to the loop.
 */
#ifndef BENCH_HAND_RPC_H
#define BENCH_HAND_RPC_H
#include "support/bench.h"

#define HAND_OPEN 64u
#define HAND_FRAME_MAX (8u << 20)
enum { HAND_ANSWER = 1, HAND_METHOD = 15 };

typedef struct hand_buffer {
    uint8_t bytes[16384];
    size_t size;
} hand_buffer;

typedef void (*hand_receiver)(void *user, uint32_t value);
typedef struct hand_call {
    hand_receiver receiver; /* NULL: free */
    void *user;
    uint32_t next_free;
} hand_call;

typedef struct hand_client {
    hand_call open[HAND_OPEN];
    uint32_t free;
} hand_client;

typedef struct hand_server {
    bool (*call[3])(void *user, uint32_t args, uint32_t *reply); /* by method number; [1] is the small call */
    void (*event[3])(void *user, uint32_t args);
    void *user;
} hand_server;

typedef struct hand_future {
    int state;
    uint32_t reply;
} hand_future;

BENCH_UNUSED static void hand_client_init(hand_client *c)
{
    uint32_t i;
    memset(c, 0, sizeof *c);
    for (i = 0; i < HAND_OPEN; i++) {
        c->open[i].next_free = i + 1u;
    }
}

/* Bytes of the varint at in, 0: not one. */
static inline size_t hand_varu(const uint8_t *in, size_t size, uint32_t *value)
{
    size_t i;
    uint32_t x = 0;
    for (i = 0; i < size && i < 5u; i++) {
        x |= (uint32_t)(in[i] & 0x7fu) << (7u * i);
        if (in[i] < 0x80u) {
            *value = x;
            return i + 1u;
        }
    }
    return 0;
}

static inline size_t hand_put(uint8_t *out, uint32_t x)
{
    size_t n = 0;
    while (x >= 0x80u) {
        out[n++] = (uint8_t)(x | 0x80u);
        x >>= 7;
    }
    out[n++] = (uint8_t)x;
    return n;
}

/* Takes an id, writes the frame. False: too many calls, or no room. */
static inline bool hand_call_send(hand_client *c, hand_buffer *out, uint32_t value, hand_receiver receiver, void *user)
{
    uint32_t id = c->free;
    uint8_t *to = out->bytes + out->size;
    if (id >= HAND_OPEN || out->size + 16u > sizeof out->bytes) {
        return false;
    }
    c->free = c->open[id].next_free;
    c->open[id].receiver = receiver;
    c->open[id].user = user;
    to[0] = 6;
    to[1] = HAND_METHOD + 1;
    to[2] = (uint8_t)(id * 2u); /* one byte, for ids are below 64 */
    memcpy(to + 3, &value, 4);
    out->size += 7u;
    return true;
}

static inline bool hand_event_send(hand_buffer *out, uint32_t value)
{
    uint8_t *to = out->bytes + out->size;
    if (out->size + 16u > sizeof out->bytes) {
        return false;
    }
    to[0] = 5;
    to[1] = HAND_METHOD + 2;
    memcpy(to + 2, &value, 4);
    out->size += 6u;
    return true;
}

/* One frame's head: its length, what stands in front, and its kind. Returns bytes of both, 0: more must come, SIZE_MAX: refused. */
static inline size_t hand_head(const uint8_t *in, size_t size, bool is_short, uint32_t *length, uint32_t *kind)
{
    size_t a, b;
    if (is_short && size >= 2u && in[0] < 0x80u && in[1] < 0x80u) {
        *length = in[0];
        *kind = in[1];
        a = 1;
        b = 1;
    } else {
        a = hand_varu(in, size, length);
        if (a == 0) {
            return size >= 5u ? SIZE_MAX : 0;
        }
        if (*length == 0 || *length > HAND_FRAME_MAX) {
            return SIZE_MAX;
        }
        b = hand_varu(in + a, size - a, kind);
        if (b == 0) {
            return size - a >= 5u ? SIZE_MAX : 0;
        }
    }
    if (*length < b) {
        return SIZE_MAX;
    }
    return size - a < *length ? 0 : a + b;
}

/* Frames of the peer: calls are answered into out, events run. Returns the bytes used, SIZE_MAX: refused. */
static inline size_t hand_serve(const hand_server *s, const uint8_t *in, size_t size, bool is_short, hand_buffer *out)
{
    size_t used = 0;
    while (used < size) {
        uint32_t length, kind, id, value, reply;
        const uint8_t *at = in + used;
        size_t head = hand_head(at, size - used, is_short, &length, &kind), n, rest;
        if (head == 0 || head == SIZE_MAX) {
            return head == 0 ? used : SIZE_MAX;
        }
        rest = length - (kind < 0x80u ? 1u : 2u);
        if (kind <= HAND_METHOD || kind > HAND_METHOD + 2u) {
            return SIZE_MAX;
        }
        at += head;
        used += head + rest;
        if (s->event[kind - HAND_METHOD] != NULL) {
            if (rest != 4u) {
                return SIZE_MAX;
            }
            memcpy(&value, at, 4);
            s->event[kind - HAND_METHOD](s->user, value);
            continue;
        }
        if (is_short && rest == 5u && at[0] < 0x80u) {
            id = at[0];
            n = 1;
        } else {
            n = hand_varu(at, rest, &id);
        }
        if (n == 0 || rest - n != 4u || out->size + 16u > sizeof out->bytes) {
            return SIZE_MAX;
        }
        memcpy(&value, at + n, 4);
        if (!s->call[kind - HAND_METHOD](s->user, value, &reply)) {
            return SIZE_MAX;
        }
        out->bytes[out->size] = (uint8_t)(5u + n);
        out->bytes[out->size + 1u] = HAND_ANSWER;
        n = hand_put(out->bytes + out->size + 2u, id >> 1);
        memcpy(out->bytes + out->size + 2u + n, &reply, 4);
        out->size += 6u + n;
    }
    return used;
}

/* Answers: the call is found and its receiver called. */
static inline size_t hand_receive(hand_client *c, const uint8_t *in, size_t size, bool is_short)
{
    size_t used = 0;
    while (used < size) {
        uint32_t length, kind, id, value;
        const uint8_t *at = in + used;
        size_t head = hand_head(at, size - used, is_short, &length, &kind), n, rest;
        hand_receiver receiver;
        if (head == 0 || head == SIZE_MAX) {
            return head == 0 ? used : SIZE_MAX;
        }
        rest = length - 1u;
        at += head;
        used += head + rest;
        if (is_short && rest == 5u && at[0] < 0x80u) {
            id = at[0];
            n = 1;
        } else {
            n = hand_varu(at, rest, &id);
        }
        if (kind != HAND_ANSWER || n == 0 || rest - n != 4u || id >= HAND_OPEN || c->open[id].receiver == NULL) {
            return SIZE_MAX;
        }
        memcpy(&value, at + n, 4);
        receiver = c->open[id].receiver;
        c->open[id].receiver = NULL;
        c->open[id].next_free = c->free;
        c->free = id;
        receiver(c->open[id].user, value);
    }
    return used;
}
#endif
