#!/usr/bin/env python3
"""bench/python/loop from one end to the other on a handful of images: fields, not times."""
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


def loop(*arguments):
    return subprocess.run([sys.executable, BENCH / "python/loop", "--bin", BIN, "-j", "1",
                           *map(str, arguments)], capture_output=True, text=True, check=False)


class LoopTest(SynthTest):
    SYNTH = ("-n", 12, "--num-val", 0, "--classes", 2, "-j", 1, "--log-level", "warn")

    def test_every_row_has_its_columns(self):
        done = loop(self.root, "--rounds", 1, "--batch", 4, "--repeat", 2, "--groups", 1,
                    "--batches", 50, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}
        for mode in ("local", "remote_nooff", "remote_auto", "remote_auto_fixed"):
            row = rows.pop(f"rate, {mode}")
            self.assertEqual(row["rounds"], 1)
            self.assertAlmostEqual(row["ratio"], row["samples_per_s"]["median"]
                                   / row["offload_train_per_s"]["median"])
            self.assertGreater(row["inside_per_s"]["median"], 0)
            self.assertEqual(row["repeat"], 2)
            self.assertGreater(row["epoch_s"]["min"], 0)
        arrays = {name.split(", ")[1] for name in rows}
        self.assertIn("numpy", arrays)
        self.assertEqual(set(rows), {f"{kind}, {array}" for kind in ("ready", "memory")
                                     for array in arrays})
        for array in arrays:
            ready, memory = rows[f"ready, {array}"], rows[f"memory, {array}"]
            self.assertEqual((ready["batches"], memory["batches"]), (16, 50))
            self.assertGreater(ready["loop_cpu_us"], 0)
            self.assertGreater(ready["next_cpu_us"], 0)
            self.assertLess(0, memory["first"])
            self.assertLessEqual(max(memory["first"], memory["last"]), memory["max"])
            self.assertIsNotNone(memory["slope"])

    def test_images_repeat_until_an_epoch_takes_long_enough(self):
        done = loop(self.root, "--rows", "rate", "--modes", "local", "--rounds", 1, "--batch", 4,
                    "--seconds", 0.5, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([row["name"] for row in rows], ["rate, local"])
        self.assertGreater(rows[0]["repeat"], 1)  # twelve small images take no half second

    def test_what_cannot_be_imported_is_skipped_and_what_fails_fails(self):
        with tempfile.TemporaryDirectory() as empty:
            broken = pathlib.Path(empty, "sluice")
            broken.mkdir()
            (broken / "__init__.py").write_text("raise ImportError('not this one')\n")
            done = loop(self.root, "--package", empty)
        self.assertEqual(done.returncode, SKIPPED, done.stderr)
        self.assertIn("not this one", done.stderr)


if __name__ == "__main__":
    if importlib.util.find_spec("numpy") is None:
        print("SKIPPED: python3-numpy is missing")
        sys.exit(SKIPPED)
    unittest.main()
