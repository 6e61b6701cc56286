"""What a bucket costs against a folder of the same files, and what an index and a cache spare.

usage: s3 DIR [DIR...] [options]

nginx serves each DIR as a bucket, by ranges, with ETags and connections that stay; requests are signed, which it
does not look at.  Each case has --rounds rounds, in turns with its base; the ratio is the median of the rounds', with
the least and the most.

    loopback  bench_store reads every file --passes times with --threads threads: the bucket over the folder, in MB/s
    link      the same through bench_link, a relay of --link Mbit/s with half of --rtt ms each way: the share of
              the link.  (netem, where a kernel has it, would spare the relay's CPU time.)
    index     epochs of offload_server in remote_alloff with an index of the JPEGs, each with other crops: the bytes that
              nginx sent over the length of the files
    cache     the second epoch of a server with --cache and no index in remote_nooff, over an epoch of a server of the
              folder, in samples/s; and bench_store from the cache over the folder
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from . import hosts, image_files

SOURCE = pathlib.Path(__file__).resolve().parents[2]
CASES = ("loopback", "link", "index", "cache")
START_S = 30
ENVIRONMENT = {**{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
               "AWS_ACCESS_KEY_ID": "KEY", "AWS_SECRET_ACCESS_KEY": "secret", "HOME": "/nonexistent"}
SERVER_CONFIG = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; {user}
events {{ worker_connections 1024; }}
http {{
    log_format sent '$request_method $body_bytes_sent';
    access_log {folder}/access.log sent; error_log {folder}/error.log;
    sendfile on; tcp_nopush on; keepalive_requests 100000000; keepalive_timeout 600s;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{ listen 127.0.0.1:{port} backlog=1024; root {folder}/root; }}
}}
"""


class Failed(Exception):
    pass


class Bucket:
    """nginx over a folder: s3://photos of `endpoint`."""

    def __init__(self, images, folder):
        program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        if not program:
            raise Failed("no nginx (nginx-light)")
        (folder / "root").mkdir(parents=True)
        (folder / "root/photos").symlink_to(pathlib.Path(images).resolve())
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        config = folder / "nginx.conf"
        config.write_text(SERVER_CONFIG.format(folder=folder, port=self.port,
                                               user="user root;" if os.geteuid() == 0 else ""))
        self.log, self.seen = folder / "access.log", 0
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.process = hosts.spawn([program, "-c", config, "-e", folder / "error.log"])
        until = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=10).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise Failed((folder / "error.log").read_text()) from None

    def sent(self):
        """Bytes of bodies since the last time."""
        with open(self.log, encoding="ascii") as file:
            file.seek(self.seen)
            lines = file.readlines()
            self.seen = file.tell()
        return sum(int(line.split()[1]) for line in lines)

    def close(self):
        hosts.end(self.process)


@contextlib.contextmanager
def relay(options, port):
    """The address of a link to the port."""
    process = hosts.spawn([options.bin.parent / "bench/bench_link", "--to", port, "--rate", options.link, "--delay",
                           options.rtt / 2], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        hosts.end(process)
        process.stdin.close()
        process.stdout.close()


def read_store(options, images, root, *flags):
    """MB/s of one round."""
    done = subprocess.run(
        [str(part) for part in (options.bin.parent / "bench/bench_store", "--root", root, "--like", images, "--json",
                                "--repeats", 1, "--passes", options.passes, "--threads", options.threads, *flags)],
        capture_output=True, text=True, env=ENVIRONMENT, check=False)
    if done.returncode:
        raise Failed(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])["mb_per_s"]


def server(options, root, *flags):
    return hosts.server(options.bin, root, *flags, env=ENVIRONMENT)


def epoch(options, process, mode, seed):
    done = subprocess.run(
        [str(part) for part in (options.bin / "offload_train", "--host", process.address, "--json", "--device", "none", "--no-val",
                                "-p", 0, "--dataset-mode", mode, "--epochs", 1, "--seed", seed)],
        capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def s3_flags(endpoint):
    return ("--s3-endpoint", endpoint)


def run_loopback(options, images, bucket, folder):
    rows = []
    for _ in range(options.rounds):
        base = read_store(options, images, images)
        rows.append((read_store(options, images, "s3://photos", *s3_flags(bucket.endpoint)), base))
    return {"unit": "MB/s", "rows": rows}


def run_link(options, images, bucket, folder):
    with relay(options, bucket.port) as address:
        flags = s3_flags(f"http://{address}")
        return {"unit": "MB/s", "rows": [(read_store(options, images, "s3://photos", *flags), options.link / 8)
                                         for _ in range(options.rounds)]}


def run_index(options, images, bucket, folder):
    manifest = folder / "manifest.tsv"
    subprocess.run([options.bin / "offload_dataset", "index", images, "--out", manifest, "--jpeg-index"], check=True,
                   capture_output=True)
    paths = ("--manifest", manifest, "--jpeg-index", folder / "sluice-jpeg-index.bin")
    total = sum(map(os.path.getsize, image_files.find(images)))
    rows = []
    with server(options, "s3://photos", *s3_flags(bucket.endpoint), *paths) as process:
        epoch(options, process, "remote_alloff", 1000)  # the first one compares contents
        bucket.sent()
        for seed in range(options.rounds):
            epoch(options, process, "remote_alloff", seed)
            rows.append((bucket.sent() / 1e6, total / 1e6))
    return {"unit": "MB", "rows": rows}


def run_cache(options, images, bucket, folder):
    manifest = folder / "manifest-only.tsv"
    subprocess.run([options.bin / "offload_dataset", "index", images, "--out", manifest], check=True, capture_output=True)
    cache = ("--cache", folder / "cache", "--cache-bytes", "1T")
    rows, digests = [], []
    with server(options, "s3://photos", *s3_flags(bucket.endpoint), "--manifest", manifest, *cache) as cached, \
            server(options, images, "--manifest", manifest) as plain:
        for process in (cached, plain):
            epoch(options, process, "remote_nooff", 1000)
        bucket.sent()
        for seed in range(options.rounds):
            base = epoch(options, plain, "remote_nooff", seed)
            found = epoch(options, cached, "remote_nooff", seed)
            rows.append((found["samples_per_s"], base["samples_per_s"]))
            digests.append(found["digest"] == base["digest"])
        if bucket.sent() or not all(digests):
            raise Failed("the cache asked the store, or gave something else")
    store = []
    for _ in range(options.rounds):
        base = read_store(options, images, images)
        store.append((read_store(options, images, "s3://photos", *s3_flags(bucket.endpoint), "--cache",
                                 folder / "cache-of-store"), base))
    return {"unit": "samples/s", "rows": rows, "store": {"unit": "MB/s", "rows": store}}


RUN = {"loopback": run_loopback, "link": run_link, "index": run_index, "cache": run_cache}


def sum_up(images, case, found):
    ratios = [value / base for value, base in found["rows"]]
    return {"images": pathlib.Path(images).name, "case": case, "unit": found["unit"],
            "value": statistics.median(value for value, _ in found["rows"]),
            "base": statistics.median(base for _, base in found["rows"]),
            "ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}


def say(options, one):
    if options.json:
        print(json.dumps(one), flush=True)
    else:
        print(f"{one['images']:16}{one['case']:14}{one['value']:10.1f}{one['base']:10.1f} {one['unit']:10}"
              f"{one['ratio']:8.3f} ({one['least']:.3f} to {one['most']:.3f})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog="See the head of the file.")
    parser.add_argument("images", metavar="DIR", nargs="+")
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/release/bin")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--passes", type=int, default=20, help="over the files, of bench_store (20)")
    parser.add_argument("--threads", type=int, default=64, help="of bench_store (64, the server's default)")
    parser.add_argument("--link", type=float, default=1000, help="Mbit/s (1000)")
    parser.add_argument("--rtt", type=float, default=20, help="ms (20)")
    parser.add_argument("--json", action="store_true", help="an object for each row")
    options = parser.parse_args()
    cases = options.cases.split(",")
    unknown = [case for case in cases if case not in CASES]
    if unknown:
        parser.error(f"'{unknown[0]}' is none of {', '.join(CASES)}")
    if not options.json:
        print(f"{'images':16}{'case':14}{'value':>10}{'base':>10} {'':10}{'ratio':>8}")
    try:
        for images in options.images:
            image_files.warm(images)
            with tempfile.TemporaryDirectory() as name, \
                    contextlib.closing(Bucket(images, pathlib.Path(name, "nginx"))) as bucket:
                for case in cases:
                    found = RUN[case](options, images, bucket, pathlib.Path(name))
                    say(options, sum_up(images, case, found))
                    if "store" in found:
                        say(options, sum_up(images, f"{case}_store", found["store"]))
    except (Failed, hosts.HostError, subprocess.CalledProcessError) as error:
        sys.exit(f"s3: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
