#!/usr/bin/env python3
"""Pipelines other than the default one: profiled over two nodes and on one, planned, and trained in
every mode with one digest; a profile of another pipeline or size is refused by its name."""
import json
import os
import pathlib
import random
import unittest

from programs import Server, SynthTest, Train, reports, run
from test_modes import MODES

NUM_TRAIN = 24

# The ops, the size that both subsets end at, the columns of the tables, and the names of choices
# that an epoch of all samples in every form must show.
PIPELINES = {
    "center crop": (
        "decode,resize=256,center_crop=224,to_tensor,normalize=imagenet", 224,
        ["raw", "decoding", "original_shape", "Resize", "CenterCrop", "ToTensor", "Normalize"],
        {"raw@0", "u8@1", "u8@2", "u8@3", "f32@5", "jpeg_crop@0"}),
    "fewer ops": (
        "decode,random_resized_crop=128,to_tensor", 128,
        ["raw", "decoding", "original_shape", "RandomResizedCrop", "ToTensor"],
        {"raw@0", "u8@1", "u8@2", "f32@3", "jpeg_crop@0"}),
    "more ops": (
        "decode,resize=72,center_crop=64,hflip=0.5,to_tensor,normalize=imagenet", 64,
        ["raw", "decoding", "original_shape", "Resize", "CenterCrop", "RandomHorizontalFlip",
         "ToTensor", "Normalize"],
        {"raw@0", "u8@1", "u8@2", "u8@4", "f32@6", "jpeg_crop@0"}),
    "a recipe": (
        "decode,random_resized_crop=64,hflip=0.5,shuffled(brightness=0.6-1.4,contrast=0.6-1.4,color=0.6-1.4,"
        "hue=-0.1-0.1):p=0.8,one_of(grayscale,solarize=128,pil_blur=0.1-2),to_tensor", 64,
        ["raw", "decoding", "original_shape", "RandomResizedCrop", "RandomHorizontalFlip", "shuffled", "one_of",
         "ToTensor"],
        {"raw@0", "u8@1", "u8@2", "u8@5", "f32@6", "jpeg_crop@0"}),
}


class PipelinesTest(SynthTest):
    SYNTH = ("-n", NUM_TRAIN, "--num-val", 2, "--classes", 2)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.enterClassContext(Server(cls.root, "--prep-workers", 1))

    def run_program(self, name, *flags, code=0):
        done = run(name, *flags, code=code)
        return reports(done.stdout) if code == 0 else [], done.stderr

    def train(self, mode, name, *flags, code=0):
        spec, size = PIPELINES[name][:2]
        where = [self.root] if mode == "local" else ["--host", self.server.address]
        return self.run_program(
            "offload_train", *where, "--dataset-mode", mode, "--device", "none", "--json", "-b",
            "8", "-j", "2", "-p", "0", "--pipeline", spec, "--val-pipeline",
            f"decode,resize={size},center_crop={size}", *flags, code=code)

    def plan(self, folder, *flags, code=0):
        return self.run_program("offload_profile", "plan", "--profile-folder", folder, "--json",
                                *flags, code=code)

    def learn(self, name, *flags):
        """Reports of a small model's training from the folder; its checkpoint is `name`."""
        checkpoint = pathlib.Path(self.folder.name, name)
        done = run("offload_train", self.root, "--device", "cpu", "-a", "small_cnn", "-b", 7, "--train-threads", 1,
                   "--lr", 0.01, "--json", "-p", 0, "--checkpoint", checkpoint, *flags, code=None)
        if done.returncode == 1 and "SLUICE_ONEDNN" in done.stderr:
            self.skipTest("this build has no CPU trainer")
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return reports(done.stdout), checkpoint

    def recipe(self, **batch_ops):
        path = pathlib.Path(self.folder.name, "recipe.json")
        path.write_text(json.dumps({
            "train": ["decode", "random_resized_crop=32", "hflip", "to_tensor", "normalize=imagenet"],
            "val": ["decode", "resize=36", "center_crop=32", "to_tensor", "normalize=imagenet"], **batch_ops}))
        return f"@{path}"

    def test_batches_of_training_are_mixed_and_erased(self):
        recipe = self.recipe()
        (plain,), _ = self.learn("a.ckpt", "--pipeline", recipe, "--lr", "0")
        (flags,), _ = self.learn("b.ckpt", "--pipeline", recipe, "--lr", "0", "--mixup", "0.8", "--cutmix", "1",
                                 "--label-smoothing", "0.1", "--erasing", "0.25")
        of_file = self.recipe(mix={"mixup": 0.8, "cutmix": 1, "label_smoothing": 0.1}, erasing={"p": 0.25})
        (file,), _ = self.learn("c.ckpt", "--pipeline", of_file, "--lr", "0")
        (off,), _ = self.learn("d.ckpt", "--pipeline", of_file, "--lr", "0", "--mixup", "0", "--cutmix", "0",
                               "--label-smoothing", "0", "--erasing", "0")
        self.assertNotEqual(flags["loss"], plain["loss"])
        self.assertEqual(file["loss"], flags["loss"])
        self.assertEqual(off["loss"], plain["loss"])
        self.assertEqual({report["digest"] for report in (plain, flags, file, off)}, {plain["digest"]})

        none, _ = self.run_program("offload_train", self.root, "--device", "none", "--json", "--pipeline", of_file)
        self.assertEqual(len(none), 1)
        _, err = self.run_program("offload_train", self.root, "--pipeline", self.recipe(mix={"alpha": 1}), code=2)
        self.assertIn('recipe.json: "mix": no "alpha" is known here', err)

    def test_a_model_learns_from_images_that_are_not_square(self):
        spec = "decode,random_resized_crop={},hflip,to_tensor,normalize=imagenet"
        wide = ["--pipeline", spec.format("32x48")]
        reports, checkpoint = self.learn("wide.ckpt", *wide, "--epochs", "2", "--mixup", "0.8", "--erasing", "0.25")
        self.assertEqual([report["epoch"] for report in reports], [0, 1])
        self.assertTrue(all(report["loss"] > 0 for report in reports))
        again, _ = self.learn("again.ckpt", *wide, "--epochs", "3", "--resume", checkpoint)
        self.assertEqual([report["epoch"] for report in again], [2])
        _, err = self.run_program("offload_train", self.root, "--device", "cpu", "-a", "small_cnn", "-b", 7, "--epochs",
                                  3, "--pipeline", spec.format("48x32"), "--resume", checkpoint, code=None)
        self.assertRegex(err, "wide.ckpt")
        (plain,), _ = self.run_program("offload_train", self.root, "--device", "none", "--json", "-b", 7, *wide)
        self.assertEqual(plain["digest"], reports[0]["digest"])

    def test_a_run_that_was_killed_goes_on_with_the_same_mixes(self):
        flags = ["--pipeline", self.recipe(mix={"mixup": 0.8, "cutmix": 1}, erasing={"fill": "pixel"}), "--epochs", "2",
                 "--repeat", "20"]
        reports, whole = self.learn("whole.ckpt", *flags)
        killed = pathlib.Path(self.folder.name, "killed.ckpt")
        train = Train(self.root, "--device", "cpu", "-a", "small_cnn", "-b", 7, "--train-threads", 1, "--lr", 0.01,
                      "--checkpoint", killed, "--checkpoint-every", 1, "-p", 1, *flags)
        for line in train.lines():
            if "[3/" in line:
                train.process.kill()
        train.end(code=None)
        rest, _ = self.learn("killed.ckpt", *flags, "--resume", killed)
        if rest:
            self.assertEqual(rest[-1]["loss"], reports[-1]["loss"])
        self.assertEqual(whole.read_bytes(), killed.read_bytes())

    def test_profile_plan_and_train(self):
        for name, (spec, size, columns, choices) in PIPELINES.items():
            with self.subTest(name):
                folder = pathlib.Path(self.folder.name, name)
                (local,), _ = self.train("local", name)
                (report,), _ = self.train("remote_nooff", name, "--profiling",
                                          "--write-profile-folder", folder)
                self.assertEqual(report["digest"], local["digest"])
                header = (folder / "prep_sizes.csv").read_text().splitlines()[0]
                self.assertEqual(header, "index;" + ";".join(columns) + ";")
                header = (folder / "prep_times.csv").read_text().splitlines()[0]
                self.assertEqual(header.split(",")[2:],
                                 [name for name in columns[1:] if name != "original_shape"])
                _, names, *lines = (folder / "prep_forms.csv").read_text().splitlines()
                place = names.split(";").index("choice")
                measured = {line.split(";")[place] for line in lines}
                self.assertLessEqual(choices, measured)
                model = json.loads((folder / "cost_model.json").read_text())
                self.assertEqual(model["output_size"], size)
                self.assertTrue(model["pipeline"].startswith("decode,"))

                for planner in ("lp", "greedy", "piloff", "alloff"):
                    (plan,), _ = self.plan(folder, "--planner", planner, "--pipeline", spec)
                    self.assertEqual(plan["costs"], "model")
                    self.assertEqual(sum(plan["choices"].values()), NUM_TRAIN)
                    self.assertLessEqual(set(plan["choices"]), set(model["weights"]["window"]))
                    self.assertEqual(self.plan(folder, "--planner", planner)[0], [plan])
                self.assertEqual(self.plan(folder, "--costs", "rows")[0][0]["costs"], "rows")
                ops = {row["op"] for row in self.run_program(
                    "offload_profile", "fit", "--profile-folder", folder, "--json")[0]
                    if "op" in row}
                self.assertIn("decode", ops)

                (report,), _ = self.train("remote_nooff", name, "--remote-form", "jpeg_crop")
                self.assertEqual(report["digest"], local["digest"])
                self.assertGreater(report["choices"].get("jpeg_crop@0", 0), NUM_TRAIN / 2)
                for mode in MODES:
                    profile = ("--profile-folder", folder, "--net-bw", "100", "--remote-cpus", "2")
                    planned = mode in ("remote_sophon", "remote_auto")
                    (report,), _ = self.train(mode, name, *(profile if planned else ()))
                    self.assertEqual(report["digest"], local["digest"], mode)
                    self.assertEqual(report["errors"], 0)

    def test_profile_on_one_machine(self):
        for name, (spec, size, _, choices) in PIPELINES.items():
            with self.subTest(name):
                folder = pathlib.Path(self.folder.name, "one " + name)
                self.run_program("offload_profile", "run", self.root, "--out", folder, "--pipeline",
                                 spec)
                model = json.loads((folder / "cost_model.json").read_text())
                self.assertEqual(model["output_size"], size)
                self.assertLessEqual(choices, set(model["weights"]["window"]))
                for planner in ("lp", "greedy"):
                    (plan,), _ = self.plan(folder, "--planner", planner)
                    self.assertGreaterEqual(plan["primal_s"], plan["dual_s"])

    def test_another_pipeline_or_size_is_refused_by_name(self):
        folder = pathlib.Path(self.folder.name, "refused")
        default = "decode,random_resized_crop=64,hflip=0.5,to_tensor,normalize=imagenet"
        self.run_program("offload_profile", "run", self.root, "--out", folder, "--pipeline",
                         default)
        fingerprint = json.loads((folder / "cost_model.json").read_text())["fingerprint"]
        for has_model in (True, False):
            if not has_model:  # as the original's: told by its columns and sizes
                (folder / "cost_model.json").unlink()
            for mode in ("remote_sophon", "remote_auto"):
                _, err = self.train(mode, "fewer ops", "--profile-folder", folder, code=1)
                for part in (str(folder), "random_resized_crop=64:", "random_resized_crop=128:",
                             fingerprint):
                    self.assertIn(part, err)
            _, err = self.plan(folder, "--times-model", "--pipeline", default.replace("64", "96"),
                               code=1)
            for part in (str(folder), "random_resized_crop=64:", "random_resized_crop=96:",
                         fingerprint):
                self.assertIn(part, err)

    def test_packed_pixels_are_a_choice_wherever_pixels_end(self):
        """Over a slow link remote_auto asks for them, whatever op makes the last pixels, and in the
        val subset as in training."""
        # Of a crop that is not resized the part of the JPEG has fewer bytes than any pixels.
        for spec, split, form in (
                ("decode,random_resized_crop=64,to_tensor,normalize=imagenet", 2, "auto"),
                ("decode,center_crop=64,to_tensor", 2, "u8_packed"),
                ("decode,resize=72,center_crop=64", 3, "auto"),
                ("decode,hflip=0.5,random_resized_crop=64,to_tensor", 3, "auto")):
            with self.subTest(spec):
                flags = ("--device", "none", "--json", "-b", "8", "-p", "0", "--pipeline", spec,
                         "--val-pipeline", spec)
                for subset in ((), ("--evaluate",)):
                    (local,), _ = self.run_program("offload_train", self.root, *flags, *subset)
                    remote = ("offload_train", "--host", self.server.address, *flags, *subset)
                    (plain,), _ = self.run_program(*remote, "--dataset-mode", "remote_piloff")
                    (auto,), _ = self.run_program(*remote, "--net-bw", "20", "--remote-cpus", "8",
                                                  "--remote-form", form, "--no-replan")
                    self.assertGreater(auto["choices"].get(f"u8_packed@{split}", 0), 0)
                    self.assertLess(auto["wire_bytes"], plain["wire_bytes"])
                    self.assertEqual(auto["digest"], local["digest"])
                    self.assertEqual(plain["digest"], local["digest"])

    def test_val_follows_the_size_of_training(self):
        flags = ("--device", "none", "--json", "-p", "0", "-b", "8", self.root)
        val = "decode,resize=110,center_crop=96,to_tensor,normalize=imagenet"
        spec = "decode,random_resized_crop=96,hflip=0.5,to_tensor,normalize=imagenet"
        evaluations = [self.run_program("offload_train", *flags, "--evaluate", *more)[0][0]
                       for more in (("--pipeline", spec), ("--image-size", "96"),
                                    ("--pipeline", spec, "--image-size", "96"),
                                    ("--pipeline", spec, "--val-pipeline", val))]
        self.assertEqual({report["samples"] for report in evaluations}, {2})
        self.assertEqual(len({report["digest"] for report in evaluations}), 1)

    def test_val_resizes_as_training_says(self):
        """An image on which Pillow 12 and 13 differ, as it is made much lower."""
        width, height = 300, 900
        root = os.path.join(self.folder.name, "tall")
        for subset in ("train", "val"):
            os.makedirs(os.path.join(root, subset, "a"))
            with open(os.path.join(root, subset, "a", "0.ppm"), "wb") as out:
                out.write(b"P6 %d %d 255\n" % (width, height) + random.Random(1).randbytes(3 * width * height))

        def evaluate(decode, *more):
            (report,), _ = self.run_program("offload_train", "--device", "none", "--json", "-p", "0", "-b", "8", root, "--evaluate",
                                            "--pipeline", f"{decode},random_resized_crop=96,to_tensor", *more)
            self.assertEqual((report["samples"], report["errors"]), (1, 0))
            return report["digest"]

        val = "resize=110,center_crop=96,to_tensor"
        digests = {decode: evaluate("decode", "--val-pipeline", f"{decode},{val}")
                   for decode in ("decode", "decode=pillow13")}
        self.assertEqual(len(set(digests.values())), 2)
        for decode, digest in digests.items():
            self.assertEqual(evaluate(decode), digest)

    def test_a_recipe_file_has_both_pipelines(self):
        train = ["decode", "random_resized_crop=96", "one_of(invert,equalize)", "to_tensor"]
        val = "decode,resize=150,center_crop=128,to_tensor"
        path = os.path.join(self.folder.name, "recipe.json")
        with open(path, "w") as out:
            json.dump({"train": train, "val": val, "mix": {"mixup": 0.2}}, out)
        flags = ("--device", "none", "--json", "-p", "0", "-b", "8", self.root)
        for subset in ((), ("--evaluate",)):
            (of_file,), _ = self.run_program("offload_train", *flags, *subset, "--pipeline", "@" + path)
            (of_text,), _ = self.run_program("offload_train", *flags, *subset, "--pipeline", ",".join(train),
                                             "--val-pipeline", val)
            self.assertEqual(of_file["digest"], of_text["digest"])
        with open(path, "w") as out:
            json.dump({"train": [*train[:-2], "mosaic"]}, out)
        _, err = self.run_program("offload_train", *flags, "--pipeline", "@" + path, code=2)
        self.assertIn("mosaic", err)
        self.assertIn(path, err)

    def test_val_of_another_size(self):
        spec = "decode,random_resized_crop=96,hflip=0.5,to_tensor,normalize=imagenet"
        val = "decode,resize=150,center_crop=128,to_tensor,normalize=imagenet"
        flags = ("--json", "-p", "0", "-b", "8", "--pipeline", spec, "--val-pipeline", val)
        wants = [self.run_program("offload_train", self.root, "--device", "none", *flags, *subset)[0][0]
                 for subset in ((), ("--evaluate",))]
        self.assertNotEqual(wants[0]["digest"], wants[1]["digest"])
        for mode in ("remote_nooff", "remote_piloff", "remote_alloff"):
            for subset, want in zip(((), ("--evaluate",)), wants):
                (got,), _ = self.run_program("offload_train", "--host", self.server.address, "--device", "none",
                                             "--dataset-mode", mode, *flags, *subset)
                self.assertEqual(got["digest"], want["digest"])
        own, _ = self.run_program("offload_train", self.root, "--device", "none", "--evaluate", "--json", "-p", "0",
                                  "-b", "8", "--pipeline", spec.replace("96", "128"), "--val-pipeline", val)
        self.assertEqual(own[0]["digest"], wants[1]["digest"])
        _, err = self.run_program("offload_train", self.root, "--device", "cpu", "-a", "small_cnn", *flags, code=1)
        self.assertIn("--val-pipeline ends at 128 x 128 and --pipeline at 96 x 96", err)
        _, err = self.run_program("offload_train", *flags, "--pipeline", spec, "--image-size", "64",
                                  code=2)
        self.assertIn("--image-size 64", err)
        self.assertIn("96 x 96", err)
        _, err = self.run_program("offload_train", *flags, "--pipeline", "decode,resize=96", code=1)
        self.assertIn("decode,resize=96", err)

    def test_a_profile_of_other_data_is_refused(self):
        folder = pathlib.Path(self.folder.name, "other data")
        other = pathlib.Path(self.folder.name, "other")
        size = "decode,random_resized_crop=128,to_tensor"
        self.run_program("offload_dataset", "synth", other, "-n", NUM_TRAIN, "--num-val", "2",
                         "--classes", "2", "--seed", "7")
        self.run_program("offload_profile", "run", other, "--out", folder, "--pipeline", size)
        model = folder / "cost_model.json"
        theirs = json.loads(model.read_text())["dataset"]
        for mode in ("remote_sophon", "remote_auto"):
            _, err = self.train(mode, "fewer ops", "--profile-folder", folder, code=1)
            self.assertRegex(err, f"{folder} is of the dataset {theirs}, and this is [0-9a-f]{{32}}")
        # What does not say its dataset is told by the lengths of the files.
        model.write_text(model.read_text().replace(f'"dataset": "{theirs}"', '"x": 0'))
        for mode in ("remote_sophon", "remote_auto"):
            _, err = self.train(mode, "fewer ops", "--profile-folder", folder, code=1)
            self.assertIn("made for other data", err)

    def test_tables_without_a_name_are_taken_with_one_line(self):
        folder = pathlib.Path(self.folder.name, "nameless")
        default = "decode,random_resized_crop=64,hflip=0.5,to_tensor,normalize=imagenet"
        self.run_program("offload_profile", "run", self.root, "--out", folder, "--pipeline",
                         default)
        (folder / "cost_model.json").unlink()
        flags = ("--dataset-mode", "remote_auto", "--device", "none", "-p", "0", "--image-size",
                 "64", "--host", self.server.address, "--profile-folder", folder)
        _, err = self.run_program("offload_train", *flags)
        self.assertEqual(err.count("more cannot be checked"), 1, err)
        sizes = folder / "prep_sizes.csv"
        floats = str(64 * 64 * 12)
        sizes.write_text(sizes.read_text().replace(floats, str(96 * 96 * 12)))
        _, err = self.run_program("offload_train", *flags, code=1)
        self.assertIn(f"makes {floats}", err)
        _, err = self.plan(folder, code=1)
        self.assertIn(f"makes {floats}", err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
