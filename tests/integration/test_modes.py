#!/usr/bin/env python3
"""One digest: six modes, one and four workers on either side, and a server killed twice."""
import json
import pathlib
import signal
import tempfile
import unittest

from programs import BAD_DISK, Node, Port, SynthTest, Train, run, slow_disk

NUM_TRAIN = 60
NUM_VAL = 12
MODES = ("local", "remote_nooff", "remote_alloff", "remote_piloff", "remote_sophon", "remote_auto")


class ModesTest(SynthTest):
    SYNTH = ("-n", NUM_TRAIN, "--num-val", NUM_VAL, "--classes", "3")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.profile = pathlib.Path(cls.folder.name, "profile")
        reports, _ = cls.train("local", [cls.root, "--profiling", "--write-profile-folder",
                                         cls.profile])
        cls.digest = reports[0]["digest"]

    @classmethod
    def start(cls, mode, flags, **options):
        if mode in ("remote_sophon", "remote_auto"):
            flags = [*flags, "--profile-folder", cls.profile, "--net-bw", 100, "--remote-cpus", 2]
        size = [] if "--pipeline" in flags else ["--image-size", 64]
        return Train("--dataset-mode", mode, "-b", 16, "-p", 0, *size, *flags, **options)

    @classmethod
    def train(cls, mode, flags, code=0):
        return cls.start(mode, flags).end(code)

    def serve(self, *flags, **named):
        return super().serve("--prep-workers", 1, "--grpc-workers", 1, *flags, **named)

    def test_one_digest(self):
        for prep_workers in (1, 4):
            server = self.serve("--prep-workers", prep_workers)
            for mode in MODES:
                for workers in ("1", "4"):
                    where = [self.root] if mode == "local" else ["--host", server.address]
                    (report,), _ = self.train(mode, [*where, "-j", workers])
                    with self.subTest(mode=mode, workers=workers, prep_workers=prep_workers):
                        self.assertEqual(report["digest"], self.digest)
                        self.assertEqual(report["samples"], NUM_TRAIN)
                        self.assertEqual(report["errors"], 0)
                        self.assertEqual(sum(report["choices"].values()), NUM_TRAIN)
                        self.assertLessEqual(sum(report["stalls"].values()), 1)
                        if mode == "local":  # no network, and no storage node
                            self.assertEqual(report["stalls"]["network"], 0)
                            self.assertEqual(report["stalls"]["storage_cpu"], 0)

    def test_schedule(self):
        """Ops of some epochs alone: one digest in all modes, and that of a run with these ops, or
        without them, in each epoch."""
        def run(mode, where, ops, repeat=2):
            # Samples that repeat draw by more epochs than those of the training.
            flags = ["--epochs", "3", "--repeat", str(repeat), "--pipeline",
                     f"decode,random_resized_crop=64,hflip,{ops}to_tensor"]
            reports, _ = self.train(mode, [*where, *flags])
            return [report["digest"] for report in reports]

        here = [self.root]
        plain, gray = (run("local", here, ops) for ops in ("identity,", "grayscale,"))
        late = run("local", here, "when(epoch>=1,grayscale),")
        self.assertEqual(late, [plain[0], *gray[1:]])
        self.assertEqual(run("local", here, "when(1<=epoch<2,grayscale),"),
                         [plain[0], gray[1], plain[2]])
        server = self.serve()
        profile = pathlib.Path(self.folder.name, "schedule")  # a plan is of a profile of the same pipeline
        run("local", [self.root, "--profiling", "--write-profile-folder", profile],
            "when(epoch>=1,grayscale),", repeat=1)
        self.addCleanup(setattr, type(self), "profile", self.profile)
        type(self).profile = profile
        for mode in MODES[1:]:
            with self.subTest(mode=mode):
                self.assertEqual(run(mode, ["--host", server.address], "when(epoch>=1,grayscale),"),
                                 late)

    def check_pipeline(self, text):
        """One digest in all modes, with a profile of its own; returns it."""
        pipeline = ["--pipeline", text]
        profile = pathlib.Path(tempfile.mkdtemp(dir=self.folder.name), "profile")
        (local,), _ = self.train("local", [self.root, "--profiling", "--write-profile-folder", profile, *pipeline])
        self.assertNotEqual(local["digest"], self.digest)
        self.addCleanup(setattr, type(self), "profile", self.profile)
        type(self).profile = profile
        server = self.serve()
        for mode in MODES[1:]:
            with self.subTest(mode=mode):
                (report,), _ = self.train(mode, ["--host", server.address, *pipeline])
                self.assertEqual(report["digest"], local["digest"])
                self.assertEqual(report["samples"], NUM_TRAIN)
                self.assertEqual(report["errors"], 0)
        return local["digest"]

    def test_rows_that_are_not_square(self):
        self.check_pipeline("decode,random_resized_crop=48x80,hflip,to_tensor,normalize=imagenet")

    def test_views(self):
        """Crops of the file's image; shared ops before views; and views at u8, which end the pipeline."""
        crops = "2x[random_resized_crop=64:scale=0.32-1,hflip],3x[random_resized_crop=33x29:scale=0.05-0.32,grayscale:p=0.3]"
        digests = {self.check_pipeline(text) for text in (
            f"decode,views({crops}),to_tensor,normalize=imagenet",
            f"decode,resize=90,hflip,views({crops}),to_tensor,normalize=imagenet",
            f"decode,views([center_crop=40],{crops},[resize=20x30])")}
        self.assertEqual(len(digests), 3)

    def test_repeated_augmentation(self):
        """An epoch has as many rows as without, and the same ones in any mode."""
        def run(*flags):
            return self.train("local", [self.root, *flags])[0]

        whole = run("--epochs", "6", "--repeat-within-batch", "3")
        self.assertEqual([report["samples"] for report in whole], [NUM_TRAIN] * 6)
        self.assertEqual(len({report["digest"] for report in whole}), 6)
        self.assertNotEqual(whole[0]["digest"], self.digest)
        server = self.serve()
        reports, _ = self.train("remote_piloff", ["--host", server.address, "--epochs", "6",
                                                  "--repeat-within-batch", "3"])
        self.assertEqual([report["digest"] for report in reports],
                         [report["digest"] for report in whole])

    def test_profile_of_both_machines(self):
        folder = pathlib.Path(self.folder.name, "both")
        num_samples = 10
        server = self.serve()
        (report,), _ = self.train("remote_nooff", [
            "--host", server.address, "--profiling", "--write-profile-folder", folder,
            "--profile-samples", str(num_samples)])
        self.assertEqual(report["samples"], num_samples)
        profile, type(self).profile = self.profile, folder
        try:
            for mode in ("remote_auto", "remote_sophon"):
                (report,), _ = self.train(mode, ["--host", server.address])
                self.assertEqual(report["digest"], self.digest)
        finally:
            type(self).profile = profile
        # The original's tables have every sample, measured or told from the others.
        for name in ("prep_sizes.csv", "prep_times.csv"):
            self.assertEqual(len((folder / name).read_text().splitlines()), 1 + NUM_TRAIN)
        part, whole = ([line.split(";")[1]
                        for line in (profile / "prep_sizes.csv").read_text().splitlines()]
                       for profile in (folder, self.profile))
        self.assertEqual(part, whole)
        # Of those that were measured, all forms that the server sends, and both sides.
        version, names, *lines = (folder / "prep_forms.csv").read_text().splitlines()
        self.assertEqual(version, "# sluice forms 1")
        rows = [dict(zip(names.split(";"), line.split(";"))) for line in lines]
        self.assertEqual(len({row["index"] for row in rows}), num_samples)
        for choice in ("raw@0", "u8@1", "u8@2", "u8@3", "jpeg_crop@0"):
            measured = [row for row in rows if row["choice"] == choice]
            self.assertLessEqual(len(measured), num_samples)
            self.assertGreater(len(measured), num_samples / 2, choice)
            self.assertTrue(all(float(row["compute_s"]) > 0 for row in measured), choice)
            # Reading is no op: a file as it is has nothing to measure there.
            self.assertTrue(all(row["storage_s"] == "-" if choice == "raw@0"
                                else float(row["storage_s"]) >= 0 for row in measured), choice)
        for row in rows:
            if row["choice"] == "u8@1":
                self.assertEqual(int(row["bytes"]), 3 * int(row["width"]) * int(row["height"]))
        model = json.loads((folder / "cost_model.json").read_text())
        self.assertEqual((model["sluice_cost_model"], model["samples"]), (1, num_samples))
        self.assertGreater(model["link_bytes_per_s"], 0)
        self.assertEqual(model["storage_cores"], 1)
        forecast = run("offload_profile", "plan", "--profile-folder", folder, "--json", "--pipeline",
                       "decode,random_resized_crop=64,hflip=0.5,to_tensor,normalize=imagenet")
        self.assertEqual(json.loads(forecast.stdout)["costs"], "model")

    def test_a_log_that_cannot_be_written(self):
        server = self.serve()
        self.train("remote_nooff", ["--host", server.address, "--batch-log", "/nowhere/b.csv",
                                    "--retry-for", "0"], code=1)

    def test_cut_files(self):
        server = self.serve("--prep-workers", 2)
        (whole,), _ = self.train("remote_nooff", ["--host", server.address])
        for flags in (["--remote-form", "jpeg_crop"],
                      ["--remote-form", "jpeg_crop", "-j", "4"]):
            (report,), _ = self.train("remote_nooff", ["--host", server.address, *flags])
            self.assertEqual(report["digest"], self.digest)
            self.assertGreater(report["choices"]["jpeg_crop@0"], NUM_TRAIN / 3)
            self.assertLess(report["wire_bytes"], 0.9 * whole["wire_bytes"])
        (report,), _ = self.train("remote_auto", ["--host", server.address,
                                                  "--remote-form", "raw"])
        self.assertNotIn("jpeg_crop@0", report["choices"])
        server = self.serve("--jpeg-crop-huffman", "optimal")
        (report,), _ = self.train("remote_nooff", ["--host", server.address,
                                                   "--remote-form", "jpeg_crop"])
        self.assertEqual(report["digest"], self.digest)
        self.assertGreater(report["choices"]["jpeg_crop@0"], NUM_TRAIN / 3)

    def test_packed_pixels(self):
        server = self.serve("--prep-workers", 2)
        for mode, choice in (("remote_piloff", "u8_packed@3"), ("remote_nooff", "u8_packed@1")):
            (plain,), _ = self.train(mode, ["--host", server.address])
            for workers in ("1", "4"):
                (report,), _ = self.train(mode, ["--host", server.address, "-j", workers,
                                                 "--remote-form", "u8_packed"])
                with self.subTest(mode=mode, workers=workers):
                    self.assertEqual(report["digest"], self.digest)
                    self.assertGreater(report["choices"][choice], NUM_TRAIN / 3)
                    self.assertEqual(sum(report["choices"].values()), NUM_TRAIN)
                    self.assertEqual(report["errors"], 0)
                    self.assertLess(report["wire_bytes"], plain["wire_bytes"])

    def test_a_server_killed_twice_costs_time_only(self):
        """The trainer takes its time, so that each kill falls in mid-epoch."""
        for mode in ("remote_nooff", "remote_piloff"):
            # A read-ahead of little, else the epoch would be over before the kill, or the second
            # one come before there was a stream to the server that the first one led to.
            with Node(self.root) as server:
                run = self.start(mode, ["--host", server.address, "--consume-rate", "60",
                                        "--prefetch-bytes", "256k", "--retry-for", "60",
                                        "--repeat", "3", "-b", "4", "-p", "1"])
                kills = 0
                for line in run.lines():
                    if kills < 2 and f"[{4 + 12 * kills}/" in line:
                        server.replace()
                        kills += 1
                (report,), _ = run.end()
            self.assertEqual(kills, 2)
            self.assertEqual(report["samples"], 3 * NUM_TRAIN)
            self.assertEqual(report["retries"], 2)
            (calm,), _ = self.train("local", [self.root, "-b", "4", "--repeat", "3"])
            self.assertEqual(report["digest"], calm["digest"])

    def test_the_bytes_of_the_fixed_modes(self):
        server = self.serve()
        files = sum(path.stat().st_size for path in (self.root / "train").rglob("*.*"))
        (report,), _ = self.train("remote_nooff", ["--host", server.address])
        self.assertGreater(report["wire_bytes"], files)
        self.assertLess(report["wire_bytes"], 1.002 * files)
        (report,), _ = self.train("remote_piloff", ["--host", server.address,
                                                    "--image-size", "224"])
        self.assertGreater(report["bytes_per_sample"], 150528)
        self.assertLess(report["bytes_per_sample"], 1.002 * 150528)
        self.assertEqual(report["choices"], {"u8@3": NUM_TRAIN})

    def test_repeated_samples_draw_afresh_and_epochs_differ(self):
        (twice,), _ = self.train("local", [self.root, "--repeat", "2"])
        self.assertEqual(twice["samples"], 2 * NUM_TRAIN)
        epochs, _ = self.train("local", [self.root, "--epochs", "3"])
        self.assertEqual([report["epoch"] for report in epochs], [0, 1, 2])
        self.assertEqual(epochs[0]["digest"], self.digest)
        self.assertEqual(len({report["digest"] for report in epochs} | {twice["digest"]}), 4)
        (third,), _ = self.train("local", [self.root, "--start-epoch", "2", "--epochs", "3"])
        self.assertEqual(third["digest"], epochs[2]["digest"])
        (seeded,), _ = self.train("local", [self.root, "--seed", "1"])
        self.assertNotEqual(seeded["digest"], self.digest)

    def test_val_is_sequential_and_the_same_everywhere(self):
        server = self.serve()
        digests = set()
        for mode in MODES:
            where = [self.root] if mode == "local" else ["--host", server.address]
            (report,), _ = self.train(mode, [*where, "--evaluate"])
            self.assertTrue(report["evaluate"])
            self.assertEqual(report["samples"], NUM_VAL)
            digests.add(report["digest"])
        self.assertEqual(len(digests), 1)

    def test_a_signal_stops_with_a_checkpoint_that_goes_on(self):
        """Bit for bit: the file after the last epoch is that of a run that was not stopped."""
        flags = [self.root, "--device", "cpu", "-a", "small_cnn", "--image-size", "32", "-b", "8",
                 "--train-threads", "1", "--epochs", "2", "--lr", "0.01", "--repeat", "3"]
        whole = pathlib.Path(self.folder.name, "whole.ckpt")
        stopped = pathlib.Path(self.folder.name, "stopped.ckpt")
        try:
            reports, _ = self.train("local", flags + ["--checkpoint", whole])
        except AssertionError as error:
            if "SLUICE_ONEDNN" not in str(error):
                raise
            self.skipTest("this build has no CPU trainer")
        self.assertEqual([report["val_samples"] for report in reports], [NUM_VAL] * 2)

        # Reads so slowly that it is not over before the signal.
        run = self.start("local", flags + ["--checkpoint", stopped, "-p", "1"],
                         env=slow_disk(20000) if BAD_DISK else None)
        is_told = False
        for line in run.lines():
            # A report first; its line says when to stop.
            if "[3/" in line:
                run.process.send_signal(signal.SIGUSR1)
            if "samples so far" in line and not is_told:
                run.process.terminate()
                is_told = True
        before, err = run.end(128 + signal.SIGTERM)
        self.assertLess(len(before), 2, "it was over before the signal")
        self.assertIn(f": --resume {stopped} goes on there", err)
        rest, _ = self.train("local", flags + ["--resume", stopped, "--checkpoint", stopped])
        self.assertEqual(len(before) + len(rest), 2)
        self.assertEqual(rest[0]["first_sample"] + rest[0]["samples"], 3 * NUM_TRAIN)
        if not before:
            self.assertGreaterEqual(rest[0]["first_sample"], 3 * 8)
            self.assertEqual(rest[1]["digest"], reports[1]["digest"])
            self.assertEqual(rest[1]["loss"], reports[1]["loss"])
        self.assertEqual(whole.read_bytes(), stopped.read_bytes())
        # Another run than the one that was stopped is refused.
        _, err = self.train("local", flags + ["--resume", stopped, "--repeat", "2"], code=1)
        self.assertIn("repeat", err)

    def test_workers_without_cores_are_told(self):
        server = self.serve()
        _, err = self.train("remote_auto", ["--host", server.address, "-j", "200"])
        self.assertRegex(err, r"-j 200: the workers share [0-9.]+ cores, because .* CPU")
        _, err = self.train("remote_auto", ["--host", server.address])
        self.assertNotIn("-j", err)

    def test_clear_ends(self):
        with Port() as port:
            _, err = self.train("remote_nooff", ["--host", f"127.0.0.1:{port}", "--retry-for",
                                                 "0.3"], code=1)
        self.assertIn("tried for", err.splitlines()[-1])
        _, err = self.train("local", [self.root / "nowhere"], code=1)
        self.assertIn("nowhere", err)
        # A profile of other data.
        server = self.serve(root=self.root / "train")
        other = pathlib.Path(self.folder.name, "other")
        other.mkdir()
        for name in ("prep_sizes.csv", "prep_times.csv"):
            lines = (self.profile / name).read_text().splitlines()
            (other / name).write_text("\n".join(lines[:-5]) + "\n")
        profile, type(self).profile = self.profile, other
        try:
            _, err = self.train("remote_sophon", ["--host", server.address], code=1)
        finally:
            type(self).profile = profile
        self.assertIn("made for other data", err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
