# lib.sh - sourced by the tools: names that follow from a header's file name.
# shellcheck shell=sh

# cb_x.h -> x
name_of() {
    basename "$1" .h | sed 's/^cb_//'
}

# x -> X
upper() {
    printf %s "$1" | tr '[:lower:]' '[:upper:]'
}

# The macros CB_X_WITH_Y of a header that bring in glue to another header that is here.
withs() { # HEADER
    grep -oE "defined\(CB_$(upper "$(name_of "$1")")_WITH_[A-Z]+" "$1" | sed 's/.*(//' | sort -u | while read -r w; do
        [ ! -e "cb_$(peer_of "$w").h" ] || echo "$w"
    done
}

# CB_X_WITH_Y -> y
peer_of() {
    printf %s "${1##*_WITH_}" | tr '[:upper:]' '[:lower:]'
}
