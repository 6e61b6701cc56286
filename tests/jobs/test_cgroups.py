#!/usr/bin/env python3
"""Control groups as engine local makes them, beneath a cgroup v2 of the test's own: with whatever controller this machine
has there, and so without limits; jobs/limits has these."""
import os
import pathlib
import subprocess
import unittest

import support
from jobs import JobError
from jobs.engines import cgroups, processes

TOP = f"sluice-test-{os.getpid()}"


def controllers():
    root = cgroups.root_group()
    return cgroups.read(f"{root}/cgroup.controllers").split() if root else []


class GroupsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """A cgroup that has this process alone, and the controller."""
        root, name = cgroups.root_group(), controllers()[0]
        before, cls.base = cgroups.group_of(), f"{root}/{TOP}"
        if name not in cgroups.read(f"{root}/cgroup.subtree_control").split():
            cgroups.write(f"{root}/cgroup.subtree_control", f"+{name}")
            cls.addClassCleanup(cgroups.write, f"{root}/cgroup.subtree_control", f"-{name}")
        os.mkdir(cls.base)
        cls.addClassCleanup(os.rmdir, cls.base)
        cgroups.write(f"{cls.base}/cgroup.procs", str(os.getpid()))
        cls.addClassCleanup(cgroups.write, f"{before}/cgroup.procs", str(os.getpid()))
        cls.enterClassContext(unittest.mock.patch.dict(cgroups.CONTROLLERS, {"cores": name}))
        cls.enterClassContext(unittest.mock.patch.object(cgroups.Groups, "_limit"))

    def test_a_role_runs_in_its_group_freezes_and_leaves_nothing(self):
        groups = cgroups.Groups("a", {"compute-0": {"cores": 1}, "storage-0": {"cores": 1}})
        cgroups.Groups._limit.assert_any_call(groups.roles["compute-0"], cores=1)
        self.assertEqual(cgroups.group_of(), f"{self.base}/sluice-a/supervisor")
        process = subprocess.Popen(cgroups.into(groups.roles["compute-0"], ["cat"]), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        process.stdin.write(b"x")
        process.stdin.flush()
        self.assertEqual(process.stdout.read(1), b"x")  # it is in its group
        self.assertEqual(cgroups.group_of(process.pid), f"{self.base}/sluice-a/compute-0")
        groups.freeze("compute-0", True)
        self.assertIn("frozen 1", cgroups.read(f"{groups.roles['compute-0']}/cgroup.events"))
        self.assertIn("frozen 0", cgroups.read(f"{groups.roles['storage-0']}/cgroup.events"))
        groups.freeze("compute-0", False)
        process.communicate()
        self.assertFalse(groups.was_killed("compute-0"))
        groups.clear()
        self.assertEqual([path for path in pathlib.Path(self.base).iterdir() if path.is_dir()], [])
        self.assertEqual(cgroups.group_of(), self.base)
        self.assertEqual(cgroups.read(f"{self.base}/cgroup.subtree_control").split(), [])

    def test_what_a_killed_supervisor_left_is_removed(self):
        groups = cgroups.Groups("b", {"compute-0": {"cores": 1}})
        cgroups.write(f"{groups.top}/cgroup.subtree_control", f"-{controllers()[0]}")
        cgroups.write(f"{self.base}/cgroup.subtree_control", f"-{controllers()[0]}")
        cgroups.write(f"{self.base}/cgroup.procs", str(os.getpid()))  # as if it had ended
        cgroups.remove(groups.top)
        self.assertFalse(os.path.exists(groups.top))
        cgroups.remove(groups.top)

    def test_beside_other_processes_the_group_is_beneath_one_that_hands_controllers_on(self):
        other = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        groups = cgroups.Groups(f"{TOP}-c", {"compute-0": {"cores": 1}})
        self.assertEqual(groups.top, f"{cgroups.root_group()}/sluice-{TOP}-c")
        self.assertEqual(cgroups.group_of(), self.base)
        groups.clear()
        self.assertFalse(os.path.exists(groups.top))
        with unittest.mock.patch.object(cgroups, "root_group", lambda: self.base), \
                self.assertRaisesRegex(JobError, "no cgroup around .* hands on"):
            cgroups.Groups("d", {"compute-0": {"cores": 1}})
        other.communicate()
        self.assertFalse(os.path.exists(f"{self.base}/sluice-d"))

    def test_without_limits_there_is_no_group(self):
        groups = cgroups.Groups("d", {})
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
    if not controllers() or not os.access(cgroups.root_group(), os.W_OK):
        support.skip("no cgroup v2 that this process may write to")
    support.main()
