#include "store/cache_index.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKETS 1024 /* a power of two, as all that follow */
#define NONE UINT32_MAX
#define DRAWS 8

struct node {
    struct sluice_cache_piece piece;
    uint32_t next; /* in its bucket's chain; NONE: the last */
    uint32_t used; /* the index's time when the object was looked for */
};

struct sluice_cache_index {
    struct node *nodes; /* without gaps */
    uint32_t *buckets;  /* the first node of each chain */
    size_t num_nodes, num_buckets;
    uint32_t now; /* counts what is looked for */
};

sluice_status sluice_cache_index_create(struct sluice_cache_index **out, struct sluice_err *err)
{
    struct sluice_cache_index *index = calloc(1, sizeof(*index));
    if (!index)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the cache's index");
    *out = index;
    return SLUICE_OK;
}

void sluice_cache_index_destroy(struct sluice_cache_index *index)
{
    if (!index)
        return;
    free(index->nodes);
    free(index->buckets);
    free(index);
}

static uint32_t *bucket_of(struct sluice_cache_index *index, uint64_t id)
{
    return &index->buckets[id & (index->num_buckets - 1)];
}

static uint32_t first_of(struct sluice_cache_index *index, uint64_t id)
{
    return index->num_buckets ? *bucket_of(index, id) : NONE;
}

/* As many buckets as there is room for nodes.  False: no memory. */
static bool grow(struct sluice_cache_index *index)
{
    if (index->num_nodes < index->num_buckets)
        return true;
    const size_t num = index->num_buckets ? 2 * index->num_buckets : FIRST_BUCKETS;
    if (num >= NONE)
        return false;
    struct node *nodes = realloc(index->nodes, num * sizeof(*nodes));
    if (!nodes)
        return false;
    index->nodes = nodes;
    uint32_t *buckets = malloc(num * sizeof(*buckets));
    if (!buckets)
        return false;
    free(index->buckets);
    index->buckets = buckets;
    index->num_buckets = num;
    memset(buckets, 0xff, num * sizeof(*buckets)); /* NONE */
    for (uint32_t i = 0; i < index->num_nodes; i++) {
        uint32_t *first = bucket_of(index, nodes[i].piece.id);
        nodes[i].next = *first;
        *first = i;
    }
    return true;
}

static bool overlap(const struct sluice_cache_piece *a, const struct sluice_cache_piece *b)
{
    return a->from < b->from + b->bytes && b->from < a->from + a->bytes;
}

bool sluice_cache_index_add(struct sluice_cache_index *index,
                            const struct sluice_cache_piece *piece)
{
    size_t num = 0;
    for (uint32_t i = first_of(index, piece->id); i != NONE; i = index->nodes[i].next) {
        const struct sluice_cache_piece *other = &index->nodes[i].piece;
        if (other->id == piece->id && (overlap(other, piece) || ++num == SLUICE_CACHE_MAX_PIECES))
            return false;
    }
    if (!grow(index))
        return false;
    uint32_t *first = bucket_of(index, piece->id);
    index->nodes[index->num_nodes] = (struct node){*piece, *first, index->now};
    *first = (uint32_t)index->num_nodes++;
    return true;
}

/* Where the number of a node stands that is in the chain of its id. */
static uint32_t *link_to(struct sluice_cache_index *index, uint64_t id, uint32_t node)
{
    uint32_t *link = bucket_of(index, id);
    while (*link != node)
        link = &index->nodes[*link].next;
    return link;
}

bool sluice_cache_index_remove(struct sluice_cache_index *index,
                               const struct sluice_cache_piece *piece)
{
    uint32_t at = first_of(index, piece->id);
    while (at != NONE && memcmp(&index->nodes[at].piece, piece, sizeof(*piece)) != 0)
        at = index->nodes[at].next;
    if (at == NONE)
        return false;
    *link_to(index, piece->id, at) = index->nodes[at].next;
    const uint32_t last = (uint32_t)--index->num_nodes;
    if (at != last) {
        *link_to(index, index->nodes[last].piece.id, last) = at;
        index->nodes[at] = index->nodes[last];
    }
    return true;
}

size_t sluice_cache_index_find(struct sluice_cache_index *index, uint64_t id,
                               struct sluice_cache_piece pieces[SLUICE_CACHE_MAX_PIECES])
{
    size_t num = 0;
    index->now++;
    for (uint32_t i = first_of(index, id); i != NONE; i = index->nodes[i].next) {
        struct node *node = &index->nodes[i];
        if (node->piece.id != id)
            continue;
        node->used = index->now;
        size_t at = num++;
        for (; at > 0 && pieces[at - 1].from > node->piece.from; at--)
            pieces[at] = pieces[at - 1];
        pieces[at] = node->piece;
    }
    return num;
}

bool sluice_cache_index_victim(struct sluice_cache_index *index, struct sluice_rng *rng,
                               struct sluice_cache_piece *piece)
{
    if (!index->num_nodes)
        return false;
    const struct node *oldest = NULL;
    for (unsigned i = 0; i < DRAWS; i++) {
        const struct node *node = &index->nodes[sluice_rng_below(rng, (uint32_t)index->num_nodes)];
        if (!oldest || index->now - node->used > index->now - oldest->used)
            oldest = node;
    }
    *piece = oldest->piece;
    return true;
}

size_t sluice_cache_index_count(const struct sluice_cache_index *index)
{
    return index->num_nodes;
}
