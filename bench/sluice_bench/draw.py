"""What is made of the records: cells.csv, figures, the page, and the table on the terminal."""
from . import cells, figures, page, records


def table_lines(summary):
    lines = [f"{'setup':<46} {'mode':<23} {'s a pass':>9} {'plan':>9} {'ratio':>6} "
             f"{'speeds':>9} {'ratio':>6} {'/fixed':>6} {'/sophon':>7} {'B/sample':>9}"]
    for cell in summary:
        setup = cells.setup_text(records.setup_of(cell))
        title = cells.MODES[cell["mode"]].title
        columns = [f"{cell['seconds']:9.4f}"]
        for key, width, digits in (("plan_seconds", 9, 4), ("measured_over_plan", 6, 3),
                                   ("storage_speed", 4, 2), ("compute_speed", 4, 2),
                                   ("measured_over_plan_at_speed", 6, 3),
                                   ("measured_over_best_fixed", 6, 3),
                                   ("measured_over_sophon", 7, 3)):
            value = cell[key]
            columns.append(f"{value:{width}.{digits}f}" if value is not None else " " * width)
        lines.append(f"{setup:<46} {title:<23} {' '.join(columns)} "
                     f"{cell['bytes_per_sample']:9.0f}")
    return lines


def draw(folder, more_lines):
    """Makes everything anew; lines to print, with those that more_lines makes of the cells."""
    kept = records.Records(folder)
    kept.check_digests()
    summary = records.summarize(kept)
    lines, more = [], []
    if summary:
        records.write_cells(kept, summary)
        lines += table_lines(summary)
        lines += [f"{claim}: {found}" for claim, found in page.verdicts(summary)]
        more = more_lines(summary)
        lines += more
    drawn, why_not = figures.draw(kept, summary)
    if why_not:
        lines.append(why_not)
    lines.append(f"page: {page.write(kept, summary, drawn, why_not, more)}")
    return lines
