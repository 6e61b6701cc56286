#!/usr/bin/env python3
"""Rows of indexed JPEGs as a form on the wire (jpeg_rows): the digest of every other mode, on CPUs and
on a GPU that the host stands in for, and the file wherever rows do not do."""
import json
import os
import pathlib
import shutil
import unittest

import programs
from programs import run

NUM_TRAIN = 60
NUM_VAL = 20
ROWS = ("--dataset-mode", "remote_nooff", "--remote-form", "jpeg_rows")
PLACES = (("--gpu-decode", "off"), ("--gpu-decode", "on"))
UPRIGHT = "decode,exif_transpose,random_resized_crop=64,hflip=0.5,to_tensor,normalize=imagenet"


def train(*flags, code=0):
    return programs.train("-b", 8, "-p", 0, "-j", 2, "--image-size", 64, "--no-val", *flags, code=code,
                          env={"SLUICE_GPU": "host"})[0]


def count(report, name):
    return sum(number for choice, number in report["choices"].items() if choice.startswith(name))


class JpegRowsTest(programs.SynthTest):
    SYNTH = ("-n", NUM_TRAIN, "--num-val", NUM_VAL, "--classes", 3)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        summary = json.loads(run("offload_dataset", "index", "--jpeg-index", "--json", cls.root).stdout)
        cls.num_without = summary["jpeg_index"]["without"]
        (cls.wanted,) = train(cls.root, "--dataset-mode", "local", "--jpeg-index", "off")
        (cls.wanted_val,) = train(cls.root, "--dataset-mode", "local", "--jpeg-index", "off",
                                  "--evaluate")

    def copy(self, name):
        copy = pathlib.Path(self.folder.name, name)
        shutil.copytree(self.root, copy)
        return copy

    def indexed(self, root):
        return [path for path in sorted(root.glob("train/**/*.jpg"))
                if b"\xff\xc2" not in path.read_bytes()[:1000]]

    def check(self, report, wanted=None):
        wanted = wanted or self.wanted
        self.assertEqual((report["digest"], report["samples"], report["errors"]),
                         (wanted["digest"], wanted["samples"], wanted["errors"]))

    def test_one_digest_of_files_and_their_rows(self):
        self.assertGreater(self.num_without, 0)  # PNGs and progressive JPEGs, which go whole
        for flags in ((), ("--isolate-decoders",)):
            server = self.serve(*flags)
            for place in PLACES:
                with self.subTest(server=flags, place=place):
                    (report,) = train("--host", server.address, *ROWS, *place)
                    self.check(report)
                    name = "jpeg_rows@0" + ("+gpu" if place[1] == "on" else "")
                    self.assertGreater(report["choices"][name], NUM_TRAIN // 2)
                    self.assertEqual(count(report, "jpeg_rows@0") + count(report, "raw@0"),
                                     NUM_TRAIN)
                    self.assertGreater(count(report, "raw@0"), 0)
                    (report,) = train("--host", server.address, *ROWS, *place, "--evaluate")
                    self.check(report, self.wanted_val)
            stats, log = server.finish()
            self.assertIn("jpeg_rows", log)
            self.assertLess(stats["files"]["read_bytes"], 0.95 * stats["files"]["bytes"])
            self.assertEqual(stats["jpeg_index"]["again"], 0)
            self.assertEqual(set(stats["choices"]), {"raw@0", "jpeg_rows@0"})

    def test_a_plan_asks_for_rows(self):
        server = self.serve()
        for place in PLACES:
            reports = train("--host", server.address, "--dataset-mode", "remote_auto", "--epochs", 1,
                            "--net-bw", 10000, "--remote-cpus", 1, "--no-replan", *place)
            self.check(reports[0])
            self.assertGreater(count(reports[0], "jpeg_rows@0"), NUM_TRAIN // 3, reports[0])

    def test_a_server_without_an_index_sends_files(self):
        server = self.serve("--jpeg-index", "off")
        (report,) = train("--host", server.address, *ROWS)
        self.check(report)
        self.assertEqual(report["choices"], {"raw@0": NUM_TRAIN})
        # Of replicas all must have one.
        other = self.serve()
        (report,) = train("--host", f"{server.address},{other.address}", *ROWS)
        self.check(report)
        self.assertEqual(report["choices"], {"raw@0": NUM_TRAIN})

    def test_images_that_are_turned_come_whole(self):
        server = self.serve()
        (wanted,) = train(self.root, "--dataset-mode", "local", "--pipeline", UPRIGHT)
        (report,) = train("--host", server.address, *ROWS, "--pipeline", UPRIGHT)
        self.check(report, wanted)
        self.assertEqual(report["choices"], {"raw@0": NUM_TRAIN})

    def test_a_crop_of_a_resize(self):
        spec = "decode,resize=72,center_crop=64,hflip=0.5,to_tensor,normalize=imagenet"
        server = self.serve()
        (wanted,) = train(self.root, "--dataset-mode", "local", "--pipeline", spec)
        for place in PLACES:
            (report,) = train("--host", server.address, *ROWS, "--pipeline", spec, *place)
            self.check(report, wanted)
            self.assertGreater(count(report, "jpeg_rows@0"), NUM_TRAIN // 2)

    def test_damage_that_length_and_time_hide(self):
        """In headers and here and there in the scan: pixels and errors are those of a server that
        decodes by its index.  (Damage in rows that no crop needs neither sees.)"""
        root = self.copy("damaged")
        for number, path in enumerate(self.indexed(root)[:24]):
            time = os.stat(path).st_mtime_ns
            data = bytearray(path.read_bytes())
            if number % 3 == 0:
                data[data.index(b"\xff\xdb") + 20] ^= 1  # a quantiser
            else:
                data[len(data) * (number % 3) // 3] ^= 0x10
            path.write_bytes(bytes(data))
            os.utime(path, ns=(time, time))
        server = self.serve(root=root)
        skips = ("--on-error", "skip", "--max-errors", "100%")
        (wanted,) = train("--host", server.address, "--dataset-mode", "remote_piloff", *skips)
        self.assertNotEqual(wanted["digest"], self.wanted["digest"])
        for place in PLACES:
            (report,) = train("--host", server.address, *ROWS, *skips, *place)
            self.check(report, wanted)
            self.assertGreater(count(report, "jpeg_rows@0"), 0)
        stats, _ = server.finish()
        self.assertGreater(stats["jpeg_index"]["again"], 0)

    def test_the_profile_has_rows(self):
        folder = pathlib.Path(self.folder.name, "profile")
        server = self.serve()
        train("--host", server.address, "--dataset-mode", "remote_nooff", "--epochs", 1,
              "--profiling", "--write-profile-folder", folder, "--profile-samples", 40)
        forms = (folder / "prep_forms.csv").read_text()
        self.assertIn(";jpeg_rows@0;", forms)
        model = json.loads((folder / "cost_model.json").read_text())
        self.assertIn("jpeg_rows@0", model["weights"]["window"])
        reports = train("--host", server.address, "--profile-folder", folder, "--epochs", 1)
        self.check(reports[0])
        plans = []
        # Over this link bytes decide alone, however fast the machine seemed while other programs ran.
        for form in (("--form", "none"), ("--form", "jpeg_rows")):
            done = run("offload_profile", "plan", "--profile-folder", folder, "--json", *form,
                       "--planner", "auto", "--net-bw", "0.1", "--local-cpus", "8", "--remote-cpus", "8")
            plans.append(json.loads(done.stdout))
        self.assertNotIn("jpeg_rows@0", plans[0]["choices"])
        self.assertGreater(plans[1]["choices"]["jpeg_rows@0"], 0)
        self.assertLess(plans[1]["wire_bytes"], plans[0]["wire_bytes"])
        # Alone, without a server: as if there were an index.
        alone = pathlib.Path(self.folder.name, "alone")
        run("offload_profile", "run", self.root, "--limit", "20", "--out", alone)
        self.assertIn(";jpeg_rows@0;", (alone / "prep_forms.csv").read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
