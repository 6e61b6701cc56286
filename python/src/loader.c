#include "cuda_memory.h"
#include "extension.h"

#include <sluice/lend.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct loader {
    PyObject_HEAD struct sluice_loader *loader; /* NULL: closed */
    enum sluice_part part;                      /* of the last start */
    bool is_busy;                               /* a thread is in a call that only one may be in */
    bool is_open;
    unsigned num_readers; /* threads in calls that any may be in */
    PyObject *lend;       /* a Lend, or NULL */
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
    struct loader *l = (struct loader *)self;
    Py_BEGIN_ALLOW_THREADS sluice_loader_close(l->loader);
    Py_END_ALLOW_THREADS if (l->lend) lend_return(l->lend);
    free_object(self);
}

/* Opens the loader (start: NULL) or starts an epoch. */
static PyObject *open_or_start(struct loader *l, const struct sluice_epoch_start *start)
{
    struct sluice_err err;
    bool has_raised;
    const sluice_status status = call_and_wait(l->loader, start, &has_raised, &err);
    if (!start && status == SLUICE_OK)
        l->is_open = true;
    if (has_raised)
        return NULL;
    if (status != SLUICE_OK)
        return raise_status(status, &err);
    Py_RETURN_NONE;
}

static PyObject *loader_open(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct loader *l = (struct loader *)self;
    if (!loader_enter(l))
        return NULL;
    PyObject *result = open_or_start(l, NULL);
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
        result = open_or_start(l, &start);
        l->is_busy = false;
    }
    free(positions);
    return result;
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
    PyObject *lend = l->lend;
    l->lend = NULL;
    Py_BEGIN_ALLOW_THREADS sluice_loader_close(loader);
    Py_END_ALLOW_THREADS if (lend) lend_return(lend);
    Py_RETURN_NONE;
}

static PyObject *loader_set_lend(PyObject *self, PyObject *lend)
{
    struct loader *l = (struct loader *)self;
    if (!loader_enter(l))
        return NULL;
    struct sluice_err err = {0};
    sluice_status status = SLUICE_OK;
    struct sluice_lend *owner = NULL;
    if (l->lend)
        raise_text(SLUICE_E_INVALID, "the loader lends already");
    else
        owner = lend_borrow(lend);
    if (owner)
        status = sluice_loader_set_lend(l->loader, owner, &err);
    l->is_busy = false;
    if (!owner)
        return NULL;
    if (status != SLUICE_OK) {
        lend_return(lend);
        return raise_status(status, &err);
    }
    l->lend = lend;
    Py_RETURN_NONE;
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

static bool part_of(PyObject *arg, enum sluice_part *part)
{
    const long number = PyLong_AsLong(arg);
    if (number == -1 && PyErr_Occurred())
        return false;
    if (number != SLUICE_TRAIN && number != SLUICE_VAL) {
        PyErr_Format(PyExc_ValueError, "part is TRAIN or VAL, not %ld", number);
        return false;
    }
    *part = (enum sluice_part)number;
    return true;
}

/* Adds [height, width] to the list. */
static bool add_size(PyObject *list, struct sluice_view view)
{
    PyObject *size = Py_BuildValue("[II]", (unsigned)view.height, (unsigned)view.width);
    const bool is_added = size && PyList_Append(list, size) == 0;
    Py_XDECREF(size);
    return is_added;
}

/* [[height, width], ...] of a part's views. */
static PyObject *sizes_of_views(const struct sluice_loader *loader, enum sluice_part part)
{
    const unsigned num_views = sluice_loader_num_views(loader, part);
    PyObject *list = PyList_New(0);
    for (unsigned i = 0; list && i < num_views; i++) {
        if (!add_size(list, sluice_loader_view(loader, part, i)))
            Py_CLEAR(list);
    }
    return list;
}

/* The same of a part's buckets; empty without them. */
static PyObject *sizes_of_buckets(const struct sluice_loader *loader, enum sluice_part part)
{
    const unsigned num_buckets = sluice_loader_num_buckets(loader, part);
    PyObject *list = PyList_New(0);
    for (unsigned i = 0; list && i < num_buckets; i++) {
        if (!add_size(list, sluice_loader_bucket(loader, part, i)))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *loader_info(PyObject *self, PyObject *arg)
{
    const struct loader *l = (struct loader *)self;
    enum sluice_part part;
    if (!part_of(arg, &part))
        return NULL;
    if (!loader_must_be_open(l))
        return NULL;
    const struct sluice_dataset_info *info = sluice_loader_info(l->loader);
    if (!info)
        return raise_text(SLUICE_E_INVALID, "the loader knows nothing of its dataset");
    const struct sluice_row_format *format = sluice_loader_row_format(l->loader, part);
    PyObject *table =
        format->has_normalization
            ? PyBytes_FromStringAndSize((const char *)format->table, sizeof(format->table))
            : Py_NewRef(Py_None);
    PyObject *views = table ? sizes_of_views(l->loader, part) : NULL;
    PyObject *buckets = views ? sizes_of_buckets(l->loader, part) : NULL;
    if (!buckets) {
        Py_XDECREF(views);
        Py_XDECREF(table);
        return NULL;
    }
    static const char *const target_kinds[] = {
        [SLUICE_TARGETS_VECTOR] = "vector", [SLUICE_TARGETS_BYTES] = "bytes"};
    return Py_BuildValue(
        "{s:s,s:(KK),s:K,s:I,s:I,s:N,s:N,s:N,s:N,s:(KK),s:s,s:z,s:I,s:I,s:I}", "id", info->id,
        "num_samples", (unsigned long long)info->num_samples[0],
        (unsigned long long)info->num_samples[1], "num_classes",
        (unsigned long long)info->num_classes, "height", (unsigned)format->height, "width",
        (unsigned)format->width, "table", table, "views", views, "buckets", buckets,
        "draws_by_boxes", PyBool_FromLong(sluice_loader_draws_by_boxes(l->loader, part)),
        "pipeline_fingerprint", (unsigned long long)info->pipeline_fingerprint[0],
        (unsigned long long)info->pipeline_fingerprint[1], "mode", info->mode, "target_kind",
        target_kinds[info->target_kind], "target_dim", (unsigned)info->target_dim, "rank",
        (unsigned)info->rank, "world_size", (unsigned)info->world_size);
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

/* Only counts that are not 0. */
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

/* Only counts that are not 0. */
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

static PyObject *loader_targets(PyObject *self, PyObject *batch)
{
    const struct loader *l = (struct loader *)self;
    if (!is_batch(batch))
        return PyErr_Format(PyExc_TypeError, "targets() takes a Batch");
    const struct held *held = batch_held(batch);
    if (!held || !loader_must_be_open(l))
        return NULL;
    return sluice_loader_num_fields(l->loader) ? targets_of(l->loader, held->batch)
                                               : Py_NewRef(Py_None);
}

static PyObject *loader_fields(PyObject *self, PyObject *unused)
{
    (void)unused;
    const struct loader *l = (struct loader *)self;
    return loader_must_be_open(l) ? describe_fields(l->loader) : NULL;
}

static PyObject *loader_values(PyObject *self, PyObject *args)
{
    const struct loader *l = (struct loader *)self;
    PyObject *batch;
    unsigned field;
    if (!PyArg_ParseTuple(args, "OI:values", &batch, &field))
        return NULL;
    if (!is_batch(batch))
        return PyErr_Format(PyExc_TypeError, "values() takes a Batch");
    const struct held *held = batch_held(batch);
    return held && loader_must_be_open(l) ? values_of(l->loader, held->batch, field) : NULL;
}

static PyObject *loader_num_batches(PyObject *self, PyObject *arg)
{
    const struct loader *l = (struct loader *)self;
    enum sluice_part part;
    if (!part_of(arg, &part))
        return NULL;
    if (!loader_must_be_open(l))
        return NULL;
    return PyLong_FromUnsignedLongLong(sluice_loader_num_batches(l->loader, part));
}

static PyObject *loader_device(PyObject *self, PyObject *unused)
{
    (void)unused;
    const struct loader *l = (struct loader *)self;
    if (!loader_must_be_open(l))
        return NULL;
    return PyLong_FromLong(sluice_loader_device(l->loader));
}

static PyObject *loader_draws(PyObject *self, PyObject *args)
{
    const struct loader *l = (struct loader *)self;
    struct sluice_drawn_sample sample = {.part = SLUICE_TRAIN};
    struct sluice_err err = {{0}};
    PyObject *part;
    unsigned long long id;
    if (!PyArg_ParseTuple(args, "OKIIII", &part, &id, &sample.epoch, &sample.draw_epoch,
                          &sample.width, &sample.height) ||
        !part_of(part, &sample.part) || !loader_must_be_open(l))
        return NULL;
    char *json = NULL;
    sample.sample_id = id;
    const sluice_status status = sluice_loader_draws(l->loader, &sample, &json, &err);
    if (status != SLUICE_OK)
        return raise_status(status, &err);
    PyObject *text = PyUnicode_FromString(json);
    sluice_free(json);
    return text;
}

static PyMethodDef loader_methods[] = {
    {"open", loader_open, METH_NOARGS, "Connects and lists the samples.  Once."},
    {"start", (PyCFunction)(void (*)(void))loader_start, METH_VARARGS | METH_KEYWORDS,
     "start(epoch=0, part=TRAIN, order=None, state=None): an epoch; order is bytes of uint64."},
    {"next", (PyCFunction)(void (*)(void))loader_next, METH_VARARGS | METH_KEYWORDS,
     "next(timeout=None): a Batch, or None at the epoch's end; AgainError after the seconds."},
    {"finish", loader_finish, METH_NOARGS, "Ends the epoch."},
    {"set_lend", loader_set_lend, METH_O,
     "set_lend(lend): lends the GPU on which it decodes by a Lend, before the first epoch."},
    {"stop", loader_stop, METH_NOARGS, "Any thread: open, start and next fail, now and later."},
    {"close", loader_close, METH_NOARGS, "Frees the loader; batches stay.  Twice is fine."},
    {"stats", loader_stats, METH_NOARGS, "The last epoch that ended, as JSON."},
    {"counters", loader_counters, METH_NOARGS, "Since the loader was made, as a dict."},
    {"info", loader_info, METH_O, "The dataset and the rows of a part (TRAIN or VAL), as a dict."},
    {"draws", loader_draws, METH_VARARGS,
     "draws(part, id, epoch, draw_epoch, width, height): of a sample, as JSON."},
    {"path", loader_path, METH_O, "path(id): of a sample, or None."},
    {"targets", loader_targets, METH_O,
     "targets(batch): of its rows, float32s as a bytearray, or a list of bytes; None: no targets."},
    {"fields", loader_fields, METH_NOARGS,
     "The fields of the dataset: a list of name, kind and dimension of each."},
    {"values", loader_values, METH_VARARGS,
     "values(batch, field): of its rows, as bytearrays.  Of vectors, float32s; of boxes, float32s, "
     "int64s (classes) and int64s (where each row begins, and the end); of keypoints the first and "
     "the last of these.  Of texts a list of str, of others a list of bytes."},
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

int add_loader(PyObject *module)
{
    return add_plain_type(module, &loader_spec, "Loader");
}
