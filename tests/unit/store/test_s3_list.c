#include "store/s3_list.h"

#include "support/test.h"

static char told[512];

static sluice_status tell(void *ctx, const struct sluice_s3_object *object, struct sluice_err *err)
{
    if (ctx)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "enough");
    snprintf(told + strlen(told), sizeof(told) - strlen(told), "%s|%llu|%s;", object->key,
             (unsigned long long)object->bytes, object->etag);
    return SLUICE_OK;
}

static sluice_status parse(const char *xml, void *ctx, struct sluice_s3_page *page,
                           struct sluice_err *err)
{
    told[0] = '\0';
    return sluice_s3_list_parse(xml, strlen(xml), tell, ctx, page, err);
}

#define LIST(inner)                                                                                \
    "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"x\">" inner "</ListBucketResult>"
#define OBJECT(key, size) "<Contents><Key>" key "</Key><Size>" size "</Size></Contents>"

TEST(tells_objects_in_their_order)
{
    struct sluice_s3_page page = {.is_truncated = true};
    CHECK_OK(parse(LIST("<Name>b</Name><Prefix>a</Prefix><IsTruncated>false</IsTruncated>"
                        "<Contents><ETag>&quot;ab-2&quot;</ETag><Size>12</Size><Key>b &amp; "
                        "&#xe4;&lt;</Key><Owner><ID>Key</ID></Owner></Contents>" OBJECT(
                            "a", "0") "<CommonPrefixes><Prefix>c/</Prefix></CommonPrefixes>"),
                   NULL, &page, NULL));
    CU_ASSERT_STRING_EQUAL(told, "b & \xc3\xa4<|12|\"ab-2\";a|0|;");
    CU_ASSERT(!page.is_truncated);
    CHECK_OK(parse(LIST(OBJECT("a", "99999999999999999999") OBJECT("b", "1")), NULL, &page, NULL));
    CU_ASSERT_STRING_EQUAL(told, "a|18446744073709551615|;b|1|;");
    CHECK_OK(parse(LIST("<IsTruncated>true</IsTruncated>"
                        "<NextContinuationToken>1/+=</NextContinuationToken>"),
                   NULL, &page, NULL));
    CU_ASSERT(page.is_truncated);
    CU_ASSERT_STRING_EQUAL(page.continuation, "1/+=");
}

/* As encoding-type=url asks for them: any bytes, of which XML has no word. */
TEST(keys_may_be_encoded_as_in_urls)
{
    struct sluice_s3_page page;
    CHECK_OK(parse(LIST(OBJECT("a%08+b%2Bc%25/%C3%A4", "7") "<EncodingType>url"
                                                            "</EncodingType>"),
                   NULL, &page, NULL));
    CU_ASSERT_STRING_EQUAL(told, "a\b b+c%/\xc3\xa4|7|;");
    CHECK_OK(parse(LIST(OBJECT("a%08+b", "7")), NULL, &page, NULL));
    CU_ASSERT_STRING_EQUAL(told, "a%08+b|7|;");
    static const char *const bad[] = {
        LIST("<EncodingType>url</EncodingType>" OBJECT("a%0", "1")),
        LIST("<EncodingType>url</EncodingType>" OBJECT("a%", "1")),
        LIST("<EncodingType>url</EncodingType>" OBJECT("a%zz", "1")),
        LIST("<EncodingType>url</EncodingType>" OBJECT("a%00b", "1")),
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(bad); i++)
        CU_ASSERT_EQUAL(parse(bad[i], NULL, &page, NULL), SLUICE_E_CORRUPT);
}

TEST(refuses_what_is_no_list)
{
    static const char *const bad[] = {
        "",
        "no xml",
        "<a/>",
        "<ListBucketResult>",
        LIST("<Contents><Key>a</Key></Contents>"),
        LIST("<Contents><Size>1</Size></Contents>"),
        LIST(OBJECT("", "1")),
        LIST(OBJECT("a", "-1")),
        LIST(OBJECT("a", "1x")),
        LIST("<IsTruncated>true</IsTruncated>"),
        LIST("<Contents>") "</Contents>",
        "<!DOCTYPE a [<!ENTITY b \"c\">]>" LIST(OBJECT("&b;", "1")),
        "<!DOCTYPE ListBucketResult SYSTEM \"file:///etc/passwd\"><ListBucketResult/>",
        LIST("<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a/></a></a></a></a></a>"
             "</a></a></a></a></a></a></a></a></a></a></a></a></a></a></a>"),
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sluice_s3_page page = {.is_truncated = true, .continuation = "as before"};
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(parse(bad[i], NULL, &page, &err), SLUICE_E_CORRUPT);
        CU_ASSERT(err.text[0] != '\0');
        CU_ASSERT_STRING_EQUAL(page.continuation, "as before");
    }
    /* A key longer than S3 has is none. */
    static char xml[4096];
    snprintf(xml, sizeof(xml), LIST(OBJECT("%01025d", "1")), 0);
    struct sluice_s3_page page;
    CU_ASSERT_EQUAL(parse(xml, NULL, &page, NULL), SLUICE_E_CORRUPT);
    snprintf(xml, sizeof(xml), LIST(OBJECT("%01024d", "1")), 0);
    CHECK_OK(sluice_s3_list_parse(xml, strlen(xml), tell, NULL, &page, NULL));
}

TEST(whoever_listens_may_end_it)
{
    struct sluice_s3_page page;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(parse(LIST(OBJECT("a", "1") OBJECT("b", "1")), told, &page, &err),
                    SLUICE_E_UNSUPPORTED);
    CU_ASSERT_STRING_EQUAL(err.text, "enough");
}

TEST(finds_fields_and_what_errors_say)
{
    char first[32] = "x", second[8] = "x", third[8] = "x";
    const struct sluice_s3_field fields[] = {
        {"A", first, sizeof(first)}, {"B", second, sizeof(second)}, {"C", third, sizeof(third)}};
    static const char xml[] = "<R><S><A>one</A></S><A>two</A><B>too long for it</B></R>";
    CHECK_OK(sluice_s3_fields_parse(xml, strlen(xml), fields, 3, NULL));
    CU_ASSERT_STRING_EQUAL(first, "one");
    CU_ASSERT_STRING_EQUAL(second, "");
    CU_ASSERT_STRING_EQUAL(third, "");
    CU_ASSERT_EQUAL(sluice_s3_fields_parse("<R>", 3, fields, 3, NULL), SLUICE_E_CORRUPT);
    char code[SLUICE_S3_CODE_BYTES], message[SLUICE_S3_MESSAGE_BYTES];
    sluice_s3_error_parse("<Error><Code>SlowDown</Code><Message>Reduce it.</Message><Req", code,
                          message);
    CU_ASSERT_STRING_EQUAL(code, "SlowDown");
    CU_ASSERT_STRING_EQUAL(message, "Reduce it.");
    sluice_s3_error_parse("<html>", code, message);
    CU_ASSERT_STRING_EQUAL(code, "");
}
