#include "rpc/peer.h"

#include "support/test.h"

static void check(const char *peer, const char *expected)
{
    char host[SLUICE_PEER_HOST];
    sluice_peer_host(peer, host);
    CU_ASSERT_STRING_EQUAL(host, expected);
}

TEST(ports_make_no_other_client)
{
    check("ipv4:10.0.0.1:4242", "10.0.0.1");
    check("ipv4:10.0.0.1:1", "10.0.0.1");
    check("ipv6:[::1]:4242", "::");
    check("ipv6:%5B::1%5D:4242", "::");
}

TEST(an_ipv6_client_is_its_network)
{
    check("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:80", "2001:db8:1:2::");
    check("ipv6:[2001:db8:1:2:ffff::7]:81", "2001:db8:1:2::");
    check("ipv6:[2001:db8:1:3::7]:81", "2001:db8:1:3::");
    check("ipv6:[fe80::1%eth0]:81", "fe80::");
}

TEST(an_ipv4_client_is_the_same_over_ipv6)
{
    check("ipv6:%5B::ffff:10.0.0.1%5D:4242", "10.0.0.1");
}

TEST(other_texts_stay_as_they_are)
{
    check("unix:/run/sluice", "unix:/run/sluice");
    check("", "");
    check("ipv4:", "ipv4:");
    check("ipv6:%5B%5D:", "ipv6:%5B%5D:");
    char longer[200];
    memset(longer, 'x', sizeof(longer));
    longer[199] = '\0';
    char host[SLUICE_PEER_HOST];
    sluice_peer_host(longer, host);
    CU_ASSERT_EQUAL(strlen(host), SLUICE_PEER_HOST - 1);
}

static void check_text(const char *peer, const char *expected)
{
    char text[SLUICE_PEER_TEXT];
    sluice_peer_text(peer, text);
    CU_ASSERT_STRING_EQUAL(text, expected);
}

TEST(people_read_an_address_and_a_port)
{
    check_text("ipv4:10.0.0.1:4242", "10.0.0.1:4242");
    check_text("ipv6:%5B::1%5D:4242", "[::1]:4242");
    check_text("ipv6:[2001:db8:1:2:3:4:5:6]:80", "[2001:db8:1:2:3:4:5:6]:80");
    check_text("ipv6:%5B::ffff:10.0.0.1%5D:4242", "10.0.0.1:4242");
    check_text("unix:/run/sluice", "unix:/run/sluice");
    check_text("ipv6:%5B%5D:", "ipv6:%5B%5D:");
    check_text("", "");
    char longer[200];
    memset(longer, 'x', sizeof(longer));
    longer[199] = '\0';
    char text[SLUICE_PEER_TEXT];
    sluice_peer_text(longer, text);
    CU_ASSERT_EQUAL(strlen(text), SLUICE_PEER_TEXT - 1);
    memcpy(longer, "ipv4:10.0.0.1:", 14); /* a port as long as that is none, but no harm */
    sluice_peer_text(longer, text);
    CU_ASSERT_EQUAL(strlen(text), SLUICE_PEER_TEXT - 1);
}

TEST(an_address_has_a_host_and_a_port)
{
    static const struct {
        const char *peer;
        uint8_t bytes[16];
    } cases[] = {
        {"ipv4:10.0.0.1:4242", {[10] = 0xff, 0xff, 10, 0, 0, 1}},
        {"ipv6:%5B::ffff:10.0.0.1%5D:4242", {[10] = 0xff, 0xff, 10, 0, 0, 1}},
        {"ipv6:%5B2001:db8:1:2:3:4:5:6%5D:4242", {0x20, 1, 0x0d, 0xb8, 0, 1, 0, 2}},
    };
    struct sluice_host host;
    uint16_t port;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        port = 0;
        CU_ASSERT(sluice_peer_find(cases[i].peer, &host, &port));
        CU_ASSERT_EQUAL(memcmp(host.bytes, cases[i].bytes, 16), 0);
        CU_ASSERT_EQUAL(port, 4242);
    }
    static const char *const others[] = {"unix:/run/sluice", "", "ipv4:10.0.0.1:65536",
                                         "ipv4:10.0.0.1:", "ipv4:10.0.0.1:x"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(others); i++)
        CU_ASSERT_FALSE(sluice_peer_find(others[i], &host, &port));
}
