#include "train/checkpoint.h"

#include "base/hash.h"
#include "fuzz.h"

/* Touches every byte that the reader says is there. */
static void read_all(const uint8_t *bytes, size_t len)
{
    struct sluice_checkpoint checkpoint;
    struct sluice_err err = {{0}};
    if (sluice_checkpoint_parse(bytes, len, &checkpoint, &err))
        return;
    volatile uint8_t sink = 0;
    for (size_t i = 0; i < checkpoint.num_tensors; i++) {
        const struct sluice_checkpoint_tensor *tensor = &checkpoint.tensors[i];
        for (size_t k = 0; k < tensor->count * sizeof(float); k++)
            sink = tensor->data[k];
        FUZZ_CHECK(sluice_checkpoint_find(&checkpoint, tensor->kind, tensor->name));
    }
    (void)sink;
    sluice_checkpoint_clear(&checkpoint);
}

/* As it is, and with a right checksum at the end: else nothing would get past the checksum. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_all(data, size);
    uint8_t *sealed = malloc(size + 16);
    if (!sealed)
        return 0;
    if (size)
        memcpy(sealed, data, size);
    sluice_hash128_bytes(sluice_hash128(sealed, size), sealed + size);
    read_all(sealed, size + 16);
    free(sealed);
    return 0;
}
