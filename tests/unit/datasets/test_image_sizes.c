#include "datasets/manifest/image_sizes.h"

#include "base/buf.h"
#include "base/log.h"
#include "datasets/manifest/manifest.h"
#include "image/codecs/codec.h"
#include "store/store.h"

#include "support/test.h"

#define MAX_FILES 6

/* A store of files in memory. */
struct memory_store {
    struct sluice_store store;
    struct sluice_buf *files[MAX_FILES]; /* "0.jpg", "1.jpg", ... */
    bool is_remote;
    sluice_status fails;        /* of file 1 */
    _Atomic unsigned num_reads; /* threads read side by side */
    _Atomic uint64_t read_bytes;
};

static sluice_status memory_read(struct sluice_store *store, const struct sluice_store_read *read,
                                 struct sluice_buf **file, struct sluice_err *err)
{
    struct memory_store *m = SLUICE_CONTAINER_OF(store, struct memory_store, store);
    const unsigned i = (unsigned)(read->key[0] - '0');
    struct sluice_file_part part;
    unsigned num_parts;
    m->num_reads++;
    if (i == 1 && m->fails != SLUICE_OK)
        return sluice_fail(err, m->fails, "the network is gone");
    if (!m->files[i])
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "no such file");
    REQUIRE_OK(read->choose(read->ctx, m->files[i]->len, 0, &part, &num_parts, err));
    CU_ASSERT_EQUAL(num_parts, 1);
    m->read_bytes += part.to - part.from;
    /* What was not asked for is undefined. */
    REQUIRE_OK(sluice_buf_create(NULL, m->files[i]->len, file, err));
    memset((*file)->data, 0xA5, m->files[i]->len);
    memcpy((*file)->data, m->files[i]->data, part.to);
    (*file)->len = m->files[i]->len;
    return SLUICE_OK;
}

static void memory_limits(struct sluice_store *store, struct sluice_store_limits *limits)
{
    const struct memory_store *m = SLUICE_CONTAINER_OF(store, struct memory_store, store);
    *limits = (struct sluice_store_limits){.parallel_reads = 3, .is_remote = m->is_remote};
}

static struct memory_store open_memory(void)
{
    return (struct memory_store){.store = {.read = memory_read, .limits = memory_limits}};
}

static void close_memory(struct memory_store *m)
{
    for (size_t i = 0; i < MAX_FILES; i++)
        sluice_buf_unref(m->files[i]);
}

static struct sluice_buf *make_jpeg(uint32_t width, uint32_t height)
{
    uint8_t *pixels = calloc((size_t)width * height, 3);
    struct sluice_buf *file = NULL;
    REQUIRE_OK(sluice_jpeg_encode(pixels, width, height, &(struct sluice_jpeg_encode_options){0},
                                  &file, NULL));
    free(pixels);
    return file;
}

/* Puts `len` bytes into the file at `at`. */
static struct sluice_buf *insert(struct sluice_buf *file, size_t at, const void *bytes, size_t len)
{
    struct sluice_buf *longer = NULL;
    REQUIRE_OK(sluice_buf_create(NULL, file->len + len, &longer, NULL));
    memcpy(longer->data, file->data, at);
    memcpy(longer->data + at, bytes, len);
    memcpy(longer->data + at + len, file->data + at, file->len - at);
    longer->len = file->len + len;
    sluice_buf_unref(file);
    return longer;
}

/* An APP2 of 60,000 bytes: more than is read at first. */
static struct sluice_buf *put_profile(struct sluice_buf *file)
{
    static uint8_t segment[60002] = {0xFF, 0xE2, 60000 >> 8, 60000 & 0xFF};
    return insert(file, 2, segment, sizeof(segment));
}

#define EXIF "II*\0\10\0\0\0\1\0\22\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0" /* orientation 6 */
static struct sluice_buf *put_exif(struct sluice_buf *file)
{
    static const char segment[] = "\xFF\xE1\0\x22"
                                  "Exif\0\0" EXIF;
    return insert(file, 2, segment, 2 + 0x22);
}

static struct sluice_manifest *make_list(size_t num, uint32_t width, uint32_t height)
{
    static const char *const paths[MAX_FILES] = {"0.jpg", "1.jpg", "2.jpg",
                                                 "3.jpg", "4.jpg", "5.jpg"};
    static const char *const classes[] = {""};
    struct sluice_manifest_entry entries[MAX_FILES] = {{0}};
    struct sluice_manifest *manifest = NULL;
    for (size_t i = 0; i < num; i++)
        entries[i] = (struct sluice_manifest_entry){
            .path = paths[i], .bytes = 1, .width = width, .height = height};
    REQUIRE_OK(sluice_manifest_create(entries, num, classes, 1, &manifest, NULL));
    return manifest;
}

static void check_size(const struct sluice_image_sizes *sizes, size_t i, uint32_t width,
                       uint32_t height, unsigned orientation)
{
    struct sluice_image_size size;
    CU_ASSERT(sluice_image_sizes_get(sizes, i, &size));
    CU_ASSERT_EQUAL(size.width, width);
    CU_ASSERT_EQUAL(size.height, height);
    CU_ASSERT_EQUAL(size.orientation, orientation);
}

TEST(sizes_come_from_the_heads_of_files)
{
    struct memory_store m = open_memory();
    m.files[0] = make_jpeg(401, 300);
    m.files[1] = put_profile(make_jpeg(30, 40)); /* the whole file is needed */
    m.files[2] = put_exif(make_jpeg(50, 20));    /* not turned: that is not asked for */
    struct sluice_manifest *list = make_list(3, 0, 0);
    struct sluice_image_sizes *sizes = NULL;
    struct sluice_image_size size;
    const struct sluice_image_sizes_source source = {
        .manifest = list, .store = &m.store, .num_threads = 1};
    REQUIRE_OK(sluice_image_sizes_create(3, false, &sizes, NULL));
    CU_ASSERT(!sluice_image_sizes_get(sizes, 0, &size));
    CU_ASSERT(sluice_image_sizes_are_missing(list, false));
    REQUIRE_OK(sluice_image_sizes_read(sizes, &source, NULL));
    check_size(sizes, 0, 401, 300, 1);
    check_size(sizes, 1, 30, 40, 1);
    check_size(sizes, 2, 50, 20, 1);
    CU_ASSERT_EQUAL(m.num_reads, 4);
    REQUIRE_OK(sluice_image_sizes_read(sizes, &source, NULL)); /* all are known */
    CU_ASSERT_EQUAL(m.num_reads, 4);
    sluice_image_sizes_destroy(sizes);
    sluice_manifest_destroy(list);
    close_memory(&m);
}

TEST(sizes_of_the_list_are_taken_without_a_read)
{
    struct memory_store m = open_memory();
    struct sluice_manifest *list = make_list(2, 70, 80);
    struct sluice_image_sizes *sizes = NULL;
    const struct sluice_image_sizes_source source = {.manifest = list, .store = &m.store};
    CU_ASSERT(!sluice_image_sizes_are_missing(list, false));
    CU_ASSERT(sluice_image_sizes_are_missing(list, true));
    REQUIRE_OK(sluice_image_sizes_create(2, false, &sizes, NULL));
    REQUIRE_OK(sluice_image_sizes_read(sizes, &source, NULL));
    check_size(sizes, 1, 70, 80, 1);
    CU_ASSERT_EQUAL(m.num_reads, 0);
    sluice_image_sizes_destroy(sizes);
    sluice_manifest_destroy(list);
}

/* A PNG's EXIF may stand behind its pixels, and a JPEG's behind another long segment. */
TEST(orientations_are_those_of_the_whole_file)
{
    enum { SIDE = 150 };
    struct memory_store m = open_memory();
    static uint8_t pixels[SIDE * SIDE * 3];
    uint32_t random = 1;
    for (size_t i = 0; i < sizeof(pixels); i++)
        pixels[i] = (uint8_t)((random = random * 1664525u + 1013904223u) >> 24);
    m.files[0] = put_exif(make_jpeg(60, 20));
    m.files[1] = put_profile(put_exif(make_jpeg(50, 20)));
    REQUIRE_OK(sluice_png_encode(pixels, SIDE, SIDE, 1, &m.files[2], NULL));
    CU_ASSERT_FATAL(m.files[2]->len > 40000);
    static const char chunk[] = "\0\0\0\x1A"
                                "eXIf" EXIF "\0\0\0\0";
    m.files[2] = insert(m.files[2], m.files[2]->len - 12, chunk, 4 + 4 + 0x1A + 4);
    m.files[3] = make_jpeg(40, 10);
    struct sluice_manifest *list = make_list(4, 9, 9); /* what the list says does not do */
    struct sluice_image_sizes *sizes = NULL;
    const struct sluice_image_sizes_source source = {.manifest = list, .store = &m.store};
    REQUIRE_OK(sluice_image_sizes_create(4, true, &sizes, NULL));
    CU_ASSERT(sluice_image_sizes_is_upright(sizes));
    REQUIRE_OK(sluice_image_sizes_read(sizes, &source, NULL));
    check_size(sizes, 0, 60, 20, 6);
    check_size(sizes, 1, 50, 20, 6);
    check_size(sizes, 2, SIDE, SIDE, 6);
    check_size(sizes, 3, 40, 10, 1);
    sluice_image_sizes_destroy(sizes);
    sluice_manifest_destroy(list);
    close_memory(&m);
}

TEST(files_without_a_valid_header_have_no_size)
{
    struct memory_store m = open_memory();
    m.files[0] = make_jpeg(60, 20);
    REQUIRE_OK(sluice_buf_create(NULL, 50000, &m.files[2], NULL));
    memcpy(m.files[2]->data, m.files[0]->data, 20);
    memset(m.files[2]->data + 20, 0, 50000 - 20);
    m.files[2]->len = 50000;
    struct sluice_manifest *list = make_list(3, 0, 0); /* file 1 is missing */
    struct sluice_image_sizes *sizes = NULL;
    const struct sluice_image_sizes_source source = {.manifest = list, .store = &m.store};
    REQUIRE_OK(sluice_image_sizes_create(3, false, &sizes, NULL));
    REQUIRE_OK(sluice_image_sizes_read(sizes, &source, NULL));
    check_size(sizes, 0, 60, 20, 1);
    check_size(sizes, 1, 0, 0, 1);
    check_size(sizes, 2, 0, 0, 1);
    sluice_image_sizes_destroy(sizes);
    sluice_manifest_destroy(list);
    close_memory(&m);
}

TEST(a_store_that_fails_is_asked_again_for_what_is_missing)
{
    struct memory_store m = open_memory();
    for (size_t i = 0; i < 3; i++)
        m.files[i] = make_jpeg(10 + (uint32_t)i, 20);
    m.is_remote = true;
    m.fails = SLUICE_E_IO;
    atomic_bool is_cancelled = true;
    struct sluice_manifest *list = make_list(3, 0, 0);
    struct sluice_image_sizes *sizes = NULL;
    struct sluice_image_sizes_source source = {
        .manifest = list, .store = &m.store, .num_threads = 1, .is_cancelled = &is_cancelled};
    REQUIRE_OK(sluice_image_sizes_create(3, false, &sizes, NULL));
    CHECK_FAILS(SLUICE_E_CLOSED, "stopped",
                sluice_image_sizes_read(sizes, &source, sluice_test_err()));
    CU_ASSERT_EQUAL(m.num_reads, 0);
    is_cancelled = false;
    CHECK_FAILS(SLUICE_E_IO, "1.jpg: the network is gone",
                sluice_image_sizes_read(sizes, &source, sluice_test_err()));
    CU_ASSERT_EQUAL(m.num_reads, 2);
    m.fails = SLUICE_OK;
    REQUIRE_OK(sluice_image_sizes_read(sizes, &source, NULL));
    CU_ASSERT_EQUAL(m.num_reads, 4);
    check_size(sizes, 0, 10, 20, 1);
    check_size(sizes, 2, 12, 20, 1);
    sluice_image_sizes_destroy(sizes);
    sluice_manifest_destroy(list);
    close_memory(&m);
}

TEST(sizes_from_outside_are_checked)
{
    struct sluice_image_sizes *sizes = NULL;
    REQUIRE_OK(sluice_image_sizes_create(1, true, &sizes, NULL));
    sluice_image_sizes_set(sizes, 0, &(struct sluice_image_size){70000, 5, 9});
    check_size(sizes, 0, 0, 0, 1);
    sluice_image_sizes_set(sizes, 0, &(struct sluice_image_size){65535, 65535, 8});
    check_size(sizes, 0, 65535, 65535, 8);
    sluice_image_sizes_destroy(sizes);
}

int main(void)
{
    sluice_log_set_level(SLUICE_LOG_ERROR);
    return sluice_test_main();
}
