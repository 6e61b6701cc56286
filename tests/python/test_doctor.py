#!/usr/bin/env python3
"""sluice.doctor: what a loop waits for, what Sluice gives, and how near the forecast is to epochs
that were then run."""
import contextlib
import io
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

import support

support.require("numpy")

import numpy

import sluice
import sluice.numpy
from sluice import _forecast, _loop, _usage, doctor

BATCH = 8

SCRIPT = """
import os, signal, sys, torch
data = [(torch.zeros(3, 4, 4), i) for i in range(40)]
train = torch.utils.data.DataLoader(data, 8, num_workers=int(sys.argv[2]))
val = torch.utils.data.DataLoader(data[:4], 2)
assert __name__ == "__main__" and sys.argv[0] == __file__, sys.argv
for epoch in range(2):
    for step, (images, labels) in enumerate(train):
        if sys.argv[1] == "interrupt" and epoch == 1 and step == 2:
            os.kill(os.getpid(), signal.SIGINT)
            signal.pause()
    print("epoch", epoch, "images", sum(len(images) for images, _ in val))
if sys.argv[1] == "exit":
    sys.exit(7)
if sys.argv[1] == "raise":
    raise RuntimeError("a step went wrong")
"""


def batches(num, rows=BATCH):
    return [(numpy.full((rows, 2, 2, 3), i, numpy.uint8), numpy.arange(rows)) for i in range(num)]


def run(*arguments, env=None):
    return subprocess.run([sys.executable, "-m", "sluice.doctor", *map(str, arguments)],
                          capture_output=True, text=True, env=env)


def has(module):
    try:
        __import__(module)
    except ImportError:
        return False
    return True


class UsageTest(unittest.TestCase):
    def test_counts_the_cpu_of_this_process_and_of_children_that_ended(self):
        before = _usage.now()
        start = time.process_time()
        while time.process_time() < start + 0.2:
            pass
        burn = "import time\nwhile time.process_time() < 0.3: pass"
        nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
        subprocess.run([sys.executable, "-c", nested], check=True)
        used = _usage.now() - before
        self.assertGreaterEqual(used.own_cpu_s, 0.18)  # a tick is 10 ms
        self.assertGreaterEqual(used.child_cpu_s, 0.28)
        self.assertLess(used.own_cpu_s + used.child_cpu_s, 10)

    def test_counts_children_that_run(self):
        code = ("import time\nwhile time.process_time() < 0.2: pass\n"
                "print(flush=True)\ninput()")
        before = _usage.now()
        with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            used = _usage.now() - before
            child.communicate(b"\n")
        self.assertGreaterEqual(used.child_cpu_s, 0.18)

    def test_cores_are_those_that_may_be_used(self):
        allowed = os.sched_getaffinity(0)
        self.assertLessEqual(_usage.cores(), len(allowed))
        self.assertGreater(_usage.cores(), 0)
        try:
            os.sched_setaffinity(0, {min(allowed)})
            self.assertLessEqual(_usage.cores(), 1)
        finally:
            os.sched_setaffinity(0, allowed)


class QuotaTest(unittest.TestCase):
    """Of control groups, by the files that the kernel has of them."""

    def quotas(self, files):
        with unittest.mock.patch.object(_usage, "_text", lambda path: files.get(path, "")):
            return sorted(_usage._quotas())

    def test_version_2_of_every_group_above(self):
        self.assertEqual(self.quotas({
            "/proc/self/cgroup": "0::/a/b\n", "/sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
            "/sys/fs/cgroup/a/cpu.max": "150000 100000\n",
            "/sys/fs/cgroup/cpu.max": "800000 100000\n"}), [1.5, 8])

    def test_version_1(self):
        self.assertEqual(self.quotas({
            "/proc/self/cgroup": "4:memory:/a\n3:cpu,cpuacct:/a\n",
            "/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "50000\n",
            "/sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
            "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}), [0.5])

    def test_none(self):
        self.assertEqual(self.quotas({}), [])


class WatchTest(unittest.TestCase):
    def test_passes_on_the_loader_as_it_is(self):
        given = batches(5)
        watched = doctor.watch(given, quiet=True)
        self.assertEqual(len(watched), 5)
        self.assertEqual(watched.index(given[0]), 0)
        for got, expected in zip(list(watched), given, strict=True):
            self.assertIs(got, expected)
        found = watched.report().found
        self.assertEqual((found["samples"], found["batches"], found["epochs"]), (40, 5, 1))
        self.assertEqual(found["batch_size"], BATCH)

    def test_prints_a_report_after_each_epoch_and_where_it_is_left(self):
        for leave in (False, True):
            with contextlib.redirect_stderr(io.StringIO()) as said:
                for images, labels in doctor.watch(batches(5)):
                    if leave:
                        break
            self.assertIn("8 samples in" if leave else "40 samples in", said.getvalue())

    def test_an_error_of_the_loop_goes_on(self):
        with contextlib.redirect_stderr(io.StringIO()) as said, \
                self.assertRaisesRegex(KeyError, "step"):
            for _ in doctor.watch(batches(5)):
                raise KeyError("step")
        self.assertIn("Your loop", said.getvalue())

    def test_a_report_in_mid_epoch_ends_nothing(self):
        watched = doctor.watch(batches(6), quiet=True)
        for step, _ in enumerate(watched):
            if step == 2:
                early = watched.report().found
        found = watched.report().found
        self.assertEqual((early["batches"], found["batches"], found["epochs"]), (3, 6, 1))
        self.assertEqual((watched._timing.clock.steps, watched._timing.clock.waits), (6, 5))
        self.assertGreater(found["seconds"], early["seconds"])

    def test_the_first_rank_alone_prints(self):
        for rank, is_first in (("0", True), ("1", False)):
            with unittest.mock.patch.dict(os.environ, RANK=rank), \
                    contextlib.redirect_stderr(io.StringIO()) as said:
                list(doctor.watch(batches(3)))
            self.assertEqual("Your loop" in said.getvalue(), is_first)

    def test_an_empty_loader_has_no_report(self):
        watched = doctor.watch([])
        with self.assertRaisesRegex(sluice.InvalidError, "not iterated"):
            watched.report()
        self.assertEqual(list(watched), [])
        with self.assertRaisesRegex(sluice.InvalidError, "no batch"):
            watched.report()

    def test_finds_rows(self):
        rows = numpy.zeros((4, 3))
        for batch in (rows, (rows, 1), [{"x": rows}], {"x": (rows, rows)}):
            self.assertEqual(_loop._rows(batch), 4)
        for batch in ((), "text", ["text"], 7):
            self.assertIsNone(_loop._rows(batch))

    def test_a_gpu_that_idles_can_be_lent(self):
        watched = doctor.watch(batches(3), quiet=True)
        list(watched)
        report = watched.report()
        found = {"clock": "cuda", "limit": "reading", "wait": 0.38, "lends": False}
        for changes, is_told in (({}, True), ({"clock": "host"}, False), ({"limit": "step"}, False), ({"lends": True}, False)):
            report.found.update({**found, **changes})
            text = " ".join(report.lines())
            self.assertEqual("Your GPU idles 38 % of the time: lend it" in text, is_told, changes)
            self.assertNotIn("lend it", " ".join(report.lines(with_advice=False)))
        report.found.update(found)
        with unittest.mock.patch.dict(os.environ, {"WORLD_SIZE": "8"}):  # which cannot lend
            self.assertNotIn("lend it", " ".join(report.lines()))

    def test_tells_a_slow_loader_from_a_slow_step(self):
        def slow():
            for batch in batches(6):
                time.sleep(0.05)
                yield batch

        waits = doctor.watch(slow(), quiet=True)
        for _ in waits:
            pass
        steps = doctor.watch(batches(6), quiet=True)
        for _ in steps:
            time.sleep(0.05)
        self.assertGreaterEqual(waits.report().found["wait_s"], 0.05)
        self.assertGreaterEqual(steps.report().found["step_s"], 0.05)
        self.assertGreater(waits.report().found["wait"], steps.report().found["wait"])
        self.assertEqual(steps.report().found["clock"], "host")

    def test_the_limit_follows_from_what_was_measured(self):
        base = {"wait": 0.7, "own_cores": 0.2, "child_cores": 0.3, "machine_cores": 0.6,
                "cores": 4, "workers": 2, "stalls": None}
        for changes, limit in (
                ({}, "reading"), ({"wait": 0.05}, "step"), ({"child_cores": 3.4}, "compute CPU"),
                ({"machine_cores": 3.9}, "compute CPU"), ({"child_cores": 1.8}, "workers"),
                ({"own_cores": 0.95, "workers": 0}, "one thread"),
                ({"own_cores": 0.95, "workers": None}, "one thread"),
                ({"own_cores": 1.5, "workers": None}, "reading"),
                ({"stalls": {"network": 0.2, "disk": 0.1, "trainer": 0.3}}, "network"),
                ({"stalls": {"network": 0.2, "gpu": 0.4, "trainer": 0.3}}, "GPU decoder"),
                ({"own_cores": 0.3, "workers": 0}, "reading")):
            self.assertEqual(doctor.Report._limit({**base, **changes})[0], limit, changes)


class ClockTest(unittest.TestCase):
    """Its arithmetic, with events whose times are given.  On a device: the test below."""

    def clock(self, times):
        synchronized = []

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                self.time = times.pop(0)

            def query(self):
                return is_over

            def synchronize(self):
                synchronized.append(self.time)

            def elapsed_time(self, later):
                return later.time - self.time  # ms

        is_over = False
        return _loop._Clock("cuda", Event), synchronized

    def test_waits_are_what_lies_between_steps(self):
        clock, _ = self.clock([0, 30, 100, 130, 131, 161])
        for _ in range(3):
            clock.begin()
            clock.end()
        clock.leave()
        self.assertEqual((clock.steps, clock.waits), (3, 2))
        self.assertAlmostEqual(clock.step_s, 0.090)
        self.assertAlmostEqual(clock.wait_s, 0.071)

    def test_no_step_is_waited_for_but_one_long_past(self):
        clock, synchronized = self.clock(list(range(1000)))
        for _ in range(_loop._PENDING):
            clock.begin()
            clock.end()
        self.assertEqual(synchronized, [])
        clock.begin()
        clock.end()
        self.assertEqual(synchronized, [1])  # the end of the first

    def test_on_a_device(self):
        if not has("torch") or not sys.modules["torch"].cuda.is_available():
            self.skipTest("no CUDA device")
        torch = sys.modules["torch"]
        matrix = torch.rand(2048, 2048, device="cuda")
        watched = doctor.watch(batches(20), quiet=True)
        for _ in watched:
            for _ in range(20):
                matrix = torch.nn.functional.normalize(matrix @ matrix)
        found = watched.report().found
        self.assertEqual(found["clock"], "cuda")
        self.assertGreater(found["step_s"], found["wait_s"])


@unittest.skipUnless(has("torch"), "python3-torch is missing")
class ScriptTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.script = pathlib.Path(folder.name, "train.py")
        self.script.write_text(SCRIPT)

    def test_reports_on_the_loader_that_gave_most_samples(self):
        done = run("--json", "--script", self.script, "", 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[:2], ["epoch 0 images 4", "epoch 1 images 4"])
        loop = json.loads(lines[2])["loop"]
        self.assertEqual((loop["samples"], loop["batches"], loop["epochs"]), (80, 10, 2))
        self.assertEqual((loop["workers"], loop["clock"]), (2, "host"))

    def test_exit_codes_and_errors_are_those_of_the_script(self):
        for how, status in (("exit", 7), ("raise", 1), ("interrupt", 130)):
            done = run("--script", self.script, how, 0)
            self.assertEqual(done.returncode, status, done.stderr)
            samples = 40 + 24 if how == "interrupt" else 80
            self.assertIn(f"{samples} samples in", done.stderr)
            self.assertEqual("a step went wrong" in done.stderr, how == "raise")

    def test_refuses_in_words(self):
        self.script.write_text("pass")
        for words, arguments in (("no batch from a torch.utils.data.DataLoader", [self.script]),
                                 ("No such file", ["/no/such.py"])):
            done = run("--script", *arguments)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)
            self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(run("--script").returncode, 2)


class ForecastTest(support.SetTest):
    """On a server whose link and cores are limited."""

    def epoch(self, address, mode):
        """The second, as the first one begins with measuring the link."""
        with sluice.numpy.Loader(address, BATCH, mode=mode) as loader:
            for _ in range(2):
                self.assertEqual(sum(len(labels) for _, labels in loader), support.NUM_TRAIN)
            return loader.stats()

    def test_is_near_what_epochs_then_give(self):
        with support.Server(self.root, "--link-limit", "100mbit", "--prep-workers", 1) as server:
            done = run(server.address, "--batch-size", BATCH, "--seconds", 4, "--step-ms", 10,
                       "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout)
            found = result["sluice"]
            epochs = {mode: self.epoch(server.address, mode)
                      for mode in ("remote_auto", "remote_nooff", "remote_piloff", "remote_alloff")}

        self.assertEqual(result["step_samples_per_s"], BATCH * 100)
        self.assertEqual(found["machines"]["storage_cpus"], 1)
        self.assertEqual(found["origins"]["net_bw"], "measured")
        self.assertTrue(0 < found["machines"]["net_bw"] < 150, found["machines"])
        forecast = {run["mode"]: run for run in found["forecast"]}
        for mode, epoch in epochs.items():
            ratios = {key: epoch[key] / forecast[mode][key]
                      for key in ("bytes_per_sample", "samples_per_s")}
            print(f"{mode}: epoch over forecast: bytes x{ratios['bytes_per_sample']:.3f}, "
                  f"samples/s x{ratios['samples_per_s']:.3f}")
            # Files and pixels have known sizes.  What remote_auto asks for depends on what else this
            # machine does.
            if mode == "remote_auto":
                self.assertLess(epoch["bytes_per_sample"], epochs["remote_alloff"]["bytes_per_sample"])
            else:
                self.assertAlmostEqual(ratios["bytes_per_sample"], 1, delta=0.1)
        # Floats fill the link whatever else this machine does.
        self.assertEqual((forecast["remote_alloff"]["bound_by"], epochs["remote_alloff"]["bound_by"]),
                         ("network", "network"))
        # The doctor measures as many samples as fit into its time, so their files are larger or smaller than the
        # mean; and a busy server sends files instead of pixels.
        files = [path.stat().st_size for path in pathlib.Path(self.root).rglob("*") if path.is_file()]
        most = max(epochs["remote_alloff"]["bytes_per_sample"], *files)
        for measured in found["measured"]:
            least, largest = (min(files), max(files)) if measured["mode"] == "remote_nooff" else (1, most)
            self.assertGreaterEqual(measured["bytes_per_sample"], least)
            self.assertLess(measured["bytes_per_sample"], 1.1 * largest)
            self.assertEqual(measured["errors"], 0)
        best = forecast["remote_auto"]["samples_per_s"]
        self.assertEqual(best, max(run["samples_per_s"] for run in forecast.values()))
        self.assertGreaterEqual(found["twice"]["net_bw"], 0.99 * best)

    def test_a_loader_of_sluice_says_itself_what_limits_it(self):
        with support.Server(self.root, "--link-limit", "50mbit") as server, \
                sluice.numpy.Loader(server.address, BATCH, mode="remote_nooff") as loader:
            watched = doctor.watch(loader, quiet=True)
            for _ in watched:
                pass
            report = watched.report()
            stalls = report.found["stalls"]
            self.assertEqual(stalls, loader.stats()["stalls"])
            # The network, unless other programs keep the server's CPU busy.
            waits = {"disk": "disk", "network": "network", "storage_cpu": "storage CPU", "compute_cpu": "compute CPU"}
            limit = waits[max(waits, key=stalls.get)]
            self.assertEqual(report.found["limit"], limit)
            self.assertIn(f"The {limit} limits it", report.verdict())

    def test_machines_that_are_given_are_forecast_for(self):
        done = run(self.root, "--batch-size", BATCH, "--seconds", 1, "--net-bw", 50,
                   "--storage-cpus", 2, "--compute-cpus", 16, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)["sluice"]
        self.assertEqual(found["machines"],
                         {"net_bw": 50, "storage_cpus": 2, "compute_cpus": 16})
        self.assertEqual(set(found["origins"].values()), {"given"})
        nooff = next(run for run in found["forecast"] if run["mode"] == "remote_nooff")
        self.assertEqual(nooff["bound_by"], "network")
        self.assertAlmostEqual(nooff["samples_per_s"] * nooff["bytes_per_sample"] * 8 / 50e6, 1,
                               delta=0.01)

    def test_says_it_on_80_columns(self):
        done = run(self.root, "--batch-size", BATCH, "--seconds", 1, "--step-ms", 40)
        self.assertEqual(done.returncode, 0, done.stderr)
        *text, last = done.stdout.splitlines()
        self.assertIn("samples/s", done.stdout)
        self.assertRegex(done.stdout, "(?m)^local +[0-9]")
        self.assertTrue("sluice.torch.Loader(" in last or "offload_server --root" in last, last)
        self.assertEqual([line for line in text if len(line) > 79], [])

    def test_without_programs_it_measures_and_says_what_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(pathlib.Path(sluice.__file__).parent, folder + "/site/sluice")
            done = run(self.root, "--batch-size", BATCH, "--seconds", 1,
                       env=dict(os.environ, PYTHONPATH=folder + "/site", PATH=""))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("No forecast: no program 'offload_profile'", done.stdout)
        self.assertRegex(done.stdout, "(?m)^local +[0-9]")


class DiskTest(unittest.TestCase):
    def test_is_as_it_was_in_the_epochs(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "cost_model.json")
            for rates, disk in ((None, {"sample": 0.002, "file_byte": 0}),
                                ({"disk_bytes_per_s": 4e6}, {"sample": 0, "file_byte": 2.5e-7}),
                                ({"disk_bytes_per_s": None}, {"sample": 0, "file_byte": 0})):
                path.write_text('{"samples": 5, "disk": {"sample": 9, "file_byte": 9}}')
                _forecast._set_disk(folder, {"stalls": {"disk": 0.2}, "samples_per_s": 100,
                                             "rates": rates})
                self.assertEqual(json.loads(path.read_text()), {"samples": 5, "disk": disk})

    def test_a_forecast_far_from_what_was_measured_says_so(self):
        measured = {"remote_auto": {"samples_per_s": 100}, "remote_nooff": {"samples_per_s": 50}}
        for nooff, words in ((52, "^$"), (150, "For remote_nooff it is 3 times"),
                             (25, "For remote_nooff it is 0.5 times")):
            forecasts = {"remote_auto": {"samples_per_s": 101},
                         "remote_nooff": {"samples_per_s": nooff},
                         "remote_piloff": {"samples_per_s": 1}}
            self.assertRegex(doctor._doubt(measured, forecasts), words)


class AdviceTest(unittest.TestCase):
    def advise(self, mode, rate, remote, step_rate=None, loop_rate=None, twice=None):
        found = {"source": "h:1" if mode != "local" else "/data", "batch_size": 32,
                 "measured": [{"mode": mode, "samples_per_s": rate, "bound_by": "network",
                               "stalls": {"network": 0.9}, "machine_cores": 1, "own_cores": 1,
                               "cores": 2}],
                 "forecast": [{"mode": "remote_auto", "samples_per_s": remote}],
                 "twice": twice or {}}
        loop = {"samples_per_s": loop_rate, "clock": "cuda"} if loop_rate else None
        said, todo = doctor._advise(found, step_rate, loop)
        return " ".join(said), todo

    def test_follows_from_step_and_rates(self):
        said, (_, line) = self.advise("remote_auto", 1240, 1300, step_rate=1000, loop_rate=310)
        self.assertIn("Your loop: 310 samples/s (measured). Sluice from h:1: 1,240", said)
        self.assertIn("your step is the limit (1 ms a sample, 1,000 samples/s)", said)
        self.assertEqual(line, 'loader = sluice.torch.Loader("h:1", 32, device="cuda")')

        said, _ = self.advise("remote_auto", 400, 410, step_rate=1000,
                              twice={"net_bw": 800, "storage_cpus": 410})
        self.assertIn("60 % of the time waiting for data", said)
        self.assertIn("twice the network: forecast 800 samples/s", said)

    def test_a_folder_is_served_where_that_is_worth_it(self):
        self.assertIn("offload_server --root /data", self.advise("local", 500, 900)[1][1])
        for others in (dict(remote=550), dict(remote=900, step_rate=450)):
            self.assertIn("sluice.torch.Loader", self.advise("local", 500, **others)[1][1])

    def test_a_loop_that_gains_nothing_stays(self):
        self.assertIn("keep your loader", self.advise("remote_auto", 320, 320, loop_rate=310)[1][0])


class ErrorTest(unittest.TestCase):
    def test_are_words(self):
        with socket.socket() as port:  # that nobody listens on
            port.bind(("127.0.0.1", 0))
            closed = f"127.0.0.1:{port.getsockname()[1]}"
            for source in (closed, "/no/such/folder", "nothing here"):
                done = run(source)
                self.assertEqual(done.returncode, 1, source)
                self.assertIn("sluice.doctor: ", done.stderr)
                self.assertIn(source, done.stderr)
                self.assertNotIn("Traceback", done.stderr)

    def test_a_command_line_that_makes_no_sense(self):
        for words, arguments in (
                ("name a SOURCE", []), ("--batch-size", ["/data", "--batch-size", 0]),
                ("--step-ms", ["/data", "--step-ms", "nan"]),
                ("not allowed with", ["/data", "--step-ms", 1, "--samples-per-s", 5])):
            done = run(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(words, done.stderr)

    def test_ctrl_c_ends_it(self):
        with socket.socket() as port:
            port.bind(("127.0.0.1", 0))
            port.listen()
            with subprocess.Popen([sys.executable, "-m", "sluice.doctor",
                                   f"127.0.0.1:{port.getsockname()[1]}"],
                                  stderr=subprocess.PIPE, text=True) as process:
                connection, _ = port.accept()  # it has begun
                process.send_signal(signal.SIGINT)
                self.assertNotIn("Traceback", process.communicate()[1])
                connection.close()
            self.assertEqual(process.returncode, 130)


if __name__ == "__main__":
    support.main()
