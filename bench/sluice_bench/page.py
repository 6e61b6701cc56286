"""One HTML page of a sweep, with its figures inside: what was run on what, every table, and for
every number the line of which file it is, and the command behind that line."""
import csv
import statistics

from . import cells, records
from .toolkit import report

Raw, escape, table = report.Raw, report.escape, report.table


def link(target, text):
    return f'<a href="{escape(target)}">{escape(text)}</a>'


def number(value, digits):
    return "" if value is None else f"{value:.{digits}f}"


def ratio(value, low, high):
    """Marked where it is out of bounds."""
    text = number(value, 3)
    if value is not None and not low <= value <= high:
        return Raw(f'<span class="bad">{text}</span>')
    return text


def percent(value):
    return f"{100 * value:.0f} %"


def device_text(settings):
    if settings["device"] == "none":
        return "none: batches are consumed as they come, or at the rate that a setup names"
    rate = f", planned with {settings['gpu_rate']:g} samples/s" if settings["gpu_rate"] else ""
    return f"{settings['device']}, {settings['arch']}{rate}"


def _machine(kept):
    settings = kept.settings()
    runs = kept.runs()
    if not settings:
        return []
    rows = [["images", settings["images"]], ["seed", settings["seed"]],
            ["device", device_text(settings)], ["batch", settings["batch"]],
            ["JPEG index", "the server reads by one" if settings["jpeg_index"] else "none"],
            ["profiled", f"{settings['profile_samples']} images" if settings["profile_samples"]
             else "all images"]]
    rows += [[key.replace("_", " "), value] for key, value in settings["machine"].items()]
    for field in ("commit", "link_text", "congestion_control"):
        values = dict.fromkeys(str(run[field]) for run in runs)
        rows.append([field.replace("_text", "").replace("_", " "), "; ".join(values)])
    dates = [row["date"] for row in kept.rows.rows]
    if dates:
        rows.append(["measured", f"{min(dates)} to {max(dates)}"])
    return ["<h2>What was run on what</h2>",
            f"<p>From {link('settings.json', 'settings.json')} and "
            f"{link('runs.jsonl', 'runs.jsonl')}.</p>",
            table(["<", "<"], rows),
            table(["<started", "<commit", "<link", "load", "<command"],
                  [[run["started"], run["commit"], f"{run['link']} ({run['link_why']})",
                    f"{run['load_average']:.2f}", Raw(f"<code>{escape(run['command'])}</code>")]
                   for run in runs])]


def verdicts(summary):
    """What the sweep says in a few lines; pairs of a claim and what was found."""
    found = []
    for key, plan in (("measured_over_plan", "the plan"),
                      ("measured_over_plan_at_speed", "the plan for CPUs as fast as they were")):
        errors = [abs(cell[key] - 1) for cell in summary if cell[key]]
        if errors:
            found.append((f"measured within 10 % of {plan}",
                          f"{sum(error <= 0.1 for error in errors)} of {len(errors)} cells; "
                          f"median {100 * statistics.median(errors):.1f} %, "
                          f"worst {100 * max(errors):.1f} %"))
    ours = [cell for cell in summary if cell["mode"] == "auto"]
    for key, what in (("measured_over_best_fixed", "the best fixed mode"),
                      ("measured_over_sophon", "remote_sophon")):
        values = [cell[key] for cell in ours if cell[key]]
        if values:
            found.append((f"remote_auto at most 3 % above {what}",
                          f"{sum(value <= 1.03 for value in values)} of {len(values)} setups; from "
                          f"{min(values):.3f} to {max(values):.3f} of it"))
    bound = [1 / cell["measured_over_sophon"] for cell in ours if cell["measured_over_sophon"]
             and network_binds(summary, records.setup_of(cell))]
    if bound:
        found.append(("remote_auto 1.5 times as fast as remote_sophon or more, where the network "
                      "binds that",
                      f"{sum(value >= 1.5 for value in bound)} of {len(bound)} setups; from "
                      f"{min(bound):.2f} to {max(bound):.2f} times as fast"))
    ratios = [over_forecast(cell) for cell, _ in where_cpus_bind(summary)]
    if ratios:
        found.append(("remote_auto as many times as fast as remote_sophon as forecast, within 10 "
                      "%, where a CPU binds that",
                      f"{sum(abs(ratio - 1) <= 0.1 for ratio in ratios)} of {len(ratios)} setups; "
                      f"{min(ratios):.2f} to {max(ratios):.2f} of the forecast"))
    spreads = [cell["plan_seconds_max"] / cell["plan_seconds_min"] - 1 for cell in summary
               if cell["plan_seconds_min"] and cell["rounds"] > 1]
    if spreads:
        found.append(("plans by the profiles of different rounds",
                      f"apart by {100 * statistics.median(spreads):.1f} % (median), at most "
                      f"{100 * max(spreads):.1f} %"))
    return found


def sophon_of(summary, setup):
    return next((cell for cell in summary
                 if cell["mode"] == "sophon" and records.setup_of(cell) == setup), None)


def network_binds(summary, setup):
    """Whether SOPHON's plan waits for the network there, by the forecast."""
    sophon = sophon_of(summary, setup)
    return bool(sophon) and sophon["plan_slowest"] == "network"


def where_cpus_bind(summary):
    """Cells of ours, each with SOPHON's, where by the forecast a node's CPU limits that."""
    pairs = [(cell, sophon_of(summary, records.setup_of(cell))) for cell in summary
             if cell["mode"] == "auto" and cell["plan_over_sophon"]]
    return [(ours, sophon) for ours, sophon in pairs
            if sophon["plan_slowest"] in ("compute_cpu", "storage_cpu")]


def over_forecast(ours):
    """How many times as fast as SOPHON's plan ours was, over what the forecasts say."""
    return ours["plan_over_sophon"] / ours["measured_over_sophon"]


def _where_cpus_bind(summary):
    pairs = where_cpus_bind(summary)
    if not pairs:
        return []
    return ["<h2>Where CPUs limit remote_sophon</h2>",
            "<p>How many times as fast remote_auto is there, by the forecasts of both and as "
            "measured.</p>",
            table(["<setup", "<limit of remote_sophon", "<of remote_auto",
                   "remote_sophon, plan s", "measured",
                   "remote_auto, plan s", "measured", "times as fast, by plan", "measured",
                   "measured / plan"],
                  [[cells.setup_text(records.setup_of(ours)), sophon["plan_slowest"],
                    ours["plan_slowest"], number(sophon["plan_seconds"], 4),
                    number(sophon["seconds"], 4), number(ours["plan_seconds"], 4),
                    number(ours["seconds"], 4), number(1 / ours["plan_over_sophon"], 2),
                    number(1 / ours["measured_over_sophon"], 2),
                    ratio(over_forecast(ours), 0.9, 1.1)] for ours, sophon in pairs])]


def _results(kept, summary):
    if not summary:
        return []
    numbers = {}
    for i, row in enumerate(kept.rows.rows):
        numbers.setdefault((records.setup_of(row), row["mode"]), []).append(i + 2)
    plans = {}
    for i, row in enumerate(kept.forecasts.rows):
        plans.setdefault((records.setup_of(row), row["mode"]), {})[row["round"]] = i + 2
    parts = ["<h2>In short</h2>", table(["<", "<"], [list(pair) for pair in verdicts(summary)]),
             "<h2>Every setup and mode</h2>",
             "<p>Seconds and bytes are those of one pass over the images, medians over the rounds; "
             "epochs during which others took more than "
             f"{percent(records.DISTURBED_SHARE)} of the cores are left out where there are better "
             "ones. Each epoch is compared with the plan of the profile that was made just before "
             "it; what stands for both is the median of the rounds. "
             "The CPUs' speed is how many times as fast as in the profile they did the same work "
             "in the epoch, beside it; the plan at it is what the planner says for that. "
             "Stalls are shares of the epoch. All of it is in "
             f"{link('cells.csv', 'cells.csv')}; the last columns lead to the lines of "
             f"{link('rows.csv', 'rows.csv')} and {link('forecast.csv', 'forecast.csv')} behind "
             "it. Red: more than 10 % off the plan, or more than 3 % above.</p>"]
    heads = ["<mode", "seconds", "least to most", "MB", "bytes a sample", "plan s", "plan's limit",
             "measured / plan", "CPUs' speed, storage", "compute", "measured / plan at it",
             "/ best fixed", "/ remote_sophon", "storage CPU s", "compute CPU s", "others' CPU s",
             "<stalls", "<choices", "<rows", "<plan"]
    for setup in dict.fromkeys(records.setup_of(cell) for cell in summary):
        rows = []
        for cell in summary:
            if records.setup_of(cell) != setup:
                continue
            key = (setup, cell["mode"])
            stalls = ", ".join(
                f"{name} {percent(cell['stall_' + name])}"
                for name in ("disk", "storage_cpu", "network", "compute_cpu", "trainer")
                if cell["stall_" + name] >= 0.005)
            is_ours = cell["mode"] == "auto"
            high = 1.03 if is_ours else float("inf")
            rows.append((' class="ours"' if is_ours else "", [
                cells.MODES[cell["mode"]].title, number(cell["seconds"], 4),
                f"{cell['seconds_min']:.4f} to {cell['seconds_max']:.4f}",
                number(cell["wire_bytes"] / 1e6, 2), number(cell["bytes_per_sample"], 0),
                number(cell["plan_seconds"], 4), cell["plan_slowest"] or "",
                ratio(cell["measured_over_plan"], 0.9, 1.1),
                number(cell["storage_speed"], 2), number(cell["compute_speed"], 2),
                ratio(cell["measured_over_plan_at_speed"], 0.9, 1.1),
                ratio(cell["measured_over_best_fixed"], 0, high),
                ratio(cell["measured_over_sophon"], 0, high),
                number(cell["storage_cpu_s"], 3), number(cell["compute_cpu_s"], 3),
                number(cell["other_cpu_s"], 3), stalls,
                cell["choices"],
                Raw(" ".join(link(f"#row-{i}", i) for i in numbers[key])),
                Raw(" ".join(link(f"#plan-{i}", i) for i in plans.get(key, {}).values()))]))
        parts += [f"<h3>{escape(cells.setup_text(setup))}, {escape(setup.link)}</h3>",
                  table(heads, rows)]
    return parts


def _more(lines):
    return ["<h2>Forecasts</h2>", "<pre>" + escape("\n".join(lines)) + "</pre>"] if lines else []


def _figures(kept, figures, why_none):
    parts = ["<h2>Figures</h2>"]
    if why_none:
        parts.append(f"<p>{escape(why_none)}.</p>")
    return parts + [report.embed(figure, kept.path("figures"), "figures/") for figure in figures]


def _openimages(kept):
    try:
        with open(kept.path("openimages.csv"), encoding="utf-8", newline="") as file:
            plans = list(csv.DictReader(file))
    except FileNotFoundError:
        return []
    return ["<h2>OpenImages, planned</h2>",
            "<p>The sizes that the original published, planned without images or runs; times are "
            f"modelled, and so are the forms that the sizes do not hold. From "
            f"{link('openimages.csv', 'openimages.csv')}.</p>",
            table(["<mode", "images", "GB", "seconds", "<limit", "<choices", "<command"],
                  [[plan["mode"], plan["samples"], f"{int(plan['wire_bytes']) / 1e9:.2f}",
                    f"{float(plan['seconds']):.1f}", plan["slowest"], plan["choices"],
                    Raw(f"<code>{escape(plan['command'])}</code>")] for plan in plans])]


def _sources(kept):
    if not kept.rows.rows:
        return []
    parts = ["<h2>Where the numbers come from</h2>"]
    try:
        with open(kept.path("profile.txt"), encoding="utf-8") as file:
            parts.append("<p>The plans are made from the folders in profiles/, which these "
                         "commands made: each node measured on its own cores, over the link "
                         "between them; op times and forms are in prep_times.csv and "
                         "prep_forms.csv, and what was fitted to them in cost_model.json.</p>" +
                         "".join(f"<p><code>{escape(line)}</code></p>"
                                 for line in file.read().splitlines()))
    except FileNotFoundError:
        pass
    parts += [f"<h3>{link('rows.csv', 'rows.csv')}: measured epochs, by line</h3>", table(
        ["line", "<setup", "<mode", "round", "passes", "seconds", "wire bytes", "<digest",
         "errors", "others' CPU s", "<commit", "<date", "<commands"],
        [(f' id="row-{i + 2}"', [
            i + 2, f"{cells.setup_text(records.setup_of(row))}, {row['link']}",
            cells.MODES[row["mode"]].title,
            row["round"], row["repeat"], f"{row['seconds']:.4f}", row["wire_bytes"],
            Raw(f"<code>{row['digest']}</code>"), row["errors"], f"{row['other_cpu_s']:.2f}" +
            (", disturbed" if records.is_disturbed(row) else ""), row["commit"], row["date"],
            Raw(f"<details><summary>show</summary><code>{escape(row['command'])}</code></details>")
        ]) for i, row in enumerate(kept.rows.rows)])]
    parts += [f"<h3>{link('forecast.csv', 'forecast.csv')}: plans, by line</h3>", table(
        ["line", "<setup", "<mode", "round", "seconds", "wire bytes", "<limit", "<commit",
         "<command"],
        [(f' id="plan-{i + 2}"', [
            i + 2, f"{cells.setup_text(records.setup_of(row))}, {row['link']}",
            cells.MODES[row["mode"]].title,
            row["round"], f"{row['seconds']:.4f}", row["wire_bytes"], row["slowest"], row["commit"],
            Raw(f"<details><summary>show</summary><code>{escape(row['command'])}</code></details>")
        ]) for i, row in enumerate(kept.forecasts.rows)])]
    return parts


def write(kept, summary, figures, why_no_figures, more_lines):
    """more_lines: text that is shown as it is."""
    digests = len({(row["repeat"], row["round"]) for row in kept.rows.rows})
    parts = []
    if kept.rows.rows:
        parts.append(f"<p>{len(kept.rows.rows)} epochs measured in {len(summary)} cells. Every "
                     "mode delivered the same data: epochs of equal draws have equal digests "
                     f"({digests} different draws).</p>")
    parts += _machine(kept) + _results(kept, summary) + _where_cpus_bind(summary) + \
        _more(more_lines) + \
        _figures(kept, figures, why_no_figures) + _openimages(kept) + _sources(kept)
    path = kept.path("index.html")
    report.write_page(path, "Preprocessing near the storage: a sweep", parts)
    return path
