#include "datasets/jpeg_index/indexed_file.h"

#include "base/buf.h"
#include "datasets/jpeg_index/jpeg_index_file.h"
#include "image/codecs/codec.h"
#include "support/test.h"

#define TRAIN "decode,random_resized_crop=24,hflip=0.5,to_tensor,normalize=imagenet"
#define MTIME 1700000000000000017

static struct sluice_buf *file;
static struct sluice_jpeg_index_file *indexes;
static struct sluice_pipeline *pipeline;

/* A JPEG, its entry under a.jpg, and another one, damaged, under b.jpg. */
TEST(make)
{
    const uint32_t width = 200, height = 1000;
    uint8_t *pixels = malloc((size_t)width * height * 3);
    CU_ASSERT_PTR_NOT_NULL_FATAL(pixels);
    uint32_t state = 1;
    for (size_t i = 0; i < (size_t)width * height * 3; i++)
        pixels[i] = (uint8_t)((state = state * 1664525 + 1013904223) >> 25);
    const struct sluice_jpeg_encode_options options = {.quality = 95};
    REQUIRE_OK(sluice_jpeg_encode(pixels, width, height, &options, &file, NULL));
    free(pixels);
    const char *path = sluice_test_path("index.bin");
    struct sluice_jpeg_index index;
    struct sluice_buf *entry;
    struct sluice_jpeg_index_writer *writer;
    uint64_t bytes;
    REQUIRE_OK(sluice_jpeg_index_build(file->data, file->len, MTIME, 8, &index, NULL));
    REQUIRE_OK(sluice_jpeg_index_write(&index, &entry, NULL));
    REQUIRE_OK(sluice_jpeg_index_writer_create(path, 8, 2, &writer, NULL));
    REQUIRE_OK(sluice_jpeg_index_writer_add(writer, "a.jpg", entry, NULL));
    entry->data[20] ^= 1;
    REQUIRE_OK(sluice_jpeg_index_writer_add(writer, "b.jpg", entry, NULL));
    REQUIRE_OK(sluice_jpeg_index_writer_commit(writer, &bytes, NULL));
    sluice_jpeg_index_writer_destroy(writer);
    sluice_jpeg_index_clear(&index);
    sluice_buf_unref(entry);
    REQUIRE_OK(sluice_jpeg_index_file_open(path, &indexes, NULL));
    REQUIRE_OK(sluice_pipeline_parse(TRAIN, &pipeline, NULL));
}

TEST(an_index_is_used_for_its_file_alone)
{
    static const struct {
        const char *path;
        int more_bytes, more_ns;
        enum sluice_index_use use;
    } cases[] = {
        {"a.jpg", 0, 0, SLUICE_INDEX_HIT},     {"a.jpg", 1, 0, SLUICE_INDEX_STALE},
        {"a.jpg", 0, 1, SLUICE_INDEX_STALE},   {"b.jpg", 0, 0, SLUICE_INDEX_STALE},
        {"c.jpg", 0, 0, SLUICE_INDEX_MISSING},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_jpeg_index *index = NULL;
        CU_ASSERT_EQUAL(sluice_indexed_file_find(indexes, cases[i].path,
                                                 file->len + (size_t)cases[i].more_bytes,
                                                 MTIME + cases[i].more_ns, NULL, &index),
                        cases[i].use);
        CU_ASSERT_EQUAL(index != NULL, cases[i].use == SLUICE_INDEX_HIT);
        sluice_jpeg_index_destroy(index);
    }
    struct sluice_jpeg_index *index = NULL;
    CU_ASSERT_EQUAL(sluice_indexed_file_find(NULL, "a.jpg", file->len, MTIME, NULL, &index),
                    SLUICE_INDEX_NONE);
    CU_ASSERT_PTR_NULL(index);
}

static struct sluice_buf *copy_of(const struct sluice_buf *of)
{
    struct sluice_buf *copy = NULL;
    REQUIRE_OK(sluice_buf_create(NULL, of->len, &copy, NULL));
    memcpy(copy->data, of->data, of->len);
    copy->len = of->len;
    return copy;
}

/* Every form that looks at a box alone: read in parts, it is made as from the whole. */
TEST(parts_give_what_the_whole_gives)
{
    static const struct {
        unsigned end;
        enum sluice_form form;
        bool is_partial;
    } cases[] = {
        {0, SLUICE_FORM_JPEG_CROP, true}, {1, SLUICE_FORM_U8_PACKED, true},
        {3, SLUICE_FORM_U8, true},        {5, SLUICE_FORM_F32, true},
        {1, SLUICE_FORM_U8, false},       {0, SLUICE_FORM_RAW, false},
        {0, SLUICE_FORM_JPEG_ROWS, true},
    };
    struct sluice_scratch *scratch = NULL;
    REQUIRE_OK(sluice_scratch_create(NULL, &scratch, NULL));
    unsigned num_partial = 0;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        for (uint64_t id = 0; id < 20; id++) {
            const struct sluice_indexed_want want = {
                .indexes = indexes,
                .path = "a.jpg",
                .pipeline = pipeline,
                .key = {.seed = 3, .sample_id = id},
                .end = cases[i].end,
                .form = cases[i].form,
            };
            struct sluice_sample samples[2] = {
                {.key = want.key, .data = sluice_buf_ref(file)},
                {.key = want.key},
            };
            struct sluice_file_part parts[SLUICE_JPEG_INDEX_MAX_PARTS];
            unsigned num_parts = 0;
            CU_ASSERT_EQUAL_FATAL(sluice_indexed_file_plan(&want, file->len, MTIME,
                                                           &samples[1].jpeg_index, parts,
                                                           &num_parts),
                                  SLUICE_INDEX_HIT);
            REQUIRE_OK(sluice_buf_create(NULL, file->len, &samples[1].data, NULL));
            samples[1].data->len = file->len;
            memset(samples[1].data->data, 0xAA, file->len);
            for (unsigned k = 0; k < num_parts; k++)
                memcpy(samples[1].data->data + parts[k].from, file->data + parts[k].from,
                       parts[k].to - parts[k].from);
            const bool is_partial = samples[1].jpeg_index->is_partial;
            CU_ASSERT_EQUAL(sluice_indexed_file_has_holes(&samples[1]), is_partial);
            CU_ASSERT_FALSE(sluice_indexed_file_has_holes(&samples[0]));
            CU_ASSERT(is_partial ||
                      (num_parts == 1 && parts[0].from == 0 && parts[0].to == file->len));
            CU_ASSERT(cases[i].is_partial || !is_partial);
            num_partial += is_partial;
            if (want.form ==
                SLUICE_FORM_JPEG_ROWS) { /* of which the whole file needs an index, too */
                sluice_buf_unref(samples[0].data);
                samples[0].data = copy_of(file);
                CU_ASSERT_EQUAL(sluice_indexed_file_find(indexes, "a.jpg", file->len, MTIME, NULL,
                                                         &samples[0].jpeg_index),
                                SLUICE_INDEX_HIT);
            }
            for (int k = 0; k < 2; k++) {
                sluice_status status = SLUICE_OK;
                if (want.form == SLUICE_FORM_JPEG_CROP)
                    status =
                        sluice_pipeline_crop_jpeg(pipeline, scratch, &samples[k], false, 0, NULL);
                else if (want.form == SLUICE_FORM_JPEG_ROWS)
                    status = sluice_pipeline_take_rows(pipeline, NULL, &samples[k], NULL);
                else if (want.form == SLUICE_FORM_U8_PACKED)
                    status = sluice_pipeline_pack(pipeline, scratch, &samples[k], want.end, NULL);
                else
                    status = sluice_pipeline_run(pipeline, scratch, &samples[k], want.end, NULL);
                CU_ASSERT(status == SLUICE_OK || status == SLUICE_E_AGAIN);
            }
            if (!sluice_indexed_file_has_holes(&samples[1]))
                CU_ASSERT(samples[0].data->len == samples[1].data->len &&
                          memcmp(samples[0].data->data, samples[1].data->data,
                                 samples[0].data->len) == 0);
            sluice_sample_clear(&samples[0]);
            sluice_sample_clear(&samples[1]);
        }
    }
    CU_ASSERT(num_partial > 15);
    sluice_scratch_destroy(scratch);
}

#define UPRIGHT "decode,exif_transpose,random_resized_crop=24,hflip=0.5,to_tensor"

/* `file` with an orientation in its EXIF. */
static struct sluice_buf *with_orientation(uint8_t orientation)
{
    static const uint8_t exif[] = {0xFF, 0xE1, 0, 34, 'E', 'x', 'i', 'f', 0,    0, 'I', 'I',
                                   42,   0,    8, 0,  0,   0,   1,   0,   0x12, 1, 3,   0,
                                   1,    0,    0, 0,  0,   0,   0,   0,   0,    0, 0,   0};
    struct sluice_buf *made;
    REQUIRE_OK(sluice_buf_create(NULL, file->len + sizeof(exif), &made, NULL));
    made->len = file->len + sizeof(exif);
    memcpy(made->data, file->data, 2);
    memcpy(made->data + 2, exif, sizeof(exif));
    made->data[2 + 28] = orientation;
    memcpy(made->data + 2 + sizeof(exif), file->data + 2, file->len - 2);
    return made;
}

/* How many of 20 crops of the file are made from parts of it.  Each is as from the whole, or fails.
 */
static unsigned count_made_from_parts(const struct sluice_pipeline *upright,
                                      struct sluice_scratch *scratch,
                                      const struct sluice_buf *whole, const char *path)
{
    unsigned num = 0;
    for (uint64_t id = 0; id < 20; id++) {
        const struct sluice_indexed_want want = {
            .indexes = indexes,
            .path = path,
            .pipeline = upright,
            .key = {.seed = 3, .sample_id = id},
            .end = 4,
            .form = SLUICE_FORM_U8,
        };
        struct sluice_sample samples[2] = {{.key = want.key}, {.key = want.key}};
        struct sluice_file_part parts[SLUICE_JPEG_INDEX_MAX_PARTS] = {{0, whole->len}};
        unsigned num_parts = 1;
        CU_ASSERT_EQUAL_FATAL(sluice_indexed_file_plan(&want, whole->len, MTIME,
                                                       &samples[1].jpeg_index, parts, &num_parts),
                              SLUICE_INDEX_HIT);
        for (int k = 0; k < 2; k++) {
            REQUIRE_OK(sluice_buf_create(NULL, whole->len, &samples[k].data, NULL));
            samples[k].data->len = whole->len;
            memset(samples[k].data->data, 0xAA, whole->len);
            for (unsigned i = 0; k == 1 && i < num_parts; i++)
                memcpy(samples[k].data->data + parts[i].from, whole->data + parts[i].from,
                       parts[i].to - parts[i].from);
        }
        memcpy(samples[0].data->data, whole->data, whole->len);
        const bool is_partial = sluice_indexed_file_has_holes(&samples[1]);
        CHECK_OK(sluice_pipeline_run(upright, scratch, &samples[0], want.end, NULL));
        const sluice_status status =
            sluice_pipeline_run(upright, scratch, &samples[1], want.end, NULL);
        CU_ASSERT(status == SLUICE_OK ||
                  (is_partial && sluice_indexed_file_has_holes(&samples[1])));
        if (status == SLUICE_OK)
            CU_ASSERT(samples[0].data->len == samples[1].data->len &&
                      memcmp(samples[0].data->data, samples[1].data->data, samples[0].data->len) ==
                          0);
        num += is_partial && status == SLUICE_OK;
        sluice_sample_clear(&samples[0]);
        sluice_sample_clear(&samples[1]);
    }
    return num;
}

TEST(a_file_that_is_turned_is_made_from_what_was_read_or_fails)
{
    struct sluice_jpeg_index_file *of_others = indexes;
    struct sluice_jpeg_index_writer *writer;
    struct sluice_pipeline *upright;
    struct sluice_scratch *scratch = NULL;
    struct sluice_buf *turned[9] = {NULL};
    char name[16];
    uint64_t bytes;
    const char *path = sluice_test_path("turned.bin");
    REQUIRE_OK(sluice_pipeline_parse(UPRIGHT, &upright, NULL));
    REQUIRE_OK(sluice_scratch_create(NULL, &scratch, NULL));
    REQUIRE_OK(sluice_jpeg_index_writer_create(path, 8, 8, &writer, NULL));
    for (uint8_t orientation = 1; orientation <= 8; orientation++) {
        struct sluice_jpeg_index index;
        struct sluice_buf *entry;
        turned[orientation] = with_orientation(orientation);
        REQUIRE_OK(sluice_jpeg_index_build(turned[orientation]->data, turned[orientation]->len,
                                           MTIME, 8, &index, NULL));
        REQUIRE_OK(sluice_jpeg_index_write(&index, &entry, NULL));
        snprintf(name, sizeof(name), "%u.jpg", orientation);
        REQUIRE_OK(sluice_jpeg_index_writer_add(writer, name, entry, NULL));
        sluice_jpeg_index_clear(&index);
        sluice_buf_unref(entry);
    }
    REQUIRE_OK(sluice_jpeg_index_writer_commit(writer, &bytes, NULL));
    sluice_jpeg_index_writer_destroy(writer);
    REQUIRE_OK(sluice_jpeg_index_file_open(path, &indexes, NULL));
    for (unsigned orientation = 1; orientation <= 8; orientation++) {
        snprintf(name, sizeof(name), "%u.jpg", orientation);
        const unsigned num = count_made_from_parts(upright, scratch, turned[orientation], name);
        CU_ASSERT(orientation > 2 || num > 5); /* upright, or mirrored: the same rows */
        CU_ASSERT(orientation != 3 || num < 20);
        sluice_buf_unref(turned[orientation]);
    }
    sluice_jpeg_index_file_close(indexes);
    indexes = of_others;
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(upright);
}

int main(void)
{
    const int rc = sluice_test_main();
    sluice_jpeg_index_file_close(indexes);
    sluice_pipeline_destroy(pipeline);
    sluice_buf_unref(file);
    return rc;
}
