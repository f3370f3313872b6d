/* cbt.h - the test kit of this repository; support for the tests alone, not part of any header.
 *
 * A test program has static functions without arguments, a table of CBT_CASE rows and
 *     int main(int argc, char **argv) { return cbt_main(argc, argv, cases, sizeof cases / sizeof cases[0]); }
 * Arguments are filters: a case runs when its name contains one of them; `-l` lists the names.
 * The last line is `N passed, M failed` (`, K skipped` follows when there are any) and the exit code is 0 only
 * when nothing failed. With CB_REQUIRE_ALL=1 in the environment a skip is a failure.
 * CBT_CHECK, CBT_EQ, CBT_STR and CBT_MEM go on after a failure, CBT_REQUIRE and CBT_SKIP leave the function.
 * They may be used from several threads. CBT_SEED in the environment changes what cbt_rand starts from.
 */
#ifndef CBT_H
#define CBT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define CBT_UNUSED __attribute__((unused))
#define CBT_COUNT(variable) __atomic_fetch_add(&(variable), 1, __ATOMIC_RELAXED)
#define CBT_READ(variable) __atomic_load_n(&(variable), __ATOMIC_RELAXED)
#else
#define CBT_UNUSED
#define CBT_COUNT(variable) ((variable)++)
#define CBT_READ(variable) (variable)
#endif

typedef struct cbt_case {
    const char *name;
    void (*fn)(void);
} cbt_case;
#define CBT_CASE(fn) {#fn, fn}

static int cbt_failures;       /* checks that failed so far, in all cases */
static int cbt_skips;          /* calls of CBT_SKIP so far */
static uint64_t cbt_rand_last; /* seed of the running case, printed when it fails */
static uint64_t cbt_rand_at;

/* -- failures -- */
#define CBT_SHOWN 8 /* failures of one case that are printed; the rest only count */
static int cbt_case_failures;

/* Counts a failure; true when it is to be printed. */
CBT_UNUSED static bool cbt_failed(void)
{
    int before = CBT_COUNT(cbt_case_failures);
    CBT_COUNT(cbt_failures);
    fflush(stdout);
    if (before == CBT_SHOWN) {
        fprintf(stderr, "     more failures of this case are not printed\n");
    }
    return before < CBT_SHOWN;
}

CBT_UNUSED static void cbt_fail(const char *file, int line, const char *kind, const char *text)
{
    if (cbt_failed()) {
        fprintf(stderr, "FAIL %s:%d: %s: %s\n", file, line, kind, text);
    }
}

CBT_UNUSED static void cbt_eq_at(const char *file, int line, const char *a_text, const char *b_text,
                                 unsigned long long a, unsigned long long b)
{
    if (a != b && cbt_failed()) {
        fprintf(stderr, "FAIL %s:%d: %s is %llu (0x%llx), want %s = %llu (0x%llx)\n", file, line, a_text, a, a, b_text, b, b);
    }
}

CBT_UNUSED static void cbt_str_at(const char *file, int line, const char *a_text, const char *a, const char *b)
{
    if ((a == NULL || b == NULL || strcmp(a, b) != 0) && cbt_failed()) {
        fprintf(stderr, "FAIL %s:%d: %s is \"%s\", want \"%s\"\n", file, line, a_text, a != NULL ? a : "(null)",
                b != NULL ? b : "(null)");
    }
}

CBT_UNUSED static void cbt_mem_at(const char *file, int line, const char *text, const void *a, const void *b, size_t size)
{
    const unsigned char *x = (const unsigned char *)a;
    const unsigned char *y = (const unsigned char *)b;
    size_t i;
    for (i = 0; i < size; i++) {
        if (x[i] == y[i]) {
            continue;
        }
        if (cbt_failed()) {
            fprintf(stderr, "FAIL %s:%d: %s differs at byte %llu of %llu: 0x%02x, want 0x%02x\n", file, line, text,
                    (unsigned long long)i, (unsigned long long)size, (unsigned)x[i], (unsigned)y[i]);
        }
        return;
    }
}

#define CBT_CHECK(c) \
    do { \
        if (!(c)) { \
            cbt_fail(__FILE__, __LINE__, "check failed", #c); \
        } \
    } while (0)
#define CBT_REQUIRE(c) \
    do { \
        if (!(c)) { \
            cbt_fail(__FILE__, __LINE__, "required", #c); \
            return; \
        } \
    } while (0)
#define CBT_EQ(a, b) cbt_eq_at(__FILE__, __LINE__, #a, #b, (unsigned long long)(a), (unsigned long long)(b)) /* integers */
#define CBT_STR(a, b) cbt_str_at(__FILE__, __LINE__, #a, (a), (b))
#define CBT_MEM(a, b, size) cbt_mem_at(__FILE__, __LINE__, #a, (a), (b), (size))

/* -- skips -- */
CBT_UNUSED static bool cbt_env(const char *name)
{
    const char *v = getenv(name);
    return v != NULL && v[0] != '\0' && strcmp(v, "0") != 0;
}

CBT_UNUSED static void cbt_skip(const char *file, int line, const char *reason)
{
    if (cbt_env("CB_REQUIRE_ALL")) {
        cbt_fail(file, line, "nothing may be skipped here", reason);
        return;
    }
    CBT_COUNT(cbt_skips);
    printf("     skipped: %s\n", reason);
}

/* Leaves a case that cannot run here; the reason says what is missing and what would bring it. */
#define CBT_SKIP(reason) \
    do { \
        cbt_skip(__FILE__, __LINE__, (reason)); \
        return; \
    } while (0)

/* -- memory -- */
/* Exact-size heap copy: one byte read past its end is a report of AddressSanitizer. The caller frees it. */
CBT_UNUSED static void *cbt_dup(const void *data, size_t size)
{
    void *p = malloc(size != 0 ? size : 1);
    if (p == NULL) {
        abort();
    }
    if (size != 0) {
        memcpy(p, data, size);
    }
    return p;
}

/* Counting allocator in the shape of cb_alloc; clear it with memset or {0, 0, 0}. */
typedef struct cbt_mem {
    size_t calls;      /* of alloc, the failed ones too */
    size_t live_bytes; /* asked for and not released */
    size_t fail_at;    /* this call fails, counted from 1; 0: none does */
} cbt_mem;

/* In front of each block: where it began and how large it was asked, so that a release of another size is seen. */
typedef struct cbt_block {
    void *base;
    size_t size;
} cbt_block;

CBT_UNUSED static void *cbt_mem_alloc(void *user, size_t size, size_t align)
{
    cbt_mem *m = (cbt_mem *)user;
    cbt_block block;
    uint8_t *base, *p;
    size_t step = align > sizeof(cbt_block) ? align : sizeof(cbt_block);
    if (align == 0 || (align & (align - 1u)) != 0) {
        cbt_fail(__FILE__, __LINE__, "allocator", "alignment is no power of two");
        return NULL;
    }
    if (++m->calls == m->fail_at || size > SIZE_MAX - 2u * step) {
        return NULL;
    }
    base = (uint8_t *)malloc(size + 2u * step);
    if (base == NULL) {
        return NULL;
    }
    p = base + sizeof block;
    p += (step - ((uintptr_t)p & (step - 1u))) & (step - 1u);
    if (align <= sizeof(void *)) { /* the usual case: the block ends with the heap block, so over-reads are seen */
        p = base + 2u * step;
    }
    block.base = base;
    block.size = size;
    memcpy(p - sizeof block, &block, sizeof block);
    m->live_bytes += size;
    return p;
}

CBT_UNUSED static void cbt_mem_release(void *user, void *ptr, size_t size)
{
    cbt_mem *m = (cbt_mem *)user;
    cbt_block block;
    if (ptr == NULL) {
        return;
    }
    memcpy(&block, (uint8_t *)ptr - sizeof block, sizeof block);
    if (block.size != size) {
        cbt_eq_at(__FILE__, __LINE__, "size released", "size allocated", (unsigned long long)size, (unsigned long long)block.size);
    }
    m->live_bytes -= block.size;
    memset(ptr, 0xDD, block.size);
    free(block.base);
}

/* -- random numbers: splitmix64, the same everywhere for the same seed -- */
CBT_UNUSED static void cbt_seed(uint64_t seed)
{
    cbt_rand_last = seed;
    cbt_rand_at = seed;
}

CBT_UNUSED static uint64_t cbt_rand(void)
{
    uint64_t z = (cbt_rand_at += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* 0 to below - 1; below is at least 1. The bias of the remainder does not matter to tests. */
CBT_UNUSED static uint32_t cbt_rand_below(uint32_t below)
{
    return (uint32_t)((cbt_rand() >> 32) % below);
}

CBT_UNUSED static void cbt_rand_fill(void *data, size_t size)
{
    uint8_t *p = (uint8_t *)data;
    size_t i;
    for (i = 0; i < size; i++) {
        p[i] = (uint8_t)(cbt_rand() >> 56);
    }
}

/* -- main -- */
CBT_UNUSED static bool cbt_selected(int argc, char **argv, const char *name)
{
    int i;
    for (i = 1; i < argc; i++) {
        if (strstr(name, argv[i]) != NULL) {
            return true;
        }
    }
    return argc <= 1;
}

/* 1 passed, 0 skipped, -1 failed. Each case starts from the same seed, so it fails alone as it fails with others. */
CBT_UNUSED static int cbt_run(const cbt_case *c)
{
    const char *seed = getenv("CBT_SEED");
    int failures = CBT_READ(cbt_failures), skips = CBT_READ(cbt_skips);
    cbt_case_failures = 0;
    cbt_seed(seed != NULL ? (uint64_t)strtoull(seed, NULL, 0) : 1u);
    c->fn();
    if (CBT_READ(cbt_failures) != failures) {
        printf("FAIL %s (seed %llu)\n", c->name, (unsigned long long)cbt_rand_last);
        fflush(stdout);
        return -1;
    }
    printf("%s %s\n", CBT_READ(cbt_skips) != skips ? "skip" : "ok  ", c->name);
    fflush(stdout);
    return CBT_READ(cbt_skips) != skips ? 0 : 1;
}

CBT_UNUSED static int cbt_main(int argc, char **argv, const cbt_case *cases, size_t count)
{
    unsigned passed = 0, failed = 0, skipped = 0;
    bool list = argc == 2 && strcmp(argv[1], "-l") == 0;
    size_t i;
    for (i = 0; i < count; i++) {
        int result;
        if (list) {
            printf("%s\n", cases[i].name);
            continue;
        }
        if (!cbt_selected(argc, argv, cases[i].name)) {
            continue;
        }
        result = cbt_run(&cases[i]);
        passed += result > 0;
        failed += result < 0;
        skipped += result == 0;
    }
    if (list) {
        return 0;
    }
    if (passed + failed + skipped == 0) {
        printf("FAIL no case of that name; -l lists them\n");
        failed = 1;
    }
    printf("%u passed, %u failed", passed, failed);
    if (skipped != 0) {
        printf(", %u skipped", skipped);
    }
    printf("\n");
    fflush(stdout);
    return failed != 0;
}
#endif
