#include "cli/command.h"

#include "support/capture.h"
#include "support/test.h"

static int seen_argc;
static char seen_program[128];

static int remember(int argc, char **argv)
{
    seen_argc = argc;
    strncpy(seen_program, argv[0], sizeof(seen_program) - 1);
    return 42;
}

static const struct sluice_command commands[] = {{"plan", remember, "plan without running"}};
static const struct sluice_program program = {"offload_x", "does things", commands, 1};

TEST(runs_the_command_with_its_own_argv)
{
    char *argv[] = {"offload_x", "plan", "--json", NULL};
    CU_ASSERT_EQUAL(sluice_program_run(&program, 3, argv), 42);
    CU_ASSERT_EQUAL(seen_argc, 2);
    CU_ASSERT_STRING_EQUAL(seen_program, "offload_x plan");
    CU_ASSERT_STRING_EQUAL(argv[2], "--json");
}

TEST(no_command_and_an_unknown_one_are_usage_errors)
{
    char *none[] = {"offload_x", NULL};
    char *unknown[] = {"offload_x", "pla", NULL};
    CU_ASSERT_EQUAL(sluice_program_run(&program, 1, none), 2);
    CU_ASSERT_EQUAL(sluice_program_run(&program, 2, unknown), 2);
}

TEST(an_unknown_command_is_answered_with_all_and_what_is_near)
{
    static struct sluice_test_output output;
    char *unknown[] = {"offload_x", "paln", NULL};
    sluice_test_capture_begin();
    CU_ASSERT_EQUAL(sluice_program_run(&program, 2, unknown), 2);
    sluice_test_capture_end(&output);
    CU_ASSERT_STRING_EQUAL(output.err,
                           "offload_x: 'paln' is none of the commands plan; did you mean "
                           "plan? (--help says more)\n");
    char *none[] = {"offload_x", NULL};
    sluice_test_capture_begin();
    CU_ASSERT_EQUAL(sluice_program_run(&program, 1, none), 2);
    sluice_test_capture_end(&output);
    CU_ASSERT_STRING_EQUAL(output.err,
                           "offload_x: which command? One of plan (--help says more)\n");
    char *early[] = {"offload_x", "--json", "plan", NULL};
    sluice_test_capture_begin();
    CU_ASSERT_EQUAL(sluice_program_run(&program, 3, early), 2);
    sluice_test_capture_end(&output);
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "options stand after the command"));
    char *odd[] = {"offload_x", "a\nb", NULL};
    sluice_test_capture_begin();
    CU_ASSERT_EQUAL(sluice_program_run(&program, 2, odd), 2);
    sluice_test_capture_end(&output);
    CU_ASSERT_PTR_EQUAL(strchr(output.err, '\n'), output.err + strlen(output.err) - 1);
}

TEST(help_and_version_end_well)
{
    char *help[] = {"offload_x", "--help", NULL};
    char *word[] = {"offload_x", "help", NULL};
    CU_ASSERT_EQUAL(sluice_program_run(&program, 2, word), 0);
    char *version[] = {"offload_x", "--version", NULL};
    CU_ASSERT_EQUAL(sluice_program_run(&program, 2, help), 0);
    CU_ASSERT_EQUAL(sluice_program_run(&program, 2, version), 0);
}
