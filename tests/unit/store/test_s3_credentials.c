#include "store/s3_credentials.h"

#include "base/clock.h"
#include "store/http.h"
#include "support/test.h"
#include "web_server.h"

#include <sys/stat.h>

static int port;
static struct sluice_http *http;
static struct sluice_s3_places places;
static struct sluice_s3_credentials credentials;

static void forget_environment(void)
{
    static const char *const names[] = {"AWS_ACCESS_KEY_ID",
                                        "AWS_SECRET_ACCESS_KEY",
                                        "AWS_SESSION_TOKEN",
                                        "AWS_PROFILE",
                                        "AWS_REGION",
                                        "AWS_DEFAULT_REGION",
                                        "AWS_ENDPOINT_URL",
                                        "AWS_ENDPOINT_URL_S3",
                                        "AWS_ENDPOINT_URL_STS",
                                        "AWS_WEB_IDENTITY_TOKEN_FILE",
                                        "AWS_ROLE_ARN",
                                        "AWS_ROLE_SESSION_NAME",
                                        "AWS_SHARED_CREDENTIALS_FILE",
                                        "AWS_CONFIG_FILE",
                                        "AWS_CA_BUNDLE"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
    setenv("HOME", sluice_test_dir(), 1);
}

static sluice_status find(struct sluice_err *err)
{
    const sluice_status status = sluice_s3_places_find(&places, err);
    if (status != SLUICE_OK)
        return status;
    return sluice_s3_credentials_find(&places, http, sluice_clock_ns() + UINT64_C(20000000000),
                                      &credentials, err);
}

TEST(without_any_nobody_asks)
{
    forget_environment();
    REQUIRE_OK(find(NULL));
    CU_ASSERT(credentials.is_anonymous);
    CU_ASSERT_STRING_EQUAL(places.region, "us-east-1");
    CU_ASSERT_STRING_EQUAL(places.endpoint, "");
    CU_ASSERT_STRING_EQUAL(places.sts_url, "https://sts.us-east-1.amazonaws.com/");
}

TEST(the_home_folder_has_profiles)
{
    forget_environment();
    sluice_test_put_text(sluice_test_dir(), ".aws/credentials",
                         "[default]\naws_access_key_id=AKHOME\naws_secret_access_key=sesame\n");
    sluice_test_put_text(sluice_test_dir(), ".aws/config",
                         "[default]\nregion=eu-home-1\n[profile work]\nsso_session = x\n");
    REQUIRE_OK(find(NULL));
    CU_ASSERT(!credentials.is_anonymous && credentials.expires_s == 0);
    CU_ASSERT_STRING_EQUAL(credentials.key_id, "AKHOME");
    CU_ASSERT_STRING_EQUAL(credentials.secret, "sesame");
    CU_ASSERT_STRING_EQUAL(credentials.token, "");
    CU_ASSERT_STRING_EQUAL(places.region, "eu-home-1");
    setenv("AWS_PROFILE", "work", 1);
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "sso_session", find(sluice_test_err()));
    setenv("AWS_PROFILE", "none", 1);
    CHECK_FAILS(SLUICE_E_INVALID, "no profile none", find(sluice_test_err()));
}

TEST(the_environment_comes_first)
{
    forget_environment();
    setenv("AWS_ACCESS_KEY_ID", "AKENV", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "sesame2", 1);
    setenv("AWS_SESSION_TOKEN", "tok", 1);
    setenv("AWS_DEFAULT_REGION", "eu-env-2", 1);
    setenv("AWS_ENDPOINT_URL", "http://all", 1);
    REQUIRE_OK(find(NULL));
    CU_ASSERT_STRING_EQUAL(credentials.key_id, "AKENV");
    CU_ASSERT_STRING_EQUAL(credentials.secret, "sesame2");
    CU_ASSERT_STRING_EQUAL(credentials.token, "tok");
    CU_ASSERT_STRING_EQUAL(places.region, "eu-env-2");
    CU_ASSERT_STRING_EQUAL(places.endpoint, "http://all");
    setenv("AWS_REGION", "eu-env-1", 1);
    setenv("AWS_ENDPOINT_URL_S3", "http://s3", 1);
    REQUIRE_OK(find(NULL));
    CU_ASSERT_STRING_EQUAL(places.region, "eu-env-1");
    CU_ASSERT_STRING_EQUAL(places.endpoint, "http://s3");
}

TEST(a_web_identity_asks_sts)
{
    static const char answer[] =
        "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
        "<AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>sesame3</SecretAccessKey>"
        "<SessionToken>tok/en==</SessionToken><Expiration>2030-01-02T03:04:05Z</Expiration>"
        "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";
    char url[64];
    forget_environment();
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/folder/sts", port);
    const char *token = sluice_test_path("token");
    sluice_test_write_file(token, "ey.J+w/t\n", 9);
    setenv("AWS_ENDPOINT_URL_STS", url, 1);
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", token, 1);
    setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r", 1);
    web_clear();
    web_put("sts", answer, sizeof(answer) - 1);
    REQUIRE_OK(find(NULL));
    CU_ASSERT_STRING_EQUAL(credentials.key_id, "ASIA1");
    CU_ASSERT_STRING_EQUAL(credentials.secret, "sesame3");
    CU_ASSERT_STRING_EQUAL(credentials.token, "tok/en==");
    CU_ASSERT_EQUAL(credentials.expires_s, 1893553445);
    CU_ASSERT_STRING_EQUAL(web_count().body,
                           "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws"
                           "%3Aiam%3A%3A1%3Arole%2Fr&RoleSessionName=sluice&WebIdentityToken="
                           "ey.J%2Bw%2Ft");
    CU_ASSERT_STRING_EQUAL(web_count().authorization, "");

    struct sluice_err err = {0};
    web_fail(403, "<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>", 1);
    CU_ASSERT_EQUAL(find(&err), SLUICE_E_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "AccessDenied"));
    CU_ASSERT_PTR_NULL(strstr(err.text, "ey.J"));
    web_put("sts", "<a/>", 4);
    err = (struct sluice_err){0};
    CU_ASSERT_EQUAL(find(&err), SLUICE_E_CORRUPT);
    unsetenv("AWS_ROLE_ARN");
    CU_ASSERT_EQUAL(find(NULL), SLUICE_E_INVALID);
}

int main(void)
{
    const struct sluice_http_options options = {.num_parallel = 2};
    port = web_open();
    if (sluice_http_open(&options, &http, NULL) != SLUICE_OK)
        return 1;
    const int failed = sluice_test_main();
    sluice_http_close(http);
    return failed;
}
