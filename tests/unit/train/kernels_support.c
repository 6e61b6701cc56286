#include "kernels_support.h"

#include "base/rng.h"
#include "support/test.h"

#include <math.h>

#define MAX_BLOCKS 128
#define GUARD 256
#define GUARD_BYTE 0xA5

static struct block {
    uint8_t *memory; /* of GUARD + bytes + GUARD */
    size_t bytes;
} blocks[MAX_BLOCKS];
static size_t num_blocks;

void kernels_require(cudaError_t error)
{
    if (error)
        printf("%s\n", cudaGetErrorString(error));
    CU_ASSERT_EQUAL_FATAL(error, cudaSuccess);
}

void *kernels_to_device(const void *host, size_t bytes)
{
    CU_ASSERT_FATAL(num_blocks < MAX_BLOCKS);
    struct block *block = &blocks[num_blocks];
    kernels_require(cudaMalloc((void **)&block->memory, bytes + 2 * (size_t)GUARD));
    num_blocks++;
    block->bytes = bytes;
    kernels_require(cudaMemset(block->memory, GUARD_BYTE, bytes + 2 * (size_t)GUARD));
    if (host)
        kernels_require(cudaMemcpy(block->memory + GUARD, host, bytes, cudaMemcpyHostToDevice));
    else
        kernels_require(cudaMemset(block->memory + GUARD, 0xFF, bytes));
    return block->memory + GUARD;
}

void *kernels_from_device(const void *device, size_t bytes)
{
    void *host = calloc(1, bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(host);
    kernels_require(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
    return host;
}

void kernels_end(void)
{
    size_t num_written = 0;
    while (num_blocks) {
        const struct block *block = &blocks[--num_blocks];
        uint8_t guards[2 * GUARD];
        kernels_require(cudaMemcpy(guards, block->memory, GUARD, cudaMemcpyDeviceToHost));
        kernels_require(cudaMemcpy(guards + GUARD, block->memory + GUARD + block->bytes, GUARD,
                                   cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < sizeof(guards); i++)
            num_written += guards[i] != GUARD_BYTE;
        cudaFree(block->memory);
    }
    CU_ASSERT_EQUAL(num_written, 0);
}

static uint16_t bf16_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    if (isnan(value))
        return 0x7FFF;
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static float float_of(uint16_t value)
{
    const uint32_t bits = (uint32_t)value << 16;
    float result;
    memcpy(&result, &bits, sizeof(result));
    return result;
}

float kernels_round(enum sluice_cuda_type type, double value)
{
    return type == SLUICE_CUDA_BF16 ? float_of(bf16_of((float)value)) : (float)value;
}

void *kernels_tensor(enum sluice_cuda_type type, const float *values, size_t count)
{
    if (type == SLUICE_CUDA_F32 || !values)
        return kernels_to_device(values, count * (type == SLUICE_CUDA_BF16 ? 2 : 4));
    uint16_t *host = malloc(count * sizeof(*host));
    for (size_t i = 0; i < count; i++)
        host[i] = bf16_of(values[i]);
    void *device = kernels_to_device(host, count * sizeof(*host));
    free(host);
    return device;
}

float *kernels_values(enum sluice_cuda_type type, const void *tensor, size_t count)
{
    if (type == SLUICE_CUDA_F32)
        return kernels_from_device(tensor, count * sizeof(float));
    uint16_t *host = kernels_from_device(tensor, count * sizeof(*host));
    float *values = malloc(count * sizeof(*values));
    for (size_t i = 0; i < count; i++)
        values[i] = float_of(host[i]);
    free(host);
    return values;
}

float *kernels_make(size_t count, uint32_t salt)
{
    return kernels_make_scaled(SLUICE_CUDA_F32, count, salt, 1, 0);
}

float *kernels_make_scaled(enum sluice_cuda_type type, size_t count, uint32_t salt, double scale,
                           double offset)
{
    float *values = malloc(count * sizeof(*values));
    const uint32_t key[2] = {(uint32_t)sluice_test_seed(), salt};
    for (size_t i = 0; i < count; i++) {
        const uint32_t counter[4] = {(uint32_t)(i / 4), 0, 0, 0};
        static uint32_t words[4];
        if (i % 4 == 0)
            sluice_philox4x32_10(key, counter, words);
        const double value = (double)(words[i % 4] % 16) / 8 - 1;
        values[i] = kernels_round(type, value * scale + offset);
    }
    return values;
}

void kernels_check(enum sluice_cuda_type type, const float *got, const double *wanted, size_t count,
                   double tolerance)
{
    const double step = type == SLUICE_CUDA_BF16 ? 0x1p-8 : 0x1p-24;
    size_t num_off = 0;
    for (size_t i = 0; i < count; i++) {
        const double most = tolerance * (1 + step) + fabs(wanted[i]) * step;
        if (isnan(wanted[i]) ? isnan(got[i]) : fabs(got[i] - wanted[i]) <= most)
            continue;
        if (num_off++ == 0)
            printf("[%zu] is %.9g, not %.9g (%.2g) ", i, (double)got[i], wanted[i], most);
    }
    CU_ASSERT_EQUAL(num_off, 0);
}

void kernels_check_same(const float *got, const float *wanted, size_t count)
{
    size_t num_off = 0;
    for (size_t i = 0; i < count; i++) {
        if (got[i] == wanted[i] || (isnan(got[i]) && isnan(wanted[i])))
            continue;
        if (num_off++ == 0)
            printf("[%zu] is %.9g, not %.9g ", i, (double)got[i], (double)wanted[i]);
    }
    CU_ASSERT_EQUAL(num_off, 0);
}
