/* A program of somebody else: C11 to the letter, the public header alone, warnings are errors. */

#include "sluice/sluice.h"

#include <stdio.h>
#include <string.h>

int main(void)
{
    const float table[3][256] = {{0, 1.5f}, {0, 0, -2}, {0, 0, 0, 1}};
    const uint8_t pixels[6] = {1, 2, 3, 0, 2, 0};
    const float expected[6] = {1.5f, 0, -2, -2, 1, 0};
    float out[6];
    struct sluice_err err = {{0}};
    if (sluice_finish(pixels, 1, 1, 2, table, SLUICE_F32, SLUICE_NCHW, out, &err) != SLUICE_OK) {
        printf("sluice_finish: %s\n", err.text);
        return 1;
    }
    for (int i = 0; i < 6; i++) {
        if (out[i] != expected[i]) {
            printf("value %d is %g, not %g\n", i, (double)out[i], (double)expected[i]);
            return 1;
        }
    }
    if (strcmp(sluice_version(), EXPECTED_VERSION) != 0) {
        printf("version %s, not %s\n", sluice_version(), EXPECTED_VERSION);
        return 1;
    }
    const sluice_status refused =
        sluice_finish(pixels, 0, 1, 2, table, SLUICE_F32, SLUICE_NCHW, out, &err);
    if (refused != SLUICE_E_INVALID || !err.text[0]) {
        printf("0 rows: status %d, \"%s\"\n", (int)refused, err.text);
        return 1;
    }
    sluice_free(NULL);
    return 0;
}
