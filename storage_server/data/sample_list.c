#include "storage_server/data/sample_list.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "datasets/jpeg_index/jpeg_index_file.h"
#include "datasets/manifest/freshness.h"
#include "datasets/manifest/join.h"
#include "datasets/manifest/manifest.h"
#include "datasets/manifest/of_store.h"
#include "storage_server/data/subset_rows.h"
#include "store/store_copy.h"
#include "store/store_roots.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Bytes of a sample in addition to its manifest entry and path: its state in freshness.c, and its
 * row of the JPEG index. */
#define OTHER_BYTES (8 + 16)

struct sluice_sample_lists {
    pthread_mutex_t lock;
    struct sluice_sample_list *now; /* a reference */
};

static void destroy(struct sluice_sample_list *list)
{
    sluice_jpeg_index_file_close(list->jpeg_indexes);
    sluice_freshness_destroy(list->freshness);
    sluice_subset_rows_destroy((struct sluice_subset_rows *)list->rows);
    sluice_manifest_destroy((struct sluice_manifest *)list->manifest);
    free(list);
}

sluice_status sluice_sample_list_create(struct sluice_manifest *manifest,
                                        struct sluice_jpeg_index_file *jpeg_indexes,
                                        bool should_verify, struct sluice_sample_list **list,
                                        struct sluice_err *err)
{
    struct sluice_sample_list *made = calloc(1, sizeof(*made));
    if (!made) {
        sluice_jpeg_index_file_close(jpeg_indexes);
        sluice_manifest_destroy(manifest);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a list of samples");
    }
    made->manifest = manifest;
    made->jpeg_indexes = jpeg_indexes;
    made->bytes = sluice_manifest_memory(manifest) + manifest->num_entries * OTHER_BYTES;
    for (size_t i = 0; i < manifest->num_entries; i++)
        made->dataset_bytes += sluice_manifest_at(manifest, i).bytes;
    atomic_init(&made->refs, 1);
    sluice_hash128_hex(sluice_manifest_id(manifest), made->dataset_id);
    made->list_hash = sluice_manifest_list_hash(manifest);
    made->plain_list_hash = sluice_manifest_plain_list_hash(manifest);
    struct sluice_subset_rows *rows = NULL;
    sluice_status status = sluice_subset_rows_create(manifest, &rows, err);
    made->rows = rows;
    if (status == SLUICE_OK)
        status = sluice_freshness_create(manifest, should_verify, &made->freshness, err);
    if (status != SLUICE_OK) {
        destroy(made);
        return status;
    }
    sluice_manifest_rest(manifest);
    *list = made;
    return SLUICE_OK;
}

void sluice_sample_list_source_find(struct sluice_sample_list_source *source,
                                    struct sluice_store *store)
{
    for (size_t i = 0; i < source->roots->num; i++) {
        const char *name = source->roots->at[i].name;
        struct sluice_store *one = name[0] ? sluice_store_roots_member(store, name) : store;
        struct sluice_store_limits limits;
        one->limits(one, &limits);
        source->stores[i] = limits.is_remote ? one : NULL;
    }
}

/* --- one root --- */

struct root {
    const struct sluice_sample_list_source *source;
    const char *place;
    struct sluice_store *store; /* NULL: a folder */
};

/* The samples of one root. */
struct listed {
    struct sluice_manifest *manifest;
    struct sluice_jpeg_index_file *jpeg_indexes;
};

/* Copies an object of the root into memory; *path names it, for those who read files, until the
 * descriptor is closed.  SLUICE_E_NOT_FOUND: there is none. */
static sluice_status copy_to_memory(const struct root *root, const char *name, int *out,
                                    char path[32], struct sluice_err *err)
{
    struct sluice_err why = {0};
    uint64_t bytes;
    const int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0)
        return sluice_fail(err, SLUICE_E_IO, "%s/%s: cannot keep a copy: %s", root->place, name,
                           strerror(errno));
    const sluice_status status = sluice_store_copy(root->store, name, fd, &bytes, &why);
    if (status != SLUICE_OK) {
        close(fd);
        return sluice_fail(err, status, "%s/%s: %s", root->place, name, why.text);
    }
    sluice_log(SLUICE_LOG_INFO, "%s: %s of %llu bytes is kept in memory", root->place, name,
               (unsigned long long)bytes);
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    *out = fd;
    return SLUICE_OK;
}

/* A file, the bucket's manifest, or else its list. */
static sluice_status read_remote_manifest(const struct root *root,
                                          struct sluice_manifest **manifest, struct sluice_err *err)
{
    int fd;
    char path[32];
    struct sluice_err why = {0};
    if (root->source->manifest)
        return sluice_manifest_read(root->source->manifest, manifest, err);
    sluice_status status = copy_to_memory(root, SLUICE_MANIFEST_FILE, &fd, path, &why);
    if (status == SLUICE_E_NOT_FOUND)
        return sluice_manifest_of_store(root->store, root->place, manifest, err);
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "%s", why.text);
    status = sluice_manifest_read(path, manifest, &why);
    close(fd);
    return status == SLUICE_OK
               ? status
               : sluice_fail(err, status, "%s/" SLUICE_MANIFEST_FILE ": %s", root->place, why.text);
}

/* A file, or the bucket's. */
static sluice_status read_remote_index(const struct root *root,
                                       struct sluice_jpeg_index_file **file, struct sluice_err *err)
{
    int fd;
    char path[32];
    struct sluice_err why = {0};
    if (strcmp(root->source->jpeg_index, "auto") != 0)
        return sluice_jpeg_index_file_choose(root->source->jpeg_index, "", file, err);
    sluice_status status = copy_to_memory(root, SLUICE_JPEG_INDEX_FILE, &fd, path, &why);
    if (status != SLUICE_OK) { /* without permission to list, a missing one looks like a secret */
        if (status != SLUICE_E_NOT_FOUND)
            sluice_log(SLUICE_LOG_WARN, "%s; going on without this index of JPEGs", why.text);
        return SLUICE_OK;
    }
    status = sluice_jpeg_index_file_choose(path, "", file, err);
    close(fd);
    return status;
}

static sluice_status read_remote(const struct root *root, struct listed *listed,
                                 struct sluice_err *err)
{
    sluice_status status = read_remote_manifest(root, &listed->manifest, err);
    /* A manifest that is a file says what it knows; nobody walks over a bucket for it. */
    if (status == SLUICE_OK)
        status = sluice_manifest_check_passed_over(
            listed->manifest, root->place, root->source->is_strict && listed->manifest->passed_over,
            NULL, err);
    return status == SLUICE_OK ? read_remote_index(root, &listed->jpeg_indexes, err) : status;
}

static sluice_status read_folder(const struct root *root, struct listed *listed,
                                 struct sluice_err *err)
{
    const struct sluice_sample_list_source *source = root->source;
    char in_root[SLUICE_MAX_PATH_BYTES];
    const char *path = source->manifest;
    sluice_status status = SLUICE_OK;
    if (!path) {
        status = sluice_path_in(root->place, SLUICE_MANIFEST_FILE, in_root, err);
        path = in_root;
    }
    if (status == SLUICE_OK)
        status = source->manifest || (source->needs_whole && access(path, F_OK) == 0)
                     ? sluice_manifest_read(path, &listed->manifest, err)
                     : sluice_manifest_open(root->place, NULL, &listed->manifest, err);
    if (status == SLUICE_OK)
        status = sluice_manifest_check_passed_over(listed->manifest, root->place, source->is_strict,
                                                   NULL, err);
    if (status == SLUICE_OK)
        status = sluice_jpeg_index_file_choose(source->jpeg_index, root->place,
                                               &listed->jpeg_indexes, err);
    return status;
}

/* --- all roots --- */

/* Takes the indexes. */
static sluice_status join(const struct sluice_roots *roots, struct listed *of_roots,
                          struct listed *whole, struct sluice_err *err)
{
    struct sluice_manifest_part parts[SLUICE_MAX_ROOTS];
    struct sluice_jpeg_index_file *indexes[SLUICE_MAX_ROOTS];
    const char *names[SLUICE_MAX_ROOTS];
    for (size_t i = 0; i < roots->num; i++) {
        names[i] = roots->at[i].name;
        parts[i] = (struct sluice_manifest_part){of_roots[i].manifest, names[i], names[i]};
        indexes[i] = of_roots[i].jpeg_indexes;
        of_roots[i].jpeg_indexes = NULL;
    }
    const sluice_status status =
        sluice_jpeg_index_file_join(names, indexes, roots->num, &whole->jpeg_indexes, err);
    return status == SLUICE_OK
               ? sluice_manifest_join(parts, roots->num, &whole->manifest, NULL, err)
               : status;
}

sluice_status sluice_sample_list_read(const struct sluice_sample_list_source *source,
                                      struct sluice_sample_list **list, struct sluice_err *err)
{
    const struct sluice_roots *roots = source->roots;
    struct listed of_roots[SLUICE_MAX_ROOTS] = {{NULL, NULL}}, whole = {NULL, NULL};
    bool is_walked[SLUICE_MAX_ROOTS] = {false};
    sluice_status status = SLUICE_OK;
    assert(roots->num > 0);
    for (size_t i = 0; status == SLUICE_OK && i < roots->num; i++) {
        const struct root root = {source, roots->at[i].place, source->stores[i]};
        status = root.store ? read_remote(&root, &of_roots[i], err)
                            : read_folder(&root, &of_roots[i], err);
        is_walked[i] = status == SLUICE_OK && of_roots[i].manifest->passed_over;
    }
    if (status == SLUICE_OK && !roots->at[0].name[0]) {
        whole = of_roots[0];
        of_roots[0] = (struct listed){NULL, NULL};
    } else if (status == SLUICE_OK) {
        status = join(roots, of_roots, &whole, err);
    }
    for (size_t i = 0; i < roots->num; i++) {
        sluice_jpeg_index_file_close(of_roots[i].jpeg_indexes);
        sluice_manifest_destroy(of_roots[i].manifest);
    }
    if (status != SLUICE_OK) {
        sluice_jpeg_index_file_close(whole.jpeg_indexes);
        return status;
    }
    struct sluice_sample_list *made = NULL;
    status = sluice_sample_list_create(whole.manifest, whole.jpeg_indexes, source->should_verify,
                                       &made, err);
    if (status != SLUICE_OK)
        return status;
    memcpy(made->is_walked, is_walked, sizeof(is_walked));
    *list = made;
    return SLUICE_OK;
}

struct sluice_sample_list *sluice_sample_list_ref(struct sluice_sample_list *list)
{
    atomic_fetch_add_explicit(&list->refs, 1, memory_order_relaxed);
    return list;
}

void sluice_sample_list_unref(struct sluice_sample_list *list)
{
    /* Acquire and release: the last one sees what the others wrote. */
    if (!list || atomic_fetch_sub_explicit(&list->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (list->on_gone)
        list->on_gone(list->ctx, list->bytes);
    destroy(list);
}

sluice_status sluice_sample_lists_create(struct sluice_sample_list *list,
                                         struct sluice_sample_lists **lists, struct sluice_err *err)
{
    struct sluice_sample_lists *made = calloc(1, sizeof(*made));
    if (!made) {
        sluice_sample_list_unref(list);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a list of samples");
    }
    pthread_mutex_init(&made->lock, NULL);
    made->now = list;
    *lists = made;
    return SLUICE_OK;
}

void sluice_sample_lists_destroy(struct sluice_sample_lists *lists)
{
    if (!lists)
        return;
    sluice_sample_list_unref(lists->now);
    pthread_mutex_destroy(&lists->lock);
    free(lists);
}

struct sluice_sample_list *sluice_sample_lists_now(struct sluice_sample_lists *lists)
{
    pthread_mutex_lock(&lists->lock);
    struct sluice_sample_list *list = sluice_sample_list_ref(lists->now);
    pthread_mutex_unlock(&lists->lock);
    return list;
}

struct sluice_sample_list *sluice_sample_lists_newest(struct sluice_sample_lists *lists,
                                                      struct sluice_sample_list *held)
{
    pthread_mutex_lock(&lists->lock);
    const bool is_same =
        lists->now == held || strcmp(lists->now->dataset_id, held->dataset_id) == 0;
    struct sluice_sample_list *list = sluice_sample_list_ref(is_same ? lists->now : held);
    pthread_mutex_unlock(&lists->lock);
    return list;
}

void sluice_sample_lists_replace(struct sluice_sample_lists *lists, struct sluice_sample_list *list,
                                 void (*on_gone)(void *ctx, uint64_t bytes), void *ctx)
{
    pthread_mutex_lock(&lists->lock);
    struct sluice_sample_list *old = lists->now;
    lists->now = list;
    pthread_mutex_unlock(&lists->lock);
    /* Nobody else reads these before the last reference goes, which comes after ours. */
    old->on_gone = on_gone;
    old->ctx = ctx;
    sluice_sample_list_unref(old);
}
