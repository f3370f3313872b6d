#!/bin/sh
# need_cc.sh COMPILER: says in one line what is missing where nothing can be compiled.
cc=$1
mkdir -p build
# shellcheck disable=SC2086 # COMPILER may carry flags
set -- $cc
if ! command -v "$1" >/dev/null 2>&1; then
    echo "no C compiler: '$1' was not found; install one (Debian: apt-get install build-essential) or say make CC=..."
    exit 1
fi
if ! printf '#include <stdio.h>\nint main(void) { return 0; }\n' | $cc -x c -o build/.cc - >/dev/null 2>&1; then
    echo "'$cc' compiles nothing here: libc's headers are missing (Debian: apt-get install build-essential)"
    exit 1
fi
rm -f build/.cc
