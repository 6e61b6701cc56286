/* Photographs as a loader makes batches of them on a GPU: cut or with an index, each row's hash
 * against that of the CPU's pipeline.
 *
 *     test_gpu_photos host | cuda
 *
 * All photographs on the device, and a part of them by the kernels' source on the host; there, too,
 * all with SLUICE_TORTURE=long. */

#include "base/buf.h"
#include "either_place.h"
#include "gpu/place.h"
#include "image/jpeg/index.h"
#include "image/resize.h"
#include "op/form.h"
#include "op/pipeline.h"
#include "support/test.h"

#include <dirent.h>

#define ROWS 32
#define NUM_EPOCHS 3

/* Every so many of the samples of the three epochs, on the host: some 3 s.  No multiple of 3, so
 * that all epochs are among them. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SHORT_STEP 23
#else
#define SHORT_STEP 5
#endif

/* What a server cuts for a GPU, unless it is told otherwise. */
#define USUAL_RESTART 8

struct paths {
    char **names;
    size_t num, room;
};

static void add_folder(struct paths *paths, const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[1024];
        if (entry->d_name[0] == '.' ||
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) >= (int)sizeof(path))
            continue;
        if (entry->d_type == DT_DIR) {
            add_folder(paths, path);
            continue;
        }
        const char *end = strrchr(entry->d_name, '.');
        if (!end ||
            (strcmp(end, ".jpg") != 0 && strcmp(end, ".jpeg") != 0 && strcmp(end, ".JPEG") != 0))
            continue;
        if (paths->num == paths->room) {
            paths->room = paths->room * 2 + 64;
            paths->names = realloc(paths->names, paths->room * sizeof(*paths->names));
        }
        if (!paths->names || !(paths->names[paths->num++] = strdup(path)))
            abort();
    }
    closedir(dir);
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_paths(struct paths *paths)
{
    for (size_t i = 0; i < paths->num; i++)
        free(paths->names[i]);
    free(paths->names);
}

/* One batch after the other in one lane. */
struct run {
    struct sluice_pipeline *pipeline;
    struct sluice_scratch *scratch;
    struct sluice_gpu_place *place;
    struct sluice_gpu_lane *lane;
    struct sluice_gpu_block *block;
    size_t row_bytes;
    uint8_t *want; /* a row and its label */
    const char *paths[ROWS];
    unsigned epochs[ROWS];
    uint32_t labels[ROWS];
    struct sluice_hash128 wanted[ROWS];
    uint32_t num_rows;
    struct sluice_jpeg_stretch stretch;
    unsigned num_cut, num_indexed, num_of_cpu, num_declined;
};

static void run_open(struct run *run, const char *pipeline)
{
    struct sluice_err err = {{0}};
    *run = (struct run){.num_rows = 0};
    if (sluice_pipeline_parse(pipeline, &run->pipeline, NULL) != SLUICE_OK ||
        sluice_scratch_create(&(struct sluice_scratch_options){.pool = NULL}, &run->scratch,
                              NULL) != SLUICE_OK)
        abort();
    const uint32_t side = sluice_pipeline_view_size(run->pipeline, 0).width;
    const struct sluice_gpu_place_options options = {
        .is_host = is_host,
        .max_rows = ROWS,
        .num_views = 1,
        .views = {{side, side}},
        .num_blocks = 1,
        .num_lanes = 1,
        .memory_bytes = (uint64_t)256 << 20,
    };
    const sluice_status status = sluice_gpu_place_create(&options, &run->place, &err);
    if (status != SLUICE_OK)
        fprintf(stderr, "%s\n", err.text);
    REQUIRE_OK(status);
    run->lane = sluice_gpu_place_lane(run->place, 0);
    run->block = sluice_gpu_place_take(run->place);
    run->row_bytes = sluice_pipeline_u8_bytes(run->pipeline);
    run->want = malloc(run->row_bytes + 8);
    if (!run->want)
        abort();
    sluice_gpu_lane_begin(run->lane, run->block, NULL);
}

static void run_close(struct run *run)
{
    sluice_gpu_block_give(run->block);
    sluice_gpu_place_destroy(run->place);
    sluice_scratch_destroy(run->scratch);
    sluice_pipeline_destroy(run->pipeline);
    sluice_jpeg_stretch_clear(&run->stretch);
    free(run->want);
}

static void finish_batch(struct run *run)
{
    sluice_status statuses[ROWS];
    struct sluice_hash128 hashes[ROWS];
    struct sluice_gpu_work work;
    struct sluice_err err = {{0}};
    REQUIRE_OK(sluice_gpu_lane_finish(run->lane, run->labels, statuses, hashes, &work, &err));
    CU_ASSERT_EQUAL(work.decoded, run->num_rows);
    for (uint32_t i = 0; i < run->num_rows; i++) {
        const bool is_equal = statuses[i] == SLUICE_OK && hashes[i].high == run->wanted[i].high &&
                              hashes[i].low == run->wanted[i].low;
        if (!is_equal)
            printf("\n%s, epoch %u: %s\n", run->paths[i], run->epochs[i],
                   sluice_status_name(statuses[i]));
        CU_ASSERT(is_equal);
    }
    run->num_rows = 0;
    sluice_gpu_lane_begin(run->lane, run->block, NULL);
}

/* The hash of the row that the CPU makes; false: it makes none. */
static bool make_on_cpu(struct run *run, const struct sluice_draw_key *key, struct sluice_buf *file,
                        uint32_t label, struct sluice_hash128 *hash)
{
    const uint64_t end = label; /* little endian */
    struct sluice_sample sample = {.key = *key, .data = sluice_buf_ref(file)};
    const bool is_made = sluice_pipeline_finish_u8(run->pipeline, run->scratch, &sample, run->want,
                                                   run->row_bytes, NULL) == SLUICE_OK;
    sluice_sample_clear(&sample);
    memcpy(run->want + run->row_bytes, &end, sizeof(end));
    *hash = sluice_hash128(run->want, run->row_bytes + sizeof(end));
    return is_made;
}

/* An index that serves, or NULL. */
static struct sluice_jpeg_index *make_index(const struct sluice_buf *file)
{
    struct sluice_jpeg_index *index = calloc(1, sizeof(*index));
    if (!index)
        abort();
    if (sluice_jpeg_index_build(file->data, file->len, 0, SLUICE_JPEG_INDEX_AUTO_STEP, index,
                                NULL) != SLUICE_OK) {
        free(index);
        return NULL;
    }
    if (sluice_gpu_index_serves(index, file->data, file->len))
        return index;
    sluice_jpeg_index_destroy(index);
    return NULL;
}

/* Makes the sample what the device decodes; false: it is the CPU's. */
static bool prepare(struct run *run, struct sluice_sample *sample, unsigned way, uint32_t restart,
                    struct sluice_gpu_request *request)
{
    if (way == 1)
        sample->jpeg_index = make_index(sample->data);
    if (!sample->jpeg_index && sluice_pipeline_cut_for_gpu(run->pipeline, run->scratch, sample,
                                                           restart, NULL) != SLUICE_OK)
        return false;
    static _Thread_local struct sluice_kernel_work work;
    if (!sluice_pipeline_kernel_work(run->pipeline, run->scratch, sample, 0, &work))
        return false;
    *request = (struct sluice_gpu_request){
        .box = work.box,
        .part = work.part,
        .is_flipped = work.is_mirrored,
        .calls = &work.calls,
        .row = request->row,
    };
    return true;
}

static void add_sample(struct run *run, const char *path, struct sluice_buf *file,
                       const struct sluice_draw_key *key, unsigned way)
{
    const uint32_t restart = way == 2 ? 1 + (uint32_t)key->sample_id % 16 : USUAL_RESTART;
    const uint32_t label = (uint32_t)key->sample_id * 977 + key->epoch;
    struct sluice_sample sample = {.key = *key, .data = sluice_buf_ref(file)};
    struct sluice_gpu_request request = {.row = 0};
    struct sluice_hash128 hash;
    /* What is no image, or not whole, is for the CPU to name. */
    if (make_on_cpu(run, key, file, label, &hash) &&
        prepare(run, &sample, way, restart, &request)) {
        struct sluice_err err = {{0}};
        const struct sluice_gpu_file given = {
            sample.data->data, sample.data->len,
            sluice_sample_form(&sample) == SLUICE_FORM_JPEG_CROP ? NULL : sample.jpeg_index};
        struct sluice_gpu_prepared prepared = {NULL, 0, 0};
        const sluice_status status = sluice_gpu_prepare(run->place, NULL, &given, &request,
                                                        &run->stretch, NULL, &prepared, &err);
        if (status == SLUICE_OK) {
            REQUIRE_OK(sluice_gpu_lane_decode(run->lane, &prepared, run->num_rows, NULL));
            sluice_gpu_prepared_clear(&prepared);
            run->num_cut += sluice_sample_form(&sample) == SLUICE_FORM_JPEG_CROP;
            run->num_indexed += !sample.coding;
            run->paths[run->num_rows] = path;
            run->epochs[run->num_rows] = key->epoch;
            run->labels[run->num_rows] = label;
            run->wanted[run->num_rows++] = hash;
        } else {
            CU_ASSERT_FATAL(status == SLUICE_E_UNSUPPORTED);
            run->num_declined++;
        }
    } else {
        run->num_of_cpu++;
    }
    sluice_sample_clear(&sample);
    if (run->num_rows == ROWS)
        finish_batch(run);
}

static void check_photos(const struct paths *paths, const char *pipeline)
{
    const size_t step = is_host && !sluice_test_is_long() ? SHORT_STEP : 1;
    struct run run;
    run_open(&run, pipeline);
    for (size_t i = 0; i < paths->num; i++) {
        struct sluice_buf *file = NULL;
        for (unsigned epoch = 0; epoch < NUM_EPOCHS; epoch++) {
            const size_t number = i * NUM_EPOCHS + epoch;
            if (number % step != 0)
                continue;
            if (!file) {
                size_t len;
                uint8_t *bytes = sluice_test_read_file(paths->names[i], &len);
                REQUIRE_OK(sluice_buf_create(NULL, len, &file, NULL));
                memcpy(file->data, bytes, len);
                file->len = len;
                free(bytes);
            }
            const struct sluice_draw_key key = {
                .seed = sluice_test_seed(), .epoch = epoch, .sample_id = i};
            if (step > 1) {
                add_sample(&run, paths->names[i], file, &key, (unsigned)(number / step) % 3);
                continue;
            }
            for (unsigned way = 0; way < 3; way++)
                add_sample(&run, paths->names[i], file, &key, way);
        }
        if (file)
            sluice_buf_unref(file);
    }
    finish_batch(&run);
    printf(
        "(%zu photographs: %u samples cut, %u by an index; %u are the CPU's, the decoder declined "
        "%u) ",
        paths->num, run.num_cut, run.num_indexed, run.num_of_cpu, run.num_declined);
    CU_ASSERT(run.num_cut > 0 && run.num_indexed > 0);
    CU_ASSERT(run.num_of_cpu + run.num_declined < run.num_cut);
    run_close(&run);
}

static void check_all(const char *pipeline)
{
    static const char *const folders[] = {"imagenet-200", "photos-1024"};
    struct paths paths = {.num = 0};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(folders); i++) {
        const char *folder = sluice_test_data(folders[i]);
        if (folder)
            add_folder(&paths, folder);
    }
    CU_ASSERT_PTR_NOT_NULL_FATAL(paths.names);
    qsort(paths.names, paths.num, sizeof(*paths.names), compare_paths);
    check_photos(&paths, pipeline);
    free_paths(&paths);
}

TEST(random_crops_of_photographs_are_the_cpus)
{
    check_all("decode,random_resized_crop=224,hflip,to_tensor,normalize=imagenet");
}

TEST(centres_of_photographs_are_the_cpus)
{
    check_all("decode,resize=256,center_crop=224,to_tensor,normalize=imagenet");
}

int main(int argc, char **argv)
{
    if (!sluice_test_data("imagenet-200") && !sluice_test_data("photos-1024"))
        sluice_test_skip("no photographs: neither imagenet-200 nor photos-1024 is in SLUICE_DATA");
    return either_place_main(argc, argv);
}
