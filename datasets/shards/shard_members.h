#ifndef SLUICE_DATASETS_SHARDS_SHARD_MEMBERS_H
#define SLUICE_DATASETS_SHARDS_SHARD_MEMBERS_H

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

/* Add all members, up to any damage.  SLUICE_E_CORRUPT, SLUICE_E_IO: the shard is damaged or
 * unreadable at the byte in err; members before it stay in the list.  Any other status ends the
 * list. */
SLUICE_MUST_USE sluice_status sluice_shard_list_tar(struct sluice_shard *shard,
                                                    struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_shard_list_records(struct sluice_shard *shard,
                                                        struct sluice_err *err);

#endif
