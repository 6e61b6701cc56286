#include "compute_client/run/run_state.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/terminal.h"
#include "compute_client/run/tuning.h"

#include <stdio.h>
#include <string.h>

/* The thread that shows how a pass goes.  It is none of those that work, so a stall shows, whoever
 * it is that hangs; it only reads counters, so nobody waits for it. */

/* Under the lock. */
static struct sluice_live_view view_of(struct run *run, uint64_t now)
{
    const struct loader_shown *shown = &run->show.shown;
    struct sluice_live_view view =
        sluice_live_view_of(&run->show.meter, &run->loader->live, shown->first, shown->total,
                            shown->more, run->loader->client != NULL, now);
    snprintf(view.what, sizeof(view.what), "%s", shown->what);
    snprintf(view.what_brief, sizeof(view.what_brief), "%s", shown->what_brief);
    snprintf(view.detail, sizeof(view.detail), "%s", shown->detail);
    return view;
}

static void *show_main(void *ctx)
{
    struct run *run = ctx;
    struct run_show *show = &run->show;
    (void)pthread_setname_np(pthread_self(), "show");
    const bool is_terminal = sluice_log_has_terminal();
    const uint64_t look_ns = is_terminal ? TUNING_SHOW_TERMINAL_NS : TUNING_SHOW_LOOK_NS;
    uint64_t next_ns = sluice_clock_ns() + look_ns,
             line_ns = sluice_clock_ns() + TUNING_SHOW_LINE_NS;
    char text[512], last[512] = "";
    pthread_mutex_lock(&show->lock);
    while (!show->is_over) {
        const uint64_t now = sluice_clock_ns();
        if (now < next_ns) {
            (void)sluice_cond_wait_until(&show->changed, &show->lock, next_ns);
            continue;
        }
        next_ns = now + look_ns;
        sluice_live_meter_see(&show->meter, &run->loader->live, now);
        const struct sluice_live_view view = view_of(run, now);
        pthread_mutex_unlock(&show->lock); /* a terminal may take its time */
        if (is_terminal) {
            /* The last column stays free: a cursor behind it may be on the next line. */
            (void)sluice_live_line(&view, sluice_terminal_columns() - 1, sluice_terminal_has_utf8(),
                                   text, sizeof(text));
            if (strcmp(text, last) != 0)
                sluice_log_set_status(text);
            memcpy(last, text, sizeof(last));
        } else if (now >= line_ns) {
            line_ns = now + TUNING_SHOW_LINE_NS;
            sluice_live_text(&view, text, sizeof(text));
            sluice_log(SLUICE_LOG_INFO, "%s", text);
        }
        pthread_mutex_lock(&show->lock);
    }
    pthread_mutex_unlock(&show->lock);
    if (is_terminal)
        sluice_log_set_status(NULL);
    return NULL;
}

/* Whether somebody wants to be shown anything. */
static bool is_wanted(const struct run *run)
{
    const struct sluice_options *o = run->options;
    if (!sluice_log_is_enabled(SLUICE_LOG_INFO))
        return false;
    if (o->has_print_freq && o->print_freq == 0)
        return false;
    return sluice_log_has_terminal() || !o->has_print_freq;
}

void run_show_init(struct run *run)
{
    pthread_mutex_init(&run->show.lock, NULL);
    sluice_cond_init(&run->show.changed);
}

void run_show_clear(struct run *run)
{
    run_show_end(run);
    pthread_cond_destroy(&run->show.changed);
    pthread_mutex_destroy(&run->show.lock);
}

void run_show(struct run *run, const struct loader_shown *shown)
{
    struct run_show *show = &run->show;
    if (!is_wanted(run))
        return;
    pthread_mutex_lock(&show->lock);
    show->shown = *shown;
    if (shown->continues)
        sluice_live_meter_go_on(&show->meter, &run->loader->live);
    else
        sluice_live_meter_start(&show->meter, &run->loader->live, sluice_clock_ns());
    pthread_mutex_unlock(&show->lock);
    if (show->has_thread)
        return;
    show->is_over = false;
    /* Without it the run goes on unseen. */
    show->has_thread = pthread_create(&show->thread, NULL, show_main, run) == 0;
}

void run_show_part(void *ctx, const struct loader_shown *shown)
{
    run_show(ctx, shown);
}

void run_show_end(struct run *run)
{
    struct run_show *show = &run->show;
    if (!show->has_thread)
        return;
    pthread_mutex_lock(&show->lock);
    show->is_over = true;
    pthread_cond_signal(&show->changed);
    pthread_mutex_unlock(&show->lock);
    pthread_join(show->thread, NULL);
    show->has_thread = false;
}
