#!/usr/bin/env python3
"""SIGTERM while the trainer waits for something that never comes: it ends at once, whatever it is.

The promise is one second.  A test that asked for that would fail on a busy machine, so it asks for
less than any timeout of the client, of which the shortest is five.
"""
import concurrent.futures
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest

import torture
from harness import stubs

import grpc

STUBS = stubs()
OFFLOAD = STUBS["offload_pb2_grpc"]
END_S = 4
STOPPED = 128 + signal.SIGTERM


class Muted(OFFLOAD.OffloadServicer):
    """Answers as a real server does, but one method hangs: for a stream after its first message."""

    def __init__(self, address, method, first=0):
        self.real = OFFLOAD.OffloadStub(grpc.insecure_channel(address))
        self.method, self.first = method, first
        self.is_reached, self.is_over = threading.Event(), threading.Event()
        self.pool = concurrent.futures.ThreadPoolExecutor(16)
        self.server = grpc.server(self.pool)
        OFFLOAD.add_OffloadServicer_to_server(self, self.server)
        self.address = "127.0.0.1:%d" % self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def hang(self):
        self.is_reached.set()
        self.is_over.wait()

    def unary(self, name, request):
        if name == self.method:
            self.hang()
        return getattr(self.real, name)(request)

    def stream(self, name, request):
        for number, reply in enumerate(getattr(self.real, name)(request)):
            if name == self.method and number >= self.first:
                self.hang()
            if name == "ListSamples":
                reply.ClearField("hash")  # as Hello's: packed rows come after it
            yield reply

    def Hello(self, request, _context):
        reply = self.unary("Hello", request)
        # Encoded anew on its way through here: its fields are not in the order that was hashed.
        reply.has_hashes = False
        reply.ClearField("hash")
        return reply

    def Stats(self, request, _context):
        return self.unary("Stats", request)

    def ListSamples(self, request, _context):
        return self.stream("ListSamples", request)

    def Probe(self, request, _context):
        return self.stream("Probe", request)

    def Fetch(self, request, _context):
        return self.stream("Fetch", request)

    def close(self):
        self.is_over.set()
        self.server.stop(0).wait()
        self.pool.shutdown()


class SigTerm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = torture.make_dataset("sigterm")
        shutil.copytree(cls.root / "train", cls.root / "val")
        cls.server = torture.Server(cls.root)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def start(self, *flags, device="none", through=(), **more):
        """`through`: a program that becomes ours.  No preexec_fn: it needs a fork(), and gRPC's handler
        of that waits for ever if gRPC is at work (1.51 in Debian 13's Python)."""
        process = subprocess.Popen(
            [*through, str(torture.BIN / "offload_train"), "--device", device, "-b", "4", "--retry-for",
             "1000", "--sample-timeout", "1000", *map(str, flags)],
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **more})
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def end(self, process, code=STOPPED):
        before = time.monotonic()
        process.send_signal(signal.SIGTERM)
        try:
            _, err = process.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            self.fail(f"it still waits after {END_S} s")
        print(f"{time.monotonic() - before:.2f} s", end=" ")
        self.assertEqual(process.returncode, code, err[-2000:])
        return err

    def muted(self, method, *flags, first=0, **more):
        server = Muted(self.server.address, method, first)
        self.addCleanup(server.close)
        process = self.start("--host", server.address, *flags, **more)
        self.assertTrue(server.is_reached.wait(torture.TIMEOUT_S))
        return process

    # --- before there is a server ---

    def test_a_host_that_is_not_there(self):
        """Documentation addresses have no hosts; behind a firewall packets to them are lost."""
        process = self.start("--host", "192.0.2.1:50051")
        connecting = pathlib.Path(f"/proc/{process.pid}/task")
        while not any((task / "comm").read_text().startswith("rpc-client")
                      for task in connecting.iterdir()):
            pass
        self.end(process)

    def test_a_port_that_accepts_and_is_silent(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            process = self.start("--host", "127.0.0.1:%d" % listener.getsockname()[1])
            client, _ = listener.accept()
            with client:
                client.recv(1)
                self.end(process)

    def test_a_port_that_nobody_listens_on(self):
        with torture.Port() as port:
            process = self.start("--host", f"127.0.0.1:{port}", "--log-level", "info")
            self.assertIn("trying for up to", process.stderr.readline())
            self.end(process)

    # --- calls ---

    def test_hello(self):
        self.end(self.muted("Hello"))

    def test_a_list_that_does_not_come(self):
        self.end(self.muted("ListSamples"))

    def test_a_list_that_does_not_end(self):
        """Its only page is there, and the end of the stream is not."""
        server = Muted(self.server.address, "ListSamples", first=1)
        self.addCleanup(server.close)
        original = server.stream

        def with_a_tail(name, request):
            yield from original(name, request)
            if name == "ListSamples":
                server.hang()
        server.stream = with_a_tail
        process = self.start("--host", server.address, "--epochs", 1)
        self.assertTrue(server.is_reached.wait(torture.TIMEOUT_S))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=END_S)  # it may be content with the rows that it has
        self.assertIn(process.returncode, (0, STOPPED))

    def test_the_probe(self):
        self.end(self.muted("Probe", "--dataset-mode", "remote_auto", first=1))

    def test_the_counters_of_a_profile(self):
        folder = torture.temporary_folder("profile")
        self.end(self.muted("Stats", "--profiling", "--write-profile-folder", folder))

    def test_batches(self):
        self.end(self.muted("Fetch", "--dataset-mode", "remote_nooff"))

    def test_an_evaluation(self):
        self.end(self.muted("Fetch", "--dataset-mode", "remote_nooff", "--evaluate"))

    # --- files ---

    def hanging(self, rule, *flags, **more):
        hung = torture.temporary_folder(f"hung-{self.id()}") / "x"
        process = self.start(self.root, "--dataset-mode", "local", *flags, **more,
                             env=torture.bad_disk(f"{rule},tell={hung},do=hang"))
        while not hung.exists():
            self.assertIsNone(process.poll())
        return process

    @unittest.skipUnless(torture.BAD_DISK, "no bad_disk was built")
    def test_a_folder_that_is_not_listed(self):
        self.end(self.hanging("call=readdir,path=train"))

    @unittest.skipUnless(torture.BAD_DISK, "no bad_disk was built")
    def test_a_file_that_is_not_read(self):
        self.end(self.hanging("call=read,path=cat/0003.jpg"))

    @unittest.skipUnless(torture.BAD_DISK, "no bad_disk was built")
    def test_a_file_that_is_not_read_and_the_checkpoint_is_written(self):
        saved = torture.temporary_folder("stopped") / "run.ckpt"
        flags = ["-a", "small_cnn", "--image-size", 16, "--checkpoint", saved, "-p", 1,
                 "--on-error", "fail"]
        if not self.has_cpu():
            self.skipTest("this build has no CPU trainer")
        process = self.hanging("call=read,path=train/cat/0003.jpg", *flags, device="cpu")
        while "[1/" not in process.stderr.readline():
            self.assertIsNone(process.poll())
        self.end(process)
        self.assertTrue(saved.exists())

    def has_cpu(self):
        process = self.start(self.root, "--dataset-mode", "local", "-a", "small_cnn",
                             "--image-size", 16, device="cpu")
        _, err = process.communicate(timeout=torture.TIMEOUT_S)
        return "SLUICE_ONEDNN" not in err

    # --- the terminal ---

    def test_a_terminal_that_goes_away_is_a_stop_with_a_checkpoint(self):
        if not self.has_cpu():
            self.skipTest("this build has no CPU trainer")
        saved = torture.temporary_folder("hung-up") / "run.ckpt"
        ours, theirs = os.openpty()
        process = self.start(self.root, "--dataset-mode", "local", "--epochs", 1000000, "-p", 1,
                             "-a", "small_cnn", "--image-size", 16, "--no-val", "--checkpoint",
                             saved, device="cpu", stdin=theirs, stdout=theirs, stderr=theirs,
                             through=("setsid", "--ctty"))
        os.close(theirs)
        seen = b""
        while b"epoch 0" not in seen:
            seen += os.read(ours, 4096)
        os.close(ours)
        try:
            self.assertEqual(process.wait(timeout=torture.TIMEOUT_S), 128 + signal.SIGHUP)
        finally:
            process.kill()
        self.assertTrue(saved.exists())

    def test_nohup_still_means_that_it_goes_on(self):
        process = self.start(self.root, "--dataset-mode", "local", "--epochs", 1000000,
                             through=("nohup",))
        self.assertIn("epoch 0", process.stdout.readline())
        process.send_signal(signal.SIGHUP)
        self.assertTrue(process.stdout.readline())
        self.end(process)

    # --- output ---

    def test_a_reader_that_does_not_read(self):
        """What it has not read is missing: that is a failure, and is said."""
        ends = os.pipe()
        os.set_blocking(ends[1], False)
        try:
            while os.write(ends[1], bytes(4096)):
                pass
        except BlockingIOError:
            os.set_blocking(ends[1], True)
        process = self.start(self.root, "--dataset-mode", "local", "--json", stdout=ends[1])
        while "epoch 0 local" not in process.stderr.readline():
            self.assertIsNone(process.poll())
        err = self.end(process, code=1)
        self.assertIn("1 lines are missing", err)
        os.close(ends[0])
        os.close(ends[1])

    def test_when_all_is_done_the_exit_code_is_0(self):
        """A stop that comes after the last epoch stops nothing."""
        process = self.start(self.root, "--dataset-mode", "local")
        self.assertIn("epoch 0", process.stdout.readline())
        try:
            process.send_signal(signal.SIGTERM)
        except ProcessLookupError:
            pass
        process.communicate(timeout=torture.TIMEOUT_S)
        self.assertEqual(process.returncode, 0)


if __name__ == "__main__":
    torture.main()
