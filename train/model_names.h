#ifndef SLUICE_TRAIN_MODEL_NAMES_H
#define SLUICE_TRAIN_MODEL_NAMES_H

/* The models that a trainer knows, as a list of strings: options offer them, models.c has a table
 * of them in this order.  Includes nothing, so that everybody may include it. */
#define SLUICE_MODEL_NAMES                                                                         \
    "alexnet", "vgg11", "vgg16", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152",     \
        "small_cnn"

#endif
