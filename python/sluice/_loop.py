"""What a training loop waits for: watch() and Report of sluice.doctor."""
import collections
import os
import shlex
import sys
import time

import sluice
from sluice import _usage, _words
from sluice._batches import Batches

_READY = 0.1   # a loop that waits for less of its time has its data ready
_BUSY = 0.85   # of a core: it, or a thread on it, has no time left
_PENDING = 64  # steps whose events are not looked at yet; more are waited for


def is_first_rank():
    """Of those that torchrun started: one report is enough."""
    return os.environ.get("RANK", "0") == "0"


def _is_alone():
    """Whether this process trains alone: ranks that train together cannot lend their GPUs."""
    return os.environ.get("WORLD_SIZE", "1") == "1"


def _lends():
    """Whether this process has an Owner of sluice.lend."""
    return bool(getattr(sys.modules.get("sluice.lend"), "owners", ()))


def _rows(batch):
    """The rows of a batch: those of its first array; None without an array."""
    while isinstance(batch, (tuple, list, dict)):
        if not batch:
            return None
        batch = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
    shape = getattr(batch, "shape", None)
    return int(shape[0]) if shape else None


class HostEvent:
    """A moment of this thread, as torch.cuda.Event is one of the device."""

    def __init__(self, enable_timing):
        pass

    def record(self):
        self._s = time.perf_counter()

    def query(self):
        return True

    def synchronize(self):
        pass

    def elapsed_time(self, later):
        return 1e3 * (later._s - self._s)


class _Clock:
    """Steps, and waits between them, by events before and after each step: of this thread or, on
    the current stream, of the device.  Events are read when they are over, so no step waits for
    them."""

    def __init__(self, kind, event):
        self.kind, self._event = kind, event
        self.step_s = self.wait_s = 0.0
        self.steps = self.waits = 0
        self._pending = collections.deque()
        self._ended = None

    def _now(self):
        event = self._event(enable_timing=True)
        event.record()
        return event

    def begin(self):
        self._began = self._now()

    def end(self):
        self._pending.append((self._began, self._now()))
        self.read(_PENDING)

    def read(self, most=0):
        """What is over, and all but `most` of the rest."""
        while self._pending and (len(self._pending) > most or self._pending[0][1].query()):
            began, ended = self._pending.popleft()
            ended.synchronize()
            self.step_s += began.elapsed_time(ended) / 1e3
            self.steps += 1
            if self._ended is not None:
                self.wait_s += self._ended.elapsed_time(began) / 1e3
                self.waits += 1
            self._ended = ended

    def leave(self):
        """Ends a sequence of steps: the time until the next one is not a wait."""
        self.read()
        self._ended = None


def _clock():
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        return _Clock("cuda", torch.cuda.Event)
    return _Clock("host", HostEvent)


class Timing:
    """Epochs of one loader."""

    def __init__(self, loader):
        self.workers = getattr(loader, "num_workers", None)
        self.root = getattr(getattr(loader, "dataset", None), "root", None)
        self.batch_size = getattr(loader, "batch_size", None)
        self.epochs = self.batches = self.samples = self.most_rows = 0
        self.first_s = 0.0  # until each epoch's first batch
        self.clock = None
        self.stalls = None  # of a loader of Sluice's
        self.usage = _usage.Usage()
        self._before = None

    def run(self, loader, start):
        """What start() iterates over: an epoch of the loader."""
        self.end()  # of an iterator that was left, and never closed
        self._before = _usage.now()
        self.epochs += 1
        epoch = self.epochs
        began = time.perf_counter()
        is_first = True
        try:
            for batch in start():
                if is_first:
                    self.first_s += time.perf_counter() - began
                    is_first = False
                    self.clock = self.clock or _clock()
                rows = _rows(batch) or self.batch_size or 1
                self.samples += rows
                self.most_rows = max(self.most_rows, rows)
                self.batches += 1
                self.clock.begin()
                try:
                    yield batch
                finally:
                    self.clock.end()
                del batch
            if isinstance(loader, Batches):
                self.stalls = loader.stats()["stalls"]
        finally:
            if self.epochs == epoch:
                self.end()

    def read(self):
        """Up to now."""
        if self._before is not None:
            before, self._before = self._before, _usage.now()
            self.usage += self._before - before
        if self.clock is not None:
            self.clock.read()

    def end(self):
        """Of the epoch under way, if there is one."""
        self.read()
        self._before = None
        if self.clock is not None:
            self.clock.leave()


class Report:
    """What a loop waited for.  print() shows it; `found` is a dict of the same."""

    def __init__(self, timing):
        clock, usage = timing.clock, timing.usage
        if clock is None or not clock.steps:
            raise sluice.InvalidError("no step was seen: the loop took no batch")
        step_s = clock.step_s / clock.steps
        wait_s = clock.wait_s / clock.waits if clock.waits else timing.first_s / timing.epochs
        rows = timing.samples / timing.batches
        batch_s = max(step_s + wait_s, 1e-9)
        seconds = max(usage.seconds, 1e-9)
        cores = _usage.cores()
        self.found = {
            "samples": timing.samples, "batches": timing.batches, "epochs": timing.epochs,
            "seconds": usage.seconds, "batch_size": timing.most_rows, "rows": rows,
            "samples_per_s": rows / batch_s,
            "wait": wait_s / batch_s, "wait_s": wait_s, "step_s": step_s, "clock": clock.kind,
            "first_batch_s": timing.first_s / timing.epochs, "workers": timing.workers,
            "stalls": timing.stalls, "lends": _lends(), "cores": cores, "own_cores": usage.own_cpu_s / seconds,
            "child_cores": usage.child_cpu_s / seconds,
            "machine_cores": usage.machine_cpu_s / seconds,
            "disk_bytes_per_s": usage.disk_bytes / seconds,
            "network_bytes_per_s": usage.network_bytes / seconds}
        self.found["limit"], self._because = self._limit(self.found)
        self.found["command"] = self._command(timing)

    @staticmethod
    def _limit(found):
        """What limits the loop, and a sentence about it."""
        own, children, cores = found["own_cores"], found["child_cores"], found["cores"]
        workers, used = found["workers"], own + children
        others = max(found["machine_cores"] - used, 0.0)
        idle = f"{cores - used:.1f} of {cores:g} cores are idle."
        if found["wait"] < _READY:
            return "step", ""
        if found["stalls"]:
            waits = {name: found["stalls"][name] for name in found["stalls"] if name != "trainer"}
            limit = _words.WAITS[max(waits, key=waits.get)]
            return limit, f"The {limit} limits it, says the loader's stats()."
        if used + others >= _BUSY * cores:
            with_others = f", {others:.1f} of them with other programs" * (others >= 0.25 * cores)
            return "compute CPU", (f"The compute CPU limits it: {used + others:.1f} of {cores:g} "
                                   f"cores are busy{with_others}.")
        if not workers and _BUSY <= own < 2 - _BUSY:
            return "one thread", f"One thread loads and trains by turns, while {idle}"
        if workers and children >= _BUSY * workers:
            return "workers", f"The loader's {workers} workers are always busy, while {idle}"
        return "reading", (f"No core is short ({used:.1f} of {cores:g} are busy), so it waits for "
                           f"reading, or for something else that is no work of the CPU.")

    def _command(self, timing):
        root = timing.root if isinstance(timing.root, (str, os.PathLike)) else None
        source = shlex.quote(os.path.abspath(root)) if root else "HOST:PORT"
        return (f"python -m sluice.doctor {source} --batch-size {self.found['batch_size']} "
                f"--step-ms {self.found['step_s'] * 1e3:.3g}")

    @property
    def step_samples_per_s(self):
        return self.found["rows"] / max(self.found["step_s"], 1e-9)

    def lines(self, with_advice=True):
        found = self.found
        wait, cores = found["wait"], found["cores"]
        own, children = found["own_cores"], found["child_cores"]
        device = " of the GPU" if found["clock"] == "cuda" else ""
        yield (f"Your loop: {_words.number(found['samples_per_s'])} samples/s; "
               f"{_words.number(found['samples'])} samples in {_words.seconds(found['seconds'])}, "
               f"{found['batch_size']} a batch")
        others = found["machine_cores"] - own - children
        for name, text in (
                ("waits for data", f"{_words.percent(wait):5}  {_words.seconds(found['wait_s'])} a batch"),
                ("step" + device, f"{_words.percent(1 - wait):5}  {_words.seconds(found['step_s'])} a batch"),
                ("CPU", f"{own + children:.1f} of {cores:g} cores: {own:.1f} this process, "
                        f"{children:.1f} its workers"),
                ("", f"{others:.1f} cores other programs" if others >= 0.1 * cores else None),
                ("disk", f"{_words.size(found['disk_bytes_per_s'])}/s read"),
                ("network", f"{_words.size(found['network_bytes_per_s'])}/s received"),
                ("first batch", f"{_words.seconds(found['first_batch_s'])} after an epoch's start, not "
                                f"counted above")):
            if text:
                yield f"  {name:16}{text}"
        yield ""
        yield from _words.wrap(self.verdict())
        if not with_advice:
            return
        yield ""
        yield from _words.wrap(self.advice())
        if found["limit"] not in ("step", "python_tail") and not self._lacks_workers():
            yield "  " + found["command"]
        if found["clock"] == "cuda" and found["limit"] != "step" and not found["lends"] and _is_alone():
            yield ""
            yield from _words.wrap(self.idle_advice())

    def verdict(self):
        wait = _words.percent(self.found["wait"])
        if self.found["limit"] == "step":
            return (f"The step is the limit: the loop waits for data only {wait} of its time. "
                    f"No loader can make it faster by more than that.")
        return (f"The loop waits for data {wait} of its time. {self._because} With data always "
                f"ready it would do {_words.number(self.step_samples_per_s)} samples/s (forecast from "
                f"its step).")

    def _lacks_workers(self):
        """Whether a DataLoader has fewer than there are cores, and these are idle."""
        workers = self.found["workers"]
        return (self.found["limit"] in ("one thread", "workers") and workers is not None
                and workers < int(self.found["cores"]))

    def advice(self):
        if self.found["limit"] == "step":
            return "To do: nothing about data. Make the step faster, or use more devices."
        if self._lacks_workers():
            return (f"To do: give the loader more workers, DataLoader(..., "
                    f"num_workers={int(self.found['cores'])}).")
        if self.found["limit"] == "python_tail":
            return ("To do: give the function more processes, python_tail_workers=, if cores are idle; or make it faster, "
                    "or let an op take its place.")
        if self.found["stalls"]:
            return "To do: see what more of it would bring:"
        where = "" if "HOST:PORT" not in self.found["command"] else \
            "; HOST:PORT is an offload_server on the node that has the files, or a folder"
        return f"To do: see what Sluice gives in its place{where}:"

    def idle_advice(self):
        return (f"Your GPU idles {_words.percent(self.found['wait'])} of the time: lend it to a server, which answers requests "
                "meanwhile (sluice.torch.Loader(..., lend=PATH) or sluice.lend.Gate).")

    def print(self, file=None):
        print(*self.lines(), sep="\n", file=file or sys.stderr)


class _Watch:
    def __init__(self, loader, quiet):
        self._loader, self._quiet = loader, quiet
        self._timing = None

    def __iter__(self):
        self._timing = timing = Timing(self._loader)
        try:
            yield from timing.run(self._loader, lambda: self._loader)
        finally:
            if not self._quiet and timing.batches and is_first_rank():
                Report(timing).print()

    def __len__(self):
        return len(self._loader)

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def report(self):
        """Of the last epoch, also of one that is under way."""
        if self._timing is None:
            raise sluice.InvalidError("report() of a loader that was not iterated over")
        self._timing.read()
        return Report(self._timing)


def watch(loader, *, quiet=False):
    """The same batches as of the loader, an iterable of batches.  After each epoch, or where it is
    left, a Report is printed on stderr, unless quiet; report() gives it."""
    return _Watch(loader, quiet)
