#include "pipeline/op.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* to_tensor and normalize.  A finished value depends on one u8 and its channel, so
 * both are one table of 3 x 256 floats, made here in torch's float32 arithmetic
 * (every +, - and / rounds to float32). */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "f32 samples are little endian");

static sluice_status parse_to_tensor(struct sluice_op *op, struct sluice_spec_text *text,
                                     bool has_value, struct sluice_err *err)
{
    (void)op;
    if (has_value)
        return sluice_spec_fail(text, err, "to_tensor takes no value");
    return SLUICE_OK;
}

static void print_to_tensor(const struct sluice_op *op, char *text, size_t room)
{
    (void)op, (void)room;
    text[0] = '\0';
}

const struct sluice_op_type sluice_op_to_tensor = {
    .name = "to_tensor",
    .family = SLUICE_OP_TENSOR,
    .example = "",
    .help = "floats from 0 to 1; comes after all pixel ops",
    .parse = parse_to_tensor,
    .print = print_to_tensor,
};

static sluice_status parse_triple(struct sluice_spec_text *text, double triple[3],
                                  struct sluice_err *err)
{
    for (int c = 0; c < 3; c++) {
        if (c > 0 && !sluice_spec_accept(text, ":"))
            return sluice_spec_fail(text, err, "three numbers R:G:B are wanted here");
        const sluice_status status = sluice_spec_number(text, &triple[c], err);
        if (status)
            return status;
    }
    return SLUICE_OK;
}

static sluice_status parse_normalize(struct sluice_op *op, struct sluice_spec_text *text,
                                     bool has_value, struct sluice_err *err)
{
    static const double imagenet_mean[3] = {0.485, 0.456, 0.406};
    static const double imagenet_std[3] = {0.229, 0.224, 0.225};

    if (!has_value)
        return sluice_spec_fail(text, err, "'=imagenet' or '=R:G:B/R:G:B' is wanted here");
    const size_t len = strcspn(text->at, ",");
    if (len == strlen("imagenet") && sluice_spec_accept(text, "imagenet")) {
        memcpy(op->mean, imagenet_mean, sizeof(op->mean));
        memcpy(op->std, imagenet_std, sizeof(op->std));
        return SLUICE_OK;
    }
    if (*text->at < '0' || *text->at > '9') {
        static const char *const known[] = {"imagenet", NULL};
        char near[80];
        sluice_spec_suggest(text, known, near, sizeof(near));
        return sluice_spec_fail(text, err, "imagenet or R:G:B/R:G:B is wanted here%s", near);
    }
    const struct sluice_spec_text start = *text;
    sluice_status status = parse_triple(text, op->mean, err);
    if (!status && !sluice_spec_accept(text, "/"))
        status = sluice_spec_fail(text, err, "'/' and three deviations are wanted here");
    if (!status)
        status = parse_triple(text, op->std, err);
    if (status)
        return status;
    for (int c = 0; c < 3; c++) {
        if (op->std[c] == 0)
            return sluice_spec_fail(&start, err, "a deviation is 0");
    }
    sluice_pipeline_table table;
    sluice_tensor_table(op, table);
    if (!sluice_tensor_table_is_invertible(table))
        return sluice_spec_fail(&start, err, "with these, two pixel values give one float");
    return SLUICE_OK;
}

static void print_normalize(const struct sluice_op *op, char *text, size_t room)
{
    char numbers[6][32];
    for (int c = 0; c < 3; c++) {
        sluice_print_number(op->mean[c], numbers[c], sizeof(numbers[c]));
        sluice_print_number(op->std[c], numbers[3 + c], sizeof(numbers[3 + c]));
    }
    snprintf(text, room, "=%s:%s:%s/%s:%s:%s", numbers[0], numbers[1], numbers[2], numbers[3],
             numbers[4], numbers[5]);
}

const struct sluice_op_type sluice_op_normalize = {
    .name = "normalize",
    .family = SLUICE_OP_TENSOR,
    .example = "=imagenet",
    .help = "subtracts the mean and divides by the deviation, also R:G:B/R:G:B; follows to_tensor",
    .parse = parse_normalize,
    .print = print_normalize,
};

void sluice_tensor_table(const struct sluice_op *normalize, sluice_pipeline_table table)
{
    for (int c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++)
            table[c][v] = (float)v / 255.0f;
    }
    if (normalize) {
        sluice_pipeline_table plain;
        memcpy(plain, table, sizeof(plain));
        sluice_tensor_normalize(normalize, plain[0], 256, table[0]);
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

/* Inverts a channel's table.  The table is linear but for rounding, so the line through its ends
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

void sluice_tensor_normalize(const struct sluice_op *normalize, const float *in, size_t len,
                             float *out)
{
    for (size_t c = 0; c < 3; c++) {
        const float mean = (float)normalize->mean[c], std = (float)normalize->std[c];
        for (size_t i = 0; i < len; i++)
            out[c * len + i] = (in[c * len + i] - mean) / std;
    }
}
