"""Engine local: both roles on this machine, each job with a supervisor process and no daemon."""
import errno
import os
import shlex
import subprocess
import sys
import time

from .. import JobError, commands, programs, store
from . import PAUSES, Base, cgroups, places, refuse_claims

_MODULES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_MOST_SOCKET_BYTES = 107  # unix(7), less the NUL
_LOOK_S = 0.02  # between two looks at events of another process


class Engine(Base):
    def check(self, job):
        refuse_claims(job)
        for name, value in (("priority", job.priority), ("queue", job.queue)):
            if value is not None:
                raise JobError(f"{name}: there is no queue on this machine: a job starts at once; leave it out, or use "
                               f"engine slurm or kubernetes")
        if job.storage.placement == "shared":
            raise JobError("storage.placement: shared is a DaemonSet of engine kubernetes; here give the address of a "
                           "server that runs, or with-job")
        if job.lend and job.lend.cpu:
            raise JobError("lend.cpu: engine local lends a GPU, and no CPUs")
        socket = places.lend_socket(job, store.Record(store.default_folder(), f"{job.name}-ID1234"))
        if socket and len(os.fsencode(socket)) > _MOST_SOCKET_BYTES:
            raise JobError(f"lend.socket: {socket} has more than {_MOST_SOCKET_BYTES} bytes; name a shorter one")
        borrow = job.compute.borrow and job.path(job.compute.borrow)
        if borrow and not places.lender_gpus(borrow):
            raise JobError(f"compute.borrow: no job that runs lends a GPU at {borrow}")
        if job.compute.mig:
            raise JobError("compute.gpu_share.mig: engine local gives whole GPUs and MPS percentages")
        if job.compute.mps and not os.path.exists(places.mps_folder()):
            raise JobError("compute.gpu_share.mps: no MPS control daemon runs here: nvidia-cuda-mps-control -d")
        wanted = 1 if job.compute.mps else job.compute.gpus * job.compute.ranks
        if wanted > len(places.gpus()):
            raise JobError(f"compute.gpus: {wanted} wanted, and this machine has {len(places.gpus())}")
        limits = places.limits(job)
        if not places.is_container(job):
            self._check_bare(job, limits)
        return self._warnings(job)

    @staticmethod
    def _check_bare(job, limits):
        if job.storage.placement == "with-job":
            programs.find("offload_server")
        if job.has_trainer:
            programs.find("offload_train")
        if limits:
            why = cgroups.why_no_limits({field for values in limits.values() for field in values})
            if why:
                name, values = next(iter(limits.items()))
                raise JobError(f"{name.split('-')[0]}.{next(iter(values))}: {why}; leave the limit out here, or install "
                               f"podman and name an image")

    @staticmethod
    def _warnings(job):
        found = []
        if job.storage.placement == "with-job":
            words = places.share(job)
            found.append("both roles are on this machine: README says to look elsewhere where the data are on the GPU "
                         "node's own disk (--dataset-mode local needs no server)"
                         + (f"; the server gets {words[1]} of {len(os.sched_getaffinity(0))} cores" if words else ""))
        if job.image and not places.is_container(job):
            found.append(f"image: podman is not installed: the programs of this machine run, not those of {job.image}")
        return found

    def render(self, job):
        """A shell line for each role, as the supervisor starts it."""
        record = store.Record(store.default_folder(), job.name + "-ID")
        place, files = places.find(job, record), {}
        hosts = list(job.storage.addresses)
        for name, shard in places.server_names(job).items():
            secrets, has = places.secrets(job, job.storage)
            words = commands.server(job, shard, "127.0.0.1:0", "offload_server", secrets, has) + places.share(job)
            files[f"{name}.sh"] = self._line(place, name, words, job.env)
            hosts = hosts[:shard] + [",".join(filter(None, [*hosts[shard:shard + 1], f"ADDRESS-OF-{name}"]))]
        checkpoint = places.checkpoint(job, record)
        for name in places.rank_names(job):
            secrets, has = places.secrets(job, job.compute)
            words = [*commands.trainer(job, hosts, checkpoint, False, "offload_train", secrets, has), *places.metrics(job),
                     *places.lends(job, record)] if job.has_trainer else commands.words_of(job.compute.command)
            files[f"{name}.sh"] = self._line(place, name, words, commands.environment(
                job, hosts, checkpoint, lend=places.lend_socket(job, record)))
        return files

    @staticmethod
    def _line(place, name, words, env):
        limits = places.limits(place.job).get(name)
        head = "".join(f"# {field}: {value}\n" for field, value in (limits or {}).items())
        head += "".join(f"export {variable}={shlex.quote(value)}\n" for variable, value in sorted(env.items()))
        return head + "exec " + shlex.join(place.wrap(name, words, env)) + "\n"

    def submit(self, job, store):
        warnings = self.check(job)
        checkpoint = job.outputs and os.path.join(job.path(job.outputs), job.checkpoint.file)
        if checkpoint and os.path.exists(checkpoint) and not job.checkpoint.resume:
            raise JobError(f"outputs: {checkpoint} is there already, and the job would overwrite it; move it away, name "
                           f"another folder, or say checkpoint: {{resume: true}} to begin from it")
        record = store.create(job, "local")
        for text in warnings:
            record.append("warning", text=text)
        for step, text in (("image", "images are made elsewhere, by podman build"),
                           ("upload", "the roles run where code and data are")):
            record.step(step, "skipped", text)
        record.step("submit", "done", "to this machine")
        record.step("queue", "skipped", "a machine has no queue: the job starts at once")
        record.step("schedule", "done", f"both roles on {os.uname().nodename}")
        self._start(record, record.run_lock(), len(record.events()))
        return record

    def _start(self, record, lock, seen):
        """A supervisor, which inherits the lock; it handles requests from event `seen` on."""
        if not os.path.exists(record.path("wake")):
            os.mkfifo(record.path("wake"), 0o600)
        package = __package__.rsplit(".", 1)[0]
        above = _MODULES
        for _ in package.split("."):
            above = os.path.dirname(above)
        code = (f"import sys; sys.path.insert(0, {above!r}); from {__package__} import supervisor; "
                f"supervisor.main({os.path.dirname(record.file)!r}, {record.id!r}, {seen}, {lock.fileno()})")
        limits = places.limits(record.job()) and not places.is_container(record.job())
        with open(record.log_path("supervisor"), "ab") as log:
            subprocess.Popen([*(cgroups.scope(f"{record.id}-{seen}") if limits else []), sys.executable, "-c", code],
                             stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[lock.fileno()],
                             start_new_session=True, cwd="/", env={**os.environ, places.MARK: record.id})
        lock.close()

    def state(self, record):
        recorded = record.recorded_state()
        if recorded in store.ENDED or record.is_held():
            return recorded
        # The supervisor may have ended between the two looks.
        recorded = record.recorded_state()
        is_at_rest = recorded in store.ENDED or (recorded == "paused" and record.last().get("kind") == "checkpoint")
        return recorded if is_at_rest else "lost"

    def logs(self, record, role=None, follow=False):
        names = ["supervisor", *places.server_names(record.job()), *places.rank_names(record.job())]
        if role and role not in names:
            raise JobError(f"job {record.id} has no role {role!r}: {', '.join(names)}")
        names = [role] if role else names
        files = {}
        while True:
            has_ended = not record.is_held()
            for name in names:
                if name not in files and os.path.exists(record.log_path(name)):
                    files[name] = open(record.log_path(name), encoding="utf-8", errors="replace")
                for line in self._lines(files.get(name), has_ended or not follow):
                    yield name, line
            if has_ended or not follow:
                for file in files.values():
                    file.close()
                return
            time.sleep(_LOOK_S)

    @staticmethod
    def _lines(file, is_last):
        """Whole lines that were added; the rest of one only at the end."""
        while file:
            place = file.tell()
            line = file.readline()
            if not line.endswith("\n") and not is_last:
                file.seek(place)
                return
            if not line:
                return
            yield line.rstrip("\n")

    # --- requests ---

    def _ask(self, record, what, **fields):
        """Adds a request and wakes the supervisor."""
        record.append("request", what=what, **fields)
        try:
            wake = os.open(record.path("wake"), os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno not in (errno.ENXIO, errno.ENOENT):  # it looks at its start
                raise
            return
        try:
            os.write(wake, b"\n")
        except BlockingIOError:
            pass  # full: it has much to read
        finally:
            os.close(wake)

    def _wait(self, record, states):
        while (state := self.state(record)) not in states:
            time.sleep(_LOOK_S)
        return state

    def pause(self, record, kind):
        if kind not in PAUSES:
            raise JobError(f"pause: {kind!r} is not one of {', '.join(PAUSES)}")
        state = self._wait(record, {"running", "paused", "lost", *store.ENDED})
        if state != "running":
            raise JobError(f"job {record.id} is {state}: only a running job can be paused")
        self._ask(record, "pause", kind=kind)
        state = self._wait(record, {"paused", "lost", *store.ENDED})
        if state not in ("paused", "succeeded"):
            raise JobError(f"job {record.id} is {state}")

    def resume(self, record):
        state = self.state(record)
        if state == "paused" and record.last().get("kind") == "freeze":
            self._ask(record, "resume")
            self._wait(record, {"running", "lost", *store.ENDED})
        elif state in ("paused", "lost"):
            self.check(record.job())
            lock = record.run_lock()
            places.find(record.job(), record).clear()  # of a supervisor that was killed
            record.append("request", what="resume")
            record.state_is("queued", text="it goes on")
            self._start(record, lock, len(record.events()))
            self._wait(record, {"running", "paused", "lost", *store.ENDED})
        else:
            raise JobError(f"job {record.id} is {state}: only a paused or lost job can be resumed")

    def cancel(self, record):
        state = self.state(record)
        if state in store.ENDED:
            raise JobError(f"job {record.id} has {state}" if state != "cancelled" else f"job {record.id} is cancelled")
        if record.is_held():
            self._ask(record, "cancel")
            while record.is_held():
                time.sleep(_LOOK_S)
        if record.recorded_state() not in store.ENDED:  # nobody runs it
            with record.run_lock():
                places.find(record.job(), record).clear()
                record.step("release", "done", "no process, mount or control group is left")
                record.state_is("cancelled", text="as was asked")

    def exec(self, record, role, argv):
        state, job = self.state(record), record.job()
        last = record.last(state="running")
        if state != "running":
            raise JobError(f"job {record.id} is {state}: nothing of it runs")
        names = list(last["roles"])
        name = role if role in names else next((one for one in names if one.startswith(f"{role}-")), None)
        if name is None:
            raise JobError(f"job {record.id} has no role {role!r}: {', '.join(names)}")
        place = places.find(job, record)
        pid = last["roles"][name]
        words, descriptors = place.exec_words(name, pid, argv)
        return subprocess.run(words, env=place.exec_environment(pid), pass_fds=descriptors, check=False).returncode
