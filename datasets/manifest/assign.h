#ifndef SLUICE_DATASETS_MANIFEST_ASSIGN_H
#define SLUICE_DATASETS_MANIFEST_ASSIGN_H

#include "datasets/list/labels.h"
#include "datasets/manifest/annotations.h"
#include "datasets/manifest/layout.h"

/* Completes a manifest from the found files: order, splits, classes, labels and fields of its
 * samples; manifest.h has the rules.
 *
 * Threads: called from one. */

struct sluice_manifest_parts {
    struct sluice_manifest_builder
        *builder;       /* has the entries, in no order, and no class but those of are_names;
                     its manifest has the fields of the options (field_source.h) */
    const char *root;   /* for messages */
    const char *folder; /* may hold sluice-classes.txt; NULL: no folder */
    const struct sluice_manifest_options *options;
    struct sluice_layout_folders *folders; /* folders within shards are added here */
    struct sluice_passed_over *passed;
    const struct sluice_annotations *annotations; /* NULL: none */
    size_t num_labelled;                          /* entries with a label from their shard */
    bool are_names; /* these labels are names, and the builder has the classes */
};

/* Gives a manifest without entries the fields of the options, and reads their annotations, which
 * the caller destroys; *annotations stays NULL without any. */
SLUICE_MUST_USE sluice_status sluice_manifest_begin_fields(
    const struct sluice_manifest_options *options, struct sluice_manifest *manifest,
    struct sluice_annotations **annotations, struct sluice_err *err);

/* `labels`: the table, or NULL.  It may remove all entries.  Statuses as of sluice_manifest_list().
 */
SLUICE_MUST_USE sluice_status sluice_manifest_assign(const struct sluice_manifest_parts *parts,
                                                     struct sluice_labels *labels,
                                                     struct sluice_err *err);

#endif
