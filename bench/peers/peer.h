/* peer.h - what a file of bench/peers gives to bench_loop.c: for figures of that bench, the same work done by a known
 * library. bench_loop.c compiles each file to a shared object at its start, where the library's headers are installed,
 * and runs it as one more floor of the figure, in turns with ours. */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H
#include <stddef.h>
#include <stdint.h>

typedef struct peer_work {
    const char *figure;                       /* "loop/tcp_echo_100" */
    void (*fn)(void *user, uint64_t ops);     /* does the work ops times; prepares itself at its first call */
} peer_work;

/* Ends with a figure of NULL. */
const peer_work *peer_table(void);
#endif
