"""What the planner says, by asking offload_profile."""
import json
import os
import statistics
import subprocess

from . import cells, records

NUM_DRAWS = 8
OPENIMAGES_MODES = ("no-off", "all-off", "resize-off", "sophon", "auto")


class PlanError(Exception):
    pass


def _ask(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise PlanError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def forecasts(programs, folder, link, setup, gpu_rate, batch):
    """{planner: its forecast}, and the commands that gave it, for one pass over the images: the
    mean over crops of several draws, as few images of one draw may be all large or all small."""
    command = [os.path.join(programs, "offload_profile"), "whatif", "--profile-folder", folder,
               "--net-bw", f"{link.plan_mbit(setup.mbit):.6g}", "--remote-cpus",
               f"{setup.storage_cores:g}", "--local-cpus", f"{setup.compute_cores:g}", "--form",
               "jpeg_crop", "--form", "u8_packed", "--batch-size", batch, "--json"]
    if gpu_rate:
        command += ["--gpu-rate", f"{gpu_rate:g}"]
    draws = [{plan["planner"]: plan for plan in _ask([*command, "--epoch", epoch])}
             for epoch in range(NUM_DRAWS)]
    return ({planner: _mean([plans[planner] for plans in draws]) for planner in draws[0]},
            f"{' '.join(map(str, command))} --epoch 0 (and to {NUM_DRAWS - 1}: the mean)")


def _mean(plans):
    """What was chosen is the first's."""
    mean = dict(plans[0])
    for key in ("primal_s", "fill_s", "wire_bytes", "gap"):
        mean[key] = statistics.fmean(plan[key] for plan in plans)
    mean["wire_bytes"] = round(mean["wire_bytes"])
    mean["busy_s"] = {key: statistics.fmean(plan["busy_s"][key] for plan in plans)
                      for key in mean["busy_s"]}
    mean["slowest"] = max(mean["busy_s"], key=mean["busy_s"].get)
    return mean


def pass_seconds(plan, repeat):
    """Of each of `repeat` passes over the images that make an epoch, by a plan for one."""
    return plan["primal_s"] + plan["fill_s"] / repeat


def seconds_at_speeds(known, speeds):
    """Of a pass by the choices of a line of forecast.csv, where each node's CPUs are so many times
    as fast as it takes them to be."""
    busy = {key: value for key, value in known.items() if key.startswith("busy_")}
    fill_s = known["seconds"] - max(busy.values())
    for node, value in speeds.items():
        busy[f"busy_{node}_cpu"] /= value
    return max(busy.values()) + fill_s


def replay_openimages(programs, sizes, mbit, storage_cores, compute_cores):
    """The bytes of each mode for published sizes, planned for these rates without any image."""
    found = []
    for name in OPENIMAGES_MODES:
        mode = cells.MODES[name]
        command = [os.path.join(programs, "offload_profile"), "plan", "--sizes", sizes,
                   "--times-model", "--planner", mode.planner, "--net-bw", f"{mbit:g}",
                   "--remote-cpus", storage_cores, "--local-cpus", compute_cores, "--json"]
        forms = [("", ())]
        if name == "auto":
            forms = [(", plain forms", ("--form", "none")),
                     (", all forms", ("--form", "jpeg_crop", "--form", "u8_packed"))]
        for suffix, flags in forms:
            (plan,) = _ask([*command, *flags])
            found.append({
                "mode": mode.title + suffix, "samples": plan["samples"],
                "wire_bytes": plan["wire_bytes"], "seconds": plan["primal_s"],
                "slowest": plan["slowest"], "choices": records.choices_text(plan["choices"]),
                "command": " ".join(map(str, [*command, *flags]))})
    return found

