"""How fast the nodes' CPUs are while something is measured.

Where others share the machine, its memory and its caches, a CPU takes up to twice as long for the
same work as a second ago, and so it does while another CPU works: then a plan from a profile says
little about an epoch ten seconds later.  Two things help.  On each CPU a clock, bench_speed, does a
little of the nodes' work beside them, a fortieth of the time, so that a plan can be made for CPUs
as fast as they were during the epoch.  And where a node has one CPU, its idle moments are filled
with the same work by a process of the kernel's idle policy: so neither a clock nor a node finds the
CPU asleep, or alone, in one measurement and not in the next.  Where it has several they are left
empty: a CPU that is filled does not look for work, and two workers may share another for long.
"""
import json
import os
import shutil
import subprocess
import threading
import time

from . import hosts, image_files

FILE = "speed.json"  # of a profile, in its folder
NODES = "storage", "compute"
# What the clocks work on: few enough to be in memory soon, however many there are.
MAX_IMAGES, MAX_BYTES = 64, 64 << 20


def copy_images(root, folder):
    """Some of root's images, spread evenly over it, once."""
    folder = os.fspath(folder)
    if os.path.isdir(folder):
        return
    found = image_files.find(root)
    shutil.rmtree(folder + ".new", ignore_errors=True)
    os.makedirs(folder + ".new")
    total = 0
    for index, path in enumerate(found[::max(1, -(-len(found) // MAX_IMAGES))]):
        total += os.path.getsize(path)
        if index and total > MAX_BYTES:
            break
        shutil.copyfile(path, os.path.join(folder + ".new", f"{index}{os.path.splitext(path)[1]}"))
    os.rename(folder + ".new", folder)


def _stay_on(cpu):
    os.sched_setaffinity(0, [cpu])


def _fill(cpu):
    _stay_on(cpu)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


class Clock:
    """On one CPU: samples and CPU nanoseconds so far, and what fills the CPU's idle moments if
    they are filled."""

    def __init__(self, program, images, cpu, is_filled, log_path):
        self.processes, self.seen, self.reader = [], None, None
        try:
            with open(log_path, "ab") as log:
                self.process = self._spawn([program, images], lambda: _stay_on(cpu), log,
                                           stdout=subprocess.PIPE, text=True)
                if is_filled:
                    self._spawn([program, images, "--period-ms", 0], lambda: _fill(cpu), log,
                                stdout=subprocess.DEVNULL)
            if not self._read_line():
                raise hosts.HostError(f"{program} {images}: it said nothing; see {log_path}")
        except BaseException:
            self.close()
            raise
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _spawn(self, command, run_first, log, **options):
        self.processes.append(hosts.spawn(command, run_first, stderr=log, **options))
        return self.processes[-1]

    def _read_line(self):
        line = self.process.stdout.readline()
        if not line.endswith("\n"):
            return False
        self.seen = tuple(map(int, line.split()))
        return True

    def _read(self):
        while self._read_line():
            pass

    def look(self):
        """Samples, CPU nanoseconds in them, and CPU seconds that were taken from the nodes."""
        return (*self.seen, hosts.cpu_seconds(self.process.pid))

    def cpu_seconds(self):
        return sum(hosts.cpu_seconds(process.pid) for process in self.processes)

    def close(self):
        for process in self.processes:
            hosts.end(process)
        if self.reader:
            self.reader.join()
        for process in self.processes:
            if process.stdout:
                process.stdout.close()
        self.processes = []


class Clocks:
    """One on each CPU of both nodes; without a program nothing is known."""

    def __init__(self, program, images, cores, log_path):
        self.nodes = {"storage": cores.storage, "compute": cores.compute}
        self.clocks = {}
        try:
            for cpu in sorted({*cores.storage, *cores.compute}) if program else ():
                is_filled = all(len(cpus) == 1 for cpus in self.nodes.values() if cpu in cpus)
                self.clocks[cpu] = Clock(program, images, cpu, is_filled, log_path)
        except BaseException:
            self.close()
            raise

    def look(self):
        return time.monotonic(), {cpu: clock.look() for cpu, clock in self.clocks.items()}

    def cpu_seconds(self):
        return sum(clock.cpu_seconds() for clock in self.clocks.values())

    def since(self, before):
        """{node: us of CPU time for a sample}, {node: share of its CPUs that the clocks took};
        None: the time was too short."""
        (start, then), (end, now) = before, self.look()
        us, share = {}, {}
        for node, cpus in self.nodes.items():
            taken = [[last - first for first, last in zip(then[cpu], now[cpu])]
                     for cpu in cpus if cpu in now]
            samples, nanoseconds, seconds = map(sum, zip(*taken)) if taken else (0, 0, 0)
            if not samples:
                return None
            us[node] = nanoseconds / samples / 1e3
            share[node] = seconds / (end - start) / len(cpus)
        return us, share

    def close(self):
        for clock in self.clocks.values():
            clock.close()
        self.clocks = {}


def keep(folder, found):
    """found: of Clocks.since, while the profile in this folder was made."""
    if found:
        with open(os.path.join(folder, FILE), "w", encoding="utf-8") as file:
            json.dump({f"{node}_{key}": value
                       for key, values in zip(("us", "share"), found)
                       for node, value in values.items()}, file)


def _kept(profile):
    try:
        with open(os.path.join(profile, FILE), encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def left(profile):
    """{node: of each of its cores, what the clocks left to it while the profile was made}"""
    known = _kept(profile) or {}
    return {node: 1 - known.get(f"{node}_share", 0) for node in NODES}


def compare(profile, found):
    """{node: how many times as fast as while the profile was made}, and {node: cores of the
    profile's for each core}, as the clocks take some; None: not known."""
    known = _kept(profile)
    if not known or not found:
        return None
    speeds = {node: known[f"{node}_us"] / us for node, us in found[0].items()}
    return speeds, {node: value * (1 - found[1][node]) for node, value in speeds.items()}
