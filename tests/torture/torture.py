"""What the tests in this folder share: made images, our programs run as a user runs them.

A test here is a unittest program: `if __name__ == "__main__": torture.main()`.  Its short form takes
seconds; the environment's SLUICE_TORTURE=long asks for the long form (scripts/torture).
"""
import os
import subprocess
import sys
import unittest

import harness  # noqa: F401
from harness import SEED, make_images, photo, skip, temporary_folder  # noqa: F401
from programs import BAD_DISK, BIN, Port, Server, Train, bad_disk, reports  # noqa: F401

IS_LONG = os.environ.get("SLUICE_TORTURE") == "long"
TIMEOUT_S = 120  # of every program: a hang is a failure with a name


def rounds(short, long):
    """How many rounds: of the short form or the long one."""
    return long if IS_LONG else short


def make_dataset(name, count=40, size=96):
    """A folder of `count` JPEGs in two classes, made here; its path."""
    import random

    from PIL import Image
    root = temporary_folder(name)
    rng = random.Random(7)
    for label in ("cat", "dog"):
        folder = root / "train" / label
        folder.mkdir(parents=True)
        for i in range(count // 2):
            picture = Image.fromarray(photo(size + rng.randint(0, 40), size, rng))
            picture.save(folder / f"{i:04d}.jpg", quality=85)
    return root


def bad_server(root, *rules, flags=()):
    """offload_server on a disk that keeps these rules (tests/preload/bad_disk.c)."""
    return Server(root, *flags, env=bad_disk(*rules))


def train(*flags, env=None, check=True):
    """Runs offload_train without a device: the reports of its epochs, and the finished process."""
    run = Train(*flags, env=env)
    epochs, log = run.end(0 if check else None)
    return epochs, subprocess.CompletedProcess(run.process.args, run.process.returncode, stderr=log)


def main():
    program = unittest.main(exit=False, verbosity=2)
    sys.exit(0 if program.result.wasSuccessful() else 1)
