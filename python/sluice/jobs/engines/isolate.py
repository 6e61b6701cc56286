"""Limits by cgroup v2 and isolation by bwrap, for a machine without podman.

Each role of a job gets a control group of its own, and a PID, IPC and mount namespace in which the
file system is read-only but for the job's outputs, /tmp is its own and /dev has only the usual
devices and the GPUs that it was given.  docs/JOBS.md says what is left where parts are missing.
"""
import contextlib
import glob
import os
import shutil
import subprocess

from .. import JobError

CONTROLLERS = {"cores": "cpu", "memory": "memory", "io_weight": "io"}
PERIOD_US = 100_000  # of cpu.max: the kernel's own default


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


def write(path, text):
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None  # that of write() names no file


def root_group():
    """Where cgroup v2 is mounted; None where there is only v1."""
    mounts = [line.split() for line in read("/proc/self/mounts").splitlines()]
    return next((words[1] for words in mounts if words[2] == "cgroup2"), None)


def group_of(pid="self"):
    """The cgroup v2 of a process as a folder, or None."""
    path = next((line[3:] for line in read(f"/proc/{pid}/cgroup").splitlines() if line.startswith("0::")), None)
    return os.path.normpath(root_group() + path) if path and root_group() else None

def scope(name):
    """The start of a command that systemd gives a cgroup of its own; empty where PID 1 is not systemd."""
    if not os.path.isdir("/run/systemd/system") or not shutil.which("systemd-run"):
        return []
    return ["systemd-run", *(["--user"] if os.getuid() else []), "--scope", "--quiet", "--collect", "--property",
            "Delegate=yes", "--unit", f"sluice-{name}", "--"]


def why_no_limits(limits):
    """Why cgroup v2 cannot set these limits, in words; None if it can."""
    group = root_group() if scope("") else group_of()
    have = read(f"{group}/cgroup.controllers").split() if group else []
    lacks = sorted({CONTROLLERS[name] for name in limits} - set(have))
    if not lacks:
        return None if scope("") or os.access(group, os.W_OK) else f"{group} is not writable"
    return (f"there is no cgroup v2 with {', '.join(lacks)} for this process"
            + (" (this machine has cgroup v1)" if os.path.isdir("/sys/fs/cgroup/memory") else ""))


class Groups:
    """A cgroup for the supervisor and one for each role with limits, all beneath this process's own."""

    def __init__(self, id, limits):
        """`limits` has those of every role: {role: {"cores", "memory", "io_weight"}}."""
        self.roles, self.top = {}, None
        controllers = sorted({CONTROLLERS[limit] for role in limits.values() for limit in role})
        if not controllers:
            return
        self.base = group_of()
        self.top = f"{self.base}/sluice-{id}"
        on = " ".join(f"+{one}" for one in controllers)
        try:
            self.added = set(controllers) - set(read(f"{self.base}/cgroup.subtree_control").split())
            # Only leaves may have processes: this one moves to a leaf first.
            os.makedirs(f"{self.top}/supervisor")
            write(f"{self.top}/supervisor/cgroup.procs", str(os.getpid()))
            write(f"{self.base}/cgroup.subtree_control", on)
            write(f"{self.top}/cgroup.subtree_control", on)
            for role, values in limits.items():
                self.roles[role] = f"{self.top}/{role}"
                os.mkdir(self.roles[role])
                self._limit(self.roles[role], **values)
        except OSError as error:
            self.clear()
            raise JobError(f"limits need a cgroup v2 of this process's own: {error.filename}: {error.strerror}; start "
                           f"offload_job in one, as by systemd-run --user --scope -p Delegate=yes") from None

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


def bwrap_works():
    """Whether bwrap is installed and may make namespaces here."""
    return bool(shutil.which("bwrap")) and subprocess.run(
        ["bwrap", "--unshare-pid", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "true"],
        capture_output=True, check=False).returncode == 0


def bwrap(words, read_only, writable, folder, gpus):
    """The command in namespaces of its own.  `gpus`: numbers of /dev/nvidia*."""
    found = ["bwrap", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev",
             "--tmpfs", "/dev/shm", "--proc", "/proc", "--tmpfs", "/tmp"]
    for path in sorted(path for path in read_only if path.startswith("/tmp/")):
        found += ["--ro-bind", path, path]  # the others are in / already
    for path in sorted(writable):
        found += ["--bind", path, path]
    if gpus:
        for path in [f"/dev/nvidia{gpu}" for gpu in gpus] + glob.glob("/dev/nvidia[!0-9]*"):
            found += ["--dev-bind", path, path]
    return found + ["--chdir", folder, "--", *words]
