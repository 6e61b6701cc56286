#!/usr/bin/python3
"""Runs real images through the pipeline and through Pillow + torchvision; every byte must agree.

usage: compare_torchvision.py BIN_DIR FOLDER [--seeds 0,7] [--epochs 0,1,2] [--max N]

For each seed and epoch: `offload_dataset tensor` on all images of FOLDER, with its draws
  - checked against reference_draws.py, and given to torchvision.transforms.functional:
    resized_crop of the PIL image, hflip: compared byte for byte after the flip (split 3);
  - to_tensor, normalize: compared at the end, bit for bit, with the greatest difference;
and the validation pipeline (resize, center_crop) once.
Exit 0: all equal; 1: a difference; 77: skipped (no torchvision, or no images).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import reference_draws

try:
    import numpy as np
    import torchvision.transforms.functional as F
    from PIL import Image
except ImportError as error:
    print(f"SKIPPED: {error}")
    sys.exit(77)

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def tensor(program, images, out, *options):
    """One dict for each image, with the array under "array"."""
    run = subprocess.run([program, "tensor", *images, "-o", out, *options], stdout=subprocess.PIPE,
                         check=True)
    rows = [json.loads(line) for line in run.stdout.decode().splitlines()]
    for row in rows:
        row["array"] = np.load(row["out"])
        os.unlink(row["out"])
    return rows


def ulps(a, b):
    """How many float32 numbers lie between each pair."""
    def ordered(x):
        bits = x.view(np.int32).astype(np.int64)
        return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    return np.abs(ordered(a) - ordered(b))


class Report:
    def __init__(self):
        self.num_u8 = self.num_f32 = self.max_ulp = 0
        self.max_difference = 0.0
        self.failures = []

    def compare_u8(self, name, got, image):
        self.num_u8 += 1
        want = np.asarray(image)
        if got.dtype != np.uint8 or got.shape != want.shape or not np.array_equal(got, want):
            self.failures.append(f"{name}: u8 differs")

    def compare_f32(self, name, got, image):
        self.num_f32 += 1
        want = F.normalize(F.to_tensor(image), MEAN, STD).numpy()
        if got.dtype != np.float32 or got.shape != want.shape:
            self.failures.append(f"{name}: {got.dtype} {got.shape}")
            return
        worst = int(ulps(got, want).max())
        self.max_ulp = max(self.max_ulp, worst)
        self.max_difference = max(self.max_difference, float(np.abs(got - want).max()))
        if worst > 1:
            self.failures.append(f"{name}: float32 differs by {worst} ulp")

    def print(self, what):
        print(f"{what}: {self.num_u8} u8 images byte for byte, {self.num_f32} float32 tensors: "
              f"greatest difference {self.max_ulp} ulp ({self.max_difference:g}); "
              f"{len(self.failures)} failures", flush=True)


def check_draws(report, row, seed, epoch):
    (top, left, height, width), is_fallback = reference_draws.crop(
        reference_draws.Rng(seed, epoch, row["sample"], 1), row["image_width"],
        row["image_height"])
    flip = reference_draws.flip(reference_draws.Rng(seed, epoch, row["sample"], 2))
    got = (row["top"], row["left"], row["height"], row["width"], row["flip"])
    if got != (top, left, height, width, flip):
        report.failures.append(f"{row['image']}: drew {got}")
    return is_fallback


def compare_train(program, images, seed, epoch, folder):
    report = Report()
    options = ("--seed", str(seed), "--epoch", str(epoch))
    rows = tensor(program, images, folder, *options, "--split", "3")
    ends = {row["sample"]: row for row in tensor(program, images, folder, *options)}
    num_fallback = 0
    for row in rows:
        num_fallback += check_draws(report, row, seed, epoch)
        with Image.open(row["image"]) as file:
            image = file.convert("RGB")
        if image.size != (row["image_width"], row["image_height"]):
            report.failures.append(f"{row['image']}: size")
        image = F.resized_crop(image, row["top"], row["left"], row["height"], row["width"],
                               [224, 224])
        if row["flip"]:
            image = F.hflip(image)
        report.compare_u8(row["image"], row["array"], image)
        report.compare_f32(row["image"], ends[row["sample"]]["array"], image)
    num_flips = sum(row["flip"] for row in rows)
    report.print(f"train, seed {seed}, epoch {epoch} ({num_flips} flips, {num_fallback} central "
                 "boxes)")
    return report


def compare_val(program, images, folder):
    report = Report()
    rows = tensor(program, images, folder, "--val", "--split", "3")
    ends = {row["sample"]: row for row in tensor(program, images, folder, "--val")}
    for row in rows:
        with Image.open(row["image"]) as file:
            image = F.center_crop(F.resize(file.convert("RGB"), 256), 224)
        report.compare_u8(row["image"], row["array"], image)
        report.compare_f32(row["image"], ends[row["sample"]]["array"], image)
    report.print("val")
    return report


def numbers(text):
    return [int(part) for part in text.split(",")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_dir")
    parser.add_argument("folder")
    parser.add_argument("--seeds", type=numbers, default=[0])
    parser.add_argument("--epochs", type=numbers, default=[0, 1, 2])
    parser.add_argument("--max", type=int, default=0, help="only the first N images")
    args = parser.parse_args()
    program = os.path.join(args.bin_dir, "offload_dataset")
    images = sorted(
        os.path.join(where, name) for where, _, names in os.walk(args.folder) for name in names
        if name.lower().endswith((".jpg", ".jpeg", ".png")))
    if not images:
        print(f"SKIPPED: no images under {args.folder}")
        sys.exit(77)

    with tempfile.TemporaryDirectory() as folder:
        if args.max:
            few = os.path.join(folder, "few")
            os.mkdir(few)
            for i, path in enumerate(images[:args.max]):
                os.symlink(os.path.abspath(path), os.path.join(few, f"{i:08}.jpg"))
            images, args.folder = images[:args.max], few
        num_images = len(images)
        out = os.path.join(folder, "out")
        reports = [compare_train(program, [args.folder], seed, epoch, out)
                   for seed in args.seeds for epoch in args.epochs]
        reports.append(compare_val(program, [args.folder], out))
    failures = [failure for report in reports for failure in report.failures]
    if any(report.num_u8 != num_images for report in reports):
        failures.append("some images are missing")
    for failure in failures[:20]:
        print(failure)
    print(f"{num_images} images, {'equal' if not failures else f'{len(failures)} failures'}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
