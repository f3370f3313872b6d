/* shapes.h - the messages that bench_codec.c times and budget_codec.c counts, so that both speak of the same work.
 * cb_codec.h comes before it. */
#define ENTITY(F) F(u8, id) F(u8, x) F(u8, y) F(u8, z) F(u8, orientation) F(u8, animation)
CB_CODEC_SCHEMA(entity, ENTITY)
#define ENTITIES(F) F(list, items, entity, 100)
CB_CODEC_SCHEMA(entities, ENTITIES)
#define BOOLS(F) F(list, flags, flag, 1000)
CB_CODEC_SCHEMA(bools, BOOLS)
#define PLAYER(F)                   \
    F(u32,   id)                    \
    F(text,  name, 24)              \
    F(quant, x, -8192, 8192, 16)    \
    F(quant, y, -8192, 8192, 16)    \
    F(flag,  alive)                 \
    F(list,  items, u16, 32)
CB_CODEC_SCHEMA(player, PLAYER)
#define INPUT(F) F(varu, seq) F(u16, aim) F(u8, controls)
CB_CODEC_SCHEMA(input, INPUT)
#define INPUTS(F) F(varu, ack_tick) F(list, last, input, 4)
CB_CODEC_SCHEMA(inputs, INPUTS)
