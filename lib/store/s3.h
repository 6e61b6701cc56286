#ifndef SLUICE_STORE_S3_H
#define SLUICE_STORE_S3_H

#include "store/http.h"
#include "store/root.h"
#include "store/s3_credentials.h"

/* Private to lib/store: buckets of S3 and of what speaks as it does (Ceph, MinIO).  The object KEY
 * of s3://BUCKET/PREFIX is PREFIX/KEY of the bucket.
 *
 * Objects are listed by ListObjectsV2 and read by ranged GETs.  Requests are signed (Signature
 * Version 4) over all but the range and the body.  Credentials that expire or are refused are
 * looked for again.  The region that AWS or such a service names for the bucket is followed once,
 * to AWS's host of that region, or to the same host where it is not AWS's. */

/* Takes `http`, whatever it returns.  SLUICE_E_INVALID: an invalid root or endpoint. */
SLUICE_MUST_USE sluice_status sluice_store_s3_open(const struct sluice_store_options *options,
                                                   const struct sluice_s3_places *places,
                                                   struct sluice_http *http,
                                                   struct sluice_store **store,
                                                   struct sluice_err *err);

/* Where requests for a root go: "https://host[/bucket]".  `region`: once the service has named this
 * one; NULL: at first. */
SLUICE_MUST_USE sluice_status sluice_s3_endpoint(const struct sluice_store_options *options,
                                                 const struct sluice_s3_places *places,
                                                 const char *region,
                                                 char url[SLUICE_STORE_URL_BYTES],
                                                 struct sluice_err *err);

#endif
