#include "store/cache_file.h"

#include "support/test.h"

TEST(names_are_read_back_and_no_others)
{
    static const char *const others[][2] = {
        {"3f", ""},
        {"3f", "new-1"},
        {"3f", "3f0123456789abcd-0-"},
        {"3f", "3f0123456789abcd-0-0"},
        {"3e", "3f0123456789abcd-0-1"},
        {"3f", "3f0123456789abcd-0-1.tmp"},
        {"3f", "3F0123456789abcd-0-1"},
        {"3f", "3f0123456789abcd-00-1"},
        {"3f", "3f0123456789abcd--1-1"},
        {"3f", "3f0123456789abcd-ffffffff-1"},
        {"3f0", "3f0123456789abcd-0-1"},
    };
    char name[SLUICE_CACHE_NAME_BYTES];
    struct sluice_cache_piece piece = {0x3f0123456789abcd, 0, 1}, parsed = {0};
    sluice_cache_name(&piece, name);
    CU_ASSERT_STRING_EQUAL(name, "3f/3f0123456789abcd-0-1");
    piece = (struct sluice_cache_piece){UINT64_MAX, UINT32_MAX - 0x10000000u, 0x10000000u};
    sluice_cache_name(&piece, name);
    name[2] = '\0';
    CU_ASSERT(sluice_cache_name_parse(name, name + 3, &parsed));
    CU_ASSERT_EQUAL(memcmp(&piece, &parsed, sizeof(piece)), 0);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        CU_ASSERT(!sluice_cache_name_parse(others[i][0], others[i][1], &parsed));
    CU_ASSERT_EQUAL(memcmp(&piece, &parsed, sizeof(piece)), 0);
}

static bool is_same(struct sluice_hash128 a, struct sluice_hash128 b)
{
    return a.high == b.high || a.low == b.low;
}

TEST(identities_differ_by_key_version_and_range)
{
    const struct sluice_hash128 one = sluice_cache_identify("a/b.jpg", -5, 0, 100);
    CU_ASSERT(is_same(one, sluice_cache_identify("a/b.jpg", -5, 0, 100)));
    CU_ASSERT(!is_same(one, sluice_cache_identify("a/c.jpg", -5, 0, 100)));
    CU_ASSERT(!is_same(one, sluice_cache_identify("a/b.jpg", -6, 0, 100)));
    CU_ASSERT(!is_same(one, sluice_cache_identify("a/b.jpg", -5, 1, 100)));
    CU_ASSERT(!is_same(one, sluice_cache_identify("a/b.jpg", -5, 0, 101)));
}

TEST(headers_show_damage_and_other_objects)
{
    static const char data[] = "0123456789";
    const struct sluice_hash128 identity = sluice_cache_identify("a", -1, 0, 100);
    const struct sluice_cache_piece piece = {identity.high, 20, 10};
    uint8_t header[SLUICE_CACHE_HEADER_BYTES];
    uint64_t hash = 0;
    sluice_cache_header_put(identity, &piece, data, header);
    CHECK_OK(sluice_cache_header_check(header, identity, &piece, &hash, NULL));
    CU_ASSERT_EQUAL(hash, sluice_hash64(data, 10));
    for (size_t bit = 0; bit < 8 * sizeof(header); bit++) {
        header[bit / 8] ^= (uint8_t)(1u << bit % 8);
        CU_ASSERT_EQUAL(sluice_cache_header_check(header, identity, &piece, &hash, NULL),
                        SLUICE_E_CORRUPT);
        header[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    const struct sluice_hash128 other = {identity.high, identity.low + 1};
    const struct sluice_cache_piece moved = {identity.high, 21, 10};
    CHECK_FAILS(SLUICE_E_CORRUPT, "another object",
                sluice_cache_header_check(header, other, &piece, &hash, sluice_test_err()));
    CU_ASSERT_EQUAL(sluice_cache_header_check(header, identity, &moved, &hash, NULL),
                    SLUICE_E_CORRUPT);
}
