"""What several servers give one trainer, against one server, and what it feels when one dies.

usage: several_servers DIR [options]

    cpu     two replicas against one server, in remote_piloff, where the storage nodes' CPUs are the
            limit.  Each server is held to --cores by a control group (root): a slower core than the
            machine has, so that both together leave CPUs to the trainer.
    links   four shards against one server over all files, in remote_nooff, each server behind its
            own --link-limit of --link.
    kill    two replicas, --hedge, a trainer that takes --rate samples per second: in each run one of
            them is killed (SIGKILL) at a drawn batch.  gap is the longest wait for a batch of that
            run; of the runs the median, the 99th percentile and the greatest.

cpu and links take turns with their base, --repeats times.  `ratio` is the median of the turns' ratios
of samples per second, with the least and the most.  The digests of all runs must be equal.
"""
import argparse
import contextlib
import csv
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

from . import hosts, image_files, quota

SOURCE = pathlib.Path(__file__).resolve().parents[2]
CASES = ("cpu", "links", "kill")
SHARDS = 4
BATCH = 16
PROGRESS = re.compile(r"train epoch \d+ \[(\d+)/(\d+)\]")
WAITS = ("disk_s", "storage_cpu_s", "network_s", "receive_s", "compute_cpu_s", "gpu_s")


@contextlib.contextmanager
def server(options, root, cores=0, *flags):
    """The process, with its address; with cores held to so much CPU time."""
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(contextlib.closing(quota.Quota(cores))) if cores else None

        def enter():
            os.sched_setaffinity(0, options.storage_cpus)
            if group:
                group.enter()
        process = hosts.spawn(
            [options.bin / "offload_server", "--root", root, "--listen", "127.0.0.1:0",
             "--prep-workers", 1, "--grpc-workers", 1, "--log-level", "error", *flags],
            enter, stdout=subprocess.PIPE, text=True)
        try:
            line = process.stdout.readline()
            if not line.startswith("listening on "):
                sys.exit(f"offload_server says {line!r}")
            process.address = line.split()[-1]
            yield process
        finally:
            process.kill()
            process.communicate()


def train(options, *flags, on_line=None):
    """The last epoch of a run; of two the first warms up."""
    process = hosts.spawn(
        [options.bin / "offload_train", "--json", "--device", "none", "-b", BATCH, "-j",
         len(options.client_cpus), "--no-val", "--image-size", 224, "-p", 1, *flags],
        lambda: os.sched_setaffinity(0, options.client_cpus), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True)
    log = []
    for line in process.stderr:
        log.append(line)
        found = PROGRESS.search(line)
        if on_line and found:
            on_line(*map(int, found.groups()))
    out, _ = process.communicate()
    if process.returncode:
        sys.exit("".join(log[-20:]))
    return [json.loads(line) for line in out.splitlines()][-1]


def split(images, into):
    """The files of each shard, by turns, in folders of their own."""
    roots = [pathlib.Path(into, f"shard{i}") for i in range(SHARDS)]
    for i, path in enumerate(image_files.find(images)):
        copy = roots[i % SHARDS] / os.path.relpath(path, images)
        copy.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, copy)
        except OSError:
            shutil.copy2(path, copy)
    return roots


def compare(options, name, base, many):
    """Turns of the two, each a function that gives the flags of a run within a stack."""
    rates = {"one": [], "several": []}
    digests, choices = set(), set()
    for _ in range(options.repeats):
        for which, flags_of in (("one", base), ("several", many)):
            with contextlib.ExitStack() as stack:
                epoch = train(options, *flags_of(stack), "--epochs", 2, "--repeat",
                              options.repeat)
            rates[which].append(epoch["samples_per_s"])
            digests.add(epoch["digest"])
            choices.update(epoch["choices"])
    ratios = [several / one for one, several in zip(rates["one"], rates["several"])]
    return {"case": name, "samples_per_s": rates, "ratio": statistics.median(ratios),
            "least": min(ratios), "most": max(ratios), "choices": sorted(choices), "is_exact": len(digests) == 1}


def run_cpu(options, folder):
    def flags(count):
        def start(stack):
            # A queue for all: nothing goes as a file because the workers are busy.
            nodes = [stack.enter_context(server(options, options.images, options.cores,
                                                "--queue", 4096)) for _ in range(count)]
            return ["--dataset-mode", "remote_piloff", "--host",
                    ",".join(node.address for node in nodes)]
        return start
    return {**compare(options, "cpu", flags(1), flags(2)), "cores": options.cores}


def run_links(options, folder):
    shards = split(options.images, folder)

    def start(roots):
        def flags(stack):
            nodes = [stack.enter_context(server(options, root, 0, "--link-limit", options.link))
                     for root in roots]
            return ["--dataset-mode", "remote_nooff",
                    *(word for node in nodes for word in ("--host", node.address))]
        return flags
    return {**compare(options, "links", start([options.images]), start(shards)),
            "link": options.link}


def run_kill(options, folder):
    rng = random.Random(options.seed)
    log = pathlib.Path(folder, "batches.csv")
    gaps, digests = [], set()
    for _ in range(options.kills):
        with contextlib.ExitStack() as stack:
            nodes = [stack.enter_context(server(options, options.images)) for _ in range(2)]
            at, victim = rng.uniform(0.2, 0.8), rng.choice(nodes)

            def kill(batch, total, at=at, victim=victim):
                if batch >= at * total and victim.poll() is None:
                    victim.send_signal(signal.SIGKILL)
            epoch = train(options, "--dataset-mode", options.kill_mode, "--hedge", "--host",
                          ",".join(node.address for node in nodes), "--consume-rate",
                          options.rate, "--batch-log", log, on_line=kill)
        with open(log, newline="", encoding="ascii") as file:
            rows = list(csv.DictReader(file))
        gaps.append(max(sum(float(row[name]) for name in WAITS if name in row)
                        for row in rows[2:]))  # the first ones wait for the start
        digests.add(epoch["digest"])
    gaps.sort()
    return {"case": "kill", "gaps_s": gaps, "median_s": statistics.median(gaps),
            "p99_s": gaps[min(len(gaps) - 1, int(0.99 * len(gaps)))], "most_s": gaps[-1],
            "is_exact": len(digests) == 1}


def say(found):
    exact = "" if found["is_exact"] else "; THE DIGESTS DIFFER"
    if found["case"] == "kill":
        print(f"kill: the longest wait for a batch is {found['median_s']:.3f} s (median), "
              f"{found['p99_s']:.3f} s (p99), {found['most_s']:.3f} s (most) of "
              f"{len(found['gaps_s'])} runs{exact}", flush=True)
        return
    rates = {name: statistics.median(values) for name, values in found["samples_per_s"].items()}
    print(f"{found['case']}: {rates['one']:.0f} samples/s of one server, {rates['several']:.0f} of "
          f"several: {found['ratio']:.2f} times ({found['least']:.2f} to {found['most']:.2f}, "
          f"{len(found['samples_per_s']['one'])} turns){exact}", flush=True)


def main():
    cpus = sorted(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     epilog="See the head of the file.")
    parser.add_argument("images", metavar="DIR")
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/release/bin")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--repeats", type=int, default=5, help="turns of cpu and links")
    parser.add_argument("--repeat", type=int, default=1, help="passes over the images in an epoch")
    parser.add_argument("--cores", type=float, default=0.25, help="of each server in the case cpu")
    parser.add_argument("--link", default="250mbit", help="of each server in the case links")
    parser.add_argument("--kills", type=int, default=100, help="runs of the case kill")
    parser.add_argument("--kill-mode", default="remote_piloff")
    parser.add_argument("--rate", type=float, default=200, help="samples/s in the case kill")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--storage-cpus", type=hosts.cpu_list, default=cpus)
    parser.add_argument("--client-cpus", type=hosts.cpu_list, default=cpus)
    parser.add_argument("--json", action="store_true", help="an object for each case")
    options = parser.parse_args()
    cases = options.cases.split(",")
    unknown = [case for case in cases if case not in CASES]
    if unknown:
        parser.error(f"'{unknown[0]}' is none of {', '.join(CASES)}")
    image_files.warm(options.images)
    is_exact = True
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = {"cpu": run_cpu, "links": run_links, "kill": run_kill}[case](options,
                                                                                     folder)
            except quota.QuotaError as error:
                sys.exit(f"several_servers: {case}: {error}")
        is_exact = is_exact and found["is_exact"]
        if options.json:
            print(json.dumps(found), flush=True)
        else:
            say(found)
    return 0 if is_exact else 1


if __name__ == "__main__":
    sys.exit(main())
