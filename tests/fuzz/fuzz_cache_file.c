/* A file that lies in a cache's folder: any name is a piece that has this name and no other, or
 * none; any header is the one that was written for a piece, or none. */

#include "store/cache_file.h"

#include "fuzz.h"

static void try_name(const uint8_t *data, size_t size)
{
    char name[64], folder[3] = "", again[SLUICE_CACHE_NAME_BYTES];
    const size_t len = size < sizeof(name) ? size : sizeof(name) - 1;
    struct sluice_cache_piece piece;
    memcpy(name, data, len);
    name[len] = '\0';
    memcpy(folder, name, strlen(name) < 2 ? strlen(name) : 2);
    if (!sluice_cache_name_parse(folder, name, &piece))
        return;
    FUZZ_CHECK(piece.bytes > 0 && piece.from + piece.bytes >= piece.from);
    sluice_cache_name(&piece, again);
    FUZZ_CHECK(memcmp(again, folder, 2) == 0 && again[2] == '/' && strcmp(again + 3, name) == 0);
}

static void try_header(const uint8_t *data, size_t size)
{
    static const char bytes[] = "0123456789abcdef";
    uint8_t header[SLUICE_CACHE_HEADER_BYTES] = {0}, again[SLUICE_CACHE_HEADER_BYTES];
    const struct sluice_hash128 identity = sluice_cache_identify("key", -1, 0, 16);
    const struct sluice_cache_piece piece = {identity.high, 0, 16};
    uint64_t hash = 0;
    memcpy(header, data, size < sizeof(header) ? size : sizeof(header));
    sluice_cache_header_put(identity, &piece, bytes, again);
    const bool is_ours =
        sluice_cache_header_check(header, identity, &piece, &hash, NULL) == SLUICE_OK;
    FUZZ_CHECK(!is_ours || hash != sluice_hash64(bytes, 16) ||
               memcmp(header, again, sizeof(header)) == 0);
    FUZZ_CHECK(is_ours || memcmp(header, again, sizeof(header)) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_name(data, size);
    try_header(data, size);
    return 0;
}
