#!/usr/bin/python3
"""ResNet-18 trained on synthetic images with timm's recipe: timm's own transforms in a DataLoader, and sluice from them.

usage: recipe_curve.py [--images N] [--epochs N] [--seeds N] [--device cuda]       PYTHONPATH: build/release/python

The images are shapes of random colour and place on noise; a class is a shape with a texture.  Each seed trains a network
with each loader from the same weights, and both are validated on the same tensors.  For each epoch: the loss and the accuracy, mean and
deviation over the seeds, and the difference of the means in standard errors.  Exit code 1 if one is beyond LIMIT.
"""
import argparse
import math
import multiprocessing
import os
import pathlib
import statistics
import sys
import tempfile

try:
    import numpy
    import torch
    import torchvision
    from PIL import Image
    from timm.data import create_transform
except ImportError as error:
    print(f"SKIPPED: {error}", file=sys.stderr)
    sys.exit(77)

import sluice.torch

LIMIT = 4  # standard errors; of a few seeds they are rough
SIDE, BATCH = 256, 64
SHAPES, TEXTURES = 5, 2
NUM_CLASSES = SHAPES * TEXTURES
NUM_VAL = 1000


def shape_mask(shape, x, y):
    """[SIDE, SIDE], of coordinates in which the shape's radius is 1."""
    r = numpy.hypot(x, y)
    return [r < 1, (abs(x) < 0.8) & (abs(y) < 0.8), (abs(x) + abs(y)) < 1.1, (r < 1) & (r > 0.55),
            (abs(x) < 0.35) & (abs(y) < 1) | (abs(y) < 0.35) & (abs(x) < 1)][shape]


def draw(task):
    """One image of sample `number`, written as a JPEG."""
    folder, number = task
    rng = numpy.random.default_rng(number)
    label = number % NUM_CLASSES
    shape, texture = label % SHAPES, label // SHAPES
    at = numpy.arange(SIDE) / SIDE
    radius, left, top = rng.uniform(0.2, 0.35), *rng.uniform(0.35, 0.65, 2)
    x, y = numpy.meshgrid((at - left) / radius, (at - top) / radius)
    angle = rng.uniform(0, 2 * math.pi)
    along = math.cos(angle) * x + math.sin(angle) * y
    wave = [numpy.ones_like(x), numpy.sin(9 * along)][texture]
    fore, back, other = rng.uniform(0, 255, (3, 3))
    pixels = back + rng.normal(0, 20, (SIDE, SIDE, 1)) + rng.normal(0, 10, (SIDE, SIDE, 3))
    inside = shape_mask(shape, math.cos(angle) * x - math.sin(angle) * y, math.sin(angle) * x + math.cos(angle) * y)
    pixels[inside] = numpy.where(wave[inside, None] > 0, fore, other) + rng.normal(0, 10, (int(inside.sum()), 3))
    path = pathlib.Path(folder, f"{label:02}", f"{number:06}.jpg")
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8)).save(path, quality=85)


def theirs(folder, transform, workers, seed):
    torch.manual_seed(seed)
    return torch.utils.data.DataLoader(torchvision.datasets.ImageFolder(folder, transform), BATCH, shuffle=True,
                                       num_workers=workers, drop_last=True, pin_memory=True, persistent_workers=True)


def ours(folder, transform, workers, seed):
    return sluice.torch.Loader(folder, BATCH, recipe=transform, seed=seed, workers=workers, drop_last=True,
                               normalize=True)


def curve(loader, seed, epochs, device, val):
    """[(mean loss, accuracy)] of the epochs."""
    torch.manual_seed(seed)
    model = torchvision.models.resnet18(num_classes=NUM_CLASSES).to(device, memory_format=torch.channels_last)
    steps = epochs * len(loader)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps)
    found = []
    for _ in range(epochs):
        model.train()
        losses = []
        for images, labels in loader:
            images = images.to(device, non_blocking=True)
            with torch.autocast(device, torch.bfloat16):
                loss = torch.nn.functional.cross_entropy(model(images), labels.to(device, non_blocking=True))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.detach())
        model.eval()
        with torch.no_grad(), torch.autocast(device, torch.bfloat16):
            right = sum(int((model(images.to(device)).argmax(1).cpu() == labels).sum()) for images, labels in val)
        found.append((float(torch.stack(losses).mean()), right / NUM_VAL))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=10000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    train = create_transform(224, is_training=True, auto_augment="rand-m9-mstd0.5-inc1", interpolation="random",
                             re_prob=0.25, re_mode="pixel")
    with tempfile.TemporaryDirectory() as folder:
        with multiprocessing.Pool(args.workers) as pool:
            pool.map(draw, [(f"{folder}/train", number) for number in range(args.images)], 64)
            pool.map(draw, [(f"{folder}/val", 10 ** 6 + number) for number in range(NUM_VAL)], 64)
        val = list(torch.utils.data.DataLoader(
            torchvision.datasets.ImageFolder(f"{folder}/val", create_transform(224)), 250, num_workers=args.workers))
        curves = {"timm": [], "sluice": []}
        for seed in range(args.seeds):
            for name, make in (("timm", theirs), ("sluice", ours)):
                loader = make(f"{folder}/train", train, args.workers, seed)
                curves[name].append(curve(loader, seed, args.epochs, args.device, val))
                if name == "sluice":
                    loader.close()
                del loader
                print(name, seed, " ".join(f"{loss:.3f}/{accuracy:.3f}" for loss, accuracy in curves[name][-1]), flush=True)
    print(f"{'epoch':>5} {'loss: timm':>16} {'sluice':>16} {'z':>5}   {'accuracy: timm':>16} {'sluice':>16} {'z':>5}")
    is_far = False
    for epoch in range(args.epochs):
        cells = []
        for figure in range(2):
            columns = [[run[epoch][figure] for run in curves[name]] for name in ("timm", "sluice")]
            means, deviations = zip(*((statistics.mean(column), statistics.stdev(column)) for column in columns))
            z = (means[1] - means[0]) / (sum(d * d for d in deviations) / args.seeds) ** 0.5
            is_far |= abs(z) > LIMIT
            cells.append(" ".join(f"{m:7.3f} +- {d:5.3f}" for m, d in zip(means, deviations)) + f" {z:5.1f}")
        print(f"{epoch + 1:5}  {'   '.join(cells)}")
    return int(is_far)


if __name__ == "__main__":
    sys.exit(main())
