#include "compute_client/fetch/host_text.h"

#include "support/test.h"

/* The items as one text: shard numbers, then what they are called. */
static void show(const struct sluice_host_items *items, char *out, size_t room)
{
    out[0] = '\0';
    for (size_t i = 0; i < items->num; i++) {
        char item[SLUICE_HOST_ITEM_BYTES];
        sluice_host_item_format(&items->at[i], item);
        const size_t len = strlen(out);
        snprintf(out + len, room - len, "%s%u %s", i ? "; " : "", items->at[i].shard, item);
    }
}

TEST(commas_part_replicas_and_texts_shards)
{
    static const struct {
        const char *texts[3];
        const char *want, *target;
    } cases[] = {
        {{"a"}, "0 a:50051", "a:50051"},
        {{"a:1"}, "0 a:1", "a:1"},
        {{":1"}, "0 127.0.0.1:1", "127.0.0.1:1"},
        {{"a,b:2"}, "0 a:50051; 0 b:2", "a:50051 and 1 more"},
        {{"a", "b"}, "0 a:50051; 1 b:50051", "a:50051 and 1 more"},
        {{"a1,a2", "b1,b2", "[::1]:7"},
         "0 a1:50051; 0 a2:50051; 1 b1:50051; 1 b2:50051; 2 [::1]:7",
         "a1:50051 and 4 more"},
        {{"dns:name"}, "0 dns:name:50051", "dns:name:50051"},
        {{"dns:name:9,a", "dns:other"},
         "0 dns:name:9; 0 a:50051; 1 dns:other:50051",
         "dns:name:9 and 2 more"},
        {{"a:1,a:2"}, "0 a:1; 0 a:2", "a:1 and 1 more"},
        {{"dns"}, "0 dns:50051", "dns:50051"}, /* a host of that name */
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        size_t num_texts = 0;
        while (num_texts < 3 && cases[i].texts[num_texts])
            num_texts++;
        struct sluice_host_items items = {0};
        char text[400], target[SLUICE_HOST_ITEMS_BYTES];
        REQUIRE_OK(sluice_host_items_parse(cases[i].texts, num_texts, &items, NULL));
        show(&items, text, sizeof(text));
        CU_ASSERT_STRING_EQUAL(text, cases[i].want);
        sluice_host_items_format(&items, target);
        CU_ASSERT_STRING_EQUAL(target, cases[i].target);
        sluice_host_items_clear(&items);
        sluice_host_items_clear(&items);
    }
}

TEST(what_cannot_be_read_is_named)
{
    static const struct {
        const char *texts[2];
        const char *word;
    } cases[] = {
        {{""}, "'' is no HOST:PORT"},
        {{"a,,b"}, "'a,,b': a name is missing"},
        {{",a"}, "',a': a name is missing"},
        {{"a,"}, "'a,': a name is missing"},
        {{"a", ""}, "'': a name is missing"},
        {{"a,b:x"}, "'b:x': the port"},
        {{"a,b:0"}, "'b:0': no server is at port 0"},
        {{"a, b"}, "' b' is no HOST:PORT"},
        {{"dns:"}, "'' is no HOST:PORT"},
        {{"dns::7"}, "'dns::7': no name stands after dns:"},
        {{"a,b,a"}, "'a' is given twice"},
        {{"a", "b,a:50051"}, "'a:50051' is given twice"},
        {{"http://a"}, "'http://a' is no HOST:PORT"},
        {{"::1"}, "brackets"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_host_items items = {0};
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(
            sluice_host_items_parse(cases[i].texts, cases[i].texts[1] ? 2 : 1, &items, &err),
            SLUICE_E_INVALID);
        if (!strstr(err.text, cases[i].word))
            CU_FAIL_FATAL(err.text);
        CU_ASSERT_PTR_NULL(items.at);
    }
}

TEST(there_is_an_end_to_servers)
{
    char text[SLUICE_MAX_SERVERS * 8 + 8] = "";
    for (int i = 0; i <= SLUICE_MAX_SERVERS; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%sh%d", i ? "," : "", i);
    const char *texts[] = {text};
    struct sluice_host_items items = {0};
    CHECK_FAILS(SLUICE_E_INVALID, "more than 256 servers",
                sluice_host_items_parse(texts, 1, &items, sluice_test_err()));
    *strrchr(text, ',') = '\0';
    CHECK_OK(sluice_host_items_parse(texts, 1, &items, NULL));
    CU_ASSERT_EQUAL(items.num, SLUICE_MAX_SERVERS);
    sluice_host_items_clear(&items);
}
