#include "compute_client/loader/choose/chooser.h"

#include "support/test.h"

TEST(a_fixed_chooser_goes_by_the_position_and_sets_no_bound)
{
    const struct sluice_choice choices[3] = {{.split = 0}, {.split = 3}, {.split = 5}};
    const struct sluice_chooser chooser = sluice_chooser_fixed(choices);
    for (uint32_t position = 0; position < 3; position++) {
        const struct sluice_sampler_item item = {.position = position, .draw_epoch = 7};
        const struct sluice_ask ask =
            chooser.choose(chooser.ctx, 2 - position, &item, &(struct sluice_expected){0});
        CU_ASSERT_EQUAL(ask.choice.split, choices[position].split);
        CU_ASSERT_EQUAL(ask.max_away, UINT32_MAX);
        CU_ASSERT_EQUAL(ask.max_unfinished, UINT32_MAX);
    }
    CU_ASSERT_PTR_NULL(chooser.on_row);
    CU_ASSERT_PTR_NULL(chooser.on_batch);
}
