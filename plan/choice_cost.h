#ifndef SLUICE_PLAN_CHOICE_COST_H
#define SLUICE_PLAN_CHOICE_COST_H

#include "plan/choices.h"
#include "plan/sample_facts.h"

#include <stdbool.h>
#include <stdint.h>

/* The cost of each choice of a pipeline for a sample, on every resource, from the facts known
 * before the sample is fetched.
 *
 * A cost is a weighted sum of features.  There is one set of weights for each choice, each of
 * storage CPU, compute CPU, bytes and GPU, and each class of files: JPEGs that the window decoder
 * covers, other JPEGs, and other formats (called PNGs) are decoded by different code.  Weights are
 * not negative, so costs are not, and they never fall as a feature grows.  Bytes that follow from
 * sizes alone (files, plain pixels, floats) are exact.
 *
 * Storage and compute CPU seconds are of one core of the machine that runs it.
 *
 * Threads: pure functions; a model is a plain value. */

/* The resources that a model has weights for: seconds of either CPU and of decoding on the GPU, and
 * bytes of payload on the network.  Each arriving sample shows its costs on all except the GPU. */
#define SLUICE_MODELLED (SLUICE_MODELLED_BY_SAMPLE | 1u << SLUICE_GPU)
#define SLUICE_MODELLED_BY_SAMPLE                                                                  \
    (1u << SLUICE_STORAGE_CPU | 1u << SLUICE_COMPUTE_CPU | 1u << SLUICE_NETWORK)
/* "storage_cpu", "compute_cpu", "bytes", "gpu"; NULL: not modelled. */
const char *sluice_modelled_name(enum sluice_resource resource);

struct sluice_choice_model {
    struct sluice_choices choices; /* the second index of the weights */
    struct sluice_choice_weights weights[SLUICE_NUM_FILE_CLASSES][SLUICE_MAX_CHOICES]
                                        [SLUICE_NUM_RESOURCES];
    double disk_s_per_sample, disk_s_per_byte; /* reading the file */
    bool has_jpeg_index; /* the storage node has one: see sluice_choice_read_bytes() */
};

/* The default model for the choices of a pipeline, measured on one core of an AMD EPYC (Zen 4); the
 * .c says how. */
struct sluice_choice_model sluice_choice_model_default(const struct sluice_choices *choices);
/* Sets the weights of the choices with +gpu to defaults that follow from the other weights, for a
 * model without measurements of a GPU. */
void sluice_choice_model_set_gpu(struct sluice_choice_model *model);

/* Brings a model of epoch 0 to this epoch of the training: adds the default cost of ops that have
 * started since (`when`) to its CPU and GPU times, and subtracts that of ops that have ended. */
void sluice_choice_model_set_schedule(struct sluice_choice_model *model,
                                      const struct sluice_pipeline *pipeline, uint32_t schedule);

/* Whether the bytes of a choice follow from sizes alone, and not from its weights: plain forms, and
 * forms with exact_bytes(). */
bool sluice_choice_has_exact_bytes(struct sluice_choice choice);

/* The bytes that the storage node reads of the file for a choice.  With a JPEG index
 * (datasets/jpeg_index/indexed_file.h), a file that the window decoder covers, and a choice that
 * needs the crop alone: the headers and the MCU rows under the crop, assuming that all rows have
 * the same number of bytes.  Else the whole file. */
double sluice_choice_read_bytes(const struct sluice_choice_model *model,
                                const struct sluice_sample_facts *facts, unsigned choice);

/* Bytes of a reply on the wire in addition to its payload. */
#define SLUICE_REPLY_BYTES 40

/* Fills the cost of every choice of the model: finite, at least 0, in the units of resource.h; the
 * GPU's is decoding alone, to which a plan adds the training step.  A choice that a file does not
 * support (a crop of a PNG, rows without an index) costs as much as the whole file.  A file that
 * the GPU does not decode (PNGs, JPEGs of four components or unusual sampling, whole progressive
 * files) costs as much as with CPUs that decode. */
void sluice_choice_model_costs(const struct sluice_choice_model *model,
                               const struct sluice_sample_facts *facts,
                               double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES]);

#endif
