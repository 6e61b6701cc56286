#ifndef SLUICE_PYTHON_OUTPUTS_H
#define SLUICE_PYTHON_OUTPUTS_H

/* Normalised batches on the host: their memory, and the threads that write it.
 *
 * A batch of float32 takes as long to fault in afresh as to decode, so memory comes back: take, and
 * give when the last tensor of it has gone.  Some blocks wait for the next take, others are freed;
 * any number may be out.
 *
 * Threads: any, without locks, so also in the child of a fork. */

#include <sluice/sluice.h>

#include <stddef.h>

struct outputs;

/* For blocks of `bytes`; NULL: no memory. */
struct outputs *outputs_create(size_t bytes);
size_t outputs_bytes(const struct outputs *outputs);
/* 64-byte aligned and of any content, or NULL: no memory. */
void *outputs_take(struct outputs *outputs);
void outputs_give(struct outputs *outputs, void *memory);
/* Frees what waits; blocks that are out are freed as they are given.  NULL is allowed. */
void outputs_close(struct outputs *outputs);

/* sluice_finish() of the rows of a view, which are shared among at most num_threads threads, which
 * end with the call; the same bytes for any number. */
SLUICE_MUST_USE sluice_status finish_rows(const struct sluice_view *view, size_t num_rows,
                                          const float table[3][256], enum sluice_dtype dtype,
                                          enum sluice_layout layout, void *out,
                                          unsigned num_threads, struct sluice_err *err);

#endif
