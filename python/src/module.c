#include "extension.h"
#include "log_queue.h"

#include <sluice/lend.h>

#include <stdlib.h>
#include <string.h>

static PyObject *module_finish(PyObject *module, PyObject *args, PyObject *kwargs)
{
    (void)module;
    static char *names[] = {"pixels", "num_rows", "height", "width", "table",
                            "dtype",  "layout",   "out",    NULL};
    unsigned long long pixels, out, num_rows, height, width;
    const char *table_bytes;
    Py_ssize_t table_size;
    int dtype, layout;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "KKKKy#iiK", names, &pixels, &num_rows, &height,
                                     &width, &table_bytes, &table_size, &dtype, &layout, &out))
        return NULL;
    float table[3][256];
    if (table_size != (Py_ssize_t)sizeof(table))
        return PyErr_Format(PyExc_ValueError, "table is %zu bytes, 3 x 256 float32, not %zd",
                            sizeof(table), table_size);
    memcpy(table, table_bytes, sizeof(table));
    struct sluice_err err = {0};
    sluice_status status;
    Py_BEGIN_ALLOW_THREADS status = sluice_finish(
        (const uint8_t *)(uintptr_t)pixels, num_rows, height, width, table,
        (enum sluice_dtype)dtype, (enum sluice_layout)layout, (void *)(uintptr_t)out, &err);
    Py_END_ALLOW_THREADS if (status != SLUICE_OK) return raise_status(status, &err);
    Py_RETURN_NONE;
}

static PyObject *module_state_part(PyObject *module, PyObject *args)
{
    (void)module;
    const char *text;
    if (!PyArg_ParseTuple(args, "s", &text))
        return NULL;
    struct sluice_err err = {0};
    struct sluice_place place;
    const sluice_status status = sluice_state_place(text, &place, &err);
    return status == SLUICE_OK ? PyLong_FromLong(place.part) : raise_status(status, &err);
}

static PyObject *module_version(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyUnicode_FromString(sluice_version());
}

static PyObject *module_set_log_level(PyObject *module, PyObject *level)
{
    (void)module;
    const long least = PyLong_AsLong(level);
    if (least == -1 && PyErr_Occurred())
        return NULL;
    if (least < SLUICE_LOG_ERROR || least > SLUICE_LOG_DEBUG)
        return PyErr_Format(PyExc_ValueError, "a level is LOG_ERROR to LOG_DEBUG, not %ld", least);
    log_queue_set_level((enum sluice_log_level)least);
    Py_RETURN_NONE;
}

static PyObject *module_log_open(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    log_queue_open();
    Py_RETURN_NONE;
}

/* Frees the line; -1 with an exception set. */
static int append_line(PyObject *lines, struct log_line *line)
{
    PyObject *text =
        PyUnicode_DecodeUTF8(line->text, (Py_ssize_t)strlen(line->text), "backslashreplace");
    PyObject *item = text ? Py_BuildValue("(iN)", (int)line->level, text) : NULL;
    free(line);
    const int rc = item ? PyList_Append(lines, item) : -1;
    Py_XDECREF(item);
    return rc;
}

static PyObject *module_log_take(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    PyObject *lines = PyList_New(0);
    if (!lines)
        return NULL;
    bool is_end = false;
    struct log_line *line;
    Py_BEGIN_ALLOW_THREADS line = log_queue_take(&is_end);
    Py_END_ALLOW_THREADS int rc = 0;
    for (struct log_line *next; line; line = next) {
        next = line->next;
        if (rc == 0)
            rc = append_line(lines, line);
        else
            free(line);
    }
    PyObject *result =
        rc == 0 ? Py_BuildValue("(OIN)", lines, log_queue_num_lost(), PyBool_FromLong(is_end))
                : NULL;
    Py_DECREF(lines);
    return result;
}

static PyObject *module_log_close(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    log_queue_close();
    Py_RETURN_NONE;
}

static PyObject *module_log_forget(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    log_queue_forget();
    Py_RETURN_NONE;
}

static PyMethodDef module_methods[] = {
    {"finish", (PyCFunction)(void (*)(void))module_finish, METH_VARARGS | METH_KEYWORDS,
     "finish(pixels, num_rows, height, width, table, dtype, layout, out): u8 to a model's input, "
     "from one address to another."},
    {"state_part", module_state_part, METH_VARARGS,
     "state_part(state): what a batch's state is of."},
    {"move_boxes", module_move_boxes, METH_VARARGS,
     "move_boxes(matrices, height, width, boxes, offsets, min_size, min_area, by_center): of a "
     "batch, bytes of float64 [rows, 3, 3], float32 [boxes, 4] and uint64 [rows + 1]: bytearrays "
     "of the boxes that are kept, of int64, which of those given they are, and their offsets."},
    {"move_keypoints", module_move_keypoints, METH_VARARGS,
     "move_keypoints(matrices, height, width, points, offsets, number, dim): the same for float32 "
     "[objects, number, dim]: a bytearray of all."},
    {"draw_mix", module_draw_mix, METH_VARARGS,
     "draw_mix(seed, epoch, batch, rank, mixup_alpha, cutmix_alpha, p, cutmix_p, height, width): "
     "(0: as it is, 1: mixup, 2: CutMix; lambda; (top, left, height, width))."},
    {"draw_erasing", module_draw_erasing, METH_VARARGS,
     "draw_erasing(seed, epoch, sample, p, min_scale, max_scale, min_ratio, max_ratio, height, "
     "width): (top, left, height, width), or None."},
    {"fill_normals", module_fill_normals, METH_VARARGS,
     "fill_normals(seed, epoch, sample, table, address, count): count float32 to an address of the "
     "host, each one of the table's 65,536."},
    {"normal_quantiles", module_normal_quantiles, METH_NOARGS,
     "The table that fill_normals() is given: 65,536 float32, as bytes."},
    {"lend_probe", module_lend_probe, METH_O,
     "lend_probe(device): UnsupportedError: its streams cannot wait for a page of memory.  It may "
     "hang then: call it in a child process."},
    {"version", module_version, METH_NOARGS, "Of the library, as 'MAJOR.MINOR.PATCH'."},
    {"set_log_level", module_set_log_level, METH_O,
     "The least severe lines that the library writes: LOG_INFO at first."},
    {"log_open", module_log_open, METH_NOARGS,
     "The library's lines wait for log_take(), in place of going to stderr."},
    {"log_take", module_log_take, METH_NOARGS,
     "Waits: ([(level, text)], how many were left out, whether that was the end)."},
    {"log_close", module_log_close, METH_NOARGS, "Lines go to stderr again; log_take() ends."},
    {"log_forget", module_log_forget, METH_NOARGS, "In a child of fork: drops the parent's lines."},
    {0},
};

static PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "sluice._sluice",
    .m_doc = "libsluice for Python; sluice.torch, sluice.numpy and sluice.jax are made of it.",
    .m_size = -1,
    .m_methods = module_methods,
};

PyMODINIT_FUNC PyInit__sluice(void);
PyMODINIT_FUNC PyInit__sluice(void)
{
    static const struct {
        const char *name;
        int value;
    } numbers[] = {
        {"TRAIN", SLUICE_TRAIN},
        {"VAL", SLUICE_VAL},
        {"F32", SLUICE_F32},
        {"F16", SLUICE_F16},
        {"BF16", SLUICE_BF16},
        {"NCHW", SLUICE_NCHW},
        {"NHWC", SLUICE_NHWC},
        {"LOG_ERROR", SLUICE_LOG_ERROR},
        {"LOG_WARN", SLUICE_LOG_WARN},
        {"LOG_INFO", SLUICE_LOG_INFO},
        {"LOG_DEBUG", SLUICE_LOG_DEBUG},
        {"MAX_STATE", SLUICE_MAX_STATE},
        {"LEND_ALWAYS", SLUICE_LEND_ALWAYS},
        {"LEND_SHARE", SLUICE_LEND_SHARE},
        {"LEND_IDLE", SLUICE_LEND_IDLE},
    };
    PyObject *module = PyModule_Create(&module_def);
    if (!module || add_errors(module) || add_array(module) || add_batch(module) ||
        add_finisher(module) || add_lend(module) || add_loader(module) || add_server(module))
        goto fail;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (PyModule_AddIntConstant(module, numbers[i].name, numbers[i].value))
            goto fail;
    return module;

fail:
    Py_XDECREF(module);
    return NULL;
}
