#include "dlpack.h"
#include "extension.h"

#include <stdlib.h>
#include <string.h>

static PyTypeObject *array_type;

struct array {
    PyObject_HEAD struct held *held;
    void *data;
    int device; /* -1: the host */
    uint8_t dl_code, bits;
    int ndim;
    int64_t shape[4];
};

PyObject *array_new(struct held *held, void *data, int device, uint8_t dl_code, uint8_t bits,
                    int ndim, const int64_t *shape)
{
    allocfunc alloc = (allocfunc)PyType_GetSlot(array_type, Py_tp_alloc);
    struct array *a = (struct array *)alloc(array_type, 0);
    if (!a)
        return NULL;
    a->held = held_ref(held);
    a->data = data;
    a->device = device;
    a->dl_code = dl_code;
    a->bits = bits;
    a->ndim = ndim;
    memcpy(a->shape, shape, (size_t)ndim * sizeof(*shape));
    return (PyObject *)a;
}

static void array_dealloc(PyObject *self)
{
    held_unref(((struct array *)self)->held);
    free_object(self);
}

static PyObject *array_shape(PyObject *self, void *closure)
{
    (void)closure;
    const struct array *a = (struct array *)self;
    PyObject *shape = PyTuple_New(a->ndim);
    for (int i = 0; shape && i < a->ndim; i++) {
        PyObject *length = PyLong_FromLongLong(a->shape[i]);
        if (!length || PyTuple_SetItem(shape, i, length)) {
            Py_DECREF(shape);
            return NULL;
        }
    }
    return shape;
}

static PyObject *array_typestr(PyObject *self, void *closure)
{
    (void)closure;
    const struct array *a = (struct array *)self;
    const bool is_big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    const char kind[] = {[DL_INT] = 'i', [DL_UINT] = 'u', [DL_FLOAT] = 'f', [DL_BFLOAT] = 'V'};
    return PyUnicode_FromFormat("%c%c%d",
                                a->bits == 8    ? '|'
                                : is_big_endian ? '>'
                                                : '<',
                                kind[a->dl_code], a->bits / 8);
}

static PyObject *array_address(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromVoidPtr(((struct array *)self)->data);
}

static PyObject *array_nbytes(PyObject *self, void *closure)
{
    (void)closure;
    const struct array *a = (struct array *)self;
    long long bytes = a->bits / 8;
    for (int i = 0; i < a->ndim; i++)
        bytes *= a->shape[i];
    return PyLong_FromLongLong(bytes);
}

/* NumPy's protocol, and what Numba made of it for CUDA, which adds "stream": None, as there is
 * nothing to wait for.  The consumer holds this object, and may write to it. */
static PyObject *interface_of(PyObject *self, void *closure)
{
    PyObject *shape = array_shape(self, closure), *typestr = array_typestr(self, closure);
    PyObject *address = array_address(self, closure), *result = NULL;
    if (shape && typestr && address)
        result = Py_BuildValue("{s:O,s:O,s:(O,O),s:i}", "shape", shape, "typestr", typestr, "data",
                               address, Py_False, "version", 3);
    Py_XDECREF(shape);
    Py_XDECREF(typestr);
    Py_XDECREF(address);
    return result;
}

/* A TypeError on a device: at an AttributeError NumPy would make an array of this one object. */
static PyObject *array_interface(PyObject *self, void *closure)
{
    const struct array *a = (struct array *)self;
    if (a->device >= 0)
        return PyErr_Format(PyExc_TypeError, "these rows are on CUDA device %d, not on the host",
                            a->device);
    return interface_of(self, closure);
}

static PyObject *array_cuda_interface(PyObject *self, void *closure)
{
    struct array *a = (struct array *)self;
    if (a->device < 0)
        return PyErr_Format(PyExc_AttributeError, "these rows are on the host");
    PyObject *interface = interface_of(self, closure);
    if (interface && PyDict_SetItemString(interface, "stream", Py_None))
        Py_CLEAR(interface);
    if (interface)
        a->held->is_lent = true;
    return interface;
}

static PyObject *array_signed(PyObject *self, PyObject *unused)
{
    (void)unused;
    const struct array *a = (struct array *)self;
    if (a->dl_code != DL_UINT)
        return PyErr_Format(PyExc_TypeError, "signed() is for unsigned integers");
    return array_new(a->held, a->data, a->device, DL_INT, a->bits, a->ndim, a->shape);
}

struct exported {
    struct dl_managed_tensor tensor; /* first: the consumer has its address */
    struct held *held;
    int64_t shape[4], strides[4];
};

/* Any thread, without the GIL. */
static void exported_delete(struct dl_managed_tensor *tensor)
{
    struct exported *e = (struct exported *)tensor;
    held_unref(e->held);
    free(e);
}

/* A consumer renames the capsule that it took. */
static void capsule_destroy(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        struct dl_managed_tensor *tensor = PyCapsule_GetPointer(capsule, "dltensor");
        tensor->deleter(tensor);
    }
}

/* Whether the consumer wants the array where it is; false with an exception set. */
static bool is_wanted_there(const struct array *a, PyObject *dl_device, PyObject *copy)
{
    if (copy == Py_True) {
        PyErr_Format(PyExc_BufferError, "a batch is exported without a copy");
        return false;
    }
    if (dl_device == Py_None)
        return true;
    int kind, id;
    if (!PyTuple_Check(dl_device) || !PyArg_ParseTuple(dl_device, "ii", &kind, &id)) {
        PyErr_Format(PyExc_BufferError, "dl_device is (type, id), not %R", dl_device);
        return false;
    }
    if (a->device < 0 ? kind == DL_CPU : kind == DL_CUDA && id == a->device)
        return true;
    if (a->device < 0)
        PyErr_Format(PyExc_BufferError, "a batch is in memory of the host");
    else
        PyErr_Format(PyExc_BufferError, "these rows are on CUDA device %d", a->device);
    return false;
}

/* Notes the stream that a consumer is going to use the array on; false with an exception set. */
static bool is_lent_for(struct array *a, PyObject *stream)
{
    if (a->device < 0 && stream != Py_None) {
        PyErr_Format(PyExc_BufferError, "memory of the host has no stream, not %R", stream);
        return false;
    }
    if (a->device < 0)
        return true;
    /* None is the legacy default stream; -1: the consumer looks after all of it by itself. */
    long long number = stream == Py_None ? 1 : PyLong_AsLongLong(stream);
    if (number == -1 && PyErr_Occurred())
        return false;
    if (number == 0 || number < -1) {
        PyErr_Format(PyExc_BufferError,
                     "stream %R: 1 is the legacy default stream, 2 that of each thread", stream);
        return false;
    }
    if (number == -1) {
        a->held->is_lent = true;
        return true;
    }
    return held_lend(a->held, stream_of((unsigned long long)number));
}

static struct dl_managed_tensor *exported_create(const struct array *a)
{
    struct exported *e = calloc(1, sizeof(*e));
    if (!e)
        return NULL;
    int64_t stride = 1;
    for (int i = a->ndim; i-- > 0;) {
        e->shape[i] = a->shape[i];
        e->strides[i] = stride;
        stride *= a->shape[i];
    }
    e->tensor = (struct dl_managed_tensor){
        .tensor = {.data = a->data,
                   .device = {.type = a->device < 0 ? DL_CPU : DL_CUDA,
                              .id = a->device < 0 ? 0 : a->device},
                   .ndim = a->ndim,
                   .dtype = {.code = a->dl_code, .bits = a->bits, .lanes = 1},
                   .shape = e->shape,
                   .strides = e->strides},
        .deleter = exported_delete,
    };
    e->held = held_ref(a->held);
    return &e->tensor;
}

static PyObject *array_dlpack(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO", names, &stream, &max_version, &device,
                                     &copy))
        return NULL;
    struct array *a = (struct array *)self;
    if (!is_wanted_there(a, device, copy) || !is_lent_for(a, stream))
        return NULL;
    struct dl_managed_tensor *tensor = exported_create(a);
    if (!tensor)
        return PyErr_NoMemory();
    PyObject *capsule = PyCapsule_New(tensor, "dltensor", capsule_destroy);
    if (!capsule)
        exported_delete(tensor);
    return capsule;
}

static PyObject *array_dlpack_device(PyObject *self, PyObject *unused)
{
    (void)unused;
    const struct array *a = (struct array *)self;
    return a->device < 0 ? Py_BuildValue("(ii)", DL_CPU, 0)
                         : Py_BuildValue("(ii)", DL_CUDA, a->device);
}

static PyMethodDef array_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))array_dlpack, METH_VARARGS | METH_KEYWORDS,
     "A DLPack capsule of the same memory.  On a CUDA device stream is the one that the consumer "
     "is going to use it on: there is nothing to wait for, and the memory's next use waits for it. "
     " BufferError: another stream was named for this batch before."},
    {"__dlpack_device__", array_dlpack_device, METH_NOARGS,
     "(1, 0): the host; (2, number): a CUDA device."},
    {"signed", array_signed, METH_NOARGS, "The same memory as signed integers."},
    {0},
};

static PyGetSetDef array_getset[] = {
    {"shape", array_shape, NULL, "Lengths, outermost first; rows follow each other.", NULL},
    {"typestr", array_typestr, NULL,
     "'|u1', '<i8' and so on, as NumPy writes it; bfloat16, which it lacks, is '<V2'.", NULL},
    {"address", array_address, NULL, "Of the first element.", NULL},
    {"nbytes", array_nbytes, NULL, "Of all elements.", NULL},
    {"__array_interface__", array_interface, NULL,
     "For numpy.asarray(), without a copy.  TypeError: it is on a device.", NULL},
    {"__cuda_array_interface__", array_cuda_interface, NULL,
     "Of an array on a CUDA device; who works on it with a stream that does not follow the legacy "
     "default stream calls Batch.release_after().",
     NULL},
    {0},
};

static PyType_Slot array_slots[] = {
    {Py_tp_doc, "An array of a batch; the batch is held as long as it or what was made of it is."},
    {Py_tp_dealloc, array_dealloc},
    {Py_tp_methods, array_methods},
    {Py_tp_getset, array_getset},
    {0, NULL},
};

static PyType_Spec array_spec = {
    .name = "sluice._sluice.Array",
    .basicsize = sizeof(struct array),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = array_slots,
};

int add_array(PyObject *module)
{
    array_type = add_type(module, &array_spec, "Array");
    return array_type ? 0 : -1;
}
