/* Makes a program an older one, that has neither the op `when` nor parameters of decode: linked in
 * with -Wl,--wrap=sluice_op_type_find. */

#include "op/op.h"

#include <string.h>

const struct sluice_op_type *__real_sluice_op_type_find(const char *name, size_t len);
const struct sluice_op_type *__wrap_sluice_op_type_find(const char *name, size_t len);

const struct sluice_op_type *__wrap_sluice_op_type_find(const char *name, size_t len)
{
    static const struct sluice_op_type decode = {.name = "decode", .kind = SLUICE_OP_DECODE};
    const struct sluice_op_type *type = __real_sluice_op_type_find(name, len);
    if (!type || strcmp(type->name, "when") == 0)
        return NULL;
    return type->kind == SLUICE_OP_DECODE ? &decode : type;
}
