#include "dlpack.h"
#include "extension.h"
#include "outputs.h"

#include <stdlib.h>
#include <string.h>

struct finisher {
    PyObject_HEAD struct outputs *outputs;
    enum sluice_dtype dtype;
    enum sluice_layout layout;
    unsigned num_threads, view;
    float table[3][256];
};

static PyObject *finisher_create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"table", "dtype",   "layout", "num_rows", "height",
                            "width", "threads", "view",   NULL};
    const char *table;
    Py_ssize_t table_size;
    int dtype, layout;
    unsigned num_rows, height, width, num_threads = 1, view = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y#iiIII|II", names, &table, &table_size, &dtype,
                                     &layout, &num_rows, &height, &width, &num_threads, &view))
        return NULL;
    float values[3][256];
    if (table_size != (Py_ssize_t)sizeof(values))
        return PyErr_Format(PyExc_ValueError, "table is %zu bytes, 3 x 256 float32, not %zd",
                            sizeof(values), table_size);
    if (dtype != SLUICE_F32 && dtype != SLUICE_F16 && dtype != SLUICE_BF16)
        return PyErr_Format(PyExc_ValueError, "dtype is F32, F16 or BF16, not %d", dtype);
    if (layout != SLUICE_NCHW && layout != SLUICE_NHWC)
        return PyErr_Format(PyExc_ValueError, "layout is NCHW or NHWC, not %d", layout);
    size_t bytes = dtype == SLUICE_F32 ? 3 * sizeof(float) : 3 * sizeof(uint16_t);
    if (__builtin_mul_overflow(bytes, num_rows, &bytes) ||
        __builtin_mul_overflow(bytes, height, &bytes) ||
        __builtin_mul_overflow(bytes, width, &bytes) || bytes == 0)
        return PyErr_Format(PyExc_ValueError, "%u rows of %u x %u pixels are no batch", num_rows,
                            height, width);

    struct outputs *outputs = outputs_create(bytes);
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct finisher *f = outputs ? (struct finisher *)alloc(type, 0) : NULL;
    if (!f) {
        outputs_close(outputs);
        return outputs ? NULL : PyErr_NoMemory();
    }
    f->outputs = outputs;
    f->dtype = (enum sluice_dtype)dtype;
    f->layout = (enum sluice_layout)layout;
    f->num_threads = num_threads;
    f->view = view;
    memcpy(f->table, table, sizeof(f->table));
    return (PyObject *)f;
}

static void finisher_dealloc(PyObject *self)
{
    outputs_close(((struct finisher *)self)->outputs);
    free_object(self);
}

static PyObject *finisher_finish(PyObject *self, PyObject *arg)
{
    const struct finisher *f = (struct finisher *)self;
    if (!is_batch(arg))
        return PyErr_Format(PyExc_TypeError, "finish() takes a Batch, not %R", arg);
    struct held *from = batch_held(arg);
    if (!from)
        return NULL;
    if (from->device >= 0)
        return PyErr_Format(PyExc_TypeError,
                            "finish() is for rows on the host; these are on CUDA device %d",
                            from->device);
    const struct sluice_batch *b = from->batch;
    const struct sluice_view view = sluice_batch_view(b, f->view);
    if (!view.pixels)
        return PyErr_Format(PyExc_ValueError, "the batch has no view %u", f->view);
    const uint8_t bits = f->dtype == SLUICE_F32 ? 32 : 16;
    if ((size_t)b->num_rows * view.height * view.width * 3 * (bits / 8) > outputs_bytes(f->outputs))
        return PyErr_Format(PyExc_ValueError, "a batch of %u rows of %u x %u pixels is too large",
                            b->num_rows, view.height, view.width);

    struct held *held = calloc(1, sizeof(*held));
    void *block = held ? outputs_take(f->outputs) : NULL;
    if (!block) {
        free(held);
        return PyErr_NoMemory();
    }
    *held = (struct held){.num_refs = 1, .outputs = f->outputs, .block = block, .device = -1};
    held_ref(from); /* another thread may release() it meanwhile */
    struct sluice_err err = {0};
    sluice_status status;
    Py_BEGIN_ALLOW_THREADS status = finish_rows(&view, b->num_rows, (const float(*)[256])f->table,
                                                f->dtype, f->layout, block, f->num_threads, &err);
    Py_END_ALLOW_THREADS

        PyObject *result = NULL;
    if (status == SLUICE_OK) {
        const bool is_planar = f->layout == SLUICE_NCHW;
        const int64_t planar[4] = {b->num_rows, 3, view.height, view.width};
        const int64_t packed[4] = {b->num_rows, view.height, view.width, 3};
        result = array_new(held, block, -1, f->dtype == SLUICE_BF16 ? DL_BFLOAT : DL_FLOAT, bits, 4,
                           is_planar ? planar : packed);
    } else {
        raise_status(status, &err);
    }
    held_unref(held);
    held_unref(from);
    return result;
}

static PyMethodDef finisher_methods[] = {
    {"finish", finisher_finish, METH_O,
     "finish(batch): its pixels as a model's input; an Array of dtype, in memory of its own."},
    {0},
};

static PyType_Slot finisher_slots[] = {
    {Py_tp_doc,
     "Finisher(table, dtype, layout, num_rows, height, width, threads=1, view=0): makes a "
     "model's input of a view of batches of at most so many rows.  Memory is used anew once "
     "nobody holds it; it and the arrays may go in any order."},
    {Py_tp_new, finisher_create},
    {Py_tp_dealloc, finisher_dealloc},
    {Py_tp_methods, finisher_methods},
    {0, NULL},
};

static PyType_Spec finisher_spec = {
    .name = "sluice._sluice.Finisher",
    .basicsize = sizeof(struct finisher),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = finisher_slots,
};

int add_finisher(PyObject *module)
{
    return add_plain_type(module, &finisher_spec, "Finisher");
}
