#ifndef SLUICE_CLI_CLI_H
#define SLUICE_CLI_CLI_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Command lines from one table, which also makes --help (in 80 columns) and --print-config.
 *
 * Every program has --help (-h, unless the table uses it), --version, --print-config,
 * --check-config, --config, --json, --log-level and --log-format in addition to its own options.
 * "--name value", "--name=value", "-x value" and "-xvalue" are the same; "--" ends the options; a
 * value that itself begins with "--" must be given as "--name=value".  If an option is given twice,
 * the last value counts; a log line reports it if they differ.  A usage error is one line on stderr
 * and exit 2.  It names the flag and the fault of its value and, for an unknown word, similar
 * words.
 *
 * --help-man, --completion=bash and --completion=zsh, if they are the only argument, print a man
 * page and shell completions for the build.  --help does not show them.
 *
 * --config FILE reads more options from a file (config_lines.h), with option names without dashes
 * as keys and true or false as a flag's value.  The command line overrides the file.  An error
 * names file, line and key.  --check-config ends after all checks.
 *
 * Threads: at start, on the main thread. */

enum sluice_option_type {
    SLUICE_OPTION_FLAG,   /* bool *; "--no-name" or "--name=false" clears it */
    SLUICE_OPTION_STRING, /* const char **; borrows argv */
    SLUICE_OPTION_UINT,   /* uint64_t *; decimal digits */
    SLUICE_OPTION_DOUBLE, /* double *; finite */
    SLUICE_OPTION_BYTES,  /* uint64_t *; base/parse.h says which units it takes */
    SLUICE_OPTION_RATE,   /* double *, bytes per second; 0 or "none": no limit */
    /* double *, in the table's unit of time, which is also the unit of a bare number: "3", "500ms",
     * "2m" */
    SLUICE_OPTION_SECONDS, /* seconds */
    SLUICE_OPTION_MS,      /* milliseconds */
    SLUICE_OPTION_CHOICE,  /* const char **; one of `choices` or `aliases`, as typed */
    SLUICE_OPTION_STRINGS, /* struct sluice_option_strings *; may be given many times */
};

#define SLUICE_MAX_STRINGS 64
struct sluice_option_strings {
    const char *items[SLUICE_MAX_STRINGS];
    size_t num_items;
};

struct sluice_option {
    const char *name; /* without dashes */
    char short_name;  /* 0: none */
    enum sluice_option_type type;
    /* Index into the program's `groups`: the heading in --help. */
    unsigned group;
    /* Holds the default before parsing. */
    void *value;
    /* Placeholder in --help, e.g. "DIR". */
    const char *arg;
    /* Its effect and unit.  --help appends the choices and the default.  A flag that is on by
     * default is shown as --no-NAME: describe the effect of that. */
    const char *help;
    /* Shown in --help as the default instead of the value; NULL: the value. */
    const char *default_text;
    const char *const *choices; /* NULL-terminated */
    /* Accepted, too, but neither shown nor named in errors; NULL-terminated or NULL. */
    const char *const *aliases;
    /* Checks a string; fails with the reason if it is not a valid value.  NULL: every text is
     * valid. */
    sluice_status (*check)(const char *text, struct sluice_err *err);
    /* Writes lines that --help shows beneath, "term: text" each; NULL: none. */
    void (*list)(char *out, size_t room);
    /* Inclusive limits of a number (of a rate: bytes per second).  Both 0: unchecked; max below
     * min: no upper end. */
    double min, max;
    /* Not checked with --print-config. */
    bool is_required;
    /* Set if the option was on the command line or in the file; may be NULL. */
    bool *is_given;
    /* Another long name for the same option; may be NULL. */
    const char *alias;
};

/* Type, variable and placeholder of an option in one; the compiler refuses a variable of another
 * type. */
#define SLUICE_VALUE_(of, c_type, variable)                                                        \
    .type = SLUICE_OPTION_##of, .value = _Generic(&(variable), c_type * : &(variable))
#define SLUICE_VALUE_FLAG(variable) SLUICE_VALUE_(FLAG, bool, variable)
#define SLUICE_VALUE_STRING(variable, word)                                                        \
    SLUICE_VALUE_(STRING, const char *, variable), .arg = (word)
#define SLUICE_VALUE_UINT(variable, word) SLUICE_VALUE_(UINT, uint64_t, variable), .arg = (word)
#define SLUICE_VALUE_DOUBLE(variable, word) SLUICE_VALUE_(DOUBLE, double, variable), .arg = (word)
#define SLUICE_VALUE_BYTES(variable, word) SLUICE_VALUE_(BYTES, uint64_t, variable), .arg = (word)
#define SLUICE_VALUE_RATE(variable, word) SLUICE_VALUE_(RATE, double, variable), .arg = (word)
#define SLUICE_VALUE_SECONDS(variable, word) SLUICE_VALUE_(SECONDS, double, variable), .arg = (word)
#define SLUICE_VALUE_MS(variable, word) SLUICE_VALUE_(MS, double, variable), .arg = (word)
#define SLUICE_VALUE_CHOICE(variable, word)                                                        \
    SLUICE_VALUE_(CHOICE, const char *, variable), .arg = (word)
#define SLUICE_VALUE_STRINGS(variable, word)                                                       \
    SLUICE_VALUE_(STRINGS, struct sluice_option_strings, variable), .arg = (word)
#define SLUICE_RANGE(least, most) .min = (least), .max = (most)

struct sluice_cli_result;

struct sluice_cli {
    const char *program; /* "offload_server" */
    const char *summary; /* what it is for, one sentence */
    /* The positional arguments, a word for each: "LIST DIR"; "[DIR]" may be left out, the
     * last may come again ("IMAGE...", 16 in all).  NULL: none are taken. */
    const char *positional;
    /* The order of --print-config, and within a group that of --help. */
    const struct sluice_option *options;
    size_t num_options;
    /* The headings of --help in their order, NULL-terminated; the options of every program come
     * last.  NULL: one heading for all. */
    const char *const *groups;
    /* Checks values against each other; called once all are set and required ones are present, also
     * for --check-config.  SLUICE_E_INVALID is a usage error.  May be NULL. */
    sluice_status (*check)(const struct sluice_cli_result *parsed, struct sluice_err *err);
    const char *epilog; /* printed under the options in --help; may be NULL */
};

#define SLUICE_CLI_MAX_OPTIONS 128

struct sluice_cli_result {
    bool is_json; /* --json */
    const char *positional[16];
    size_t num_positional;
    /* By index in the table: the text of the last value given; NULL: not given. */
    const char *given[SLUICE_CLI_MAX_OPTIONS];
    /* After --help, --version, --print-config, --check-config or a usage error: everything is
     * printed already, and the program ends with exit_code. */
    bool should_exit;
    int exit_code;
};

/* Parses argv[1..argc).  --print-config prints "name = value" lines, with every option's final
 * value as --name=value and --config take it, and requests exit 0.  A line without a value is an
 * option that was not given and has no default value. */
struct sluice_cli_result sluice_cli_parse(const struct sluice_cli *cli, int argc, char **argv);

/* A usage error found after parsing (two options that exclude each other, say):
 * prints the one line and returns 2. */
int sluice_cli_usage_error(const struct sluice_cli *cli, const char *fmt, ...) SLUICE_PRINTF(2, 3);

/* The exit code of a program that did its work: 0, or 1 after a line with what went wrong. */
int sluice_cli_exit_code(sluice_status status, const struct sluice_err *err);

#endif
