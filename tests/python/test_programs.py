#!/usr/bin/env python3
"""sluice.programs: where a program is found, and what runs it from a wheel."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import support

import sluice
from sluice import programs

FIND = "from sluice import programs; print(programs.find('offload_server'))"


class ProgramsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name).resolve()
        self.package = self.top / "site/sluice"
        shutil.copytree(pathlib.Path(sluice.__file__).parent, self.package)

    def python(self, code, *args, path="", **options):
        """Runs code with a copy of the package that lies in no build."""
        env = dict(os.environ, PYTHONPATH=str(self.package.parent), PATH=path)
        return subprocess.run([sys.executable, "-c", code, *args], env=env, capture_output=True,
                              text=True, **options)

    def program(self, folder, text="exit 0"):
        folder.mkdir(parents=True, exist_ok=True)
        made = folder / "offload_server"
        made.write_text(f"#!/bin/sh\n{text}\n")
        made.chmod(0o755)
        return made

    def test_finds_that_of_the_build(self):
        found = programs.find("offload_server")
        self.assertEqual(pathlib.Path(found), support.BIN / "offload_server")
        said = subprocess.run([found, "--version"], check=True, capture_output=True, text=True)
        self.assertIn(sluice.__version__, said.stdout)

    def test_looks_in_the_wheel_then_in_the_build_then_on_path(self):
        for folder in ("path", "bin", "site/sluice/_bin"):
            made = self.program(self.top / folder)
            found = self.python(FIND, path=str(self.top / "path"), check=True)
            self.assertEqual(found.stdout.strip(), str(made))

    def test_a_file_that_cannot_be_run_is_none(self):
        self.program(self.package / "_bin").chmod(0o644)
        self.assertIn("NotFoundError", self.python(FIND).stderr)

    def test_says_where_it_looked(self):
        with self.assertRaisesRegex(sluice.NotFoundError, "'offload_nothing'.*_bin.*PATH"):
            programs.find("offload_nothing")
        with self.assertRaises(FileNotFoundError):
            programs.find("offload_nothing")

    def test_becomes_the_program(self):
        self.program(self.package / "_bin", 'echo "$*"; kill -PIPE $$; exit 3')
        run = self.python("from sluice import programs; programs.offload_server()", "--a", "b c")
        self.assertEqual(run.stdout, "--a b c\n")
        self.assertEqual(run.returncode, -13)  # SIGPIPE ends it

    def test_does_not_call_itself_over_and_over(self):
        self.program(self.top / "path")  # as the script of the wheel, which is on PATH
        run = self.python("from sluice import programs; programs.offload_server()",
                          path=str(self.top / "path"))
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("install sluice again", run.stderr)


if __name__ == "__main__":
    support.main()
