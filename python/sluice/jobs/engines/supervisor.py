"""The process that runs one job on this machine, from its start to its end.

`offload_job submit` starts it in the background with the job's lock (store.py) and the number of
events that there were.  It starts the servers, waits for their addresses, starts the ranks, and ends
the servers when the ranks have ended.  What a person asks for comes as `request` events, and a byte
in the FIFO `wake` says that there is a new one.  If it is killed, so are the roles (bwrap's
--die-with-parent), and the job is lost, until it is resumed or cancelled.
"""
import os
import selectors
import signal
import subprocess
import sys
import time

from .. import JobError, commands, programs, store, units
from . import places

GRACE_S = 20.0  # from SIGTERM to SIGKILL: offload_server's own is 10 s, a checkpoint takes some
READY_S = 600.0  # for a server to read the list of its images


class Ended(Exception):
    """How an attempt ends: a state, words, and further fields of the event."""

    def __init__(self, state, text, may_retry=True, **fields):
        super().__init__(text)
        self.state, self.text, self.may_retry, self.fields = state, text, may_retry, fields


class Supervisor:
    def __init__(self, record, seen, lock):
        self.record, self.seen, self.lock = record, seen, lock
        self.job = record.job()
        self.place = None
        self.roles = {}  # name: process
        self.addresses = {}  # of servers, by name
        self.is_frozen = self.is_ending = False
        self.deadline = None
        self.selector = selectors.DefaultSelector()
        self.wake = os.open(record.path("wake"), os.O_RDWR | os.O_NONBLOCK)  # never at its end
        self.signals, into = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(into, False)
        signal.set_wakeup_fd(into, warn_on_full_buffer=False)
        self.is_told = False
        signal.signal(signal.SIGTERM, self._told)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for fd in (self.wake, self.signals):
            self.selector.register(fd, selectors.EVENT_READ, None)

    def _told(self, *_):
        self.is_told = True

    # --- what happens meanwhile ---

    def look(self, until=None):
        """Waits for something to happen, and does what it asks for; raises Ended."""
        timeout = None if until is None else max(0.0, until - time.monotonic())
        for key, _ in self.selector.select(timeout):
            data = os.read(key.fd, 65536)
            if key.data:
                self._said(key, data)
        if self.is_told and not self.is_ending:
            raise Ended("paused", "the supervisor was told to stop", kind="checkpoint")
        if self.is_ending:
            return  # the next attempt sees the requests, if there is one
        events = self.record.events()
        requests, self.seen = events[self.seen:], len(events)
        for event in requests:
            if event["event"] == "request":
                self._asked(event["what"], event.get("kind"))

    def _asked(self, what, kind):
        if what == "cancel":
            raise Ended("cancelled", "as was asked")
        if what == "pause" and kind == "checkpoint":
            raise Ended("paused", "as was asked", kind="checkpoint")
        if what == "pause" and not self.is_frozen and self.roles:
            since = time.monotonic()
            self.place.freeze(self.roles, True)
            self.is_frozen = since
            self.record.state_is("paused", kind="freeze", text="its processes are stopped")
        if what == "resume" and self.is_frozen:
            if self.deadline:
                self.deadline += time.monotonic() - self.is_frozen
            self.thaw()
            self.record.state_is("running", **self.running)

    def thaw(self):
        if self.is_frozen:
            self.place.freeze(self.roles, False)
        self.is_frozen = False

    def _said(self, key, data):
        """Standard output of a server: into its log; its first line has the address."""
        name, log, text = key.data
        if not data:
            self.selector.unregister(key.fd)
            log.close()
            return
        log.write(data)
        if text is not None and name not in self.addresses:
            text += data
            for line in text.split(b"\n")[:-1]:
                if line.startswith(b"listening on "):
                    self.addresses[name] = line.split()[-1].decode()

    # --- one attempt ---

    def start(self, name, words, env, is_server):
        log = open(self.record.log_path(name), "ab", buffering=0)
        process = subprocess.Popen(
            self.place.wrap(name, words, env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if is_server else log,
            stderr=log, env=self.place.environment(name, env), start_new_session=True)
        self.roles[name] = process
        if is_server:
            self.selector.register(process.stdout, selectors.EVENT_READ, (name, log, bytearray()))
        else:
            log.close()

    def start_servers(self):
        """The --host of each shard."""
        if self.job.storage.placement != "with-job":
            return list(self.job.storage.addresses)
        secrets, has = places.secrets(self.job, self.job.storage)
        names = places.server_names(self.job)
        for name, shard in names.items():
            words = commands.server(self.job, shard, "127.0.0.1:0", programs.find("offload_server"), secrets, has)
            self.start(name, words + places.share(self.job), self.job.env, True)
        until = time.monotonic() + READY_S
        while len(self.addresses) < len(names):
            self.look(until)
            self.check_servers()
            if time.monotonic() > until:
                raise Ended("failed", f"a server was not ready within {units.duration_text(READY_S)}")
        return [",".join(self.addresses[name] for name, of in names.items() if of == shard)
                for shard in range(len(self.job.data.roots))]

    def check_servers(self):
        for name, process in self.roles.items():
            if name.startswith("storage") and process.poll() is not None:
                raise Ended("failed", f"{name} {self.how(name)} before the training did")

    def start_ranks(self, hosts, resume):
        job, checkpoint = self.job, places.checkpoint(self.job, self.record)
        secrets, has = places.secrets(job, job.compute)
        port, lend = places.free_port(), places.lend_socket(job, self.record)
        if lend:
            self.record.append("lends", socket=lend, gpus=places.gpus_of(job, "compute-0"))
        self.check_lender()
        for rank in range(job.compute.ranks):
            if job.has_trainer:
                words = commands.trainer(job, hosts, checkpoint, resume, programs.find("offload_train"), secrets, has)
                words += places.metrics(job) + places.lends(job, self.record)
            else:
                words = commands.words_of(job.compute.command)
            env = commands.environment(job, hosts, checkpoint, resume, lend)
            if job.compute.ranks > 1:
                env.update(commands.rank(job, rank, "127.0.0.1", port))
            self.start(f"compute-{rank}", words, env, False)

    def check_lender(self):
        if self.job.compute.borrow and not places.gpus_of(self.job, "compute-0"):
            raise Ended("failed", f"no job that runs lends a GPU at {self.job.compute.borrow} (compute.borrow)")

    def how(self, name):
        """How a role ended, in words."""
        code = self.roles[name].returncode
        limit = places.role_of(self.job, name).memory
        if limit and (sure := self.place.out_of_memory(name, code)):
            return (f"was killed{', ' + sure if sure != 'certain' else ''}: it needed more memory than its limit of "
                    f"{units.size_text(limit)} ({name.split('-')[0]}.memory)")
        if code is None:
            return "runs"
        number = -code if code < 0 else code - 128 if 128 < code < 160 else 0
        return f"was ended by {signal.Signals(number).name}" if number else f"ended with exit code {code}"

    def wait_for_ranks(self):
        ranks = [name for name in self.roles if name.startswith("compute")]
        while True:
            codes = {name: self.roles[name].poll() for name in ranks}
            bad = [name for name, code in codes.items() if code]
            if bad:
                raise Ended("failed", f"{bad[0]} {self.how(bad[0])}; its log: offload_job logs {self.record.id}")
            if None not in codes.values():
                raise Ended("succeeded", "")
            if not self.is_frozen:
                self.check_servers()
            until = None if self.is_frozen else self.deadline
            if until and time.monotonic() >= until:
                raise Ended("failed", f"its time limit of {units.duration_text(self.job.time_s)} is over (limits.time)",
                            may_retry=False)
            self.look(until)

    def stop(self, names, number=signal.SIGTERM):
        """Ends roles; SIGKILL to what is there after the grace."""
        running = [name for name in names if self.roles[name].poll() is None]
        for name in running:
            self.place.signal(name, self.roles[name], number)
        until = time.monotonic() + GRACE_S
        while any(self.roles[name].poll() is None for name in running) and time.monotonic() < until:
            self.look(until)
        for name in running:
            if self.roles[name].poll() is None:
                self.place.signal(name, self.roles[name], signal.SIGKILL)
                self.roles[name].wait()

    def attempt(self, number):
        """Runs the job once; the state that it is in then, and words."""
        self.roles, self.addresses, self.is_frozen, self.is_ending, is_run = {}, {}, False, False, False
        step = self.record.step
        try:
            self.place = places.find(self.job, self.record)
            for name, (outcome, text) in self.place.prepare().items():
                step(name, outcome, text)
            resume = os.path.exists(places.checkpoint(self.job, self.record))
            hosts = self.start_servers()
            self.look(time.monotonic())
            self.start_ranks(hosts, resume)
            is_run = True
            self.running = {"attempt": number, "hosts": hosts, "roles": {
                name: process.pid for name, process in self.roles.items()}}
            self.record.state_is("running", **self.running)
            self.deadline = self.job.time_s and time.monotonic() + self.job.time_s
            self.wait_for_ranks()
        except Ended as how:
            ended = how
        except JobError as error:
            ended = Ended("failed", str(error))
        except OSError as error:
            ended = Ended("failed", f"{error.filename or 'this machine'}: {error.strerror}")
        self.is_ending = True
        if self.place:
            self.thaw()
            self.stop([name for name in self.roles if name.startswith("compute")])
            if ended.state == "paused" and is_run and all(
                    process.returncode == 0 for name, process in self.roles.items() if name.startswith("compute")):
                ended = Ended("succeeded", "")
            if ended.state == "paused" and not os.path.exists(places.checkpoint(self.job, self.record)):
                ended.text += "; there is no checkpoint, so it will begin anew"
            self.stop(list(self.roles))
            self.place.clear()
            while len(self.selector.get_map()) > 2:  # what servers said last
                self.look()
        if is_run:
            outcome = {"succeeded": "done", "failed": "failed"}.get(ended.state, "skipped")
            step("run", outcome, ended.text)
        step("release", "done", "no process, mount or control group is left")
        return ended

    def run(self):
        for left in range(self.job.retries, -1, -1):
            ended = self.attempt(self.record.begin_attempt(pid=os.getpid()))
            if ended.state != "failed" or not ended.may_retry or not left:
                break
            self.record.append("retry", text=ended.text, left=left - 1)
        self.record.state_is(ended.state, text=ended.text, **ended.fields)


def main(folder, id, seen, lock):
    """`lock`: the descriptor of the job's lock, which the submitting process took."""
    record = store.Record(folder, id)
    try:
        os.fstat(lock)
    except OSError:  # it did not come through, as with another systemd-run
        lock = record.run_lock()  # held until the process ends
    Supervisor(record, seen, lock).run()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
