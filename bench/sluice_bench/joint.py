"""The best that clients of one storage node could do together, from what each does alone.

T_j(c), the time of one pass over the images by client j with c storage cores of its own, is what
the planner says (`offload_profile plan`).  It falls and is convex in c, so the optimum over all
ways to part the cores follows from these curves alone.
"""
import bisect
import concurrent.futures
import json
import os
import pathlib
import subprocess

LEAST_CORES = 1e-4  # the planner takes no 0
NUM_POINTS = 32
EPOCHS = (0, 1)  # whose crops are planned for


class JointError(Exception):
    pass


def scaled_model(profile, folder, factors):
    """A copy of the profile whose model's costs are multiplied: {choice: {side: factor}}.  Reading
    files and the transport are left out: rates that were measured beside them have them already."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    profile = pathlib.Path(profile)
    for name in ("prep_sizes.csv", "prep_times.csv"):
        (folder / name).write_bytes((profile / name).read_bytes())
    model = json.loads((profile / "cost_model.json").read_text(encoding="utf-8"))
    model["disk"] = {name: 0 for name in model["disk"]}
    model["transport"] = {name: 0 for name in model["transport"]}
    for choices in model["weights"].values():
        for choice, sides in choices.items():
            for side, weights in sides.items():
                factor = factors.get(choice, {}).get(side, 1)
                for feature in weights:
                    weights[feature] *= factor
    (folder / "cost_model.json").write_text(json.dumps(model), encoding="utf-8")
    return folder


class Curve:
    """T(c) of one client, for c up to `most`."""

    def __init__(self, programs, profile, mbit, compute_cores, most):
        self.cores = [most * k / NUM_POINTS for k in range(NUM_POINTS + 1)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            self.seconds = list(pool.map(
                lambda cores: self._ask(programs, profile, mbit, compute_cores, cores), self.cores))

    @staticmethod
    def _ask(programs, profile, mbit, compute_cores, cores):
        total = 0
        for epoch in EPOCHS:
            command = [os.path.join(programs, "offload_profile"), "plan",
                       "--profile-folder", profile, "--planner", "lp",
                       "--costs", "model", "--net-bw", f"{mbit:.12g}mbit",
                       "--remote-cpus", max(LEAST_CORES, cores), "--local-cpus", compute_cores,
                       "--form", "jpeg_crop", "--form", "u8_packed", "--epoch", epoch, "--json"]
            done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                                  check=False)
            if done.returncode != 0:
                raise JointError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
            total += json.loads(done.stdout)["dual_s"]
        return total / len(EPOCHS)

    def bring_to(self, measured):
        """Multiplies the curve so that it goes through {cores: seconds}; between them by a line,
        outside by the next."""
        points = sorted((cores, seconds / self.at(cores)) for cores, seconds in measured.items())
        if not points:
            return
        found = []
        for cores, seconds in zip(self.cores, self.seconds):
            right = min(max(bisect.bisect_left(points, (cores,)), 1), len(points) - 1)
            (low, below), (high, above) = points[max(right - 1, 0)], points[right]
            part = min(max((cores - low) / (high - low), 0), 1) if high > low else 0
            found.append(seconds * (below + (above - below) * part))
        self.seconds = found

    def at(self, cores):
        """Seconds of a pass, between the points along a line (which is above the curve)."""
        right = min(max(bisect.bisect_left(self.cores, cores), 1), NUM_POINTS)
        low, high = self.cores[right - 1], self.cores[right]
        part = min(max((cores - low) / (high - low), 0), 1)
        return self.seconds[right - 1] * (1 - part) + self.seconds[right] * part

    def cores_for(self, seconds):
        """The fewest cores with which a pass takes no longer; None: none are enough."""
        if seconds < self.seconds[-1]:
            return None
        low, high = 0.0, self.cores[-1]
        for _ in range(50):
            middle = (low + high) / 2
            if self.at(middle) <= seconds:
                high = middle
            else:
                low = middle
        return high


def least_sum(curves, cores):
    """Each client's cores where the sum of the times of a pass is the least: each part goes to
    whoever gains most by it."""
    parts = 8 * NUM_POINTS
    given = [0] * len(curves)
    for _ in range(parts):
        gains = [curve.at(cores * n / parts) - curve.at(cores * (n + 1) / parts)
                 for curve, n in zip(curves, given)]
        given[gains.index(max(gains))] += 1
    return [cores * n / parts for n in given]


def least_makespan(curves, passes, cores):
    """When all can be done that start together, each with so many passes."""
    def fits(seconds):
        used = 0
        for curve, count in zip(curves, passes):
            needed = curve.cores_for(seconds / count)
            if needed is None:
                return False
            used += needed
        return used <= cores

    low, high = 0.0, sum(curve.seconds[0] * count for curve, count in zip(curves, passes))
    for _ in range(60):
        middle = (low + high) / 2
        if fits(middle):
            high = middle
        else:
            low = middle
    return high
