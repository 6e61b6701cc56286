#!/usr/bin/env python3
"""Buckets and web servers as the root of offload_server: one digest, the folder's, in every mode;
with an index, over TLS, under faults, within the sandbox; and what changes or is refused is named.

moto's server is the bucket, or with SLUICE_S3_BACKEND=radosgw a Ceph of this test (rados_gateway.py),
behind a gateway that checks each signature (s3_gateway.py); nginx, or Python's own, is the web
server."""
import http.server
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request

import programs
import record_sets
from programs import free_port, run

try:
    import boto3
    import moto.server  # noqa: F401
    import rados_gateway
    import s3_gateway
except ImportError as error:
    print(f"SKIPPED: moto[server] of PyPI is missing for {sys.executable} ({error})")
    sys.exit(77)

TIMEOUT_S = 120
KEY, SECRET = "AKIDEXAMPLE", "wJalr/XUtnFEMI+K7MDENG"
MODES = ("remote_nooff", "remote_alloff", "remote_piloff", "remote_auto")


for name in [name for name in os.environ if name.startswith("AWS_")]:
    del os.environ[name]


def environment(**more):
    return {"HOME": "/nonexistent", "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, **more}


class Server(programs.Server):
    """Over a remote root."""

    def __init__(self, root, *options, env=None):
        super().__init__(root, *options, listen=f"127.0.0.1:{free_port()}", env=env or environment())


def train(*where, options=()):
    """The epoch, and the log."""
    (epoch,), log = programs.train(*where, "--epochs", 1, "-b", 8, "-j", 1, "--retry-for", 10, *options)
    return epoch, log


class WithImages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="sluice-s3-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = pathlib.Path(cls.folder.name)
        cls.images = cls.path / "set"
        run("offload_dataset", "synth", cls.images, "-n", 48, "--num-val", 8, "--classes", 3)
        cls.digest = train("--dataset-mode", "local", cls.images)[0]["digest"]

    def make_certificate(self):
        """Of localhost, signed by itself: two files."""
        certificate, key = self.path / "cert.pem", self.path / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key,
                        "-out", certificate], check=True, capture_output=True)
        return certificate, key

    def check_modes(self, server, modes=MODES):
        for mode in modes:
            epoch, log = train("--host", server.address, "--dataset-mode", mode)
            self.assertEqual(epoch["digest"], self.digest, f"{mode}: {log}{server.log()}")


class WithBucket(WithImages):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if os.environ.get("SLUICE_S3_BACKEND") == "radosgw":
            cls.start_ceph()
        else:
            cls.start_moto()
        cls.client = boto3.client("s3", endpoint_url=cls.bucket_url, aws_access_key_id=KEY,
                                  aws_secret_access_key=SECRET, region_name="us-east-1")
        cls.client.create_bucket(Bucket="photos")
        cls.upload(cls.images, "listed/a b+c")

    @classmethod
    def start_ceph(cls):
        folder = cls.path / "ceph"
        folder.mkdir()
        try:
            gateway = rados_gateway.RadosGateway(folder, KEY, SECRET)
            cls.bucket_url = gateway.__enter__().url
        except rados_gateway.Unavailable as error:
            print(f"SKIPPED: {error}", flush=True)
            cls.folder.cleanup()
            os._exit(77)
        cls.addClassCleanup(gateway.__exit__)

    @classmethod
    def start_moto(cls):
        port = free_port()
        cls.moto = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p",
                                     str(port)], stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
        cls.addClassCleanup(cls.end_moto)
        cls.bucket_url = f"http://127.0.0.1:{port}"
        until = time.monotonic() + TIMEOUT_S
        while True:
            try:
                urllib.request.urlopen(cls.bucket_url, timeout=10).close()
                break
            except OSError:
                if cls.moto.poll() is not None or time.monotonic() > until:
                    raise

    @classmethod
    def end_moto(cls):
        cls.moto.kill()
        cls.moto.wait()

    @classmethod
    def upload(cls, folder, prefix):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                cls.client.upload_file(str(path), "photos",
                                       f"{prefix}/{path.relative_to(folder)}")

    def gateway(self, **options):
        return s3_gateway.Gateway(self.bucket_url, {KEY: SECRET}, **options)


class Buckets(WithBucket):
    def test_a_listed_bucket_is_its_folder(self):
        with self.gateway() as gateway:
            with Server("s3://photos/listed/a b+c", "--s3-endpoint", gateway.url) as server:
                self.assertIn("56 samples (48 train, 8 val) in 3 classes", server.log())
                self.check_modes(server)
                counters = server.stop()
                self.assertEqual(counters["errors"], {})
                self.assertNotIn(SECRET, server.log())
            # Connections are kept.
            self.assertGreater(gateway.num_requests, 4 * 48)
            self.assertLessEqual(gateway.num_connections, gateway.num_requests / 2)
            self.assertFalse([seen for seen in gateway.seen if seen.startswith("HEAD /photos/l")
                              and "sluice-" not in seen])

    def test_a_bucket_with_manifest_and_index_reads_less(self):
        indexed = self.path / "indexed"
        shutil.copytree(self.images, indexed)
        run("offload_dataset", "index", indexed, "--jpeg-index")
        self.upload(indexed, "indexed")
        with self.gateway() as gateway, \
                Server("s3://photos/indexed", "--s3-endpoint", gateway.url, "--verify") as server:
            self.check_modes(server)
            self.assertRegex(server.log(), r"index of \d+ JPEGs")
            server.stop()
        # Versions are not the manifest's times: content is compared once, then parts are read.
        with self.gateway() as gateway, \
                Server("s3://photos/indexed", "--s3-endpoint", gateway.url) as server:
            self.check_modes(server, ("remote_alloff",))
            whole = gateway.num_bytes
            self.check_modes(server, ("remote_alloff",))
            files = server.stop()["files"]
            heads = [seen for seen in gateway.seen if seen.startswith("HEAD ") and
                     "sluice-" not in seen]
            self.assertEqual(len(heads), len(set(heads)))
            self.assertLess(gateway.num_bytes - whole, 0.9 * whole)
            self.assertLess(files["read_bytes"], files["bytes"])

    def test_a_manifest_may_be_a_file_here(self):
        manifest = self.path / "manifest.tsv"
        run("offload_dataset", "index", self.images, "--out", manifest)
        with self.gateway() as gateway, \
                Server("s3://photos/listed/a b+c", "--s3-endpoint", gateway.url, "--manifest",
                       manifest) as server:
            self.check_modes(server, ("remote_nooff",))
            self.assertFalse([seen for seen in gateway.seen if "list-type" in seen])

    def index(self, root, *flags):
        """The summary of an index over a store."""
        return json.loads(run("offload_dataset", "index", "--json", root, *flags, env=environment()).stdout)

    def test_shards_are_listed_by_ranges_and_read_where_they_lie(self):
        tars, records = self.path / "tars", self.path / "records"
        run("offload_dataset", "pack", "--shard-bytes", "700kB", self.images, tars)
        for subset, rows in record_sets.samples_of(self.images).items():
            record_sets.write_mds(records / subset, [(data, struct.pack("<q", label))
                                                     for data, label in rows],
                                  [("image", "bytes", None), ("label", "int", 8)], per_shard=20)
        for folder in (tars, records):
            self.upload(folder, f"shards/{folder.name}")
            manifest = self.path / f"{folder.name}.tsv"
            local = json.loads(run("offload_dataset", "index", "--json", folder, "--out",
                                   self.path / "x.tsv").stdout)
            root = f"s3://photos/shards/{folder.name}"
            with self.gateway() as gateway:
                made = self.index(root, "--s3-endpoint", gateway.url, "--out", manifest)
                gets = [seen for seen in gateway.seen if seen.startswith("GET ") and
                        (".tar" in seen or ".mds" in seen)]
                with Server(root, "--s3-endpoint", gateway.url, "--manifest", manifest) as server:
                    self.check_modes(server)
                    self.assertEqual(server.stop()["errors"], {})
            for key in ("samples", "shards", "dataset_id", "bytes"):
                self.assertEqual(made[key], local[key])
            self.assertGreater(len(gets), 0)
        with self.gateway() as gateway:
            some = self.index("s3://photos/shards", "--s3-endpoint", gateway.url, "--out",
                              self.path / "some.tsv", "--shards",
                              "tars/val/shard-000000.tar::records/val/shard.{00000..00000}.mds")
            self.assertEqual((some["samples"], some["shards"]), (16, 2))
        # An object that was written again is none of those that are listed.
        name = sorted((records / "train").glob("*.mds"))[0]
        self.client.put_object(Bucket="photos", Key=f"shards/records/train/{name.name}",
                               Body=name.read_bytes()[:-1] + b"x")
        with self.gateway() as gateway, \
                Server("s3://photos/shards/records", "--s3-endpoint", gateway.url, "--manifest",
                       self.path / "records.tsv") as server:
            epoch, _ = train("--host", server.address, "--dataset-mode", "remote_nooff",
                             options=("--on-error", "skip", "--max-errors", "48"))
            self.assertEqual(epoch["errors"], 20)

    def test_an_index_of_a_bucket_needs_a_file_for_it(self):
        done = run("offload_dataset", "index", "s3://photos/listed", env=environment(), code=1)
        self.assertIn("the list needs a file: give --out FILE", done.stderr)

    def test_one_digest_under_faults(self):
        with self.gateway(seed=7) as gateway:
            with Server("s3://photos/listed/a b+c", "--s3-endpoint", gateway.url) as server:
                gateway.faults = {"503": 0.03, "429": 0.03, "reset": 0.04, "cut": 0.04,
                                  "delay": 0.1, "etag": 0.03}
                self.check_modes(server)
                gateway.faults = {}
                server.stop()
            self.assertEqual(sorted(gateway.num_faults),
                             ["429", "503", "cut", "delay", "etag", "reset"])

    def test_answers_that_do_not_come_are_asked_for_again(self):
        with self.gateway() as gateway:
            with Server("s3://photos/listed/a b+c", "--s3-endpoint", gateway.url,
                        "--sample-timeout", str(4 * TIMEOUT_S)) as server:
                self.check_modes(server)  # it learns how long they take
                before = gateway.num_requests
                gateway.stall_next(2)
                self.check_modes(server, ("remote_alloff",))
                # The epoch is there, and what was asked for first has not come yet.
                self.assertEqual(gateway.num_stalled, 2)
                self.assertFalse(gateway.released.is_set())
                self.assertGreaterEqual(gateway.num_requests - before, 48 + 2)
                self.assertLessEqual(gateway.num_requests - before, 48 + 2 + 10)
                gateway.release()
                self.assertEqual(server.stop()["errors"], {})

    def test_a_cache_spares_the_bucket_and_outlives_the_server(self):
        cache = self.path / "cache"
        options = ("--cache", cache, "--cache-bytes", "64M")
        with self.gateway() as gateway:
            def epoch(*more):
                """Bytes that the bucket sent for an epoch, and the server's counters of its cache."""
                before = gateway.num_bytes
                with Server("s3://photos/listed/a b+c", "--s3-endpoint", gateway.url, *options,
                            *more) as server:
                    self.check_modes(server, ("remote_alloff",))
                    self.assertRegex(server.log(), "what the store sends is kept in .*cache")
                    listed = gateway.num_bytes
                    with self.assertRaises(RuntimeError) as raised:
                        Server("s3://photos/listed/a b+c", "--s3-endpoint", gateway.url, *options)
                    self.assertIn("another server uses this cache", str(raised.exception))
                    counters = server.stop()
                    self.assertEqual(counters["errors"], {})
                    return listed - before, counters["cache"]
            cold, counts = epoch()
            self.assertEqual((counts["hits"], counts["misses"]), (0, 48))
            self.assertGreaterEqual(cold, counts["miss_bytes"])
            warm, counts = epoch()
            self.assertEqual((counts["hits"], counts["misses"], counts["miss_bytes"]), (48, 0, 0))
            self.assertLess(warm, cold / 4)  # the list alone
            try:
                warm, counts = epoch("--sandbox", "on")
                self.assertEqual((counts["hits"], counts["misses"]), (48, 0))
                shutil.rmtree(cache)
                cold, counts = epoch("--sandbox", "on")
                self.assertEqual((counts["hits"], counts["misses"]), (0, 48))
                self.assertEqual(counts["errors"], 0)
            except RuntimeError as error:
                if "--sandbox on: this kernel" not in str(error):
                    raise

    def test_a_cache_never_gives_an_object_that_changed(self):
        self.upload(self.images, "cached")
        changed = next((self.images / "train").rglob("*.jpg")).relative_to(self.images)
        options = ("--cache", self.path / "cache-of-changes", "--cache-bytes", "64M")
        with self.gateway() as gateway:
            with Server("s3://photos/cached", "--s3-endpoint", gateway.url, *options) as server:
                self.check_modes(server, ("remote_alloff",))
            other = (self.images / changed).read_bytes() + b"\0"
            self.client.put_object(Bucket="photos", Key=f"cached/{changed}", Body=other)
            with Server("s3://photos/cached", "--s3-endpoint", gateway.url, *options) as server:
                train("--host", server.address, "--dataset-mode", "remote_alloff")
                counts = server.stop()["cache"]
            self.assertEqual((counts["hits"], counts["misses"]), (47, 1))
            self.assertEqual(counts["miss_bytes"], len(other))

    def test_a_cache_with_an_index_fetches_no_more_and_other_crops_hit(self):
        indexed = self.path / "indexed-cached"
        shutil.copytree(self.images, indexed)
        run("offload_dataset", "index", indexed, "--jpeg-index")
        self.upload(indexed, "indexed-cached")

        def epochs(*options):
            """Bytes of three epochs with crops of their own, after one of whole files."""
            with self.gateway() as gateway:
                with Server("s3://photos/indexed-cached", "--s3-endpoint", gateway.url,
                            *options) as server:
                    spent = []
                    for seed in range(4):
                        before = gateway.num_bytes
                        train("--host", server.address, "--dataset-mode", "remote_alloff",
                              options=("--seed", str(seed)))
                        spent.append(gateway.num_bytes - before)
                    server.stop()
                    return spent
        plain = epochs()
        cached = epochs("--cache", self.path / "cache-of-index", "--cache-bytes", "64M")
        self.assertLessEqual(cached[0], plain[0])
        self.assertGreater(min(plain[1:]), 0)
        self.assertEqual(cached[1:], [0, 0, 0])

    def test_an_object_that_changes_is_named(self):
        self.upload(self.images, "changing")
        changed = next((self.images / "train").rglob("*.jpg")).relative_to(self.images)
        with self.gateway() as gateway, \
                Server("s3://photos/changing", "--s3-endpoint", gateway.url) as server:
            self.check_modes(server, ("remote_alloff",))
            other = bytearray((self.images / changed).read_bytes())
            other[-3] ^= 1
            self.client.put_object(Bucket="photos", Key=f"changing/{changed}", Body=bytes(other))
            epoch, log = train("--host", server.address, "--dataset-mode", "remote_alloff",
                               options=("--on-error", "skip"))
            self.assertNotEqual(epoch["digest"], self.digest)
            self.assertRegex(log, f"{changed}.*the object changed since it was listed")
            self.assertEqual(list(server.stop()["errors"]), ["stale"])

    def test_what_is_refused_is_one_clear_line(self):
        cases = (
            ({"AWS_ACCESS_KEY_ID": "AKOTHER"}, "denied (InvalidAccessKeyId"),
            ({"AWS_SECRET_ACCESS_KEY": "wrong/secret"}, "denied (SignatureDoesNotMatch"),
            ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "requests are not signed"),
        )
        with self.gateway() as gateway:
            for variables, expected in cases:
                with self.assertRaises(RuntimeError) as raised:
                    Server("s3://photos/listed", "--s3-endpoint", gateway.url,
                           env=environment(**variables))
                errors = [line for line in str(raised.exception).splitlines()
                          if " error: " in line]
                self.assertEqual(len(errors), 1, raised.exception)
                self.assertIn(expected, errors[0])
                self.assertIn("s3://photos/listed", errors[0])
                self.assertNotIn("wrong/secret", str(raised.exception))
            with self.assertRaises(RuntimeError) as raised:
                Server("s3://no-such-bucket", "--s3-endpoint", gateway.url)
            self.assertIn("NoSuchBucket", str(raised.exception))
            with self.assertRaises(RuntimeError) as raised:
                Server("s3://photos/nothing", "--s3-endpoint", gateway.url)
            self.assertIn("no image", str(raised.exception))

    def test_tls_needs_a_certificate_that_is_trusted(self):
        certificate, key = self.make_certificate()
        with self.gateway(certificate=certificate, key=key) as gateway:
            with Server("s3://photos/listed/a b+c", "--s3-endpoint", gateway.url,
                        env=environment(AWS_CA_BUNDLE=str(certificate))) as server:
                self.check_modes(server, ("remote_nooff", "remote_alloff"))
            with self.assertRaises(RuntimeError) as raised:
                Server("s3://photos/listed", "--s3-endpoint", gateway.url, "--sample-timeout", "2")
            self.assertRegex(str(raised.exception), "(?i)certificate")

    def test_the_sandbox_leaves_the_way_to_the_bucket(self):
        profile = self.path / "credentials"
        profile.write_text(f"[work]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
        variables = environment(AWS_PROFILE="work", AWS_SHARED_CREDENTIALS_FILE=str(profile))
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            del variables[name]
        with self.gateway() as gateway:
            for mode in ("off", "auto", "on"):
                try:
                    server = Server("s3://photos/listed/a b+c", "--s3-endpoint", gateway.url,
                                    "--sandbox", mode, env=variables)
                except RuntimeError as error:
                    if mode == "on" and "--sandbox on: this kernel" in str(error):
                        continue
                    raise
                with server:
                    self.check_modes(server, ("remote_nooff",))
                    self.assertIn("the profile work", server.log())


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *unused):
        pass


class WebServers(WithImages):
    def write_list(self, url, has_tags):
        lines = ["# PATH BYTES ETAG"]
        for path in self.images.rglob("*.*"):
            name = str(path.relative_to(self.images))
            if not path.is_file() or path.suffix not in (".jpg", ".png"):
                continue
            tag = "-"
            if has_tags:
                with urllib.request.urlopen(f"{url}/{urllib.parse.quote(name)}") as answer:
                    tag = answer.headers["ETag"]
            lines.append(f"{name} {path.stat().st_size} {tag}")
        (self.images / "list.txt").write_text("\n".join(lines) + "\n")
        self.addCleanup((self.images / "list.txt").unlink)

    def check(self, url):
        with Server(f"{url}/list.txt") as server:
            self.check_modes(server, ("remote_nooff", "remote_auto"))
            self.assertEqual(server.stop()["errors"], {})

    def test_pythons_own_without_etags_and_ranges(self):
        class Files(Handler):
            def __init__(handler, *args):
                super().__init__(*args, directory=str(self.images))

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files) as web:
            web.daemon_threads = True
            threading.Thread(target=web.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{web.server_port}"
            self.write_list(url, has_tags=False)
            self.check(url)
            web.shutdown()

    def serve_by_nginx(self, listen, more=""):
        """Starts nginx over the images; ends with the test."""
        nginx = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        if not nginx:
            self.skipTest("no nginx (nginx-light)")
        config = self.path / "nginx.conf"
        config.write_text(
            f"daemon off; pid {self.path}/nginx.pid; error_log {self.path}/nginx.log;"
            f"{'user root;' if os.geteuid() == 0 else ''}"
            "events {} http { log_format short '$server_protocol'; "
            f"access_log {self.path}/access.log short; "
            + "".join(f"{name}_temp_path {self.path}/{name};" for name in
                      ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
            + f"server {{ listen {listen}; root {self.images}; {more} }} }}")
        process = subprocess.Popen([nginx, "-c", config, "-e", self.path / "nginx.log"])
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        host, port = listen.split()[0].split(":")
        until = time.monotonic() + TIMEOUT_S
        while True:
            try:
                socket.create_connection((host, int(port)), timeout=10).close()
                return
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    raise

    def test_nginx_with_etags(self):
        port = free_port()
        self.serve_by_nginx(f"127.0.0.1:{port}")
        self.write_list(f"http://127.0.0.1:{port}", has_tags=True)
        self.check(f"http://127.0.0.1:{port}")

    def test_nginx_over_tls_and_http2(self):
        certificate, key = self.make_certificate()
        port = free_port()
        self.serve_by_nginx(f"127.0.0.1:{port} ssl http2",
                            f"ssl_certificate {certificate}; ssl_certificate_key {key};")
        self.write_list("", has_tags=False)
        with Server(f"https://localhost:{port}/list.txt",
                    env=environment(AWS_CA_BUNDLE=str(certificate))) as server:
            self.check_modes(server, ("remote_nooff", "remote_auto"))
            self.assertEqual(server.stop()["errors"], {})
        self.assertIn("HTTP/2.0", (self.path / "access.log").read_text().splitlines())


if __name__ == "__main__":
    unittest.main(verbosity=2)
