/* tools.h - what the subcommands share and what has little to do with the library: messages, addresses,
 * signals. */
#ifndef CHAT_TOOLS_H
#define CHAT_TOOLS_H
#include "cb_loop.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)

enum { EXIT_USAGE = 2 }; /* beside EXIT_SUCCESS and EXIT_FAILURE */

#if defined(__GNUC__)
#define CHAT_PRINTF __attribute__((format(printf, 1, 2)))
#else
#define CHAT_PRINTF
#endif

/* Says on stderr what went wrong, after what was printed so far. Returns the exit code of a failure. */
CHAT_PRINTF static int complain(const char *format, ...)
{
    va_list args;
    (void)fflush(stdout);
    fputs("chat: ", stderr);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return EXIT_FAILURE;
}

/* Prints a line that whoever reads us, a person or a script, shall see at once. */
CHAT_PRINTF static void tell(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    (void)putchar('\n');
    (void)fflush(stdout);
}

/* "127.0.0.1:4000" is short for "tcp://127.0.0.1:4000". False: too long to be an address. */
static bool url_of(const char *address, char *url, size_t size)
{
    const char *scheme = strstr(address, "://") != NULL ? "" : "tcp://";
    int length = snprintf(url, size, "%s%s", scheme, address);
    return length > 0 && (size_t)length < size;
}

/* A number from `least` to `most`, or `least - 1`: it is none. */
static long number_of(const char *text, long least, long most)
{
    char *end;
    long n;
    errno = 0;
    n = strtol(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && n >= least && n <= most ? n : least - 1;
}

/* A descriptor that we were started without would be given to the next socket, and what is printed would
 * go to a peer. */
static bool keep_standard_streams(void)
{
    bool has_stdout = fcntl(STDOUT_FILENO, F_GETFD) != -1;
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) {
        (void)close(fd);
    }
    return has_stdout;
}

/* A full disk or a closed pipe shows at the latest here. */
static int end_output(int exit_code)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return complain("cannot write to stdout: %s", strerror(errno));
    }
    return exit_code;
}

/* cb_loop watches no signals yet; a handler of the program's own may call cb_loop_stop, nothing else of
 * the library. */
static cb_loop *interrupted; /* what the handler stops */

static void on_interrupt(int number)
{
    (void)number;
    cb_loop_stop(interrupted);
}

static void set_interrupt(void (*handler)(int number))
{
    (void)signal(SIGINT, handler);
    (void)signal(SIGTERM, handler);
}

/* From now on ctrl-c and SIGTERM end cb_loop_run... */
static void stop_on_interrupt(cb_loop *loop)
{
    interrupted = loop;
    set_interrupt(on_interrupt);
}

/* ...and from now on they end the program, be it busy with its own end. */
static void end_on_interrupt(void)
{
    set_interrupt(SIG_DFL);
}
#endif
