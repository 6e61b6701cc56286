#!/usr/bin/env python3
"""Records of jobs: what was said to be on disk is there after kill -9 at any byte, and nothing runs twice."""
import json
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time
import unittest

import support
from jobs import JobError, spec, store

SEED = int(os.environ.get("SLUICE_TEST_SEED", "20260728"))
JOB = "name: a\ndata: /d\ncompute: {command: x}\n"


class Child:
    """A function in a process of its own, with what it tells, line by line."""

    def __init__(self, function, *arguments):
        self.told, into = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.told)
            code = 1
            try:
                function(lambda text: os.write(into, f"{text}\n".encode()), *arguments)
                code = 0
            finally:
                os._exit(code)
        os.close(into)
        self.told = open(self.told, encoding="utf-8")

    def kill(self):
        """Its last lines, as far as they are whole."""
        os.kill(self.pid, signal.SIGKILL)
        return self.end()[0]

    def end(self):
        with self.told:
            lines = [line[:-1] for line in self.told.read().splitlines(True) if line.endswith("\n")]
        return lines, os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def write(tell, record, first):
    """Appends events; tells the number of each once append() has returned."""
    for i in range(first, first + 100_000):
        record.append("n", n=i, text="x" * (i % 300))
        tell(i)


def run(tell, record, gate):
    """Runs the job if nobody does and it has not ended.  Each attempt makes a file that must not exist."""
    try:
        with record.run_lock():
            number = record.begin_attempt()
            tell("began")
            os.close(os.open(record.path(f"ran-{number}"), os.O_CREAT | os.O_EXCL))
            record.state_is("running", attempt=number)
            os.read(gate, 1)
            record.state_is("succeeded")
            tell("succeeded")
    except JobError as error:
        tell(error)


class StoreTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.store = store.Store(folder.name)
        self.record = self.store.create(spec.parse(JOB), "local")

    def test_a_record_has_job_steps_states_and_times(self):
        self.assertEqual(self.record.job(), spec.parse(JOB))
        self.assertEqual((self.record.recorded_state(), self.record.engine()), ("submitted", "local"))
        self.record.step("pull", "done", "image")
        self.record.step("submit", "done")
        self.record.step("pull", "skipped", "again")
        self.assertEqual([(name, event["outcome"]) for name, event in self.record.steps().items()],
                         [("submit", "done"), ("pull", "skipped")])
        self.assertEqual(len(store.STEPS), 10)
        self.record.state_is("running", attempt=1)
        times = [event["time"] for event in self.record.events()]
        self.assertEqual(times, sorted(times))
        with self.assertRaises(AssertionError):
            self.record.step("flight", "done")

    def test_a_file_cut_at_any_byte_has_all_whole_events_and_takes_more(self):
        self.record.append("one", text="ä\n\"x\"")
        self.record.append("two")
        whole = pathlib.Path(self.record.file).read_bytes()
        ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
        for size in range(ends[0], len(whole) + 1):
            pathlib.Path(self.record.file).write_bytes(whole[:size])
            expected = sum(end <= size for end in ends)
            self.assertEqual(len(self.record.events()), expected, size)
            self.record.append("more")
            events = self.record.events()
            self.assertEqual((len(events), events[-1]["event"]), (expected + 1, "more"), size)

    def test_a_job_that_was_not_written_whole_never_was(self):
        data = pathlib.Path(self.record.file).read_bytes()
        for size in (0, 1, len(data) - 1):
            pathlib.Path(self.record.file).write_bytes(data[:size])
            self.assertEqual(self.store.records(), [])
        with self.assertRaisesRegex(JobError, "no job"):
            self.store.find(self.record.id)

    def test_ids(self):
        other = self.store.create(spec.parse(JOB), "local")
        self.assertEqual(self.store.find(other.id).id, other.id)
        self.assertEqual(self.store.find(other.id[:-1]).id, other.id)
        with self.assertRaisesRegex(JobError, "several"):
            self.store.find("a-")
        for id in ("../x", "", "A", "a/b", "zz"):
            with self.assertRaises(JobError, msg=id):
                self.store.find(id)
        self.assertEqual([one.id for one in self.store.records()], [self.record.id, other.id])

    def test_two_hundred_kills_of_writers_lose_no_event_that_was_on_disk(self):
        rng, told = random.Random(SEED), set()
        print("seed", SEED)
        for batch in range(20):  # ten at once
            writers = [Child(write, self.record, (batch * 10 + i) * 100_000) for i in range(10)]
            for writer in rng.sample(writers, len(writers)):
                told.update(int(writer.told.readline()) for _ in range(rng.randint(0, 3)))
                told.update(map(int, writer.kill()))
        events = self.record.events()
        there = [event["n"] for event in events if event["event"] == "n"]
        self.assertGreater(len(told), 200)
        self.assertLessEqual(told, set(there))
        self.assertEqual(len(there), len(set(there)))
        lines = pathlib.Path(self.record.file).read_bytes().split(b"\n")[:-1]
        self.assertEqual([json.loads(line) for line in lines], events)

    def test_two_hundred_kills_of_runners_run_nothing_twice(self):
        rng = random.Random(SEED)
        gate, opener = os.pipe()
        for i in range(100):  # two at once, of which at most one begins
            pair = [Child(run, self.record, gate) for _ in range(2)]
            lines = []
            if i % 2:
                lines = [child.told.readline() for child in pair]
                self.assertEqual(sorted(line == "began\n" for line in lines), [False, True])
                self.assertTrue(self.record.is_held())
            time.sleep(rng.uniform(0, 0.02))  # into whatever they do
            for child in pair:
                lines += child.kill()
            self.assertFalse([line for line in lines if line.strip() not in ("began", f"job {self.record.id} runs already")])
            self.assertFalse(self.record.is_held())
        self.assertGreaterEqual(self.record.attempts(), 50)
        os.close(opener)  # nobody waits at the gate any more
        last = Child(run, self.record, gate)
        self.assertEqual(last.end(), (["began", "succeeded"], 0))
        self.assertEqual(Child(run, self.record, gate).end(), ([f"job {self.record.id} has succeeded"], 0))
        os.close(gate)

    def test_a_lock_is_inherited(self):
        lock = self.record.run_lock()
        with self.assertRaisesRegex(JobError, "runs already"):
            self.record.run_lock()
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[lock.fileno()])
        lock.close()
        self.assertTrue(self.record.is_held())
        child.communicate()
        self.assertFalse(self.record.is_held())


if __name__ == "__main__":
    support.main()
