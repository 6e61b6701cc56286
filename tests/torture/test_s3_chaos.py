#!/usr/bin/env python3
"""Rounds of an epoch over a bucket whose gateway does what each round's seed draws: delays, lost
connections, 503, 429, bodies that break off, wrong ETags; in any mode, with an index or none, with a
cache that is new, kept, too small or none.  The digest is the folder's each time.

SLUICE_CHAOS_ROUND=N runs round N alone, and says what it drew.
"""
import os
import random
import shutil
import sys
import time
import unittest

import test_s3
from programs import run
from test_s3 import MODES

ROUNDS = 200 if os.environ.get("SLUICE_TORTURE") == "long" else 6
ONLY = os.environ.get("SLUICE_CHAOS_ROUND")
FAULTS = ("delay", "reset", "503", "429", "cut", "etag")
CACHES = {"none": None, "new": "64M", "kept": "64M", "small": "1M"}


class Draw:
    def __init__(self, seed):
        rng = random.Random(seed)
        self.seed = seed
        self.mode = rng.choice(MODES)
        self.root = rng.choice(("listed/a b+c", "indexed"))
        self.cache = rng.choice(sorted(CACHES))
        self.faults = {fault: round(rng.uniform(0.01, 0.12), 3)
                       for fault in rng.sample(FAULTS, rng.randint(1, len(FAULTS)))}

    def __str__(self):
        return (f"round {self.seed}: {self.mode}, {self.root}, cache {self.cache}, "
                f"{self.faults}")


class S3Chaos(test_s3.WithBucket):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        indexed = cls.path / "indexed"
        shutil.copytree(cls.images, indexed)
        run("offload_dataset", "index", indexed, "--jpeg-index")
        cls.upload(indexed, "indexed")

    def test_rounds(self):
        counts, met, requests, began = {}, {}, 0, time.monotonic()
        seeds = [int(ONLY)] if ONLY else range(ROUNDS)
        for seed in seeds:
            draw = Draw(seed)
            if ONLY:
                print(draw, flush=True)
            with self.subTest(str(draw)):
                gateway = self.round(draw)
                requests += gateway.num_requests
                counts[draw.mode] = counts.get(draw.mode, 0) + 1
                for fault, count in gateway.num_faults.items():
                    met[fault] = met.get(fault, 0) + count
        print(f"{sum(counts.values())} of {len(seeds)} rounds have the folder's digest: {counts}; "
              f"{requests} requests, faults {met}; {time.monotonic() - began:.0f} s", flush=True)

    def cache_of(self, draw):
        """The options."""
        if CACHES[draw.cache] is None:
            return ()
        folder = self.path / f"cache-{draw.cache}"
        if draw.cache == "new":
            shutil.rmtree(folder, ignore_errors=True)
        return ("--cache", folder, "--cache-bytes", CACHES[draw.cache])

    def round(self, draw):
        with self.gateway(seed=draw.seed) as gateway:
            with test_s3.Server(f"s3://photos/{draw.root}", "--s3-endpoint", gateway.url,
                                *self.cache_of(draw)) as server:
                gateway.faults = draw.faults
                epoch, log = test_s3.train("--host", server.address, "--dataset-mode", draw.mode,
                                           options=("--retry-for", "60", "--seed", "0"))
                self.assertEqual(epoch["digest"], self.digest, f"{log}{server.log()}")
                gateway.faults = {}
                server.stop()
        return gateway


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=2)
    sys.exit(0 if program.result.wasSuccessful() else 1)
