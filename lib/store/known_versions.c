#include "store/known_versions.h"

#include "base/hash.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 1024 /* places; a power of two, as all that follow */

struct place {
    uint64_t hash; /* of the key; 0: free */
    uint64_t bytes;
    int64_t version; /* 0: forgotten */
};

struct sluice_known_versions {
    pthread_mutex_t lock;
    struct place *places;
    size_t capacity, num_used;
};

static uint64_t hash_of(const char *key)
{
    const uint64_t hash = sluice_hash64(key, strlen(key));
    return hash ? hash : 1;
}

/* The key's place, or the free one where it would be. */
static struct place *find(struct place *places, size_t capacity, uint64_t hash)
{
    size_t at = hash & (capacity - 1);
    while (places[at].hash && places[at].hash != hash)
        at = (at + 1) & (capacity - 1);
    return &places[at];
}

/* Makes room for one more.  False: no memory. */
static bool grow(struct sluice_known_versions *known)
{
    if (known->num_used + known->num_used / 2 < known->capacity)
        return true;
    const size_t capacity = known->capacity ? 2 * known->capacity : FIRST_CAPACITY;
    struct place *places = calloc(capacity, sizeof(*places));
    if (!places)
        return false;
    for (size_t i = 0; i < known->capacity; i++) {
        if (known->places[i].hash)
            *find(places, capacity, known->places[i].hash) = known->places[i];
    }
    free(known->places);
    known->places = places;
    known->capacity = capacity;
    return true;
}

sluice_status sluice_known_versions_create(struct sluice_known_versions **out,
                                           struct sluice_err *err)
{
    struct sluice_known_versions *known = calloc(1, sizeof(*known));
    if (!known)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the versions of objects");
    pthread_mutex_init(&known->lock, NULL);
    *out = known;
    return SLUICE_OK;
}

void sluice_known_versions_destroy(struct sluice_known_versions *known)
{
    if (!known)
        return;
    pthread_mutex_destroy(&known->lock);
    free(known->places);
    free(known);
}

void sluice_known_versions_put(struct sluice_known_versions *known, const char *key, uint64_t bytes,
                               int64_t version)
{
    const uint64_t hash = hash_of(key);
    pthread_mutex_lock(&known->lock);
    if (grow(known)) {
        struct place *place = find(known->places, known->capacity, hash);
        known->num_used += !place->hash;
        *place = (struct place){hash, bytes, version};
    }
    pthread_mutex_unlock(&known->lock);
}

bool sluice_known_versions_get(struct sluice_known_versions *known, const char *key,
                               uint64_t *bytes, int64_t *version)
{
    bool is_known = false;
    pthread_mutex_lock(&known->lock);
    if (known->capacity) {
        const struct place *place = find(known->places, known->capacity, hash_of(key));
        is_known = place->hash && place->version;
        if (is_known) {
            *bytes = place->bytes;
            *version = place->version;
        }
    }
    pthread_mutex_unlock(&known->lock);
    return is_known;
}
