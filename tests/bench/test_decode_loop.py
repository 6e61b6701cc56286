#!/usr/bin/env python3
"""bench/gpu/decode_loop from one end to the other on a handful of images, the GPU's kernels run by
the CPU: no times."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

from programs import BIN, SynthTest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
TINY = ("--models", "none", "--image-size", 32, "--batch", 4, "--rounds", 1, "--seconds", 0.05,
        "--warm-seconds", 0.01, "--workers", 1, "--prep-workers", 1, "--json")


def decode_loop(*arguments):
    return subprocess.run([sys.executable, BENCH / "gpu/decode_loop", "--bin", BIN,
                           *map(str, arguments)], capture_output=True, text=True, check=False,
                          env={**os.environ, "SLUICE_GPU": "host"})


class DecodeLoopTest(SynthTest):
    SYNTH = ("-n", 12, "--num-val", 0, "--classes", 2, "-j", 1, "--log-level", "warn")

    def test_rows_have_their_columns(self):
        out = pathlib.Path(self.folder.name, "rows")
        done = decode_loop(self.root, *TINY, "--parts", "digests,host", "--out", out)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(out.read_text(), done.stdout)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
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
        done = decode_loop(self.root, *TINY, "--parts", "cells", "--links", "fast,1gbit",
                           "--cell-workers", 1, "--cell-prep-workers", 1)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        bad, good = map(json.loads, done.stdout.splitlines())
        self.assertIn("offload_server", bad["error"])
        self.assertGreater(good["per_s"]["on"]["median"], 0)

    def test_no_point_begins_when_the_time_is_over(self):
        done = decode_loop(self.root, *TINY, "--parts", "host", "--max-seconds", 0)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertIn("8 of 8 points of host are left out", done.stderr)


if __name__ == "__main__":
    unittest.main()
