#include "datasets/list/class_list.h"

#include "support/test.h"

static const char *list_path(void)
{
    static char path[700];
    snprintf(path, sizeof(path), "%s/classes.txt", sluice_test_dir());
    return path;
}

static sluice_status read_text(const char *text, size_t len, struct sluice_class_list *list,
                               struct sluice_err *err)
{
    sluice_test_write_file(list_path(), text, len);
    return sluice_class_list_read(list_path(), list, err);
}

TEST(lines_are_names_in_the_order_of_labels)
{
    struct sluice_class_list list = {0};
    static const char text[] = "\xef\xbb\xbf"
                               "dog\r\ncat\na\\tb\\\\c\nlast";
    REQUIRE_OK(read_text(text, sizeof(text) - 1, &list, NULL));
    static const char *const expected[] = {"dog", "cat", "a\tb\\c", "last"};
    CU_ASSERT_EQUAL_FATAL(list.num, 4);
    for (size_t i = 0; i < 4; i++)
        CU_ASSERT_STRING_EQUAL(list.names[i], expected[i]);
    sluice_class_list_clear(&list);
    sluice_class_list_clear(&list);
    REQUIRE_OK(read_text("\n", 1, &list, NULL));
    CU_ASSERT(list.num == 1 && list.names[0][0] == '\0');
    sluice_class_list_clear(&list);
}

TEST(a_wrong_line_is_named)
{
    static const struct {
        const char *text;
        size_t len;
        const char *says;
    } wrong[] = {
        {"", 0, "classes.txt: no class"},
        {"a\n\nb\n", 5, "classes.txt:2: a class without a name"},
        {"a\nb\n\n", 5, "classes.txt:3: a class without a name"},
        {"\na\n", 3, "classes.txt:1: a class without a name"},
        {"a\nb\nc\nb\n", 8, "classes.txt:4: the class 'b' is in line 2"},
        {"a\nb\\x\n", 6, "classes.txt:2: not a class's name"},
        {"a\n\xff\n", 4, "classes.txt:2: not a class's name"},
        {"a\nb\0c\n", 6, "classes.txt:2: not a class's name"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++) {
        struct sluice_class_list list = {0};
        CHECK_FAILS(SLUICE_E_INVALID, wrong[i].says,
                    read_text(wrong[i].text, wrong[i].len, &list, sluice_test_err()));
        CU_ASSERT_PTR_NULL(list.names);
    }
    struct sluice_class_list list = {0};
    CU_ASSERT_EQUAL(sluice_class_list_read("/no/such", &list, NULL), SLUICE_E_NOT_FOUND);
}

/* Three images with these labels, of classes "cat" and "dog" unless they are numbers. */
static struct sluice_manifest_builder images(const uint32_t labels[3], bool are_numbers)
{
    static const char *const paths[] = {"1.jpg", "2.jpg", "3.jpg"};
    struct sluice_manifest_builder builder;
    REQUIRE_OK(sluice_manifest_builder_init(&builder, NULL));
    for (size_t i = 0; i < 3; i++) {
        const struct sluice_manifest_entry row = {.label = labels[i]};
        REQUIRE_OK(sluice_manifest_add_entry(&builder, &row, paths[i], 5, NULL));
    }
    if (!are_numbers) {
        REQUIRE_OK(sluice_manifest_add_class(&builder, "cat", 3, NULL));
        REQUIRE_OK(sluice_manifest_add_class(&builder, "dog", 3, NULL));
    }
    return builder;
}

TEST(the_list_gives_the_labels_and_what_it_lacks_is_an_error)
{
    struct sluice_class_list list = {0};
    struct sluice_manifest_builder builder = images((const uint32_t[]){0, 1, 0}, false);
    REQUIRE_OK(read_text("dog\nbird\ncat\n", 13, &list, NULL));
    REQUIRE_OK(sluice_class_list_apply(&list, &builder, NULL));
    static const uint32_t expected[] = {2, 0, 2};
    for (size_t i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, i).label, expected[i]);
    CU_ASSERT_EQUAL_FATAL(builder.manifest->num_classes, 3);
    CU_ASSERT_STRING_EQUAL(builder.manifest->classes[1], "bird");

    /* What is written is the list again. */
    struct sluice_class_list again = {0};
    REQUIRE_OK(sluice_class_list_write(builder.manifest, list_path(), NULL));
    REQUIRE_OK(sluice_class_list_read(list_path(), &again, NULL));
    CU_ASSERT_EQUAL_FATAL(again.num, list.num);
    for (size_t i = 0; i < list.num; i++)
        CU_ASSERT_STRING_EQUAL(again.names[i], list.names[i]);
    sluice_class_list_clear(&again);
    sluice_class_list_clear(&list);
    sluice_manifest_destroy(builder.manifest);

    struct sluice_err err = {0};
    builder = images((const uint32_t[]){0, 1, 0}, false);
    REQUIRE_OK(read_text("cat\n", 4, &list, NULL));
    CU_ASSERT_EQUAL(sluice_class_list_apply(&list, &builder, &err), SLUICE_E_INVALID);
    CU_ASSERT_STRING_EQUAL(err.text, "2.jpg: its class 'dog' is not in the list of classes");
    sluice_class_list_clear(&list);
    sluice_manifest_destroy(builder.manifest);
}

TEST(what_is_written_reads_back_whatever_a_name_has)
{
    static const char *const names[] = {"\xef\xbb\xbf-a", "b\r", "c\td\ne\\", "\xc3\xa4"};
    struct sluice_manifest_builder builder;
    struct sluice_class_list list = {0};
    REQUIRE_OK(sluice_manifest_builder_init(&builder, NULL));
    for (size_t i = 0; i < 4; i++)
        REQUIRE_OK(sluice_manifest_add_class(&builder, names[i], strlen(names[i]), NULL));
    REQUIRE_OK(sluice_class_list_write(builder.manifest, list_path(), NULL));
    REQUIRE_OK(sluice_class_list_read(list_path(), &list, NULL));
    CU_ASSERT_EQUAL_FATAL(list.num, 4);
    for (size_t i = 0; i < 4; i++)
        CU_ASSERT_STRING_EQUAL(list.names[i], names[i]);
    sluice_class_list_clear(&list);
    sluice_manifest_destroy(builder.manifest);
}

TEST(numbers_get_names_from_the_list_or_are_their_own)
{
    struct sluice_manifest_builder builder = images((const uint32_t[]){0, 11, 0}, true);
    REQUIRE_OK(sluice_class_list_number(NULL, &builder, NULL));
    CU_ASSERT_EQUAL_FATAL(builder.manifest->num_classes, 12);
    CU_ASSERT_STRING_EQUAL(builder.manifest->classes[11], "11");
    sluice_manifest_destroy(builder.manifest);

    struct sluice_class_list list = {0};
    struct sluice_err err = {0};
    REQUIRE_OK(read_text("cat\ndog\n", 8, &list, NULL));
    builder = images((const uint32_t[]){0, 1, 2}, true);
    CU_ASSERT_EQUAL(sluice_class_list_number(&list, &builder, &err), SLUICE_E_INVALID);
    CU_ASSERT_STRING_EQUAL(err.text, "3.jpg: label 2 of 2 in the list of classes");
    builder.manifest->rows[2].label = 1;
    REQUIRE_OK(sluice_class_list_number(&list, &builder, NULL));
    CU_ASSERT_STRING_EQUAL(builder.manifest->classes[1], "dog");
    builder.manifest->rows[2].label = SLUICE_MAX_CLASSES;
    CU_ASSERT_EQUAL(sluice_class_list_number(NULL, &builder, NULL), SLUICE_E_INVALID);
    sluice_class_list_clear(&list);
    sluice_manifest_destroy(builder.manifest);
}
