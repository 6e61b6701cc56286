"""Base of the engines that hand a job to a cluster.  No process of ours watches it there, so whoever looks at a job
brings its record up to date."""
import abc
import os
import subprocess
import time
from typing import NamedTuple, Optional

from .. import JobError, store
from . import PAUSES, Base

LOOK_S = 1.0  # the cluster is asked no more often
GONE_S = 10.0  # a cluster may not show a new job at once


class Look(NamedTuple):
    """What the cluster says of a job; state None: it does not know it."""
    state: Optional[str]
    text: str = ""
    nodes: str = ""


def run(*words, check=True, program=None, unknown=None):
    """Standard output of a command of the cluster; "" if it fails and `check` is false, or says `unknown`."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        if not check:
            return ""
        raise JobError(f"no program {words[0]} on PATH: run offload_job where {program or words[0]} is installed and "
                       f"set up") from None
    if check and done.returncode and not (unknown and unknown in done.stderr):
        raise JobError(f"{words[0]}: {done.stderr.strip()[-1000:] or done.stdout.strip()[-1000:]}")
    return done.stdout if done.returncode == 0 else ""


class Remote(Base):
    """An engine that hands jobs to a cluster."""
    name = ""

    def __init__(self):
        self.looked = {}  # id: (time, state)

    # --- of each cluster ---

    @abc.abstractmethod
    def start(self, record):
        """Hands the job over; returns words."""

    @abc.abstractmethod
    def look(self, record):
        """A Look."""

    @abc.abstractmethod
    def prepared(self, job):
        """{step: (outcome, words)} of pull, mount and limit."""

    @abc.abstractmethod
    def stop(self, record):
        """The job ends, and nothing of it is left."""

    @abc.abstractmethod
    def ask_for_checkpoint(self, record):
        """The training writes a checkpoint; the job ends."""

    def freeze(self, record, is_frozen):
        raise JobError(f"engine {self.name} cannot freeze a job; pause it with --kind checkpoint")

    # --- one for all ---

    def refuse(self, job, *pairs):
        """JobError for what this engine cannot do: (field, whether it is there, words)."""
        for field, is_there, text in (("lend", job.lend, f"engine {self.name} does not lend"),
                                      ("compute.borrow", job.compute.borrow, f"engine {self.name} does not borrow"),
                                      *pairs):
            if is_there:
                raise JobError(f"{field}: {text}")

    def begins_anew(self, job):
        """Raises JobError if the job would overwrite a checkpoint that can be seen from here."""
        checkpoint = job.outputs and os.path.join(job.path(job.outputs), job.checkpoint.file)
        if checkpoint and os.path.exists(checkpoint) and not job.checkpoint.resume:
            raise JobError(f"outputs: {checkpoint} is there already, and the job would go on from it; move it away, name "
                           f"another folder, or say checkpoint: {{resume: true}} if that is meant")

    def submit(self, job, store):
        warnings = self.check(job)
        self.begins_anew(job)
        record = store.create(job, self.name)
        for text in warnings:
            record.append("warning", text=text)
        record.step("image", "skipped", "images are made elsewhere, by podman build")
        record.step("upload", "skipped", "the nodes reach image, code and data themselves")
        self._hand_over(record)
        return record

    def _hand_over(self, record):
        is_first = record.attempts() == 0
        with record.run_lock():
            record.begin_attempt()
            try:
                text = self.start(record)
            except JobError as error:
                record.step("submit", "failed", str(error))
                if is_first:
                    record.state_is("failed", text=str(error))
                else:
                    record.state_is("paused", kind="checkpoint", text=str(error))
                raise
            record.step("submit", "done", text)
            record.state_is("queued", text=text)

    def state(self, record):
        when, known = self.looked.get(record.id, (None, None))
        if when is not None and time.monotonic() - when < LOOK_S:
            return known
        found = self._state(record)
        self.looked[record.id] = (time.monotonic(), found)
        return found

    def _state(self, record):
        last = record.last()
        recorded = last.get("state", "submitted")
        if recorded in store.ENDED or (recorded == "paused" and last.get("kind") == "checkpoint"):
            return recorded
        if record.is_held():  # it is being handed over
            return recorded
        seen = self.look(record)
        if seen.state is None:
            return recorded if time.time() - last.get("time", 0) < GONE_S else "lost"
        if seen.state != recorded:
            self._note(record, seen)
            return record.recorded_state()
        return recorded

    def _note(self, record, seen):
        """Records what the cluster did."""
        job, steps, state = record.job(), record.steps(), seen.state
        has_run = state != "queued" and not (state == "cancelled" and not seen.nodes)
        since = record.last("step", step="submit").get("time", 0)
        if has_run and steps.get("queue", {"time": -1})["time"] < since:
            record.step("queue", "done", f"in {self.name}'s queue")
            record.step("schedule", "done", seen.nodes)
            for step, (outcome, text) in self.prepared(job).items():
                record.step(step, outcome, text)
        fields = {"text": seen.text}
        if state == "paused":
            fields["kind"] = "freeze"
        elif state in ("failed", "cancelled") and self._asked(record) == "checkpoint":
            state, fields = "paused", {"text": "as was asked", "kind": "checkpoint"}
        if state in store.ENDED or fields.get("kind") == "checkpoint":
            if has_run:
                outcome = {"succeeded": "done", "failed": "failed"}.get(state, "skipped")
                record.step("run", outcome, fields["text"])
            record.step("release", "done", f"{self.name} has ended it")
        record.state_is(state, **fields)

    @staticmethod
    def _asked(record):
        """What was asked for in this attempt: "checkpoint", "cancel", or None."""
        asked = None
        for event in record.events():
            if event["event"] == "state" and event["state"] == "starting":
                asked = None
            if event["event"] == "request":
                asked = event["kind"] if event["what"] == "pause" else event["what"]
        return asked

    def _wait(self, record, states):
        while (state := self.state(record)) not in states:
            time.sleep(LOOK_S / 4)
        return state

    # --- requests ---

    def pause(self, record, kind):
        if kind not in PAUSES:
            raise JobError(f"pause: {kind!r} is not one of {', '.join(PAUSES)}")
        state = self.state(record)
        if state != "running":
            raise JobError(f"job {record.id} is {state}: only a running job can be paused")
        if kind == "freeze":
            self.freeze(record, True)
        else:
            record.append("request", what="pause", kind=kind)
            self.ask_for_checkpoint(record)
        self.looked.clear()
        state = self._wait(record, {"paused", "lost", *store.ENDED})
        if state not in ("paused", "succeeded"):
            raise JobError(f"job {record.id} is {state}")

    def resume(self, record):
        state = self.state(record)
        if state == "paused" and record.last().get("kind") == "freeze":
            self.freeze(record, False)
            self.looked.clear()
            self._wait(record, {"running", "lost", *store.ENDED})
        elif state in ("paused", "lost"):
            self.check(record.job())
            self._hand_over(record)
            self.looked.clear()
        else:
            raise JobError(f"job {record.id} is {state}: only a paused or lost job can be resumed")

    def cancel(self, record):
        state = self.state(record)
        if state in store.ENDED:
            raise JobError(f"job {record.id} has {state}" if state != "cancelled" else f"job {record.id} is cancelled")
        nodes = "" if state == "queued" else record.steps().get("schedule", {}).get("text", "")
        record.append("request", what="cancel")
        self.stop(record)
        if record.recorded_state() not in store.ENDED:
            self._note(record, Look("cancelled", "as was asked", nodes))
        self.looked.clear()
