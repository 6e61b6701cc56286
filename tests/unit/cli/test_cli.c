#include "cli/cli.h"

#include "base/log.h"
#include "base/rng.h"
#include "support/capture.h"
#include "support/test.h"

#include <fcntl.h>
#include <unistd.h>

static struct sluice_test_output output;

/* A program with an option of each type. */
static struct values {
    bool digest, quiet, is_lr_given, is_root_given;
    const char *root, *mode, *even;
    uint64_t workers, big, seed, cache;
    double lr, link, ratio, patience, wait;
    struct sluice_option_strings hosts;
} values;

static const char *const modes[] = {"local", "remote_nooff", "remote_auto", NULL};

static const char *const more_modes[] = {"auto", NULL};

static sluice_status check_even(const char *text, struct sluice_err *err)
{
    return strlen(text) % 2 == 0 ? SLUICE_OK
                                 : sluice_fail(err, SLUICE_E_INVALID, "'%s' is odd", text);
}

static void list_even(char *out, size_t room)
{
    snprintf(out, room,
             "ab: two letters, which are even, and this line is long enough to go on\n"
             "abcd: four");
}

static const struct sluice_option options[] = {
    {.name = "root",
     .type = SLUICE_OPTION_STRING,
     .value = &values.root,
     .arg = "DIR",
     .help = "The folder to serve.",
     .is_required = true,
     .is_given = &values.is_root_given},
    {.name = "workers",
     .short_name = 'j',
     .type = SLUICE_OPTION_UINT,
     .value = &values.workers,
     .arg = "N",
     .help = "Threads.",
     .min = 1,
     .max = 64},
    {.name = "big", .type = SLUICE_OPTION_UINT, .value = &values.big, .help = "Big.", .min = 10},
    {.name = "seed", .type = SLUICE_OPTION_UINT, .value = &values.seed, .help = "Seed."},
    {.name = "cache", .type = SLUICE_OPTION_BYTES, .value = &values.cache, .help = "Cache."},
    {.name = "digest", .type = SLUICE_OPTION_FLAG, .value = &values.digest, .help = "Digest."},
    {.name = "quiet",
     .short_name = 'q',
     .type = SLUICE_OPTION_FLAG,
     .value = &values.quiet,
     .help = "Quiet."},
    {.name = "learning-rate",
     .alias = "lr",
     .type = SLUICE_OPTION_DOUBLE,
     .value = &values.lr,
     .help = "Rate.",
     .is_given = &values.is_lr_given},
    {.name = "ratio",
     .short_name = 'r',
     .type = SLUICE_OPTION_DOUBLE,
     .value = &values.ratio,
     .help = "Ratio.",
     .min = -1,
     .max = 1},
    {.name = "link-limit", .type = SLUICE_OPTION_RATE, .value = &values.link, .help = "Link."},
    {.name = "mode",
     .short_name = 'm',
     .type = SLUICE_OPTION_CHOICE,
     .value = &values.mode,
     .help = "Mode.",
     .choices = modes,
     .aliases = more_modes},
    {.name = "patience", .type = SLUICE_OPTION_SECONDS, .value = &values.patience, .max = 60},
    {.name = "wait", .type = SLUICE_OPTION_MS, .value = &values.wait, .help = "Wait."},
    {.name = "even",
     .type = SLUICE_OPTION_STRING,
     .value = &values.even,
     .help = "Even.",
     .check = check_even,
     .list = list_even},
    {.name = "host", .type = SLUICE_OPTION_STRINGS, .value = &values.hosts, .help = "Hosts."},
};

static const struct sluice_cli cli = {.program = "prog",
                                      .summary = "Does what tests need.",
                                      .positional = "[DIR] [OTHER]",
                                      .options = options,
                                      .num_options = SLUICE_ARRAY_LEN(options),
                                      .epilog = "The end."};

#define MAX_ARGS 90

/* Parses the words after the program's name, starting from the defaults. */
static struct sluice_cli_result parse_words(const struct sluice_cli *which,
                                            const char *const *words, size_t num_words)
{
    static char *argv[MAX_ARGS + 2];
    values = (struct values){.digest = true,
                             .mode = "local",
                             .workers = 4,
                             .big = 10,
                             .cache = 1 << 20,
                             .lr = 0.1,
                             .patience = 60};
    argv[0] = (char *)"prog";
    for (size_t i = 0; i < num_words; i++)
        argv[i + 1] = (char *)words[i];
    argv[num_words + 1] = NULL;
    sluice_test_capture_begin();
    const struct sluice_cli_result result = sluice_cli_parse(which, (int)num_words + 1, argv);
    sluice_test_capture_end(&output);
    sluice_log_set_level(SLUICE_LOG_INFO);
    return result;
}

#define PARSE(...)                                                                                 \
    parse_words(&cli, (const char *const[]){__VA_ARGS__},                                          \
                sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

#define EXPECT_GOES_ON(result)                                                                     \
    do {                                                                                           \
        const struct sluice_cli_result r = (result);                                               \
        CU_ASSERT_FALSE(r.should_exit);                                                            \
        CU_ASSERT_STRING_EQUAL(output.out, "");                                                    \
        CU_ASSERT_STRING_EQUAL(output.err, "");                                                    \
    } while (0)

/* One line on stderr that begins with the program and holds both texts; exit 2. */
static void expect_usage_error(struct sluice_cli_result result, const char *flag, const char *what)
{
    CU_ASSERT_TRUE(result.should_exit);
    CU_ASSERT_EQUAL(result.exit_code, 2);
    CU_ASSERT_STRING_EQUAL(output.out, "");
    CU_ASSERT_EQUAL(strncmp(output.err, "prog: ", 6), 0);
    const char *end = strchr(output.err, '\n');
    CU_ASSERT(end && end[1] == 0);
    if (!strstr(output.err, flag) || !strstr(output.err, what))
        printf("  got: %s", output.err);
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, flag));
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, what));
}

TEST(defaults_stay_without_arguments)
{
    EXPECT_GOES_ON(PARSE("--root", "x"));
    CU_ASSERT_TRUE(values.is_root_given);
    CU_ASSERT_FALSE(values.is_lr_given);
    CU_ASSERT_TRUE(values.digest);
    CU_ASSERT_EQUAL(values.workers, 4);
    CU_ASSERT_STRING_EQUAL(values.mode, "local");
}

TEST(the_four_spellings_of_a_value_are_the_same)
{
    EXPECT_GOES_ON(PARSE("--root=x", "--workers", "7"));
    CU_ASSERT_EQUAL(values.workers, 7);
    EXPECT_GOES_ON(PARSE("--root=x", "--workers=8"));
    CU_ASSERT_EQUAL(values.workers, 8);
    EXPECT_GOES_ON(PARSE("--root=x", "-j", "9"));
    CU_ASSERT_EQUAL(values.workers, 9);
    EXPECT_GOES_ON(PARSE("--root=x", "-j10"));
    CU_ASSERT_EQUAL(values.workers, 10);
}

TEST(each_type_takes_its_values)
{
    EXPECT_GOES_ON(PARSE("--root", "a b=c", "--seed", "18446744073709551615", "--cache", "3G",
                         "--lr", "1e-3", "-r", "-0.5", "--link-limit", "500mbit", "-mremote_auto",
                         "--no-digest", "-q", "--host", "h1", "--host=h2"));
    CU_ASSERT_STRING_EQUAL(values.root, "a b=c");
    CU_ASSERT_EQUAL(values.seed, UINT64_MAX);
    CU_ASSERT_EQUAL(values.cache, 3ull << 30);
    CU_ASSERT_EQUAL(values.lr, 1e-3);
    CU_ASSERT_TRUE(values.is_lr_given);
    CU_ASSERT_EQUAL(values.ratio, -0.5);
    CU_ASSERT_EQUAL(values.link, 62500000);
    CU_ASSERT_STRING_EQUAL(values.mode, "remote_auto");
    CU_ASSERT_FALSE(values.digest);
    CU_ASSERT_TRUE(values.quiet);
    CU_ASSERT_EQUAL_FATAL(values.hosts.num_items, 2);
    CU_ASSERT_STRING_EQUAL(values.hosts.items[0], "h1");
    CU_ASSERT_STRING_EQUAL(values.hosts.items[1], "h2");
}

TEST(the_last_of_two_counts_and_a_line_says_so)
{
    const struct sluice_cli_result result =
        PARSE("--root=a", "--root=b", "--no-digest", "--digest", "-q", "--no-quiet");
    CU_ASSERT_FALSE(result.should_exit);
    CU_ASSERT_STRING_EQUAL(values.root, "b");
    CU_ASSERT_TRUE(values.digest);
    CU_ASSERT_FALSE(values.quiet);
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "--root is given more than once: b counts, not a\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "--digest is given more than once: true counts"));
    /* Nothing is lost where both are the same, or all are taken. */
    EXPECT_GOES_ON(PARSE("--root=a", "--root=a", "-q", "--quiet", "--host=a", "--host=b"));
}

TEST(times_take_units)
{
    EXPECT_GOES_ON(PARSE("--root=a", "--patience=1m", "--wait=250us"));
    CU_ASSERT_EQUAL(values.patience, 60);
    CU_ASSERT_EQUAL(values.wait, 0.25);
    EXPECT_GOES_ON(PARSE("--root=a", "--patience", "2", "--wait", "3"));
    CU_ASSERT_EQUAL(values.patience, 2);
    CU_ASSERT_EQUAL(values.wait, 3);
    expect_usage_error(PARSE("--patience=2m"), "--patience", "0s to 1m");
    expect_usage_error(PARSE("--wait=soon"), "--wait", "500ms");
}

TEST(a_choice_may_have_other_names)
{
    EXPECT_GOES_ON(PARSE("--root=a", "--mode=auto"));
    CU_ASSERT_STRING_EQUAL(values.mode, "auto"); /* as typed */
}

TEST(a_checked_text_says_what_is_wrong)
{
    EXPECT_GOES_ON(PARSE("--root=a", "--even=ab"));
    expect_usage_error(PARSE("--root=a", "--even=abc"), "--even", "'abc' is odd");
    CU_ASSERT_PTR_NULL(values.even);
}

TEST(flags_take_what_print_config_writes)
{
    EXPECT_GOES_ON(PARSE("--root=a", "--digest=false", "--quiet=true"));
    CU_ASSERT_FALSE(values.digest);
    CU_ASSERT_TRUE(values.quiet);
}

TEST(unknown_words_come_with_those_that_are_near)
{
    expect_usage_error(PARSE("--worker=3"), "--worker", "did you mean --workers?");
    expect_usage_error(PARSE("--Link_Limit=3"), "--Link_Limit", "did you mean --link-limit?");
    expect_usage_error(PARSE("--limit=3"), "--limit", "did you mean --link-limit?");
    expect_usage_error(PARSE("--no-digset"), "--no-digset", "did you mean --no-digest?");
    expect_usage_error(PARSE("--hlep"), "--hlep", "did you mean --help?");
    expect_usage_error(PARSE("--mode=remote_auot"), "local, remote_nooff, remote_auto",
                       "did you mean remote_auto?");
    expect_usage_error(PARSE("--mode=LOCAL"), "'LOCAL'", "did you mean local?");
    /* Where none is near: all. */
    expect_usage_error(PARSE("--colour"), "--colour; there are --root --workers", "--even");
    CU_ASSERT_PTR_NULL(strstr(output.err, "did you mean"));
}

TEST(likely_mistakes_are_named)
{
    expect_usage_error(PARSE("-workers=3"), "-workers=3", "two dashes: --workers=3");
    expect_usage_error(PARSE("-wrokers"), "-wrokers", "did you mean --workers?");
    expect_usage_error(PARSE("--root=r", "--quiet", "true"), "--quiet takes no value",
                       "--no-quiet is all");
    expect_usage_error(PARSE("--root=r", "a", "b", "workers=3"), "'workers=3'",
                       "did you mean --workers=3?");
    expect_usage_error(PARSE("--root=r", "a", "b", "auto"), "'auto'", "did you mean --mode auto?");
    expect_usage_error(PARSE("--no-root"), "--no-root", "--root is no flag");
    expect_usage_error(PARSE("--root"), "needs a value", "--root DIR");
    struct sluice_cli other = cli;
    other.positional = NULL;
    static const char *const words[] = {"/data"};
    expect_usage_error(parse_words(&other, words, 1), "'/data'", "did you mean --root /data?");
}

TEST(both_names_of_an_option_work)
{
    EXPECT_GOES_ON(PARSE("--root=a", "--learning-rate=2"));
    CU_ASSERT_EQUAL(values.lr, 2);
    EXPECT_GOES_ON(PARSE("--root=a", "--lr=3"));
    CU_ASSERT_EQUAL(values.lr, 3);
}

TEST(short_flags_may_be_joined)
{
    EXPECT_GOES_ON(PARSE("--root=a", "-qj3"));
    CU_ASSERT_TRUE(values.quiet);
    CU_ASSERT_EQUAL(values.workers, 3);
}

TEST(positional_arguments_and_the_end_of_options)
{
    struct sluice_cli_result result = PARSE("a", "--root=r", "-");
    CU_ASSERT_FALSE(result.should_exit);
    CU_ASSERT_EQUAL_FATAL(result.num_positional, 2);
    CU_ASSERT_STRING_EQUAL(result.positional[0], "a");
    CU_ASSERT_STRING_EQUAL(result.positional[1], "-");
    result = PARSE("--root=r", "--", "--json", "-q");
    CU_ASSERT_FALSE(result.should_exit);
    CU_ASSERT_FALSE(result.is_json);
    CU_ASSERT_EQUAL_FATAL(result.num_positional, 2);
    CU_ASSERT_STRING_EQUAL(result.positional[0], "--json");
    CU_ASSERT_STRING_EQUAL(result.positional[1], "-q");
    CU_ASSERT_FALSE(values.quiet);
    expect_usage_error(PARSE("--root=r", "a", "b", "third"), "third", "unexpected");

    struct sluice_cli other = cli;
    other.positional = "DIR [OTHER]";
    static const char *const words[] = {"--root=r", "x", "y", "z"};
    expect_usage_error(parse_words(&other, words, 1), "DIR", "missing");
    EXPECT_GOES_ON(parse_words(&other, words, 2));
    EXPECT_GOES_ON(parse_words(&other, words, 3));
    expect_usage_error(parse_words(&other, words, 4), "'z'", "unexpected");
    other.positional = "LIST DIR";
    expect_usage_error(parse_words(&other, words, 2), "LIST DIR", "missing");
    EXPECT_GOES_ON(parse_words(&other, words, 3));
    expect_usage_error(parse_words(&other, words, 4), "'z'", "unexpected");
    other.positional = NULL;
    expect_usage_error(parse_words(&other, words, 2), "'x'", "unexpected");
    other.positional = "DIR...";
    expect_usage_error(parse_words(&other, words, 1), "DIR", "missing");
    const char *many[18] = {"--root=r"};
    for (int i = 1; i < 18; i++)
        many[i] = "p";
    EXPECT_GOES_ON(parse_words(&other, many, 17));
    expect_usage_error(parse_words(&other, many, 18), "'p'", "unexpected");
}

TEST(a_failure_is_a_line_and_exit_1)
{
    struct sluice_err err = {0};
    sluice_test_capture_begin();
    CU_ASSERT_EQUAL(sluice_cli_exit_code(SLUICE_OK, &err), 0);
    sluice_test_capture_end(&output);
    CU_ASSERT_STRING_EQUAL(output.err, "");
    const sluice_status status = sluice_fail(&err, SLUICE_E_IO, "the disk is gone");
    sluice_test_capture_begin();
    CU_ASSERT_EQUAL(sluice_cli_exit_code(status, &err), 1);
    sluice_test_capture_end(&output);
    const char *text = strstr(output.err, "error: the disk is gone\n");
    CU_ASSERT(text && strchr(output.err, '\n') == output.err + strlen(output.err) - 1);
    CU_ASSERT_STRING_EQUAL(output.out, "");
}

TEST(json_and_log_level_belong_to_every_program)
{
    struct sluice_cli_result result = PARSE("--root=r");
    CU_ASSERT_FALSE(result.is_json);
    result = PARSE("--root=r", "--json");
    CU_ASSERT_TRUE(result.is_json);

    static char *argv[] = {(char *)"prog", (char *)"--root=r", (char *)"--log-level=error", NULL};
    CU_ASSERT_FALSE(sluice_cli_parse(&cli, 3, argv).should_exit);
    CU_ASSERT_FALSE(sluice_log_is_enabled(SLUICE_LOG_WARN));
    sluice_log_set_level(SLUICE_LOG_INFO);
    expect_usage_error(PARSE("--root=r", "--log-level=loud"), "--log-level", "'loud'");
}

TEST(errors_name_the_flag_and_what_is_wrong)
{
    expect_usage_error(PARSE("--root"), "--root", "needs a value");
    expect_usage_error(PARSE("--root", "--json"), "--root", "needs a value");
    expect_usage_error(PARSE("-j"), "-j", "needs a value");
    expect_usage_error(PARSE("-q"), "--root", "required");
    expect_usage_error(PARSE("--nothing"), "--nothing", "unknown");
    expect_usage_error(PARSE("--nothing=3"), "--nothing", "unknown");
    expect_usage_error(PARSE("--no-root"), "--no-root", "unknown");
    expect_usage_error(PARSE("--no-help"), "--no-help", "unknown");
    expect_usage_error(PARSE("--worker=3"), "--worker", "unknown"); /* no abbreviations */
    expect_usage_error(PARSE("-x"), "-x", "unknown");
    expect_usage_error(PARSE("-qx"), "-x", "unknown");
    expect_usage_error(PARSE("--digest=1"), "--digest", "takes no value such as '1'");
    expect_usage_error(PARSE("--no-digest=1"), "--no-digest", "takes no value");
    expect_usage_error(PARSE("--workers=0"), "--workers", "'0'");
    expect_usage_error(PARSE("-j65"), "-j", "1 to 64");
    expect_usage_error(PARSE("--workers=-1"), "--workers", "'-1'");
    expect_usage_error(PARSE("--workers="), "--workers", "''");
    expect_usage_error(PARSE("--big=9"), "--big", "below 10");
    expect_usage_error(PARSE("--seed=18446744073709551616"), "--seed", "2^64");
    expect_usage_error(PARSE("--cache=12q"), "--cache", "'12q'");
    expect_usage_error(PARSE("--lr=abc"), "--lr", "'abc'");
    expect_usage_error(PARSE("--ratio=1.001"), "--ratio", "-1 to 1");
    expect_usage_error(PARSE("--link-limit=fast"), "--link-limit", "'fast'");
    expect_usage_error(PARSE("--mode=remote"), "--mode", "local, remote_nooff, remote_auto");
    expect_usage_error(PARSE("--root=x", "--mode=a\nb"), "--mode", "a\\nb"); /* stays one line */
    EXPECT_GOES_ON(PARSE("--root=r", "--big=18446744073709551615"));         /* no upper end */
    EXPECT_GOES_ON(PARSE("--root=--json"));
    CU_ASSERT_STRING_EQUAL(values.root, "--json");
}

TEST(a_wrong_value_changes_nothing)
{
    expect_usage_error(PARSE("-j65"), "-j", "65");
    CU_ASSERT_EQUAL(values.workers, 4);
    expect_usage_error(PARSE("--cache=x"), "--cache", "x");
    CU_ASSERT_EQUAL(values.cache, 1 << 20);
    expect_usage_error(PARSE("--lr=x"), "--lr", "x");
    CU_ASSERT_EQUAL(values.lr, 0.1);
    CU_ASSERT_FALSE(values.is_lr_given);
}

TEST(too_many_of_a_list_is_an_error)
{
    const char *words[66];
    for (int i = 0; i < 65; i++)
        words[i] = "--host=h";
    words[65] = "--root=r";
    expect_usage_error(parse_words(&cli, words, 66), "--host", "64");
    EXPECT_GOES_ON(parse_words(&cli, words + 1, 65));
    CU_ASSERT_EQUAL(values.hosts.num_items, 64);
}

TEST(a_late_usage_error_has_the_same_form)
{
    sluice_test_capture_begin();
    const int code = sluice_cli_usage_error(&cli, "--%s and --%s exclude each other", "a", "b");
    sluice_test_capture_end(&output);
    const struct sluice_cli_result result = {.should_exit = true, .exit_code = code};
    expect_usage_error(result, "--a", "--b exclude");
}

/* Wrapped or not: every run of white space is one blank. */
static const char *in_one_line(const char *text)
{
    static char line[sizeof(output.out)];
    size_t len = 0;
    for (; *text; text++) {
        const bool is_blank = *text == ' ' || *text == '\n';
        if (!is_blank || len == 0 || line[len - 1] != ' ')
            line[len++] = is_blank ? ' ' : *text;
    }
    line[len] = 0;
    return line;
}

TEST(help_shows_every_option_and_its_default)
{
    static const char *const spellings[] = {"--help", "-h"};
    for (int i = 0; i < 2; i++) {
        const struct sluice_cli_result result = parse_words(&cli, &spellings[i], 1);
        CU_ASSERT_TRUE(result.should_exit);
        CU_ASSERT_EQUAL(result.exit_code, 0);
        CU_ASSERT_STRING_EQUAL(output.err, "");
        static const char *const parts[] = {"usage: prog [options] [DIR] [OTHER] ",
                                            "Does what tests need.",
                                            "--root DIR",
                                            "The folder to serve. Required.",
                                            "-j, --workers N",
                                            "Threads. Default: 4.",
                                            "--no-digest",
                                            "-q, --quiet",
                                            "--learning-rate, --lr VALUE",
                                            "Default: 0.1.",
                                            "Cache. Default: 1MiB.",
                                            "Link. Default: none.",
                                            "One of local, remote_nooff, remote_auto.",
                                            "remote_auto. Default: local.",
                                            "Default: 1m.",
                                            "ab: two letters, which",
                                            "abcd: four",
                                            "Sizes: 65536, 64KiB",
                                            "Rates: 500mbit",
                                            "Times: 500ms",
                                            "--json",
                                            "--log-level LEVEL",
                                            "--print-config",
                                            "--version",
                                            "-h, --help",
                                            " The end. "};
        for (size_t k = 0; k < SLUICE_ARRAY_LEN(parts); k++) {
            CU_ASSERT_PTR_NOT_NULL(strstr(in_one_line(output.out), parts[k]));
        }
        for (const char *line = output.out; *line; line += strcspn(line, "\n") + 1)
            CU_ASSERT(strcspn(line, "\n") <= 80);
    }
    /* Nothing else needs to be right. */
    const struct sluice_cli_result result = PARSE("--help", "--nothing");
    CU_ASSERT_EQUAL(result.exit_code, 0);
}

TEST(help_puts_options_under_their_groups)
{
    static const char *const groups[] = {"first", "second", NULL};
    bool flag = false;
    uint64_t number = 3;
    const char *text = "decode,random_resized_crop=224,hflip=0.5,to_tensor,normalize=imagenet";
    const struct sluice_option grouped[] = {
        {.name = "b",
         .group = 1,
         .type = SLUICE_OPTION_UINT,
         .value = &number,
         .default_text = "as many as there are"},
        {.name = "a", .group = 0, .type = SLUICE_OPTION_FLAG, .value = &flag, .help = "A."},
        {.name = "c", .group = 1, .type = SLUICE_OPTION_STRING, .value = &text, .help = "C."},
    };
    const struct sluice_cli other = {.program = "prog",
                                     .options = grouped,
                                     .num_options = SLUICE_ARRAY_LEN(grouped),
                                     .groups = groups};
    static const char *const words[] = {"--help"};
    parse_words(&other, words, 1);
    static const char *const lines[] = {
        "usage: prog [options]\n\nfirst:\n      --a ", "\n\nsecond:\n      --b VALUE ",
        " Default: as many as there are.\n      --c VALUE",
        /* Longer than a line: broken after a comma. */
        "C. Default:\n                            decode,random_",
        "hflip=0.5,to_tensor,\n                            normalize=",
        "\n\ngeneral:\n      --json "};
    const char *at = output.out;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(lines); i++) {
        at = strstr(at, lines[i]);
        CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    }
}

TEST(the_table_may_use_h_for_itself)
{
    bool human = false;
    const struct sluice_option option = {
        .name = "human", .short_name = 'h', .type = SLUICE_OPTION_FLAG, .value = &human};
    const struct sluice_cli other = {.program = "prog", .options = &option, .num_options = 1};
    static const char *const words[] = {"-h"};
    EXPECT_GOES_ON(parse_words(&other, words, 1));
    CU_ASSERT_TRUE(human);
}

TEST(version_names_program_and_version)
{
    const struct sluice_cli_result result = PARSE("--version");
    CU_ASSERT_TRUE(result.should_exit);
    CU_ASSERT_EQUAL(result.exit_code, 0);
    CU_ASSERT_STRING_EQUAL(output.out, "prog " SLUICE_VERSION "\n");
}

TEST(print_config_prints_final_values)
{
    const struct sluice_cli_result result =
        PARSE("--print-config", "--workers=9", "--host=a", "--host=b", "--link-limit=62.5MB");
    CU_ASSERT_TRUE(result.should_exit);
    CU_ASSERT_EQUAL(result.exit_code, 0); /* although --root is not there */
    CU_ASSERT_STRING_EQUAL(output.out, "root =\nworkers = 9\nbig = 10\nseed = 0\ncache = 1MiB\n"
                                       "digest = true\nquiet = false\nlearning-rate = 0.1\n"
                                       "ratio = 0\nlink-limit = 500Mbit/s\nmode = local\n"
                                       "patience = 1m\nwait = 0\neven =\nhost = a\n"
                                       "host = b\njson = false\nlog-level = info\n"
                                       "log-format = text\n");
}

TEST(what_was_not_given_and_has_no_value_is_left_empty)
{
    bool is_given = false;
    uint64_t limit = 0, number = 0;
    const struct sluice_option unset[] = {
        {.name = "limit",
         .type = SLUICE_OPTION_UINT,
         .value = &limit,
         .min = 1,
         .max = 9,
         .default_text = "as many as there are"},
        {.name = "nice",
         .type = SLUICE_OPTION_UINT,
         .value = &number,
         .is_given = &is_given,
         .default_text = "the process's"},
    };
    const struct sluice_cli other = {
        .program = "prog", .options = unset, .num_options = SLUICE_ARRAY_LEN(unset)};
    static const char *const words[] = {"--print-config", "--nice=0"};
    parse_words(&other, words, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(output.out, "limit =\nnice =\njson"));
    parse_words(&other, words, 2);
    CU_ASSERT_PTR_NOT_NULL(strstr(output.out, "limit =\nnice = 0\njson"));
}

TEST(print_config_checks_like_a_real_run)
{
    expect_usage_error(PARSE("--print-config", "--workers=0"), "--workers", "'0'");
}

static bool same_values(const struct values *a, const struct values *b)
{
    bool is_same = a->digest == b->digest && a->quiet == b->quiet &&
                   strcmp(a->root, b->root) == 0 && strcmp(a->mode, b->mode) == 0 &&
                   a->workers == b->workers && a->big == b->big && a->seed == b->seed &&
                   a->cache == b->cache && a->lr == b->lr && a->link == b->link &&
                   a->ratio == b->ratio && a->patience == b->patience && a->wait == b->wait &&
                   a->hosts.num_items == b->hosts.num_items;
    for (size_t i = 0; is_same && i < a->hosts.num_items; i++)
        is_same = strcmp(a->hosts.items[i], b->hosts.items[i]) == 0;
    return is_same;
}

/* Random options in, --print-config out, and its lines in again as --name=value. */
TEST(print_config_round_trips_exactly)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (int round = 0; round < 300; round++) {
        char texts[16][64];
        const char *words[MAX_ARGS];
        size_t num_words = 0;
        static const char *const roots[] = {"--root=/data", "--root=a b", "--root==x",
                                            "--root=--odd"};
        static const char *const units[] = {"", "bit", "kbit", "gbit", "B", "kB", "MB", "GB"};
        static const char *const times[] = {"", "us", "ms", "m"};
        words[num_words++] = roots[sluice_rng_below(&rng, 4)];
        snprintf(texts[0], 64, "--seed=%llu",
                 (unsigned long long)sluice_rng_u32(&rng) << sluice_rng_below(&rng, 33));
        snprintf(texts[1], 64, "--cache=%u%.1s", sluice_rng_below(&rng, 5000),
                 &"kMGT"[sluice_rng_below(&rng, 5)]);
        snprintf(texts[2], 64, "--lr=%.17g",
                 ldexp(sluice_rng_double(&rng), (int)sluice_rng_below(&rng, 200) - 100));
        snprintf(texts[3], 64, "--ratio=%.*f", (int)sluice_rng_below(&rng, 20),
                 2 * sluice_rng_double(&rng) - 1);
        snprintf(texts[4], 64, "--link-limit=%u.%u%s", 10 + sluice_rng_below(&rng, 1000000),
                 sluice_rng_u32(&rng), units[sluice_rng_below(&rng, 8)]);
        snprintf(texts[5], 64, "-m%s", modes[sluice_rng_below(&rng, 3)]);
        snprintf(texts[6], 64, "-j%u", 1 + sluice_rng_below(&rng, 64));
        snprintf(texts[7], 64, "--patience=%.*fs", (int)sluice_rng_below(&rng, 18),
                 60 * sluice_rng_double(&rng));
        snprintf(texts[8], 64, "--wait=%u%s", sluice_rng_below(&rng, 100000),
                 times[sluice_rng_below(&rng, 4)]);
        for (int i = 0; i < 9; i++)
            words[num_words++] = texts[i];
        if (sluice_rng_below(&rng, 2))
            words[num_words++] = "--no-digest";
        if (sluice_rng_below(&rng, 2))
            words[num_words++] = "-q";
        for (uint32_t i = sluice_rng_below(&rng, 3); i > 0; i--)
            words[num_words++] = "--host=h:1";
        EXPECT_GOES_ON(parse_words(&cli, words, num_words));
        const struct values before = values;
        words[num_words++] = "--print-config";
        CU_ASSERT_EQUAL(parse_words(&cli, words, num_words).exit_code, 0);

        /* The lines stay in `config` while `output` is written again. */
        static char config[sizeof(output.out)];
        static char args[32][512];
        const char *again[32];
        size_t num_again = 0;
        snprintf(config, sizeof(config), "%s", output.out);
        for (char *save, *line = strtok_r(config, "\n", &save); line;
             line = strtok_r(NULL, "\n", &save)) {
            char *equals = strstr(line, " =");
            CU_ASSERT_PTR_NOT_NULL_FATAL(equals);
            *equals = 0;
            const char *value = equals[2] ? equals + 3 : "";
            if (value[0])
                snprintf(args[num_again], 512, "--%s=%s", line, value);
            else
                continue;
            again[num_again] = args[num_again];
            num_again++;
        }
        EXPECT_GOES_ON(parse_words(&cli, again, num_again));
        CU_ASSERT_TRUE(same_values(&before, &values));
    }
}

/* ---- --config and --check-config ---- */

static char config_flag[4200];

/* A file of this text; returns "--config=PATH", which the next call writes again. */
static const char *config_of(const char *text)
{
    const char *path = sluice_test_path("prog.conf");
    sluice_test_write_file(path, text, strlen(text));
    snprintf(config_flag, sizeof(config_flag), "--config=%s", path);
    return config_flag;
}

TEST(a_config_file_sets_options_of_every_type)
{
    const char *config = config_of("# comment\n[prog]\nroot = /a b\nworkers=9\nlr = 0.5\n"
                                   "digest = false\nquiet = true\ncache = 2MiB\n"
                                   "link-limit = 8Mbit/s\nmode = auto\npatience = 2s\n"
                                   "host = a\nhost = b\nseed =\nlog-level = error\njson = true\n");
    const struct sluice_cli_result result = PARSE(config, "--", "dir");
    EXPECT_GOES_ON(result);
    CU_ASSERT_STRING_EQUAL(values.root, "/a b");
    CU_ASSERT_TRUE(values.is_root_given && values.is_lr_given && values.quiet && !values.digest);
    CU_ASSERT_EQUAL(values.workers, 9);
    CU_ASSERT_EQUAL(values.lr, 0.5);
    CU_ASSERT_EQUAL(values.cache, 2 << 20);
    CU_ASSERT_EQUAL(values.link, 1e6);
    CU_ASSERT_STRING_EQUAL(values.mode, "auto");
    CU_ASSERT_EQUAL(values.patience, 2);
    CU_ASSERT_EQUAL_FATAL(values.hosts.num_items, 2);
    CU_ASSERT_STRING_EQUAL(values.hosts.items[1], "b");
    CU_ASSERT_TRUE(result.is_json);
    CU_ASSERT_STRING_EQUAL(result.given[0], "/a b");
    CU_ASSERT_PTR_NULL(result.given[3]); /* "seed =" */
}

TEST(the_command_line_counts_more_than_the_file)
{
    const char *config = config_of("root = /a\nworkers = 9\ndigest = true\nhost = a\nhost = b\n");
    EXPECT_GOES_ON(PARSE("--workers=3", config, "--no-digest", "--host=c"));
    CU_ASSERT_STRING_EQUAL(values.root, "/a");
    CU_ASSERT_EQUAL(values.workers, 3);
    CU_ASSERT_FALSE(values.digest);
    CU_ASSERT_EQUAL_FATAL(values.hosts.num_items, 1);
    CU_ASSERT_STRING_EQUAL(values.hosts.items[0], "c");
}

TEST(errors_of_a_file_name_line_and_key)
{
    expect_usage_error(PARSE(config_of("root = x\nworkrs = 3\n")),
                       "prog.conf:2: ", "unknown key 'workrs'; did you mean workers?");
    expect_usage_error(PARSE(config_of("log_level = info\n")),
                       "prog.conf:1: ", "unknown key 'log_level'; did you mean log-level?");
    expect_usage_error(PARSE(config_of("\nworkers = 0\n")), "prog.conf:2: workers: ", "'0'");
    expect_usage_error(PARSE(config_of("mode = remot_auto\n")),
                       "prog.conf:1: mode: ", "did you mean remote_auto");
    expect_usage_error(PARSE(config_of("no-digest = true\n")),
                       "prog.conf:1: ", "write 'digest = false'");
    expect_usage_error(PARSE(config_of("digest = yes\n")), "prog.conf:1: digest: ", "true, false");
    expect_usage_error(PARSE(config_of("lr = 1\n\nlearning-rate = 2\n")),
                       "prog.conf:3: learning-rate: ", "line 1 has it, too");
    expect_usage_error(PARSE(config_of("root\n")), "prog.conf:1: ", "no line 'key = value'");
    expect_usage_error(PARSE(config_of("config = x\n")), "prog.conf:1: ", "command line");
    expect_usage_error(PARSE(config_of("workers = 2\n")), "--root", "is required");
    expect_usage_error(PARSE("--config=/nowhere/x.conf"), "/nowhere/x.conf", "No such file");
}

static int num_checks;

static sluice_status check_seed(const struct sluice_cli_result *parsed, struct sluice_err *err)
{
    num_checks++;
    CU_ASSERT_PTR_NOT_NULL(parsed->given[0]);
    return values.seed == 7 ? sluice_fail(err, SLUICE_E_INVALID, "--seed: not 7") : SLUICE_OK;
}

TEST(check_config_checks_all_and_ends)
{
    struct sluice_cli checked = cli;
    checked.check = check_seed;
    num_checks = 0;
    const char *good[] = {config_of("root = x\n"), "--check-config"};
    const struct sluice_cli_result result = parse_words(&checked, good, 2);
    CU_ASSERT_TRUE(result.should_exit);
    CU_ASSERT_EQUAL(result.exit_code, 0);
    CU_ASSERT_STRING_EQUAL(output.out, "");
    CU_ASSERT_STRING_EQUAL(output.err, "");
    CU_ASSERT_EQUAL(num_checks, 1);
    const char *bad[] = {"--check-config", config_of("root = x\nseed = 7\n")};
    expect_usage_error(parse_words(&checked, bad, 2), "--seed", "not 7");
    expect_usage_error(parse_words(&checked, bad + 1, 1), "--seed", "not 7");
    expect_usage_error(PARSE("--check-config"), "--root", "is required");
    const char *only_shown[] = {"--print-config", config_of("seed = 7\n")};
    CU_ASSERT_EQUAL(parse_words(&checked, only_shown, 2).exit_code, 0);
}

TEST(config_reads_what_print_config_writes)
{
    PARSE("--print-config", "--root= a \"", "--even=\"\"", "--host=x;y", "--host=# z", "-q",
          "--lr=0.25", "--no-digest");
    static char first[sizeof(output.out)];
    snprintf(first, sizeof(first), "%s", output.out);
    CU_ASSERT_PTR_NOT_NULL(strstr(first, "root = \" a \"\"\n"));
    PARSE(config_of(first), "--print-config");
    CU_ASSERT_STRING_EQUAL(output.out, first);
    CU_ASSERT_STRING_EQUAL(values.root, " a \"");
    CU_ASSERT_STRING_EQUAL(values.even, "\"\"");
}

static int print_to_a_full_disk(void *ctx)
{
    (void)ctx;
    static char *argv[] = {(char *)"prog", (char *)"--help", NULL};
    const int full = open("/dev/full", O_WRONLY);
    if (full < 0 || dup2(full, STDOUT_FILENO) < 0)
        return 99;
    return sluice_cli_parse(&cli, 2, argv).exit_code;
}

TEST(help_that_cannot_be_written_is_a_failure)
{
    const int status = sluice_test_child(print_to_a_full_disk, NULL, &output);
    CU_ASSERT_EQUAL(status, 1 << 8); /* exit code 1 */
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "cannot write"));
}
