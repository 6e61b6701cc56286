#include "datasets/manifest/manifest.h"

#include "base/array.h"
#include "datasets/manifest/builder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CHUNK_BYTES (256 * 1024)

/* Strings live in chunks, so that a million paths are a few allocations. */
struct chunk {
    struct chunk *next;
    size_t used, capacity;
    char bytes[];
};

static char *store_string(struct sluice_manifest *manifest, const void *text, size_t len)
{
    struct chunk *chunk = manifest->storage;
    if (!chunk || chunk->capacity - chunk->used < len + 1) {
        const size_t capacity = len + 1 > CHUNK_BYTES ? len + 1 : CHUNK_BYTES;
        chunk = malloc(sizeof(*chunk) + capacity);
        if (!chunk)
            return NULL;
        chunk->next = manifest->storage;
        chunk->used = 0;
        chunk->capacity = capacity;
        manifest->storage = chunk;
    }
    char *copy = chunk->bytes + chunk->used;
    memcpy(copy, text, len);
    copy[len] = '\0';
    chunk->used += len + 1;
    return copy;
}

/* At a multiple of 4. */
static void *store_target(struct sluice_manifest *manifest, const void *target, size_t bytes)
{
    struct chunk *chunk = manifest->storage;
    const size_t padding = chunk ? -(size_t)(chunk->bytes + chunk->used) % sizeof(float) : 0;
    if (chunk && chunk->capacity - chunk->used >= padding)
        chunk->used += padding;
    return store_string(manifest, target, bytes);
}

void sluice_manifest_destroy(struct sluice_manifest *manifest)
{
    if (!manifest)
        return;
    struct chunk *chunk = manifest->storage;
    while (chunk) {
        struct chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    if (manifest->map)
        munmap(manifest->map, manifest->map_bytes);
    free(manifest->rows);
    free(manifest->classes);
    free(manifest->passed_over);
    free(manifest->passed_text);
    free(manifest);
}

sluice_status sluice_manifest_builder_init(struct sluice_manifest_builder *builder,
                                           struct sluice_err *err)
{
    *builder = (struct sluice_manifest_builder){.manifest = calloc(1, sizeof(*builder->manifest))};
    if (!builder->manifest)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a manifest");
    return SLUICE_OK;
}

sluice_status sluice_manifest_add_entry(struct sluice_manifest_builder *builder,
                                        const struct sluice_manifest_entry *row, const char *path,
                                        size_t path_len, struct sluice_err *err)
{
    struct sluice_manifest *manifest = builder->manifest;
    const bool has_room = sluice_array_reserve(&manifest->rows, &builder->entry_capacity,
                                               manifest->num_entries + 1, sizeof(*manifest->rows));
    const char *copy = has_room ? store_string(manifest, path, path_len) : NULL;
    if (!copy)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a manifest of %zu samples",
                           manifest->num_entries + 1);
    struct sluice_manifest_entry *entry = &manifest->rows[manifest->num_entries++];
    *entry = *row;
    entry->path = copy;
    return row->target ? sluice_manifest_set_target(builder, manifest->num_entries - 1, row->target,
                                                    row->target_bytes, err)
                       : SLUICE_OK;
}

sluice_status sluice_manifest_set_target(struct sluice_manifest_builder *builder, size_t i,
                                         const void *target, size_t bytes, struct sluice_err *err)
{
    struct sluice_manifest_entry *entry = &builder->manifest->rows[i];
    const void *copy = store_target(builder->manifest, target, bytes);
    if (!copy)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the targets of %zu samples",
                           builder->manifest->num_entries);
    entry->target = copy;
    entry->target_bytes = (uint32_t)bytes;
    return SLUICE_OK;
}

sluice_status sluice_manifest_add_class(struct sluice_manifest_builder *builder, const char *name,
                                        size_t len, struct sluice_err *err)
{
    struct sluice_manifest *manifest = builder->manifest;
    const bool has_room =
        sluice_array_reserve(&manifest->classes, &builder->class_capacity,
                             manifest->num_classes + 1, sizeof(*manifest->classes));
    const char *copy = has_room ? store_string(manifest, name, len) : NULL;
    if (!copy)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the class names");
    manifest->classes[manifest->num_classes++] = copy;
    return SLUICE_OK;
}

sluice_status sluice_manifest_check_entry(const struct sluice_manifest *manifest, size_t i,
                                          struct sluice_err *err)
{
    const struct sluice_manifest_entry *entry = &manifest->rows[i];
    if (entry->label >= manifest->num_classes)
        return sluice_fail(err, SLUICE_E_INVALID, "sample %zu ('%.100s') has label %u of %zu", i,
                           entry->path, entry->label, manifest->num_classes);
    if (i > 0 && strcmp(manifest->rows[i - 1].path, entry->path) >= 0)
        return sluice_fail(err, SLUICE_E_INVALID, "sample %zu ('%.100s') is out of order", i,
                           entry->path);
    const char *flaw =
        sluice_target_flaw(manifest->target_type, entry->target, entry->target_bytes);
    return flaw ? sluice_fail(err, SLUICE_E_INVALID, "sample %zu ('%.100s'): %s", i, entry->path,
                              flaw)
                : SLUICE_OK;
}

sluice_status sluice_manifest_create(const struct sluice_manifest_entry *entries,
                                     size_t num_entries, const char *const *classes,
                                     size_t num_classes, struct sluice_manifest **manifest,
                                     struct sluice_err *err)
{
    struct sluice_manifest_builder builder;
    sluice_status status = sluice_manifest_builder_init(&builder, err);
    for (size_t i = 0; status == SLUICE_OK && i < num_classes; i++)
        status = sluice_manifest_add_class(&builder, classes[i], strlen(classes[i]), err);
    for (size_t i = 0; status == SLUICE_OK && i < num_entries; i++) {
        status = sluice_manifest_add_entry(&builder, &entries[i], entries[i].path,
                                           strlen(entries[i].path), err);
        if (status == SLUICE_OK)
            status = sluice_manifest_check_entry(builder.manifest, i, err);
    }
    if (status != SLUICE_OK) {
        sluice_manifest_destroy(builder.manifest);
        return status;
    }
    *manifest = builder.manifest;
    return SLUICE_OK;
}

size_t sluice_manifest_find_first(const struct sluice_manifest *manifest, const char *begin)
{
    size_t first = 0;
    SLUICE_FIND_FIRST(first, manifest->num_entries, i,
                      strcmp(sluice_manifest_at(manifest, i).path, begin) < 0);
    return first;
}

uint64_t sluice_manifest_target_bytes(const struct sluice_manifest *manifest)
{
    const size_t n = manifest->num_entries;
    if (manifest->target_type.kind != SLUICE_TARGETS_BYTES)
        return (uint64_t)n * manifest->target_type.dim * sizeof(float);
    if (!manifest->rows)
        return n ? manifest->columns.target_ends[n - 1] : 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += manifest->rows[i].target_bytes;
    return bytes;
}

bool sluice_manifest_has_members(const struct sluice_manifest *manifest)
{
    if (!manifest->rows && !manifest->columns.offsets)
        return false;
    for (size_t i = 0; i < manifest->num_entries; i++) {
        if (sluice_manifest_at(manifest, i).offset)
            return true;
    }
    return false;
}

/* A chain of hashes of rows: no state to allocate, so nothing can fail. */
struct sluice_hash128 sluice_manifest_id_add(struct sluice_hash128 id,
                                             const struct sluice_manifest_entry *entry,
                                             size_t path_len)
{
    uint8_t row[16 + 16 + 12] = {0};
    sluice_hash128_bytes(id, row);
    sluice_hash128_bytes(sluice_hash128(entry->path, path_len), row + 16);
    for (int k = 0; k < 8; k++)
        row[32 + k] = (uint8_t)(entry->bytes >> (8 * k));
    for (int k = 0; k < 4; k++)
        row[40 + k] = (uint8_t)(entry->label >> (8 * k));
    return sluice_hash128(row, sizeof(row));
}

struct sluice_hash128 sluice_manifest_id(const struct sluice_manifest *manifest)
{
    if (manifest->map)
        return manifest->id;
    struct sluice_hash128 id = {0, 0};
    for (size_t i = 0; i < manifest->num_entries; i++)
        id = sluice_manifest_id_add(id, &manifest->rows[i], strlen(manifest->rows[i].path));
    return id;
}

void sluice_manifest_list_hash_begin(struct sluice_hasher64 *hasher, struct sluice_target_type type)
{
    const uint32_t said[] = {type.kind, type.dim};
    sluice_hasher64_init(hasher);
    if (type.kind != SLUICE_TARGETS_NONE)
        sluice_hasher64_update(hasher, said, sizeof(said));
}

void sluice_manifest_list_hash_add(struct sluice_hasher64 *hasher,
                                   const struct sluice_manifest_entry *entry)
{
    const uint32_t row[] = {entry->width, entry->height,
                            (uint32_t)entry->subset << 8 | entry->coding};
    sluice_hasher64_update(hasher, row, sizeof(row));
    if (!entry->target)
        return;
    sluice_hasher64_update(hasher, &entry->target_bytes, sizeof(entry->target_bytes));
    sluice_hasher64_update(hasher, entry->target, entry->target_bytes);
}

uint64_t sluice_manifest_list_hash_end(const struct sluice_hasher64 *hasher,
                                       const char *const *classes, size_t num_classes)
{
    struct sluice_hasher64 all = *hasher;
    for (size_t i = 0; i < num_classes; i++)
        sluice_hasher64_update(&all, classes[i], strlen(classes[i]) + 1);
    const uint64_t hash = sluice_hasher64_digest(&all);
    return hash ? hash : 1;
}

uint64_t sluice_manifest_list_hash(const struct sluice_manifest *manifest)
{
    struct sluice_hasher64 hasher;
    sluice_manifest_list_hash_begin(&hasher, manifest->target_type);
    for (size_t i = 0; i < manifest->num_entries; i++) {
        const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, i);
        sluice_manifest_list_hash_add(&hasher, &entry);
    }
    return sluice_manifest_list_hash_end(&hasher, manifest->classes, manifest->num_classes);
}

void sluice_manifest_rest(const struct sluice_manifest *manifest)
{
    if (manifest->is_file_mapped)
        (void)madvise(manifest->map, manifest->map_bytes, MADV_DONTNEED);
}

uint64_t sluice_manifest_memory(const struct sluice_manifest *manifest)
{
    uint64_t bytes = sizeof(*manifest) + manifest->num_classes * sizeof(manifest->classes[0]);
    if (!manifest->rows)
        return bytes + (manifest->is_file_mapped ? 0 : manifest->map_bytes);
    bytes += manifest->num_entries * sizeof(manifest->rows[0]);
    for (size_t i = 0; i < manifest->num_entries; i++)
        bytes += strlen(manifest->rows[i].path) + 1 + manifest->rows[i].target_bytes;
    return bytes;
}
