#include "storage_server/options.h"

#include "base/host_port.h"
#include "base/text.h"
#include "datasets/jpeg_index/jpeg_index_file.h"
#include "datasets/manifest/manifest.h"
#include "image/jpeg/crop.h"
#include "metrics/metrics_server.h"

#include <string.h>

static const char *const huffman_choices[] = {"fast", "optimal", NULL};
static const char *const sched_choices[] = {"normal", "idle", NULL};
static const char *const sandbox_choices[] = {"auto", "on", "off", NULL};
static const char *const s3_styles[] = {"path", "virtual", NULL};
static const char *const io_choices[] = {"normal", "low", "idle", NULL};

enum { DATA, NET, ACCESS, WORK, OTHERS, WATCH };
static const char *const groups[] = {
    [DATA] = "data",
    [NET] = "network",
    [ACCESS] = "who may connect",
    [WORK] = "workers",
    [OTHERS] = "other programs of this node come first",
    [WATCH] = "monitoring and shutdown",
    NULL,
};

/* The table's values point here.  sluice_server_options_parse() uses it while it runs; others use
 * only the offsets from it. */
static struct sluice_server_options given;

static const struct sluice_option table[] = {
    {.name = "root",
     .group = DATA,
     SLUICE_VALUE_STRINGS(given.given_roots, "[NAME=]DIR|URL"),
     .help = "Folder of the images; or s3://BUCKET/PREFIX, a bucket of S3 or of what speaks as it "
             "does; or http(s)://HOST/FOLDER/LIST, a web server's folder, and in it a file that "
             "lists the images. Nothing outside of it is ever read. Given several times, each with "
             "a NAME: one dataset of them all, in which paths begin with NAME/.",
     .is_required = true},
    {.name = "s3-endpoint",
     .group = DATA,
     SLUICE_VALUE_STRING(given.s3_endpoint, "URL"),
     .help = "Where the bucket of --root s3://... is, as https://HOST:PORT. Credentials come from "
             "the environment or the files of ~/.aws, as with AWS's own tools.",
     .default_text = "AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, or AWS itself"},
    {.name = "s3-style",
     .group = DATA,
     SLUICE_VALUE_CHOICE(given.s3_style, "STYLE"),
     .choices = s3_styles,
     .help = "How a URL names the bucket. path: https://HOST/BUCKET; virtual: https://BUCKET.HOST.",
     .default_text = "path with an endpoint, virtual at AWS"},
    {.name = "cache",
     .group = DATA,
     SLUICE_VALUE_STRING(given.cache, "DIR"),
     .help = "Keep what a bucket or web server sent in this folder of a local disk, which is made "
             "if it is missing, and belongs to this server alone. It may be lost at any time.",
     .default_text = "nothing is kept"},
    {.name = "cache-bytes",
     .group = DATA,
     SLUICE_VALUE_BYTES(given.cache_bytes, "SIZE"),
     SLUICE_RANGE(1u << 20, 1e15),
     .help = "The most that the files of --cache take.",
     .default_text = "--cache needs it"},
    {.name = "listen",
     .group = NET,
     SLUICE_VALUE_STRING(given.listen, "HOST:PORT"),
     .help = "Address to serve on. Without a HOST (\":50051\") all of this machine's, which needs "
             "--tls-cert or --insecure, as does any but this machine's own 127.0.0.1; port 0 takes "
             "a free one."},
    {.name = "insecure",
     .group = ACCESS,
     SLUICE_VALUE_FLAG(given.is_insecure),
     .help = "Listen at an address of other machines without TLS: whoever reaches it reads every "
             "sample. For a network that you trust."},
    {.name = "tls-cert",
     .group = ACCESS,
     SLUICE_VALUE_STRING(given.tls_cert, "FILE"),
     .help = "Encrypt with TLS 1.2 or newer: this server's certificate in PEM, followed by those "
             "between it and its CA. Read again when it changes, and at SIGHUP.",
     .default_text = "no TLS"},
    {.name = "tls-key",
     .group = ACCESS,
     SLUICE_VALUE_STRING(given.tls_key, "FILE"),
     .help = "The key of --tls-cert, in PEM, without a passphrase."},
    {.name = "tls-client-ca",
     .group = ACCESS,
     SLUICE_VALUE_STRING(given.tls_client_ca, "FILE"),
     .help = "Take only clients that show a certificate of this CA (mutual TLS).",
     .default_text = "clients need no certificate"},
    {.name = "tokens",
     .group = ACCESS,
     SLUICE_VALUE_STRING(given.tokens, "FILE"),
     .help = "Take only calls with a token of this file, which has a line for each: its name, its "
             "hash ('offload_server --hash-token NAME' prints the line for a token on standard "
             "input), and what it may take. SIGHUP reads it again.",
     .default_text = "no token is needed"},
    {.name = "data-transfer",
     .group = ACCESS,
     SLUICE_VALUE_FLAG(given.has_data_transfer),
     .help = "Serve the DataTransfer service of the original implementation, too, to its clients."},
    {.name = "max-connections",
     .group = NET,
     SLUICE_VALUE_UINT(given.max_connections, "N"),
     SLUICE_RANGE(1, 50000),
     .help = "Connections of clients at once; one more is closed as it comes.",
     .default_text = "as many as 'ulimit -n' leaves room for, at most 8192"},
    {.name = "max-connections-per-host",
     .group = NET,
     SLUICE_VALUE_UINT(given.max_connections_per_host, "N"),
     SLUICE_RANGE(1, 50000),
     .help = "The same for each host: an IPv4 address, or an IPv6 network of 64 bits. Behind a "
             "proxy all clients are one host.",
     .default_text = "half of --max-connections"},
    {.name = "trace",
     .group = WATCH,
     SLUICE_VALUE_STRING(given.trace, "FILE"),
     .help = "Append the route of the samples that a client wants traced (its --trace-sample) to "
             "this file, as OpenTelemetry's spans in lines of JSON, 1000 a second at most.",
     .default_text = "nothing is traced"},
    {.name = "metrics",
     .group = WATCH,
     SLUICE_VALUE_STRING(given.metrics, "HOST:PORT"),
     .help = "Serve the counters to Prometheus at http://HOST:PORT/metrics, and the health at "
             "/healthz. :PORT: at every address; PORT: to this machine alone.",
     .default_text = "not served"},
    {.name = "grpc-workers",
     .group = NET,
     SLUICE_VALUE_UINT(given.grpc_workers, "N"),
     SLUICE_RANGE(1, 256),
     .help = "Threads that read requests and write replies."},
    {.name = "prep-workers",
     .group = WORK,
     SLUICE_VALUE_UINT(given.prep_workers, "N"),
     SLUICE_RANGE(0, 1024),
     .help = "Threads that preprocess, and so the most cores that preprocessing takes; 0: one for "
             "each core."},
    {.name = "prep-nice",
     .group = OTHERS,
     SLUICE_VALUE_UINT(given.prep_nice, "N"),
     .is_given = &given.has_prep_nice,

     SLUICE_RANGE(0, 19),
     .help = "Nice value, 0 to 19, of the threads that preprocess or read files.",
     .default_text = "the process's"},
    {.name = "prep-sched",
     .group = OTHERS,
     SLUICE_VALUE_CHOICE(given.prep_sched, "POLICY"),
     .choices = sched_choices,
     .help = "Scheduling policy of these threads. idle: they run almost only when no other program "
             "wants the CPU."},
    {.name = "prep-io",
     .group = OTHERS,
     SLUICE_VALUE_CHOICE(given.prep_io, "PRIORITY"),
     .choices = io_choices,
     .help =
         "Priority of the reads of these threads. normal: follows the nice value; low: after every "
         "program that is not idle; idle: after everybody, whatever the scheduler of the disk."},
    {.name = "prep-cgroup",
     .group = OTHERS,
     SLUICE_VALUE_STRING(given.prep_cgroup, "PATH"),
     .help = "Control group for the threads that preprocess, created if it is missing: a name "
             "beneath the group of the server, or a folder beneath /sys/fs/cgroup."},
    {.name = "prep-cpu-max",
     .group = OTHERS,
     SLUICE_VALUE_DOUBLE(given.prep_cpu_max, "CORES"),
     SLUICE_RANGE(0.01, 65536),
     .help = "Quota of CPU time for that control group, in cores (0.5 is half a core); without "
             "--prep-cgroup for a group of its own.",
     .default_text = "no quota"},
    {.name = "io-workers",
     .group = WORK,
     SLUICE_VALUE_UINT(given.io_workers, "N"),
     SLUICE_RANGE(0, 1024),
     .help = "Threads that read files for replies without preprocessing, and from a bucket or web "
             "server all files; 0: 2 for a folder, 64 for the others.",
     .default_text = "0"},
    {.name = "queue",
     .group = WORK,
     SLUICE_VALUE_UINT(given.queue, "N"),
     SLUICE_RANGE(1, 1 << 20),
     .help =
         "Samples that may wait for a preprocessing thread; beyond that the whole file is sent."},
    {.name = "max-in-flight",
     .group = NET,
     SLUICE_VALUE_UINT(given.max_in_flight, "N"),
     SLUICE_RANGE(1, 1 << 20),
     .help = "Samples of one stream that are worked on at once; further requests wait."},
    {.name = "reply-wait",
     .group = NET,
     SLUICE_VALUE_MS(given.reply_wait_ms, "MS"),
     SLUICE_RANGE(0, 1000),
     .help = "How long a small reply waits for others of its stream: one message for all "
             "of them saves CPU time on both nodes."},
    {.name = "link-limit",
     .group = NET,
     SLUICE_VALUE_RATE(given.link_bytes_per_s, "RATE"),
     .help =
         "Most that is sent per second, in Mbit/s or with a unit (1Gbps, 60MB/s); none: no limit."},
    {.name = "memory-limit",
     .group = WORK,
     SLUICE_VALUE_BYTES(given.memory_limit, "SIZE"),
     SLUICE_RANGE(1u << 25, 1e15),
     .help =
         "Memory that requests, replies and work on them may take, beside what the server has at "
         "its start. Who is over its share waits, or is sent the file.",
     .default_text = "half of what the machine, the control group or ulimit leaves"},
    {.name = "max-image-pixels",
     .group = DATA,
     SLUICE_VALUE_UINT(given.max_image_pixels, "N"),
     SLUICE_RANGE(1, 4294836225.0),
     .help = "Refuse an image whose header names more pixels, before it is decoded."},
    {.name = "max-file-bytes",
     .group = DATA,
     SLUICE_VALUE_BYTES(given.max_file_bytes, "SIZE"),
     SLUICE_RANGE(1, 1u << 30),
     .help = "Refuse a larger file, before it is read."},
    {.name = "jpeg-crop-huffman",
     .group = DATA,
     SLUICE_VALUE_CHOICE(given.jpeg_crop_huffman, "TABLES"),
     .choices = huffman_choices,
     .help = "Huffman tables of the JPEG crops that are sent. fast: those of the file; optimal: "
             "made for each crop, which is smaller and slower."},
    {.name = "jpeg-crop-restart",
     .group = DATA,
     SLUICE_VALUE_UINT(given.jpeg_crop_restart, "N"),
     .max = SLUICE_JPEG_MAX_RESTART_INTERVAL,
     .help = "The fewest JPEG blocks (MCUs) between two restart markers of a JPEG crop. A client "
             "that decodes with many threads asks for such markers; one that asks for a shorter "
             "interval gets this one. 0: none for anybody, but one for each row of blocks."},
    {.name = "manifest",
     .group = DATA,
     SLUICE_VALUE_STRING(given.manifest, "FILE"),
     .help = "The list of samples that 'offload_dataset index --out FILE' wrote, for a ROOT that "
             "cannot be written to. SIGHUP reads it again.",
     .default_text = "ROOT/" SLUICE_MANIFEST_FILE " if it exists, else ROOT is scanned"},
    {.name = "jpeg-index",
     .group = DATA,
     SLUICE_VALUE_STRING(given.jpeg_index, "auto|off|FILE"),
     .help = "Index of the JPEGs, with which only the rows that a crop needs are read. auto: "
             "ROOT/" SLUICE_JPEG_INDEX_FILE " if that exists."},
    {.name = "self-check",
     .group = WATCH,
     SLUICE_VALUE_SECONDS(given.self_check_s, "SECONDS"),
     SLUICE_RANGE(0, 3600),
     .help = "Time from one connection of the server to itself to the next. If six in a row fail, "
             "the server ends with exit code 4. 0: no such check."},
    {.name = "sample-timeout",
     .group = WORK,
     SLUICE_VALUE_SECONDS(given.sample_timeout_s, "SECONDS"),
     SLUICE_RANGE(0.1, 86400),
     .help = "Time that a thread may take to read and preprocess one sample, as when a disk "
             "hangs. Then the sample is answered with an error, which the client tries again. "
             "After half of it the server says that it is not healthy."},
    {.name = "sandbox",
     .group = DATA,
     SLUICE_VALUE_CHOICE(given.sandbox, "MODE"),
     .choices = sandbox_choices,
     .help = "Give up, before anything is read, what serving does not need: other files, other "
             "ports, other programs. auto: as far as this kernel can, and the folder around the "
             "root stays readable, for a root that is replaced; on: all of it, or an error; off: "
             "nothing."},
    {.name = "isolate-decoders",
     .group = DATA,
     SLUICE_VALUE_FLAG(given.isolates_decoders),
     .help = "Parse images in processes of their own, one for each preprocessing thread, which may "
             "open no file and no connection. A file that makes one crash, hang or take too much "
             "memory costs that sample, and the server goes on."},
    {.name = "verify",
     .group = DATA,
     SLUICE_VALUE_FLAG(given.should_verify),
     .help = "Compare the content of every file that is read with the hash that offload_dataset "
             "index wrote. Without: length and time, and the content if the time differs."},
    {.name = "strict",
     .group = DATA,
     SLUICE_VALUE_FLAG(given.is_strict),
     .help = "End with an error if files may be images and are not read, as .avif, "
             "instead of a warning that counts them."},
    {.name = "grace",
     .group = WATCH,
     SLUICE_VALUE_SECONDS(given.grace_s, "SECONDS"),
     SLUICE_RANGE(0, 86400),
     .help = "Time after SIGTERM in which accepted requests are still answered."},
};

static sluice_status check_given(const struct sluice_cli_result *parsed, struct sluice_err *err);

static const struct sluice_cli cli = {
    .program = "offload_server",
    .check = check_given,
    .summary = "Serves images, preprocessed as far as each request asks, over gRPC.",
    .options = table,
    .num_options = SLUICE_ARRAY_LEN(table),
    .groups = groups,
    .epilog =
        "Prints 'listening on HOST:PORT' when it is ready, and its counters as a line of JSON "
        "on SIGUSR1 and at the end. SIGHUP reads the list of samples, the certificates and the "
        "tokens again. SIGTERM stops it: what "
        "was accepted is answered within "
        "--grace, and a second later the process has ended, with exit code 3 if requests were "
        "left without an answer; a second SIGTERM ends it at once. 'offload_server --hash-token "
        "NAME' "
        "prints the line of --tokens for a token that it reads from standard input.",
};

struct sluice_server_options sluice_server_options_init(void)
{
    return (struct sluice_server_options){
        .listen = "127.0.0.1:50051",
        .grpc_workers = 4,
        /* Above what a few clients have in flight, so that a burst waits and only
         * overload is answered with fewer ops. */
        .queue = 2048,
        .max_in_flight = 512,
        .reply_wait_ms = 3,
        .max_image_pixels = 178956970, /* Pillow's limit against decompression bombs */
        .max_file_bytes = 32u << 20,
        .jpeg_crop_huffman = "fast",
        .jpeg_crop_restart = 1,
        .jpeg_index = "auto",
        .self_check_s = 10,
        .grace_s = 10,
        .sample_timeout_s = 60,
        .prep_sched = "normal",
        .prep_io = "normal",
        .sandbox = "auto",
    };
}

static sluice_status check_metrics(const char *text, struct sluice_err *err)
{
    struct sluice_host_port address;
    return text ? sluice_metrics_listen_parse(text, &address, err) : SLUICE_OK;
}

/* An address that the sockets' own parser might take for another one (port 99999 for 34463). */
static sluice_status check_listen(const char *text, struct sluice_err *err)
{
    struct sluice_host_port address;
    if (sluice_starts_with(text, "unix:") || sluice_starts_with(text, "unix-abstract:"))
        return SLUICE_OK;
    return sluice_host_port_parse(text, -1, &address, err);
}

unsigned sluice_server_io_workers(const struct sluice_server_options *options)
{
    unsigned most = 0;
    for (size_t i = 0; i < options->roots.num; i++) {
        const unsigned one = sluice_store_parallel_reads(options->roots.at[i].place);
        most = one > most ? one : most;
    }
    return options->io_workers ? (unsigned)options->io_workers : most;
}

struct sluice_store_options sluice_server_store_options(const struct sluice_server_options *options,
                                                        const char *place)
{
    return (struct sluice_store_options){
        .root = place,
        .max_object_bytes = options->max_file_bytes,
        /* Less than half: the watchdog does not call a worker hanging for it. */
        .patience_ms = (unsigned)(options->sample_timeout_s * 450) + 1,
        .s3_endpoint = options->s3_endpoint,
        .s3_style = options->s3_style,
    };
}

static bool is_file(const char *jpeg_index)
{
    return strcmp(jpeg_index, "auto") != 0 && strcmp(jpeg_index, "off") != 0;
}

/* Parses the roots, if they are there already. */
static sluice_status take_roots(struct sluice_server_options *options, const char *dashes,
                                struct sluice_err *err)
{
    const struct sluice_option_strings *given_roots = &options->given_roots;
    struct sluice_err why = {0};
    if (given_roots->num_items == 0)
        return SLUICE_OK;
    sluice_status status =
        sluice_roots_parse(given_roots->items, given_roots->num_items, &options->roots, &why);
    for (size_t i = 0; status == SLUICE_OK && i < options->roots.num; i++) {
        const struct sluice_store_options store =
            sluice_server_store_options(options, options->roots.at[i].place);
        status = sluice_store_check(&store, &why);
    }
    if (status != SLUICE_OK)
        return sluice_fail(err, SLUICE_E_INVALID, "%sroot: %s", dashes, why.text);
    const bool has_names = options->roots.at[0].name[0];
    const char *for_one = options->manifest              ? "manifest"
                          : is_file(options->jpeg_index) ? "jpeg-index"
                                                         : NULL;
    if (has_names && for_one)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s%s FILE is for one root without a name; roots with names have theirs "
                           "beside their files",
                           dashes, for_one);
    return SLUICE_OK;
}

/* Is a server with these options closed to whom it should be? */
static sluice_status check_access(const struct sluice_server_options *options, const char *dashes,
                                  struct sluice_err *err)
{
    const bool has_tls = options->tls_cert != NULL;
    const bool is_open = !sluice_is_loopback(options->listen);
    char roots[SLUICE_ROOTS_TEXT];
    sluice_roots_format(&options->roots, roots);
    if (has_tls != (options->tls_key != NULL))
        return sluice_fail(err, SLUICE_E_INVALID, "%stls-cert and %stls-key go together", dashes,
                           dashes);
    if (options->tls_client_ca && !has_tls)
        return sluice_fail(err, SLUICE_E_INVALID, "%stls-client-ca needs %stls-cert and %stls-key",
                           dashes, dashes, dashes);
    if (options->tokens && is_open && !has_tls)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%stokens at %s needs %stls-cert and %stls-key: anybody on the way "
                           "could read the tokens, and no client sends one in the clear",
                           dashes, options->listen, dashes, dashes);
    if (is_open && !has_tls && !options->is_insecure)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%slisten %s: without TLS anyone who reaches this address may read "
                           "every sample beneath %s, and anyone on the way sees them pass; give "
                           "%stls-cert and %stls-key, or %sinsecure if that network is trusted",
                           dashes, options->listen, options->roots.num ? roots : "the root", dashes,
                           dashes, dashes);
    return SLUICE_OK;
}

/* Checks of several options together.  `dashes` precede a name. */
static sluice_status check(struct sluice_server_options *options, const char *dashes,
                           struct sluice_err *err)
{
    struct sluice_err why = {0};
    const sluice_status status = take_roots(options, dashes, err);
    if (status != SLUICE_OK)
        return status;
    if (options->cache && !options->cache_bytes)
        return sluice_fail(err, SLUICE_E_INVALID, "%scache: say how much with %scache-bytes SIZE",
                           dashes, dashes);
    if (options->cache_bytes && !options->cache)
        return sluice_fail(err, SLUICE_E_INVALID, "%scache-bytes: name a folder with %scache DIR",
                           dashes, dashes);
    for (size_t i = 0; options->cache && i < options->roots.num; i++) {
        if (!sluice_store_is_remote(options->roots.at[i].place))
            return sluice_fail(err, SLUICE_E_INVALID,
                               "%scache: the root %s is a folder, which needs none: it is for "
                               "buckets and web servers",
                               dashes, options->roots.at[i].place);
    }
    if (check_listen(options->listen, &why) != SLUICE_OK)
        return sluice_fail(err, SLUICE_E_INVALID, "%slisten: %s", dashes, why.text);
    if (check_metrics(options->metrics, &why) != SLUICE_OK)
        return sluice_fail(err, SLUICE_E_INVALID, "%smetrics: %s", dashes, why.text);
    return check_access(options, dashes, err);
}

static sluice_status check_given(const struct sluice_cli_result *parsed, struct sluice_err *err)
{
    (void)parsed;
    return check(&given, "--", err);
}

struct sluice_cli_result sluice_server_options_parse(struct sluice_server_options *options,
                                                     int argc, char **argv)
{
    given = *options;
    const struct sluice_cli_result result = sluice_cli_parse(&cli, argc, argv);
    *options = given;
    return result;
}

sluice_status sluice_server_options_set(struct sluice_server_options *options,
                                        const struct sluice_setting *settings, size_t num_settings,
                                        struct sluice_cli_texts *texts, struct sluice_err *err)
{
    struct sluice_server_options set = *options;
    const ptrdiff_t offset = sluice_cli_offset(&given, &set);
    for (size_t i = 0; i < num_settings; i++) {
        const sluice_status status = sluice_cli_set(table, SLUICE_ARRAY_LEN(table), offset, texts,
                                                    settings[i].key, settings[i].value, err);
        if (status != SLUICE_OK)
            return status;
    }
    const sluice_status status = check(&set, "", err);
    if (status == SLUICE_OK)
        *options = set;
    return status;
}
