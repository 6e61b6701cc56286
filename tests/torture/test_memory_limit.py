#!/usr/bin/env python3
"""The server's memory is bounded by --memory-limit, or by what ulimit leaves, whatever clients do."""
import pathlib
import resource
import subprocess
import sys
import threading
import time
import unittest

import harness
import torture

import grpc
from other_address import OtherAddress

pb = harness.stubs()
wire, wire_grpc = pb["offload_pb2"], pb["offload_pb2_grpc"]

MB = 1 << 20
LIMIT_MB = torture.rounds(64, 256)
PIPELINE = "decode,random_resized_crop=224,hflip=0.5,to_tensor,normalize=imagenet"
CONNECTIONS = torture.rounds(2, 10)
STREAMS = torture.rounds(15, 100)  # of each connection
FLOOD = "--flood"


class Server(harness.Server):
    """offload_server in `limits`: {resource.RLIMIT_AS: bytes}."""

    def __init__(self, root, *flags, limits=()):
        def restrict():
            for which, most in limits:
                resource.setrlimit(which, (most, most))
        super().__init__(root, *flags, preexec_fn=restrict)

    def resident(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    def most_resident(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024


# A sanitizer's shadow and quarantine are memory of the process, too.
IS_SANITIZED = any(mark in (harness.BIN / "offload_server").read_bytes()
                   for mark in (b"__asan_init", b"__tsan_init"))


@unittest.skipIf(IS_SANITIZED, "a sanitizer's memory is not the server's")
class MemoryLimit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = torture.make_dataset("memory", count=40, size=300)

    def start(self, *flags, limits=()):
        server = Server(self.root, *flags, limits=limits)
        self.addCleanup(server.process.wait)
        self.addCleanup(server.process.kill)
        return server

    def connect(self, address):
        # As much as HTTP/2 lets a client take in advance: that is what it does not read.
        channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        self.addCleanup(channel.close)
        return channel

    def fetch(self, channel, count, split=5, form=wire.FORM_F32, timeout=None):
        """A stream that asks for `count` samples and reads what its caller reads."""
        ended = threading.Event()
        self.addCleanup(ended.set)

        def requests():
            yield wire.FetchRequest(
                open=wire.FetchOpen(protocol_version=1, pipeline=PIPELINE),
                samples=[wire.SampleRequest(request_id=i, sample_id=i % 40, split=split, form=form)
                         for i in range(count)])
            ended.wait()
        return wire_grpc.OffloadStub(channel).Fetch(requests(), timeout=timeout)

    def attack(self, server, count=500):
        """Many streams that ask for much and never read; returns them when it has settled."""
        streams = [self.fetch(channel, count) for channel in
                   [self.connect(server.address) for _ in range(CONNECTIONS)]
                   for _ in range(STREAMS)]
        stats = wire_grpc.OffloadStub(self.connect(server.address))
        before, unchanged = -1, 0
        while unchanged < 5:  # nothing more is answered
            time.sleep(0.1)
            samples = stats.Stats(wire.StatsRequest(), timeout=harness.TIMEOUT_S).samples
            unchanged = unchanged + 1 if samples == before and samples else 0
            before = samples
        return streams

    def check_good_client(self, server):
        """One from another address gets what it asks for."""
        way = OtherAddress(server.address)
        self.addCleanup(way.close)
        channel = self.connect(way.address)
        for _ in range(100):
            got = 0
            try:
                for message in self.fetch(channel, 100, timeout=harness.TIMEOUT_S):
                    for sample in message.samples:
                        self.assertEqual(sample.status, wire.SAMPLE_OK, sample.error)
                        got += 1
                    if got == 100:
                        return
            except grpc.RpcError as refused:
                self.assertIsNone(server.process.poll(), server.log())
                # While gRPC's part is short it refuses new streams, or sends GOAWAY to connections
                # that did nothing yet; a client asks again.
                self.assertIn(refused.code(), (grpc.StatusCode.RESOURCE_EXHAUSTED,
                                               grpc.StatusCode.UNAVAILABLE), refused.details())
                time.sleep(0.05)
        self.fail("refused 100 times")

    def test_readers_that_never_read_stay_within_the_limit(self):
        server = self.start("--memory-limit", f"{LIMIT_MB}M")
        start = server.resident()
        streams = self.attack(server)
        most = server.most_resident()
        print(f"{(most - start) // MB} MB above the start with {len(streams)} readers that do not "
              f"read; the limit is {LIMIT_MB} MB")
        self.assertLess(most - start, LIMIT_MB * MB * 1.1)
        self.check_good_client(server)
        self.assertLess(server.most_resident() - start, LIMIT_MB * MB * 1.1)
        # What they held comes back, and is theirs again.
        for stream in streams:
            stream.cancel()
        for message in self.fetch(self.connect(server.address), 1):
            self.assertEqual(message.samples[0].status, wire.SAMPLE_OK)
            break

    def test_waiting_requests_stay_within_the_limit(self):
        server = self.start("--memory-limit", f"{LIMIT_MB}M")
        start = server.resident()
        client = subprocess.Popen([sys.executable, __file__, FLOOD, server.address], stdout=subprocess.PIPE, text=True)
        self.addCleanup(client.stdout.close)
        self.addCleanup(client.wait)
        self.addCleanup(client.kill)
        # Some are refused by words, as requests cannot wait anywhere else.
        code, details = client.stdout.readline().split(" ", 1)
        # In our words, by gRPC's quota (ENHANCE_YOUR_CALM), or, while gRPC's part is short, by its GOAWAY.
        self.assertIn(code, ("RESOURCE_EXHAUSTED", "UNAVAILABLE"), details)
        if code == "RESOURCE_EXHAUSTED":
            self.assertRegex(details, "share of the server's memory|error code 11")
        self.assertIsNone(server.process.poll(), server.log())
        most = server.most_resident()
        print(f"{(most - start) // MB} MB above the start with {CONNECTIONS * STREAMS} streams that ask "
              f"without an end; the limit is {LIMIT_MB} MB")
        self.assertLess(most - start, LIMIT_MB * MB * 1.1)
        self.check_good_client(server)

    def test_ulimit_is_no_end(self):
        for most in torture.rounds((500,), (300, 400, 500, 700, 900)):
            with self.subTest(ulimit_mb=most):
                server = self.start(limits=[(resource.RLIMIT_AS, most * MB)])
                self.attack(server)
                self.assertIsNone(server.process.poll(), server.log())
                self.check_good_client(server)
                self.assertIsNone(server.process.poll(), server.log())

    def test_no_room_at_all_is_said_at_the_start(self):
        with self.assertRaisesRegex(RuntimeError, "MB of memory are left"):
            self.start(limits=[(resource.RLIMIT_AS, 230 * MB)])


def flood(address):
    """Streams that ask without an end; prints how the first one was refused.  In a process of its own, which is killed:
    grpcio's threads do not survive the end of the interpreter each time."""
    def requests():
        yield wire.FetchRequest(open=wire.FetchOpen(protocol_version=1, window_bytes=1)).SerializeToString()
        while True:
            yield part

    part = wire.FetchRequest(
        samples=[wire.SampleRequest(request_id=1, sample_id=1)] * 20000).SerializeToString()
    channels = [grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) for _ in range(CONNECTIONS)]
    streams = [channel.stream_stream("/sluice.v1.Offload/Fetch")(requests())
               for channel in channels for _ in range(STREAMS)]
    while not (ended := [stream for stream in streams if stream.done()]):
        time.sleep(0.01)
    print(ended[0].code().name, ended[0].details(), flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    if sys.argv[1:2] == [FLOOD]:
        flood(sys.argv[2])
    torture.main()
