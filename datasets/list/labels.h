#ifndef SLUICE_DATASETS_LIST_LABELS_H
#define SLUICE_DATASETS_LIST_LABELS_H

#include "base/error.h"
#include "datasets/list/field_source.h"
#include "datasets/manifest/builder.h"

#include <stdbool.h>
#include <stddef.h>

/* Labels from a table next to the images, in place of the names of their folders: metadata.jsonl,
 * metadata.csv (as Hugging Face's imagefolder has them) or labels.csv.
 *
 *     file_name,label,split          {"file_name": "a/1.jpg", "label": 3}
 *     "a/1.jpg",3,train              {"file_name": "a/2.jpg", "label": "cat"}
 *
 * `file_name` (or `path`) is relative to the table's folder.  `label` is an integer or the name of
 * a class, of the same kind in all rows: the column label_key, or the first of `label`, `class`,
 * `cls` and `target` that exists.  `split`, a word of split_name.h, may be missing, as may values
 * of other columns.  Names get numbers in the order in which Python sorts them.  CSV is
 * RFC 4180's: quoted fields, quotes doubled, newlines in quotes; with one line of names.
 *
 * Columns that are requested by name have the values of fields (field_values.h): in CSV numbers
 * separated by blanks or commas, or text; in JSON a number, an array of numbers, text, or anything
 * else as compact JSON.  Such a table may lack `label`; labels then come from another source.
 *
 * There is one table in the root, or one in each folder of the root with the name of train or val.
 * A file without both columns is not a table of labels, and is ignored.
 *
 * Threads: a table may be used by one at a time. */

struct sluice_labels;

/* Other columns are skipped unread, so they may hold what only Python's json writes
 * (python_json.h).  A damaged line is an error in every row.
 *
 * Reads the tables of a root, or `file` (NULL: those of the root; file names in it are relative to
 * the root), which must be a table.  `sources`: borrowed until the labels are destroyed.  *labels
 * stays NULL without a table.  SLUICE_E_NOT_FOUND, SLUICE_E_IO: the root; SLUICE_E_INVALID: err
 * names file, line and field. */
SLUICE_MUST_USE sluice_status sluice_labels_read(const char *root, const char *file,
                                                 const char *label_key,
                                                 const struct sluice_field_sources *sources,
                                                 struct sluice_labels **labels,
                                                 struct sluice_err *err);
void sluice_labels_destroy(struct sluice_labels *labels); /* NULL is allowed */

/* Whether the tables have labels; false: only values of fields. */
bool sluice_labels_have_labels(const struct sluice_labels *labels);

/* Whether the tables have the column of a field. */
bool sluice_labels_have_fields(const struct sluice_labels *labels);

/* Whether every row says its split. */
bool sluice_labels_have_splits(const struct sluice_labels *labels);

/* Whether a file of the root is one of these tables. */
bool sluice_labels_has_file(const struct sluice_labels *labels, const char *path);

/* Sets the labels and values of all entries, as far as the tables have them, and their subsets
 * where there is a column `split`; entries of split test, by it or by the subset that they have,
 * are taken out as sluice_layout_leave_out_test() does.  *are_names: the manifest, which must have
 * no classes, has got them; else labels are numbers, for sluice_class_list_number().  A row without
 * an image is a warning that counts them; SLUICE_E_INVALID: an image without a row, or a row that
 * comes twice. */
SLUICE_MUST_USE sluice_status sluice_labels_assign(struct sluice_labels *labels,
                                                   struct sluice_manifest_builder *builder,
                                                   bool *are_names, struct sluice_err *err);
/* The same for values only. */
SLUICE_MUST_USE sluice_status sluice_labels_assign_fields(struct sluice_labels *labels,
                                                          struct sluice_manifest_builder *builder,
                                                          struct sluice_err *err);

/* Parses one table; for tests and the fuzz target.  `text` is not changed. */
SLUICE_MUST_USE sluice_status sluice_labels_parse(const char *name, const char *text, size_t len,
                                                  const struct sluice_field_sources *sources,
                                                  struct sluice_labels **labels,
                                                  struct sluice_err *err);

#endif
