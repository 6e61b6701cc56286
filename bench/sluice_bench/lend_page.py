"""The numbers of bench/lend: when requests come, statistics, goals beside what was measured, and a page."""
import csv
import json
import os
import random
import statistics

from .toolkit import report

median = statistics.median
CASES = {"ready": report.GREY, "time-slicing": report.VERMILION, "gate": report.BLUE}
PERCENTILES = (0.5, 0.95, 0.99)
CSV_FIELDS = ("call", "part", "case", "kind", "u", "graph", "model", "requests", "p50_ms", "p95_ms", "p99_ms", "p50_x",
              "p95_x", "train_x", "lost_ms", "wrong")


class NoRows(Exception):
    pass


# --- statistics ---

def arrivals(seed, num, per_s):
    """The times in seconds of `num` requests: a Poisson process, or even intervals if the seed is None."""
    if seed is None:
        return [number / per_s for number in range(num)]
    draw = random.Random(seed)
    found, now = [], 0.0
    for _ in range(num):
        now += draw.expovariate(per_s)
        found.append(now)
    return found


def quantile(values, part):
    """Between the two values next to it, linearly."""
    ordered = sorted(values)
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def rate_within(times, begin, end):
    """Events a second between the two times, counted from the first event to the last, so that only whole intervals
    count; None: there are fewer than two events."""
    inside = [at for at in times if begin <= at <= end]
    if len(inside) < 2:
        return None
    return (len(inside) - 1) / (inside[-1] - inside[0])


def train_x(row):
    """Training's rate, divided by the rate of its feed, or, without a feed, by its rate alone. None: no training ran."""
    of = row.get("fed_per_s") or row.get("alone_per_s")
    return row["train_per_s"] / of if of and row.get("train_per_s") else None


def lost_ms(row):
    """Milliseconds of training that each request took, at u = 1."""
    if row.get("u") != 1 or not row.get("alone_per_s") or not row["train_per_s"]:
        return None
    return 1e3 * row["seconds"] * (1 - row["train_per_s"] / row["alone_per_s"]) / len(row["ms"])


def epochs_per_s(row):
    """Samples a second of an offload_train's epochs after the first."""
    later = row["epochs"][1:]
    return sum(epoch["samples"] for epoch in later) / sum(epoch["seconds"] for epoch in later)


class Rows:
    """What all calls measured.  A row is compared with rows of its own call."""

    def __init__(self, rows):
        self.rows = rows

    def last(self, **wanted):
        """The last such row, or None."""
        return next((row for row in reversed(self.rows)
                     if all(row.get(key) == value for key, value in wanted.items())), None)

    def ready_of(self, row):
        """What the same requests took on an idle GPU: of the same part, or else of the call."""
        same = {"call": row["call"], "case": "ready", "kind": row.get("kind", "small")}
        return self.last(part=row["part"], **same) or self.last(part="ready", **same)

    def beside(self, row):
        """The same case with time-slicing."""
        return self.last(**{key: row.get(key) for key in ("call", "part", "kind", "u", "graph")}, case="time-slicing")

    def over(self, row, base, part):
        if row is None or base is None or not row.get("ms") or not base.get("ms"):
            return None
        return quantile(row["ms"], part) / quantile(base["ms"], part)

    def over_ready(self, row, part):
        return self.over(row, row and self.ready_of(row), part)

    def over_slicing(self, row, part):
        # The step as a graph is compared with the eager step's: time slices are of the GPU, not of the launches.
        return self.over(row, row and (self.beside(row) or self.beside({**row, "part": "gate", "graph": False})), part)


def read(folder):
    rows = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".jsonl"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                rows += [json.loads(line) for line in file if line.endswith("\n")]
    rows.sort(key=lambda row: row["call"])  # stable: within a call as they were measured
    if not rows:
        raise NoRows(f"{folder} has no rows")
    return rows


# --- words ---

def where(row):
    words = [row["case"]]
    if row.get("model"):
        words.append(row["model"])
    if row.get("u") is not None:
        words.append(f"u = {row['u']:g}")
    if row.get("graph"):
        words.append("step as a graph")
    return ", ".join(words)


def line_of(row):
    """A row as a line of text."""
    text = f"{row['part']}: {where(row)}: "
    if row["case"] == "failed":
        return text + row["why"]
    if row["case"] == "done":
        return text + f"at {row['at_s']:.0f} s"
    if row["case"] == "machine":
        return text + ", ".join(str(row.get(key)) for key in ("cpu", "cpus", "device", "torch"))
    if row["case"] == "alone":
        return text + f"{row['per_s']:.0f} images/s"
    if row["case"] == "unused":
        ratios = unused_ratios(row)
        return text + (f"with / without {median(ratios):.4f} ({min(ratios):.4f} to {max(ratios):.4f}), "
                       f"{median(row['without']):.0f} images/s without")
    if row["case"] == "copy alone":
        return text + f"{row['copy_ms']:.2f} ms of {row['bytes'] / 1e6:.0f} MB"
    if row["case"] == "stop and start":
        return text + f"{row['seconds']:.2f} s, of which kill {row['kill_s']:.2f}; error {row['error']:.1e}"
    if row.get("ms"):
        text += "p50 {:.2f}, p95 {:.2f}, p99 {:.2f} ms".format(*(quantile(row["ms"], part) for part in PERCENTILES))
        text += f" of {len(row['ms'])}, {row['wrong']} wrong"
    if train_x(row) is not None:
        text += f"; training {train_x(row):.4f}"
    if lost_ms(row) is not None:
        text += f", {lost_ms(row):.2f} ms lost a request"
    if row.get("epochs"):
        text += f"; {epochs_per_s(row):.0f} samples/s, digest {row['epochs'][-1]['digest']}"
    return text


def unused_ratios(row):
    return [a / b for a, b in zip(row["with"], row["without"])]


# --- goals ---

def verdicts(rows):
    """(what, "<=" or ">=", goal, got) of each figure; got is None if it was not measured."""
    def at(part, u, **more):
        return rows.last(part=part, u=u, case="gate", **more)

    found = []
    for part, what in (("gate", ""), ("graph", ", step as a graph"), ("tail", ", tail")):
        row = at(part, 0.6)
        if part != "gate" and row is None:
            continue
        found += [(f"u = 0.6{what}: p50 over ready", "<=", 1.15, rows.over_ready(row, 0.5)),
                  (f"u = 0.6{what}: p50 over time-slicing", "<=", 0.6, rows.over_slicing(row, 0.5)),
                  (f"u = 0.6{what}: p95 over ready", "<=", 1.7, rows.over_ready(row, 0.95)),
                  (f"u = 0.6{what}: p95 over time-slicing", "<=", 0.65, rows.over_slicing(row, 0.95)),
                  (f"u = 0.6{what}: training's rate", ">=", 0.99, row and train_x(row))]
    for part, what in (("gate", ""), ("graph", ", step as a graph")):
        row = at(part, 1)
        if row is not None or part == "gate":
            ready, lost = (rows.ready_of(row), lost_ms(row)) if row else (None, None)
            found.append((f"u = 1{what}: training's ms lost a request, over ready", "<=", 1.3,
                          lost / median(ready["ms"]) if ready and lost is not None else None))
    for u in (0.6, 1):
        found.append((f"a job of 84 ms, u = {u:g}: p50 over ready", "<=", 1.05, rows.over_ready(at("job", u), 0.5)))
    for is_graph, least in ((False, 0.99), (True, 0.985)):
        row = rows.last(part="unused", case="unused", graph=is_graph)
        found.append(("a gate that nobody uses, u = 1" + (", step as a graph" if is_graph else "") +
                      ": with over without", ">=", least, row and median(unused_ratios(row))))
    starts = [row for row in rows.rows if row["case"] == "stop and start"]
    ours = rows.last(part="restart", case="gate", call=starts[-1]["call"]) if starts else None
    found.append(("stop and start, over the gate's p50 at u = 1", ">=", 300,
                  1e3 * min(row["seconds"] for row in starts if row["call"] == ours["call"]) / median(ours["ms"])
                  if ours else None))
    for model in dict.fromkeys(row["model"] for row in rows.rows if row["part"] == "loader" and "model" in row):
        lent = rows.last(part="loader", case="lent", model=model)
        plain = lent and rows.last(part="loader", case="plain", model=model, call=lent["call"])
        if not plain:
            continue
        found += [(f"offload_train, {model}: p50 over ready", "<=", 1.15, rows.over_ready(lent, 0.5)),
                  (f"offload_train, {model}: p95 over ready", "<=", 1.7, rows.over_ready(lent, 0.95)),
                  (f"offload_train, {model}: training's rate", ">=", 0.99, epochs_per_s(lent) / epochs_per_s(plain)),
                  (f"offload_train, {model}: epochs whose digest differs", "<=", 0,
                   sum(a["digest"] != b["digest"] for a, b in zip(lent["epochs"], plain["epochs"])))]
    wrong = [row["wrong"] for row in rows.rows if "wrong" in row]
    found.append(("answers that are not the idle GPU's", "<=", 0, sum(wrong) if wrong else None))
    return found


def is_met(sign, goal, got):
    return None if got is None else got <= goal if sign == "<=" else got >= goal


def summary(row, rows):
    """A row of requests in the order of CSV_FIELDS."""
    ms = row["ms"]
    lost = lost_ms(row)
    return [row["call"], row["part"], row["case"], row.get("kind", ""), row.get("u"), row.get("graph"), row.get("model"),
            len(ms), *(quantile(ms, part) for part in PERCENTILES), rows.over_ready(row, 0.5),
            rows.over_ready(row, 0.95), train_x(row), lost, row["wrong"]]


# --- figures ---

def bars_figure(name, title, caption, of):
    """of: (what, row).  Bars of p50 from above, with p95 as a point."""
    figure = report.Figure(name, title, caption, 110 + 30 * len(of), 130 + 30 * len(of))
    figure.data("bars", [
        (f'"{report.label(what, 40)}"', quantile(row["ms"], 0.5), quantile(row["ms"], 0.95),
         str(int(CASES.get(row["case"], report.GREEN)[1:], 16)),
         f'"{report.show(quantile(row["ms"], 0.5))}, {report.show(quantile(row["ms"], 0.95))}"') for what, row in of])
    most = max(quantile(row["ms"], 0.95) for _, row in of)
    figure.script += ["unset key", "set style fill solid noborder", "set border 3", "set ytics scale 0",
                      f"set xrange [0:{1.3 * most:.9g}]", f"set yrange [{len(of) - 1}.5:-0.5]",
                      f"set xlabel 'ms from a request to its answer: bar p50, point p95' textcolor rgb '{report.INK}'"]
    figure.plots = [
        "$bars using (0):0:(0):2:($0-0.36):($0+0.36):4:ytic(1) with boxxyerror linecolor rgb variable notitle",
        f"$bars using 3:0 with points pt 7 ps 0.7 lc rgb '{report.INK}' notitle",
        f"$bars using 3:0:5 with labels left offset 0.8,0 noenhanced textcolor rgb '{report.INK}' notitle"]
    return figure


def figures(rows):
    """Of each part that has been measured its last call."""
    titles = {"gate": "Latency of requests beside a training", "graph": "The same, a training step as one graph",
              "job": "Jobs of about 84 ms", "copy": "Weights from host memory, then the model", "tail": "1,000 requests",
              "loader": "Requests beside offload_train"}
    for part, title in titles.items():
        last = next((row for row in reversed(rows.rows) if row["part"] == part and row.get("ms")), None)
        if last is None:
            continue
        of = [row for row in rows.rows if row["part"] == part and row["call"] == last["call"] and row.get("ms")]
        ready = rows.ready_of(last)
        if ready is not None and ready not in of:
            of.insert(0, ready)
        yield bars_figure(part, title, "p50 and p95 in ms beside each bar.", [(where(row), row) for row in of])


# --- the page ---

def machine_table(rows):
    machines = [row for row in rows.rows if row["case"] == "machine"]
    return report.table(["<call", "<device", "<driver", "<PyTorch", "<CPU", "cores", "points", "<options"], [
        [row["call"], row.get("device", ""), row.get("driver", ""), row.get("torch", ""), row["cpu"], row["cpus"],
         row["points"], " ".join(row["command"])] for row in machines])


def verdict_table(found):
    cells = []
    for what, sign, goal, got in found:
        met = is_met(sign, goal, got)
        word = "not measured" if met is None else "PASS" if met else report.Raw('<span class="bad">below</span>')
        cells.append([what, f"{sign} {goal:g}", "" if got is None else f"{got:.4g}", word])
    return report.table(["<figure", "goal", "measured", "<"], cells)


def write(folder):
    """FOLDER/index.html, lend.csv and figures/; the table of goals as text."""
    rows = Rows(read(folder))
    found = verdicts(rows)
    of_requests = [summary(row, rows) for row in rows.rows if row.get("ms")]
    with open(os.path.join(folder, "lend.csv"), "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(CSV_FIELDS)
        writer.writerows([f"{value:.6g}" if isinstance(value, float) else value for value in row]
                         for row in of_requests)
    drawn = os.path.join(folder, "figures")
    os.makedirs(drawn, exist_ok=True)
    parts = ["<h2>Goals</h2>", verdict_table(found), "<h2>Latencies</h2>"]
    for figure in figures(rows):
        try:
            figure.draw(drawn)
            parts.append(report.embed(figure, drawn, "figures/"))
        except report.ReportError as error:  # gnuplot is missing: the tables have the numbers
            parts.append(f"<p>{report.escape(error)}</p>")
    parts += ["<h2>Every case</h2>", report.table(
        ["<call", "<part", "<case", "<requests", "u", "<graph", "<model", "number", "p50 ms", "p95", "p99",
         "p50 / ready", "p95 / ready", "training", "ms lost", "wrong"],
        [["" if value is None else f"{value:.3f}" if isinstance(value, float) else value for value in row]
         for row in of_requests]),
        "<h2>Every row</h2>", "<pre>" + "\n".join(report.escape(line_of(row)) for row in rows.rows) + "</pre>",
        "<h2>Machines</h2>", machine_table(rows)]
    report.write_page(os.path.join(folder, "index.html"), "Lending a GPU, measured", parts)
    lines = []
    for what, sign, goal, got in found:
        met = is_met(sign, goal, got)
        lines.append(f"{'-' if met is None else 'PASS' if met else 'below':6}{what}: goal {sign} {goal:g}, " +
                     ("not measured" if got is None else f"measured {got:.4g}"))
    return "\n".join(lines)
