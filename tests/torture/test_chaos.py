#!/usr/bin/env python3
"""Rounds of a run whose link, disk and server do what each round's seed draws: every (epoch, sample)
is delivered once or named, and the digest is exact where none is named.

SLUICE_CHAOS_ROUND=N runs round N alone, and says what it drew.
"""
import concurrent.futures
import os
import random
import shutil
import subprocess
import unittest

import torture
from chaos_proxy import ChaosProxy
from programs import BAD_DISK, Node, Train, run

EPOCHS = 2
IMAGES = 60
ROUNDS = torture.rounds(10, 200)
ONLY = os.environ.get("SLUICE_CHAOS_ROUND")
MODES = ("remote_nooff", "remote_alloff", "remote_piloff", "remote_auto")
FLAGS = ["-b", 8, "-j", 2, "--image-size", 48, "--epochs", EPOCHS, "--seed", 5]

# An epoch is some 200 kB of files, 400 kB of pixels or 1.7 MB of tensors.
LINKS = (
    "do=cut,after=2k..300k,most={few}",
    "do=cut,after=2k..300k,how=fin,most={few}",
    "do=cut,after=0..4k,dir=up,most={few}",
    "do=stall,after=1k..200k,seconds=0.05..0.5",
    "do=stall,after=1k..200k,most=1",
    "do=throttle,rate={rate}k,dir=down",
    "do=flip,rate=2e-6..2e-5,most={few}",
    "do=flip,rate=1e-4..1e-3,dir=up,most=1",
    "do=flip,rate=1e-4..1e-3,dir=down,most=1",
    "do=mute,first={few},most=1",
    "do=refuse,first={few},most=2",
    "do=reorder,of=2,seconds=0.1",
)
DISKS = (
    "call=read,path=.jpg,every={few_more},do=eio",
    "call=read,path=.jpg,every={few},do=short",
    "call=read,path=.jpg,every={few_more},do=delay:20000",
    "call=read,path=.jpg,after={many},most=2,do=delay:1500000",
    "call=read,path=.jpg,after={many},most=1,do=hang",
    "call=open,path=.jpg,every={few_more},do=emfile",
    "call=open,path=.jpg,after={many},most=20,do=nomem",
)


class Draw:
    """What a round has drawn."""

    def __init__(self, seed):
        rng = self.rng = random.Random(seed)
        self.seed = seed
        self.mode = rng.choice(MODES)
        self.link = [self.fill(rule) for rule in rng.sample(LINKS, rng.choice((0, 1, 1, 2, 3)))]
        self.disk = [self.fill(rule) for rule in rng.sample(DISKS, rng.choice((0, 0, 1, 1, 2)))]
        self.is_indexed = rng.random() < 0.5
        self.is_stale = self.is_indexed and rng.random() < 0.3
        self.kills_server = rng.random() < 0.25
        self.hangs = any("hang" in rule for rule in self.disk)
        # What is stale, or whose read never returns, is asked for so long, and then named.  A
        # connection that never answers takes 5 s of that.
        is_mute = any("mute" in rule for rule in self.link)
        patience_s = 12 if is_mute else 2
        self.retry_for_s = patience_s if self.is_stale else 8 if self.hangs else 60
        self.form = rng.choice(("auto", "jpeg_crop", "u8_packed", "jpeg_rows", "raw"))

    def fill(self, rule):
        return rule.format(few=self.rng.randint(2, 5), few_more=self.rng.randint(5, 12),
                           many=self.rng.randint(1, IMAGES), rate=self.rng.randint(2000, 8000))

    def __str__(self):
        extras = [name for name in ("is_indexed", "is_stale", "kills_server") if getattr(self, name)]
        return (f"round {self.seed}: {self.mode} {self.form}; link {self.link}; disk {self.disk}; "
                f"{' '.join(extras)}")


@unittest.skipUnless(BAD_DISK, "no bad_disk was built")
class Chaos(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.images = torture.make_dataset("images", count=IMAGES, size=64)
        epochs, _ = torture.train(cls.images, "--dataset-mode", "local", *FLAGS)
        cls.digests = [epoch["digest"] for epoch in epochs]
        cls.folder = torture.temporary_folder("rounds")

    def test_rounds(self):
        seeds = [int(ONLY)] if ONLY else range(ROUNDS)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            done = [(seed, pool.submit(self.round, Draw(seed))) for seed in seeds]
            for seed, future in done:
                with self.subTest(f"round {seed}"):
                    future.result()

    def round(self, draw):
        if ONLY:
            print(draw, flush=True)
        root = self.folder / str(draw.seed)
        shutil.copytree(self.images, root)
        if draw.is_indexed:
            run("offload_dataset", "index", "--jpeg-index", root)
        with Node(root, "--prep-workers", 2, "--grpc-workers", 2, "--sample-timeout", 4,
                  env=torture.bad_disk(*draw.disk) if draw.disk else None) as node:
            try:
                with ChaosProxy(node.address, *draw.link, seed=draw.seed) as proxy:
                    self.epochs(draw, root, node, proxy)
                node.terminate()
                node.process.communicate(timeout=torture.TIMEOUT_S)
                if not draw.hangs:  # a stuck read may cost it its exit code, not its end
                    self.assertEqual(node.process.returncode, 0, "the server's exit")
            except Exception as error:
                raise AssertionError(f"{draw}\n{error}\n{node.log()[-3000:]}") from error
        shutil.rmtree(root)

    def epochs(self, draw, root, node, proxy):
        stale = None
        if draw.is_stale:  # another picture under the same name, as if it had been downloaded anew
            stale, other = draw.rng.sample(sorted(root.glob("train/*/*.jpg")), 2)
            other = other.read_bytes()
            stale.unlink()
            stale.write_bytes(other + b"\0")
        client = Train(*FLAGS, "--host", proxy.address, "--dataset-mode", draw.mode, "--remote-form",
                       draw.form, "--sample-timeout", 6, "--max-errors", "50%", "--retry-for",
                       draw.retry_for_s)
        try:
            if draw.kills_server:
                # Of the 80 kB and more that an epoch has.
                proxy.wait_for("down", draw.rng.randint(1000, 60000), torture.TIMEOUT_S)
                node.replace()
            reports, err = client.end()
        except (subprocess.TimeoutExpired, TimeoutError):
            client.process.kill()
            raise AssertionError(f"the client hangs: {client.process.communicate()[1][-3000:]}") from None
        self.assertEqual(len(reports), EPOCHS)
        for report, digest in zip(reports, self.digests):
            self.one_epoch(draw, report, digest, stale, err)

    def one_epoch(self, draw, report, digest, stale, err):
        named = [sample["path"] for sample in report["error_samples"]]
        self.assertEqual((report["samples"], report["errors"]), (IMAGES - len(named), len(named)))
        wanted = [] if stale is None else [str(stale.relative_to(stale.parents[2]))]
        others = [path for path in named if path not in wanted]
        self.assertTrue(set(wanted) <= set(named), f"{wanted} is not named: {err[-2000:]}")
        self.assertLessEqual(len(others), 1 if draw.hangs else 0,
                             f"{report['error_samples']}: {err[-2000:]}")
        if not named:
            self.assertEqual(report["digest"], digest, err[-2000:])


if __name__ == "__main__":
    torture.main()
