#include "cli/config_lines.h"

#include "base/text.h"

#include <stdbool.h>
#include <string.h>

struct sluice_config_lines sluice_config_lines_begin(char *text, size_t len)
{
    /* The byte order mark that some editors write before UTF-8. */
    const size_t mark = len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    return (struct sluice_config_lines){.next = text + mark, .end = text + len};
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Cuts the blanks off both ends of text[0..len) and ends it with a 0. */
static char *trim(char *text, size_t len)
{
    while (len > 0 && is_blank(text[len - 1]))
        len--;
    text[len] = '\0';
    while (is_blank(*text))
        text++;
    return text;
}

/* len counts a 0 within, where text ends. */
static sluice_status check_text(const char *text, size_t len, struct sluice_err *err)
{
    if (strlen(text) != len)
        return sluice_fail(err, SLUICE_E_INVALID, "a byte 0: this is no text");
    if (!sluice_is_utf8(text))
        return sluice_fail(err, SLUICE_E_INVALID, "this is not UTF-8");
    for (const char *p = text; *p; p++) {
        if (((unsigned char)*p < 0x20 && !is_blank(*p)) || *p == 0x7F)
            return sluice_fail(err, SLUICE_E_INVALID, "a control character, 0x%02x",
                               (unsigned)(unsigned char)*p);
    }
    return SLUICE_OK;
}

static const char *without_quotes(char *value)
{
    const size_t len = strlen(value);
    if (len < 2 || value[0] != '"' || value[len - 1] != '"')
        return value;
    value[len - 1] = '\0';
    return value + 1;
}

/* Parses one line without its end; line->key stays NULL for an empty line or a comment. */
static sluice_status read_line(char *text, size_t len, struct sluice_config_line *line,
                               struct sluice_err *err)
{
    const sluice_status status = check_text(text, len, err);
    if (status != SLUICE_OK)
        return status;
    text = trim(text, len);
    len = strlen(text);
    if (len == 0 || text[0] == '#' || text[0] == ';' || (text[0] == '[' && text[len - 1] == ']'))
        return SLUICE_OK;
    char *equals = strchr(text, '=');
    if (!equals)
        return sluice_fail(err, SLUICE_E_INVALID, "'%.64s' is no line 'key = value'", text);
    if (equals == text)
        return sluice_fail(err, SLUICE_E_INVALID, "no key before the '='");
    *line = (struct sluice_config_line){
        .value = without_quotes(trim(equals + 1, strlen(equals + 1))),
        .key = trim(text, (size_t)(equals - text)),
    };
    return SLUICE_OK;
}

sluice_status sluice_config_lines_next(struct sluice_config_lines *lines,
                                       struct sluice_config_line *line, struct sluice_err *err)
{
    *line = (struct sluice_config_line){0};
    while (lines->next < lines->end) {
        char *text = lines->next;
        const size_t room = (size_t)(lines->end - text);
        const char *newline = memchr(text, '\n', room);
        const size_t len = newline ? (size_t)(newline - text) : room;
        lines->next = text + len + (newline != NULL);
        lines->number++;
        text[len] = '\0';
        const sluice_status status = read_line(text, len, line, err);
        if (status != SLUICE_OK || line->key)
            return status;
    }
    return SLUICE_OK;
}
