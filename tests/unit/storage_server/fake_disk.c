#include "fake_disk.h"

#include "base/file.h"
#include "support/test.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

void fake_disk_set(const struct fake_disk *disk, unsigned all, unsigned ours, unsigned in_flight)
{
    char text[256];
    snprintf(text, sizeof(text), "  10  0  %8u  5  1 0 8 1 %u 9 9\n", all / 512, in_flight + 1);
    sluice_test_put_text(disk->folder, "stat", text);
    snprintf(text, sizeof(text), "%8u %8u\n", in_flight, 1); /* one write, too */
    sluice_test_put_text(disk->folder, "inflight", text);
    snprintf(text, sizeof(text), "rchar: 999999\nsyscr: 3\nread_bytes: %u\nwrite_bytes: 7\n", ours);
    sluice_test_put_text(disk->root, "proc/self/io", text);
}

struct fake_disk fake_disk_create(void)
{
    static int count;
    struct fake_disk disk;
    struct stat st;
    CU_ASSERT_EQUAL_FATAL(stat(sluice_test_dir(), &st), 0);
    snprintf(disk.root, sizeof(disk.root), "%s/machine-%d", sluice_test_dir(), count++);
    snprintf(disk.folder, sizeof(disk.folder), "%s/sys/dev/block/%u:%u", disk.root,
             major(st.st_dev), minor(st.st_dev));
    fake_disk_set(&disk, 0, 0, 0);
    return disk;
}
