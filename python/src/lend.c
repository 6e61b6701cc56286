#include "extension.h"

#include <sluice/lend.h>

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* --- the owner --- */

struct lend {
    PyObject_HEAD struct sluice_lend *lend; /* NULL: closed */
    pid_t pid;                              /* a child of fork() leaves all to its parent */
    bool waits_here;                        /* points wait on their thread */
    unsigned num_users;                     /* threads in calls, and loaders */
};

static PyTypeObject *lend_type;

/* NULL: closed, or of another process. */
static struct sluice_lend *lend_here(const struct lend *l)
{
    return l->pid == getpid() ? l->lend : NULL;
}

/* To be freed with PyMem_Free(); NULL with an exception set. */
static uint32_t *uids_of(PyObject *list, size_t *num)
{
    const Py_ssize_t count = PyList_Size(list);
    uint32_t *uids = PyMem_Malloc(sizeof(*uids) * ((size_t)count + 1));
    if (!uids)
        return (uint32_t *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        const unsigned long long uid = PyLong_AsUnsignedLongLong(PyList_GetItem(list, i));
        if (!PyErr_Occurred() && uid >= UINT32_MAX)
            PyErr_Format(PyExc_ValueError, "allow: %llu is not a user's id", uid);
        if (PyErr_Occurred()) {
            PyMem_Free(uids);
            return NULL;
        }
        uids[i] = (uint32_t)uid;
    }
    *num = (size_t)count;
    return uids;
}

static PyObject *lend_create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", "when", "share", "allow", "at_most_ms", "device", NULL};
    PyObject *path = NULL, *allow;
    int when;
    struct sluice_lend_options options = {0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&idO!Ii", names, PyUnicode_FSConverter, &path,
                                     &when, &options.share, &PyList_Type, &allow,
                                     &options.at_most_ms, &options.device))
        return NULL;
    uint32_t *uids = uids_of(allow, &options.num_uids);
    if (!uids) {
        Py_DECREF(path);
        return NULL;
    }
    options.path = PyBytes_AsString(path);
    options.when = (enum sluice_lend_when)when;
    options.uids = uids;

    struct sluice_err err = {0};
    struct sluice_lend *lend = NULL;
    sluice_status status;
    Py_BEGIN_ALLOW_THREADS status = sluice_lend_open(&options, &lend, &err);
    Py_END_ALLOW_THREADS PyMem_Free(uids);
    Py_DECREF(path);
    if (status != SLUICE_OK)
        return raise_status(status, &err);

    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct lend *l = (struct lend *)alloc(type, 0);
    if (!l) {
        sluice_lend_close(lend);
        return NULL;
    }
    *l = (struct lend){
        .ob_base = l->ob_base, .lend = lend, .pid = getpid(), .waits_here = options.device < 0};
    return (PyObject *)l;
}

/* Where points are on streams the page stays: a stream or a graph may still have some. */
static void lend_dealloc(PyObject *self)
{
    const struct lend *l = (struct lend *)self;
    struct sluice_lend *lend = lend_here(l);
    if (lend && l->waits_here) {
        Py_BEGIN_ALLOW_THREADS sluice_lend_close(lend);
        Py_END_ALLOW_THREADS
    } else if (lend) {
        sluice_lend_stop(lend);
    }
    free_object(self);
}

static PyObject *lend_point(PyObject *self, PyObject *stream)
{
    struct lend *l = (struct lend *)self;
    void *handle = PyLong_AsVoidPtr(stream);
    if (!handle && PyErr_Occurred())
        return NULL;
    struct sluice_lend *lend = lend_here(l);
    if (!lend)
        Py_RETURN_NONE;
    struct sluice_err err = {0};
    sluice_status status;
    if (l->waits_here) {
        l->num_users++;
        Py_BEGIN_ALLOW_THREADS status = sluice_lend_point(lend, handle, &err);
        Py_END_ALLOW_THREADS l->num_users--;
    } else {
        status = sluice_lend_point(lend, handle, &err);
    }
    if (status != SLUICE_OK)
        return raise_status(status, &err);
    Py_RETURN_NONE;
}

static PyObject *lend_counters(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct sluice_lend *lend = lend_here((struct lend *)self);
    if (!lend)
        return raise_text(SLUICE_E_CLOSED, "lending was closed");
    struct sluice_lend_counters c;
    sluice_lend_counters(lend, &c);
    return Py_BuildValue(
        "{s:K,s:d,s:d,s:K,s:I,s:d,s:d}", "requests", (unsigned long long)c.requests, "lent_ms",
        1e-6 * (double)c.lent_ns, "cost_ms", 1e-6 * (double)c.cost_ns, "taken_back",
        (unsigned long long)c.taken_back, "borrowers", (unsigned)c.borrowers, "wait_p50_ms",
        sluice_lend_wait_ms(&c, 0.5), "wait_p99_ms", sluice_lend_wait_ms(&c, 0.99));
}

static PyObject *lend_stop(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct lend *l = (struct lend *)self;
    struct sluice_lend *lend = lend_here(l);
    if (!lend)
        Py_RETURN_NONE;
    l->num_users++;
    Py_BEGIN_ALLOW_THREADS sluice_lend_stop(lend);
    Py_END_ALLOW_THREADS l->num_users--;
    Py_RETURN_NONE;
}

static PyObject *lend_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct lend *l = (struct lend *)self;
    struct sluice_lend *lend = lend_here(l);
    if (!lend)
        Py_RETURN_NONE;
    if (l->num_users > 0)
        return raise_text(SLUICE_E_INVALID,
                          "lending cannot be closed while a loader uses it, or a thread waits at a "
                          "point: close the loader, or call stop() and wait for the thread");
    l->lend = NULL;
    Py_BEGIN_ALLOW_THREADS sluice_lend_close(lend);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyMethodDef lend_methods[] = {
    {"point", lend_point, METH_O,
     "point(stream): what is put on it later waits until no borrower has the GPU.  Nothing after "
     "close()."},
    {"counters", lend_counters, METH_NOARGS, "Since the start, as a dict."},
    {"stop", lend_stop, METH_NOARGS, "Lets no borrower in, and every point pass, from then on."},
    {"close", lend_close, METH_NOARGS,
     "Ends lending; no stream has a point then, and no graph.  Twice is fine."},
    {0},
};

static PyType_Slot lend_slots[] = {
    {Py_tp_doc, "Lend(path, when, share, allow, at_most_ms, device): lends a GPU, as its owner."},
    {Py_tp_new, lend_create},
    {Py_tp_dealloc, lend_dealloc},
    {Py_tp_methods, lend_methods},
    {0, NULL},
};

static PyType_Spec lend_spec = {
    .name = "sluice._sluice.Lend",
    .basicsize = sizeof(struct lend),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = lend_slots,
};

struct sluice_lend *lend_borrow(PyObject *lend)
{
    if (!PyObject_TypeCheck(lend, lend_type)) {
        PyErr_Format(PyExc_TypeError, "set_lend() takes a Lend, not %R", lend);
        return NULL;
    }
    struct lend *l = (struct lend *)lend;
    if (!lend_here(l)) {
        raise_text(SLUICE_E_CLOSED, "lending was closed");
        return NULL;
    }
    l->num_users++;
    Py_INCREF(lend);
    return l->lend;
}

void lend_return(PyObject *lend)
{
    ((struct lend *)lend)->num_users--;
    Py_DECREF(lend);
}

/* --- a borrower --- */

struct borrower {
    PyObject_HEAD struct sluice_borrower *borrower;
};

static PyObject *borrower_create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", "priority", "at_most_ms", NULL};
    PyObject *path = NULL;
    struct sluice_borrower_options options = {0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&II", names, PyUnicode_FSConverter, &path,
                                     &options.priority, &options.at_most_ms))
        return NULL;
    options.path = PyBytes_AsString(path);
    struct sluice_err err = {0};
    struct sluice_borrower *made = NULL;
    sluice_status status;
    Py_BEGIN_ALLOW_THREADS status = sluice_borrower_open(&options, &made, &err);
    Py_END_ALLOW_THREADS Py_DECREF(path);
    if (status != SLUICE_OK)
        return raise_status(status, &err);

    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct borrower *b = (struct borrower *)alloc(type, 0);
    if (!b) {
        sluice_borrower_close(made);
        return NULL;
    }
    b->borrower = made;
    return (PyObject *)b;
}

static void borrower_dealloc(PyObject *self)
{
    struct sluice_borrower *borrower = ((struct borrower *)self)->borrower;
    Py_BEGIN_ALLOW_THREADS sluice_borrower_close(borrower);
    Py_END_ALLOW_THREADS free_object(self);
}

/* Longer than other waits' slices, as the owner counts a request's wait from its last slice's begin. */
enum { TAKE_SLICE_MS = 10 * SIGNAL_SLICE_MS };

static PyObject *borrower_take(PyObject *self, PyObject *args)
{
    struct borrower *b = (struct borrower *)self;
    PyObject *timeout = Py_None;
    if (!PyArg_ParseTuple(args, "|O:take", &timeout))
        return NULL;
    double until_s = 0;
    if (timeout != Py_None) {
        const double seconds = PyFloat_AsDouble(timeout);
        if (seconds == -1 && PyErr_Occurred())
            return NULL;
        until_s = now_s() + (seconds > 0 ? seconds : 0);
    }

    uint32_t ticket = 0;
    struct sluice_err err;
    sluice_status status;
    bool has_raised = false, is_late = false;
    do {
        int slice_ms = TAKE_SLICE_MS;
        if (timeout != Py_None) {
            const double left_ms = 1000 * (until_s - now_s());
            is_late = left_ms <= slice_ms;
            if (is_late)
                slice_ms = left_ms > 0 ? (int)left_ms : 0;
        }
        err = (struct sluice_err){0};
        Py_BEGIN_ALLOW_THREADS status = sluice_borrower_take(b->borrower, slice_ms, &ticket, &err);
        Py_END_ALLOW_THREADS has_raised = status == SLUICE_E_AGAIN && PyErr_CheckSignals() != 0;
    } while (status == SLUICE_E_AGAIN && !has_raised && !is_late);
    /* Python would look at signals on return, and with an exception the ticket would be lost. */
    if (status == SLUICE_OK && PyErr_CheckSignals() != 0) {
        (void)sluice_borrower_give(b->borrower, ticket);
        return NULL;
    }
    if (has_raised)
        return NULL;
    if (status == SLUICE_E_AGAIN) /* its own text tells of the last slice */
        snprintf(err.text, sizeof(err.text), "the GPU was not lent within %g s",
                 PyFloat_AsDouble(timeout));
    if (status != SLUICE_OK)
        return raise_status(status, &err);
    return PyLong_FromUnsignedLong(ticket);
}

static PyObject *borrower_give(PyObject *self, PyObject *ticket)
{
    const unsigned long number = PyLong_AsUnsignedLong(ticket);
    if (number == (unsigned long)-1 && PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(
        sluice_borrower_give(((struct borrower *)self)->borrower, (uint32_t)number));
}

static PyMethodDef borrower_methods[] = {
    {"take", borrower_take, METH_VARARGS,
     "take(timeout=None): the GPU; a ticket.  AgainError after the seconds; ClosedError: the owner "
     "has ended."},
    {"give", borrower_give, METH_O, "give(ticket): False: the owner took it back before."},
    {0},
};

static PyType_Slot borrower_slots[] = {
    {Py_tp_doc, "Borrower(path, priority, at_most_ms): a connection to an owner.  Any thread."},
    {Py_tp_new, borrower_create},
    {Py_tp_dealloc, borrower_dealloc},
    {Py_tp_methods, borrower_methods},
    {0, NULL},
};

static PyType_Spec borrower_spec = {
    .name = "sluice._sluice.Borrower",
    .basicsize = sizeof(struct borrower),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = borrower_slots,
};

/* --- the module --- */

PyObject *module_lend_probe(PyObject *module, PyObject *device)
{
    (void)module;
    const long number = PyLong_AsLong(device);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    struct sluice_err err = {0};
    sluice_status status;
    Py_BEGIN_ALLOW_THREADS status = sluice_lend_probe((int)number, &err);
    Py_END_ALLOW_THREADS if (status != SLUICE_OK) return raise_status(status, &err);
    Py_RETURN_NONE;
}

int add_lend(PyObject *module)
{
    lend_type = add_type(module, &lend_spec, "Lend");
    return lend_type ? add_plain_type(module, &borrower_spec, "Borrower") : -1;
}
