#ifndef SLUICE_STORAGE_SERVER_TUNING_H
#define SLUICE_STORAGE_SERVER_TUNING_H

/* The server's tuned constants, each with its unit and where it comes from. */

/* --- cpu_price.c --- */

/* Chosen by simulation: tests/property/test_several_clients.c, which compares the sum of all
 * clients' times with the joint optimum.  "Half" and "twice" below say what half and twice a value
 * do to that ratio: the mean over its eight settings and four seeds, which is 1.011 as things are.
 * From seed to seed such a difference varies by 0.2 %, so smaller ones are noise. */

/* Gain on excess demand: demand 10 % above capacity raises the price by 12 %.  It damps the
 * oscillation that control by the queue alone causes.  Half: +0.4 %, with every seed; twice:
 * -0.1 %. */
#define CPU_PRICE_RATE_GAIN 1.2

/* 1/s, gain on the standing queue: how fast the queue above the target is worked off.
 * Half: -0.1 %; twice: +0.1 %. */
#define CPU_PRICE_QUEUE_GAIN 1.0

/* s of work in the standing queue in equilibrium; above 0 so that workers seldom run out of jobs.
 * Half: +0.1 %; twice: -0.2 %, and every job waits longer. */
#define CPU_PRICE_TARGET_S 0.03

/* The price is within exp(+-) this of the worth, whatever the queue.  Half and twice: 0.0 %. */
#define CPU_PRICE_MAX_LEVEL 0.7

/* s, time constant of the smoothing of excess demand.  Half and twice: 0.0 %. */
#define CPU_PRICE_SMOOTH_S 0.2

/* ns.  The standing queue is the minimum over two such periods: longer than the period of a usual
 * CPU quota (100 ms), so that the pause in each of its periods does not look like a queue.  Half:
 * 0.0 %; twice: -0.1 %. */
#define CPU_PRICE_PERIOD_NS 100000000u

/* s between two updates of the capacity.  Half and twice: 0.0 %. */
#define CPU_PRICE_SEEN_S 0.3
/* s, time constant with which the capacity follows the workers' rate while they have jobs.  Half
 * and twice: 0.0 %. */
#define CPU_PRICE_BUSY_S 1.5
/* s, time constant with which it returns to the cores that workers may use while they have no jobs.
 * Half and twice: 0.0 %. */
#define CPU_PRICE_IDLE_S 5.0

/* 1/s, gain of the search for the worth while no client reports one.  Not swept, because all
 * clients of the simulation report it. */
#define CPU_PRICE_SEARCH_GAIN 2.0

/* s.  The most time for which the search raises the worth between two updates.  Not swept. */
#define CPU_PRICE_MAX_RISE_S 0.25

/* --- memory_budget.c, memory_limit.c --- */

/* A client may hold this multiple of the free bytes: one client alone 2/3 of the budget, two 2/5
 * each.  Chosen so that a newcomer finds a third at once.  1: one alone has half; 4: four fifths,
 * and a newcomer a fifth. */
#define MEMORY_SHARE 2u

/* The same for requests that wait: above MEMORY_SHARE, so that replies never keep a client from
 * asking.  With 4, a tenth of the budget is left for requests where replies find no room. */
#define MEMORY_REQUEST_SHARE 4u

/* ns between two measurements of the process: 10 Gbit/s can add 60 MB meanwhile. */
#define MEMORY_MEASURE_NS 50000000u

/* Connections are cut if the process exceeds its limit by this part of the budget; by then the
 * budget has held back everything that it can.  2: a flood may take a quarter of --memory-limit
 * more; 8: the growth between two measurements may look like a flood. */
#define MEMORY_BEYOND_PART 4u

/* While less than this part of the budget is held, the process is not measured. */
#define MEMORY_UNWATCHED_PART 8u

/* The parts of --memory-limit, in sixteenths: the budget, running work, unused buffers, gRPC.  The
 * rest is for malloc's fragmentation.  Chosen by tests/torture/test_memory_limit.py. */
#define MEMORY_BUDGET_16THS 7u
#define MEMORY_WORK_16THS 3u
#define MEMORY_CACHE_16THS 2u
#define MEMORY_GRPC_16THS 2u

/* Bytes.  More unused buffers do not pay: some hundred samples in flight need this many. */
#define MEMORY_MAX_CACHE_BYTES (256u << 20)

/* Bytes.  With less the server does not start: a batch of photographs does not fit. */
#define MEMORY_LEAST_LIMIT (32u << 20)

/* malloc returns the top of its heap to the system once the part 1/MEMORY_TRIM_PART of the limit is
 * free there, at most MEMORY_MOST_TRIM bytes.  It maps blocks above 1/MEMORY_MMAP_PART of the
 * limit, at most MEMORY_MOST_MMAP bytes, one by one.  sluice_rpc_process_init() has the reason for
 * the maxima. */
#define MEMORY_TRIM_PART 16u
#define MEMORY_MOST_TRIM (1u << 30)
#define MEMORY_MMAP_PART 256u
#define MEMORY_MOST_MMAP (32u << 20)

/* Used if RLIMIT_AS is set: bytes of address space that a thread takes in addition to its stack,
 * and the number of threads that gRPC and other libraries start. */
#define MEMORY_THREAD_BYTES (1u << 20)
#define MEMORY_OTHER_THREADS 12u

/* --- cpu_market.c --- */

/* ns between two prices.  cpu_price.h: below 100 ms the spacing makes no difference; each update
 * visits every client under the workers' lock. */
#define CPU_MARKET_INTERVAL_NS 50000000u

/* ns.  A client without requests for this time does not share the cores: its epoch may be over. */
#define CPU_MARKET_ABSENT_NS 3000000000u

/* ns, time constant with which a client's use of the cores decays.  Its use is the weight of its
 * worth in the mean. */
#define CPU_MARKET_USED_NS 1e9

/* The least CPU seconds that a client counts as having used, so that each has a weight. */
#define CPU_MARKET_LEAST_USED_S 1e-6

/* The worth that a client reports is credible if it is within this factor of the others' median, up
 * or down.  Honest clients that could use more or fewer cores are within a factor of 3 of each
 * other in tests/property/test_several_clients.c, and within 1.1 once they have settled. */
#define CPU_MARKET_CREDIBLE 12.0

/* As a part of an equal share of the cores: a client that uses less is always credible, because
 * something else is its bottleneck and its worth jumps. */
#define CPU_MARKET_DOUBT_USE 0.6

/* The number of clients whose reports are compared; it limits the time of an update. */
#define CPU_MARKET_JURY 64

/* ns.  A client's reports are ignored after CPU_MARKET_DOUBT_NS of incredible ones, and used again
 * after CPU_MARKET_FORGIVE_NS of credible ones. */
#define CPU_MARKET_DOUBT_NS 1000000000u
#define CPU_MARKET_FORGIVE_NS 10000000000u

/* --- core_watch.c --- */

/* ns.  A number of cores of this age is read anew when somebody asks for it.  The interval of the
 * price, which is computed from it. */
#define CORE_WATCH_FRESH_NS CPU_MARKET_INTERVAL_NS

/* ns.  The greatest age of the number while nobody asks; the first client after a pause may get
 * one of this age. */
#define CORE_WATCH_MAX_AGE_NS 1000000000u

/* --- watchdog.c --- */

/* ns between two checks of the workers; an eighth of the timeout if that is less.  Half and twice:
 * a worker that hangs is noticed half or twice as late. */
#define WATCHDOG_INTERVAL_NS 250000000u

/* The most threads that stand in for workers of one group that hang.  A file that hangs costs one
 * worker, so with more such files than this the group has fewer workers.  Each costs a thread and,
 * in PREP, the memory of one decoder.  Chosen, not measured. */
#define WATCHDOG_MAX_STAND_INS 8

/* --- suspects.c, decoders.c --- */

/* Decoders that die at a sample before it is answered as corrupt: one may die by chance, or two
 * when memory is short.  2: a shortage may cost good samples; 6: twice the time until a bad one is
 * given up, about a second of the client's retries. */
#define SUSPECTS_DEATHS 3u

/* ns after the last death at a sample until it has another chance.  Half and twice: a bad sample
 * costs SUSPECTS_DEATHS decoders twice or half as often.  Chosen, not measured. */
#define SUSPECTS_FORGET_NS 600000000000u

/* The time limit of a decoder, in eighths of --sample-timeout.  Below one half, after which the
 * watchdog reports the server as unhealthy, less an eighth for the read before the decoding. */
#define DECODER_TIME_8THS 3u

/* The least part of its time limit that a hanging decoder must have run on a CPU for its sample to
 * be blamed; with less it was stopped or had no CPU.  Half: on a machine with more than 20 busy
 * threads a core an innocent sample may be blamed; twice: with more than 5 a sample that hangs is
 * never given up. */
#define DECODER_HANG_CPU_SHARE 0.1

/* Bytes of a decoder's result: the most that a message to our clients holds. */
#define DECODER_OUT_BYTES ((size_t)63 << 20)

/* Bytes of the largest index that is sent to a decoder: that of an image of 60 megapixels with
 * points every 8 blocks.  A larger index is left out, and the whole file is read. */
#define DECODER_INDEX_BYTES ((size_t)4 << 20)

/* Bytes of the shared memory that stay allocated after a job; a job that uses more gives the memory
 * back.  Most photographs and all crops use less.  Half: large files cost page faults, 0.25 us for
 * each 4 kB; twice: every worker may keep 16 MiB for good. */
#define DECODER_KEPT_BYTES ((size_t)8 << 20)

/* Bytes that a decoder may allocate for each pixel of --max-image-pixels: the coefficients of a
 * progressive JPEG take 6 (8 with four components), its pixels 3, and the result 3. */
#define DECODER_BYTES_PER_PIXEL 16u
/* Bytes in addition to that: its tables, and its own unused buffers. */
#define DECODER_BASE_BYTES ((size_t)64 << 20)
#define DECODER_CACHED_BYTES ((size_t)32 << 20)

/* Exponential backoff, in ns: the wait until a worker whose decoders die one after the other gets
 * the next.  From the second death on it doubles, up to the most.  Meanwhile the worker's samples
 * are sent as files. */
#define DECODER_FIRST_WAIT_NS 10000000u
#define DECODER_MOST_WAIT_NS 1000000000u

/* ns between two lines of the log about decoders that died. */
#define DECODER_LOG_NS 1000000000u

/* s that the fork server may take for an answer: far more than a fork or the end of a process. */
#define DECODER_FORK_S 20

/* --- main.c, last_words.c --- */

/* ns after --grace at which the process ends in any case: the time that cancelling and joining take
 * on a busy machine. */
#define END_NS 400000000u

/* ns that the last lines may take.  Together with END_NS less than the promised second after
 * --grace. */
#define LAST_WORDS_NS 500000000u

/* ns that an orderly end may take once all requests are answered and counted; then workers that
 * hang are left behind. */
#define LEAVE_NS 200000000u

/* --- root_watch.c --- */

/* ns between two checks of the root, of two system calls each. */
#define ROOT_LOOK_NS 1000000000u

/* ns.  If a check takes longer, the root counts as gone: far more than a busy file server takes for
 * a stat. */
#define ROOT_HANGS_NS 5000000000u

/* --- serving.c --- */

/* The most lines of --trace a second.  A client decides which of its samples are traced, so this
 * limits what it can make the server write: 2.2 MB/s, and 5 % of a core.  At the usual
 * --trace-sample of 0.001 it is enough for a million samples a second.  Half or twice: half or
 * twice of both. */
#define TUNING_TRACES_PER_S 1000u

/* --- grant.c --- */

/* The burst, in s of the token's rate: the credit that it saves while its clients ask for less, as
 * with --link-limit (rate_limit.h).  Half: more waits for messages larger than the burst, at the
 * same rate; twice: a longer burst after a pause. */
#define GRANT_BURST_S 0.02

/* Gain of the EWMA of the CPU time of a piece of work.  It affects only the accuracy of the cores'
 * bucket while work is in progress, because each piece is settled at its end.  Half and twice: the
 * same rate over a second. */
#define GRANT_CPU_GAIN 0.05

/* s that the first piece of work is expected to take: a photograph of 110 kB, decoded and cropped,
 * takes 2 to 4 ms of a core.  Half and twice: twice or half as much work begins in the first moment
 * of a token. */
#define GRANT_FIRST_CPU_S 0.003

#endif
