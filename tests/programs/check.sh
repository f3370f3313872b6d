#!/bin/sh
# check.sh - the programs of this folder are the text that readers are given, byte for byte (the .txt beside each, and the
# README); they compile without a warning in both languages with both compilers; and program 9 is as small as it says.
# They run by themselves, as the other tests do. The last line counts.
set -u
CC=${CC:-cc}
CFLAGS=${CFLAGS:--O2}
programs="1 2 4 9 10"
bytes_max=4096 # of program 9's code and constants
t=$(mktemp -d) || exit 1
trap 'rm -rf "$t"' EXIT
passed=0 failed=0 skipped=0

ok() { passed=$((passed + 1)); echo "ok   $*"; }

fail() { failed=$((failed + 1)); echo "FAIL $*"; }

skip() { # where nothing may be skipped that is a failure
    if [ "${CB_REQUIRE_ALL:-0}" != 0 ]; then
        fail "may not be skipped here: $*"
    else
        skipped=$((skipped + 1))
        echo "     skipped: $*"
    fi
}

same_text() { # N: between the marks stands what the .txt has
    awk '/^\/\* program: end \*\/$/ { on = 0 } on { print } /^\/\* program: begin \*\/$/ { on = 1 }' \
        "tests/programs/program_$1.c" >"$t/text"
    if diff "tests/programs/program_$1.txt" "$t/text" >"$t/diff"; then
        ok "program $1 is the text"
    else
        fail "program $1 is not the text:"
        head -5 "$t/diff"
    fi
}

in_readme() { # N: one of the README's blocks is the .txt
    rm -f "$t"/block.*
    awk -v stem="$t/block." '/^```/ { on = !on; n++; next } on { print > (stem n) }' README.md
    for b in "$t"/block.*; do
        cmp -s "$b" "tests/programs/program_$1.txt" && { ok "program $1 stands in README.md"; return; }
    done
    fail "README.md has no block that is program $1"
}

strict() { # COMPILER LANGUAGE STANDARD
    command -v "$1" >/dev/null 2>&1 || { skip "$1 is missing (apt-get install $4)"; return; }
    for n in $programs; do
        # shellcheck disable=SC2046 # the flags are a list of words
        if "$1" -x "$2" -std="$3" $(sh tests/tools/flags.sh "$1") -I. -fsyntax-only "tests/programs/program_$n.c" >"$t/log" 2>&1; then
            ok "program $n, $1 -std=$3"
        else
            fail "program $n, $1 -std=$3:"
            grep -E 'error|warning' "$t/log" | head -5
        fi
    done
}

small() { # what is left of cb_codec.h when a board packs and unpacks one message
    if ! $CC -Os -ffreestanding -fno-asynchronous-unwind-tables -ffunction-sections -fdata-sections -DPROGRAM_9_BARE -DNDEBUG \
        -I. -c tests/programs/program_9.c -o "$t/9.o" >"$t/log" 2>&1; then
        fail "program 9 does not compile freestanding"
        head -5 "$t/log"
        return
    fi
    # a linker that cannot drop what is not called is no fault of the program
    $CC -r -nostdlib -Wl,--gc-sections,-e,board_pack,-u,board_unpack "$t/9.o" -o "$t/9" 2>"$t/log" || { skip "no linker that collects sections"; return; }
    command -v size >/dev/null 2>&1 || { skip "size is missing (apt-get install binutils)"; return; }
    bytes=$(size "$t/9" | awk 'NR == 2 { print $1 + $2 + $3 }')
    needs=$(nm -u "$t/9" | awk '{ print $NF }' | grep -vE '^(memcpy|memmove|memset|memcmp|memchr|strlen|_GLOBAL_OFFSET_TABLE_)$' | tr '\n' ' ')
    echo "program 9: $bytes bytes of code and constants, at most $bytes_max"
    if [ "$bytes" -le "$bytes_max" ]; then ok "program 9 is small"; else fail "program 9 has $bytes bytes, at most $bytes_max"; fi
    if [ -z "$needs" ]; then ok "program 9 needs memcpy and its like alone"; else fail "program 9 needs $needs"; fi
}

for n in $programs; do
    same_text "$n"
    [ ! -e README.md ] || in_readme "$n"
done
if [ "$CFLAGS" = -O2 ]; then # other flags, another run of the same texts: once is enough
    strict gcc c c99 gcc
    strict g++ c++ c++11 g++
    strict clang c c99 clang
    strict clang++ c++ c++11 clang
    small
fi
if [ "$skipped" != 0 ]; then
    echo "$passed passed, $failed failed, $skipped skipped"
else
    echo "$passed passed, $failed failed"
fi
[ "$failed" = 0 ]
