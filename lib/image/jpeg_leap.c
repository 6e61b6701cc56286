#include "image/jpeg_leap.h"

#include "base/buf.h"
#include "image/jpeg_lane_reader.h"

/* Finding out where an MCU begins takes reading all that comes before it.
 *
 * Several lanes leap through the scan at a time, all but the first from some place where a byte
 * begins.  A lane that begins in the middle of an MCU reads nonsense at first.  But Huffman codes
 * fall into step: after some MCUs it is at the start of one whenever a reader from the scan's start
 * would be, and from there on both read the same.  So each lane marks where it was at the start of
 * an MCU, and when all are done, one goes on behind the first lane's end, until it meets a mark of
 * the second lane: from there on, that one's marks hold.  If it does not, the marks are of no use,
 * and nothing is lost but time. */

#define NUM_LEAPERS 4
#define LEAPS_PER_REFILL (56 / MAX_LEAP_BITS)

/* Fewer bytes than these are not worth a lane. */
#define MIN_BYTES_PER_LANE 2048

/* From a mark to a point behind it one reader has to go alone, so marks are close. */
#define MAX_BLOCKS_TO_MARK 9

/* --- one MCU after the other --- */

/* One symbol in full; its value is left out, unless it is the DC's. */
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
        for (unsigned i = 0; i < LEAPS_PER_REFILL && !is_end; i++, table = coding->leaps.rest) {
            const uint64_t index = in->bits >> (64 - LEAP_BITS);
            const uint32_t taken = table[index];
            const size_t pos = in->pos + (taken >> ADVANCE_SHIFT);
            if (__builtin_expect(pos > 64, 0)) {
                if (!skip_symbol(in, coding, dc, &is_end))
                    return false;
                continue;
            }
            if (in->pos == 0)
                *dc += (uint32_t)coding->leaps.dc[index];
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
    return skip_block(in, coding, in->pos == 0 ? coding->leaps.first : coding->leaps.rest, dc);
}

bool sluice_jpeg_skip_mcu(const struct sluice_jpeg_lanes *lanes, const struct sluice_jpeg *jpeg,
                          struct sluice_jpeg_reader *in, uint32_t dc[SLUICE_JPEG_MAX_COMPONENTS])
{
    for (unsigned b = 0; b < jpeg->blocks_in_mcu; b++) {
        const unsigned c = jpeg->block_component[b];
        in->pos = 0;
        if (!skip_block(in, lanes->coding[c], lanes->coding[c]->leaps.first, &dc[c]))
            return false;
    }
    return true;
}

/* --- several lanes --- */

/* The start of an MCU, as found by one that leaps through the scan. */
struct mark {
    size_t bit; /* from the scan's start */
    uint32_t
        dc[SLUICE_JPEG_MAX_COMPONENTS]; /* the sum of the differences from the reader's start on */
};

/* A reader that leaps from `start` to `end`, and what it comes by. */
struct leaper {
    size_t start, end; /* bits of the scan */
    struct mark *marks;
    size_t num_marks, capacity;
    uint32_t dc[SLUICE_JPEG_MAX_COMPONENTS]; /* sums, which nonsense may make wrap around */
    bool is_first;                           /* where it starts is known to be an MCU */
};

struct search {
    struct sluice_jpeg_lanes *lanes;
    const struct sluice_jpeg *jpeg;
    const struct sluice_jpeg_scan *scan;
    const struct sluice_jpeg_leap_aim *aim;
    struct sluice_jpeg_point *points;
    unsigned num_points, points_in_row;
    const uint8_t *bytes;
    size_t num_bits;
    struct sluice_buf *marks;
    struct leaper leapers[NUM_LEAPERS];
    uint32_t mcus_in_chunk;
    unsigned num_busy;
};

static void put_mark(struct search *search, struct leaper *leaper,
                     const struct sluice_jpeg_lane *lane)
{
    struct mark *mark = &leaper->marks[leaper->num_marks++];
    mark->bit = reader_position(&lane->reader, search->bytes);
    memcpy(mark->dc, leaper->dc, sizeof(mark->dc));
}

/* A lane at the end of a chunk. */
static __attribute__((noinline)) void advance(struct search *search, struct leaper *leaper,
                                              struct sluice_jpeg_lane *lane)
{
    const struct sluice_jpeg *jpeg = search->jpeg;
    if (lane->reader.cell == lane->end) {
        const struct sluice_jpeg_cell *cell = lane->cells;
        for (uint32_t m = 0; m < lane->num_mcus; m++) {
            for (unsigned b = 0; b < jpeg->blocks_in_mcu; b++, cell++)
                leaper->dc[jpeg->block_component[b]] += (uint32_t)dc_of_leaper(cell);
        }
        put_mark(search, leaper, lane);
    } else if (leaper->is_first) {
        leaper->end = 0; /* who goes on from its last mark will find the fault */
    } else {
        /* Nonsense, and found out: again from the next byte on. */
        const size_t position = reader_position(&lane->reader, search->bytes);
        leaper->num_marks = 0;
        start_reader(&lane->reader, search->bytes, position / 8 * 8 + 8);
    }
    const size_t position = reader_position(&lane->reader, search->bytes);
    if (position >= leaper->end || leaper->num_marks == leaper->capacity) {
        sluice_jpeg_lane_stop(lane);
        search->num_busy--;
        return;
    }
    sluice_jpeg_lane_start_chunk(lane, search->mcus_in_chunk, jpeg->blocks_in_mcu);
}

/* The MCUs at one of which a point must be. */
struct range {
    uint64_t first, last;
};

static struct range range_of(const struct search *search, unsigned point)
{
    const struct sluice_jpeg_leap_aim *aim = search->aim;
    const uint32_t row = aim->first_row + point / search->points_in_row;
    const uint64_t start = (uint64_t)row * search->jpeg->mcus_across;
    if (point % search->points_in_row == 0)
        return (struct range){start, start + aim->first_column};
    return (struct range){start + aim->first_column + 1, start + aim->end_column};
}

/* Whether who is in step with the codes finds out where in an MCU it is. */
static bool has_landmarks(const struct search *search)
{
    bool is_same = true;
    for (unsigned c = 1; c < search->jpeg->num_components; c++)
        is_same = is_same && search->lanes->coding[c] == search->lanes->coding[0];
    return !is_same || search->jpeg->blocks_in_mcu == 1;
}

/* The first leaper from the scan's start, the others spread over what comes before the last point.
 */
static bool start_leapers(struct search *search, struct sluice_buf_pool *pool)
{
    const struct sluice_jpeg *jpeg = search->jpeg;
    const uint64_t num_mcus = (uint64_t)jpeg->mcus_across * jpeg->mcus_down;
    const uint64_t last_mcu = range_of(search, search->num_points - 1).last;
    /* A guess. */
    const size_t bytes = (size_t)((search->num_bits / 8) * last_mcu / num_mcus);
    const size_t wish = has_landmarks(search) ? bytes / MIN_BYTES_PER_LANE : 1;
    const unsigned num_used = wish < 1 ? 1 : wish > NUM_LEAPERS ? NUM_LEAPERS : (unsigned)wish;
    search->num_busy = num_used;
    const unsigned mcus_to_mark = MAX_BLOCKS_TO_MARK / jpeg->blocks_in_mcu;
    search->mcus_in_chunk = mcus_to_mark > 0 ? mcus_to_mark : 1;
    /* Every block takes two bits at least; four times the marks that all should need. */
    size_t capacity = bytes / num_used * 4 / search->mcus_in_chunk / jpeg->blocks_in_mcu;
    const size_t enough = (size_t)(last_mcu * 4 / num_used / search->mcus_in_chunk);
    capacity = (capacity < enough ? capacity : enough) + 16;
    if (sluice_buf_create(pool, capacity * num_used * sizeof(struct mark), &search->marks, NULL) !=
        SLUICE_OK)
        return false;
    struct mark *marks = (struct mark *)(void *)search->marks->data;
    for (unsigned l = 0; l < NUM_LEAPERS; l++) {
        struct leaper *leaper = &search->leapers[l];
        struct sluice_jpeg_lane *lane = &search->lanes->lanes[l];
        const bool is_used = l < num_used;
        *leaper = (struct leaper){
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
    put_mark(search, &search->leapers[0], &search->lanes->lanes[0]);
    return true;
}

static ALWAYS_INLINE void leap_all(struct search *search)
{
    struct sluice_jpeg_lane *lanes = search->lanes->lanes;
    struct sluice_jpeg_reader a = lanes[0].reader, b = lanes[1].reader, c = lanes[2].reader,
                              d = lanes[3].reader;
#define ADVANCE(in, l)                                                                             \
    if (__builtin_expect((in).cell >= lanes[l].end, 0)) {                                          \
        lanes[l].reader = (in);                                                                    \
        advance(search, &search->leapers[l], &lanes[l]);                                           \
        (in) = lanes[l].reader;                                                                    \
    }
    while (search->num_busy > 0) {
        refill(&a);
        refill(&b);
        refill(&c);
        refill(&d);
#pragma GCC unroll 8
        for (unsigned i = 0; i < LEAPS_PER_REFILL; i++) {
            leap(&a, &lanes[0]);
            leap(&b, &lanes[1]);
            leap(&c, &lanes[2]);
            leap(&d, &lanes[3]);
        }
        ADVANCE(a, 0)
        ADVANCE(b, 1)
        ADVANCE(c, 2)
        ADVANCE(d, 3)
    }
#undef ADVANCE
}

static void leap_all_plain(struct search *search)
{
    leap_all(search);
}

#ifdef SLUICE_HAVE_X86_KERNELS
static __attribute__((target("bmi,bmi2"))) void leap_all_bmi2(struct search *search)
{
    leap_all(search);
}
#endif

/* Where an MCU begins, and what is to be found from there on. */
struct tracker {
    const struct search *search;
    uint64_t mcu;
    size_t bit;
    uint32_t dc[SLUICE_JPEG_MAX_COMPONENTS];
    unsigned point; /* the next one to be found */
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

/* The next point, from an MCU that does not come after it. */
static bool put_point(struct tracker *at)
{
    const struct search *search = at->search;
    const struct range range = range_of(search, at->point);
    while (at->mcu < range.first) {
        if (!skip_one(at))
            return false;
    }
    const uint32_t row = search->aim->first_row + at->point / search->points_in_row;
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

/* Goes on to an MCU, having put the points that need what comes before it. */
static bool go_to(struct tracker *at, const struct tracker *next)
{
    while (at->point < at->search->num_points && range_of(at->search, at->point).last < next->mcu) {
        if (!put_point(at))
            return false;
    }
    const unsigned point = at->point;
    *at = *next;
    at->point = point;
    return true;
}

/* Goes through a leaper's marks from number `first` on, where `at` is. */
static bool follow(struct tracker *at, const struct leaper *leaper, size_t first)
{
    struct tracker next = *at;
    uint32_t base[SLUICE_JPEG_MAX_COMPONENTS];
    for (unsigned c = 0; c < SLUICE_JPEG_MAX_COMPONENTS; c++)
        base[c] = at->dc[c] - leaper->marks[first].dc[c];
    for (size_t m = first + 1; m < leaper->num_marks; m++) {
        const struct mark *mark = &leaper->marks[m];
        next.mcu += at->search->mcus_in_chunk;
        next.bit = mark->bit;
        for (unsigned c = 0; c < SLUICE_JPEG_MAX_COMPONENTS; c++)
            next.dc[c] = base[c] + mark->dc[c];
        if (!go_to(at, &next))
            return false;
    }
    return true;
}

/* Goes on until it meets with one of a leaper's marks; their number: it does not, or has all
 * points before. */
static bool meet(struct tracker *at, const struct leaper *leaper, size_t *mark)
{
    size_t m = 0;
    struct tracker next = *at;
    *mark = leaper->num_marks;
    while (at->point < at->search->num_points) {
        while (m < leaper->num_marks && leaper->marks[m].bit < at->bit)
            m++;
        if (m == leaper->num_marks || leaper->marks[m].bit == at->bit) {
            *mark = m;
            return true;
        }
        if (at->mcu == range_of(at->search, at->point).last) { /* nothing may be behind it */
            if (!put_point(at))
                return false;
        } else if (!skip_one(&next) || !go_to(at, &next)) {
            return false;
        }
    }
    return true;
}

static bool put_points(const struct search *search, unsigned num_leapers)
{
    struct tracker at = {.search = search};
    for (unsigned l = 0; l < num_leapers; l++) {
        const struct leaper *leaper = &search->leapers[l];
        size_t mark = 0;
        if (l > 0 && !meet(&at, leaper, &mark))
            return false;
        if (mark < leaper->num_marks && !follow(&at, leaper, mark))
            return false;
    }
    while (at.point < search->num_points) {
        if (!put_point(&at))
            return false;
    }
    return true;
}

bool sluice_jpeg_leap_to(struct sluice_jpeg_lanes *lanes, const struct sluice_jpeg *jpeg,
                         const struct sluice_jpeg_scan *scan,
                         const struct sluice_jpeg_leap_aim *aim, struct sluice_buf_pool *pool,
                         struct sluice_jpeg_point *points)
{
    const unsigned points_in_row = aim->end_column ? 2 : 1;
    struct search search = {
        .lanes = lanes,
        .jpeg = jpeg,
        .scan = scan,
        .aim = aim,
        .points = points,
        .num_points = (aim->end_row - aim->first_row) * points_in_row,
        .points_in_row = points_in_row,
        .bytes = scan->data->data,
        .num_bits = scan->data->len * 8,
    };
    if (!start_leapers(&search, pool))
        return false;
    const unsigned num_leapers = search.num_busy;
#ifdef SLUICE_HAVE_X86_KERNELS
    if (lanes->has_bmi2)
        leap_all_bmi2(&search);
    else
#endif
        leap_all_plain(&search);
    for (unsigned l = 0; l < NUM_LEAPERS; l++)
        sluice_jpeg_lane_clear(&lanes->lanes[l]);
    const bool is_good = put_points(&search, num_leapers);
    sluice_buf_unref(search.marks);
    return is_good;
}
