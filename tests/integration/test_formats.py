#!/usr/bin/env python3
"""Files of every format, and photos that have to be turned: samples of a dataset, and one digest in
every mode and form, also where their EXIF counts and where an index leads to parts of files."""
import json
import os
import pathlib
import shutil
import struct
import tempfile
import unittest

import programs
from programs import Server, run
from test_modes import MODES

SOURCE = pathlib.Path(__file__).resolve().parents[2]
GOLDENS = SOURCE / "tests/golden/formats"
OTHERS = ("lossy.webp", "lossless_alpha.webp", "rgb_tiff_lzw.tif", "turned_6.tif", "palette8_made.bmp",
          "interlaced.gif", "rgb_jpeg.tif", "exif_6.webp", "exif_8.png")
FORMS = (("remote_nooff", "raw"), ("remote_nooff", "jpeg_crop"), ("remote_nooff", "u8_packed"),
         ("remote_nooff", "jpeg_rows"))
UPRIGHT = "decode,exif_transpose,random_resized_crop=64,hflip,to_tensor,normalize=imagenet"
PLAIN = UPRIGHT.replace("exif_transpose,", "")


def with_orientation(jpeg, orientation):
    tag = struct.pack("<HHHIHHI", 1, 0x0112, 3, 1, orientation, 0, 0)
    exif = b"Exif\0\0II*\0\x08\0\0\0" + tag
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + jpeg[2:]


def is_read(name):
    """Whether this build has the library for it."""
    done = run("offload_dataset", "tensor", GOLDENS / name, "--out", os.devnull, code=None)
    return "this build is without" not in done.stderr


class FormatsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        made = pathlib.Path(cls.folder.name, "made")
        cls.root = pathlib.Path(cls.folder.name, "set")
        run("offload_dataset", "synth", made, "-n", "16", "--num-val", "0", "--classes", "1")
        (cls.root / "cat").mkdir(parents=True)
        photos = sorted(made.rglob("*.jpg"))
        for orientation in range(1, 9):
            data = photos[orientation % len(photos)].read_bytes()
            for name, turned in (("plain", data), ("turned", with_orientation(data, orientation))):
                (cls.root / "cat" / f"{name}_{orientation}.jpg").write_bytes(turned)
        cls.others = [name for name in OTHERS if is_read(name)]
        for name in cls.others:
            shutil.copy(GOLDENS / name, cls.root / "cat" / name.replace(".tif", ".TIFF"))
        cls.num_jpegs, cls.num = 16, 16 + len(cls.others)
        summary = json.loads(run("offload_dataset", "index", "--jpeg-index", "--json", cls.root).stdout)
        assert (summary["samples"], summary["bad"]) == (cls.num, 0), summary
        cls.server = cls.enterClassContext(Server(cls.root, "--prep-workers", 1))

    def train(self, mode, spec, *flags, **environment):
        where = [self.root] if mode == "local" else ["--host", self.server.address]
        return programs.train(*where, "--dataset-mode", mode, "-b", 8, "-j", 2, "-p", 0, "--no-val",
                              "--pipeline", spec, *flags, env=environment)[0]

    def test_the_list_has_their_sizes_and_formats(self):
        rows = {}
        for line in (self.root / "sluice-manifest.tsv").read_text().splitlines():
            fields = line.split("\t")
            if fields[0].startswith("cat/"):
                rows[fields[0]] = line
        self.assertEqual(len(rows), self.num)
        for name, words in (("lossy.webp", "webp"), ("rgb_tiff_lzw.TIFF", "tiff"),
                            ("palette8_made.bmp", "bmp"), ("interlaced.gif", "gif")):
            if name.replace(".TIFF", ".tif") not in self.others:
                continue
            row = rows["cat/" + name].split("\t")
            self.assertIn(words, row)
            self.assertIn("33", row)
            self.assertIn("17", row)

    def check_modes(self, spec, modes):
        (report,) = self.train("local", spec, "--jpeg-index", "off")
        self.assertEqual((report["samples"], report["errors"]), (self.num, 0))
        digest = report["digest"]
        folder = pathlib.Path(self.folder.name, "profile")
        if "remote_auto" in modes:
            self.train("remote_nooff", spec, "--profiling", "--write-profile-folder", folder)
        runs = [(mode, ()) for mode in modes] + [(mode, ("--remote-form", form)) for mode, form in FORMS]
        choices = {}
        for mode, flags in runs:
            if mode in ("remote_sophon", "remote_auto"):
                flags += ("--profile-folder", folder, "--net-bw", "100", "--remote-cpus", "2")
            (report,) = self.train(mode, spec, *flags)
            with self.subTest(mode=mode, flags=flags):
                self.assertEqual((report["errors"], report["digest"]), (0, digest))
            choices[mode, flags] = report["choices"]
        cut = choices["remote_nooff", ("--remote-form", "jpeg_crop")].get("jpeg_crop@0", 0)
        return digest, cut

    def test_one_digest_with_orientation_and_another_one_without(self):
        plain, cut_plain = self.check_modes(PLAIN, ("remote_alloff",))
        upright, cut_upright = self.check_modes(UPRIGHT, MODES)
        self.assertNotEqual(plain, upright)
        # Seven photos have to be turned; those are not cut.
        self.assertGreater(cut_upright, 0)
        self.assertLessEqual(cut_upright, self.num_jpegs - 7)
        self.assertGreater(cut_plain, cut_upright)

    def test_what_has_to_be_turned_is_not_the_gpus(self):
        """Its kernels run on the CPU here (SLUICE_GPU=host)."""
        (report,) = self.train("local", UPRIGHT, "--gpu-decode", "off")
        for mode, flags in (("local", ()), ("local", ("--jpeg-index", "off")),
                            ("remote_nooff", ("--remote-form", "jpeg_crop"))):
            (on_gpu,) = self.train(mode, UPRIGHT, *flags, "--gpu-decode", "on", SLUICE_GPU="host")
            with self.subTest(mode=mode, flags=flags):
                self.assertEqual((on_gpu["errors"], on_gpu["digest"]), (0, report["digest"]))
                count = sum(count for choice, count in on_gpu["choices"].items()
                            if choice.endswith("+gpu"))
                self.assertGreater(count, 0)
                self.assertLessEqual(count, self.num_jpegs - 7)


if __name__ == "__main__":
    unittest.main(verbosity=2)
