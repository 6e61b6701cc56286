#!/usr/bin/env python3
"""Prints the hashes of tests/unit/train/test_mix.c: what sluice.torch.RandomErasing and Mix make of six batches.

    PYTHONPATH=build/dev/python python3 tests/golden/make_batch_ops.py

Needs numpy, torch and xxhash.
"""
import numpy
import torch
import xxhash

from sluice.torch import BatchKey, Mix, RandomErasing

ROWS, SIZE, CLASSES = 8, 24, 5
SEED = 0x8000000000000003
MEAN, STD = (numpy.array(values, numpy.float32) for values in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))


def batch(num_rows, offset):
    """As train_test_fill_batch() and train_test_fill_table() make it, normalised: [rows, 3, size, size]."""
    at = numpy.arange(num_rows * SIZE * SIZE * 3, dtype=numpy.uint64) + numpy.uint64(offset)
    hashes = (at.astype(numpy.uint32) * numpy.uint32(2654435761) + numpy.uint32(12345)).astype(numpy.uint32)
    hashes = (hashes ^ hashes >> numpy.uint32(15)) * numpy.uint32(2246822519)
    pixels = (hashes >> numpy.uint32(24)).astype(numpy.float32).reshape(num_rows, SIZE, SIZE, 3)
    images = (pixels / numpy.float32(255) - MEAN) / STD
    return torch.from_numpy(images.transpose(0, 3, 1, 2).copy()), torch.tensor([(i * 7 + 3) % CLASSES for i in range(num_rows)])


for index in range(6):
    num_rows = ROWS - index % 2
    key = BatchKey(SEED, 2, index, 1, [2**35 + 100 + i for i in range(num_rows)], [2 + i % 2 for i in range(num_rows)])
    erasing = RandomErasing(0.5, fill=((0.5, 0, -1), "channel", "pixel")[index % 3])
    mix = Mix(mixup=0.8, cutmix=1, p=0.8, label_smoothing=0.1, pairing=("timm", "torchvision")[index // 3])
    images, targets = mix(*erasing(*batch(num_rows, index), key, CLASSES), key, CLASSES)
    rows = numpy.ascontiguousarray(images.numpy().transpose(0, 2, 3, 1))
    print(f'    "{xxhash.xxh3_128_hexdigest(rows.tobytes() + targets.numpy().tobytes())}",')
