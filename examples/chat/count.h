/* count.h - how the demo knows that nothing is allocated while people talk: these functions stand in front of libc's,
 * so every allocation of the whole process goes through them. Only glibc lets them, and no sanitizer; -DCHAT_NO_COUNT
 * where libc is linked statically and has the same names. */
#ifndef CHAT_COUNT_H
#define CHAT_COUNT_H
#include <stdint.h>
#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define CHAT_IS_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CHAT_IS_SANITIZED 1
#endif
#if defined(__GLIBC__) && !defined(CHAT_IS_SANITIZED) && !defined(CHAT_NO_COUNT)
#define CHAT_COUNTS_ALLOCATIONS 1
#else
#define CHAT_COUNTS_ALLOCATIONS 0
#endif

static uint64_t allocations; /* since the process began; the thread that reads the terminal allocates too */

static uint64_t allocations_so_far(void)
{
    return __atomic_load_n(&allocations, __ATOMIC_RELAXED);
}

#if CHAT_COUNTS_ALLOCATIONS
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wreserved-identifier"
#endif
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
#if defined(__clang__)
#pragma clang diagnostic pop
#endif

void *malloc(size_t size)
{
    __atomic_fetch_add(&allocations, 1u, __ATOMIC_RELAXED);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    __atomic_fetch_add(&allocations, 1u, __ATOMIC_RELAXED);
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    __atomic_fetch_add(&allocations, 1u, __ATOMIC_RELAXED);
    return __libc_realloc(memory, size);
}
#endif
#endif
