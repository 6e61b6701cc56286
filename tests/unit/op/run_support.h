#ifndef SLUICE_TESTS_RUN_SUPPORT_H
#define SLUICE_TESTS_RUN_SUPPORT_H

#include "op/pipeline_private.h"

#include "base/buf.h"

/* Pipelines, scratches and samples for the tests of running; what cannot be had ends a test. */

#define TRAIN "decode,random_resized_crop=24,hflip=0.5,to_tensor,normalize=imagenet"

struct sluice_pipeline *run_test_parse(const char *spec);
struct sluice_scratch *run_test_scratch(const struct sluice_scratch_options *options);

/* A file of random pixels. */
struct sluice_buf *run_test_file(uint32_t width, uint32_t height);

/* With a reference of its own. */
struct sluice_sample run_test_sample(struct sluice_buf *file, uint64_t id);

/* A sample at some split with `len` bytes, all zero. */
struct sluice_sample run_test_zeroes(unsigned ops_done, enum sluice_kind kind, uint32_t width,
                                     uint32_t height, size_t len);

/* The op `index` of a pipeline; and what it draws for an image of this size. */
const struct sluice_op *run_test_op(const struct sluice_pipeline *pipeline, unsigned index);
union sluice_drawn run_test_draw(const struct sluice_pipeline *pipeline, unsigned index,
                                 uint64_t sample_id, uint32_t width, uint32_t height);

#endif
