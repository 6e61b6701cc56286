#include "store/open.h"
#include "store/s3.h"

#include "base/buf.h"
#include "conformance.h"
#include "support/capture.h"
#include "web_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int port;
static char credentials_file[1024];

static struct sluice_store *open_world(void)
{
    char endpoint[64];
    struct sluice_store *store = NULL;
    web_clear();
    snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%d", port);
    const struct sluice_store_options options = {
        .root = "s3://folder/pre",
        .max_object_bytes = CONFORMANCE_MAX_BYTES,
        .patience_ms = 20000,
        .s3_endpoint = endpoint,
    };
    REQUIRE_OK(sluice_store_open(&options, &store, NULL));
    return store;
}

static const struct conformance_world world = {
    .open = open_world,
    .put = web_put,
    .remove = web_remove,
    .slow_down = web_slow_down,
    .break_off = web_break_off,
    .hang = web_hang,
    .wait_for_hang = web_wait_for_hang,
};

static void write_profile(const char *key_id)
{
    char text[256];
    snprintf(text, sizeof(text),
             "[default]\naws_access_key_id = %s\naws_secret_access_key = s/e+cret\n"
             "aws_session_token = a/token+of==%s\n",
             key_id, key_id);
    sluice_test_write_file(credentials_file, text, strlen(text));
}

TEST(requests_are_signed_and_in_order)
{
    write_profile("AKFIRST");
    struct sluice_store *store = open_world();
    struct sluice_object object;
    web_put("a b.jpg", "x", 1);
    CHECK_OK(store->describe(store, "a b.jpg", &object, NULL));
    const struct web_counts counts = web_count();
    CU_ASSERT_PTR_NOT_NULL(strstr(counts.authorization, "AWS4-HMAC-SHA256 Credential=AKFIRST/"));
    CU_ASSERT_PTR_NOT_NULL(strstr(counts.authorization, "/eu-test-1/s3/aws4_request"));
    CU_ASSERT_PTR_NOT_NULL(strstr(counts.authorization, "x-amz-security-token"));
    CU_ASSERT_STRING_EQUAL(counts.token, "a/token+of==AKFIRST");
    store->destroy(store);
}

static sluice_status count(void *ctx, const struct sluice_object *object, struct sluice_err *err)
{
    (void)object, (void)err;
    ++*(unsigned *)ctx;
    return SLUICE_OK;
}

TEST(long_lists_come_in_pages)
{
    struct sluice_store *store = open_world();
    unsigned num = 0;
    for (unsigned i = 0; i < 11; i++) {
        char key[32];
        snprintf(key, sizeof(key), "c/%02u.jpg", i);
        web_put(key, "x", 1);
    }
    CHECK_OK(store->list(store, "c/", count, &num, NULL));
    CU_ASSERT_EQUAL(num, 11);
    const struct web_counts counts = web_count();
    CU_ASSERT_EQUAL(counts.requests, 3);
    /* Names in order, all with values: libcurl signs the query as it stands. */
    CU_ASSERT_STRING_EQUAL(
        counts.query, "continuation-token=%2F8&encoding-type=url&list-type=2&prefix=pre%2Fc%2F");
    store->destroy(store);
}

/* Keys are any bytes; a sample's path is text. */
TEST(keys_that_are_no_paths_are_passed_over)
{
    struct sluice_store *store = open_world();
    struct sluice_test_output output;
    unsigned num = 0;
    static const char *const keys[] = {"c/a+b %.jpg", "c/a&<.jpg", "c/x\by.jpg", "c/\xff.jpg"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(keys); i++)
        web_put(keys[i], "x", 1);
    sluice_test_capture_begin();
    CHECK_OK(store->list(store, "c/", count, &num, NULL));
    struct sluice_object object;
    CHECK_OK(store->describe(store, keys[0], &object, NULL));
    store->destroy(store); /* ends the web server's thread, whose input capturing would wait for */
    sluice_test_capture_end(&output);
    CU_ASSERT_EQUAL(num, 2);
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "2 objects are passed over"));
}

TEST(an_object_of_an_absurd_size_is_passed_over)
{
    struct sluice_store *store = open_world();
    static struct sluice_test_output output;
    unsigned num = 0;
    web_put("d/a.jpg", "x", 1);
    web_put("d/b.jpg", "x", 1);
    web_list_as_absurd("d/b.jpg");
    sluice_test_capture_begin();
    CHECK_OK(store->list(store, "d/", count, &num, NULL));
    web_list_as_absurd(NULL);
    store->destroy(store);
    sluice_test_capture_end(&output);
    CU_ASSERT_EQUAL(num, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "1 objects are passed over"));
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "d/b.jpg"));
}

TEST(a_list_that_goes_on_by_itself_is_refused)
{
    struct sluice_store *store = open_world();
    unsigned num = 0;
    for (unsigned i = 0; i < 11; i++) {
        char key[32];
        snprintf(key, sizeof(key), "c/%02u.jpg", i);
        web_put(key, "x", 1);
    }
    web_repeat_pages(true);
    CHECK_FAILS(SLUICE_E_CORRUPT, "continued by itself",
                store->list(store, "c/", count, &num, sluice_test_err()));
    web_repeat_pages(false);
    store->destroy(store);
}

/* As S3 answers a request of another region. */
TEST(the_region_of_a_bucket_is_named)
{
    struct sluice_store *store = open_world();
    unsigned num = 0;
    web_fail(301, "<Error><Code>PermanentRedirect</Code></Error>", 9);
    CHECK_FAILS(SLUICE_E_IO, "the bucket is in the region eu-test-9",
                store->list(store, "c/", count, &num, sluice_test_err()));
    store->destroy(store);
}

/* Once, and with one line in the log. */
TEST(the_region_of_a_bucket_is_followed)
{
    static const struct {
        unsigned code;
        const char *body;
    } cases[] = {
        {301, "<Error><Code>PermanentRedirect</Code></Error>"}, /* a header names it */
        {307, "<Error><Code>TemporaryRedirect</Code><Region>eu-test-9</Region></Error>"},
        {400, "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-test-9</Region></Error>"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sluice_test_output output;
        struct sluice_object object;
        struct sluice_err err = {0};
        unsigned num = 0;
        sluice_test_capture_begin();
        struct sluice_store *store = open_world();
        web_put("c/1.jpg", "x", 1);
        web_fail(cases[i].code, cases[i].body, 1);
        const sluice_status listed = store->list(store, "c/", count, &num, &err);
        const unsigned num_asked = web_count().requests;
        const sluice_status described = store->describe(store, "c/1.jpg", &object, NULL);
        const struct web_counts counts = web_count();
        /* Another one is not. */
        web_fail(400, "<Error><Region>eu-test-7</Region></Error>", 1);
        const sluice_status other = store->list(store, "c/", count, &num, &err);
        store->destroy(store);
        sluice_test_capture_end(&output);
        CHECK_OK(listed);
        CHECK_OK(described);
        CU_ASSERT_EQUAL(num, 1);
        CU_ASSERT_EQUAL(num_asked, 2);
        CU_ASSERT_EQUAL(counts.requests, 3);
        CU_ASSERT_PTR_NOT_NULL(strstr(counts.authorization, "/eu-test-9/s3/aws4_request"));
        CU_ASSERT_EQUAL(other, SLUICE_E_IO);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "the bucket is in the region eu-test-7"));
        const char *line = strstr(output.err, "set AWS_REGION=eu-test-9");
        CU_ASSERT_PTR_NOT_NULL_FATAL(line);
        CU_ASSERT_PTR_NULL(strstr(line + 1, "set AWS_REGION="));
    }
}

/* Of an object, too; and what is no region's name is not made a part of a host's. */
TEST(only_a_region_is_followed)
{
    struct sluice_store *store = open_world();
    struct sluice_object object;
    unsigned num = 0;
    web_put("c/1.jpg", "x", 1);
    web_fail(400, "<Error><Region>a.example/b</Region></Error>", 1);
    CHECK_FAILS(SLUICE_E_IO, "a.example/b",
                store->list(store, "c/", count, &num, sluice_test_err()));
    CU_ASSERT_EQUAL(web_count().requests, 1);
    web_fail(301, "", 1);
    CHECK_OK(store->describe(store, "c/1.jpg", &object, NULL));
    CU_ASSERT_EQUAL(web_count().requests, 3);
    CU_ASSERT_PTR_NOT_NULL(strstr(web_count().authorization, "/eu-test-9/s3/aws4_request"));
    store->destroy(store);
}

TEST(another_region_is_of_the_same_service)
{
    static const struct sluice_s3_places aws = {.region = "us-east-1"};
    static const struct {
        const char *endpoint, *url;
    } cases[] = {
        {NULL, "https://photos.s3.eu-west-3.amazonaws.com"},
        {"https://s3.amazonaws.com", "https://s3.eu-west-3.amazonaws.com/photos"},
        {"https://s3.us-west-2.amazonaws.com", "https://s3.eu-west-3.amazonaws.com/photos"},
        {"https://s3.dualstack.us-east-1.amazonaws.com",
         "https://s3.dualstack.eu-west-3.amazonaws.com/photos"},
        {"https://s3-fips.us-east-1.amazonaws.com",
         "https://s3-fips.eu-west-3.amazonaws.com/photos"},
        /* Hosts of others, some of them at AWS. */
        {"http://ceph:7480", "http://ceph:7480/photos"},
        {"https://s3.us-east-1.example.com", "https://s3.us-east-1.example.com/photos"},
        {"https://s3.a.us-east-1.elb.amazonaws.com",
         "https://s3.a.us-east-1.elb.amazonaws.com/photos"},
        {"http://ec2-1-2-3-4.us-east-1.compute.amazonaws.com:9000",
         "http://ec2-1-2-3-4.us-east-1.compute.amazonaws.com:9000/photos"},
        {"https://bucket.vpce-1a.s3.us-east-1.vpce.amazonaws.com",
         "https://bucket.vpce-1a.s3.us-east-1.vpce.amazonaws.com/photos"},
        {"https://s3.us-east-1.amazonaws.com.example.com",
         "https://s3.us-east-1.amazonaws.com.example.com/photos"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char url[SLUICE_STORE_URL_BYTES] = "";
        const struct sluice_store_options options = {.root = "s3://photos/a",
                                                     .s3_endpoint = cases[i].endpoint};
        CHECK_OK(sluice_s3_endpoint(&options, &aws, "eu-west-3", url, NULL));
        CU_ASSERT_STRING_EQUAL(url, cases[i].url);
    }
}

TEST(credentials_that_are_refused_are_looked_for_again)
{
    static const char expired[] =
        "<Error><Code>ExpiredToken</Code><Message>it has expired</Message></Error>";
    write_profile("AKOLD");
    struct sluice_store *store = open_world();
    struct sluice_object object;
    struct sluice_err err = {0};
    web_put("a.jpg", "x", 1);
    CHECK_OK(store->describe(store, "a.jpg", &object, NULL));
    /* The same as before: refused, and not asked with again. */
    web_fail(403, expired, 1);
    struct sluice_store_read read = {.key = "a.jpg", .bytes = 1, .version = object.version};
    struct sluice_buf *buf = NULL;
    CU_ASSERT_EQUAL(store->read(store, &read, &buf, &err), SLUICE_E_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "ExpiredToken: it has expired"));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "the profile default"));
    CU_ASSERT_PTR_NULL(strstr(err.text, "s/e+cret"));
    CU_ASSERT_PTR_NULL(strstr(err.text, "a/token"));
    /* Others. */
    write_profile("AKNEW");
    web_fail(403, expired, 1);
    CHECK_OK(store->read(store, &read, &buf, NULL));
    sluice_buf_unref(buf);
    CU_ASSERT_PTR_NOT_NULL(strstr(web_count().authorization, "Credential=AKNEW/"));
    store->destroy(store);
}

/* As stores do that tell what they would have signed. */
TEST(an_error_that_repeats_secrets_shows_none)
{
    static const char echo[] =
        "<Error><Code>AccessDenied</Code><Message>signed by s/e+cret of a/token+of==AKNEW and "
        "Signature=0123456789abcdef0123 or a%2Ftoken%2Bof%3D%3DAKNEW here</Message></Error>";
    struct sluice_store *store = open_world();
    struct sluice_buf *buf = NULL;
    const struct sluice_store_read read = {.key = "a.jpg", .bytes = 1, .version = -1};
    web_put("a.jpg", "x", 1);
    web_fail(403, echo, 1);
    CHECK_FAILS(SLUICE_E_IO, "signed by *** of *** and Signature=*** or *** here",
                store->read(store, &read, &buf, sluice_test_err()));
    store->destroy(store);
}

TEST(a_bucket_that_is_not_there_is_no_missing_object)
{
    struct sluice_store *store = open_world();
    unsigned num = 0;
    struct sluice_buf *buf = NULL;
    const struct sluice_store_read read = {.key = "a.jpg", .bytes = 1, .version = -1};
    static const char none[] = "<Error><Code>NoSuchBucket</Code><Message>none</Message></Error>";
    web_fail(404, none, 1);
    CHECK_FAILS(SLUICE_E_IO, "NoSuchBucket", store->read(store, &read, &buf, sluice_test_err()));
    web_fail(404, none, 1);
    CHECK_FAILS(SLUICE_E_IO,
                "s3://folder/pre: ", store->list(store, "", count, &num, sluice_test_err()));
    store->destroy(store);
}

TEST(endpoints_and_styles)
{
    static const struct sluice_s3_places aws = {.region = "eu-west-3"};
    static const struct {
        const char *root, *endpoint, *style, *url;
    } cases[] = {
        {"s3://photos/a", NULL, NULL, "https://photos.s3.eu-west-3.amazonaws.com"},
        {"s3://photos", NULL, "path", "https://s3.eu-west-3.amazonaws.com/photos"},
        {"s3://my.photos/a", NULL, NULL, "https://s3.eu-west-3.amazonaws.com/my.photos"},
        {"s3://photos/", "http://ceph:7480", NULL, "http://ceph:7480/photos"},
        {"s3://photos/", "http://ceph:7480/", "virtual", "http://photos.ceph:7480"},
        {"s3://photos/", "http://[::1]:9000", "path", "http://[::1]:9000/photos"},
        {"s3://photos/", "http://10.0.0.1", "virtual", NULL},
        {"s3://photos/", "http://ceph/path", NULL, NULL},
        {"s3://photos/", "http://key:secret@ceph", NULL, NULL},
        {"s3://photos/", "ceph:7480", NULL, NULL},
        {"s3:///a", NULL, NULL, NULL},
        {"s3://a@b.c/a", NULL, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char url[SLUICE_STORE_URL_BYTES] = "";
        struct sluice_err err = {0};
        const struct sluice_store_options options = {
            .root = cases[i].root, .s3_endpoint = cases[i].endpoint, .s3_style = cases[i].style};
        const sluice_status status = sluice_s3_endpoint(&options, &aws, NULL, url, &err);
        CU_ASSERT_EQUAL(status, cases[i].url ? SLUICE_OK : SLUICE_E_INVALID);
        if (cases[i].url)
            CU_ASSERT_STRING_EQUAL(url, cases[i].url);
        CU_ASSERT_PTR_NULL(strstr(err.text, "secret"));
    }
}

int main(void)
{
    port = web_open();
    snprintf(credentials_file, sizeof(credentials_file), "%s/credentials", sluice_test_dir());
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_WEB_IDENTITY_TOKEN_FILE");
    unsetenv("AWS_PROFILE");
    setenv("AWS_SHARED_CREDENTIALS_FILE", credentials_file, 1);
    setenv("AWS_CONFIG_FILE", "/no/such/file", 1);
    setenv("AWS_REGION", "eu-test-1", 1);
    write_profile("AKTEST");
    conformance_use(&world);
    return sluice_test_main();
}
