#ifndef SLUICE_TRAIN_TUNING_H
#define SLUICE_TRAIN_TUNING_H

#include <stddef.h>

/* Points of a step, where the device's work may stop at a gate.  One H100, ResNet-18, batches of 256,
 * 21 ms a step: 84 points cost 1.0 % of its rate while nobody stops it, 42 points 0.5 %.  Half: whoever
 * wants the GPU waits up to 2 ms instead of 1 ms for the next point, or for a long stage; twice: twice
 * the cost, and stages are rarely shorter. */
#define SLUICE_TRAIN_POINTS 40

/* Workspace, in bytes, of a cuDNN engine that is taken.  The fastest engines for the models here, at
 * batches of 256, need less.  By reasoning, not swept.  Half: a convolution may lose its fastest engine; twice: more of
 * the device's memory goes to scratch space. */
#define SLUICE_TRAIN_ENGINE_BYTES ((size_t)512 << 20)
/* Engines of a convolution that are timed, in cuDNN's order.  One H100: the best one of resnet50's and
 * vgg16's convolutions was among the first 9.  Half: the best one is missed; twice: the first step starts
 * later, for nothing. */
#define SLUICE_TRAIN_ENGINES_TIMED 10

/* Bytes of gradients that ranks average at once, while the next stages run backwards.  By reasoning, not
 * swept.  Half: NVLink's latency counts, and not its rate alone; twice: the step waits longer for the mean
 * of the last bucket. */
#define SLUICE_TRAIN_BUCKET_BYTES ((size_t)16 << 20)

#endif
