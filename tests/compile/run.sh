#!/bin/sh
# run.sh FOLDER: how the headers live with their surroundings (PITFALLS.md, M-01 to M-05). Compiles small programs into
# FOLDER with CC and, where it is there, CXX; the last line is `N passed, M failed`.
set -u
CC=${CC:-cc}
CXX=${CXX:-c++}
t=${1:-build/compile}
here=$(dirname "$0")
# shellcheck source=tests/tools/lib.sh
. "$here/../tools/lib.sh"
rm -rf "$t"
mkdir -p "$t" || exit 1
passed=0 failed=0 skipped=0
headers=$(echo cb_*.h)
[ "$headers" != 'cb_*.h' ] || { echo "0 passed, 1 failed"; exit 1; }
has_cxx=0
command -v "$CXX" >/dev/null 2>&1 && has_cxx=1

good() { # NAME COMMAND...
    name=$1
    shift
    if "$@" >"$t/out" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $name"
        head -n 5 "$t/out" | sed 's/^/     | /'
    fi
}

bad() { # NAME TEXT COMMAND...: has to fail, and TEXT has to be in what it says
    name=$1 text=$2
    shift 2
    if "$@" >"$t/out" 2>&1; then
        failed=$((failed + 1))
        echo "FAIL $name: nothing was said"
    elif ! grep -q "$text" "$t/out"; then
        failed=$((failed + 1))
        echo "FAIL $name: the message has no \"$text\""
        head -n 5 "$t/out" | sed 's/^/     | /'
    else
        passed=$((passed + 1))
    fi
}

implement() { for h in "$@"; do printf '#define CB_%s_IMPLEMENTATION\n' "$(upper "$(name_of "$h")")"; done; }
glue() { for h in "$@"; do for w in $(withs "$h"); do printf '#define %s\n' "$w"; done; done; }
include() { printf '#include "%s"\n' "$@"; }

# shellcheck disable=SC2086 # lists of words
for h in $headers; do
    n=$(name_of "$h")
    N=$(upper "$n")

    # M-01: macros of platforms, before the declarations and before the implementation
    { include tests/compile/hostile_macros.h "$h"; } >"$t/hostile_$n.c"
    good "$n: declarations behind hostile macros" $CC -std=c99 -Wall -Werror -I. -c "$t/hostile_$n.c" -o "$t/x.o"
    # ... and all the system's headers before it and behind it
    { printf '#define _GNU_SOURCE 1\n'; include tests/compile/system_headers.h; implement "$h"; include "$h"; } >"$t/system_first_$n.c"
    good "$n: behind the system's headers" $CC -std=c99 -Wall -Wextra -Werror -I. -c "$t/system_first_$n.c" -o "$t/x.o"
    { implement "$h"; include "$h" tests/compile/system_headers.h; } >"$t/system_last_$n.c"
    good "$n: before the system's headers" $CC -std=c99 -Wall -Wextra -Werror -I. -D_DEFAULT_SOURCE -c "$t/system_last_$n.c" -o "$t/x.o"
    if [ $has_cxx = 1 ]; then
        cp "$t/system_first_$n.c" "$t/system_first_$n.cpp"
        sed -i 's/^#define _GNU_SOURCE 1//' "$t/system_first_$n.cpp"
        good "$n: behind the system's headers, C++" $CXX -std=c++11 -Wall -Wextra -Werror -I. -c "$t/system_first_$n.cpp" -o "$t/x.o"
    fi

    # M-02: strict C, a system header first and no feature macro: it works, or one #error says what to do
    { include tests/compile/strict_first.h; implement "$h"; include "$h"; } >"$t/strict_$n.c"
    if [ "$n" = loop ]; then
        if $CC -std=c99 -pedantic -I. -c "$t/strict_$n.c" -o "$t/x.o" >"$t/out" 2>&1; then
            passed=$((passed + 1))
        else
            bad "$n: strict C with a system header first says it in one line" 'error:.*cb_loop.h: ' $CC -std=c99 -pedantic -I. -c "$t/strict_$n.c" -o "$t/x.o"
            if ! grep -m 1 'error:' "$t/out" | grep -q 'cb_loop.h: '; then
                failed=$((failed + 1))
                echo "FAIL $n: the #error is not the first thing said where a system header came first"
                grep -m 4 'error:' "$t/out" | sed 's/^/     | /'
            fi
        fi
    else
        good "$n: strict C with a system header first" $CC -std=c99 -pedantic-errors -Wall -Werror -I. -c "$t/strict_$n.c" -o "$t/x.o"
    fi

    # M-03: no option changes a public layout
    types=$(sed -n 's/^} \(cb_[a-z0-9_]*\);.*/\1/p' "$h" | sort -u)
    {
        printf '#include <stdio.h>\n'
        glue "$h"
        include "$h"
        printf 'int main(void)\n{\n'
        for type in $types; do printf '    printf("%%u %s\\n", (unsigned)sizeof(%s));\n' "$type" "$type"; done
        printf '    return 0;\n}\n'
    } >"$t/sizes_$n.c"
    if $CC -std=c99 -I. "$t/sizes_$n.c" -o "$t/sizes" >"$t/out" 2>&1; then
        "$t/sizes" >"$t/sizes_plain"
        for o in "-DCB_${N}_STATIC" "-DCB_${N}_NO_STRINGS" -DNDEBUG "-DCB_${N}_POISON" "-DCB_${N}_NO_STDLIB" "-D_FILE_OFFSET_BITS=64" "-funsigned-char"; do
            good "$n: sizes with $o" $CC -std=c99 -I. "$o" "$t/sizes_$n.c" -o "$t/sizes"
            "$t/sizes" >"$t/sizes_other"
            good "$n: the same layouts with $o" cmp "$t/sizes_plain" "$t/sizes_other"
        done
    else
        good "$n: sizes of the public types" $CC -std=c99 -I. "$t/sizes_$n.c" -o "$t/sizes"
    fi

    # M-04: implemented twice or never is a matter for the linker; STATIC twice is fine; a late or second include is harmless
    { implement "$h"; include "$h"; } >"$t/one_$n.c"
    { include "$h"; printf '#define CB_%s_IMPLEMENTATION\n' "$N"; include "$h" "$h"; } >"$t/late_$n.c"
    { include "$h"; printf 'int main(void) { return cb_%s_status_str((cb_%s_status)0) == NULL; }\n' "$n" "$n"; } >"$t/use_$n.c"
    { implement "$h"; cat "$t/use_$n.c"; } >"$t/both_$n.c"
    good "$n: one file implements, one uses" $CC -I. "$t/one_$n.c" "$t/use_$n.c" -o "$t/x"
    good "$n: plain include first, implementation later" $CC -I. "$t/late_$n.c" "$t/use_$n.c" -o "$t/x"
    good "$n: implemented and used in one file" $CC -I. "$t/both_$n.c" -o "$t/x"
    bad "$n: implemented twice" 'multiple definition\|duplicate symbol' $CC -I. "$t/one_$n.c" "$t/both_$n.c" -o "$t/x"
    bad "$n: never implemented" 'undefined reference\|undefined symbol\|Undefined symbols' $CC -I. "$t/use_$n.c" -o "$t/x"
    good "$n: static in two files" $CC -I. "-DCB_${N}_STATIC" "$t/one_$n.c" "$t/both_$n.c" -o "$t/x"
    # M-05: static in one file beside an ordinary implementation in another: nothing clashes
    { printf '#define CB_%s_STATIC\n' "$N"; implement "$h"; include "$h"; printf 'int other(void);\nint other(void) { return cb_%s_status_str((cb_%s_status)0) == NULL; }\n' "$n" "$n"; } >"$t/own_$n.c"
    good "$n: a static copy beside the program's own" $CC -I. "$t/own_$n.c" "$t/both_$n.c" -o "$t/x"
    if [ $has_cxx = 1 ]; then
        cp "$t/use_$n.c" "$t/use_$n.cpp"
        cp "$t/one_$n.c" "$t/one_$n.cpp"
        good "$n: implemented in C" $CC -I. -c "$t/one_$n.c" -o "$t/one.o"
        good "$n: implemented in C, used from C++" $CXX -I. "$t/one.o" "$t/use_$n.cpp" -o "$t/x"
        good "$n: implemented in C++" $CXX -I. -c "$t/one_$n.cpp" -o "$t/one.o"
        good "$n: used from C" $CC -I. -c "$t/use_$n.c" -o "$t/use.o"
        good "$n: implemented in C++, used from C" $CXX "$t/one.o" "$t/use.o" -o "$t/x"
    fi

    # the shared block of another release is refused by name
    { printf '#define CB_SHARED_ABI 99\n'; include "$h"; } >"$t/abi_$n.c"
    bad "$n: a shared block of another release" "$h: a cb header of another release" $CC -I. -c "$t/abi_$n.c" -o "$t/x.o"
done

# All headers of one program, glue asked for before, between and behind them, twice each.
# shellcheck disable=SC2086,SC2046
{
    reversed=$(printf '%s\n' $headers | sort -r)
    { implement $headers; glue $headers; include $headers $reversed; } >"$t/order1.c"
    { include $headers; glue $headers; implement $reversed; include $reversed $headers; } >"$t/order2.c"
    { include $reversed; implement $reversed; include $reversed; glue $reversed; include $headers; } >"$t/order3.c"
    { glue $headers; include $reversed; printf 'int main(void) { return 0; }\n'; } >"$t/second.c"
    for o in order1 order2 order3; do
        good "$o" $CC -std=c99 -D_GNU_SOURCE -Wall -Wextra -Werror -I. "$t/$o.c" "$t/second.c" -o "$t/x"
        if [ $has_cxx = 1 ]; then
            cp "$t/$o.c" "$t/$o.cpp"
            cp "$t/second.c" "$t/second.cpp"
            good "$o, C++" $CXX -std=c++17 -Wall -Wextra -Werror -I. "$t/$o.cpp" "$t/second.cpp" -o "$t/x"
        fi
    done
}
if [ $has_cxx = 0 ]; then
    skipped=1
    echo "skipped: no C++ compiler (apt-get install g++): headers in C++ and mixed programs"
fi
if [ "$skipped" != 0 ] && [ "${CB_REQUIRE_ALL:-0}" = 0 ]; then
    printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
else
    failed=$((failed + skipped))
    printf '%d passed, %d failed\n' "$passed" "$failed"
fi
[ "$failed" = 0 ]
