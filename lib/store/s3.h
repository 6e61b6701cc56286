#ifndef SLUICE_STORE_S3_H
#define SLUICE_STORE_S3_H

#include "store/http.h"
#include "store/root.h"
#include "store/s3_credentials.h"

/* Private to lib/store: buckets of S3 and compatible services (Ceph, MinIO).  The object KEY of
 * s3://BUCKET/PREFIX is PREFIX/KEY of the bucket.
 *
 * Objects are listed by ListObjectsV2 and read by ranged GETs.  Requests are signed (Signature
 * Version 4) over all but the range and the body.  Credentials that expire or are rejected are
 * found again.  If the service names another region for the bucket, requests go there once: to
 * AWS's host of that region, or to the same host for other services. */

/* Takes `http`, also on failure.  SLUICE_E_INVALID: an invalid root or endpoint. */
SLUICE_MUST_USE sluice_status sluice_store_s3_open(const struct sluice_store_options *options,
                                                   const struct sluice_s3_places *places,
                                                   struct sluice_http *http,
                                                   struct sluice_store **store,
                                                   struct sluice_err *err);

/* The URL for requests of a root: "https://host[/bucket]".  `region`: the one that the service
 * named; NULL: none yet. */
SLUICE_MUST_USE sluice_status sluice_s3_endpoint(const struct sluice_store_options *options,
                                                 const struct sluice_s3_places *places,
                                                 const char *region,
                                                 char url[SLUICE_STORE_URL_BYTES],
                                                 struct sluice_err *err);

#endif
