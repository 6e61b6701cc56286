"""Two hosts out of one machine: cores of their own, and a link of a rate between them.

Where it can (root, ip, tc) the link is a veth pair between two network namespaces, shaped in both
directions; elsewhere the server itself holds what it sends to the rate.  Everything here ends
with the process that made it, even if that is killed: the namespaces have no names but belong to a
child, and children die with their parent.
"""
import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import time

from . import quota

NETWORK = "10.213.7."  # four addresses of it for each storage node
# An Ethernet frame of 1514 bytes has 1448 of TCP's payload (IPv4, timestamps); tbf counts frames.
PAYLOAD_SHARE = 1448 / 1514
PR_SET_PDEATHSIG = 1
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 15

_libc = ctypes.CDLL(None, use_errno=True)


class HostError(Exception):
    pass


def dies_with_parent():
    """For a child to call first: it ends when this process does."""
    parent = os.getpid()

    def die_with_parent():
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was killed before that
            os._exit(1)

    return die_with_parent


def spawn(command, run_first=None, **options):
    """A child that a terminal's Ctrl-C does not reach: we end it in our own order.  It stays in our
    session, as the kernel gives sessions alike of a CPU, whatever the policy of their processes."""
    die_with_parent = dies_with_parent()

    def prepare():
        os.setpgid(0, 0)
        die_with_parent()
        if run_first:
            run_first()

    return subprocess.Popen([str(part) for part in command], preexec_fn=prepare, **options)


def end(process, sig=signal.SIGTERM):
    if process is None or process.poll() is not None:
        return
    ended = os.pidfd_open(process.pid)
    try:
        process.send_signal(sig)
        if not select.select([ended], [], [], STOP_TIMEOUT_S)[0]:
            process.kill()
    finally:
        os.close(ended)
    process.wait()


# --- cores ---

def cpu_list(text):
    """The CPUs of a text like 0-3,6, in order."""
    cpus = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return sorted(cpus)


@contextlib.contextmanager
def server(programs, root, *flags, run_first=None, env=None):
    """An offload_server at a free port of 127.0.0.1, with its `address`; it ends with the block."""
    process = spawn([programs / "offload_server", "--root", root, "--listen", "127.0.0.1:0", "--log-level", "error", *flags],
                    run_first, stdout=subprocess.PIPE, text=True, env=env)
    try:
        line = process.stdout.readline()
        if not line.startswith("listening on "):
            raise HostError(f"offload_server says {line!r}")
        process.address = line.split()[-1]
        yield process
    finally:
        end(process)
        process.stdout.close()


def _siblings(cpu):
    path = f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return str(cpu)


def usable_cpus():
    """CPUs of this process, one of each physical core first, then their other threads."""
    cores = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        cores.setdefault(_siblings(cpu), []).append(cpu)
    threads = max(len(cpus) for cpus in cores.values())
    return [cpus[i] for i in range(threads) for cpus in cores.values() if i < len(cpus)], len(cores)


class Cores:
    """Which CPUs the storage node and the compute node have; to be closed once their processes are
    gone.  A number of cores that is not whole is a quota of CPU time (which needs root).

    shared: how many CPUs both have as there are too few; shares_threads: whether they are two
    threads of one physical core somewhere.
    """

    def __init__(self, storage_cores, compute_cores):
        cpus, num_physical = usable_cpus()
        num_storage, num_compute = quota.cpus_for(storage_cores), quota.cpus_for(compute_cores)
        take = [cpus[i % len(cpus)] for i in range(num_storage + num_compute)]
        self.storage = sorted(set(take[:num_storage]))
        self.compute = sorted(set(take[num_storage:]))
        self.shared = max(0, num_storage + num_compute - len(cpus))
        self.shares_threads = num_storage + num_compute > num_physical
        self.is_pinned = shutil.which("taskset") is not None
        self.quotas = []
        pin = ("taskset", "-c") if self.is_pinned else None
        self.storage_prefix = self._prefix(pin, self.storage, storage_cores)
        self.compute_prefix = self._prefix(pin, self.compute, compute_cores)

    def _prefix(self, pin, cpus, cores):
        pinned = (*pin, ",".join(map(str, cpus))) if pin else ()
        if cores == int(cores):
            return pinned
        self.quotas.append(quota.Quota(cores))
        return (*self.quotas[-1].prefix(), *pinned)

    def close(self):
        for group in self.quotas:
            group.close()
        self.quotas = []

    def warning(self):
        if not self.is_pinned:
            return "there is no taskset (util-linux): nothing is pinned"
        if self.shared:
            return (f"too few cores: {self.shared} of {len(os.sched_getaffinity(0))} belong to "
                    "both nodes, so the nodes slow each other down and no plan can hold")
        if self.shares_threads:
            return "more CPUs than physical cores are used: some are two threads of one"
        return None


# --- links ---

class LinkLimit:
    """Loopback; the server holds what it sends to the rate."""
    name = "link-limit"
    text = "loopback, the rate held by offload_server --link-limit (bytes of gRPC messages)"
    storage_address = "127.0.0.1"
    storage_prefix = compute_prefix = ()

    def set_rate(self, mbit):
        self.server_flags = ("--link-limit", f"{mbit:g}mbit")

    def plan_mbit(self, mbit):
        return mbit

    def close(self):
        pass


class Namespaces:
    """A network namespace for the compute node, and one for each storage node, with a veth pair
    between the two whose ends are shaped by tbf: each storage node has a link of its own.  What is
    about one of them is about the first."""
    name = "netns"
    text = ("two network namespaces, a veth pair with tc tbf on both ends (bytes of Ethernet "
            f"frames: a plan gets {PAYLOAD_SHARE:.3f} of the rate)")
    server_flags = ()

    def __init__(self, num_storage=1):
        self.holders, self.ends = [], []
        self.storage_prefixes, self.storage_addresses = [], []
        try:
            self.compute_prefix = self._hold()
            compute = str(self.holders[0].pid)
            for i in range(num_storage):
                prefix = self._hold()
                address = f"{NETWORK}{4 * i + 1}"
                _run("ip", "link", "add", "storage0", "netns", str(self.holders[-1].pid), "type", "veth",
                     "peer", "name", f"compute{i}", "netns", compute)
                for end, device, own in ((prefix, "storage0", address),
                                         (self.compute_prefix, f"compute{i}", f"{NETWORK}{4 * i + 2}")):
                    _run(*end, "ip", "addr", "add", f"{own}/30", "dev", device)
                    _run(*end, "ip", "link", "set", device, "up")
                    self.ends.append((end, device))
                self.storage_prefixes.append(prefix)
                self.storage_addresses.append(address)
            self.storage_prefix, self.storage_address = self.storage_prefixes[0], self.storage_addresses[0]
        except BaseException:
            self.close()
            raise

    def _hold(self):
        """A child in a namespace of its own; the namespace goes when it goes."""
        holder = spawn(["unshare", "--net", "sh", "-c",
                        "ip link set lo up && echo ready && exec cat"],
                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       text=True)
        self.holders.append(holder)
        if holder.stdout.readline() != "ready\n":
            raise HostError(f"no network namespace: {holder.communicate()[1].strip()}")
        return ("nsenter", f"--net=/proc/{holder.pid}/ns/net")

    def set_rate(self, mbit):
        # A burst of 2 ms, and no less than TCP hands down at once.
        burst = max(int(mbit * 1e6 / 8 * 0.002), 128 * 1024)
        for prefix, device in self.ends:
            _run(*prefix, "tc", "qdisc", "replace", "dev", device, "root", "tbf",
                 "rate", f"{mbit * 1000:.0f}kbit", "burst", str(burst), "latency", "50ms")

    def plan_mbit(self, mbit):
        return mbit * PAYLOAD_SHARE

    def close(self):
        for holder in self.holders:
            end(holder, signal.SIGKILL)
            for pipe in (holder.stdin, holder.stdout, holder.stderr):
                pipe.close()
        self.holders = []


def _run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HostError(f"{' '.join(command)}: {done.stderr.strip()}")


def make_link(is_root_allowed, num_storage=1):
    """The link, or links of so many storage nodes, and why it is of that kind."""
    if not is_root_allowed:
        return LinkLimit(), "--no-root"
    if os.geteuid() != 0:
        return LinkLimit(), "not root"
    missing = [name for name in ("ip", "tc", "unshare", "nsenter") if not shutil.which(name)]
    if missing:
        return LinkLimit(), f"no {' and no '.join(missing)} (iproute2, util-linux)"
    try:
        link = Namespaces(num_storage)
        link.set_rate(1000)
        return link, "root, ip and tc"
    except HostError as error:
        return LinkLimit(), str(error)


# --- the storage node ---

def cpu_seconds(pid):
    """CPU time that a process has used, all its threads together."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def busy_seconds(cpus):
    """CPU time that these CPUs gave to anybody, or that was taken from them by their host."""
    ticks = 0
    with open("/proc/stat", encoding="ascii") as file:
        for line in file:
            fields = line.split()
            if fields[0].startswith("cpu") and fields[0][3:].isdigit() and \
                    int(fields[0][3:]) in cpus:
                user, nice, system, _idle, _wait, irq, softirq, steal = map(int, fields[1:9])
                ticks += user + nice + system + irq + softirq + steal
    return ticks / os.sysconf("SC_CLK_TCK")


class Server:
    """offload_server on its cores, behind the link."""

    def __init__(self, program, root, link, cores, storage_cores, jpeg_index, log_path, flags=()):
        self.process = None
        command = [*link.storage_prefix, *cores.storage_prefix, program, "--root", root,
                   "--listen", f"{link.storage_address}:0", "--insecure", "--prep-workers",
                   quota.cpus_for(storage_cores),
                   "--jpeg-index", jpeg_index, *link.server_flags, *flags]
        self.command = " ".join(map(str, command))
        with open(log_path, "ab") as log:
            self.process = spawn(command, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            self.close()
            raise HostError(f"{self.command}: it said {line!r}; see {log_path}")
        self.address = line.split()[-1]

    def cpu_seconds(self):
        return cpu_seconds(self.process.pid)

    def close(self):
        if self.process:
            end(self.process)
            self.process.stdout.close()
            self.process = None


def machine():
    """What the figures depend on."""
    cpu = "unknown"
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith(("model name", "Model")):
                    cpu = line.split(":", 1)[1].strip()
                    break
    except OSError:
        pass
    cpus, num_physical = usable_cpus()
    return {"cpu": cpu, "cpus": len(cpus), "physical_cores": num_physical,
            "kernel": f"{os.uname().sysname} {os.uname().release} {os.uname().machine}"}


def tcp_congestion_control():
    try:
        with open("/proc/sys/net/ipv4/tcp_congestion_control", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "unknown"


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
