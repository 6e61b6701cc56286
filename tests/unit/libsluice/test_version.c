#include "base/log.h"
#include "support/test.h"

struct seen {
    unsigned lines;
    enum sluice_log_level level;
    char text[200];
};

static void see(void *ctx, enum sluice_log_level level, const char *text)
{
    struct seen *seen = ctx;
    seen->lines++;
    seen->level = level;
    snprintf(seen->text, sizeof(seen->text), "%s", text);
}

TEST(says_its_version)
{
    CU_ASSERT_STRING_EQUAL(sluice_version(), SLUICE_VERSION);
}

TEST(gives_lines_to_the_caller)
{
    struct seen seen = {0};
    sluice_set_log(see, &seen, SLUICE_LOG_WARN);
    sluice_log(SLUICE_LOG_INFO, "not severe enough");
    sluice_log(SLUICE_LOG_WARN, "sample %d", 7);
    sluice_set_log(NULL, NULL, SLUICE_LOG_INFO);
    CU_ASSERT_EQUAL(seen.lines, 1);
    CU_ASSERT_EQUAL(seen.level, SLUICE_LOG_WARN);
    CU_ASSERT_STRING_EQUAL(seen.text, "sample 7");
}
