#include "pipeline/op.h"

/* decode itself is the codec's work (pipeline.c); here is only its text. */

static sluice_status parse(struct sluice_op *op, struct sluice_spec_text *text, bool has_value,
                           struct sluice_err *err)
{
    (void)op;
    if (has_value)
        return sluice_spec_fail(text, err, "decode takes no value");
    return SLUICE_OK;
}

static void print(const struct sluice_op *op, char *text, size_t room)
{
    (void)op, (void)room;
    text[0] = '\0';
}

const struct sluice_op_type sluice_op_decode = {
    .name = "decode",
    .family = SLUICE_OP_DECODE,
    .example = "",
    .help = "the pixels of the file; stands first",
    .parse = parse,
    .print = print,
};
