#ifndef SLUICE_DATASETS_MANIFEST_BINARY_FORMAT_H
#define SLUICE_DATASETS_MANIFEST_BINARY_FORMAT_H

#include "datasets/manifest/binary.h"

#include <stdbool.h>
#include <stdint.h>

/* Private to the reader and the writer of the file; manifest/binary.h describes it. */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the columns are used as they lie there");

#define SLUICE_BINARY_VERSION 1
#define SLUICE_BINARY_VERSION_FIELDS 2 /* its values begin with a description of fields */
#define SLUICE_BINARY_FIELDS 3         /* values_kind of version 2 */
#define SLUICE_BINARY_MAGIC "SLUICEMF"

enum sluice_binary_section {
    SLUICE_BINARY_BYTES,
    SLUICE_BINARY_OFFSETS,
    SLUICE_BINARY_MTIMES,
    SLUICE_BINARY_HASHES,
    SLUICE_BINARY_LABELS,
    SLUICE_BINARY_SIZES,
    SLUICE_BINARY_CODINGS,
    SLUICE_BINARY_MARKS,
    SLUICE_BINARY_VALUE_ENDS,
    SLUICE_BINARY_PATH_STARTS,
    SLUICE_BINARY_VALUES, /* of any length from here on */
    SLUICE_BINARY_PATHS,
    SLUICE_BINARY_CLASSES,
    SLUICE_BINARY_PASSED,
    SLUICE_BINARY_SECTIONS
};

/* Bytes of one sample in each column. */
static const uint8_t sluice_binary_width[SLUICE_BINARY_VALUES] = {8, 8, 8, 16, 4, 8, 1, 1, 8, 8};

struct sluice_binary_header {
    char magic[8];
    uint32_t version, header_bytes;
    uint64_t num_entries, num_classes, passed_unread;
    uint8_t id[16], source_hash[16];
    uint32_t values_kind, values_dim;
    struct {
        uint64_t at, bytes, hash;
    } sections[SLUICE_BINARY_SECTIONS];
    uint64_t hash;
};

_Static_assert(sizeof(struct sluice_binary_header) == 80 + SLUICE_BINARY_SECTIONS * 24 + 8,
               "no padding");

/* A whole list in memory. */
struct sluice_binary_copy {
    void *map; /* mmap()'s */
    size_t bytes;
    bool is_file; /* pages of a file that nobody else writes; otherwise anonymous memory */
};

/* Maps a file that the caller has written, so its header is trusted.  Borrows fd. */
SLUICE_MUST_USE sluice_status sluice_binary_map(int fd, const struct sluice_binary_header *header,
                                                uint64_t file_bytes, const char *path,
                                                struct sluice_manifest **manifest,
                                                struct sluice_err *err);

/* 16 bytes in canonical order. */
struct sluice_hash128 sluice_binary_hash(const uint8_t bytes[16]);

#endif
