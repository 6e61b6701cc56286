#include "datasets/tools/npy.h"

#include "base/buf.h"
#include "base/file.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

sluice_status sluice_npy_write(const char *path, const char *type, const size_t *shape,
                               size_t num_dims, const void *data, size_t len,
                               struct sluice_err *err)
{
    /* Magic, version, the length of the rest, and a Python dict that ends, padded with
     * blanks to a multiple of 64 bytes, in a newline. */
    enum { PREFIX = 10, ROOM = 256 };
    char dict[ROOM];
    assert(num_dims >= 1 && num_dims <= 8 && strlen(type) < 8);
    int n =
        snprintf(dict, sizeof(dict), "{'descr': '%s', 'fortran_order': False, 'shape': (", type);
    for (size_t i = 0; i < num_dims; i++)
        n += snprintf(dict + n, sizeof(dict) - (size_t)n, "%zu,%s", shape[i],
                      i + 1 < num_dims ? " " : "");
    n += snprintf(dict + n, sizeof(dict) - (size_t)n, "), }");
    const size_t total = (PREFIX + (size_t)n + 1 + 63) / 64 * 64;
    const size_t dict_len = total - PREFIX;

    struct sluice_buf *file = NULL;
    sluice_status status = sluice_buf_create(NULL, total + len, &file, err);
    if (status != SLUICE_OK)
        return status;
    memcpy(file->data, "\x93NUMPY\x01\x00", 8);
    file->data[8] = (uint8_t)dict_len;
    file->data[9] = (uint8_t)(dict_len >> 8);
    memset(file->data + PREFIX, ' ', dict_len);
    memcpy(file->data + PREFIX, dict, (size_t)n);
    file->data[total - 1] = '\n';
    memcpy(file->data + total, data, len);
    status = sluice_file_write_atomic(path, file->data, total + len, err);
    sluice_buf_unref(file);
    return status;
}
