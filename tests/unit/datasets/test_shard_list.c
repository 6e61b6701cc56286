#include "datasets/shards/shard_list.h"

#include "datasets/list/class_list.h"
#include "datasets/shards/tar.h"
#include "support/test.h"

#include <sys/stat.h>
#include <unistd.h>

/* A tar that grows. */
static uint8_t bytes[1 << 16];
static size_t len;

static void begin(void)
{
    memset(bytes, 0, sizeof(bytes));
    len = 0;
}

/* Returns where the content lies. */
static size_t add(const char *name, const char *content)
{
    const size_t size = strlen(content);
    len += sluice_tar_header(name, size, bytes + len);
    const size_t at = len;
    memcpy(bytes + at, content, size);
    len += size + sluice_tar_padding(size);
    return at;
}

static struct sluice_shard_file end(char *name, size_t len_on_disk)
{
    sluice_test_write_file(sluice_test_path(name), bytes, len_on_disk);
    return (struct sluice_shard_file){.path = name, .bytes = len_on_disk, .mtime_ns = 77};
}

static struct sluice_shard_file end_whole(char *name)
{
    return end(name, len + 1024);
}

static struct sluice_manifest_builder builder;
static struct sluice_shard_summary summary;

static int compare_entries(const void *a, const void *b)
{
    const struct sluice_manifest_entry *x = a, *y = b;
    return strcmp(x->path, y->path);
}

/* Lists into `builder`, in the order of the paths. */
static sluice_status list(const struct sluice_shard_file *shards, size_t num,
                          struct sluice_err *err)
{
    sluice_manifest_destroy(builder.manifest);
    REQUIRE_OK(sluice_manifest_builder_init(&builder, NULL));
    const sluice_status status = sluice_shards_list(
        &(struct sluice_shard_options){.root = sluice_test_dir(), .num_threads = 2}, shards, num,
        &builder, &summary, err);
    if (builder.manifest->num_entries > 1)
        qsort(builder.manifest->rows, builder.manifest->num_entries,
              sizeof(*builder.manifest->rows), compare_entries);
    return status;
}

static void expect(size_t i, const char *path, size_t offset, size_t size, uint32_t label)
{
    CU_ASSERT_FATAL(i < builder.manifest->num_entries);
    const struct sluice_manifest_entry entry = sluice_manifest_at(builder.manifest, i);
    CU_ASSERT_STRING_EQUAL(entry.path, path);
    CU_ASSERT_EQUAL(entry.offset, offset);
    CU_ASSERT_EQUAL(entry.bytes, size);
    CU_ASSERT_EQUAL(entry.label, label);
    CU_ASSERT_EQUAL(entry.mtime_ns, 77);
}

TEST(keys_end_at_the_first_dot_of_the_last_part)
{
    CU_ASSERT_EQUAL(sluice_shard_key_len("a.b/c.d.jpg"), 5);
    CU_ASSERT_EQUAL(sluice_shard_key_len("000017.jpg"), 6);
    CU_ASSERT_EQUAL(sluice_shard_key_len("none"), 4);
    CU_ASSERT_EQUAL(sluice_shard_key_len("a/.hidden"), 2);
}

TEST(images_are_samples_and_cls_their_labels_wherever_it_stands)
{
    begin();
    add("a/1.cls", "7");
    const size_t one = add("a/1.jpg", "image one");
    add("a/1.json", "{}");
    const size_t left = add("a/2.left.PNG", "left");
    const size_t right = add("a/2.right.webp", "right one");
    add("a/2.CLS", " 12\n");
    add("a/2.txt", "a caption");
    struct sluice_shard_file shards[2] = {end_whole("x.tar")};
    begin();
    const size_t other = add("./a/1.jpg", "of another shard");
    shards[1] = end_whole("y.tar");
    REQUIRE_OK(list(shards, 2, NULL));
    CU_ASSERT_EQUAL_FATAL(builder.manifest->num_entries, 4);
    expect(0, "x.tar/a/1.jpg", one, 9, 7);
    expect(1, "x.tar/a/2.left.PNG", left, 4, 12);
    expect(2, "x.tar/a/2.right.webp", right, 9, 12);
    expect(3, "y.tar/a/1.jpg", other, 16, SLUICE_NO_LABEL);
    CU_ASSERT_EQUAL(summary.num_shards, 2);
    CU_ASSERT_EQUAL(summary.num_damaged, 0);
    CU_ASSERT_EQUAL(summary.num_labelled, 3);
}

TEST(names_that_are_no_paths_of_a_dataset_are_passed_over)
{
    begin();
    add("../up.jpg", "x");
    add("a/../up.jpg", "x");
    add("/../up.jpg", "x");
    add("a/..", "x");
    add("\xff.jpg", "x");
    add("._1.jpg", "x");
    add(".hidden/1.jpg", "x");
    add("..jpg/1.jpg", "x");
    const size_t sound = add("a..b/1..jpg", "sound");
    struct sluice_shard_file shard = end_whole("names.tar");
    REQUIRE_OK(list(&shard, 1, NULL));
    CU_ASSERT_EQUAL_FATAL(builder.manifest->num_entries, 1);
    expect(0, "names.tar/a..b/1..jpg", sound, 5, SLUICE_NO_LABEL);
}

/* As tar(1) takes them. */
TEST(names_are_those_that_tar_would_write_to)
{
    begin();
    const size_t root = add("/root.jpg", "root");
    add("//root.cls", "4");
    const size_t twice = add("a//b.jpg", "b");
    add("./a/./b.cls", "5");
    struct sluice_shard_file shard = end_whole("names.tar");
    REQUIRE_OK(list(&shard, 1, NULL));
    CU_ASSERT_EQUAL_FATAL(builder.manifest->num_entries, 2);
    expect(0, "names.tar/a/b.jpg", twice, 1, 5);
    expect(1, "names.tar/root.jpg", root, 4, 4);
}

TEST(of_two_members_of_one_name_the_later_one_counts)
{
    begin();
    add("1.jpg", "first");
    add("1.cls", "1");
    const size_t second = add("1.jpg", "the second");
    add("1.cls", "2");
    struct sluice_shard_file shard = end_whole("twice.tar");
    REQUIRE_OK(list(&shard, 1, NULL));
    CU_ASSERT_EQUAL_FATAL(builder.manifest->num_entries, 1);
    expect(0, "twice.tar/1.jpg", second, 10, 2);
}

TEST(a_damaged_or_missing_tar_leaves_the_rest)
{
    begin();
    const size_t first = add("1.jpg", "first");
    add("2.jpg", "second");
    struct sluice_shard_file shards[4] = {end("cut.tar", len - 1)};
    bytes[1024 + 3] ^= 1;
    shards[1] = end_whole("damaged.tar");
    bytes[1024 + 3] ^= 1;
    shards[2] = end_whole("whole.tar");
    shards[3] = (struct sluice_shard_file){.path = "missing.tar", .bytes = 2048};
    REQUIRE_OK(list(shards, 4, NULL));
    CU_ASSERT_EQUAL_FATAL(builder.manifest->num_entries, 4);
    expect(0, "cut.tar/1.jpg", first, 5, SLUICE_NO_LABEL);
    expect(1, "damaged.tar/1.jpg", first, 5, SLUICE_NO_LABEL);
    CU_ASSERT_STRING_EQUAL(sluice_manifest_at(builder.manifest, 3).path, "whole.tar/2.jpg");
    CU_ASSERT_EQUAL(summary.num_damaged, 3);

    /* One that is shorter than the walk saw it. */
    shards[0] = end_whole("shrunk.tar");
    shards[0].bytes += 4 << 20;
    CU_ASSERT_EQUAL_FATAL(truncate(sluice_test_path("shrunk.tar"), 1024), 0);
    REQUIRE_OK(list(shards, 1, NULL));
    CU_ASSERT_EQUAL(summary.num_damaged, 1);
}

TEST(a_cls_that_is_no_label_is_named)
{
    static const char *const wrong[] = {"",
                                        "cat",
                                        "-1",
                                        "1.5",
                                        "1 2",
                                        "0x1",
                                        "10000000",
                                        "99999999999999999999",
                                        "                                        1"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++) {
        begin();
        add("1.jpg", "image");
        const size_t at = add("a/1.cls", wrong[i]);
        struct sluice_shard_file shard = end_whole("label.tar");
        struct sluice_err err = {0};
        char says[100];
        CU_ASSERT_EQUAL(list(&shard, 1, &err), SLUICE_E_INVALID);
        snprintf(says, sizeof(says), "label.tar: byte %zu: a/1.cls: '", at);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, says));
    }
    begin();
    add("1.jpg", "image");
    add("1.cls", "9999999");
    struct sluice_shard_file shard = end_whole("label.tar");
    CHECK_OK(list(&shard, 1, NULL));
    CU_ASSERT_EQUAL(sluice_manifest_at(builder.manifest, 0).label, SLUICE_MAX_CLASSES - 1);
}

TEST(large_members_are_passed_without_reading_them)
{
    /* 1 GiB of hole between two members; the content would take long to read. */
    begin();
    const size_t header = sluice_tar_header("hole.jpg", 1u << 30, bytes);
    sluice_test_write_file(sluice_test_path("large.tar"), bytes, header);
    CU_ASSERT_EQUAL_FATAL(truncate(sluice_test_path("large.tar"), (off_t)header + (1 << 30)), 0);
    begin();
    add("last.jpg", "last");
    FILE *file = fopen(sluice_test_path("large.tar"), "ab");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL(fwrite(bytes, 1, len + 1024, file), len + 1024);
    fclose(file);
    struct stat st;
    CU_ASSERT_EQUAL_FATAL(stat(sluice_test_path("large.tar"), &st), 0);
    struct sluice_shard_file shard = {"large.tar", (uint64_t)st.st_size, 77, NULL};
    REQUIRE_OK(list(&shard, 1, NULL));
    CU_ASSERT_EQUAL_FATAL(builder.manifest->num_entries, 2);
    expect(0, "large.tar/hole.jpg", header, 1u << 30, SLUICE_NO_LABEL);
    expect(1, "large.tar/last.jpg", header + (1u << 30) + 512, 4, SLUICE_NO_LABEL);
    unlink(sluice_test_path("large.tar"));
}

int main(void)
{
    const int code = sluice_test_main();
    sluice_manifest_destroy(builder.manifest);
    return code;
}
