#!/bin/sh
# run_tests.sh: runs what `make test` built, adds up the closing lines and prints one of its own as the last line.
#
# Environment: BUILD (folder with the programs), CC, CFLAGS, TESTS (names of the test programs, without test_),
# RUNNER (words in front of each program, e.g. an emulator), PARTS (of: tests compile programs examples docs fuzz chat wire; all where unset), TEST_SECONDS (limit a program, 120).
# A program without a closing line `N passed, M failed` counts as one test, judged by its exit code; test programs must have one. A closing line is
# believed only together with the right exit code. CB_REQUIRE_ALL=1 makes a skipped part a failure.
set -u
BUILD=${BUILD:-build}
RUNNER=${RUNNER:-}
CC=${CC:-cc}
CFLAGS=${CFLAGS:--O2}
export BUILD CC CFLAGS
PARTS=${PARTS:-tests compile programs examples docs fuzz chat wire}
TEST_SECONDS=${TEST_SECONDS:-120}
log=$BUILD/log
passed=0 failed=0 skipped=0 closing=0
rm -rf "$log"
mkdir -p "$log" || exit 1
here=$(dirname "$0")
limit=
command -v timeout >/dev/null 2>&1 && limit="timeout -k 5 $TEST_SECONDS"

wants() { case " $PARTS " in *" $1 "*) return 0 ;; esac; return 1; }

skip() { # NAME REASON
    if [ "${CB_REQUIRE_ALL:-0}" != 0 ]; then
        failed=$((failed + 1))
        printf 'FAIL %-24s may not be skipped here: %s\n' "$1" "$2"
    else
        skipped=$((skipped + 1))
        printf 'skip %-24s %s\n' "$1" "$2"
    fi
}

fail() { # NAME REASON
    failed=$((failed + 1))
    printf 'FAIL %-24s %s\n' "$1" "$2"
    if [ -s "$log/$1.log" ]; then
        grep -E '^FAIL|error:|ERROR|runtime error|Assertion|SUMMARY' "$log/$1.log" | head -20 | sed 's/^/     | /'
        tail -n 8 "$log/$1.log" | sed 's/^/     > /'
    fi
}

run() { # NAME COMMAND...: one program
    name=$1
    shift
    if [ ! -e "$1" ] && ! command -v "$1" >/dev/null 2>&1; then
        grep -F "$(basename "$1")" "$BUILD/build.log" 2>/dev/null | tail -n 1 >"$log/$name.log"
        fail "$name" "was not built"
        return
    fi
    case $1 in "$BUILD"/*) runner=$RUNNER ;; *) runner= ;; esac
    begin=$(date +%s)
    # shellcheck disable=SC2086 # both are lists of words
    $limit $runner "$@" >"$log/$name.log" 2>&1 </dev/null
    rc=$?
    took=$(($(date +%s) - begin))
    line=$(tr -d '\r' <"$log/$name.log" | grep -aE '^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$' | tail -n 1)
    if [ -z "$line" ]; then
        if [ "$rc" = 0 ] && [ "$closing" = 0 ]; then
            passed=$((passed + 1))
            printf 'ok   %-24s exit code 0 (%d s)\n' "$name" "$took"
        else
            fail "$name" "no closing line, exit code $rc after $took s"
        fi
        return
    fi
    # shellcheck disable=SC2086 # the words of the line are wanted
    set -- $line
    passed=$((passed + $1))
    failed=$((failed + $3))
    [ $# -lt 5 ] || skipped=$((skipped + $5))
    if [ "$3" != 0 ]; then
        failed=$((failed - 1)) # fail counts one
        fail "$name" "$line ($took s)"
    elif [ "$rc" != 0 ]; then
        fail "$name" "$line, but exit code $rc"
    else
        printf 'ok   %-24s %s (%d s)\n' "$name" "$line" "$took"
        tr -d '\r' <"$log/$name.log" | sed -n 's/^ *skipped: /     skipped: /p' | sort -u | head -5
    fi
}

compile() { # NAME OUTPUT FLAGS...: true when it compiled, otherwise the failure is counted
    name=$1
    shift
    if ! $CC "$@" >"$log/$name.log" 2>&1; then
        fail "$name" "does not compile"
        return 1
    fi
    return 0
}

if wants tests; then
    closing=1 # a test program that prints none of its own did not finish
    for t in ${TESTS:-$(echo tests/test_*.c | sed 's|tests/test_||g; s|\.c||g')}; do
        run "test_$t" "$BUILD/test_$t"
    done
    for c in tests/regress/*.c; do # a fault that was found once, each in a program of its own
        [ -e "$c" ] || continue
        b=regress_$(basename "$c" .c)
        # shellcheck disable=SC2086
        compile "$b" $CFLAGS -I. "$c" -o "$BUILD/$b" && run "$b" "$BUILD/$b"
    done
    closing=0
fi

if wants compile; then
    closing=1
    for c in tests/compile/*.sh; do
        [ ! -e "$c" ] || run "$(echo "${c%.sh}" | sed 's|.*/compile/run$|compile|; s|.*/|compile_|')" sh "$c" "$BUILD/compile"
    done
    closing=0
fi

if wants programs; then # a file that another one includes is run by that one
    for c in tests/programs/*.c; do
        [ -e "$c" ] || continue
        b=$(basename "$c" .c)
        grep -qs "#include \"\(tests/programs/\)\{0,1\}$b\.c\"" tests/programs/*.c || run "$b" "$BUILD/programs/$b"
    done
fi

if wants examples; then # one that serves until it is stopped is only compiled
    for h in cb_*.h; do
        [ -e "$h" ] || continue
        b=example_$(basename "$h" .h)
        sh "$here/example.sh" "$h" >"$BUILD/$b.c" 2>/dev/null || {
            fail "$b" "no EXAMPLE in the top page"
            continue
        }
        # shellcheck disable=SC2086
        compile "$b" $CFLAGS -std=c99 -Wall -Wextra -Werror -I. "$BUILD/$b.c" -o "$BUILD/$b" || continue
        if grep -q 'cb_loop_run' "$BUILD/$b.c" && ! grep -q 'cb_loop_stop' "$BUILD/$b.c"; then
            passed=$((passed + 1))
            printf 'ok   %-24s compiled; runs until it is stopped\n' "$b"
        else
            run "$b" "$BUILD/$b"
        fi
    done
    for c in examples/*.c; do
        [ -e "$c" ] || continue
        b=example_$(basename "$c" .c)
        # shellcheck disable=SC2086
        compile "$b" $CFLAGS -std=c99 -Wall -Wextra -Werror -I. "$c" -o "$BUILD/$b" || continue
        passed=$((passed + 1))
        printf 'ok   %-24s compiled\n' "$b"
    done
fi

if wants docs; then
    closing=1
    run pitfalls sh "$here/pitfalls.sh"
    closing=0
    md=$(ls README.md docs/*.md 2>/dev/null)
    rm -rf "$BUILD/docs"
    # shellcheck disable=SC2086
    for c in $([ -z "$md" ] || sh "$here/doc_blocks.sh" "$BUILD/docs" $md); do
        b=doc_$(basename "$c" .c)
        case $c in
        *_run.c)
            # shellcheck disable=SC2086
            compile "$b" $CFLAGS -std=c99 -Wall -Wextra -Werror -I. "$c" -o "${c%.c}" && run "$b" "${c%.c}"
            ;;
        *)
            # shellcheck disable=SC2086
            if compile "$b" $CFLAGS -std=c99 -Wall -Wextra -Werror -I. -c "$c" -o "${c%.c}.o"; then
                passed=$((passed + 1))
                printf 'ok   %-24s compiled\n' "$b"
            fi
            ;;
        esac
    done
fi

if wants fuzz; then # the committed corpora, once through each entry
    for c in tests/fuzz/fuzz_*.c; do
        [ -e "$c" ] || continue
        b=$(basename "$c" .c)
        corpus=tests/fuzz/corpus/${b#fuzz_}
        if [ -d "$corpus" ]; then
            run "$b" "$BUILD/$b" "$corpus"
        else
            run "$b" "$BUILD/$b"
        fi
    done
fi

if wants chat && [ -e tests/chat/run.sh ]; then
    closing=1
    run chat sh tests/chat/run.sh "$BUILD/chat"
    closing=0
fi

if wants wire && [ -e tests/wire/run.sh ]; then
    if command -v python3 >/dev/null 2>&1; then
        closing=1
        run wire sh tests/wire/run.sh "$BUILD"
        closing=0
    else
        skip wire "python3 is missing (apt-get install python3): the decoder written from docs/wire-*.md did not run"
    fi
fi

if [ $((passed + failed)) = 0 ]; then
    failed=1
    echo "FAIL nothing was run"
fi
if [ "$skipped" != 0 ]; then
    printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
else
    printf '%d passed, %d failed\n' "$passed" "$failed"
fi
[ "$failed" = 0 ]
