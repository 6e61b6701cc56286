#ifndef SLUICE_TESTS_FAKE_DISK_H
#define SLUICE_TESTS_FAKE_DISK_H

/* The counters of a made-up disk, on which the test's folder lies, and of this process. */
struct fake_disk {
    char root[600];   /* in front of /sys and /proc */
    char folder[700]; /* of the disk's counters */
};

struct fake_disk fake_disk_create(void);

/* Bytes that all have read, and that this process has asked for; reads that are under way. */
void fake_disk_set(const struct fake_disk *disk, unsigned all, unsigned ours, unsigned in_flight);

#endif
