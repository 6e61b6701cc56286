#ifndef SLUICE_DATASETS_MANIFEST_BUILDER_H
#define SLUICE_DATASETS_MANIFEST_BUILDER_H

#include "datasets/manifest/manifest.h"

#include <stdio.h>

/* A manifest that grows.  manifest.c fills it from rows, manifest/scan.c from a folder,
 * manifest/file.c from a file.  The caller destroys the manifest, also after a failure. */
struct sluice_manifest_builder {
    struct sluice_manifest *manifest;
    size_t entry_capacity, class_capacity;
};

SLUICE_MUST_USE sluice_status sluice_manifest_builder_init(struct sluice_manifest_builder *builder,
                                                           struct sluice_err *err);

/* Copies the row, also its values; its path is path[0 .. path_len). */
SLUICE_MUST_USE sluice_status sluice_manifest_add_entry(struct sluice_manifest_builder *builder,
                                                        const struct sluice_manifest_entry *row,
                                                        const char *path, size_t path_len,
                                                        struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_manifest_add_class(struct sluice_manifest_builder *builder,
                                                        const char *name, size_t len,
                                                        struct sluice_err *err);

/* Sets the value of a row in one of the manifest's fields, and copies it.  manifest->fields.num
 * must not change between the first call and finish_fields(), types may.  */
SLUICE_MUST_USE sluice_status sluice_manifest_set_field(struct sluice_manifest_builder *builder,
                                                        size_t i, unsigned field, const void *value,
                                                        size_t bytes, struct sluice_err *err);

/* The value that was set; NULL: none was. */
struct sluice_field_value sluice_manifest_field_at(const struct sluice_manifest *manifest, size_t i,
                                                   unsigned field);

/* Call it once all values are set: before, no row of a manifest with several fields has its values.
 * SLUICE_E_INVALID: a row lacks a value, or has more than 16 MiB; err names it. */
SLUICE_MUST_USE sluice_status sluice_manifest_finish_fields(struct sluice_manifest_builder *builder,
                                                            struct sluice_err *err);

/* Checks that entry i has a class, comes after entry i - 1, and has values of the manifest's
 * fields.  If not, SLUICE_E_INVALID. */
SLUICE_MUST_USE sluice_status sluice_manifest_check_entry(const struct sluice_manifest *manifest,
                                                          size_t i, struct sluice_err *err);

/* Adds a row to `id`, the id of the rows before it; begin with {0, 0}. */
struct sluice_hash128 sluice_manifest_id_add(struct sluice_hash128 id,
                                             const struct sluice_manifest_entry *entry,
                                             size_t path_len);

/* sluice_manifest_list_hash(), row by row.  end() does not change `hasher`, which may go on. */
void sluice_manifest_list_hash_begin(struct sluice_hasher64 *hasher,
                                     const struct sluice_fields *fields);
void sluice_manifest_list_hash_add(struct sluice_hasher64 *hasher,
                                   const struct sluice_manifest_entry *entry);
uint64_t sluice_manifest_list_hash_end(const struct sluice_hasher64 *hasher,
                                       const char *const *classes, size_t num_classes);

#define SLUICE_PASSED_TEXT_BYTES 400

/* The text for a manifest file about files that were passed over, perhaps in `room`, and how many
 * of them may be images.  NULL: there is nothing to write. */
const char *sluice_manifest_passed_over(const struct sluice_manifest *manifest,
                                        char room[SLUICE_PASSED_TEXT_BYTES], uint64_t *num_unread);

/* Writes text as a field of a line: tab, newline and backslash become \t, \n and \\. */
void sluice_manifest_write_escaped(FILE *file, const char *text);

/* The reverse, in place; false if another character follows a backslash. */
bool sluice_manifest_unescape(char *text);

#endif
