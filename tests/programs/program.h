/* program.h - what the programs of this folder share. Each has the text of a program as its readers see
 * it, byte for byte, between lines that say `program: begin` and `program: end` (check.sh compares them
 * with the .txt beside it), and around it what the text leaves out: the reader's own functions, other
 * ports, an end. */
#ifndef PROGRAM_H
#define PROGRAM_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The reader's own error handling: here, whatever is not done ends the program. */
#define CB_CHECK(call) program_check((int)(call), #call, __LINE__)

static void program_check(int status, const char *call, int line)
{
    if (status != 0) {
        fprintf(stderr, "FAIL line %d: %s is %d\n", line, call, status);
        exit(1);
    }
}

/* What must be true besides. */
#define PROGRAM_REQUIRE(condition) program_check((condition) ? 0 : 1, #condition, __LINE__)
#endif
