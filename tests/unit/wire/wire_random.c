#include "wire_random.h"

#include "support/test.h"

static void *must(void *memory)
{
    if (!memory) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    return memory;
}

struct sluice_rng *random_rng(void)
{
    static struct sluice_rng rng;
    static bool is_made;
    if (!is_made) {
        rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
        is_made = true;
    }
    return &rng;
}

uint64_t random_u64(void)
{
    const uint64_t high = sluice_rng_u32(random_rng());
    const uint64_t all = high << 32 | sluice_rng_u32(random_rng());
    const uint32_t bits = sluice_rng_below(random_rng(), 65);
    return bits == 0 ? 0 : all >> (64 - bits);
}

uint32_t random_u32(void)
{
    const uint32_t all = sluice_rng_u32(random_rng());
    const uint32_t bits = sluice_rng_below(random_rng(), 33);
    return bits == 0 ? 0 : all >> (32 - bits);
}

bool random_bool(void)
{
    return sluice_rng_below(random_rng(), 2);
}

void random_bytes(void *out, size_t len)
{
    for (size_t i = 0; i < len; i++)
        ((uint8_t *)out)[i] = (uint8_t)sluice_rng_u32(random_rng());
}

char *random_text(size_t max_len)
{
    const size_t len = sluice_rng_below(random_rng(), (uint32_t)max_len + 1);
    char *text = must(malloc(len + 1));
    size_t i = 0;
    while (i < len) {
        if (i + 2 <= len && sluice_rng_below(random_rng(), 8) == 0) {
            text[i++] = (char)0xC3;
            text[i++] = (char)(0x80 + sluice_rng_below(random_rng(), 0x40));
        } else {
            text[i++] = (char)(1 + sluice_rng_below(random_rng(), 126));
        }
    }
    text[len] = 0;
    return text;
}

void random_dataset_id(char out[33])
{
    out[0] = 0;
    if (sluice_rng_below(random_rng(), 4) == 0)
        return;
    for (int i = 0; i < 32; i++)
        out[i] = "0123456789abcdef"[sluice_rng_below(random_rng(), 16)];
    out[32] = 0;
}

struct sluice_buf *random_buf(size_t len)
{
    struct sluice_buf *buf = NULL;
    if (sluice_buf_create(NULL, len, &buf, NULL) != SLUICE_OK)
        must(NULL);
    buf->len = len;
    random_bytes(buf->data, len);
    return buf;
}

uint8_t *message_flatten(const struct sluice_message *message)
{
    uint8_t *flat = must(malloc(message->len + 1));
    struct sluice_cursor cursor = sluice_cursor_init(message);
    if (!sluice_cursor_read(&cursor, flat, message->len))
        must(NULL);
    return flat;
}

struct sluice_message message_cut(const uint8_t *data, size_t len)
{
    struct sluice_message message = {0};
    size_t pos = 0;
    do {
        const size_t left = len - pos;
        const uint32_t limit = random_bool() ? 4 : 70000;
        size_t take = sluice_rng_below(random_rng(), limit);
        /* Long messages are not cut into thousands of crumbs. */
        if (take > left || message.num_segments > 300)
            take = left;
        uint8_t *piece = must(malloc(take ? take : 1));
        if (take)
            memcpy(piece, data + pos, take);
        if (sluice_message_append_ref(&message, piece, take, free, piece, NULL) != SLUICE_OK)
            must(NULL);
        pos += take;
    } while (pos < len);
    return message;
}

void message_recut(struct sluice_message *message)
{
    uint8_t *flat = message_flatten(message);
    struct sluice_message cut = message_cut(flat, message->len);
    free(flat);
    sluice_message_clear(message);
    *message = cut;
}
