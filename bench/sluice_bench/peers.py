"""Other data loaders beside ours, on the same images, crops and cores.

usage: peers DIR [options]

Each measurement is a process of its own, pinned to --cpus, with as many threads or processes that
decode: offload_train in local mode, or peers/one.py.  They take turns: each of --rounds
runs every row once, each round beginning with another row.  A loader is skipped, with the reason,
where none of --python can import it.

Exit codes: 0; 1 if a measurement failed; 77 if the images do not fit into the page cache.
"""
import argparse
import collections
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

from . import hosts, image_files, package

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ONE = SOURCE / "bench/peers/one.py"
SKIPPED = 77
# Beyond what is measured: imports, shards, compilation, and workers that end.
START_TIMEOUT_S = 120

# computes: what it does to a sample, as far as loaders differ; is_exact: its pixels are Pillow's,
# bit for bit.
Loader = collections.namedtuple("Loader", "name is_exact computes")
OURS = "offload_train"
LOADERS = {loader.name: loader for loader in (
    Loader(OURS, True, "own decoder of the crop alone, own resize"),
    Loader("offload_train, digest", True, "the same, and the hash over all samples"),
    Loader("sluice.torch", True, "the same, as torch tensors"),
    Loader("torchvision", True, "DataLoader; Pillow decodes everything, Pillow's resize"),
    Loader("webdataset", True, "the same, from tar files"),
    Loader("dali", False, "libjpeg-turbo decodes the crop, triangle filter"),
    Loader("tf.data", False, "libjpeg-turbo decodes the crop, triangle filter in float32"),
    Loader("spdl", False, "FFmpeg decodes everything; swscale's bilinear filter"),
)}
PROGRAMS = (OURS, "offload_train, digest")

# cpus: those that it runs on; output: u8 pixels, or f32 for normalised floats.
Row = collections.namedtuple("Row", "cpus name output")
# One measurement; others: share of the CPUs' time that other processes had.
Run = collections.namedtuple("Run", "per_s per_cpu_s others gives")


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def run(command, cpus, timeout_s):
    """Its standard output, the share of the CPUs' time that others took meanwhile, and the CPU
    seconds that it took itself."""
    before, started = hosts.busy_seconds(set(cpus)), os.times().elapsed
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = hosts.spawn(command, run_first=lambda: os.sched_setaffinity(0, cpus),
                              stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        usage = _wait(process, timeout_s)
        out.seek(0)
        err.seek(0)
        text, log = out.read().decode(), err.read().decode(errors="replace").strip()
    if process.returncode == SKIPPED:
        raise Skipped(log.splitlines()[-1] if log else "no reason given")
    if process.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}: exit code {process.returncode}\n{log}")
    seconds = os.times().elapsed - started
    used = usage.ru_utime + usage.ru_stime
    others = hosts.busy_seconds(set(cpus)) - before - used
    return text, max(0.0, others / seconds / len(cpus)), used


def _wait(process, timeout_s):
    """Its resources, those of its children among them.  After timeout_s its group is killed."""
    def expire(*_):
        os.killpg(process.pid, signal.SIGKILL)

    old = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    try:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        hosts.end(process)
    return usage


def ours(options, row, repeat):
    """The report of the second epoch: the first one warms up.  Its CPU time is that of both."""
    command = [options.bin / "offload_train", options.images, "--dataset-mode", "local", "--device",
               "none", "--json", "--epochs", "2", "--repeat", repeat, "-j", len(row.cpus), "-b",
               options.batch, "--seed", options.seed, "-p", "0", "--no-val", "--jpeg-index", "off",
               "--log-level", "error", *([] if "digest" in row.name else ["--no-digest"])]
    text, others, used = run(command, row.cpus, START_TIMEOUT_S + 20 * options.seconds)
    reports = [json.loads(line) for line in text.splitlines()]
    samples = sum(report["samples"] for report in reports)
    return {**reports[-1], "samples_per_cpu_s": samples / used}, others


def repeat_for(options, row):
    """How often each image has to come for an epoch to take --seconds; from epochs that grow, as
    a short one says little."""
    repeat = 1
    while True:
        report, _ = ours(options, row, repeat)
        if report["seconds"] >= options.seconds / 4:
            return math.ceil(repeat * 1.1 * options.seconds / report["seconds"])
        repeat = math.ceil(repeat * min(20, options.seconds / 2 / report["seconds"]))


class Peers:
    """What runs a loader of one.py, and on which interpreter."""

    def __init__(self, options, scratch):
        self.options, self.scratch = options, scratch
        self.pythons, self.versions = {}, {}

    def find(self, name):
        """None, or the reason why it is skipped."""
        reasons = []
        for python in self.options.python:
            try:
                text, _, _ = run([python, ONE, name, "--check"], os.sched_getaffinity(0),
                              START_TIMEOUT_S)
            except Skipped as why:
                reasons.append(str(why))
                continue
            except (Failed, OSError) as why:
                reasons.append(str(why).splitlines()[-1])
                continue
            self.pythons[name] = python
            self.versions[name] = json.loads(text.splitlines()[-1])["version"]
            return None
        return "; ".join(dict.fromkeys(reasons))

    def measure(self, row, repeat):
        options = self.options
        text, others, _ = run(
            [self.pythons[row.name], ONE, row.name, "--images", options.images, "--workers",
             len(row.cpus), "--output", row.output, "--seconds", options.seconds, "--warm-up",
             options.warm_up, "--batch", options.batch, "--seed", options.seed, "--repeat", repeat,
             "--scratch", self.scratch], row.cpus,
            START_TIMEOUT_S + 20 * (options.seconds + options.warm_up))
        return json.loads(text.splitlines()[-1]), others


def rows_of(options, names):
    return [Row(cpus, name, output) for cpus in options.cpus for name in names
            for output in options.outputs if name not in PROGRAMS or output == "u8"]


def measure(options, rows, peers):
    """Of each row its measurements, those of a round at the same place; None for one that failed.
    And the failures."""
    repeats = {cpus: repeat_for(options, Row(cpus, OURS, "u8"))
               for cpus in dict.fromkeys(row.cpus for row in rows)}
    measured, failures = {row: [] for row in rows}, []
    for number in range(options.rounds):
        turn = number * len(rows) // options.rounds
        for row in rows[turn:] + rows[:turn]:
            try:
                if row.name in PROGRAMS:
                    report, others = ours(options, row, repeats[row.cpus])
                else:
                    report, others = peers.measure(row, repeats[row.cpus])
            except (Failed, Skipped) as why:
                failures.append(str(why))
                measured[row].append(None)
                continue
            measured[row].append(Run(report["samples_per_s"], report["samples_per_cpu_s"], others,
                                     report.get("output", "u8 NHWC")))
            print(f"round {number + 1}: {len(row.cpus)} cpus, {row.name}, {row.output}: "
                  f"{report['samples_per_s']:.0f}/s, {others:.0%} of the CPUs to others",
                  file=sys.stderr, flush=True)
    return measured, failures


def ratios(runs, runs_of_ours, field):
    """Of the rounds in which both were measured: median, least and most."""
    found = [getattr(run, field) / getattr(our, field)
             for run, our in zip(runs, runs_of_ours) if run and our]
    return (statistics.median(found), min(found), max(found)) if found else (None, None, None)


def summary(row, runs, runs_of_ours, version):
    done = [run for run in runs if run]
    if not done:
        return None
    rate = statistics.median(run.per_s for run in done)
    of_ours, least, most = ratios(runs, runs_of_ours, "per_s")
    loader = LOADERS[row.name]
    return {"name": row.name, "cpus": len(row.cpus), "output": done[0].gives, "us": 1e6 / rate,
            "samples_per_s": rate, "min": min(run.per_s for run in done),
            "max": max(run.per_s for run in done), "of_ours": of_ours, "of_ours_min": least,
            "of_ours_max": most,
            "samples_per_cpu_s": statistics.median(run.per_cpu_s for run in done),
            "of_ours_cpu": ratios(runs, runs_of_ours, "per_cpu_s")[0],
            "others": max(run.others for run in done), "rounds": len(done),
            "is_exact": loader.is_exact, "computes": loader.computes, "version": version}


def print_table(rows):
    cpus = None
    for row in rows:
        if row["cpus"] != cpus:
            cpus = row["cpus"]
            print(f"\n{f'{cpus} CPU' + 's' * (cpus > 1):22} {'gives':9} {'samples/s':>9} "
                  f"{'least':>7} {'most':>7} {'of ours':>7} {'per CPU s':>9} {'of ours':>7} "
                  f"{'others':>6}  exact  computes")
        ratio, cpu_ratio = ("-" if value is None else f"{value:.3f}"
                            for value in (row["of_ours"], row["of_ours_cpu"]))
        print(f"{row['name']:22} {row['output']:9} {row['samples_per_s']:9.0f} {row['min']:7.0f} "
              f"{row['max']:7.0f} {ratio:>7} {row['samples_per_cpu_s']:9.0f} {cpu_ratio:>7} "
              f"{row['others']:6.0%}  {'yes' if row['is_exact'] else 'no':5}  {row['computes']}")


def cpus_of(text):
    cpus = tuple(hosts.cpu_list(text))
    if not cpus or not set(cpus) <= os.sched_getaffinity(0):
        raise argparse.ArgumentTypeError(f"{text}: no CPUs of this process")
    return cpus


def words(allowed):
    def parse(text):
        found = text.split(",")
        if not set(found) <= set(allowed):
            raise argparse.ArgumentTypeError(f"{text}: words of {', '.join(allowed)}")
        return found

    return parse


def programs_folder():
    """$SLUICE_BIN, what PATH has, or the release build."""
    if os.environ.get("SLUICE_BIN"):
        return pathlib.Path(os.environ["SLUICE_BIN"])
    for folder in os.get_exec_path():
        if os.access(os.path.join(folder, "offload_train"), os.X_OK):
            return pathlib.Path(folder)
    return SOURCE / "build/release/bin"


def parse():
    usable, _ = hosts.usable_cpus()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     epilog="See docs/BENCHMARKING.md.")
    parser.add_argument("images", metavar="DIR", type=pathlib.Path,
                        help="folder with a folder of images for each class")
    parser.add_argument("--bin", type=pathlib.Path, default=programs_folder(),
                        help="folder of offload_train. Default: $SLUICE_BIN, or where it is on "
                        "PATH, or build/release/bin")
    package.add_option(parser)
    parser.add_argument("--python", action="append",
                        help="interpreter to look for loaders in, for example that of a venv; may "
                        "be given several times. Default: the one that runs this")
    parser.add_argument("--loaders", type=words([*LOADERS][2:]), default=[*LOADERS][2:],
                        help=f"which to measure beside ours: {', '.join([*LOADERS][2:])}. "
                        "Default: all")
    parser.add_argument("--outputs", type=words(("u8", "f32")), default=["u8", "f32"],
                        help="what loaders are to give: u8: the pixels of the flipped crop; f32: "
                        "normalised floats. Default: u8,f32")
    parser.add_argument("--cpus", type=cpus_of, action="append",
                        help="CPUs to run on, as 0,1; may be given several times. Default: one "
                        "CPU, and two if there are")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="of a measurement, at least")
    parser.add_argument("--warm-up", type=float, default=1, help="seconds before that")
    parser.add_argument("--batch", type=int, default=64, help="samples in a batch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="an object for each row")
    options = parser.parse_args()
    options.images = options.images.resolve()
    options.python = options.python or [sys.executable]
    options.cpus = options.cpus or [tuple(usable[:1]), *([tuple(usable[:2])] if usable[1:] else [])]
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds and --seconds are above 0")
    return options


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the shards are removed
    package.use(options)
    if not image_files.warm(options.images):
        print("peers: skipped: the images take over half of the memory", file=sys.stderr)
        return SKIPPED
    print("machine " + json.dumps(hosts.machine()), file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="peers-") as scratch:
        peers = Peers(options, scratch)
        names = list(PROGRAMS)
        skipped = []
        for name in options.loaders:
            reason = peers.find(name)
            if reason is None:
                names.append(name)
            else:
                skipped.append({"name": name, "skipped": reason})
        rows = rows_of(options, names)
        try:
            measured, failures = measure(options, rows, peers)
        except Failed as why:
            print(f"peers: {why}", file=sys.stderr)
            return 1
    found = [summary(row, runs, measured.get(Row(row.cpus, OURS, "u8"), []),
                     peers.versions.get(row.name, "")) for row, runs in measured.items()]
    found = [row for row in found if row]
    if options.json:
        for row in [*found, *skipped]:
            print(json.dumps(row))
    else:
        print_table(found)
        print()
        for name, version in peers.versions.items():
            print(f"{name}: {version}")
        for row in skipped:
            print(f"{row['name']}: skipped: {row['skipped']}")
    for failure in failures:
        print(f"peers: {failure}", file=sys.stderr)
    return 1 if failures else 0
