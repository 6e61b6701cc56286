"""A strict reader of Prometheus' text format 0.0.4: what it accepts, every scraper does.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""
import math
import re
import shutil
import subprocess
import urllib.error
import urllib.request

TIMEOUT_S = 120
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
TYPES = {"counter", "gauge", "histogram"}


class Bad(Exception):
    pass


def get(port, path):
    """(status, headers, body as bytes) of a GET."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=TIMEOUT_S) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def unescape(text):
    out, i = "", 0
    while i < len(text):
        if text[i] == "\\":
            i += 1
            if text[i:i + 1] not in ("\\", '"', "n"):
                raise Bad(f"escape in {text!r}")
            out += "\n" if text[i] == "n" else text[i]
        else:
            out += text[i]
        i += 1
    return out


def labels_of(text):
    """{name: value} of what stands between the braces."""
    labels, rest = {}, text
    while rest:
        name = LABEL.match(rest)
        value = re.match(r'="((?:[^"\\]|\\.)*)"(,|$)', rest[name.end():] if name else "")
        if not value or name[0] in labels:
            raise Bad(f"labels {text!r}")
        labels[name[0]] = unescape(value[1])
        rest = rest[name.end() + value.end():]
        if value[2] and not rest:
            raise Bad(f"labels {text!r}")
    return labels


def sample_of(line):
    """(name, labels, value)"""
    match = re.fullmatch(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[^"{}]|"(?:[^"\\]|\\.)*")*)\})? (\S+)',
                         line)
    if not match:
        raise Bad(f"line {line!r}")
    return match[1], labels_of(match[2] or ""), float(match[3])


class Family:
    def __init__(self, name, help_text):
        self.name, self.help, self.type, self.samples = name, help_text, None, []

    def values(self, suffix=""):
        """{labels as a frozenset: value}"""
        return {frozenset(labels.items()): value for name, labels, value in self.samples
                if name == self.name + suffix}

    def add(self, name, labels, value):
        suffixes = ("_bucket", "_sum", "_count") if self.type == "histogram" else ("",)
        if name not in [self.name + suffix for suffix in suffixes]:
            raise Bad(f"{name} within {self.name}")
        if any((name, labels) == sample[:2] for sample in self.samples):
            raise Bad(f"{name}{labels} twice")
        if self.type == "counter" and not value >= 0:
            raise Bad(f"{name} is {value}")
        self.samples.append((name, labels, value))

    def check_buckets(self):
        series = {}
        for labels, value in self.values("_bucket").items():
            bound = float(dict(labels)["le"])
            series.setdefault(labels - {("le", dict(labels)["le"])}, []).append((bound, value))
        for labels, buckets in series.items():
            bounds, counts = zip(*buckets)
            if list(bounds) != sorted(set(bounds)) or bounds[-1] != math.inf:
                raise Bad(f"{self.name}: bounds {bounds}")
            if list(counts) != sorted(counts) or counts[-1] != self.values("_count")[labels]:
                raise Bad(f"{self.name}: counts {counts}")
            if self.values("_sum")[labels] < 0:
                raise Bad(f"{self.name}: a sum below 0")


def check_name(family):
    if not re.fullmatch(r"sluice_[a-z0-9_]+", family.name):
        raise Bad(f"name {family.name}")
    if (family.type == "counter") != family.name.endswith("_total"):
        raise Bad(f"{family.name} is a {family.type}")
    if re.search(r"_(ms|us|ns|kb|mb|minutes|hours|percent|count|sum|bucket)(_|$)", family.name):
        raise Bad(f"unit of {family.name}")
    if family.type == "histogram" and not family.name.endswith("_seconds"):
        raise Bad(f"unit of {family.name}")


def parse(page):
    """{name: Family} of a page, in bytes.  Bad if it breaks a rule of the format, or one of ours."""
    text = page.decode("utf-8", "strict")
    if text and not text.endswith("\n"):
        raise Bad("no newline at the end")
    families, last = {}, None
    for line in text.split("\n")[:-1]:
        words = line.split(" ", 3)
        if words[:2] == ["#", "HELP"]:
            if words[2] in families or not NAME.fullmatch(words[2]):
                raise Bad(f"a second {words[2]}")
            last = families[words[2]] = Family(words[2], words[3])
        elif words[:2] == ["#", "TYPE"]:
            if words[2] != last.name or last.type or last.samples or words[3] not in TYPES:
                raise Bad(f"line {line!r}")
            last.type = words[3]
        else:
            last.add(*sample_of(line))
    for family in families.values():
        check_name(family)
        if family.type == "histogram":
            family.check_buckets()
    return families


def scrape(port):
    status, headers, page = get(port, "/metrics")
    if status != 200 or headers["Content-Type"] != "text/plain; version=0.0.4; charset=utf-8":
        raise Bad(f"{status} {headers}")
    return parse(page)


def promtool():
    """Prometheus' own checker; None where it is not installed (Debian's package prometheus)."""
    return shutil.which("promtool")


def lint(page):
    """What promtool says of a page: an empty text is good."""
    checked = subprocess.run([promtool(), "check", "metrics"], input=page, capture_output=True,
                             check=False)
    said = (checked.stdout + checked.stderr).decode()
    return said or ("" if checked.returncode == 0 else f"exit code {checked.returncode}")
