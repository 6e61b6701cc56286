#include "datasets/manifest/passed_over.h"

#include "support/test.h"

static struct sluice_passed_over *make(void)
{
    struct sluice_passed_over *passed = calloc(1, sizeof(*passed));
    CU_ASSERT_PTR_NOT_NULL_FATAL(passed);
    return passed;
}

static void assert_text(const struct sluice_passed_over *passed, const char *expected)
{
    char text[512];
    CU_ASSERT_EQUAL(sluice_passed_over_text(passed, text, sizeof(text)), strlen(expected));
    CU_ASSERT_STRING_EQUAL(text, expected);
}

TEST(counts_by_suffix_whatever_its_case)
{
    struct sluice_passed_over *passed = make();
    assert_text(passed, "");
    sluice_passed_over_add(passed, "a/1.txt");
    sluice_passed_over_add(passed, "a/1.JP2");
    for (int i = 0; i < 12; i++)
        sluice_passed_over_add(passed, i % 2 ? "a/x.jxl" : "a/b/x.y.JXL");
    sluice_passed_over_add(passed, "labels.csv");
    sluice_passed_over_add(passed, "labels.csv");
    assert_text(passed, "12 .jxl, 1 .jp2, 2 .csv, 1 .txt");
    CU_ASSERT_EQUAL(passed->num_images, 13);
    CU_ASSERT_EQUAL(sluice_passed_over_num_unread(passed), 13);
    free(passed);
}

TEST(a_file_without_suffix_may_be_an_image_where_it_lies_in_a_folder)
{
    struct sluice_passed_over *passed = make();
    sluice_passed_over_add(passed, "LICENSE");
    sluice_passed_over_add(passed, "README.");
    CU_ASSERT_EQUAL(passed->num_images, 0);
    sluice_passed_over_add(passed, "cat.d/n01440764_1");
    CU_ASSERT_EQUAL(passed->num_images, 1);
    CU_ASSERT_STRING_EQUAL(passed->images[0], "cat.d/n01440764_1");
    assert_text(passed, "1 without suffix, 2 at the top without suffix");
    free(passed);
}

TEST(names_the_first_images_by_path)
{
    struct sluice_passed_over *passed = make();
    const char *const paths[] = {"d/4.avif", "b/2.jpe", "e/5.dib", "a/1.jfif", "c/3.heic"};
    for (size_t i = 0; i < 5; i++) {
        if (i == 3)
            sluice_passed_over_add_image(passed, paths[i]);
        else
            sluice_passed_over_add(passed, paths[i]);
    }
    CU_ASSERT_STRING_EQUAL(passed->images[0], "a/1.jfif");
    CU_ASSERT_STRING_EQUAL(passed->images[1], "b/2.jpe");
    CU_ASSERT_STRING_EQUAL(passed->images[2], "c/3.heic");
    CU_ASSERT_EQUAL(passed->num_images, 5);
    CU_ASSERT_EQUAL(sluice_passed_over_num_unread(passed), 4); /* one of them by its place */
    assert_text(passed, "1 .avif, 1 .dib, 1 .heic, 1 .jpe");
    free(passed);
}

TEST(suffixes_that_are_no_words_or_too_many_are_counted_together)
{
    struct sluice_passed_over *passed = make();
    sluice_passed_over_add(passed, "a/what is. this");
    sluice_passed_over_add(passed, "a/x.\xff\xfe");
    sluice_passed_over_add(passed, "a/x.a-suffix-of-more-bytes-than-there-is-room");
    assert_text(passed, "3 with other suffixes");
    char path[32];
    for (int i = 0; i < SLUICE_PASSED_SUFFIXES + 10; i++) {
        snprintf(path, sizeof(path), "a/log.%d", i);
        sluice_passed_over_add(passed, path);
    }
    CU_ASSERT_EQUAL(passed->num_suffixes, SLUICE_PASSED_SUFFIXES);
    CU_ASSERT_EQUAL(passed->num_rest, 13);
    free(passed);
}

TEST(a_text_without_room_is_cut)
{
    struct sluice_passed_over *passed = make();
    sluice_passed_over_add(passed, "a/1.jxl");
    sluice_passed_over_add(passed, "a/1.jp2");
    char text[10];
    CU_ASSERT_EQUAL(sluice_passed_over_text(passed, text, sizeof(text)), 9);
    CU_ASSERT_STRING_EQUAL(text, "1 .jp2, 1");
    free(passed);
}

TEST(one_that_is_read_after_all_is_taken_back)
{
    struct sluice_passed_over passed = {0};
    char text[100];
    sluice_passed_over_add(&passed, "a/1.bin");
    sluice_passed_over_add(&passed, "a/2.bin");
    sluice_passed_over_add(&passed, "a/3.txt");
    sluice_passed_over_take_back(&passed, "a/2.bin");
    (void)sluice_passed_over_text(&passed, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "1 .bin, 1 .txt");
    sluice_passed_over_take_back(&passed, "a/1.bin");
    (void)sluice_passed_over_text(&passed, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "1 .txt");
}
