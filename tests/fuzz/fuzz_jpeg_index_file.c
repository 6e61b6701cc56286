/* Files of indexes from bytes, as they are and with the hashes made right: nothing is read out of
 * bounds, and every entry that is found lies within the file. */

#include "base/buf.h"
#include "base/hash.h"
#include "datasets/jpeg_index/jpeg_index_file.h"
#include "image/jpeg/index.h"

#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#define HEADER_BYTES 56

static void look_into(const uint8_t *bytes, size_t size)
{
    char path[64];
    const int fd = memfd_create("indexes", MFD_CLOEXEC);
    if (fd < 0 || (size_t)write(fd, bytes, size) != size)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    struct sluice_jpeg_index_file *file = NULL;
    if (sluice_jpeg_index_file_open(path, &file, NULL) == SLUICE_OK) {
        static const char *const names[] = {"", "a.jpg", "class/b.jpg", "x"};
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            struct sluice_buf *entry;
            struct sluice_jpeg_index index;
            const sluice_status status =
                sluice_jpeg_index_file_find(file, names[i], NULL, &entry, NULL);
            if (status != SLUICE_OK && status != SLUICE_E_NOT_FOUND)
                abort();
            if (status == SLUICE_E_NOT_FOUND)
                continue;
            if (sluice_jpeg_index_parse(entry->data, entry->len, &index, NULL) == SLUICE_OK)
                sluice_jpeg_index_clear(&index);
            sluice_buf_unref(entry);
        }
        sluice_jpeg_index_file_close(file);
    }
    close(fd);
}

static void put64(uint8_t *out, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++)
        out[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get64(const uint8_t *in)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 8; i++)
        value |= (uint64_t)in[i] << 8 * i;
    return value;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    look_into(data, size);
    if (size < HEADER_BYTES)
        return 0;
    uint8_t *sealed = malloc(size);
    FUZZ_CHECK(sealed);
    memcpy(sealed, data, size);
    const uint64_t table = get64(sealed + 24);
    if (table <= size)
        put64(sealed + 40, sluice_hash64(sealed + table, size - (size_t)table));
    put64(sealed + 32, size);
    put64(sealed + 48, sluice_hash64(sealed, 48));
    look_into(sealed, size);
    free(sealed);
    return 0;
}
