"""The processes of bench/lend: the training that owns the GPU, and the borrower that answers requests.

    python3 -m sluice_bench.lend_processes ROLE SETTINGS     ROLE: trainer, borrower or fresh; SETTINGS: JSON

A process reads one JSON object a line and answers each with one line; all other output goes to standard error.
Times are of CLOCK_MONOTONIC, which all processes share.
"""
import collections
import gc
import json
import math
import os
import queue
import re
import sys
import threading
import time

import sluice.lend
import torch
import torchvision

from .lend_page import arrivals, rate_within

AHEAD = 3        # steps that the host launches before it waits for the GPU
READ_AHEAD = 8   # batches between the feeding thread and the training loop
WARM_STEPS = 6   # of which a gate times the second
WARM_REQUESTS = 10
NUM_INPUTS = 4   # different requests
SPIN_S = 1e-3    # the borrower sleeps until so long before a request


# --- a device: CUDA, or the CPU as a stand-in that shows that everything runs ---

class Device:
    def __init__(self, name):
        self.name, self.is_cuda = name, name == "cuda"
        self.dtype = torch.bfloat16 if self.is_cuda else torch.float32
        torch.backends.cudnn.benchmark = True
        torch.set_num_threads(1)

    def pinned(self, tensor):
        return tensor.pin_memory() if self.is_cuda else tensor

    def synchronize(self):
        if self.is_cuda:
            torch.cuda.current_stream().synchronize()

    def event(self):
        return torch.cuda.Event() if self.is_cuda else _DoneEvent()

    def graph(self, work):
        """work() as one CUDA graph; on the CPU work itself, warm."""
        if not self.is_cuda:
            for _ in range(WARM_STEPS):
                work()
            return work
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_STEPS):
                work()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        return graph.replay

    def words(self):
        if not self.is_cuda:
            return {"device": "cpu"}
        return {"device": torch.cuda.get_device_name(),
                "memory_gib": round(torch.cuda.get_device_properties(0).total_memory / 2**30),
                "cuda": torch.version.cuda, "driver": driver()}


def driver():
    try:
        with open("/proc/driver/nvidia/version", encoding="ascii") as file:
            return re.search(r"\d+\.\d[\d.]*", file.read())[0]
    except OSError:
        return "unknown"


class _DoneEvent:
    def record(self):
        pass

    def query(self):
        return True

    def synchronize(self):
        pass


def toy(num_classes):
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(inplace=True),
        torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
        torch.nn.Linear(8, num_classes))


def make_model(name, num_classes=1000):
    return toy(num_classes) if name == "toy" else getattr(torchvision.models, name)(num_classes=num_classes)


# --- commands ---

class Commands:
    """Lines of standard input, read by a thread, so that work can go on until the next one comes."""

    def __init__(self):
        # Replies go to the first standard output; whatever else prints there goes to the log.
        self.replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self.lines = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in sys.stdin:
            self.lines.put(json.loads(line))
        os._exit(0)  # nobody is left who would want an answer

    def next(self):
        return self.lines.get()

    def is_waiting(self):
        return not self.lines.empty()

    def reply(self, answer):
        self.replies.write(json.dumps(answer) + "\n")
        self.replies.flush()


# --- the owner ---

class Feed:
    """Batches in pinned memory, made ready by a thread at a rate: one each `period` seconds, at once if that is 0.
    The thread waits while READ_AHEAD batches lie there, and does not catch up beyond them."""

    def __init__(self, batches, period):
        self.batches, self.period = batches, period
        self.queue = queue.Queue(READ_AHEAD)
        self.is_over = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        due = time.monotonic()
        number = 0
        while not self.is_over:
            if self.period:
                due = max(due + self.period, time.monotonic() - READ_AHEAD * self.period)
                time.sleep(max(0, due - time.monotonic()))
            batch = self.batches[number % len(self.batches)]
            number += 1
            while not self.is_over:
                try:
                    self.queue.put(batch, timeout=0.1)
                    break
                except queue.Full:
                    pass

    def close(self):
        self.is_over = True
        self.thread.join()


class Trainer:
    def __init__(self, settings):
        self.device = Device(settings["device"])
        self.points = settings["points"]
        torch.manual_seed(1)
        size, batch = settings["image_size"], settings["batch"]
        model = make_model(settings["model"]).to(self.device.name)
        self.model = model.to(self.device.dtype, memory_format=torch.channels_last).train()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 1e-4, momentum=0.9, weight_decay=1e-4)
        self.batches = [self.device.pinned(torch.randint(0, 256, (batch, size, size, 3), dtype=torch.uint8))
                        for _ in range(4)]
        self.pixels = self.batches[0].to(self.device.name, copy=True)
        self.labels = torch.randint(0, 1000, (batch,), device=self.device.name)
        self.batch = batch
        self.graphs = {}  # by whether there is a gate: the step as a graph, and its points
        self.gate = None
        self.owner = sluice.lend.Owner(settings["lend"], device=0 if self.device.is_cuda else -1)

    def work(self):
        images = self.pixels.permute(0, 3, 1, 2).to(self.device.dtype).sub_(118).div_(58)
        self.optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(self.model(images).float(), self.labels).backward()
        self.optimizer.step()

    def set_gate(self, is_on):
        if self.gate is not None:
            self.gate.remove()
            self.gate = None
        if is_on:
            self.gate = sluice.lend.Gate(self.model, lend=self.owner, points=self.points)

    def step_of(self, is_graph, has_gate):
        """The step, warm, and how many points it has.  A graph keeps those that it was captured with."""
        if is_graph and has_gate in self.graphs:
            self.set_gate(False)
            return self.graphs[has_gate]
        self.set_gate(has_gate)
        if is_graph:
            step = self.device.graph(self.work)
            self.graphs[has_gate] = step, self.num_points()
            self.set_gate(False)
            return self.graphs[has_gate]
        for _ in range(WARM_STEPS):
            self.work()
        self.device.synchronize()
        return self.work, self.num_points()

    def num_points(self):
        return self.gate.num_points if self.gate is not None else 0

    def loop(self, step, period, is_over):
        """Steps until is_over(number of steps): when each was done."""
        feed = Feed(self.batches, period)
        in_flight, done = collections.deque(), []

        def note(most):
            while in_flight and (len(in_flight) > most or in_flight[0].query()):
                in_flight.popleft().synchronize()
                done.append(time.monotonic())

        try:
            number = 0
            while not is_over(number):
                try:
                    batch = feed.queue.get(timeout=0.001)
                except queue.Empty:
                    note(AHEAD)
                    continue
                self.pixels.copy_(batch, non_blocking=True)
                step()
                in_flight.append(self.device.event())
                in_flight[-1].record()
                number += 1
                note(AHEAD)
            note(0)
        finally:
            feed.close()
        return done

    def train(self, command, commands):
        """Trains until the next command comes."""
        step, points = self.step_of(command["graph"], command["gate"])
        before = self.owner.counters()
        commands.reply({"points": points})
        done = self.loop(step, command["period"], lambda _: commands.is_waiting())
        commands.next()
        commands.reply({"done": done, "batch": self.batch, "points": points,
                        "lent": grown(before, self.owner.counters())})

    def rate(self, step, seconds):
        """Images a second of steps that are fed as fast as they go."""
        begin = time.monotonic()
        done = self.loop(step, 0, lambda number: number > 2 and time.monotonic() > begin + seconds)
        return self.batch * rate_within(done, done[0], done[-1])

    def alternate(self, command, commands):
        """Rates with and without a gate that nobody uses, by turns."""
        rates, points = {True: [], False: []}, {}
        for number in range(command["rounds"]):
            for has_gate in (True, False) if number % 2 == 0 else (False, True):
                step, points[has_gate] = self.step_of(command["graph"], has_gate)
                rates[has_gate].append(self.rate(step, command["seconds"]))
        self.set_gate(False)
        commands.reply({"with": rates[True], "without": rates[False], "points": points[True]})

    def serve(self, commands):
        commands.reply({**self.device.words(), "torch": torch.__version__, "torchvision": torchvision.__version__})
        while True:
            command = commands.next()
            {"train": self.train, "alternate": self.alternate}[command["do"]](command, commands)


def grown(before, after):
    """What the sums of an owner's counters grew by."""
    return {key: after[key] - before[key] for key in ("requests", "lent_ms", "cost_ms", "taken_back")}


# --- the borrower ---

def wait_until(when):
    left = when - time.monotonic()
    if left > SPIN_S:
        time.sleep(left - SPIN_S)
    while time.monotonic() < when:
        pass


def flatten(model):
    """All parameters and buffers in one block of the device, as views of it; the block."""
    tensors = [tensor for tensor in [*model.parameters(), *model.buffers()] if tensor.is_floating_point()]
    places, end = [], 0
    for tensor in tensors:
        places.append(end)
        end += math.ceil(tensor.numel() / 128) * 128  # cuDNN wants them aligned
    block = torch.empty(end, dtype=tensors[0].dtype, device=tensors[0].device)
    for tensor, place in zip(tensors, places):
        view = block[place:place + tensor.numel()].as_strided(tensor.size(), tensor.stride())
        view.copy_(tensor.data)
        tensor.data = view
    return block


class Borrower:
    def __init__(self, settings):
        self.device = Device(settings["device"])
        torch.manual_seed(2)
        shape = (settings["batch"], 3, settings["image_size"], settings["image_size"])
        model = make_model(settings["model"]).to(self.device.name)
        model = model.to(self.device.dtype, memory_format=torch.channels_last)
        self.inputs = [self.device.pinned(torch.randn(shape).to(self.device.dtype).contiguous(
            memory_format=torch.channels_last)) for _ in range(NUM_INPUTS)]
        self.input = self.inputs[0].to(self.device.name, copy=True)
        with torch.no_grad():
            self._settle(model)
            self.weights = flatten(model)
            self.kept = self.device.pinned(self.weights.to("cpu", copy=True))
            logits = model(self.input).float()
            self.answer = self.device.pinned(torch.empty(logits.shape))
            self.logits = torch.empty_like(logits)
            self.replay = self.device.graph(lambda: self.logits.copy_(model(self.input)))
            self.expected = []
            for number in range(NUM_INPUTS):
                self.run(number, 1, False)
                self.expected.append(self.answer.clone())
        if not all(torch.isfinite(one).all() for one in self.expected):
            raise RuntimeError("the model's answers are not finite")
        state = {key: value.cpu() for key, value in model.state_dict().items()}
        torch.save({"name": settings["model"], "state": state, "input": self.inputs[0], "answer": self.expected[0]},
                   os.path.join(settings["folder"], "model.pt"))

    def _settle(self, model):
        """Gives batch norms the statistics of a batch, or random layers would blow up what passes through them."""
        norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
        for norm in norms:
            norm.momentum = 1.0
        model.train()(self.input)
        model.eval()

    def run(self, number, repeats, is_copied):
        """One request to its answer in host memory."""
        if is_copied:
            self.weights.copy_(self.kept, non_blocking=True)
        self.input.copy_(self.inputs[number], non_blocking=True)
        for _ in range(repeats):
            self.replay()
        self.answer.copy_(self.logits, non_blocking=True)
        self.device.synchronize()

    def request(self, lend, number, repeats, is_copied):
        """When the answer was there."""
        if lend is None:
            self.run(number, repeats, is_copied)
            return time.monotonic()
        with sluice.lend.gpu(lend):
            self.run(number, repeats, is_copied)
            done = time.monotonic()
        return done

    def check(self, number, is_copied):
        """Whether the answer is that of the idle GPU, bit by bit; then poisons what the next one must write."""
        is_right = torch.equal(self.answer.view(torch.int32), self.expected[number].view(torch.int32))
        self.answer.fill_(math.nan)
        if is_copied:
            self.weights.fill_(math.nan)
            self.device.synchronize()
        return is_right

    def requests(self, command, commands):
        """Answers requests: of each the time it came, and the ms from then to its answer."""
        is_copied, repeats, lend = command["copy"], command["repeats"], command["lend"]
        rounds = [*[None] * WARM_REQUESTS, *arrivals(command["seed"], command["num"], command["per_s"])]
        begin, came, took, wrong = None, [], [], 0
        for index, offset in enumerate(rounds):
            if offset is None:
                at = time.monotonic() + 0.01
            else:
                begin = begin or time.monotonic() + 0.05
                at = begin + offset
            wait_until(at)
            number = index % NUM_INPUTS
            done = self.request(lend, number, repeats, is_copied)
            wrong += not self.check(number, is_copied)
            if offset is not None:
                came.append(at)
                took.append(round((done - at) * 1e3, 4))
            if commands.is_waiting():
                break
        if is_copied:
            self.weights.copy_(self.kept)
        commands.reply({"came": came, "ms": took, "wrong": wrong, "end": time.monotonic()})

    def connect(self, path, commands):
        """Says whether somebody lends there; from then on requests go on without it, should it end."""
        try:
            with sluice.lend.gpu(path):
                is_connected = True
        except sluice.NotFoundError:
            is_connected = False
        commands.reply({"is_connected": is_connected})

    def copy_ms(self, commands):
        """The weights' copy alone: the median of 20, on an idle GPU."""
        times = []
        for _ in range(20):
            self.device.synchronize()
            begin = time.monotonic()
            self.weights.copy_(self.kept, non_blocking=True)
            self.device.synchronize()
            times.append((time.monotonic() - begin) * 1e3)
        commands.reply({"ms": sorted(times)[10], "bytes": self.kept.numel() * self.kept.element_size()})

    def serve(self, commands):
        commands.reply({})
        while True:
            command = commands.next()
            if command["do"] == "requests":
                with torch.no_grad():
                    self.requests(command, commands)
            elif command["do"] == "connect":
                self.connect(command["lend"], commands)
            elif command["do"] == "copy":
                self.copy_ms(commands)
            elif command["do"] == "stop":  # of requests that had ended before
                commands.reply({})


def fresh(settings, commands):
    """A process that starts from nothing and answers one request with the model of a file."""
    device = Device(settings["device"])
    torch.backends.cudnn.benchmark = False  # it would take longer than the answer
    kept = torch.load(settings["model_file"])
    if device.is_cuda:  # no time goes into weights that are replaced at once
        with torch.device("meta"):
            model = make_model(kept["name"])
        model.load_state_dict(kept["state"], assign=True)
    else:
        model = make_model(kept["name"])
        model.load_state_dict(kept["state"])
    model = model.to(device.name).eval()
    with torch.no_grad():
        answer = model(kept["input"].to(device.name)).float().cpu()
    error = ((answer - kept["answer"]).norm() / kept["answer"].norm()).item()
    commands.reply({"error": error})


def main():
    role, settings = sys.argv[1], json.loads(sys.argv[2])
    commands = Commands()
    try:
        if role == "fresh":
            fresh(settings, commands)
            return
        process = {"trainer": Trainer, "borrower": Borrower}[role](settings)
        gc.collect()
        gc.freeze()
        if role == "borrower":
            gc.disable()
        process.serve(commands)
    except Exception as error:  # pylint: disable=broad-except  # whatever it was, it goes to who asked
        commands.reply({"failed": f"{type(error).__name__}: {error}"})
        raise


if __name__ == "__main__":
    main()
