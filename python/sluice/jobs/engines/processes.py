"""Processes of this machine and their control groups, by /proc."""
import glob
import os
import signal
import time


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


def root_group():
    """Where cgroup v2 is mounted; None where there is only v1."""
    mounts = [line.split() for line in read("/proc/self/mounts").splitlines()]
    return next((words[1] for words in mounts if words[2] == "cgroup2"), None)


def group_of(pid="self"):
    """The cgroup v2 of a process as a folder, or None."""
    path = next((line[3:] for line in read(f"/proc/{pid}/cgroup").splitlines() if line.startswith("0::")), None)
    return os.path.normpath(root_group() + path) if path and root_group() else None

def children(pid):
    """Processes whose parent it is, oldest first."""
    try:
        return [int(word) for path in glob.glob(f"/proc/{pid}/task/*/children") for word in read(path).split()]
    except OSError:
        return []


def tree(pid):
    """It and all that descend from it, parents first."""
    found = [pid]
    for one in found:
        found += children(one)
    return found


def send(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def state(pid):
    """The letter of /proc/PID/stat: R, S, D, T, ...; X once it is gone."""
    try:
        return read(f"/proc/{pid}/stat").rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def stop_tree(pid):
    """SIGSTOP to all of a tree and to what it forks meanwhile; returns when none runs any more.

    One in state D, in a read or in vfork() of a child that has stopped, runs nothing of its program
    before it takes the signal.
    """
    told = set()
    while running := [one for one in tree(pid) if state(one) not in ("TtZXD" if one in told else "TtZX")]:
        send(running, signal.SIGSTOP)
        told.update(running)
        time.sleep(0.001)


def marked(mark):
    """Processes with this NAME=VALUE in their environment, wherever they are."""
    found = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                if mark.encode() in file.read().split(b"\0"):
                    found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return found
