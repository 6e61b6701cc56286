#include "storage_server/observe/self_watch.h"

#include "support/test.h"

#include <pthread.h>

/* Checks by a script: '.' succeeds, 'x' fails; after its end all succeed. */
struct script {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const char *next;
    unsigned checks, deaf;
};

static sluice_status check(void *ctx, unsigned timeout_ms, struct sluice_err *err)
{
    struct script *script = ctx;
    CU_ASSERT_EQUAL(timeout_ms, 1);
    pthread_mutex_lock(&script->lock);
    const char result = *script->next ? *script->next++ : '.';
    script->checks++;
    pthread_cond_signal(&script->changed);
    pthread_mutex_unlock(&script->lock);
    return result == 'x' ? sluice_fail(err, SLUICE_E_IO, "as the script says") : SLUICE_OK;
}

static void on_deaf(void *ctx)
{
    struct script *script = ctx;
    pthread_mutex_lock(&script->lock);
    script->deaf++;
    pthread_cond_signal(&script->changed);
    pthread_mutex_unlock(&script->lock);
}

/* Until the watch was deaf or has done so many checks. */
static struct script run(const char *results, unsigned checks)
{
    struct script script = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .next = results};
    const struct sluice_self_watch_options options = {
        .check = check, .on_deaf = on_deaf, .ctx = &script, .interval_ms = 1};
    struct sluice_self_watch *watch = NULL;
    REQUIRE_OK(sluice_self_watch_open(&options, &watch, NULL));
    pthread_mutex_lock(&script.lock);
    while (!script.deaf && script.checks < checks)
        pthread_cond_wait(&script.changed, &script.lock);
    pthread_mutex_unlock(&script.lock);
    sluice_self_watch_close(watch);
    return script;
}

TEST(six_failures_in_a_row_are_deaf)
{
    const struct script script = run("..xxxxxx", 100);
    CU_ASSERT_EQUAL(script.deaf, 1);
    CU_ASSERT_EQUAL(script.checks, 8);
}

TEST(fewer_are_not)
{
    CU_ASSERT_EQUAL(run(".xxxxx.xxxxx.x.x.x.x.x.x.xxxxx", 40).deaf, 0);
}

TEST(closes_at_any_time)
{
    (void)run("", 1);
    (void)run("xxx", 2);
    sluice_self_watch_close(NULL);
}
