#!/usr/bin/env python3
"""The pages of --metrics, by the rules of Prometheus, while the programs work."""
import http.client
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading
import unittest
import urllib.error

import exposition
import harness
from programs import Port, train

modules = harness.stubs()
offload = modules["offload_pb2"]
offload_grpc = modules["offload_pb2_grpc"]

T = harness.TIMEOUT_S
PIPELINE = "decode,random_resized_crop=224,hflip=0.5,to_tensor,normalize=imagenet"
NAME = b'a"b\nc\\d\xff\xc3(' + "é".encode()
NAME_SHOWN = 'a"b\\nc\\d\ufffd\ufffd(é'


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
    """A dataset, servers, and clients of these."""

    def setUp(self):
        self.root = harness.temporary_folder(self.id().split(".")[-1])
        harness.make_images(self.root)

    def serve(self, *flags):
        """A server, stopped when the test ends, and its metrics' port."""
        port = self.take_port()
        server = harness.Server(self.root, "--metrics", f"127.0.0.1:{port}", *flags)
        self.addCleanup(self.end_server, server)
        return server, port.number

    def take_port(self):
        port = Port()
        self.addCleanup(port.close)
        return port

    @staticmethod
    def end_server(server):
        if server.process.poll() is None:
            server.stop()
        server.close()

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


class ServerPages(Pages):
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
        self.assertEqual(self.value(exposition.scrape(port), "sluice_root_available"), 0)
        moved.rename(self.root)
        while exposition.get(port, "/healthz")[0] != 200:
            pass
        self.assertEqual(self.value(exposition.scrape(port), "sluice_root_available"), 1)

    def test_the_dataset_is_that_of_the_list_read_last(self):
        server, port = self.serve()
        before = exposition.scrape(port)
        file = next(self.root.glob("train/cat/*.jpg"))
        copy = file.with_name("zzz.jpg")
        shutil.copy(file, copy)
        server.process.send_signal(signal.SIGHUP)
        after = before
        while self.value(after, "sluice_dataset_samples") == 12:
            after = exposition.scrape(port)
        self.assertEqual(self.value(after, "sluice_dataset_samples"), 13)
        self.assertEqual(self.value(after, "sluice_dataset_bytes") -
                         self.value(before, "sluice_dataset_bytes"), copy.stat().st_size)
        self.assertNotEqual(set(after["sluice_dataset_info"].values()),
                            set(before["sluice_dataset_info"].values()))

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


class TrainerPages(Pages):
    """The same of offload_train."""

    def train(self, server, *flags):
        """A run that goes on until the test ends; its metrics' port."""
        port = self.take_port()
        where = ["--host", server.address] if server else [str(self.root)]
        run = subprocess.Popen(
            [str(harness.BIN / "offload_train"), *where, "-b", "4", "--device", "none",
             "--epochs", "1000000", "--metrics", f"127.0.0.1:{port}", "--no-digest",
             "--retry-for", str(T), "-p", "0", *flags],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "SLUICE_GPU": "host"})
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        return run, port.number

    def await_page(self, port, is_there):
        """The first page of which is_there says so."""
        while True:
            try:
                families = exposition.scrape(port)
                if is_there(families):
                    return families
            except (ConnectionError, urllib.error.URLError):
                pass  # it does not listen yet

    def test_the_trainers_page_while_it_trains(self):
        server, server_port = self.serve()
        _, port = self.train(server, "--dataset-mode", "remote_piloff", "--seed", "3")
        name = "sluice_trainer_samples_total"
        first = self.await_page(port, lambda page: self.value(page, name) >= 40)
        families = self.await_page(port, lambda page: self.value(page, name) >= 400)
        for key, family in families.items():
            if family.type == "counter":
                for labels, value in first[key].values().items():
                    self.assertGreaterEqual(family.values()[labels], value, (key, labels))
        samples = self.value(families, name)
        batches = self.value(families, "sluice_trainer_batches_total")
        self.assertLessEqual(batches, samples / 3)  # of 4 samples, of 8 train and 4 val
        choices = families["sluice_trainer_choices_total"].values()
        self.assertEqual(set(choices), {frozenset({("split", "3"), ("form", "u8")})})
        self.assertGreaterEqual(sum(choices.values()), samples - 8)
        self.assertGreater(self.value(families, "sluice_trainer_wire_bytes_total"),
                           300 * 224 * 224 * 3)
        self.assertGreater(self.value(families, "sluice_trainer_epoch"), 1)
        self.assertEqual(self.value(families, "sluice_trainer_epochs"), 1000000)
        waits = families["sluice_trainer_batch_wait_seconds"]
        self.assertGreaterEqual(waits.values("_count")[frozenset()] + 1, batches)
        stalls = families["sluice_trainer_stall_seconds_total"].values()
        self.assertEqual({dict(labels)["cause"] for labels in stalls},
                         {"disk", "storage_cpu", "network", "compute_cpu", "gpu"})
        self.assertLessEqual(abs(sum(stalls.values()) - waits.values("_sum")[frozenset()]), 0.2)
        self.assertEqual(dict(*families["sluice_trainer_info"].values())["mode"], "remote_piloff")
        self.assertEqual(dict(*families["sluice_build_info"].values())["program"], "offload_train")
        self.assertEqual(exposition.get(port, "/healthz")[::2], (200, b"ok\n"))
        # The server knows the trainer by its host's name.
        clients = exposition.scrape(server_port)["sluice_client_samples_total"].values()
        self.assertEqual({dict(labels)["client"] for labels in clients}, {socket.gethostname()})

    def test_what_the_gpu_decoded_is_counted(self):
        _, port = self.train(None, "--dataset-mode", "local", "--gpu-decode", "on")
        page = self.await_page(
            port, lambda page: self.value(page, "sluice_trainer_samples_total") >= 40)
        decoded = page["sluice_trainer_gpu_decoded_samples_total"].values()
        self.assertEqual(set(decoded), {frozenset({("form", "raw")})})
        files = self.value(page, "sluice_trainer_choices_total", split="0", form="raw")
        self.assertLess(sum(decoded.values()), files)  # there are PNGs, too
        self.assertGreater(sum(decoded.values()), files / 3)

    def test_health_says_that_the_server_is_lost(self):
        server, _ = self.serve()
        run, port = self.train(server, "--dataset-mode", "remote_nooff")
        self.await_page(port, lambda page: self.value(page, "sluice_trainer_samples_total") > 0)
        self.assertEqual(exposition.get(port, "/healthz")[0], 200)
        server.process.kill()
        server.process.wait()
        while True:
            status, _, body = exposition.get(port, "/healthz")
            if status != 200:
                break
        self.assertEqual(status, 503)
        self.assertRegex(body.decode(), r"^the server 127\.0\.0\.1:\d+ has been out of reach for "
                                        r"\d+\.\d s\n$")
        families = self.await_page(
            port, lambda page: self.value(page, "sluice_trainer_server_lost_seconds") > 0)
        self.assertEqual(self.value(families, "sluice_trainer_outages_total"), 1)
        self.assertGreaterEqual(self.value(families, "sluice_trainer_lost_streams_total"), 1)
        self.assertIsNone(run.poll())

    def test_local_mode_has_no_server_to_lose(self):
        _, port = self.train(None, "--dataset-mode", "local")
        families = self.await_page(
            port, lambda page: self.value(page, "sluice_trainer_samples_total") > 0)
        self.assertNotIn("sluice_trainer_server_lost_seconds", families)
        self.assertEqual(exposition.get(port, "/healthz")[0], 200)

    def test_an_address_that_is_taken_ends_the_run(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            _, log = train(self.root, "--dataset-mode", "local", "--metrics", address, code=1)
        self.assertIn(f"--metrics {address}: cannot listen", log)

    @unittest.skipUnless(exposition.promtool(), "promtool is missing (Debian: prometheus)")
    def test_prometheus_own_checker_finds_nothing_in_the_trainers(self):
        server, _ = self.serve()
        _, port = self.train(server)
        self.await_page(port, lambda page: self.value(page, "sluice_trainer_samples_total") > 0)
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
