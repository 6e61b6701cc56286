#!/usr/bin/env python3
"""bench/python/loop from one end to the other on a handful of images: fields, not times."""
import importlib.util
import sys
import unittest

from benches import SKIPPED, BenchTest
from programs import BIN


class LoopTest(BenchTest):
    PROGRAM, FLAGS = "python/loop", ("--bin", BIN, "-j", 1)

    def test_every_row_has_its_columns(self):
        rows = {row["name"]: row for row in self.rows(
            self.root, "--rounds", 1, "--batch", 4, "--repeat", 2, "--groups", 1, "--batches", 50)}
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
        rows = self.rows(self.root, "--rows", "rate", "--modes", "local", "--rounds", 1, "--batch", 4,
                         "--seconds", 0.5)
        self.assertEqual([row["name"] for row in rows], ["rate, local"])
        self.assertGreater(rows[0]["repeat"], 1)  # twelve small images take no half second

    def test_what_cannot_be_imported_is_skipped_and_what_fails_fails(self):
        self.check_a_broken_package_skips()


if __name__ == "__main__":
    if importlib.util.find_spec("numpy") is None:
        print("SKIPPED: python3-numpy is missing")
        sys.exit(SKIPPED)
    unittest.main()
