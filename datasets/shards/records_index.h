#ifndef SLUICE_DATASETS_SHARDS_RECORDS_INDEX_H
#define SLUICE_DATASETS_SHARDS_RECORDS_INDEX_H

#include "datasets/shards/records.h"

/* The index.json next to shards of records: their names, and the columns of LitData's chunks.
 *
 * Threads: none of its own. */

#define SLUICE_RECORDS_INDEX_FILE "index.json"

struct sluice_records_index {
    char **names; /* of the shards, relative to the index's folder */
    size_t num;
    struct sluice_columns columns; /* LitData's; empty for MDS, whose shards have their own */
    /* The compression of the first compressed shard ("zstd", ...); NULL: no shard is compressed. */
    char *compression, *compressed;
};

/* Parses an index of MDS or LitData.  *is_index is false for other text, and then *index stays
 * empty, with SLUICE_OK.  Clear *index also after an error.  SLUICE_E_INVALID: the index is
 * invalid; err does not name the file. */
SLUICE_MUST_USE sluice_status sluice_records_index_parse(const char *text, size_t len,
                                                         struct sluice_records_index *index,
                                                         bool *is_index, struct sluice_err *err);
void sluice_records_index_clear(struct sluice_records_index *index);

#endif
