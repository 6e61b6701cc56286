"""Resources, numbers and lines as sluice.doctor prints them."""
import re
import textwrap

WIDTH = 80
NAMES = {"disk": "disk", "storage_cpu": "storage CPU", "network": "network",
         "compute_cpu": "compute CPU", "receive": "receiving", "pcie": "PCIe", "gpu": "step",
         "trainer": "step"}
WAITS = {**NAMES, "gpu": "GPU decoder", "python_tail": "python_tail"}  # of an epoch's stalls


# --- words ---

def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def cores(count, node):
    return f"{count:g} {node} core{'s' * (count != 1)}"


def percent(share):
    return f"{100 * share:.0f} %"


def _scaled(value, *units):
    """In the first unit of which there is one, or else in the last."""
    factor, unit = next((u for u in units if value * u[0] >= 1), units[-1])
    return f"{number(value * factor)} {unit}"


def seconds(value):
    return _scaled(value, (1, "s"), (1e3, "ms"), (1e6, "us"))


def size(count):
    return _scaled(count, (1e-9, "GB"), (1e-6, "MB"), (1e-3, "kB"), (1, "B"))


def wrap(text):
    """Lines; a number stays with its unit."""
    lines = textwrap.wrap(re.sub(r"(\d) ", "\\1\0", text), WIDTH - 1, break_long_words=False,
                          break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]
