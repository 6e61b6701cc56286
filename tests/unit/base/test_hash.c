#include "base/hash.h"

#include "base/rng.h"
#include "support/test.h"

/* The buffer of xxHash's own sanity check (tests/sanity_test.c of the project). */
static void fill_sanity_buffer(uint8_t *data, size_t len)
{
    uint64_t generator = 2654435761u;
    for (size_t i = 0; i < len; i++) {
        data[i] = (uint8_t)(generator >> 56);
        generator *= 11400714785074694797ull;
    }
}

/* Seed 0, published with xxHash. */
TEST(hash64_gives_the_published_vectors)
{
    static const struct {
        size_t len;
        uint64_t hash;
    } vectors[] = {
        {0, 0x2D06800538D394C2},   {1, 0xC44BDFF4074EECDB},    {6, 0x27B56A84CD2D7325},
        {12, 0xA713DAF0DFBB77E7},  {24, 0xA3FE70BF9D3510EB},   {48, 0x397DA259ECBA1F11},
        {80, 0xBCDEFBBB2C47C90A},  {195, 0xCD94217EE362EC3A},  {403, 0xCDEB804D65C6DEA4},
        {512, 0x617E49599013CB6B}, {2048, 0xDD59E2C3A5F038E0},
    };
    uint8_t data[2048];
    fill_sanity_buffer(data, sizeof(data));
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(vectors); i++)
        CU_ASSERT_EQUAL(sluice_hash64(data, vectors[i].len), vectors[i].hash);
}

/* What `printf %s TEXT | xxhsum -H128` prints. */
TEST(hash128_hex_is_what_xxhsum_prints)
{
    static const struct {
        const char *text, *hex;
    } vectors[] = {
        {"", "99aa06d3014798d86001c324468d497f"},
        {"a", "a96faf705af16834e6c632b61e964e1f"},
        {"abc", "06b05ab6733a618578af5f94892f3950"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(vectors); i++) {
        char hex[33];
        sluice_hash128_hex(sluice_hash128(vectors[i].text, strlen(vectors[i].text)), hex);
        CU_ASSERT_STRING_EQUAL(hex, vectors[i].hex);
    }
}

TEST(bytes_are_the_hex_digits)
{
    const struct sluice_hash128 hash = {.high = 0x0123456789ABCDEF, .low = 0x00112233445566F8};
    static const uint8_t expected[16] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF,
                                         0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0xF8};
    uint8_t bytes[16];
    char hex[33];
    sluice_hash128_bytes(hash, bytes);
    sluice_hash128_hex(hash, hex);
    CU_ASSERT_EQUAL(memcmp(bytes, expected, 16), 0);
    CU_ASSERT_STRING_EQUAL(hex, "0123456789abcdef00112233445566f8");
}

TEST(streamed_in_any_pieces_equals_one_shot)
{
    enum { LEN = 20000 };
    uint8_t *data = malloc(LEN);
    struct sluice_hasher *hasher = sluice_hasher_create();
    if (!data)
        abort();
    CU_ASSERT_PTR_NOT_NULL_FATAL(hasher);
    fill_sanity_buffer(data, LEN);
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (int round = 0; round < 50; round++) {
        const size_t len = sluice_rng_below(&rng, LEN + 1);
        if (round > 0) /* the first round shows that a new hasher needs no reset */
            sluice_hasher_reset(hasher);
        for (size_t at = 0; at < len;) {
            size_t piece = sluice_rng_below(&rng, round % 2 ? 4000 : 70);
            piece = piece < len - at ? piece : len - at;
            sluice_hasher_update(hasher, data + at, piece);
            at += piece;
            /* A digest in between changes nothing. */
            const struct sluice_hash128 so_far = sluice_hasher_digest(hasher);
            const struct sluice_hash128 expected = sluice_hash128(data, at);
            CU_ASSERT(so_far.high == expected.high && so_far.low == expected.low);
        }
        const struct sluice_hash128 hash = sluice_hasher_digest(hasher);
        const struct sluice_hash128 expected = sluice_hash128(data, len);
        CU_ASSERT(hash.high == expected.high && hash.low == expected.low);
    }
    sluice_hasher_destroy(hasher);
    sluice_hasher_destroy(NULL);
    free(data);
}

TEST(hash64_in_pieces_equals_one_shot)
{
    enum { LEN = 5000 };
    uint8_t data[LEN];
    fill_sanity_buffer(data, LEN);
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 1, 0, 0);
    for (int round = 0; round < 50; round++) {
        const size_t len = sluice_rng_below(&rng, LEN + 1);
        struct sluice_hasher64 hasher;
        sluice_hasher64_init(&hasher);
        CU_ASSERT_EQUAL(sluice_hasher64_digest(&hasher), sluice_hash64("", 0));
        for (size_t at = 0; at < len;) {
            size_t piece = sluice_rng_below(&rng, round % 2 ? 1000 : 70);
            piece = piece < len - at ? piece : len - at;
            sluice_hasher64_update(&hasher, data + at, piece);
            at += piece;
        }
        CU_ASSERT_EQUAL(sluice_hasher64_digest(&hasher), sluice_hash64(data, len));
    }
}
