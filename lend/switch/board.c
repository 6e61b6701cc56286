#include "lend/switch/board.h"

#include "base/text.h"

#include <errno.h>
#include <sys/socket.h>

#define PAGE ((size_t)4096)

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static size_t input_bytes(const struct switch_options *options)
{
    return whole_pages(options->batch_size * SWITCH_ROW_BYTES);
}

static size_t slot_bytes(const struct switch_options *options)
{
    return input_bytes(options) +
           whole_pages(SWITCH_REPLY_HEAD +
                       sizeof(float) * options->batch_size * options->num_classes);
}

size_t switch_board_bytes(const struct switch_options *options)
{
    return whole_pages(sizeof(struct switch_board)) + SWITCH_NUM_SLOTS * slot_bytes(options);
}

float *switch_board_input(struct switch_board *board, const struct switch_options *options,
                          unsigned slot)
{
    return (float *)((char *)board + whole_pages(sizeof *board) + slot * slot_bytes(options));
}

char *switch_board_reply(struct switch_board *board, const struct switch_options *options,
                         unsigned slot)
{
    return (char *)switch_board_input(board, options, slot) + input_bytes(options);
}

enum switch_next switch_next_order(bool waits, struct switch_order *order)
{
    ssize_t n;
    do
        n = recv(SWITCH_FD_SOCKET, order, sizeof *order, waits ? 0 : MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return SWITCH_NEXT_NONE;
    return n == (ssize_t)sizeof *order ? SWITCH_NEXT_ORDER : SWITCH_NEXT_ENDED;
}

void switch_send_note(enum switch_note_kind kind, const char *text)
{
    struct switch_note note = {.kind = kind};
    sluice_print(note.text, sizeof note.text, "%s", text);
    /* That the server is gone shows at the next order. */
    while (send(SWITCH_FD_SOCKET, &note, sizeof note, MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
}
