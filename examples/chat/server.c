/* server.c - the service: rooms, who is in them, what was said. One loop, one thread, no locks; all memory
 * is taken at the start. What a person may do wrong is refused in words; nobody can make another one wait. */

enum {
    PEOPLE_MAX = 1024,  /* connections at once */
    ROOMS_MAX = 128,
    QUESTIONS_MAX = 512 /* requests for history on their way */
};
#define ARCHIVE_NS UINT64_C(5000000) /* how long the archive takes; ours plays a slow disk */

typedef struct room room;

typedef struct member { /* of each connection, from on_up to on_down */
    cb_rpc_session *session;
    room *room; /* NULL: in none */
    char name[CHAT_NAME_MAX + 1];
    struct member *next_free;
} member;

struct room { /* kept when it is empty, with its history; taken over when there is no other left */
    char name[CHAT_ROOM_BYTES + 1]; /* "": never used */
    uint32_t opening;               /* differs when it was taken over */
    uint32_t count;
    uint32_t said;                  /* lines so far */
    member *members[CHAT_MEMBERS_MAX];
    line history[CHAT_HISTORY_MAX]; /* line n stands at n % CHAT_HISTORY_MAX */
};

typedef struct server server;

typedef struct question { /* a request for history that the archive has not answered yet */
    cb_loop_timer timer;
    cb_rpc_token token;
    server *server;
    room *room;
    uint32_t opening;
    uint32_t lines;
    struct question *next_free;
} question;

struct server {
    cb_loop loop;
    cb_rpc_hub hub;
    uint32_t room_size; /* members */
    uint32_t people;    /* in rooms */
    uint32_t openings;
    uint64_t calls;
    member *free_member;
    question *free_question;
    history_reply history; /* too large for the stack */
    member members[PEOPLE_MAX];
    question questions[QUESTIONS_MAX];
    room rooms[ROOMS_MAX];
};

/* -- rooms -- */

static room *room_find(server *s, const char *name)
{
    uint32_t i;
    for (i = 0; i < ROOMS_MAX; i++) {
        if (strcmp(s->rooms[i].name, name) == 0) {
            return &s->rooms[i];
        }
    }
    return NULL;
}

/* A room of that name, found or made; NULL: all are in use. */
static room *room_get(server *s, const char *name)
{
    room *r = room_find(s, name);
    uint32_t i;
    for (i = 0; r == NULL && i < ROOMS_MAX; i++) {
        if (s->rooms[i].name[0] == '\0') {
            r = &s->rooms[i];
        }
    }
    for (i = 0; r == NULL && i < ROOMS_MAX; i++) {
        if (s->rooms[i].count == 0) {
            r = &s->rooms[i];
        }
    }
    if (r != NULL && strcmp(r->name, name) != 0) {
        memset(r, 0, sizeof *r);
        memcpy(r->name, name, strlen(name) + 1u);
        r->opening = ++s->openings;
    }
    return r;
}

static bool room_has(const room *r, const char *name)
{
    uint32_t i;
    for (i = 0; i < r->count; i++) {
        if (strcmp(r->members[i]->name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Who does not read what the room says must not fill our memory: the bound of his output is reached, and
 * he has to go. Closing only marks; on_down comes later, so the room's list stays as it is meanwhile. */
static void send_away_if(cb_rpc_status sent, member *m)
{
    if (sent != CB_RPC_OK) {
        cb_rpc_close(m->session);
    }
}

static void room_tell_move(room *r, const char *name, bool came, uint32_t members)
{
    move news;
    uint32_t i;
    memset(&news, 0, sizeof news);
    memcpy(news.name, name, strlen(name) + 1u);
    news.came = came;
    news.members = members;
    for (i = 0; i < r->count; i++) {
        send_away_if(chat_moved(r->members[i]->session, &news), r->members[i]);
    }
}

static void room_leave(server *s, member *m)
{
    room *r = m->room;
    uint32_t i = 0;
    if (r == NULL) {
        return;
    }
    while (r->members[i] != m) {
        i++;
    }
    r->members[i] = r->members[--r->count];
    m->room = NULL;
    s->people--;
    room_tell_move(r, m->name, false, r->count);
}

static void room_enter(server *s, room *r, member *m, const char *name)
{
    memcpy(m->name, name, strlen(name) + 1u);
    room_tell_move(r, name, true, r->count + 1u);
    r->members[r->count++] = m;
    m->room = r;
    s->people++;
}

/* -- the calls: a handler fills the reply and returns OK, or refuses in words -- */

static member *member_of(server *s, cb_rpc_session *from)
{
    s->calls++;
    return (member *)cb_rpc_session_user(from);
}

static cb_rpc_status on_join(void *user, cb_rpc_session *from, const join_args *a, join_reply *reply)
{
    server *s = (server *)user;
    member *m = member_of(s, from);
    room *r;
    if (a->room[0] == '\0' || a->name[0] == '\0') {
        return cb_rpc_refuse(from, "a room and a name have at least one letter");
    }
    r = room_get(s, a->room);
    if (r == NULL) {
        return cb_rpc_refuse(from, "there is no room left");
    }
    if (room_has(r, a->name)) {
        return cb_rpc_refuse(from, "the name is taken");
    }
    if (r->count >= s->room_size && m->room != r) {
        return cb_rpc_refuse(from, "the room is full");
    }
    room_leave(s, m);
    room_enter(s, r, m, a->name);
    reply->members = r->count;
    return CB_RPC_OK;
}

/* Everybody in the room hears the line, the speaker too, and before the answer: one connection keeps its
 * order. */
static cb_rpc_status on_say(void *user, cb_rpc_session *from, const say_args *a, say_reply *reply)
{
    server *s = (server *)user;
    member *m = member_of(s, from);
    room *r = m->room;
    line *l;
    uint32_t i;
    if (r == NULL) {
        return cb_rpc_refuse(from, "join a room first");
    }
    r->said++;
    l = &r->history[r->said % CHAT_HISTORY_MAX];
    l->number = r->said;
    memcpy(l->name, m->name, sizeof l->name);
    memcpy(l->words, a->words, sizeof l->words);
    for (i = 0; i < r->count; i++) {
        send_away_if(chat_heard(r->members[i]->session, l), r->members[i]);
    }
    reply->number = r->said;
    return CB_RPC_OK;
}

static cb_rpc_status on_members(void *user, cb_rpc_session *from, const nothing *a, members_reply *reply)
{
    const member *m = member_of((server *)user, from);
    uint32_t i;
    (void)a;
    if (m->room == NULL) {
        return cb_rpc_refuse(from, "join a room first");
    }
    reply->people_count = m->room->count;
    for (i = 0; i < m->room->count; i++) {
        memcpy(reply->people[i].name, m->room->members[i]->name, sizeof reply->people[i].name);
    }
    return CB_RPC_OK;
}

/* The archive is slow, so this is answered later: the token remembers who asked. */
static cb_rpc_status on_history(void *user, cb_rpc_session *from, const history_args *a, history_reply *reply)
{
    server *s = (server *)user;
    const member *m = member_of(s, from);
    question *q = s->free_question;
    (void)reply;
    if (m->room == NULL) {
        return cb_rpc_refuse(from, "join a room first");
    }
    if (q == NULL) {
        return cb_rpc_refuse(from, "too many ask for history, try again");
    }
    q->room = m->room;
    q->opening = m->room->opening;
    q->lines = (uint32_t)a->lines;
    q->token = cb_rpc_later(from);
    if (q->token.id == 0 || cb_loop_timer_start(&s->loop, &q->timer, ARCHIVE_NS) != CB_LOOP_OK) {
        return cb_rpc_refuse(from, "the server is out of memory or closing");
    }
    s->free_question = q->next_free;
    return CB_RPC_LATER;
}

/* The archive has it. Should the one who asked have gone meanwhile, answering says E_STALE and does
 * nothing. */
static void on_archive(void *user, cb_loop_timer *timer, uint64_t now_ns)
{
    question *q = (question *)user;
    server *s = q->server;
    const room *r = q->room;
    uint32_t i, first;
    (void)timer;
    (void)now_ns;
    if (r->opening != q->opening) {
        (void)cb_rpc_token_refuse(q->token, "the room is gone");
    } else {
        s->history.lines_count = r->said < q->lines ? r->said : q->lines;
        first = r->said - s->history.lines_count + 1u;
        for (i = 0; i < s->history.lines_count; i++) {
            s->history.lines[i] = r->history[(first + i) % CHAT_HISTORY_MAX];
        }
        (void)chat_history_answer(q->token, &s->history);
    }
    q->next_free = s->free_question;
    s->free_question = q;
}

static cb_rpc_status on_leave(void *user, cb_rpc_session *from, const nothing *a, nothing *reply)
{
    server *s = (server *)user;
    (void)a;
    (void)reply;
    room_leave(s, member_of(s, from));
    return CB_RPC_OK;
}

static cb_rpc_status on_health(void *user, cb_rpc_session *from, const nothing *a, health_reply *reply)
{
    server *s = (server *)user;
    (void)member_of(s, from);
    (void)a;
    reply->people = s->people;
    reply->calls = s->calls;
    reply->allocations = allocations_so_far();
    return CB_RPC_OK;
}

/* -- connections -- */

static void on_guest_up(void *user, cb_rpc_session *session)
{
    server *s = (server *)user;
    member *m = s->free_member; /* there is one: sessions_max is PEOPLE_MAX */
    s->free_member = m->next_free;
    m->session = session;
    cb_rpc_session_set_user(session, m);
}

static void on_guest_down(void *user, cb_rpc_session *session, const cb_rpc_result *why)
{
    server *s = (server *)user;
    member *m = (member *)cb_rpc_session_user(session);
    (void)why;
    room_leave(s, m);
    m->next_free = s->free_member;
    s->free_member = m;
}

/* -- life -- */

/* Links what is taken and given back while people talk, so that nothing is allocated then. */
static void server_link(server *s)
{
    uint32_t i;
    for (i = 0; i < PEOPLE_MAX; i++) {
        s->members[i].next_free = s->free_member;
        s->free_member = &s->members[i];
    }
    for (i = 0; i < QUESTIONS_MAX; i++) {
        s->questions[i].server = s;
        cb_loop_timer_init(&s->questions[i].timer, on_archive, &s->questions[i]);
        s->questions[i].next_free = s->free_question;
        s->free_question = &s->questions[i];
    }
}

static cb_rpc_status server_listen(server *s, const char *url)
{
    /* in the order of the contract; the events are the clients' to handle */
    static const chat_handlers handlers = { on_join,  on_say,    on_members, on_history,
                                            on_leave, on_health, NULL,       NULL };
    cb_rpc_hub_desc d;
    memset(&d, 0, sizeof d);
    chat_bind(&d, &handlers, s);
    d.url = url;
    d.sessions_max = PEOPLE_MAX;
    d.output_bytes_soft = 1024u * 1024u; /* more than that unread, and a guest has to go */
    d.on_up = on_guest_up;
    d.on_down = on_guest_down;
    return cb_rpc_serve(&s->hub, &s->loop, &d);
}

/* A server that listens; whoever has it runs its loop. NULL: why has been said. */
static server *server_new(uint32_t room_size, const char *url)
{
    server *s = (server *)calloc(1, sizeof *s);
    if (s == NULL) {
        (void)complain("out of memory");
        return NULL;
    }
    s->room_size = room_size;
    server_link(s);
    if (cb_loop_init(&s->loop, NULL) == CB_LOOP_OK && server_listen(s, url) == CB_RPC_OK) {
        return s;
    }
    (void)complain("%s", cb_loop_reason(&s->loop));
    cb_loop_deinit(&s->loop);
    free(s);
    return NULL;
}

/* The address in use, "127.0.0.1:4000". */
static const char *server_address(const server *s, char *text, size_t size)
{
    cb_loop_address bound;
    memset(&bound, 0, sizeof bound);
    (void)cb_rpc_serve_address(&s->hub, &bound);
    return cb_loop_address_str(&bound, text, size);
}

/* What was written to the guests still leaves. */
static void server_close(server *s)
{
    cb_rpc_unserve(&s->hub);
    while (cb_rpc_hub_deinit(&s->hub) == CB_RPC_E_BUSY) {
        (void)cb_loop_step(&s->loop, CB_LOOP_FOREVER);
    }
    cb_loop_deinit(&s->loop);
    free(s);
}

static int serve_command(const char *url, uint32_t room_size)
{
    server *s = server_new(room_size, url);
    char address[56];
    if (s == NULL) {
        return EXIT_FAILURE;
    }
    stop_on_interrupt(&s->loop);
    tell("chat: serving %s, ctrl-c ends it", server_address(s, address, sizeof address));
    (void)cb_loop_run(&s->loop);
    end_on_interrupt();
    tell("chat: served %llu calls", (unsigned long long)s->calls);
    server_close(s);
    return EXIT_SUCCESS;
}
