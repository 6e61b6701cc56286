#include "image/jpeg/sync_scan.h"

#include "base/buf.h"
#include "image/jpeg/lane_reader.h"

/* Parallel Huffman decoding by self-synchronisation (Klein & Wiseman 2003).
 *
 * Where an MCU begins is known only to a reader that has read all before it.  So that the wait for
 * each lookup is not lost, several scanners read different parts of the scan by turns.  The first
 * starts at the scan's start, the others at byte positions chosen blindly.  Such a scanner decodes
 * nonsense at first, but Huffman codes synchronise themselves: after some MCUs it begins MCUs at
 * the same bits as a reader from the scan's start, and from there on both read the same.
 *
 *     scanner 0   |m---m---m---m--->|
 *     scanner 1                 ?~~~~m---m---m--->|       ~ not yet synchronised
 *     tracker                       --^ meets a mark: the marks of scanner 1 hold from here on
 *
 * Each scanner sets marks: the bit where an MCU began and the DC sums so far.  When all are done, a
 * tracker follows the marks of scanner 0, then reads on alone until it stands on a mark of scanner
 * 1, follows those, and so on.  If it never meets a mark, that scanner's work is lost, and the
 * tracker reads its part alone: slower, but right all the same. */

#define NUM_SCANNERS 4
#define SKIPS_PER_REFILL (56 / MAX_SKIP_BITS)

/* Bytes; a shorter part is not worth a scanner. */
#define MIN_BYTES_PER_LANE 2048

/* From a mark to a point after it the tracker reads alone, so marks are close to each other. */
#define MAX_BLOCKS_TO_MARK 9

/* --- one reader --- */

/* Reads one symbol of any length and skips its value, unless that is the DC's. */
static bool skip_symbol(struct sluice_jpeg_reader *in, const struct sluice_jpeg_coding *coding,
                        uint32_t *dc, bool *is_end)
{
    refill(in);
    const struct sluice_jpeg_symbol symbol = take_symbol(in, coding);
    if (!symbol.is_sound)
        return false;
    if (in->pos == 0)
        *dc += (uint32_t)sluice_jpeg_extend(in->bits, symbol.size);
    in->bits <<= symbol.size;
    in->pos += symbol.is_end ? 0 : symbol.run + 1;
    *is_end = symbol.is_end || in->pos == 64;
    refill(in);
    return in->pos <= 64;
}

static ALWAYS_INLINE bool skip_block(struct sluice_jpeg_reader *in,
                                     const struct sluice_jpeg_coding *coding, const uint16_t *table,
                                     uint32_t *dc)
{
    bool is_end = false;
    while (!is_end) {
        refill(in);
        for (unsigned i = 0; i < SKIPS_PER_REFILL && !is_end; i++, table = coding->skips.rest) {
            const uint64_t index = in->bits >> (64 - SKIP_BITS);
            const uint32_t taken = table[index];
            const size_t pos = in->pos + (taken >> ADVANCE_SHIFT);
            if (__builtin_expect(pos > 64, 0)) {
                if (!skip_symbol(in, coding, dc, &is_end))
                    return false;
                continue;
            }
            if (in->pos == 0)
                *dc += (uint32_t)coding->skips.dc[index];
            in->bits <<= taken & 63;
            in->pos = pos;
            is_end = ((taken | pos) & IS_END) != 0;
        }
    }
    return true;
}

bool sluice_jpeg_skip_block(const struct sluice_jpeg_coding *coding, struct sluice_jpeg_reader *in,
                            uint32_t *dc)
{
    return skip_block(in, coding, in->pos == 0 ? coding->skips.first : coding->skips.rest, dc);
}

bool sluice_jpeg_skip_mcu(const struct sluice_jpeg_lanes *lanes, const struct sluice_jpeg *jpeg,
                          struct sluice_jpeg_reader *in, uint32_t dc[SLUICE_JPEG_MAX_COMPONENTS])
{
    for (unsigned b = 0; b < jpeg->blocks_in_mcu; b++) {
        const unsigned c = jpeg->block_component[b];
        in->pos = 0;
        if (!skip_block(in, lanes->coding[c], lanes->coding[c]->skips.first, &dc[c]))
            return false;
    }
    return true;
}

/* --- several scanners --- */

/* The start of an MCU, as a scanner saw it. */
struct mark {
    size_t bit; /* from the scan's start */
    /* The sums of the DC differences since the scanner's start. */
    uint32_t dc[SLUICE_JPEG_MAX_COMPONENTS];
};

/* Reads with the lane of its number, up to `end`. */
struct scanner {
    size_t end; /* a bit of the scan */
    struct mark *marks;
    size_t num_marks, capacity;
    /* Sums of DC differences; those of nonsense may wrap around. */
    uint32_t dc[SLUICE_JPEG_MAX_COMPONENTS];
    bool is_first; /* it starts where an MCU begins */
};

struct search {
    struct sluice_jpeg_lanes *lanes;
    const struct sluice_jpeg *jpeg;
    const struct sluice_jpeg_scan *scan;
    const struct sluice_jpeg_sync_scan_aim *aims;
    struct sluice_jpeg_point *points; /* as many */
    size_t num_points;
    const uint8_t *bytes;
    size_t num_bits;
    struct sluice_buf *marks;
    struct scanner scanners[NUM_SCANNERS];
    uint32_t mcus_in_chunk;
    unsigned num_busy;
};

static void put_mark(struct search *search, struct scanner *scanner,
                     const struct sluice_jpeg_lane *lane)
{
    struct mark *mark = &scanner->marks[scanner->num_marks++];
    mark->bit = reader_position(&lane->reader, search->bytes);
    memcpy(mark->dc, scanner->dc, sizeof(mark->dc));
}

/* At the end of a scanner's chunk, or at a fault in it: sets a mark and starts the next chunk. */
static __attribute__((noinline)) void advance(struct search *search, struct scanner *scanner,
                                              struct sluice_jpeg_lane *lane)
{
    const struct sluice_jpeg *jpeg = search->jpeg;
    if (lane->reader.cell == lane->end) {
        const struct sluice_jpeg_cell *cell = lane->cells;
        for (uint32_t m = 0; m < lane->num_mcus; m++) {
            for (unsigned b = 0; b < jpeg->blocks_in_mcu; b++, cell++)
                scanner->dc[jpeg->block_component[b]] += (uint32_t)dc_of_scanner(cell);
        }
        put_mark(search, scanner, lane);
    } else if (scanner->is_first) {
        scanner->end = 0; /* the tracker goes on from the last mark and finds the fault */
    } else {
        /* Not synchronised, and the bits cannot be codes: again from the next byte on. */
        const size_t position = reader_position(&lane->reader, search->bytes);
        scanner->num_marks = 0;
        start_reader(&lane->reader, search->bytes, position / 8 * 8 + 8);
    }
    const size_t position = reader_position(&lane->reader, search->bytes);
    if (position >= scanner->end || scanner->num_marks == scanner->capacity) {
        sluice_jpeg_lane_stop(lane);
        search->num_busy--;
        return;
    }
    sluice_jpeg_lane_start_chunk(lane, search->mcus_in_chunk, jpeg->blocks_in_mcu);
}

/* A point must be at one of these MCUs, both ends included. */
struct range {
    uint64_t first, last;
};

static struct range range_of(const struct search *search, size_t point)
{
    const struct sluice_jpeg_sync_scan_aim *aim = &search->aims[point];
    const uint64_t start = (uint64_t)aim->row * search->jpeg->mcus_across;
    return (struct range){start + aim->first_column, start + aim->last_column};
}

/* A scanner synchronises with the codes first; it finds out which block of an MCU it is in only if
 * blocks are coded differently, or if an MCU is one block. */
static bool can_synchronise(const struct search *search)
{
    bool is_same = true;
    for (unsigned c = 1; c < search->jpeg->num_components; c++)
        is_same = is_same && search->lanes->coding[c] == search->lanes->coding[0];
    return !is_same || search->jpeg->blocks_in_mcu == 1;
}

/* Starts the first scanner at the scan's start and the others at equal distances up to the last
 * point. */
static bool start_scanners(struct search *search, struct sluice_buf_pool *pool)
{
    const struct sluice_jpeg *jpeg = search->jpeg;
    const uint64_t num_mcus = (uint64_t)jpeg->mcus_across * jpeg->mcus_down;
    const uint64_t last_mcu = range_of(search, search->num_points - 1).last;
    /* A guess of where the last point is, as if all MCUs took the same bytes. */
    const size_t bytes = (size_t)((search->num_bits / 8) * last_mcu / num_mcus);
    const size_t wish = can_synchronise(search) ? bytes / MIN_BYTES_PER_LANE : 1;
    const unsigned num_used = wish < 1 ? 1 : wish > NUM_SCANNERS ? NUM_SCANNERS : (unsigned)wish;
    search->num_busy = num_used;
    const unsigned mcus_to_mark = MAX_BLOCKS_TO_MARK / jpeg->blocks_in_mcu;
    search->mcus_in_chunk = mcus_to_mark > 0 ? mcus_to_mark : 1;
    /* A block takes two bits at least; or four times the marks that a scanner should set. */
    size_t capacity = bytes / num_used * 4 / search->mcus_in_chunk / jpeg->blocks_in_mcu;
    const size_t enough = (size_t)(last_mcu * 4 / num_used / search->mcus_in_chunk);
    capacity = (capacity < enough ? capacity : enough) + 16;
    if (sluice_buf_create(pool, capacity * num_used * sizeof(struct mark), &search->marks, NULL) !=
        SLUICE_OK)
        return false;
    struct mark *marks = (struct mark *)(void *)search->marks->data;
    for (unsigned l = 0; l < NUM_SCANNERS; l++) {
        struct scanner *scanner = &search->scanners[l];
        struct sluice_jpeg_lane *lane = &search->lanes->lanes[l];
        const bool is_used = l < num_used;
        *scanner = (struct scanner){
            .end = bytes * (l + 1) / num_used * 8,
            .marks = marks + capacity * l,
            .capacity = capacity,
            .is_first = l == 0,
        };
        sluice_jpeg_lane_init(search->lanes, lane, jpeg, true);
        start_reader(&lane->reader, search->bytes, is_used ? bytes * l / num_used * 8 : 0);
        sluice_jpeg_lane_start_chunk(lane, is_used ? search->mcus_in_chunk : 0,
                                     jpeg->blocks_in_mcu);
        if (!is_used)
            sluice_jpeg_lane_stop(lane);
    }
    put_mark(search, &search->scanners[0], &search->lanes->lanes[0]);
    return true;
}

static ALWAYS_INLINE void scan_all(struct search *search)
{
    struct sluice_jpeg_lane *lanes = search->lanes->lanes;
    struct sluice_jpeg_reader a = lanes[0].reader, b = lanes[1].reader, c = lanes[2].reader,
                              d = lanes[3].reader;
#define ADVANCE(in, l)                                                                             \
    if (__builtin_expect((in).cell >= lanes[l].end, 0)) {                                          \
        lanes[l].reader = (in);                                                                    \
        advance(search, &search->scanners[l], &lanes[l]);                                          \
        (in) = lanes[l].reader;                                                                    \
    }
    while (search->num_busy > 0) {
        refill(&a);
        refill(&b);
        refill(&c);
        refill(&d);
#pragma GCC unroll 8
        for (unsigned i = 0; i < SKIPS_PER_REFILL; i++) {
            skip(&a, &lanes[0]);
            skip(&b, &lanes[1]);
            skip(&c, &lanes[2]);
            skip(&d, &lanes[3]);
        }
        ADVANCE(a, 0)
        ADVANCE(b, 1)
        ADVANCE(c, 2)
        ADVANCE(d, 3)
    }
#undef ADVANCE
}

static void scan_all_plain(struct search *search)
{
    scan_all(search);
}

#ifdef SLUICE_HAVE_X86_KERNELS
static __attribute__((target("bmi,bmi2"))) void scan_all_bmi2(struct search *search)
{
    scan_all(search);
}
#endif

/* A place in the scan that is known to be right, and the next point to be found. */
struct tracker {
    const struct search *search;
    uint64_t mcu;
    size_t bit;
    uint32_t dc[SLUICE_JPEG_MAX_COMPONENTS];
    size_t point;
};

static bool skip_one(struct tracker *at)
{
    const struct search *search = at->search;
    struct sluice_jpeg_reader in;
    start_reader(&in, search->bytes, at->bit);
    if (!sluice_jpeg_skip_mcu(search->lanes, search->jpeg, &in, at->dc))
        return false;
    at->mcu++;
    at->bit = reader_position(&in, search->bytes);
    return at->bit <= search->num_bits;
}

/* Reads on to the next point, which must not lie before the tracker, and puts it. */
static bool put_point(struct tracker *at)
{
    const struct search *search = at->search;
    const struct range range = range_of(search, at->point);
    while (at->mcu < range.first) {
        if (!skip_one(at))
            return false;
    }
    const uint32_t row = search->aims[at->point].row;
    struct sluice_jpeg_point *point = &search->points[at->point++];
    *point = (struct sluice_jpeg_point){
        .scan = search->scan,
        .bit = at->bit,
        .column = (uint32_t)(at->mcu - (uint64_t)row * search->jpeg->mcus_across),
        .mcus_left = UINT32_MAX,
    };
    for (unsigned c = 0; c < SLUICE_JPEG_MAX_COMPONENTS; c++)
        point->dc[c] = (int32_t)at->dc[c];
    return true;
}

/* Moves the tracker to `next`; puts the points first that `next` would be too late for. */
static bool go_to(struct tracker *at, const struct tracker *next)
{
    while (at->point < at->search->num_points && range_of(at->search, at->point).last < next->mcu) {
        if (!put_point(at))
            return false;
    }
    const size_t point = at->point;
    *at = *next;
    at->point = point;
    return true;
}

/* Moves the tracker along a scanner's marks, from the mark `first`, on which it stands. */
static bool follow(struct tracker *at, const struct scanner *scanner, size_t first)
{
    struct tracker next = *at;
    uint32_t base[SLUICE_JPEG_MAX_COMPONENTS];
    for (unsigned c = 0; c < SLUICE_JPEG_MAX_COMPONENTS; c++)
        base[c] = at->dc[c] - scanner->marks[first].dc[c];
    for (size_t m = first + 1; m < scanner->num_marks; m++) {
        const struct mark *mark = &scanner->marks[m];
        next.mcu += at->search->mcus_in_chunk;
        next.bit = mark->bit;
        for (unsigned c = 0; c < SLUICE_JPEG_MAX_COMPONENTS; c++)
            next.dc[c] = base[c] + mark->dc[c];
        if (!go_to(at, &next))
            return false;
    }
    return true;
}

/* Reads on until the tracker stands on one of the scanner's marks, whose index becomes *mark.
 * *mark becomes num_marks if it meets no mark, or if all points are found. */
static bool meet(struct tracker *at, const struct scanner *scanner, size_t *mark)
{
    size_t m = 0;
    struct tracker next = *at;
    *mark = scanner->num_marks;
    while (at->point < at->search->num_points) {
        while (m < scanner->num_marks && scanner->marks[m].bit < at->bit)
            m++;
        if (m == scanner->num_marks || scanner->marks[m].bit == at->bit) {
            *mark = m;
            return true;
        }
        if (at->mcu == range_of(at->search, at->point).last) { /* `next` may come too late */
            if (!put_point(at))
                return false;
        } else if (!skip_one(&next) || !go_to(at, &next)) {
            return false;
        }
    }
    return true;
}

static bool put_points(const struct search *search, unsigned num_scanners)
{
    struct tracker at = {.search = search};
    for (unsigned l = 0; l < num_scanners; l++) {
        const struct scanner *scanner = &search->scanners[l];
        size_t mark = 0;
        if (l > 0 && !meet(&at, scanner, &mark))
            return false;
        if (mark < scanner->num_marks && !follow(&at, scanner, mark))
            return false;
    }
    while (at.point < search->num_points) {
        if (!put_point(&at))
            return false;
    }
    return true;
}

bool sluice_jpeg_sync_scan(struct sluice_jpeg_lanes *lanes, const struct sluice_jpeg *jpeg,
                           const struct sluice_jpeg_scan *scan,
                           const struct sluice_jpeg_sync_scan_aim *aims, size_t num_aims,
                           struct sluice_buf_pool *pool, struct sluice_jpeg_point *points)
{
    struct search search = {
        .lanes = lanes,
        .jpeg = jpeg,
        .scan = scan,
        .aims = aims,
        .points = points,
        .num_points = num_aims,
        .bytes = scan->data->data,
        .num_bits = scan->data->len * 8,
    };
    if (!start_scanners(&search, pool))
        return false;
    const unsigned num_scanners = search.num_busy;
#ifdef SLUICE_HAVE_X86_KERNELS
    if (lanes->has_bmi2)
        scan_all_bmi2(&search);
    else
#endif
        scan_all_plain(&search);
    for (unsigned l = 0; l < NUM_SCANNERS; l++)
        sluice_jpeg_lane_clear(&lanes->lanes[l]);
    const bool is_good = put_points(&search, num_scanners);
    sluice_buf_unref(search.marks);
    return is_good;
}
