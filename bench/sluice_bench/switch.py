"""The command line of bench/switch: PipeSwitch's figures 5 to 9 (Bai et al., OSDI 2020) on one GPU.

A training has the GPU, a client asks for an inference, and what counts is the client's time until
the reply, or the replies within a time.  One client and one wire measure every system of
switch_systems.py.  Each output is compared with torchvision's in float32.

    rows.csv              a line for each measurement; a call that is repeated makes the missing ones
    settings.json         the machine, and what must not change between two calls
    offload_switch.jsonl  a line for each run of it: what it counted
    processes.log         what all processes wrote to standard error
    cells.csv             medians of the rows, made anew each time, as are figures/ and index.html
"""
import argparse
import array
import collections
import json
import math
import os
import pathlib
import queue
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

from . import hosts, records, switch_page, switch_systems, switch_wire
from .reproduce import TOP, UNFINISHED, commit

ROW_FIELDS = ("measure", "system", "model", "cycle_s", "number", "answers", "per_s", "mean_ms",
              "median_ms", "min_ms", "max_ms", "worst_error", "why", "commit", "date", "command",
              "latencies_ms")
FIGURES = {figure.number: figure for figure in switch_page.FIGURES}
WAYS = {"ready", "copy"}.union(*(figure.systems for figure in switch_page.FIGURES
                         if figure.measure == "engine"))
# Largest relative error (the norm of the difference over that of torchvision's outputs).  Outputs of
# different images differ by MIN_SPREAD at least, so a mistaken output is found.
LIMITS = {"bf16": 0.06, "tf32": 0.01, "fp32": 0.001}
MIN_SPREAD = 0.15
GAP_S = 0.15  # between two requests, so that the training is at work when the next one comes
MANY = 100  # requests of a system that needs no training
# Seconds that a start and a measurement take on an H100, about, for --max-seconds.
START_S = {"ready": 20, "ours": 60, "alone": 20, "mps": 25, "restart": 1, "next": 25, "engine": 1}
EACH_S = {"ready": 0, "ours": 2, "alone": 2, "mps": 9, "restart": 15, "next": 2, "engine": 30}

Cell = collections.namedtuple("Cell", "measure system model cycle_s number")
SYSTEMS = {kind.NAME: kind for kind in (
    switch_systems.Ready, switch_systems.Ours, switch_systems.Alone, switch_systems.Mps,
    switch_systems.Next, switch_systems.Restart)}
ORDER = ("ready", "ours", "engine", "mps", "alone", "next", "restart")  # the time may be over before the end
ERRORS = (switch_systems.Failed, switch_wire.WireError, OSError, subprocess.SubprocessError,
          queue.Empty, ValueError)


def say(text):
    print(text, flush=True)


class Bench:
    def __init__(self, options):
        self.options = options
        os.makedirs(options.out, exist_ok=True)
        self.table = records.Table(self.path("rows.csv"), ROW_FIELDS)
        self.started = time.monotonic()
        cpus = sorted(os.sched_getaffinity(0))
        self.server_cpus = self.train_cpus = cpus
        if len(cpus) >= 8:  # the client, the servers and the training do not meet
            os.sched_setaffinity(0, cpus[:1])
            self.server_cpus, self.train_cpus = cpus[1:len(cpus) // 2], cpus[len(cpus) // 2:]

    def path(self, name):
        return os.path.join(self.options.out, name)

    # --- what there is to do ---

    def cells(self):
        """What the figures need, and no row has."""
        options = self.options
        wanted = []
        for figure in options.figures:
            measure, systems = FIGURES[figure].measure, FIGURES[figure].systems
            for system in ("engine",) if measure == "engine" else systems:
                if system not in options.systems:
                    continue
                if measure == "throughput":
                    wanted += [Cell(measure, system, options.models[0], cycle, number)
                               for cycle in options.cycles
                               for number in range(max(1, options.rounds // cycle))]
                else:
                    wanted += [Cell(measure, system, model, 0, 0) for model in options.models]
        done = {(row["measure"], row["system"], row["model"], float(row["cycle_s"]),
                 int(row["number"])) for row in self.table.rows if not row["why"]}
        for model in options.models:  # one call of bench_switch gives all rows of a model
            if WAYS <= {cell[1] for cell in done if cell[0] == "engine" and cell[2] == model}:
                done.add(("engine", "engine", model, 0, 0))
        return [cell for cell in dict.fromkeys(wanted) if tuple(cell) not in done]

    def expected(self, cell):
        options = self.options
        num = self.num_requests(cell.system)
        if cell.measure == "throughput":
            return 2 * cell.cycle_s + EACH_S[cell.system]
        if cell.system == "engine":
            return EACH_S["engine"]
        per_request = options.train_seconds + EACH_S[cell.system] \
            if cell.system in ("restart", "next") else GAP_S
        return num * per_request + options.train_seconds + EACH_S[cell.system]

    def has_time(self, seconds):
        return time.monotonic() - self.started + seconds <= self.options.max_seconds

    def num_requests(self, system):
        options = self.options
        return {"ready": MANY, "alone": MANY, "restart": options.restarts, "next": 2 * options.restarts}.get(
            system, options.requests) if not options.quick else 2

    # --- measuring ---

    def prepare(self):
        """Weights, the input and torchvision's outputs, unless they are there."""
        options = self.options
        told = options.work / "prepared.json"
        wanted = {"models": options.models, "batch": options.batch, "device": options.device}
        if told.exists():
            found = json.loads(told.read_text())
            if found["wanted"] == wanted:
                return found
        say("makes weights and torchvision's outputs")
        with Torch(self) as system:
            child = system.torch("prepare", *system.all_models())
            found = child.said("models", 2 * switch_systems.START_S)
            child.process.wait(switch_systems.START_S)
        found["wanted"] = wanted
        for name, model in found["models"].items():
            if not model["spread"] >= MIN_SPREAD:
                raise ValueError(f"outputs of {name} differ by {model['spread']:.3f} alone: a "
                                 "comparison would find no mistake")
        told.write_text(json.dumps(found))
        return found

    def keep_settings(self, prepared):
        """The first call writes them.  Raises ValueError where a later one differs."""
        options = self.options
        now = {"device": prepared["device"], "torch": prepared["torch"],
               "cudnn": prepared["cudnn"], "models": options.models, "batch": options.batch,
               "train_batch": options.train_batch, "precision": options.precision}
        path = pathlib.Path(self.path("settings.json"))
        if path.exists():
            before = json.loads(path.read_text())
            for key, value in now.items():
                if before[key] != value:
                    raise ValueError(f"{options.out} was measured with {key} {before[key]!r}, and "
                                     f"this is {value!r}: take another --out")
            return
        found = {name: {key: model[key] for key in ("bytes", "parameters")}
                 for name, model in prepared["models"].items()}
        path.write_text(json.dumps({**now, "weights": found, "machine": hosts.machine(),
                                    "torchvision": prepared["torchvision"],
                                    "copy_gb_per_s": prepared["copy_gb_per_s"],
                                    "driver": driver()}, indent=1))

    def check(self, answered, sent):
        """The largest relative error, if each request had an answer and all are right."""
        num, worst = answered
        if num != sent:
            raise switch_systems.Failed(f"{num} outputs of {sent} requests")
        limit = LIMITS[self.options.precision]
        if worst is not None and not worst <= limit:
            raise switch_systems.Failed(
                f"an output is off by {worst:.3g} of torchvision's; the limit is {limit}")
        return worst

    def latency(self, system, cell, request):
        options = self.options
        num_warm = 0 if options.quick else {"restart": 0, "next": 1}.get(cell.system, 3)
        found, worst = [], 0.0
        for number in range(num_warm + self.num_requests(cell.system)):
            if system.TRAINS and (number == 0 or system.PER_REQUEST):
                system.train(cell.model)
                time.sleep(options.train_seconds)
            with system.connect() as client:
                seconds = client.ask(request)
            worst = max_error(worst, self.check(system.answered(cell.model, 1), 1))
            if number >= num_warm:
                found.append(seconds)
            if system.TRAINS:
                time.sleep(GAP_S)
        return found, worst

    def throughput(self, system, cell, request):
        """As the published client: replies within a cycle, after one in which the training had the
        GPU."""
        if system.TRAINS:
            system.train(cell.model)
            time.sleep(cell.cycle_s)
        found, left = [], cell.cycle_s
        with system.connect() as client:
            while left > 0:
                found.append(client.ask(request))
                left -= found[-1]
        return found, self.check(system.answered(cell.model, len(found)), len(found))

    def measure(self, system, cell):
        data = (self.options.work / "input.f32").read_bytes()
        request = switch_wire.request_bytes(f"{cell.model}_inference", data)
        try:
            if cell.measure == "latency":
                found, worst = self.latency(system, cell, request)
                row = {"latencies_ms": " ".join(f"{1e3 * one:.3f}" for one in found)}
            else:
                found, worst = self.throughput(system, cell, request)
                row = {"per_s": (len(found) - 1) / cell.cycle_s}  # the last one came too late
        finally:
            system.stop_training()
        self.add(cell, answers=len(found), worst_error=worst, command=system.command,
                 **summary_of(found), **row)

    def engine(self, cell):
        """bench_switch, which holds that the outputs of all its ways are those of ready."""
        options = self.options
        logits = options.work / "bench_switch.logits.f32"
        command = [options.bin.parent / "bench/bench_switch", "--json", "--device", self.device(),
                   "--arch", cell.model, "--weights", options.work / f"{cell.model}.safetensors",
                   "--input", options.work / "input.f32", "--logits", logits, "--batch-size",
                   options.batch, "--precision", options.precision,
                   *(("--rounds", 2) if options.quick else ())]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              timeout=switch_systems.START_S, check=False)
        if done.returncode != 0:
            raise switch_systems.Failed(f"bench_switch: {done.stderr.strip()[-300:]}")
        worst = self.check((1, self.error_of(cell.model, logits.read_bytes())), 1)
        found = [json.loads(line) for line in done.stdout.splitlines()]
        if not WAYS <= {one["way"] for one in found}:
            raise switch_systems.Failed(f"bench_switch printed {len(found)} rows")
        for one in found:
            self.add(cell._replace(system=one["way"]), worst_error=worst, answers=2 if options.quick
                     else 30, median_ms=one["us"] / 1e3, min_ms=one["least"] / 1e3,
                     max_ms=one["most"] / 1e3, command=shlex.join(map(str, command)))

    def device(self):
        """Of our programs."""
        return "none" if self.options.device == "cpu" else self.options.device

    def error_of(self, model, logits):
        """Relative error of our outputs, as bytes of float32.  None with device none, whose outputs
        are others."""
        wanted = (self.options.work / f"{model}.logits.f32").read_bytes()
        if len(logits) != len(wanted):
            raise switch_systems.Failed(f"logits of {len(logits)} bytes, not {len(wanted)}")
        if self.options.device == "cpu":
            return None
        found, wanted = array.array("f", logits), array.array("f", wanted)
        return math.dist(found, wanted) / math.hypot(*wanted)

    def add(self, cell, **fields):
        row = {**dict.fromkeys(ROW_FIELDS, ""), **cell._asdict(), "commit": commit(),
               "date": hosts.now(), **{key: "" if value is None else f"{value:.6g}"
                                       if isinstance(value, float) else value
                                       for key, value in fields.items()}}
        self.table.append(row)
        say(line_of(row))

    def keep_report(self, report):
        """Of a run of offload_switch."""
        with open(self.path("offload_switch.jsonl"), "a", encoding="utf-8") as file:
            file.write(json.dumps({"date": hosts.now(), **report}) + "\n")

    def fail(self, cell, error):
        self.add(cell, why=switch_page.one_line(str(error) or type(error).__name__))

    # --- the loop ---

    def run(self):
        """Whether every cell was tried."""
        todo = self.cells()
        say(f"{len(todo)} measurements to make")
        if not todo:
            return True
        self.keep_settings(self.prepare())
        for name in ORDER:
            cells = [cell for cell in todo if cell.system == name]
            while cells:
                if not self.has_time(START_S[name] + self.expected(cells[0])):
                    say("--max-seconds: the same call goes on")
                    return False
                if name == "engine":
                    self.attempt(cells, lambda cell: self.engine(cell))
                elif not self.run_system(SYSTEMS[name], cells):
                    say("--max-seconds: the same call goes on")
                    return False
        return True

    def attempt(self, cells, measure):
        """Works off the first of the cells.  Whether it was measured."""
        cell = cells.pop(0)
        try:
            measure(cell)
            return True
        except ERRORS as error:
            self.fail(cell, error)
            return False

    def run_system(self, kind, cells):
        """Works off cells until one fails, after which the system has to be started anew.  False: no
        time is left."""
        try:
            with kind(self) as system:
                while cells:
                    if not self.has_time(self.expected(cells[0])):
                        return False
                    if not self.attempt(cells, lambda cell: self.measure(system, cell)):
                        return True
        except ERRORS as error:  # it does not start, so none of its cells can be measured
            for cell in cells:
                self.fail(cell, error)
            cells.clear()
        return True


class Torch(switch_systems.System):
    """For a process of PyTorch that is no server."""

    def start(self):
        pass


def max_error(a, b):
    return None if a is None or b is None else max(a, b)


def summary_of(seconds):
    ms = [1e3 * one for one in seconds]
    return {"mean_ms": statistics.fmean(ms), "median_ms": statistics.median(ms),
            "min_ms": min(ms), "max_ms": max(ms)}


def driver():
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                              capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip().split("\n")[0]


def line_of(row):
    where = f"{row['measure']}, {row['system']}, {row['model']}"
    if float(row["cycle_s"]):
        where += f", {row['cycle_s']} s"
    if row["why"]:
        return f"{where}: LEFT OUT: {row['why']}"
    text = f"{where}: {row['median_ms']} ms ({row['min_ms']} to {row['max_ms']})"
    if row["per_s"] != "":
        text += f", {row['per_s']} batches/s"
    return text + f", error {row['worst_error'] or 'not known'}"


# --- command line ---

def _listed(kind, allowed=None):
    def parse(text):
        try:
            found = [kind(word) for word in text.split(",")]
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
        if allowed and not set(found) <= set(allowed):
            raise argparse.ArgumentTypeError(f"{text}: of {', '.join(map(str, allowed))}")
        return found
    return parse


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="bench/switch", description="Runs PipeSwitch's experiments (figures 5 to 9 of its "
        "paper) with offload_switch on one GPU.",
        epilog="A call that is repeated goes on; what could not be measured is tried again. Exit "
        f"code {UNFINISHED}: --max-seconds are over and measurements are left.")
    parser.add_argument("--out", metavar="FOLDER", help="Where rows, figures and page go.")
    parser.add_argument("--draw", metavar="FOLDER",
                        help="Only makes cells.csv, figures and page of the rows in FOLDER.")
    parser.add_argument("--figures", type=_listed(int, FIGURES), default=list(FIGURES),
                        metavar="N,...", help="Of 5 to 9 (all).")
    parser.add_argument("--systems", type=_listed(str, ORDER), default=list(ORDER),
                        metavar="NAME,...", help=f"Of {', '.join(ORDER)} (all).")
    parser.add_argument("--models", type=_listed(str), default=["resnet152", "vgg16", "alexnet"],
                        metavar="NAME,...", help="Names of torchvision (resnet152,vgg16,alexnet); figure 6 is of the "
                        "first.")
    parser.add_argument("--batch", type=int, default=8, metavar="N",
                        help="Images of a request (8).")
    parser.add_argument("--train-batch", type=int, default=32, metavar="N",
                        help="Images of a step of training (32).")
    parser.add_argument("--precision", choices=tuple(LIMITS), default="bf16",
                        help="Of inference and training (bf16).")
    parser.add_argument("--requests", type=int, default=20, metavar="N",
                        help="Inferences of a model while it trains (20).")
    parser.add_argument("--restarts", type=int, default=2, metavar="N",
                        help="The same where the training is started again for each (2).")
    parser.add_argument("--train-seconds", type=float, default=1, metavar="S",
                        help="How long a training runs before the first inference (1).")
    parser.add_argument("--cycles", type=_listed(int), default=[1, 2, 5, 10, 30], metavar="S,...",
                        help="Seconds of training and of inferences in turn (1,2,5,10,30).")
    parser.add_argument("--rounds", type=int, default=2, metavar="N",
                        help="Cycles of one second; N / S of S seconds, at least one (2).")
    parser.add_argument("--quick", action="store_true",
                        help="Two requests of each kind, cycles of 1 and 2 s: shows that it runs.")
    parser.add_argument("--max-seconds", type=float, default=math.inf, metavar="S",
                        help="Starts no measurement that would end later.")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda",
                        help="cpu: PyTorch runs on it, and offload_switch with --device none; for "
                        "tests.")
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path(os.environ.get(
        "SLUICE_BIN", os.path.join(TOP, "build/release-cuda/bin"))), metavar="FOLDER",
                        help="The programs (build/release-cuda/bin); bench_switch is in ../bench.")
    parser.add_argument("--work", type=pathlib.Path, metavar="FOLDER",
                        default=pathlib.Path(tempfile.gettempdir(), "sluice-switch"),
                        help="For weights and outputs, which are made where they are missing: 1 GB "
                        "(sluice-switch in the folder for temporary files).")
    options = parser.parse_args(arguments)
    if bool(options.draw) == bool(options.out):
        parser.error("either --out FOLDER or --draw FOLDER is needed")
    if min(options.batch, options.train_batch, options.requests, options.restarts,
           options.rounds, *options.cycles) < 1:
        parser.error("numbers are above 0")
    if options.quick:
        options.cycles = [cycle for cycle in options.cycles if cycle <= 2] or options.cycles[:1]
        options.rounds = 1
    options.bin, options.work = options.bin.resolve(), options.work.resolve()
    return options


def main(arguments=None):
    options = parse_arguments(arguments)
    is_done = True
    try:
        if options.out:
            is_done = Bench(options).run()
        for line in switch_page.draw(options.out or options.draw, ROW_FIELDS):
            say(line)
    except ERRORS as error:
        print(f"switch: {error}", file=sys.stderr)
        return 1
    if not is_done:
        return UNFINISHED
    return 0
