"""The REST of `offload_job serve`: what openapi.json describes, as functions of a Call.

serve.py does HTTP and checks who asks.  A function here returns (status, value as JSON), Lines, or
Follow, and raises Refused, SpecError or JobError.
"""
import itertools
import os
import re
import threading
from dataclasses import dataclass, field

from . import JobError, engines, figures, spec, store

MAX_LINES = 10000  # of an answer that does not follow


class Refused(Exception):
    """An answer with this status and words."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


@dataclass
class Lines:
    """(role, line) as text: a line each."""
    lines: list
    has_role: bool


@dataclass
class Follow:
    """What `offload_job logs -f` prints, without the first lines."""
    id: str
    role: str
    skip: int


class Engines:
    """One engine of each name, which remembers what its cluster said last.  Any thread may ask for states."""

    def __init__(self):
        self.lock = threading.Lock()
        self.known = {}  # name: (engine, a lock)

    def find(self, name):
        return self._entry(name)[0]

    def state(self, record):
        engine, lock = self._entry(record.engine())
        with lock:  # a change is recorded once
            return engine.state(record)

    def _entry(self, name):
        with self.lock:
            if name not in self.known:
                self.known[name] = (engines.find(name), threading.Lock())
            return self.known[name]


@dataclass
class Call:
    """One request: what serves, and what the path, the query and the body say."""
    store: store.Store
    engines: Engines
    figures: figures.Figures
    id: str = ""
    query: dict = field(default_factory=dict)
    body: dict = field(default_factory=dict)

    def record(self):
        try:
            return self.store.find(self.id)
        except JobError as error:
            raise Refused(404, str(error)) from None

    def number(self, name):
        text = self.query.get(name, "0")
        if not re.fullmatch(r"[0-9]{1,9}", text):
            raise Refused(400, f"{name}: {text[:40]!r} is not a number from 0 to 999999999")
        return int(text)

    def text(self, name, default=None, one_of=()):
        value = self.body.get(name, default)
        if not isinstance(value, str):
            raise Refused(400, f"{name}: is a text that has to be given")
        if one_of and value not in one_of:
            raise Refused(400, f"{name}: {value[:40]!r} is not one of {', '.join(one_of)}")
        return value


def _job_of(call):
    folder = call.text("folder")
    if not os.path.isabs(folder) or "\0" in folder or not os.path.isdir(folder):
        raise Refused(400, f"folder: {folder[:200]!r} is not the absolute path of a folder here")
    return spec.parse(call.text("text"), "job.yaml", folder)


def _row(call, record):
    row = record.summary()
    try:
        return {**row, "state": call.engines.state(record)}
    except JobError as error:
        return {**row, "state": record.recorded_state(), "problem": str(error)}


# --- the routes ---

def list_jobs(call):
    return 200, {"jobs": [_row(call, record) for record in call.store.records()]}


def submit(call):
    engine = call.engines.find(call.text("engine", "local", engines.NAMES))
    job = _job_of(call)
    warnings = engine.check(job)
    return 201, {"id": engine.submit(job, call.store).id, "warnings": list(warnings or ())}


def validate(call):
    try:
        job = _job_of(call)
    except spec.SpecError as error:
        return 200, {"problems": problems(error)}
    return 200, {"problems": [], "name": job.name}


def show(call):
    record = call.record()
    return 200, {**record.whole(), **_row(call, record)}


def events(call):
    first = call.number("from")
    found = call.record().events()
    return 200, {"events": found[first:], "next": len(found)}


def logs(call):
    record, role, first = call.record(), call.query.get("role", ""), call.number("from")
    if role and not store.ID.fullmatch(role):
        raise Refused(400, f"role: {role[:40]!r} is not the name of a role")
    if first and not role:
        raise Refused(400, "from: needs role, as the lines of several roles have no order of their own")
    follow = call.query.get("follow", "0")
    if follow not in ("0", "1"):
        raise Refused(400, "follow: 0 or 1")
    if follow == "1":
        return Follow(record.id, role, first)
    lines = call.engines.find(record.engine()).logs(record, role or None)
    return Lines(list(itertools.islice(lines, first, first + MAX_LINES)), bool(role))


def look(call):
    record = call.record()
    state = call.engines.state(record)
    return 200, call.figures.of(record) if state == "running" else figures.none(f"the state of the job is {state}")


def _control(call, act):
    record = call.record()
    act(call.engines.find(record.engine()), record)
    return 200, {"id": record.id, "state": call.engines.state(record)}


def pause(call):
    kind = call.text("kind", "checkpoint", engines.PAUSES)
    return _control(call, lambda engine, record: engine.pause(record, kind))


def resume(call):
    return _control(call, lambda engine, record: engine.resume(record))


def cancel(call):
    return _control(call, lambda engine, record: engine.cancel(record))


def problems(error):
    """The mistakes of a SpecError as JSON."""
    return [{"line": one.line, "column": one.column, "field": one.field, "text": one.text} for one in error.problems]


BASE = "/api/v1"
# Method, path, function, names in the query, names in the body.
ROUTES = (
    ("GET", "/jobs", list_jobs, (), ()),
    ("POST", "/jobs", submit, (), ("text", "folder", "engine")),
    ("POST", "/validate", validate, (), ("text", "folder")),
    ("GET", "/jobs/{id}", show, (), ()),
    ("GET", "/jobs/{id}/events", events, ("from",), ()),
    ("GET", "/jobs/{id}/logs", logs, ("role", "from", "follow"), ()),
    ("GET", "/jobs/{id}/figures", look, (), ()),
    ("POST", "/jobs/{id}/pause", pause, (), ("kind",)),
    ("POST", "/jobs/{id}/resume", resume, (), ()),
    ("POST", "/jobs/{id}/cancel", cancel, (), ()),
)
_PATHS = tuple((re.compile(BASE + path.replace("{id}", f"({store.ID.pattern})")), method, function, query, body)
               for method, path, function, query, body in ROUTES)


def find(method, path):
    """(function, id, names of the query, names of the body); else raises Refused."""
    allowed = []
    for pattern, of, function, query, body in _PATHS:
        match = pattern.fullmatch(path)
        if match and of == method:
            return function, match[1] if match.groups() else "", query, body
        allowed += [of] if match else []
    raise Refused(405, f"here is {', '.join(allowed)}") if allowed else Refused(404, "nothing is here; see openapi.json")
