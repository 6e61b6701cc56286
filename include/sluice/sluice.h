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
 * THREADS    Functions that take a loader: one call at a time for each loader, from any thread.
 *            Exceptions: stop, counters, choices, pass, stats and summary may be called from any
 *            thread at any time before close, and a batch may be released from any thread, also
 *            after close.  Different loaders are independent.  The library's own threads call
 *            back into the program for log lines only.
 * FORK       A loader or server does not survive fork(): in the child every call but close fails
 *            with SLUICE_E_INVALID, and says so.
 * PROCESS    The library leaves the process as it is.  It installs no signal handler, changes no
 *            limit, locale or working directory, no setting of malloc or of jansson's allocator,
 *            and writes nothing to stdout and only log lines to stderr.  Its threads have the
 *            signal mask of the thread that made the call, and end with their object.  gRPC starts
 *            with the first server or connection, and its threads stay.  gRPC's log lines come
 *            with ours, unless GRPC_VERBOSITY or GRPC_TRACE is set.  While gRPC 1.51 starts,
 *            GRPC_EXPERIMENTS is in the environment, unless it is set already; and absl's deadlock
 *            detection is turned off where Debian 12's absl is loaded.
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
    SLUICE_E_UNSUPPORTED, /* a feature that the library lacks, or data above an input limit */
    SLUICE_E_NOT_FOUND,
    SLUICE_E_IO,        /* the operating system or the network reported an error */
    SLUICE_E_NO_MEMORY, /* memory is short; the same call may succeed later */
    SLUICE_E_AGAIN,     /* not an error: a queue is full or nothing is ready yet */
    SLUICE_E_CLOSED,    /* the object is shutting down */
    SLUICE_E_INTERNAL,  /* an invariant is broken: a bug in the library */
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

/* Receives the library's log lines: one call for each line, without a newline, from any thread and
 * from several at once.  It must not call the library.  NULL: lines go to stderr, the default. */
typedef void sluice_log_fn(void *ctx, enum sluice_log_level level, const char *text);
SLUICE_API void sluice_set_log(sluice_log_fn *log, void *ctx, enum sluice_log_level least);

/* --- settings --- */

/* An option.  The key is the name of a flag of offload_train or offload_server, without its leading
 * dashes.  Values have the units of the flag ("1GiB", "500mbit", "2m"); a switch is "true" or
 * "false".  If a key comes twice, the last value counts, except that each "host" adds a shard, and
 * each "dir" or "root" adds a root.  `offload_train --help` lists the options. */
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
    SLUICE_PCIE, /* as the cause of a wait: making batches on the GPU (copies and decoding) */
    SLUICE_GPU,  /* as the cause of a wait: the caller's own time, on any device */
    SLUICE_NUM_RESOURCES,
};
SLUICE_API const char *sluice_resource_name(enum sluice_resource resource); /* "storage_cpu" */

/* How a sample crosses the network.  Its split is the number of ops of the pipeline that the
 * storage node has run before. */
enum sluice_form {
    SLUICE_FORM_RAW,       /* split 0: the file's bytes */
    SLUICE_FORM_JPEG_CROP, /* split 0: a JPEG cut to the MCUs that the sample's crop needs */
    SLUICE_FORM_U8,        /* u8 splits: height x width x channels */
    SLUICE_FORM_U8_PACKED, /* u8 splits: the same pixels, losslessly compressed */
    SLUICE_FORM_F32,       /* f32 splits: channels x height x width, little endian */
    SLUICE_FORM_JPEG_ROWS, /* split 0: the bytes of an indexed JPEG that the crop needs */
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

/* The kind of a field: values that a dataset has for each sample in addition to its label, under a
 * name (`offload_dataset index --target`, `--annotations`). */
enum sluice_field_kind {
    SLUICE_FIELD_NONE,
    SLUICE_FIELD_VECTOR, /* dim float32 */
    SLUICE_FIELD_BYTES,  /* of any length */
    SLUICE_FIELD_TEXT,   /* UTF-8 */
    SLUICE_FIELD_JSON,   /* a JSON text in UTF-8 */
    /* n boxes of 20 bytes: first float32 [n][4], x1 y1 x2 y2 in pixels of the file (the edges of a
     * w x h image are 0, w, 0, h), then uint32 [n], their classes.  n may be 0. */
    SLUICE_FIELD_BOXES,
    SLUICE_FIELD_KEYPOINTS, /* float32 [n][dim][3]: x, y as of boxes, and visibility; n may be 0 */
    SLUICE_FIELD_MASK,      /* a file of an image */
    SLUICE_NUM_FIELD_KINDS,
};
SLUICE_API const char *sluice_field_kind_name(enum sluice_field_kind kind); /* "boxes" */

#define SLUICE_MAX_FIELDS 16
struct sluice_field {
    const char *name; /* UTF-8, unique within a dataset */
    enum sluice_field_kind kind;
    uint32_t dim; /* numbers of a vector, keypoints of an object; else 0 */
};

/* --- loader --- */

struct sluice_loader;

/* Takes offload_train's flags for data, place, planning and profiling, and batch-size, seed and
 * digest.  In addition, "dir" is the folder for mode local; of several folders, each is "NAME=DIR".
 * SLUICE_E_INVALID: a setting is unknown or has a bad value; the error names it, and for an unknown
 * name the nearest known one. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_loader_create(const struct sluice_setting *settings,
                                                              size_t num_settings,
                                                              struct sluice_loader **loader,
                                                              struct sluice_err *err);

/* An allocator for batches, for example of page-locked memory.  Open, start, next and release call
 * it on the thread that called them. */
struct sluice_host_memory {
    /* Returns at least `bytes` of memory, 64-byte aligned. */
    sluice_status (*alloc)(void *ctx, size_t bytes, void **memory, struct sluice_err *err);
    void (*free)(void *ctx, void *memory, size_t bytes);
    void *ctx; /* borrowed until the last batch is released and the loader is closed */
    /* Rate of uploads from this memory to the device, for the plan; 0: unknown. */
    double upload_bytes_per_s;
};
/* Call it before the first start. */
SLUICE_API void sluice_loader_set_memory(struct sluice_loader *loader,
                                         const struct sluice_host_memory *memory);

/* Connects to the server and lists the samples, or walks over the folder.  Blocks; connecting is
 * tried for the time of the setting retry-for at most.  SLUICE_E_CLOSED: stop() interrupted it.
 * Call it once. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_loader_open(struct sluice_loader *loader,
                                                            struct sluice_err *err);

enum sluice_part { SLUICE_TRAIN, SLUICE_VAL };

/* Facts of an open loader; constant. */
struct sluice_dataset_info {
    char id[33];             /* dataset id: a hash over paths, sizes and labels */
    uint64_t num_samples[2]; /* by enum sluice_part, after limit-samples */
    uint64_t num_classes;
    /* Rows of the training part; sluice_loader_row_format() returns those of either part. */
    uint32_t height, width;           /* a row is height x width x 3 bytes, RGB */
    bool has_normalization;           /* the pipeline has to_tensor and normalize after u8 */
    float table[3][256];              /* the float32 that they give for each u8 of a channel */
    uint64_t pipeline_fingerprint[2]; /* by enum sluice_part */
    const char *mode;                 /* for example "remote_auto" */
    enum sluice_target_kind target_kind;
    uint32_t target_dim; /* length of target vectors */
    uint32_t rank, world_size;
};
SLUICE_API const struct sluice_dataset_info *sluice_loader_info(const struct sluice_loader *loader);

/* The format of a part's rows; the fields are as in sluice_dataset_info. */
struct sluice_row_format {
    uint32_t height, width;
    bool has_normalization;
    float table[3][256];
};
/* The loader must be open; the result is constant. */
SLUICE_API const struct sluice_row_format *
sluice_loader_row_format(const struct sluice_loader *loader, enum sluice_part part);

/* An image that a pipeline makes of each sample.  Op views(...) makes several, of sizes of their
 * own; any other pipeline one. */
struct sluice_view {
    uint8_t *pixels; /* num_rows x height x width x 3, as sluice_batch.pixels; may be written to */
    uint32_t height, width;
};
/* The number of views of a part, at most 32.  The loader must be open; the result is constant. */
SLUICE_API unsigned sluice_loader_num_views(const struct sluice_loader *loader,
                                            enum sluice_part part);
/* The size of a view, which is below the part's number of views, without pixels; 0 x 0 with
 * buckets. */
SLUICE_API struct sluice_view sluice_loader_view(const struct sluice_loader *loader,
                                                 enum sluice_part part, unsigned view);

/* Buckets: the sizes that a part's images end in if its pipeline has op fit_bucket (the nearest to
 * the image's proportions) or multi_scale (drawn for each batch).  All rows of a batch are of one
 * bucket, whose size is the batch's; the rows of sluice_dataset_info and sluice_row_format have
 * height and width 0.  0: all rows of the part have one size.  The loader must be open; the result
 * is constant. */
SLUICE_API unsigned sluice_loader_num_buckets(const struct sluice_loader *loader,
                                              enum sluice_part part);
/* The size of a bucket, which is below their number, without pixels. */
SLUICE_API struct sluice_view sluice_loader_bucket(const struct sluice_loader *loader,
                                                   enum sluice_part part, unsigned bucket);

/* Whether the part's pipeline has an op that draws by the boxes of a sample's objects (iou_crop).
 * Batches then have their geometry.  The loader must be open; the result is constant. */
SLUICE_API bool sluice_loader_draws_by_boxes(const struct sluice_loader *loader,
                                             enum sluice_part part);

/* The path of a sample within its dataset; NULL: unknown id. */
SLUICE_API const char *sluice_loader_path(const struct sluice_loader *loader, uint64_t sample_id);

/* A sample as it comes in an epoch. */
struct sluice_drawn_sample {
    enum sluice_part part;
    uint64_t sample_id;
    uint32_t epoch, draw_epoch; /* sluice_batch.epoch, and its row's sluice_batch.draw_epochs */
    /* The size of the image, after it is turned upright if the pipeline does so.  0: take it from
     * the dataset's list, or else from the file, if the file is on this machine. */
    uint32_t width, height;
};
/* The parameters that each op draws for the sample, in the order of the ops, as a JSON array.
 * Another library can apply the same ones (docs/RECIPES.md).  Free it with sluice_free().  The
 * loader must be open.  SLUICE_E_NOT_FOUND: unknown id.  SLUICE_E_INVALID: the size is unknown,
 * because the server's dataset is not indexed, or because the pipeline turns images upright and
 * only the server has the files. */
SLUICE_API SLUICE_MUST_USE sluice_status
sluice_loader_draws(const struct sluice_loader *loader, const struct sluice_drawn_sample *sample,
                    char **json, struct sluice_err *err);

/* The fields of the dataset, numbered from 0 to sluice_loader_num_fields() - 1.  The loader must be
 * open; names are valid until it is closed.  An unknown number gives a field of kind NONE. */
SLUICE_API unsigned sluice_loader_num_fields(const struct sluice_loader *loader);
SLUICE_API struct sluice_field sluice_loader_field(const struct sluice_loader *loader,
                                                   unsigned field);
/* The value of a sample's field, in the layout of its kind; *bytes is its size.  Vectors, boxes and
 * keypoints are aligned to 4 bytes.  The memory is valid until the loader is closed.  NULL: unknown
 * id or field. */
SLUICE_API const void *sluice_loader_field_value(const struct sluice_loader *loader, unsigned field,
                                                 uint64_t sample_id, size_t *bytes);

/* The value of field 0 as a target: target_dim float32s of a vector, else bytes.  NULL: unknown id,
 * or a dataset without fields. */
SLUICE_API const void *sluice_loader_target(const struct sluice_loader *loader, uint64_t sample_id,
                                            size_t *bytes);

/* The CUDA device that holds the batches of an open loader, by its number in this process; -1: they
 * are in the host's memory.
 *
 * The setting gpu-decode decides: "on" needs a device, "auto" takes one that can be used, "off" is
 * the default here.  gpu-memory bounds the device memory that the loader takes.  Before the first
 * batch it page-locks memory of the host:
 * - for rows that the CPU makes: half of prefetch-bytes, at least room for three batches;
 * - for files to upload: 0.14 MB for each row of five batches, less where gpu-memory is short.
 * If an allocation fails, open or the first start fails and says how much was asked for; with
 * "auto", open lets the CPU decode instead.
 *
 * next() fails with SLUICE_E_NO_MEMORY while the caller holds every batch that the device has
 * memory for; it succeeds again once one is released. */
SLUICE_API int sluice_loader_device(const struct sluice_loader *loader);

/* The samples that an epoch delivers. */
struct sluice_epoch_start {
    enum sluice_part part;
    uint64_t epoch;
    /* If not NULL: this rank's positions in the part (each less than num_samples), in the order of
     * delivery.  They replace the loader's shuffle; rank and world size then have no effect.
     * Copied. */
    const uint64_t *order;
    size_t num_order;
    /* If not NULL: a result of sluice_batch_state() or sluice_loader_state().  The epoch continues
     * there; part and epoch are taken from it.  SLUICE_E_INVALID: it belongs to another dataset,
     * pipeline, seed or global batch size; the error has both values and says what to do. */
    const char *state;
};

/* Starts an epoch: prefetching begins.  Ends the previous epoch if finish() did not.  The first
 * call makes the plan. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_loader_start(struct sluice_loader *loader,
                                                             const struct sluice_epoch_start *start,
                                                             struct sluice_err *err);

/* This rank's rows of one global batch.
 *
 * Global batch g of an epoch is items [g * G, (g + 1) * G) of the global order, G = world size *
 * batch size; rank r has rows [r * batch size, (r + 1) * batch size) of it. */
struct sluice_batch {
    /* num_rows x height x width x 3, of view 0 (sluice_batch_view() returns each); the caller may
     * write to it.  It is in the host's memory or on
     * a CUDA device (sluice_loader_device()); there it is complete, for work on any stream. */
    uint8_t *pixels;
    int64_t *labels;       /* num_rows, as are the next two */
    uint64_t *ids;         /* sample ids: places in the dataset's list */
    uint32_t *draw_epochs; /* epochs of the draw keys; differ from `epoch` with --repeat */
    uint32_t num_rows, height, width;
    uint32_t num_padded;   /* the last num_padded rows repeat others, so that all ranks have the
                            * same number; a row that failed and was left out does not count */
    uint64_t epoch, index; /* index: of the global batch in its epoch */
    /* Time in ns that next() waited for this batch, by the resource that the batch's slowest sample
     * waited for; [SLUICE_GPU]: 0. */
    uint64_t wait_ns[SLUICE_NUM_RESOURCES];
};

/* A view of a batch, in the order of the pipeline's text; view 0 is also sluice_batch.pixels,
 * height and width.  All zero: the batch has fewer views, or images of sizes of their own.  The
 * batch must be held. */
SLUICE_API struct sluice_view sluice_batch_view(const struct sluice_batch *batch, unsigned view);

/* The image of a row, in a batch of one view.  With a pipeline whose images end in sizes of their
 * own (resize=SHORTER or smart_resize alone, or no op that changes sizes) the images of a batch
 * stand one after the other in its memory, height and width of the batch are 0, and it has no
 * views; a row that stands in for a failed one (on-error substitute) shares the other's pixels. 
 * All zero: `row` is too large, or the batch has several views. */
SLUICE_API struct sluice_view sluice_batch_image(const struct sluice_batch *batch, size_t row);

/* The next batch; *batch is NULL at the epoch's end.  Waits for timeout_ms at most; < 0: without
 * limit.  SLUICE_E_AGAIN: no batch is ready yet.  SLUICE_E_CLOSED: stopped.  SLUICE_E_NOT_FOUND:
 * every sample of the epoch failed.  All failures end the epoch, except SLUICE_E_AGAIN and the
 * SLUICE_E_NO_MEMORY that sluice_loader_device() describes. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_loader_next(struct sluice_loader *loader,
                                                            int timeout_ms,
                                                            const struct sluice_batch **batch,
                                                            struct sluice_err *err);

/* Whether next() failed because the server or the folder was out of reach for longer than
 * retry-for.  Earlier batches are good, and sluice_loader_state() is the place after them. */
SLUICE_API bool sluice_loader_has_lost_source(const struct sluice_loader *loader);

/* Where a row's pixels come from.  Points are in pixels from the image's upper left corner: pixel
 * (x, y) covers [x, x + 1) times [y, y + 1), and a box of all pixels is 0, 0, width, height. */
struct sluice_geometry {
    /* 3 x 3, row by row: takes (x, y, 1) of the file's image, as stored, to (u, v, w) with the
     * point (u / w, v / w) of the row.  matrix[8] is 1, and w too unless the pipeline has
     * `perspective`. All 0: every pixel of the row shows the same point. */
    double matrix[9];
    uint32_t height, width; /* of the file's image, upright if the pipeline turns it */
    uint32_t orientation;   /* EXIF's, 1 to 8, of what is turned; 5 to 8 swap height and width */
    /* The box that the first cropping op kept, in pixels of its input, or with fit_bucket of its
     * input resized; the whole image if none crops. */
    uint32_t crop_top, crop_left, crop_height, crop_width;
    bool is_flipped; /* left to right, by hflip */
};
/* The geometry of a view's rows, num_rows of them, the same to the bit in every mode; valid as long
 * as the batch.  NULL: the setting "geometry" is not "true", or the view does not exist; a pipeline
 * without views() has view 0.  Rows that repeat or replace others have theirs. */
SLUICE_API const struct sluice_geometry *sluice_batch_geometry(const struct sluice_batch *batch,
                                                               unsigned view);

/* Gives a batch back; on a device, no work may use its rows any more.  Batches may be held in any
 * number and released in any order; in the host's memory, batches beyond those that the loader has
 * room for are allocated.  Any thread, also after close.  NULL is allowed. */
SLUICE_API void sluice_batch_release(const struct sluice_batch *batch);

/* Gives a batch on a device back while work on `stream` (a cudaStream_t; NULL: the legacy default
 * stream) that was enqueued before this call may still use its rows.  The next batch in this memory
 * waits for that work, on the device. */
SLUICE_API void sluice_batch_release_after(const struct sluice_batch *batch, void *stream);

/* The place after this batch, for sluice_epoch_start.state: JSON, at most SLUICE_MAX_STATE bytes
 * with the NUL.  The batch must be held, its loader may be closed. */
#define SLUICE_MAX_STATE 1024
SLUICE_API void sluice_batch_state(const struct sluice_batch *batch, char state[SLUICE_MAX_STATE]);

/* The same after the last batch that next() returned; before the first, where the epoch was
 * started; after the epoch's end, the beginning of the next one.  The loader must be open. */
SLUICE_API void sluice_loader_state(const struct sluice_loader *loader,
                                    char state[SLUICE_MAX_STATE]);

/* Checks whether start() would accept a state.  The loader must be open. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_loader_check_state(
    const struct sluice_loader *loader, const char *state, struct sluice_err *err);

/* The place that a state names.  SLUICE_E_CORRUPT: it is not a state.  SLUICE_E_UNSUPPORTED: a
 * later version wrote it. */
struct sluice_place {
    enum sluice_part part;
    uint64_t epoch;
    uint64_t batch; /* the epoch's next global batch; at its end, the number of batches, the last,
                     * partial one included */
};
SLUICE_API SLUICE_MUST_USE sluice_status sluice_state_place(const char *state,
                                                            struct sluice_place *place,
                                                            struct sluice_err *err);

/* The number of batches that this rank gets in a whole epoch of the part. */
SLUICE_API uint64_t sluice_loader_num_batches(const struct sluice_loader *loader,
                                              enum sluice_part part);

/* Ends the epoch.  After the last batch this does not wait; earlier, samples under way are thrown
 * away.  Held batches stay valid. */
SLUICE_API void sluice_loader_finish(struct sluice_loader *loader);

/* Makes open, start and next return SLUICE_E_CLOSED, also calls under way.  Any thread. */
SLUICE_API void sluice_loader_stop(struct sluice_loader *loader);

/* Frees the loader.  Held batches stay valid.  NULL is allowed. */
SLUICE_API void sluice_loader_close(struct sluice_loader *loader);

/* --- results of an epoch --- */

/* The result of the model's training in an epoch. */
struct sluice_learned {
    uint64_t samples;
    double loss_sum; /* cross-entropy, natural log, summed over samples */
    uint64_t top1, top5;
    double lr;
    bool is_deterministic; /* the same seed gives the same weights */
};
/* Adds the result to the statistics of the part's last epoch, which ended.  Call it when the device
 * is done with the last batch: the epoch's measured time ends there.  A result of the val part goes
 * into the statistics of the training epoch before it, too. */
SLUICE_API void sluice_loader_learned(struct sluice_loader *loader, enum sluice_part part,
                                      const struct sluice_learned *learned);

/* Statistics of the part's last epoch that ended (by its last batch, a failure or finish), as
 * offload_train --json prints them: one JSON object.  loss and top1 are null without
 * sluice_loader_learned().  Free it with sluice_free().  SLUICE_E_INVALID: no epoch has ended. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_loader_stats(struct sluice_loader *loader,
                                                             enum sluice_part part, char **json,
                                                             struct sluice_err *err);

/* The same for a person: two lines of at most 80 columns, each with a newline; with is_long,
 * everything in one line without a newline. */
#define SLUICE_MAX_SUMMARY 1024
SLUICE_API SLUICE_MUST_USE sluice_status sluice_loader_summary(struct sluice_loader *loader,
                                                               enum sluice_part part, bool is_long,
                                                               char text[SLUICE_MAX_SUMMARY],
                                                               struct sluice_err *err);

/* --- while it runs --- */

/* Totals since the loader's creation, over all epochs and both parts.  Values are read one by one,
 * so they may differ by a few samples from each other. */
struct sluice_counters {
    uint64_t samples;                   /* returned by next() */
    uint64_t batches;                   /* finished: the caller asked for the one after */
    uint64_t failed[SLUICE_NUM_STATUS]; /* failed samples in returned batches, by status */
    uint64_t prefetched;                /* samples that are ready now */
    uint64_t wire_bytes;                /* size of the messages received */
    /* Samples that arrived, by split and form.  The last split includes all higher ones;
     * sluice_loader_choices() counts each. */
    uint64_t choices[SLUICE_MAX_OPS + 1][SLUICE_NUM_FORMS];
    uint64_t on_gpu[SLUICE_NUM_FORMS]; /* samples of split 0 that the device decoded */
    /* Time that next() waited, by cause; [SLUICE_GPU]: the caller's time between its calls. */
    uint64_t wait_ns[SLUICE_NUM_RESOURCES];
    uint64_t outages; /* times that the server was lost */
    uint64_t lost_streams, repeated_requests, hash_errors;
    /* Samples requested from a second replica: after the first was lost or silent, and to hedge
     * against a slow one. */
    uint64_t failed_over, hedged;
    /* How long next() has been waiting for a batch, and the server has been lost; 0: it is not. */
    double waits_s, lost_s;
};
/* Any thread; does not block. */
SLUICE_API void sluice_loader_counters(const struct sluice_loader *loader,
                                       struct sluice_counters *counters);

/* Samples that arrived at one split in one form. */
struct sluice_choice_count {
    uint32_t split;
    const char *form; /* for example "jpeg_crop"; static */
    uint64_t samples, on_gpu;
};
/* Fills in at most `room` counts that are not 0, in the order of splits, and returns the number of
 * all that are not 0.  Any thread; does not block. */
SLUICE_API size_t sluice_loader_choices(const struct sluice_loader *loader,
                                        struct sluice_choice_count *counts, size_t room);

/* The pass under way, for a progress display: an epoch, or a part of a profile. */
struct sluice_loader_pass {
    uint64_t number; /* passes begun so far; 0: none */
    enum sluice_part part;
    uint64_t epoch;
    uint64_t first, total;     /* this rank's samples: those skipped by a resume, and all */
    uint64_t more;             /* samples of the passes that follow, if known */
    bool continues;            /* it continues the previous pass, whose measured rates still hold */
    char name[32], detail[48]; /* of a profile: "part 2 of 9", "(JPEG crops)"; else "" */
};
/* Any thread; does not block. */
SLUICE_API void sluice_loader_pass(struct sluice_loader *loader, struct sluice_loader_pass *pass);

/* Writes a profile, for the setting profile-folder of later runs.  Needs the settings profiling and
 * write-profile-folder, with which a training epoch is measured op by op.  Call it after such an
 * epoch: it measures the epoch's samples in every form that the server can send.  Takes several
 * times as long as the epoch.  SLUICE_E_INVALID: no such epoch has ended.  SLUICE_E_CLOSED:
 * stopped. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_loader_write_profile(struct sluice_loader *loader,
                                                                     struct sluice_err *err);

/* --- from u8 to a model's input --- */

enum sluice_dtype { SLUICE_F32, SLUICE_F16, SLUICE_BF16 };
enum sluice_layout { SLUICE_NCHW, SLUICE_NHWC };

/* out[n][c][y][x] (or [n][y][x][c]) = table[c][pixels[n][y][x][c]], rounded to nearest even for F16
 * and BF16: with sluice_dataset_info.table bit for bit torchvision's ToTensor + Normalize.  `out`
 * has num_rows * 3 * height * width elements, aligned to their size, and does not overlap `pixels`.
 * Infinities and NaNs of the table stay so; values too large for F16 become infinite.  Pure; any
 * thread.  SLUICE_E_INVALID: a size is 0 or overflows, dtype or layout is unknown, or `out` is not
 * aligned. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_finish(
    const uint8_t *pixels, size_t num_rows, size_t height, size_t width, const float table[3][256],
    enum sluice_dtype dtype, enum sluice_layout layout, void *out, struct sluice_err *err);

/* --- annotations --- */

/* Moves boxes of a file's image to a row of height x width pixels.  `matrix` is that of the row's
 * sluice_geometry; a box is 4 floats, left, top, right and bottom, in pixels of the image as
 * stored. The result is the box around the four moved corners, clipped to the row, as
 * torchvision's: where a warp follows a crop, it is around corners that the crop may have cut off.
 *
 * Keeps the boxes whose sides are at least min_size and whose area is at least min_area after that
 * (torchvision's SanitizeBoundingBoxes: 1 and 1; with 0 and 0 it keeps those of no area, too), and
 * returns their number.  Box i of the result, at moved + 4 * i, is box kept[i] of `boxes`.  `moved`
 * and `kept` have room for num_boxes; `moved` may be `boxes`.  A box with a NaN, or whose right is
 * less than its left or its bottom less than its top, is not kept.  Pure; any thread. */
SLUICE_API size_t sluice_move_boxes(const double matrix[9], uint32_t height, uint32_t width,
                                    const float *boxes, size_t num_boxes, double min_size,
                                    double min_area, float *moved, uint32_t *kept);

/* Whether a row shows the centre of a box, off its edges; the arguments are as above.  torchvision's
 * RandomIoUCrop drops the other boxes: so do, where sluice_loader_draws_by_boxes() says that the
 * pipeline has iou_crop.  Pure; any thread. */
SLUICE_API bool sluice_shows_center(const double matrix[9], uint32_t height, uint32_t width,
                                    const float box[4]);

/* Moves keypoints of `dim` floats each: x and y, and with 3 COCO's visibility (0: not labelled).
 * With dim 3 a point that is not labelled, or not in the row, becomes 0, 0, 0.  With dim 2 a point
 * may lie outside the row, and one that the matrix shows nowhere is NaN.  `moved` may be `points`.
 * sluice_geometry.is_flipped says whether left and right (eye, hand) have changed places.  Pure;
 * any thread. */
SLUICE_API void sluice_move_keypoints(const double matrix[9], uint32_t height, uint32_t width,
                                      const float *points, size_t num_points, unsigned dim,
                                      float *moved);

/* Moves a mask, a PNG of as many pixels as the file's image as stored, with one channel of at most
 * 8 bits: each pixel of the row gets the number at the point that its centre shows, an index of the
 * palette or a gray value as stored, and `fill` outside.  `geometry` is of the row, whose height x
 * width bytes go to `out`.  SLUICE_E_INVALID: the mask has another size.  SLUICE_E_UNSUPPORTED,
 * SLUICE_E_CORRUPT: another image, or a bad one.  Pure; any thread. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_move_mask(const struct sluice_geometry *geometry,
                                                          const void *mask, size_t mask_bytes,
                                                          uint32_t height, uint32_t width,
                                                          uint8_t fill, uint8_t *out,
                                                          struct sluice_err *err);

/* --- server --- */

struct sluice_server;

/* Serves the images in the folder `root` from this process, as offload_server does.  NULL: the
 * roots of the settings "root", each "NAME=DIR" or "NAME=URL".  Settings are offload_server's flags
 * ("listen" is "127.0.0.1:0" by default here).  Blocks until it listens; first it walks over the
 * folder, which cannot be interrupted.  max-connections works only where gRPC is linked into this
 * library; elsewhere SLUICE_E_UNSUPPORTED. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_server_start(const char *root,
                                                             const struct sluice_setting *settings,
                                                             size_t num_settings,
                                                             struct sluice_server **server,
                                                             struct sluice_err *err);
/* The "HOST:PORT" that the server listens on; borrowed until stop. */
SLUICE_API const char *sluice_server_address(const struct sluice_server *server);
/* The server's counters, as offload_server prints them at its end.  Free them with sluice_free().
 * Any thread. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_server_stats(struct sluice_server *server,
                                                             char **json, struct sluice_err *err);
/* Reloads certificates and tokens at once, and the list of samples in the background.  Any
 * thread. */
SLUICE_API void sluice_server_reread(struct sluice_server *server);
/* Answers accepted requests, for the time of the setting grace at most, and frees the server.  NULL
 * is allowed. */
SLUICE_API void sluice_server_stop(struct sluice_server *server);

#ifdef __cplusplus
}
#endif

#endif
