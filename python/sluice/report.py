"""Figures, drawn by gnuplot, and pages that hold them: what `offload_profile report` writes, and what bench/ draws with.

    offload_profile report --json ... | report.py --out FOLDER [--plans] [--json] [RUN.jsonl]...

offload_profile calls it by its path, with the plans on standard input.  It imports nothing but the standard library, and
so needs no compiled package.

A page is one HTML file with its style and its figures inside: it needs no other file, no network and no script, is read
on a wide screen and on a phone, and is light or dark as the reader prefers.
"""
import argparse
import html
import itertools
import json
import logging
import math
import os
import re
import statistics
import subprocess
import sys
import time

# --- colours ---

# Light colour to dark one.  Figures are drawn in the light ones, for programs that know no style sheets; a style sheet
# maps each to its dark one where the reader prefers that.  Series differ in lightness too, and keep apart for
# colour-blind eyes (after Okabe and Ito, https://jfly.uni-koeln.de/color/).
PAPER, INK, FAINT_INK, GRID = "#ffffff", "#1f2328", "#59636e", "#d8dee4"
BLUE, VERMILION, OCHRE, PINK, GREEN, GREY = "#0072b2", "#d55e00", "#a67c00", "#b03a88", "#00805a", "#6e7781"
# Areas, on which ink is readable.
AREAS = {"blue": "#8fc1e8", "orange": "#f4b48d", "green": "#93d3b5", "violet": "#bfb0e0", "yellow": "#ead77f",
         "pink": "#eab3d1", "teal": "#a9dfe0", "lilac": "#e0cdea", "olive": "#d6dba2", "grey": "#d3d8dd"}
DARK = dict(zip((PAPER, INK, FAINT_INK, GRID, BLUE, VERMILION, OCHRE, PINK, GREEN, GREY, *AREAS.values(), "black"), (
    "#0d1117 #e6edf3 #a3acb6 #2d333b #5cb3f2 #ff8f52 #e3c04b #f28cc8 #3fd6a0 #aab4be "
    "#1f5a8a #8a4520 #1f6b4c #55458a #6e5d12 #7d3560 #1c6064 #5c4a69 #575c22 #444c56 "
    "#e6edf3").split()))  # black: gnuplot's own
DARK_STYLE = "@media (prefers-color-scheme:dark){" + "".join(
    f'[{name}="{light}"]{{{name}:{dark}}}' for light, dark in DARK.items() for name in ("stroke", "fill", "color")) + "}"
STYLE = """\
:root{color-scheme:light dark;--paper:#ffffff;--ink:#1f2328;--faint:#59636e;--grid:#d8dee4;--shade:#f3f5f7;
--link:#0072b2;--bad:#b32d00}
@media (prefers-color-scheme:dark){:root{--paper:#0d1117;--ink:#e6edf3;--faint:#a3acb6;--grid:#2d333b;--shade:#161b22;
--link:#5cb3f2;--bad:#ff8f52}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;margin:0 auto;
padding:1rem;overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.25;margin:.5rem 0 1rem}
h2{font-size:1.25rem;margin:2.2rem 0 .6rem;border-bottom:1px solid var(--grid)}
p{margin:.6rem 0;max-width:48rem}.lead{font-size:1.1rem}a{color:var(--link)}code{font-size:.85rem}
.faint,figcaption{color:var(--faint)}.bad{color:var(--bad);font-weight:600}.scroll,pre{overflow-x:auto;margin:.8rem 0}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .7rem;text-align:right;white-space:nowrap;vertical-align:top;border-bottom:1px solid var(--grid)}
th,.ours{background:var(--shade)}.text{text-align:left}
figure{margin:1.4rem 0 2rem}figcaption{font-size:.9rem;max-width:48rem}
figure svg{display:block;width:100%;height:auto;max-width:860px}figure .narrow{display:none}
@media (max-width:640px){figure .wide{display:none}figure .narrow{display:block}figure .narrow svg{max-width:480px}}
"""


class ReportError(Exception):
    """What the user has to know; one line."""


# --- text ---

def one_line(text):
    """Control characters, and what no XML may hold, as codes."""
    letters = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return re.sub("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]",
                  lambda found: letters.get(found[0], f"\\x{ord(found[0]):02x}"), text)


def escape(value):
    """Text from anywhere for HTML and XML; none of it becomes markup."""
    return html.escape(one_line(str(value))).replace("&#x27;", "&#39;")


def label(text, most=200):
    """Text from anywhere as gnuplot takes it between any quotes and in data: what might be its language, and all that is
    not ASCII, becomes "?"."""
    return re.sub(r"[^a-zA-Z0-9 _+.,:;/()=@#-]", "?", text)[:most]


def show(number, unit=""):
    """Three significant digits; "-" for what is not known."""
    if number is None or not math.isfinite(number):
        return "-"
    size = abs(number)
    if size >= 1e15:
        return f"{number:.2e}{unit}"
    return f"{number:.{0 if size == 0 or size >= 99.95 else 1 if size >= 9.995 else 2}f}{unit}"


def show_seconds(seconds):
    if seconds is None or seconds == 0 or seconds >= 0.9995:
        return show(seconds, " s")
    return show(seconds * 1e3, " ms") if seconds >= 0.9995e-3 else show(seconds * 1e6, " us")


def show_share(share):
    percent = min(int(share * 100 + 0.5), 100 if share >= 1 else 99)  # almost all is not all
    return "<1%" if share > 0 and percent < 1 else f"{percent}%"


# --- figures ---

WIDTH, NARROW_WIDTH = 860, 360
HEAD = (f"set encoding utf8\nset border 3 linecolor rgb '{FAINT_INK}'\n"
        f"set grid back linetype 1 linewidth 1 linecolor rgb '{GRID}'\n"
        f"set tics nomirror noenhanced scale 0.5 textcolor rgb '{FAINT_INK}'\n"
        f"set xlabel textcolor rgb '{INK}'\nset ylabel textcolor rgb '{INK}'\n")
WIDE_KEY = "set key outside right top vertical Left reverse samplen 3 spacing 1.2"
# A phone has room for the key only below the plot.
NARROW_KEY = "set key outside bottom center horizontal maxcols 2 Left reverse samplen 2 height 0.5"


def log_tics(low, high, digits):
    """"'1' 1, '2' 2, '5' 5" and so on: the digits of each decade that lie on the axis."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = (int(digit) * 10.0 ** exponent for exponent in exponents for digit in digits)
    return ", ".join(f"'{value:.6g}' {value:.9g}" for value in values
                     if low * (1 - 1e-9) <= value <= high * (1 + 1e-9))


def finish_svg(svg, identity, title):
    """gnuplot's SVG for light and dark pages, alone or inside one: without the XML prologue, its ids led by `identity`,
    which is unique in the page, with a title for screen readers, any text, and the style sheet."""
    start = svg.find("<svg")
    if start < 0:
        raise ReportError(f"{identity}: not an SVG")

    def fix(tag):
        text = re.sub(r"rgb\( *(\d+) *, *(\d+) *, *(\d+) *\)",
                      lambda rgb: "#" + "".join(f"{int(part):02x}" for part in rgb.groups()), tag[0])
        return re.sub(r""" id=['"]|href=['"]#|url\(#""", lambda lead: f"{lead[0]}{identity}-", text)

    text = re.sub(r"<title>.*?</title>", "", svg[start:], count=1, flags=re.S)
    text = re.sub(r"<[^>]*>", fix, text)
    head = f' role="img">\n<title>{escape(title)}</title>\n<style>{DARK_STYLE}</style>\n'
    return text.replace(">", head, 1)


def write_atomic(path, text):
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(f"{path}.new", path)


class Figure:
    """One figure in two layouts and in light and dark colours:

        FOLDER/NAME.svg, NAME-narrow.svg   for pages, and for phones
        FOLDER/NAME.png                    the first again, of twice as many pixels, light
        FOLDER/NAME.gp                     the script with its data, so that it can be drawn in another way

    script: settings and data, in gnuplot's language.  commands: those that are run once for each layout, of which gnuplot's
    variable `narrow` tells; plots: what follows `plot` after them.  Text from outside goes through label()."""

    def __init__(self, name, title, caption, height=440, narrow_height=420):
        self.name, self.title, self.caption = name, title, caption
        self.height, self.narrow_height = height, narrow_height
        self.script, self.commands, self.plots, self.narrow_tics = [], [], [], ""

    def data(self, name, rows):
        """A block of numbers (None: not known) and quoted text."""
        self.script += [f"${name} << EOD", *(" ".join(
            value if isinstance(value, str) else "NaN" if value is None else f"{value:.9g}" for value in row)
            for row in rows), "EOD"]

    def labels(self, x, y):
        self.script += [f"set xlabel '{label(x)}'", f"set ylabel '{label(y)}'"]

    def log_axis(self, axis, low, high):
        """A logarithmic axis ('x' or 'y') from low to high, both > 0, with tics that can be read."""
        if high <= low:
            low, high = low / 1.25, low * 1.25
        decades = math.log10(high / low)
        # Few tics look bare, many collide, on a phone sooner.
        digits = "123456789" if decades < 0.6 else "12357" if decades < 1.1 else "125" if decades < 3.2 else "1"
        few = "123457" if decades < 0.6 else "125" if decades < 1.5 else "13" if decades < 2.6 else "1"
        self.script += [f"set logscale {axis}", f"set {axis}range [{low:.9g}:{high:.9g}]",
                        f"set {axis}tics ({log_tics(low, high, digits)})"]
        if axis == "x":
            self.narrow_tics = f"set xtics ({log_tics(low, high, few)})\n"

    def write(self, folder):
        """Only the script."""
        commands = "".join(f"{command}\n" for command in self.commands)
        if self.plots:
            commands += f"plot {', '.join(self.plots)}\n"
        title = "\\n".join(label(line) for line in self.title.split("\n"))
        text = HEAD + "".join(f"{line}\n" for line in self.script) + \
            f"set title \"{title}\" noenhanced textcolor rgb '{INK}'\n"
        for narrow, terminal, more, suffix, scale, width, height in (
                (0, "svg", "font 'sans-serif,14'", ".svg", 1, WIDTH, self.height),
                (0, "pngcairo", "font 'sans,11' fontscale 2 linewidth 2 pointscale 2", ".png", 2, WIDTH, self.height),
                (1, "svg", "font 'sans-serif,13'", "-narrow.svg", 1, NARROW_WIDTH, self.narrow_height)):
            text += (f"narrow = {narrow}\nset terminal {terminal} size {width * scale},{height * scale} "
                     f"background rgb '{PAPER}' {more}\nset output '{self.name}{suffix}'\n"
                     f"{self.narrow_tics if narrow else ''}{NARROW_KEY if narrow else WIDE_KEY} "
                     f"textcolor rgb '{INK}' noenhanced\n{commands}unset output\n")
        with open(os.path.join(folder, self.name + ".gp"), "w", encoding="utf-8") as file:
            file.write(text)

    def draw(self, folder):
        self.write(folder)
        try:
            # In its folder: no name in the script can then break a string of gnuplot's language.
            subprocess.run(["gnuplot", self.name + ".gp"], cwd=folder, check=True)
        except FileNotFoundError:
            raise ReportError("figures are drawn by gnuplot, which is not installed (gnuplot-nox)") from None
        except subprocess.CalledProcessError:
            raise ReportError(f"gnuplot could not draw {folder}/{self.name}.gp") from None
        for suffix in ("", "-narrow"):
            path = os.path.join(folder, f"{self.name}{suffix}.svg")
            with open(path, encoding="utf-8") as file:
                svg = file.read()
            write_atomic(path, finish_svg(svg, self.name + suffix, self.title))


# --- pages ---

class Raw(str):
    """Markup of ours, as it is."""


def table(heads, rows):
    """heads: "name", or "<name" for a column of text; rows: lists, or (attributes of <tr>, list).  Cells are escaped unless
    they are Raw."""
    classes = [' class="text"' if head.startswith("<") else "" for head in heads]
    parts = ['<div class="scroll"><table>\n<thead><tr>', *(
        f"<th{style}>{escape(head.lstrip('<'))}</th>" for head, style in zip(heads, classes)),
        "</tr></thead>\n<tbody>\n"]
    for row in rows:
        attributes, cells = row if isinstance(row, tuple) else ("", row)
        parts += [f"<tr{attributes}>", *(
            f"<td{style}>{cell if isinstance(cell, Raw) else escape(cell)}</td>"
            for cell, style in zip(cells, classes)), "</tr>\n"]
    return "".join(parts) + "</tbody></table></div>\n"


def embed(figure, folder, link=""):
    """The markup of a figure that was drawn in the folder, which is `link` ("figures/") from the page."""
    parts = [f'<figure id="{escape(figure.name)}">\n']
    for suffix, style in (("", "wide"), ("-narrow", "narrow")):
        with open(os.path.join(folder, f"{figure.name}{suffix}.svg"), encoding="utf-8") as file:
            # The style is the page's already.
            svg = re.sub(r"<style>.*?</style>", "", file.read(), count=1, flags=re.S)
        parts.append(f'<div class="{style}">{svg}</div>\n')
    links = ", ".join(f'<a href="{escape(link + figure.name)}.{suffix}">{text}</a>'
                      for suffix, text in (("svg", "SVG"), ("png", "PNG"), ("gp", "gnuplot")))
    return "".join(parts) + f"<figcaption>{escape(figure.caption)} {links}</figcaption>\n</figure>\n"


def write_page(path, title, parts):
    """The page, whole or not at all, of markup; what is not ours went through escape()."""
    title = escape(title)
    write_atomic(path, '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
                 '<meta name="viewport" content="width=device-width">\n'
                 '<meta name="color-scheme" content="light dark">\n'
                 f"<title>{title}</title>\n<style>{STYLE}{DARK_STYLE}</style>\n</head>\n<body>\n"
                 f"<h1>{title}</h1>\n{''.join(parts)}</body>\n</html>\n")


# --- modes ---

# How a mode looks in every figure: colour, gnuplot's types of points and dashes, width.
LOOKS = {"local": (GREY, 11, 4, 1.5), "remote_nooff": (BLUE, 5, 2, 1.5), "remote_alloff": (VERMILION, 9, 3, 1.5),
         "remote_piloff": (OCHRE, 13, 4, 1.5), "remote_sophon": (PINK, 4, 5, 2), "remote_auto": (GREEN, 7, 1, 3)}
# Names from before, as plan/mode.c has them.
ALIASES = {alias: mode for mode, aliases in {
    "remote_nooff": ("nooff", "no-off"), "remote_alloff": ("alloff", "all-off"), "remote_piloff": ("piloff", "resize-off"),
    "remote_sophon": ("sophon", "smartoff", "remote_smartoff", "greedy"), "remote_auto": ("auto", "lp")}.items()
    for alias in aliases}


def modes_figure(name, title, caption, bars):
    """Bars from left to right, a panel of seconds and one of MB.  bars: (mode, seconds, bytes); None is not known."""
    figure = Figure(name, title, caption, 90 + 36 * len(bars), 2 * (80 + 30 * len(bars)))
    # The rest of a bar of nothing: its label says "-".
    rows = [(label(mode, 23), seconds, None if size is None else size / 1e6) for mode, seconds, size in bars]
    figure.data("bars", [(f'"{mode}"', seconds, mb or 0, str(int(LOOKS.get(bar[0], (GREY,))[0][1:], 16)),
                          f'"{show(seconds)}"', f'"{show(mb)}"') for (mode, seconds, mb), bar in zip(rows, bars)])
    figure.script += ["unset key", "set style fill solid noborder", "set border 2", "unset xtics", "unset grid",
                      "set ytics scale 0"]
    figure.commands = ["if (narrow) { set multiplot layout 2,1 } else { set multiplot layout 1,2 }",
                       f"set lmargin {max(len(row[0]) for row in rows) + 2}", "set rmargin 2"]
    for title, column in (("Seconds per epoch", 2), ("MB on the wire per epoch", 3)):
        most = max(row[column - 1] or 0 for row in rows)
        figure.commands += [
            f"set title '{title}' textcolor rgb '{INK}'", f"set xrange [0:{most * 1.22 if most > 0 else 1:.9g}]",
            f"set yrange [{len(bars) - 1}.5:-0.5]",
            f"plot $bars using (0):0:(0):{column}:($0-0.36):($0+0.36):4:ytic(1) with boxxyerror linecolor rgb variable "
            f"notitle, $bars using {column}:0:{column + 3} with labels left offset 0.6,0 noenhanced textcolor rgb "
            f"'{INK}' notitle"]
    figure.commands.append("unset multiplot")
    return figure


# --- runs ---

# The resources of "stalls" in the order of the route of a sample, with what people read and the colour of an area.
STALLS = {"disk": ("disk", "violet"), "storage_cpu": ("storage CPU", "orange"), "network": ("network", "blue"),
          "compute_cpu": ("compute CPU", "green"), "gpu": ("GPU decoder", "pink"), "trainer": ("trainer", "yellow")}
MOST = 1e18  # no loss and no sum of bytes is beyond this, so that sums and axes stay finite
MAX_WARNINGS = 5  # more lines than these are counted and not named
MAX_POINTS = 60  # points of longer lines would touch
MAX_OPEN_ROWS = 40  # longer tables are folded


def number_of(value, least=-MOST):
    """None: not known."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and least <= value <= MOST else None


class Epoch:
    """A line that offload_train --json printed.  What is missing, null or beyond MOST is None."""

    def __init__(self, found):
        if not isinstance(found, dict):
            raise ValueError("not an object")
        if not isinstance(found.get("mode"), str):
            raise ValueError("'mode' is missing")
        self.seconds = number_of(found.get("seconds"), 0)
        if self.seconds is None:
            raise ValueError("'seconds' is missing, or no length of time")
        self.mode = one_line(ALIASES.get(found["mode"], found["mode"]))[:47]  # it was written as it was typed
        for name in ("epoch", "samples", "samples_per_s", "wire_bytes", "top1", "val_top1"):
            setattr(self, name, number_of(found.get(name), 0))
        self.loss, self.val_loss = number_of(found.get("loss")), number_of(found.get("val_loss"))
        self.is_evaluation = found.get("evaluate") is True
        digest, choices, stalls = found.get("digest"), found.get("choices"), found.get("stalls")
        self.digest = one_line(digest)[:39] if isinstance(digest, str) else ""
        self.choices = " ".join(
            f"{one_line(name)[:32]}:{count if isinstance(count, int) else 0}" for name, count in
            (choices.items() if isinstance(choices, dict) else ()))[:159]
        shares = [number_of(stalls.get(name), 0) if isinstance(stalls, dict) else None for name in STALLS]
        self.has_stalls = any(shares)
        self.stalls = [min(share or 0, 1) for share in shares]
        self.run = self.file = 0
        self.from_s, self.to_s = 0, self.seconds + (number_of(found.get("val_seconds"), 0) or 0)

    def is_alike(self, other):
        """Whether both delivered the same samples, as far as is known."""
        if self.is_evaluation or other.is_evaluation:
            return False
        if self.digest and other.digest:
            return self.digest == other.digest
        return None not in (self.epoch, self.samples) and \
            (self.epoch, self.samples) == (other.epoch, other.samples)


def limit_text(who, epochs):
    """A sentence on what `who` waited for longest, for a page; nothing where that is not known."""
    known = [epoch for epoch in epochs if epoch.has_stalls]
    waits = [sum(epoch.stalls[i] * epoch.seconds for epoch in known) for i in range(len(STALLS))]
    seconds = sum(epoch.seconds for epoch in known)
    if seconds <= 0:
        return ""
    title = list(STALLS.values())[waits.index(max(waits))][0]
    share = show_share(max(waits) / seconds)
    if title == "trainer":
        return f"{who} was limited by the trainer: for {share} of the time the data was there before it was wanted."
    return f"{who} was limited by the {title}: it waited for it during {share} of the time."


class Runs:
    """What files of offload_train --json hold, of one run or of many.  A line that is no epoch (cut short, a line of a log
    among them) is passed over: a warning names file, line and reason, and they are counted."""

    def __init__(self, paths=()):
        self.epochs, self.num_files, self.num_runs, self.num_passed_over = [], 0, 0, 0
        for path in paths:
            self.read(path)

    def read(self, path):
        """A run ends where the next epoch has another mode or does not follow."""
        last, first_error, num_bad = None, None, 0
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.strip(b" \t\r\n"):
                    continue
                try:
                    epoch = Epoch(json.loads(line.decode()))
                except (ValueError, RecursionError) as error:
                    why = f"{path}:{number}: "
                    text = one_line(getattr(error, "msg", None) or str(error))
                    first_error = first_error or why + text
                    num_bad += 1
                    if self.num_passed_over + num_bad <= MAX_WARNINGS:
                        logging.warning("%s", one_line(f"{why}passed over: {text}"))
                    continue
                self.add(epoch, last)
                last = epoch if last is None or not epoch.is_evaluation else last
        self.num_files += 1
        self.num_passed_over += num_bad
        if last is None:
            raise ReportError(first_error or f"{path}: no epochs in it")
        if num_bad > MAX_WARNINGS:
            logging.warning("%s", one_line(f"{path}: {num_bad} lines passed over"))

    def add(self, epoch, last):
        """last: that of this file which was trained or read, no evaluation unless there is only that."""
        follows = last is not None and not last.is_evaluation and last.mode == epoch.mode and \
            None not in (last.epoch, epoch.epoch) and epoch.epoch > last.epoch
        if last is None or not (follows or epoch.is_evaluation):
            self.num_runs += 1
        epoch.run, epoch.file = self.num_runs - 1, self.num_files
        if self.epochs and self.epochs[-1].run == epoch.run:
            epoch.from_s = self.epochs[-1].to_s
        epoch.to_s += epoch.from_s
        self.epochs.append(epoch)

    def saved(self, epoch):
        """How many MB less that is than what remote_nooff moved for the same samples."""
        baseline = next((other.wire_bytes for other in self.epochs
                         if other.mode == "remote_nooff" and other.is_alike(epoch)), None)
        return f"{(baseline - epoch.wire_bytes) / 1e6:.2f}" if baseline is not None and epoch.wire_bytes else "-"

    def comparable(self):
        """Epochs that may stand beside those of other modes: they delivered what one of another mode did; where no two
        modes delivered the same, every epoch but evaluations."""
        read = [epoch for epoch in self.epochs if not epoch.is_evaluation]
        return [epoch for epoch in read if any(other.mode != epoch.mode and epoch.is_alike(other)
                                               for other in read)] or read

    def digest_is_equal(self, epoch):
        """True: the digest is that of another epoch of equal number and samples.  False: it is that of none of those in
        its file.  None: there is nothing to compare with; another file may well be of another seed or size."""
        others = [other for other in self.epochs if other is not epoch and epoch.digest and other.digest and
                  other.is_evaluation == epoch.is_evaluation and None not in (epoch.epoch, epoch.samples) and
                  (other.epoch, other.samples) == (epoch.epoch, epoch.samples)]
        if any(other.digest == epoch.digest for other in others):
            return True
        return False if any(other.file == epoch.file for other in others) else None

    def curves(self):
        """{run: its epochs} of those of at least two."""
        runs = {}
        for epoch in self.epochs:
            if not epoch.is_evaluation:
                runs.setdefault(epoch.run, []).append(epoch)
        return {run: epochs for run, epochs in runs.items() if len(epochs) > 1}


def print_runs(runs):
    print(f"{'mode':<14} {'seconds':>9} {'MB':>10} {'MB saved':>10}  {'digest':<32}  choices")
    for epoch in runs.epochs:
        mb = "-" if epoch.wire_bytes is None else f"{epoch.wire_bytes / 1e6:.2f}"
        print(f"{epoch.mode:<14} {epoch.seconds:9.3f} {mb:>10} {runs.saved(epoch):>10}  {epoch.digest or '-':<32}  "
              f"{epoch.choices}")


def runs_table(runs):
    has_loss = any(epoch.loss is not None or epoch.val_loss is not None for epoch in runs.epochs)
    heads = ["<mode", "epoch", "seconds", "samples/s", "MB", "MB saved", "<same digest", "<waited for",
             *(["loss", "val. loss", "val. top 1"] if has_loss else []), "<digest", "<choices"]
    titles = [title for title, _ in STALLS.values()]
    rows = []
    for epoch in runs.epochs:
        most = max(epoch.stalls)
        rows.append([
            epoch.mode + (", evaluation" if epoch.is_evaluation else ""),
            "-" if epoch.epoch is None else f"{epoch.epoch:.0f}", f"{epoch.seconds:.3f}", show(epoch.samples_per_s),
            show(None if epoch.wire_bytes is None else epoch.wire_bytes / 1e6), runs.saved(epoch),
            {None: "-", True: "yes", False: "no"}[runs.digest_is_equal(epoch)],
            f"{titles[epoch.stalls.index(most)]}, {show_share(most)}" if epoch.has_stalls else "-",
            *([show(epoch.loss), show(epoch.val_loss), show(epoch.val_top1)] if has_loss else []),
            epoch.digest[:8] or "-", epoch.choices or "-"])
    text = table(heads, rows)
    if len(rows) > MAX_OPEN_ROWS:
        text = f"<details><summary>All {len(rows)} epochs</summary>\n{text}</details>\n"
    return text + (
        '<p class="faint">MB saved: less than remote_nooff, the files as they are. Waited for: what the next batch waited '
        "for longest, as a share of the epoch; trainer: the time it worked. Same digest: the samples are, bit by bit, "
        "those of another epoch of equal number; its first digits are shown.</p>\n")


def time_axis(figure, epochs):
    """From when the runs began to the end of the longest; returns the seconds of the axis's unit."""
    end_s = max(epoch.to_s for epoch in epochs)
    name, unit = ("s", 1) if end_s < 180 else ("min", 60) if end_s < 10800 else ("h", 3600)
    figure.script += [f"set xlabel 'time since the run began, {name}'",
                      f"set xrange [0:{end_s / unit if end_s > 0 else 1:.9g}]"]
    return unit


def curve_figures(runs):
    """Loss, accuracy and speed over time, of runs of at least two epochs."""
    colours, points = (GREEN, BLUE, VERMILION, PINK, OCHRE, GREY), (7, 5, 9, 13, 11, 4)
    curves = runs.curves()
    has_many = len(curves) > 1
    for name, title, ylabel, caption, lines in (
            ("loss", "Loss", "loss", "The mean loss of each epoch, at its end.",
             {"loss": "training", "val_loss": "validation"}),
            ("accuracy", "Top-1 accuracy", "share of samples that are right",
             "The top-1 accuracy of each epoch, at its end.", {"top1": "training", "val_top1": "validation"}),
            ("samples_per_s", "Samples per second", "samples/s",
             "Samples per second of each epoch, without its validation.", {"samples_per_s": "training"})):
        figure = Figure(name, title, caption)
        unit = time_axis(figure, itertools.chain(*curves.values()))
        every, has_dashed = [], False
        for place, (run, epochs) in enumerate(curves.items()):
            for line, (field, line_title) in enumerate(lines.items()):
                rows = [(epoch.to_s / unit, getattr(epoch, field)) for epoch in epochs
                        if getattr(epoch, field) is not None]
                if not rows:
                    continue
                figure.data(f"run{run}_{line}", rows)
                every += [value for _, value in rows]
                has_dashed |= line == 1
                look = (place if has_many else line) % len(colours)  # of many runs each has a colour, of one each line
                key = f"title '{line_title}'" if not has_many and len(lines) > 1 else \
                    f"title '{run + 1}: {label(epochs[0].mode, 23)}'" if has_many and line == 0 else "notitle"
                style = "lines" if len(rows) > MAX_POINTS else f"linespoints pt {points[look]} ps 0.8"
                figure.plots.append(f"$run{run}_{line} using 1:2 with {style} lw 2 dt {line + 1} lc rgb "
                                    f"'{colours[look]}' {key}")
        if not every:
            continue
        if has_many and has_dashed:
            figure.plots.append(f"NaN with lines lw 2 dt 2 lc rgb '{GREY}' title 'dashed: validation'")
        low, high = min(every), max(every)
        pad = 0.05 * (high - low) if high > low else 0.05 * abs(high) + 1e-6
        figure.script += [f"set ylabel '{ylabel}'",
                          f"set yrange [{max(0, low - pad) if low >= 0 else low - pad:.9g}:{high + pad:.9g}]"]
        yield figure


def stalls_figure(run, epochs, name):
    """Areas one above the other: what each epoch waited for, as shares of it."""
    who = f"{run + 1}, {epochs[0].mode}"
    figure = Figure(name, f"What each epoch waited for\nrun {who}",
                    f"Run {who}: the shares of each epoch in which the trainer worked, or waited for the next batch, by what "
                    "that waited for.")
    unit = time_axis(figure, epochs)
    # A share is that of the whole epoch: a step.
    figure.data("stalls", [
        (end / unit, 0, *(100 * min(share, 1) for share in itertools.accumulate(epoch.stalls)))
        for epoch in epochs if epoch.has_stalls for end in (epoch.from_s, epoch.to_s)])
    figure.script += ["set ylabel 'share of the epoch, %'", "set yrange [0:100]", "unset grid",
                      "set style fill solid noborder"]
    # The highest area first, as the legend reads from above.
    figure.plots = [f"$stalls using 1:{i + 2}:{i + 3} with filledcurves lc rgb '{AREAS[area]}' title '{title}'"
                    for i, (title, area) in reversed(list(enumerate(STALLS.values())))]
    return figure


def runs_parts(runs):
    yield "<h2>Runs, measured</h2>\n"
    comparable = runs.comparable()
    modes = list(dict.fromkeys(epoch.mode for epoch in comparable))
    main = "remote_auto" if "remote_auto" in modes else modes[0] if modes else ""
    limit = limit_text(main, [epoch for epoch in comparable if epoch.mode == main])
    if limit:
        yield f'<p class="lead">{escape(limit)}</p>\n'
    equal = [runs.digest_is_equal(epoch) for epoch in runs.epochs]
    if False in equal:
        yield (f'<p class="bad">{equal.count(False)} of {len(equal) - equal.count(None)} epochs delivered other samples '
               "than those of equal number in the same file: another seed, size or data, or an error.</p>\n")
    elif True in equal:
        yield (f"<p>Every mode delivered the same samples, bit by bit: all {equal.count(True)} digests that can be "
               "compared are equal.</p>\n")
    if runs.num_passed_over:
        yield f'<p class="bad">Lines that are no epochs and were passed over: {runs.num_passed_over}.</p>\n'
    if len(modes) > 1:
        def median(mode, field):
            values = [getattr(epoch, field) for epoch in comparable if epoch.mode == mode]
            known = [value for value in values if value is not None]
            return statistics.median(known) if known else None
        yield modes_figure("modes", "Modes, measured", "Measured; of several epochs of a mode the median.",
                           [(mode, median(mode, "seconds"), median(mode, "wire_bytes")) for mode in modes])
    curves = runs.curves()
    if curves:
        yield from curve_figures(runs)
    for place, (run, epochs) in enumerate(curves.items(), 1):
        limit = limit_text(f"Run {run + 1}, {epochs[0].mode},", epochs)
        if limit:
            yield f"<p>{escape(limit)}</p>\n"
            yield stalls_figure(run, epochs, f"stalls_{place}" if place > 1 else "stalls")
    yield runs_table(runs)


# --- plans, of the JSON that profiler/report.c makes ---

AREA_OF = {("disk",): "violet", ("storage CPU",): "orange", ("network",): "blue", ("receiving",): "olive",
           ("compute CPU",): "green", ("network", "storage CPU"): "lilac", ("compute CPU", "network"): "teal",
           ("compute CPU", "storage CPU"): "pink", ("network", "receiving"): "violet"}


def limits_text(limits, most=99):
    """["network", "storage CPU"] in words."""
    if len(limits) > most:
        return "three or more"
    return ", ".join(limits[:-1]) + (" and " if len(limits) > 1 else "") + "".join(limits[-1:])


def over_figure(plans, name, title, xlabel, caption):
    """Epoch time of each mode over one rate."""
    axis = plans["over"][name]
    figure = Figure(f"time_over_{name}", title, caption)
    figure.data("data", [(value, *(plan["seconds"] for plan in made)) for value, made in axis["points"]])
    seconds = [plan["seconds"] for _, made in axis["points"] for plan in made]
    figure.log_axis("x", axis["low"], axis["high"])
    figure.log_axis("y", max(min(seconds), 1e-6) / 1.08, max(max(seconds), 1e-6) * 1.08)
    figure.labels(xlabel, "seconds per epoch, predicted")
    if axis["here"] is not None:
        figure.script.append(f"set arrow from {axis['here']:.9g}, graph 0 to {axis['here']:.9g}, graph 1 nohead lw 1.5 "
                             f"dt 3 lc rgb '{FAINT_INK}'")
    for column, plan in enumerate(plans["plans"], 2):
        colour, point, dash, width = LOOKS[plan["mode"]]
        figure.plots.append(f"$data using 1:{column} with linespoints lw {width:g} dt {dash} pt {point} ps 0.8 lc rgb "
                            f"'{colour}' title '{plan['mode']}'")
    return figure


def map_figure(plans):
    """What limits remote_auto where: rows of cells, the first the lowest."""
    figure = Figure("limits", "What limits remote_auto where",
                    "What is busy for the whole epoch under the plan of remote_auto, by bandwidth and storage cores. "
                    "Where two are named the plan has balanced them: more of one alone helps little.", 500, 500)
    x, y = plans["over"]["bandwidth"], plans["over"]["storage_cores"]
    cells = [cell["limits"] for cell in plans["map"]]
    colours = {limits_text(cell, 2): AREAS["yellow" if len(cell) > 2 else AREA_OF.get(tuple(sorted(cell)), "grey")]
               for cell in cells}
    num_columns = plans["map_columns"]
    num_rows = len(cells) // num_columns
    rows = [[limits_text(cell, 2) for cell in cells[i * num_columns:(i + 1) * num_columns]] for i in range(num_rows)]
    alike = []  # runs of cells of a row: (row, from, to, what limits)
    for i, row in enumerate(rows):
        ends = [end for end in range(1, num_columns + 1) if end == num_columns or row[end] != row[end - 1]]
        alike += [(i, start, end, row[start]) for start, end in zip([0, *ends], ends)]

    def at(axis, share):
        return axis["low"] * (axis["high"] / axis["low"]) ** share

    figure.data("cells", [
        (left, bottom, left, right, bottom, top, str(int(colours[name][1:], 16)))
        for i, start, end, name in alike
        for left, right in [(at(x, start / num_columns), at(x, end / num_columns))]
        # Up into the next row, which is drawn above: no seam is left between them.
        for bottom, top in [(at(y, i / num_rows), at(y, min(i + 2, num_rows) / num_rows))]])
    figure.log_axis("x", x["low"], x["high"])
    figure.log_axis("y", y["low"], y["high"])
    figure.labels("bandwidth, Mbit/s", "storage cores")
    figure.script += ["unset grid", "set style fill solid noborder"]

    def names(characters_per_cell):
        """The name of each area where it is widest and there is room for it, also in the rows below and above."""
        for name in colours:
            fits = [(end - start, -i, start) for i, start, end, key in alike
                    if 0 < i < num_rows - 1 and key == name and
                    abs(math.log(at(y, (i + 0.5) / num_rows) / y["here"])) > 0.25 and
                    all(set(rows[near][start:max(end - 1, start + 1)]) == {name} for near in (i - 1, i + 1))]
            width, i, start = max(fits, default=(0, 0, 0))
            if width * characters_per_cell >= len(name) + 2:
                yield (f"set label '{name}' at {at(x, (start + width / 2) / num_columns):.9g},"
                       f"{at(y, (0.5 - i) / num_rows):.9g} center front textcolor rgb '{INK}'")

    # The plot is about 780 of 860 points wide and 280 of 360.
    figure.commands = ["unset label", "if (narrow) {", *names(280 / num_columns / 7.5), "} else {",
                       *names(780 / num_columns / 8), "}", "set key outside bottom center horizontal height 0.5",
                       "if (narrow) { set key maxcols 1 samplen 1 } else { set key maxcols 2 }"]
    figure.plots = ["$cells using 1:2:3:4:5:6:7 with boxxyerror lc rgb variable notitle",
                    *(f"NaN with boxes lc rgb '{colour}' title '{name}'" for name, colour in colours.items())]
    if x["here"] is not None:
        figure.plots.append(f"'+' using ({x['here']:.9g}):({y['here']:.9g}) every ::0::0 with points pt 6 ps 1.6 lw 2.5 lc "
                            f"rgb '{INK}' title 'the machines above'")
    return figure


def sizes_figure(sizes, name, title, caption):
    """How the sizes of samples spread.  sizes: {what: sorted kB of a sample}, evenly chosen from the least to the most."""
    looks = {"file": (BLUE, 1), "file, cut to the crop": (BLUE, 2), "rows under the crop": (BLUE, 3),
             "decoded": (VERMILION, 1), "cropped pixels": (GREEN, 1), "cropped, packed": (GREEN, 2), "float32": (PINK, 4)}
    figure = Figure(name, title, caption, narrow_height=480)
    for i, (what, kb) in enumerate(sizes.items()):
        figure.data(f"line{i}", [(f"{value:.3f}", f"{place / (len(kb) - 1):.4f}") for place, value in enumerate(kb)])
        colour, dash = looks[what]
        figure.plots.append(f"$line{i} using 1:2 with lines lw 2.5 dt {dash} lc rgb '{colour}' title '{what}'")
    figure.log_axis("x", max(min(kb[0] for kb in sizes.values()), 1e-3), max(max(kb[-1] for kb in sizes.values()), 1e-3))
    figure.labels("kB per sample", "share of samples")
    figure.script.append("set yrange [0:1]")
    return figure


def plans_parts(plans):
    by_mode = {plan["mode"]: plan for plan in plans["plans"]}
    auto = by_mode["remote_auto"]
    mbit, cores = plans["over"]["bandwidth"]["here"], f"{plans['compute_cores']:g} compute cores"
    storage, rate = f"{plans['storage_cores']:g} storage", "no limit" if mbit is None else show(mbit, " Mbit/s")
    sophon, nooff = (by_mode[mode]["seconds"] / auto["seconds"] if auto["seconds"] else math.nan
                     for mode in ("remote_sophon", "remote_nooff"))
    lead = escape(f"At {rate}, with {storage} and {cores}, an epoch of remote_auto takes {show_seconds(auto['seconds'])} "
                  f"and is limited by the {limits_text(auto['limits'])}.")
    bandwidth, more_storage, compute = (show_seconds(plan["seconds"]) for plan in plans["twice"])
    yield (f'<h2>Plans, predicted from the profile</h2>\n<p class="lead">{lead}</p>\n<p>That is {sophon:.2f} times as '
           f"fast as remote_sophon and {nooff:.2f} times as fast as remote_nooff. With twice the bandwidth it would take "
           f"{bandwidth}, with twice the storage cores it would take {more_storage}, and with twice the compute cores it "
           f"would take {compute}. Predicted, for a trainer that takes samples as they come.</p>\n")
    yield modes_figure("modes_planned", "Modes, predicted", "Predicted for the machines above.",
                       [(plan["mode"], plan["seconds"], plan["wire_bytes"]) for plan in plans["plans"]])
    yield table(["<mode", "seconds", "<limited by", "MB", "kB/sample", "<choices"],
                [[plan["mode"], show(plan["seconds"]), limits_text(plan["limits"]), show(plan["wire_bytes"] / 1e6),
                  show(plan["wire_bytes"] / 1e3 / plans["num_samples"]),
                  " ".join(f"{name}:{count}" for name, count in plan["choices"].items())]
                 for plan in reversed(plans["plans"])])
    yield ('<p class="faint">Choices: form@split, how many samples cross the wire in which form after how many steps on '
           "the storage node.</p>\n")
    yield over_figure(plans, "bandwidth", f"Epoch time over bandwidth\n{storage}, {cores}", "bandwidth, Mbit/s",
                      "Predicted. Dotted: the bandwidth above.")
    yield over_figure(plans, "storage_cores", f"Epoch time over storage cores\n{rate}, {cores}", "storage cores",
                      "Predicted. Dotted: the storage cores above.")
    yield map_figure(plans)
    yield sizes_figure(plans["sizes"], "sizes_cdf", f"Bytes of a sample at each stage\n{plans['num_samples']} samples",
                       "The share of samples that have at most so many bytes; dashed: forms that only Sluice's protocol "
                       "has.")


def report(folder, plans=None, run_paths=(), is_json=False):
    """plans: what profiler/report.c makes, or None.  Prints what there is, and where the page is."""
    runs = Runs(run_paths)
    os.makedirs(folder, exist_ok=True)
    if runs.epochs and not is_json:
        print_runs(runs)
    parts = []
    for part in itertools.chain(runs_parts(runs) if runs.epochs else (), plans_parts(plans) if plans else ()):
        if isinstance(part, Figure):
            part.draw(folder)
            part = embed(part, folder)
        parts.append(part)
    path = os.path.join(folder, "index.html")
    write_page(path, "Sluice: a report", parts)
    print(json.dumps({"page": path, "epochs": len(runs.epochs), "passed_over": runs.num_passed_over},
                     separators=(",", ":")) if is_json else f"page: {path}")


def main():
    parser = argparse.ArgumentParser(description="Make the page of `offload_profile report`.")
    parser.add_argument("--out", required=True, metavar="FOLDER")
    parser.add_argument("--plans", action="store_true", help="standard input has the plans of a profile, as JSON")
    parser.add_argument("--quiet", action="store_true", help="no warnings")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument("runs", nargs="*", metavar="RUN.jsonl", help="lines that offload_train --json printed")
    options = parser.parse_args()
    for level, word in ((logging.WARNING, "warning"), (logging.ERROR, "error")):
        logging.addLevelName(level, word)
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(format="%(asctime)s.%(msecs)03dZ offload_profile report %(levelname)s: %(message)s",
                        datefmt="%Y-%m-%dT%H:%M:%S", level=logging.ERROR if options.quiet else logging.WARNING)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        report(options.out, json.load(sys.stdin) if options.plans else None, options.runs, options.json)
    except (ReportError, OSError) as error:
        text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        logging.error("%s", one_line(text))
        sys.exit(1)


if __name__ == "__main__":
    main()
