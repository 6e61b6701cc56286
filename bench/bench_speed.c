/* How fast a CPU is from moment to moment, for a bench on a machine that others share: a little of
 * the work that a node does, again and again, beside it.
 *
 * Every --period-ms it decodes, crops and scales --burst images, and prints what it did so far:
 * samples and nanoseconds of CPU time.  The first of each burst finds the caches cold and is not
 * counted.  It ends when nobody reads on. */

#include "base/buf.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "bench/bench.h"
#include "bench/bench_images.h"
#include "cli/cli.h"
#include "op/pipeline.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct speed {
    struct sluice_pipeline *pipeline;
    struct sluice_buf_pool *pool;
    struct sluice_scratch *scratch;
    struct bench_image *images;
    size_t num_images;
    uint8_t *rows;
    size_t row_bytes;
    uint64_t next; /* image, round and round */
};

static void speed_open(struct speed *speed, const char *root, size_t max_images)
{
    struct sluice_err err = {0};
    speed->images = bench_images_load(root, max_images, &speed->num_images);
    if (sluice_pipeline_parse(BENCH_TRAIN, &speed->pipeline, &err) ||
        sluice_buf_pool_create((size_t)64 << 20, &speed->pool, &err) ||
        sluice_scratch_create(&(struct sluice_scratch_options){.pool = speed->pool},
                              &speed->scratch, &err))
        bench_die("%s", err.text);
    speed->row_bytes = sluice_pipeline_u8_bytes(speed->pipeline);
    speed->rows = malloc(BENCH_BATCH_ROWS * speed->row_bytes);
    if (!speed->rows)
        bench_die("no memory");
}

static void speed_close(struct speed *speed)
{
    free(speed->rows);
    sluice_scratch_destroy(speed->scratch);
    sluice_buf_pool_destroy(speed->pool);
    sluice_pipeline_destroy(speed->pipeline);
    bench_images_free(speed->images, speed->num_images);
}

/* The same crop of an image each time; one that cannot be decoded takes its time too. */
static void work(struct speed *speed, uint64_t i)
{
    struct sluice_err err = {0};
    const size_t image = i % speed->num_images;
    struct sluice_sample sample = {.key = {.sample_id = image},
                                   .data = sluice_buf_ref(speed->images[image].file)};
    if (sluice_pipeline_finish_u8(speed->pipeline, speed->scratch, &sample,
                                  speed->rows + i % BENCH_BATCH_ROWS * speed->row_bytes,
                                  speed->row_bytes, &err) != SLUICE_OK)
        sluice_sample_clear(&sample);
}

/* CPU time. */
static uint64_t burst(struct speed *speed, uint64_t num_samples)
{
    work(speed, speed->next);
    const uint64_t start_ns = sluice_thread_cpu_ns();
    for (uint64_t i = 0; i < num_samples; i++)
        work(speed, speed->next++);
    return sluice_thread_cpu_ns() - start_ns;
}

static void wait_for(uint64_t period_ns, uint64_t spent_ns)
{
    if (spent_ns >= period_ns)
        return;
    const uint64_t left_ns = period_ns - spent_ns;
    struct timespec left = sluice_clock_timespec(left_ns);
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

int main(int argc, char **argv)
{
    uint64_t max_images = 64, num_samples = 8, period_ms = 200, num_bursts = 0;
    const struct sluice_option options[] = {
        {.name = "images",
         SLUICE_VALUE_UINT(max_images, "N"),
         .help = "So many of the folder's, spread evenly.",
         SLUICE_RANGE(1, 100000)},
        {.name = "burst",
         SLUICE_VALUE_UINT(num_samples, "N"),
         .help = "Images in a period, beside the one that is not counted.",
         SLUICE_RANGE(1, 100000)},
        {.name = "period-ms",
         SLUICE_VALUE_UINT(period_ms, "MS"),
         .help = "From the start of a burst to that of the next.",
         .max = 60000},
        {.name = "bursts",
         SLUICE_VALUE_UINT(num_bursts, "N"),
         .help = "Ends after so many; 0: when nobody reads on."},
    };
    const struct sluice_cli cli = {
        .program = "bench_speed",
        .summary = "Prints samples and CPU nanoseconds so far, again and again.",
        .positional = "DIR",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
    };
    const struct sluice_cli_result args = sluice_cli_parse(&cli, argc, argv);
    if (args.should_exit)
        return args.exit_code;
    signal(SIGPIPE, SIG_IGN);
    struct speed speed = {0};
    speed_open(&speed, args.positional[0], max_images);
    (void)burst(&speed, speed.num_images); /* memory that nobody has touched */
    uint64_t samples = 0, cpu_ns = 0;
    for (uint64_t i = 0; num_bursts == 0 || i < num_bursts; i++) {
        const uint64_t start_ns = sluice_clock_ns();
        cpu_ns += burst(&speed, num_samples);
        samples += num_samples;
        if (printf("%" PRIu64 " %" PRIu64 "\n", samples, cpu_ns) < 0 || fflush(stdout) != 0)
            break;
        wait_for(period_ms * 1000000, sluice_clock_ns() - start_ns);
    }
    speed_close(&speed);
    return 0;
}
