#ifndef SLUICE_TRAIN_TUNING_H
#define SLUICE_TRAIN_TUNING_H

/* Points of a step, where the device's work may stop at a gate.  One H100, ResNet-18, batches of 256,
 * 21 ms a step: 84 points cost 1.0 % of its rate while nobody stops it, 42 points 0.5 %.  Half: whoever
 * wants the GPU waits up to 2 ms instead of 1 ms for the next point, or for a long stage; twice: twice
 * the cost, and stages are rarely shorter. */
#define SLUICE_TRAIN_POINTS 40

#endif
