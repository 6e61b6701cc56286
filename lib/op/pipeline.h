#ifndef SLUICE_OP_PIPELINE_H
#define SLUICE_OP_PIPELINE_H

#include "base/error.h"
#include "image/kernel_call.h"
#include "image/resize.h"
#include "op/sample.h"
#include "sluice/sluice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A preprocessing pipeline that can stop after any op and go on elsewhere.
 *
 *     file --decode--> u8 --crop--> u8 --flip--> u8 --to_tensor--> f32 --normalize--> f32
 *       0            1           2           3                4                   5
 *
 * The numbers are splits: split k means that ops [0, k) ran on the storage node and ops [k, n) run
 * on the compute node.
 *
 * The split contract, which tests/property/test_split.c checks for every op list, split and CPU
 * level:
 *
 *     running [0, k) here and [k, n) there gives the same bytes as [0, n).
 *
 * It holds because an op may depend on its input, its own constants and sluice_draw_key() only:
 * never on a thread, a clock or a shared generator.
 *
 * Threads: a pipeline is immutable once made and may be shared.  A scratch and a sample belong to
 * one thread at a time. */

struct sluice_buf_pool;
struct sluice_box;
struct sluice_resize_part; /* image/resize.h */

/* How a sample crosses the wire at one split: enum sluice_form of sluice.h.  The same kind of data
 * can travel in several forms; the names are part of the reports ("jpeg_crop@0"). */

void sluice_sample_clear(struct sluice_sample *sample); /* idempotent; fine on {0} */

/* Builds a pipeline from text such as
 *     "decode,random_resized_crop=224,hflip=0.5,to_tensor,normalize=imagenet"
 *     "decode,resize=256,center_crop=224,to_tensor,normalize=imagenet"
 * exif_transpose, random_resized_crop=SIZE[:scale=MIN-MAX][:ratio=MIN-MAX] (0.08-1, 3/4-4/3),
 * resize=SHORTER_SIDE, center_crop=SIZE, hflip[=P] (0.5), normalize=imagenet or
 * normalize=R:G:B/R:G:B (means / standard deviations). decode stands first (decode=pillow13: with
 * resizes as of Pillow 13).  exif_transpose, which turns images upright, stands right after it and
 * takes effect within decode.  to_tensor comes after every u8 op, normalize after to_tensor.  A
 * bound of a ratio may be a fraction.  docs/RECIPES.md has the other ops and the grammar of groups,
 * one_of(...), k_of(N,...) and shuffled(...). An op may occur more than once.  SLUICE_E_INVALID
 * names the op and the position and suggests a name.  Destroy the result. */
SLUICE_MUST_USE sluice_status sluice_pipeline_parse(const char *spec,
                                                    struct sluice_pipeline **pipeline,
                                                    struct sluice_err *err);
void sluice_pipeline_destroy(struct sluice_pipeline *pipeline); /* NULL is allowed */

/* For the options of a command line (cli/cli.h): whether `spec` is a pipeline. */
SLUICE_MUST_USE sluice_status sluice_pipeline_check(const char *spec, struct sluice_err *err);

unsigned sluice_pipeline_num_ops(const struct sluice_pipeline *pipeline);
const char *sluice_pipeline_op_name(const struct sluice_pipeline *pipeline, unsigned op);
enum sluice_op_kind sluice_pipeline_op_kind(const struct sluice_pipeline *pipeline, unsigned op);
/* Whether the op filters pixels to another size, rather than copying a box of them. */
bool sluice_pipeline_op_resizes(const struct sluice_pipeline *pipeline, unsigned op);
/* The op's name in cost tables (the original's name of the stage, or torchvision's), and in
 * reports. */
const char *sluice_pipeline_op_column(const struct sluice_pipeline *pipeline, unsigned op);
const char *sluice_pipeline_op_label(const struct sluice_pipeline *pipeline, unsigned op);

/* The mean cost of those ops of [from, to) that keep the image's size: nanoseconds of one core per
 * pixel, over the draws of this epoch of the training.  Other ops count as 0.  op.h names the
 * machine. */
double sluice_pipeline_mean_ns(const struct sluice_pipeline *pipeline, unsigned from, unsigned to,
                               uint32_t schedule);

/* Whether some op runs only in some epochs.  If so, draw keys contain the epoch of the training. */
bool sluice_pipeline_has_schedule(const struct sluice_pipeline *pipeline);

/* The canonical text: every constant spelled out; parses to an equal pipeline. */
const char *sluice_pipeline_spec(const struct sluice_pipeline *pipeline);

/* Equal fingerprints: same ops, same constants, same numerics version.  Client
 * and server compare them once, when they connect, and refuse to differ. */
uint64_t sluice_pipeline_fingerprint(const struct sluice_pipeline *pipeline);

/* The kind of data of a sample at a split: FILE at 0, then U8, then F32. */
enum sluice_kind sluice_pipeline_kind(const struct sluice_pipeline *pipeline, unsigned split);

/* The last split whose data is u8.  Batches are assembled and hashed at this split. */
unsigned sluice_pipeline_u8_split(const struct sluice_pipeline *pipeline);

/* The images that a sample ends as, and their sizes; 0 x 0 if it depends on the image (no crop op).
 * view < num_views(). */
#define SLUICE_MAX_VIEWS 32
unsigned sluice_pipeline_num_views(const struct sluice_pipeline *pipeline);
struct sluice_size sluice_pipeline_view_size(const struct sluice_pipeline *pipeline, unsigned view);

/* The pipeline that makes one view alone: with op `views`, the ops before it and those of the view,
 * with the same draws, up to the last pixels.  Lives as long as `pipeline`; without views it is
 * `pipeline` itself. */
const struct sluice_pipeline *sluice_pipeline_view(const struct sluice_pipeline *pipeline,
                                                   unsigned view);

/* Bytes of one finished sample (f32) and of its u8 pixels: the views one after the other, each
 * without gaps.  0 if they depend on the image. */
size_t sluice_pipeline_output_bytes(const struct sluice_pipeline *pipeline);
size_t sluice_pipeline_u8_bytes(const struct sluice_pipeline *pipeline);

/* As sluice_pipeline_u8_bytes(); of a pipeline with buckets the largest bucket's. */
size_t sluice_pipeline_most_u8_bytes(const struct sluice_pipeline *pipeline);

/* The size at a split, with the draws of `key`, of an image with these decoded sides (upright, if the pipeline turns images),
 * both at least 1. */
struct sluice_size sluice_pipeline_size_at(const struct sluice_pipeline *pipeline,
                                           const struct sluice_draw_key *key, unsigned split,
                                           uint32_t width, uint32_t height);
/* A size with at least as many pixels as any that such an image may end as, whatever the draws.
 * For pipelines of one view without buckets. */
struct sluice_size sluice_pipeline_largest(const struct sluice_pipeline *pipeline, uint32_t width,
                                           uint32_t height);

/* The size at the u8 split of what the sample becomes, of a pipeline with one view; the sample
 * stands anywhere, and rows of a JPEG are opened.  SLUICE_E_CORRUPT or SLUICE_E_UNSUPPORTED: the
 * file's header is bad. */
SLUICE_MUST_USE sluice_status sluice_pipeline_result_size(const struct sluice_pipeline *pipeline,
                                                          const struct sluice_sample *sample,
                                                          struct sluice_size *size,
                                                          struct sluice_err *err);

/* Buckets: the sizes that images may end as if the pipeline has fit_bucket with several sizes, or
 * multi_scale, and no op after it gives all images one size; else 0.  At most SLUICE_MAX_BUCKETS (op.h).
 * sluice_pipeline_bucket_size() is at the u8 split; sluice_pipeline_bucket_of() takes decoded
 * sides, as sluice_pipeline_size_at() does. */
unsigned sluice_pipeline_num_buckets(const struct sluice_pipeline *pipeline);
struct sluice_size sluice_pipeline_bucket_size(const struct sluice_pipeline *pipeline,
                                               unsigned bucket);
unsigned sluice_pipeline_bucket_of(const struct sluice_pipeline *pipeline, uint32_t width,
                                   uint32_t height);

/* Whether the bucket is drawn for each batch instead, by multi_scale; and its draw for a batch of an
 * epoch of the training.  Batches count from the epoch's beginning, and are those of all ranks
 * together. */
bool sluice_pipeline_draws_bucket(const struct sluice_pipeline *pipeline);
unsigned sluice_pipeline_draw_bucket(const struct sluice_pipeline *pipeline, uint64_t seed,
                                     uint32_t epoch, uint64_t batch);

/* Writes the op that gives all images the base of these sizes, as evaluation does. */
void sluice_pipeline_print_base(const struct sluice_pipeline *pipeline, char *text, size_t room);

/* Whether images are turned upright by their EXIF orientation.  If so, only the file shows which
 * pixels a crop needs, and a dataset's list may have the sizes before the turn. */
bool sluice_pipeline_is_upright(const struct sluice_pipeline *pipeline);

/* The size of an image at a split, as far as it is known without the image. */
struct sluice_known_size sluice_pipeline_known_size(const struct sluice_pipeline *pipeline,
                                                    unsigned split);
/* Pixels of that image, about as many if the size is rounded; width and height are the decoded
 * image's, at least 1. */
uint64_t sluice_known_size_pixels(struct sluice_known_size known, uint32_t width, uint32_t height);
/* Whether some decoded image becomes one of this size, at least 1.  True if the size is rounded. */
bool sluice_known_size_allows(struct sluice_known_size known, uint32_t width, uint32_t height);

/* to_tensor and normalize as one lookup: table[channel][u8 value] is the result of the pipeline's
 * tail, in torch's float32 arithmetic: ((float)v / 255 - mean) / std.  CPU and GPU share it.  All
 * zero if the pipeline ends in u8. */
const sluice_pipeline_table *sluice_pipeline_tail_table(const struct sluice_pipeline *pipeline);

/* The pipeline's draws for one sample of width x height decoded pixels (both at least 1): the box
 * of random_resized_crop, in coordinates of that op's input, and the flip.  Without
 * random_resized_crop the box is the whole decoded image. */
struct sluice_draws {
    uint32_t top, left, height, width;
    bool flip;
};
struct sluice_draws sluice_pipeline_draws(const struct sluice_pipeline *pipeline,
                                          const struct sluice_draw_key *key, uint32_t width,
                                          uint32_t height);

/* The draws of every op that runs on this sample, in order, as a JSON array, so that another
 * library can be given the same:
 *    
 * [{"op":"random_resized_crop","from":{"left":..},"to":[224,224],"filter":"bilinear","keep":{..}},
 *      {"op":"hflip","mirrored":true},{"op":"brightness","factor":1.2},
 *      {"op":"rotate","matrix":[..6..],"filter":"nearest","fill":[0,0,0]},
 *      {"op":"augmix","weights":[0.5,0.2,0.3],"branches":[[{"op":"equalize"}],[..]]},
 *      {"op":"views","views":[[{"op":"random_resized_crop",..},..],[..]]}]
 * width and height are the decoded image's, both at least 1; free() the text. */
SLUICE_MUST_USE sluice_status sluice_pipeline_write_draws(const struct sluice_pipeline *pipeline,
                                                          const struct sluice_draw_key *key,
                                                          uint32_t width, uint32_t height,
                                                          char **json, struct sluice_err *err);

/* Runs ops [sample->ops_done, end) in place; end <= num_ops.  Each op swaps sample->data for its
 * result, so at most two buffers live at once.
 *
 * On failure the sample stands after the last op that succeeded and may be sent or cleared.
 * SLUICE_E_CORRUPT concerns this sample only; the caller goes on with others.  Sizes from a header
 * are checked before they are used to allocate. */
SLUICE_MUST_USE sluice_status sluice_pipeline_run(const struct sluice_pipeline *pipeline,
                                                  struct sluice_scratch *scratch,
                                                  struct sluice_sample *sample, unsigned end,
                                                  struct sluice_err *err);

/* Runs all remaining ops and writes the final tensor to `out` (aligned for floats), which saves a
 * copy into batch memory.  `out_len` must equal sluice_pipeline_output_bytes(); where that is 0,
 * the bytes of sluice_pipeline_result_size(), else SLUICE_E_INVALID.  On success the sample is
 * cleared; on failure it stands after a whole op, as with run(), and the contents of `out` are
 * undefined. */
SLUICE_MUST_USE sluice_status sluice_pipeline_finish(const struct sluice_pipeline *pipeline,
                                                     struct sluice_scratch *scratch,
                                                     struct sluice_sample *sample, void *out,
                                                     size_t out_len, struct sluice_err *err);

/* As sluice_pipeline_finish(), but stops at the u8 split: `out_len` must equal
 * sluice_pipeline_u8_bytes().  A sample that is already f32 is converted back through the tail
 * table; a value that the table does not contain is SLUICE_E_CORRUPT. */
SLUICE_MUST_USE sluice_status sluice_pipeline_finish_u8(const struct sluice_pipeline *pipeline,
                                                        struct sluice_scratch *scratch,
                                                        struct sluice_sample *sample, uint8_t *out,
                                                        size_t out_len, struct sluice_err *err);

/* As sluice_pipeline_finish_u8(), with a place for each view: view i goes to places[i].  `out_len`
 * is the bytes of all. */
SLUICE_MUST_USE sluice_status sluice_pipeline_finish_views(const struct sluice_pipeline *pipeline,
                                                           struct sluice_scratch *scratch,
                                                           struct sluice_sample *sample,
                                                           uint8_t *const *places, size_t out_len,
                                                           struct sluice_err *err);

/* Whether a JPEG can be cut before it is decoded: the ops after decode begin with a crop whose
 * place follows from the image's size and the draws.  That is random_resized_crop, center_crop, or
 * resize with a center_crop that lies within its result. */
bool sluice_pipeline_can_crop_jpeg(const struct sluice_pipeline *pipeline);

/* Whether an indexed JPEG can be sent as only the rows that the crop needs: the JPEG can be cut,
 * and the pipeline turns no image upright, for which the orientation in the file is needed. */
bool sluice_pipeline_can_take_rows(const struct sluice_pipeline *pipeline);

/* Whether packed pixels at split 1 are only the box that the next op draws: that op is
 * random_resized_crop. */
bool sluice_pipeline_packs_box(const struct sluice_pipeline *pipeline);

/* Whether ops up to `end` read only a box of the image, for a sample that then leaves in `form`.
 * width and height are the file's, at least 1.  *box is the crop of random_resized_crop or
 * center_crop, or the pixels that a resize reads for the center_crop after it.  *box is untouched
 * if the result is false. */
bool sluice_pipeline_file_box(const struct sluice_pipeline *pipeline,
                              const struct sluice_draw_key *key, uint32_t width, uint32_t height,
                              unsigned end, enum sluice_form form, struct sluice_box *box);

/* Cuts the file of a sample at split 0 down to the MCUs that its coming crop needs, without
 * decoding it.  With a restart_interval the crop has a restart marker after that number of MCUs, at
 * most SLUICE_JPEG_MAX_RESTART_INTERVAL; 0: one for each MCU row (image/jpeg/crop.h).  run() and
 * finish() give the same result for the crop as for the file, except that the crop cannot be
 * decoded alone: run() to a split before the crop op's is SLUICE_E_INVALID.  SLUICE_E_INVALID: the
 * pipeline has no such crop, or the sample is not a whole file; SLUICE_E_AGAIN: the crop would not
 * be smaller; SLUICE_E_UNSUPPORTED or SLUICE_E_CORRUPT: the file cannot be cut with certainty.  On
 * failure the sample is unchanged and may be sent as it is. */
SLUICE_MUST_USE sluice_status sluice_pipeline_crop_jpeg(const struct sluice_pipeline *pipeline,
                                                        struct sluice_scratch *scratch,
                                                        struct sluice_sample *sample,
                                                        bool optimal_huffman,
                                                        uint32_t restart_interval,
                                                        struct sluice_err *err);

/* As sluice_pipeline_crop_jpeg(), for a decoder on a GPU.  Also cuts where the result is not
 * smaller.  Only cuts files that our own entropy layer covers, because cutting with libjpeg-turbo
 * takes as long as decoding. */
SLUICE_MUST_USE sluice_status sluice_pipeline_cut_for_gpu(const struct sluice_pipeline *pipeline,
                                                          struct sluice_scratch *scratch,
                                                          struct sluice_sample *sample,
                                                          uint32_t restart_interval,
                                                          struct sluice_err *err);

/* Replaces the file of a sample at split 0 with the JPEG rows that its crop needs, and drops the
 * sample's index (image/jpeg/rows.h).  The file may have been read in part.  run() and finish()
 * give the same result for the rows as for the file, if they run the crop op.  The sample must hold
 * the only reference to its data.  SLUICE_E_AGAIN: the result would exceed its limit;
 * SLUICE_E_INVALID: the pipeline has no such crop, or the sample has no index; SLUICE_E_UNSUPPORTED
 * or SLUICE_E_CORRUPT: the file cannot be sent as rows.  On failure the sample is unchanged. */
SLUICE_MUST_USE sluice_status sluice_pipeline_take_rows(const struct sluice_pipeline *pipeline,
                                                        struct sluice_buf_pool *pool,
                                                        struct sluice_sample *sample,
                                                        struct sluice_err *err);

/* The work from a sample's file to the u8 pixels of one view, as plain data for a decoder that does
 * not implement ops: decode the box, resize it to the part, mirror it, run the kernel calls in
 * order. */
struct sluice_kernel_work {
    struct sluice_box box; /* in the pixels of the file */
    struct sluice_resize_part part;
    bool is_mirrored;
    struct sluice_kernel_calls calls;
};

/* Whether all views can be such work: a box of the file's image, a resize of it, and ops that keep
 * the size and have kernels. */
bool sluice_pipeline_has_kernels(const struct sluice_pipeline *pipeline);

/* Fills in *work of a view for a sample at split 0; JPEG crops have the boxes of all views.  False:
 * run() has to process the sample, because the pipeline does more, the file is bad, the image is
 * smaller than a center_crop and needs padding, or the calls do not fit. */
bool sluice_pipeline_kernel_work(const struct sluice_pipeline *pipeline,
                                 const struct sluice_scratch *scratch,
                                 const struct sluice_sample *sample, unsigned view,
                                 struct sluice_kernel_work *work);

/* Runs ops up to `end`, a u8 split, and packs the pixels losslessly (image/pack/pack.h).  run() and
 * finish() give the same result for the packed sample as for the plain one.
 *
 * If random_resized_crop comes right after decode, packing at split 1 decodes and packs only the
 * box that it draws; width and height stay those of the whole image.  Such a sample must start as a
 * whole file (else SLUICE_E_INVALID).
 *
 * SLUICE_E_AGAIN: packing saves nothing.  The sample is then as run() would leave it, or unchanged
 * where only a box would have been packed. */
SLUICE_MUST_USE sluice_status sluice_pipeline_pack(const struct sluice_pipeline *pipeline,
                                                   struct sluice_scratch *scratch,
                                                   struct sluice_sample *sample, unsigned end,
                                                   struct sluice_err *err);

/* Checks a sample from outside against split `sample->ops_done` of this pipeline: kind, sizes
 * within max_pixels, and data->len.  SLUICE_E_CORRUPT names the fault. */
SLUICE_MUST_USE sluice_status sluice_pipeline_check_sample(const struct sluice_pipeline *pipeline,
                                                           const struct sluice_sample *sample,
                                                           uint64_t max_pixels,
                                                           struct sluice_err *err);

struct sluice_scratch_options {
    struct sluice_buf_pool *pool; /* borrowed; for op results; NULL: plain memory */
    uint64_t max_image_pixels;    /* 0: the codec's default */
    bool measure_ops;             /* keep the time of each op: one clock read per op */
};

/* options NULL: all {0}. */
SLUICE_MUST_USE sluice_status sluice_scratch_create(const struct sluice_scratch_options *options,
                                                    struct sluice_scratch **scratch,
                                                    struct sluice_err *err);
void sluice_scratch_destroy(struct sluice_scratch *scratch); /* NULL is allowed */

/* Sets the index for samples without one of their own.  Borrows it; NULL: none. */
void sluice_scratch_set_jpeg_index(struct sluice_scratch *scratch,
                                   const struct sluice_jpeg_index *index);

/* With measure_ops: thread CPU ns that op `op` took when it last ran here; 0 for a
 * flip that had nothing to do.  finish() makes to_tensor and normalize in one pass,
 * which counts under to_tensor. */
uint64_t sluice_scratch_op_ns(const struct sluice_scratch *scratch, unsigned op);

#endif
