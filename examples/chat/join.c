/* join.c - a person at a terminal. The loop has one thread; a second one waits for the terminal and posts
 * what was typed to the loop. Nothing else is shared between the two. */
#include <pthread.h>

typedef struct guest {
    cb_loop loop;
    cb_rpc_hub hub;
    cb_rpc_session session;
    join_args who;
    bool has_left;  /* by the person's own wish */
    bool is_closed; /* the session's memory is ours again */
    int exit_code;
} guest;

/* -- what the server says -- */

static void guest_heard(void *user, cb_rpc_session *from, const line *l)
{
    (void)user;
    (void)from;
    tell("%s: %s", l->name, l->words);
}

static void guest_moved(void *user, cb_rpc_session *from, const move *m)
{
    (void)user;
    (void)from;
    tell("* %s %s, %u here", m->name, m->came ? "came" : "left", (unsigned)m->members);
}

/* Whether an answer came; else says why not. Reasons that are about the method begin with its name. */
static bool guest_answered(const guest *g, const char *call, const cb_rpc_result *res)
{
    if (res->status == CB_RPC_OK) {
        return true;
    }
    if (res->status == CB_RPC_E_LAYOUT || res->status == CB_RPC_E_UNKNOWN_METHOD) {
        (void)complain("%s", res->reason);
    } else if (!g->has_left) {
        (void)complain("%s: %s", call, res->reason);
    }
    return false;
}

static void guest_joined(void *user, const cb_rpc_result *res, const join_reply *reply)
{
    guest *g = (guest *)user;
    if (res->status > CB_RPC_E_REFUSED && res->status < CB_RPC_OK) {
        return; /* no answer of the server's: guest_down tells what became of the connection */
    }
    if (guest_answered(g, "join", res)) {
        tell("chat: in %s, %u here", g->who.room, (unsigned)reply->members);
        return;
    }
    g->exit_code = EXIT_FAILURE;
    cb_rpc_close(&g->session);
}

static void guest_said(void *user, const cb_rpc_result *res, const say_reply *reply)
{
    (void)reply; /* the room hears it from the server, so do we */
    (void)guest_answered((const guest *)user, "say", res);
}

static void guest_members(void *user, const cb_rpc_result *res, const members_reply *reply)
{
    uint32_t i;
    if (!guest_answered((const guest *)user, "members", res)) {
        return;
    }
    for (i = 0; i < reply->people_count; i++) {
        tell("* %s", reply->people[i].name);
    }
}

static void guest_history(void *user, const cb_rpc_result *res, const history_reply *reply)
{
    uint32_t i;
    if (!guest_answered((const guest *)user, "history", res)) {
        return;
    }
    for (i = 0; i < reply->lines_count; i++) {
        tell("%u. %s: %s", (unsigned)reply->lines[i].number, reply->lines[i].name, reply->lines[i].words);
    }
}

/* A session dials again by itself; a person rather wants to know. */
static void guest_down(void *user, cb_rpc_session *session, const cb_rpc_result *why)
{
    guest *g = (guest *)user;
    if (!cb_rpc_session_is_closed(session)) {
        g->exit_code = complain("%s", why->reason);
        cb_rpc_close(session);
    }
}

static void guest_closed(void *user, cb_rpc_session *session)
{
    guest *g = (guest *)user;
    (void)session;
    g->is_closed = true;
    cb_loop_stop(&g->loop);
}

/* -- what the person types -- */

static void guest_leave(guest *g)
{
    g->has_left = true;
    cb_rpc_close(&g->session);
}

static void guest_typed(guest *g, const char *words)
{
    static const nothing none = { 0 };
    history_args wish;
    say_args say;
    if (strcmp(words, "/leave") == 0) {
        guest_leave(g);
    } else if (strcmp(words, "/members") == 0) {
        (void)chat_members(&g->session, &none, guest_members, g);
    } else if (strcmp(words, "/history") == 0) {
        wish.lines = 10;
        tell("* asking for the last %d lines", (int)wish.lines);
        (void)chat_history(&g->session, &wish, guest_history, g);
    } else if (words[0] == '/') {
        tell("* /members, /history and /leave are known");
    } else if (words[0] != '\0') {
        memset(&say, 0, sizeof say);
        if (CB_CODEC_SET_TEXT(&say, words, words) != CB_CODEC_OK) {
            (void)complain("say: at most %d bytes of UTF-8", (int)CHAT_WORDS_MAX);
            return;
        }
        (void)chat_say(&g->session, &say, guest_said, g);
    }
}

typedef struct typed { /* one line on its way from the terminal's thread to the loop's */
    cb_loop_task task;
    guest *guest;
    bool is_end;
    char words[4 * CHAT_WORDS_MAX];
} typed;

/* In the loop's thread. E_CLOSED: the loop ended first, and only the memory is of interest. */
static void on_typed(void *user, cb_loop_task *task, cb_loop_status status)
{
    typed *t = (typed *)user;
    (void)task;
    if (status == CB_LOOP_OK && t->is_end) {
        guest_leave(t->guest);
    } else if (status == CB_LOOP_OK) {
        guest_typed(t->guest, t->words);
    }
    free(t);
}

/* In the terminal's thread. False: nobody listens any more. */
static bool typed_post(guest *g, const char *words, size_t size, bool is_end)
{
    typed *t = (typed *)calloc(1, sizeof *t);
    if (t == NULL) {
        return false;
    }
    t->guest = g;
    t->is_end = is_end;
    memcpy(t->words, words, size < sizeof t->words ? size : sizeof t->words - 1u);
    cb_loop_task_init(&t->task, on_typed, t);
    if (cb_loop_post(&g->loop, &t->task) != CB_LOOP_OK) {
        free(t);
        return false;
    }
    return true;
}

/* The terminal's thread. Plain read, because at exit stdio would wait for whoever is inside a read of it. */
static void *read_terminal(void *user)
{
    guest *g = (guest *)user;
    char buffer[4096];
    size_t held = 0;
    bool is_heard = true;
    while (is_heard) {
        ssize_t n = read(STDIN_FILENO, buffer + held, sizeof buffer - held);
        char *begin = buffer, *end;
        if (n <= 0) {
            break;
        }
        held += (size_t)n;
        while (is_heard && (end = (char *)memchr(begin, '\n', held)) != NULL) {
            is_heard = typed_post(g, begin, (size_t)(end - begin), false);
            held -= (size_t)(end + 1 - begin);
            begin = end + 1;
        }
        memmove(buffer, begin, held);
        if (held == sizeof buffer) { /* a line without end is cut here, and refused as too long */
            is_heard = typed_post(g, buffer, held, false);
            held = 0;
        }
    }
    (void)typed_post(g, "", 0, true);
    return NULL;
}

/* -- life -- */

static cb_rpc_status guest_connect(guest *g, const char *url)
{
    /* in the order of the contract; the calls are the server's to handle */
    static const chat_handlers handlers = { NULL, NULL, NULL, NULL, NULL, NULL, guest_heard, guest_moved };
    cb_rpc_hub_desc d;
    cb_rpc_status st;
    memset(&d, 0, sizeof d);
    chat_bind(&d, &handlers, g);
    d.call_timeout_ns = 10 * SECOND_NS;
    d.on_down = guest_down;
    d.on_closed = guest_closed;
    st = cb_rpc_hub_init(&g->hub, &d);
    if (st != CB_RPC_OK) {
        return st;
    }
    st = cb_rpc_connect(&g->hub, &g->loop, &g->session, url);
    if (st != CB_RPC_OK) {
        (void)cb_rpc_hub_deinit(&g->hub);
    }
    return st;
}

/* Until the person leaves, the server goes, or ctrl-c. */
static int guest_run(guest *g)
{
    pthread_t terminal;
    stop_on_interrupt(&g->loop);
    (void)chat_join(&g->session, &g->who, guest_joined, g); /* it waits for the connection by itself */
    if (pthread_create(&terminal, NULL, read_terminal, g) != 0) {
        return complain("cannot start a thread that reads the terminal");
    }
    (void)pthread_detach(terminal); /* nothing can wake it from its read, and it holds nothing */
    (void)cb_loop_run(&g->loop);
    end_on_interrupt();
    if (!g->is_closed) {
        guest_leave(g);
    }
    while (!g->is_closed) {
        (void)cb_loop_step(&g->loop, CB_LOOP_FOREVER);
    }
    (void)cb_rpc_hub_deinit(&g->hub);
    if (g->has_left) {
        tell("chat: left %s", g->who.room);
    }
    return g->exit_code;
}

static int join_command(const char *url, const char *name, const char *where)
{
    static guest g; /* static: the terminal's thread may look at it until the process ends */
    int code;
    if (CB_CODEC_SET_TEXT(&g.who, name, name) != CB_CODEC_OK ||
        CB_CODEC_SET_TEXT(&g.who, room, where) != CB_CODEC_OK) {
        return complain("a name has at most %d bytes of UTF-8, a room %d", CHAT_NAME_MAX, CHAT_ROOM_BYTES);
    }
    if (cb_loop_init(&g.loop, NULL) != CB_LOOP_OK) {
        return complain("%s", cb_loop_reason(&g.loop));
    }
    code = guest_connect(&g, url) == CB_RPC_OK ? guest_run(&g) : complain("%s", cb_loop_reason(&g.loop));
    cb_loop_deinit(&g.loop);
    return code;
}
