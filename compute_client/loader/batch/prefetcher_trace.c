#include "compute_client/loader/batch/prefetcher_state.h"

#include "base/clock.h"
#include "plan/resource.h"
#include "trace/tracer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The part of a trace that this side writes of a sample: what was asked for and why, and when each
 * step was over.
 *
 *     sample:  [away                 ][wait for a worker][finish][wait for the batch]            */

#define MAX_ATTRIBUTES 40

struct attributes {
    struct sluice_attribute items[MAX_ATTRIBUTES];
    size_t num_items;
};

static void add_text(struct attributes *list, const char *name, const char *text)
{
    list->items[list->num_items++] =
        (struct sluice_attribute){.name = name, .type = SLUICE_ATTRIBUTE_TEXT, .text = text};
}

static void add_count(struct attributes *list, const char *name, uint64_t count)
{
    list->items[list->num_items++] =
        (struct sluice_attribute){.name = name, .type = SLUICE_ATTRIBUTE_COUNT, .count = count};
}

static void add_real(struct attributes *list, const char *name, double real)
{
    list->items[list->num_items++] =
        (struct sluice_attribute){.name = name, .type = SLUICE_ATTRIBUTE_REAL, .real = real};
}

/* Why this choice: what it was expected to cost, and what each resource was worth then. */
static void add_reasons(struct attributes *list, const struct row *row)
{
    static const char *const prices[SLUICE_NUM_RESOURCES] = {
        [SLUICE_DISK] = "sluice.price.disk",
        [SLUICE_STORAGE_CPU] = "sluice.price.storage_cpu",
        [SLUICE_NETWORK] = "sluice.price.network",
        [SLUICE_COMPUTE_CPU] = "sluice.price.compute_cpu",
        [SLUICE_GPU] = "sluice.price.gpu",
    };
    add_real(list, "sluice.expected.storage_s", row->expected.storage_s);
    add_real(list, "sluice.expected.bytes", row->expected.bytes);
    add_real(list, "sluice.expected.compute_s", row->expected.compute_s);
    add_real(list, "sluice.storage_worth", row->trace->storage_worth);
    add_real(list, "sluice.storage_price", row->result.storage_price);
    for (int i = 0; row->trace->has_prices && i < SLUICE_NUM_RESOURCES; i++) {
        if (prices[i])
            add_real(list, prices[i], row->trace->prices[i]);
    }
}

static void trace_row(struct sluice_prefetcher *prefetcher, const struct row *row, uint64_t batch,
                      uint64_t now_ns)
{
    const struct sluice_epoch *epoch = &prefetcher->epoch;
    const struct sluice_trace_context *context = &row->trace->context;
    const bool is_local = epoch->source->is_local;
    const sluice_status status = row->slot->batch.status[row->index];
    char asked[32], got[32];
    struct attributes list = {.num_items = 0};
    snprintf(asked, sizeof(asked), "%s@%u", sluice_form_name((enum sluice_form)row->choice.form),
             row->choice.split);
    snprintf(got, sizeof(got), "%s@%u", sluice_form_name(row->result.form), row->ops_done);
    if (!is_local) {
        add_text(&list, "rpc.system", "grpc");
        add_text(&list, "rpc.service", "sluice.v1.Offload");
        add_text(&list, "rpc.method", "Fetch");
    }
    add_text(&list, "file.path", sluice_manifest_at(epoch->manifest, row->sample_id).path);
    add_count(&list, "sluice.sample", row->sample_id);
    add_count(&list, "sluice.seed", row->trace->seed);
    add_count(&list, "sluice.epoch", row->trace->epoch);
    add_count(&list, "sluice.batch", batch);
    add_count(&list, "sluice.row", row->index);
    add_text(&list, "sluice.choice.asked", asked);
    add_reasons(&list, row);
    if (status == SLUICE_OK)
        add_text(&list, "sluice.choice.got", got);
    else
        add_text(&list, "error.type", sluice_status_name(status));
    add_count(&list, "sluice.payload_bytes", row->result.payload_bytes);
    add_count(&list, "sluice.on_gpu", row->is_for_gpu);

    /* No worker has a row whose sample came as an error. */
    const uint64_t started_ns = row->started_ns ? row->started_ns : row->arrived_ns;
    const uint64_t done_ns = row->started_ns ? row->done_ns : row->arrived_ns;
    const uint64_t own = context->span;
    const struct sluice_span spans[] = {
        {.name = "sample",
         .kind = is_local ? SLUICE_SPAN_INTERNAL : SLUICE_SPAN_CLIENT,
         .id = own,
         .parent = sluice_tracer_parent(prefetcher->options.tracer),
         .start_ns = row->requested_ns,
         .end_ns = now_ns,
         .attributes = list.items,
         .num_attributes = list.num_items,
         .error = status == SLUICE_OK ? NULL : row->error},
        {"away", SLUICE_SPAN_INTERNAL, sluice_trace_child(context, 101), own, row->requested_ns,
         row->arrived_ns, NULL, 0, NULL},
        {"wait for a worker", SLUICE_SPAN_INTERNAL, sluice_trace_child(context, 102), own,
         row->arrived_ns, started_ns, NULL, 0, NULL},
        {"finish", SLUICE_SPAN_INTERNAL, sluice_trace_child(context, 103), own, started_ns, done_ns,
         NULL, 0, NULL},
        {"wait for the batch", SLUICE_SPAN_INTERNAL, sluice_trace_child(context, 104), own, done_ns,
         now_ns, NULL, 0, NULL},
    };
    sluice_tracer_write(prefetcher->options.tracer, context, spans, SLUICE_ARRAY_LEN(spans));
}

void prefetcher_begin_trace(struct row *row, uint32_t draw_epoch)
{
    const struct sluice_prefetcher *prefetcher = row->prefetcher;
    const struct sluice_ask *ask = &prefetcher->ask;
    const struct sluice_trace_context context = sluice_tracer_pick(
        prefetcher->options.tracer, prefetcher->epoch.seed, draw_epoch, row->sample_id);
    row->trace = context.span ? calloc(1, sizeof(*row->trace)) : NULL;
    if (!row->trace)
        return;
    *row->trace = (struct row_trace){.context = context,
                                     .seed = prefetcher->epoch.seed,
                                     .epoch = draw_epoch,
                                     .storage_worth = ask->storage_worth,
                                     .has_prices = ask->prices != NULL};
    if (ask->prices)
        memcpy(row->trace->prices, ask->prices, sizeof(row->trace->prices));
}

void prefetcher_trace_batch(struct sluice_prefetcher *prefetcher, const struct slot *slot)
{
    const uint64_t now_ns = sluice_clock_ns();
    const uint64_t batch =
        prefetcher->epoch.first_item / prefetcher->options.batch_size + prefetcher->num_taken - 1;
    for (unsigned i = 0; i < slot->batch.n; i++) {
        if (slot->rows[i].trace)
            trace_row(prefetcher, &slot->rows[i], batch, now_ns);
    }
}
