#include "train/schedule.h"

#include "base/compiler.h"

#include <math.h>
#include <string.h>

bool sluice_schedule_parse(const char *name, enum sluice_schedule_kind *kind)
{
    static const char *const names[] = {
        [SLUICE_SCHEDULE_CONSTANT] = "constant",
        [SLUICE_SCHEDULE_COSINE] = "cosine",
        [SLUICE_SCHEDULE_STEP] = "step",
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(names); i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        *kind = (enum sluice_schedule_kind)i;
        return true;
    }
    return false;
}

double sluice_schedule_lr(const struct sluice_schedule *schedule, uint64_t epoch, uint64_t batch,
                          uint64_t num_batches)
{
    static const double pi = 3.14159265358979323846;
    const struct sluice_schedule *s = schedule;
    const double t = (double)epoch + (batch ? (double)batch / (double)num_batches : 0);
    const uint64_t num_decays = s->step_epochs ? epoch / s->step_epochs : 0;
    if (epoch < s->warmup_epochs)
        return s->warmup_lr + (s->lr - s->warmup_lr) * t / (double)s->warmup_epochs;
    switch (s->kind) {
    case SLUICE_SCHEDULE_CONSTANT:
        break;
    case SLUICE_SCHEDULE_COSINE:
        if (epoch >= s->epochs)
            return s->min_lr;
        return s->min_lr + (s->lr - s->min_lr) * (1 + cos(pi * t / (double)s->epochs)) / 2;
    case SLUICE_SCHEDULE_STEP:
        return s->lr * pow(s->gamma, (double)num_decays);
    }
    return s->lr;
}
