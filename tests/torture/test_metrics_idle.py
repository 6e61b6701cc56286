#!/usr/bin/env python3
"""Connections that say nothing do not keep a monitoring system from the counters."""
import socket
import unittest
import urllib.request

import torture
from attacked import Attacked
from programs import Port

NUM_IDLE = 16


class MetricsIdle(unittest.TestCase):
    def setUp(self):
        root = torture.make_dataset(self.id().split(".")[-1])
        while True:
            self.port = Port()  # of 127.0.0.1: another test may have it at every address
            try:
                self.server = Attacked(root, "--metrics", f"0.0.0.0:{self.port}")
                break
            except AssertionError as error:
                self.port.close()
                if "another program listens there already" not in str(error):
                    raise

    def tearDown(self):
        self.server.close()
        self.port.close()

    def idle(self, source):
        return socket.create_connection(("127.0.0.1", self.port.number), torture.TIMEOUT_S,
                                        source_address=(source, 0))

    def scrape(self):
        url = f"http://127.0.0.1:{self.port}/metrics"
        with urllib.request.urlopen(url, timeout=torture.TIMEOUT_S) as page:
            return page.read().decode()

    def test_idle_ones_of_other_addresses_leave_room(self):
        idle = [self.idle(f"127.0.0.{2 + i % 4}") for i in range(NUM_IDLE)]
        self.assertIn("sluice_uptime_seconds", self.scrape())
        for one in idle:
            one.close()

    def test_one_address_has_four_connections(self):
        idle = [self.idle("127.0.0.2") for _ in range(NUM_IDLE)]
        self.assertIn("sluice_uptime_seconds", self.scrape())
        # All but four are closed at once, and the four when they have been idle for long enough.
        for one in idle:
            try:
                self.assertEqual(one.recv(1), b"")
            except ConnectionResetError:
                pass
            one.close()


if __name__ == "__main__":
    torture.main()
