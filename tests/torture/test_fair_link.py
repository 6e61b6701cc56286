#!/usr/bin/env python3
"""The link is shared by address: many streams of one client leave another its half."""
import threading
import unittest

import harness
import torture

import grpc
from other_address import OtherAddress

pb = harness.stubs()
wire, wire_grpc = pb["offload_pb2"], pb["offload_pb2_grpc"]

STREAMS = torture.rounds(60, 100)  # a connection has at most 128 calls at once
SAMPLES = torture.rounds(60, 600)


class FairLink(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = harness.temporary_folder("link")
        folder = cls.root / "train" / "cat"
        folder.mkdir(parents=True)
        (folder / "a.jpg").write_bytes(bytes(50_000))  # read, and not decoded

    def setUp(self):
        self.server = harness.Server(self.root, "--link-limit", "100mbit")
        self.addCleanup(self.server.process.wait)
        self.addCleanup(self.server.process.kill)
        self.greedy = self.server.channel()
        self.addCleanup(self.greedy.close)
        self.way = OtherAddress(self.server.address)
        self.addCleanup(self.way.close)
        self.modest = wire_grpc.OffloadStub(self.connect(self.way.address))
        self.ended = threading.Event()
        self.addCleanup(self.ended.set)

    def connect(self, address):
        channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        self.addCleanup(channel.close)
        return channel

    def fetch(self, stub, count, ended):
        def requests():
            yield wire.FetchRequest(
                open=wire.FetchOpen(protocol_version=1),
                samples=[wire.SampleRequest(request_id=i, sample_id=0) for i in range(count)])
            ended.wait()
        return stub.Fetch(requests())

    def sent(self):
        return self.modest.Stats(wire.StatsRequest(), timeout=harness.TIMEOUT_S).wire_bytes

    def drain(self, stream, first):
        def read():
            try:
                for _ in stream:
                    first.set()
            except grpc.RpcError:
                pass
        threading.Thread(target=read, daemon=True).start()

    def check_that_the_other_has_its_part(self):
        """While it gets its samples the server sends little else."""
        before = self.sent()
        count = 0
        for message in self.fetch(self.modest, SAMPLES, self.ended):
            count += len(message.samples)
            if count == SAMPLES:
                break
        own = SAMPLES * 50_000
        total = self.sent() - before
        print(f"{own} bytes to one client while {total} were sent to all")
        # A fair part is a half; by stream it was a sixtieth.
        self.assertLess(total, own * 8)

    def test_probes_of_one_client_take_turns(self):
        first = threading.Event()
        stub = wire_grpc.OffloadStub(self.greedy)
        streams = [stub.Probe(wire.ProbeRequest(bytes=1 << 28)) for _ in range(STREAMS)]
        for stream in streams:
            self.drain(stream, first)
        self.assertTrue(first.wait(harness.TIMEOUT_S))
        self.check_that_the_other_has_its_part()
        # Those that wait are bounded; the rest is told to come again.
        refused = [s for s in streams if s.done()]
        self.assertEqual(len(refused), STREAMS - 17)
        for stream in refused:
            self.assertEqual(stream.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            self.assertIn("one probe at a time", stream.details())
        for stream in streams:
            stream.cancel()

    def test_a_probe_that_waited_gets_its_turn(self):
        stub = wire_grpc.OffloadStub(self.greedy)
        streams = [stub.Probe(wire.ProbeRequest(bytes=100_000 + i)) for i in range(8)]
        for i, stream in enumerate(streams):
            self.assertEqual(sum(len(message.payload) for message in stream), 100_000 + i)
        # The server has two threads that take calls, so those of one moment come in any order.
        first = stub.Probe(wire.ProbeRequest(bytes=1 << 29))
        next(iter(first))
        waiting = [stub.Probe(wire.ProbeRequest(bytes=1 << 29)) for _ in range(2)]
        waiting[0].cancel()  # while it waits
        first.cancel()  # while it has the turn
        next(iter(waiting[1]))
        waiting[1].cancel()

    def test_streams_of_one_client_share_its_part(self):
        first = threading.Event()
        ended = self.ended
        stub = wire_grpc.OffloadStub(self.greedy)
        streams = [self.fetch(stub, 500, ended) for _ in range(STREAMS)]
        for stream in streams:
            self.drain(stream, first)
        self.assertTrue(first.wait(harness.TIMEOUT_S))
        self.check_that_the_other_has_its_part()
        for stream in streams:
            stream.cancel()


if __name__ == "__main__":
    torture.main()
