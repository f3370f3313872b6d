/* cb_rpc.h - v0.1.0 - calls and events over any byte or message transport - SPDX: Unlicense OR MIT-0
 *
 * Declare methods in one X-macro list; call them with a receiver or a future, answer at once or later. The
 * engine is sans-I/O: bytes and the time in, events and bytes out. A small call costs 3 bytes over its data.
 *
 * BUILD      in exactly one .c or .cpp file:
 *                #define CB_RPC_IMPLEMENTATION
 *                #include "cb_rpc.h"
 *            everywhere else just #include it. Link: nothing.
 *            With cb_loop.h: #define CB_RPC_WITH_LOOP before every include of cb_rpc.h, which includes it;
 *            in the one file also #define CB_LOOP_IMPLEMENTATION.
 * NEEDS      C99 or C++11; <stdbool.h> <stddef.h> <stdint.h> <string.h>. Contracts need types with encode,
 *            decode and size functions, such as CB_CODEC_SCHEMA of cb_codec.h makes.
 * DOES NOT   stream items, send long answers in pieces, send heartbeats, batch events, or encrypt.
 *
 * EXAMPLE    #define CB_CODEC_IMPLEMENTATION
 *            #include "cb_codec.h"
 *            #define CB_RPC_IMPLEMENTATION
 *            #include "cb_rpc.h"
 *            #include <stdio.h>
 *            #define NUMBER(F) F(i32, n)
 *            CB_CODEC_SCHEMA(number, NUMBER)
 *            #define MATHS(CALL, EVENT) CALL(1, maths_double, number, number)
 *            CB_RPC_CONTRACT(maths, MATHS)
 *            static cb_rpc_status on_double(void *user, cb_rpc_session *from, const number *a, number *reply)
 *            {
 *                (void)user; (void)from;
 *                reply->n = a->n * 2;
 *                return CB_RPC_OK;
 *            }
 *            static void on_doubled(void *user, const cb_rpc_result *res, const number *reply)
 *            {
 *                (void)user;
 *                if (res->status == CB_RPC_OK) { printf("doubled: %d\n", reply->n); }
 *            }
 *            int main(void)
 *            {
 *                static const maths_handlers handlers = { on_double };
 *                cb_rpc_hub_desc d;
 *                cb_rpc_hub hub;
 *                cb_rpc_pair pair;
 *                number a;
 *                memset(&d, 0, sizeof d);
 *                maths_bind(&d, &handlers, NULL);
 *                if (cb_rpc_hub_init(&hub, &d) != CB_RPC_OK) { return 1; }
 *                if (cb_rpc_pair_init(&pair, &hub, &hub, NULL) != CB_RPC_OK) { return 1; }
 *                a.n = 21;
 *                maths_double(&pair.a, &a, on_doubled, NULL);
 *                cb_rpc_pair_run(&pair, 0);
 *                cb_rpc_pair_deinit(&pair);
 *                return cb_rpc_hub_deinit(&hub) == CB_RPC_OK ? 0 : 1;
 *            }
 *
 * API        contract CB_RPC_CONTRACT -> NAME NAME_future NAME_answer, C_handlers C_bind C_fingerprint
 *            hub      cb_rpc_hub_init  cb_rpc_hub_deinit
 *            session  cb_rpc_session_init  _deinit  _restart  cb_rpc_end  cb_rpc_close  cb_rpc_reason
 *            driving  cb_rpc_next  cb_rpc_next_message  cb_rpc_need  cb_rpc_dispatch  cb_rpc_drive
 *                     cb_rpc_drive_message  cb_rpc_tick  cb_rpc_deadline
 *            caller   cb_rpc_with_timeout  cb_rpc_last_call  cb_rpc_call_cancel  cb_rpc_future_cancel
 *            handler  cb_rpc_refuse  cb_rpc_later  cb_rpc_token_refuse  cb_rpc_call_deadline
 *            memory   cb_rpc_pair_init  _run  _cut  _deinit  (two sessions joined in one process)
 *            loop     cb_rpc_serve  cb_rpc_unserve  cb_rpc_serve_address  cb_rpc_connect  cb_rpc_wait
 *            info     cb_rpc_status_str
 *
 * CONFIG     CB_RPC_STATIC      every function static to the including file
 *            CB_RPC_DEF, CBDEF  linkage word of your own
 *            CB_RPC_NO_STDLIB   no malloc/free; an allocator is then required
 *            CB_RPC_NO_STRINGS  cb_rpc_status_str returns ""
 *            CB_RPC_POISON      overwrites borrowed bytes with 0xDB when their life ends (for tests)
 *            CB_RPC_ASSERT(c)   default: assert of <assert.h>
 *            CB_RPC_TYPE_ERROR  error struct of the types' functions; default: cb_codec_error
 *
 * MEMORY     the hub takes scratch for one decoded argument and one answer at init; a session takes a table
 *            when it first calls or a call is answered later, doubling up to its limit; nothing once warm.
 * ERRORS     0 done; > 0 progress; -1.. caller, -20.. resource (both change nothing), -40.. the connection
 *            (kept until the session is initialised again), -60.. how a call failed (they come as results).
 * THREADS    a hub and its sessions belong to one thread.
 * LIMITS     frame 8 MiB, calls open 1,024, calls waiting for a late answer 256, method numbers 1 to 1,023.
 * SECURITY   every byte of the peer is checked before it is used; texts of the peer arrive bounded and
 *            printable.
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

#ifndef CB_RPC_H
#define CB_RPC_H
#define CB_RPC_VERSION 0x000100 /* 0xMMmmpp */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Linkage. CBDEF, when the user defined it, applies to every cb_*.h at once. */
#ifndef CB_RPC_DEF
#if defined(CBDEF)
#define CB_RPC_DEF CBDEF
#elif defined(CB_RPC_STATIC)
#define CB_RPC_DEF static inline
#else
#define CB_RPC_DEF extern
#endif
#endif

#if defined(__GNUC__) || defined(__clang__)
#define CB_RPC_CHECKED __attribute__((warn_unused_result))
#define CB_RPC_UNUSED __attribute__((unused))
#else
#define CB_RPC_CHECKED
#define CB_RPC_UNUSED
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
#error "cb_rpc.h: a cb header of another release was included before"
#endif

/* -- status: one list makes the enum and the strings -- */
#define CB_RPC_STATUS_LIST(X) \
    X(OK, 0, "done") \
    X(NEED_INPUT, 1, "more bytes must come") \
    X(NEED_OUTPUT, 2, "the sink must drain first") \
    X(WAIT, 3, "calls of the peer wait for their late answers") \
    X(CLOSED, 4, "the session has ended and everything was told") \
    X(LATER, 5, "the handler took a token and answers later") \
    X(E_ARG, -1, "bad argument or description") \
    X(E_STATE, -2, "not possible in this state") \
    X(E_BUSY, -3, "not allowed inside a handler or while in use") \
    X(E_STALE, -4, "the call has ended or its caller has gone") \
    X(E_ENCODE, -5, "a value breaks its own schema") \
    X(E_NOMEM, -20, "the allocator returned NULL") \
    X(E_FULL, -21, "a limit is reached; try again later") \
    X(E_TOO_BIG, -22, "the message is longer than a frame may be") \
    X(E_PROTOCOL, -40, "the peer broke the protocol") \
    X(E_FRAME_TOO_BIG, -41, "the peer sent a frame above the limit") \
    X(E_SLOW_PEER, -42, "the peer does not read its answers") \
    X(E_CLOSED, -43, "the connection has ended") \
    X(E_CUT, -44, "the connection broke") \
    X(E_TIMEOUT, -45, "the time for it has passed") \
    X(E_CONNECT, -46, "the connection could not be made") \
    X(E_REFUSED, -60, "the handler refused the call") \
    X(E_HANDLER, -61, "the handler failed") \
    X(E_UNKNOWN_METHOD, -62, "the peer does not have this method") \
    X(E_LAYOUT, -63, "the peer has this method with another layout") \
    X(E_ARGUMENTS, -64, "the peer could not read the arguments") \
    X(E_PEER_BUSY, -65, "the peer has too many calls waiting") \
    X(E_PEER_TIMEOUT, -66, "the deadline passed at the peer") \
    X(E_ANSWER_TOO_BIG, -67, "the answer is longer than a frame may be") \
    X(E_CANCELLED, -68, "the call was cancelled") \
    X(E_ANSWER, -69, "the answer could not be read")

typedef enum cb_rpc_status {
#define CB_RPC_STATUS_ITEM(name, value, text) CB_RPC_##name = (value),
    CB_RPC_STATUS_LIST(CB_RPC_STATUS_ITEM)
#undef CB_RPC_STATUS_ITEM
    CB_RPC_STATUS_FORCE_32 = 0x7fffffff
} cb_rpc_status;

#define CB_RPC_NUMBER_MAX 1023u      /* method numbers are 1 to this */
#define CB_RPC_REASON_MAX 200u       /* bytes of a reason that travels or is kept, the NUL not counted */
#define CB_RPC_NEVER UINT64_MAX      /* no deadline */

typedef struct cb_rpc_hub cb_rpc_hub;
typedef struct cb_rpc_session cb_rpc_session;
typedef struct cb_rpc_row cb_rpc_row;

/* -- ids -- */
typedef struct cb_rpc_call { /* a call we made; 0: none. Stale once its result was told. */
    uint64_t id;
} cb_rpc_call;

typedef struct cb_rpc_token { /* a call of the peer that is answered later. Copy it freely; any of the copies
                                 may answer, the first wins. */
    cb_rpc_hub *hub;
    uint64_t id;
} cb_rpc_token;

/* -- results -- */
typedef struct cb_rpc_result {
    cb_rpc_status status; /* OK, or how the call failed */
    const char *reason;   /* never NULL, printable, NUL-terminated; borrowed: until the receiver returns */
    cb_rpc_call call;     /* what cb_rpc_last_call told when it was made */
} cb_rpc_result;

typedef void (*cb_rpc_any_fn)(void); /* a receiver whose type only its own row knows */

typedef enum cb_rpc_future_state {
    CB_RPC_FUTURE_NONE = 0, /* cleared, not in use */
    CB_RPC_FUTURE_WAITING,  /* the library holds pointers to the future and the reply */
    CB_RPC_FUTURE_DONE, /* final: status, reason and (when OK) the reply are set; both are the caller's
                           again */
    CB_RPC_FUTURE_FORCE_32 = 0x7fffffff
} cb_rpc_future_state;

typedef struct cb_rpc_future { /* needs no initialisation; may not move while WAITING */
    cb_rpc_future_state state;
    cb_rpc_status status;                /* valid when DONE */
    cb_rpc_session *session;             /* private */
    cb_rpc_call call;                    /* private */
    char reason[CB_RPC_REASON_MAX + 1u]; /* valid when DONE; NUL-terminated */
} cb_rpc_future;

/* -- contracts: filled by CB_RPC_CONTRACT, read by the engine -- */
typedef struct cb_rpc_type { /* how one type is measured, written and read */
    size_t memory_size;       /* sizeof */
    size_t size_min;          /* least and greatest encoded size, bytes */
    size_t size_max;
    size_t (*size)(const void *value);                                         /* exact encoded size, bytes */
    bool (*encode)(const void *value, uint8_t *out, size_t cap, size_t *size); /* false: the value breaks its
                                                                                  schema */
    bool (*decode)(void *value, const uint8_t *in, size_t size, char *why, size_t why_cap); /* false: why is
                                                                                               set */
    uint64_t (*layout_hash)(void);
    size_t (*describe)(char *out, size_t cap);                                  /* as snprintf counts */
} cb_rpc_type;

struct cb_rpc_row { /* one line of a contract */
    uint16_t number;         /* 1 to CB_RPC_NUMBER_MAX */
    bool is_event;           /* one way: never answered */
    bool unreliable;         /* an event that may be lost; goes reliable where there is no unreliable sink */
    const char *name;
    const cb_rpc_type *args;
    const cb_rpc_type *reply; /* NULL for an event */
    bool (*is_handled)(const void *member); /* member: where this row's handler stands in the handlers
                                               struct */
    cb_rpc_status (*run)(const void *member, void *user, cb_rpc_session *from, const void *args, void *reply);
    void (*deliver)(cb_rpc_any_fn receiver, void *user, const cb_rpc_result *res, const void *reply);
};

typedef struct cb_rpc_slot { /* a row and where its handler stands in the handlers struct */
    const cb_rpc_row *row;
    size_t handler_at;       /* bytes from the start of the handlers */
} cb_rpc_slot;

typedef struct cb_rpc_contract {
    const char *name;
    const cb_rpc_slot *slots;
    size_t count;
} cb_rpc_contract;

/* -- hub: what all sessions of one loop share -- */
typedef struct cb_rpc_hub_desc { /* clear with memset, NAME_bind(&d, &handlers, user), then set what
                                    differs */
    const cb_rpc_contract *contract; /* set by NAME_bind; kept until deinit (it is static) */
    const void *handlers; /* set by NAME_bind; NULL: none. Kept until deinit; read by init which of them are
                             NULL */
    void *user;           /* set by NAME_bind; first argument of every handler and of the notices below */
    size_t frame_bytes_max;          /* longest frame in either direction; 0 = 8 MiB; at least 64 */
    uint32_t calls_open_max;         /* calls of ours in flight, per session; 0 = 1,024; at most 65,536 */
    uint32_t calls_waiting_max; /* calls of a peer with a late answer, per session; 0 = 256; at most 65,536 */
    uint64_t hello_ns;          /* a peer's time to say hello; 0 = 10 s, CB_RPC_NEVER = as long as it takes */
    uint64_t call_timeout_ns;        /* of calls without one of their own; 0 = none */
    uint64_t linger_ns;         /* late answers to a peer that has ended its side, which may also mean that it
                                   is gone: how long they are waited for; 0 = 30 s, CB_RPC_NEVER = no bound */
    uint64_t answer_timeout_ns; /* bound on late answers; 0 = none: only the caller's own deadline counts */
    void (*on_cancel)(void *user, cb_rpc_session *from, cb_rpc_token token, cb_rpc_status why); /* a late call
                                        is not waited for any more (E_CANCELLED, E_PEER_TIMEOUT); the token is
                                        stale. May be NULL */
    uint64_t (*clock)(void *clock_user); /* ns; deadlines count from it. NULL: from the last time handed in.
                                            Glue sets it */
    void *clock_user;
    cb_alloc alloc;                  /* copied; both functions NULL = malloc/free */
    /* the rest is for the glue with a transport; without it these fields are ignored */
    const char *url;                 /* where to serve: "tcp://0.0.0.0:4000"; borrowed for the call */
    uint32_t sessions_max;           /* peers at once; 0 = 10,000 */
    size_t output_bytes_soft; /* unsent bytes of one session at which new sends are refused; 0 = 16 MiB */
    uint64_t redial_ns_min;   /* first pause before dialling again; 0 = 250 ms; doubles after each failure */
    uint64_t redial_ns_max;          /* longest pause; 0 = 30 s */
    void (*on_up)(void *user, cb_rpc_session *s);   /* a connection is there. May be NULL */
    void (*on_down)(void *user, cb_rpc_session *s, const cb_rpc_result *why); /* it ended, or could not be
                                        made; its calls were told before. A peer that we served is gone after
                                        it. May be NULL */
    void (*on_closed)(void *user, cb_rpc_session *s); /* once, last, for a session given to cb_rpc_connect:
                                        its memory is the user's again. May be NULL */
} cb_rpc_hub_desc;

/* Private: a row of the hub's contract with its handler. */
typedef struct cbi_rpc_method {
    const cb_rpc_row *row;
    const void *member; /* where the handler stands; NULL: there is none */
    uint32_t name_hash, layout_hash; /* kept: a hello of a peer may ask for them a million times */
} cbi_rpc_method;

/* Private: a peer's methods, shared by all sessions whose peer sent the same list. */
typedef struct cbi_rpc_peer cbi_rpc_peer;
typedef struct cbi_rpc_open cbi_rpc_open;
typedef struct cbi_rpc_waiting cbi_rpc_waiting;

struct cb_rpc_hub { /* size is public, fields are not; must not move while it has sessions */
    cb_rpc_hub_desc desc;
    cbi_rpc_peer *peers;        /* list of the distinct method lists seen */
    cbi_rpc_waiting *waiting;   /* pool of calls that are answered later */
    uint32_t *waiting_hash;     /* heads of chains by session and wire id; as many as waiting_cap */
    uint32_t waiting_cap, waiting_free;
    uint32_t sessions;
    cbi_rpc_method *methods;    /* one for each slot of the contract */
    uint16_t *row_of_number;    /* number -> slot index + 1; 0: none. CB_RPC_NUMBER_MAX + 1 entries */
    uint8_t *hello;             /* prepared once: head and body of our hello frame */
    size_t hello_size;
    void *args, *reply;         /* scratch for one decoded argument and one answer */
    uint8_t *big;               /* scratch for a message longer than a piece; kept up to the largest seen */
    size_t big_cap;
    void *block;                /* the one block that init took */
    size_t block_size;
    cb_rpc_session *dispatching;
    void *glue;
    void (*glue_end)(cb_rpc_hub *hub); /* gives back what the end of its loop left over */
    uint64_t bytes_in, bytes_out; /* of whole frames, of all sessions */
    uint64_t events_dropped; /* events of unknown or differing methods, unreadable, or unreliable before the
                                hello */
    char text[CB_RPC_REASON_MAX + 1u];
    char refusal[CB_RPC_REASON_MAX + 1u]; /* what cb_rpc_refuse was given in this dispatch */
};

/* On failure hub needs no deinit, but may get it. E_ARG: contradictions, a number out of range or used twice,
 * two names that hash alike; E_NOMEM. desc is copied. */
CB_RPC_DEF CB_RPC_CHECKED cb_rpc_status cb_rpc_hub_init(cb_rpc_hub *hub, const cb_rpc_hub_desc *desc);

/* E_BUSY while sessions are left or inside a handler: nothing is freed then. With the glue cb_loop_deinit
 * comes first, or unserve, close and passes of the loop until this is OK. Safe on NULL and twice. A dialled
 * session that was between two connections when its loop ended has its on_closed here. */
CB_RPC_DEF cb_rpc_status cb_rpc_hub_deinit(cb_rpc_hub *hub);

/* Bytes of whole frames that all sessions have read and written since init. */
CB_RPC_DEF void cb_rpc_hub_bytes(const cb_rpc_hub *hub, uint64_t *in, uint64_t *out);
/* Events that came and were not delivered: of a method that is unknown, differs or has no handler;
 * unreadable; too early. */
CB_RPC_DEF uint64_t cb_rpc_hub_events_dropped(const cb_rpc_hub *hub);

/* -- session: one peer -- */
typedef struct cb_rpc_session_desc {
    cb_sink sink;               /* reliable and ordered; copied. It must outlive the session or end() */
    const cb_sink *unreliable;  /* kept until deinit; NULL: unreliable events go the reliable way */
    bool is_message_based;      /* the transport keeps message boundaries: frames carry no length */
    bool is_server;             /* only words of error texts depend on it */
    void *user;                 /* yours: cb_rpc_session_user */
    void (*wake)(void *wake_user, cb_rpc_session *s); /* something happened outside next: call next soon, and
                                   ask deadline again. Must not call the engine. NULL: the driver calls next
                                   after each of its own acts */
    void *wake_user;
} cb_rpc_session_desc;

struct cb_rpc_session { /* size is public, fields are not; must not move between init and deinit */
    cb_rpc_hub *hub;
    cb_sink out;
    const cb_sink *unreliable;
    void *user;
    void (*wake)(void *wake_user, cb_rpc_session *s);
    void *wake_user;
    void *link;                 /* the glue's */
    cbi_rpc_peer *peer;         /* the peer's methods; NULL until its hello came */
    cbi_rpc_open *open;         /* table of our calls in flight, by wire id; NULL until the first call */
    uint32_t *heap;             /* deadlines of both kinds of calls, earliest first */
    uint64_t now_ns, next_timeout_ns, armed_ns;
    uint64_t hello_due_ns;      /* 0: not counting yet */
    uint64_t linger_due_ns;     /* PEER_ENDED: when waiting late calls are given up */
    const char *reason;         /* why the session ended; static, or the ender's */
    const struct cb_rpc_event *current; /* the call being dispatched */
    cb_rpc_future *untold;      /* that of the RESULT which next gave and dispatch has not seen yet */
    uint64_t serial;            /* of the call ids */
    uint32_t open_cap, open_count, open_free, open_told; /* open_told: how far the end has been told */
    uint32_t cancelled_head, cancelled_tail;
    uint32_t heap_cap, heap_count;
    uint32_t waiting_head, waiting_count;
    uint32_t frame_bytes_max;   /* what the peer reads at most; ours until its hello came */
    uint32_t peer_calls_max;
    cb_rpc_call last_call;
    size_t need;
    cb_rpc_status error;        /* sticky; OK while all is well */
    uint32_t marks;             /* CBI_RPC_MARK_: why next has to look beyond the bytes; 0 nearly always */
    uint8_t end;                /* CBI_RPC_OPEN and what follows it */
    bool is_message_based, is_server, hello_sent, took_token;
};

/* E_ARG: no hub, or a sink without functions or with pieces under 64 bytes. Nothing is allocated. */
CB_RPC_DEF CB_RPC_CHECKED cb_rpc_status cb_rpc_session_init(cb_rpc_session *s, cb_rpc_hub *hub,
                                                            const cb_rpc_session_desc *desc);

/* Gives the session's memory back. Futures that still wait become DONE with E_CLOSED; receivers that were not
 * told are not told any more: drive next to CLOSED first. E_BUSY inside a handler of this session. Safe on
 * NULL and twice. */
CB_RPC_DEF cb_rpc_status cb_rpc_session_deinit(cb_rpc_session *s);

/* After next said CLOSED: the same session, its user and tables, over a new connection. E_STATE before that;
 * E_ARG: the sink. */
CB_RPC_DEF CB_RPC_CHECKED cb_rpc_status cb_rpc_session_restart(cb_rpc_session *s, const cb_sink *sink);

CB_RPC_DEF bool cb_rpc_session_is_closed(const cb_rpc_session *s); /* cb_rpc_close was called */
CB_RPC_DEF void *cb_rpc_session_user(const cb_rpc_session *s);
CB_RPC_DEF void cb_rpc_session_set_user(cb_rpc_session *s, void *user);
CB_RPC_DEF uint32_t cb_rpc_session_peer_calls_max(const cb_rpc_session *s); /* late calls that the peer takes;
                                                                               0 before its hello */
CB_RPC_DEF const char *cb_rpc_reason(const cb_rpc_session *s); /* why it ended or what the peer did wrong; ""
                                                                  while all is well */

/* -- driving a session -- */
typedef enum cb_rpc_event_kind {
    CB_RPC_EVENT_NONE = 0,
    CB_RPC_EVENT_HELLO, /* the peer's methods are known now */
    CB_RPC_EVENT_CALL, /* the peer calls: dispatch, or take a token and answer; else its caller waits for
                          ever */
    CB_RPC_EVENT_ONE_WAY,   /* the peer sent an event */
    CB_RPC_EVENT_RESULT,    /* a call of ours has ended */
    CB_RPC_EVENT_CANCELLED, /* a call of the peer that waits for its late answer has ended without it */
    CB_RPC_EVENT_FORCE_32 = 0x7fffffff
} cb_rpc_event_kind;

typedef struct cb_rpc_event {
    cb_rpc_event_kind kind;
    uint32_t wire_id;          /* CALL: the peer's number of it */
    const cb_rpc_row *row;     /* our row; NULL for HELLO */
    cb_slice body; /* encoded arguments or answer; borrowed: until the following next, end or deinit */
    uint64_t deadline_ns;      /* CALL: when the caller stops waiting; CB_RPC_NEVER: it does not */
    cb_rpc_result result;      /* RESULT */
    cb_rpc_token token;        /* CANCELLED: now stale */
    const void *member;        /* private, from here on */
    cb_rpc_any_fn receiver;
    void *user;
    cb_rpc_future *future;
} cb_rpc_event;

/* Takes one event from the bytes at *in and moves *in behind them; an empty span yields what tick, end,
 * cancel or a late answer produced. OK: *event is set. NEED_INPUT: show the bytes left over again with at
 * least cb_rpc_need() of them. NEED_OUTPUT: drain the sink first. WAIT: the peer ended its side and late
 * answers are owed. CLOSED: all was told. E_PROTOCOL, E_FRAME_TOO_BIG, E_SLOW_PEER, E_TIMEOUT (no hello),
 * E_NOMEM are sticky: end the transport, then call cb_rpc_end. Never writes into the bytes, but with
 * CB_RPC_POISON. now_ns: any monotonic clock; a step back is ignored. */
CB_RPC_DEF cb_rpc_status cb_rpc_next(cb_rpc_session *s, cb_span *in, uint64_t now_ns, cb_rpc_event *event);

/* The same where the transport keeps boundaries: one whole message, at most one event of it; then call it
 * with an empty slice until it stops. NEED_INPUT: the message was used up. The message is never written. */
CB_RPC_DEF cb_rpc_status cb_rpc_next_message(cb_rpc_session *s, cb_slice message, uint64_t now_ns,
                                             cb_rpc_event *event);

/* After NEED_INPUT: total bytes, from the first one left over, with which next can go on. At least 1. */
CB_RPC_DEF size_t cb_rpc_need(const cb_rpc_session *s);

/* Decodes an event's values and runs its handler or receiver, or completes its future; answers what the
 * handler returned. E_BUSY inside a handler of the same hub. Else OK: the peer's mistakes are answered to
 * it. */
CB_RPC_DEF cb_rpc_status cb_rpc_dispatch(cb_rpc_session *s, const cb_rpc_event *event);

/* next and dispatch until the session stops; returns why it did. E_BUSY inside a handler of the same hub:
 * nothing was taken then. */
CB_RPC_DEF cb_rpc_status cb_rpc_drive(cb_rpc_session *s, cb_span *in, uint64_t now_ns);
/* NEED_OUTPUT, E_BUSY: the message was not used, show it again. Any other: it was used up. An empty one
 * drives what needs no input. */
CB_RPC_DEF cb_rpc_status cb_rpc_drive_message(cb_rpc_session *s, cb_slice message, uint64_t now_ns);

/* Marks the deadlines that have passed; next yields them. O(1) when none has. */
CB_RPC_DEF void cb_rpc_tick(cb_rpc_session *s, uint64_t now_ns);

/* When to tick next, ns; CB_RPC_NEVER: not needed. O(1). */
CB_RPC_DEF uint64_t cb_rpc_deadline(cb_rpc_session *s);

/* No more input comes. why OK: the peer ended cleanly, late answers may still go out. Any other: the
 * connection is gone, the sink is not called again and tokens become stale. next then yields the failure of
 * every open call once, and CLOSED at last. text: NULL, or a reason to tell them; borrowed until deinit or
 * restart. The first end counts, but a break after a clean end does too. */
CB_RPC_DEF void cb_rpc_end(cb_rpc_session *s, cb_rpc_status why, const char *text);

/* Ends the session from this side: open calls fail with E_CLOSED, tokens become stale, no send is taken any
 * more. With the glue the bytes already written are flushed first and redialling stops. Allowed anywhere,
 * also inside its own handlers. */
CB_RPC_DEF void cb_rpc_close(cb_rpc_session *s);

/* -- calling: the typed stubs of a contract end here -- */
/* OK: the receiver or future is told exactly once, from a later dispatch. Below 0 nothing was sent and a
 * receiver is not told; a future is DONE with that status. E_CLOSED, E_FULL (calls or output), E_TOO_BIG,
 * E_ENCODE, E_NOMEM, E_ARG (not in this hub's contract). args: borrowed for the call. receiver may be NULL:
 * the result is dropped. */
CB_RPC_DEF cb_rpc_status cb_rpc_call_send(cb_rpc_session *s, const cb_rpc_row *row, const void *args,
                                          cb_rpc_any_fn receiver, void *user);
CB_RPC_DEF cb_rpc_status cb_rpc_call_future(cb_rpc_session *s, const cb_rpc_row *row, const void *args,
                                            void *reply, cb_rpc_future *f);
/* One way. OK means written to the sink, not delivered. The same statuses. */
CB_RPC_DEF cb_rpc_status cb_rpc_event_send(cb_rpc_session *s, const cb_rpc_row *row, const void *args);

/* The next call on s has this long; the peer is told. Returns s: chat_join(cb_rpc_with_timeout(&s, ns),
 * &args, ...). ns > 0. */
CB_RPC_DEF cb_rpc_session *cb_rpc_with_timeout(cb_rpc_session *s, uint64_t timeout_ns);

/* The call that the last stub made; {0} when it failed. */
CB_RPC_DEF cb_rpc_call cb_rpc_last_call(const cb_rpc_session *s);

/* The call's receiver or future is told E_CANCELLED from the following next, and the peer that nobody waits.
 * E_STALE: it was told. */
CB_RPC_DEF cb_rpc_status cb_rpc_call_cancel(cb_rpc_session *s, cb_rpc_call call);

/* At once: when it returns, f is DONE and no pointer to f or its reply is held. Does nothing to a future that
 * does not wait. */
CB_RPC_DEF void cb_rpc_future_cancel(cb_rpc_future *f);

/* -- answering -- */
/* For `return cb_rpc_refuse(from, "the room is full");` in a handler. reason: copied; what is over
 * CB_RPC_REASON_MAX bytes is cut; NULL: no words. */
CB_RPC_DEF cb_rpc_status cb_rpc_refuse(cb_rpc_session *from, const char *reason);

/* Inside a handler: keep the token, return CB_RPC_LATER, answer any time on the hub's thread. id 0: no
 * memory, the session has failed, or no call is being dispatched (then refuse). */
CB_RPC_DEF cb_rpc_token cb_rpc_later(cb_rpc_session *from);

/* The same for who drives next himself: of a CALL event, before the following next. */
CB_RPC_DEF cb_rpc_token cb_rpc_event_token(cb_rpc_session *s, const cb_rpc_event *event);

/* E_STALE: the caller has gone, cancelled, or was answered; nothing was touched. E_ENCODE, E_NOMEM: the token
 * still waits. E_TOO_BIG: the caller was told E_ANSWER_TOO_BIG. E_ARG: another method's answer. E_CLOSED,
 * E_SLOW_PEER: the session has failed; the token is stale. */
CB_RPC_DEF cb_rpc_status cb_rpc_token_answer(cb_rpc_token t, const cb_rpc_row *row, const void *reply);
CB_RPC_DEF cb_rpc_status cb_rpc_token_refuse(cb_rpc_token t, const char *reason);
CB_RPC_DEF bool cb_rpc_token_is_waiting(cb_rpc_token t);

/* Inside a handler: when the caller stops waiting, ns of the session's clock; CB_RPC_NEVER: it does not
 * say. */
CB_RPC_DEF uint64_t cb_rpc_call_deadline(const cb_rpc_session *from);

/* -- memory: two sessions of one process joined, for tests and for local peers -- */
typedef struct cb_rpc_pair_desc {
    bool is_message_based;     /* messages with kept boundaries; false: a byte stream */
    size_t bytes_max;          /* what one direction holds; 0 = 256 KiB */
    size_t piece_max;          /* longest contiguous piece lent; 0 = 16 KiB */
    uint64_t delay_ns;         /* age at which bytes arrive; 0 = at the next run */
    size_t cut_max;            /* bytes are shown in pieces of 1 to this many; 0 = as they are */
    uint32_t lose_percent;     /* unreliable messages that are dropped */
    uint32_t reorder_percent;  /* unreliable messages that are overtaken by the one behind */
    uint64_t seed;             /* of the cuts, losses and reorderings */
    cb_alloc alloc;
} cb_rpc_pair_desc;

typedef struct cbi_rpc_mark cbi_rpc_mark;
typedef struct cbi_rpc_lane { /* private: one direction */
    uint8_t *bytes;
    cbi_rpc_mark *marks;       /* ends of messages and when they arrive */
    size_t cap, head, tail, shown;
    uint32_t mark_head, mark_count;
    unsigned to;               /* the side that reads it: 0 a, 1 b */
    struct cb_rpc_pair *pair;
    bool is_unreliable, is_reading, has_marks;
} cbi_rpc_lane;

typedef struct cb_rpc_pair { /* must not move */
    cb_rpc_session a, b;
    cb_rpc_pair_desc desc;
    cbi_rpc_lane lanes[4];     /* a to b, b to a, and the unreliable two */
    cb_sink unreliable[2];
    uint64_t now_ns, random;
    bool is_due[2];            /* a, b: there is something to show or to tell */
    bool is_stuck[2];          /* it found no room for its output */
    bool is_cut;
} cb_rpc_pair;

/* a is the client, b the server; both hubs may be one. desc NULL: defaults. All memory is taken here.
 * E_ARG: a field out of range; E_NOMEM. */
CB_RPC_DEF CB_RPC_CHECKED cb_rpc_status cb_rpc_pair_init(cb_rpc_pair *pair, cb_rpc_hub *hub_a,
                                                         cb_rpc_hub *hub_b, const cb_rpc_pair_desc *desc);
/* Delivers what has arrived by now_ns, dispatches everything, until both sides are quiet. Returns the first
 * error of a side (that side is ended with it), or OK. E_BUSY inside a handler. */
CB_RPC_DEF cb_rpc_status cb_rpc_pair_run(cb_rpc_pair *pair, uint64_t now_ns);
/* Breaks the connection: both sides end with E_CUT at the next run; bytes on the way are lost. */
CB_RPC_DEF void cb_rpc_pair_cut(cb_rpc_pair *pair);
/* Does nothing inside a handler of one of the two. Safe on NULL and twice. */
CB_RPC_DEF void cb_rpc_pair_deinit(cb_rpc_pair *pair);

/* -- info -- */
CB_RPC_DEF const char *cb_rpc_status_str(cb_rpc_status status); /* never NULL; static storage; unknown values
                                                                   give "?" */

#ifdef __cplusplus
} /* extern "C" */
#endif

/* ============================ contracts by X-macro ============================
 * A list takes two macros and names its rows with them:
 *     #define CHAT(CALL, EVENT) \
 *         CALL (1, chat_join, join_args, join_reply) \
 *         EVENT(2, chat_say,  say_args)
 *     CB_RPC_CONTRACT(chat, CHAT)                      (no semicolon behind it)
 * The first column is the row's number on the wire, 1 to CB_RPC_NUMBER_MAX, below 113 in one byte. Numbers
 * and order may change between releases: the hello maps them by name and layout. EVENT takes RELIABLE, its
 * default, or UNRELIABLE at its end.
 * For each CALL row it makes
 *     cb_rpc_status NAME(cb_rpc_session *s, const ARGS *args, NAME_receiver receiver, void *user);
 *     cb_rpc_status NAME_future(cb_rpc_session *s, const ARGS *args, REPLY *reply, cb_rpc_future *f);
 *     cb_rpc_status NAME_answer(cb_rpc_token t, const REPLY *reply);
 * for each EVENT row
 *     cb_rpc_status NAME(cb_rpc_session *s, const ARGS *args);
 * and for the contract C
 *     C_handlers (members on_NAME; NULL answers UNKNOWN_METHOD), C_bind(&desc, &handlers, user),
 *     C_contract(), C_fingerprint(), and NAME_number for each row.
 * Their words are those of cb_rpc_call_send, _call_future, _token_answer and _event_send. */
#ifndef CB_RPC_TYPE_ERROR
#define CB_RPC_TYPE_ERROR cb_codec_error /* last argument of T_decode: has text members field and reason */
#endif

#ifdef __cplusplus
extern "C" {
#endif
/* Writes "field: reason" into out, cut to cap with its NUL. For the code that a contract makes. */
CB_RPC_DEF void cb_rpc_join_texts(char *out, size_t cap, const char *field, const char *reason);
/* Changes when a row's number, kind, name or layout does; for logs. */
CB_RPC_DEF uint64_t cb_rpc_contract_fingerprint(const cb_rpc_contract *contract);
#ifdef __cplusplus
} /* extern "C" */
#endif

#define CB_RPC_EXPAND(x) x /* some preprocessors pass __VA_ARGS__ on as one argument without it */

/* One type of one row: its functions behind untyped pointers. */
#define CB_RPC_TYPE_OF(id, T) \
    static inline size_t id##_size(const void *value) { return T##_size((const T *)value); } \
    static inline bool id##_encode(const void *value, uint8_t *out, size_t cap, size_t *size) \
    { \
        return !T##_encode((const T *)value, out, cap, size, NULL); \
    } \
    static inline bool id##_decode(void *value, const uint8_t *in, size_t size, char *why, size_t cap) \
    { \
        CB_RPC_TYPE_ERROR error; \
        if (!T##_decode((T *)value, in, size, &error)) { \
            return true; \
        } \
        cb_rpc_join_texts(why, cap, error.field, error.reason); \
        return false; \
    } \
    static const cb_rpc_type id = { sizeof(T),   (size_t)T##_min_size, (size_t)T##_max_size, \
                                          id##_size,   id##_encode,          id##_decode, \
                                          T##_layout_hash, T##_describe };

#define CB_RPC_CALL_OF(num, name, A, R) \
    typedef cb_rpc_status (*name##_handler)(void *user, cb_rpc_session *from, const A *args, R *reply); \
    typedef void (*name##_receiver)(void *user, const cb_rpc_result *res, const R *reply); \
    enum { name##_number = (num) }; \
    CB_RPC_TYPE_OF(cb_rpc_args_of_##name, A) \
    CB_RPC_TYPE_OF(cb_rpc_reply_of_##name, R) \
    static inline bool cb_rpc_has_##name(const void *member) \
    { \
        return *(const name##_handler *)member != NULL; \
    } \
    static inline cb_rpc_status cb_rpc_run_##name(const void *member, void *user, cb_rpc_session *from, \
                                                 const void *args, void *reply) \
    { \
        return (*(const name##_handler *)member)(user, from, (const A *)args, (R *)reply); \
    } \
    static inline void cb_rpc_deliver_##name(cb_rpc_any_fn receiver, void *user, const cb_rpc_result *res, \
                                            const void *reply) \
    { \
        ((name##_receiver)receiver)(user, res, (const R *)reply); \
    } \
    static const cb_rpc_row cb_rpc_row_of_##name = { (num), false, false, #name, &cb_rpc_args_of_##name, \
                                                           &cb_rpc_reply_of_##name, cb_rpc_has_##name, \
                                                           cb_rpc_run_##name, cb_rpc_deliver_##name }; \
    static inline cb_rpc_status name(cb_rpc_session *s, const A *args, name##_receiver receiver, void *user) \
    { \
        return cb_rpc_call_send(s, &cb_rpc_row_of_##name, args, (cb_rpc_any_fn)receiver, user); \
    } \
    static inline cb_rpc_status name##_future(cb_rpc_session *s, const A *args, R *reply, cb_rpc_future *f) \
    { \
        return cb_rpc_call_future(s, &cb_rpc_row_of_##name, args, reply, f); \
    } \
    static inline cb_rpc_status name##_answer(cb_rpc_token t, const R *reply) \
    { \
        return cb_rpc_token_answer(t, &cb_rpc_row_of_##name, reply); \
    } \
    /* or compilers would complain of a stub that is not called */ \
    CB_RPC_UNUSED static inline void cb_rpc_keep_##name(void) \
    { \
        (void)name; \
        (void)name##_future; \
        (void)name##_answer; \
    }

#define CB_RPC_DELIVERY_RELIABLE false
#define CB_RPC_DELIVERY_UNRELIABLE true
#define CB_RPC_EVENT_OF(...) CB_RPC_EXPAND(CB_RPC_EVENT_OF_(__VA_ARGS__, RELIABLE, ~))
#define CB_RPC_EVENT_OF_(num, name, A, delivery, ...) \
    typedef void (*name##_handler)(void *user, cb_rpc_session *from, const A *args); \
    enum { name##_number = (num) }; \
    CB_RPC_TYPE_OF(cb_rpc_args_of_##name, A) \
    static inline bool cb_rpc_has_##name(const void *member) \
    { \
        return *(const name##_handler *)member != NULL; \
    } \
    static inline cb_rpc_status cb_rpc_run_##name(const void *member, void *user, cb_rpc_session *from, \
                                                 const void *args, void *reply) \
    { \
        (void)reply; \
        (*(const name##_handler *)member)(user, from, (const A *)args); \
        return CB_RPC_OK; \
    } \
    static const cb_rpc_row cb_rpc_row_of_##name = { (num), true, CB_RPC_DELIVERY_##delivery, #name, \
                                                           &cb_rpc_args_of_##name, NULL, cb_rpc_has_##name, \
                                                           cb_rpc_run_##name, NULL }; \
    static inline cb_rpc_status name(cb_rpc_session *s, const A *args) \
    { \
        return cb_rpc_event_send(s, &cb_rpc_row_of_##name, args); \
    } \
    CB_RPC_UNUSED static inline void cb_rpc_keep_##name(void) \
    { \
        (void)name; \
    }

#define CB_RPC_CALL_MEMBER(num, name, A, R) name##_handler on_##name;
#define CB_RPC_EVENT_MEMBER(...) CB_RPC_EXPAND(CB_RPC_EVENT_MEMBER_(__VA_ARGS__, ~))
#define CB_RPC_EVENT_MEMBER_(num, name, ...) name##_handler on_##name;

#define CB_RPC_CALL_SLOT(num, name, A, R) {&cb_rpc_row_of_##name, offsetof(cb_rpc_these_handlers, on_##name)},
#define CB_RPC_EVENT_SLOT(...) CB_RPC_EXPAND(CB_RPC_EVENT_SLOT_(__VA_ARGS__, ~))
#define CB_RPC_EVENT_SLOT_(num, name, ...) \
    {&cb_rpc_row_of_##name, offsetof(cb_rpc_these_handlers, on_##name)},

#define CB_RPC_CONTRACT(C, LIST) \
    LIST(CB_RPC_CALL_OF, CB_RPC_EVENT_OF) \
    typedef struct C##_handlers { \
        LIST(CB_RPC_CALL_MEMBER, CB_RPC_EVENT_MEMBER) \
    } C##_handlers; \
    static inline const cb_rpc_contract *C##_contract(void) \
    { \
        typedef C##_handlers cb_rpc_these_handlers; \
        static const cb_rpc_slot slots[] = { LIST(CB_RPC_CALL_SLOT, CB_RPC_EVENT_SLOT) }; \
        static const cb_rpc_contract contract = { #C, slots, sizeof slots / sizeof slots[0] }; \
        return &contract; \
    } \
    static inline void C##_bind(cb_rpc_hub_desc *desc, const C##_handlers *handlers, void *user) \
    { \
        desc->contract = C##_contract(); \
        desc->handlers = handlers; \
        desc->user = user; \
    } \
    static inline uint64_t C##_fingerprint(void) \
    { \
        return cb_rpc_contract_fingerprint(C##_contract()); \
    } \
    CB_RPC_UNUSED static inline void cb_rpc_keep_contract_##C(void) \
    { \
        (void)C##_bind; \
        (void)C##_fingerprint; \
    }

#endif /* CB_RPC_H */

/* ========================= optional glue: cb_loop.h ========================= */
#if defined(CB_RPC_WITH_LOOP) && !defined(CB_LOOP_H)
#include "cb_loop.h"
#endif
#if defined(CB_RPC_WITH_LOOP) && !defined(CB_RPC_GLUE_LOOP)
#define CB_RPC_GLUE_LOOP 1
#ifdef __cplusplus
extern "C" {
#endif
/* Makes the hub and serves desc->url until cb_rpc_unserve or the loop's end. Each peer gets a session from a
 * pool of the hub. desc is copied. E_ARG; E_CONNECT: the address cannot be had, cb_rpc_serve_reason says why;
 * E_NOMEM. On failure the hub is as after a failed cb_rpc_hub_init, but its reason may still be read. hub and
 * loop outlive the sessions. */
CB_RPC_DEF CB_RPC_CHECKED cb_rpc_status cb_rpc_serve(cb_rpc_hub *hub, cb_loop *loop,
                                                     const cb_rpc_hub_desc *desc);
/* Why cb_rpc_serve or cb_rpc_connect failed: "bind tcp://127.0.0.1:4000: address in use". Lives until the
 * loop's next failure. */
CB_RPC_DEF const char *cb_rpc_serve_reason(const cb_loop *loop);
/* The address in use, so that port 0 can be asked for. E_STATE: not serving. */
CB_RPC_DEF cb_rpc_status cb_rpc_serve_address(const cb_rpc_hub *hub, cb_loop_address *address);
/* Stops accepting and closes every session of a peer that was accepted (those of cb_rpc_connect have
 * cb_rpc_close); the hub can be deinitialised once all have gone (loop passes). */
CB_RPC_DEF void cb_rpc_unserve(cb_rpc_hub *hub);

/* Dials url and keeps dialling, with growing pauses, until cb_rpc_close(s) or the loop's end. hub:
 * initialised, its contract bound; it may also serve. s (any memory, need not be cleared) is kept until the
 * hub's desc.on_closed, which follows the last on_down. Calls may be made at once; while no connection is
 * there and none is being made they fail with E_CLOSED, and cb_rpc_reason(s) says why. E_ARG: the url, or the
 * hub is another loop's; E_CLOSED: the loop has ended; E_NOMEM. On failure s is not kept, and
 * cb_rpc_serve_reason says why. url: copied. */
CB_RPC_DEF CB_RPC_CHECKED cb_rpc_status cb_rpc_connect(cb_rpc_hub *hub, cb_loop *loop, cb_rpc_session *s,
                                                       const char *url);

/* Steps the loop until f is DONE and returns its status. After timeout_ns the call is given up, and f->status
 * is E_TIMEOUT as well. E_BUSY inside any callback of the loop (f is not touched): take a token there and go
 * on later. */
CB_RPC_DEF CB_RPC_CHECKED cb_rpc_status cb_rpc_wait(cb_loop *loop, cb_rpc_future *f, uint64_t timeout_ns);
#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* CB_RPC_GLUE_LOOP */

/* ============================== implementation ============================== */
#if defined(CB_RPC_IMPLEMENTATION) && !defined(CB_RPC_IMPLEMENTED)
#define CB_RPC_IMPLEMENTED 1

#include <string.h>
#ifndef CB_RPC_ASSERT
#include <assert.h>
#define CB_RPC_ASSERT(c) assert(c)
#endif
#ifndef CB_RPC_NO_STDLIB
#include <stdlib.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* -- 1. tools -- */
#define CBI_RPC_NONE UINT32_MAX       /* no index */

/* A small call passes a dozen short functions. HOT makes one of them all where it begins, without what is
 * COLD: that takes a fifth off the time of calls in memory, for 6 KB of code. */
#if defined(__GNUC__) && !defined(__OPTIMIZE_SIZE__)
#define CBI_RPC_HOT __attribute__((flatten))
#define CBI_RPC_COLD __attribute__((noinline, cold))
#else
#define CBI_RPC_HOT
#define CBI_RPC_COLD
#endif

#define CBI_RPC_SKIP ((cb_rpc_status)0x7ffffffe) /* internal: the frame made no event, go on with the next */
#define CBI_RPC_VARU_MAX 5u           /* bytes of the longest 32-bit varint */
#define CBI_RPC_HEAD_MAX ((size_t)3 * CBI_RPC_VARU_MAX) /* kind or number, id, deadline */
#define CBI_RPC_DIRECT_MAX 4096u /* values up to this are encoded in place without measuring them first */
#define CBI_RPC_PIECE_MIN 64u
#define CBI_RPC_REPLY_MIN 32u         /* owed room without which no call is taken: one short refusal */

static size_t cbi_rpc_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static uint64_t cbi_rpc_add_saturated(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void cbi_rpc_store_le32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
    p[2] = (uint8_t)(v >> 16);
    p[3] = (uint8_t)(v >> 24);
}

static uint32_t cbi_rpc_load_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* LEB128, always in its shortest form. */
static size_t cbi_rpc_varu_size(uint32_t v)
{
    return v < 0x80u ? 1u : v < 0x4000u ? 2u : v < 0x200000u ? 3u : v < 0x10000000u ? 4u : 5u;
}

static uint8_t *cbi_rpc_put_varu(uint8_t *p, uint32_t v)
{
    while (v >= 0x80u) {
        *p++ = (uint8_t)(v | 0x80u);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    return p;
}

typedef enum cbi_rpc_varu_result {
    CBI_RPC_VARU_OK,
    CBI_RPC_VARU_SHORT,
    CBI_RPC_VARU_BAD
} cbi_rpc_varu_result;

/* Moves *at behind the number on OK only. BAD: longer than needed, or above 32 bits. */
CBI_RPC_COLD
static cbi_rpc_varu_result cbi_rpc_get_varu(const uint8_t **at, const uint8_t *end, uint32_t *value)
{
    const uint8_t *p = *at;
    uint32_t v = 0;
    unsigned shift;
    for (shift = 0; shift < 35u; shift += 7u) {
        uint32_t byte;
        if (p == end) {
            return CBI_RPC_VARU_SHORT;
        }
        byte = *p++;
        if (shift == 28u && byte > 0x0fu) {
            return CBI_RPC_VARU_BAD;
        }
        v |= (byte & 0x7fu) << shift;
        if (byte < 0x80u) {
            if (byte == 0 && shift != 0) {
                return CBI_RPC_VARU_BAD;
            }
            *at = p;
            *value = v;
            return CBI_RPC_VARU_OK;
        }
    }
    return CBI_RPC_VARU_BAD;
}

static uint32_t cbi_rpc_fnv32(uint32_t hash, const void *data, size_t size)
{
    const uint8_t *p = (const uint8_t *)data;
    size_t i;
    for (i = 0; i < size; i++) {
        hash = (hash ^ p[i]) * 16777619u;
    }
    return hash;
}

#define CBI_RPC_FNV32 2166136261u

#ifndef CB_RPC_NO_STDLIB
static void *cbi_rpc_malloc(void *user, size_t size, size_t align)
{
    (void)user;
    return align <= 2 * sizeof(void *) ? malloc(size) : NULL;
}

static void cbi_rpc_free(void *user, void *ptr, size_t size)
{
    (void)user;
    (void)size;
    free(ptr);
}
#endif

static bool cbi_rpc_alloc_resolve(cb_alloc *a)
{
    if ((a->alloc == NULL) != (a->release == NULL)) {
        return false;
    }
    if (a->alloc == NULL) {
#ifdef CB_RPC_NO_STDLIB
        return false;
#else
        a->alloc = cbi_rpc_malloc;
        a->release = cbi_rpc_free;
#endif
    }
    return true;
}

static void *cbi_rpc_take(const cb_alloc *a, size_t size)
{
    return a->alloc(a->user, size, sizeof(uint64_t));
}

static void cbi_rpc_give(const cb_alloc *a, void *ptr, size_t size)
{
    if (ptr != NULL) {
        a->release(a->user, ptr, size);
    }
}

/* A bigger copy of an array in place of it. NULL: no memory, and the old one is untouched. */
static void *cbi_rpc_grow(const cb_alloc *a, void *array, size_t old_size, size_t new_size)
{
    void *bigger = cbi_rpc_take(a, new_size);
    if (bigger != NULL && old_size != 0) {
        memcpy(bigger, array, old_size);
        cbi_rpc_give(a, array, old_size);
    }
    return bigger;
}

/* -- 2. texts: bounded, printable, always ended by a NUL -- */
static const char *cbi_rpc_status_text(cb_rpc_status status)
{
#ifdef CB_RPC_NO_STRINGS
    (void)status;
    return "";
#else
    switch ((int)status) {
#define CBI_RPC_ITEM(name, value, text) case (value): return text;
        CB_RPC_STATUS_LIST(CBI_RPC_ITEM)
#undef CBI_RPC_ITEM
    default: return "?";
    }
#endif
}

typedef struct cbi_rpc_text {
    char *at;
    size_t left; /* the NUL not counted */
} cbi_rpc_text;

static cbi_rpc_text cbi_rpc_text_begin(char *out, size_t cap)
{
    cbi_rpc_text t;
    t.at = out;
    t.left = cap - 1u;
    *out = '\0';
    return t;
}

/* Bytes of the character at p, or 0 where the bytes are none (RFC 3629: no over-long form, no surrogate). */
static size_t cbi_rpc_utf8_size(const uint8_t *p, size_t left)
{
    uint8_t first = p[0], low = 0x80, high = 0xbf;
    size_t size = first < 0x80u   ? 1u
                  : first < 0xc2u ? 0u
                  : first < 0xe0u ? 2u
                  : first < 0xf0u ? 3u
                  : first < 0xf5u ? 4u
                                  : 0u,
           i;
    if (size > left) {
        return 0;
    }
    low = first == 0xe0u ? 0xa0u : first == 0xf0u ? 0x90u : low;
    high = first == 0xedu ? 0x9fu : first == 0xf4u ? 0x8fu : high;
    for (i = 1; i < size; i++) {
        if (p[i] < low || p[i] > high) {
            return 0;
        }
        low = 0x80;
        high = 0xbf;
    }
    return size;
}

/* What a peer wrote may end up on a terminal or in a log: control characters and bytes that are no text
 * become '?'. What does not fit is cut in front of a character. */
CBI_RPC_COLD
static void cbi_rpc_text_bytes(cbi_rpc_text *t, const void *data, size_t size)
{
    const uint8_t *p = (const uint8_t *)data;
    size_t at = 0;
    while (at < size && t->left != 0) {
        size_t n = cbi_rpc_utf8_size(p + at, size - at);
        bool is_control =
            n == 0 || p[at] < 0x20u || p[at] == 0x7fu || (n == 2u && p[at] == 0xc2u && p[at + 1u] < 0xa0u);
        size_t put = is_control ? 1u : n;
        if (put > t->left) {
            break;
        }
        memcpy(t->at, is_control ? (const uint8_t *)"?" : p + at, put);
        t->at += put;
        t->left -= put;
        at += n != 0 ? n : 1u;
    }
    *t->at = '\0';
}

static void cbi_rpc_text_add(cbi_rpc_text *t, const char *words)
{
    cbi_rpc_text_bytes(t, words, strlen(words));
}

static void cbi_rpc_text_number(cbi_rpc_text *t, uint32_t n)
{
    char digits[10];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + (int)(n % 10u));
        n /= 10u;
    } while (n != 0);
    cbi_rpc_text_bytes(t, digits + at, sizeof digits - at);
}

CB_RPC_DEF void cb_rpc_join_texts(char *out, size_t cap, const char *field, const char *reason)
{
    cbi_rpc_text t;
    CB_RPC_ASSERT(out != NULL && cap != 0);
    t = cbi_rpc_text_begin(out, cap);
    if (field != NULL && *field != '\0') {
        cbi_rpc_text_add(&t, field);
        cbi_rpc_text_add(&t, ": ");
    }
    cbi_rpc_text_add(&t, reason != NULL ? reason : "");
}

/* -- 3. the wire: kinds of frames and codes of refusals (docs/wire-rpc.md) -- */
enum {
    CBI_RPC_HELLO = 0,   /* magic, version, capabilities, limits, methods */
    CBI_RPC_ANSWER = 1,  /* id, value */
    CBI_RPC_REFUSAL = 2, /* id, code, text */
    CBI_RPC_CANCEL = 3,  /* id, code */
    CBI_RPC_METHOD = 15  /* method n is kind 15 + n; kinds 4 to 15 are unused */
};

static const uint8_t cbi_rpc_magic[4] = { 'c', 'b', 'r', 1 }; /* the last is the version */

/* Each refusal code on the wire and the status that the caller is told. An unknown code reads as REFUSED. */
#define CBI_RPC_REFUSAL_LIST(X) \
    X(0, E_REFUSED) \
    X(1, E_HANDLER) \
    X(2, E_UNKNOWN_METHOD) \
    X(3, E_LAYOUT) \
    X(4, E_ARGUMENTS) \
    X(5, E_PEER_BUSY) \
    X(6, E_PEER_TIMEOUT) \
    X(7, E_ANSWER_TOO_BIG) \
    X(8, E_CANCELLED)

static cb_rpc_status cbi_rpc_status_of_code(uint8_t code)
{
    switch (code) {
#define CBI_RPC_ITEM(value, name) case (value): return CB_RPC_##name;
        CBI_RPC_REFUSAL_LIST(CBI_RPC_ITEM)
#undef CBI_RPC_ITEM
    default: return CB_RPC_E_REFUSED;
    }
}

/* What a handler may return; all else says only that it failed, so that nothing internal leaks. */
static uint8_t cbi_rpc_code_of_status(cb_rpc_status status)
{
    switch ((int)status) {
#define CBI_RPC_ITEM(value, name) case CB_RPC_##name: return (value);
        CBI_RPC_REFUSAL_LIST(CBI_RPC_ITEM)
#undef CBI_RPC_ITEM
    default: return 1;
    }
}

/* -- 4. frames out -- */
typedef struct cbi_rpc_head { /* what stands before a frame's value */
    uint8_t bytes[CBI_RPC_HEAD_MAX];
    size_t size;
} cbi_rpc_head;

static void cbi_rpc_head_one(cbi_rpc_head *h, uint32_t kind)
{
    h->size = (size_t)(cbi_rpc_put_varu(h->bytes, kind) - h->bytes);
}

static void cbi_rpc_head_two(cbi_rpc_head *h, uint32_t kind, uint32_t id)
{
    h->size = (size_t)(cbi_rpc_put_varu(cbi_rpc_put_varu(h->bytes, kind), id) - h->bytes);
}

/* OPEN -> PEER_ENDED (late answers may still go out) -> GONE or WE_CLOSED; or straight to one of the two. */
enum { CBI_RPC_OPEN, CBI_RPC_PEER_ENDED, CBI_RPC_GONE, CBI_RPC_WE_CLOSED };

/* What next has to see to before the bytes. */
#define CBI_RPC_MARK_HELLO 1u     /* ours is not sent, or the peer's has not come */
#define CBI_RPC_MARK_CANCELLED 2u /* calls to be told of their cancellation */
#define CBI_RPC_MARK_DEADLINES 4u /* there are some */
#define CBI_RPC_MARK_OVER 8u      /* an end or an error */

CBI_RPC_COLD
static cb_rpc_status cbi_rpc_fail(cb_rpc_session *s, cb_rpc_status error, const char *reason)
{
    s->marks |= CBI_RPC_MARK_OVER;
    if (s->error == CB_RPC_OK) {
        s->error = error;
        s->reason = reason;
    }
    return s->error;
}

static bool cbi_rpc_can_send(const cb_rpc_session *s, bool owed)
{
    return s->error == CB_RPC_OK && (s->end == CBI_RPC_OPEN || (owed && s->end == CBI_RPC_PEER_ENDED));
}

/* The length, which only byte streams need, and the head. Returns where the value goes. */
static inline uint8_t *cbi_rpc_put_lead(const cb_rpc_session *s, uint8_t *p, const cbi_rpc_head *h,
                                        size_t value_size)
{
    size_t i;
    if (!s->is_message_based) {
        p = cbi_rpc_put_varu(p, (uint32_t)(h->size + value_size));
    }
    p[0] = h->bytes[0]; /* two bytes nearly always: a call of memcpy would cost more than the rest */
    for (i = 1; i < h->size; i++) {
        p[i] = h->bytes[i];
    }
    return p + h->size;
}

static size_t cbi_rpc_lead_size(const cb_rpc_session *s, const cbi_rpc_head *h, size_t value_size)
{
    return (s->is_message_based ? 0u : cbi_rpc_varu_size((uint32_t)(h->size + value_size))) + h->size;
}

/* Hot: most calls and answers leave here. The value is encoded where it will lie if it has its greatest size;
 * only a shorter one whose length takes fewer bytes is moved. */
static cb_rpc_status cbi_rpc_put_direct(cb_rpc_session *s, const cb_sink *out, const cbi_rpc_head *h,
                                        const cb_rpc_type *type, const void *value)
{
    size_t lead = cbi_rpc_lead_size(s, h, type->size_max), real_lead, n = 0;
    uint8_t *p = out->reserve(out->user, lead + type->size_max);
    if (!type->encode(value, p + lead, type->size_max, &n)) {
        out->commit(out->user, 0, false);
        return CB_RPC_E_ENCODE;
    }
    if (h->size + n > s->frame_bytes_max) {
        out->commit(out->user, 0, false);
        return CB_RPC_E_TOO_BIG;
    }
    real_lead = n == type->size_max ? lead : cbi_rpc_lead_size(s, h, n);
    if (real_lead != lead) {
        memmove(p + real_lead, p + lead, n);
    }
    (void)cbi_rpc_put_lead(s, p, h, n);
    out->commit(out->user, real_lead + n, false);
    s->hub->bytes_out += real_lead + n;
    return CB_RPC_OK;
}

/* room() has been asked for the whole. */
static void cbi_rpc_put_pieces(const cb_sink *out, const uint8_t *data, size_t size)
{
    size_t at, n;
    for (at = 0; at < size; at += n) {
        n = cbi_rpc_min(size - at, out->piece_max);
        memcpy(out->reserve(out->user, n), data + at, n);
        out->commit(out->user, n, at + n < size);
    }
}

/* Scratch for a message that no piece holds. It is kept, so that the next one of its size takes no memory. */
static bool cbi_rpc_big_reserve(cb_rpc_hub *hub, size_t size)
{
    uint8_t *bigger;
    if (size <= hub->big_cap) {
        return true;
    }
    bigger = (uint8_t *)cbi_rpc_take(&hub->desc.alloc, size);
    if (bigger == NULL) {
        return false;
    }
    cbi_rpc_give(&hub->desc.alloc, hub->big, hub->big_cap);
    hub->big = bigger;
    hub->big_cap = size;
    return true;
}

static cb_rpc_status cbi_rpc_put_big(cb_rpc_session *s, const cb_sink *out, const cbi_rpc_head *h,
                                     const cb_rpc_type *type, const void *value, size_t size)
{
    cb_rpc_hub *hub = s->hub;
    size_t lead = cbi_rpc_lead_size(s, h, size), n = 0;
    if (!cbi_rpc_big_reserve(hub, lead + size)) {
        return CB_RPC_E_NOMEM;
    }
    if (!type->encode(value, cbi_rpc_put_lead(s, hub->big, h, size), size, &n) || n != size) {
        return CB_RPC_E_ENCODE;
    }
    cbi_rpc_put_pieces(out, hub->big, lead + size);
    hub->bytes_out += lead + size;
    return CB_RPC_OK;
}

/* Measured first: for values that may be long, or where the sink has little room left. */
CBI_RPC_COLD
static cb_rpc_status cbi_rpc_put_exact(cb_rpc_session *s, const cb_sink *out, const cbi_rpc_head *h,
                                       const cb_rpc_type *type, const void *value, bool owed)
{
    size_t size = type->size(value), lead, n = 0;
    uint8_t *p;
    if (size < type->size_min || size > type->size_max) {
        return CB_RPC_E_ENCODE;
    }
    if (size > s->frame_bytes_max || h->size + size > s->frame_bytes_max) {
        return CB_RPC_E_TOO_BIG;
    }
    lead = cbi_rpc_lead_size(s, h, size);
    if (out->room(out->user, owed) < lead + size) {
        return CB_RPC_E_FULL;
    }
    if (lead + size > out->piece_max) {
        return cbi_rpc_put_big(s, out, h, type, value, size);
    }
    p = out->reserve(out->user, lead + size);
    if (!type->encode(value, cbi_rpc_put_lead(s, p, h, size), size, &n) || n != size) {
        out->commit(out->user, 0, false);
        return CB_RPC_E_ENCODE;
    }
    out->commit(out->user, lead + size, false);
    s->hub->bytes_out += lead + size;
    return CB_RPC_OK;
}

/* One frame with a value: taken whole or not at all. E_FULL: no room for it. */
static cb_rpc_status cbi_rpc_put_value(cb_rpc_session *s, const cb_sink *out, const cbi_rpc_head *h,
                                       const cb_rpc_type *type, const void *value, bool owed)
{
    size_t most = type->size_max + h->size + CBI_RPC_VARU_MAX;
    if (type->size_max <= CBI_RPC_DIRECT_MAX && most <= out->piece_max
        && out->room(out->user, owed) >= most) {
        return cbi_rpc_put_direct(s, out, h, type, value);
    }
    return cbi_rpc_put_exact(s, out, h, type, value, owed);
}

/* One frame of plain bytes. */
static bool cbi_rpc_put_bytes(cb_rpc_session *s, const cbi_rpc_head *h, const void *data, size_t size)
{
    const cb_sink *out = &s->out;
    size_t lead = cbi_rpc_lead_size(s, h, size);
    uint8_t *p;
    if (out->room(out->user, true) < lead + size) {
        return false;
    }
    p = out->reserve(out->user, lead);
    (void)cbi_rpc_put_lead(s, p, h, size);
    out->commit(out->user, lead, size != 0);
    cbi_rpc_put_pieces(out, (const uint8_t *)data, size);
    s->hub->bytes_out += lead + size;
    return true;
}

CBI_RPC_COLD
static bool cbi_rpc_put_hello(cb_rpc_session *s)
{
    cbi_rpc_head h;
    cbi_rpc_head_one(&h, CBI_RPC_HELLO);
    s->hello_sent = cbi_rpc_put_bytes(s, &h, s->hub->hello, s->hub->hello_size);
    return s->hello_sent;
}

/* The hello goes first, as soon as there is room for it. */
static inline bool cbi_rpc_send_hello(cb_rpc_session *s)
{
    return s->hello_sent || cbi_rpc_put_hello(s);
}

/* An answer or refusal that finds no room up to the hard bound means a peer that does not read: that ends the
 * session. */
CBI_RPC_COLD
static cb_rpc_status cbi_rpc_send_refusal(cb_rpc_session *s, uint32_t id, cb_rpc_status why, const char *text)
{
    char body[1u + CB_RPC_REASON_MAX + 1u]; /* the code, the text, a NUL that stays here */
    cbi_rpc_text t = cbi_rpc_text_begin(body + 1, sizeof body - 1u);
    cbi_rpc_head h;
    if (!cbi_rpc_can_send(s, true)) {
        return CB_RPC_E_CLOSED;
    }
    cbi_rpc_head_two(&h, CBI_RPC_REFUSAL, id);
    t.left = cbi_rpc_min(t.left, s->frame_bytes_max - h.size - 1u);
    cbi_rpc_text_add(&t, text != NULL ? text : "");
    body[0] = (char)cbi_rpc_code_of_status(why);
    if (!cbi_rpc_send_hello(s) || !cbi_rpc_put_bytes(s, &h, body, (size_t)(t.at - body))) {
        return cbi_rpc_fail(s, CB_RPC_E_SLOW_PEER, "the peer does not read its answers");
    }
    return CB_RPC_OK;
}

/* OK: the call was answered or refused. Below 0: it still waits (E_ENCODE, E_NOMEM), or the session has
 * failed. */
static cb_rpc_status cbi_rpc_send_answer(cb_rpc_session *s, uint32_t id, const cb_rpc_type *type,
                                         const void *reply)
{
    cb_rpc_status st;
    cbi_rpc_head h;
    if (!cbi_rpc_can_send(s, true)) {
        return CB_RPC_E_CLOSED;
    }
    cbi_rpc_head_two(&h, CBI_RPC_ANSWER, id);
    st = cbi_rpc_send_hello(s) ? cbi_rpc_put_value(s, &s->out, &h, type, reply, true) : CB_RPC_E_FULL;
    if (st == CB_RPC_E_FULL) {
        return cbi_rpc_fail(s, CB_RPC_E_SLOW_PEER, "the peer does not read its answers");
    }
    if (st == CB_RPC_E_TOO_BIG) {
        (void)cbi_rpc_send_refusal(s, id, CB_RPC_E_ANSWER_TOO_BIG, NULL);
    }
    return st;
}

/* Best effort: without it the peer only works for nothing, and its answer is dropped. */
static void cbi_rpc_send_cancel(cb_rpc_session *s, uint32_t id, cb_rpc_status why)
{
    uint8_t code = cbi_rpc_code_of_status(why);
    cbi_rpc_head h;
    cbi_rpc_head_two(&h, CBI_RPC_CANCEL, id);
    if (cbi_rpc_can_send(s, false)) {
        (void)cbi_rpc_put_bytes(s, &h, &code, 1u);
    }
}

static void cbi_rpc_wake(cb_rpc_session *s)
{
    if (s->wake != NULL) {
        s->wake(s->wake_user, s);
    }
}

static uint64_t cbi_rpc_now(const cb_rpc_session *s)
{
    const cb_rpc_hub_desc *d = &s->hub->desc;
    return d->clock != NULL ? d->clock(d->clock_user) : s->now_ns;
}

/* -- 5. deadlines: a binary heap of both kinds of calls, earliest first -- */
struct cbi_rpc_open { /* a call of ours; its index is its id on the wire */
    uint64_t deadline_ns, serial;
    const cb_rpc_row *row;
    cb_rpc_any_fn receiver;
    void *user;            /* the receiver's; with a future: the reply */
    cb_rpc_future *future;
    uint32_t next;         /* of the free or the cancelled ones */
    uint32_t heap_at;      /* index in the heap; NONE: no deadline */
    uint8_t state;
    bool is_answered;      /* CANCELLED: the peer's answer has come meanwhile */
};

/* FREE -> WAITING -> (answer) FREE
 *            |  cancel          next tells it
 *            +----------> CANCELLED ---------> TOLD -> (answer) FREE
 *            +-- deadline, future cancelled -> TOLD
 * Every call is answered exactly once on the wire, also a cancelled one: until then its id is not used again,
 * so no late answer can reach a younger call. */
enum { CBI_RPC_FREE, CBI_RPC_WAITING, CBI_RPC_CANCELLED, CBI_RPC_TOLD };

struct cbi_rpc_waiting { /* a call of a peer that is answered later; the tokens' target */
    uint64_t deadline_ns, serial;
    cb_rpc_session *session; /* NULL: free */
    const cb_rpc_row *row;
    uint32_t wire_id;
    uint32_t prev, next;   /* of the session's; next also of the free ones */
    uint32_t hash_next;
    uint32_t heap_at;
};

#define CBI_RPC_IS_WAITING \
    0x80000000u /* in the heap: the index is one of the hub's pool, not of the session's table */

static uint64_t *cbi_rpc_heap_deadline(cb_rpc_session *s, uint32_t ref)
{
    return (ref & CBI_RPC_IS_WAITING) != 0 ? &s->hub->waiting[ref & ~CBI_RPC_IS_WAITING].deadline_ns
                                           : &s->open[ref].deadline_ns;
}

static void cbi_rpc_heap_set(cb_rpc_session *s, uint32_t at, uint32_t ref)
{
    s->heap[at] = ref;
    if ((ref & CBI_RPC_IS_WAITING) != 0) {
        s->hub->waiting[ref & ~CBI_RPC_IS_WAITING].heap_at = at;
    } else {
        s->open[ref].heap_at = at;
    }
}

static void cbi_rpc_heap_up(cb_rpc_session *s, uint32_t at, uint32_t ref)
{
    uint64_t deadline = *cbi_rpc_heap_deadline(s, ref);
    while (at != 0 && *cbi_rpc_heap_deadline(s, s->heap[(at - 1u) / 2u]) > deadline) {
        cbi_rpc_heap_set(s, at, s->heap[(at - 1u) / 2u]);
        at = (at - 1u) / 2u;
    }
    cbi_rpc_heap_set(s, at, ref);
}

static void cbi_rpc_heap_down(cb_rpc_session *s, uint32_t at, uint32_t ref)
{
    uint64_t deadline = *cbi_rpc_heap_deadline(s, ref);
    for (;;) {
        uint32_t child = 2u * at + 1u;
        if (child >= s->heap_count) {
            break;
        }
        if (child + 1u < s->heap_count
            && *cbi_rpc_heap_deadline(s, s->heap[child + 1u]) < *cbi_rpc_heap_deadline(s, s->heap[child])) {
            child++;
        }
        if (*cbi_rpc_heap_deadline(s, s->heap[child]) >= deadline) {
            break;
        }
        cbi_rpc_heap_set(s, at, s->heap[child]);
        at = child;
    }
    cbi_rpc_heap_set(s, at, ref);
}

static void cbi_rpc_heap_remove(cb_rpc_session *s, uint32_t at)
{
    uint32_t last;
    if (at == CBI_RPC_NONE) {
        return;
    }
    CB_RPC_ASSERT(at < s->heap_count);
    last = s->heap[--s->heap_count];
    s->marks &= s->heap_count != 0 ? ~0u : ~CBI_RPC_MARK_DEADLINES;
    if (at != s->heap_count) {
        cbi_rpc_heap_down(s, at, last);
        cbi_rpc_heap_up(s, at, s->heap[at]);
    }
}

/* Makes room for one more. */
static bool cbi_rpc_heap_reserve(cb_rpc_session *s)
{
    uint32_t cap = s->heap_cap != 0 ? 2u * s->heap_cap : 8u, *heap;
    if (s->heap_count < s->heap_cap) {
        return true;
    }
    heap = (uint32_t *)cbi_rpc_grow(&s->hub->desc.alloc, s->heap, s->heap_cap * sizeof *heap,
                                    cap * sizeof *heap);
    if (heap == NULL) {
        return false;
    }
    s->heap = heap;
    s->heap_cap = cap;
    return true;
}

static void cbi_rpc_heap_add(cb_rpc_session *s, uint32_t ref)
{
    uint64_t deadline = *cbi_rpc_heap_deadline(s, ref);
    CB_RPC_ASSERT(s->heap_count < s->heap_cap);
    s->marks |= CBI_RPC_MARK_DEADLINES;
    cbi_rpc_heap_up(s, s->heap_count++, ref);
    if (deadline < s->armed_ns) {
        s->armed_ns = deadline;
        cbi_rpc_wake(s);
    }
}

/* -- 6. our calls in flight -- */
static uint64_t cbi_rpc_call_id(const cb_rpc_session *s, uint32_t index)
{
    return s->open[index].serial << 16 | index;
}

/* The open call with this id, or NULL. */
static cbi_rpc_open *cbi_rpc_call_find(const cb_rpc_session *s, cb_rpc_call call)
{
    uint32_t index = (uint32_t)(call.id & 0xffffu);
    if (call.id == 0 || index >= s->open_cap || s->open[index].state != CBI_RPC_WAITING
        || cbi_rpc_call_id(s, index) != call.id) {
        return NULL;
    }
    return &s->open[index];
}

static void cbi_rpc_deadline_off(cb_rpc_session *s, cbi_rpc_open *c)
{
    cbi_rpc_heap_remove(s, c->heap_at);
    c->heap_at = CBI_RPC_NONE;
}

static void cbi_rpc_open_free(cb_rpc_session *s, uint32_t index)
{
    cbi_rpc_open *c = &s->open[index];
    cbi_rpc_deadline_off(s, c);
    c->state = CBI_RPC_FREE;
    c->next = s->open_free;
    s->open_free = index;
    s->open_count--;
}

CBI_RPC_COLD
static cb_rpc_status cbi_rpc_open_grow(cb_rpc_session *s)
{
    uint32_t cap = s->open_cap != 0 ? 2u * s->open_cap : 8u, i;
    cbi_rpc_open *open;
    if (cap > s->hub->desc.calls_open_max) {
        cap = s->hub->desc.calls_open_max;
    }
    if (cap <= s->open_cap) {
        return CB_RPC_E_FULL;
    }
    open = (cbi_rpc_open *)cbi_rpc_grow(&s->hub->desc.alloc, s->open, s->open_cap * sizeof *open,
                                        cap * sizeof *open);
    if (open == NULL) {
        return CB_RPC_E_NOMEM;
    }
    s->open = open;
    for (i = cap; i-- > s->open_cap;) { /* the lowest ids come first: they are short on the wire */
        s->open[i].state = CBI_RPC_FREE;
        s->open[i].heap_at = CBI_RPC_NONE;
        s->open[i].next = s->open_free;
        s->open_free = i;
    }
    s->open_cap = cap;
    return CB_RPC_OK;
}

/* A slot that open_free leads to; nothing is marked yet, so that a send which fails leaves no trace. */
static cb_rpc_status cbi_rpc_open_reserve(cb_rpc_session *s, bool has_deadline)
{
    cb_rpc_status st = s->open_free != CBI_RPC_NONE ? CB_RPC_OK : cbi_rpc_open_grow(s);
    return st == CB_RPC_OK && has_deadline && !cbi_rpc_heap_reserve(s) ? CB_RPC_E_NOMEM : st;
}

static uint32_t cbi_rpc_open_take(cb_rpc_session *s)
{
    uint32_t index = s->open_free;
    s->open_free = s->open[index].next;
    s->open[index].serial = ++s->serial;
    s->open[index].state = CBI_RPC_WAITING;
    s->open[index].is_answered = false;
    s->open_count++;
    return index;
}

/* -- 7. calls of the peer that are answered later -- */
static uint32_t *cbi_rpc_waiting_bucket(cb_rpc_hub *hub, const cb_rpc_session *s, uint32_t wire_id)
{
    uint64_t h = ((uint64_t)(uintptr_t)s / sizeof(void *) + wire_id) * 0x9e3779b97f4a7c15u;
    return &hub->waiting_hash[(size_t)(h >> 32) & (hub->waiting_cap - 1u)];
}

static void cbi_rpc_waiting_link(cb_rpc_hub *hub, uint32_t index)
{
    cbi_rpc_waiting *w = &hub->waiting[index];
    uint32_t *bucket = cbi_rpc_waiting_bucket(hub, w->session, w->wire_id);
    w->hash_next = *bucket;
    *bucket = index;
}

static uint32_t cbi_rpc_waiting_find(const cb_rpc_session *s, uint32_t wire_id)
{
    cb_rpc_hub *hub = s->hub;
    uint32_t i;
    if (s->waiting_count == 0) {
        return CBI_RPC_NONE;
    }
    i = *cbi_rpc_waiting_bucket(hub, s, wire_id);
    while (i != CBI_RPC_NONE && (hub->waiting[i].session != s || hub->waiting[i].wire_id != wire_id)) {
        i = hub->waiting[i].hash_next;
    }
    return i;
}

#define CBI_RPC_WAITING_MAX 0x1000000u /* a token's index has 24 bits */

/* The pool doubles; the chains are laid anew over the wider table. */
static bool cbi_rpc_waiting_grow(cb_rpc_hub *hub)
{
    const cb_alloc *a = &hub->desc.alloc;
    uint32_t old = hub->waiting_cap, cap = old != 0 ? 2u * old : 16u, i;
    cbi_rpc_waiting *pool;
    uint32_t *hash;
    if (cap > CBI_RPC_WAITING_MAX) {
        return false;
    }
    hash = (uint32_t *)cbi_rpc_take(a, cap * sizeof *hash);
    if (hash == NULL) {
        return false;
    }
    pool = (cbi_rpc_waiting *)cbi_rpc_grow(a, hub->waiting, old * sizeof *pool, cap * sizeof *pool);
    if (pool == NULL) {
        cbi_rpc_give(a, hash, cap * sizeof *hash);
        return false;
    }
    hub->waiting = pool;
    cbi_rpc_give(a, hub->waiting_hash, old * sizeof *hash);
    hub->waiting_hash = hash;
    hub->waiting_cap = cap;
    memset(hash, 0xff, cap * sizeof *hash); /* every head NONE */
    for (i = cap; i-- > 0;) {
        if (i >= old) {
            memset(&hub->waiting[i], 0, sizeof hub->waiting[i]);
            hub->waiting[i].next = hub->waiting_free;
            hub->waiting_free = i;
        } else if (hub->waiting[i].session != NULL) {
            cbi_rpc_waiting_link(hub, i);
        }
    }
    return true;
}

static void cbi_rpc_waiting_unlink(cb_rpc_session *s, uint32_t index)
{
    cb_rpc_hub *hub = s->hub;
    cbi_rpc_waiting *w = &hub->waiting[index];
    uint32_t *link = cbi_rpc_waiting_bucket(hub, s, w->wire_id);
    while (*link != index) {
        link = &hub->waiting[*link].hash_next;
    }
    *link = w->hash_next;
    if (w->prev != CBI_RPC_NONE) {
        hub->waiting[w->prev].next = w->next;
    } else {
        s->waiting_head = w->next;
    }
    if (w->next != CBI_RPC_NONE) {
        hub->waiting[w->next].prev = w->prev;
    }
}

/* Its tokens are stale from here on. */
static void cbi_rpc_waiting_drop(cb_rpc_session *s, uint32_t index)
{
    cb_rpc_hub *hub = s->hub;
    cbi_rpc_waiting *w = &hub->waiting[index];
    cbi_rpc_heap_remove(s, w->heap_at);
    cbi_rpc_waiting_unlink(s, index);
    w->session = NULL;
    w->next = hub->waiting_free;
    hub->waiting_free = index;
    s->waiting_count--;
}

static uint64_t cbi_rpc_token_id(const cb_rpc_hub *hub, uint32_t index)
{
    return hub->waiting[index].serial << 24 | index;
}

static cbi_rpc_waiting *cbi_rpc_token_find(cb_rpc_token t)
{
    uint32_t index = (uint32_t)(t.id & (CBI_RPC_WAITING_MAX - 1u));
    if (t.hub == NULL || t.id == 0 || index >= t.hub->waiting_cap || t.hub->waiting[index].session == NULL
        || cbi_rpc_token_id(t.hub, index) != t.id) {
        return NULL;
    }
    return &t.hub->waiting[index];
}

/* The index of a new waiting call, or NONE without memory. */
static uint32_t cbi_rpc_waiting_add(cb_rpc_session *s, const cb_rpc_row *row, uint32_t wire_id,
                                    uint64_t deadline_ns)
{
    cb_rpc_hub *hub = s->hub;
    cbi_rpc_waiting *w;
    uint32_t index;
    if ((deadline_ns != CB_RPC_NEVER && !cbi_rpc_heap_reserve(s))
        || (hub->waiting_free == CBI_RPC_NONE && !cbi_rpc_waiting_grow(hub))) {
        return CBI_RPC_NONE;
    }
    index = hub->waiting_free;
    w = &hub->waiting[index];
    hub->waiting_free = w->next;
    w->session = s;
    w->row = row;
    w->wire_id = wire_id;
    w->serial = (w->serial + 1u) & 0xffffffffffu; /* 2^40 uses of one slot are centuries */
    w->serial += w->serial == 0;
    w->deadline_ns = deadline_ns;
    w->heap_at = CBI_RPC_NONE;
    w->prev = CBI_RPC_NONE;
    w->next = s->waiting_head;
    if (w->next != CBI_RPC_NONE) {
        hub->waiting[w->next].prev = index;
    }
    s->waiting_head = index;
    s->waiting_count++;
    cbi_rpc_waiting_link(hub, index);
    if (deadline_ns != CB_RPC_NEVER) {
        cbi_rpc_heap_add(s, index | CBI_RPC_IS_WAITING);
    }
    return index;
}

/* -- 8. the hello: what the peer's numbers mean -- */
/* Peers of one release send the same list, so it is kept once however many they are. */
struct cbi_rpc_peer {
    cbi_rpc_peer *next;
    uint32_t refs;
    uint32_t number_max;
    uint32_t hash;         /* of the list as it came: many that differ late would be slow to compare */
    size_t rows_size;      /* bytes of the list as it came, kept behind the entries */
    uint32_t entry[1];     /* by number, number_max + 1 of them; see CBI_RPC_ENTRY_ */
};

#define CBI_RPC_ENTRY_SLOT 0x0000ffffu    /* our slot's index + 1; 0: we do not have it */
#define CBI_RPC_ENTRY_THERE 0x00010000u   /* the number stands in the peer's list */
#define CBI_RPC_ENTRY_CALL 0x00020000u    /* it is answered */
#define CBI_RPC_ENTRY_DIFFERS 0x00040000u /* same name, other layout or kind */

static uint32_t cbi_rpc_name_hash(const cb_rpc_row *row)
{
    return cbi_rpc_fnv32(CBI_RPC_FNV32, row->name, strlen(row->name));
}

static uint32_t cbi_rpc_layout_hash(const cb_rpc_row *row)
{
    uint64_t part[2];
    uint8_t bytes[16];
    unsigned i;
    part[0] = row->args->layout_hash();
    part[1] = row->reply != NULL ? row->reply->layout_hash() : 0;
    for (i = 0; i < 16u; i++) {
        bytes[i] = (uint8_t)(part[i / 8u] >> (8u * (i % 8u)));
    }
    return cbi_rpc_fnv32(CBI_RPC_FNV32, bytes, sizeof bytes);
}

CB_RPC_DEF uint64_t cb_rpc_contract_fingerprint(const cb_rpc_contract *contract)
{
    uint32_t names = CBI_RPC_FNV32, layouts = CBI_RPC_FNV32;
    size_t i;
    CB_RPC_ASSERT(contract != NULL);
    for (i = 0; i < contract->count; i++) {
        const cb_rpc_row *row = contract->slots[i].row;
        uint8_t bytes[8];
        cbi_rpc_store_le32(bytes, (uint32_t)row->number << 1 | (row->is_event ? 0u : 1u));
        cbi_rpc_store_le32(bytes + 4, cbi_rpc_name_hash(row));
        names = cbi_rpc_fnv32(names, bytes, 8);
        cbi_rpc_store_le32(bytes + 4, cbi_rpc_layout_hash(row));
        layouts = cbi_rpc_fnv32(layouts, bytes, 8);
    }
    return (uint64_t)names << 32 | layouts;
}

/* Bytes of the hello's value: limits, then the methods in the order of their numbers. */
static size_t cbi_rpc_hello_write(const cb_rpc_hub *hub, uint8_t *out)
{
    uint8_t *p = out;
    uint32_t number;
    memcpy(p, cbi_rpc_magic, sizeof cbi_rpc_magic);
    p = cbi_rpc_put_varu(p + sizeof cbi_rpc_magic, 0); /* capabilities: none yet */
    p = cbi_rpc_put_varu(p, (uint32_t)hub->desc.frame_bytes_max);
    p = cbi_rpc_put_varu(p, hub->desc.calls_waiting_max);
    p = cbi_rpc_put_varu(p, (uint32_t)hub->desc.contract->count);
    for (number = 1; number <= CB_RPC_NUMBER_MAX; number++) {
        const cbi_rpc_method *m;
        if (hub->row_of_number[number] == 0) {
            continue;
        }
        m = &hub->methods[hub->row_of_number[number] - 1u];
        p = cbi_rpc_put_varu(p, number << 1 | (m->row->is_event ? 0u : 1u));
        cbi_rpc_store_le32(p, m->name_hash);
        cbi_rpc_store_le32(p + 4, m->layout_hash);
        p += 8;
    }
    return (size_t)(p - out);
}

#define CBI_RPC_HELLO_FRAME_MAX 16384u /* of a hello of any version */
#define CBI_RPC_HELLO_MAX(count) (sizeof cbi_rpc_magic + (size_t)4 * CBI_RPC_VARU_MAX + (count) * 10u)

/* What the peer's row is to us. */
static uint32_t cbi_rpc_entry_of(const cb_rpc_hub *hub, bool is_call, uint32_t name, uint32_t layout)
{
    size_t count = hub->desc.contract->count, i;
    uint32_t entry = CBI_RPC_ENTRY_THERE | (is_call ? CBI_RPC_ENTRY_CALL : 0u);
    for (i = 0; i < count; i++) {
        const cbi_rpc_method *m = &hub->methods[i];
        if (m->name_hash == name) {
            bool same = m->row->is_event != is_call && m->layout_hash == layout;
            return entry | (uint32_t)(i + 1u) | (same ? 0u : CBI_RPC_ENTRY_DIFFERS);
        }
    }
    return entry;
}

/* Walks a list of methods: numbers in rising order within bounds, nothing cut off. Returns where it ends, or
 * NULL. With entries it fills them. *number: the last one. */
static const uint8_t *cbi_rpc_rows_read(const cb_rpc_hub *hub, const uint8_t *at, const uint8_t *end,
                                        uint32_t count, uint32_t *number, uint32_t *entry)
{
    uint32_t i, coded;
    *number = 0;
    for (i = 0; i < count; i++) {
        if (cbi_rpc_get_varu(&at, end, &coded) != CBI_RPC_VARU_OK || (size_t)(end - at) < 8u
            || coded >> 1 <= *number || coded >> 1 > CB_RPC_NUMBER_MAX) {
            return NULL;
        }
        *number = coded >> 1;
        if (entry != NULL) {
            entry[*number] =
                cbi_rpc_entry_of(hub, (coded & 1u) != 0, cbi_rpc_load_le32(at), cbi_rpc_load_le32(at + 4));
        }
        at += 8;
    }
    return at;
}

static size_t cbi_rpc_peer_size(uint32_t number_max, size_t rows_size)
{
    return sizeof(cbi_rpc_peer) + number_max * sizeof(uint32_t) + rows_size;
}

static uint8_t *cbi_rpc_peer_rows(cbi_rpc_peer *p)
{
    return (uint8_t *)(p->entry + p->number_max + 1u);
}

/* The table of this list: one seen before, or a new one. NULL: no memory. */
static cbi_rpc_peer *cbi_rpc_peer_get(cb_rpc_hub *hub, const uint8_t *rows, size_t size, uint32_t count,
                                      uint32_t number_max)
{
    cbi_rpc_peer *p;
    uint32_t last, hash = cbi_rpc_fnv32(CBI_RPC_FNV32, rows, size);
    for (p = hub->peers; p != NULL; p = p->next) {
        if (p->hash == hash && p->rows_size == size
            && (size == 0 || memcmp(cbi_rpc_peer_rows(p), rows, size) == 0)) {
            p->refs++;
            return p;
        }
    }
    p = (cbi_rpc_peer *)cbi_rpc_take(&hub->desc.alloc, cbi_rpc_peer_size(number_max, size));
    if (p == NULL) {
        return NULL;
    }
    memset(p, 0, cbi_rpc_peer_size(number_max, 0));
    p->refs = 1;
    p->number_max = number_max;
    p->hash = hash;
    p->rows_size = size;
    (void)cbi_rpc_rows_read(hub, rows, rows + size, count, &last, p->entry);
    if (size != 0) {
        memcpy(cbi_rpc_peer_rows(p), rows, size);
    }
    p->next = hub->peers;
    hub->peers = p;
    return p;
}

static void cbi_rpc_peer_release(cb_rpc_hub *hub, cbi_rpc_peer *p)
{
    cbi_rpc_peer **link = &hub->peers;
    if (p == NULL || --p->refs != 0) {
        return;
    }
    while (*link != p) {
        link = &(*link)->next;
    }
    *link = p->next;
    cbi_rpc_give(&hub->desc.alloc, p, cbi_rpc_peer_size(p->number_max, p->rows_size));
}

/* -- 9. frames in: each returns OK with an event, SKIP without one, NEED_OUTPUT to be shown again, or the
 * sticky error -- */
typedef struct cbi_rpc_in {
    const uint8_t *at, *end;
} cbi_rpc_in;

static bool cbi_rpc_in_long_varu(cbi_rpc_in *r, uint32_t *value)
{
    const uint8_t *at = r->at; /* copies, so that the reader itself may live in registers */
    uint32_t v = 0;
    cbi_rpc_varu_result read = cbi_rpc_get_varu(&at, r->end, &v);
    r->at = at;
    *value = v;
    return read == CBI_RPC_VARU_OK;
}

/* Apart from the above, so that compilers put the few steps of the usual case where they are needed. Three
 * such functions are inline: a tenth of the time of a small call. */
static inline bool cbi_rpc_in_varu(cbi_rpc_in *r, uint32_t *value)
{
    if (r->at != r->end && *r->at < 0x80u) { /* almost always */
        *value = *r->at++;
        return true;
    }
    return cbi_rpc_in_long_varu(r, value);
}

static cb_rpc_status cbi_rpc_bad(cb_rpc_session *s, const char *reason)
{
    return cbi_rpc_fail(s, CB_RPC_E_PROTOCOL, reason);
}

CBI_RPC_COLD
static cb_rpc_status cbi_rpc_read_hello(cb_rpc_session *s, cbi_rpc_in r, cb_rpc_event *event)
{
    uint32_t capabilities, frame_max, calls_max, count, number;
    const uint8_t *rows, *rows_end;
    if (s->peer != NULL) {
        return cbi_rpc_bad(s, "a second hello");
    }
    if ((size_t)(r.end - r.at) < sizeof cbi_rpc_magic || memcmp(r.at, cbi_rpc_magic, 3) != 0
        || r.at[3] == 0) {
        return cbi_rpc_bad(s, "the first frame is no hello of this protocol");
    }
    r.at += sizeof cbi_rpc_magic;
    if (!cbi_rpc_in_varu(&r, &capabilities) || !cbi_rpc_in_varu(&r, &frame_max)
        || !cbi_rpc_in_varu(&r, &calls_max) || !cbi_rpc_in_varu(&r, &count)
        || frame_max < CBI_RPC_PIECE_MIN) {
        return cbi_rpc_bad(s, "the hello's limits cannot be read");
    }
    rows = r.at;
    rows_end = cbi_rpc_rows_read(s->hub, rows, r.end, count, &number, NULL);
    if (rows_end == NULL) {
        return cbi_rpc_bad(s, "the hello's list of methods cannot be read");
    }
    if (!cbi_rpc_send_hello(s)) {
        return CB_RPC_NEED_OUTPUT;
    }
    s->peer = cbi_rpc_peer_get(s->hub, rows, (size_t)(rows_end - rows), count, number);
    if (s->peer == NULL) {
        return cbi_rpc_fail(s, CB_RPC_E_NOMEM, "no memory for the peer's list of methods");
    }
    s->frame_bytes_max = (uint32_t)cbi_rpc_min(frame_max, s->hub->desc.frame_bytes_max);
    s->peer_calls_max = calls_max;
    event->kind = CB_RPC_EVENT_HELLO;
    event->row = NULL;
    return CB_RPC_OK; /* what a later version appends is not for us */
}

/* A row's layouts as they travel: the arguments', '>', the answer's. out: CB_RPC_REASON_MAX + 1 bytes. */
static void cbi_rpc_layout_text(const cb_rpc_row *row, char *out)
{
    size_t cap = CB_RPC_REASON_MAX + 1u, n = row->args->describe(out, cap);
    if (n < cap - 1u && row->reply != NULL) {
        out[n] = '>';
        (void)row->reply->describe(out + n + 1u, cap - n - 1u);
    }
}

/* The refusal of a method that differs brings our layouts, so that the caller's log can show the
 * difference. */
CBI_RPC_COLD
static cb_rpc_status cbi_rpc_refuse_layout(cb_rpc_session *s, uint32_t id, const cb_rpc_row *row)
{
    char text[CB_RPC_REASON_MAX + 1u];
    cbi_rpc_layout_text(row, text);
    return cbi_rpc_send_refusal(s, id, CB_RPC_E_LAYOUT, text);
}

/* Whether an answer of the greatest size finds room. Above the soft bound something is on its way to the
 * peer, so that waiting ends; below it an answer too long for the sink's rest is never going to fit. */
static bool cbi_rpc_can_answer(const cb_rpc_session *s, const cbi_rpc_method *method)
{
    size_t room = s->out.room(s->out.user, true), most = CB_RPC_REASON_MAX + 1u;
    if (method != NULL && method->row->reply != NULL && method->row->reply->size_max > most) {
        most = cbi_rpc_min(method->row->reply->size_max, s->frame_bytes_max);
    }
    most += CBI_RPC_HEAD_MAX;
    return room >= most || (room >= CBI_RPC_REPLY_MIN && s->out.room(s->out.user, false) != 0);
}

static cb_rpc_status cbi_rpc_read_call(cb_rpc_session *s, cbi_rpc_in r, uint32_t entry, cb_rpc_event *event)
{
    const cbi_rpc_method *method = NULL;
    uint32_t coded, ms = 0;
    cb_rpc_status st = CB_RPC_OK;
    if (!cbi_rpc_in_varu(&r, &coded) || ((coded & 1u) != 0 && !cbi_rpc_in_varu(&r, &ms))) {
        return cbi_rpc_bad(s, "a call's head is cut off");
    }
    if (cbi_rpc_waiting_find(s, coded >> 1) != CBI_RPC_NONE) {
        return cbi_rpc_bad(s, "a call's id is still in use");
    }
    if ((entry & CBI_RPC_ENTRY_SLOT) != 0) {
        method = &s->hub->methods[(entry & CBI_RPC_ENTRY_SLOT) - 1u];
    }
    if (!cbi_rpc_can_answer(s, method)) {
        return CB_RPC_NEED_OUTPUT;
    }
    if (method == NULL) {
        st = cbi_rpc_send_refusal(s, coded >> 1, CB_RPC_E_UNKNOWN_METHOD, NULL);
    } else if ((entry & CBI_RPC_ENTRY_DIFFERS) != 0) {
        st = cbi_rpc_refuse_layout(s, coded >> 1, method->row);
    } else if (s->waiting_count >= s->hub->desc.calls_waiting_max) {
        st = cbi_rpc_send_refusal(s, coded >> 1, CB_RPC_E_PEER_BUSY, NULL);
    } else if ((coded & 1u) != 0 && ms == 0) {
        st = cbi_rpc_send_refusal(s, coded >> 1, CB_RPC_E_PEER_TIMEOUT, NULL);
    } else {
        event->kind = CB_RPC_EVENT_CALL;
        event->row = method->row;
        event->member = method->member;
        event->wire_id = coded >> 1;
        event->deadline_ns =
            (coded & 1u) != 0 ? cbi_rpc_add_saturated(s->now_ns, ms * (uint64_t)1000000u) : CB_RPC_NEVER;
        event->body.data = r.at;
        event->body.size = (size_t)(r.end - r.at);
        return CB_RPC_OK;
    }
    return st == CB_RPC_OK ? CBI_RPC_SKIP : st;
}

static cb_rpc_status cbi_rpc_read_method(cb_rpc_session *s, cbi_rpc_in r, uint32_t number,
                                         cb_rpc_event *event)
{
    const cbi_rpc_method *method;
    uint32_t entry;
    if (number > s->peer->number_max || (s->peer->entry[number] & CBI_RPC_ENTRY_THERE) == 0) {
        return cbi_rpc_bad(s, "a method number that the hello did not name");
    }
    entry = s->peer->entry[number];
    if ((entry & CBI_RPC_ENTRY_CALL) != 0) {
        return cbi_rpc_read_call(s, r, entry, event);
    }
    if ((entry & CBI_RPC_ENTRY_SLOT) == 0 || (entry & CBI_RPC_ENTRY_DIFFERS) != 0) {
        s->hub->events_dropped++;
        return CBI_RPC_SKIP;
    }
    method = &s->hub->methods[(entry & CBI_RPC_ENTRY_SLOT) - 1u];
    event->kind = CB_RPC_EVENT_ONE_WAY;
    event->row = method->row;
    event->member = method->member;
    event->body.data = r.at;
    event->body.size = (size_t)(r.end - r.at);
    return CB_RPC_OK;
}

/* The words of a result that is about row. */
CBI_RPC_COLD
static const char *cbi_rpc_reason(cb_rpc_session *s, const cb_rpc_row *row, cb_rpc_status status,
                                  const char *text)
{
    cbi_rpc_text t;
    if (status != CB_RPC_E_UNKNOWN_METHOD) {
        return text != NULL && *text != '\0' ? text : cbi_rpc_status_text(status);
    }
    t = cbi_rpc_text_begin(s->hub->text, sizeof s->hub->text);
    cbi_rpc_text_add(&t, row->name);
    cbi_rpc_text_add(&t, " (");
    cbi_rpc_text_number(&t, row->number);
    cbi_rpc_text_add(&t, s->is_server ? "): the client does not have this method"
                                      : "): the server does not have this method");
    return s->hub->text;
}

/* Sets what a RESULT event tells of the open call at index; the body and the reason are the caller's to
 * set. */
static void cbi_rpc_result_event(cb_rpc_session *s, uint32_t index, cb_rpc_status status, cb_rpc_event *event)
{
    const cbi_rpc_open *c = &s->open[index];
    event->kind = CB_RPC_EVENT_RESULT;
    event->row = c->row;
    event->body.data = NULL;
    event->body.size = 0;
    event->result.status = status;
    event->result.reason = "";
    event->result.call.id = cbi_rpc_call_id(s, index);
    event->receiver = c->receiver;
    event->user = c->user;
    event->future = c->future;
    s->untold = c->future;
}

/* The open call that an answer or refusal is for. Every call is answered exactly once, so anything else is no
 * late answer but a broken peer. NULL: it is one. */
static cbi_rpc_open *cbi_rpc_answered(cb_rpc_session *s, cbi_rpc_in *r, uint32_t *index)
{
    if (!cbi_rpc_in_varu(r, index) || *index >= s->open_cap || s->open[*index].state == CBI_RPC_FREE
        || s->open[*index].is_answered) {
        return NULL;
    }
    return &s->open[*index];
}

static cb_rpc_status cbi_rpc_read_answer(cb_rpc_session *s, cbi_rpc_in r, cb_rpc_event *event)
{
    uint32_t index;
    cbi_rpc_open *c = cbi_rpc_answered(s, &r, &index);
    if (c == NULL) {
        return cbi_rpc_bad(s, "an answer to no call");
    }
    if (c->state == CBI_RPC_WAITING) {
        cbi_rpc_result_event(s, index, CB_RPC_OK, event);
        event->body.data = r.at;
        event->body.size = (size_t)(r.end - r.at);
        cbi_rpc_open_free(s, index);
        return CB_RPC_OK;
    }
    if (c->state == CBI_RPC_CANCELLED) {
        c->is_answered = true; /* still to be told of its cancellation */
    } else {
        cbi_rpc_open_free(s, index);
    }
    return CBI_RPC_SKIP;
}

static const char *cbi_rpc_layout_reason(cb_rpc_session *s, const cb_rpc_row *row, const uint8_t *theirs,
                                         size_t size);

CBI_RPC_COLD
static cb_rpc_status cbi_rpc_read_refusal(cb_rpc_session *s, cbi_rpc_in r, cb_rpc_event *event)
{
    const uint8_t *end = r.end;
    cb_rpc_status st, why;
    cbi_rpc_text t;
    cbi_rpc_in probe = r;
    uint32_t index;
    if (cbi_rpc_answered(s, &probe, &index) == NULL || probe.at == end) {
        return cbi_rpc_bad(s, "a refusal of no call");
    }
    why = cbi_rpc_status_of_code(*probe.at++);
    st = cbi_rpc_read_answer(s, r, event);
    if (st != CB_RPC_OK) {
        return st;
    }
    event->body.data = NULL;
    event->body.size = 0;
    event->result.status = why;
    if (why == CB_RPC_E_LAYOUT) {
        event->result.reason = cbi_rpc_layout_reason(s, event->row, probe.at, (size_t)(end - probe.at));
        return CB_RPC_OK;
    }
    t = cbi_rpc_text_begin(s->hub->text, sizeof s->hub->text);
    cbi_rpc_text_bytes(&t, probe.at, (size_t)(end - probe.at));
    event->result.reason = cbi_rpc_reason(s, event->row, why, s->hub->text);
    return CB_RPC_OK;
}

static void cbi_rpc_cancelled_event(cb_rpc_session *s, uint32_t index, cb_rpc_status why, cb_rpc_event *event)
{
    event->kind = CB_RPC_EVENT_CANCELLED;
    event->row = s->hub->waiting[index].row;
    event->wire_id = s->hub->waiting[index].wire_id;
    event->result.status = why;
    event->result.reason = cbi_rpc_status_text(why);
    event->token.hub = s->hub;
    event->token.id = cbi_rpc_token_id(s->hub, index);
}

/* A call that was answered already is no error: the answer and the cancel have crossed. */
CBI_RPC_COLD
static cb_rpc_status cbi_rpc_read_cancel(cb_rpc_session *s, cbi_rpc_in r, cb_rpc_event *event)
{
    uint32_t id, index;
    cb_rpc_status why, st;
    if (!cbi_rpc_in_varu(&r, &id) || (size_t)(r.end - r.at) != 1u || (*r.at != 6u && *r.at != 8u)) {
        return cbi_rpc_bad(s, "a cancel that cannot be read");
    }
    why = cbi_rpc_status_of_code(*r.at);
    index = cbi_rpc_waiting_find(s, id);
    if (index == CBI_RPC_NONE) {
        return CBI_RPC_SKIP;
    }
    if (s->out.room(s->out.user, true) < CBI_RPC_REPLY_MIN) {
        return CB_RPC_NEED_OUTPUT;
    }
    st = cbi_rpc_send_refusal(s, id, why, NULL);
    if (st != CB_RPC_OK) {
        return st;
    }
    cbi_rpc_cancelled_event(s, index, why, event);
    cbi_rpc_waiting_drop(s, index);
    return CB_RPC_OK;
}

static cb_rpc_status cbi_rpc_read_frame(cb_rpc_session *s, cbi_rpc_in r, cb_rpc_event *event)
{
    uint32_t kind;
    if (!cbi_rpc_in_varu(&r, &kind)) {
        return cbi_rpc_bad(s, "a frame's kind cannot be read");
    }
    if (kind == CBI_RPC_HELLO) {
        return cbi_rpc_read_hello(s, r, event);
    }
    if (s->peer == NULL && s->is_message_based) { /* what came the unreliable way has overtaken the hello */
        s->hub->events_dropped++;
        return CBI_RPC_SKIP;
    }
    if (s->peer == NULL) {
        return cbi_rpc_bad(s, "the first frame is no hello of this protocol");
    }
    if (kind > CBI_RPC_METHOD) {
        return cbi_rpc_read_method(s, r, kind - CBI_RPC_METHOD, event);
    }
    switch (kind) {
    case CBI_RPC_ANSWER: return cbi_rpc_read_answer(s, r, event);
    case CBI_RPC_REFUSAL: return cbi_rpc_read_refusal(s, r, event);
    case CBI_RPC_CANCEL: return cbi_rpc_read_cancel(s, r, event);
    default: return cbi_rpc_bad(s, "a frame of an unknown kind");
    }
}

/* Longest frame that may come. A hello is read whatever its length, up to what the longest one takes. */
static size_t cbi_rpc_frame_most(const cb_rpc_hub *hub, bool is_hello)
{
    size_t most = hub->desc.frame_bytes_max;
    return is_hello && most < CBI_RPC_HELLO_FRAME_MAX ? CBI_RPC_HELLO_FRAME_MAX : most;
}

/* Finds the next whole frame at the cursor. NEED_INPUT: it is not there yet. A length above the limit is
 * judged as soon as it has been read, not when its bytes have come. */
static cb_rpc_status cbi_rpc_take_frame(cb_rpc_session *s, const cb_span *in, cbi_rpc_in *frame)
{
    const uint8_t *at = in->data;
    cbi_rpc_varu_result read;
    uint32_t size = 0;
    size_t whole;
    s->need = in->size + 1u;
    if (in->size == 0) {
        return CB_RPC_NEED_INPUT;
    }
    if (*at < 0x80u) { /* almost always */
        size = *at++;
        read = CBI_RPC_VARU_OK;
    } else {
        read = cbi_rpc_get_varu(&at, in->data + in->size, &size);
    }
    if (read == CBI_RPC_VARU_SHORT) {
        return CB_RPC_NEED_INPUT;
    }
    if (read == CBI_RPC_VARU_BAD || size == 0) {
        return cbi_rpc_bad(s, read == CBI_RPC_VARU_BAD ? "a frame's length is not in its shortest form"
                                                         : "an empty frame");
    }
    if (size > cbi_rpc_frame_most(s->hub, s->peer == NULL)) {
        return cbi_rpc_fail(s, CB_RPC_E_FRAME_TOO_BIG, "a frame longer than frame_bytes_max");
    }
    whole = (size_t)(at - in->data) + size;
    if (in->size < whole) {
        s->need = whole;
        return CB_RPC_NEED_INPUT;
    }
    frame->at = at;
    frame->end = at + size;
    return CB_RPC_OK;
}

/* -- 10. the first difference between our layout and the peer's, in words -- */
/* A description is fields between commas, "name:kind"; those of nested structs stand in braces. */
typedef struct cbi_rpc_field {
    const char *name, *kind;
    size_t name_size, kind_size;
} cbi_rpc_field;

static const char *cbi_rpc_field_read(const char *at, const char *end, cbi_rpc_field *f)
{
    unsigned depth = 0;
    f->name = at;
    f->name_size = 0;
    f->kind = NULL;
    for (; at != end && (depth != 0 || (*at != ',' && *at != '>')); at++) {
        if (*at == ':' && f->kind == NULL) {
            f->name_size = (size_t)(at - f->name);
            f->kind = at + 1;
        }
        depth += *at == '{';
        depth -= *at == '}' && depth != 0;
    }
    if (f->kind == NULL) {
        f->kind = at;
        f->name_size = (size_t)(at - f->name);
    }
    f->kind_size = (size_t)(at - f->kind);
    return at;
}

static void cbi_rpc_text_difference(cbi_rpc_text *t, const cbi_rpc_field *ours, const cbi_rpc_field *theirs)
{
    cbi_rpc_text_add(t, "field '");
    cbi_rpc_text_bytes(t, ours->name_size != 0 ? ours->name : theirs->name,
                       ours->name_size != 0 ? ours->name_size : theirs->name_size);
    cbi_rpc_text_add(t, "' is ");
    if (ours->kind_size != 0) {
        cbi_rpc_text_bytes(t, ours->kind, ours->kind_size);
    } else {
        cbi_rpc_text_add(t, "missing");
    }
    cbi_rpc_text_add(t, " here, ");
    if (theirs->kind_size != 0) {
        cbi_rpc_text_bytes(t, theirs->kind, theirs->kind_size);
    } else {
        cbi_rpc_text_add(t, "missing");
    }
    cbi_rpc_text_add(t, " there");
}

static const char *cbi_rpc_layout_reason(cb_rpc_session *s, const cb_rpc_row *row, const uint8_t *theirs,
                                         size_t size)
{
    char ours[CB_RPC_REASON_MAX + 1u];
    const char *a = ours, *b = (const char *)theirs, *a_end, *b_end = b + size;
    char at_a, at_b;
    cbi_rpc_field fa, fb;
    cbi_rpc_text t = cbi_rpc_text_begin(s->hub->text, sizeof s->hub->text);
    cbi_rpc_layout_text(row, ours);
    a_end = ours + strlen(ours);
    cbi_rpc_text_add(&t, row->name);
    cbi_rpc_text_add(&t, ": another layout there");
    while (a != a_end || b != b_end) {
        a = cbi_rpc_field_read(a, a_end, &fa);
        b = cbi_rpc_field_read(b, b_end, &fb);
        if (fa.kind_size != fb.kind_size || memcmp(fa.kind, fb.kind, fa.kind_size) != 0) {
            cbi_rpc_text_add(&t, " (");
            cbi_rpc_text_difference(&t, &fa, &fb);
            cbi_rpc_text_add(&t, ")");
            break;
        }
        /* Where one list ends first it stays, reads as an empty field, and so makes the difference. */
        at_a = a != a_end ? *a : '\0';
        at_b = b != b_end ? *b : '\0';
        a += at_a != '\0' && (at_a == at_b || at_a == ',' || at_b == '\0');
        b += at_b != '\0' && (at_a == at_b || at_b == ',' || at_a == '\0');
    }
    return s->hub->text;
}

/* -- 11. public: driving a session -- */
/* A deadline of ours or of the peer has passed: take it off and say so. */
static cb_rpc_status cbi_rpc_expire(cb_rpc_session *s, cb_rpc_event *event)
{
    uint32_t ref = s->heap[0], index = ref & ~CBI_RPC_IS_WAITING;
    if ((ref & CBI_RPC_IS_WAITING) != 0) {
        cb_rpc_status st =
            cbi_rpc_send_refusal(s, s->hub->waiting[index].wire_id, CB_RPC_E_PEER_TIMEOUT, NULL);
        cbi_rpc_cancelled_event(s, index, CB_RPC_E_PEER_TIMEOUT, event);
        cbi_rpc_waiting_drop(s, index);
        (void)st; /* a session that failed over it says so at the following next */
        return CB_RPC_OK;
    }
    cbi_rpc_result_event(s, index, CB_RPC_E_TIMEOUT, event);
    event->result.reason = cbi_rpc_status_text(CB_RPC_E_TIMEOUT);
    cbi_rpc_heap_remove(s, 0);
    s->open[index].heap_at = CBI_RPC_NONE;
    s->open[index].state = CBI_RPC_TOLD;
    cbi_rpc_send_cancel(s, index, CB_RPC_E_PEER_TIMEOUT);
    return CB_RPC_OK;
}

static cb_rpc_status cbi_rpc_tell_cancelled(cb_rpc_session *s, cb_rpc_event *event)
{
    uint32_t index = s->cancelled_head;
    cbi_rpc_open *c = &s->open[index];
    s->cancelled_head = c->next;
    s->marks &= c->next != CBI_RPC_NONE ? ~0u : ~CBI_RPC_MARK_CANCELLED;
    cbi_rpc_result_event(s, index, CB_RPC_E_CANCELLED, event);
    event->result.reason = cbi_rpc_status_text(CB_RPC_E_CANCELLED);
    c->state = CBI_RPC_TOLD;
    if (c->is_answered) {
        cbi_rpc_open_free(s, index);
    } else {
        cbi_rpc_send_cancel(s, index, CB_RPC_E_CANCELLED);
    }
    return CB_RPC_OK;
}

/* After the end every call that was not told yet fails, in the order of their ids. */
static cb_rpc_status cbi_rpc_tell_end(cb_rpc_session *s, cb_rpc_event *event)
{
    while (s->open_told < s->open_cap) {
        uint32_t index = s->open_told++;
        uint8_t state = s->open[index].state;
        if (state == CBI_RPC_FREE) {
            continue;
        }
        if (state == CBI_RPC_WAITING) {
            cb_rpc_status why = s->error != CB_RPC_OK ? s->error : CB_RPC_E_CLOSED;
            cbi_rpc_result_event(s, index, why, event);
            event->result.reason = cbi_rpc_reason(s, event->row, why, s->reason);
        }
        cbi_rpc_open_free(s, index);
        if (state == CBI_RPC_WAITING) {
            return CB_RPC_OK;
        }
    }
    return s->end == CBI_RPC_PEER_ENDED && s->waiting_count != 0 ? CB_RPC_WAIT : CB_RPC_CLOSED;
}

/* The peer's time counts from the first next: before it there is no connection. */
static bool cbi_rpc_hello_in_time(cb_rpc_session *s)
{
    if (s->hello_due_ns == 0) {
        s->hello_due_ns = cbi_rpc_add_saturated(s->now_ns, s->hub->desc.hello_ns);
    }
    return s->now_ns < s->hello_due_ns || s->hello_due_ns == CB_RPC_NEVER;
}

/* What the marks are for. SKIP: nothing to tell, look at the bytes. */
CBI_RPC_COLD
static cb_rpc_status cbi_rpc_marked(cb_rpc_session *s, cb_rpc_event *event)
{
    if (s->cancelled_head != CBI_RPC_NONE) {
        return cbi_rpc_tell_cancelled(s, event);
    }
    if (s->end == CBI_RPC_PEER_ENDED && s->waiting_count != 0 && s->now_ns >= s->linger_due_ns) {
        cb_rpc_end(s, CB_RPC_E_CUT, "the peer has gone");
    }
    if (s->end > CBI_RPC_PEER_ENDED) {
        return cbi_rpc_tell_end(s, event);
    }
    if (s->heap_count != 0 && *cbi_rpc_heap_deadline(s, s->heap[0]) <= s->now_ns) {
        return cbi_rpc_expire(s, event);
    }
    if (s->end != CBI_RPC_OPEN) {
        return cbi_rpc_tell_end(s, event);
    }
    if (s->error != CB_RPC_OK) {
        return s->error;
    }
    if (s->peer == NULL && !cbi_rpc_hello_in_time(s)) {
        return cbi_rpc_fail(s, CB_RPC_E_TIMEOUT, "the peer did not say hello in time");
    }
    if (!cbi_rpc_send_hello(s)) {
        return CB_RPC_NEED_OUTPUT;
    }
    s->marks &= s->peer != NULL ? ~CBI_RPC_MARK_HELLO : ~0u;
    return CBI_RPC_SKIP;
}

/* What needs no input. */
static cb_rpc_status cbi_rpc_pending(cb_rpc_session *s, uint64_t now_ns, cb_rpc_event *event)
{
    s->now_ns = now_ns > s->now_ns ? now_ns : s->now_ns;
    return s->marks == 0 ? CBI_RPC_SKIP : cbi_rpc_marked(s, event);
}

static cb_rpc_status cbi_rpc_next(cb_rpc_session *s, cb_span *in, uint64_t now_ns, cb_rpc_event *event)
{
    cb_rpc_status st = cbi_rpc_pending(s, now_ns, event);
    while (st == CBI_RPC_SKIP) {
        cbi_rpc_in frame;
        frame.at = frame.end = in->data;
        st = cbi_rpc_take_frame(s, in, &frame);
        if (st == CB_RPC_OK) {
            st = cbi_rpc_read_frame(s, frame, event);
            if (st != CB_RPC_NEED_OUTPUT) { /* else it is not consumed and will be shown again */
                s->hub->bytes_in += (size_t)(frame.end - in->data);
                in->size -= (size_t)(frame.end - in->data);
                in->data += frame.end - in->data;
            }
        }
    }
    return st;
}

CB_RPC_DEF cb_rpc_status cb_rpc_next(cb_rpc_session *s, cb_span *in, uint64_t now_ns, cb_rpc_event *event)
{
    CB_RPC_ASSERT(s != NULL && s->hub != NULL && in != NULL && event != NULL);
    CB_RPC_ASSERT(!s->is_message_based);
    return cbi_rpc_next(s, in, now_ns, event);
}

CB_RPC_DEF cb_rpc_status cb_rpc_next_message(cb_rpc_session *s, cb_slice message, uint64_t now_ns,
                                             cb_rpc_event *event)
{
    cb_rpc_status st;
    cbi_rpc_in frame;
    CB_RPC_ASSERT(s != NULL && s->hub != NULL && event != NULL);
    CB_RPC_ASSERT(s->is_message_based);
    s->need = 1;
    if (message.size == 0 || (s->marks & CBI_RPC_MARK_OVER) != 0) { /* else a message must not wait behind
                                                                       other events */
        st = cbi_rpc_pending(s, now_ns, event);
        return st == CBI_RPC_SKIP ? CB_RPC_NEED_INPUT : st;
    }
    s->now_ns = now_ns > s->now_ns ? now_ns : s->now_ns;
    if (message.size > cbi_rpc_frame_most(s->hub, s->peer == NULL)) {
        return cbi_rpc_fail(s, CB_RPC_E_FRAME_TOO_BIG, "a frame longer than frame_bytes_max");
    }
    frame.at = message.data;
    frame.end = message.data + message.size;
    st = cbi_rpc_read_frame(s, frame, event);
    s->hub->bytes_in += st != CB_RPC_NEED_OUTPUT ? message.size : 0u;
    return st == CBI_RPC_SKIP ? CB_RPC_NEED_INPUT : st;
}

CB_RPC_DEF size_t cb_rpc_need(const cb_rpc_session *s)
{
    CB_RPC_ASSERT(s != NULL);
    return s->need != 0 ? s->need : 1u;
}

CB_RPC_DEF void cb_rpc_tick(cb_rpc_session *s, uint64_t now_ns)
{
    CB_RPC_ASSERT(s != NULL);
    s->now_ns = now_ns > s->now_ns ? now_ns : s->now_ns;
}

CB_RPC_DEF uint64_t cb_rpc_deadline(cb_rpc_session *s)
{
    uint64_t at = CB_RPC_NEVER;
    CB_RPC_ASSERT(s != NULL);
    if (s->heap_count != 0 && s->end <= CBI_RPC_PEER_ENDED) {
        at = *cbi_rpc_heap_deadline(s, s->heap[0]);
    }
    if (s->peer == NULL && s->end == CBI_RPC_OPEN && s->hello_due_ns != 0 && s->hello_due_ns < at) {
        at = s->hello_due_ns;
    }
    if (s->end == CBI_RPC_PEER_ENDED && s->waiting_count != 0 && s->linger_due_ns < at) {
        at = s->linger_due_ns;
    }
    if (s->cancelled_head != CBI_RPC_NONE || at < s->now_ns) {
        at = s->now_ns;
    }
    s->armed_ns = at;
    return at;
}

static void cbi_rpc_end(cb_rpc_session *s, uint8_t end)
{
    s->end = end;
    s->marks |= CBI_RPC_MARK_OVER;
    while (end != CBI_RPC_PEER_ENDED && s->waiting_head != CBI_RPC_NONE) {
        cbi_rpc_waiting_drop(s, s->waiting_head);
    }
    cbi_rpc_wake(s);
}

CB_RPC_DEF void cb_rpc_end(cb_rpc_session *s, cb_rpc_status why, const char *text)
{
    CB_RPC_ASSERT(s != NULL && s->hub != NULL);
    if (s->end > CBI_RPC_PEER_ENDED || (s->end == CBI_RPC_PEER_ENDED && why == CB_RPC_OK)) {
        return;
    }
    if (s->error == CB_RPC_OK && why != CB_RPC_OK) {
        s->error = why;
        s->reason = text != NULL ? text : cbi_rpc_status_text(why);
    } else if (s->reason == NULL) {
        s->reason = text != NULL ? text : cbi_rpc_status_text(CB_RPC_E_CLOSED);
    }
    s->linger_due_ns = cbi_rpc_add_saturated(cbi_rpc_now(s), s->hub->desc.linger_ns);
    cbi_rpc_end(s, why == CB_RPC_OK && s->error == CB_RPC_OK ? CBI_RPC_PEER_ENDED : CBI_RPC_GONE);
}

/* So that the peer's late calls end now and not when it finds that nobody reads. */
static void cbi_rpc_cancel_all(cb_rpc_session *s)
{
    uint32_t i;
    for (i = 0; i < s->open_cap; i++) {
        if (s->open[i].state == CBI_RPC_WAITING) {
            cbi_rpc_send_cancel(s, i, CB_RPC_E_CANCELLED);
        }
    }
}

CB_RPC_DEF void cb_rpc_close(cb_rpc_session *s)
{
    CB_RPC_ASSERT(s != NULL && s->hub != NULL);
    if (s->end != CBI_RPC_WE_CLOSED) {
        cbi_rpc_cancel_all(s);
        s->reason = s->reason != NULL ? s->reason : "closed here";
        cbi_rpc_end(s, CBI_RPC_WE_CLOSED);
    }
}

/* -- 12. public: dispatch -- */
CBI_RPC_COLD
static void cbi_rpc_future_done(cb_rpc_future *f, cb_rpc_status status, const char *reason)
{
    cbi_rpc_text t = cbi_rpc_text_begin(f->reason, sizeof f->reason);
    if (status != CB_RPC_OK) {
        cbi_rpc_text_add(&t, reason);
    }
    f->status = status;
    f->state = CB_RPC_FUTURE_DONE;
    f->session = NULL;
    f->call.id = 0;
}

static void cbi_rpc_dispatch_result(cb_rpc_session *s, const cb_rpc_event *e)
{
    cb_rpc_hub *hub = s->hub;
    const cb_rpc_result *res = &e->result;
    void *reply = e->future != NULL ? e->user : hub->reply;
    cb_rpc_result unreadable;
    if (e->future != NULL && e->future != s->untold) { /* cancelled since next: it may be gone */
        return;
    }
    s->untold = NULL;
    if (res->status == CB_RPC_OK && (e->future != NULL || e->receiver != NULL)
        && !e->row->reply->decode(reply, e->body.data, e->body.size, hub->text, sizeof hub->text)) {
        unreadable.status = CB_RPC_E_ANSWER;
        unreadable.reason = hub->text;
        unreadable.call = res->call;
        res = &unreadable;
    }
    if (e->future != NULL) {
        cbi_rpc_future_done(e->future, res->status, res->reason);
    } else if (e->receiver != NULL) {
        e->row->deliver(e->receiver, e->user, res, res->status == CB_RPC_OK ? reply : NULL);
    }
}

static cb_rpc_status cbi_rpc_run_handler(cb_rpc_session *s, const cb_rpc_event *e)
{
    cb_rpc_hub *hub = s->hub;
    cb_rpc_status st;
    hub->refusal[0] = '\0';
    s->current = e;
    s->took_token = false;
    st = e->row->run(e->member, hub->desc.user, s, hub->args, hub->reply);
    s->current = NULL;
#ifdef CB_RPC_POISON
    memset(hub->args, 0xdb, e->row->args->memory_size);
#endif
    /* A token was taken, or LATER returned, but not both. After a close nobody asks. */
    CB_RPC_ASSERT((st == CB_RPC_LATER) == s->took_token || !cbi_rpc_can_send(s, true));
    if (s->took_token) {
        return CB_RPC_LATER;
    }
    return st == CB_RPC_LATER ? CB_RPC_E_HANDLER : st; /* else nobody would ever answer */
}

/* The scratch has at least this many bytes; clearing all of them at once is faster than counting. */
#define CBI_RPC_SCRATCH_MIN 64u

static void cbi_rpc_clear(void *scratch, size_t size)
{
    if (size <= CBI_RPC_SCRATCH_MIN) {
        memset(scratch, 0, CBI_RPC_SCRATCH_MIN);
    } else {
        memset(scratch, 0, size);
    }
}

static void cbi_rpc_dispatch_call(cb_rpc_session *s, const cb_rpc_event *e)
{
    cb_rpc_hub *hub = s->hub;
    const cb_rpc_row *row = e->row;
    cb_rpc_status st;
    if (e->member == NULL) {
        (void)cbi_rpc_send_refusal(s, e->wire_id, CB_RPC_E_UNKNOWN_METHOD, NULL);
        return;
    }
    if (!row->args->decode(hub->args, e->body.data, e->body.size, hub->text, sizeof hub->text)) {
        (void)cbi_rpc_send_refusal(s, e->wire_id, CB_RPC_E_ARGUMENTS, hub->text);
        return;
    }
    cbi_rpc_clear(hub->reply, row->reply->memory_size);
    st = cbi_rpc_run_handler(s, e);
    if (st == CB_RPC_LATER) {
        return;
    }
    if (st == CB_RPC_OK) {
        st = cbi_rpc_send_answer(s, e->wire_id, row->reply, hub->reply);
        if (st != CB_RPC_E_ENCODE && st != CB_RPC_E_NOMEM) {
            return;
        }
        st = CB_RPC_E_HANDLER; /* the caller is told that it failed; the values stay here */
    }
    (void)cbi_rpc_send_refusal(s, e->wire_id, st, hub->refusal);
}

static void cbi_rpc_dispatch_one_way(cb_rpc_session *s, const cb_rpc_event *e)
{
    cb_rpc_hub *hub = s->hub;
    if (e->member == NULL
        || !e->row->args->decode(hub->args, e->body.data, e->body.size, hub->text, sizeof hub->text)) {
        hub->events_dropped++;
        return;
    }
    (void)e->row->run(e->member, hub->desc.user, s, hub->args, NULL);
}

/* Outside any handler of the hub. */
static void cbi_rpc_dispatch(cb_rpc_session *s, const cb_rpc_event *event)
{
    cb_rpc_hub *hub = s->hub;
    hub->dispatching = s;
    switch ((int)event->kind) {
    case CB_RPC_EVENT_CALL: cbi_rpc_dispatch_call(s, event); break;
    case CB_RPC_EVENT_ONE_WAY: cbi_rpc_dispatch_one_way(s, event); break;
    case CB_RPC_EVENT_RESULT: cbi_rpc_dispatch_result(s, event); break;
    case CB_RPC_EVENT_CANCELLED:
        if (hub->desc.on_cancel != NULL) {
            hub->desc.on_cancel(hub->desc.user, s, event->token, event->result.status);
        }
        break;
    default: break;
    }
    hub->dispatching = NULL;
}

CB_RPC_DEF cb_rpc_status cb_rpc_dispatch(cb_rpc_session *s, const cb_rpc_event *event)
{
    CB_RPC_ASSERT(s != NULL && s->hub != NULL && event != NULL);
    if (s->hub->dispatching != NULL) {
        return CB_RPC_E_BUSY;
    }
    cbi_rpc_dispatch(s, event);
    return CB_RPC_OK;
}

/* Borrowed bytes end their life here: whoever kept a pointer into them shall see it. */
static void cbi_rpc_poison(uint8_t *from, const uint8_t *to)
{
#ifdef CB_RPC_POISON
    if (from != to) {
        memset(from, 0xdb, (size_t)(to - from));
    }
#else
    (void)from;
    (void)to;
#endif
}

CBI_RPC_HOT
CB_RPC_DEF cb_rpc_status cb_rpc_drive(cb_rpc_session *s, cb_span *in, uint64_t now_ns)
{
    cb_rpc_event event;
    cb_rpc_status st;
    uint8_t *from = in->data;
    CB_RPC_ASSERT(s != NULL && s->hub != NULL && in != NULL && !s->is_message_based);
    if (s->hub->dispatching != NULL) { /* before next: an event that nobody can dispatch would be lost */
        return CB_RPC_E_BUSY;
    }
    while ((st = cbi_rpc_next(s, in, now_ns, &event)) == CB_RPC_OK) {
        cbi_rpc_dispatch(s, &event);
        cbi_rpc_poison(from, in->data);
        from = in->data;
    }
    return st;
}

CB_RPC_DEF cb_rpc_status cb_rpc_drive_message(cb_rpc_session *s, cb_slice message, uint64_t now_ns)
{
    cb_rpc_event event;
    cb_rpc_status st;
    bool is_used;
    CB_RPC_ASSERT(s != NULL && s->hub != NULL);
    if (s->hub->dispatching != NULL) {
        return CB_RPC_E_BUSY;
    }
    st = cb_rpc_next_message(s, message, now_ns, &event);
    is_used = message.size != 0 && st != CB_RPC_NEED_OUTPUT;
    if (is_used && st == CB_RPC_NEED_INPUT) { /* without an event */
        message.size = 0;
        st = cb_rpc_next_message(s, message, now_ns, &event);
    }
    message.size = 0;
    for (; st == CB_RPC_OK; st = cb_rpc_next_message(s, message, now_ns, &event)) {
        cbi_rpc_dispatch(s, &event);
    }
    return is_used && st == CB_RPC_NEED_OUTPUT ? CB_RPC_NEED_INPUT : st; /* it may not be shown again */
}

/* -- 13. public: calling -- */
/* Whether the hub's contract has this row. Each file that expands a contract has rows of its own, so names
 * decide. */
static inline bool cbi_rpc_is_ours(const cb_rpc_hub *hub, const cb_rpc_row *row)
{
    unsigned slot = row->number <= CB_RPC_NUMBER_MAX ? hub->row_of_number[row->number] : 0u;
    const cb_rpc_row *own = slot != 0 ? hub->methods[slot - 1u].row : NULL;
    size_t size;
    if (own == row || own == NULL) {
        return own != NULL;
    }
    size = strlen(own->name) + 1u; /* up to the NUL, where the other name may end earlier */
    return strlen(row->name) + 1u == size && memcmp(own->name, row->name, size) == 0;
}

/* The call's frame: number, id with a mark for the deadline, the deadline in whole milliseconds, rounded
 * up. */
static void cbi_rpc_call_head(cbi_rpc_head *h, const cb_rpc_row *row, uint32_t id, uint64_t timeout_ns)
{
    uint8_t *p = cbi_rpc_put_varu(h->bytes, CBI_RPC_METHOD + row->number);
    if (timeout_ns == 0) {
        p = cbi_rpc_put_varu(p, id << 1);
    } else {
        uint64_t ms = timeout_ns / 1000000u + (timeout_ns % 1000000u != 0);
        p = cbi_rpc_put_varu(p, id << 1 | 1u);
        p = cbi_rpc_put_varu(p, ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX);
    }
    h->size = (size_t)(p - h->bytes);
}

static cb_rpc_status cbi_rpc_call(cb_rpc_session *s, const cb_rpc_row *row, const void *args,
                                  cb_rpc_any_fn receiver, void *user, cb_rpc_future *future)
{
    uint64_t timeout_ns = s->next_timeout_ns != 0 ? s->next_timeout_ns : s->hub->desc.call_timeout_ns;
    cb_rpc_status st;
    cbi_rpc_head h;
    cbi_rpc_open *c;
    uint32_t index;
    s->next_timeout_ns = 0;
    s->last_call.id = 0;
    if (row->is_event || !cbi_rpc_is_ours(s->hub, row)) {
        return CB_RPC_E_ARG;
    }
    if (!cbi_rpc_can_send(s, false)) {
        return CB_RPC_E_CLOSED;
    }
    st = cbi_rpc_open_reserve(s, timeout_ns != 0);
    if (st != CB_RPC_OK) {
        return st;
    }
    cbi_rpc_call_head(&h, row, s->open_free, timeout_ns);
    st = cbi_rpc_send_hello(s) ? cbi_rpc_put_value(s, &s->out, &h, row->args, args, false) : CB_RPC_E_FULL;
    if (st != CB_RPC_OK) {
        return st;
    }
    index = cbi_rpc_open_take(s);
    c = &s->open[index];
    c->row = row;
    c->receiver = receiver;
    c->user = user;
    c->future = future;
    s->last_call.id = cbi_rpc_call_id(s, index);
    if (timeout_ns != 0) {
        c->deadline_ns = cbi_rpc_add_saturated(cbi_rpc_now(s), timeout_ns);
        cbi_rpc_heap_add(s, index);
    }
    return CB_RPC_OK;
}

CBI_RPC_HOT
CB_RPC_DEF cb_rpc_status cb_rpc_call_send(cb_rpc_session *s, const cb_rpc_row *row, const void *args,
                                          cb_rpc_any_fn receiver, void *user)
{
    CB_RPC_ASSERT(s != NULL && s->hub != NULL && row != NULL && args != NULL);
    return cbi_rpc_call(s, row, args, receiver, user, NULL);
}

CBI_RPC_HOT
CB_RPC_DEF cb_rpc_status cb_rpc_call_future(cb_rpc_session *s, const cb_rpc_row *row, const void *args,
                                            void *reply, cb_rpc_future *f)
{
    cb_rpc_status st;
    CB_RPC_ASSERT(s != NULL && s->hub != NULL && row != NULL && args != NULL && reply != NULL && f != NULL);
    st = cbi_rpc_call(s, row, args, NULL, reply, f);
    if (st != CB_RPC_OK) {
        cbi_rpc_future_done(f, st, cbi_rpc_reason(s, row, st, st == CB_RPC_E_CLOSED ? s->reason : NULL));
        return st;
    }
    f->state = CB_RPC_FUTURE_WAITING;
    f->session = s;
    f->call = s->last_call;
    return CB_RPC_OK;
}

CBI_RPC_HOT
CB_RPC_DEF cb_rpc_status cb_rpc_event_send(cb_rpc_session *s, const cb_rpc_row *row, const void *args)
{
    const cb_sink *out;
    cbi_rpc_head h;
    CB_RPC_ASSERT(s != NULL && s->hub != NULL && row != NULL && args != NULL);
    if (!row->is_event || !cbi_rpc_is_ours(s->hub, row)) {
        return CB_RPC_E_ARG;
    }
    if (!cbi_rpc_can_send(s, false)) {
        return CB_RPC_E_CLOSED;
    }
    if (!cbi_rpc_send_hello(s)) {
        return CB_RPC_E_FULL;
    }
    out = row->unreliable && s->unreliable != NULL ? s->unreliable : &s->out;
    cbi_rpc_head_one(&h, (uint32_t)CBI_RPC_METHOD + row->number);
    return cbi_rpc_put_value(s, out, &h, row->args, args, false);
}

CB_RPC_DEF cb_rpc_session *cb_rpc_with_timeout(cb_rpc_session *s, uint64_t timeout_ns)
{
    CB_RPC_ASSERT(s != NULL && timeout_ns != 0);
    s->next_timeout_ns = timeout_ns;
    return s;
}

CB_RPC_DEF cb_rpc_call cb_rpc_last_call(const cb_rpc_session *s)
{
    CB_RPC_ASSERT(s != NULL);
    return s->last_call;
}

CB_RPC_DEF cb_rpc_status cb_rpc_call_cancel(cb_rpc_session *s, cb_rpc_call call)
{
    cbi_rpc_open *c;
    uint32_t index;
    CB_RPC_ASSERT(s != NULL && s->hub != NULL);
    c = cbi_rpc_call_find(s, call);
    if (c == NULL) {
        return CB_RPC_E_STALE;
    }
    index = (uint32_t)(c - s->open);
    cbi_rpc_deadline_off(s, c);
    c->state = CBI_RPC_CANCELLED;
    c->next = CBI_RPC_NONE;
    if (s->cancelled_head == CBI_RPC_NONE) {
        s->cancelled_head = index;
    } else {
        s->open[s->cancelled_tail].next = index;
    }
    s->cancelled_tail = index;
    s->marks |= CBI_RPC_MARK_CANCELLED;
    cbi_rpc_wake(s);
    return CB_RPC_OK;
}

static void cbi_rpc_future_drop(cb_rpc_future *f, cb_rpc_status why)
{
    cb_rpc_session *s;
    cbi_rpc_open *c;
    if (f->state != CB_RPC_FUTURE_WAITING) {
        return;
    }
    s = f->session;
    c = cbi_rpc_call_find(s, f->call);
    if (c != NULL) {
        cbi_rpc_deadline_off(s, c);
        c->state = CBI_RPC_TOLD;
        cbi_rpc_send_cancel(s, (uint32_t)(c - s->open), CB_RPC_E_CANCELLED);
    } else { /* cancelled by its id or taken by next, but not told yet: let it be told to nobody */
        uint32_t index = (uint32_t)(f->call.id & 0xffffu);
        s->untold = s->untold == f ? NULL : s->untold;
        if (index < s->open_cap && s->open[index].future == f) {
            s->open[index].future = NULL;
        }
    }
    cbi_rpc_future_done(f, why, cbi_rpc_status_text(why));
}

CB_RPC_DEF void cb_rpc_future_cancel(cb_rpc_future *f)
{
    CB_RPC_ASSERT(f != NULL);
    cbi_rpc_future_drop(f, CB_RPC_E_CANCELLED);
}

/* -- 14. public: answering -- */
CB_RPC_DEF cb_rpc_status cb_rpc_refuse(cb_rpc_session *from, const char *reason)
{
    cbi_rpc_text t;
    CB_RPC_ASSERT(from != NULL && from->hub != NULL);
    t = cbi_rpc_text_begin(from->hub->refusal, sizeof from->hub->refusal);
    cbi_rpc_text_add(&t, reason != NULL ? reason : "");
    return CB_RPC_E_REFUSED;
}

CB_RPC_DEF cb_rpc_token cb_rpc_event_token(cb_rpc_session *s, const cb_rpc_event *event)
{
    uint64_t timeout_ns, deadline_ns;
    cb_rpc_token t;
    uint32_t index;
    CB_RPC_ASSERT(s != NULL && s->hub != NULL && event != NULL && event->kind == CB_RPC_EVENT_CALL);
    t.hub = s->hub;
    t.id = 0;
    if (!cbi_rpc_can_send(s, true)) {
        return t;
    }
    timeout_ns = s->hub->desc.answer_timeout_ns;
    deadline_ns = timeout_ns != 0 ? cbi_rpc_add_saturated(s->now_ns, timeout_ns) : CB_RPC_NEVER;
    deadline_ns = event->deadline_ns < deadline_ns ? event->deadline_ns : deadline_ns;
    index = cbi_rpc_waiting_add(s, event->row, event->wire_id, deadline_ns);
    if (index != CBI_RPC_NONE) {
        t.id = cbi_rpc_token_id(s->hub, index);
    }
    return t;
}

CB_RPC_DEF cb_rpc_token cb_rpc_later(cb_rpc_session *from)
{
    cb_rpc_token t;
    CB_RPC_ASSERT(from != NULL && from->hub != NULL);
    t.hub = from->hub;
    t.id = 0;
    if (from->current != NULL && !from->took_token) {
        t = cb_rpc_event_token(from, from->current);
        from->took_token = t.id != 0;
    }
    return t;
}

/* The call is off the books; a session whose peer has ended its side may have waited for just this. */
static void cbi_rpc_token_settle(cb_rpc_session *s, uint32_t index)
{
    cbi_rpc_waiting_drop(s, index);
    if (s->end != CBI_RPC_OPEN || s->error != CB_RPC_OK) {
        cbi_rpc_wake(s);
    }
}

CB_RPC_DEF cb_rpc_status cb_rpc_token_answer(cb_rpc_token t, const cb_rpc_row *row, const void *reply)
{
    cbi_rpc_waiting *w = cbi_rpc_token_find(t);
    cb_rpc_session *s;
    cb_rpc_status st;
    CB_RPC_ASSERT(row != NULL && reply != NULL);
    if (w == NULL) {
        return CB_RPC_E_STALE;
    }
    if (w->row->number != row->number) {
        return CB_RPC_E_ARG;
    }
    s = w->session;
    st = cbi_rpc_send_answer(s, w->wire_id, w->row->reply, reply);
    if (st != CB_RPC_E_ENCODE && st != CB_RPC_E_NOMEM) {
        cbi_rpc_token_settle(s, (uint32_t)(w - t.hub->waiting));
    }
    return st;
}

CB_RPC_DEF cb_rpc_status cb_rpc_token_refuse(cb_rpc_token t, const char *reason)
{
    cbi_rpc_waiting *w = cbi_rpc_token_find(t);
    cb_rpc_session *s;
    cb_rpc_status st;
    if (w == NULL) {
        return CB_RPC_E_STALE;
    }
    s = w->session;
    st = cbi_rpc_send_refusal(s, w->wire_id, CB_RPC_E_REFUSED, reason);
    cbi_rpc_token_settle(s, (uint32_t)(w - t.hub->waiting));
    return st;
}

CB_RPC_DEF bool cb_rpc_token_is_waiting(cb_rpc_token t)
{
    return cbi_rpc_token_find(t) != NULL;
}

CB_RPC_DEF uint64_t cb_rpc_call_deadline(const cb_rpc_session *from)
{
    CB_RPC_ASSERT(from != NULL);
    return from->current != NULL ? from->current->deadline_ns : CB_RPC_NEVER;
}

/* -- 15. public: hub and session -- */
static bool cbi_rpc_desc_resolve(cb_rpc_hub_desc *d)
{
    d->frame_bytes_max = d->frame_bytes_max != 0 ? d->frame_bytes_max : (size_t)8u << 20;
    d->calls_open_max = d->calls_open_max != 0 ? d->calls_open_max : 1024u;
    d->calls_waiting_max = d->calls_waiting_max != 0 ? d->calls_waiting_max : 256u;
    d->linger_ns = d->linger_ns != 0 ? d->linger_ns : 30000000000u;
    d->hello_ns = d->hello_ns != 0 ? d->hello_ns : 10000000000u;
    d->sessions_max = d->sessions_max != 0 ? d->sessions_max : 10000u;
    d->output_bytes_soft = d->output_bytes_soft != 0 ? d->output_bytes_soft : (size_t)16u << 20;
    d->redial_ns_min = d->redial_ns_min != 0 ? d->redial_ns_min : 250000000u;
    d->redial_ns_max = d->redial_ns_max != 0 ? d->redial_ns_max : 30000000000u;
    return d->contract != NULL && d->contract->count != 0 && d->contract->count <= CB_RPC_NUMBER_MAX
        && d->frame_bytes_max >= CBI_RPC_PIECE_MIN && d->frame_bytes_max <= 0x7fffffffu
        && d->calls_open_max <= 0x10000u && d->calls_waiting_max <= 0x10000u
        && d->redial_ns_min <= d->redial_ns_max && cbi_rpc_alloc_resolve(&d->alloc);
}

/* Numbers in range and used once, names that hash apart. */
static bool cbi_rpc_contract_check(cb_rpc_hub *hub)
{
    size_t i, k;
    for (i = 0; i < hub->desc.contract->count; i++) {
        uint32_t number = hub->methods[i].row->number;
        if (number == 0 || number > CB_RPC_NUMBER_MAX || hub->row_of_number[number] != 0) {
            return false;
        }
        hub->row_of_number[number] = (uint16_t)(i + 1u);
        for (k = 0; k < i; k++) {
            if (hub->methods[k].name_hash == hub->methods[i].name_hash) {
                return false;
            }
        }
    }
    return true;
}

static void cbi_rpc_methods_fill(cb_rpc_hub *hub)
{
    const cb_rpc_contract *c = hub->desc.contract;
    size_t i;
    for (i = 0; i < c->count; i++) {
        const uint8_t *handlers = (const uint8_t *)hub->desc.handlers;
        const void *member = handlers != NULL ? handlers + c->slots[i].handler_at : NULL;
        hub->methods[i].row = c->slots[i].row;
        hub->methods[i].member = member != NULL && c->slots[i].row->is_handled(member) ? member : NULL;
        hub->methods[i].name_hash = cbi_rpc_name_hash(c->slots[i].row);
        hub->methods[i].layout_hash = cbi_rpc_layout_hash(c->slots[i].row);
    }
}

static void cbi_rpc_scratch_sizes(const cb_rpc_contract *c, size_t *args, size_t *reply)
{
    size_t i;
    *args = 0;
    *reply = CBI_RPC_SCRATCH_MIN;
    for (i = 0; i < c->count; i++) {
        const cb_rpc_row *row = c->slots[i].row;
        size_t a = row->args->memory_size, r = row->reply != NULL ? row->reply->memory_size : 0;
        *args = a > *args ? a : *args;
        *reply = r > *reply ? r : *reply;
    }
    *args = (*args + 15u) & ~(size_t)15u;
    *reply = (*reply + 15u) & ~(size_t)15u;
}

CB_RPC_DEF cb_rpc_status cb_rpc_hub_init(cb_rpc_hub *hub, const cb_rpc_hub_desc *desc)
{
    size_t args, reply, methods, numbers = (CB_RPC_NUMBER_MAX + 1u) * sizeof(uint16_t);
    uint8_t *p;
    CB_RPC_ASSERT(hub != NULL && desc != NULL);
    memset(hub, 0, sizeof *hub);
    hub->desc = *desc;
    hub->waiting_free = CBI_RPC_NONE;
    if (!cbi_rpc_desc_resolve(&hub->desc)) {
        return CB_RPC_E_ARG;
    }
    cbi_rpc_scratch_sizes(desc->contract, &args, &reply);
    methods = desc->contract->count * sizeof *hub->methods;
    hub->block_size = args + reply + methods + numbers + CBI_RPC_HELLO_MAX(desc->contract->count);
    p = (uint8_t *)cbi_rpc_take(&hub->desc.alloc, hub->block_size);
    if (p == NULL) {
        return CB_RPC_E_NOMEM;
    }
    memset(p, 0, hub->block_size);
    hub->block = p;
    hub->args = p;
    hub->reply = p + args;
    hub->methods = (cbi_rpc_method *)(void *)(p + args + reply);
    hub->row_of_number = (uint16_t *)(void *)(p + args + reply + methods);
    hub->hello = p + args + reply + methods + numbers;
    cbi_rpc_methods_fill(hub);
    if (!cbi_rpc_contract_check(hub)) {
        cbi_rpc_give(&hub->desc.alloc, hub->block, hub->block_size);
        hub->block = NULL;
        return CB_RPC_E_ARG;
    }
    hub->hello_size = cbi_rpc_hello_write(hub, hub->hello);
    return CB_RPC_OK;
}

CB_RPC_DEF cb_rpc_status cb_rpc_hub_deinit(cb_rpc_hub *hub)
{
    const cb_alloc *a;
    if (hub == NULL || hub->block == NULL) {
        return CB_RPC_OK;
    }
    if (hub->glue != NULL && hub->dispatching == NULL) {
        hub->glue_end(hub);
    }
    if (hub->sessions != 0 || hub->dispatching != NULL || hub->glue != NULL) {
        return CB_RPC_E_BUSY;
    }
    if (hub->block == NULL) { /* the last on_closed has called this, too */
        return CB_RPC_OK;
    }
    a = &hub->desc.alloc;
    cbi_rpc_give(a, hub->waiting, hub->waiting_cap * sizeof *hub->waiting);
    cbi_rpc_give(a, hub->waiting_hash, hub->waiting_cap * sizeof *hub->waiting_hash);
    cbi_rpc_give(a, hub->big, hub->big_cap);
    cbi_rpc_give(a, hub->block, hub->block_size);
    memset(hub, 0, sizeof *hub);
    return CB_RPC_OK;
}

CB_RPC_DEF void cb_rpc_hub_bytes(const cb_rpc_hub *hub, uint64_t *in, uint64_t *out)
{
    CB_RPC_ASSERT(hub != NULL && in != NULL && out != NULL);
    *in = hub->bytes_in;
    *out = hub->bytes_out;
}

CB_RPC_DEF uint64_t cb_rpc_hub_events_dropped(const cb_rpc_hub *hub)
{
    CB_RPC_ASSERT(hub != NULL);
    return hub->events_dropped;
}

static bool cbi_rpc_sink_is_usable(const cb_sink *k)
{
    return k->room != NULL && k->reserve != NULL && k->commit != NULL && k->piece_max >= CBI_RPC_PIECE_MIN;
}

/* What a new connection begins with; the tables of an earlier one are kept. */
static void cbi_rpc_session_begin(cb_rpc_session *s, const cb_sink *out)
{
    CB_RPC_ASSERT(s->open_count == 0 && s->waiting_count == 0 && s->heap_count == 0);
    cbi_rpc_peer_release(s->hub, s->peer);
    s->peer = NULL;
    s->out = *out;
    s->frame_bytes_max = (uint32_t)s->hub->desc.frame_bytes_max;
    s->peer_calls_max = 0;
    s->error = CB_RPC_OK;
    s->reason = NULL;
    s->end = CBI_RPC_OPEN;
    s->open_told = 0;
    s->hello_sent = false;
    s->hello_due_ns = 0;
    s->marks = CBI_RPC_MARK_HELLO;
    s->armed_ns = CB_RPC_NEVER;
    s->need = 0;
}

CB_RPC_DEF cb_rpc_status cb_rpc_session_init(cb_rpc_session *s, cb_rpc_hub *hub,
                                             const cb_rpc_session_desc *desc)
{
    CB_RPC_ASSERT(s != NULL && desc != NULL);
    memset(s, 0, sizeof *s);
    if (hub == NULL || hub->block == NULL || !cbi_rpc_sink_is_usable(&desc->sink)
        || (desc->unreliable != NULL && !cbi_rpc_sink_is_usable(desc->unreliable))) {
        return CB_RPC_E_ARG;
    }
    s->hub = hub;
    s->unreliable = desc->unreliable;
    s->user = desc->user;
    s->wake = desc->wake;
    s->wake_user = desc->wake_user;
    s->is_message_based = desc->is_message_based;
    s->is_server = desc->is_server;
    s->open_free = CBI_RPC_NONE;
    s->cancelled_head = CBI_RPC_NONE;
    s->waiting_head = CBI_RPC_NONE;
    cbi_rpc_session_begin(s, &desc->sink);
    hub->sessions++;
    return CB_RPC_OK;
}

static void cbi_rpc_futures_closed(cb_rpc_session *s)
{
    uint32_t i;
    if (s->untold != NULL) {
        cbi_rpc_future_done(s->untold, CB_RPC_E_CLOSED, cbi_rpc_status_text(CB_RPC_E_CLOSED));
    }
    for (i = 0; i < s->open_cap; i++) {
        cbi_rpc_open *c = &s->open[i];
        if ((c->state == CBI_RPC_WAITING || c->state == CBI_RPC_CANCELLED) && c->future != NULL) {
            cbi_rpc_future_done(c->future, CB_RPC_E_CLOSED, cbi_rpc_status_text(CB_RPC_E_CLOSED));
        }
    }
}

CB_RPC_DEF cb_rpc_status cb_rpc_session_deinit(cb_rpc_session *s)
{
    cb_rpc_hub *hub;
    if (s == NULL || s->hub == NULL) {
        return CB_RPC_OK;
    }
    hub = s->hub;
    if (hub->dispatching == s) {
        return CB_RPC_E_BUSY;
    }
    while (s->waiting_head != CBI_RPC_NONE) {
        cbi_rpc_waiting_drop(s, s->waiting_head);
    }
    cbi_rpc_futures_closed(s);
    cbi_rpc_peer_release(hub, s->peer);
    cbi_rpc_give(&hub->desc.alloc, s->open, s->open_cap * sizeof *s->open);
    cbi_rpc_give(&hub->desc.alloc, s->heap, s->heap_cap * sizeof *s->heap);
    hub->sessions--;
    memset(s, 0, sizeof *s);
    return CB_RPC_OK;
}

CB_RPC_DEF CB_RPC_CHECKED cb_rpc_status cb_rpc_session_restart(cb_rpc_session *s, const cb_sink *sink)
{
    CB_RPC_ASSERT(s != NULL && s->hub != NULL && sink != NULL);
    /* CLOSED is to be seen first */
    if (s->end <= CBI_RPC_PEER_ENDED || s->open_count != 0 || s->hub->dispatching == s) {
        return CB_RPC_E_STATE;
    }
    if (!cbi_rpc_sink_is_usable(sink)) {
        return CB_RPC_E_ARG;
    }
    cbi_rpc_session_begin(s, sink);
    return CB_RPC_OK;
}

CB_RPC_DEF void *cb_rpc_session_user(const cb_rpc_session *s)
{
    CB_RPC_ASSERT(s != NULL);
    return s->user;
}

CB_RPC_DEF void cb_rpc_session_set_user(cb_rpc_session *s, void *user)
{
    CB_RPC_ASSERT(s != NULL);
    s->user = user;
}

CB_RPC_DEF uint32_t cb_rpc_session_peer_calls_max(const cb_rpc_session *s)
{
    CB_RPC_ASSERT(s != NULL);
    return s->peer_calls_max;
}

CB_RPC_DEF bool cb_rpc_session_is_closed(const cb_rpc_session *s)
{
    CB_RPC_ASSERT(s != NULL);
    return s->end == CBI_RPC_WE_CLOSED;
}

CB_RPC_DEF const char *cb_rpc_reason(const cb_rpc_session *s)
{
    CB_RPC_ASSERT(s != NULL);
    return s->reason != NULL ? s->reason : "";
}

/* -- 16. public: the pair -- */
struct cbi_rpc_mark { /* the end of a message, and when it arrives */
    size_t end;
    uint64_t due_ns;
};

#define CBI_RPC_MARKS 1024u /* messages on the way in one direction */

static uint32_t cbi_rpc_random(cb_rpc_pair *pair, uint32_t below)
{
    pair->random = pair->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((pair->random >> 33) % below);
}

static size_t cbi_rpc_lane_room(void *user, bool owed)
{
    const cbi_rpc_lane *lane = (const cbi_rpc_lane *)user;
    size_t bound = owed ? lane->cap : lane->cap / 2u; /* the upper half is for what is owed */
    size_t used = lane->tail - lane->head;
    if (lane->pair->is_cut || lane->mark_count == CBI_RPC_MARKS || used >= bound) {
        return 0;
    }
    return lane->is_reading ? cbi_rpc_min(bound - used, lane->cap - lane->tail) : bound - used;
}

static uint8_t *cbi_rpc_lane_reserve(void *user, size_t size)
{
    cbi_rpc_lane *lane = (cbi_rpc_lane *)user;
    if (lane->cap - lane->tail < size) { /* close the gap in front */
        uint32_t i;
        memmove(lane->bytes, lane->bytes + lane->head, lane->tail - lane->head);
        for (i = 0; i < lane->mark_count; i++) {
            lane->marks[(lane->mark_head + i) % CBI_RPC_MARKS].end -= lane->head;
        }
        lane->tail -= lane->head;
        lane->head = 0;
    }
    return lane->cap - lane->tail < size ? NULL : lane->bytes + lane->tail;
}

static cbi_rpc_mark *cbi_rpc_lane_mark(cbi_rpc_lane *lane, uint32_t i)
{
    return &lane->marks[(lane->mark_head + i) % CBI_RPC_MARKS];
}

/* Swaps the last message with the one before it. */
static void cbi_rpc_lane_overtake(cbi_rpc_lane *lane)
{
    cbi_rpc_mark *last = cbi_rpc_lane_mark(lane, lane->mark_count - 1u);
    cbi_rpc_mark *before = cbi_rpc_lane_mark(lane, lane->mark_count - 2u);
    size_t start = lane->mark_count > 2u ? cbi_rpc_lane_mark(lane, lane->mark_count - 3u)->end : lane->head;
    size_t first = before->end - start, i;
    for (i = 0; i < first; i++) { /* rotate left, one byte at a time: a test's link needs no speed */
        uint8_t byte = lane->bytes[start];
        memmove(lane->bytes + start, lane->bytes + start + 1u, last->end - start - 1u);
        lane->bytes[last->end - 1u] = byte;
    }
    before->end = last->end - first;
}

static void cbi_rpc_lane_commit(void *user, size_t size, bool more)
{
    cbi_rpc_lane *lane = (cbi_rpc_lane *)user;
    cb_rpc_pair *pair = lane->pair;
    cbi_rpc_mark *mark;
    lane->tail += size;
    pair->is_due[lane->to] = true;
    if (more || size == 0) {
        return;
    }
    if (lane->is_unreliable && pair->desc.lose_percent != 0
        && cbi_rpc_random(pair, 100u) < pair->desc.lose_percent) {
        lane->tail = lane->mark_count != 0 ? cbi_rpc_lane_mark(lane, lane->mark_count - 1u)->end : lane->head;
        return;
    }
    if (!lane->has_marks) {
        return;
    }
    mark = cbi_rpc_lane_mark(lane, lane->mark_count++);
    mark->end = lane->tail;
    mark->due_ns = cbi_rpc_add_saturated(pair->now_ns, pair->desc.delay_ns);
    if (lane->is_unreliable && lane->mark_count > (lane->is_reading ? 2u : 1u)
        && pair->desc.reorder_percent != 0
        && cbi_rpc_random(pair, 100u) < pair->desc.reorder_percent) {
        cbi_rpc_lane_overtake(lane);
    }
}

static cb_sink cbi_rpc_lane_sink(cbi_rpc_lane *lane)
{
    cb_sink k;
    k.room = cbi_rpc_lane_room;
    k.reserve = cbi_rpc_lane_reserve;
    k.commit = cbi_rpc_lane_commit;
    k.share = NULL;
    k.user = lane;
    k.piece_max = lane->pair->desc.piece_max;
    return k;
}

#define CBI_RPC_LANE_SIZE(cap) ((size_t)CBI_RPC_MARKS * sizeof(cbi_rpc_mark) + (cap))

static bool cbi_rpc_lane_init(cb_rpc_pair *pair, unsigned index)
{
    cbi_rpc_lane *lane = &pair->lanes[index];
    uint8_t *p = (uint8_t *)cbi_rpc_take(&pair->desc.alloc, CBI_RPC_LANE_SIZE(pair->desc.bytes_max));
    if (p == NULL) {
        return false;
    }
    lane->marks = (cbi_rpc_mark *)(void *)p;
    lane->bytes = p + (size_t)CBI_RPC_MARKS * sizeof(cbi_rpc_mark);
    lane->cap = pair->desc.bytes_max;
    lane->pair = pair;
    lane->to = 1u - index % 2u;
    lane->is_unreliable = index >= 2u;
    lane->has_marks = pair->desc.is_message_based || pair->desc.delay_ns != 0;
    return true;
}

static void cbi_rpc_pair_wake(void *user, cb_rpc_session *s)
{
    cb_rpc_pair *pair = (cb_rpc_pair *)user;
    pair->is_due[s == &pair->a ? 0 : 1] = true;
}

static cb_rpc_status cbi_rpc_pair_session(cb_rpc_pair *pair, cb_rpc_session *s, cb_rpc_hub *hub,
                                          unsigned side)
{
    cb_rpc_session_desc d;
    memset(&d, 0, sizeof d);
    d.sink = cbi_rpc_lane_sink(&pair->lanes[side]);
    d.is_message_based = pair->desc.is_message_based;
    d.is_server = side == 1u;
    d.wake = cbi_rpc_pair_wake;
    d.wake_user = pair;
    if (d.is_message_based) {
        pair->unreliable[side] = cbi_rpc_lane_sink(&pair->lanes[2u + side]);
        d.unreliable = &pair->unreliable[side];
    }
    return cb_rpc_session_init(s, hub, &d);
}

CB_RPC_DEF cb_rpc_status cb_rpc_pair_init(cb_rpc_pair *pair, cb_rpc_hub *hub_a, cb_rpc_hub *hub_b,
                                          const cb_rpc_pair_desc *desc)
{
    cb_rpc_status st = CB_RPC_OK;
    unsigned i;
    CB_RPC_ASSERT(pair != NULL);
    memset(pair, 0, sizeof *pair);
    if (desc != NULL) {
        pair->desc = *desc;
    }
    pair->desc.bytes_max = pair->desc.bytes_max != 0 ? pair->desc.bytes_max : (size_t)256u << 10;
    pair->desc.piece_max = pair->desc.piece_max != 0 ? pair->desc.piece_max : (size_t)16u << 10;
    pair->random = pair->desc.seed;
    if (pair->desc.lose_percent > 100u || pair->desc.reorder_percent > 100u
        || pair->desc.cut_max > UINT32_MAX / 2u || pair->desc.bytes_max > SIZE_MAX / 2u
        || !cbi_rpc_alloc_resolve(&pair->desc.alloc)) {
        memset(pair, 0, sizeof *pair);
        return CB_RPC_E_ARG;
    }
    for (i = 0; i < (pair->desc.is_message_based ? 4u : 2u) && st == CB_RPC_OK; i++) {
        st = cbi_rpc_lane_init(pair, i) ? CB_RPC_OK : CB_RPC_E_NOMEM;
    }
    st = st == CB_RPC_OK ? cbi_rpc_pair_session(pair, &pair->a, hub_a, 0) : st;
    st = st == CB_RPC_OK ? cbi_rpc_pair_session(pair, &pair->b, hub_b, 1) : st;
    if (st != CB_RPC_OK) {
        cb_rpc_pair_deinit(pair);
    }
    return st;
}

/* Where what has arrived by now ends. Plain streams have no marks: all has arrived. */
static size_t cbi_rpc_lane_arrived(cbi_rpc_lane *lane)
{
    size_t arrived = lane->head;
    uint32_t i;
    if (!lane->has_marks) {
        return lane->tail;
    }
    for (i = 0; i < lane->mark_count && cbi_rpc_lane_mark(lane, i)->due_ns <= lane->pair->now_ns; i++) {
        arrived = cbi_rpc_lane_mark(lane, i)->end;
    }
    return arrived;
}

/* The reader is done with everything before head. A writer that found no room may go on. */
static void cbi_rpc_lane_consume(cbi_rpc_lane *lane, size_t head)
{
    cb_rpc_pair *pair = lane->pair;
    if (pair->is_cut || head == lane->head) {
        return;
    }
    lane->head = head;
    while (lane->mark_count != 0 && cbi_rpc_lane_mark(lane, 0)->end <= head) {
        lane->mark_head = (lane->mark_head + 1u) % CBI_RPC_MARKS;
        lane->mark_count--;
    }
    if (head == lane->tail) {
        lane->head = lane->tail = 0;
    }
    pair->is_due[1u - lane->to] = pair->is_due[1u - lane->to] || pair->is_stuck[1u - lane->to];
    pair->is_stuck[1u - lane->to] = false;
}

/* Bytes of a stream, cut as asked. What next leaves over is shown again with more behind it. */
static cb_rpc_status cbi_rpc_lane_show(cb_rpc_session *s, cbi_rpc_lane *lane)
{
    cb_rpc_pair *pair = lane->pair;
    size_t arrived = cbi_rpc_lane_arrived(lane);
    cb_rpc_status st;
    cb_span in;
    in.data = lane->bytes + lane->head;
    in.size = arrived - lane->head;
    if (pair->desc.cut_max != 0 && in.size > lane->shown) {
        in.size = cbi_rpc_min(in.size, lane->shown + 1u + cbi_rpc_random(pair, (uint32_t)pair->desc.cut_max));
        pair->is_due[lane->to] = pair->is_due[lane->to] || lane->head + in.size < arrived;
    }
    lane->is_reading = true; /* the bytes stay where they are, whatever a handler sends meanwhile */
    st = cb_rpc_drive(s, &in, pair->now_ns);
    lane->is_reading = false;
    lane->shown = in.size;
    cbi_rpc_lane_consume(lane, (size_t)(in.data - lane->bytes));
    return st;
}

/* One whole message, or none where none has arrived. */
static cb_rpc_status cbi_rpc_lane_show_message(cb_rpc_session *s, cbi_rpc_lane *lane)
{
    cb_rpc_pair *pair = lane->pair;
    size_t end = cbi_rpc_lane_arrived(lane) != lane->head ? cbi_rpc_lane_mark(lane, 0)->end : lane->head;
    cb_rpc_status st;
    cb_slice message;
    message.data = lane->bytes + lane->head;
    message.size = end - lane->head;
    lane->is_reading = true;
    st = cb_rpc_drive_message(s, message, pair->now_ns);
    lane->is_reading = false;
    if (st != CB_RPC_NEED_OUTPUT) {
        cbi_rpc_lane_consume(lane, end);
        pair->is_due[lane->to] = pair->is_due[lane->to] || lane->head != cbi_rpc_lane_arrived(lane);
    }
    return st;
}

/* Shows one side what has arrived for it and tells it what needs no input. */
static cb_rpc_status cbi_rpc_pair_side(cb_rpc_pair *pair, unsigned side)
{
    cb_rpc_session *s = side == 0 ? &pair->a : &pair->b;
    cb_rpc_status st;
    pair->is_due[side] = false;
    if (pair->is_cut) {
        cb_rpc_end(s, CB_RPC_E_CUT, NULL);
    }
    if (!pair->desc.is_message_based) {
        st = cbi_rpc_lane_show(s, &pair->lanes[1u - side]);
    } else {
        st = cbi_rpc_lane_show_message(s, &pair->lanes[3u - side]);
        st = st < 0 || st == CB_RPC_CLOSED ? st : cbi_rpc_lane_show_message(s, &pair->lanes[1u - side]);
    }
    pair->is_stuck[side] = st == CB_RPC_NEED_OUTPUT;
    return st;
}

CB_RPC_DEF cb_rpc_status cb_rpc_pair_run(cb_rpc_pair *pair, uint64_t now_ns)
{
    cb_rpc_status first = CB_RPC_OK;
    CB_RPC_ASSERT(pair != NULL);
    if (pair->a.hub->dispatching != NULL || pair->b.hub->dispatching != NULL) {
        return CB_RPC_E_BUSY;
    }
    pair->now_ns = now_ns > pair->now_ns ? now_ns : pair->now_ns;
    pair->is_due[0] = pair->is_due[1] = true;
    while (pair->is_due[0] || pair->is_due[1]) {
        unsigned side = pair->is_due[1] ? 1u : 0u;
        cb_rpc_status st = cbi_rpc_pair_side(pair, side);
        if (st < 0 && !pair->is_cut) { /* one side gave up: the connection goes, and the other one sees it */
            first = st;
            cb_rpc_pair_cut(pair);
        }
    }
    return first;
}

CB_RPC_DEF void cb_rpc_pair_cut(cb_rpc_pair *pair)
{
    unsigned i;
    CB_RPC_ASSERT(pair != NULL);
    pair->is_cut = true;
    pair->is_due[0] = pair->is_due[1] = true;
    for (i = 0; i < 4u; i++) {
        pair->lanes[i].head = pair->lanes[i].tail = pair->lanes[i].shown = 0;
        pair->lanes[i].mark_count = 0;
    }
}

static bool cbi_rpc_is_dispatched(const cb_rpc_session *s)
{
    return s->hub != NULL && s->hub->dispatching == s;
}

CB_RPC_DEF void cb_rpc_pair_deinit(cb_rpc_pair *pair)
{
    unsigned i;
    if (pair == NULL || cbi_rpc_is_dispatched(&pair->a) || cbi_rpc_is_dispatched(&pair->b)) {
        return;
    }
    (void)cb_rpc_session_deinit(&pair->a);
    (void)cb_rpc_session_deinit(&pair->b);
    for (i = 0; i < 4u; i++) {
        if (pair->lanes[i].marks != NULL) {
            cbi_rpc_give(&pair->desc.alloc, pair->lanes[i].marks, CBI_RPC_LANE_SIZE(pair->lanes[i].cap));
        }
    }
    memset(pair, 0, sizeof *pair);
}

/* -- 17. public: info -- */
CB_RPC_DEF const char *cb_rpc_status_str(cb_rpc_status status)
{
    return cbi_rpc_status_text(status);
}

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* CB_RPC_IMPLEMENTATION */

/* ==================== glue implementation: cb_loop.h ==================== */
#if defined(CB_RPC_IMPLEMENTATION) && defined(CB_RPC_GLUE_LOOP) && !defined(CB_RPC_GLUE_LOOP_IMPLEMENTED)
#define CB_RPC_GLUE_LOOP_IMPLEMENTED 1
#ifdef __cplusplus
extern "C" {
#endif

/* A session's connection. The hub owns links and keeps them for reuse; a served session lies inside its link,
 * a dialled one is the user's. DOWN is a dialled link between two connections. serve:   FREE -> UP -> FREE
 * connect: FREE -> DOWN <-> UP, and FREE after cb_rpc_close or the loop's end */
enum { CBI_RPC_LINK_FREE, CBI_RPC_LINK_DOWN, CBI_RPC_LINK_UP };

typedef struct cbi_rpc_link {
    cb_loop_stream stream;
    cb_loop_timer timer;        /* UP: the session's next deadline; DOWN: the next dial */
    cb_loop_task task;          /* something happened outside next */
    cb_rpc_session own;         /* of a peer that we serve */
    cb_rpc_session *session;
    cb_rpc_hub *hub;
    cb_loop *loop;
    struct cbi_rpc_link *next;  /* of the live or the free ones */
    struct cbi_rpc_link **back; /* what points to this one while it is live */
    struct cbi_rpc_dial *dial;  /* NULL: a peer that we serve */
    uint64_t timer_at;
    uint8_t state;
    bool is_posted, is_driving;
} cbi_rpc_link;

typedef struct cbi_rpc_dial { /* what a session that dials needs beyond its connection */
    uint64_t redial_ns;
    size_t size;                /* of this block */
    char reason[CB_RPC_REASON_MAX + 1u]; /* why the last connection ended */
    char url[1];                /* up to its NUL */
} cbi_rpc_dial;

typedef struct cbi_rpc_glue { /* hub->glue: made by the first serve or connect, gone with the listener and the
                                 last link */
    cb_loop *loop;
    cb_loop_listener listener;
    cbi_rpc_link *live, *free;
    uint32_t count;             /* of the live ones */
    uint32_t peers;             /* of the accepted ones among them */
    bool is_listening;
} cbi_rpc_glue;

static uint64_t cbi_rpc_loop_clock(void *user)
{
    return cb_loop_now((const cb_loop *)user);
}

static void cbi_rpc_glue_end(cb_rpc_hub *hub);

static cbi_rpc_glue *cbi_rpc_glue_get(cb_rpc_hub *hub, cb_loop *loop)
{
    cbi_rpc_glue *g = (cbi_rpc_glue *)hub->glue;
    if (g != NULL) {
        return g->loop == loop ? g : NULL; /* one hub belongs to one loop */
    }
    g = (cbi_rpc_glue *)cbi_rpc_take(&hub->desc.alloc, sizeof *g);
    if (g == NULL) {
        return NULL;
    }
    memset(g, 0, sizeof *g);
    g->loop = loop;
    hub->glue = g;
    hub->glue_end = cbi_rpc_glue_end;
    if (hub->desc.clock == NULL) {
        hub->desc.clock = cbi_rpc_loop_clock;
        hub->desc.clock_user = loop;
    }
    return g;
}

static void cbi_rpc_glue_release(cb_rpc_hub *hub)
{
    cbi_rpc_glue *g = (cbi_rpc_glue *)hub->glue;
    if (g == NULL || g->is_listening || g->count != 0) {
        return;
    }
    while (g->free != NULL) {
        cbi_rpc_link *link = g->free;
        g->free = link->next;
        cbi_rpc_give(&hub->desc.alloc, link, sizeof *link);
    }
    cbi_rpc_give(&hub->desc.alloc, g, sizeof *g);
    hub->glue = NULL;
    if (hub->desc.clock == cbi_rpc_loop_clock) { /* the loop may go now */
        hub->desc.clock = NULL;
    }
}

static void cbi_rpc_on_timer(void *user, cb_loop_timer *timer, uint64_t now_ns);
static void cbi_rpc_on_task(void *user, cb_loop_task *task, cb_loop_status status); /* the two are tied to the
                                                                                       link's making */

static cbi_rpc_link *cbi_rpc_link_take(cb_rpc_hub *hub)
{
    cbi_rpc_glue *g = (cbi_rpc_glue *)hub->glue;
    cbi_rpc_link *link = g->free;
    if (link != NULL) {
        g->free = link->next;
    } else {
        link = (cbi_rpc_link *)cbi_rpc_take(&hub->desc.alloc, sizeof *link);
    }
    if (link == NULL) {
        return NULL;
    }
    memset(link, 0, sizeof *link);
    link->hub = hub;
    link->loop = g->loop;
    link->timer_at = CB_RPC_NEVER;
    cb_loop_timer_init(&link->timer, cbi_rpc_on_timer, link);
    cb_loop_task_init(&link->task, cbi_rpc_on_task, link);
    link->next = g->live;
    link->back = &g->live;
    if (g->live != NULL) {
        g->live->back = &link->next;
    }
    g->live = link;
    g->count++;
    return link;
}

/* A task that is still posted keeps the link until it has run. */
static void cbi_rpc_link_give(cbi_rpc_link *link)
{
    cb_rpc_hub *hub = link->hub;
    cbi_rpc_glue *g = (cbi_rpc_glue *)hub->glue;
    link->state = CBI_RPC_LINK_FREE;
    if (link->is_posted) {
        return;
    }
    cb_loop_timer_stop(link->loop, &link->timer);
    if (link->dial != NULL) {
        cbi_rpc_give(&hub->desc.alloc, link->dial, link->dial->size);
    }
    *link->back = link->next;
    if (link->next != NULL) {
        link->next->back = link->back;
    }
    link->next = g->free;
    g->free = link;
    g->count--;
    cbi_rpc_glue_release(hub);
}

/* The session's wake: only marks, by a post to the own loop. */
static void cbi_rpc_on_wake(void *user, cb_rpc_session *s)
{
    cbi_rpc_link *link = (cbi_rpc_link *)user;
    (void)s;
    if (!link->is_posted && !link->is_driving) {
        link->is_posted = cb_loop_post(link->loop, &link->task) == CB_LOOP_OK;
    }
}

static void cbi_rpc_link_arm(cbi_rpc_link *link)
{
    uint64_t at = cb_rpc_deadline(link->session);
    if (at == CB_RPC_NEVER && link->timer_at != CB_RPC_NEVER) { /* a loop without timers reads no clock */
        cb_loop_timer_stop(link->loop, &link->timer);
        link->timer_at = CB_RPC_NEVER;
    } else if (at < link->timer_at && cb_loop_timer_start_at(link->loop, &link->timer, at) == CB_LOOP_OK) {
        link->timer_at = at;
    }
}

/* Shows the session bytes, or none, and does what it asks for. Returns how many were used. What a long frame
 * announces is asked for in steps that double, so that a peer must send bytes for the memory it costs. */
static size_t cbi_rpc_link_drive(cbi_rpc_link *link, cb_span in)
{
    size_t had = in.size;
    cb_rpc_status st;
    link->is_driving = true;
    st = cb_rpc_drive(link->session, &in, cb_loop_now(link->loop));
    link->is_driving = false;
    if (st == CB_RPC_NEED_INPUT && in.size != 0) {
        cb_loop_stream_want(&link->stream, cbi_rpc_min(cb_rpc_need(link->session), 2u * in.size + 65536u));
    } else if (st == CB_RPC_CLOSED) {
        cb_loop_stream_close(&link->stream);
        return had;
    } else if (st < 0 && st != CB_RPC_E_BUSY) {
        cb_loop_stream_abort(&link->stream, CB_LOOP_E_RESET);
        return had;
    }
    cbi_rpc_link_arm(link);
    return had - in.size;
}

static void cbi_rpc_link_drive_empty(cbi_rpc_link *link)
{
    cb_span none;
    none.data = NULL;
    none.size = 0;
    (void)cbi_rpc_link_drive(link, none);
}

static size_t cbi_rpc_on_data(void *user, cb_loop_stream *stream, cb_span in)
{
    (void)stream;
    return cbi_rpc_link_drive((cbi_rpc_link *)user, in);
}

static void cbi_rpc_on_open(void *user, cb_loop_stream *stream)
{
    cbi_rpc_link *link = (cbi_rpc_link *)user;
    cb_rpc_hub *hub = link->hub;
    cb_rpc_session_desc d;
    if (link->dial == NULL) {
        memset(&d, 0, sizeof d);
        d.sink = cb_loop_stream_sink(stream);
        d.is_server = true;
        d.wake = cbi_rpc_on_wake;
        d.wake_user = link;
        if (cb_rpc_session_init(&link->own, hub, &d) != CB_RPC_OK) {
            cb_loop_stream_abort(stream, CB_LOOP_E_ARG);
            return;
        }
        link->session = &link->own;
    } else {
        link->dial->redial_ns = hub->desc.redial_ns_min;
        link->session->hello_due_ns = 0;
    }
    if (hub->desc.on_up != NULL) {
        hub->desc.on_up(hub->desc.user, link->session);
    }
    cbi_rpc_link_drive_empty(link); /* the hello leaves with this pass */
}

static void cbi_rpc_on_end(void *user, cb_loop_stream *stream)
{
    cbi_rpc_link *link = (cbi_rpc_link *)user;
    (void)stream;
    cb_rpc_end(link->session, CB_RPC_OK, NULL);
    cbi_rpc_link_drive_empty(link);
}

static cb_rpc_status cbi_rpc_of_loop(cb_loop_status why)
{
    switch ((int)why) {
    case CB_LOOP_OK:
    case CB_LOOP_E_CLOSED: return CB_RPC_E_CLOSED;
    case CB_LOOP_E_REFUSED:
    case CB_LOOP_E_UNREACHABLE: return CB_RPC_E_CONNECT;
    case CB_LOOP_E_TIMEOUT: return CB_RPC_E_TIMEOUT;
    case CB_LOOP_E_TOO_BIG: return CB_RPC_E_FRAME_TOO_BIG;
    case CB_LOOP_E_SLOW_PEER: return CB_RPC_E_SLOW_PEER;
    default: return CB_RPC_E_CUT;
    }
}

/* Every call that still waits is told, then the user that the connection is gone. */
static void cbi_rpc_link_down(cbi_rpc_link *link, cb_loop_status why, const char *text)
{
    char words[CB_RPC_REASON_MAX + 1u];
    char *reason = link->dial != NULL ? link->dial->reason : words;
    cb_rpc_hub *hub = link->hub;
    cb_rpc_session *s = link->session;
    cb_rpc_result res;
    cb_span none;
    cb_rpc_join_texts(words, sizeof words, NULL, cb_rpc_reason(s)[0] != '\0' ? cb_rpc_reason(s) : text);
    memcpy(reason, words, sizeof words); /* the old reason may have been the new one's source */
    res.status = s->error != CB_RPC_OK          ? s->error
                 : cb_rpc_session_is_closed(s) ? CB_RPC_E_CLOSED
                                               : cbi_rpc_of_loop(why);
    res.reason = reason;
    res.call.id = 0;
    cb_rpc_end(s, res.status, reason);
    none.data = NULL;
    none.size = 0;
    link->is_driving = true;
    (void)cb_rpc_drive(s, &none, cb_loop_now(link->loop));
    link->is_driving = false;
    if (hub->desc.on_down != NULL) {
        hub->desc.on_down(hub->desc.user, s, &res);
    }
}

/* The end of a dialled session. */
static void cbi_rpc_link_finish(cbi_rpc_link *link)
{
    cb_rpc_hub *hub = link->hub;
    cb_rpc_session *s = link->session;
    void (*on_closed)(void *, cb_rpc_session *) = hub->desc.on_closed;
    void *user = hub->desc.user;
    (void)cb_rpc_session_deinit(s);
    cbi_rpc_link_give(link); /* may be the last touch of the hub's glue */
    if (on_closed != NULL) {
        on_closed(user, s);
    }
}

/* A loop drops its timers without a word when it ends, so a link that waits for the next dial does not hear
 * of it. Such a link is known by its timer: as long as the loop lives, it runs. */
static void cbi_rpc_glue_end(cb_rpc_hub *hub)
{
    cbi_rpc_link *link = ((cbi_rpc_glue *)hub->glue)->live;
    while (link != NULL) {
        if (link->state == CBI_RPC_LINK_DOWN && !link->is_posted && !cb_loop_timer_is_active(&link->timer)) {
            cbi_rpc_link_finish(link);
            link = hub->glue != NULL ? ((cbi_rpc_glue *)hub->glue)->live : NULL; /* on_closed has run */
        } else {
            link = link->next;
        }
    }
}

static void cbi_rpc_link_redial(cbi_rpc_link *link)
{
    uint64_t pause = link->dial->redial_ns;
    uint64_t most = link->hub->desc.redial_ns_max;
    link->dial->redial_ns = pause > most / 2u ? most : 2u * pause;
    link->state = CBI_RPC_LINK_DOWN;
    if (cb_loop_timer_start(link->loop, &link->timer, pause) != CB_LOOP_OK) { /* the loop has ended */
        cbi_rpc_link_finish(link);
    }
}

static void cbi_rpc_on_stream_closed(void *user, cb_loop_stream *stream, cb_loop_status why)
{
    cbi_rpc_link *link = (cbi_rpc_link *)user;
    cb_loop_timer_stop(link->loop, &link->timer);
    link->timer_at = CB_RPC_NEVER;
    if (link->session != NULL) {
        cbi_rpc_link_down(link, why, cb_loop_stream_reason(stream));
    }
    if (link->dial == NULL) {
        ((cbi_rpc_glue *)link->hub->glue)->peers--;
        (void)cb_rpc_session_deinit(link->session);
        cbi_rpc_link_give(link);
    } else if (cb_rpc_session_is_closed(link->session) || why == CB_LOOP_E_CLOSED) {
        cbi_rpc_link_finish(link);
    } else {
        cbi_rpc_link_redial(link);
    }
}

static void cbi_rpc_stream_desc(cb_loop_stream_desc *d, cbi_rpc_link *link, const cb_rpc_hub *hub)
{
    size_t frame = cbi_rpc_frame_most(hub, true), soft = hub->desc.output_bytes_soft;
    memset(d, 0, sizeof *d);
    d->on_data = cbi_rpc_on_data;
    d->on_open = cbi_rpc_on_open;
    d->on_end = cbi_rpc_on_end;
    d->on_closed = cbi_rpc_on_stream_closed;
    d->user = link;
    d->input_bytes_max = frame + 65536u;
    soft = cbi_rpc_min(soft, SIZE_MAX - frame - 65536u);
    d->output_bytes_soft = soft;
    d->output_bytes_hard = soft + frame + 65536u;
}

static cb_loop_status cbi_rpc_link_dial(cbi_rpc_link *link)
{
    cb_loop_connect_desc d;
    cb_loop_status st;
    cb_sink sink;
    memset(&d, 0, sizeof d);
    d.url = link->dial->url;
    cbi_rpc_stream_desc(&d.stream, link, link->hub);
    st = cb_loop_connect(link->loop, &link->stream, &d);
    if (st != CB_LOOP_OK) {
        return st;
    }
    link->state = CBI_RPC_LINK_UP;
    sink = cb_loop_stream_sink(&link->stream);
    if (link->session->end != CBI_RPC_OPEN && cb_rpc_session_restart(link->session, &sink) != CB_RPC_OK) {
        cb_loop_stream_abort(&link->stream, CB_LOOP_E_STATE);
    }
    link->session->hello_due_ns = CB_RPC_NEVER; /* until it is up: dialling has a time limit of its own */
    return CB_LOOP_OK;
}

static void cbi_rpc_on_timer(void *user, cb_loop_timer *timer, uint64_t now_ns)
{
    cbi_rpc_link *link = (cbi_rpc_link *)user;
    cb_loop_status st;
    (void)timer;
    link->timer_at = CB_RPC_NEVER;
    if (link->state == CBI_RPC_LINK_UP) {
        cb_rpc_tick(link->session, now_ns);
        cbi_rpc_link_drive_empty(link);
        return;
    }
    if (cb_rpc_session_is_closed(link->session)) { /* in this very pass: the task that it posted ends it */
        return;
    }
    link->state = CBI_RPC_LINK_UP;
    st = cbi_rpc_link_dial(link);
    if (st != CB_LOOP_OK) {
        cbi_rpc_link_down(link, st, cb_loop_reason(link->loop));
        cbi_rpc_link_redial(link);
    }
}

static void cbi_rpc_on_task(void *user, cb_loop_task *task, cb_loop_status status)
{
    cbi_rpc_link *link = (cbi_rpc_link *)user;
    (void)task;
    (void)status;
    link->is_posted = false;
    if (link->state == CBI_RPC_LINK_UP) {
        cbi_rpc_link_drive_empty(link);
    } else if (link->state == CBI_RPC_LINK_FREE) {
        cbi_rpc_link_give(link);
    } else if (cb_rpc_session_is_closed(link->session)) {
        cbi_rpc_link_finish(link);
    }
}

static cb_loop_stream *cbi_rpc_on_accept(void *user, cb_loop_listener *listener, const cb_loop_address *from,
                                         void **stream_user)
{
    cb_rpc_hub *hub = (cb_rpc_hub *)user;
    cbi_rpc_glue *g = (cbi_rpc_glue *)hub->glue;
    cbi_rpc_link *link;
    (void)listener;
    (void)from;
    if (g->peers >= hub->desc.sessions_max) {
        return NULL;
    }
    link = cbi_rpc_link_take(hub);
    if (link == NULL) {
        return NULL;
    }
    g->peers++;
    link->state = CBI_RPC_LINK_UP;
    *stream_user = link;
    return &link->stream;
}

static void cbi_rpc_on_listener_closed(void *user, cb_loop_listener *listener)
{
    cb_rpc_hub *hub = (cb_rpc_hub *)user;
    (void)listener;
    ((cbi_rpc_glue *)hub->glue)->is_listening = false;
    cbi_rpc_glue_release(hub);
}

static cb_rpc_status cbi_rpc_listen(cb_rpc_hub *hub, cb_loop *loop)
{
    cbi_rpc_glue *g = cbi_rpc_glue_get(hub, loop);
    cb_loop_listener_desc d;
    cb_loop_status st;
    if (g == NULL) {
        return CB_RPC_E_NOMEM;
    }
    memset(&d, 0, sizeof d);
    d.url = hub->desc.url;
    d.on_accept = cbi_rpc_on_accept;
    d.on_closed = cbi_rpc_on_listener_closed;
    d.user = hub;
    cbi_rpc_stream_desc(&d.stream, NULL, hub);
    st = cb_loop_listen(loop, &g->listener, &d);
    g->is_listening = st == CB_LOOP_OK;
    return st == CB_LOOP_OK ? CB_RPC_OK : st == CB_LOOP_E_NOMEM ? CB_RPC_E_NOMEM : CB_RPC_E_CONNECT;
}

CB_RPC_DEF cb_rpc_status cb_rpc_serve(cb_rpc_hub *hub, cb_loop *loop, const cb_rpc_hub_desc *desc)
{
    cb_rpc_status st;
    CB_RPC_ASSERT(hub != NULL && loop != NULL && desc != NULL);
    if (desc->url == NULL) {
        memset(hub, 0, sizeof *hub);
        return CB_RPC_E_ARG;
    }
    st = cb_rpc_hub_init(hub, desc);
    if (st != CB_RPC_OK) {
        return st;
    }
    st = cbi_rpc_listen(hub, loop);
    if (st != CB_RPC_OK) {
        cbi_rpc_glue_release(hub);
        (void)cb_rpc_hub_deinit(hub);
    }
    hub->desc.url = NULL; /* it was borrowed */
    return st;
}

CB_RPC_DEF const char *cb_rpc_serve_reason(const cb_loop *loop)
{
    return cb_loop_reason(loop);
}

CB_RPC_DEF cb_rpc_status cb_rpc_serve_address(const cb_rpc_hub *hub, cb_loop_address *address)
{
    const cbi_rpc_glue *g;
    CB_RPC_ASSERT(hub != NULL && address != NULL);
    g = (const cbi_rpc_glue *)hub->glue;
    if (g == NULL || !g->is_listening || cb_loop_listener_address(&g->listener, address) != CB_LOOP_OK) {
        return CB_RPC_E_STATE;
    }
    return CB_RPC_OK;
}

CB_RPC_DEF void cb_rpc_unserve(cb_rpc_hub *hub)
{
    cbi_rpc_glue *g;
    cbi_rpc_link *link;
    CB_RPC_ASSERT(hub != NULL);
    g = (cbi_rpc_glue *)hub->glue;
    if (g == NULL) {
        return;
    }
    for (link = g->live; link != NULL; link = link->next) { /* closing only marks; links go in a later pass */
        if (link->dial != NULL || link->state != CBI_RPC_LINK_UP) {
            continue;
        }
        if (link->session != NULL) {
            cb_rpc_close(link->session);
        } else { /* accepted in this pass, not opened yet */
            cb_loop_stream_close(&link->stream);
        }
    }
    if (g->is_listening) {
        cb_loop_listener_close(&g->listener);
    }
}

static cbi_rpc_dial *cbi_rpc_dial_make(const cb_rpc_hub *hub, const char *url)
{
    size_t length = strlen(url), size = sizeof(cbi_rpc_dial) + length;
    cbi_rpc_dial *dial = (cbi_rpc_dial *)cbi_rpc_take(&hub->desc.alloc, size);
    if (dial == NULL) {
        return NULL;
    }
    memset(dial, 0, sizeof *dial);
    dial->size = size;
    dial->redial_ns = hub->desc.redial_ns_min;
    memcpy(dial->url, url, length + 1u);
    return dial;
}

/* Discards what a failed connect had begun. */
static cb_rpc_status cbi_rpc_connect_undo(cbi_rpc_link *link, cb_rpc_status st)
{
    (void)cb_rpc_session_deinit(link->session);
    cbi_rpc_link_give(link);
    return st;
}

CB_RPC_DEF cb_rpc_status cb_rpc_connect(cb_rpc_hub *hub, cb_loop *loop, cb_rpc_session *s, const char *url)
{
    cb_rpc_session_desc d;
    cbi_rpc_link *link;
    cb_loop_status st;
    CB_RPC_ASSERT(hub != NULL && loop != NULL && s != NULL && url != NULL);
    memset(s, 0, sizeof *s);
    if (hub->block == NULL) {
        return CB_RPC_E_ARG;
    }
    if (cbi_rpc_glue_get(hub, loop) == NULL) {
        return hub->glue != NULL ? CB_RPC_E_ARG : CB_RPC_E_NOMEM;
    }
    link = cbi_rpc_link_take(hub);
    if (link == NULL) {
        cbi_rpc_glue_release(hub);
        return CB_RPC_E_NOMEM;
    }
    link->session = s;
    link->dial = cbi_rpc_dial_make(hub, url);
    if (link->dial == NULL) {
        return cbi_rpc_connect_undo(link, CB_RPC_E_NOMEM);
    }
    memset(&d, 0, sizeof d);
    d.sink = cb_loop_stream_sink(&link->stream);
    d.wake = cbi_rpc_on_wake;
    d.wake_user = link;
    if (cb_rpc_session_init(s, hub, &d) != CB_RPC_OK) {
        return cbi_rpc_connect_undo(link, CB_RPC_E_ARG);
    }
    st = cbi_rpc_link_dial(link);
    if (st == CB_LOOP_E_URL || st == CB_LOOP_E_ARG || st == CB_LOOP_E_CLOSED) {
        return cbi_rpc_connect_undo(link, st == CB_LOOP_E_CLOSED ? CB_RPC_E_CLOSED : CB_RPC_E_ARG);
    }
    if (st == CB_LOOP_E_NOMEM) {
        return cbi_rpc_connect_undo(link, CB_RPC_E_NOMEM);
    }
    if (st != CB_LOOP_OK) {
        cbi_rpc_link_down(link, st, cb_loop_reason(loop));
        cbi_rpc_link_redial(link);
    }
    return CB_RPC_OK;
}

CB_RPC_DEF cb_rpc_status cb_rpc_wait(cb_loop *loop, cb_rpc_future *f, uint64_t timeout_ns)
{
    cb_loop_status st = CB_LOOP_OK;
    uint64_t deadline_ns, now_ns;
    CB_RPC_ASSERT(loop != NULL && f != NULL);
    if (cb_loop_in_callback(loop)) {
        return CB_RPC_E_BUSY;
    }
    if (f->state == CB_RPC_FUTURE_WAITING) {
        st = cb_loop_step(loop, 0); /* the loop's clock may be old: read it before counting from it */
    }
    now_ns = cb_loop_now(loop);
    deadline_ns = cbi_rpc_add_saturated(now_ns, timeout_ns);
    while (f->state == CB_RPC_FUTURE_WAITING && st == CB_LOOP_OK && now_ns < deadline_ns) {
        st = cb_loop_step(loop, deadline_ns - now_ns);
        now_ns = cb_loop_now(loop);
    }
    if (f->state != CB_RPC_FUTURE_WAITING) {
        return f->state == CB_RPC_FUTURE_DONE ? f->status : CB_RPC_E_STATE;
    }
    cbi_rpc_future_drop(f, st == CB_LOOP_OK ? CB_RPC_E_TIMEOUT : CB_RPC_E_STATE);
    return f->status;
}

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* glue: cb_loop.h, implementation */

/* Private macros end here; what contracts need stays. */
#if defined(CB_RPC_IMPLEMENTED)
#undef CBI_RPC_NONE
#undef CBI_RPC_HOT
#undef CBI_RPC_COLD
#undef CBI_RPC_SKIP
#undef CBI_RPC_VARU_MAX
#undef CBI_RPC_HEAD_MAX
#undef CBI_RPC_DIRECT_MAX
#undef CBI_RPC_PIECE_MIN
#undef CBI_RPC_SCRATCH_MIN
#undef CBI_RPC_MARK_HELLO
#undef CBI_RPC_MARK_CANCELLED
#undef CBI_RPC_MARK_DEADLINES
#undef CBI_RPC_MARK_OVER
#undef CBI_RPC_REPLY_MIN
#undef CBI_RPC_FNV32
#undef CBI_RPC_REFUSAL_LIST
#undef CBI_RPC_IS_WAITING
#undef CBI_RPC_WAITING_MAX
#undef CBI_RPC_ENTRY_SLOT
#undef CBI_RPC_ENTRY_THERE
#undef CBI_RPC_ENTRY_CALL
#undef CBI_RPC_ENTRY_DIFFERS
#undef CBI_RPC_HELLO_FRAME_MAX
#undef CBI_RPC_HELLO_MAX
#undef CBI_RPC_MARKS
#undef CBI_RPC_LANE_SIZE
#endif

/* Licence: MIT No Attribution, or the Unlicense (public domain), whichever the reader prefers; the texts are
 * in LICENSE.
 *
 * Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
 * associated documentation files (the "Software"), to deal in the Software without restriction, including
 * without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
 * copies of the Software, and to permit persons to whom the Software is furnished to do so. THE SOFTWARE IS
 * PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED. */
