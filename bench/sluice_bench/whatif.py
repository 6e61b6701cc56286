"""How far the forecasts of `offload_profile whatif` are from epochs on such machines."""
import statistics

from . import cells, records, reproduce

LIMITS = (("mbit", "net-bw"), ("storage_cores", "remote-cpus"), ("compute_cores", "local-cpus"),
          ("consume_rate", "gpu-rate"))


def error_text(found, key="measured_over_plan"):
    errors = [abs(cell[key] - 1) for cell in found if cell[key]]
    if not errors:
        return "not known"
    return (f"{len(errors):>5} {100 * statistics.median(errors):9.1f} % {100 * max(errors):9.1f} % "
            f"{sum(error <= 0.1 for error in errors):>5} of {len(errors)}")


def limit_lines(planned):
    """Whether epochs were put down to what was forecast to be their limit, or to nearly that."""
    shares = [cell["plan_share"] for cell in planned]
    same = sum(share >= 0.999 for share in shares)
    near = sum(0.9 <= share < 0.999 for share in shares)
    others = [f"{cells.setup_text(records.setup_of(cell))}, "
              f"{cells.MODES[cell['mode']].title}: {cell['bound_by']}, "
              f"forecast busy for {100 * cell['plan_share']:.0f} % of the time, not "
              f"{cell['plan_slowest']}" for cell in planned if cell["plan_share"] < 0.9]
    return [f"epochs put down to the limit of the forecast: {same} of {len(planned)}, to what is "
            f"busy for 90 % of the time of it: {near}", *others]


def lines(summary):
    """The error over the cells where a limit took each of its values, and over those that each
    resource was forecast to limit; and whether epochs were put down to that."""
    planned = [cell for cell in summary if cell["measured_over_plan"]]
    if not planned:
        return []
    groups = [("all", planned)]
    for field, name in LIMITS:
        values = sorted({cell[field] for cell in planned})
        if len(values) > 1:
            groups += [(f"--{name} {value:g}", [cell for cell in planned if cell[field] == value])
                       for value in values]
    groups += [(f"limit: {slowest}", [cell for cell in planned if cell["plan_slowest"] == slowest])
               for slowest in dict.fromkeys(cell["plan_slowest"] for cell in planned)]
    return [f"{'whatif against epochs':<24} {'cells':>5} {'median':>11} {'worst':>11} "
            f"{'within 10 %':>12}"] + \
        [f"{name:<24} {error_text(found)}" for name, found in groups] + \
        [f"{'all, at the CPUs speed':<24} {error_text(planned, 'measured_over_plan_at_speed')}"] + \
        limit_lines(planned)


WHATIF = reproduce.Program(
    "bench/whatif",
    "Runs epochs on the machine that the first bandwidth, cores and pace name, and on those that "
    "differ from it in one of them, and says how far `offload_profile whatif` was off.",
    cells.one_at_a_time, lambda setups, setup: setups[0], lines)


def main(arguments=None):
    return reproduce.main(arguments, WHATIF)
