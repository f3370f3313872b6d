/* bench.h - measuring and printing for the benches of this repository; Linux, not part of any header.
 *
 *     static void encode_ours(void *user, uint64_t ops)  { ...ops times... bench_use(x); }
 *     static void encode_plain(void *user, uint64_t ops) { ...the same work by hand... }
 *     int main(int argc, char **argv)
 *     {
 *         bench_spec s;
 *         bench_start(argc, argv);                             prints the line of the machine
 *         bench_clear(&s, "codec/entities_encode");
 *         bench_subject(&s, encode_ours, &data);
 *         bench_floor(&s, "plain", encode_plain, &data);       up to 6 floors; the fastest one counts
 *         bench_run(&s);
 *         return bench_finish();
 *     }
 *
 * Each figure is one line on stdout:
 *     bench <header>/<name> <value> <unit> floor <value> ratio <value> alloc <bytes per op> reps <n> spread <p90/p10>
 * `-` stands where there is none; a figure that cannot be measured here ends in `skipped: <reason>`. Value and floor
 * are the minimum over the repetitions (the maximum where s.higher is set), subject and floors taking turns; spread
 * is that of the subject. Time is CPU time of this process. `alloc` comes from the interposed counter of
 * tests/support/cbt_malloc.h over the measured repetitions of the subject.
 *
 * Arguments: `--name text` runs the figures whose name contains text; others are the bench's own (bench_option).
 * BENCH_QUICK=1 measures shorter; BENCH_VERBOSE=1 adds a `#` line a floor.
 */
#ifndef BENCH_H
#define BENCH_H
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1 /* too late where libc was included before; plain `cc` then still declares what is used */
#endif
#include "../../tests/support/cbt_malloc.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BENCH_UNUSED __attribute__((unused))
#define BENCH_REPS_MAX 101
#define BENCH_FLOORS_MAX 6

/* -- clocks -- */
BENCH_UNUSED static uint64_t bench_clock(clockid_t id)
{
    struct timespec t;
    if (clock_gettime(id, &t) != 0) {
        return 0;
    }
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

BENCH_UNUSED static uint64_t bench_cpu_ns(void)
{
    return bench_clock(CLOCK_PROCESS_CPUTIME_ID);
}

BENCH_UNUSED static uint64_t bench_wall_ns(void)
{
    return bench_clock(CLOCK_MONOTONIC);
}

/* Keeps the compiler from dropping work whose result nobody reads. */
BENCH_UNUSED static void bench_use(uint64_t value)
{
    __asm__ __volatile__("" : : "r"(value) : "memory");
}

BENCH_UNUSED static void bench_use_ptr(const void *ptr)
{
    __asm__ __volatile__("" : : "r"(ptr) : "memory");
}

/* -- series of samples -- */
typedef struct bench_series {
    double v[BENCH_REPS_MAX];
    size_t n;
} bench_series;

BENCH_UNUSED static void bench_add(bench_series *s, double value)
{
    if (s->n < BENCH_REPS_MAX) {
        s->v[s->n++] = value;
    }
}

BENCH_UNUSED static int bench_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* p in 0..1 of the samples, nearest rank. */
BENCH_UNUSED static double bench_percentile(const bench_series *s, double p)
{
    bench_series copy = *s;
    if (s->n == 0) {
        return 0;
    }
    qsort(copy.v, copy.n, sizeof copy.v[0], bench_compare);
    return copy.v[(size_t)(p * (double)(copy.n - 1u) + 0.5)];
}

BENCH_UNUSED static double bench_best(const bench_series *s, bool higher)
{
    return bench_percentile(s, higher ? 1.0 : 0.0);
}

/* -- the run: arguments, filter, output -- */
typedef void (*bench_fn)(void *user, uint64_t ops);       /* does the work ops times; its CPU time is taken */
typedef double (*bench_measure)(void *user, uint64_t ops); /* does it and returns the sample itself, in the figure's unit */

typedef struct bench_program {
    int argc;
    char **argv;
    const char *filter;
    bool quick, verbose;
    unsigned printed, skipped;
} bench_program;
static bench_program bench;

typedef struct bench_side {
    const char *name;
    bench_fn fn;
    bench_measure measure;
    void *user;
    uint64_t ops;
} bench_side;

typedef struct bench_spec {
    const char *name; /* "<header>/<name>" */
    const char *unit; /* "ns" unless set: then fn gives nanoseconds an operation times scale */
    double scale;     /* 1; e.g. 0.001 for "us", 0.01 where one op stands for 100 */
    uint64_t ops;     /* operations a repetition; 0: as many as fill rep_ns */
    uint64_t rep_ns;  /* CPU time of one repetition; 0: 20 ms, quick 4 ms */
    unsigned reps;    /* 0: 21, quick 9; never below 9 */
    bool higher;      /* a rate: the greatest value counts */
    bool no_alloc;    /* the work runs in another process, so the counter here says nothing */
    bench_side subject, floor[BENCH_FLOORS_MAX];
    size_t floors;
} bench_spec;

/* The value behind a word of the command line: bench_option("--connections", 8). */
BENCH_UNUSED static long bench_option(const char *word, long otherwise)
{
    int i;
    for (i = 1; i + 1 < bench.argc; i++) {
        if (strcmp(bench.argv[i], word) == 0) {
            return strtol(bench.argv[i + 1], NULL, 0);
        }
    }
    return otherwise;
}

BENCH_UNUSED static const char *bench_option_text(const char *word, const char *otherwise)
{
    int i;
    for (i = 1; i + 1 < bench.argc; i++) {
        if (strcmp(bench.argv[i], word) == 0) {
            return bench.argv[i + 1];
        }
    }
    return otherwise;
}

BENCH_UNUSED static bool bench_wanted(const char *name)
{
    return bench.filter == NULL || strstr(name, bench.filter) != NULL;
}

BENCH_UNUSED static void bench_put(double v)
{
    double whole = (double)(int64_t)v;
    if (v >= 1e6 || (v >= whole && v <= whole)) {
        printf(" %.0f", v);
    } else {
        printf(v < 1 ? " %.4f" : v < 100 ? " %.2f" : " %.1f", v);
    }
}

/* Prints a figure from samples that the bench took itself. floors: the fastest sample of any counts; alloc < 0: `-`. */
BENCH_UNUSED static void bench_print(const char *name, const char *unit, const bench_series *subject,
                                     const bench_series *floors, size_t floor_count, bool higher, double alloc)
{
    double value = bench_best(subject, higher), best = 0, low = bench_percentile(subject, 0.1);
    size_t i;
    bool any = false;
    for (i = 0; i < floor_count; i++) {
        double f = bench_best(&floors[i], higher);
        if (floors[i].n != 0 && (!any || (higher ? f > best : f < best))) {
            best = f;
            any = true;
        }
    }
    printf("bench %s", name);
    bench_put(value);
    printf(" %s floor", unit);
    if (any) {
        bench_put(best);
        printf(" ratio %.3f", best > 0 ? value / best : 0.0);
    } else {
        printf(" - ratio -");
    }
    printf(" alloc");
    if (alloc < 0) {
        printf(" -");
    } else {
        bench_put(alloc);
    }
    printf(" reps %u spread %.2f\n", (unsigned)subject->n, low > 0 ? bench_percentile(subject, 0.9) / low : 1.0);
    fflush(stdout);
    bench.printed++;
}

/* An exact number: bytes, system calls. floor < 0: none. */
BENCH_UNUSED static void bench_exact(const char *name, const char *unit, int64_t value, int64_t floor_value)
{
    if (!bench_wanted(name)) {
        return;
    }
    printf("bench %s %lld %s floor ", name, (long long)value, unit);
    if (floor_value < 0) {
        printf("- ratio -");
    } else {
        printf("%lld ratio %.3f", (long long)floor_value, floor_value > 0 ? (double)value / (double)floor_value : 0.0);
    }
    printf(" alloc - reps 1 spread 1.00\n");
    fflush(stdout);
    bench.printed++;
}

BENCH_UNUSED static void bench_skip(const char *name, const char *unit, const char *reason)
{
    if (!bench_wanted(name)) {
        return;
    }
    printf("bench %s - %s floor - ratio - alloc - reps 0 spread - skipped: %s\n", name, unit, reason);
    fflush(stdout);
    bench.skipped++;
}

/* -- a figure -- */
BENCH_UNUSED static void bench_clear(bench_spec *s, const char *name)
{
    memset(s, 0, sizeof *s);
    s->name = name;
    s->unit = "ns";
    s->scale = 1;
}

BENCH_UNUSED static void bench_subject(bench_spec *s, bench_fn fn, void *user)
{
    s->subject.name = "subject";
    s->subject.fn = fn;
    s->subject.user = user;
}

BENCH_UNUSED static void bench_subject_measure(bench_spec *s, bench_measure measure, void *user)
{
    s->subject.name = "subject";
    s->subject.measure = measure;
    s->subject.user = user;
}

BENCH_UNUSED static bench_side *bench_floor_side(bench_spec *s, const char *name, void *user)
{
    bench_side *f;
    if (s->floors == BENCH_FLOORS_MAX) {
        fprintf(stderr, "bench: %s has too many floors\n", s->name);
        abort();
    }
    f = &s->floor[s->floors++];
    f->name = name;
    f->user = user;
    return f;
}

BENCH_UNUSED static void bench_floor(bench_spec *s, const char *name, bench_fn fn, void *user)
{
    bench_floor_side(s, name, user)->fn = fn;
}

BENCH_UNUSED static void bench_floor_measure(bench_spec *s, const char *name, bench_measure measure, void *user)
{
    bench_floor_side(s, name, user)->measure = measure;
}

BENCH_UNUSED static double bench_once(const bench_spec *s, const bench_side *side)
{
    uint64_t before;
    if (side->measure != NULL) {
        return side->measure(side->user, side->ops);
    }
    before = bench_cpu_ns();
    side->fn(side->user, side->ops);
    return (double)(bench_cpu_ns() - before) * s->scale / (double)side->ops;
}

/* Doubles the operations until a repetition is long enough, which is the warm-up as well. */
BENCH_UNUSED static void bench_calibrate(const bench_spec *s, bench_side *side)
{
    uint64_t want = s->rep_ns != 0 ? s->rep_ns : bench.quick ? 4000000u : 20000000u;
    side->ops = s->ops != 0 ? s->ops : 1u;
    if (s->ops != 0 || side->measure != NULL) {
        (void)bench_once(s, side);
        return;
    }
    for (;;) {
        uint64_t before = bench_cpu_ns(), took;
        side->fn(side->user, side->ops);
        took = bench_cpu_ns() - before;
        if (took >= want / 2u || side->ops >= (UINT64_C(1) << 40)) {
            side->ops = took != 0 ? (uint64_t)((double)side->ops * (double)want / (double)took) + 1u : side->ops;
            return;
        }
        side->ops *= took < want / 20u ? 8u : 2u;
    }
}

BENCH_UNUSED static void bench_run(bench_spec *s)
{
    bench_series subject, floors[BENCH_FLOORS_MAX];
    unsigned reps = s->reps != 0 ? s->reps : bench.quick ? 9u : 21u, r;
    uint64_t bytes = 0, ops = 0;
    size_t i;
    if (!bench_wanted(s->name)) {
        return;
    }
    reps = reps < 9u ? 9u : reps > BENCH_REPS_MAX ? BENCH_REPS_MAX : reps;
    memset(&subject, 0, sizeof subject);
    memset(floors, 0, sizeof floors);
    bench_calibrate(s, &s->subject);
    for (i = 0; i < s->floors; i++) {
        bench_calibrate(s, &s->floor[i]);
    }
    for (r = 0; r < reps; r++) { /* each repetition begins with another side, so none is always behind the same one */
        size_t sides = s->floors + 1u, k;
        for (k = 0; k < sides; k++) {
            size_t side = (k + r) % sides;
            if (side == 0) {
                uint64_t before = cbt_malloc_bytes();
                bench_add(&subject, bench_once(s, &s->subject));
                bytes += cbt_malloc_bytes() - before;
                ops += s->subject.ops;
            } else {
                bench_add(&floors[side - 1u], bench_once(s, &s->floor[side - 1u]));
            }
        }
    }
    for (i = 0; bench.verbose && i < s->floors; i++) {
        printf("# %s floor %s %.4f %s\n", s->name, s->floor[i].name, bench_best(&floors[i], s->higher), s->unit);
    }
    bench_print(s->name, s->unit, &subject, floors, s->floors, s->higher,
                s->no_alloc || !CBT_MALLOC_COUNTED ? -1.0 : (double)bytes / (double)ops);
}

/* -- start and end -- */
BENCH_UNUSED static void bench_getpid(void *user, uint64_t ops)
{
    (void)user;
    while (ops-- != 0) {
        bench_use((uint64_t)syscall(SYS_getpid));
    }
}

BENCH_UNUSED static bool bench_env(const char *name)
{
    const char *v = getenv(name);
    return v != NULL && v[0] != '\0' && strcmp(v, "0") != 0;
}

BENCH_UNUSED static void bench_start(int argc, char **argv)
{
    bench_spec s;
    memset(&bench, 0, sizeof bench);
    bench.argc = argc;
    bench.argv = argv;
    bench.quick = bench_env("BENCH_QUICK");
    bench.verbose = bench_env("BENCH_VERBOSE");
    bench_clear(&s, "machine/getpid");
    bench_subject(&s, bench_getpid, NULL);
    bench_run(&s);
    bench.filter = bench_option_text("--name", NULL);
}

BENCH_UNUSED static int bench_finish(void)
{
    if (bench.filter != NULL && bench.printed + bench.skipped <= 1u) {
        fprintf(stderr, "bench: no figure has \"%s\" in its name\n", bench.filter);
        return 1;
    }
    return fflush(stdout) != 0;
}

/* -- cores and child processes -- */
BENCH_UNUSED static unsigned bench_cores(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (unsigned)n : 1u;
}

/* Binds this thread to a core; core < 0 does nothing, a core that is not there is taken modulo. */
BENCH_UNUSED static bool bench_pin(int core)
{
    unsigned long mask[16]; /* 1,024 cores */
    unsigned c;
    if (core < 0) {
        return true;
    }
    c = (unsigned)core % bench_cores();
    memset(mask, 0, sizeof mask);
    mask[c / (8u * sizeof mask[0]) % 16u] = 1ul << (c % (8u * sizeof mask[0]));
    return syscall(SYS_sched_setaffinity, 0, sizeof mask, mask) == 0;
}

typedef struct bench_child {
    pid_t pid;
    int in, out;    /* write to its standard input; read from its standard output */
    uint64_t cpu_ns; /* its whole CPU time, after bench_child_wait */
} bench_child;

BENCH_UNUSED static bool bench_child_pipes(int to[2], int from[2])
{
    if (pipe(to) != 0) {
        return false;
    }
    if (pipe(from) != 0) {
        close(to[0]);
        close(to[1]);
        return false;
    }
    return true;
}

/* Runs fn(user, in, out) in a child bound to core (-1: any); its return value is the exit code. */
BENCH_UNUSED static bool bench_child_start(bench_child *c, int (*fn)(void *user, int in, int out), void *user, int core)
{
    int to[2], from[2];
    memset(c, 0, sizeof *c);
    fflush(stdout);
    if (!bench_child_pipes(to, from)) {
        return false;
    }
    c->pid = fork();
    if (c->pid == 0) {
        close(to[1]);
        close(from[0]);
        (void)bench_pin(core);
        _exit(fn(user, to[0], from[1]));
    }
    close(to[0]);
    close(from[1]);
    c->in = to[1];
    c->out = from[0];
    if (c->pid < 0) {
        close(c->in);
        close(c->out);
        return false;
    }
    (void)fcntl(c->in, F_SETFD, FD_CLOEXEC);
    (void)fcntl(c->out, F_SETFD, FD_CLOEXEC);
    return true;
}

BENCH_UNUSED static int bench_child_exec(void *user, int in, int out)
{
    char **argv = (char **)user;
    (void)dup2(in, 0);
    (void)dup2(out, 1);
    close(in);
    close(out);
    execvp(argv[0], argv);
    return 127;
}

/* The same with a program; argv ends with NULL. */
BENCH_UNUSED static bool bench_child_spawn(bench_child *c, char **argv, int core)
{
    return bench_child_start(c, bench_child_exec, argv, core);
}

/* One line of the child's output without its end; false at the end of the output. */
BENCH_UNUSED static bool bench_child_line(bench_child *c, char *line, size_t cap)
{
    size_t n = 0;
    char ch;
    while (n + 1u < cap) {
        ssize_t got = read(c->out, &ch, 1);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0 || ch == '\n') {
            line[n] = '\0';
            return got > 0 || n != 0;
        }
        line[n++] = ch;
    }
    line[n] = '\0';
    return true;
}

BENCH_UNUSED static bool bench_child_say(bench_child *c, const char *text)
{
    size_t n = strlen(text);
    return write(c->in, text, n) == (ssize_t)n;
}

/* CPU time, all threads, of a child that runs; take the difference around what is measured. */
BENCH_UNUSED static uint64_t bench_child_cpu_ns(const bench_child *c)
{
    clockid_t id;
    if (clock_getcpuclockid(c->pid, &id) != 0) {
        return 0;
    }
    return bench_clock(id);
}

/* Closes its input and waits; after wait_ns it is ended by SIGKILL. Returns the exit code, or -1 for a signal. */
BENCH_UNUSED static int bench_child_wait(bench_child *c, uint64_t wait_ns)
{
    uint64_t until = bench_wall_ns() + wait_ns;
    struct rusage usage;
    int status = 0;
    pid_t got = 0;
    memset(&usage, 0, sizeof usage);
    close(c->in);
    while (got == 0) {
        struct timespec pause;
        pause.tv_sec = 0;
        pause.tv_nsec = 1000000;
        got = wait4(c->pid, &status, WNOHANG, &usage);
        if (got == 0 && bench_wall_ns() >= until) {
            kill(c->pid, SIGKILL);
            got = wait4(c->pid, &status, 0, &usage);
        } else if (got == 0) {
            nanosleep(&pause, NULL);
        }
    }
    close(c->out);
    c->cpu_ns = ((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) * 1000000000u +
                ((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) * 1000u;
    return got == c->pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* SIGTERM, then as above. */
BENCH_UNUSED static int bench_child_stop(bench_child *c)
{
    kill(c->pid, SIGTERM);
    return bench_child_wait(c, 2000000000u);
}

/* -- counts by valgrind and strace -- */
BENCH_UNUSED static bool bench_has(const char *tool)
{
    char command[128];
    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", tool);
    return system(command) == 0;
}

/* Runs `command` through the shell and returns the number that it prints, or -1. */
BENCH_UNUSED static int64_t bench_number_of(const char *command)
{
    char line[64];
    FILE *f = popen(command, "r");
    int64_t n = -1;
    if (f == NULL) {
        return -1;
    }
    if (fgets(line, sizeof line, f) != NULL) {
        char *end;
        n = (int64_t)strtoll(line, &end, 10);
        n = end == line ? -1 : n;
    }
    return pclose(f) == 0 ? n : -1;
}

/* System calls of `command` (a program and arguments, as for the shell) and all its threads; -1: failed. */
BENCH_UNUSED static int64_t bench_syscalls_of(const char *command)
{
    char text[1024];
    int n = snprintf(text, sizeof text,
                     "t=$(mktemp) && strace -f -c -o \"$t\" %s >/dev/null 2>&1 && awk '$NF == \"total\" { print $4 }' \"$t\"; "
                     "r=$?; rm -f \"$t\"; exit $r", command);
    return n > 0 && (size_t)n < sizeof text ? bench_number_of(text) : -1;
}

/* Instructions of `command` under callgrind, in an empty environment; -1: failed. */
BENCH_UNUSED static int64_t bench_instructions_of(const char *command)
{
    char text[1024];
    int n = snprintf(text, sizeof text,
                     "env -i PATH=\"$PATH\" valgrind --tool=callgrind --callgrind-out-file=/dev/null %s 2>&1 >/dev/null | "
                     "awk '/Collected/ { print $NF; ok = 1 } END { exit !ok }'", command);
    return n > 0 && (size_t)n < sizeof text ? bench_number_of(text) : -1;
}
#endif
