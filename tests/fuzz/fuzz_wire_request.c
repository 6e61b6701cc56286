#include "fuzz_wire.h"

#include "wire/wire.h"

#include <math.h>

/* Everything that a server reads from a client: one input goes to all of them. */

static void fetch(const struct sluice_message *message)
{
    struct sluice_wire_fetch_request got, again;
    if (sluice_wire_get_fetch_request(message, &got, NULL) != SLUICE_OK)
        return;
    struct sluice_message put = {0};
    FUZZ_CHECK(sluice_wire_put_fetch_request(&got, &put, NULL) == SLUICE_OK);
    FUZZ_CHECK(sluice_wire_get_fetch_request(&put, &again, NULL) == SLUICE_OK);
    FUZZ_CHECK(again.num_samples == got.num_samples);
    FUZZ_CHECK(again.grant_bytes == got.grant_bytes);
    FUZZ_CHECK(got.cpu_worth >= 0 && isfinite(got.cpu_worth));
    FUZZ_CHECK(again.cpu_worth == got.cpu_worth);
    FUZZ_CHECK(again.open.is_present == got.open.is_present);
    for (size_t i = 0; i < got.num_samples; i++) {
        FUZZ_CHECK(got.samples[i].form < SLUICE_NUM_FORMS);
        FUZZ_CHECK(again.samples[i].key.sample_id == got.samples[i].key.sample_id);
        FUZZ_CHECK(again.samples[i].listed_id == got.samples[i].listed_id);
        FUZZ_CHECK(again.samples[i].split == got.samples[i].split);
        FUZZ_CHECK(again.samples[i].jpeg_crop_restart == got.samples[i].jpeg_crop_restart);
    }
    sluice_wire_fetch_request_clear(&got);
    sluice_wire_fetch_request_clear(&again);
    sluice_message_clear(&put);
}

static void hello(const struct sluice_message *message)
{
    struct sluice_wire_hello got, again;
    if (sluice_wire_get_hello_request(message, &got, NULL) != SLUICE_OK)
        return;
    struct sluice_message put = {0};
    FUZZ_CHECK(sluice_wire_put_hello_request(&got, &put, NULL) == SLUICE_OK);
    FUZZ_CHECK(sluice_wire_get_hello_request(&put, &again, NULL) == SLUICE_OK);
    FUZZ_CHECK(strcmp(again.pipeline, got.pipeline) == 0);
    FUZZ_CHECK(strcmp(again.dataset_id, got.dataset_id) == 0);
    sluice_wire_hello_clear(&got);
    sluice_wire_hello_clear(&again);
    sluice_message_clear(&put);
}

static void others(const struct sluice_message *message)
{
    char *text = NULL;
    if (sluice_wire_get_list_request(message, &text, &(uint64_t){0}, &(bool){0}, NULL) == SLUICE_OK)
        free(text);
    if (sluice_wire_get_health_request(message, &text, NULL) == SLUICE_OK)
        free(text);
    struct sluice_wire_sizes_request sizes;
    (void)!sluice_wire_get_sizes_request(message, &sizes, NULL);
    struct sluice_wire_data_request request;
    if (sluice_wire_get_data_request(message, &request, NULL) == SLUICE_OK)
        sluice_wire_data_request_clear(&request);
    uint64_t bytes = 0;
    uint32_t message_bytes = 0;
    const sluice_status status =
        sluice_wire_get_probe_request(message, &bytes, &message_bytes, NULL);
    FUZZ_CHECK(status == SLUICE_OK || status == SLUICE_E_CORRUPT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sluice_message message = fuzz_message(data, size);
    fetch(&message);
    hello(&message);
    others(&message);
    sluice_message_clear(&message);
    return 0;
}
