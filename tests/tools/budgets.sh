#!/bin/sh
# budgets.sh [--update] NAME...: instructions and system calls of each hot operation against bench/budgets.tsv.
#
# build/budget_NAME without arguments prints its operations, one a line; `budget_NAME OPERATION N` prepares and then
# does the operation N times. What one costs is the difference between two runs of N and 2N, so what is spent before
# and after falls away. Instructions come from callgrind under an empty environment and a fixed path, and may differ
# by 2%; system calls come from strace, a thousand operations, and may not differ at all.
# A line of the table: operation<TAB>instructions an operation<TAB>system calls a thousand operations.
set -u
build=${BUILD:-build}
table=bench/budgets.tsv
update=0
[ "${1:-}" != --update ] || { update=1; shift; }
n=${BUDGET_OPS:-1000}
passed=0 failed=0 skipped=0
fixed=/tmp/cb_budget.$$ # callgrind counts also what depends on the length of the program's path
mkdir -p "$fixed"
trap 'rm -rf "$fixed"' EXIT
missing=
for tool in valgrind strace; do
    command -v $tool >/dev/null 2>&1 || missing="$missing $tool"
done
if [ -n "$missing" ]; then
    if [ "${CB_REQUIRE_ALL:-0}" != 0 ]; then
        echo "FAIL budgets need$missing"
        echo "0 passed, 1 failed"
        exit 1
    fi
    echo "skip budgets: missing$missing (apt-get install$missing)"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi

# memcpy and its kin have a version for each kind of processor; without the wide ones every machine counts the same
plain=GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-AVX,-AVX512F,-AVX512VL,-ERMS,-FSRM

instructions() { # PROGRAM OPERATION N
    (cd "$fixed" && env -i LC_ALL=C PATH=/usr/bin:/bin "$plain" valgrind --tool=callgrind --callgrind-out-file=/dev/null "$1" "$2" "$3" 2>&1 >/dev/null </dev/null |
        awk '/Collected/ { print $NF; ok = 1 } END { exit !ok }')
}

syscalls() { # PROGRAM OPERATION N
    (cd "$fixed" && env -i LC_ALL=C PATH=/usr/bin:/bin strace -f -c -o counts "$1" "$2" "$3" >/dev/null 2>&1 </dev/null &&
        awk '$NF == "total" { print $4; ok = 1 } END { exit !ok }' counts)
}

verdict() { # OPERATION INSTRUCTIONS SYSCALLS
    want=$(awk -F '\t' -v o="$1" '$1 == o { print $2, $3 }' "$table" 2>/dev/null)
    if [ -z "$want" ]; then
        failed=$((failed + 1))
        echo "FAIL $1: $2 instructions, $3 system calls a thousand; not in $table (make budgets-update)"
        return
    fi
    text=$(awk -v i="$2" -v s="$3" -v w="$want" 'BEGIN { split(w, a, " "); d = a[1] > 0 ? 100 * (i - a[1]) / a[1] : 0
        bad = (d > 2 || d < -2) && (i - a[1] > 2 || a[1] - i > 2) ? "instructions" : s != a[2] ? "system calls" : ""
        printf "%s %.1f instructions (%s, %+.1f%%), %s system calls a thousand (%s)%s", bad != "" ? "FAIL" : "ok  ", i, a[1], d, s, a[2], bad != "" ? ": " bad " changed" : "" }')
    printf '%s %s\n' "$text" "$1" | sed 's/^\(....\) \(.*\) \([^ ]*\)$/\1 \3: \2/'
    case $text in FAIL*) failed=$((failed + 1)) ;; *) passed=$((passed + 1)) ;; esac
}

: >"$fixed/new"
for name in "$@"; do
    cp "$build/budget_$name" "$fixed/budget" || { failed=$((failed + 1)); continue; }
    for op in $("$fixed/budget" </dev/null | awk '{ print $1 }'); do
        a=$(instructions ./budget "$op" "$n")
        b=$(instructions ./budget "$op" $((2 * n)))
        c=$(syscalls ./budget "$op" 1000)
        d=$(syscalls ./budget "$op" 2000)
        if [ -z "$a" ] || [ -z "$b" ] || [ -z "$c" ] || [ -z "$d" ]; then
            failed=$((failed + 1))
            echo "FAIL $op: the program did not run"
            continue
        fi
        i=$(awk -v a="$a" -v b="$b" -v n="$n" 'BEGIN { printf "%.1f", (b - a) / n }')
        if [ $update = 1 ]; then
            printf '%s\t%s\t%s\n' "$op" "$i" $((d - c)) | tee -a "$fixed/new"
        else
            verdict "$op" "$i" $((d - c))
        fi
    done
done
if [ $update = 1 ]; then
    [ ! -s "$fixed/new" ] || sort "$fixed/new" >"$table"
    exit $((failed != 0))
fi
if [ $((passed + failed)) = 0 ]; then
    echo "skip budgets: there is no bench/budget_*.c"
    skipped=1
fi
printf '%d passed, %d failed' "$passed" "$failed"
[ "$skipped" = 0 ] || printf ', %d skipped' "$skipped"
echo
[ "$failed" = 0 ]
