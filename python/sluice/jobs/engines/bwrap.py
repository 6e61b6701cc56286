"""Isolation by bwrap, for a machine without podman: a PID, IPC and mount namespace, in which the file
system is read-only but for the job's outputs, /tmp is its own, and /dev has only the usual devices and
the GPUs that the role was given.
"""
import fcntl
import glob
import os
import shutil
import subprocess

NS_GET_USERNS = 0xB701  # ioctl_ns(2)


def works():
    """Whether bwrap is installed and may make namespaces here."""
    return bool(shutil.which("bwrap")) and subprocess.run(
        ["bwrap", "--unshare-pid", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "true"],
        capture_output=True, check=False).returncode == 0


def wrap(words, read_only, writable, folder, gpus, mps=None):
    """The command in namespaces of its own.  `gpus`: numbers of /dev/nvidia*.  `mps`: the folder of MPS' pipes, whose
    daemon shares memory with its clients, so that they stay in the machine's IPC namespace."""
    found = ["bwrap", "--unshare-pid", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
             "--tmpfs", "/tmp"]
    found += ["--dev-bind", "/dev/shm", "/dev/shm", "--bind", mps, mps] if mps else [
        "--unshare-ipc", "--tmpfs", "/dev/shm"]
    for path in sorted(path for path in read_only if path.startswith("/tmp/")):
        found += ["--ro-bind", path, path]  # the others are in / already
    for path in sorted(writable):
        found += ["--bind", path, path]
    if gpus:
        for path in [f"/dev/nvidia{gpu}" for gpu in gpus] + glob.glob("/dev/nvidia[!0-9]*"):
            found += ["--dev-bind", path, path]
    return found + ["--chdir", folder, "--", *words]


def enter(pid, words):
    """A command in the namespaces of a process, and the descriptors that it inherits."""
    with open(f"/proc/{pid}/ns/mnt", "rb") as namespace:
        owner = fcntl.ioctl(namespace, NS_GET_USERNS)  # bwrap makes a second one, within, which may not enter
    is_own = os.fstat(owner).st_ino == os.stat("/proc/self/ns/user").st_ino
    user = [] if is_own else [f"--user=/proc/self/fd/{owner}", "--preserve-credentials"]
    return ["nsenter", "--target", str(pid), *user, "--mount", "--pid", "--ipc", "--", *words], [owner]
