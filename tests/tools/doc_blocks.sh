#!/bin/sh
# doc_blocks.sh FOLDER FILE.md...: writes each C block that is marked to be compiled into FOLDER and prints its name.
# A block opens with ```c compile (it compiles as a file of its own) or ```c run (it also runs and returns 0).
set -eu
out=$1
shift
mkdir -p "$out"
for md in "$@"; do
    stem=$(printf %s "$md" | tr '/.' '__')
    awk -v out="$out" -v stem="$stem" '
        /^```c (compile|run)[ \t]*$/ { kind = $2; n++; file = out "/" stem "_" n "_" kind ".c"; printf "" > file; print file; on = 1; next }
        /^```/ { if (on) { close(file) } on = 0 }
        on { print > file }' "$md"
done
