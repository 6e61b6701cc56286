#include "crypto/secret.h"

#include "support/capture.h"
#include "support/test.h"

#include <unistd.h>

TEST(hashes_as_fips_180_4_says)
{
    uint8_t hash[SLUICE_SHA256_BYTES];
    char hex[65];
    sluice_sha256("abc", 3, hash);
    for (int i = 0; i < SLUICE_SHA256_BYTES; i++)
        snprintf(hex + 2 * (size_t)i, 3, "%02x", hash[i]);
    CU_ASSERT_STRING_EQUAL(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(compares_every_byte)
{
    uint8_t a[32] = {0}, b[32] = {0};
    CU_ASSERT(sluice_secret_equal(a, b, 32));
    for (int i = 0; i < 32; i++) {
        b[i] = 1;
        CU_ASSERT_FALSE(sluice_secret_equal(a, b, 32));
        b[i] = 0;
    }
}

/* The flags of the mapping that holds the address: "dd" is MADV_DONTDUMP. */
static bool is_kept_from_dumps(const void *address)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[512];
    bool is_here = false, is_kept = false;
    while (maps && fgets(line, sizeof(line), maps)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            is_here = (unsigned long)address >= from && (unsigned long)address < to;
        if (is_here && strncmp(line, "VmFlags:", 8) == 0)
            is_kept = strstr(line, " dd") != NULL;
    }
    if (maps)
        fclose(maps);
    return is_kept;
}

TEST(a_secret_lies_where_no_dump_shows_it)
{
    struct sluice_secret *secret = NULL;
    REQUIRE_OK(sluice_secret_create(5000, &secret, NULL));
    CU_ASSERT_EQUAL(secret->len, 5000);
    CU_ASSERT(is_kept_from_dumps(secret));
    CU_ASSERT(is_kept_from_dumps(secret->text + 5000));
    CU_ASSERT_EQUAL(secret->text[5000], '\0');
    sluice_secret_destroy(secret);
    sluice_secret_destroy(NULL);
}

static const char *file(const char *name, const char *text)
{
    static char path[4096];
    sluice_test_put_text(sluice_test_dir(), name, text);
    snprintf(path, sizeof(path), "%s/%s", sluice_test_dir(), name);
    return path;
}

TEST(reads_a_file_and_trims_a_token)
{
    struct sluice_secret *secret = NULL;
    REQUIRE_OK(sluice_secret_read(file("token", "abcdefgh-._~+/=0123 \r\n\n"), 100, &secret, NULL));
    CU_ASSERT_EQUAL(secret->len, 23);
    CHECK_OK(sluice_secret_trim_token(secret, NULL));
    CU_ASSERT_STRING_EQUAL(secret->text, "abcdefgh-._~+/=0123");
    CU_ASSERT_EQUAL(secret->len, 19);
    sluice_secret_destroy(secret);
}

TEST(errors_show_nothing_of_the_secret)
{
    static const char *const bad[] = {"tooshort", "", "sixteen letters, and others",
                                      "line-one-is-long-enough\nline-two"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(bad); i++) {
        struct sluice_secret *secret = NULL;
        struct sluice_err err = {0};
        REQUIRE_OK(sluice_secret_read(file("bad", bad[i]), 100, &secret, NULL));
        CU_ASSERT_EQUAL(sluice_secret_trim_token(secret, &err), SLUICE_E_INVALID);
        CU_ASSERT(err.text[0] && (!bad[i][0] || !strstr(err.text, bad[i])));
        sluice_secret_destroy(secret);
    }
    struct sluice_secret *none = NULL;
    struct sluice_err large = {0}, missing = {0};
    CU_ASSERT_EQUAL(sluice_secret_read(file("large", "0123456789"), 9, &none, &large),
                    SLUICE_E_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(large.text, "large"));
    CU_ASSERT_EQUAL(sluice_secret_read("/no/such/token", 9, &none, &missing), SLUICE_E_NOT_FOUND);
    CU_ASSERT_PTR_NOT_NULL(strstr(missing.text, "/no/such/token"));
    CU_ASSERT_PTR_NULL(none);
}

static int filter(void *ctx)
{
    (void)ctx;
    sluice_secret_keep_from_core_dumps();
    unsigned value = 1;
    FILE *in = fopen("/proc/self/coredump_filter", "r");
    const int num = in ? fscanf(in, "%x", &value) : 0;
    if (in)
        fclose(in);
    return num == 1 && value == 0 ? 0 : 1;
}

TEST(a_program_s_memory_stays_out_of_core_dumps)
{
    static struct sluice_test_output output;
    CU_ASSERT_EQUAL(sluice_test_child(filter, NULL, &output), 0);
}
