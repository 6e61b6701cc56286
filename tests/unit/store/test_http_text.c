#include "store/http_text.h"

#include "support/test.h"

TEST(values_of_headers_are_without_their_blanks)
{
    char value[8];
    static const char line[] = "eTag: \t \"ab\" \r\n", long_one[] = "ETag: 12345678\r\n",
                      zero[] = "ETag: a\0b\r\n";
    CU_ASSERT(sluice_http_header_value(line, sizeof(line) - 1, "ETag", value, sizeof(value)));
    CU_ASSERT_STRING_EQUAL(value, "\"ab\"");
    CU_ASSERT(!sluice_http_header_value(line, sizeof(line) - 1, "ETa", value, sizeof(value)));
    CU_ASSERT(!sluice_http_header_value(line, 4, "ETag", value, sizeof(value)));
    CU_ASSERT(!sluice_http_header_value(long_one, sizeof(long_one) - 1, "ETag", value, 8));
    CU_ASSERT(!sluice_http_header_value(zero, sizeof(zero) - 1, "ETag", value, 8));
    CU_ASSERT(sluice_http_header_value("ETag:", 5, "ETag", value, 8) && value[0] == '\0');
}

TEST(encodes_all_but_the_unreserved)
{
    char out[64];
    CU_ASSERT(sluice_http_encode("aZ9-_.~/ +%\xc3\xa4?&=", true, out, sizeof(out)));
    CU_ASSERT_STRING_EQUAL(out, "aZ9-_.~/%20%2B%25%C3%A4%3F%26%3D");
    CU_ASSERT(sluice_http_encode("a/b", false, out, sizeof(out)));
    CU_ASSERT_STRING_EQUAL(out, "a%2Fb");
    CU_ASSERT(sluice_http_encode("", true, out, 1));
    CU_ASSERT(!sluice_http_encode("ab", true, out, 2));
    CU_ASSERT(!sluice_http_encode(" ", true, out, 3));
    CU_ASSERT(sluice_http_encode(" ", true, out, 4));
}

TEST(parses_addresses_and_refuses_passwords)
{
    struct sluice_http_address a;
    CHECK_OK(sluice_http_parse_address("http://host/a", &a, NULL));
    CU_ASSERT(!a.is_tls && a.port == 80 && a.is_name && strcmp(a.host, "host") == 0);
    CHECK_OK(sluice_http_parse_address("https://[::1]/", &a, NULL));
    CU_ASSERT(a.is_tls && a.port == 443 && !a.is_name && strcmp(a.host, "::1") == 0);
    CHECK_OK(sluice_http_parse_address("https://10.1.2.3:9000", &a, NULL));
    CU_ASSERT(a.port == 9000 && !a.is_name);
    static const char *const bad[] = {
        "", "host", "ftp://host", "http://", "http://u:secret@h/", "http://h:x/", "http://h:0/"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(sluice_http_parse_address(bad[i], &a, &err), SLUICE_E_INVALID);
        CU_ASSERT_PTR_NULL(strstr(err.text, "secret"));
    }
}
