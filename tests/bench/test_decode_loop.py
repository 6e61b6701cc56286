#!/usr/bin/env python3
"""bench/gpu/decode_loop from one end to the other on a handful of images, the GPU's kernels run by
the CPU: no times."""
import unittest

from benches import BenchTest
from programs import BIN, reports

TINY = ("--models", "none", "--image-size", 32, "--batch", 4, "--rounds", 1, "--seconds", 0.05,
        "--warm-seconds", 0.01, "--workers", 1, "--prep-workers", 1, "--json")


class DecodeLoopTest(BenchTest):
    PROGRAM, FLAGS = "gpu/decode_loop", ("--bin", BIN)

    def loop(self, *flags, code=0):
        return self.bench(self.root, *TINY, *flags, code=code, env={"SLUICE_GPU": "host"})

    def test_rows_have_their_columns(self):
        out = self.path / "rows"
        done = self.loop("--parts", "digests,host", "--out", out)
        self.assertEqual(out.read_text(), done.stdout)
        rows = reports(done.stdout)
        self.assertEqual([row["part"] for row in rows], ["digests"] * 8 + ["host"] * 8)
        self.assertEqual(len({row["digest"] for row in rows[:8]}), 1)
        for row in rows[:8]:
            is_used = {variant: any(choice.endswith("+gpu") for choice in choices)
                       for variant, choices in row["choices"].items()}
            self.assertFalse(is_used["off"])
            if row["mode"] != "remote_auto":  # that one may choose pixels
                self.assertTrue(is_used["on"])
        for row in rows[8:]:
            on, off = (row["per_s"][variant]["median"] for variant in ("on", "off"))
            self.assertAlmostEqual(row["ratio"], on / off)
            self.assertAlmostEqual(row["us"] * on, 1e6)
            self.assertGreater(row["runs"]["on"]["cpu_us"], 0)
            self.assertEqual(row["runs"]["off"]["gpu_share"], 0)

    def test_a_failure_is_a_row_and_the_rest_is_measured(self):
        done = self.loop("--parts", "cells", "--links", "fast,1gbit", "--cell-workers", 1,
                         "--cell-prep-workers", 1, code=1)
        bad, good = reports(done.stdout)
        self.assertIn("offload_server", bad["error"])
        self.assertGreater(good["per_s"]["on"]["median"], 0)

    def test_no_point_begins_when_the_time_is_over(self):
        done = self.loop("--parts", "host", "--max-seconds", 0)
        self.assertEqual(done.stdout, "")
        self.assertIn("8 of 8 points of host are left out", done.stderr)


if __name__ == "__main__":
    unittest.main()
