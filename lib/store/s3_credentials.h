#ifndef SLUICE_STORE_S3_CREDENTIALS_H
#define SLUICE_STORE_S3_CREDENTIALS_H

#include "base/error.h"
#include "store/s3_profile.h"

#include <stdbool.h>
#include <stdint.h>

/* Credentials for a bucket.  As in AWS's tools, the first source that exists counts:
 *
 *     the environment   AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *     a web identity    AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN, or a profile's; STS gives
 *                       credentials for an hour
 *     a profile         AWS_PROFILE or "default", of ~/.aws/credentials and ~/.aws/config
 *                       (AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE)
 *     none              requests are not signed
 *
 * The promise: no credential is ever in a log or an error's text.
 *
 * Threads: any; the environment must not change meanwhile. */

struct sluice_http;

struct sluice_s3_credentials {
    bool is_anonymous;
    char key_id[256], secret[256], token[SLUICE_S3_TOKEN_BYTES]; /* token: "" without one */
    int64_t expires_s;                                           /* since 1970; 0: never */
    char from[128];                                              /* in words, for people */
};

/* The places where credentials and settings are found. */
struct sluice_s3_places {
    char credentials_file[1024], config_file[1024]; /* "": none, because HOME is not set */
    char token_file[1024], role_arn[512], session_name[128];
    char sts_url[512];    /* of the region, or AWS_ENDPOINT_URL_STS */
    char region[64];      /* AWS_REGION, AWS_DEFAULT_REGION, the profile's, or us-east-1 */
    char endpoint[512];   /* AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's; "": AWS's own */
    char ca_bundle[1024]; /* AWS_CA_BUNDLE; "": the system's */
    struct sluice_s3_profile profile;
};

/* Reads the environment and the profile.  SLUICE_E_INVALID: a profile that AWS_PROFILE names is not
 * there, or a file cannot be understood. */
SLUICE_MUST_USE sluice_status sluice_s3_places_find(struct sluice_s3_places *places,
                                                    struct sluice_err *err);

/* Finds credentials by `places`.  For a web identity, reads the token file again and sends a
 * request to STS with the deadline until_ns. */
SLUICE_MUST_USE sluice_status sluice_s3_credentials_find(const struct sluice_s3_places *places,
                                                         struct sluice_http *http,
                                                         uint64_t until_ns,
                                                         struct sluice_s3_credentials *credentials,
                                                         struct sluice_err *err);

#endif
