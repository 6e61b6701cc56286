"""The ways to answer an inference while a training has the GPU that bench/switch compares.

Each speaks the wire of switch_wire.py at a port of this machine, so that one client measures them
all.  Nothing waits without a limit, and every process ends with this one.
"""
import contextlib
import json
import os
import pathlib
import queue
import select
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

from . import hosts, switch_wire

BENCH = pathlib.Path(__file__).resolve().parents[1]
START_S = 180  # of a process: PyTorch's import, cuDNN's choice of engines
STOP_S = 20  # of MPS's answers and of offload_switch's end
LOG_LINES = 3  # of what a process that ended said last


class Failed(Exception):
    pass


class Child:
    """A process that prints lines of JSON.  Its standard error goes to the end of a file."""

    def __init__(self, bench, command, cpus=(), **options):
        self.name = f"{pathlib.Path(str(command[0])).name} {' '.join(map(str, command[1:5]))}"
        self.log = open(bench.path("processes.log"), "ab")
        self.from_byte = self.log.tell()
        self.buffer = b""
        self.process = hosts.spawn(
            command, (lambda: os.sched_setaffinity(0, cpus)) if cpus else None,
            stdout=subprocess.PIPE, stderr=self.log, **options)

    def why(self):
        with open(self.log.name, "rb") as file:
            file.seek(self.from_byte)
            lines = file.read().decode("utf-8", "replace").splitlines()
        return " / ".join(lines[-LOG_LINES:]) or "nothing"

    def line(self, limit_s):
        deadline = time.monotonic() + limit_s
        out = self.process.stdout.fileno()
        while b"\n" not in self.buffer:
            if not select.select([out], [], [], max(0, deadline - time.monotonic()))[0]:
                raise Failed(f"{self.name} said nothing for {limit_s} s")
            data = os.read(out, 1 << 16)
            if not data:
                raise Failed(f"{self.name} ended and said {self.why()}")
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode("utf-8", "replace")

    def said(self, key, limit_s=START_S):
        """The next line's object that has the key."""
        deadline = time.monotonic() + limit_s
        while True:
            line = self.line(max(0, deadline - time.monotonic()))
            if line.startswith("{"):
                found = json.loads(line)
                if key in found:
                    return found

    def kill(self):
        """Returns once the process is gone."""
        self.process.kill()
        self.process.wait(START_S)
        self.close()

    def close(self):
        hosts.end(self.process)
        for file in (self.process.stdout, self.process.stdin, self.log):
            if file:
                file.close()


class System:
    """What runs for one row of a figure.  A subclass starts servers in start()."""
    NAME = ""
    TRAINS = True  # the training runs while a request comes
    PER_REQUEST = False  # it has to be started again for the next one

    def __init__(self, bench):
        self.bench = bench
        self.options = bench.options
        self.exits = contextlib.ExitStack()
        self.port = None
        self.command = ""  # of the first process

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.exits.close()
            raise
        return self

    def __exit__(self, *_):
        self.exits.close()

    def child(self, command, cpus, **options):
        self.command = self.command or shlex.join(map(str, command))
        child = Child(self.bench, command, cpus, **options)
        self.exits.callback(child.close)
        return child

    def torch(self, role, *flags, cpus=None, env=None, **options):
        """A process of switch_torch.py."""
        given = self.options
        return self.child(
            [sys.executable, "-u", "-m", "sluice_bench.switch_torch", role, "--folder", given.work,
             "--batch", given.batch, "--train-batch", given.train_batch, "--precision",
             given.precision, "--device", given.device, *flags],
            self.bench.server_cpus if cpus is None else cpus,
            env={**os.environ, "PYTHONPATH": str(BENCH), **(env or {})}, **options)

    def all_models(self):
        return ("--models", ",".join(self.options.models))

    def start(self):
        raise NotImplementedError

    def train(self, model):
        """Returns when the training has the GPU."""

    def stop_training(self):
        pass

    def answered(self, model, sent):
        """After a connection on which so many requests of the model were sent: how many had an
        answer, and the largest relative error of their outputs (None: they were not compared)."""
        raise NotImplementedError

    def connect(self):
        return switch_wire.Client(self.port)


class Ready(System):
    """The models stay on the GPU, and nothing else runs there: the least time there can be."""
    NAME, TRAINS = "ready", False

    def start(self, env=None):
        self.server = self.torch("serve", *self.all_models(), env=env)
        self.port = self.server.said("port")["port"]

    def answered(self, model, sent):
        found = self.server.said("answers", switch_wire.LIMIT_S)
        return found["answers"], found["worst"]


class Mps(Ready):
    """Models and training stay on the GPU, which NVIDIA's MPS shares among their processes."""
    NAME, TRAINS = "mps", True

    def start(self, env=None):
        control = shutil.which("nvidia-cuda-mps-control")
        if not control:
            raise Failed("nvidia-cuda-mps-control is not installed")
        folder = self.exits.enter_context(tempfile.TemporaryDirectory(prefix="mps-"))
        self.env = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        self.exits.callback(self._keep_logs, pathlib.Path(folder))
        self.training = self.trained = None
        daemon = self.child([control, "-f"], (), env={**os.environ, **self.env},
                            stdin=subprocess.DEVNULL)

        def tell(command):
            return subprocess.run([control], input=command + "\n", text=True, timeout=STOP_S,
                                  env={**os.environ, **self.env}, capture_output=True, check=False)

        self.exits.callback(tell, "quit")
        deadline = time.monotonic() + STOP_S
        while tell("get_server_list").returncode != 0:
            if daemon.process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"nvidia-cuda-mps-control does not start: {daemon.why()}")
            time.sleep(0.1)
        super().start(self.env)

    def _keep_logs(self, folder):
        with open(self.bench.path("processes.log"), "ab") as log:
            for path in sorted(folder.glob("*.log")):
                log.write(path.read_bytes())

    def train(self, model):
        """It goes on, as in the published program, until another model is to be trained."""
        if self.trained == model:
            return
        if self.training:
            self.training.close()
        self.training = self.torch("train", "--models", model, cpus=self.bench.train_cpus,
                                   env=self.env)
        self.training.said("state")
        self.trained = model


class Restart(System):
    """The training is killed, and a process that starts then answers."""
    NAME, PER_REQUEST = "restart", True

    def start(self):
        self.training = None
        self.fresh = queue.SimpleQueue()
        listener = self.exits.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.port = listener.getsockname()[1]
        thread = threading.Thread(target=self._answer, args=(listener,), daemon=True)
        self.exits.callback(thread.join, switch_wire.LIMIT_S)
        self.exits.callback(listener.shutdown, socket.SHUT_RDWR)
        thread.start()

    def _answer(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # it was shut down
                return
            with connection:
                try:
                    self.stop_training()
                    self.fresh.put(self.torch("fresh", *self.all_models(), "--fd",
                                              connection.fileno(),
                                              pass_fds=(connection.fileno(),)))
                except (OSError, subprocess.SubprocessError) as error:
                    self.fresh.put(error)

    def train(self, model):
        self.training = self.torch("train", "--models", model, cpus=self.bench.train_cpus)
        self.training.said("state")

    def stop_training(self):
        if self.training:
            self.training.kill()
            self.training = None

    def answered(self, model, sent):
        child = self.fresh.get(timeout=START_S)
        if isinstance(child, Exception):
            raise Failed(str(child))
        found = child.said("answers", switch_wire.LIMIT_S)
        child.close()
        return found["answers"], found["worst"]


class Next(System):
    """The training stops after its step and leaves the GPU's memory; then a process whose CUDA
    context is there copies the weights and answers."""
    NAME, PER_REQUEST = "next", True

    def start(self):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self.training = self.torch("train", "--fd", theirs.fileno(),
                                       cpus=self.bench.train_cpus, pass_fds=(theirs.fileno(),),
                                       stdin=subprocess.PIPE)
            self.server = self.torch("standby", *self.all_models(), "--fd", ours.fileno(),
                                     pass_fds=(ours.fileno(),))
        self.port = self.server.said("port")["port"]
        self.training.said("state")

    def train(self, model):
        self.training.process.stdin.write(f"{model}\n".encode())
        self.training.process.stdin.flush()
        self.training.said("state")

    def answered(self, model, sent):
        found = self.server.said("answers", switch_wire.LIMIT_S)
        self.training.said("state")  # it is idle again
        return found["answers"], found["worst"]


class Ours(System):
    """offload_switch: training and inferences in its workers."""
    NAME = "ours"

    def start(self):
        given = self.options
        self.training = None
        self.server = self.child(
            [given.bin / "offload_switch", "--json", "--train", "--port", 0, "--batch", given.batch,
             "--train-batch", given.train_batch, "--precision", given.precision, "--device",
             self.bench.device(),
             *(word for model in given.models
               for word in ("--model", f"{model}={given.work / model}.safetensors"))],
            self.bench.server_cpus + self.bench.train_cpus)
        self.port = self.server.said("port")["port"]
        self.exits.callback(self._keep_report)

    def _keep_report(self):
        """What it prints at its end."""
        self.server.process.terminate()
        try:
            self.bench.keep_report(self.server.said("inferences", STOP_S))
        except Failed as error:
            self.bench.keep_report({"why": str(error)})

    def train(self, model):
        self.training = self.connect()
        self.training.ask(switch_wire.request_bytes(f"{model}_training"))

    def stop_training(self):
        if self.training:
            self.training.close()
            self.training = None

    def answered(self, model, sent):
        """The reply to an inference does not hold its outputs: a request that asks for them, too,
        follows."""
        with self.connect() as client:
            data = (self.options.work / "input.f32").read_bytes()
            found = client.ask_logits(switch_wire.request_bytes(f"{model}_logits", data))
        return sent, self.bench.error_of(model, found)


class Alone(Ours):
    """offload_switch while nothing trains: what its copies cost by themselves."""
    NAME, TRAINS = "alone", False
