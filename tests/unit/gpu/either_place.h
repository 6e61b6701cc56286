#ifndef SLUICE_TESTS_GPU_EITHER_PLACE_H
#define SLUICE_TESTS_GPU_EITHER_PLACE_H

#include "gpu/place.h"
#include "support/test.h"

/* For a program that tests one kind of place: PROGRAM host | cuda. */

static bool is_host;

/* Why there is no such device, or NULL. */
static const char *why_not(void)
{
    static struct sluice_err err;
    const struct sluice_gpu_place_options options = {
        .is_host = is_host,
        .max_rows = 1,
        .num_views = 1,
        .views = {{16, 16}},
        .num_blocks = 1,
        .num_lanes = 1,
    };
    struct sluice_gpu_place *place = NULL;
    if (sluice_gpu_place_create(&options, &place, &err) == SLUICE_E_UNSUPPORTED)
        return err.text;
    sluice_gpu_place_destroy(place);
    return NULL;
}

static int either_place_main(int argc, char **argv)
{
    if (argc != 2 || (strcmp(argv[1], "host") != 0 && strcmp(argv[1], "cuda") != 0)) {
        fprintf(stderr, "usage: %s host | cuda\n", argv[0]);
        return 2;
    }
    is_host = strcmp(argv[1], "host") == 0;
    const char *reason = why_not();
    if (reason)
        sluice_test_skip(reason);
    return sluice_test_main();
}

#endif
