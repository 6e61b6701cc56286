#!/usr/bin/env python3
"""bench/switch: its wire, its statistics and its page; and PyTorch's servers from one end to the other
on the CPU, where no time means anything."""
import csv
import importlib.util
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from benches import BENCH
from programs import BIN, TIMEOUT_S

from sluice_bench import switch, switch_page, switch_wire

TINY = ("--device", "cpu", "--models", "alexnet", "--batch", 1, "--train-batch", 1, "--precision",
        "fp32", "--quick", "--train-seconds", 0.1, "--bin", BIN)


def run(*flags, code=0, path=None):
    done = subprocess.run([sys.executable, BENCH / "switch", *map(str, flags)],
                          capture_output=True, text=True, timeout=2 * TIMEOUT_S, check=False,
                          env={**os.environ, "PATH": f"{path or '/none'}:{os.environ['PATH']}"})
    if done.returncode != code:
        raise AssertionError(f"{done.args} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def row(measure, system, model, latencies=(), number=0, cycle=0, **fields):
    """As a measurement writes it: ms of each request."""
    found = {**dict.fromkeys(switch.ROW_FIELDS, ""), "measure": measure, "system": system,
             "model": model, "cycle_s": cycle, "number": number, **fields}
    if latencies:
        found.update({key: value if isinstance(value, int) else f"{value:.6g}" for key, value in
                      switch.summary_of([ms / 1e3 for ms in latencies]).items()})
        found.update(answers=len(latencies), worst_error="0.01",
                     latencies_ms=" ".join(map(str, latencies)))
    return found


class Folder(unittest.TestCase):
    def setUp(self):
        self.path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.out = self.path / "out"

    def keep(self, *rows):
        self.out.mkdir()
        with open(self.out / "rows.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, switch.ROW_FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    def rows(self):
        with open(self.out / "rows.csv", encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))


class WireTest(unittest.TestCase):
    """The client of the published protocol."""

    def serve(self, reply):
        """A server that keeps the bytes of one connection; without a whole reply it hangs up."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        got = bytearray()
        size = len(switch_wire.request_bytes("resnet152_inference", b"abcd"))

        def answer():
            connection, _ = listener.accept()
            with connection:
                while len(got) < size:
                    got.extend(connection.recv(1 << 16))
                connection.sendall(reply)
                while len(reply) == 4 and (data := connection.recv(1 << 16)):
                    got.extend(data)

        thread = threading.Thread(target=answer)
        thread.start()
        self.addCleanup(thread.join)
        return listener.getsockname()[1], got, thread

    def test_a_request_is_two_lengths_a_name_and_data(self):
        self.assertEqual(switch_wire.request_bytes("resnet152_training"),
                         (18).to_bytes(4, sys.byteorder) + b"resnet152_training" + bytes(4))
        port, got, thread = self.serve(b"FNSH")
        with switch_wire.Client(port) as client:
            self.assertGreater(client.ask(switch_wire.request_bytes("resnet152_inference", b"abcd")),
                               0)
        thread.join()
        self.assertEqual(bytes(got), (19).to_bytes(4, sys.byteorder) + b"resnet152_inference" +
                         (4).to_bytes(4, sys.byteorder) + b"abcd" + bytes(4))

    def test_what_is_not_done_is_an_error(self):
        for reply, said in ((b"FAIL", "b'FAIL'"), (b"", "None"), (b"FN", "2 of 4 bytes")):
            port, _, thread = self.serve(reply)
            with self.assertRaisesRegex(switch_wire.WireError, said), \
                    switch_wire.Client(port) as client:
                client.ask(switch_wire.request_bytes("resnet152_inference", b"abcd"))
            thread.join()

    def test_the_servers_parts_read_the_same(self):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.sendall(switch_wire.request_bytes("alexnet_inference", b"12345678") + bytes(4))
            self.assertEqual(switch_wire.read_task(theirs), "alexnet_inference")
            self.assertEqual(switch_wire.read_size(theirs), 8)
            data = bytearray(8)
            self.assertTrue(switch_wire.receive_into(theirs, memoryview(data)))
            self.assertEqual(data, b"12345678")
            self.assertIsNone(switch_wire.read_task(theirs))
            ours.sendall((1 << 31).to_bytes(4, sys.byteorder))
            with self.assertRaisesRegex(switch_wire.WireError, "2147483648 bytes"):
                switch_wire.read_task(theirs)


class StatisticsTest(unittest.TestCase):
    def test_requests_of_several_rows_count_alike(self):
        cell, = switch_page.summarize([
            row("latency", "ours", "vgg16", [1, 2, 30]), row("latency", "ours", "vgg16", [4], 1),
            row("latency", "ours", "vgg16", why="broken")])
        self.assertEqual((cell["answers"], cell["median_ms"], cell["min_ms"], cell["max_ms"]),
                         (4, 3, 1, 30))
        self.assertAlmostEqual(cell["mean_ms"], 37 / 4)
        self.assertIsNone(cell["why"])

    def test_a_rate_is_the_mean_over_cycles(self):
        cell, = switch_page.summarize([
            row("throughput", "ready", "resnet152", [5], 0, 1, per_s="200"),
            row("throughput", "ready", "resnet152", [6], 1, 1, per_s="100")])
        self.assertEqual((cell["per_s"], cell["cycle_s"]), (150, 1))

    def test_a_reason_counts_only_where_nothing_was_measured(self):
        cell, = switch_page.summarize([row("latency", "mps", "vgg16", why="first"),
                                       row("latency", "mps", "vgg16", why="last")])
        self.assertEqual((cell["why"], cell["median_ms"]), ("last", None))

    def test_every_system_of_a_figure_has_published_numbers_and_a_colour(self):
        for figure in switch_page.FIGURES:
            self.assertEqual(set(switch_page.PUBLISHED[figure.number]),
                             set(figure.systems) - {"ours_eager", "alone"})  # which are ours
            self.assertLessEqual(set(figure.systems) - {"alone"}, set(switch_page.COLOURS))
            self.assertLessEqual(set(figure.systems), set(switch_page.TITLES))


class PageTest(Folder):
    ROWS = (row("latency", "ready", "resnet152", [4, 4, 4]),
            row("latency", "ours", "resnet152", [5, 5, 7]),
            row("latency", "alone", "resnet152", [4.5]),
            row("latency", "restart", "resnet152", [5000]),
            row("latency", "next", "resnet152", [50]),
            row("latency", "mps", "resnet152", why="<script>x</script>"),
            *(row("throughput", system, "resnet152", [5], 0, cycle, per_s=str(rate))
              for system, rate in (("ready", 200), ("ours", 190)) for cycle in (1, 30)),
            *(row("engine", way, "resnet152", [ms]) for way, ms in (
                ("ready", 3), ("copy", 3.2), ("ours", 3.3), ("by_layer_not_pipelined", 20), ("by_layer", 4.1),
                ("grouped_not_pipelined", 5.4), ("ours_allocating", 9), ("ours_eager", 10),
                ("ours_eager_not_pinned", 14))))

    def draw(self):
        self.keep(*self.ROWS)
        (self.out / "settings.json").write_text(json.dumps(
            {"device": "NVIDIA Test", "driver": "1", "torch": "2", "precision": "bf16", "copy_gb_per_s": 55.1, "models": ["resnet152"], "batch": 8}))
        (self.out / "offload_switch.jsonl").write_text('{"inferences": 9, "lent_ms": 1.5}\n')
        return run("--draw", self.out).stdout

    def test_tables_have_ratios_and_the_published_numbers(self):
        lines = self.draw().splitlines()
        self.assertIn("| resnet152 | 4.00 (4.00 to 4.00) | 5.00 (5.00 to 7.00) | "
                      "4.50 (4.50 to 4.50) | left out | 5000 (5000 to 5000) | 1.25 | 0.90 | - | "
                      "1000 |", lines)
        self.assertIn("| PipeSwitch, offload_switch | 43.5 | 5.00 | 1.00 | 1.00 |", lines)
        self.assertIn("| stop next | 225 | 50.0 | 5.19 | 10.0 |", lines)  # 224.6 / 43.3, 50 / 5
        self.assertIn("| resnet152 | 20.0 (20.0 to 20.0) | 5.40 (5.40 to 5.40) | 4.10 (4.10 to "
                      "4.10) | 3.30 (3.30 to 3.30) | 1.10 | 1.03 | 6.06 | 1.64 | 1.24 |", lines)
        self.assertIn("| 30 | 26.4 | 200 | 26.2 | 190 | 3.00 | - | 20.8 | - |", lines)
        self.assertIn("| copies from pinned memory | PCIe 3.0 x16, 15.75 GB/s by its standard | "
                      "55.1 GB/s measured |", lines)
        self.assertIn("| 9 | 1.5 |", lines)
        self.assertIn("left out: latency, mps, resnet152: <script>x</script>", lines)

    def test_the_page_holds_figures_and_rows(self):
        self.draw()
        page = (self.out / "index.html").read_text()
        self.assertNotIn("<script", page)
        self.assertIn("&lt;script&gt;x", page)
        for number in range(5, 10):
            self.assertIn(f"<h2>Figure {number}: ", page)
        if shutil.which("gnuplot"):
            self.assertEqual(sorted(path.name for path in (self.out / "figures").glob("*.svg")), [
                f"figure{number}{suffix}.svg" for number in range(5, 10)
                for suffix in ("-narrow", "")])
            self.assertEqual(page.count("<figure id="), 5)
        with open(self.out / "cells.csv", encoding="utf-8", newline="") as file:
            cells = list(csv.DictReader(file))
        self.assertEqual(len(cells), len(self.ROWS))
        self.assertEqual(cells[1]["median_ms"], "5")


class ResumeTest(Folder):
    def cells(self, *flags):
        options = switch.parse_arguments(["--out", str(self.out), *map(str, flags)])
        return switch.Bench(options).cells()

    def setUp(self):
        super().setUp()
        before = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, before)

    def test_cells_that_have_a_row_are_not_measured_again(self):
        self.keep(row("latency", "ready", "vgg16", [1]), row("latency", "ours", "vgg16", why="no"),
                  row("throughput", "ours", "vgg16", [1], 0, 2, per_s="1"),
                  *(row("engine", way, "vgg16", [1]) for way in switch.WAYS),
                  *(row("engine", way, "alexnet", [1]) for way in switch.WAYS - {"by_layer"}))
        flags = ("--models", "vgg16")
        found = self.cells(*flags, "--figures", "5,9")
        self.assertEqual([cell.system for cell in found], ["ours", "alone", "mps", "restart", "next"])
        self.assertEqual(self.cells(*flags, "--figures", "7,8"), [])
        self.assertEqual(len(self.cells("--models", "alexnet", "--figures", "7,8")), 1)
        found = self.cells(*flags, "--figures", 6, "--systems", "ours", "--cycles", "1,2,5",
                           "--rounds", 4)
        self.assertEqual([(cell.cycle_s, cell.number) for cell in found],
                         [(1, 0), (1, 1), (1, 2), (1, 3), (2, 1), (5, 0)])

    def test_a_line_that_a_kill_cut_short_is_measured_again(self):
        self.keep(row("latency", "ready", "vgg16", [1]))
        path = self.out / "rows.csv"
        path.write_text(path.read_text()[:-3])
        found = self.cells("--models", "vgg16", "--systems", "ready", "--figures", 5)
        self.assertEqual([cell.system for cell in found], ["ready"])


@unittest.skipUnless(importlib.util.find_spec("torch") and importlib.util.find_spec("torchvision"),
                     "python3-torch or python3-torchvision is missing")
class TorchTest(Folder):
    """Every system of PyTorch answers as torchvision does, and a call that is repeated goes on."""

    def check_mps(self, flags):
        """With a control program that only writes down what it is told."""
        control, told = self.path / "bin/nvidia-cuda-mps-control", self.path / "told"
        control.parent.mkdir()
        for daemon, code in (("echo no GPU >&2; exit 1", 1), ("exec sleep 600", 0)):
            control.write_text(f'#!/bin/sh\n[ "$1" = -f ] && {{ {daemon}; }}\nread -r command\n'
                               f'echo "$command" | tee -a {told} '
                               f'>>"$CUDA_MPS_LOG_DIRECTORY/control.log"\nexit {code}\n')
            control.chmod(0o755)
            run(*flags, "--systems", "mps", path=control.parent)
        broken, whole = [one for one in self.rows() if one["system"] == "mps"]
        self.assertIn("does not start: no GPU", broken["why"])
        self.assertEqual((whole["why"], whole["answers"]), ("", "2"))
        self.assertEqual(told.read_text().split()[-2:], ["get_server_list", "quit"])
        self.assertIn("get_server_list\nquit\n", (self.out / "processes.log").read_text())

    def test_systems_of_pytorch(self):
        flags = (*TINY, "--out", self.out, "--work", self.path / "work", "--figures", "5,9",
                 "--systems", "ready,restart,next")
        self.assertIn("3 measurements", run(*flags).stdout)
        rows = self.rows()
        self.assertEqual([(one["system"], one["answers"], one["why"]) for one in rows],
                         [(system, "2", "") for system in ("ready", "next", "restart")])
        for one in rows:
            self.assertLess(float(one["worst_error"]), 1e-4)
            self.assertGreater(float(one["min_ms"]), 0)
        self.assertIn("0 measurements", run(*flags).stdout)
        self.assertEqual(self.rows(), rows)
        self.assertIn("take another --out", run(*flags, "--figures", 6, "--train-batch", 2,
                                                code=1).stderr)
        self.check_mps(flags)
        if (BIN / "offload_switch").exists():
            run(*flags, "--figures", "5,6", "--cycles", 1, "--systems", "ours,alone")
            made = [one for one in self.rows() if one["system"] in ("ours", "alone")]
            self.assertEqual([(one["measure"], one["system"], one["why"]) for one in made],
                             [("latency", "ours", ""), ("throughput", "ours", ""),
                              ("latency", "alone", "")])
            report, alone = map(json.loads,
                                (self.out / "offload_switch.jsonl").read_text().splitlines())
            # The outputs of each latency are asked for, too, and those of the cycle once.
            self.assertEqual(report["inferences"], 2 * 2 + int(made[1]["answers"]) + 1)
            self.assertGreater(report["training_steps"], 0)
            self.assertEqual(report["failed"], 0)
            self.assertEqual((alone["inferences"], alone["training_steps"]), (4, 0))
        if (BIN.parent / "bench/bench_switch").exists():
            run(*flags, "--figures", 7, "--systems", "engine")
            made = [one for one in self.rows() if one["measure"] == "engine"]
            self.assertLessEqual(switch.WAYS, {one["system"] for one in made})
            self.assertEqual({one["why"] for one in made}, {""})
        # Outputs of other weights are found.
        logits = self.path / "work/alexnet.logits.f32"
        logits.write_bytes(logits.read_bytes()[4:] + bytes(4))
        self.out.rename(self.path / "before")
        run(*flags, "--systems", "ready")
        self.assertRegex(self.rows()[0]["why"], "an output is off by .* of torchvision's")


if __name__ == "__main__":
    unittest.main(verbosity=2)
