"""One measured epoch."""
import json
import os
import subprocess
import tempfile
import time

from . import hosts, quota, records, speed


# Small enough for every model to bear it however long an epoch is; nobody asks what it learns.
LEARNING_RATE = 1e-4


class MeasureError(Exception):
    pass


class Meter:
    """From here on: what the server takes of its CPUs, what others do that are no part of it, and
    how fast the CPUs are (speed.Clocks)."""

    def __init__(self, cpus, clocks, server):
        self.cpus, self.clocks, self.server = cpus, clocks, server
        self.speeds = clocks.look()
        self.before = self._look()

    def _look(self):
        return (self.server.cpu_seconds(), self.clocks.cpu_seconds(), hosts.busy_seconds(self.cpus))

    def read(self, client):
        """client: resources that the client's process used."""
        storage, clocks, busy = (now - then for now, then in zip(self._look(), self.before))
        others = busy - storage - clocks - client.ru_utime - client.ru_stime
        return storage, others, self.clocks.since(self.speeds)


def _run(command, log_path, stdout):
    """To its end: the resources that it used."""
    with open(log_path, "ab") as log:
        process = hosts.spawn(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=log)
        try:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            hosts.end(process)
    if process.returncode != 0:
        raise MeasureError(
            f"exit code {process.returncode}, see {log_path}: {' '.join(command)}")
    return usage


def make_profile(programs, link, cores, clocks, server, folder, options, log_path):
    """Measures both nodes, each on the cores that will do the work; the command, the CPU seconds
    that it measured, and whether others took part of the cores meanwhile.

    options: seed, samples, batch"""
    cpus = set(cores.storage + cores.compute)
    command = [*link.compute_prefix, *cores.compute_prefix,
               os.path.join(programs, "offload_train"), "--host", server.address,
               "--profiling", "--write-profile-folder", folder, "--profile-samples",
               options["samples"], "--dataset-mode", "remote_nooff", "--device", "none",
               "-j", len(cores.compute), "--seed", options["seed"], "-b",
               options["batch"], "-p", 0, "--no-val", "--json"]
    command = [str(part) for part in command]
    os.makedirs(folder, exist_ok=True)
    meter = Meter(cpus, clocks, server)
    started = time.monotonic()
    usage = _run(command, log_path, subprocess.DEVNULL)
    taken = time.monotonic() - started
    storage_s, others_s, found = meter.read(usage)
    speed.keep(folder, found)
    return (f"{server.command} & {' '.join(command)}", storage_s + usage.ru_utime + usage.ru_stime,
            others_s > records.DISTURBED_SHARE * len(cpus) * taken)


def train_command(programs, link, cores, server, setup, mode, options):
    """options: profile, repeat, round, seed, device, batch, arch"""
    command = [*link.compute_prefix, *cores.compute_prefix,
               os.path.join(programs, "offload_train"), "--host", server.address, *mode.flags,
               "--net-bw", f"{link.plan_mbit(setup.mbit):.6g}",
               "-j", quota.cpus_for(setup.compute_cores),
               "--device", options["device"], "--repeat", options["repeat"],
               "--start-epoch", options["round"], "--epochs", options["round"] + 1,
               "--seed", options["seed"], "-b", options["batch"], "-p", 0, "--no-val", "--json"]
    if setup.storage_cores == int(setup.storage_cores):  # of a part the server says
        command += ["--remote-cpus", f"{setup.storage_cores:g}"]
    if not mode.is_cold:
        command += ["--profile-folder", options["profile"]]
    if setup.consume_rate:
        command += ["--consume-rate", f"{setup.consume_rate:g}"]
    if options["device"] != "none":
        command += ["-a", options["arch"], "--lr", LEARNING_RATE]
    return [str(part) for part in command]


def run_epoch(command, server, cores, clocks, log_path):
    """The epoch's report with the CPU time of both nodes, `storage_cpu_s` and `compute_cpu_s`, and
    what others took of their CPUs, `other_cpu_s`: it should be next to nothing; and what the clocks
    found."""
    cpus = set(cores.storage + cores.compute)
    meter = Meter(cpus, clocks, server)
    with tempfile.TemporaryFile() as out:
        usage = _run(command, log_path, out)
        out.seek(0)
        lines = out.read().decode().splitlines()
    if not lines:
        raise MeasureError(f"it said nothing, see {log_path}: {' '.join(command)}")
    report = json.loads(lines[-1])
    report["storage_cpu_s"], others_s, found = meter.read(usage)
    report["compute_cpu_s"] = usage.ru_utime + usage.ru_stime
    report["cores"] = len(cpus)
    report["other_cpu_s"] = round(max(others_s, 0), 3)
    return report, found
