#!/usr/bin/env python3
"""Prints tests/golden/lr_schedules.txt: the learning rates of 1,000 steps by timm's schedulers.

    python3 tests/golden/make_lr_schedules.py >tests/golden/lr_schedules.txt

Needs timm (1.0.31 made the file) and torch.  A line "case" has the fields of struct sluice_schedule and the
batches of an epoch; each line below it is a number of steps in a row and their rate.
"""
import itertools

import torch
from timm.scheduler import create_scheduler_v2

STEPS = 1000
# kind, lr, warmup_epochs, warmup_lr, epochs, min_lr, step_epochs, gamma, batches of an epoch
CASES = [
    ("cosine", 0.5, 5, 1e-5, 27, 1e-6, 1, 1, 37),
    ("step", 0.1, 0, 0, 1000, 0, 30, 0.1, 7),
    ("step", 0.2, 3, 0.01, 100, 0, 4, 0.97, 11),
    ("constant", 0.3, 2, 0.4, 20, 0, 1, 1, 50),
]

for case in CASES:
    kind, lr, warmup_epochs, warmup_lr, epochs, min_lr, step_epochs, gamma, batches = case
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    scheduler, _ = create_scheduler_v2(
        optimizer, kind, epochs, decay_epochs=step_epochs, decay_rate=gamma, min_lr=min_lr, warmup_lr=warmup_lr,
        warmup_epochs=warmup_epochs, step_on_epochs=False, updates_per_epoch=batches)
    rates = []
    for step in range(STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        scheduler.step_update(step + 1)
    print("case", *case)
    for rate, steps in itertools.groupby(rates):
        print(len(list(steps)), repr(float(rate)))
