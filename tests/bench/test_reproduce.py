#!/usr/bin/env python3
"""bench/reproduce from one end to the other on a handful of images: files, not times."""
import csv
import ctypes
import html.parser
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

from benches import BENCH, BenchTest
from programs import BIN

# A profile of so few is as much of a file.
QUICK = ["--profile-samples", "2", "--attempts", "1"]
SIZES = """\
index;raw;decoding;original_shape;RandomResizedCrop;RandomHorizontalFlip;ToTensor;Normalize;
0;200000;900000;(750, 400);150561;150561;602145;602145;
1;100000;900000;(750, 400);150561;150561;602145;602145;
"""


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class Page(html.parser.HTMLParser):
    """What a page links to and what it can be linked at."""

    def __init__(self, path):
        super().__init__()
        self.links, self.ids, self.figures = [], set(), 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids.add(found.get("id"))
        if tag == "a":
            self.links.append(found["href"])
        self.figures += tag == "figure"


class ReproduceTest(BenchTest):
    SYNTH = ("-n", 8, "--num-val", 0, "--classes", 2, "-j", 1, "--log-level", "warn")
    PROGRAM, FLAGS = "reproduce", ("--bin", BIN)

    def reproduce(self, *arguments, code=0):
        done = self.bench(*arguments, code=code)
        return done.stdout, done.stderr

    def test_a_sweep_is_broken_off_and_goes_on(self):
        out = pathlib.Path(self.folder.name, "sweep")
        call = [self.root, "--out", out, "--no-root", "--modes", "no-off,auto", "--bandwidths",
                "1gbit", "--storage-cores", 1, "--compute-cores", 1, "--epochs", 1, "--repeat", 2,
                "--jpeg-index", *QUICK]
        text, _ = self.reproduce(*call, "--max-seconds", 0, code=75)
        self.assertIn("1 epochs are left", text)
        self.assertEqual(len(rows_of(out / "rows.csv")), 1)
        # What a kill left of a line is no row.
        with open(out / "rows.csv", "a", encoding="utf-8") as file:
            file.write("link-limit,1000.0,1,1,au")
        self.reproduce(*call)
        rows = rows_of(out / "rows.csv")
        self.assertEqual([row["mode"] for row in rows], ["no-off", "auto"])
        self.assertEqual(len({row["digest"] for row in rows}), 1)
        self.assertTrue(all("--jpeg-index /" in row["command"] for row in rows))
        for name in ("profiles/1000mbit_1_1_round0/cost_model.json",
                     "profiles/1000mbit_1_1_round0/prep_forms.csv",
                     "index/sluice-jpeg-index.bin"):
            self.assertTrue((out / name).is_file(), name)
        for row in rows:
            self.assertEqual((row["samples"], row["errors"], row["repeat"]), ("16", "0", "2"))
            self.assertGreater(float(row["seconds"]), 0)
        forecast = rows_of(out / "forecast.csv")
        self.assertEqual([row["mode"] for row in forecast], ["no-off", "auto"])
        cell = rows_of(out / "cells.csv")[1]
        self.assertAlmostEqual(float(cell["seconds"]), float(rows[1]["seconds"]) / 2, places=5)
        self.assertAlmostEqual(float(cell["measured_over_plan"]),
                               float(rows[1]["seconds"]) / 2 / float(forecast[1]["seconds"]),
                               delta=1e-3 * float(cell["measured_over_plan"]))

        if cell["plan_at_speed"]:  # the clocks told the time while it ran, as it is very short
            self.assertAlmostEqual(float(cell["measured_over_plan_at_speed"]),
                                   float(rows[1]["seconds"]) / 2 / float(rows[1]["plan_at_speed"]),
                                   delta=1e-3 * float(cell["measured_over_plan_at_speed"]))

        self.assertIn("<td class=\"text\">measured within 10 % of the plan</td>",
                      (out / "index.html").read_text(encoding="utf-8"))
        page = Page(out / "index.html")
        self.assertIn("#row-3", page.links)
        for target in page.links:
            self.assertTrue(target[1:] in page.ids if target[0] == "#" else
                            (out / target).is_file(), target)
        self.assertEqual(page.figures, 4 if shutil.which("gnuplot") else 0)
        shutil.rmtree(out / "figures")
        (out / "cells.csv").unlink()
        self.reproduce("--draw", out)
        self.assertEqual(len(list((out / "figures").glob("*.png"))), page.figures)
        self.assertEqual(rows_of(out / "cells.csv")[1], cell)

        # Nothing is measured twice.
        text, _ = self.reproduce(*call)
        self.assertIn("2 of 2 epochs are measured", text)
        self.assertEqual(rows_of(out / "rows.csv"), rows)

        _, error = self.reproduce(*call, "--seed", 1, code=1)
        self.assertIn("seed", error)

        text = (out / "rows.csv").read_text().replace(rows[1]["digest"], "0" * 32)
        one = text.splitlines()
        (out / "rows.csv").write_text("\n".join(
            [one[0], one[1].replace(rows[0]["digest"], "0" * 32, 1)]) + "\n")
        _, error = self.reproduce(*call, code=1)
        self.assertIn("DIGESTS DIFFER", error)

    def test_a_kill_leaves_no_process_and_no_namespace(self):
        """Orphans come to this process; one that lives on would let the last wait hang."""
        pr_set_child_subreaper = 36
        self.assertEqual(ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0), 0)
        out = pathlib.Path(self.folder.name, "killed")
        process = subprocess.Popen(
            [sys.executable, BENCH / "reproduce", "--bin", BIN, self.root, "--out", out,
             "--modes", "no-off", "--bandwidths", "1gbit", "--epochs", "1000", "--repeat", "1",
             *QUICK], stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            if line.startswith("[2/"):
                break
        process.kill()
        process.stdout.close()
        self.assertEqual(process.wait(), -signal.SIGKILL)
        num_orphans = 0
        while True:
            try:
                os.wait()
                num_orphans += 1
            except ChildProcessError:
                break
        self.assertGreater(num_orphans, 0)

    def test_a_trainer_of_a_given_pace_is_a_setup_of_its_own(self):
        out = pathlib.Path(self.folder.name, "paced")
        text, _ = self.reproduce(self.root, "--out", out, "--no-root", "--modes", "no-off",
                            "--bandwidths", "1gbit", "--consume-rates", "0,5", "--epochs", 2,
                            "--repeat", 1, "--no-clocks", *QUICK)
        self.assertIn("trainer 5/s", text)
        plans = {row["consume_rate"]: row for row in rows_of(out / "forecast.csv")}
        self.assertEqual(plans["5.0"]["slowest"], "gpu")
        # All images are one batch, which is fetched and then trained on.
        fed, gpu = sorted(float(plans["5.0"][key]) for key in plans["5.0"]
                          if key.startswith("busy_"))[-2:]
        self.assertAlmostEqual(float(plans["5.0"]["seconds"]) - gpu, fed, delta=0.2 * fed)
        self.assertEqual(float(plans["0.0"]["busy_gpu"]), 0)
        self.assertGreater(float(plans["0.0"]["busy_receive"]), 0)
        # Each round has a profile of its own, which both setups share.
        profiles = sorted((out / "profiles").iterdir())
        self.assertEqual([profile.name.split("_")[-1] for profile in profiles],
                         ["round0", "round1"])
        for row in rows_of(out / "forecast.csv"):
            self.assertIn(f"_round{row['round']} ", row["command"])
        for row in rows_of(out / "rows.csv"):
            self.assertIn(f"_round{row['round']} ", row["command"] + " ")
        for cell in rows_of(out / "cells.csv"):
            self.assertEqual(cell["measured_over_plan_at_speed"], "")
            self.assertLessEqual(float(cell["plan_seconds_min"]), float(cell["plan_seconds"]))
            self.assertGreaterEqual(float(cell["plan_seconds_max"]), float(cell["plan_seconds"]))
        rows = {row["consume_rate"]: row for row in rows_of(out / "rows.csv")}
        self.assertTrue(rows["5.0"]["command"].endswith(" --consume-rate 5"))
        self.assertNotIn("--consume-rate", rows["0.0"]["command"])

    def test_images_are_read_unless_they_are_too_many(self):
        from sluice_bench import image_files
        total = sum(os.path.getsize(path) for path in image_files.find(self.root))

        def read_bytes():
            fields = pathlib.Path("/proc/self/io").read_text(encoding="ascii").split()
            return int(fields[fields.index("rchar:") + 1])
        for most, is_read in ((total - 1, False), (total, True), (None, True)):
            before = read_bytes()
            self.assertEqual(image_files.warm(self.root, most), is_read)
            self.assertEqual(read_bytes() - before >= total, is_read)

    def test_a_plan_that_was_made_before_keeps_its_choices_at_other_speeds(self):
        from sluice_bench import forecast
        plan = {"seconds": 4.5, "busy_storage_cpu": 4.0, "busy_network": 3.0,
                "busy_compute_cpu": 2.0, "busy_gpu": 0.5}
        for storage, compute, seconds in ((1, 1, 4.5), (0.8, 1, 5.5), (2, 1, 3.5), (2, 0.5, 4.5)):
            self.assertAlmostEqual(forecast.seconds_at_speeds(
                plan, {"storage": storage, "compute": compute}), seconds)

    def test_clocks_tell_how_fast_the_cpus_are(self):
        from sluice_bench import hosts, speed
        folder = pathlib.Path(self.folder.name, "clocks")
        speed.copy_images(self.root, folder / "images")
        self.assertEqual(len(list((folder / "images").iterdir())), 8)
        cores = hosts.Cores(1, 1)
        clocks = speed.Clocks(BIN.parent / "bench/bench_speed", folder / "images", cores,
                              folder / "log")
        try:
            before, found = clocks.look(), None
            while not found:
                found = clocks.since(before)
        finally:
            clocks.close()
        us, share = found
        for node in ("storage", "compute"):
            self.assertGreater(us[node], 0)
            self.assertGreaterEqual(share[node], 0)
        speed.keep(folder, found)
        self.assertEqual(speed.left(folder), {node: 1 - share[node] for node in share})
        self.assertEqual(speed.left(folder / "images"), {"storage": 1, "compute": 1})
        # A profile while everything took twice as long.
        kept = {f"{node}_us": 2 * value for node, value in us.items()}
        (folder / speed.FILE).write_text(json.dumps(kept), encoding="utf-8")
        speeds, cores_of = speed.compare(folder, (us, {"storage": 0.1, "compute": 0.0}))
        self.assertEqual(speeds, {"storage": 2, "compute": 2})
        self.assertEqual(cores_of, {"storage": 1.8, "compute": 2})
        self.assertIsNone(speed.compare(folder, None))
        self.assertIsNone(speed.compare(folder / "images", (us, share)))

    def test_whatif_varies_one_thing_at_a_time(self):
        out = pathlib.Path(self.folder.name, "whatif")
        done = subprocess.run(
            [sys.executable, BENCH / "whatif", "--bin", BIN, self.root, "--out", out, "--no-root",
             "--modes", "no-off,auto", "--bandwidths", "500mbit,2gbit", "--storage-cores", "1,2",
             "--compute-cores", "1", "--consume-rates", "0,1000", "--epochs", "1", "--repeat", "1",
             "--no-clocks", *QUICK], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = {line.split("  ")[0].strip(): line.split()[-9:]
                 for line in done.stdout.splitlines()}
        self.assertIn("epochs put down to the limit of the forecast", done.stdout)
        self.assertIn("epochs put down to the limit of the forecast",
                      (out / "index.html").read_text(encoding="utf-8"))
        self.assertTrue(all(cell["bound_by"] and float(cell["plan_share"]) >= 0
                            for cell in rows_of(out / "cells.csv")))
        for name, num_cells in (("all", "8"), ("--net-bw 2000", "2"), ("--remote-cpus 2", "2"),
                                ("--gpu-rate 1000", "2"), ("--gpu-rate 0", "6")):
            self.assertEqual(lines[name][-1], num_cells, done.stdout)
        setups = {(row["mbit"], row["storage_cores"], row["consume_rate"])
                  for row in rows_of(out / "cells.csv")}
        # The first machine was profiled for each.
        self.assertEqual({folder.name for folder in (out / "profiles").iterdir()},
                         {"1000mbit_1_1_round0",
                          "1000mbit_1_1_for_2000mbit_1_1_0_round0",
                          "1000mbit_1_1_for_500mbit_2_1_0_round0",
                          "1000mbit_1_1_for_500mbit_1_1_1000_round0"})
        self.assertEqual(setups, {("500", "1", "0"), ("2000", "1", "0"), ("500", "2", "0"),
                                  ("500", "1", "1000")})

    def test_parts_of_cores(self):
        from sluice_bench import quota
        try:
            quota.Quota(0.5).close()
        except quota.QuotaError as error:
            self.skipTest(str(error))
        out = pathlib.Path(self.folder.name, "parts")
        self.reproduce(self.root, "--out", out, "--no-root", "--modes", "no-off,auto", "--bandwidths",
                  "1gbit", "--storage-cores", "0.5", "--compute-cores", "1.5", "--epochs", 1,
                  "--repeat", 1, "--no-clocks", *QUICK)
        for plan in rows_of(out / "forecast.csv"):
            self.assertIn(" --remote-cpus 0.5 --local-cpus 1.5 ", plan["command"])
        for row in rows_of(out / "rows.csv"):
            self.assertIn(" -j 2 ", row["command"])
            self.assertNotIn("--remote-cpus", row["command"])
            groups = [part for part in row["command"].split() if part.endswith("/cgroup.procs")]
            self.assertEqual(len(set(groups)), 2)
            self.assertFalse(any(os.path.exists(group) for group in groups))
        model = json.loads((out / "profiles/1000mbit_0.5_1.5_round0/cost_model.json")
                           .read_text(encoding="utf-8"))
        self.assertEqual((model["storage_cores"], model["compute_cores"]), (0.5, 1.5))

    def test_published_sizes_need_no_images(self):
        out = pathlib.Path(self.folder.name, "published")
        sizes = pathlib.Path(self.folder.name, "sizes.csv")
        sizes.write_text(SIZES)
        self.reproduce("--openimages", sizes, "--out", out)
        rows = {row["mode"]: row for row in rows_of(out / "openimages.csv")}
        self.assertEqual(rows["remote_nooff"]["wire_bytes"], "300000")
        self.assertEqual(rows["remote_alloff"]["wire_bytes"], "1204290")
        self.assertEqual(rows["remote_piloff"]["wire_bytes"], "301122")
        self.assertEqual(rows["remote_sophon"]["wire_bytes"], "250561")

    def test_clear_ends(self):
        _, error = self.reproduce("--out", self.folder.name, code=2)
        self.assertIn("DIR", error)
        _, error = self.reproduce(self.root, "--out", self.folder.name, "--modes", "x", code=2)
        self.assertIn("no mode is called 'x'", error)
        _, error = self.reproduce(self.root, "--out", self.folder.name, "--bandwidths", "fast", code=2)
        self.assertIn("'fast' is no bandwidth", error)


if __name__ == "__main__":
    unittest.main(verbosity=2)
