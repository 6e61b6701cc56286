#include "extension.h"
#include "threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Boxes and keypoints of a batch: those of row i are [offsets[i], offsets[i + 1]). */

/* The arguments of both functions, borrowed. */
struct ragged {
    const char *matrices, *values, *offsets;
    Py_ssize_t matrix_bytes, value_bytes, offset_bytes;
    unsigned height, width;
    int by_center; /* of boxes: a row has only those whose centre it shows */
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
        memcpy(matrix, r->matrices + row * sizeof(matrix), sizeof(matrix));
        offsets[row] = (int64_t)num_kept;
        float *boxes = moved + 4 * num_kept;
        int64_t *of_row = kept + num_kept;
        size_t num = 0;
        for (size_t i = offset_at(r, row); i < offset_at(r, row + 1); i++) {
            memcpy(boxes + 4 * num, r->values + 4 * i * sizeof(float), 4 * sizeof(float));
            if (!r->by_center || sluice_shows_center(matrix, r->height, r->width, boxes + 4 * num))
                of_row[num++] = (int64_t)i;
        }
        const size_t num_here = sluice_move_boxes(matrix, r->height, r->width, boxes, num, min_size,
                                                  min_area, boxes, in_row);
        for (size_t i = 0; i < num_here; i++)
            of_row[i] = of_row[in_row[i]];
        num_kept += num_here;
    }
    offsets[r->num_rows] = (int64_t)num_kept;
}

PyObject *module_move_boxes(PyObject *module, PyObject *args)
{
    (void)module;
    struct ragged r;
    double min_size, min_area;
    if (!PyArg_ParseTuple(args, "y#IIy#y#ddp:move_boxes", &r.matrices, &r.matrix_bytes, &r.height,
                          &r.width, &r.values, &r.value_bytes, &r.offsets, &r.offset_bytes,
                          &min_size, &min_area, &r.by_center) ||
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

/* --- masks --- */

struct mask_file {
    const char *bytes;
    size_t len;
};

/* Rows of a batch, from `next` on every `step`th. */
struct mask_rows {
    const struct sluice_geometry *geometry;
    const struct mask_file *files;
    struct sluice_view size;
    uint32_t next, step, num_rows;
    uint8_t fill, *out;
    sluice_status status; /* of row `next`, if it is not OK */
    struct sluice_err err;
};

static void move_some(void *part)
{
    struct mask_rows *r = part;
    const size_t row_bytes = (size_t)r->size.height * r->size.width;
    for (; r->next < r->num_rows; r->next += r->step) {
        const struct mask_file *file = &r->files[r->next];
        r->status = sluice_move_mask(&r->geometry[r->next], file->bytes, file->len, r->size.height,
                                     r->size.width, r->fill, r->out + r->next * row_bytes, &r->err);
        if (r->status != SLUICE_OK)
            return;
    }
}

/* Moves the masks of all rows on at most num_threads threads.  False with an exception set, that of
 * the first bad row. */
static bool move_masks(const struct sluice_batch *batch, const struct mask_rows *all,
                       unsigned num_threads)
{
    struct mask_rows parts[MAX_PARTS];
    size_t num_parts = num_threads < MAX_PARTS ? num_threads : MAX_PARTS;
    num_parts = num_parts < all->num_rows ? num_parts : all->num_rows;
    num_parts = num_parts ? num_parts : 1;
    for (size_t i = 0; i < num_parts; i++) {
        parts[i] = *all;
        parts[i].next = (uint32_t)i;
        parts[i].step = (uint32_t)num_parts;
    }
    Py_BEGIN_ALLOW_THREADS;
    run_parts(parts, sizeof(parts[0]), num_parts, move_some);
    Py_END_ALLOW_THREADS;
    const struct mask_rows *bad = NULL;
    for (size_t i = 0; i < num_parts; i++) {
        if (parts[i].status != SLUICE_OK && (!bad || parts[i].next < bad->next))
            bad = &parts[i];
    }
    if (bad) {
        struct sluice_err of_row = {{0}};
        snprintf(of_row.text, sizeof(of_row.text), "mask of sample %llu: %.500s",
                 (unsigned long long)batch->ids[bad->next], bad->err.text);
        raise_status(bad->status, &of_row);
    }
    return !bad;
}

/* Borrows the bytes of a tuple.  False with an exception set. */
static bool find_files(PyObject *tuple, struct mask_file *files)
{
    for (Py_ssize_t row = 0; row < PyTuple_Size(tuple); row++) {
        char *bytes;
        Py_ssize_t len;
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(tuple, row), &bytes, &len))
            return false;
        files[row] = (struct mask_file){bytes, (size_t)len};
    }
    return true;
}

PyObject *batch_masks(PyObject *self, PyObject *args)
{
    unsigned view, num_threads = 1;
    unsigned char fill;
    PyObject *list;
    struct held *held = batch_held(self);
    if (!held ||
        !PyArg_ParseTuple(args, "IO!b|I:masks", &view, &PyList_Type, &list, &fill, &num_threads))
        return NULL;
    const struct sluice_batch *batch = held->batch;
    const struct sluice_geometry *rows = sluice_batch_geometry(batch, view);
    if (!rows)
        return raise_text(SLUICE_E_INVALID, "masks: a batch without geometry, or no such view");
    PyObject *tuple = PyList_AsTuple(list); /* the list may change meanwhile */
    if (!tuple)
        return NULL;
    if (PyTuple_Size(tuple) != (Py_ssize_t)batch->num_rows) {
        PyErr_Format(PyExc_ValueError, "%zd masks for %u rows", PyTuple_Size(tuple),
                     batch->num_rows);
        Py_DECREF(tuple);
        return NULL;
    }
    const struct sluice_view size = sluice_batch_view(batch, view);
    struct mask_file *files = calloc(batch->num_rows + 1, sizeof(*files));
    PyObject *made =
        files ? PyByteArray_FromStringAndSize(
                    NULL, (Py_ssize_t)((size_t)size.height * size.width * batch->num_rows))
              : PyErr_NoMemory();
    held_ref(held);
    if (files && made && find_files(tuple, files)) {
        const struct mask_rows all = {
            .geometry = rows,
            .files = files,
            .size = size,
            .num_rows = batch->num_rows,
            .fill = fill,
            .out = (uint8_t *)PyByteArray_AsString(made),
        };
        if (!move_masks(batch, &all, num_threads))
            Py_CLEAR(made);
    } else {
        Py_CLEAR(made);
    }
    held_unref(held);
    free(files);
    Py_DECREF(tuple);
    return made;
}
