#!/usr/bin/python3
"""A detection recipe with boxes, from the file to u8 tensors: sluice.torch beside torchvision's v2 transforms on PIL images.

usage: detection.py FOLDER [--rounds N] [--boxes N]        PYTHONPATH: build/release/python; FOLDER: JPEGs in class folders

The shorter side becomes 800, the longer at most 1333; half of the images are flipped; each has N random boxes, which follow, are
clipped and filtered.  CPU time of the process on one core, in us a sample: the median of the rounds, which take turns.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import PIL
    import torch
    import torchvision
    from PIL import Image
    from torchvision import tv_tensors
    from torchvision.transforms import v2
except ImportError as error:
    print(f"SKIPPED: {error}", file=sys.stderr)
    sys.exit(77)

import sluice.torch
from sluice import programs

PIPELINE = "decode,resize=800:max=1333,hflip"
TRANSFORM = v2.Compose([v2.Resize(800, max_size=1333), v2.RandomHorizontalFlip(), v2.ClampBoundingBoxes(),
                        v2.SanitizeBoundingBoxes(), v2.PILToTensor()])


def boxes_of(path, num, rng):
    """num boxes within the image, [x1, y1, x2, y2, class] each."""
    width, height = Image.open(path).size

    def span(size):
        start = rng.uniform(0, size - 2)
        return start, rng.uniform(start + 1, size)

    spans = [(span(width), span(height)) for _ in range(num)]
    return [[x1, y1, x2, y2, rng.randrange(90)] for (x1, x2), (y1, y2) in spans]


def index(folder, paths, boxes):
    """A dataset of copies of the images, with a field of boxes."""
    with open(folder / "metadata.jsonl", "w") as table:
        for i, path in enumerate(paths):
            shutil.copy(path, folder / f"{i:05}.jpg")
            table.write(json.dumps({"file_name": f"{i:05}.jpg", "label": 0, "boxes": boxes[i]}) + "\n")
    subprocess.run([programs.find("offload_dataset"), "index", folder, "--target", "boxes:boxes"], check=True,
                   stdout=subprocess.DEVNULL)


def theirs(paths, boxes):
    start = time.process_time()
    for path, of in zip(paths, boxes):
        with Image.open(path) as file:
            image = file.convert("RGB")
        TRANSFORM({"image": image,
                   "boxes": tv_tensors.BoundingBoxes(torch.tensor([box[:4] for box in of]), format="XYXY",
                                                     canvas_size=(image.height, image.width)),
                   "labels": torch.tensor([box[4] for box in of])})
    return (time.process_time() - start) / len(paths)


def ours(loader):
    start = time.process_time()
    num = sum(len(labels) for _, labels, *_ in loader)
    return (time.process_time() - start) / num


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--boxes", type=int, default=8)
    args = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    torch.set_num_threads(1)
    paths = sorted(path for path in args.folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    rng = random.Random(0)
    boxes = [boxes_of(path, args.boxes, rng) for path in paths]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        index(folder, paths, boxes)
        with sluice.torch.Loader(name, 8, pipeline=PIPELINE, fields=["boxes"], geometry=True, workers=1, digest=False) as loader:
            ours(loader)
            rounds = [(theirs(paths, boxes), ours(loader)) for _ in range(args.rounds)]
    a, b = (statistics.median(column) * 1e6 for column in zip(*rounds))
    print(f"{len(paths)} JPEGs; torchvision {torchvision.__version__}, Pillow {PIL.__version__}, torch {torch.__version__}")
    print(f"theirs {a:.0f} us, ours {b:.0f} us, ratio {a / b:.2f}")


if __name__ == "__main__":
    main()
