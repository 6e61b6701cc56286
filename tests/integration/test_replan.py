#!/usr/bin/env python3
"""remote_auto over a link that changes: the plan follows, says why, and the digest stays."""
import collections
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import unittest

from programs import BAD_DISK, Port, slow_disk

BIN = pathlib.Path(os.environ.get("SLUICE_BIN", "build/dev/bin")).resolve()
LINK = BIN.parent / "bench/bench_link"
NUM_TRAIN = 40
WIDE, NARROW = 10000, 20  # Mbit/s
READ_US = 60000
TICK = re.compile(r"plan at [\d.]+ s, item \d+: .*; asked(.*)")
REPLAN = re.compile(r"re-plan \d+ at [\d.]+ s, before item \d+: (.+); the limit is (\w+); prices (.*); "
                    r"the rest takes ([\d.]+) s")


class Machines:
    """A server that can be killed behind a link that can be changed."""

    def __init__(self, root, read_us=0):
        self.root, self.port = root, Port()
        self.flags = ["--io-workers", "1"] if read_us else []
        self.env = slow_disk(read_us) if read_us else None
        self.start()
        self.link = subprocess.Popen([LINK, "--to", str(self.port), "--rate", str(WIDE)],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.link.stdout.readline().split()[-1]

    def start(self):
        self.server = subprocess.Popen(
            [BIN / "offload_server", "--root", self.root, "--listen", f"127.0.0.1:{self.port}",
             "--prep-workers", "1", "--grpc-workers", "1", *self.flags], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=self.env)
        line = self.server.stdout.readline()
        assert line.startswith("listening on "), line

    def kill(self):
        self.server.kill()
        self.server.communicate()

    def set_rate(self, mbit):
        self.link.stdin.write(f"rate {mbit}\n")
        self.link.stdin.flush()

    def close(self):
        self.kill()
        self.link.stdin.close()
        self.link.wait()
        self.link.stdout.close()
        self.port.close()


class Run:
    """offload_train, whose log is read as it comes."""

    def __init__(self, machines, repeat, *flags):
        self.replans, self.lines, self.asked = [], [], collections.Counter()
        # A trainer that leaves the cores in peace, so that a wide link leads to whole files.
        self.process = subprocess.Popen(
            [BIN / "offload_train", "--dataset-mode", "remote_auto", "--host", machines.address,
             "--device", "none", "--json", "-b", "8", "-j", "2", "-p", "0", "--consume-rate", "60",
             "--remote-form", "jpeg_crop", "--remote-cpus", "1", "--net-bw", "50000",
             "--repeat", str(repeat),
             "--prefetch-bytes", "3m", "--log-level", "debug", *flags],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def next(self):
        """What was asked for between two looks; None: the epoch is over."""
        for line in self.process.stderr:
            self.lines.append(line)
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
                raise AssertionError("the epoch ended before that:\n" + "".join(self.lines[-60:]))
            if is_right(asked):
                return asked

    def end(self):
        while self.next() is not None:
            pass
        out = self.process.stdout.read()
        self.process.stdout.close()
        self.process.stderr.close()
        if self.process.wait() != 0 or "Sanitizer" in "".join(self.lines):
            raise AssertionError("".join(self.lines[-60:]))
        return json.loads(out)


def is_of_files(asked):
    return asked.get("raw@0", 0) > 0.7 * sum(asked.values()) > 0


def is_of_cut_files(asked):
    return asked.get("jpeg_crop@0", 0) > 0.6 * sum(asked.values()) > 0


class ReplanTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name, "set")
        subprocess.run([BIN / "offload_dataset", "synth", cls.root, "-n", str(NUM_TRAIN),
                        "--num-val", "0", "--classes", "2", "-j", "1"], check=True,
                       capture_output=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def check(self, report, repeat):
        local = subprocess.run(
            [BIN / "offload_train", self.root, "--dataset-mode", "local", "--device", "none",
             "--json", "-b", "8", "-j", "2", "-p", "0", "--repeat", str(repeat)],
            check=True, capture_output=True, text=True)
        self.assertEqual(report["digest"], json.loads(local.stdout)["digest"])
        self.assertEqual(report["samples"], repeat * NUM_TRAIN)
        self.assertEqual(report["errors"], 0)

    def test_files_then_cut_files(self):
        machines, repeat = Machines(self.root), 6
        try:
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
        finally:
            machines.close()
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
        machines, repeat = Machines(self.root, read_us=READ_US), 2
        try:
            run = Run(machines, repeat, "--consume-rate", "1000")
            report = run.end()
        finally:
            machines.close()
        self.check(report, repeat)
        log = "".join(run.lines)
        self.assertTrue(run.replans, log)
        self.assertEqual(run.replans[-1][2], "disk")
        files = sum(p.stat().st_size for p in self.root.rglob("*.jpg"))
        self.assertGreater(files, 0)
        # It is busy from beginning to end, with one read or two; how fast the machine lets it be
        # may differ from look to look, but not beyond what it can do.
        seen = repeat * files / report["seconds"]
        most = 2 * files / NUM_TRAIN / (READ_US * 1e-6)
        rates = [1e6 * float(rate) for rate in re.findall(r"plan at .*, disk ([\d.]+) MB/s", log)]
        self.assertGreater(statistics.median(rates), seen / 2)
        rounding = 0.05e6  # of the log
        for rate in (*(rate - rounding for rate in rates), report["rates"]["disk_bytes_per_s"]):
            self.assertLess(rate, 1.1 * most)
        self.assertEqual(max(report["stalls"], key=report["stalls"].get), "disk", report["stalls"])

    def test_a_server_that_is_gone_while_the_plan_changes(self):
        machines, repeat = Machines(self.root), 6
        try:
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
        finally:
            machines.close()
        self.check(report, repeat)
        self.assertGreaterEqual(report["retries"], 1)

    def test_a_plan_that_is_to_stay(self):
        machines, repeat = Machines(self.root), 2
        try:
            run = Run(machines, repeat, "--no-replan")
            run.until(is_of_files)
            machines.set_rate(100 * NARROW)
            report = run.end()
        finally:
            machines.close()
        self.check(report, repeat)
        self.assertEqual((report["replans"], run.replans), (0, []))
        self.assertEqual(report["plan_cpu"]["solves"], 1)
        self.assertGreater(report["choices"]["raw@0"], 0.7 * repeat * NUM_TRAIN)

    def test_tables_without_a_model_give_the_speed(self):
        profile = pathlib.Path(self.folder.name, "profile")
        subprocess.run([BIN / "offload_profile", "run", self.root, "-o", profile], check=True,
                       capture_output=True)
        (profile / "cost_model.json").unlink()
        times = profile / "prep_times.csv"
        names, *lines = times.read_text().splitlines()
        machines, factors = Machines(self.root), []
        try:
            for slower in (1, 3):
                rows = [line.split(",") for line in lines]
                times.write_text("\n".join(
                    [names] + [",".join([row[0]] + [f"{slower * float(cell):.9f}"
                                                    for cell in row[1:]]) for row in rows]) + "\n")
                run = Run(machines, 1, "--profile-folder", str(profile), "--gpu-rate", "200",
                          "--pcie-bw", "1")
                run.end()
                log = "".join(run.lines)
                factors.append(float(re.search(r"the usual costs, CPU times x([\d.]+)", log)[1]))
                # 224 x 224 x 3 bytes over 1 Mbit/s take far longer than anything else.
                self.assertRegex(log, r"the plan takes 48\.\d+ s and .* with pcie the limit")
        finally:
            machines.close()
        self.assertAlmostEqual(factors[1], 3 * factors[0], delta=0.03)


if __name__ == "__main__":
    unittest.main(verbosity=2)
