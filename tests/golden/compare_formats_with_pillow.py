#!/usr/bin/python3
"""Decodes the files of make_format_goldens.py, whole and damaged, with Sluice and with Pillow.

usage: compare_formats_with_pillow.py IMAGE_TOOL [--per-file N] [--seed S] [--only TEXT]
Where both give pixels, every byte must agree.  Where only one does, the file is counted, and those
that Sluice alone takes are a failure, but for TIFFs with damage: Pillow reads their tags itself and
leaves the rest to libtiff.  Exit 77 (skipped) without Pillow and numpy.
"""

import argparse
import io
import logging
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy as np
    from PIL import Image

    import make_format_goldens
except ImportError as error:
    print(f"SKIPPED: {error}")
    sys.exit(77)


class Tool:
    def __init__(self, path, folder):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.file = pathlib.Path(folder, "file")

    def decode(self, data):
        """The pixels, or the tool's line of an error."""
        self.file.write_bytes(data)
        self.process.stdin.write(f"decode {self.file}\n".encode())
        self.process.stdin.flush()
        head = self.process.stdout.readline().decode().strip()
        if not head.startswith("ok "):
            assert head.startswith("error "), head
            return head
        width, height = map(int, head.split()[1:])
        pixels = self.process.stdout.read(width * height * 3)
        return np.frombuffer(pixels, np.uint8).reshape(height, width, 3)


def by_pillow(data):
    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.width * image.height > 1 << 22:
                return None
            return np.asarray(image.convert("RGB"))
    except Exception as error:  # Pillow raises what it likes, from struct.error to SystemError
        return f"{type(error).__name__}: {error}"


def damaged(rng, data):
    data = bytearray(data)
    if rng.random() < 0.15:
        return bytes(data[:rng.randrange(len(data))])
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        # Headers are where the decisions are.
        where = rng.randrange(min(len(data), 120)) if rng.random() < 0.6 else rng.randrange(len(data))
        data[where] = rng.choice((rng.randrange(256), data[where] ^ 1 << rng.randrange(8), 0, 255))
    return bytes(data)


def silence_libtiff():
    """It writes what it finds wrong to this process's standard error, from Pillow."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--per-file", type=int, default=20)
    parser.add_argument("--seed", type=int, default=20240708)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    silence_libtiff()
    counts = {"both": 0, "neither": 0, "Pillow alone": 0, "differs": 0, "Sluice alone": 0,
              "TIFF that Sluice alone takes": 0}
    shown = 0
    with tempfile.TemporaryDirectory(prefix="sluice-formats-") as folder:
        tool = Tool(args.tool, folder)
        for maker in make_format_goldens.MAKERS:
            for name, whole in maker():
                if args.only not in name:
                    continue
                rng = random.Random(f"{args.seed} {name}")
                for i in range(args.per_file + 1):
                    data = damaged(rng, whole) if i else whole
                    wanted = by_pillow(data)
                    if wanted is None:
                        continue
                    got = tool.decode(data)
                    if not isinstance(got, str) and not isinstance(wanted, str):
                        outcome = "both" if np.array_equal(got, wanted) else "differs"
                    elif isinstance(got, str):
                        outcome = "neither" if isinstance(wanted, str) else "Pillow alone"
                        if "this build is without" in got:
                            break
                    else:
                        outcome = "TIFF that Sluice alone takes" if i and ".tif" in name else "Sluice alone"
                    counts[outcome] += 1
                    if (outcome in ("differs", "Sluice alone") or
                            (outcome == "Pillow alone" and i == 0 and
                             not name.startswith("unread_"))) and shown < 40:
                        shown += 1
                        print(f"{name} {i}: {outcome}; Sluice: {got if isinstance(got, str) else 'pixels'}"
                              f"; Pillow: {wanted if isinstance(wanted, str) else wanted.shape}")
    print(f"seed {args.seed}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    sys.exit(1 if counts["differs"] or counts["Sluice alone"] or not counts["both"] else 0)


if __name__ == "__main__":
    main()
