#include "pipeline/op.h"

/* decode itself is the codec's work (run_region.c); here is only its text, and that of
 * exif_transpose.  That one takes effect within decode, for the orientation stands in the file,
 * which the pixels after decode no longer have with them: what stands between the two is upright
 * already.
 */

static sluice_status parse(struct sluice_op *op, struct sluice_spec_text *text, bool has_value,
                           struct sluice_err *err)
{
    if (has_value)
        return sluice_spec_fail(text, err, "%s takes no value", op->type->name);
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

const struct sluice_op_type sluice_op_exif_transpose = {
    .name = "exif_transpose",
    .family = SLUICE_OP_DECODE,
    .example = "",
    .help = "turns the image upright as its EXIF says; right after decode",
    .parse = parse,
    .print = print,
};
