#include "plan/model_file.h"

#include "support/choices.h"
#include "support/test.h"

#define DATASET "00112233445566778899aabbccddeeff"

static const char *path_of_file(void)
{
    static char path[1024];
    snprintf(path, sizeof(path), "%s/" SLUICE_MODEL_FILE, sluice_test_dir());
    return path;
}

static sluice_status read_text(const char *text, struct sluice_err *err)
{
    sluice_test_write_file(path_of_file(), text, strlen(text));
    struct sluice_model_file file = {.num_samples = 77};
    memset(err, 0, sizeof(*err));
    const sluice_status status =
        sluice_model_file_read(sluice_test_dir(), sluice_test_choices(), &file, err);
    CU_ASSERT(status == SLUICE_OK || file.num_samples == 77);
    return status;
}

TEST(what_is_written_is_read)
{
    struct sluice_model_file file = {
        .model = sluice_test_model(),
        .transport = {1e-6, 2e-6, 3e-10, 4e-6, 8e-6, 5e-10, 6e-6, 7e-10, 9e-6, 8e-10},
        .num_samples = 12345,
        .link_bytes_per_s = 1.25e9,
        .storage_cores = 4,
        .compute_cores = 8,
    };
    file.model.has_jpeg_index = true;
    struct sluice_model_file read;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_model_file_write(sluice_test_dir(), sluice_test_pipeline(), &file, &err));
    REQUIRE_OK(sluice_model_file_read(sluice_test_dir(), sluice_test_choices(), &read, &err));
    CU_ASSERT_EQUAL(read.num_samples, 12345);
    CU_ASSERT_EQUAL(read.transport.storage_s_per_sample, 1e-6);
    CU_ASSERT_EQUAL(read.transport.storage_s_per_job, 2e-6);
    CU_ASSERT_EQUAL(read.transport.storage_s_per_byte, 3e-10);
    CU_ASSERT_EQUAL(read.transport.compute_s_per_sample, 4e-6);
    CU_ASSERT_EQUAL(read.transport.compute_s_per_job, 8e-6);
    CU_ASSERT_EQUAL(read.transport.compute_s_per_byte, 5e-10);
    CU_ASSERT_EQUAL(read.transport.receive_s_per_sample, 6e-6);
    CU_ASSERT_EQUAL(read.transport.receive_s_per_byte, 7e-10);
    CU_ASSERT_EQUAL(read.transport.batch_s_per_sample, 9e-6);
    CU_ASSERT_EQUAL(read.transport.batch_s_per_byte, 8e-10);
    CU_ASSERT_EQUAL(read.link_bytes_per_s, 1.25e9);
    CU_ASSERT_EQUAL(read.storage_cores, 4);
    CU_ASSERT_EQUAL(read.compute_cores, 8);
    CU_ASSERT_EQUAL(read.model.disk_s_per_sample, file.model.disk_s_per_sample);
    CU_ASSERT_EQUAL(read.model.disk_s_per_byte, file.model.disk_s_per_byte);
    CU_ASSERT(read.model.has_jpeg_index);
    for (int file_class = 0; file_class < SLUICE_NUM_FILE_CLASSES; file_class++) {
        for (int c = 0; c < SLUICE_TEST_CHOICES; c++) {
            SLUICE_EACH_RESOURCE (side, SLUICE_MODELLED) {
                for (int f = 0; f < SLUICE_NUM_CHOICE_FEATURES; f++) {
                    const double expected = file.model.weights[file_class][c][side].per[f];
                    CU_ASSERT_DOUBLE_EQUAL(read.model.weights[file_class][c][side].per[f], expected,
                                           1e-8 * expected);
                }
            }
        }
    }
}

static void expect_weights(const struct sluice_choice_model *read,
                           const struct sluice_choice_model *expected, unsigned from, unsigned to)
{
    for (int k = 0; k < SLUICE_NUM_FILE_CLASSES; k++) {
        for (unsigned c = from; c < to; c++) {
            SLUICE_EACH_RESOURCE (side, SLUICE_MODELLED) {
                for (int f = 0; f < SLUICE_NUM_CHOICE_FEATURES; f++)
                    CU_ASSERT_DOUBLE_EQUAL(read->weights[k][c][side].per[f],
                                           expected->weights[k][c][side].per[f],
                                           1e-8 * expected->weights[k][c][side].per[f]);
            }
        }
    }
}

/* A file without the GPU's choices, as older ones are, has the weights for them that follow from
 * its others; one with them keeps what was measured, and tells nothing to who has no GPU. */
TEST(the_gpu_is_read_where_the_file_has_it)
{
    struct sluice_model_file file = {.model = sluice_test_model()}, read;
    struct sluice_err err = {0};
    file.model.weights[SLUICE_CLASS_WINDOW][SLUICE_TEST_JPEG_CROP][SLUICE_STORAGE_CPU].per[0] *= 2;
    REQUIRE_OK(sluice_model_file_write(sluice_test_dir(), sluice_test_pipeline(), &file, &err));
    REQUIRE_OK(sluice_model_file_read(sluice_test_dir(), sluice_test_gpu_choices(), &read, &err));
    struct sluice_choice_model expected = file.model;
    expected.choices = *sluice_test_gpu_choices();
    sluice_choice_model_set_gpu(&expected);
    expect_weights(&read.model, &expected, 0, SLUICE_TEST_GPU_CHOICES);
    CU_ASSERT_DOUBLE_EQUAL(
        read.model.weights[0][SLUICE_TEST_CUT_ON_GPU][SLUICE_STORAGE_CPU].per[0],
        1.16 * file.model.weights[0][SLUICE_TEST_JPEG_CROP][SLUICE_STORAGE_CPU].per[0], 1e-12);

    file.model = expected;
    for (unsigned c = SLUICE_TEST_CHOICES; c < SLUICE_TEST_GPU_CHOICES; c++) {
        SLUICE_EACH_RESOURCE (side, SLUICE_MODELLED)
            file.model.weights[SLUICE_CLASS_WINDOW][c][side].per[1] = 1e-9 * (c + (unsigned)side);
    }
    REQUIRE_OK(sluice_model_file_write(sluice_test_dir(), sluice_test_pipeline(), &file, &err));
    REQUIRE_OK(sluice_model_file_read(sluice_test_dir(), sluice_test_gpu_choices(), &read, &err));
    expect_weights(&read.model, &file.model, 0, SLUICE_TEST_GPU_CHOICES);
    REQUIRE_OK(sluice_model_file_read(sluice_test_dir(), sluice_test_choices(), &read, &err));
    expect_weights(&read.model, &file.model, 0, SLUICE_TEST_CHOICES);
    CU_ASSERT_EQUAL(read.model.choices.num, SLUICE_TEST_CHOICES);
}

TEST(says_of_which_pipeline_and_dataset_it_is)
{
    struct sluice_model_file file = {.model = sluice_test_model()};
    struct sluice_model_origin origin = {.output_size = 7};
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_model_file_write(sluice_test_dir(), sluice_test_pipeline(), &file, &err));
    REQUIRE_OK(sluice_model_file_read_origin(sluice_test_dir(), &origin, &err));
    CU_ASSERT_STRING_EQUAL(origin.pipeline, sluice_pipeline_spec(sluice_test_pipeline()));
    CU_ASSERT_EQUAL(origin.fingerprint, sluice_pipeline_fingerprint(sluice_test_pipeline()));
    CU_ASSERT_EQUAL(origin.output_size, 224);
    CU_ASSERT_STRING_EQUAL(origin.dataset_id, ""); /* not known */
    memcpy(file.dataset_id, DATASET, sizeof(DATASET));
    REQUIRE_OK(sluice_model_file_write(sluice_test_dir(), sluice_test_pipeline(), &file, &err));
    REQUIRE_OK(sluice_model_file_read_origin(sluice_test_dir(), &origin, &err));
    CU_ASSERT_STRING_EQUAL(origin.dataset_id, DATASET);
    static const char *const bad[] = {
        "\"dataset\": 3",
        "\"dataset\": \"12\"",
        "\"dataset\": \"00112233445566778899aabbccddeefg\"",
        "\"pipeline\": 3",
        "\"pipeline\": \"\"",
        "\"pipeline\": \"decode\"",
        "\"pipeline\": \"decode\", \"fingerprint\": \"12345\"",
        "\"pipeline\": \"decode\", \"fingerprint\": \"xyz4567890123456\"",
        "\"pipeline\": \"decode\", \"fingerprint\": \"0123456789abcdef\", \"output_size\": -1",
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(bad); i++) {
        char text[256];
        snprintf(text, sizeof(text), "{\"sluice_cost_model\": 1, %s}", bad[i]);
        sluice_test_write_file(path_of_file(), text, strlen(text));
        CU_ASSERT_EQUAL(sluice_model_file_read_origin(sluice_test_dir(), &origin, &err),
                        SLUICE_E_CORRUPT);
    }
    sluice_test_write_file(path_of_file(), "{\"sluice_cost_model\": 1}", 24);
    CHECK_OK(sluice_model_file_read_origin(sluice_test_dir(), &origin, &err));
    CU_ASSERT_STRING_EQUAL(origin.pipeline, "");
}

TEST(refuses_what_is_no_model)
{
    static const struct {
        const char *text;
        sluice_status status;
        const char *says;
    } cases[] = {
        {"", SLUICE_E_CORRUPT, "json:"},
        {"[]", SLUICE_E_CORRUPT, "not a cost model"},
        {"{}", SLUICE_E_CORRUPT, "not a cost model"},
        {"{\"sluice_cost_model\": \"1\"}", SLUICE_E_CORRUPT, "not a cost model"},
        {"{\"sluice_cost_model\": 2}", SLUICE_E_UNSUPPORTED, "version 2"},
        {"{\"sluice_cost_model\": 1, \"samples\": -1}", SLUICE_E_CORRUPT, "samples"},
        {"{\"sluice_cost_model\": 1, \"jpeg_index\": 1}", SLUICE_E_CORRUPT, "jpeg_index"},
        {"{\"sluice_cost_model\": 1, \"disk\": {\"sample\": \"x\"}}", SLUICE_E_CORRUPT, "sample"},
        {"{\"sluice_cost_model\": 1, \"weights\": {\"png\": {\"u8@3\": {\"storage_cpu\": "
         "{\"pixel\": -1e-9}}}}}",
         SLUICE_E_CORRUPT, "pixel"},
        {"{\"sluice_cost_model\": 1, \"weights\": {\"png\": {\"u8@3\": {\"storage_cpu\": "
         "{\"pixel\": 1e31}}}}}",
         SLUICE_E_CORRUPT, "pixel"},
    };
    struct sluice_err err;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        CU_ASSERT_EQUAL(read_text(cases[i].text, &err), cases[i].status);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].says));
    }
    /* A weight that is not there is 0. */
    CHECK_OK(read_text("{\"sluice_cost_model\": 1, \"weights\": 3}", &err));
    struct sluice_model_file file;
    CHECK_OK(sluice_model_file_read(sluice_test_dir(), sluice_test_choices(), &file, &err));
    CU_ASSERT_EQUAL(file.transport.compute_s_per_sample,
                    sluice_transport_cost_default().compute_s_per_sample);
    CHECK_OK(read_text("{\"sluice_cost_model\": 1, \"transport\": {}}", &err));
    CHECK_OK(sluice_model_file_read(sluice_test_dir(), sluice_test_choices(), &file, &err));
    CU_ASSERT_EQUAL(file.transport.compute_s_per_sample, 0);
    CU_ASSERT_EQUAL(file.transport.batch_s_per_sample,
                    sluice_transport_cost_default().batch_s_per_sample);
    CU_ASSERT_EQUAL(sluice_model_file_read("/no/such/folder", sluice_test_choices(), &file, &err),
                    SLUICE_E_NOT_FOUND);
}
