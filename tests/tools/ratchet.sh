#!/bin/sh
# ratchet.sh KIND COUNTS [--update]: compares lines `kind<TAB>header<TAB>value` with those of ratchet.tsv.
# Coverage may not fall by more than 0.5 points (a timing-dependent line more or less), the number of clang-tidy
# findings may not rise. A header that has no line there yet passes. `skip REASON` says that nothing could be counted.
set -u
table=$(dirname "$0")/ratchet.tsv
kind=$1
if [ "$kind" = skip ]; then
    if [ "${CB_REQUIRE_ALL:-0}" != 0 ]; then
        echo "FAIL may not be skipped here: $2"
        echo "0 passed, 1 failed"
        exit 1
    fi
    echo "skip $2"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
if [ "${3:-}" = --update ]; then
    { [ ! -e "$table" ] || grep -v "^$kind$(printf '\t')" "$table"; cat "$2"; } | grep . | sort >"$table.new"
    mv "$table.new" "$table"
    echo "ratchet: $kind written to $table"
    exit 0
fi
touch_table=$table
[ -e "$table" ] || touch_table=/dev/null
awk -F '\t' -v kind="$kind" '
    FNR == NR && FILENAME != counts { if ($1 == kind) { was[$2] = $3; known[$2] = 1 } next }
    {
        worse = known[$2] && (kind == "coverage" ? $3 < was[$2] - 0.5 : $3 > was[$2])
        printf "%s %-10s %-14s %s", worse ? "FAIL" : "ok  ", kind, $2, $3
        printf known[$2] ? " (was " was[$2] ")\n" : " (new)\n"
        if (worse) { failed++ } else { passed++ }
    }
    END { printf "%d passed, %d failed\n", passed, failed; exit failed != 0 || passed == 0 }' counts="$2" "$touch_table" "$2"
