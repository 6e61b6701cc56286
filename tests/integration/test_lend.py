#!/usr/bin/env python3
"""offload_train --lend, with borrowers that are processes of their own, on machines without a GPU: steps wait in its
place.  What is trained stays the same, whatever borrowers do; no borrower holds up the end."""
import json
import os
import pathlib
import queue
import random
import signal
import subprocess
import threading
import time
import unittest

import exposition
from programs import TIMEOUT_S, Port, SynthTest, Train, reports, run

SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261128"))
ENDLESS = ("--epochs", 1000000)


class Borrower:
    """tests/integration/lend_borrower.c"""

    def __init__(self, path, hold_ms, pause_ms=0):
        self.process = subprocess.Popen([os.environ["SLUICE_LEND_BORROWER"], path, str(hold_ms), str(pause_ms)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def next(self):
        return self.process.stdout.readline().strip()

    def await_line(self, wanted):
        for line in self.process.stdout:
            if line.strip() == wanted:
                return
        raise AssertionError(f"the borrower ended without {wanted}: {self.process.wait()}")

    def take(self, times):
        """Waits until it took the GPU so often; False: it ended before."""
        for line in self.process.stdout:
            times -= line.strip() == "took"
            if times == 0:
                return True
        return False

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.kill()


class Lender(Train):
    """A Train that lends, from when it says so; its reports come as its epochs end."""

    def __init__(self, path, *flags, **named):
        super().__init__("--lend", path, "-j", 1, *flags, **named)
        for line in self.lines():
            if f"lent at {path} " in line:
                break
        else:
            raise AssertionError(self.log)
        self.queue = queue.SimpleQueue()
        self.readers = [threading.Thread(target=read) for read in (self.read_log, self.read_reports)]
        for reader in self.readers:
            reader.start()

    def read_log(self):
        for _ in self.lines():
            pass

    def read_reports(self):
        for line in self.process.stdout:
            self.queue.put(json.loads(line))
        self.queue.put(None)

    def reports(self):
        return iter(self.queue.get, None)

    def stop(self, code=143):
        """By SIGTERM, which ends it in time whatever borrowers do."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(TIMEOUT_S)
        self.join()
        if self.process.returncode != code or "Sanitizer" in self.log:
            raise AssertionError(f"ended with {self.process.returncode}:\n{self.log[-3000:]}")
        return list(self.reports())

    def join(self):
        for reader in self.readers:
            reader.join()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()
        self.join()
        self.process.stdout.close()
        self.process.stderr.close()


class LendTest(SynthTest):
    SYNTH = ("-n", 40, "--classes", 2)

    def setUp(self):
        self.path = str(pathlib.Path(self.folder.name, self.id().rsplit(".", 1)[-1][:40]))

    def flags(self, *flags):
        return (self.root, "--image-size", 32, "-b", 8, "--seed", 3, *flags)

    def lend(self, *flags, **named):
        return self.enterContext(Lender(self.path, *self.flags(*flags), **named))

    def borrow(self, hold_ms, pause_ms=0):
        return self.enterContext(Borrower(self.path, hold_ms, pause_ms))


class NoDevice(LendTest):
    def await_report(self, lender, is_wanted):
        """The reports up to one of which that is so."""
        seen = []
        for report in lender.reports():
            seen.append(report)
            if is_wanted(report["lend"]):
                return seen
        raise AssertionError(lender.log)

    def test_an_epoch_tells_what_was_lent(self):
        plain, _ = Train(*self.flags("--epochs", 2)).end()
        self.assertNotIn("lend", plain[0])
        lender = self.lend(*ENDLESS, "--consume-rate", 400, "--lend-at-most", "1h")
        self.borrow(10, 5)
        seen = self.await_report(lender, lambda lend: lend["requests"] > 1 and lend["cost_ms"] > 0)
        lent = seen[-1]["lend"]
        self.assertEqual(set(lent), {"requests", "lent_ms", "cost_ms", "wait_p50_ms", "wait_p99_ms", "taken_back"})
        self.assertGreaterEqual(lent["lent_ms"], lent["cost_ms"])
        self.assertGreaterEqual(lent["wait_p99_ms"], lent["wait_p50_ms"])
        self.assertEqual(lent["taken_back"], 0)
        for report, wanted in zip(seen, plain):
            self.assertEqual(report["digest"], wanted["digest"])
        lender.stop()

    def test_idle_lends_while_training_waits_for_data(self):
        self.lend(*ENDLESS, "--lend-share", "idle")
        borrower = self.borrow(1)
        for _ in range(3):
            borrower.await_line("took")

    def test_a_borrower_that_is_killed_holds_up_nobody(self):
        lender = self.lend(*ENDLESS, "--lend-at-most", "1h")
        with self.borrow(-1) as borrower:
            borrower.await_line("took")
        self.await_report(lender, lambda lend: lend["taken_back"] == 1)
        lender.stop()

    def test_what_is_held_too_long_is_taken_back(self):
        lender = self.lend(*ENDLESS, "--lend-at-most", "50ms")
        borrower = self.borrow(-1)
        borrower.await_line("took")
        self.await_report(lender, lambda lend: lend["taken_back"] == 1)
        borrower.process.stdin.write("x")
        borrower.process.stdin.flush()
        self.assertEqual(borrower.next(), "lost")
        lender.stop()

    def test_a_stop_does_not_wait_for_a_borrower(self):
        lender = self.lend(*ENDLESS, "--lend-at-most", "1h")
        borrower = self.borrow(-1)
        borrower.await_line("took")
        lender.stop()
        borrower.process.stdin.write("x")
        borrower.process.stdin.flush()
        self.assertEqual(borrower.next(), "lost")
        self.assertEqual(borrower.next(), "ended")
        self.assertFalse(os.path.exists(self.path))

    def test_a_path_has_one_owner(self):
        lender = self.lend(*ENDLESS)
        second = run("offload_train", "--device", "none", "--lend", self.path, *self.flags(), code=1)
        self.assertIn(f"error: --lend: {self.path}: ", second.stderr.splitlines()[-1])
        self.borrow(1).await_line("gave")
        lender.stop()

    def test_a_socket_that_was_left_behind_is_replaced(self):
        lender = self.lend(*ENDLESS)
        lender.process.kill()
        lender.process.wait()
        self.assertTrue(os.path.exists(self.path))
        again = self.lend(*ENDLESS)
        self.borrow(1).await_line("gave")
        again.stop()

    def test_lanes_of_a_gpu_stop_for_borrowers(self):
        """The CPU stands in for the GPU."""
        flags = ("--gpu-decode", "on", "--dataset-mode", "local")
        host = {"SLUICE_GPU": "host"}
        plain, _ = Train(*self.flags("--epochs", 2, *flags), env=host).end()
        lender = self.lend(*ENDLESS, *flags, env=host)
        self.borrow(2, 1)
        seen = self.await_report(lender, lambda lend: lend["requests"] > 3)
        lender.stop()
        for report, wanted in zip(seen, plain):
            self.assertEqual(report["digest"], wanted["digest"])
            self.assertEqual(report["choices"], wanted["choices"])

    def test_metrics_have_it(self):
        port = self.enterContext(Port())
        lender = self.lend(*ENDLESS, "--lend-at-most", "1h", "--metrics", f"127.0.0.1:{port}")
        borrower = self.borrow(5)
        for _ in range(3):
            borrower.await_line("gave")
        page = exposition.scrape(port.number)
        value = {name: family.values()[frozenset()] for name, family in page.items()
                 if name.startswith("sluice_lend_") and family.type != "histogram"}
        self.assertGreaterEqual(value["sluice_lend_requests_total"], 3)
        self.assertGreater(value["sluice_lend_seconds_total"], 0)
        self.assertLessEqual(value["sluice_lend_cost_seconds_total"], value["sluice_lend_seconds_total"])
        self.assertEqual(value["sluice_lend_taken_back_total"], 0)
        self.assertEqual(value["sluice_lend_borrowers"], 1)
        self.assertGreaterEqual(page["sluice_lend_wait_seconds"].values("_count")[frozenset()], 3)
        lender.stop()


class OnTheCpu(LendTest):
    def train(self, checkpoint, *flags):
        done = run("offload_train", *self.learning(checkpoint, "--json", *flags), code=None)
        if done.returncode == 1 and "SLUICE_ONEDNN" in done.stderr:
            self.skipTest("this build has no CPU trainer")
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return reports(done.stdout)

    def learning(self, checkpoint, *flags):
        return self.flags("--device", "cpu", "-a", "small_cnn", "--train-threads", 1, "--lr-schedule", "constant",
                          "--checkpoint", checkpoint, *flags)

    def test_what_is_learned_is_the_same_whatever_borrowers_do(self):
        rng = random.Random(SEED)
        lent, plain = (pathlib.Path(self.folder.name, name) for name in ("lent", "plain"))
        self.train(plain, "--epochs", 1)  # or skipped
        lender = self.enterContext(Lender(self.path, *self.learning(lent, *ENDLESS, "-p", 1, "--lend-at-most", "20ms")))
        for _ in range(12):  # held too long now and then, and killed anywhere
            borrowers = [self.borrow(rng.choice((0, 1, 5, 40)), rng.choice((0, 1))) for _ in range(3)]
            for borrower in borrowers:
                self.assertTrue(borrower.take(rng.randrange(1, 4)))
            rng.shuffle(borrowers)
            for borrower in borrowers:
                borrower.kill()
        while "train epoch 0 [1/" not in lender.log:
            time.sleep(0.01)
        seen = lender.stop()
        epochs = len(seen) + 1  # it was stopped within the last, or before it
        rest = self.train(lent, "--epochs", epochs, "--resume", lent)
        self.assertEqual(rest[-1]["epoch"], epochs - 1)
        whole = self.train(plain, "--epochs", epochs)
        for report, wanted in zip(seen, whole):
            for key in ("epoch", "digest", "loss", "top1"):
                self.assertEqual(report[key], wanted[key], (SEED, key))
        self.assertEqual(lent.read_bytes(), plain.read_bytes(), SEED)
        momentum = [next(path.parent.glob(path.name + ".momentum-*")).read_bytes() for path in (lent, plain)]
        self.assertEqual(*momentum)


class OnTheGpu(LendTest):
    """On a machine with one: SLUICE_BIN=bin SLUICE_LEND_BORROWER=tests/lend_borrower PYTHONPATH=tests/support
    python3 tests/integration/test_lend.py OnTheGpu"""
    SYNTH = ("-n", 400, "--num-val", 40, "--classes", 10)

    def learning(self, checkpoint):
        return self.flags("--device", "cuda", "--deterministic", "-a", "resnet18", "--image-size", 64, "-b", 16,
                          "--epochs", 12, "--checkpoint", checkpoint)

    def test_what_is_learned_is_the_same_whatever_borrowers_do(self):
        rng = random.Random(SEED)
        lent, plain = (pathlib.Path(self.folder.name, name) for name in ("lent", "plain"))
        done = run("offload_train", "--json", *self.learning(plain), code=None)
        if run("offload_train", "--lend-probe", 0, code=None).returncode or "SLUICE_CUDA" in done.stderr:
            self.skipTest("no GPU that can be lent, or a build without CUDA")
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        lender = self.enterContext(Lender(self.path, *self.learning(lent), "--lend-at-most", "20ms"))
        kills = 0
        while lender.process.poll() is None:
            with self.borrow(rng.choice((0, 1, 5, 40)), rng.choice((0, 1))) as borrower:
                kills += borrower.take(rng.randrange(1, 6))
        lender.join()
        self.assertEqual(lender.process.returncode, 0, lender.log[-3000:])
        seen, wanted = list(lender.reports()), reports(done.stdout)
        requests = sum(report["lend"]["requests"] for report in seen)
        print(f"{requests} requests, {kills} borrowers killed, seed {SEED}")
        self.assertGreater(requests, 0)
        for report, other in zip(seen, wanted, strict=True):
            for key in ("epoch", "digest", "loss", "top1", "val_loss"):
                self.assertEqual(report[key], other[key], (SEED, key))
        self.assertEqual(lent.read_bytes(), plain.read_bytes(), SEED)


if __name__ == "__main__":
    unittest.main()
