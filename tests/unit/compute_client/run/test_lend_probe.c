#include "compute_client/run/lend_probe.h"

#include "base/clock.h"
#include "support/test.h"

#include <signal.h>

#define LONG_NS 60000000000u

static sluice_status run(const char *script, uint64_t ns, struct sluice_err *err)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    return sluice_lend_probe_run(argv, ns, err);
}

TEST(ok_is_success_and_any_other_line_the_reason)
{
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(run("echo ok", LONG_NS, &err), SLUICE_OK);
    CU_ASSERT_EQUAL(run("echo no GPU here; echo more; exit 1", LONG_NS, &err),
                    SLUICE_E_UNSUPPORTED);
    CU_ASSERT_STRING_EQUAL(err.text, "no GPU here");
}

TEST(an_end_without_a_word_is_a_failure)
{
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(run("kill -SEGV $$", LONG_NS, &err), SLUICE_E_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "crashed"));
    const char *const argv[] = {"/nowhere/program", NULL};
    struct sluice_err missing = {0};
    CU_ASSERT_EQUAL(sluice_lend_probe_run(argv, LONG_NS, &missing), SLUICE_E_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(missing.text, "/nowhere/program"));
}

TEST(one_that_hangs_is_killed)
{
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(run("echo ok; exec sleep 1000", LONG_NS, &err), SLUICE_OK);
    CU_ASSERT_EQUAL(run("exec sleep 1000", 200000000, &err), SLUICE_E_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "did not end within 0.2 s"));
}

/* Under nohup and the like nobody learns how a child ended. */
TEST(the_answer_counts_where_children_are_not_waited_for)
{
    struct sluice_err err = {0};
    void (*before)(int) = signal(SIGCHLD, SIG_IGN);
    CU_ASSERT_EQUAL(run("echo ok", LONG_NS, &err), SLUICE_OK);
    signal(SIGCHLD, before);
}

TEST(output_of_any_length_is_cut)
{
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(run("head -c 100000 /dev/zero | tr '\\0' x", LONG_NS, &err),
                    SLUICE_E_UNSUPPORTED);
    CU_ASSERT_EQUAL(strlen(err.text), 511);
}
