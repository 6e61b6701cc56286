#!/usr/bin/env python3
"""bench/python/gpu from one end to the other on a handful of images and the CPU: no times."""
import importlib.util
import sys
import unittest

from benches import SKIPPED, BenchTest
from programs import BIN

TINY = ("--device", "cpu", "--models", "resnet18-f32", "--image-size", 32, "--batch", 4,
        "--rounds", 1, "--steps", 2, "-j", 1, "--prep-workers", 1)


class GpuTest(BenchTest):
    PROGRAM, FLAGS = "python/gpu", ("--bin", BIN)

    def test_a_row_has_its_columns(self):
        row, = self.rows(self.root, *TINY, "--repeat", 1)
        self.assertEqual((row["name"], row["batches"]), ("resnet18-f32", 3))
        fed, step, loader = (row[f"{kind}_per_s"]["median"] for kind in ("fed", "step", "loader"))
        self.assertAlmostEqual(row["of_step"]["median"], fed / step)
        self.assertAlmostEqual(row["of_bound"]["median"], fed / min(step, loader))

    def test_an_epoch_of_one_batch_is_refused(self):
        done = self.bench(self.root, *TINY, "--repeat", 1, "--batch", 8, "--mode", "local", code=1)
        self.assertIn("--repeat", done.stderr)

    def test_what_cannot_be_imported_is_skipped(self):
        self.check_a_broken_package_skips()


if __name__ == "__main__":
    for module in ("numpy", "torch", "torchvision"):
        if importlib.util.find_spec(module) is None:
            print(f"SKIPPED: python3-{module} is missing")
            sys.exit(SKIPPED)
    unittest.main()
