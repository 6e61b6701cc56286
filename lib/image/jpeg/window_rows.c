#include "image/jpeg/lane_reader.h"
#include "image/jpeg/window_internal.h"

/* A refill gives 56 bits. */
#define STEPS_PER_REFILL (56 / MAX_STEP_BITS)

/* Lanes that take turns.  Measured: a fourth has no registers left. */
#define NUM_STEPPERS 3

/* Transforms the chunk's blocks that belong to the window to samples. */
static bool transform_chunk(struct sluice_jpeg_window *window, struct sluice_jpeg_lane *lane)
{
    struct sluice_jpeg_block blocks[CHUNK_BLOCKS];
    size_t num_blocks = 0;
    struct sluice_jpeg_cell *cell = lane->cells;
    for (uint32_t m = 0; m < lane->num_mcus; m++, lane->column++) {
        for (unsigned c = 0; c < window->num_planes; c++) {
            const struct sluice_jpeg_plane *plane = &window->planes[c];
            for (unsigned y = 0; y < plane->v; y++) {
                const uint32_t row = lane->row * plane->v + y - plane->first_row;
                for (unsigned x = 0; x < plane->h; x++, cell++) {
                    const int32_t dc = lane->at.dc[c] += cell->coefficients[0];
                    if (dc > INT16_MAX || dc < INT16_MIN)
                        return false;
                    cell->coefficients[0] = (int16_t)dc;
                    const uint32_t column = lane->column * plane->h + x - plane->first_column;
                    if (row >= plane->end_row - plane->first_row ||
                        column >= plane->end_column - plane->first_column) {
                        memset(cell->coefficients, 0, sizeof(cell->coefficients));
                        continue;
                    }
                    blocks[num_blocks++] = (struct sluice_jpeg_block){
                        .coefficients = cell->coefficients,
                        .quantisers = plane->quantisers,
                        .out = plane->samples + row * 8 * plane->stride + column * 8,
                        .stride = plane->stride,
                    };
                }
            }
        }
    }
    return window->kernels->inverse_dct(blocks, num_blocks);
}

/* Starts a lane on the next row that no lane has read. */
static bool start_row(struct sluice_jpeg_window *window, const struct sluice_jpeg_source *source,
                      struct sluice_jpeg_lane *lane, uint32_t row)
{
    const struct sluice_jpeg_mcu_range *wanted = &source->wanted;
    if (source->scan) {
        lane->at = window->points[row - wanted->first_row];
    } else {
        struct sluice_jpeg_stretch *stretch = &lane->stretch;
        if (!sluice_jpeg_stretch_read(stretch, source->index, source->jpeg, source->bytes, row,
                                      wanted->first_column, wanted->end_column, source->pool))
            return false;
        lane->at = (struct sluice_jpeg_point){
            .scan = &stretch->scan,
            .bit = stretch->bit,
            .column = stretch->column,
            .mcus_left = stretch->mcus_left,
        };
        for (unsigned c = 0; c < window->num_planes; c++)
            lane->at.dc[c] = stretch->dc[c];
    }
    lane->row = row;
    lane->column = lane->at.column;
    lane->segment_start = sluice_jpeg_segment_start(lane->at.scan, lane->at.segment);
    lane->segment_end = sluice_jpeg_segment_end(lane->at.scan, lane->at.segment);
    start_reader(&lane->reader, lane->segment_start, lane->at.bit);
    return true;
}

static bool is_within_segment(const struct sluice_jpeg_lane *lane)
{
    return reader_position(&lane->reader, lane->segment_start) <=
           (size_t)(lane->segment_end - lane->segment_start) * 8;
}

static bool start_segment(struct sluice_jpeg_lane *lane, uint32_t restart_interval)
{
    struct sluice_jpeg_point *at = &lane->at;
    if (++at->segment >= at->scan->num_segments)
        return false;
    at->mcus_left = restart_interval;
    memset(at->dc, 0, sizeof(at->dc));
    lane->segment_start = sluice_jpeg_segment_start(at->scan, at->segment);
    lane->segment_end = sluice_jpeg_segment_end(at->scan, at->segment);
    start_reader(&lane->reader, lane->segment_start, 0);
    return true;
}

/* The rows left to read, and the lanes that read. */
struct work {
    const struct sluice_jpeg_source *source;
    uint32_t next_row;
    unsigned num_busy;
};

/* At the end of a lane's chunk: transforms it to samples and starts the next. */
static __attribute__((noinline)) bool advance(struct sluice_jpeg_window *window, struct work *work,
                                              struct sluice_jpeg_lane *lane)
{
    const struct sluice_jpeg_source *source = work->source;
    const uint32_t interval = source->jpeg->restart_interval;
    if (lane->reader.cell != lane->end || !transform_chunk(window, lane) ||
        lane->reader.next > lane->segment_end + 8)
        return false;
    if (lane->column == source->wanted.end_column) {
        if (!is_within_segment(lane))
            return false;
        if (work->next_row == source->wanted.end_row) {
            sluice_jpeg_lane_stop(lane);
            work->num_busy--;
            return true;
        }
        if (!start_row(window, source, lane, work->next_row++))
            return false;
    }
    if (lane->at.mcus_left == 0 && (!is_within_segment(lane) || !start_segment(lane, interval)))
        return false;
    uint32_t num_mcus = CHUNK_BLOCKS / source->jpeg->blocks_in_mcu;
    const uint32_t left = source->wanted.end_column - lane->column;
    num_mcus = left < num_mcus ? left : num_mcus;
    if (interval) {
        num_mcus = lane->at.mcus_left < num_mcus ? lane->at.mcus_left : num_mcus;
        lane->at.mcus_left -= num_mcus;
    }
    sluice_jpeg_lane_start_chunk(lane, num_mcus, source->jpeg->blocks_in_mcu);
    return true;
}

static ALWAYS_INLINE bool read_lanes(struct sluice_jpeg_window *window, struct work *work,
                                     bool in_order)
{
    struct sluice_jpeg_lane *lanes = window->lanes.lanes;
    const uint8_t *place = window->lanes.place;
    struct sluice_jpeg_reader a = lanes[0].reader, b = lanes[1].reader, c = lanes[2].reader;

#define ADVANCE(in, lane)                                                                          \
    if (__builtin_expect((in).cell >= (lane)->end, 0)) {                                           \
        (lane)->reader = (in);                                                                     \
        if (!advance(window, work, (lane)))                                                        \
            return false;                                                                          \
        (in) = (lane)->reader;                                                                     \
    }
    while (work->num_busy > 0) {
        refill(&a);
        refill(&b);
        refill(&c);
#pragma GCC unroll 8
        for (unsigned i = 0; i < STEPS_PER_REFILL; i++) {
            step(&a, &lanes[0], place, in_order);
            step(&b, &lanes[1], place, in_order);
            step(&c, &lanes[2], place, in_order);
        }
        ADVANCE(a, &lanes[0])
        ADVANCE(b, &lanes[1])
        ADVANCE(c, &lanes[2])
    }
#undef ADVANCE
    return true;
}

static ALWAYS_INLINE bool read_inline(struct sluice_jpeg_window *window,
                                      const struct sluice_jpeg_source *source)
{
    struct work work = {
        .source = source, .next_row = source->wanted.first_row, .num_busy = NUM_STEPPERS};
    for (unsigned l = 0; l < NUM_STEPPERS; l++) {
        /* Begin at the end of an empty chunk, so that the lane asks for a row at once. */
        struct sluice_jpeg_lane *lane = &window->lanes.lanes[l];
        sluice_jpeg_lane_init(&window->lanes, lane, source->jpeg, false);
        start_reader(&lane->reader, window->memory, 0);
        lane->segment_start = lane->segment_end = window->memory;
        lane->column = source->wanted.end_column;
        sluice_jpeg_lane_start_chunk(lane, 0, source->jpeg->blocks_in_mcu);
        if (!advance(window, &work, lane))
            return false;
    }
    return window->kernels->place == sluice_jpeg_place_in_zigzag ? read_lanes(window, &work, true)
                                                                 : read_lanes(window, &work, false);
}

static bool read_plain(struct sluice_jpeg_window *window, const struct sluice_jpeg_source *source)
{
    return read_inline(window, source);
}

#ifdef SLUICE_HAVE_X86_KERNELS
/* BMI2 shifts by a count in any register; such shifts are the chain from lookup to lookup. */
static __attribute__((target("bmi,bmi2"))) bool read_bmi2(struct sluice_jpeg_window *window,
                                                          const struct sluice_jpeg_source *source)
{
    return read_inline(window, source);
}
#endif

bool sluice_jpeg_window_read(struct sluice_jpeg_window *window,
                             const struct sluice_jpeg_source *source)
{
    if (source->scan && !sluice_jpeg_window_find_points(window, source))
        return false;
    bool is_good;
#ifdef SLUICE_HAVE_X86_KERNELS
    if (window->lanes.has_bmi2)
        is_good = read_bmi2(window, source);
    else
#endif
        is_good = read_plain(window, source);
    for (unsigned l = 0; l < NUM_LANES && !is_good; l++)
        sluice_jpeg_lane_clear(&window->lanes.lanes[l]);
    return is_good;
}
