#include "store/cache_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char magic[8] = {'S', 'L', 'U', 'I', 'C', 'E', 'C', '1'};

/* Without holes, and the last number is a hash of all before it. */
struct header {
    char magic[8];
    uint64_t identity_high, identity_low;
    uint64_t from, bytes;
    uint64_t data_hash, header_hash;
};
_Static_assert(sizeof(struct header) == SLUICE_CACHE_HEADER_BYTES, "no holes");

struct sluice_hash128 sluice_cache_identify(const char *key, int64_t version, uint64_t offset,
                                            uint64_t bytes)
{
    const uint64_t numbers[] = {sluice_hash64(key, strlen(key)), strlen(key), (uint64_t)version,
                                offset, bytes};
    const struct sluice_hash128 whole = sluice_hash128(key, strlen(key));
    struct sluice_hash128 hash = sluice_hash128(numbers, sizeof(numbers));
    hash.low ^= whole.low; /* both halves are of the key itself, not of 64 bits of it */
    hash.high ^= whole.high;
    return hash;
}

void sluice_cache_name(const struct sluice_cache_piece *piece, char out[SLUICE_CACHE_NAME_BYTES])
{
    snprintf(out, SLUICE_CACHE_NAME_BYTES, "%02x/%016" PRIx64 "-%" PRIx32 "-%" PRIx32,
             (unsigned)(piece->id >> 56), piece->id, piece->from, piece->bytes);
}

bool sluice_cache_name_parse(const char *folder, const char *name, struct sluice_cache_piece *piece)
{
    struct sluice_cache_piece parsed;
    char again[SLUICE_CACHE_NAME_BYTES];
    if (sscanf(name, "%16" SCNx64 "-%8" SCNx32 "-%8" SCNx32, &parsed.id, &parsed.from,
               &parsed.bytes) != 3)
        return false;
    sluice_cache_name(&parsed, again);
    if (strncmp(again, folder, 2) != 0 || folder[2] != '\0' || strcmp(again + 3, name) != 0 ||
        parsed.bytes == 0 || parsed.from > UINT32_MAX - parsed.bytes)
        return false;
    *piece = parsed;
    return true;
}

static uint64_t hash_of(const struct header *header)
{
    return sluice_hash64(header, offsetof(struct header, header_hash));
}

void sluice_cache_header_put(struct sluice_hash128 identity, const struct sluice_cache_piece *piece,
                             const void *data, uint8_t out[SLUICE_CACHE_HEADER_BYTES])
{
    struct header header = {
        .identity_high = identity.high,
        .identity_low = identity.low,
        .from = piece->from,
        .bytes = piece->bytes,
        .data_hash = sluice_hash64(data, piece->bytes),
    };
    memcpy(header.magic, magic, sizeof(magic));
    header.header_hash = hash_of(&header);
    memcpy(out, &header, sizeof(header));
}

sluice_status sluice_cache_header_check(const uint8_t in[SLUICE_CACHE_HEADER_BYTES],
                                        struct sluice_hash128 identity,
                                        const struct sluice_cache_piece *piece, uint64_t *data_hash,
                                        struct sluice_err *err)
{
    struct header header;
    memcpy(&header, in, sizeof(header));
    if (memcmp(header.magic, magic, sizeof(magic)) != 0 || header.header_hash != hash_of(&header))
        return sluice_fail(err, SLUICE_E_CORRUPT, "no header of the cache, or a damaged one");
    if (header.identity_high != identity.high || header.identity_low != identity.low ||
        header.from != piece->from || header.bytes != piece->bytes)
        return sluice_fail(err, SLUICE_E_CORRUPT, "the header is of another object");
    *data_hash = header.data_hash;
    return SLUICE_OK;
}
