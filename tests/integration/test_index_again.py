#!/usr/bin/env python3
"""`offload_dataset index` again: it reads what changed alone, goes on after a kill, and lists without
reading."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

import programs

BIN = pathlib.Path(os.environ.get("SLUICE_BIN", "build/dev/bin")).resolve()
NUM = 4000


class IndexAgain(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sluice-index-again-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for i in range(NUM):
            path = self.root / f"c{i % 20}" / f"{i}.ppm"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"P6\n1 1\n255\n" + i.to_bytes(3, "little"))

    def command(self, *options):
        return [BIN / "offload_dataset", "index", self.root, "--json", *options]

    def index(self, *options):
        done = subprocess.run(self.command(*options), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout), done.stderr

    def rows(self):
        return [line for line in (self.root / "sluice-manifest.tsv").read_text().splitlines() if ".ppm\t" in line]

    def test_reads_what_changed_alone(self):
        first, _ = self.index()
        self.assertEqual((first["samples"], first["kept"], first["bad"]), (NUM, 0, 0))
        rows = self.rows()
        again, _ = self.index()
        self.assertEqual(again["kept"], NUM)
        self.assertEqual(again["dataset_id"], first["dataset_id"])
        self.assertEqual(self.rows(), rows)
        changed = self.root / "c1" / "1.ppm"
        changed.write_bytes(b"P6\n1 1\n255\n\xff\xff\xff")
        (self.root / "c2" / "2.ppm").unlink()
        (self.root / "c3" / "new.ppm").write_bytes(b"P6\n2 1\n255\nabcdef")
        third, _ = self.index()
        self.assertEqual((third["samples"], third["kept"]), (NUM, NUM - 2))
        fresh, _ = self.index("--anew")
        self.assertEqual(fresh["kept"], 0)
        self.assertEqual(fresh["dataset_id"], third["dataset_id"])
        self.assertNotEqual(self.rows(), rows)
        self.assertFalse((self.root / "sluice-manifest.progress").exists())

    def test_goes_on_after_a_kill(self):
        want, _ = self.index()
        rows = self.rows()
        (self.root / "sluice-manifest.tsv").unlink()
        progress = self.root / "sluice-manifest.progress"
        run = subprocess.Popen(self.command("-j", "1"), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while run.poll() is None and time.monotonic() < deadline:
            if progress.exists() and progress.stat().st_size > 60000:
                run.send_signal(signal.SIGKILL)
                break
        if run.wait() == 0:  # it was faster than this test: leave what a kill would have left
            self.skipTest("the run ended before it could be killed")
        again, log = self.index()
        self.assertIn("goes on after", log)
        self.assertGreater(again["kept"], 400)
        self.assertLess(again["kept"], NUM)
        self.assertEqual(again["dataset_id"], want["dataset_id"])
        self.assertEqual(self.rows(), rows)
        self.assertFalse(progress.exists())

    def test_threads_look_at_files_at_once(self):
        slow = programs.bad_disk("call=stat,path=.ppm,do=delay:1000")
        seconds = []
        for threads in "1", "16":
            begin = time.monotonic()
            done = subprocess.run(self.command("--no-hash", "-j", threads), capture_output=True,
                                  text=True, env=slow, check=True)
            seconds.append(time.monotonic() - begin)
            self.assertEqual(json.loads(done.stdout)["samples"], NUM)
        self.assertGreater(seconds[0], NUM * 1e-3)
        self.assertLess(seconds[1], seconds[0] / 2)

    def test_lists_without_reading(self):
        os.chmod(self.root / "c0" / "0.ppm", 0)
        bare, _ = self.index("--no-hash")
        self.assertEqual((bare["samples"], bare["unreadable"], bare["kept"]), (NUM, 0, 0))
        self.assertTrue(all(row.split("\t")[6] == "-" for row in self.rows()))
        os.chmod(self.root / "c0" / "0.ppm", 0o644)
        whole, _ = self.index()
        self.assertEqual(whole["dataset_id"], bare["dataset_id"])
        again, _ = self.index("--no-hash")
        self.assertEqual(again["kept"], NUM)
        self.assertTrue(all(len(row.split("\t")[6]) == 32 for row in self.rows()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
