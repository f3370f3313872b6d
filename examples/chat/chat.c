/* chat - rooms in which people talk: the example of cb_codec.h (messages), cb_loop.h (sockets, timers, threads)
 * and cb_rpc.h (calls and events). Build it with
 *     cc -O2 -I. examples/chat/chat.c -o build/chat          (-pthread where libc is an old one)
 * and read it in this order:
 *     service.h   what both sides agree on: the messages and the methods
 *     server.c    the service: handlers, late answers, events to many
 *     join.c      a person's client: a second thread posts to the loop
 *     bots.c      clients that talk and check every answer
 *     crowd.c     many of them in one loop, timed and counted (latency.h)
 *     demo.c      server and crowd in two processes
 * tools.h and count.h have what is not about the library. */
#define CB_CODEC_IMPLEMENTATION
#define CB_LOOP_IMPLEMENTATION
#define CB_RPC_IMPLEMENTATION
#define CB_RPC_WITH_LOOP
#include "cb_codec.h"
#include "cb_loop.h"
#include "cb_rpc.h"

#include "count.h"
#include "tools.h"

#include "service.h"

#include "server.c"

#include "join.c"

#include "bots.c"

#include "crowd.c"

#include "demo.c"

enum {
    ROOM_SIZE = 16, /* unless the server is told otherwise */
    BOTS = 100
};

static int usage(void)
{
    fputs("chat serve ADDR [MEMBERS]    serves at ADDR, such as 127.0.0.1:4000; MEMBERS (16) fit a room\n"
          "chat join ADDR NAME [ROOM]   talks in ROOM (lobby); /members, /history and /leave are known\n"
          "chat bots ADDR [COUNT]       COUNT (100) bots talk for DEMO_SECONDS (10) and check every answer\n"
          "chat demo                    both, in two processes\n",
          stderr);
    return EXIT_USAGE;
}

/* serve ADDR [MEMBERS] */
static int run_serve(const char *url, const char *members)
{
    long size = members != NULL ? number_of(members, 1, CHAT_MEMBERS_MAX) : ROOM_SIZE;
    return size > 0 ? serve_command(url, (uint32_t)size) : complain("%s: 1 to %d members", members, CHAT_MEMBERS_MAX);
}

/* bots ADDR [COUNT] */
static int run_bots(const char *url, const char *bots)
{
    long count = bots != NULL ? number_of(bots, 1, BOTS_MAX) : BOTS;
    return count > 0 ? bots_command(url, (uint32_t)count) : complain("%s: 1 to %d bots", bots, BOTS_MAX);
}

static int run(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    char url[128];
    if (strcmp(command, "demo") == 0 && argc == 2) {
        return demo_command(BOTS, ROOM_SIZE);
    }
    if (argc < 3) {
        return usage();
    }
    if (!url_of(argv[2], url, sizeof url)) {
        return complain("%s is too long for an address", argv[2]);
    }
    if (strcmp(command, "serve") == 0 && argc <= 4) {
        return run_serve(url, argv[3]); /* argv ends with a NULL */
    }
    if (strcmp(command, "join") == 0 && (argc == 4 || argc == 5)) {
        return join_command(url, argv[3], argc == 5 ? argv[4] : "lobby");
    }
    if (strcmp(command, "bots") == 0 && argc <= 4) {
        return run_bots(url, argv[3]);
    }
    return usage();
}

int main(int argc, char **argv)
{
    if (!keep_standard_streams()) {
        return complain("stdout is closed, and there is nothing to do without it");
    }
    return end_output(run(argc, argv));
}
