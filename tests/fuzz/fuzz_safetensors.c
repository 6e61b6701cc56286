#include "train/checkpoint/safetensors.h"

#include "fuzz.h"
#include "fuzz_seal.h"

/* Reads every tensor that the parser says is there: they cover the data once. */
static void read_all(const uint8_t *bytes, size_t len)
{
    struct sluice_safetensors file;
    struct sluice_err err = {{0}};
    if (sluice_safetensors_parse(bytes, len, &file, &err)) {
        FUZZ_CHECK(err.text[0]);
        return;
    }
    const uint8_t *end = bytes + len;
    for (size_t i = file.num_tensors; i-- > 0;) {
        static const size_t sizes[] = {4, 2, 2, 8};
        const struct sluice_tensor *tensor = &file.tensors[i];
        FUZZ_CHECK(sluice_safetensors_find(&file, tensor->name) == tensor);
        FUZZ_CHECK(tensor->count <= len &&
                   tensor->data + tensor->count * sizes[tensor->type] == end);
        end = tensor->data;
        float *values = malloc((tensor->count + 1) * sizeof(*values));
        FUZZ_CHECK(values);
        if (tensor->type != SLUICE_TENSOR_I64)
            sluice_tensor_to_float(tensor, values);
        free(values);
    }
    const char *text = sluice_safetensors_text(&file, "model");
    FUZZ_CHECK(!text || strlen(text) < len);
    sluice_safetensors_clear(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_all(data, size);
    uint8_t *sealed = fuzz_seal_safetensors(data, size);
    read_all(sealed, size);
    free(sealed);
    return 0;
}
