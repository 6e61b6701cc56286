#include "datasets/tools/synth.h"

#include "base/buf.h"
#include "base/rng.h"
#include "image/codecs/codec.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* Which part of a picture a random stream is for. */
enum stream { STREAM_SIZE, STREAM_LAYOUT, STREAM_SCENE, STREAM_GRAIN };

static struct sluice_rng stream_of(const struct sluice_synth_options *options, uint64_t index,
                                   enum stream stream)
{
    return sluice_rng_init(options->seed, 0, index, (uint32_t)stream);
}

uint32_t sluice_synth_label(const struct sluice_synth_options *options, uint64_t index)
{
    return (uint32_t)(index % options->num_classes);
}

/* Quantiles of file sizes in kB, read off 200 ImageNet photographs and smoothed; in between,
 * linear. Their mean is 113 kB, and a quarter lies above 150. */
static const struct {
    double share, kilobytes;
} size_quantiles[] = {{0, 4},     {0.05, 18},  {0.1, 26},  {0.15, 33},  {0.2, 44},  {0.25, 60},
                      {0.3, 77},  {0.4, 97},   {0.5, 116}, {0.6, 131},  {0.7, 147}, {0.75, 162},
                      {0.8, 173}, {0.85, 187}, {0.9, 205}, {0.95, 238}, {1, 390}};

uint32_t sluice_synth_target_bytes(const struct sluice_synth_options *options, uint64_t index)
{
    struct sluice_rng rng = stream_of(options, index, STREAM_SIZE);
    const double share = sluice_rng_double(&rng);
    size_t i = 1;
    while (size_quantiles[i].share < share)
        i++;
    const double from = size_quantiles[i - 1].share, to = size_quantiles[i].share;
    const double along = (share - from) / (to - from);
    const double kilobytes =
        size_quantiles[i - 1].kilobytes * (1 - along) + size_quantiles[i].kilobytes * along;
    return (uint32_t)(kilobytes * 1000);
}

/* The file format of a sample. */
struct layout {
    uint32_t width, height;
    bool is_png;
    struct sluice_jpeg_encode_options jpeg; /* all but the quality */
};

static struct layout draw_layout(const struct sluice_synth_options *options, uint64_t index,
                                 uint32_t target_bytes)
{
    /* ImageNet's usual sizes, as often as they occur there. */
    static const uint16_t sizes[16][2] = {{500, 375}, {500, 375}, {500, 375}, {500, 375},
                                          {500, 375}, {500, 333}, {500, 333}, {375, 500},
                                          {375, 500}, {333, 500}, {500, 357}, {500, 400},
                                          {400, 300}, {640, 480}, {480, 360}, {300, 225}};
    struct sluice_rng rng = stream_of(options, index, STREAM_LAYOUT);
    const uint32_t which = sluice_rng_below(&rng, 16);
    struct layout layout = {.width = sizes[which][0], .height = sizes[which][1]};
    layout.is_png = sluice_rng_below(&rng, 32) == 0;
    const uint32_t sampling = sluice_rng_below(&rng, 100);
    layout.jpeg.h_samp = sampling < 76 ? 1 : 2;
    layout.jpeg.v_samp = sampling < 76 || sampling >= 98 ? 1 : 2;
    layout.jpeg.is_gray = sluice_rng_below(&rng, 43) == 0;
    layout.jpeg.is_progressive = sluice_rng_below(&rng, 24) == 0;
    if (layout.is_png) {
        /* A PNG of a picture with grain takes about two bytes a pixel. */
        const double scale =
            sqrt((double)target_bytes / 2 / ((double)layout.width * layout.height));
        layout.width = (uint32_t)(layout.width * scale) + 16;
        layout.height = (uint32_t)(layout.height * scale) + 16;
    } else if (target_bytes < 40000) {
        layout.width = layout.width * 3 / 5;
        layout.height = layout.height * 3 / 5;
    } else if (target_bytes > 200000) {
        layout.width = layout.width * 7 / 5;
        layout.height = layout.height * 7 / 5;
    }
    return layout;
}

/* --- the scene --- */

struct colour {
    float r, g, b;
};

/* Hue in [0, 1) around the colour circle, at medium saturation. */
static struct colour from_hue(float hue, float lightness)
{
    float channel[3];
    for (int c = 0; c < 3; c++) {
        float x = hue + (float)c / 3;
        x -= (float)(int)x;
        /* A triangle wave: no function of a libm, whose last digit may differ. */
        const float wave = x < 0.5f ? 4 * x - 1 : 3 - 4 * x;
        channel[c] = lightness + 62 * wave;
    }
    return (struct colour){channel[0], channel[1], channel[2]};
}

/* Triangle wave of period 1 with values in [-1, 1]. */
static float triangle_wave(float x)
{
    x -= floorf(x);
    return x < 0.5f ? 4 * x - 1 : 3 - 4 * x;
}

/* Unit vectors for texture directions from 0 to 180 degrees, as mirrored pairs look alike after a
 * flip: (cos, sin) of 0, 22.5, 45, 67.5 and 90 degrees. */
static const float directions[5][2] = {{1.0f, 0.0f},
                                       {0.92387953f, 0.38268343f},
                                       {0.70710678f, 0.70710678f},
                                       {0.38268343f, 0.92387953f},
                                       {0.0f, 1.0f}};

struct blob {
    float x, y, inverse_rx, inverse_ry;
    struct colour colour;
};

struct scene {
    struct colour from, to; /* of the background's gradient */
    float gradient_x, gradient_y;
    float wave_x, wave_y, wave_phase, wave_amplitude;
    float grain;
    struct blob blobs[4];
};

static float draw(struct sluice_rng *rng, float low, float high)
{
    return low + (high - low) * (float)sluice_rng_double(rng);
}

static struct scene draw_scene(const struct sluice_synth_options *options, uint64_t index,
                               const struct layout *layout, uint32_t target_bytes)
{
    struct sluice_rng rng = stream_of(options, index, STREAM_SCENE);
    const uint32_t label = sluice_synth_label(options, index);
    const float width = (float)layout->width, height = (float)layout->height;

    /* Golden-ratio steps keep the hues of neighbouring classes apart for any number of them. */
    float hue = (float)label * 0.61803399f;
    hue -= (float)(int)hue;
    struct scene scene;
    scene.from = from_hue(hue + draw(&rng, 0, 0.06f), draw(&rng, 85, 150));
    scene.to = from_hue(hue + draw(&rng, 0, 0.12f), draw(&rng, 85, 150));
    scene.gradient_x = draw(&rng, -1, 1) / width;
    scene.gradient_y = draw(&rng, -1, 1) / height;

    const float *direction = directions[label % 5];
    const float waves = (label / 5 % 2 ? 22.0f : 9.0f) * draw(&rng, 0.85f, 1.15f);
    scene.wave_x = waves * direction[0] / width;
    scene.wave_y = waves * direction[1] / width;
    scene.wave_phase = draw(&rng, 0, 1);
    scene.wave_amplitude = draw(&rng, 18, 34);

    for (size_t i = 0; i < SLUICE_ARRAY_LEN(scene.blobs); i++) {
        struct blob *blob = &scene.blobs[i];
        blob->x = draw(&rng, 0, width);
        blob->y = draw(&rng, 0, height);
        blob->inverse_rx = 1 / draw(&rng, width / 20, width / 6);
        blob->inverse_ry = 1 / draw(&rng, height / 20, height / 6);
        blob->colour = from_hue(draw(&rng, 0, 1), draw(&rng, 60, 180));
    }

    /* More bytes to a pixel take more grain; the rest is the quality's part. */
    const float bits = (float)target_bytes * 8 / (width * height);
    scene.grain = layout->is_png ? 3.0f : 1.0f + 4.5f * bits;
    return scene;
}

static uint8_t to_u8(float value)
{
    /* Half up, which for values of at least 0 is what the cast makes of the sum. */
    const float raised = value + 0.5f;
    return value <= 0 ? 0 : value >= 255 ? 255 : (uint8_t)raised;
}

/* Grain is noise on two scales: one value a pixel, and one for every 4 x 4 pixels. */
static float grain_at(const uint32_t *noise, uint32_t width, uint32_t x, uint32_t y)
{
    const uint32_t fine = noise[(size_t)y * width + x];
    const uint32_t coarse = noise[(size_t)(y & ~3u) * width + (x & ~3u)] >> 16;
    return ((float)(fine & 0xFFFF) + (float)coarse) / 65535.0f - 1;
}

static void render(const struct scene *scene, const struct layout *layout, const uint32_t *noise,
                   uint8_t *rgb)
{
    for (uint32_t y = 0; y < layout->height; y++) {
        for (uint32_t x = 0; x < layout->width; x++) {
            const float fx = (float)x, fy = (float)y;
            float mix = 0.5f + 0.5f * (fx * scene->gradient_x + fy * scene->gradient_y);
            mix = mix < 0 ? 0 : mix > 1 ? 1 : mix;
            struct colour c = {scene->from.r + mix * (scene->to.r - scene->from.r),
                               scene->from.g + mix * (scene->to.g - scene->from.g),
                               scene->from.b + mix * (scene->to.b - scene->from.b)};
            for (size_t i = 0; i < SLUICE_ARRAY_LEN(scene->blobs); i++) {
                const struct blob *blob = &scene->blobs[i];
                const float dx = (fx - blob->x) * blob->inverse_rx;
                const float dy = (fy - blob->y) * blob->inverse_ry;
                if (dx * dx + dy * dy < 1)
                    c = blob->colour;
            }
            const float light =
                scene->wave_amplitude *
                    triangle_wave(fx * scene->wave_x + fy * scene->wave_y + scene->wave_phase) +
                scene->grain * grain_at(noise, layout->width, x, y);
            *rgb++ = to_u8(c.r + light);
            *rgb++ = to_u8(c.g + light);
            *rgb++ = to_u8(c.b + light);
        }
    }
}

/* --- the file --- */

/* Binary search for the JPEG quality whose file size is nearest to the target. */
static sluice_status encode_near(const uint8_t *rgb, const struct layout *layout,
                                 uint32_t target_bytes, struct sluice_buf **file,
                                 struct sluice_err *err)
{
    int low = 30, high = 99;
    struct sluice_buf *best = NULL;
    size_t best_distance = SIZE_MAX;
    while (low <= high) {
        struct sluice_jpeg_encode_options jpeg = layout->jpeg;
        jpeg.quality = (low + high) / 2;
        struct sluice_buf *tried = NULL;
        const sluice_status status =
            sluice_jpeg_encode(rgb, layout->width, layout->height, &jpeg, &tried, err);
        if (status != SLUICE_OK) {
            sluice_buf_unref(best);
            return status;
        }
        const bool is_large = tried->len > target_bytes;
        const size_t distance = is_large ? tried->len - target_bytes : target_bytes - tried->len;
        if (is_large)
            high = jpeg.quality - 1;
        else
            low = jpeg.quality + 1;
        if (distance < best_distance) {
            best_distance = distance;
            sluice_buf_unref(best);
            best = tried;
        } else {
            sluice_buf_unref(tried);
        }
    }
    *file = best;
    return SLUICE_OK;
}

sluice_status sluice_synth_image(const struct sluice_synth_options *options, uint64_t index,
                                 struct sluice_buf **file, const char **suffix,
                                 struct sluice_err *err)
{
    if (options->num_classes == 0)
        return sluice_fail(err, SLUICE_E_INVALID, "a set needs at least one class");
    const uint32_t target_bytes = sluice_synth_target_bytes(options, index);
    const struct layout layout = draw_layout(options, index, target_bytes);
    const struct scene scene = draw_scene(options, index, &layout, target_bytes);
    const size_t pixels = (size_t)layout.width * layout.height;
    uint32_t *noise = malloc(pixels * sizeof(*noise));
    uint8_t *rgb = malloc(pixels * 3);
    sluice_status status;
    if (!noise || !rgb) {
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a picture of %u x %u",
                             layout.width, layout.height);
        goto done;
    }
    /* Blocks of four words straight from the cipher: a stream would repeat after 65,536 of them. */
    const uint32_t key[2] = {(uint32_t)options->seed, (uint32_t)(options->seed >> 32)};
    for (size_t i = 0; i < pixels; i += 4) {
        const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)i,
                                     (uint32_t)STREAM_GRAIN << 16};
        uint32_t words[4];
        sluice_philox4x32_10(key, counter, words);
        for (size_t k = 0; k < 4 && i + k < pixels; k++)
            noise[i + k] = words[k];
    }
    render(&scene, &layout, noise, rgb);
    *suffix = layout.is_png ? "png" : "jpg";
    if (layout.is_png)
        status = sluice_png_encode(rgb, layout.width, layout.height, 6, file, err);
    else
        status = encode_near(rgb, &layout, target_bytes, file, err);

done:
    free(noise);
    free(rgb);
    return status;
}
