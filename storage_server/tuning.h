#ifndef SLUICE_STORAGE_SERVER_TUNING_H
#define SLUICE_STORAGE_SERVER_TUNING_H

/* The server's tuned constants, each with its unit and where it comes from. */

/* --- cpu_price.c --- */

/* Chosen by simulation: tests/property/test_several_clients.c, which compares the sum of all
 * clients' times with the joint optimum.  "Half" and "twice" below say what half and twice a value
 * do to that ratio: the mean over its eight settings and four seeds, which is 1.011 as things are.
 * From seed to seed such a difference varies by 0.2 %, so smaller ones are noise. */

/* Gain on excess demand: demand that is 10 % above capacity raises the price by 12 %.  It damps the
 * oscillation that control by the queue would bring.  Half: +0.4 %, with every seed; twice:
 * -0.1 %. */
#define CPU_PRICE_RATE_GAIN 1.2

/* 1/s, gain on the standing queue: how fast what waits above the target is worked off.
 * Half: -0.1 %; twice: +0.1 %. */
#define CPU_PRICE_QUEUE_GAIN 1.0

/* s of work that stands in the queue while the price rests; above 0 so that workers seldom run out
 * of jobs.  Half: +0.1 %; twice: -0.2 %, and every job waits for longer. */
#define CPU_PRICE_TARGET_S 0.03

/* The price is within exp(+-) this of the worth, whatever the queue.  Half and twice: 0.0 %. */
#define CPU_PRICE_MAX_LEVEL 0.7

/* s, time constant in which excess demand is smoothed.  Half and twice: 0.0 %. */
#define CPU_PRICE_SMOOTH_S 0.2

/* ns.  The standing queue is the minimum over two such periods: longer than the period of a usual
 * CPU quota (100 ms), so that the pause in each of its periods does not look like a queue.  Half:
 * 0.0 %; twice: -0.1 %. */
#define CPU_PRICE_PERIOD_NS 100000000u

/* s between two updates of the capacity.  Half and twice: 0.0 %. */
#define CPU_PRICE_SEEN_S 0.3
/* s, time constant in which the capacity follows what workers do while they have jobs.  Half and
 * twice: 0.0 %. */
#define CPU_PRICE_BUSY_S 1.5
/* s, time constant in which it returns to what workers may use while they have none.  Half and
 * twice: 0.0 %. */
#define CPU_PRICE_IDLE_S 5.0

/* 1/s, gain of the search for the worth while no client tells it.  Not swept: the simulation's
 * clients all tell it. */
#define CPU_PRICE_SEARCH_GAIN 2.0

/* s.  The search rises for no longer than this from one update to the next.  Not swept, either. */
#define CPU_PRICE_MAX_RISE_S 0.25

/* --- memory_budget.c, memory_limit.c --- */

/* A client may hold so many times what is free: one alone 2/3 of the budget, two 2/5 each.  Chosen
 * so that a newcomer finds a third at once.  1: one alone has half; 4: four fifths, and a newcomer
 * a fifth. */
#define MEMORY_SHARE 2u

/* The same for requests that wait: above MEMORY_SHARE, so that replies never keep a client from
 * asking.  With 4, a tenth of the budget is left for requests where replies find no room. */
#define MEMORY_REQUEST_SHARE 4u

/* ns between two looks at the size of the process: what 10 Gbit/s can add meanwhile is 60 MB. */
#define MEMORY_MEASURE_NS 50000000u

/* This part of the budget above what the process may be, connections are cut: what the budget
 * itself can hold back it has held back by then.  2: a flood may take a quarter of --memory-limit
 * more; 8: what lies between two looks of the budget may be taken for one. */
#define MEMORY_BEYOND_PART 4u

/* While less than this part of the budget is held nobody looks. */
#define MEMORY_UNWATCHED_PART 8u

/* What --memory-limit is made of, in sixteenths: the budget, running work beside it, unused
 * buffers, gRPC.  The rest is for what malloc cannot use.  Chosen by
 * tests/torture/test_memory_limit.py. */
#define MEMORY_BUDGET_16THS 7u
#define MEMORY_WORK_16THS 3u
#define MEMORY_CACHE_16THS 2u
#define MEMORY_GRPC_16THS 2u

/* Bytes.  More unused buffers than this do not pay: what some hundred samples in flight need. */
#define MEMORY_MAX_CACHE_BYTES (256u << 20)

/* Bytes.  With less the server does not start: a batch of photographs does not fit. */
#define MEMORY_LEAST_LIMIT (32u << 20)

/* malloc returns the top of its heap to the system when this part of the limit is free there, and
 * takes blocks above that part from the system one by one; never later or above than this, which
 * sluice_rpc_process_init() says why. */
#define MEMORY_TRIM_PART 16u
#define MEMORY_MOST_TRIM (1u << 30)
#define MEMORY_MMAP_PART 256u
#define MEMORY_MOST_MMAP (32u << 20)

/* Bytes of address space that a thread takes beside its stack, and threads that gRPC and others
 * start: where RLIMIT_AS is set. */
#define MEMORY_THREAD_BYTES (1u << 20)
#define MEMORY_OTHER_THREADS 12u

/* --- cpu_market.c --- */

/* ns between two prices.  cpu_price.h: below 100 ms the spacing makes no difference; each update
 * visits every client under the workers' lock. */
#define CPU_MARKET_INTERVAL_NS 50000000u

/* ns.  A client that asked for nothing for so long does not share the cores: its epoch may be
 * over. */
#define CPU_MARKET_ABSENT_NS 3000000000u

/* ns, time constant in which a client's use of the cores is forgotten.  Its use is the weight
 * of its worth in the mean. */
#define CPU_MARKET_USED_NS 1e9

/* CPU seconds that every client counts as having used, so that those that used nothing have a
 * weight, too. */
#define CPU_MARKET_LEAST_USED_S 1e-6

/* A client that uses the cores says no more than so many times what the others do, and no less than
 * that part of it, or is doubted.  Honest ones that could use more or fewer cores are within 3 of
 * each other in tests/property/test_several_clients.c, and within 1.1 once they have settled. */
#define CPU_MARKET_CREDIBLE 12.0

/* Of an equal part: a client that uses less of the cores is not doubted, as something else is its
 * limit and its worth jumps. */
#define CPU_MARKET_DOUBT_USE 0.6

/* So many clients' words are compared, for the time that it takes. */
#define CPU_MARKET_JURY 64

/* ns for which a client is incredible until it is not believed, and credible until it is again. */
#define CPU_MARKET_DOUBT_NS 1000000000u
#define CPU_MARKET_FORGIVE_NS 10000000000u

/* --- core_watch.c --- */

/* ns.  A number of cores this old is read anew when somebody asks for it: the interval of the
 * price, which is made from it. */
#define CORE_WATCH_FRESH_NS CPU_MARKET_INTERVAL_NS

/* ns.  So old a number may get while nobody asks: what the first client after a pause is told. */
#define CORE_WATCH_MAX_AGE_NS 1000000000u

/* --- watchdog.c --- */

/* ns between two looks at what the workers do; an eighth of the timeout if that is less.  Half and
 * twice: a worker that hangs is noticed by so much sooner or later. */
#define WATCHDOG_INTERVAL_NS 250000000u

/* Threads that stand in for workers of one group that hang.  A file that hangs costs one worker, so
 * this is how many such files there may be before the group has fewer workers.  Each costs a thread
 * and, in PREP, the memory of one decoder.  Chosen, not measured. */
#define WATCHDOG_MAX_STAND_INS 8

/* --- suspects.c, decoders.c --- */

/* Decoders that end at a sample until it is answered as corrupt: one may end by chance, and two,
 * when memory is short.  2: a shortage may cost good samples; 6: twice the time until a bad one is
 * given up, about a second of the client's retries. */
#define SUSPECTS_DEATHS 3u

/* ns after its last death at which a sample has another chance.  Half and twice: so much more or
 * less often a bad sample costs SUSPECTS_DEATHS decoders.  Chosen, not measured. */
#define SUSPECTS_FORGET_NS 600000000000u

/* Of --sample-timeout, in eighths: what a decoder may take.  Below half, at which the watchdog says
 * that the server is not healthy, with an eighth for the read before it. */
#define DECODER_TIME_8THS 3u

/* Of a decoder's time, as its CPU time: one that hangs with less was stopped or had no CPU, which
 * is not its sample's fault.  Half: on a machine with more than 20 busy threads a core an innocent
 * sample may be to blame; twice: with more than 5 a sample that hangs is never given up. */
#define DECODER_HANG_CPU_SHARE 0.1

/* Bytes of a decoder's result: what a message to our clients holds. */
#define DECODER_OUT_BYTES ((size_t)63 << 20)

/* Bytes of a file's index that are sent to a decoder: that of an image of 60 megapixels with points
 * every 8 blocks.  A larger one is left out, and the whole file is read. */
#define DECODER_INDEX_BYTES ((size_t)4 << 20)

/* Bytes that file and result may take of the shared memory until it is given back after the job:
 * most photographs and all crops stay below.  Half: large files cost page faults, 0.25 us for each
 * 4 kB; twice: every worker may keep 16 MiB for good. */
#define DECODER_KEPT_BYTES ((size_t)8 << 20)

/* Bytes that a decoder may allocate, for each pixel of --max-image-pixels: the coefficients of a
 * progressive JPEG take 6 (8 with four components), its pixels 3, what is made of them 3. */
#define DECODER_BYTES_PER_PIXEL 16u
/* And beside that: its tables and its own unused buffers. */
#define DECODER_BASE_BYTES ((size_t)64 << 20)
#define DECODER_CACHED_BYTES ((size_t)32 << 20)

/* ns until a worker whose decoders end one after the other gets the next: doubled with each from
 * the second on, up to the most.  Its samples go as files meanwhile. */
#define DECODER_FIRST_WAIT_NS 10000000u
#define DECODER_MOST_WAIT_NS 1000000000u

/* ns between two lines of the log about decoders that ended. */
#define DECODER_LOG_NS 1000000000u

/* s that the fork server may take for an answer: far above a fork or an end of a process. */
#define DECODER_FORK_S 20

/* --- main.c, last_words.c --- */

/* ns after --grace at which the process ends, whatever it does: what cancelling and joining take on
 * a busy machine. */
#define END_NS 400000000u

/* ns that the last lines may take; with END_NS less than the second after --grace that is
 * promised. */
#define LAST_WORDS_NS 500000000u

/* ns that an orderly end may take once everything is answered and counted, before workers that hang
 * are left behind. */
#define LEAVE_NS 200000000u

/* --- root_watch.c --- */

/* ns between two looks at the root: two system calls. */
#define ROOT_LOOK_NS 1000000000u

/* ns.  A look that takes longer counts as a root that is gone: far above what a busy file server
 * takes for a stat. */
#define ROOT_HANGS_NS 5000000000u

/* --- serving.c --- */

/* Lines a second of --trace.  A client says which of its samples are traced, so this is what it can
 * make the server write: 2.2 MB/s, and 5% of a core.  At the usual --trace-sample of 0.001 it is
 * enough for a million samples a second.  Half or twice: half or twice of both. */
#define TUNING_TRACES_PER_S 1000u

/* --- grant.c --- */

/* s of its rate that a token saves up while its clients ask for less, as --link-limit does
 * (rate_limit.h).  Half: more waits for messages larger than the burst, the same rate; twice: a
 * longer rush after a pause. */
#define GRANT_BURST_S 0.02

/* Gain of the EWMA of what a piece of work takes.  It only decides how far the cores' bucket is
 * right while work is under way, and what is under way is settled when it ends.  Half and twice:
 * the same rate over a second. */
#define GRANT_CPU_GAIN 0.05

/* s that a piece of work is taken for before any was seen: a photograph of 110 kB, decoded and
 * cropped, takes 2 to 4 ms of a core.  Half and twice: so much more or less work begins in the
 * first moment of a token. */
#define GRANT_FIRST_CPU_S 0.003

#endif
