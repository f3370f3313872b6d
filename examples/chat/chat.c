/* chat - rooms in which people talk: the example of cb_codec.h (messages), cb_loop.h (sockets, timers, threads) and cb_rpc.h
 * (calls and events). Build it with
 *     cc -O2 -I. examples/chat/chat.c -o build/chat          (-pthread where libc is an old one)
 * and read it in this order:
 *     service.h   what both sides agree on: the messages and the methods
 *     server.c    the service: handlers, late answers, events to many
 *     join.c      a person's client: a second thread posts to the loop
 *     bots.c      many clients that talk and check every answer; latency.h counts
 *     demo.c      both in two processes
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

#include "demo.c"

enum {
    ROOM_SIZE = 16, /* unless the server is told otherwise */
    BOTS = 100
};

static int usage(void)
{
    fputs("chat serve ADDR [MEMBERS]    serves; ADDR is 127.0.0.1:4000 or alike, port 0 takes a free one; MEMBERS fit a room\n"
          "chat join ADDR NAME [ROOM]   talks; /members, /history, /leave; the room is lobby\n"
          "chat bots ADDR [COUNT]       100 bots that talk for DEMO_SECONDS (10) and check every answer\n"
          "chat demo                    a server and 100 bots in two processes\n",
          stderr);
    return EXIT_USAGE;
}

static int run(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    char url[128];
    long count, seconds = seconds_to_talk();
    if (seconds < 1) {
        return complain("DEMO_SECONDS: want 1 to %d", (int)SECONDS_MAX);
    }
    if (strcmp(command, "demo") == 0 && argc == 2) {
        return demo_command(BOTS, ROOM_SIZE, (uint32_t)seconds);
    }
    if (argc < 3) {
        return usage();
    }
    if (!url_of(argv[2], url, sizeof url)) {
        return complain("%s is too long for an address", argv[2]);
    }
    if (strcmp(command, "serve") == 0 && argc <= 4) {
        count = argc == 4 ? number_of(argv[3], 1, CHAT_MEMBERS_MAX) : ROOM_SIZE;
        return count < 1 ? complain("%s: 1 to %d members", argv[3], (int)CHAT_MEMBERS_MAX) : serve_command(url, (uint32_t)count);
    }
    if (strcmp(command, "join") == 0 && (argc == 4 || argc == 5)) {
        return join_command(url, argv[3], argc == 5 ? argv[4] : "lobby");
    }
    if (strcmp(command, "bots") == 0 && argc <= 4) {
        count = argc == 4 ? number_of(argv[3], 1, BOTS_MAX) : BOTS;
        return count < 1 ? complain("%s: 1 to %d bots", argv[3], (int)BOTS_MAX) : bots_command(url, (uint32_t)count, (uint32_t)seconds);
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
