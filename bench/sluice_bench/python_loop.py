"""The Python loop over batches: its rate beside offload_train's, its cost, and its memory.

usage: loop DIR [options]

Each measurement is a process: offload_train --device none, or python/one.py.  rate: both on DIR
with as many workers, without a transform; in local mode and, with an offload_server on this
machine, in --modes; remote_auto_fixed is remote_auto with the same plan in every run.  They take
turns, each of --rounds beginning with the other; images repeat until an epoch takes --seconds, as
both clocks hold an epoch's start and end.  ready and memory: on tiny images made for it, so that
the pipeline is not the limit.

Exit codes: 0; 1 if a measurement failed; 77 if the package cannot be imported or the images do not
fit into the page cache.
"""
import argparse
import json
import math
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import zlib

from . import hosts, image_files, package, peers

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ONE = SOURCE / "bench/python/one.py"
SKIPPED = 77
FIXED = "remote_auto_fixed"  # remote_auto with one plan, that of FIXED_LINK, for all runs
FIXED_LINK = "10gbit"
MODES = ("local", "remote_nooff", "remote_auto", FIXED)
KINDS = ("rate", "ready", "memory")
NUM_TINY, TINY_SIZE = 256, 32


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def run(command, timeout_s):
    """The last JSON line of its standard output."""
    command = list(map(str, command))
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False,
                              timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(command)}: not done in {timeout_s} s") from None
    if done.returncode == SKIPPED:
        raise Skipped(done.stderr.strip())
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def one(options, what, source, array, *arguments):
    return run([options.python, ONE, what, source, "--array", array, "--workers", options.workers,
                *arguments], options.timeout)


def in_c(options, mode, place, repeat):
    place = [place] if mode == "local" else ["--host", place]
    plan = ["remote_auto", "--no-replan", "--net-bw", FIXED_LINK] if mode == FIXED else [mode]
    return run([options.bin / "offload_train", *place, "--dataset-mode", *plan, "--device", "none",
                "--json", "--epochs", 2, "--repeat", repeat, "-j", options.workers, "-b",
                options.batch, "--seed", 0, "-p", 0, "--no-val", "--jpeg-index", "off",
                "--no-digest", "--log-level", "error"], options.timeout)


def in_python(options, array, mode, place, repeat):
    plan = ["remote_auto", "--fixed-link", FIXED_LINK] if mode == FIXED else [mode]
    return one(options, "epochs", place, array, "--mode", *plan, "--batch", options.batch,
               "--repeat", repeat)


def repeat_for(options):
    """How often each image has to come for an epoch in local mode to take --seconds; from epochs
    that grow, as a short one says little."""
    repeat = 1
    while True:
        seconds = in_c(options, "local", options.images, repeat)["seconds"]
        if seconds >= options.seconds / 4:
            return math.ceil(repeat * options.seconds / seconds)
        repeat = math.ceil(repeat * min(20, options.seconds / 2 / seconds))


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def measure_rate(options, array, address):
    """A row for each mode; the ratio is of the two of one round."""
    rows = []
    repeat = options.repeat or repeat_for(options)
    for mode in options.modes:
        place = options.images if mode == "local" else address
        rates, inside, lengths = {"c": [], "python": []}, [], []
        for number in range(options.rounds):
            for kind in ("c", "python") if number % 2 == 0 else ("python", "c"):
                report = (in_c(options, mode, place, repeat) if kind == "c" else
                          in_python(options, array, mode, place, repeat))
                rates[kind].append(report["samples_per_s"])
                lengths.append(report["seconds"])
                if kind == "python":
                    inside.append(report["inside"])
            print(f"round {number + 1}, {mode}: C {rates['c'][-1]:.0f}/s, "
                  f"Python {rates['python'][-1]:.0f}/s", file=sys.stderr, flush=True)
        ratio = spread([python / c for python, c in zip(rates["python"], rates["c"])])
        python, c = spread(rates["python"]), spread(rates["c"])
        rows.append({"name": f"rate, {mode}", "us": 1e6 / python["median"],
                     "reference_us": 1e6 / c["median"], "ratio": ratio["median"],
                     "ratio_min": ratio["min"], "ratio_max": ratio["max"],
                     "samples_per_s": python, "offload_train_per_s": c,
                     "inside_per_s": spread(inside), "epoch_s": spread(lengths),
                     "repeat": repeat, "rounds": options.rounds, "array": array})
    return rows


def measure_ready(options, arrays, tiny):
    """What the loop costs above the extension's next(), of each array library."""
    rows = []
    found = {array: [] for array in arrays}
    for _ in range(options.rounds):
        for array in arrays:
            found[array].append(one(
                options, "ready", tiny, array, "--mode", "local", "--batch", options.batch,
                "--image-size", TINY_SIZE, "--repeat", -(-options.batch * 40 // NUM_TINY),
                "--groups", options.groups))
    for array, reports in found.items():
        us = {f"{kind}_{field}": statistics.median(report[kind][field] for report in reports)
              for kind in ("loop", "next") for field in ("wall_us", "wall_us_p95", "cpu_us")}
        over = spread([report["loop"]["cpu_us"] - report["next"]["cpu_us"] for report in reports])
        rows.append({"name": f"ready, {array}", "us": us["loop_wall_us"],
                     "reference_us": us["next_wall_us"],
                     "ratio": us["next_wall_us"] / us["loop_wall_us"], **us, "over_cpu_us": over,
                     "rounds": len(reports),
                     "batches": sum(report["loop"]["batches"] for report in reports)})
    return rows


def measure_memory(options, array, tiny):
    report = one(options, "memory", tiny, array, "--mode", "local", "--batch", options.memory_batch,
                 "--image-size", TINY_SIZE, "--repeat", 100, "--batches", options.batches)
    return [{"name": f"memory, {array}", "us": 1e6 * report["seconds"] / report["batches"],
             "reference_us": None, "ratio": None, **report}]


def make_tiny(folder):
    """PNGs of noise, which cost next to nothing to decode."""
    def chunk(name, data):
        return (struct.pack(">I", len(data)) + name + data
                + struct.pack(">I", zlib.crc32(name + data)))

    draw = random.Random(0)
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", TINY_SIZE, TINY_SIZE, 8, 2, 0, 0, 0))
    for i in range(NUM_TINY):
        path = pathlib.Path(folder) / "train" / str(i % 4) / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = b"".join(b"\0" + draw.randbytes(3 * TINY_SIZE) for _ in range(TINY_SIZE))
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows, 1))
                         + chunk(b"IEND", b""))


def start_server(options):
    server = hosts.spawn(
        [options.bin / "offload_server", "--root", options.images, "--listen", "127.0.0.1:0",
         "--log-level", "error"], stdout=subprocess.PIPE, text=True)
    line = server.stdout.readline()
    if not line.startswith("listening on "):
        hosts.end(server)
        raise Failed(f"offload_server said {line!r}")
    return server, line.split()[-1]


def arrays_of(options):
    """Those that can be imported; sluice.torch first."""
    found, reasons = [], []
    for array in ("torch", "numpy"):
        try:
            with tempfile.TemporaryDirectory() as folder:
                make_tiny(folder)
                one(options, "memory", folder, array, "--batches", 2, "--batch", 2,
                    "--image-size", TINY_SIZE)
            found.append(array)
        except Skipped as why:
            reasons.append(f"sluice.{array}: {why}")
    if not found:
        raise Skipped("; ".join(reasons))
    for reason in reasons:
        print(f"loop: left out: {reason}", file=sys.stderr)
    return found


def measure(options):
    rows = []
    arrays = arrays_of(options)
    server, address = None, None
    try:
        if "rate" in options.kinds and set(options.modes) - {"local"}:
            server, address = start_server(options)
        if "rate" in options.kinds:
            rows += measure_rate(options, arrays[0], address)
    finally:
        hosts.end(server)
    with tempfile.TemporaryDirectory(prefix="loop-") as tiny:
        make_tiny(tiny)
        if "ready" in options.kinds:
            rows += measure_ready(options, arrays, tiny)
        for array in arrays if "memory" in options.kinds else []:
            rows += measure_memory(options, array, tiny)
    return rows


def print_table(rows):
    for row in rows:
        kind = row["name"].split(",")[0]
        if kind == "rate":
            c, python = row["offload_train_per_s"], row["samples_per_s"]
            print(f"{row['name']:20} Python {python['median']:.0f}/s ({python['min']:.0f} to "
                  f"{python['max']:.0f}), offload_train {c['median']:.0f}/s ({c['min']:.0f} to "
                  f"{c['max']:.0f}), ratio {row['ratio']:.3f} ({row['ratio_min']:.3f} to "
                  f"{row['ratio_max']:.3f}), epochs of {row['epoch_s']['min']:.1f} to "
                  f"{row['epoch_s']['max']:.1f} s")
        elif kind == "ready":
            over = row["over_cpu_us"]
            print(f"{row['name']:20} wall {row['loop_wall_us']:.0f} us a batch, next() alone "
                  f"{row['next_wall_us']:.0f}; CPU {row['loop_cpu_us']:.0f}, "
                  f"{row['next_cpu_us']:.0f}; the loop adds {over['median']:.0f} "
                  f"({over['min']:.0f} to {over['max']:.0f}) us of CPU")
        else:
            mb = {key: f"{row[key] / 1e6:.1f}" for key in ("first", "half", "last", "max")}
            print(f"{row['name']:20} {row['batches']} batches: MB first {mb['first']}, half "
                  f"{mb['half']}, last {mb['last']}, most {mb['max']}; "
                  f"{row['slope']:.1f} bytes a batch in the second half")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     epilog="See docs/BENCHMARKING.md.")
    parser.add_argument("images", metavar="DIR", type=pathlib.Path,
                        help="folder with a folder of images for each class")
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/release/bin",
                        help="folder of the programs. Default: build/release/bin")
    package.add_option(parser)
    parser.add_argument("--python", default=sys.executable, help="interpreter to measure in")
    parser.add_argument("--rows", type=peers.words(KINDS), default=list(KINDS), dest="kinds",
                        help=f"of {', '.join(KINDS)}. Default: all")
    parser.add_argument("--modes", type=peers.words(MODES), default=list(MODES),
                        help=f"of rate: of {', '.join(MODES)}. Default: all")
    parser.add_argument("-j", "--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=256, help="samples in a batch")
    parser.add_argument("--seconds", type=float, default=3,
                        help="of rate: of an epoch in local mode, about. Default: 3")
    parser.add_argument("--repeat", type=int,
                        help="of rate: how often each image comes in an epoch, in place of "
                        "--seconds")
    parser.add_argument("--groups", type=int, default=10,
                        help="of ready: groups of 16 batches in a round")
    parser.add_argument("--batches", type=int, default=10000, help="of memory")
    parser.add_argument("--memory-batch", type=int, default=32, help="samples in a batch of memory")
    parser.add_argument("--timeout", type=float, default=600, help="seconds of one measurement")
    parser.add_argument("--json", action="store_true", help="an object for each row")
    options = parser.parse_args()
    options.images, options.bin = options.images.resolve(), options.bin.resolve()
    if min(options.rounds, options.groups, options.batches, options.batch) < 1 or \
            options.seconds <= 0 or (options.repeat is not None and options.repeat < 1):
        parser.error("numbers are above 0")
    if options.batches < 4:
        parser.error("--batches: a slope takes 4 at least")
    return options


def main():
    options = parse()
    package.use(options)
    if not image_files.warm(options.images):
        print("loop: skipped: the images take over half of the memory", file=sys.stderr)
        return SKIPPED
    print("machine " + json.dumps(hosts.machine()), file=sys.stderr, flush=True)
    try:
        rows = measure(options)
    except Skipped as why:
        print(f"loop: skipped: {why}", file=sys.stderr)
        return SKIPPED
    except Failed as why:
        print(f"loop: {why}", file=sys.stderr)
        return 1
    if options.json:
        for row in rows:
            print(json.dumps(row))
    else:
        print_table(rows)
    return 0
