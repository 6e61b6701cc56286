#!/usr/bin/env python3
"""With JPEGs decoded on the GPU (here its kernels run on the CPU: SLUICE_GPU=host), half of an epoch
so, and without: one digest, whatever happens to the files and to the server."""
import json
import pathlib
import random
import shutil
import unittest

from programs import Node, SynthTest, Train
from test_modes import MODES

NUM_TRAIN = 40
# Files that cross the wire as they are, or as a JPEG of the crop; the planners may choose neither.
FILES = ("local", "remote_nooff")


def start(mode, where, *flags, env=None):
    size = () if "--pipeline" in flags else ("--image-size", 64)
    return Train("--dataset-mode", mode, "-b", 8, "-p", 0, "--no-val", *size, *where, *flags,
                 env=env or {"SLUICE_GPU": "host"})


def train(mode, where, *flags, code=0, env=None):
    """The reports of its epochs, and its log."""
    return start(mode, where, *flags, env=env).end(code)


def on_gpu(report):
    return sum(count for choice, count in report["choices"].items() if choice.endswith("+gpu"))


class GpuDecodeTest(SynthTest):
    SYNTH = ("-n", NUM_TRAIN, "--num-val", 8, "--classes", 3)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.profile = pathlib.Path(cls.folder.name, "profile")
        train("local", [cls.root], "--profiling", "--write-profile-folder", cls.profile)

    def test_one_digest(self):
        (wanted,), _ = train("local", [self.root], "--gpu-decode", "off")
        self.assertEqual(on_gpu(wanted), 0)
        self.assertEqual(wanted["stalls"]["gpu"], 0)
        server = self.serve()
        for mode in MODES:
            where = [self.root] if mode == "local" else ["--host", server.address]
            if mode == "remote_sophon":
                where += ["--profile-folder", self.profile]
            for workers in (1, 4):
                (report,), _ = train(mode, where, "-j", workers, "--gpu-decode", "on")
                with self.subTest(mode=mode, workers=workers):
                    self.assertEqual(report["digest"], wanted["digest"])
                    self.assertEqual((report["samples"], report["errors"]), (NUM_TRAIN, 0))
                    self.assertEqual(sum(report["choices"].values()), NUM_TRAIN)
                    if mode in FILES:  # all but PNGs and progressive JPEGs
                        self.assertGreater(on_gpu(report), NUM_TRAIN // 2)
                        self.assertGreater(report["choices"]["raw@0+gpu"], 0)
                        self.assertGreater(report["stalls"]["gpu"], 0)
        (report,), log = train("remote_nooff", ["--host", server.address], "--remote-form",
                               "jpeg_crop", "--gpu-decode", "on")
        self.assertRegex(log, r"crop \d+% raw \d+% \+gpu \d+%")
        self.assertEqual(report["digest"], wanted["digest"])
        self.assertGreater(report["choices"]["jpeg_crop@0+gpu"], NUM_TRAIN // 2)

    def test_recipes(self):
        """Colours, blurs and warps on the GPU, where every op has a kernel; else on the CPU."""
        server = self.serve()
        for ops, is_for_gpu in (
                ("random_resized_crop=64:filter=random,hflip,"
                 "rand_augment_timm=9:mstd=0.5:increasing=1:filter=random", True),
                ("resize=72:filter=bicubic,center_crop=64,shuffled(pil_blur=0.1-2:p=0.5,"
                 "color_jitter=0.4:contrast=0.4:saturation=0.4:hue=0.1),hflip", True),
                ("views(2x[random_resized_crop=64:filter=bicubic,hflip,color_jitter=0.4,tv_blur=0.1-2:kernel=9:p=0.5],"
                 "3x[random_resized_crop=40x32:scale=0.05-0.32,grayscale:p=0.2])", True),
                ("random_resized_crop=80,hue=0.1,center_crop=64", False)):
            pipeline = f"decode,{ops},to_tensor,normalize=imagenet"
            (wanted,), _ = train("local", [self.root], "--pipeline", pipeline, "--gpu-decode", "off")
            for mode in ("local", "remote_nooff", "remote_auto"):
                where = [self.root] if mode == "local" else ["--host", server.address]
                (report,), _ = train(mode, where, "--pipeline", pipeline, "--gpu-decode", "on")
                with self.subTest(ops=ops, mode=mode):
                    self.assertEqual(report["digest"], wanted["digest"])
                    if mode in FILES:
                        self.assertEqual(on_gpu(report) > NUM_TRAIN // 2, is_for_gpu)

    def test_buckets(self):
        """Batches of a size each, in one place; validation has buckets, too, or one size that may be larger."""
        buckets = ("--pipeline", "decode,exif_transpose,fit_bucket=64x64/48x80/80x48/32x96:crop=random,hflip,color_jitter=0.4,"
                   "to_tensor,normalize=imagenet")
        large = ("--val-pipeline", "decode,resize=110,center_crop=96,to_tensor,normalize=imagenet")
        server = self.serve()
        (wanted,), _ = train("local", [self.root], *buckets, "--gpu-decode", "off")
        for mode in ("local", "remote_nooff", "remote_auto"):
            where = [self.root] if mode == "local" else ["--host", server.address]
            (report,), _ = train(mode, where, *buckets, "--gpu-decode", "on")
            with self.subTest(mode=mode):
                self.assertEqual((report["digest"], report["errors"]), (wanted["digest"], 0))
                if mode in FILES:
                    self.assertGreater(on_gpu(report), NUM_TRAIN // 2)
        for flags, is_for_gpu in (((), True), (large, False)):
            (wanted,), _ = train("local", [self.root], *buckets, *flags, "--evaluate", "--gpu-decode", "off")
            (report,), _ = train("local", [self.root], *buckets, *flags, "--evaluate", "--gpu-decode", "on")
            self.assertEqual(report["digest"], wanted["digest"])
            self.assertEqual(on_gpu(report) > 0, is_for_gpu)

    def test_epochs_and_val(self):
        flags = ("--epochs", 3, "--repeat", 2, "--val")
        wanted, _ = train("local", [self.root], *flags, "--gpu-decode", "off")
        reports, _ = train("local", [self.root], *flags, "--gpu-decode", "on")
        self.assertEqual([report["digest"] for report in reports],
                         [report["digest"] for report in wanted])
        self.assertEqual(len({report["digest"] for report in reports}), 3)
        (wanted,), _ = train("local", [self.root], "--evaluate", "--gpu-decode", "off")
        (report,), _ = train("local", [self.root], "--evaluate", "--gpu-decode", "on")
        self.assertEqual(report["digest"], wanted["digest"])
        self.assertGreater(on_gpu(report), 0)

    def test_broken_files_are_the_same_errors(self):
        root = pathlib.Path(self.folder.name, "broken")
        shutil.copytree(self.root, root)
        rng = random.Random(17)
        jpegs = sorted(root.glob("train/**/*.jpg"))
        self.assertGreater(len(jpegs), 12)
        for number, path in enumerate(jpegs[:12]):
            data = bytearray(path.read_bytes())
            if number < 3:
                data = data[:len(data) // 2]  # truncated
            elif number < 6:
                data[2:4] = b"\0\0"  # no markers
            elif number < 9:
                data = data[:600] + b"\xff\xd9"
            else:
                data[rng.randrange(700, len(data))] ^= 0x55
            path.write_bytes(bytes(data))
        server = self.serve(root=root)
        for policy in ("skip", "substitute"):
            seen = set()
            for mode in (*FILES, "remote_auto"):
                where = [root] if mode == "local" else ["--host", server.address]
                texts = []
                for gpu in ("off", "on"):
                    (report,), _ = train(mode, where, "--on-error", policy, "--max-errors", "100%",
                                         "--gpu-decode", gpu)
                    self.assertGreaterEqual(report["errors"], 9)
                    errors = sorted(report["error_samples"], key=lambda error: error["sample"])
                    texts.append([error.pop("error") for error in errors])
                    seen.add((report["digest"], report["samples"], json.dumps(errors)))
                if mode in FILES:  # the planner may have the server decode
                    self.assertEqual(texts[0], texts[1])
            self.assertEqual(len(seen), 1, (policy, seen))
        _, log = train("local", [root], "--gpu-decode", "on", code=1)
        self.assertRegex(log, r"train/\S+\.jpg")

    def test_a_server_killed_twice_costs_time_only(self):
        (wanted,), _ = train("local", [self.root], "-b", 4, "--repeat", 3, "--gpu-decode", "off")
        with Node(self.root) as server:
            # Little read-ahead, so that each kill falls in mid-epoch.
            run = start("remote_nooff", ["--host", server.address], "-b", 4, "-p", 1,
                        "--consume-rate", 60, "--prefetch-bytes", "256k", "--retry-for", 60,
                        "--repeat", 3, "--gpu-decode", "on")
            kills = 0
            for line in run.lines():
                if kills < 2 and f"[{4 + 12 * kills}/" in line:
                    server.replace()
                    kills += 1
            (report,), _ = run.end()
        self.assertEqual((kills, report["retries"]), (2, 2))
        self.assertEqual(report["digest"], wanted["digest"])
        self.assertGreater(on_gpu(report), NUM_TRAIN)

    def test_a_trainer_that_cannot_take_them_gets_none(self):
        for device, flags in (("none", ()), ("none", ("--gpu-decode", "auto"))):
            (report,), _ = train("local", [self.root], "--device", device, *flags)
            self.assertEqual(on_gpu(report), 0)
        _, log = train("local", [self.root], "--device", "cpu", "--gpu-decode", "on", code=2)
        self.assertRegex(log, r"(?s)--gpu-decode.*--device")

    def test_without_a_gpu_on_is_an_error_that_says_so(self):
        _, log = train("local", [self.root], "--gpu-decode", "on", code=1,
                       env={"SLUICE_GPU": "", "CUDA_VISIBLE_DEVICES": ""})
        self.assertRegex(log, "gpu-decode|CUDA")


if __name__ == "__main__":
    unittest.main(verbosity=2)
