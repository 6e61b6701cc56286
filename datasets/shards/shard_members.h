#ifndef SLUICE_DATASETS_SHARDS_SHARD_MEMBERS_H
#define SLUICE_DATASETS_SHARDS_SHARD_MEMBERS_H

#include "datasets/list/field_values.h"
#include "datasets/manifest/builder.h"
#include "datasets/shards/shard_list.h"

#include <pthread.h>

enum sluice_label_kind { SLUICE_LABELS_NONE, SLUICE_LABELS_INTEGERS, SLUICE_LABELS_NAMES };

struct sluice_label_texts {
    char **all; /* owned */
    size_t num, capacity;
};
void sluice_label_texts_clear(struct sluice_label_texts *texts);

#define SLUICE_LABEL_SOURCE 96 /* "the column 'label'" */

/* A shard while it is being listed.  shard_list.c opens it and passes it to the file for its kind.
 *
 * Threads: a shard belongs to one; the lock guards what all of them share. */
struct sluice_shard {
    const struct sluice_shard_file *file;
    const struct sluice_shard_options *options;
    const char *root; /* the options', like the next */
    const char *label_key;
    pthread_mutex_t *lock;
    struct sluice_passed_over *passed; /* guarded by the lock; may be NULL */

    struct sluice_manifest_builder images; /* rows of the samples */
    struct sluice_manifest_builder labels; /* rows of labels: path as far as the key, label */
    struct sluice_manifest_builder unread; /* keys of images that are not listed, as paths */
    struct sluice_field_values values[SLUICE_MAX_FIELDS];      /* by source (shard_fields.h) */
    struct sluice_manifest_builder members[SLUICE_MAX_FIELDS]; /* keys of those in tars, as paths */
    size_t num_labelled;
    enum sluice_label_kind label_kind;
    char label_source[SLUICE_LABEL_SOURCE]; /* in words; "": no label was seen */
    struct sluice_label_texts texts;        /* names of classes: labels are places in it */
    bool is_damaged;
    uint64_t num_passed; /* members that might be images */

    int fd;
    uint8_t *window;
    uint64_t window_at;
    size_t window_len;
};

/* A sluice_read_at_fn; ctx: the shard. */
sluice_status sluice_shard_read_at(void *ctx, uint64_t at, void *to, size_t len,
                                   struct sluice_err *err);

/* Logs that a member that may be an image is not in the list. */
void sluice_shard_pass_over(struct sluice_shard *shard, const char *name, const char *why);

/* Notes that labels of this kind come from `source`.  SLUICE_E_INVALID: others of the shard do
 * not. */
SLUICE_MUST_USE sluice_status sluice_shard_note_labels(struct sluice_shard *shard,
                                                       enum sluice_label_kind kind,
                                                       const char *source, struct sluice_err *err);

/* Keeps a copy of a label that is the name of a class; *label: its place. */
SLUICE_MUST_USE sluice_status sluice_shard_add_text(struct sluice_shard *shard, const char *text,
                                                    uint32_t *label, struct sluice_err *err);

/* Counts a member whose suffix is not an image's. */
void sluice_shard_count_passed(const struct sluice_shard *shard, const char *name);

/* Whether one of the rows, sorted by path, has this key (sluice_shard_key_len()). */
bool sluice_shard_has_key(const struct sluice_manifest *manifest, const char *key);

/* Adds a row whose path is the shard's with name[0 .. name_len) behind it. */
SLUICE_MUST_USE sluice_status sluice_shard_add_row(struct sluice_manifest_builder *builder,
                                                   const struct sluice_shard *shard,
                                                   const char *name, size_t name_len,
                                                   const struct sluice_manifest_entry *row,
                                                   struct sluice_err *err);

/* Call it after the rows of images and labels are sorted.  SLUICE_E_INVALID: a label has no image;
 * err names it. */
SLUICE_MUST_USE sluice_status sluice_shard_check_labels(struct sluice_shard *shard,
                                                        struct sluice_err *err);

/* --- values of fields (shard_fields.c) ---
 *
 * In a tar, the value of "x.tar/a/1.jpg" is the content of "a/1.txt", which has the same key
 * (shard_list.h); of two members with the same name the later one counts.  In a shard of records it
 * is a column: integers and floats are vectors of one number; texts, bytes and JSON are as they lie
 * there.  Errors name shard and member or byte.  SLUICE_E_INVALID: a value is invalid, or not like
 * the ones before in the shard. */

struct sluice_column;
struct sluice_records;
struct sluice_tar_member;
struct sluice_value;

/* Prepares the shard for its options' fields; clear it in any case. */
SLUICE_MUST_USE sluice_status sluice_shard_fields_init(struct sluice_shard *shard,
                                                       struct sluice_err *err);
void sluice_shard_fields_clear(struct sluice_shard *shard);

/* Reads a member of a tar if it is the value of a field.  *is_value: it is. */
SLUICE_MUST_USE sluice_status sluice_shard_note_value(struct sluice_shard *shard,
                                                      const struct sluice_tar_member *member,
                                                      bool *is_value, struct sluice_err *err);

/* Gives the rows of images the members of their keys.  Call it once all rows are sorted. */
SLUICE_MUST_USE sluice_status sluice_shard_join_values(struct sluice_shard *shard,
                                                       struct sluice_err *err);

/* Whether a column has the values of a field. */
bool sluice_shard_is_field(const struct sluice_shard *shard, const struct sluice_column *column);

/* Sets the values of row `row` of the images from a record's. */
SLUICE_MUST_USE sluice_status sluice_shard_set_record(struct sluice_shard *shard,
                                                      struct sluice_records *records,
                                                      const struct sluice_value *values, size_t row,
                                                      struct sluice_err *err);

/* Add all members, up to any damage.  SLUICE_E_CORRUPT, SLUICE_E_IO: the shard is damaged or
 * unreadable at the byte in err; members before it stay in the list.  Any other status ends the
 * list. */
SLUICE_MUST_USE sluice_status sluice_shard_list_tar(struct sluice_shard *shard,
                                                    struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_shard_list_records(struct sluice_shard *shard,
                                                        struct sluice_err *err);

#endif
