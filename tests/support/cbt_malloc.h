/* cbt_malloc.h - counts every malloc, calloc, realloc, aligned allocation and mmap of the whole program; for tests
 * and benches. Include it in exactly one file of a program.
 *
 * CBT_MALLOC_COUNTED is 1 where counting works: glibc, linked dynamically, without a sanitizer. Elsewhere it is 0 and
 * the counters stay 0, so an assertion of "no allocation" belongs into `#if CBT_MALLOC_COUNTED`.
 * -DCBT_NO_MALLOC_COUNT switches it off by hand: for static linking (where libc.a has the same names) and memcheck.
 */
#ifndef CBT_MALLOC_H
#define CBT_MALLOC_H
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define CBT_MALLOC_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CBT_MALLOC_SANITIZED 1
#endif

#if defined(__GLIBC__) && defined(__GNUC__) && !defined(CBT_MALLOC_SANITIZED) && !defined(CBT_NO_MALLOC_COUNT)
#define CBT_MALLOC_COUNTED 1
#else
#define CBT_MALLOC_COUNTED 0
#endif

#if CBT_MALLOC_COUNTED
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wredundant-decls"
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wreserved-identifier"
#endif
#if defined(__cplusplus)
#define CBT_NOTHROW noexcept
extern "C" {
#else
#define CBT_NOTHROW
#endif
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *ptr, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *ptr);
extern size_t malloc_usable_size(void *ptr) CBT_NOTHROW;
extern long syscall(long number, ...) CBT_NOTHROW;
void *memalign(size_t align, size_t size) CBT_NOTHROW;
int posix_memalign(void **out, size_t align, size_t size) CBT_NOTHROW;
void *aligned_alloc(size_t align, size_t size) CBT_NOTHROW;

static uint64_t cbt_malloc_n, cbt_malloc_sum, cbt_malloc_held;

static void *cbt_malloc_count(void *ptr, size_t size)
{
    __atomic_fetch_add(&cbt_malloc_n, 1u, __ATOMIC_RELAXED);
    __atomic_fetch_add(&cbt_malloc_sum, (uint64_t)size, __ATOMIC_RELAXED);
    __atomic_fetch_add(&cbt_malloc_held, (uint64_t)malloc_usable_size(ptr), __ATOMIC_RELAXED);
    return ptr;
}

void *malloc(size_t size) CBT_NOTHROW
{
    return cbt_malloc_count(__libc_malloc(size), size);
}

void *calloc(size_t count, size_t size) CBT_NOTHROW
{
    return cbt_malloc_count(__libc_calloc(count, size), count * size);
}

void *realloc(void *ptr, size_t size) CBT_NOTHROW
{
    uint64_t before = (uint64_t)malloc_usable_size(ptr);
    void *p = __libc_realloc(ptr, size);
    if (p != NULL || size == 0) { /* else the old block stays as it was */
        __atomic_fetch_sub(&cbt_malloc_held, before, __ATOMIC_RELAXED);
    }
    return cbt_malloc_count(p, size);
}

void free(void *ptr) CBT_NOTHROW
{
    __atomic_fetch_sub(&cbt_malloc_held, (uint64_t)malloc_usable_size(ptr), __ATOMIC_RELAXED);
    __libc_free(ptr);
}

void *memalign(size_t align, size_t size) CBT_NOTHROW
{
    return cbt_malloc_count(__libc_memalign(align, size), size);
}

void *aligned_alloc(size_t align, size_t size) CBT_NOTHROW
{
    return cbt_malloc_count(__libc_memalign(align, size), size);
}

int posix_memalign(void **out, size_t align, size_t size) CBT_NOTHROW
{
    void *p;
    if (align < sizeof(void *) || (align & (align - 1u)) != 0) {
        return 22; /* EINVAL */
    }
    p = cbt_malloc_count(__libc_memalign(align, size), size);
    if (p == NULL) {
        return 12; /* ENOMEM */
    }
    *out = p;
    return 0;
}

#if defined(__x86_64__) && defined(__LP64__) && !defined(_FILE_OFFSET_BITS)
/* The program's own mappings; those that malloc makes inside libc do not come through here and are in malloc's count. */
void *mmap(void *addr, size_t size, int prot, int flags, int fd, long offset) CBT_NOTHROW;
void *mmap(void *addr, size_t size, int prot, int flags, int fd, long offset) CBT_NOTHROW
{
    long at = syscall(9, addr, size, prot, flags, fd, offset); /* SYS_mmap of x86_64 */
    __atomic_fetch_add(&cbt_malloc_n, 1u, __ATOMIC_RELAXED);
    __atomic_fetch_add(&cbt_malloc_sum, (uint64_t)size, __ATOMIC_RELAXED);
    return (void *)at;
}
#endif
#if defined(__cplusplus)
}
#endif
#undef CBT_NOTHROW
#pragma GCC diagnostic pop

/* Since the start: calls that took memory, bytes asked for, and bytes held now as malloc_usable_size counts them. */
__attribute__((unused)) static uint64_t cbt_malloc_calls(void)
{
    return __atomic_load_n(&cbt_malloc_n, __ATOMIC_RELAXED);
}

__attribute__((unused)) static uint64_t cbt_malloc_bytes(void)
{
    return __atomic_load_n(&cbt_malloc_sum, __ATOMIC_RELAXED);
}

__attribute__((unused)) static uint64_t cbt_malloc_live(void)
{
    return __atomic_load_n(&cbt_malloc_held, __ATOMIC_RELAXED);
}
#else
#if defined(__GNUC__) || defined(__clang__)
#define CBT_MALLOC_UNUSED __attribute__((unused))
#else
#define CBT_MALLOC_UNUSED
#endif
CBT_MALLOC_UNUSED static uint64_t cbt_malloc_calls(void)
{
    return 0;
}

CBT_MALLOC_UNUSED static uint64_t cbt_malloc_bytes(void)
{
    return 0;
}

CBT_MALLOC_UNUSED static uint64_t cbt_malloc_live(void)
{
    return 0;
}
#endif
#endif
