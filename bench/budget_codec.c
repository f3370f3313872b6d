/* budget_codec.c - what the hot operations of cb_codec.h cost in instructions; see budget.h. */
#define CB_CODEC_IMPLEMENTATION
#include "cb_codec.h"
#include "budget.h"

#include "shapes.h"

#define NUMBER(F) F(i32, n)
CB_CODEC_SCHEMA(number, NUMBER)

#define BUDGET_OF(T)                                                                                  \
    static T T##_value, T##_read;                                                                     \
    static uint8_t T##_bytes[T##_max_size];                                                           \
    static size_t T##_written;                                                                        \
    static void T##_encodes(uint64_t ops)                                                             \
    {                                                                                                 \
        T##_fill(&T##_value);                                                                         \
        while (ops-- != 0) {                                                                          \
            budget_need(T##_encode(&T##_value, T##_bytes, sizeof T##_bytes, &T##_written, NULL) == CB_CODEC_OK, "encode"); \
            budget_use(T##_bytes);                                                                    \
        }                                                                                             \
    }                                                                                                 \
    static void T##_decodes(uint64_t ops)                                                             \
    {                                                                                                 \
        T##_encodes(1);                                                                               \
        while (ops-- != 0) {                                                                          \
            budget_need(T##_decode(&T##_read, T##_bytes, T##_written, NULL) == CB_CODEC_OK, "decode"); \
            budget_use(&T##_read);                                                                    \
        }                                                                                             \
    }

static void entities_fill(entities *v)
{
    v->items_count = 100;
    memset(v->items, 7, sizeof v->items);
}

static void bools_fill(bools *v)
{
    uint32_t i;
    v->flags_count = 1000;
    for (i = 0; i < 1000u; i++) {
        v->flags[i] = i % 3u == 0;
    }
}

static void number_fill(number *v)
{
    v->n = -123456789;
}

static void player_fill(player *v)
{
    memset(v, 0, sizeof *v);
    v->id = 7;
    v->x = 12.5f;
    v->y = -100.25f;
    v->alive = true;
    v->items_count = 16;
    budget_need(CB_CODEC_SET_TEXT(v, name, "ada of the northern isle") == CB_CODEC_OK, "text");
}

static void inputs_fill(inputs *v)
{
    uint32_t i;
    memset(v, 0, sizeof *v);
    v->ack_tick = 20000;
    v->last_count = 4;
    for (i = 0; i < 4u; i++) {
        v->last[i].seq = 9000u + i;
        v->last[i].aim = (uint16_t)(i * 1000u);
        v->last[i].controls = (uint8_t)i;
    }
}

BUDGET_OF(entities)
BUDGET_OF(bools)
BUDGET_OF(number)
BUDGET_OF(player)
BUDGET_OF(inputs)

int main(int argc, char **argv)
{
    static const budget_op ops[] = {
        { "codec/entities_encode", entities_encodes }, { "codec/entities_decode", entities_decodes },
        { "codec/bools_encode", bools_encodes },       { "codec/bools_decode", bools_decodes },
        { "codec/number_encode", number_encodes },     { "codec/number_decode", number_decodes },
        { "codec/player_encode", player_encodes },     { "codec/player_decode", player_decodes },
        { "codec/inputs_four_encode", inputs_encodes }, { "codec/inputs_four_decode", inputs_decodes },
    };
    return budget_main(argc, argv, ops, sizeof ops / sizeof ops[0]);
}
