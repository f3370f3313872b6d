#!/bin/sh
# size.sh HEADER...: bytes of machine code and constants of each header, whole, by optimisation level.
set -eu
CC=${CC:-cc}
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
command -v size >/dev/null 2>&1 || { echo "skip size: binutils are missing (apt-get install binutils)"; exit 0; }
printf '%-14s %8s %8s %8s %14s %8s\n' header lines -Os -O2 "-Os NO_STRINGS" data
for h in "$@"; do
    n=$(basename "$h" .h)
    N=$(printf %s "${n#cb_}" | tr '[:lower:]' '[:upper:]')
    printf '#define CB_%s_IMPLEMENTATION\n#include "%s"\n' "$N" "$h" >"$t/i.c"
    for o in "-Os" "-O2" "-Os -DCB_${N}_NO_STRINGS"; do
        # shellcheck disable=SC2086
        $CC -DNDEBUG $o -I. -c "$t/i.c" -o "$t/i.o"
        size "$t/i.o" | awk 'NR == 2 { print $1, $2 + $3 }' >>"$t/$n"
    done
    awk -v h="$h" -v lines="$(wc -l <"$h")" '{ text[NR] = $1; data = $2 } END { printf "%-14s %8d %8d %8d %14d %8d\n", h, lines, text[1], text[2], text[3], data }' "$t/$n"
done
