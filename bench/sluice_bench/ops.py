#!/usr/bin/python3
"""The ops of recipes beside Pillow's on an image of 224 x 224: thread CPU time of each, the least of the rounds.

usage: ops.py BENCH_OPS [--rounds N]        BENCH_OPS: build/release/bench/bench_ops
"""
import argparse
import json
import subprocess
import sys
import time

try:
    import numpy as np
    import PIL
    from PIL import Image, ImageEnhance, ImageFilter, ImageOps
except ImportError as error:
    print(f"SKIPPED: {error}", file=sys.stderr)
    sys.exit(77)


def photograph():
    """Smooth colours with a little noise."""
    y, x = np.mgrid[0:224, 0:224]
    noise = np.random.default_rng(1).integers(0, 24, (224, 224, 3))
    smooth = np.stack([120 + 90 * np.sin(x / 31 + c) * np.cos(y / (17 + 5 * c)) for c in range(3)], -1)
    return Image.fromarray((smooth + noise).clip(0, 255).astype(np.uint8))


def hue(image):
    h, s, v = image.convert("HSV").split()
    turned = Image.fromarray(np.asarray(h) + np.uint8(25), "L")
    return Image.merge("HSV", (turned, s, v)).convert("RGB")


def sheared(resample):
    return lambda image: image.transform(image.size, Image.AFFINE, (1, 0.2, 0, 0, 1, 0), resample)


OPS = {
    "invert": ImageOps.invert,
    "solarize=128": ImageOps.solarize,
    "posterize=4": lambda image: ImageOps.posterize(image, 4),
    "brightness=1.27": lambda image: ImageEnhance.Brightness(image).enhance(1.27),
    "contrast=1.27": lambda image: ImageEnhance.Contrast(image).enhance(1.27),
    "equalize": ImageOps.equalize,
    "autocontrast": ImageOps.autocontrast,
    "color=1.27": lambda image: ImageEnhance.Color(image).enhance(1.27),
    "sharpness=1.27": lambda image: ImageEnhance.Sharpness(image).enhance(1.27),
    "grayscale": lambda image: Image.merge("RGB", [image.convert("L")] * 3),
    "hue=0.1": hue,
    "pil_blur=1.3": lambda image: image.filter(ImageFilter.GaussianBlur(1.3)),
    "vflip": lambda image: image.transpose(Image.FLIP_TOP_BOTTOM),
    "shear_x=0.2": sheared(Image.NEAREST),
    "shear_x=0.2:filter=bilinear": sheared(Image.BILINEAR),
    "shear_x=0.2:filter=bicubic": sheared(Image.BICUBIC),
    "rotate=20": lambda image: image.rotate(20),
    "rotate=20:filter=bilinear": lambda image: image.rotate(20, Image.BILINEAR),
    "rotate=20:filter=bicubic": lambda image: image.rotate(20, Image.BICUBIC),
}


def least_us(function, image, rounds):
    times = []
    for _ in range(rounds):
        start = time.thread_time_ns()
        function(image)
        times.append(time.thread_time_ns() - start)
    return min(times) * 1e-3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=200)
    args = parser.parse_args()
    done = subprocess.run([args.program, "--json", "--rounds", str(args.rounds)], check=True, capture_output=True,
                          text=True)
    ours = {row["name"]: row["us"] for row in map(json.loads, done.stdout.splitlines())}
    image = photograph()
    print(f"Pillow {PIL.__version__}, us an image of 224 x 224")
    for name, function in OPS.items():
        theirs = least_us(function, image, args.rounds)
        print(f"{name:30} {ours[name]:8.1f} {theirs:8.1f}   {theirs / ours[name]:5.1f} times")


if __name__ == "__main__":
    main()
