#include "base/terminal.h"

#include "base/c_locale.h"
#include "base/compiler.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define USUAL_COLUMNS 80

bool sluice_terminal_can_erase(void)
{
    const char *term = getenv("TERM");
    return term && term[0] && strcmp(term, "dumb") != 0 && isatty(STDERR_FILENO) == 1;
}

unsigned sluice_terminal_columns(void)
{
    struct winsize size = {0};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return USUAL_COLUMNS;
    return size.ws_col;
}

bool sluice_terminal_has_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(names); i++) {
        const char *locale = getenv(names[i]);
        if (!locale || !locale[0])
            continue;
        const char *charset = strchr(locale, '.');
        return charset && (sluice_strncasecmp(charset, ".UTF-8", 6) == 0 ||
                           sluice_strncasecmp(charset, ".UTF8", 5) == 0);
    }
    return false;
}

void sluice_terminal_cut(char *line, unsigned columns)
{
    for (; *line && columns > 0; columns--) {
        const size_t len = sluice_utf8_len(line);
        line += len > 0 ? len : 1; /* no UTF-8: a byte */
    }
    *line = '\0';
}
