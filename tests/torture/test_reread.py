#!/usr/bin/env python3
"""SIGHUP: the server reads its list of samples again while it serves, and never ends by it."""
import os
import pathlib
import shutil
import signal
import subprocess
import unittest

import torture
from programs import HeardServer, Train, run


def index(root, *flags):
    run("offload_dataset", "index", root, *flags)


class Server(HeardServer):
    def hang_up(self, *words):
        """SIGHUP; returns the first line of the log that has all the words."""
        self.process.send_signal(signal.SIGHUP)
        return self.await_line(*words)


class Reread(unittest.TestCase):
    def make(self, name):
        return torture.make_dataset(name, count=16, size=64)

    def serve(self, root, *flags, **named):
        return self.enterContext(Server(root, *flags, **named))

    def fetch(self, server, *flags, check=True):
        """The epochs of a run, and the run."""
        return torture.train("--host", server.address, "--dataset-mode", "remote_nooff", "-b", 4,
                             "--retry-for", 0.1, *flags, check=check)

    def run_for_ever(self, server, *flags):
        """Says little, because nobody reads its log."""
        run = Train("--host", server.address, "--dataset-mode", "remote_nooff", "-b", 4, "-p", 0,
                    "--log-level", "warn", "--epochs", 1000000, *flags).process
        self.addCleanup(run.communicate)
        self.addCleanup(run.kill)
        return run

    def add(self, root, name):
        shutil.copy(root / "train/cat/0000.jpg", root / name)

    def test_a_run_keeps_its_list_and_the_next_one_has_the_new(self):
        root = self.make("new-list")
        index(root)
        server = self.serve(root)
        before, _ = self.fetch(server)
        run = self.run_for_ever(server)
        self.assertEqual(torture.reports(run.stdout.readline())[0]["digest"], before[0]["digest"])

        self.add(root, "train/dog/9999.jpg")
        index(root)
        server.hang_up("read again: 17 samples", "before: 16", "open streams keep the old list")
        for _ in range(3):
            self.assertEqual(torture.reports(run.stdout.readline())[0]["samples"], 16)
        after, _ = self.fetch(server)
        self.assertEqual(after[0]["samples"], 17)
        server.stop()

    def test_a_client_of_the_old_list_that_connects_again_is_refused(self):
        root = self.make("refused")
        server = self.serve(root)  # without a manifest: SIGHUP scans again
        run = self.run_for_ever(server)
        self.assertTrue(run.stdout.readline())
        self.add(root, "train/dog/9999.jpg")
        server.hang_up("read again: 17 samples")
        server.stop()
        again = self.serve(root, listen=server.address)
        _, err = run.communicate(timeout=torture.TIMEOUT_S)
        self.assertEqual(run.returncode, 1, err[-2000:])
        self.assertRegex(err, r"dataset [0-9a-f]{32}.* [0-9a-f]{32}")
        again.stop()

    def test_the_same_dataset_is_taken_by_streams_that_are_open(self):
        """Other content of the same length is stale until it is in the list."""
        root = self.make("same-data")
        path = root / "train/cat/0000.jpg"
        data = bytearray(path.read_bytes())
        data[2:2] = b"\xff\xfe\x00\x04ab"  # a comment
        path.write_bytes(data)
        index(root)
        server = self.serve(root)
        run = self.run_for_ever(server, "--retry-for", "1000")
        self.assertEqual(torture.reports(run.stdout.readline())[0]["errors"], 0)
        data[6:8] = b"cd"
        other = path.with_suffix(".new")
        other.write_bytes(data)
        os.utime(other, ns=(0, path.stat().st_mtime_ns + 10**9))
        os.rename(other, path)
        while "other content than was indexed" not in run.stderr.readline():
            self.assertIsNone(run.poll())
        index(root)
        server.hang_up("read again: 16 samples", "as before")
        for _ in range(3):
            report = torture.reports(run.stdout.readline())[0]
            self.assertEqual((report["samples"], report["errors"]), (16, 0))
        run.kill()
        server.stop()

    def test_a_manifest_that_is_not_up_to_date_is_told_until_it_is(self):
        root = self.make("old-manifest")
        index(root)
        server = self.serve(root, "--log-level", "debug")
        self.assertIn("sluice-manifest.tsv is up to date", server.await_line("up to date"))
        self.add(root, "train/dog/9998.jpg")
        self.add(root, "train/dog/9999.jpg")
        os.unlink(root / "train/cat/0003.jpg")
        (root / "train/cat/0004.jpg").write_bytes(b"no picture any more")
        line = server.hang_up("not up to date")
        server.stop()
        server = self.serve(root)
        self.assertEqual(server.await_line("not up to date").split("warning: ")[1].split("HUP")[0],
                         line.split("warning: ")[1].split("HUP")[0])
        for word in (" warning: ", "2 files added (train/dog/999", "1 gone (train/cat/0003.jpg)",
                     "1 of the 15 looked at changed (train/cat/0004.jpg)",
                     f"run 'offload_dataset index {root}', then ",
                     f"kill -HUP {server.process.pid}"):
            self.assertIn(word, line if "kill" not in word else
                          server.hang_up("not up to date"))
        _, done = torture.train(root, "--dataset-mode", "local", "-b", 4, "--retry-for", 0.1,
                                check=False)
        self.assertIn("2 files added (train/dog/999", done.stderr)
        self.assertIn("then start again", done.stderr)

        index(root)
        server.hang_up("read again: 17 samples")
        said = len(server.said)
        server.stop()
        self.assertNotIn("not up to date", server.said[said:])
        _, done = torture.train(root, "--dataset-mode", "local", "-b", 4)
        self.assertNotIn("up to date", done.stderr)

    def test_a_copy_of_folder_and_manifest_is_up_to_date(self):
        root = self.make("copied")
        index(root)
        folder = torture.temporary_folder("copies")
        shutil.copytree(root, folder / "times-kept")
        shutil.copytree(root, folder / "times-new", copy_function=shutil.copyfile)
        subprocess.run(["tar", "--format=ustar", "-C", str(root.parent), "-cf",
                        str(folder / "it.tar"), root.name], check=True)
        subprocess.run(["tar", "-C", str(folder), "-xf", str(folder / "it.tar")], check=True)
        for name in ("times-kept", "times-new", root.name):
            _, done = torture.train(folder / name, "--dataset-mode", "local", "-b", 4,
                                    "--log-level", "debug")
            self.assertIn("sluice-manifest.tsv is up to date", done.stderr)

    def test_a_list_that_cannot_be_read_leaves_the_old_one(self):
        root = self.make("damaged")
        index(root)
        server = self.serve(root)
        before, _ = self.fetch(server)
        manifest = root / "sluice-manifest.tsv"
        text = manifest.read_bytes()
        manifest.write_bytes(text[:len(text) // 2])
        line = server.hang_up("stays as it was")
        self.assertIn(" error: ", line)
        self.assertIn("sluice-manifest.tsv", line)
        after, _ = self.fetch(server)
        self.assertEqual(after[0]["digest"], before[0]["digest"])
        manifest.write_bytes(text)
        server.hang_up("as before")
        server.stop()

    def test_hangups_in_a_row_do_not_end_it(self):
        server = self.serve(self.make("storm"))
        for _ in range(200):
            server.process.send_signal(signal.SIGHUP)
        server.hang_up("as before")
        self.assertEqual(self.fetch(server)[0][0]["samples"], 16)
        server.stop()

    def test_a_manifest_elsewhere_serves_a_root_that_is_only_read(self):
        root = self.make("read-only")
        place = torture.temporary_folder("lists")
        index(root, "--out", place / "list.tsv")
        os.chmod(root, 0o555)
        self.addCleanup(os.chmod, root, 0o755)
        self.assertFalse((root / "sluice-manifest.tsv").exists())
        server = self.serve(root.resolve(), "--manifest", "list.tsv", cwd=place)
        self.assertEqual(self.fetch(server)[0][0]["samples"], 16)
        self.add(root, "train/dog/9999.jpg")
        index(root, "--out", place / "list.tsv")
        server.hang_up("read again: 17 samples", "before: 16")
        pathlib.Path(place, "list.tsv").unlink()
        self.assertIn("list.tsv", server.hang_up("stays as it was"))
        self.assertEqual(self.fetch(server)[0][0]["samples"], 17)
        server.stop()
        done = run("offload_server", "--root", root, "--listen", "127.0.0.1:0", "--manifest",
                   place / "list.tsv", code=1)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("list.tsv: No such file", done.stderr)


if __name__ == "__main__":
    torture.main()
