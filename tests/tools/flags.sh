#!/bin/sh
# flags.sh COMPILER: prints the strict warning flags of this repository for a C or C++ compiler, all as errors.
# The list is the same everywhere: matrix, programs, examples. A C compiler is told from a C++ one by its name.
set -eu
cc=$1
common="-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wundef -Wcast-qual -Wpointer-arith"
common="$common -Wwrite-strings -Wformat=2 -Wswitch-enum -Wvla -Wdouble-promotion -Wnull-dereference"
common="$common -Wredundant-decls -Wfloat-equal -Werror"
only_c="-Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition"
case ${cc##*/} in *++*) cxx=1 ;; *) cxx=0 ;; esac
# shellcheck disable=SC2086 # COMPILER may carry flags: "gcc -m32"
if $cc --version 2>/dev/null | grep -qi clang; then
    flags="-Weverything -Werror -Wno-padded -Wno-declaration-after-statement"
    if echo 'int x;' | $cc -x c -Werror -Wno-unsafe-buffer-usage -fsyntax-only - >/dev/null 2>&1; then
        flags="$flags -Wno-unsafe-buffer-usage" # only newer ones know it; it has no meaning for C
    fi
    [ "$cxx" = 0 ] || flags="$flags -Wno-c++98-compat -Wno-c++98-compat-pedantic -Wno-old-style-cast -Wno-zero-as-null-pointer-constant"
    echo "$flags"
    exit 0
fi
[ "$cxx" = 1 ] || common="$common $only_c"
echo "$common -Walloca -Wcast-align=strict -Wlogical-op -Wduplicated-cond -Wduplicated-branches"
