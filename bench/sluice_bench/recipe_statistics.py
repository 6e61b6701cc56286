#!/usr/bin/python3
"""Compares the output of recipes with that of torchvision and timm: mean and deviation of pixels, and how often each op runs.

usage: recipe_statistics.py FOLDER [--images N] [--processes N]     PYTHONPATH: build/release/python; FOLDER: JPEGs in class folders

For each recipe N images are drawn by a transform of torchvision or timm and by sluice from that transform.  `mean` and
`deviation` are over the values of an image, then averaged; z is their difference in standard errors, which come from the
draws of the same file.  `uses` is the chi-square statistic of the numbers of runs of each op, as a normal deviate (Wilson
and Hilferty).  Exit code 1 if one is beyond LIMIT.  Without timm its recipes are left out.
"""
import argparse
import collections
import functools
import multiprocessing
import os
import pathlib
import random
import re
import sys

try:
    import numpy
    import PIL
    import torch
    import torchvision
    from PIL import Image
    from torchvision import transforms as T
    from torchvision.transforms import autoaugment
    from torchvision.transforms import functional as F
except ImportError as error:
    print(f"SKIPPED: {error}", file=sys.stderr)
    sys.exit(77)

import sluice.numpy
from sluice import recipes

LIMIT = 5  # standard errors
BILINEAR = T.InterpolationMode.BILINEAR
AFTER_PIXELS = ("ToTensor", "MaybeToTensor", "Normalize", "RandomErasing")
TAIL = [T.ToTensor(), T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
OPS_OF = {"adjust_brightness": "brightness", "adjust_contrast": "contrast", "adjust_saturation": "color",
          "adjust_hue": "hue", "rgb_to_grayscale": "grayscale", "to_grayscale": "grayscale", "gaussian_blur": "tv_blur",
          "hflip": "hflip"}

uses = collections.Counter()  # of the originals, in this process
within = 0  # ops that call other ops
originals = []  # transforms to pixels, which the processes inherit


def made():
    """(name, transform) of torchvision and timm."""
    def crop(size):
        return [T.RandomResizedCrop(size), T.RandomHorizontalFlip()]
    yield "trivial_augment_wide", T.Compose([*crop(176), T.TrivialAugmentWide(interpolation=BILINEAR), *TAIL])
    yield "randaugment", T.Compose([*crop(224), T.RandAugment(interpolation=BILINEAR), *TAIL])
    yield "auto_augment", T.Compose([*crop(224), T.AutoAugment(interpolation=BILINEAR), *TAIL])
    if hasattr(T, "AugMix"):
        yield "augmix", T.Compose([*crop(224), T.AugMix(interpolation=BILINEAR), *TAIL])
    yield "SimCLR-like", T.Compose([*crop(224), T.RandomApply([T.ColorJitter(0.8, 0.8, 0.8, 0.2)], 0.8),
                                    T.RandomGrayscale(0.2), T.RandomApply([T.GaussianBlur(23, (0.1, 2))], 0.5), *TAIL])
    try:
        from timm.data import create_transform
    except ImportError as error:
        print(f"without timm's: {error}", file=sys.stderr)
        return
    yield "timm-default", create_transform(224, is_training=True)
    yield "timm-a2", create_transform(224, is_training=True, auto_augment="rand-m7-mstd0.5-inc1", interpolation="random")
    yield "deit", create_transform(224, is_training=True, auto_augment="rand-m9-mstd0.5-inc1", interpolation="bicubic")


def counted(function, name_of):
    """Counts the outermost calls."""
    @functools.wraps(function)
    def call(*args, **options):
        global within
        if within == 0:
            uses[name_of(args)] += 1
        within += 1
        try:
            return function(*args, **options)
        finally:
            within -= 1
    return call


def snake(name):
    name = name.replace("Increasing", "").removesuffix("Rel").replace("AutoContrast", "Autocontrast")
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


def count_uses():
    autoaugment._apply_op = counted(autoaugment._apply_op, lambda args: snake(args[1]))
    for name, op in OPS_OF.items():
        if hasattr(F, name):
            setattr(F, name, counted(getattr(F, name), lambda args, op=op: op))
    try:
        from timm.data import auto_augment
    except ImportError:
        return
    for name, op in list(auto_augment.NAME_TO_OP.items()):
        auto_augment.NAME_TO_OP[name] = counted(op, lambda args, name=name: snake(name))


def figures(image):
    pixels = numpy.asarray(image)
    return pixels.mean(), pixels.std()


def theirs_of(task):
    index, file, draws, seed = task
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)
    uses.clear()
    with Image.open(file) as image:
        image = image.convert("RGB")
    return [figures(originals[index](image)) for _ in range(draws)], +uses


def theirs(pool, index, files, draws):
    """[file, draw, figure] and the numbers of uses."""
    found, total = [], collections.Counter()
    for figures_of, used in pool.imap(theirs_of, [(index, file, draws, i) for i, file in enumerate(files)]):
        found.append(figures_of)
        total += used
    return numpy.array(found), total


def ours(folder, pipeline, files, draws, workers):
    found, total = numpy.zeros((len(files), draws, 2)), collections.Counter()
    with sluice.numpy.Loader(folder, 50, pipeline=pipeline, sample_ids=True, workers=workers, shuffle=False) as loader:
        for epoch in range(draws):
            for images, _, ids in loader:
                for image, of in zip(images, ids):
                    found[of, epoch] = figures(image)
                for ops in loader.draws(ids, epoch):
                    total.update(used(ops))
    return found, total


def used(ops):
    """Names of the ops that ran, of branches too."""
    for op in ops:
        for branch in op.get("branches", []):
            yield from used(branch)
        if op.get("mirrored", True):
            yield op["op"]


def z_of(a, b):
    """Of [file, draw]: the difference of the means in standard errors, each file's variance by itself."""
    error = ((a.var(axis=1, ddof=1) / a.shape[1] + b.var(axis=1, ddof=1) / b.shape[1]).sum()) ** 0.5
    return (a.mean(axis=1) - b.mean(axis=1)).sum() / error


def z_of_uses(a, b, names):
    if len(names) < 2:
        return 0
    table = numpy.array([[a[name] for name in names], [b[name] for name in names]], float)
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    degrees = len(names) - 1
    chi_square = ((table - expected) ** 2 / expected).sum()
    return ((chi_square / degrees) ** (1 / 3) - (1 - 2 / (9 * degrees))) / (2 / (9 * degrees)) ** 0.5


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--images", type=int, default=10000, help="of each recipe (10000)")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", help="a recipe's name")
    args = parser.parse_args()
    torch.set_num_threads(1)
    # The loader's ids are in the order of the paths.
    files = sorted(str(path) for path in pathlib.Path(args.folder).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    draws = -(-args.images // len(files))
    count_uses()
    print(f"{len(files)} JPEGs, {draws} draws of each; torchvision {torchvision.__version__}, Pillow {PIL.__version__}")
    print(f"{'recipe':22} {'mean':>7} {'theirs':>7} {'z':>5} {'deviation':>9} {'theirs':>7} {'z':>5}  uses (ours/theirs), z")
    is_far = False
    transforms = [(name, transform) for name, transform in made() if not args.only or name == args.only]
    originals.extend(T.Compose([step for step in transform.transforms if type(step).__name__ not in AFTER_PIXELS])
                     for _, transform in transforms)
    with multiprocessing.get_context("fork").Pool(args.processes) as pool:
        for index, (name, transform) in enumerate(transforms):
            try:
                recipe = recipes.of(transform)
            except sluice.InvalidError as error:
                print(f"{name:22} refused: {str(error).split(':')[1].strip()}", flush=True)
                continue
            b, their_uses = theirs(pool, index, files, draws)
            a, our_uses = ours(args.folder, recipe.train.split(",to_tensor")[0], files, draws, args.processes)
            names = sorted((our_uses.keys() | their_uses.keys()) - {"identity", "random_resized_crop", "augmix"})
            z = [z_of(a[..., i], b[..., i]) for i in range(2)]
            z_uses = z_of_uses(our_uses, their_uses, names)
            is_far |= max(*map(abs, z), z_uses) > LIMIT
            print(f"{name:22} {a[..., 0].mean():7.2f} {b[..., 0].mean():7.2f} {z[0]:5.1f} {a[..., 1].mean():9.2f} "
                  f"{b[..., 1].mean():7.2f} {z[1]:5.1f}  {z_uses:.1f}: "
                  f"{' '.join(f'{op} {our_uses[op]}/{their_uses[op]}' for op in names)}", flush=True)
    return int(is_far)


if __name__ == "__main__":
    sys.exit(main())
