#include "image/jpeg/lane_reader.h"

#include "base/cpu.h"

const uint32_t sluice_jpeg_nowhere[1 << SKIP_BITS];

void sluice_jpeg_lanes_init(struct sluice_jpeg_lanes *lanes)
{
    lanes->has_bmi2 = false;
#ifdef SLUICE_HAVE_X86_KERNELS
    lanes->has_bmi2 = sluice_cpu_level() != SLUICE_CPU_C && __builtin_cpu_supports("bmi2");
#endif
}

static void set_cell(struct sluice_jpeg_lane *lane, size_t cell, const void *first,
                     const void *rest)
{
    lane->cells[cell].first = first;
    lane->cells[cell].rest = rest;
}

static void set_cell_to_its_coding(struct sluice_jpeg_lane *lane, size_t cell)
{
    const struct sluice_jpeg_coding *coding = lane->cells[cell].coding;
    if (lane->is_skipping)
        set_cell(lane, cell, coding->skips.first, coding->skips.rest);
    else
        set_cell(lane, cell, coding->steps.first, coding->steps.rest);
}

void sluice_jpeg_lane_init(const struct sluice_jpeg_lanes *lanes, struct sluice_jpeg_lane *lane,
                           const struct sluice_jpeg *jpeg, bool is_skipping)
{
    lane->is_skipping = is_skipping;
    for (unsigned b = 0, in_mcu = 0; b < CHUNK_CELLS; b++) {
        lane->cells[b].coding = lanes->coding[jpeg->block_component[in_mcu]];
        set_cell_to_its_coding(lane, b);
        in_mcu = in_mcu + 1 < jpeg->blocks_in_mcu ? in_mcu + 1 : 0;
    }
    set_cell(lane, FAULTY, sluice_jpeg_nowhere, sluice_jpeg_nowhere);
    lane->num_mcus = 0;
}

void sluice_jpeg_lane_start_chunk(struct sluice_jpeg_lane *lane, uint32_t num_mcus,
                                  unsigned blocks_in_mcu)
{
    const size_t last = lane->num_mcus * blocks_in_mcu, end = num_mcus * blocks_in_mcu;
    if (last != end)
        set_cell_to_its_coding(lane, last);
    set_cell(lane, end, sluice_jpeg_nowhere, sluice_jpeg_nowhere);
    lane->num_mcus = num_mcus;
    lane->end = (const uint8_t *)&lane->cells[end];
    lane->reader.cell = (uint8_t *)lane->cells;
    lane->reader.pos = 0;
    lane->reader.table = lane->cells[0].first;
}

void sluice_jpeg_lane_stop(struct sluice_jpeg_lane *lane)
{
    lane->end = (const uint8_t *)&lane->cells[CHUNK_CELLS];
}

void sluice_jpeg_lane_clear(struct sluice_jpeg_lane *lane)
{
    for (unsigned b = 0; b < CHUNK_CELLS; b++)
        memset(lane->cells[b].coefficients, 0, sizeof(lane->cells[b].coefficients));
}
