#include "datasets/jpeg_index/jpeg_indexer.h"

#include "base/buf.h"
#include "datasets/jpeg_index/jpeg_index_file.h"
#include "image/codecs/codec.h"
#include "image/jpeg/index.h"
#include "support/capture.h"
#include "support/test.h"

#define NUM_FILES 4

/* Two JPEGs, a progressive one and a PNG. */
static struct sluice_buf *files[NUM_FILES];
static const char *const names[NUM_FILES] = {"a/0.jpg", "a/1.jpg", "b/2.jpg", "b/3.png"};
static struct stat stats[NUM_FILES];
static char path[1024];

TEST(make_files)
{
    uint8_t pixels[40 * 30 * 3];
    for (size_t i = 0; i < sizeof(pixels); i++)
        pixels[i] = (uint8_t)(i * i / 50);
    for (int i = 0; i < 3; i++) {
        const struct sluice_jpeg_encode_options options = {.quality = 50 + i,
                                                           .is_progressive = i == 2};
        REQUIRE_OK(sluice_jpeg_encode(pixels, 40, 30, &options, &files[i], NULL));
    }
    REQUIRE_OK(sluice_png_encode(pixels, 40, 30, 1, &files[3], NULL));
    for (int i = 0; i < NUM_FILES; i++) {
        stats[i].st_size = (off_t)files[i]->len;
        stats[i].st_mtim = (struct timespec){.tv_sec = 1700000000 + i, .tv_nsec = 17};
    }
}

static struct sluice_jpeg_indexer_summary run(uint32_t step)
{
    struct sluice_jpeg_indexer *indexer = NULL;
    struct sluice_jpeg_indexer_summary summary = {0};
    REQUIRE_OK(sluice_jpeg_indexer_create(path, step, NUM_FILES, &indexer, NULL));
    for (int i = 0; i < NUM_FILES; i++)
        CHECK_OK(sluice_jpeg_indexer_add(indexer, names[i], &stats[i], files[i], NULL));
    CHECK_OK(sluice_jpeg_indexer_commit(indexer, &summary, NULL));
    sluice_jpeg_indexer_destroy(indexer);
    return summary;
}

static sluice_status check(int i, struct sluice_err *err)
{
    struct sluice_jpeg_index_file *file = NULL;
    REQUIRE_OK(sluice_jpeg_index_file_open(path, &file, NULL));
    const sluice_status status =
        sluice_jpeg_indexer_check(file, names[i], &stats[i], files[i], err);
    sluice_jpeg_index_file_close(file);
    return status;
}

TEST(unchanged_files_keep_their_entries)
{
    struct sluice_jpeg_indexer_summary summary = run(0);
    CU_ASSERT(summary.made == 2 && summary.kept == 0 && summary.without == 2);
    const uint64_t bytes = summary.bytes;
    summary = run(0);
    CU_ASSERT(summary.made == 0 && summary.kept == 2 && summary.without == 2);
    CU_ASSERT_EQUAL(summary.bytes, bytes);
    /* Another time, another length, another step. */
    stats[0].st_mtim.tv_nsec++;
    summary = run(0);
    CU_ASSERT(summary.made == 1 && summary.kept == 1);
    struct sluice_buf *longer;
    REQUIRE_OK(sluice_buf_create(NULL, files[1]->len + 1, &longer, NULL));
    memcpy(longer->data, files[1]->data, files[1]->len);
    longer->data[files[1]->len] = 0;
    longer->len = files[1]->len + 1;
    sluice_buf_unref(files[1]);
    files[1] = longer;
    stats[1].st_size++;
    summary = run(0);
    CU_ASSERT(summary.made == 1 && summary.kept == 1);
    summary = run(3);
    CU_ASSERT(summary.made == 2 && summary.kept == 0);
    for (int i = 0; i < NUM_FILES; i++)
        CHECK_OK(check(i, NULL));
}

TEST(a_damaged_index_is_made_anew)
{
    (void)run(0);
    size_t len;
    uint8_t *bytes = sluice_test_read_file(path, &len);
    bytes[len - 1] ^= 1;
    sluice_test_write_file(path, bytes, len);
    static struct sluice_test_output output;
    sluice_test_capture_begin();
    struct sluice_jpeg_indexer_summary summary = run(0);
    sluice_test_capture_end(&output);
    CU_ASSERT(summary.made == 2 && summary.kept == 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, path));
    /* One entry alone. */
    bytes[len - 1] ^= 1;
    bytes[60] ^= 1;
    sluice_test_write_file(path, bytes, len);
    summary = run(0);
    CU_ASSERT(summary.made == 1 && summary.kept == 1);
    free(bytes);
}

TEST(what_is_stale_or_not_the_files_is_found)
{
    (void)run(0);
    stats[0].st_mtim.tv_sec++;
    CHECK_FAILS(SLUICE_E_CORRUPT, "a/0.jpg: its index is stale", check(0, sluice_test_err()));
    stats[0].st_mtim.tv_sec--;
    CHECK_OK(check(0, NULL));
    /* The same length and time, other bytes. */
    files[0]->data[files[0]->len / 2] ^= 1;
    CHECK_FAILS(SLUICE_E_CORRUPT, "a/0.jpg: its index is not that of the file",
                check(0, sluice_test_err()));
    files[0]->data[files[0]->len / 2] ^= 1;
}

int main(void)
{
    snprintf(path, sizeof(path), "%s/index.bin", sluice_test_dir());
    const int rc = sluice_test_main();
    for (int i = 0; i < NUM_FILES; i++)
        sluice_buf_unref(files[i]);
    return rc;
}
