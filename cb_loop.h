/* cb_loop.h - v0.1.0 - event loop, timers, posts, events and TCP streams - SPDX: Unlicense OR MIT-0
 *
 * One loop per thread. What a program has many of (timers, tasks, streams) is a struct of its own that the
 * loop only links; a quiet connection costs its struct and nothing else. Output leaves once a pass.
 *
 * BUILD      in exactly one .c or .cpp file:
 *                #define CB_LOOP_IMPLEMENTATION
 *                #include "cb_loop.h"            before any libc header when compiled with -std=c99 or alike
 *            everywhere else just #include it. Link: nothing.
 * NEEDS      C99 or C++11, gcc or clang, POSIX sockets; epoll on Linux, else poll. Windows is not built yet.
 * DOES NOT   resolve names, speak UDP, local sockets or TLS, watch signals (docs/loop.md: what is missing).
 *
 * EXAMPLE    #define CB_LOOP_IMPLEMENTATION
 *            #include "cb_loop.h"
 *            #include <stdio.h>
 *            static void on_time(void *user, cb_loop_timer *timer, uint64_t now_ns)
 *            {
 *                (void)timer;
 *                (void)now_ns;
 *                puts("a tenth of a second later");
 *                cb_loop_stop((cb_loop *)user);
 *            }
 *            int main(void)
 *            {
 *                cb_loop loop;
 *                cb_loop_timer timer;
 *                if (cb_loop_init(&loop, NULL) != CB_LOOP_OK) {
 *                    return 1;
 *                }
 *                cb_loop_timer_init(&timer, on_time, &loop);
 *                cb_loop_timer_start(&loop, &timer, 100000000u);
 *                cb_loop_run(&loop);
 *                cb_loop_deinit(&loop);
 *                return 0;
 *            }
 *
 * API        life      cb_loop_init  cb_loop_deinit  cb_loop_run  cb_loop_step  cb_loop_stop  cb_loop_trim
 *            time      cb_loop_now  cb_loop_timer_init  _start  _start_at  _start_every  _stop  _is_active
 *            posts     cb_loop_task_init  cb_loop_post
 *            events    cb_loop_event_init  _listen  _unlisten  _emit  cb_loop_event_listener_init
 *            listen    cb_loop_listen  cb_loop_listener_close  cb_loop_listener_address
 *            streams   cb_loop_connect  cb_loop_stream_write  _share  _sink  _want  _pause  _resume  _reshow
 *                      _shutdown  _close  _abort  _set_handlers
 *            info      cb_loop_in_callback  cb_loop_reason  cb_loop_stream_reason  _peer  _unsent  _kept
 *                      _user  _loop  cb_loop_address_str  cb_loop_address_port  cb_loop_status_str
 *
 * CONFIG     CB_LOOP_STATIC      every function static to the including file
 *            CB_LOOP_DEF, CBDEF  linkage word of your own
 *            CB_LOOP_NO_STDLIB   no malloc and free; an allocator is then required in the desc
 *            CB_LOOP_NO_STRINGS  no texts: reasons and cb_loop_status_str are ""
 *            CB_LOOP_ASSERT(c)   default: assert of <assert.h>
 *            CB_LOOP_POISON      overwrites the bytes shown to on_data with 0xDB when it has returned
 *
 * PASS       flush what was written outside, wait, then: due timers, posted tasks, I/O, and at last each
 *            stream that something happened to is settled: owed callbacks, one gather write, its end.
 *            Every callback comes from a pass (or from deinit), never from inside the call that caused it.
 *
 * MEMORY     one block in init (about 115 KB: read buffer, timer wheel); pooled buffers while bytes wait,
 *            which go back to the allocator after a second or two of silence or by cb_loop_trim; nothing per
 *            message once warm. Timers, tasks, streams, listeners are the caller's and may not move while in
 *            use. A stream's memory is the caller's again in on_closed, which comes exactly once.
 * ERRORS     0 done; -1.. the caller's mistake, -20.. resources (both: nothing happened), -40.. peer or end.
 *            cb_loop_reason (after a failed call) and cb_loop_stream_reason (in on_closed) tell why in words.
 * THREADS    a loop and all on it belong to the thread that runs it. From any thread: cb_loop_post and
 *            cb_loop_stop (signal handlers may call that as well), while the cb_loop struct itself lives.
 * LIMITS     stated at every field; none is endless by default. Output 4 MiB soft, 8 MiB hard, input 16 MiB.
 * SECURITY   peers are hostile: they can make the loop keep no more than those bounds, never reach an
 *            assertion, and get one read and one write a pass. on_accept bounds the number of connections.
 */

/* ---- feature macros: keep this block byte-identical in all cb_*.h headers ---- */
#if defined(CB_LOOP_IMPLEMENTATION) && !defined(_GNU_SOURCE)
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wreserved-macro-identifier"
#pragma clang diagnostic ignored "-Wreserved-id-macro"
#endif
#define _GNU_SOURCE 1 /* accept4, recvmmsg and pthread names; must precede the first libc include */
#if defined(__clang__)
#pragma clang diagnostic pop
#endif
#endif
/* ---- end feature macros ---- */

#ifndef CB_LOOP_H
#define CB_LOOP_H
#define CB_LOOP_VERSION 0x000100 /* 0xMMmmpp */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Linkage. CBDEF, when the user defined it, applies to every cb_*.h at once. */
#ifndef CB_LOOP_DEF
#if defined(CBDEF)
#define CB_LOOP_DEF CBDEF
#elif defined(CB_LOOP_STATIC)
#define CB_LOOP_DEF static inline
#else
#define CB_LOOP_DEF extern
#endif
#endif
#ifndef CB_LOOP_CHECKED
#if defined(__GNUC__) || defined(__clang__)
#define CB_LOOP_CHECKED __attribute__((warn_unused_result))
#else
#define CB_LOOP_CHECKED
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- shared by all cb_*.h headers: keep this block byte-identical ---- */
#ifndef CB_SHARED_ABI
#define CB_SHARED_ABI 1
typedef struct cb_alloc { /* both functions or neither; neither: libc's, unless CB_X_NO_STDLIB */
    void *(*alloc)(void *user, size_t size, size_t align);   /* NULL on failure */
    void (*release)(void *user, void *ptr, size_t size);     /* ptr may be NULL */
    void *user;
} cb_alloc;
typedef struct cb_span { /* borrowed, may be overwritten */
    uint8_t *data;
    size_t size;
} cb_span;
typedef struct cb_slice { /* borrowed, read only */
    const uint8_t *data;
    size_t size;
} cb_slice;
typedef struct cb_shared { /* prepared once, referenced by many; one thread */
    const uint8_t *data;
    size_t size;
    uint32_t refs;
    void (*release)(struct cb_shared *b); /* called when refs falls to 0; NULL: nothing to do */
} cb_shared;
typedef struct cb_sink { /* where an engine's output goes; never calls back into the engine or the user */
    /* bytes that will be taken now; owed: answers and protocol replies, which have a bound of their own */
    size_t (*room)(void *user, bool owed);
    /* size <= piece_max; never NULL within room(); void at the sink's next call */
    uint8_t *(*reserve)(void *user, size_t size);
    /* size <= reserved, 0 gives back; !more ends a message where the transport has messages */
    void (*commit)(void *user, size_t size, bool more);
    /* takes a reference; NULL or false: copy in pieces instead */
    bool (*share)(void *user, cb_shared *b, bool more);
    void *user;
    size_t piece_max;
} cb_sink;
#endif
/* ---- end shared block ---- */
#if CB_SHARED_ABI != 1
#error "cb_loop.h: a cb header of another release was included before"
#endif

/* -- status: one list makes the enum and the strings -- */
#define CB_LOOP_STATUS_LIST(X) \
    X(OK, 0, "done") \
    X(E_ARG, -1, "bad argument or description") \
    X(E_STATE, -2, "not possible in this state") \
    X(E_BUSY, -3, "not possible inside a callback of the same loop") \
    X(E_URL, -10, "malformed or unknown URL") \
    X(E_NOMEM, -20, "out of memory") \
    X(E_FULL, -21, "a bound is reached") \
    X(E_DESCRIPTORS, -22, "out of file descriptors") \
    X(E_IN_USE, -23, "the address is in use or not of this machine") \
    X(E_PERMISSION, -24, "not permitted") \
    X(E_SYSTEM, -25, "the system refused") \
    X(E_TIMEOUT, -40, "the deadline passed") \
    X(E_CLOSED, -41, "the loop has ended") \
    X(E_REFUSED, -42, "the connection was refused") \
    X(E_RESET, -43, "the connection was reset") \
    X(E_UNREACHABLE, -44, "the peer cannot be reached") \
    X(E_TOO_BIG, -45, "more input than the bound allows") \
    X(E_SLOW_PEER, -46, "the peer does not take its output")

typedef enum cb_loop_status {
#define CB_LOOP_STATUS_ITEM(name, value, text) CB_LOOP_##name = (value),
    CB_LOOP_STATUS_LIST(CB_LOOP_STATUS_ITEM)
#undef CB_LOOP_STATUS_ITEM
    CB_LOOP_STATUS_FORCE_32 = 0x7fffffff
} cb_loop_status;

/* Never NULL; static storage. Unknown values give "?". */
CB_LOOP_DEF const char *cb_loop_status_str(cb_loop_status status);

#define CB_LOOP_OFF UINT64_MAX /* in a nanosecond field: never */
#define CB_LOOP_FOREVER UINT64_MAX

/* What the structs below are made of; private. */
typedef struct cbi_loop_link {
    struct cbi_loop_link *next, *prev;
} cbi_loop_link;
struct cbi_loop_core;
struct cbi_loop_settings;
struct cbi_loop_buf;
struct cbi_loop_emit;

/* ---------------------------------------------- the loop ---------------------------------------------- */

typedef struct cb_loop_task { /* 24 bytes; embed it. Fields are private */
    struct cb_loop_task *next;
    void (*fn)(void *user, struct cb_loop_task *task, cb_loop_status status);
    void *user;
} cb_loop_task;

enum {
    CB_LOOP_BACKEND_DEFAULT = 0, /* epoll on Linux, else poll */
    CB_LOOP_BACKEND_EPOLL = 1,   /* E_ARG where there is none */
    CB_LOOP_BACKEND_POLL = 2
};

typedef struct cb_loop_desc {
    int backend;                   /* CB_LOOP_BACKEND_..., 0 = DEFAULT */
    size_t read_bytes;             /* most that one read takes; 0 = 64 KiB; 4 KiB .. 16 MiB */
    size_t pool_bytes_max;         /* free buffers kept for reuse; 0 = 16 MiB */
    uint64_t (*clock)(void *user); /* another clock: monotonic nanoseconds; NULL = the system's. Tests turn it
                                      by hand */
    void *clock_user;
    cb_alloc alloc; /* copied; both functions NULL = malloc and free */
} cb_loop_desc;

typedef struct cb_loop { /* its size is public, its fields are not; must not move after init */
    struct cbi_loop_core *core; /* all that belongs to the loop's own thread */
    uintptr_t owner;            /* from here on shared with posting threads, by atomic operations only */
    int wake_fd;
    cb_loop_status failed;
    cb_loop_task stop_task;
    uint32_t stopping;
    uint8_t apart[64]; /* posters write what follows; the rest shall not share its cache line */
    cb_loop_task *posted;
    uint32_t asleep, wakes;
    uint8_t apart_too[48];
} cb_loop;

/* desc is copied; NULL: every default. On failure loop needs no deinit, but may get it. E_ARG, E_NOMEM,
 * E_DESCRIPTORS, E_SYSTEM. */
CB_LOOP_DEF CB_LOOP_CHECKED cb_loop_status cb_loop_init(cb_loop *loop, const cb_loop_desc *desc);

/* Closes listeners, then streams, each with its notice, gives tasks that did not run back with E_CLOSED,
 * makes timers inactive. Waits for threads that are in the middle of a post. Safe on NULL, after a failed
 * init and twice; not inside a callback. Afterwards cb_loop_post is refused for as long as the struct itself
 * lives. */
CB_LOOP_DEF void cb_loop_deinit(cb_loop *loop);

/* Passes until cb_loop_stop; sleeps when there is nothing to do, also when nothing is registered at all
 * (another thread may post). E_BUSY inside a callback, E_STATE without a loop. */
CB_LOOP_DEF cb_loop_status cb_loop_run(cb_loop *loop);

/* One pass that waits for at most timeout_ns, rounded up to milliseconds (CB_LOOP_FOREVER: as long as it
 * takes; less when a signal came). E_BUSY inside a callback. A stop met here ends the next run. */
CB_LOOP_DEF cb_loop_status cb_loop_step(cb_loop *loop, uint64_t timeout_ns);

/* Any thread, any signal handler, any callback: cb_loop_run returns after the pass it is in; asked before a
 * run, it ends that one. */
CB_LOOP_DEF void cb_loop_stop(cb_loop *loop);

/* Nanoseconds of the current (or last) pass, monotonic. The clock is read when first needed, at most once
 * before a pass waits and once after that. */
CB_LOOP_DEF uint64_t cb_loop_now(const cb_loop *loop);

/* True while any callback of this loop runs. */
CB_LOOP_DEF bool cb_loop_in_callback(const cb_loop *loop);

/* Why the last call on this loop failed: "bind tcp://127.0.0.1:4000: address in use". Never NULL; lives until
 * the next failure. */
CB_LOOP_DEF const char *cb_loop_reason(const cb_loop *loop);

/* Gives pooled buffers that nobody uses back to the allocator now. */
CB_LOOP_DEF void cb_loop_trim(cb_loop *loop);

/* ----------------------------------------------- timers ----------------------------------------------- */

typedef struct cb_loop_timer cb_loop_timer;
typedef void (*cb_loop_timer_fn)(void *user, cb_loop_timer *timer, uint64_t now_ns);
struct cb_loop_timer { /* 56 bytes; embed it. Fields are private */
    cbi_loop_link link;
    uint64_t deadline, span; /* these two lines are all that a restart touches */
    uint32_t order;
    uint16_t fresh, flags;
    cb_loop_timer_fn fn;
    void *user;
};

/* Once, before anything else. */
CB_LOOP_DEF void cb_loop_timer_init(cb_loop_timer *timer, cb_loop_timer_fn fn, void *user);

/* Calls fn once, never before delay_ns have passed: the delay counts from the loop's next look at the clock
 * (with a clock of the desc: from cb_loop_now), so a slow callback cannot make it short. Timers run by
 * deadline, equal ones as they were started; what is started in a pass runs in the next one at the earliest.
 * An active timer starts anew. All of this may be called from anywhere, the timer's own callback included.
 * E_CLOSED when the loop is ending. */
CB_LOOP_DEF cb_loop_status cb_loop_timer_start(cb_loop *loop, cb_loop_timer *timer, uint64_t delay_ns);

/* The same with an absolute time of cb_loop_now's clock; one that has passed counts in its order, in the next
 * pass. */
CB_LOOP_DEF cb_loop_status cb_loop_timer_start_at(cb_loop *loop, cb_loop_timer *timer, uint64_t deadline_ns);

/* After delay_ns, then at that moment plus whole multiples of interval_ns, without drift. Multiples that the
 * program was too busy for are left out, not made up for. E_ARG when interval_ns is 0. */
CB_LOOP_DEF cb_loop_status cb_loop_timer_start_every(cb_loop *loop, cb_loop_timer *timer, uint64_t delay_ns,
                                                     uint64_t interval_ns);

/* fn will not be called until the next start; the memory may be freed. Harmless when not active. */
CB_LOOP_DEF void cb_loop_timer_stop(cb_loop *loop, cb_loop_timer *timer);

/* False inside the callback of a one-shot timer. */
CB_LOOP_DEF bool cb_loop_timer_is_active(const cb_loop_timer *timer);

/* ----------------------------------------------- posts ------------------------------------------------ */

/* fn gets OK, or E_CLOSED when the loop ended before the task ran. After fn was called the task may be posted
 * again or freed, also by fn. */
CB_LOOP_DEF void cb_loop_task_init(cb_loop_task *task,
                                   void (*fn)(void *user, cb_loop_task *task, cb_loop_status status),
                                   void *user);

/* Any thread. Runs task once, in the loop's thread, in the order each thread posted. Not twice before it ran.
 * E_CLOSED after the loop's end: fn will not run. The thread that steps a loop counts as its own until
 * another thread has taken over; then its posts need no atomic operation, so that moving a loop to another
 * thread must be ordered with the first one's posts. */
CB_LOOP_DEF CB_LOOP_CHECKED cb_loop_status cb_loop_post(cb_loop *loop, cb_loop_task *task);

/* ----------------------------------------------- events ----------------------------------------------- */

typedef void (*cb_loop_event_fn)(void *user, void *payload);
typedef struct cb_loop_event_listener { /* embed it. Fields are private */
    struct cb_loop_event_listener *next, *prev;
    cb_loop_event_fn fn;
    void *user;
    uint64_t age;
    int32_t priority;
    bool listening;
} cb_loop_event_listener;
typedef struct cb_loop_event { /* independent of any loop; one thread. Fields are private */
    cb_loop_event_listener *first, *last;
    struct cbi_loop_emit *emits;
    uint64_t age;
} cb_loop_event;

CB_LOOP_DEF void cb_loop_event_init(cb_loop_event *event);
CB_LOOP_DEF void cb_loop_event_listener_init(cb_loop_event_listener *listener, cb_loop_event_fn fn,
                                             void *user);

/* Higher priorities are called first, equal ones by age. Both may be called while the event is being emitted:
 * who is added then hears the next emit, who is removed hears nothing more. Listening twice moves it to the
 * new priority. */
CB_LOOP_DEF void cb_loop_event_listen(cb_loop_event *event, cb_loop_event_listener *listener,
                                      int32_t priority);
CB_LOOP_DEF void cb_loop_event_unlisten(cb_loop_event *event, cb_loop_event_listener *listener);

/* Calls every listener with payload, at once. May be nested. */
CB_LOOP_DEF void cb_loop_event_emit(cb_loop_event *event, void *payload);

/* --------------------------------------------- addresses ---------------------------------------------- */

typedef struct cb_loop_address {
    uint8_t ip[16];  /* IPv4 in the first four */
    uint32_t scope;  /* IPv6 interface, 0 = none */
    uint16_t port;   /* host order */
    uint8_t family;  /* 4 or 6; 0 = no address */
    uint8_t padding; /* 0, so that addresses compare by memcmp */
} cb_loop_address;

CB_LOOP_DEF uint16_t cb_loop_address_port(const cb_loop_address *address);

/* Writes "127.0.0.1:4000" or "[::1]:4000", cut to cap - 1 and NUL-terminated, and returns buf; 56 bytes hold
 * any. */
CB_LOOP_DEF char *cb_loop_address_str(const cb_loop_address *address, char *buf, size_t cap);

/* ---------------------------------------------- streams ----------------------------------------------- */

typedef struct cb_loop_stream cb_loop_stream;
typedef struct cb_loop_listener cb_loop_listener;

enum {
    CB_LOOP_HOLD = 0, /* input_policy: at the bound reading stops, and TCP holds the peer back */
    CB_LOOP_CLOSE = 1 /* above the bound the stream is closed with E_TOO_BIG */
};

typedef struct cb_loop_stream_desc { /* copied by listen and connect */
    /* Returns how much of `in` was consumed; the rest is kept and shown again, with what came behind it: when
     * more came, when unsent output fell below half its bound, after resume, reshow and set_handlers. `in`
     * lives until the return. NULL: input is thrown away. */
    size_t (*on_data)(void *user, cb_loop_stream *s, cb_span in);
    void (*on_open)(void *user, cb_loop_stream *s);  /* connected or accepted; NULL: nothing */
    void (*on_end)(void *user, cb_loop_stream *s); /* the peer ended its side; all data was shown. NULL: flush
                                                      and close */
    void (*on_drain)(void *user, cb_loop_stream *s); /* output that was refused or short may be tried again;
                                                        NULL: nothing */
    /* Exactly once, last; the memory is the user's again. OK: closed by us, or both sides ended. NULL:
     * nothing. */
    void (*on_closed)(void *user, cb_loop_stream *s, cb_loop_status why);
    void *user;                  /* first argument of the above, until on_accept or set_user gives another */
    size_t input_bytes_max;      /* unread input kept; 0 = 16 MiB */
    int input_policy;            /* CB_LOOP_HOLD or CB_LOOP_CLOSE; 0 = HOLD */
    size_t output_bytes_soft;    /* unsent output above which new sends are refused; 0 = 4 MiB */
    size_t output_bytes_hard;    /* what answers may fill; 0 = twice the soft bound; not below it */
    uint64_t output_stall_ns;    /* no progress with output refused, or while closing: E_SLOW_PEER; 0 = 30 s,
                                    CB_LOOP_OFF = never */
    uint64_t linger_ns; /* after close: the peer's time to end its side; 0 = 2 s, CB_LOOP_OFF = as long as it
                           takes */
    uint32_t send_buffer_bytes;  /* of the socket; 0 = the system's */
    uint32_t recv_buffer_bytes;  /* the same for input */
    bool gather_small_writes;    /* Nagle's algorithm; false: TCP_NODELAY */
} cb_loop_stream_desc;

typedef struct cbi_loop_io { /* whatever has a descriptor; private */
    struct cbi_loop_core *core;
    struct cbi_loop_io *work_next;
    int fd;
    uint32_t slot;
    uint32_t flags;
    uint8_t kind, mask, op, unused;
} cbi_loop_io;

struct cb_loop_stream { /* 192 bytes on 64-bit machines; its size is public, its fields are not */
    cbi_loop_io io;
    cbi_loop_link link;
    struct cbi_loop_settings *settings;
    void *user;
    struct cbi_loop_buf *rest;                 /* kept input; NULL: none */
    struct cbi_loop_buf *out_first, *out_last; /* unsent output */
    size_t unsent, want;
    cb_loop_timer timer; /* one deadline at a time: connect, stalled output, linger */
    cb_loop_address peer;
    cb_loop_status why;
    int error;
};

typedef struct cb_loop_connect_desc {
    const char *url;             /* "tcp://127.0.0.1:4000" or "tcp://[::1]:4000"; borrowed for the call */
    uint64_t connect_timeout_ns; /* 0 = 20 s, CB_LOOP_OFF = the system's */
    cb_loop_stream_desc stream;
} cb_loop_connect_desc;

/* s (any memory, need not be cleared) belongs to the loop until on_closed. What is written before on_open is
 * queued. When this fails nothing was handed over and no callback comes; a refusal by the network comes as
 * on_closed. E_ARG, E_URL, E_NOMEM, E_DESCRIPTORS, E_SYSTEM, E_CLOSED when the loop is ending. */
CB_LOOP_DEF CB_LOOP_CHECKED cb_loop_status cb_loop_connect(cb_loop *loop, cb_loop_stream *s,
                                                           const cb_loop_connect_desc *desc);

/* Takes what fits below the soft bound, copies it, and returns how much that was; it leaves at the end of the
 * pass. Short: on_drain comes, and kept input is shown again, once unsent output has fallen below half of the
 * bound. */
CB_LOOP_DEF size_t cb_loop_stream_write(cb_loop_stream *s, const void *data, size_t size);

/* Takes a reference (b->refs + 1) until the bytes have left or the stream has closed. False, and nothing
 * taken, when it does not fit whole. */
CB_LOOP_DEF bool cb_loop_stream_share(cb_loop_stream *s, cb_shared *b);

/* The stream as an engine's output. room: bytes up to the soft bound, owed: up to the hard one. piece_max: 16
 * KiB. When memory runs out, reserve lends bytes that go nowhere, room is 0 from then on, and the stream
 * closes with E_NOMEM. */
CB_LOOP_DEF cb_sink cb_loop_stream_sink(cb_loop_stream *s);

/* on_data is called next when `need` bytes are there, read straight into one buffer of that size where it is
 * large. Ends with the next on_data. Above input_bytes_max the stream closes with E_TOO_BIG. 0 takes it back.
 */
CB_LOOP_DEF void cb_loop_stream_want(cb_loop_stream *s, size_t need);

/* No on_data and no reading between the two. */
CB_LOOP_DEF void cb_loop_stream_pause(cb_loop_stream *s);
CB_LOOP_DEF void cb_loop_stream_resume(cb_loop_stream *s);

/* on_data is called in this or the next pass with what is kept, be it nothing, whatever was wanted; when
 * paused, after resume. */
CB_LOOP_DEF void cb_loop_stream_reshow(cb_loop_stream *s);

/* Other handlers and bounds from now on (the socket's own settings stay); kept input is shown to them. The
 * user pointer becomes desc->user. E_ARG, E_NOMEM: nothing changed. */
CB_LOOP_DEF CB_LOOP_CHECKED cb_loop_status cb_loop_stream_set_handlers(cb_loop_stream *s,
                                                                       const cb_loop_stream_desc *desc);

/* Ends our side when all that was written has left; input goes on. */
CB_LOOP_DEF void cb_loop_stream_shutdown(cb_loop_stream *s);

/* No more callbacks but on_closed: what was written leaves, our side ends, input is thrown away until the
 * peer has ended too or linger_ns have passed. */
CB_LOOP_DEF void cb_loop_stream_close(cb_loop_stream *s);

/* Drops unsent output and resets the connection; on_closed(why) comes at the end of the pass. A close that is
 * under way becomes an abort. */
CB_LOOP_DEF void cb_loop_stream_abort(cb_loop_stream *s, cb_loop_status why);

CB_LOOP_DEF void cb_loop_stream_set_user(cb_loop_stream *s, void *user);
CB_LOOP_DEF void *cb_loop_stream_user(const cb_loop_stream *s);
CB_LOOP_DEF cb_loop *cb_loop_stream_loop(const cb_loop_stream *s);
CB_LOOP_DEF size_t cb_loop_stream_unsent(const cb_loop_stream *s); /* written, not yet taken by the system */
CB_LOOP_DEF cb_span cb_loop_stream_kept(const cb_loop_stream *s);  /* input left over; lives until the next
                                                                      pass; not inside on_data */
CB_LOOP_DEF cb_loop_status cb_loop_stream_peer(const cb_loop_stream *s, cb_loop_address *peer);

/* In on_closed: why, in words, "connect tcp://127.0.0.1:4000: connection refused". Never NULL; lives as long
 * as on_closed. */
CB_LOOP_DEF const char *cb_loop_stream_reason(const cb_loop_stream *s);

/* --------------------------------------------- listeners ---------------------------------------------- */

typedef struct cb_loop_listener_desc {
    const char *url; /* "tcp://0.0.0.0:4000", "tcp://[::]:4000" (IPv6 only); port 0: any. Borrowed for the
                        call */
    /* Memory for the stream, which it is from the return on, to be had back in its on_closed; NULL refuses.
     * *stream_user is desc.stream.user at first. `from` is borrowed for the call. */
    cb_loop_stream *(*on_accept)(void *user, cb_loop_listener *listener, const cb_loop_address *from,
                                 void **stream_user);
    void *user;
    void (*on_closed)(void *user, cb_loop_listener *listener); /* the memory is the user's again; NULL:
                                                                  nothing */
    cb_loop_stream_desc stream;
    uint32_t backlog;          /* 0 = 511 */
    uint32_t accepts_per_pass; /* 0 = 64 */
} cb_loop_listener_desc;

struct cb_loop_listener { /* its size is public, its fields are not */
    cbi_loop_io io;
    cbi_loop_link link;
    struct cbi_loop_settings *settings;
    cb_loop_stream *(*on_accept)(void *user, cb_loop_listener *listener, const cb_loop_address *from,
                                 void **stream_user);
    void (*on_closed)(void *user, cb_loop_listener *listener);
    void *user;
    cb_loop_timer timer; /* accept back-off */
    uint64_t backoff_ns;
    uint64_t accept_failures;
    cb_loop_address address;
    uint32_t accepts_per_pass;
};

/* desc is copied. When this fails nothing was handed over. Out of descriptors while accepting, the listener
 * rests for 5 ms, then twice as long each time up to 1 s, and goes on by itself. E_ARG, E_URL, E_NOMEM,
 * E_DESCRIPTORS, E_IN_USE, E_PERMISSION, E_SYSTEM, E_CLOSED. */
CB_LOOP_DEF CB_LOOP_CHECKED cb_loop_status cb_loop_listen(cb_loop *loop, cb_loop_listener *listener,
                                                          const cb_loop_listener_desc *desc);

/* Its streams live on. The port is free at once; the memory is given back by on_closed, in this or the next
 * pass. */
CB_LOOP_DEF void cb_loop_listener_close(cb_loop_listener *listener);

/* The address with the port that the system chose. E_STATE when closed. */
CB_LOOP_DEF cb_loop_status cb_loop_listener_address(const cb_loop_listener *listener,
                                                    cb_loop_address *address);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* CB_LOOP_H */

/* =========================================== implementation =========================================== */
#if defined(CB_LOOP_IMPLEMENTATION) && !defined(CB_LOOP_IMPLEMENTED)
#define CB_LOOP_IMPLEMENTED 1

#if defined(_WIN32)
#error "cb_loop.h: the Windows backend is not built yet"
#endif

#include <errno.h>
#include <string.h>
#if defined(__GLIBC__) && !defined(__USE_POSIX199309)
#error "cb_loop.h: include it before any libc header, or compile with -D_GNU_SOURCE"
#endif
#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#endif
#ifndef CB_LOOP_ASSERT
#include <assert.h>
#define CB_LOOP_ASSERT(c) assert(c)
#endif
#ifndef CB_LOOP_NO_STDLIB
#include <stdlib.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Private names for what differs between systems, and the seam where tests put faults in. */
#if defined(MSG_NOSIGNAL)
#define CBI_LOOP_NO_SIGNAL MSG_NOSIGNAL
#else
#define CBI_LOOP_NO_SIGNAL 0 /* SO_NOSIGPIPE is set on the socket instead */
#endif
#if defined(__linux__) && (defined(__USE_GNU) || !defined(__GLIBC__))
#define CBI_LOOP_HAS_ACCEPT4 1
#endif
#ifndef CBI_LOOP_SYS_SOCKET
#define CBI_LOOP_SYS_SOCKET(family, type, protocol) socket(family, type, protocol)
#endif
#ifndef CBI_LOOP_SYS_CONNECT
#define CBI_LOOP_SYS_CONNECT(fd, address, size) connect(fd, address, size)
#endif
#ifndef CBI_LOOP_SYS_ACCEPT
#if defined(CBI_LOOP_HAS_ACCEPT4)
#define CBI_LOOP_SYS_ACCEPT(fd, address, size) accept4(fd, address, size, SOCK_NONBLOCK | SOCK_CLOEXEC)
#else
#define CBI_LOOP_SYS_ACCEPT(fd, address, size) cbi_loop_unblock(accept(fd, address, size))
#endif
#endif
#ifndef CBI_LOOP_SYS_RECV
#define CBI_LOOP_SYS_RECV(fd, data, size) recv(fd, data, size, 0)
#endif
#ifndef CBI_LOOP_SYS_SEND
#define CBI_LOOP_SYS_SEND(fd, data, size) send(fd, data, size, CBI_LOOP_NO_SIGNAL)
#endif
#ifndef CBI_LOOP_SYS_SENDMSG
#define CBI_LOOP_SYS_SENDMSG(fd, message) sendmsg(fd, message, CBI_LOOP_NO_SIGNAL)
#endif
#ifndef CBI_LOOP_SYS_EPOLL_WAIT
#define CBI_LOOP_SYS_EPOLL_WAIT(fd, events, count, ms) epoll_wait(fd, events, count, ms)
#endif
#ifndef CBI_LOOP_SYS_POLL
#define CBI_LOOP_SYS_POLL(fds, count, ms) poll(fds, count, ms)
#endif
#ifndef CBI_LOOP_SYS_CLOCK
#define CBI_LOOP_SYS_CLOCK() cbi_loop_system_clock()
#endif

/* Sizes. The headroom lies in front of the read buffer: a short rest is put there so that it and what was
 * just read are one piece; it bounds the copying that bytes arriving one by one can cause. */
#define CBI_LOOP_HEADROOM 4096u
#define CBI_LOOP_SMALL 2048u  /* first output buffer of a pass, short rests */
#define CBI_LOOP_CHUNK 16384u /* output buffer; the sink's piece_max */
#define CBI_LOOP_READ_MAX 262144u
#define CBI_LOOP_IOV 64u
#define CBI_LOOP_READY 256u
#define CBI_LOOP_TEXT 160u
#define CBI_LOOP_CLASSES 67u /* nodes, small, chunk, then four sizes a doubling up to 1 GiB */
#define CBI_LOOP_LEVELS 11u  /* of 6 bits: all 64 bits of a time in nanoseconds */
#define CBI_LOOP_SLOTS 64u
#define CBI_LOOP_ALIGN 8u /* of uint64_t, which may be more than a pointer's */
#define CBI_LOOP_MS 1000000u
#define CBI_LOOP_NEAR 20000000u /* a wait that long or longer is left to the alarm */
#define CBI_LOOP_SECOND 1000000000u
#define CBI_LOOP_FRESH 1024u   /* timers that may be started before the clock is read for them */
#define CBI_LOOP_IS_DUE UINT64_MAX /* in timer.span: in no slot any more */

#define CBI_LOOP_LIKELY(c) __builtin_expect(!!(c), 1)
#define CBI_LOOP_UNLIKELY(c) __builtin_expect(!!(c), 0)
#define CBI_LOOP_COLD                                                                                        \
    __attribute__((noinline, cold)) /* out of the way of what every message passes through */

/* cb_loop_timer.flags */
enum {
    CBI_LOOP_RELATIVE = 1, /* the deadline still is a delay */
    CBI_LOOP_IN_LIST = 2,  /* in a slot, or in `ready` or `due` */
    CBI_LOOP_PERIODIC = 4 /* span is the interval; else it is the deadline by which the timer was put into its
                             slot */
};

/* cbi_loop_io.kind */
enum { CBI_LOOP_WAKER, CBI_LOOP_ALARM, CBI_LOOP_LISTENER, CBI_LOOP_STREAM };

/* cbi_loop_io.mask: what the backend watches, in poll's own bits; epoll's have the same values. GONE (error
 * or hang-up) is reported whenever anything is watched; WATCH alone asks for nothing else. Mask 0 is not
 * registered, so a paused stream cannot make the loop spin. */
enum {
    CBI_LOOP_IN = POLLIN,
    CBI_LOOP_OUT = POLLOUT,
    CBI_LOOP_GONE = POLLERR | POLLHUP | POLLNVAL,
    CBI_LOOP_WATCH = 0x80
};

/* cbi_loop_io.op: what failed, for the reason */
enum {
    CBI_LOOP_OP_NONE,
    CBI_LOOP_OP_CONNECT,
    CBI_LOOP_OP_READ,
    CBI_LOOP_OP_WRITE,
    CBI_LOOP_OP_WATCH,
    CBI_LOOP_OP_INPUT
};

/* cbi_loop_io.flags. A stream goes CONNECTING -> (open) -> [SHUT -> FIN] -> CLOSING -> FIN -> CLOSED; abort
 * goes to CLOSED from anywhere. CLOSED has no descriptor any more and waits for the end of the pass to give
 * its memory back. */
enum {
    CBI_LOOP_LINKED = 1 << 0,     /* in the loop's work list, or being settled */
    CBI_LOOP_CONNECTING = 1 << 1,
    CBI_LOOP_OPENED = 1 << 2,     /* owes on_open */
    CBI_LOOP_DRAINED = 1 << 3,    /* owes on_drain */
    CBI_LOOP_SHOW = 1 << 4,       /* owes on_data for kept bytes, if there are as many as wanted */
    CBI_LOOP_RESHOW = 1 << 5,     /* owes on_data whatever is kept */
    CBI_LOOP_PAUSED = 1 << 6,
    CBI_LOOP_BLOCKED = 1 << 7,    /* the socket is full: wait for OUT */
    CBI_LOOP_ASKED = 1 << 8,      /* room was asked and nothing reserved since: a refusal, if it stays so */
    CBI_LOOP_REFUSED = 1 << 9,    /* output was refused or short */
    CBI_LOOP_EOF = 1 << 10,       /* the peer's side has ended */
    CBI_LOOP_ENDED = 1 << 11,     /* on_end was given */
    CBI_LOOP_SHUT = 1 << 12,      /* our side shall end after the flush */
    CBI_LOOP_FIN = 1 << 13,       /* our side has ended */
    CBI_LOOP_CLOSING = 1 << 14,
    CBI_LOOP_DEAD = 1 << 15,      /* writing failed; reading goes on for what the peer had sent before */
    CBI_LOOP_CLOSED = 1 << 16,
    CBI_LOOP_STALLED = 1 << 17,   /* the timer runs for output that does not leave */
    CBI_LOOP_DEAF = CBI_LOOP_SHUT | CBI_LOOP_CLOSING | CBI_LOOP_DEAD | CBI_LOOP_CLOSED, /* takes no output */
    CBI_LOOP_OWES = CBI_LOOP_OPENED | CBI_LOOP_DRAINED | CBI_LOOP_SHOW | CBI_LOOP_RESHOW
};

typedef struct cbi_loop_buf { /* a pooled buffer: kept input, output, or a reference to shared output */
    struct cbi_loop_buf *next;
    cb_shared *shared;
    uint8_t *data;   /* behind this struct */
    size_t cap;      /* 0: a mere node */
    size_t pool;     /* the class of cap */
    size_t at, size; /* kept input: first byte and count; output: first unsent byte and end */
} cbi_loop_buf;

typedef struct cbi_loop_settings { /* a stream desc, shared by all streams that were given an equal one */
    struct cbi_loop_settings *next, *prev;
    cb_loop_stream_desc d; /* defaults filled in */
    uint32_t refs;
} cbi_loop_settings;

typedef struct cbi_loop_ready {
    cbi_loop_io *io;
    uint32_t mask;
} cbi_loop_ready;

typedef struct cbi_loop_backend { /* epoll or poll; what is above never asks which */
    bool (*open)(struct cbi_loop_core *core);                                /* false: errno tells */
    void (*close)(struct cbi_loop_core *core);
    bool (*set)(struct cbi_loop_core *core, cbi_loop_io *io, uint8_t mask);  /* from io->mask to mask; false:
                                                                                errno tells */
    size_t (*wait)(struct cbi_loop_core *core, uint64_t wait_ns);            /* fills core->batch */
    bool (*alarm)(struct cbi_loop_core *core, uint64_t at); /* waits end then; false: it cannot */
    bool drains;                                                             /* a wake-up has to be read */
} cbi_loop_backend;

struct cbi_loop_core {
    /* What every pass touches, together: after a system call little of it is still in the nearest cache. */
    cb_loop *loop;
    const cbi_loop_backend *backend;
    size_t handles; /* registered descriptors but the waker */
    size_t timers;  /* active ones */
    int epoll_fd;
    bool busy; /* in a pass: callbacks may be running */
    bool stop;
    bool ended;
    bool now_known;                      /* the clock was read in this pass */
    bool posts;                          /* tasks were there after the wait */
    bool quiet;                          /* no timer is due before the alarm has come */
    uint64_t alarm_at;                   /* the backend's alarm; UINT64_MAX: none */
    cb_loop_task *own_first, *own_last;  /* posted by the loop's own thread */
    cbi_loop_io *work_first, *work_last; /* to be settled at the end of the pass */
    uint8_t *read_buf;                   /* CBI_LOOP_HEADROOM bytes in front of it are ours too */
    size_t read_bytes;
    size_t pooled, pool_max;
    cbi_loop_buf *pool[CBI_LOOP_CLASSES];

    uint64_t now;
    uint64_t (*clock)(void *user);
    void *clock_user;

    cbi_loop_link ready; /* timers due in the next timer pass */
    cbi_loop_link due;   /* being called in this one */
    bool ready_unsorted;
    uint32_t order;      /* of starting; equal deadlines run by it */
    uint32_t fresh_count;
    uint64_t elapsed;    /* every timer in the wheel was put there for later than this */
    uint64_t used[CBI_LOOP_LEVELS]; /* a bit for each slot that may not be empty */

    uint32_t batches; /* taken from loop->posted; each had one waker */
    cbi_loop_link streams, listeners;
    cbi_loop_settings *settings;
    cb_alloc alloc;
    size_t block_bytes; /* of this struct and what follows it */

    cb_loop_timer trimmer;
    uint64_t trimmer_saw, taken; /* buffers taken from the pool, then and until now */

    cbi_loop_io waker, alarm;
    struct pollfd *poll_fds;
    cbi_loop_io **poll_ios;
    size_t poll_count, poll_cap, poll_from;

    char reason[CBI_LOOP_TEXT];       /* of the last failed call */
    char close_reason[CBI_LOOP_TEXT]; /* of the stream whose on_closed runs */
    struct iovec iov[CBI_LOOP_IOV];
    cbi_loop_ready batch[CBI_LOOP_READY];
#if defined(__linux__)
    struct epoll_event events[CBI_LOOP_READY];
#endif
    cb_loop_timer *fresh[CBI_LOOP_FRESH]; /* started since the clock was last read for them */
    cbi_loop_link wheel[CBI_LOOP_LEVELS * CBI_LOOP_SLOTS];
    uint8_t trash[CBI_LOOP_CHUNK]; /* lent by the sink when memory ran out */
};

/* -- 1. tools ------------------------------------------------------------------------------------------ */

static size_t cbi_loop_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t cbi_loop_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

static uint64_t cbi_loop_add(uint64_t a, uint64_t b)
{
    return b <= UINT64_MAX - a ? a + b : UINT64_MAX;
}

static unsigned cbi_loop_low_bit(uint64_t v)
{
    return (unsigned)__builtin_ctzll(v);
}

static unsigned cbi_loop_high_bit(uint64_t v)
{
    return 63u - (unsigned)__builtin_clzll(v);
}

/* The address of errno differs between threads and needs no system call. */
static uintptr_t cbi_loop_thread(void)
{
    return (uintptr_t)&errno;
}

static bool cbi_loop_would_block(int error)
{
#if EAGAIN != EWOULDBLOCK
    if (error == EWOULDBLOCK) {
        return true;
    }
#endif
    return error == EAGAIN || error == EINTR;
}

#ifndef CB_LOOP_NO_STDLIB
static void *cbi_loop_malloc(void *user, size_t size, size_t align)
{
    (void)user;
    return align <= CBI_LOOP_ALIGN ? malloc(size) : NULL;
}

static void cbi_loop_free(void *user, void *ptr, size_t size)
{
    (void)user;
    (void)size;
    free(ptr);
}
#endif

static bool cbi_loop_alloc_resolve(cb_alloc *a)
{
    if ((a->alloc == NULL) != (a->release == NULL)) {
        return false;
    }
    if (a->alloc == NULL) {
#ifdef CB_LOOP_NO_STDLIB
        return false;
#else
        a->alloc = cbi_loop_malloc;
        a->release = cbi_loop_free;
#endif
    }
    return true;
}

static void *cbi_loop_get(struct cbi_loop_core *core, size_t size)
{
    return core->alloc.alloc(core->alloc.user, size, CBI_LOOP_ALIGN);
}

static void cbi_loop_release(struct cbi_loop_core *core, void *ptr, size_t size)
{
    core->alloc.release(core->alloc.user, ptr, size);
}

/* Circular lists with a head that is a link itself. */
static void cbi_loop_list_init(cbi_loop_link *head)
{
    head->next = head;
    head->prev = head;
}

static bool cbi_loop_list_empty(const cbi_loop_link *head)
{
    return head->next == head;
}

static void cbi_loop_append(cbi_loop_link *head, cbi_loop_link *link)
{
    cbi_loop_link *last = head->prev;
    link->next = head;
    link->prev = last;
    last->next = link;
    head->prev = link;
}

static void cbi_loop_unlink(cbi_loop_link *link)
{
    cbi_loop_link *next = link->next, *prev = link->prev;
    next->prev = prev;
    prev->next = next;
    link->next = NULL;
}

/* Moves all of `from` behind all of `to`. */
static void cbi_loop_splice(cbi_loop_link *to, cbi_loop_link *from)
{
    if (!cbi_loop_list_empty(from)) {
        from->next->prev = to->prev;
        to->prev->next = from->next;
        from->prev->next = to;
        to->prev = from->prev;
        cbi_loop_list_init(from);
    }
}

/* -- 2. texts ------------------------------------------------------------------------------------------ */

typedef struct cbi_loop_text { /* writes into a fixed buffer, cuts what does not fit, always NUL-terminated */
    char *at, *end;
} cbi_loop_text;

static void cbi_loop_text_begin(cbi_loop_text *t, char *buf, size_t cap)
{
    CB_LOOP_ASSERT(cap != 0);
    t->at = buf;
    t->end = buf + cap - 1;
    *buf = '\0';
}

static void cbi_loop_put_n(cbi_loop_text *t, const char *s, size_t n)
{
    n = cbi_loop_min(n, (size_t)(t->end - t->at));
    memcpy(t->at, s, n);
    t->at += n;
    *t->at = '\0';
}

static void cbi_loop_put(cbi_loop_text *t, const char *s)
{
    cbi_loop_put_n(t, s, strlen(s));
}

static void cbi_loop_put_u64(cbi_loop_text *t, uint64_t v)
{
    char digits[20];
    size_t n = sizeof digits;
    do {
        digits[--n] = (char)('0' + (int)(v % 10u));
        v /= 10u;
    } while (v != 0);
    cbi_loop_put_n(t, digits + n, sizeof digits - n);
}

static const char *cbi_loop_status_text(cb_loop_status status)
{
#ifdef CB_LOOP_NO_STRINGS
    (void)status;
    return "";
#else
    switch ((int)status) {
#define CBI_LOOP_ITEM(name, value, text) case (value): return text;
        CB_LOOP_STATUS_LIST(CBI_LOOP_ITEM)
#undef CBI_LOOP_ITEM
    default: return "?";
    }
#endif
}

CB_LOOP_DEF const char *cb_loop_status_str(cb_loop_status status)
{
    return cbi_loop_status_text(status);
}

/* One list of what the system says, as a status and as a text: strerror is neither thread-safe nor the same
 * everywhere. */
#define CBI_LOOP_ERRORS(X) \
    X(ECONNREFUSED, REFUSED, "connection refused") \
    X(ECONNRESET, RESET, "connection reset by peer") \
    X(EPIPE, RESET, "the peer no longer reads") \
    X(ECONNABORTED, RESET, "connection aborted") \
    X(ETIMEDOUT, TIMEOUT, "no answer") \
    X(EHOSTUNREACH, UNREACHABLE, "no route to host") \
    X(ENETUNREACH, UNREACHABLE, "no route to network") \
    X(EHOSTDOWN, UNREACHABLE, "host is down") \
    X(ENETDOWN, UNREACHABLE, "network is down") \
    X(EADDRINUSE, IN_USE, "address in use") \
    X(EADDRNOTAVAIL, IN_USE, "not an address of this machine") \
    X(EACCES, PERMISSION, "permission denied") \
    X(EPERM, PERMISSION, "operation not permitted") \
    X(EMFILE, DESCRIPTORS, "too many open files") \
    X(ENFILE, DESCRIPTORS, "too many open files in the system") \
    X(ENOSPC, DESCRIPTORS, "too many watched files") \
    X(ENOMEM, NOMEM, "out of memory") \
    X(ENOBUFS, NOMEM, "out of socket buffers") \
    X(EAFNOSUPPORT, SYSTEM, "address family not supported")

static cb_loop_status cbi_loop_status_of(int error)
{
    switch (error) {
#define CBI_LOOP_ITEM(code, status, text) case code: return CB_LOOP_E_##status;
        CBI_LOOP_ERRORS(CBI_LOOP_ITEM)
#undef CBI_LOOP_ITEM
    default: return CB_LOOP_E_SYSTEM;
    }
}

#ifndef CB_LOOP_NO_STRINGS
static void cbi_loop_put_error(cbi_loop_text *t, int error)
{
    const char *text = NULL;
    switch (error) {
#define CBI_LOOP_ITEM(code, status, words) case code: text = words; break;
        CBI_LOOP_ERRORS(CBI_LOOP_ITEM)
#undef CBI_LOOP_ITEM
    default: break;
    }
    if (text != NULL) {
        cbi_loop_put(t, text);
    } else {
        cbi_loop_put(t, "system error ");
        cbi_loop_put_u64(t, (uint64_t)(error < 0 ? 0 : error));
    }
}
#endif

/* -- 3. addresses and URLs ----------------------------------------------------------------------------- */

CB_LOOP_DEF uint16_t cb_loop_address_port(const cb_loop_address *address)
{
    return address->port;
}

static void cbi_loop_put_address(cbi_loop_text *t, const cb_loop_address *a)
{
    char ip[INET6_ADDRSTRLEN];
    if (a->family == 0 || inet_ntop(a->family == 6 ? AF_INET6 : AF_INET, a->ip, ip, sizeof ip) == NULL) {
        cbi_loop_put(t, "?");
        return;
    }
    cbi_loop_put(t, a->family == 6 ? "[" : "");
    cbi_loop_put(t, ip);
    cbi_loop_put(t, a->family == 6 ? "]:" : ":");
    cbi_loop_put_u64(t, a->port);
}

CB_LOOP_DEF char *cb_loop_address_str(const cb_loop_address *address, char *buf, size_t cap)
{
    cbi_loop_text t;
    cbi_loop_text_begin(&t, buf, cap);
    cbi_loop_put_address(&t, address);
    return buf;
}

static socklen_t cbi_loop_address_to(const cb_loop_address *a, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof *out);
    if (a->family == 6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)out;
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(a->port);
        in6->sin6_scope_id = a->scope;
        memcpy(&in6->sin6_addr, a->ip, 16);
        return (socklen_t)sizeof *in6;
    } else {
        struct sockaddr_in *in4 = (struct sockaddr_in *)(void *)out;
        in4->sin_family = AF_INET;
        in4->sin_port = htons(a->port);
        memcpy(&in4->sin_addr, a->ip, 4);
        return (socklen_t)sizeof *in4;
    }
}

static void cbi_loop_address_from(cb_loop_address *a, const struct sockaddr_storage *in)
{
    memset(a, 0, sizeof *a);
    if (in->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)in;
        a->family = 6;
        a->port = ntohs(in6->sin6_port);
        a->scope = in6->sin6_scope_id;
        memcpy(a->ip, &in6->sin6_addr, 16);
    } else if (in->ss_family == AF_INET) {
        const struct sockaddr_in *in4 = (const struct sockaddr_in *)(const void *)in;
        a->family = 4;
        a->port = ntohs(in4->sin_port);
        memcpy(a->ip, &in4->sin_addr, 4);
    }
}

/* "127.0.0.1:4000" or "[::1]:4000" behind the scheme. Returns NULL, or what is wrong. */
static const char *cbi_loop_address_parse(cb_loop_address *a, const char *s)
{
    char host[INET6_ADDRSTRLEN];
    bool six = *s == '[';
    const char *end = strchr(s, six ? ']' : ':');
    const char *port = end == NULL ? NULL : end + (six ? 1 : 0);
    uint32_t number = 0;
    if (port == NULL || *port != ':' || port[1] == '\0') {
        return "a port is missing";
    }
    s += six ? 1 : 0;
    if ((size_t)(end - s) >= sizeof host) {
        return "not a numeric address";
    }
    memset(a, 0, sizeof *a);
    memcpy(host, s, (size_t)(end - s));
    host[end - s] = '\0';
    a->family = six ? 6 : 4;
    if (inet_pton(six ? AF_INET6 : AF_INET, host, a->ip) != 1) {
        return "not a numeric address";
    }
    for (port++; *port >= '0' && *port <= '9' && number <= 65535u; port++) {
        number = number * 10u + (uint32_t)(*port - '0');
    }
    if (*port != '\0' || number > 65535u) {
        return "the port is not a number up to 65535";
    }
    a->port = (uint16_t)number;
    return NULL;
}

/* The reason of a failed call: "bind tcp://127.0.0.1:4000: address in use". Returns the status. */
static cb_loop_status cbi_loop_fail(struct cbi_loop_core *core, const char *what, const cb_loop_address *a,
                                    int error)
{
#ifndef CB_LOOP_NO_STRINGS
    cbi_loop_text t;
    cbi_loop_text_begin(&t, core->reason, sizeof core->reason);
    cbi_loop_put(&t, what);
    if (a != NULL) {
        cbi_loop_put(&t, " tcp://");
        cbi_loop_put_address(&t, a);
    }
    cbi_loop_put(&t, ": ");
    cbi_loop_put_error(&t, error);
#else
    (void)core;
    (void)what;
    (void)a;
#endif
    return cbi_loop_status_of(error);
}

static cb_loop_status cbi_loop_refuse(struct cbi_loop_core *core, cb_loop_status status, const char *what)
{
#ifndef CB_LOOP_NO_STRINGS
    cbi_loop_text t;
    cbi_loop_text_begin(&t, core->reason, sizeof core->reason);
    cbi_loop_put(&t, what);
#else
    (void)core;
    (void)what;
#endif
    return status;
}

static cb_loop_status cbi_loop_url_parse(struct cbi_loop_core *core, const char *url, cb_loop_address *a)
{
    const char *wrong;
    if (url == NULL) {
        return cbi_loop_refuse(core, CB_LOOP_E_URL, "url: none given");
    }
    wrong = strstr(url, "://") == NULL ? "a scheme is missing, as in tcp://127.0.0.1:4000"
            : strncmp(url, "tcp://", 6) != 0 ? "unknown scheme, only tcp is built so far"
            : cbi_loop_address_parse(a, url + 6);
    if (wrong == NULL) {
        return CB_LOOP_OK;
    }
#ifndef CB_LOOP_NO_STRINGS
    {
        cbi_loop_text t;
        cbi_loop_text_begin(&t, core->reason, sizeof core->reason);
        cbi_loop_put(&t, "url '");
        cbi_loop_put_n(&t, url, cbi_loop_min(strlen(url), 80));
        cbi_loop_put(&t, "': ");
        cbi_loop_put(&t, wrong);
    }
#endif
    return CB_LOOP_E_URL;
}

/* -- 4. clock ------------------------------------------------------------------------------------------ */

static uint64_t cbi_loop_system_clock(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * CBI_LOOP_SECOND + (uint64_t)ts.tv_nsec;
}

/* A source that steps back stands still for us. */
static uint64_t cbi_loop_read_clock(struct cbi_loop_core *core)
{
    uint64_t now = core->clock != NULL ? core->clock(core->clock_user) : CBI_LOOP_SYS_CLOCK();
    if (now > core->now) {
        core->now = now;
    }
    core->now_known = true;
    return core->now;
}

static uint64_t cbi_loop_time(struct cbi_loop_core *core)
{
    return core->now_known ? core->now : cbi_loop_read_clock(core);
}

CB_LOOP_DEF uint64_t cb_loop_now(const cb_loop *loop)
{
    return cbi_loop_time(loop->core);
}

/* -- 5. timers ----------------------------------------------------------------------------------------- */
/* A wheel of eleven levels of 64 slots: level k holds timers whose deadline differs from `elapsed` first in
 * its k-th group of six bits, so a slot of level 0 is one nanosecond, all of a level comes before all of the
 * next, and a timer moves down at most once a level. What is due is sorted by deadline and order of starting;
 * it mostly is in order.
 *
 * A start only notes the timer in `fresh`; the next reading of the clock gives it its deadline. One that is
 * restarted for later than its slot stays there, its neighbours untouched, and moves when the slot is
 * reached. */

static cb_loop_timer *cbi_loop_timer_of(cbi_loop_link *link)
{
    return (cb_loop_timer *)(void *)link; /* its first member */
}

/* Whether a runs before b. Orders are compared by difference: they wrap. */
static bool cbi_loop_timer_before(cbi_loop_link *a, cbi_loop_link *b)
{
    const cb_loop_timer *x = cbi_loop_timer_of(a), *y = cbi_loop_timer_of(b);
    return x->deadline < y->deadline || (x->deadline == y->deadline && x->order - y->order >= 0x80000000u);
}

static bool cbi_loop_timer_active(const cb_loop_timer *timer)
{
    return (timer->flags & CBI_LOOP_IN_LIST) != 0 || timer->fresh != 0;
}

static void cbi_loop_timer_link(cbi_loop_link *head, cb_loop_timer *timer)
{
    cbi_loop_append(head, &timer->link);
    timer->flags |= CBI_LOOP_IN_LIST;
}

static void cbi_loop_timer_unlink(cb_loop_timer *timer)
{
    cbi_loop_unlink(&timer->link);
    timer->flags &= (uint16_t)~(unsigned)CBI_LOOP_IN_LIST;
}

static void cbi_loop_timer_ready(struct cbi_loop_core *core, cb_loop_timer *timer)
{
    cbi_loop_link *last = core->ready.prev;
    if (last != &core->ready && !cbi_loop_timer_before(last, &timer->link)) {
        core->ready_unsorted = true;
    }
    if ((timer->flags & CBI_LOOP_PERIODIC) == 0) {
        timer->span = CBI_LOOP_IS_DUE;
    }
    cbi_loop_timer_link(&core->ready, timer);
}

/* Hot: every timer passes here once, and once more for each level it moves down. */
static void cbi_loop_wheel_insert(struct cbi_loop_core *core, cb_loop_timer *timer)
{
    unsigned level, slot;
    if (timer->deadline <= core->elapsed) {
        cbi_loop_timer_ready(core, timer);
        return;
    }
    level = cbi_loop_high_bit(timer->deadline ^ core->elapsed) / 6u;
    slot = (unsigned)(timer->deadline >> (6u * level)) & (CBI_LOOP_SLOTS - 1u);
    if ((timer->flags & CBI_LOOP_PERIODIC) == 0) {
        timer->span = timer->deadline;
    }
    core->used[level] |= (uint64_t)1 << slot;
    cbi_loop_timer_link(&core->wheel[level * CBI_LOOP_SLOTS + slot], timer);
}

/* The first slot that is not empty and the time it begins. */
static cbi_loop_link *cbi_loop_wheel_first(struct cbi_loop_core *core, unsigned *level, uint64_t *begin)
{
    unsigned k;
    for (k = 0; k < CBI_LOOP_LEVELS; k++) {
        while (core->used[k] != 0) {
            unsigned slot = cbi_loop_low_bit(core->used[k]);
            cbi_loop_link *head = &core->wheel[k * CBI_LOOP_SLOTS + slot];
            if (!cbi_loop_list_empty(head)) {
                uint64_t above = k + 1u < CBI_LOOP_LEVELS ? UINT64_MAX << (6u * (k + 1u)) : 0u;
                *level = k;
                *begin = (core->elapsed & above) | (uint64_t)slot << (6u * k);
                return head;
            }
            core->used[k] &= core->used[k] - 1u; /* stopped timers leave their bit behind */
        }
    }
    return NULL;
}

/* Moves all that is due at `now` to `ready`, and down what shares a slot with it. */
static void cbi_loop_wheel_advance(struct cbi_loop_core *core, uint64_t now)
{
    cbi_loop_link *head, *link, moved;
    uint64_t begin;
    unsigned level;
    while ((head = cbi_loop_wheel_first(core, &level, &begin)) != NULL && begin <= now) {
        core->elapsed = begin;
        core->used[level] &= core->used[level] - 1u;
        cbi_loop_list_init(&moved);
        cbi_loop_splice(&moved, head);
        for (link = moved.next; link != &moved;) {
            cb_loop_timer *timer = cbi_loop_timer_of(link);
            link = link->next;
            if (timer->deadline <= now) {
                cbi_loop_timer_ready(core, timer);
            } else {
                cbi_loop_wheel_insert(core, timer);
            }
        }
    }
    core->elapsed = now;
}

/* Gives what was started since the last time its deadline, counted from `now`, and its place: `ready` up to
 * `due`. */
static void cbi_loop_timers_place(struct cbi_loop_core *core, uint64_t now, uint64_t due)
{
    uint32_t i;
    for (i = 0; i < core->fresh_count; i++) {
        cb_loop_timer *timer = core->fresh[i];
        if (timer == NULL) {
            continue; /* stopped since */
        }
        timer->fresh = 0;
        if ((timer->flags & CBI_LOOP_RELATIVE) != 0) {
            timer->flags &= (uint16_t)~(unsigned)CBI_LOOP_RELATIVE;
            timer->deadline = cbi_loop_add(now, timer->deadline);
        }
        if ((timer->flags & CBI_LOOP_IN_LIST) != 0) { /* in the wheel */
            if (timer->span <= timer->deadline) {
                continue;
            }
            cbi_loop_timer_unlink(timer);
        }
        if (timer->deadline <= due) {
            cbi_loop_timer_ready(core, timer);
        } else {
            cbi_loop_wheel_insert(core, timer);
        }
    }
    core->fresh_count = 0;
}

/* Merges two sorted lists that end in NULL. */
static cbi_loop_link *cbi_loop_timers_merge(cbi_loop_link *a, cbi_loop_link *b)
{
    cbi_loop_link head, *last = &head;
    while (a != NULL && b != NULL) {
        cbi_loop_link **from = cbi_loop_timer_before(a, b) ? &a : &b;
        last->next = *from;
        last = *from;
        *from = last->next;
    }
    last->next = a != NULL ? a : b;
    return head.next;
}

/* Cuts the sorted run off the front of *list, which ends in NULL. */
static cbi_loop_link *cbi_loop_timers_run(cbi_loop_link **list)
{
    cbi_loop_link *run = *list, *last = run;
    while (last->next != NULL && cbi_loop_timer_before(last, last->next)) {
        last = last->next;
    }
    *list = last->next;
    last->next = NULL;
    return run;
}

/* A natural merge sort of a list that is not empty: n log(number of runs). */
static void cbi_loop_timers_sort(cbi_loop_link *head)
{
    cbi_loop_link *runs[64], *list = head->next, *run, *prev = head;
    unsigned i, top = 0;
    head->prev->next = NULL;
    while (list != NULL) { /* runs[i] is NULL or the merger of 2^i runs */
        run = cbi_loop_timers_run(&list);
        for (i = 0; i < top && runs[i] != NULL; i++) {
            run = cbi_loop_timers_merge(runs[i], run);
            runs[i] = NULL;
        }
        runs[i] = run;
        top += i == top ? 1u : 0u;
    }
    run = NULL;
    for (i = 0; i < top; i++) {
        run = runs[i] == NULL ? run : cbi_loop_timers_merge(runs[i], run);
    }
    for (head->next = run; run != NULL; run = run->next) {
        run->prev = prev;
        prev = run;
    }
    prev->next = head;
    head->prev = prev;
}

/* A periodic timer is active again before it is called. Multiples that have passed are left out. */
static void cbi_loop_timer_again(struct cbi_loop_core *core, cb_loop_timer *timer, uint64_t now)
{
    uint64_t next = cbi_loop_add(timer->deadline, timer->span);
    if (next <= now) {
        next = cbi_loop_add(next, ((now - next) / timer->span + 1u) * timer->span);
    }
    timer->deadline = next;
    timer->order = ++core->order;
    cbi_loop_wheel_insert(core, timer);
}

/* One timer pass. What is started meanwhile waits in `fresh`, so the loop below ends. */
static void cbi_loop_timers_pass(struct cbi_loop_core *core)
{
    uint64_t now = cbi_loop_read_clock(core);
    cbi_loop_timers_place(core, now, now);
    cbi_loop_wheel_advance(core, now);
    if (core->ready_unsorted) {
        core->ready_unsorted = false;
        cbi_loop_timers_sort(&core->ready);
    }
    cbi_loop_splice(&core->due, &core->ready);
    while (!cbi_loop_list_empty(&core->due)) {
        cb_loop_timer *timer = cbi_loop_timer_of(core->due.next);
        cbi_loop_timer_unlink(timer);
        if ((timer->flags & CBI_LOOP_PERIODIC) != 0) {
            cbi_loop_timer_again(core, timer, now);
        } else {
            core->timers--;
        }
        timer->fn(timer->user, timer, now);
    }
}

/* The time before which no timer is due; 0: one may be due now. */
static uint64_t cbi_loop_timers_begin(struct cbi_loop_core *core)
{
    uint64_t begin = 0;
    unsigned level;
    if (core->fresh_count == 0 && cbi_loop_list_empty(&core->ready)) {
        (void)cbi_loop_wheel_first(core, &level, &begin);
    }
    return begin;
}

/* Nanoseconds until a timer may be due, never too many; CB_LOOP_FOREVER when the alarm was set for it. Reads
 * the clock: the last reading is as old as the callbacks since then took. */
static uint64_t cbi_loop_timers_wait(struct cbi_loop_core *core)
{
    uint64_t now = cbi_loop_read_clock(core), begin;
    cbi_loop_timers_place(core, now, core->elapsed);
    begin = cbi_loop_timers_begin(core);
    if (begin <= now) {
        return 0;
    }
    core->quiet = core->clock == NULL && begin - now >= CBI_LOOP_NEAR && core->backend->alarm(core, begin);
    return core->quiet ? CB_LOOP_FOREVER : begin - now;
}

static void cbi_loop_timer_disarm(struct cbi_loop_core *core, cb_loop_timer *timer)
{
    if (!cbi_loop_timer_active(timer)) {
        return;
    }
    core->timers--;
    if ((timer->flags & CBI_LOOP_IN_LIST) != 0) {
        cbi_loop_timer_unlink(timer);
    }
    if (timer->fresh != 0) {
        core->fresh[timer->fresh - 1u] = NULL;
        core->fresh_count -= timer->fresh == core->fresh_count ? 1u : 0u;
        timer->fresh = 0;
    }
}

/* At the loop's end: their memory may be freed or used again afterwards. */
static void cbi_loop_timers_drop(struct cbi_loop_core *core)
{
    cbi_loop_link *head;
    uint64_t begin;
    unsigned level;
    cbi_loop_timers_place(core, core->now, core->elapsed);
    while ((head = cbi_loop_wheel_first(core, &level, &begin)) != NULL) {
        cbi_loop_splice(&core->ready, head);
    }
    while (!cbi_loop_list_empty(&core->ready)) {
        cbi_loop_timer_disarm(core, cbi_loop_timer_of(core->ready.next));
    }
}

/* Makes room in `fresh`: a reading of the clock just for those in it, which the pass does not see. */
static void cbi_loop_timers_make_room(struct cbi_loop_core *core)
{
    uint64_t now = core->clock != NULL ? core->now : CBI_LOOP_SYS_CLOCK();
    cbi_loop_timers_place(core, now, core->elapsed);
}

static cb_loop_status cbi_loop_timer_arm(struct cbi_loop_core *core, cb_loop_timer *timer, uint64_t when,
                                         unsigned flags)
{
    if (CBI_LOOP_UNLIKELY(core->ended)) {
        return CB_LOOP_E_CLOSED;
    }
    if (!cbi_loop_timer_active(timer)) {
        core->timers++;
    } else if ((timer->flags & CBI_LOOP_IN_LIST) != 0) {
        if ((timer->flags & CBI_LOOP_PERIODIC) != 0 || timer->span == CBI_LOOP_IS_DUE) {
            cbi_loop_timer_unlink(timer);
        }
    }
    if (timer->fresh == 0) {
        if (CBI_LOOP_UNLIKELY(core->fresh_count == CBI_LOOP_FRESH)) {
            cbi_loop_timers_make_room(core);
        }
        core->fresh[core->fresh_count++] = timer;
        timer->fresh = (uint16_t)core->fresh_count;
    }
    timer->deadline = when;
    timer->flags = (uint16_t)((timer->flags & CBI_LOOP_IN_LIST) | flags);
    timer->order = ++core->order;
    return CB_LOOP_OK;
}

static cb_loop_status cbi_loop_timer_arm_in(struct cbi_loop_core *core, cb_loop_timer *timer, uint64_t delay,
                                            unsigned flags)
{
    if (core->clock != NULL) {
        return cbi_loop_timer_arm(core, timer, cbi_loop_add(cbi_loop_time(core), delay), flags);
    }
    return cbi_loop_timer_arm(core, timer, delay, flags | CBI_LOOP_RELATIVE);
}

static void cbi_loop_timer_make(cb_loop_timer *timer, cb_loop_timer_fn fn, void *user)
{
    CB_LOOP_ASSERT(fn != NULL);
    memset(timer, 0, sizeof *timer);
    timer->fn = fn;
    timer->user = user;
}

CB_LOOP_DEF void cb_loop_timer_init(cb_loop_timer *timer, cb_loop_timer_fn fn, void *user)
{
    cbi_loop_timer_make(timer, fn, user);
}

CB_LOOP_DEF cb_loop_status cb_loop_timer_start(cb_loop *loop, cb_loop_timer *timer, uint64_t delay_ns)
{
    CB_LOOP_ASSERT(loop != NULL && timer != NULL);
    return loop->core == NULL ? CB_LOOP_E_CLOSED : cbi_loop_timer_arm_in(loop->core, timer, delay_ns, 0);
}

CB_LOOP_DEF cb_loop_status cb_loop_timer_start_at(cb_loop *loop, cb_loop_timer *timer, uint64_t deadline_ns)
{
    CB_LOOP_ASSERT(loop != NULL && timer != NULL);
    return loop->core == NULL ? CB_LOOP_E_CLOSED : cbi_loop_timer_arm(loop->core, timer, deadline_ns, 0);
}

CB_LOOP_DEF cb_loop_status cb_loop_timer_start_every(cb_loop *loop, cb_loop_timer *timer, uint64_t delay_ns,
                                                     uint64_t interval_ns)
{
    CB_LOOP_ASSERT(loop != NULL && timer != NULL);
    if (loop->core == NULL || interval_ns == 0) {
        return interval_ns == 0 ? CB_LOOP_E_ARG : CB_LOOP_E_CLOSED;
    }
    cbi_loop_timer_disarm(loop->core, timer); /* span changes its meaning */
    timer->span = interval_ns;
    return cbi_loop_timer_arm_in(loop->core, timer, delay_ns, CBI_LOOP_PERIODIC);
}

CB_LOOP_DEF void cb_loop_timer_stop(cb_loop *loop, cb_loop_timer *timer)
{
    CB_LOOP_ASSERT(loop != NULL && timer != NULL);
    if (loop->core != NULL) {
        cbi_loop_timer_disarm(loop->core, timer);
    }
}

CB_LOOP_DEF bool cb_loop_timer_is_active(const cb_loop_timer *timer)
{
    return cbi_loop_timer_active(timer);
}

/* -- 6. posts ------------------------------------------------------------------------------------------ */
/* Other threads push on a stack that the loop takes as a whole and turns round. The head is the loop's own
 * address once it has ended, so that a task is either taken by deinit or refused, never lost.
 *
 * Who pushes on an empty stack wakes the loop if it sleeps, and counts that in `wakes` when it is through
 * with the descriptor; every batch taken had one such thread, so deinit knows how many to wait for. */

static cb_loop_task *cbi_loop_ended_mark(cb_loop *loop)
{
    return (cb_loop_task *)(void *)loop;
}

static void cbi_loop_wake(const cb_loop *loop)
{
    static const uint64_t one = 1;
    int error = errno; /* a signal handler may be where we are */
    while (write(loop->wake_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
    errno = error; /* a full pipe is a wake-up as well */
}

static cb_loop_status cbi_loop_push(cb_loop *loop, cb_loop_task *task)
{
    cb_loop_task *head = __atomic_load_n(&loop->posted, __ATOMIC_RELAXED);
    do {
        if (head == cbi_loop_ended_mark(loop)) {
            return CB_LOOP_E_CLOSED;
        }
        task->next = head;
    } while (
        !__atomic_compare_exchange_n(&loop->posted, &head, task, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    if (head == NULL) {
        if (__atomic_load_n(&loop->asleep, __ATOMIC_SEQ_CST) != 0) {
            cbi_loop_wake(loop);
        }
        __atomic_fetch_add(&loop->wakes, 1u, __ATOMIC_RELEASE);
    }
    return CB_LOOP_OK;
}

/* Takes what other threads have posted, oldest first, and puts `mark` in its place. */
static cb_loop_task *cbi_loop_take_posted(struct cbi_loop_core *core, cb_loop_task *mark)
{
    cb_loop_task *task = __atomic_exchange_n(&core->loop->posted, mark, __ATOMIC_ACQ_REL), *list = NULL;
    core->batches += task != NULL ? 1u : 0u;
    while (task != NULL) {
        cb_loop_task *next = task->next;
        task->next = list;
        list = task;
        task = next;
    }
    return list;
}

static bool cbi_loop_has_posts(const struct cbi_loop_core *core)
{
    return core->own_first != NULL || __atomic_load_n(&core->loop->posted, __ATOMIC_SEQ_CST) != NULL;
}

static void cbi_loop_tasks_run(cb_loop_task *task, cb_loop_status status)
{
    while (task != NULL) {
        cb_loop_task *next = task->next;
        task->fn(task->user, task, status);
        task = next;
    }
}

static cb_loop_task *cbi_loop_take_own(struct cbi_loop_core *core)
{
    cb_loop_task *own = core->own_first;
    core->own_first = NULL;
    core->own_last = NULL;
    return own;
}

/* What a task posts runs in the next pass. */
static void cbi_loop_posts_pass(struct cbi_loop_core *core)
{
    cb_loop_task *own = cbi_loop_take_own(core);
    cb_loop_task *posted = cbi_loop_take_posted(core, NULL);
    cbi_loop_tasks_run(own, CB_LOOP_OK);
    cbi_loop_tasks_run(posted, CB_LOOP_OK);
}

/* After this every post is refused, and no other thread is at the waker's descriptor. */
static void cbi_loop_posts_end(struct cbi_loop_core *core)
{
    cb_loop_task *own, *posted;
    __atomic_store_n(&core->loop->owner, (uintptr_t)0, __ATOMIC_RELAXED);
    own = cbi_loop_take_own(core);
    posted = cbi_loop_take_posted(core, cbi_loop_ended_mark(core->loop));
    while (__atomic_load_n(&core->loop->wakes, __ATOMIC_ACQUIRE) != core->batches) {
        (void)sched_yield();
    }
    cbi_loop_tasks_run(own, CB_LOOP_E_CLOSED);
    cbi_loop_tasks_run(posted, CB_LOOP_E_CLOSED);
}

CB_LOOP_DEF void cb_loop_task_init(cb_loop_task *task,
                                   void (*fn)(void *user, cb_loop_task *task, cb_loop_status status),
                                   void *user)
{
    task->next = NULL;
    task->fn = fn;
    task->user = user;
}

static void cbi_loop_post_own(struct cbi_loop_core *core, cb_loop_task *task)
{
    task->next = NULL;
    if (core->own_last != NULL) {
        core->own_last->next = task;
    } else {
        core->own_first = task;
    }
    core->own_last = task;
}

CB_LOOP_DEF cb_loop_status cb_loop_post(cb_loop *loop, cb_loop_task *task)
{
    CB_LOOP_ASSERT(loop != NULL && task != NULL && task->fn != NULL);
    if (__atomic_load_n(&loop->owner, __ATOMIC_RELAXED) == cbi_loop_thread()) {
        cbi_loop_post_own(loop->core, task);
        return CB_LOOP_OK;
    }
    return cbi_loop_push(loop, task);
}

/* loop->stopping. A stop that a run has obeyed may still have its task in the queue. */
enum { CBI_LOOP_STOP_NONE, CBI_LOOP_STOP_ASKED, CBI_LOOP_STOP_OBEYED };

/* Stopping is a task like any other, so it cannot race with deinit; posted once until it ran. */
static void cbi_loop_on_stop(void *user, cb_loop_task *task, cb_loop_status status)
{
    cb_loop *loop = (cb_loop *)user;
    (void)task;
    (void)status;
    if (__atomic_exchange_n(&loop->stopping, CBI_LOOP_STOP_NONE, __ATOMIC_ACQ_REL) == CBI_LOOP_STOP_ASKED) {
        loop->core->stop = true;
    }
}

CB_LOOP_DEF void cb_loop_stop(cb_loop *loop)
{
    CB_LOOP_ASSERT(loop != NULL);
    if (__atomic_exchange_n(&loop->stopping, CBI_LOOP_STOP_ASKED, __ATOMIC_ACQ_REL) == CBI_LOOP_STOP_NONE) {
        (void)cbi_loop_push(loop, &loop->stop_task);
    }
}

/* -- 7. events ----------------------------------------------------------------------------------------- */

typedef struct cbi_loop_emit { /* one emit under way; it lives on the emitter's stack */
    struct cbi_loop_emit *outer;
    cb_loop_event_listener *next;
    uint64_t age; /* listeners added after it began are younger */
} cbi_loop_emit;

/* Returns the last one that is to be called, or NULL. */
static cb_loop_event_listener *cbi_loop_emit_all_but_last(cb_loop_event *event,
                                                          cb_loop_event_listener *listener, void *payload)
{
    cbi_loop_emit emit;
    emit.outer = event->emits;
    emit.age = event->age;
    event->emits = &emit;
    while (listener != NULL && listener->next != NULL) {
        emit.next = listener->next;
        if (listener->age <= emit.age) {
            listener->fn(listener->user, payload);
        }
        listener = emit.next;
    }
    event->emits = emit.outer;
    return listener != NULL && listener->age <= emit.age ? listener : NULL;
}

CB_LOOP_DEF void cb_loop_event_init(cb_loop_event *event)
{
    memset(event, 0, sizeof *event);
}

CB_LOOP_DEF void cb_loop_event_listener_init(cb_loop_event_listener *listener, cb_loop_event_fn fn,
                                             void *user)
{
    memset(listener, 0, sizeof *listener);
    listener->fn = fn;
    listener->user = user;
}

static void cbi_loop_event_remove(cb_loop_event *event, cb_loop_event_listener *listener)
{
    cbi_loop_emit *emit;
    if (!listener->listening) {
        return;
    }
    for (emit = event->emits; emit != NULL; emit = emit->outer) {
        if (emit->next == listener) {
            emit->next = listener->next;
        }
    }
    *(listener->next != NULL ? &listener->next->prev : &event->last) = listener->prev;
    *(listener->prev != NULL ? &listener->prev->next : &event->first) = listener->next;
    listener->listening = false;
}

CB_LOOP_DEF void cb_loop_event_listen(cb_loop_event *event, cb_loop_event_listener *listener,
                                      int32_t priority)
{
    cb_loop_event_listener *before;
    CB_LOOP_ASSERT(listener->fn != NULL);
    cbi_loop_event_remove(event, listener);
    before = event->last;
    while (before != NULL && before->priority < priority) {
        before = before->prev;
    }
    listener->priority = priority;
    listener->age = ++event->age;
    listener->listening = true;
    listener->prev = before;
    listener->next = before != NULL ? before->next : event->first;
    *(listener->next != NULL ? &listener->next->prev : &event->last) = listener;
    *(before != NULL ? &before->next : &event->first) = listener;
}

CB_LOOP_DEF void cb_loop_event_unlisten(cb_loop_event *event, cb_loop_event_listener *listener)
{
    cbi_loop_event_remove(event, listener);
}

/* The last listener is called when the emit is over for the event's part: who comes behind it meanwhile is
 * younger. */
CB_LOOP_DEF void cb_loop_event_emit(cb_loop_event *event, void *payload)
{
    cb_loop_event_listener *listener = event->first;
    if (listener != NULL && listener->next != NULL) {
        listener = cbi_loop_emit_all_but_last(event, listener, payload);
    }
    if (listener != NULL) {
        listener->fn(listener->user, payload);
    }
}

/* -- 8. pooled buffers --------------------------------------------------------------------------------- */

/* The class of a size and its capacity. Above 1 GiB nothing is pooled, and sizes are exact. */
static size_t cbi_loop_class(size_t size, size_t *cap)
{
    unsigned top;
    size_t step, quarter;
    if (size <= CBI_LOOP_CHUNK) {
        *cap = size == 0 ? 0u : size <= CBI_LOOP_SMALL ? CBI_LOOP_SMALL : CBI_LOOP_CHUNK;
        return size == 0 ? 0u : size <= CBI_LOOP_SMALL ? 1u : 2u;
    }
    top = cbi_loop_high_bit((uint64_t)size - 1u);
    step = ((size_t)1 << top) / 4u;
    quarter = (size - 1u - ((size_t)1 << top)) / step;
    if (top >= 30u) {
        *cap = size;
        return CBI_LOOP_CLASSES;
    }
    *cap = ((size_t)1 << top) + (quarter + 1u) * step;
    return 3u + (top - 14u) * 4u + quarter;
}

static cbi_loop_buf *cbi_loop_buf_get(struct cbi_loop_core *core, size_t size)
{
    size_t cap, k = cbi_loop_class(size, &cap);
    cbi_loop_buf *b = k < CBI_LOOP_CLASSES ? core->pool[k] : NULL;
    if (b != NULL) {
        core->pool[k] = b->next;
        core->pooled -= cap + sizeof *b;
    } else if (cap > SIZE_MAX - sizeof *b ||
               (b = (cbi_loop_buf *)cbi_loop_get(core, sizeof *b + cap)) == NULL) {
        return NULL;
    }
    core->taken++;
    b->next = NULL;
    b->shared = NULL;
    b->data = (uint8_t *)(void *)(b + 1);
    b->cap = cap;
    b->pool = k;
    b->at = 0;
    b->size = 0;
    return b;
}

static void cbi_loop_buf_put(struct cbi_loop_core *core, cbi_loop_buf *b)
{
    cb_shared *shared = b->shared;
    size_t size = b->cap + sizeof *b;
    if (b->pool < CBI_LOOP_CLASSES && size <= core->pool_max - core->pooled) {
        b->next = core->pool[b->pool];
        core->pool[b->pool] = b;
        core->pooled += size;
        if (CBI_LOOP_UNLIKELY(!cbi_loop_timer_active(&core->trimmer))) {
            core->trimmer_saw = core->taken;
            (void)cbi_loop_timer_arm_in(core, &core->trimmer, CBI_LOOP_SECOND, 0);
        }
    } else {
        cbi_loop_release(core, b, size);
    }
    if (shared != NULL && --shared->refs == 0 && shared->release != NULL) {
        shared->release(shared);
    }
}

static CBI_LOOP_COLD void cbi_loop_pool_trim(struct cbi_loop_core *core)
{
    size_t k;
    for (k = 0; k < CBI_LOOP_CLASSES; k++) {
        while (core->pool[k] != NULL) {
            cbi_loop_buf *b = core->pool[k];
            core->pool[k] = b->next;
            cbi_loop_release(core, b, sizeof *b + b->cap);
        }
    }
    core->pooled = 0;
}

/* A second after the pool was last looked at: nobody has used it since, or it is looked at again. */
static void cbi_loop_on_trim(void *user, cb_loop_timer *timer, uint64_t now_ns)
{
    struct cbi_loop_core *core = (struct cbi_loop_core *)user;
    (void)now_ns;
    if (core->trimmer_saw == core->taken) {
        cbi_loop_pool_trim(core);
    } else {
        core->trimmer_saw = core->taken;
        (void)cbi_loop_timer_arm_in(core, timer, CBI_LOOP_SECOND, 0);
    }
}

CB_LOOP_DEF void cb_loop_trim(cb_loop *loop)
{
    if (loop->core != NULL) {
        cbi_loop_pool_trim(loop->core);
    }
}

/* -- 9. backends --------------------------------------------------------------------------------------- */

/* Milliseconds, rounded up: a wait that ended early would only come back. */
static int cbi_loop_wait_ms(uint64_t wait_ns)
{
    uint64_t ms = wait_ns / CBI_LOOP_MS + (wait_ns % CBI_LOOP_MS != 0 ? 1u : 0u);
    if (wait_ns == CB_LOOP_FOREVER) {
        return -1;
    }
    return ms < (uint64_t)INT_MAX ? (int)ms : INT_MAX;
}

#if defined(__linux__)
static bool cbi_loop_epoll_open(struct cbi_loop_core *core)
{
    struct epoll_event e;
    core->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    core->alarm.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (core->epoll_fd < 0 || core->alarm.fd < 0) {
        return false;
    }
    memset(&e, 0, sizeof e);
    e.events = EPOLLIN | EPOLLET; /* edges: neither has to be read */
    e.data.ptr = &core->waker;
    if (epoll_ctl(core->epoll_fd, EPOLL_CTL_ADD, core->waker.fd, &e) != 0) {
        return false;
    }
    e.data.ptr = &core->alarm;
    return epoll_ctl(core->epoll_fd, EPOLL_CTL_ADD, core->alarm.fd, &e) == 0;
}

static bool cbi_loop_epoll_alarm(struct cbi_loop_core *core, uint64_t at)
{
    struct itimerspec when;
    memset(&when, 0, sizeof when);
    when.it_value.tv_sec = (time_t)(at / CBI_LOOP_SECOND);
    when.it_value.tv_nsec = (int)(at % CBI_LOOP_SECOND);
    if ((uint64_t)when.it_value.tv_sec != at / CBI_LOOP_SECOND ||
        timerfd_settime(core->alarm.fd, TFD_TIMER_ABSTIME, &when, NULL) != 0) {
        core->alarm_at = UINT64_MAX;
        return false;
    }
    core->alarm_at = at;
    return true;
}

static void cbi_loop_epoll_close(struct cbi_loop_core *core)
{
    if (core->epoll_fd >= 0) {
        (void)close(core->epoll_fd);
    }
    if (core->alarm.fd >= 0) {
        (void)close(core->alarm.fd);
    }
}

static bool cbi_loop_epoll_set(struct cbi_loop_core *core, cbi_loop_io *io, uint8_t mask)
{
    int op = io->mask == 0 ? EPOLL_CTL_ADD : mask == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
    struct epoll_event e;
    memset(&e, 0, sizeof e);
    e.events = mask & (unsigned)(CBI_LOOP_IN | CBI_LOOP_OUT);
    e.data.ptr = io;
    return epoll_ctl(core->epoll_fd, op, io->fd, &e) == 0 || mask == 0;
}

static size_t cbi_loop_epoll_wait(struct cbi_loop_core *core, uint64_t wait_ns)
{
    int i, n = CBI_LOOP_SYS_EPOLL_WAIT(core->epoll_fd, core->events, (int)CBI_LOOP_READY,
                                       cbi_loop_wait_ms(wait_ns));
    for (i = 0; i < n; i++) {
        core->batch[i].io = (cbi_loop_io *)core->events[i].data.ptr;
        core->batch[i].mask = core->events[i].events;
        if (CBI_LOOP_UNLIKELY(core->batch[i].io == &core->alarm)) {
            core->alarm_at = UINT64_MAX; /* it came */
        }
    }
    return n > 0 ? (size_t)n : 0u; /* interrupted: the caller looks at the clock and comes again */
}
#endif

static bool cbi_loop_poll_grow(struct cbi_loop_core *core)
{
    size_t i, cap = core->poll_cap != 0 ? core->poll_cap * 2u : 64u;
    struct pollfd *fds = (struct pollfd *)cbi_loop_get(core, cap * sizeof *fds);
    cbi_loop_io **ios = (cbi_loop_io **)cbi_loop_get(core, cap * sizeof *ios);
    if (fds == NULL || ios == NULL) {
        cbi_loop_release(core, fds, fds != NULL ? cap * sizeof *fds : 0u);
        cbi_loop_release(core, ios, ios != NULL ? cap * sizeof *ios : 0u);
        errno = ENOMEM;
        return false;
    }
    for (i = 0; i < core->poll_count; i++) {
        fds[i] = core->poll_fds[i];
        ios[i] = core->poll_ios[i];
    }
    cbi_loop_release(core, core->poll_fds, core->poll_cap * sizeof *fds);
    cbi_loop_release(core, core->poll_ios, core->poll_cap * sizeof *ios);
    core->poll_fds = fds;
    core->poll_ios = ios;
    core->poll_cap = cap;
    return true;
}

static bool cbi_loop_poll_set(struct cbi_loop_core *core, cbi_loop_io *io, uint8_t mask)
{
    struct pollfd *p;
    if (mask == 0) { /* the last one takes its place */
        core->poll_count--;
        core->poll_fds[io->slot] = core->poll_fds[core->poll_count];
        core->poll_ios[io->slot] = core->poll_ios[core->poll_count];
        core->poll_ios[io->slot]->slot = io->slot;
        return true;
    }
    if (io->mask == 0) {
        if (core->poll_count == core->poll_cap && !cbi_loop_poll_grow(core)) {
            return false;
        }
        io->slot = (uint32_t)core->poll_count++;
    }
    p = &core->poll_fds[io->slot];
    p->fd = io->fd;
    p->events = (short)(mask & (CBI_LOOP_IN | CBI_LOOP_OUT));
    p->revents = 0;
    core->poll_ios[io->slot] = io;
    return true;
}

static bool cbi_loop_poll_open(struct cbi_loop_core *core)
{
    return cbi_loop_poll_set(core, &core->waker, CBI_LOOP_IN);
}

static bool cbi_loop_poll_alarm(struct cbi_loop_core *core, uint64_t at)
{
    (void)core;
    (void)at;
    return false; /* the wait's own timeout serves */
}

static void cbi_loop_poll_close(struct cbi_loop_core *core)
{
    cbi_loop_release(core, core->poll_fds, core->poll_cap * sizeof *core->poll_fds);
    cbi_loop_release(core, core->poll_ios, core->poll_cap * sizeof *core->poll_ios);
}

/* Begins where it left off, so that more ready ones than fit into a batch get their turn. */
static size_t cbi_loop_poll_wait(struct cbi_loop_core *core, uint64_t wait_ns)
{
    size_t i, n = 0;
    int left = CBI_LOOP_SYS_POLL(core->poll_fds, (nfds_t)core->poll_count, cbi_loop_wait_ms(wait_ns));
    for (i = 0; left > 0 && i < core->poll_count && n < CBI_LOOP_READY; i++) {
        size_t at = core->poll_from + i < core->poll_count ? core->poll_from + i
                                                           : (core->poll_from + i) % core->poll_count;
        if (core->poll_fds[at].revents != 0) {
            core->batch[n].io = core->poll_ios[at];
            core->batch[n++].mask = (uint32_t)core->poll_fds[at].revents;
            left--;
        }
    }
    core->poll_from = n == CBI_LOOP_READY ? (core->poll_from + i) % core->poll_count : 0u;
    return n;
}

static const cbi_loop_backend *cbi_loop_backend_find(int wish)
{
    static const cbi_loop_backend poll_backend = { cbi_loop_poll_open, cbi_loop_poll_close, cbi_loop_poll_set,
                                                   cbi_loop_poll_wait, cbi_loop_poll_alarm, true };
#if defined(__linux__)
    static const cbi_loop_backend epoll_backend = { cbi_loop_epoll_open,  cbi_loop_epoll_close,
                                                    cbi_loop_epoll_set,   cbi_loop_epoll_wait,
                                                    cbi_loop_epoll_alarm, false };
    if (wish == CB_LOOP_BACKEND_DEFAULT || wish == CB_LOOP_BACKEND_EPOLL) {
        return &epoll_backend;
    }
#endif
    return wish == CB_LOOP_BACKEND_DEFAULT || wish == CB_LOOP_BACKEND_POLL ? &poll_backend : NULL;
}

/* -- 10. descriptors ----------------------------------------------------------------------------------- */

/* Registers, changes or removes; costs a system call only when something changes. */
static bool cbi_loop_io_watch(cbi_loop_io *io, uint8_t mask)
{
    struct cbi_loop_core *core = io->core;
    if (io->mask == mask) {
        return true;
    }
    if (!core->backend->set(core, io, mask)) {
        return false;
    }
    core->handles += (io->mask == 0 ? 1u : 0u);
    core->handles -= (mask == 0 ? 1u : 0u);
    io->mask = mask;
    return true;
}

/* The descriptor goes at once; an event of it that waits in this pass's batch finds CLOSED, for the memory
 * lives on until the work list was settled. */
static void cbi_loop_io_close(cbi_loop_io *io)
{
    (void)cbi_loop_io_watch(io, 0);
    (void)close(io->fd);
    io->fd = -1;
}

/* Has the io settled at the end of this pass, or of the next one when none is running. */
static void cbi_loop_io_work(cbi_loop_io *io)
{
    struct cbi_loop_core *core = io->core;
    if ((io->flags & CBI_LOOP_LINKED) != 0) {
        return;
    }
    io->flags |= CBI_LOOP_LINKED;
    io->work_next = NULL;
    if (core->work_last != NULL) {
        core->work_last->work_next = io;
    } else {
        core->work_first = io;
    }
    core->work_last = io;
}

#if !defined(CBI_LOOP_HAS_ACCEPT4) || !defined(__linux__)
static int cbi_loop_unblock(int fd)
{
    if (fd >= 0 && (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)) {
        (void)close(fd);
        return -1;
    }
    return fd;
}
#endif

static void cbi_loop_option(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, (socklen_t)sizeof value); /* a wish; the stream works without it
                                                                         */
}

/* A socket with the desc's options; accepted ones inherit them from the listener's. */
static int cbi_loop_socket(uint8_t family, const cb_loop_stream_desc *d)
{
#if defined(__linux__)
    const int type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    int fd = CBI_LOOP_SYS_SOCKET(family == 6 ? AF_INET6 : AF_INET, type, 0);
#else
    int fd = cbi_loop_unblock(CBI_LOOP_SYS_SOCKET(family == 6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0));
#endif
    if (fd < 0) {
        return fd;
    }
    if (!d->gather_small_writes) {
        cbi_loop_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    }
    if (d->send_buffer_bytes != 0) {
        cbi_loop_option(fd, SOL_SOCKET, SO_SNDBUF, (int)cbi_loop_min(d->send_buffer_bytes, INT_MAX / 2));
    }
    if (d->recv_buffer_bytes != 0) {
        cbi_loop_option(fd, SOL_SOCKET, SO_RCVBUF, (int)cbi_loop_min(d->recv_buffer_bytes, INT_MAX / 2));
    }
#if defined(SO_NOSIGPIPE)
    cbi_loop_option(fd, SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
    return fd;
}

/* -- 11. settings -------------------------------------------------------------------------------------- */

/* Fills the defaults in; false: contradictory. */
static bool cbi_loop_stream_desc_resolve(cb_loop_stream_desc *d)
{
    d->input_bytes_max = d->input_bytes_max != 0 ? d->input_bytes_max : (size_t)16 << 20;
    d->output_bytes_soft = d->output_bytes_soft != 0 ? d->output_bytes_soft : (size_t)4 << 20;
    if (d->output_bytes_hard == 0) {
        d->output_bytes_hard = d->output_bytes_soft <= SIZE_MAX / 2u ? d->output_bytes_soft * 2u : SIZE_MAX;
    }
    d->output_stall_ns = d->output_stall_ns != 0 ? d->output_stall_ns : (uint64_t)30 * CBI_LOOP_SECOND;
    d->linger_ns = d->linger_ns != 0 ? d->linger_ns : (uint64_t)2 * CBI_LOOP_SECOND;
    return d->output_bytes_hard >= d->output_bytes_soft &&
           (d->input_policy == CB_LOOP_HOLD || d->input_policy == CB_LOOP_CLOSE);
}

static bool cbi_loop_stream_desc_equal(const cb_loop_stream_desc *a, const cb_loop_stream_desc *b)
{
    return a->on_data == b->on_data && a->on_open == b->on_open && a->on_end == b->on_end &&
           a->on_drain == b->on_drain && a->on_closed == b->on_closed && a->user == b->user &&
           a->input_bytes_max == b->input_bytes_max && a->input_policy == b->input_policy &&
           a->output_bytes_soft == b->output_bytes_soft && a->output_bytes_hard == b->output_bytes_hard &&
           a->output_stall_ns == b->output_stall_ns && a->linger_ns == b->linger_ns &&
           a->send_buffer_bytes == b->send_buffer_bytes && a->recv_buffer_bytes == b->recv_buffer_bytes &&
           a->gather_small_writes == b->gather_small_writes;
}

/* A reference to settings equal to desc: a program that connects 10,000 streams alike holds them once. The
 * search is short and starts with the latest. */
static cb_loop_status cbi_loop_settings_get(struct cbi_loop_core *core, const cb_loop_stream_desc *desc,
                                            cbi_loop_settings **out)
{
    cb_loop_stream_desc d = *desc;
    cbi_loop_settings *s = core->settings;
    int tries;
    if (!cbi_loop_stream_desc_resolve(&d)) {
        return cbi_loop_refuse(
            core, CB_LOOP_E_ARG,
            "stream desc: the hard output bound is below the soft one, or no such input policy");
    }
    for (tries = 0; s != NULL && tries < 8 && !cbi_loop_stream_desc_equal(&s->d, &d); tries++) {
        s = s->next;
    }
    if (s != NULL && tries < 8) {
        s->refs++;
        *out = s;
        return CB_LOOP_OK;
    }
    s = (cbi_loop_settings *)cbi_loop_get(core, sizeof *s);
    if (s == NULL) {
        return cbi_loop_refuse(core, CB_LOOP_E_NOMEM, "stream desc: out of memory");
    }
    s->d = d;
    s->refs = 1;
    s->prev = NULL;
    s->next = core->settings;
    if (s->next != NULL) {
        s->next->prev = s;
    }
    core->settings = s;
    *out = s;
    return CB_LOOP_OK;
}

static void cbi_loop_settings_put(struct cbi_loop_core *core, cbi_loop_settings *s)
{
    if (--s->refs == 0) {
        *(s->prev != NULL ? &s->prev->next : &core->settings) = s->next;
        if (s->next != NULL) {
            s->next->prev = s->prev;
        }
        cbi_loop_release(core, s, sizeof *s);
    }
}

/* -- 12. streams: end ---------------------------------------------------------------------------------- */

static cb_loop_stream *cbi_loop_stream_of(cbi_loop_link *link)
{
    return (cb_loop_stream *)(void *)((uint8_t *)(void *)link - offsetof(cb_loop_stream, link));
}

/* The one way into CLOSED. Buffers stay until the end of the pass: a caller may be reading in them. */
static CBI_LOOP_COLD void cbi_loop_stream_kill(cb_loop_stream *s, cb_loop_status why, uint8_t op, int error)
{
    if ((s->io.flags & CBI_LOOP_CLOSED) != 0) {
        return;
    }
    s->why = why;
    s->io.op = op;
    s->error = error;
    s->io.flags |= CBI_LOOP_CLOSED;
    cbi_loop_timer_disarm(s->io.core, &s->timer);
    cbi_loop_io_close(&s->io);
    cbi_loop_io_work(&s->io);
}

static CBI_LOOP_COLD void cbi_loop_stream_kill_error(cb_loop_stream *s, uint8_t op, int error)
{
    cbi_loop_stream_kill(s, cbi_loop_status_of(error), op, error);
}

static bool cbi_loop_stream_mute(const cb_loop_stream *s)
{
    return (s->io.flags & (CBI_LOOP_CLOSING | CBI_LOOP_CLOSED)) != 0;
}

/* Ends the stream once what was written has left. */
static void cbi_loop_stream_close(cb_loop_stream *s)
{
    if (cbi_loop_stream_mute(s)) {
        return;
    }
    if ((s->io.flags & CBI_LOOP_DEAD) != 0) {
        cbi_loop_stream_kill_error(s, CBI_LOOP_OP_WRITE, s->error);
    } else if ((s->io.flags & CBI_LOOP_CONNECTING) != 0 && s->unsent == 0) {
        cbi_loop_stream_kill(s, CB_LOOP_OK, CBI_LOOP_OP_NONE, 0);
    } else {
        s->io.flags |= CBI_LOOP_CLOSING;
        cbi_loop_io_work(&s->io);
    }
}

static void cbi_loop_stream_reason_make(const cb_loop_stream *s, char *buf, size_t cap)
{
    static const char *const ops[] = { "", "connect", "read", "write", "watch", "read" };
    cbi_loop_text t;
    cbi_loop_text_begin(&t, buf, cap);
#ifndef CB_LOOP_NO_STRINGS
    if (s->why == CB_LOOP_OK) {
        cbi_loop_put(&t, "closed");
        return;
    }
    if (s->io.op != CBI_LOOP_OP_NONE) {
        cbi_loop_put(&t, ops[s->io.op]);
        cbi_loop_put(&t, " ");
    }
    cbi_loop_put(&t, "tcp://");
    cbi_loop_put_address(&t, &s->peer);
    cbi_loop_put(&t, ": ");
    if (s->error != 0) {
        cbi_loop_put_error(&t, s->error);
    } else {
        cbi_loop_put(&t, cbi_loop_status_text(s->why));
    }
#else
    (void)s;
    (void)ops;
#endif
}

static void cbi_loop_rest_drop(cb_loop_stream *s)
{
    if (s->rest != NULL) {
        cbi_loop_buf_put(s->io.core, s->rest);
        s->rest = NULL;
    }
}

static void cbi_loop_out_drop(cb_loop_stream *s)
{
    while (s->out_first != NULL) {
        cbi_loop_buf *b = s->out_first;
        s->out_first = b->next;
        cbi_loop_buf_put(s->io.core, b);
    }
    s->out_last = NULL;
    s->unsent = 0;
}

/* Gives the memory back. Nothing of s is touched after on_closed. */
static CBI_LOOP_COLD void cbi_loop_stream_finish(cb_loop_stream *s)
{
    struct cbi_loop_core *core = s->io.core;
    cbi_loop_settings *settings;
    void *user;
    cb_loop_status why = s->why;
    cbi_loop_rest_drop(s);
    cbi_loop_out_drop(s); /* the release of shared output may still exchange the handlers */
    settings = s->settings;
    user = s->user;
    cbi_loop_unlink(&s->link);
    cbi_loop_stream_reason_make(s, core->close_reason, sizeof core->close_reason);
    if (settings->d.on_closed != NULL) {
        settings->d.on_closed(user, s, why);
    }
    cbi_loop_settings_put(core, settings);
}

/* -- 13. streams: output ------------------------------------------------------------------------------- */

static size_t cbi_loop_out_room(const cb_loop_stream *s, size_t bound)
{
    return (s->io.flags & CBI_LOOP_DEAF) != 0 || s->unsent >= bound ? 0u : bound - s->unsent;
}

/* A buffer at the end of the queue with `size` free bytes; NULL: the stream was killed for want of memory. */
static cbi_loop_buf *cbi_loop_out_grow(cb_loop_stream *s, size_t size)
{
    cbi_loop_buf *b = cbi_loop_buf_get(s->io.core, s->out_last == NULL ? size : CBI_LOOP_CHUNK);
    if (b == NULL) {
        cbi_loop_stream_kill(s, CB_LOOP_E_NOMEM, CBI_LOOP_OP_WRITE, 0);
        return NULL;
    }
    *(s->out_last != NULL ? &s->out_last->next : &s->out_first) = b;
    s->out_last = b;
    return b;
}

static bool cbi_loop_out_fits(const cbi_loop_buf *b, size_t size)
{
    return b != NULL && b->shared == NULL && b->cap - b->size >= size;
}

static void cbi_loop_out_added(cb_loop_stream *s, size_t size)
{
    s->unsent += size;
    cbi_loop_io_work(&s->io);
}

CB_LOOP_DEF size_t cb_loop_stream_write(cb_loop_stream *s, const void *data, size_t size)
{
    const uint8_t *from = (const uint8_t *)data;
    size_t left = cbi_loop_min(size, cbi_loop_out_room(s, s->settings->d.output_bytes_soft));
    size_t taken = 0;
    if (left < size) {
        s->io.flags |= CBI_LOOP_REFUSED;
    }
    while (taken < left) {
        cbi_loop_buf *b = s->out_last;
        size_t n;
        if (!cbi_loop_out_fits(b, 1)) {
            b = cbi_loop_out_grow(s, cbi_loop_min(left - taken, CBI_LOOP_CHUNK));
        }
        if (b == NULL) {
            break;
        }
        n = cbi_loop_min(left - taken, b->cap - b->size);
        memcpy(b->data + b->size, from + taken, n);
        b->size += n;
        taken += n;
        cbi_loop_out_added(s, n);
    }
    return taken;
}

static size_t cbi_loop_sink_room(void *user, bool owed)
{
    cb_loop_stream *s = (cb_loop_stream *)user;
    const cb_loop_stream_desc *d = &s->settings->d;
    s->io.flags |= (s->io.flags & CBI_LOOP_ASKED) != 0 ? CBI_LOOP_REFUSED : CBI_LOOP_ASKED;
    return cbi_loop_out_room(s, owed ? d->output_bytes_hard : d->output_bytes_soft);
}

static uint8_t *cbi_loop_sink_reserve(void *user, size_t size)
{
    cb_loop_stream *s = (cb_loop_stream *)user;
    cbi_loop_buf *b = s->out_last;
    s->io.flags &= ~(uint32_t)CBI_LOOP_ASKED;
    if (CBI_LOOP_LIKELY(cbi_loop_out_fits(b, size) && (s->io.flags & CBI_LOOP_DEAF) == 0)) {
        return b->data + b->size;
    }
    CB_LOOP_ASSERT(size <= CBI_LOOP_CHUNK);
    if ((s->io.flags & CBI_LOOP_DEAF) != 0) {
        return s->io.core->trash;
    }
    if (size > cbi_loop_out_room(s, s->settings->d.output_bytes_hard)) {
        return NULL;
    }
    b = cbi_loop_out_grow(s, size);
    return b != NULL ? b->data : s->io.core->trash;
}

static void cbi_loop_sink_commit(void *user, size_t size, bool more)
{
    cb_loop_stream *s = (cb_loop_stream *)user;
    (void)more;
    if ((s->io.flags & CBI_LOOP_DEAF) != 0) {
        return; /* those bytes lie in the trash */
    }
    CB_LOOP_ASSERT(s->out_last != NULL && size <= s->out_last->cap - s->out_last->size);
    s->out_last->size += size;
    if (size != 0) {
        cbi_loop_out_added(s, size);
    } else if (s->unsent == 0) {
        cbi_loop_out_drop(s);
    }
}

static bool cbi_loop_sink_share(void *user, cb_shared *b, bool more)
{
    cb_loop_stream *s = (cb_loop_stream *)user;
    cbi_loop_buf *node;
    (void)more;
    s->io.flags &= ~(uint32_t)CBI_LOOP_ASKED;
    if (b->size > cbi_loop_out_room(s, s->settings->d.output_bytes_hard)) {
        s->io.flags |= CBI_LOOP_REFUSED;
        return false;
    }
    if (b->size == 0) {
        return true;
    }
    node = cbi_loop_buf_get(s->io.core, 0);
    if (node == NULL) {
        return false; /* the engine copies; that fails in its own way */
    }
    node->shared = b;
    node->size = b->size;
    b->refs++;
    *(s->out_last != NULL ? &s->out_last->next : &s->out_first) = node;
    s->out_last = node;
    cbi_loop_out_added(s, b->size);
    return true;
}

CB_LOOP_DEF bool cb_loop_stream_share(cb_loop_stream *s, cb_shared *b)
{
    if (b->size > cbi_loop_out_room(s, s->settings->d.output_bytes_soft)) {
        s->io.flags |= CBI_LOOP_REFUSED;
        return false;
    }
    return cbi_loop_sink_share(s, b, false);
}

CB_LOOP_DEF cb_sink cb_loop_stream_sink(cb_loop_stream *s)
{
    cb_sink sink;
    sink.room = cbi_loop_sink_room;
    sink.reserve = cbi_loop_sink_reserve;
    sink.commit = cbi_loop_sink_commit;
    sink.share = cbi_loop_sink_share;
    sink.user = s;
    sink.piece_max = CBI_LOOP_CHUNK;
    return sink;
}

/* Takes `sent` bytes off the queue, and buffers that are empty. */
static void cbi_loop_out_sent(cb_loop_stream *s, size_t sent)
{
    s->unsent -= sent;
    while (s->out_first != NULL) {
        cbi_loop_buf *b = s->out_first;
        size_t n = cbi_loop_min(sent, b->size - b->at);
        b->at += n;
        sent -= n;
        if (b->at < b->size) {
            return;
        }
        s->out_first = b->next;
        s->out_last = b->next != NULL ? s->out_last : NULL;
        cbi_loop_buf_put(s->io.core, b);
    }
}

/* One system call for the front of the queue. *batch is what it was given. */
static ptrdiff_t cbi_loop_out_send(cb_loop_stream *s, size_t *batch)
{
    struct cbi_loop_core *core = s->io.core;
    struct msghdr message;
    cbi_loop_buf *b = s->out_first;
    size_t count = 0;
    if (b == s->out_last) {
        *batch = b->size - b->at;
        return CBI_LOOP_SYS_SEND(s->io.fd, (b->shared != NULL ? b->shared->data : b->data) + b->at, *batch);
    }
    *batch = 0;
    for (; b != NULL && count < CBI_LOOP_IOV; b = b->next) {
        if (b->size > b->at) {
            const uint8_t *data = b->shared != NULL ? b->shared->data : b->data;
            core->iov[count].iov_base = (void *)(uintptr_t)(data + b->at);
            core->iov[count].iov_len = b->size - b->at;
            *batch += core->iov[count++].iov_len;
        }
    }
    memset(&message, 0, sizeof message);
    message.msg_iov = core->iov;
    message.msg_iovlen = count;
    return CBI_LOOP_SYS_SENDMSG(s->io.fd, &message);
}

static bool cbi_loop_stream_reads(const cb_loop_stream *s); /* a dead output side asks about the input side */

/* Writing has failed for good. What the peer sent before may still be there and is read first, if we read at
 * all. */
static CBI_LOOP_COLD void cbi_loop_stream_write_failed(cb_loop_stream *s, int error)
{
    if ((s->io.flags & CBI_LOOP_CLOSING) != 0 || !cbi_loop_stream_reads(s)) {
        cbi_loop_stream_kill_error(s, CBI_LOOP_OP_WRITE, error);
        return;
    }
    s->io.flags |= CBI_LOOP_DEAD;
    s->error = error;
    cbi_loop_out_drop(s);
    cbi_loop_timer_disarm(s->io.core, &s->timer);
}

/* The stall deadline runs while the socket is full, and anew from each progress. */
static void cbi_loop_stream_stalls(cb_loop_stream *s, bool progress)
{
    uint64_t stall_ns = s->settings->d.output_stall_ns;
    if ((s->io.flags & CBI_LOOP_BLOCKED) == 0) {
        cbi_loop_timer_disarm(s->io.core, &s->timer);
        s->io.flags &= ~(uint32_t)CBI_LOOP_STALLED;
    } else if ((progress || (s->io.flags & CBI_LOOP_STALLED) == 0) && stall_ns != CB_LOOP_OFF) {
        (void)cbi_loop_timer_arm_in(s->io.core, &s->timer, stall_ns, 0);
        s->io.flags |= CBI_LOOP_STALLED;
    }
}

static void cbi_loop_stream_flush(cb_loop_stream *s)
{
    size_t batch;
    ptrdiff_t n;
    if ((s->io.flags & CBI_LOOP_ASKED) != 0) {
        s->io.flags = (s->io.flags & ~(uint32_t)CBI_LOOP_ASKED) | CBI_LOOP_REFUSED;
    }
    n = cbi_loop_out_send(s, &batch);
    if (n < 0 && !cbi_loop_would_block(errno)) {
        cbi_loop_stream_write_failed(s, errno);
        return;
    }
    if (n < 0 || (size_t)n < batch) {
        s->io.flags |= CBI_LOOP_BLOCKED;
    }
    if (n > 0) {
        cbi_loop_out_sent(s, (size_t)n);
        if ((s->io.flags & CBI_LOOP_REFUSED) != 0 && s->unsent <= s->settings->d.output_bytes_soft / 2u) {
            s->io.flags &= ~(uint32_t)CBI_LOOP_REFUSED;
            s->io.flags |= CBI_LOOP_DRAINED | CBI_LOOP_SHOW;
        }
    }
    if (CBI_LOOP_UNLIKELY((s->io.flags & (CBI_LOOP_BLOCKED | CBI_LOOP_STALLED)) != 0) &&
        (s->io.flags & CBI_LOOP_CLOSED) == 0) { /* the release of shared output may have ended it */
        cbi_loop_stream_stalls(s, n > 0);
    }
}

/* -- 14. streams: input -------------------------------------------------------------------------------- */

static size_t cbi_loop_rest_size(const cb_loop_stream *s)
{
    return s->rest != NULL ? s->rest->size : 0u;
}

/* Whether the socket is to be read. While closing it is read and thrown away, else a peer that is writing
 * never gets to our last bytes. */
static bool cbi_loop_stream_reads(const cb_loop_stream *s)
{
    const uint32_t f = s->io.flags;
    if ((f & (CBI_LOOP_EOF | CBI_LOOP_CLOSED | CBI_LOOP_CONNECTING | CBI_LOOP_CLOSING | CBI_LOOP_PAUSED)) ==
        0) {
        return s->rest == NULL || s->settings->d.input_policy == CB_LOOP_CLOSE ||
               s->rest->size < s->settings->d.input_bytes_max;
    }
    return (f & (CBI_LOOP_EOF | CBI_LOOP_CLOSED | CBI_LOOP_CONNECTING)) == 0 && (f & CBI_LOOP_CLOSING) != 0;
}

/* Bytes that may be read on top of `kept`; one above the bound where crossing it shall be seen. */
static size_t cbi_loop_input_limit(const cb_loop_stream *s, size_t kept)
{
    const cb_loop_stream_desc *d = &s->settings->d;
    size_t left = d->input_bytes_max > kept ? d->input_bytes_max - kept : 0u;
    return d->input_policy == CB_LOOP_CLOSE && left != SIZE_MAX ? left + 1u : left;
}

static void cbi_loop_poison(uint8_t *data, size_t size)
{
#ifdef CB_LOOP_POISON
    if (size != 0) {
        memset(data, 0xDB, size);
    }
#else
    (void)data;
    (void)size;
#endif
}

/* Calls on_data; returns what it consumed. */
static size_t cbi_loop_stream_call(cb_loop_stream *s, uint8_t *data, size_t size)
{
    cb_span in;
    size_t used;
    s->want = 0;
    s->io.flags &= ~(uint32_t)(CBI_LOOP_SHOW | CBI_LOOP_RESHOW);
    if (s->settings->d.on_data == NULL) {
        return size;
    }
    in.data = data;
    in.size = size;
    used = s->settings->d.on_data(s->user, s, in);
    CB_LOOP_ASSERT(used <= size);
    return cbi_loop_min(used, size);
}

/* What is kept must stay within the bound, however it came to be more. */
static bool cbi_loop_input_fits(cb_loop_stream *s, size_t kept)
{
    if (kept > s->settings->d.input_bytes_max) {
        cbi_loop_stream_kill(s, CB_LOOP_E_TOO_BIG, CBI_LOOP_OP_INPUT, 0);
        return false;
    }
    return true;
}

/* Keeps `size` bytes in place of all that was kept. */
static void cbi_loop_rest_keep(cb_loop_stream *s, const uint8_t *data, size_t size)
{
    if (size == 0 || !cbi_loop_input_fits(s, size)) {
        cbi_loop_rest_drop(s);
        return;
    }
    if (s->rest == NULL || s->rest->cap < size) {
        cbi_loop_rest_drop(s);
        s->rest = cbi_loop_buf_get(s->io.core, size);
    }
    if (s->rest == NULL) {
        cbi_loop_stream_kill(s, CB_LOOP_E_NOMEM, CBI_LOOP_OP_READ, 0);
        return;
    }
    memcpy(s->rest->data, data, size);
    s->rest->at = 0;
    s->rest->size = size;
}

/* Shows what is kept, be it nothing. */
static void cbi_loop_rest_show(cb_loop_stream *s)
{
    cbi_loop_buf *b = s->rest;
    uint8_t *data = b != NULL ? b->data + b->at : s->io.core->read_buf;
    size_t used = cbi_loop_stream_call(s, data, b != NULL ? b->size : 0u);
    if (b == NULL || cbi_loop_stream_mute(s)) {
        return;
    }
    cbi_loop_poison(data, used);
    b->at += used;
    b->size -= used;
    if (b->size == 0) {
        cbi_loop_rest_drop(s);
    } else {
        (void)cbi_loop_input_fits(s, b->size);
    }
}

/* Room for `need` bytes in all, kept ones included. Moves only what is no more than what was consumed before
 * it. */
static bool cbi_loop_rest_grow(cb_loop_stream *s, size_t need)
{
    cbi_loop_buf *b = s->rest, *grown;
    if (b != NULL && need <= b->cap - b->at) {
        return true;
    }
    if (b != NULL && need <= b->cap && b->at >= b->size) {
        memcpy(b->data, b->data + b->at, b->size);
        b->at = 0;
        return true;
    }
    grown = cbi_loop_buf_get(s->io.core, need);
    if (grown == NULL) {
        cbi_loop_stream_kill(s, CB_LOOP_E_NOMEM, CBI_LOOP_OP_READ, 0);
        return false;
    }
    if (b != NULL) {
        memcpy(grown->data, b->data + b->at, b->size);
        grown->size = b->size;
        cbi_loop_buf_put(s->io.core, b);
    }
    s->rest = grown;
    return true;
}

/* No bytes came: the end, an error, or nothing. */
static CBI_LOOP_COLD void cbi_loop_stream_read_failed(cb_loop_stream *s, ptrdiff_t n)
{
    if (n < 0 && cbi_loop_would_block(errno)) {
        return;
    }
    if (n == 0) {
        s->io.flags |= CBI_LOOP_EOF;
        cbi_loop_io_work(&s->io);
        return;
    }
    if ((s->io.flags & CBI_LOOP_DEAD) != 0) {
        cbi_loop_stream_kill_error(s, CBI_LOOP_OP_WRITE, s->error);
    } else if ((s->io.flags & CBI_LOOP_FIN) != 0 && (s->io.flags & CBI_LOOP_CLOSING) != 0) {
        cbi_loop_stream_kill(s, CB_LOOP_OK, CBI_LOOP_OP_NONE, 0); /* all of ours had left */
    } else {
        cbi_loop_stream_kill_error(s, CBI_LOOP_OP_READ, errno);
    }
}

/* Reads into the loop's own buffer; a short rest is put in front of it. */
static void cbi_loop_stream_read_shared(cb_loop_stream *s)
{
    struct cbi_loop_core *core = s->io.core;
    size_t kept = cbi_loop_rest_size(s), size, used;
    uint8_t *data = core->read_buf - kept;
    ptrdiff_t n = CBI_LOOP_SYS_RECV(s->io.fd, core->read_buf,
                                    cbi_loop_min(core->read_bytes, cbi_loop_input_limit(s, kept)));
    if (n <= 0) {
        cbi_loop_stream_read_failed(s, n);
        return;
    }
    if (kept != 0) {
        memcpy(data, s->rest->data + s->rest->at, kept);
    }
    size = kept + (size_t)n;
    if (size < s->want) {
        cbi_loop_rest_keep(s, data, size);
        return;
    }
    used = cbi_loop_stream_call(s, data, size);
    if (!cbi_loop_stream_mute(s) && (kept != 0 || used != size)) {
        cbi_loop_rest_keep(s, data + used, size - used);
    }
    cbi_loop_poison(data, size);
}

/* Reads straight behind what is kept: into one buffer of the wanted size, else into one that doubles. */
static void cbi_loop_stream_read_direct(cb_loop_stream *s)
{
    size_t kept = cbi_loop_rest_size(s), limit = cbi_loop_input_limit(s, kept), space;
    cbi_loop_buf *b;
    ptrdiff_t n;
    size_t need = s->want > kept ? s->want : kept + cbi_loop_min(cbi_loop_max(kept, CBI_LOOP_CHUNK), limit);
    if (!cbi_loop_rest_grow(s, need)) {
        return;
    }
    b = s->rest;
    space = cbi_loop_min(b->cap - b->at - b->size, cbi_loop_min(limit, CBI_LOOP_READ_MAX));
    n = CBI_LOOP_SYS_RECV(s->io.fd, b->data + b->at + b->size, space);
    if (n <= 0) {
        cbi_loop_stream_read_failed(s, n);
        return;
    }
    b->size += (size_t)n;
    if (b->size >= s->want) {
        cbi_loop_rest_show(s);
    }
}

/* One read a pass, so that no peer starves the others. */
static void cbi_loop_stream_read(cb_loop_stream *s)
{
    struct cbi_loop_core *core = s->io.core;
    if ((s->io.flags & CBI_LOOP_CLOSING) != 0) {
        ptrdiff_t n = CBI_LOOP_SYS_RECV(s->io.fd, core->read_buf, core->read_bytes);
        if (n <= 0) {
            cbi_loop_stream_read_failed(s, n);
        }
    } else if (cbi_loop_rest_size(s) <= CBI_LOOP_HEADROOM && s->want <= core->read_bytes) {
        cbi_loop_stream_read_shared(s);
    } else {
        cbi_loop_stream_read_direct(s);
    }
}

/* -- 15. streams: the end of a pass -------------------------------------------------------------------- */

static bool cbi_loop_stream_owes_show(const cb_loop_stream *s)
{
    if ((s->io.flags & (CBI_LOOP_CONNECTING | CBI_LOOP_PAUSED | CBI_LOOP_CLOSING | CBI_LOOP_CLOSED)) != 0) {
        return false;
    }
    return (s->io.flags & CBI_LOOP_RESHOW) != 0 ||
           ((s->io.flags & CBI_LOOP_SHOW) != 0 && s->rest != NULL && s->rest->size >= s->want);
}

/* The peer has ended and nothing that was refused can still be taken: show the last bytes once more, then
 * on_end. */
static CBI_LOOP_COLD void cbi_loop_stream_end(cb_loop_stream *s)
{
    if ((s->io.flags & CBI_LOOP_DEAD) != 0) {
        cbi_loop_stream_kill_error(s, CBI_LOOP_OP_WRITE, s->error);
        return;
    }
    if (cbi_loop_rest_size(s) != 0) {
        cbi_loop_rest_show(s);
    }
    if ((s->io.flags & (CBI_LOOP_PAUSED | CBI_LOOP_RESHOW | CBI_LOOP_CLOSING | CBI_LOOP_CLOSED)) != 0 ||
        ((s->io.flags & (CBI_LOOP_REFUSED | CBI_LOOP_ASKED)) != 0 && s->unsent != 0 && s->rest != NULL)) {
        return;
    }
    s->io.flags |= CBI_LOOP_ENDED;
    if (s->settings->d.on_end != NULL) {
        s->settings->d.on_end(s->user, s);
    } else {
        cbi_loop_stream_close(s);
    }
}

/* The callbacks that are owed, in their order. Each may close the stream. */
static void cbi_loop_stream_notify(cb_loop_stream *s)
{
    uint32_t owed = s->io.flags & (CBI_LOOP_OPENED | CBI_LOOP_DRAINED);
    const uint32_t silent = CBI_LOOP_CLOSING | CBI_LOOP_CLOSED;
    s->io.flags &= ~owed;
    if ((owed & CBI_LOOP_OPENED) != 0 && (s->io.flags & silent) == 0 && s->settings->d.on_open != NULL) {
        s->settings->d.on_open(s->user, s);
    }
    if ((owed & CBI_LOOP_DRAINED) != 0 && (s->io.flags & silent) == 0 && s->settings->d.on_drain != NULL) {
        s->settings->d.on_drain(s->user, s);
    }
    if (cbi_loop_stream_owes_show(s)) {
        cbi_loop_rest_show(s);
    }
    if ((s->io.flags & (silent | CBI_LOOP_EOF | CBI_LOOP_ENDED | CBI_LOOP_PAUSED | CBI_LOOP_DRAINED)) ==
            CBI_LOOP_EOF &&
        ((s->io.flags & CBI_LOOP_REFUSED) == 0 || s->unsent == 0)) {
        cbi_loop_stream_end(s);
    }
}

/* Ends our side once all has left, and the stream once both sides have ended. Between the two a closing
 * stream gives the peer linger_ns, also where our side had ended before the close; no other deadline can be
 * running by then. */
static void cbi_loop_stream_sides(cb_loop_stream *s)
{
    const uint64_t linger_ns = s->settings->d.linger_ns;
    if ((s->io.flags & (CBI_LOOP_SHUT | CBI_LOOP_CLOSING)) != 0 && s->unsent == 0 &&
        (s->io.flags & (CBI_LOOP_FIN | CBI_LOOP_DEAD)) == 0) {
        (void)shutdown(s->io.fd, SHUT_WR);
        s->io.flags |= CBI_LOOP_FIN;
    }
    if ((s->io.flags & CBI_LOOP_FIN) == 0) {
        return;
    }
    if ((s->io.flags & CBI_LOOP_EOF) != 0 && (s->io.flags & (CBI_LOOP_ENDED | CBI_LOOP_CLOSING)) != 0) {
        cbi_loop_stream_kill(s, CB_LOOP_OK, CBI_LOOP_OP_NONE, 0);
    } else if ((s->io.flags & CBI_LOOP_CLOSING) != 0 && linger_ns != CB_LOOP_OFF &&
               !cbi_loop_timer_active(&s->timer)) {
        (void)cbi_loop_timer_arm_in(s->io.core, &s->timer, linger_ns, 0);
    }
}

static void cbi_loop_stream_watch(cb_loop_stream *s)
{
    unsigned mask = 0;
    if ((s->io.flags & CBI_LOOP_CONNECTING) != 0) {
        mask = CBI_LOOP_OUT;
    } else {
        mask |= cbi_loop_stream_reads(s) ? (unsigned)CBI_LOOP_IN : 0u;
        mask |= (s->io.flags & CBI_LOOP_BLOCKED) != 0 ? (unsigned)CBI_LOOP_OUT : 0u;
        mask = mask == 0 && (s->io.flags & (CBI_LOOP_EOF | CBI_LOOP_FIN)) == CBI_LOOP_EOF
                   ? (unsigned)CBI_LOOP_WATCH
                   : mask;
    }
    if (!cbi_loop_io_watch(&s->io, (uint8_t)mask)) {
        cbi_loop_stream_kill_error(s, CBI_LOOP_OP_WATCH, errno);
    }
}

/* Writing has failed and input is held back at its bound: it cannot be answered, so nothing would ever free
 * it. Who paused or asked to be shown it again still may. */
static bool cbi_loop_stream_stuck(const cb_loop_stream *s)
{
    return (s->io.flags & (CBI_LOOP_DEAD | CBI_LOOP_PAUSED | CBI_LOOP_CLOSED)) == CBI_LOOP_DEAD &&
           !cbi_loop_stream_reads(s) && !cbi_loop_stream_owes_show(s);
}

static bool cbi_loop_stream_can_send(const cb_loop_stream *s)
{
    return s->unsent != 0 &&
           (s->io.flags & (CBI_LOOP_CONNECTING | CBI_LOOP_BLOCKED | CBI_LOOP_DEAD | CBI_LOOP_CLOSED)) == 0;
}

/* Everything that a pass left to be done for one stream. It stays LINKED meanwhile: what its callbacks ask
 * for is done here, or in the next pass. */
static void cbi_loop_stream_settle(cb_loop_stream *s)
{
    if (CBI_LOOP_LIKELY((s->io.flags & ~(uint32_t)(CBI_LOOP_LINKED | CBI_LOOP_ASKED)) == 0 &&
                        s->unsent != 0)) {
        cbi_loop_stream_flush(s); /* nearly always all there is to do */
        if (CBI_LOOP_LIKELY(s->io.flags == CBI_LOOP_LINKED && s->unsent == 0 && s->rest == NULL &&
                            s->io.mask == CBI_LOOP_IN)) {
            s->io.flags = 0;
            return;
        }
    }
    cbi_loop_stream_notify(s);
    if ((s->io.flags & CBI_LOOP_CLOSING) != 0) {
        cbi_loop_rest_drop(s);
    }
    if (cbi_loop_stream_can_send(s)) {
        cbi_loop_stream_flush(s);
    }
    if ((s->io.flags & (CBI_LOOP_CONNECTING | CBI_LOOP_CLOSED)) == 0) {
        cbi_loop_stream_sides(s);
    }
    if (CBI_LOOP_UNLIKELY(cbi_loop_stream_stuck(s))) {
        cbi_loop_stream_kill_error(s, CBI_LOOP_OP_WRITE, s->error);
    }
    if ((s->io.flags & CBI_LOOP_CLOSED) == 0) {
        cbi_loop_stream_watch(s);
    }
    if ((s->io.flags & CBI_LOOP_CLOSED) != 0) {
        cbi_loop_stream_finish(s);
        return;
    }
    s->io.flags &= ~(uint32_t)CBI_LOOP_LINKED;
    if ((s->io.flags & (CBI_LOOP_OPENED | CBI_LOOP_DRAINED)) != 0 || cbi_loop_stream_owes_show(s) ||
        cbi_loop_stream_can_send(s)) {
        cbi_loop_io_work(&s->io);
    }
}

/* -- 16. streams: life --------------------------------------------------------------------------------- */

static CBI_LOOP_COLD void cbi_loop_stream_connected(cb_loop_stream *s);

/* A deadline is looked at before the descriptors are. When the program was away for long, the peer may have
 * been in time all the same: then the deadline gives way. */
static CBI_LOOP_COLD bool cbi_loop_stream_in_time(cb_loop_stream *s)
{
    const bool connecting = (s->io.flags & CBI_LOOP_CONNECTING) != 0;
    struct pollfd p;
    if (!connecting && (s->io.flags & CBI_LOOP_BLOCKED) == 0) {
        return false;
    }
    p.fd = s->io.fd;
    p.events = POLLOUT;
    p.revents = 0;
    if (poll(&p, 1, 0) <= 0) {
        return false;
    }
    if (connecting) {
        cbi_loop_stream_connected(s);
    } else { /* the flush starts it anew if the socket is full still */
        s->io.flags &= ~(uint32_t)(CBI_LOOP_BLOCKED | CBI_LOOP_STALLED);
        cbi_loop_io_work(&s->io);
    }
    return true;
}

/* The one timer: whose deadline it is follows from the state. */
static void cbi_loop_stream_on_time(void *user, cb_loop_timer *timer, uint64_t now_ns)
{
    cb_loop_stream *s = (cb_loop_stream *)user;
    uint32_t f = s->io.flags;
    (void)timer;
    (void)now_ns;
    if (cbi_loop_stream_in_time(s)) {
        return;
    }
    if ((f & CBI_LOOP_CONNECTING) != 0) {
        cbi_loop_stream_kill(s, CB_LOOP_E_TIMEOUT, CBI_LOOP_OP_CONNECT, 0);
    } else if ((f & CBI_LOOP_CLOSING) != 0 && (f & CBI_LOOP_FIN) != 0) {
        cbi_loop_stream_kill(s, CB_LOOP_OK, CBI_LOOP_OP_NONE, 0);
    } else if ((f & (CBI_LOOP_CLOSING | CBI_LOOP_SHUT | CBI_LOOP_REFUSED)) != 0 ||
               s->unsent >= s->settings->d.output_bytes_soft) {
        cbi_loop_stream_kill(s, CB_LOOP_E_SLOW_PEER, CBI_LOOP_OP_WRITE, 0);
    } else { /* it is behind, but nobody waits for it */
        (void)cbi_loop_timer_arm_in(s->io.core, &s->timer, s->settings->d.output_stall_ns, 0);
    }
}

/* Takes over the memory, the descriptor and the reference to the settings. */
static void cbi_loop_stream_begin(struct cbi_loop_core *core, cb_loop_stream *s, cbi_loop_settings *settings,
                                  int fd, const cb_loop_address *peer, void *user)
{
    memset(s, 0, sizeof *s);
    s->io.core = core;
    s->io.kind = CBI_LOOP_STREAM;
    s->io.fd = fd;
    s->settings = settings;
    s->user = user;
    s->peer = *peer;
    cbi_loop_timer_make(&s->timer, cbi_loop_stream_on_time, s);
    cbi_loop_append(&core->streams, &s->link);
}

static void cbi_loop_stream_opened(cb_loop_stream *s)
{
    s->io.flags &= ~(uint32_t)CBI_LOOP_CONNECTING;
    s->io.flags |= CBI_LOOP_OPENED;
    cbi_loop_timer_disarm(s->io.core, &s->timer);
    cbi_loop_io_work(&s->io);
}

/* A port of the ephemeral range that nobody listens on may be given to the connecting socket itself. */
static bool cbi_loop_connected_to_itself(const cb_loop_stream *s)
{
    struct sockaddr_storage name;
    socklen_t size = (socklen_t)sizeof name;
    cb_loop_address own;
    if (getsockname(s->io.fd, (struct sockaddr *)(void *)&name, &size) != 0) {
        return false;
    }
    cbi_loop_address_from(&own, &name);
    return memcmp(&own, &s->peer, sizeof own) == 0;
}

static int cbi_loop_socket_error(int fd)
{
    int error = 0;
    socklen_t size = (socklen_t)sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

static void cbi_loop_stream_connected(cb_loop_stream *s)
{
    int error = cbi_loop_socket_error(s->io.fd);
    error = error == 0 && cbi_loop_connected_to_itself(s) ? ECONNREFUSED : error;
    if (error != 0) {
        cbi_loop_stream_kill_error(s, CBI_LOOP_OP_CONNECT, error);
    } else {
        cbi_loop_stream_opened(s);
    }
}

/* Readiness of a stream's descriptor. Reading also finds out why a connection is GONE, after the bytes before
 * that. */
static void cbi_loop_stream_event(cb_loop_stream *s, uint32_t mask)
{
    if ((s->io.flags & CBI_LOOP_CLOSED) != 0) {
        return;
    }
    if ((s->io.flags & CBI_LOOP_CONNECTING) != 0) {
        cbi_loop_stream_connected(s);
        return;
    }
    if ((mask & (CBI_LOOP_OUT | CBI_LOOP_GONE)) != 0 && (s->io.flags & CBI_LOOP_BLOCKED) != 0) {
        s->io.flags &= ~(uint32_t)CBI_LOOP_BLOCKED;
        cbi_loop_io_work(&s->io);
    }
    if ((mask & (CBI_LOOP_IN | CBI_LOOP_GONE)) == 0) {
        return;
    }
    if (cbi_loop_stream_reads(s)) {
        cbi_loop_stream_read(s);
        if (!cbi_loop_stream_reads(s)) {
            cbi_loop_io_work(&s->io);
        }
    } else if ((mask & CBI_LOOP_GONE) != 0 && (s->io.flags & CBI_LOOP_EOF) != 0) {
        int error = cbi_loop_socket_error(s->io.fd);
        cbi_loop_stream_kill_error(s, CBI_LOOP_OP_READ, error != 0 ? error : ECONNRESET);
    }
}

/* A refusal by the network is told by on_closed alone, be it immediate or not; one by this machine by the
 * return alone. */
static cb_loop_status cbi_loop_connect_start(struct cbi_loop_core *core, cb_loop_stream *s,
                                             cbi_loop_settings *settings, const cb_loop_address *peer,
                                             uint64_t timeout_ns)
{
    struct sockaddr_storage to;
    socklen_t size = cbi_loop_address_to(peer, &to);
    int fd = cbi_loop_socket(peer->family, &settings->d), error = 0;
    if (fd < 0) {
        return cbi_loop_fail(core, "connect", peer, errno);
    }
    if (CBI_LOOP_SYS_CONNECT(fd, (struct sockaddr *)(void *)&to, size) != 0) {
        error = errno;
    }
    cbi_loop_stream_begin(core, s, settings, fd, peer, settings->d.user);
    s->io.flags |= CBI_LOOP_CONNECTING;
    if (error != 0 && error != EINPROGRESS && error != EINTR) {
        cbi_loop_stream_kill_error(s, CBI_LOOP_OP_CONNECT, error);
    } else if (!cbi_loop_io_watch(&s->io, CBI_LOOP_OUT)) {
        error = errno;
        cbi_loop_unlink(&s->link);
        (void)close(fd);
        return cbi_loop_fail(core, "connect", peer, error);
    } else if (timeout_ns != CB_LOOP_OFF) {
        (void)cbi_loop_timer_arm_in(core, &s->timer, timeout_ns, 0);
    }
    return CB_LOOP_OK;
}

CB_LOOP_DEF cb_loop_status cb_loop_connect(cb_loop *loop, cb_loop_stream *s, const cb_loop_connect_desc *desc)
{
    struct cbi_loop_core *core;
    cbi_loop_settings *settings = NULL;
    cb_loop_address peer;
    cb_loop_status st;
    CB_LOOP_ASSERT(loop != NULL && s != NULL && desc != NULL);
    core = loop->core;
    if (core == NULL || core->ended) {
        return CB_LOOP_E_CLOSED;
    }
    st = cbi_loop_url_parse(core, desc->url, &peer);
    if (st == CB_LOOP_OK && peer.port == 0) {
        st = cbi_loop_refuse(core, CB_LOOP_E_URL, "connect: port 0");
    }
    if (st == CB_LOOP_OK) {
        st = cbi_loop_settings_get(core, &desc->stream, &settings);
    }
    if (st != CB_LOOP_OK) {
        return st;
    }
    st = cbi_loop_connect_start(core, s, settings, &peer,
                                desc->connect_timeout_ns != 0 ? desc->connect_timeout_ns
                                                              : (uint64_t)20 * CBI_LOOP_SECOND);
    if (st != CB_LOOP_OK) {
        cbi_loop_settings_put(core, settings);
    }
    return st;
}

CB_LOOP_DEF void cb_loop_stream_want(cb_loop_stream *s, size_t need)
{
    if (!cbi_loop_stream_mute(s) && cbi_loop_input_fits(s, need)) {
        s->want = need;
    }
}

CB_LOOP_DEF void cb_loop_stream_pause(cb_loop_stream *s)
{
    if (!cbi_loop_stream_mute(s)) {
        s->io.flags |= CBI_LOOP_PAUSED;
        cbi_loop_io_work(&s->io);
    }
}

CB_LOOP_DEF void cb_loop_stream_resume(cb_loop_stream *s)
{
    if ((s->io.flags & CBI_LOOP_PAUSED) != 0 && !cbi_loop_stream_mute(s)) {
        s->io.flags &= ~(uint32_t)CBI_LOOP_PAUSED;
        s->io.flags |= CBI_LOOP_SHOW;
        cbi_loop_io_work(&s->io);
    }
}

CB_LOOP_DEF void cb_loop_stream_reshow(cb_loop_stream *s)
{
    if (!cbi_loop_stream_mute(s)) {
        s->io.flags |= CBI_LOOP_RESHOW;
        cbi_loop_io_work(&s->io);
    }
}

CB_LOOP_DEF cb_loop_status cb_loop_stream_set_handlers(cb_loop_stream *s, const cb_loop_stream_desc *desc)
{
    cbi_loop_settings *settings;
    cb_loop_status st = cbi_loop_settings_get(s->io.core, desc, &settings);
    if (st == CB_LOOP_OK) {
        cbi_loop_settings_put(s->io.core, s->settings);
        s->settings = settings;
        s->user = settings->d.user;
        s->want = 0;
        s->io.flags |= CBI_LOOP_SHOW;
        cbi_loop_io_work(&s->io);
    }
    return st;
}

CB_LOOP_DEF void cb_loop_stream_shutdown(cb_loop_stream *s)
{
    if (!cbi_loop_stream_mute(s)) {
        s->io.flags |= CBI_LOOP_SHUT;
        cbi_loop_io_work(&s->io);
    }
}

CB_LOOP_DEF void cb_loop_stream_close(cb_loop_stream *s)
{
    cbi_loop_stream_close(s);
}

CB_LOOP_DEF void cb_loop_stream_abort(cb_loop_stream *s, cb_loop_status why)
{
    if ((s->io.flags & CBI_LOOP_CLOSED) == 0) {
        struct linger now;
        now.l_onoff = 1; /* the peer shall see a reset, not an end in the middle of a message */
        now.l_linger = 0;
        (void)setsockopt(s->io.fd, SOL_SOCKET, SO_LINGER, &now, (socklen_t)sizeof now);
        cbi_loop_stream_kill(s, why, CBI_LOOP_OP_NONE, 0);
    }
}

CB_LOOP_DEF void cb_loop_stream_set_user(cb_loop_stream *s, void *user)
{
    s->user = user;
}

CB_LOOP_DEF void *cb_loop_stream_user(const cb_loop_stream *s)
{
    return s->user;
}

CB_LOOP_DEF cb_loop *cb_loop_stream_loop(const cb_loop_stream *s)
{
    return s->io.core->loop;
}

CB_LOOP_DEF size_t cb_loop_stream_unsent(const cb_loop_stream *s)
{
    return s->unsent;
}

CB_LOOP_DEF cb_span cb_loop_stream_kept(const cb_loop_stream *s)
{
    cb_span kept;
    kept.data = s->rest != NULL ? s->rest->data + s->rest->at : NULL;
    kept.size = cbi_loop_rest_size(s);
    return kept;
}

CB_LOOP_DEF cb_loop_status cb_loop_stream_peer(const cb_loop_stream *s, cb_loop_address *peer)
{
    *peer = s->peer;
    return CB_LOOP_OK;
}

CB_LOOP_DEF const char *cb_loop_stream_reason(const cb_loop_stream *s)
{
    return s->io.core->close_reason;
}

/* -- 17. listeners ------------------------------------------------------------------------------------- */

/* Out of descriptors or memory: look again later, and ever later, instead of spinning on a queue that stays
 * ready. */
static void cbi_loop_listener_rest(cb_loop_listener *l)
{
    const uint64_t least = (uint64_t)5 * CBI_LOOP_MS;
    l->backoff_ns = l->backoff_ns == 0                     ? least
                    : l->backoff_ns * 2u < CBI_LOOP_SECOND ? l->backoff_ns * 2u
                                                           : CBI_LOOP_SECOND;
    (void)cbi_loop_io_watch(&l->io, 0);
    (void)cbi_loop_timer_arm_in(l->io.core, &l->timer, l->backoff_ns, 0);
}

static void cbi_loop_listener_on_time(void *user, cb_loop_timer *timer, uint64_t now_ns)
{
    cb_loop_listener *l = (cb_loop_listener *)user;
    (void)timer;
    (void)now_ns;
    if (!cbi_loop_io_watch(&l->io, CBI_LOOP_IN)) {
        cbi_loop_listener_rest(l);
    }
}

/* Gives one accepted socket to the program, or closes it. */
static void cbi_loop_listener_admit(cb_loop_listener *l, int fd, const struct sockaddr_storage *name)
{
    struct cbi_loop_core *core = l->io.core;
    cbi_loop_settings *settings = l->settings;
    void *user = settings->d.user;
    cb_loop_address from;
    cb_loop_stream *s;
    cbi_loop_address_from(&from, name);
    settings->refs++; /* on_accept may close the listener */
    s = l->on_accept(l->user, l, &from, &user);
    if (s == NULL) {
        cbi_loop_settings_put(core, settings);
        (void)close(fd);
        return;
    }
#if defined(SO_NOSIGPIPE)
    cbi_loop_option(fd, SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
#if !defined(__linux__)
    cbi_loop_option(fd, IPPROTO_TCP, TCP_NODELAY, settings->d.gather_small_writes ? 0 : 1);
#endif
    cbi_loop_stream_begin(core, s, settings, fd, &from, user);
    cbi_loop_stream_opened(s); /* the end of the pass registers it */
}

/* Whether accept failed for a reason that lies in the one connection, so that the next may do. */
static bool cbi_loop_accept_passes(int error)
{
    switch (error) {
    case ECONNABORTED:
    case EINTR:
    case EPROTO:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
    case EPERM:
    case ETIMEDOUT: return true;
    default: return false;
    }
}

static CBI_LOOP_COLD void cbi_loop_listener_accept(cb_loop_listener *l)
{
    uint32_t i;
    for (i = 0; i < l->accepts_per_pass && (l->io.flags & CBI_LOOP_CLOSED) == 0; i++) {
        struct sockaddr_storage name;
        socklen_t size = (socklen_t)sizeof name;
        int fd = CBI_LOOP_SYS_ACCEPT(l->io.fd, (struct sockaddr *)(void *)&name, &size);
        if (fd >= 0) {
            l->backoff_ns = 0;
            cbi_loop_listener_admit(l, fd, &name);
        } else if (errno != EINTR && cbi_loop_would_block(errno)) {
            return;
        } else if (!cbi_loop_accept_passes(errno)) {
            l->accept_failures++;
            cbi_loop_listener_rest(l);
            return;
        }
    }
}

/* Binds and listens; returns the descriptor, or -1 with what failed. */
static int cbi_loop_listener_bind(const cb_loop_address *at, const cb_loop_stream_desc *d, uint32_t backlog,
                                  const char **what)
{
    struct sockaddr_storage name;
    socklen_t size = cbi_loop_address_to(at, &name);
    int error, fd = cbi_loop_socket(at->family, d);
    *what = "listen";
    if (fd < 0) {
        return -1;
    }
    cbi_loop_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (at->family == 6) {
        cbi_loop_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    }
    *what = bind(fd, (struct sockaddr *)(void *)&name, size) == 0 ? NULL : "bind";
    if (*what == NULL && listen(fd, (int)cbi_loop_min(backlog != 0 ? backlog : 511u, INT_MAX)) != 0) {
        *what = "listen";
    }
    if (*what != NULL) {
        error = errno;
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static cb_loop_status cbi_loop_listener_start(struct cbi_loop_core *core, cb_loop_listener *l,
                                              const cb_loop_listener_desc *desc, const cb_loop_address *at)
{
    struct sockaddr_storage name;
    socklen_t size = (socklen_t)sizeof name;
    const char *what;
    int error, fd = cbi_loop_listener_bind(at, &l->settings->d, desc->backlog, &what);
    if (fd < 0) {
        return cbi_loop_fail(core, what, at, errno);
    }
    l->io.fd = fd;
    l->address = *at;
    if (getsockname(fd, (struct sockaddr *)(void *)&name, &size) == 0) {
        cbi_loop_address_from(&l->address, &name);
    }
    if (!cbi_loop_io_watch(&l->io, CBI_LOOP_IN)) {
        error = errno;
        (void)close(fd);
        return cbi_loop_fail(core, "listen", at, error);
    }
    return CB_LOOP_OK;
}

CB_LOOP_DEF cb_loop_status cb_loop_listen(cb_loop *loop, cb_loop_listener *listener,
                                          const cb_loop_listener_desc *desc)
{
    struct cbi_loop_core *core;
    cb_loop_address at;
    cb_loop_status st;
    CB_LOOP_ASSERT(loop != NULL && listener != NULL && desc != NULL);
    core = loop->core;
    if (core == NULL || core->ended) {
        return CB_LOOP_E_CLOSED;
    }
    memset(listener, 0, sizeof *listener);
    st = cbi_loop_url_parse(core, desc->url, &at);
    if (st == CB_LOOP_OK && desc->on_accept == NULL) {
        st = cbi_loop_refuse(core, CB_LOOP_E_ARG, "listen: on_accept is missing");
    }
    if (st == CB_LOOP_OK) {
        st = cbi_loop_settings_get(core, &desc->stream, &listener->settings);
    }
    if (st != CB_LOOP_OK) {
        return st;
    }
    listener->io.core = core;
    listener->io.kind = CBI_LOOP_LISTENER;
    listener->on_accept = desc->on_accept;
    listener->on_closed = desc->on_closed;
    listener->user = desc->user;
    listener->accepts_per_pass = desc->accepts_per_pass != 0 ? desc->accepts_per_pass : 64u;
    cbi_loop_timer_make(&listener->timer, cbi_loop_listener_on_time, listener);
    st = cbi_loop_listener_start(core, listener, desc, &at);
    if (st != CB_LOOP_OK) {
        cbi_loop_settings_put(core, listener->settings);
        listener->io.core = NULL;
        return st;
    }
    cbi_loop_append(&core->listeners, &listener->link);
    return CB_LOOP_OK;
}

static void cbi_loop_listener_close(cb_loop_listener *listener)
{
    if (listener->io.core == NULL || (listener->io.flags & CBI_LOOP_CLOSED) != 0) {
        return;
    }
    listener->io.flags |= CBI_LOOP_CLOSED;
    cbi_loop_timer_disarm(listener->io.core, &listener->timer);
    cbi_loop_io_close(&listener->io);
    cbi_loop_io_work(&listener->io);
}

CB_LOOP_DEF void cb_loop_listener_close(cb_loop_listener *listener)
{
    cbi_loop_listener_close(listener);
}

static CBI_LOOP_COLD void cbi_loop_listener_finish(cb_loop_listener *l)
{
    cbi_loop_unlink(&l->link);
    cbi_loop_settings_put(l->io.core, l->settings);
    l->io.core = NULL;
    if (l->on_closed != NULL) {
        l->on_closed(l->user, l);
    }
}

CB_LOOP_DEF cb_loop_status cb_loop_listener_address(const cb_loop_listener *listener,
                                                    cb_loop_address *address)
{
    if (listener->io.core == NULL || (listener->io.flags & CBI_LOOP_CLOSED) != 0) {
        return CB_LOOP_E_STATE;
    }
    *address = listener->address;
    return CB_LOOP_OK;
}

/* -- 18. the pass -------------------------------------------------------------------------------------- */

static void cbi_loop_dispatch(struct cbi_loop_core *core, size_t count)
{
    size_t i;
    for (i = 0; i < count; i++) {
        cbi_loop_io *io = core->batch[i].io;
        if (CBI_LOOP_LIKELY(io->kind == CBI_LOOP_STREAM)) {
            cbi_loop_stream_event((cb_loop_stream *)(void *)io, core->batch[i].mask);
        } else if (io->kind == CBI_LOOP_LISTENER) {
            cbi_loop_listener_accept((cb_loop_listener *)(void *)io);
        } else if (io->kind == CBI_LOOP_WAKER && core->backend->drains) {
            uint8_t bytes[64];
            while (read(io->fd, bytes, sizeof bytes) < 0 && errno == EINTR) {
            }
        }
    }
}

/* Each io at most once: what is asked for meanwhile waits for the next time, except by those still to come.
 */
static void cbi_loop_settle(struct cbi_loop_core *core)
{
    cbi_loop_io *io = core->work_first;
    core->work_first = NULL;
    core->work_last = NULL;
    while (io != NULL) {
        cbi_loop_io *next = io->work_next;
        if (io->kind == CBI_LOOP_STREAM) {
            cbi_loop_stream_settle((cb_loop_stream *)(void *)io);
        } else {
            cbi_loop_listener_finish((cb_loop_listener *)(void *)io);
        }
        io = next;
    }
}

/* How long to sleep. Where the alarm comes no later than any timer, the clock need not be read around the
 * wait, and the kernel is spared the arithmetic with a timeout. */
static uint64_t cbi_loop_wait_time(struct cbi_loop_core *core, uint64_t timeout_ns)
{
    uint64_t wait = CB_LOOP_FOREVER, begin;
    core->quiet = false;
    core->posts = cbi_loop_has_posts(core);
    if (core->work_first != NULL || core->posts) {
        return 0;
    }
    if (core->timers != 0 && (timeout_ns != 0 || core->handles != 0)) {
        begin = cbi_loop_timers_begin(core);
        core->quiet = core->alarm_at <= begin;
        if (!core->quiet && (timeout_ns != 0 || begin >= core->now + CBI_LOOP_NEAR)) {
            wait = cbi_loop_timers_wait(core);
        }
    }
    return wait < timeout_ns ? wait : timeout_ns;
}

/* Waits, if it may. `asleep` is raised before the last look at the posts, so a poster either is seen here or
 * sees it. */
static size_t cbi_loop_poll(struct cbi_loop_core *core, uint64_t timeout_ns)
{
    uint64_t wait = cbi_loop_wait_time(core, timeout_ns);
    size_t count;
    if (wait == 0) {
        return core->handles != 0 ? core->backend->wait(core, 0) : 0u;
    }
    __atomic_store_n(&core->loop->asleep, 1u, __ATOMIC_SEQ_CST);
    count = core->backend->wait(core, cbi_loop_has_posts(core) ? 0u : wait);
    __atomic_store_n(&core->loop->asleep, 0u, __ATOMIC_RELAXED);
    core->posts = cbi_loop_has_posts(core);
    return count;
}

static void cbi_loop_pass(struct cbi_loop_core *core, uint64_t timeout_ns)
{
    size_t ready;
    core->busy = true;
    if (core->work_first != NULL) { /* written outside a pass, or left by the last one: not to be slept over
                                     */
        core->now_known = false; /* its callbacks shall not see the time of the last pass */
        cbi_loop_settle(core);
    }
    ready = cbi_loop_poll(core, timeout_ns);
    core->now_known = false;
    if (core->timers != 0 && !(core->quiet && core->alarm_at != UINT64_MAX)) {
        cbi_loop_timers_pass(core);
    }
    if (core->posts || core->own_first != NULL) {
        cbi_loop_posts_pass(core);
    }
    cbi_loop_dispatch(core, ready);
    if (core->work_first != NULL) {
        cbi_loop_settle(core);
    }
    core->busy = false;
}

/* -- 19. the loop's life ------------------------------------------------------------------------------- */

static bool cbi_loop_waker_open(struct cbi_loop_core *core)
{
    core->waker.core = core;
    core->waker.kind = CBI_LOOP_WAKER;
#if defined(__linux__)
    core->waker.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    core->loop->wake_fd = core->waker.fd;
    return core->waker.fd >= 0;
#else
    {
        int ends[2];
        if (pipe(ends) != 0) {
            return false;
        }
        core->waker.fd = cbi_loop_unblock(ends[0]);
        core->loop->wake_fd = cbi_loop_unblock(ends[1]);
        return core->waker.fd >= 0 && core->loop->wake_fd >= 0;
    }
#endif
}

static void cbi_loop_waker_close(struct cbi_loop_core *core)
{
    if (core->loop->wake_fd != core->waker.fd && core->loop->wake_fd >= 0) {
        (void)close(core->loop->wake_fd);
    }
    if (core->waker.fd >= 0) {
        (void)close(core->waker.fd);
    }
    core->loop->wake_fd = -1;
}

/* Frees what init took; the struct then refuses everything. */
static void cbi_loop_core_free(struct cbi_loop_core *core)
{
    cb_alloc alloc = core->alloc;
    core->backend->close(core);
    cbi_loop_waker_close(core);
    cbi_loop_pool_trim(core);
    core->loop->core = NULL;
    alloc.release(alloc.user, core, core->block_bytes);
}

static void cbi_loop_core_init(struct cbi_loop_core *core, cb_loop *loop, const cb_loop_desc *d)
{
    size_t i;
    memset(core, 0, sizeof *core);
    core->loop = loop;
    core->alloc = d->alloc;
    core->clock = d->clock;
    core->clock_user = d->clock_user;
    core->read_bytes = d->read_bytes;
    core->pool_max = d->pool_bytes_max;
    core->read_buf = (uint8_t *)(void *)(core + 1) + CBI_LOOP_HEADROOM;
    core->waker.fd = -1;
    core->epoll_fd = -1;
    core->alarm.fd = -1;
    core->alarm.kind = CBI_LOOP_ALARM;
    core->alarm_at = UINT64_MAX;
    cbi_loop_timer_make(&core->trimmer, cbi_loop_on_trim, core);
    cbi_loop_list_init(&core->ready);
    cbi_loop_list_init(&core->due);
    cbi_loop_list_init(&core->streams);
    cbi_loop_list_init(&core->listeners);
    for (i = 0; i < CBI_LOOP_LEVELS * CBI_LOOP_SLOTS; i++) {
        cbi_loop_list_init(&core->wheel[i]);
    }
    core->elapsed = cbi_loop_read_clock(core);
    core->now_known = false;
}

static bool cbi_loop_desc_resolve(cb_loop_desc *d)
{
    d->read_bytes = d->read_bytes != 0 ? d->read_bytes : 65536u;
    d->pool_bytes_max = d->pool_bytes_max != 0 ? d->pool_bytes_max : (size_t)16 << 20;
    return d->read_bytes >= 4096u && d->read_bytes <= ((size_t)16 << 20) &&
           cbi_loop_alloc_resolve(&d->alloc) && cbi_loop_backend_find(d->backend) != NULL;
}

static cb_loop_status cbi_loop_init_core(cb_loop *loop, const cb_loop_desc *d)
{
    size_t size = sizeof(struct cbi_loop_core) + CBI_LOOP_HEADROOM + d->read_bytes;
    struct cbi_loop_core *core = (struct cbi_loop_core *)d->alloc.alloc(d->alloc.user, size, CBI_LOOP_ALIGN);
    if (core == NULL) {
        return CB_LOOP_E_NOMEM;
    }
    cbi_loop_core_init(core, loop, d);
    core->block_bytes = size;
    core->backend = cbi_loop_backend_find(d->backend);
    loop->core = core;
    if (!cbi_loop_waker_open(core) || !core->backend->open(core)) {
        cb_loop_status st = cbi_loop_status_of(errno);
        cbi_loop_core_free(core);
        return st;
    }
    return CB_LOOP_OK;
}

CB_LOOP_DEF cb_loop_status cb_loop_init(cb_loop *loop, const cb_loop_desc *desc)
{
    cb_loop_desc d;
    CB_LOOP_ASSERT(loop != NULL);
    memset(loop, 0, sizeof *loop);
    loop->wake_fd = -1;
    loop->stop_task.fn = cbi_loop_on_stop;
    loop->stop_task.user = loop;
    if (desc != NULL) {
        d = *desc;
    } else {
        memset(&d, 0, sizeof d);
    }
    loop->failed = cbi_loop_desc_resolve(&d) ? cbi_loop_init_core(loop, &d) : CB_LOOP_E_ARG;
    if (loop->failed != CB_LOOP_OK) {
        loop->posted = cbi_loop_ended_mark(loop);
    }
    return loop->failed;
}

/* Tries once more to send what was written, then closes: deinit does not wait for peers. */
static void cbi_loop_streams_end(struct cbi_loop_core *core)
{
    cbi_loop_link *link, *next;
    for (link = core->streams.next; link != &core->streams; link = next) {
        cb_loop_stream *s = cbi_loop_stream_of(link);
        next = link->next;
        if (cbi_loop_stream_can_send(s)) {
            cbi_loop_stream_flush(s);
        }
        cbi_loop_stream_kill(
            s, (s->io.flags & CBI_LOOP_CLOSING) != 0 && s->unsent == 0 ? CB_LOOP_OK : CB_LOOP_E_CLOSED,
            CBI_LOOP_OP_NONE, 0);
    }
}

CB_LOOP_DEF void cb_loop_deinit(cb_loop *loop)
{
    struct cbi_loop_core *core = loop != NULL ? loop->core : NULL;
    cbi_loop_link *link;
    if (core == NULL) {
        return;
    }
    CB_LOOP_ASSERT(!core->busy);
    if (core->busy) {
        return;
    }
    core->busy = true;
    core->ended = true;
    for (link = core->listeners.next; link != &core->listeners; link = link->next) {
        cbi_loop_listener_close(
            (cb_loop_listener *)(void *)((uint8_t *)(void *)link - offsetof(cb_loop_listener, link)));
    }
    cbi_loop_settle(core);
    cbi_loop_streams_end(core);
    cbi_loop_settle(core);
    cbi_loop_posts_end(core);
    cbi_loop_timers_drop(core);
    cbi_loop_core_free(core);
}

/* This thread's posts need no atomic operation from now on. What it posted before, when it still had to,
 * comes first. */
static CBI_LOOP_COLD void cbi_loop_own_begin(cb_loop *loop)
{
    cb_loop_task *task = cbi_loop_take_posted(loop->core, NULL);
    while (task != NULL) {
        cb_loop_task *next = task->next;
        cbi_loop_post_own(loop->core, task);
        task = next;
    }
    __atomic_store_n(&loop->owner, cbi_loop_thread(), __ATOMIC_RELAXED);
}

static void cbi_loop_own(cb_loop *loop)
{
    if (CBI_LOOP_UNLIKELY(__atomic_load_n(&loop->owner, __ATOMIC_RELAXED) != cbi_loop_thread())) {
        cbi_loop_own_begin(loop);
    }
}

CB_LOOP_DEF cb_loop_status cb_loop_step(cb_loop *loop, uint64_t timeout_ns)
{
    CB_LOOP_ASSERT(loop != NULL);
    if (loop->core == NULL || loop->core->busy) {
        return loop->core == NULL ? CB_LOOP_E_STATE : CB_LOOP_E_BUSY;
    }
    cbi_loop_own(loop);
    cbi_loop_pass(loop->core, timeout_ns);
    return CB_LOOP_OK;
}

/* A stop asked for in the pass just made, by a callback or whoever, need not wait for its task. */
static bool cbi_loop_obey(cb_loop *loop)
{
    uint32_t asked = CBI_LOOP_STOP_ASKED;
    return __atomic_load_n(&loop->stopping, __ATOMIC_RELAXED) == asked &&
           __atomic_compare_exchange_n(&loop->stopping, &asked, CBI_LOOP_STOP_OBEYED, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

CB_LOOP_DEF cb_loop_status cb_loop_run(cb_loop *loop)
{
    CB_LOOP_ASSERT(loop != NULL);
    if (loop->core == NULL || loop->core->busy) {
        return loop->core == NULL ? CB_LOOP_E_STATE : CB_LOOP_E_BUSY;
    }
    cbi_loop_own(loop);
    while (!loop->core->stop) {
        cbi_loop_pass(loop->core, CB_LOOP_FOREVER);
        loop->core->stop = cbi_loop_obey(loop) || loop->core->stop;
    }
    loop->core->stop = false;
    __atomic_store_n(&loop->owner, (uintptr_t)0, __ATOMIC_RELAXED);
    return CB_LOOP_OK;
}

CB_LOOP_DEF bool cb_loop_in_callback(const cb_loop *loop)
{
    return loop->core != NULL && loop->core->busy;
}

CB_LOOP_DEF const char *cb_loop_reason(const cb_loop *loop)
{
    return loop->core != NULL ? loop->core->reason : cbi_loop_status_text(loop->failed);
}

/* Nothing private is left behind. */
#undef CBI_LOOP_NO_SIGNAL
#undef CBI_LOOP_HAS_ACCEPT4
#undef CBI_LOOP_SYS_SOCKET
#undef CBI_LOOP_SYS_CONNECT
#undef CBI_LOOP_SYS_ACCEPT
#undef CBI_LOOP_SYS_RECV
#undef CBI_LOOP_SYS_SEND
#undef CBI_LOOP_SYS_SENDMSG
#undef CBI_LOOP_SYS_EPOLL_WAIT
#undef CBI_LOOP_SYS_POLL
#undef CBI_LOOP_SYS_CLOCK
#undef CBI_LOOP_HEADROOM
#undef CBI_LOOP_SMALL
#undef CBI_LOOP_CHUNK
#undef CBI_LOOP_READ_MAX
#undef CBI_LOOP_IOV
#undef CBI_LOOP_READY
#undef CBI_LOOP_TEXT
#undef CBI_LOOP_CLASSES
#undef CBI_LOOP_LEVELS
#undef CBI_LOOP_SLOTS
#undef CBI_LOOP_ALIGN
#undef CBI_LOOP_MS
#undef CBI_LOOP_NEAR
#undef CBI_LOOP_SECOND
#undef CBI_LOOP_FRESH
#undef CBI_LOOP_IS_DUE
#undef CBI_LOOP_LIKELY
#undef CBI_LOOP_UNLIKELY
#undef CBI_LOOP_COLD
#undef CBI_LOOP_ERRORS

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* CB_LOOP_IMPLEMENTATION */

/* MIT No Attribution
 *
 * Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
 * associated documentation files (the "Software"), to deal in the Software without restriction, including
 * without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
 * copies of the Software, and to permit persons to whom the Software is furnished to do so.
 *
 * THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT
 * LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO
 * EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER
 * IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE
 * USE OR OTHER DEALINGS IN THE SOFTWARE.
 */
