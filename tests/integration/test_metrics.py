#!/usr/bin/env python3
"""The pages of --metrics, by the rules of Prometheus, while the programs work."""
import http.client
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import unittest

import exposition
import harness
from programs import Port

modules = harness.stubs()
offload = modules["offload_pb2"]
offload_grpc = modules["offload_pb2_grpc"]

T = harness.TIMEOUT_S
PIPELINE = "decode,random_resized_crop=224,hflip=0.5,to_tensor,normalize=imagenet"
NAME = b'a"b\nc\\d\xff\xc3(' + "é".encode()
NAME_SHOWN = 'a"b\nc\\d\ufffd\ufffd(é'


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value


def opening(name, samples):
    """A FetchRequest, by hand: no stub sends a name that is no UTF-8."""
    fetch_open = offload.FetchOpen(protocol_version=1, pipeline=PIPELINE).SerializeToString()
    request = offload.FetchRequest(samples=samples).SerializeToString()
    return field(1, fetch_open + (field(7, name) if name else b"")) + request


class Pages(unittest.TestCase):
    def setUp(self):
        self.root = harness.temporary_folder(self.id().split(".")[-1])
        harness.make_images(self.root)

    def serve(self, *flags):
        """A server, stopped when the test ends, and its metrics' port."""
        with Port() as port:
            server = harness.Server(self.root, "--metrics", f"127.0.0.1:{port}", *flags)
            self.addCleanup(lambda: server.process.poll() is None and server.stop())
            return server, port.number

    @staticmethod
    def fetch(server, name, count):
        """A client of this name, a connection of its own, takes so many samples."""
        import grpc
        samples = [offload.SampleRequest(request_id=i, sample_id=i % 12, split=3 * (i % 2))
                   for i in range(count)]
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(server.address, options=options) as channel:
            call = channel.stream_stream("/sluice.v1.Offload/Fetch",
                                         request_serializer=lambda request: request,
                                         response_deserializer=offload.FetchReply.FromString)
            replies = call(iter([opening(name, samples)]), timeout=T)
            got = [sample for reply in replies for sample in reply.samples]
        assert len(got) == count and all(s.status == offload.SAMPLE_OK for s in got)
        return sum(len(s.payload) for s in got)

    def value(self, families, name, **labels):
        return families[name].values()[frozenset(labels.items())]

    def test_the_servers_page_under_load(self):
        server, port = self.serve()
        before = exposition.scrape(port)
        payload = []
        clients = [threading.Thread(
            target=lambda i=i: payload.append(self.fetch(server, NAME if i == 0 else b"", 200)))
            for i in range(4)]
        for client in clients:
            client.start()
        scrapes = 0
        while any(client.is_alive() for client in clients) or not scrapes:
            during = exposition.scrape(port)
            for name, family in during.items():  # no counter falls
                if family.type == "counter":
                    for labels, value in before[name].values().items():
                        self.assertGreaterEqual(family.values()[labels], value, (name, labels))
            before = during
            scrapes += 1
        for client in clients:
            client.join(T)
        after = exposition.scrape(port)
        self.assertEqual(len(payload), 4)
        self.assertEqual(sum(after["sluice_samples_total"].values().values()), 800)
        self.assertEqual(self.value(after, "sluice_client_samples_total", client=NAME_SHOWN,
                                    address="127.0.0.1"), 200)
        self.assertEqual(self.value(after, "sluice_client_samples_total", client="127.0.0.1",
                                    address="127.0.0.1"), 600)
        self.assertEqual(sum(after["sluice_client_payload_bytes_total"].values().values()),
                         sum(payload))
        times = after["sluice_service_seconds"]
        self.assertEqual(times.values("_count")[frozenset()], 800)
        stages = after["sluice_service_stage_seconds"].values("_sum")
        self.assertEqual({dict(labels)["stage"] for labels in stages},
                         {"backlog", "queue", "disk", "work", "send"})
        whole = times.values("_sum")[frozenset()]
        self.assertLessEqual(abs(sum(stages.values()) - whole), 0.01 * whole + 0.01)
        self.assertEqual(self.value(after, "sluice_dataset_samples"), 12)
        self.assertEqual(self.value(after, "sluice_dataset_classes"), 2)
        self.assertEqual(self.value(after, "sluice_dataset_bytes"),
                         sum(p.stat().st_size for p in self.root.rglob("*.*") if p.is_file()))
        self.assertGreater(self.value(after, "sluice_memory_limit_bytes"), 1e6)
        self.assertGreater(self.value(after, "sluice_memory_peak_bytes"), 0)
        self.assertEqual(self.value(after, "sluice_serving"), 1)
        info = dict(*after["sluice_build_info"].values())
        self.assertEqual(info["program"], "offload_server")
        self.assertRegex(info["version"], r"^\d+\.\d+")
        self.assertRegex(info["compiler"], r"^(gcc|clang) \d+")

    def test_the_number_of_series_has_a_bound(self):
        server, port = self.serve()
        for i in range(70):
            self.fetch(server, b"client %d" % i, 1)
        families = exposition.scrape(port)
        series = families["sluice_client_samples_total"].values()
        self.assertEqual(len(series), 65)
        self.assertEqual(sum(series.values()), 70)
        self.assertEqual(series[frozenset({("client", "other"), ("address", "")})], 6)

    def test_damaged_requests_are_counted(self):
        server, port = self.serve()
        import grpc
        with server.channel() as channel:
            call = channel.stream_stream("/sluice.v1.Offload/Fetch")
            with self.assertRaises(grpc.RpcError):
                list(call(iter([opening(b"", []) + varint(7 << 3 | 1) + b"8 bytes."]), timeout=T))
        self.assertEqual(self.value(exposition.scrape(port), "sluice_damaged_requests_total"), 1)

    def test_health_says_what_is_wrong(self):
        server, port = self.serve()
        self.assertEqual(exposition.get(port, "/healthz")[::2], (200, b"ok\n"))
        moved = pathlib.Path(f"{self.root}.moved")
        self.root.rename(moved)
        while True:  # the root watch looks every second
            status, _, body = exposition.get(port, "/healthz")
            if status != 200:
                break
        self.assertEqual((status, body), (503, b"the root is gone\n"))
        self.assertEqual(self.value(exposition.scrape(port), "sluice_serving"), 0)
        moved.rename(self.root)
        while exposition.get(port, "/healthz")[0] != 200:
            pass

    def test_root_and_errors(self):
        _, port = self.serve()
        status, headers, body = exposition.get(port, "/")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        for link in re.findall(rb'href="([^"]*)"', body):
            self.assertEqual(exposition.get(port, link.decode())[0], 200)
        self.assertEqual(len(re.findall(rb"href=", body)), 2)
        self.assertEqual(exposition.get(port, "/other")[0], 404)
        for method, path, status in (("HEAD", "/metrics", 200), ("HEAD", "/healthz", 200),
                                     ("HEAD", "/other", 404), ("POST", "/metrics", 405)):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=T)
            connection.request(method, path)
            self.assertEqual(connection.getresponse().status, status, (method, path))
            connection.close()

    @unittest.skipUnless(exposition.promtool(), "promtool is missing (Debian: prometheus)")
    def test_prometheus_own_checker_finds_nothing(self):
        server, port = self.serve()
        self.assertEqual(exposition.lint(exposition.get(port, "/metrics")[2]), "")
        self.fetch(server, NAME, 30)
        self.assertEqual(exposition.lint(exposition.get(port, "/metrics")[2]), "")


class Reader(unittest.TestCase):
    """The reader itself finds what is wrong."""

    def test_refuses_what_breaks_the_format(self):
        head = b"# HELP sluice_a_total A.\n# TYPE sluice_a_total counter\n"
        exposition.parse(head + b'sluice_a_total{a="b\\"\\\\\\n{},"} 1\n')
        for bad in (b"sluice_a_total 1", b"sluice_a_total  1\n", b'sluice_a_total{a="b} 1\n',
                    b'sluice_a_total{a="b",} 1\n', b'sluice_a_total{a="\\x"} 1\n',
                    b"sluice_b_total 1\n", b"sluice_a_total -1\n", b'sluice_a_total{a="\xff"} 1\n',
                    b"sluice_a_total 1\nsluice_a_total 1\n", b'sluice_a_total{a="",a=""} 1\n',
                    b"sluice_a_total x\n", head):
            with self.assertRaises((exposition.Bad, ValueError), msg=bad):
                exposition.parse(head + bad)
        gauge = b"# HELP sluice_a_total A.\n# TYPE sluice_a_total gauge\n"
        with self.assertRaises(exposition.Bad):
            exposition.parse(gauge)
        buckets = b"# HELP sluice_a_seconds A.\n# TYPE sluice_a_seconds histogram\n"
        for bad in (b'sluice_a_seconds_bucket{le="1"} 2\nsluice_a_seconds_bucket{le="+Inf"} 1\n',
                    b'sluice_a_seconds_bucket{le="1"} 1\n'):
            with self.assertRaises(exposition.Bad):
                exposition.parse(buckets + bad + b"sluice_a_seconds_sum 1\n"
                                 b"sluice_a_seconds_count 1\n")


if __name__ == "__main__":
    harness.main()
