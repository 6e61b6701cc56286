#!/usr/bin/env python3
"""bench/lend: its statistics and its page, and from one end to the other with tiny models on the CPU: no times."""
import contextlib
import importlib.util
import io
import json
import math
import pathlib
import shutil
import statistics
import tempfile
import unittest

from benches import BenchTest
from programs import BIN

from sluice_bench import lend, lend_page

HAS_TORCH = all(importlib.util.find_spec(name) for name in ("torch", "torchvision"))
CALL = "2026-01-02T03:04:05Z"


def requests(part, case, ms, u=None, **more):
    return {"call": CALL, "part": part, "case": case, "kind": "small", "u": u, "graph": False, "ms": ms, "wrong": 0,
            **more}


def measured(**changed):
    """Rows as a call writes them; `changed` is of the gate at u = 0.6."""
    trained = {"train_per_s": 7200.0, "fed_per_s": 7200.0, "seconds": 1.0}
    at_1 = {"train_per_s": 11000.0, "fed_per_s": None, "alone_per_s": 12000.0, "seconds": 1.2}
    return [
        requests("ready", "ready", [3.0] * 100),
        requests("gate", "time-slicing", [6.0] * 100, 0.6, **trained),
        requests("gate", "gate", [3.2] * 94 + [4.5] * 6, 0.6, **{**trained, **changed}),
        requests("gate", "time-slicing", [7.0] * 100, 1, **at_1),
        requests("gate", "gate", [3.3] * 40, 1, **at_1),
        {"call": CALL, "part": "unused", "case": "unused", "graph": False, "with": [99.0, 98.0, 101.0],
         "without": [100.0, 100.0, 100.0], "points": 40},
        {"call": CALL, "part": "machine", "case": "machine", "cpu": "a CPU", "cpus": 16, "device": "a <GPU>",
         "torch": "2", "points": 40, "command": []},
    ]


def verdict(rows, what):
    return next(entry for entry in lend_page.verdicts(lend_page.Rows(rows)) if entry[0] == what)


class StatisticsTest(unittest.TestCase):
    def test_arrivals_are_those_of_a_poisson_process(self):
        times = lend_page.arrivals(1, 4000, 20)
        self.assertEqual(times, lend_page.arrivals(1, 4000, 20))
        self.assertNotEqual(times, lend_page.arrivals(2, 4000, 20))
        gaps = [b - a for a, b in zip(times, times[1:])]
        # The mean and the deviation of an exponential distribution are equal.
        self.assertAlmostEqual(statistics.mean(gaps) * 20, 1, delta=0.06)
        self.assertAlmostEqual(statistics.stdev(gaps) * 20, 1, delta=0.1)
        self.assertEqual(lend_page.arrivals(None, 3, 2), [0, 0.5, 1])

    def test_quantiles_lie_between_the_values(self):
        self.assertEqual(lend_page.quantile([4, 1, 3, 2], 0), 1)
        self.assertEqual(lend_page.quantile([4, 1, 3, 2], 0.5), 2.5)
        self.assertEqual(lend_page.quantile([4, 1, 3, 2], 1), 4)
        self.assertAlmostEqual(lend_page.quantile(range(101), 0.95), 95)

    def test_a_rate_counts_whole_intervals(self):
        times = [number / 10 for number in range(100)]
        self.assertAlmostEqual(lend_page.rate_within(times, 1.07, 3.93), 10)
        self.assertIsNone(lend_page.rate_within(times, 1.01, 1.12))

    def test_what_training_lost_is_of_each_request(self):
        row = measured()[4]
        self.assertAlmostEqual(lend_page.lost_ms(row), 1200 * (1 - 11 / 12) / 40)
        self.assertIsNone(lend_page.lost_ms(measured()[2]))  # not at u = 1

    def test_a_row_is_compared_with_its_own_call(self):
        other = [{**row, "call": "2025"} for row in measured()]
        other[0]["ms"] = [1.0] * 100
        rows = lend_page.Rows(other + measured())
        gate = rows.last(part="gate", case="gate", u=0.6)
        self.assertAlmostEqual(rows.over_ready(gate, 0.5), 3.2 / 3)
        self.assertAlmostEqual(rows.over_slicing(gate, 0.95), 4.5 / 6)


class VerdictsTest(unittest.TestCase):
    def test_each_figure_is_met_or_not(self):
        for what, is_met in (("u = 0.6: p50 over ready", True), ("u = 0.6: p50 over time-slicing", True),
                             ("u = 0.6: p95 over time-slicing", False), ("u = 0.6: training's rate", True),
                             ("u = 1: training's ms lost a request, over ready", True),
                             ("a gate that nobody uses, u = 1: with over without", True),
                             ("answers that are not the idle GPU's", True)):
            with self.subTest(what):
                _, sign, goal, got = verdict(measured(), what)
                self.assertEqual(lend_page.is_met(sign, goal, got), is_met)

    def test_a_slower_training_and_a_wrong_answer_are_seen(self):
        rows = measured(train_per_s=7000.0, wrong=1)
        for what, got in (("u = 0.6: training's rate", 7000 / 7200), ("answers that are not the idle GPU's", 1)):
            _, sign, goal, came = verdict(rows, what)
            self.assertAlmostEqual(came, got)
            self.assertFalse(lend_page.is_met(sign, goal, came))

    def test_a_digest_that_differs_is_seen(self):
        epochs = [{"samples": 10, "seconds": 1, "digest": "a"}] * 3
        loaded = [{"call": CALL, "part": "loader", "case": case, "kind": "small", "model": "alexnet", "ms": ms,
                   "wrong": 0, "epochs": list(epochs)} for case, ms in (("plain", None), ("lent", [3.0] * 9))]
        what = "offload_train, alexnet: epochs whose digest differs"
        self.assertEqual(verdict(measured() + loaded, what)[3], 0)
        loaded[1]["epochs"][2] = {"samples": 10, "seconds": 1, "digest": "b"}
        self.assertEqual(verdict(measured() + loaded, what)[3], 1)

    def test_what_was_not_measured_is_neither(self):
        for what, sign, goal, got in lend_page.verdicts(lend_page.Rows(measured()[-1:])):
            self.assertIsNone(lend_page.is_met(sign, goal, got), what)


class PageTest(BenchTest):
    PROGRAM = "lend"

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)

    def test_a_page_of_several_calls(self):
        rows = measured()
        (self.out / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:3]) + '{"call": "cut sh')
        (self.out / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[3:]))
        done = self.bench("--out", self.out, "--page")
        self.assertIn("PASS  u = 0.6: p50 over ready: goal <= 1.15, measured 1.067", done.stdout)
        self.assertIn("below u = 0.6: p95 over time-slicing", done.stdout)
        self.assertIn("-     a job of 84 ms, u = 1: p50 over ready: goal <= 1.05, not measured", done.stdout)
        page = (self.out / "index.html").read_text()
        self.assertIn("a &lt;GPU&gt;", page)
        self.assertEqual("<svg" in page, shutil.which("gnuplot") is not None)
        lines = (self.out / "lend.csv").read_text().splitlines()
        self.assertEqual(len(lines), 1 + 5)
        self.assertEqual(lines[0].split(","), list(lend_page.CSV_FIELDS))

    def test_a_folder_without_rows(self):
        done = self.bench("--out", self.out, "--page", code=1)
        self.assertIn("has no rows", done.stderr)


class OptionsTest(unittest.TestCase):
    def refused(self, *words):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit):
            lend.parse(["--out", "x", *words])
        return said.getvalue()

    def test_bad_ones_are_named(self):
        self.assertIn("nonsense", self.refused("--parts", "gate,nonsense"))
        self.assertIn("vgg16", self.refused("--links", "vgg16=1gbit"))
        self.assertIn("alexnet", self.refused("--links", "alexnet"))
        self.assertIn("above 0", self.refused("--num", "0"))

    def test_cpus_are_split(self):
        own, trainer, borrower = lend.split_cpus(list(range(16)))
        self.assertEqual((len(own), len(trainer), len(borrower)), (1, 11, 4))
        self.assertEqual(own | trainer | borrower, set(range(16)))
        self.assertEqual(lend.split_cpus([0, 1]), [{0, 1}] * 3)


@unittest.skipUnless(HAS_TORCH, "python3-torch or python3-torchvision is missing")
class DryTest(BenchTest):
    PROGRAM, FLAGS = "lend", ("--bin", BIN, "--dry")

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)

    def measured(self, *flags, code=0):
        done = self.bench("--out", self.out, *flags, code=code)
        rows = lend_page.read(self.out)
        self.assertEqual([line for line in done.stdout.splitlines()], [lend_page.line_of(row) for row in rows])
        return rows

    def test_every_part(self):
        rows = self.measured("--parts", ",".join(lend.PARTS), "--images", self.root)
        self.assertEqual([row["part"] for row in rows if row["case"] == "done"], list(lend.PARTS))
        for row in rows:
            self.assertEqual(row.get("wrong", 0), 0, row)
            for took in row.get("ms") or []:
                self.assertTrue(0 < took < math.inf)
            if row["case"] == "gate" and row["part"] != "restart":
                self.assertGreater(row["points"], 1)
                self.assertEqual(row["lent"]["taken_back"], 0)
                self.assertGreaterEqual(row["lent"]["requests"], len(row["ms"]))
            if row["case"] == "time-slicing":
                self.assertEqual((row["points"], row["lent"]["requests"]), (0, 0))
        found = lend_page.verdicts(lend_page.Rows(rows))
        # How many steps and requests a short time has is a matter of the machine.
        self.assertEqual([what for what, _, _, got in found if got is None and
                          "training" not in what and "offload_train" not in what], [])
        self.assertEqual([got for what, _, _, got in found if "digest" in what], [0, 0])

    def test_a_part_that_fails_is_a_row_and_the_rest_is_measured(self):
        rows = self.measured("--parts", "loader,unused", code=1)
        self.assertIn("--images", next(row["why"] for row in rows if row["case"] == "failed"))
        self.assertEqual([row["part"] for row in rows if row["case"] == "done"], ["unused"])

    def test_nothing_goes_on_when_the_time_is_over(self):
        done = self.bench("--out", self.out, "--max-seconds", 0.5, code=1)
        self.assertIn("not done after 0.5 s", done.stderr)


if __name__ == "__main__":
    unittest.main()
