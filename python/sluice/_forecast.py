"""What Sluice gives from a folder or server: measured with its loader, and forecast by the planner
(docs/PLANNER.md) from a profile that is taken here."""
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time

from sluice import _sluice, _usage, programs
from sluice._batches import Batches, servers

MODES = ("remote_auto", "remote_nooff")
RESOURCES = {"net_bw": "network", "storage_cpus": "storage CPU", "compute_cpus": "compute CPU"}
USUAL = {"net_bw": 1000.0, "storage_cpus": 4.0}  # assumed for a storage node that does not exist yet
FEWEST, MOST = 16, 256  # samples of a profile


class _Rows(Batches):
    """Batches of which only the number of rows is looked at."""

    def _made_of(self, batch):
        return batch.num_rows


def open_loader(source, batch_size, mode, pipeline):
    return _Rows(source, batch_size, mode=mode, pipeline=pipeline, rank=0, world_size=1,
                 retry_for="5s")


def run(loader, seconds):
    """Epochs for so long, without a step: what stats() says of them together.

    The first epoch, in which plans are made and files read that then lie in memory, counts only if
    the others are shorter than it."""
    epochs = []
    before = _usage.now()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        batches = iter(loader)
        for _ in batches:
            if time.monotonic() >= end:
                break
        batches.close()
        epochs.append(loader.stats())
    usage = _usage.now() - before
    if sum(epoch["seconds"] for epoch in epochs[1:]) > epochs[0]["seconds"]:
        del epochs[0]

    total = {key: sum(epoch[key] for epoch in epochs)
             for key in ("samples", "seconds", "wire_bytes", "errors")}
    stalls = {name: sum(epoch["stalls"][name] * epoch["seconds"] for epoch in epochs) /
              total["seconds"] for name in epochs[0]["stalls"]}
    return {"mode": loader.info["mode"], **total,
            "samples_per_s": total["samples"] / total["seconds"],
            "bytes_per_sample": total["wire_bytes"] / max(total["samples"], 1),
            "stalls": stalls,
            "bound_by": max(stalls.keys() - {"trainer"}, key=stalls.get),
            "own_cores": (usage.own_cpu_s + usage.child_cpu_s) / usage.seconds,
            "machine_cores": usage.machine_cpu_s / usage.seconds, "cores": _usage.cores(),
            "rates": epochs[-1].get("rates")}


def _call(*command):
    """What a program of ours prints; its last words as an error if it fails."""
    name, *arguments = map(str, command)
    done = subprocess.run([programs.find(name), *arguments, "--log-level", "warn"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        words = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise _sluice.InternalError(f"{name} failed: {words}")
    return done.stdout


def take_profile(source, loader, folder, batch_size, pipeline, measured, seconds):
    """Writes a profile of some samples; returns how many.  Of a server's samples all are among the
    first that it lists; of a folder's they are spread evenly."""
    available = loader.info["num_samples"][0]
    rate = measured["samples_per_s"]
    is_remote = bool(servers(source))
    # A server is asked four times for each of some ten forms, and floats are several times a file:
    # a sample takes as long as 120 that come as planned.  In a folder its ops alone are timed.
    wanted = int(min(max(rate * seconds / (120 if is_remote else 20), FEWEST), MOST, available))
    pipeline = ["--pipeline", pipeline] if pipeline else []
    if is_remote:
        first = int(min(max(rate * seconds / 4, wanted), available))
        hosts = [word for text in servers(source) for word in ("--host", text)]
        _call("offload_train", *hosts, "--device", "none", "--no-val", "--profiling",
              "--write-profile-folder", folder, "--limit-samples", first,
              "--profile-samples", wanted, "-b", batch_size, "--retry-for", "5s",
              "--rank", 0, "--world-size", 1, *pipeline)
        return wanted
    copies = os.path.join(folder, "samples")
    for i in range(wanted):
        path = loader.path(i * available // wanted)
        os.makedirs(os.path.dirname(os.path.join(copies, path)), exist_ok=True)
        shutil.copyfile(os.path.join(source, path), os.path.join(copies, path))
    _call("offload_profile", "run", copies, "-o", folder, *pipeline)
    return wanted


def whatif(folder, batch_size, machines):
    """The planner's forecast for each mode: a list of dicts.  machines: Mbit/s and cores."""
    link = machines["net_bw"]
    lines = _call("offload_profile", "whatif", "--profile-folder", folder, "--json",
                  "--net-bw", "none" if link is None else f"{link:.6f}",
                  "--remote-cpus", machines["storage_cpus"],
                  "--local-cpus", machines["compute_cpus"], "-b", batch_size)
    forecasts = []
    for plan in map(json.loads, lines.splitlines()):
        samples, busy = plan["samples"], plan["busy_s"]
        forecasts.append({
            "mode": plan["mode"], "samples_per_s": samples / plan["primal_s"],
            "bound_by": plan["slowest"], "bytes_per_sample": plan["wire_bytes"] / samples,
            "storage_cpu_s": busy["storage_cpu"] * machines["storage_cpus"] / samples,
            "compute_cpu_s": busy["compute_cpu"] * machines["compute_cpus"] / samples})
    return forecasts


def _local(nooff, machines):
    """The forecast without a server: that of remote_nooff if its compute CPU were the limit."""
    return {**nooff, "mode": "local", "bound_by": "compute_cpu", "bytes_per_sample": 0.0,
            "samples_per_s": machines["compute_cpus"] / nooff["compute_cpu_s"],
            "storage_cpu_s": 0.0}


def _set_disk(folder, measured):
    """The disk of the profile's model, as the epochs here had it: a profile is a few reads, of
    which one that hangs weighs much.  A folder's epochs tell no rate, but how long they waited."""
    path = os.path.join(folder, "cost_model.json")
    with open(path) as file:
        model = json.load(file)
    disk = {"sample": 0.0, "file_byte": 0.0}
    if measured["rates"] is None:
        disk["sample"] = measured["stalls"]["disk"] / measured["samples_per_s"]
    elif measured["rates"]["disk_bytes_per_s"]:
        disk["file_byte"] = 1 / measured["rates"]["disk_bytes_per_s"]
    model["disk"] = disk
    with open(path, "w") as file:
        json.dump(model, file)


def _machines(folder, given, is_remote):
    """Those to forecast for, and where each figure is from."""
    with open(os.path.join(folder, "cost_model.json")) as file:
        profile = json.load(file)
    machines = {"net_bw": None, "storage_cpus": 1.0, "compute_cpus": float(_usage.cores())}
    origins = {"compute_cpus": "of this machine"}
    if not is_remote:
        machines.update(USUAL)
        origins.update(dict.fromkeys(USUAL, "assumed"))
    else:
        origins.update(net_bw="measured", storage_cpus="as the server says")
        machines["storage_cpus"] = profile["storage_cores"]
        if profile["link_bytes_per_s"]:
            machines["net_bw"] = profile["link_bytes_per_s"] * 8 / 1e6
    for name, value in given.items():
        if value is not None:
            machines[name], origins[name] = value, "given"
    return machines, origins


def examine(source, batch_size, *, pipeline=None, seconds=20.0, tell=lambda text: None, **given):
    """Half of the time goes to epochs in each mode, half to the profile.  given: net_bw,
    storage_cpus and compute_cpus to forecast for; None: as measured, or as is usual."""
    is_remote = bool(servers(source))
    modes = MODES if is_remote else ("local",)
    with contextlib.ExitStack() as stack:
        measured = []
        for mode in modes:
            loader = stack.enter_context(open_loader(source, batch_size, mode, pipeline))
            tell(f"measuring {mode} for {seconds / 2 / len(modes):.0f} s")
            measured.append(run(loader, seconds / 2 / len(modes)))
        found = {"source": source if servers(source) else os.fspath(source), "samples": loader.info["num_samples"][0],
                 "batch_size": batch_size, "measured": measured, "profile_samples": 0,
                 "machines": None, "origins": None, "forecast": [], "twice": {},
                 "no_forecast": None}
        try:
            for name in ("offload_train",) * is_remote + ("offload_profile",):
                programs.find(name)
            tell(f"profiling some samples for about {seconds / 2:.0f} s")
            with tempfile.TemporaryDirectory(prefix="sluice-doctor-") as folder:
                _forecast(found, loader, folder, pipeline, seconds / 2, given)
        except (_sluice.Error, OSError) as error:
            found["no_forecast"] = str(error)
        return found


def _forecast(found, loader, folder, pipeline, seconds, given):
    source, batch_size = found["source"], found["batch_size"]
    is_remote = bool(servers(source))
    samples = take_profile(source, loader, folder, batch_size, pipeline, found["measured"][0],
                           seconds)
    _set_disk(folder, found["measured"][0])
    machines, origins = _machines(folder, given, is_remote)
    forecast = whatif(folder, batch_size, machines)
    if not is_remote:
        nooff = next(run for run in forecast if run["mode"] == "remote_nooff")
        forecast.append(_local(nooff, machines))
    twice = {}
    for name in RESOURCES:
        if machines[name] is not None:
            more = {**machines, name: 2 * machines[name]}
            twice[name] = whatif(folder, batch_size, more)[0]["samples_per_s"]
    found.update(profile_samples=samples, machines=machines, origins=origins, forecast=forecast,
                 twice=twice)
