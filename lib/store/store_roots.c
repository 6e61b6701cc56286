#include "store/store_roots.h"

#include "base/compiler.h"
#include "base/file.h"
#include "base/text.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct member {
    char name[SLUICE_ROOT_NAME_BYTES];
    struct sluice_store *store;
};

struct store_roots {
    struct sluice_store store;
    _Atomic uint64_t refused; /* a count, of those that no member sees */
    size_t num_members;       /* constant from here */
    struct member members[SLUICE_MAX_ROOTS];
};

static struct store_roots *from_store(struct sluice_store *store)
{
    return SLUICE_CONTAINER_OF(store, struct store_roots, store);
}

/* *rest: the path in it. */
static struct sluice_store *find(const struct store_roots *s, const char *path, const char **rest)
{
    for (size_t i = 0; i < s->num_members; i++) {
        *rest = sluice_root_rest(s->members[i].name, path);
        if (*rest)
            return s->members[i].store;
    }
    return NULL;
}

/* The error for a path that begins with no member's name.  Any member can tell whether it leads
 * out. */
static sluice_status fail_find(struct store_roots *s, const char *path, struct sluice_err *err)
{
    struct sluice_store *any = s->members[0].store;
    assert(any);
    if (path[0] != '/' && any->relative(any, path))
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "no root has the name that it begins with");
    if (path[0] == '/')
        atomic_fetch_add_explicit(&s->refused, 1, memory_order_relaxed);
    return sluice_fail(err, SLUICE_E_INVALID, "refused: leads out of the roots");
}

/* --- list --- */

struct listing {
    const char *name;
    sluice_object_fn *fn;
    void *ctx;
};

static sluice_status add_name(void *ctx, const struct sluice_object *object, struct sluice_err *err)
{
    const struct listing *listing = ctx;
    char key[SLUICE_MAX_PATH_BYTES];
    if (!sluice_print(key, sizeof(key), "%s/%s", listing->name, object->key))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "%s/%.100s...: the path is too long",
                           listing->name, object->key);
    struct sluice_object named = *object;
    named.key = key;
    return listing->fn(listing->ctx, &named, err);
}

static sluice_status store_roots_list(struct sluice_store *store, const char *prefix,
                                      sluice_object_fn *fn, void *ctx, struct sluice_err *err)
{
    struct store_roots *s = from_store(store);
    for (size_t i = 0; i < s->num_members; i++) {
        const struct member *member = &s->members[i];
        const size_t len = strlen(prefix), name_len = strlen(member->name);
        const char *rest = sluice_root_rest(member->name, prefix);
        if (!rest && len <= name_len && strncmp(prefix, member->name, len) == 0)
            rest = "";
        if (!rest)
            continue;
        struct listing listing = {member->name, fn, ctx};
        const sluice_status status =
            member->store->list(member->store, rest, add_name, &listing, err);
        if (status != SLUICE_OK)
            return status;
    }
    return SLUICE_OK;
}

/* --- one object --- */

static sluice_status store_roots_describe(struct sluice_store *store, const char *key,
                                          struct sluice_object *object, struct sluice_err *err)
{
    const char *rest;
    struct sluice_store *member = find(from_store(store), key, &rest);
    if (!member)
        return fail_find(from_store(store), key, err);
    struct sluice_object found;
    const sluice_status status = member->describe(member, rest, &found, err);
    if (status != SLUICE_OK)
        return status;
    found.key = key;
    *object = found;
    return SLUICE_OK;
}

static sluice_status store_roots_read(struct sluice_store *store,
                                      const struct sluice_store_read *read,
                                      struct sluice_buf **file, struct sluice_err *err)
{
    struct sluice_store_read in_member = *read;
    struct sluice_store *member = find(from_store(store), read->key, &in_member.key);
    return member ? member->read(member, &in_member, file, err)
                  : fail_find(from_store(store), read->key, err);
}

static void store_roots_cancel(struct sluice_store *store, const void *owner)
{
    const struct store_roots *s = from_store(store);
    for (size_t i = 0; i < s->num_members; i++)
        s->members[i].store->cancel(s->members[i].store, owner);
}

/* --- of all --- */

static void store_roots_limits(struct sluice_store *store, struct sluice_store_limits *limits)
{
    const struct store_roots *s = from_store(store);
    struct sluice_store_limits all = {.max_object_bytes = UINT64_MAX};
    for (size_t i = 0; i < s->num_members; i++) {
        struct sluice_store_limits one;
        s->members[i].store->limits(s->members[i].store, &one);
        if (one.max_object_bytes < all.max_object_bytes)
            all.max_object_bytes = one.max_object_bytes;
        if (one.merge_gap_bytes > all.merge_gap_bytes)
            all.merge_gap_bytes = one.merge_gap_bytes;
        if (one.parallel_reads > all.parallel_reads)
            all.parallel_reads = one.parallel_reads;
        all.is_remote |= one.is_remote;
    }
    *limits = all;
}

static sluice_status store_roots_look(struct sluice_store *store,
                                      const struct sluice_store_known *known,
                                      struct sluice_err *err)
{
    struct sluice_store_known in_member = *known;
    struct sluice_store *member = find(from_store(store), known->path, &in_member.path);
    if (!member)
        return fail_find(from_store(store), known->path, err);
    return member->look ? member->look(member, &in_member, err) : SLUICE_OK;
}

static const char *store_roots_relative(struct sluice_store *store, const char *path)
{
    struct store_roots *s = from_store(store);
    while (path[0] == '.' && path[1] == '/')
        path += 1 + strspn(path + 1, "/");
    const char *rest;
    struct sluice_store *member = find(s, path, &rest);
    if (!member)
        return fail_find(s, path, NULL) == SLUICE_E_NOT_FOUND ? path : NULL;
    if (rest[0] == '/') /* a//b: a member would take it for an absolute path */
        atomic_fetch_add_explicit(&s->refused, 1, memory_order_relaxed);
    else if (member->relative(member, rest))
        return path;
    return NULL;
}

static uint64_t store_roots_refused(struct sluice_store *store)
{
    const struct store_roots *s = from_store(store);
    uint64_t refused = atomic_load_explicit(&s->refused, memory_order_relaxed);
    for (size_t i = 0; i < s->num_members; i++)
        refused += s->members[i].store->refused(s->members[i].store);
    return refused;
}

static void store_roots_destroy(struct sluice_store *store)
{
    if (!store)
        return;
    struct store_roots *s = from_store(store);
    for (size_t i = 0; i < s->num_members; i++)
        s->members[i].store->destroy(s->members[i].store);
    free(s);
}

sluice_status sluice_store_roots_create(const char *const *names,
                                        struct sluice_store *const *stores, size_t num_stores,
                                        struct sluice_store **store, struct sluice_err *err)
{
    assert(num_stores > 0 && num_stores <= SLUICE_MAX_ROOTS);
    struct store_roots *s = calloc(1, sizeof(*s));
    if (!s) {
        for (size_t i = 0; i < num_stores; i++)
            stores[i]->destroy(stores[i]);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a store");
    }
    s->store = (struct sluice_store){
        .list = store_roots_list,
        .describe = store_roots_describe,
        .read = store_roots_read,
        .cancel = store_roots_cancel,
        .limits = store_roots_limits,
        .relative = store_roots_relative,
        .refused = store_roots_refused,
        .destroy = store_roots_destroy,
    };
    s->num_members = num_stores;
    for (size_t i = 0; i < num_stores; i++) {
        assert(i == 0 || sluice_root_compare(names[i - 1], names[i]) < 0);
        (void)sluice_print(s->members[i].name, sizeof(s->members[i].name), "%s", names[i]);
        s->members[i].store = stores[i];
        if (stores[i]->look)
            s->store.look = store_roots_look;
    }
    *store = &s->store;
    return SLUICE_OK;
}

struct sluice_store *sluice_store_roots_member(struct sluice_store *store, const char *name)
{
    if (store->destroy != store_roots_destroy)
        return NULL;
    const struct store_roots *s = from_store(store);
    for (size_t i = 0; i < s->num_members; i++) {
        if (strcmp(s->members[i].name, name) == 0)
            return s->members[i].store;
    }
    return NULL;
}
