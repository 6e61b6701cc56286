#ifndef SLUICE_GPU_DECODER_H
#define SLUICE_GPU_DECODER_H

#include "gpu/batch.h"
#include "gpu/gate.h"

/* Decodes batches of JPEG files on a CUDA device, to the same pixels as the CPU's decoder.
 *
 *     sluice_gpu_decoder_create(&limits, NULL, &decoder, &err);
 *     struct sluice_gpu_batch *batch = sluice_gpu_decoder_batch(decoder);
 *     for each sample: sluice_gpu_batch_add(batch, file, len, index, &request, &err);
 *     sluice_gpu_decoder_start(decoder, rows, stream, &err);       returns at once
 *     sluice_gpu_decoder_wait(decoder, statuses, &err);            empties the batch
 *
 * create allocates all memory.  To prepare one batch while another is decoded, use two decoders.
 *
 * Threads: one at a time for each decoder; the device that is current at create must be current in
 * all calls. */

struct sluice_gpu_decoder;

/* `upload`: the batch's initial page-locked memory, borrowed; sluice_gpu_batch_use() may change it
 * between wait and start.  NULL: the decoder's own.  SLUICE_E_INVALID: as
 * sluice_gpu_limits_check(); SLUICE_E_NO_MEMORY: of the host or the device; SLUICE_E_UNSUPPORTED:
 * no usable device. */
SLUICE_MUST_USE sluice_status sluice_gpu_decoder_create(const struct sluice_gpu_limits *limits,
                                                        void *upload,
                                                        struct sluice_gpu_decoder **decoder,
                                                        struct sluice_err *err);
void sluice_gpu_decoder_destroy(struct sluice_gpu_decoder *decoder); /* waits; NULL is allowed */

/* Bytes of the device's memory that it holds. */
uint64_t sluice_gpu_decoder_bytes(const struct sluice_gpu_decoder *decoder);

/* The batch to add to; not between start and wait. */
struct sluice_gpu_batch *sluice_gpu_decoder_batch(struct sluice_gpu_decoder *decoder);

/* Each decoding stops at a point of the gate behind its upload.  Without this call none does. */
void sluice_gpu_decoder_set_gate(struct sluice_gpu_decoder *decoder,
                                 const struct sluice_gpu_gate *gate);

/* Queues the decoding on `stream` (a cudaStream_t).  `rows` is the device's memory, 16-byte
 * aligned, as sluice_gpu_row_views_of() says; rows without a sample in the batch stay
 * unchanged.  Later work on the stream sees the finished rows. */
SLUICE_MUST_USE sluice_status sluice_gpu_decoder_start(struct sluice_gpu_decoder *decoder,
                                                       uint8_t *rows, void *stream,
                                                       struct sluice_err *err);

/* Waits for the decoding, but not for later work, and empties the batch.  statuses[i] is the status
 * of the i-th sample added: SLUICE_OK, or SLUICE_E_CORRUPT if its bits have a fault.  Then the row
 * is undefined, and the CPU's decoder must decide. */
SLUICE_MUST_USE sluice_status sluice_gpu_decoder_wait(struct sluice_gpu_decoder *decoder,
                                                      sluice_status *statuses,
                                                      struct sluice_err *err);

/* Waits for the decoding if it is started, ignores its result, and empties the batch. */
void sluice_gpu_decoder_drop(struct sluice_gpu_decoder *decoder);

/* Times of the last batch, valid after wait. */
enum sluice_gpu_stage {
    SLUICE_GPU_UPLOAD, /* and waiting at the gate */
    SLUICE_GPU_CLEAR,  /* the coefficients */
    SLUICE_GPU_WEIGH,
    SLUICE_GPU_DECODE,
    SLUICE_GPU_TRANSFORM,
    SLUICE_GPU_PASS_ACROSS, /* with upsampling and colours */
    SLUICE_GPU_PASS_DOWN,
    SLUICE_GPU_PIXELS, /* colours, blurs and warps of the rows */
    SLUICE_GPU_NUM_STAGES,
};
extern const char *const sluice_gpu_stage_names[SLUICE_GPU_NUM_STAGES];

/* Milliseconds, measured by events of the device. */
SLUICE_MUST_USE sluice_status sluice_gpu_decoder_times(const struct sluice_gpu_decoder *decoder,
                                                       float times_ms[SLUICE_GPU_NUM_STAGES],
                                                       struct sluice_err *err);

#endif
