/* A borrower for tests: lend_borrower PATH HOLD_MS PAUSE_MS
 *
 * Takes the GPU, holds it, gives it back and pauses, until the owner ends; with HOLD_MS -1 it holds
 * it until it is told to give it back, by a byte on its standard input.  Prints a line for each
 * thing that happens: "took", "gave", "lost" (taken back before), "ended", or an error. */

#include "sluice/lend.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void say(const char *what)
{
    puts(what);
    fflush(stdout);
}

static void pause_for(long ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    char byte;
    if (ms >= 0)
        nanosleep(&time, NULL);
    else if (read(STDIN_FILENO, &byte, 1) < 0)
        say("no standard input");
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    const long hold_ms = strtol(argv[2], NULL, 10), pause_ms = strtol(argv[3], NULL, 10);
    const struct sluice_borrower_options options = {.path = argv[1]};
    struct sluice_borrower *borrower = NULL;
    struct sluice_err err = {0};
    uint32_t ticket = 0;
    sluice_status status = sluice_borrower_open(&options, &borrower, &err);
    while (status == SLUICE_OK) {
        status = sluice_borrower_take(borrower, -1, &ticket, &err);
        if (status != SLUICE_OK)
            break;
        say("took");
        pause_for(hold_ms);
        say(sluice_borrower_give(borrower, ticket) ? "gave" : "lost");
        pause_for(pause_ms);
    }
    say(status == SLUICE_E_CLOSED ? "ended" : err.text);
    sluice_borrower_close(borrower);
    return status != SLUICE_E_CLOSED;
}
