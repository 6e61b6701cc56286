#include "extension.h"

#include "op/batch_draws.h"

/* The draws of _batch_ops.py. */

static bool is_image(struct sluice_size size)
{
    return size.height > 0 && size.width > 0;
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
    struct sluice_err err = {0};
    const sluice_status status = sluice_mix_params_check(&params, &err);
    if (status)
        return raise_text(status, err.text);
    if (!is_image(size))
        return raise_text(SLUICE_E_INVALID, "draw_mix: an image without pixels");
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
    if (len != (Py_ssize_t)(SLUICE_NUM_QUANTILES * sizeof(float)) || count > SLUICE_MAX_FILL)
        return raise_text(SLUICE_E_INVALID, "fill_normals: of a table of 65,536 float32");
    Py_BEGIN_ALLOW_THREADS;
    sluice_fill_drawn(&(struct sluice_draw_key){.seed = seed, .epoch = epoch, .sample_id = sample},
                      bytes, (void *)(uintptr_t)address, (size_t)count);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

PyObject *module_normal_quantiles(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    static float table[SLUICE_NUM_QUANTILES]; /* under the GIL */
    sluice_normal_quantiles(table);
    return PyBytes_FromStringAndSize((const char *)table, sizeof(table));
}

PyObject *module_draw_erasing(PyObject *module, PyObject *args)
{
    (void)module;
    struct sluice_erasing_params params;
    unsigned long long seed, sample;
    unsigned epoch;
    struct sluice_size size;
    if (!PyArg_ParseTuple(args, "KIKdddddII:draw_erasing", &seed, &epoch, &sample, &params.p,
                          &params.min_scale, &params.max_scale, &params.min_ratio,
                          &params.max_ratio, &size.height, &size.width))
        return NULL;
    struct sluice_err err = {0};
    const sluice_status status = sluice_erasing_params_check(&params, &err);
    if (status)
        return raise_text(status, err.text);
    if (!is_image(size))
        return raise_text(SLUICE_E_INVALID, "draw_erasing: an image without pixels");
    const struct sluice_draw_key key = {.seed = seed, .epoch = epoch, .sample_id = sample};
    struct sluice_box box;
    if (!sluice_draw_erasing(&params, &key, size, &box))
        Py_RETURN_NONE;
    return Py_BuildValue("(IIII)", box.top, box.left, box.height, box.width);
}
