#!/bin/sh
# run.sh [BUILD]: the wire of cb_rpc.h and cb_codec.h held against a second reader that was written from docs/wire-rpc.md and
# docs/wire-codec.md alone (decode.py). A session of 1,000 calls over a stream and one over messages are read back and
# compared with what the application says; then 30 captures with one changed byte each must be refused by the reader, for
# the rule that was broken, and by the C side, which gets the same byte. The last line is `N passed, M failed`.
set -u
here=$(dirname "$0")
work=${1:-${BUILD:-build}}/wire
passed=0 failed=0
if ! command -v python3 >/dev/null 2>&1; then
    echo "skipped: python3 is missing (apt-get install python3): the decoder written from docs/wire-*.md did not run"
    exit 0
fi
mkdir -p "$work/stream" "$work/messages" "$work/changed" "$work/c" || exit 1
# shellcheck disable=SC2086
${CC:-cc} ${CFLAGS:--O1} -I"$here/../.." "$here/capture.c" -o "$work/capture" || exit 1

ok() { passed=$((passed + 1)); printf 'ok   %s\n' "$*"; }
fail() { failed=$((failed + 1)); printf 'FAIL %s\n' "$*"; }

for kind in stream messages; do
    words=$kind
    [ $kind = messages ] || words=
    # shellcheck disable=SC2086
    if ! said=$("$work/capture" "$work/$kind" $words 2>&1); then
        fail "$kind: $said"
    elif said=$(python3 "$here/decode.py" compare "$work/$kind/capture" "$work/$kind/log.jsonl" 2>&1); then
        ok "$kind: $said"
    else
        fail "$kind: $said"
    fi
done

# The comparison is not blind: a log with one other number is noticed.
sed '0,/"did":"told","call":5,/s/"call":5,/"call":6,/' "$work/stream/log.jsonl" >"$work/other.jsonl"
if said=$(python3 "$here/decode.py" compare "$work/stream/capture" "$work/other.jsonl" 2>&1); then
    fail "a changed log is the same: $said"
else
    ok "a changed log: $said"
fi

if ! python3 "$here/decode.py" changes "$work/stream/capture" "$work/changed"; then
    fail "no changed captures were made"
    : >"$work/changed/list"
fi
count=0
tab=$(printf '\t')
while IFS=$tab read -r file side offset value rule what; do
    count=$((count + 1))
    said=$(python3 "$here/decode.py" read "$work/changed/$file" 2>&1 | tail -n 1)
    case $said in
    "refused: $rule: "*) ;;
    *)
        fail "$file ($what): expected refusal by rule '$rule', got: $(printf '%.200s' "$said")"
        continue
        ;;
    esac
    if own=$("$work/capture" "$work/c" change "$side" "$offset" "$value" 2>/dev/null); then
        ok "$what: ${said#refused: } / ${own#verdict: }"
    else
        fail "$file ($what): the decoder says $said, the C side $own"
    fi
done <"$work/changed/list"
[ "$count" = 30 ] || fail "$count changed captures, not 30"
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
