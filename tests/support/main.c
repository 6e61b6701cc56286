#include "support/test.h"

/* Linked where a program has no main() of its own. */
int main(void)
{
    return sluice_test_main();
}
