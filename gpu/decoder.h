#ifndef SLUICE_GPU_DECODER_H
#define SLUICE_GPU_DECODER_H

#include "gpu/batch.h"

/* Decodes batches of JPEG files on a CUDA device, to the very pixels of the CPU's decoder.
 *
 *     sluice_gpu_decoder_create(&limits, NULL, &decoder, &err);
 *     struct sluice_gpu_batch *batch = sluice_gpu_decoder_batch(decoder);
 *     for each sample: sluice_gpu_batch_add(batch, file, len, index, &request, &err);
 *     sluice_gpu_decoder_start(decoder, rows, stream, &err);       returns at once
 *     sluice_gpu_decoder_wait(decoder, statuses, &err);            empties the batch
 *
 * All memory is allocated by create.  To make one batch ready while another is decoded, use two
 * decoders.
 *
 * Threads: one at a time for each decoder; the device that is current at create must be current in
 * all calls. */

struct sluice_gpu_decoder;

/* `upload`: page-locked memory for the batch to begin with, borrowed; it may be given other memory
 * between wait and start (sluice_gpu_batch_use()).  NULL: the decoder's own.
 * SLUICE_E_INVALID: as sluice_gpu_limits_check(); SLUICE_E_NO_MEMORY, on either side;
 * SLUICE_E_UNSUPPORTED: no device that can be used. */
SLUICE_MUST_USE sluice_status sluice_gpu_decoder_create(const struct sluice_gpu_limits *limits,
                                                        void *upload,
                                                        struct sluice_gpu_decoder **decoder,
                                                        struct sluice_err *err);
void sluice_gpu_decoder_destroy(struct sluice_gpu_decoder *decoder); /* waits; NULL is allowed */

/* Bytes of the device's memory that it holds. */
uint64_t sluice_gpu_decoder_bytes(const struct sluice_gpu_decoder *decoder);

/* The batch to add to; not between start and wait. */
struct sluice_gpu_batch *sluice_gpu_decoder_batch(struct sluice_gpu_decoder *decoder);

/* Puts the decoding on `stream` (a cudaStream_t).  `rows` is the device's memory, 16-byte aligned,
 * max_samples x out_height x out_width x 3; rows that no sample of the batch is for stay as they
 * are.  Work that follows on the stream finds the rows made. */
SLUICE_MUST_USE sluice_status sluice_gpu_decoder_start(struct sluice_gpu_decoder *decoder,
                                                       uint8_t *rows, void *stream,
                                                       struct sluice_err *err);

/* Waits for the decoding, and not for what follows it.  statuses[i] is of the i-th sample added:
 * SLUICE_OK, or SLUICE_E_CORRUPT: its bits have a fault, and the CPU's decoder must say what it is;
 * its row is then of no use.  Then the batch is empty. */
SLUICE_MUST_USE sluice_status sluice_gpu_decoder_wait(struct sluice_gpu_decoder *decoder,
                                                      sluice_status *statuses,
                                                      struct sluice_err *err);

/* Waits for the decoding if it is started, whatever comes of it, and empties the batch. */
void sluice_gpu_decoder_drop(struct sluice_gpu_decoder *decoder);

/* Times of the last batch, valid after wait. */
enum sluice_gpu_stage {
    SLUICE_GPU_UPLOAD,
    SLUICE_GPU_CLEAR, /* the coefficients */
    SLUICE_GPU_WEIGH,
    SLUICE_GPU_DECODE,
    SLUICE_GPU_TRANSFORM,
    SLUICE_GPU_PASS_ACROSS, /* with upsampling and colours */
    SLUICE_GPU_PASS_DOWN,
    SLUICE_GPU_PIXELS, /* colours, blurs and warps of the rows */
    SLUICE_GPU_NUM_STAGES,
};
extern const char *const sluice_gpu_stage_names[SLUICE_GPU_NUM_STAGES];

/* Milliseconds by the device's events. */
SLUICE_MUST_USE sluice_status sluice_gpu_decoder_times(const struct sluice_gpu_decoder *decoder,
                                                       float times_ms[SLUICE_GPU_NUM_STAGES],
                                                       struct sluice_err *err);

#endif
