"""What a sweep is made of: modes, machines and the cells that they span."""
import collections
import re

Mode = collections.namedtuple("Mode", "name title flags planner is_cold is_replanned",
                              defaults=(False, False))

# name: in the records, where it stays as it was; title: what everybody reads; planner: the line of
# `offload_profile whatif` that forecasts the mode, if there is one; is_cold: it is not given the
# profile; is_replanned: what it chooses follows what the machines do.
MODES = {mode.name: mode for mode in (
    Mode("no-off", "remote_nooff", ("--dataset-mode", "remote_nooff"), "nooff"),
    Mode("all-off", "remote_alloff", ("--dataset-mode", "remote_alloff"), "alloff"),
    Mode("resize-off", "remote_piloff", ("--dataset-mode", "remote_piloff"), "piloff"),
    Mode("sophon", "remote_sophon", ("--dataset-mode", "remote_sophon"), "greedy"),
    Mode("auto", "remote_auto", ("--dataset-mode", "remote_auto"), "lp", False, True),
    Mode("cold", "remote_auto, no profile", ("--dataset-mode", "remote_auto"), "lp", True, True),
    Mode("static", "remote_auto, plan kept",
         ("--dataset-mode", "remote_auto", "--no-replan"), "lp"),
    Mode("crop", "lossless crop for every file",
         ("--dataset-mode", "remote_nooff", "--remote-form", "jpeg_crop"), None),
    Mode("packed", "packed pixels for every file",
         ("--dataset-mode", "remote_piloff", "--remote-form", "u8_packed"), None),
)}
DEFAULT_MODES = ("no-off", "all-off", "resize-off", "sophon", "auto", "static")
# What --modes takes, too.
ALIASES = {MODES[name].title: name
           for name in ("no-off", "all-off", "resize-off", "sophon", "auto")}
FIXED_MODES = ("no-off", "all-off", "resize-off", "crop", "packed")

# One pair of machines and the link between them; cores may be parts of one; consume_rate: samples a
# second that the trainer takes, 0 for as they come.
Setup = collections.namedtuple("Setup", "link mbit storage_cores compute_cores consume_rate")

UNITS = {"": 1, "kbit": 1e-3, "mbit": 1, "gbit": 1e3}


def parse_mbit(text):
    """"500mbit", "10gbit" or a number of Mbit/s; raises ValueError."""
    match = re.fullmatch(r"([0-9.]+)([kmg]bit)?", text.strip().lower())
    value = float(match.group(1)) * UNITS[match.group(2) or ""] if match else 0
    if value <= 0:
        raise ValueError(f"{text!r} is no bandwidth such as 500mbit")
    return value


def mbit_text(mbit):
    return f"{mbit / 1000:g} Gbit/s" if mbit >= 1000 else f"{mbit:g} Mbit/s"


def setup_text(setup):
    trainer = f", trainer {setup.consume_rate:g}/s" if setup.consume_rate else ""
    return (f"{mbit_text(setup.mbit)}, {setup.storage_cores:g} storage and "
            f"{setup.compute_cores:g} compute cores{trainer}")


def setups_of(link, bandwidths, storage_cores, compute_cores, consume_rates):
    """Every combination, the fastest first: an early end leaves the more telling part."""
    return [Setup(link, mbit, storage, compute, rate)
            for rate in consume_rates for compute in compute_cores for storage in storage_cores
            for mbit in sorted(bandwidths, reverse=True)]


def one_at_a_time(link, bandwidths, storage_cores, compute_cores, consume_rates):
    """The machine of the firsts, then those that differ from it in one thing."""
    base = Setup(link, bandwidths[0], storage_cores[0], compute_cores[0], consume_rates[0])
    others = {"mbit": bandwidths, "storage_cores": storage_cores, "compute_cores": compute_cores,
              "consume_rate": consume_rates}
    return [base] + [base._replace(**{field: value})
                     for field, values in others.items() for value in values[1:]]
