"""What the tests in this folder share: made images, our programs run as a user runs them.

A test here is a unittest program: `if __name__ == "__main__": torture.main()`.  Its short form takes
seconds; the environment's SLUICE_TORTURE=long asks for the long form (scripts/torture).
"""
import json
import os
import subprocess
import sys
import unittest

import harness  # noqa: F401
from harness import BIN, SEED, Server, make_images, photo, skip, temporary_folder  # noqa: F401
from programs import BAD_DISK, Port, bad_disk  # noqa: F401

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


def reports(text):
    """The epochs that a program's --json wrote."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


class BadServer(Server):
    """offload_server on a disk that keeps these rules (tests/preload/bad_disk.c)."""

    def __init__(self, root, *rules, flags=()):
        saved = dict(os.environ)
        os.environ.update(bad_disk(*rules))
        try:
            super().__init__(root, *flags)
        finally:
            os.environ.clear()
            os.environ.update(saved)

    def kill(self):
        """For one that may hang."""
        self.process.kill()
        self.process.communicate()
        self.log.close()


def train(*flags, env=None, timeout=TIMEOUT_S, check=True):
    """Runs offload_train --json without a device; its epochs as dicts, and the finished process."""
    done = subprocess.run(
        [str(BIN / "offload_train"), "--json", "--device", "none", *map(str, flags)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, timeout=timeout)
    if check and done.returncode != 0:
        raise AssertionError(f"offload_train ended with {done.returncode}: {done.stderr[-3000:]}")
    return reports(done.stdout), done


def main():
    program = unittest.main(exit=False, verbosity=2)
    sys.exit(0 if program.result.wasSuccessful() else 1)
