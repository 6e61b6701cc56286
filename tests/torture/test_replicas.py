#!/usr/bin/env python3
"""Rounds of a run over three replicas, or over shards of which one has three, that are killed,
stopped, cut off, slowed down and replaced as each round's seed draws: the digest is exact, every
sample comes once, and nobody is left waiting.  One replica at least is there at any time.

SLUICE_REPLICAS_ROUND=N runs round N alone, and says what it drew.
"""
import contextlib
import os
import random
import threading
import time
import unittest

import programs
import torture
from chaos_proxy import ChaosProxy

EPOCHS = 2
IMAGES = 72
BATCHES = 9  # of an epoch
REPLICAS = 3
ROUNDS = torture.rounds(6, 200)
ONLY = os.environ.get("SLUICE_REPLICAS_ROUND")
MODES = ("remote_nooff", "remote_alloff", "remote_piloff", "remote_auto")
FLAGS = ["-b", 8, "-j", 1, "--image-size", 48, "--epochs", EPOCHS, "--seed", 5, "-p", 1,
         "--prefetch-bytes", "64k"]

# What is done to a replica, and how it gets well again.
ILLS = {"kill": ("kill", "start"), "stop": ("pause", "go_on"), "restart": (None, "restart"),
        "replace": (None, "replace")}
# What lies between it and the client for the whole round.
LINKS = ("do=cut,after=2k..200k,most=3", "do=cut,after=2k..200k,how=fin,most=3",
         "do=stall,after=1k..100k,seconds=0.05..0.5", "do=throttle,rate={rate}k,dir=down",
         "do=throttle,rate=60k,dir=down", "do=flip,rate=2e-6..2e-5,most=3",
         "do=refuse,first=2,most=2", "do=mute,first=2,most=1")


class Draw:
    """What a round has drawn."""

    def __init__(self, seed):
        rng = self.rng = random.Random(seed)
        self.seed = seed
        self.mode = rng.choice(MODES)
        self.is_sharded = rng.random() < 0.4
        self.hedges = rng.random() < 0.5
        self.rate = rng.choice((100, 200, 400))
        # A replica without a bad link, so that one is well where the others are ill.
        self.links = [None] + [
            rng.choice(LINKS).format(rate=rng.randint(500, 4000)) if rng.random() < 0.5 else None
            for _ in range(REPLICAS - 1)]
        rng.shuffle(self.links)
        # At a batch something happens to one that is well, or to the one that is ill: at most
        # REPLICAS - 1 are ill at once.
        self.events = []
        ill = {}
        for batch in sorted(rng.sample(range(1, EPOCHS * BATCHES - 1), rng.randint(3, 9))):
            well = [i for i in range(REPLICAS) if i not in ill]
            if ill and (len(well) == 1 or rng.random() < 0.4):
                at = rng.choice(sorted(ill))
                self.events.append((batch, at, ill.pop(at)))
            else:
                at = rng.choice(well)
                if len(well) == 1:
                    continue
                name, cure = ILLS[rng.choice(sorted(ILLS))]
                if name:
                    ill[at] = cure
                self.events.append((batch, at, name or cure))

    def __str__(self):
        return (f"round {self.seed}: {self.mode} {'sharded' if self.is_sharded else ''} "
                f"{'hedged' if self.hedges else ''}; links {self.links}; events {self.events}")


class Replicas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.images = torture.make_dataset("replicas", count=IMAGES, size=64)
        epochs, _ = torture.train(cls.images, "--dataset-mode", "local", *FLAGS)
        cls.digests = [epoch["digest"] for epoch in epochs]
        cls.halves = programs.split(cls.images, torture.temporary_folder("replicas-halves"), 2)

    def test_rounds(self):
        worst = 0.0
        for seed in [int(ONLY)] if ONLY else range(ROUNDS):
            draw = Draw(seed)
            with self.subTest(str(draw)):
                if ONLY:
                    print(draw, flush=True)
                worst = max(worst, self.round(draw))
        print(f"the longest wait for a batch was {worst:.2f} s", end=" ")

    def round(self, draw):
        """The longest time without a batch."""
        with contextlib.ExitStack() as stack:
            root = self.halves[0] if draw.is_sharded else self.images
            nodes = [stack.enter_context(programs.Node(root)) for _ in range(REPLICAS)]
            addresses = []
            for i, (node, link) in enumerate(zip(nodes, draw.links)):
                if link:
                    proxy = ChaosProxy(node.address, link, seed=draw.seed * REPLICAS + i)
                    addresses.append(stack.enter_context(proxy).address)
                else:
                    addresses.append(node.address)
            hosts = ["--host", ",".join(addresses)]
            if draw.is_sharded:
                other = stack.enter_context(programs.Node(self.halves[1]))
                hosts += ["--host", other.address]
            return self.epochs(draw, nodes, hosts)

    def epochs(self, draw, nodes, hosts):
        client = programs.Train(*FLAGS, *hosts, "--dataset-mode", draw.mode, "--consume-rate", draw.rate,
                                "--retry-for", 60, *["--hedge"] * draw.hedges)
        hang = threading.Timer(torture.TIMEOUT_S, client.process.kill)
        hang.start()
        left = list(draw.events)
        worst, last = 0.0, None
        try:
            for line in client.lines():
                batch = programs.batches_done(line, BATCHES)
                if batch is None:
                    continue
                now = time.monotonic()
                worst = max(worst, now - last) if last else worst
                while left and batch >= left[0][0]:
                    _, at, what = left.pop(0)
                    getattr(nodes[at], what)()
                last = time.monotonic()
            reports, log = client.end()
        finally:
            hang.cancel()
            client.process.kill()
        said = f"{draw}\n{log[-3000:]}"
        self.assertEqual([report["digest"] for report in reports], self.digests, said)
        self.assertEqual([(report["samples"], report["errors"]) for report in reports],
                         [(IMAGES, 0)] * EPOCHS, said)
        return worst



if __name__ == "__main__":
    torture.main()
