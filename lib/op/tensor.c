#include "op/tensor.h"

#include <math.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "f32 samples are little endian");

void sluice_tensor_table(const struct sluice_scale *scale, sluice_pipeline_table table)
{
    for (int c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++)
            table[c][v] = (float)v / 255.0f;
    }
    if (scale) {
        sluice_pipeline_table plain;
        memcpy(plain, table, sizeof(plain));
        sluice_tensor_normalize(scale, plain[0], 256, table[0]);
    }
}

bool sluice_tensor_table_is_invertible(const sluice_pipeline_table table)
{
    for (int c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++) {
            if (!isfinite(table[c][v]) || (v > 0 && !(table[c][v] > table[c][v - 1])))
                return false;
        }
    }
    return true;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* Inverts a channel's table.  The table is linear except for rounding, so the line through its ends
 * gives the index of the right entry, or a neighbour's. */
struct inverse {
    const float *row;
    float first, per_value;
};

/* The u8 value of one float, or -1. */
static inline int find_value(const struct inverse *inverse, float value)
{
    const float *row = inverse->row;
    const float guess = (value - inverse->first) * inverse->per_value + 0.5f;
    if (!(guess >= 0 && guess < 256)) /* also not a number */
        return -1;
    int v = (int)guess;
    /* As bits: a negative zero is not the table's zero. */
    if (bits_of(row[v]) == bits_of(value))
        return v;
    while (v > 0 && row[v] > value)
        v--;
    while (v < 255 && row[v] < value)
        v++;
    return bits_of(row[v]) == bits_of(value) ? v : -1;
}

sluice_status sluice_tensor_to_u8(const sluice_pipeline_table table, const float *values,
                                  struct sluice_size size, uint8_t *out, struct sluice_err *err)
{
    const size_t plane = (size_t)size.width * size.height;
    for (size_t c = 0; c < 3; c++) {
        const float *row = table[c];
        const struct inverse inverse = {row, row[0], 255.0f / (row[255] - row[0])};
        for (size_t i = 0; i < plane; i++) {
            const float value = values[c * plane + i];
            const int v = find_value(&inverse, value);
            if (v < 0)
                return sluice_fail(err, SLUICE_E_CORRUPT,
                                   "float32 value %a of channel %zu comes from no pixel value",
                                   (double)value, c);
            out[3 * i + c] = (uint8_t)v;
        }
    }
    return SLUICE_OK;
}

void sluice_tensor_normalize(const struct sluice_scale *scale, const float *in, size_t len,
                             float *out)
{
    for (size_t c = 0; c < 3; c++) {
        const float mean = (float)scale->mean[c], std = (float)scale->std[c];
        for (size_t i = 0; i < len; i++)
            out[c * len + i] = (in[c * len + i] - mean) / std;
    }
}
