#include "run_support.h"

#include "base/rng.h"
#include "op/geometry.h"
#include "op/op.h"
#include "support/test.h"

#define END ",resize=8x8"
#define PLAIN "decode,iou_crop" END
#define WIDTH 640u
#define HEIGHT 427u
#define MAX_BOXES 9

static const struct sluice_file_image image = {WIDTH, HEIGHT, 1};

/* One to MAX_BOXES boxes of sizes of their own. */
static size_t make_boxes(uint64_t id, float boxes[4 * MAX_BOXES])
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, id, 0);
    const size_t num = 1 + sluice_rng_below(&rng, MAX_BOXES);
    for (size_t i = 0; i < num; i++) {
        const double side = 0.02 + 0.9 * sluice_rng_double(&rng) * sluice_rng_double(&rng);
        const double left = WIDTH * (1 - side) * sluice_rng_double(&rng);
        const double top = HEIGHT * (1 - side) * sluice_rng_double(&rng);
        boxes[4 * i] = (float)left;
        boxes[4 * i + 1] = (float)top;
        boxes[4 * i + 2] = (float)(left + side * WIDTH);
        boxes[4 * i + 3] = (float)(top + side * HEIGHT);
    }
    return num;
}

static struct sluice_draw_key key_of(uint64_t id)
{
    return (struct sluice_draw_key){.seed = sluice_test_seed(), .epoch = 1, .sample_id = id};
}

static struct sluice_box draw(const struct sluice_pipeline *pipeline,
                              const struct sluice_draw_key *key, const float *boxes,
                              size_t num_boxes)
{
    struct sluice_box crop = {9, 9, 9, 9};
    CHECK_OK(sluice_pipeline_draw_crop(pipeline, key, &image, boxes, num_boxes, &crop, NULL));
    return crop;
}

static bool is_all(struct sluice_box box)
{
    return box.left == 0 && box.top == 0 && box.width == WIDTH && box.height == HEIGHT;
}

/* The largest intersection over union with the crop of a box whose centre is in it; -1: none is. */
static double best_overlap(struct sluice_box crop, const float *boxes, size_t num)
{
    double best = -1;
    const double right = crop.left + crop.width, bottom = crop.top + crop.height;
    for (const float *b = boxes; b < boxes + 4 * num; b += 4) {
        const double x = (b[0] + b[2]) / 2, y = (b[1] + b[3]) / 2;
        if (!(x > crop.left && x < right && y > crop.top && y < bottom))
            continue;
        double across = (b[2] < right ? b[2] : right) - (b[0] > crop.left ? b[0] : crop.left);
        double down = (b[3] < bottom ? b[3] : bottom) - (b[1] > crop.top ? b[1] : crop.top);
        across = across < 0 ? 0 : across;
        down = down < 0 ? 0 : down;
        const double both = across * down;
        const double either =
            ((double)b[2] - b[0]) * ((double)b[3] - b[1]) + (double)crop.width * crop.height - both;
        best = both / either > best ? both / either : best;
    }
    return best;
}

TEST(each_crop_is_within_the_bounds_and_has_the_centre_of_a_box)
{
    struct sluice_pipeline *pipeline = run_test_parse(PLAIN);
    unsigned num_all = 0, num_overlapped[7] = {0};
    enum { NUM = 4000 };
    for (uint64_t id = 0; id < NUM; id++) {
        float boxes[4 * MAX_BOXES];
        const size_t num = make_boxes(id, boxes);
        const struct sluice_draw_key key = key_of(id);
        const struct sluice_box crop = draw(pipeline, &key, boxes, num);
        if (is_all(crop)) {
            num_all++;
            continue;
        }
        CU_ASSERT(crop.left + crop.width <= WIDTH && crop.top + crop.height <= HEIGHT);
        CU_ASSERT(crop.width >= (unsigned)(0.3 * WIDTH) && crop.height >= (unsigned)(0.3 * HEIGHT));
        CU_ASSERT(crop.width <= 2 * crop.height && crop.height <= 2 * crop.width);
        const double best = best_overlap(crop, boxes, num);
        CU_ASSERT(best >= 0);
        for (int i = 0; i < 7; i++)
            num_overlapped[i] += best >= (const double[]){0, 0.1, 0.3, 0.5, 0.7, 0.9, 1}[i];
    }
    /* One in seven by the first draw, and more as trials fail: high overlaps are rare. */
    CU_ASSERT(num_all > NUM / 7 && num_all < NUM / 2);
    CU_ASSERT_EQUAL(num_overlapped[0], NUM - num_all);
    CU_ASSERT(num_overlapped[1] > num_overlapped[3] && num_overlapped[3] > num_overlapped[4]);
    CU_ASSERT(num_overlapped[3] > NUM / 20);
    sluice_pipeline_destroy(pipeline);
}

TEST(without_boxes_the_image_stays_as_it_is)
{
    struct sluice_pipeline *pipeline = run_test_parse(PLAIN);
    const float bad[] = {9, 9, 3, 3};
    for (uint64_t id = 0; id < 50; id++) {
        struct sluice_draw_key key = key_of(id);
        const struct sluice_box crop = draw(pipeline, &key, NULL, 0);
        CU_ASSERT(crop.width == 0 && crop.height == 0);
        CU_ASSERT(is_all(draw(pipeline, &key, bad, 1)));
        const struct sluice_resample r = run_test_draw(pipeline, 1, id, WIDTH, HEIGHT).resample;
        CU_ASSERT(is_all(r.from) && r.out.width == WIDTH && r.out.height == HEIGHT);
    }
    sluice_pipeline_destroy(pipeline);
}

TEST(with_a_probability_and_in_epochs)
{
    struct sluice_pipeline *always = run_test_parse(PLAIN);
    struct sluice_pipeline *rarely = run_test_parse("decode,iou_crop=0.3-1:p=0.25" END);
    struct sluice_pipeline *early = run_test_parse("decode,iou_crop=0.3-1:epochs=epoch<71" END);
    CU_ASSERT_FALSE(sluice_pipeline_has_schedule(always));
    CU_ASSERT(sluice_pipeline_has_schedule(early));
    unsigned num_always = 0, num_rarely = 0;
    for (uint64_t id = 0; id < 2000; id++) {
        float boxes[4 * MAX_BOXES];
        const size_t num = make_boxes(id, boxes);
        struct sluice_draw_key key = key_of(id);
        const struct sluice_box crop = draw(always, &key, boxes, num);
        num_always += !is_all(crop);
        num_rarely += !is_all(draw(rarely, &key, boxes, num));
        key.schedule = 70;
        const struct sluice_box in_time = draw(early, &key, boxes, num);
        CU_ASSERT(memcmp(&in_time, &crop, sizeof(crop)) == 0);
        key.schedule = 71;
        CU_ASSERT_EQUAL(draw(early, &key, boxes, num).width, 0);
        key.crop = crop;
        union sluice_drawn drawn;
        sluice_op_draw(run_test_op(early, 1), &key, (struct sluice_size){WIDTH, HEIGHT}, &drawn);
        CU_ASSERT(is_all(drawn.resample.from));
    }
    CU_ASSERT(num_rarely > 0.2 * num_always && num_rarely < 0.3 * num_always);
    sluice_pipeline_destroy(always);
    sluice_pipeline_destroy(rarely);
    sluice_pipeline_destroy(early);
}

TEST(boxes_come_as_the_ops_before_it_show_them)
{
    struct sluice_pipeline *plain = run_test_parse("decode,hflip=1,iou_crop" END);
    struct sluice_pipeline *zoomed = run_test_parse("decode,hflip=1,zoom_out=1-3:p=1,iou_crop" END);
    for (uint64_t id = 0; id < 300; id++) {
        float boxes[4 * MAX_BOXES], mirrored[4 * MAX_BOXES];
        const size_t num = make_boxes(id, boxes);
        for (size_t i = 0; i < 4 * num; i += 4) {
            mirrored[i] = WIDTH - boxes[i + 2];
            mirrored[i + 2] = WIDTH - boxes[i];
            mirrored[i + 1] = boxes[i + 1];
            mirrored[i + 3] = boxes[i + 3];
        }
        const struct sluice_draw_key key = key_of(id);
        const struct sluice_box crop = draw(plain, &key, boxes, num);
        CU_ASSERT(is_all(crop) || best_overlap(crop, mirrored, num) >= 0);

        const struct sluice_resample at = run_test_draw(zoomed, 2, id, WIDTH, HEIGHT).resample;
        for (size_t i = 0; i < 4 * num; i++)
            mirrored[i] += (float)(i % 2 ? at.top : at.left);
        const struct sluice_box outer = draw(zoomed, &key, boxes, num);
        CU_ASSERT(outer.left + outer.width <= at.out.width &&
                  outer.top + outer.height <= at.out.height);
        CU_ASSERT(outer.width == at.out.width || best_overlap(outer, mirrored, num) >= 0);
    }
    sluice_pipeline_destroy(plain);
    sluice_pipeline_destroy(zoomed);
}

TEST(a_crop_of_another_image_is_not_cut)
{
    struct sluice_pipeline *pipeline = run_test_parse(PLAIN);
    static const struct sluice_box boxes[] = {
        {0, 0, 641, 9},
        {0, 0, 9, 428},
        {600, 0, 41, 9},
        {UINT32_MAX, 0, 2, 2},
        {0, UINT32_MAX, 2, 2},
        {5, 5, 0, 9},
        {1, 1, UINT32_MAX, UINT32_MAX},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(boxes); i++) {
        struct sluice_draw_key key = key_of(i);
        union sluice_drawn drawn;
        key.crop = boxes[i];
        sluice_op_draw(run_test_op(pipeline, 1), &key, (struct sluice_size){WIDTH, HEIGHT}, &drawn);
        CU_ASSERT(is_all(drawn.resample.from));
        key.crop = (struct sluice_box){600, 0, 40, 427};
        sluice_op_draw(run_test_op(pipeline, 1), &key, (struct sluice_size){WIDTH, HEIGHT}, &drawn);
        CU_ASSERT(drawn.resample.from.left == 600 && drawn.resample.out.width == 40);
    }
    sluice_pipeline_destroy(pipeline);
}

/* Were it endless, this test would not end. */
TEST(what_never_fits_leaves_the_image_as_it_is)
{
    struct sluice_pipeline *pipeline =
        run_test_parse("decode,iou_crop=0.5-0.5:ratio=100-200:trials=8192" END);
    const float box[] = {10, 10, 20, 20};
    for (uint64_t id = 0; id < 20; id++) {
        const struct sluice_draw_key key = key_of(id);
        CU_ASSERT(is_all(draw(pipeline, &key, box, 1)));
    }
    sluice_pipeline_destroy(pipeline);
}

TEST(what_is_no_iou_crop_is_refused)
{
    static const char *const texts[] = {
        "decode,iou_crop=0-1" END,
        "decode,iou_crop=0.3-1.1" END,
        "decode,iou_crop=1-0.3" END,
        "decode,iou_crop=0.3-1:p=2" END,
        "decode,iou_crop=0.3-1:trials=0" END,
        "decode,one_of(iou_crop)" END,
        "decode,iou_crop:epochs=epoch<0" END,
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(texts); i++)
        CU_ASSERT_EQUAL(sluice_pipeline_check(texts[i], NULL), SLUICE_E_INVALID);
    CHECK_FAILS(SLUICE_E_INVALID, "(iou_crop): its size is drawn",
                sluice_pipeline_check("decode,iou_crop", sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "a pipeline has one such op",
                sluice_pipeline_check("decode,iou_crop,iou_crop" END, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "and a view none",
                sluice_pipeline_check("decode,views([iou_crop" END "])", sluice_test_err()));
    CHECK_OK(sluice_pipeline_check("decode,iou_crop,views(2x[random_resized_crop=9])", NULL));
}

TEST(its_text_says_what_is_not_usual)
{
    struct sluice_pipeline *pipeline =
        run_test_parse("decode,iou_crop=0.4-1:trials=9:epochs=2<=epoch<7" END);
    CU_ASSERT_STRING_EQUAL(
        sluice_pipeline_spec(pipeline),
        "decode,iou_crop=0.4-1:ratio=0.5-2:p=1:trials=9:epochs=2<=epoch<7,resize=8x8");
    sluice_pipeline_destroy(pipeline);
    pipeline = run_test_parse("decode,iou_crop:epochs=epoch>=0" END);
    CU_ASSERT_STRING_EQUAL(sluice_pipeline_spec(pipeline),
                           "decode,iou_crop=0.3-1:ratio=0.5-2:p=1,resize=8x8");
    sluice_pipeline_destroy(pipeline);
}
