#include "image/jpeg_window_reader.h"

const uint32_t sluice_jpeg_nowhere[1 << STEP_BITS];

static void set_slot(struct sluice_jpeg_lane *lane, size_t slot, const uint32_t *first,
                     const uint32_t *rest)
{
    if (slot > 0)
        lane->slots[slot - 1].next_first = first;
    else
        lane->first = first;
    lane->slots[slot].rest = rest;
}

static void set_slot_to_its_coding(struct sluice_jpeg_lane *lane, size_t slot)
{
    const struct sluice_jpeg_coding *coding = lane->slots[slot].coding;
    if (lane->is_leaping)
        set_slot(lane, slot, coding->leaps.first, coding->leaps.rest);
    else
        set_slot(lane, slot, coding->steps.first, coding->steps.rest);
}

void sluice_jpeg_lane_init(struct sluice_jpeg_window *window, struct sluice_jpeg_lane *lane,
                           const struct sluice_jpeg *jpeg, bool is_leaping)
{
    lane->is_leaping = is_leaping;
    for (unsigned b = 0, in_mcu = 0; b < CHUNK_SLOTS; b++) {
        lane->slots[b].coding = window->planes[jpeg->block_component[in_mcu]].coding;
        set_slot_to_its_coding(lane, b);
        in_mcu = in_mcu + 1 < jpeg->blocks_in_mcu ? in_mcu + 1 : 0;
    }
    set_slot(lane, FAULTY / 64, sluice_jpeg_nowhere, sluice_jpeg_nowhere);
    lane->num_mcus = 0;
}

void sluice_jpeg_lane_start_chunk(struct sluice_jpeg_lane *lane, uint32_t num_mcus,
                                  unsigned blocks_in_mcu)
{
    const size_t last = lane->num_mcus * blocks_in_mcu, end = num_mcus * blocks_in_mcu;
    if (last != end)
        set_slot_to_its_coding(lane, last);
    set_slot(lane, end, sluice_jpeg_nowhere, sluice_jpeg_nowhere);
    lane->num_mcus = num_mcus;
    lane->end = end * 64;
    lane->reader.block = 0;
    lane->reader.pos = 0;
    lane->reader.table = lane->first;
}
