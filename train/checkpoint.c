#include "train/checkpoint.h"

#include "base/array.h"
#include "base/buf.h"
#include "base/checked.h"
#include "base/file.h"
#include "base/hash.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied as they are");
_Static_assert(sizeof(float) == 4, "float32");

static const char magic[8] = {'S', 'L', 'U', 'I', 'C', 'K', 'P', 'T'};
#define VERSION 1u
#define CHECKSUM_LEN 16

/* Writing: the file is put together in memory, as it is read. */

struct sluice_checkpoint_writer {
    char *path;
    uint8_t *bytes;
    size_t len, capacity;
    uint32_t tensors_left;
};

static sluice_status put(struct sluice_checkpoint_writer *writer, const void *data, size_t len,
                         struct sluice_err *err)
{
    size_t needed;
    if (!sluice_add_size(writer->len, len, &needed))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "%s: too large", writer->path);
    if (!sluice_array_reserve(&writer->bytes, &writer->capacity, needed, 1))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "%s: no memory for %zu bytes", writer->path,
                           needed);
    memcpy(writer->bytes + writer->len, data, len);
    writer->len = needed;
    return SLUICE_OK;
}

static sluice_status put_text(struct sluice_checkpoint_writer *writer, const char *text,
                              size_t len_bytes, struct sluice_err *err)
{
    const uint32_t len = (uint32_t)strlen(text);
    const sluice_status status = put(writer, &len, len_bytes, err);
    return status ? status : put(writer, text, len, err);
}

static sluice_status put_head(struct sluice_checkpoint_writer *writer,
                              const struct sluice_checkpoint_head *head, struct sluice_err *err)
{
    const uint32_t version = VERSION;
    const uint32_t image_size =
        head->height == head->width ? head->height : head->height << 16 | head->width;
    sluice_status status = put(writer, magic, sizeof(magic), err);
    if (!status)
        status = put(writer, &version, sizeof(version), err);
    if (!status)
        status = put_text(writer, head->model, 2, err);
    if (!status)
        status = put(writer, &image_size, sizeof(image_size), err);
    if (!status)
        status = put(writer, &head->num_classes, sizeof(head->num_classes), err);
    if (!status)
        status = put(writer, &head->seed, sizeof(head->seed), err);
    if (!status)
        status = put(writer, &head->steps, sizeof(head->steps), err);
    if (!status)
        status = put_text(writer, head->extra, 4, err);
    if (!status)
        status = put(writer, &head->num_tensors, sizeof(head->num_tensors), err);
    return status;
}

sluice_status sluice_checkpoint_writer_open(const char *path,
                                            const struct sluice_checkpoint_head *head,
                                            struct sluice_checkpoint_writer **writer,
                                            struct sluice_err *err)
{
    assert(strlen(head->model) < sizeof(((struct sluice_checkpoint *)0)->model));
    assert(head->num_tensors <= SLUICE_CHECKPOINT_MAX_TENSORS);
    if (strlen(head->extra) > SLUICE_CHECKPOINT_MAX_EXTRA)
        return sluice_fail(err, SLUICE_E_INVALID, "checkpoint: the extra text is over %d bytes",
                           SLUICE_CHECKPOINT_MAX_EXTRA);

    struct sluice_checkpoint_writer *w = calloc(1, sizeof(*w));
    if (!w || !(w->path = strdup(path))) {
        free(w);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to write a checkpoint");
    }
    w->tensors_left = head->num_tensors;
    const sluice_status status = put_head(w, head, err);
    if (status) {
        sluice_checkpoint_writer_close(w);
        return status;
    }
    *writer = w;
    return SLUICE_OK;
}

sluice_status sluice_checkpoint_writer_put(struct sluice_checkpoint_writer *writer,
                                           enum sluice_checkpoint_kind kind, const char *name,
                                           unsigned num_dims, const uint32_t *dims,
                                           const float *data, struct sluice_err *err)
{
    assert(writer->tensors_left > 0 && num_dims >= 1 && num_dims <= 4);
    assert(strlen(name) < sizeof(((struct sluice_checkpoint_tensor *)0)->name));
    writer->tensors_left--;
    const uint8_t start[2] = {(uint8_t)kind, (uint8_t)num_dims};
    size_t count = 1;
    for (unsigned i = 0; i < num_dims; i++)
        count *= dims[i];
    sluice_status status = put(writer, start, sizeof(start), err);
    if (!status)
        status = put_text(writer, name, 2, err);
    if (!status)
        status = put(writer, dims, num_dims * sizeof(*dims), err);
    if (!status)
        status = put(writer, data, count * sizeof(*data), err);
    return status;
}

sluice_status sluice_checkpoint_writer_commit(struct sluice_checkpoint_writer *writer,
                                              struct sluice_err *err)
{
    assert(writer->tensors_left == 0);
    uint8_t checksum[CHECKSUM_LEN];
    sluice_hash128_bytes(sluice_hash128(writer->bytes, writer->len), checksum);
    const sluice_status status = put(writer, checksum, sizeof(checksum), err);
    if (status)
        return status;
    return sluice_file_write_atomic(writer->path, writer->bytes, writer->len, err);
}

void sluice_checkpoint_writer_close(struct sluice_checkpoint_writer *writer)
{
    if (!writer)
        return;
    free(writer->bytes);
    free(writer->path);
    free(writer);
}

/* Reading */

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

/* A text with a length of 2 bytes; false if it does not fit `size` with a NUL or has one inside. */
static bool get_name(struct reader *reader, char *out, size_t size)
{
    uint16_t len;
    if (!get(reader, &len, sizeof(len)) || len >= size)
        return false;
    const uint8_t *bytes = take(reader, len);
    if (!bytes || memchr(bytes, 0, len))
        return false;
    memcpy(out, bytes, len);
    out[len] = '\0';
    return true;
}

static sluice_status get_tensor(struct reader *reader, struct sluice_checkpoint_tensor *tensor,
                                struct sluice_err *err)
{
    uint8_t start[2];
    if (!get(reader, start, sizeof(start)) || start[0] > SLUICE_CHECKPOINT_MOMENTUM ||
        start[1] < 1 || start[1] > 4 || !get_name(reader, tensor->name, sizeof(tensor->name)))
        return sluice_fail(err, SLUICE_E_CORRUPT, "a tensor without a proper name or kind");
    tensor->kind = (enum sluice_checkpoint_kind)start[0];
    tensor->num_dims = start[1];
    tensor->count = 1;
    for (unsigned i = 0; i < tensor->num_dims; i++) {
        if (!get(reader, &tensor->dims[i], sizeof(tensor->dims[i])) ||
            !sluice_mul_size(tensor->count, tensor->dims[i], &tensor->count))
            return sluice_fail(err, SLUICE_E_CORRUPT, "tensor %s: no proper shape", tensor->name);
    }
    size_t bytes;
    if (!sluice_mul_size(tensor->count, sizeof(float), &bytes) ||
        !(tensor->data = take(reader, bytes)))
        return sluice_fail(err, SLUICE_E_CORRUPT, "tensor %s: its data is cut off", tensor->name);
    return SLUICE_OK;
}

static sluice_status parse(struct reader *reader, struct sluice_checkpoint *out,
                           struct sluice_err *err)
{
    uint32_t image_size, extra_len, num_tensors;
    if (!get_name(reader, out->model, sizeof(out->model)) ||
        !get(reader, &image_size, sizeof(image_size)) ||
        !get(reader, &out->num_classes, sizeof(out->num_classes)) ||
        !get(reader, &out->seed, sizeof(out->seed)) ||
        !get(reader, &out->steps, sizeof(out->steps)) ||
        !get(reader, &extra_len, sizeof(extra_len)) || extra_len > SLUICE_CHECKPOINT_MAX_EXTRA)
        return sluice_fail(err, SLUICE_E_CORRUPT, "no proper head");
    out->height = image_size >> 16 ? image_size >> 16 : image_size;
    out->width = image_size & 0xFFFF;
    const uint8_t *extra = take(reader, extra_len);
    if (!extra || memchr(extra, 0, extra_len) || !get(reader, &num_tensors, sizeof(num_tensors)) ||
        num_tensors > SLUICE_CHECKPOINT_MAX_TENSORS)
        return sluice_fail(err, SLUICE_E_CORRUPT, "no proper head");

    out->extra = strndup((const char *)extra, extra_len);
    out->tensors = calloc(num_tensors ? num_tensors : 1, sizeof(*out->tensors));
    if (!out->extra || !out->tensors)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %u tensors", num_tensors);
    for (; out->num_tensors < num_tensors; out->num_tensors++) {
        const sluice_status status = get_tensor(reader, &out->tensors[out->num_tensors], err);
        if (status)
            return status;
    }
    if (reader->pos != reader->end)
        return sluice_fail(err, SLUICE_E_CORRUPT, "bytes after the last tensor");
    return SLUICE_OK;
}

sluice_status sluice_checkpoint_parse(const uint8_t *bytes, size_t len,
                                      struct sluice_checkpoint *checkpoint, struct sluice_err *err)
{
    uint32_t version;
    if (len < sizeof(magic) + sizeof(version) || memcmp(bytes, magic, sizeof(magic)) != 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "not a checkpoint");
    memcpy(&version, bytes + sizeof(magic), sizeof(version));
    if (version != VERSION)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "checkpoint version %u, not %u", version,
                           VERSION);
    const size_t head_len = sizeof(magic) + sizeof(version);
    if (len < head_len + CHECKSUM_LEN)
        return sluice_fail(err, SLUICE_E_CORRUPT, "the checkpoint is cut off");
    uint8_t checksum[CHECKSUM_LEN];
    sluice_hash128_bytes(sluice_hash128(bytes, len - CHECKSUM_LEN), checksum);
    if (memcmp(checksum, bytes + len - CHECKSUM_LEN, CHECKSUM_LEN) != 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "the checkpoint is cut off or damaged");

    struct reader reader = {bytes + head_len, bytes + len - CHECKSUM_LEN};
    struct sluice_checkpoint parsed = {.num_tensors = 0};
    const sluice_status status = parse(&reader, &parsed, err);
    if (status) {
        sluice_checkpoint_clear(&parsed);
        return status;
    }
    *checkpoint = parsed;
    return SLUICE_OK;
}

sluice_status sluice_checkpoint_read(const char *path, struct sluice_checkpoint *checkpoint,
                                     struct sluice_err *err)
{
    struct sluice_buf *file = NULL;
    sluice_status status = sluice_file_read(path, SIZE_MAX, NULL, &file, err);
    if (status)
        return status;
    struct sluice_err why = {{0}};
    status = sluice_checkpoint_parse(file->data, file->len, checkpoint, &why);
    if (status) {
        sluice_buf_unref(file);
        return sluice_fail(err, status, "%s: %s", path, why.text);
    }
    checkpoint->file = file;
    return SLUICE_OK;
}

void sluice_checkpoint_clear(struct sluice_checkpoint *checkpoint)
{
    sluice_buf_unref(checkpoint->file);
    free(checkpoint->extra);
    free(checkpoint->tensors);
    memset(checkpoint, 0, sizeof(*checkpoint));
}

const struct sluice_checkpoint_tensor *
sluice_checkpoint_find(const struct sluice_checkpoint *checkpoint, enum sluice_checkpoint_kind kind,
                       const char *name)
{
    for (size_t i = 0; i < checkpoint->num_tensors; i++) {
        const struct sluice_checkpoint_tensor *tensor = &checkpoint->tensors[i];
        if (tensor->kind == kind && strcmp(tensor->name, name) == 0)
            return tensor;
    }
    return NULL;
}
