#!/usr/bin/python3
"""Decodes and resizes real images with Sluice and with Pillow; every byte must agree.

usage: compare_images_with_pillow.py IMAGE_TOOL DIR...
Exit 77 (skipped) without Pillow and numpy, or if no DIR exists.
"""

import os
import random
import subprocess
import sys

try:
    import numpy as np
    from PIL import Image
except ImportError as error:
    print(f"SKIPPED: {error}")
    sys.exit(77)


class Tool:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        head = self.process.stdout.readline().decode().strip()
        if not head.startswith("ok "):
            return head
        width, height = map(int, head.split()[1:])
        pixels = self.process.stdout.read(width * height * 3)
        return np.frombuffer(pixels, np.uint8).reshape(height, width, 3)


def agree(got, wanted):
    return not isinstance(got, str) and np.array_equal(got, np.asarray(wanted))


def main():
    tool = Tool(sys.argv[1])
    folders = [folder for folder in sys.argv[2:] if os.path.isdir(folder)]
    if not folders:
        print("SKIPPED: no folder of images")
        sys.exit(77)
    rng = random.Random(1)
    num_images = num_resizes = 0
    failures = []
    for folder in folders:
        files = sorted(
            os.path.join(where, name) for where, _, names in os.walk(folder) for name in names
            if name.lower().endswith((".jpg", ".jpeg", ".png")))
        for path in files:
            num_images += 1
            with Image.open(path) as image:
                image = image.convert("RGB")
            got = tool.ask(f"decode {path}")
            if not agree(got, image):
                failures.append(f"decode {path}: {got if isinstance(got, str) else 'differs'}")
                continue
            for _ in range(2):
                width, height = rng.randint(1, image.width), rng.randint(1, image.height)
                left = rng.randint(0, image.width - width)
                top = rng.randint(0, image.height - height)
                size = rng.choice([(224, 224), (256, 256),
                                   (rng.randint(1, 300), rng.randint(1, 300))])
                flip = rng.randint(0, 1)
                wanted = image.crop((left, top, left + width, top + height)).resize(
                    size, Image.BILINEAR)
                if flip:
                    wanted = wanted.transpose(Image.FLIP_LEFT_RIGHT)
                line = f"resize {left} {top} {width} {height} {size[0]} {size[1]} {flip} {path}"
                num_resizes += 1
                got = tool.ask(line)
                if not agree(got, wanted):
                    failures.append(f"{line}: {got if isinstance(got, str) else 'differs'}")
    print("\n".join(failures))
    print(f"{num_images} images, {num_resizes} resizes, {len(failures)} differences")
    sys.exit(1 if failures or not num_images else 0)


main()
