#include "extension.h"

#include <string.h>

#define BOX_BYTES 20 /* of sluice.h: four float32 and a class */
#define CORNER_BYTES 16

PyObject *describe_fields(const struct sluice_loader *loader)
{
    const unsigned num = sluice_loader_num_fields(loader);
    PyObject *list = PyList_New(num);
    for (unsigned i = 0; list && i < num; i++) {
        const struct sluice_field field = sluice_loader_field(loader, i);
        PyObject *one = Py_BuildValue("(ssI)", field.name, sluice_field_kind_name(field.kind),
                                      (unsigned)field.dim);
        if (!one || PyList_SetItem(list, i, one) != 0)
            Py_CLEAR(list);
    }
    return list;
}

/* The value of a row; NULL with an exception set. */
static const char *value_of(const struct sluice_loader *loader, const struct sluice_batch *batch,
                            unsigned field, uint32_t row, size_t *bytes)
{
    const void *value = sluice_loader_field_value(loader, field, batch->ids[row], bytes);
    if (!value)
        raise_text(SLUICE_E_INVALID, "a row of another loader's batch");
    return value;
}

/* Bytes of all rows; SIZE_MAX with an exception set. */
static size_t bytes_of_all(const struct sluice_loader *loader, const struct sluice_batch *batch,
                           unsigned field)
{
    size_t all = 0;
    for (uint32_t row = 0; row < batch->num_rows; row++) {
        size_t bytes = 0;
        if (!value_of(loader, batch, field, row, &bytes))
            return SIZE_MAX;
        all += bytes;
    }
    return all;
}

/* Vectors, one behind the other. */
static PyObject *vectors_of(const struct sluice_loader *loader, const struct sluice_batch *batch,
                            unsigned field)
{
    const size_t all_bytes = bytes_of_all(loader, batch, field);
    if (all_bytes == SIZE_MAX)
        return NULL;
    PyObject *all = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)all_bytes);
    char *to = all ? PyByteArray_AsString(all) : NULL;
    for (uint32_t row = 0; all && row < batch->num_rows; row++) {
        size_t bytes = 0;
        const char *value = value_of(loader, batch, field, row, &bytes);
        memcpy(to, value, bytes);
        to += bytes;
    }
    return all;
}

/* A list of bytes, or of str. */
static PyObject *list_of(const struct sluice_loader *loader, const struct sluice_batch *batch,
                         unsigned field, bool is_text)
{
    PyObject *all = PyList_New(batch->num_rows);
    for (uint32_t row = 0; all && row < batch->num_rows; row++) {
        size_t bytes = 0;
        const char *value = value_of(loader, batch, field, row, &bytes);
        PyObject *one = !value    ? NULL
                        : is_text ? PyUnicode_DecodeUTF8(value, (Py_ssize_t)bytes, "strict")
                                  : PyBytes_FromStringAndSize(value, (Py_ssize_t)bytes);
        if (!one || PyList_SetItem(all, row, one) != 0)
            Py_CLEAR(all);
    }
    return all;
}

/* Where the values of each row begin, and the end; each is of each_bytes. */
static PyObject *offsets_of(const struct sluice_loader *loader, const struct sluice_batch *batch,
                            unsigned field, size_t each_bytes)
{
    const size_t num = (size_t)batch->num_rows + 1;
    PyObject *offsets = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(num * sizeof(int64_t)));
    char *to = offsets ? PyByteArray_AsString(offsets) : NULL;
    int64_t end = 0;
    for (uint32_t row = 0; offsets && row <= batch->num_rows; row++) {
        size_t bytes = 0;
        memcpy(to + row * sizeof(end), &end, sizeof(end));
        if (row < batch->num_rows && value_of(loader, batch, field, row, &bytes))
            end += (int64_t)(bytes / each_bytes);
    }
    return offsets;
}

/* Fills corners and classes, which have room for the boxes of all rows. */
static void split_boxes(const struct sluice_loader *loader, const struct sluice_batch *batch,
                        unsigned field, char *corners, char *labels)
{
    for (uint32_t row = 0; row < batch->num_rows; row++) {
        size_t bytes = 0;
        const char *value = value_of(loader, batch, field, row, &bytes);
        const size_t num = bytes / BOX_BYTES;
        memcpy(corners, value, num * CORNER_BYTES);
        corners += num * CORNER_BYTES;
        for (size_t i = 0; i < num; i++, labels += sizeof(int64_t)) {
            uint32_t label;
            memcpy(&label, value + num * CORNER_BYTES + i * sizeof(label), sizeof(label));
            memcpy(labels, &(int64_t){label}, sizeof(int64_t));
        }
    }
}

static PyObject *boxes_of(const struct sluice_loader *loader, const struct sluice_batch *batch,
                          unsigned field)
{
    const size_t all_bytes = bytes_of_all(loader, batch, field);
    if (all_bytes == SIZE_MAX)
        return NULL;
    const size_t num = all_bytes / BOX_BYTES;
    PyObject *corners = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(num * CORNER_BYTES));
    PyObject *labels = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(num * sizeof(int64_t)));
    PyObject *offsets = offsets_of(loader, batch, field, BOX_BYTES), *made = NULL;
    if (corners && labels && offsets) {
        split_boxes(loader, batch, field, PyByteArray_AsString(corners),
                    PyByteArray_AsString(labels));
        made = PyTuple_Pack(3, corners, labels, offsets);
    }
    Py_XDECREF(corners);
    Py_XDECREF(labels);
    Py_XDECREF(offsets);
    return made;
}

static PyObject *keypoints_of(const struct sluice_loader *loader, const struct sluice_batch *batch,
                              unsigned field, uint32_t dim)
{
    PyObject *points = vectors_of(loader, batch, field);
    PyObject *offsets =
        points ? offsets_of(loader, batch, field, 3 * sizeof(float) * (size_t)dim) : NULL;
    PyObject *made = offsets ? PyTuple_Pack(2, points, offsets) : NULL;
    Py_XDECREF(points);
    Py_XDECREF(offsets);
    return made;
}

PyObject *values_of(const struct sluice_loader *loader, const struct sluice_batch *batch,
                    unsigned field)
{
    const struct sluice_field of = sluice_loader_field(loader, field);
    switch (of.kind) {
    case SLUICE_FIELD_NONE:
        return PyErr_Format(PyExc_IndexError, "field %u: there are %u", field,
                            sluice_loader_num_fields(loader));
    case SLUICE_FIELD_VECTOR:
        return vectors_of(loader, batch, field);
    case SLUICE_FIELD_BOXES:
        return boxes_of(loader, batch, field);
    case SLUICE_FIELD_KEYPOINTS:
        return keypoints_of(loader, batch, field, of.dim);
    default:
        return list_of(loader, batch, field, of.kind == SLUICE_FIELD_TEXT);
    }
}

PyObject *targets_of(const struct sluice_loader *loader, const struct sluice_batch *batch)
{
    return sluice_loader_field(loader, 0).kind == SLUICE_FIELD_VECTOR
               ? vectors_of(loader, batch, 0)
               : list_of(loader, batch, 0, false);
}
