#include "datasets/list/yolo.h"

#include "base/text.h"
#include "image/orientation.h"

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

/* From the upright image to the stored one (image/orientation.h), in parts of their sizes. */
static void turn_back(float box[4], unsigned orientation)
{
    const bool is_mirrored =
        orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    const bool is_flipped =
        orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    if (sluice_orientation_swaps(orientation)) {
        const float upright[4] = {box[0], box[1], box[2], box[3]};
        for (int i = 0; i < 4; i++)
            box[i] = upright[i ^ 1];
    }
    for (int axis = 0; axis < 2; axis++) {
        const float begin = box[axis], end = box[axis + 2];
        if (axis == 0 ? is_mirrored : is_flipped) {
            box[axis] = 1 - end;
            box[axis + 2] = 1 - begin;
        }
    }
}

void sluice_yolo_scale(void *boxes, size_t bytes, uint32_t width, uint32_t height,
                       unsigned orientation)
{
    const size_t num = bytes / SLUICE_BOX_BYTES;
    for (size_t i = 0; i < num; i++) {
        float box[4];
        char *at = (char *)boxes + i * sizeof(box);
        memcpy(box, at, sizeof(box));
        turn_back(box, orientation);
        for (int k = 0; k < 4; k++)
            box[k] *= (float)(k % 2 ? height : width);
        memcpy(at, box, sizeof(box));
    }
}
