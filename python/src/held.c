#include "extension.h"
#include "outputs.h"

#include <stdlib.h>

struct held *held_ref(struct held *held)
{
    atomic_fetch_add_explicit(&held->num_refs, 1, memory_order_relaxed);
    return held;
}

void held_unref(struct held *held)
{
    if (!held || atomic_fetch_sub_explicit(&held->num_refs, 1, memory_order_acq_rel) != 1)
        return;
    /* NULL, the legacy default stream, where no stream was named: it follows all that do not say
     * that they have nothing to do with it. */
    if (held->is_lent)
        sluice_batch_release_after(held->batch, held->stream);
    else
        sluice_batch_release(held->batch);
    if (held->outputs)
        outputs_give(held->outputs, held->block);
    free(held);
}

void *stream_of(unsigned long long number)
{
    return number <= 2 ? NULL : (void *)(uintptr_t)number;
}

bool held_lend(struct held *held, void *stream)
{
    if (held->has_stream && held->stream != stream) {
        PyErr_Format(PyExc_BufferError,
                     "these rows are in use on stream %p, and are to be used on stream %p: a batch "
                     "is for one stream",
                     held->stream, stream);
        return false;
    }
    held->is_lent = true;
    held->has_stream = true;
    held->stream = stream;
    return true;
}
