#include "datasets/manifest/manifest.h"

#include "base/array.h"
#include "base/text.h"
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

/* A copy at a multiple of 8. */
static void *store_values(struct sluice_manifest *manifest, const void *values, size_t bytes)
{
    struct chunk *chunk = manifest->storage;
    const size_t padding = chunk ? -(uintptr_t)(chunk->bytes + chunk->used) % 8 : 0;
    if (chunk && chunk->capacity - chunk->used >= padding)
        chunk->used += padding;
    return store_string(manifest, values, bytes);
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

static sluice_status no_memory(const struct sluice_manifest *manifest, struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the fields of %zu samples",
                       manifest->num_entries);
}

/* A copy of the block of a row's values. */
static sluice_status set_values(struct sluice_manifest_builder *builder, size_t i,
                                const void *values, size_t bytes, struct sluice_err *err)
{
    struct sluice_manifest_entry *entry = &builder->manifest->rows[i];
    const void *copy = store_values(builder->manifest, values, bytes);
    if (!copy)
        return no_memory(builder->manifest, err);
    entry->values = copy;
    entry->values_bytes = (uint32_t)bytes;
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
    return row->values
               ? set_values(builder, manifest->num_entries - 1, row->values, row->values_bytes, err)
               : SLUICE_OK;
}

sluice_status sluice_manifest_set_field(struct sluice_manifest_builder *builder, size_t i,
                                        unsigned field, const void *value, size_t bytes,
                                        struct sluice_err *err)
{
    struct sluice_manifest *manifest = builder->manifest;
    const unsigned num = manifest->fields.num;
    struct sluice_manifest_entry *entry = &manifest->rows[i];
    if (num <= 1)
        return set_values(builder, i, value, bytes, err);
    static const struct sluice_field_value none[SLUICE_MAX_FIELDS];
    if (!entry->values) /* values by field, until finish_fields() */
        entry->values = store_values(manifest, none, num * sizeof(none[0]));
    const void *copy = entry->values ? store_values(manifest, value, bytes) : NULL;
    if (!copy)
        return no_memory(manifest, err);
    ((struct sluice_field_value *)(uintptr_t)entry->values)[field] =
        (struct sluice_field_value){copy, (uint32_t)bytes};
    return SLUICE_OK;
}

struct sluice_field_value sluice_manifest_field_at(const struct sluice_manifest *manifest, size_t i,
                                                   unsigned field)
{
    const struct sluice_manifest_entry *entry = &manifest->rows[i];
    const struct sluice_field_value *values = entry->values;
    if (manifest->fields.num <= 1)
        return (struct sluice_field_value){entry->values, entry->values_bytes};
    return values ? values[field] : (struct sluice_field_value){NULL, 0};
}

static sluice_status finish_row(struct sluice_manifest *manifest,
                                struct sluice_manifest_entry *entry, struct sluice_err *err)
{
    const struct sluice_field_value *values = entry->values;
    const unsigned num = manifest->fields.num;
    for (unsigned k = 0; k < num; k++) {
        if (!values || !values[k].at)
            return sluice_fail(err, SLUICE_E_INVALID, "%.200s has no value of field '%s'",
                               entry->path, manifest->fields.of[k].name);
    }
    const size_t bytes = sluice_fields_pack(num, values, NULL);
    if (bytes > SLUICE_MAX_VALUES_BYTES)
        return sluice_fail(err, SLUICE_E_INVALID, "%.200s: its values are more than 16 MiB in all",
                           entry->path);
    char *block = malloc(bytes);
    if (block)
        (void)sluice_fields_pack(num, values, block);
    entry->values = block ? store_values(manifest, block, bytes) : NULL;
    entry->values_bytes = (uint32_t)bytes;
    free(block);
    return entry->values ? SLUICE_OK : no_memory(manifest, err);
}

sluice_status sluice_manifest_finish_fields(struct sluice_manifest_builder *builder,
                                            struct sluice_err *err)
{
    struct sluice_manifest *manifest = builder->manifest;
    sluice_status status = SLUICE_OK;
    if (manifest->fields.num <= 1)
        return SLUICE_OK;
    for (size_t i = 0; i < manifest->num_entries && status == SLUICE_OK; i++)
        status = finish_row(manifest, &manifest->rows[i], err);
    return status;
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
        sluice_fields_values_flaw(&manifest->fields, entry->values, entry->values_bytes);
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

uint64_t sluice_manifest_values_bytes(const struct sluice_manifest *manifest)
{
    const size_t n = manifest->num_entries;
    const uint64_t *ends = manifest->columns.value_ends;
    if (!manifest->rows && ends)
        return n ? ends[n - 1] : 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < n && manifest->fields.num; i++)
        bytes += sluice_manifest_at(manifest, i).values_bytes;
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

void sluice_manifest_list_hash_begin(struct sluice_hasher64 *hasher,
                                     const struct sluice_fields *fields)
{
    const uint32_t said[] = {fields->of[0].type.kind, fields->of[0].type.dim};
    sluice_hasher64_init(hasher);
    if (sluice_fields_are_plain(fields) && sluice_fields_have_known_name(fields)) {
        if (fields->num)
            sluice_hasher64_update(hasher, said, sizeof(said));
        return;
    }
    char text[SLUICE_FIELDS_TEXT];
    sluice_fields_print(fields, text);
    sluice_hasher64_update(hasher, text, strlen(text) + 1);
}

void sluice_manifest_list_hash_add(struct sluice_hasher64 *hasher,
                                   const struct sluice_manifest_entry *entry)
{
    const uint32_t row[] = {entry->width, entry->height,
                            (uint32_t)entry->subset << 8 | entry->coding};
    sluice_hasher64_update(hasher, row, sizeof(row));
    if (!entry->values)
        return;
    sluice_hasher64_update(hasher, &entry->values_bytes, sizeof(entry->values_bytes));
    sluice_hasher64_update(hasher, entry->values, entry->values_bytes);
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

/* `fields`: none, or those of the manifest, maybe under another name. */
static uint64_t list_hash_with(const struct sluice_manifest *manifest,
                               const struct sluice_fields *fields)
{
    struct sluice_hasher64 hasher;
    sluice_manifest_list_hash_begin(&hasher, fields);
    for (size_t i = 0; i < manifest->num_entries; i++) {
        struct sluice_manifest_entry entry = sluice_manifest_at(manifest, i);
        if (!fields->num)
            entry.values = NULL;
        sluice_manifest_list_hash_add(&hasher, &entry);
    }
    return sluice_manifest_list_hash_end(&hasher, manifest->classes, manifest->num_classes);
}

uint64_t sluice_manifest_list_hash(const struct sluice_manifest *manifest)
{
    return list_hash_with(manifest, &manifest->fields);
}

uint64_t sluice_manifest_plain_list_hash(const struct sluice_manifest *manifest)
{
    struct sluice_fields fields = {.num = 0};
    if (sluice_fields_are_plain(&manifest->fields))
        fields = manifest->fields;
    (void)sluice_print(fields.of[0].name, sizeof(fields.of[0].name), SLUICE_TARGET_FIELD);
    return list_hash_with(manifest, &fields);
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
        bytes += strlen(manifest->rows[i].path) + 1 + manifest->rows[i].values_bytes;
    return bytes;
}
