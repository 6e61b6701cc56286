#!/usr/bin/env python3
"""Eleven attacks on the server's memory, one after the other, each on a server of its own: what it
takes beside what it had at its start is at most --memory-limit and a tenth, and it serves on."""
import itertools
import os
import struct
import threading
import time
import unittest

import bombs
import harness
import http2
import torture
from attacked import Attacked

import grpc

MB = 1 << 20
LIMIT_MB = torture.rounds(64, 256)
MANY = torture.rounds(1, 8)  # how much of each attack
SEND_TIMEOUT_S = 2  # a server that does not read any more is left
LARGEST = 0x7FFFFFFF
PIPELINE = "decode,random_resized_crop=224,hflip=0.5,to_tensor,normalize=imagenet"
FETCH, LIST, PROBE = (f"/sluice.v1.Offload/{name}" for name in ("Fetch", "ListSamples", "Probe"))

wire = harness.stubs()["offload_pb2"]

# All windows open, so that what is not read lies in the server.
PREFACE = (http2.PREFACE + http2.frame(http2.SETTINGS, payload=struct.pack(">HI", 4, LARGEST)) +
           http2.frame(http2.WINDOW_UPDATE, payload=struct.pack(">I", LARGEST - 65535)))


def asks(count, num_samples=40, split=5, form=None, **opened):
    form = wire.FORM_F32 if form is None else form
    return wire.FetchRequest(
        open=wire.FetchOpen(protocol_version=1, pipeline=PIPELINE, **opened),
        samples=[wire.SampleRequest(request_id=i, sample_id=i % num_samples, split=split, form=form)
                 for i in range(count)]).SerializeToString()


def call(connection, path, message):
    """A call that is left open, and whose answer nobody reads."""
    stream = connection.next_stream
    connection.next_stream += 2
    data = http2.grpc_message(message)
    frames = http2.frame(http2.HEADERS, http2.END_HEADERS, stream, http2.request_headers(path))
    for i in range(0, len(data), 16384):
        frames += http2.frame(http2.DATA, 0, stream, data[i:i + 16384])
    return stream, send(connection, frames)


def send(connection, data):
    """False once the server has cut the connection or reads no more."""
    try:
        return connection.try_send(data)
    except TimeoutError:
        return False


@unittest.skipIf(os.environ.get("SLUICE_SANITIZE"), "a sanitizer's memory is its own")
class Attacks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = torture.make_dataset("attacked", count=40, size=300)

    def bounded(self, name, attack, root=None):
        with Attacked(root or self.root, "--memory-limit", f"{LIMIT_MB}M") as server:
            self.assertTrue(server.serves())
            start = server.rss_bytes()
            sources = (f"127.0.1.{i}" for i in itertools.cycle(range(1, 9)))
            self.server, self.connections = server, []

            def connect():
                connection = http2.Connection(server.address, next(sources), PREFACE)
                connection.socket.settimeout(SEND_TIMEOUT_S)
                self.connections.append(connection)
                return connection
            attack(connect)
            self.settle(server)
            self.assertTrue(server.serves("127.0.2.1"))
            most = server.rss_bytes("VmHWM") - start
            for connection in self.connections:
                connection.close()
            self.assertTrue(server.serves("127.0.2.1"))
            print(f"{name}: {most / MB:.0f} MB above the start, the limit is {LIMIT_MB} MB",
                  flush=True)
            self.assertLess(most, LIMIT_MB * MB * 1.1)

    @staticmethod
    def settle(server):
        """Until its memory changes no more."""
        before, unchanged = -1, 0
        while unchanged < 5:
            time.sleep(0.05)
            now = server.rss_bytes()
            unchanged = unchanged + 1 if now == before else 0
            before = now

    def test_readers_that_never_read(self):
        def attack(connect):
            for _ in range(8 * MANY):
                connection = connect()
                for _ in range(8):
                    call(connection, FETCH, asks(200))
        self.bounded("readers that never read", attack)

    def test_many_streams_of_a_connection(self):
        def attack(connect):
            for _ in range(MANY):
                connection = connect()
                for _ in range(120):
                    call(connection, FETCH, asks(50))
        self.bounded("streams of one connection", attack)

    def test_many_connections(self):
        def attack(connect):
            for _ in range(100 * MANY):
                call(connect(), FETCH, asks(4))
        self.bounded("connections", attack)

    def test_continuation_frames_without_end(self):
        def attack(connect):
            more = http2.frame(http2.CONTINUATION, 0, 1, http2.literal("x", "y" * 100) * 100) * 10
            for _ in range(4 * MANY):
                connection = connect()
                send(connection, http2.frame(http2.HEADERS, 0, 1, http2.request_headers(FETCH)))
                for _ in range(1000):
                    if not send(connection, more):
                        break
        self.bounded("CONTINUATION flood", attack)

    def test_rapid_resets(self):
        def attack(connect):
            for _ in range(4 * MANY):
                connection = connect()
                for _ in range(1000):
                    stream, is_sent = call(connection, LIST, b"")
                    if not is_sent or not send(connection, http2.frame(
                            http2.RST_STREAM, 0, stream, b"\0\0\0\x08")):
                        break
        self.bounded("rapid resets", attack)

    def test_cancelled_calls(self):
        def attack(connect):
            for _ in range(8 * MANY):
                connection = connect()
                for _ in range(50):
                    stream, _ = call(connection, FETCH, asks(100))
                    send(connection, http2.frame(http2.RST_STREAM, 0, stream, b"\0\0\0\x08"))
        self.bounded("cancelled calls", attack)

    def test_backlogs_of_requests(self):
        """By a stock client: the server has to grant what it reads."""
        ended = threading.Event()
        more = wire.FetchRequest(samples=[
            wire.SampleRequest(request_id=1, sample_id=1)] * 20000).SerializeToString()

        def requests():
            yield asks(0, window_bytes=1)
            while not ended.is_set():
                yield more

        channels, streams = [], []

        def end():
            """Ends each stream before it is collected: gRPC 1.51's Python can crash on a stream
            that is collected while its call ends."""
            ended.set()
            for channel in channels:
                channel.close()
            while not all(stream.done() for stream in streams):
                time.sleep(0.01)
        self.addCleanup(end)

        def attack(connect):
            for _ in range(2 * MANY):
                channels.append(grpc.insecure_channel(
                    self.server.address, [("grpc.use_local_subchannel_pool", 1)]))
                streams.extend(channels[-1].stream_stream(FETCH)(requests()) for _ in range(10))
            while not any(stream.done() for stream in streams) and \
                    self.server.rss_bytes() < 4 * LIMIT_MB * MB:
                time.sleep(0.01)
            ended.set()
        self.bounded("backlogs of requests", attack)

    def test_probe_streams(self):
        def attack(connect):
            message = wire.ProbeRequest(bytes=1 << 30, message_bytes=1 << 20).SerializeToString()
            for _ in range(4 * MANY):
                connection = connect()
                for _ in range(25):
                    call(connection, PROBE, message)
        self.bounded("probe streams", attack)

    def test_decode_bombs(self):
        root = harness.temporary_folder("bombs")
        folder = root / "train" / "bomb"
        folder.mkdir(parents=True)
        (folder / "a.jpg").write_bytes(bombs.baseline(8000, 8000, ((2, 2), (1, 1), (1, 1))))
        (folder / "b.jpg").write_bytes(bombs.progressive(4000, 4000, 40, work=False))
        (folder / "c.jpg").write_bytes(bombs.progressive(1000, 1000, 300))

        def attack(connect):
            for form in (wire.FORM_U8, wire.FORM_JPEG_CROP, wire.FORM_F32):
                for _ in range(2 * MANY):
                    call(connect(), FETCH, asks(20, 3, 3, form))
        self.bounded("decode bombs", attack, root)

    def test_floods_of_lists(self):
        root = harness.temporary_folder("long")
        folder = root / "train" / "cat"
        folder.mkdir(parents=True)
        image = next(self.root.glob("train/*/*.jpg")).read_bytes()
        (folder / "0.jpg").write_bytes(image)
        for i in range(1, 5000 * MANY):
            os.link(folder / "0.jpg", folder / f"{i}{'x' * 100}.jpg")

        def attack(connect):
            for _ in range(4 * MANY):
                connection = connect()
                for _ in range(100):
                    call(connection, LIST, b"")
        self.bounded("lists that are never read", attack, root)

    def test_oversized_messages(self):
        def attack(connect):
            for _ in range(4 * MANY):
                connection = connect()
                for _ in range(20):
                    stream, _ = call(connection, FETCH, b"")
                    send(connection, http2.frame(
                        http2.DATA, 0, stream, struct.pack(">BI", 0, LARGEST) + b"x" * 16000) +
                        http2.frame(http2.DATA, 0, stream, b"x" * 16384) * 200)
        self.bounded("oversized messages", attack)


if __name__ == "__main__":
    torture.main()
