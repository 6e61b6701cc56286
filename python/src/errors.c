#include "extension.h"

#include <string.h>

static PyObject *errors[SLUICE_NUM_STATUS]; /* by status; [SLUICE_OK]: the base of all */

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

int add_errors(PyObject *module)
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

PyObject *raise_status(sluice_status status, const struct sluice_err *err)
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

PyObject *raise_text(sluice_status status, const char *text)
{
    struct sluice_err err = {0};
    PyOS_snprintf(err.text, sizeof(err.text), "%s", text);
    return raise_status(status, &err);
}

PyObject *text_or_none(const char *text)
{
    if (!text)
        Py_RETURN_NONE;
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape");
}

PyObject *take_text(sluice_status status, char *text, const struct sluice_err *err)
{
    if (status != SLUICE_OK)
        return raise_status(status, err);
    PyObject *result = text_or_none(text);
    sluice_free(text);
    return result;
}

void free_object(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}
