/* A first program with cb_rpc.h: a server that adds, and a client that asks it, in one loop over TCP. Two
 * programs would look the same; examples/chat is such a pair.
 *     cc -I. examples/first_rpc.c -o first_rpc && ./first_rpc */
#define CB_CODEC_IMPLEMENTATION
#define CB_LOOP_IMPLEMENTATION
#define CB_RPC_IMPLEMENTATION
#define CB_RPC_WITH_LOOP
#include "cb_codec.h"
#include "cb_loop.h"
#include "cb_rpc.h"
#include <stdio.h>

#define TWO(F) F(i32, a) F(i32, b)
CB_CODEC_SCHEMA(two, TWO)
#define ONE(F) F(i32, sum)
CB_CODEC_SCHEMA(one, ONE)

#define MATHS(CALL, EVENT) CALL(1, maths_add, two, one)
CB_RPC_CONTRACT(maths, MATHS)

static cb_rpc_status on_add(void *user, cb_rpc_session *from, const two *numbers, one *reply)
{
    (void)user;
    if (numbers->a > 1000000 || numbers->b > 1000000) {
        return cb_rpc_refuse(from, "I count to a million");
    }
    reply->sum = numbers->a + numbers->b;
    return CB_RPC_OK;
}

/* Asks and waits; a program with more to do would give maths_add a receiver instead. */
static void ask(cb_loop *loop, cb_rpc_session *session, int32_t a, int32_t b)
{
    cb_rpc_future f;
    two numbers;
    one reply;
    numbers.a = a;
    numbers.b = b;
    (void)maths_add_future(session, &numbers, &reply, &f);
    if (cb_rpc_wait(loop, &f, 5000000000u) == CB_RPC_OK) {
        printf("%d + %d = %d\n", (int)a, (int)b, (int)reply.sum);
    } else {
        printf("%d + %d: %s\n", (int)a, (int)b, f.reason);
    }
}

int main(void)
{
    static const maths_handlers handlers = { on_add };
    cb_loop loop;
    cb_rpc_hub server, client;
    cb_rpc_hub_desc d;
    cb_rpc_session session;
    cb_loop_address address;
    char text[56], url[64];
    if (cb_loop_init(&loop, NULL) != CB_LOOP_OK) {
        return 1;
    }
    memset(&d, 0, sizeof d);
    maths_bind(&d, &handlers, NULL);
    d.url = "tcp://127.0.0.1:0"; /* port 0: any that is free */
    if (cb_rpc_serve(&server, &loop, &d) != CB_RPC_OK) {
        printf("%s\n", cb_rpc_serve_reason(&loop));
        return 1;
    }
    (void)cb_rpc_serve_address(&server, &address);
    (void)snprintf(url, sizeof url, "tcp://%s", cb_loop_address_str(&address, text, sizeof text));

    memset(&d, 0, sizeof d);
    maths_bind(&d, NULL, NULL); /* a client has no handlers */
    if (cb_rpc_hub_init(&client, &d) != CB_RPC_OK ||
        cb_rpc_connect(&client, &loop, &session, url) != CB_RPC_OK) {
        return 1;
    }
    ask(&loop, &session, 2, 3);
    ask(&loop, &session, 2000000, 3);

    cb_loop_deinit(&loop); /* ends the connections; their hubs go after it */
    (void)cb_rpc_hub_deinit(&client);
    (void)cb_rpc_hub_deinit(&server);
    return 0;
}
