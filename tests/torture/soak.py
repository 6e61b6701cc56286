#!/usr/bin/env python3
"""A server among clients that come and go, for so many minutes (scripts/soak).

Rounds of half a minute: trainers in every mode and form, of which some are told to stop and some are
killed; stock Python clients that fetch, cancel and leave without a word; probes, scrapes of the
metrics, connections that say nothing.  At a round's end nobody is connected, and the server's
memory, threads and descriptors are noted.  They are flat if the line through what was noted after
the first five minutes rises by 2 % or less, or by one thread (gRPC has one that comes and goes).
"""
import argparse
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import torture
from torture import BIN

ROUND_S = 30
WARM_UP_S = 300
MOST_RISE = 0.02
MODES = ("remote_nooff", "remote_alloff", "remote_piloff", "remote_auto")


def noted(pid):
    """RSS in kB, threads, descriptors."""
    with open(f"/proc/{pid}/status") as file:
        status = file.read()
    value = {name: int(re.search(rf"^{name}:\s+(\d+)", status, re.M)[1])
             for name in ("VmRSS", "Threads")}
    return value["VmRSS"], value["Threads"], len(os.listdir(f"/proc/{pid}/fd"))


class Crowd:
    """Clients, each on a thread of its own, until a round is over."""

    def __init__(self, server, metrics, seed):
        self.server, self.metrics, self.seed = server, metrics, seed
        self.modules = torture.harness.stubs()
        self.counts = {}
        self.lock = threading.Lock()
        self.failures = []

    def round(self, number, until):
        kinds = (self.trainer, self.trainer, self.stock, self.stock, self.probe, self.scrape,
                 self.idle)
        threads = [threading.Thread(target=self.repeat, args=(kind, f"{number}/{i}", until))
                   for i, kind in enumerate(kinds)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def repeat(self, kind, name, until):
        rng = random.Random(f"{self.seed}/{name}")
        while time.monotonic() < until:
            try:
                kind(rng)
            except Exception as error:  # the round goes on; the verdict names it
                self.failures.append(f"{kind.__name__}: {error!r}")
                return
            with self.lock:
                self.counts[kind.__name__] = self.counts.get(kind.__name__, 0) + 1

    def trainer(self, rng):
        process = subprocess.Popen(
            [str(BIN / "offload_train"), "--host", self.server.address, "--device", "none",
             "--dataset-mode", rng.choice(MODES), "--remote-form",
             rng.choice(("auto", "raw", "jpeg_crop", "u8_packed", "jpeg_rows")), "--epochs",
             str(rng.randint(1, 4)), "-b", str(rng.choice((1, 8, 64))), "-j", "1", "--image-size",
             str(rng.choice((32, 96, 224))), "--retry-for", "5"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        end = rng.choice((None, None, signal.SIGTERM, signal.SIGKILL))
        try:
            _, said = process.communicate(timeout=rng.uniform(0.1, 2) if end else 120)
            if process.returncode:
                raise RuntimeError(f"offload_train ended with {process.returncode}: {said[-500:]}")
        except subprocess.TimeoutExpired:
            process.send_signal(end or signal.SIGKILL)
            process.communicate()
            if not end:
                raise RuntimeError("offload_train hangs") from None

    def stock(self, rng):
        import grpc
        pb = self.modules["offload_pb2"]
        pipeline = "decode,random_resized_crop=96,hflip=0.5,to_tensor,normalize=imagenet"
        window = rng.choice((0, 1 << 16, 1 << 22))  # never granted anew: some wait for ever
        opened = pb.FetchRequest(open=pb.FetchOpen(
            protocol_version=1, pipeline=pipeline, window_bytes=window))
        asked = pb.FetchRequest(samples=[
            pb.SampleRequest(request_id=i, sample_id=i % 40, epoch=i, split=rng.randint(0, 5))
            for i in range(rng.choice((1, 50, 500)))])
        is_over = threading.Event()

        def requests():
            yield opened
            yield asked
            is_over.wait(5)
        channel = self.server.channel()
        stub = self.modules["offload_pb2_grpc"].OffloadStub(channel)
        try:
            list(stub.ListSamples(pb.ListSamplesRequest(), timeout=60))
            stream = stub.Fetch(requests(), timeout=2 if window else 60)
            most = rng.randint(0, 20)
            for i, _ in enumerate(stream):
                if i >= most:
                    break
            if rng.random() < 0.5:
                stream.cancel()
        except grpc.RpcError as error:
            passing = [grpc.StatusCode.CANCELLED, grpc.StatusCode.RESOURCE_EXHAUSTED]
            if error.code() not in passing + [grpc.StatusCode.DEADLINE_EXCEEDED] * bool(window):
                raise
        finally:
            is_over.set()
            channel.close()

    def probe(self, rng):
        import grpc
        pb = self.modules["offload_pb2"]
        channel = self.server.channel()
        try:
            stub = self.modules["offload_pb2_grpc"].OffloadStub(channel)
            for _ in stub.Probe(pb.ProbeRequest(bytes=rng.randint(1, 8 << 20)), timeout=60):
                pass
            stub.Stats(pb.StatsRequest(), timeout=60)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:  # its share of the memory
                raise
        finally:
            channel.close()

    def scrape(self, rng):
        for _ in range(rng.randint(1, 20)):
            urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=60).read()

    def idle(self, rng):
        host, port = self.server.address.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as sock:
            sock.sendall(b"PRI * HTTP/2.0\r\n"[:rng.randint(0, 16)])
            sock.settimeout(rng.uniform(0.01, 1))
            try:
                while sock.recv(1000):
                    pass
            except OSError:
                pass


def is_level(name, points):
    return rise(points) <= MOST_RISE or (
        name != "rss_kb" and max(v for _, v in points) - min(v for _, v in points) <= 1)


def rise(points):
    """Of the line of least squares through (time, value), over all of its time, by the mean."""
    n = len(points)
    mean_t = sum(t for t, _ in points) / n
    mean_v = sum(v for _, v in points) / n
    spread = sum((t - mean_t) ** 2 for t, _ in points)
    slope = sum((t - mean_t) * (v - mean_v) for t, v in points) / spread
    return slope * (points[-1][0] - points[0][0]) / mean_v


def settle(server):
    """Until nobody is connected: the streams are gone and the descriptors do not fall any more."""
    last = None
    for _ in range(100):
        now = noted(server.process.pid)[2]
        if now == last:
            return
        last = now
        time.sleep(0.1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("minutes", type=float, nargs="?", default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    end = time.monotonic() + options.minutes * 60
    warm_up_s = min(WARM_UP_S, options.minutes * 30)

    root = torture.make_dataset("soak", count=200, size=256)
    with socket.create_server(("127.0.0.1", 0)) as free:
        metrics = "127.0.0.1:%d" % free.getsockname()[1]
    # The limit is low, so that caches are full before the first five minutes are over.
    server = torture.Server(root, "--metrics", metrics, "--memory-limit", "96M")
    crowd = Crowd(server, metrics, options.seed)
    begin = time.monotonic()
    samples = []
    print("seconds,rss_kb,threads,descriptors", flush=True)
    number = 0
    while time.monotonic() < end:
        crowd.round(number, min(end, time.monotonic() + ROUND_S))
        number += 1
        settle(server)
        samples.append((time.monotonic() - begin, *noted(server.process.pid)))
        print("%.0f,%d,%d,%d" % samples[-1], flush=True)
    counters = server.stop()

    late = [one for one in samples if one[0] >= warm_up_s]
    is_flat = len(late) >= 3
    print(f"clients: {crowd.counts}; samples served: {counters['samples']}; "
          f"{len(late)} rounds after the first {warm_up_s:.0f} s")
    for i, name in enumerate(("rss_kb", "threads", "descriptors"), 1):
        points = [(one[0], one[i]) for one in late]
        grows = rise(points) if len(late) >= 3 else float("nan")
        is_flat = is_flat and is_level(name, points)
        print(f"{name}: {late[0][i] if late else '-'} to {late[-1][i] if late else '-'}, "
              f"the line rises by {100 * grows:.2f} %")
    for failure in crowd.failures:
        print(f"a client failed: {failure}")
    is_good = is_flat and not crowd.failures
    print("flat" if is_good else "NOT FLAT" if not is_flat else "FAILED")
    torture.harness.shutil.rmtree(torture.harness._scratch, ignore_errors=True)
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
