#!/usr/bin/env python3
"""bench/shared_machine on a handful of images: fields, not rates."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
BIN = pathlib.Path(os.environ["SLUICE_BIN"])


class SharedMachineTest(unittest.TestCase):
    def run_bench(self, *flags):
        return subprocess.run([sys.executable, BENCH / "shared_machine", self.images, "--bin", BIN, "--json", "--repeats",
                               "1", "--repeat", "1", "--epochs", "2", *flags], capture_output=True, text=True, check=False)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.images = pathlib.Path(folder.name, "images")
        subprocess.run([BIN / "offload_dataset", "synth", self.images, "-n", "24", "--num-val", "0", "--classes", "2",
                        "-j", "1", "--log-level", "warn"], check=True)

    def test_each_choice_is_compared_with_the_best_fixed_one(self):
        done = self.run_bench("--choices", "files,pixels,remote_auto", "--", "-b", "8")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = {one["choice"]: one for one in map(json.loads, done.stdout.splitlines())}
        self.assertEqual(list(found), ["files", "pixels", "remote_auto"])
        best = max(found[name]["samples_per_s"] for name in ("files", "pixels"))
        for one in found.values():
            self.assertGreater(one["samples_per_s"], 0)
            self.assertAlmostEqual(one["over_best_fixed"], one["samples_per_s"] / best)

    def test_refuses_choices_that_compare_nothing(self):
        for choices in ("remote_auto", "files", "files,remote_auto,nothing"):
            done = self.run_bench("--choices", choices)
            self.assertEqual(done.returncode, 1)
            self.assertIn("--choices", done.stderr)


if __name__ == "__main__":
    unittest.main()
