/* Manifests as files: what is read has samples in order, each with a class, and is written as a
 * file that reads back the same. */

#include "datasets/manifest/manifest.h"

#include "fuzz_file.h"

static void check_whole(const struct sluice_manifest *manifest)
{
    for (size_t i = 0; i < manifest->num_entries; i++) {
        const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, i);
        FUZZ_CHECK(entry.path[0] && entry.label < manifest->num_classes);
        FUZZ_CHECK(!sluice_fields_values_flaw(&manifest->fields, entry.values, entry.values_bytes));
        FUZZ_CHECK(i == 0 || strcmp(sluice_manifest_at(manifest, i - 1).path, entry.path) < 0);
    }
}

static void check_same(const struct sluice_manifest *a, const struct sluice_manifest *b)
{
    FUZZ_CHECK(a->num_entries == b->num_entries && a->num_classes == b->num_classes);
    FUZZ_CHECK(sluice_fields_are_same(&a->fields, &b->fields));
    for (size_t i = 0; i < a->num_classes; i++)
        FUZZ_CHECK(strcmp(a->classes[i], b->classes[i]) == 0);
    for (size_t i = 0; i < a->num_entries; i++) {
        const struct sluice_manifest_entry x = sluice_manifest_at(a, i),
                                           y = sluice_manifest_at(b, i);
        FUZZ_CHECK(strcmp(x.path, y.path) == 0 && x.bytes == y.bytes && x.label == y.label);
        FUZZ_CHECK(x.subset == y.subset && x.width == y.width && x.height == y.height);
        FUZZ_CHECK(x.has_hash == y.has_hash && x.coding == y.coding);
        FUZZ_CHECK(x.values_bytes == y.values_bytes && !x.values == !y.values);
        FUZZ_CHECK(!x.values || memcmp(x.values, y.values, x.values_bytes) == 0);
        FUZZ_CHECK(x.offset == y.offset && x.mtime_ns == y.mtime_ns);
        FUZZ_CHECK(memcmp(&x.hash, &y.hash, sizeof(x.hash)) == 0);
    }
}

static void check_written(const struct sluice_manifest *manifest)
{
    char written[128];
    snprintf(written, sizeof(written), "%s/written.tsv", fuzz_folder);
    struct sluice_manifest *again = NULL;
    FUZZ_CHECK(sluice_manifest_write(manifest, written, NULL) == SLUICE_OK);
    FUZZ_CHECK(sluice_manifest_read(written, &again, NULL) == SLUICE_OK);
    check_same(manifest, again);
    sluice_manifest_destroy(again);
    unlink(written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file_put("read.tsv", data, size);
    struct sluice_manifest *manifest = NULL;
    struct sluice_err err = {{0}};
    const sluice_status status = sluice_manifest_read(path, &manifest, &err);
    if (status == SLUICE_OK) {
        check_whole(manifest);
        check_written(manifest);
        sluice_manifest_destroy(manifest);
    } else {
        FUZZ_CHECK(status == SLUICE_E_CORRUPT || status == SLUICE_E_INVALID);
        FUZZ_CHECK(err.text[0] && !manifest);
    }
    return 0;
}
