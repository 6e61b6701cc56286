#include "storage_server/session/client_table.h"

#include "base/text.h"
#include "support/test.h"

static struct sluice_client_table table;
static struct sluice_client_row rows[CLIENT_TABLE_ROWS + 1];

static size_t join_number(unsigned number)
{
    char address[SLUICE_PEER_HOST];
    snprintf(address, sizeof(address), "10.0.0.%u", number);
    return sluice_client_table_join(&table, NULL, false, address);
}

/* NULL: none. */
static const struct sluice_client_row *find(const char *name)
{
    const size_t count = sluice_client_table_read(&table, rows);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    }
    return NULL;
}

static uint64_t sum_samples(void)
{
    uint64_t sum = 0;
    const size_t count = sluice_client_table_read(&table, rows);
    for (size_t i = 0; i < count; i++)
        sum += rows[i].samples;
    return sum;
}

TEST(counts_by_name_and_address)
{
    sluice_client_table_init(&table);
    CU_ASSERT_EQUAL(sluice_client_table_read(&table, rows), 0);
    const size_t a = sluice_client_table_join(&table, "a", false, "10.0.0.1");
    const size_t b = sluice_client_table_join(&table, "a", false, "10.0.0.2");
    const size_t c = sluice_client_table_join(&table, "", false, "10.0.0.2");
    CU_ASSERT(a != b && b != c && a != c);
    CU_ASSERT_EQUAL(sluice_client_table_join(&table, "a", false, "10.0.0.1"), a);
    CU_ASSERT_EQUAL(sluice_client_table_join(&table, "10.0.0.2", false, "10.0.0.2"), c);
    sluice_client_table_count(&table, a, 3, 300, 1);
    sluice_client_table_count(&table, a, 2, 50, 0);
    sluice_client_table_leave(&table, b);
    CU_ASSERT_EQUAL(sluice_client_table_read(&table, rows), 3);
    CU_ASSERT_EQUAL(rows[0].samples, 5);
    CU_ASSERT_EQUAL(rows[0].payload_bytes, 350);
    CU_ASSERT_EQUAL(rows[0].errors, 1);
    CU_ASSERT_EQUAL(rows[0].streams, 2);
    CU_ASSERT_EQUAL(rows[1].streams, 0);
    CU_ASSERT_STRING_EQUAL(rows[2].name, "10.0.0.2");
    CU_ASSERT_STRING_EQUAL(rows[2].address, "10.0.0.2");
    sluice_client_table_clear(&table);
}

TEST(the_least_recent_without_a_stream_makes_room)
{
    sluice_client_table_init(&table);
    for (unsigned i = 0; i < CLIENT_TABLE_ROWS; i++) {
        const size_t row = join_number(i);
        sluice_client_table_count(&table, row, 1 + i, 10, 0);
        if (i > 0) /* the first has a stream */
            sluice_client_table_leave(&table, row);
    }
    sluice_client_table_count(&table, join_number(1), 0, 0, 0); /* and the second came again */
    sluice_client_table_leave(&table, 1);
    CU_ASSERT_EQUAL(sluice_client_table_read(&table, rows), CLIENT_TABLE_ROWS);
    const uint64_t before = sum_samples();

    const size_t row = join_number(100);
    CU_ASSERT_PTR_NOT_NULL(find("10.0.0.0"));
    CU_ASSERT_PTR_NOT_NULL(find("10.0.0.1"));
    CU_ASSERT_PTR_NULL(find("10.0.0.2"));
    CU_ASSERT_PTR_NOT_NULL_FATAL(find("10.0.0.100"));
    CU_ASSERT_EQUAL(find("10.0.0.100")->samples, 0);
    CU_ASSERT_EQUAL(find(CLIENT_TABLE_OTHERS)->samples, 3);
    CU_ASSERT_EQUAL(find(CLIENT_TABLE_OTHERS)->payload_bytes, 10);
    CU_ASSERT_STRING_EQUAL(find(CLIENT_TABLE_OTHERS)->address, "");
    CU_ASSERT_EQUAL(sum_samples(), before);
    sluice_client_table_leave(&table, row);
    sluice_client_table_clear(&table);
}

TEST(who_comes_while_all_have_streams_is_one_of_the_others)
{
    sluice_client_table_init(&table);
    for (unsigned i = 0; i < CLIENT_TABLE_ROWS; i++)
        join_number(i);
    const size_t first = join_number(100), second = join_number(101);
    CU_ASSERT_EQUAL(first, second);
    sluice_client_table_count(&table, first, 7, 70, 0);
    CU_ASSERT_EQUAL(sluice_client_table_read(&table, rows), CLIENT_TABLE_ROWS + 1);
    CU_ASSERT_EQUAL(find(CLIENT_TABLE_OTHERS)->samples, 7);
    CU_ASSERT_EQUAL(find(CLIENT_TABLE_OTHERS)->streams, 2);
    sluice_client_table_clear(&table);
}

TEST(a_client_called_other_is_not_the_others)
{
    sluice_client_table_init(&table);
    const size_t row = sluice_client_table_join(&table, CLIENT_TABLE_OTHERS, false, "10.0.0.1");
    CU_ASSERT(row < CLIENT_TABLE_ROWS);
    CU_ASSERT_EQUAL(sluice_client_table_read(&table, rows), 1);
    CU_ASSERT_STRING_EQUAL(rows[0].address, "10.0.0.1");
    sluice_client_table_clear(&table);
}

TEST(names_become_valid_and_are_cut_and_no_two_rows_are_alike)
{
    sluice_client_table_init(&table);
    const size_t a = sluice_client_table_join(&table, "n\xff", false, "10.0.0.1");
    CU_ASSERT_EQUAL(sluice_client_table_join(&table, "n\xfe", false, "10.0.0.1"), a);
    CU_ASSERT_EQUAL(sluice_client_table_join(&table, "n\xef\xbf\xbd", false, "10.0.0.1"), a);
    char longer[3 * CLIENT_TABLE_NAME] = "";
    memset(longer, 'x', sizeof(longer) - 1);
    const size_t b = sluice_client_table_join(&table, longer, false, "10.0.0.1");
    longer[sizeof(longer) - 2] = 'y';
    CU_ASSERT_EQUAL(sluice_client_table_join(&table, longer, false, "10.0.0.1"), b);
    const size_t count = sluice_client_table_read(&table, rows);
    CU_ASSERT_EQUAL(count, 2);
    for (size_t i = 0; i < count; i++)
        CU_ASSERT(sluice_is_utf8(rows[i].name) && strlen(rows[i].name) < CLIENT_TABLE_NAME);
    sluice_client_table_clear(&table);
}

TEST(a_row_says_whether_its_name_is_a_tokens)
{
    sluice_client_table_init(&table);
    const size_t a = sluice_client_table_join(&table, "team", true, "10.0.0.1");
    const size_t b = sluice_client_table_join(&table, "mine", false, "10.0.0.1");
    CU_ASSERT_NOT_EQUAL(a, b);
    CU_ASSERT_EQUAL(sluice_client_table_join(&table, "team", true, "10.0.0.1"), a);
    struct sluice_client_row read[CLIENT_TABLE_ROWS + 1];
    CU_ASSERT_EQUAL_FATAL(sluice_client_table_read(&table, read), 2);
    CU_ASSERT_TRUE(read[0].has_token);
    CU_ASSERT_FALSE(read[1].has_token);
    sluice_client_table_clear(&table);
}
