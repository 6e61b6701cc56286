#include "store/store_copy.h"

#include "base/buf.h"
#include "base/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Few round trips, and little memory. */
#define CHUNK_BYTES (16u << 20)

sluice_status sluice_store_copy(struct sluice_store *store, const char *key, int fd,
                                uint64_t *bytes, struct sluice_err *err)
{
    struct sluice_object object;
    struct sluice_store_limits limits;
    store->limits(store, &limits);
    const uint64_t most =
        limits.max_object_bytes < CHUNK_BYTES ? limits.max_object_bytes : CHUNK_BYTES;
    sluice_status status = store->describe(store, key, &object, err);
    for (uint64_t at = 0; status == SLUICE_OK && at < object.bytes;) {
        const uint64_t left = object.bytes - at;
        const struct sluice_store_read read = {
            .key = key,
            .is_range = true,
            .offset = at,
            .bytes = left < most ? left : most,
            .version = object.version,
        };
        struct sluice_buf *buf = NULL;
        status = store->read(store, &read, &buf, err);
        if (status != SLUICE_OK)
            break;
        if (!sluice_write_fully(fd, buf->data, buf->len))
            status = sluice_fail(err, SLUICE_E_IO, "cannot keep a copy: %s", strerror(errno));
        at += buf->len;
        sluice_buf_unref(buf);
    }
    if (status == SLUICE_OK)
        *bytes = object.bytes;
    return status;
}
