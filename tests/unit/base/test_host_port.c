#include "base/host_port.h"

#include "support/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

TEST(takes_names_addresses_and_ports)
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
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_host_port address;
        char written[SLUICE_HOST_PORT_BYTES];
        REQUIRE_OK(sluice_host_port_parse(cases[i].text, cases[i].default_port, &address, NULL));
        CU_ASSERT_STRING_EQUAL(address.host, cases[i].host);
        CU_ASSERT_EQUAL(address.port, cases[i].port);
        sluice_host_port_format(&address, "0.0.0.0", written);
        CU_ASSERT_STRING_EQUAL(written, cases[i].written);
    }
}

TEST(refuses_the_rest_and_says_why)
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
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
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

/* What it says of an address; "" if one can listen there. */
static const char *complaint(const char *host, unsigned port, struct sluice_err *err)
{
    struct sluice_host_port address = {.port = (uint16_t)port};
    strcpy(address.host, host);
    *err = (struct sluice_err){0};
    const sluice_status status = sluice_host_port_try_listen(&address, err);
    CU_ASSERT(status == SLUICE_OK || status == SLUICE_E_IO);
    CU_ASSERT_EQUAL(status == SLUICE_OK, err->text[0] == '\0');
    return err->text;
}

TEST(says_what_is_in_the_way_of_listening)
{
    struct sluice_err err;
    CU_ASSERT_STRING_EQUAL(complaint("127.0.0.1", 0, &err), "");
    CU_ASSERT_STRING_EQUAL(complaint("", 0, &err), "");
    CU_ASSERT_PTR_NOT_NULL(
        strstr(complaint("no-such-host.invalid", 7, &err),
               "cannot listen on no-such-host.invalid:7: the name no-such-host.invalid does not"));
    /* RFC 5737: for documentation, so of no machine. */
    CU_ASSERT_STRING_EQUAL(complaint("192.0.2.1", 7, &err),
                           "cannot listen on 192.0.2.1:7: 192.0.2.1 is no address of this machine");
}

TEST(says_that_another_program_has_the_port)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(own);
    CU_ASSERT_FATAL(fd >= 0 && bind(fd, (struct sockaddr *)&own, len) == 0 && listen(fd, 1) == 0);
    CU_ASSERT_FATAL(getsockname(fd, (struct sockaddr *)&own, &len) == 0);
    struct sluice_err err;
    CU_ASSERT_PTR_NOT_NULL(strstr(complaint("127.0.0.1", ntohs(own.sin_port), &err),
                                  "another program listens there already"));
    close(fd);
    CU_ASSERT_STRING_EQUAL(complaint("127.0.0.1", ntohs(own.sin_port), &err), "");
}

TEST(says_that_a_port_is_roots)
{
    FILE *file = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "re");
    unsigned first = 1024;
    if (file) {
        CU_ASSERT_EQUAL(fscanf(file, "%u", &first), 1);
        fclose(file);
    }
    struct sluice_err err;
    if (geteuid() != 0 && first > 1)
        CU_ASSERT_PTR_NOT_NULL(strstr(complaint("127.0.0.1", 1, &err), "may not take port 1 "));
}

TEST(knows_addresses_of_this_machine_alone)
{
    static const char *const alone[] = {"127.0.0.1:1", "127.1.2.3:1",      "localhost:1",
                                        "[::1]:1",     "unix:/run/sluice", "unix-abstract:x"};
    static const char *const others[] = {"0.0.0.0:1",   ":1",
                                         "[::]:1",      "storage:1",
                                         "10.0.0.1:1",  "127.evil.example:1",
                                         "127.0.0.1",   "localhost.example:1",
                                         "128.0.0.1:1", "[::ffff:10.0.0.1]:1"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(alone); i++)
        CU_ASSERT(sluice_is_loopback(alone[i]));
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(others); i++)
        CU_ASSERT_FALSE(sluice_is_loopback(others[i]));
}

static struct sluice_host host_of(const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return sluice_host_of((const struct sockaddr *)&v4);
    CU_ASSERT_EQUAL(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return sluice_host_of((const struct sockaddr *)&v6);
}

static bool are_one_host(const char *a, const char *b)
{
    const struct sluice_host first = host_of(a), second = host_of(b);
    return sluice_host_is_same(&first, &second);
}

TEST(a_host_is_an_ipv4_address_or_an_ipv6_network)
{
    CU_ASSERT(are_one_host("10.0.0.1", "::ffff:10.0.0.1"));
    CU_ASSERT_FALSE(are_one_host("10.0.0.1", "10.0.0.2"));
    CU_ASSERT_FALSE(are_one_host("::ffff:10.0.0.1", "::ffff:10.0.0.2"));
    CU_ASSERT(are_one_host("2001:db8::1", "2001:db8::2:3:4:5"));
    CU_ASSERT_FALSE(are_one_host("2001:db8::1", "2001:db8:0:1::1"));
    CU_ASSERT_FALSE(are_one_host("::1", "::2"));
}
