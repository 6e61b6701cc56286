#include "datasets/manifest/binary.h"

#include "datasets/manifest/binary_format.h"
#include "manifest_rows.h"
#include "support/capture.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Linked with --wrap: a read that comes in pieces. */
ssize_t __real_pread(int fd, void *data, size_t len, off_t offset);
ssize_t __wrap_pread(int fd, void *data, size_t len, off_t offset);

static size_t max_read = SIZE_MAX;

ssize_t __wrap_pread(int fd, void *data, size_t len, off_t offset)
{
    return __real_pread(fd, data, len < max_read ? len : max_read, offset);
}

static void write_both(const char *name)
{
    struct sluice_manifest *manifest = test_manifest();
    REQUIRE_OK(sluice_manifest_write(manifest, test_path(name), NULL));
    REQUIRE_OK(sluice_manifest_write_binary(manifest, test_path(name), NULL));
    sluice_manifest_destroy(manifest);
}

TEST(maps_what_was_written)
{
    write_both("m.tsv");
    struct sluice_manifest *manifest = test_manifest(), *read = NULL;
    REQUIRE_OK(sluice_manifest_read(test_path("m.tsv"), &read, NULL));
    CU_ASSERT_PTR_NOT_NULL(read->map);
    CU_ASSERT_EQUAL_FATAL(read->num_entries, TEST_ROWS);
    CU_ASSERT_EQUAL_FATAL(read->num_classes, 3);
    for (size_t i = 0; i < 3; i++)
        CU_ASSERT_STRING_EQUAL(read->classes[i], test_classes[i]);
    for (size_t i = 0; i < TEST_ROWS; i++) {
        const struct sluice_manifest_entry got = sluice_manifest_at(read, i);
        test_same_row(&got, &test_rows[i]);
    }
    const struct sluice_hash128 a = sluice_manifest_id(manifest), b = sluice_manifest_id(read);
    CU_ASSERT(a.high == b.high && a.low == b.low);
    CU_ASSERT(sluice_manifest_has_members(read));
    CU_ASSERT(sluice_manifest_memory(read) < sluice_manifest_memory(manifest));
    sluice_manifest_destroy(manifest);
    sluice_manifest_destroy(read);
}

/* By cp, or rsync --inplace. */
TEST(what_is_overwritten_in_place_stays_as_it_was_read)
{
    const char *tmp = getenv("TMPDIR");
    char *kept = tmp ? strdup(tmp) : NULL;
    struct sluice_manifest *manifest = test_manifest();
    for (int is_memory = 0; is_memory < 2; is_memory++) {
        struct sluice_manifest *read = NULL;
        size_t len;
        write_both("o.tsv");
        setenv("TMPDIR", is_memory ? "/nowhere" : sluice_test_dir(), 1);
        REQUIRE_OK(sluice_manifest_read(test_path("o.tsv"), &read, NULL));
        CU_ASSERT_PTR_NOT_NULL_FATAL(read->map);
        CU_ASSERT(!is_memory || !read->is_file_mapped); /* not every file system has O_TMPFILE */
        uint8_t *bytes = sluice_test_read_file(test_path("o.bin"), &len);
        const int fd = open(test_path("o.bin"), O_WRONLY);
        memset(bytes, 0xff, len);
        CU_ASSERT_EQUAL(write(fd, bytes, len), (ssize_t)len);
        for (int is_cut = 0; is_cut < 2; is_cut++) {
            for (size_t i = 0; i < TEST_ROWS; i++) {
                const struct sluice_manifest_entry got = sluice_manifest_at(read, i);
                test_same_row(&got, &test_rows[i]);
            }
            sluice_manifest_rest(read);
            CU_ASSERT_EQUAL(ftruncate(fd, 0), 0);
        }
        close(fd);
        free(bytes);
        sluice_manifest_destroy(read);
    }
    if (kept)
        setenv("TMPDIR", kept, 1);
    else
        unsetenv("TMPDIR");
    free(kept);
    sluice_manifest_destroy(manifest);
}

TEST(maps_what_is_read_in_pieces)
{
    struct sluice_manifest *read = NULL;
    write_both("p.tsv");
    max_read = 5;
    REQUIRE_OK(sluice_manifest_read(test_path("p.tsv"), &read, NULL));
    max_read = SIZE_MAX;
    CU_ASSERT_PTR_NOT_NULL(read->map);
    sluice_manifest_destroy(read);
}

/* Both files say of targets what was written, and so does the text alone. */
static void expect_targets(struct sluice_manifest *manifest)
{
    const struct sluice_hash128 id = sluice_manifest_id(manifest);
    REQUIRE_OK(sluice_manifest_write(manifest, test_path("g.tsv"), NULL));
    REQUIRE_OK(sluice_manifest_write_binary(manifest, test_path("g.tsv"), NULL));
    for (int is_text = 0; is_text < 2; is_text++) {
        struct sluice_manifest *read = NULL;
        REQUIRE_OK(sluice_manifest_read(test_path("g.tsv"), &read, NULL));
        CU_ASSERT_EQUAL((read->map == NULL), is_text);
        CU_ASSERT(sluice_fields_are_same(&read->fields, &manifest->fields));
        CU_ASSERT_EQUAL(sluice_manifest_values_bytes(read), sluice_manifest_values_bytes(manifest));
        const struct sluice_hash128 read_id = sluice_manifest_id(read);
        CU_ASSERT(read_id.high == id.high && read_id.low == id.low);
        for (size_t i = 0; i < TEST_ROWS; i++) {
            const struct sluice_manifest_entry got = sluice_manifest_at(read, i),
                                               want = sluice_manifest_at(manifest, i);
            test_same_row(&got, &want);
            CU_ASSERT(manifest->fields.of[0].type.dim == 0 ||
                      (uintptr_t)got.values % sizeof(float) == 0);
        }
        sluice_manifest_destroy(read);
        unlink(test_path("g.bin"));
    }
    sluice_manifest_destroy(manifest);
}

TEST(targets_come_back)
{
    expect_targets(test_manifest_of_vectors());
    expect_targets(test_manifest_of_bytes(false));
    expect_targets(test_manifest_of_bytes(true));
    struct sluice_manifest *named = test_manifest_of_bytes(false);
    strcpy(named->fields.of[0].name, "caption");
    expect_targets(named);
}

TEST(several_fields_come_back)
{
    struct sluice_manifest *manifest = test_manifest_of_fields();
    size_t bytes = 0;
    for (size_t i = 0; i < TEST_ROWS; i++)
        bytes += manifest->rows[i].values_bytes;
    CU_ASSERT_EQUAL(sluice_manifest_values_bytes(manifest), bytes);
    expect_targets(manifest);
    manifest = test_manifest_of_vectors();
    strcpy(manifest->fields.of[0].name, "y");
    expect_targets(manifest);
}

/* What a read of the text beside it made of it: the log. */
static void expect_text(const char *name, const char *warning)
{
    struct sluice_manifest *read = NULL;
    struct sluice_test_output output;
    sluice_test_capture_begin();
    const sluice_status status = sluice_manifest_read(test_path(name), &read, NULL);
    sluice_test_capture_end(&output);
    REQUIRE_OK(status);
    CU_ASSERT_PTR_NULL(read->map);
    CU_ASSERT_EQUAL(read->num_entries, TEST_ROWS);
    if (warning)
        CU_ASSERT_PTR_NOT_NULL(strstr(output.err, warning));
    if (!warning)
        CU_ASSERT_STRING_EQUAL(output.err, "");
    sluice_manifest_destroy(read);
}

TEST(every_damaged_byte_is_found_and_the_text_is_read)
{
    write_both("d.tsv");
    size_t len;
    uint8_t *bytes = sluice_test_read_file(test_path("d.bin"), &len);
    CU_ASSERT_FATAL(len > sizeof(struct sluice_binary_header));
    const struct sluice_manifest_expected any = {0};
    size_t num_taken = 0;
    for (size_t i = 0; i < len; i++) {
        struct sluice_manifest *read = NULL;
        bytes[i] ^= 0x10;
        sluice_test_write_file(test_path("d.bin"), bytes, len);
        bytes[i] ^= 0x10;
        if (sluice_manifest_map(test_path("d.bin"), &any, &read, NULL) == SLUICE_OK)
            num_taken++; /* padding between sections, which nobody reads */
        sluice_manifest_destroy(read);
    }
    CU_ASSERT(num_taken < 7 * SLUICE_BINARY_SECTIONS);
    bytes[sizeof(struct sluice_binary_header)] ^= 1;
    sluice_test_write_file(test_path("d.bin"), bytes, len);
    expect_text("d.tsv", "damaged");
    free(bytes);
}

/* Sets a number of the header or a section's first bytes, with hashes that are right. */
static sluice_status map_changed(struct sluice_manifest *manifest, uint32_t kind, uint32_t dim,
                                 enum sluice_binary_section section, uint64_t number,
                                 struct sluice_err *err)
{
    REQUIRE_OK(sluice_manifest_write(manifest, test_path("h.tsv"), NULL));
    REQUIRE_OK(sluice_manifest_write_binary(manifest, test_path("h.tsv"), NULL));
    sluice_manifest_destroy(manifest);
    size_t len;
    uint8_t *bytes = sluice_test_read_file(test_path("h.bin"), &len);
    struct sluice_binary_header header;
    memcpy(&header, bytes, sizeof(header));
    header.values_kind = kind;
    header.values_dim = dim;
    memcpy(bytes + header.sections[section].at, &number, sizeof(number));
    header.sections[section].hash =
        sluice_hash64(bytes + header.sections[section].at, header.sections[section].bytes);
    header.hash = sluice_hash64(&header, sizeof(header) - sizeof(header.hash));
    memcpy(bytes, &header, sizeof(header));
    sluice_test_write_file(test_path("h.bin"), bytes, len);
    free(bytes);
    struct sluice_manifest *read = NULL;
    const struct sluice_manifest_expected any = {0};
    const sluice_status status = sluice_manifest_map(test_path("h.bin"), &any, &read, err);
    sluice_manifest_destroy(read);
    return status;
}

TEST(damaged_targets_are_found)
{
    CHECK_OK(map_changed(test_manifest_of_vectors(), SLUICE_FIELD_VECTOR, 2, SLUICE_BINARY_VALUES,
                         0x3f800000, NULL));
    CHECK_FAILS(SLUICE_E_CORRUPT, "target",
                map_changed(test_manifest_of_vectors(), SLUICE_FIELD_VECTOR, 2,
                            SLUICE_BINARY_VALUES, 0x7fc00000, sluice_test_err()));
    CU_ASSERT_EQUAL(map_changed(test_manifest_of_vectors(), SLUICE_FIELD_VECTOR, 3,
                                SLUICE_BINARY_VALUES, 0, NULL),
                    SLUICE_E_CORRUPT);
    CU_ASSERT_EQUAL(map_changed(test_manifest_of_vectors(), SLUICE_FIELD_BYTES, 0,
                                SLUICE_BINARY_VALUES, 0, NULL),
                    SLUICE_E_CORRUPT);
    CHECK_OK(map_changed(test_manifest_of_bytes(false), SLUICE_FIELD_BYTES, 0,
                         SLUICE_BINARY_VALUE_ENDS, 3, NULL)); /* the second has the rest */
    CU_ASSERT_EQUAL(map_changed(test_manifest_of_bytes(false), SLUICE_FIELD_BYTES, 0,
                                SLUICE_BINARY_VALUE_ENDS, 8, NULL),
                    SLUICE_E_CORRUPT);
    CU_ASSERT_EQUAL(
        map_changed(test_manifest_of_bytes(false), 3, 0, SLUICE_BINARY_VALUE_ENDS, 7, NULL),
        SLUICE_E_CORRUPT);
}

TEST(damaged_fields_are_found)
{
    const uint32_t len = 48; /* of the description: 3 lines, padded */
    CHECK_OK(map_changed(test_manifest_of_fields(), 3, len, SLUICE_BINARY_LABELS, 0, NULL));
    CU_ASSERT_EQUAL(
        map_changed(test_manifest_of_fields(), 3, len - 8, SLUICE_BINARY_LABELS, 0, NULL),
        SLUICE_E_CORRUPT);
    CU_ASSERT_EQUAL(map_changed(test_manifest_of_fields(), 3, 0, SLUICE_BINARY_LABELS, 0, NULL),
                    SLUICE_E_CORRUPT);
    CU_ASSERT_EQUAL(map_changed(test_manifest_of_fields(), 2, 0, SLUICE_BINARY_LABELS, 0, NULL),
                    SLUICE_E_CORRUPT);
    CU_ASSERT_EQUAL(map_changed(test_manifest_of_fields(), 3, len, SLUICE_BINARY_VALUES, 0, NULL),
                    SLUICE_E_CORRUPT);
    CHECK_FAILS(SLUICE_E_CORRUPT, "values that end too early",
                map_changed(test_manifest_of_fields(), 3, len, SLUICE_BINARY_VALUE_ENDS, 12,
                            sluice_test_err()));
}

TEST(a_cut_file_is_corrupt)
{
    write_both("c.tsv");
    size_t len;
    uint8_t *bytes = sluice_test_read_file(test_path("c.bin"), &len);
    const struct sluice_manifest_expected any = {0};
    for (size_t cut = 0; cut < len; cut++) {
        struct sluice_manifest *read = NULL;
        sluice_test_write_file(test_path("c.bin"), bytes, cut);
        CU_ASSERT_EQUAL_FATAL(sluice_manifest_map(test_path("c.bin"), &any, &read, NULL),
                              SLUICE_E_CORRUPT);
    }
    free(bytes);
    expect_text("c.tsv", "damaged");
}

TEST(belongs_to_the_text_beside_it_alone)
{
    write_both("t.tsv");
    struct sluice_manifest *manifest = test_manifest();
    manifest->rows[0].bytes = 7;
    REQUIRE_OK(sluice_manifest_write(manifest, test_path("t.tsv"), NULL));
    sluice_manifest_destroy(manifest);
    expect_text("t.tsv", "made of another list");
    CU_ASSERT_EQUAL(unlink(test_path("t.bin")), 0);
    expect_text("t.tsv", NULL);
}

TEST(another_dataset_or_version_is_told_from_damage)
{
    write_both("v.tsv");
    struct sluice_manifest *read = NULL;
    const struct sluice_hash128 other = {1, 2};
    const struct sluice_manifest_expected expected = {.id = &other}, any = {0};
    CU_ASSERT_EQUAL(sluice_manifest_map(test_path("v.bin"), &expected, &read, NULL),
                    SLUICE_E_STALE);
    CU_ASSERT_EQUAL(sluice_manifest_map(test_path("nothing.bin"), &any, &read, NULL),
                    SLUICE_E_NOT_FOUND);
    size_t len;
    uint8_t *bytes = sluice_test_read_file(test_path("v.bin"), &len);
    bytes[8] = SLUICE_BINARY_VERSION_FIELDS + 1;
    sluice_test_write_file(test_path("v.bin"), bytes, len);
    CU_ASSERT_EQUAL(sluice_manifest_map(test_path("v.bin"), &any, &read, NULL),
                    SLUICE_E_UNSUPPORTED);
    free(bytes);
    CU_ASSERT_PTR_NULL(read);
}
