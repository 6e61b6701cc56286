/* Binary manifests: what is mapped has samples in order, each with a class, and all of it lies in
 * the file.  Each input is tried as it is, and with hashes that are right. */

#include "datasets/manifest/binary_format.h"

#include "fuzz_file.h"

static void check_whole(const struct sluice_manifest *manifest)
{
    const char *before = "", *last = (const char *)manifest->map + manifest->map_bytes;
    for (size_t i = 0; i < manifest->num_entries; i++) {
        const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, i);
        FUZZ_CHECK(entry.path + strlen(entry.path) < last);
        FUZZ_CHECK(strcmp(before, entry.path) < 0 && entry.label < manifest->num_classes);
        FUZZ_CHECK(entry.offset + entry.bytes <= INT64_MAX);
        FUZZ_CHECK(!sluice_fields_values_flaw(&manifest->fields, entry.values, entry.values_bytes));
        FUZZ_CHECK(!entry.values || (const char *)entry.values + entry.values_bytes <= last);
        before = entry.path;
    }
    for (size_t i = 0; i < manifest->num_classes; i++)
        FUZZ_CHECK(manifest->classes[i] + strlen(manifest->classes[i]) < last);
}

static void try_file(const uint8_t *data, size_t size)
{
    struct sluice_manifest *manifest = NULL;
    struct sluice_err err = {{0}};
    const struct sluice_manifest_expected any = {NULL, NULL};
    const char *path = fuzz_file_put("read.bin", data, size);
    const sluice_status status = sluice_manifest_map(path, &any, &manifest, &err);
    if (status == SLUICE_OK) {
        check_whole(manifest);
        sluice_manifest_destroy(manifest);
    } else {
        FUZZ_CHECK(status == SLUICE_E_CORRUPT || status == SLUICE_E_UNSUPPORTED);
        FUZZ_CHECK(err.text[0] && !manifest);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_file(data, size);
    struct sluice_binary_header header;
    if (size < sizeof(header))
        return 0;
    memcpy(&header, data, sizeof(header));
    for (int i = 0; i < SLUICE_BINARY_SECTIONS; i++) {
        const uint64_t at = header.sections[i].at, bytes = header.sections[i].bytes;
        if (at <= size && bytes <= size - at)
            header.sections[i].hash = sluice_hash64(data + at, bytes);
    }
    header.hash = sluice_hash64(&header, sizeof(header) - sizeof(header.hash));
    uint8_t *sealed = malloc(size);
    FUZZ_CHECK(sealed);
    memcpy(sealed, data, size);
    memcpy(sealed, &header, sizeof(header));
    try_file(sealed, size);
    free(sealed);
    return 0;
}
