/* hand_timers.h - the floors of bench_loop.c's timers: a wheel of four levels with 256 slots of a millisecond, and a
 * binary heap. Timers are the caller's structs; starting an active one moves it; callbacks may start and stop. They leave
 * out what a loop must have besides: deadlines to the nanosecond that run in order, a bound on drift, ends of the loop. */
#ifndef BENCH_HAND_TIMERS_H
#define BENCH_HAND_TIMERS_H
#include "support/bench.h"

typedef struct hand_timer {
    struct hand_timer *next, *prev; /* of the wheel; prev NULL: not active */
    uint64_t deadline, interval;    /* milliseconds */
    void (*fn)(void *user, struct hand_timer *timer);
    void *user;
    size_t at;                      /* of the heap: its place + 1, 0: not active */
} hand_timer;

/* -- the wheel -- */
typedef struct hand_wheel {
    hand_timer slot[4][256], due; /* heads of rings */
    uint64_t tick;                /* the next one to be done */
} hand_wheel;

BENCH_UNUSED static void hand_wheel_init(hand_wheel *w, uint64_t now)
{
    size_t i, k;
    memset(w, 0, sizeof *w);
    for (i = 0; i < 4u; i++) {
        for (k = 0; k < 256u; k++) {
            w->slot[i][k].next = w->slot[i][k].prev = &w->slot[i][k];
        }
    }
    w->due.next = w->due.prev = &w->due;
    w->tick = now;
}

static inline void hand_link(hand_timer *head, hand_timer *t)
{
    t->prev = head->prev;
    t->next = head;
    head->prev->next = t;
    head->prev = t;
}

static inline void hand_unlink(hand_timer *t)
{
    t->prev->next = t->next;
    t->next->prev = t->prev;
    t->prev = NULL;
}

static inline void hand_wheel_insert(hand_wheel *w, hand_timer *t)
{
    uint64_t d = t->deadline - w->tick;
    if (t->deadline < w->tick) {
        hand_link(&w->due, t);
    } else if (d < 256u) {
        hand_link(&w->slot[0][t->deadline & 255u], t);
    } else if (d < 65536u) {
        hand_link(&w->slot[1][t->deadline >> 8 & 255u], t);
    } else if (d < 16777216u) {
        hand_link(&w->slot[2][t->deadline >> 16 & 255u], t);
    } else {
        hand_link(&w->slot[3][t->deadline >> 24 & 255u], t);
    }
}

/* delay 0: at the next run. */
static inline void hand_wheel_start(hand_wheel *w, hand_timer *t, uint64_t delay, uint64_t interval)
{
    if (t->prev != NULL) {
        hand_unlink(t);
    }
    t->deadline = w->tick - 1u + delay;
    t->interval = interval;
    hand_wheel_insert(w, t);
}

static inline void hand_wheel_stop(hand_timer *t)
{
    if (t->prev != NULL) {
        hand_unlink(t);
    }
}

static inline void hand_wheel_take(hand_timer *to, hand_timer *head)
{
    if (head->next == head) {
        to->next = to->prev = to;
        return;
    }
    to->next = head->next;
    to->prev = head->prev;
    to->next->prev = to;
    to->prev->next = to;
    head->next = head->prev = head;
}

static inline void hand_wheel_fire(hand_wheel *w, hand_timer *head)
{
    hand_timer list;
    hand_wheel_take(&list, head);
    while (list.next != &list) {
        hand_timer *t = list.next;
        hand_unlink(t);
        if (t->interval != 0) {
            t->deadline += t->interval;
            hand_wheel_insert(w, t);
        }
        t->fn(t->user, t);
    }
}

static inline void hand_wheel_run(hand_wheel *w, uint64_t now)
{
    while (w->tick <= now) {
        unsigned level;
        for (level = 1; level < 4u && (w->tick & ((UINT64_C(1) << (8u * level)) - 1u)) == 0; level++) {
            hand_timer list;
            hand_wheel_take(&list, &w->slot[level][w->tick >> (8u * level) & 255u]);
            while (list.next != &list) {
                hand_timer *t = list.next;
                hand_unlink(t);
                hand_wheel_insert(w, t);
            }
        }
        w->tick++;
        hand_wheel_fire(w, &w->slot[0][(w->tick - 1u) & 255u]);
    }
    if (w->due.next != &w->due) {
        hand_wheel_fire(w, &w->due);
    }
}

/* -- the heap -- */
typedef struct hand_heap {
    hand_timer **item;
    size_t count, cap;
    uint64_t now;
} hand_heap;

BENCH_UNUSED static void hand_heap_place(hand_heap *h, size_t i, hand_timer *t)
{
    h->item[i] = t;
    t->at = i + 1u;
}

BENCH_UNUSED static void hand_heap_up(hand_heap *h, size_t i, hand_timer *t)
{
    while (i != 0 && h->item[(i - 1u) / 2u]->deadline > t->deadline) {
        hand_heap_place(h, i, h->item[(i - 1u) / 2u]);
        i = (i - 1u) / 2u;
    }
    hand_heap_place(h, i, t);
}

BENCH_UNUSED static void hand_heap_down(hand_heap *h, size_t i, hand_timer *t)
{
    for (;;) {
        size_t k = 2u * i + 1u;
        if (k + 1u < h->count && h->item[k + 1u]->deadline < h->item[k]->deadline) {
            k++;
        }
        if (k >= h->count || h->item[k]->deadline >= t->deadline) {
            break;
        }
        hand_heap_place(h, i, h->item[k]);
        i = k;
    }
    hand_heap_place(h, i, t);
}

BENCH_UNUSED static void hand_heap_stop(hand_heap *h, hand_timer *t)
{
    size_t i = t->at;
    hand_timer *last;
    if (i == 0) {
        return;
    }
    t->at = 0;
    last = h->item[--h->count];
    if (last == t) {
        return;
    }
    i--;
    if (i != 0 && h->item[(i - 1u) / 2u]->deadline > last->deadline) {
        hand_heap_up(h, i, last);
    } else {
        hand_heap_down(h, i, last);
    }
}

BENCH_UNUSED static void hand_heap_start(hand_heap *h, hand_timer *t, uint64_t delay, uint64_t interval)
{
    uint64_t before = t->deadline;
    t->deadline = h->now + delay;
    t->interval = interval;
    if (t->at != 0) { /* where it is already, it only moves */
        if (t->deadline < before) {
            hand_heap_up(h, t->at - 1u, t);
        } else {
            hand_heap_down(h, t->at - 1u, t);
        }
        return;
    }
    if (h->count == h->cap) {
        h->cap = h->cap != 0 ? h->cap * 2u : 1024u;
        h->item = (hand_timer **)realloc(h->item, h->cap * sizeof *h->item);
    }
    hand_heap_up(h, h->count++, t);
}

BENCH_UNUSED static void hand_heap_run(hand_heap *h, uint64_t now)
{
    h->now = now;
    while (h->count != 0 && h->item[0]->deadline <= now) {
        hand_timer *t = h->item[0];
        if (t->interval != 0) {
            t->deadline += t->interval;
            hand_heap_down(h, 0, t);
        } else {
            hand_heap_stop(h, t);
        }
        t->fn(t->user, t);
    }
}
#endif
