/* crowd.c - many bots in one loop: what is shown while they talk, how they begin and how they end. */

enum {
    SECONDS_MAX = 3600,
    TICKS_PER_SECOND = 4
};
#define TICK_NS (SECOND_NS / TICKS_PER_SECOND)

/* -- what is shown -- */

/* 1234567 as "1,234,567". */
static const char *thousands(uint64_t n, char *out, size_t size)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n), i;
    size_t at = 0;
    for (i = 0; i < length && at + 2u < size; i++) {
        if (i != 0 && (length - i) % 3 == 0) {
            out[at++] = ',';
        }
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

static uint64_t calls_so_far(const crowd *c)
{
    uint64_t calls = c->refusals;
    int i;
    for (i = 0; i < CALL_KINDS; i++) {
        calls += c->total[i].count;
    }
    return calls;
}

static double ratio(uint64_t part, uint64_t whole)
{
    return whole != 0 ? (double)part / (double)whole : 0;
}

static const char *allocations_a_call(const reading *a, const reading *b, char *out, size_t size)
{
    (void)snprintf(out, size, "%.3f", ratio(b->allocations - a->allocations, b->calls - a->calls));
    return CHAT_COUNTS_ALLOCATIONS ? out : "-";
}

/* One line that is written over on a terminal, and else one a second, for a log. */
static void show_line(crowd *c)
{
    const reading *a = &c->shown, *b = &c->now;
    char rate[32], allocated[32];
    double seconds = (double)(b->at_ns - a->at_ns) / 1e9;
    (void)thousands((uint64_t)((double)(b->calls - a->calls) / seconds), rate, sizeof rate);
    (void)printf("%s%3u s %8s calls/s", c->is_terminal ? "\r" : "",
                 (unsigned)((b->at_ns - c->begin_ns) / SECOND_NS), rate);
    (void)printf("  p50 %.2f  p99 %.2f ms", latency_ms(&c->recent, 50), latency_ms(&c->recent, 99));
    (void)printf("  %.0f bytes, %s allocs a call%s",
                 ratio(b->call_bytes - a->call_bytes, b->calls - a->calls),
                 allocations_a_call(a, b, allocated, sizeof allocated), c->is_terminal ? "  " : "\n");
    (void)fflush(stdout);
}

static void show_latency(const char *name, const latency *l)
{
    char count[32];
    (void)printf("  %-10s %13s %8.2f ms %8.2f ms %8.2f ms\n", name, thousands(l->count, count, sizeof count),
                 latency_ms(l, 50), latency_ms(l, 99), (double)l->most_ns / 1e6);
}

static void show_count(const char *name, uint64_t n, const char *words)
{
    char count[32];
    (void)printf("  %-10s %13s%s\n", name, thousands(n, count, sizeof count), words);
}

static void show_table(const crowd *c)
{
    static const char *const names[CALL_KINDS] = { "join", "say", "members", "history", "leave" };
    uint64_t calls = calls_so_far(c);
    double rate = (double)calls * 1e9 / (double)(c->end_ns - c->begin_ns);
    char allocated[32];
    latency all;
    int i;
    memset(&all, 0, sizeof all);
    (void)printf("%s\n  %-10s %13s %11s %11s %11s\n", c->is_terminal ? "\n" : "", "call", "answers", "p50",
                 "p99", "longest");
    for (i = 0; i < CALL_KINDS; i++) {
        show_latency(names[i], &c->total[i]);
        latency_join(&all, &c->total[i]);
    }
    show_latency("all", &all);
    show_count("refused", c->refusals, "  as they must be");
    show_count("heard", c->heard, "  lines, in order and none missing");
    show_count("a second", (uint64_t)rate, "  calls, by one thread at either end");
    (void)printf("  %-10s %13.1f  bytes a call, %.1f a line heard\n", "sent",
                 ratio(c->now.call_bytes - c->warm.call_bytes, c->now.calls - c->warm.calls),
                 ratio(c->now.heard_bytes - c->warm.heard_bytes, c->now.heard - c->warm.heard));
    (void)printf("  %-10s %13s  times a call, once warm, server and bots together\n\n", "allocated",
                 allocations_a_call(&c->warm, &c->now, allocated, sizeof allocated));
}

/* -- the crowd's clock: readings, the end -- */

static void on_reading(void *user, const cb_rpc_result *res, const health_reply *reply)
{
    crowd *c = ((bot *)user)->crowd;
    uint64_t in, out;
    c->is_asking = false;
    if (res->status != CB_RPC_OK || c->is_ending) {
        return;
    }
    c->now.at_ns = clock_ns();
    c->now.calls = calls_so_far(c);
    c->now.heard = c->heard;
    c->now.heard_bytes = c->heard_bytes;
    cb_rpc_hub_bytes(&c->hub, &in, &out);
    c->now.call_bytes = in + out - c->heard_bytes;
    c->now.allocations = allocations_so_far() + reply->allocations;
    if (c->warm.at_ns == 0) {
        c->warm = c->shown = c->now; /* tables and buffers have their sizes by now */
    } else if (c->is_terminal || c->ticked % TICKS_PER_SECOND == 0) {
        show_line(c);
        c->shown = c->now;
    } else {
        return;
    }
    memset(&c->recent, 0, sizeof c->recent);
}

static void on_tick(void *user, cb_loop_timer *timer, uint64_t now_ns)
{
    static const nothing none = { 0 };
    crowd *c = (crowd *)user;
    (void)timer;
    (void)now_ns;
    c->ticked++;
    if (!c->is_asking) {
        c->is_asking = chat_health(&c->watcher.session, &none, on_reading, &c->watcher) == CB_RPC_OK;
    }
}

/* Each bot leaves instead of making its next call. */
static void on_end(void *user, cb_loop_timer *timer, uint64_t now_ns)
{
    crowd *c = (crowd *)user;
    (void)timer;
    (void)now_ns;
    c->end_ns = clock_ns();
    c->is_ending = true;
    cb_loop_timer_stop(&c->loop, &c->ticks);
}

static void on_late(void *user, cb_loop_timer *timer, uint64_t now_ns)
{
    crowd *c = (crowd *)user;
    (void)timer;
    (void)now_ns;
    wrong(c, "bots", "some still wait for an answer, long after the end");
    cb_loop_stop(&c->loop);
}

/* Everybody is in a room: let them talk, beginning with a name that is taken by a room-mate. */
static void crowd_begin(crowd *c)
{
    uint32_t i;
    c->begin_ns = clock_ns();
    (void)cb_loop_timer_start_every(&c->loop, &c->ticks, TICK_NS, TICK_NS);
    (void)cb_loop_timer_start(&c->loop, &c->end, c->seconds * SECOND_NS);
    for (i = 0; i < c->count; i++) {
        bot *b = &c->bots[i];
        uint32_t first = i / BOTS_PER_ROOM * BOTS_PER_ROOM;
        bot_ask_to_join(b, c->bots[first + (i + 1u - first) % bots_in_room(b)].name, bot_not_joined_taken);
    }
}

static void on_goodbye(void *user, const cb_rpc_result *res, const health_reply *reply)
{
    bot *b = (bot *)user;
    if (res->status != CB_RPC_OK) {
        wrong(b->crowd, b->name, res->reason);
    } else {
        check(b, reply->calls >= calls_so_far(b->crowd), "counts fewer calls than were answered");
    }
    cb_rpc_close(&b->session);
}

/* -- connections -- */

/* A session dials again by itself; here a connection that ends is a mistake. */
static void bot_down(void *user, cb_rpc_session *session, const cb_rpc_result *why)
{
    bot *b = (bot *)cb_rpc_session_user(session);
    (void)user;
    if (!cb_rpc_session_is_closed(session)) {
        wrong(b->crowd, b->name, why->reason);
        cb_rpc_close(session);
    }
}

/* The watcher goes last: when the bots have, it asks once more. */
static void bot_closed(void *user, cb_rpc_session *session)
{
    static const nothing none = { 0 };
    crowd *c = (crowd *)user;
    c->closed++;
    if (c->closed > c->count) {
        c->is_over = true;
        cb_loop_stop(&c->loop);
    } else if (session != &c->watcher.session && c->closed == c->count &&
               chat_health(&c->watcher.session, &none, on_goodbye, &c->watcher) != CB_RPC_OK) {
        cb_rpc_close(&c->watcher.session);
    }
}

/* -- life -- */

static crowd *crowd_new(uint32_t count, uint32_t seconds)
{
    crowd *c = (crowd *)calloc(1, sizeof *c);
    uint32_t i;
    if (c == NULL) {
        return NULL;
    }
    c->count = count;
    c->seconds = seconds;
    c->is_terminal = isatty(STDOUT_FILENO) == 1;
    cb_loop_timer_init(&c->ticks, on_tick, c);
    cb_loop_timer_init(&c->end, on_end, c);
    cb_loop_timer_init(&c->late, on_late, c);
    for (i = 0; i <= count; i++) {
        bot *b = i < count ? &c->bots[i] : &c->watcher;
        b->crowd = c;
        b->index = i;
        (void)snprintf(b->name, sizeof b->name, i < count ? "bot-%u" : "watcher", (unsigned)i);
    }
    return c;
}

static bool crowd_connect(crowd *c, const char *url)
{
    static const chat_handlers handlers = { NULL, NULL, NULL, NULL, NULL, NULL, bot_heard, bot_saw_move };
    cb_rpc_hub_desc d;
    uint32_t i;
    memset(&d, 0, sizeof d);
    chat_bind(&d, &handlers, c);
    d.on_down = bot_down;
    d.on_closed = bot_closed;
    if (cb_rpc_hub_init(&c->hub, &d) != CB_RPC_OK) {
        return false;
    }
    for (i = 0; i <= c->count; i++) {
        bot *b = i < c->count ? &c->bots[i] : &c->watcher;
        if (cb_rpc_connect(&c->hub, &c->loop, &b->session, url) != CB_RPC_OK) {
            return false; /* the loop's end gives back the ones that were made */
        }
        cb_rpc_session_set_user(&b->session, b);
        if (b != &c->watcher) {
            bot_ask_to_join(b, "", bot_not_joined_empty);
        }
    }
    return true;
}

/* Runs the crowd to its end. The last line on stdout is the verdict, which `title` begins. */
static int crowd_run(crowd *c, const char *title)
{
    char calls[32], heard[32];
    bool is_interrupted;
    (void)cb_loop_timer_start(&c->loop, &c->late, (c->seconds + 10u) * SECOND_NS);
    stop_on_interrupt(&c->loop);
    (void)cb_loop_run(&c->loop);
    end_on_interrupt();
    is_interrupted = c->wrong == 0 && !c->is_over;
    c->is_over = true; /* what breaks from here on is our own doing */
    if (is_interrupted) {
        tell("%s%s: interrupted", c->is_terminal ? "\n" : "", title);
        return EXIT_FAILURE;
    }
    if (c->end_ns != 0) {
        show_table(c);
    }
    if (c->wrong != 0) {
        tell("%s: failed, %llu things were wrong", title, (unsigned long long)c->wrong);
        return EXIT_FAILURE;
    }
    tell("%s: ok, %s calls and %s lines heard in %u s, every answer was right", title,
         thousands(calls_so_far(c), calls, sizeof calls), thousands(c->heard, heard, sizeof heard),
         (unsigned)c->seconds);
    return EXIT_SUCCESS;
}

static int crowd_command(const char *url, uint32_t count, uint32_t seconds, const char *title)
{
    crowd *c = crowd_new(count, seconds);
    int code;
    if (c == NULL) {
        return complain("out of memory");
    }
    if (cb_loop_init(&c->loop, NULL) == CB_LOOP_OK && crowd_connect(c, url)) {
        code = crowd_run(c, title);
    } else {
        code = complain("%s", cb_loop_reason(&c->loop));
    }
    cb_loop_deinit(&c->loop); /* gives back the sessions that are still there, then their hub may go */
    (void)cb_rpc_hub_deinit(&c->hub);
    free(c);
    return code;
}

/* DEMO_SECONDS of the environment, 10 without it; 0: it is no such number, which has been said. */
static uint32_t seconds_to_talk(void)
{
    const char *text = getenv("DEMO_SECONDS");
    long seconds = text != NULL && text[0] != '\0' ? number_of(text, 1, SECONDS_MAX) : 10;
    if (seconds == 0) {
        (void)complain("DEMO_SECONDS: want 1 to %d", SECONDS_MAX);
    }
    return (uint32_t)seconds;
}

static int bots_command(const char *url, uint32_t count)
{
    uint32_t seconds = seconds_to_talk();
    return seconds != 0 ? crowd_command(url, count, seconds, "bots") : EXIT_FAILURE;
}
