#include "datasets/manifest/manifest.h"

#include "base/file.h"
#include "datasets/shards/tar.h"
#include "image/codecs/coding.h"
#include "support/capture.h"
#include "support/test.h"

#include <sys/stat.h>
#include <unistd.h>

static void make_folder(const char *name)
{
    CU_ASSERT_EQUAL(mkdir(sluice_test_path(name), 0755), 0);
}

static void make_file(const char *name, size_t len)
{
    uint8_t bytes[64] = {1, 2, 3};
    sluice_test_write_file(sluice_test_path(name), bytes, len);
}

static struct sluice_manifest *scan(const char *name)
{
    struct sluice_manifest *manifest = NULL;
    struct sluice_err err = {0};
    const sluice_status status =
        sluice_manifest_scan(sluice_test_path(name), NULL, &manifest, &err);
    REQUIRE_OK(status);
    return manifest;
}

TEST(orders_samples_and_classes_bytewise)
{
    make_folder("plain");
    make_folder("plain/zebra");
    make_folder("plain/cat");
    make_folder("plain/cat/deep");
    make_folder("plain/train");
    make_file("plain/zebra/1.JPEG", 3);
    make_file("plain/cat/2.png", 5);
    make_file("plain/cat/deep/0.jpg", 7);
    make_file("plain/train/a.jpg", 9);
    make_file("plain/cat/readme.txt", 9);
    make_file("plain/cat/.hidden.jpg", 9);
    struct sluice_manifest *manifest = scan("plain");
    CU_ASSERT_EQUAL_FATAL(manifest->num_entries, 4);
    CU_ASSERT_EQUAL_FATAL(manifest->num_classes, 3);
    CU_ASSERT_STRING_EQUAL(manifest->classes[0], "cat");
    CU_ASSERT_STRING_EQUAL(manifest->classes[1], "train");
    CU_ASSERT_STRING_EQUAL(manifest->classes[2], "zebra");
    CU_ASSERT_STRING_EQUAL(sluice_manifest_at(manifest, 0).path, "cat/2.png");
    CU_ASSERT_STRING_EQUAL(sluice_manifest_at(manifest, 1).path, "cat/deep/0.jpg");
    CU_ASSERT_STRING_EQUAL(sluice_manifest_at(manifest, 2).path, "train/a.jpg");
    CU_ASSERT_STRING_EQUAL(sluice_manifest_at(manifest, 3).path, "zebra/1.JPEG");
    CU_ASSERT_EQUAL(sluice_manifest_at(manifest, 1).bytes, 7);
    struct stat st;
    CU_ASSERT_EQUAL_FATAL(stat(sluice_test_path("plain/cat/deep/0.jpg"), &st), 0);
    CU_ASSERT_EQUAL(sluice_manifest_at(manifest, 1).mtime_ns, sluice_file_mtime_ns(&st));
    CU_ASSERT_EQUAL(sluice_manifest_at(manifest, 0).coding, SLUICE_CODING_PNG);
    for (size_t i = 1; i < 4; i++)
        CU_ASSERT_EQUAL(sluice_manifest_at(manifest, i).coding, SLUICE_CODING_UNKNOWN);
    const uint32_t labels[] = {0, 0, 1, 2};
    for (size_t i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(sluice_manifest_at(manifest, i).label, labels[i]);
        CU_ASSERT_EQUAL(sluice_manifest_at(manifest, i).subset, SLUICE_SUBSET_TRAIN);
    }
    sluice_manifest_destroy(manifest);
}

TEST(knows_train_and_val)
{
    make_folder("split");
    make_folder("split/train");
    make_folder("split/val");
    make_folder("split/train/b");
    make_folder("split/val/a");
    make_folder("split/val/b");
    make_file("split/train/b/1.jpg", 1);
    make_file("split/val/a/2.jpg", 2);
    make_file("split/val/b/3.jpg", 3);
    struct sluice_manifest *manifest = scan("split");
    CU_ASSERT_EQUAL_FATAL(manifest->num_entries, 3);
    CU_ASSERT_EQUAL_FATAL(manifest->num_classes, 2);
    CU_ASSERT_EQUAL(sluice_manifest_at(manifest, 0).subset, SLUICE_SUBSET_TRAIN);
    CU_ASSERT_EQUAL(sluice_manifest_at(manifest, 0).label, 1);
    CU_ASSERT_EQUAL(sluice_manifest_at(manifest, 1).subset, SLUICE_SUBSET_VAL);
    CU_ASSERT_EQUAL(sluice_manifest_at(manifest, 1).label, 0);
    CU_ASSERT_EQUAL(sluice_manifest_at(manifest, 2).label, 1);
    sluice_manifest_destroy(manifest);
}

TEST(passes_over_what_is_no_sample)
{
    make_folder("odd");
    make_folder("odd/x.jpg");
    make_file("odd/good.jpg", 4);
    make_file("odd/zero.jpg", 0);
    make_file("odd/bad\xff.jpg", 4);
    CU_ASSERT_EQUAL(symlink("/etc/passwd", sluice_test_path("odd/out.jpg")), 0);
    CU_ASSERT_EQUAL(symlink("nowhere", sluice_test_path("odd/dangling.jpg")), 0);
    CU_ASSERT_EQUAL(symlink("good.jpg", sluice_test_path("odd/link.jpg")), 0);
    CU_ASSERT_EQUAL(symlink(".", sluice_test_path("odd/loop")), 0);
    CU_ASSERT_EQUAL(mkfifo(sluice_test_path("odd/pipe.jpg"), 0600), 0);
    struct sluice_manifest *manifest = scan("odd");
    CU_ASSERT_EQUAL_FATAL(manifest->num_entries, 3);
    CU_ASSERT_STRING_EQUAL(sluice_manifest_at(manifest, 0).path, "good.jpg");
    CU_ASSERT_STRING_EQUAL(sluice_manifest_at(manifest, 1).path, "link.jpg");
    CU_ASSERT_EQUAL(sluice_manifest_at(manifest, 1).bytes, 4);
    CU_ASSERT_STRING_EQUAL(sluice_manifest_at(manifest, 2).path, "zero.jpg");
    CU_ASSERT_EQUAL_FATAL(manifest->num_classes, 1);
    CU_ASSERT_STRING_EQUAL(manifest->classes[0], "");
    sluice_manifest_destroy(manifest);
}

TEST(follows_links_to_folders_within_the_root_and_no_circles)
{
    make_folder("links");
    make_folder("links/b");
    make_file("links/b/1.jpg", 4);
    CU_ASSERT_EQUAL(symlink("b", sluice_test_path("links/a")), 0);
    CU_ASSERT_EQUAL(symlink("..", sluice_test_path("links/b/up")), 0);
    CU_ASSERT_EQUAL(symlink("/", sluice_test_path("links/c")), 0);
    struct sluice_manifest *manifest = scan("links");
    CU_ASSERT_EQUAL_FATAL(manifest->num_entries, 2);
    CU_ASSERT_STRING_EQUAL(sluice_manifest_at(manifest, 0).path, "a/1.jpg");
    CU_ASSERT_EQUAL(sluice_manifest_at(manifest, 0).label, 0);
    CU_ASSERT_STRING_EQUAL(sluice_manifest_at(manifest, 1).path, "b/1.jpg");
    CU_ASSERT_EQUAL(sluice_manifest_at(manifest, 1).label, 1);
    CU_ASSERT_EQUAL_FATAL(manifest->num_classes, 3); /* c keeps its label */
    CU_ASSERT_STRING_EQUAL(manifest->classes[2], "c");
    sluice_manifest_destroy(manifest);
}

TEST(counts_what_it_passes_over_and_strict_refuses_images)
{
    make_folder("formats");
    make_folder("formats/cat");
    make_file("formats/cat/1.jpg", 4);
    make_file("formats/cat/notes.txt", 4);
    make_file("formats/cat/.DS_Store", 4);
    make_file("formats/cat/2.jpg.part", 4);
    make_file("formats/" SLUICE_MANIFEST_FILE, 4);
    make_file("formats/sluice-jpeg-index.bin", 4);
    struct sluice_manifest *manifest = scan("formats");
    char text[100];
    sluice_passed_over_text(manifest->passed_over, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "1 .txt");
    CHECK_OK(sluice_manifest_check_passed_over(manifest, sluice_test_path("formats"), true, NULL,
                                               sluice_test_err()));
    sluice_manifest_destroy(manifest);

    make_file("formats/cat/3.jxl", 4);
    make_file("formats/stray.jpg", 4);
    manifest = scan("formats");
    sluice_passed_over_text(manifest->passed_over, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "1 .jxl, 1 .txt");
    CU_ASSERT_EQUAL(manifest->passed_over->num_images, 2);
    CHECK_OK(sluice_manifest_check_passed_over(manifest, sluice_test_path("formats"), false, NULL,
                                               sluice_test_err()));
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "cat/3.jxl, stray.jpg",
                sluice_manifest_check_passed_over(manifest, sluice_test_path("formats"), true, NULL,
                                                  sluice_test_err()));
    REQUIRE_OK(sluice_manifest_write(manifest, sluice_test_path("formats.tsv"), NULL));
    sluice_manifest_destroy(manifest);

    /* A file knows what it was then: strict has the folder walked. */
    REQUIRE_OK(sluice_manifest_read(sluice_test_path("formats.tsv"), &manifest, sluice_test_err()));
    CU_ASSERT_PTR_NULL(manifest->passed_over);
    CU_ASSERT_PTR_NOT_NULL_FATAL(manifest->passed_text);
    CU_ASSERT_STRING_EQUAL(manifest->passed_text, "1 .jxl, 1 .txt");
    CU_ASSERT_EQUAL(manifest->passed_unread, 1);
    CHECK_OK(sluice_manifest_check_passed_over(manifest, sluice_test_path("formats"), false, NULL,
                                               sluice_test_err()));
    CU_ASSERT_EQUAL(sluice_manifest_check_passed_over(manifest, sluice_test_path("formats"), true,
                                                      NULL, sluice_test_err()),
                    SLUICE_E_UNSUPPORTED);
    sluice_manifest_destroy(manifest);
}

TEST(a_folder_nested_too_deep_is_an_error)
{
    char name[256] = "deep";
    make_folder(name);
    make_file("deep/top.jpg", 1);
    for (int depth = 0; depth < 33; depth++) {
        strcat(name, "/x");
        make_folder(name);
    }
    struct sluice_manifest *manifest = NULL;
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "/x/x: nested",
                sluice_manifest_scan(sluice_test_path("deep"), NULL, &manifest, sluice_test_err()));
    CU_ASSERT_PTR_NULL(manifest);
}

TEST(a_file_systems_own_folder_is_passed_over)
{
    make_folder("mounted");
    make_folder("mounted/lost+found");
    make_folder("mounted/cat");
    make_folder("mounted/cat/lost+found");
    make_file("mounted/lost+found/1.jpg", 1);
    make_file("mounted/cat/lost+found/2.jpg", 1);
    struct sluice_manifest *manifest = scan("mounted");
    CU_ASSERT_EQUAL_FATAL(manifest->num_entries, 1);
    CU_ASSERT_STRING_EQUAL(sluice_manifest_at(manifest, 0).path, "cat/lost+found/2.jpg");
    sluice_manifest_destroy(manifest);
}

TEST(a_walk_that_is_cancelled_is_closed)
{
    make_folder("stopped");
    make_file("stopped/1.jpg", 1);
    atomic_bool is_cancelled = false;
    struct sluice_manifest *manifest = NULL;
    REQUIRE_OK(sluice_manifest_open(sluice_test_path("stopped"), &is_cancelled, &manifest, NULL));
    sluice_manifest_destroy(manifest);
    manifest = NULL;
    is_cancelled = true;
    CHECK_FAILS(SLUICE_E_CLOSED, "stopped was listed",
                sluice_manifest_scan(sluice_test_path("stopped"), &is_cancelled, &manifest,
                                     sluice_test_err()));
    CU_ASSERT_EQUAL(
        sluice_manifest_open(sluice_test_path("stopped"), &is_cancelled, &manifest, NULL),
        SLUICE_E_CLOSED);
    CU_ASSERT_PTR_NULL(manifest);
}

TEST(refuses_an_empty_or_missing_root)
{
    make_folder("empty");
    struct sluice_manifest *manifest = NULL;
    CHECK_FAILS(
        SLUICE_E_NOT_FOUND, "empty",
        sluice_manifest_scan(sluice_test_path("empty"), NULL, &manifest, sluice_test_err()));
    CU_ASSERT_EQUAL(
        sluice_manifest_scan(sluice_test_path("none"), NULL, &manifest, sluice_test_err()),
        SLUICE_E_NOT_FOUND);
    CU_ASSERT_PTR_NULL(manifest);
}

static bool ids_are_equal(const struct sluice_manifest *a, const struct sluice_manifest *b)
{
    const struct sluice_hash128 x = sluice_manifest_id(a), y = sluice_manifest_id(b);
    return x.high == y.high && x.low == y.low;
}

TEST(write_and_read_give_the_same_manifest)
{
    const char *classes[] = {"", "a\tb", "c\\d\ne"};
    const struct sluice_manifest_entry entries[] = {
        {.path = "a\tb/x y.jpg",
         .bytes = 1ull << 40,
         .mtime_ns = 1700000000123456789,
         .label = 1,
         .width = 640,
         .height = 480,
         .coding = SLUICE_CODING_JPEG_420 | SLUICE_CODING_PROGRESSIVE},
        {.path = "c\\d\ne/\xc3\xa4.png",
         .bytes = 0,
         .mtime_ns = -5, /* before 1970 */
         .label = 2,
         .subset = SLUICE_SUBSET_VAL,
         .has_hash = true,
         .hash = {.high = 0x0123456789abcdef, .low = 0xfedcba9876543210}},
    };
    struct sluice_manifest *manifest = NULL, *read = NULL;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_manifest_create(entries, 2, classes, 3, &manifest, &err));
    REQUIRE_OK(sluice_manifest_write(manifest, sluice_test_path("m.tsv"), &err));
    REQUIRE_OK(sluice_manifest_read(sluice_test_path("m.tsv"), &read, &err));
    CU_ASSERT_EQUAL_FATAL(read->num_entries, 2);
    CU_ASSERT_EQUAL_FATAL(read->num_classes, 3);
    for (size_t i = 0; i < 3; i++)
        CU_ASSERT_STRING_EQUAL(read->classes[i], classes[i]);
    for (size_t i = 0; i < 2; i++) {
        CU_ASSERT_STRING_EQUAL(sluice_manifest_at(read, i).path, entries[i].path);
        CU_ASSERT_EQUAL(sluice_manifest_at(read, i).bytes, entries[i].bytes);
        CU_ASSERT_EQUAL(sluice_manifest_at(read, i).mtime_ns, entries[i].mtime_ns);
        CU_ASSERT_EQUAL(sluice_manifest_at(read, i).label, entries[i].label);
        CU_ASSERT_EQUAL(sluice_manifest_at(read, i).subset, entries[i].subset);
        CU_ASSERT_EQUAL(sluice_manifest_at(read, i).width, entries[i].width);
        CU_ASSERT_EQUAL(sluice_manifest_at(read, i).coding, entries[i].coding);
        CU_ASSERT_EQUAL(sluice_manifest_at(read, i).has_hash, entries[i].has_hash);
        CU_ASSERT_EQUAL(sluice_manifest_at(read, i).hash.high, entries[i].hash.high);
        CU_ASSERT_EQUAL(sluice_manifest_at(read, i).hash.low, entries[i].hash.low);
    }
    CU_ASSERT(ids_are_equal(manifest, read));
    sluice_manifest_destroy(manifest);
    sluice_manifest_destroy(read);
}

TEST(offsets_of_members_are_kept_in_version_4_and_leave_the_id)
{
    const char *classes[] = {"cat"};
    struct sluice_manifest_entry entries[] = {
        {.path = "plain.jpg", .bytes = 7, .mtime_ns = 5},
        {.path = "x.tar/a.jpg", .offset = 512, .bytes = 9},
        {.path = "x.tar/b.jpg", .offset = 1536, .bytes = 10, .has_hash = true},
    };
    struct sluice_manifest *manifest = NULL, *read = NULL;
    REQUIRE_OK(sluice_manifest_create(entries, 3, classes, 1, &manifest, NULL));
    REQUIRE_OK(sluice_manifest_write(manifest, sluice_test_path("o.tsv"), NULL));
    REQUIRE_OK(sluice_manifest_read(sluice_test_path("o.tsv"), &read, NULL));
    for (size_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(sluice_manifest_at(read, i).offset, entries[i].offset);
        CU_ASSERT_EQUAL(sluice_manifest_at(read, i).bytes, entries[i].bytes);
        CU_ASSERT_EQUAL(sluice_manifest_at(read, i).mtime_ns, entries[i].mtime_ns);
        manifest->rows[i].offset = 0;
    }
    CU_ASSERT(ids_are_equal(manifest, read));
    sluice_manifest_destroy(read);
    size_t len;
    char *text = (char *)sluice_test_read_file(sluice_test_path("o.tsv"), &len);
    CU_ASSERT_EQUAL(strncmp(text, "# sluice manifest 4\n", 20), 0);
    /* Another offset is another file, and one without a shard in the path is none. */
    char *number = strstr(text, "\t1536\n");
    CU_ASSERT_PTR_NOT_NULL_FATAL(number);
    number[4] = '7';
    sluice_test_write_file(sluice_test_path("o.tsv"), text, len);
    CHECK_FAILS(SLUICE_E_CORRUPT, "its hash is wrong",
                sluice_manifest_read(sluice_test_path("o.tsv"), &read, sluice_test_err()));
    char *none = strstr(text, "\t5\t0\n");
    CU_ASSERT_PTR_NOT_NULL_FATAL(none);
    none[3] = '9';
    sluice_test_write_file(sluice_test_path("o.tsv"), text, len);
    CHECK_FAILS(SLUICE_E_CORRUPT, "no shard in the path",
                sluice_manifest_read(sluice_test_path("o.tsv"), &read, sluice_test_err()));
    free(text);

    /* Without members it is a file of version 3. */
    REQUIRE_OK(sluice_manifest_write(manifest, sluice_test_path("o.tsv"), NULL));
    text = (char *)sluice_test_read_file(sluice_test_path("o.tsv"), &len);
    CU_ASSERT_EQUAL(strncmp(text, "# sluice manifest 3\n", 20), 0);
    free(text);
    sluice_manifest_destroy(manifest);
}

TEST(a_damaged_file_is_refused_by_line)
{
    struct sluice_manifest *manifest = scan("split");
    REQUIRE_OK(sluice_manifest_write(manifest, sluice_test_path("whole.tsv"), sluice_test_err()));
    sluice_manifest_destroy(manifest);
    size_t len;
    uint8_t *bytes = sluice_test_read_file(sluice_test_path("whole.tsv"), &len);
    /* Every prefix is refused, and so is every changed byte that changes the meaning. */
    for (size_t cut = 0; cut < len; cut++) {
        struct sluice_manifest *read = NULL;
        sluice_test_write_file(sluice_test_path("cut.tsv"), bytes, cut);
        CHECK_FAILS(SLUICE_E_CORRUPT, "cut.tsv:",
                    sluice_manifest_read(sluice_test_path("cut.tsv"), &read, sluice_test_err()));
    }
    char *size = strstr((char *)bytes, "1.jpg\t1\t");
    CU_ASSERT_PTR_NOT_NULL_FATAL(size);
    size[6] = '2';
    struct sluice_manifest *read = NULL;
    sluice_test_write_file(sluice_test_path("cut.tsv"), bytes, len);
    CHECK_FAILS(SLUICE_E_CORRUPT, "id",
                sluice_manifest_read(sluice_test_path("cut.tsv"), &read, sluice_test_err()));
    free(bytes);
}

TEST(reads_files_of_versions_1_and_2_that_know_less)
{
    struct sluice_manifest *manifest = scan("split"), *read = NULL;
    char id[33], text[512];
    sluice_hash128_hex(sluice_manifest_id(manifest), id);
    int len = snprintf(text, sizeof(text),
                       "# sluice manifest 1\n# id\t%s\n# classes\t%zu\n# samples\t%zu\n"
                       "# path\tbytes\tlabel\tsubset\twidth\theight\txxh3_128\n",
                       id, manifest->num_classes, manifest->num_entries);
    for (size_t i = 0; i < manifest->num_classes; i++)
        len +=
            snprintf(text + len, sizeof(text) - (size_t)len, "class\t%s\n", manifest->classes[i]);
    for (size_t i = 0; i < manifest->num_entries; i++) {
        const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, i);
        len += snprintf(text + len, sizeof(text) - (size_t)len, "%s\t%llu\t%u\t%s\t5\t7\t-\n",
                        entry.path, (unsigned long long)entry.bytes, entry.label,
                        entry.subset == SLUICE_SUBSET_VAL ? "val" : "train");
    }
    CU_ASSERT_FATAL(len > 0 && (size_t)len < sizeof(text));
    sluice_test_write_file(sluice_test_path("old.tsv"), text, (size_t)len);
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_manifest_read(sluice_test_path("old.tsv"), &read, &err));
    CU_ASSERT(ids_are_equal(manifest, read));
    CU_ASSERT_EQUAL(sluice_manifest_at(read, 0).width, 5);
    CU_ASSERT_EQUAL(sluice_manifest_at(read, 0).coding, SLUICE_CODING_UNKNOWN);
    CU_ASSERT_EQUAL(sluice_manifest_at(read, 0).mtime_ns, 0);
    sluice_manifest_destroy(read);

    len = snprintf(text, sizeof(text),
                   "# sluice manifest 2\n# id\t%s\n# classes\t2\n# samples\t3\n"
                   "# path\tbytes\tlabel\tsubset\twidth\theight\txxh3_128\tcoding\n"
                   "class\ta\nclass\tb\n"
                   "train/b/1.jpg\t1\t1\ttrain\t5\t7\t-\tpng\n"
                   "val/a/2.jpg\t2\t0\tval\t5\t7\t-\tpng\n"
                   "val/b/3.jpg\t3\t1\tval\t5\t7\t-\tpng\n",
                   id);
    sluice_test_write_file(sluice_test_path("old.tsv"), text, (size_t)len);
    REQUIRE_OK(sluice_manifest_read(sluice_test_path("old.tsv"), &read, &err));
    CU_ASSERT(ids_are_equal(manifest, read));
    CU_ASSERT_EQUAL(sluice_manifest_at(read, 0).coding, SLUICE_CODING_PNG);
    CU_ASSERT_EQUAL(sluice_manifest_at(read, 0).mtime_ns, 0);
    sluice_manifest_destroy(manifest);
    sluice_manifest_destroy(read);
}

/* Whatever bit flips, what is read is what was written, or nothing is. */
TEST(no_flipped_bit_of_the_file_is_taken)
{
    struct sluice_manifest *manifest = scan("split"), *read = NULL;
    manifest->rows[0].width = 640;
    manifest->rows[0].has_hash = true;
    manifest->rows[0].hash.low = 77;
    manifest->rows[1].mtime_ns = 1234567890123;
    REQUIRE_OK(sluice_manifest_write(manifest, sluice_test_path("flip.tsv"), NULL));
    size_t len, same = 0;
    uint8_t *bytes = sluice_test_read_file(sluice_test_path("flip.tsv"), &len);
    for (size_t bit = 0; bit < 8 * len; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        sluice_test_write_file(sluice_test_path("flip.tsv"), bytes, len);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (sluice_manifest_read(sluice_test_path("flip.tsv"), &read, NULL) != SLUICE_OK)
            continue;
        same++; /* the names of the columns are for people */
        CU_ASSERT(ids_are_equal(manifest, read));
        for (size_t i = 0; i < read->num_entries; i++) {
            const struct sluice_manifest_entry a = sluice_manifest_at(manifest, i),
                                               b = sluice_manifest_at(read, i);
            CU_ASSERT_EQUAL(a.subset, b.subset);
            CU_ASSERT_EQUAL(a.width, b.width);
            CU_ASSERT_EQUAL(a.height, b.height);
            CU_ASSERT_EQUAL(a.coding, b.coding);
            CU_ASSERT_EQUAL(a.has_hash, b.has_hash);
            CU_ASSERT_EQUAL(a.hash.low, b.hash.low);
            CU_ASSERT_EQUAL(a.mtime_ns, b.mtime_ns);
        }
        sluice_manifest_destroy(read);
    }
    CU_ASSERT(same < 8 * 80);
    free(bytes);
    sluice_manifest_destroy(manifest);
}

TEST(open_prefers_the_file_and_falls_back_to_walking)
{
    struct sluice_manifest *walked = scan("split"), *opened = NULL;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_manifest_open(sluice_test_path("split"), NULL, &opened, &err));
    CU_ASSERT(ids_are_equal(walked, opened));
    sluice_manifest_destroy(opened);

    walked->rows[0].bytes = 99; /* so that we can tell which one was opened */
    REQUIRE_OK(
        sluice_manifest_write(walked, sluice_test_path("split/" SLUICE_MANIFEST_FILE), &err));
    REQUIRE_OK(sluice_manifest_open(sluice_test_path("split"), NULL, &opened, &err));
    CU_ASSERT_EQUAL(sluice_manifest_at(opened, 0).bytes, 99);
    sluice_manifest_destroy(opened);

    sluice_test_write_file(sluice_test_path("split/" SLUICE_MANIFEST_FILE), "junk\n", 5);
    REQUIRE_OK(sluice_manifest_open(sluice_test_path("split"), NULL, &opened, &err));
    CU_ASSERT_EQUAL(sluice_manifest_at(opened, 0).bytes, 1);
    sluice_manifest_destroy(opened);
    sluice_manifest_destroy(walked);
}

/* As lists were made that took images beside the class folders for a class of their own. */
TEST(a_list_with_a_nameless_class_among_others_is_warned_of)
{
    static struct sluice_test_output output;
    const char *classes[] = {"", "cat"};
    const struct sluice_manifest_entry entries[] = {{.path = "cat/1.jpg", .label = 1}};
    struct sluice_manifest *manifest = NULL, *read = NULL;
    for (size_t first = 0; first < 2; first++) {
        const struct sluice_manifest_entry entry = {.path = "cat/1.jpg", .label = 0};
        REQUIRE_OK(sluice_manifest_create(first ? &entry : entries, 1, classes + first, 2 - first,
                                          &manifest, NULL));
        REQUIRE_OK(sluice_manifest_write(manifest, sluice_test_path("old.tsv"), NULL));
        sluice_test_capture_begin();
        const sluice_status status = sluice_manifest_read(sluice_test_path("old.tsv"), &read, NULL);
        sluice_test_capture_end(&output);
        REQUIRE_OK(status);
        CU_ASSERT_EQUAL(strstr(output.err, "make it anew") != NULL, first == 0);
        sluice_manifest_destroy(manifest);
        sluice_manifest_destroy(read);
    }
}

TEST(create_refuses_bad_rows)
{
    const char *classes[] = {"a"};
    struct sluice_manifest_entry entries[] = {{.path = "b"}, {.path = "a"}};
    struct sluice_manifest *manifest = NULL;
    CHECK_FAILS(SLUICE_E_INVALID, "order",
                sluice_manifest_create(entries, 2, classes, 1, &manifest, sluice_test_err()));
    entries[0].label = 1;
    CHECK_FAILS(SLUICE_E_INVALID, "label",
                sluice_manifest_create(entries, 1, classes, 1, &manifest, sluice_test_err()));
    CU_ASSERT_PTR_NULL(manifest);
}

/* --- shards, tables and lists of classes --- */

static void put_text(const char *name, const char *text)
{
    sluice_test_write_file(sluice_test_path(name), text, strlen(text));
}

/* A tar of files of one byte, or with content, "NAME" or "NAME=CONTENT". */
static void put_tar(const char *path, const char *const *members, size_t num)
{
    static uint8_t bytes[1 << 16];
    size_t len = 0;
    memset(bytes, 0, sizeof(bytes));
    for (size_t i = 0; i < num; i++) {
        char name[200];
        const char *equals = strchr(members[i], '=');
        const char *content = equals ? equals + 1 : "x";
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(members[i], "="), members[i]);
        len += sluice_tar_header(name, strlen(content), bytes + len);
        memcpy(bytes + len, content, strlen(content));
        len += strlen(content) + sluice_tar_padding(strlen(content));
    }
    sluice_test_write_file(sluice_test_path(path), bytes, len + 1024);
}

static struct sluice_manifest *list_with(const char *name, struct sluice_manifest_options options,
                                         struct sluice_err *err)
{
    struct sluice_manifest *manifest = NULL;
    options.with_shards = true;
    (void)!sluice_manifest_list(sluice_test_path(name), &options, &manifest, NULL, err);
    return manifest;
}

static void expect_rows(const struct sluice_manifest *manifest, const char *const *rows, size_t num)
{
    CU_ASSERT_PTR_NOT_NULL_FATAL(manifest);
    CU_ASSERT_EQUAL_FATAL(manifest->num_entries, num);
    for (size_t i = 0; i < num; i++) {
        const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, i);
        char text[600];
        snprintf(text, sizeof(text), "%s %s %s", entry.path, manifest->classes[entry.label],
                 entry.subset == SLUICE_SUBSET_VAL ? "val" : "train");
        CU_ASSERT_STRING_EQUAL(text, rows[i]);
    }
}

TEST(members_of_tars_have_the_classes_that_they_would_have_unpacked)
{
    static const char *const train[] = {"dog/1.jpg", "cat/2.jpg"};
    static const char *const val[] = {"val/cat/3.jpg"};
    static const char *const cat[] = {"4.jpg"};
    mkdir(sluice_test_path("tars"), 0700);
    mkdir(sluice_test_path("tars/train"), 0700);
    mkdir(sluice_test_path("tars/train/cat"), 0700);
    put_tar("tars/train/a.tar", train, 2);
    put_tar("tars/b.tar", val, 1);
    put_tar("tars/train/cat/c.tar", cat, 1);
    put_text("tars/train/cat/5.jpg", "x");
    static const char *const rows[] = {
        "b.tar/val/cat/3.jpg cat val",     "train/a.tar/cat/2.jpg cat train",
        "train/a.tar/dog/1.jpg dog train", "train/cat/5.jpg cat train",
        "train/cat/c.tar/4.jpg cat train",
    };
    struct sluice_err err = {0};
    struct sluice_manifest *manifest = list_with("tars", (struct sluice_manifest_options){0}, &err);
    expect_rows(manifest, rows, 5);
    CU_ASSERT_EQUAL(manifest->num_classes, 2);
    CU_ASSERT_EQUAL(manifest->passed_over->num_shards, 0);
    sluice_manifest_destroy(manifest);

    /* A plain walk counts them. */
    manifest = scan("tars");
    CU_ASSERT_EQUAL(manifest->num_entries, 1);
    CU_ASSERT_EQUAL(manifest->passed_over->num_shards, 3);
    CU_ASSERT_EQUAL(sluice_manifest_check_passed_over(manifest, "tars", true, NULL, &err),
                    SLUICE_E_UNSUPPORTED);
    CU_ASSERT_STRING_EQUAL(
        err.text, "--strict: 3 .tar or .mds of tars are not read: run offload_dataset index");
    sluice_manifest_destroy(manifest);

    /* Where nothing else is found it lists their members, whole or not at all where that is asked.
     */
    unlink(sluice_test_path("tars/train/cat/5.jpg"));
    manifest = scan("tars");
    CU_ASSERT_EQUAL_FATAL(manifest->num_entries, 4);
    CU_ASSERT_STRING_EQUAL(sluice_manifest_at(manifest, 3).path, "train/cat/c.tar/4.jpg");
    CHECK_OK(
        sluice_manifest_check_passed_over(manifest, sluice_test_path("tars"), true, NULL, &err));
    sluice_manifest_destroy(manifest);
    put_text("tars/d.tar", "no tar at all");
    manifest = scan("tars");
    CU_ASSERT_EQUAL(manifest->num_entries, 4);
    err = (struct sluice_err){0};
    CU_ASSERT_EQUAL(sluice_manifest_check_passed_over(manifest, "tars", true, NULL, &err),
                    SLUICE_E_CORRUPT);
    CU_ASSERT_STRING_EQUAL(err.text, "--strict: tars: 1 damaged shard");
    sluice_manifest_destroy(manifest);
    const atomic_bool is_cancelled = true;
    CU_ASSERT_EQUAL(sluice_manifest_scan(sluice_test_path("tars"), &is_cancelled, &manifest, NULL),
                    SLUICE_E_CLOSED);
}

TEST(the_cls_of_members_are_the_labels_if_all_have_one)
{
    static const char *const a[] = {"cat/1.jpg", "cat/1.cls=2", "2.jpg", "2.cls=0"};
    static const char *const b[] = {"3.jpg"};
    mkdir(sluice_test_path("cls"), 0700);
    put_tar("cls/a.tar", a, 4);
    struct sluice_err err = {0};
    struct sluice_manifest *manifest = list_with("cls", (struct sluice_manifest_options){0}, &err);
    static const char *const rows[] = {"a.tar/2.jpg 0 train", "a.tar/cat/1.jpg 2 train"};
    expect_rows(manifest, rows, 2);
    CU_ASSERT_EQUAL(manifest->num_classes, 3);
    sluice_manifest_destroy(manifest);

    put_text("cls/sluice-classes.txt", "zero\none\ntwo\n");
    static const char *const named[] = {"a.tar/2.jpg zero train", "a.tar/cat/1.jpg two train"};
    manifest = list_with("cls", (struct sluice_manifest_options){0}, &err);
    expect_rows(manifest, named, 2);
    sluice_manifest_destroy(manifest);

    put_tar("cls/b.tar", b, 1);
    CU_ASSERT_PTR_NULL(list_with("cls", (struct sluice_manifest_options){0}, &err));
    CU_ASSERT_PTR_NOT_NULL(strstr(
        err.text,
        "1 of 3 images have no label, as others have by .cls, .json or column (b.tar/3.jpg)"));
}

TEST(a_table_gives_labels_also_beside_class_folders_and_in_tars)
{
    static const char *const a[] = {"1.jpg", "1.cls=5"};
    mkdir(sluice_test_path("table"), 0700);
    mkdir(sluice_test_path("table/cat"), 0700);
    put_tar("table/a.tar", a, 2);
    put_text("table/cat/1.jpg", "x");
    put_text("table/2.jpg", "x");
    put_text("table/labels.csv", "path,label\ncat/1.jpg,b\n2.jpg,a\na.tar/1.jpg,c\n");
    static const char *const rows[] = {"2.jpg a train", "a.tar/1.jpg c train", "cat/1.jpg b train"};
    struct sluice_err err = {0};
    struct sluice_manifest *manifest =
        list_with("table", (struct sluice_manifest_options){0}, &err);
    expect_rows(manifest, rows, 3);
    char text[100];
    CU_ASSERT_EQUAL(sluice_passed_over_text(manifest->passed_over, text, sizeof(text)), 0);
    const struct sluice_hash128 id = sluice_manifest_id(manifest);
    sluice_manifest_destroy(manifest);

    /* The list fixes the numbers, and with them the id. */
    put_text("classes.txt", "c\nb\na\n");
    char classes[1024];
    snprintf(classes, sizeof(classes), "%s", sluice_test_path("classes.txt"));
    const struct sluice_manifest_options options = {.classes = classes};
    manifest = list_with("table", options, &err);
    expect_rows(manifest, rows, 3);
    CU_ASSERT_EQUAL(sluice_manifest_at(manifest, 0).label, 2);
    CU_ASSERT_NOT_EQUAL(sluice_manifest_id(manifest).low, id.low);
    sluice_manifest_destroy(manifest);
    put_text("classes.txt", "c\nb\n");
    CU_ASSERT_PTR_NULL(list_with("table", options, &err));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "its class 'a' is not in the list"));

    /* And so it does for folders. */
    put_text("classes.txt", "dog\ncat\n");
    put_text("table/labels.csv", "nothing of that kind\n");
    unlink(sluice_test_path("table/a.tar"));
    manifest = list_with("table", options, &err);
    static const char *const folders[] = {"cat/1.jpg cat train"};
    expect_rows(manifest, folders, 1);
    CU_ASSERT_EQUAL(sluice_manifest_at(manifest, 0).label, 1);
    sluice_manifest_destroy(manifest);
}
