#ifndef SLUICE_COMPUTE_CLIENT_API_TUNING_H
#define SLUICE_COMPUTE_CLIENT_API_TUNING_H

/* Bytes.  sluice_finish() writes outputs of at least this size with non-temporal stores, past the
 * caches.  Origin: bench_finish on an EPYC (Zen 4) with 32 MiB of third-level cache, AVX-512, and
 * all of the output read once afterwards, as an upload does: from 32 MiB on float32 takes 0.8 and
 * f16 0.7 of the time, at 9 MiB up to 1.2.  Half: as good there, but a machine with a larger cache
 * takes up to twice the time (docs/results/xeon.md).  Twice: no gain for batches of 128 rows of
 * 224 x 224. */
#define SLUICE_FINISH_FAR_BYTES ((size_t)64 << 20)

/* Pixels.  From this number on sluice_finish() looks for a formula that replaces the table.
 * Origin: the search takes 4 us, and a pixel is 0.8 ns faster with a formula (EPYC, Zen 4, AVX2),
 * so 16384 pixels gain 9 us of 20.  Half: gains 2 us of 10.  Twice: a single row of 128 x 128 or
 * 160 x 160 gains nothing. */
#define SLUICE_FINISH_FORMULA_PIXELS 16384

#endif
