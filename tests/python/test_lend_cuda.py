#!/usr/bin/env python3
"""sluice.lend on a GPU: points in eager training and in CUDA graphs, borrowers that are killed at random, and what training
learns meanwhile, bit for bit.  With a bundle of the package:

    PYTHONPATH=BUNDLE/python python3 tests/python/test_lend_cuda.py
"""
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # deterministic sums; before CUDA starts

import support

support.require("torch", "torchvision")

import torch
import torchvision

if not torch.cuda.is_available():
    support.skip("torch finds no GPU")

import sluice.programs
import sluice.torch
from sluice import lend

BATCH = 64
TAKES = 1000

# Takes, holds and gives back, until it is killed, at a random moment.
KILLED = """
import os, random, signal, sys, threading, time
from sluice import _sluice

draw = random.Random(int(sys.argv[2]))
life_s = draw.uniform(0, 0.15)
threading.Thread(target=lambda: (time.sleep(life_s), os.kill(os.getpid(), signal.SIGKILL)), daemon=True).start()
borrower = _sluice.Borrower(sys.argv[1], 0, 0)
while True:
    ticket = borrower.take()
    if draw.random() < 0.5:
        time.sleep(draw.uniform(0, 0.002))
    borrower.give(ticket)
    time.sleep(draw.uniform(0, 0.01))
"""

# Computes on the GPU, and compares with what it computed before anybody trained.
SERVER = """
import sys, threading, torch
from sluice import lend

def work():
    y = x
    for _ in range(20):
        y = torch.tanh(y @ x)
    return y

x = torch.randn(1024, 1024, device="cuda", generator=torch.Generator("cuda").manual_seed(2)) / 32
wanted = work().clone()
print("ready", flush=True)
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
answers = wrong = 0
while not ended.wait(0.005):
    with lend.gpu(sys.argv[1]):
        answer = work()
    wrong += not torch.equal(answer, wanted)
    answers += 1
print(answers, wrong, flush=True)
"""

HOLD = """
import sys
from sluice import lend
with lend.gpu(sys.argv[1]):
    print("has", flush=True)
    sys.stdin.readline()
print("gave", flush=True)
"""


def start(program, *arguments, **options):
    return subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)], text=True, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, **options)


@contextlib.contextmanager
def killed_borrowers(path, num=4):
    """So many at a time; each that dies is followed by another."""
    ended = threading.Event()
    seeds = itertools.count()

    def keep_up():
        while not ended.is_set():
            process = start(KILLED, path, next(seeds), stderr=subprocess.DEVNULL)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
            process.communicate()

    threads = [threading.Thread(target=keep_up) for _ in range(num)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


class Training:
    """ResNet-18 on a few batches that repeat, with the same draws each time."""

    def __init__(self, batch=BATCH, side=224):
        torch.manual_seed(1)
        self.model = torchvision.models.resnet18(num_classes=100).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        generator = torch.Generator("cuda").manual_seed(3)
        self.images = torch.randn(4, batch, 3, side, side, device="cuda", generator=generator)
        self.labels = torch.randint(100, (4, batch), device="cuda", generator=generator)
        self.losses = []

    def forward_and_backward(self, images, labels):
        self.optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(self.model(images), labels)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def step(self):
        i = len(self.losses) % 4
        self.losses.append(self.forward_and_backward(self.images[i], self.labels[i]))

    def learned(self):
        """Losses and state, on the host."""
        return [torch.stack(self.losses).cpu(), *(value.cpu() for value in self.model.state_dict().values())]


class Counted:
    """How often a Gate's points are reached."""

    def __init__(self, gate):
        self.count = 0
        point = gate._point

        def counted(stream):
            self.count += 1
            point(stream)

        gate._point = counted

    def taken(self):
        count, self.count = self.count, 0
        return count


class LendCudaTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.benchmark = False

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = os.path.join(folder.name, "lend")

    def owner(self, **options):
        owner = lend.Owner(self.path, **options)
        self.addCleanup(owner.close)
        return owner

    def holder(self):
        process = start(HOLD, self.path)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "has\n")
        return process

    def assert_same(self, learned, wanted):
        for i, (one, other) in enumerate(zip(learned, wanted, strict=True)):
            self.assertTrue(torch.equal(one, other), f"{i}: {one} is not {other}")

    def assert_stands_until_given_back(self, holder):
        """What is on the current stream: it waits while the process holds the GPU."""
        event = torch.cuda.Event()
        event.record()
        time.sleep(0.3)
        self.assertFalse(event.query())
        holder.communicate("\n")
        event.synchronize()

    def test_a_stream_waits_at_a_point(self):
        owner = self.owner(at_most_ms=60000)
        owner.point()
        x = torch.zeros(1, device="cuda").add_(1)  # what is used for the first time may wait for all streams
        torch.cuda.synchronize()
        holder = self.holder()
        owner.point()
        self.assert_stands_until_given_back(holder)
        stream = torch.cuda.Stream()
        holder = self.holder()
        owner.point(stream.cuda_stream)
        x.add_(1)
        torch.cuda.current_stream().synchronize()  # of another stream
        with torch.cuda.stream(stream):
            self.assert_stands_until_given_back(holder)

    def test_a_stopped_borrower_loses_the_gpu(self):
        owner = self.owner(at_most_ms=200)
        holder = self.holder()
        holder.send_signal(signal.SIGSTOP)
        owner.point()
        torch.cuda.synchronize()
        self.assertEqual(owner.counters()["requests"], 1)
        holder.send_signal(signal.SIGCONT)

    def test_about_40_points_in_eager_training_forward_and_backward(self):
        training = Training()
        gate = lend.Gate(training.model, self.path)
        self.addCleanup(gate.remove)
        counted = Counted(gate)
        made = []
        for _ in range(5):
            training.step()
            made.append(counted.taken())
        print(f"points of steps 1 to 5: {made}", flush=True)
        self.assertEqual(made[:2], [1, 1])
        self.assertEqual(made[2:], [gate.num_points] * 3)
        self.assertGreaterEqual(gate.num_points, 25)
        self.assertLessEqual(gate.num_points, 40)
        training.model.eval()
        with torch.no_grad():
            training.model(training.images[0])
        self.assertGreater(counted.taken(), 5)

    def test_a_thousand_takes_and_kills_change_no_bit(self):
        two = []
        for _ in range(2):
            training = Training()
            for _ in range(12):
                training.step()
            two.append(training.learned())
        self.assert_same(*two)  # else this GPU is not deterministic, and nothing below means anything

        training = Training()
        gate = lend.Gate(training.model, self.path)
        self.addCleanup(gate.remove)
        server = start(SERVER, self.path)
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        self.assertEqual(server.stdout.readline(), "ready\n")
        until = time.monotonic() + 200
        with killed_borrowers(self.path):
            while (counters := gate.owner.counters())["requests"] < TAKES or counters["taken_back"] < 20:
                self.assertLess(time.monotonic(), until, counters)
                training.step()
            torch.cuda.synchronize()
        answers = server.communicate("")[0].split()
        print(f"{len(training.losses)} steps, {gate.num_points} points a step, {answers[0]} answers, {gate.owner.counters()}",
              flush=True)
        self.assertGreater(int(answers[0]), 0)
        self.assertEqual(answers[1], "0")

        alone = Training()
        for _ in training.losses:
            alone.step()
        self.assert_same(training.learned(), alone.learned())

    def replayed(self, gate_after, num=200):
        """What a graph of steps learns; the gate is made after that many eager steps (of 3), or never."""
        training = Training(batch=32)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        gate = counted = points = None
        with torch.cuda.stream(stream):
            for i in range(3):
                if i == gate_after:
                    gate = lend.Gate(training.model, self.path)
                    counted = Counted(gate)
                training.step()
        torch.cuda.current_stream().wait_stream(stream)
        images, labels = training.images[0].clone(), training.labels[0].clone()
        if counted:
            counted.taken()
        graph = torch.cuda.CUDAGraph()
        training.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            loss = training.forward_and_backward(images, labels)
        if counted:
            points = counted.taken()
        with killed_borrowers(self.path) if gate else contextlib.nullcontext():
            for i in range(num):
                images.copy_(training.images[i % 4])
                labels.copy_(training.labels[i % 4])
                graph.replay()
                training.losses.append(loss.clone())
            torch.cuda.synchronize()
        return training, graph, gate, points

    def test_graphs_have_points_and_run_after_the_end_of_lending(self):
        wanted = self.replayed(None)[0].learned()
        for gate_after in (0, 2):  # with the times of layers, and without
            with self.subTest(gate_after=gate_after):
                training, graph, gate, points = self.replayed(gate_after)
                print(f"gate after {gate_after} steps: {points} points in the graph, {gate.owner.counters()}", flush=True)
                self.assert_same(training.learned(), wanted)
                self.assertGreaterEqual(points, 20)
                self.assertLessEqual(points, 42)
                holder = self.holder()
                graph.replay()
                self.assert_stands_until_given_back(holder)
                gate.remove()
                gate.owner.close()
                graph.replay()
                torch.cuda.synchronize()
                self.assertFalse(os.path.exists(self.path))

    def test_a_loader_lends(self):
        root = os.path.join(self.folder, "set")
        subprocess.run([sluice.programs.find("offload_dataset"), "synth", root, "--num", "512", "--num-val", "0",
                        "--classes", "4"], check=True, stdout=subprocess.DEVNULL)
        made = []
        for options in ({}, {"lend": self.path}):
            training = Training(batch=1)
            with sluice.torch.Loader(root, 16, device="cuda", seed=3, **options) as loader:
                digests = []
                with killed_borrowers(self.path) if options else contextlib.nullcontext():
                    for _ in range(3):
                        for images, labels in loader:
                            training.losses.append(training.forward_and_backward(images, labels))
                        digests.append(loader.stats()["digest"])
                made.append((digests, training.learned()))
                if options:
                    print(f"decoded on the GPU: {loader.counters()['on_gpu']}, {loader._lending.gate.num_points} points, "
                          f"{loader.counters()['lend']}, {loader.stats()['lend']}", flush=True)
                    self.assertGreaterEqual(loader._lending.gate.num_points, 20)
                    self.assertGreater(loader.counters()["lend"]["requests"], 20)
        self.assertFalse(os.path.exists(self.path))
        self.assertEqual(made[1][0], made[0][0])
        self.assert_same(made[1][1], made[0][1])

    def test_a_trainer_ends_though_a_stopped_borrower_has_the_gpu(self):
        trainer = start("""
import sys, torch
from sluice import lend
owner = lend.Owner(sys.argv[1], at_most_ms=600000)
x = torch.ones(1, device="cuda")
x += 1
print("lends", flush=True)
sys.stdin.readline()
owner.point()
x += 1
print("waits", flush=True)
""", self.path)
        self.addCleanup(trainer.kill)
        self.assertEqual(trainer.stdout.readline(), "lends\n")
        holder = self.holder()
        holder.send_signal(signal.SIGSTOP)
        self.assertEqual(trainer.communicate("\n", timeout=60)[0], "waits\n")
        self.assertEqual(trainer.returncode, 0)
        holder.send_signal(signal.SIGCONT)


if __name__ == "__main__":
    support.main()
