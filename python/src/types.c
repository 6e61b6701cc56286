#include "extension.h"

PyTypeObject *add_type(PyObject *module, PyType_Spec *spec, const char *name)
{
    PyObject *type = PyType_FromSpec(spec);
    if (type && PyModule_AddObjectRef(module, name, type)) {
        Py_DECREF(type);
        return NULL;
    }
    return (PyTypeObject *)type;
}

int add_plain_type(PyObject *module, PyType_Spec *spec, const char *name)
{
    PyTypeObject *type = add_type(module, spec, name);
    Py_XDECREF((PyObject *)type);
    return type ? 0 : -1;
}
