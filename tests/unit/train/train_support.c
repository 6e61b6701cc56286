#include "train_support.h"

#include "support/test.h"

float train_test_table[3][256];

void train_test_fill_table(void)
{
    static const float mean[3] = {0.485f, 0.456f, 0.406f};
    static const float std[3] = {0.229f, 0.224f, 0.225f};
    for (int c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++)
            train_test_table[c][v] = ((float)v / 255.0f - mean[c]) / std[c];
    }
}

void train_test_fill_batch(unsigned n, unsigned size, unsigned num_classes, uint64_t offset,
                           uint8_t *pixels, uint32_t *labels)
{
    for (uint64_t i = 0; i < (uint64_t)n * size * size * 3; i++) {
        uint32_t hash = (uint32_t)(i + offset) * 2654435761u + 12345u;
        hash = (hash ^ (hash >> 15)) * 2246822519u;
        pixels[i] = (uint8_t)(hash >> 24);
    }
    for (unsigned s = 0; s < n; s++)
        labels[s] = (s * 7 + 3) % num_classes;
}

struct sluice_trainer *train_test_create(const struct sluice_train_options *options)
{
    struct sluice_err err = {{0}};
    struct sluice_trainer *trainer = NULL;
    const sluice_status status = sluice_trainer_create(options, &trainer, &err);
    if (status == SLUICE_E_UNSUPPORTED)
        sluice_test_skip(err.text);
    if (status) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    return trainer;
}

void train_test_require(sluice_status status, const struct sluice_err *err)
{
    if (status)
        printf("%s: %s\n", sluice_status_name(status), err->text);
    REQUIRE_OK(status);
}

int train_test_same_bits(const void *a, const void *b, size_t len)
{
    return memcmp(a, b, len) == 0;
}
