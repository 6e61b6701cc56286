#include "plan/form_table.h"

#include "image/codecs/coding.h"
#include "plan/form_menu.h"
#include "support/choices.h"
#include "support/test.h"

#include <math.h>

static struct sluice_form_table some_rows(uint64_t view_pixels)
{
    struct sluice_form_table table = {0};
    struct sluice_err err = {0};
    struct sluice_form_row row = {
        .index = 7,
        .epoch = 3,
        .facts = {.file_bytes = 110000,
                  .width = 500,
                  .height = 375,
                  .coding = SLUICE_CODING_JPEG_420 | SLUICE_CODING_PROGRESSIVE,
                  .output_size = 224,
                  .crop = {.top = 1, .left = 2, .height = 300, .width = 400},
                  .view_pixels = view_pixels},
        .storage_s = 0.000123456,
        .compute_s = 2,
    };
    for (unsigned c = 0; c < SLUICE_TEST_CHOICES; c++) {
        row.choice = (uint8_t)c;
        row.bytes = (uint64_t)1000 * c;
        REQUIRE_OK(sluice_form_table_add(&table, &row, &err));
        row.storage_s = c % 2 ? NAN : 1;
        row.compute_s = c % 3 ? NAN : 1;
    }
    return table;
}

static bool is_same_time(double a, double b)
{
    return isnan(a) ? isnan(b) : fabs(a - b) < 1e-9;
}

static void check_written_and_read(uint64_t view_pixels)
{
    struct sluice_form_table table = some_rows(view_pixels), read;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_form_table_write(sluice_test_dir(), sluice_test_choices(), &table, &err));
    REQUIRE_OK(sluice_form_table_read(sluice_test_dir(), sluice_test_choices(), &read, &err));
    CU_ASSERT_EQUAL_FATAL(read.num_rows, table.num_rows);
    for (size_t i = 0; i < read.num_rows; i++) {
        const struct sluice_form_row *a = &read.rows[i], *b = &table.rows[i];
        CU_ASSERT_EQUAL(a->index, b->index);
        CU_ASSERT_EQUAL(a->epoch, b->epoch);
        CU_ASSERT_EQUAL(a->facts.file_bytes, b->facts.file_bytes);
        CU_ASSERT_EQUAL(a->facts.width, b->facts.width);
        CU_ASSERT_EQUAL(a->facts.height, b->facts.height);
        CU_ASSERT_EQUAL(a->facts.coding, b->facts.coding);
        CU_ASSERT_EQUAL(a->facts.output_size, b->facts.output_size);
        CU_ASSERT_EQUAL(a->facts.crop.top, b->facts.crop.top);
        CU_ASSERT_EQUAL(a->facts.crop.left, b->facts.crop.left);
        CU_ASSERT_EQUAL(a->facts.crop.height, b->facts.crop.height);
        CU_ASSERT_EQUAL(a->facts.crop.width, b->facts.crop.width);
        CU_ASSERT_EQUAL(a->choice, b->choice);
        CU_ASSERT_EQUAL(a->bytes, b->bytes);
        CU_ASSERT(is_same_time(a->storage_s, b->storage_s));
        CU_ASSERT(is_same_time(a->compute_s, b->compute_s));
        CU_ASSERT_EQUAL(a->facts.view_pixels, view_pixels);
    }
    sluice_form_table_clear(&table);
    sluice_form_table_clear(&read);
    sluice_form_table_clear(&read);
}

TEST(what_is_written_is_read)
{
    check_written_and_read(UINT64_C(10) << 32);
    check_written_and_read(0);
}

TEST(without_views_there_is_no_column_of_them)
{
    char path[1024];
    size_t len;
    snprintf(path, sizeof(path), "%s/" SLUICE_FORM_TABLE_FILE, sluice_test_dir());
    for (unsigned i = 0; i < 2; i++) {
        struct sluice_form_table table = some_rows(i);
        REQUIRE_OK(sluice_form_table_write(sluice_test_dir(), sluice_test_choices(), &table, NULL));
        char *text = (char *)sluice_test_read_file(path, &len);
        char *names = strchr(text, '\n') + 1;
        *strchr(names, '\n') = '\0';
        CU_ASSERT_EQUAL(strstr(names, ";compute_s;view_pixels") != NULL, i == 1);
        CU_ASSERT_EQUAL(strstr(names, "view_pixels") != NULL, i == 1);
        free(text);
        sluice_form_table_clear(&table);
    }
}

TEST(refuses_what_it_would_not_write)
{
    static const char head[] =
        "index;epoch;file_bytes;width;height;coding;top;left;crop_height;crop_width;output_size;"
        "choice;bytes;storage_s;compute_s\n";
    static const struct {
        const char *first, *row, *column;
    } cases[] = {
        {"# sluice forms 2", "", "first line"},
        {"# sluice forms 1", "x;0;1;9;9;-;0;0;9;9;8;raw@0;1;-;-\n", "index"},
        {"# sluice forms 1", "0;4294967296;1;9;9;-;0;0;9;9;8;raw@0;1;-;-\n", "epoch"},
        {"# sluice forms 1", "0;0;1;0;9;-;0;0;9;9;8;raw@0;1;-;-\n", "width"},
        {"# sluice forms 1", "0;0;1;9;65536;-;0;0;9;9;8;raw@0;1;-;-\n", "height"},
        {"# sluice forms 1", "0;0;1;9;9;-;1;0;9;9;8;raw@0;1;-;-\n", "crop_height"},
        {"# sluice forms 1", "0;0;1;9;9;-;0;1;9;9;8;raw@0;1;-;-\n", "crop_width"},
        {"# sluice forms 1", "0;0;1;9;9;-;0;0;9;9;8;webp@0;1;-;-\n", "choice"},
        {"# sluice forms 1", "0;0;1;9;9;-;0;0;9;9;8;raw@0;-1;-;-\n", "bytes"},
        {"# sluice forms 1", "0;0;1;9;9;-;0;0;9;9;8;raw@0;1;-1;-\n", "storage_s"},
        {"# sluice forms 1", "0;0;1;9;9;-;0;0;9;9;8;raw@0;1;-;nan\n", "compute_s"},
        {"# sluice forms 1", "0;0;1;9;9;-;0;0;9;9;8;raw@0;1\n", "storage_s"},
        {"# sluice forms 1", "0;0;1;9;9;-;0;0;9;9;8;raw@0;1;-;-;0\n", "more than"},
    };
    char path[1024], text[1024];
    snprintf(path, sizeof(path), "%s/" SLUICE_FORM_TABLE_FILE, sluice_test_dir());
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        const int len =
            snprintf(text, sizeof(text), "%s\n%s%s", cases[i].first, head, cases[i].row);
        sluice_test_write_file(path, text, (size_t)len);
        struct sluice_form_table read = {.num_rows = 77};
        CHECK_FAILS(SLUICE_E_CORRUPT, cases[i].column,
                    sluice_form_table_read(sluice_test_dir(), sluice_test_choices(), &read,
                                           sluice_test_err()));
        CU_ASSERT_EQUAL(read.num_rows, 77);
    }
    sluice_test_write_file(path, "", 0);
    struct sluice_form_table read;
    CU_ASSERT_EQUAL(
        sluice_form_table_read(sluice_test_dir(), sluice_test_choices(), &read, sluice_test_err()),
        SLUICE_E_CORRUPT);
}

TEST(a_folder_without_the_file_is_told_apart)
{
    struct sluice_form_table read;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_form_table_read("/no/such/folder", sluice_test_choices(), &read, &err),
                    SLUICE_E_NOT_FOUND);
}
