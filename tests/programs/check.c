/* Runs check.sh, which says what it checks; a program, because programs are what is run here. */
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    (void)fflush(stdout);
    return system("sh tests/programs/check.sh") == 0 ? 0 : 1;
}
