"""What became of each job: a file of events, which survives kill -9 at any byte.

$SLUICE_JOBS (~/.local/share/sluice/jobs) has for each job ID

    ID.jsonl    events, one JSON object a line, only ever appended to; the first has the job itself
    ID/         its logs, outputs if the job names none, and `lock`, which its supervisor holds

An event that was not written whole, as when its writer was killed, is dropped: readers skip it and
the next writer cuts it off.  An event is on disk before append() returns, so whoever acts after it
can rely on it.  Several processes may append.

    submitted -> queued -> starting -> running <-> paused
                                |         |-> succeeded, failed, cancelled
    lost: it was starting or running, and nobody holds its lock: its supervisor was killed.
"""
import fcntl
import json
import os
import re
import secrets
import struct
import time

from . import JobError, model

# The life of a job, step by step; each ends with an outcome: done, skipped or failed.
STEPS = {
    "image": "the image is made",
    "upload": "image, code and data are where the nodes reach them",
    "submit": "the job is handed over",
    "queue": "it waits for its turn",
    "schedule": "nodes are chosen",
    "pull": "the image is fetched",
    "mount": "data, code and outputs are mounted",
    "limit": "limits and isolation are set",
    "run": "the roles run",
    "release": "everything is given back",
}
OUTCOMES = ("done", "skipped", "failed")
ENDED = ("succeeded", "failed", "cancelled")
STATES = ("submitted", "queued", "starting", "running", "paused", "lost") + ENDED
_FLOCK = "hhqqi4x"  # struct flock: type, whence, start, length, pid
_WHOLE_FILE = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
ID = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")


def default_folder():
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.environ.get("SLUICE_JOBS") or os.path.join(data, "sluice/jobs")


def _parse_events(data):
    """Whole events of a file's bytes."""
    events = []
    for line in data.split(b"\n")[:-1]:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return events


class Record:
    """One job of a store."""

    def __init__(self, folder, id):
        self.id = id
        self.file = os.path.join(folder, f"{id}.jsonl")
        self.folder = os.path.join(folder, id)

    def __repr__(self):
        return f"<job {self.id}>"

    def path(self, name):
        return os.path.join(self.folder, name)

    def log_path(self, role):
        return self.path(f"{role}.log")

    # --- events ---

    def append(self, event, **fields):
        """Adds an event, {"time", "event", fields}; on disk when it returns."""
        line = json.dumps({"time": round(time.time(), 6), "event": event, **fields}, separators=(",", ":")).encode()
        with open(self.file, "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                if file.read(1) != b"\n":  # a writer was killed
                    file.seek(0)
                    size = file.read().rfind(b"\n") + 1
                    file.truncate(size)
            file.seek(size)
            rest = memoryview(line + b"\n")
            while rest:
                rest = rest[file.write(rest):]
            os.fsync(file.fileno())

    def step(self, step, outcome, text=""):
        assert step in STEPS and outcome in OUTCOMES, (step, outcome)
        self.append("step", step=step, outcome=outcome, text=text)

    def state_is(self, state, **fields):
        assert state in STATES and state != "lost", state
        self.append("state", state=state, **fields)

    def events(self):
        try:
            with open(self.file, "rb") as file:
                return _parse_events(file.read())
        except FileNotFoundError:
            raise JobError(f"no job {self.id!r}; offload_job list shows them") from None

    # --- what follows from them ---

    def job(self):
        return model.from_dict(self.events()[0]["job"])

    def engine(self):
        return self.events()[0]["engine"]

    def last(self, event="state", **fields):
        """The last event of a kind with these values, or {}."""
        for found in reversed(self.events()):
            if found["event"] == event and all(found.get(name) == value for name, value in fields.items()):
                return found
        return {}

    def recorded_state(self):
        """The state that was written last; the engine knows whether it still holds."""
        return self.last().get("state", "submitted")

    def attempts(self):
        """How often it was started."""
        return max((event["attempt"] for event in self.events() if "attempt" in event), default=0)

    def steps(self):
        """{step: its last event}, in the order of STEPS."""
        found = {event["step"]: event for event in self.events() if event["event"] == "step"}
        return {step: found[step] for step in STEPS if step in found}

    def summary(self):
        """{"id", "name", "engine", "submitted", "attempts"}; the state is the engine's to tell."""
        events = self.events()
        return {"id": self.id, "name": events[0]["job"]["fields"]["name"], "engine": events[0]["engine"],
                "submitted": events[0]["time"], "attempts": self.attempts()}

    def whole(self):
        """summary(), with the job, its steps and all further events."""
        events = self.events()
        return {**self.summary(), "job": events[0]["job"], "steps": self.steps(), "events": events[1:]}

    # --- one at a time ---

    def run_lock(self):
        """The file that whoever runs the job holds open and locked, until its process ends; JobError if
        another does.  A process that inherits the file holds the lock, too."""
        file = open(self.path("lock"), "r+b" if os.path.exists(self.path("lock")) else "w+b")
        try:
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, _WHOLE_FILE)
        except (BlockingIOError, PermissionError):
            file.close()
            raise JobError(f"job {self.id} runs already") from None
        return file

    def is_held(self):
        """Whether a process runs the job at this moment.  Asks without taking the lock."""
        try:
            with open(self.path("lock"), "rb") as file:
                answer = fcntl.fcntl(file, fcntl.F_OFD_GETLK, _WHOLE_FILE)
        except FileNotFoundError:
            return False
        return struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK

    def begin_attempt(self, **fields):
        """The number of the attempt that starts, once: for whoever holds run_lock().  JobError if the
        job has ended, so that no attempt follows a success or a cancel."""
        state = self.recorded_state()
        if state in ENDED:
            raise JobError(f"job {self.id} has {state}" if state != "cancelled" else f"job {self.id} is cancelled")
        number = self.attempts() + 1
        self.state_is("starting", attempt=number, **fields)
        return number


class Store:
    """The jobs of a folder, which is made when the first is submitted."""

    def __init__(self, folder=None):
        self.folder = os.path.abspath(folder or default_folder())

    def create(self, job, engine):
        """A new record with state submitted."""
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        while True:
            record = Record(self.folder, f"{job.name}-{secrets.token_hex(3)}")
            try:
                os.mkdir(record.folder, mode=0o700)
                os.close(os.open(record.file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            except FileExistsError:
                continue
            record.append("job", id=record.id, engine=engine, job=job.to_dict())
            return record

    def find(self, id):
        """The job with this id, or the only one whose id begins so."""
        if not ID.fullmatch(id):
            raise JobError(f"{id!r} is not the id of a job")
        ids = [record.id for record in self.records()]
        found = [id] if id in ids else [one for one in ids if one.startswith(id)]
        if len(found) != 1:
            raise JobError(f"{'several jobs begin with' if found else 'no job'} {id!r} in {self.folder}"
                           + (f": {', '.join(found[:5])}" if found else ""))
        return Record(self.folder, found[0])

    def records(self):
        """All jobs, the oldest first.  A job whose first event was not written whole never was one."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        found = []
        for name in names:
            if name.endswith(".jsonl") and ID.fullmatch(name[:-6]):
                record = Record(self.folder, name[:-6])
                events = record.events()
                if events and events[0]["event"] == "job":
                    found.append((events[0]["time"], record.id, record))
        return [record for _, _, record in sorted(found, key=lambda one: one[:2])]
