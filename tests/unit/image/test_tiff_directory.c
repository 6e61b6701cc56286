#include "image/codecs/tiff_directory.h"

#include "support/test.h"

static uint8_t file[64];

/* A header and a directory of three tags: 256 as a long, 257 as a short, 274 as two shorts. */
static size_t make(bool is_big_endian)
{
    static const uint8_t little[] = {'I', 'I', '*',  0,    8,    0,    0, 0, 3, 0, 0, 1, 4, 0, 1, 0,
                                     0,   0,   0x78, 0x56, 0x34, 0x12, 1, 1, 3, 0, 1, 0, 0, 0, 9, 8,
                                     0,   0,   18,   1,    3,    0,    2, 0, 0, 0, 6, 0, 9, 0};
    static const uint8_t big[] = {'M', 'M', 0,    '*',  0,    0,    0, 8, 0, 3, 1, 0, 0, 4, 0, 0,
                                  0,   1,   0x12, 0x34, 0x56, 0x78, 1, 1, 0, 3, 0, 0, 0, 1, 8, 9,
                                  0,   0,   1,    18,   0,    3,    0, 0, 0, 2, 0, 6, 0, 9};
    memcpy(file, is_big_endian ? big : little, sizeof(big));
    return sizeof(big);
}

TEST(numbers_are_read_in_either_order)
{
    for (int order = 0; order < 2; order++) {
        const size_t len = make(order);
        struct sluice_tiff_directory directory;
        CU_ASSERT_FATAL(sluice_tiff_directory_find(file, len, &directory));
        CU_ASSERT_FALSE(directory.is_cut);
        CU_ASSERT_EQUAL(sluice_tiff_directory_get(&directory, SLUICE_TIFF_WIDTH, 0), 0x12345678);
        CU_ASSERT_EQUAL(sluice_tiff_directory_get(&directory, SLUICE_TIFF_HEIGHT, 0), 0x0809);
        CU_ASSERT_EQUAL(sluice_tiff_directory_get(&directory, SLUICE_TIFF_ORIENTATION, 0), 6);
        CU_ASSERT_EQUAL(sluice_tiff_directory_get(&directory, SLUICE_TIFF_SAMPLES, 77), 77);
    }
}

TEST(a_directory_that_is_cut_says_so_and_has_what_is_there)
{
    struct sluice_tiff_directory directory;
    const size_t whole = make(false);
    for (size_t len = 0; len < whole; len++) {
        const bool is_found = sluice_tiff_directory_find(file, len, &directory);
        CU_ASSERT_EQUAL(is_found, len >= 10);
        if (!is_found)
            continue;
        CU_ASSERT(directory.is_cut);
        CU_ASSERT_EQUAL(directory.num_entries, (len - 10) / 12);
    }
}

TEST(of_two_tags_the_last_counts_and_bytes_are_no_number)
{
    struct sluice_tiff_directory directory;
    const size_t len = make(false);
    file[22] = 0; /* the second tag becomes another 256 */
    CU_ASSERT_FATAL(sluice_tiff_directory_find(file, len, &directory));
    CU_ASSERT_EQUAL(sluice_tiff_directory_get(&directory, SLUICE_TIFF_WIDTH, 0), 0x0809);
    file[24] = 1;
    CU_ASSERT_EQUAL(sluice_tiff_directory_get(&directory, SLUICE_TIFF_WIDTH, 5), 5);
}
