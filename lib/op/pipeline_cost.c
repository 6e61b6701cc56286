/* Mean costs of ops, and whether they depend on the epoch. */

#include "op/pixels.h"

bool sluice_pipeline_has_schedule(const struct sluice_pipeline *pipeline)
{
    bool has_one = false;
    for (unsigned op = pipeline->first_owned; !has_one && op < pipeline->num_ops; op++)
        has_one = sluice_pixels_have_schedule(&pipeline->ops[op]);
    for (unsigned i = 0; !has_one && i < pipeline->num_views && pipeline->views[i]; i++)
        has_one = sluice_pipeline_has_schedule(pipeline->views[i]);
    return has_one;
}

/* The mean over the pixels of all views. */
static double mean_ns_of_views(const struct sluice_pipeline *pipeline, unsigned op,
                               uint32_t schedule)
{
    double ns = 0, pixels = 0;
    for (unsigned i = 0; i < pipeline->num_views; i++) {
        const struct sluice_pipeline *view = pipeline->views[i];
        const double size = (double)view->view_sizes[0].width * view->view_sizes[0].height;
        ns += size * sluice_pipeline_mean_ns(view, op, view->num_ops, schedule);
        pixels += size;
    }
    return ns / pixels;
}

double sluice_pipeline_mean_ns(const struct sluice_pipeline *pipeline, unsigned from, unsigned to,
                               uint32_t schedule)
{
    double ns = 0;
    for (unsigned op = from; op < to; op++) {
        if (sluice_op_kind_has_p(pipeline->ops[op].type->kind))
            ns += sluice_pixels_mean_ns(&pipeline->ops[op], schedule);
        else if (pipeline->ops[op].type->kind == SLUICE_OP_VIEWS)
            ns += mean_ns_of_views(pipeline, op, schedule);
    }
    return ns;
}
