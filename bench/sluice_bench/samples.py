#!/usr/bin/python3
"""Whole samples, from the file to float32: sluice.torch beside torchvision and timm with the same recipe.

usage: samples.py FOLDER [--rounds N] [--passes N] [--only NAME] [--workers N]        PYTHONPATH: build/release/python; FOLDER: JPEGs in class folders

CPU time of the process on one core, in us a sample: the median of the rounds, which take turns.  With --workers the time
of the clock on as many cores: a DataLoader with N worker processes, and sluice with N workers.  Batches are not hashed, and no index
of the JPEGs is used.  Without timm its recipes are left out.
"""
import argparse
import os
import pathlib
import statistics
import sys
import time

try:
    import PIL
    import torch
    import torchvision
    from PIL import Image
    from torchvision import transforms as T
except ImportError as error:
    print(f"SKIPPED: {error}", file=sys.stderr)
    sys.exit(77)

import sluice.torch
from sluice import recipes

TAIL = [T.ToTensor(), T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
BILINEAR = T.InterpolationMode.BILINEAR


def single():
    """(name, transform) of torchvision and timm, one image of a sample; the names of presets are those of sluice.recipes."""
    yield "torchvision-v1", T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), *TAIL])
    yield "torchvision-v2", T.Compose([T.RandomResizedCrop(176), T.RandomHorizontalFlip(),
                                       T.TrivialAugmentWide(interpolation=BILINEAR), *TAIL,
                                       T.RandomErasing(0.1)])
    yield "RandAugment(2, 9)", T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(),
                                          T.RandAugment(interpolation=BILINEAR), *TAIL])
    yield "SimCLR-like", T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(),
                                    T.RandomApply([T.ColorJitter(0.8, 0.8, 0.8, 0.2)], 0.8), T.RandomGrayscale(0.2),
                                    T.RandomApply([T.GaussianBlur(23, (0.1, 2))], 0.5), *TAIL])
    try:
        from timm.data import create_transform
    except ImportError as error:
        print(f"without timm's: {error}", file=sys.stderr)
        return
    yield "timm-a2", create_transform(224, is_training=True, auto_augment="rand-m7-mstd0.5-inc1", interpolation="random")
    yield "deit", create_transform(224, is_training=True, auto_augment="rand-m9-mstd0.5-inc1", interpolation="bicubic",
                                   re_prob=0.25, re_mode="pixel")


def dino_view(size, scale, blur, *extra):
    return T.Compose([T.RandomResizedCrop(size, scale=scale, interpolation=T.InterpolationMode.BICUBIC),
                      T.RandomHorizontalFlip(), T.RandomApply([T.ColorJitter(0.4, 0.4, 0.2, 0.1)], 0.8),
                      T.RandomGrayscale(0.2), T.RandomApply([T.GaussianBlur(9, (0.1, 2))], blur), *extra, *TAIL])


class Views:
    """Several images of one."""

    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, image):
        return [transform(image) for transform in self.transforms]


def made():
    """(name, transform, its recipe)."""
    for name, transform in single():
        recipe = recipes.of(transform)
        recipe.mix = None
        yield name, transform, recipe
    # With the blur of the released weights: DINOv2's GaussianBlur(p) runs with probability 1 - p.
    views = [dino_view(224, (0.32, 1), 0), dino_view(224, (0.32, 1), 0.9, T.RandomSolarize(128, 0.2)),
             *[dino_view(96, (0.05, 0.32), 0.5)] * 8]
    yield "DINOv2's 2 + 8 views", Views(views), recipes.of(views)


def theirs(transform, files):
    start = time.process_time()
    for file in files:
        with Image.open(file) as image:
            transform(image.convert("RGB"))
    return (time.process_time() - start) / len(files)


def per_image(loader, clock):
    start = clock()
    num = sum(len(labels) for _, labels, *_ in loader)
    return (clock() - start) / num


class Repeated(torchvision.datasets.ImageFolder):
    """Each image several times, as sluice's option repeat gives it."""

    def __init__(self, folder, transform, repeat):
        super().__init__(folder, transform)
        self.samples = self.samples * repeat


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--passes", type=int, default=2, help="of ours in a round")
    parser.add_argument("--only", metavar="NAME", help="this recipe alone")
    parser.add_argument("--workers", type=int, help="loaders by the clock, with this number of workers and of cores")
    args = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-(args.workers or 1):])
    torch.set_num_threads(1)
    files = sorted(path for path in pathlib.Path(args.folder).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    print(f"{len(files)} JPEGs; torchvision {torchvision.__version__}, Pillow {PIL.__version__}, torch {torch.__version__}")
    print(f"{'recipe':20} {'theirs, us':>10} {'ours, us':>10} {'ratio':>6}")
    for name, transform, recipe in made():
        if args.only not in (None, name):
            continue
        with sluice.torch.Loader(args.folder, 50, recipe=recipe, normalize=True, workers=args.workers or 1, digest=False,
                                 jpeg_index="off", repeat=args.passes) as loader:
            per_image(loader, time.process_time)
            if args.workers:
                peer = torch.utils.data.DataLoader(Repeated(args.folder, transform, args.passes), 50, shuffle=True,
                                                   num_workers=args.workers, persistent_workers=True)
                per_image(peer, time.monotonic)
                rounds = [(per_image(peer, time.monotonic), per_image(loader, time.monotonic)) for _ in range(args.rounds)]
            else:
                rounds = [(theirs(transform, files), per_image(loader, time.process_time)) for _ in range(args.rounds)]
        a, b = (statistics.median(column) * 1e6 for column in zip(*rounds))
        print(f"{name:20} {a:10.0f} {b:10.0f} {a / b:6.2f}", flush=True)


if __name__ == "__main__":
    main()
