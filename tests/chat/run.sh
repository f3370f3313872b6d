#!/bin/sh
# run.sh CHAT [part-of-a-name...]: builds what the chat program is tested with, a second chat of another layout and
# the runner itself, and lets the runner start CHAT in all the ways that it may be started. The last line counts.
set -u
chat=${1:?"which chat program?"}
shift
CC=${CC:-cc}
CFLAGS=${CFLAGS:--O2}
dir=$(dirname "$chat")
# shellcheck disable=SC2086 # they are lists of words
build() { $CC $CFLAGS -Wall -Wextra -I. "$@" ${LDFLAGS:-} ${LDLIBS:-}; }
if ! build -DCHAT_ROOM_BYTES=64 examples/chat/chat.c -o "$dir/chat_other" ||
    ! build tests/chat/cases.c -o "$dir/chat_cases"; then
    echo "FAIL the chat's tests do not compile"
    echo "0 passed, 1 failed"
    exit 1
fi
CHAT=$chat CHAT_OTHER=$dir/chat_other exec ${RUNNER:-} "$dir/chat_cases" "$@"
