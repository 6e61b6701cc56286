#include "base/host_port.h"

#include "support/test.h"

#include <string.h>

static void takes_names_addresses_and_ports(void)
{
    static const struct {
        const char *text;
        int default_port;
        const char *host;
        unsigned port;
        const char *written;
    } cases[] = {
        {"storage:50051", -1, "storage", 50051, "storage:50051"},
        {"storage", 50051, "storage", 50051, "storage:50051"},
        {"10.0.0.1:0", -1, "10.0.0.1", 0, "10.0.0.1:0"},
        {"[::1]:65535", -1, "::1", 65535, "[::1]:65535"},
        {"[::1]", 7, "::1", 7, "[::1]:7"},
        {":50051", -1, "", 50051, "0.0.0.0:50051"},
        {"[::]:1", -1, "::", 1, "[::]:1"},
    };
    for (size_t i = 0; i < SLUICE_TEST_COUNT(cases); i++) {
        struct sluice_host_port address;
        char written[SLUICE_HOST_PORT_BYTES];
        CU_ASSERT_EQUAL_FATAL(
            sluice_host_port_parse(cases[i].text, cases[i].default_port, &address, NULL),
            SLUICE_OK);
        CU_ASSERT_STRING_EQUAL(address.host, cases[i].host);
        CU_ASSERT_EQUAL(address.port, cases[i].port);
        sluice_host_port_format(&address, "0.0.0.0", written);
        CU_ASSERT_STRING_EQUAL(written, cases[i].written);
    }
}

static void refuses_the_rest_and_says_why(void)
{
    static const struct {
        const char *text;
        int default_port;
        const char *why;
    } cases[] = {
        {"h:65536", -1, "0 to 65535"},  {"h:99999", 50051, "0 to 65535"},
        {"h:", 50051, "0 to 65535"},    {"h:-1", 50051, "0 to 65535"},
        {"h:1x", 50051, "0 to 65535"},  {"h:+1", 50051, "0 to 65535"},
        {"::1:50051", -1, "brackets"},  {"[::1", 50051, "']'"},
        {"[::1]x", 50051, "HOST:PORT"}, {"h", -1, "HOST:PORT"},
        {"", 50051, "HOST:PORT"},       {"", -1, "HOST:PORT"},
        {"a b:1", -1, "HOST:PORT"},     {"http://h:1", -1, "HOST:PORT"},
    };
    for (size_t i = 0; i < SLUICE_TEST_COUNT(cases); i++) {
        struct sluice_host_port address = {.port = 9};
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(
            sluice_host_port_parse(cases[i].text, cases[i].default_port, &address, &err),
            SLUICE_E_INVALID);
        CU_ASSERT_EQUAL(address.port, 9);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].why));
    }
    char name[400];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    struct sluice_host_port address;
    CU_ASSERT_EQUAL(sluice_host_port_parse(name, 1, &address, NULL), SLUICE_E_INVALID);
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(takes_names_addresses_and_ports),
        SLUICE_TEST(refuses_the_rest_and_says_why),
    };
    return sluice_test_run("host_port", tests, SLUICE_TEST_COUNT(tests));
}
