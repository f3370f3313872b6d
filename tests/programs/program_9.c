/* Program 9: on a microcontroller. The text promises 4 KB of code, no heap and no libc beyond memcpy and
 * its like; check.sh builds this file freestanding (PROGRAM_9_BARE), for size, and measures it. Around it:
 * a message of a small board. */
/* program: begin */
#define CB_CODEC_IMPLEMENTATION
#define CB_CODEC_NO_STDLIB
#include "cb_codec.h"                                    /* 4 KB of text, no heap, no libc beyond memcpy */
/* program: end */

#define READING(F)              \
    F(u32,   at_ms)             \
    F(range, celsius, -40, 125) \
    F(enum,  state, 4)          \
    F(flag,  mains)             \
    F(list,  volts, u16, 8)
CB_CODEC_SCHEMA(reading, READING)

/* What the board does: a reading into a packet, a packet into a reading. Bytes of the packet, 0: refused. */
size_t board_pack(const reading *r, uint8_t *packet, size_t capacity);
bool board_unpack(reading *r, const uint8_t *packet, size_t size);

size_t board_pack(const reading *r, uint8_t *packet, size_t capacity)
{
    size_t size;
    return reading_encode(r, packet, capacity, &size, NULL) == CB_CODEC_OK ? size : 0;
}

bool board_unpack(reading *r, const uint8_t *packet, size_t size)
{
    return reading_decode(r, packet, size, NULL) == CB_CODEC_OK;
}

#if !defined(PROGRAM_9_BARE)
#include "program.h"

int main(void)
{
    uint8_t packet[READING_MAX_SIZE];
    reading a, b;
    size_t size;
    memset(&a, 0, sizeof a);
    a.at_ms = 123456;
    a.celsius = -7;
    a.state = 3;
    a.volts_count = 2;
    a.volts[0] = 3300;
    a.volts[1] = 5010;
    size = board_pack(&a, packet, sizeof packet);
    PROGRAM_REQUIRE(size == READING_MIN_SIZE + 4u);
    PROGRAM_REQUIRE(board_unpack(&b, packet, size) && reading_equal(&a, &b));
    PROGRAM_REQUIRE(!board_unpack(&b, packet, size - 1u));
    CB_CHECK(a.volts_count - 2u);
    return 0;
}
#endif
