"""The files of a sweep: rows are appended as they are measured, so that it can go on later.

    settings.json   what must not change between two calls, and the machine
    rows.csv        one line for each measured epoch
    forecast.csv    one line for each setup, mode and round: what the plan of the round's profile
                    says; the last one counts
    runs.jsonl      one object for each call: options, commit, load, dates
    cells.csv       what follows from the first two, made anew each time
"""
import collections
import csv
import json
import os
import statistics

from . import cells

ROW_FIELDS = (
    "link", "mbit", "storage_cores", "compute_cores", "consume_rate", "mode", "round", "repeat",
    "samples", "seconds", "wire_bytes", "digest", "errors", "reduced", "retries", "stall_disk",
    "stall_storage_cpu", "stall_network", "stall_compute_cpu", "stall_trainer", "choices",
    "storage_cpu_s", "compute_cpu_s", "other_cpu_s", "cores", "cores_shared", "storage_speed",
    "compute_speed", "plan_at_speed", "commit", "date", "command")
FORECAST_FIELDS = (
    "link", "mbit", "storage_cores", "compute_cores", "consume_rate", "mode", "round", "seconds",
    "wire_bytes", "slowest",
    "busy_disk", "busy_storage_cpu", "busy_network", "busy_compute_cpu", "busy_gpu", "busy_pcie",
    "busy_receive", "gap",
    "choices", "commit", "command")
CELL_FIELDS = (
    "link", "mbit", "storage_cores", "compute_cores", "consume_rate", "mode", "rounds", "repeat",
    "seconds", "seconds_min", "seconds_max", "wire_bytes", "bytes_per_sample", "plan_seconds",
    "plan_seconds_min", "plan_seconds_max",
    "plan_wire_bytes", "plan_slowest", "measured_over_plan", "storage_speed", "compute_speed",
    "plan_at_speed", "measured_over_plan_at_speed", "measured_over_best_fixed",
    "measured_over_sophon", "plan_over_sophon", "stall_disk", "stall_storage_cpu", "stall_network",
    "stall_compute_cpu", "stall_trainer", "bound_by", "plan_share", "storage_cpu_s",
    "compute_cpu_s", "other_cpu_s", "choices")
NUMBERS = {
    "mbit": float, "consume_rate": float, "storage_cores": float, "compute_cores": float,
    "round": int, "repeat": int,
    "samples": int, "seconds": float, "wire_bytes": int, "errors": int, "reduced": int,
    "retries": int, "storage_cpu_s": float, "compute_cpu_s": float, "other_cpu_s": float,
    "cores": int, "cores_shared": int, "storage_speed": float, "compute_speed": float,
    "plan_at_speed": float,
    "gap": float, "stall_disk": float, "stall_storage_cpu": float, "stall_network": float,
    "stall_compute_cpu": float, "stall_trainer": float, "busy_disk": float,
    "busy_storage_cpu": float, "busy_network": float, "busy_compute_cpu": float,
    "busy_gpu": float, "busy_pcie": float, "busy_receive": float}


# An epoch during which others took more than this share of the cores counts only where there is
# no better one.
DISTURBED_SHARE = 0.03


def is_disturbed(row):
    return row["other_cpu_s"] > DISTURBED_SHARE * row["cores"] * row["seconds"]


class Table:
    """A CSV file that grows; a line that a kill cut short is dropped when it is read."""

    def __init__(self, path, fields):
        self.path, self.fields, self.rows = path, fields, []
        if not os.path.exists(path):
            return
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read()
        whole = text[:text.rfind("\n") + 1]
        if whole != text:
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(whole)
        reader = csv.DictReader(whole.splitlines())
        if reader.fieldnames and tuple(reader.fieldnames) != tuple(fields):
            raise ValueError(f"{path} has not the columns of this program: take another --out")
        for raw in reader:
            self.rows.append({key: NUMBERS.get(key, str)(value) for key, value in raw.items()})

    def append(self, row):
        is_new = not os.path.exists(self.path) or os.path.getsize(self.path) == 0
        with open(self.path, "a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, self.fields, lineterminator="\n")
            if is_new:
                writer.writeheader()
            writer.writerow(row)
            file.flush()
            os.fsync(file.fileno())
        self.rows.append({key: row[key] for key in self.fields})


def setup_of(row):
    return cells.Setup(*(row[field] for field in cells.Setup._fields))


def choices_text(choices):
    return " ".join(f"{name}:{count}" for name, count in sorted(choices.items()))


class Records:
    def __init__(self, folder):
        self.folder = folder
        self.rows = Table(os.path.join(folder, "rows.csv"), ROW_FIELDS)
        self.forecasts = Table(os.path.join(folder, "forecast.csv"), FORECAST_FIELDS)

    def path(self, name):
        return os.path.join(self.folder, name)

    def settings(self):
        try:
            with open(self.path("settings.json"), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return None

    def keep_settings(self, settings):
        """The first call writes them; raises ValueError where a later one differs."""
        before = self.settings()
        if before is None:
            with open(self.path("settings.json"), "w", encoding="utf-8") as file:
                json.dump(settings, file, indent=1)
            return
        for key, value in settings.items():
            if before.get(key) != value:
                raise ValueError(f"{self.folder} was measured with {key} {before.get(key)!r}, and "
                                 f"this is {value!r}: take another --out")

    def add_run(self, run):
        with open(self.path("runs.jsonl"), "a", encoding="utf-8") as file:
            file.write(json.dumps(run) + "\n")

    def runs(self):
        try:
            with open(self.path("runs.jsonl"), encoding="utf-8") as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def has(self, setup, mode, number, attempts):
        """Whether this round needs no more epochs."""
        rows = [row for row in self.rows.rows
                if setup_of(row) == setup and row["mode"] == mode and row["round"] == number]
        return len(rows) >= attempts or any(not is_disturbed(row) for row in rows)

    def repeat_of(self, setup):
        """What earlier rows of this setup had: all must have the same, or digests differ."""
        for row in self.rows.rows:
            if setup_of(row) == setup:
                return row["repeat"]
        return None

    def forecast(self, setup, mode, number):
        found = None
        for row in self.forecasts.rows:
            if setup_of(row) == setup and row["mode"] == mode and row["round"] == number:
                found = row
        return found

    def check_digests(self):
        """Equal draws must give equal data, whatever the mode, the machine and the link."""
        seen = {}
        for row in self.rows.rows:
            first = seen.setdefault((row["repeat"], row["round"]), row)
            if row["digest"] != first["digest"] or row["errors"] != first["errors"]:
                raise DigestError(
                    f"DIGESTS DIFFER: {first['mode']} at {cells.setup_text(setup_of(first))} "
                    f"delivered {first['digest']} with {first['errors']} bad samples, "
                    f"{row['mode']} at {cells.setup_text(setup_of(row))} {row['digest']} with "
                    f"{row['errors']} (round {row['round']}, {row['repeat']} times the images)")
        return len(seen)


class DigestError(Exception):
    pass


# What an epoch can be put down to, and the busy times of a plan that this may mean.  Receiving is
# done by a thread of the compute node, behind which what the network brings waits.
STALLS = {"disk": ("disk",), "storage_cpu": ("storage_cpu",), "network": ("network", "receive"),
          "compute_cpu": ("compute_cpu", "receive"), "trainer": ("gpu", "pcie")}


def plan_share(plan, stall):
    """For how much of the time of its limit the plan has that busy: 1, it is that."""
    busy = {key: value for key, value in plan.items() if key.startswith("busy_")}
    most = max(busy.values())
    return max(busy[f"busy_{name}"] for name in STALLS[stall]) / most if most > 0 else None


def summarize(records):
    """A dict for each setup and mode in the order of CELL_FIELDS; seconds and bytes are those of
    one pass over the images (an epoch of `repeat` passes, divided)."""
    groups = collections.OrderedDict()
    for row in records.rows.rows:
        groups.setdefault((setup_of(row), row["mode"]), []).append(row)
    found = []
    for (setup, mode), rows in groups.items():
        rows = [row for row in rows if not is_disturbed(row)] or rows
        passes = sorted(row["seconds"] / row["repeat"] for row in rows)
        cell = dict(setup._asdict(), mode=mode, rounds=len(rows), repeat=rows[0]["repeat"],
                    seconds=statistics.median(passes), seconds_min=passes[0],
                    seconds_max=passes[-1])
        # Of the row in the middle, so that what is told belongs together.
        middle = sorted(rows, key=lambda row: row["seconds"])[(len(rows) - 1) // 2]
        for field in ("wire_bytes", "storage_cpu_s", "compute_cpu_s", "other_cpu_s"):
            cell[field] = middle[field] / middle["repeat"]
        cell["bytes_per_sample"] = middle["wire_bytes"] / middle["samples"]
        for field in ROW_FIELDS:
            if field.startswith("stall_") or field == "choices":
                cell[field] = middle[field]
        # Each epoch was planned by its round's profile, made just before it.
        pairs = [(row, records.forecast(setup, mode, row["round"])) for row in rows]
        plans = sorted((plan for _, plan in pairs if plan and plan["seconds"] > 0),
                       key=lambda plan: plan["seconds"])
        plan = plans[(len(plans) - 1) // 2] if plans else None
        for field in ("plan_seconds", "plan_seconds_min", "plan_seconds_max"):
            choose = {"min": min, "max": max}.get(field[-3:], statistics.median)
            cell[field] = choose(each["seconds"] for each in plans) if plans else None
        cell["plan_wire_bytes"] = plan["wire_bytes"] if plan else None
        cell["plan_slowest"] = plan["slowest"] if plan else None
        cell["measured_over_plan"] = statistics.median(
            row["seconds"] / row["repeat"] / of["seconds"] for row, of in pairs
            if of and of["seconds"] > 0) if plans else None
        paced = [row for row in rows if row["plan_at_speed"] > 0]
        for field in ("storage_speed", "compute_speed", "plan_at_speed"):
            cell[field] = statistics.median(row[field] for row in paced) if paced else None
        cell["measured_over_plan_at_speed"] = statistics.median(
            row["seconds"] / row["repeat"] / row["plan_at_speed"]
            for row in paced) if paced else None
        cell["bound_by"] = max(STALLS, key=lambda stall: cell[f"stall_{stall}"])
        cell["plan_share"] = plan_share(plan, cell["bound_by"]) if plan else None
        found.append(cell)
    by_key = {(setup_of(cell), cell["mode"]): cell for cell in found}
    for cell in found:
        setup = setup_of(cell)
        fixed = [by_key[setup, mode]["seconds"] for mode in cells.FIXED_MODES
                 if (setup, mode) in by_key]
        sophon = by_key.get((setup, "sophon"))
        cell["measured_over_best_fixed"] = cell["seconds"] / min(fixed) if fixed else None
        cell["measured_over_sophon"] = cell["seconds"] / sophon["seconds"] if sophon else None
        cell["plan_over_sophon"] = cell["plan_seconds"] / sophon["plan_seconds"] \
            if sophon and cell["plan_seconds"] and sophon["plan_seconds"] else None
    order = list(cells.MODES)
    found.sort(key=lambda cell: (cell["link"], cell["consume_rate"], cell["compute_cores"],
                                 cell["storage_cores"], cell["mbit"], order.index(cell["mode"])))
    return found


def write_cells(records, summary):
    with open(records.path("cells.csv"), "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, CELL_FIELDS, lineterminator="\n")
        writer.writeheader()
        for cell in summary:
            writer.writerow({key: f"{value:.6g}" if isinstance(value, float) else value
                             for key, value in cell.items()})
