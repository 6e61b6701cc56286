#include "train/schedule.h"

#include "support/test.h"

#include <math.h>

/* A rate of timm's, as far as the order of operations changes its last bits. */
static void check_rate(double got, double want, double lr)
{
    CU_ASSERT(fabs(got - want) <= 1e-15 * lr + 1e-14 * want);
}

/* tests/golden/make_lr_schedules.py */
TEST(rates_of_a_thousand_steps_are_timms)
{
    char path[1024], kind[16];
    snprintf(path, sizeof(path), "%s/tests/golden/lr_schedules.txt", sluice_test_source_dir());
    FILE *file = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    struct sluice_schedule s = {0};
    unsigned warmup_epochs, epochs, step_epochs, num_batches;
    unsigned num_cases = 0;
    while (fscanf(file, " case %15s %lf %u %lf %u %lf %u %lf %u", kind, &s.lr, &warmup_epochs,
                  &s.warmup_lr, &epochs, &s.min_lr, &step_epochs, &s.gamma, &num_batches) == 9) {
        CU_ASSERT_TRUE_FATAL(sluice_schedule_parse(kind, &s.kind));
        s.warmup_epochs = warmup_epochs;
        s.epochs = epochs;
        s.step_epochs = step_epochs;
        unsigned step = 0, count;
        double rate;
        while (fscanf(file, "%u %lf", &count, &rate) == 2) {
            for (const unsigned end = step + count; step < end; step++)
                check_rate(
                    sluice_schedule_lr(&s, step / num_batches, step % num_batches, num_batches),
                    rate, s.lr);
        }
        CU_ASSERT_EQUAL(step, 1000);
        num_cases++;
    }
    CU_ASSERT_EQUAL(num_cases, 4);
    CU_ASSERT(feof(file));
    fclose(file);
}

TEST(a_schedule_ends_at_its_least_rate)
{
    const struct sluice_schedule s = {
        .kind = SLUICE_SCHEDULE_COSINE, .lr = 1, .epochs = 4, .min_lr = 0.25};
    CU_ASSERT_EQUAL(sluice_schedule_lr(&s, 0, 0, 10), 1);
    CU_ASSERT_DOUBLE_EQUAL(sluice_schedule_lr(&s, 2, 0, 10), 0.625, 1e-15);
    CU_ASSERT(sluice_schedule_lr(&s, 3, 9, 10) > 0.25);
    CU_ASSERT_EQUAL(sluice_schedule_lr(&s, 4, 0, 10), 0.25);
    CU_ASSERT_EQUAL(sluice_schedule_lr(&s, 5, 7, 10), 0.25);
}

TEST(schedules_have_names)
{
    enum sluice_schedule_kind kind;
    CU_ASSERT_TRUE_FATAL(sluice_schedule_parse("constant", &kind));
    CU_ASSERT_EQUAL(kind, SLUICE_SCHEDULE_CONSTANT);
    CU_ASSERT_TRUE_FATAL(sluice_schedule_parse("step", &kind));
    CU_ASSERT_EQUAL(kind, SLUICE_SCHEDULE_STEP);
    CU_ASSERT_FALSE(sluice_schedule_parse("cosin", &kind));
    CU_ASSERT_FALSE(sluice_schedule_parse("", &kind));
}
