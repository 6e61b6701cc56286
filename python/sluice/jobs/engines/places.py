"""Where the roles of a job run on this machine: in namespaces of bwrap or in containers of podman."""
import glob
import os
import shutil
import signal
import socket

from .. import JobError, store
from . import bwrap, cgroups, processes

# In the environment of every process of a job, from its fork on: the supervisor has it, too.
MARK = "SLUICE_JOB_ID"


# --- what follows from a job ---

def server_names(job):
    """{name of a server: its shard} of those that the job starts."""
    if job.storage.placement != "with-job":
        return {}
    pairs = [(shard, replica) for shard in range(len(job.data.roots)) for replica in range(job.storage.servers)]
    return {f"storage-{i}": shard for i, (shard, _) in enumerate(pairs)}


def rank_names(job):
    return [f"compute-{rank}" for rank in range(job.compute.ranks)]


def role_of(job, name):
    return job.storage if name.startswith("storage") else job.compute


def outputs(job, record):
    return job.path(job.outputs) if job.outputs else record.path("outputs")


def checkpoint(job, record):
    return os.path.join(outputs(job, record), job.checkpoint.file)


def secrets(job, role):
    """The folder of a role's secrets, and a function: whether it has a file."""
    folder = role.secrets and job.path(role.secrets)
    return folder, lambda name: os.path.exists(os.path.join(folder, name))


def share(job):
    """The options that leave most of this machine to the training, where the job has no limit for the server."""
    if job.storage.cores or "prep-workers" in job.storage.options:
        return []
    return ["--prep-workers", str(max(1, len(os.sched_getaffinity(0)) // 4))]


def metrics(job):
    """The options that let `offload_job serve` ask the trainer for its counters, at a port that its log names."""
    return [] if "metrics" in job.compute.options else ["--metrics", "127.0.0.1:0"]


def lends(job, record):
    """The option by which the trainer lends its GPU."""
    return ["--lend", socket] if (socket := lend_socket(job, record)) else []


def limits(job):
    """{role: {"cores", "memory", "io_weight"}} of roles that have some."""
    found = {}
    for name in [*server_names(job), *rank_names(job)]:
        role = role_of(job, name)
        values = {field: getattr(role, field) for field in ("cores", "memory", "io_weight")}
        found[name] = {field: value for field, value in values.items() if value is not None}
    return {name: values for name, values in found.items() if values}


def gpus():
    """Numbers of the GPUs that this process may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [int(word) for word in visible.split(",") if word.strip().isdigit()]
    return sorted(int(path[len("/dev/nvidia"):]) for path in glob.glob("/dev/nvidia[0-9]*"))


def mps_folder():
    """Where the control daemon of MPS has its pipes."""
    return os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")


def lend_socket(job, record):
    """Where borrowers of the job's GPU connect; None: it lends none."""
    if not (job.lend and job.lend.gpu):
        return None
    return job.path(job.lend.socket) if job.lend.socket else record.path(os.path.join("lend", "gpu"))


def lender_gpus(socket):
    """The GPUs of the running job that lends at this socket; [] without one."""
    socket = os.path.realpath(socket)
    for record in store.Store().records():
        lends = record.last("lends")
        if lends and os.path.realpath(lends["socket"]) == socket and record.is_held():
            return lends["gpus"]
    return []


def gpus_of(job, name):
    if not name.startswith("compute"):
        return []
    if job.compute.borrow:
        return lender_gpus(job.path(job.compute.borrow))
    count = 1 if job.compute.mps else job.compute.gpus
    first = 0 if job.compute.mps else int(name.split("-")[1]) * count
    return gpus()[first:first + count]


def read_only(job):
    """Folders and files that the job reads."""
    found = [job.folder, *(job.path(path) for path in (job.code, job.storage.secrets, job.compute.secrets) if path)]
    if job.data:
        found += [job.path(path) for path in (job.data.index, job.data.jpeg_index) if path not in (None, "auto", "off")]
        found += [job.path(root) for shard in job.data.roots for _, root in shard if "://" not in root]
    if (job.compute.recipe or "").startswith("@"):
        found.append(job.path(job.compute.recipe[1:]))
    if job.compute.borrow:
        found.append(os.path.dirname(job.path(job.compute.borrow)))
    return [path for path in found if os.path.exists(path)]


def writable(job, record):
    found = [outputs(job, record)]
    if job.data and job.data.store.get("cache"):
        found.append(job.path(job.data.store["cache"]))
    if socket := lend_socket(job, record):
        found.append(os.path.dirname(socket))
    return found


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def end_marked(id):
    """Kills a job's processes but for this one, and waits until they are gone."""
    while left := set(processes.marked(f"{MARK}={id}")) - {os.getpid()}:
        processes.send(left, signal.SIGKILL)


def is_container(job):
    """Whether podman runs the job: it names an image, and podman is installed."""
    return bool(job.image and shutil.which("podman"))


def find(job, record):
    """The place of a job's roles."""
    if is_container(job):
        from . import podman
        return podman.Podman(job, record)
    return Bare(job, record)


class Bare:
    """Processes of this machine, in cgroups and namespaces as far as there are some."""

    def __init__(self, job, record):
        self.job, self.record = job, record
        self.has_bwrap = bwrap.works()
        self.groups = None  # before prepare()

    def prepare(self):
        """Makes what the roles need; {step: (outcome, words)}."""
        for path in writable(self.job, self.record) + [self.record.path("cache")]:
            os.makedirs(path, exist_ok=True)
        self.groups = cgroups.Groups(self.record.id, limits(self.job))
        if self.groups.top:
            self.record.append("cgroup", path=self.groups.top)
        pull = ("skipped", f"no podman here: the programs of this machine run, not those of {self.job.image}"
                if self.job.image else "no image is named")
        namespaces = "own PID, IPC and mount namespaces and /dev" if self.has_bwrap else \
            "bwrap is missing or may not make namespaces: the roles see this machine's processes and devices"
        set_limits = ", ".join(sorted(self.groups.roles)) or "none is asked for"
        return {"pull": pull,
                "mount": ("done", f"read-only but for {', '.join(writable(self.job, self.record))}")
                if self.has_bwrap else ("skipped", "the roles see this machine's file system"),
                "limit": ("done" if self.has_bwrap or self.groups.roles else "skipped",
                          f"{namespaces}; limits: {set_limits}")}

    def folder(self, name):
        """A role's working folder."""
        code = self.job.code if name.startswith("compute") else None
        return self.job.path(code) if code else outputs(self.job, self.record)

    def wrap(self, name, words, env):
        """The command line of a role."""
        group = self.groups and self.groups.roles.get(name)
        if self.has_bwrap:
            words = bwrap.wrap(words, read_only(self.job) + [os.path.dirname(words[0])],
                               writable(self.job, self.record) + [self.record.path("cache")], self.folder(name),
                               gpus_of(self.job, name), mps_folder() if self.job.compute.mps else None)
        else:
            words = ["setpriv", "--pdeathsig", "KILL", "sh", "-c", 'cd "$0" && exec "$@"', self.folder(name), *words]
        return cgroups.into(group, words)

    def environment(self, name, env):
        found = {**os.environ, "XDG_CACHE_HOME": self.record.path("cache"), **env, MARK: self.record.id}
        devices = gpus_of(self.job, name)
        if self.has_bwrap and devices:
            found.pop("CUDA_VISIBLE_DEVICES", None)  # /dev has these alone
        else:
            found["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, devices))
        return found

    def entry(self, pid):
        """The process of the command itself: beneath bwrap's two; None before it is there."""
        for _ in range(2 if self.has_bwrap else 0):
            below = processes.children(pid)
            if not below:
                return None
            pid = below[0]
        return pid

    def signal(self, name, process, number):
        entry = self.entry(process.pid)
        if number == signal.SIGKILL or entry is None:
            processes.send(processes.tree(process.pid), signal.SIGKILL)
        else:
            processes.send([entry], number)

    def freeze(self, roles, is_frozen):
        for name, process in roles.items():
            if self.groups and name in self.groups.roles:
                self.groups.freeze(name, is_frozen)
            elif is_frozen:
                processes.stop_tree(process.pid)
            else:
                processes.send(processes.tree(process.pid), signal.SIGCONT)

    def out_of_memory(self, name, code):
        """Whether a role ended for its memory limit: "certain", another word, or None."""
        return "certain" if self.groups and self.groups.was_killed(name) else None

    def exec_words(self, name, pid, words):
        """A command that runs in a role's namespaces and cgroup, and the descriptors that it inherits."""
        entry = self.entry(pid)
        if entry is None:
            raise JobError(f"{name} has ended")
        words, descriptors = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', self.folder(name), *words], []
        if self.has_bwrap:
            words, descriptors = bwrap.enter(entry, words)
        group = processes.group_of(entry) if name in limits(self.job) else None
        return cgroups.into(group, words), descriptors

    def exec_environment(self, pid):
        with open(f"/proc/{self.entry(pid)}/environ", "rb") as file:
            pairs = [item.partition(b"=") for item in file.read().split(b"\0") if item]
        return {name: value for name, _, value in pairs}

    def clear(self):
        """Nothing of the roles is left: processes, mounts, cgroups."""
        end_marked(self.record.id)
        if self.groups:
            self.groups.clear()
        elif top := self.record.last("cgroup").get("path"):  # of a supervisor that was killed
            cgroups.remove(top)
