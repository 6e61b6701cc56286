#include "compute_client/options/connection.h"

#include "support/test.h"

static void check(const struct sluice_connection_options *options, const char *said)
{
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_connection_check(options, &err), said ? SLUICE_E_INVALID : SLUICE_OK);
    CU_ASSERT_STRING_EQUAL(err.text, said ? said : "");
}

TEST(options_exclude_and_need_each_other)
{
    check(&(struct sluice_connection_options){0}, NULL);
    check(&(struct sluice_connection_options){.token_file = "t"}, NULL);
    check(&(struct sluice_connection_options){.has_tls = true, .ca = "a", .cert = "c", .key = "k"},
          NULL);
    check(&(struct sluice_connection_options){.ca = "a"}, "--ca is for --tls, which is not given");
    check(&(struct sluice_connection_options){.server_name = "n"},
          "--server-name is for --tls, which is not given");
    check(&(struct sluice_connection_options){.has_tls = true, .cert = "c"},
          "--cert and --key go together");
    check(&(struct sluice_connection_options){.token_file = ""}, "--token-file: an empty name");
    check(&(struct sluice_connection_options){.has_tls = true, .ca = ""}, "--ca: an empty name");
}
