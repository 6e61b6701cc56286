#ifndef SLUICE_TESTS_STORE_CONFORMANCE_H
#define SLUICE_TESTS_STORE_CONFORMANCE_H

#include "store/store.h"
#include "support/test.h"

/* What every store promises (store/store.h), tested on whichever world of objects there is. */

#define CONFORMANCE_MAX_BYTES 65536 /* the store's limit */

struct conformance_world {
    /* A store over an empty world. */
    struct sluice_store *(*open)(void);
    void (*put)(const char *key, const void *data, size_t len); /* makes or replaces an object */
    void (*remove)(const char *key);
    /* Faults of the next bodies of an object.  NULL: they cannot happen to this store. */
    void (*slow_down)(const char *key);                 /* each byte takes a while */
    void (*break_off)(const char *key, unsigned times); /* the connection ends amid the body */
    void (*hang)(const char *key);                      /* it stops amid the body */
    void (*wait_for_hang)(void);                        /* until a body has stopped */
};

/* For the tests that follow; borrowed. */
void conformance_use(const struct conformance_world *used_world);

#endif
