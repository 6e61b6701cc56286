#ifndef SLUICE_TESTS_GOLDEN_WIRE_MESSAGES_H
#define SLUICE_TESTS_GOLDEN_WIRE_MESSAGES_H

#include "wire/wire.h"

/* One message of each kind with fixed contents, encoded by the lib/wire that this is compiled with.
 * Nothing is set that the release before did not know: scripts/test-compat --record has it encode
 * the same with its own lib/wire, and we are to send the same bytes.
 *
 * Threads: pure functions. */

struct wire_golden {
    const char *name; /* of its file in wire_n1, without ".bin" */
    sluice_status (*put)(struct sluice_message *message, struct sluice_err *err);
};

extern const struct wire_golden wire_goldens[];
extern const size_t wire_num_goldens;

/* What is in them, to compare with. */
#define WIRE_GOLDEN_PIPELINE "decode,random_resized_crop=224,hflip=0.5,to_tensor,normalize=imagenet"
#define WIRE_GOLDEN_FINGERPRINT 0x0123456789abcdefu
#define WIRE_GOLDEN_DATASET "00112233445566778899aabbccddeeff"
#define WIRE_GOLDEN_PAYLOAD_BYTES 300u

/* Forms 0 up to this. */
#define WIRE_GOLDEN_NUM_FORMS (SLUICE_FORM_F32 + 1)

/* Byte i of every payload. */
static inline uint8_t wire_golden_byte(size_t i)
{
    return (uint8_t)(i * 37 + 11);
}

/* Of sample k of the requests and of the replies. */
static inline struct sluice_draw_key wire_golden_key(size_t k)
{
    return (struct sluice_draw_key){.seed = 42, .epoch = 3, .sample_id = 1000 + k};
}

#endif
