#include "storage_server/introduction.h"

#include "base/host_port.h"
#include "base/log.h"
#include "base/show.h"
#include "base/text.h"
#include "datasets/manifest.h"
#include "pipeline/pipeline.h"
#include "storage_server/context.h"
#include "storage_server/sample_list.h"
#include "storage_server/subset_rows.h"

#include <stdio.h>
#include <string.h>

static void tell_data(const struct sluice_introduction *facts)
{
    const struct sluice_sample_list *list = facts->list;
    const struct sluice_manifest *manifest = list->manifest;
    char bytes[SLUICE_SHOW_BYTES], subsets[80] = "";
    const size_t num_val = sluice_subset_rows_count(list->rows, SLUICE_ROWS_VAL);
    if (num_val)
        snprintf(subsets, sizeof(subsets), " (%zu train, %zu val)", manifest->num_entries - num_val,
                 num_val);
    const char *from = manifest->passed_over ? "the folder itself"
                       : facts->manifest     ? facts->manifest
                                             : SLUICE_MANIFEST_FILE;
    sluice_log(
        SLUICE_LOG_INFO,
        "%s: %zu samples%s in %zu class%s, %s, dataset %s; listed by %s%s; %s index of JPEGs",
        facts->root, manifest->num_entries, subsets, manifest->num_classes,
        manifest->num_classes == 1 ? "" : "es",
        sluice_show_bytes((double)list->dataset_bytes, bytes), list->dataset_id, from,
        manifest->passed_over ? " ('offload_dataset index' makes a list)" : "",
        list->jpeg_indexes ? "with an" : "no");
}

static void tell_work(const struct sluice_introduction *facts)
{
    char forms[128] = "", memory[SLUICE_SHOW_BYTES];
    for (int form = 0; form < SLUICE_NUM_FORMS; form++) {
        const size_t len = strlen(forms);
        if (SLUICE_SERVER_FORMS & 1u << form)
            snprintf(forms + len, sizeof(forms) - len, "%s%s", len ? ", " : "",
                     sluice_form_name((enum sluice_form)form));
    }
    sluice_log(
        SLUICE_LOG_INFO,
        "sends %s; %.3g cores to preprocess with (%u threads), %u threads that read files, %s "
        "of memory for clients and their work",
        forms, facts->prep_cores, facts->prep_workers, facts->io_workers,
        sluice_show_bytes((double)facts->memory_limit, memory));
}

bool sluice_is_loopback(const char *listen)
{
    struct sluice_host_port address;
    if (sluice_host_port_parse(listen, -1, &address, NULL) != SLUICE_OK)
        return true; /* "unix:" */
    return strcmp(address.host, "localhost") == 0 || strcmp(address.host, "::1") == 0 ||
           sluice_starts_with(address.host, "127.");
}

static void tell_access(const struct sluice_introduction *facts)
{
    if (sluice_is_loopback(facts->listen))
        sluice_log(SLUICE_LOG_INFO,
                   "%s is this machine's own: programs of other machines cannot connect",
                   facts->listen);
    else
        sluice_log(SLUICE_LOG_INFO,
                   "anyone who reaches %s may read every image beneath %s: there is no TLS and no "
                   "password (docs/OPERATIONS.md, Security)",
                   facts->listen, facts->root);
}

void sluice_introduce(const struct sluice_introduction *facts)
{
    tell_data(facts);
    tell_work(facts);
    tell_access(facts);
}
