/* The device's kernels of colours, blurs and warps: each row's hash against that of the CPU's
 * pipeline.
 *
 *     test_gpu_pixels host | cuda */

#include "base/buf.h"
#include "base/rng.h"
#include "either_place.h"
#include "gpu/place.h"
#include "jpeg_support.h"
#include "op/form.h"
#include "op/pipeline.h"
#include "support/test.h"

#define ROWS 16

/* What comes after a crop; those in brackets of CHOICES draw their ops. */
static const char *const ops[] = {
    "brightness=0-3",
    "contrast=0-3",
    "color=0-3",
    "sharpness=0-3",
    "hue=-0.5-0.5",
    "grayscale",
    "vflip",
    "channel_permute",
    "autocontrast",
    "equalize",
    "invert,solarize=100,posterize=3,solarize_add=40",
    "brightness=1.5,autocontrast,posterize=2,equalize,contrast=2,equalize",
    "pil_blur=0-4",
    "pil_blur=30-60",
    "tv_blur=0.1-3:kernel=23",
    "tv_blur=1-9:kernel=5",
    "rotate=-90-90:filter=nearest:fill=10/20/30",
    "rotate=-90-90:filter=bilinear:fill=255/0/7",
    "rotate=-90-90:filter=bicubic",
    "affine=-20-20:translate_x=-0.4-0.4:scale=0.5-2:shear_x=-30-30",
    "affine=-20-20:translate_x=-0.4-0.4:scale=0.5-2:shear_x=-30-30:filter=bilinear",
    "affine=-20-20:translate_x=-0.4-0.4:scale=0.5-2:shear_x=-30-30:filter=bicubic:fill=99",
    "shear_x=-0.9-0.9",
    "shear_y=-0.9-0.9:filter=random",
    "translate_x=-0.5-0.5",
    "translate_y=-0.5-0.5:filter=bicubic",
    "hflip,rotate=10,hflip,shear_x=0.3,hflip",
    "color_jitter=0.4:contrast=0.4:saturation=0.4:hue=0.1",
    "photometric_distort",
    "randaugment=2:magnitude=9",
    "auto_augment=svhn,auto_augment=originalr:mstd=0.5:filter=random",
    "rand_augment_timm=9:mstd=0.5:increasing=1:filter=random",
    "trivial_augment_wide:filter=bilinear",
    "hflip,one_of(grayscale,solarize=128,pil_blur=0.1-2),color_jitter=0.3:contrast=0.3",
};

struct run {
    struct sluice_pipeline *pipeline;
    struct sluice_scratch *scratch;
    struct sluice_gpu_place *place;
    struct sluice_gpu_lane *lane;
    size_t row_bytes;
    uint32_t num_rows, num_of_cpu;
    uint32_t labels[ROWS];
    struct sluice_hash128 wanted[ROWS];
    struct sluice_jpeg_stretch stretch;
};

static void run_open(struct run *run, const char *text)
{
    struct sluice_err err = {{0}};
    *run = (struct run){.num_rows = 0};
    if (sluice_pipeline_parse(text, &run->pipeline, &err) != SLUICE_OK)
        fprintf(stderr, "%s: %s\n", text, err.text);
    CU_ASSERT_PTR_NOT_NULL_FATAL(run->pipeline);
    if (sluice_scratch_create(NULL, &run->scratch, NULL) != SLUICE_OK)
        abort();
    const uint32_t side = sluice_pipeline_view_size(run->pipeline, 0).width;
    const struct sluice_gpu_place_options options = {
        .is_host = is_host,
        .max_rows = ROWS,
        .num_views = 1,
        .views = {{side, side}},
        .num_blocks = 1,
        .num_lanes = 1,
        .memory_bytes = (uint64_t)64 << 20,
    };
    REQUIRE_OK(sluice_gpu_place_create(&options, &run->place, &err));
    run->lane = sluice_gpu_place_lane(run->place, 0);
    run->row_bytes = sluice_pipeline_u8_bytes(run->pipeline);
}

static void run_close(struct run *run)
{
    sluice_gpu_place_destroy(run->place);
    sluice_scratch_destroy(run->scratch);
    sluice_pipeline_destroy(run->pipeline);
    sluice_jpeg_stretch_clear(&run->stretch);
}

static void make_on_cpu(struct run *run, const struct sluice_draw_key *key, struct sluice_buf *file,
                        struct sluice_hash128 *hash)
{
    const uint64_t label = (uint32_t)key->sample_id; /* little endian */
    struct sluice_sample sample = {.key = *key, .data = sluice_buf_ref(file)};
    uint8_t *row = malloc(run->row_bytes + sizeof(label));
    CU_ASSERT_PTR_NOT_NULL_FATAL(row);
    REQUIRE_OK(
        sluice_pipeline_finish_u8(run->pipeline, run->scratch, &sample, row, run->row_bytes, NULL));
    memcpy(row + run->row_bytes, &label, sizeof(label));
    *hash = sluice_hash128(row, run->row_bytes + sizeof(label));
    free(row);
}

/* Prepares the sample as a loader's worker does; SLUICE_E_UNSUPPORTED: it is the CPU's. */
static sluice_status prepare(struct run *run, struct sluice_sample *sample,
                             struct sluice_gpu_prepared *prepared)
{
    struct sluice_kernel_work work;
    struct sluice_err err = {{0}};
    if (sluice_pipeline_cut_for_gpu(run->pipeline, run->scratch, sample, 4, &err) != SLUICE_OK ||
        !sluice_pipeline_kernel_work(run->pipeline, run->scratch, sample, 0, &work))
        return SLUICE_E_UNSUPPORTED;
    const struct sluice_gpu_request request = {
        .box = work.box,
        .part = work.part,
        .is_flipped = work.is_mirrored,
        .calls = &work.calls,
    };
    const struct sluice_gpu_file file = {sample->data->data, sample->data->len, NULL};
    return sluice_gpu_prepare(run->place, NULL, &file, &request, &run->stretch, NULL, prepared,
                              &err);
}

static void add(struct run *run, const struct sluice_draw_key *key, struct sluice_buf *file)
{
    struct sluice_sample sample = {.key = *key, .data = sluice_buf_ref(file)};
    struct sluice_gpu_prepared prepared = {NULL, 0, 0};
    const sluice_status status = prepare(run, &sample, &prepared);
    sluice_sample_clear(&sample);
    if (status != SLUICE_OK) {
        CU_ASSERT_EQUAL(status, SLUICE_E_UNSUPPORTED);
        run->num_of_cpu++;
        return;
    }
    REQUIRE_OK(sluice_gpu_lane_decode(run->lane, &prepared, run->num_rows, NULL));
    sluice_gpu_prepared_clear(&prepared);
    run->labels[run->num_rows] = (uint32_t)key->sample_id;
    make_on_cpu(run, key, file, &run->wanted[run->num_rows++]);
}

static void finish(struct run *run, const char *text)
{
    sluice_status statuses[ROWS];
    struct sluice_hash128 hashes[ROWS];
    struct sluice_gpu_work work;
    REQUIRE_OK(sluice_gpu_lane_finish(run->lane, run->labels, statuses, hashes, &work, NULL));
    for (uint32_t i = 0; i < run->num_rows; i++) {
        const bool is_equal = statuses[i] == SLUICE_OK && hashes[i].high == run->wanted[i].high &&
                              hashes[i].low == run->wanted[i].low;
        if (!is_equal)
            printf("\n%s: sample %u: %s\n", text, run->labels[i], sluice_status_name(statuses[i]));
        CU_ASSERT(is_equal);
    }
}

/* Any files, some of one value alone, with rows of this side. */
static void check(const char *these, uint32_t side, struct sluice_rng *rng)
{
    char text[512];
    struct run run;
    snprintf(text, sizeof(text), "decode,random_resized_crop=%u:filter=random,hflip,%s", side,
             these);
    run_open(&run, text);
    CU_ASSERT(sluice_pipeline_has_kernels(run.pipeline));
    struct sluice_gpu_block *block = sluice_gpu_place_take(run.place);
    sluice_gpu_lane_begin(run.lane, block, NULL);
    for (uint32_t i = 0; i < ROWS; i++) {
        const struct sluice_jpeg_encode_options options = {
            .h_samp = 1 + i % 2, .v_samp = 1, .quality = i % 5 ? 90 : 1, .is_gray = i % 7 == 0};
        struct sluice_buf *file =
            jpeg_test_file(8 + sluice_rng_below(rng, 150), 8 + sluice_rng_below(rng, 150),
                           sluice_rng_u32(rng), &options);
        const struct sluice_draw_key key = {.seed = sluice_test_seed(), .epoch = 1, .sample_id = i};
        add(&run, &key, file);
        sluice_buf_unref(file);
    }
    finish(&run, text);
    CU_ASSERT(run.num_rows > ROWS / 2);
    sluice_gpu_block_give(block);
    run_close(&run);
}

TEST(each_op_is_the_cpus)
{
    static const uint32_t sides[] = {9, 23, 64, 101};
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(ops); i++) {
        for (size_t k = 0; k < SLUICE_ARRAY_LEN(sides); k++)
            check(ops[i], sides[k], &rng);
    }
}

/* Rows in turn without a call and with many, which take more than their part of the memory. */
TEST(calls_of_any_number_share_a_batch)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 1, 0, 0);
    check("k_of(1,identity,equalize)", 33, &rng);
    check("one_of(identity,sequence(solarize=1-255,grayscale,posterize=1-8,hue=0.1,solarize=1-255,"
          "hue=0.1,"
          "solarize_add=1-99,hue=0.1,brightness=0-2,hue=0.2))",
          32, &rng);
}

/* Tables beyond the room of a sample's calls. */
TEST(too_many_calls_are_the_cpus)
{
    char text[2048] = "decode,random_resized_crop=32";
    for (int i = 0; i < 14; i++)
        strcat(text, ",sequence(brightness=0.9-1.1,hue=0.1)");
    struct run run;
    run_open(&run, text);
    const struct sluice_jpeg_encode_options options = {.h_samp = 1, .v_samp = 1, .quality = 90};
    struct sluice_buf *file = jpeg_test_file(90, 80, 7, &options);
    CU_ASSERT(sluice_pipeline_has_kernels(run.pipeline));
    add(&run, &(struct sluice_draw_key){.seed = 1, .sample_id = 5}, file);
    CU_ASSERT_EQUAL(run.num_of_cpu, 1);
    sluice_buf_unref(file);
    run_close(&run);
}

int main(int argc, char **argv)
{
    return either_place_main(argc, argv);
}
