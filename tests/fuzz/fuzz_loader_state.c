/* A loader's state from any text: what is read is within its bounds, and what is written of it
 * reads back the same. */

#include "compute_client/loader/order/state.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    FUZZ_CHECK(text);
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    struct sluice_state state, again;
    struct sluice_err err = {{0}};
    const sluice_status status = sluice_state_read(text, &state, &err);
    free(text);
    if (status != SLUICE_OK) {
        FUZZ_CHECK(status == SLUICE_E_CORRUPT || status == SLUICE_E_UNSUPPORTED);
        FUZZ_CHECK(err.text[0]);
        return 0;
    }
    FUZZ_CHECK(!err.text[0]);
    FUZZ_CHECK(state.epoch <= UINT32_MAX && state.part <= SLUICE_VAL);
    FUZZ_CHECK(state.global_batch >= 1 && state.global_batch <= UINT32_MAX);
    FUZZ_CHECK(state.repeat >= 1 && state.num_samples >= 1);
    uint64_t total = state.repeat * state.num_samples;
    FUZZ_CHECK(total <= UINT32_MAX && total / state.repeat == state.num_samples);
    if (state.mix[0])
        total = state.num_items;
    FUZZ_CHECK(total >= 1 && total <= UINT32_MAX);
    FUZZ_CHECK(state.cursor <= (state.has_order ? UINT32_MAX : total));
    FUZZ_CHECK(state.has_order || state.num_buckets > 0 || state.cursor == total ||
               state.cursor % state.global_batch == 0);
    FUZZ_CHECK(strspn(state.dataset_id, "0123456789abcdef") == strlen(state.dataset_id));
    char written[SLUICE_MAX_STATE], rewritten[SLUICE_MAX_STATE];
    sluice_state_write(&state, written);
    FUZZ_CHECK(sluice_state_read(written, &again, NULL) == SLUICE_OK);
    sluice_state_write(&again, rewritten);
    FUZZ_CHECK(strcmp(written, rewritten) == 0);
    FUZZ_CHECK(sluice_state_check(&state, &again, 1, NULL) == SLUICE_OK);
    return 0;
}
