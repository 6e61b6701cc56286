#ifndef SLUICE_COMPUTE_CLIENT_API_PROFILE_FORMS_H
#define SLUICE_COMPUTE_CLIENT_API_PROFILE_FORMS_H

#include "compute_client/api/loader_state.h"
#include "plan/form_table.h"
#include "plan/transport_cost.h"

/* The measurements of --profiling after its epoch: the profiled samples in every form.
 * loader_profile.c writes it. */

struct profile_forms {
    struct sluice_form_row *rows; /* one for each sample and choice: means */
    size_t num_rows;
    struct sluice_transport_seen *seen; /* one for each phase: one choice, or two by turns */
    size_t num_seen;
    double read_s; /* CPU time of reading a file on the storage node */
    /* The GPU's time for all num_decoded samples. */
    double decode_s;
    size_t num_decoded;
};

/* Call it after the epoch that filled loader->profile.  *forms is {0} before; the caller clears it,
 * also after a failure. */
SLUICE_MUST_USE sluice_status loader_profile_forms(struct sluice_loader *loader,
                                                   struct profile_forms *forms, bool *is_stopped,
                                                   struct sluice_err *err);
void loader_profile_forms_clear(struct profile_forms *forms);

/* Cores that this process may use. */
double loader_profile_compute_cores(const struct sluice_loader *loader);

/* The facts of a sample of the train subset: from its row in loader->profile if it was decoded,
 * else from the manifest. */
struct sluice_sample_facts loader_profile_facts(const struct sluice_loader *loader,
                                                uint32_t position);

#endif
