#ifndef SLUICE_TRAIN_ENGINE_CACHE_H
#define SLUICE_TRAIN_ENGINE_CACHE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which of cuDNN's engines solves which convolution: found by timing, kept as text, one line each:
 *
 *     KEY = INDEX [TYPE:VALUE ...]
 *
 * KEY names the problem (words without "="), INDEX is the engine's number in cuDNN, and the pairs
 * are its knobs.  The first line names cuDNN's version and the GPU: a text of another version or GPU
 * is not read, because engines have other numbers there.
 *
 * Threads: one at a time. */

#define SLUICE_ENGINE_MAX_KNOBS 16

struct sluice_engine {
    int64_t index;
    unsigned num_knobs;
    struct {
        int32_t type;
        int64_t value;
    } knobs[SLUICE_ENGINE_MAX_KNOBS];
};

#define SLUICE_ENGINE_KEY_LEN 160

struct sluice_engine_cache {
    char owner[96]; /* such as "cudnn 9.14.0, NVIDIA H100 80GB HBM3" */
    struct sluice_engine_entry {
        char key[SLUICE_ENGINE_KEY_LEN];
        struct sluice_engine engine;
    } * entries;
    size_t count, capacity;
    bool is_changed; /* since the last read or write */
};

void sluice_engine_cache_clear(struct sluice_engine_cache *cache);

/* NULL: none. */
const struct sluice_engine *sluice_engine_cache_find(const struct sluice_engine_cache *cache,
                                                     const char *key);
/* Replaces the key's entry. */
SLUICE_MUST_USE sluice_status sluice_engine_cache_put(struct sluice_engine_cache *cache,
                                                      const char *key,
                                                      const struct sluice_engine *engine,
                                                      struct sluice_err *err);

/* Adds the entries of a text whose first line is the cache's owner; a text of another owner adds
 * none.  SLUICE_E_CORRUPT names the line. */
SLUICE_MUST_USE sluice_status sluice_engine_cache_parse(struct sluice_engine_cache *cache,
                                                        const char *text, struct sluice_err *err);
/* The text, in memory of malloc(). */
SLUICE_MUST_USE sluice_status sluice_engine_cache_print(const struct sluice_engine_cache *cache,
                                                        char **text, struct sluice_err *err);

/* The same from and to a file.  A file that is missing adds nothing; a write replaces the file
 * whole. */
SLUICE_MUST_USE sluice_status sluice_engine_cache_read(struct sluice_engine_cache *cache,
                                                       const char *path, struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_engine_cache_write(struct sluice_engine_cache *cache,
                                                        const char *path, struct sluice_err *err);

#endif
