#!/usr/bin/env python3
"""offload_train --gpus: one process for each rank, with signals, failures and output as of one; and steps of ranks
whose batches have no good row."""
import csv
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest
import urllib.request

from programs import BIN, TIMEOUT_S, SynthTest, Train, reports, run, train

NUM_TRAIN = 24


def children(pid):
    return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def handles_signals(pid):
    caught, = re.findall(r"SigCgt:\s*(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text())
    return bool(int(caught, 16) >> (signal.SIGUSR1 - 1) & 1)


class RanksTest(SynthTest):
    SYNTH = ("-n", NUM_TRAIN, "--num-val", 2, "--classes", 2)
    FLAGS = ("-b", 4, "-j", 1, "--image-size", 32)

    def launch(self, num_ranks, *flags, **options):
        return Train(self.root, *self.FLAGS, "--gpus", num_ranks, *flags, **options)

    def launch_endless(self, num_ranks, *flags, **options):
        """And waits until rank 0 trains and all handle signals; the processes by rank."""
        launcher = self.launch(num_ranks, "--epochs", 1000000, "-p", 1, *flags, **options)
        self.addCleanup(launcher.process.kill)
        self.wait_for(launcher, "train epoch")
        ranks = {}
        for pid in children(launcher.process.pid):
            words = dict(word.split("=", 1) for word in
                         pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0") if "=" in word)
            ranks[int(words["RANK"])] = pid
        self.assertEqual(sorted(ranks), list(range(num_ranks)))
        end = time.monotonic() + TIMEOUT_S
        while not all(map(handles_signals, ranks.values())):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        return launcher, ranks

    def wait_for(self, launcher, text):
        for line in launcher.lines():
            if text in line:
                return
        self.fail(f"no {text!r} in:\n{launcher.log}")

    def check_gone(self, pids):
        end = time.monotonic() + TIMEOUT_S
        while any(map(is_running, pids)):
            self.assertLess(time.monotonic(), end, "ranks were left behind")
            time.sleep(0.01)

    def test_rank_0_reports_its_part_of_each_epoch(self):
        got, log = self.launch(3, "--epochs", 2).end()
        self.assertEqual([report["epoch"] for report in got], [0, 1])
        self.assertEqual([report["samples"] for report in got], [NUM_TRAIN // 3] * 2)
        alone, _ = train(self.root, *self.FLAGS, "--rank", 0, "--world-size", 3, "--epochs", 2)
        self.assertEqual([report["digest"] for report in got], [report["digest"] for report in alone])
        for rank in range(3):
            self.assertIn(f"offload_train[{rank}] info: ", log)
        one, _ = self.launch(1).end()
        self.assertEqual(one[0]["samples"], NUM_TRAIN)

    def test_a_signal_stops_all_ranks(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(number):
                launcher, ranks = self.launch_endless(2)
                launcher.process.send_signal(number)
                _, log = launcher.end(128 + number)
                self.check_gone(ranks.values())
                self.assertIn("offload_train[0] info: stopped in epoch", log)
                self.assertNotIn("error", log)

    def test_a_signal_to_the_whole_group_is_one(self):
        launcher, ranks = self.launch_endless(2, start_new_session=True)
        os.killpg(launcher.process.pid, signal.SIGTERM)
        _, log = launcher.end(128 + signal.SIGTERM)
        self.check_gone(ranks.values())
        self.assertIn("offload_train[0] info: stopped in epoch", log)  # a second SIGTERM ends it at once

    def test_a_signal_stops_ranks_that_ignore_a_hangup(self):
        launcher, ranks = self.launch_endless(2, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        launcher.process.send_signal(signal.SIGHUP)
        launcher.process.send_signal(signal.SIGUSR1)
        self.wait_for(launcher, "samples so far")  # it goes on
        launcher.process.send_signal(signal.SIGTERM)
        launcher.end(128 + signal.SIGTERM)
        self.check_gone(ranks.values())

    def test_a_report_comes_from_each_rank(self):
        launcher, ranks = self.launch_endless(2)
        launcher.process.send_signal(signal.SIGUSR1)
        left = set(ranks)
        for line in launcher.lines():
            if match := re.search(r"offload_train\[(\d)\] info: in epoch \d+ after batch", line):
                left.discard(int(match[1]))
            if not left:
                break
        launcher.process.send_signal(signal.SIGTERM)
        launcher.end(128 + signal.SIGTERM)

    def test_a_second_signal_kills(self):
        launcher, ranks = self.launch_endless(2)
        os.kill(ranks[1], signal.SIGSTOP)
        launcher.process.send_signal(signal.SIGTERM)
        self.wait_for(launcher, "offload_train[0] info: stopped in epoch")
        launcher.process.send_signal(signal.SIGTERM)
        launcher.end(128 + signal.SIGKILL)
        self.check_gone(ranks.values())

    def test_a_rank_that_is_stopped_alone_stops_the_others(self):
        launcher, ranks = self.launch_endless(3)
        os.kill(ranks[1], signal.SIGTERM)
        launcher.end(128 + signal.SIGTERM)
        self.check_gone(ranks.values())

    def test_a_killed_rank_ends_the_run(self):
        for victim in (0, 2):
            with self.subTest(victim):
                launcher, ranks = self.launch_endless(3)
                os.kill(ranks[victim], signal.SIGKILL)
                _, log = launcher.end(128 + signal.SIGKILL)
                self.assertIn(f"rank {victim} was killed by signal 9: the other ranks are stopped", log)
                self.check_gone(ranks.values())

    def test_a_rank_that_hangs_is_killed_after_a_failure(self):
        launcher, ranks = self.launch_endless(2)
        os.kill(ranks[1], signal.SIGSTOP)
        os.kill(ranks[0], signal.SIGKILL)
        launcher.end(128 + signal.SIGKILL)
        self.check_gone(ranks.values())

    def test_a_rank_that_fails_ends_the_run_with_its_code(self):
        port = self.two_ports()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", port + 1))
            taken.listen()
            _, log = self.launch(2, "--epochs", 1000000, "--metrics", port).end(1)
        self.assertIn("rank 1 ended with exit code 1", log)
        self.assertIn(f":{port + 1}", log)

    def test_ranks_end_with_their_launcher(self):
        launcher, ranks = self.launch_endless(2)
        launcher.process.kill()
        launcher.end(-signal.SIGKILL)
        self.check_gone(ranks.values())

    def test_each_rank_has_its_metrics(self):
        port = self.two_ports()
        launcher, ranks = self.launch_endless(2, "--metrics", f"127.0.0.1:{port}")
        for rank in ranks:
            end = time.monotonic() + TIMEOUT_S
            while True:  # rank 1 may be slower
                try:
                    page = urllib.request.urlopen(f"http://127.0.0.1:{port + rank}/metrics", timeout=TIMEOUT_S).read()
                    break
                except OSError:
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.01)
            self.assertIn(b"sluice_trainer_batches_total", page)
        launcher.process.send_signal(signal.SIGTERM)
        launcher.end(128 + signal.SIGTERM)

    def two_ports(self):
        """The first of two that are free now."""
        while True:
            with socket.socket() as one, socket.socket() as two:
                one.bind(("127.0.0.1", 0))
                try:
                    two.bind(("127.0.0.1", one.getsockname()[1] + 1))
                except OSError:
                    continue
                return one.getsockname()[1]

    def test_the_launchers_variables_do_not_reach_further(self):
        """A run that a rank's child starts is no rank of its launcher."""
        done = run("offload_train", self.root, "--device", "none", *self.FLAGS, "--gpus", 2, "--json",
                   env={"SLUICE_LAUNCHER": "1", "SLUICE_RENDEZVOUS": "old"})
        self.assertEqual(len(reports(done.stdout)), 1)

    def batch_log(self, *flags):
        log = self.path / "batches.csv"
        done, _ = train(self.path / "holes", *self.FLAGS, "--no-shuffle", "--max-errors", "100%", "--epochs", 2,
                        "--batch-log", log, *flags)
        with log.open() as lines:
            return done, [tuple(int(line[name]) for name in ("epoch", "batch", "samples"))
                          for line in csv.DictReader(lines)]

    def test_batches_without_a_good_row_are_steps_of_a_rank(self):
        """Samples 4 to 7 (rank 1's first batch) and the last 4 (its last) are broken."""
        folder = self.path / "holes/train/a"
        folder.mkdir(parents=True)
        files = [folder / f"{name:02}.jpg" for name in range(NUM_TRAIN)]
        good = next(self.root.glob("train/*/*.jpg"))
        for file in files:
            shutil.copy(good, file)
        for file in (*files[4:8], *files[-4:]):
            file.write_bytes(b"no image")
        (alone, _), steps = self.batch_log()
        self.assertEqual(alone["errors"], 8)
        self.assertEqual(steps, [(epoch, batch, 4) for epoch in range(2) for batch in (0, 2, 3, 4)])
        for rank, samples in ((0, (4, 4, 4)), (1, (0, 4, 0))):
            _, steps = self.batch_log("--rank", rank, "--world-size", 2)
            self.assertEqual(steps, [(epoch, batch, samples[batch]) for epoch in range(2) for batch in range(3)])


class GpuRanksTest(SynthTest):
    SYNTH = ("-n", 512, "--num-val", 32, "--classes", 2)

    def test_joined_ranks_stop_after_the_same_step(self):
        try:
            gpus = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.count("GPU ")
        except OSError:
            gpus = 0
        if gpus < 2:
            self.skipTest("two GPUs are needed")
        checkpoint = self.path / "checkpoint"
        flags = (self.root, "--device", "cuda", "-a", "small_cnn", "--image-size", 32, "-b", 16, "--epochs", 100000,
                 "--checkpoint", checkpoint, "-p", 1, "--gpus", 2)
        process = subprocess.Popen([BIN / "offload_train", *map(str, flags)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        log = ""
        for line in process.stderr:
            log += line
            if "train epoch 1 [" in line:
                process.send_signal(signal.SIGTERM)
                break
        log += process.communicate(timeout=TIMEOUT_S)[1]
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, log)
        stops = re.findall(r"offload_train\[(\d)\] info: stopped in epoch (\d+) after batch (\d+)", log)
        self.assertEqual(sorted(rank for rank, _, _ in stops), ["0", "1"])
        self.assertEqual(len({int(epoch) * 16 + int(batch) for _, epoch, batch in stops}), 1)
        self.assertTrue(checkpoint.exists())


if __name__ == "__main__":
    unittest.main()
