"""Engines: what runs jobs.  find("local") is this machine.

An engine is a module of this folder, named after it, with a class Engine.  It renders a job to the
files that it would submit, submits it, and passes on what a person wants done with it.  Whatever
happens goes into the job's record (store.py): the ten steps, states, and their times.
"""
import abc
import importlib

from .. import JobError

NAMES = ("local", "slurm", "kubernetes")
PAUSES = ("freeze", "checkpoint")


class Base(abc.ABC):
    """One engine.  Methods raise JobError with what to change."""

    @abc.abstractmethod
    def check(self, job):
        """Raises JobError, with the field, if this engine cannot run the job; returns warnings."""

    @abc.abstractmethod
    def render(self, job):
        """{file name: text} of what submit() would submit."""

    @abc.abstractmethod
    def submit(self, job, store):
        """Starts the job, or puts it into the engine's queue; returns its Record."""

    @abc.abstractmethod
    def state(self, record):
        """One of store.STATES: what is recorded, checked against what the engine knows now."""

    @abc.abstractmethod
    def logs(self, record, role=None, follow=False):
        """(role, line) of all roles or one, as text; with follow until the job has ended."""

    @abc.abstractmethod
    def pause(self, record, kind):
        """Kind "freeze": the job keeps its memory and its place.  Kind "checkpoint": it writes one,
        ends, and gives everything back."""

    @abc.abstractmethod
    def resume(self, record):
        """A paused or lost job goes on."""

    @abc.abstractmethod
    def cancel(self, record):
        """Ends the job; nothing of it is left when this returns."""

    @abc.abstractmethod
    def exec(self, record, role, argv):
        """Runs a command where a role runs, with this process's terminal; returns its exit code."""


def refuse_claims(job):
    """JobError for a PersistentVolumeClaim, which engine kubernetes alone mounts."""
    roots = [("data", root) for shard in (job.data.roots if job.data else []) for _, root in shard]
    for field, path in [("outputs", job.outputs), ("code", job.code), *roots]:
        if path and path.startswith("pvc://"):
            raise JobError(f"{field}: {path} is a claim of engine kubernetes; give a folder")


def find(name):
    """The engine with this name."""
    if name not in NAMES:
        raise JobError(f"no engine {name!r}: {', '.join(NAMES)}")
    try:
        module = importlib.import_module(f".{name}", __name__)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        raise JobError(f"engine {name} is not part of this build") from None
    return module.Engine()
