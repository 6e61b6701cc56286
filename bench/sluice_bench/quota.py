"""Parts of CPUs: control groups with a quota of CPU time, which need root."""
import atexit
import math
import os
import tempfile

# So short that half a core is half as fast, and does not come and go.
PERIOD_US = 10000
LEAST_QUOTA_US = 1000  # the kernel takes no less


class QuotaError(Exception):
    pass


def cpus_for(cores):
    """How many CPUs so many cores are on, the last of them perhaps in part."""
    return max(1, math.ceil(cores))


def own_group():
    """This process's, where the cpu controller is."""
    is_v2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
    with open("/proc/self/cgroup", encoding="ascii") as file:
        for _, controllers, path in (line.strip().split(":", 2) for line in file):
            if is_v2 or "cpu" in controllers.split(","):
                return path.strip("/")
    return ""


def is_possible():
    """Whether a server can be held to part of a CPU here."""
    try:
        Quota(0.5, own_group()).close()
    except QuotaError:
        return False
    return True


class Quota:
    """A group whose processes get so many cores of CPU time together."""

    def __init__(self, cores, parent=""):
        period_us = max(PERIOD_US, math.ceil(LEAST_QUOTA_US / cores))
        is_v2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
        above = os.path.join("/sys/fs/cgroup" if is_v2 else "/sys/fs/cgroup/cpu", parent)
        try:
            # One that was killed may have left its own behind, and we may have its number.
            self.folder = tempfile.mkdtemp(prefix=f"sluice-bench-{os.getpid()}-", dir=above)
            atexit.register(self.close)
            if is_v2:
                if not os.path.exists(os.path.join(self.folder, "cpu.max")):
                    raise OSError(f"{os.path.dirname(self.folder)} does not pass the cpu "
                                  "controller on (cgroup.subtree_control)")
                self._write("cpu.max", f"{round(cores * period_us)} {period_us}")
            else:
                self._write("cpu.cfs_period_us", period_us)
                self._write("cpu.cfs_quota_us", round(cores * period_us))
        except OSError as error:
            raise QuotaError(f"{cores:g} cores need a control group: {error}") from error
        self.procs = os.path.join(self.folder, "cgroup.procs")

    def _write(self, name, value):
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
            file.write(str(value))

    def enter(self):
        """This process and those that it starts from now on."""
        self._write("cgroup.procs", os.getpid())

    def prefix(self):
        """In front of a command that is to run in it."""
        return ("sh", "-c", 'echo $$ >"$0" && exec "$@"', self.procs)

    def close(self):
        """Once none of its processes is left."""
        atexit.unregister(self.close)
        if os.path.isdir(self.folder):
            os.rmdir(self.folder)
