#include "compute_client/fetch/list_cache.h"
#include "compute_client/fetch/tuning.h"

#include "base/log.h"
#include "base/text.h"
#include "host/cache_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool name_file(const char *dataset_id, char path[SLUICE_MAX_PATH_BYTES])
{
    char folder[SLUICE_MAX_PATH_BYTES];
    return strlen(dataset_id) == 32 && strspn(dataset_id, "0123456789abcdef") == 32 &&
           sluice_cache_folder(folder) &&
           sluice_print(path, SLUICE_MAX_PATH_BYTES, "%s/%s.bin", folder, dataset_id);
}

struct sluice_hash128 sluice_list_cache_source(uint64_t list_hash)
{
    return (struct sluice_hash128){.high = 0, .low = list_hash};
}

static struct sluice_hash128 parse_id(const char *dataset_id)
{
    char high[17] = "";
    memcpy(high, dataset_id, 16);
    return (struct sluice_hash128){.high = strtoull(high, NULL, 16),
                                   .low = strtoull(dataset_id + 16, NULL, 16)};
}

struct sluice_manifest *sluice_list_cache_find(const char *dataset_id, uint64_t list_hash)
{
    char path[SLUICE_MAX_PATH_BYTES];
    struct sluice_manifest *manifest = NULL;
    struct sluice_err why = {0};
    if (!list_hash || !name_file(dataset_id, path))
        return NULL;
    const struct sluice_hash128 id = parse_id(dataset_id),
                                source = sluice_list_cache_source(list_hash);
    const struct sluice_manifest_expected expected = {.source_hash = &source, .id = &id};
    const sluice_status status = sluice_manifest_map(path, &expected, &manifest, &why);
    if (status == SLUICE_OK) {
        (void)utimensat(AT_FDCWD, path, NULL, 0); /* it was used now */
        return manifest;
    }
    if (status != SLUICE_E_NOT_FOUND)
        sluice_log(status == SLUICE_E_CORRUPT || status == SLUICE_E_IO ? SLUICE_LOG_WARN
                                                                       : SLUICE_LOG_INFO,
                   "%s; the list of samples is fetched anew", why.text);
    return NULL;
}

bool sluice_list_cache_path(const char *dataset_id, char path[SLUICE_MAX_PATH_BYTES])
{
    char folder[SLUICE_MAX_PATH_BYTES];
    struct sluice_err why = {0};
    if (!name_file(dataset_id, path) || !sluice_cache_folder(folder))
        return false;
    if (sluice_mkdirs(folder, &why) != SLUICE_OK || access(folder, W_OK) != 0) {
        sluice_log(SLUICE_LOG_INFO, "%s cannot be written to: the list of samples is not kept",
                   folder);
        return false;
    }
    return true;
}

struct kept {
    struct timespec used;
    char name[48];
};

static bool is_older(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

static bool is_list(const char *name)
{
    return strlen(name) == 36 && strspn(name, "0123456789abcdef") == 32 &&
           strcmp(name + 32, ".bin") == 0;
}

static bool is_left_behind(const char *name, const struct stat *st)
{
    return strspn(name, "0123456789abcdef") == 32 && sluice_starts_with(name + 32, ".bin.tmp-") &&
           st->st_mtime < time(NULL) - TUNING_LIST_ABANDONED_S;
}

/* A new one; the oldest falls out. */
static void keep(struct kept list[TUNING_LIST_CACHE_FILES], size_t *num, const char *name,
                 const struct timespec *used, int folder)
{
    struct kept this = {.used = *used};
    (void)sluice_print(this.name, sizeof(this.name), "%s", name);
    if (*num < TUNING_LIST_CACHE_FILES) {
        list[(*num)++] = this;
        return;
    }
    size_t oldest = 0;
    for (size_t i = 1; i < *num; i++) {
        if (is_older(&list[i].used, &list[oldest].used))
            oldest = i;
    }
    if (is_older(&list[oldest].used, used)) {
        const struct kept out = list[oldest];
        list[oldest] = this;
        this = out;
    }
    (void)unlinkat(folder, this.name, 0);
}

void sluice_list_cache_trim(void)
{
    char path[SLUICE_MAX_PATH_BYTES];
    DIR *folder = sluice_cache_folder(path) ? opendir(path) : NULL;
    struct kept list[TUNING_LIST_CACHE_FILES];
    size_t num = 0;
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        struct stat st;
        if (fstatat(dirfd(folder), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (is_list(entry->d_name))
            keep(list, &num, entry->d_name, &st.st_mtim, dirfd(folder));
        else if (is_left_behind(entry->d_name, &st))
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder)
        (void)closedir(folder);
}
