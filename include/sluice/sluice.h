#ifndef SLUICE_SLUICE_H
#define SLUICE_SLUICE_H

/* libsluice: batches of preprocessed images from a storage server or a folder, in one global order,
 * the same bytes in every mode.
 *
 *     struct sluice_err err = {0};
 *     struct sluice_loader *loader;
 *     const struct sluice_setting settings[] = {{"host", "storage:50051"}, {"batch-size", "256"}};
 *     sluice_loader_create(settings, 2, &loader, &err);          options are checked
 *     sluice_loader_open(loader, &err);                           connects, lists the samples
 *     sluice_loader_start(loader, &(struct sluice_epoch_start){.epoch = 0}, &err);
 *     for (;;) {
 *         const struct sluice_batch *batch;
 *         if (sluice_loader_next(loader, -1, &batch, &err) || !batch)
 *             break;
 *         ... batch->pixels, batch->labels ...
 *         sluice_batch_release(batch);
 *     }
 *     sluice_loader_finish(loader);
 *     sluice_loader_close(loader);
 *
 * ERRORS     A function that can fail returns a sluice_status, and fills `err` (optional; zero it
 *            first) with a sentence that names the flag, sample or file.  Out-parameters stay
 *            untouched on failure.
 * OWNERSHIP  Settings and texts that are passed in are copied.  A batch is the caller's until it
 *            releases it: its memory is not written to meanwhile.  What sluice_..._text() and the
 *            like return is freed with sluice_free().
 * THREADS    What takes a loader: one thread at a time for each, and no two calls at once.  stop,
 *            counters, pass, stats and summary: any thread, at any time before close.  Release of
 *            a batch: any thread, also after.  Different loaders are independent.  No thread of
 *            the library calls back, but for the log.
 * FORK       A loader or server does not survive fork(): in the child every call but close fails
 *            with SLUICE_E_INVALID, and says so.
 * PROCESS    The process is its host's.  No signal handler is installed, no limit, locale or
 *            working directory changed, no setting of malloc or of jansson's allocator, nothing
 *            written to stdout; to stderr, log lines only.  Threads have the signal mask of the
 *            thread that made the call, and end with their object; those of gRPC, which starts with
 *            the first server or connection, stay.  gRPC's log lines come with ours, unless
 *            GRPC_VERBOSITY or GRPC_TRACE is set.  While gRPC 1.51 starts, GRPC_EXPERIMENTS is in
 *            the environment, unless it is set already; and absl's search for deadlocks is turned
 *            off where Debian 12's is loaded.
 *
 * C11 and C++. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_API __attribute__((visibility("default")))
#ifndef SLUICE_MUST_USE
#define SLUICE_MUST_USE __attribute__((warn_unused_result))
#endif

/* --- status --- */

typedef enum sluice_status {
    SLUICE_OK = 0,
    SLUICE_E_INVALID,     /* the caller's argument, option or request is wrong */
    SLUICE_E_CORRUPT,     /* bytes from outside are not what they claim to be */
    SLUICE_E_UNSUPPORTED, /* a feature we do not have, or data above a limit on what comes in */
    SLUICE_E_NOT_FOUND,
    SLUICE_E_IO,        /* the operating system or the network said no */
    SLUICE_E_NO_MEMORY, /* memory is short now: the same may succeed later */
    SLUICE_E_AGAIN,     /* nothing is wrong; there is no room or nothing ready */
    SLUICE_E_CLOSED,    /* the object is shutting down */
    SLUICE_E_INTERNAL,  /* an invariant broke: a bug of ours */
    SLUICE_E_STALE,     /* the data changed since it was listed, indexed or hashed */
#define SLUICE_NUM_STATUS (SLUICE_E_STALE + 1)
} sluice_status;

struct sluice_err {
    char text[640]; /* empty until the first failure; zero-initialise */
};

SLUICE_API const char *sluice_status_name(sluice_status status); /* "not found" */
SLUICE_API const char *sluice_version(void);                     /* "MAJOR.MINOR.PATCH" */
SLUICE_API void sluice_free(void *memory);                       /* NULL is allowed */

/* --- log --- */

enum sluice_log_level {
    SLUICE_LOG_ERROR,
    SLUICE_LOG_WARN,
    SLUICE_LOG_INFO, /* the default */
    SLUICE_LOG_DEBUG,
};

/* Where the library's lines go: one call a line, without a newline, from any thread, several at
 * once; it must not call the library.  NULL: to stderr, as before the first call. */
typedef void sluice_log_fn(void *ctx, enum sluice_log_level level, const char *text);
SLUICE_API void sluice_set_log(sluice_log_fn *log, void *ctx, enum sluice_log_level least);

/* --- settings --- */

/* An option by its name: that of a flag of offload_train or offload_server, without dashes.  Units
 * are the flag's ("1GiB", "500mbit", "2m"); of a switch the value is "true" or "false".  A setting
 * twice has the last value, but "host" adds a shard each time, and "dir" and "root" add a root.
 * `offload_train --help` lists them. */
struct sluice_setting {
    const char *key, *value;
};

/* --- words that counters and statistics share --- */

/* The resources that a sample needs on its way from the file to the model; also the causes of
 * waits. */
enum sluice_resource {
    SLUICE_DISK,
    SLUICE_STORAGE_CPU,
    SLUICE_NETWORK,
    SLUICE_RECEIVE, /* the thread that receives on the compute node */
    SLUICE_COMPUTE_CPU,
    SLUICE_PCIE, /* of waits: the GPU as a maker of batches: copies to it, and its decoding */
    SLUICE_GPU,  /* of waits: the caller's own time, on any device */
    SLUICE_NUM_RESOURCES,
};
SLUICE_API const char *sluice_resource_name(enum sluice_resource resource); /* "storage_cpu" */

/* How a sample crosses the wire; its split says how many ops of the pipeline were done before. */
enum sluice_form {
    SLUICE_FORM_RAW,       /* split 0: the file's bytes */
    SLUICE_FORM_JPEG_CROP, /* split 0: a JPEG of the MCUs that the coming crop needs */
    SLUICE_FORM_U8,        /* u8 splits: height x width x channels */
    SLUICE_FORM_U8_PACKED, /* u8 splits: the same pixels, losslessly coded */
    SLUICE_FORM_F32,       /* f32 splits: channels x height x width, little endian */
    SLUICE_FORM_JPEG_ROWS, /* split 0: of an indexed JPEG's bytes those that the coming crop needs
                            */
    SLUICE_NUM_FORMS,
};
SLUICE_API const char *sluice_form_name(enum sluice_form form); /* "jpeg_crop" */
#define SLUICE_MAX_OPS 8                                        /* of a pipeline */

/* The kind of a target: values that a dataset has for each sample in addition to its label
 * (`offload_dataset index --target`). */
enum sluice_target_kind {
    SLUICE_TARGETS_NONE,
    SLUICE_TARGETS_VECTOR, /* target_dim float32 */
    SLUICE_TARGETS_BYTES,  /* of any length */
};

/* --- loader --- */

struct sluice_loader;

/* Takes the flags of offload_train about data, place, planning and profiling, batch-size, seed and
 * digest; "dir" is the folder for mode local, "NAME=DIR" each of several.  Others are refused.
 * SLUICE_E_INVALID names the setting, and what is near to a name that is unknown. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_loader_create(const struct sluice_setting *settings,
                                                              size_t num_settings,
                                                              struct sluice_loader **loader,
                                                              struct sluice_err *err);

/* Memory for batches, for example page-locked.  Called by open, start, next and release, on their
 * threads.  Before the first start. */
struct sluice_host_memory {
    /* 64-byte aligned; at least `bytes`. */
    sluice_status (*alloc)(void *ctx, size_t bytes, void **memory, struct sluice_err *err);
    void (*free)(void *ctx, void *memory, size_t bytes);
    void *ctx; /* borrowed until the last batch is released and the loader is closed */
    /* Rate of uploads from it to the device, for the plan; 0: not known. */
    double upload_bytes_per_s;
};
SLUICE_API void sluice_loader_set_memory(struct sluice_loader *loader,
                                         const struct sluice_host_memory *memory);

/* Connects and lists the samples, for --retry-for at most, or walks over the folder.  Blocks;
 * SLUICE_E_CLOSED after stop, which ends either.  Once. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_loader_open(struct sluice_loader *loader,
                                                            struct sluice_err *err);

enum sluice_part { SLUICE_TRAIN, SLUICE_VAL };

/* Facts of an open loader; constant. */
struct sluice_dataset_info {
    char id[33];             /* of the dataset, by its paths, sizes and labels */
    uint64_t num_samples[2]; /* by enum sluice_part, after --limit-samples */
    uint64_t num_classes;
    /* The training part's rows; sluice_loader_row_format() has either part's. */
    uint32_t height, width;           /* of a row: height x width x 3 bytes, RGB */
    bool has_normalization;           /* the pipeline goes on after u8 */
    float table[3][256];              /* its value for each u8 of a channel: exact float32 */
    uint64_t pipeline_fingerprint[2]; /* by part */
    const char *mode;                 /* "remote_auto" */
    enum sluice_target_kind target_kind;
    uint32_t target_dim; /* of vectors */
    uint32_t rank, world_size;
};
SLUICE_API const struct sluice_dataset_info *sluice_loader_info(const struct sluice_loader *loader);

/* The rows of a part. */
struct sluice_row_format {
    uint32_t height, width; /* of a row: height x width x 3 bytes, RGB */
    bool has_normalization; /* the pipeline goes on after u8 */
    float table[3][256];    /* its value for each u8 of a channel: exact float32 */
};
/* The loader must be open; the result is constant. */
SLUICE_API const struct sluice_row_format *
sluice_loader_row_format(const struct sluice_loader *loader, enum sluice_part part);

/* The path of a sample within its dataset, or of a class; NULL: unknown id. */
SLUICE_API const char *sluice_loader_path(const struct sluice_loader *loader, uint64_t sample_id);

/* A sample of a part as it comes in an epoch. */
struct sluice_drawn_sample {
    enum sluice_part part;
    uint64_t sample_id;
    uint32_t epoch, draw_epoch; /* as of its batch, and of its row */
    /* The size of the image, turned upright if the pipeline turns it.  0: as the dataset's list
     * says, or else the file, which is read if it is of this machine. */
    uint32_t width, height;
};
/* The parameters that every op draws for it, in order, as a JSON array, so that another library can
 * be given the same (docs/RECIPES.md); free it with sluice_free().  The loader must be open.
 * SLUICE_E_NOT_FOUND: unknown id.  SLUICE_E_INVALID: the size is not known, because the server's
 * dataset is not indexed, or because the pipeline turns images upright by files that only the
 * server has. */
SLUICE_API SLUICE_MUST_USE sluice_status
sluice_loader_draws(const struct sluice_loader *loader, const struct sluice_drawn_sample *sample,
                    char **json, struct sluice_err *err);

/* The target of a sample of an open loader's dataset: target_dim float32s, at an
 * address that is a multiple of 4, or bytes that may be anywhere; *bytes says how many.  They stay
 * until the loader is closed.  NULL: unknown id, or a dataset without targets. */
SLUICE_API const void *sluice_loader_target(const struct sluice_loader *loader, uint64_t sample_id,
                                            size_t *bytes);

/* Where the batches of an open loader are: a CUDA device, by its number in this process, or -1: in
 * the host's memory.  They are on a device with the setting gpu-decode "on", and with "auto" where
 * there is one that can be used; "off" is the default here.  The device's memory that the loader
 * takes is bounded by gpu-memory.  Of the host's memory it page-locks half of prefetch-bytes, but
 * room for three batches, for rows that the CPU makes, and for five batches 0.14 MB a row, less
 * where gpu-memory is short, from which files are uploaded; all before the first batch.  Where that
 * cannot be had, open or the first start says how much was asked for; with "auto" open lets the CPU
 * decode.  next() fails with SLUICE_E_NO_MEMORY if the caller holds every batch that there is
 * memory for, and goes on when one is released. */
SLUICE_API int sluice_loader_device(const struct sluice_loader *loader);

/* The samples that an epoch delivers. */
struct sluice_epoch_start {
    enum sluice_part part;
    uint64_t epoch;
    /* If not NULL: this rank's positions (0 .. num_samples) in the part, in the order of delivery,
     * in place of the loader's own shuffle; rank and world size then do nothing.  Copied. */
    const uint64_t *order;
    size_t num_order;
    /* If not NULL: what sluice_batch_state() or sluice_loader_state() gave; part and epoch are
     * those that it says.  SLUICE_E_INVALID: it is of another dataset, pipeline, seed or global
     * batch, with both sides' values and what to do. */
    const char *state;
};

/* Prefetching begins.  Ends the epoch before, if finish did not.  Plans on the first call. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_loader_start(struct sluice_loader *loader,
                                                             const struct sluice_epoch_start *start,
                                                             struct sluice_err *err);

/* Rows [0, num_rows) of the epoch's next batch for this rank.
 *
 * Global batch g of an epoch is items [g * G, (g + 1) * G) of the global order, G = world size *
 * batch size; rank r has rows [r * batch size, (r + 1) * batch size) of it. */
struct sluice_batch {
    /* num_rows x height x width x 3; the caller may write to it.  Of the memory that
     * sluice_loader_device() says: the host, or a CUDA device, where all of it is there for work on
     * any stream. */
    uint8_t *pixels;
    int64_t *labels;       /* num_rows, and so on */
    uint64_t *ids;         /* sample ids: places in the dataset's list */
    uint32_t *draw_epochs; /* of the random crops and flips: differs with --repeat */
    uint32_t num_rows, height, width;
    uint32_t num_padded;   /* of these, the last so many repeat others, so that ranks have as many;
                            * one that failed and was left out does not count */
    uint64_t epoch, index; /* index: of the global batch in its epoch */
    /* ns that next() waited for this batch, by what its slowest sample waited for; [SLUICE_GPU]: 0.
     */
    uint64_t wait_ns[SLUICE_NUM_RESOURCES];
};

/* Waits for timeout_ms at most; < 0: for ever.  *batch is NULL at the epoch's end.
 * SLUICE_E_AGAIN: none is ready yet.  SLUICE_E_CLOSED: stopped.  Other failures end the epoch, but
 * for that of sluice_loader_device(); SLUICE_E_NOT_FOUND: not one of its samples came. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_loader_next(struct sluice_loader *loader,
                                                            int timeout_ms,
                                                            const struct sluice_batch **batch,
                                                            struct sluice_err *err);

/* Whether next() failed because the server or the folder was out of reach for longer than
 * retry-for: the batches before are good, and sluice_loader_state() goes on after them. */
SLUICE_API bool sluice_loader_has_lost_source(const struct sluice_loader *loader);

/* Any number of batches may be held, in any order; more than the loader's own memory has room for
 * takes more, of the host's.  Any thread, also after close.  NULL is allowed. */
SLUICE_API void sluice_batch_release(const struct sluice_batch *batch);

/* As release, of a batch on a device: work that was put on `stream` (a cudaStream_t; NULL: the
 * legacy default stream) until now may still use the rows, and their next use waits for it on the
 * device. sluice_batch_release() says that nothing uses them any more. */
SLUICE_API void sluice_batch_release_after(const struct sluice_batch *batch, void *stream);

/* The place after this batch, for sluice_epoch_start.state: JSON, at most SLUICE_MAX_STATE bytes
 * with the NUL.  The batch must be held, its loader may be closed. */
#define SLUICE_MAX_STATE 1024
SLUICE_API void sluice_batch_state(const struct sluice_batch *batch, char state[SLUICE_MAX_STATE]);

/* The same after the batch that next() gave last; before the first, the place where the epoch was
 * started; after its end, the beginning of the next one.  Of an open loader. */
SLUICE_API void sluice_loader_state(const struct sluice_loader *loader,
                                    char state[SLUICE_MAX_STATE]);

/* Whether start() takes a state that the library gave; of an open loader. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_loader_check_state(
    const struct sluice_loader *loader, const char *state, struct sluice_err *err);

/* The place that a state names.  SLUICE_E_CORRUPT: not a state; SLUICE_E_UNSUPPORTED: of a later
 * version.
 */
struct sluice_place {
    enum sluice_part part;
    uint64_t epoch;
    uint64_t batch; /* the next global batch of the epoch; its end is after the last, partial one */
};
SLUICE_API SLUICE_MUST_USE sluice_status sluice_state_place(const char *state,
                                                            struct sluice_place *place,
                                                            struct sluice_err *err);

/* Batches that this rank gets in an epoch of the part, from its start. */
SLUICE_API uint64_t sluice_loader_num_batches(const struct sluice_loader *loader,
                                              enum sluice_part part);

/* Ends the epoch; after its last batch this does not wait.  Before it, what is under way is thrown
 * away.  Batches that are held stay. */
SLUICE_API void sluice_loader_finish(struct sluice_loader *loader);

/* Any thread: open, start and next return SLUICE_E_CLOSED, now and later. */
SLUICE_API void sluice_loader_stop(struct sluice_loader *loader);

/* Frees the loader.  NULL is allowed. */
SLUICE_API void sluice_loader_close(struct sluice_loader *loader);

/* --- what an epoch came to --- */

/* The result of a model's training in the epoch of the part that ended last, so that its statistics
 * have a loss.  Called when the device is done with the last batch: the epoch's time ends there. Of
 * val after train, it goes into the statistics of that training epoch, too. */
struct sluice_learned {
    uint64_t samples;
    double loss_sum; /* cross-entropy, natural log, summed over samples */
    uint64_t top1, top5;
    double lr;
    bool is_deterministic; /* the same seed gives the same weights */
};
SLUICE_API void sluice_loader_learned(struct sluice_loader *loader, enum sluice_part part,
                                      const struct sluice_learned *learned);

/* The epoch of the part that ended last, by its last batch, a failure or finish, as offload_train
 * --json prints it: one JSON object; loss and top1 are null if nothing was learned.  sluice_free()
 * it.  SLUICE_E_INVALID: none has ended. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_loader_stats(struct sluice_loader *loader,
                                                             enum sluice_part part, char **json,
                                                             struct sluice_err *err);

/* The same for a person: two lines of at most 80 columns, each with a newline, or all there is to
 * say in one long line without. */
#define SLUICE_MAX_SUMMARY 1024
SLUICE_API SLUICE_MUST_USE sluice_status sluice_loader_summary(struct sluice_loader *loader,
                                                               enum sluice_part part, bool is_long,
                                                               char text[SLUICE_MAX_SUMMARY],
                                                               struct sluice_err *err);

/* --- while it runs --- */

/* From the loader's creation on, over all epochs and both parts.  Each value stands by itself. */
struct sluice_counters {
    uint64_t samples;                   /* that next() gave */
    uint64_t batches;                   /* that the caller has asked for the next one since */
    uint64_t failed[SLUICE_NUM_STATUS]; /* samples, by status, in the batches given */
    uint64_t prefetched;                /* samples that are ready now */
    uint64_t wire_bytes;                /* of messages received, payload and fields */
    /* What arrived, by split and form.  The last split counts for those after it, too:
     * sluice_loader_choices() tells them apart. */
    uint64_t choices[SLUICE_MAX_OPS + 1][SLUICE_NUM_FORMS];
    uint64_t on_gpu[SLUICE_NUM_FORMS]; /* of those with split 0, what was decoded on the device */
    /* next()'s waits by what they were for; [SLUICE_GPU]: the caller's time between its calls. */
    uint64_t wait_ns[SLUICE_NUM_RESOURCES];
    uint64_t outages; /* times that the server was lost */
    uint64_t lost_streams, repeated_requests, hash_errors;
    /* Samples that another replica was asked for: after a loss or a silence, and to be sure. */
    uint64_t failed_over, hedged;
    /* Seconds since it began, of what lasts now; 0: it does not. */
    double waits_s, lost_s; /* next() waits for a batch; the server is lost */
};
/* Any thread; waits for nobody. */
SLUICE_API void sluice_loader_counters(const struct sluice_loader *loader,
                                       struct sluice_counters *counters);

/* Samples that arrived at one split in one form. */
struct sluice_choice_count {
    uint32_t split;
    const char *form; /* "jpeg_crop"; lives for ever */
    uint64_t samples, on_gpu;
};
/* Fills in the first `room` of those that are not 0, by split, and returns how many there are.  Any
 * thread; waits for nobody. */
SLUICE_API size_t sluice_loader_choices(const struct sluice_loader *loader,
                                        struct sluice_choice_count *counts, size_t room);

/* The pass that the counters count now: an epoch, or a part of a profile. */
struct sluice_loader_pass {
    uint64_t number; /* of passes so far; 0: none has begun */
    enum sluice_part part;
    uint64_t epoch;
    uint64_t first, total;     /* this rank's samples: before the first that comes, and all */
    uint64_t more;             /* samples of passes that follow, as far as that is known */
    bool continues;            /* the pass before: rates that were measured still hold */
    char name[32], detail[48]; /* of a profile: "part 2 of 9", "(JPEG crops)"; else "" */
};
/* Any thread; waits for nobody. */
SLUICE_API void sluice_loader_pass(struct sluice_loader *loader, struct sluice_loader_pass *pass);

/* With the settings profiling and write-profile-folder: the epoch of the train part is measured op
 * by op; after its end this measures its samples in every form that can be asked for, and writes
 * the profile that the setting profile-folder reads.  Takes several times as long as the epoch.
 * SLUICE_E_INVALID: no such epoch has ended.  SLUICE_E_CLOSED: stopped. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_loader_write_profile(struct sluice_loader *loader,
                                                                     struct sluice_err *err);

/* --- from u8 to a model's input --- */

enum sluice_dtype { SLUICE_F32, SLUICE_F16, SLUICE_BF16 };
enum sluice_layout { SLUICE_NCHW, SLUICE_NHWC };

/* out[n][c][y][x] (or [n][y][x][c]) = table[c][pixels[n][y][x][c]], rounded to nearest even for F16
 * and BF16: with sluice_dataset_info.table bit for bit torchvision's ToTensor + Normalize.  `out`
 * has num_rows * 3 * height * width elements, aligned to their size, and does not overlap `pixels`.
 * Infinities and NaNs of the table stay so; what is too large for F16 becomes infinite.  Pure; any
 * thread.  SLUICE_E_INVALID: a size of 0 or one that overflows, no such dtype or layout, or `out`
 * is not aligned. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_finish(
    const uint8_t *pixels, size_t num_rows, size_t height, size_t width, const float table[3][256],
    enum sluice_dtype dtype, enum sluice_layout layout, void *out, struct sluice_err *err);

/* --- server --- */

struct sluice_server;

/* Serves the images beneath `root` from this process, as offload_server does; NULL: those of the
 * settings "root", of which each adds one, "NAME=DIR" or "NAME=URL".  Settings are its flags
 * ("listen": "127.0.0.1:0" by default here).  Blocks until it listens, and so for a walk over the
 * folder, which nothing interrupts.  Limits on connections (max-connections) hold where gRPC is
 * linked into this library, else they are refused. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_server_start(const char *root,
                                                             const struct sluice_setting *settings,
                                                             size_t num_settings,
                                                             struct sluice_server **server,
                                                             struct sluice_err *err);
/* "HOST:PORT" that it listens on; borrowed until stop. */
SLUICE_API const char *sluice_server_address(const struct sluice_server *server);
/* The counters, as offload_server prints them at its end; sluice_free() it.  Any thread. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_server_stats(struct sluice_server *server,
                                                             char **json, struct sluice_err *err);
/* Reads the list of samples again, in the background, and certificates and tokens at once.  Any
 * thread. */
SLUICE_API void sluice_server_reread(struct sluice_server *server);
/* Answers what was accepted, within --grace, and frees the server.  NULL is allowed. */
SLUICE_API void sluice_server_stop(struct sluice_server *server);

#ifdef __cplusplus
}
#endif

#endif
