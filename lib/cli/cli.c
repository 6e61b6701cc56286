#include "cli/cli_internal.h"

#include "base/c_locale.h"
#include "base/log.h"
#include "base/redact.h"
#include "base/suggest.h"
#include "base/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- errors ---- */

static void usage_error(const struct sluice_cli *cli, const char *fmt, va_list args)
{
    char text[3000], shown[3000];
    sluice_vsnprintf(text, sizeof(text), fmt, args);
    sluice_redact(text);
    /* One line, whatever the argument held. */
    (void)sluice_escape_line(shown, sizeof(shown), text);
    fprintf(stderr, "%s: %s (--help says more)\n", cli->program, shown);
}

int sluice_cli_usage_error(const struct sluice_cli *cli, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    usage_error(cli, fmt, args);
    va_end(args);
    return 2;
}

int sluice_cli_exit_code(sluice_status status, const struct sluice_err *err)
{
    if (status == SLUICE_OK)
        return 0;
    sluice_log(SLUICE_LOG_ERROR, "%s", err->text);
    return 1;
}

/* ---- parsing ---- */

struct parser {
    struct cli_table table;
    int argc, next; /* next: the argument to look at */
    char **argv;
    /* By index in the table: what was given last, and what before where that was another value. */
    const char *given[SLUICE_CLI_MAX_OPTIONS], *given_before[SLUICE_CLI_MAX_OPTIONS];
    bool is_far_off;                  /* an option is unknown, and near to no other */
    const struct sluice_option *flag; /* the argument before was this flag, without a value */
};

static void note_given(struct parser *parser, const struct sluice_option *option, const char *value)
{
    if (option->is_given)
        *option->is_given = true;
    const size_t i = cli_table_index(&parser->table, option);
    const char *before = parser->given[i];
    if (before && option->type != SLUICE_OPTION_STRINGS && strcmp(before, value) != 0)
        parser->given_before[i] = before;
    parser->given[i] = value;
}

static void log_repeated(const struct parser *parser)
{
    for (size_t i = 0; i < cli_table_len(&parser->table); i++) {
        if (parser->given_before[i])
            sluice_log(SLUICE_LOG_INFO, "--%s is given more than once: %s counts, not %s",
                       cli_table_at(&parser->table, i)->name, parser->given[i],
                       parser->given_before[i]);
    }
}

static sluice_status apply(struct parser *parser, const struct sluice_option *option,
                           const char *shown, const char *value, struct sluice_err *err)
{
    /* Without its own value: the next argument.  One that begins with two dashes is far more likely
     * a forgotten value. */
    const char *next = !value && parser->next < parser->argc ? parser->argv[parser->next] : NULL;
    if (next && strncmp(next, "--", 2) == 0)
        return sluice_fail(err, SLUICE_E_INVALID, "%s needs a value: %s %s, and not '%s'", shown,
                           shown, option->arg ? option->arg : "VALUE", next);
    if (!value && !next)
        return sluice_fail(err, SLUICE_E_INVALID, "%s needs a value: %s %s", shown, shown,
                           option->arg ? option->arg : "VALUE");
    if (next)
        parser->next++;
    value = next ? next : value;
    struct sluice_err why = {0};
    const sluice_status status = cli_set_value(option, value, &why);
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "%s: %s", shown, why.text);
    note_given(parser, option, value);
    return SLUICE_OK;
}

static void set_flag(struct parser *parser, const struct sluice_option *option, bool is_on)
{
    *(bool *)option->value = is_on;
    note_given(parser, option, is_on ? "true" : "false");
}

static bool can_be_cleared(const struct parser *parser, const struct sluice_option *option)
{
    return option->type == SLUICE_OPTION_FLAG && !cli_is_request(&parser->table, option);
}

/* With those that are near; where none is, sluice_cli_parse() names all. */
static sluice_status fail_unknown(struct parser *parser, const char *name, size_t len,
                                  struct sluice_err *err)
{
    const struct cli_table *table = &parser->table;
    const bool is_no = len > 3 && memcmp(name, "no-", 3) == 0;
    const struct sluice_option *plain = is_no ? cli_find_long(table, name + 3, len - 3) : NULL;
    if (plain)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "unknown option --%.*s: --%s is no flag that can be switched off",
                           (int)len, name, plain->name);
    struct sluice_suggestion suggestion =
        sluice_suggest_begin(name + (is_no ? 3 : 0), len - (is_no ? 3 : 0));
    for (size_t i = 0; i < cli_table_len(table); i++) {
        const struct sluice_option *option = cli_table_at(table, i);
        if (is_no && !can_be_cleared(parser, option))
            continue;
        sluice_suggest_try(&suggestion, option->name);
        if (option->alias)
            sluice_suggest_try(&suggestion, option->alias);
    }
    char near[200];
    sluice_suggest_print(&suggestion, is_no ? "--no-" : "--", near, sizeof(near));
    if (near[0])
        return sluice_fail(err, SLUICE_E_INVALID, "unknown option --%.*s%s", (int)len, name, near);
    parser->is_far_off = true;
    return sluice_fail(err, SLUICE_E_INVALID, "unknown option --%.*s", (int)len, name);
}

static sluice_status parse_long(struct parser *parser, const char *arg, struct sluice_err *err)
{
    const char *name = arg + 2;
    const char *equals = strchr(name, '=');
    const size_t len = equals ? (size_t)(equals - name) : strlen(name);
    const struct sluice_option *option = cli_find_long(&parser->table, name, len);
    bool is_on = true;
    if (!option && len > 3 && memcmp(name, "no-", 3) == 0) {
        option = cli_find_long(&parser->table, name + 3, len - 3);
        if (option && !can_be_cleared(parser, option))
            option = NULL;
        is_on = false;
    }
    if (!option)
        return fail_unknown(parser, name, len, err);

    char shown[128];
    snprintf(shown, sizeof(shown), "--%.*s", (int)len, name);
    if (option->type != SLUICE_OPTION_FLAG)
        return apply(parser, option, shown, equals ? equals + 1 : NULL, err);
    if (equals && is_on && can_be_cleared(parser, option)) {
        /* As --print-config writes it. */
        if (strcmp(equals + 1, "true") == 0 || strcmp(equals + 1, "false") == 0) {
            set_flag(parser, option, equals[1] == 't');
            return SLUICE_OK;
        }
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s takes no value such as '%s': --%s or --no-%s is all", shown,
                           equals + 1, option->name, option->name);
    }
    if (equals)
        return sluice_fail(err, SLUICE_E_INVALID, "%s takes no value", shown);
    parser->flag = option;
    set_flag(parser, option, is_on);
    return SLUICE_OK;
}

static sluice_status parse_short(struct parser *parser, const char *arg, struct sluice_err *err)
{
    const size_t len = strcspn(arg + 1, "=");
    if (len > 1 && cli_find_long(&parser->table, arg + 1, len))
        return sluice_fail(err, SLUICE_E_INVALID, "%s needs two dashes: -%s", arg, arg);
    for (const char *p = arg + 1; *p; p++) {
        const struct sluice_option *option = cli_find_short(&parser->table, *p);
        const char shown[] = {'-', *p, 0};
        if (!option && len > 2)
            return fail_unknown(parser, arg + 1, len, err);
        if (!option)
            return sluice_fail(err, SLUICE_E_INVALID, "unknown option %s", shown);
        if (option->type != SLUICE_OPTION_FLAG)
            return apply(parser, option, shown, p[1] ? p + 1 : NULL, err);
        set_flag(parser, option, true);
    }
    return SLUICE_OK;
}

/* The number of positional arguments that are allowed. */
struct taken {
    size_t least, most;
};

static struct taken count_taken(const char *words)
{
    struct taken taken = {0};
    while (words && *words) {
        const size_t len = strcspn(words, " ");
        taken.least += words[0] != '[';
        taken.most++;
        if (len > 3 && memcmp(words + len - 3, "...", 3) == 0)
            taken.most = SLUICE_ARRAY_LEN(((struct sluice_cli_result *)0)->positional);
        words += len + strspn(words + len, " ");
    }
    return taken;
}

static bool is_yes_or_no(const char *word)
{
    static const char *const words[] = {"true", "false", "yes", "no", "on", "off"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(words); i++) {
        if (strcmp(word, words[i]) == 0)
            return true;
    }
    return false;
}

/* The one required option that is missing; NULL: none is missing, or several are. */
static const struct sluice_option *find_missing(const struct parser *parser)
{
    const struct sluice_option *missing = NULL;
    for (size_t i = 0; i < parser->table.cli->num_options; i++) {
        const struct sluice_option *option = &parser->table.cli->options[i];
        if (!option->is_required || parser->given[i])
            continue;
        if (missing)
            return NULL;
        missing = option;
    }
    return missing;
}

/* With what it was probably meant to be. */
static sluice_status fail_unexpected(const struct parser *parser, const char *arg,
                                     struct sluice_err *err)
{
    const size_t len = strcspn(arg, "=");
    const struct sluice_option *option = cli_find_long(&parser->table, arg, len);
    const struct sluice_option *missing = find_missing(parser);
    if (option)
        return sluice_fail(err, SLUICE_E_INVALID, "unexpected argument '%s'; did you mean --%s?",
                           arg, arg);
    if (missing)
        return sluice_fail(err, SLUICE_E_INVALID, "unexpected argument '%s'; did you mean --%s %s?",
                           arg, missing->name, arg);
    for (size_t i = 0; i < parser->table.cli->num_options; i++) {
        if (cli_find_choice(&parser->table.cli->options[i], arg))
            return sluice_fail(err, SLUICE_E_INVALID,
                               "unexpected argument '%s'; did you mean --%s %s?", arg,
                               parser->table.cli->options[i].name, arg);
    }
    return sluice_fail(err, SLUICE_E_INVALID, "unexpected argument '%s'", arg);
}

static sluice_status parse_args(struct parser *parser, struct sluice_cli_result *result,
                                struct sluice_err *err)
{
    const struct cli_table *table = &parser->table;
    const struct sluice_cli *cli = table->cli;
    const struct taken taken = count_taken(cli->positional);
    bool is_ended = false;
    while (parser->next < parser->argc) {
        const char *arg = parser->argv[parser->next++];
        const struct sluice_option *flag = parser->flag;
        parser->flag = NULL;
        sluice_status status = SLUICE_OK;
        if (!is_ended && strcmp(arg, "--") == 0) {
            is_ended = true;
        } else if (!is_ended && strncmp(arg, "--", 2) == 0) {
            status = parse_long(parser, arg, err);
        } else if (!is_ended && arg[0] == '-' && arg[1]) {
            status = parse_short(parser, arg, err);
        } else {
            if (!is_ended && flag && is_yes_or_no(arg))
                return sluice_fail(err, SLUICE_E_INVALID,
                                   "--%s takes no value such as '%s': --%s or --no-%s is all",
                                   flag->name, arg, flag->name, flag->name);
            if (result->num_positional == taken.most)
                return fail_unexpected(parser, arg, err);
            result->positional[result->num_positional++] = arg;
        }
        if (status != SLUICE_OK)
            return status;
        /* At once: whoever asks for help may have the rest wrong. */
        if (table->is_help || table->is_version)
            return SLUICE_OK;
    }
    return SLUICE_OK;
}

/* Checks that required options are set, and runs the program's own check. */
static sluice_status check_all(const struct parser *parser, const struct sluice_cli_result *result,
                               struct sluice_err *err)
{
    const struct sluice_cli *cli = parser->table.cli;
    for (size_t i = 0; i < cli->num_options; i++) {
        if (cli->options[i].is_required && !parser->given[i])
            return sluice_fail(err, SLUICE_E_INVALID, "--%s %s is required", cli->options[i].name,
                               cli->options[i].arg ? cli->options[i].arg : "VALUE");
    }
    if (result->num_positional < count_taken(cli->positional).least)
        return sluice_fail(err, SLUICE_E_INVALID, "%s is missing", cli->positional);
    return cli->check ? cli->check(result, err) : SLUICE_OK;
}

/* The command line, then the file that it names. */
static sluice_status parse_all(struct parser *parser, struct sluice_cli_result *result,
                               struct sluice_err *err)
{
    const struct cli_table *table = &parser->table;
    sluice_status status = parse_args(parser, result, err);
    if (status != SLUICE_OK || table->is_help || table->is_version)
        return status;
    if (table->config)
        status = cli_read_config(table, table->config, parser->given, err);
    result->is_json = table->is_json;
    memcpy(result->given, parser->given, sizeof(result->given));
    if (status == SLUICE_OK && !table->is_print_config)
        status = check_all(parser, result, err);
    return status;
}

static void list_options(const struct sluice_cli *cli, char *out, size_t room)
{
    size_t len = 0;
    for (size_t i = 0; i < cli->num_options && len < room; i++)
        len += (size_t)snprintf(out + len, room - len, "%s--%s", i ? " " : "; there are ",
                                cli->options[i].name);
}

static bool print_for_build(const struct cli_table *table, const char *arg)
{
    if (strcmp(arg, "--help-man") == 0)
        cli_print_man(table);
    else if (strcmp(arg, "--completion=bash") == 0)
        cli_print_completion(table, CLI_BASH);
    else if (strcmp(arg, "--completion=zsh") == 0)
        cli_print_completion(table, CLI_ZSH);
    else
        return false;
    return true;
}

static int flush_stdout(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    sluice_log(SLUICE_LOG_ERROR, "cannot write to standard output");
    return 1;
}

struct sluice_cli_result sluice_cli_parse(const struct sluice_cli *cli, int argc, char **argv)
{
    struct sluice_cli_result result = {0};
    struct parser parser = {.argc = argc, .next = 1, .argv = argv};
    cli_table_init(&parser.table, cli);
    assert(cli_table_len(&parser.table) <= SLUICE_ARRAY_LEN(parser.given));
    sluice_log_set_program(cli->program);
    if (argc == 2 && print_for_build(&parser.table, argv[1])) {
        result.should_exit = true;
        result.exit_code = flush_stdout();
        return result;
    }

    struct sluice_err err = {0};
    if (parse_all(&parser, &result, &err) != SLUICE_OK) {
        result.should_exit = true;
        char known[2000] = "";
        if (parser.is_far_off)
            list_options(cli, known, sizeof(known));
        result.exit_code = sluice_cli_usage_error(cli, "%s%s", err.text, known);
        return result;
    }

    enum sluice_log_level level = SLUICE_LOG_INFO;
    if (sluice_log_level_parse(parser.table.log_level, &level, NULL) == SLUICE_OK)
        sluice_log_set_level(level);
    enum sluice_log_format format = SLUICE_LOG_TEXT;
    if (sluice_log_format_parse(parser.table.log_format, &format, NULL) == SLUICE_OK)
        sluice_log_set_format(format);
    log_repeated(&parser);

    if (parser.table.is_help) {
        parser.table.is_help = false; /* so that it is not shown as an option that is on */
        cli_print_help(&parser.table);
    } else if (parser.table.is_version) {
        printf("%s %s\n", cli->program, SLUICE_VERSION);
    } else if (parser.table.is_print_config) {
        cli_print_config(&parser.table);
    } else if (!parser.table.is_check_config) {
        return result;
    }
    result.should_exit = true;
    result.exit_code = flush_stdout();
    return result;
}
