#include "extension.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Boxes and keypoints of a batch: those of row i are [offsets[i], offsets[i + 1]). */

/* The arguments of both functions, borrowed. */
struct ragged {
    const char *matrices, *values, *offsets;
    Py_ssize_t matrix_bytes, value_bytes, offset_bytes;
    unsigned height, width;
    size_t num_rows, num_values;
};

static uint64_t offset_at(const struct ragged *r, size_t row)
{
    uint64_t offset;
    memcpy(&offset, r->offsets + row * sizeof(offset), sizeof(offset));
    return offset;
}

/* Numbers the rows and values of value_bytes each.  False with an exception set: the sizes do not
 * fit one another. */
static bool check_ragged(struct ragged *r, size_t value_bytes)
{
    const size_t matrix_bytes = 9 * sizeof(double);
    bool fits =
        (size_t)r->matrix_bytes % matrix_bytes == 0 && (size_t)r->value_bytes % value_bytes == 0;
    r->num_rows = (size_t)r->matrix_bytes / matrix_bytes;
    r->num_values = (size_t)r->value_bytes / value_bytes;
    fits = fits && (size_t)r->offset_bytes == (r->num_rows + 1) * sizeof(uint64_t) &&
           r->num_values <= UINT32_MAX && offset_at(r, 0) == 0 &&
           offset_at(r, r->num_rows) == r->num_values;
    for (size_t row = 0; fits && row < r->num_rows; row++)
        fits = offset_at(r, row) <= offset_at(r, row + 1);
    if (!fits)
        PyErr_SetString(PyExc_ValueError,
                        "offsets: from 0 to the number of boxes or points, rising, "
                        "one more than there are matrices");
    return fits;
}

/* Moves the boxes of all rows: `moved` and `kept` get those that are kept, `offsets` where those of
 * each row begin, and their end. */
static void move_rows(const struct ragged *r, double min_size, double min_area, float *moved,
                      uint32_t *in_row, int64_t *kept, int64_t *offsets)
{
    size_t num_kept = 0;
    for (size_t row = 0; row < r->num_rows; row++) {
        double matrix[9];
        const size_t first = offset_at(r, row), num = offset_at(r, row + 1) - first;
        memcpy(matrix, r->matrices + row * sizeof(matrix), sizeof(matrix));
        offsets[row] = (int64_t)num_kept;
        memcpy(moved + 4 * num_kept, r->values + first * 4 * sizeof(float),
               num * 4 * sizeof(float));
        const size_t num_here =
            sluice_move_boxes(matrix, r->height, r->width, moved + 4 * num_kept, num, min_size,
                              min_area, moved + 4 * num_kept, in_row);
        for (size_t i = 0; i < num_here; i++)
            kept[num_kept + i] = (int64_t)(first + in_row[i]);
        num_kept += num_here;
    }
    offsets[r->num_rows] = (int64_t)num_kept;
}

PyObject *module_move_boxes(PyObject *module, PyObject *args)
{
    (void)module;
    struct ragged r;
    double min_size, min_area;
    if (!PyArg_ParseTuple(args, "y#IIy#y#dd:move_boxes", &r.matrices, &r.matrix_bytes, &r.height,
                          &r.width, &r.values, &r.value_bytes, &r.offsets, &r.offset_bytes,
                          &min_size, &min_area) ||
        !check_ragged(&r, 4 * sizeof(float)))
        return NULL;
    float *moved = malloc(r.num_values * 4 * sizeof(*moved) + 1);
    uint32_t *in_row = malloc(r.num_values * sizeof(*in_row) + 1);
    int64_t *kept = malloc(r.num_values * sizeof(*kept) + 1);
    int64_t *offsets = malloc((r.num_rows + 1) * sizeof(*offsets));
    PyObject *made = NULL;
    if (moved && in_row && kept && offsets) {
        Py_BEGIN_ALLOW_THREADS;
        move_rows(&r, min_size, min_area, moved, in_row, kept, offsets);
        Py_END_ALLOW_THREADS;
        const Py_ssize_t num = (Py_ssize_t)offsets[r.num_rows];
        PyObject *boxes = PyByteArray_FromStringAndSize((char *)moved, num * 16);
        PyObject *indices = PyByteArray_FromStringAndSize((char *)kept, num * 8);
        PyObject *ends = PyByteArray_FromStringAndSize((char *)offsets, r.offset_bytes);
        if (boxes && indices && ends)
            made = PyTuple_Pack(3, boxes, indices, ends);
        Py_XDECREF(boxes);
        Py_XDECREF(indices);
        Py_XDECREF(ends);
    } else {
        PyErr_NoMemory();
    }
    free(moved);
    free(in_row);
    free(kept);
    free(offsets);
    return made;
}

PyObject *module_move_keypoints(PyObject *module, PyObject *args)
{
    (void)module;
    struct ragged r;
    unsigned num, dim;
    if (!PyArg_ParseTuple(args, "y#IIy#y#II:move_keypoints", &r.matrices, &r.matrix_bytes,
                          &r.height, &r.width, &r.values, &r.value_bytes, &r.offsets,
                          &r.offset_bytes, &num, &dim))
        return NULL;
    if (num < 1 || num > 4096 || dim < 2 || dim > 3)
        return PyErr_Format(PyExc_ValueError, "keypoints of %u times %u numbers", num, dim);
    const size_t value_bytes = (size_t)num * dim * sizeof(float);
    if (!check_ragged(&r, value_bytes))
        return NULL;
    PyObject *made = PyByteArray_FromStringAndSize(r.values, r.value_bytes);
    for (size_t row = 0; made && row < r.num_rows; row++) {
        double matrix[9];
        const size_t first = offset_at(&r, row), end = offset_at(&r, row + 1);
        float *points = (float *)(void *)(PyByteArray_AsString(made) + first * value_bytes);
        memcpy(matrix, r.matrices + row * sizeof(matrix), sizeof(matrix));
        sluice_move_keypoints(matrix, r.height, r.width, points, (end - first) * num, dim, points);
    }
    return made;
}

/* The masks of a batch's rows, files in a list, into `out`.  False with an exception set. */
static bool move_masks(const struct sluice_batch *batch, unsigned view,
                       const struct sluice_geometry *rows, PyObject *list, uint8_t fill,
                       uint8_t *out)
{
    const struct sluice_view size = sluice_batch_view(batch, view);
    const size_t row_bytes = (size_t)size.height * size.width;
    for (uint32_t row = 0; row < batch->num_rows; row++) {
        char *mask;
        Py_ssize_t len;
        PyObject *file = PyList_GetItem(list, row);
        if (!file || PyBytes_AsStringAndSize(file, &mask, &len))
            return false;
        Py_INCREF(file); /* the list may change meanwhile */
        struct sluice_err err = {{0}};
        sluice_status status;
        Py_BEGIN_ALLOW_THREADS;
        status = sluice_move_mask(&rows[row], mask, (size_t)len, size.height, size.width, fill,
                                  out + row * row_bytes, &err);
        Py_END_ALLOW_THREADS;
        Py_DECREF(file);
        if (status != SLUICE_OK) {
            struct sluice_err of_row = {{0}};
            snprintf(of_row.text, sizeof(of_row.text), "mask of sample %llu: %.500s",
                     (unsigned long long)batch->ids[row], err.text);
            raise_status(status, &of_row);
            return false;
        }
    }
    return true;
}

PyObject *batch_masks(PyObject *self, PyObject *args)
{
    unsigned view;
    unsigned char fill;
    PyObject *list;
    struct held *held = batch_held(self);
    if (!held || !PyArg_ParseTuple(args, "IO!b:masks", &view, &PyList_Type, &list, &fill))
        return NULL;
    const struct sluice_batch *batch = held->batch;
    const struct sluice_geometry *rows = sluice_batch_geometry(batch, view);
    if (!rows)
        return raise_text(SLUICE_E_INVALID, "masks: a batch without geometry, or no such view");
    if (PyList_Size(list) != (Py_ssize_t)batch->num_rows)
        return PyErr_Format(PyExc_ValueError, "%zd masks for %u rows", PyList_Size(list),
                            batch->num_rows);
    const struct sluice_view size = sluice_batch_view(batch, view);
    PyObject *made = PyByteArray_FromStringAndSize(
        NULL, (Py_ssize_t)((size_t)size.height * size.width * batch->num_rows));
    held_ref(held);
    if (made && !move_masks(batch, view, rows, list, fill, (uint8_t *)PyByteArray_AsString(made)))
        Py_CLEAR(made);
    held_unref(held);
    return made;
}
