#!/usr/bin/env python3
"""What a folder has beside the samples: counted in one line at the start of each program, an error
with --strict, and never lost without a word."""
import json
import os
import pathlib
import shutil
import tempfile
import unittest

from programs import Server, run

LINE = "passed over: 2 .jxl, 1 .jp2, 1 without suffix, 1 .csv; only .jpg, .jpeg, .png, .webp, .tif, .tiff, .bmp, .gif, .ppm and .pgm are read"
ERROR = "--strict: 4 files of {} may be images and are not read: cat/1.jxl, cat/2.JXL, cat/3.jp2, ..."


class PassedOver(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-passed-over-")
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name, "set")
        made = pathlib.Path(self.folder.name, "made")
        run("offload_dataset", "synth", made, "-n", "4", "--num-val", "0", "--classes", "2")
        shutil.copytree(made / "train", self.root)
        (self.root / "class000").rename(self.root / "cat")
        (self.root / "class001").rename(self.root / "dog")

    def put(self, *names):
        for name in names:
            (self.root / name).write_bytes(b"x")

    def add_unread(self):
        self.put("cat/1.jxl", "cat/2.JXL", "cat/3.jp2", "dog/no_suffix", "labels.csv", ".hidden",
                 "cat/4.jpg.part")

    def index(self, *options, code=0):
        return run("offload_dataset", "index", self.root, *options, code=code)

    def train(self, *options, code=0):
        return run("offload_train", self.root, "--dataset-mode", "local", "--device",
                                "none", "--epochs", "1", "-b", "2", "-j", "1", "--json", *options,
                                code=code)

    def serve(self, *options, code=0):
        """Starts it and ends it; its log."""
        if code:
            return run("offload_server", "--root", self.root, "--listen", "127.0.0.1:0", *options,
                       code=code).stderr
        with Server(self.root, *options) as server:
            return server.finish()[1]

    def check_warns(self, log):
        lines = [line for line in log.splitlines() if "passed over" in line]
        self.assertEqual(len(lines), 1, log)
        self.assertIn(" warning: ", lines[0])
        self.assertTrue(lines[0].endswith(LINE), lines[0])

    def test_the_start_of_each_program_counts_unread_files_in_one_line(self):
        self.add_unread()
        self.check_warns(self.serve())
        self.check_warns(self.train().stderr)
        self.check_warns(self.index().stderr)
        # A list says what it was when the list was made.
        self.put("cat/3.jxl")
        for log in (self.serve(), self.train().stderr):
            self.assertIn(f" warning: {self.root}: " +
                          LINE.replace("over:", "over when its list was made:"), log)

    def test_a_folder_of_odd_links_is_not_a_log_of_as_many_lines(self):
        for i in range(25):
            os.symlink("/nowhere", self.root / "cat" / f"{i:02d}.jpg")
        log = self.index().stderr
        self.assertEqual(log.count("leads nowhere; passed over"), 10)
        self.assertIn("passed over: 15 more such links and files", log)

    def test_strict_makes_them_an_error_that_names_the_first_few(self):
        self.add_unread()
        error = ERROR.format(self.root)
        self.assertIn(error, self.index("--strict", code=1).stderr)
        self.assertFalse((self.root / "sluice-manifest.tsv").exists())
        for _ in range(2):  # without a manifest, and with one, which knows nothing of them
            self.assertIn(error, self.serve("--strict", code=1))
            self.assertIn(error, self.train("--strict", code=1).stderr)
            self.index()

    def test_side_files_are_a_line_and_no_error(self):
        self.put("README", "labels.csv", "cat/notes.txt")
        line = " info: " + f"{self.root}: passed over: 1 .csv, 1 .txt, 1 at the top without suffix; "
        self.assertIn(line, self.index("--strict").stderr)
        (self.root / "sluice-manifest.tsv").unlink()
        self.assertIn(line, self.serve("--strict"))
        self.assertIn(line, self.train("--strict").stderr)

    def test_nothing_is_said_where_nothing_is_passed_over(self):
        self.index("--jpeg-index")
        self.put(".hidden", "cat/1.jpg.part")
        self.assertNotIn("passed over", self.index("--strict", "--jpeg-index").stderr)

    def test_strict_also_refuses_images_where_none_are_read(self):
        self.put("beside.jpg")
        self.assertIn("1 file of", self.index("--strict", code=1).stderr)
        self.assertIn("not read: beside.jpg", self.index("--strict", code=1).stderr)
        (self.root / "beside.jpg").unlink()
        os.symlink("/nowhere/at/all.jpg", self.root / "cat" / "away.jpg")
        self.assertIn("not read: cat/away.jpg", self.index("--strict", code=1).stderr)

    def test_a_folder_of_unread_formats_alone_says_so(self):
        shutil.rmtree(self.root)
        self.root.mkdir()
        (self.root / "cat").mkdir()
        self.put("cat/1.jxl", "cat/2.jxl")
        self.assertIn("where one is read (.jpg, .jpeg, .png, .webp, .tif, .tiff, .bmp, .gif, .ppm and .pgm); passed over: 2 .jxl",
                      self.index(code=1).stderr)

    def test_class_folders_that_are_links_are_read_here_and_by_the_server(self):
        os.symlink("cat", self.root / "again")
        local = json.loads(self.train().stdout)
        self.assertEqual((local["samples"], local["errors"]), (6, 0))
        with Server(self.root) as server:
            remote = json.loads(run(
                "offload_train", "--host", server.address, "--dataset-mode", "remote_alloff",
                "--device", "none", "--epochs", "1", "-b", "2", "-j", "1", "--json").stdout)
        self.assertEqual((remote["samples"], remote["errors"]), (6, 0))
        self.assertEqual(remote["digest"], local["digest"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
