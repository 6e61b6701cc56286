#include "storage_top/screen.h"

#include <curses.h>

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct top_screen {
    SCREEN *terminal;
    size_t first; /* line at the top, behind the head */
    size_t num_lines;
};

sluice_status top_screen_open(struct top_screen **screen, struct sluice_err *err)
{
    struct top_screen *made = calloc(1, sizeof(*made));
    if (!made)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a screen");
    setlocale(LC_CTYPE, ""); /* how ncurses reads characters; numbers stay as they are */
    made->terminal = newterm(NULL, stdout, stdin);
    if (!made->terminal) {
        const char *term = getenv("TERM");
        free(made);
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "the terminal \"%s\" (TERM) is not known here: give --once",
                           term ? term : "");
    }
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    (void)curs_set(0);
    *screen = made;
    return SLUICE_OK;
}

void top_screen_close(struct top_screen *screen)
{
    if (!screen)
        return;
    endwin();
    delscreen(screen->terminal);
    free(screen);
}

static void scroll_to(struct top_screen *screen, long first)
{
    const long most = (long)screen->num_lines - 1;
    if (first > most)
        first = most;
    screen->first = first > 0 ? (size_t)first : 0;
}

void top_screen_show(struct top_screen *screen, const struct top_lines *lines)
{
    screen->num_lines = lines->num_lines;
    scroll_to(screen, (long)screen->first);
    erase();
    for (int row = 0; row < LINES && screen->first + (size_t)row < lines->num_lines; row++) {
        const size_t line = screen->first + (size_t)row;
        if (lines->are_heads[line])
            attron(A_REVERSE);
        (void)mvaddnstr(row, 0, lines->lines[line], COLS); /* bytes: no more than columns */
        attroff(A_REVERSE);
    }
    refresh();
}

bool top_screen_wait(struct top_screen *screen, int timeout_ms)
{
    timeout(timeout_ms);
    const long first = (long)screen->first;
    switch (getch()) {
    case 'q':
    case 'Q':
        return false;
    case KEY_DOWN:
        scroll_to(screen, first + 1);
        break;
    case KEY_UP:
        scroll_to(screen, first - 1);
        break;
    case KEY_NPAGE:
        scroll_to(screen, first + LINES);
        break;
    case KEY_PPAGE:
        scroll_to(screen, first - LINES);
        break;
    case KEY_HOME:
        scroll_to(screen, 0);
        break;
    default: /* KEY_RESIZE, too: what comes next has the new size */
        break;
    }
    return true;
}
