"""Processes of this machine, by /proc."""
import glob
import os
import signal


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


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


def stop_tree(pid):
    """SIGSTOP to all of a tree, with what is forked meanwhile."""
    stopped = []
    while rest := [one for one in tree(pid) if one not in stopped]:
        send(rest, signal.SIGSTOP)
        stopped += rest


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
