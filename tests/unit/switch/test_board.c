#include "lend/switch/board.h"

#include "support/test.h"

/* Slots lie one behind the other: head, (input, reply), (input, reply), ... */
TEST(slots_do_not_overlap)
{
    const struct switch_options sizes[] = {{.num_classes = 2, .batch_size = 1},
                                           {.num_classes = 1000, .batch_size = 8},
                                           {.num_classes = 100000, .batch_size = 3}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(sizes); i++) {
        const struct switch_options *o = &sizes[i];
        const size_t bytes = switch_board_bytes(o);
        struct switch_board *board = aligned_alloc(4096, bytes);
        CU_ASSERT_PTR_NOT_NULL_FATAL(board);
        const char *end = (const char *)(board + 1);
        for (unsigned slot = 0; slot < SWITCH_NUM_SLOTS; slot++) {
            const char *input = (const char *)switch_board_input(board, o, slot);
            const char *reply = switch_board_reply(board, o, slot);
            CU_ASSERT(input >= end && (uintptr_t)input % 4096 == 0);
            CU_ASSERT(reply >= input + o->batch_size * SWITCH_ROW_BYTES);
            end = reply + SWITCH_REPLY_HEAD + o->batch_size * o->num_classes * sizeof(float);
        }
        CU_ASSERT(end <= (const char *)board + bytes);
        free(board);
    }
}
