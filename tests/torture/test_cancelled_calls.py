#!/usr/bin/env python3
"""Calls that nobody waits for any more cost nothing: their jobs leave the queue."""
import time
import unittest

import harness
import torture

import grpc
from PIL import Image

pb = harness.stubs()
transfer, transfer_grpc = pb["data_transfer_pb2"], pb["data_transfer_pb2_grpc"]
offload, offload_grpc = pb["offload_pb2"], pb["offload_pb2_grpc"]

PER_CHANNEL = 100  # a connection has at most 128 calls at once


class CancelledCalls(unittest.TestCase):
    def setUp(self):
        root = harness.temporary_folder(self.id())
        folder = root / "train" / "cat"
        folder.mkdir(parents=True)
        Image.linear_gradient("L").resize((1600, 1600)).convert("RGB").save(folder / "a.jpg")
        # One worker, and reads that wait as long as the gate is there: all but a few calls still
        # wait when they are cancelled.
        self.gate = root / "gate"
        self.gate.touch()
        self.server = torture.bad_server(root, f"call=read,path=a.jpg,if={self.gate},do=wait",
                                        flags=("--data-transfer", "--prep-workers", "1"))
        self.channel = self.server.channel()
        self.stub = offload_grpc.OffloadStub(self.channel)
        self.addCleanup(self.server.process.wait)
        self.addCleanup(self.server.process.kill)
        self.addCleanup(self.channel.close)

    def stats(self):
        return self.stub.Stats(offload.StatsRequest(), timeout=harness.TIMEOUT_S)

    def await_depth(self, is_reached):
        until = time.monotonic() + harness.TIMEOUT_S
        while not is_reached(depth := self.stats().queue_depth):
            self.assertLess(time.monotonic(), until, f"queue_depth stays at {depth}")
            time.sleep(0.01)

    def done(self, most):
        """Samples answered or failed, once the queue is empty and then nothing is left to do."""
        self.await_depth(lambda depth: depth <= most)
        self.gate.unlink()
        self.await_depth(lambda depth: depth == 0)
        stats = self.stats()
        return stats.samples + sum(e.count for e in stats.errors)

    def test_cancelled_transfers_leave_the_queue(self):
        count = PER_CHANNEL * torture.rounds(3, 17)
        channels = [grpc.insecure_channel(self.server.address, [("grpc.use_local_subchannel_pool", 1)])
                    for _ in range(count // PER_CHANNEL)]
        request = transfer.DataRequest(fname="train/cat/a.jpg")
        calls = [transfer_grpc.DataTransferStub(channel).get_data_alloff.future(request)
                 for channel in channels for _ in range(PER_CHANNEL)]
        self.await_depth(lambda depth: depth > min(count, 300) * 0.7)
        for call in calls:
            call.cancel()
        done = self.done(20)
        print(f"{done} of {count} cancelled calls were worked on")
        self.assertLess(done, count // 2)
        for channel in channels:
            channel.close()

    def test_requests_of_a_cancelled_stream_leave_the_queue(self):
        def requests():
            yield offload.FetchRequest(
                open=offload.FetchOpen(protocol_version=1,
                                       pipeline="decode,random_resized_crop=224,hflip=0.5"),
                samples=[offload.SampleRequest(request_id=i, sample_id=0, split=3, form=3)
                         for i in range(400)])
            held.wait()

        import threading
        held = threading.Event()
        stream = self.stub.Fetch(requests())
        self.await_depth(lambda depth: depth > 200)
        stream.cancel()
        held.set()
        done = self.done(20)
        print(f"{done} of 400 requests of a cancelled stream were worked on")
        self.assertLess(done, 200)


if __name__ == "__main__":
    torture.main()
