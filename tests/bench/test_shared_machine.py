#!/usr/bin/env python3
"""bench/shared_machine on a handful of images: fields, not rates."""
import unittest

from benches import BenchTest
from programs import BIN, reports


class SharedMachineTest(BenchTest):
    SYNTH = ("-n", 24, "--num-val", 0, "--classes", 2, "-j", 1, "--log-level", "warn")
    PROGRAM, FLAGS = "shared_machine", ("--bin", BIN, "--repeats", 1, "--repeat", 1, "--epochs", 2)

    def test_each_choice_is_compared_with_the_best_fixed_one(self):
        rows = reports(self.bench(self.root, "--json", "--choices", "files,pixels,remote_auto", "--", "-b", 8).stdout)
        found = {one["choice"]: one for one in rows}
        self.assertEqual(list(found), ["files", "pixels", "remote_auto"])
        best = max(found[name]["samples_per_s"] for name in ("files", "pixels"))
        for one in found.values():
            self.assertGreater(one["samples_per_s"], 0)
            self.assertAlmostEqual(one["over_best_fixed"], one["samples_per_s"] / best)

    def test_refuses_choices_that_compare_nothing(self):
        for choices in ("remote_auto", "files", "files,remote_auto,nothing"):
            done = self.bench(self.root, "--json", "--choices", choices, code=1)
            self.assertIn("--choices", done.stderr)


if __name__ == "__main__":
    unittest.main()
