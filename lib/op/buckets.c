/* Sizes of images along a pipeline, and the aspect buckets that they end in. */

#include "image/orientation.h"
#include "op/geometry.h"
#include "op/pipeline_private.h"

#include <assert.h>

/* For sizes that depend on no draw. */
static const struct sluice_draw_key no_draws = {0};

/* The size at split `to` of an image that has `size` at split `from`. */
static struct sluice_size walk(const struct sluice_pipeline *pipeline,
                               const struct sluice_draw_key *key, unsigned from, unsigned to,
                               struct sluice_size size)
{
    for (unsigned i = from; i < to; i++) {
        union sluice_drawn drawn;
        if (pipeline->ops[i].type->kind == SLUICE_OP_VIEWS)
            size = pipeline->view_sizes[0];
        if (pipeline->ops[i].type->kind != SLUICE_OP_RESAMPLE)
            continue;
        sluice_op_draw(&pipeline->ops[i], key, size, &drawn);
        size = drawn.resample.out;
    }
    return size;
}

struct sluice_size sluice_pipeline_size_at(const struct sluice_pipeline *pipeline,
                                           const struct sluice_draw_key *key, unsigned split,
                                           uint32_t width, uint32_t height)
{
    assert(width > 0 && height > 0 && split <= pipeline->num_ops);
    return walk(pipeline, key, 0, split, (struct sluice_size){width, height});
}

unsigned sluice_pipeline_size_op(const struct sluice_pipeline *pipeline)
{
    unsigned last = 0;
    for (unsigned i = 0; i < pipeline->u8_split; i++)
        last = pipeline->ops[i].type->kind == SLUICE_OP_RESAMPLE ? i : last;
    return last;
}

struct sluice_size sluice_pipeline_largest(const struct sluice_pipeline *pipeline, uint32_t width,
                                           uint32_t height)
{
    const unsigned last = sluice_pipeline_size_op(pipeline);
    const struct sluice_op *op = &pipeline->ops[last];
    struct sluice_size in = {width, height};
    assert(width > 0 && height > 0);
    if (!op->type->largest)
        return walk(pipeline, &no_draws, 0, pipeline->u8_split, in);
    in = walk(pipeline, &no_draws, 0, last, in);
    for (unsigned i = 0; i < last; i++) {
        if (pipeline->ops[i].type->has_drawn_size)
            in = (struct sluice_size){0, 0};
    }
    return op->type->largest(op->params, in);
}

sluice_status sluice_pipeline_result_size(const struct sluice_pipeline *pipeline,
                                          const struct sluice_sample *sample,
                                          struct sluice_size *size, struct sluice_err *err)
{
    struct sluice_size now = {sample->width, sample->height};
    if (sample->ops_done == 0) {
        struct sluice_file_image image;
        const sluice_status status = sluice_file_image_read(pipeline, sample, &image, err);
        if (status != SLUICE_OK)
            return status;
        const bool is_turned = sluice_orientation_swaps(image.orientation);
        now.width = is_turned ? image.height : image.width;
        now.height = is_turned ? image.width : image.height;
    }
    *size = walk(pipeline, &sample->key, sample->ops_done, pipeline->u8_split, now);
    return SLUICE_OK;
}

/* The last op that fits images to buckets; num_ops: none. */
static unsigned fitting_op(const struct sluice_pipeline *pipeline)
{
    unsigned op = pipeline->u8_split;
    while (op > 0 && !pipeline->ops[op - 1].type->bucket_of)
        op--;
    return op > 0 ? op - 1 : pipeline->num_ops;
}

static const struct sluice_buckets *buckets_at(const struct sluice_pipeline *pipeline, unsigned op,
                                               struct sluice_size size, unsigned *bucket)
{
    return pipeline->ops[op].type->bucket_of(pipeline->ops[op].params, size, bucket);
}

unsigned sluice_pipeline_num_buckets(const struct sluice_pipeline *pipeline)
{
    const unsigned op = fitting_op(pipeline);
    unsigned bucket;
    if (op == pipeline->num_ops || sluice_pipeline_u8_bytes(pipeline) > 0)
        return 0;
    return buckets_at(pipeline, op, (struct sluice_size){1, 1}, &bucket)->num;
}

struct sluice_size sluice_pipeline_bucket_size(const struct sluice_pipeline *pipeline,
                                               unsigned bucket)
{
    const unsigned op = fitting_op(pipeline);
    unsigned any;
    assert(bucket < sluice_pipeline_num_buckets(pipeline));
    const struct sluice_buckets *buckets =
        buckets_at(pipeline, op, (struct sluice_size){1, 1}, &any);
    return walk(pipeline, &no_draws, op + 1, pipeline->u8_split, buckets->sizes[bucket]);
}

size_t sluice_pipeline_most_u8_bytes(const struct sluice_pipeline *pipeline)
{
    size_t most = sluice_pipeline_u8_bytes(pipeline);
    for (unsigned i = 0; i < sluice_pipeline_num_buckets(pipeline); i++) {
        const struct sluice_size size = sluice_pipeline_bucket_size(pipeline, i);
        const size_t bytes = (size_t)size.width * size.height * 3;
        most = bytes > most ? bytes : most;
    }
    return most;
}

bool sluice_pipeline_draws_bucket(const struct sluice_pipeline *pipeline)
{
    const unsigned op = fitting_op(pipeline);
    return op < pipeline->num_ops && pipeline->ops[op].type->draw_bucket;
}

/* The op number that buckets of batches are drawn under; compute_client/loader/order has those
 * after it. */
#define BUCKET_OP 0xFFFBu

unsigned sluice_pipeline_draw_bucket(const struct sluice_pipeline *pipeline, uint64_t seed,
                                     uint32_t epoch, uint64_t batch)
{
    assert(sluice_pipeline_draws_bucket(pipeline));
    const struct sluice_op *op = &pipeline->ops[fitting_op(pipeline)];
    struct sluice_rng rng = sluice_rng_init(seed, epoch, batch, BUCKET_OP);
    return op->type->draw_bucket(op->params, sluice_op_runs_in(op, epoch), &rng);
}

void sluice_pipeline_print_base(const struct sluice_pipeline *pipeline, char *text, size_t room)
{
    assert(sluice_pipeline_draws_bucket(pipeline));
    const struct sluice_op *op = &pipeline->ops[fitting_op(pipeline)];
    op->type->print_base(op->params, text, room);
}

unsigned sluice_pipeline_bucket_of(const struct sluice_pipeline *pipeline, uint32_t width,
                                   uint32_t height)
{
    const unsigned op = fitting_op(pipeline);
    unsigned bucket = 0;
    assert(op < pipeline->num_ops);
    (void)buckets_at(pipeline, op,
                     walk(pipeline, &no_draws, 0, op, (struct sluice_size){width, height}),
                     &bucket);
    return bucket;
}
