#include "extension.h"

void settings_clear(struct settings *s)
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

int settings_from(PyObject *dict, struct settings *s)
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
