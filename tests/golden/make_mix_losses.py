#!/usr/bin/env python3
"""Prints tests/golden/mix_losses.txt: the losses of 1,000 batches by timm's Mixup and SoftTargetCrossEntropy.

    PYTHONPATH=build/dev/python python3 tests/golden/make_mix_losses.py >tests/golden/mix_losses.txt

Needs timm (1.0.31 made the file) and torch.  The draws are Sluice's; what timm makes of them is its own code.
tests/unit/train/test_mix.c has the same batches.  A line is a batch's kind (0: not mixed, 1: mixup, 2: CutMix) and
its mean loss.
"""
import unittest.mock

import torch
from timm.data import mixup
from timm.loss import SoftTargetCrossEntropy

from sluice import _sluice

ROWS, SIZE, CLASSES = 6, 24, 10
SEED, EPOCH, RANK = 0x8000000000000003, 2, 1
MIXUP, CUTMIX = 0.8, 1.0
PROBABILITY, SWITCH, SMOOTHING = 0.9, 0.5, 0.1

timms = mixup.Mixup(MIXUP, CUTMIX, prob=PROBABILITY, switch_prob=SWITCH, label_smoothing=SMOOTHING, num_classes=CLASSES)
full = torch.full  # mixup_target() puts the targets where there is a GPU
loss_of = SoftTargetCrossEntropy()
for index in range(1000):
    kind, own, (top, left, height, width) = _sluice.draw_mix(
        SEED, EPOCH, index, RANK, MIXUP, CUTMIX, PROBABILITY, SWITCH, SIZE, SIZE)
    labels = torch.tensor([(row * 7 + 3 + index) % CLASSES for row in range(ROWS)])
    logits = torch.tensor([[((row * 31 + c * 17 + index * 7) % 23 - 11) / 4 for c in range(CLASSES)]
                           for row in range(ROWS)], dtype=torch.float64)
    with unittest.mock.patch.object(timms, "_params_per_batch", lambda: (own, kind == 2)), \
            unittest.mock.patch.object(mixup, "cutmix_bbox_and_lam", lambda *args, **options: (
                (top, top + height, left, left + width), own)), \
            unittest.mock.patch.object(torch, "full", lambda *args, device=None, **options: full(*args, **options)):
        _, targets = timms(torch.zeros(ROWS, 3, SIZE, SIZE), labels)
    print(kind, f"{float(loss_of(logits, targets)):.9f}")
