#ifndef SLUICE_PLAN_CHOICE_COST_H
#define SLUICE_PLAN_CHOICE_COST_H

#include "plan/choices.h"
#include "plan/sample_facts.h"

#include <stdbool.h>
#include <stdint.h>

/* The cost of each choice of a pipeline for a sample, on every resource, from the facts known
 * before the sample is fetched.
 *
 * A cost is a weighted sum of the features below, with one set of weights for each choice, each of
 * storage CPU, compute CPU, bytes and GPU, and each class of files: those that the window decoder
 * covers take another way through the machine than other JPEGs, and other formats, called PNGs, a
 * third.  No weight is negative, so no cost is, and more of anything never costs less.  Bytes that
 * follow from the sizes alone (files, plain pixels, floats) are exact.
 *
 * Storage and compute CPU seconds are of one core of the machine that runs it.
 *
 * Threads: pure functions; a model is a plain value. */

/* The resources that a model has weights for: seconds of either CPU and of decoding on the GPU, and
 * bytes of payload on the network.  All but the GPU's are known of each sample that arrives. */
#define SLUICE_MODELLED (SLUICE_MODELLED_BY_SAMPLE | 1u << SLUICE_GPU)
#define SLUICE_MODELLED_BY_SAMPLE                                                                  \
    (1u << SLUICE_STORAGE_CPU | 1u << SLUICE_COMPUTE_CPU | 1u << SLUICE_NETWORK)
/* "storage_cpu", "compute_cpu", "bytes", "gpu"; NULL: not modelled. */
const char *sluice_modelled_name(enum sluice_resource resource);

struct sluice_choice_model {
    struct sluice_choices choices; /* what the weights' second index counts */
    struct sluice_choice_weights weights[SLUICE_NUM_FILE_CLASSES][SLUICE_MAX_CHOICES]
                                        [SLUICE_NUM_RESOURCES];
    double disk_s_per_sample, disk_s_per_byte; /* reading the file */
    bool has_jpeg_index; /* the storage node has one: see sluice_choice_read_bytes() */
};

/* For the choices of a pipeline, as measured by one core of an AMD EPYC (Zen 4); the .c says how.
 */
struct sluice_choice_model sluice_choice_model_default(const struct sluice_choices *choices);
/* Gives the choices with +gpu those weights that follow from the model's others: what is usual
 * where nothing was measured of a GPU. */
void sluice_choice_model_set_gpu(struct sluice_choice_model *model);

/* Brings a model of epoch 0 to this epoch of the training: the ops that start or end by then
 * (`when`) are added to its CPU and GPU times, or taken off, at their usual price. */
void sluice_choice_model_set_schedule(struct sluice_choice_model *model,
                                      const struct sluice_pipeline *pipeline, uint32_t schedule);

/* Whether the bytes of a choice follow from sizes alone, whatever its weights say: those of plain
 * forms, and of forms with exact_bytes(). */
bool sluice_choice_has_exact_bytes(struct sluice_choice choice);

/* The bytes that the storage node reads of the file for a choice: all of them, but with an index of
 * its JPEGs (datasets/jpeg_index/indexed_file.h), of one that the window decoder covers and where
 * the crop is all that the choice needs, the headers and the MCU rows under the crop, which are
 * taken to have as many bytes as others. */
double sluice_choice_read_bytes(const struct sluice_choice_model *model,
                                const struct sluice_sample_facts *facts, unsigned choice);

/* Bytes of a reply on the wire in addition to its payload. */
#define SLUICE_REPLY_BYTES 40

/* Fills the cost of every choice of the model: finite, at least 0, in the units of resource.h; the
 * GPU's is decoding alone, to which a plan adds the training step.  A choice that a file cannot be
 * asked for (a cut PNG, rows where there is no index) costs what its file
 * does; one that the GPU does not decode (PNGs, JPEGs of
 * four components or unusual sampling, whole progressive files), what it does where CPUs decode. */
void sluice_choice_model_costs(const struct sluice_choice_model *model,
                               const struct sluice_sample_facts *facts,
                               double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES]);

#endif
