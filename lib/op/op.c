#include "op/op.h"

#include "base/c_locale.h"
#include "base/suggest.h"
#include "image/exact_math.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct sluice_op_type sluice_op_decode, sluice_op_exif_transpose,
    sluice_op_random_resized_crop, sluice_op_resize, sluice_op_center_crop, sluice_op_hflip,
    sluice_op_vflip, sluice_op_affine, sluice_op_perspective, sluice_op_rotate, sluice_op_shear_x,
    sluice_op_shear_y, sluice_op_translate_x, sluice_op_translate_y, sluice_op_brightness,
    sluice_op_contrast, sluice_op_color, sluice_op_hue, sluice_op_sharpness, sluice_op_grayscale,
    sluice_op_invert, sluice_op_solarize, sluice_op_solarize_add, sluice_op_posterize,
    sluice_op_equalize, sluice_op_autocontrast, sluice_op_pil_blur, sluice_op_tv_blur,
    sluice_op_channel_permute, sluice_op_random_crop, sluice_op_pad, sluice_op_photometric_distort,
    sluice_op_identity, sluice_op_augmix, sluice_op_auto_augment, sluice_op_color_jitter,
    sluice_op_randaugment, sluice_op_trivial_augment_wide, sluice_op_rand_augment_timm,
    sluice_op_one_of, sluice_op_k_of, sluice_op_shuffled, sluice_op_when, sluice_op_sequence,
    sluice_op_fit_bucket, sluice_op_letterbox, sluice_op_pad_to_multiple, sluice_op_smart_resize,
    sluice_op_zoom_out, sluice_op_iou_crop, sluice_op_multi_scale, sluice_op_random_resize,
    sluice_op_random_size_crop, sluice_op_views, sluice_op_to_tensor, sluice_op_normalize;

#define MAX_TYPES 64

static const struct sluice_op_type *types[MAX_TYPES] = {
    &sluice_op_decode,
    &sluice_op_exif_transpose,
    &sluice_op_random_resized_crop,
    &sluice_op_resize,
    &sluice_op_random_resize,
    &sluice_op_center_crop,
    &sluice_op_random_crop,
    &sluice_op_pad,
    &sluice_op_zoom_out,
    &sluice_op_random_size_crop,
    &sluice_op_iou_crop,
    &sluice_op_letterbox,
    &sluice_op_pad_to_multiple,
    &sluice_op_smart_resize,
    &sluice_op_fit_bucket,
    &sluice_op_multi_scale,
    &sluice_op_hflip,
    &sluice_op_vflip,
    &sluice_op_affine,
    &sluice_op_rotate,
    &sluice_op_perspective,
    &sluice_op_shear_x,
    &sluice_op_shear_y,
    &sluice_op_translate_x,
    &sluice_op_translate_y,
    &sluice_op_brightness,
    &sluice_op_contrast,
    &sluice_op_color,
    &sluice_op_hue,
    &sluice_op_sharpness,
    &sluice_op_grayscale,
    &sluice_op_invert,
    &sluice_op_solarize,
    &sluice_op_solarize_add,
    &sluice_op_posterize,
    &sluice_op_equalize,
    &sluice_op_autocontrast,
    &sluice_op_pil_blur,
    &sluice_op_tv_blur,
    &sluice_op_channel_permute,
    &sluice_op_identity,
    &sluice_op_color_jitter,
    &sluice_op_photometric_distort,
    &sluice_op_randaugment,
    &sluice_op_trivial_augment_wide,
    &sluice_op_rand_augment_timm,
    &sluice_op_auto_augment,
    &sluice_op_augmix,
    &sluice_op_one_of,
    &sluice_op_k_of,
    &sluice_op_when,
    &sluice_op_shuffled,
    &sluice_op_sequence,
    &sluice_op_views,
    &sluice_op_to_tensor,
    &sluice_op_normalize,
};
static size_t num_types = 56;

sluice_status sluice_op_register(const struct sluice_op_type *type, struct sluice_err *err)
{
    if (sluice_op_type_find(type->name, strlen(type->name)))
        return sluice_fail(err, SLUICE_E_INVALID, "there is an op %s already", type->name);
    if (num_types == MAX_TYPES)
        return sluice_fail(err, SLUICE_E_INVALID, "no room for the op %s", type->name);
    types[num_types++] = type;
    return SLUICE_OK;
}

const struct sluice_op_type *sluice_op_type_find(const char *name, size_t len)
{
    for (size_t i = 0; i < num_types; i++) {
        if (strlen(types[i]->name) == len && memcmp(types[i]->name, name, len) == 0)
            return types[i];
    }
    return NULL;
}

void sluice_op_type_suggest(const char *name, size_t len, char *out, size_t room)
{
    struct sluice_suggestion suggestion = sluice_suggest_begin(name, len);
    for (size_t i = 0; i < num_types; i++)
        sluice_suggest_try(&suggestion, types[i]->name);
    sluice_suggest_print(&suggestion, "", out, room);
    size_t at = strlen(out);
    for (size_t i = 0; i < num_types && at < room; i++)
        at += (size_t)snprintf(out + at, room - at, "%s%s",
                               i > 0    ? ", "
                               : at > 0 ? " The ops are "
                                        : "; the ops are ",
                               types[i]->name);
}

const struct sluice_op_type *sluice_op_type_at(size_t i)
{
    return i < num_types ? types[i] : NULL;
}

bool sluice_op_has_kernel(const struct sluice_op *op)
{
    if (op->type->kind == SLUICE_OP_BLEND)
        return false;
    if (op->type->kind != SLUICE_OP_CHOICE)
        return op->type->is_identity || op->type->call || sluice_op_is_plain_table(op->type);
    for (unsigned i = 0; i < op->num_children; i++) {
        if (!sluice_op_has_kernel(&op->children[i]))
            return false;
    }
    return true;
}

static double draw_about(struct sluice_rng *rng, const struct sluice_number *number, double drawn)
{
    const bool is_minus = number->has_sign && sluice_rng_below(rng, 2) == 1;
    return number->about + (is_minus ? -drawn : drawn);
}

unsigned sluice_choose_all(const void *params, const struct sluice_op *children,
                           unsigned num_children, struct sluice_rng *rng,
                           uint8_t chosen[SLUICE_MAX_CHOSEN])
{
    (void)params, (void)children, (void)rng;
    for (unsigned i = 0; i < num_children; i++)
        chosen[i] = (uint8_t)i;
    return num_children;
}

unsigned sluice_num_children(const void *params, unsigned num_children)
{
    (void)params;
    return num_children;
}

unsigned sluice_choose_one(const void *params, const struct sluice_op *children,
                           unsigned num_children, struct sluice_rng *rng,
                           uint8_t chosen[SLUICE_MAX_CHOSEN])
{
    (void)params;
    chosen[0] = sluice_draw_child(children, num_children, NULL, rng);
    return 1;
}

unsigned sluice_num_one(const void *params, unsigned num_children)
{
    (void)params, (void)num_children;
    return 1;
}

double sluice_draw_normal(struct sluice_rng *rng)
{
    const double radius = sqrt(-2 * sluice_exact_log(1 - sluice_rng_double(rng)));
    const double turn = 2 * 3.14159265358979323846 * sluice_rng_double(rng);
    return radius * sluice_exact_cos(turn);
}

static double draw_normal(struct sluice_rng *rng, const struct sluice_number *number)
{
    const double drawn = number->mean + number->deviation * sluice_draw_normal(rng);
    return drawn < number->min ? number->min : drawn > number->max ? number->max : drawn;
}

static double draw_step(struct sluice_rng *rng, const struct sluice_number *number)
{
    const double step = (number->max - number->min) / (number->steps - 1);
    return number->min + step * sluice_rng_below(rng, number->steps);
}

double sluice_draw_number(struct sluice_rng *rng, const struct sluice_number *number)
{
    double drawn = number->min;
    if (number->deviation > 0)
        drawn = draw_normal(rng, number);
    else if (number->steps)
        drawn = draw_step(rng, number);
    else if (number->min < number->max)
        drawn += (number->max - number->min) * sluice_rng_double(rng);
    return draw_about(rng, number, drawn);
}

double sluice_draw_whole(struct sluice_rng *rng, const struct sluice_number *number)
{
    double drawn = number->min;
    if (number->deviation > 0)
        drawn = trunc(draw_normal(rng, number));
    else if (number->steps)
        drawn = trunc(draw_step(rng, number));
    else if (number->min < number->max)
        drawn += sluice_rng_below(rng, (uint32_t)(number->max - number->min) + 1);
    return draw_about(rng, number, drawn);
}

const char *const sluice_padding_modes[] = {"constant", "edge", "reflect", "symmetric", NULL};

const char *const sluice_resize_filters[] = {"bilinear", "bicubic", "lanczos", "box",
                                             "hamming",  "nearest", "random",  NULL};

enum sluice_resize_filter sluice_draw_filter(struct sluice_rng *rng, uint32_t word)
{
    const bool is_random = !sluice_resize_filters[word + 1];
    return (enum sluice_resize_filter)(is_random ? sluice_rng_below(rng, 2) : word);
}

uint8_t sluice_draw_child(const struct sluice_op *children, unsigned num_children,
                          const bool *is_taken, struct sluice_rng *rng)
{
    double sum = 0;
    for (unsigned i = 0; i < num_children; i++)
        sum += is_taken && is_taken[i] ? 0 : children[i].weight;
    double left = sluice_rng_double(rng) * sum;
    unsigned last = 0; /* where rounding leaves a rest */
    for (unsigned i = 0; i < num_children; i++) {
        if (is_taken && is_taken[i])
            continue;
        last = i;
        left -= children[i].weight;
        if (left < 0)
            break;
    }
    return (uint8_t)last;
}

unsigned sluice_draw_order(unsigned num_children, struct sluice_rng *rng,
                           uint8_t chosen[SLUICE_MAX_CHOSEN])
{
    for (unsigned i = 0; i < num_children; i++)
        chosen[i] = (uint8_t)i;
    for (unsigned i = num_children; i > 1; i--) {
        const unsigned other = sluice_rng_below(rng, i);
        const uint8_t last = chosen[i - 1];
        chosen[i - 1] = chosen[other];
        chosen[other] = last;
    }
    return num_children;
}

struct sluice_rng sluice_op_rng(const struct sluice_op *op, const struct sluice_draw_key *key,
                                unsigned turn)
{
    return sluice_rng_init(key->seed, key->epoch, key->sample_id ^ (uint64_t)op->group << 48,
                           op->place + turn * SLUICE_MAX_NODES);
}

/* `place` is counted from the op with index `first`. */
static void set_places(struct sluice_op *op, uint32_t group, unsigned first)
{
    if (op->draws > 0) {
        group = SLUICE_SHARED_DRAWS + op->draws;
        first = op->index;
    }
    op->group = group;
    op->place = op->index - first;
    for (unsigned i = 0; i < op->num_children; i++)
        set_places(&op->children[i], group, first);
}

void sluice_op_set_places(struct sluice_op *op, uint32_t group)
{
    set_places(op, group, 0);
}

/* Copies a box of the input; all of it if the box is empty or lies outside. */
static struct sluice_resample copy_box(struct sluice_box box, struct sluice_size in)
{
    const bool is_within = box.width > 0 && box.height > 0 &&
                           (uint64_t)box.left + box.width <= in.width &&
                           (uint64_t)box.top + box.height <= in.height;
    if (!is_within)
        box = (struct sluice_box){.width = in.width, .height = in.height};
    return (struct sluice_resample){
        .from = box,
        .to = {box.width, box.height},
        .keep = {.width = box.width, .height = box.height},
        .out = {box.width, box.height},
        .padding = {.in = in},
    };
}

void sluice_op_draw(const struct sluice_op *op, const struct sluice_draw_key *key,
                    struct sluice_size in, union sluice_drawn *drawn)
{
    struct sluice_rng rng = sluice_op_rng(op, key, 0);
    if (op->type->draw_of_batch)
        op->type->draw_of_batch(op->params, in, key->bucket, &rng, &drawn->resample);
    else if (op->type->kind == SLUICE_OP_RESAMPLE && !sluice_op_runs_in(op, key->schedule))
        drawn->resample = copy_box((struct sluice_box){0}, in);
    else if (op->type->draw_by_boxes)
        drawn->resample = copy_box(key->crop, in);
    else
        op->type->draw(op->params, in, &rng, drawn);
}

/* int(side * a / b): the product is exact and Python divides integers with one rounding, so a
 * double division gives the same; the quotient is below 2^30. */
static uint32_t scale_side(uint32_t side, uint32_t a, uint32_t b)
{
    const uint32_t scaled = (uint32_t)((double)((uint64_t)side * a) / (double)b);
    return scaled > 0 ? scaled : 1;
}

struct sluice_size sluice_size_with_sides(uint32_t shorter, uint32_t longer, struct sluice_size in)
{
    const bool is_tall = in.width <= in.height;
    const uint32_t in_shorter = is_tall ? in.width : in.height;
    const uint32_t in_longer = is_tall ? in.height : in.width;
    uint32_t to_shorter = shorter, to_longer = longer;
    if (!shorter) {
        to_shorter = scale_side(longer, in_shorter, in_longer);
    } else {
        to_longer = scale_side(shorter, in_longer, in_shorter);
        if (longer && to_longer > longer) {
            to_shorter = scale_side(longer, shorter, to_longer);
            to_longer = longer;
        }
    }
    return is_tall ? (struct sluice_size){to_shorter, to_longer}
                   : (struct sluice_size){to_longer, to_shorter};
}

/* round(side / other * size): a side of the fitted image.  Pillow fails where it is 0. */
static uint32_t fit_side(uint32_t side, uint32_t other, uint32_t size)
{
    const int64_t fitted = sluice_round_half_even((double)side / other * size);
    return fitted > 0 ? (uint32_t)fitted : 1;
}

/* ImageOps.contain(). */
static struct sluice_size contain(struct sluice_size in, struct sluice_size size)
{
    const double ratio = (double)in.width / in.height;
    const double size_ratio = (double)size.width / size.height;
    if (ratio > size_ratio)
        size.height = fit_side(in.height, in.width, size.width);
    else if (ratio < size_ratio)
        size.width = fit_side(in.width, in.height, size.height);
    return size;
}

void sluice_resample_letterbox(struct sluice_resample *resample, struct sluice_size in)
{
    const struct sluice_size out = resample->out, to = contain(in, out);
    resample->to = to;
    resample->keep = (struct sluice_box){.width = to.width, .height = to.height};
    resample->left = (uint32_t)sluice_round_half_even((out.width - to.width) * 0.5);
    resample->top = (uint32_t)sluice_round_half_even((out.height - to.height) * 0.5);
}

bool sluice_resample_join(const struct sluice_resample *first, const struct sluice_resample *second,
                          struct sluice_resample *both)
{
    const bool is_full =
        first->keep.width == first->out.width && first->keep.height == first->out.height;
    const bool is_copy =
        second->to.width == second->from.width && second->to.height == second->from.height;
    if (!is_full || !is_copy)
        return false;
    *both = *first;
    both->keep.left += second->from.left + second->keep.left;
    both->keep.top += second->from.top + second->keep.top;
    both->keep.width = second->keep.width;
    both->keep.height = second->keep.height;
    both->out = second->out;
    both->left = second->left;
    both->top = second->top;
    return true;
}

sluice_status sluice_spec_fail(const struct sluice_spec_text *text, struct sluice_err *err,
                               const char *fmt, ...)
{
    char words[400];
    va_list args;
    va_start(args, fmt);
    sluice_vsnprintf(words, sizeof(words), fmt, args);
    va_end(args);
    const int name_len = text->op_name_len < 32 ? (int)text->op_name_len : 32;
    return sluice_fail(err, SLUICE_E_INVALID, "pipeline: op %u (%.*s) at character %zu: %s",
                       text->op, name_len, text->op_name, (size_t)(text->at - text->start) + 1,
                       words);
}

bool sluice_spec_accept(struct sluice_spec_text *text, const char *token)
{
    const size_t len = strlen(token);
    if (strncmp(text->at, token, len) != 0)
        return false;
    text->at += len;
    return true;
}

void sluice_spec_suggest(const struct sluice_spec_text *text, const char *const *known, char *out,
                         size_t room)
{
    struct sluice_suggestion suggestion =
        sluice_suggest_begin(text->at, strcspn(text->at, "=:,()[]"));
    for (size_t i = 0; known[i]; i++)
        sluice_suggest_try(&suggestion, known[i]);
    sluice_suggest_print(&suggestion, "", out, room);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

sluice_status sluice_spec_size(struct sluice_spec_text *text, uint32_t *size,
                               struct sluice_err *err)
{
    const char *p = text->at;
    uint32_t value = 0;
    while (is_digit(*p) && value <= SLUICE_MAX_OP_SIZE)
        value = value * 10 + (uint32_t)(*p++ - '0');
    if (p == text->at || value < 1 || value > SLUICE_MAX_OP_SIZE)
        return sluice_spec_fail(text, err, "a size from 1 to %u is wanted here",
                                SLUICE_MAX_OP_SIZE);
    text->at = p;
    *size = value;
    return SLUICE_OK;
}

/* strtod rounds decimals correctly, so every node reads the same double; it is
 * given digits and one point only, and never an exponent or a name. */
sluice_status sluice_spec_number(struct sluice_spec_text *text, double *number,
                                 struct sluice_err *err)
{
    char digits[40];
    size_t len = 0;
    const char *p = text->at;
    bool has_point = false;
    while ((is_digit(*p) || (*p == '.' && !has_point && p != text->at)) &&
           len < sizeof(digits) - 1) {
        has_point = has_point || *p == '.';
        digits[len++] = *p++;
    }
    digits[len] = '\0';
    if (len == 0 || digits[len - 1] == '.')
        return sluice_spec_fail(text, err, "a number such as 0.08 is wanted here");
    if (is_digit(*p) || *p == '.')
        return sluice_spec_fail(text, err, "a number has too many digits or points");
    const double value = sluice_strtod(digits, NULL);
    if (value > 1e6 || (value != 0 && value < 1e-4))
        return sluice_spec_fail(text, err, "a number is 0 or from 0.0001 to 1000000");
    text->at = p;
    *number = value;
    return SLUICE_OK;
}

void sluice_append_text(struct sluice_growing_text *to, const char *text)
{
    const size_t len = strlen(text);
    assert(to->len + len < to->room);
    memcpy(to->text + to->len, text, len + 1);
    to->len += len;
}

void sluice_print_number(double number, char *text, size_t room)
{
    /* 21 decimals hold 17 significant digits of the smallest number there is here. */
    for (int decimals = 0; decimals <= 21; decimals++) {
        sluice_snprintf(text, room, "%.*f", decimals, number);
        if (sluice_strtod(text, NULL) == number)
            return;
    }
}
