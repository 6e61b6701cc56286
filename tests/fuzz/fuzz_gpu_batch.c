/* Batches for the device, decoded by the device's kernels on the CPU: no bytes lead them out of
 * their memory, and a row that they give is the CPU's, also with the file's index.  One that the
 * input changes may give other rows. */

#include "base/buf.h"
#include "gpu/decode_host.h"
#include "image/codecs/codec.h"

#include "fuzz.h"

#define SIDE 16
#define MAX_PIXELS (64 * 1024)

static struct sluice_codec *codec;
static struct sluice_resizer *resizer;
static struct sluice_gpu_batch batch;

static void prepare(void)
{
    const struct sluice_gpu_limits limits = {
        .max_samples = 2,
        .num_views = 1,
        .views = {{SIDE, SIDE}},
        .max_file_bytes = 1 << 20,
        .max_pixels = 2 * MAX_PIXELS,
    };
    struct sluice_gpu_sizes capacity;
    if (sluice_codec_create(&codec, NULL) != SLUICE_OK ||
        sluice_resizer_create(&resizer, NULL) != SLUICE_OK ||
        sluice_gpu_limits_check(&limits, &capacity, NULL) != SLUICE_OK)
        abort();
    void *upload = aligned_alloc(16, (capacity.upload_bytes + 15) / 16 * 16);
    FUZZ_CHECK(upload);
    sluice_gpu_batch_init(&batch, &limits, &capacity, upload);
}

static void check_row(const uint8_t *data, size_t size, const struct sluice_gpu_request *request,
                      const uint8_t *row)
{
    struct sluice_rgb rgb;
    uint8_t want[SIDE * SIDE * 3];
    FUZZ_CHECK(sluice_codec_decode_region(codec, data, size, &request->box, 0, NULL, &rgb, NULL) ==
               SLUICE_OK);
    const struct sluice_image_view view = {
        .pixels = rgb.pixels->data,
        .stride = (size_t)rgb.width * 3,
        .width = rgb.width,
        .height = rgb.height,
    };
    if (sluice_resize_rgb_part(resizer, &request->part, &view, request->is_flipped, want, NULL) !=
            SLUICE_OK ||
        memcmp(want, row, sizeof(want)) != 0)
        abort();
    sluice_buf_unref(rgb.pixels);
}

/* Adds the file twice and decodes it.  False: it is refused, or has a fault. */
static bool decode(const uint8_t *data, size_t size, const struct sluice_jpeg_index *index,
                   const struct sluice_gpu_request requests[2], uint8_t *rows)
{
    sluice_gpu_batch_clear(&batch);
    for (uint32_t i = 0; i < 2; i++) {
        struct sluice_err err = {{0}};
        if (sluice_gpu_batch_add(&batch, data, size, index, &requests[i], &err) != SLUICE_OK) {
            if (!err.text[0] || batch.num_samples != i)
                abort();
            return false;
        }
    }
    sluice_status statuses[2];
    if (sluice_gpu_decode_host(&batch, rows, statuses, NULL) != SLUICE_OK ||
        statuses[0] != statuses[1])
        abort();
    return statuses[0] == SLUICE_OK;
}

/* Lets bytes of the input choose points and move them between their neighbours. */
static void forge(struct sluice_jpeg_index *index, const uint8_t *data, size_t size)
{
    const uint32_t num_points = index->mcus_down * index->points_across;
    for (size_t i = size > 64 ? size - 64 : 0; i + 6 <= size; i += 6) {
        const uint32_t at = (uint32_t)(data[i] << 8 | data[i + 1]) % num_points;
        struct sluice_jpeg_index_point *point = &index->points[at];
        point->dc[data[i + 2] % index->num_components] = (int16_t)(data[i + 3] << 8 | data[i + 4]);
        if (at % index->points_across == 0 || at + 1 == num_points)
            continue;
        const uint64_t from = (uint64_t)point[-1].offset * 8 + point[-1].bit;
        const uint64_t to = (uint64_t)point[1].offset * 8 + point[1].bit;
        const uint64_t bit = from + 1 + (data[i + 4] << 8 | data[i + 5]) % (to - from - 1);
        point->offset = (uint32_t)(bit / 8);
        point->bit = bit % 8;
    }
}

static void check_indexed(const uint8_t *data, size_t size, uint32_t step,
                          const struct sluice_gpu_request requests[2], uint8_t *rows)
{
    struct sluice_jpeg_index index;
    if (sluice_jpeg_index_build(data, size, 0, step, &index, NULL) != SLUICE_OK)
        return;
    if (decode(data, size, &index, requests, rows)) {
        for (uint32_t i = 0; i < 2; i++)
            check_row(data, size, &requests[i], rows + (size_t)i * SIDE * SIDE * 3);
    }
    forge(&index, data, size);
    (void)decode(data, size, &index, requests, rows);
    sluice_jpeg_index_clear(&index);
}

/* The first four bytes choose the box, the flip and the index's step, the rest is the file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4)
        return 0;
    if (!codec)
        prepare();
    const uint8_t *choice = data;
    data += 4;
    size -= 4;
    struct sluice_image_info info;
    if (sluice_image_probe(data, size, &info, NULL) != SLUICE_OK)
        return 0;
    struct sluice_box box = {.left = choice[0] * info.width / 256,
                             .top = choice[1] * info.height / 256};
    box.width = 1 + choice[2] * (info.width - box.left - 1) / 255;
    box.height = 1 + choice[3] * (info.height - box.top - 1) / 255;

    const struct sluice_gpu_request requests[2] = {
        sluice_gpu_request_whole(&batch, &box, choice[0] % 2 != 0, 0),
        sluice_gpu_request_whole(&batch, &box, choice[0] % 2 != 1, 1),
    };
    _Alignas(16) static uint8_t rows[2][SIDE * SIDE * 3];
    if (decode(data, size, NULL, requests, rows[0])) {
        for (uint32_t i = 0; i < 2; i++)
            check_row(data, size, &requests[i], rows[i]);
    }
    check_indexed(data, size, choice[1] % 16, requests, rows[0]);
    return 0;
}
