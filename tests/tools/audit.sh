#!/bin/sh
# audit.sh HEADER...: what a header gives away and needs. Prints findings; the last line is `N passed, M failed`.
# Of cb_x.h: exports begin with cb_x_, static functions with cbi_x_, macros left with CB_X_; nothing writable is
# global; under CB_X_NO_STDLIB only mem* and strlen are needed (cb_loop also needs the system: its needs are printed);
# CB_X_STATIC exports nothing; it links without -l; the declarations include three standard headers only; the two
# common blocks are the same bytes in all headers; the layout of the top page.
set -u
# shellcheck source=tests/tools/lib.sh
. "$(dirname "$0")/lib.sh"
CC=${CC:-cc}
CXX=${CXX:-c++}
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
passed=0 failed=0
flat="-O2 -DNDEBUG -fno-pic -fno-stack-protector -U_FORTIFY_SOURCE" # constant tables then are .rodata, and no helper is called

verdict() { # NAME TEXT: a check failed when there is a text
    if [ -n "$2" ]; then
        failed=$((failed + 1))
        printf 'audit %s: %s\n' "$1" "$2"
    else
        passed=$((passed + 1))
    fi
}

# The block of a header between its first and last line, with line numbers taken off.
block() { sed -n "/^\/\* ---- $2/,/^\/\* ---- $3/p" "$1"; }

# Macros that the header itself defines and leaves defined; -dD keeps which file each came from.
macros_left() { # FILE HEADER
    # shellcheck disable=SC2086
    $CC -std=c11 $3 -I. -E -dD "$1" 2>/dev/null | awk -v h="$2" '
        /^# [0-9]+ "/ { f = $3; gsub(/"/, "", f); sub(/^.*\//, "", f); ours = (f == h); next }
        !ours { next }
        /^#define / { sub(/\(.*/, "", $2); m[$2] = 1 }
        /^#undef / { delete m[$2] }
        END { for (k in m) print k }' | sort
}

words() { tr '\n' ' ' <"$1"; }

audit() {
    h=$1
    n=$(name_of "$h")
    N=$(upper "$n")
    printf '#define CB_%s_IMPLEMENTATION\n#include "%s"\n' "$N" "$h" >"$t/i.c"
    cp "$t/i.c" "$t/i.cpp"
    printf '#include "%s"\n' "$h" >"$t/d.c"
    printf '#include "%s"\nint main(void) { return 0; }\n' "$h" >"$t/m.c"
    # shellcheck disable=SC2086
    {
        $CC -std=c11 $flat -I. -c "$t/i.c" -o "$t/i.o" 2>"$t/err" || { verdict "$h" "does not compile: $(head -n 3 "$t/err")"; return; }
        $CC -std=c11 $flat -I. -DCB_"$N"_NO_STDLIB -c "$t/i.c" -o "$t/f.o" 2>"$t/err" || { verdict "$h" "NO_STDLIB does not compile: $(head -n 3 "$t/err")"; return; }
        $CC -std=c11 $flat -I. -DCB_"$N"_STATIC -c "$t/i.c" -o "$t/s.o" 2>"$t/err" || { verdict "$h" "STATIC does not compile: $(head -n 3 "$t/err")"; return; }
        $CXX -std=c++11 $flat -I. -c "$t/i.cpp" -o "$t/ixx.o" 2>"$t/err" || { verdict "$h" "does not compile as C++: $(head -n 3 "$t/err")"; return; }
    }
    objects="i.o ixx.o"
    for w in $(withs "$h"); do
        # shellcheck disable=SC2086
        $CC -std=c11 -D_GNU_SOURCE $flat -I. -D"$w" -c "$t/i.c" -o "$t/$w.o" 2>"$t/err" ||
            { verdict "$h" "$w does not compile: $(head -n 3 "$t/err")"; continue; }
        objects="$objects $w.o"
    done
    for o in $objects; do
        nm -g --defined-only "$t/$o" | awk '{ print $3 }' | grep -v "^cb_${n}_" >"$t/x"
        verdict "$h" "$([ ! -s "$t/x" ] || echo "exports without cb_${n}_ ($o): $(words "$t/x")")"
        nm --defined-only "$t/$o" | awk '$2 ~ /^[bBdDCsSgG]$/ { print $3 }' >"$t/x"
        verdict "$h" "$([ ! -s "$t/x" ] || echo "writable globals ($o): $(words "$t/x")")"
    done
    nm --defined-only "$t/i.o" | awk '$2 == "t" || $2 == "r" { print $3 }' |
        grep -vE "^(cbi_${n}_|cb_${n}_.*\.(part|isra|constprop|cold)|CSWTCH\.|[a-z_0-9]+\.[0-9]+$|\.LC|__PRETTY|__func__)" >"$t/x" # the rest are the compiler's own
    verdict "$h" "$([ ! -s "$t/x" ] || echo "statics without cbi_${n}_: $(words "$t/x")")"
    nm -g --defined-only "$t/s.o" | awk '{ print $3 }' >"$t/x"
    verdict "$h" "$([ ! -s "$t/x" ] || echo "STATIC mode exports: $(words "$t/x")")"
    nm -u "$t/f.o" | awk '{ print $2 }' | grep -vxE 'mem(cpy|move|set|cmp|chr)|strlen|_GLOBAL_OFFSET_TABLE_' >"$t/x"
    if [ "$n" = loop ]; then # the layer that talks to the system: only libc's heap is forbidden
        printf 'audit %s: NO_STDLIB needs %s\n' "$h" "$(words "$t/x")"
        grep -xE 'malloc|calloc|realloc|free|abort|exit|f?printf|puts' "$t/x" >"$t/y"
        verdict "$h" "$([ ! -s "$t/y" ] || echo "NO_STDLIB still needs $(words "$t/y")")"
    else
        verdict "$h" "$([ ! -s "$t/x" ] || echo "NO_STDLIB still needs $(words "$t/x")")"
    fi
    nm -u "$t/i.o" | awk '{ print $2 }' | grep -xE 'abort|exit|_exit|(f|s|sn|v)?printf|puts|perror|rand|srand|time|signal' >"$t/x"
    verdict "$h" "$([ ! -s "$t/x" ] || echo "calls what no header may call: $(words "$t/x")")"
    macros_left "$t/i.c" "$h" "" | grep -vE "^(CB_${N}_.*|CBDEF|CB_SHARED_ABI$([ "$n" != loop ] || echo '|_GNU_SOURCE'))$" >"$t/x"
    verdict "$h" "$([ ! -s "$t/x" ] || echo "macros left behind: $(words "$t/x")")"
    macros_left "$t/d.c" "$h" "" | grep -vE "^(CB_${N}_.*|CBDEF|CB_SHARED_ABI)$" >"$t/x"
    verdict "$h" "$([ ! -s "$t/x" ] || echo "macros left by the declarations: $(words "$t/x")")"
    extra='none'
    [ "$n" != codec ] || extra='string\.h' # a schema expands to code in the user's file, and that copies
    $CC -std=c11 -I. -H -E "$t/d.c" 2>&1 >/dev/null | sed -n 's/^\.\. .*\///p' | grep -vxE "std(bool|def|int)\.h|$extra" | sort -u >"$t/x"
    verdict "$h" "$([ ! -s "$t/x" ] || echo "the declarations include $(words "$t/x")")"
    # every function is kept at -O0, so this shows what a linker is asked for
    if ! $CC -O0 -I. "$t/i.c" "$t/m.c" -o "$t/linked" 2>"$t/err"; then
        verdict "$h" "does not link without a -l: $(grep -m 3 undefined "$t/err" | tr '\n' ' ')"
    else
        verdict "$h" ""
    fi
    page "$h" "$N"
}

page() { # HEADER NAME: the top page and the order of the first lines
    head -n 1 "$1" | grep -qE "^/\* $(basename "$1") - v[0-9.]+ - .*SPDX: " || verdict "$1" "line 1 is no title line with version and SPDX"
    head -n 12 "$1" | grep -q 'BUILD' || verdict "$1" "BUILD is not within the first 12 lines"
    for w in NEEDS 'DOES NOT' EXAMPLE API CONFIG MEMORY ERRORS THREADS LIMITS SECURITY; do
        awk '/^ \*\// { exit } { print }' "$1" | grep -q "^ \* $w" || verdict "$1" "the top page has no $w"
    done
    last=$(awk '/^ \*\// { print NR; exit }' "$1")
    [ "${last:=0}" -le 120 ] || verdict "$1" "the top page has $last lines, at most 120"
    # the shared block has its own width: it is the same bytes everywhere
    awk '/^\/\* ---- shared by all/ { off = 1 } /^\/\* ---- end shared/ { off = 0 } !off && length($0) > 110 { printf "%d ", NR }' "$1" >"$t/x"
    verdict "$1" "$([ ! -s "$t/x" ] || echo "$(wc -w <"$t/x") lines over 110 columns: $(cut -c 1-70 "$t/x")")"
    grep -nE "$(printf '\t')|[ ]+$" "$1" | cut -d: -f1 >"$t/x"
    verdict "$1" "$([ ! -s "$t/x" ] || echo "tabs or blanks at the end of lines: $(words "$t/x")")"
    grep -qE "^#define CB_$2_VERSION 0x[0-9a-f]{6}" "$1" || verdict "$1" "no CB_$2_VERSION 0xMMmmpp"
    grep -q "^#error \"$(basename "$1"): a cb header of another release was included before\"" "$1" ||
        verdict "$1" "no #error of its own behind the shared block"
    feature=$(awk '/^\/\* ---- feature macros/ { print NR; exit }' "$1")
    guard=$(awk "/^#ifndef CB_$2_H/ { print NR; exit }" "$1")
    [ "${feature:-0}" -gt "$last" ] && [ "${feature:-0}" -lt "${guard:-0}" ] && return
    verdict "$1" "the feature block does not stand between the top page and the guard"
}

for h in "$@"; do
    [ -e "$h" ] || continue
    audit "$h"
    for b in 'feature macros|end feature' 'shared by all|end shared'; do
        block "$h" "${b%|*}" "${b#*|}" >"$t/block"
        [ -s "$t/block" ] || verdict "$h" "has no block \"${b%|*}\""
        sum=$(cksum <"$t/block")
        key=$(printf %s "${b%|*}" | tr ' ' _)
        [ -e "$t/sum.$key" ] || { printf %s "$sum" >"$t/sum.$key"; printf %s "$h" >"$t/of.$key"; }
        verdict "$h" "$([ "$sum" = "$(cat "$t/sum.$key")" ] || echo "block \"${b%|*}\" differs from that of $(cat "$t/of.$key")")"
    done
done
[ $((passed + failed)) != 0 ] || { echo "audit: no header given"; failed=1; }
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
