"""Sizes, times and rates as the programs' options take them."""
import re

_SIZES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40,
          "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
          "kb": 10 ** 3, "mb": 10 ** 6, "gb": 10 ** 9, "tb": 10 ** 12}
_TIMES = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _parse(text, units, what, example):
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", str(text).strip())
    if not match or match[2].lower() not in units:
        raise ValueError(f"{text!r} is not a {what}, as {example}")
    value = float(match[1]) * units[match[2].lower()]
    if not 0 < value < 2 ** 53:
        raise ValueError(f"{text!r} is not a {what} above 0")
    return value


def size(text):
    """Bytes of 65536, 64KiB, 2GB (powers of 1000), 2g (powers of 1024)."""
    return int(_parse(text, _SIZES, "size", "512MiB or 2GB"))


def duration(text):
    """Seconds of 90, 500ms, 90s, 2m, 1.5h, 2d."""
    return _parse(text, _TIMES, "time", "90s, 30m or 12h")


def size_text(num_bytes):
    """The shortest text that size() reads as these bytes."""
    for unit in ("TiB", "GiB", "MiB", "KiB", "TB", "GB", "MB", "kB"):
        if num_bytes % _SIZES[unit.lower()] == 0:
            return f"{num_bytes // _SIZES[unit.lower()]}{unit}"
    return str(num_bytes)


def duration_text(seconds):
    """1h 2m, 2m 5s, 4.2s."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes}m" if hours else f"{minutes}m {seconds}s"
