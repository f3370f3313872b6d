#!/bin/sh
# coverage.sh [--update]: lines of each header that all test programs together reach, and lines of each parser that its
# fuzz corpus alone reaches. Needs gcc, gcov and python3. Compared with tests/tools/ratchet.tsv.
# A fuzz entry names its parser in one line: `parser: REGEX` of the function names.
set -u
tools=$(dirname "$0")
build=${BUILD:-build}/cov
update=${1:-}
for need in gcc gcov python3; do
    if ! command -v $need >/dev/null 2>&1; then
        sh "$tools/ratchet.sh" skip "coverage needs $need (apt-get install gcc python3)"
        exit $?
    fi
done
rm -rf "$build"
mkdir -p "$build/fuzz"
for c in tests/test_*.c; do
    [ -e "$c" ] || continue
    n=$(basename "$c" .c)
    gcc --coverage -O0 -DNDEBUG -I. "$c" -o "$build/$n" || exit 1
    if ! timeout 300 "$build/$n" >"$build/$n.log" 2>&1 </dev/null; then
        echo "coverage: $n failed, its lines count all the same: $(tail -n 1 "$build/$n.log")"
    fi
done
for c in tests/fuzz/fuzz_*.c; do
    [ -e "$c" ] || continue
    n=$(basename "$c" .c)
    [ -d "tests/fuzz/corpus/${n#fuzz_}" ] || continue
    gcc --coverage -O0 -DNDEBUG -I. "$c" tests/support/fuzz_main.c -o "$build/fuzz/$n" || exit 1
    timeout 300 "$build/fuzz/$n" "tests/fuzz/corpus/${n#fuzz_}" >"$build/fuzz/$n.log" 2>&1 </dev/null
done
python3 "$tools/coverage.py" "$build" >"$build/counts" || exit 1
sh "$tools/ratchet.sh" coverage "$build/counts" "$update"
