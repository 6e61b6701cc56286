"""The same training script behind a link: over sluice.torch, and over other loaders and a web server.

usage: link DIR [options]

Two hosts are made of this machine (hosts.py).  The storage host has an offload_server and a web
server on DIR; on the compute host peers/one.py loops over sluice.torch.Loader in --modes, or over
each of --peers with each of --workers processes: a DataLoader that gets each file by HTTP
(torchvision), tars over HTTP (webdataset), or MDS shards by requests of S3 (mosaicml-streaming).  With --files s3 the offload_server, too, asks the web server for its files, as it
would a bucket.  Rows take turns: each of --rounds runs every row once, each round beginning with
another row.  --no-root, or a machine without what two hosts take: loopback, both servers behind a
bench_link each.

Exit codes: 0; 1 if a measurement failed or digests differ; 77 if a package is missing or the
images do not fit into the page cache.
"""
import argparse
import collections
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile

from . import hosts, image_files, package, peers, quota

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
MODES = ("remote_auto", "remote_nooff")
OURS, THEIRS = "sluice.torch", ("torchvision", "webdataset", "mosaicml-streaming")
NGINX_PORT = 8080  # of the storage host; on this machine's loopback a free one
BUCKET, SCRATCH = "images-bucket", "scratch-of-peers"  # as the web server names them
NGINX_CONF = """daemon off;
worker_processes {processes};
error_log stderr notice;
pid {folder}/nginx.pid;
events {{}}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen {address};
        root "{root}";
        location /{scratch}/ {{ alias "{folder}/{scratch}/"; }}
        location /{bucket}/ {{ alias "{root}/"; }}
    }}
}}
"""

# workers: threads of ours, processes of theirs; mode: None of theirs.
Row = collections.namedtuple("Row", "name mode workers output")
Run = collections.namedtuple("Run", "per_s bytes_per_s gives others converted_s")


class Failed(Exception):
    pass


class Relays(hosts.LinkLimit):
    """Loopback; bench_link holds each server's bytes to the rate."""
    name = "bench_link"
    text = "loopback, bench_link in front of each server (bytes of TCP's payload)"
    server_flags = ()
    interface, copies = "lo", 2  # bytes pass loopback before and after the relay

    def __init__(self, program, mbit):
        self.program, self.mbit = program, mbit
        self.processes = []

    def address_of(self, address):
        relay = hosts.spawn([self.program, "--to", address.rpartition(":")[2], "--rate", self.mbit,
                             "--delay", 0], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True)
        self.processes.append(relay)
        return said_address(relay, "bench_link")

    def close(self):
        for relay in self.processes:
            hosts.end(relay)
            relay.stdin.close()
            relay.stdout.close()


class Hosts(hosts.Namespaces):
    interface, copies = "compute0", 1
    processes = ()

    def address_of(self, address):
        return address


def said_address(process, name):
    line = process.stdout.readline()
    if not line.startswith("listening on "):
        raise Failed(f"{name} said {line!r}")
    return line.split()[-1]


def make_link(options):
    """The link, and why it is of that kind."""
    link, why = hosts.make_link(options.is_root_allowed)
    link.close()
    if isinstance(link, hosts.Namespaces):
        link = Hosts()
        link.set_rate(options.link)
        return link, why
    return Relays(options.bin.parent / "bench/bench_link", options.link), why


class WebServer:
    """nginx or Python's http.server on the storage host."""

    def __init__(self, options, link, cores, folder):
        prefix = [*link.storage_prefix, *cores.storage_prefix]
        host = link.storage_address
        if options.web == "nginx":
            port = NGINX_PORT if link.storage_prefix else free_port()
            conf = pathlib.Path(folder, "nginx.conf")
            conf.write_text(NGINX_CONF.format(
                processes=len(cores.storage), folder=folder, address=f"{host}:{port}",
                root=options.images, bucket=BUCKET, scratch=SCRATCH), encoding="utf-8")
            pathlib.Path(folder, SCRATCH).mkdir()
            os.chmod(folder, 0o755)  # nginx's workers are another user
            command = [options.nginx, "-p", folder, "-c", conf, "-e", "stderr"]
            log, ready = subprocess.STDOUT, "start worker process"
        else:
            command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", host,
                       "--protocol", "HTTP/1.1", "--directory", options.images]
            log, ready = subprocess.DEVNULL, "Serving HTTP on"
        self.process = hosts.spawn([*prefix, *command], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=log, text=True)
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if ready in line:
                break
        else:
            self.close()
            raise Failed(f"{options.web} ended: {''.join(lines).strip()}")
        if options.web == "python":
            port = lines[-1].split(" port ")[1].split()[0]
        self.address = f"{host}:{port}"

    def cpu_seconds(self):
        pid = self.process.pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return sum(map(hosts.cpu_seconds, [pid, *map(int, file.read().split())]))

    def close(self):
        hosts.end(self.process)
        self.process.stdout.close()


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


class Bench:
    """Both hosts with their servers."""

    def __init__(self, options, folder):
        self.options = options
        self.servers, self.cores, self.link = [], None, None
        try:
            self.link, self.why = make_link(options)
            self.cores = hosts.Cores(options.storage_cores, options.compute_cores)
            self.scratch = pathlib.Path(folder, SCRATCH)
            web = WebServer(options, self.link, self.cores, folder)
            self.servers.append(web)
            ours = self.start_ours(folder, web)
            self.servers.append(ours)
            self.addresses = {OURS: self.link.address_of(ours.address),
                              "web": self.link.address_of(web.address)}
        except BaseException:
            self.close()
            raise
        self.cpus = sorted(set(self.cores.storage + self.cores.compute))
        # For the first epoch of either to be over when the time starts: its plan is from nothing.
        self.warm_up = options.repeat * len(image_files.find(options.images))

    def close(self):
        for server in self.servers:
            server.close()
        if self.link:
            self.link.close()
        if self.cores:
            self.cores.close()

    def start_ours(self, folder, web):
        log = pathlib.Path(folder, "offload_server.log")
        root, flags = self.options.images, ()
        if self.options.files == "s3":
            manifest = pathlib.Path(folder, "sluice-manifest.tsv")
            subprocess.run([self.options.bin / "offload_dataset", "index", root, "-o", manifest],
                           stdout=subprocess.DEVNULL, check=True)
            root = f"s3://{BUCKET}"
            flags = ("--s3-endpoint", f"http://{web.address}", "--manifest", manifest)
        try:
            return hosts.Server(self.options.bin / "offload_server", root, self.link, self.cores,
                                self.options.storage_cores, "off", log, flags)
        except hosts.HostError:
            raise Failed(f"offload_server: {log.read_text(encoding='utf-8').strip()}") from None

    def command(self, row):
        options = self.options
        place = (["--server", self.addresses[OURS], "--mode", row.mode, "--digest"] if row.mode else
                 ["--http", self.addresses["web"], "--scratch", self.scratch])
        return [*self.link.compute_prefix, *self.cores.compute_prefix, options.python, peers.ONE,
                row.name, "--images", options.images, *place, "--workers", row.workers, "--output",
                row.output, "--batch", options.batch, "--repeat", options.repeat, "--seconds",
                options.seconds, "--warm-up", 0, "--warm-up-samples", self.warm_up, "--seed",
                options.seed, "--interface", self.link.interface]

    def busy(self):
        """Of all CPUs, and what of it is ours, but for that of the client."""
        known = sum(server.cpu_seconds() for server in self.servers)
        known += sum(hosts.cpu_seconds(relay.pid) for relay in self.link.processes)
        return hosts.busy_seconds(set(self.cpus)) - known

    def measure(self, row):
        before, started = self.busy(), os.times().elapsed
        try:
            text, _, used = peers.run(self.command(row), self.cores.compute, self.options.timeout)
        except (peers.Failed, peers.Skipped) as why:
            raise Failed(str(why)) from None
        taken = (os.times().elapsed - started) * len(self.cpus)
        report = json.loads(text.splitlines()[-1])
        others = max(0.0, (self.busy() - before - used) / taken)
        return Run(report["samples_per_s"],
                   report["received_bytes"] / self.link.copies / report["seconds"],
                   report["output"], others, report["converted_s"]), report["digests"]


def rows_of(options):
    return [row for output in options.outputs for row in (
        *(Row(OURS, mode, quota.cpus_for(options.compute_cores), output)
          for mode in options.modes),
        *(Row(peer, None, workers, output)
          for peer in options.peers for workers in options.workers))]


def name_of(row):
    return f"{row.name}, {row.mode}" if row.mode else f"{row.name}, HTTP, {row.workers} workers"


def measure(options, bench, rows):
    """Of each row its runs by rounds, and of each epoch the digests that were found."""
    measured, digests = {row: [] for row in rows}, collections.defaultdict(set)
    for number in range(options.rounds):
        turn = number * len(rows) // options.rounds
        for row in rows[turn:] + rows[:turn]:
            run, found = bench.measure(row)
            measured[row].append(run)
            for epoch, digest in enumerate(found):
                digests[epoch].add(digest)
            print(f"round {number + 1}: {name_of(row)}, {row.output}: {run.per_s:.0f}/s, "
                  f"{run.bytes_per_s * 8e-6:.1f} Mbit/s, {run.others:.0%} of the CPUs to others",
                  file=sys.stderr, flush=True)
    return measured, digests


def spread(values):
    values = list(values)
    return statistics.median(values), min(values), max(values)


def summary(options, row, measured):
    """auto_over: of the rounds: the rate of remote_auto over this row's of that round."""
    runs = measured[row]
    rate, least, most = spread(run.per_s for run in runs)
    found = {"name": name_of(row), "output": runs[0].gives, "workers": row.workers,
             "us": 1e6 / rate, "samples_per_s": rate, "min": least, "max": most,
             "bytes": statistics.median(run.bytes_per_s / run.per_s for run in runs),
             "mbit": 8e-6 * statistics.median(run.bytes_per_s for run in runs)}
    found["of_link"] = found["mbit"] / options.link
    auto = next((runs for other, runs in measured.items()
                 if (other.mode, other.output) == ("remote_auto", row.output)), None)
    ratio = spread(a.per_s / run.per_s for a, run in zip(auto, runs)) if auto else (None,) * 3
    found |= dict(zip(("auto_over", "auto_over_min", "auto_over_max"), ratio))
    return {**found, "others": max(run.others for run in runs), "rounds": len(runs),
            "converted_s": max(run.converted_s for run in runs)}


def print_table(rows):
    print(f"{'':34} {'gives':9} {'samples/s':>9} {'least':>7} {'most':>7} {'auto over':>9} "
          f"{'least':>6} {'most':>6} {'kB each':>7} {'Mbit/s':>7} {'of link':>7} {'others':>6} "
          f"{'convert s':>9}")
    for row in rows:
        ratio, least, most = ("-" if row[key] is None else f"{row[key]:.2f}" for key in
                              ("auto_over", "auto_over_min", "auto_over_max"))
        print(f"{row['name']:34} {row['output']:9} {row['samples_per_s']:9.0f} {row['min']:7.0f} "
              f"{row['max']:7.0f} {ratio:>9} {least:>6} {most:>6} {row['bytes'] / 1e3:7.1f} "
              f"{row['mbit']:7.1f} {row['of_link']:7.0%} {row['others']:6.0%} "
              f"{row['converted_s']:9.1f}")


def numbers(text):
    found = [int(word) for word in text.split(",")]
    if min(found) < 1:
        raise argparse.ArgumentTypeError(f"{text}: numbers above 0")
    return found


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     epilog="See docs/BENCHMARKING.md.")
    parser.add_argument("images", metavar="DIR", type=pathlib.Path,
                        help="folder with a folder of images for each class; some hundred are "
                        "enough, and each measurement begins with an epoch of them")
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/release/bin",
                        help="folder of the programs. Default: build/release/bin")
    package.add_option(parser)
    parser.add_argument("--python", default=sys.executable, help="interpreter to measure in")
    parser.add_argument("--link", type=float, default=200, metavar="MBIT",
                        help="rate of the link. Default: 200")
    parser.add_argument("--storage-cores", type=float, default=2,
                        help="of the storage host. Default: 2")
    parser.add_argument("--compute-cores", type=float, default=2,
                        help="of the compute host, and threads of ours. Default: 2")
    parser.add_argument("--modes", type=peers.words(MODES), default=list(MODES),
                        help=f"of {', '.join(MODES)}. Default: both")
    parser.add_argument("--peers", type=peers.words(THEIRS), default=["torchvision"],
                        help=f"of {', '.join(THEIRS)}; all but the first need nginx. "
                        "Default: torchvision")
    parser.add_argument("--files", choices=("folder", "s3"), default="folder",
                        help="where the offload_server reads from: DIR, or the web server (nginx) "
                        "as if it were a bucket. Default: folder")
    parser.add_argument("--workers", type=numbers, default=[2, 4, 8],
                        help="of a peer's DataLoader; a row for each. Default: 2,4,8")
    parser.add_argument("--outputs", type=peers.words(("u8", "f32")), default=["u8", "f32"],
                        help="u8: pixels; f32: normalised floats. Default: u8,f32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5, help="of a measurement, at least")
    parser.add_argument("--repeat", type=int, default=2,
                        help="how often each image comes in an epoch; the first one warms up. "
                        "Default: 2")
    parser.add_argument("--batch", type=int, default=64, help="samples in a batch")
    parser.add_argument("--seed", type=int, default=0)
    nginx = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    parser.add_argument("--web", choices=("nginx", "python"), default="nginx" if nginx else
                        "python", help="web server. Default: nginx where it is installed")
    parser.add_argument("--no-root", action="store_false", dest="is_root_allowed",
                        help="loopback and bench_link, also as root")
    parser.add_argument("--timeout", type=float, default=600, help="seconds of one measurement")
    parser.add_argument("--json", action="store_true", help="an object for each row")
    options = parser.parse_args()
    options.nginx = nginx
    options.images, options.bin = options.images.resolve(), options.bin.resolve()
    if min(options.rounds, options.repeat, options.batch, options.seconds, options.link,
           options.storage_cores, options.compute_cores) <= 0:
        parser.error("numbers are above 0")
    if options.web == "nginx" and not nginx:
        parser.error("--web nginx: it is not installed (nginx-light)")
    if options.web != "nginx" and (options.files == "s3" or options.peers != ["torchvision"]):
        parser.error("--files s3, and peers other than torchvision, need nginx (nginx-light)")
    return options


def missing(options):
    """Why it cannot be measured; None if it can."""
    for name in (OURS, *options.peers):
        try:
            peers.run([options.python, peers.ONE, name, "--check"], os.sched_getaffinity(0),
                      options.timeout)
        except peers.Skipped as why:
            return f"{name}: {why}"
    if not image_files.warm(options.images):
        return "the images take over half of the memory"
    return None


def run(options):
    """The rows, and of each epoch the digests that were found."""
    with tempfile.TemporaryDirectory(prefix="link-") as folder:
        bench = Bench(options, folder)
        try:
            cores = bench.cores
            print("machine " + json.dumps({
                **hosts.machine(), "link": bench.link.text, "why": bench.why, "mbit": options.link,
                "tcp": hosts.tcp_congestion_control(), "web": options.web,
                "storage_cores": options.storage_cores, "storage_cpus": cores.storage,
                "compute_cores": options.compute_cores, "compute_cpus": cores.compute,
                "warning": cores.warning()}), file=sys.stderr, flush=True)
            measured, digests = measure(options, bench, rows_of(options))
        finally:
            bench.close()
    return [summary(options, row, measured) for row in measured], digests


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is ended
    package.use(options)
    try:
        reason = missing(options)
        if reason:
            print(f"link: skipped: {reason}", file=sys.stderr)
            return SKIPPED
        rows, digests = run(options)
    except (Failed, peers.Failed, hosts.HostError, quota.QuotaError, OSError) as why:
        print(f"link: {why}", file=sys.stderr)
        return 1
    if options.json:
        for row in rows:
            print(json.dumps(row))
    else:
        print_table(rows)
    different = {epoch: found for epoch, found in digests.items() if len(found) != 1}
    if different:
        print(f"link: digests differ: {different}", file=sys.stderr)
        return 1
    for epoch, found in sorted(digests.items())[:1]:
        print(f"one digest of epoch {epoch} in all modes and rounds: {found.pop()}; so of "
              f"{len(digests)} epochs", file=sys.stderr)
    return 0
