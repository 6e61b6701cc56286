#!/usr/bin/env python3
"""Limits of cgroup v2: 0.5 CPU are 0.5, 100 MB kill and say so, a frozen role stops, and nothing is left.

It needs a cgroup v2 that hands on its controllers.  In a container of one's own, as root, SLUICE_MOVE_PROCESSES=1 makes
one: it moves the processes of the container's cgroup to a leaf, for good.  SLUICE_QUIET=1: the machine has nothing else to
do, so that 0.5 CPU are no less either.
"""
import glob
import json
import os
import pathlib
import re
import sys

import support
from jobs import engines, store
from support import offload_job

# Spins for the seconds of its argument, and prints how much of a CPU it got.
SPIN = ("import sys,time\nbegan,until=time.process_time(),time.monotonic()+float(sys.argv[1])\n"
        "while time.monotonic()<until: pass\nprint('share',(time.process_time()-began)/float(sys.argv[1]))")
FILL = "x=[]\nwhile 1: x.append(bytearray(1<<20)); print(len(x),flush=True)"


def make_group():
    """Moves this cgroup's processes to a leaf of it, so that it can hand on controllers."""
    from jobs.engines import cgroups
    top = cgroups.group_of()
    if not top or not os.path.exists(f"{top}/cgroup.type") or cgroups.why_no_limits({"cores", "memory"}) is None:
        return
    os.makedirs(f"{top}/leaf", exist_ok=True)
    for pid in cgroups.read(f"{top}/cgroup.procs").split():
        try:
            cgroups.write(f"{top}/leaf/cgroup.procs", pid)
        except OSError:
            pass  # it has ended
    cgroups.write(f"{top}/cgroup.subtree_control", "+cpu +memory")


class LimitsTest(support.JobTest):
    def run_job(self, python, limits, *arguments, code=0):
        (self.folder / "p.py").write_text(python)
        path = self.write("name: limits\noutputs: runs\nstorage: {address: '127.0.0.1:1'}\ncompute:\n" + limits + "  command: "
                          + json.dumps([sys.executable, str(self.folder / "p.py"), *arguments]) + "\n")
        id = offload_job("submit", path).strip()
        offload_job("wait", id, code=code)
        self.assertEqual(glob.glob(f"/sys/fs/cgroup/**/sluice-{id}*", recursive=True), [])
        return id

    def test_half_a_cpu_is_half_a_cpu(self):
        id = self.run_job(SPIN, "  cores: 0.5\n", "5")
        share = float(re.search(r"share ([\d.]+)", offload_job("logs", id, "--role", "compute-0"))[1])
        print("0.5 CPU gave", share)
        self.assertLessEqual(share, 0.52)
        if os.environ.get("SLUICE_QUIET") == "1":
            self.assertGreaterEqual(share, 0.48)

    def test_a_memory_limit_kills_and_says_so(self):
        id = self.run_job(FILL, "  memory: 100MB\n", code=1)
        said = store.Store().find(id).last()["text"]
        print(said)
        self.assertRegex(said, r"compute-0 was killed: .* limit of 100MB \(compute\.memory\)")
        self.assertLess(int(offload_job("logs", id, "--role", "compute-0").split()[-1]), 100)

    def test_a_frozen_role_stops(self):
        (self.folder / "p.py").write_text("import time\nwhile 1: print(time.monotonic(), flush=True)")
        path = self.write("name: limits\nstorage: {address: '127.0.0.1:1'}\ncompute:\n  cores: 0.5\n  command: ["
                          f"{sys.executable}, {self.folder}/p.py]\n")
        id = offload_job("submit", path).strip()
        record, engine = store.Store().find(id), engines.find("local")
        engine.pause(record, "freeze")
        log = pathlib.Path(record.log_path("compute-0"))
        size = log.stat().st_size
        asked = record.last("request")["time"]
        print(f"frozen {1000 * (record.last()['time'] - asked):.1f} ms after the request")
        self.assertEqual(log.stat().st_size, size)
        engine.cancel(record)
        self.assertEqual(glob.glob(f"/sys/fs/cgroup/**/sluice-{id}*", recursive=True), [])


if __name__ == "__main__":
    from jobs.engines import cgroups
    try:
        if os.environ.get("SLUICE_MOVE_PROCESSES") == "1":
            make_group()
    except OSError as error:
        support.skip(f"no cgroup can be made: {error.filename}: {error.strerror}")
    why = cgroups.why_no_limits({"cores", "memory"})
    if why:
        support.skip(why)
    support.main()
