#include "plan/sample_facts.h"

#include "image/codecs/coding.h"
#include "image/image.h"
#include "op/form.h"

#include <math.h>

/* The mean over 200 photographs of ImageNet; the shape is that of most cameras.  A wrong guess
 * hardly moves the crop's share of the image, which is what most costs go by. */
#define PIXELS_PER_FILE_BYTE 1.7
#define PIXELS_PER_PNG_BYTE 0.6 /* of photographs, 40 of the same as PNGs */
#define GUESSED_SHAPE (4.0 / 3)

/* The largest side of an image that can be decoded; lists come from outside. */
#define MAX_SIDE 65535

static double pixels_per_byte(uint8_t coding)
{
    switch (sluice_coding_kind(coding)) {
    case SLUICE_CODING_PNG:
    case SLUICE_CODING_GIF:
    case SLUICE_CODING_TIFF: /* compressed losslessly, or less well */
        return PIXELS_PER_PNG_BYTE;
    case SLUICE_CODING_BMP:
    case SLUICE_CODING_PNM:
        return 1.0 / 3;
    case SLUICE_CODING_WEBP: /* most are lossy, and smaller than a JPEG */
        return 2 * PIXELS_PER_FILE_BYTE;
    default:
        return PIXELS_PER_FILE_BYTE;
    }
}

uint32_t sluice_output_side(const struct sluice_pipeline *pipeline)
{
    return (uint32_t)lround(sqrt((double)sluice_pipeline_u8_bytes(pipeline) / 3));
}

static uint32_t guess_side(double side)
{
    return side < 1 ? 1 : side > MAX_SIDE ? MAX_SIDE : (uint32_t)side;
}

/* The box of the file's image that the ops read; all of it unless they begin with a crop. */
static struct sluice_box box_of(const struct sluice_pipeline *pipeline,
                                const struct sluice_draw_key *key, uint32_t width, uint32_t height)
{
    struct sluice_box box = {0, 0, width, height};
    (void)sluice_pipeline_file_box(pipeline, key, width, height, sluice_pipeline_u8_split(pipeline),
                                   sluice_form_plain(SLUICE_KIND_U8), &box);
    return box;
}

struct sluice_sample_facts sluice_sample_facts_make(const struct sluice_pipeline *pipeline,
                                                    uint64_t file_bytes, uint32_t width,
                                                    uint32_t height, uint8_t coding,
                                                    const struct sluice_draw_key *key)
{
    struct sluice_sample_facts facts = {
        .file_bytes = file_bytes,
        .width = width,
        .height = height,
        .coding = coding,
        .output_size = sluice_output_side(pipeline),
    };
    if (width == 0 || height == 0 || width > MAX_SIDE || height > MAX_SIDE) {
        const double pixels = pixels_per_byte(coding) * (double)file_bytes;
        facts.width = guess_side(sqrt(pixels * GUESSED_SHAPE));
        facts.height = guess_side(sqrt(pixels / GUESSED_SHAPE));
        facts.is_size_guessed = true;
    }
    const struct sluice_box box = box_of(pipeline, key, facts.width, facts.height);
    facts.crop.top = box.top;
    facts.crop.left = box.left;
    facts.crop.height = box.height;
    facts.crop.width = box.width;
    const unsigned num_views = sluice_pipeline_num_views(pipeline);
    for (unsigned i = 0; num_views > 1 && i < num_views; i++) {
        const struct sluice_box of_view =
            box_of(sluice_pipeline_view(pipeline, i), key, facts.width, facts.height);
        facts.view_pixels += (uint64_t)of_view.width * of_view.height;
    }
    return facts;
}

struct sluice_sample_facts sluice_sample_facts_of(const struct sluice_pipeline *pipeline,
                                                  const struct sluice_manifest_entry *entry,
                                                  const struct sluice_draw_key *key)
{
    return sluice_sample_facts_make(pipeline, entry->bytes, entry->width, entry->height,
                                    entry->coding, key);
}
