#!/usr/bin/env python3
"""bench/several_servers from one end to the other on a handful of images: fields, not times."""
import unittest

from benches import BenchTest
from programs import BIN
from sluice_bench import quota


class SeveralServersTest(BenchTest):
    SYNTH = ("-n", 64, "--num-val", 0, "--classes", 2, "-j", 1, "--log-level", "warn")
    PROGRAM, FLAGS = "several_servers", ("--bin", BIN)

    def test_each_case_is_told_of(self):
        cases = ["links", "kill", "rolling"] + ["cpu"] * quota.is_possible()
        found = self.rows(self.root, "--cases", ",".join(cases), "--repeats", 1, "--kills", 2, "--cores", 0.5,
                          "--rate", 100)
        self.assertEqual([one["case"] for one in found], cases)
        for one in found:
            self.assertTrue(one["is_exact"])
            for key in {"kill": ("median_s", "p99_s", "most_s"),
                        "rolling": ("seconds", "gaps_s")}.get(one["case"], ("ratio",)):
                for value in one[key] if isinstance(one[key], list) else [one[key]]:
                    self.assertGreaterEqual(value, 0, key)
            if one["case"] == "links":
                self.assertIn(one["kind"], ("netns", "link-limit"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
