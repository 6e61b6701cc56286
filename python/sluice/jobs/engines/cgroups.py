"""Limits by cgroup v2: each role of a job that has some gets a control group of its own."""
import contextlib
import glob
import os
import shutil

from .. import JobError
from .processes import group_of, read, root_group

CONTROLLERS = {"cores": "cpu", "memory": "memory", "io_weight": "io"}
PERIOD_US = 100_000  # of cpu.max: the kernel's own default


def write(path, text):
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None  # that of write() names no file


def scope(name):
    """The start of a command that systemd gives a cgroup of its own; empty where PID 1 is not systemd."""
    if not os.path.isdir("/run/systemd/system") or not shutil.which("systemd-run"):
        return []
    return ["systemd-run", *(["--user"] if os.getuid() else []), "--scope", "--quiet", "--collect", "--property",
            "Delegate=yes", "--unit", f"sluice-{name}", "--"]


def base_of(controllers):
    """The nearest cgroup around this process beneath which some with these controllers can be made, or None.

    One that hands them on already, or has no other process: only leaves may have processes, but for the
    root of a machine, which has no cgroup.type.
    """
    group, root = group_of(), root_group()
    while group:
        if os.access(group, os.W_OK) and controllers <= set(read(f"{group}/cgroup.controllers").split()) and (
                controllers <= set(read(f"{group}/cgroup.subtree_control").split())
                or read(f"{group}/cgroup.procs").split() == [str(os.getpid())]
                or not os.path.exists(f"{group}/cgroup.type")):
            return group
        group = None if group == root else os.path.dirname(group)
    return None


def why_no_limits(limits):
    """Why cgroup v2 cannot set these limits, in words; None if it can."""
    controllers, root = {CONTROLLERS[name] for name in limits}, root_group()
    lacks = sorted(controllers - set(read(f"{root}/cgroup.controllers").split() if root else []))
    if lacks:
        return (f"there is no cgroup v2 with {', '.join(lacks)} here"
                + (" (this machine has cgroup v1)" if os.path.isdir("/sys/fs/cgroup/memory") else ""))
    if scope("") or base_of(controllers):
        return None
    return (f"no cgroup around {group_of()} is writable and hands on {', '.join(sorted(controllers))}; move its "
            f"processes to a leaf and write to its cgroup.subtree_control")


class Groups:
    """A cgroup for each role with limits, in one of the job beneath base_of()."""

    def __init__(self, id, limits):
        """`limits` has those of every role: {role: {"cores", "memory", "io_weight"}}."""
        self.roles, self.top, self.is_moved = {}, None, False
        controllers = {CONTROLLERS[limit] for role in limits.values() for limit in role}
        if not controllers:
            return
        self.base = base_of(controllers)
        if not self.base:
            raise JobError(why_no_limits({limit for role in limits.values() for limit in role}))
        self.top = f"{self.base}/sluice-{id}"
        on = " ".join(f"+{one}" for one in sorted(controllers))
        try:
            self.added = controllers - set(read(f"{self.base}/cgroup.subtree_control").split())
            os.mkdir(self.top)
            if self.added and os.path.exists(f"{self.base}/cgroup.type"):
                os.mkdir(f"{self.top}/supervisor")
                write(f"{self.top}/supervisor/cgroup.procs", str(os.getpid()))
                self.is_moved = True
            if self.added:
                write(f"{self.base}/cgroup.subtree_control", on)
            write(f"{self.top}/cgroup.subtree_control", on)
            for role, values in limits.items():
                self.roles[role] = f"{self.top}/{role}"
                os.mkdir(self.roles[role])
                self._limit(self.roles[role], **values)
        except OSError as error:
            self.clear()
            raise JobError(f"limits: {error.filename}: {error.strerror}") from None

    @staticmethod
    def _limit(folder, cores=None, memory=None, io_weight=None):
        if cores:
            write(f"{folder}/cpu.max", f"{max(1000, round(cores * PERIOD_US))} {PERIOD_US}")
        if memory:
            write(f"{folder}/memory.max", str(memory))
            write(f"{folder}/memory.oom.group", "1")
            if os.path.exists(f"{folder}/memory.swap.max"):
                write(f"{folder}/memory.swap.max", "0")
        if io_weight:
            write(f"{folder}/io.weight", f"default {io_weight}")

    def freeze(self, role, is_frozen):
        write(f"{self.roles[role]}/cgroup.freeze", str(int(is_frozen)))
        while f"frozen {int(is_frozen)}\n" not in read(f"{self.roles[role]}/cgroup.events"):
            pass

    def was_killed(self, role):
        """Whether the kernel killed it for its memory."""
        path = f"{self.roles.get(role)}/memory.events"
        return os.path.exists(path) and "oom_kill 0\n" not in read(path)

    def clear(self):
        if self.top:
            with contextlib.suppress(OSError):
                write(f"{self.top}/cgroup.subtree_control", " ".join(
                    f"-{one}" for one in read(f"{self.top}/cgroup.subtree_control").split()))
                if self.added:
                    write(f"{self.base}/cgroup.subtree_control", " ".join(f"-{one}" for one in self.added))
                if self.is_moved:
                    write(f"{self.base}/cgroup.procs", str(os.getpid()))
            remove(self.top)


def remove(top):
    """Removes the cgroups of a job, whose processes have been killed."""
    for folder in [*glob.glob(f"{top}/*/"), top]:
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(folder)


def into(group, words):
    """A command that enters a cgroup first."""
    return ["/bin/sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', group, *words] if group else words
