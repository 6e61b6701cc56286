#!/usr/bin/python3
"""Makes tests/golden/pipeline: what torchvision does to small images, and what is drawn.

usage: make_pipeline_goldens.py FOLDER

  *.png       the inputs (lossless, so that no decoder has a say)
  cases.txt   one case a line:
                image FILE PIPELINE SEED EPOCH SAMPLE OFFSET LENGTH   u8 pixels in expected.bin
                table PIPELINE OFFSET                                 3 x 256 float32 there
                draw PIPELINE SEED EPOCH SAMPLE WIDTH HEIGHT TOP LEFT CROP_HEIGHT CROP_WIDTH FLIP
  expected.bin

Boxes and flips come from reference_draws.py, pixels and floats from torchvision's
functional transforms on PIL images.  Needs torchvision, Pillow and numpy.
"""

import os
import random
import sys

import numpy as np
import torchvision.transforms.functional as F
from PIL import Image

import reference_draws
from reference_draws import Rng

SIZES = [(1, 1), (17, 9), (3, 60), (33, 20), (20, 41)]


def make_image(width, height, seed):
    rng = np.random.RandomState(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = np.stack([128 + 100 * np.sin(x / (3.0 + c) + y / (5.0 - c) + seed) for c in range(3)],
                     axis=2)
    return Image.fromarray(np.clip(waves + rng.randint(-20, 21, waves.shape), 0, 255)
                           .astype(np.uint8))


class Golden:
    def __init__(self, folder):
        self.folder, self.lines, self.bytes = folder, [], b""

    def add(self, line, data):
        self.lines.append(line.format(offset=len(self.bytes), length=len(data)))
        self.bytes += data

    def image(self, file, spec, key, image):
        seed, epoch, sample = key
        self.add(f"image {file} {spec} {seed} {epoch} {sample} {{offset}} {{length}}",
                 np.asarray(image).tobytes())

    def write(self):
        with open(os.path.join(self.folder, "cases.txt"), "w") as file:
            file.write("\n".join(self.lines) + "\n")
        with open(os.path.join(self.folder, "expected.bin"), "wb") as file:
            file.write(self.bytes)


def add_images(golden):
    for i, (width, height) in enumerate(SIZES):
        file = f"{width}x{height}.png"
        image = make_image(width, height, i)
        image.save(os.path.join(golden.folder, file))
        for epoch in range(2):
            key = (2**40 + 5, epoch, i)
            box, _ = reference_draws.crop(Rng(*key, 1), width, height)
            cropped = F.resized_crop(image, *box, [12, 12])
            if reference_draws.flip(Rng(*key, 2)):
                cropped = F.hflip(cropped)
            golden.image(file, "decode,random_resized_crop=12,hflip", key, cropped)
        for shorter, size in ((14, 12), (10, 13), (9, 9)):
            golden.image(file, f"decode,resize={shorter},center_crop={size}", (0, 0, 0),
                         F.center_crop(F.resize(image, shorter), size))
        for size in (1, 2, 11, 16, 24):
            golden.image(file, f"decode,center_crop={size}", (0, 0, 0),
                         F.center_crop(image, size))


def add_tables(golden):
    ramp = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2)
    tensor = F.to_tensor(Image.fromarray(ramp))
    golden.add("table decode,to_tensor {offset}", tensor.numpy().tobytes())
    for text, mean, std in (
            ("imagenet", [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
            ("0.5:0.1:0/0.5:0.3333:1", [0.5, 0.1, 0], [0.5, 0.3333, 1])):
        golden.add(f"table decode,to_tensor,normalize={text} {{offset}}",
                   F.normalize(tensor, mean, std).numpy().tobytes())


def add_draws(golden):
    rng = random.Random(1)
    shapes = [(500, 375), (375, 500), (3, 500), (500, 3), (1, 1), (17, 9), (2048, 1536), (65535, 2)]
    for i in range(160):
        width, height = shapes[i % len(shapes)]
        key = (rng.choice([0, 1, rng.getrandbits(64)]), rng.choice([0, 89, 2**32 - 1]),
               rng.choice([i, rng.getrandbits(64)]))
        if i % 2:
            spec, scale, ratio = "decode,random_resized_crop=8,hflip", (0.08, 1.0), (3 / 4, 4 / 3)
            probability = 0.5
        else:
            spec = "decode,random_resized_crop=8:scale=0.3-0.9:ratio=1/2-5/4,hflip=0.2"
            scale, ratio, probability = (0.3, 0.9), (1 / 2, 5 / 4), 0.2
        box, _ = reference_draws.crop(Rng(*key, 1), width, height, scale, ratio)
        flip = reference_draws.flip(Rng(*key, 2), probability)
        golden.lines.append(" ".join(map(str, ("draw", spec, *key, width, height, *box,
                                               int(flip)))))


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    golden = Golden(sys.argv[1])
    add_images(golden)
    add_tables(golden)
    add_draws(golden)
    golden.write()
    print(f"{len(golden.lines)} cases, {len(golden.bytes)} bytes")


if __name__ == "__main__":
    main()
