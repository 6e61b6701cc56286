#include "base/buf.h"
#include "base/rng.h"
#include "image/codecs/codec.h"
#include "op/geometry.h"
#include "op/op.h"
#include "support/test.h"

#include <math.h>

/* The matrix says where pixels go: random pipelines run on an image whose red and green are the
 * position, and each pixel of the result shows the position that the inverse gives. */

enum { ROUNDS = 1500 };

static struct sluice_rng rng;

static const char *const ops[] = {
    "resize=90",
    "resize=70x110",
    "center_crop=80",
    "center_crop=60x90",
    "random_crop=64:padding=5",
    "random_crop=70x60",
    "pad=3/4/5/6",
    "zoom_out=1-2:p=0.8,resize=110x90",
    "random_resize=80-140/4:max=170,random_crop=77",
    "letterbox=90x70",
    "pad_to_multiple=32",
    "smart_resize=28:min_pixels=5000:max_pixels=9000",
    "fit_bucket=70x90/90x70/80x80:crop=random",
    "random_resized_crop=75:scale=0.3-1",
    "random_resized_crop=60x80:scale=0.3-1:filter=bicubic",
    "hflip=1",
    "hflip=0.5",
    "vflip",
    "vflip:p=0.5",
    "rotate=-30-30",
    "rotate=90:filter=bilinear",
    "affine=-20-20:translate_x=-0.1-0.1:translate_y=-0.2-0.2:scale=0.7-1.4:shear_x=-9-9:"
    "filter=bilinear",
    "shear_x=-0.3-0.3:filter=bicubic",
    "shear_y=-0.3-0.3",
    "translate_x=-0.3-0.3",
    "translate_y=-20-20:unit=pixel",
    "perspective=0.4:filter=bilinear",
    "one_of(vflip,rotate=20,shear_x=0.2)",
    "shuffled(translate_x=0.1,rotate=15):p=0.7",
};

/* Returns the number of ops that move pixels. */
static uint32_t write_spec(char *spec, size_t room, bool is_upright)
{
    const uint32_t num = 1 + sluice_rng_below(&rng, 4);
    size_t len = (size_t)snprintf(spec, room, "decode%s", is_upright ? ",exif_transpose" : "");
    for (uint32_t i = 0; i < num; i++) {
        const char *op = ops[sluice_rng_below(&rng, sizeof(ops) / sizeof(ops[0]))];
        len += (size_t)snprintf(spec + len, room - len, ",%s", op);
    }
    return num;
}

/* Levels for a pixel. */
static double slope_of(uint32_t side)
{
    return 255.0 / side;
}

static void add_orientation(struct sluice_buf **file, uint8_t orientation)
{
    const uint8_t exif[] = {0xFF, 0xE1, 0, 34, 'E', 'x',         'i', 'f', 0, 0,    'M', 'M',
                            0,    42,   0, 0,  0,   8,           0,   1,   1, 0x12, 0,   3,
                            0,    0,    0, 1,  0,   orientation, 0,   0,   0, 0,    0,   0};
    struct sluice_buf *longer = NULL;
    REQUIRE_OK(sluice_buf_create(NULL, (*file)->len + sizeof(exif), &longer, NULL));
    memcpy(longer->data, (*file)->data, 2);
    memcpy(longer->data + 2, exif, sizeof(exif));
    memcpy(longer->data + 2 + sizeof(exif), (*file)->data + 2, (*file)->len - 2);
    longer->len = (*file)->len + sizeof(exif);
    sluice_buf_unref(*file);
    *file = longer;
}

static struct sluice_buf *make_file(const struct sluice_file_image *image)
{
    uint8_t *pixels = malloc((size_t)image->width * image->height * 3);
    for (uint32_t y = 0; y < image->height; y++) {
        for (uint32_t x = 0; x < image->width; x++) {
            uint8_t *pixel = pixels + 3 * ((size_t)y * image->width + x);
            pixel[0] = (uint8_t)lround(x * slope_of(image->width));
            pixel[1] = (uint8_t)lround(y * slope_of(image->height));
            pixel[2] = 255;
        }
    }
    struct sluice_buf *file = NULL;
    const struct sluice_jpeg_encode_options options = {.quality = 100, .h_samp = 1, .v_samp = 1};
    if (image->orientation == 1)
        REQUIRE_OK(sluice_png_encode(pixels, image->width, image->height, 1, &file, NULL));
    else
        REQUIRE_OK(sluice_jpeg_encode(pixels, image->width, image->height, &options, &file, NULL));
    free(pixels);
    if (image->orientation != 1)
        add_orientation(&file, (uint8_t)image->orientation);
    return file;
}

/* The mean difference, in pixels of the file, over the pixels that show its inner part. */
struct seen {
    double x, y;
    unsigned num;
};

static struct seen compare(const struct sluice_sample *sample, const struct sluice_geometry *g,
                           const struct sluice_file_image *image)
{
    struct seen seen = {0};
    double m[9];
    sluice_matrix_invert(g->matrix, m);
    for (uint32_t v = 0; v < sample->height; v++) {
        for (uint32_t u = 0; u < sample->width; u++) {
            const uint8_t *pixel = sample->data->data + 3 * ((size_t)v * sample->width + u);
            const double w = m[6] * (u + 0.5) + m[7] * (v + 0.5) + m[8];
            const double x = (m[0] * (u + 0.5) + m[1] * (v + 0.5) + m[2]) / w;
            const double y = (m[3] * (u + 0.5) + m[4] * (v + 0.5) + m[5]) / w;
            const bool is_inner =
                x > 10 && y > 10 && x < image->width - 10 && y < image->height - 10;
            if (pixel[2] < 245 || !is_inner)
                continue;
            seen.x += pixel[0] / slope_of(image->width) + 0.5 - x;
            seen.y += pixel[1] / slope_of(image->height) + 0.5 - y;
            seen.num++;
        }
    }
    if (seen.num > 0) {
        seen.x /= seen.num;
        seen.y /= seen.num;
    }
    return seen;
}

TEST(pixels_are_where_the_matrix_says)
{
    rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    struct sluice_scratch *scratch = NULL;
    REQUIRE_OK(sluice_scratch_create(NULL, &scratch, NULL));
    unsigned num_compared = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct sluice_file_image image = {.width = 100 + sluice_rng_below(&rng, 60),
                                          .height = 100 + sluice_rng_below(&rng, 60),
                                          .orientation = 1 + sluice_rng_below(&rng, 8)};
        struct sluice_buf *file = make_file(&image);
        const bool is_upright = sluice_rng_below(&rng, 2);
        char spec[1024];
        const uint32_t num_ops = write_spec(spec, sizeof(spec), is_upright);
        struct sluice_pipeline *pipeline = NULL;
        REQUIRE_OK(sluice_pipeline_parse(spec, &pipeline, NULL));
        struct sluice_sample sample = {.key = {.seed = 5, .epoch = 1, .sample_id = round},
                                       .data = file};
        struct sluice_file_image read;
        REQUIRE_OK(sluice_file_image_read(pipeline, &sample, &read, NULL));
        CU_ASSERT(read.width == image.width && read.height == image.height &&
                  read.orientation == (is_upright ? image.orientation : 1));
        struct sluice_geometry geometry;
        sluice_pipeline_geometry(pipeline, &sample.key, &read, 0, &geometry);
        REQUIRE_OK(sluice_pipeline_run(pipeline, scratch, &sample,
                                       sluice_pipeline_u8_split(pipeline), NULL));
        const struct seen seen = compare(&sample, &geometry, &image);
        if (seen.num > 200) {
            /* Each op may round positions by half a pixel (nearest) and truncate levels. */
            const double most = 0.3 + 0.5 * num_ops;
            num_compared++;
            CU_ASSERT(fabs(seen.x) < most && fabs(seen.y) < most);
            if (fabs(seen.x) >= most || fabs(seen.y) >= most)
                printf("%s on %u x %u turned by %u: off by %.2f, %.2f over %u pixels\n", spec,
                       image.width, image.height, image.orientation, seen.x, seen.y, seen.num);
        }
        sluice_sample_clear(&sample);
        sluice_pipeline_destroy(pipeline);
    }
    CU_ASSERT(num_compared > ROUNDS / 2);
    sluice_scratch_destroy(scratch);
}
