#include "train/checkpoint/checkpoint_v1.h"

#include "base/checked.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

static const char magic[8] = {'S', 'L', 'U', 'I', 'C', 'K', 'P', 'T'};
#define VERSION 1u
#define CHECKSUM_LEN 16
#define MAX_EXTRA 65536
#define NAME_BYTES 64        /* with the NUL */
#define LEAST_TENSOR_BYTES 8 /* kind, dims, an empty name, one dim */

struct reader {
    const uint8_t *pos, *end;
};

/* NULL if fewer bytes are left. */
static const uint8_t *take(struct reader *reader, size_t len)
{
    if ((size_t)(reader->end - reader->pos) < len)
        return NULL;
    const uint8_t *start = reader->pos;
    reader->pos += len;
    return start;
}

static bool get(struct reader *reader, void *out, size_t len)
{
    const uint8_t *bytes = take(reader, len);
    if (bytes)
        memcpy(out, bytes, len);
    return bytes;
}

/* A text with a length of 2 bytes; false if it does not fit NAME_BYTES or has a NUL inside. */
static bool get_name(struct reader *reader, char out[NAME_BYTES])
{
    uint16_t len;
    if (!get(reader, &len, sizeof(len)) || len >= NAME_BYTES)
        return false;
    const uint8_t *bytes = take(reader, len);
    if (!bytes || memchr(bytes, 0, len))
        return false;
    memcpy(out, bytes, len);
    out[len] = '\0';
    return true;
}

static sluice_status get_tensor(struct reader *reader, char *name, bool *is_momentum,
                                struct sluice_tensor *tensor, struct sluice_err *err)
{
    uint8_t start[2];
    if (!get(reader, start, sizeof(start)) || start[0] > 1 || start[1] < 1 || start[1] > 4 ||
        !get_name(reader, name))
        return sluice_fail(err, SLUICE_E_CORRUPT, "a tensor without a proper name or kind");
    *is_momentum = start[0];
    *tensor = (struct sluice_tensor){
        .name = name, .type = SLUICE_TENSOR_F32, .num_dims = start[1], .count = 1};
    for (unsigned i = 0; i < tensor->num_dims; i++) {
        uint32_t dim;
        if (!get(reader, &dim, sizeof(dim)) || !sluice_mul_size(tensor->count, dim, &tensor->count))
            return sluice_fail(err, SLUICE_E_CORRUPT, "tensor %s: no proper shape", name);
        tensor->dims[i] = dim;
    }
    size_t bytes;
    if (!sluice_mul_size(tensor->count, sizeof(float), &bytes) ||
        !(tensor->data = take(reader, bytes)))
        return sluice_fail(err, SLUICE_E_CORRUPT, "tensor %s: its data is cut off", name);
    return SLUICE_OK;
}

static sluice_status get_tensors(struct reader *reader, uint32_t num, struct sluice_checkpoint *out,
                                 struct sluice_err *err)
{
    const size_t room = num ? num : 1;
    out->values.tensors = calloc(room, sizeof(*out->values.tensors));
    out->momenta.tensors = calloc(room, sizeof(*out->momenta.tensors));
    out->names = calloc(room, NAME_BYTES);
    if (!out->values.tensors || !out->momenta.tensors || !out->names)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %u tensors", num);
    for (size_t i = 0; i < num; i++) {
        struct sluice_tensor tensor;
        bool is_momentum;
        const sluice_status status =
            get_tensor(reader, out->names + i * NAME_BYTES, &is_momentum, &tensor, err);
        if (status)
            return status;
        struct sluice_safetensors *list = is_momentum ? &out->momenta : &out->values;
        list->tensors[list->num_tensors++] = tensor;
    }
    if (reader->pos != reader->end)
        return sluice_fail(err, SLUICE_E_CORRUPT, "bytes after the last tensor");
    return SLUICE_OK;
}

static sluice_status get_all(struct reader *reader, struct sluice_checkpoint *out,
                             struct sluice_err *err)
{
    uint32_t image_size, extra_len, num_tensors;
    if (!get_name(reader, out->model) || !get(reader, &image_size, sizeof(image_size)) ||
        !get(reader, &out->num_classes, sizeof(out->num_classes)) ||
        !get(reader, &out->seed, sizeof(out->seed)) ||
        !get(reader, &out->steps, sizeof(out->steps)) ||
        !get(reader, &extra_len, sizeof(extra_len)) || extra_len > MAX_EXTRA)
        return sluice_fail(err, SLUICE_E_CORRUPT, "no proper head");
    out->height = image_size >> 16 ? image_size >> 16 : image_size;
    out->width = image_size & 0xFFFF;
    const uint8_t *extra = take(reader, extra_len);
    if (!extra || memchr(extra, 0, extra_len) || !get(reader, &num_tensors, sizeof(num_tensors)) ||
        num_tensors > (size_t)(reader->end - reader->pos) / LEAST_TENSOR_BYTES)
        return sluice_fail(err, SLUICE_E_CORRUPT, "no proper head");
    out->extra = strndup((const char *)extra, extra_len);
    if (!out->extra)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a checkpoint");
    return get_tensors(reader, num_tensors, out, err);
}

bool sluice_is_checkpoint_v1(const uint8_t *bytes, size_t len)
{
    return len >= sizeof(magic) && memcmp(bytes, magic, sizeof(magic)) == 0;
}

sluice_status sluice_checkpoint_v1_parse(const uint8_t *bytes, size_t len,
                                         struct sluice_checkpoint *checkpoint,
                                         struct sluice_err *err)
{
    uint32_t version;
    const size_t head_len = sizeof(magic) + sizeof(version);
    if (!sluice_is_checkpoint_v1(bytes, len) || len < head_len)
        return sluice_fail(err, SLUICE_E_CORRUPT, "not a checkpoint");
    memcpy(&version, bytes + sizeof(magic), sizeof(version));
    if (version != VERSION)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "checkpoint version %u, not %u", version,
                           VERSION);
    if (len < head_len + CHECKSUM_LEN)
        return sluice_fail(err, SLUICE_E_CORRUPT, "the checkpoint is cut off");
    uint8_t checksum[CHECKSUM_LEN];
    sluice_hash128_bytes(sluice_hash128(bytes, len - CHECKSUM_LEN), checksum);
    if (memcmp(checksum, bytes + len - CHECKSUM_LEN, CHECKSUM_LEN) != 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "the checkpoint is cut off or damaged");
    struct reader reader = {bytes + head_len, bytes + len - CHECKSUM_LEN};
    return get_all(&reader, checkpoint, err);
}
