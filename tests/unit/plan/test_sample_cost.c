#include "plan/sample_cost.h"

#include "support/choices.h"
#include "support/test.h"

#include <unistd.h>

#define SIZES_HEADER                                                                               \
    "index;raw;decoding;original_shape;RandomResizedCrop;RandomHorizontalFlip;ToTensor;Normalize;" \
    "\n"
#define TIMES_HEADER                                                                               \
    "index,loader,decoding,RandomResizedCrop,RandomHorizontalFlip,ToTensor,Normalize\n"

TEST(write_and_read_give_the_same_table)
{
    struct sluice_sample_cost rows[] = {
        {.bytes = {462687, 1886241, 150561, 150561, 602145, 602145},
         .op_s = {1e-5, 2e-3, 1e-3, 1e-5, 1e-4, 3e-5},
         .width = 1024,
         .height = 614},
        {.bytes = {1, 2, 3, 4, 5, 1ull << 40},
         .op_s = {0, 0, 0, 0, 0, 12.5},
         .width = 1,
         .height = 1},
    };
    const struct sluice_cost_table table = {rows, 2, SLUICE_TEST_SPLITS};
    struct sluice_cost_table read = {0};
    struct sluice_err err = {0};
    const char *folder = sluice_test_path("a/b/c");
    REQUIRE_OK(sluice_cost_table_write(folder, sluice_test_pipeline(), &table, &err));
    REQUIRE_OK(sluice_cost_table_read(folder, sluice_test_pipeline(), &read, &err));
    CU_ASSERT_EQUAL_FATAL(read.num_rows, 2);
    for (size_t i = 0; i < 2; i++) {
        for (int k = 0; k < SLUICE_TEST_SPLITS; k++) {
            CU_ASSERT_EQUAL(read.rows[i].bytes[k], rows[i].bytes[k]);
            CU_ASSERT_DOUBLE_EQUAL(read.rows[i].op_s[k], rows[i].op_s[k], 1e-9);
        }
        CU_ASSERT_EQUAL(read.rows[i].width, rows[i].width);
        CU_ASSERT_EQUAL(read.rows[i].height, rows[i].height);
    }
    sluice_cost_table_clear(&read);
    sluice_cost_table_clear(&read);
}

/* Of another pipeline the columns are its ops. */
TEST(columns_are_named_after_the_ops)
{
    static const char expected[] = "index;raw;decoding;original_shape;Resize;CenterCrop;ToTensor;\n"
                                   "0;9;600;(20, 10);300;48;192;\n";
    struct sluice_pipeline *pipeline = NULL;
    REQUIRE_OK(sluice_pipeline_parse("decode,resize=10,center_crop=4,to_tensor", &pipeline,
                                     sluice_test_err()));
    struct sluice_sample_cost row = {
        .bytes = {9, 600, 300, 48, 192}, .op_s = {0.5, 1, 2, 3, 4}, .width = 20, .height = 10};
    const struct sluice_cost_table table = {&row, 1, 5};
    struct sluice_cost_table read = {0};
    const char *folder = sluice_test_path("other");
    REQUIRE_OK(sluice_cost_table_write(folder, pipeline, &table, sluice_test_err()));
    char text[256] = {0};
    FILE *file = fopen(sluice_test_path("other/prep_sizes.csv"), "re");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT(fread(text, 1, sizeof(text) - 1, file) > 0);
    fclose(file);
    CU_ASSERT_STRING_EQUAL(text, expected);
    REQUIRE_OK(sluice_cost_table_read(folder, pipeline, &read, sluice_test_err()));
    CU_ASSERT_EQUAL(read.num_stages, 5);
    for (int k = 0; k < 5; k++)
        CU_ASSERT(read.rows[0].bytes[k] == row.bytes[k] && read.rows[0].op_s[k] == row.op_s[k]);
    sluice_cost_table_clear(&read);
    CHECK_FAILS(SLUICE_E_CORRUPT, "prep_sizes.csv:1",
                sluice_cost_table_read(folder, sluice_test_pipeline(), &read, sluice_test_err()));
    sluice_pipeline_destroy(pipeline);
}

TEST(reads_the_original_layout)
{
    static const char sizes[] =
        SIZES_HEADER "0;462687;1886241;(1024, 614);150561;150561;602145;602145;\n"
                     "1;395615;2359329;(1024, 768);150561;150561;602145;602145;";
    struct sluice_cost_table read = {0};
    struct sluice_err err = {0};
    sluice_test_write_file(sluice_test_path("sizes.csv"), sizes, strlen(sizes));
    REQUIRE_OK(sluice_cost_table_read_sizes(sluice_test_path("sizes.csv"), sluice_test_pipeline(),
                                            &read, &err));
    CU_ASSERT_EQUAL_FATAL(read.num_rows, 2);
    CU_ASSERT_EQUAL(read.rows[1].bytes[0], 395615);
    CU_ASSERT_EQUAL(read.rows[1].bytes[5], 602145);
    CU_ASSERT_EQUAL(read.rows[1].height, 768);
    sluice_cost_table_clear(&read);
}

/* Each bad file is refused with its name, the line and a word of what is wrong. */
TEST(bad_files_are_named_by_line_and_column)
{
    static const struct {
        const char *sizes, *times, *where, *what;
    } cases[] = {
        {"", "", "prep_sizes.csv", "empty"},
        {"index;raw\n", "", "prep_sizes.csv:1", "decoding"},
        {"index;raw;decoded;original_shape;RandomResizedCrop;RandomHorizontalFlip;ToTensor;"
         "Normalize;\n",
         "", "prep_sizes.csv:1", "decoding"},
        {SIZES_HEADER, "", "prep_sizes.csv", "no rows"},
        {SIZES_HEADER "0;1;2;(3, 4);5;6;7;-8;\n", "", "prep_sizes.csv:2", "Normalize"},
        {SIZES_HEADER "0;1;2;3x4;5;6;7;8;\n", "", "prep_sizes.csv:2", "original_shape"},
        {SIZES_HEADER "0;1;2;(3, 4);5;6;7;\n", "", "prep_sizes.csv:2", "Normalize"},
        {SIZES_HEADER "0;1;2;(3, 4);5;6;7;8;9;\n", "", "prep_sizes.csv:2", "more than 8"},
        {SIZES_HEADER "1;1;2;(3, 4);5;6;7;8;\n", "", "prep_sizes.csv:2", "index"},
        {SIZES_HEADER "0;1e9;2;(3, 4);5;6;7;8;\n", "", "prep_sizes.csv:2", "raw"},
        {SIZES_HEADER "0;1;2;(3, 4);5;6;7;8;\n", "index,loader\n", "prep_times.csv:1", "decoding"},
        {SIZES_HEADER "0;1;2;(3, 4);5;6;7;8;\n", TIMES_HEADER, "prep_times.csv", "0 rows"},
        {SIZES_HEADER "0;1;2;(3, 4);5;6;7;8;\n", TIMES_HEADER "0,1,nan,1,1,1,1\n",
         "prep_times.csv:2", "decoding"},
        {SIZES_HEADER "0;1;2;(3, 4);5;6;7;8;\n", TIMES_HEADER "0,1,-1,1,1,1,1\n",
         "prep_times.csv:2", "decoding"},
        {SIZES_HEADER "0;1;2;(3, 4);5;6;7;8;\n", TIMES_HEADER "0,1,1,1,1,1,1\n1,1,1,1,1,1,1\n",
         "prep_times.csv:3", "more rows"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sluice_cost_table read = {0};
        sluice_test_write_file(sluice_test_path("prep_sizes.csv"), cases[i].sizes,
                               strlen(cases[i].sizes));
        sluice_test_write_file(sluice_test_path("prep_times.csv"), cases[i].times,
                               strlen(cases[i].times));
        CHECK_FAILS(SLUICE_E_CORRUPT, cases[i].where,
                    sluice_cost_table_read(sluice_test_dir(), sluice_test_pipeline(), &read,
                                           sluice_test_err()));
        CHECK_SAYS(cases[i].what);
        CU_ASSERT_PTR_NULL(read.rows);
    }
}

TEST(a_missing_times_file_says_what_to_do)
{
    static const char sizes[] = SIZES_HEADER "0;1;2;(3, 4);5;6;7;8;\n";
    struct sluice_cost_table read = {0};
    sluice_test_write_file(sluice_test_path("prep_sizes.csv"), sizes, strlen(sizes));
    unlink(sluice_test_path("prep_times.csv"));
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "prep_times.csv is missing",
                sluice_cost_table_read(sluice_test_dir(), sluice_test_pipeline(), &read,
                                       sluice_test_err()));
    CHECK_SAYS("--profiling");
    CU_ASSERT_PTR_NULL(read.rows);
}

TEST(modelled_times_grow_with_file_and_pixels)
{
    struct sluice_sample_cost rows[] = {
        {.bytes = {100000, 600000, 150528, 150528, 602112, 602112}, .width = 500, .height = 400},
        {.bytes = {200000, 600000, 150528, 150528, 602112, 602112}, .width = 500, .height = 400},
        {.bytes = {100000, 1200000, 150528, 150528, 602112, 602112}, .width = 500, .height = 800},
    };
    struct sluice_cost_table table = {rows, 3, SLUICE_TEST_SPLITS};
    sluice_cost_table_model_times(&table, sluice_test_pipeline());
    CU_ASSERT(rows[1].op_s[1] > rows[0].op_s[1]);
    CU_ASSERT(rows[2].op_s[1] > rows[0].op_s[1]);
    CU_ASSERT_DOUBLE_EQUAL(rows[1].op_s[2], rows[0].op_s[2], 0);
    CU_ASSERT(rows[2].op_s[2] > rows[0].op_s[2]);
    CU_ASSERT(rows[0].op_s[1] > 0.5e-3 && rows[0].op_s[1] < 2e-3);
}

TEST(samples_are_as_many_as_asked_for_and_spread)
{
    for (uint64_t n = 1; n < 60; n++) {
        for (uint64_t num = 0; num <= n + 2; num++) {
            uint64_t count = 0, last = 0, widest = 0;
            for (uint64_t i = 0; i < n; i++) {
                if (!sluice_cost_table_is_sampled(i, n, num))
                    continue;
                widest = count && i - last > widest ? i - last : widest;
                last = i;
                count++;
            }
            CU_ASSERT_EQUAL(count, num == 0 || num > n ? n : num);
            CU_ASSERT(count > 0 && widest <= n / count + 1);
        }
    }
}

TEST(a_pipeline_of_more_than_8_ops_is_refused)
{
    struct sluice_pipeline *pipeline = NULL;
    REQUIRE_OK(sluice_pipeline_parse("decode,hflip,hflip,hflip,hflip,hflip,hflip,hflip,"
                                     "hflip",
                                     &pipeline, NULL));
    struct sluice_cost_table table = {0};
    CHECK_FAILS(SLUICE_E_INVALID, "room for pipelines of 8 ops, and this one has 9",
                sluice_cost_table_init(&table, pipeline, 1, sluice_test_err()));
    CU_ASSERT_EQUAL(sluice_cost_table_read_sizes("/nowhere", pipeline, &table, sluice_test_err()),
                    SLUICE_E_INVALID);
    CU_ASSERT_PTR_NULL(table.rows);
    sluice_pipeline_destroy(pipeline);
}
