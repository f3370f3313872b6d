#!/bin/sh
# run.sh CHAT [part-of-a-name...]: builds what the chat program is tested with, namely a chat of another layout, one whose
# server lies, and the runner itself, and lets the runner start CHAT in all the ways that it may be started. The last
# line counts.
set -u
chat=${1:?"which chat program?"}
shift
CC=${CC:-cc}
CFLAGS=${CFLAGS:--O2}
dir=$(dirname "$chat")
# shellcheck disable=SC2086 # they are lists of words
build() { $CC $CFLAGS -Wall -Wextra -I. "$@" ${LDFLAGS:-} ${LDLIBS:-}; }
# A hundredth line of which the speaker is told another number than the room: the smallest lie that there is.
lies=$dir/chat_lies.src
rm -rf "$lies"
mkdir -p "$lies" && cp examples/chat/*.[ch] "$lies" || exit 1
sed 's/reply->number = r->said;/reply->number = r->said + (r->said == 100u);/' examples/chat/server.c >"$lies/server.c"
if cmp -s examples/chat/server.c "$lies/server.c" || ! build "$lies/chat.c" -o "$dir/chat_lies" ||
    ! build -DCHAT_ROOM_BYTES=64 examples/chat/chat.c -o "$dir/chat_other" ||
    ! build tests/chat/cases.c -o "$dir/chat_cases"; then
    echo "FAIL the chat's tests do not compile"
    echo "0 passed, 1 failed"
    exit 1
fi
export CHAT="$chat" CHAT_OTHER="$dir/chat_other" CHAT_LIES="$dir/chat_lies"
# shellcheck disable=SC2086 # a runner may have arguments
exec ${RUNNER:-} "$dir/chat_cases" "$@"
