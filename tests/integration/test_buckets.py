#!/usr/bin/env python3
"""Aspect buckets (fit_bucket): one digest in all modes, ranks that share an epoch, an evaluation, and what is refused."""
import os
import pathlib
import unittest

from programs import SynthTest, reports, run

NUM_TRAIN = 60
BUCKETS = "96x96/80x112/112x80/48x144"
PIPELINE = f"decode,fit_bucket={BUCKETS}:crop=random,hflip,color_jitter=0.4,to_tensor,normalize=imagenet"
MODES = ("remote_nooff", "remote_alloff", "remote_piloff", "remote_auto")


class BucketsTest(SynthTest):
    SYNTH = ("-n", NUM_TRAIN, "--num-val", 11, "--classes", "3")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.plain = pathlib.Path(cls.folder.name, "plain")
        run("offload_dataset", "synth", cls.plain, "-n", 4, "--num-val", 0, "--classes", 2)
        run("offload_dataset", "index", cls.root)

    def train(self, *flags, code=0, pipeline=PIPELINE):
        done = run("offload_train", "--device", "none", "--epochs", 2, "-j", 2, "-p", 0, "--json", "--pipeline",
                   pipeline, *flags, code=code)
        return done.stderr if code else reports(done.stdout)

    def local(self, *flags, **named):
        return self.train(self.root, "--dataset-mode", "local", *flags, **named)

    def test_one_digest(self):
        want = [report["digest"] for report in self.local("-b", 8)]
        self.assertNotEqual(want[0], want[1])
        server = self.serve("--prep-workers", 2)
        for mode in MODES:
            with self.subTest(mode=mode):
                got = self.train("--host", server.address, "--dataset-mode", mode, "-b", 8)
                self.assertEqual([report["digest"] for report in got], want)
                self.assertEqual([report["samples"] for report in got], [NUM_TRAIN] * 2)
                self.assertEqual([report["errors"] for report in got], [0, 0])

    def test_the_flag_is_the_op(self):
        (plain, _), sizes = self.local("-b", 8), BUCKETS.replace("/", ",")
        (flag, _) = self.local("-b", 8, "--buckets", f"{sizes}:crop=random",
                               pipeline="decode,hflip,color_jitter=0.4,to_tensor,normalize=imagenet")
        self.assertEqual(flag["digest"], plain["digest"])
        self.assertIn("has fit_bucket already", self.local("--buckets", sizes, code=1))
        self.assertIn("gives all images one size", self.local("--buckets", sizes, code=1,
                                                              pipeline="decode,random_resized_crop=64"))

    def test_ranks_share_an_epoch(self):
        for world_size in (1, 2, 3):
            ranks = [self.local("-b", 4, "--rank", rank, "--world-size", world_size)[0] for rank in range(world_size)]
            rows = [report["samples"] for report in ranks]
            self.assertEqual(len(set(rows)), 1)
            self.assertEqual(sum(report["padded"] for report in ranks), sum(rows) - NUM_TRAIN)
            padded = sum(rows) - NUM_TRAIN
            self.assertTrue(0 <= padded < len(BUCKETS.split("/")) * world_size, padded)
            dropped = self.local("-b", 4, "--world-size", world_size, "--rank", 0, "--tail", "drop")[0]["samples"]
            self.assertEqual(dropped % 4, 0)
            self.assertGreater(dropped * world_size, NUM_TRAIN - len(BUCKETS.split("/")) * 4 * world_size)

    def test_evaluation(self):
        """Without --val-pipeline it has the buckets of training."""
        (report,) = self.local("-b", 8, "--evaluate")
        self.assertEqual(report["samples"], 11)
        given = self.local("-b", 8, "--evaluate", "--val-pipeline",
                           f"decode,fit_bucket={BUCKETS},to_tensor,normalize=imagenet")
        self.assertEqual(given[0]["digest"], report["digest"])

    def test_refused(self):
        self.assertIn("the list has none for train/class000/", self.train(
            self.plain, "--dataset-mode", "local", code=1))
        self.assertIn("run offload_dataset index", self.train(self.plain, "--dataset-mode", "local", code=1))
        self.assertIn("has exif_transpose and ends in sizes", self.local(
            code=1, pipeline=f"decode,exif_transpose,fit_bucket={BUCKETS}"))
        self.assertIn("cannot be profiled", self.local(
            "--profiling", "--write-profile-folder", pathlib.Path(self.folder.name, "profile"), code=1))
        self.assertIn("gpu-decode: the GPU makes no batches whose sizes follow", self.local(
            "--gpu-decode", "on", code=1))
        self.assertIn("a model here takes one", run(
            "offload_train", self.root, "--dataset-mode", "local", "-a", "small_cnn", "--pipeline", PIPELINE,
            code=1).stderr)

    def test_an_image_that_changed_its_shape(self):
        """A file of the same length and time as in the list is an error, not a row of another shape."""
        root = pathlib.Path(self.folder.name, "changed")
        run("offload_dataset", "synth", root, "-n", 20, "--num-val", 0, "--classes", 2)
        run("offload_dataset", "index", root)
        rows = [line.split("\t") for line in (root / "sluice-manifest.tsv").read_text().splitlines()]
        rows = [row for row in rows if row[0].endswith(".jpg")]
        wide, tall = (sorted((int(row[1]), row[0]) for row in rows if is_such(int(row[4]), int(row[5])))
                      for is_such in (lambda w, h: w > h * 1.3, lambda w, h: h > w * 1.3))
        short, long = (tall[0], wide[-1]) if tall[0] < wide[-1] else (wide[0], tall[-1])
        self.assertLess(short[0], long[0])
        path = root / long[1]
        time_ns = path.stat().st_mtime_ns
        path.write_bytes((root / short[1]).read_bytes().ljust(long[0], b"\0"))
        os.utime(path, ns=(time_ns, time_ns))
        for mode, where in (("local", [root]), ("remote_piloff", ["--host", self.serve(root=root).address])):
            done = run("offload_train", *where, "--device", "none", "--epochs", 1, "-j", 1, "-b", 4, "--dataset-mode",
                       mode, "--json", "--on-error", "skip", "--pipeline", PIPELINE)
            self.assertEqual(reports(done.stdout)[0]["errors"], 1)
            self.assertIn(f"({long[1]}) is corrupt: the image ends as ", done.stderr)


if __name__ == "__main__":
    unittest.main()
