#!/usr/bin/env python3
"""offload_switch without a GPU: requests good and bad, clients that are slow, processes that die, training and who
takes the GPU from it."""
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

from programs import BIN, TIMEOUT_S
from switching import (BATCH, CLASSES, DONE, END, FAILED, Client, Switch, logits_of, request, resnet18, rows_of,
                       sum_of_stages, write_weights)

SEED = int(os.environ.get("SLUICE_TEST_SEED", "20240708"))
INFER, TRAIN, LOGITS = "small_cnn_inference", "small_cnn_training", "small_cnn_logits"
ONE = rows_of(1)


def is_listened_at(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        return probe.connect_ex(path) == 0


class SwitchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.path = pathlib.Path(folder.name)
        cls.weights = cls.path / "weights.safetensors"
        cls.stages = sum_of_stages(write_weights(cls.weights, SEED))

    def serve(self, *flags):
        return self.enterContext(Switch(self.weights, "--port", 0, *flags))

    def client(self, switch):
        return self.enterContext(switch.client())

    def until(self, condition):
        end = time.monotonic() + TIMEOUT_S
        while not condition():
            self.assertLess(time.monotonic(), end, "it does not come")
            time.sleep(0.01)

    def until_ended(self, switch, pids):
        """Until the server knows that these workers are dead, so that it sends them no request."""
        self.until(lambda: all(f" process {pid} ended by " in switch.log() for pid in pids))


class Requests(SwitchTest):
    def test_logits_are_those_of_the_input_and_the_weights(self):
        switch = self.serve()
        client = self.client(switch)
        for values in ((1, 2, 3, 4), (5,), (0, 7)):
            self.assertEqual(client.logits(LOGITS, rows_of(*values)), logits_of(values, self.stages))
        self.assertEqual(client.ask(INFER, rows_of(3, 4)), DONE)
        self.assertEqual(switch.stop(), {
            "inferences": 4, "trainings": 0, "failed": 0, "training_steps": 0, "lent_requests": 0, "lent_ms": 0,
            "lending_cost_ms": 0, "taken_back": 0, "processes_replaced": 0})

    def test_a_bad_request_is_FAIL_and_the_next_is_answered(self):
        switch = self.serve()
        client = self.client(switch)
        bad = [("inception_v3_inference", ONE, "no --model has this name"), ("small_cnn", ONE, "no --model"),
               ("small_cnn_inference2", ONE, "no --model"), (b"\0", ONE, "no --model"), ("x" * 256, b"", "no --model"),
               ("bad\nname", b"", "bad\\nname"), (INFER, b"", "1 to --batch"), (INFER, ONE[:-4], "1 to --batch"),
               (INFER, rows_of(*[1] * (BATCH + 1)), "1 to --batch"), (TRAIN, b"", "needs --train")]
        for name, data, why in bad:
            self.assertEqual(client.ask(name, data), FAILED)
            self.assertIn(why, switch.log())
            self.assertEqual(client.logits(LOGITS, rows_of(9)), logits_of((9,), self.stages))
        client.send(END)
        self.assertTrue(client.is_ended())
        counts = switch.stop()
        self.assertEqual((counts["failed"], counts["inferences"]), (len(bad), len(bad)))

    def test_training_takes_no_data(self):
        switch = self.serve("--train")
        self.assertEqual(self.client(switch).ask(TRAIN, ONE), FAILED)
        self.assertIn("takes no data", switch.log())

    def test_a_name_that_is_too_long_is_FAIL_and_ends_the_connection(self):
        switch = self.serve()
        client = self.client(switch)
        client.send(struct.pack("I", 257) + b"x" * 300)
        self.assertEqual(client.receive(5), FAILED)
        self.assertIn("longer than 256 bytes", switch.log())

    def test_requests_in_a_row_are_answered_in_order(self):
        client = self.client(self.serve())
        client.send(request(LOGITS, rows_of(1)) + request("no", b"1234") + request(LOGITS, rows_of(2)) + END)
        reply = client.receive(10000)
        size = 8 + 4 * CLASSES
        self.assertEqual((reply[:4], reply[size:size + 4], reply[size + 4:size + 8], len(reply)),
                         (DONE, FAILED, DONE, 2 * size + 4))

    def test_many_clients_get_their_own_logits(self):
        switch = self.serve("--workers", 3)
        failures = []

        def ask(value):
            with switch.client() as client:
                for i in range(8):
                    values = [value + i] * (1 + i % BATCH)
                    if client.logits(LOGITS, rows_of(*values)) != logits_of(values, self.stages):
                        failures.append(value)

        threads = [threading.Thread(target=ask, args=(10 * i,)) for i in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(switch.stop()["inferences"], 8 * 12)

    def test_two_models_have_their_own_weights(self):
        other = self.path / "resnet18.safetensors"
        stages = sum_of_stages(write_weights(other, SEED + 1, resnet18()))
        self.assertNotEqual(stages, self.stages)
        switch = self.serve("--model", f"resnet18={other}")
        client = self.client(switch)
        for _ in range(2):
            self.assertEqual(client.logits(LOGITS, rows_of(2)), logits_of((2,), self.stages))
            self.assertEqual(client.logits("resnet18_logits", rows_of(2)), logits_of((2,), stages))

    def test_a_file_without_the_models_weights_is_named(self):
        other = self.path / "alexnet.safetensors"
        done = subprocess.run([BIN / "offload_switch", "--device", "none", "--model", f"alexnet={self.weights}"],
                              capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 1)
        self.assertIn(str(self.weights), done.stderr)
        other.write_bytes(b"no weights")
        done = subprocess.run([BIN / "offload_switch", "--device", "none", "--model", f"alexnet={other}"],
                              capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 1)
        self.assertIn(str(other), done.stderr)


class Clients(SwitchTest):
    def test_a_client_that_sends_half_a_request_ends_and_holds_nobody_up(self):
        switch = self.serve("--timeout", 3)
        slow, fast = self.client(switch), self.client(switch)
        slow.send(request(INFER, ONE)[:-1])
        self.assertEqual(fast.ask(INFER, ONE), DONE)
        self.assertEqual(slow.receive(5), FAILED)
        self.assertIn("not complete in --timeout", switch.log())
        self.assertEqual(fast.ask(INFER, ONE), DONE)

    def test_clients_that_do_nothing_make_room_for_a_new_one(self):
        switch = self.serve()
        idle = [self.client(switch) for _ in range(20)]  # 16 have a place
        self.assertEqual(self.client(switch).ask(INFER, ONE), DONE)
        self.assertIn("the most silent one ends", switch.log())
        self.assertTrue(idle[0].is_ended())

    def test_a_client_that_does_not_read_ends(self):
        switch = self.serve("--timeout", 3)
        deaf, other = self.enterContext(Client(switch.port, receive_bytes=2048)), self.client(switch)
        deaf.socket.settimeout(0.5)
        requests, at, is_connected = request("x") * 1000, 0, True
        while is_connected:
            try:  # the server reads no more at some point, as its replies are not read
                at = (at + deaf.socket.send(requests[at:])) % len(requests)
            except TimeoutError:
                self.assertEqual(other.ask(INFER, ONE), DONE)
            except ConnectionError:
                is_connected = False
        # While the server waits for its reply to be taken, or, if that is short, for the rest of the next request.
        log = switch.log()
        self.assertTrue("does not take its reply" in log or "not complete in --timeout" in log)
        self.assertEqual(other.ask(INFER, ONE), DONE)

    def test_clients_that_hang_up_anywhere_leave_nothing_behind(self):
        switch = self.serve("--train")
        whole = request(LOGITS, ONE) + request(TRAIN)
        rng = random.Random(SEED)
        for _ in range(60):
            with switch.client() as client:
                client.send(whole[:rng.choice((rng.randrange(40), rng.randrange(len(whole))))])
        self.assertEqual(self.client(switch).logits(LOGITS, rows_of(2)), logits_of((2,), self.stages))
        self.assertEqual(switch.stop()["processes_replaced"], 0)


class Processes(SwitchTest):
    def test_the_standby_answers_when_the_active_one_dies(self):
        switch = self.serve()
        client = self.client(switch)
        for _ in range(4):
            self.until(lambda: len(switch.workers("inference")) == 2)
            pid = min(switch.workers("inference"))
            os.kill(pid, signal.SIGKILL)
            self.assertIn(client.ask(INFER, ONE), (DONE, FAILED))  # it may have been sent to the dead one
            self.until_ended(switch, [pid])
            self.assertEqual(client.logits(LOGITS, rows_of(6)), logits_of((6,), self.stages))
        self.assertIn(switch.stop()["processes_replaced"], (3, 4))  # the last one, if there was time

    def test_workers_killed_at_random_fail_at_most_their_own_request(self):
        switch = self.serve()
        client, rng, failed, kills = self.client(switch), random.Random(SEED), 0, 0
        data = rows_of(*range(BATCH))
        for i in range(48):
            pids = sorted(switch.workers("inference")) if i % 4 == 0 else []
            client.send(request(LOGITS, data))
            if pids:
                time.sleep(rng.random() / 100)  # while it is received, runs, or is answered
                try:
                    os.kill(rng.choice(pids), signal.SIGKILL)
                    kills += 1
                except ProcessLookupError:
                    pass
            reply = client.receive(4)
            failed += reply == FAILED
            if reply == DONE:
                self.assertEqual(client.logits_after_reply(), logits_of(range(BATCH), self.stages))
            self.assertIn(reply, (DONE, FAILED))
        counts = switch.stop()
        self.assertEqual((counts["failed"], counts["inferences"]), (failed, 48 - failed))
        self.assertLessEqual(failed, kills)
        self.assertGreater(counts["processes_replaced"], 0)

    def test_SIGTERM_ends_all(self):
        switch = self.serve("--train")
        folder = pathlib.Path(next(iter(switch.workers("training").values()))).parent
        self.assertTrue(folder.is_dir())
        pids = [*switch.workers("inference"), *switch.workers("training")]
        self.assertEqual(self.client(switch).ask(TRAIN), DONE)
        idle = self.client(switch)
        self.assertEqual(switch.stop()["trainings"], 1)
        self.assertTrue(idle.is_ended())
        self.assertFalse(folder.exists())
        self.assertEqual([pid for pid in pids if pathlib.Path(f"/proc/{pid}").exists()], [])

    def test_workers_end_with_a_server_that_is_killed(self):
        switch = self.serve("--train")
        pids = [*switch.workers("inference"), *switch.workers("training")]
        self.assertEqual(len(pids), 3)
        self.client(switch).ask(TRAIN)
        folder = pathlib.Path(next(iter(switch.workers("training").values()))).parent
        switch.process.kill()
        self.until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids))
        (folder / "lend").unlink(missing_ok=True)
        folder.rmdir()

    def test_bad_options(self):
        model = f"small_cnn={self.weights}"
        for flags, code, why in (
                (["--model", "small_cnn"], 2, "not NAME=FILE"), (["--model", "bert=x"], 1, 'small_cnn, not "bert"'),
                (["--model", model, "--model", model], 2, "given twice"), ([], 2, "--model"),
                (["--model", model, "--train", "--lend", "x"], 2, "exclude each other"),
                (["--model", model, "--aside"], 2, "needs --lend"),
                (["--model", model, "--aside", "--lend", ""], 2, "--lend: : the path of a unix socket has 1 to 107"),
                (["--model", model, "--lend", "p" * 108], 2, "ppp: the path of a unix socket has 1 to 107"),
                (["--model", "small_cnn=/nowhere"], 1, "/nowhere"),
                (["--model", model, "--num-classes", "11"], 1, str(self.weights))):
            done = subprocess.run([BIN / "offload_switch", "--device", "none", "--port", "0", *flags],
                                  capture_output=True, text=True, timeout=TIMEOUT_S)
            self.assertEqual((done.returncode, why in done.stderr), (code, True), (flags, done.stderr))
        with Switch(self.weights, "--port", 0) as first:
            with self.assertRaisesRegex(RuntimeError, f"port {first.port}: Address already in use"):
                Switch(self.weights, "--port", first.port)


class Training(SwitchTest):
    def test_inference_takes_the_gpu_from_training(self):
        switch = self.serve("--train")
        trainer, client = self.client(switch), self.client(switch)
        self.assertEqual(trainer.ask(TRAIN), DONE)
        for i in range(20):
            self.assertEqual(client.logits(LOGITS, rows_of(i)), logits_of((i,), self.stages))
        trainer.send(END)
        self.assertTrue(trainer.is_ended())
        with switch.client() as again:
            self.assertEqual(again.ask(TRAIN), DONE)
        counts = switch.stop()
        self.assertEqual((counts["inferences"], counts["trainings"], counts["failed"]), (20, 2, 0))
        self.assertGreaterEqual(counts["training_steps"], 1)
        self.assertGreaterEqual(counts["lent_requests"], 20)
        self.assertGreater(counts["lent_ms"], 0)

    def test_a_training_replaces_the_one_before(self):
        switch = self.serve("--train")
        first, second = self.client(switch), self.client(switch)
        for _ in range(3):
            self.assertEqual(first.ask(TRAIN), DONE)
            self.assertEqual(second.ask(TRAIN), DONE)
        self.assertEqual(first.ask(INFER, ONE), DONE)  # its connection goes on
        first.close()  # which ends nothing, as the second one trains
        self.assertEqual(second.ask(INFER, ONE), DONE)
        self.assertEqual(switch.stop()["trainings"], 6)

    def test_a_training_process_that_dies_is_replaced(self):
        switch = self.serve("--train")
        trainer, client = self.client(switch), self.client(switch)
        self.assertEqual(trainer.ask(TRAIN), DONE)
        self.assertEqual(client.ask(INFER, ONE), DONE)
        (pid, path), = switch.workers("training").items()
        os.kill(pid, signal.SIGKILL)
        self.assertTrue(trainer.is_ended())
        self.assertEqual(client.ask(INFER, ONE), DONE)  # whether or not somebody lends by now
        self.until(lambda: is_listened_at(path))
        self.assertEqual(self.client(switch).ask(TRAIN), DONE)
        for _ in range(3):
            self.assertEqual(client.ask(INFER, ONE), DONE)
        counts = switch.stop()
        self.assertEqual((counts["processes_replaced"], counts["failed"]), (1, 0))
        self.assertGreaterEqual(counts["lent_requests"], 3)  # as the new process counts

    def test_an_owner_outside_lends_comes_and_goes(self):
        owner = self.serve("--train")
        path = next(iter(owner.workers("training").values()))
        switch = self.serve("--lend", path)
        trainer, client = self.client(owner), self.client(switch)
        self.assertEqual(trainer.ask(TRAIN), DONE)
        for _ in range(5):
            self.assertEqual(client.ask(INFER, ONE), DONE)
        trainer.close()
        with owner.client() as again:
            self.assertEqual(again.ask(TRAIN), DONE)
        self.assertGreaterEqual(owner.stop()["lent_requests"], 5)
        self.assertEqual(client.ask(INFER, ONE), DONE)
        self.assertEqual(client.ask(TRAIN), FAILED)
        self.assertEqual(switch.stop()["inferences"], 6)

    def test_training_goes_on_when_a_borrower_dies_with_the_gpu(self):
        switch = self.serve("--train")
        trainer, client = self.client(switch), self.client(switch)
        self.assertEqual(trainer.ask(TRAIN), DONE)
        self.assertEqual(client.ask(INFER, ONE), DONE)  # so the worker has a slot of the page
        path, = switch.workers("training").values()
        with subprocess.Popen([os.environ["SLUICE_LEND_BORROWER"], path, "-1", "0"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as borrower:
            self.assertEqual(borrower.stdout.readline(), "took\n")
            borrower.kill()
        for _ in range(10):
            self.assertEqual(client.ask(INFER, ONE), DONE)
        # The training process counts behind a step, and at its end: it does not wait for ever.
        self.assertGreaterEqual(switch.stop()["lent_requests"], 12)

    def test_training_goes_on_when_workers_die(self):
        switch = self.serve("--train")
        trainer, client = self.client(switch), self.client(switch)
        self.assertEqual(trainer.ask(TRAIN), DONE)
        rng, killed, done = random.Random(SEED), set(), 1
        for _ in range(10):
            client.send(request(INFER, ONE))
            for pid in switch.workers("inference"):
                if rng.random() < 0.5:
                    try:
                        os.kill(pid, signal.SIGKILL)
                        killed.add(pid)
                    except ProcessLookupError:
                        pass
            reply = client.receive(4)
            self.assertIn(reply, (DONE, FAILED))
            done += reply == DONE
        self.until_ended(switch, killed)
        self.assertEqual(client.ask(INFER, ONE), DONE)
        self.assertGreaterEqual(switch.stop()["lent_requests"], done)


if __name__ == "__main__":
    unittest.main(verbosity=2)
