"""Several trainers at once on one storage node, against the best that they could do together.

usage: several_clients DIR [options]

One offload_server, and one offload_train (remote_auto) for each client of a case, each behind a
link of its own (bench_link).  A case is a list of clients, MBIT[xCORES][!], by slashes: 100/500x0.5
are two of 100 and 500 Mbit/s, the second with half a core; ! asks for everything ready-made
(remote_alloff), whatever it costs the others.  Whole cores are CPUs of --client-cpus, each client's
own while there are enough; other parts are held by a cgroup, which needs root.

All run for --settle and --seconds, of which the second are measured, or, with --passes, each its
epoch to the end.  The joint optimum is found from what each client does by itself, with those parts
of the storage cores that --alone lists (a quota holds the workers to them): the plan's time over
the cores, by the costs that those runs showed (offload_train's corrections of the model) and the
rates, is brought to what they took.  With --alone none it is the plan's, by the costs of the case's
own run, which nothing bears out.  Cores are those that are left by what the processes spend beside
their workers.

    pass_s      of each client: the time of one pass over the images
    best_s      what it would be where the sum of all clients' is the least
    of_fair     its rate over what it would be with an equal part of the storage cores to itself
    price       the server's price of CPU, on average

    sums        of pass_s over those of best_s: 1 is the joint optimum
    ratio       the time over the least in which all clients together could do what they did
    least       of of_fair: nobody starves

With --parted all of that takes turns with fixed parts: the same clients at the same time, each with
a server of its own that has so much of the cores.  Where the cores are whole, whole ones are tried,
in all ways or those nearest to the optimum's parts (--ways): so many workers, on CPUs of their own.
Other parts (equal ones, and the optimum's) are a quota, where there can be one.  The CPUs are as
busy, and nothing is computed in

    of_parted   the sum of pass_s over that of the parted clients in the same turn: of each way the
                median over the turns, and of those the greatest, so that the best fixed parts are
                what it is compared with

With --alone none the optimum is then found from what each client did with its parts in the same
turn, instead of by the costs.

Of --storage-cpus the workers have the first, one each; what is left is for the other threads of all
servers, and where nothing is left, those run beside the workers.
"""
import argparse
import copy
import json
import math
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from . import hosts, image_files, joint, parts, quota

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SPEC = re.compile(r"([\d.]+)(?:x([\d.]+))?(!?)")
DONE = re.compile(r"epoch 0 \[(\d+)/\d+\]")
COSTS = re.compile(r"costs at ([\d.]+) s: price of storage CPU ([\d.e+-]+); model(.*)")
FACTORS = re.compile(r"(\S+) x(\S+) x(\S+) x(\S+)")
SIDES = ("storage_cpu", "compute_cpu", "bytes")
BATCH = 64
MOST_PER_S = 20000  # samples of one client
START_S = 10  # at most, until the last client has begun
REPORTED = ("samples", "seconds", "wire_bytes", "choices", "errors", "digest")  # of an epoch


class Place:
    """CPUs, and how much of them."""

    def __init__(self, cpus, cores):
        self.cpus, self.cores = cpus, cores
        self.quota = None
        if cores < len(cpus) and cores != int(cores):
            try:
                self.quota = quota.Quota(cores)
            except quota.QuotaError as error:
                sys.exit(str(error))

    def spawn(self, command, **options):
        die_with_parent = hosts.dies_with_parent()

        def enter():
            die_with_parent()
            os.sched_setaffinity(0, self.cpus)
            if self.quota:
                self.quota.enter()
        return subprocess.Popen([str(part) for part in command], preexec_fn=enter, text=True,
                                **options)

    def close(self):
        if self.quota:
            self.quota.close()


def threads_of(pid):
    """Of each: its number, whether it is a worker (prep-N), and its CPU time."""
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        name, fields = text.partition("(")[2].rpartition(")")[0], text.rpartition(")")[2].split()
        seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        yield int(task), name.startswith("prep-"), seconds


def thread_seconds(pid):
    """CPU time of the workers and of all other threads."""
    found = [0.0, 0.0]
    for _, is_worker, seconds in threads_of(pid):
        found[not is_worker] += seconds
    return found


class Meter:
    """What a process spends between two looks."""

    def __init__(self, pid):
        self.pid, self.first, self.last = pid, None, None

    def look(self):
        try:
            now = (time.monotonic(), *thread_seconds(self.pid))
        except OSError:
            return
        self.first, self.last = self.first or now, now

    def cores(self):
        """Of workers and of others, on average; nothing if the time was too short to say."""
        if not self.first or self.last[0] - self.first[0] < 0.5:
            return 0.0, 0.0
        elapsed = self.last[0] - self.first[0]
        return tuple((b - a) / elapsed for a, b in zip(self.first[1:], self.last[1:]))


class Client:
    def __init__(self, options, text, index, suffix=""):
        match = SPEC.fullmatch(text)
        if not match:
            sys.exit(f"{text!r} is no client: MBIT[xCORES][!]")
        self.text, self.mbit, self.cores = text, float(match[1]), float(match[2] or 1)
        self.is_greedy, self.index, self.suffix = bool(match[3]), index, suffix
        self.options = options
        self.prices, self.factors, self.report = [], {}, None

    def place(self, cpus, is_shared):
        """is_shared: the cores are divided by those who have no quota."""
        self.home = Place(cpus, self.cores)
        self.is_shared = is_shared and not self.home.quota

    def connect(self, address):
        self.link = Place(self.options.link_cpus, len(self.options.link_cpus)).spawn(
            [self.options.bin.parent / "bench/bench_link", "--to", address.split(":")[-1],
             "--rate", self.mbit, "--delay", self.options.delay],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.address = self.link.stdout.readline().split()[-1]

    def start(self, passes):
        self.done = []  # (when, samples)
        self.begin = threading.Event()
        mode = "remote_alloff" if self.is_greedy else "remote_auto"
        self.process = self.home.spawn(
            [self.options.bin / "offload_train", "--host", self.address, "--device", "none",
             "--json", "--dataset-mode", mode, "-j", max(1, round(self.cores)), "-b", BATCH,
             "-p", 2, "--no-val", "--repeat", passes, "--log-level", "debug",
             *(["--profile-folder", self.options.profile] if self.options.is_planned else [])],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.meter = Meter(self.process.pid)
        if self.options.logs:
            self.log = open(self.options.logs / f"client-{self.index}{self.suffix}.log", "w",
                            encoding="utf-8")
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            if self.options.logs:
                self.log.write(line)
            costs = COSTS.search(line)
            done = DONE.search(line)
            if done:
                self.done.append((time.monotonic(), BATCH * int(done[1])))
                self.begin.set()
            elif costs:
                self.prices.append((time.monotonic(), float(costs[2])))
                for choice, *values in FACTORS.findall(costs[3]):
                    self.factors[choice] = dict(zip(SIDES, map(float, values)))
            self.last_line = line
        if self.options.logs:
            self.log.close()
        self.begin.set()

    def wait(self):
        out = self.process.stdout.read()
        self.reader.join()
        if self.process.wait() not in (0, 128 + signal.SIGTERM):
            sys.exit(f"offload_train ended with {self.process.returncode}: {self.last_line}")
        self.report = json.loads(out.splitlines()[-1]) if out.strip() else None

    def done_by(self, at_s):
        """Samples, between two lines of the log along a line."""
        before = max((one for one in self.done if one[0] <= at_s), default=None)
        after = min((one for one in self.done if one[0] > at_s), default=None)
        if not before or not after:
            return (before or (0, 0))[1]
        return before[1] + (after[1] - before[1]) * (at_s - before[0]) / (after[0] - before[0])

    def price(self, from_s, to_s):
        heard = [price for at, price in self.prices if from_s <= at <= to_s]
        return statistics.mean(heard) if heard else 0.0

    def close(self):
        self.link.stdin.close()
        self.link.wait()
        self.home.close()


class Alone:
    """A client by itself, with parts of the storage cores: {cores: seconds of a pass}."""

    def __init__(self, options, text, folder):
        measured, factors, compute = {}, {}, []
        for part in options.alone:
            for _ in range(options.alone_repeats):
                client = Client(options, text, 0, "-alone")
                place_clients(options, [client])
                cores = alone_cores(options, part)
                took = run_clients(options, [client], cores,
                                   (options.alone_settle, options.alone_seconds))
                measured[cores] = min(measured.get(cores, math.inf), took.times[0])
                factors |= client.factors
                compute.append(free_cores(options, [client])[0])
        model = joint.scaled_model(options.profile, folder, factors)
        self.curve = joint.Curve(options.bin, model, client.mbit, statistics.mean(compute),
                                 options.storage_cores)
        self.points = [{"cores": cores, "pass_s": time_s, "planned_s": self.curve.at(cores)}
                       for cores, time_s in sorted(measured.items())]
        self.curve.bring_to(measured)


def alone_cores(options, part):
    """Whole ones where no others can be had."""
    cores = part * options.storage_cores
    return cores if options.has_quota else max(1, round(cores))


def place_clients(options, clients):
    """CPUs of its own for each while there are enough, else all of them for all."""
    free = list(options.client_cpus)
    are_whole = all(client.cores == int(client.cores) for client in clients)
    has_enough = are_whole and sum(client.cores for client in clients) <= len(free)
    for client in clients:
        count = int(client.cores)
        client.place(free[:count] if has_enough else free, not has_enough)
        free = free[count:] if has_enough else free


def factors_of(clients):
    """Each client's corrections, and for choices that it never took the others' mean."""
    seen = {}
    for client in clients:
        for choice, sides in client.factors.items():
            seen.setdefault(choice, []).append(sides)
    means = {choice: {side: statistics.mean(one[side] for one in found) for side in SIDES}
             for choice, found in seen.items()}
    return [means | client.factors for client in clients]


def free_cores(options, clients):
    """Of each client, beside what it spends outside its workers."""
    sharers = sum(client.is_shared for client in clients)
    found = []
    for client in clients:
        most = client.cores
        if client.is_shared:
            most = min(most, len(options.client_cpus) / sharers)
        found.append(max(most - client.meter.cores()[1], 0.05 * most))
    return found


def curves_of(options, folder, clients, compute_cores, storage_cores):
    if not options.alone:
        models = [joint.scaled_model(options.profile, os.path.join(folder, str(client.index)), own)
                  for client, own in zip(clients, factors_of(clients))]
        return [joint.Curve(options.bin, model, client.mbit, cores, storage_cores)
                for client, model, cores in zip(clients, models, compute_cores)]
    curves = []
    for client in clients:
        text = client.text.rstrip("!")
        if text not in options.measured:
            own = os.path.join(folder, f"alone-{len(options.measured)}")
            options.measured[text] = Alone(options, text, own)
            if not options.json:
                say_alone(options, text)
        curves.append(options.measured[text].curve)
    return curves


class Server:
    """With so many of the storage cores: whole ones are workers on CPUs of their own, from the
    first-th on, others a quota."""

    def __init__(self, options, name, cores, first=0, network_threads=1):
        is_whole = cores == int(cores) and cores <= options.prep_workers
        workers = int(cores) if is_whole else options.prep_workers
        self.limit = None if is_whole else quota.Quota(cores, quota.own_group())
        cpus = options.storage_cpus
        own = cpus[first:first + workers] or cpus
        others = cpus[options.prep_workers:] or own
        self.log = None
        if options.logs:
            self.log = open(options.logs / f"{name}.log", "w", encoding="utf-8")
        self.process = Place(sorted({*own, *others}), len(cpus)).spawn(
            [options.bin / "offload_server", "--root", options.images,
             "--listen", "127.0.0.1:0", "--prep-workers", workers,
             "--grpc-workers", network_threads,
             *(["--prep-cgroup", self.limit.folder] if self.limit else []),
             "--log-level", "debug" if options.logs else "warn"],
            stdout=subprocess.PIPE, stderr=self.log)
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            sys.exit(f"offload_server said {line!r}")
        self.address = line.split()[-1]
        for thread, is_worker, _ in threads_of(self.process.pid):
            os.sched_setaffinity(thread, own if is_worker else others)
        self.meter = Meter(self.process.pid)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        if self.limit:
            self.limit.close()
        if self.log:
            self.log.close()


def start_servers(options, cores, num_clients):
    """One for all, or with a list of cores one for each, whose workers share no CPU if all are
    whole."""
    if not isinstance(cores, list):
        return [Server(options, "server", cores, network_threads=num_clients)]
    firsts = [sum(cores[:index]) for index in range(len(cores))]
    are_whole = all(one == int(one) for one in cores)
    return [Server(options, f"server-{index}", one, int(first) if are_whole else 0)
            for index, (one, first) in enumerate(zip(cores, firsts))]


class Took:
    """What clients did together: seconds of a pass of each, in an interval."""

    def __init__(self, times, from_s, to_s, meters):
        self.times, self.from_s, self.to_s = times, from_s, to_s
        # By workers, by others.
        self.used = [sum(one) for one in zip(*(meter.cores() for meter in meters))]


def run_clients(options, clients, cores, seconds, passes=0, before_the_end=None):
    """All together, on so many storage cores, or each on so many of its own: settles, and is
    measured."""
    servers = start_servers(options, cores, len(clients))
    for client in clients:
        client.connect(servers[client.index % len(servers)].address)
    enough = math.ceil(MOST_PER_S * (sum(seconds) + START_S) / options.num_images)
    for client in clients:
        client.start(passes or enough)
    for client in clients:
        client.begin.wait()
    from_s = time.monotonic() + (0 if passes else seconds[0])
    to_s = None if passes else from_s + seconds[1]
    meters = [one.meter for one in (*servers, *clients)]
    while all(client.process.poll() is None for client in clients) and \
            (not to_s or time.monotonic() < to_s + 0.2):
        if from_s <= time.monotonic() <= (to_s or math.inf):
            for meter in meters:
                meter.look()
        time.sleep(0.05)
    if passes:
        for client in clients:
            client.wait()
        times = [client.report["seconds"] / passes for client in clients]
        from_s, to_s = 0, time.monotonic()
    else:
        for client in clients:
            client.process.send_signal(signal.SIGTERM)
        for client in clients:
            client.wait()
        done = [max(client.done_by(to_s) - client.done_by(from_s), 1) for client in clients]
        times = [(to_s - from_s) / one * options.num_images for one in done]
    if before_the_end:
        before_the_end(servers[0].address)
    for client in clients:
        client.close()
    for server in servers:
        server.stop()
    return Took(times, from_s, to_s, [server.meter for server in servers])


def clients_of(options, text, suffix=""):
    clients = [Client(options, part, index, suffix) for index, part in enumerate(text.split("/"))]
    place_clients(options, clients)
    return clients


def run_case(options, text, folder):
    """The turns, each of all clients on one server and of all ways to part it, to and fro."""
    ways, found = [], []
    for turn in range(options.repeats):
        parted = []
        if turn % 2:
            parted = [run_parted(options, text, way) for way in reversed(ways)][::-1]
        digests = set()
        clients = clients_of(options, text)
        took = run_clients(
            options, clients, options.storage_cores, (options.settle, options.seconds),
            options.passes, (lambda address, into=digests: into.add(reference(options, address)))
            if options.verify else None)
        curves = Curves(options, folder, clients, took)
        one = evaluate(options, text, clients, took, curves, parted)
        if options.is_parted and not ways:
            ways = parts.ways(options.storage_cores, [client.text for client in clients],
                              [client["best_part"] for client in one["clients"]], options.ways,
                              options.has_quota)
            if not ways:
                sys.exit(f"{text}: {options.storage_cores:g} storage cores are too few for whole "
                         "parts, and there can be no quota here")
        if not turn % 2 and ways:
            parted = [run_parted(options, text, way) for way in ways]
            one = evaluate(options, text, clients, took, curves, parted)
        one["digests"] = sorted(
            digests | {client.report["digest"] for client in clients if client.report})
        found.append(one)
        if not options.json:
            say(one)
    return summary(text, ways, found)


def run_parted(options, text, cores):
    """The same clients at the same time, but each with a server and a fixed part of the cores of
    its own."""
    clients = clients_of(options, text, "-of-" + say_cores(cores).replace("/", "-"))
    took = run_clients(options, clients, cores, (options.settle, options.seconds))
    return {"cores": cores, "pass_s": took.times, "storage_used": took.used[0]}


def summary(text, ways, found):
    """Of the turns: medians, of ratios within a turn."""
    sums = [sum(client["pass_s"] for client in one["clients"]) for one in found]
    of_ways = [[done_s / sum(one["parted"][way]["pass_s"]) for done_s, one in zip(sums, found)]
               for way in range(len(ways))]
    medians = [statistics.median(one) for one in of_ways]
    whole = {"case": text, "turns": found,
             **{key: statistics.median(one[key] for one in found)
                for key in ("sums", "ratio", "least")}}
    if ways:
        whole["of_parted"] = max(medians)
        whole["ways"] = [{"cores": cores, "of_parted": ratios, "median": median}
                         for cores, ratios, median in zip(ways, of_ways, medians)]
    return whole


class Curves:
    """What each client could do with so much of the storage cores, by what it was seen to spend."""

    def __init__(self, options, folder, clients, took):
        self.options = options
        self.storage_cores = min(options.storage_cores, len(options.storage_cpus) - took.used[1])
        self.compute_cores = free_cores(options, clients)
        self.planned = curves_of(options, folder, clients, self.compute_cores, self.storage_cores)

    def brought_to(self, parted):
        """By what the clients did with their parts, where nothing else bears it out."""
        if self.options.alone or not parted:
            return self.planned
        found = []
        for index, curve in enumerate(map(copy.copy, self.planned)):
            points = {}
            for one in parted:
                cores = one["cores"][index] / self.options.storage_cores * self.storage_cores
                points.setdefault(cores, []).append(one["pass_s"][index])
            curve.bring_to({cores: statistics.mean(seen) for cores, seen in points.items()})
            found.append(curve)
        return found


def evaluate(options, text, clients, took, could, parted):
    """What was done, a pass of each client in so long, and what could have been."""
    times, used = took.times, took.used
    storage_cores, compute = could.storage_cores, could.compute_cores
    elapsed = max(times) * options.passes if options.passes else took.to_s - took.from_s
    curves = could.brought_to(parted)
    passes = [elapsed / time_s for time_s in times]
    given = joint.least_sum(curves, storage_cores)
    bests = [curve.at(part) for curve, part in zip(curves, given)]
    fair = [curve.at(storage_cores / len(clients)) for curve in curves]
    least_s = joint.least_makespan(curves, passes, storage_cores)
    return {
        "case": text, "seconds": elapsed, "least_s": least_s, "ratio": elapsed / least_s,
        "sums": sum(times) / sum(bests),
        "least": min(one / time_s for one, time_s in zip(fair, times)),
        "alone": {client.text: options.measured[client.text.rstrip("!")].points
                  for client in clients} if options.alone else {},
        "storage_cores": storage_cores, "storage_used": used[0], "storage_others": used[1],
        "parted": parted,
        "clients": [{
            "mbit": client.mbit, "is_greedy": client.is_greedy, "compute_cores": cores,
            "compute_used": client.meter.cores()[0], "per_s": options.num_images / time_s,
            "pass_s": time_s, "best_s": best, "best_part": part / storage_cores,
            "of_fair": one / time_s, "factors": client.factors,
            "price": client.price(took.from_s, took.to_s),
            "prices": [(round(at - took.from_s, 2), price) for at, price in client.prices],
            **({key: client.report[key] for key in REPORTED} if options.passes else {})}
            for client, cores, time_s, best, part, one in
            zip(clients, compute, times, bests, given, fair)]}


def reference(options, address):
    done = subprocess.run(
        [options.bin / "offload_train", "--host", address, "--device", "none", "--json",
         "--dataset-mode", "remote_nooff", "-b", "64", "-p", "0", "--no-val", "--repeat",
         str(options.passes), "--log-level", "warn"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])["digest"]


def say_alone(options, text):
    for point in options.measured[text].points:
        print(f"{text} alone, {point['cores']:.3f} storage cores: "
              f"{options.num_images / point['pass_s']:.1f} samples/s, "
              f"pass_s {point['pass_s']:.4f}, planned {point['planned_s']:.4f} "
              f"({point['pass_s'] / point['planned_s']:.3f})", flush=True)


def say_cores(cores):
    return "/".join(f"{one:.3g}" for one in cores)


def say(found):
    print(f"\n{found['case']}: {found['storage_cores']:.3f} storage cores for the workers, "
          f"{found['storage_used']:.3f} used, {found['storage_others']:.3f} by other threads")
    print(f"{'Mbit/s':>8} {'cores':>6} {'used':>6} {'samples/s':>10} {'pass_s':>8} {'best_s':>8} "
          f"{'of_fair':>8} {'price':>7}")
    for one in found["clients"]:
        print(f"{one['mbit']:8g} {one['compute_cores']:6.2f} {one['compute_used']:6.2f} "
              f"{one['per_s']:10.1f} {one['pass_s']:8.4f} {one['best_s']:8.4f} "
              f"{one['of_fair']:8.3f} {one['price']:7.3f}"
              f"{'  (all-off)' if one['is_greedy'] else ''}")
    done_s = sum(one["pass_s"] for one in found["clients"])
    for parted in found["parted"]:
        print(f"parted {say_cores(parted['cores'])}: pass_s " +
              " ".join(f"{time_s:.4f}" for time_s in parted["pass_s"]) +
              f", {parted['storage_used']:.3f} used; "
              f"of_parted {done_s / sum(parted['pass_s']):.3f}")
    print(f"sums {found['sums']:.3f}; ratio {found['ratio']:.3f} ({found['seconds']:.2f} s, "
          f"{found['least_s']:.2f} s); least {found['least']:.3f}", flush=True)


def say_summary(whole):
    def spread(values):
        return (f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f}, "
                f"{len(values)} turns)")

    text = whole["case"]
    for way in whole.get("ways", []):
        print(f"{text}: of_parted {say_cores(way['cores'])} {spread(way['of_parted'])}")
    for key in ("sums", "least"):
        print(f"{text}: {key} {spread([one[key] for one in whole['turns']])}", flush=True)


def main():
    cpus = sorted(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     epilog="See the head of the file.")
    parser.add_argument("images", metavar="DIR")
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/release/bin",
                        help="the programs; those of bench/ are beside it")
    parser.add_argument("--cases", default="1000,1000/1000,1000/1000/1000,100/500,100/500/1000",
                        help="by commas: MBIT[xCORES][!] of each client, by slashes")
    parser.add_argument("--settle", type=float, default=20, help="seconds before it is measured")
    parser.add_argument("--seconds", type=float, default=10, help="that are measured")
    parser.add_argument("--passes", type=int, default=0, help="of each client, instead of seconds")
    parser.add_argument("--alone", default="0.25,0.5,1",
                        help="parts of the storage cores with which each client is measured by "
                             "itself, or none")
    parser.add_argument("--alone-repeats", type=int, default=1,
                        help="of each, of which the fastest counts")
    parser.add_argument("--alone-settle", type=float, default=5, help="seconds before it is, alone")
    parser.add_argument("--alone-seconds", type=float, default=6, help="that are measured, alone")
    parser.add_argument("--parted", dest="is_parted", action="store_true",
                        help="measure also fixed parts of the cores, by turns: whole ones, or by "
                             "quotas equal ones and those of the joint optimum")
    parser.add_argument("--ways", type=int, default=3,
                        help="to part whole cores, at most: those nearest to the joint optimum's "
                             "parts")
    parser.add_argument("--repeats", type=int, default=1, help="turns of each case")
    parser.add_argument("--prep-workers", type=int, default=1,
                        help="of the one server, or of all that have parts of its cores")
    parser.add_argument("--storage-cpus", type=hosts.cpu_list, default=cpus[:1],
                        help='such as "0-4": one for each worker, and what is left for the other '
                             "threads")
    parser.add_argument("--storage-cores", type=float, default=0,
                        help="CPU time of the workers, by a quota; all by default")
    parser.add_argument("--link-cpus", type=hosts.cpu_list, default=cpus)
    parser.add_argument("--client-cpus", type=hosts.cpu_list, default=cpus[1:] or cpus)
    parser.add_argument("--delay", type=float, default=0.2, help="of each link, ms one way")
    parser.add_argument("--profile", type=pathlib.Path,
                        help="a folder made before; else one is made")
    parser.add_argument("--planned", dest="is_planned", action="store_true",
                        help="the clients begin with the profile too")
    parser.add_argument("--verify", action="store_true", help="compare with remote_nooff's digests")
    parser.add_argument("--logs", type=pathlib.Path, help="a folder for the logs of the last case")
    parser.add_argument("--json", action="store_true", help="an object for each case")
    options = parser.parse_args()
    options.storage_cores = min(options.storage_cores or options.prep_workers, options.prep_workers)
    options.num_images = len(image_files.find(options.images))
    options.alone = ([] if options.alone == "none" else
                     [float(part) for part in options.alone.split(",")])
    options.measured = {}
    options.has_quota = (options.is_parted or options.alone) and quota.is_possible()
    if options.is_parted and options.passes:
        parser.error("--parted takes seconds, and no passes")
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        if not options.profile:
            options.profile = pathlib.Path(folder, "profile")
            Place(options.storage_cpus, len(options.storage_cpus)).spawn(
                [options.bin / "offload_profile", "run", options.images, "-o", options.profile,
                 "--log-level", "warn"], stdout=subprocess.DEVNULL).wait()
        for text in options.cases.split(","):
            whole = run_case(options, text, folder)
            if options.json:
                print(json.dumps(whole), flush=True)
            elif options.repeats > 1:
                say_summary(whole)
            for one in whole["turns"]:
                if len(one["digests"]) > 1:
                    failures.append(f"{text}: digests differ: {one['digests']}")
    if failures:
        sys.exit("\n".join(failures))
