#!/usr/bin/env python3
"""The files of packaging/slurm and packaging/kubernetes are what offload_job makes of the jobs next to them."""
import os
import pathlib

import support
from jobs import engines, spec

PACKAGING = pathlib.Path(os.environ["SLUICE_SOURCE"]) / "packaging"


class PackagingTest(support.JobTest):
    def check_engine(self, name, suffix):
        made = {}
        for path in sorted((PACKAGING / name / "jobs").glob("*.yaml")):
            for file, text in engines.find(name).render(spec.load(path)).items():
                self.assertNotIn(file, made, "two jobs have one name")
                made[file] = text
        self.assertTrue(made)
        self.assertEqual(sorted(made), sorted(path.name for path in (PACKAGING / name).glob(f"*.{suffix}")))
        for file, text in made.items():
            self.assertEqual((PACKAGING / name / file).read_text(), text,
                             f"{file}: offload_job render --engine {name} --out packaging/{name} makes it anew")

    def test_slurm(self):
        self.check_engine("slurm", "sbatch")

    def test_kubernetes(self):
        self.check_engine("kubernetes", "yaml")


if __name__ == "__main__":
    support.main()
