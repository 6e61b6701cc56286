#!/usr/bin/env python3
"""The programs in examples/ run, and go over from ImageFolder to Sluice by a few lines.  Each needs
its own library; resnet18_ddp.py is in test_ddp.py."""
import difflib
import glob
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import support

support.require("numpy")

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"


class ExampleTest(support.SetTest):
    def run_example(self, name, *arguments, needs, folder=None, **env):
        for module in needs:
            if importlib.util.find_spec(module) is None:
                self.skipTest(f"{module} is missing")
        start = [sys.executable]
        if "lightning" in needs:
            start += ["-c", f"import sys; sys.path.append({str(HERE)!r}); import support; "
                            "support.run_mended()"]
        done = subprocess.run(
            [*start, EXAMPLES / name, *arguments, "--batch-size", "8"], cwd=folder,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", **env},
            text=True, timeout=150, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        return done.stdout

    def assert_trained(self, output, epochs):
        losses = re.findall(r"^epoch (\d+): loss (\d+\.\d+)$", output, re.MULTILINE)
        self.assertEqual([int(epoch) for epoch, _ in losses], list(range(epochs)))
        return [float(loss) for _, loss in losses]

    def test_a_move_from_image_folder_is_a_few_lines(self):
        before, after = ((EXAMPLES / f"imagefolder_{name}.py").read_text().splitlines()
                         for name in ("before", "after"))
        lines = [line for line in difflib.unified_diff(before, after, lineterm="", n=0)
                 if line[0] in "+-" and not line.startswith(("+++", "---"))]
        self.assertLessEqual(sum(line[0] == "-" for line in lines), 5)
        self.assertLessEqual(sum(line[0] == "+" for line in lines), 5)
        guide = (EXAMPLES.parent / "docs/PYTHON.md").read_text()
        for line in lines:
            self.assertIn(f"    {line}\n", guide)

    def test_image_folder_before_and_after(self):
        with tempfile.TemporaryDirectory() as folder:
            for path in sorted(pathlib.Path(self.root).glob("train/*/*"))[::5]:
                copy = pathlib.Path(folder, path.relative_to(self.root))
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)
            for name in ("imagefolder_before.py", "imagefolder_after.py"):
                self.assert_trained(self.run_example(name, folder, "--epochs", "1",
                                                     needs=["torch", "torchvision"]), 1)

    def test_dinos_augmentation_handed_over_as_it_is(self):
        output = self.run_example("dino_views.py", self.address, "--epochs", "1", needs=["torch", "torchvision"])
        self.assert_trained(output, 1)
        text = output.splitlines()[0].replace("sequence(tv_blur=0.1-2:kernel=9)", "tv_blur=0.1-2:kernel=9")
        self.assertEqual(self.fingerprint(text), self.fingerprint("dinov2"))

    def fingerprint(self, recipe):
        import sluice.torch
        with sluice.torch.Loader(self.root, 8, recipe=recipe) as loader:
            self.assertEqual(loader.info["views"], [[224, 224]] * 2 + [[96, 96]] * 8)
            return loader.info["pipeline_fingerprint"][0]

    def test_a_detector_trains_on_boxes(self):
        from PIL import Image
        with tempfile.TemporaryDirectory() as folder:
            rows = []
            for i in range(8):
                color = ((200, 30, 30), (30, 30, 200))[i % 2]
                image = Image.new("RGB", (200, 160), (120, 130, 120))
                box = [20 + 5 * i, 30, 90 + 5 * i, 120]
                image.paste(color, box)
                pathlib.Path(folder, "train", "all").mkdir(parents=True, exist_ok=True)
                image.save(pathlib.Path(folder, f"train/all/{i:02}.jpg"))
                boxes, labels = ([box], [i % 2]) if i != 3 else ([], [])
                rows.append(json.dumps({"file_name": f"train/all/{i:02}.jpg", "objects": {"boxes": boxes, "labels": labels}}))
            pathlib.Path(folder, "metadata.jsonl").write_text("\n".join(rows))
            support.run("offload_dataset", "index", folder, "--target", "boxes=objects:boxes")
            with support.Server(folder) as server:
                output = self.run_example("detection.py", server.address, "--classes", "2", "--epochs", "2",
                                          needs=("torch", "torchvision", "PIL"))
        self.assert_trained(output, 2)

    def test_lightning_and_its_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            run = ("train_lightning.py", self.address, "--epochs")
            needs = ["torch", "lightning"]
            self.run_example(*run, "1", needs=needs, folder=folder)
            written, = glob.glob(folder + "/checkpoints/*.ckpt")
            self.run_example(*run, "2", "--checkpoint", written, needs=needs, folder=folder)
            self.assertEqual(sorted(re.findall(r"epoch=\d+", " ".join(
                glob.glob(folder + "/checkpoints/*.ckpt")))), ["epoch=0", "epoch=1"])

    def test_jax_learns_on_four_devices(self):
        output = self.run_example("train_jax.py", self.address, "--epochs", "4", needs=["jax"],
                                  JAX_PLATFORMS="cpu",
                                  XLA_FLAGS="--xla_force_host_platform_device_count=4")
        losses = self.assert_trained(output, 4)
        self.assertLess(losses[-1], losses[0])

    def test_timm_is_fine_tuned(self):
        output = self.run_example("finetune_timm.py", self.address, "--epochs", "1",
                                  "--model", "test_resnet", needs=["torch", "timm"])
        self.assert_trained(output, 1)


if __name__ == "__main__":
    support.main()
