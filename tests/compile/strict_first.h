/* The least that a user includes before our headers: from here on libc has decided what it declares. */
#include <stdio.h>
#include <string.h>
