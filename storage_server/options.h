#ifndef SLUICE_STORAGE_SERVER_OPTIONS_H
#define SLUICE_STORAGE_SERVER_OPTIONS_H

#include "base/roots.h"
#include "cli/cli.h"
#include "cli/cli_set.h"
#include "store/open.h"

#include <stdbool.h>
#include <stdint.h>

/* The options of a server: of offload_server, from its command line, and of a server inside another
 * program, by names and texts.
 *
 * Threads: parse at start, on the main thread; init and set on any. */

struct sluice_server_options {
    struct sluice_option_strings given_roots; /* as they were given; required */
    struct sluice_roots roots;                /* given_roots, parsed (store/open.h) */
    const char *s3_endpoint, *s3_style;       /* store/open.h; NULL: not given */
    const char *cache; /* a folder for files of a remote root (store_cache.h); NULL: no cache */
    uint64_t cache_bytes;
    const char *listen;                                 /* "127.0.0.1:50051"; port 0: a free one */
    bool is_insecure;                                   /* other machines may connect without TLS */
    const char *tls_cert, *tls_key, *tls_client_ca;     /* PEM files; NULL: none */
    const char *tokens;                                 /* token_file.h; NULL: no token is needed */
    bool has_data_transfer;                             /* also serve the original's service */
    uint64_t max_connections, max_connections_per_host; /* 0: sluice_descriptors_share() */
    uint64_t grpc_workers;
    uint64_t prep_workers;   /* 0: one for each core this process may use */
    uint64_t io_workers;     /* threads that only read files; 0: the number that suits the store */
    uint64_t queue;          /* jobs that may wait for each of the two groups */
    uint64_t max_in_flight;  /* samples of one stream between request and reply */
    double reply_wait_ms;    /* how long a reply waits for others to share a message */
    double link_bytes_per_s; /* 0: no limit */
    uint64_t max_image_pixels;
    uint64_t max_file_bytes;
    uint64_t memory_limit;         /* bytes; 0: sluice_memory_limit_default() */
    const char *jpeg_crop_huffman; /* "fast" or "optimal" */
    uint64_t jpeg_crop_restart; /* the fewest MCUs between markers; 0: ignores requests for them */
    const char *manifest;       /* a file; NULL: the root's, or a scan */
    const char *jpeg_index;     /* "auto", "off" or a file */
    bool should_verify;         /* hash the content of every file that is read */
    bool is_strict;             /* an image that is passed over is an error */
    const char *trace;          /* a file; NULL: nothing is traced */
    const char *metrics;        /* "127.0.0.1:9464"; NULL: no metrics are served */
    double self_check_s;        /* between two connections of the server to itself; 0: never */
    double grace_s;             /* for accepted requests, after a stop was requested */
    double sample_timeout_s;    /* for a worker's job (watchdog.h) */
    const char *sandbox;        /* "auto", "on" or "off" (sandbox.h); offload_server only */
    bool isolates_decoders;     /* decoders.h; offload_server only */

    /* prep_limits.h says what these mean. */
    uint64_t prep_nice; /* if has_prep_nice */
    bool has_prep_nice;
    const char *prep_sched, *prep_io, *prep_cgroup;
    double prep_cpu_max;
};

/* io_workers, or if that is 0 the most that a root's store needs. */
unsigned sluice_server_io_workers(const struct sluice_server_options *options);

/* The options of the store of the root at `place`. */
struct sluice_store_options sluice_server_store_options(const struct sluice_server_options *options,
                                                        const char *place);

/* The defaults. */
struct sluice_server_options sluice_server_options_init(void);

/* Parses the command line over the defaults.  If result.should_exit, all output is printed already;
 * do not use *options then. */
struct sluice_cli_result sluice_server_options_parse(struct sluice_server_options *options,
                                                     int argc, char **argv);

/* Changes the options that the settings name (cli/cli_set.h); checks each value as the command line
 * does.  The options then borrow from `texts`.  SLUICE_E_INVALID names the setting. */
SLUICE_MUST_USE sluice_status sluice_server_options_set(struct sluice_server_options *options,
                                                        const struct sluice_setting *settings,
                                                        size_t num_settings,
                                                        struct sluice_cli_texts *texts,
                                                        struct sluice_err *err);

#endif
