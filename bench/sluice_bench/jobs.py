"""What offload_job costs a run, and what its limits give.

usage: jobs DIR [options]

rows, medians of --repeats turns:
    epoch     samples/s of an epoch of offload_train --device none and its server, as a job over the bare programs
    freeze    ms from the request to the moment at which every process of the job has stopped
    cancel    ms from the request to the moment at which nothing is left
    resume    seconds of a run of --device cpu that continues a checkpoint, as a job (with the start of its server) less
              the bare `offload_train --resume`
    burners   samples/s of a training on 2 CPUs over those of the training alone: beside two loops that are jobs with
              `cores: 0.1` each, and beside the same loops without limits.  Left out, with the reason, where engine
              local has no limits
The digests of `epoch` must be equal.  It needs Debian's python3-yaml and python3-jsonschema.
"""
import argparse
import contextlib
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from . import hosts, image_files

SOURCE = pathlib.Path(__file__).resolve().parents[2]


class Failed(Exception):
    pass


class Bench:
    def __init__(self, options, folder):
        sys.path.insert(0, str(options.bin.parent / "share/sluice"))
        from jobs import engines, spec, store
        self.options, self.folder = options, pathlib.Path(folder)
        self.spec, self.engine, self.store = spec, engines.find("local"), store.Store(self.folder / "jobs")

    # --- jobs ---

    def submit(self, compute, storage=None, **fields):
        fields = {"name": "bench", "outputs": str(self.folder / "outputs"), "compute": compute,
                  "data": {"root": str(pathlib.Path(self.options.images).resolve())}, **fields}
        if storage:
            fields["storage"] = storage
        return self.engine.submit(self.spec.parse(json.dumps(fields), folder=self.folder), self.store)

    def finish(self, record):
        """The reports of its trainer."""
        while self.engine.state(record) not in ("succeeded", "failed", "cancelled", "lost"):
            time.sleep(0.01)
        if self.engine.state(record) != "succeeded":
            raise Failed(f"{record.id}: {record.last()}")
        return self.reports(record)

    def reports(self, record):
        return [json.loads(line) for _, line in self.engine.logs(record, "compute-0") if line.startswith("{")]

    @contextlib.contextmanager
    def running(self, compute, storage=None, **fields):
        record = self.submit(compute, storage, **fields)
        try:
            while self.engine.state(record) in ("submitted", "starting"):
                time.sleep(0.01)
            yield record
        finally:
            if record.is_held():
                self.engine.cancel(record)

    # --- bare programs ---

    def train(self, *flags):
        done = subprocess.run([self.options.bin / "offload_train", "--json", "--no-val", *map(str, flags)],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(done.stderr[-2000:])
        return [json.loads(line) for line in done.stdout.splitlines()]

    # --- rows ---

    def epoch(self):
        options = self.options
        settings = {"device": "none", "batch-size": 64, "workers": options.workers, "repeat": options.repeat,
                    "no-val": True}
        bare, job = [], []
        for _ in range(options.repeats):
            with hosts.server(options.bin, options.images, "--prep-workers", options.workers) as server:
                bare += self.train("--host", server.address, "--device", "none", "-b", 64, "-j", options.workers, "--repeat",
                                   options.repeat)
            job += self.finish(self.submit({"trainer": {"options": settings}},
                                           {"options": {"prep-workers": options.workers}}))
        ratios = [ours["samples_per_s"] / theirs["samples_per_s"] for ours, theirs in zip(job, bare)]
        yield {"row": "epoch", "bare": statistics.median(one["samples_per_s"] for one in bare),
                "job": statistics.median(one["samples_per_s"] for one in job), "ratio": statistics.median(ratios),
                "least": min(ratios), "most": max(ratios), "is_exact": len({one["digest"] for one in bare + job}) == 1}

    def control(self):
        freeze, cancel = [], []
        for _ in range(self.options.repeats):
            with self.running({"command": "while :; do :; done"}) as record:
                self.engine.pause(record, "freeze")
                freeze.append(1000 * (record.last()["time"] - record.last("request")["time"]))
                self.engine.resume(record)
                began = time.monotonic()
                self.engine.cancel(record)
                cancel.append(1000 * (time.monotonic() - began))
        for row, values in (("freeze", freeze), ("cancel", cancel)):
            yield {"row": row, "ms": statistics.median(values), "least": min(values), "most": max(values)}

    def resume(self):
        model = {"device": "cpu", "arch": "small_cnn", "image-size": 16, "batch-size": 16, "workers": self.options.workers,
                 "no-val": True}
        flags = [word for name, value in model.items() if value is not True for word in (f"--{name}", value)]
        extra = []
        for i in range(self.options.repeats):
            outputs = self.folder / f"resume-{i}"
            outputs.mkdir()
            with hosts.server(self.options.bin, self.options.images) as server:
                self.train("--host", server.address, *flags, "--epochs", 1, "--checkpoint", outputs / "run.ckpt")
                began = time.monotonic()
                self.train("--host", server.address, *flags, "--epochs", 2, "--resume", outputs / "run.ckpt")
                bare = time.monotonic() - began
            began = time.monotonic()
            self.finish(self.submit({"trainer": {"options": {**model, "epochs": 2}}}, outputs=str(outputs),
                                    checkpoint={"resume": True}))
            extra.append(time.monotonic() - began - bare)
        yield {"row": "resume", "extra_s": statistics.median(extra), "least": min(extra), "most": max(extra)}

    def burners(self):
        from jobs import JobError
        spin = "while :; do :; done"
        limited = {"cores": 0.1, "command": spin}
        try:
            self.engine.check(self.spec.parse(json.dumps({"name": "b", "compute": limited, "storage": {"address": "x"}})))
        except JobError as error:
            yield {"row": "burners", "left_out": str(error)}
            return
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, sorted(before)[:2])
        try:
            rates = {}
            for name, compute in (("alone", None), ("limited", limited), ("free", {"command": spin})):
                with contextlib.ExitStack() as stack:
                    for _ in range(2 if compute else 0):
                        stack.enter_context(self.running(compute, {"address": "127.0.0.1:1"}))
                    rates[name] = statistics.median(
                        self.train(self.options.images, "--device", "none", "-j", 2, "--repeat", self.options.repeat)[0][
                            "samples_per_s"] for _ in range(self.options.repeats))
        finally:
            os.sched_setaffinity(0, before)
        yield {"row": "burners", **rates, "limited_ratio": rates["limited"] / rates["alone"],
                "free_ratio": rates["free"] / rates["alone"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog="See the head of the file.")
    parser.add_argument("images", metavar="DIR")
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/release/bin")
    parser.add_argument("--repeats", type=int, default=5, help="turns of each row (5)")
    parser.add_argument("--repeat", type=int, default=10, help="passes over the images in an epoch (10)")
    parser.add_argument("--workers", type=int, default=max(1, len(os.sched_getaffinity(0)) // 2),
                        help="threads of the server and of the trainer (half of the CPUs each)")
    parser.add_argument("--json", action="store_true", help="an object for each row")
    options = parser.parse_args()
    image_files.warm(options.images)
    with tempfile.TemporaryDirectory(prefix="sluice-jobs-") as folder:
        try:
            bench = Bench(options, folder)
            for found in itertools.chain(bench.epoch(), bench.control(), bench.resume(), bench.burners()):
                if options.json:
                    print(json.dumps(found), flush=True)
                else:
                    print(f"{found.pop('row'):10}" + "  ".join(
                        f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {value}"
                        for name, value in found.items()), flush=True)
                if found.get("is_exact") is False:
                    return 1
        except (Failed, hosts.HostError) as error:
            sys.exit(f"jobs: {error}")
    return 0
