"""The figures, tables and page that bench/switch makes of its rows, with the published numbers."""
import collections
import csv
import json
import os
import shutil
import statistics

from . import records
from .toolkit import report

TITLES = {"ready": "ready", "ours": "offload_switch",
          "alone": "without training", "mps": "MPS", "restart": "stop and start",
          "next": "stop next",
          # Ways of bench_switch.
          "by_layer_not_pipelined": "by layer, not pipelined",
          "grouped_not_pipelined": "grouped, not pipelined", "by_layer": "by layer, pipelined",
          "ours_allocating": "no memory management", "ours_eager": "no CUDA graph",
          "ours_eager_not_pinned": "no CUDA graph, not pinned"}
_AREAS = report.AREAS
COLOURS = {"ready": _AREAS["grey"], "ours": _AREAS["green"],
           "mps": _AREAS["blue"],
           "restart": _AREAS["orange"], "next": _AREAS["yellow"],
           "by_layer_not_pipelined": _AREAS["orange"], "grouped_not_pipelined": _AREAS["yellow"],
           "by_layer": _AREAS["blue"], "ours_allocating": _AREAS["orange"],
           "ours_eager_not_pinned": _AREAS["blue"], "ours_eager": _AREAS["yellow"]}
CELL_FIELDS = ("measure", "system", "model", "cycle_s", "answers", "median_ms", "mean_ms", "min_ms",
               "max_ms", "per_s", "worst_error", "why")

# log-1019.txt of the published program (https://github.com/netx-repo/PipeSwitch, commit b127189 of
# 2021-10-19), which its authors' scripts wrote for figures 5 to 9.  The log does not name the GPU;
# the scripts' default is a V100 with 16 GB (AWS p3.2xlarge).
PUBLISHED_FROM = ("log-1019.txt in the repository of PipeSwitch's authors (2021-10-19): means, "
                  "by default on a V100 with 16 GB, PCIe 3.0, in float32")
PUBLISHED = {
    5: {"ready": {"resnet152": 37.1, "inception_v3": 40.5, "bert_base": 39.3},
        "ours": {"resnet152": 43.5, "inception_v3": 40.6, "bert_base": 53.8},
        "mps": {"resnet152": 659.0, "inception_v3": 464.3, "bert_base": 522.2},
        "restart": {"resnet152": 5678.2, "inception_v3": 6276.4, "bert_base": 7243.1}},
    6: {"ready": {1: 26.1, 2: 27.1, 5: 25.9, 10: 27.0, 30: 26.4},
        "ours": {1: 26.8, 2: 27.1, 5: 26.4, 10: 26.6, 30: 26.2},
        "mps": {1: 3.5, 2: 2.4, 5: 3.1, 10: 2.3, 30: 3.0},
        "restart": {1: 0.0, 2: 0.0, 5: 0.0, 10: 11.4, 30: 20.8}},
    7: {"by_layer_not_pipelined": {"resnet152": 86.5, "inception_v3": 58.1, "bert_base": 89.9},
        "grouped_not_pipelined": {"resnet152": 60.1, "inception_v3": 50.4, "bert_base": 83.2},
        "by_layer": {"resnet152": 76.4, "inception_v3": 53.7, "bert_base": 70.3},
        "ours": {"resnet152": 41.1, "inception_v3": 39.5, "bert_base": 53.7}},
    8: {"ours_allocating": {"resnet152": 68.6, "inception_v3": 62.0, "bert_base": 66.4},
        "ours_eager_not_pinned": {"resnet152": 55.8, "inception_v3": 40.0, "bert_base": 67.7},
        "ours": {"resnet152": 42.4, "inception_v3": 41.2, "bert_base": 53.8}},
    9: {"restart": {"resnet152": 5681.5, "inception_v3": 6279.9, "bert_base": 7377.8},
        "next": {"resnet152": 224.6, "inception_v3": 189.6, "bert_base": 221.2},
        "ours": {"resnet152": 43.3, "inception_v3": 39.6, "bert_base": 55.3}}}

# Number, title, measure, systems, about.
Figure = collections.namedtuple("Figure", "number title measure systems text")
FIGURES = [
    Figure(5, "Latency of an inference while a training has the GPU", "latency",
           ("ready", "ours", "alone", "mps", "restart"),
           "A batch sent over TCP until its reply. ready: the models stay on the GPU, which nothing "
           "else uses. offload_switch: training and inference of the same model; weights come from "
           "pinned memory. without training: the same while nothing trains (table alone). MPS: models and training stay on the GPU, without unified memory. stop "
           "and start: the training's process is killed, a process of PyTorch is started."),
    Figure(6, "Batches a second over the scheduling cycle", "throughput",
           ("ready", "ours", "mps", "restart"),
           "A training for a cycle, then one inference after the other for a cycle. In "
           "offload_switch, as with MPS, the training goes on between and beside them."),
    Figure(7, "Pipelined copies and grouping", "engine",
           ("by_layer_not_pipelined", "grouped_not_pipelined", "by_layer", "ours"),
           "The time on an otherwise idle GPU from a request in pinned memory to its outputs, "
           "weights included, without a network (bench_switch). by layer: a copy for each. grouped: "
           "copies of 2 MB or more. All but those of figure 8 are CUDA graphs."),
    Figure(8, "Memory management", "engine",
           ("ours_allocating", "ours_eager_not_pinned", "ours_eager", "ours"),
           "As before. no memory management: each request allocates the GPU's memory first. A CUDA "
           "graph cannot copy from pages that are not pinned, so that way is to be compared with "
           "no CUDA graph. Left out: unified memory, which can hang a shared GPU, and PipeSwitch's "
           "copies between processes, as the workers map the same memory."),
    Figure(9, "Switching processes", "latency", ("restart", "next", "ours"),
           "As figure 5. stop next: the training stops after its step and frees the GPU's memory; "
           "a process whose CUDA context is there copies the weights and runs the model layer by "
           "layer. stop and start and offload_switch are the measurements of figure 5.")]


def one_line(text):
    return report.one_line(text)[:400]


# --- what follows from the rows ---

def number(text):
    return float(text) if text != "" else None


def summarize(rows):
    """A dict for each measure, system, model and cycle, in the order of CELL_FIELDS.  Requests of
    several rows count alike; `why` is there only where no row has a time."""
    groups = collections.OrderedDict()
    for row in rows:
        key = (row["measure"], row["system"], row["model"], float(row["cycle_s"]))
        groups.setdefault(key, []).append(row)
    cells = []
    for key, group in groups.items():
        cell = dict.fromkeys(CELL_FIELDS)
        cell.update(zip(CELL_FIELDS, key))
        good = [row for row in group if not row["why"]]
        if good:
            latencies = [float(word) for row in good for word in row["latencies_ms"].split()]
            errors = [number(row["worst_error"]) for row in good]
            rates = [number(row["per_s"]) for row in good if row["per_s"] != ""]
            cell.update(
                answers=sum(int(row["answers"]) for row in good),
                median_ms=statistics.median(latencies or [float(row["median_ms"]) for row in good]),
                mean_ms=statistics.fmean(latencies) if latencies else number(good[0]["mean_ms"]),
                min_ms=min(float(row["min_ms"]) for row in good),
                max_ms=max(float(row["max_ms"]) for row in good),
                per_s=statistics.fmean(rates) if rates else None,
                worst_error=None if None in errors else max(errors))
        else:
            cell["why"] = group[-1]["why"]
        cells.append(cell)
    return cells


def write_cells(path, cells):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, CELL_FIELDS, lineterminator="\n")
        writer.writeheader()
        for cell in cells:
            writer.writerow({key: f"{value:.6g}" if isinstance(value, float) else value
                             for key, value in cell.items()})


class Found:
    """The cells, by what they are of."""

    def __init__(self, cells):
        self.by_key = {(cell["measure"], cell["system"], cell["model"], cell["cycle_s"]): cell
                       for cell in cells}

    def cell(self, measure, system, model, cycle=0.0):
        return self.by_key.get((measure, system, model, cycle), {})

    def models(self, measure):
        return list(dict.fromkeys(key[2] for key in self.by_key if key[0] == measure))

    def cycles(self):
        return sorted({key[3] for key in self.by_key if key[0] == "throughput"})


def show_cell(cell):
    if cell.get("median_ms") is None:
        return "left out" if cell.get("why") else "-"
    return f"{report.show(cell['median_ms'])} ({report.show(cell['min_ms'])} to " \
           f"{report.show(cell['max_ms'])})"


def ratio(cell, of):
    if not cell.get("median_ms") or not of.get("median_ms"):
        return "-"
    return report.show(cell["median_ms"] / of["median_ms"])


# --- tables: (heads, rows) ---

def bound_of(figure, found, model):
    """The slower of copying the weights and of running the model: no pipeline is faster."""
    cells = [found.cell(figure.measure, way, model) for way in ("copy", "ready")]
    return max(cells, key=lambda cell: cell.get("median_ms") or 0) if all(cells) else {}


def latency_table(figure, found):
    others = [system for system in figure.systems if system not in ("ready", "ours")]
    is_engine = figure.measure == "engine"
    ours = TITLES["ours"]
    heads = ["<model", *(f"{TITLES[system]}, ms" for system in figure.systems), f"{ours} / ready",
             *([f"{ours} / max(copy, ready)"] if is_engine else []),
             *(f"{TITLES[one]} / {ours}" for one in others)]
    rows = []
    for model in found.models(figure.measure):
        cells = {system: found.cell(figure.measure, system, model)
                 for system in (*figure.systems, "ready")}
        rows.append([model, *(show_cell(cells[system]) for system in figure.systems),
                     ratio(cells["ours"], cells["ready"]),
                     *([ratio(cells["ours"], bound_of(figure, found, model))] if is_engine else []),
                     *(ratio(cells[one], cells["ours"]) for one in others)])
    return heads, rows


def throughput_table(figure, found):
    heads = ["cycle, s", *(f"{TITLES[system]}, batches/s" for system in figure.systems),
             *(f"{TITLES[system]}, ms" for system in figure.systems)]
    rows = []
    model, = found.models("throughput")
    for cycle in found.cycles():
        cells = [found.cell("throughput", system, model, cycle) for system in figure.systems]
        rows.append([f"{cycle:g}", *(report.show(cell.get("per_s")) for cell in cells),
                     *(show_cell(cell) for cell in cells)])
    return heads, rows


def table_of(figure, found):
    return (throughput_table if figure.measure == "throughput" else latency_table)(figure, found)


def published_table(figure, found):
    """resnet152, which both have, theirs and ours; how much slower than ours each is."""
    theirs = PUBLISHED[figure.number]
    if figure.measure == "throughput":
        heads = ["cycle, s", *(f"{TITLES[system]}, {who}" for system in figure.systems
                               for who in ("published", "here"))]
        rows = [[f"{cycle:g}", *(text for system in figure.systems for text in (
            report.show(theirs[system].get(int(cycle))),
            report.show(found.cell("throughput", system, "resnet152", cycle).get("per_s"))))]
                for cycle in sorted({*found.cycles(), *map(float, theirs["ours"])})]
        return heads, rows
    cells = {system: found.cell(figure.measure, system, "resnet152") for system in figure.systems}
    heads = ["<resnet152", "published, ms", "here, ms", "published, of theirs", "here, of ours"]
    rows = []
    for system in figure.systems:
        ms = theirs.get(system, {}).get("resnet152")
        rows.append([TITLES[system] if system != "ours" else "PipeSwitch, offload_switch",
                     report.show(ms), report.show(cells[system].get("median_ms")),
                     report.show(ms and ms / theirs["ours"]["resnet152"]),
                     ratio(cells[system], cells["ours"])])
    return heads, rows


def settings_of(folder):
    try:
        with open(os.path.join(folder, "settings.json"), encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


def reports_table(folder):
    """What runs of offload_switch counted; None: there was none."""
    try:
        with open(os.path.join(folder, "offload_switch.jsonl"), encoding="utf-8") as file:
            reports = [json.loads(line) for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return None
    heads = list(dict.fromkeys(key for found in reports for key in found))
    return [f"<{head.replace('_', ' ')}" for head in heads], [
        [found.get(head, "-") for head in heads] for found in reports]


def differences_table(settings):
    rate = settings.get("copy_gb_per_s")
    precision = settings.get("precision", "-")
    return ["<", "<published", "<here"], [
        ["GPU", "V100, 16 GB (the paper has a T4, too)", settings.get("device", "-")],
        ["copies from pinned memory", "PCIe 3.0 x16, 15.75 GB/s by its standard",
         report.show(rate, " GB/s measured")],
        ["models", "resnet152, inception_v3, bert_base", ", ".join(settings.get("models", []))],
        ["weights", "trained", "random with a seed, batch norm's statistics of the same inputs"],
        ["numbers", "float32", precision],
        ["batch of an inference", "8", str(settings.get("batch", "-"))],
        ["batch of the training", "8 in the published program",
         str(settings.get("train_batch", "-"))],
        ["ready, stop and start, MPS, stop next", "PyTorch, layer by layer",
         f"PyTorch {settings.get('torch', '-')}; a CUDA graph in ready, MPS and after the first "
         "request of stop and start"],
        ["training", "PyTorch; ends when an inference comes, and the client starts it again",
         "offload_switch trains by itself, goes on after each inference; else PyTorch"],
        ["what counts", "mean", "median (least to most)"],
        ["MPS", "not known whether with unified memory", "without: all is resident"],
        ["figure 8", "also unified memory, and no IPC optimization", "left out"]]


# --- figures ---

def bars(figure, found):
    """A cluster of bars for each model or cycle."""
    is_rate = figure.measure == "throughput"
    keys = [(model, cycle) for model in found.models(figure.measure)
            for cycle in (found.cycles() if is_rate else [0.0])]
    value = "per_s" if is_rate else "median_ms"
    systems = [system for system in figure.systems if system != "alone" and any(
        found.cell(figure.measure, system, *key).get(value) is not None for key in keys)]
    if not systems:
        return None
    drawn = report.Figure(f"figure{figure.number}", f"Figure {figure.number}: {figure.title}",
                          figure.text)
    names = [f"{cycle:g} s" if is_rate else model for model, cycle in keys]
    cells = [[found.cell(figure.measure, system, *key).get(value) for system in systems]
             for key in keys]
    drawn.data("bars", [[f'"{report.label(name)}"', *line, *(f'"{report.show(one)}"' for one in line)]
                        for name, line in zip(names, cells)])
    known = [one for line in cells for one in line if one] or [1]
    drawn.labels("cycle" if is_rate else "", "batches/s" if is_rate else "ms")
    drawn.script += ["set style data histograms", "set style histogram clustered gap 1",
                     "set style fill solid noborder"]
    if not is_rate and max(known) > 20 * min(known):
        drawn.script += ["set logscale y", f"set yrange [{min(known) / 2:.6g}:{max(known) * 2:.6g}]"]
    else:
        drawn.script.append(f"set yrange [0:{1.1 * max(known):.6g}]")
    drawn.plots = [f"$bars using {i + 2}:xtic(1) title '{TITLES[system]}' linecolor rgb "
                   f"'{COLOURS[system]}'" for i, system in enumerate(systems)]
    width = 1 / (len(systems) + 1)  # a cluster is one wide: its bars, and a gap of one bar
    drawn.plots += [
        f"$bars using ($0+{(i - (len(systems) - 1) / 2) * width:.4f}):{i + 2}:{i + 2 + len(systems)} "
        "with labels offset 0,0.6 font ',9' notitle" for i in range(len(systems))]
    return drawn


# --- text and page ---

def markdown(heads, rows):
    aligned = ["---" if head.startswith("<") else "--:" for head in heads]
    return ["| " + " | ".join(head.lstrip("<") for head in heads) + " |",
            "|" + "|".join(aligned) + "|",
            *("| " + " | ".join(map(str, row)) + " |" for row in rows)]


def figures_with_rows(found):
    return [figure for figure in FIGURES
            if any(key[0] == figure.measure and key[1] in figure.systems for key in found.by_key)]


def left_out(cells):
    return [f"{cell['measure']}, {cell['system']}, {cell['model']}" +
            (f", {cell['cycle_s']:g} s" if cell["cycle_s"] else "") + f": {cell['why']}"
            for cell in cells if cell["why"]]


def page_parts(folder, rows, cells, found, drawn):
    settings = settings_of(folder)
    errors = [cell["worst_error"] for cell in cells if cell["worst_error"] is not None]
    unknown = [cell for cell in cells if not cell["why"] and cell["worst_error"] is None]
    yield (f"<p>{report.escape(settings.get('device', ''))}, driver "
           f"{report.escape(settings.get('driver', ''))}, PyTorch "
           f"{report.escape(settings.get('torch', ''))}; batches of {settings.get('batch')}, "
           f"{report.escape(settings.get('precision', ''))}. The largest relative error of outputs "
           f"against torchvision's in float32: {report.show(max(errors, default=None))}"
           f"{', not compared in ' + str(len(unknown)) + ' cells' if unknown else ''}. Published "
           f"numbers: {report.escape(PUBLISHED_FROM)}.</p>\n")
    for figure in figures_with_rows(found):
        yield f"<h2>Figure {figure.number}: {report.escape(figure.title)}</h2>\n"
        if figure.number in drawn:
            yield report.embed(drawn[figure.number], os.path.join(folder, "figures"), "figures/")
        else:
            yield f"<p>{report.escape(figure.text)}</p>\n"
        yield report.table(*table_of(figure, found))
        yield "<h3>Beside the published numbers</h3>\n" + report.table(
            *published_table(figure, found))
    yield "<h2>What differs from the paper</h2>\n" + report.table(*differences_table(settings))
    reports = reports_table(folder)
    if reports:
        yield "<h2>What offload_switch counted</h2>\n" + report.table(*reports)
    missing = left_out(cells)
    if missing:
        yield "<h2>Left out</h2>\n<ul>" + "".join(
            f"<li>{report.escape(line)}</li>" for line in missing) + "</ul>\n"
    yield '<h2>Where the numbers come from</h2>\n<p><a href="rows.csv">rows.csv</a>, ' \
          '<a href="cells.csv">cells.csv</a></p>\n'
    yield report.table(
        ["line", "<measure", "<system", "<model", "cycle, s", "answers", "ms", "<commit", "<date",
         "<command"],
        [[i + 2, row["measure"], row["system"], row["model"], row["cycle_s"], row["answers"],
          row["median_ms"], row["commit"], row["date"], report.Raw(
              f"<details><summary>show</summary><code>{report.escape(row['command'])}</code>"
              "</details>")] for i, row in enumerate(rows)])


def draw(folder, fields):
    """Makes everything anew of the rows; lines to print."""
    rows = records.Table(os.path.join(folder, "rows.csv"), fields).rows
    if not rows:
        return ["nothing is measured"]
    cells = summarize(rows)
    found = Found(cells)
    write_cells(os.path.join(folder, "cells.csv"), cells)
    lines, drawn = [], {}
    for figure in figures_with_rows(found):
        lines += ["", f"Figure {figure.number}: {figure.title}", "",
                  *markdown(*table_of(figure, found)), "",
                  *markdown(*published_table(figure, found))]
    lines += ["", *markdown(*differences_table(settings_of(folder))), ""]
    reports = reports_table(folder)
    if reports:
        lines += ["What offload_switch counted", "", *markdown(*reports), ""]
    lines += [f"left out: {line}" for line in left_out(cells)]
    if shutil.which("gnuplot"):
        os.makedirs(os.path.join(folder, "figures"), exist_ok=True)
        for figure in figures_with_rows(found):
            made = bars(figure, found)
            if made:
                made.draw(os.path.join(folder, "figures"))
                drawn[figure.number] = made
    else:
        lines.append("gnuplot is not installed (gnuplot-nox): bench/switch --draw draws the figures "
                     "where it is")
    path = os.path.join(folder, "index.html")
    report.write_page(path, "PipeSwitch's experiments with offload_switch",
                      list(page_parts(folder, rows, cells, found, drawn)))
    return [*lines, f"page: {path}"]
