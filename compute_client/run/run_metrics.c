#include "compute_client/run/run_state.h"

#include "base/clock.h"
#include "base/log.h"
#include "plan/mode.h"

#include <math.h>
#include <stdio.h>

void run_note_batch(struct run *run, uint64_t wait_ns, uint64_t step_ns)
{
    pthread_mutex_lock(&run->times.lock);
    sluice_histogram_add(&run->times.wait, wait_ns);
    sluice_histogram_add(&run->times.step, step_ns);
    pthread_mutex_unlock(&run->times.lock);
}

static void put_progress(const struct run *run, const struct sluice_counters *counters,
                         struct sluice_exposition *page)
{
    const struct sluice_options *o = run->options;
    const struct sluice_label label[] = {{"mode", sluice_mode_name(o->mode)}, {"model", o->arch}};
    sluice_exposition_family(page, "sluice_trainer_info", SLUICE_GAUGE,
                             "Always 1; the labels say what the run is.");
    sluice_exposition_count(page, label, 2, 1);
    sluice_exposition_counter(page, "sluice_trainer_samples_total", counters->samples,
                              "Samples that the trainer got, train and val.");
    sluice_exposition_counter(page, "sluice_trainer_batches_total", counters->batches,
                              "Batches that it is done with.");
    sluice_exposition_gauge(page, "sluice_trainer_epoch", (double)run->epoch_now,
                            "The epoch under way, from 0.");
    sluice_exposition_gauge(page, "sluice_trainer_epochs", (double)o->epochs,
                            "Epochs to train (--epochs).");
    const double loss = run->loss_now, top1 = run->top1_now;
    if (!isnan(loss))
        sluice_exposition_gauge(page, "sluice_trainer_loss", loss,
                                "Mean loss of this epoch so far.");
    if (!isnan(top1))
        sluice_exposition_gauge(page, "sluice_trainer_top1_ratio", top1,
                                "Share of this epoch's samples so far whose class was found.");
    sluice_exposition_gauge(page, "sluice_trainer_uptime_seconds",
                            (double)(sluice_clock_ns() - run->started_ns) / 1e9,
                            "Since the program's start.");
    sluice_exposition_seconds(page, "sluice_trainer_process_cpu_seconds_total",
                              (double)sluice_process_cpu_ns() / 1e9,
                              "CPU time of the whole program.");
}

#define MOST_CHOICES 128 /* each split has one plain form, and few have others */

static void put_arrivals(const struct sluice_loader *loader, const struct sluice_counters *counters,
                         struct sluice_exposition *page)
{
    sluice_exposition_counter(page, "sluice_trainer_wire_bytes_total", counters->wire_bytes,
                              "Messages received, payload and fields, in bytes.");
    sluice_exposition_family(page, "sluice_trainer_choices_total", SLUICE_COUNTER,
                             "Samples that arrived, by split and form.");
    struct sluice_choice_count counts[MOST_CHOICES];
    const size_t num = sluice_loader_choices(loader, counts, MOST_CHOICES);
    for (size_t i = 0; i < num && i < MOST_CHOICES; i++) {
        char split_text[16];
        snprintf(split_text, sizeof(split_text), "%u", counts[i].split);
        const struct sluice_label labels[] = {{"split", split_text}, {"form", counts[i].form}};
        sluice_exposition_count(page, labels, 2, counts[i].samples);
    }
    sluice_exposition_family(page, "sluice_trainer_gpu_decoded_samples_total", SLUICE_COUNTER,
                             "Of these, what the GPU decoded, by form.");
    for (int form = 0; form < SLUICE_NUM_FORMS; form++) {
        const struct sluice_label label = {"form", sluice_form_name((enum sluice_form)form)};
        if (counters->on_gpu[form])
            sluice_exposition_count(page, &label, 1, counters->on_gpu[form]);
    }
    sluice_exposition_family(page, "sluice_trainer_errors_total", SLUICE_COUNTER,
                             "Samples that failed, in delivered batches, by status.");
    for (int status = 1; status < SLUICE_NUM_STATUS; status++) {
        const struct sluice_label label = {"status", sluice_status_name((sluice_status)status)};
        sluice_exposition_count(page, &label, 1, counters->failed[status]);
    }
    sluice_exposition_gauge(page, "sluice_trainer_prefetched_samples", (double)counters->prefetched,
                            "Samples that are ready before the trainer asks for them.");
}

static void put_waits(struct run *run, const struct sluice_counters *counters,
                      struct sluice_exposition *page)
{
    pthread_mutex_lock(&run->times.lock);
    const struct sluice_histogram wait = run->times.wait, step = run->times.step;
    pthread_mutex_unlock(&run->times.lock);
    sluice_exposition_family(page, "sluice_trainer_batch_wait_seconds", SLUICE_HISTOGRAM,
                             "How long the trainer waited for a batch.");
    sluice_exposition_histogram(page, NULL, 0, &wait);
    sluice_exposition_family(page, "sluice_trainer_batch_step_seconds", SLUICE_HISTOGRAM,
                             "How long it worked on one.");
    sluice_exposition_histogram(page, NULL, 0, &step);
    sluice_exposition_family(page, "sluice_trainer_stall_seconds_total", SLUICE_COUNTER,
                             "Its waits for batches, by what they waited for.");
    for (int i = 0; i < SLUICE_NUM_RESOURCES; i++) {
        const struct sluice_label label = {"cause", sluice_stall_name((enum sluice_resource)i)};
        if (i != SLUICE_GPU && SLUICE_STALLS & 1u << i)
            sluice_exposition_value(page, &label, 1, (double)counters->wait_ns[i] / 1e9);
    }
    sluice_exposition_gauge(page, "sluice_trainer_waiting_seconds", counters->waits_s,
                            "How long it has been waiting for the next batch; 0: it is not.");
}

static void put_lend(const struct run *run, struct sluice_exposition *page)
{
    struct sluice_lend *lend = run->lend;
    if (!lend)
        return;
    struct sluice_lend_counters counters;
    sluice_lend_counters(lend, &counters);
    sluice_exposition_counter(page, "sluice_lend_requests_total", counters.requests,
                              "Requests of borrowers that got the GPU.");
    sluice_exposition_seconds(page, "sluice_lend_seconds_total", (double)counters.lent_ns / 1e9,
                              "How long they had it.");
    sluice_exposition_seconds(page, "sluice_lend_cost_seconds_total",
                              (double)counters.cost_ns / 1e9,
                              "Of this, while training did not wait for data.");
    sluice_exposition_counter(page, "sluice_lend_taken_back_total", counters.taken_back,
                              "Requests that ended because the borrower died or took too long.");
    sluice_exposition_gauge(page, "sluice_lend_borrowers", (double)counters.borrowers,
                            "Borrowers that are connected.");
    uint64_t bounds_ns[SLUICE_LEND_WAIT_BUCKETS - 1];
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(bounds_ns); i++)
        bounds_ns[i] = UINT64_C(1000) << i;
    sluice_exposition_family(page, "sluice_lend_wait_seconds", SLUICE_HISTOGRAM,
                             "How long a request waited for permission.");
    sluice_exposition_buckets(page, NULL, 0, bounds_ns, SLUICE_ARRAY_LEN(bounds_ns), counters.waits,
                              counters.waited_ns);
}

static void put_connection(const struct sluice_counters *counters, struct sluice_exposition *page)
{
    sluice_exposition_gauge(page, "sluice_trainer_server_lost_seconds", counters->lost_s,
                            "How long the server has been lost; 0: it is not.");
    sluice_exposition_counter(page, "sluice_trainer_outages_total", counters->outages,
                              "Times that the server was lost.");
    sluice_exposition_counter(page, "sluice_trainer_lost_streams_total", counters->lost_streams,
                              "Fetch streams that ended before their time.");
    sluice_exposition_counter(page, "sluice_trainer_repeated_requests_total",
                              counters->repeated_requests,
                              "Requests that were sent again, for any reason.");
    sluice_exposition_counter(page, "sluice_trainer_hash_errors_total", counters->hash_errors,
                              "Replies that were damaged on their way.");
    sluice_exposition_counter(page, "sluice_trainer_failed_over_total", counters->failed_over,
                              "Samples that another replica was asked for after a loss.");
    sluice_exposition_counter(page, "sluice_trainer_hedged_total", counters->hedged,
                              "Samples that two replicas were asked for because they were late.");
}

static void write_page(void *ctx, struct sluice_exposition *page)
{
    struct run *run = ctx;
    struct sluice_counters counters;
    sluice_loader_counters(run->loader, &counters);
    put_progress(run, &counters, page);
    put_arrivals(run->loader, &counters, page);
    put_waits(run, &counters, page);
    put_lend(run, page);
    if (run->options->mode != SLUICE_MODE_LOCAL)
        put_connection(&counters, page);
}

static bool is_well(void *ctx, char *reason)
{
    const struct run *run = ctx;
    struct sluice_counters counters;
    sluice_loader_counters(run->loader, &counters);
    if (counters.lost_s <= 0)
        return true;
    snprintf(reason, SLUICE_HEALTH_REASON, "the server %.100s has been out of reach for %.1f s",
             run->options->target, counters.lost_s);
    return false;
}

/* That of --metrics; the ranks of --gpus do not take each other's port. */
static sluice_status find_address(const struct sluice_options *o,
                                  char listen[SLUICE_HOST_PORT_BYTES], struct sluice_err *err)
{
    struct sluice_host_port address;
    const sluice_status status = sluice_metrics_listen_parse(o->metrics, &address, err);
    if (status != SLUICE_OK)
        return status;
    if (o->is_launched && address.port != 0) {
        const uint64_t port = address.port + o->rank;
        if (port > UINT16_MAX)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "--metrics %s: rank %llu would need port %llu", o->metrics,
                               (unsigned long long)o->rank, (unsigned long long)port);
        address.port = (uint16_t)port;
    }
    sluice_host_port_format(&address, "", listen);
    return SLUICE_OK;
}

sluice_status run_serve_metrics(struct run *run, struct sluice_err *err)
{
    if (!run->options->metrics)
        return SLUICE_OK;
    const struct sluice_metrics_pages pages = {
        .program = "offload_train",
        .write = write_page,
        .is_well = is_well,
        .ctx = run,
    };
    char listen[SLUICE_HOST_PORT_BYTES];
    sluice_status status = find_address(run->options, listen, err);
    if (status == SLUICE_OK)
        status = sluice_metrics_server_create(listen, &pages, &run->metrics, err);
    if (status == SLUICE_OK)
        sluice_log(SLUICE_LOG_INFO, "metrics at port %d", sluice_metrics_server_port(run->metrics));
    return status;
}
