#!/usr/bin/env python3
"""remote_auto over a link that changes: the plan follows, says why, and the digest stays."""
import collections
import re
import statistics
import subprocess
import unittest

import programs
from programs import BAD_DISK, BIN, Node, SynthTest, Train, slow_disk, train

LINK = BIN.parent / "bench/bench_link"
NUM_TRAIN = 40
WIDE, NARROW = 10000, 20  # Mbit/s
READ_US = 60000
TICK = re.compile(r"plan at [\d.]+ s, item \d+: .*; asked(.*)")
REPLAN = re.compile(r"re-plan \d+ at [\d.]+ s, before item \d+: (.+); the limit is (\w+); prices (.*); "
                    r"the rest takes ([\d.]+) s")


class Machines(Node):
    """A server that can be killed behind a link that can be changed."""

    def __init__(self, root, read_us=0):
        super().__init__(root, *(["--io-workers", 1] if read_us else []),
                         env=slow_disk(read_us) if read_us else None)
        self.link = subprocess.Popen([LINK, "--to", str(self.port), "--rate", str(WIDE)],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.linked = self.link.stdout.readline().split()[-1]

    def set_rate(self, mbit):
        self.link.stdin.write(f"rate {mbit}\n")
        self.link.stdin.flush()

    def close(self):
        super().close()
        self.link.stdin.close()
        self.link.wait()
        self.link.stdout.close()


class Run(Train):
    """Its log is read as it comes."""

    def __init__(self, machines, repeat, *flags):
        self.replans, self.asked = [], collections.Counter()
        # A trainer that leaves the cores in peace, so that a wide link leads to whole files.
        super().__init__("--dataset-mode", "remote_auto", "--host", machines.linked, "-b", 8, "-j",
                         2, "-p", 0, "--consume-rate", 60, "--remote-form", "jpeg_crop",
                         "--remote-cpus", 1, "--net-bw", 50000, "--repeat", repeat,
                         "--prefetch-bytes", "3m", "--log-level", "debug", *flags)

    def next(self):
        """What was asked for between two looks; None: the epoch is over."""
        for line in self.lines():
            replan, tick = REPLAN.search(line), TICK.search(line)
            if replan:
                self.replans.append(replan)
            if tick:
                asked = {name: int(n) for name, n in re.findall(r"(\S+@\d) (\d+)", tick[1])}
                self.asked.update(asked)
                return asked
        return None

    def until(self, is_right):
        while True:
            asked = self.next()
            if asked is None:
                raise AssertionError(f"the epoch ended before that:\n{self.log[-6000:]}")
            if is_right(asked):
                return asked

    def end(self):
        while self.next() is not None:
            pass
        return super().end()[0][0]


def is_of_files(asked):
    return asked.get("raw@0", 0) > 0.7 * sum(asked.values()) > 0


def is_of_cut_files(asked):
    return asked.get("jpeg_crop@0", 0) > 0.6 * sum(asked.values()) > 0


class ReplanTest(SynthTest):
    SYNTH = ("-n", NUM_TRAIN, "--num-val", 0, "--classes", 2, "-j", 1)

    def check(self, report, repeat):
        (local,), _ = train(self.root, "--dataset-mode", "local", "-b", 8, "-j", 2, "-p", 0,
                            "--repeat", repeat)
        self.assertEqual(report["digest"], local["digest"])
        self.assertEqual(report["samples"], repeat * NUM_TRAIN)
        self.assertEqual(report["errors"], 0)

    def test_files_then_cut_files(self):
        machines, repeat = self.enterContext(Machines(self.root)), 6
        run = Run(machines, repeat)
        run.until(is_of_files)
        num_before = len(run.replans)
        machines.set_rate(NARROW)
        run.until(lambda asked: is_of_cut_files(asked) and
                  run.asked["jpeg_crop@0"] > NUM_TRAIN / 2)
        self.assertGreater(len(run.replans), num_before)
        self.assertTrue(any("network " in replan[1] for replan in run.replans[num_before:]))
        machines.set_rate(WIDE)
        report = run.end()
        self.check(report, repeat)
        self.assertGreater(report["choices"]["raw@0"], NUM_TRAIN / 2)
        self.assertGreater(report["choices"]["jpeg_crop@0"], NUM_TRAIN / 2)
        self.assertEqual(report["replans"], len(run.replans))
        cpu = report["plan_cpu"]
        self.assertGreaterEqual(cpu["looks"], cpu["solves"] - 1)
        self.assertGreaterEqual(cpu["solves"], 1 + report["replans"])
        self.assertGreater(cpu["choice_us"], 0)
        self.assertTrue(0 < cpu["share"] < 1, cpu)

    @unittest.skipUnless(BAD_DISK, "no bad_disk was built")
    def test_a_slow_disk_is_the_limit(self):
        machines, repeat = self.enterContext(Machines(self.root, READ_US)), 2
        run = Run(machines, repeat, "--consume-rate", "1000")
        report = run.end()
        self.check(report, repeat)
        self.assertTrue(run.replans, run.log)
        self.assertEqual(run.replans[-1][2], "disk")
        files = sum(p.stat().st_size for p in self.root.rglob("*.jpg"))
        self.assertGreater(files, 0)
        # It is busy from beginning to end, with one read or two; how fast the machine lets it be
        # may differ from look to look, but not beyond what it can do.
        seen = repeat * files / report["seconds"]
        most = 2 * files / NUM_TRAIN / (READ_US * 1e-6)
        rates = [1e6 * float(rate) for rate in re.findall(r"plan at .*, disk ([\d.]+) MB/s", run.log)]
        self.assertGreater(statistics.median(rates), seen / 2)
        rounding = 0.05e6  # of the log
        for rate in (*(rate - rounding for rate in rates), report["rates"]["disk_bytes_per_s"]):
            self.assertLess(rate, 1.1 * most)
        self.assertEqual(max(report["stalls"], key=report["stalls"].get), "disk", report["stalls"])

    def test_a_server_that_is_gone_while_the_plan_changes(self):
        machines, repeat = self.enterContext(Machines(self.root)), 6
        run = Run(machines, repeat, "--retry-for", "60")
        run.until(is_of_files)
        machines.set_rate(NARROW)
        num_before = len(run.replans)
        run.until(lambda asked: len(run.replans) > num_before)
        machines.kill()
        machines.start()
        run.until(is_of_cut_files)
        machines.set_rate(WIDE)
        report = run.end()
        self.check(report, repeat)
        self.assertGreaterEqual(report["retries"], 1)

    def test_a_plan_that_is_to_stay(self):
        machines, repeat = self.enterContext(Machines(self.root)), 2
        run = Run(machines, repeat, "--no-replan")
        run.until(is_of_files)
        machines.set_rate(100 * NARROW)
        report = run.end()
        self.check(report, repeat)
        self.assertEqual((report["replans"], run.replans), (0, []))
        self.assertEqual(report["plan_cpu"]["solves"], 1)
        self.assertGreater(report["choices"]["raw@0"], 0.7 * repeat * NUM_TRAIN)

    def test_tables_without_a_model_give_the_speed(self):
        profile = self.path / "profile"
        programs.run("offload_profile", "run", self.root, "-o", profile)
        (profile / "cost_model.json").unlink()
        times = profile / "prep_times.csv"
        names, *lines = times.read_text().splitlines()
        machines, factors = self.enterContext(Machines(self.root)), []
        for slower in (1, 3):
            rows = [line.split(",") for line in lines]
            times.write_text("\n".join(
                [names] + [",".join([row[0]] + [f"{slower * float(cell):.9f}"
                                                for cell in row[1:]]) for row in rows]) + "\n")
            run = Run(machines, 1, "--profile-folder", profile, "--gpu-rate", "200",
                      "--pcie-bw", "1")
            run.end()
            factors.append(float(re.search(r"the usual costs, CPU times x([\d.]+)", run.log)[1]))
            # 224 x 224 x 3 bytes over 1 Mbit/s take far longer than anything else.
            self.assertRegex(run.log, r"the plan takes 48\.\d+ s and .* with pcie the limit")
        self.assertAlmostEqual(factors[1], 3 * factors[0], delta=0.03)


if __name__ == "__main__":
    unittest.main(verbosity=2)
