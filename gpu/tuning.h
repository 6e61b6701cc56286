#ifndef SLUICE_GPU_TUNING_H
#define SLUICE_GPU_TUNING_H

/* Constants of the decoder on the device, chosen by time and memory.  Times: one H200, batches of
 * 256 crops of ImageNet photographs of 50 kB and 212,000 coefficients each, with a restart marker
 * each 8 MCUs (docs/BENCHMARKING.md, bench_gpu_decode).  Constants without a time were chosen to
 * fit and were not measured. */

/* Restart segments of a task, one thread for each.  The tables in shared memory are 18 KiB for a
 * task of four tables, and a photograph's crop has 30 to 250 segments.  Half: entropy decoding
 * takes 1.22 times as long, as it fills twice the tables; twice: 1.01 to 1.09, and photographs of
 * few segments leave threads idle. */
#define SLUICE_GPU_SEGMENTS_IN_TASK 16

/* Threads of a warp for each thread that decodes a segment; the others only help to fill the
 * tables.  All threads of a warp wait where one refills, ends a block or has a long code; there are
 * few segments for the many warps of a device.  Half: entropy decoding takes 0.98 to 1.02 times as
 * long; twice: 1.33, as warps then wait for the multiprocessor. */
#define SLUICE_GPU_THREADS_OF_SEGMENT 4

/* Chunks of 16 bytes that are prefetched for a segment's reader, a power of 2: 144 bytes of shared
 * memory for each segment.  Half: entropy decoding takes 1.00 times as long; twice: 0.94 to 1.01.
 */
#define SLUICE_GPU_RING_CHUNKS 8

/* Bits of a code that index a table in shared memory, 2 bytes for each value.  A longer code takes
 * several dependent reads, and its warp waits.  One less: entropy decoding takes 1.04 to 1.09 times
 * as long; one more: six tables do not fit the 48 KiB of any device. */
#define SLUICE_GPU_LOOKUP_BITS 11

/* Blocks of coefficients of a task, eight threads and 300 bytes of shared memory each.  Half,
 * twice: the inverse DCT takes 0.99, 1.04 times as long. */
#define SLUICE_GPU_BLOCKS_IN_TASK 32

/* Threads of the pass across, and pixels that a task of it holds in shared memory, 4 bytes each:
 * as many rows as fit, of as many columns; as much again for their chroma, and then for the
 * weights. Half: tasks of half the rows, which load the weights anew, and the pass takes 1.21 times
 * as long; twice: more than the 48 KiB of any device.  An axis with a scale above a third of it is
 * the CPU's. */
#define SLUICE_GPU_ACROSS_THREADS 256
#define SLUICE_GPU_ACROSS_PIXELS 4096
#define SLUICE_GPU_MAX_ROWS_AT_ONCE 8

/* Pixels of the result that a thread of the pass down makes: four are three whole words.  Half:
 * bytes are written one by one; twice: half the threads, of which a batch of 224 x 224 has 3.2
 * million pixels' worth. */
#define SLUICE_GPU_DOWN_PIXELS 4

/* Threads in a block where each works alone. */
#define SLUICE_GPU_WEIGH_THREADS 128
#define SLUICE_GPU_DOWN_THREADS 256

/* Memory for the weights of the resize: words for each column and row of a result, enough for a
 * scale of 6; for larger scales one word for each group of pixels.  Half the room: batches of large
 * crops take two rounds; twice: 0.1 MB more for a row of 224 x 224. */
#define SLUICE_GPU_WEIGHTS_PER_OUTPUT 16
#define SLUICE_GPU_PIXELS_PER_WEIGHT 16

/* Bytes and pixels (of the box, in whole MCUs) that a lane reserves for a file: twice those of such
 * a crop.  Larger files take the memory of several.  Half: a batch of large crops takes two rounds,
 * which wait for each other; twice: 5 MB more of the device's memory for each row of each lane. */
#define SLUICE_GPU_USUAL_FILE_BYTES 98304u
#define SLUICE_GPU_USUAL_PIXELS 360000u

/* The fewest such files for which a lane has memory.  One file may take all of the lane's pixels
 * and a quarter of its bytes (place_memory.c); the CPU decodes larger ones. Half: crops above 1.4
 * megapixels go to the CPU where memory is short; twice: a lane takes at least 80 MB. */
#define SLUICE_GPU_MIN_USUAL_FILES 8u

/* Bytes of kernel calls that a lane reserves for a view: one table and some others.  Longer calls
 * take the memory of several views.  Half: batches of longer recipes take two rounds; twice: 1 KiB
 * more of page-locked memory for each view of each row of each lane. */
#define SLUICE_GPU_USUAL_CALL_BYTES 1024u

/* Threads that run the calls on one row: the most that a block may have, because a batch has few
 * rows for 132 multiprocessors, and a row's calls run one after the other. */
#define SLUICE_GPU_PIXELS_THREADS 1024

/* Bytes of a segment.  One thread decodes it, at about 3 bytes in 1 us, and the batch waits
 * for the last thread.  Half: a row of MCUs of a wide, sharp photograph goes to the CPU; twice: one
 * file may hold a batch up for 10 ms. */
#define SLUICE_GPU_MAX_SEGMENT_BYTES 16384u

/* Mean bytes between points of a file's index.  Above that, a worker instead cuts the file with
 * restart markers.  Half: photographs of 10 megapixels are cut; twice: a thread decodes for twice
 * the time. */
#define SLUICE_GPU_MAX_POINT_BYTES 4096u

/* The default limit of a place, as a part of the device's free memory: the trainer needs most of
 * it.  Half: batches in several rounds, next to a large model; twice: a trainer that allocates
 * later may find too little. */
#define SLUICE_GPU_FREE_MEMORY_SHARE 4u

/* Blocks of 1,024 bytes whose sums are in a thread block's shared memory at a time, 64 bytes each.
 * A row of 224 x 224 has 147.  Half: most threads wait for eight threads twice as often; twice: 16
 * KiB of shared memory. */
#define SLUICE_GPU_HASH_BLOCKS_AT_ONCE 128

/* Threads that hash a row: eight find the sum of a block of 1,024 bytes.  Half: twice as many loads
 * for each; twice: most wait longer for eight. */
#define SLUICE_GPU_HASH_THREADS 256

/* Priority of the lanes' streams, in steps above the device's lowest: batches are made ahead, and
 * the trainer's kernels are waited for.  1: the lanes' kernels run before those of a trainer whose
 * streams have the default priority, which is the lowest; 2: the same. */
#define SLUICE_GPU_PRIORITY 0

#endif
