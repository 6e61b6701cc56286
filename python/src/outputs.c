#include "outputs.h"

#include "threads.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

enum {
    /* Blocks that wait: a loop gives back the batch before while it holds the last, and one more
     * for a loop that holds two. */
    MAX_WAITING = 2,
};
#define HUGE_PAGE_BYTES ((size_t)2 << 20)
/* The least bytes of output for each thread: 0.3 ms, ten times the time to start a thread. */
#define LEAST_THREAD_BYTES ((size_t)4 << 20)

struct outputs {
    atomic_size_t num_refs; /* the owner's, and one for each block that is out */
    atomic_bool is_closed;
    size_t bytes;
    _Atomic(void *) waiting[MAX_WAITING];
};

static void free_waiting(struct outputs *outputs)
{
    for (int i = 0; i < MAX_WAITING; i++)
        free(atomic_exchange(&outputs->waiting[i], NULL));
}

/* A block given while the owner closes may be put among those that wait; the last one sees it. */
static void unref(struct outputs *outputs)
{
    if (atomic_fetch_sub(&outputs->num_refs, 1) != 1)
        return;
    free_waiting(outputs);
    free(outputs);
}

struct outputs *outputs_create(size_t bytes)
{
    struct outputs *outputs = calloc(1, sizeof(*outputs));
    if (!outputs)
        return NULL;
    atomic_init(&outputs->num_refs, 1);
    outputs->bytes = bytes;
    return outputs;
}

size_t outputs_bytes(const struct outputs *outputs)
{
    return outputs->bytes;
}

static void *alloc(size_t bytes)
{
    const bool is_large = bytes >= HUGE_PAGE_BYTES;
    void *memory;
    if (posix_memalign(&memory, is_large ? HUGE_PAGE_BYTES : 64, bytes ? bytes : 1) != 0)
        return NULL;
    if (is_large) /* the kernel may refuse; that costs only time */
        (void)madvise(memory, bytes - bytes % HUGE_PAGE_BYTES, MADV_HUGEPAGE);
    return memory;
}

void *outputs_take(struct outputs *outputs)
{
    void *memory = NULL;
    for (int i = 0; i < MAX_WAITING && !memory; i++)
        memory = atomic_exchange(&outputs->waiting[i], NULL);
    if (!memory)
        memory = alloc(outputs->bytes);
    if (memory)
        atomic_fetch_add(&outputs->num_refs, 1);
    return memory;
}

void outputs_give(struct outputs *outputs, void *memory)
{
    for (int i = 0; i < MAX_WAITING && memory && !atomic_load(&outputs->is_closed); i++) {
        void *none = NULL;
        if (atomic_compare_exchange_strong(&outputs->waiting[i], &none, memory))
            memory = NULL;
    }
    free(memory);
    unref(outputs);
}

void outputs_close(struct outputs *outputs)
{
    if (!outputs)
        return;
    atomic_store(&outputs->is_closed, true);
    free_waiting(outputs);
    unref(outputs);
}

/* --- rows --- */

struct rows {
    const uint8_t *pixels;
    void *out;
    size_t num_rows, height, width;
    const float (*table)[256];
    enum sluice_dtype dtype;
    enum sluice_layout layout;
    struct sluice_err err;
    sluice_status status;
};

static void finish_some(void *part)
{
    struct rows *r = part;
    r->status = sluice_finish(r->pixels, r->num_rows, r->height, r->width, r->table, r->dtype,
                              r->layout, r->out, &r->err);
}

sluice_status finish_rows(const struct sluice_view *view, size_t num_rows,
                          const float table[3][256], enum sluice_dtype dtype,
                          enum sluice_layout layout, void *out, unsigned num_threads,
                          struct sluice_err *err)
{
    const size_t row_bytes = (size_t)view->height * view->width * 3;
    const size_t out_bytes = row_bytes * (dtype == SLUICE_F32 ? 4 : 2);
    size_t num_parts = num_threads < MAX_PARTS ? num_threads : MAX_PARTS;
    if (num_parts > out_bytes * num_rows / LEAST_THREAD_BYTES)
        num_parts = out_bytes * num_rows / LEAST_THREAD_BYTES;
    if (num_parts > num_rows)
        num_parts = num_rows;
    if (num_parts < 1)
        num_parts = 1;

    struct rows parts[MAX_PARTS];
    for (size_t i = 0; i < num_parts; i++) {
        const size_t first = num_rows * i / num_parts;
        parts[i] = (struct rows){
            .pixels = view->pixels + first * row_bytes,
            .out = (uint8_t *)out + first * out_bytes,
            .num_rows = num_rows * (i + 1) / num_parts - first,
            .height = view->height,
            .width = view->width,
            .table = table,
            .dtype = dtype,
            .layout = layout,
        };
    }
    run_parts(parts, sizeof(parts[0]), num_parts, finish_some);

    sluice_status status = SLUICE_OK;
    for (size_t i = 0; i < num_parts && status == SLUICE_OK; i++) {
        status = parts[i].status;
        if (status != SLUICE_OK && err)
            *err = parts[i].err;
    }
    return status;
}
