"""The figures of a sweep, drawn by gnuplot: each as SVG and PNG, its script with the data beside
them.  A figure is drawn only where there is something to compare."""
import csv
import glob
import os
import shutil

from . import cells
from .toolkit import report

COLOURS = {name: report.LOOKS[cells.MODES[name].title][0]
           for name in ("no-off", "all-off", "resize-off", "sophon", "auto")} | {
    "cold": report.AREAS["green"], "static": report.AREAS["olive"], "crop": report.AREAS["blue"],
    "packed": report.GREY}
REFERENCE_MBIT = 500  # what the bars are of: the measured bandwidth nearest to it
STAGES = (("raw", "file"), ("decoding", "decoded"), ("RandomResizedCrop", "cropped pixels"),
          ("Normalize", "float32"))
FORMS = {"jpeg_crop@0": "file, cut to the crop", "u8_packed@3": "cropped, packed"}
NUM_POINTS = 400


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
        figure = report.Figure(f"{name}_{link}{file_suffix(rate)}",
                        f"{what} for one pass over the images at {cells.mbit_text(mbit)}"
                        f"{trainer_text(rate)}",
                        f"cells.csv, link {link}: {key} at {cells.mbit_text(mbit)}.")
        by_cell = {(cell["storage_cores"], cell["compute_cores"], cell["mode"]): cell[key] * scale
                   for cell in chosen}
        figure.data("bars", [
            [f"\"{storage:g}+{compute:g} cores\""] +
            [by_cell.get((storage, compute, mode)) for mode in modes]
            for storage, compute in pairs])
        figure.labels("storage + compute cores", unit)
        figure.script += ["set style data histograms", "set style histogram clustered gap 1",
                          "set style fill solid noborder", "set yrange [0:*]"]
        figure.plots = [f"$bars using {i + 2}:xtic(1) title '{title_of(mode)}' "
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
    figure = report.Figure(name, title, caption)
    for mode in modes_in(summary):
        of_mode = sorted((cell for cell in summary if cell["mode"] == mode),
                         key=lambda cell: cell[axis])
        block = mode.replace("-", "_")
        figure.data(block, [
            [cell[axis], cell["seconds"], cell["plan_seconds"]] for cell in of_mode])
        figure.plots.append(f"${block} using 1:2 with linespoints lw 2 pt 7 ps 0.6 "
                            f"lc rgb '{COLOURS[mode]}' title '{title_of(mode)}'")
        if any(cell["plan_seconds"] is not None for cell in of_mode):
            figure.plots.append(f"${block} using 1:3 with lines lw 1 dt 2 "
                                f"lc rgb '{COLOURS[mode]}' notitle")
    if any(cell["plan_seconds"] is not None for cell in summary):
        figure.plots.append(f"NaN with lines lw 1 dt 2 lc rgb '{report.FAINT_INK}' title 'dashed: planned'")
    values = sorted({cell[axis] for cell in summary})
    tics = ", ".join(f"'{value:g}' {value:g}" for value in values)
    seconds = [cell["seconds"] for cell in summary] + \
        [cell["plan_seconds"] for cell in summary if cell["plan_seconds"]]
    figure.labels(xlabel, "seconds for one pass over the images")
    figure.log_axis("x", *log_range(values))
    figure.log_axis("y", *log_range(seconds))
    figure.narrow_tics = ""
    figure.script.append(f"set xtics ({tics})")
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
    figure = report.Figure("plan_versus_measured", "Measured epoch time over the plan's",
                    "cells.csv: measured_over_plan over plan_seconds; dashed: 10 % off.")
    ratios = [cell["measured_over_plan"] for cell in planned]
    figure.labels("plan, seconds for one pass over the images", "measured / plan")
    figure.log_axis("x", *log_range([cell["plan_seconds"] for cell in planned]))
    figure.script.append(
        f"set yrange [{min(0.8, *ratios) - 0.02:g}:{max(1.2, *ratios) + 0.02:g}]")
    figure.plots = [f"1 with lines lc rgb '{report.INK}' notitle",
                    f"1.1 with lines dt 2 lc rgb '{report.GREY}' notitle",
                    f"0.9 with lines dt 2 lc rgb '{report.GREY}' notitle"]
    for mode in modes_in(planned):
        block = mode.replace("-", "_")
        figure.data(block, [[cell["plan_seconds"], cell["measured_over_plan"]]
                            for cell in planned if cell["mode"] == mode])
        figure.plots.append(f"${block} using 1:2 with points pt 7 ps 0.8 "
                            f"lc rgb '{COLOURS[mode]}' title '{title_of(mode)}'")
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
    in_forms = sizes_in_forms(forms_path)
    sizes = {text: [int(row[column]) for row in rows] for column, text in STAGES}
    sizes |= {text: in_forms[choice] for choice, text in FORMS.items() if choice in in_forms}
    spreads = {}
    for text, values in sizes.items():
        ordered = sorted(values)
        spreads[text] = [ordered[(len(ordered) - 1) * i // NUM_POINTS] / 1e3
                         for i in range(NUM_POINTS + 1)]
    yield report.sizes_figure(spreads, name, f"Bytes of a sample at each stage\n{title}",
                              f"The sizes in {os.path.basename(sizes_path)}, {len(rows)} samples.")


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
    if not shutil.which("gnuplot"):
        for figure in figures:
            figure.write(folder)
        return [], ("gnuplot is not installed (gnuplot-nox), so figures/ holds their scripts "
                    "alone; bench/reproduce --draw draws them where it is")
    for figure in figures:
        figure.draw(folder)
    return figures, None
