#!/usr/bin/env python3
"""What comes from outside cannot forge a line of the log."""
import unittest

import http2
import torture
from attacked import Attacked


class LogLines(unittest.TestCase):
    def test_a_clients_name_stays_within_its_line(self):
        name = b"x\noffload_server: all is well\x1b[1A\x1b[2K\xc2\x9b31m"
        with Attacked(torture.make_dataset("log")) as server:
            with http2.Connection(server.address) as connection:
                hello = http2.field(1, 99) + http2.field(2, name)  # refused for its version
                self.assertEqual(connection.call("/sluice.v1.Offload/Hello", hello), b"")
            server.stop()
            lines = server.log().splitlines()
        self.assertFalse([line for line in lines if line.startswith("offload_server: all is well")])
        about = [line for line in lines if "all is well" in line]
        self.assertEqual(len(about), 1, lines)
        self.assertIn(r"x\noffload_server: all is well\x1b[1A\x1b[2K\xc2\x9b31m", about[0])
        self.assertFalse([c for line in lines for c in line if not c.isprintable()], lines)

    def test_a_file_name_stays_within_its_line(self):
        root = torture.make_dataset("name")
        bad = root / "train" / "cat" / "z\nepoch 0: all is well\x1b[2K.jpg"
        bad.write_bytes(b"\xff\xd8 no image")
        _, done = torture.train(root, "--dataset-mode", "local", "-b", 8, check=False)
        lines = done.stderr.split("\n")
        self.assertFalse([line for line in lines if line.startswith("epoch 0: all is well")])
        self.assertTrue([line for line in lines if r"z\nepoch 0: all is well\x1b[2K.jpg" in line],
                        lines)


if __name__ == "__main__":
    torture.main()
