#!/usr/bin/env python3
"""sluice.lend: an owner and borrowers in processes of their own, which also die and stop, and the points that a Gate puts
between the layers of a model, here on the CPU with a clock of the test's.  test_lend_cuda.py has the same on a GPU."""
import copy
import gc
import itertools
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from unittest import mock

import support

import sluice
from sluice import _loop, _owner, lend

try:
    import torch
    from sluice import _gate
    import sluice.torch
except ImportError:
    torch = None
try:
    import torchvision
except (ImportError, RuntimeError):
    torchvision = None

needs_torch = unittest.skipIf(torch is None, "python3-torch is missing")


# --- an owner and borrowers ---

BORROWER = """
import os, signal, sys, threading
from sluice import _sluice, lend
import sluice

path = sys.argv[1]

def say(*words):
    print(*words, flush=True)
"""


class Borrower:
    """A process that runs lines of Python, with `path`, say() and what BORROWER imports."""

    def __init__(self, path, program):
        self._process = subprocess.Popen([sys.executable, "-c", BORROWER + textwrap.dedent(program), path], text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.kill()
        self._process.communicate()

    def hear(self):
        """The next line that it says."""
        return self._process.stdout.readline().strip()

    def go_on(self):
        """Ends its input()."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def send(self, number):
        self._process.send_signal(number)


HOLD = """
    with lend.gpu(path):
        say("has")
        input()
    say("gave")
    input()
"""


class OwnerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "lend")

    def owner(self, **options):
        owner = lend.Owner(self.path, **{"at_most_ms": 60000, "device": -1, **options})
        self.addCleanup(owner.close)
        return owner

    def borrower(self, program):
        return self.enterContext(Borrower(self.path, program))

    def wait_until_taken_back(self, owner):
        """The owner counts it after its points go on."""
        until = time.monotonic() + 30
        while owner.counters()["taken_back"] == 0:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.001)
        self.assertEqual(owner.counters()["taken_back"], 1)

    @staticmethod
    def begin_point(owner):
        thread = threading.Thread(target=owner.point)
        thread.start()
        return thread

    def test_a_point_waits_while_a_borrower_has_the_gpu(self):
        owner = self.owner()
        owner.point()
        self.assertTrue(_loop._lends())
        borrower = self.borrower(HOLD)
        self.assertEqual(borrower.hear(), "has")
        self.assertEqual(owner.counters()["borrowers"], 1)
        thread = self.begin_point(owner)
        thread.join(0.1)
        self.assertTrue(thread.is_alive())
        borrower.go_on()
        thread.join()
        self.assertEqual(borrower.hear(), "gave")
        counters = owner.counters()
        self.assertEqual((counters["requests"], counters["taken_back"]), (1, 0))
        self.assertGreaterEqual(counters["lent_ms"], 100)
        self.assertEqual(counters["cost_ms"], counters["lent_ms"])
        self.assertGreaterEqual(counters["wait_p99_ms"], counters["wait_p50_ms"])

    def test_a_killed_borrower_leaves_the_gpu(self):
        owner = self.owner()
        borrower = self.borrower(HOLD)
        self.assertEqual(borrower.hear(), "has")
        thread = self.begin_point(owner)
        borrower.send(signal.SIGKILL)
        thread.join()
        self.wait_until_taken_back(owner)

    def test_a_stopped_borrower_loses_the_gpu_and_can_take_it_again(self):
        owner = self.owner(at_most_ms=100)
        borrower = self.borrower("""
            borrower = _sluice.Borrower(path, 0, 0)
            ticket = borrower.take()
            say("has")
            input()
            say(borrower.give(ticket))
            say(borrower.give(borrower.take()))
        """)
        self.assertEqual(borrower.hear(), "has")
        borrower.send(signal.SIGSTOP)
        owner.point()
        self.wait_until_taken_back(owner)
        borrower.send(signal.SIGCONT)
        borrower.go_on()
        self.assertEqual([borrower.hear(), borrower.hear()], ["False", "True"])

    def test_a_borrower_may_have_a_shorter_limit_of_its_own(self):
        owner = self.owner()
        borrower = self.borrower(HOLD.replace("path", "path, at_most_ms=50"))
        self.assertEqual(borrower.hear(), "has")
        owner.point()
        self.wait_until_taken_back(owner)

    def test_blocks_run_without_an_owner_that_has_ended_and_with_the_next(self):
        first = self.owner()
        borrower = self.borrower("""
            for i in range(4):
                with lend.gpu(path):
                    say(i)
                input()
        """)
        self.assertEqual(borrower.hear(), "0")
        first.close()
        for i in "12":  # it hears of the end, and then there is nobody
            borrower.go_on()
            self.assertEqual(borrower.hear(), i)
        second = self.owner()
        borrower.go_on()
        self.assertEqual(borrower.hear(), "3")
        self.assertEqual(second.counters()["requests"], 1)

    def test_an_owner_that_comes_at_once_is_asked_in_the_same_block(self):
        first = self.owner()
        borrower = self.borrower("""
            for i in range(2):
                with lend.gpu(path):
                    say(i)
                input()
        """)
        self.assertEqual(borrower.hear(), "0")
        first.close()
        second = self.owner()
        borrower.go_on()
        self.assertEqual(borrower.hear(), "1")
        self.assertEqual(second.counters()["requests"], 1)

    def test_threads_take_turns_and_blocks_within_blocks_do_nothing(self):
        owner = self.owner()
        borrower = self.borrower("""
            import time
            inside = most = 0

            def work():
                global inside, most
                for _ in range(50):
                    with lend.gpu(path):
                        inside += 1
                        time.sleep(0)  # other threads may run
                        most = max(most, inside)
                        with lend.gpu(path), lend.gpu(path, priority=1), lend.gpu(path, at_most_ms=5):
                            pass
                        inside -= 1

            threads = [threading.Thread(target=work) for _ in range(4)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            say(most)
            input()
        """)
        self.assertEqual(borrower.hear(), "1")
        counters = owner.counters()
        self.assertEqual((counters["requests"], counters["borrowers"]), (200, 1))

    def test_an_exception_of_the_block_gives_the_gpu_back(self):
        owner = self.owner()
        borrower = self.borrower("""
            try:
                with lend.gpu(path):
                    raise KeyError("mine")
            except KeyError as error:
                say(error)
            input()
        """)
        self.assertEqual(borrower.hear(), "'mine'")
        owner.point()
        self.assertEqual(owner.counters()["taken_back"], 0)

    def test_timeout_and_interrupt_end_a_wait(self):
        owner = self.owner(share="idle")  # nothing was waited for
        borrower = self.borrower("""
            for timeout in (0.05, 1.1):  # longer than the waits between which signals are looked for
                try:
                    with lend.gpu(path, timeout=timeout):
                        say("has")
                except sluice.AgainError as error:
                    say(error)
            try:
                say("waits")
                with lend.gpu(path):
                    say("has")
            except KeyboardInterrupt:
                say("interrupted")
        """)
        for seconds in ("0.05", "1.1"):
            self.assertEqual(borrower.hear(), f"the GPU was not lent within {seconds} s")
        self.assertEqual(borrower.hear(), "waits")
        borrower.send(signal.SIGINT)
        self.assertEqual(borrower.hear(), "interrupted")
        self.assertEqual(owner.counters()["requests"], 0)

    def test_a_signal_that_comes_while_the_gpu_is_taken_does_not_keep_it(self):
        owner = self.owner()
        borrower = self.borrower("""
            import ctypes, functools
            borrower = _sluice.Borrower(path, 0, 0)
            interrupt = functools.partial(getattr(ctypes.PyDLL(None), "raise"), signal.SIGINT)
            try:  # Python does not look at signals between the two
                list(map(functools.partial.__call__, [interrupt, functools.partial(borrower.take)]))
                say("has")
            except KeyboardInterrupt:
                say("interrupted")
            ticket = borrower.take(60)
            say(borrower.give(ticket))
            input()
        """)
        self.assertEqual(borrower.hear(), "interrupted")
        self.assertEqual(borrower.hear(), "True")
        owner.point()
        counters = owner.counters()
        self.assertEqual((counters["requests"], counters["taken_back"]), (2, 0))

    def test_a_signal_at_the_begin_or_end_of_a_block_does_not_keep_it(self):
        owner = self.owner()
        borrower = self.borrower("""
            class Interrupted(set):
                def add(self, item):
                    super().add(item)
                    if self.at == "begin":
                        raise KeyboardInterrupt

                def discard(self, item):
                    super().discard(item)
                    if self.at == "end":
                        raise KeyboardInterrupt

            for Interrupted.at in ("begin", "end"):
                lend._here.taken = Interrupted()
                try:
                    with lend.gpu(path):
                        say("has")
                except KeyboardInterrupt:
                    say("interrupted")
            lend._here.taken = set()
            with lend.gpu(path, timeout=5):
                say("again")
            input()
        """)
        self.assertEqual([borrower.hear() for _ in range(4)], ["interrupted", "has", "interrupted", "again"])
        counters = owner.counters()
        self.assertEqual((counters["requests"], counters["taken_back"]), (3, 0))

    def test_a_share_of_the_time(self):
        self.owner(share=0.01)
        borrower = self.borrower("""
            with lend.gpu(path):
                say("has")
                input()
            try:
                with lend.gpu(path, timeout=0.05):
                    say("has")
            except sluice.AgainError:
                say("not now")
        """)
        self.assertEqual(borrower.hear(), "has")
        time.sleep(0.3)  # more than what a start has, and what 0.01 of a second adds
        borrower.go_on()
        self.assertEqual(borrower.hear(), "not now")

    def test_a_forked_child_of_a_borrower_connects_for_itself(self):
        owner = self.owner()
        borrower = self.borrower("""
            with lend.gpu(path):
                pass
            child = os.fork()
            with lend.gpu(path):
                say("has")
            if not child:
                os._exit(0)
            os.waitpid(child, 0)
            say("ended")
            input()
        """)
        self.assertEqual([borrower.hear() for _ in range(3)], ["has", "has", "ended"])
        self.assertEqual(owner.counters()["requests"], 3)

    def test_a_forked_child_of_an_owner_ends_nothing(self):
        owner = self.owner()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                owner.point()
                owner.close()
                _owner._stop_owners()
                code = 0
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        borrower = self.borrower(HOLD)
        self.assertEqual(borrower.hear(), "has")
        borrower.go_on()
        self.assertEqual(borrower.hear(), "gave")
        self.assertEqual(owner.counters()["requests"], 1)

    def test_an_owner_that_ends_or_is_dropped_lends_nothing(self):
        for end in ("", "del owner", "os._exit(0)"):
            with self.subTest(end=end):
                with Borrower(self.path, f"""
                    owner = lend.Owner(path, device=-1)
                    say("lends")
                    input()
                    {end}
                """) as owner:
                    self.assertEqual(owner.hear(), "lends")
                    borrower = self.borrower("""
                        with lend.gpu(path):
                            say("has")
                        input()
                        with lend.gpu(path):
                            say("without")
                    """)
                    self.assertEqual(borrower.hear(), "has")
                    owner.go_on()
                    self.assertEqual(owner.hear(), "")  # its end
                borrower.go_on()
                self.assertEqual(borrower.hear(), "without")
                self.assertEqual(os.path.exists(self.path), end == "os._exit(0)")

    def test_an_owner_without_a_device_that_is_dropped_leaves_no_thread_or_descriptor(self):
        def held():
            return [len(os.listdir(f"/proc/self/{kind}")) for kind in ("task", "fd")]

        lend.Owner(self.path, device=-1).close()  # what the first one starts stays
        before = held()
        for _ in range(3):
            lend.Owner(self.path, device=-1)
        until = time.monotonic() + 30
        while held() != before:  # a thread that was joined may be listed for a moment
            self.assertLess(time.monotonic(), until, (held(), before))
            time.sleep(0.001)

    def test_nothing_after_close(self):
        owner = self.owner()
        owner.stop()
        owner.point()
        self.assertEqual(owner.counters()["requests"], 0)
        owner.close()
        owner.close()
        owner.point()
        with self.assertRaisesRegex(sluice.ClosedError, "lending was closed"):
            owner.counters()
        self.assertFalse(os.path.exists(self.path))

    def test_a_graph_with_points_keeps_the_page(self):
        owner = self.owner()
        owner.keep_page()
        owner.close()
        self.assertEqual(owner.counters()["requests"], 0)  # of the page
        with self.assertRaisesRegex(sluice.NotFoundError, re.escape(self.path)):
            with lend.gpu(self.path):
                pass

    def test_refusals(self):
        with self.assertRaisesRegex(sluice.NotFoundError, re.escape(self.path)):
            with lend.gpu(self.path):
                pass
        owner = self.owner()
        with self.assertRaisesRegex(sluice.InvalidError, "this process lends the GPU"):
            with lend.gpu(self.path):
                pass
        self.assertEqual(owner.counters()["requests"], 0)
        with self.assertRaisesRegex(sluice.InvalidError, re.escape(self.path)):
            lend.Owner(self.path, device=-1)
        for text, options in (("share='often'", {"share": "often"}), ("share=1", {"share": 1}), ("share=0", {"share": 0}),
                              ("share=None", {"share": None}), ("share=\\[", {"share": [0.3]}),
                              ("allow='root'", {"allow": "root"}), ("allow=0", {"allow": 0}), ("allow='root'", {"allow": ["root"]}),
                              ("allow=-1", {"allow": [0, -1]}), (f"allow={1 << 40}", {"allow": [1 << 40]}),
                              ("at_most_ms=0", {"at_most_ms": 0}), ("at_most_ms=0.5", {"at_most_ms": 0.5}),
                              (f"at_most_ms={1 << 32}", {"at_most_ms": 1 << 32}),
                              ("device=-2", {"device": -2}), ("device='cuda'", {"device": "cuda"})):
            with self.subTest(text=text), self.assertRaisesRegex(sluice.InvalidError, f"^{text}"):
                lend.Owner(f"{self.path}.other", **{"device": -1, **options})
        for text, options in (("priority=-1", {"priority": -1}), (f"priority={1 << 32}", {"priority": 1 << 32}),
                              ("priority='high'", {"priority": "high"}), ("at_most_ms=0", {"at_most_ms": 0}),
                              ("at_most_ms=-5", {"at_most_ms": -5}), ("timeout='1 s'", {"timeout": "1 s"})):
            with self.subTest(text=text), self.assertRaisesRegex(sluice.InvalidError, f"^{text}"), lend.gpu(self.path, **options):
                pass
        with self.assertRaisesRegex(ValueError, "not a user's id"):
            sluice._sluice.Lend(f"{self.path}.other", sluice._sluice.LEND_ALWAYS, 0.0, [1 << 40], 0, -1)

    def test_why_a_gpu_cannot_be_lent(self):
        _owner._probe.cache_clear()
        if torch is not None and torch.cuda.is_available():
            self.skipTest("there is a GPU")
        with self.assertRaisesRegex(sluice.UnsupportedError, "^this GPU cannot be lent: .*libcuda"):
            lend.Owner(self.path)
        with mock.patch.object(_owner, "_PROBE_S", 0), self.assertRaisesRegex(sluice.UnsupportedError, "within 0 s"):
            lend.Owner(self.path)
        with mock.patch.object(sys, "executable", "/bin/false"), \
                self.assertRaisesRegex(sluice.UnsupportedError, "ended with 1"):
            lend.Owner(self.path)

    @unittest.skipIf(torchvision is None, "python3-torchvision is missing")
    def test_the_example_of_a_server_answers(self):
        from PIL import Image
        owner = self.owner()
        paths = [f"{self.path}.{i}.png" for i in range(2)]
        for i, path in enumerate(paths):
            Image.new("RGB", (300, 260), (200, 90 * i, 10)).save(path)
        example = os.path.join(os.path.dirname(__file__), "../../examples/lend_server.py")
        done = subprocess.run([sys.executable, example, self.path], input="\n".join(paths), text=True, check=True,
                              stdout=subprocess.PIPE, env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"})
        self.assertRegex(done.stdout, rf"^{re.escape(paths[0])}: class \d+\n{re.escape(paths[1])}: class \d+\n$")
        self.assertEqual(owner.counters()["requests"], 2)

    def test_what_there_is_in_the_module(self):
        with self.assertRaisesRegex(AttributeError, "no attribute 'Key'"):
            lend.Key


# --- a loader ---

@needs_torch
class LoaderTest(support.SetTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "lend")

    def loader(self, **options):
        return self.enterContext(sluice.torch.Loader(
            self.root, 8, **{"pipeline": support.PIPELINE, "workers": 2, "seed": 3, "lend": self.path, **options}))

    def lending(self):
        """Of a loader on the host, which looks for a module there, too."""
        self.made = self.loader()
        lending = self.made._lending
        lending._device = torch.device("cpu")
        lending._look_for_a_module()
        return lending

    def test_batches_wait_and_are_the_same(self):
        with sluice.torch.Loader(self.root, 8, pipeline=support.PIPELINE, seed=3) as loader:
            wanted = [images.clone() for images, _ in loader]
            digest = loader.stats()["digest"]
            self.assertIsNone(loader.lend)
            self.assertNotIn("lend", loader.counters())
        loader = self.loader(lend_at_most_ms=60000)
        borrower = self.enterContext(Borrower(self.path, HOLD))
        self.assertEqual(borrower.hear(), "has")
        made = []
        thread = threading.Thread(target=lambda: made.extend(images.clone() for images, _ in loader))
        thread.start()
        thread.join(0.2)
        self.assertEqual(made, [])
        borrower.go_on()
        thread.join()
        self.assertEqual(len(made), len(wanted))
        self.assertTrue(all(map(torch.equal, made, wanted)))
        self.assertEqual(loader.stats()["digest"], digest)
        self.assertEqual(loader.stats()["lend"]["requests"], 1)
        self.assertGreater(loader.stats()["lend"]["lent_ms"], 0)
        self.assertEqual(loader.counters()["lend"]["requests"], 1)
        self.assertIs(loader.counters()["lend"]["taken_back"], 0)
        loader.close()
        self.assertFalse(os.path.exists(self.path))

    def test_what_a_loader_lends_by_is_closed_after_it(self):
        loader = self.loader()
        with self.assertRaisesRegex(sluice.InvalidError, "close the loader"):
            loader.lend.close()
        self.assertEqual(sum(len(labels) for _, labels in loader), support.NUM_TRAIN)
        with self.assertRaisesRegex(sluice.InvalidError, "lends already"):
            loader._loader.set_lend(loader.lend._lend)
        loader.close()
        loader.lend.close()
        with sluice.torch.Loader(self.root, 8) as other:
            with self.assertRaisesRegex(sluice.ClosedError, "lending was closed"):
                other._loader.set_lend(loader.lend._lend)
            with self.assertRaisesRegex(TypeError, "takes a Lend, not 'lend'"):
                other._loader.set_lend("lend")
            next(iter(other))
            with lend.Owner(self.path, device=-1) as owner, self.assertRaisesRegex(sluice.InvalidError, "first epoch"):
                other._loader.set_lend(owner._lend)

    def test_refusals(self):
        for options in ({"lend_share": "idle"}, {"lend_allow": [0]}, {"lend_at_most_ms": 5}):
            with self.assertRaisesRegex(sluice.InvalidError, "they go with lend"):
                self.loader(lend=None, **options)
        with self.assertRaisesRegex(sluice.InvalidError, "lend: there are 2 ranks"):
            self.loader(rank=0, world_size=2)
        with self.assertRaisesRegex(sluice.InvalidError, "share='never'"):
            self.loader(lend_share="never")
        self.assertFalse(os.path.exists(self.path))

    def test_the_first_module_that_trains_gets_a_gate(self):
        lending = self.lending()
        model = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.ReLU())
        frozen = torch.nn.Linear(1, 1).requires_grad_(False)
        with torch.no_grad():
            model(torch.ones(1))
        model.eval()(torch.ones(1))
        frozen(torch.ones(1))
        torch.nn.ReLU()(torch.ones(1))
        self.assertIsNone(lending.gate)
        model.train()
        for _ in range(3):
            step(model)
        self.assertIs(lending.gate._model, model)
        self.assertGreater(lending.gate.num_points, 1)  # its first step was that in which it was found
        self.assertFalse(torch.nn.modules.module._global_forward_pre_hooks)
        lending.gate.remove()

    def test_a_module_with_a_gate_of_the_loop_s_own_gets_no_second_one(self):
        lending = self.lending()
        model = layers([], a=1, b=1)
        gate = lend.Gate(model, self.made)
        for _ in range(3):
            step(torch.nn.Sequential(model))
        self.assertIsNone(lending.gate)
        other = layers([], a=1)
        lend.Gate(other, Recorder())
        lending._look_for_a_module()
        step(other)
        self.assertIs(lending.gate._model, other)  # one owner's Gate has no points of another's
        self.assertFalse(torch.nn.modules.module._global_forward_pre_hooks)
        self.assertGreater(gate.num_points, 1)

    def test_a_loader_that_is_dropped_lends_nothing_and_leaves_no_hooks(self):
        for has_gate in (False, True):
            with self.subTest(has_gate=has_gate):
                loader = sluice.torch.Loader(self.root, 8, lend=self.path)
                lending = loader._lending
                lending._device = torch.device("cpu")
                lending._look_for_a_module()
                model = layers([], a=1)
                if has_gate:
                    step(model)
                    self.assertIsNotNone(lending.gate)
                self.assertTrue(os.path.exists(self.path))
                del loader
                gc.collect()
                self.assertFalse(os.path.exists(self.path))
                self.assertFalse(torch.nn.modules.module._global_forward_pre_hooks)
                self.assertFalse(model._forward_pre_hooks or model._forward_hooks)

    def test_what_cannot_have_a_gate_gets_one_warning(self):
        for kind, text in (("OptimizedModule", "torch.compile"), ("DistributedDataParallel", "for several GPUs")):
            with self.subTest(kind=kind):
                lending = self.lending()
                model = type(kind, (torch.nn.Sequential,), {})(torch.nn.Linear(1, 1))
                with self.assertLogs("sluice", "WARNING") as logs:
                    for _ in range(2):
                        step(model)
                self.assertEqual(len(logs.output), 1)
                self.assertRegex(logs.output[0], f"lend: .*{text}.*lent between batches only$")
                self.assertIsNone(lending.gate)
                self.assertFalse(torch.nn.modules.module._global_forward_pre_hooks)
                self.made.close()

    def test_a_loop_without_a_module_gets_one_warning(self):
        lending = self.lending()
        with self.assertLogs("sluice", "WARNING") as logs:
            for _ in range(6):
                lending.next_batch()
        self.assertEqual(len(logs.output), 1)
        self.assertRegex(logs.output[0], "no torch.nn.Module trained on cpu so far")
        self.assertFalse(torch.nn.modules.module._global_forward_pre_hooks)

    def test_a_gate_by_the_loader_or_a_path(self):
        model = torch.nn.Linear(1, 1)
        loader = self.loader()
        gate = lend.Gate(model, loader)
        self.assertIs(gate.owner, loader.lend)
        gate.remove()
        self.assertTrue(os.path.exists(self.path))
        loader.close()
        gate = lend.Gate(model, self.path)
        self.assertEqual(gate.owner.device, -1)
        step(model)
        self.assertTrue(os.path.exists(self.path))
        gate.remove()
        self.assertFalse(os.path.exists(self.path))


# --- points in a model ---

class Recorder:
    """An owner that writes its points into the log, in which layers are, too."""
    device = -1

    def __init__(self):
        self.log = []

    def point(self, stream):
        self.log.append("point")

    def keep_page(self):
        pass


class Clock:
    """Events on a clock that the layers of Step turn."""
    now = 0.0

    def __init__(self, enable_timing):
        pass

    def record(self):
        self._ms = Clock.now

    def synchronize(self):
        pass

    def elapsed_time(self, later):
        return later._ms - self._ms


if torch is not None:
    class Step(torch.autograd.Function):
        """The identity, which takes some ms forward and backward, and says so."""

        @staticmethod
        def forward(ctx, x, layer):
            ctx.layer = layer
            layer.log.append(f"{layer.name}>")
            Clock.now += layer.ms
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            ctx.layer.log.append(f"<{ctx.layer.name}")
            Clock.now += 2 * ctx.layer.ms
            return grad, None

    class Layer(torch.nn.Module):
        def __init__(self, name, ms, log):
            super().__init__()
            self.name, self.ms, self.log = name, ms, log
            self.weight = torch.nn.Parameter(torch.ones(1))

        def forward(self, x):
            return Step.apply(x * self.weight, self)

        def __deepcopy__(self, memo):
            made = Layer(self.name, self.ms, self.log)
            made._forward_pre_hooks = copy.deepcopy(self._forward_pre_hooks, memo)
            made._forward_hooks = copy.deepcopy(self._forward_hooks, memo)
            return made


def layers(log, **ms):
    return torch.nn.Sequential(*(Layer(name, time, log) for name, time in ms.items()))


def step(model):
    model(torch.ones(1)).sum().backward()


def words(log):
    """The log of a step, and an empty one."""
    text = " ".join("." if word == "point" else word for word in log)
    log.clear()
    return text


@needs_torch
class SpacedTest(unittest.TestCase):
    def longest(self, times, chosen):
        at = [0.0] + [times[i] for i in chosen]
        return max(later - earlier for earlier, later in zip(at, at[1:] + [max(times)]))

    def test_as_many_as_asked_for_where_layers_are_alike(self):
        times = [float(i) for i in range(1, 121)]
        self.assertEqual(len(_gate.spaced(times, 41)), 40)  # and the one at 0
        self.assertEqual(len(_gate.spaced(times, 40)), 30)  # with a layer less between them there would be 40, and that one
        self.assertEqual(len(_gate.spaced(times, 500)), 120)
        self.assertEqual(_gate.spaced(times, 1), [])
        self.assertEqual(_gate.spaced([], 40), [])
        self.assertEqual(_gate.spaced([0.0, 1.0, 1.0], 40), [1])

    def test_the_longest_time_without_one_is_near_the_best_choice(self):
        draw = random.Random(5)
        for _ in range(50):
            times = list(itertools.accumulate(draw.choice([0.1, 1.0, draw.random() * 9]) for _ in range(9)))
            chosen = _gate.spaced(times, 4)
            self.assertLessEqual(len(chosen), 3)
            best = min(self.longest(times, some) for some in itertools.combinations(range(9), 3))
            most = max(later - earlier for earlier, later in zip([0.0] + times, times))
            self.assertLess(self.longest(times, chosen), best + most + 1e-3)  # a layer more at most


@needs_torch
class GateTest(unittest.TestCase):
    def setUp(self):
        Clock.now = 0.0
        self.owner = Recorder()
        self.log = self.owner.log

    def gate(self, model, points=40):
        return lend.Gate(model, self.owner, points, _event=Clock)

    def trained(self, model, steps=3):
        """The log of the last of these steps."""
        for _ in range(steps):
            self.log.clear()
            step(model)
        return words(self.log)

    def test_two_steps_have_a_point_each_and_then_all_layers_forward_and_backward(self):
        model = layers(self.log, a=1, b=1, c=1)
        gate = self.gate(model)
        self.assertEqual(self.trained(model, 1), ". a> b> c> <c <b <a")
        self.assertEqual(self.trained(model, 1), ". a> b> c> <c <b <a")
        self.assertEqual(gate.num_points, 1)
        self.assertEqual(self.trained(model, 1), ". a> . b> . c> . <c . <b . <a")
        self.assertEqual(gate.num_points, 6)

    def test_points_are_where_times_say(self):
        model = layers(self.log, a=10, b=1, c=1, d=10)
        self.gate(model, points=5)
        self.assertEqual(self.trained(model), ". a> . b> c> d> . <d . <c <b . <a")

    def test_evaluation_has_the_points_of_forward(self):
        model = layers(self.log, a=1, b=1)
        self.gate(model)
        self.trained(model)
        model.eval()
        for _ in range(2):
            with torch.no_grad():
                model(torch.ones(1))
            self.assertEqual(words(self.log), ". a> . b>")
        model.train()
        self.assertEqual(self.trained(model, 1), ". a> . b> . <b . <a")

    def test_evaluation_before_the_times_are_known_counts_as_no_step(self):
        model = layers(self.log, a=1, b=1)
        gate = self.gate(model)
        with torch.no_grad():
            for _ in range(4):
                model(torch.ones(1))
        self.assertEqual(words(self.log), " ".join([". a> b>"] * 4))
        self.assertEqual(gate.num_points, 1)
        self.assertEqual(self.trained(model), ". a> . b> . <b . <a")

    def test_a_module_that_is_used_twice_has_points_of_each_use(self):
        class Twice(torch.nn.Module):
            def __init__(self, log):
                super().__init__()
                self.a, self.b = Layer("a", 1, log), Layer("b", 5, log)

            def forward(self, x):
                return self.a(self.b(self.a(x)))

        model = Twice(self.log)
        self.gate(model, points=3)
        self.assertEqual(self.trained(model), ". a> b> . a> <a <b . <a")
        self.assertEqual(self.trained(model, 1), ". a> b> . a> <a <b . <a")

    def test_two_forward_calls_before_a_backward_are_one_step(self):
        model = layers(self.log, a=1)
        self.gate(model)
        for _ in range(3):
            self.log.clear()
            (model(torch.ones(1)) + model(torch.ones(1))).sum().backward()
        self.assertEqual(words(self.log), ". a> . . a> . <a . <a")

    def test_a_model_that_is_one_layer_has_the_point_of_the_step(self):
        model = Layer("a", 1, self.log)
        gate = self.gate(model)
        for _ in range(4):
            self.assertEqual(self.trained(model, 1), ". a> <a")
        self.assertEqual(gate.num_points, 1)

    def test_evaluation_between_forward_and_backward_is_no_end_of_the_step(self):
        def trained():
            made = model(torch.ones(1)).sum()
            with torch.no_grad():
                model(torch.ones(1))
            made.backward()
            return words(self.log)

        model = layers(self.log, a=1, b=1)
        gate = self.gate(model)
        for _ in range(2):
            self.assertEqual(trained(), ". a> b> . a> b> <b <a")
        self.assertEqual(trained(), ". a> . b> . a> . b> . <b . <a")
        self.assertEqual(gate.num_points, 6)  # at the begin of a second time there is that of the call already
        self.assertEqual(self.trained(model, 1), ". a> . b> . <b . <a")

    def test_steps_are_told_apart_whatever_the_model_returns(self):
        class Made:
            pass

        def in_an_object(tensor):
            made = Made()
            made.tensor = tensor
            return made

        for pack, unpack in ((lambda tensor: ((tensor, None),), lambda made: made[0][0]), (in_an_object, lambda made: made.tensor)):
            class Model(torch.nn.Module):
                def __init__(self, log):
                    super().__init__()
                    self.a, self.b = Layer("a", 1, log), Layer("b", 1, log)

                def forward(self, x):
                    return pack(self.b(self.a(x)))

            model = Model(self.log)
            gate = self.gate(model)
            for _ in range(3):
                self.log.clear()
                unpack(model(torch.ones(1))).sum().backward()
            self.assertEqual(words(self.log), ". a> . b> . <b . <a")
            self.assertEqual(gate.num_points, 4)

    def test_a_model_that_is_checkpointed_learns_the_same(self):
        from torch.utils.checkpoint import checkpoint
        for is_reentrant in (True, False):
            for has_inner in (True, False):
                with self.subTest(is_reentrant=is_reentrant, has_inner=has_inner):
                    made = []
                    for has_gate in (False, True):
                        inner = layers([], a=1, b=1)
                        model = torch.nn.Sequential(inner, Layer("c", 1, []))
                        if has_inner:
                            call = inner.forward
                            inner.forward = lambda x: checkpoint(call, x, use_reentrant=is_reentrant)
                        gate = self.gate(model) if has_gate else None
                        for _ in range(5):
                            x = torch.ones(1, requires_grad=True)
                            made_of_x = model(x) if has_inner else checkpoint(model, x, use_reentrant=is_reentrant)
                            made_of_x.sum().backward()
                        made.append([parameter.grad for parameter in model.parameters()])
                    self.assertEqual(*made)
                    self.assertGreater(gate.num_points, 1)

    def test_remove_takes_them_away(self):
        model = layers(self.log, a=1, b=1)
        gate = self.gate(model)
        self.trained(model)
        gate.remove()
        gate.remove()
        self.assertEqual(self.trained(model, 1), "a> b> <b <a")
        self.assertFalse(any(module._forward_pre_hooks or module._forward_hooks for module in model.modules()))

    def test_copies_of_a_model_have_no_points(self):
        model = layers(self.log, a=1, b=1)
        self.gate(model)
        self.trained(model)
        self.assertEqual(self.trained(copy.deepcopy(model), 1), "a> b> <b <a")
        linear = torch.nn.Sequential(torch.nn.Linear(1, 1))
        self.gate(linear)
        with mock.patch.object(Clock, "record", self.tick):
            for _ in range(3):
                step(linear)
        self.log.clear()
        pickled = pickle.dumps(linear)
        self.assertNotIn(b"sluice", pickled)  # it loads where Sluice is missing
        step(pickle.loads(pickled))
        self.assertEqual(self.log, [])
        step(linear)
        self.assertEqual(len(self.log), 3)

    def test_a_capture_before_there_are_times_has_them_evenly_by_number(self):
        model = layers(self.log, a=1, b=9, c=1, d=1)
        gate = self.gate(model, points=4)
        gate._is_cuda = True
        with mock.patch.object(_gate, "is_capturing_on", return_value=True), \
                mock.patch.object(torch.cuda, "is_current_stream_capturing", return_value=True), \
                mock.patch.object(self.owner, "keep_page") as keep:
            self.assertEqual(self.trained(model, 1), ". a> . b> c> . d> <d . <c <b . <a")
        keep.assert_called()
        gate._is_cuda = False
        self.assertEqual(self.trained(model, 1), ". a> b> c> d> <d <c <b <a")
        self.assertEqual(self.trained(model, 1), ". a> b> c> d> <d <c <b <a")
        self.assertEqual(self.trained(model, 1), ". a> b> . c> d> <d . <c <b . <a")

    def test_a_graph_of_a_part_of_the_model_keeps_the_page(self):
        class Captured(torch.nn.Sequential):
            is_captured = False

            def forward(self, x):
                with mock.patch.object(torch.cuda, "is_current_stream_capturing", return_value=self.is_captured):
                    return super().forward(x)

        model = torch.nn.Sequential(Captured(*layers(self.log, a=1, b=1)))
        gate = self.gate(model)
        self.trained(model)
        gate._is_cuda = True
        for is_captured in (False, True):
            model[0].is_captured = is_captured
            with mock.patch.object(_gate, "is_capturing_on", return_value=False), \
                    mock.patch.object(self.owner, "keep_page") as keep, torch.no_grad():
                model(torch.ones(1))
            self.assertEqual(words(self.log), ". a> . b>")
            self.assertEqual(keep.called, is_captured)

    def test_leaves_that_return_parameters_or_tuples(self):
        class Odd(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.position = torch.nn.Parameter(torch.ones(1))

            def forward(self, x):
                return self.position

        class Pair(torch.nn.Module):
            def forward(self, x):
                return {"no": torch.ones(1), "yes": (x * 2)}

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.odd, self.pair = Odd(), Pair()

            def forward(self, x):
                return self.pair(self.odd(x))["yes"], None

        model = Model()
        self.gate(model)
        with mock.patch.object(Clock, "record", self.tick):
            for _ in range(5):
                self.log.clear()
                model(torch.ones(1))[0].sum().backward()
        self.assertEqual(len(self.log), 4)  # the step's, two of forward, and that of the pair's output
        self.assertIsNone(model.odd.position._backward_hooks)

    # --- what is refused ---

    def assert_refused(self, text, model, owner=None):
        with self.assertRaisesRegex(sluice.InvalidError, text):
            lend.Gate(model, owner or self.owner)
        self.assertFalse(model._forward_pre_hooks)

    def test_refusals(self):
        model = torch.nn.Linear(1, 1)
        self.assert_refused("an Owner, a Loader that has lend=, or a path", model, object())
        other = Recorder()
        other.device = 1
        self.assert_refused("the model is on the host, and cuda:1 is lent: move the model", model, other)
        for points in (0, 1.5, "40"):
            with self.assertRaisesRegex(sluice.InvalidError, f"^points={points!r}"):
                lend.Gate(model, self.owner, points)
        with self.assertRaisesRegex(sluice.InvalidError, "^model='model'"):
            lend.Gate("model", self.owner)
        self.assert_refused("torch.jit", torch.jit.script(model))
        fake = type("DistributedDataParallel", (torch.nn.Sequential,), {})(model)
        self.assert_refused("DistributedDataParallel is for several GPUs.*collective", fake)
        fake = type("OptimizedModule", (torch.nn.Sequential,), {})(model)
        self.assert_refused("torch.compile makes one function", torch.nn.Sequential(fake))
        with mock.patch.multiple(torch.distributed, is_initialized=lambda: True, get_world_size=lambda: 8, create=True):
            self.assert_refused("there are 8 ranks.*collective", model)

    @unittest.skipUnless(hasattr(torch, "compile"), "this PyTorch has no torch.compile")
    def test_a_compiled_model_is_refused_at_once_or_when_it_runs(self):
        model = torch.nn.Sequential(torch.nn.Linear(1, 1))
        self.assert_refused("torch.compile makes one function", torch.compile(model, backend="eager"))
        self.gate(model)
        with self.assertRaisesRegex(sluice.InvalidError, "sluice.lend.Gate: torch.compile makes one"):
            torch.compile(model, backend="eager")(torch.ones(1))

    # --- a model of torchvision ---

    def losses(self, has_gate):
        torch.manual_seed(7)
        model = torchvision.models.resnet18(num_classes=10)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        gate = self.gate(model) if has_gate else None
        made = []
        for _ in range(5):
            optimizer.zero_grad()
            self.log.clear()
            loss = torch.nn.functional.cross_entropy(model(torch.randn(2, 3, 32, 32)), torch.tensor([1, 2]))
            loss.backward()
            optimizer.step()
            made.append(loss.item())
        return gate, made, [parameter.detach().clone() for parameter in model.parameters()]

    @unittest.skipIf(torchvision is None, "python3-torchvision is missing")
    def test_resnet18_with_its_relus_in_place_learns_the_same_bit_for_bit(self):
        _, losses, weights = self.losses(False)
        with mock.patch.object(Clock, "record", self.tick):
            gate, gated_losses, gated_weights = self.losses(True)
        self.assertEqual(gated_losses, losses)
        self.assertTrue(all(map(torch.equal, gated_weights, weights)))
        self.assertEqual(gate.num_points, 31)  # each layer takes the same time here
        self.assertEqual(len(self.log), 31)  # of the last step

    @staticmethod
    def tick(event):
        Clock.now += 1
        event._ms = Clock.now


if __name__ == "__main__":
    support.main()
