#!/usr/bin/env python3
"""The chaos proxy itself: what it forwards, and that each rule does what it says."""
import socket
import threading
import time
import unittest

import chaos_proxy
import programs
from chaos_proxy import ChaosProxy

DATA = bytes(range(256)) * 8192  # 2 MiB
WAIT_S = 60  # for what must come


class Echo:
    """Sends back what it is sent."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.first_bytes = []  # of each connection, in the order of its accept
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client:
            try:
                data = client.recv(65536)
                self.first_bytes.append(data[:1])
                while data:
                    client.sendall(data)
                    data = client.recv(65536)
                client.shutdown(socket.SHUT_WR)
            except OSError:
                pass


def connect(proxy):
    sock = socket.create_connection(("127.0.0.1", proxy.port))
    sock.settimeout(WAIT_S)
    return sock


def send_all(sock, data):
    """On a thread: sends and ends; nobody waits for it."""
    def run():
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass
    threading.Thread(target=run, daemon=True).start()


def receive(sock, size=len(DATA)):
    """What comes until size bytes or the end, and the error that ended it."""
    got = bytearray()
    try:
        while len(got) < size:
            data = sock.recv(65536)
            if not data:
                return bytes(got), "end"
            got += data
    except OSError as error:
        return bytes(got), type(error).__name__
    return bytes(got), None


class Proxy(unittest.TestCase):
    def setUp(self):
        self.echo = Echo()
        self.addCleanup(self.echo.listener.close)

    def exchange(self, *rules, seed=1, data=DATA):
        with ChaosProxy(self.echo.address, *rules, seed=seed) as proxy, connect(proxy) as sock:
            send_all(sock, data)
            got, end = receive(sock, len(data) + 1)
            return got, end, proxy.counts

    def test_without_rules_everything_arrives(self):
        got, end, counts = self.exchange(data=DATA * 8)
        self.assertTrue(got == DATA * 8)
        self.assertEqual((end, counts["up"], counts["down"]), ("end", len(DATA) * 8, len(DATA) * 8))

    def test_cut_ends_after_so_many_bytes(self):
        # Not a byte more is sent: a byte that the closed connection has not read would answer with a reset, and a
        # reset takes away what the client has not read.
        got, end, counts = self.exchange("do=cut,after=100k,dir=down,how=fin", data=DATA[:100001])
        self.assertEqual((len(got), counts["cuts"]), (100000, 1))
        _, end, counts = self.exchange("do=cut,after=100k,dir=up")
        # The reset may have met the thread that sends; then it is reported there and not again.
        self.assertIn(end, ("ConnectionResetError", "end"))
        self.assertEqual((counts["up"], counts["cuts"]), (100000, 1))

    def test_stall_goes_on_after_its_time(self):
        got, _, counts = self.exchange("do=stall,after=5000,seconds=0.05,dir=down",
                                       "do=stall,after=9000,seconds=0.05,dir=up")
        self.assertTrue(got == DATA)
        self.assertEqual(counts["stalls"], 2)

    def test_stall_without_time_is_for_ever_until_the_rules_go(self):
        with ChaosProxy(self.echo.address, "do=stall,after=5000,dir=down") as proxy, \
                connect(proxy) as sock:
            send_all(sock, DATA)
            self.assertEqual(len(receive(sock, 5000)[0]), 5000)
            proxy.wait_for("stalls")
            proxy.set_rules()
            self.assertTrue(receive(sock, len(DATA) - 5000)[0] == DATA[5000:])

    def test_throttle_holds_the_rate(self):
        start = time.monotonic()
        got, _, _ = self.exchange("do=throttle,rate=1m,dir=down", data=DATA[:200000])
        self.assertEqual(len(got), 200000)
        self.assertGreater(time.monotonic() - start, 0.15)  # 0.2 s, less the burst of 20 ms

    def test_flips_are_where_the_seed_says(self):
        first, _, counts = self.exchange("do=flip,rate=1e-5,dir=down")
        again, _, _ = self.exchange("do=flip,rate=1e-5,dir=down")
        other, _, _ = self.exchange("do=flip,rate=1e-5,dir=down", seed=2)
        bits = sum(bin(a ^ b).count("1") for a, b in zip(first, DATA))
        self.assertEqual(len(first), len(DATA))
        self.assertTrue(first == again and first != other)
        self.assertEqual(bits, counts["flips"])
        self.assertTrue(5 < bits < 60, bits)  # 21 on average

    def test_flip_of_one_byte(self):
        got, _, _ = self.exchange("do=flip,at=777,dir=up")
        self.assertEqual([i for i in range(len(DATA)) if got[i] != DATA[i]], [777])

    def test_reorder_opens_in_another_order(self):
        orders = set()
        for seed in range(8):
            self.echo.first_bytes = []
            with ChaosProxy(self.echo.address, "do=reorder,of=4", seed=seed) as proxy:
                socks = [connect(proxy) for _ in range(4)]
                for i, sock in enumerate(socks):
                    sock.sendall(b"%d" % i)
                self.assertEqual([receive(sock, 1)[0] for sock in socks], [b"0", b"1", b"2", b"3"])
                for sock in socks:
                    sock.close()
            orders.add(b"".join(self.echo.first_bytes))
        self.assertGreater(len(orders), 1)

    def test_mute_takes_and_never_answers(self):
        with ChaosProxy(self.echo.address, "do=mute,most=1") as proxy:
            with connect(proxy) as mute, connect(proxy) as good:
                mute.sendall(b"a")
                good.sendall(b"b")
                self.assertEqual(receive(good, 1)[0], b"b")
                mute.setblocking(False)
                self.assertRaises(BlockingIOError, mute.recv, 1)

    def test_refuse_and_which_connections(self):
        with ChaosProxy(self.echo.address, "do=refuse,first=2,every=2,most=1") as proxy:
            results = []
            for _ in range(4):
                with connect(proxy) as sock:
                    try:
                        sock.sendall(b"x")
                    except OSError:
                        pass
                    results.append(receive(sock, 1)[0])
            self.assertEqual(results, [b"x", b"", b"x", b"x"])

    def test_cut_of_all(self):
        with ChaosProxy(self.echo.address) as proxy, connect(proxy) as sock:
            sock.sendall(b"x")
            receive(sock, 1)
            proxy.cut()
            self.assertEqual(receive(sock, 1), (b"", "ConnectionResetError"))

    def test_target_that_is_gone(self):
        with programs.Port() as port, ChaosProxy(f"127.0.0.1:{port}") as proxy, \
                connect(proxy) as sock:
            self.assertEqual(receive(sock, 1)[0], b"")

    def test_bad_rules_are_refused(self):
        for rule in ("do=cut,when=3", "after=3", "do=nothing", "do=cut,after=x"):
            self.assertRaises(ValueError, chaos_proxy.Rule, rule)


if __name__ == "__main__":
    import torture
    torture.main()
