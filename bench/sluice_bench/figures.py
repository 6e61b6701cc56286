"""The figures of a sweep, drawn by gnuplot: each as SVG and PNG, its script with the data beside
them.  A figure is drawn only where there is something to compare."""
import csv
import glob
import math
import os
import shutil
import subprocess

from . import cells, records

COLOURS = {"no-off": "#4477aa", "all-off": "#ee6677", "resize-off": "#ccbb44", "sophon": "#aa3377",
           "auto": "#228833", "cold": "#99cc99", "static": "#bbcc33", "crop": "#66ccee",
           "packed": "#888888"}
TERMINALS = (("svg size 900,560 dynamic font 'sans,13' background rgb 'white'", "svg"),
             ("pngcairo size 1800,1120 font 'sans,11' fontscale 2 linewidth 2 pointscale 2", "png"))
HEAD = """set encoding utf8
set grid back linetype 1 linewidth 1 linecolor rgb '#dddddd'
set border 3
set tics nomirror
set key outside right top vertical
"""
REFERENCE_MBIT = 500  # what the bars are of: the measured bandwidth nearest to it
STAGES = (("raw", "file"), ("decoding", "decoded"), ("RandomResizedCrop", "cropped, u8"),
          ("Normalize", "float32"))
FORMS = {"jpeg_crop@0": "file, cut to the crop", "u8_packed@3": "cropped, packed"}
NUM_POINTS = 400


class Figure:
    """settings and data, gnuplot's language; plots, what follows `plot`."""

    def __init__(self, name, title, caption):
        self.name, self.title, self.caption = name, title, caption
        self.settings = [HEAD, f"set title {quote(title)}"]
        self.plots = []

    def data(self, name, rows):
        lines = [" ".join(value if isinstance(value, str) else f"{value:.9g}" for value in row)
                 for row in rows]
        self.settings.append("\n".join([f"${name} << EOD", *lines, "EOD"]))

    def write(self, folder):
        script = "\n".join(self.settings)
        for terminal, suffix in TERMINALS:
            script += (f"\nset terminal {terminal}\nset output '{self.name}.{suffix}'\n"
                       f"plot {', '.join(self.plots)}\nunset output\n")
        with open(os.path.join(folder, self.name + ".gp"), "w", encoding="utf-8") as file:
            file.write(script)


def quote(text):
    return "'" + text.replace("'", "''") + "'"


def log_tics(low, high):
    """1, 2, 5, 10 ... within the range."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [digit * 10.0 ** exponent for exponent in exponents for digit in (1, 2, 5)]
    return ", ".join(f"'{value:g}' {value:g}" for value in values if low <= value <= high)


def log_range(values):
    return min(values) * 0.8, max(values) * 1.25


def title_of(mode):
    return cells.MODES[mode].title


def modes_in(summary):
    present = {cell["mode"] for cell in summary}
    return [mode for mode in cells.MODES if mode in present]


def bars(summary):
    """Time and traffic of each mode on each pair of machines, at one bandwidth."""
    for link, rate in dict.fromkeys((cell["link"], cell["consume_rate"]) for cell in summary):
        yield from bars_of(link, rate, [cell for cell in summary if cell["link"] == link and
                                        cell["consume_rate"] == rate])


def file_suffix(rate):
    return f"_rate{rate:g}" if rate else ""


def trainer_text(rate):
    return f", a trainer of {rate:g} samples/s" if rate else ""


def bars_of(link, rate, summary):
    distance = {cell["mbit"]: abs(cell["mbit"] - REFERENCE_MBIT) for cell in summary}
    mbit = min(distance, key=distance.get)
    chosen = [cell for cell in summary if cell["mbit"] == mbit]
    pairs = list(dict.fromkeys((cell["storage_cores"], cell["compute_cores"]) for cell in chosen))
    modes = modes_in(chosen)
    for name, what, unit, key, scale in (
            ("modes_time", "Seconds", "seconds", "seconds", 1),
            ("modes_traffic", "MB on the wire", "MB", "wire_bytes", 1e-6)):
        figure = Figure(f"{name}_{link}{file_suffix(rate)}",
                        f"{what} for one pass over the images at {cells.mbit_text(mbit)}"
                        f"{trainer_text(rate)}",
                        f"cells.csv, link {link}: {key} at {cells.mbit_text(mbit)}.")
        by_cell = {(cell["storage_cores"], cell["compute_cores"], cell["mode"]): cell[key] * scale
                   for cell in chosen}
        figure.data("bars", [
            [f"\"{storage:g}+{compute:g} cores\""] +
            [by_cell.get((storage, compute, mode), "NaN") for mode in modes]
            for storage, compute in pairs])
        figure.settings.append(
            "set style data histograms\nset style histogram clustered gap 1\n"
            "set style fill solid 0.85 noborder\nset yrange [0:*]\n"
            f"set ylabel '{unit}'\nset xlabel 'storage + compute cores'")
        figure.plots = [f"$bars using {i + 2}:xtic(1) title {quote(title_of(mode))} "
                        f"linecolor rgb '{COLOURS[mode]}'" for i, mode in enumerate(modes)]
        # A cluster is one wide, its bars and a gap of one bar.
        width = 1 / (len(modes) + 1)
        figure.plots += [
            f"$bars using ($0+{(i - (len(modes) - 1) / 2) * width:.4f}):{i + 2}:"
            f"(sprintf('%.3g',${i + 2})) with labels offset 0,0.6 font ',9' notitle"
            for i in range(len(modes))]
        yield figure


def lines_over(summary, name, title, caption, axis, xlabel):
    """Measured seconds as points and lines, the plan's thin and dashed, one colour a mode."""
    figure = Figure(name, title, caption)
    for mode in modes_in(summary):
        of_mode = sorted((cell for cell in summary if cell["mode"] == mode),
                         key=lambda cell: cell[axis])
        block = mode.replace("-", "_")
        figure.data(block, [
            [cell[axis], cell["seconds"],
             "NaN" if cell["plan_seconds"] is None else cell["plan_seconds"]] for cell in of_mode])
        figure.plots.append(f"${block} using 1:2 with linespoints lw 2 pt 7 ps 0.6 "
                            f"lc rgb '{COLOURS[mode]}' title {quote(title_of(mode))}")
        if any(cell["plan_seconds"] is not None for cell in of_mode):
            figure.plots.append(f"${block} using 1:3 with lines lw 1 dt 2 "
                                f"lc rgb '{COLOURS[mode]}' notitle")
    if any(cell["plan_seconds"] is not None for cell in summary):
        figure.plots.append("NaN with lines lw 1 dt 2 lc rgb '#444444' title 'dashed: planned'")
    values = sorted({cell[axis] for cell in summary})
    tics = ", ".join(f"'{value:g}' {value:g}" for value in values)
    seconds = [cell["seconds"] for cell in summary] + \
        [cell["plan_seconds"] for cell in summary if cell["plan_seconds"]]
    low, high = log_range(seconds)
    left, right = log_range(values)
    figure.settings.append(f"set logscale xy\nset xlabel {quote(xlabel)}\nset xtics ({tics})\n"
                           f"set xrange [{left:g}:{right:g}]\nset yrange [{low:g}:{high:g}]\n"
                           f"set ytics ({log_tics(low, high)})\n"
                           "set ylabel 'seconds for one pass over the images'\n")
    return figure


def groups_over(summary, along, names):
    """Cells alike in all that `names` says, with what that is, where they differ in `along`."""
    def key_of(cell):
        return tuple(cell[name] for name in names)
    for key in dict.fromkeys(map(key_of, summary)):
        chosen = [cell for cell in summary if key_of(cell) == key]
        if len({cell[along] for cell in chosen}) >= 2:
            yield key, chosen


def source_of_lines(link):
    return f"cells.csv, link {link}: seconds (lines with points) and plan_seconds (dashed)."


def over_bandwidth(summary):
    for (link, storage, compute, rate), chosen in groups_over(
            summary, "mbit", ("link", "storage_cores", "compute_cores", "consume_rate")):
        yield lines_over(
            chosen, f"over_bandwidth_{link}_{storage:g}_{compute:g}{file_suffix(rate)}",
            f"Time over bandwidth: {storage:g} storage, {compute:g} compute cores"
            f"{trainer_text(rate)}", source_of_lines(link), "mbit", "bandwidth, Mbit/s")


def over_cores(summary, node, other):
    """node, other: "storage" and "compute", or the other way round."""
    for (link, mbit, cores, rate), chosen in groups_over(
            summary, f"{node}_cores", ("link", "mbit", f"{other}_cores", "consume_rate")):
        yield lines_over(
            chosen, f"over_{node}_cores_{link}_{mbit:g}_{cores:g}{file_suffix(rate)}",
            f"Time over {node} cores: {cells.mbit_text(mbit)}, {cores:g} {other} cores"
            f"{trainer_text(rate)}", source_of_lines(link), f"{node}_cores", f"{node} cores")


def over_rates(summary):
    """Of trainers that take so many samples a second."""
    for (link, mbit, storage, compute), chosen in groups_over(
            [cell for cell in summary if cell["consume_rate"]], "consume_rate",
            ("link", "mbit", "storage_cores", "compute_cores")):
        yield lines_over(
            chosen, f"over_rate_{link}_{mbit:g}_{storage:g}_{compute:g}",
            f"Time over the trainer's rate: {cells.mbit_text(mbit)}, {storage:g} storage, "
            f"{compute:g} compute cores", source_of_lines(link),
            "consume_rate", "samples a second that the trainer takes")


def plan_versus_measured(summary):
    planned = [cell for cell in summary if cell["plan_seconds"]]
    if not planned:
        return
    figure = Figure("plan_versus_measured", "Measured epoch time over the plan's",
                    "cells.csv: measured_over_plan over plan_seconds; dashed: 10 % off.")
    ratios = [cell["measured_over_plan"] for cell in planned]
    low, high = log_range([cell["plan_seconds"] for cell in planned])
    figure.settings.append(
        "set logscale x\nset xlabel 'plan, seconds for one pass over the images'\n"
        "set ylabel 'measured / plan'\n"
        f"set xrange [{low:g}:{high:g}]\nset xtics ({log_tics(low, high)})\n"
        f"set yrange [{min(0.8, *ratios) - 0.02:g}:{max(1.2, *ratios) + 0.02:g}]")
    figure.plots = ["1 with lines lc rgb '#000000' notitle",
                    "1.1 with lines dt 2 lc rgb '#999999' notitle",
                    "0.9 with lines dt 2 lc rgb '#999999' notitle"]
    for mode in modes_in(planned):
        block = mode.replace("-", "_")
        figure.data(block, [[cell["plan_seconds"], cell["measured_over_plan"]]
                            for cell in planned if cell["mode"] == mode])
        figure.plots.append(f"${block} using 1:2 with points pt 7 ps 0.8 "
                            f"lc rgb '{COLOURS[mode]}' title {quote(title_of(mode))}")
    yield figure


def sizes_in_forms(forms_path):
    """{name: bytes of each sample} of the forms that the tables of sizes do not have."""
    found = {}
    try:
        with open(forms_path, encoding="utf-8", newline="") as file:
            file.readline()  # says what it is
            for row in csv.DictReader(file, delimiter=";"):
                if row["choice"] in FORMS:
                    found.setdefault(row["choice"], []).append(int(row["bytes"]))
    except FileNotFoundError:
        pass
    return found


def sizes_cdf(sizes_path, forms_path, title, name):
    """How the bytes of a sample spread at each stage."""
    try:
        with open(sizes_path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter=";"))
    except FileNotFoundError:
        return
    if not rows:
        return
    figure = Figure(name, f"Bytes of a sample at each stage: {title}",
                    f"The sizes in {os.path.basename(sizes_path)}, {len(rows)} samples.")
    in_forms = sizes_in_forms(forms_path)
    curves = [(column, text, [int(row[column]) for row in rows]) for column, text in STAGES]
    curves += [(choice.split("@")[0], text, in_forms[choice])
               for choice, text in FORMS.items() if choice in in_forms]
    for column, text, sizes in curves:
        ordered = sorted(sizes)
        figure.data(column, [(ordered[(len(ordered) - 1) * i // NUM_POINTS] / 1e3, i / NUM_POINTS)
                             for i in range(NUM_POINTS + 1)])
        figure.plots.append(f"${column} using 1:2 with lines lw 2 title {quote(text)}")
    every = [size / 1e3 for _, _, sizes in curves for size in sizes if size > 0]
    figure.settings.append("set logscale x\nset xlabel 'kB per sample'\n"
                           f"set xrange [{min(every):g}:{max(every):g}]\n"
                           "set ylabel 'share of samples'\nset yrange [0:1]")
    yield figure


def all_figures(kept, summary):
    if summary:
        yield from bars(summary)
        yield from over_bandwidth(summary)
        yield from over_cores(summary, "storage", "compute")
        yield from over_cores(summary, "compute", "storage")
        yield from over_rates(summary)
        yield from plan_versus_measured(summary)
    profile = next(iter(sorted(glob.glob(glob.escape(kept.path("profiles")) + "/*/"))), "")
    yield from sizes_cdf(os.path.join(profile, "prep_sizes.csv"),
                         os.path.join(profile, "prep_forms.csv"), "the images measured here",
                         "sizes_cdf")
    yield from sizes_cdf(kept.path("openimages_prep_sizes.csv"), "", "published sizes",
                         "sizes_cdf_openimages")


def draw(kept, summary):
    """The figures drawn, and why others were not (None: nothing is missing)."""
    folder = kept.path("figures")
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        if name.endswith((".gp", ".svg", ".png")):
            os.unlink(os.path.join(folder, name))
    figures = list(all_figures(kept, summary))
    for figure in figures:
        figure.write(folder)
    if not shutil.which("gnuplot"):
        return [], ("gnuplot is not installed (gnuplot-nox), so figures/ holds their scripts "
                    "alone; bench/reproduce --draw draws them where it is")
    for figure in figures:
        subprocess.run(["gnuplot", figure.name + ".gp"], cwd=folder, check=True)
    return figures, None
