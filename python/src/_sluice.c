/* sluice._sluice: include/sluice/sluice.h for Python, over CPython's stable ABI (3.10 and later).
 *
 * MEMORY     A batch is released when the last of these has gone: its Batch, its Arrays, and what
 *            consumers made of their DLPack capsules.  These count references in C (struct held),
 *            as a consumer may drop its tensor on any thread, without the GIL, after the
 *            interpreter.
 *
 * STREAMS    Rows on a CUDA device are complete when they are given, for work on any stream.  A
 *            capsule is asked for with the stream that its consumer works on; the rows' next use
 *            waits for that stream, on the device.  The host waits for none.
 *
 * GIL        Given up around every call that can wait.  open() and start() run on a thread of their
 *            own, so that the caller can look for signals meanwhile; next() waits in slices.
 *
 * THREADS    What the header allows to one thread at a time is refused to a second one in words. */

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030A0000
#endif
#include <Python.h>

#include "cuda_memory.h"
#include "dlpack.h"
#include "log_queue.h"
#include "outputs.h"
#include <sluice/sluice.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIGNAL_SLICE_MS = 50 }; /* how often a wait looks whether Python has a signal */

static PyObject *errors[SLUICE_NUM_STATUS]; /* by status; [SLUICE_OK]: the base of all */
static PyTypeObject *batch_type, *array_type;

/* --- errors --- */

static const struct {
    const char *name, *doc;
    PyObject **also; /* a class of Python's that it is too */
} error_classes[SLUICE_NUM_STATUS] = {
    [SLUICE_OK] = {"Error", "What the library reports; .status is the kind, in words.", NULL},
    [SLUICE_E_INVALID] = {"InvalidError", "An argument, setting or request is wrong.",
                          &PyExc_ValueError},
    [SLUICE_E_CORRUPT] = {"CorruptError", "Bytes are not what they claim to be.", NULL},
    [SLUICE_E_UNSUPPORTED] = {"UnsupportedError", "A feature that there is not, or too much data.",
                              NULL},
    [SLUICE_E_NOT_FOUND] = {"NotFoundError", "There is none such.", &PyExc_FileNotFoundError},
    [SLUICE_E_IO] = {"IoError", "The operating system or the network said no.", &PyExc_OSError},
    [SLUICE_E_NO_MEMORY] = {"NoMemoryError", "Memory is short now.", &PyExc_MemoryError},
    [SLUICE_E_AGAIN] = {"AgainError", "Nothing is ready within the time given.",
                        &PyExc_TimeoutError},
    [SLUICE_E_CLOSED] = {"ClosedError", "It was stopped or closed.", NULL},
    [SLUICE_E_INTERNAL] = {"InternalError", "A mistake of the library.", &PyExc_RuntimeError},
    [SLUICE_E_STALE] = {"StaleError", "The data changed since it was listed.", NULL},
};

static int add_errors(PyObject *module)
{
    for (int status = 0; status < SLUICE_NUM_STATUS; status++) {
        char name[64];
        PyOS_snprintf(name, sizeof(name), "sluice.%s", error_classes[status].name);
        PyObject *bases = NULL;
        if (status != SLUICE_OK && error_classes[status].also)
            bases = PyTuple_Pack(2, errors[SLUICE_OK], *error_classes[status].also);
        else
            bases = PyTuple_Pack(1, status == SLUICE_OK ? PyExc_Exception : errors[SLUICE_OK]);
        if (!bases)
            return -1;
        PyObject *error = PyErr_NewExceptionWithDoc(name, error_classes[status].doc, bases, NULL);
        Py_DECREF(bases);
        if (!error)
            return -1;
        errors[status] = error;
        PyObject *word = PyUnicode_FromString(sluice_status_name((sluice_status)status));
        const int rc = word ? PyObject_SetAttrString(error, "status", word) : -1;
        Py_XDECREF(word);
        if (rc || PyModule_AddObjectRef(module, error_classes[status].name, error))
            return -1;
    }
    return 0;
}

/* Returns NULL. */
static PyObject *raise_status(sluice_status status, const struct sluice_err *err)
{
    const unsigned kind = (unsigned)status < SLUICE_NUM_STATUS ? status : SLUICE_E_INTERNAL;
    const char *text = err && err->text[0] ? err->text : sluice_status_name(status);
    /* A path in the text may be of any bytes. */
    PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "backslashreplace");
    if (message)
        PyErr_SetObject(errors[kind], message);
    Py_XDECREF(message);
    return NULL;
}

static PyObject *raise_text(sluice_status status, const char *text)
{
    struct sluice_err err = {0};
    PyOS_snprintf(err.text, sizeof(err.text), "%s", text);
    return raise_status(status, &err);
}

static PyObject *text_or_none(const char *text)
{
    if (!text)
        Py_RETURN_NONE;
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape");
}

static void free_object(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* --- settings --- */

struct settings {
    struct sluice_setting *list;
    PyObject **held; /* the strings that the list points into */
    Py_ssize_t count, num_held;
};

static void settings_clear(struct settings *s)
{
    for (Py_ssize_t i = 0; i < s->num_held; i++)
        Py_DECREF(s->held[i]);
    PyMem_Free(s->held);
    PyMem_Free(s->list);
    *s = (struct settings){0};
}

/* Room for one more; -1 with an exception set. */
static int settings_grow(struct settings *s)
{
    const size_t count = (size_t)s->count + 1;
    struct sluice_setting *list = PyMem_Realloc(s->list, count * sizeof(*list));
    if (list)
        s->list = list;
    /* NOLINTNEXTLINE(bugprone-sizeof-expression) */
    PyObject **held = PyMem_Realloc(s->held, 2 * count * sizeof(*held));
    if (held)
        s->held = held;
    if (list && held)
        return 0;
    PyErr_NoMemory();
    return -1;
}

/* The text of a string, which the settings hold; NULL with an exception set. */
static const char *settings_text(struct settings *s, PyObject *string)
{
    PyObject *bytes = PyUnicode_EncodeFSDefault(string);
    char *text = NULL;
    if (!bytes)
        return NULL;
    s->held[s->num_held++] = bytes;
    /* With a NULL for the length a NUL within is a ValueError. */
    return PyBytes_AsStringAndSize(bytes, &text, NULL) ? NULL : text;
}

static int settings_add(struct settings *s, PyObject *key, PyObject *value)
{
    if (!PyUnicode_Check(key) || !PyUnicode_Check(value)) {
        PyErr_Format(PyExc_TypeError, "setting %R: key and value are strings, not %R", key, value);
        return -1;
    }
    if (settings_grow(s))
        return -1;
    const char *key_text = settings_text(s, key);
    const char *value_text = key_text ? settings_text(s, value) : NULL;
    if (!value_text)
        return -1;
    s->list[s->count++] = (struct sluice_setting){key_text, value_text};
    return 0;
}

/* A dict of strings; a list of strings is the setting given several times.  Returns -1 with an
 * exception set. */
static int settings_from(PyObject *dict, struct settings *s)
{
    *s = (struct settings){0};
    if (!dict || dict == Py_None)
        return 0;
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "settings are a dict of strings");
        return -1;
    }
    Py_ssize_t at = 0;
    PyObject *key, *value;
    int failed = 0;
    while (!failed && PyDict_Next(dict, &at, &key, &value)) {
        const Py_ssize_t num_items = PyList_Check(value) ? PyList_Size(value) : 0;
        if (!PyList_Check(value))
            failed = settings_add(s, key, value);
        for (Py_ssize_t i = 0; !failed && i < num_items; i++)
            failed = settings_add(s, key, PyList_GetItem(value, i));
    }
    if (failed)
        settings_clear(s);
    return failed;
}

/* --- a batch, or what was made of one, that several hold --- */

struct held {
    atomic_size_t num_refs;           /* consumers of DLPack drop theirs on any thread */
    const struct sluice_batch *batch; /* NULL: a block of outputs */
    struct outputs *outputs;
    void *block;
    int device; /* where the rows are; -1: the host */
    /* On a device, what may still work on the rows when the last reference goes.  Written with the
     * GIL, by who has a reference. */
    bool is_lent;    /* something was told the rows' address */
    bool has_stream; /* and this is the stream that it uses them on */
    void *stream;
};

static struct held *held_ref(struct held *held)
{
    atomic_fetch_add_explicit(&held->num_refs, 1, memory_order_relaxed);
    return held;
}

static void held_unref(struct held *held)
{
    if (!held || atomic_fetch_sub_explicit(&held->num_refs, 1, memory_order_acq_rel) != 1)
        return;
    /* NULL, the legacy default stream, where no stream was named: it follows all that do not say
     * that they have nothing to do with it. */
    if (held->is_lent)
        sluice_batch_release_after(held->batch, held->stream);
    else
        sluice_batch_release(held->batch);
    if (held->outputs)
        outputs_give(held->outputs, held->block);
    free(held);
}

/* DLPack's word for a stream of CUDA: 1 and 2 are the default streams.  The one of each thread
 * becomes the legacy one, which follows it and means the same on the thread that releases. */
static void *stream_of(unsigned long long number)
{
    return number <= 2 ? NULL : (void *)(uintptr_t)number;
}

/* False with an exception set: the rows are for another stream. */
static bool held_lend(struct held *held, void *stream)
{
    if (held->has_stream && held->stream != stream) {
        PyErr_Format(PyExc_BufferError,
                     "these rows are in use on stream %p, and are to be used on stream %p: a batch "
                     "is for one stream",
                     held->stream, stream);
        return false;
    }
    held->is_lent = true;
    held->has_stream = true;
    held->stream = stream;
    return true;
}

/* --- Array: one of the arrays of a batch --- */

struct array {
    PyObject_HEAD struct held *held;
    void *data;
    int device; /* -1: the host */
    uint8_t dl_code, bits;
    int ndim;
    int64_t shape[4];
};

static PyObject *array_new(struct held *held, void *data, int device, uint8_t dl_code, uint8_t bits,
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

/* --- Batch --- */

struct batch {
    PyObject_HEAD struct held *held;
};

/* Takes the batch, also on failure. */
static PyObject *batch_new(const struct sluice_batch *taken, int device)
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

/* The held batch, or NULL with an exception set. */
static struct held *batch_held(PyObject *self)
{
    struct held *held = ((struct batch *)self)->held;
    if (!held)
        raise_text(SLUICE_E_INVALID, "the batch was released");
    return held;
}

enum batch_field {
    PIXELS,
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
    {"release", batch_release, METH_NOARGS,
     "Gives up this reference; arrays that were taken from it stay.  Twice is fine."},
    {"release_after", batch_release_after, METH_O,
     "release_after(stream): as release(); work that is on this stream (a cudaStream_t as an int; "
     "0: the legacy default stream) when the last array goes may still use the rows."},
    {0},
};

#define BATCH_FIELD(field) ((void *)(uintptr_t)(field))
static PyGetSetDef batch_getset[] = {
    {"pixels", batch_get, NULL, "Array [rows, height, width, 3] of u8, RGB.", BATCH_FIELD(PIXELS)},
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

/* --- Finisher --- */

struct finisher {
    PyObject_HEAD struct outputs *outputs;
    enum sluice_dtype dtype;
    enum sluice_layout layout;
    unsigned num_threads;
    float table[3][256];
};

static PyObject *finisher_create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"table",  "dtype", "layout",  "num_rows",
                            "height", "width", "threads", NULL};
    const char *table;
    Py_ssize_t table_size;
    int dtype, layout;
    unsigned num_rows, height, width, num_threads = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y#iiIII|I", names, &table, &table_size, &dtype,
                                     &layout, &num_rows, &height, &width, &num_threads))
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
    if (!PyObject_TypeCheck(arg, batch_type))
        return PyErr_Format(PyExc_TypeError, "finish() takes a Batch, not %R", arg);
    struct held *from = batch_held(arg);
    if (!from)
        return NULL;
    if (from->device >= 0)
        return PyErr_Format(PyExc_TypeError,
                            "finish() is for rows on the host; these are on CUDA device %d",
                            from->device);
    const struct sluice_batch *b = from->batch;
    const uint8_t bits = f->dtype == SLUICE_F32 ? 32 : 16;
    if ((size_t)b->num_rows * b->height * b->width * 3 * (bits / 8) > outputs_bytes(f->outputs))
        return PyErr_Format(PyExc_ValueError, "a batch of %u rows of %u x %u pixels is too large",
                            b->num_rows, b->height, b->width);

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
    Py_BEGIN_ALLOW_THREADS status = finish_rows(b, (const float(*)[256])f->table, f->dtype,
                                                f->layout, block, f->num_threads, &err);
    Py_END_ALLOW_THREADS

        PyObject *result = NULL;
    if (status == SLUICE_OK) {
        const bool is_planar = f->layout == SLUICE_NCHW;
        const int64_t planar[4] = {b->num_rows, 3, b->height, b->width};
        const int64_t packed[4] = {b->num_rows, b->height, b->width, 3};
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
    {Py_tp_doc, "Finisher(table, dtype, layout, num_rows, height, width, threads=1): makes a "
                "model's input of batches of at most so many rows.  Memory is used anew once "
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

/* --- Loader --- */

struct loader {
    PyObject_HEAD struct sluice_loader *loader; /* NULL: closed */
    enum sluice_part part;                      /* of the last start */
    bool is_busy;                               /* a thread is in a call that only one may be in */
    bool is_open;
    unsigned num_readers; /* threads in calls that any may be in */
};

static bool loader_is_usable(const struct loader *l)
{
    if (!l->loader)
        raise_text(SLUICE_E_CLOSED, "the loader is closed");
    return l->loader;
}

/* With the GIL.  False with an exception set: another thread is at it, or it is closed. */
static bool loader_enter(struct loader *l)
{
    if (!loader_is_usable(l))
        return false;
    if (l->is_busy) {
        raise_text(SLUICE_E_INVALID, "another thread is using this loader: one at a time");
        return false;
    }
    l->is_busy = true;
    return true;
}

static bool loader_enter_open(struct loader *l)
{
    if (!loader_enter(l))
        return false;
    if (!l->is_open) {
        l->is_busy = false;
        raise_text(SLUICE_E_INVALID, "the loader is not open: call open() first");
        return false;
    }
    return true;
}

static PyObject *loader_create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"settings", "pinned_device", NULL};
    PyObject *dict;
    int device = -1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|i", names, &dict, &device))
        return NULL;
    struct settings settings;
    if (settings_from(dict, &settings))
        return NULL;

    struct sluice_err err = {0};
    struct sluice_loader *loader = NULL;
    const struct sluice_host_memory *memory = NULL;
    sluice_status status = SLUICE_OK;
    Py_BEGIN_ALLOW_THREADS if (device >= 0) status = sluice_cuda_memory(device, &memory, &err);
    if (status == SLUICE_OK)
        status = sluice_loader_create(settings.list, (size_t)settings.count, &loader, &err);
    if (status == SLUICE_OK && memory)
        sluice_loader_set_memory(loader, memory);
    Py_END_ALLOW_THREADS settings_clear(&settings);
    if (status != SLUICE_OK)
        return raise_status(status, &err);

    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct loader *l = (struct loader *)alloc(type, 0);
    if (!l) {
        sluice_loader_close(loader);
        return NULL;
    }
    l->loader = loader;
    return (PyObject *)l;
}

static void loader_dealloc(PyObject *self)
{
    struct sluice_loader *loader = ((struct loader *)self)->loader;
    Py_BEGIN_ALLOW_THREADS sluice_loader_close(loader);
    Py_END_ALLOW_THREADS free_object(self);
}

/* open() or start() under way on a thread of its own. */
struct waiting_call {
    struct sluice_loader *loader;
    const struct sluice_epoch_start *start; /* NULL: open */
    struct sluice_err err;
    sluice_status status;

    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool has_ended;
};

static void *run_call(void *arg)
{
    struct waiting_call *call = arg;
    const sluice_status status = call->start
                                     ? sluice_loader_start(call->loader, call->start, &call->err)
                                     : sluice_loader_open(call->loader, &call->err);
    pthread_mutex_lock(&call->lock);
    call->status = status;
    call->has_ended = true;
    pthread_cond_signal(&call->ended);
    pthread_mutex_unlock(&call->lock);
    return NULL;
}

static bool wait_a_slice(struct waiting_call *call)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += SIGNAL_SLICE_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&call->lock);
    int rc = 0;
    while (!call->has_ended && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&call->ended, &call->lock, &until);
    const bool has_ended = call->has_ended;
    pthread_mutex_unlock(&call->lock);
    return has_ended;
}

/* The thread, with all signals blocked: they are for Python's threads. */
static int spawn(pthread_t *thread, struct waiting_call *call)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int rc = pthread_create(thread, NULL, run_call, call);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

/* Runs the call and looks for signals meanwhile; one whose handler raises stops the loader. */
static PyObject *call_and_wait(struct loader *l, const struct sluice_epoch_start *start)
{
    struct waiting_call call = {.loader = l->loader, .start = start};
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&call.lock, NULL);
    pthread_cond_init(&call.ended, &monotonic);
    pthread_condattr_destroy(&monotonic);

    pthread_t thread;
    bool has_raised = false;
    const int rc = spawn(&thread, &call);
    if (rc) {
        call.status = SLUICE_E_NO_MEMORY;
        PyOS_snprintf(call.err.text, sizeof(call.err.text), "no thread: %s", strerror(rc));
    } else {
        for (bool has_ended = false; !has_ended && !has_raised;) {
            Py_BEGIN_ALLOW_THREADS has_ended = wait_a_slice(&call);
            Py_END_ALLOW_THREADS has_raised = PyErr_CheckSignals() != 0;
        }
        Py_BEGIN_ALLOW_THREADS if (has_raised) sluice_loader_stop(l->loader);
        pthread_join(thread, NULL);
        Py_END_ALLOW_THREADS
    }
    pthread_cond_destroy(&call.ended);
    pthread_mutex_destroy(&call.lock);

    if (!start && call.status == SLUICE_OK)
        l->is_open = true;
    if (has_raised)
        return NULL;
    if (call.status != SLUICE_OK)
        return raise_status(call.status, &call.err);
    Py_RETURN_NONE;
}

static PyObject *loader_open(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct loader *l = (struct loader *)self;
    if (!loader_enter(l))
        return NULL;
    PyObject *result = call_and_wait(l, NULL);
    l->is_busy = false;
    return result;
}

static PyObject *loader_start(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"epoch", "part", "order", "state", NULL};
    unsigned long long epoch = 0;
    int part = SLUICE_TRAIN;
    PyObject *order = Py_None;
    const char *state = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|KiOz", names, &epoch, &part, &order, &state))
        return NULL;
    if (part != SLUICE_TRAIN && part != SLUICE_VAL)
        return PyErr_Format(PyExc_ValueError, "part is TRAIN or VAL, not %d", part);

    struct sluice_epoch_start start = {
        .part = (enum sluice_part)part, .epoch = epoch, .state = state};
    uint64_t *positions = NULL;
    if (order != Py_None) {
        char *bytes;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(order, &bytes, &size))
            return NULL;
        if (size % (Py_ssize_t)sizeof(*positions))
            return PyErr_Format(PyExc_ValueError, "order is bytes of uint64, not %zd bytes", size);
        /* A copy, as bytes need not be aligned; never NULL, which would mean no order. */
        positions = malloc((size_t)size + 1);
        if (!positions)
            return PyErr_NoMemory();
        memcpy(positions, bytes, (size_t)size);
        start.order = positions;
        start.num_order = (size_t)size / sizeof(*positions);
    }

    struct loader *l = (struct loader *)self;
    l->part = start.part;
    PyObject *result = NULL;
    if (loader_enter_open(l)) {
        result = call_and_wait(l, &start);
        l->is_busy = false;
    }
    free(positions);
    return result;
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static PyObject *loader_next(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"timeout", NULL};
    PyObject *timeout = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", names, &timeout))
        return NULL;
    double until_s = 0;
    if (timeout != Py_None) {
        const double seconds = PyFloat_AsDouble(timeout);
        if (seconds == -1 && PyErr_Occurred())
            return NULL;
        until_s = now_s() + (seconds > 0 ? seconds : 0);
    }

    struct loader *l = (struct loader *)self;
    if (!loader_enter_open(l))
        return NULL;
    const struct sluice_batch *batch = NULL;
    struct sluice_err err;
    sluice_status status;
    bool has_raised = false, is_late = false;
    do {
        int slice_ms = SIGNAL_SLICE_MS;
        if (timeout != Py_None) {
            const double left_ms = 1000 * (until_s - now_s());
            is_late = left_ms <= slice_ms;
            if (is_late)
                slice_ms = left_ms > 0 ? (int)left_ms : 0;
        }
        err = (struct sluice_err){0};
        Py_BEGIN_ALLOW_THREADS status = sluice_loader_next(l->loader, slice_ms, &batch, &err);
        Py_END_ALLOW_THREADS has_raised = status == SLUICE_E_AGAIN && PyErr_CheckSignals() != 0;
    } while (status == SLUICE_E_AGAIN && !has_raised && !is_late);
    l->is_busy = false;

    if (has_raised)
        return NULL;
    if (status != SLUICE_OK)
        return raise_status(status, &err);
    if (!batch)
        Py_RETURN_NONE;
    return batch_new(batch, sluice_loader_device(l->loader));
}

static PyObject *loader_finish(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct loader *l = (struct loader *)self;
    if (!loader_enter_open(l))
        return NULL;
    Py_BEGIN_ALLOW_THREADS sluice_loader_finish(l->loader);
    Py_END_ALLOW_THREADS l->is_busy = false;
    Py_RETURN_NONE;
}

static PyObject *loader_stop(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct loader *l = (struct loader *)self;
    if (l->loader) {
        l->num_readers++;
        Py_BEGIN_ALLOW_THREADS sluice_loader_stop(l->loader);
        Py_END_ALLOW_THREADS l->num_readers--;
    }
    Py_RETURN_NONE;
}

static PyObject *loader_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct loader *l = (struct loader *)self;
    if (!l->loader)
        Py_RETURN_NONE;
    if (l->is_busy || l->num_readers > 0)
        return raise_text(
            SLUICE_E_INVALID,
            "another thread is using this loader: stop() it and wait for that thread");
    struct sluice_loader *loader = l->loader;
    l->loader = NULL;
    Py_BEGIN_ALLOW_THREADS sluice_loader_close(loader);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

/* Frees the text. */
static PyObject *take_text(sluice_status status, char *text, const struct sluice_err *err)
{
    if (status != SLUICE_OK)
        return raise_status(status, err);
    PyObject *result = text_or_none(text);
    sluice_free(text);
    return result;
}

static PyObject *loader_stats(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct loader *l = (struct loader *)self;
    if (!loader_is_usable(l))
        return NULL;
    char *json = NULL;
    struct sluice_err err = {0};
    sluice_status status;
    l->num_readers++;
    Py_BEGIN_ALLOW_THREADS status = sluice_loader_stats(l->loader, l->part, &json, &err);
    Py_END_ALLOW_THREADS l->num_readers--;
    return take_text(status, json, &err);
}

static bool loader_must_be_open(const struct loader *l)
{
    if (!loader_is_usable(l))
        return false;
    if (!l->is_open)
        raise_text(SLUICE_E_INVALID, "the loader is not open: call open() first");
    return l->is_open;
}

static PyObject *loader_info(PyObject *self, PyObject *unused)
{
    (void)unused;
    const struct loader *l = (struct loader *)self;
    if (!loader_must_be_open(l))
        return NULL;
    const struct sluice_dataset_info *info = sluice_loader_info(l->loader);
    if (!info)
        return raise_text(SLUICE_E_INVALID, "the loader knows nothing of its dataset");
    PyObject *table = info->has_normalization ? PyBytes_FromStringAndSize((const char *)info->table,
                                                                          sizeof(info->table))
                                              : Py_NewRef(Py_None);
    if (!table)
        return NULL;
    static const char *const target_kinds[] = {
        [SLUICE_TARGETS_VECTOR] = "vector", [SLUICE_TARGETS_BYTES] = "bytes"};
    return Py_BuildValue(
        "{s:s,s:(KK),s:K,s:I,s:I,s:N,s:(KK),s:s,s:z,s:I}", "id", info->id, "num_samples",
        (unsigned long long)info->num_samples[0], (unsigned long long)info->num_samples[1],
        "num_classes", (unsigned long long)info->num_classes, "height", (unsigned)info->height,
        "width", (unsigned)info->width, "table", table, "pipeline_fingerprint",
        (unsigned long long)info->pipeline_fingerprint[0],
        (unsigned long long)info->pipeline_fingerprint[1], "mode", info->mode, "target_kind",
        target_kinds[info->target_kind], "target_dim", (unsigned)info->target_dim);
}

static bool set_count(PyObject *dict, const char *key, uint64_t count)
{
    PyObject *value = PyLong_FromUnsignedLongLong(count);
    const bool is_set = value && PyDict_SetItemString(dict, key, value) == 0;
    Py_XDECREF(value);
    return is_set;
}

static bool set_seconds(PyObject *dict, const char *key, double seconds)
{
    PyObject *value = PyFloat_FromDouble(seconds);
    const bool is_set = value && PyDict_SetItemString(dict, key, value) == 0;
    Py_XDECREF(value);
    return is_set;
}

/* Of those that are not 0. */
static bool set_choices(PyObject *dict, const struct sluice_loader *loader)
{
    enum { MOST = 128 }; /* each split has one plain form, and few have others */
    struct sluice_choice_count counts[MOST];
    const size_t num = sluice_loader_choices(loader, counts, MOST);
    PyObject *choices = PyDict_New();
    bool is_set = choices && PyDict_SetItemString(dict, "choices", choices) == 0;
    for (size_t i = 0; is_set && i < num && i < MOST; i++) {
        char name[64];
        snprintf(name, sizeof(name), "%s@%u", counts[i].form, counts[i].split);
        is_set = set_count(choices, name, counts[i].samples);
    }
    Py_XDECREF(choices);
    return is_set;
}

/* Of those that are not 0. */
static bool set_on_gpu(PyObject *dict, const struct sluice_counters *counters)
{
    PyObject *forms = PyDict_New();
    bool is_set = forms && PyDict_SetItemString(dict, "on_gpu", forms) == 0;
    for (int form = 0; is_set && form < SLUICE_NUM_FORMS; form++)
        if (counters->on_gpu[form])
            is_set =
                set_count(forms, sluice_form_name((enum sluice_form)form), counters->on_gpu[form]);
    Py_XDECREF(forms);
    return is_set;
}

static bool set_waits(PyObject *dict, const struct sluice_counters *counters)
{
    PyObject *waits = PyDict_New();
    bool is_set = waits && PyDict_SetItemString(dict, "wait_s", waits) == 0;
    for (int i = 0; is_set && i < SLUICE_NUM_RESOURCES; i++) {
        const char *name = i == SLUICE_GPU    ? "trainer"
                           : i == SLUICE_PCIE ? "gpu"
                                              : sluice_resource_name((enum sluice_resource)i);
        if (counters->wait_ns[i])
            is_set = set_seconds(waits, name, (double)counters->wait_ns[i] * 1e-9);
    }
    Py_XDECREF(waits);
    return is_set;
}

static PyObject *loader_counters(PyObject *self, PyObject *unused)
{
    (void)unused;
    const struct loader *l = (struct loader *)self;
    if (!loader_is_usable(l))
        return NULL;
    struct sluice_counters counters;
    sluice_loader_counters(l->loader, &counters);
    uint64_t failed = 0;
    for (int status = 0; status < SLUICE_NUM_STATUS; status++)
        failed += counters.failed[status];
    const struct {
        const char *key;
        uint64_t count;
    } counts[] = {
        {"samples", counters.samples},
        {"batches", counters.batches},
        {"errors", failed},
        {"prefetched", counters.prefetched},
        {"wire_bytes", counters.wire_bytes},
        {"outages", counters.outages},
        {"lost_streams", counters.lost_streams},
        {"repeated_requests", counters.repeated_requests},
        {"hash_errors", counters.hash_errors},
        {"failed_over", counters.failed_over},
        {"hedged", counters.hedged},
    };
    PyObject *dict = PyDict_New();
    bool is_set = dict != NULL;
    for (size_t i = 0; is_set && i < sizeof(counts) / sizeof(counts[0]); i++)
        is_set = set_count(dict, counts[i].key, counts[i].count);
    is_set = is_set && set_choices(dict, l->loader) && set_on_gpu(dict, &counters) &&
             set_waits(dict, &counters) && set_seconds(dict, "waits_s", counters.waits_s) &&
             set_seconds(dict, "lost_s", counters.lost_s);
    if (!is_set)
        Py_CLEAR(dict);
    return dict;
}

static PyObject *loader_path(PyObject *self, PyObject *id)
{
    const struct loader *l = (struct loader *)self;
    const unsigned long long sample = PyLong_AsUnsignedLongLong(id);
    if (sample == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    if (!loader_must_be_open(l))
        return NULL;
    return text_or_none(sluice_loader_path(l->loader, sample));
}

/* Vectors, one behind the other. */
static PyObject *vectors_of(const struct loader *l, const struct sluice_batch *batch,
                            size_t row_bytes)
{
    PyObject *all = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(batch->num_rows * row_bytes));
    if (!all)
        return NULL;
    char *to = PyByteArray_AsString(all);
    for (uint32_t row = 0; row < batch->num_rows; row++) {
        size_t bytes = 0;
        const void *target = sluice_loader_target(l->loader, batch->ids[row], &bytes);
        if (!target || bytes != row_bytes) {
            Py_DECREF(all);
            return raise_text(SLUICE_E_INVALID, "a row of another loader's batch");
        }
        memcpy(to + row * row_bytes, target, bytes);
    }
    return all;
}

static PyObject *bytes_of(const struct loader *l, const struct sluice_batch *batch)
{
    PyObject *all = PyList_New(batch->num_rows);
    for (uint32_t row = 0; all && row < batch->num_rows; row++) {
        size_t bytes = 0;
        const void *target = sluice_loader_target(l->loader, batch->ids[row], &bytes);
        PyObject *one = target ? PyBytes_FromStringAndSize(target, (Py_ssize_t)bytes)
                               : raise_text(SLUICE_E_INVALID, "a row of another loader's batch");
        if (!one || PyList_SetItem(all, row, one) != 0)
            Py_CLEAR(all);
    }
    return all;
}

static PyObject *loader_targets(PyObject *self, PyObject *batch)
{
    const struct loader *l = (struct loader *)self;
    if (!PyObject_TypeCheck(batch, batch_type))
        return PyErr_Format(PyExc_TypeError, "targets() takes a Batch");
    const struct held *held = batch_held(batch);
    if (!held || !loader_must_be_open(l))
        return NULL;
    const struct sluice_dataset_info *info = sluice_loader_info(l->loader);
    if (!info || info->target_kind == SLUICE_TARGETS_NONE)
        Py_RETURN_NONE;
    return info->target_kind == SLUICE_TARGETS_VECTOR
               ? vectors_of(l, held->batch, info->target_dim * sizeof(float))
               : bytes_of(l, held->batch);
}

static PyObject *loader_num_batches(PyObject *self, PyObject *arg)
{
    const struct loader *l = (struct loader *)self;
    const long part = PyLong_AsLong(arg);
    if (part == -1 && PyErr_Occurred())
        return NULL;
    if (part != SLUICE_TRAIN && part != SLUICE_VAL)
        return PyErr_Format(PyExc_ValueError, "part is TRAIN or VAL, not %ld", part);
    if (!loader_must_be_open(l))
        return NULL;
    return PyLong_FromUnsignedLongLong(
        sluice_loader_num_batches(l->loader, (enum sluice_part)part));
}

static PyObject *loader_device(PyObject *self, PyObject *unused)
{
    (void)unused;
    const struct loader *l = (struct loader *)self;
    if (!loader_must_be_open(l))
        return NULL;
    return PyLong_FromLong(sluice_loader_device(l->loader));
}

static PyMethodDef loader_methods[] = {
    {"open", loader_open, METH_NOARGS, "Connects and lists the samples.  Once."},
    {"start", (PyCFunction)(void (*)(void))loader_start, METH_VARARGS | METH_KEYWORDS,
     "start(epoch=0, part=TRAIN, order=None, state=None): an epoch; order is bytes of uint64."},
    {"next", (PyCFunction)(void (*)(void))loader_next, METH_VARARGS | METH_KEYWORDS,
     "next(timeout=None): a Batch, or None at the epoch's end; AgainError after the seconds."},
    {"finish", loader_finish, METH_NOARGS, "Ends the epoch."},
    {"stop", loader_stop, METH_NOARGS, "Any thread: open, start and next fail, now and later."},
    {"close", loader_close, METH_NOARGS, "Frees the loader; batches stay.  Twice is fine."},
    {"stats", loader_stats, METH_NOARGS, "The last epoch that ended, as JSON."},
    {"counters", loader_counters, METH_NOARGS, "Since the loader was made, as a dict."},
    {"info", loader_info, METH_NOARGS, "The dataset, as a dict."},
    {"path", loader_path, METH_O, "path(id): of a sample, or None."},
    {"targets", loader_targets, METH_O,
     "targets(batch): of its rows, float32s as a bytearray, or a list of bytes; None: no targets."},
    {"device", loader_device, METH_NOARGS,
     "Where the rows of batches are: a CUDA device by its number here, or -1: the host."},
    {"num_batches", loader_num_batches, METH_O, "num_batches(part): that this rank gets."},
    {0},
};

static PyType_Slot loader_slots[] = {
    {Py_tp_doc,
     "Loader(settings, pinned_device=-1): settings is a dict of strings; a list of strings as a "
     "value gives the setting several times."},
    {Py_tp_new, loader_create},
    {Py_tp_dealloc, loader_dealloc},
    {Py_tp_methods, loader_methods},
    {0, NULL},
};

static PyType_Spec loader_spec = {
    .name = "sluice._sluice.Loader",
    .basicsize = sizeof(struct loader),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = loader_slots,
};

/* --- Server --- */

struct server {
    PyObject_HEAD struct sluice_server *server; /* NULL: stopped */
    PyObject *address;
    unsigned num_readers;
};

static PyObject *server_create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"root", "settings", NULL};
    PyObject *given = NULL, *root = NULL, *dict = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O", names, &given, &dict) ||
        (given != Py_None && !PyUnicode_FSConverter(given, &root)))
        return NULL;
    struct settings settings;
    if (settings_from(dict, &settings)) {
        Py_XDECREF(root);
        return NULL;
    }

    struct sluice_err err = {0};
    struct sluice_server *server = NULL;
    sluice_status status;
    const char *path = root ? PyBytes_AsString(root) : NULL; /* None: the settings have roots */
    Py_BEGIN_ALLOW_THREADS status =
        sluice_server_start(path, settings.list, (size_t)settings.count, &server, &err);
    Py_END_ALLOW_THREADS settings_clear(&settings);
    Py_XDECREF(root);
    if (status != SLUICE_OK)
        return raise_status(status, &err);

    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *address = PyUnicode_FromString(sluice_server_address(server));
    struct server *s = address ? (struct server *)alloc(type, 0) : NULL;
    if (!s) {
        Py_XDECREF(address);
        Py_BEGIN_ALLOW_THREADS sluice_server_stop(server);
        Py_END_ALLOW_THREADS return NULL;
    }
    s->server = server;
    s->address = address;
    return (PyObject *)s;
}

static void server_dealloc(PyObject *self)
{
    struct server *s = (struct server *)self;
    Py_BEGIN_ALLOW_THREADS sluice_server_stop(s->server);
    Py_END_ALLOW_THREADS Py_XDECREF(s->address);
    free_object(self);
}

static PyObject *server_address(PyObject *self, void *closure)
{
    (void)closure;
    return Py_NewRef(((struct server *)self)->address);
}

static bool server_is_usable(const struct server *s)
{
    if (!s->server)
        raise_text(SLUICE_E_CLOSED, "the server was stopped");
    return s->server;
}

static PyObject *server_stats(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct server *s = (struct server *)self;
    if (!server_is_usable(s))
        return NULL;
    char *json = NULL;
    struct sluice_err err = {0};
    sluice_status status;
    s->num_readers++;
    Py_BEGIN_ALLOW_THREADS status = sluice_server_stats(s->server, &json, &err);
    Py_END_ALLOW_THREADS s->num_readers--;
    return take_text(status, json, &err);
}

static PyObject *server_reread(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct server *s = (struct server *)self;
    if (!server_is_usable(s))
        return NULL;
    sluice_server_reread(s->server);
    Py_RETURN_NONE;
}

static PyObject *server_stop(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct server *s = (struct server *)self;
    if (s->num_readers > 0)
        return raise_text(SLUICE_E_INVALID, "another thread is asking this server for its stats");
    struct sluice_server *server = s->server;
    s->server = NULL;
    Py_BEGIN_ALLOW_THREADS sluice_server_stop(server);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyMethodDef server_methods[] = {
    {"stats", server_stats, METH_NOARGS, "The counters, as JSON."},
    {"reread", server_reread, METH_NOARGS, "Reads the list of samples again, in the background."},
    {"stop", server_stop, METH_NOARGS, "Answers what was accepted, and ends.  Twice is fine."},
    {0},
};

static PyGetSetDef server_getset[] = {
    {"address", server_address, NULL, "'HOST:PORT' that it listens on.", NULL},
    {0},
};

static PyType_Slot server_slots[] = {
    {Py_tp_doc, "Server(root, settings=None): serves the images beneath root from this process."},
    {Py_tp_new, server_create},
    {Py_tp_dealloc, server_dealloc},
    {Py_tp_methods, server_methods},
    {Py_tp_getset, server_getset},
    {0, NULL},
};

static PyType_Spec server_spec = {
    .name = "sluice._sluice.Server",
    .basicsize = sizeof(struct server),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = server_slots,
};

/* --- the module --- */

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

static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec, const char *name)
{
    PyObject *type = PyType_FromSpec(spec);
    if (type && PyModule_AddObjectRef(module, name, type)) {
        Py_DECREF(type);
        return NULL;
    }
    return (PyTypeObject *)type;
}

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
    };
    PyObject *module = PyModule_Create(&module_def);
    if (!module || add_errors(module))
        goto fail;
    array_type = add_type(module, &array_spec, "Array");
    batch_type = array_type ? add_type(module, &batch_spec, "Batch") : NULL;
    if (!batch_type)
        goto fail;
    static struct {
        PyType_Spec *spec;
        const char *name;
    } types[] = {{&finisher_spec, "Finisher"}, {&loader_spec, "Loader"}, {&server_spec, "Server"}};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        PyTypeObject *type = add_type(module, types[i].spec, types[i].name);
        if (!type)
            goto fail;
        Py_DECREF((PyObject *)type);
    }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (PyModule_AddIntConstant(module, numbers[i].name, numbers[i].value))
            goto fail;
    return module;

fail:
    Py_XDECREF(module);
    return NULL;
}
