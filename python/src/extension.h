#ifndef SLUICE_PYTHON_EXTENSION_H
#define SLUICE_PYTHON_EXTENSION_H

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

#include <sluice/sluice.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { SIGNAL_SLICE_MS = 50 }; /* how often a wait looks whether Python has a signal */

/* CLOCK_MONOTONIC, in seconds. */
double now_s(void);

/* --- errors.c --- */

/* Sets the exception of a status.  Returns NULL. */
PyObject *raise_status(sluice_status status, const struct sluice_err *err);
PyObject *raise_text(sluice_status status, const char *text);

PyObject *text_or_none(const char *text);
/* A text of the library, which is freed, or the exception of the status. */
PyObject *take_text(sluice_status status, char *text, const struct sluice_err *err);

/* Ends a type's tp_dealloc. */
void free_object(PyObject *self);

/* --- settings.c --- */

struct settings {
    struct sluice_setting *list;
    PyObject **held; /* the strings that the list points into */
    Py_ssize_t count, num_held;
};

/* From a dict of strings; a list of strings is the setting given several times.  Returns -1 with an
 * exception set. */
int settings_from(PyObject *dict, struct settings *s);
void settings_clear(struct settings *s);

/* --- held.c: a batch, or a block of outputs, that several objects hold --- */

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

struct held *held_ref(struct held *held);
void held_unref(struct held *held); /* NULL is allowed; any thread, without the GIL */

/* DLPack's number of a stream of CUDA: 1 and 2 are the default streams.  The one of each thread
 * becomes the legacy one, which follows it and means the same on the thread that releases. */
void *stream_of(unsigned long long number);
/* False with an exception set: the rows are for another stream. */
bool held_lend(struct held *held, void *stream);

/* --- array.c, batch.c --- */

/* A new Array, which holds `held`.  device: -1 is the host. */
PyObject *array_new(struct held *held, void *data, int device, uint8_t dl_code, uint8_t bits,
                    int ndim, const int64_t *shape);

/* Takes the batch, also on failure. */
PyObject *batch_new(const struct sluice_batch *taken, int device);
bool is_batch(PyObject *object);
/* The memory of a Batch, borrowed; NULL with an exception set: it was released. */
struct held *batch_held(PyObject *self);

/* --- fields.c: of the rows of a batch, with an exception where a row is not the loader's --- */

/* A list of (name, kind, dim). */
PyObject *describe_fields(const struct sluice_loader *loader);
/* Values as sluice._sluice.Loader.values() has them. */
PyObject *values_of(const struct sluice_loader *loader, const struct sluice_batch *batch,
                    unsigned field);
/* Those of field 0: a bytearray of vectors, or a list of bytes. */
PyObject *targets_of(const struct sluice_loader *loader, const struct sluice_batch *batch);

/* --- lend.c --- */

/* A Lend's, which cannot be closed until lend_return().  NULL with an exception set: it is closed, or another object. */
struct sluice_lend *lend_borrow(PyObject *lend);
void lend_return(PyObject *lend);

/* --- waiting_call.c --- */

/* Opens the loader (start: NULL) or starts an epoch, and looks for signals meanwhile; one whose
 * handler raises stops the loader, with the exception set. */
sluice_status call_and_wait(struct sluice_loader *loader, const struct sluice_epoch_start *start,
                            bool *has_raised, struct sluice_err *err);

/* --- types.c --- */

/* Adds a type to the module.  A new reference, or NULL with an exception set. */
PyTypeObject *add_type(PyObject *module, PyType_Spec *spec, const char *name);
/* The same for a type that C code does not refer to. */
int add_plain_type(PyObject *module, PyType_Spec *spec, const char *name);

/* --- what each file adds to the module: -1 with an exception set --- */

/* annotations.c, draws.c: functions of the module. */
PyObject *module_move_boxes(PyObject *module, PyObject *args);
PyObject *module_move_keypoints(PyObject *module, PyObject *args);
PyObject *batch_masks(PyObject *self, PyObject *args); /* of a Batch */
PyObject *module_draw_mix(PyObject *module, PyObject *args);
PyObject *module_fill_normals(PyObject *module, PyObject *args);
PyObject *module_normal_quantiles(PyObject *module, PyObject *unused);
PyObject *module_draw_erasing(PyObject *module, PyObject *args);
PyObject *module_lend_probe(PyObject *module, PyObject *device);

int add_errors(PyObject *module);
int add_array(PyObject *module);
int add_batch(PyObject *module);
int add_finisher(PyObject *module);
int add_lend(PyObject *module);
int add_loader(PyObject *module);
int add_server(PyObject *module);

#endif
