"""Which resource limits a training loop, and what Sluice would give.

    for images, labels in sluice.doctor.watch(loader): ...      a report on stderr after the epoch

    python -m sluice.doctor SOURCE --step-ms 30                 measures Sluice from SOURCE
    python -m sluice.doctor --script train.py ARGS...           watches a script's DataLoaders
    python -m sluice.doctor SOURCE --script train.py ARGS...    both, one after the other

What it says is measured, or is called a forecast.  docs/PYTHON.md has an example.
"""
import argparse
import collections
import contextlib
import gc
import json
import math
import os
import re
import runpy
import shlex
import socket
import sys
import textwrap
import time
import traceback

import sluice
from sluice import _forecast, _usage
from sluice._batches import Batches, servers

_READY = 0.1   # a loop that waits for less of its time has its data ready
_BUSY = 0.85   # of a core: it, or a thread on it, has no time left
_FAR = 0.4     # logarithm of a ratio: half as much again, or a third less
_WIDTH = 80
_NAMES = {"disk": "disk", "storage_cpu": "storage CPU", "network": "network",
          "compute_cpu": "compute CPU", "receive": "receiving", "pcie": "PCIe", "gpu": "step",
          "trainer": "step"}
_WAITS = {**_NAMES, "gpu": "GPU decoder", "python_tail": "python_tail"}  # of an epoch's stalls
_PENDING = 64  # steps whose events are not looked at yet; more are waited for


# --- the loop of the user ---

def _is_first_rank():
    """Of those that torchrun started: one report is enough."""
    return os.environ.get("RANK", "0") == "0"


def _rows(batch):
    """The rows of a batch: those of its first array; None without an array."""
    while isinstance(batch, (tuple, list, dict)):
        if not batch:
            return None
        batch = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
    shape = getattr(batch, "shape", None)
    return int(shape[0]) if shape else None


class _HostEvent:
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
    return _Clock("host", _HostEvent)


class _Timing:
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
            "stalls": timing.stalls, "cores": cores, "own_cores": usage.own_cpu_s / seconds,
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
            limit = _WAITS[max(waits, key=waits.get)]
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
        yield (f"Your loop: {_number(found['samples_per_s'])} samples/s; "
               f"{_number(found['samples'])} samples in {_time(found['seconds'])}, "
               f"{found['batch_size']} a batch")
        others = found["machine_cores"] - own - children
        for name, text in (
                ("waits for data", f"{_percent(wait):5}  {_time(found['wait_s'])} a batch"),
                ("step" + device, f"{_percent(1 - wait):5}  {_time(found['step_s'])} a batch"),
                ("CPU", f"{own + children:.1f} of {cores:g} cores: {own:.1f} this process, "
                        f"{children:.1f} its workers"),
                ("", f"{others:.1f} cores other programs" if others >= 0.1 * cores else None),
                ("disk", f"{_bytes(found['disk_bytes_per_s'])}/s read"),
                ("network", f"{_bytes(found['network_bytes_per_s'])}/s received"),
                ("first batch", f"{_time(found['first_batch_s'])} after an epoch's start, not "
                                f"counted above")):
            if text:
                yield f"  {name:16}{text}"
        yield ""
        yield from _wrap(self.verdict())
        if not with_advice:
            return
        yield ""
        yield from _wrap(self.advice())
        if found["limit"] not in ("step", "python_tail") and not self._lacks_workers():
            yield "  " + found["command"]

    def verdict(self):
        wait = _percent(self.found["wait"])
        if self.found["limit"] == "step":
            return (f"The step is the limit: the loop waits for data only {wait} of its time. "
                    f"No loader can make it faster by more than that.")
        return (f"The loop waits for data {wait} of its time. {self._because} With data always "
                f"ready it would do {_number(self.step_samples_per_s)} samples/s (forecast from "
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

    def print(self, file=None):
        print(*self.lines(), sep="\n", file=file or sys.stderr)


class _Watch:
    def __init__(self, loader, quiet):
        self._loader, self._quiet = loader, quiet
        self._timing = None

    def __iter__(self):
        self._timing = timing = _Timing(self._loader)
        try:
            yield from timing.run(self._loader, lambda: self._loader)
        finally:
            if not self._quiet and timing.batches and _is_first_rank():
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


# --- a script ---

def _run_script(arguments):
    """Runs a program as __main__ with its DataLoaders watched; returns (exit code, timings)."""
    try:
        from torch.utils.data import DataLoader
    except ImportError as error:
        raise sluice.NotFoundError(
            f"--script watches torch.utils.data.DataLoader, but torch cannot be imported "
            f"({error}): install it, or call sluice.doctor.watch() in the loop") from None
    path = arguments[0]
    try:
        open(path, "rb").close()
    except OSError as error:
        raise sluice.NotFoundError(f"--script {path}: {error.strerror}") from None

    timings = {}
    iterate = DataLoader.__iter__

    def watched(loader):
        data = loader.dataset
        timing = timings.setdefault((id(data), loader.batch_size), (_Timing(loader), data))[0]
        return timing.run(loader, lambda: iterate(loader))

    before = sys.argv
    sys.argv = list(arguments)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    DataLoader.__iter__ = watched
    status = 0
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        if status and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
    except KeyboardInterrupt:
        status = 130
    except BaseException as error:
        at = error.__traceback__
        ours = (__file__, runpy.__file__, "<frozen runpy>")
        while at.tb_next and at.tb_frame.f_code.co_filename in ours:
            at = at.tb_next
        traceback.print_exception(type(error), error, at)
        status = 1
    finally:
        DataLoader.__iter__ = iterate
        sys.argv = before
    gc.collect()  # iterators that the script left
    timings = [timing for timing, _ in timings.values()]
    for timing in timings:
        timing.end()
    return status, timings


def _loop_report(timings):
    """Of the loader that gave most samples: that of training."""
    timings = [timing for timing in timings if timing.samples]
    if not timings:
        raise sluice.InvalidError("--script: it took no batch from a torch.utils.data.DataLoader")
    return Report(max(timings, key=lambda timing: timing.samples))


# --- Sluice ---

def _source_text(source):
    return ", ".join(servers(source)) or os.fspath(source)


def _is_here(source):
    """Whether one of its servers is at an address that is plainly of this machine."""
    addresses = [address for text in servers(source) for address in text.split(",")]
    hosts = [address.rpartition(":")[0].strip("[]") for address in addresses]
    return any(host.startswith("127.") or host in ("", "localhost", "::1", socket.gethostname())
               for host in hosts)


def _advise(found, step_rate, loop):
    """Sentences on what was found by _forecast.examine: what is measured, what follows from the
    step, what more of a resource would bring, and (what to do, the line to use)."""
    source, batch_size = found["source"], found["batch_size"]
    best = max(found["measured"], key=lambda run: run["samples_per_s"])
    rate = best["samples_per_s"]
    limit = best["bound_by"]
    said = [f"Sluice from {_source_text(source)}: {_number(rate)} samples/s ({best['mode']}, measured without a "
            f"step). The {_WAITS[limit]} limits it: {_percent(best['stalls'][limit])} of the time "
            f"went to waiting for it."]
    others = best["machine_cores"] - best["own_cores"]
    if others >= 0.25 * best["cores"]:
        said[0] += (f" Other programs had {others:.1f} of this machine's {best['cores']:g} cores "
                    f"meanwhile{', the server among them' if _is_here(source) else ''}.")
    if loop:
        said[0] = f"Your loop: {_number(loop['samples_per_s'])} samples/s (measured). " + said[0]
    reached = rate
    if step_rate is not None:
        each = f"{_time(1 / step_rate)} a sample, {_number(step_rate)} samples/s"
        reached = min(rate, step_rate)
        if rate >= step_rate:
            shared = ", or less, as a step on the CPU shares its cores with Sluice" \
                if loop and loop["clock"] == "host" else ""
            said.append(f"With it your step is the limit ({each}): forecast "
                        f"{_number(step_rate)} samples/s{shared}.")
        else:
            said.append(f"Your step could take more ({each}): forecast {_number(rate)} samples/s, "
                        f"{_percent(1 - rate / step_rate)} of the time waiting for data.")

    cap = step_rate or float("inf")
    forecast = {run["mode"]: min(run["samples_per_s"], cap) for run in found["forecast"]}
    remote = forecast.get("remote_auto", 0.0)
    gains = {name: min(value, cap) for name, value in found["twice"].items()}
    more = max(gains, key=gains.get, default=None)
    if best["mode"] != "local" and more and gains[more] > 1.1 * remote and reached < cap:
        said.append(f"What would help most is twice the {_forecast.RESOURCES[more]}: forecast "
                    f"{_number(gains[more])} samples/s.")

    if best["mode"] == "local" and remote > 1.2 * max(reached, forecast.get("local", 0.0)):
        todo = (f"To do: serve the folder from a storage node as assumed above, if the files can "
                f"lie there: forecast {_number(remote)} samples/s. There run:",
                f"offload_server --root {shlex.quote(source)} --listen :50051 --insecure")
    elif loop and reached < 1.1 * loop["samples_per_s"]:
        todo = ("To do: keep your loader. Sluice from here brings less than a tenth more.", None)
    else:
        more = ', mode="remote_nooff"' if best["mode"] == "remote_nooff" else ""
        more += ', device="cuda"' if loop and loop["clock"] == "cuda" else ""
        todo = ("To do: take the batches from Sluice:",
                f"loader = sluice.torch.Loader({json.dumps(source)}, {batch_size}{more})")
    return said, todo


def _doubt(measured, forecasts):
    """A sentence where measured and forecast are far apart."""
    ratios = {mode: forecasts[mode]["samples_per_s"] / measured[mode]["samples_per_s"]
              for mode in measured if mode in forecasts}
    mode = max(ratios, key=lambda mode: abs(math.log(ratios[mode])), default=None)
    if mode is None or abs(math.log(ratios[mode])) < _FAR:
        return ""
    return (f" For {mode} it is {_number(ratios[mode])} times what was measured, so doubt the "
            f"others as much; other programs on these machines, a busy disk, or epochs of few "
            f"batches may be why.")


def _examined_lines(found, step_rate, loop):
    yield (f"{_source_text(found['source'])}: {_number(found['samples'])} training samples, "
           f"batches of {found['batch_size']}")
    yield ""
    forecasts = {run["mode"]: run for run in found["forecast"]}
    measured = {run["mode"]: run for run in found["measured"]}
    yield "                  samples/s                          a sample takes"
    yield "mode           measured  forecast  limited by    network   storage   compute"
    for mode in dict.fromkeys([*measured, *forecasts]):
        run = measured.get(mode, forecasts.get(mode))
        names = _WAITS if mode in measured else _NAMES
        costs = [(_bytes, run["bytes_per_sample"])]
        if mode in forecasts:
            costs += [(_time, forecasts[mode][node]) for node in ("storage_cpu_s", "compute_cpu_s")]
        yield (f"{mode:13}  {_cell(measured, mode):>8}  {_cell(forecasts, mode):>8}  "
               f"{names[run['bound_by']]:11}" +
               "".join(f"  {words(cost) if cost else '-':>8}" for words, cost in costs))
    yield ""
    if found["no_forecast"]:
        yield from _wrap("No forecast: " + found["no_forecast"])
    else:
        machines, origins = found["machines"], found["origins"]
        link = "a link that is never the limit" if machines["net_bw"] is None else \
            f"a link of {_number(machines['net_bw'])} Mbit/s ({origins['net_bw']})"
        storage, compute = (f"{_cores(machines[name], name.partition('_')[0])} ({origins[name]})"
                            for name in ("storage_cpus", "compute_cpus"))
        yield from _wrap(
            f"The forecast is the planner's, by a profile of {found['profile_samples']} samples, "
            f"for {storage}, {link} and {compute} that do nothing else, without a step. Storage "
            f"and compute are CPU time." + _doubt(measured, forecasts))
    said, (todo, line) = _advise(found, step_rate, loop)
    for text in [*said, todo]:
        yield ""
        yield from _wrap(text)
    if line:
        yield "  " + line


# --- words ---

def _number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _cores(count, node):
    return f"{count:g} {node} core{'s' * (count != 1)}"


def _percent(share):
    return f"{100 * share:.0f} %"


def _scaled(value, *units):
    """In the first unit of which there is one, or else in the last."""
    factor, unit = next((u for u in units if value * u[0] >= 1), units[-1])
    return f"{_number(value * factor)} {unit}"


def _time(seconds):
    return _scaled(seconds, (1, "s"), (1e3, "ms"), (1e6, "us"))


def _bytes(count):
    return _scaled(count, (1e-9, "GB"), (1e-6, "MB"), (1e-3, "kB"), (1, "B"))


def _cell(runs, mode):
    return _number(runs[mode]["samples_per_s"]) if mode in runs else "-"


def _wrap(text):
    """Lines; a number stays with its unit."""
    lines = textwrap.wrap(re.sub(r"(\d) ", "\\1\0", text), _WIDTH - 1, break_long_words=False,
                          break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


# --- python -m sluice.doctor ---

def _positive(of):
    def parse(text):
        value = of(text)
        if not 0 < value < float("inf"):
            raise ValueError
        return value
    parse.__name__ = "number above 0"
    return parse


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m sluice.doctor",
        usage="python -m sluice.doctor [SOURCE...] [options] [--script FILE ARGS...]",
        description="Says what limits the training loop of a script, and what Sluice gives from a "
                    "folder or server.")
    parser.add_argument("source", metavar="SOURCE", nargs="*",
                        help="folder of images, or HOST:PORT of an offload_server; replicas between "
                             "commas, or dns:NAME:PORT; one such text for each shard")
    parser.add_argument("--script", metavar="FILE ARGS...",
                        help="run this program with its DataLoaders watched; all that follows is "
                             "its own; Ctrl-C ends it with the report")
    parser.add_argument("--batch-size", type=_positive(int), metavar="N",
                        help="samples in a batch (256, or the script's)")
    step = parser.add_mutually_exclusive_group()
    step.add_argument("--step-ms", type=_positive(float), metavar="T",
                      help="what a step takes by itself, a batch, in milliseconds")
    step.add_argument("--samples-per-s", type=_positive(float), metavar="R",
                      help="the same in samples a second")
    parser.add_argument("--pipeline", metavar="SPEC",
                        help="steps as offload_train --help lists them (ImageNet's usual)")
    parser.add_argument("--seconds", type=_positive(float), default=20.0, metavar="T",
                        help="about how long to measure Sluice (20)")
    machines = parser.add_argument_group("machines to forecast for, if not these")
    machines.add_argument("--net-bw", type=_positive(float), metavar="MBIT",
                          help="of the link, in Mbit/s (measured; 1000 for a folder)")
    machines.add_argument("--storage-cpus", type=_positive(float), metavar="N",
                          help="cores of the storage node (the server says; 4 for a folder)")
    machines.add_argument("--compute-cpus", type=_positive(float), metavar="N",
                          help="cores of the training node (those of this machine)")
    parser.add_argument("--json", action="store_true",
                        help="print one JSON object instead")
    return parser


def main(argv=None):
    argv = list(sys.argv[1:] if argv is None else argv)
    parser = _parser()
    script = None
    if "--script" in argv:
        at = argv.index("--script")
        argv, script = argv[:at], argv[at + 1:]
        if not script:
            parser.error("--script: name the program to run")
    options = parser.parse_args(argv)
    if len(options.source) < 2:
        options.source = options.source[0] if options.source else None
    if options.source is None and script is None:
        parser.error("name a SOURCE (a folder, or HOST:PORT of an offload_server), or --script")
    sluice.set_log_level(sluice.LOG_WARN)
    try:
        return _main(options, script)
    except sluice.Error as error:
        print(f"sluice.doctor: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _main(options, script):
    result = {}
    status, report = 0, None
    batch_size = options.batch_size or 256
    if script is not None:
        status, timings = _run_script(script)
        report = _loop_report(timings)
        result["loop"] = report.found
        batch_size = options.batch_size or report.found["batch_size"]
        if not _is_first_rank():
            return status
        if not options.json:
            print(*report.lines(with_advice=not options.source), sep="\n",
                  file=sys.stdout if options.source else sys.stderr)
    step_rate = options.samples_per_s
    if options.step_ms:
        step_rate = batch_size / options.step_ms * 1e3
    elif step_rate is None and report:
        step_rate = report.step_samples_per_s
    if options.source is not None:
        found = _forecast.examine(
            options.source, batch_size, pipeline=options.pipeline, seconds=options.seconds,
            net_bw=options.net_bw, storage_cpus=options.storage_cpus,
            compute_cpus=options.compute_cpus,
            tell=lambda text: print(f"sluice.doctor: {text}", file=sys.stderr))
        result["sluice"] = found
        result["step_samples_per_s"] = step_rate
        if not options.json:
            if report:
                print()
            print(*_examined_lines(found, step_rate, result.get("loop")), sep="\n")
    if options.json:
        print(json.dumps(result))
    return status


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
