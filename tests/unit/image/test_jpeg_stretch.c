/* Parts of rows are read by an index.  tests/property/test_region.c and test_jpeg_crop.c compare what
 * is made of them. */

#include "image/jpeg/stretch.h"

#include "base/buf.h"

#include "image_support.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

/* Reads the first row's part of the file, or not. */
static bool reads(const struct sluice_jpeg_index *index, const struct sluice_buf *file,
                  uint32_t row)
{
    struct sluice_jpeg jpeg;
    struct sluice_jpeg_stretch stretch = {0};
    REQUIRE_OK(sluice_jpeg_parse(file->data, file->len, &jpeg, NULL));
    const bool is_read =
        sluice_jpeg_index_fits(index, &jpeg, file->data, file->len) &&
        sluice_jpeg_stretch_read(&stretch, index, &jpeg, file->data, row, 0, 10, NULL);
    sluice_jpeg_stretch_clear(&stretch);
    return is_read;
}

TEST(what_was_not_indexed_is_not_read)
{
    struct sluice_buf *file =
        image_test_jpeg(150, 100, &(struct sluice_jpeg_encode_options){.quality = 90});
    struct sluice_jpeg_index index = image_test_index(file, 0);
    CU_ASSERT_TRUE(reads(&index, file, 2));
    /* Another byte in the row, in another row, in the headers. */
    const uint32_t in_row = index.points[2].offset + 5;
    file->data[in_row] ^= 2;
    CU_ASSERT_FALSE(reads(&index, file, 2));
    CU_ASSERT_TRUE(reads(&index, file, 4));
    file->data[in_row] ^= 2;
    file->data[30] ^= 1; /* in a quantisation table */
    CU_ASSERT_FALSE(reads(&index, file, 2));
    file->data[30] ^= 1;
    /* The end cut off, or EOI lost. */
    file->len--;
    CU_ASSERT_FALSE(reads(&index, file, 2));
    file->len++;
    CU_ASSERT_TRUE(reads(&index, file, 2));
    file->data[file->len - 1] = 0xD0;
    CU_ASSERT_FALSE(reads(&index, file, 2));
    sluice_jpeg_index_clear(&index);
    sluice_buf_unref(file);
}

/* No byte behind what the file has of the part is touched. */
TEST(a_part_goes_where_the_caller_wants_it)
{
    struct sluice_buf *file =
        image_test_jpeg(150, 100, &(struct sluice_jpeg_encode_options){.quality = 90});
    struct sluice_jpeg_index index = image_test_index(file, 2);
    struct sluice_jpeg jpeg;
    REQUIRE_OK(sluice_jpeg_parse(file->data, file->len, &jpeg, NULL));
    for (uint32_t row = 0; row + 1 < index.mcus_down; row++) {
        struct sluice_jpeg_stretch own = {0}, other = {0};
        const size_t i = (size_t)row * index.points_across;
        const size_t room =
            index.points[i + index.points_across].offset + 2 - index.points[i].offset;
        uint8_t *memory = malloc(room + 64);
        CU_ASSERT_PTR_NOT_NULL_FATAL(memory);
        memset(memory, 0xA5, room + 64);
        other.into = memory;
        CU_ASSERT(sluice_jpeg_stretch_read(&own, &index, &jpeg, file->data, row, 0,
                                           index.mcus_across, NULL));
        CU_ASSERT(sluice_jpeg_stretch_read(&other, &index, &jpeg, file->data, row, 0,
                                           index.mcus_across, NULL));
        CU_ASSERT(own.data == own.scan.data->data && own.len == own.scan.data->len);
        CU_ASSERT(other.data == memory && other.scan.data == NULL);
        CU_ASSERT(other.len == own.len && other.len <= room);
        CU_ASSERT_EQUAL(memcmp(memory, own.data, own.len), 0);
        CU_ASSERT_EQUAL(other.num_marks, own.num_marks);
        for (size_t k = room; k < room + 64; k++)
            CU_ASSERT_EQUAL_FATAL(memory[k], 0xA5);
        sluice_jpeg_stretch_clear(&own);
        sluice_jpeg_stretch_clear(&other);
        free(memory);
    }
    sluice_jpeg_index_clear(&index);
    sluice_buf_unref(file);
}

int main(void)
{
    return sluice_test_main();
}
