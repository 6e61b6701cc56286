#include "store/web_list.h"

#include "base/file.h"
#include "base/parse.h"
#include "base/text.h"
#include "store/store.h"

#include <stdbool.h>
#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Cuts the last word off the text.  NULL: no word. */
static char *cut_word(char *text)
{
    size_t len = strlen(text);
    while (len && is_blank(text[len - 1]))
        len--;
    text[len] = '\0';
    while (len && !is_blank(text[len - 1]))
        len--;
    if (!len) /* the line has fewer words */
        return NULL;
    text[len - 1] = '\0';
    return text + len;
}

/* A path that leads nowhere else. */
static bool is_path(const char *path)
{
    if (!path[0] || path[0] == '/' || !sluice_is_utf8(path))
        return false;
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        const size_t len = strcspn(part, "/");
        if (len == 0 || (len <= 2 && strspn(part, ".") >= len))
            return false;
    }
    return true;
}

static sluice_status parse_line(char *line, struct sluice_web_object *object,
                                struct sluice_err *err)
{
    char *etag = cut_word(line), *bytes = etag ? cut_word(line) : NULL;
    size_t len = strlen(line);
    while (len && is_blank(line[len - 1]))
        line[--len] = '\0';
    if (!bytes || sluice_parse_uint(bytes, &object->bytes, NULL) != SLUICE_OK ||
        object->bytes > SLUICE_STORE_MAX_OBJECT_BYTES)
        return sluice_fail(err, SLUICE_E_CORRUPT, "no PATH BYTES ETAG");
    if (!is_path(line))
        return sluice_fail(err, SLUICE_E_CORRUPT,
                           "no path: relative, UTF-8, without empty parts, \".\" and \"..\"");
    object->path = line;
    object->etag = strcmp(etag, "-") == 0 ? "" : etag;
    return SLUICE_OK;
}

sluice_status sluice_web_list_parse(const char *text, size_t len,
                                    sluice_status (*fn)(void *ctx,
                                                        const struct sluice_web_object *object,
                                                        struct sluice_err *err),
                                    void *ctx, struct sluice_err *err)
{
    uint64_t number = 0;
    for (const char *at = text, *end = text + len; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t line_len = (size_t)((newline ? newline : end) - at);
        char line[SLUICE_MAX_PATH_BYTES + 512];
        struct sluice_web_object object;
        struct sluice_err why = {0};
        sluice_status status = SLUICE_OK;
        number++;
        if (line_len >= sizeof(line) || memchr(at, '\0', line_len))
            return sluice_fail(err, SLUICE_E_CORRUPT, "line %llu: too long, or no text",
                               (unsigned long long)number);
        size_t blanks = 0;
        while (blanks < line_len && is_blank(at[blanks]))
            blanks++;
        memcpy(line, at + blanks, line_len - blanks);
        line[line_len - blanks] = '\0';
        at = newline ? newline + 1 : end;
        if (!line[0] || line[0] == '#')
            continue;
        status = parse_line(line, &object, &why);
        if (status != SLUICE_OK)
            return sluice_fail(err, status, "line %llu: %s", (unsigned long long)number, why.text);
        status = fn(ctx, &object, err);
        if (status != SLUICE_OK)
            return status;
    }
    return SLUICE_OK;
}
