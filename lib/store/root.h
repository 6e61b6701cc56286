#ifndef SLUICE_STORE_ROOT_H
#define SLUICE_STORE_ROOT_H

#include "store/store.h"

/* A root and how its store is opened (store/open.h). */

#define SLUICE_STORE_URL_BYTES 1024

struct sluice_store_options {
    const char *root;
    uint64_t max_object_bytes;
    unsigned patience_ms;    /* for a remote read, including retries; 0: 30 s */
    const char *s3_endpoint; /* "https://HOST[:PORT]"; NULL: the environment's, or AWS's */
    const char *s3_style;    /* "path": HOST/BUCKET; "virtual": BUCKET.HOST; NULL: path with an
                                endpoint, virtual at AWS */
    struct sluice_file_turns turns; /* of a folder, as in sluice_store_file_options */
    bool (*is_cached)(int fd, uint64_t from, uint64_t to);
};

#endif
