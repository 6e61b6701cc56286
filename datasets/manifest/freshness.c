#include "datasets/manifest/freshness.h"

#include "base/hash.h"
#include "base/log.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#define WHAT_TO_DO "run 'offload_dataset index', then SIGHUP or restart"

struct sluice_freshness {
    const struct sluice_manifest *manifest;
    bool verify;
    atomic_flag is_warned;
    /* By sample: the time of change with which its content was found to be as listed; 0: none yet.
     * Relaxed: a thread that sees an older one hashes the file once more. */
    _Atomic int64_t verified_ns[];
};

sluice_status sluice_freshness_create(const struct sluice_manifest *manifest, bool verify,
                                      struct sluice_freshness **freshness, struct sluice_err *err)
{
    /* Pages of it that nobody needs are never touched. */
    struct sluice_freshness *f =
        calloc(1, sizeof(*f) + manifest->num_entries * sizeof(f->verified_ns[0]));
    if (!f)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the state of %zu files",
                           manifest->num_entries);
    f->manifest = manifest;
    f->verify = verify;
    atomic_flag_clear(&f->is_warned);
    size_t num_hashes = 0;
    for (size_t i = 0; verify && i < manifest->num_entries; i++)
        num_hashes += sluice_manifest_at(manifest, i).has_hash;
    if (verify && num_hashes < manifest->num_entries)
        sluice_log(SLUICE_LOG_WARN,
                   "--verify: the list of samples has the content hashes of %zu of %zu files; "
                   "'offload_dataset index' writes them",
                   num_hashes, manifest->num_entries);
    *freshness = f;
    return SLUICE_OK;
}

void sluice_freshness_destroy(struct sluice_freshness *freshness)
{
    free(freshness);
}

sluice_status sluice_freshness_look(struct sluice_freshness *f, size_t sample, uint64_t len,
                                    int64_t mtime_ns, bool *needs_content, struct sluice_err *err)
{
    assert(sample < f->manifest->num_entries);
    const struct sluice_manifest_entry entry = sluice_manifest_at(f->manifest, sample);
    *needs_content = false;
    if (len != entry.bytes)
        return sluice_fail(err, SLUICE_E_STALE,
                           "%llu bytes, but %llu in the list of samples: " WHAT_TO_DO,
                           (unsigned long long)len, (unsigned long long)entry.bytes);
    const bool is_known =
        mtime_ns == entry.mtime_ns ||
        mtime_ns == atomic_load_explicit(&f->verified_ns[sample], memory_order_relaxed);
    if (entry.has_hash)
        *needs_content = f->verify || !is_known;
    else if (!is_known && entry.mtime_ns && !atomic_flag_test_and_set(&f->is_warned))
        sluice_log(SLUICE_LOG_WARN,
                   "%s was changed after the list of samples was made; its length is the same, and "
                   "there is no hash of its content to compare ('offload_dataset index' writes "
                   "them): it is used as it is",
                   entry.path);
    return SLUICE_OK;
}

sluice_status sluice_freshness_read(struct sluice_freshness *f, size_t sample, int64_t mtime_ns,
                                    const void *data, size_t len, struct sluice_err *err)
{
    assert(sample < f->manifest->num_entries);
    const struct sluice_manifest_entry entry = sluice_manifest_at(f->manifest, sample);
    if (!entry.has_hash)
        return SLUICE_OK;
    const struct sluice_hash128 hash = sluice_hash128(data, len);
    if (hash.high != entry.hash.high || hash.low != entry.hash.low)
        return sluice_fail(err, SLUICE_E_STALE, "other content than was indexed: " WHAT_TO_DO);
    if (mtime_ns != entry.mtime_ns)
        atomic_store_explicit(&f->verified_ns[sample], mtime_ns, memory_order_relaxed);
    return SLUICE_OK;
}
