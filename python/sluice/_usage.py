"""What a process and its children use of the machine, from /proc.

`now()` is a reading, and the difference of two is what was used between them: a child that ended
meanwhile counts, as the kernel adds it to its parent when it is waited for.
"""
import os
import time
from dataclasses import dataclass

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Usage:
    seconds: float = 0.0
    own_cpu_s: float = 0.0      # this process
    child_cpu_s: float = 0.0    # its children, theirs, and so on
    machine_cpu_s: float = 0.0  # everybody, on the CPUs that this process may use
    disk_bytes: int = 0         # this process and its children read, not from memory
    network_bytes: int = 0      # the machine received, but for its loopback

    def __add__(self, other):
        return Usage(*(getattr(self, f) + getattr(other, f) for f in self.__dataclass_fields__))

    def __sub__(self, other):
        return Usage(*(getattr(self, f) - getattr(other, f) for f in self.__dataclass_fields__))


def now():
    own, *children = _family()
    return Usage(time.perf_counter(), sum(own.cpu), sum(own.waited_for) +
                 sum(sum(child.cpu + child.waited_for) for child in children),
                 _machine_cpu_s(), sum(_disk_bytes(p.pid) for p in (own, *children)),
                 _network_bytes())


def cores():
    """That this process may use: its CPUs, or less by the quota of its control group."""
    return min([len(os.sched_getaffinity(0)), *_quotas()])


@dataclass
class _Process:
    pid: int
    parent: int
    cpu: tuple         # user and system seconds
    waited_for: tuple  # of children that ended


def _text(path):
    """Of a file that may be gone, or not for us."""
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def _process(pid):
    stat = _text(f"/proc/{pid}/stat")
    fields = stat[stat.rfind(")") + 1:].split()  # the name before may have any character
    if len(fields) < 15:
        return None
    times = [int(ticks) / TICKS for ticks in fields[11:15]]
    return _Process(int(pid), int(fields[1]), tuple(times[:2]), tuple(times[2:]))


def _family():
    """This process, its children, and theirs."""
    family = [_process(os.getpid())]
    processes = [p for p in map(_process, filter(str.isdigit, os.listdir("/proc"))) if p]
    for member in family:
        family += [p for p in processes if p.parent == member.pid]
    return family


def _disk_bytes(pid):
    for line in _text(f"/proc/{pid}/io").splitlines():
        name, _, value = line.partition(":")
        if name == "read_bytes":
            return int(value)
    return 0


def _network_bytes():
    lines = [line.partition(":") for line in _text("/proc/net/dev").splitlines() if ":" in line]
    return sum(int(rest.split()[0]) for name, _, rest in lines if name.strip() != "lo")


def _machine_cpu_s():
    ours = {f"cpu{i}" for i in os.sched_getaffinity(0)}
    ticks = 0
    for line in _text("/proc/stat").splitlines():
        name, *times = line.split()
        if name in ours:
            user, nice, system, _, _, irq, softirq = map(int, times[:7])
            ticks += user + nice + system + irq + softirq
    return ticks / TICKS


def _quotas():
    """Cores that the control groups of this process leave it, of cgroup v2 and v1."""
    for line in _text("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        path = path.rstrip("/")
        while True:
            for mount in ("/sys/fs/cgroup", "/sys/fs/cgroup/cpu"):
                limit = (_text(f"{mount}{path}/cpu.max").split() or
                         [_text(f"{mount}{path}/cpu.cfs_{key}_us").strip()
                          for key in ("quota", "period")])
                if len(limit) == 2 and limit[0].isdigit() and limit[1].isdigit():
                    yield int(limit[0]) / int(limit[1])
            if not path:
                break
            path = path.rpartition("/")[0]
