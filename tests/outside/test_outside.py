#!/usr/bin/env python3
"""An op and a form that stand in one file of their own (outside.c) run wherever others do: in six
modes, in the GPU's host place, in the plan and from Python; programs that lack them say so. So does an older server
(older.c) of what it lacks."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import programs

OUTSIDE = pathlib.Path(os.environ["SLUICE_OUTSIDE"])
OLDER = pathlib.Path(os.environ["SLUICE_OLDER"])
MODULE = os.environ["SLUICE_OUTSIDE_PYTHON"]
NUM = 48
PLAIN = "decode,random_resized_crop=48,hflip,to_tensor,normalize=imagenet"
SPEC = "decode,negate=0.3,random_resized_crop=48,hflip,negate,to_tensor,normalize=imagenet"
U8_SPLIT = 5
# The link is what counts, so a plan takes the form that says it has few bytes.
PLAN = ["--net-bw", "1", "--remote-cpus", "4"]
PYTHON = """
import sys
import numpy
import sluice.numpy

def rows(negate):
    spec = "decode,resize=32,center_crop=32" + negate
    with sluice.numpy.Loader(sys.argv[1], 8, seed=3, pipeline=spec) as loader:
        return numpy.concatenate([images.copy() for images, _ in loader])

plain = rows("")
assert (rows(",negate=1") == 255 - plain).all()
assert (rows(",negate=1,negate=1") == plain).all()
some = [(one == 255 - other).all() for one, other in zip(rows(",negate=0.5"), plain)]
assert 0 < sum(some) < len(some)
print(len(plain), "rows")
"""


class Outside(programs.SynthTest):
    SYNTH = ("-n", NUM, "--num-val", 0, "--classes", "3")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.profile = pathlib.Path(cls.folder.name, "profile")
        cls.run_program("offload_profile", "run", cls.root, "--out", cls.profile, "--pipeline",
                        SPEC)
        cls.server = programs.Server(cls.root, folder=OUTSIDE)
        cls.addClassCleanup(cls.server.__exit__)
        cls.local = cls.train("local")

    @classmethod
    def run_program(cls, name, *flags, folder=OUTSIDE, code=0, **env):
        done = subprocess.run([str(part) for part in (folder / name, *flags)], text=True,
                              capture_output=True, timeout=programs.TIMEOUT_S,
                              env={**os.environ, **env}, check=False)
        if done.returncode != code or "Sanitizer" in done.stderr:
            raise AssertionError(f"{done.args} ended with {done.returncode}:\n{done.stderr[-3000:]}")
        return done

    @classmethod
    def train(cls, mode, *flags, spec=SPEC, **env):
        where = [cls.root] if mode == "local" else ["--host", cls.server.address]
        done = cls.run_program("offload_train", *where, "--dataset-mode", mode, "--device", "none",
                               "--json", "-b", "8", "-p", "0", "--no-val", "--pipeline", spec,
                               *flags, **env)
        report, = map(json.loads, done.stdout.splitlines())
        return report

    def test_six_modes(self):
        self.assertNotEqual(self.train("local", spec=PLAIN)["digest"], self.local["digest"])
        planned = ("--profile-folder", self.profile, *PLAN)
        for mode, flags in (("remote_nooff", ()), ("remote_piloff", ()), ("remote_alloff", ()),
                            ("remote_sophon", planned), ("remote_auto", planned)):
            with self.subTest(mode):
                report = self.train(mode, *flags)
                self.assertEqual(report["digest"], self.local["digest"])
                self.assertEqual((report["samples"], report["errors"]), (NUM, 0))
                self.assertEqual(sum(report["choices"].values()), NUM)
                if mode == "remote_auto":
                    self.assertGreater(report["choices"].get(f"veiled@{U8_SPLIT}", 0), NUM // 2)

    def test_the_gpus_host_place(self):
        for mode in ("local", "remote_piloff"):
            with self.subTest(mode):
                report = self.train(mode, "--gpu-decode", "on", SLUICE_GPU="host")
                self.assertEqual(report["digest"], self.local["digest"])

    def test_the_plan(self):
        done = self.run_program("offload_profile", "plan", "--profile-folder", self.profile,
                                "--json", "--costs", "default", *PLAN)
        plan, = map(json.loads, done.stdout.splitlines())
        self.assertEqual(plan["choices"], {f"veiled@{U8_SPLIT}": NUM})

    def test_help(self):
        done = self.run_program("offload_train", "--help")
        self.assertIn("negate=0.5: 255 less each value", " ".join(done.stdout.split()))

    @unittest.skipUnless(MODULE, "the build has no Python module")
    def test_python(self):
        package = pathlib.Path(self.folder.name, "python", "sluice")
        package.mkdir(parents=True)
        stock = pathlib.Path(os.environ["SLUICE_BIN"]).parent / "python" / "sluice"
        for file in stock.glob("*.py"):
            shutil.copy(file, package)
        shutil.copy(MODULE, package)
        try:
            import numpy  # noqa: F401
        except ImportError as error:
            self.skipTest(str(error))
        if os.environ.get("SLUICE_SANITIZE"):
            self.skipTest("a sanitizer's module needs its runtime in the interpreter")
        done = subprocess.run([sys.executable, "-c", PYTHON, str(self.root)], text=True,
                              capture_output=True, timeout=programs.TIMEOUT_S, check=False,
                              env={**os.environ, "PYTHONPATH": str(package.parent)})
        self.assertEqual((done.returncode, done.stdout), (0, f"{NUM} rows\n"), done.stderr)

    def test_an_older_server_names_what_it_lacks(self):
        crop = "random_resized_crop=48"
        with programs.Server(self.root, folder=OLDER) as server:
            for spec, words in (
                    (f"decode,{crop},hflip,to_tensor", None),
                    (f"decode,{crop},when(epoch>=1,invert),to_tensor", "op 3 (when)"),
                    (f"decode,{crop},one_of(invert,when(epoch<9,color=2))", "op 5 (when)"),
                    (f"decode=pillow13,{crop},to_tensor", "op 1 (decode) at character 8: decode takes no value")):
                for mode in ("remote_nooff", "remote_alloff"):
                    with self.subTest(spec, mode=mode):
                        done = self.run_program("offload_train", "--host", server.address, "--device", "none", "--json", "-b",
                                                "8", "-p", "0", "--no-val", "--dataset-mode", mode, "--pipeline", spec,
                                                code=1 if words else 0)
                        self.assertIn(words or "", done.stderr)
                        self.assertEqual(bool(done.stdout), not words)

    def test_programs_without_them_say_so(self):
        stock = pathlib.Path(os.environ["SLUICE_BIN"])
        done = self.run_program("offload_train", self.root, "--dataset-mode", "local", "--device",
                                "none", "--pipeline", SPEC, folder=stock, code=2)
        self.assertIn("op 2 (negate)", done.stderr)
        with programs.Server(self.root, folder=stock) as server:
            # It does not know the form, which it is not asked for.
            flags = ("--host", server.address, "--device", "none", "--json", "-b", "8", "-p", "0",
                     "--no-val")
            done = self.run_program("offload_train", *flags, "--pipeline", PLAIN, "--dataset-mode",
                                    "remote_auto", *PLAN)
            report, = map(json.loads, done.stdout.splitlines())
            self.assertEqual(report["errors"], 0)
            self.assertFalse([name for name in report["choices"] if "veiled" in name])
            # The op it refuses by name.
            done = self.run_program("offload_train", *flags, "--pipeline", SPEC, "--dataset-mode",
                                    "remote_piloff", code=1)
            self.assertIn("op 2 (negate)", done.stderr)


if __name__ == "__main__":
    unittest.main()
