"""Who may read what: TLS, client certificates, tokens, and what is told to those who may not."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
import unittest
import urllib.request

import harness

import grpc

pb = harness.stubs()
offload, offload_grpc = pb["offload_pb2"], pb["offload_pb2_grpc"]
health, health_grpc = pb["health_pb2"], pb["health_pb2_grpc"]
transfer, transfer_grpc = pb["data_transfer_pb2"], pb["data_transfer_pb2_grpc"]
T = harness.TIMEOUT_S
NUM = 24  # training samples
SECRET = b"nobody-may-read-this"

if not shutil.which("openssl"):
    harness.skip("openssl is missing")


def run(*command, **kwargs):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=T, **kwargs)


def dev_certs(folder, *names, days=365):
    done = run(harness.SOURCE / "scripts/dev-certs", folder, *names,
               env={**os.environ, "DEV_CERTS_DAYS": str(days)})
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return folder


def token_line(name, token, **limits):
    return json.dumps({"name": name, "sha256": hashlib.sha256(token.encode()).hexdigest(),
                       **limits}) + "\n"


def digests(text):
    return re.findall(r"digest (\w+)", text)


class Base(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = harness.temporary_folder(cls.__name__)
        cls.root = cls.folder / "set"
        run(harness.BIN / "offload_dataset", "synth", cls.root, "--num", NUM, "--num-val", 8,
            check=True)
        cls.certs = dev_certs(cls.folder / "certs")
        cls.other = dev_certs(cls.folder / "other")
        cls.tls = ("--tls-cert", cls.certs / "server.pem", "--tls-key",
                   cls.certs / "server-key.pem")
        cls.client_tls = ("--tls", "--ca", cls.certs / "ca.pem")
        cls.client_cert = ("--cert", cls.certs / "client.pem", "--key",
                           cls.certs / "client-key.pem")
        plain = harness.Server(cls.root)
        cls.want = cls.expect_digests(plain.address)
        plain.stop()

    @classmethod
    def expect_digests(cls, address):
        done = cls.train(address)
        assert done.returncode == 0 and len(digests(done.stdout)) == 2, done.stderr
        return digests(done.stdout)

    def serve(self, *flags):
        server = harness.Server(self.root, *flags)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        return server

    @staticmethod
    def trainer(address, *flags):
        return [str(part) for part in (
            harness.BIN / "offload_train", "--host", address, "--device", "none", "-b", 8,
            "--epochs", 2, "--image-size", 64, "--retry-for", 0, *flags)]

    @classmethod
    def train(cls, address, *flags, **kwargs):
        return run(*cls.trainer(address, *flags), **kwargs)

    def works(self, address, *flags, **kwargs):
        done = self.train(address, *flags, **kwargs)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(digests(done.stdout), self.want)
        return done

    def fails(self, address, words, *flags, **kwargs):
        done = self.train(address, *flags, **kwargs)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(digests(done.stdout), [])
        self.assertIn(words, done.stderr)
        return done

    def wait_for_log(self, server, words):
        deadline = time.monotonic() + T
        while words not in server.log():
            self.assertLess(time.monotonic(), deadline, f"{words!r} not in {server.log()}")
            time.sleep(0.02)

    def channel(self, address, credentials=True):
        if not credentials:
            return grpc.insecure_channel(address)
        return grpc.secure_channel(address, grpc.ssl_channel_credentials(
            (self.certs / "ca.pem").read_bytes()))


class Tls(Base):
    def test_an_epoch_over_tls_has_the_same_digest(self):
        server = self.serve(*self.tls, "--self-check", "0.2")
        done = self.works(server.address, *self.client_tls)
        self.assertIn("the link to", done.stderr)  # Probe measures it over TLS
        for _ in range(3):
            time.sleep(0.2)  # the server connects to itself meanwhile, over TLS
        self.assertIsNone(server.process.poll())
        self.assertNotIn("nobody can connect", server.log())

    def test_what_does_not_fit_is_refused_in_words(self):
        server = self.serve(*self.tls)
        self.fails(server.address, "wants TLS (--tls)")
        self.fails(server.address, "not of a CA that is known here", "--tls", "--ca",
                   self.other / "ca.pem")
        self.fails(server.address, "certificate is for another name", *self.client_tls,
                   "--server-name", "storage.example")
        self.works(server.address, *self.client_tls, "--server-name", "localhost")
        plain = self.serve()
        self.fails(plain.address, "does not speak TLS", *self.client_tls)
        self.assertEqual(server.stop()["samples"], 2 * NUM)

    def test_replicas_over_tls_have_the_same_digest(self):
        servers = [self.serve(*self.tls) for _ in range(2)]
        deadline, sent = time.monotonic() + T, [0, 0]
        while not all(sent):  # one may be too busy to say hello before the other has done all
            self.assertLess(time.monotonic(), deadline, sent)
            self.works(",".join(server.address for server in servers), *self.client_tls,
                       "--dataset-mode", "remote_alloff")
            sent = [json.loads(run(harness.BIN / "offload_top", "--json", server.address,
                                   *self.client_tls).stdout)["servers"][0]["samples"]
                    for server in servers]
        plain = self.serve()  # one of them without TLS is left out, and named
        done = self.works(f"{self.serve(*self.tls).address},{plain.address}", *self.client_tls)
        self.assertIn("does not speak TLS", done.stderr)
        self.assertEqual(plain.stop()["samples"], 0)

    def test_offload_top_asks_over_tls(self):
        server = self.serve(*self.tls)
        self.works(server.address, *self.client_tls)

        def top(*flags):
            return run(harness.BIN / "offload_top", "--json", server.address, *flags)
        done = top(*self.client_tls)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f'"samples":{2 * NUM}', done.stdout)
        for flags, words in (((), "wants TLS (--tls)"),
                             (("--tls", "--ca", self.other / "ca.pem"), "not of a CA"),
                             ((*self.client_tls, "--server-name", "storage.example"),
                              "certificate is for another name")):
            done = top(*flags)
            self.assertEqual(done.returncode, 1, flags)
            self.assertIn(words, done.stdout + done.stderr)

    def serve_as(self, name, names):
        """A server whose certificate has these alternative names."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "extensions").write_text(f"subjectAltName={names}\n")
        for command in (
                ("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                 "-subj", "/CN=named", "-keyout", folder / "key.pem", "-out", folder / "csr.pem"),
                ("x509", "-req", "-in", folder / "csr.pem", "-CA", self.certs / "ca.pem", "-CAkey",
                 self.certs / "ca-key.pem", "-CAcreateserial", "-days", "2", "-extfile",
                 folder / "extensions", "-out", folder / "cert.pem")):
            subprocess.run(["openssl", *map(str, command)], check=True, capture_output=True)
        return self.serve("--tls-cert", folder / "cert.pem", "--tls-key", folder / "key.pem")

    def test_addresses_of_a_name_have_its_certificate(self):
        server = self.serve_as("named", "DNS:localhost")
        self.works("dns:localhost:" + server.address.split(":")[1], *self.client_tls)
        self.fails(server.address, "certificate is for another name", *self.client_tls)

    def test_a_name_of_another_kind_is_no_name_of_the_server(self):
        server = self.serve_as("dns-like-ip", "DNS:127.0.0.1")
        self.fails(server.address, "certificate is for another name", *self.client_tls)
        server = self.serve_as("mail", "email:localhost,email:127.0.0.1")
        self.fails(server.address, "certificate is for another name", *self.client_tls)
        self.fails("dns:localhost:" + server.address.split(":")[1],
                   "certificate is for another name", *self.client_tls)
        server = self.serve_as("wildcard", "DNS:*.example.org,IP:127.0.0.1")
        self.works(server.address, *self.client_tls)
        self.works(server.address, *self.client_tls, "--server-name", "a.example.org")

    def test_older_versions_than_1_2_are_refused(self):
        server = self.serve(*self.tls)
        host, port = server.address.split(":")
        for version, is_taken in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True),
                                  (ssl.TLSVersion.TLSv1_3, True)):
            context = ssl.create_default_context(cafile=self.certs / "ca.pem")
            context.set_ciphers("DEFAULT@SECLEVEL=0")
            context.set_alpn_protocols(["h2"])
            context.minimum_version = context.maximum_version = version
            with socket.create_connection((host, int(port)), T) as raw:
                if is_taken:
                    with context.wrap_socket(raw, server_hostname="localhost") as secure:
                        self.assertEqual(secure.selected_alpn_protocol(), "h2")
                else:
                    with self.assertRaises((ssl.SSLError, ConnectionError)):
                        context.wrap_socket(raw, server_hostname="localhost")

    def test_an_expired_certificate_is_refused_at_both_ends(self):
        old = dev_certs(self.folder / "old", days=-1)
        done = run(harness.BIN / "offload_server", "--root", self.root, "--listen", "127.0.0.1:0",
                   "--tls-cert", old / "server.pem", "--tls-key", old / "server-key.pem")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{old / 'server.pem'}: the certificate expired on", done.stderr)
        # What our server would not take, another one may show.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(old / "server.pem", old / "server-key.pem")
        context.set_alpn_protocols(["h2"])
        with socket.create_server(("127.0.0.1", 0)) as listener:
            trainer = subprocess.Popen(
                self.trainer(f"127.0.0.1:{listener.getsockname()[1]}", "--tls", "--ca",
                             old / "ca.pem"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True)
            raw = listener.accept()[0]
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                with context.wrap_socket(raw, server_side=True) as secure:
                    secure.recv(1)  # in TLS 1.3 the alert comes after the server's part
                    raise ConnectionError("it went on")
            err = trainer.communicate(timeout=T)[1]
        self.assertNotEqual(trainer.returncode, 0)
        self.assertIn("has expired", err)

    def test_files_that_do_not_do_are_named(self):
        def server(cert, key, *more):
            return run(harness.BIN / "offload_server", "--root", self.root, "--listen",
                       "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, *more)
        cert, key = self.certs / "server.pem", self.certs / "server-key.pem"
        none = self.folder / "none.pem"
        text = self.folder / "text.pem"
        text.write_text("no pem")
        other = self.other / "server-key.pem"
        for done, file, words in (
                (server(none, key), none, "No such file"),
                (server(cert, none), none, "No such file"),
                (server(text, key), text, "not PEM"),
                (server(cert, text), text, "not PEM"),
                (server(cert, other), other, "does not fit the certificate"),
                (server(cert, key, "--tls-client-ca", text), text, "not PEM")):
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{file}: ", done.stderr)
            self.assertIn(words, done.stderr)
        self.assertIn(f"{none}: ", self.fails("127.0.0.1:1", "No such file", "--tls", "--ca",
                                              none).stderr)

    def test_a_server_for_client_certificates_takes_no_other_client(self):
        server = self.serve(*self.tls, "--tls-client-ca", self.certs / "ca.pem", "--self-check",
                            "0.2")
        self.works(server.address, *self.client_tls, *self.client_cert)
        self.fails(server.address, "another certificate than this client's", *self.client_tls)
        self.fails(server.address, "another certificate than this client's", *self.client_tls,
                   "--cert", self.other / "client.pem", "--key", self.other / "client-key.pem")
        for _ in range(3):
            time.sleep(0.2)
        self.assertIsNone(server.process.poll())
        self.assertEqual(server.stop()["samples"], 2 * NUM)

    def test_certificates_change_under_load_and_no_stream_ends(self):
        certs = dev_certs(self.folder / "rotated")
        server = self.serve("--tls-cert", certs / "server.pem", "--tls-key",
                            certs / "server-key.pem", "--link-limit", "4mbit")
        host, port = server.address.split(":")

        def serial():
            context = ssl.create_default_context(cafile=certs / "ca.pem")
            context.set_alpn_protocols(["h2"])
            with socket.create_connection((host, int(port)), T) as raw, \
                    context.wrap_socket(raw, server_hostname="localhost") as secure:
                return secure.getpeercert()["serialNumber"]

        trainer = subprocess.Popen(
            self.trainer(server.address, "--tls", "--ca", certs / "ca.pem", "--dataset-mode",
                         "remote_alloff"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True)
        seen = [serial()]
        dev_certs(certs)  # seen as the file changes
        seen.append(serial())
        self.assertIsNone(trainer.poll())  # it takes 5 s at this rate
        (certs / "server.pem").write_text("damaged")  # and what is no certificate is not taken
        seen.append(serial())
        self.wait_for_log(server, "the certificate stays the one of before")
        server.process.send_signal(signal.SIGHUP)
        self.wait_for_log(server, "not PEM")
        dev_certs(certs)
        server.process.send_signal(signal.SIGHUP)
        seen.append(serial())
        out, err = trainer.communicate(timeout=T)
        self.assertEqual(trainer.returncode, 0, err)
        self.assertEqual(digests(out), self.want)
        self.assertNotIn("back after", err)
        self.assertNotIn("trying for", err)
        self.assertEqual(len(set(seen)), 3, seen)
        self.assertEqual(seen[1], seen[2])
        stats = server.stop()
        self.assertNotIn("lost", server.log())
        self.assertEqual(stats["samples"], 2 * NUM)


class Tokens(Base):
    def setUp(self):
        self.token = "t" + os.urandom(16).hex()
        self.tokens = self.folder / f"tokens-{self.id().split('.')[-1]}"
        self.file = self.tokens.with_suffix(".token")
        self.file.write_text(self.token + "\n")

    def allow(self, *lines):
        self.tokens.write_text("# who may read\n" + "".join(lines))

    def reload(self, server, count):
        server.process.send_signal(signal.SIGHUP)
        self.wait_for_log(server, f"{count} token{'' if count == 1 else 's'} in {self.tokens}")

    def no_token(self, **kwargs):
        return {"env": {**os.environ, "SLUICE_TOKEN": "", **kwargs}}

    def test_a_token_opens_the_server_and_nothing_else_does(self):
        self.allow(token_line("team-a", self.token))
        server = self.serve(*self.tls, "--tokens", self.tokens, "--metrics", "127.0.0.1:0",
                            "--data-transfer")
        with_token = ("--token-file", self.file)
        self.works(server.address, *self.client_tls, *with_token)
        self.works(server.address, *self.client_tls, env={**os.environ,
                                                          "SLUICE_TOKEN": self.token})
        self.fails(server.address, "this server wants a token", *self.client_tls)
        other = self.folder / "other.token"
        other.write_text("somebody-else-s-token")
        started = time.monotonic()
        self.fails(server.address, "the token is none that this server knows", *self.client_tls,
                   "--token-file", other, "--retry-for", 60)
        self.assertLess(time.monotonic() - started, 30)  # no retries: it will not get better
        log = server.log()
        self.assertIn("token team-a: offload_train", log)
        self.assertIn("refused 127.0.0.1:", log)
        self.assertNotIn(self.token, log)
        self.assertNotIn("somebody-else", log)
        port = re.search(r"metrics at port (\d+)", log).group(1)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=T) as page:
            metrics = page.read().decode()
        self.assertIn('client="team-a"', metrics)
        for reason in ("no_token", "unknown_token"):
            refused = re.search(rf'^sluice_refused_calls_total{{reason="{reason}"}} (\d+)', metrics,
                                re.M).group(1)
            self.assertGreaterEqual(int(refused), 1, reason)
        ends = float(re.search(r"^sluice_certificate_expiry_timestamp_seconds (\S+)", metrics,
                               re.M).group(1))
        self.assertLess(abs(ends - time.time() - 365 * 86400), 86400)

    def test_who_has_no_token_learns_nothing_from_any_method(self):
        self.allow(token_line("team-a", self.token))
        for flags, secure in (((), False), (self.tls, True)):
            server = self.serve(*flags, "--tokens", self.tokens, "--data-transfer")
            with self.channel(server.address, secure) as channel:
                stub = offload_grpc.OffloadStub(channel)
                old = transfer_grpc.DataTransferStub(channel)
                wellness = health_grpc.HealthStub(channel)
                request = transfer.DataRequest(fname="train/class_0/0.jpg")
                opening = offload.FetchRequest(open=offload.FetchOpen(protocol_version=1))
                calls = {
                    "Hello": lambda **k: stub.Hello(offload.HelloRequest(protocol_version=1), **k),
                    "Stats": lambda **k: stub.Stats(offload.StatsRequest(), **k),
                    "Probe": lambda **k: list(stub.Probe(offload.ProbeRequest(bytes=1000), **k)),
                    "List": lambda **k: list(
                        stub.ListSamples(offload.ListSamplesRequest(), **k)),
                    "Sizes": lambda **k: stub.ListSizes(offload.ListSizesRequest(), **k),
                    "Fetch": lambda **k: list(stub.Fetch(iter([opening]), **k)),
                    "nooff": lambda **k: old.get_data_nooff(request, **k),
                    "alloff": lambda **k: old.get_data_alloff(request, **k),
                    "Check": lambda **k: wellness.Check(health.HealthCheckRequest(), **k),
                    "Watch": lambda **k: next(wellness.Watch(health.HealthCheckRequest(), **k)),
                }
                good = ("authorization", f"Bearer {self.token}")
                for name, call in calls.items():
                    for metadata in ((), (("authorization", self.token),),
                                     (("authorization", "Bearer "),),
                                     (("authorization", f"Basic {self.token}"),),
                                     (("authorization", f"Bearer {self.token}x"),),
                                     (good, good),
                                     (("authorization", "Bearer " + "x" * 4000),)):
                        with self.assertRaises(grpc.RpcError, msg=name) as caught:
                            call(timeout=T, metadata=metadata)
                        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAUTHENTICATED,
                                         (name, metadata))
                calls["Stats"](timeout=T, metadata=(good,))
                self.assertEqual(calls["Check"](timeout=T, metadata=(good,)).status, 1)
            self.assertEqual(server.stop()["payload_bytes"], 0)

    def test_a_token_goes_to_no_other_machine_in_the_clear(self):
        # A name of this machine that is not loopback: whoever listens there would get it.
        with socket.create_server(("0.0.0.0", 0)) as listener:
            port = listener.getsockname()[1]
            listener.settimeout(0.2)
            for host in (f"0.0.0.0:{port}", f"127.0.0.1.example:{port}", "192.0.2.1:1"):
                self.fails(host, "the token is not sent to", "--token-file", self.file)
            with self.assertRaises(TimeoutError):
                listener.accept()

    def test_tokens_need_tls_beyond_this_machine(self):
        self.allow(token_line("team-a", self.token))
        done = run(harness.BIN / "offload_server", "--root", self.root, "--listen", "0.0.0.0:0",
                   "--insecure", "--tokens", self.tokens)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--tokens at 0.0.0.0:0 needs --tls-cert", done.stderr)

    def test_tokens_change_under_load(self):
        gone = "g" + os.urandom(16).hex()
        gone_file = self.folder / "gone.token"
        gone_file.write_text(gone)
        self.allow(token_line("kept", self.token), token_line("gone", gone))
        server = self.serve(*self.tls, "--tokens", self.tokens, "--link-limit", "20mbit")

        def start(file):
            return subprocess.Popen(
                self.trainer(server.address, *self.client_tls, "--token-file", file,
                             "--dataset-mode", "remote_alloff", "--epochs", "2"),
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        kept, revoked = start(self.file), start(gone_file)
        for name in ("kept", "gone"):
            self.wait_for_log(server, f"token {name}: offload_train")
        self.tokens.write_text("{")
        server.process.send_signal(signal.SIGHUP)
        self.wait_for_log(server, "the tokens stay those of before")
        self.allow(token_line("kept", self.token, mbit_s=15))
        self.reload(server, 1)
        out, err = kept.communicate(timeout=T)
        self.assertEqual(kept.returncode, 0, err)
        self.assertEqual(digests(out), self.want)
        out, err = revoked.communicate(timeout=T)
        self.assertNotEqual(revoked.returncode, 0)
        self.assertLess(len(digests(out)), 2)
        self.assertIn("token is", err)

    def test_subsets_and_roots_are_kept_apart(self):
        self.allow(token_line("team-a", self.token, subsets=["train"], roots=[str(self.root)]))
        server = self.serve("--tokens", self.tokens, "--data-transfer")
        metadata = (("authorization", f"Bearer {self.token}"),)
        with self.channel(server.address, False) as channel:
            stub = offload_grpc.OffloadStub(channel)
            rows = [row for part in stub.ListSamples(offload.ListSamplesRequest(), timeout=T,
                                                     metadata=metadata) for row in part.samples]
            ids = {row.path.split("/")[0]: row.sample_id for row in rows}
            request = offload.FetchRequest(
                open=offload.FetchOpen(protocol_version=1),
                samples=[offload.SampleRequest(request_id=n, sample_id=ids[subset])
                         for n, subset in enumerate(("train", "val"), 1)])
            replies = {reply.request_id: reply for part in
                       stub.Fetch(iter([request]), timeout=T, metadata=metadata)
                       for reply in part.samples}
            self.assertGreater(len(replies[1].payload), 100)
            self.assertEqual(replies[2].payload, b"")
            self.assertIn("may not read val", replies[2].error)
            old = transfer_grpc.DataTransferStub(channel)
            paths = {row.path.split("/")[0]: row.path for row in rows}
            old.get_data_nooff(transfer.DataRequest(fname=paths["train"]), timeout=T,
                               metadata=metadata)
            with self.assertRaises(grpc.RpcError) as caught:
                old.get_data_nooff(transfer.DataRequest(fname=paths["val"]), timeout=T,
                                   metadata=metadata)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.PERMISSION_DENIED)
        self.allow(token_line("team-a", self.token, roots=["/another/root"]))
        self.reload(server, 1)
        self.fails(server.address, "is for other data", "--token-file", self.file)

    def test_limits_hold(self):
        # The tensors of an epoch are 1.2 MB: 1 s at 9.6 Mbit/s.
        self.allow(token_line("slow", self.token, mbit_s=9.6))
        server = self.serve("--tokens", self.tokens)
        started = time.monotonic()
        self.works(server.address, "--token-file", self.file, "--dataset-mode", "remote_alloff",
                   "--net-bw", "10mbit")
        self.assertGreater(time.monotonic() - started, 2 * NUM * 64 * 64 * 3 * 4 * 8 / 9.6e6 - 0.5)
        server.stop()

        # Without cores left the files come, and the batches are the same.
        self.allow(token_line("small", self.token, cores=0.01))
        server = self.serve("--tokens", self.tokens)
        self.works(server.address, "--token-file", self.file, "--dataset-mode", "remote_alloff")
        stats = server.stop()
        self.assertGreater(stats["reduced"], NUM)

        self.allow(token_line("one", self.token, connections=1))
        server = self.serve("--tokens", self.tokens)
        with self.channel(server.address, False) as channel:
            stub = health_grpc.HealthStub(channel)
            metadata = (("authorization", f"Bearer {self.token}"),)
            watch = stub.Watch(health.HealthCheckRequest(), timeout=T, metadata=metadata)
            next(watch)  # a call that stays
            self.fails(server.address, "as many connections as it may have", "--token-file",
                       self.file)
            watch.cancel()
        self.allow(token_line("t", self.token, files=3))
        done = run(harness.BIN / "offload_server", "--root", self.root, "--tokens", self.tokens)
        self.assertEqual(done.returncode, 1)
        self.assertIn('"files" is none of', done.stderr)

    def test_secrets_are_nowhere_to_be_seen(self):
        self.allow(token_line("team-a", self.token))
        server = self.serve(*self.tls, "--tokens", self.tokens, "--log-level", "debug",
                            "--link-limit", "20mbit")
        trainer = subprocess.Popen(
            self.trainer(server.address, *self.client_tls, "--token-file", self.file,
                         "--log-level", "debug", "--dataset-mode", "remote_alloff"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait_for_log(server, "token team-a: offload_train")
        for pid in (server.process.pid, trainer.pid):
            self.assertNotIn(self.token, pathlib.Path(f"/proc/{pid}/cmdline").read_text())
            self.assertEqual(
                int(pathlib.Path(f"/proc/{pid}/coredump_filter").read_text(), 16), 0)
        out, err = trainer.communicate(timeout=T)
        self.assertEqual(trainer.returncode, 0, err)
        config = run(*self.trainer(server.address, "--print-config"),
                     env={**os.environ, "SLUICE_TOKEN": self.token})
        self.assertEqual(config.returncode, 0)
        key = (self.certs / "server-key.pem").read_text().splitlines()[1]
        for text in (out, err, config.stdout, config.stderr, server.log()):
            self.assertNotIn(self.token, text)
            self.assertNotIn(key, text)

    def test_the_line_of_a_token_is_printed_from_its_text(self):
        with open(self.file) as stdin:
            done = run(harness.BIN / "offload_server", "--hash-token", "team-a", stdin=stdin)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout), json.loads(token_line("team-a", self.token)))
        self.assertEqual(json.loads((self.certs / "tokens").read_text())["sha256"],
                         hashlib.sha256((self.certs / "token").read_bytes().strip()).hexdigest())
        self.assertEqual(run(harness.BIN / "offload_server", "--hash-token").returncode, 2)


class Attacks(Base):
    """Stock clients that may not read, at a server that wants a certificate and a token: none gets a byte of data, and
    the server goes on.  (Certificates of servers that ended: Tls.)"""
    PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # By the CA that the server knows, but it has ended.
        cls.expired = cls.folder / "expired"
        shutil.copytree(cls.certs, cls.expired)
        (cls.expired / "client.pem").unlink()
        dev_certs(cls.expired, days=-1)

    def setUp(self):
        self.token, self.val_token = ("t" + os.urandom(16).hex() for _ in range(2))
        tokens = self.folder / "tokens-attacks"
        tokens.write_text(token_line("all", self.token) +
                          token_line("val", self.val_token, subsets=["val"]))
        self.server = self.serve(*self.tls, "--tls-client-ca", self.certs / "ca.pem", "--tokens",
                                 tokens, "--data-transfer")
        self.allowed = (self.certs, self.certs, self.token)
        self.clients = {  # whose CA is trusted, whose certificate is shown, the token, the name that is looked for
            "another CA": (self.other, self.certs, self.token),
            "no certificate": (self.certs, None, self.token),
            "a certificate of another CA": (self.certs, self.other, self.token),
            "an expired certificate": (self.certs, self.expired, self.token),
            "the server's name is another": (self.certs, self.certs, self.token, "storage.example"),
            "no token": (self.certs, self.certs, None),
            "an unknown token": (self.certs, self.certs, self.token[::-1]),
        }

    def connect(self, trusts, shows, token, name="localhost"):
        """A channel of Python's grpcio, and what its calls take."""
        files = [None, None] if shows is None else [
            (shows / file).read_bytes() for file in ("client-key.pem", "client.pem")]
        channel = grpc.secure_channel(
            self.server.address,
            grpc.ssl_channel_credentials((trusts / "ca.pem").read_bytes(), *files),
            options=(("grpc.ssl_target_name_override", name), ("grpc.use_local_subchannel_pool", 1)))
        metadata = () if token is None else (("authorization", f"Bearer {token}"),)
        return channel, {"timeout": T, "metadata": metadata}

    def sent(self):
        """The samples and payload bytes that were sent, as an allowed client is told."""
        self.assertIsNone(self.server.process.poll())
        channel, how = self.connect(*self.allowed)
        with channel:
            stats = offload_grpc.OffloadStub(channel).Stats(offload.StatsRequest(), **how)
        return stats.samples, stats.payload_bytes

    def rows(self):
        channel, how = self.connect(*self.allowed)
        with channel:
            return [row for part in offload_grpc.OffloadStub(channel).ListSamples(
                offload.ListSamplesRequest(), **how) for row in part.samples]

    @staticmethod
    def fetch(sample_id):
        return iter([offload.FetchRequest(
            open=offload.FetchOpen(protocol_version=1),
            samples=[offload.SampleRequest(request_id=1, sample_id=sample_id)])])

    def test_grpcio_clients_that_may_not_read_get_nothing(self):
        row = self.rows()[0]
        for who, client in self.clients.items():
            channel, how = self.connect(*client)
            with channel:
                stub = offload_grpc.OffloadStub(channel)
                old = transfer_grpc.DataTransferStub(channel)
                for call in (
                        lambda: stub.Hello(offload.HelloRequest(protocol_version=1), **how),
                        lambda: stub.Stats(offload.StatsRequest(), **how),
                        lambda: list(stub.Probe(offload.ProbeRequest(bytes=1000), **how)),
                        lambda: list(stub.ListSamples(offload.ListSamplesRequest(), **how)),
                        lambda: list(stub.Fetch(self.fetch(row.sample_id), **how)),
                        lambda: old.get_data_nooff(transfer.DataRequest(fname=row.path), **how)):
                    with self.assertRaises(grpc.RpcError, msg=who) as caught:
                        call()
                    self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAUTHENTICATED
                                     if "token" in who else grpc.StatusCode.UNAVAILABLE, who)
            self.assertEqual(self.sent(), (0, 0), who)
        # The same from a client that may.
        channel, how = self.connect(*self.allowed)
        with channel:
            reply = next(offload_grpc.OffloadStub(channel).Fetch(self.fetch(row.sample_id), **how))
        self.assertGreater(len(reply.samples[0].payload), 100)

    def test_somebody_else_s_token_reads_his_subset_alone(self):
        rows = {row.path.split("/")[0]: row for row in self.rows()}
        channel, how = self.connect(self.certs, self.certs, self.val_token)
        with channel:
            stub, old = offload_grpc.OffloadStub(channel), transfer_grpc.DataTransferStub(channel)
            reply = next(stub.Fetch(self.fetch(rows["train"].sample_id), **how)).samples[0]
            self.assertEqual((reply.payload, "may not read train" in reply.error), (b"", True))
            with self.assertRaises(grpc.RpcError) as caught:
                old.get_data_nooff(transfer.DataRequest(fname=rows["train"].path), **how)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.PERMISSION_DENIED)
            self.assertEqual(self.sent()[1], 0)
            reply = next(stub.Fetch(self.fetch(rows["val"].sample_id), **how)).samples[0]
            self.assertGreater(len(reply.payload), 100)

    def s_client(self, *flags):
        """What the server says first to stock `openssl s_client` that begins as an HTTP/2 client does."""
        with subprocess.Popen(
                ["openssl", "s_client", "-connect", self.server.address, "-alpn", "h2", "-quiet",
                 "-verify_quiet", "-CAfile", str(self.certs / "ca.pem"), *map(str, flags)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            try:
                process.stdin.write(self.PREFACE)
                process.stdin.flush()
            except BrokenPipeError:
                pass  # it was refused before
            first = process.stdout.read(9)
            process.kill()
            return first

    def test_openssl_s_client_gets_not_a_byte(self):
        def shows(folder):
            return "-cert", folder / "client.pem", "-key", folder / "client-key.pem"
        weak = ("-cipher", "ALL:@SECLEVEL=0")
        for flags in ((), ("-tls1_2",), shows(self.other), shows(self.expired),
                      (*shows(self.other), "-tls1_2"), (*shows(self.expired), "-tls1_2"),
                      (*shows(self.certs), *weak, "-tls1_1"), (*shows(self.certs), *weak, "-tls1")):
            self.assertEqual(self.s_client(*flags), b"", flags)
            self.assertEqual(self.sent(), (0, 0), flags)
        for flags in ((), ("-tls1_2",)):  # and to one that may it speaks
            self.assertEqual(self.s_client(*shows(self.certs), *flags)[3], 4)  # a frame SETTINGS
        self.assertEqual(self.sent(), (0, 0))
        token = self.folder / "attacks.token"
        token.write_text(self.token)
        self.works(self.server.address, *self.client_tls, *self.client_cert, "--token-file", token)


class Closed(Base):
    def test_other_machines_are_let_in_only_by_a_word(self):
        done = run(harness.BIN / "offload_server", "--root", self.root, "--listen", ":0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("may read every sample beneath", done.stderr)
        server = harness.Server(self.root, "--listen", ":0", "--insecure")
        self.assertIn("warning: --insecure: anyone who reaches", server.log())
        server.stop()

    def test_data_transfer_serves_samples_alone_and_only_if_asked(self):
        (self.root / ".secret").write_bytes(SECRET)
        (self.root / ".git").mkdir()
        (self.root / ".git/config").write_bytes(SECRET)
        (self.root / "train/notes.txt").write_bytes(SECRET)
        os.symlink(self.root / ".secret", self.root / "train/class.jpg")
        self.addCleanup(lambda: [(self.root / name).unlink() for name in (
            ".secret", ".git/config", "train/notes.txt", "train/class.jpg")])
        run(harness.BIN / "offload_dataset", "index", self.root, check=True)
        inside = next(path for path in (self.root / "train").rglob("*.[jJ]*")
                      if not path.is_symlink()).relative_to(self.root)
        server = self.serve("--data-transfer")
        paths = (".secret", "./.secret", ".git/config", "train/notes.txt", "train/../.secret",
                 str(self.root / ".secret"), str(self.root / "train/../.git/config"), "", ".",
                 "train", "/etc/passwd", "../certs/server-key.pem", ".sluice_manifest.tsv",
                 *(p.name for p in self.root.iterdir()))
        with self.channel(server.address, False) as channel:
            stub = transfer_grpc.DataTransferStub(channel)
            for path in paths:
                for pproc in (-1, 0):
                    with self.assertRaises(grpc.RpcError, msg=path) as caught:
                        stub.get_data_sophon(transfer.DataRequest(fname=path, pproc=pproc),
                                             timeout=T)
                    self.assertIn(caught.exception.code(), (grpc.StatusCode.NOT_FOUND,
                                                            grpc.StatusCode.PERMISSION_DENIED))
                    self.assertNotIn(SECRET.decode(), caught.exception.details())
            reply = stub.get_data_nooff(transfer.DataRequest(fname=str(inside)), timeout=T)
            self.assertEqual(reply.image, (self.root / inside).read_bytes())
        server = self.serve()
        with self.channel(server.address, False) as channel:
            with self.assertRaises(grpc.RpcError) as caught:
                transfer_grpc.DataTransferStub(channel).get_data_nooff(
                    transfer.DataRequest(fname=str(inside)), timeout=T)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)


if __name__ == "__main__":
    harness.main()
