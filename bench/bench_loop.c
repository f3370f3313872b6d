/* bench_loop.c - figures of cb_loop.h. cc -O2 -I. bench/bench_loop.c -o b && ./b [--name part-of-a-name]
 *
 * Floors (the fastest counts):
 *     events     a list of listeners walked by hand; an array of them
 *     timers     hand_timers.h: a wheel of milliseconds, and a binary heap; one clock_gettime a pass, as a loop needs. Restarts
 *                and stops come in groups of 1,000 a pass; the random delay (1 to 30 s) is drawn by both sides
 *     posts      an intrusive list, a ring of function and argument; across threads: a lock-free stack, and a list
 *                under a mutex, each with an eventfd that is written only where the consumer sleeps
 *     ping_pong  two threads on two cores, eventfd and epoll: read after each wake-up, and by edges without reading
 *     passes     clock_gettime; epoll_wait(0) on the same descriptors
 *     tcp_echo   both ends in one epoll: send, wait, receive, send, wait, receive; by levels, and by edges
 *     tcp_echo_100_10k_idle  the floor is the same echo of ours in a loop without the idle connections
 * Libraries of bench/peers/ take part as floors where they are installed. Bytes of an idle connection: what malloc holds
 * more for it, and the stream's own struct. Far ends of idle connections live in a child process.
 */
#include "raw.h"
#include "hand_timers.h"
#include "peers/peer.h"
#define CB_LOOP_IMPLEMENTATION
#include "cb_loop.h"
#include <dlfcn.h>
#include <pthread.h>

static void need(cb_loop_status st, const char *what)
{
    if (st != CB_LOOP_OK) {
        fprintf(stderr, "bench_loop: %s: %s\n", what, cb_loop_status_str(st));
        exit(1);
    }
}

static uint64_t random_state = 1;
static inline uint32_t random_next(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

/* ======================================== peers ========================================= */

static const struct {
    const char *file, *pkg, *library, *figure, *reason;
} peer_files[] = {
    { "peer_uv", "libuv", "libuv", "loop/peer_libuv", "libuv is missing (apt-get install libuv1-dev)" },
    { "peer_ev", "", "libev", "loop/peer_libev", "libev is missing (apt-get install libev-dev)" },
    { "peer_event", "libevent", "libevent", "loop/peer_libevent", "libevent is missing (apt-get install libevent-dev)" },
};
#define PEERS (sizeof peer_files / sizeof peer_files[0])
static const peer_work *peer_works[PEERS];

static void load_peers(void)
{
    size_t i;
    for (i = 0; i < PEERS; i++) {
        char path[96], command[512];
        void *object;
        const peer_work *(*table)(void);
        snprintf(path, sizeof path, "/tmp/cb_%s.%ld.so", peer_files[i].file, (long)getpid());
        snprintf(command, sizeof command,
                 "exec >/dev/null 2>&1; [ -f bench/peers/%s.c ] || exit 3; ${CC:-cc} -O2 -shared -fPIC -Ibench -o %s bench/peers/%s.c "
                 "%s%s%s", peer_files[i].file, path, peer_files[i].file,
                 peer_files[i].pkg[0] != '\0' ? "$(pkg-config --cflags --libs " : "-lev",
                 peer_files[i].pkg, peer_files[i].pkg[0] != '\0' ? ")" : "");
        if (system(command) != 0) {
            bench_skip(peer_files[i].figure, "-", peer_files[i].reason);
            continue;
        }
        object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        (void)unlink(path);
        if (object == NULL) {
            bench_skip(peer_files[i].figure, "-", peer_files[i].reason);
            continue;
        }
        *(void **)(void *)&table = dlsym(object, "peer_table");
        peer_works[i] = table != NULL ? table() : NULL;
    }
}

static void add_peers(bench_spec *s)
{
    size_t i;
    const peer_work *w;
    for (i = 0; i < PEERS; i++) {
        for (w = peer_works[i]; w != NULL && w->figure != NULL; w++) {
            if (strcmp(w->figure, s->name) == 0) {
                bench_floor(s, peer_files[i].library, w->fn, NULL);
            }
        }
    }
}

static void run_figure(const char *name, bench_fn subject, const char *name_a, bench_fn a, const char *name_b, bench_fn b)
{
    bench_spec s;
    bench_clear(&s, name);
    bench_subject(&s, subject, NULL);
    bench_floor(&s, name_a, a, NULL);
    if (b != NULL) {
        bench_floor(&s, name_b, b, NULL);
    }
    add_peers(&s);
    bench_run(&s);
}

/* ======================================== events ======================================== */

static uint64_t heard;
static void on_event(void *user, void *payload)
{
    (void)user;
    heard += *(const uint64_t *)payload;
}

static cb_loop_event event;
static cb_loop_event_listener listener_of_event;
static void event_ours(void *user, uint64_t ops)
{
    uint64_t one = 1, before = heard, i;
    (void)user;
    for (i = 0; i < ops; i++) {
        cb_loop_event_emit(&event, &one);
    }
    if (heard - before != ops) {
        abort();
    }
}

typedef struct hand_listener {
    struct hand_listener *next;
    void (*fn)(void *user, void *payload);
    void *user;
} hand_listener;
static hand_listener hand_listeners[1], *hand_first;
static size_t hand_listener_count;

static void event_list(void *user, uint64_t ops)
{
    uint64_t one = 1, i;
    (void)user;
    for (i = 0; i < ops; i++) {
        hand_listener *l;
        for (l = hand_first; l != NULL; l = l->next) {
            l->fn(l->user, &one);
        }
    }
}

static void event_array(void *user, uint64_t ops)
{
    uint64_t one = 1, i, k;
    (void)user;
    for (i = 0; i < ops; i++) {
        for (k = 0; k < hand_listener_count; k++) {
            hand_listeners[k].fn(hand_listeners[k].user, &one);
        }
    }
}

static void run_events(void)
{
    cb_loop_event_init(&event);
    cb_loop_event_listener_init(&listener_of_event, on_event, NULL);
    cb_loop_event_listen(&event, &listener_of_event, 0);
    hand_listeners[0].fn = on_event;
    hand_first = hand_listeners;
    hand_listener_count = 1;
    bench_use_ptr(hand_listeners);
    run_figure("loop/event_dispatch", event_ours, "list", event_list, "array", event_array);
}

/* ======================================== timers ======================================== */

#define TIMERS_MAX 500000u
#define GROUP 1000u

static cb_loop timer_loop;
static cb_loop_timer *timers;
static hand_timer *wheel_timers, *heap_timers;
static hand_wheel wheel;
static hand_heap heap;
static uint64_t fired;
static size_t timers_live; /* how many of each kind are running */

static void on_timer(void *user, cb_loop_timer *timer, uint64_t now_ns)
{
    (void)user;
    (void)timer;
    (void)now_ns;
    fired++;
}

static void on_hand_timer(void *user, hand_timer *timer)
{
    (void)user;
    (void)timer;
    fired++;
}

static uint64_t now_ms(void)
{
    return bench_wall_ns() / 1000000u;
}

static uint32_t long_delay_ms(void)
{
    return 1000u + random_next() % 29000u;
}

static void fire_one_ours(void *user, uint64_t ops)
{
    (void)user;
    while (ops-- != 0) {
        uint64_t before = fired;
        need(cb_loop_timer_start(&timer_loop, &timers[0], 0), "start");
        while (fired == before) {
            (void)cb_loop_step(&timer_loop, 0);
        }
    }
}

static void fire_one_wheel(void *user, uint64_t ops)
{
    (void)user;
    while (ops-- != 0) {
        uint64_t before = fired;
        hand_wheel_start(&wheel, &wheel_timers[0], 0, 0);
        while (fired == before) {
            hand_wheel_run(&wheel, now_ms());
        }
    }
}

static void fire_one_heap(void *user, uint64_t ops)
{
    (void)user;
    while (ops-- != 0) {
        uint64_t before = fired;
        hand_heap_start(&heap, &heap_timers[0], 0, 0);
        while (fired == before) {
            hand_heap_run(&heap, now_ms());
        }
    }
}

static void fire_ours(void *user, uint64_t ops)
{
    (void)user;
    while (ops != 0) {
        uint64_t before = fired;
        uint32_t n = ops < GROUP ? (uint32_t)ops : GROUP, i;
        for (i = 0; i < n; i++) {
            need(cb_loop_timer_start(&timer_loop, &timers[i], 0), "start");
        }
        while (fired - before != n) {
            (void)cb_loop_step(&timer_loop, 0);
        }
        ops -= n;
    }
}

static void fire_wheel(void *user, uint64_t ops)
{
    (void)user;
    while (ops != 0) {
        uint64_t before = fired;
        uint32_t n = ops < GROUP ? (uint32_t)ops : GROUP, i;
        for (i = 0; i < n; i++) {
            hand_wheel_start(&wheel, &wheel_timers[i], 0, 0);
        }
        while (fired - before != n) {
            hand_wheel_run(&wheel, now_ms());
        }
        ops -= n;
    }
}

static void fire_heap(void *user, uint64_t ops)
{
    (void)user;
    while (ops != 0) {
        uint64_t before = fired;
        uint32_t n = ops < GROUP ? (uint32_t)ops : GROUP, i;
        for (i = 0; i < n; i++) {
            hand_heap_start(&heap, &heap_timers[i], 0, 0);
        }
        while (fired - before != n) {
            hand_heap_run(&heap, now_ms());
        }
        ops -= n;
    }
}

/* Brings the number of running timers of all kinds to n; timer 0 .. GROUP - 1 of the others' use are not among them. */
static void set_live(size_t n)
{
    size_t i;
    for (; timers_live < n; timers_live++) {
        i = timers_live + GROUP;
        need(cb_loop_timer_start(&timer_loop, &timers[i], long_delay_ms() * UINT64_C(1000000)), "start");
        hand_wheel_start(&wheel, &wheel_timers[i], long_delay_ms(), 0);
        hand_heap_start(&heap, &heap_timers[i], long_delay_ms(), 0);
    }
    for (; timers_live > n; timers_live--) {
        i = timers_live - 1u + GROUP;
        cb_loop_timer_stop(&timer_loop, &timers[i]);
        hand_wheel_stop(&wheel_timers[i]);
        hand_heap_stop(&heap, &heap_timers[i]);
    }
    (void)cb_loop_step(&timer_loop, 0);
}

static void restart_ours(void *user, uint64_t ops)
{
    uint32_t n = (uint32_t)timers_live;
    uint64_t i;
    (void)user;
    for (i = 1; i <= ops; i++) {
        uint32_t k = (uint32_t)((uint64_t)random_next() * n >> 32);
        need(cb_loop_timer_start(&timer_loop, &timers[GROUP + k], long_delay_ms() * UINT64_C(1000000)), "start");
        if (i % GROUP == 0) {
            (void)cb_loop_step(&timer_loop, 0);
        }
    }
}

static void restart_wheel(void *user, uint64_t ops)
{
    uint32_t n = (uint32_t)timers_live;
    uint64_t i;
    (void)user;
    for (i = 1; i <= ops; i++) {
        uint32_t k = (uint32_t)((uint64_t)random_next() * n >> 32);
        hand_wheel_start(&wheel, &wheel_timers[GROUP + k], long_delay_ms(), 0);
        if (i % GROUP == 0) {
            hand_wheel_run(&wheel, now_ms());
        }
    }
}

static void restart_heap(void *user, uint64_t ops)
{
    uint32_t n = (uint32_t)timers_live;
    uint64_t i;
    (void)user;
    for (i = 1; i <= ops; i++) {
        uint32_t k = (uint32_t)((uint64_t)random_next() * n >> 32);
        hand_heap_start(&heap, &heap_timers[GROUP + k], long_delay_ms(), 0);
        if (i % GROUP == 0) {
            hand_heap_run(&heap, now_ms());
        }
    }
}

static void stop_ours(void *user, uint64_t ops)
{
    uint64_t i;
    (void)user;
    for (i = 1; i <= ops; i++) {
        cb_loop_timer *t = &timers[i % GROUP];
        need(cb_loop_timer_start(&timer_loop, t, 5000000000u), "start");
        bench_use_ptr(t);
        cb_loop_timer_stop(&timer_loop, t);
        if (i % GROUP == 0) {
            (void)cb_loop_step(&timer_loop, 0);
        }
    }
}

static void stop_wheel(void *user, uint64_t ops)
{
    uint64_t i;
    (void)user;
    for (i = 1; i <= ops; i++) {
        hand_timer *t = &wheel_timers[i % GROUP];
        hand_wheel_start(&wheel, t, 5000, 0);
        bench_use_ptr(t);
        hand_wheel_stop(t);
        if (i % GROUP == 0) {
            hand_wheel_run(&wheel, now_ms());
        }
    }
}

static void stop_heap(void *user, uint64_t ops)
{
    uint64_t i;
    (void)user;
    for (i = 1; i <= ops; i++) {
        hand_timer *t = &heap_timers[i % GROUP];
        hand_heap_start(&heap, t, 5000, 0);
        bench_use_ptr(t);
        hand_heap_stop(&heap, t);
        if (i % GROUP == 0) {
            hand_heap_run(&heap, now_ms());
        }
    }
}

/* Intervals of 20 ms on a clock that the bench turns by 1 ms a pass, so no time is slept away. */
#define INTERVALS 30000u
static uint64_t turned_ms = 1000;
static cb_loop interval_loop;
static cb_loop_timer *interval_timers;
static hand_timer *interval_wheel_timers, *interval_heap_timers;
static hand_wheel interval_wheel;
static hand_heap interval_heap;
static uint64_t interval_now[3]; /* each side's own, milliseconds */

static uint64_t turned_clock(void *user)
{
    (void)user;
    return interval_now[0] * 1000000u;
}

static void interval_ours(void *user, uint64_t ops)
{
    uint64_t before = fired;
    (void)user;
    while (fired - before < ops) {
        interval_now[0]++;
        (void)cb_loop_step(&interval_loop, 0);
    }
}

static void interval_by_wheel(void *user, uint64_t ops)
{
    uint64_t before = fired;
    (void)user;
    while (fired - before < ops) {
        hand_wheel_run(&interval_wheel, ++interval_now[1]);
    }
}

static void interval_by_heap(void *user, uint64_t ops)
{
    uint64_t before = fired;
    (void)user;
    while (fired - before < ops) {
        hand_heap_run(&interval_heap, ++interval_now[2]);
    }
}

static void run_intervals(void)
{
    cb_loop_desc d;
    size_t i;
    if (!bench_wanted("loop/timer_interval_30k")) {
        return;
    }
    interval_now[0] = interval_now[1] = interval_now[2] = turned_ms;
    memset(&d, 0, sizeof d);
    d.clock = turned_clock;
    need(cb_loop_init(&interval_loop, &d), "init");
    interval_timers = (cb_loop_timer *)calloc(INTERVALS, sizeof *interval_timers);
    interval_wheel_timers = (hand_timer *)calloc(INTERVALS, sizeof *interval_wheel_timers);
    interval_heap_timers = (hand_timer *)calloc(INTERVALS, sizeof *interval_heap_timers);
    raw_need(interval_timers != NULL && interval_wheel_timers != NULL && interval_heap_timers != NULL, "calloc");
    hand_wheel_init(&interval_wheel, turned_ms + 1u);
    interval_heap.now = turned_ms;
    (void)cb_loop_step(&interval_loop, 0);
    for (i = 0; i < INTERVALS; i++) { /* each begins at another time, to the microsecond with ours */
        uint32_t at = random_next() % 20000u;
        cb_loop_timer_init(&interval_timers[i], on_timer, NULL);
        need(cb_loop_timer_start_every(&interval_loop, &interval_timers[i], 1000000u + at * UINT64_C(1000), 20000000u), "start");
        interval_wheel_timers[i].fn = interval_heap_timers[i].fn = on_hand_timer;
        hand_wheel_start(&interval_wheel, &interval_wheel_timers[i], 1u + at / 1000u, 20);
        hand_heap_start(&interval_heap, &interval_heap_timers[i], 1u + at / 1000u, 20);
    }
    {
        bench_spec s;
        bench_clear(&s, "loop/timer_interval_30k");
        s.ops = bench.quick ? 60000u : 300000u; /* whole rounds */
        bench_subject(&s, interval_ours, NULL);
        bench_floor(&s, "wheel", interval_by_wheel, NULL);
        bench_floor(&s, "heap", interval_by_heap, NULL);
        bench_run(&s);
    }
    cb_loop_deinit(&interval_loop);
    free(interval_timers);
    free(interval_wheel_timers);
    free(interval_heap_timers);
    free(interval_heap.item);
}

static void run_timers(void)
{
    size_t i, all = TIMERS_MAX + GROUP;
    timers = (cb_loop_timer *)calloc(all, sizeof *timers);
    wheel_timers = (hand_timer *)calloc(all, sizeof *wheel_timers);
    heap_timers = (hand_timer *)calloc(all, sizeof *heap_timers);
    raw_need(timers != NULL && wheel_timers != NULL && heap_timers != NULL, "calloc");
    need(cb_loop_init(&timer_loop, NULL), "init");
    hand_wheel_init(&wheel, now_ms() + 1u);
    heap.now = now_ms();
    for (i = 0; i < all; i++) {
        cb_loop_timer_init(&timers[i], on_timer, NULL);
        wheel_timers[i].fn = heap_timers[i].fn = on_hand_timer;
    }
    run_figure("loop/timer_arm_fire_one", fire_one_ours, "wheel", fire_one_wheel, "heap", fire_one_heap);
    run_figure("loop/timer_arm_fire", fire_ours, "wheel", fire_wheel, "heap", fire_heap);
    set_live(10000);
    run_figure("loop/timer_restart_10k", restart_ours, "wheel", restart_wheel, "heap", restart_heap);
    run_figure("loop/timer_arm_stop", stop_ours, "wheel", stop_wheel, "heap", stop_heap);
    if (bench_wanted("loop/timer_restart_500k")) {
        set_live(TIMERS_MAX);
        run_figure("loop/timer_restart_500k", restart_ours, "wheel", restart_wheel, "heap", restart_heap);
    }
    cb_loop_deinit(&timer_loop);
    free(timers);
    free(wheel_timers);
    free(heap_timers);
    free(heap.item);
    run_intervals();
}

/* ========================================= posts ======================================== */

static uint64_t ran;
static void on_task(void *user, cb_loop_task *task, cb_loop_status status)
{
    (void)user;
    (void)task;
    (void)status;
    ran++;
}

typedef struct hand_task {
    struct hand_task *next;
    void (*fn)(void *user, struct hand_task *task);
    void *user;
} hand_task;

static void on_hand_task(void *user, hand_task *task)
{
    (void)user;
    (void)task;
    ran++;
}

static void on_ring(void *user)
{
    (void)user;
    ran++;
}

static cb_loop post_loop;
static cb_loop_task tasks[GROUP];
static hand_task hand_tasks[GROUP], *hand_task_first, **hand_task_last;
static struct {
    void (*fn)(void *user);
    void *user;
} ring[1024];
static uint32_t ring_head, ring_tail;

static void post_ours(void *user, uint64_t ops)
{
    (void)user;
    while (ops != 0) {
        uint64_t before = ran;
        uint32_t n = ops < GROUP ? (uint32_t)ops : GROUP, i;
        for (i = 0; i < n; i++) {
            need(cb_loop_post(&post_loop, &tasks[i]), "post");
        }
        (void)cb_loop_step(&post_loop, 0);
        if (ran - before != n) {
            abort();
        }
        ops -= n;
    }
}

static void post_list(void *user, uint64_t ops)
{
    (void)user;
    while (ops != 0) {
        uint32_t n = ops < GROUP ? (uint32_t)ops : GROUP, i;
        hand_task *t;
        for (i = 0; i < n; i++) {
            hand_tasks[i].next = NULL;
            *hand_task_last = &hand_tasks[i];
            hand_task_last = &hand_tasks[i].next;
        }
        bench_use_ptr(&hand_task_first);
        t = hand_task_first;
        hand_task_first = NULL;
        hand_task_last = &hand_task_first;
        while (t != NULL) {
            hand_task *next = t->next;
            t->fn(t->user, t);
            t = next;
        }
        ops -= n;
    }
}

static void post_ring(void *user, uint64_t ops)
{
    (void)user;
    while (ops != 0) {
        uint32_t n = ops < GROUP ? (uint32_t)ops : GROUP, i;
        for (i = 0; i < n; i++) {
            if (ring_tail - ring_head == 1024u) {
                abort();
            }
            ring[ring_tail & 1023u].fn = on_ring;
            ring[ring_tail & 1023u].user = NULL;
            ring_tail++;
        }
        bench_use_ptr(ring);
        for (; ring_head != ring_tail; ring_head++) {
            ring[ring_head & 1023u].fn(ring[ring_head & 1023u].user);
        }
        ops -= n;
    }
}

/* -- from another thread, as fast as it can -- */
#define FLOOD 100000u
static cb_loop_task *flood_tasks;
static hand_task *flood_hand_tasks;
static hand_task *stack_head;
static uint32_t stack_asleep;
static int flood_epoll, flood_event;
static pthread_mutex_t flood_mutex = PTHREAD_MUTEX_INITIALIZER;
static hand_task *locked_first, **locked_last;
static bool locked_asleep;

static void event_write(int fd)
{
    uint64_t one = 1;
    raw_need(write(fd, &one, sizeof one) == (ssize_t)sizeof one, "eventfd");
}

static void *flood_ours_thread(void *user)
{
    uint64_t n = *(const uint64_t *)user, i;
    for (i = 0; i < n; i++) {
        need(cb_loop_post(&post_loop, &flood_tasks[i]), "post");
    }
    return NULL;
}

static void *flood_stack_thread(void *user)
{
    uint64_t n = *(const uint64_t *)user, i;
    for (i = 0; i < n; i++) {
        hand_task *t = &flood_hand_tasks[i], *head = __atomic_load_n(&stack_head, __ATOMIC_RELAXED);
        do {
            t->next = head;
        } while (!__atomic_compare_exchange_n(&stack_head, &head, t, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
        if (head == NULL && __atomic_load_n(&stack_asleep, __ATOMIC_SEQ_CST) != 0) {
            event_write(flood_event);
        }
    }
    return NULL;
}

static void *flood_locked_thread(void *user)
{
    uint64_t n = *(const uint64_t *)user, i;
    for (i = 0; i < n; i++) {
        hand_task *t = &flood_hand_tasks[i];
        bool wake;
        t->next = NULL;
        pthread_mutex_lock(&flood_mutex);
        *locked_last = t;
        locked_last = &t->next;
        wake = locked_asleep;
        locked_asleep = false;
        pthread_mutex_unlock(&flood_mutex);
        if (wake) {
            event_write(flood_event);
        }
    }
    return NULL;
}

static void flood_ours(void *user, uint64_t ops)
{
    (void)user;
    while (ops != 0) {
        uint64_t n = ops < FLOOD ? ops : FLOOD, before = ran;
        pthread_t thread;
        raw_need(pthread_create(&thread, NULL, flood_ours_thread, &n) == 0, "pthread_create");
        while (ran - before != n) {
            (void)cb_loop_step(&post_loop, 1000000000u);
        }
        pthread_join(thread, NULL);
        ops -= n;
    }
}

static void flood_stack_wait(void)
{
    struct epoll_event ev;
    uint64_t count;
    __atomic_store_n(&stack_asleep, 1u, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&stack_head, __ATOMIC_SEQ_CST) == NULL && epoll_wait(flood_epoll, &ev, 1, 1000) > 0) {
        (void)!read(flood_event, &count, sizeof count);
    }
    __atomic_store_n(&stack_asleep, 0u, __ATOMIC_RELAXED);
}

static void flood_stack(void *user, uint64_t ops)
{
    (void)user;
    while (ops != 0) {
        uint64_t n = ops < FLOOD ? ops : FLOOD, before = ran;
        pthread_t thread;
        raw_need(pthread_create(&thread, NULL, flood_stack_thread, &n) == 0, "pthread_create");
        while (ran - before != n) {
            hand_task *t = __atomic_exchange_n(&stack_head, NULL, __ATOMIC_ACQ_REL), *list = NULL;
            while (t != NULL) {
                hand_task *next = t->next;
                t->next = list;
                list = t;
                t = next;
            }
            if (list == NULL) {
                flood_stack_wait();
            }
            while (list != NULL) {
                hand_task *next = list->next;
                list->fn(list->user, list);
                list = next;
            }
        }
        pthread_join(thread, NULL);
        ops -= n;
    }
}

static void flood_locked(void *user, uint64_t ops)
{
    (void)user;
    while (ops != 0) {
        uint64_t n = ops < FLOOD ? ops : FLOOD, before = ran, count;
        pthread_t thread;
        raw_need(pthread_create(&thread, NULL, flood_locked_thread, &n) == 0, "pthread_create");
        while (ran - before != n) {
            struct epoll_event ev;
            hand_task *t;
            pthread_mutex_lock(&flood_mutex);
            t = locked_first;
            locked_first = NULL;
            locked_last = &locked_first;
            locked_asleep = t == NULL;
            pthread_mutex_unlock(&flood_mutex);
            if (t == NULL && epoll_wait(flood_epoll, &ev, 1, 1000) > 0) {
                (void)!read(flood_event, &count, sizeof count);
            }
            while (t != NULL) {
                hand_task *next = t->next;
                t->fn(t->user, t);
                t = next;
            }
        }
        pthread_join(thread, NULL);
        ops -= n;
    }
}

static void run_posts(void)
{
    size_t i;
    need(cb_loop_init(&post_loop, NULL), "init");
    (void)cb_loop_step(&post_loop, 0);
    for (i = 0; i < GROUP; i++) {
        cb_loop_task_init(&tasks[i], on_task, NULL);
        hand_tasks[i].fn = on_hand_task;
    }
    hand_task_last = &hand_task_first;
    run_figure("loop/post_same_thread", post_ours, "list", post_list, "ring", post_ring);
    if (bench_wanted("loop/post_cross_thread")) {
        bench_spec s;
        flood_tasks = (cb_loop_task *)calloc(FLOOD, sizeof *flood_tasks);
        flood_hand_tasks = (hand_task *)calloc(FLOOD, sizeof *flood_hand_tasks);
        raw_need(flood_tasks != NULL && flood_hand_tasks != NULL, "calloc");
        for (i = 0; i < FLOOD; i++) {
            cb_loop_task_init(&flood_tasks[i], on_task, NULL);
            flood_hand_tasks[i].fn = on_hand_task;
        }
        locked_last = &locked_first;
        flood_epoll = epoll_create1(EPOLL_CLOEXEC);
        flood_event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        raw_watch(flood_epoll, flood_event, NULL);
        bench_clear(&s, "loop/post_cross_thread");
        s.ops = bench.quick ? FLOOD : 4u * FLOOD;
        s.reps = 31; /* cheap, and uneven: how the two threads meet differs each time */
        bench_subject(&s, flood_ours, NULL);
        bench_floor(&s, "lock-free stack", flood_stack, NULL);
        bench_floor(&s, "list and mutex", flood_locked, NULL);
        s.no_alloc = true; /* making the thread takes its stack; the loop's part is asserted in tests/test_loop.c */
        bench_run(&s);
        free(flood_tasks);
        free(flood_hand_tasks);
        close(flood_epoll);
        close(flood_event);
    }
    cb_loop_deinit(&post_loop);
}

/* -- there and back between two threads that sleep -- */
static cb_loop ping_loop, pong_loop;
static cb_loop_task ping_task, pong_task;
static uint64_t pings_left;

static void on_pong(void *user, cb_loop_task *task, cb_loop_status status) /* in the other thread */
{
    (void)user;
    (void)task;
    if (status == CB_LOOP_OK) {
        need(cb_loop_post(&ping_loop, &ping_task), "post");
    }
}

static void on_ping(void *user, cb_loop_task *task, cb_loop_status status)
{
    (void)user;
    (void)task;
    if (status == CB_LOOP_OK && --pings_left != 0) {
        need(cb_loop_post(&pong_loop, &pong_task), "post");
    }
}

static void *pong_thread(void *user)
{
    (void)user;
    (void)bench_pin(1);
    need(cb_loop_run(&pong_loop), "run");
    return NULL;
}

static double ping_ours(void *user, uint64_t ops)
{
    uint64_t before = bench_wall_ns();
    (void)user;
    pings_left = ops;
    need(cb_loop_post(&pong_loop, &pong_task), "post");
    while (pings_left != 0) {
        (void)cb_loop_step(&ping_loop, 1000000000u);
    }
    return (double)(bench_wall_ns() - before) * 0.001 / (double)ops;
}

typedef struct hand_pong {
    int epoll[2], event[2];
    bool edges;
    uint32_t end;
} hand_pong;
static hand_pong by_level, by_edge;

static void hand_ping_wait(hand_pong *p, int side)
{
    struct epoll_event ev;
    uint64_t count;
    while (epoll_wait(p->epoll[side], &ev, 1, -1) < 1) {
    }
    if (!p->edges) {
        (void)!read(p->event[side], &count, sizeof count);
    }
}

static void *hand_pong_thread(void *user)
{
    hand_pong *p = (hand_pong *)user;
    (void)bench_pin(1);
    for (;;) {
        hand_ping_wait(p, 1);
        if (__atomic_load_n(&p->end, __ATOMIC_ACQUIRE) != 0) {
            return NULL;
        }
        event_write(p->event[0]);
    }
}

static double ping_hand(void *user, uint64_t ops)
{
    hand_pong *p = (hand_pong *)user;
    uint64_t before = bench_wall_ns(), i;
    for (i = 0; i < ops; i++) {
        event_write(p->event[1]);
        hand_ping_wait(p, 0);
    }
    return (double)(bench_wall_ns() - before) * 0.001 / (double)ops;
}

static void hand_pong_open(hand_pong *p, bool edges, pthread_t *thread)
{
    int i;
    p->edges = edges;
    for (i = 0; i < 2; i++) {
        struct epoll_event ev;
        memset(&ev, 0, sizeof ev);
        ev.events = edges ? EPOLLIN | EPOLLET : EPOLLIN;
        p->epoll[i] = epoll_create1(EPOLL_CLOEXEC);
        p->event[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        raw_need(epoll_ctl(p->epoll[i], EPOLL_CTL_ADD, p->event[i], &ev) == 0, "epoll_ctl");
    }
    raw_need(pthread_create(thread, NULL, hand_pong_thread, p) == 0, "pthread_create");
}

static void hand_pong_close(hand_pong *p, pthread_t thread)
{
    __atomic_store_n(&p->end, 1u, __ATOMIC_RELEASE);
    event_write(p->event[1]);
    pthread_join(thread, NULL);
}

/* Binds this thread to core 0 for good, so it comes last. */
static void run_ping_pong(void)
{
    bench_spec s;
    pthread_t thread[3];
    if (!bench_wanted("loop/ping_pong")) {
        return;
    }
    (void)bench_pin(0);
    need(cb_loop_init(&ping_loop, NULL), "init");
    need(cb_loop_init(&pong_loop, NULL), "init");
    cb_loop_task_init(&ping_task, on_ping, NULL);
    cb_loop_task_init(&pong_task, on_pong, NULL);
    (void)cb_loop_step(&ping_loop, 0);
    raw_need(pthread_create(&thread[0], NULL, pong_thread, NULL) == 0, "pthread_create");
    hand_pong_open(&by_level, false, &thread[1]);
    hand_pong_open(&by_edge, true, &thread[2]);
    bench_clear(&s, "loop/ping_pong");
    s.unit = "us_wall";
    s.ops = bench.quick ? 500u : 4000u;
    s.reps = 21;
    bench_subject_measure(&s, ping_ours, NULL);
    bench_floor_measure(&s, "eventfd, levels", ping_hand, &by_level);
    bench_floor_measure(&s, "eventfd, edges", ping_hand, &by_edge);
    bench_run(&s);
    cb_loop_stop(&pong_loop);
    pthread_join(thread[0], NULL);
    hand_pong_close(&by_level, thread[1]);
    hand_pong_close(&by_edge, thread[2]);
    cb_loop_deinit(&ping_loop);
    cb_loop_deinit(&pong_loop);
}

/* ======================================== streams ======================================= */

/* An echo in one loop: a client of it and the server's side of the connection. */
typedef struct echo {
    cb_loop loop;
    cb_loop_listener listener;
    cb_loop_stream client, *streams;
    size_t used, capacity, closed;
    uint64_t left;
    uint16_t port;
} echo;
static echo plain, crowd;
static const uint8_t message[100];

static size_t on_server_data(void *user, cb_loop_stream *s, cb_span in)
{
    (void)user;
    return cb_loop_stream_write(s, in.data, in.size);
}

static cb_loop_stream *on_echo_accept(void *user, cb_loop_listener *l, const cb_loop_address *from, void **stream_user)
{
    echo *e = (echo *)user;
    (void)l;
    (void)from;
    (void)stream_user;
    return e->used < e->capacity ? &e->streams[e->used++] : NULL;
}

static void on_server_closed(void *user, cb_loop_stream *s, cb_loop_status why)
{
    (void)s;
    (void)why;
    ((echo *)user)->closed++;
}

static size_t on_client_data(void *user, cb_loop_stream *s, cb_span in)
{
    echo *e = (echo *)user;
    if (in.size < sizeof message) {
        return 0; /* the rest comes */
    }
    if (--e->left != 0 && cb_loop_stream_write(s, message, sizeof message) != sizeof message) {
        abort();
    }
    return sizeof message;
}

static void echo_open(echo *e, size_t capacity)
{
    cb_loop_listener_desc d;
    cb_loop_address at;
    e->streams = (cb_loop_stream *)calloc(capacity, sizeof *e->streams);
    raw_need(e->streams != NULL, "calloc");
    e->capacity = capacity;
    need(cb_loop_init(&e->loop, NULL), "init");
    memset(&d, 0, sizeof d);
    d.url = "tcp://127.0.0.1:0";
    d.on_accept = on_echo_accept;
    d.user = e;
    d.stream.user = e;
    d.stream.on_data = on_server_data;
    d.stream.on_closed = on_server_closed;
    need(cb_loop_listen(&e->loop, &e->listener, &d), "listen");
    need(cb_loop_listener_address(&e->listener, &at), "address");
    e->port = cb_loop_address_port(&at);
}

static void echo_connect(echo *e)
{
    cb_loop_connect_desc d;
    char url[64];
    size_t before = e->used;
    memset(&d, 0, sizeof d);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%u", (unsigned)e->port);
    d.url = url;
    d.stream.on_data = on_client_data;
    d.stream.user = e;
    need(cb_loop_connect(&e->loop, &e->client, &d), "connect");
    while (e->used == before) {
        (void)cb_loop_step(&e->loop, CB_LOOP_FOREVER);
    }
}

static void echo_close(echo *e)
{
    cb_loop_deinit(&e->loop);
    free(e->streams);
}

static void echo_ours(void *user, uint64_t ops)
{
    echo *e = (echo *)user;
    e->left = ops;
    if (cb_loop_stream_write(&e->client, message, sizeof message) != sizeof message) {
        abort();
    }
    while (e->left != 0) {
        (void)cb_loop_step(&e->loop, CB_LOOP_FOREVER);
    }
}

/* -- the floor: one epoll, both sockets -- */
typedef struct raw_echo {
    int epoll, fd[2]; /* client, server */
    uint8_t buffer[RAW_BUFFER];
    struct epoll_event events[64];
} raw_echo;
static raw_echo echo_levels, echo_edges;

static void raw_echo_open(raw_echo *e, bool edges)
{
    uint16_t port;
    int listener = raw_listen(&port), i;
    e->fd[0] = raw_connect(port);
    e->fd[1] = accept(listener, NULL, NULL);
    raw_need(e->fd[1] >= 0, "accept");
    raw_nonblocking(e->fd[1]);
    close(listener);
    e->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (i = 0; i < 2; i++) {
        struct epoll_event ev;
        memset(&ev, 0, sizeof ev);
        ev.events = edges ? EPOLLIN | EPOLLET : EPOLLIN;
        ev.data.u32 = (uint32_t)i;
        raw_need(epoll_ctl(e->epoll, EPOLL_CTL_ADD, e->fd[i], &ev) == 0, "epoll_ctl");
    }
}

static void raw_echo_close(raw_echo *e)
{
    close(e->fd[0]);
    close(e->fd[1]);
    close(e->epoll);
}

static void echo_raw(void *user, uint64_t ops)
{
    raw_echo *e = (raw_echo *)user;
    size_t got = 0;
    raw_need(send(e->fd[0], message, sizeof message, MSG_NOSIGNAL) == (ssize_t)sizeof message, "send");
    while (ops != 0) {
        int n = epoll_wait(e->epoll, e->events, 64, -1), i;
        for (i = 0; i < n; i++) {
            uint32_t side = e->events[i].data.u32;
            ssize_t size = recv(e->fd[side], e->buffer, sizeof e->buffer, 0);
            raw_need(size > 0, "recv");
            if (side == 1u) {
                raw_need(send(e->fd[1], e->buffer, (size_t)size, MSG_NOSIGNAL) == size, "send");
                continue;
            }
            got += (size_t)size;
            for (; got >= sizeof message; got -= sizeof message) {
                if (--ops != 0) {
                    raw_need(send(e->fd[0], message, sizeof message, MSG_NOSIGNAL) == (ssize_t)sizeof message, "send");
                }
            }
        }
    }
}

/* -- passes that do nothing -- */
static void pass_empty(void *user, uint64_t ops)
{
    cb_loop *loop = (cb_loop *)user;
    while (ops-- != 0) {
        (void)cb_loop_step(loop, 0);
    }
}

static void pass_clock(void *user, uint64_t ops)
{
    (void)user;
    while (ops-- != 0) {
        bench_use(bench_wall_ns());
    }
}

static void pass_epoll(void *user, uint64_t ops)
{
    raw_echo *e = (raw_echo *)user;
    while (ops-- != 0) {
        bench_use((uint64_t)epoll_wait(e->epoll, e->events, 64, 0));
    }
}

static void run_passes(void)
{
    bench_spec s;
    cb_loop loop;
    need(cb_loop_init(&loop, NULL), "init");
    bench_clear(&s, "loop/pass_empty");
    bench_subject(&s, pass_empty, &loop);
    bench_floor(&s, "clock_gettime", pass_clock, NULL);
    bench_run(&s);
    cb_loop_deinit(&loop);
    bench_clear(&s, "loop/pass_idle_handles");
    bench_subject(&s, pass_empty, &plain.loop);
    bench_floor(&s, "epoll_wait(0)", pass_epoll, &echo_levels);
    add_peers(&s);
    bench_run(&s);
}

/* -- the crowd: idle connections whose far ends are in a child process -- */
typedef struct far_plan {
    uint16_t port;
    size_t count;
} far_plan;

static bool far_all(int fd, uint8_t *buffer, size_t size, bool out)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = out ? send(fd, buffer, size - done, MSG_NOSIGNAL) : recv(fd, buffer, size - done, 0);
        if (n <= 0) {
            return false;
        }
        done += (size_t)n;
    }
    return true;
}

/* Connects; at each byte of its input sends 16 KiB on every connection and reads them back; leaves at the end of it. */
static int far_ends(void *user, int in, int out)
{
    const far_plan *plan = (const far_plan *)user;
    static uint8_t buffer[16384];
    int *fd = (int *)calloc(plan->count, sizeof *fd);
    size_t i;
    char c;
    (void)raw_descriptors();
    raw_need(fd != NULL, "calloc");
    for (i = 0; i < plan->count; i++) {
        fd[i] = raw_connect_blocking(plan->port);
    }
    raw_need(write(out, "1\n", 2) == 2, "write");
    while (read(in, &c, 1) == 1) {
        for (i = 0; i < plan->count; i++) {
            raw_need(far_all(fd[i], buffer, sizeof buffer, true) && far_all(fd[i], buffer, sizeof buffer, false), "echo");
        }
        raw_need(write(out, "1\n", 2) == 2, "write");
    }
    return 0;
}

/* Steps the crowd's loop until the child has written a line. */
static void crowd_until_line(bench_child *child)
{
    char line[16];
    int flags = fcntl(child->out, F_GETFL);
    (void)fcntl(child->out, F_SETFL, flags | O_NONBLOCK);
    for (;;) {
        ssize_t n = read(child->out, line, sizeof line);
        if (n > 0) {
            break;
        }
        raw_need(n < 0 && errno == EAGAIN, "far ends");
        (void)cb_loop_step(&crowd.loop, 1000000u);
    }
    (void)fcntl(child->out, F_SETFL, flags);
}

/* A second of silence and a bit, after which the loop has given its pooled buffers back by itself. */
static int64_t crowd_bytes(uint64_t before, size_t count)
{
    uint64_t until = bench_wall_ns() + 2200000000u;
    while (bench_wall_ns() < until) {
        (void)cb_loop_step(&crowd.loop, 1100000000u);
    }
    return (int64_t)((cbt_malloc_live() - before + count / 2u) / count + sizeof(cb_loop_stream));
}

static void run_crowd(void)
{
    static const char *const names[] = { "loop/tcp_echo_100_10k_idle", "loop/tcp_idle_bytes", "loop/tcp_idle_bytes_after_16k" };
    static const char *const units[] = { "ns", "B", "B" };
    far_plan plan;
    bench_child child;
    bench_spec s;
    uint64_t before;
    size_t i, files = raw_descriptors();
    if (!bench_wanted(names[0]) && !bench_wanted(names[1]) && !bench_wanted(names[2])) {
        return;
    }
    plan.count = 10000;
    if (files < plan.count + 100u) {
        for (i = 0; i < 3u; i++) {
            bench_skip(names[i], units[i], "fewer than 10,100 file descriptors (ulimit -n)");
        }
        return;
    }
    echo_open(&crowd, plan.count + 1u);
    plan.port = crowd.port;
    (void)cb_loop_step(&crowd.loop, 0);
    before = cbt_malloc_live();
    raw_need(bench_child_start(&child, far_ends, &plan, -1), "fork");
    crowd_until_line(&child);
    while (crowd.used < plan.count) {
        (void)cb_loop_step(&crowd.loop, 1000000u);
    }
    if (!CBT_MALLOC_COUNTED) {
        bench_skip(names[1], units[1], "malloc is not counted here (needs glibc)");
        bench_skip(names[2], units[2], "malloc is not counted here (needs glibc)");
    } else {
        if (bench_wanted(names[1])) {
            bench_exact(names[1], units[1], crowd_bytes(before, plan.count), -1);
        }
        if (bench_wanted(names[2])) {
            raw_need(bench_child_say(&child, "x"), "say");
            crowd_until_line(&child);
            bench_exact(names[2], units[2], crowd_bytes(before, plan.count), -1);
        }
    }
    if (bench_wanted(names[0])) {
        echo_connect(&crowd);
        bench_clear(&s, names[0]);
        s.rep_ns = bench.quick ? 10000000u : 40000000u;
        bench_subject(&s, echo_ours, &crowd);
        bench_floor(&s, "without the idle ones", echo_ours, &plain);
        bench_run(&s);
    }
    (void)bench_child_wait(&child, 5000000000u);
    echo_close(&crowd);
}

static void run_streams(void)
{
    bench_spec s;
    echo_open(&plain, 4);
    echo_connect(&plain);
    raw_echo_open(&echo_levels, false);
    raw_echo_open(&echo_edges, true);
    run_passes();
    bench_clear(&s, "loop/tcp_echo_100");
    s.rep_ns = bench.quick ? 10000000u : 40000000u;
    bench_subject(&s, echo_ours, &plain);
    bench_floor(&s, "epoll, levels", echo_raw, &echo_levels);
    bench_floor(&s, "epoll, edges", echo_raw, &echo_edges);
    add_peers(&s);
    bench_run(&s);
    run_crowd();
    echo_close(&plain);
    raw_echo_close(&echo_levels);
    raw_echo_close(&echo_edges);
}

int main(int argc, char **argv)
{
    bench_start(argc, argv);
    load_peers();
    run_events();
    run_timers();
    run_posts();
    run_streams();
    run_ping_pong();
    return bench_finish();
}
