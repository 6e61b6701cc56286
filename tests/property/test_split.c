#include "base/buf.h"
#include "base/cpu.h"
#include "base/hash.h"
#include "base/rng.h"
#include "image/codecs/codec.h"
#include "op/form.h"
#include "op/pipeline.h"
#include "support/test.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The split contract: [0, k) here and [k, n) there give the bytes of [0, n), for
 * every k, op list, image and CPU level.
 *
 * The program runs everything once, and then itself again at each CPU level the
 * machine has; the runs must print the same digest over all results. */

/* 32 ops, some of them many times. */
static const char longest[] =
    "decode,exif_transpose,random_resized_crop=40,hflip,hflip,hflip,resize=36,center_crop=33,hflip,"
    "random_resized_crop=30,hflip,hflip,resize=29,center_crop=28,hflip,hflip,hflip,hflip,hflip,"
    "resize=27,center_crop=25,hflip,random_resized_crop=24,hflip,hflip,hflip,hflip,resize=23,"
    "center_crop=20,hflip,to_tensor,normalize=imagenet";

/* Choices. */
static const char jitter[] =
    "decode,shuffled(brightness=0.4-1.6,contrast=0.4-1.6,color=0.4-1.6,hue=-0.1-0.1):p=0.8,"
    "random_resized_crop=24,one_of(grayscale,solarize,pil_blur=0.1-2:weight=3,autocontrast,"
    "posterize=2,solarize_add=43),to_tensor";

static const char *const specs[] = {
    "decode,random_resized_crop=32,hflip,to_tensor,normalize=imagenet",
    "decode,random_resized_crop=64,to_tensor,normalize=0.5:0.4:0.3/0.2:0.3:0.4",
    "decode,random_resized_crop=20:scale=0.5-1:ratio=1/2-2,hflip=1,to_tensor",
    "decode,random_resized_crop=24,hflip",
    "decode,hflip=1,random_resized_crop=16,to_tensor,normalize=imagenet",
    "decode,resize=40,center_crop=32,to_tensor,normalize=imagenet",
    "decode,resize=24,center_crop=32,hflip=1,to_tensor",
    "decode,resize=37,center_crop=20,hflip=1,to_tensor",
    "decode,hflip=1,resize=31,center_crop=31,to_tensor",
    "decode,center_crop=33,hflip=1,resize=21,to_tensor,normalize=imagenet",
    "decode,center_crop=16,to_tensor",
    "decode,resize=30",
    "decode,exif_transpose,random_resized_crop=28,hflip,to_tensor,normalize=imagenet",
    "decode,exif_transpose,resize=40,center_crop=32,hflip=1,to_tensor",
    "decode,exif_transpose,center_crop=30",
    "decode,exif_transpose",
    "decode,hflip=1,to_tensor,normalize=imagenet",
    "decode,to_tensor",
    "decode,random_resized_crop=32,hflip,contrast=0.5-1.5,hue=-0.2-0.2,to_tensor",
    "decode,center_crop=19,k_of(3:replace=1,shuffled(one_of(invert,color=2)):p=0.5,vflip)",
    "decode,random_resized_crop=20,equalize:p=0.5,posterize=3-8:p=0.5,solarize=20-256,hflip=1",
    "decode,resize=30,random_crop=24:padding=3,tv_blur=0.1-3:kernel=9:p=0.8,photometric_distort",
    "decode,resize=30,random_crop=24,hflip,to_tensor",
    "decode,resize=30:filter=lanczos,random_crop=24:padding=5:mode=reflect,hflip,to_tensor",
    "decode,random_resized_crop=24:filter=nearest,when(epoch<9,hue=0.1),hflip,to_tensor",
    "decode,random_crop=27:padding=5,hflip,channel_permute:p=0.5,to_tensor",
    "decode,resize=40x25,center_crop=24x20,resize=18x18,hflip=1,to_tensor",
    "decode,random_resized_crop=20x33:filter=bicubic,hflip,resize=19:side=longer,center_crop=24",
    "decode,resize=30:max=41:filter=box,random_crop=24x30:padding=4:mode=edge,hflip=1",
    "decode,resize=22x31,hflip=1,to_tensor,normalize=imagenet",
    "decode,resize=33:max=45,center_crop=30,hflip,to_tensor",
    "decode,pad=3/0/5/9:mode=symmetric,hflip,random_crop=20:padding=3:fill=9/8/"
    "7,pad=1:fill=200,hflip=1",
    "decode,resize=30,pad=2/7:mode=reflect,hflip=1,center_crop=40,pad=3:mode=edge,to_tensor",
    "decode,resize=30,center_crop=21,pil_blur=0.1-3:p=0.8,sharpness=0.1-2,vflip:p=0.5,hflip",
    jitter,
    "decode,resize=40:filter=bicubic,center_crop=32,hflip=1,to_tensor",
    "decode,random_resized_crop=30:filter=random,hflip",
    "decode=pillow13,random_resized_crop=32,hflip,to_tensor",
    "decode=pillow13,exif_transpose,resize=20,center_crop=17,hflip",
    "decode,random_resized_crop=26,hflip,trivial_augment_wide=bilinear,to_tensor",
    "decode,resize=31,center_crop=30,randaugment=3:magnitude=15,hflip,to_tensor",
    "decode,random_resized_crop=22,rand_augment_timm=9:mstd=0.5:increasing=1:filter=random",
    "decode,random_resized_crop=23,auto_augment=cifar10:filter=bilinear,auto_augment=v0:mstd=1,"
    "hflip",
    "decode,random_resized_crop=21,invert:p=0.5,augmix=10:filter=bilinear,hflip,to_tensor",
    "decode,center_crop=20,one_of(augmix=3:width=2:depth=2,augmix=5:p=0.5),augmix=1,hflip=1",
    "decode,center_crop=25,affine=-20-20:scale=0.8-1.2:filter=bicubic,rotate=0-360,hflip=1",
    "decode,letterbox=30x41:fill=9/8/7,hflip=1,to_tensor",
    "decode,zoom_out=1-3:p=0.7:fill=9/8/7,hflip,resize=24x30,to_tensor",
    "decode,iou_crop,hflip,resize=24x30,to_tensor",
    "decode,zoom_out=1-3:p=0.7,iou_crop=0.3-1:p=0.8,hflip,resize=24x30",
    "decode,resize=30x40,iou_crop,random_resized_crop=20,to_tensor",
    "decode,iou_crop,zoom_out=1-2:epochs=epoch<3,views([resize=20x20],2x[random_resized_crop=9])",
    "decode,hflip,random_size_crop=20-30:shorter=24-40/3,random_resize=20-36/3:max=50,to_tensor",
    "decode,random_size_crop=20-30:shorter=24-40:p=0.8:filter=random,hflip,resize=20x30",
    "decode,hflip,multi_scale=16-40/4:base=32:epochs=epoch<9,to_tensor,normalize=imagenet",
    "decode,zoom_out,multi_scale=16-40/4:base=24:fit=letterbox:fill=9/8/7,hflip,pad_to_multiple=7",
    "decode,random_resize=9-60:max=70:filter=random,hflip,random_crop=24",
    "decode,random_crop=20,zoom_out=1.5-1.5:p=1,random_resized_crop=24",
    "decode,exif_transpose,letterbox=33:filter=bicubic,center_crop=30x40,pad_to_multiple=7",
    "decode,smart_resize=7:min_pixels=300:max_pixels=2000,hflip,to_tensor",
    "decode,resize=30,hflip=1,pad_to_multiple=16:fill=7,smart_resize=4:min_pixels=4:max_pixels=900",
    "decode,fit_bucket=30x20/20x30/25x25/9x70:crop=random:filter=random,hflip,to_tensor",
    "decode,exif_transpose,fit_bucket=30x20/20x30/25x25,pad_to_multiple=8,hflip=1",
    "decode",
    longest,
    /* DINOv2's, smaller. */
    "decode,views(2x[random_resized_crop=28:scale=0.32-1:filter=bicubic,hflip,color_jitter=0.4:"
    "contrast=0.4:saturation=0.2:hue=0.1:p=0.8,grayscale:p=0.2,tv_blur=0.1-2:kernel=9:p=0.5],"
    "8x[random_resized_crop=12:scale=0.05-0.32:filter=bicubic,hflip,solarize:p=0.2]),to_tensor,"
    "normalize=imagenet",
    "decode,exif_transpose,views([random_resized_crop=24],3x[resize=20,center_crop=14x18,hflip])",
    "decode,resize=30,views([center_crop=24,hflip],2x[random_crop=20:padding=3,invert:p=0.5])",
    "decode,random_resized_crop=24:draws=1,views([hflip=1],[hflip=0],[invert,resize=9x12,hflip])",
    "decode,views([random_resized_crop=24:draws=1,hflip:draws=2],[random_resized_crop=31:draws=1,"
    "hflip:draws=2,augmix:p=0.5],[center_crop=9:draws=1]),to_tensor",
    "decode,views([resize=18x20,hflip],[random_resized_crop=8]),to_tensor",
    "decode,resize=30,views([center_crop=20x24:at=top_left],[center_crop=20x24:at=top_right],"
    "[center_crop=20x24:at=bottom_left],[center_crop=20x24:at=bottom_right],[center_crop=20x24]),"
    "to_tensor",
    "decode,center_crop=40:at=bottom_right,hflip=1",
};

enum { JPEG_420, JPEG_444, JPEG_GRAY, JPEG_PROGRESSIVE, PNG, JPEG_422, JPEG_440_RESTARTS };

static const struct {
    uint32_t width, height;
    int coding;
    uint8_t orientation; /* of a JPEG's EXIF; 0: none */
} images[] = {
    {1, 1, PNG, 0},
    {1, 1, JPEG_420, 0},
    {3, 500, JPEG_420, 0},
    {500, 3, PNG, 0},
    {17, 9, JPEG_444, 0},
    {9, 17, JPEG_GRAY, 0},
    {17, 9, JPEG_420, 0},
    {2, 2, JPEG_PROGRESSIVE, 0},
    {64, 48, PNG, 0},
    {97, 61, JPEG_420, 0},
    {61, 97, JPEG_444, 0},
    {130, 90, JPEG_PROGRESSIVE, 0},
    {32, 32, PNG, 0},
    {33, 21, JPEG_420, 0},
    {224, 224, JPEG_420, 0},
    {320, 240, JPEG_422, 0},
    {241, 319, JPEG_440_RESTARTS, 0},
    {301, 203, JPEG_444, 0},
    {199, 305, JPEG_GRAY, 0},
    {97, 61, JPEG_420, 1},
    {131, 93, JPEG_420, 2},
    {97, 61, JPEG_444, 3},
    {130, 90, JPEG_PROGRESSIVE, 4},
    {97, 161, JPEG_422, 5},
    {241, 119, JPEG_420, 6},
    {97, 61, JPEG_GRAY, 7},
    {161, 201, JPEG_440_RESTARTS, 8},
    {17, 9, JPEG_420, 6},
};
#define NUM_IMAGES SLUICE_ARRAY_LEN(images)

static void die(const char *what, const struct sluice_err *err)
{
    fprintf(stderr, "%s: %s\n", what, err->text);
    exit(1);
}

/* Behind the first marker, the EXIF of an image that has to be turned. */
static void add_orientation(struct sluice_buf **file, uint8_t orientation)
{
    const uint8_t exif[] = {0xFF, 0xE1, 0, 34, 'E', 'x',         'i', 'f', 0, 0,  'M', 'M',
                            0,    '*',  0, 0,  0,   8,           0,   1,   1, 18, 0,   3,
                            0,    0,    0, 1,  0,   orientation, 0,   0,   0, 0,  0,   0};
    struct sluice_buf *longer = NULL;
    struct sluice_err err = {{0}};
    if (sluice_buf_create(NULL, (*file)->len + sizeof(exif), &longer, &err))
        die("buffer", &err);
    memcpy(longer->data, (*file)->data, 2);
    memcpy(longer->data + 2, exif, sizeof(exif));
    memcpy(longer->data + 2 + sizeof(exif), (*file)->data + 2, (*file)->len - 2);
    longer->len = (*file)->len + sizeof(exif);
    sluice_buf_unref(*file);
    *file = longer;
}

/* Smooth colours with noise on top, so that both tables and resampling have work. */
static struct sluice_buf *make_image(size_t index)
{
    const uint32_t width = images[index].width, height = images[index].height;
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, index, 0);
    uint8_t *pixels = malloc((size_t)width * height * 3);
    const uint32_t slope = sluice_rng_below(&rng, 5) + 1;
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            for (uint32_t c = 0; c < 3; c++)
                pixels[((size_t)y * width + x) * 3 + c] =
                    (uint8_t)(x * slope + y * (c + 1) + sluice_rng_below(&rng, 40));
        }
    }
    const int coding = images[index].coding;
    const struct sluice_jpeg_encode_options options = {
        .quality = 85,
        .h_samp = coding == JPEG_444 || coding == JPEG_440_RESTARTS ? 1 : 2,
        .v_samp = coding == JPEG_444 || coding == JPEG_422 ? 1 : 2,
        .restart_rows = coding == JPEG_440_RESTARTS,
        .is_gray = coding == JPEG_GRAY,
        .is_progressive = coding == JPEG_PROGRESSIVE,
    };
    struct sluice_buf *file = NULL;
    struct sluice_err err = {{0}};
    const sluice_status status =
        coding == PNG ? sluice_png_encode(pixels, width, height, 1, &file, &err)
                      : sluice_jpeg_encode(pixels, width, height, &options, &file, &err);
    free(pixels);
    if (status)
        die("encode", &err);
    if (images[index].orientation)
        add_orientation(&file, images[index].orientation);
    return file;
}

struct nodes {
    struct sluice_scratch *storage, *compute, *measured;
};

static struct nodes nodes_create(void)
{
    const struct sluice_scratch_options measured = {.measure_ops = true};
    struct nodes nodes = {0};
    struct sluice_err err = {{0}};
    if (sluice_scratch_create(NULL, &nodes.storage, &err) ||
        sluice_scratch_create(NULL, &nodes.compute, &err) ||
        sluice_scratch_create(&measured, &nodes.measured, &err))
        die("scratch", &err);
    return nodes;
}

static void nodes_destroy(struct nodes *nodes)
{
    sluice_scratch_destroy(nodes->storage);
    sluice_scratch_destroy(nodes->compute);
    sluice_scratch_destroy(nodes->measured);
}

static void run(const struct sluice_pipeline *pipeline, struct sluice_scratch *scratch,
                struct sluice_sample *sample, unsigned end)
{
    struct sluice_err err = {{0}};
    if (sluice_pipeline_run(pipeline, scratch, sample, end, &err))
        die(sluice_pipeline_spec(pipeline), &err);
}

/* The crop is iou_crop's: a part of the image, or of what a resize to 30 x 40 made of it.  The
 * bucket is multi_scale's; it has no fifth. */
static struct sluice_sample start(struct sluice_buf *file, uint64_t id)
{
    struct sluice_image_info info = {0};
    CHECK_OK(sluice_image_probe(file->data, file->len, &info, NULL));
    const struct sluice_box crop = {.left = info.width / 9,
                                    .top = info.height / 7,
                                    .width = (info.width + 1) / 2,
                                    .height = (info.height + 1) * 2 / 3};
    return (struct sluice_sample){.key = {.seed = sluice_test_seed(),
                                          .epoch = 3,
                                          .sample_id = id,
                                          .crop = crop,
                                          .bucket = (uint32_t)id % 5},
                                  .data = sluice_buf_ref(file)};
}

/* The same words, the bytes in other memory. */
static struct sluice_sample copy_of(const struct sluice_sample *sample)
{
    struct sluice_sample copy = *sample;
    struct sluice_err err = {{0}};
    if (sluice_buf_create(NULL, sample->data->len, &copy.data, &err))
        die("buffer", &err);
    memcpy(copy.data->data, sample->data->data, sample->data->len);
    copy.data->len = sample->data->len;
    return copy;
}

/* What arrives elsewhere. */
static struct sluice_sample cross_the_wire(const struct sluice_pipeline *pipeline,
                                           const struct sluice_sample *sent)
{
    struct sluice_sample got = copy_of(sent);
    struct sluice_err err = {{0}};
    CHECK_OK(sluice_pipeline_check_sample(pipeline, &got, 0, &err));
    if (err.text[0])
        printf("%s\n", err.text);
    return got;
}

static bool is_equal(const struct sluice_sample *a, const struct sluice_sample *b)
{
    return a->ops_done == b->ops_done && a->kind == b->kind && a->width == b->width &&
           a->height == b->height && a->channels == b->channels && a->data->len == b->data->len &&
           memcmp(a->data->data, b->data->data, a->data->len) == 0;
}

/* From where it stands by finish() and finish_u8(), against the results of single ops. */
static void check_finish(const struct sluice_pipeline *pipeline, struct sluice_scratch *scratch,
                         const struct sluice_sample *sent, const struct sluice_sample *at_u8,
                         const struct sluice_sample *at_end)
{
    const size_t u8_len = at_u8->data->len, out_len = at_end->data->len;
    uint8_t *pixels = malloc(u8_len), *out = malloc(out_len);
    memset(pixels, 0xa5, u8_len);
    memset(out, 0xa5, out_len);

    struct sluice_sample sample = cross_the_wire(pipeline, sent);
    CHECK_OK(sluice_pipeline_finish(pipeline, scratch, &sample, out, out_len, NULL));
    CU_ASSERT(memcmp(out, at_end->data->data, out_len) == 0);

    sample = cross_the_wire(pipeline, sent);
    CHECK_OK(sluice_pipeline_finish_u8(pipeline, scratch, &sample, pixels, u8_len, NULL));
    CU_ASSERT(memcmp(pixels, at_u8->data->data, u8_len) == 0);
    free(pixels);
    free(out);
}

static size_t num_cut, num_images_to_cut;

/* Split 0 in the form of a cut file: what comes of it is what comes of the file. */
static void check_cut_file(const struct sluice_pipeline *pipeline, struct nodes *nodes,
                           struct sluice_buf *file, uint64_t id, const struct sluice_sample *steps)
{
    const unsigned num_ops = sluice_pipeline_num_ops(pipeline);
    struct sluice_scratch *const scratches[] = {nodes->compute, nodes->measured};
    num_images_to_cut += sluice_pipeline_can_crop_jpeg(pipeline);
    /* A resize is cut with the center_crop after it. */
    const unsigned op = sluice_pipeline_is_upright(pipeline) ? 2 : 1;
    const bool is_resized =
        num_ops > op + 1 && strcmp(sluice_pipeline_op_name(pipeline, op), "resize") == 0;
    const unsigned first = is_resized ? op + 2 : op + 1;
    for (unsigned end = first; end <= num_ops; end += num_ops > first ? num_ops - first : 1) {
        for (size_t s = 0; s < SLUICE_ARRAY_LEN(scratches); s++) {
            struct sluice_sample sample = start(file, id);
            if (sluice_pipeline_crop_jpeg(pipeline, nodes->storage, &sample, s == 1, 0, NULL)) {
                CU_ASSERT(!sample.coding && sample.data == file);
                sluice_sample_clear(&sample);
                continue;
            }
            num_cut++;
            CU_ASSERT(sluice_sample_form(&sample) == SLUICE_FORM_JPEG_CROP &&
                      sample.data->len < file->len);
            struct sluice_sample got = cross_the_wire(pipeline, &sample);
            run(pipeline, scratches[s], &got, end);
            CU_ASSERT(is_equal(&got, &steps[end]) && !got.coding);
            sluice_sample_clear(&got);

            const size_t out_len = steps[num_ops].data->len;
            uint8_t *out = malloc(out_len);
            CHECK_OK(sluice_pipeline_finish(pipeline, scratches[s], &sample, out, out_len, NULL));
            CU_ASSERT(memcmp(out, steps[num_ops].data->data, out_len) == 0);
            free(out);
        }
    }
}

static size_t num_packed, num_boxes_packed;

/* A u8 split in the form of packed pixels: what comes of them is what comes of the plain ones,
 * also where they are the box alone. */
static void check_packed(const struct sluice_pipeline *pipeline, struct nodes *nodes,
                         struct sluice_buf *file, uint64_t id, const struct sluice_sample *steps)
{
    const unsigned num_ops = sluice_pipeline_num_ops(pipeline);
    struct sluice_scratch *const scratches[] = {nodes->compute, nodes->measured};
    for (unsigned k = 1; k <= sluice_pipeline_u8_split(pipeline); k++) {
        const bool is_box = k == 1 && sluice_pipeline_packs_box(pipeline);
        /* Somewhere on the way for one image, somewhere else for the next. */
        const unsigned end = k + (unsigned)(id / 100 + id) % (num_ops - k + 1);
        struct sluice_sample sample = start(file, id);
        const sluice_status status =
            sluice_pipeline_pack(pipeline, nodes->storage, &sample, k, NULL);
        if (sluice_pipeline_num_views(pipeline) > 1) {
            CU_ASSERT(status == SLUICE_E_INVALID && sample.data == file);
        } else if (status) {
            CU_ASSERT_EQUAL(status, SLUICE_E_AGAIN);
            CU_ASSERT(is_box ? sample.data == file : is_equal(&sample, &steps[k]));
            CU_ASSERT(!sample.coding);
        } else {
            num_packed++;
            num_boxes_packed += is_box;
            CU_ASSERT(sluice_sample_form(&sample) == SLUICE_FORM_U8_PACKED &&
                      sample.ops_done == k && sample.width == steps[k].width &&
                      sample.height == steps[k].height);
            CU_ASSERT(sample.data->len < steps[k].data->len);
            struct sluice_scratch *scratch = scratches[(end + id) % 2];
            struct sluice_sample sent = sample;
            sample = cross_the_wire(pipeline, &sent);
            sluice_sample_clear(&sent);
            run(pipeline, scratch, &sample, end);
            CU_ASSERT_EQUAL(sluice_sample_form(&sample) == SLUICE_FORM_U8_PACKED, end == k);
            CU_ASSERT(end == k || is_equal(&sample, &steps[end]));

            /* From here, or from packed pixels. */
            const size_t out_len = steps[num_ops].data->len;
            uint8_t *out = malloc(out_len);
            CHECK_OK(sluice_pipeline_finish(pipeline, scratch, &sample, out, out_len, NULL));
            CU_ASSERT(memcmp(out, steps[num_ops].data->data, out_len) == 0);
            free(out);
        }
        sluice_sample_clear(&sample);
    }
}

static void check_sample_at_all_splits(const struct sluice_pipeline *pipeline, struct nodes *nodes,
                                       struct sluice_buf *file, uint64_t id,
                                       struct sluice_hasher *hasher)
{
    const unsigned num_ops = sluice_pipeline_num_ops(pipeline);
    const unsigned u8_split = sluice_pipeline_u8_split(pipeline);

    /* The reference: one op at a time, nothing fused. */
    struct sluice_sample steps[SLUICE_PIPELINE_MAX_OPS + 1] = {{.kind = SLUICE_KIND_FILE}};
    steps[0] = start(file, id);
    for (unsigned k = 1; k <= num_ops; k++) {
        steps[k] = copy_of(&steps[k - 1]);
        run(pipeline, nodes->measured, &steps[k], k);
    }
    sluice_hasher_update(hasher, steps[num_ops].data->data, steps[num_ops].data->len);

    for (unsigned k = 0; k <= num_ops; k++) {
        /* [0, k) at once is what the single ops made, and [k, n) goes on from it. */
        struct sluice_sample sent = start(file, id);
        run(pipeline, nodes->storage, &sent, k);
        CU_ASSERT(is_equal(&sent, &steps[k]));
        struct sluice_sample sample = cross_the_wire(pipeline, &sent);
        run(pipeline, nodes->compute, &sample, num_ops);
        CU_ASSERT(is_equal(&sample, &steps[num_ops]));
        sluice_sample_clear(&sample);
        check_finish(pipeline, nodes->compute, &sent, &steps[u8_split], &steps[num_ops]);
        check_finish(pipeline, nodes->measured, &sent, &steps[u8_split], &steps[num_ops]);
        sluice_sample_clear(&sent);
    }
    check_cut_file(pipeline, nodes, file, id, steps);
    check_packed(pipeline, nodes, file, id, steps);
    for (unsigned k = 0; k <= num_ops; k++)
        sluice_sample_clear(&steps[k]);
}

/* Every op list on every image; the digest of all results. */
static struct sluice_hash128 run_everything(void)
{
    struct nodes nodes = nodes_create();
    struct sluice_hasher *hasher = sluice_hasher_create();
    if (!hasher)
        abort();
    for (size_t i = 0; i < NUM_IMAGES; i++) {
        struct sluice_buf *file = make_image(i);
        for (size_t s = 0; s < SLUICE_ARRAY_LEN(specs); s++) {
            struct sluice_pipeline *pipeline = NULL;
            struct sluice_err err = {{0}};
            if (sluice_pipeline_parse(specs[s], &pipeline, &err))
                die(specs[s], &err);
            check_sample_at_all_splits(pipeline, &nodes, file, i * 100 + s, hasher);
            sluice_pipeline_destroy(pipeline);
        }
        sluice_buf_unref(file);
    }
    const struct sluice_hash128 hash = sluice_hasher_digest(hasher);
    sluice_hasher_destroy(hasher);
    nodes_destroy(&nodes);
    return hash;
}

static char digest[33];

TEST(any_split_gives_the_same_bytes)
{
    sluice_hash128_hex(run_everything(), digest);
    CU_ASSERT(num_packed > 100 && num_boxes_packed > 10);
    CU_ASSERT(num_cut > num_images_to_cut); /* each twice and for several ends; small ones not */
    printf("level %s digest %s ", sluice_cpu_level_name(sluice_cpu_level()), digest);
}

/* This program at one level, which prints its digest. */
struct child {
    pid_t pid;
    FILE *says;
    const char *level;
};

static struct child start_child(const char *level)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        perror("pipe");
        exit(1);
    }
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        setenv("SLUICE_CPU", level, 1);
        execl("/proc/self/exe", "test_split", "--digest", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    return (struct child){pid, fdopen(ends[0], "r"), level};
}

static void check_child(const struct child *child)
{
    char line[64] = "", level[32] = "", said[33] = "";
    while (child->says && fgets(line, sizeof(line), child->says))
        sscanf(line, "child %31s %32s", level, said);
    if (child->says)
        fclose(child->says);
    int status = 1;
    waitpid(child->pid, &status, 0);
    CU_ASSERT_EQUAL(status, 0);
    CU_ASSERT_STRING_EQUAL(level, child->level);
    CU_ASSERT_STRING_EQUAL(said, digest);
}

/* All at the same time. */
TEST_OF("parent", any_cpu_level_gives_the_same_bytes)
{
    struct child children[SLUICE_CPU_NEON + 1];
    size_t num_children = 0;
    for (int level = SLUICE_CPU_C; level <= SLUICE_CPU_NEON; level++) {
        const enum sluice_cpu_level detected = sluice_cpu_detected();
        const bool can_run = level == SLUICE_CPU_C || level == (int)detected ||
                             (level == SLUICE_CPU_AVX2 && detected == SLUICE_CPU_AVX512);
        if (can_run && level != (int)sluice_cpu_level())
            children[num_children++] =
                start_child(sluice_cpu_level_name((enum sluice_cpu_level)level));
    }
    for (size_t i = 0; i < num_children; i++)
        check_child(&children[i]);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--digest") == 0) {
        const int rc = sluice_test_main();
        printf("\nchild %s %s\n", sluice_cpu_level_name(sluice_cpu_level()), digest);
        return rc;
    }
    return sluice_test_main_with("parent");
}
