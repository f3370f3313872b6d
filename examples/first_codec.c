/* A first program with cb_codec.h: a message becomes bytes and a message again.
 *     cc -I. examples/first_codec.c -o first_codec && ./first_codec */
#define CB_CODEC_IMPLEMENTATION
#include "cb_codec.h"
#include <stdio.h>

#define MEASUREMENT(F)               \
    F(text,  place, 32)              \
    F(quant, celsius, -50, 60, 12)   \
    F(list,  wind, u8, 24)
CB_CODEC_SCHEMA(measurement, MEASUREMENT)

int main(void)
{
    uint8_t bytes[MEASUREMENT_MAX_SIZE];
    measurement here, there;
    cb_codec_error why;
    size_t size;
    memset(&here, 0, sizeof here);
    CB_CODEC_SET_TEXT(&here, place, "Reykjavik");
    here.celsius = 7.5f;
    here.wind[here.wind_count++] = 12;
    here.wind[here.wind_count++] = 15;
    if (measurement_encode(&here, bytes, sizeof bytes, &size, &why) != CB_CODEC_OK ||
        measurement_decode(&there, bytes, size, &why) != CB_CODEC_OK) {
        printf("%s: %s\n", why.field, why.reason);
        return 1;
    }
    printf("%u bytes: %s, %.2f degrees, %u winds\n", (unsigned)size, there.place, (double)there.celsius,
           (unsigned)there.wind_count);

    here.wind_count = 30; /* what the schema does not allow is refused on either side, with field and reason */
    if (measurement_encode(&here, bytes, sizeof bytes, &size, &why) != CB_CODEC_OK) {
        printf("%s: %s\n", why.field, why.reason);
    }
    return 0;
}
