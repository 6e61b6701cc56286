#!/usr/bin/env python3
"""Floods of connections and of HTTP/2 frames: the server refuses or cuts them, says so, stays within
its memory, and serves the next client."""
import json
import os
import pathlib
import ssl
import subprocess
import unittest

import http2
import torture
from attacked import Attacked

MIB = 1 << 20
SANITIZE = os.environ.get("SLUICE_SANITIZE", "")
# A sanitizer's own memory: shadow, quarantine.
ROOM = (1024 if SANITIZE else 96) * MIB
FEW = (100, 100)  # descriptors: soft limit, hard limit


def connect_many(server, count, source=None):
    """Some may be refused."""
    connections = []
    for _ in range(count):
        try:
            connections.append(http2.Connection(server.address, source))
        except ConnectionError:
            pass
    return connections


def send_until_cut(connection, data, times):
    """Sends `data` again and again; how often it was taken."""
    for i in range(times):
        if not connection.try_send(data):
            return i
    return times


def send_continuations(attacker, times=10000):
    """CONTINUATION frames, 1 GB of them; whether the connection was cut, as of the next one."""
    more = http2.frame(http2.CONTINUATION, 0, 1, http2.literal("x", "y" * 100) * 100) * 10
    attacker.send(http2.frame(http2.HEADERS, 0, 1,
                              http2.request_headers("/sluice.v1.Offload/Hello")))
    return send_until_cut(attacker, more, times) < times


def send_resets(attacker):
    """Calls that are cancelled at once."""
    headers = http2.request_headers("/sluice.v1.Offload/ListSamples")

    def one(stream):
        return (http2.frame(http2.HEADERS, http2.END_HEADERS, stream, headers) +
                http2.frame(http2.DATA, http2.END_STREAM, stream, http2.grpc_message(b"")) +
                http2.frame(http2.RST_STREAM, 0, stream, b"\0\0\0\x08"))
    attacker.send(http2.frame(http2.SETTINGS, http2.ACK))
    for stream in range(1, 300000, 200):
        if not attacker.try_send(b"".join(one(stream + i) for i in range(0, 200, 2))):
            return True
    return False


class Connections(unittest.TestCase):
    def test_no_flood_leaves_the_server_deaf(self):
        with Attacked(torture.make_dataset("flood"), nofile=FEW) as server:
            for _ in range(torture.rounds(2, 20)):
                flood = connect_many(server, 130)
                self.assertLess(server.num_descriptors(), 100)
                for connection in flood:
                    connection.close()
                self.assertTrue(server.serves())
            self.assertIn("connections refused:", server.log())
            self.assertEqual(server.stop(), 0)

    def test_one_host_leaves_room_for_others(self):
        with Attacked(torture.make_dataset("host"), "--max-connections", 20,
                      "--max-connections-per-host", 8) as server:
            flood = connect_many(server, 130, "127.0.0.2")
            self.assertTrue(server.serves("127.0.0.3"))
            for connection in flood:
                connection.close()
            self.assertTrue(server.serves("127.0.0.2"))
            server.stop()
            self.assertIn("of 127.0.0.2: as many of this host as --max-connections-per-host",
                          server.log())

    def test_the_server_out_of_descriptors_refuses_and_listens_on(self):
        """As when something else of the process took them."""
        with Attacked(torture.make_dataset("all"), nofile=(100, 100)) as server:
            # Lowered behind the server's back: its table is full with what it has.
            subprocess.run(["prlimit", "--pid", str(server.process.pid), "--nofile=24:24"],
                           check=True)
            for _ in range(2):
                flood = connect_many(server, 40)
                for connection in flood:
                    connection.close()
                self.assertTrue(server.serves())
            self.assertIn("no descriptor is left for it (ulimit -n)", server.log())

    def test_the_soft_limit_is_raised(self):
        with Attacked(torture.make_dataset("soft"), nofile=(64, 4096)) as server:
            flood = connect_many(server, 300)
            self.assertTrue(flood[-1].is_serving())  # and so the others were accepted
            self.assertGreater(server.num_descriptors(), 300)
            for connection in flood:
                connection.close()

    def test_too_few_descriptors_are_said_at_once(self):
        root = torture.make_dataset("few")
        with self.assertRaisesRegex(RuntimeError, "connections need .* descriptors"):
            Attacked(root, nofile=(40, 40))
        with self.assertRaisesRegex(RuntimeError, "5000 connections need .* descriptors"):
            Attacked(root, "--max-connections", 5000, nofile=(1000, 1000))

    def test_a_thousand_clients_connect_at_once(self):
        count = torture.rounds(300, 1000)
        with Attacked(torture.make_dataset("clients"), nofile=(4096, 4096)) as server:
            answers = []
            connections = connect_many(server, count)
            for connection in connections:
                answers.append(connection.is_serving())
                connection.close()
            self.assertEqual(answers, [True] * count)

    @unittest.skipUnless(torture.IS_LONG, "takes 10 s")
    def test_connections_without_a_handshake_are_cut(self):
        with Attacked(torture.make_dataset("slow")) as server:
            half = http2.Connection(server.address, preface=http2.PREFACE[:10])
            none = http2.Connection(server.address, preface=b"")
            half.wait_for_end()
            none.wait_for_end()
            half.close()
            none.close()


class Frames(unittest.TestCase):
    """Each flood is cut within what it may cost, and others are served meanwhile."""

    def attack(self, name, flood, words):
        with Attacked(torture.make_dataset(name)) as server:
            self.assertTrue(server.serves())
            before = server.rss_bytes()
            with http2.Connection(server.address, "127.0.0.2") as attacker:
                self.assertTrue(flood(attacker), "the flood was not cut")
                self.assertTrue(server.serves("127.0.0.3"))
            self.assertLess(server.rss_bytes("VmHWM"), before + ROOM)
            self.assertIn(words, server.log())

    def test_continuation_frames_without_end(self):
        self.attack("continuation", send_continuations, "header fields")

    def test_rapid_resets(self):
        self.attack("resets", send_resets, "too many resets")

    def test_settings_that_are_never_read(self):
        self.attack("settings", lambda attacker: send_until_cut(
            attacker, http2.frame(http2.SETTINGS) * 1000, 1000) < 1000, "too many SETTINGS")

    def test_streams_before_our_settings_are_acknowledged(self):
        headers = http2.request_headers("/sluice.v1.Offload/Fetch")

        def flood(attacker):
            for stream in range(1, 100000, 2):
                if not attacker.try_send(
                        http2.frame(http2.HEADERS, http2.END_HEADERS, stream, headers)):
                    return True
            return False
        self.attack("early", flood, "not acknowledged")

    def test_a_host_that_floods_is_kept_out_for_a_while(self):
        with Attacked(torture.make_dataset("again")) as server:
            for _ in range(torture.rounds(20, 200)):
                with http2.Connection(server.address, "127.0.0.2") as attacker:
                    send_until_cut(attacker, http2.frame(http2.SETTINGS) * 1000, 1000)
            self.assertTrue(server.serves("127.0.0.3"))
            server.stop()
            self.assertIn("was cut just before", server.log())


class Encrypted(unittest.TestCase):
    """The same over TLS, by somebody without a token: the server does not see the frames, but its
    own memory."""

    def attack(self, name, flood):
        root = torture.make_dataset(name)
        folder = pathlib.Path(root).parent
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key,
                        "-out", certificate], check=True, capture_output=True)
        tokens = folder / f"{name}.tokens"
        tokens.write_text(json.dumps({"name": "a", "sha256": "0" * 64}) + "\n")
        context = ssl.create_default_context(cafile=certificate)
        context.set_alpn_protocols(["h2"])

        def connect(server, source):
            return http2.Connection(server.address, source, wrap=lambda plain: context.wrap_socket(
                plain, server_hostname="localhost"))
        with Attacked(root, "--memory-limit", "64M", access=(
                "--tls-cert", certificate, "--tls-key", key, "--tokens", tokens)) as server:
            before = server.rss_bytes()
            with connect(server, "127.0.0.2") as attacker:
                flood(attacker)
            self.assertLess(server.rss_bytes("VmHWM"), before + 64 * MIB + ROOM)
            with connect(server, "127.0.0.3") as other:
                self.assertEqual(other.read_frame()[0], http2.SETTINGS)

    def test_continuation_frames_without_end(self):
        self.attack("tls-continuation", lambda attacker: send_continuations(attacker, 1000))

    def test_rapid_resets(self):
        self.attack("tls-resets", send_resets)


if __name__ == "__main__":
    torture.main()
