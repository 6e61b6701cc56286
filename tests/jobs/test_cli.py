#!/usr/bin/env python3
"""offload_job's command line: help, man page, completions, exit codes."""
import gzip
import os
import pathlib
import re
import shutil
import subprocess

import support
from jobs import cli, texts
from support import offload_job

TEXTS = support.BIN.parent / "texts/jobs"
BASH = r"""
. "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_offload_job
printf '%s\n' "${COMPREPLY[@]}"
"""
ZSH = r"""
_arguments() { print -rl -- "$@" }
_describe() { print -rl -- "${(@P)2}" }
words=("${@:2}") CURRENT=$(($# - 1))
. "$1"
"""


def commands():
    return texts.commands(cli.parser())


class CliTest(support.JobTest):
    def test_help_is_80_columns_wide(self):
        for words in [[]] + [[name] for name in commands()]:
            said = offload_job(*words, "--help")
            self.assertEqual([line for line in said.splitlines() if len(line) > 80], [], words)

    def test_the_man_page_has_every_command_and_option(self):
        if not (TEXTS / "offload_job.1.gz").exists():
            self.skipTest("the target texts is not built")
        page = gzip.decompress((TEXTS / "offload_job.1.gz").read_bytes()).decode()
        for name, (parser, _) in commands().items():
            part = page.split(f"\n.SH {name.upper()}\n")[1].split("\n.SH ")[0].replace("\\-", "-")
            for action in parser._actions:
                for flag in action.option_strings:
                    self.assertIn(f"\\fB{flag}\\fR", part, name)
        if shutil.which("mandoc"):
            lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning"], input=page, capture_output=True, text=True,
                                  check=False).stdout
            self.assertEqual([line for line in lint.splitlines() if "missing date" not in line], [])

    def test_bash_and_zsh_complete(self):
        if not (TEXTS / "offload_job").exists():
            self.skipTest("the target texts is not built")

        def bash(*words):
            return subprocess.run(["bash", "--norc", "-c", BASH, "bash", TEXTS / "offload_job", "offload_job", *words],
                                  capture_output=True, text=True, check=True).stdout.split()

        self.assertLessEqual(set(commands()), set(bash("")))
        self.assertEqual(bash("submit", "job.yaml", "--engine", "k"), ["kubernetes"])
        for name, (parser, _) in commands().items():
            flags = [flag for action in parser._actions for flag in action.option_strings]
            self.assertEqual(sorted(bash(name, "-")), sorted(flags))
            if shutil.which("zsh"):
                specs = subprocess.run(["zsh", "-f", "-c", ZSH, "zsh", TEXTS / "_offload_job", "offload_job", name, ""],
                                       capture_output=True, text=True, check=True).stdout
                for flag in flags:
                    self.assertRegex(specs, rf"(?m)^{re.escape(flag)}\[", name)

    def test_mistakes_of_a_file_end_with_2_and_of_a_job_with_1(self):
        good = self.write("name: a\ndata: /d\ncompute: {command: x}\n")
        self.assertEqual(offload_job("validate", good), f"{good}: ok\n")
        bad = self.write("name: a\ncompute: {comand: x}\n", "bad.yaml")
        said = offload_job("validate", bad, code=2)
        self.assertIn(f"{bad}:2:11: compute.comand: unknown field; did you mean command?", said)
        self.assertIn("no job", offload_job("show", "a-123456", code=1))
        self.assertIn("No such file", offload_job("submit", self.folder / "none.yaml", code=1))
        offload_job(code=2)
        offload_job("submit", code=2)

    def test_commands_that_read_no_file_need_no_library(self):
        code = "import sys; sys.modules['yaml'] = None; from jobs import cli; sys.exit(cli.main('1', sys.argv[1:]))"
        for words, status, said in ((["list"], 0, ""), (["validate", "x"], 1, "")):
            path = self.write("name: a\n", "x")
            done = subprocess.run(["/usr/bin/python3", "-c", code, *words[:1], *([path] if words[1:] else [])],
                                  env={**os.environ, "PYTHONPATH": str(support.SHARE)}, capture_output=True, text=True,
                                  check=False)
            self.assertEqual((done.returncode, done.stdout), (status, said), done.stderr)
        self.assertIn("python3-yaml", done.stderr)

    def test_the_wheel_has_the_same_program(self):
        source = pathlib.Path(os.environ["SLUICE_SOURCE"])
        self.assertIn('offload_job = "sluice.jobs.cli:main"', (source / "pyproject.toml").read_text())
        listed = (source / "python/CMakeLists.txt").read_text()
        for path in (source / "python/sluice/jobs").rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                self.assertIn(f"  {path.relative_to(source / 'python/sluice')}", listed)


if __name__ == "__main__":
    support.main()
