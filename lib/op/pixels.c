#include "op/pixels.h"

#include "base/buf.h"
#include "image/color.h"

#include <assert.h>
#include <string.h>

/* --- from ops to a list --- */

struct resolved {
    struct sluice_drawn_op *list;
    unsigned num;
    const struct sluice_draw_key *key;
    struct sluice_size size;
    uint8_t turns[SLUICE_MAX_NODES]; /* by op: how often it came already */
};

static void resolve(struct resolved *r, const struct sluice_op *op);

static struct sluice_drawn_op *push(struct resolved *r, const struct sluice_op *op)
{
    assert(r->num < SLUICE_MAX_DRAWN_OPS); /* the parser has counted */
    r->list[r->num].op = op;
    return &r->list[r->num++];
}

static void resolve_blend(struct resolved *r, const struct sluice_op *op, struct sluice_rng *rng)
{
    struct sluice_blend *blend = &push(r, op)->drawn.blend;
    uint8_t chosen[SLUICE_MAX_DRAWN_OPS];
    op->type->blend(op->params, op->children, op->num_children, rng, blend, chosen);
    const uint8_t *next = chosen;
    for (unsigned b = 0; b < blend->num; b++) {
        const unsigned before = r->num;
        for (unsigned i = 0; i < blend->num_ops[b]; i++)
            resolve(r, &op->children[*next++]);
        blend->num_ops[b] = (uint8_t)(r->num - before); /* some may not run */
    }
}

/* An op that is drawn again has new draws each time. */
static void resolve(struct resolved *r, const struct sluice_op *op)
{
    if (op->type->kind == SLUICE_OP_RESAMPLE) {
        sluice_op_draw(op, r->key, r->size, &push(r, op)->drawn);
        return;
    }
    const unsigned turn = r->turns[op->index]++;
    struct sluice_rng rng = sluice_op_rng(op, r->key, turn);
    if (op->p < 1 && sluice_rng_double(&rng) >= op->p)
        return;
    if (op->type->is_identity || !sluice_op_runs_in(op, r->key->schedule))
        return;
    if (op->type->kind == SLUICE_OP_BLEND) {
        resolve_blend(r, op, &rng);
        return;
    }
    if (op->type->kind != SLUICE_OP_CHOICE) {
        struct sluice_drawn_op *drawn = push(r, op);
        if (op->type->draw)
            op->type->draw(op->params, r->size, &rng, &drawn->drawn);
        return;
    }
    uint8_t chosen[SLUICE_MAX_CHOSEN];
    const unsigned num = op->type->choose(op->params, op->children, op->num_children, &rng, chosen);
    for (unsigned i = 0; i < num; i++)
        resolve(r, &op->children[chosen[i]]);
}

unsigned sluice_pixels_resolve(const struct sluice_op *ops, unsigned num_ops,
                               const struct sluice_draw_key *key, struct sluice_size size,
                               struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS])
{
    struct resolved r = {.list = list, .key = key, .size = size};
    for (unsigned i = 0; i < num_ops; i++)
        resolve(&r, &ops[i]);
    return r.num;
}

bool sluice_pixels_have_schedule(const struct sluice_op *op)
{
    bool has_one = sluice_op_has_schedule(op);
    for (unsigned i = 0; !has_one && i < op->num_children; i++)
        has_one = sluice_pixels_have_schedule(&op->children[i]);
    return has_one;
}

/* --- from a list to pixels --- */

typedef uint8_t table[3][256];

static void compose(table first, const table then)
{
    for (int c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++)
            first[c][v] = then[c][first[c][v]];
    }
}

static void set_identity(table t)
{
    for (int c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++)
            t[c][v] = (uint8_t)v;
    }
}

/* The first and the last value of each channel that pixels have. */
static void find_range(struct sluice_pixel_statistics *statistics)
{
    for (int c = 0; c < 3; c++) {
        const uint32_t *histogram = statistics->histogram[c];
        int low = 0, high = 255;
        while (low < 255 && histogram[low] == 0)
            low++;
        while (high > 0 && histogram[high] == 0)
            high--;
        statistics->low[c] = (uint8_t)low;
        statistics->high[c] = (uint8_t)high;
    }
}

/* Measures the pixels after the table `before`, which is the identity if is_first. */
static void measure(enum sluice_statistics kind, const uint8_t *pixels, size_t num_pixels,
                    const table before, bool is_first, struct sluice_pixel_statistics *statistics)
{
    memset(statistics, 0, sizeof(*statistics));
    statistics->num_pixels = num_pixels;
    if (kind == SLUICE_STATISTICS_LUMA) {
        statistics->luma_sum = sluice_luma_sum(pixels, num_pixels, is_first ? NULL : before);
    } else if (kind == SLUICE_STATISTICS_RANGE && is_first) {
        sluice_range_rgb(pixels, num_pixels, statistics->low, statistics->high);
    } else if (kind != SLUICE_STATISTICS_NONE) {
        uint32_t histogram[3][256];
        sluice_histogram_rgb(pixels, num_pixels, histogram);
        for (int c = 0; c < 3; c++) {
            for (int v = 0; v < 256; v++)
                statistics->histogram[c][before[c][v]] += histogram[c][v];
        }
        if (kind == SLUICE_STATISTICS_RANGE)
            find_range(statistics);
    }
}

/* The output images of the passes: the last is `out`, the others alternate between two buffers. */
struct passes {
    const uint8_t *in; /* of the next pass */
    uint8_t *out, *between[2];
    unsigned num, done;
    struct sluice_size size;
};

static uint8_t *next_out(const struct passes *p)
{
    return p->done + 1 == p->num ? p->out : p->between[p->done % 2];
}

static void end_pass(struct passes *p)
{
    p->in = next_out(p);
    p->done++;
}

static bool is_table(const struct sluice_drawn_op *op)
{
    return op->op->type->kind == SLUICE_OP_TABLE;
}

static unsigned count_passes(const struct sluice_drawn_op *list, unsigned num)
{
    unsigned count = 0;
    for (unsigned i = 0; i < num; i++)
        count += !is_table(&list[i]) || i == 0 || !is_table(&list[i - 1]);
    return count;
}

static size_t memory_of(const struct sluice_drawn_op *list, unsigned num, struct sluice_size size)
{
    size_t most = 0;
    for (unsigned i = 0; i < num; i++) {
        const struct sluice_op_type *type = list[i].op->type;
        const size_t bytes = type->memory_bytes ? type->memory_bytes(size) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void run_passes(const struct sluice_drawn_op *list, unsigned num, struct passes *p,
                       void *memory)
{
    const size_t num_pixels = (size_t)p->size.width * p->size.height;
    struct sluice_pixel_statistics statistics;
    table composed;
    for (unsigned i = 0; i < num; i++) {
        const struct sluice_op_type *type = list[i].op->type;
        if (!is_table(&list[i])) {
            type->apply(&list[i].drawn, p->size, p->in, next_out(p), memory);
            end_pass(p);
            continue;
        }
        const bool is_first = i == 0 || !is_table(&list[i - 1]);
        if (is_first)
            set_identity(composed);
        measure(type->statistics, p->in, num_pixels, composed, is_first, &statistics);
        table its;
        type->table(&list[i].drawn, &statistics, its);
        compose(composed, its);
        if (i + 1 == num || !is_table(&list[i + 1])) {
            sluice_map_rgb(p->in, num_pixels, composed, next_out(p));
            end_pass(p);
        }
    }
}

/* Runs a list without blends. */
static sluice_status run_chain(const struct sluice_drawn_op *list, unsigned num,
                               struct sluice_scratch *scratch, struct sluice_size size,
                               const uint8_t *in, uint8_t *out, struct sluice_err *err)
{
    struct passes passes = {.in = in, .out = out, .num = count_passes(list, num), .size = size};
    struct sluice_buf *buffers[3] = {NULL, NULL, NULL};
    const size_t bytes[3] = {
        passes.num > 1 ? (size_t)size.width * size.height * 3 : 0,
        passes.num > 2 ? (size_t)size.width * size.height * 3 : 0,
        memory_of(list, num, size),
    };
    sluice_status status = SLUICE_OK;
    for (int i = 0; status == SLUICE_OK && i < 3; i++) {
        if (bytes[i])
            status = sluice_buf_create(scratch->pool, bytes[i], &buffers[i], err);
    }
    if (status == SLUICE_OK) {
        passes.between[0] = buffers[0] ? buffers[0]->data : NULL;
        passes.between[1] = buffers[1] ? buffers[1]->data : NULL;
        run_passes(list, num, &passes, buffers[2] ? buffers[2]->data : NULL);
    }
    for (int i = 0; i < 3; i++)
        sluice_buf_unref(buffers[i]);
    return status;
}

static bool is_blend(const struct sluice_drawn_op *op)
{
    return op->op->type->kind == SLUICE_OP_BLEND;
}

unsigned sluice_pixels_in_branches(const struct sluice_blend *blend)
{
    unsigned num = 0;
    for (unsigned b = 0; b < blend->num; b++)
        num += blend->num_ops[b];
    return num;
}

/* Runs a blend, list[0], and its branches, which follow it. */
static sluice_status run_blend(const struct sluice_drawn_op *list, struct sluice_scratch *scratch,
                               struct sluice_size size, const uint8_t *in, uint8_t *out,
                               struct sluice_err *err)
{
    const struct sluice_blend *blend = &list->drawn.blend;
    const size_t bytes = (size_t)size.width * size.height * 3;
    const uint8_t *images[SLUICE_MAX_BRANCHES + 1] = {in};
    struct sluice_buf *made[SLUICE_MAX_BRANCHES] = {NULL};
    sluice_status status = SLUICE_OK;
    const struct sluice_drawn_op *next = list + 1;
    for (unsigned b = 0; status == SLUICE_OK && b < blend->num; b++) {
        const unsigned num = blend->num_ops[b];
        images[b + 1] = in;
        if (num == 0)
            continue;
        status = sluice_buf_create(scratch->pool, bytes, &made[b], err);
        if (status == SLUICE_OK)
            status = run_chain(next, num, scratch, size, in, made[b]->data, err);
        images[b + 1] = status == SLUICE_OK ? made[b]->data : NULL;
        next += num;
    }
    if (status == SLUICE_OK)
        sluice_mix_rgb(images, blend->weights, blend->num + 1, bytes, out);
    for (unsigned b = 0; b < blend->num; b++)
        sluice_buf_unref(made[b]);
    return status;
}

/* The end of the list's part from `first` on that runs as one: a blend, or ops up to the next. */
static unsigned part_end(const struct sluice_drawn_op *list, unsigned num, unsigned first)
{
    if (is_blend(&list[first]))
        return first + 1 + sluice_pixels_in_branches(&list[first].drawn.blend);
    unsigned end = first + 1;
    while (end < num && !is_blend(&list[end]))
        end++;
    return end;
}

sluice_status sluice_pixels_run(const struct sluice_drawn_op *list, unsigned num,
                                struct sluice_scratch *scratch, struct sluice_size size,
                                const uint8_t *in, uint8_t *out, struct sluice_err *err)
{
    struct sluice_buf *from = NULL; /* the last part's result; NULL: `in` */
    sluice_status status = SLUICE_OK;
    for (unsigned first = 0, end; status == SLUICE_OK && first < num; first = end) {
        end = part_end(list, num, first);
        struct sluice_buf *to = NULL; /* NULL: `out` */
        if (end < num)
            status =
                sluice_buf_create(scratch->pool, (size_t)size.width * size.height * 3, &to, err);
        const uint8_t *in_pixels = from ? from->data : in;
        uint8_t *out_pixels = to ? to->data : out;
        if (status == SLUICE_OK && is_blend(&list[first]))
            status = run_blend(&list[first], scratch, size, in_pixels, out_pixels, err);
        else if (status == SLUICE_OK)
            status =
                run_chain(&list[first], end - first, scratch, size, in_pixels, out_pixels, err);
        sluice_buf_unref(from);
        from = to;
    }
    sluice_buf_unref(from);
    return status;
}

/* --- from a list to kernel calls --- */

bool sluice_pixels_add_calls(const struct sluice_drawn_op *list, unsigned num,
                             struct sluice_kernel_calls *calls)
{
    bool is_added = true;
    for (unsigned i = 0; is_added && i < num; i++) {
        struct sluice_kernel_call call;
        if (!sluice_op_is_plain_table(list[i].op->type)) {
            list[i].op->type->call(&list[i].drawn, &call);
            is_added = sluice_kernel_calls_add(calls, &call);
            continue;
        }
        call.kernel = SLUICE_KERNEL_TABLE;
        list[i].op->type->table(&list[i].drawn, NULL, call.with.table);
        for (; i + 1 < num && sluice_op_is_plain_table(list[i + 1].op->type); i++) {
            table then;
            list[i + 1].op->type->table(&list[i + 1].drawn, NULL, then);
            compose(call.with.table, then);
        }
        is_added = sluice_kernel_calls_add(calls, &call);
    }
    return is_added;
}

/* --- costs --- */

double sluice_pixels_mean_ns(const struct sluice_op *op, uint32_t schedule)
{
    const struct sluice_op_type *type = op->type;
    if (!sluice_op_runs_in(op, schedule))
        return 0;
    const double own = type->ns_of ? type->ns_of(op->params) : type->ns_per_pixel;
    if (type->kind != SLUICE_OP_CHOICE && type->kind != SLUICE_OP_BLEND)
        return op->p * own;
    double sum = 0, weights = 0;
    for (unsigned i = 0; i < op->num_children; i++) {
        sum += op->children[i].weight * sluice_pixels_mean_ns(&op->children[i], schedule);
        weights += op->children[i].weight;
    }
    double num = type->num_chosen ? type->num_chosen(op->params, op->num_children) : 1;
    if (type->mean_chosen)
        num = type->mean_chosen(op->params);
    return weights > 0 ? op->p * (own + num * sum / weights) : 0;
}
