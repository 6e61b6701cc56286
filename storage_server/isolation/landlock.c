#include "storage_server/isolation/landlock.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As linux/landlock.h has them, which older headers lack; by the version that brought them. */
#define FS_EXECUTE (1ull << 0)
#define FS_WRITE_FILE (1ull << 1)
#define FS_READ_FILE (1ull << 2)
#define FS_READ_DIR (1ull << 3)
#define FS_REMOVE_DIR (1ull << 4)
#define FS_REMOVE_FILE (1ull << 5)
#define FS_MAKE_REG (1ull << 8)
#define FS_MAKE_SOCK (1ull << 9)
#define FS_OF_1 ((1ull << 13) - 1)
#define FS_REFER (1ull << 13)     /* 2: links and renames between folders */
#define FS_TRUNCATE (1ull << 14)  /* 3 */
#define FS_IOCTL_DEV (1ull << 15) /* 5 */
#define NET_BIND_TCP (1ull << 0)  /* 4 */
#define NET_CONNECT_TCP (1ull << 1)
#define RULE_NET_PORT 2
#define SCOPE_ABSTRACT_UNIX_SOCKET (1ull << 0) /* 6: only those made by this process */
#define SCOPE_SIGNAL (1ull << 1)

struct ruleset {
    uint64_t fs, net, scoped;
};

struct port_rule {
    uint64_t access, port;
};

unsigned sluice_landlock_abi(void)
{
    const long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return abi > 0 ? (unsigned)abi : 0;
}

/* All that this version can forbid. */
static struct ruleset everything(unsigned abi, bool may_connect)
{
    struct ruleset all = {.fs = FS_OF_1};
    if (abi >= 2)
        all.fs |= FS_REFER;
    if (abi >= 3)
        all.fs |= FS_TRUNCATE;
    if (abi >= SLUICE_LANDLOCK_TCP_ABI)
        all.net = NET_BIND_TCP | (may_connect ? 0 : NET_CONNECT_TCP);
    if (abi >= 5)
        all.fs |= FS_IOCTL_DEV;
    if (abi >= 6)
        all.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL;
    return all;
}

/* Earlier kernels take a shorter struct, but this one only if what they lack is zero. */
static size_t size_for(const struct ruleset *all)
{
    if (all->scoped)
        return sizeof(*all);
    return all->net ? offsetof(struct ruleset, scoped) : offsetof(struct ruleset, net);
}

static uint64_t rights_of(unsigned may)
{
    uint64_t rights = 0;
    if (may & SLUICE_LANDLOCK_READ)
        rights |= FS_READ_FILE | FS_READ_DIR;
    if (may & SLUICE_LANDLOCK_WRITE)
        rights |= FS_WRITE_FILE | FS_TRUNCATE;
    if (may & SLUICE_LANDLOCK_SOCKET)
        rights |= FS_MAKE_SOCK | FS_REMOVE_FILE;
    if (may & SLUICE_LANDLOCK_REMOVE)
        rights |= FS_REMOVE_DIR;
    if (may & SLUICE_LANDLOCK_CREATE)
        rights |= FS_MAKE_REG;
    if (may & SLUICE_LANDLOCK_UNLINK)
        rights |= FS_REMOVE_FILE;
    return rights;
}

/* A rule holds for an inode.  procfs makes a new one for the same file once the name is no longer
 * cached, so that names of it are kept in the cache by a descriptor, for the life of the process.
 */
static bool is_made_anew(const char *path)
{
    return sluice_starts_with(path, "/proc/");
}

static sluice_status allow_path(int ruleset, const struct sluice_landlock_path *path,
                                uint64_t handled, struct sluice_err *err)
{
    const int fd = path->path ? open(path->path, O_PATH | O_CLOEXEC) : -1;
    struct stat st;
    if (fd < 0)
        return SLUICE_OK;
    uint64_t rights = rights_of(path->may) & handled;
    if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode)) /* what only folders have is refused */
        rights &= FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE;
    const struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};
    const bool is_added = !rights || syscall(SYS_landlock_add_rule, ruleset,
                                             LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
    const int error = errno;
    if (!is_added || !is_made_anew(path->path))
        close(fd);
    return is_added
               ? SLUICE_OK
               : sluice_fail(err, SLUICE_E_IO, "Landlock: %s: %s", path->path, strerror(error));
}

static sluice_status allow_ports(int ruleset, uint64_t access, const uint16_t *ports,
                                 size_t num_ports, struct sluice_err *err)
{
    for (size_t i = 0; i < num_ports; i++) {
        const struct port_rule rule = {.access = access, .port = ports[i]};
        if (syscall(SYS_landlock_add_rule, ruleset, RULE_NET_PORT, &rule, 0) != 0)
            return sluice_fail(err, SLUICE_E_IO, "Landlock: port %u: %s", ports[i],
                               strerror(errno));
    }
    return SLUICE_OK;
}

sluice_status sluice_landlock_restrict(const struct sluice_landlock_rules *rules, unsigned abi,
                                       struct sluice_err *err)
{
    const struct ruleset all = everything(abi, rules->may_connect);
    const int fd = (int)syscall(SYS_landlock_create_ruleset, &all, size_for(&all), 0);
    if (fd < 0)
        return sluice_fail(err, SLUICE_E_IO, "Landlock: %s", strerror(errno));
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; status == SLUICE_OK && i < rules->num_paths; i++)
        status = allow_path(fd, &rules->paths[i], all.fs, err);
    if (status == SLUICE_OK && all.net & NET_BIND_TCP)
        status = allow_ports(fd, NET_BIND_TCP, rules->bind, rules->num_bind, err);
    if (status == SLUICE_OK && all.net & NET_CONNECT_TCP)
        status = allow_ports(fd, NET_CONNECT_TCP, rules->connect, rules->num_connect, err);
    if (status == SLUICE_OK && syscall(SYS_landlock_restrict_self, fd, 0) != 0)
        status = sluice_fail(err, SLUICE_E_IO, "Landlock: %s", strerror(errno));
    close(fd);
    return status;
}
