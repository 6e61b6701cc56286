#include "extension.h"

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

int add_server(PyObject *module)
{
    return add_plain_type(module, &server_spec, "Server");
}
