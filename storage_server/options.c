#include "storage_server/options.h"

#include "datasets/jpeg_index_file.h"

static const char *const huffman_choices[] = {"fast", "optimal", NULL};
static const char *const sched_choices[] = {"normal", "idle", NULL};
static const char *const io_choices[] = {"normal", "low", "idle", NULL};

struct sluice_server_options sluice_server_options_init(void)
{
    return (struct sluice_server_options){
        .listen = "0.0.0.0:50051",
        .grpc_workers = 4,
        .io_workers = 2,
        /* Above what a few clients have in flight, so that a burst waits and only
         * overload is answered with fewer ops. */
        .queue = 2048,
        .max_in_flight = 512,
        .max_image_pixels = 178956970, /* Pillow's limit against decompression bombs */
        .max_file_bytes = 32u << 20,
        .jpeg_crop_huffman = "fast",
        .jpeg_index = "auto",
        .grace_s = 10,
        .prep_sched = "normal",
        .prep_io = "normal",
    };
}

struct sluice_cli_result sluice_server_options_parse(struct sluice_server_options *o, int argc,
                                                     char **argv)
{
    const struct sluice_option table[] = {
        {.name = "root",
         .type = SLUICE_OPTION_STRING,
         .value = &o->root,
         .arg = "DIR",
         .help = "Folder of the images; nothing outside it is ever read.",
         .is_required = true},
        {.name = "listen",
         .type = SLUICE_OPTION_STRING,
         .value = &o->listen,
         .arg = "HOST:PORT",
         .help = "Address to serve on; port 0 takes a free one."},
        {.name = "metrics",
         .type = SLUICE_OPTION_STRING,
         .value = &o->metrics,
         .arg = "HOST:PORT",
         .help = "Serve the counters to Prometheus under http://HOST:PORT/metrics."},
        {.name = "grpc-workers",
         .type = SLUICE_OPTION_UINT,
         .value = &o->grpc_workers,
         .arg = "N",
         .help = "Threads that read requests and write replies.",
         .min = 1,
         .max = 256},
        {.name = "prep-workers",
         .type = SLUICE_OPTION_UINT,
         .value = &o->prep_workers,
         .arg = "N",
         .help = "Threads that preprocess, which bounds the cores spent; 0 is one per core.",
         .min = 0,
         .max = 1024},
        {.name = "prep-nice",
         .type = SLUICE_OPTION_UINT,
         .value = &o->prep_nice,
         .is_given = &o->has_prep_nice,
         .arg = "N",
         .help = "Nice value of the threads that preprocess or read; not given: the process's.",
         .min = 0,
         .max = 19},
        {.name = "prep-sched",
         .type = SLUICE_OPTION_CHOICE,
         .value = &o->prep_sched,
         .choices = sched_choices,
         .help = "Their scheduling policy; idle: whatever else wants the CPU has it at once, and "
                 "nearly all of it."},
        {.name = "prep-io",
         .type = SLUICE_OPTION_CHOICE,
         .value = &o->prep_io,
         .choices = io_choices,
         .help = "Priority of their reads: as the nice value has it, last of all programs that "
                 "are not idle, or, whatever the disk's scheduler, behind everybody's."},
        {.name = "prep-cgroup",
         .type = SLUICE_OPTION_STRING,
         .value = &o->prep_cgroup,
         .arg = "PATH",
         .help = "Control group for the threads that preprocess, made if it is missing: a name "
                 "beneath the server's own, or a folder beneath /sys/fs/cgroup."},
        {.name = "prep-cpu-max",
         .type = SLUICE_OPTION_DOUBLE,
         .value = &o->prep_cpu_max,
         .arg = "CORES",
         .help = "Quota of CPU time for that group (without --prep-cgroup, one of this process); "
                 "not given: none is set.",
         .min = 0.01,
         .max = 65536},
        {.name = "io-workers",
         .type = SLUICE_OPTION_UINT,
         .value = &o->io_workers,
         .arg = "N",
         .help = "Threads that read files for replies without preprocessing.",
         .min = 1,
         .max = 1024},
        {.name = "queue",
         .type = SLUICE_OPTION_UINT,
         .value = &o->queue,
         .arg = "N",
         .help = "Samples that may wait for a preprocessing thread; beyond it the file is sent.",
         .min = 1,
         .max = 1 << 20},
        {.name = "max-in-flight",
         .type = SLUICE_OPTION_UINT,
         .value = &o->max_in_flight,
         .arg = "N",
         .help = "Samples of one stream that are worked on at once; others wait.",
         .min = 1,
         .max = 1 << 20},
        {.name = "link-limit",
         .type = SLUICE_OPTION_RATE,
         .value = &o->link_bytes_per_s,
         .arg = "RATE",
         .help = "Most that is sent per second, such as 500mbit."},
        {.name = "max-image-pixels",
         .type = SLUICE_OPTION_UINT,
         .value = &o->max_image_pixels,
         .arg = "N",
         .help = "An image whose header says more is refused before it is decoded.",
         .min = 1,
         .max = 4294836225.0},
        {.name = "max-file-bytes",
         .type = SLUICE_OPTION_BYTES,
         .value = &o->max_file_bytes,
         .arg = "SIZE",
         .help = "A larger file is refused before it is read.",
         .min = 1,
         .max = 1u << 30},
        {.name = "jpeg-crop-huffman",
         .type = SLUICE_OPTION_CHOICE,
         .value = &o->jpeg_crop_huffman,
         .choices = huffman_choices,
         .help =
             "Huffman tables of a JPEG crop: the file's, or ones made for it (smaller, slower)."},
        {.name = "jpeg-index",
         .type = SLUICE_OPTION_STRING,
         .value = &o->jpeg_index,
         .arg = "auto|off|FILE",
         .help = "Index of the JPEGs, by which only the rows a crop needs are read; auto: "
                 "ROOT/" SLUICE_JPEG_INDEX_FILE " if it is there."},
        {.name = "grace",
         .type = SLUICE_OPTION_DOUBLE,
         .value = &o->grace_s,
         .arg = "SECONDS",
         .help = "Time to answer what was accepted after SIGTERM.",
         .min = 0,
         .max = 86400},
    };
    const struct sluice_cli cli = {
        .program = "offload_server",
        .summary = "Serves images, preprocessed as far as each request asks, over gRPC.",
        .options = table,
        .num_options = SLUICE_ARRAY_LEN(table),
        .epilog = "Prints 'listening on HOST:PORT' when it is ready, and a line of JSON with its\n"
                  "counters on SIGUSR1 and at the end.  SIGTERM stops it: what was accepted is\n"
                  "answered within --grace; a second SIGTERM ends it at once.",
    };
    return sluice_cli_parse(&cli, argc, argv);
}
