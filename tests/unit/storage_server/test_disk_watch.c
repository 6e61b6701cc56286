#include "storage_server/data/disk_watch.h"

#include "fake_disk.h"
#include "support/test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static struct sluice_disk_watch *must_open(const struct fake_disk *disk)
{
    struct sluice_disk_watch *watch = NULL;
    struct sluice_err err = {0};
    if (sluice_disk_watch_open(disk->root, sluice_test_dir(), &watch, &err) != SLUICE_OK) {
        printf("%s\n", err.text);
        CU_FAIL_FATAL("not opened");
    }
    return watch;
}

static void must_refuse(const struct fake_disk *disk, const char *word)
{
    struct sluice_disk_watch *watch = NULL;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_disk_watch_open(disk->root, sluice_test_dir(), &watch, &err),
                    SLUICE_E_UNSUPPORTED);
    CU_ASSERT_PTR_NULL(watch);
    if (!strstr(err.text, word)) {
        printf("'%s' has no '%s'\n", err.text, word);
        CU_FAIL("the error says something else");
    }
}

TEST(others_are_what_is_not_ours)
{
    const struct fake_disk disk = fake_disk_create();
    fake_disk_set(&disk, 8192, 4096, 0); /* before it is opened */
    struct sluice_disk_watch *watch = must_open(&disk);
    struct sluice_disk_activity sight = sluice_disk_watch_poll(watch, true);
    CU_ASSERT_FALSE(sight.has_others);
    CU_ASSERT(sight.is_exact);

    fake_disk_set(&disk, 8192 + 1024, 4096 + 1024, 0); /* ours */
    CU_ASSERT_FALSE(sluice_disk_watch_poll(watch, true).has_others);
    fake_disk_set(&disk, 8192 + 1024 + 512, 4096 + 1024, 0);
    CU_ASSERT(sluice_disk_watch_poll(watch, true).has_others);
    CU_ASSERT_FALSE(sluice_disk_watch_poll(watch, true).has_others); /* not again */
    sluice_disk_watch_close(watch);
}

TEST(our_reads_in_flight_are_never_others)
{
    const struct fake_disk disk = fake_disk_create();
    struct sluice_disk_watch *watch = must_open(&disk);
    fake_disk_set(&disk, 0, 65536, 4);
    struct sluice_disk_activity sight = sluice_disk_watch_poll(watch, false);
    CU_ASSERT_EQUAL(sight.in_flight, 4);
    CU_ASSERT_FALSE(sight.has_others);
    CU_ASSERT_FALSE(sight.is_exact);
    fake_disk_set(&disk, 32768, 65536, 2);
    CU_ASSERT_FALSE(sluice_disk_watch_poll(watch, true).has_others); /* the kernel reads ahead */
    fake_disk_set(&disk, 65536, 65536, 0);
    CU_ASSERT_FALSE(sluice_disk_watch_poll(watch, true).has_others);

    /* Certain in the middle of ours, too, and so until a poll is exact. */
    fake_disk_set(&disk, 200000, 100000, 3);
    CU_ASSERT(sluice_disk_watch_poll(watch, false).has_others);
    CU_ASSERT(sluice_disk_watch_poll(watch, false).has_others);
    fake_disk_set(&disk, 200192, 100000, 0);
    CU_ASSERT(sluice_disk_watch_poll(watch, true).is_exact);
    CU_ASSERT_FALSE(sluice_disk_watch_poll(watch, true).has_others);
    sluice_disk_watch_close(watch);
}

TEST(counters_that_cannot_be_read_show_no_reads)
{
    const struct fake_disk disk = fake_disk_create();
    struct sluice_disk_watch *watch = must_open(&disk);
    sluice_test_put_text(disk.folder, "stat", "");
    struct sluice_disk_activity sight = sluice_disk_watch_poll(watch, true);
    CU_ASSERT(!sight.has_others && !sight.is_exact && sight.in_flight == 0);
    sluice_disk_watch_close(watch);
    sluice_disk_watch_close(NULL);
}

/* A partition's or a volume's own counters stay at 0 here, and the disk's count. */
TEST(a_partition_or_volume_is_its_disk)
{
    for (int is_volume = 0; is_volume < 2; is_volume++) {
        struct fake_disk disk = fake_disk_create();
        char whole[800], link[900], old[1000];
        snprintf(old, sizeof(old), "%s-none", disk.folder);
        CU_ASSERT_EQUAL_FATAL(rename(disk.folder, old), 0);
        snprintf(whole, sizeof(whole), "%s/sys/devices/sda", disk.root);
        snprintf(link, sizeof(link), "%s/%s", whole, is_volume ? "dm-0" : "sda1");
        sluice_test_put_text(link, is_volume ? "dm/name" : "partition", "1\n");
        sluice_test_put_text(link, "stat", "1 0 0 0 0 0 0 0 0\n");
        sluice_test_put_text(link, "inflight", "0 0\n");
        CU_ASSERT_EQUAL_FATAL(symlink(link, disk.folder), 0);
        if (is_volume) {
            char slave[1000];
            sluice_test_put_text(link, "slaves/.keep", "");
            snprintf(slave, sizeof(slave), "%s/slaves/sda", link);
            CU_ASSERT_EQUAL_FATAL(symlink(whole, slave), 0);
        }
        memcpy(disk.folder, whole, sizeof(disk.folder) - 1);
        fake_disk_set(&disk, 0, 0, 0);
        struct sluice_disk_watch *watch = must_open(&disk);
        fake_disk_set(&disk, 512, 0, 0);
        CU_ASSERT(sluice_disk_watch_poll(watch, true).has_others);
        sluice_disk_watch_close(watch);
    }
}

TEST(a_volume_on_several_disks_is_itself)
{
    const struct fake_disk disk = fake_disk_create();
    sluice_test_put_text(disk.folder, "slaves/sda/stat", "");
    sluice_test_put_text(disk.folder, "slaves/sdb/stat", "");
    struct sluice_disk_watch *watch = must_open(&disk);
    fake_disk_set(&disk, 512, 0, 0);
    CU_ASSERT(sluice_disk_watch_poll(watch, true).has_others);
    sluice_disk_watch_close(watch);
}

TEST(a_disk_without_counters_is_refused)
{
    struct fake_disk disk = fake_disk_create();
    sluice_test_put_text(disk.folder, "queue/iostats", "0\n");
    must_refuse(&disk, "queue/iostats is 0");
    disk = fake_disk_create();
    sluice_test_put_text(disk.folder, "stat", "1 2\n");
    must_refuse(&disk, "does not count");
    disk = fake_disk_create();
    sluice_test_put_text(disk.root, "proc/self/io", "rchar: 1\n");
    must_refuse(&disk, "no read_bytes");
    snprintf(disk.root, sizeof(disk.root), "%s/no-machine", sluice_test_dir());
    must_refuse(&disk, "lies on no disk");

    struct sluice_disk_watch *watch = NULL;
    CU_ASSERT_EQUAL(sluice_disk_watch_open("", "/no/such/folder", &watch, NULL), SLUICE_E_IO);
}

TEST(the_kernel_says_what_is_cached)
{
    static char bytes[10000];
    const char *path = sluice_test_path("file");
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CU_ASSERT_FATAL(fd >= 0);
    CU_ASSERT_EQUAL_FATAL(ftruncate(fd, 65536), 0);
    CU_ASSERT_EQUAL_FATAL(pwrite(fd, bytes, sizeof(bytes), 4096), (ssize_t)sizeof(bytes));
    CU_ASSERT_FALSE(sluice_disk_is_cached(fd, 32768, 40000)); /* a hole */
    CU_ASSERT_FALSE(sluice_disk_is_cached(fd, 4096, 40000));
    CU_ASSERT_FALSE(sluice_disk_is_cached(fd, 0, 5000));
    if (sluice_disk_is_cached(fd, 4096, 4097)) {
        CU_ASSERT(sluice_disk_is_cached(fd, 5000, 14096));
        CU_ASSERT(sluice_disk_is_cached(fd, 9000, 9001));
    } else {
        printf("this kernel does not say what is in memory\n");
    }
    CU_ASSERT(sluice_disk_is_cached(fd, 7, 7));
    close(fd);
}

/* Whatever this machine's folder lies on: refused with a word, or seen. */
TEST(this_machine_has_a_disk_or_says_why_not)
{
    struct sluice_disk_watch *watch = NULL;
    struct sluice_err err = {0};
    if (sluice_disk_watch_open("", sluice_test_dir(), &watch, &err) != SLUICE_OK) {
        CU_ASSERT_NOT_EQUAL(err.text[0], '\0');
        printf("not on this machine: %s\n", err.text);
        return;
    }
    (void)sluice_disk_watch_poll(watch, true);
    sluice_disk_watch_close(watch);
}
