#!/usr/bin/env python3
"""Stock clients that share a server: one asks for far more than its part, one leaves early."""
import queue
import threading
import time
import unittest

import harness

modules = harness.stubs()
offload = modules["offload_pb2"]
offload_grpc = modules["offload_pb2_grpc"]

T = harness.TIMEOUT_S
PIPELINE = "decode,random_resized_crop=224,hflip=0.5,to_tensor,normalize=imagenet"
ALL_OPS, PIXELS = 5, 3


class Stream:
    """A Fetch call whose replies are counted as they come."""

    def __init__(self, stub, split, count, num_samples, **fields):
        self.requests = queue.SimpleQueue()
        self.requests.put(offload.FetchRequest(
            open=offload.FetchOpen(protocol_version=1, pipeline=PIPELINE, **fields),
            samples=[offload.SampleRequest(request_id=i, sample_id=i % num_samples, split=split,
                                           epoch=i // num_samples) for i in range(count)]))
        self.expected, self.answered, self.num_ready_made = count, 0, 0
        self.call = stub.Fetch(iter(self.requests.get, None), timeout=T)
        self.error = None
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        try:
            for message in self.call:
                for sample in message.samples:
                    assert sample.status == offload.SAMPLE_OK, sample
                    self.num_ready_made += sample.ops_done > 0
                    self.answered += 1
                if self.answered == self.expected:
                    self.requests.put(None)
        except Exception as error:  # the test's thread says so
            self.error = error

    def wait(self):
        self.reader.join(T)
        if self.error or self.answered != self.expected:
            raise AssertionError(f"{self.answered} of {self.expected}: {self.error}")

    def leave(self):
        self.call.cancel()
        self.reader.join(T)


class SeveralClientsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        root = harness.temporary_folder("images")
        harness.make_images(root)

        cls.server = harness.Server(root, "--prep-workers", "1")
        cls.stub = cls.connect()
        cls.num_samples = cls.stub.Hello(
            offload.HelloRequest(protocol_version=1), timeout=T).num_samples

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    @classmethod
    def connect(cls):
        """A connection of its own: that is what the server takes for a client."""
        import grpc
        channel = grpc.insecure_channel(cls.server.address,
                                        options=[("grpc.use_local_subchannel_pool", 1)])
        return offload_grpc.OffloadStub(channel)

    def test_four_streams_of_a_greedy_client_count_as_one(self):
        greedy_stub, modest_stub = self.connect(), self.connect()
        greedy = [Stream(greedy_stub, ALL_OPS, 500, self.num_samples) for _ in range(4)]
        while sum(stream.answered for stream in greedy) < 8:  # it is under way, and waits in line
            time.sleep(0.001)
        before = sum(stream.answered for stream in greedy)
        modest = Stream(modest_stub, PIXELS, 20, self.num_samples, follows_price=True)
        modest.wait()
        meanwhile = sum(stream.answered for stream in greedy) - before
        for stream in greedy:
            stream.leave()
        # By turns each has about 20, and the greedy one what is done until this process has seen
        # them; if it were first come, first served, the modest one would have waited for nearly
        # 2000.
        self.assertLess(meanwhile, 1000)
        self.assertEqual(modest.num_ready_made, 20)  # its part of the queue was free
        self.assertGreater(sum(stream.num_ready_made for stream in greedy), 0)

    def test_who_leaves_gives_its_part_back_and_the_price_falls(self):
        stub = self.connect()
        leaving = Stream(stub, PIXELS, 2000, self.num_samples, follows_price=True)
        deadline = time.monotonic() + T
        while self.stats().cpu_price == 0:  # so much waits that the cores get a price
            self.assertLess(time.monotonic(), deadline)
        leaving.leave()
        self.assertLess(leaving.answered, 2000)
        staying = Stream(self.connect(), PIXELS, 20, self.num_samples, follows_price=True)
        staying.wait()
        while self.stats().cpu_price > 0:
            self.assertLess(time.monotonic(), deadline)
        self.assertEqual(self.stats().queue_depth, 0)

    def stats(self):
        return self.stub.Stats(offload.StatsRequest(), timeout=T)


if __name__ == "__main__":
    harness.main()
