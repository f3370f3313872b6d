/* bots.c - clients that join rooms, talk, and check every answer and every line they hear against what must come.
 * That is strict, because the service promises much: lines are numbered without gaps, everybody hears a line before
 * its speaker has the answer, and history ends with the last line that was heard. */
#include "latency.h"
#include <time.h>

enum {
    BOTS_MAX = 1000,
    BOTS_PER_ROOM = 10,
    HISTORY_WISH = 16,  /* lines */
    COMPLAINTS_MAX = 5  /* of what is wrong, so many are printed */
};

typedef enum call_kind { CALL_JOIN, CALL_SAY, CALL_MEMBERS, CALL_HISTORY, CALL_LEAVE, CALL_KINDS } call_kind;

typedef struct crowd crowd;

typedef struct bot {
    cb_rpc_session session;
    crowd *crowd;
    uint32_t index;
    uint32_t turn;      /* calls since talking began */
    uint32_t said;      /* lines of its own */
    uint32_t own;       /* number of its last own line, as the room heard it */
    uint32_t last;      /* number of the last line heard; 0: none yet */
    uint32_t heard_of[BOTS_PER_ROOM]; /* lines heard of each room-mate */
    uint64_t asked_ns;
    char name[CHAT_NAME_MAX + 1];
} bot;

/* What the two processes together have done up to some moment; two of them make a rate. */
typedef struct reading {
    uint64_t at_ns, calls, call_bytes, heard, heard_bytes, allocations;
} reading;

struct crowd {
    cb_loop loop;
    cb_rpc_hub hub;
    cb_loop_timer ticks, end, late;
    uint32_t count, seconds;
    uint32_t joined, closed; /* bots; `closed` counts the watcher too */
    bool is_terminal, is_asking, is_ending, is_over;
    uint64_t wrong, refusals, heard, heard_bytes, ticked;
    uint64_t begin_ns, end_ns; /* of the talking */
    reading warm, shown, now;
    latency recent;            /* since the last line was shown */
    latency total[CALL_KINDS]; /* since the beginning */
    bot watcher; /* joins no room; asks the server for its health */
    bot bots[BOTS_MAX];
};

static uint64_t clock_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

/* -- what is right -- */

/* Something is not as it must be. The first few are told, all are counted. */
static void wrong(crowd *c, const char *who, const char *what)
{
    if (!c->is_over && c->wrong++ < COMPLAINTS_MAX) {
        (void)complain("%s: %s", who, what);
    }
}

static void check(bot *b, bool is_right, const char *what)
{
    if (!is_right) {
        wrong(b->crowd, b->name, what);
    }
}

/* The n-th line of a bot, so that whoever hears it can tell whether it is right. */
static void line_of(uint32_t bot_index, uint32_t n, char *words, size_t size)
{
    static const char *const phrases[] = {
        "good evening, everybody", "yes", "has anybody seen the cat?", "not since the day before yesterday",
        "it rains", "tr\xc3\xa8s bien", "I could not agree more, and would say so again", "then let us sleep"
    };
    const char *phrase = phrases[(bot_index + n) % (sizeof phrases / sizeof phrases[0])];
    (void)snprintf(words, size, "%u %s", (unsigned)n, phrase);
}

/* Which bot of b's room a name belongs to; -1: to a person. */
static long seat_of(const bot *b, const char *name)
{
    long index = strncmp(name, "bot-", 4) == 0 ? number_of(name + 4, 0, BOTS_MAX - 1) : -1;
    bool is_mate = index >= 0 && (uint32_t)index / BOTS_PER_ROOM == b->index / BOTS_PER_ROOM;
    return is_mate ? index % BOTS_PER_ROOM : -1;
}

/* Whether a bot's line is one that it says; *n is told which. */
static bool line_is_right(const bot *b, const line *l, long seat, uint32_t *n)
{
    char expected[CHAT_WORDS_MAX + 1];
    *n = (uint32_t)strtoul(l->words, NULL, 10);
    line_of(b->index / BOTS_PER_ROOM * BOTS_PER_ROOM + (uint32_t)seat, *n, expected, sizeof expected);
    return strcmp(l->words, expected) == 0;
}

static uint32_t bots_in_room(const bot *b)
{
    uint32_t first = b->index / BOTS_PER_ROOM * BOTS_PER_ROOM;
    uint32_t left = b->crowd->count - first;
    return left < BOTS_PER_ROOM ? left : BOTS_PER_ROOM;
}

/* -- a bot's calls: each answer leads to the next call -- */

static void bot_next(bot *b);

static void bot_sent(bot *b, cb_rpc_status sent)
{
    if (sent != CB_RPC_OK) {
        wrong(b->crowd, b->name, cb_rpc_status_str(sent));
        cb_rpc_close(&b->session);
    }
}

/* Counts an answer. False: the call failed, which is wrong unless it was meant to be. */
static bool bot_answered(bot *b, call_kind kind, const cb_rpc_result *res)
{
    crowd *c = b->crowd;
    uint64_t took = clock_ns() - b->asked_ns;
    if (res->status != CB_RPC_OK) {
        if (!cb_rpc_session_is_closed(&b->session)) {
            wrong(c, b->name, res->reason);
            cb_rpc_close(&b->session);
        }
        return false;
    }
    latency_add(&c->recent, took);
    latency_add(&c->total[kind], took);
    return true;
}

static void bot_left(void *user, const cb_rpc_result *res, const nothing *reply)
{
    bot *b = (bot *)user;
    (void)reply;
    (void)bot_answered(b, CALL_LEAVE, res);
    cb_rpc_close(&b->session);
}

static void bot_leave(bot *b)
{
    static const nothing none = { 0 };
    b->asked_ns = clock_ns();
    bot_sent(b, chat_leave(&b->session, &none, bot_left, b));
}

static void bot_told_history(void *user, const cb_rpc_result *res, const history_reply *reply)
{
    bot *b = (bot *)user;
    uint32_t i, n;
    if (!bot_answered(b, CALL_HISTORY, res)) {
        return;
    }
    check(b, reply->lines_count == (b->last < HISTORY_WISH ? b->last : HISTORY_WISH), "got too little history");
    for (i = 0; i < reply->lines_count; i++) {
        const line *l = &reply->lines[i];
        long seat = seat_of(b, l->name);
        check(b, l->number + reply->lines_count == b->last + i + 1u, "got history with a gap");
        check(b, seat < 0 || line_is_right(b, l, seat, &n), "got history that nobody said");
    }
    bot_next(b);
}

static void bot_told_members(void *user, const cb_rpc_result *res, const members_reply *reply)
{
    bot *b = (bot *)user;
    uint32_t i, me = 0, bots = 0;
    if (!bot_answered(b, CALL_MEMBERS, res)) {
        return;
    }
    for (i = 0; i < reply->people_count; i++) {
        me += strcmp(reply->people[i].name, b->name) == 0;
        bots += seat_of(b, reply->people[i].name) >= 0;
    }
    check(b, me == 1, "is not once among the members of its room");
    check(b, bots == bots_in_room(b) || b->crowd->is_ending, "a member of the room is missing");
    bot_next(b);
}

static void bot_has_said(void *user, const cb_rpc_result *res, const say_reply *reply)
{
    bot *b = (bot *)user;
    if (!bot_answered(b, CALL_SAY, res)) {
        return;
    }
    check(b, b->heard_of[b->index % BOTS_PER_ROOM] == b->said, "had the answer before it heard its own line");
    check(b, reply->number == b->own, "was told another number of its line than the room");
    bot_next(b);
}

static void bot_say(bot *b)
{
    say_args say;
    memset(&say, 0, sizeof say);
    line_of(b->index, ++b->said, say.words, sizeof say.words);
    bot_sent(b, chat_say(&b->session, &say, bot_has_said, b));
}

/* Mostly a line; now and then a question. */
static void bot_next(bot *b)
{
    static const nothing none = { 0 };
    history_args wish;
    if (b->crowd->is_ending) {
        bot_leave(b);
        return;
    }
    b->asked_ns = clock_ns();
    switch (++b->turn % 16u) {
    case 5:
        bot_sent(b, chat_members(&b->session, &none, bot_told_members, b));
        break;
    case 11:
        wish.lines = HISTORY_WISH;
        bot_sent(b, chat_history(&b->session, &wish, bot_told_history, b));
        break;
    default:
        bot_say(b);
        break;
    }
}

/* -- joining: first in two ways that are refused -- */

static void bot_ask_to_join(bot *b, const char *name, chat_join_receiver receiver)
{
    join_args who;
    memset(&who, 0, sizeof who);
    (void)snprintf(who.room, sizeof who.room, "bots-%u", (unsigned)(b->index / BOTS_PER_ROOM));
    check(b, CB_CODEC_SET_TEXT(&who, name, name) == CB_CODEC_OK, "has a name that is too long");
    b->asked_ns = clock_ns();
    bot_sent(b, chat_join(&b->session, &who, receiver, b));
}

/* Whether a call was refused as it must be. */
static bool bot_refused(bot *b, const cb_rpc_result *res, const char *reason)
{
    if (cb_rpc_session_is_closed(&b->session)) {
        return false;
    }
    if (res->status != CB_RPC_E_REFUSED || strcmp(res->reason, reason) != 0) {
        wrong(b->crowd, b->name, res->status == CB_RPC_OK ? "was let in and must not be" : res->reason);
        cb_rpc_close(&b->session);
        return false;
    }
    b->crowd->refusals++;
    return true;
}

static void bot_not_joined_taken(void *user, const cb_rpc_result *res, const join_reply *reply)
{
    bot *b = (bot *)user;
    (void)reply;
    if (bot_refused(b, res, "the name is taken")) {
        bot_next(b);
    }
}

static void crowd_begin(crowd *c);

static void bot_joined(void *user, const cb_rpc_result *res, const join_reply *reply)
{
    bot *b = (bot *)user;
    if (!bot_answered(b, CALL_JOIN, res)) {
        return;
    }
    check(b, reply->members >= 1 && reply->members <= CHAT_MEMBERS_MAX, "joined an impossible number");
    if (++b->crowd->joined == b->crowd->count) {
        crowd_begin(b->crowd); /* so that everybody hears every line */
    }
}

static void bot_not_joined_empty(void *user, const cb_rpc_result *res, const join_reply *reply)
{
    bot *b = (bot *)user;
    (void)reply;
    if (bot_refused(b, res, "a room and a name have at least one letter")) {
        bot_ask_to_join(b, b->name, bot_joined);
    }
}

/* -- what the bots hear -- */

/* An event on the wire: its length, its method's number, and what it says (docs/wire-rpc.md). */
static size_t frame_bytes(size_t size)
{
    size_t length = 1u + size;
    return (length < 128u ? 1u : 2u) + length;
}

static void bot_heard(void *user, cb_rpc_session *from, const line *l)
{
    crowd *c = (crowd *)user;
    bot *b = (bot *)cb_rpc_session_user(from);
    long seat = seat_of(b, l->name);
    uint32_t n;
    c->heard++;
    c->heard_bytes += frame_bytes(line_size(l));
    check(b, b->last == 0 || l->number == b->last + 1u, "missed a line");
    b->last = l->number;
    if (seat < 0) {
        return; /* a person may say what he likes */
    }
    check(b, line_is_right(b, l, seat, &n), "heard what nobody said");
    check(b, n == b->heard_of[seat] + 1u, "heard the lines of a room-mate out of order");
    b->heard_of[seat] = n;
    if ((uint32_t)seat == b->index % BOTS_PER_ROOM) {
        b->own = l->number;
    }
}

static void bot_saw_move(void *user, cb_rpc_session *from, const move *m)
{
    bot *b = (bot *)cb_rpc_session_user(from);
    (void)user;
    check(b, m->members >= 1 && m->members <= CHAT_MEMBERS_MAX, "was told an impossible number of members");
}
