/* Program 2: a message. Around it: two functions, because C wants statements inside one. */
#define CB_CODEC_IMPLEMENTATION
#include "cb_codec.h"
#include "program.h"

/* program: begin */
#define PLAYER(F)                   \
    F(u32,   id)                    \
    F(text,  name, 24)              \
    F(quant, x, -8192, 8192, 16)    \
    F(quant, y, -8192, 8192, 16)    \
    F(flag,  alive)                 \
    F(list,  items, u16, 32)
CB_CODEC_SCHEMA(player, PLAYER)

/* program: end */
static void message(void);

static void message(void)
{
/* program: begin */
uint8_t bytes[PLAYER_MAX_SIZE];
size_t size;
cb_codec_error why;
player a, b;                                    /* plain structs; a.name is NUL-terminated, a.items_count counts */
memset(&a, 0, sizeof a);
a.id = 7;
a.x = 12.5f;
CB_CODEC_SET_TEXT(&a, name, "ada");
CB_CHECK(player_encode(&a, bytes, sizeof bytes, &size, &why));
if (player_decode(&b, bytes, size, &why) != CB_CODEC_OK) {
    printf("%s: %s\n", why.field, why.reason);  /* "player.items: 40 elements, at most 32" */
}
/* program: end */
    PROGRAM_REQUIRE(player_equal(&a, &b) && b.id == 7 && strcmp(b.name, "ada") == 0);
    PROGRAM_REQUIRE(b.x > 12.37f && b.x < 12.63f && b.items_count == 0 && !b.alive);
}

/* The words that the text promises for a list that is too long. */
static void refusal(void)
{
    uint8_t bytes[PLAYER_MAX_SIZE];
    size_t size;
    cb_codec_error why;
    player a;
    memset(&a, 0, sizeof a);
    a.items_count = 40;
    PROGRAM_REQUIRE(player_encode(&a, bytes, sizeof bytes, &size, &why) != CB_CODEC_OK);
    PROGRAM_REQUIRE(strcmp(why.field, "player.items") == 0);
    PROGRAM_REQUIRE(strcmp(why.reason, "40 elements, at most 32") == 0);
}

int main(void)
{
    message();
    refusal();
    return 0;
}
