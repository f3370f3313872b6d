/* Program 10: inside someone else's frame. Around it: a game of which a timer of the loop is a part. */
#define CB_LOOP_IMPLEMENTATION
#include "cb_loop.h"
#include "program.h"

static bool game_running = true;
static unsigned updates, draws;

static void game_update(void)
{
    updates++;
}

static void game_draw(void)
{
    draws++;
}

static void on_over(void *user, cb_loop_timer *timer, uint64_t now_ns)
{
    (void)user;
    (void)timer;
    (void)now_ns;
    game_running = false;
}

int main(void)
{
    cb_loop loop;
    cb_loop_timer over;
    CB_CHECK(cb_loop_init(&loop, NULL));
    cb_loop_timer_init(&over, on_over, NULL);
    CB_CHECK(cb_loop_timer_start(&loop, &over, 20000000u));
/* program: begin */
while (game_running) { game_update(); game_draw(); cb_loop_step(&loop, 0); }
/* program: end */
    PROGRAM_REQUIRE(updates == draws && updates > 1);
    cb_loop_deinit(&loop);
    return 0;
}
