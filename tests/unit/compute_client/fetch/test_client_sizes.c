#include "compute_client/fetch/client.h"

#include "fake_server.h"
#include "support/test.h"

static struct fake_dataset dataset;
static struct sluice_pipeline *pipeline;

/* Nobody waits here. */
bool __wrap_sluice_client_wait(struct sluice_client *client, uint64_t ns);
bool __wrap_sluice_client_wait(struct sluice_client *client, uint64_t ns)
{
    (void)client;
    (void)ns;
    return true;
}

static void take(void *ctx, uint64_t first_row, const struct sluice_wire_image_size *sizes,
                 size_t num)
{
    uint64_t *next = ctx;
    CU_ASSERT_EQUAL(first_row, *next);
    for (size_t i = 0; i < num; i++)
        CU_ASSERT_EQUAL(sizes[i].width, 100 + first_row + i);
    *next += num;
}

/* Asks a server of these options; *num_rows is what came. */
static sluice_status ask(struct fake_server_options options, uint64_t *num_rows,
                         struct sluice_err *err)
{
    options.dataset = &dataset;
    struct fake_server *server = fake_server_start(&options);
    const struct sluice_client_options of_client = {.target = fake_server_target(server)};
    struct sluice_client *client = NULL;
    struct sluice_server_info info = {0};
    *num_rows = 0;
    REQUIRE_OK(sluice_client_create(&of_client, &client, NULL));
    REQUIRE_OK(sluice_client_hello(client, pipeline, "", &info, NULL));
    const sluice_status status =
        sluice_client_read_sizes(client, &info, false, take, num_rows, err);
    sluice_client_destroy(client);
    fake_server_stop(server);
    return status;
}

TEST(asks_until_all_sizes_are_there)
{
    uint64_t num_rows;
    CHECK_OK(
        ask((struct fake_server_options){.lists_sizes = true, .sizes_height = 5}, &num_rows, NULL));
    CU_ASSERT_EQUAL(num_rows, dataset.num_samples);
}

TEST(a_server_of_an_earlier_version_is_an_error_that_names_the_index)
{
    uint64_t num_rows;
    CHECK_FAILS(SLUICE_E_INVALID, "run offload_dataset index",
                ask((struct fake_server_options){0}, &num_rows, sluice_test_err()));
    CU_ASSERT_EQUAL(num_rows, 0);
}

TEST(a_server_that_gets_no_further_is_an_error)
{
    uint64_t num_rows;
    CHECK_FAILS(SLUICE_E_IO, "has not read the size of image 4 of 9 for 120 s",
                ask((struct fake_server_options){.lists_sizes = true,
                                                 .sizes_height = 5,
                                                 .sizes_hang_at = 4},
                    &num_rows, sluice_test_err()));
    CU_ASSERT_EQUAL(num_rows, 4);
}

TEST(more_sizes_than_samples_are_refused)
{
    uint64_t num_rows;
    CHECK_FAILS(
        SLUICE_E_CORRUPT, "sizes of more images than it has",
        ask((struct fake_server_options){.lists_sizes = true, .sizes_height = 5, .sizes_extra = 1},
            &num_rows, sluice_test_err()));
}

int main(void)
{
    return fake_dataset_main(&dataset, 9, &pipeline);
}
