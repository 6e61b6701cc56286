/* A program that each flag of sluice::hardening leaves its mark on (tests/check_hardening). */
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    char text[16];
    strcpy(text, argv[argc > 1]); /* the stack protector and FORTIFY: a length unknown */
    puts(text);
    return 0;
}
