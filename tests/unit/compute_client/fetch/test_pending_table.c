#include "compute_client/fetch/pending_table.h"

#include "support/test.h"

#define NUM_ITEMS 8

static struct sluice_pending_table table;

static void fill(size_t count)
{
    REQUIRE_OK(sluice_pending_init(&table, NUM_ITEMS, NULL));
    for (size_t i = 0; i < count; i++) {
        const struct sluice_source_item item = {.ticket = i};
        sluice_pending_accept(&table, &item, 100 + i, 1);
    }
}

TEST(requests_are_sent_in_their_order_under_new_ids)
{
    fill(3);
    uint64_t ids[3];
    for (size_t i = 0; i < 3; i++) {
        struct sluice_pending *pending = sluice_pending_send(&table, 2);
        CU_ASSERT_EQUAL_FATAL(pending->item.ticket, i);
        ids[i] = pending->request_id;
        CU_ASSERT_PTR_EQUAL(sluice_pending_find(&table, ids[i]), pending);
    }
    CU_ASSERT_PTR_NULL(sluice_pending_send(&table, 2));
    CU_ASSERT_EQUAL(table.sent_bytes, 303);
    CU_ASSERT_EQUAL(table.most_bytes, 102);
    struct sluice_pending *second = sluice_pending_find(&table, ids[1]);
    CU_ASSERT_EQUAL(second->sent_ns, 2);
    sluice_pending_finish(&table, second);
    CU_ASSERT_PTR_NULL(sluice_pending_find(&table, ids[1]));
    CU_ASSERT_EQUAL(table.sent_bytes, 202);
    /* The row is the next request's, whose id is another. */
    sluice_pending_accept(&table, &(struct sluice_source_item){.ticket = 9}, 1, 3);
    CU_ASSERT_PTR_EQUAL(sluice_pending_send(&table, 4), second);
    CU_ASSERT_EQUAL(second->item.ticket, 9);
    CU_ASSERT_NOT_EQUAL(second->request_id, ids[1]);
    CU_ASSERT_PTR_NULL(sluice_pending_find(&table, ids[1]));
    CU_ASSERT_PTR_NULL(sluice_pending_find(&table, UINT64_MAX));
    sluice_pending_clear(&table);
}

TEST(late_is_what_was_passed_and_not_behind_others)
{
    fill(5);
    struct sluice_pending *sent[5];
    for (size_t i = 0; i < 5; i++)
        sent[i] = sluice_pending_send(&table, 2);
    /* 0 and 1 may both stand behind 3 and 4, and behind each other. */
    sluice_pending_pass(&table, sent[2], 7);
    sluice_pending_finish(&table, sent[2]);
    CU_ASSERT_TRUE(sent[0]->is_passed && sent[1]->is_passed && !sent[3]->is_passed);
    CU_ASSERT_EQUAL(sent[0]->late_at, 1 + 3);
    sluice_pending_pass(&table, sent[4], 8);
    sluice_pending_finish(&table, sent[4]);
    CU_ASSERT_EQUAL(sent[3]->late_at, 2 + 2);
    CU_ASSERT_EQUAL(sent[0]->late_ns, 0);
    sluice_pending_pass(&table, sent[3], 9);
    sluice_pending_finish(&table, sent[3]);
    CU_ASSERT_EQUAL(sent[0]->late_ns, 0); /* 1 may stand before it */
    /* One that is sent and answered after all that shows that neither was ready. */
    const struct sluice_source_item item = {.ticket = 7};
    sluice_pending_accept(&table, &item, 1, 1);
    struct sluice_pending *newer = sluice_pending_send(&table, 3);
    sluice_pending_pass(&table, newer, 10);
    sluice_pending_finish(&table, newer);
    CU_ASSERT_EQUAL(sent[0]->late_ns, 10);
    CU_ASSERT_EQUAL(sent[1]->late_ns, 10);
    CU_ASSERT_PTR_EQUAL(sluice_pending_oldest(&table), sent[0]);
    /* Asked for again it is the last, and nobody has passed it. */
    sluice_pending_finish(&table, sent[0]);
    sluice_pending_accept(&table, &item, 1, 10);
    CU_ASSERT_PTR_EQUAL(sluice_pending_send(&table, 10), sent[0]);
    CU_ASSERT_TRUE(!sent[0]->is_passed && sent[0]->late_ns == 0);
    CU_ASSERT_PTR_EQUAL(sluice_pending_oldest(&table), sent[1]);
    sluice_pending_clear(&table);
}

TEST(requests_are_taken_out)
{
    fill(5);
    for (size_t i = 0; i < 3; i++)
        CU_ASSERT_PTR_NOT_NULL_FATAL(sluice_pending_send(&table, 2));
    const uint64_t id = sluice_pending_oldest(&table)->request_id;
    CU_ASSERT_TRUE(sluice_pending_cancel(&table, 0)); /* sent */
    CU_ASSERT_TRUE(sluice_pending_cancel(&table, 3)); /* unsent */
    CU_ASSERT_FALSE(sluice_pending_cancel(&table, 3));
    CU_ASSERT_PTR_NULL(sluice_pending_find(&table, id)); /* a late reply matches none */
    CU_ASSERT_EQUAL(table.num_sent, 2);
    CU_ASSERT_EQUAL(table.sent_bytes, 203);
    static const uint64_t left[] = {1, 2, 4};
    for (size_t i = 0; i < 3; i++) {
        uint64_t ticket = 99;
        bool was_sent = i == 2;
        CU_ASSERT_TRUE(sluice_pending_take(&table, &ticket, &was_sent));
        CU_ASSERT_EQUAL(ticket, left[i]);
        CU_ASSERT_EQUAL(was_sent, i < 2);
    }
    uint64_t ticket = 99;
    bool was_sent = false;
    CU_ASSERT_FALSE(sluice_pending_take(&table, &ticket, &was_sent));
    CU_ASSERT_EQUAL(table.num_sent, 0);
    CU_ASSERT_FALSE(sluice_pending_has_unsent(&table));
    for (size_t i = 0; i < NUM_ITEMS; i++) /* all rows are free again */
        sluice_pending_accept(&table, &(struct sluice_source_item){.ticket = i}, 1, 1);
    sluice_pending_clear(&table);
}
