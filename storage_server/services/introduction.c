#include "storage_server/services/introduction.h"

#include "base/host_port.h"
#include "base/log.h"
#include "base/roots.h"
#include "base/show.h"
#include "datasets/manifest/manifest.h"
#include "op/form.h"
#include "op/pipeline.h"
#include "storage_server/data/sample_list.h"
#include "storage_server/data/subset_rows.h"
#include "storage_server/services/service.h"
#include "store/open.h"

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
    char root[SLUICE_ROOTS_TEXT];
    sluice_roots_format(facts->roots, root);
    const bool is_remote = sluice_store_is_remote(facts->roots->at[0].place);
    const char *from = facts->roots->at[0].name[0] ? "each root's own list or walk"
                       : manifest->passed_over
                           ? (is_remote ? "the store itself" : "the folder itself")
                       : facts->manifest ? facts->manifest
                                         : SLUICE_MANIFEST_FILE;
    sluice_log(
        SLUICE_LOG_INFO,
        "%s: %zu samples%s in %zu class%s, %s, dataset %s; listed by %s%s; %s index of JPEGs", root,
        manifest->num_entries, subsets, manifest->num_classes,
        manifest->num_classes == 1 ? "" : "es",
        sluice_show_bytes((double)list->dataset_bytes, bytes), list->dataset_id, from,
        manifest->passed_over && !is_remote ? " ('offload_dataset index' makes a list)" : "",
        list->jpeg_indexes ? "with an" : "no");
}

static void tell_cache(const struct sluice_introduction *facts)
{
    char bytes[SLUICE_SHOW_BYTES], most[SLUICE_SHOW_BYTES];
    sluice_log(SLUICE_LOG_INFO, "what the store sends is kept in %s: %s of %s", facts->cache,
               sluice_show_bytes((double)facts->cache_counts.bytes, bytes),
               sluice_show_bytes((double)facts->cache_counts.max_bytes, most));
}

static void tell_work(const struct sluice_introduction *facts)
{
    char forms[128] = "", memory[SLUICE_SHOW_BYTES];
    for (unsigned form = 0; form < sluice_num_forms(); form++) {
        const size_t len = strlen(forms);
        if (sluice_offload_forms(facts->list->jpeg_indexes != NULL) & 1u << form)
            snprintf(forms + len, sizeof(forms) - len, "%s%s", len ? ", " : "",
                     sluice_form_name((enum sluice_form)form));
    }
    sluice_log(
        SLUICE_LOG_INFO,
        "sends %s; %.3g cores to preprocess with (%u threads%s), %u threads that read files, %s "
        "of memory for clients and their work",
        forms, facts->prep_cores, facts->prep_workers,
        facts->has_decoders ? ", each with a decoder process" : "", facts->io_workers,
        sluice_show_bytes((double)facts->memory_limit, memory));
}

static void tell_access(const struct sluice_introduction *facts)
{
    const char *cipher = facts->access.has_tls ? "TLS" : "no TLS";
    const bool is_asked = facts->access.has_client_ca || facts->access.has_tokens;
    const char *who =
        facts->access.has_client_ca
            ? (facts->access.has_tokens ? "a certificate and a token" : "a certificate")
            : "a token";
    char root[SLUICE_ROOTS_TEXT];
    sluice_roots_format(facts->roots, root);
    if (sluice_is_loopback(facts->listen) && !is_asked)
        sluice_log(SLUICE_LOG_INFO,
                   "%s is this machine's own: programs of other machines cannot connect",
                   facts->listen);
    else if (is_asked)
        sluice_log(SLUICE_LOG_INFO, "%s, %s: clients need %s", facts->listen, cipher, who);
    else if (facts->access.has_tls)
        sluice_log(SLUICE_LOG_WARN,
                   "anyone who reaches %s may read every sample beneath %s, encrypted on its way: "
                   "neither --tls-client-ca nor --tokens is given",
                   facts->listen, root);
    else
        sluice_log(SLUICE_LOG_WARN,
                   "--insecure: anyone who reaches %s may read every sample beneath %s, and anyone "
                   "on the way sees them pass (docs/operations/security.md)",
                   facts->listen, root);
}

void sluice_introduce(const struct sluice_introduction *facts)
{
    tell_data(facts);
    if (facts->cache)
        tell_cache(facts);
    tell_work(facts);
    tell_access(facts);
}
