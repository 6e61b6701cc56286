"""Training with JPEGs decoded on the GPU (--gpu-decode), against the same with the CPU's decoder.

usage: decode_loop DIR [options]

Starts offload_train, and offload_server for mode remote_auto, both on this machine, and reads the
trainer's metrics: samples and CPU time between two batches, some seconds after the first one.  What
is compared takes turns; a ratio is of one round.

  digests   the same epoch with the GPU and without, in four modes: one digest
  host      the same modes with --device none, with an index of the JPEGs and without
  train     models that are fed, beside the step alone (bench_train), with few workers and with many
  cells     links x cores of the server x workers x models, with --gpu-decode auto, on and off

Exit codes: 0; 1 if a measurement failed or a digest differs: the rest is measured all the same.
"""
import argparse
import collections
import itertools
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from . import hosts, image_files

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PARTS = ("digests", "host", "train", "cells")
MODES = {"local": ("local",), "remote_auto": ("remote_auto",),
         "crop": ("remote_nooff", "--remote-form", "jpeg_crop"),  # a cut file of each sample
         "rows": ("remote_nooff", "--remote-form", "jpeg_rows")}  # the rows of it
TIMEOUT_S = 30  # of a process that shows nothing
POLL_S = 0.004
EPOCH = 400_000  # samples: longer than anybody looks
LEARNING_RATE = "1e-4"  # bears any length

# link: "" for none; index: whether there is one of the JPEGs.
Point = collections.namedtuple("Point", "part model mode index workers prep link")


class Failed(Exception):
    pass


def name_of(point):
    words = [point.model, point.mode, f"-j {point.workers}"]
    if point.mode != "local":
        words += [f"{point.prep} prep", point.link or "no limit"]
    return ", ".join(words + ["index" if point.index else "no index"])


# --- processes ---

class Server:
    def __init__(self, options, point):
        self.process = hosts.spawn(
            [options.bin / "offload_server", "--root", options.folder, "--listen", "127.0.0.1:0",
             "--prep-workers", point.prep, "--log-level", "error",
             "--jpeg-index", "auto" if point.index else "off",
             *(["--link-limit", point.link] if point.link else [])],
            stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            self.close()
            raise Failed(f"offload_server said {line!r}")
        self.address = line.split()[-1]

    def cpu_seconds(self):
        return hosts.cpu_seconds(self.process.pid)

    def close(self):
        hosts.end(self.process)
        self.process.stdout.close()


def command_of(options, point, variant, server):
    where = ["--host", server.address] if server else \
        [options.folder, "--jpeg-index", "auto" if point.index else "off"]
    device = "none" if point.model == "none" else options.device
    learns = [] if device == "none" else ["-a", point.model, "--lr", LEARNING_RATE]
    return [str(word) for word in (
        options.bin / "offload_train", *where, "--dataset-mode", *MODES[point.mode],
        "-j", point.workers, "-b", options.batch,
        *(["--pipeline", options.pipeline] if options.pipeline
          else ["--image-size", options.image_size]),
        "--device", device, *learns, "--gpu-decode", variant, "-p", 0, "--no-val")]


class Trainer:
    """An offload_train that goes on until it is closed, seen by its metrics."""

    def __init__(self, command, log):
        self.log = log
        self.process = hosts.spawn([*command, "--epochs", 1000, "--metrics", "127.0.0.1:0"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
        self.url = f"http://127.0.0.1:{self._port()}/metrics"

    def _said(self):
        return os.pread(self.log.fileno(), os.fstat(self.log.fileno()).st_size, 0).decode()

    def _check(self, deadline, what):
        """Raises Failed if it has ended, or the deadline is over."""
        if self.process.poll() is not None:
            lines = self._said().splitlines() or ["nothing"]
            raise Failed(f"it ended with {self.process.returncode} and said {lines[-1]}")
        if time.monotonic() > deadline:
            raise Failed(f"no {what} within {TIMEOUT_S} s")

    def _port(self):
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            found = re.search(r"metrics at port (\d+)", self._said())
            if found:
                return found.group(1)
            self._check(deadline, "metrics")
            time.sleep(POLL_S)

    def look(self):
        """The time, and the value of each series by what stands before it on the page."""
        try:
            with urllib.request.urlopen(self.url, timeout=TIMEOUT_S) as page:
                lines = page.read().decode().splitlines()
        except OSError:  # it ends
            self.process.wait(TIMEOUT_S)
            self._check(0, "page")
        found = (line.rsplit(" ", 1) for line in lines if line and line[0] != "#")
        return time.monotonic(), {series: float(value) for series, value in found}

    def next_batch(self):
        """The same, just after a batch came."""
        deadline = time.monotonic() + TIMEOUT_S
        samples = None
        while True:
            at, page = self.look()
            if samples is not None and page["sluice_trainer_samples_total"] != samples:
                return at, page
            samples = page["sluice_trainer_samples_total"]
            self._check(deadline, "batch")
            time.sleep(POLL_S)

    def close(self):
        hosts.end(self.process)


def family(page, name):
    """Sum over its series."""
    return sum(value for series, value in page.items() if re.fullmatch(name + r"(\{.*\})?", series))


def watch(options, trainer, server):
    """What happens in a window of options.seconds."""
    start, _ = trainer.next_batch()
    while time.monotonic() < start + options.warm_seconds:
        time.sleep(POLL_S)
    begin, before = trainer.next_batch()
    server_cpu = server.cpu_seconds() if server else 0
    end, after = begin, before
    while end < begin + options.seconds:
        end, after = trainer.next_batch()
    server_cpu = server.cpu_seconds() - server_cpu if server else 0
    grown = {series: value - before.get(series, 0) for series, value in after.items()}
    samples = family(grown, "sluice_trainer_samples_total")
    arrived = family(grown, "sluice_trainer_choices_total")
    prefix = "sluice_trainer_stall_seconds_total"
    return {
        "per_s": samples / (end - begin),
        "cpu_us": 1e6 * family(grown, "sluice_trainer_process_cpu_seconds_total") / samples,
        "storage_cpu_us": 1e6 * server_cpu / samples,
        "bytes": family(grown, "sluice_trainer_wire_bytes_total") / samples,
        "gpu_share": family(grown, "sluice_trainer_gpu_decoded_samples_total") / max(arrived, 1),
        "stalls": {series[len(prefix) + 8:-2]: round(value / (end - begin), 3)
                   for series, value in grown.items() if series.startswith(prefix) and value > 0},
        "choices": {f"{form}@{split}": round(grown[series] / max(arrived, 1), 3)
                    for series in grown for split, form in re.findall(
                        r'sluice_trainer_choices_total\{split="(\d+)",form="(\w+)"\}', series)
                    if grown[series] > 0},
    }


def run_once(options, point, variant):
    server = Server(options, point) if point.mode != "local" else None
    try:
        command = command_of(options, point, variant, server)
        with tempfile.TemporaryFile() as log:
            trainer = Trainer([*command, "--repeat", options.repeat], log)
            try:
                return watch(options, trainer, server)
            finally:
                trainer.close()
    finally:
        if server:
            server.close()


# --- parts ---

def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def measure(options, point, step_per_s):
    """Its row: rates of each variant, in turns, and of one round on / off."""
    variants = ("on", "off") if point.part != "cells" or point.model == "none" else \
        ("auto", "on", "off")
    runs = {variant: [] for variant in variants}
    for number in range(options.rounds):
        for variant in variants if number % 2 == 0 else variants[::-1]:
            runs[variant].append(run_once(options, point, variant))
    of = {variant: spread([run["per_s"] for run in runs[variant]]) for variant in variants}
    middle = {variant: min(runs[variant], key=lambda run: abs(run["per_s"] - of[variant]["median"]))
              for variant in variants}
    row = {
        "name": name_of(point), "us": 1e6 / of["on"]["median"], "bytes": middle["on"]["bytes"],
        "reference_us": 1e6 / of["off"]["median"],
        "ratio": statistics.median(on["per_s"] / off["per_s"]
                                   for on, off in zip(runs["on"], runs["off"])),
        "per_s": of, **point._asdict(), "rounds": options.rounds, "batch": options.batch,
        "runs": {variant: {key: value for key, value in middle[variant].items() if key != "per_s"}
                 for variant in variants}}
    if step_per_s:
        row["step_per_s"] = step_per_s
        row["of_step"] = {variant: of[variant]["median"] / step_per_s for variant in variants}
    return row


def step_alone(options, model):
    """Samples per second of batches that are always there; None: there is no such program, or it
    failed."""
    program = options.bin.parent / "bench/bench_train"
    if model == "none" or not program.exists():
        return None
    done = subprocess.run(
        [program, "--device", options.device, "-a", model, "-b", str(options.batch),
         "--image-size", str(options.image_size), "--steps", str(options.steps),
         "--rounds", "3", "--json"],
        capture_output=True, text=True, check=False, timeout=2 * TIMEOUT_S)
    if done.returncode != 0:
        print(f"decode_loop: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])["samples_per_s"]


def digest_of(options, point, variant):
    server = Server(options, point) if point.mode != "local" else None
    try:
        done = subprocess.run([*command_of(options, point, variant, server), "--json"],
                              capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    finally:
        if server:
            server.close()
    if done.returncode != 0:
        raise Failed((done.stderr.strip().splitlines() or ["it said nothing"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def compare_digests(options, point):
    reports = {variant: digest_of(options, point, variant) for variant in ("on", "off")}
    if reports["on"]["digest"] != reports["off"]["digest"]:
        raise Failed(f"the digests differ: {reports['on']['digest']} with the GPU, "
                     f"{reports['off']['digest']} without")
    return {"name": f"digest, {name_of(point)}", "us": None, "bytes": None, "reference_us": None,
            "ratio": None, "digest": reports["on"]["digest"], **point._asdict(),
            "choices": {variant: report["choices"] for variant, report in reports.items()}}


def points_of(options, part):
    """The most telling first: the time may be over before the end."""
    many, prep = options.workers[-1], options.prep_workers[-1]
    if part == "digests":
        return [Point(part, "none", mode, index, many, prep, "")
                for mode in options.modes for index in (True, False)]
    if part == "host":
        return [Point(part, "none", mode, index, many, prep, "")
                for index in (True, False) for mode in options.modes]
    if part == "train":
        return [Point(part, model, mode, True, workers, prep, "")
                for model in options.models if model != "none" for workers in options.workers
                for mode in options.modes if mode not in ("crop", "rows")]
    return [Point(part, model, "remote_auto", True, workers, cores, link)
            for model, link, workers, cores in itertools.product(
                options.models, options.links, options.cell_workers, options.cell_prep_workers)]


def measure_all(options, show):
    """Calls show(row) for each point; whether all is well."""
    is_well, steps = True, {}
    deadline = time.monotonic() + options.max_seconds
    for part in options.parts:
        points = points_of(options, part)
        for number, point in enumerate(points):
            if time.monotonic() > deadline:
                print(f"decode_loop: no time left: {len(points) - number} of {len(points)} points "
                      f"of {part} are left out", file=sys.stderr)
                break
            try:
                if part == "digests":
                    show(compare_digests(options, point))
                    continue
                if part == "train" and point.model not in steps:
                    steps[point.model] = step_alone(options, point.model)
                show(measure(options, point, steps.get(point.model)))
            except (Failed, OSError, subprocess.SubprocessError) as error:
                is_well = False
                show({"name": name_of(point), "us": None, "bytes": None, "reference_us": None,
                      "ratio": None, **point._asdict(), "error": str(error)})
    return is_well


# --- output ---

def line_of(row):
    if "error" in row:
        return f"{row['name']}: FAILED: {row['error']}"
    if "per_s" not in row:
        return f"{row['name']}: equal, {row['choices']['on']} and {row['choices']['off']}"
    text = f"{row['part']}: {row['name']}: "
    for variant, per_s in row["per_s"].items():
        run = row["runs"][variant]
        text += (f"{variant} {per_s['median']:.0f}/s ({per_s['min']:.0f} to {per_s['max']:.0f}), "
                 f"CPU {run['cpu_us']:.0f} + {run['storage_cpu_us']:.0f} us, "
                 f"GPU {100 * run['gpu_share']:.0f}%; ")
    text += f"on/off {row['ratio']:.3f}"
    if "step_per_s" in row:
        text += f"; of the step alone ({row['step_per_s']:.0f}/s) " + ", ".join(
            f"{variant} {share:.3f}" for variant, share in row["of_step"].items())
    return text


def listed(kind, allowed=None):
    def parse(text):
        try:
            found = [kind(word) for word in text.split(",")]
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
        if allowed and not set(found) <= set(allowed):
            raise argparse.ArgumentTypeError(f"{text}: words of {', '.join(allowed)}")
        return found
    return parse


def parse_options():
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     epilog="See docs/BENCHMARKING.md.")
    parser.add_argument("images", metavar="DIR", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/release/bin",
                        help="folder of the programs, beside which bench/ has bench_train. "
                        "Default: build/release/bin")
    parser.add_argument("--parts", type=listed(str, PARTS), default=list(PARTS[:3]),
                        help=f"of {', '.join(PARTS)}. Default: all but cells")
    parser.add_argument("--modes", type=listed(str, MODES), default=list(MODES),
                        help=f"of {', '.join(MODES)}; train leaves out crop and rows, cells is "
                        "remote_auto. "
                        "Default: all")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda",
                        help="where models train")
    models = ("alexnet", "vgg11", "vgg16", "resnet18", "resnet34", "resnet50", "resnet101",
              "resnet152", "small_cnn", "none")
    parser.add_argument("--models", type=listed(str, models), default=["alexnet", "resnet18"],
                        help=f"of {', '.join(models)}. Default: alexnet,resnet18")
    parser.add_argument("--workers", type=listed(int), default=[min(2, cores), cores],
                        help="-j of offload_train in train; host has the last. Default: 2 and one "
                        "for each core")
    parser.add_argument("--prep-workers", type=listed(int), default=[cores],
                        help="of offload_server, but for cells. Default: one for each core")
    parser.add_argument("--links", type=listed(str), default=["10gbit", "1gbit"],
                        help="--link-limit of cells")
    parser.add_argument("--cell-workers", type=listed(int), default=[2, 8])
    parser.add_argument("--cell-prep-workers", type=listed(int), default=[1, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="of a window")
    parser.add_argument("--warm-seconds", type=float, default=2,
                        help="from the first batch to the window")
    parser.add_argument("--max-seconds", type=float, default=float("inf"),
                        help="no point begins later than this")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--pipeline", help="of offload_train: text, or @FILE, such as that of a preset. "
                        "Default: the crop and flip of --image-size")
    parser.add_argument("--steps", type=int, default=50, help="in a round of the step alone")
    parser.add_argument("--out", type=pathlib.Path, help="the rows as JSON, one a line")
    parser.add_argument("--json", action="store_true", help="an object for each row")
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    return options


def prepare(options, folder):
    """A copy of the images with an index of the JPEGs."""
    options.folder = folder / "images"
    shutil.copytree(options.images, options.folder)
    subprocess.run([options.bin / "offload_dataset", "index", "--jpeg-index", "--log-level", "warn",
                    options.folder], check=True, stdout=subprocess.DEVNULL)
    num_files = sum(path.is_file() for path in options.images.rglob("*"))
    options.repeat = max(1, EPOCH // max(num_files, 1))
    image_files.warm(options.folder)


def main():
    options = parse_options()
    print("machine " + json.dumps(hosts.machine()), file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        prepare(options, pathlib.Path(folder))
        out = open(options.out, "w", encoding="utf-8") if options.out else None

        def show(row):
            print(json.dumps(row) if options.json else line_of(row), flush=True)
            if out:
                print(json.dumps(row), file=out, flush=True)

        try:
            return 0 if measure_all(options, show) else 1
        finally:
            if out:
                out.close()
