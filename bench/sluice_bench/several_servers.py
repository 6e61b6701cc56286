"""What several servers give one trainer, against one server, and what it feels when one dies.

usage: several_servers DIR [options]

    cpu     two replicas against one server, in remote_piloff, where the storage nodes' CPUs are the
            limit.  Each server is held to --cores by a control group (root): a slower core than the
            machine has, so that both together leave CPUs to the trainer.
    links   four shards against one server over all files, in remote_nooff, each server behind a link
            of its own of --link: as root a network namespace for each, and a veth pair shaped by tc,
            else (--no-root) its --link-limit.
    kill    two replicas, --hedge, a trainer that takes --rate samples per second and has no more ready
            than --prefetch-bytes (8 MiB of pixels are 55 samples): in each run one of them is killed
            (SIGKILL) at a drawn batch.  gap is the longest wait for a batch of that run; of the runs
            the median, the 99th percentile and the greatest.
    rolling three replicas and the same trainer: after each quarter of an epoch one of them is ended in
            order (SIGTERM) and started again, against the same epoch without.  lost is how much longer
            it took.

cpu and links take turns with their base, and rolling with a run without restarts, --repeats times.
`ratio` is the median of the turns' ratios of samples per second, with the least and the most.  The
digests of all runs must be equal.
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
import socket
import statistics
import subprocess
import sys
import tempfile

from . import hosts, image_files, quota

SOURCE = pathlib.Path(__file__).resolve().parents[2]
CASES = ("cpu", "links", "kill", "rolling")
SHARDS, REPLICAS = 4, 3
BATCH = 16
PROGRESS = re.compile(r"train epoch \d+ \[(\d+)/(\d+)\]")
WAITS = ("disk_s", "storage_cpu_s", "network_s", "receive_s", "compute_cpu_s", "gpu_s")


@contextlib.contextmanager
def server(options, root, *flags, cores=0, prefix=(), listen="127.0.0.1:0"):
    """The process, with its address; with cores held to so much CPU time."""
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(contextlib.closing(quota.Quota(cores))) if cores else None

        def enter():
            os.sched_setaffinity(0, options.storage_cpus)
            if group:
                group.enter()
        process = hosts.spawn(
            [*prefix, options.bin / "offload_server", "--root", root, "--listen", listen,
             "--insecure", "--prep-workers", 1, "--grpc-workers", 1, "--log-level", "error", *flags],
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


def train(options, *flags, on_line=None, prefix=()):
    """The last epoch of a run; of two the first warms up."""
    process = hosts.spawn(
        [*prefix, options.bin / "offload_train", "--json", "--device", "none", "-b", BATCH, "-j",
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


def compare(options, name, base, many, prefix=()):
    """Turns of the two, each a function that gives the flags of a run within a stack."""
    rates = {"one": [], "several": []}
    digests, choices = set(), set()
    for _ in range(options.repeats):
        for which, flags_of in (("one", base), ("several", many)):
            with contextlib.ExitStack() as stack:
                epoch = train(options, *flags_of(stack), "--epochs", 2, "--repeat",
                              options.repeat, prefix=prefix)
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
            nodes = [stack.enter_context(server(options, options.images, "--queue", 4096,
                                                cores=options.cores)) for _ in range(count)]
            return ["--dataset-mode", "remote_piloff", "--host",
                    ",".join(node.address for node in nodes)]
        return start
    return {**compare(options, "cpu", flags(1), flags(2)), "cores": options.cores}


def run_links(options, folder):
    shards = split(options.images, folder)

    def start(roots):
        def flags(stack):
            if is_netns:
                nodes = [stack.enter_context(server(options, root, prefix=prefix,
                                                    listen=f"{address}:0"))
                         for root, prefix, address in zip(roots, link.storage_prefixes,
                                                          link.storage_addresses)]
            else:
                nodes = [stack.enter_context(server(options, root, "--link-limit", f"{options.link}mbit"))
                         for root in roots]
            return ["--dataset-mode", "remote_nooff",
                    *(word for node in nodes for word in ("--host", node.address))]
        return flags
    link, why = hosts.make_link(not options.no_root, SHARDS)
    is_netns = link.name == "netns"
    with contextlib.closing(link):
        link.set_rate(options.link)
        found = compare(options, "links", start([options.images]), start(shards), link.compute_prefix)
    return {**found, "link_mbit": options.link, "kind": link.name, "why": why}


def longest_wait(log):
    """For a batch of a run, in seconds; the first ones wait for the start."""
    with open(log, newline="", encoding="ascii") as file:
        rows = list(csv.DictReader(file))
    return max(sum(float(row[name]) for name in WAITS if name in row) for row in rows[2:])


def steady(options, nodes):
    """The flags of a trainer that takes samples at a rate, and reads little ahead: else it would have
    all of a small set before anything happens."""
    return ["--dataset-mode", options.kill_mode, "--host", ",".join(node.address for node in nodes),
            "--consume-rate", options.rate, "--prefetch-bytes", options.prefetch_bytes]


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
            epoch = train(options, *steady(options, nodes), "--hedge", "--batch-log", log,
                          on_line=kill)
        gaps.append(longest_wait(log))
        digests.add(epoch["digest"])
    gaps.sort()
    return {"case": "kill", "gaps_s": gaps, "median_s": statistics.median(gaps),
            "p99_s": gaps[min(len(gaps) - 1, int(0.99 * len(gaps)))], "most_s": gaps[-1],
            "is_exact": len(digests) == 1}


class Place:
    """An address for a server that goes and comes back: a port that is bound, and not listened on."""

    def __init__(self):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"

    def close(self):
        self.socket.close()


class Replica:
    """A server that can be started again."""

    def __init__(self, options, address):
        self.options, self.address = options, address
        self.running = contextlib.ExitStack()
        self.start()

    def start(self):
        self.process = self.running.enter_context(
            server(self.options, self.options.images, listen=self.address))

    def restart(self):
        hosts.end(self.process)
        self.running.close()
        self.start()

    def close(self):
        self.running.close()


def run_rolling(options, folder):
    log = pathlib.Path(folder, "batches.csv")
    times, gaps, digests = {False: [], True: []}, [], set()
    for _ in range(options.repeats):
        for rolls in (False, True):
            with contextlib.ExitStack() as stack:
                nodes = []
                for _ in range(REPLICAS):
                    place = stack.enter_context(contextlib.closing(Place()))
                    nodes.append(stack.enter_context(
                        contextlib.closing(Replica(options, place.address))))
                left = list(nodes)

                def roll(batch, total, left=left):
                    while left and batch >= total * (REPLICAS + 1 - len(left)) / (REPLICAS + 1):
                        left.pop(0).restart()
                epoch = train(options, *steady(options, nodes), "--repeat", options.repeat,
                              "--batch-log", log,
                              on_line=roll if rolls else None)
                if rolls and left:
                    sys.exit(f"rolling: the epoch is too short for {REPLICAS} restarts: --repeat")
            times[rolls].append(epoch["seconds"])
            digests.add(epoch["digest"])
            if rolls:
                gaps.append(longest_wait(log))
    lost = [rolled - still for still, rolled in zip(times[False], times[True])]
    return {"case": "rolling", "seconds": times[True], "still_seconds": times[False],
            "lost_s": statistics.median(lost), "least_lost_s": min(lost), "most_lost_s": max(lost),
            "gaps_s": gaps, "is_exact": len(digests) == 1}


def say(found):
    exact = "" if found["is_exact"] else "; THE DIGESTS DIFFER"
    if found["case"] == "kill":
        print(f"kill: the longest wait for a batch is {found['median_s']:.3f} s (median), "
              f"{found['p99_s']:.3f} s (p99), {found['most_s']:.3f} s (most) of "
              f"{len(found['gaps_s'])} runs{exact}", flush=True)
        return
    if found["case"] == "rolling":
        print(f"rolling: {REPLICAS} restarts cost {found['lost_s']:.3f} s ({found['least_lost_s']:.3f} to "
              f"{found['most_lost_s']:.3f}) of {statistics.median(found['still_seconds']):.3f} s; the "
              f"longest wait for a batch is {max(found['gaps_s']):.3f} s{exact}", flush=True)
        return
    if "why" in found:
        print(f"links: {found['kind']} of {found['link_mbit']:g} Mbit/s each ({found['why']})")
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
    parser.add_argument("--repeats", type=int, default=5, help="turns of cpu, links and rolling")
    parser.add_argument("--repeat", type=int, default=1, help="passes over the images in an epoch")
    parser.add_argument("--cores", type=float, default=0.25, help="of each server in the case cpu")
    parser.add_argument("--link", type=float, default=250, help="Mbit/s of each server in links")
    parser.add_argument("--no-root", action="store_true", help="links by --link-limit")
    parser.add_argument("--kills", type=int, default=100, help="runs of the case kill")
    parser.add_argument("--kill-mode", default="remote_piloff")
    parser.add_argument("--rate", type=float, default=200, help="samples/s in the cases kill and rolling")
    parser.add_argument("--prefetch-bytes", default="8MiB", help="the same's read-ahead (8MiB)")
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
                found = {"cpu": run_cpu, "links": run_links, "kill": run_kill,
                         "rolling": run_rolling}[case](options, folder)
            except (quota.QuotaError, hosts.HostError) as error:
                sys.exit(f"several_servers: {case}: {error}")
        is_exact = is_exact and found["is_exact"]
        if options.json:
            print(json.dumps(found), flush=True)
        else:
            say(found)
    return 0 if is_exact else 1


if __name__ == "__main__":
    sys.exit(main())
