/* What is beside the conformance suite, which test_web.c and test_s3.c run over this. */
#include "store/store_remote.h"

#include "support/test.h"

TEST(versions_are_of_the_tag_within_its_quotes)
{
    const int64_t version = sluice_remote_version("\"abc\"");
    CU_ASSERT(version < 0);
    CU_ASSERT_EQUAL(sluice_remote_version("abc"), version);
    CU_ASSERT_EQUAL(sluice_remote_version("W/\"abc\""), version);
    CU_ASSERT_NOT_EQUAL(sluice_remote_version("\"abd\""), version);
    CU_ASSERT_NOT_EQUAL(sluice_remote_version("\"abc"), version);
    CU_ASSERT_EQUAL(sluice_remote_version(""), 0);
    CU_ASSERT_EQUAL(sluice_remote_version("\"\""), 0);
}

TEST(requests_that_are_not_signed_have_no_headers)
{
    static struct sluice_remote_request request = {.url = "http://h/a",
                                                   .is_signed = true,
                                                   .key_id = "k",
                                                   .secret = "s",
                                                   .scope = "aws:amz:r:s3",
                                                   .token_header = "x-amz-security-token: t"};
    struct sluice_http_transfer transfer = {.len = 7};
    struct sluice_http_signature signature;
    sluice_remote_fill(&request, &transfer, &signature);
    CU_ASSERT_PTR_EQUAL(transfer.signature, &signature);
    CU_ASSERT_STRING_EQUAL(signature.key_id, "k");
    CU_ASSERT_STRING_EQUAL(transfer.headers[0], "x-amz-content-sha256: UNSIGNED-PAYLOAD");
    CU_ASSERT_STRING_EQUAL(transfer.headers[1], "x-amz-security-token: t");
    request.is_signed = false;
    sluice_remote_fill(&request, &transfer, &signature);
    CU_ASSERT_PTR_NULL(transfer.signature);
    CU_ASSERT_PTR_NULL(transfer.headers[0]);
    CU_ASSERT_EQUAL(transfer.len, 7);
}
