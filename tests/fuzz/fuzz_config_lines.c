#include "cli/config_lines.h"

#include "base/text.h"
#include "fuzz.h"

/* Any bytes as a configuration file: every line is read or has its reason, in their order, and keys
 * and values are text within the file's. */

static void check_inside(const char *text, size_t size, const char *word)
{
    FUZZ_CHECK(word >= text && word + strlen(word) <= text + size);
    FUZZ_CHECK(sluice_is_utf8(word) && !strpbrk(word, "\n\x1b"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    struct sluice_config_lines lines = sluice_config_lines_begin(text, size);
    struct sluice_config_line line;
    do {
        const unsigned before = lines.number;
        struct sluice_err err = {{0}};
        const sluice_status status = sluice_config_lines_next(&lines, &line, &err);
        if (status != SLUICE_OK) {
            FUZZ_CHECK(status == SLUICE_E_INVALID && err.text[0] && lines.number > before);
            line.key = "";
        } else if (line.key) {
            FUZZ_CHECK(lines.number > before && line.key[0]);
            check_inside(text, size, line.key);
            check_inside(text, size, line.value);
        }
    } while (line.key);
    FUZZ_CHECK(lines.next == lines.end);
    free(text);
    return 0;
}
