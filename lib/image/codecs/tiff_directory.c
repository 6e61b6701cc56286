#include "image/codecs/tiff_directory.h"

#include "image/image_internal.h"

#include <string.h>

#define TYPE_SHORT 3u
#define TYPE_LONG 4u
#define ENTRY_BYTES 12u

static uint32_t get16(const struct sluice_tiff_directory *directory, const uint8_t *p)
{
    return directory->is_big_endian ? sluice_be16(p) : sluice_le16(p);
}

static uint32_t get32(const struct sluice_tiff_directory *directory, const uint8_t *p)
{
    return directory->is_big_endian ? sluice_be32(p) : sluice_le32(p);
}

bool sluice_tiff_directory_find(const uint8_t *bytes, size_t len,
                                struct sluice_tiff_directory *directory)
{
    if (len < 8 || (memcmp(bytes, "II*\0", 4) != 0 && memcmp(bytes, "MM\0*", 4) != 0))
        return false;
    directory->is_big_endian = bytes[0] == 'M';
    const size_t at = get32(directory, bytes + 4);
    if (at > len || len - at < 2)
        return false;
    const size_t room = (len - at - 2) / ENTRY_BYTES;
    directory->num_entries = get16(directory, bytes + at);
    directory->entries = bytes + at + 2;
    directory->is_cut = directory->num_entries > room;
    if (directory->is_cut)
        directory->num_entries = room;
    return true;
}

/* As in Pillow: the last of repeated tags counts, the first of several values, and bytes are not a
 * number. */
uint32_t sluice_tiff_directory_get(const struct sluice_tiff_directory *directory, unsigned tag,
                                   uint32_t otherwise)
{
    uint32_t found = otherwise;
    for (size_t i = 0; i < directory->num_entries; i++) {
        const uint8_t *entry = directory->entries + i * ENTRY_BYTES;
        if (get16(directory, entry) != tag)
            continue;
        const unsigned type = get16(directory, entry + 2);
        const uint32_t count = get32(directory, entry + 4);
        if (type == TYPE_SHORT && (count == 1 || count == 2))
            found = get16(directory, entry + 8);
        else if (type == TYPE_LONG && count == 1)
            found = get32(directory, entry + 8);
        else
            found = otherwise;
    }
    return found;
}
