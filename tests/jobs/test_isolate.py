#!/usr/bin/env python3
"""Control groups as engine local makes them, beneath a cgroup v2 of the test's own: with whatever controller this machine
has there, and so without limits; jobs/limits has these."""
import os
import pathlib
import subprocess
import unittest

import support
from jobs import JobError
from jobs.engines import isolate, processes

TOP = f"sluice-test-{os.getpid()}"


def controllers():
    root = isolate.root_group()
    return isolate.read(f"{root}/cgroup.controllers").split() if root else []


class GroupsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """A cgroup that has this process alone, and the controller."""
        root, name = isolate.root_group(), controllers()[0]
        before, cls.base = isolate.group_of(), f"{root}/{TOP}"
        if name not in isolate.read(f"{root}/cgroup.subtree_control").split():
            isolate.write(f"{root}/cgroup.subtree_control", f"+{name}")
            cls.addClassCleanup(isolate.write, f"{root}/cgroup.subtree_control", f"-{name}")
        os.mkdir(cls.base)
        cls.addClassCleanup(os.rmdir, cls.base)
        isolate.write(f"{cls.base}/cgroup.procs", str(os.getpid()))
        cls.addClassCleanup(isolate.write, f"{before}/cgroup.procs", str(os.getpid()))
        cls.enterClassContext(unittest.mock.patch.dict(isolate.CONTROLLERS, {"cores": name}))
        cls.enterClassContext(unittest.mock.patch.object(isolate.Groups, "_limit"))

    def test_a_role_runs_in_its_group_freezes_and_leaves_nothing(self):
        groups = isolate.Groups("a", {"compute-0": {"cores": 1}, "storage-0": {"cores": 1}})
        isolate.Groups._limit.assert_any_call(groups.roles["compute-0"], cores=1)
        self.assertEqual(isolate.group_of(), f"{self.base}/sluice-a/supervisor")
        process = subprocess.Popen(isolate.into(groups.roles["compute-0"], ["cat"]), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        process.stdin.write(b"x")
        process.stdin.flush()
        self.assertEqual(process.stdout.read(1), b"x")  # it is in its group
        self.assertEqual(isolate.group_of(process.pid), f"{self.base}/sluice-a/compute-0")
        groups.freeze("compute-0", True)
        self.assertIn("frozen 1", isolate.read(f"{groups.roles['compute-0']}/cgroup.events"))
        self.assertIn("frozen 0", isolate.read(f"{groups.roles['storage-0']}/cgroup.events"))
        groups.freeze("compute-0", False)
        process.communicate()
        self.assertFalse(groups.was_killed("compute-0"))
        groups.clear()
        self.assertEqual([path for path in pathlib.Path(self.base).iterdir() if path.is_dir()], [])
        self.assertEqual(isolate.group_of(), self.base)
        self.assertEqual(isolate.read(f"{self.base}/cgroup.subtree_control").split(), [])

    def test_what_a_killed_supervisor_left_is_removed(self):
        groups = isolate.Groups("b", {"compute-0": {"cores": 1}})
        isolate.write(f"{groups.top}/cgroup.subtree_control", f"-{controllers()[0]}")
        isolate.write(f"{self.base}/cgroup.subtree_control", f"-{controllers()[0]}")
        isolate.write(f"{self.base}/cgroup.procs", str(os.getpid()))  # as if it had ended
        isolate.remove(groups.top)
        self.assertFalse(os.path.exists(groups.top))
        isolate.remove(groups.top)

    def test_a_group_with_other_processes_is_refused_and_left_as_it_was(self):
        other = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        with self.assertRaisesRegex(JobError, "of this process's own: .*subtree_control.*Delegate"):
            isolate.Groups("c", {"compute-0": {"cores": 1}})
        other.communicate()
        self.assertFalse(os.path.exists(f"{self.base}/sluice-c"))
        self.assertEqual(isolate.group_of(), self.base)

    def test_without_limits_there_is_no_group(self):
        groups = isolate.Groups("d", {})
        self.assertIsNone(groups.top)
        groups.clear()


class ProcessesTest(unittest.TestCase):
    def test_a_tree_is_stopped_with_what_it_forks(self):
        process = subprocess.Popen(["sh", "-c", "while :; do sleep 0.001 & sleep 0.001; done"], start_new_session=True)
        self.addCleanup(process.wait)
        self.addCleanup(lambda: processes.send(processes.tree(process.pid), 9))
        while len(processes.tree(process.pid)) < 2:
            pass
        processes.stop_tree(process.pid)
        found = processes.tree(process.pid)
        self.assertTrue({processes.state(pid) for pid in found} <= set("TZD"))
        self.assertEqual(processes.tree(process.pid), found)


if __name__ == "__main__":
    import unittest.mock
    if not controllers() or not os.access(isolate.root_group(), os.W_OK):
        support.skip("no cgroup v2 that this process may write to")
    support.main()
