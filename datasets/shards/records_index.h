#ifndef SLUICE_DATASETS_SHARDS_RECORDS_INDEX_H
#define SLUICE_DATASETS_SHARDS_RECORDS_INDEX_H

#include "datasets/shards/records.h"

/* The index.json beside shards of records: their names, and of LitData's chunks the columns.
 *
 * Threads: none of its own. */

#define SLUICE_RECORDS_INDEX_FILE "index.json"

struct sluice_records_index {
    char **names; /* of the shards, relative to the index's folder */
    size_t num;
    struct sluice_columns columns; /* LitData; of MDS each shard says, and there are none here */
    /* The compression of the first compressed shard: "zstd", ...; NULL: none is compressed. */
    char *compression, *compressed;
};

/* *is_index: it is one of MDS or LitData; else nothing is filled, and that is no failure.  Clear it
 * in any case.  SLUICE_E_INVALID: it is one, and wrong; err says what without the file's name. */
SLUICE_MUST_USE sluice_status sluice_records_index_parse(const char *text, size_t len,
                                                         struct sluice_records_index *index,
                                                         bool *is_index, struct sluice_err *err);
void sluice_records_index_clear(struct sluice_records_index *index);

#endif
