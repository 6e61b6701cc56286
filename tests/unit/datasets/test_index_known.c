#include "datasets/manifest/index_known.h"

#include "manifest_rows.h"
#include "support/capture.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct sluice_manifest_entry image(const char *path, uint64_t bytes)
{
    return (struct sluice_manifest_entry){.path = path,
                                          .bytes = bytes,
                                          .mtime_ns = 1000 + (int64_t)bytes,
                                          .has_hash = true,
                                          .hash = {bytes, 7},
                                          .width = 3,
                                          .height = 4,
                                          .coding = SLUICE_CODING_PNG};
}

/* As a walk finds it. */
static struct sluice_manifest_entry walked(const char *path, uint64_t bytes)
{
    return (struct sluice_manifest_entry){
        .path = path, .bytes = bytes, .mtime_ns = 1000 + (int64_t)bytes};
}

static struct sluice_index_known *open_known(const char *name, bool is_anew)
{
    struct sluice_index_known *known = NULL;
    struct sluice_test_output output; /* what it goes on with is a line of the log */
    sluice_test_capture_begin();
    CHECK_OK(sluice_index_known_open(test_path(name), is_anew, &known, NULL));
    sluice_test_capture_end(&output);
    CU_ASSERT_PTR_NOT_NULL_FATAL(known);
    return known;
}

static bool is_known(const struct sluice_index_known *known, const char *path, uint64_t bytes)
{
    struct sluice_manifest_entry row = walked(path, bytes);
    if (!sluice_index_known_find(known, &row))
        return false;
    const struct sluice_manifest_entry want = image(path, bytes);
    test_same_row(&row, &want);
    return true;
}

TEST(rows_of_the_manifest_before_are_known)
{
    struct sluice_manifest_entry rows[] = {image("a.png", 10), image("b.png", 20),
                                           image("c.png", 30)};
    rows[1].has_hash = false;
    rows[2].width = 0; /* no image */
    struct sluice_manifest *manifest = NULL;
    REQUIRE_OK(sluice_manifest_create(rows, 3, test_classes, 1, &manifest, NULL));
    REQUIRE_OK(sluice_manifest_write(manifest, test_path("m.tsv"), NULL));
    sluice_manifest_destroy(manifest);
    struct sluice_index_known *known = open_known("m.tsv", false);
    CU_ASSERT(is_known(known, "a.png", 10));
    CU_ASSERT_FALSE(is_known(known, "a.png", 11));
    CU_ASSERT_FALSE(is_known(known, "b.png", 20));
    CU_ASSERT_FALSE(is_known(known, "c.png", 30));
    CU_ASSERT_FALSE(is_known(known, "d.png", 10));
    struct sluice_manifest_entry row = walked("a.png", 10);
    row.mtime_ns++;
    CU_ASSERT_FALSE(sluice_index_known_find(known, &row));
    row = walked("a.png", 10);
    row.offset = 512;
    CU_ASSERT_FALSE(sluice_index_known_find(known, &row));
    row = walked("a.png", 10);
    row.mtime_ns = 0;
    CU_ASSERT_FALSE(sluice_index_known_find(known, &row));
    sluice_index_known_close(known);
    known = open_known("m.tsv", true);
    CU_ASSERT_FALSE(is_known(known, "a.png", 10));
    sluice_index_known_close(known);
    CU_ASSERT_EQUAL(access(test_path("m.progress"), F_OK), -1); /* none was read */
}

TEST(a_run_goes_on_after_what_was_read)
{
    static char names[2000][16];
    struct sluice_index_known *known = open_known("r.tsv", false);
    for (size_t i = 0; i < 2000; i++) {
        snprintf(names[i], sizeof(names[i]), "%05zu.png", (i * 7919) % 2000);
        const struct sluice_manifest_entry row = image(names[i], i + 1);
        sluice_index_known_add(known, &row);
    }
    const struct sluice_manifest_entry bad = {.path = "bad.png", .bytes = 1, .has_hash = true};
    sluice_index_known_add(known, &bad);
    sluice_index_known_close(known); /* as by a failure */
    known = open_known("r.tsv", false);
    for (size_t i = 0; i < 2000; i++)
        CU_ASSERT(is_known(known, names[i], i + 1));
    CU_ASSERT_FALSE(is_known(known, "bad.png", 1));
    sluice_index_known_close(known);

    /* Whatever was cut or damaged, what is before it counts. */
    size_t len;
    uint8_t *bytes = sluice_test_read_file(test_path("r.progress"), &len);
    sluice_test_write_file(test_path("r.progress"), bytes, len - 1);
    known = open_known("r.tsv", false);
    CU_ASSERT(is_known(known, names[1998], 1999));
    CU_ASSERT_FALSE(is_known(known, names[1999], 2000));
    const struct sluice_manifest_entry again = image(names[1999], 2000);
    sluice_index_known_add(known, &again); /* goes where the cut one was */
    sluice_index_known_close(known);
    known = open_known("r.tsv", false);
    CU_ASSERT(is_known(known, names[1999], 2000));
    sluice_index_known_close(known);
    bytes[16 + 74 * 100 + 9] ^= 1;
    sluice_test_write_file(test_path("r.progress"), bytes, len);
    free(bytes);
    known = open_known("r.tsv", false);
    CU_ASSERT(is_known(known, names[0], 1));
    CU_ASSERT_FALSE(is_known(known, names[1500], 1501));
    sluice_index_known_remove(known);
    sluice_index_known_close(known);
    CU_ASSERT_EQUAL(access(test_path("r.progress"), F_OK), -1);
}

TEST(two_runs_do_not_mix)
{
    struct sluice_index_known *first = open_known("t.tsv", false), *second = NULL;
    struct sluice_test_output output;
    sluice_test_capture_begin();
    CHECK_OK(sluice_index_known_open(test_path("t.tsv"), false, &second, NULL));
    sluice_test_capture_end(&output);
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "another run's"));
    const struct sluice_manifest_entry row = image("a.png", 10), other = image("b.png", 20);
    sluice_index_known_add(second, &other);
    sluice_index_known_add(first, &row);
    sluice_index_known_remove(second);
    sluice_index_known_close(second);
    sluice_index_known_close(first);
    first = open_known("t.tsv", false);
    CU_ASSERT(is_known(first, "a.png", 10));
    CU_ASSERT_FALSE(is_known(first, "b.png", 20));
    sluice_index_known_remove(first);
    sluice_index_known_close(first);
}

TEST(a_list_that_is_no_file_has_none)
{
    struct sluice_index_known *known = NULL;
    REQUIRE_OK(sluice_index_known_open("/dev/null", false, &known, NULL));
    const struct sluice_manifest_entry row = image("a.png", 10);
    sluice_index_known_add(known, &row);
    CU_ASSERT_FALSE(is_known(known, "a.png", 10));
    sluice_index_known_close(known);
    CU_ASSERT_EQUAL(access("/dev/null.progress", F_OK), -1);
}
