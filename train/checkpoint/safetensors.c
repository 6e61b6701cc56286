#include "train/checkpoint/safetensors.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "base/hash.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied as they are");
_Static_assert(sizeof(float) == 4, "float32");

#define LENGTH_BYTES sizeof(uint64_t)
#define ALIGNMENT 8 /* of the data in the file, as the format's own library writes it */
#define HASH_DIGITS 32
static const char zeros[HASH_DIGITS + 1] = "00000000000000000000000000000000";

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
    [SLUICE_TENSOR_F32] = {"F32", 4},
    [SLUICE_TENSOR_F16] = {"F16", 2},
    [SLUICE_TENSOR_BF16] = {"BF16", 2},
    [SLUICE_TENSOR_I64] = {"I64", 8},
};

/* --- the hash --- */

/* Where the header has the digits; NULL: nowhere.  Within a text of JSON the quotes that this
 * looks for have a backslash. */
static const uint8_t *find_digits(const uint8_t *bytes, size_t header_len)
{
    static const char key[] = "\"" SLUICE_SAFETENSORS_HASH "\":\"";
    const uint8_t *header = bytes + LENGTH_BYTES;
    const uint8_t *found = memmem(header, header_len, key, sizeof(key) - 1);
    if (!found || header_len - (size_t)(found - header) < sizeof(key) - 1 + HASH_DIGITS)
        return NULL;
    return found + sizeof(key) - 1;
}

static sluice_status hash_file(const uint8_t *bytes, size_t len, const uint8_t *digits,
                               char hash[HASH_DIGITS + 1], struct sluice_err *err)
{
    struct sluice_hasher *hasher = sluice_hasher_create();
    if (!hasher)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a hash");
    const uint8_t *rest = digits + HASH_DIGITS;
    sluice_hasher_update(hasher, bytes, (size_t)(digits - bytes));
    sluice_hasher_update(hasher, zeros, HASH_DIGITS);
    sluice_hasher_update(hasher, rest, len - (size_t)(rest - bytes));
    sluice_hash128_hex(sluice_hasher_digest(hasher), hash);
    sluice_hasher_destroy(hasher);
    return SLUICE_OK;
}

static sluice_status check_hash(const struct sluice_safetensors *file, const uint8_t *bytes,
                                size_t len, size_t header_len, struct sluice_err *err)
{
    const char *said = sluice_safetensors_text(file, SLUICE_SAFETENSORS_HASH);
    if (!said)
        return SLUICE_OK;
    char hash[HASH_DIGITS + 1];
    const uint8_t *digits = find_digits(bytes, header_len);
    if (digits) {
        const sluice_status status = hash_file(bytes, len, digits, hash, err);
        if (status)
            return status;
    }
    if (!digits || strcmp(said, hash) != 0)
        return sluice_fail(err, SLUICE_E_CORRUPT,
                           "damaged, or changed by another program: its hash is not the \"%s\" of "
                           "its metadata",
                           SLUICE_SAFETENSORS_HASH);
    return SLUICE_OK;
}

/* --- reading --- */

/* PyTorch's files: a zip, or before version 1.6 a bare pickle. */
static bool is_pickle(const uint8_t *bytes)
{
    return memcmp(bytes, "PK\3\4", 4) == 0 || (bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5);
}

static sluice_status read_header_len(const uint8_t *bytes, size_t len, size_t *header_len,
                                     struct sluice_err *err)
{
    uint64_t length;
    if (len < LENGTH_BYTES)
        return sluice_fail(err, SLUICE_E_CORRUPT, "not safetensors: %zu bytes in all", len);
    memcpy(&length, bytes, LENGTH_BYTES);
    if (length > SLUICE_SAFETENSORS_MAX_HEADER && is_pickle(bytes))
        return sluice_fail(
            err, SLUICE_E_UNSUPPORTED,
            "a pickle of PyTorch, which could run any code; convert it: python3 -c 'import sys, "
            "torch, safetensors.torch as s; s.save_file(torch.load(sys.argv[1], "
            "map_location=\"cpu\", weights_only=True), sys.argv[2])' FROM.pth TO.safetensors");
    if (length > SLUICE_SAFETENSORS_MAX_HEADER)
        return sluice_fail(err, SLUICE_E_CORRUPT,
                           "not safetensors: a header of %llu bytes; at most %u are read",
                           (unsigned long long)length, SLUICE_SAFETENSORS_MAX_HEADER);
    if (length > len - LENGTH_BYTES)
        return sluice_fail(err, SLUICE_E_CORRUPT, "cut off: a header of %llu bytes in %zu",
                           (unsigned long long)length, len);
    *header_len = (size_t)length;
    return SLUICE_OK;
}

/* A whole number from 0 on. */
static bool get_size(const json_t *json, uint64_t *value)
{
    if (!json_is_integer(json) || json_integer_value(json) < 0)
        return false;
    *value = (uint64_t)json_integer_value(json);
    return true;
}

static sluice_status read_shape(const json_t *shape, struct sluice_tensor *tensor,
                                struct sluice_err *err)
{
    if (!json_is_array(shape))
        return sluice_fail(err, SLUICE_E_CORRUPT, "tensor %.100s: no \"shape\"", tensor->name);
    if (json_array_size(shape) > SLUICE_TENSOR_MAX_DIMS)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "tensor %.100s: %zu dims; up to %d are read",
                           tensor->name, json_array_size(shape), SLUICE_TENSOR_MAX_DIMS);
    tensor->num_dims = (unsigned)json_array_size(shape);
    tensor->count = 1;
    for (unsigned i = 0; i < tensor->num_dims; i++) {
        if (!get_size(json_array_get(shape, i), &tensor->dims[i]) ||
            !sluice_mul_size(tensor->count, tensor->dims[i], &tensor->count))
            return sluice_fail(err, SLUICE_E_CORRUPT,
                               "tensor %.100s: dim %u of its \"shape\" is not a size, or too large",
                               tensor->name, i);
    }
    return SLUICE_OK;
}

static sluice_status read_type(const json_t *dtype, struct sluice_tensor *tensor,
                               struct sluice_err *err)
{
    const char *word = json_string_value(dtype);
    if (!word)
        return sluice_fail(err, SLUICE_E_CORRUPT, "tensor %.100s: no \"dtype\"", tensor->name);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(types); i++) {
        if (strcmp(word, types[i].name) == 0) {
            tensor->type = (enum sluice_tensor_type)i;
            return SLUICE_OK;
        }
    }
    return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                       "tensor %.100s: dtype \"%.20s\"; F32, F16, BF16 and I64 are read",
                       tensor->name, word);
}

/* A tensor's entry; `data` has data_len bytes. */
static sluice_status read_tensor(const json_t *entry, const uint8_t *data, size_t data_len,
                                 struct sluice_tensor *tensor, struct sluice_err *err)
{
    sluice_status status = read_type(json_object_get(entry, "dtype"), tensor, err);
    if (!status)
        status = read_shape(json_object_get(entry, "shape"), tensor, err);
    if (status)
        return status;
    const json_t *offsets = json_object_get(entry, "data_offsets");
    uint64_t begin, end;
    size_t bytes;
    if (json_array_size(offsets) != 2 || !get_size(json_array_get(offsets, 0), &begin) ||
        !get_size(json_array_get(offsets, 1), &end) || begin > end)
        return sluice_fail(err, SLUICE_E_CORRUPT, "tensor %.100s: no \"data_offsets\"",
                           tensor->name);
    if (end > data_len)
        return sluice_fail(err, SLUICE_E_CORRUPT,
                           "tensor %.100s: its data is cut off: up to byte %llu of %zu",
                           tensor->name, (unsigned long long)end, data_len);
    if (!sluice_mul_size(tensor->count, types[tensor->type].bytes, &bytes) || end - begin != bytes)
        return sluice_fail(err, SLUICE_E_CORRUPT,
                           "tensor %.100s: %llu bytes of data are not those of its shape",
                           tensor->name, (unsigned long long)(end - begin));
    tensor->data = data + begin;
    return SLUICE_OK;
}

static sluice_status check_metadata(const json_t *metadata, struct sluice_err *err)
{
    if (!json_is_object(metadata))
        return sluice_fail(err, SLUICE_E_CORRUPT, "\"__metadata__\" is not an object");
    const char *key;
    const json_t *value;
    json_object_foreach((json_t *)metadata, key, value)
    {
        if (!json_is_string(value))
            return sluice_fail(err, SLUICE_E_CORRUPT, "\"__metadata__\": \"%.100s\" is not a text",
                               key);
    }
    return SLUICE_OK;
}

static size_t bytes_of(const struct sluice_tensor *tensor)
{
    return tensor->count * types[tensor->type].bytes;
}

/* By place; of those at one place, the empty ones first. */
static int compare_places(const void *a, const void *b)
{
    const struct sluice_tensor *x = a, *y = b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return (bytes_of(x) > bytes_of(y)) - (bytes_of(x) < bytes_of(y));
}

/* The tensors, sorted, cover the data once. */
static sluice_status check_places(const struct sluice_safetensors *file, const uint8_t *data,
                                  const uint8_t *end, struct sluice_err *err)
{
    for (size_t i = 0; i < file->num_tensors; i++) {
        const struct sluice_tensor *tensor = &file->tensors[i];
        if (tensor->data != data)
            return sluice_fail(err, SLUICE_E_CORRUPT, "tensor %.100s: %s before its data",
                               tensor->name, tensor->data < data ? "an overlap" : "a gap");
        data += bytes_of(tensor);
    }
    if (data != end)
        return sluice_fail(err, SLUICE_E_CORRUPT, "%zu bytes after the last tensor",
                           (size_t)(end - data));
    return SLUICE_OK;
}

static sluice_status read_tensors(struct sluice_safetensors *file, const uint8_t *data,
                                  size_t data_len, struct sluice_err *err)
{
    const char *name;
    const json_t *entry;
    sluice_status status = SLUICE_OK;
    const size_t most = json_object_size(file->header);
    file->tensors = calloc(most ? most : 1, sizeof(*file->tensors));
    if (!file->tensors)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu tensors", most);
    json_object_foreach(file->header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0) {
            status = check_metadata(entry, err);
        } else {
            struct sluice_tensor *tensor = &file->tensors[file->num_tensors++];
            tensor->name = name;
            status = read_tensor(entry, data, data_len, tensor, err);
        }
        if (status)
            return status;
    }
    qsort(file->tensors, file->num_tensors, sizeof(*file->tensors), compare_places);
    return check_places(file, data, data + data_len, err);
}

sluice_status sluice_safetensors_parse(const uint8_t *bytes, size_t len,
                                       struct sluice_safetensors *file, struct sluice_err *err)
{
    size_t header_len;
    sluice_status status = read_header_len(bytes, len, &header_len, err);
    if (status)
        return status;
    const char *header = (const char *)bytes + LENGTH_BYTES;
    json_error_t error;
    struct sluice_safetensors parsed = {0};
    if (header_len == 0 || header[0] != '{')
        return sluice_fail(err, SLUICE_E_CORRUPT, "not safetensors: no JSON object at byte 8");
    parsed.header = json_loadb(header, header_len, JSON_REJECT_DUPLICATES, &error);
    if (!parsed.header)
        return sluice_fail(err, SLUICE_E_CORRUPT, "the header is not JSON, byte %d: %s",
                           error.position, error.text);
    status = read_tensors(&parsed, bytes + LENGTH_BYTES + header_len,
                          len - LENGTH_BYTES - header_len, err);
    if (!status)
        status = check_hash(&parsed, bytes, len, header_len, err);
    if (status) {
        sluice_safetensors_clear(&parsed);
        return status;
    }
    *file = parsed;
    return SLUICE_OK;
}

void sluice_safetensors_clear(struct sluice_safetensors *file)
{
    free(file->tensors);
    json_decref(file->header);
    memset(file, 0, sizeof(*file));
}

const struct sluice_tensor *sluice_safetensors_find(const struct sluice_safetensors *file,
                                                    const char *name)
{
    for (size_t i = 0; i < file->num_tensors; i++) {
        if (strcmp(file->tensors[i].name, name) == 0)
            return &file->tensors[i];
    }
    return NULL;
}

const char *sluice_safetensors_text(const struct sluice_safetensors *file, const char *key)
{
    return json_string_value(json_object_get(json_object_get(file->header, "__metadata__"), key));
}

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static float from_half(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half >> 15) << 31, exponent = half >> 10 & 31u;
    const uint32_t mantissa = half & 0x3FFu;
    if (exponent == 0) /* subnormal: units of 2^-24 */
        return (sign ? -1.0f : 1.0f) * ldexpf((float)mantissa, -24);
    const uint32_t wide = exponent == 31 ? 255 : exponent - 15 + 127;
    return from_bits(sign | wide << 23 | mantissa << 13);
}

void sluice_tensor_to_float(const struct sluice_tensor *tensor, float *out)
{
    assert(tensor->type != SLUICE_TENSOR_I64);
    if (tensor->type == SLUICE_TENSOR_F32 && tensor->count) {
        memcpy(out, tensor->data, tensor->count * sizeof(*out));
        return;
    }
    for (size_t i = 0; i < tensor->count; i++) {
        uint16_t bits;
        memcpy(&bits, tensor->data + i * sizeof(bits), sizeof(bits));
        out[i] =
            tensor->type == SLUICE_TENSOR_F16 ? from_half(bits) : from_bits((uint32_t)bits << 16);
    }
}

/* --- making --- */

static size_t count_of(const struct sluice_tensor *tensor)
{
    size_t count = 1;
    for (unsigned i = 0; i < tensor->num_dims; i++)
        count *= tensor->dims[i];
    return count;
}

/* As a text of JSON; false: it is not UTF-8. */
static bool put_text(FILE *out, const char *text)
{
    json_t *json = json_string(text);
    const bool is_put = json && json_dumpf(json, out, JSON_ENCODE_ANY) == 0;
    json_decref(json);
    return is_put;
}

static sluice_status make_header(const struct sluice_safetensors_plan *plan, char **text,
                                 size_t *data_len, struct sluice_err *err)
{
    size_t text_len, at = 0;
    const char *bad = NULL; /* a text that is not UTF-8 */
    FILE *out = open_memstream(text, &text_len);
    if (!out)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a header");
    fputs("{\"__metadata__\":{", out);
    for (size_t i = 0; i < plan->num_texts; i++) {
        fprintf(out, "\"%s\":", plan->texts[i].key);
        if (!put_text(out, plan->texts[i].value))
            bad = plan->texts[i].key;
        fputc(',', out);
    }
    fprintf(out, "\"%s\":\"%s\"}", SLUICE_SAFETENSORS_HASH, zeros);
    for (size_t i = 0; i < plan->num_tensors; i++) {
        const struct sluice_tensor *tensor = &plan->tensors[i];
        const size_t end = at + count_of(tensor) * types[tensor->type].bytes;
        assert(at % types[tensor->type].bytes == 0);
        fputc(',', out);
        if (!put_text(out, tensor->name))
            bad = tensor->name;
        fprintf(out, ":{\"dtype\":\"%s\",\"shape\":[", types[tensor->type].name);
        for (unsigned k = 0; k < tensor->num_dims; k++)
            fprintf(out, "%s%" PRIu64, k ? "," : "", tensor->dims[k]);
        fprintf(out, "],\"data_offsets\":[%zu,%zu]}", at, end);
        at = end;
    }
    fputc('}', out);
    const bool is_whole = !ferror(out);
    *data_len = at;
    if (fclose(out) != 0 || !is_whole)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a header");
    if (bad)
        return sluice_fail(err, SLUICE_E_INVALID, "the text \"%s\" is not UTF-8", bad);
    return SLUICE_OK;
}

sluice_status sluice_safetensors_make(const struct sluice_safetensors_plan *plan, uint8_t **bytes,
                                      size_t *len, char hash[33], struct sluice_err *err)
{
    size_t data_len = 0;
    char *text = NULL;
    uint8_t *made = NULL;
    sluice_status status = make_header(plan, &text, &data_len, err);
    const size_t text_len = status ? 0 : strlen(text);
    const uint64_t header_len = (text_len + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const size_t total = LENGTH_BYTES + header_len + data_len;
    if (!status && header_len > SLUICE_SAFETENSORS_MAX_HEADER)
        status = sluice_fail(err, SLUICE_E_INVALID, "a header of %zu bytes; at most %u are read",
                             text_len, SLUICE_SAFETENSORS_MAX_HEADER);
    if (!status && !(made = malloc(total)))
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu bytes", total);
    if (!status) {
        memcpy(made, &header_len, LENGTH_BYTES);
        memset(made + LENGTH_BYTES, ' ', header_len);
        memcpy(made + LENGTH_BYTES, text, text_len);
        uint8_t *data = made + LENGTH_BYTES + header_len;
        for (size_t i = 0; !status && i < plan->num_tensors; i++) {
            status = plan->fill(plan->ctx, i, data, err);
            data += count_of(&plan->tensors[i]) * types[plan->tensors[i].type].bytes;
        }
    }
    free(text);
    if (!status) {
        uint8_t *digits = made + (find_digits(made, header_len) - made);
        status = hash_file(made, total, digits, hash, err);
        memcpy(digits, hash, status ? 0 : HASH_DIGITS);
    }
    if (status) {
        free(made);
        return status;
    }
    *bytes = made;
    *len = total;
    return SLUICE_OK;
}
