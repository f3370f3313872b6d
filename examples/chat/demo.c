/* demo.c - the service in one process and the bots in another, on a free port of this machine. */
#include <sys/types.h>
#include <sys/wait.h>

/* A pipe of which the demo's first process holds the other end: when that process ends, in whatever way,
 * read returns. */
typedef struct lifeline {
    cb_loop *loop;
    int fd;
} lifeline;

static void *wait_for_end(void *user)
{
    const lifeline *l = (const lifeline *)user;
    char byte;
    while (read(l->fd, &byte, 1) < 0 && errno == EINTR) {
    }
    cb_loop_stop(l->loop); /* any thread may */
    return NULL;
}

/* The second process. It writes its address to `ready` and serves until the other end of `life` is closed. */
static int demo_serve(int ready, int life, uint32_t room_size)
{
    server *s = server_new(room_size, "tcp://127.0.0.1:0");
    lifeline line_to_parent;
    pthread_t thread;
    char address[56];
    size_t size;
    if (s == NULL) {
        return EXIT_FAILURE;
    }
    (void)signal(SIGINT, SIG_IGN); /* ctrl-c goes to both processes; the bots leave first */
    line_to_parent.loop = &s->loop;
    line_to_parent.fd = life;
    size = strlen(server_address(s, address, sizeof address));
    if (write(ready, address, size) != (ssize_t)size || close(ready) != 0 ||
        pthread_create(&thread, NULL, wait_for_end, &line_to_parent) != 0) {
        return complain("cannot start the demo's server: %s", strerror(errno));
    }
    (void)cb_loop_run(&s->loop);
    (void)pthread_join(thread, NULL);
    server_close(s);
    return EXIT_SUCCESS;
}

/* What the server wrote until it closed its end. False: nothing, it has failed and said why. */
static bool read_address(int fd, char *text, size_t size)
{
    size_t at = 0;
    ssize_t n = 1;
    while (n > 0 && at + 1u < size) {
        n = read(fd, text + at, size - 1u - at);
        at += n > 0 ? (size_t)n : 0u;
    }
    text[at] = '\0';
    return at != 0;
}

static int demo_talk(int ready, uint32_t bots, uint32_t seconds)
{
    char address[56], url[64];
    if (!read_address(ready, address, sizeof address) || !url_of(address, url, sizeof url)) {
        return EXIT_FAILURE;
    }
    tell("demo: %u bots in %u rooms talk for %u s and check every answer", (unsigned)bots,
         (unsigned)((bots + BOTS_PER_ROOM - 1u) / BOTS_PER_ROOM), (unsigned)seconds);
    tell("demo: build/chat join %s ada bots-0 listens to ten of them", address);
    return crowd_command(url, bots, seconds, "demo");
}

static int demo_command(uint32_t bots, uint32_t room_size)
{
    uint32_t seconds = seconds_to_talk();
    int ready[2], life[2], status = 0, code;
    pid_t child;
    if (seconds == 0) {
        return EXIT_FAILURE;
    }
    if (pipe(ready) != 0 || pipe(life) != 0) {
        return complain("cannot make a pipe: %s", strerror(errno));
    }
    child = fork(); /* before any thread, and with nothing printed yet */
    if (child < 0) {
        return complain("cannot make a process: %s", strerror(errno));
    }
    if (child == 0) {
        (void)close(ready[0]);
        (void)close(life[1]);
        exit(demo_serve(ready[1], life[0], room_size));
    }
    (void)close(ready[1]);
    (void)close(life[0]);
    code = demo_talk(ready[0], bots, seconds);
    (void)close(life[1]);
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return complain("demo: the server did not end well");
    }
    return code;
}
