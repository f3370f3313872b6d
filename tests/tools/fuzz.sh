#!/bin/sh
# fuzz.sh NAME: fuzzes tests/fuzz/fuzz_NAME.c for FUZZ_SECONDS under ASan and UBSan; libFuzzer where clang has it,
# else the plain driver of tests/support/fuzz_main.c. The committed corpus is read; new inputs go to build/fuzz/NAME.new.
# The last line is `N passed, M failed`; a finding is kept in build/fuzz.
set -u
name=$1
seconds=${FUZZ_SECONDS:-60}
build=${BUILD:-build}/fuzz
source=tests/fuzz/fuzz_$name.c
corpus=tests/fuzz/corpus/$name
[ -e "$source" ] || { echo "fuzz: there is no $source"; exit 1; }
mkdir -p "$build/$name.new"
[ -d "$corpus" ] || corpus=
flags="-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -I."
engine=clang
for c in ${FUZZ_CC:-clang clang-19 clang-16 clang-14}; do
    # shellcheck disable=SC2086
    if command -v "$c" >/dev/null 2>&1 && $c $flags -fsanitize=fuzzer "$source" -o "$build/fuzz_$name" 2>"$build/$name.err"; then
        engine=$c
        break
    fi
    engine=
done
if [ -n "$engine" ]; then
    # shellcheck disable=SC2086
    ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1} "$build/fuzz_$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 \
        -print_final_stats=1 -verbosity=0 ${FUZZ_ARGS:-} -artifact_prefix="$build/$name-" "$build/$name.new" $corpus >"$build/$name.log" 2>&1
    rc=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$name.log")
else
    [ ! -s "$build/$name.err" ] || ! grep -q 'error:' "$build/$name.err" || { grep -m 5 'error:' "$build/$name.err"; }
    if [ "${CB_REQUIRE_ALL:-0}" != 0 ]; then
        echo "FAIL fuzz $name: no libFuzzer (apt-get install clang libclang-rt-14-dev)"
        echo "0 passed, 1 failed"
        exit 1
    fi
    echo "fuzz $name: libFuzzer is missing (apt-get install clang libclang-rt-14-dev); plain random changes instead"
    # shellcheck disable=SC2086
    ${CC:-cc} $flags "$source" tests/support/fuzz_main.c -o "$build/plain_$name" || exit 1
    # shellcheck disable=SC2086
    "$build/plain_$name" -seconds="$seconds" $corpus >"$build/$name.log" 2>&1
    rc=$?
    runs=$(sed -n 's/ executions$//p' "$build/$name.log")
fi
printf 'fuzz %s: %s executions in %s s, %d new inputs\n' "$name" "${runs:-?}" "$seconds" "$(find "$build/$name.new" -type f | wc -l)"
if [ "$rc" != 0 ]; then
    grep -aE 'ERROR|runtime error|SUMMARY|Test unit written|Assertion|FAIL' "$build/$name.log" | head -n 12
    echo "0 passed, 1 failed"
    exit 1
fi
echo "1 passed, 0 failed"
