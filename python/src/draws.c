#include "extension.h"

#include "op/batch_draws.h"

/* The draws of _batch_ops.py. */

#define MAX_ALPHA 1000 /* Beta(alpha, alpha) is 0.5 within 1 % by then */

static bool is_share(double value)
{
    return value >= 0 && value <= 1;
}

PyObject *module_draw_mix(PyObject *module, PyObject *args)
{
    (void)module;
    struct sluice_mix_params params;
    unsigned long long seed, batch;
    unsigned epoch, rank;
    struct sluice_size size;
    if (!PyArg_ParseTuple(args, "KIKIddddII:draw_mix", &seed, &epoch, &batch, &rank,
                          &params.mixup_alpha, &params.cutmix_alpha, &params.p, &params.cutmix_p,
                          &size.height, &size.width))
        return NULL;
    if (!(params.mixup_alpha >= 0 && params.mixup_alpha <= MAX_ALPHA) ||
        !(params.cutmix_alpha >= 0 && params.cutmix_alpha <= MAX_ALPHA) || !is_share(params.p) ||
        !is_share(params.cutmix_p) || size.height == 0 || size.width == 0)
        return raise_text(SLUICE_E_INVALID, "draw_mix: alphas are from 0 to 1000, p from 0 to 1");
    const struct sluice_mix mix = sluice_draw_mix(&params, seed, epoch, batch, rank, size);
    const struct sluice_box *box = &mix.box;
    return Py_BuildValue("(id(IIII))", mix.is_cutmix ? 2 : mix.is_mixed, mix.lambda, box->top,
                         box->left, box->height, box->width);
}

PyObject *module_fill_normals(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned long long seed, sample, address, count;
    unsigned epoch;
    const char *bytes;
    Py_ssize_t len;
    if (!PyArg_ParseTuple(args, "KIKy#KK:fill_normals", &seed, &epoch, &sample, &bytes, &len,
                          &address, &count))
        return NULL;
    if (len != (Py_ssize_t)(65536 * sizeof(float)) || count > SLUICE_MAX_FILL)
        return raise_text(SLUICE_E_INVALID, "fill_normals: of a table of 65,536 float32");
    Py_BEGIN_ALLOW_THREADS;
    sluice_fill_drawn(&(struct sluice_draw_key){.seed = seed, .epoch = epoch, .sample_id = sample},
                      bytes, (void *)(uintptr_t)address, (size_t)count);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

PyObject *module_draw_erasing(PyObject *module, PyObject *args)
{
    (void)module;
    struct sluice_erasing_params params;
    unsigned long long seed, sample;
    unsigned epoch;
    struct sluice_size size;
    if (!PyArg_ParseTuple(args, "KIKdddddII:draw_erasing", &seed, &epoch, &sample, &params.p,
                          &params.scale.min, &params.scale.max, &params.ratio.min,
                          &params.ratio.max, &size.height, &size.width))
        return NULL;
    if (!is_share(params.p) || !(params.scale.min > 0 && params.scale.max <= 1) ||
        params.scale.min > params.scale.max || !(params.ratio.min >= 1e-3) ||
        !(params.ratio.max <= 1e3) || params.ratio.min > params.ratio.max || size.height == 0 ||
        size.width == 0)
        return raise_text(SLUICE_E_INVALID,
                          "draw_erasing: p and scale are from 0 to 1, ratio from 0.001 to 1000");
    const struct sluice_draw_key key = {.seed = seed, .epoch = epoch, .sample_id = sample};
    struct sluice_box box;
    if (!sluice_draw_erasing(&params, &key, size, &box))
        Py_RETURN_NONE;
    return Py_BuildValue("(IIII)", box.top, box.left, box.height, box.width);
}
