#include "store/cache_plan.h"

#include <string.h>

struct range {
    size_t from, to;
    unsigned part;
};

static void add(struct sluice_cache_plan *plan, struct sluice_cache_stretch stretch)
{
    if (stretch.from < stretch.to)
        plan->stretches[plan->num_stretches++] = stretch;
}

/* Cuts a part by the pieces that there are. */
static void cut(struct sluice_cache_plan *plan, unsigned part, size_t from, size_t to,
                const struct sluice_cache_piece *pieces, size_t num_pieces)
{
    for (size_t i = 0; i < num_pieces && from < to; i++) {
        const size_t piece_to = (size_t)pieces[i].from + pieces[i].bytes;
        const size_t end = piece_to < to ? piece_to : to;
        if (piece_to <= from || pieces[i].from >= to)
            continue;
        const size_t begin = pieces[i].from > from ? pieces[i].from : from;
        add(plan, (struct sluice_cache_stretch){.from = from, .to = begin, .part = part});
        add(plan,
            (struct sluice_cache_stretch){
                .from = begin, .to = end, .part = part, .is_cached = true, .piece = pieces[i]});
        from = end;
    }
    add(plan, (struct sluice_cache_stretch){.from = from, .to = to, .part = part});
}

/* The second of the two ranges of one part that are closest; 0: no such pair. */
static size_t find_closest(const struct range *ranges, size_t num, size_t *gap)
{
    size_t closest = 0;
    for (size_t i = 1; i < num; i++) {
        const size_t between = ranges[i].from - ranges[i - 1].to;
        if (ranges[i].part == ranges[i - 1].part && (!closest || between < *gap)) {
            *gap = between;
            closest = i;
        }
    }
    return closest;
}

static void plan_ranges(struct sluice_cache_plan *plan, uint64_t merge_gap_bytes)
{
    struct range ranges[SLUICE_CACHE_MAX_STRETCHES];
    size_t num = 0, gap = 0;
    for (size_t i = 0; i < plan->num_stretches; i++) {
        const struct sluice_cache_stretch *s = &plan->stretches[i];
        if (!s->is_cached)
            ranges[num++] = (struct range){s->from, s->to, s->part};
    }
    for (size_t at; (at = find_closest(ranges, num, &gap)) &&
                    (num > SLUICE_STORE_MAX_PARTS || gap <= merge_gap_bytes);) {
        ranges[at - 1].to = ranges[at].to;
        num--;
        memmove(&ranges[at], &ranges[at + 1], (num - at) * sizeof(ranges[0]));
    }
    /* At most one range of each part is left where there were too many. */
    plan->num_fetched = (unsigned)num;
    for (size_t i = 0; i < num; i++)
        plan->fetched[i] = (struct sluice_file_part){ranges[i].from, ranges[i].to};
}

static bool is_fetched(const struct sluice_cache_plan *plan, const struct sluice_cache_stretch *s)
{
    for (unsigned i = 0; i < plan->num_fetched; i++) {
        if (plan->fetched[i].from <= s->from && s->to <= plan->fetched[i].to)
            return true;
    }
    return false;
}

void sluice_cache_plan_make(struct sluice_cache_plan *plan, const struct sluice_file_part *parts,
                            unsigned num_parts, const struct sluice_cache_piece *pieces,
                            size_t num_pieces, uint64_t merge_gap_bytes)
{
    plan->num_stretches = 0;
    for (unsigned i = 0; i < num_parts; i++)
        cut(plan, i, parts[i].from, parts[i].to, pieces, num_pieces);
    plan_ranges(plan, merge_gap_bytes);
    for (size_t i = 0; i < plan->num_stretches; i++)
        plan->stretches[i].is_fetched = is_fetched(plan, &plan->stretches[i]);
}
