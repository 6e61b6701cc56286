#ifndef SLUICE_GPU_RESIZE_KERNELS_H
#define SLUICE_GPU_RESIZE_KERNELS_H

#include "gpu/decode_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif
#include "image/kernels/kernels.h"
#include "image/resize.h"
#ifdef __cplusplus
}
#endif

/* Samples to the pixels of a row: upsampling, colours, and the two passes of the resize, as
 * decode_kernels.h says.
 *
 * C11 and CUDA. */

/* --- weights of the resize --- */

/* A product and a sum that round twice. */
#ifdef __CUDACC__
#define SLUICE_GPU_MUL(a, b) __dmul_rn(a, b)
#define SLUICE_GPU_ADD(a, b) __dadd_rn(a, b)
#else
#define SLUICE_GPU_MUL(a, b) ((a) * (b))
#define SLUICE_GPU_ADD(a, b) ((a) + (b))
#endif

SLUICE_KERNEL_INLINE double sluice_gpu_triangle(double x)
{
    x = x < 0 ? -x : x;
    return x < 1.0 ? SLUICE_GPU_ADD(1.0, -x) : 0.0;
}

/* Pillow's bicubic: Keys' cubic with a = -0.5. */
SLUICE_KERNEL_INLINE double sluice_gpu_keys(double x)
{
    x = x < 0 ? -x : x;
    if (x < 1.0) {
        const double y = SLUICE_GPU_ADD(SLUICE_GPU_MUL(1.5, x), -2.5);
        return SLUICE_GPU_ADD(SLUICE_GPU_MUL(SLUICE_GPU_MUL(y, x), x), 1);
    }
    if (x < 2.0) {
        const double y = SLUICE_GPU_ADD(SLUICE_GPU_MUL(SLUICE_GPU_ADD(x, -5), x), 8);
        return SLUICE_GPU_MUL(SLUICE_GPU_ADD(SLUICE_GPU_MUL(y, x), -4), -0.5);
    }
    return 0.0;
}

SLUICE_KERNEL_INLINE double sluice_gpu_filter(uint32_t filter, double x)
{
    return filter == SLUICE_RESIZE_BICUBIC ? sluice_gpu_keys(x) : sluice_gpu_triangle(x);
}

/* Output `i` of an axis: what sluice_weigh_c() and the part of resize.c make of it. */
SLUICE_KERNEL_INLINE void sluice_gpu_weigh(const struct sluice_gpu_memory *memory,
                                           const struct sluice_gpu_axis *axis, int is_mirrored,
                                           uint32_t i)
{
    const double scale = (double)axis->in / axis->out;
    const double stretch = scale < 1.0 ? 1.0 : scale;
    const double support = axis->filter == SLUICE_RESIZE_BICUBIC ? 2.0 * stretch : stretch;
    const double inverse = 1.0 / stretch;
    const uint32_t o = axis->from + (is_mirrored ? axis->count - 1 - i : i);
    const double center = SLUICE_GPU_MUL(SLUICE_GPU_ADD(o, 0.5), scale);
    int32_t first = (int32_t)SLUICE_GPU_ADD(SLUICE_GPU_ADD(center, -support), 0.5);
    first = first < 0 ? 0 : first;
    int32_t end = (int32_t)SLUICE_GPU_ADD(SLUICE_GPU_ADD(center, support), 0.5);
    end = end > (int32_t)axis->in ? (int32_t)axis->in : end;
    if (axis->in == axis->out) { /* the other taps weigh 0, and may lie past the input */
        first = (int32_t)o;
        end = first + 1;
    }
    const int32_t count = end - first;
    double sum = 0;
    for (int32_t k = 0; k < count; k++)
        sum = SLUICE_GPU_ADD(
            sum,
            sluice_gpu_filter(
                axis->filter,
                SLUICE_GPU_MUL(SLUICE_GPU_ADD(SLUICE_GPU_ADD((double)(k + first), -center), 0.5),
                               inverse)));
    int32_t *spans = memory->weights + axis->first_weight;
    int32_t *weights = spans + 2 * (uint64_t)axis->count + i;
    for (int32_t k = 0; k < count; k++) {
        const double weight = sluice_gpu_filter(
            axis->filter,
            SLUICE_GPU_MUL(SLUICE_GPU_ADD(SLUICE_GPU_ADD((double)(k + first), -center), 0.5),
                           inverse));
        const double normalized = sum != 0.0 ? weight / sum : weight;
        weights[(uint64_t)k * axis->count] =
            (int32_t)SLUICE_GPU_ADD(normalized < 0 ? -0.5 : 0.5,
                                    SLUICE_GPU_MUL(normalized, (double)(1 << SLUICE_RESIZE_BITS)));
    }
    for (int32_t k = count; k < (int32_t)axis->max_taps; k++)
        weights[(uint64_t)k * axis->count] = 0;
    spans[i] = first - (int32_t)axis->in_from;
    spans[axis->count + i] = count;
}

/* --- samples to pixels, and the pass across --- */

/* Neighbours in a row; samples are read by fours, too. */
struct sluice_gpu_four {
    SLUICE_ALIGNED(16) uint32_t words[4];
};

/* SLUICE_GPU_SHARED. */
struct sluice_gpu_across_shared {
    struct sluice_gpu_four pixels[SLUICE_GPU_ACROSS_PIXELS / 4];
    union {
        struct sluice_gpu_four chroma[SLUICE_GPU_ACROSS_PIXELS / 4]; /* blue | red << 16 */
        int32_t weights[SLUICE_GPU_ACROSS_PIXELS]; /* of the columns; as an axis has them */
    } side;
};

/* The output of a task: rows [row, row + num_rows) and columns [column, column + num_columns) of
 * its result, from the inputs of each row from `first` on.  These are in the pixels [x, x + 4 *
 * fours) of the image, which need the columns [chroma, chroma + 4 * chroma_fours) of chroma up to
 * last_chroma.  Each row has 1 << thread_bits threads. */
struct sluice_gpu_across {
    uint32_t row, num_rows, column, num_columns, first;
    uint32_t x, fours;
    uint32_t chroma, chroma_fours, last_chroma;
    uint32_t thread_bits;
};

/* Whether a column of chroma depends on the next one. */
SLUICE_KERNEL_INLINE uint32_t sluice_gpu_is_smooth_across(const struct sluice_gpu_plane *plane)
{
    return plane->upsampling == SLUICE_GPU_SMOOTH && plane->wide == 2;
}

/* The sample's view whose task is number `*task` of the sample's; *task becomes the view's. */
SLUICE_KERNEL_INLINE const struct sluice_gpu_view *
sluice_gpu_across_view(const struct sluice_gpu_sample *sample, uint32_t *task)
{
    const struct sluice_gpu_view *view = sluice_gpu_view_of(sample, 0);
    for (uint32_t left = sample->num_views - 1; left > 0 && *task >= view->across_tasks; left--) {
        *task -= view->across_tasks;
        view++;
    }
    return view;
}

SLUICE_KERNEL_INLINE struct sluice_gpu_across
sluice_gpu_across_task(const struct sluice_gpu_memory *memory,
                       const struct sluice_gpu_sample *sample, const struct sluice_gpu_view *view,
                       uint32_t task)
{
    const struct sluice_gpu_axis *axis = &view->across;
    const uint32_t num_tiles = (axis->count + view->columns_at_once - 1) / view->columns_at_once;
    struct sluice_gpu_across work = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    work.row = task / num_tiles * view->rows_at_once;
    work.num_rows = sluice_gpu_min(view->rows_at_once, view->down.in_count - work.row);
    work.column = task % num_tiles * view->columns_at_once;
    work.num_columns = sluice_gpu_min(view->columns_at_once, axis->count - work.column);
    /* Both ends of a span are monotonic in the output. */
    const int32_t *spans = memory->weights + axis->first_weight;
    const uint32_t last_column = work.column + work.num_columns - 1;
    const uint32_t low = view->is_flipped ? last_column : work.column;
    const uint32_t high = view->is_flipped ? work.column : last_column;
    work.first = (uint32_t)spans[low];
    const uint32_t last = view->left + (uint32_t)(spans[high] + spans[axis->count + high]) - 1;
    work.x = (view->left + work.first) / 4 * 4;
    work.fours = last / 4 - work.x / 4 + 1;
    if (sample->num_planes > 1) {
        const struct sluice_gpu_plane *plane = &sample->planes[1];
        const uint32_t is_smooth = sluice_gpu_is_smooth_across(plane);
        const uint32_t first_chroma = (view->left + work.first) / plane->wide;
        work.chroma = (first_chroma - (is_smooth && first_chroma > 0)) / 4 * 4;
        work.last_chroma = sluice_gpu_min(last / plane->wide + is_smooth, plane->width - 1);
        work.chroma_fours = work.last_chroma / 4 - work.chroma / 4 + 1;
    }
    work.thread_bits = 8; /* SLUICE_GPU_ACROSS_THREADS */
    for (uint32_t rows = view->rows_at_once; rows > 1; rows /= 2)
        work.thread_bits--;
    return work;
}

/* Row y of a plane from column x on, which is a multiple of 4. */
SLUICE_KERNEL_INLINE const uint32_t *sluice_gpu_plane_row(const struct sluice_gpu_memory *memory,
                                                          const struct sluice_gpu_plane *plane,
                                                          uint32_t x, uint32_t y)
{
    return (const uint32_t *)(const void *)(memory->samples + (uint64_t)plane->first_block * 64 +
                                            (uint64_t)(y - plane->first_row * 8) * plane->columns *
                                                8 +
                                            (x - plane->first_column * 8));
}

/* Byte i of each. */
SLUICE_KERNEL_INLINE uint32_t sluice_gpu_both(uint32_t blue, uint32_t red, uint32_t i)
{
    return (blue >> 8 * i & 255) | (red >> 8 * i & 255) << 16;
}

/* First, the chroma of the task's rows: upsample_row() of jpeg/window_pixels.c as far as it goes
 * down a column. */
SLUICE_KERNEL_INLINE void sluice_gpu_across_chroma(const struct sluice_gpu_memory *memory,
                                                   const struct sluice_gpu_sample *sample,
                                                   const struct sluice_gpu_view *view,
                                                   const struct sluice_gpu_across *work,
                                                   struct sluice_gpu_across_shared *shared,
                                                   uint32_t thread)
{
    const uint32_t row = thread >> work->thread_bits, step = 1u << work->thread_bits;
    if (row >= work->num_rows || sample->num_planes == 1)
        return;
    const struct sluice_gpu_plane *plane = &sample->planes[1], *red_plane = &sample->planes[2];
    const uint32_t y = view->top + work->row + row;
    const uint32_t near_y = y / plane->high;
    /* The second-nearest sample is before even pixels and after odd ones; the edge repeats. */
    const int is_smooth = plane->upsampling == SLUICE_GPU_SMOOTH && plane->high == 2;
    const int is_rounded = is_smooth && plane->wide == 1;
    uint32_t next_y = near_y;
    if (is_smooth)
        next_y = y % 2 ? sluice_gpu_min(near_y + 1, plane->height - 1) : near_y - (near_y > 0);
    const uint32_t *blue = sluice_gpu_plane_row(memory, plane, work->chroma, near_y);
    const uint32_t *next_blue = sluice_gpu_plane_row(memory, plane, work->chroma, next_y);
    const uint32_t *red = sluice_gpu_plane_row(memory, red_plane, work->chroma, near_y);
    const uint32_t *next_red = sluice_gpu_plane_row(memory, red_plane, work->chroma, next_y);
    const uint32_t near_weight = is_smooth ? 3 : 1, next_weight = is_smooth ? 1 : 0;
    const uint32_t bias = !is_rounded ? 0 : y % 2 ? 0x00020002 : 0x00010001;
    const uint32_t shift = is_rounded ? 2 : 0, mask = is_rounded ? 0x00FF00FF : 0xFFFFFFFF;
    struct sluice_gpu_four *chroma = shared->side.chroma + row * work->chroma_fours;
    for (uint32_t i = thread & (step - 1); i < work->chroma_fours; i += step) {
        const uint32_t b = SLUICE_GPU_READ(blue + i), next_b = SLUICE_GPU_READ(next_blue + i);
        const uint32_t r = SLUICE_GPU_READ(red + i), next_r = SLUICE_GPU_READ(next_red + i);
        struct sluice_gpu_four four;
        for (uint32_t j = 0; j < 4; j++)
            four.words[j] = (sluice_gpu_both(b, r, j) * near_weight +
                             sluice_gpu_both(next_b, next_r, j) * next_weight + bias) >>
                                shift &
                            mask;
        chroma[i] = four;
    }
}

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_rgb(int32_t luma, int32_t b, int32_t r)
{
    const int32_t base = luma * 65536 + 32768;
    b -= 128;
    r -= 128;
    const uint32_t red = sluice_gpu_clip((base + (65536 + SLUICE_JPEG_CR_TO_R) * r) >> 16);
    const uint32_t green =
        sluice_gpu_clip((base + SLUICE_JPEG_CB_TO_G * b + (SLUICE_JPEG_CR_TO_G - 65536) * r) >> 16);
    const uint32_t blue = sluice_gpu_clip((base + (2 * 65536 + SLUICE_JPEG_CB_TO_B) * b) >> 16);
    return red | green << 8 | blue << 16;
}

/* Then the pixels of its inputs. */
SLUICE_KERNEL_INLINE void sluice_gpu_across_load(const struct sluice_gpu_memory *memory,
                                                 const struct sluice_gpu_sample *sample,
                                                 const struct sluice_gpu_view *view,
                                                 const struct sluice_gpu_across *work,
                                                 struct sluice_gpu_across_shared *shared,
                                                 uint32_t thread)
{
    const uint32_t row = thread >> work->thread_bits, step = 1u << work->thread_bits;
    if (row >= work->num_rows)
        return;
    const uint32_t *luma =
        sluice_gpu_plane_row(memory, &sample->planes[0], work->x, view->top + work->row + row);
    struct sluice_gpu_four *pixels = shared->pixels + row * work->fours;
    const int is_gray = sample->num_planes == 1;
    const uint32_t wide_bits = is_gray ? 0 : sample->planes[1].wide / 2; /* of 1, 2 or 4 */
    const int is_smooth = !is_gray && sluice_gpu_is_smooth_across(&sample->planes[1]);
    const int is_smooth_down = sample->planes[1].high == 2; /* of use if is_smooth */
    const uint32_t shift = is_smooth_down ? 4 : 2;
    const uint32_t even_bias = is_smooth_down ? 0x00080008 : 0x00010001;
    const uint32_t odd_bias = is_smooth_down ? 0x00070007 : 0x00020002;
    const uint32_t *chroma = shared->side.chroma[row * work->chroma_fours].words;
    const uint32_t last = work->last_chroma - work->chroma;
    for (uint32_t i = thread & (step - 1); i < work->fours; i += step) {
        const uint32_t y = SLUICE_GPU_READ(luma + i), x = work->x + 4 * i;
        const uint32_t at = (x >> wide_bits) - work->chroma;
        uint32_t both[4];
        if (is_smooth) {
            const uint32_t before = chroma[at - (at > 0)], first = chroma[at];
            const uint32_t second = chroma[sluice_gpu_min(at + 1, last)];
            const uint32_t after = chroma[sluice_gpu_min(at + 2, last)];
            both[0] = (3 * first + before + even_bias) >> shift;
            both[1] = (3 * first + second + odd_bias) >> shift;
            both[2] = (3 * second + first + even_bias) >> shift;
            both[3] = (3 * second + after + odd_bias) >> shift;
        } else {
            for (uint32_t j = 0; j < 4; j++)
                both[j] = is_gray
                              ? 0x00800080
                              : chroma[sluice_gpu_min(((x + j) >> wide_bits) - work->chroma, last)];
        }
        struct sluice_gpu_four four;
        for (uint32_t j = 0; j < 4; j++)
            four.words[j] = sluice_gpu_rgb((int32_t)(y >> 8 * j & 255), (int32_t)(both[j] & 255),
                                           (int32_t)(both[j] >> 16 & 255));
        pixels[i] = four;
    }
}

/* Then the weights of its columns, in place of the chroma. */
SLUICE_KERNEL_INLINE void sluice_gpu_across_weights(const struct sluice_gpu_memory *memory,
                                                    const struct sluice_gpu_view *view,
                                                    const struct sluice_gpu_across *work,
                                                    struct sluice_gpu_across_shared *shared,
                                                    uint32_t thread)
{
    const struct sluice_gpu_axis *axis = &view->across;
    const uint32_t stride = axis->count;
    const uint32_t num = (uint32_t)SLUICE_GPU_TASK_WEIGHTS(axis, work->num_columns);
    const int32_t *weights = memory->weights + axis->first_weight + work->column;
    for (uint32_t i = thread; i < num; i += SLUICE_GPU_ACROSS_THREADS)
        shared->side.weights[i] =
            SLUICE_GPU_READ(weights + i / work->num_columns * stride + i % work->num_columns);
}

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_round(int32_t sum)
{
    return sluice_gpu_clip((sum + (1 << (SLUICE_RESIZE_BITS - 1))) >> SLUICE_RESIZE_BITS);
}

/* Three weighted sums at once. */
struct sluice_gpu_sums {
    int32_t red, green, blue;
};

SLUICE_KERNEL_INLINE void sluice_gpu_sums_add(struct sluice_gpu_sums *sums, uint32_t pixel,
                                              int32_t weight)
{
    sums->red += (int32_t)(pixel & 255) * weight;
    sums->green += (int32_t)(pixel >> 8 & 255) * weight;
    sums->blue += (int32_t)(pixel >> 16 & 255) * weight;
}

SLUICE_KERNEL_INLINE uint32_t sluice_gpu_sums_round(const struct sluice_gpu_sums *sums)
{
    return sluice_gpu_round(sums->red) | sluice_gpu_round(sums->green) << 8 |
           sluice_gpu_round(sums->blue) << 16;
}

/* Then their sums: half of the threads make two of four rows, and a thread a column of them. */
SLUICE_KERNEL_INLINE void sluice_gpu_across_sum(const struct sluice_gpu_memory *memory,
                                                const struct sluice_gpu_view *view,
                                                const struct sluice_gpu_across *work,
                                                const struct sluice_gpu_across_shared *shared,
                                                uint32_t thread)
{
    const uint32_t half = SLUICE_GPU_ACROSS_THREADS / 2, stride = view->across.count;
    const uint32_t num_columns = work->num_columns;
    uint32_t *out =
        memory->pixels + view->first_pixel + (uint64_t)work->row * stride + work->column;
    for (uint32_t row = thread / half * 2; row < work->num_rows; row += 4) {
        const int has_two = row + 1 < work->num_rows;
        const uint32_t *rows = shared->pixels[row * work->fours].words;
        const uint32_t second = has_two ? work->fours * 4 : 0;
        for (uint32_t o = thread % half; o < num_columns; o += half) {
            const int32_t *weights = shared->side.weights + o;
            const uint32_t *pixels = rows + (view->left + (uint32_t)weights[0] - work->x);
            const uint32_t count = (uint32_t)weights[num_columns];
            struct sluice_gpu_sums sums = {0, 0, 0}, second_sums = {0, 0, 0};
            weights += 2 * num_columns;
            for (uint32_t k = 0; k < count; k++, weights += num_columns) {
                sluice_gpu_sums_add(&sums, pixels[k], *weights);
                sluice_gpu_sums_add(&second_sums, pixels[k + second], *weights);
            }
            out[row * stride + o] = sluice_gpu_sums_round(&sums);
            if (has_two)
                out[(row + 1) * stride + o] = sluice_gpu_sums_round(&second_sums);
        }
    }
}

/* --- the pass down --- */

/* Pixels [x, x + SLUICE_GPU_DOWN_PIXELS) of row y, as far as the row goes. */
SLUICE_KERNEL_INLINE void sluice_gpu_down(const struct sluice_gpu_memory *memory,
                                          const struct sluice_gpu_sample *sample,
                                          const struct sluice_gpu_view *view, uint32_t x,
                                          uint32_t y)
{
    const struct sluice_gpu_axis *axis = &view->down;
    const int32_t *spans = memory->weights + axis->first_weight;
    const int32_t *weights = spans + 2 * (uint64_t)axis->count + y;
    const uint32_t first = (uint32_t)spans[y], count = (uint32_t)spans[axis->count + y];
    const uint32_t width = view->across.count;
    const uint32_t *in = memory->pixels + view->first_pixel + (uint64_t)first * width + x;
    const uint32_t num = sluice_gpu_min(SLUICE_GPU_DOWN_PIXELS, width - x);
    struct sluice_gpu_sums sums[SLUICE_GPU_DOWN_PIXELS] = {
        {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
    for (uint32_t k = 0; k < count; k++, in += width, weights += axis->count) {
        const int32_t weight = *weights;
        for (uint32_t i = 0; i < SLUICE_GPU_DOWN_PIXELS; i++) {
            if (i < num)
                sluice_gpu_sums_add(&sums[i], in[i], weight);
        }
    }
    uint32_t made[SLUICE_GPU_DOWN_PIXELS];
    for (uint32_t i = 0; i < SLUICE_GPU_DOWN_PIXELS; i++)
        made[i] = sluice_gpu_sums_round(&sums[i]);
    uint8_t *out = sluice_gpu_pixels_of(memory, sample, view) + ((uint64_t)y * width + x) * 3;
    if (sluice_gpu_is_by_words(out, width)) {      /* SLUICE_GPU_DOWN_PIXELS is 4 */
        uint32_t *words = (uint32_t *)(void *)out; /* little endian */
        words[0] = made[0] | made[1] << 24;
        words[1] = made[1] >> 8 | made[2] << 16;
        words[2] = made[2] >> 16 | made[3] << 8;
        return;
    }
    for (uint32_t i = 0; i < SLUICE_GPU_DOWN_PIXELS; i++) {
        if (i < num) {
            out[3 * i] = (uint8_t)made[i];
            out[3 * i + 1] = (uint8_t)(made[i] >> 8);
            out[3 * i + 2] = (uint8_t)(made[i] >> 16);
        }
    }
}

#endif
