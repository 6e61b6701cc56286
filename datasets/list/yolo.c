#include "datasets/list/yolo.h"

#include "base/text.h"

#include <stdbool.h>
#include <string.h>

#define BOX_NUMBERS 5
#define MAX_LINE 256 /* bytes; five numbers are far shorter */

static sluice_status parse_line(const char *line, size_t number, struct sluice_shapes *shapes,
                                struct sluice_err *err)
{
    float box[BOX_NUMBERS];
    bool is_finite = true;
    struct sluice_err why = {0};
    if (line[strspn(line, " \t\r")] == '\0')
        return SLUICE_OK;
    const size_t num = sluice_field_parse_vector(line, box, BOX_NUMBERS, &is_finite);
    if (num != BOX_NUMBERS)
        return sluice_fail(err, SLUICE_E_INVALID,
                           ":%zu: a box has 5 numbers: class, x and y of the center, width, height",
                           number);
    if (!is_finite)
        return sluice_fail(err, SLUICE_E_INVALID, ":%zu: a number that is not finite", number);
    for (int i = 1; i < BOX_NUMBERS; i++) {
        if (!(box[i] >= 0 && box[i] <= 1))
            return sluice_fail(err, SLUICE_E_INVALID, ":%zu: a number is not between 0 and 1",
                               number);
    }
    const double x = box[1], y = box[2], width = box[3], height = box[4];
    const sluice_status status = sluice_shapes_add_box(shapes, x - width / 2, y - height / 2,
                                                       x + width / 2, y + height / 2, box[0], &why);
    return status == SLUICE_OK ? status : sluice_fail(err, status, ":%zu: it %s", number, why.text);
}

sluice_status sluice_yolo_parse(const char *text, struct sluice_shapes *shapes,
                                struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (size_t number = 1; *text && status == SLUICE_OK; number++) {
        const size_t len = strcspn(text, "\n");
        char line[MAX_LINE];
        if (!sluice_print(line, sizeof(line), "%.*s", (int)(len < MAX_LINE ? len : MAX_LINE), text))
            return sluice_fail(err, SLUICE_E_INVALID, ":%zu: a line too long for a box", number);
        status = parse_line(line, number, shapes, err);
        text += len + (text[len] == '\n');
    }
    return status;
}

void sluice_yolo_scale(void *boxes, size_t bytes, uint32_t width, uint32_t height)
{
    const size_t num = bytes / SLUICE_BOX_BYTES;
    for (size_t i = 0; i < 4 * num; i++) {
        float number;
        char *at = (char *)boxes + i * sizeof(number);
        memcpy(&number, at, sizeof(number));
        number *= (float)(i % 2 ? height : width);
        memcpy(at, &number, sizeof(number));
    }
}
