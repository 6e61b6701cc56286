#!/usr/bin/env python3
"""The proxy of docs/OPERATIONS.md, with the very configuration that stands there: the same digest
through it, nobody without a certificate, and floods end at it."""
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import unittest

import http2
import torture
from attacked import Attacked, rss_bytes
from harness import SOURCE
from programs import Port

NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
MIB = 1 << 20


def configurations():
    """{name of the file: text} of the nginx blocks in the docs."""
    text = (SOURCE / "docs" / "operations" / "security.md").read_text()
    blocks = re.findall(r"^```nginx\n(# \S+/(\S+)\n.*?)^```$", text, re.M | re.S)
    return {name: block for block, name in blocks}


def make_certificates(folder):
    """A CA, and what it signed for the two ends; one that it did not sign, too."""
    def openssl(*words):
        subprocess.run(["openssl", *words], check=True, cwd=folder, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=ca",
            "-days", "2", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    openssl("req", "-x509", *new, "-keyout", "stranger.key", "-out", "stranger.crt", "-subj",
            "/CN=stranger", "-days", "2")
    for name in ("storage", "compute"):
        openssl("req", *new, "-keyout", name + ".key", "-out", name + ".csr", "-subj", "/CN=" + name,
                "-addext", "subjectAltName=DNS:" + name)
        openssl("x509", "-req", "-in", name + ".csr", "-CA", "ca.crt", "-CAkey", "ca.key",
                "-CAcreateserial", "-out", name + ".crt", "-days", "2", "-copy_extensions", "copy")


class Nginx:
    """nginx with these server blocks."""

    def __init__(self, folder, blocks):
        folder.chmod(0o755)
        (folder / "nginx.conf").write_text(
            f"daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;\n"
            "events {}\nhttp {\n"
            f"access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;\n"
            f"fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;\n"
            + "\n".join(blocks) + "\n}\n")
        self.log = folder / "error.log"
        self.command = [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e",
                        str(self.log)]
        subprocess.run([*self.command, "-t"], check=True, capture_output=True)
        self.process = subprocess.Popen(self.command, stderr=subprocess.DEVNULL)

    def wait_for(self, port):
        """Until it accepts connections: nginx says nothing when it does."""
        while self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port.number), 1).close()
                return
            except ConnectionRefusedError:
                pass
        raise AssertionError("nginx ended: " + self.log.read_text())

    def rss_bytes(self):
        """Of its workers."""
        pid = self.process.pid
        workers = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return sum(rss_bytes(worker) for worker in workers)

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=torture.TIMEOUT_S)


@unittest.skipUnless(NGINX, "nginx is missing (nginx-light)")
@unittest.skipUnless(shutil.which("openssl"), "openssl is missing")
class Proxy(unittest.TestCase):
    def setUp(self):
        self.root = torture.make_dataset(self.id().split(".")[-1])
        self.folder = torture.temporary_folder(self.id().split(".")[-1] + "-nginx")
        make_certificates(self.folder)
        self.server = Attacked(self.root)
        self.outer, self.inner = Port(), Port()
        changes = {
            "sluice-storage.conf": (("listen 50443 ", f"listen 127.0.0.1:{self.outer} "),
                                    ("127.0.0.1:50051", self.server.address)),
            "sluice-compute.conf": (("127.0.0.1:50051", f"127.0.0.1:{self.inner}"),
                                    ("//storage:50443", f"//127.0.0.1:{self.outer}")),
        }
        blocks = configurations()
        self.assertEqual(sorted(blocks), sorted(changes))
        for name, replacements in changes.items():
            for old, new in (*replacements, ("/etc/sluice/", f"{self.folder}/")):
                self.assertIn(old, blocks[name])
                blocks[name] = blocks[name].replace(old, new)
        self.outer.close()  # nginx wants its ports for itself
        self.inner.close()
        self.nginx = Nginx(self.folder, blocks.values())
        self.nginx.wait_for(self.outer)
        self.nginx.wait_for(self.inner)

    def tearDown(self):
        self.nginx.stop()
        self.server.close()

    def connect(self, certificate):
        """HTTP/2 over TLS to the storage node's end."""
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        context.set_alpn_protocols(["h2"])
        if certificate:
            context.load_cert_chain(self.folder / (certificate + ".crt"),
                                    self.folder / (certificate + ".key"))
        return http2.Connection(
            f"127.0.0.1:{self.outer}",
            wrap=lambda plain: context.wrap_socket(plain, server_hostname="storage"))

    def test_the_same_digest(self):
        flags = ("--dataset-mode", "remote_auto", "--epochs", 2, "-b", 8)
        through, _ = torture.train("--host", f"127.0.0.1:{self.inner}", *flags)
        straight, _ = torture.train("--host", self.server.address, *flags)
        self.assertEqual([epoch["digest"] for epoch in through],
                         [epoch["digest"] for epoch in straight])
        self.assertEqual([epoch["errors"] for epoch in through], [0, 0])

    def test_nobody_without_a_certificate_of_ours(self):
        with self.connect("compute") as friend:
            self.assertTrue(friend.is_serving())
        for certificate in (None, "stranger"):
            try:
                with self.connect(certificate) as other:
                    self.assertFalse(other.is_serving())
            except (ssl.SSLError, ConnectionError):
                pass

    def test_a_continuation_flood_ends_at_the_proxy(self):
        before, before_nginx = self.server.rss_bytes(), self.nginx.rss_bytes()
        flood = http2.frame(http2.CONTINUATION, 0, 1, http2.literal("x", "y" * 100) * 100) * 10
        headers = http2.request_headers("/sluice.v1.Offload/Hello")
        with self.connect("compute") as attacker:
            attacker.send(http2.frame(http2.HEADERS, 0, 1, headers))
            for _ in range(torture.rounds(1000, 10000)):  # 100 MB, 1 GB
                if not attacker.try_send(flood):
                    break
            with self.connect("compute") as friend:
                self.assertTrue(friend.is_serving())
        # It neither grew nor reached the server.
        self.assertLess(self.nginx.rss_bytes(), before_nginx + 16 * MIB)
        self.assertLess(self.server.rss_bytes(), before + 16 * MIB)
        self.assertEqual(self.server.stop(), 0)
        self.assertNotIn("cut: 1", self.server.log())


if __name__ == "__main__":
    torture.main()
