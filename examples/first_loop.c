/* A first program with cb_loop.h: a clock that tells the time to whoever connects. Try it with
 *     cc -I. examples/first_loop.c -o first_loop && ./first_loop
 *     nc 127.0.0.1 4000 */
#define CB_LOOP_IMPLEMENTATION
#include "cb_loop.h"
#include <stdio.h>
#include <string.h>

enum { GUESTS_MAX = 64 };

static cb_loop_stream guests[GUESTS_MAX]; /* the loop takes no memory of its own for them */
static bool is_here[GUESTS_MAX];

static cb_loop_stream *on_accept(void *user, cb_loop_listener *listener, const cb_loop_address *from,
                                 void **stream_user)
{
    size_t i;
    (void)user;
    (void)listener;
    (void)from;
    for (i = 0; i < GUESTS_MAX; i++) {
        if (!is_here[i]) {
            is_here[i] = true;
            *stream_user = &is_here[i]; /* what on_closed is given */
            return &guests[i];
        }
    }
    return NULL; /* refused */
}

static void on_closed(void *user, cb_loop_stream *stream, cb_loop_status why)
{
    (void)stream;
    (void)why;
    *(bool *)user = false; /* the memory is ours again */
}

static void on_second(void *user, cb_loop_timer *timer, uint64_t now_ns)
{
    uint64_t begin_ns = *(const uint64_t *)user;
    char text[40];
    size_t i, size;
    (void)timer;
    size = (size_t)snprintf(text, sizeof text, "%u s\n", (unsigned)((now_ns - begin_ns) / 1000000000u));
    for (i = 0; i < GUESTS_MAX; i++) {
        if (is_here[i]) {
            (void)cb_loop_stream_write(&guests[i], text, size); /* who does not read misses some */
        }
    }
}

int main(void)
{
    cb_loop loop;
    cb_loop_listener listener;
    cb_loop_listener_desc d;
    cb_loop_timer second;
    uint64_t begin_ns;
    if (cb_loop_init(&loop, NULL) != CB_LOOP_OK) {
        return 1;
    }
    memset(&d, 0, sizeof d);
    d.url = "tcp://127.0.0.1:4000";
    d.on_accept = on_accept;
    d.stream.on_closed = on_closed;
    if (cb_loop_listen(&loop, &listener, &d) != CB_LOOP_OK) {
        printf("%s\n", cb_loop_reason(&loop)); /* "bind tcp://127.0.0.1:4000: address in use" */
        cb_loop_deinit(&loop);
        return 1;
    }
    begin_ns = cb_loop_now(&loop);
    cb_loop_timer_init(&second, on_second, &begin_ns);
    (void)cb_loop_timer_start_every(&loop, &second, 1000000000u, 1000000000u);
    (void)cb_loop_run(&loop);
    cb_loop_deinit(&loop);
    return 0;
}
