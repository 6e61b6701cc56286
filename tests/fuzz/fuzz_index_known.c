/* The file of a run of `offload_dataset index` that was ended: whatever it holds, rows are found in
 * it or not, and what is added after it counts. */

#include "datasets/manifest/index_known.h"

#include "base/hash.h"
#include "base/log.h"
#include "fuzz.h"

#include <unistd.h>

static char fuzz_folder[64], list[128], progress[128];

static void remove_files(void)
{
    unlink(progress);
    rmdir(fuzz_folder);
}

static void put(const void *data, size_t size)
{
    FILE *file = fopen(progress, "we");
    FUZZ_CHECK(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
}

static void try_file(void)
{
    struct sluice_index_known *known = NULL;
    FUZZ_CHECK(sluice_index_known_open(list, false, &known, NULL) == SLUICE_OK);
    static const char *const paths[] = {"a", "a/1.png", "b", "z"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(paths); i++) {
        struct sluice_manifest_entry row = {.path = paths[i], .bytes = 5, .mtime_ns = 6};
        FUZZ_CHECK(sluice_index_known_find(known, &row) == row.has_hash);
    }
    const struct sluice_manifest_entry added = {
        .path = "added", .bytes = 5, .mtime_ns = 6, .has_hash = true, .width = 1};
    sluice_index_known_add(known, &added);
    sluice_index_known_close(known);
    FUZZ_CHECK(sluice_index_known_open(list, false, &known, NULL) == SLUICE_OK);
    struct sluice_manifest_entry row = {.path = "added", .bytes = 5, .mtime_ns = 6};
    FUZZ_CHECK(sluice_index_known_find(known, &row) && row.width == 1);
    sluice_index_known_close(known);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!fuzz_folder[0]) {
        snprintf(fuzz_folder, sizeof(fuzz_folder), "/tmp/sluice-fuzz-XXXXXX");
        FUZZ_CHECK(mkdtemp(fuzz_folder));
        snprintf(list, sizeof(list), "%s/x.tsv", fuzz_folder);
        snprintf(progress, sizeof(progress), "%s/x.progress", fuzz_folder);
        atexit(remove_files);
        sluice_log_set_level(SLUICE_LOG_ERROR);
    }
    put(data, size);
    try_file();
    uint8_t *sealed = malloc(size + 1); /* the first record has the hash that it should */
    FUZZ_CHECK(sealed);
    memcpy(sealed, data, size);
    uint32_t path_len;
    if (size >= 16 + 64) {
        memcpy(&path_len, sealed + 24, sizeof(path_len));
        if (path_len <= size - 80) {
            const uint64_t seal = sluice_hash64(sealed + 24, 56 + path_len);
            memcpy(sealed + 16, &seal, sizeof(seal));
            put(sealed, size);
            try_file();
        }
    }
    free(sealed);
    return 0;
}
