#include "compute_client/run/run_state.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/terminal.h"
#include "compute_client/run/tuning.h"

#include <stdio.h>
#include <string.h>

/* The thread that shows how a pass goes.  It does no other work, so a stall shows, whoever
 * it is that hangs; it only reads counters, so nobody waits for it. */

/* Under the lock.  A pass that has begun since the last look is measured from here. */
static struct sluice_live_view look(struct run *run, uint64_t now)
{
    struct run_show *show = &run->show;
    struct sluice_counters counters;
    struct sluice_loader_pass pass;
    sluice_loader_counters(run->loader, &counters);
    sluice_loader_pass(run->loader, &pass);
    if (pass.number != show->number) {
        show->number = pass.number;
        if (pass.continues)
            sluice_live_meter_go_on(&show->meter, &counters);
        else
            sluice_live_meter_start(&show->meter, &counters, now);
    }
    sluice_live_meter_see(&show->meter, &counters, now);
    if (run->lend) {
        struct sluice_lend_counters lent;
        sluice_lend_counters(run->lend, &lent);
        sluice_live_meter_see_lent(&show->meter, lent.lent_ns, now);
    }
    const bool has_network = run->options->mode != SLUICE_MODE_LOCAL;
    struct sluice_live_view view = sluice_live_view_of(&show->meter, &counters, pass.first,
                                                       pass.total, pass.more, has_network, now);
    view.loss = run->loss_now;
    const bool has_name = pass.name[0];
    snprintf(view.what, sizeof(view.what), "%s", has_name ? pass.name : show->what);
    snprintf(view.what_brief, sizeof(view.what_brief), "%s", has_name ? "" : show->what_brief);
    snprintf(view.detail, sizeof(view.detail), "%s", pass.detail);
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
        const struct sluice_live_view view = look(run, now);
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

void run_show(struct run *run, const char *what, const char *what_brief)
{
    struct run_show *show = &run->show;
    if (!is_wanted(run))
        return;
    pthread_mutex_lock(&show->lock);
    snprintf(show->what, sizeof(show->what), "%s", what);
    snprintf(show->what_brief, sizeof(show->what_brief), "%s", what_brief);
    (void)look(run, sluice_clock_ns());
    pthread_mutex_unlock(&show->lock);
    if (show->has_thread)
        return;
    show->is_over = false;
    /* Without it the run goes on unseen. */
    show->has_thread = pthread_create(&show->thread, NULL, show_main, run) == 0;
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
