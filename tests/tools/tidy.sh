#!/bin/sh
# tidy.sh [--update]: clang-tidy over each header's implementation with its glue; prints the findings and their number,
# which may not be above that of tests/tools/ratchet.tsv. The last line is `N passed, M failed`.
set -u
# shellcheck source=tests/tools/lib.sh
. "$(dirname "$0")/lib.sh"
ratchet=$(dirname "$0")/ratchet.sh
build=${BUILD:-build}/tidy
update=${1:-}
if ! command -v clang-tidy >/dev/null 2>&1; then
    sh "$ratchet" skip "clang-tidy is missing (apt-get install clang-tidy)"
    exit $?
fi
checks='-*,bugprone-*,clang-analyzer-*,-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling'
checks="$checks,-bugprone-easily-swappable-parameters"
mkdir -p "$build"
: >"$build/counts"
for h in cb_*.h; do
    [ -e "$h" ] || continue
    n=$(name_of "$h")
    {
        printf '#define CB_%s_IMPLEMENTATION\n' "$(upper "$n")"
        for w in $(withs "$h"); do printf '#define %s\n' "$w"; done
        printf '#include "%s"\n' "$h"
    } >"$build/$n.c"
    clang-tidy --quiet --header-filter="$h" -checks="$checks" "$build/$n.c" -- -std=c99 -I. >"$build/$n.log" 2>/dev/null
    grep -E "$h:[0-9]+:[0-9]+: (warning|error):" "$build/$n.log" | sort -u >"$build/$n.found"
    sed 's|^.*/\(cb_[a-z]*\.h:\)|tidy \1|' "$build/$n.found" | head -n 40
    printf 'tidy\t%s\t%d\n' "$h" "$(wc -l <"$build/$n.found")" >>"$build/counts"
done
sh "$ratchet" tidy "$build/counts" "$update"
