"""What the tests of the programs in bench/ share: a handful of images, and a run of the program."""
import os
import pathlib
import subprocess
import sys
import tempfile

import programs
from programs import reports

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
SKIPPED = 77
sys.path.insert(0, str(BENCH))


class BenchTest(programs.SynthTest):
    """Tests of bench/PROGRAM, which is run with FLAGS and those of the test."""
    SYNTH = ("-n", 12, "--num-val", 0, "--classes", 2, "-j", 1, "--log-level", "warn")
    PROGRAM, FLAGS = "", ()

    @classmethod
    def bench(cls, *flags, code=0, env=None):
        done = subprocess.run([sys.executable, BENCH / cls.PROGRAM, *map(str, (*cls.FLAGS, *flags))],
                              capture_output=True, text=True, env={**os.environ, **(env or {})})
        programs.check(done.args, done.returncode, code, done.stdout + done.stderr)
        return done

    def rows(self, *flags, **named):
        return reports(self.bench(*flags, "--json", **named).stdout)

    def check_a_broken_package_skips(self):
        with tempfile.TemporaryDirectory() as empty:
            broken = pathlib.Path(empty, "sluice")
            broken.mkdir()
            (broken / "__init__.py").write_text("raise ImportError('not this one')\n")
            done = self.bench(self.root, "--package", empty, code=SKIPPED)
        self.assertIn("not this one", done.stderr)


def load_one():
    """bench/peers/one.py, which is no module of a package."""
    import importlib.util
    spec = importlib.util.spec_from_file_location("one", BENCH / "peers/one.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
