#!/usr/bin/env python3
"""An epoch shared by rounds of ranks: each round with a world size and a mode of its own, half of
them ended by SIGKILL; the next goes on from a state that a rank of the last one wrote.

    PYTHONPATH=build/dev/python:tests/support:tests/integration:tests/python \\
        tests/torture/world_sizes.py --rounds 200

Each rank is a process of its own.  It writes each batch's rows and the state after it to a file; of
a round that is killed, what counts are the batches that all ranks wrote.  All ranks together are to
deliver what one local rank with a large batch does: each sample as often as the epoch has it, the
same order, the same bytes; rows of padding repeat the epoch's beginning.  With --buckets each batch is of one
aspect bucket: what counts is one local rank with the same global batch, and padding repeats the bucket's first items.  An epoch's digest over what was
received is the library's, and the first one's offload_train's.  There are two servers: a round is
from either, or from both as replicas.  At the end the longest
resumes are printed: making the loader, load_state_dict() and iter(), without the process's start.
"""
import argparse
import collections
import json
import multiprocessing
import os
import random
import sys
import time
import traceback

import support

if __name__ == "__main__":  # not in a rank, which imports this file, too: it makes a folder
    import torture

NUM_IMAGES = 150
PIPELINE = "decode,random_resized_crop=32,hflip,to_tensor,normalize=imagenet"
BUCKETS_PIPELINE = "decode,fit_bucket=32x32/28x36/26x40:crop=random,hflip,to_tensor,normalize=imagenet"
MODES = ("local", "remote_auto", "remote_sophon", "remote_nooff", "remote_piloff", "remote_alloff")
GLOBAL_BATCHES = (120, 168, 840)  # an epoch has one of them; together they have 1 to 8 as divisors
REFERENCE_BATCH = 500
UNTIL_THE_END = 1 << 30
TIMEOUT_S = 120  # of a round: a hang is a failure with a name


def row_list(images, labels, ids, has_size):
    return [[int(i), int(label), support.row_hash(pixels, label, has_size).hex(), list(pixels.shape[:2])]
            for pixels, label, i in zip(images, labels, ids)]


def write(path, value):
    """Whole or not at all."""
    with open(f"{path}.part", "w") as file:
        json.dump(value, file)
    os.rename(f"{path}.part", path)


def read(path):
    with open(path) as file:
        return json.load(file)


def deliver(folder, rank, source, options, state, num_batches, is_killed):
    """The process of a rank: begin, then a file for each batch, then end if the epoch has ended."""
    import sluice.numpy
    try:
        start = time.monotonic()
        loader = sluice.numpy.Loader(source, sample_ids=True, rank=rank, **options)
        loader.load_state_dict(state)
        batches = iter(loader)
        write(f"{folder}/{rank}.begin", {"seconds": time.monotonic() - start,
                                         "mode": loader.info["mode"]})
        count = 0
        for images, labels, ids in batches:
            write(f"{folder}/{rank}.{count}", {"rows": row_list(images, labels, ids, bool(loader.info["buckets"])),
                                               "padded": loader.num_padded,
                                               "state": loader.state_dict()})
            count += 1
            if count == num_batches and not is_killed:
                break  # else it goes on with what it can until it is killed
        else:
            write(f"{folder}/{rank}.end", {"state": loader.state_dict()})
        if is_killed:
            time.sleep(2 * TIMEOUT_S)
        loader.close()
    except BaseException:
        write(f"{folder}/{rank}.error", traceback.format_exc())
        sys.exit(1)


class Run:
    def __init__(self, options, addresses, root):
        import sluice.numpy
        self.random = random.Random(options.seed)
        self.addresses, self.root = addresses, str(root)
        self.has_buckets = options.buckets
        self.modes = [mode for mode in MODES if not (options.buckets and mode == "remote_sophon")]
        self.common = {"seed": options.seed, "pipeline": BUCKETS_PIPELINE if options.buckets else PIPELINE,
                       "repeat": options.repeat, "workers": 1, "on_error": "fail"}
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["numpy"])
        sizes = GLOBAL_BATCHES if options.buckets else (REFERENCE_BATCH,)
        self.reference_loaders = {size: sluice.numpy.Loader(self.root, size, sample_ids=True, **self.common)
                                  for size in sizes}
        self.repeat = options.repeat
        self.counts = collections.Counter()
        self.slowest = {}  # mode: (seconds, what round)
        self.begin_epoch({"epoch": 0})
        flags = ("--batch-size", str(self.global_batch if options.buckets else REFERENCE_BATCH),
                 "--seed", str(options.seed), "--pipeline", self.common["pipeline"])
        trained = support.train(self.root, "--epochs", "1", "--repeat", str(options.repeat),
                                *flags)[0]["digest"]
        assert trained == self.digest, f"{self.digest}, and offload_train has {trained}"
        if options.buckets:  # which cannot be profiled
            return
        self.sophon = support.sophon(self.root, torture.temporary_folder("profile") / "made",
                                     *flags)
        self.sophon["profile_folder"] = str(self.sophon["profile_folder"])

    def begin_epoch(self, state):
        self.state = state
        self.global_batch = self.random.choice(GLOBAL_BATCHES)
        self.rows = []
        loader = self.reference_loaders[self.global_batch if self.has_buckets else REFERENCE_BATCH]
        loader.set_epoch(state["epoch"])
        batches = [row_list(*batch, self.has_buckets) for batch in loader]
        self.reference = [row for batch in batches for row in batch]
        self.digest = loader.stats()["digest"]
        # The items of each bucket in the sampler's order: its full batches, then the partial one.
        self.items_of = collections.defaultdict(list)
        for batch in sorted(batches, key=lambda batch: len(batch) < self.global_batch):
            self.items_of[tuple(batch[0][3])] += batch
        times = collections.Counter(row[0] for row in self.reference)
        assert set(times.values()) == {self.repeat} and len(times) == \
            loader.info["num_samples"][0], "the reference is no epoch"

    def round(self, number, most_batches=4):
        """Ranks deliver; then the rows of all are compared."""
        world_size = self.random.choice([w for w in range(1, 9) if self.global_batch % w == 0])
        mode = self.random.choice(self.modes)
        source = (self.root if mode == "local" else
                  self.random.choice([*self.addresses, ",".join(self.addresses)]))
        is_killed = most_batches != UNTIL_THE_END and self.random.random() < 0.5
        is_torn = is_killed and self.random.random() < 0.5  # the first rank to be done is enough
        num_batches = (most_batches if most_batches == UNTIL_THE_END
                       else self.random.randint(1, most_batches))
        what = (f"round {number}: epoch {self.state['epoch']}, global batch {self.global_batch}, "
                f"from row {len(self.rows)}: {world_size} x {mode}{self.from_words(source)}, "
                + (f"killed when {'one has' if is_torn else 'all have'} " if is_killed else "")
                + ("all" if num_batches == UNTIL_THE_END else f"{num_batches} batches"))
        folder = torture.temporary_folder(f"round-{number}")
        options = {**self.common, "batch_size": self.global_batch // world_size,
                   "world_size": world_size}
        if mode == "remote_sophon":
            options.update(self.sophon)
        elif mode != "local":
            options["mode"] = mode
        ranks = [self.context.Process(target=deliver, args=(
            str(folder), rank, source, options, self.state, num_batches, is_killed))
            for rank in range(world_size)]
        try:
            for process in ranks:
                process.start()
            self.wait(ranks, folder, num_batches, is_killed, is_torn, what)
        finally:
            for process in ranks:
                process.kill()
            for process in ranks:
                process.join()
        self.take(folder, world_size, mode, what)
        self.counts.update([mode, f"{world_size} ranks"])
        self.counts.update(["both replicas"] * ("," in source))
        self.counts.update(["killed"] * is_killed + ["torn"] * is_torn)

    def from_words(self, source):
        """Of the two servers, which."""
        if source in self.addresses:
            return f" of server {self.addresses.index(source)}"
        return " of both servers" if "," in source else ""

    def wait(self, ranks, folder, num_batches, is_killed, is_torn, what):
        """Until the ranks ended, or are to be killed."""
        until = time.monotonic() + TIMEOUT_S
        while True:
            names = set(os.listdir(folder))
            for rank, process in enumerate(ranks):
                if f"{rank}.error" in names:
                    raise AssertionError(f"{what}: rank {rank}: {read(folder / f'{rank}.error')}")
                if process.exitcode not in (None, 0):
                    raise AssertionError(f"{what}: rank {rank} ended with {process.exitcode}")
            if is_killed:
                done = [f"{rank}.{num_batches - 1}" in names or f"{rank}.end" in names
                        for rank in range(len(ranks))]
                if any(done) if is_torn else all(done):
                    return
            elif all(process.exitcode == 0 for process in ranks):
                return
            if time.monotonic() > until:
                raise AssertionError(f"{what}: hangs; wrote {sorted(names)}")
            time.sleep(0.002)

    def take(self, folder, world_size, mode, what):
        """What all ranks wrote; then the state that the next round begins with."""
        names = set(os.listdir(folder))
        for rank in range(world_size):
            if f"{rank}.begin" in names:
                begin = read(folder / f"{rank}.begin")
                assert begin["mode"] == mode, f"{what}: {begin}"
                self.slowest[mode] = max(self.slowest.get(mode, (0, "")), (begin["seconds"], what))
        from_rank = self.random.randrange(world_size)
        first = len(self.rows)
        count = 0
        while all(f"{rank}.{count}" in names for rank in range(world_size)):
            padding = []
            for rank in range(world_size):
                batch = read(folder / f"{rank}.{count}")
                kept = len(batch["rows"]) - batch["padded"]
                self.rows += batch["rows"][:kept]
                padding += batch["rows"][kept:]
                if rank == from_rank:
                    self.state = batch["state"]
            repeated = self.items_of[tuple(padding[0][3])] if padding and self.has_buckets else self.reference
            assert padding == repeated[:len(padding)], f"{what}: padding {padding}"
            self.counts["batches"] += 1
            self.counts["padded rows"] += len(padding)
            count += 1
        self.counts["rows"] += len(self.rows) - first
        expected = self.reference[first:len(self.rows)]
        for i, (row, should) in enumerate(zip(self.rows[first:], expected)):
            assert row == should, f"{what}: row {first + i} is {row}, not {should}"
        assert len(self.rows) <= len(self.reference), f"{what}: {len(self.rows)} rows"
        is_end = all(f"{rank}.end" in names for rank in range(world_size))
        print(f"{what}: {count} batches{', the end' if is_end else ''}", flush=True)
        if is_end:
            assert self.rows == self.reference, f"{what}: an epoch of {len(self.rows)} rows"
            digest = support.digest_of(bytes.fromhex(row[2]) for row in self.rows)
            assert digest == self.digest, f"{what}: {digest}, not {self.digest}"
            self.counts["epochs"] += 1
            self.counts["empty resumes at an end"] += count == 0
            self.begin_epoch(read(folder / f"{from_rank}.end")["state"])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=torture.rounds(8, 200))
    parser.add_argument("--seed", type=int, default=torture.SEED)
    parser.add_argument("--repeat", type=int, default=20, help="of the images in an epoch")
    parser.add_argument("--buckets", action="store_true", help="batches of one aspect bucket each")
    parser.add_argument("--root", help="of a dataset; left out: small images are made")
    options = parser.parse_args()
    torture.harness.require()
    support.require("xxhash")
    print(f"seed {options.seed}, {options.rounds} rounds", flush=True)
    start = time.monotonic()
    root = options.root or torture.make_dataset("set", NUM_IMAGES)
    servers = []
    try:
        servers += [torture.Server(root), torture.Server(root)]
        run = Run(options, [server.address for server in servers], root)
        for number in range(options.rounds):
            run.round(number)
        run.round(options.rounds, UNTIL_THE_END)  # so that the last epoch is whole, too
        for loader in run.reference_loaders.values():
            loader.close()
    finally:
        for server in servers:
            server.stop()
    print(f"seed {options.seed}: {options.rounds + 1} rounds in {time.monotonic() - start:.0f} s: "
          + ", ".join(f"{key}: {run.counts[key]}" for key in sorted(run.counts)))
    for seconds, what in sorted(run.slowest.values(), reverse=True):
        print(f"longest resume {seconds * 1000:.0f} ms: {what}")


if __name__ == "__main__":
    try:
        main()
    finally:
        torture.harness.shutil.rmtree(torture.harness._scratch, ignore_errors=True)
