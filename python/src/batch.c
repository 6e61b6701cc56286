#include "dlpack.h"
#include "extension.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static PyTypeObject *batch_type;

struct batch {
    PyObject_HEAD struct held *held;
};

PyObject *batch_new(const struct sluice_batch *taken, int device)
{
    allocfunc alloc = (allocfunc)PyType_GetSlot(batch_type, Py_tp_alloc);
    struct held *held = malloc(sizeof(*held));
    struct batch *b = held ? (struct batch *)alloc(batch_type, 0) : NULL;
    if (!b) {
        free(held);
        sluice_batch_release(taken);
        return held ? NULL : PyErr_NoMemory();
    }
    *held = (struct held){.num_refs = 1, .batch = taken, .device = device};
    b->held = held;
    return (PyObject *)b;
}

static void batch_dealloc(PyObject *self)
{
    held_unref(((struct batch *)self)->held);
    free_object(self);
}

bool is_batch(PyObject *object)
{
    return PyObject_TypeCheck(object, batch_type);
}

struct held *batch_held(PyObject *self)
{
    struct held *held = ((struct batch *)self)->held;
    if (!held)
        raise_text(SLUICE_E_INVALID, "the batch was released");
    return held;
}

/* A list of an Array for each view. */
static PyObject *views_of(struct held *held)
{
    PyObject *list = PyList_New(0);
    struct sluice_view view;
    for (unsigned i = 0; list && (view = sluice_batch_view(held->batch, i)).pixels; i++) {
        const int64_t shape[4] = {held->batch->num_rows, view.height, view.width, 3};
        PyObject *array = array_new(held, view.pixels, held->device, DL_UINT, 8, 4, shape);
        const bool is_added = array && PyList_Append(list, array) == 0;
        Py_XDECREF(array);
        if (!is_added)
            Py_CLEAR(list);
    }
    return list;
}

/* A list of an Array for each row. */
static PyObject *images_of(struct held *held)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < held->batch->num_rows; i++) {
        const struct sluice_view image = sluice_batch_image(held->batch, i);
        const int64_t shape[3] = {image.height, image.width, 3};
        PyObject *array = array_new(held, image.pixels, held->device, DL_UINT, 8, 3, shape);
        const bool is_added = array && PyList_Append(list, array) == 0;
        Py_XDECREF(array);
        if (!is_added)
            Py_CLEAR(list);
    }
    return list;
}

enum batch_field {
    PIXELS,
    VIEWS,
    IMAGES,
    LABELS,
    IDS,
    DRAW_EPOCHS,
    NUM_ROWS,
    HEIGHT,
    WIDTH,
    NUM_PADDED,
    EPOCH,
    INDEX,
    DEVICE,
    IS_SHARED,
};

static PyObject *batch_get(PyObject *self, void *closure)
{
    struct held *held = batch_held(self);
    if (!held)
        return NULL;
    const struct sluice_batch *b = held->batch;
    const int64_t shape[4] = {b->num_rows, b->height, b->width, 3};
    switch ((enum batch_field)(uintptr_t)closure) {
    case PIXELS:
        return array_new(held, b->pixels, held->device, DL_UINT, 8, 4, shape);
    case VIEWS:
        return views_of(held);
    case IMAGES:
        return images_of(held);
    case LABELS:
        return array_new(held, b->labels, -1, DL_INT, 64, 1, shape);
    case IDS:
        return array_new(held, b->ids, -1, DL_UINT, 64, 1, shape);
    case DRAW_EPOCHS:
        return array_new(held, b->draw_epochs, -1, DL_UINT, 32, 1, shape);
    case NUM_ROWS:
        return PyLong_FromUnsignedLong(b->num_rows);
    case HEIGHT:
        return PyLong_FromUnsignedLong(b->height);
    case WIDTH:
        return PyLong_FromUnsignedLong(b->width);
    case NUM_PADDED:
        return PyLong_FromUnsignedLong(b->num_padded);
    case EPOCH:
        return PyLong_FromUnsignedLongLong(b->epoch);
    case INDEX:
        return PyLong_FromUnsignedLongLong(b->index);
    case DEVICE:
        return PyLong_FromLong(held->device);
    case IS_SHARED:
        return PyBool_FromLong(atomic_load_explicit(&held->num_refs, memory_order_acquire) > 1);
    }
    return raise_text(SLUICE_E_INTERNAL, "no such field");
}

static PyObject *batch_state(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct held *held = batch_held(self);
    if (!held)
        return NULL;
    char state[SLUICE_MAX_STATE] = "";
    sluice_batch_state(held->batch, state);
    return PyUnicode_FromString(state);
}

/* Fields of the rows' geometry as arrays, for batch_geometry(). */
static void put_geometry(const struct sluice_geometry *rows, size_t num_rows, double *matrix,
                         int64_t *size, int64_t *crop, char *flip)
{
    for (size_t i = 0; i < num_rows; i++) {
        const struct sluice_geometry *g = &rows[i];
        memcpy(matrix + 9 * i, g->matrix, sizeof(g->matrix));
        size[2 * i] = g->height;
        size[2 * i + 1] = g->width;
        crop[4 * i] = g->crop_top;
        crop[4 * i + 1] = g->crop_left;
        crop[4 * i + 2] = g->crop_height;
        crop[4 * i + 3] = g->crop_width;
        flip[i] = g->is_flipped;
    }
}

static PyObject *batch_geometry(PyObject *self, PyObject *arg)
{
    const unsigned long view = PyLong_AsUnsignedLong(arg);
    if (PyErr_Occurred())
        return NULL;
    struct held *held = batch_held(self);
    if (!held)
        return NULL;
    const struct sluice_geometry *rows =
        view > UINT_MAX ? NULL : sluice_batch_geometry(held->batch, (unsigned)view);
    if (!rows)
        Py_RETURN_NONE;
    const size_t num_rows = held->batch->num_rows;
    static const size_t bytes[4] = {9 * sizeof(double), 2 * sizeof(int64_t), 4 * sizeof(int64_t),
                                    1};
    PyObject *fields = PyTuple_New(4);
    void *memory[4];
    for (int i = 0; fields && i < 4; i++) {
        PyObject *field = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(num_rows * bytes[i]));
        if (!field || PyTuple_SetItem(fields, i, field)) {
            Py_DECREF(fields);
            return NULL;
        }
        memory[i] = PyByteArray_AsString(field);
    }
    if (fields)
        put_geometry(rows, num_rows, memory[0], memory[1], memory[2], memory[3]);
    return fields;
}

static PyObject *batch_release(PyObject *self, PyObject *unused)
{
    (void)unused;
    held_unref(((struct batch *)self)->held);
    ((struct batch *)self)->held = NULL;
    Py_RETURN_NONE;
}

static PyObject *batch_release_after(PyObject *self, PyObject *arg)
{
    const unsigned long long stream = PyLong_AsUnsignedLongLong(arg);
    if (stream == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    struct held *held = ((struct batch *)self)->held;
    if (held && held->device >= 0) {
        held->is_lent = true;
        held->has_stream = true;
        held->stream = stream_of(stream);
    }
    return batch_release(self, NULL);
}

static PyMethodDef batch_methods[] = {
    {"state", batch_state, METH_NOARGS, "The place after this batch, as JSON; for start(state=)."},
    {"geometry", batch_geometry, METH_O,
     "geometry(view): of its rows, as bytearrays: float64 [rows, 3, 3], the matrix from the file's "
     "pixels; int64 [rows, 2], the file's height and width; int64 [rows, 4], the crop's top, left, "
     "height and width; bool [rows], whether it is flipped.  None: it was not asked for, or there "
     "is no such view."},
    {"masks", batch_masks, METH_VARARGS,
     "masks(view, files, fill, threads=1): a list of a PNG for each row, as the view shows them: a "
     "bytearray of uint8 [rows, height, width]."},
    {"release", batch_release, METH_NOARGS,
     "Gives up this reference; arrays that were taken from it stay.  Twice is fine."},
    {"release_after", batch_release_after, METH_O,
     "release_after(stream): as release(); work that is on this stream (a cudaStream_t as an int; "
     "0: the legacy default stream) when the last array goes may still use the rows."},
    {0},
};

#define BATCH_FIELD(field) ((void *)(uintptr_t)(field))
static PyGetSetDef batch_getset[] = {
    {"pixels", batch_get, NULL, "Array [rows, height, width, 3] of u8, RGB: view 0.",
     BATCH_FIELD(PIXELS)},
    {"views", batch_get, NULL, "A list: of each view an Array as pixels.", BATCH_FIELD(VIEWS)},
    {"images", batch_get, NULL,
     "A list: of each row an Array [height, width, 3] of u8, RGB; in a batch of one view.",
     BATCH_FIELD(IMAGES)},
    {"labels", batch_get, NULL, "Array [rows] of int64.", BATCH_FIELD(LABELS)},
    {"ids", batch_get, NULL, "Array [rows] of uint64: the samples.", BATCH_FIELD(IDS)},
    {"draw_epochs", batch_get, NULL, "Array [rows] of uint32: seeds of crops and flips.",
     BATCH_FIELD(DRAW_EPOCHS)},
    {"num_rows", batch_get, NULL, NULL, BATCH_FIELD(NUM_ROWS)},
    {"height", batch_get, NULL, NULL, BATCH_FIELD(HEIGHT)},
    {"width", batch_get, NULL, NULL, BATCH_FIELD(WIDTH)},
    {"num_padded", batch_get, NULL, "The last so many rows repeat others.",
     BATCH_FIELD(NUM_PADDED)},
    {"epoch", batch_get, NULL, NULL, BATCH_FIELD(EPOCH)},
    {"index", batch_get, NULL, "Of the global batch in its epoch.", BATCH_FIELD(INDEX)},
    {"device", batch_get, NULL, "Where pixels is: a CUDA device, or -1: the host.",
     BATCH_FIELD(DEVICE)},
    {"is_shared", batch_get, NULL, "Whether arrays of it, or what was made of them, are held.",
     BATCH_FIELD(IS_SHARED)},
    {0},
};

static PyType_Slot batch_slots[] = {
    {Py_tp_doc, "Rows of an epoch, in memory of the library."},
    {Py_tp_dealloc, batch_dealloc},
    {Py_tp_methods, batch_methods},
    {Py_tp_getset, batch_getset},
    {0, NULL},
};

static PyType_Spec batch_spec = {
    .name = "sluice._sluice.Batch",
    .basicsize = sizeof(struct batch),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = batch_slots,
};

int add_batch(PyObject *module)
{
    batch_type = add_type(module, &batch_spec, "Batch");
    return batch_type ? 0 : -1;
}
