#ifndef SLUICE_DATASETS_SHARDS_RECORDS_H
#define SLUICE_DATASETS_SHARDS_RECORDS_H

#include "datasets/shards/tar.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Shards of records: MosaicML's MDS (mosaicml/streaming, base/format/mds/writer.py) and LitData's
 * chunks (Lightning-AI/litdata, streaming/writer.py), uncompressed.  Finds the places of the values
 * of each record, without reading them.
 *
 *     uint32 num
 *     uint32 offsets[num + 1]    of the records, from the begin of the shard
 *     MDS: its columns, in JSON
 *     records: uint32 for each column that has no fixed size, then the values, column by column
 *
 * All numbers are little-endian.  Whatever a shard holds, the reader stays within it and allocates
 * at most SLUICE_RECORDS_MAX_CONFIG bytes plus Jansson's objects of them.
 *
 * Threads: one at a time for each reader. */

#define SLUICE_RECORDS_MAX_COLUMNS 64
#define SLUICE_RECORDS_MAX_NAME 64
#define SLUICE_RECORDS_MAX_CONFIG ((size_t)1 << 20)

enum sluice_column_kind {
    SLUICE_COLUMN_OTHER, /* not usable, or not in place: pixels, texts, lists of JPEGs */
    SLUICE_COLUMN_IMAGE, /* a whole file of an image: MDS's jpeg and png, LitData's jpeg and image
                          */
    SLUICE_COLUMN_BYTES, /* whatever it is */
    SLUICE_COLUMN_INT,
    SLUICE_COLUMN_TEXT, /* UTF-8 */
};

struct sluice_column {
    char name[SLUICE_RECORDS_MAX_NAME];
    char encoding[SLUICE_RECORDS_MAX_NAME]; /* as the shard calls it */
    enum sluice_column_kind kind;
    uint32_t bytes;    /* of each value; 0: each record says */
    uint8_t int_bytes; /* of an integer */
    bool is_signed;
};

struct sluice_columns {
    struct sluice_column all[SLUICE_RECORDS_MAX_COLUMNS];
    unsigned num;
};

/* Adds a column; `bytes` 0: of no fixed size.  False: there are too many, or a name is too long. */
bool sluice_columns_add(struct sluice_columns *columns, const char *name, const char *encoding,
                        uint32_t bytes);

struct sluice_records {
    sluice_read_at_fn *read_at;
    void *ctx;
    uint64_t size;                 /* of the shard */
    struct sluice_columns columns; /* none: the shard says, as MDS does */
    uint32_t num;                  /* from here on set by open */

    uint32_t window[1025]; /* private: some of the offsets */
    uint32_t window_at;
    unsigned window_len;
};

struct sluice_value {
    uint64_t offset, bytes;
};

/* Reads the head.  SLUICE_E_CORRUPT: err begins with "byte N: "; SLUICE_E_UNSUPPORTED: a
 * chunk of LitData's without records, but with rows of Arrow; else what read_at says. */
SLUICE_MUST_USE sluice_status sluice_records_open(struct sluice_records *records,
                                                  struct sluice_err *err);

/* Finds the values of record i, by column.  SLUICE_E_CORRUPT as above. */
SLUICE_MUST_USE sluice_status sluice_records_find(struct sluice_records *records, uint32_t i,
                                                  struct sluice_value values[],
                                                  struct sluice_err *err);

/* A value of a column of integers; what is larger than INT64_MAX is INT64_MAX.  SLUICE_E_CORRUPT:
 * it is of another size. */
SLUICE_MUST_USE sluice_status sluice_records_integer(struct sluice_records *records,
                                                     const struct sluice_column *column,
                                                     const struct sluice_value *value,
                                                     int64_t *number, struct sluice_err *err);

/* The longest value of a column of texts that is read. */
#define SLUICE_RECORDS_MAX_TEXT 4096

/* A value of a column of texts, terminated.  SLUICE_E_INVALID: it is empty, too long or not UTF-8,
 * or has a NUL. */
SLUICE_MUST_USE sluice_status sluice_records_text(struct sluice_records *records,
                                                  const struct sluice_value *value,
                                                  char text[SLUICE_RECORDS_MAX_TEXT + 1],
                                                  struct sluice_err *err);

#endif
