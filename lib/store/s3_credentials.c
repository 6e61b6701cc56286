#include "store/s3_credentials.h"

#include "base/buf.h"
#include "base/c_locale.h"
#include "base/file.h"
#include "base/redact.h"
#include "base/text.h"
#include "store/http.h"
#include "store/s3_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_FILE_BYTES (1u << 20)

/* Not set and empty are the same, as for AWS's tools. */
static const char *from_env(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

static void set(char *out, size_t room, const char *value)
{
    if (!out[0] && value && !sluice_print(out, room, "%s", value))
        out[0] = '\0';
}

/* The file that a variable names, or one in the home folder. */
static void set_file(char *out, size_t room, const char *variable, const char *in_home)
{
    const char *home = from_env("HOME");
    set(out, room, from_env(variable));
    if (!out[0] && home && !sluice_print(out, room, "%s/%s", home, in_home))
        out[0] = '\0';
}

static sluice_status read_profile(const char *path, const char *name, bool is_config,
                                  struct sluice_s3_profile *profile, struct sluice_err *err)
{
    struct sluice_buf *buf = NULL;
    struct sluice_err why = {0};
    if (!path[0])
        return SLUICE_OK;
    sluice_status status = sluice_file_read(path, MAX_FILE_BYTES, NULL, &buf, &why);
    if (status == SLUICE_E_NOT_FOUND)
        return SLUICE_OK;
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "%s", why.text);
    status =
        sluice_s3_profile_parse((const char *)buf->data, buf->len, name, is_config, profile, &why);
    explicit_bzero(buf->data, buf->len);
    sluice_buf_unref(buf);
    return status == SLUICE_OK ? status : sluice_fail(err, status, "%s: %s", path, why.text);
}

sluice_status sluice_s3_places_find(struct sluice_s3_places *places, struct sluice_err *err)
{
    memset(places, 0, sizeof(*places));
    struct sluice_s3_profile *profile = &places->profile;
    const char *given = from_env("AWS_PROFILE"), *name = given ? given : "default";
    set_file(places->credentials_file, sizeof(places->credentials_file),
             "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
    set_file(places->config_file, sizeof(places->config_file), "AWS_CONFIG_FILE", ".aws/config");
    sluice_status status = read_profile(places->credentials_file, name, false, profile, err);
    if (status == SLUICE_OK)
        status = read_profile(places->config_file, name, true, profile, err);
    if (status != SLUICE_OK)
        return status;
    if (given && !profile->is_found)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "there is no profile %s (AWS_PROFILE) in %s and %s", name,
                           places->credentials_file, places->config_file);

    set(places->region, sizeof(places->region), from_env("AWS_REGION"));
    set(places->region, sizeof(places->region), from_env("AWS_DEFAULT_REGION"));
    set(places->region, sizeof(places->region), profile->region);
    set(places->region, sizeof(places->region), "us-east-1");
    set(places->endpoint, sizeof(places->endpoint), from_env("AWS_ENDPOINT_URL_S3"));
    set(places->endpoint, sizeof(places->endpoint), from_env("AWS_ENDPOINT_URL"));
    set(places->endpoint, sizeof(places->endpoint), profile->endpoint);
    set(places->ca_bundle, sizeof(places->ca_bundle), from_env("AWS_CA_BUNDLE"));
    /* All of a web identity from one place. */
    if (from_env("AWS_WEB_IDENTITY_TOKEN_FILE")) {
        set(places->token_file, sizeof(places->token_file),
            from_env("AWS_WEB_IDENTITY_TOKEN_FILE"));
        set(places->role_arn, sizeof(places->role_arn), from_env("AWS_ROLE_ARN"));
        set(places->session_name, sizeof(places->session_name), from_env("AWS_ROLE_SESSION_NAME"));
    } else {
        set(places->token_file, sizeof(places->token_file), profile->web_identity_token_file);
        set(places->role_arn, sizeof(places->role_arn), profile->role_arn);
        set(places->session_name, sizeof(places->session_name), profile->role_session_name);
    }
    set(places->session_name, sizeof(places->session_name), "sluice");
    set(places->sts_url, sizeof(places->sts_url), from_env("AWS_ENDPOINT_URL_STS"));
    if (!places->sts_url[0])
        snprintf(places->sts_url, sizeof(places->sts_url), "https://sts.%s.amazonaws.com/",
                 places->region);
    return SLUICE_OK;
}

/* --- web identity --- */

/* "2026-11-24T16:30:00Z" */
static int64_t to_time(const char *text)
{
    struct tm tm = {0};
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
               &tm.tm_min, &tm.tm_sec) != 6)
        return 0;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    return (int64_t)timegm(&tm);
}

/* The request to STS; all of it is secret. */
struct identity_request {
    char token[SLUICE_S3_TOKEN_BYTES];
    char encoded[4 * SLUICE_S3_TOKEN_BYTES], role[2048], session[512];
    char body[5 * SLUICE_S3_TOKEN_BYTES];
    uint8_t answer[64 << 10];
};

static sluice_status read_token(const char *path, char token[SLUICE_S3_TOKEN_BYTES],
                                struct sluice_err *err)
{
    struct sluice_buf *buf = NULL;
    const sluice_status status = sluice_file_read(path, SLUICE_S3_TOKEN_BYTES - 1, NULL, &buf, err);
    if (status != SLUICE_OK)
        return status;
    size_t len = buf->len;
    while (len && sluice_is_space((char)buf->data[len - 1]))
        len--;
    memcpy(token, buf->data, len);
    token[len] = '\0';
    sluice_redact_add(token);
    explicit_bzero(buf->data, buf->len);
    sluice_buf_unref(buf);
    return SLUICE_OK;
}

static sluice_status read_identity(const struct identity_request *request, size_t len,
                                   struct sluice_s3_credentials *credentials,
                                   struct sluice_err *err)
{
    char expiration[64];
    const struct sluice_s3_field fields[] = {
        {"AccessKeyId", credentials->key_id, sizeof(credentials->key_id)},
        {"SecretAccessKey", credentials->secret, sizeof(credentials->secret)},
        {"SessionToken", credentials->token, sizeof(credentials->token)},
        {"Expiration", expiration, sizeof(expiration)},
    };
    struct sluice_err why = {0};
    if (sluice_s3_fields_parse((const char *)request->answer, len, fields, 4, &why) != SLUICE_OK ||
        !credentials->key_id[0] || !credentials->secret[0] || !credentials->token[0])
        return sluice_fail(err, SLUICE_E_CORRUPT, "STS answers without credentials%s%s",
                           why.text[0] ? ": " : "", why.text);
    credentials->expires_s = to_time(expiration);
    sluice_redact_add(credentials->secret);
    sluice_redact_add(credentials->token);
    return SLUICE_OK;
}

static sluice_status ask_sts(const struct sluice_s3_places *places, struct sluice_http *http,
                             uint64_t until_ns, struct identity_request *request,
                             struct sluice_s3_credentials *credentials, struct sluice_err *err)
{
    if (!places->role_arn[0])
        return sluice_fail(err, SLUICE_E_INVALID,
                           "a web identity's token file without a role (AWS_ROLE_ARN)");
    const sluice_status status = read_token(places->token_file, request->token, err);
    if (status != SLUICE_OK)
        return status;
    if (!sluice_http_encode(request->token, false, request->encoded, sizeof(request->encoded)) ||
        !sluice_http_encode(places->role_arn, false, request->role, sizeof(request->role)) ||
        !sluice_http_encode(places->session_name, false, request->session,
                            sizeof(request->session)) ||
        !sluice_print(request->body, sizeof(request->body),
                      "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=%s&"
                      "RoleSessionName=%s&WebIdentityToken=%s",
                      request->role, request->session, request->encoded))
        return sluice_fail(err, SLUICE_E_INVALID, "%s: too long for a token", places->token_file);
    struct sluice_http_transfer transfer = {
        .url = places->sts_url,
        .body = request->body,
        .data = request->answer,
        .room = sizeof(request->answer),
    };
    sluice_http_run(http, &transfer, 1, until_ns, NULL);
    if (transfer.status == SLUICE_OK && !transfer.is_longer)
        return read_identity(request, transfer.len, credentials, err);
    char code[SLUICE_S3_CODE_BYTES], message[SLUICE_S3_MESSAGE_BYTES];
    sluice_s3_error_parse(transfer.text, code, message);
    return sluice_fail(err, SLUICE_E_IO, "STS gives no credentials for %s: %s%s%s%s%s",
                       places->role_arn, transfer.err.text, code[0] ? ", " : "", code,
                       message[0] ? ": " : "", message);
}

static sluice_status find_identity(const struct sluice_s3_places *places, struct sluice_http *http,
                                   uint64_t until_ns, struct sluice_s3_credentials *credentials,
                                   struct sluice_err *err)
{
    struct identity_request *request = calloc(1, sizeof(*request));
    if (!request)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a request");
    snprintf(credentials->from, sizeof(credentials->from), "the role %.90s", places->role_arn);
    const sluice_status status = ask_sts(places, http, until_ns, request, credentials, err);
    explicit_bzero(request, sizeof(*request));
    free(request);
    return status;
}

/* --- the rest --- */

static sluice_status take(struct sluice_s3_credentials *credentials, const char *key_id,
                          const char *secret, const char *token, struct sluice_err *err)
{
    if (!sluice_print(credentials->key_id, sizeof(credentials->key_id), "%s", key_id) ||
        !sluice_print(credentials->secret, sizeof(credentials->secret), "%s", secret) ||
        !sluice_print(credentials->token, sizeof(credentials->token), "%s", token ? token : ""))
        return sluice_fail(err, SLUICE_E_INVALID, "a key of %s is too long", credentials->from);
    sluice_redact_add(credentials->secret);
    sluice_redact_add(credentials->token);
    return SLUICE_OK;
}

sluice_status sluice_s3_credentials_find(const struct sluice_s3_places *places,
                                         struct sluice_http *http, uint64_t until_ns,
                                         struct sluice_s3_credentials *credentials,
                                         struct sluice_err *err)
{
    memset(credentials, 0, sizeof(*credentials));
    const char *key_id = from_env("AWS_ACCESS_KEY_ID");
    const char *secret = from_env("AWS_SECRET_ACCESS_KEY");
    if (key_id && secret) {
        snprintf(credentials->from, sizeof(credentials->from), "the environment");
        return take(credentials, key_id, secret, from_env("AWS_SESSION_TOKEN"), err);
    }
    if (places->token_file[0])
        return find_identity(places, http, until_ns, credentials, err);
    const char *given = from_env("AWS_PROFILE");
    struct sluice_s3_profile *profile = calloc(1, sizeof(*profile));
    if (!profile)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a profile");
    const char *name = given ? given : "default";
    sluice_status status = read_profile(places->credentials_file, name, false, profile, err);
    if (status == SLUICE_OK)
        status = read_profile(places->config_file, name, true, profile, err);
    snprintf(credentials->from, sizeof(credentials->from), "the profile %.90s", name);
    if (status == SLUICE_OK && profile->key_id[0] && profile->secret[0])
        status = take(credentials, profile->key_id, profile->secret, profile->token, err);
    else if (status == SLUICE_OK && profile->other[0])
        status =
            sluice_fail(err, SLUICE_E_UNSUPPORTED,
                        "%s gets its credentials by %s, which is not done here: 'aws configure "
                        "export-credentials --format env' prints them for the environment",
                        credentials->from, profile->other);
    else if (status == SLUICE_OK)
        credentials->is_anonymous = true;
    if (credentials->is_anonymous)
        snprintf(credentials->from, sizeof(credentials->from), "nobody: requests are not signed");
    explicit_bzero(profile, sizeof(*profile));
    free(profile);
    return status;
}
