#!/bin/sh
# matrix.sh: every header in every mode under every compiler and standard, warnings as errors; then all headers in one
# file in two orders, and two files linked. Prints the failures; the last line is `N passed, M failed`.
# The languages' standards are checked without code generation; some of them again at -O2, where gcc knows more.
set -u
tools=$(dirname "$0")
# shellcheck source=tests/tools/lib.sh
. "$tools/lib.sh"
headers=$(echo cb_*.h)
[ "$headers" != 'cb_*.h' ] || { echo "matrix: no header here"; exit 1; }
mkdir -p build
t=build/matrix.$$
mkdir "$t"
trap 'rm -rf "$t"' EXIT
jobs=${MATRIX_JOBS:-2}
skipped=0
: >"$t/list"

# Sources: of each header implementation, declarations twice, static use and glue; of all together two unities.
units=
for h in $headers; do
    n=$(name_of "$h")
    N=$(upper "$n")
    printf '#define CB_%s_IMPLEMENTATION\n#include "%s"\n#include "%s"\n' "$N" "$h" "$h" >"$t/i_$n.c"
    printf '#include "%s"\n#include "%s"\n#define CB_%s_IMPLEMENTATION\n#include "%s"\n' "$h" "$h" "$N" "$h" >"$t/d_$n.c"
    units="$units i_$n d_$n"
    for w in $(withs "$h"); do
        peer=$(peer_of "$w")
        P=$(upper "$peer")
        printf '#define %s\n#define CB_%s_IMPLEMENTATION\n#define CB_%s_IMPLEMENTATION\n#include "%s"\n#include "cb_%s.h"\n#include "%s"\n#include "cb_%s.h"\n' \
            "$w" "$N" "$P" "$h" "$peer" "$h" "$peer" >"$t/g1_${n}_$peer.c"
        printf '#define CB_%s_IMPLEMENTATION\n#define CB_%s_IMPLEMENTATION\n#include "cb_%s.h"\n#define %s\n#include "%s"\n' \
            "$P" "$N" "$peer" "$w" "$h" >"$t/g2_${n}_$peer.c"
        printf '#define %s\n#include "%s"\n' "$w" "$h" >"$t/g3_${n}_$peer.c" # what a second file of the user includes
        units="$units g1_${n}_$peer g2_${n}_$peer g3_${n}_$peer"
    done
done
all() { # FILE HEADER...
    out=$1
    shift
    : >"$out"
    for h in $headers; do
        printf '#define CB_%s_IMPLEMENTATION\n' "$(upper "$(name_of "$h")")" >>"$out"
        for w in $(withs "$h"); do printf '#define %s\n' "$w" >>"$out"; done
    done
    for h in "$@"; do printf '#include "%s"\n' "$h" >>"$out"; done
}
reversed=$(printf '%s\n' "$headers" | sort -r)
# shellcheck disable=SC2086 # lists of words
{
    all "$t/u1.c" $headers $headers
    all "$t/u2.c" $reversed $headers
}
units="$units u1 u2"

job() { # NAME COMMAND...: one line of the list
    printf '%s\t' "$1" >>"$t/list"
    shift
    printf '%s\n' "$*" >>"$t/list"
}

# What can be said of a unit: its modes are the CONFIG macros of its header.
modes() { # UNIT: one mode a line
    case $1 in
    i_*)
        X=$(upper "${1#i_}")
        printf '%s\n' "-DPLAIN" "-DCB_${X}_STATIC" "-DCB_${X}_NO_STRINGS -DNDEBUG" "-DCB_${X}_NO_STDLIB" "-DCB_${X}_POISON" "-DCBDEF=static"
        [ "$X" != LOOP ] || grep -oE 'CB_LOOP_(USE|FORCE|WITH|NO)_(POLL|EPOLL)' cb_loop.h | sort -u | sed 's/^/-D/'
        ;;
    u*)
        printf '%s\n' "-DPLAIN" "$(for h in $headers; do printf ' -DCB_%s_STATIC' "$(upper "$(name_of "$h")")"; done)" \
            "-DNDEBUG$(for h in $headers; do printf ' -DCB_%s_NO_STRINGS' "$(upper "$(name_of "$h")")"; done)"
        ;;
    *) echo "-DPLAIN" ;;
    esac
}

add() { # COMPILER SUFFIX STANDARD...
    c=$1 suffix=$2
    shift 2
    if ! command -v "$c" >/dev/null 2>&1; then
        skipped=$((skipped + 1))
        echo "skip matrix: $c is missing (apt-get install ${c%++*}$(case $c in g++) echo '++' ;; esac))"
        return
    fi
    flags=$(sh "$tools/flags.sh" "$c")
    first=1
    for s in "$@"; do
        if ! echo 'int x;' | $c "-std=$s" -x "$([ "$suffix" = c ] && echo c || echo c++)" -fsyntax-only - >/dev/null 2>&1; then
            skipped=$((skipped + 1))
            echo "skip matrix: $c does not know $s"
            continue
        fi
        for u in $units; do
            modes "$u" >"$t/modes"
            # the standards in between add no rule of their own to a mode
            case $s in c11 | c17 | c++14 | c++17) echo "-DPLAIN" >"$t/modes" ;; esac
            while IFS= read -r m; do
                # a static function that nobody calls warns where the user's own word has no attribute
                extra=
                case $m in *CBDEF=static*) extra="-Wno-unused-function" ;; esac
                # implemented behind a first include, cb_loop wants the feature macro from the user
                [ "$u.$suffix" != d_loop.c ] || extra="$extra -D_GNU_SOURCE"
                # in the shortest and the longest standard gcc also generates code: some warnings need the optimiser
                if [ "${c#clang}" = "$c" ] && { [ "$first" = 1 ] || [ "$s" = c2x ] || [ "$s" = c++20 ]; } && case $m in -DPLAIN | *STATIC) true ;; *) false ;; esac; then
                    job "$c $s $u $m" "$c -std=$s $flags $extra -Wframe-larger-than=1024 $m -I. -O2 -c $t/$u.$suffix -o $t/@.o"
                else
                    job "$c $s $u $m" "$c -std=$s $flags $extra $m -I. -fsyntax-only $t/$u.$suffix"
                fi
            done <"$t/modes"
        done
        first=0
    done
}
for u in $units; do cp "$t/$u.c" "$t/$u.cpp"; done
add gcc c c99 c11 c17 c2x
add clang c c99 c11 c17 c2x
add g++ cpp c++11 c++14 c++17 c++20
add clang++ cpp c++11 c++14 c++17 c++20

# The examples of the top pages under the strict flags, as C and C++: what the headers' macros leave in a user's file.
for h in $headers; do
    n=$(name_of "$h")
    sh "$tools/example.sh" "$h" >"$t/e_$n.c" 2>/dev/null || continue
    cp "$t/e_$n.c" "$t/e_$n.cpp"
    for c in "gcc c99 c" "gcc c2x c" "clang c99 c" "g++ c++11 cpp" "g++ c++20 cpp" "clang++ c++11 cpp"; do
        # shellcheck disable=SC2086
        set -- $c
        command -v "$1" >/dev/null 2>&1 && job "$1 $2 example of $h" "$1 -std=$2 $(sh "$tools/flags.sh" "$1") -I. -fsyntax-only $t/e_$n.$3"
    done
done

# Plain char without a sign, short enums: layouts and comparisons that nobody should depend on.
for u in $units; do
    job "gcc -funsigned-char -fshort-enums $u" "gcc -std=c99 $(sh "$tools/flags.sh" gcc) -funsigned-char -fshort-enums -D_GNU_SOURCE -I. -fsyntax-only $t/$u.c"
done

# Runs one job: its output is kept only where it failed.
cat >"$t/one.sh" <<'END'
t=$1 line=$2
name=${line%%	*}
id=$(printf %s "$line" | cksum | tr -d ' ')
command=$(printf %s "${line#*	}" | sed "s|/@\.o|/$id.o|")
if sh -c "$command" >"$t/$id.out" 2>&1; then
    echo ok >>"$t/ok"
else
    { echo "FAIL $name"; head -n 6 "$t/$id.out" | sed 's/^/     | /'; } >"$t/$id.fail"
fi
rm -f "$t/$id.out" "$t/$id.o"
END
: >"$t/ok"
tr '\n' '\0' <"$t/list" | xargs -0 -n 1 -P "$jobs" sh "$t/one.sh" "$t"
cat "$t"/*.fail 2>/dev/null | head -n "${MATRIX_LINES:-80}"
if [ -n "$(find "$t" -name '*.fail')" ]; then
    echo "the messages, how often each came:"
    cat "$t"/*.fail | grep -oE '[a-z_0-9.]+:[0-9]+(:[0-9]+)?: (fatal )?error: .*' | sort | uniq -c | sort -rn | head -n 30
fi
passed=$(wc -l <"$t/ok")
failed=$(find "$t" -name '*.fail' | wc -l)

link() { # NAME COMMAND...
    name=$1
    shift
    if "$@" >"$t/out" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $name"
        head -n 6 "$t/out" | sed 's/^/     | /'
    fi
}
# Two files of one program: one implements all, the other only declares; plain, mixed C and C++, and with link-time
# optimisation, which compares the types of both (-Wodr).
printf 'int main(void) { return 0; }\n' >"$t/main.c"
{
    for h in $headers; do printf '#include "%s"\n' "$h"; done
    printf 'int main(void) { return 0; }\n'
} >"$t/second.c"
cp "$t/second.c" "$t/second.cpp"
link "unity and a second file, C" cc -I. "$t/u1.c" "$t/second.c" -o "$t/a"
link "unity and a second file, C++" c++ -I. "$t/u2.cpp" "$t/second.cpp" -o "$t/a"
link "unity as C" cc -I. -c "$t/u1.c" -o "$t/u1.o"
link "unity as C, second file as C++" c++ -I. "$t/u1.o" "$t/second.cpp" -o "$t/a"
if command -v g++ >/dev/null 2>&1; then
    link "g++ -flto -Wodr" g++ -flto -Wodr -Wlto-type-mismatch -Werror -O1 -I. -DNDEBUG "$t/u1.cpp" "$t/second.cpp" -o "$t/a"
fi
if [ "$skipped" != 0 ] && [ "${CB_REQUIRE_ALL:-0}" != 0 ]; then
    failed=$((failed + skipped))
    skipped=0
fi
printf '%d passed, %d failed' "$passed" "$failed"
[ "$skipped" = 0 ] || printf ', %d skipped' "$skipped"
echo
[ "$failed" = 0 ]
