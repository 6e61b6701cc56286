#ifndef SLUICE_DATASETS_LIST_BENEATH_H
#define SLUICE_DATASETS_LIST_BENEATH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* Opens files beneath a folder by their paths, and no others: links are followed if they stay
 * beneath it.
 *
 * Threads: any. */

/* Opens a path with these flags of open(2); -1: errno says why not.  EXDEV: it leaves the folder;
 * ENOSYS: no openat2(2) here (Linux before 5.6). */
int sluice_open_beneath(int folder_fd, const char *path, uint64_t flags);

/* The state of what lies there; false: errno says why not. */
bool sluice_stat_beneath(int folder_fd, const char *path, struct stat *st);

#endif
