#include "compute_client/run/batch_log.h"

#include "support/test.h"

TEST(a_line_for_each_batch)
{
    const char *path = sluice_test_path("log.csv");
    struct sluice_batch_log *log = NULL;
    REQUIRE_OK(sluice_batch_log_open(path, &log, NULL));
    struct sluice_batch_entry entry = {.epoch = 2, .batch = 7, .samples = 32};
    entry.stall_ns[SLUICE_NETWORK] = 1500000000;
    entry.stall_ns[SLUICE_STALL_GPU] = 250000;
    entry.stall_ns[SLUICE_GPU] = 2000;
    sluice_batch_log_add(log, &entry);
    entry = (struct sluice_batch_entry){.is_evaluation = true, .samples = 5};
    entry.stall_ns[SLUICE_GPU] = 1000000;
    sluice_batch_log_add(log, &entry);
    CHECK_OK(sluice_batch_log_close(log, NULL));

    size_t len;
    char *text = (char *)sluice_test_read_file(path, &len);
    static const char expected[] =
        "epoch,batch,phase,samples,disk_s,storage_cpu_s,network_s,compute_cpu_s,gpu_s,trainer_s,"
        "bound_by\n"
        "2,7,train,32,0.000000,0.000000,1.500000,0.000000,0.000250,0.000002,network\n"
        "0,0,val,5,0.000000,0.000000,0.000000,0.000000,0.000000,0.001000,trainer\n";
    CU_ASSERT_EQUAL_FATAL(len, strlen(expected));
    CU_ASSERT_EQUAL(memcmp(text, expected, len), 0);
    free(text);
}

TEST(no_log_is_no_error)
{
    const struct sluice_batch_entry entry = {.samples = 1};
    sluice_batch_log_add(NULL, &entry);
    CHECK_OK(sluice_batch_log_close(NULL, NULL));
}

TEST(a_file_that_cannot_be_written_is_named)
{
    struct sluice_batch_log *log = NULL;
    CU_ASSERT_EQUAL(sluice_batch_log_open("/nowhere/log.csv", &log, sluice_test_err()),
                    SLUICE_E_IO);
    CU_ASSERT_PTR_NULL(log);
    CHECK_SAYS("/nowhere/log.csv");

    /* A full disk ends nothing before the file is closed. */
    REQUIRE_OK(sluice_batch_log_open("/dev/full", &log, NULL));
    const struct sluice_batch_entry entry = {.samples = 1};
    for (int i = 0; i < 100000; i++)
        sluice_batch_log_add(log, &entry);
    CHECK_FAILS(SLUICE_E_IO, "/dev/full", sluice_batch_log_close(log, sluice_test_err()));
    CHECK_SAYS("100001 lines are missing");
}
