/* usage: switch_aside PATH
 * Puts the owner that lends at PATH aside, prints "aside", waits for the end of standard input, brings it
 * back and prints "back".  Exit code 1 with the reason on stderr; 77 where the driver cannot do it. */
#include "lend/switch/aside.h"

#include <stdio.h>

static int fail(sluice_status status, const struct sluice_err *err)
{
    fprintf(stderr, "%s\n", err->text);
    return status == SLUICE_E_UNSUPPORTED ? 77 : 1;
}

int main(int argc, char **argv)
{
    struct sluice_err err = {0};
    sluice_status status = switch_aside_put(argc > 1 ? argv[1] : "", &err);
    if (status != SLUICE_OK)
        return fail(status, &err);
    puts("aside");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    status = switch_aside_return(argv[1], &err);
    if (status != SLUICE_OK)
        return fail(status, &err);
    puts("back");
    return 0;
}
