"""What lending a GPU costs its owner, and how fast a borrower's requests are.

usage: lend --out FOLDER [options]

A training step of ResNet-18 in PyTorch (batch 256, bf16) owns the GPU, fed by a thread at a part u of its own rate;
a borrower answers requests for ResNet-152 (batch 8, bf16, one CUDA graph) that come at random.  Each part compares
the borrower on an idle GPU (ready), beside the training without a gate (time-slicing), and with sluice.lend.Gate:

  gate     latencies and the training's rate, at u = 0.6 and u = 1
  graph    the same with the training's step as one CUDA graph
  job      requests of 84 ms, twice a second
  unused   the training with a gate that nobody uses, against without, by turns
  copy     weights that come from host memory with each request
  tail     1,000 requests, ready and with the gate at u = 0.6
  restart  what kills the training and starts a process for one request takes
  loader   offload_train --lend, fed by an offload_server behind a slow link, with and without a borrower

Rows go to FOLDER/rows.jsonl, after those of earlier calls; --page makes FOLDER/index.html of all *.jsonl there.

Exit codes: 0; 1 if a part failed: the others are measured all the same; 77 if a package or the GPU is missing.
"""
import argparse
import contextlib
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time

from . import hosts, image_files, lend_page, package

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
SEED = 34
PER_S = 20       # requests
JOB_MS, JOBS_PER_S = 84, 2
SETTLE_S = 1     # from the first step of a training to the first request
START_S = 120    # at most, until a process is ready
RESTART_LIMIT_S = 90
REAL = {"alexnet": ("--image-size", "224"), "resnet50": ("--pipeline", f"@{SOURCE}/python/sluice/presets/timm-a2.json")}
FULL = {"trainer": {"model": "resnet18", "batch": 256, "image_size": 224},
        "borrower": {"model": "resnet152", "batch": 8, "image_size": 224}}
DRY = {"trainer": {"model": "toy", "batch": 4, "image_size": 32},
       "borrower": {"model": "toy", "batch": 2, "image_size": 32}}


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


# --- processes ---

class Process:
    """A process of lend_processes.py, pinned to CPUs, that answers lines of JSON.  Every wait for it has a time limit."""

    def __init__(self, role, settings, cpus, log):
        self.role, self.rest = role, b""
        self.process = hosts.spawn(
            [sys.executable, "-m", "sluice_bench.lend_processes", role, json.dumps(settings)],
            lambda: os.sched_setaffinity(0, cpus), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            cwd=SOURCE / "bench")

    def tell(self, command):
        try:
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise Failed(f"the {self.role} has ended: {error}") from error

    def hear(self, timeout_s):
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self.rest:
            left = max(0, deadline - time.monotonic())
            if not select.select([self.process.stdout], [], [], left)[0]:
                raise Failed(f"the {self.role} says nothing for {timeout_s:.0f} s")
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                raise Failed(f"the {self.role} ended with {self.process.wait()}")
            self.rest += data
        line, self.rest = self.rest.split(b"\n", 1)
        answer = json.loads(line)
        if "failed" in answer:
            raise Failed(f"{self.role}: {answer['failed']}")
        return answer

    def ask(self, command, timeout_s):
        self.tell(command)
        return self.hear(timeout_s)

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(hosts.STOP_TIMEOUT_S)
        self.process.stdin.close()
        self.process.stdout.close()


def split_cpus(cpus):
    """The CPUs of this program, of the training and of the borrower; all three share them if there are fewer than four."""
    if len(cpus) < 4:
        return [set(cpus)] * 3
    borrower = max(1, len(cpus) // 4)
    return [{cpus[0]}, set(cpus[1:-borrower]), set(cpus[-borrower:])]


class Stage:
    """The processes, started when first needed; after a failure they start anew."""

    def __init__(self, options, folder, log):
        self.options, self.folder, self.log = options, folder, log
        self.path = os.path.join(folder, "lend")
        self.computer = hosts.machine()
        cpus, _ = hosts.usable_cpus()
        own, self.trainer_cpus, self.borrower_cpus = split_cpus(cpus)
        os.sched_setaffinity(0, own)
        self.processes, self.machine, self.is_machine_shown = {}, {}, False
        self.call = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.known = {}  # baselines of this call
        self.rows = open(options.out / "rows.jsonl", "a", encoding="utf-8")

    def get(self, role):
        if role not in self.processes:
            self.start(role)
        process, is_ready = self.processes[role]
        if not is_ready:
            self.machine.update(process.hear(START_S))
            self.processes[role] = process, True
        return process

    def start(self, *roles):
        """Without waiting until they are ready."""
        for role in roles:
            if role not in self.processes:
                settings = {**(DRY if self.options.dry else FULL)[role], "folder": self.folder, "lend": self.path,
                            "device": "cpu" if self.options.dry else "cuda", "points": self.options.points}
                cpus = self.trainer_cpus if role == "trainer" else self.borrower_cpus
                self.processes[role] = Process(role, settings, cpus, self.log), False

    def kill(self, *roles):
        for role in roles:
            if role in self.processes:
                self.processes.pop(role)[0].kill()

    def close(self):
        self.kill(*list(self.processes))
        self.rows.close()

    def show_machine(self):
        """Once, when the processes have said what they run on."""
        if not self.is_machine_shown:
            self.is_machine_shown = True
            options = self.options
            self.show({"part": "machine", "case": "machine", **self.computer, **self.machine,
                       **(DRY if options.dry else FULL), "points": options.points, "dry": options.dry,
                       "trainer_cpus": len(self.trainer_cpus), "borrower_cpus": len(self.borrower_cpus),
                       "command": sys.argv[1:]})

    def show(self, row):
        row = {"call": self.call, **row}
        print(lend_page.line_of(row), flush=True)
        self.rows.write(json.dumps(row) + "\n")
        self.rows.flush()

    # --- cases ---

    def requests(self, num, kind="small", lend=False):
        """A borrower's requests: small ones, jobs, or with a copy of the weights."""
        for role in list(self.processes):  # none of them may still be starting
            self.get(role)
        if self.options.dry:
            num = min(num, 5)
        per_s = JOBS_PER_S if kind == "job" and not self.options.dry else PER_S
        repeats = 1
        if kind == "job":
            repeats = 3 if self.options.dry else max(1, round(JOB_MS / lend_page.median(self.ready()["ms"])))
        return self.get("borrower").ask(
            {"do": "requests", "num": num, "per_s": per_s, "seed": None if kind == "job" else SEED,
             "repeats": repeats, "copy": kind == "copy", "lend": self.path if lend else None},
            30 + 3 * num / per_s)

    def ready(self):
        if "ready" not in self.known:
            found = self.requests(self.options.num)
            self.known["ready"] = found
            self.show({"part": "ready", "case": "ready", "kind": "small", **told(found)})
        return self.known["ready"]

    @contextlib.contextmanager
    def training(self, u, is_graph=False, has_gate=False):
        """A training while the block runs; what it yields has its steps afterwards."""
        fed_per_s = u * self.alone(is_graph) if u < 1 else None
        batch = (DRY if self.options.dry else FULL)["trainer"]["batch"]
        trainer = self.get("trainer")
        trainer.ask({"do": "train", "graph": is_graph, "gate": has_gate,
                     "period": batch / fed_per_s if fed_per_s else 0}, START_S)
        time.sleep(0.2 if self.options.dry else SETTLE_S)
        found = {"fed_per_s": fed_per_s}
        yield found
        found.update(trainer.ask({"do": "stop"}, 30))

    def measure_alone(self, is_graph):
        with self.training(1, is_graph) as found:
            begin = time.monotonic()
            time.sleep(0.5 if self.options.dry else 4)
            end = time.monotonic()
        steps_per_s = lend_page.rate_within(found["done"], begin, end)
        if steps_per_s is None:
            raise Failed("the training alone takes seconds for a step")
        per_s = steps_per_s * found["batch"]
        self.show({"part": "alone", "case": "alone", "graph": is_graph, "per_s": per_s})
        return per_s

    def alone(self, is_graph):
        """Images a second of the training alone, fed as fast as it goes."""
        key = "alone", is_graph
        if key not in self.known:
            self.known[key] = [self.measure_alone(is_graph)]
        return lend_page.median(self.known[key])

    def case(self, part, u, *, has_gate, kind="small", is_graph=False, num=None):
        """Requests during a training."""
        with self.training(u, is_graph, has_gate) as trained:
            found = self.requests(num or self.options.num, kind, has_gate)
        row = {"part": part, "case": "gate" if has_gate else "time-slicing", "kind": kind, "u": u, "graph": is_graph,
               **told(found)}
        begin, end = found["came"][0], found["end"]
        steps_per_s = lend_page.rate_within(trained["done"], begin, end)
        row["train_per_s"] = steps_per_s and steps_per_s * trained["batch"]
        row["fed_per_s"] = trained["fed_per_s"]
        row["seconds"] = end - begin
        row["lent"], row["points"] = trained["lent"], trained["points"]
        if u == 1:
            # Of before and after, as what is lost is a small difference.
            before = self.alone(is_graph)
            if kind == "small" and not num:
                self.known["alone", is_graph].append(self.measure_alone(is_graph))
            row["alone_per_s"] = (before + self.known["alone", is_graph][-1]) / 2
        self.show(row)


def told(found):
    return {"ms": found["ms"], "wrong": found["wrong"]}


# --- parts ---

def gate(stage):
    stage.ready()
    for u, has_gate in ((0.6, False), (0.6, True), (1, False), (1, True)):
        stage.case("gate", u, has_gate=has_gate)


def graph(stage):
    stage.ready()
    for u in (0.6, 1):
        stage.case("graph", u, has_gate=True, is_graph=True)


def job(stage):
    num = stage.options.jobs
    found = stage.requests(num, "job")
    stage.show({"part": "job", "case": "ready", "kind": "job", **told(found)})
    for u, has_gate in ((0.6, False), (0.6, True), (1, False), (1, True)):
        stage.case("job", u, has_gate=has_gate, kind="job", num=num)


def unused(stage):
    rounds, seconds = (2, 0.1) if stage.options.dry else (stage.options.rounds, 1.2)
    for is_graph in (False, True):
        found = stage.get("trainer").ask(
            {"do": "alternate", "graph": is_graph, "rounds": rounds, "seconds": seconds},
            START_S + rounds * 2 * (seconds + 3))
        stage.show({"part": "unused", "case": "unused", "graph": is_graph, **found})


def copy(stage):
    stage.ready()
    found = stage.get("borrower").ask({"do": "copy"}, 30)
    stage.show({"part": "copy", "case": "copy alone", "copy_ms": found["ms"], "bytes": found["bytes"]})
    found = stage.requests(stage.options.num, "copy")
    stage.show({"part": "copy", "case": "ready", "kind": "copy", **told(found)})
    for has_gate in (False, True):
        stage.case("copy", 0.6, has_gate=has_gate, kind="copy", num=stage.options.num)


def tail(stage):
    num = stage.options.tail
    found = stage.requests(num)
    stage.show({"part": "tail", "case": "ready", "kind": "small", **told(found)})
    stage.case("tail", 0.6, has_gate=True, num=num)


def restart(stage):
    """The training is killed for each request, and runs again before the next."""
    settings = {"device": "cpu" if stage.options.dry else "cuda",
                "model_file": os.path.join(stage.folder, "model.pt")}
    stage.get("borrower")  # writes the file
    with stage.training(1, has_gate=True):
        ours = stage.requests(max(1, stage.options.num // 2), lend=True)
    stage.show({"part": "restart", "case": "gate", "kind": "small", "u": 1, "graph": False, **told(ours)})
    for number in range(1 if stage.options.dry else 2):
        stage.get("trainer").ask({"do": "train", "graph": False, "gate": True, "period": 0}, START_S)
        time.sleep(0.2)
        begin = time.monotonic()
        stage.kill("trainer")
        killed = time.monotonic()
        one = Process("fresh", settings, stage.trainer_cpus, stage.log)
        try:
            found = one.hear(RESTART_LIMIT_S)
            end = time.monotonic()
        finally:
            one.kill()
        stage.show({"part": "restart", "case": "stop and start", "number": number, "seconds": end - begin,
                    "kill_s": killed - begin, "error": found["error"]})


# --- the real loader ---

class Trained:
    """An offload_train to its end, its lines of JSON noted with their times."""

    def __init__(self, command, cpus, log):
        self.process = hosts.spawn(command, lambda: os.sched_setaffinity(0, cpus), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=log, text=True)
        self.epochs, self.has_epoch = [], threading.Event()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                self.epochs.append({**json.loads(line), "at": time.monotonic()})
                self.has_epoch.set()
        self.has_epoch.set()

    def wait_for_owner(self, borrower, path, timeout_s):
        """Until it lends its GPU."""
        deadline = time.monotonic() + timeout_s
        while not borrower.ask({"do": "connect", "lend": path}, 10)["is_connected"]:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Failed("offload_train: it does not lend, see log.txt")
            time.sleep(0.05)

    def first_epoch(self, timeout_s):
        self.has_epoch.wait(timeout_s)
        if not self.epochs:
            raise Failed("offload_train: no epoch, see log.txt")

    def end(self, timeout_s):
        self.thread.join(timeout_s)
        if self.thread.is_alive():
            raise Failed(f"offload_train goes on after {timeout_s:.0f} s")
        if self.process.wait(10) != 0:
            raise Failed(f"offload_train ended with {self.process.returncode}, see log.txt")

    def close(self):
        hosts.end(self.process, signal.SIGKILL)
        self.thread.join()
        self.process.stdout.close()


def train_command(options, address, model, link, path):
    """offload_train of three epochs, the first of which warms everything up."""
    arch = "small_cnn" if options.dry else model
    samples = 240 if options.dry else options.samples
    num_images = max(1, len(image_files.find(options.images)))
    size = ("--image-size", "32") if options.dry else REAL[model]
    return [str(word) for word in (
        options.bin / "offload_train", "--host", address, "--dataset-mode", "remote_auto", "-a", arch, *size,
        "-b", 4 if options.dry else 256, "-j", 2 if options.dry else options.workers, "--lr", "1e-4",
        "--device", "cpu" if options.dry else "cuda", "--repeat", max(1, round(samples / num_images)),
        "--epochs", 3, "-p", 0, "--no-val", "--json", *(["--lend", path] if path else []))]


def run_loader(stage, model, link, is_lent):
    """The epochs of one training, and the requests that came between the first one's end and the last one's."""
    options = stage.options
    cpus = sorted(stage.trainer_cpus)
    server_cpus = set(cpus[:len(cpus) // 2] or cpus)
    train_cpus = set(cpus[len(cpus) // 2:] or cpus)
    path = os.path.join(stage.folder, f"lend-{model}") if is_lent else None
    flags = () if options.dry else ("--prep-workers", str(len(server_cpus)), "--link-limit", link)
    with hosts.server(options.bin, options.images, *flags,
                      run_first=lambda: os.sched_setaffinity(0, server_cpus)) as server:
        trained = Trained(train_command(options, server.address, model, link, path), train_cpus, stage.log)
        try:
            found = None
            if is_lent:
                borrower = stage.get("borrower")
                trained.wait_for_owner(borrower, path, options.loader_s)
            trained.first_epoch(options.loader_s)
            if is_lent:
                borrower.tell({"do": "requests", "num": 10**4, "per_s": PER_S, "seed": SEED, "repeats": 1,
                               "copy": False, "lend": path})
            trained.end(options.loader_s)
            if is_lent:
                borrower.tell({"do": "stop"})
                found = borrower.hear(30)
                borrower.hear(30)
        finally:
            trained.close()
    return trained.epochs, found


def loader(stage):
    """Each model is trained without lending first: its digests and its rate are what the lent training must have."""
    if stage.options.images is None:
        raise Failed("the part needs --images")
    if not (stage.options.bin / "offload_train").exists():
        raise Failed(f"there is no {stage.options.bin}/offload_train")
    stage.kill("trainer")
    stage.ready()
    for model, link in stage.options.links:
        for is_lent in (False, True):
            epochs, found = run_loader(stage, model, link, is_lent)
            last = epochs[-1]["at"]
            ms = [took for came, took in zip(found["came"], found["ms"])
                  if epochs[0]["at"] < came < last] if found else None
            stage.show({"part": "loader", "case": "lent" if is_lent else "plain", "kind": "small", "model": model,
                        "link": link, "ms": ms, "wrong": found["wrong"] if found else 0,
                        "epochs": [{key: epoch.get(key) for key in ("samples", "seconds", "digest", "stalls", "lend")}
                                   for epoch in epochs]})


PARTS = {"gate": gate, "graph": graph, "job": job, "unused": unused, "copy": copy, "tail": tail, "restart": restart,
         "loader": loader}


# --- all ---

def measure(options):
    """Whether every part could be measured."""
    is_well = True
    log = open(options.out / "log.txt", "ab")
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(options, folder, log)

        def give_up():
            print(f"lend: not done after {options.max_seconds:g} s: ended", file=sys.stderr, flush=True)
            try:
                stage.close()
            finally:
                os._exit(1)

        watchdog = threading.Timer(options.max_seconds, give_up)
        watchdog.daemon = True
        watchdog.start()
        begin = time.monotonic()
        try:
            stage.start("borrower", *(["trainer"] if set(options.parts) != {"loader"} else []))
            for part in options.parts:
                try:
                    PARTS[part](stage)
                    stage.show_machine()
                    stage.show({"part": part, "case": "done", "at_s": time.monotonic() - begin})
                except (Failed, OSError, ValueError, subprocess.SubprocessError) as error:
                    is_well = False
                    stage.show({"part": part, "case": "failed", "why": str(error)})
                    stage.kill("trainer", "borrower")
        finally:
            watchdog.cancel()
            stage.close()
            log.close()
    return is_well


def missing(options):
    """Why nothing can be measured, or None; asked of a process, as this one needs no GPU."""
    code = "import torch, torchvision, sluice.lend" + (
        "" if options.dry else "; assert torch.cuda.is_available(), 'there is no GPU'")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=START_S, check=False)
    return (done.stderr.strip().splitlines() or ["it said nothing"])[-1] if done.returncode != 0 else None


def parts(text):
    found = text.split(",")
    if not set(found) <= set(PARTS):
        raise argparse.ArgumentTypeError(f"{text}: words of {', '.join(PARTS)}")
    return found


def links(text):
    found = [word.partition("=")[::2] for word in text.split(",")]
    if not all(model in REAL and rate for model, rate in found):
        raise argparse.ArgumentTypeError(f"{text}: MODEL=RATE with models of {', '.join(REAL)}")
    return found


def parse(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog="See docs/benchmarking/gpu.md.")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the rows and the page")
    parser.add_argument("--parts", type=parts, default=list(PARTS)[:-1],
                        help=f"of {', '.join(PARTS)}. Default: all but loader")
    parser.add_argument("--page", action="store_true", help="measure nothing; make the page of the rows there")
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/release/bin",
                        help="folder of the programs. Default: build/release/bin")
    package.add_option(parser)
    parser.add_argument("--images", type=pathlib.Path, help="folder with a folder of images for each class, for loader")
    parser.add_argument("--links", type=links, default="alexnet=1gbit,resnet50=400mbit",
                        help="the link's rate for each model of loader. Default: %(default)s")
    parser.add_argument("--samples", type=int, default=12000, help="of an epoch of loader, about")
    parser.add_argument("--workers", type=int, default=5, help="-j of offload_train")
    parser.add_argument("--loader-s", type=float, default=100, help="after so many seconds an epoch has failed")
    parser.add_argument("--num", type=int, default=120, help="requests of a case")
    parser.add_argument("--tail", type=int, default=1000, help="requests of a case of tail")
    parser.add_argument("--jobs", type=int, default=10, help="requests of a case of job")
    parser.add_argument("--rounds", type=int, default=10, help="of unused")
    parser.add_argument("--points", type=int, default=40, help="of a step, at which it stops")
    parser.add_argument("--max-seconds", type=float, default=580, help="all processes are killed then")
    parser.add_argument("--dry", action="store_true",
                        help="tiny models on the CPU, which show that everything runs, no more")
    options = parser.parse_args(words)
    if min(options.num, options.tail, options.jobs, options.rounds, options.points, options.samples) < 1:
        parser.error("numbers are above 0")
    if options.images is not None:
        options.images = options.images.resolve()
    options.out, options.bin = options.out.resolve(), options.bin.resolve()
    return options


def main():
    options = parse()
    if options.page:
        try:
            print(lend_page.write(options.out))
        except lend_page.NoRows as error:
            print(f"lend: {error}", file=sys.stderr)
            return 1
        return 0
    package.use(options)
    why = missing(options)
    if why is not None:
        print(f"lend: skipped: {why}", file=sys.stderr)
        return SKIPPED
    options.out.mkdir(parents=True, exist_ok=True)
    return 0 if measure(options) else 1


if __name__ == "__main__":
    sys.exit(main())
