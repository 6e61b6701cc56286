#!/usr/bin/env python3
"""Boxes and keypoints against torchvision's v2 transforms of tv_tensors, which are given the same draws.

usage: compare_boxes_with_torchvision.py [--images N]      with the package `sluice` in PYTHONPATH

For each pipeline: random boxes of random images, by geometry=True and sluice.annotations.move_boxes(); and by
torchvision's functionals on PIL images, ClampBoundingBoxes and SanitizeBoundingBoxes.  A box may differ by 1e-3 of a
pixel.  Of iou_crop: RandomIoUCrop itself, with the op's random numbers; its crops must be the same.  Exit 0: all agree; 1: a difference; 77: skipped (no torchvision with v2, or no package).
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest.mock

try:
    import numpy
    import torch
    from PIL import Image
    from torchvision import tv_tensors
    from torchvision.transforms import v2
    from torchvision.transforms.v2 import functional as F
    import sluice
    import sluice.annotations
    import sluice.numpy
    import sluice.programs
    from reference_draws import Rng
except ImportError as error:
    print(f"SKIPPED: {error}")
    sys.exit(77)

END = ",resize=90x120,hflip"  # to one size
PIPELINES = (
    "decode,random_resized_crop=80x100:scale=0.2-1,hflip",
    "decode,resize=110,random_crop=96:padding=4,hflip",
    "decode,resize=120,center_crop=100,vflip:p=0.5",
    "decode,resize=80x96,hflip,pad=3/5/7/9",
    "decode,hflip,random_crop=100x90,vflip:p=0.5,random_resized_crop=64:scale=0.3-1",
    "decode,rotate=17" + END,
    "decode,rotate=-90:filter=bilinear" + END,
    "decode,affine=-25:translate_x=0.1:translate_y=-0.2:scale=1.3:shear_x=9:shear_y=-5" + END,
    "decode,perspective=0.5:filter=bilinear" + END,
)


def affine(box, size):
    height, width = size
    return F.affine(box, -25.0, [round(0.1 * width), round(-0.2 * height)], 1.3, [9.0, -5.0])


def apply(draws, box):
    """What torchvision makes of the boxes or keypoints."""
    for op in draws:
        name = op["op"]
        size = F.get_size(box)
        if "from" in op:
            at = op["from"]
            box = F.crop(box, at["top"], at["left"], at["height"], at["width"])
            if "to" in op:
                box = F.resize(box, op["to"][::-1])
            keep = op["keep"]
            box = F.crop(box, keep["top"], keep["left"], keep["height"], keep["width"])
            if "at" in op:
                (left, top), (width, height) = op["at"], op["size"]
                box = F.pad(box, [left, top, width - left - keep["width"], height - top - keep["height"]])
        elif name == "hflip":
            box = F.horizontal_flip(box) if op["mirrored"] else box
        elif name == "vflip":
            box = F.vertical_flip(box)
        elif name == "rotate":
            box = F.rotate(box, {True: -90.0, False: 17.0}[abs(op["matrix"][0]) < 1e-6])
        elif name == "affine":
            box = affine(box, size)
        elif name == "perspective":
            box = F.perspective(box, None, None, coefficients=op["matrix"])
        else:
            raise ValueError(name)
    return box


def random_boxes(rng, width, height):
    """Within the image, of all sizes, and each side on the edge now and then."""
    x, y = (numpy.sort(rng.uniform(0, side, (12, 2)) * rng.choice([0.05, 1], (12, 1)), axis=1)
            + rng.uniform(0, side / 2, (12, 1)) for side in (width, height))
    return numpy.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], axis=1).clip(0, [width, height] * 2).astype(numpy.float32)


def torchvision_crop(seed, sample, size, boxes):
    """RandomIoUCrop's crop of an image of (width, height), with the random numbers of op 1."""
    rng = Rng(seed, 0, sample, 1)
    if len(boxes) == 0 or rng.uniform() >= 1:  # of the op's p
        return None
    given = tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=size[::-1])
    with unittest.mock.patch("torch.rand", lambda n: torch.tensor([(rng.word() >> 8) * 2**-24 for _ in range(n)])), \
            unittest.mock.patch("torch.randint", lambda low, high, size: torch.tensor([rng.below(high)])):
        params = v2.RandomIoUCrop().make_params([given])
    return {name: params[name] for name in ("left", "top", "width", "height")} if params else None


def compare_iou_crop(num_images, rng):
    """(the number of crops, what is wrong)."""
    failures, num_cut = [], 0
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "class").mkdir()
        sizes = [tuple(rng.integers(30, 900, 2).tolist()) for _ in range(num_images)]
        boxes = [random_boxes(rng, *size)[:rng.integers(0, 12)] for size in sizes]
        for i, size in enumerate(sizes):
            Image.new("RGB", size).save(root / "class" / f"{i:04}.png")
        (root / "metadata.jsonl").write_text("\n".join(
            json.dumps({"file_name": f"class/{i:04}.png", "objects": {"boxes": of.tolist(), "labels": [0] * len(of)}})
            for i, of in enumerate(boxes)))
        subprocess.run([sluice.programs.find("offload_dataset"), "index", root, "--target", "objects:boxes"],
                       check=True, capture_output=True)
        for seed in range(5):
            with sluice.numpy.Loader(folder, 8, pipeline="decode,iou_crop,resize=8x8", seed=seed) as loader:
                for i, (draws, size, of) in enumerate(zip(loader.draws(range(num_images)), sizes, boxes)):
                    crop = torchvision_crop(seed, i, size, of)
                    num_cut += crop is not None
                    want = crop or {"left": 0, "top": 0, "width": size[0], "height": size[1]}
                    if draws[0]["from"] != want:
                        failures.append(f"iou_crop, seed {seed}, sample {i}: {draws[0]['from']}, not {want}")
    return num_cut, failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=40)
    num_images = parser.parse_args().images
    rng = numpy.random.default_rng(5)
    num_boxes = num_kept = 0
    worst = worst_point = 0.0
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "class"
        root.mkdir()
        sizes = [tuple(rng.integers(100, 400, 2).tolist()) for _ in range(num_images)]
        for i, size in enumerate(sizes):
            Image.new("RGB", size).save(root / f"{i:04}.png")
        for pipeline in PIPELINES:
            with sluice.numpy.Loader(folder, 8, pipeline=pipeline, val_pipeline=pipeline, shuffle=False, geometry=True,
                                     sample_ids=True, workers=1) as loader:
                for images, _, ids, geometry in loader:
                    size = images.shape[1:3]
                    indices = [int(pathlib.Path(loader.path(i)).stem) for i in ids]
                    given = [random_boxes(rng, *sizes[i]) for i in indices]
                    moved, kept, offsets = sluice.annotations.move_boxes(geometry, size,
                                                                         *sluice.annotations.ragged(given))
                    points = [boxes[:, None, :2] for boxes in given]
                    moved_points = sluice.annotations.move_keypoints(geometry, size, *sluice.annotations.ragged(points))
                    first = 0
                    for row, (i, sample, boxes) in enumerate(zip(indices, ids, given)):
                        draws = loader.draws([sample], sizes=[sizes[i]])[0]
                        canvas = sizes[i][::-1]
                        box = apply(draws, tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=canvas))
                        box = F.clamp_bounding_boxes(box)
                        want, mask = F.sanitize_bounding_boxes(box)
                        here = slice(offsets[row], offsets[row + 1])
                        name = f"{pipeline}, sample {sample}"
                        if (kept[here] - first).tolist() != mask.nonzero().ravel().tolist():
                            failures.append(f"{name}: kept {kept[here] - first}, not {mask.nonzero().ravel()}")
                        elif len(want):
                            off = numpy.abs(moved[here] - want.numpy()).max()
                            worst = max(worst, float(off))
                            if off > 1e-3:
                                failures.append(f"{name}: off by {off}")
                        if hasattr(tv_tensors, "KeyPoints") and not any(op["op"] in ("hflip", "vflip") for op in draws):
                            # Flipped keypoints of torchvision are those of pixels' numbers, one pixel further on; and it
                            # clamps those outside.
                            ours = moved_points[first:first + len(boxes), 0]
                            theirs = apply(draws, tv_tensors.KeyPoints(boxes[:, :2], canvas_size=canvas)).numpy()
                            inner = ((ours > 0.5) & (ours < numpy.array(size[::-1]) - 1.5)).all(axis=1)
                            if inner.any():
                                worst_point = max(worst_point, float(numpy.abs(ours - theirs)[inner].max()))
                        num_boxes += len(boxes)
                        num_kept += int(mask.sum())
                        first += len(boxes)
    num_crops, wrong = compare_iou_crop(5 * num_images, rng)
    failures += wrong
    if worst_point > 1e-3:
        failures.append(f"keypoints are off by {worst_point}")
    print(f"{num_boxes} boxes, of which {num_kept} are kept: greatest difference {worst:.2g} pixels; of keypoints "
          f"{worst_point:.2g}; {num_crops} crops of iou_crop; {len(failures)} failures", *failures[:10], sep="\n")
    return 1 if failures or not num_kept or not num_crops else 0


if __name__ == "__main__":
    sys.exit(main())
