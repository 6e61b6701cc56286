#include "datasets/tools/npy.h"

#include "support/test.h"

static uint8_t *write_and_read(const char *type, const size_t *shape, size_t num_dims,
                               const void *data, size_t len, size_t *file_len)
{
    const char *path = sluice_test_path("array.npy");
    REQUIRE_OK(sluice_npy_write(path, type, shape, num_dims, data, len, NULL));
    return sluice_test_read_file(path, file_len);
}

/* Against the format's text: numpy.lib.format, version 1.0. */
static void check(const char *type, const size_t *shape, size_t num_dims, const void *data,
                  size_t len, const char *dict)
{
    size_t file_len = 0;
    uint8_t *file = write_and_read(type, shape, num_dims, data, len, &file_len);
    CU_ASSERT(memcmp(file, "\x93NUMPY\x01\x00", 8) == 0);
    const size_t dict_len = file[8] | (size_t)file[9] << 8;
    const size_t header_len = 10 + dict_len;
    CU_ASSERT_EQUAL(header_len % 64, 0);
    CU_ASSERT_EQUAL(file_len, header_len + len);
    CU_ASSERT(memcmp(file + 10, dict, strlen(dict)) == 0);
    for (size_t i = 10 + strlen(dict); i < header_len - 1; i++)
        CU_ASSERT_EQUAL(file[i], ' ');
    CU_ASSERT_EQUAL(file[header_len - 1], '\n');
    CU_ASSERT(memcmp(file + header_len, data, len) == 0);
    free(file);
}

TEST(writes_numpys_format_1_0)
{
    const uint8_t bytes[24] = "twenty-four bytes of u8";
    check("|u1", (const size_t[]){24}, 1, bytes, 24,
          "{'descr': '|u1', 'fortran_order': False, 'shape': (24,), }");
    check("|u1", (const size_t[]){2, 4, 3}, 3, bytes, 24,
          "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 4, 3,), }");
    check("<f4", (const size_t[]){3, 2, 1}, 3, bytes, 24,
          "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2, 1,), }");
}

TEST(a_folder_that_is_not_there_is_an_error)
{
    const char *path = sluice_test_path("none/array.npy");
    struct sluice_err err = {{0}};
    CU_ASSERT_NOT_EQUAL(sluice_npy_write(path, "|u1", (const size_t[]){1}, 1, "x", 1, &err),
                        SLUICE_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "none"));
}
