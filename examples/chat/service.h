/* service.h - what the chat service and its clients agree on: messages, methods, limits. Both sides
 * include this. */
#ifndef CHAT_SERVICE_H
#define CHAT_SERVICE_H
#include "cb_codec.h"
#include "cb_rpc.h"

enum {
    CHAT_NAME_MAX = 24,    /* bytes of a person's name */
    CHAT_WORDS_MAX = 200,  /* bytes of one line */
    CHAT_MEMBERS_MAX = 64, /* people in one room, the most that a server may be told to allow */
    CHAT_HISTORY_MAX = 32  /* lines that a room remembers */
};

/* The tests build a second client with -DCHAT_ROOM_BYTES=64, to see what it is told. */
#ifndef CHAT_ROOM_BYTES
#define CHAT_ROOM_BYTES 32
#endif

#define JOIN_ARGS(F)               \
    F(text, room, CHAT_ROOM_BYTES) \
    F(text, name, CHAT_NAME_MAX)
CB_CODEC_SCHEMA(join_args, JOIN_ARGS)

#define JOIN_REPLY(F) \
    F(u32, members) /* the one who asked is among them */
CB_CODEC_SCHEMA(join_reply, JOIN_REPLY)

#define SAY_ARGS(F) F(text, words, CHAT_WORDS_MAX)
CB_CODEC_SCHEMA(say_args, SAY_ARGS)

#define SAY_REPLY(F) \
    F(u32, number) /* which line of the room it became; the first is 1 */
CB_CODEC_SCHEMA(say_reply, SAY_REPLY)

CB_CODEC_EMPTY(nothing)

#define PERSON(F) F(text, name, CHAT_NAME_MAX)
CB_CODEC_SCHEMA(person, PERSON)

#define MEMBERS_REPLY(F) F(list, people, person, CHAT_MEMBERS_MAX)
CB_CODEC_SCHEMA(members_reply, MEMBERS_REPLY)

#define LINE(F)                  \
    F(u32,  number)              \
    F(text, name, CHAT_NAME_MAX) \
    F(text, words, CHAT_WORDS_MAX)
CB_CODEC_SCHEMA(line, LINE)

#define HISTORY_ARGS(F) F(range, lines, 1, CHAT_HISTORY_MAX)
CB_CODEC_SCHEMA(history_args, HISTORY_ARGS)

#define HISTORY_REPLY(F) F(list, lines, line, CHAT_HISTORY_MAX)
CB_CODEC_SCHEMA(history_reply, HISTORY_REPLY)

#define MOVE(F)                  \
    F(text, name, CHAT_NAME_MAX) \
    F(flag, came)                \
    F(u32,  members)
CB_CODEC_SCHEMA(move, MOVE)

#define HEALTH_REPLY(F) \
    F(u32, people)      \
    F(u64, calls)       \
    F(u64, allocations) /* since the server's process began */
CB_CODEC_SCHEMA(health_reply, HEALTH_REPLY)

/* The server handles the calls, its members the events. */
#define CHAT(CALL, EVENT)                               \
    CALL (1, chat_join,    join_args,    join_reply)    \
    CALL (2, chat_say,     say_args,     say_reply)     \
    CALL (3, chat_members, nothing,      members_reply) \
    CALL (4, chat_history, history_args, history_reply) \
    CALL (5, chat_leave,   nothing,      nothing)       \
    CALL (6, chat_health,  nothing,      health_reply)  \
    EVENT(7, chat_heard,   line)                        \
    EVENT(8, chat_moved,   move)
CB_RPC_CONTRACT(chat, CHAT)
#endif
