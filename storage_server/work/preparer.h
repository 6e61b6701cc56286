#ifndef SLUICE_STORAGE_SERVER_WORK_PREPARER_H
#define SLUICE_STORAGE_SERVER_WORK_PREPARER_H

#include "base/error.h"
#include "op/pipeline.h"
#include "storage_server/isolation/decoders.h"

#include <stdint.h>

/* Runs ops for one worker of PREP: with scratch memory of its thread, or (--isolate-decoders) in a
 * decoder process, so that the server itself never parses an image.  The scratch memory is then
 * used only to turn finished pixels into floats.
 *
 * Threads: a preparer belongs to one thread. */

struct sluice_preparer;

struct sluice_preparer_options {
    uint64_t max_image_pixels;
    struct sluice_buf_pool *buffers;  /* borrowed */
    struct sluice_decoders *decoders; /* borrowed; NULL: decodes here, and the rest is not used */
    struct sluice_decoder_limits limits;
    uint64_t timeout_ns;
    struct sluice_prep_limits *worker; /* borrowed; the worker's */
};

SLUICE_MUST_USE sluice_status sluice_preparer_create(const struct sluice_preparer_options *options,
                                                     struct sluice_preparer **preparer,
                                                     struct sluice_err *err);
void sluice_preparer_destroy(struct sluice_preparer *preparer); /* NULL is allowed */

/* Does the work on a sample, which is a file at split 0.  Returns the statuses of pipeline.h and,
 * with a decoder, those of decoders.h. */
SLUICE_MUST_USE sluice_status sluice_preparer_run(struct sluice_preparer *preparer,
                                                  const struct sluice_pipeline *pipeline,
                                                  struct sluice_decoder_work *work,
                                                  struct sluice_sample *sample,
                                                  struct sluice_err *err);

#endif
