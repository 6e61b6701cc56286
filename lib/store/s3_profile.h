#ifndef SLUICE_STORE_S3_PROFILE_H
#define SLUICE_STORE_S3_PROFILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* A profile of ~/.aws/credentials or ~/.aws/config
 * (https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html).
 *
 * Threads: pure functions. */

#define SLUICE_S3_TOKEN_BYTES 8192

struct sluice_s3_profile { /* "": not in the profile */
    char key_id[256], secret[256], token[SLUICE_S3_TOKEN_BYTES];
    char region[64], endpoint[512];
    char web_identity_token_file[1024], role_arn[512], role_session_name[128];
    bool is_found;
    char other[64]; /* an unsupported source of credentials, such as sso_session */
};

/* Parses the settings of the profile `name` and fills in the fields of *profile that are "".
 * `is_config`: sections are "[profile NAME]", except "[default]".  SLUICE_E_INVALID has the line's
 * number, not its text. */
SLUICE_MUST_USE sluice_status sluice_s3_profile_parse(const char *text, size_t len,
                                                      const char *name, bool is_config,
                                                      struct sluice_s3_profile *profile,
                                                      struct sluice_err *err);

#endif
