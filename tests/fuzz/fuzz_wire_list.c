#include "fuzz_wire.h"

#include "base/text.h"
#include "wire/wire.h"

#include <stdlib.h>

/* The other replies that a client reads: lists, sizes, hellos and stats. */

static void list(const struct sluice_message *message)
{
    struct sluice_wire_list got, again;
    if (sluice_wire_get_list_reply(message, &got, NULL) != SLUICE_OK)
        return;
    struct sluice_message put = {0};
    FUZZ_CHECK(sluice_wire_put_list_reply(&got, &put, NULL) == SLUICE_OK);
    FUZZ_CHECK(sluice_wire_get_list_reply(&put, &again, NULL) == SLUICE_OK);
    FUZZ_CHECK(again.num_classes == got.num_classes);
    FUZZ_CHECK(again.has_hash == got.has_hash);
    FUZZ_CHECK(again.target_kind == got.target_kind && again.target_bytes == got.target_bytes);
    FUZZ_CHECK(again.packed.has_targets == got.packed.has_targets || !got.packed.num_rows);
    FUZZ_CHECK(again.num_samples_here == got.num_samples_here);
    for (size_t i = 0; i < got.num_samples_here; i++) {
        FUZZ_CHECK(got.samples[i].path[0] != 0);
        FUZZ_CHECK(again.samples[i].label == got.samples[i].label);
        FUZZ_CHECK(memcmp(again.samples[i].hash, got.samples[i].hash, 16) == 0);
    }
    sluice_wire_list_clear(&got);
    sluice_wire_list_clear(&again);
    sluice_message_clear(&put);
}

static void others(const struct sluice_message *message)
{
    struct sluice_wire_hello hello;
    if (sluice_wire_get_hello_reply(message, &hello, NULL) == SLUICE_OK) {
        FUZZ_CHECK(hello.forms < 1u << SLUICE_NUM_FORMS);
        sluice_wire_hello_clear(&hello);
    }
    struct sluice_wire_image_size *sizes;
    size_t num;
    if (sluice_wire_get_sizes_reply(message, &sizes, &num, NULL) == SLUICE_OK) {
        FUZZ_CHECK(num <= SLUICE_WIRE_MAX_SIZES);
        for (size_t i = 0; i < num; i++)
            FUZZ_CHECK(sizes[i].orientation >= 1 && sizes[i].orientation <= 8);
        free(sizes);
    }
    struct sluice_wire_stats stats;
    const sluice_status status = sluice_wire_get_stats_reply(message, &stats, NULL);
    FUZZ_CHECK(status == SLUICE_OK || status == SLUICE_E_CORRUPT);
    if (status != SLUICE_OK)
        return;
    FUZZ_CHECK(stats.num_clients <= SLUICE_WIRE_MAX_CLIENTS);
    for (size_t i = 0; i < stats.num_clients; i++)
        FUZZ_CHECK(sluice_is_utf8(stats.clients[i].name) && sluice_is_utf8(stats.clients[i].token));
    sluice_wire_stats_clear(&stats);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sluice_message message = fuzz_message(data, size);
    list(&message);
    others(&message);
    sluice_message_clear(&message);
    return 0;
}
