#!/usr/bin/env python3
"""iou_crop: its box is drawn where the objects' boxes are, and one digest comes of it in all modes."""
import json
import os
import pathlib
import random
import unittest

from programs import SynthTest, reports, run

NUM_TRAIN = 60
PIPELINE = ("decode,photometric_distort=0.5,zoom_out=1-3:p=0.5,iou_crop=0.3-1:p=0.8,hflip,resize=64x64,to_tensor,"
            "normalize=imagenet")
FIRST = "decode,iou_crop,resize=48x64,hflip,to_tensor"  # a crop right after decode: cut files and rows of them travel
MODES = ("remote_nooff", "remote_alloff", "remote_piloff", "remote_auto")
COLUMN = ("--target", "boxes=objects:boxes")


def add_boxes(root):
    """Up to four boxes in each image, by the sizes in its index."""
    rng = random.Random(7)
    rows = []
    for line in (root / "sluice-manifest.tsv").read_text().splitlines():
        path, *fields = line.split("\t")
        if not path.endswith((".jpg", ".png")):
            continue
        width, height = fields[3:5]
        boxes = []
        for _ in range(rng.randrange(5)):
            side = rng.uniform(0.05, 0.7)
            left, top = (rng.uniform(0, (1 - side) * int(of)) for of in (width, height))
            boxes.append([left, top, left + side * int(width), top + side * int(height), rng.randrange(9)])
        rows.append(json.dumps({"file_name": path, "objects": boxes}))
    (root / "metadata.jsonl").write_text("\n".join(rows))


class IouCropTest(SynthTest):
    SYNTH = ("-n", NUM_TRAIN, "--num-val", 7, "--classes", "3")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("offload_dataset", "index", cls.root)
        cls.plain = pathlib.Path(cls.folder.name, "plain")
        run("offload_dataset", "synth", cls.plain, "-n", 4, "--num-val", 0, "--classes", 2)
        run("offload_dataset", "index", cls.plain)
        add_boxes(cls.root)
        run("offload_dataset", "index", "--jpeg-index", cls.root, *COLUMN)

    def train(self, *flags, code=0, pipeline=PIPELINE, env=None):
        done = run("offload_train", "--device", "none", "--epochs", 2, "-j", 2, "-p", 0, "-b", 8, "--json", "--pipeline",
                   pipeline, *flags, code=code, env=env)
        return done.stderr if code else reports(done.stdout)

    def local(self, *flags, **named):
        return self.train(self.root, "--dataset-mode", "local", *flags, **named)

    def test_one_digest(self):
        server, isolated = (self.serve("--prep-workers", 2, *flags) for flags in ((), ("--isolate-decoders",)))
        for pipeline in (PIPELINE, FIRST):
            want = [report["digest"] for report in self.local(pipeline=pipeline)]
            self.assertNotEqual(want[0], want[1])
            without = pipeline.replace("iou_crop=0.3-1:p=0.8,", "").replace("iou_crop,", "")
            self.assertNotEqual(want[0], self.local(pipeline=without)[0]["digest"])
            for mode in MODES:
                for of in (server, isolated):
                    with self.subTest(mode=mode, pipeline=pipeline):
                        got = self.train("--host", of.address, "--dataset-mode", mode, pipeline=pipeline)
                        self.assertEqual([report["digest"] for report in got], want)
                        self.assertEqual([(report["samples"], report["errors"]) for report in got], [(NUM_TRAIN, 0)] * 2)

    def test_epochs(self):
        """In the epochs without it, the pipeline is the one without it."""
        early = "decode,zoom_out=1-3:p=1:epochs=epoch<1,iou_crop=0.3-1:epochs=epoch<1,hflip,resize=64x64"
        both = [report["digest"] for report in self.local(pipeline=early)]
        never = self.local(pipeline=early.replace("epoch<1", "epoch>=9"))
        always = self.local(pipeline=early.replace(":epochs=epoch<1", ""))
        self.assertEqual(both, [always[0]["digest"], never[1]["digest"]])
        server = self.serve()
        self.assertEqual([report["digest"] for report in self.train(
            "--host", server.address, "--dataset-mode", "remote_piloff", pipeline=early)], both)

    def test_ranks_and_a_plan_from_a_profile(self):
        ranks = [self.local("--rank", rank, "--world-size", 2)[0] for rank in range(2)]
        self.assertEqual([report["samples"] for report in ranks], [NUM_TRAIN // 2] * 2)
        profile = pathlib.Path(self.folder.name, "profile")
        server = self.serve()
        self.train("--host", server.address, "--profiling", "--write-profile-folder", profile, "--epochs", 1)
        for mode in ("remote_sophon", "remote_auto"):
            got = self.train("--host", server.address, "--dataset-mode", mode, "--profile-folder", profile,
                             "--net-bw", "1Gbps")
            self.assertEqual([report["digest"] for report in got], [report["digest"] for report in self.local()])

    def test_batches_on_a_gpu(self):
        """For which the CPU makes the rows; here it stands in for the GPU, too."""
        for pipeline in (PIPELINE, FIRST):
            got = self.local("--gpu-decode", "on", pipeline=pipeline, env={"SLUICE_GPU": "host"})
            self.assertEqual([report["digest"] for report in got],
                             [report["digest"] for report in self.local(pipeline=pipeline)])

    def test_refused(self):
        self.assertIn("--pipeline has iou_crop, which draws by the boxes of objects, and the dataset has no field of boxes",
                      self.train(self.plain, "--dataset-mode", "local", code=1))
        self.assertIn("--pipeline has exif_transpose and iou_crop",
                      self.local(code=1, pipeline="decode,exif_transpose,iou_crop,resize=9x9"))
        self.assertIn("mixes images whose pixels were moved apart",
                      self.local(code=1, pipeline="decode,augmix,iou_crop,resize=9x9"))

    def test_an_image_that_changed_its_size(self):
        """A file of the same length and time as in the list is an error, not a row of another crop."""
        root = pathlib.Path(self.folder.name, "changed")
        run("offload_dataset", "synth", root, "-n", 20, "--num-val", 0, "--classes", 2)
        run("offload_dataset", "index", root)
        add_boxes(root)
        run("offload_dataset", "index", root, *COLUMN)
        rows = [line.split("\t") for line in (root / "sluice-manifest.tsv").read_text().splitlines()]
        files = sorted((int(row[1]), row[0], row[4:6]) for row in rows if row[0].endswith(".jpg"))
        long = files[-1]
        short = next(file for file in files if file[2] != long[2])
        path = root / long[1]
        time_ns = path.stat().st_mtime_ns
        path.write_bytes((root / short[1]).read_bytes().ljust(long[0], b"\0"))
        os.utime(path, ns=(time_ns, time_ns))
        server = self.serve(root=root)
        for mode, where in (("local", [root]), *((mode, ["--host", server.address]) for mode in MODES)):
            done = run("offload_train", *where, "--device", "none", "--epochs", 1, "-j", 1, "-b", 4, "--dataset-mode",
                       mode, "--json", "--on-error", "skip", "--pipeline", PIPELINE)
            self.assertEqual(reports(done.stdout)[0]["errors"], 1)
            self.assertIn(f"({long[1]}) is corrupt: the image has ", done.stderr)


if __name__ == "__main__":
    unittest.main()
