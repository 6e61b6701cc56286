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
 * THREADS    create, open, start, next, finish and close: one thread at a time for each loader, and
 *            no two at once.  stop, counters and release: any thread, at any time before close.
 *            Different loaders are independent.  No thread of the library calls back, but for the
 *            log.
 * FORK       A loader or server does not survive fork(): in the child every call but close fails
 *            with SLUICE_E_INVALID, and says so.
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
SLUICE_API const char *sluice_version(void);                     /* "0.1.0" */
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
 * are the flag's ("1GiB", "500mbit", "2m"); of a switch the value is "true" or "false".
 * `offload_train --help` lists them. */
struct sluice_setting {
    const char *key, *value;
};

/* --- loader --- */

struct sluice_loader;

/* Takes the flags of offload_train about data, place and planning, batch-size, seed and digest;
 * "dir" is the folder for mode local.  Others are refused.  SLUICE_E_INVALID names the setting, and
 * what is near to a name that is unknown. */
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

/* Connects and lists the samples, or reads the folder.  Blocks, for --retry-for at most;
 * SLUICE_E_CLOSED after stop.  Once. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_loader_open(struct sluice_loader *loader,
                                                            struct sluice_err *err);

enum sluice_part { SLUICE_TRAIN, SLUICE_VAL };

/* Of an open loader; constant. */
struct sluice_dataset_info {
    char id[33];             /* of the dataset, by its paths, sizes and labels */
    uint64_t num_samples[2]; /* by enum sluice_part, after --limit-samples */
    uint64_t num_classes;
    uint32_t height, width;           /* of a row: height x width x 3 bytes, RGB */
    bool has_normalization;           /* the pipeline goes on after u8 */
    float table[3][256];              /* its value for each u8 of a channel: exact float32 */
    uint64_t pipeline_fingerprint[2]; /* by part */
    const char *mode;                 /* "remote_auto" */
};
SLUICE_API const struct sluice_dataset_info *sluice_loader_info(const struct sluice_loader *loader);

/* The path of a sample within its dataset, or of a class; NULL: there is none such. */
SLUICE_API const char *sluice_loader_path(const struct sluice_loader *loader, uint64_t sample_id);

/* What an epoch is to deliver. */
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
    uint8_t *pixels;       /* num_rows x height x width x 3; the caller may write to it */
    int64_t *labels;       /* num_rows, and so on */
    uint64_t *ids;         /* sample ids: places in the dataset's list */
    uint32_t *draw_epochs; /* of the random crops and flips: differs with --repeat */
    uint32_t num_rows, height, width;
    uint32_t num_padded; /* of these, the last so many repeat others, so that ranks have as many */
    uint64_t epoch, index; /* index: of the global batch in its epoch */
};

/* Waits for timeout_ms at most; < 0: for ever.  *batch is NULL at the epoch's end.
 * SLUICE_E_AGAIN: none is ready yet.  SLUICE_E_CLOSED: stopped.  Other failures end the epoch. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_loader_next(struct sluice_loader *loader,
                                                            int timeout_ms,
                                                            const struct sluice_batch **batch,
                                                            struct sluice_err *err);

/* Any number of batches may be held, in any order; more than the loader's own memory has room for
 * takes more.  Any thread, also after close.  NULL is allowed. */
SLUICE_API void sluice_batch_release(const struct sluice_batch *batch);

/* The place after this batch, for sluice_epoch_start.state: JSON, at most SLUICE_MAX_STATE bytes
 * with the NUL.  The batch must be held, its loader may be closed. */
#define SLUICE_MAX_STATE 1024
SLUICE_API void sluice_batch_state(const struct sluice_batch *batch, char state[SLUICE_MAX_STATE]);

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

/* The last epoch that ended, by its last batch or by finish, as offload_train --json prints it: one
 * JSON object; loss and top1 are null.  sluice_free() it.  SLUICE_E_INVALID: none has ended. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_loader_stats(struct sluice_loader *loader,
                                                             char **json, struct sluice_err *err);

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

/* Serves the images beneath `root` from this process, as offload_server does; settings are its
 * flags ("listen": "127.0.0.1:0" by default here).  Blocks until it listens.  Limits on connections
 * (max-connections) hold where gRPC is linked into this library, else they are refused. */
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
/* Reads the list of samples again, in the background.  Any thread. */
SLUICE_API void sluice_server_reread(struct sluice_server *server);
/* Answers what was accepted, within --grace, and frees the server.  NULL is allowed. */
SLUICE_API void sluice_server_stop(struct sluice_server *server);

#ifdef __cplusplus
}
#endif

#endif
