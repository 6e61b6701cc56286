#ifndef SLUICE_LEND_SWITCH_BOARD_H
#define SLUICE_LEND_SWITCH_BOARD_H

#include "lend/switch/options.h"
#include "train/grouping.h"

#include <stdatomic.h>

/* Memory and messages that the server and its worker processes share.
 *
 *     memory     counters, groups | a slot for each connection: input, reply
 *     messages   server -> worker: order      worker -> server: note
 *
 * A request's data are received into its connection's slot, where the worker reads them and writes the
 * reply.
 *
 * Threads: each process has one. */

#define SWITCH_NUM_SLOTS 16
#define SWITCH_REPLY_HEAD 8 /* "FNSH", and the length of logits */

struct switch_board {
    uint64_t inferences, trainings, failed; /* requests; the server's alone */
    /* Sums, written by the training process. */
    _Atomic uint64_t training_steps, lent_requests, lent_ns, lending_cost_ns, taken_back;
    /* Groups of each model, which the first worker finds and the others take over; 0 groups: not
     * found yet.  Written before its READY note. */
    struct {
        uint32_t num_groups, last_stages[SLUICE_GROUPING_MAX_STAGES];
    } groups[SWITCH_MAX_MODELS];
};

size_t switch_board_bytes(const struct switch_options *options);
/* float32 N x 3 x 224 x 224. */
float *switch_board_input(struct switch_board *board, const struct switch_options *options,
                          unsigned slot);
/* SWITCH_REPLY_HEAD bytes, behind which float32 N x num_classes begin. */
char *switch_board_reply(struct switch_board *board, const struct switch_options *options,
                         unsigned slot);

struct switch_order {
    enum switch_order_kind { SWITCH_ORDER_INFER, SWITCH_ORDER_TRAIN, SWITCH_ORDER_STOP } kind;
    unsigned model, slot, num_rows;
    bool wants_logits;
};

struct switch_note {
    enum switch_note_kind {
        SWITCH_NOTE_READY,  /* prepared; the first note */
        SWITCH_NOTE_DONE,   /* INFER is done, or TRAIN was stopped */
        SWITCH_NOTE_FAILED, /* either */
    } kind;
    char text[256]; /* why it failed; else "" */
};

/* Descriptors of a worker process: numbers that the server has no other use for. */
enum { SWITCH_FD_SOCKET = 100, SWITCH_FD_WEIGHTS, SWITCH_FD_BOARD };

enum switch_next { SWITCH_NEXT_ORDER, SWITCH_NEXT_NONE, SWITCH_NEXT_ENDED };
/* A worker's next order.  NONE: none has come yet, if it does not wait.  ENDED: the server is gone. */
enum switch_next switch_next_order(bool waits, struct switch_order *order);
void switch_send_note(enum switch_note_kind kind, const char *text);

#endif
