"""remote_auto beside every fixed choice where server and trainer run on the same cores.

usage: shared_machine DIR [options] [-- flags of offload_train]

Each turn starts offload_server on DIR and offload_train (--device none unless the flags say otherwise) on all CPUs that
this process may use, and takes the samples per second of the epochs after the first, which learns.  Turns of all choices
follow each other, --repeats times.

columns: median, least and most samples/s of the turns, and the median over that of the best fixed choice.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from . import hosts

SOURCE = pathlib.Path(__file__).resolve().parents[2]
AUTO = "remote_auto"
FIXED = {"files": ("remote_nooff", "raw"), "jpeg crops": ("remote_nooff", "jpeg_crop"),
         "jpeg rows": ("remote_nooff", "jpeg_rows"), "pixels": ("remote_piloff", "raw"),
         "packed pixels": ("remote_piloff", "u8_packed")}


class Failed(Exception):
    pass


def turn(options, flags):
    """Samples/s of the epochs after the first."""
    device = () if "--device" in options.flags else ("--device", "none")
    link = ("--link-limit", options.link) if options.link else ()
    with hosts.server(options.bin, options.images, "--prep-workers", options.storage_workers,
                      *link) as server, tempfile.TemporaryFile("w+") as log:
        done = subprocess.run(
            [str(one) for one in (options.bin / "offload_train", "--host", server.address, "--json", "-j", options.workers,
                                  "--no-val", "-p", 0, "--epochs", options.epochs, "--repeat", options.repeat, *device,
                                  *flags, *options.flags)], stdout=subprocess.PIPE, stderr=log, text=True, check=False)
        if done.returncode:
            log.seek(0)
            raise Failed(log.read()[-2000:])
    epochs = [one for one in map(json.loads, done.stdout.splitlines()) if "digest" in one][1:]
    return sum(one["samples"] for one in epochs) / sum(one["seconds"] for one in epochs)


def flags_of(name):
    if name == AUTO:
        return ("--dataset-mode", AUTO)
    mode, form = FIXED[name]
    return ("--dataset-mode", mode) if form == "raw" else ("--dataset-mode", mode, "--remote-form", form)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog="See the head of the file.")
    parser.add_argument("images", metavar="DIR")
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/release/bin")
    parser.add_argument("--link", help="the server's --link-limit (none)")
    parser.add_argument("--storage-workers", default=1, help="--prep-workers of the server (1)")
    parser.add_argument("--workers", default=1, help="-j of the trainer (1)")
    parser.add_argument("--epochs", type=int, default=5, help="of each turn (5)")
    parser.add_argument("--repeat", type=int, default=4, help="how often a sample comes in an epoch (4)")
    parser.add_argument("--repeats", type=int, default=3, help="turns of each choice (3)")
    parser.add_argument("--choices", default=",".join((*FIXED, AUTO)), help="of: " + ", ".join((*FIXED, AUTO)))
    parser.add_argument("--json", action="store_true", help="one object a choice")
    args = sys.argv[1:]
    end = args.index("--") if "--" in args else len(args)
    options = parser.parse_args(args[:end])
    options.flags = args[end + 1:]
    choices = options.choices.split(",")
    try:
        if not {AUTO} < set(choices) <= {*FIXED, AUTO}:
            raise Failed(f"--choices wants {AUTO} and at least one of {', '.join(FIXED)}")
        found = {name: [] for name in choices}
        for _ in range(options.repeats):
            for name in choices:
                found[name].append(turn(options, flags_of(name)))
    except (Failed, hosts.HostError, OSError) as why:
        print(f"shared_machine: {why}", file=sys.stderr)
        return 1
    best = max(statistics.median(rates) for name, rates in found.items() if name != AUTO)
    for name, rates in found.items():
        median = statistics.median(rates)
        if options.json:
            print(json.dumps({"choice": name, "samples_per_s": median, "least": min(rates), "most": max(rates),
                              "over_best_fixed": median / best}))
        else:
            print(f"{name:14}{median:10.0f} ({min(rates):.0f} to {max(rates):.0f}){median / best:8.3f}", flush=True)
    return 0
