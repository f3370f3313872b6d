/* budget.h - main of the budget programs: without arguments the names of the operations, one a line; with one of them
 * and a number, that operation so many times (tests/tools/budgets.sh counts what one costs). No clock, no randomness. */
#ifndef BENCH_BUDGET_H
#define BENCH_BUDGET_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct budget_op {
    const char *name;
    void (*fn)(uint64_t ops);
} budget_op;

__attribute__((unused)) static void budget_use(const void *p)
{
    __asm__ __volatile__("" : : "r"(p) : "memory");
}

static void budget_need(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "budget: %s failed\n", what);
        exit(1);
    }
}

static int budget_main(int argc, char **argv, const budget_op *ops, size_t count)
{
    size_t i;
    for (i = 0; i < count; i++) {
        if (argc < 3) {
            printf("%s\n", ops[i].name);
        } else if (strcmp(argv[1], ops[i].name) == 0) {
            ops[i].fn(strtoull(argv[2], NULL, 10));
            return 0;
        }
    }
    return argc < 3 ? 0 : 2;
}
#endif
