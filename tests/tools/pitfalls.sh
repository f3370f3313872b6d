#!/bin/sh
# pitfalls.sh: every test that tests/PITFALLS.md names exists as a case. The last line counts.
set -u
passed=0 failed=0
# shellcheck disable=SC2016 # the quotes are those of the page
for name in $(grep -oE '`(loop|codec|rpc)_[a-z0-9_]+`' tests/PITFALLS.md | tr -d '`' | sort -u); do
    if grep -q "CBT_CASE($name)" tests/test_*.c; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL tests/PITFALLS.md names $name, which is no test"
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
