#include "fuzz_wire.h"

#include "wire/wire.h"

#include <math.h>

#define MAX_PAYLOAD 4096

struct last {
    struct sluice_wire_sample_reply reply;
    unsigned count;
};

/* With the payload as one that can be put. */
static struct sluice_wire_sample_reply gathered(const struct sluice_wire_sample_reply *reply)
{
    struct sluice_wire_sample_reply kept = *reply;
    const size_t len = sluice_cursor_left(&kept.arrived);
    FUZZ_CHECK(reply->status == SLUICE_OK || len == 0);
    if (reply->status == SLUICE_OK)
        FUZZ_CHECK(sluice_cursor_gather(&kept.arrived, len, NULL, &kept.payload, NULL) ==
                   SLUICE_OK);
    return kept;
}

static void keep(void *ctx, const struct sluice_wire_sample_reply *reply)
{
    struct last *last = ctx;
    sluice_wire_sample_reply_clear(&last->reply);
    last->reply = gathered(reply);
    last->count++;
}

/* Whatever was read can be put, and is read again as the same. */
static void check(void *ctx, const struct sluice_wire_sample_reply *got)
{
    ++*(unsigned *)ctx;
    (void)sluice_wire_sample_reply_is_whole(got, &(struct sluice_draw_key){.seed = 1}, 0);
    struct sluice_wire_sample_reply kept = gathered(got);
    const struct sluice_wire_sample_reply *reply = &kept;
    FUZZ_CHECK(!reply->payload || reply->payload->len <= MAX_PAYLOAD);
    FUZZ_CHECK(reply->form < SLUICE_NUM_FORMS);
    FUZZ_CHECK(memchr(reply->error, 0, sizeof(reply->error)) != NULL);

    struct sluice_message message = {0};
    struct last last = {0};
    FUZZ_CHECK(sluice_wire_put_sample_reply(reply, &message, NULL) == SLUICE_OK);
    FUZZ_CHECK(sluice_wire_get_fetch_reply(&message, MAX_PAYLOAD, keep, &last, NULL, NULL) ==
               SLUICE_OK);
    FUZZ_CHECK(last.count == 1);
    FUZZ_CHECK(last.reply.request_id == reply->request_id);
    FUZZ_CHECK(last.reply.status == reply->status);
    FUZZ_CHECK(last.reply.form == reply->form);
    FUZZ_CHECK(last.reply.ops_done == reply->ops_done);
    FUZZ_CHECK(strcmp(last.reply.error, reply->error) == 0);
    FUZZ_CHECK(!reply->payload ||
               (last.reply.payload->len == reply->payload->len &&
                memcmp(last.reply.payload->data, reply->payload->data, reply->payload->len) == 0));
    sluice_wire_sample_reply_clear(&last.reply);
    sluice_wire_sample_reply_clear(&kept);
    sluice_message_clear(&message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sluice_message message = fuzz_message(data, size);
    unsigned count = 0;
    (void)sluice_wire_fetch_reply_is_whole(&message);
    struct sluice_wire_load load = {0};
    struct sluice_err err = {0};
    const sluice_status status =
        sluice_wire_get_fetch_reply(&message, MAX_PAYLOAD, check, &count, &load, &err);
    FUZZ_CHECK(status == SLUICE_OK || status == SLUICE_E_CORRUPT);
    FUZZ_CHECK(load.cpu_price >= 0 && isfinite(load.cpu_price));
    FUZZ_CHECK((status == SLUICE_OK) == (err.text[0] == 0));
    sluice_message_clear(&message);
    return 0;
}
