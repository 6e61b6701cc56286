#ifndef SLUICE_BENCH_BENCH_TRAIN_PARTS_H
#define SLUICE_BENCH_BENCH_TRAIN_PARTS_H

#include <stdbool.h>

/* bench_train --parts: times the CUDA trainer's kernels at the models' shapes, beside copies of as
 * many bytes.  Exits if there is no GPU. */
void bench_train_parts(bool is_json);

#endif
