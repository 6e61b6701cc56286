#include "base/terminal.h"

#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

TEST(utf8_is_what_the_locale_says_by_its_first_variable)
{
    static const struct {
        const char *all, *ctype, *lang;
        bool has_utf8;
    } cases[] = {
        {NULL, NULL, NULL, false},         {NULL, NULL, "en_GB.UTF-8", true},
        {NULL, NULL, "C.utf8", true},      {NULL, NULL, "de_DE.UTF-8@euro", true},
        {NULL, NULL, "C", false},          {NULL, NULL, "de_DE.ISO-8859-1", false},
        {"C", NULL, "en_GB.UTF-8", false}, {"", "en_GB.UTF-8", "C", true},
        {"", "C", "en_GB.UTF-8", false},
    };
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const values[] = {cases[i].all, cases[i].ctype, cases[i].lang};
        for (int k = 0; k < 3; k++) {
            unsetenv(names[k]);
            if (values[k])
                setenv(names[k], values[k], 1);
        }
        CU_ASSERT_EQUAL(sluice_terminal_has_utf8(), cases[i].has_utf8);
    }
}

TEST(a_terminal_says_how_wide_it_is_each_time)
{
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) {
        printf("(left out: there is no pseudo terminal: %s) ", strerror(errno));
        return;
    }
    const int slave = open(ptsname(master), O_RDWR | O_NOCTTY), before = dup(STDERR_FILENO);
    const int file = open("/dev/null", O_WRONLY);
    CU_ASSERT_FATAL(slave >= 0 && before >= 0 && file >= 0);
    bool can[4];
    unsigned columns[4];
    dup2(file, STDERR_FILENO);
    setenv("TERM", "xterm", 1);
    can[0] = sluice_terminal_can_erase();
    columns[0] = sluice_terminal_columns();
    dup2(slave, STDERR_FILENO);
    can[1] = sluice_terminal_can_erase();
    for (unsigned i = 1; i < 4; i++) {
        const struct winsize size = {.ws_col = (unsigned short)(i == 3 ? 0 : 60 * i)};
        ioctl(slave, TIOCSWINSZ, &size);
        columns[i] = sluice_terminal_columns();
    }
    setenv("TERM", "dumb", 1);
    can[2] = sluice_terminal_can_erase();
    unsetenv("TERM");
    can[3] = sluice_terminal_can_erase();
    dup2(before, STDERR_FILENO);
    CU_ASSERT(!can[0] && can[1] && !can[2] && !can[3]);
    CU_ASSERT_EQUAL(columns[0], 80); /* it is none */
    CU_ASSERT_EQUAL(columns[1], 60);
    CU_ASSERT_EQUAL(columns[2], 120);
    CU_ASSERT_EQUAL(columns[3], 80); /* it does not say */
    close(file);
    close(before);
    close(slave);
    close(master);
}

TEST(a_line_is_cut_between_characters)
{
    char text[] = "äöü!";
    sluice_terminal_cut(text, 9);
    CU_ASSERT_STRING_EQUAL(text, "äöü!");
    sluice_terminal_cut(text, 2);
    CU_ASSERT_STRING_EQUAL(text, "äö");
    sluice_terminal_cut(text, 0);
    CU_ASSERT_STRING_EQUAL(text, "");
    char bytes[] = "\xff\xfe"
                   "a";
    sluice_terminal_cut(bytes, 2);
    CU_ASSERT_EQUAL(strlen(bytes), 2);
}
