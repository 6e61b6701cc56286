#include "train/checkpoint/checkpoint.h"

#include "base/hash.h"
#include "fuzz.h"
#include "fuzz_file.h"
#include "fuzz_seal.h"
#include "train/checkpoint/checkpoint_v1.h"

static void read_tensors(const struct sluice_safetensors *list)
{
    for (size_t i = 0; i < list->num_tensors; i++) {
        const struct sluice_tensor *tensor = &list->tensors[i];
        float *values = malloc((tensor->count + 1) * sizeof(*values));
        FUZZ_CHECK(values);
        if (tensor->type != SLUICE_TENSOR_I64)
            sluice_tensor_to_float(tensor, values);
        free(values);
        FUZZ_CHECK(sluice_safetensors_find(list, tensor->name));
    }
}

/* Reads every tensor that the reader says is there. */
static void read_v1(const uint8_t *bytes, size_t len)
{
    struct sluice_checkpoint checkpoint = {.num_classes = 0};
    struct sluice_err err = {{0}};
    if (sluice_checkpoint_v1_parse(bytes, len, &checkpoint, &err) == SLUICE_OK) {
        read_tensors(&checkpoint.values);
        read_tensors(&checkpoint.momenta);
    }
    sluice_checkpoint_clear(&checkpoint);
}

/* A file without the one of momentum is no checkpoint, whatever it says. */
static void read_file(const uint8_t *bytes, size_t len)
{
    const char *path = fuzz_file_put("run.ckpt", bytes, len);
    struct sluice_checkpoint checkpoint;
    struct sluice_err err = {{0}};
    if (sluice_checkpoint_read_weights(path, &checkpoint, &err) == SLUICE_OK) {
        read_tensors(&checkpoint.values);
        sluice_checkpoint_clear(&checkpoint);
    }
    if (sluice_checkpoint_read(path, &checkpoint, &err) == SLUICE_OK) {
        FUZZ_CHECK(sluice_is_checkpoint_v1(bytes, len));
        sluice_checkpoint_clear(&checkpoint);
    }
}

/* As it is, and with a right checksum: else nothing would get past the checksum. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_v1(data, size);
    uint8_t *sealed = malloc(size + 16);
    FUZZ_CHECK(sealed);
    if (size)
        memcpy(sealed, data, size);
    sluice_hash128_bytes(sluice_hash128(sealed, size), sealed + size);
    read_v1(sealed, size + 16);
    free(sealed);

    sealed = fuzz_seal_safetensors(data, size);
    read_file(sealed, size);
    free(sealed);
    return 0;
}
