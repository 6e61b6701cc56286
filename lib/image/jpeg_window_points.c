#include "image/jpeg_window_reader.h"

#include <stdlib.h>

/* Finding out where MCU rows begin takes reading all that comes before them.
 *
 * Where restart markers cut the scan, that is no more than a restart interval.  Elsewhere, several
 * lanes leap through the scan at a time, all but the first from some place where a byte begins.  A
 * lane that begins in the middle of an MCU reads nonsense at first.  But Huffman codes fall into
 * step: after some MCUs it is at the start of one whenever a reader from the scan's start would be,
 * and from there on both read the same.  So each lane marks where it was at the start of an MCU,
 * and when all are done, one goes on behind the first lane's end, until it meets a mark of the
 * second lane: from there on, that one's marks hold.  If it does not, the marks are of no use, and
 * nothing is lost but time. */

#define NUM_LEAPERS 4
#define LEAPS_PER_REFILL (56 / MAX_LEAP_BITS)

/* Fewer bytes than these are not worth a lane. */
#define MIN_BYTES_PER_LANE 2048

/* --- one MCU after the other --- */

/* One symbol in full; its value is left out, unless it is the DC's. */
static bool skip_symbol(struct sluice_jpeg_reader *in, const struct sluice_jpeg_coding *coding,
                        int32_t *dc, bool *is_end)
{
    refill(in);
    const struct sluice_jpeg_symbol symbol = take_symbol(in, coding);
    if (!symbol.is_sound)
        return false;
    if (in->pos == 0)
        *dc += sluice_jpeg_extend(in->bits, symbol.size);
    in->bits <<= symbol.size;
    in->pos += symbol.is_end ? 0 : symbol.run + 1;
    *is_end = symbol.is_end || in->pos == 64;
    refill(in);
    return in->pos <= 64;
}

static bool skip_block(struct sluice_jpeg_reader *in, const struct sluice_jpeg_coding *coding,
                       int32_t *dc)
{
    const uint32_t *table = coding->leaps.first;
    bool is_end = false;
    in->pos = 0;
    while (!is_end) {
        refill(in);
        for (unsigned i = 0; i < LEAPS_PER_REFILL && !is_end; i++, table = coding->leaps.rest) {
            const uint32_t *entry = &table[in->bits >> (64 - LEAP_BITS)];
            const size_t taken = part(entry, 0), pos = in->pos + part(entry, 1);
            if (__builtin_expect(pos > 64, 0)) {
                if (!skip_symbol(in, coding, dc, &is_end))
                    return false;
                continue;
            }
            in->bits <<= taken & 63;
            *dc += (int16_t)(*entry >> DC_SHIFT);
            in->pos = pos;
            is_end = ((taken | pos) & IS_END) != 0;
        }
    }
    return true;
}

static bool skip_mcu(const struct sluice_jpeg_window *window, struct sluice_jpeg_reader *in,
                     int32_t dc[3])
{
    for (unsigned c = 0; c < window->num_planes; c++) {
        const struct sluice_jpeg_plane *plane = &window->planes[c];
        for (unsigned i = plane->h * plane->v; i > 0; i--) {
            if (!skip_block(in, plane->coding, &dc[c]))
                return false;
        }
    }
    return true;
}

/* --- with restart markers --- */

static bool find_from_segments(struct sluice_jpeg_window *window,
                               const struct sluice_jpeg_source *source)
{
    const struct sluice_jpeg_scan *scan = source->scan;
    const struct sluice_jpeg_mcu_range *wanted = &source->wanted;
    const uint32_t interval = source->jpeg->restart_interval;
    struct sluice_jpeg_point at = {.scan = scan};
    struct sluice_jpeg_reader in = {0};
    for (uint32_t row = wanted->first_row; row < wanted->end_row; row++) {
        const uint32_t mcu = row * source->jpeg->mcus_across + wanted->first_column;
        if (mcu / interval != at.segment || row == wanted->first_row) {
            at = (struct sluice_jpeg_point){
                .scan = scan, .segment = mcu / interval, .mcus_left = interval};
            if (at.segment >= scan->num_segments)
                return false;
            start_reader(&in, segment_start(scan, at.segment), 0);
        }
        const uint8_t *start = segment_start(scan, at.segment);
        const uint8_t *end = segment_end(scan, at.segment);
        for (; interval - at.mcus_left < mcu % interval; at.mcus_left--) {
            if (!skip_mcu(window, &in, at.dc) || in.next > end + 8)
                return false;
        }
        at.bit = reader_position(&in, start);
        at.column = wanted->first_column;
        if (at.bit > (size_t)(end - start) * 8)
            return false;
        window->points[row - wanted->first_row] = at;
    }
    return true;
}

/* --- without --- */

/* A reader that leaps from `start` to `end`, and what it comes by. */
struct leaper {
    size_t start, end; /* bits of the scan */
    struct sluice_jpeg_leap_mark *marks;
    size_t num_marks, capacity;
    uint32_t dc[3]; /* sums, which nonsense may make wrap around */
    bool is_first;  /* where it starts is known to be an MCU */
};

struct search {
    const struct sluice_jpeg_source *source;
    const uint8_t *bytes;
    size_t num_bits;
    const uint8_t *place;
    struct leaper leapers[NUM_LEAPERS];
    uint32_t mcus_in_chunk;
    unsigned num_busy;
};

static void put_mark(struct search *search, struct leaper *leaper,
                     const struct sluice_jpeg_lane *lane)
{
    struct sluice_jpeg_leap_mark *mark = &leaper->marks[leaper->num_marks++];
    mark->bit = reader_position(&lane->reader, search->bytes);
    memcpy(mark->dc, leaper->dc, sizeof(mark->dc));
}

/* A lane at the end of a chunk. */
static __attribute__((noinline)) void advance(struct search *search, struct leaper *leaper,
                                              struct sluice_jpeg_lane *lane)
{
    const struct sluice_jpeg *jpeg = search->source->jpeg;
    if (lane->reader.cell == lane->end) {
        const struct sluice_jpeg_cell *cell = lane->cells;
        for (uint32_t m = 0; m < lane->num_mcus; m++) {
            for (unsigned b = 0; b < jpeg->blocks_in_mcu; b++, cell++)
                leaper->dc[jpeg->block_component[b]] += (uint32_t)cell->coefficients[0];
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

/* The first leaper from the scan's start, the others spread over what comes before the last point.
 */
static bool start_leapers(struct sluice_jpeg_window *window, struct search *search)
{
    const struct sluice_jpeg *jpeg = search->source->jpeg;
    const struct sluice_jpeg_mcu_range *wanted = &search->source->wanted;
    const uint64_t num_mcus = (uint64_t)jpeg->mcus_across * jpeg->mcus_down;
    const uint64_t wanted_mcus =
        (uint64_t)jpeg->mcus_across * (wanted->end_row - 1) + wanted->first_column;
    /* A guess. */
    const size_t bytes = (size_t)((search->num_bits / 8) * wanted_mcus / num_mcus);
    const size_t wish = bytes / MIN_BYTES_PER_LANE;
    search->num_busy = wish < 1 ? 1 : wish > NUM_LEAPERS ? NUM_LEAPERS : (unsigned)wish;
    search->mcus_in_chunk = CHUNK_BLOCKS / jpeg->blocks_in_mcu;
    /* Every block takes two bits at least; four times the marks that all should need. */
    size_t capacity = bytes / search->num_busy * 4 / CHUNK_BLOCKS;
    const size_t enough = (size_t)(wanted_mcus * 4 / search->num_busy / search->mcus_in_chunk);
    capacity = (capacity < enough ? capacity : enough) + 16;
    if (window->marks_capacity < capacity * search->num_busy) {
        free(window->marks);
        window->marks_capacity = 0;
        window->marks = malloc(capacity * search->num_busy * sizeof(*window->marks));
        if (!window->marks)
            return false;
        window->marks_capacity = capacity * search->num_busy;
    }
    for (unsigned l = 0; l < NUM_LEAPERS; l++) {
        struct leaper *leaper = &search->leapers[l];
        struct sluice_jpeg_lane *lane = &window->lanes[l];
        const bool is_used = l < search->num_busy;
        *leaper = (struct leaper){
            .end = bytes * (l + 1) / search->num_busy * 8,
            .marks = window->marks + capacity * l,
            .capacity = capacity,
            .is_first = l == 0,
        };
        sluice_jpeg_lane_init(window, lane, jpeg, true);
        start_reader(&lane->reader, search->bytes, is_used ? bytes * l / search->num_busy * 8 : 0);
        sluice_jpeg_lane_start_chunk(lane, is_used ? search->mcus_in_chunk : 0,
                                     jpeg->blocks_in_mcu);
        if (!is_used)
            sluice_jpeg_lane_stop(lane);
    }
    put_mark(search, &search->leapers[0], &window->lanes[0]);
    return true;
}

static ALWAYS_INLINE void leap_all(struct sluice_jpeg_lane *lanes, struct search *search)
{
    const uint8_t *place = search->place;
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
            leap(&a, &lanes[0], place);
            leap(&b, &lanes[1], place);
            leap(&c, &lanes[2], place);
            leap(&d, &lanes[3], place);
        }
        ADVANCE(a, 0)
        ADVANCE(b, 1)
        ADVANCE(c, 2)
        ADVANCE(d, 3)
    }
#undef ADVANCE
}

static void leap_all_plain(struct sluice_jpeg_lane *lanes, struct search *search)
{
    leap_all(lanes, search);
}

#ifdef SLUICE_HAVE_X86_KERNELS
static __attribute__((target("bmi,bmi2"))) void leap_all_bmi2(struct sluice_jpeg_lane *lanes,
                                                              struct search *search)
{
    leap_all(lanes, search);
}
#endif

/* Where an MCU begins, and what is to be found from there on. */
struct tracker {
    struct sluice_jpeg_window *window;
    const struct search *search;
    uint64_t mcu;
    size_t bit;
    uint32_t dc[3];
    uint32_t row; /* the next one whose point is to be found */
};

static bool skip_one(struct tracker *at)
{
    struct sluice_jpeg_reader in;
    int32_t dc[3] = {0};
    start_reader(&in, at->search->bytes, at->bit);
    if (!skip_mcu(at->window, &in, dc))
        return false;
    at->mcu++;
    at->bit = reader_position(&in, at->search->bytes);
    for (unsigned c = 0; c < 3; c++)
        at->dc[c] += (uint32_t)dc[c];
    return at->bit <= at->search->num_bits;
}

/* The point of the next row, from an MCU that does not come after it. */
static bool put_point(struct tracker *at)
{
    const struct sluice_jpeg_source *source = at->search->source;
    const uint64_t row_start = (uint64_t)at->row * source->jpeg->mcus_across;
    while (at->mcu < row_start) {
        if (!skip_one(at))
            return false;
    }
    struct sluice_jpeg_point *point = &at->window->points[at->row++ - source->wanted.first_row];
    *point = (struct sluice_jpeg_point){
        .scan = source->scan,
        .bit = at->bit,
        .column = (uint32_t)(at->mcu - row_start),
        .mcus_left = UINT32_MAX,
    };
    for (unsigned c = 0; c < 3; c++)
        point->dc[c] = (int32_t)at->dc[c];
    return true;
}

/* Goes on to an MCU, having put the points of rows that need what comes before it. */
static bool go_to(struct tracker *at, const struct tracker *next)
{
    const struct sluice_jpeg_source *source = at->search->source;
    while (at->row < source->wanted.end_row &&
           (uint64_t)at->row * source->jpeg->mcus_across + source->wanted.first_column <
               next->mcu) {
        if (!put_point(at))
            return false;
    }
    const uint32_t row = at->row;
    *at = *next;
    at->row = row;
    return true;
}

/* Goes through a leaper's marks from number `first` on, where `at` is. */
static bool follow(struct tracker *at, const struct leaper *leaper, size_t first)
{
    struct tracker next = *at;
    uint32_t base[3];
    for (unsigned c = 0; c < 3; c++)
        base[c] = at->dc[c] - leaper->marks[first].dc[c];
    for (size_t m = first + 1; m < leaper->num_marks; m++) {
        const struct sluice_jpeg_leap_mark *mark = &leaper->marks[m];
        next.mcu += at->search->mcus_in_chunk;
        next.bit = mark->bit;
        for (unsigned c = 0; c < 3; c++)
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
    while (at->row < at->search->source->wanted.end_row) {
        while (m < leaper->num_marks && leaper->marks[m].bit < at->bit)
            m++;
        if (m == leaper->num_marks || leaper->marks[m].bit == at->bit) {
            *mark = m;
            return true;
        }
        if (!skip_one(&next) || !go_to(at, &next))
            return false;
    }
    return true;
}

static bool find_by_leaping(struct sluice_jpeg_window *window,
                            const struct sluice_jpeg_source *source)
{
    const struct sluice_jpeg_scan *scan = source->scan;
    struct search search = {
        .source = source,
        .bytes = scan->data->data,
        .num_bits = scan->data->len * 8,
        .place = window->place,
    };
    if (!start_leapers(window, &search))
        return false;
    const unsigned num_leapers = search.num_busy;
#ifdef SLUICE_HAVE_X86_KERNELS
    if (window->kernels != &sluice_jpeg_window_kernels_c && __builtin_cpu_supports("bmi2"))
        leap_all_bmi2(window->lanes, &search);
    else
#endif
        leap_all_plain(window->lanes, &search);
    for (unsigned l = 0; l < NUM_LEAPERS; l++)
        sluice_jpeg_lane_clear(&window->lanes[l]);

    struct tracker at = {.window = window, .search = &search, .row = source->wanted.first_row};
    for (unsigned l = 0; l < num_leapers; l++) {
        const struct leaper *leaper = &search.leapers[l];
        size_t mark = 0;
        if (l > 0 && !meet(&at, leaper, &mark))
            return false;
        if (mark < leaper->num_marks && !follow(&at, leaper, mark))
            return false;
    }
    while (at.row < source->wanted.end_row) {
        if (!put_point(&at))
            return false;
    }
    return true;
}

bool sluice_jpeg_window_find_points(struct sluice_jpeg_window *window,
                                    const struct sluice_jpeg_source *source)
{
    return source->jpeg->restart_interval ? find_from_segments(window, source)
                                          : find_by_leaping(window, source);
}
