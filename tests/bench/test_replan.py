#!/usr/bin/env python3
"""bench/replan, bench/cold_start and bench_link on few images: what they print, not times."""
import csv
import json
import os
import socket
import subprocess
import threading
import unittest

from benches import BenchTest
from programs import BIN

LINK = BIN.parent / "bench/bench_link"


class ReplanTest(BenchTest):
    SYNTH = ("-n", 16, "--num-val", 0, "--classes", 2, "-j", 1, "--log-level", "warn")

    def run_bench(self, program, *flags):
        type(self).PROGRAM = program
        return self.bench(self.root, "--bin", BIN, *flags).stdout

    def replan(self, scenario, *flags):
        out = self.path / scenario
        text = self.run_bench("replan", "--out", out, "--scenarios",
                   scenario, "--batch", 8, "--steady-repeats", 1, "--repeats", 1,
                   "--prep-workers", 1, "--workers", 1, *flags)
        self.assertIn("every epoch's digest is that of the local files", text)
        summary, = json.loads((out / "summary.json").read_text())
        self.assertEqual(summary["scenario"], scenario)
        self.assertEqual(len(summary["digest"]), 1)
        for one in summary["runs"]:
            self.assertEqual(len(one["reasons"]), one["replans"])
            self.assertEqual(len(one["switches_s"]), 2)
        with open(out / "series.csv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            self.assertGreaterEqual(int(row["unfinished"]), int(row["away"]))
        return summary, rows

    def test_a_link_that_changes(self):
        summary, rows = self.replan("link", "--phase", 0.6, "--steady", "auto,crop", "--rates",
                                    "100,50")
        # The plan looks every 0.25 s and writes a line, each of which is understood.
        self.assertIn("replan", {row["variant"] for row in rows})
        self.assertEqual([one["variant"] for one in summary["runs"]], ["replan", "fixed"])
        self.assertEqual(summary["runs"][1]["replans"], 0)
        self.assertEqual([list(state) for state in summary["steady"]], [["auto", "crop"]] * 2)

    def test_cores_that_go(self):
        summary, _ = self.replan("storage", "--phase", 0.2, "--steady", "crop", "--storage-rate",
                                 100, "--fixed-repeats", 0)
        self.assertEqual([one["variant"] for one in summary["runs"]], ["replan"])

    def test_a_first_epoch(self):
        out = self.path / "cold.csv"
        text = self.run_bench("cold_start", "--out", out, "--links", "400,0",
                   "--repeats", 1, "--samples-repeat", 2, "--workers", 1)
        self.assertIn("400 Mbit/s: cold", text)
        with open(out, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([(row["link_mbit"], row["variant"]) for row in rows],
                         [(link, variant) for link in ("400", "0")
                          for variant in ("cold", "planned", "fixed")])
        self.assertEqual({row["samples"] for row in rows}, {"32"})
        self.assertEqual({row["errors"] for row in rows}, {"0"})

    def test_a_link_passes_on_what_it_gets_and_obeys(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            link = subprocess.Popen([LINK, "--to", str(server.getsockname()[1]), "--rate", "100",
                                     "--delay", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL, text=True)
            host, port = link.stdout.readline().split()[-1].split(":")
            near = socket.create_connection((host, int(port)))
            far, _ = server.accept()
            data = os.urandom(300000)
            sender = threading.Thread(target=lambda: (near.sendall(data), near.close()))
            sender.start()
            link.stdin.write("rate 400\n")
            link.stdin.flush()
            got = b""
            while part := far.recv(65536):
                got += part
            sender.join()
            far.close()
            self.assertEqual(got, data)
            link.stdin.close()
            self.assertEqual(link.wait(), 0)
            link.stdout.close()
        link = subprocess.run([LINK, "--to", "1"], input="faster\n", capture_output=True, text=True,
                              check=False)
        self.assertEqual(link.returncode, 1)
        self.assertIn("rate MBIT", link.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
