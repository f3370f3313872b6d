/* latency.h - how long calls took, to be asked for percentiles: counts in buckets that are 1/16 of their
 * value wide. */
#ifndef CHAT_LATENCY_H
#define CHAT_LATENCY_H
#include <stdint.h>
#include <string.h>

enum { LATENCY_BUCKETS = 16 * 61 };

typedef struct latency { /* clear it with memset */
    uint64_t count, most_ns;
    uint32_t buckets[LATENCY_BUCKETS];
} latency;

static void latency_add(latency *l, uint64_t ns)
{
    uint64_t rest = ns;
    uint32_t shift = 0;
    while (rest >= 32u) {
        rest >>= 1;
        shift++;
    }
    l->buckets[16u * shift + (uint32_t)rest]++;
    l->count++;
    if (ns > l->most_ns) {
        l->most_ns = ns;
    }
}

static void latency_join(latency *l, const latency *other)
{
    uint32_t i;
    for (i = 0; i < LATENCY_BUCKETS; i++) {
        l->buckets[i] += other->buckets[i];
    }
    l->count += other->count;
    if (other->most_ns > l->most_ns) {
        l->most_ns = other->most_ns;
    }
}

/* What `percent` of the calls did not exceed, in milliseconds: the upper end of its bucket, but not above
 * the longest. */
static double latency_ms(const latency *l, double percent)
{
    double wanted = (double)l->count * percent / 100.0, seen = 0;
    uint64_t ns;
    uint32_t i, shift;
    for (i = 0; i < LATENCY_BUCKETS; i++) {
        seen += (double)l->buckets[i];
        if (l->buckets[i] != 0 && seen >= wanted) {
            break;
        }
    }
    if (i == LATENCY_BUCKETS) {
        return 0;
    }
    shift = i < 32u ? 0 : i / 16u - 1u;
    ns = (uint64_t)(i - 16u * shift + 1u) << shift;
    return (double)(ns < l->most_ns ? ns : l->most_ns) / 1e6;
}
#endif
