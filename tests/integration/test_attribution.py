#!/usr/bin/env python3
"""Why an epoch is slow: one thing at a time is made the limit, which epoch and batches name.

Each limit makes its epoch wait for a second or two, nearly all of it asleep: far longer than a busy
machine stops a thread that something else is then put down to.
"""
import csv
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

from programs import BAD_DISK, Server, SynthTest, slow_disk, train  # noqa: E402
from sluice_bench import quota  # noqa: E402

NUM_TRAIN, BATCH = 64, 16


class AttributionTest(SynthTest):
    SYNTH = ("-n", NUM_TRAIN, "--num-val", 0, "--classes", 2, "-j", 1)
    digest = None

    @property
    def log(self):
        return self.path / "batches.csv"

    def train(self, flags, **options):
        (report,), _ = train("-b", BATCH, "-p", 0, "--image-size", 64, "--batch-log", self.log, *flags,
                             **options)
        return report

    def epoch(self, mode, client_flags=(), server_flags=(), server=None, client=None):
        with Server(self.root, "--prep-workers", 1, "--grpc-workers", 1, *server_flags,
                    **(server or {})) as node:
            report = self.train(["--host", node.address, "--dataset-mode", mode, *client_flags],
                                **(client or {}))
            node.stop()  # it takes its control group away
            return report

    def check(self, report, cause):
        self.assertEqual(report["bound_by"], cause, report)
        self.assertEqual(max(report["stalls"], key=report["stalls"].get), cause)
        self.assertLessEqual(sum(report["stalls"].values()), 1)
        # Whatever was waited for, the same came.
        type(self).digest = self.digest or report["digest"]
        self.assertEqual(report["digest"], self.digest)
        with open(self.log, newline="", encoding="utf-8") as file:
            batches = list(csv.DictReader(file))
        self.assertEqual([int(b["batch"]) for b in batches], list(range(NUM_TRAIN // BATCH)))
        self.assertEqual(sum(int(b["samples"]) for b in batches), NUM_TRAIN)
        self.assertEqual([key for key in batches[0] if key.endswith("_s")],
                         [name + "_s" for name in report["stalls"]])
        for batch in batches:
            seconds = {name: float(batch[name + "_s"]) for name in report["stalls"]}
            self.assertEqual(seconds[batch["bound_by"]], max(seconds.values()), batch)
        for name, share in report["stalls"].items():
            self.assertLessEqual(sum(float(b[name + "_s"]) for b in batches),
                                 share * report["seconds"] + 0.001)
        # A batch that came together with another waited for nothing, and where a thread was stopped
        # for a while a batch may name that: what counts is how long those waited that name it.
        waited = {name: 0 for name in report["stalls"]}
        for batch in batches:
            waited[batch["bound_by"]] += sum(float(batch[name + "_s"]) for name in waited)
        self.assertGreater(waited[cause], sum(waited.values()) / 2, batches)

    def test_trainer(self):
        self.check(self.epoch("remote_nooff", ["--consume-rate", 32]), "trainer")

    def test_network(self):
        self.check(self.epoch("remote_nooff", [], ["--link-limit", "25mbit"]), "network")

    def test_network_with_work_on_either_side(self):
        # Packed pixels are a tenth of the bytes: over so slow a link packing takes less, with
        # sanitizers too.
        for mode, mbit in (("remote_piloff", 3), ("remote_auto", 1)):
            self.check(self.epoch(mode, ["--net-bw", mbit], ["--link-limit", f"{mbit}mbit"]),
                       "network")

    def test_storage_cpu(self):
        flags = ["--prep-cpu-max", "0.05"]
        try:
            report = self.epoch("remote_piloff", [], flags)
        except RuntimeError:
            self.skipTest("no control group can be made here")
        self.check(report, "storage_cpu")

    def test_compute_cpu(self):
        try:
            part = quota.Quota(0.05)
        except quota.QuotaError as error:
            self.skipTest(str(error))
        try:
            self.check(self.epoch("remote_nooff", ["-j", 1], client={"preexec_fn": part.enter}),
                       "compute_cpu")
        finally:
            part.close()

    @unittest.skipUnless(BAD_DISK, "no bad_disk was built")
    def test_disk(self):
        for mode in ("remote_nooff", "remote_piloff"):
            report = self.epoch(mode, server_flags=["--io-workers", 1],
                                server={"env": slow_disk(16000)})
            self.check(report, "disk")

    @unittest.skipUnless(BAD_DISK, "no bad_disk was built")
    def test_disk_of_this_node(self):
        self.check(self.train(["--dataset-mode", "local", "-j", 1, self.root],
                              env=slow_disk(8000)), "disk")


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    unittest.main(verbosity=2)
