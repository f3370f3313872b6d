#!/bin/sh
# example.sh HEADER: prints the EXAMPLE of the header's top page as a file that compiles.
# The example begins behind the word EXAMPLE and ends before the line of the API; what all its lines are indented by
# (the comment's star and the column) is taken off.
set -eu
awk '
/^ \* EXAMPLE/ { on = 1; sub(/EXAMPLE/, "       ") }
/^ \* API/     { on = 0 }
/^ \*\//       { exit }
on {
    line = substr($0, 3)
    sub(/[ \t]+$/, "", line)
    text[++n] = line
    if (line != "") {
        match(line, /^ */)
        if (least == "" || RLENGTH < least) { least = RLENGTH }
    }
}
END {
    if (n == 0) { exit 1 }
    for (i = 1; i <= n; i++) { print substr(text[i], least + 1) }
}' "$1"
