#include "compute_client/run/run_state.h"

#include "base/log.h"
#include "base/show.h"
#include "compute_client/run/lend_probe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Lends the GPU.  The trainer and the loader's lanes have points from their beginning, which pass
 * until the GPU is lent. */

sluice_status run_lend_point(void *data, void *stream, struct sluice_err *err)
{
    const struct run *run = data;
    struct sluice_lend *lend = run->lend;
    /* A trainer that uses no GPU need not wait for one. */
    return lend && (stream || run->lend_device < 0) ? sluice_lend_point(lend, stream, err)
                                                    : SLUICE_OK;
}

/* "always", "idle", "30%" */
static const char *when_text(const struct sluice_options *o, char text[SLUICE_SHOW_BYTES])
{
    return o->lend_when == SLUICE_LEND_ALWAYS ? "always"
           : o->lend_when == SLUICE_LEND_IDLE ? "idle"
                                              : sluice_show_share(o->lend_share, text);
}

static void tell(const struct run *run)
{
    const struct sluice_options *o = run->options;
    char share[SLUICE_SHOW_BYTES], most[SLUICE_SHOW_BYTES], gpu[32] = "the device";
    if (run->lend_device >= 0)
        snprintf(gpu, sizeof(gpu), "GPU %d", run->lend_device);
    sluice_log(SLUICE_LOG_INFO, "%s is lent at %s (%s, %s at most)%s", gpu, o->lend,
               when_text(o, share), sluice_show_seconds(o->lend_at_most_s, most),
               run->lend_device < 0 ? ": it is no GPU, and its steps wait before they begin" : "");
}

/* The GPU that may be lent, as the options have it; -1: none. */
static int find_gpu(const struct sluice_options *o)
{
    if (strcmp(o->device, "none") == 0)
        return strcmp(o->gpu_decode, "on") == 0 ? (int)o->gpu_device : -1;
    return strcmp(o->device, "cpu") == 0 ? -1 : (int)o->gpu;
}

void run_try_lend(struct run *run)
{
    const int gpu = run->options->lend ? find_gpu(run->options) : -1;
    run->lend_tried =
        gpu >= 0 ? sluice_lend_probe_apart(gpu, &run->lend_cannot) : SLUICE_E_UNSUPPORTED;
}

sluice_status run_open_lend(struct run *run, struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    if (!o->lend)
        return SLUICE_OK;
    const int trainer = sluice_trainer_device(run->trainer);
    run->lend_device = trainer >= 0 ? trainer : sluice_loader_device(run->loader);
    const struct sluice_lend_options options = {
        .path = o->lend,
        .uids = o->lend_uids,
        .num_uids = o->lend_allow.num_items,
        .when = o->lend_when,
        .share = o->lend_share,
        .at_most_ms = (uint32_t)lround(o->lend_at_most_s * 1000),
        .device = run->lend_device,
    };
    struct sluice_err cause = run->lend_device >= 0 ? run->lend_cannot : (struct sluice_err){0};
    struct sluice_lend *lend = NULL;
    sluice_status status = run->lend_device >= 0 ? run->lend_tried : SLUICE_OK;
    if (status == SLUICE_OK)
        status = sluice_lend_open(&options, &lend, &cause);
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "--lend: %s", cause.text);
    run->lend = lend;
    tell(run);
    return sluice_loader_set_lend(run->loader, lend, err);
}

void run_stop_lend(struct run *run)
{
    struct sluice_lend *lend = run->lend;
    if (lend)
        sluice_lend_stop(lend);
}

void run_close_lend(struct run *run)
{
    pthread_mutex_lock(&run->lock);
    struct sluice_lend *lend = run->lend;
    run->lend = NULL;
    pthread_mutex_unlock(&run->lock);
    sluice_lend_close(lend);
}
