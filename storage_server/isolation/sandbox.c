#include "storage_server/isolation/sandbox.h"

#include "base/compiler.h"
#include "base/host_port.h"
#include "base/log.h"
#include "base/text.h"
#include "metrics/metrics_server.h"
#include "storage_server/isolation/landlock.h"
#include "storage_server/isolation/syscall_filter.h"
#include "storage_server/work/prep_limits.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* --- privileges --- */

/* Root of a container is less than root of the machine, and the custom there. */
static bool is_in_container(void)
{
    unsigned inside = 0, outside = 0, count = 0;
    FILE *map = fopen("/proc/self/uid_map", "re");
    const bool is_whole = map && fscanf(map, "%u %u %u", &inside, &outside, &count) == 3 &&
                          inside == 0 && outside == 0 && count == UINT_MAX;
    if (map)
        fclose(map);
    return !is_whole || getenv("container") || getenv("KUBERNETES_SERVICE_HOST") ||
           access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0;
}

sluice_status sluice_sandbox_begin(struct sluice_err *err)
{
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
               ? SLUICE_OK
               : sluice_fail(err, SLUICE_E_IO, "PR_SET_NO_NEW_PRIVS: %s", strerror(errno));
}

static void warn_root(void)
{
    if (geteuid() == 0 && !is_in_container())
        sluice_log(SLUICE_LOG_WARN,
                   "runs as root, which it does not need: start it as a user that may read the "
                   "images, as packaging/systemd/offload_server.service does");
}

/* --- files --- */

#define READ SLUICE_LANDLOCK_READ
#define WRITE SLUICE_LANDLOCK_WRITE

/* Files that the libraries and lib/base read. */
static const struct sluice_landlock_path of_machine[] = {
    {"/dev/null", READ | WRITE},
    {"/dev/urandom", READ},
    {"/etc/host.conf", READ},
    {"/etc/hosts", READ},
    {"/etc/gai.conf", READ},
    {"/etc/localtime", READ},
    {"/etc/nsswitch.conf", READ},
    {"/etc/resolv.conf", READ},
    {"/etc/services", READ},
    {"/etc/ssl/openssl.cnf", READ},
    {"/run/systemd/resolve", READ},
    {"/etc/ld.so.cache", READ}, /* what looks up names is loaded when it is needed */
    {"/lib", READ},
    {"/usr/lib", READ},
    {"/usr/share/zoneinfo", READ},
    {"/proc/self", READ},
    {"/proc/cpuinfo", READ},
    {"/proc/diskstats", READ},
    {"/proc/meminfo", READ},
    {"/proc/stat", READ},
    {"/proc/sys/kernel/random/boot_id", READ}, /* host/machine.h */
    {"/proc/sys/net/core/somaxconn", READ},
    {"/proc/sys/vm/overcommit_memory", READ},
    {"/sys/block", READ},
    {"/sys/dev/block", READ},
    {"/sys/devices", READ},
    {"/sys/fs/cgroup", READ},
};

#define MAX_OF_OPTIONS 128

struct paths {
    struct sluice_landlock_path list[SLUICE_ARRAY_LEN(of_machine) + MAX_OF_OPTIONS];
    size_t count;
    char texts[MAX_OF_OPTIONS][PATH_MAX];
    size_t num_texts;
};

static void add(struct paths *paths, const char *path, unsigned may)
{
    char *text = paths->texts[paths->num_texts];
    for (size_t i = 0; path && i < paths->count; i++) { /* roots often need the same */
        if (paths->list[i].may == may && strcmp(paths->list[i].path, path) == 0)
            return;
    }
    if (!path || paths->num_texts == MAX_OF_OPTIONS || !sluice_print(text, PATH_MAX, "%s", path))
        return;
    paths->num_texts++;
    paths->list[paths->count++] = (struct sluice_landlock_path){text, may};
}

/* The folder that `path` lies in.  Not the root of all files, which would allow everything. */
static void add_above(struct paths *paths, const char *path, unsigned may)
{
    char text[PATH_MAX], real[PATH_MAX];
    if (!sluice_print(text, sizeof(text), "%s", path))
        return;
    const char *above = dirname(text);
    if (realpath(above, real) && strcmp(real, "/") != 0)
        add(paths, above, may);
}

/* Adds the folder of a file that an option names, and the folder of the file that it links to: the
 * file may be a link, or be replaced by a rename. */
static void add_replaceable(struct paths *paths, const char *path)
{
    char real[PATH_MAX];
    if (!path)
        return;
    add(paths, path, READ);
    add_above(paths, path, READ);
    if (realpath(path, real))
        add_above(paths, real, READ);
}

static void add_group(void *ctx, const char *folder, bool is_above)
{
    add(ctx, folder, READ | WRITE | (is_above ? SLUICE_LANDLOCK_REMOVE : 0));
}

/* Where a build that counts what the tests reach writes its counts, and where the runtimes of the
 * sanitizers find the names of functions. */
static void add_for_tests(struct paths *paths)
{
#if defined(SLUICE_COVERAGE_FOLDER)
    add(paths, SLUICE_COVERAGE_FOLDER, READ | WRITE | SLUICE_LANDLOCK_CREATE);
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    char program[PATH_MAX] = "";
    if (readlink("/proc/self/exe", program, sizeof(program) - 1) > 0)
        add_above(paths, program, READ);
#endif
    (void)paths;
}

static bool is_on(const struct sluice_server_options *options)
{
    return strcmp(options->sandbox, "on") == 0;
}

static bool is_unix_path(const char *listen)
{
    return sluice_starts_with(listen, "unix:");
}

static void gather_paths(const struct sluice_server_options *options,
                         const struct sluice_prep_limits *limits,
                         const struct sluice_store_needs *needs, struct paths *paths)
{
    memcpy(paths->list, of_machine, sizeof(of_machine));
    paths->count = SLUICE_ARRAY_LEN(of_machine);
    for (size_t i = 0; i < options->roots.num; i++) {
        const char *place = options->roots.at[i].place;
        for (size_t k = 0; k < needs[i].num_files; k++)
            add_replaceable(paths, needs[i].files[k]);
        if (!sluice_store_is_remote(place) && is_on(options))
            add(paths, place, READ);
        else if (!sluice_store_is_remote(place))
            add_replaceable(paths, place);
    }
    /* Files that are read again while it serves. */
    const char *const files[] = {
        options->manifest,
        options->tls_cert,
        options->tls_key,
        options->tls_client_ca,
        options->tokens,
        strcmp(options->jpeg_index, "auto") == 0 || strcmp(options->jpeg_index, "off") == 0
            ? NULL
            : options->jpeg_index,
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(files); i++)
        add_replaceable(paths, files[i]);
    add(paths, options->cache, READ | WRITE | SLUICE_LANDLOCK_CREATE | SLUICE_LANDLOCK_UNLINK);
    if (is_unix_path(options->listen))
        add_above(paths, options->listen + strlen("unix:"), SLUICE_LANDLOCK_SOCKET);
    sluice_prep_limits_folders(limits, add_group, paths);
    add_for_tests(paths);
}

/* --- addresses --- */

static bool is_name(const char *host)
{
    struct in6_addr address;
    char text[sizeof(((struct sluice_host_port *)0)->host)];
    (void)sluice_print(text, sizeof(text), "%s", host);
    text[strcspn(text, "%")] = '\0'; /* the scope of a link-local address */
    return text[0] && inet_pton(AF_INET, text, &address) != 1 &&
           inet_pton(AF_INET6, text, &address) != 1;
}

struct ports {
    uint16_t bind[3];
    uint16_t
        connect[1 + SLUICE_MAX_ROOTS * SLUICE_ARRAY_LEN(((struct sluice_store_needs *)0)->ports)];
    size_t num_bind, num_connect;
    bool has_names;   /* to be looked up */
    bool may_connect; /* the own port is not known yet */
};

static struct ports gather_ports(const struct sluice_server_options *options,
                                 const struct sluice_store_needs *needs)
{
    struct ports ports = {.has_names = false};
    for (size_t i = 0; i < options->roots.num; i++) {
        ports.has_names |= needs[i].has_names;
        for (size_t k = 0; k < needs[i].num_ports; k++)
            ports.connect[ports.num_connect++] = needs[i].ports[k];
    }
    struct sluice_host_port address;
    const bool checks = options->self_check_s > 0;
    if (checks)
        ports.bind[ports.num_bind++] = 0; /* where the check comes from */
    if (sluice_host_port_parse(options->listen, -1, &address, NULL) == SLUICE_OK) {
        ports.bind[ports.num_bind++] = address.port;
        ports.connect[ports.num_connect++] = address.port;
        ports.may_connect = checks && address.port == 0;
        ports.has_names |= is_name(address.host);
    }
    if (options->metrics &&
        sluice_metrics_listen_parse(options->metrics, &address, NULL) == SLUICE_OK) {
        ports.bind[ports.num_bind++] = address.port;
        ports.has_names |= is_name(address.host);
    }
    return ports;
}

/* --- the whole --- */

/* The restrictions in force, for the log. */
static char in_force[160];

static sluice_status check_wish(const struct sluice_server_options *options,
                                const struct ports *ports, unsigned abi, bool has_filter,
                                struct sluice_err *err)
{
    if (!is_on(options))
        return SLUICE_OK;
    if (ports->may_connect)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--sandbox on: with --listen %s the port is the kernel's choice, and "
                           "connecting to no other cannot be forbidden: name a port",
                           options->listen);
    if (abi < SLUICE_LANDLOCK_TCP_ABI)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "--sandbox on: this kernel has Landlock version %u, not %u (Linux 6.7) "
                           "or later; --sandbox auto does with what there is",
                           abi, SLUICE_LANDLOCK_TCP_ABI);
    if (!has_filter)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "--sandbox on: this kernel has no seccomp filters; --sandbox auto does "
                           "with what there is");
    return SLUICE_OK;
}

static const char *files_in_words(unsigned abi, const struct ports *ports)
{
    if (abi == 0)
        return "files and ports are not limited (no Landlock)";
    if (abi < SLUICE_LANDLOCK_TCP_ABI)
        return "files are limited, ports are not (Landlock before version 4)";
    return ports->may_connect ? "files and ports to listen at are limited (Landlock)"
                              : "files and ports are limited (Landlock)";
}

sluice_status sluice_sandbox_enter(const struct sluice_server_options *options,
                                   const struct sluice_prep_limits *limits, struct sluice_err *err)
{
    if (strcmp(options->sandbox, "off") == 0)
        return SLUICE_OK;
    struct sluice_store_needs *needs = calloc(options->roots.num, sizeof(*needs)); /* by root */
    if (!needs)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a sandbox");
    sluice_status status = SLUICE_OK;
    bool is_remote = false;
    for (size_t i = 0; status == SLUICE_OK && i < options->roots.num; i++) {
        const struct sluice_store_options store =
            sluice_server_store_options(options, options->roots.at[i].place);
        status = sluice_store_needs_of(&store, &needs[i], err);
        is_remote |= sluice_store_is_remote(store.root);
    }
    const struct ports ports = gather_ports(options, needs);
    const unsigned abi = sluice_landlock_abi();
    const bool has_filter = sluice_syscall_filter_is_possible();
    if (status == SLUICE_OK)
        status = check_wish(options, &ports, abi, has_filter, err);
    struct paths *paths = calloc(1, sizeof(*paths));
    if (!paths && status == SLUICE_OK)
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a sandbox");
    if (status == SLUICE_OK && abi > 0) {
        gather_paths(options, limits, needs, paths);
        const struct sluice_landlock_rules rules = {
            .paths = paths->list,
            .num_paths = paths->count,
            .bind = ports.bind,
            .num_bind = ports.num_bind,
            .connect = ports.connect,
            .num_connect = ports.num_connect,
            .may_connect = ports.may_connect,
        };
        status = sluice_landlock_restrict(&rules, abi, err);
    }
    free(paths);
    free(needs);
    const struct sluice_syscall_filter filter = {
        .may_use_udp = ports.has_names,
        /* Lists that are sent, and those that are joined. */
        .may_make_memory_files = is_remote || options->roots.at[0].name[0],
        .may_rename = options->cache != NULL,
        .may_use_unix_sockets = ports.has_names || is_unix_path(options->listen),
        .may_set_priorities = options->isolates_decoders,
    };
    if (status == SLUICE_OK && has_filter)
        status = sluice_syscall_filter_install(&filter, err);
    if (status == SLUICE_OK)
        (void)sluice_print(in_force, sizeof(in_force), "%s, system calls are %s",
                           files_in_words(abi, &ports), has_filter ? "limited (seccomp)" : "not");
    return status;
}

void sluice_sandbox_introduce(void)
{
    if (in_force[0])
        sluice_log(SLUICE_LOG_INFO, "sandbox: %s", in_force);
    warn_root();
}
