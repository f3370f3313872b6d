/* cases.c - starts the chat program in every way that a user may, good and bad, and compares what it prints and
 * its exit code. It waits for printed lines, never for time; every wait has an end; it ends only processes that
 * it started. CHAT, CHAT_OTHER and CHAT_LIES in the environment name the program, the one of another layout and
 * the one whose server lies (run.sh builds them). */
#define _GNU_SOURCE 1
#include "tests/support/cbt.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    PATIENCE_MS = 30000, /* for one line or one end; a machine may be slow */
    TEXT_MAX = 64 * 1024,
    ARGS_MAX = 6,
    CHILDREN_MAX = 4
};

typedef enum stdout_kind { STDOUT_PIPE, STDOUT_CLOSED, STDOUT_FULL } stdout_kind;

typedef struct output {
    int fd; /* -1: ended */
    size_t size, seen;
    char text[TEXT_MAX];
} output;

typedef struct child {
    pid_t pid; /* 0: not running */
    int in;
    int code; /* exit code, or 1000 + signal */
    output out, err;
} child;

static child children[CHILDREN_MAX]; /* of the running case */

/* -- processes -- */

static void child_exec(stdout_kind kind, const int in[2], const int out[2], const int err[2], char **argv)
{
    (void)dup2(in[0], STDIN_FILENO);
    (void)dup2(out[1], STDOUT_FILENO);
    (void)dup2(err[1], STDERR_FILENO);
    if (kind == STDOUT_FULL) {
        (void)dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO);
    }
    if (kind == STDOUT_CLOSED) {
        (void)close(STDOUT_FILENO);
    }
    (void)signal(SIGPIPE, SIG_DFL);
    (void)execv(argv[0], argv);
    _exit(127);
}

/* Starts `program` with up to ARGS_MAX arguments, of which the first NULL is the end. */
static child *start(int at, stdout_kind kind, const char *program, const char *const *args)
{
    static char words[ARGS_MAX + 1][300];
    char *argv[ARGS_MAX + 2];
    child *c = &children[at];
    int in[2], out[2], err[2], i;
    memset(c, 0, sizeof *c);
    (void)snprintf(words[0], sizeof words[0], "%s", getenv(program)); /* main has seen that it is there */
    argv[0] = words[0];
    for (i = 0; i < ARGS_MAX && args[i] != NULL; i++) {
        (void)snprintf(words[i + 1], sizeof words[i + 1], "%s", args[i]);
        argv[i + 1] = words[i + 1];
    }
    argv[i + 1] = NULL;
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) {
        abort();
    }
    c->pid = fork();
    if (c->pid == 0) {
        child_exec(kind, in, out, err, argv);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    (void)close(err[1]);
    c->in = in[1];
    c->out.fd = out[0];
    c->err.fd = err[0];
    return c;
}

#define START(at, ...) start((at), STDOUT_PIPE, "CHAT", (const char *const[]){__VA_ARGS__, NULL})
#define START_AS(at, kind, program, ...) \
    start((at), (kind), (program), (const char *const[]){__VA_ARGS__, NULL})

static long now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void output_read(output *o)
{
    ssize_t n = read(o->fd, o->text + o->size, sizeof o->text - 1u - o->size);
    if (n <= 0) {
        (void)close(o->fd);
        o->fd = -1;
        return;
    }
    o->size += (size_t)n;
}

/* Reads what comes next on either side. False: both have ended, or the patience has. */
static bool child_read(child *c, long until_ms)
{
    struct pollfd p[2];
    long left = until_ms - now_ms();
    p[0].fd = c->out.fd;
    p[1].fd = c->err.fd;
    p[0].events = p[1].events = POLLIN;
    p[0].revents = p[1].revents = 0;
    if ((c->out.fd < 0 && c->err.fd < 0) || left <= 0 || poll(p, 2, (int)left) <= 0) {
        return false;
    }
    if (p[0].revents != 0) {
        output_read(&c->out);
    }
    if (p[1].revents != 0) {
        output_read(&c->err);
    }
    return true;
}

/* Waits until `o` of the child holds `text` behind what an earlier wait has found. */
static bool wait_for(child *c, output *o, const char *text)
{
    long until_ms = now_ms() + PATIENCE_MS;
    char *found;
    while ((found = strstr(o->text + o->seen, text)) == NULL) {
        if (!child_read(c, until_ms)) {
            fprintf(stderr, "     waited for \"%s\", there is:\n%s%s", text, c->out.text, c->err.text);
            return false;
        }
    }
    o->seen = (size_t)(found - o->text) + strlen(text);
    return true;
}

/* Reads until both outputs have ended and collects the exit code. */
static int finish(child *c)
{
    long until_ms = now_ms() + PATIENCE_MS;
    int status = 0;
    if (c->pid == 0) {
        return c->code;
    }
    while (child_read(c, until_ms)) {
    }
    if (c->out.fd >= 0 || c->err.fd >= 0) {
        fprintf(stderr, "     still runs after %d ms and is ended\n", (int)PATIENCE_MS);
        (void)kill(c->pid, SIGKILL);
    }
    (void)waitpid(c->pid, &status, 0);
    (void)close(c->in);
    c->pid = 0;
    c->code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    return c->code;
}

static void type(child *c, const char *words)
{
    CBT_CHECK(write(c->in, words, strlen(words)) == (ssize_t)strlen(words));
}

/* End of file on its stdin, as ctrl-d does. */
static void type_end(child *c)
{
    (void)close(c->in);
    c->in = open("/dev/null", O_WRONLY | O_CLOEXEC);
}

/* After a failed case; the children of one that went well have ended. */
static void end_children(void)
{
    int i;
    for (i = 0; i < CHILDREN_MAX; i++) {
        if (children[i].pid > 0) {
            (void)kill(children[i].pid, SIGKILL);
            (void)finish(&children[i]);
        }
    }
}

/* -- a server to talk to -- */

/* Starts `serve` on a free port and writes its address. */
static child *start_server(int at, const char *members, char address[64])
{
    child *c = START(at, "serve", "127.0.0.1:0", members);
    unsigned port = 0;
    address[0] = '\0';
    if (wait_for(c, &c->out, "ctrl-c ends it\n") &&
        sscanf(c->out.text, "chat: serving 127.0.0.1:%u,", &port) == 1) {
        (void)snprintf(address, 64, "127.0.0.1:%u", port);
    }
    return c;
}

static void stop_server(child *c)
{
    (void)kill(c->pid, SIGINT);
    CBT_EQ(finish(c), 0);
    CBT_STR(c->err.text, "");
}

/* A port that nothing listens on, but that is ours, so that nobody else can take it meanwhile. Returns its
 * socket. */
static int own_port(bool is_listening, char address[64])
{
    struct sockaddr_in a;
    socklen_t size = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memset(&a, 0, sizeof a);
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) != 0 || (is_listening && listen(fd, 4) != 0) ||
        getsockname(fd, (struct sockaddr *)&a, &size) != 0) {
        abort();
    }
    (void)snprintf(address, 64, "127.0.0.1:%u", (unsigned)ntohs(a.sin_port));
    return fd;
}

static const char *line_with(const char *format, const char *address)
{
    static char text[256];
    const char *at = strchr(format, '@');
    (void)snprintf(text, sizeof text, "%.*s%s%s\n", (int)(at - format), format, address, at + 1);
    return text;
}

static const char *last_line(child *c)
{
    size_t at = c->out.size;
    while (at > 1 && c->out.text[at - 2u] != '\n') {
        at--;
    }
    return c->out.text + (at > 0 ? at - 1u : 0);
}

/* -- the cases -- */

static void an_address_that_is_none(void)
{
    child *c = START(0, "serve", "nonsense");
    CBT_EQ(finish(c), 1);
    CBT_STR(c->err.text, "chat: url 'tcp://nonsense': a port is missing\n");
    CBT_STR(c->out.text, "");
    c = START(0, "join", "127.0.0.1:99999", "ada");
    CBT_EQ(finish(c), 1);
    CBT_STR(c->err.text, "chat: url 'tcp://127.0.0.1:99999': the port is not a number up to 65535\n");
    c = START(0, "bots", "127.0.0.1:");
    CBT_EQ(finish(c), 1);
    CBT_CHECK(strstr(c->err.text, "chat: url 'tcp://127.0.0.1:': ") == c->err.text);
}

static void a_closed_port(void)
{
    char address[64];
    int fd = own_port(false, address);
    child *c = START(0, "join", address, "ada");
    CBT_EQ(finish(c), 1);
    CBT_STR(c->err.text, line_with("chat: connect tcp://@: connection refused", address));
    c = START(0, "bots", address, "1");
    CBT_EQ(finish(c), 1);
    CBT_CHECK(c->err.text ==
              strstr(c->err.text, line_with("chat: bot-0: connect tcp://@: connection refused", address)));
    (void)close(fd);
}

static void a_busy_port(void)
{
    char address[64];
    int fd = own_port(true, address);
    child *c = START(0, "serve", address);
    CBT_EQ(finish(c), 1);
    CBT_STR(c->err.text, line_with("chat: bind tcp://@: address in use", address));
    (void)close(fd);
}

static void talk(void)
{
    char address[64];
    child *server = start_server(0, NULL, address), *ada, *bob;
    ada = START(1, "join", address, "ada");
    CBT_REQUIRE(wait_for(ada, &ada->out, "chat: in lobby, 1 here\n"));
    bob = START(2, "join", address, "bob", "lobby");
    CBT_REQUIRE(wait_for(bob, &bob->out, "chat: in lobby, 2 here\n"));
    CBT_REQUIRE(wait_for(ada, &ada->out, "* bob came, 2 here\n"));
    type(ada, "good evening\n");
    CBT_REQUIRE(wait_for(bob, &bob->out, "ada: good evening\n"));
    CBT_REQUIRE(wait_for(ada, &ada->out, "ada: good evening\n"));
    type(bob, "/members\n");
    CBT_REQUIRE(wait_for(bob, &bob->out, "* ada\n* bob\n"));
    type(bob, "/history\n");
    CBT_REQUIRE(wait_for(bob, &bob->out, "1. ada: good evening\n"));
    type(bob, "/dance\n");
    CBT_REQUIRE(wait_for(bob, &bob->out, "* /members, /history and /leave are known\n"));
    type(bob, "/leave\n");
    CBT_EQ(finish(bob), 0);
    CBT_STR(last_line(bob), "chat: left lobby\n");
    CBT_REQUIRE(wait_for(ada, &ada->out, "* bob left, 1 here\n"));
    type_end(ada);
    CBT_EQ(finish(ada), 0);
    CBT_STR(last_line(ada), "chat: left lobby\n");
    CBT_STR(ada->err.text, "");
    stop_server(server);
}

static void words_that_do_not_fit(void)
{
    char address[64], words[700];
    child *server = start_server(0, NULL, address), *ada = START(1, "join", address, "ada");
    CBT_REQUIRE(wait_for(ada, &ada->out, "chat: in lobby, 1 here\n"));
    memset(words, 'x', 201);
    memcpy(words + 201, "\n", 2);
    type(ada, words);
    CBT_REQUIRE(wait_for(ada, &ada->err, "chat: say: at most 200 bytes of UTF-8\n"));
    type(ada, "\xff\n");
    CBT_REQUIRE(wait_for(ada, &ada->err, "chat: say: at most 200 bytes of UTF-8\n"));
    type(ada, words + 1);
    CBT_REQUIRE(wait_for(ada, &ada->out, words + 1));
    type_end(ada);
    CBT_EQ(finish(ada), 0);
    ada = START(1, "join", address, "a name of more than twenty-four bytes");
    CBT_EQ(finish(ada), 1);
    CBT_STR(ada->err.text, "chat: a name has at most 24 bytes of UTF-8, a room 32\n");
    stop_server(server);
}

static void names_that_are_refused(void)
{
    char address[64];
    child *server = start_server(0, NULL, address), *ada = START(1, "join", address, "ada"), *other;
    CBT_REQUIRE(wait_for(ada, &ada->out, "chat: in lobby, 1 here\n"));
    other = START(2, "join", address, "ada");
    CBT_EQ(finish(other), 1);
    CBT_STR(other->err.text, "chat: join: the name is taken\n");
    other = START(2, "join", address, "");
    CBT_EQ(finish(other), 1);
    CBT_STR(other->err.text, "chat: join: a room and a name have at least one letter\n");
    type_end(ada);
    CBT_EQ(finish(ada), 0);
    stop_server(server);
}

static void a_full_room(void)
{
    char address[64];
    child *server = start_server(0, "1", address), *ada = START(1, "join", address, "ada"), *bob;
    CBT_REQUIRE(wait_for(ada, &ada->out, "chat: in lobby, 1 here\n"));
    bob = START(2, "join", address, "bob");
    CBT_EQ(finish(bob), 1);
    CBT_STR(bob->err.text, "chat: join: the room is full\n");
    bob = START(2, "join", address, "bob", "kitchen");
    CBT_REQUIRE(wait_for(bob, &bob->out, "chat: in kitchen, 1 here\n"));
    type_end(bob);
    CBT_EQ(finish(bob), 0);
    type_end(ada);
    CBT_EQ(finish(ada), 0);
    stop_server(server);
}

static void another_schema(void)
{
    char address[64];
    child *server = start_server(0, NULL, address), *other;
    other = START_AS(1, STDOUT_PIPE, "CHAT_OTHER", "join", address, "ada");
    CBT_EQ(finish(other), 1);
    CBT_STR(other->err.text,
            "chat: chat_join: another layout there (field 'room' is text 64 here, text 32 there)\n");
    stop_server(server);
}

/* The server is stopped first, so that the question is surely on its way and surely not answered. */
static void a_server_killed_in_mid_call(void)
{
    char address[64];
    child *server = start_server(0, NULL, address), *ada = START(1, "join", address, "ada");
    CBT_REQUIRE(wait_for(ada, &ada->out, "chat: in lobby, 1 here\n"));
    CBT_REQUIRE(kill(server->pid, SIGSTOP) == 0);
    type(ada, "/history\n");
    CBT_REQUIRE(wait_for(ada, &ada->out, "* asking for the last 10 lines\n"));
    CBT_REQUIRE(kill(server->pid, SIGKILL) == 0);
    CBT_EQ(finish(server), 1000 + SIGKILL);
    CBT_EQ(finish(ada), 1);
    /* whether the end is seen as a reset, while reading or writing, is the system's affair */
    CBT_CHECK(strncmp(ada->err.text, "chat: history: ", 15) == 0);
    CBT_CHECK(strstr(ada->err.text, "connection reset by peer\n") != NULL ||
              strstr(ada->err.text, "the connection ") != NULL ||
              strstr(ada->err.text, "broken pipe\n") != NULL);
    CBT_CHECK(strstr(ada->out.text, "chat: left") == NULL);
}

static void a_server_that_ends(void)
{
    char address[64];
    child *server = start_server(0, NULL, address), *ada = START(1, "join", address, "ada");
    CBT_REQUIRE(wait_for(ada, &ada->out, "chat: in lobby, 1 here\n"));
    stop_server(server);
    CBT_STR(last_line(server), "chat: served 1 calls\n");
    CBT_EQ(finish(ada), 1);
    CBT_STR(ada->err.text, "chat: the connection has ended\n");
}

static void interrupted(void)
{
    char address[64];
    child *server = start_server(0, NULL, address), *ada = START(1, "join", address, "ada"), *bots;
    CBT_REQUIRE(wait_for(ada, &ada->out, "chat: in lobby, 1 here\n"));
    CBT_REQUIRE(kill(ada->pid, SIGINT) == 0);
    CBT_EQ(finish(ada), 0);
    CBT_STR(last_line(ada), "chat: left lobby\n");
    bots = START(2, "bots", address, "20");
    CBT_REQUIRE(wait_for(bots, &bots->out, " calls/s "));
    CBT_REQUIRE(kill(bots->pid, SIGINT) == 0);
    CBT_EQ(finish(bots), 1);
    CBT_STR(last_line(bots), "bots: interrupted\n");
    stop_server(server);
}

/* The demo's server writes to the same pipes, so that finish waits for its end as well. */
static void interrupted_demo(void)
{
    child *demo = START(0, "demo");
    CBT_REQUIRE(wait_for(demo, &demo->out, " calls/s "));
    CBT_REQUIRE(kill(demo->pid, SIGINT) == 0);
    CBT_EQ(finish(demo), 1);
    CBT_STR(last_line(demo), "demo: interrupted\n");
    CBT_STR(demo->err.text, "");
    demo = START(0, "demo");
    CBT_REQUIRE(wait_for(demo, &demo->out, " calls/s "));
    CBT_REQUIRE(kill(demo->pid, SIGKILL) == 0);
    CBT_EQ(finish(demo), 1000 + SIGKILL);
}

static void closed_stdout(void)
{
    static const char said[] = "chat: stdout is closed, and there is nothing to do without it\n";
    child *c = START_AS(0, STDOUT_CLOSED, "CHAT", "serve", "127.0.0.1:0");
    CBT_EQ(finish(c), 1);
    CBT_STR(c->err.text, said);
    c = START_AS(0, STDOUT_CLOSED, "CHAT", "demo");
    CBT_EQ(finish(c), 1);
    CBT_STR(c->err.text, said);
}

static void full_disk(void)
{
    char address[64];
    child *server, *ada;
    if (access("/dev/full", W_OK) != 0) {
        CBT_SKIP("there is no /dev/full here");
    }
    server = start_server(0, NULL, address);
    ada = START_AS(1, STDOUT_FULL, "CHAT", "join", address, "ada");
    type_end(ada);
    CBT_EQ(finish(ada), 1);
    CBT_STR(ada->err.text, "chat: cannot write to stdout: No space left on device\n");
    stop_server(server);
}

static void wrong_usage(void)
{
    child *c = START(0, "dance");
    CBT_EQ(finish(c), 2);
    CBT_CHECK(strncmp(c->err.text, "chat serve ADDR", 15) == 0);
    c = START(0, "serve", "127.0.0.1:0", "65");
    CBT_EQ(finish(c), 1);
    CBT_STR(c->err.text, "chat: 65: 1 to 64 members\n");
}

static void demo(void)
{
    child *c;
    CBT_REQUIRE(setenv("DEMO_SECONDS", "1", 1) == 0);
    c = START(0, "demo");
    CBT_EQ(finish(c), 0);
    CBT_CHECK(strncmp(last_line(c), "demo: ok, ", 10) == 0);
    CBT_CHECK(strstr(c->out.text, " 0.000  times a call") != NULL ||
              strstr(c->out.text, " -  times a call") != NULL);
    CBT_STR(c->err.text, "");
    CBT_REQUIRE(setenv("DEMO_SECONDS", "soon", 1) == 0);
    c = START(0, "demo");
    CBT_EQ(finish(c), 1);
    CBT_STR(c->err.text, "chat: DEMO_SECONDS: want 1 to 3600\n");
    (void)unsetenv("DEMO_SECONDS");
}

static void a_server_that_lies(void)
{
    child *c;
    CBT_REQUIRE(setenv("DEMO_SECONDS", "1", 1) == 0);
    c = START_AS(0, STDOUT_PIPE, "CHAT_LIES", "demo");
    CBT_EQ(finish(c), 1);
    CBT_CHECK(strncmp(last_line(c), "demo: failed, ", 14) == 0);
    CBT_CHECK(strstr(c->err.text, ": was told another number of its line than the room\n") != NULL);
    (void)unsetenv("DEMO_SECONDS");
}

#define CASE(fn) \
    static void fn##_case(void) \
    { \
        fn(); \
        end_children(); \
    }
#define CASES(X) \
    X(an_address_that_is_none) X(a_closed_port) X(a_busy_port) X(talk) X(words_that_do_not_fit) \
    X(names_that_are_refused) X(a_full_room) X(another_schema) X(a_server_killed_in_mid_call) \
    X(a_server_that_ends) X(interrupted) X(interrupted_demo) X(closed_stdout) X(full_disk) X(wrong_usage) X(demo) \
    X(a_server_that_lies)
CASES(CASE)

int main(int argc, char **argv)
{
#define ROW(fn) {#fn, fn##_case},
    static const cbt_case cases[] = {CASES(ROW)};
    if (getenv("CHAT") == NULL || getenv("CHAT_OTHER") == NULL || getenv("CHAT_LIES") == NULL) {
        printf("CHAT, CHAT_OTHER or CHAT_LIES is not set; run.sh sets them\n");
        return 1;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    (void)unsetenv("DEMO_SECONDS");
    return cbt_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
