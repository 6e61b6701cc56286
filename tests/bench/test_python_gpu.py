#!/usr/bin/env python3
"""bench/python/gpu from one end to the other on a handful of images and the CPU: no times."""
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from programs import BIN, SynthTest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
SKIPPED = 77
TINY = ("--device", "cpu", "--models", "resnet18-f32", "--image-size", 32, "--batch", 4,
        "--rounds", 1, "--steps", 2, "-j", 1, "--prep-workers", 1)


def gpu(*arguments):
    return subprocess.run([sys.executable, BENCH / "python/gpu", "--bin", BIN,
                           *map(str, arguments)], capture_output=True, text=True, check=False)


class GpuTest(SynthTest):
    SYNTH = ("-n", 12, "--num-val", 0, "--classes", 2, "-j", 1, "--log-level", "warn")

    def test_a_row_has_its_columns(self):
        done = gpu(self.root, *TINY, "--repeat", 1, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        row, = map(json.loads, done.stdout.splitlines())
        self.assertEqual((row["name"], row["batches"]), ("resnet18-f32", 3))
        fed, step, loader = (row[f"{kind}_per_s"]["median"] for kind in ("fed", "step", "loader"))
        self.assertAlmostEqual(row["of_step"]["median"], fed / step)
        self.assertAlmostEqual(row["of_bound"]["median"], fed / min(step, loader))

    def test_an_epoch_of_one_batch_is_refused(self):
        done = gpu(self.root, *TINY, "--repeat", 1, "--batch", 8, "--mode", "local")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("--repeat", done.stderr)

    def test_what_cannot_be_imported_is_skipped(self):
        with tempfile.TemporaryDirectory() as empty:
            broken = pathlib.Path(empty, "sluice")
            broken.mkdir()
            (broken / "__init__.py").write_text("raise ImportError('not this one')\n")
            done = gpu(self.root, "--package", empty)
        self.assertEqual(done.returncode, SKIPPED, done.stderr)
        self.assertIn("not this one", done.stderr)


if __name__ == "__main__":
    for module in ("numpy", "torch", "torchvision"):
        if importlib.util.find_spec(module) is None:
            print(f"SKIPPED: python3-{module} is missing")
            sys.exit(SKIPPED)
    unittest.main()
