#include "base/redact.h"

#include "base/error.h"
#include "base/log.h"
#include "support/capture.h"
#include "support/test.h"

#define SECRET "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

static void expect(const char *given, const char *wanted)
{
    char text[400];
    snprintf(text, sizeof(text), "%s", given);
    sluice_redact(text);
    CU_ASSERT_STRING_EQUAL(text, wanted);
}

TEST(what_is_no_secret_stays)
{
    static const char *const texts[] = {
        "",
        "a token has 16 to 1024 characters",
        "https://host:443/a/b@c.jpg: gone",
        "signature=short token=file.txt",
        "the bearer of this",
        "%",
        "%4",
        "x://",
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(texts); i++)
        expect(texts[i], texts[i]);
}

TEST(a_url_shows_no_password)
{
    expect("http://me:pass@host/x: gone", "http://***@host/x: gone");
    expect("a https://u:p@h, s3://key@secret@h/x", "a https://***@h, s3://***@h/x");
}

TEST(what_is_marked_as_a_signature_or_token_is_hidden)
{
    expect("Authorization: AWS4-HMAC-SHA256 Credential=AKID/1, Signature=0123456789abcdef0123",
           "Authorization: AWS4-HMAC-SHA256 Credential=AKID/1, Signature=***");
    expect(
        "http://h/a?X-Amz-Security-Token=abcdefghijklmnop%2Fq&X-Amz-Signature=0123456789abcdef&b=c",
        "http://h/a?X-Amz-Security-Token=***&X-Amz-Signature=***&b=c");
    expect("h/a?sv=1&sig=abcdefghijklmnop%3D", "h/a?sv=1&sig=***");
    expect("authorization: Bearer abcdefghijklmnop, x", "authorization: Bearer ***, x");
    expect("x-amz-security-token: abcdefghijklmnop", "x-amz-security-token: ***");
}

TEST(a_secret_of_ours_is_hidden_however_it_is_repeated)
{
    expect("(" SECRET ")", "(" SECRET ")");
    sluice_redact_add(SECRET);
    sluice_redact_add(SECRET);
    sluice_redact_add("testing"); /* a word */
    expect("(" SECRET ") " SECRET, "(***) ***");
    expect("k=wJalrXUtnFEMI%2fK7MDENG%2BbPxRfiCYEXAMPLEKEY&x", "k=***&x");
    expect("cut: wJalrXUtnFEM", "cut: ***");
    expect("wJalrXUtnFE, testing", "wJalrXUtnFE, testing");
}

TEST(errors_and_the_log_show_no_secret)
{
    static struct sluice_test_output output;
    struct sluice_err err = {0};
    sluice_redact_add(SECRET);
    CU_ASSERT_EQUAL(sluice_fail(&err, SLUICE_E_IO, "the store says %s", SECRET), SLUICE_E_IO);
    CU_ASSERT_STRING_EQUAL(err.text, "the store says ***");
    sluice_test_capture_begin();
    sluice_log(SLUICE_LOG_WARN, "the store says %s", SECRET);
    sluice_test_capture_end(&output);
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "the store says ***\n"));
}

TEST(the_last_32_secrets_are_known)
{
    char secret[40], text[80];
    for (int i = 0; i < 32; i++) {
        snprintf(secret, sizeof(secret), "%02d-another-secret", i);
        sluice_redact_add(secret);
    }
    for (int i = 0; i < 32; i++) {
        snprintf(text, sizeof(text), "%02d-another-secret is there", i);
        sluice_redact(text);
        CU_ASSERT_STRING_EQUAL(text, "*** is there");
    }
}
