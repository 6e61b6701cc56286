#!/usr/bin/env python3
"""Mix and RandomErasing of sluice.torch: the formulas of timm and torchvision, by our draws; what they depend on."""
import base64
import html.parser
import io
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import support

support.require("torch", "torchvision", "PIL")

import torch  # noqa: E402
import numpy  # noqa: E402
from PIL import Image, ImageOps  # noqa: E402
from torchvision import transforms as T  # noqa: E402

import sluice  # noqa: E402
import sluice.numpy  # noqa: E402
import sluice.torch  # noqa: E402
from sluice import _batch_ops, _sluice, _torch_batch, recipes  # noqa: E402
from sluice._dino import Shared  # noqa: E402
from sluice.torch import BatchKey, Mix, RandomErasing  # noqa: E402

NUM_CLASSES = 5


def key(index=0, num_rows=7, seed=3, first=100):
    return BatchKey(seed, 2, index, 1, list(range(first, first + num_rows)), [2] * num_rows)


def a_batch(num_rows=7):
    generator = torch.Generator().manual_seed(1)
    images = torch.randn((num_rows, 3, 20, 30), generator=generator)
    return images, torch.randint(NUM_CLASSES, (num_rows,), generator=generator)


class Random(unittest.TestCase):
    def test_philox_gives_the_known_answers(self):
        """Of Random123's kat_vectors."""
        for counter, of, want in (
                ([0] * 4, [0] * 2, [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
                ([0xffffffff] * 4, [0xffffffff] * 2, [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]),
                ([0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], [0xa4093822, 0x299f31d0],
                 [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1])):
            words = _batch_ops.philox(_batch_ops.round_keys(of), [torch.tensor([word]) for word in counter],
                                      _torch_batch.multiplied)
            self.assertEqual([int(word) for word in words], want)

    def test_quantiles_are_those_of_statistics(self):
        inverse = statistics.NormalDist().inv_cdf
        want = numpy.array([round(inverse((i + 0.5) / 65536) * 2**20) / 2**20 for i in range(65536)], numpy.float32)
        self.assertEqual(_batch_ops.quantiles(), want.tobytes())

    def test_normals_are_normal_and_of_their_sample(self):
        drawn = _torch_batch.normals(5, [0, 1], [7, 2**40], [40001, 80000], torch.device("cpu"))
        self.assertEqual(len(drawn), 120001)
        self.assertLess(abs(float(drawn.mean())), 0.01)
        self.assertLess(abs(float(drawn.std()) - 1), 0.01)
        self.assertLess(abs(float((drawn**4).mean()) - 3), 0.1)
        alone = _torch_batch.normals(5, [1], [2**40], [9], torch.device("cpu"))
        self.assertTrue(torch.equal(alone, drawn[40001:40010]))
        tensors = _torch_batch.normals_by_tensors(5, [0, 1], [7, 2**40], [40001, 80000], torch.device("cpu"))
        self.assertTrue(torch.equal(tensors, drawn))
        other = _torch_batch.normals(6, [1], [2**40], [9], torch.device("cpu"))
        self.assertFalse(torch.equal(alone, other))


class Mixes(unittest.TestCase):
    def check(self, mix, settings, reference):
        kinds = set()
        for index in range(40):
            images, labels = a_batch()
            of = key(index)
            kind, own, box = _sluice.draw_mix(of.seed, of.epoch, of.index, of.rank, *settings, 20, 30)
            kinds.add(kind)
            want, targets = reference(images.clone(), labels, kind, own, box)
            got, soft = mix(images.clone(), labels, of, NUM_CLASSES)
            self.assertTrue(torch.equal(got, want), (index, kind))
            torch.testing.assert_close(soft, targets, rtol=1e-6, atol=1e-7)
            torch.testing.assert_close(soft.sum(1), torch.ones(len(labels)))
        self.assertEqual(kinds, {0, 1, 2})

    def test_torchvisions_formulas(self):
        """references/classification/transforms.py."""
        def reference(images, labels, kind, own, box):
            targets = torch.nn.functional.one_hot(labels, NUM_CLASSES).float()
            top, left, height, width = box
            if kind == 1:
                images = images.roll(1, 0).mul_(1 - own).add_(images.mul(own))
            elif kind == 2:
                rolled = images.roll(1, 0)
                images[:, :, top:top + height, left:left + width] = \
                    rolled[:, :, top:top + height, left:left + width]
                self.assertAlmostEqual(own, 1 - height * width / 600)
            return images, targets.roll(1, 0).mul_(1 - own).add_(targets.mul(own))

        self.check(Mix(mixup=0.2, cutmix=1, p=0.8, pairing="torchvision"), (0.2, 1, 0.8, 0.5), reference)

    def test_timms_own(self):
        try:
            from timm.data import mixup
        except ImportError as error:
            self.skipTest(f"timm: {error}")

        def reference(images, labels, kind, own, box):
            its = mixup.Mixup(0.8, 1, label_smoothing=0.1, num_classes=NUM_CLASSES)
            top, left, height, width = box
            with unittest.mock.patch.object(its, "_params_per_batch", lambda: (own, kind == 2)), \
                    unittest.mock.patch.object(mixup, "cutmix_bbox_and_lam", lambda *a, **k: (
                        (top, top + height, left, left + width), own)):
                its._mix_batch(images)
            with unittest.mock.patch.object(torch, "full", lambda *a, device=None, **k: full(*a, **k)):
                return images, mixup.mixup_target(labels, NUM_CLASSES, own, 0.1)

        full = torch.full
        self.check(Mix(mixup=0.8, cutmix=1, p=0.9, label_smoothing=0.1), (0.8, 1, 0.9, 0.5), reference)

    def test_odd_things(self):
        images, labels = a_batch(1)
        got, soft = Mix(mixup=1)(images.clone(), labels, key(num_rows=1), NUM_CLASSES)
        torch.testing.assert_close(got, images)  # with itself
        self.assertEqual(int(soft.argmax()), int(labels))
        _, soft = Mix(label_smoothing=0.1)(images, labels, key(num_rows=1), NUM_CLASSES)
        self.assertAlmostEqual(float(soft.max()), 0.92, places=6)
        pixels = torch.zeros((2, 3, 8, 8), dtype=torch.uint8)
        Mix(cutmix=1)(pixels, torch.tensor([0, 1]), key(num_rows=2), 2)
        for wrong, words in ((lambda: Mix(mixup=1)(pixels, torch.tensor([0, 1]), key(num_rows=2), 2), "normalize=True"),
                             (lambda: Mix(mixup=-1), "alphas"), (lambda: Mix(p=2), "from 0 to 1"),
                             (lambda: Mix(pairing="random"), "pairing 'random'"),
                             (lambda: Mix(label_smoothing=1), "label_smoothing 1")):
            with self.assertRaisesRegex(ValueError, words):
                wrong()


class Erasing(unittest.TestCase):
    def test_the_box_of_each_sample(self):
        for fill in (0, 0.5, (1, 2, 3), "channel", "pixel"):
            images, labels = a_batch(40)
            got, same = RandomErasing(p=0.5, fill=fill)(images.clone(), labels, key(num_rows=40), NUM_CLASSES)
            self.assertIs(same, labels)
            num = 0
            for row, sample in enumerate(range(100, 140)):
                box = _sluice.draw_erasing(3, 2, sample, 0.5, 0.02, 1 / 3, 0.3, 1 / 0.3, 20, 30)
                if box is None:
                    self.assertTrue(torch.equal(got[row], images[row]))
                    continue
                num += 1
                top, left, height, width = box
                inside = got[row, :, top:top + height, left:left + width]
                value = inside if isinstance(fill, str) else torch.tensor(fill, dtype=torch.float32).view(-1, 1, 1)
                want = T.functional.erase(images[row], top, left, height, width, value)
                self.assertTrue(torch.equal(got[row], want))
                if fill == "channel":
                    self.assertTrue(all(len(channel.unique()) == 1 for channel in inside))
                if fill == "pixel" and height * width > 30:
                    self.assertLess(abs(float(inside.mean())), 1)
                    self.assertGreater(len(inside.unique()), height * width * 2)
            self.assertGreater(num, 10)

    def test_it_does_not_depend_on_the_batch(self):
        images, labels = a_batch(8)
        erasing = RandomErasing(p=1, fill="pixel")
        whole, _ = erasing(images.clone(), labels, key(num_rows=8), NUM_CLASSES)
        part, _ = erasing(images[5:].clone(), labels[5:], key(9, 3, first=105), NUM_CLASSES)
        self.assertTrue(torch.equal(whole[5:], part))

    def test_what_is_refused(self):
        for wrong in (dict(p=1.5), dict(scale=(0, 0.3)), dict(scale=(0.5, 0.3)), dict(ratio=(0, 1)),
                      dict(fill="noise"), dict(fill=(1, 2))):
            with self.assertRaises(ValueError):
                RandomErasing(**wrong)
        with self.assertRaisesRegex(ValueError, "normalize=True"):
            RandomErasing()(torch.zeros((1, 3, 8, 8), dtype=torch.uint8), torch.zeros(1), key(num_rows=1), 2)


class Recipes(support.SetTest):
    def test_torchvisions_erasing_at_the_end(self):
        usual = [T.RandomResizedCrop(64), T.ToTensor(), T.Normalize([0.5] * 3, [0.5] * 3)]
        recipe = recipes.of(T.Compose([*usual, T.RandomErasing(0.1)]))
        self.assertEqual(recipe, recipes.Recipe(recipes.text(T.Compose(usual)), erasing={
            "p": 0.1, "scale": (0.02, 0.33), "ratio": (0.3, 3.3), "fill": 0}))
        erasing = recipes.of(T.Compose([*usual, T.RandomErasing(0.1, value="random")])).erasing
        self.assertEqual(erasing["fill"], "pixel")
        self.assertIn("each batch: RandomErasing", recipes.explain(T.Compose([*usual, T.RandomErasing(0.1)])))
        with self.assertRaisesRegex(ValueError, "RandomErasing"):
            recipes.text(T.Compose([*usual, T.RandomErasing(0.1)]))
        with self.assertRaisesRegex(ValueError, "RandomErasing"):
            recipes.of(T.Compose([T.ToTensor(), T.RandomErasing(), T.CenterCrop(9)]))

    def test_timms(self):
        try:
            from timm.data import create_transform
        except ImportError as error:
            self.skipTest(f"timm: {error}")
        erasing = recipes.of(create_transform(64, is_training=True, re_prob=0.25, re_mode="pixel")).erasing
        self.assertEqual((erasing["p"], erasing["fill"], erasing["scale"]), (0.25, "pixel", (0.02, 1 / 3)))
        self.assertAlmostEqual(erasing["ratio"][1], 1 / 0.3)
        RandomErasing(**erasing)


    @classmethod
    def setUpClass(cls):
        """A set with boxes, without which some pipelines have no meaning."""
        super().setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="sluice-boxed-")
        cls.addClassCleanup(folder.cleanup)
        cls.boxed = folder.name
        support.run("offload_dataset", "synth", cls.boxed, "-n", 3, "--num-val", 1, "--classes", 1)
        paths = [path.relative_to(cls.boxed) for path in sorted(pathlib.Path(cls.boxed).rglob("*.*")) if path.is_file()]
        rows = [json.dumps({"file_name": str(path), "objects": [[1, 1, 9, 9, 0]]}) for path in paths]
        pathlib.Path(cls.boxed, "metadata.jsonl").write_text("\n".join(rows))
        support.run("offload_dataset", "index", cls.boxed, "--target", "objects:boxes")

    def test_timms_presets_are_its_transforms(self):
        try:
            from timm.data import create_transform
        except ImportError as error:
            self.skipTest(f"timm: {error}")
        for name, train, val in (
                ("timm-a1", dict(input_size=224, auto_augment="rand-m7-mstd0.5-inc1"), dict(crop_pct=0.95)),
                ("timm-a3", dict(input_size=160, auto_augment="rand-m6-mstd0.5-inc1"), dict(crop_pct=0.95)),
                ("timm-default", dict(input_size=224, color_jitter=0.4), {}),
                ("deit", dict(input_size=224, auto_augment="rand-m9-mstd0.5-inc1", interpolation="bicubic", re_prob=0.25,
                              re_mode="pixel"), {})):
            recipe = recipes.preset(name)
            self.check_same(recipe.train, recipes.of(create_transform(
                is_training=True, **{"interpolation": "random", **train})).train)
            self.check_same(recipe.val, recipes.of(create_transform(224, interpolation="bicubic", **val)).train)
        erasing = recipes.of(create_transform(224, is_training=True, re_prob=0.25, re_mode="pixel")).erasing
        self.assertEqual(erasing["p"], recipes.preset("deit").erasing["p"])

    def test_torchvisions_presets_are_its_transforms(self):
        """references/classification/presets.py."""
        tail = [T.ToTensor(), T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
        wide = T.TrivialAugmentWide(interpolation=T.InterpolationMode.BILINEAR)
        v2 = recipes.preset("torchvision-v2")
        made = recipes.of(T.Compose([T.RandomResizedCrop(176), T.RandomHorizontalFlip(0.5), wide, *tail, T.RandomErasing(0.1)]))
        self.check_same(v2.train, made.train)
        ours, theirs = RandomErasing(**v2.erasing), RandomErasing(**made.erasing)
        self.assertEqual(vars(ours), vars(theirs))
        self.check_same(v2.val, recipes.text(T.Compose([T.Resize(232), T.CenterCrop(224), *tail])))

    def test_presets_with_views_are_what_torchvision_says(self):
        bicubic = T.InterpolationMode.BICUBIC
        soft, hard = (T.RandomApply([T.ColorJitter(*jitter)], 0.8) for jitter in ((0.4, 0.4, 0.2, 0.1), (0.8, 0.8, 0.8, 0.2)))
        gray, flip, solarize = T.RandomGrayscale(0.2), T.RandomHorizontalFlip(), T.RandomSolarize(128, 0.2)

        def tail(std=0.229):
            return [T.ToTensor(), T.Normalize((0.485, 0.456, 0.406), (std, 0.224, 0.225))]

        def blur(p, kernel=23):
            return T.RandomApply([T.GaussianBlur(kernel, (0.1, 2))], p)

        def dino(large, small, flips, p):
            crops = [[T.RandomResizedCrop(size, scale, interpolation=bicubic), *flips, soft, gray]
                     for size, scale in ((large, (0.32, 1)), (small, (0.05, 0.32)))]
            return [[*crops[0], blur(p[0], 9)], [*crops[0], blur(p[1], 9), solarize], *[[*crops[1], blur(p[2], 9)]] * 8]

        def with_gram(views):
            """The large views are resized from crops of 512, which the Gram teacher gets, too."""
            crops = [Shared(T.RandomResizedCrop(512, (0.32, 1), interpolation=bicubic), first) for first in (1, 11)]
            large = [[crop, T.Resize(256, bicubic), *view[1:]] for crop, view in zip(crops, views)]
            return [*large, *[[crop] for crop in crops], *views[2:]]

        byol = [T.RandomResizedCrop(224, interpolation=bicubic), flip, soft, gray]
        swav = [[T.RandomResizedCrop(size, scale), flip, hard, gray, blur(0.5)]
                for size, scale in ((224, (0.14, 1)), (96, (0.05, 0.14)))]
        for name, views in {
                "byol": [[*byol, blur(1)], [*byol, blur(0.1), solarize]],
                "simclr": [[T.RandomResizedCrop(224), flip, hard, gray, blur(0.5)]] * 2,
                "swav": [swav[0]] * 2 + [swav[1]] * 6,
                "dinov2": dino(224, 96, [flip], (0, 0.9, 0.5)),
                "dinov2-paper": dino(224, 96, [flip], (1, 0.1, 0.5)),
                "dinov3": dino(256, 112, [], (0, 0.9, 0.5)),
                "dinov3-gram": with_gram(dino(256, 112, [], (0, 0.9, 0.5)))}.items():
            text = recipes.text([T.Compose([*view, *tail(0.228 if name == "swav" else 0.229)]) for view in views])
            # A group of one op has the draws of a group.
            self.check_same(recipes.preset(name).train, re.sub(r"sequence\((tv_blur=[^,()]*)\)", r"\1", text))

    def test_presets_with_boxes_are_what_torchvision_says(self):
        """references/detection/presets.py and RT-DETRv2's dataloader.yml; torchvision's v2 classes, by what they say of
        themselves."""
        def known(name, **fields):
            made = type(name, (), {"__module__": "torchvision.transforms.v2"})()
            vars(made).update(fields)
            return made

        distort = known("RandomPhotometricDistort", brightness=(0.875, 1.125), contrast=(0.5, 1.5), saturation=(0.5, 1.5),
                        hue=(-0.05, 0.05), p=0.5)
        iou = dict(min_scale=0.3, max_scale=1.0, min_aspect_ratio=0.5, max_aspect_ratio=2.0, trials=40,
                   options=[0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0])

        def text(fill, p, side):
            return recipes.text(T.Compose([
                distort, known("RandomZoomOut", side_range=(1.0, 4.0), p=0.5, fill=fill),
                known("RandomIoUCrop", p=p, **iou), known("SanitizeBoundingBoxes"), T.RandomHorizontalFlip(),
                T.Resize((side, side)), T.ToTensor()]))

        self.check_same(recipes.preset("ssd").train, text([123, 117, 104], 1, 300))
        train = recipes.preset("rt-detr").train
        early = "multi_scale=480-800/11:base=640:weight=3:epochs=epoch<71"
        self.assertIn(early, train)
        self.assertEqual(train.count("epoch<71"), 4)
        always = train.replace(early, "resize=640x640").replace(":epochs=epoch<71", "")
        always = re.sub(r"when\(epoch<71,([^()]*)\)", r"\1", always)
        self.check_same(always, text(0, 0.8, 640))
        with sluice.torch.Loader(self.boxed, 1, recipe="rt-detr") as loader:
            scales = sorted({480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800})
            self.assertEqual(loader.info["buckets"], [[side, side] for side in scales])

    def test_moco3_has_two_views_by_pillows_blur(self):
        train = recipes.preset("moco3").train
        self.assertEqual(train.count("random_resized_crop=224"), 2)
        self.assertIn("pil_blur=0.1-2,hflip]", train)
        self.assertIn("pil_blur=0.1-2:p=0.1,solarize=128:p=0.2,hflip]", train)

    def check_same(self, text, other):
        """The fingerprints that the library gives them."""
        def fingerprint(pipeline):
            with sluice.torch.Loader(self.boxed, 1, pipeline=pipeline) as loader:
                return loader.info["pipeline_fingerprint"][0]

        self.assertEqual(fingerprint(text), fingerprint(other), (text, other))

    def test_every_preset_parses_and_explains_itself(self):
        self.assertIn("timm-a2", recipes.presets())
        self.assertEqual({name: recipes.preset(name).repeat_within_batch for name in
                          ("deit", "timm-a2", "timm-a3", "torchvision-v2")},
                         {"deit": 3, "timm-a2": 3, "timm-a3": 1, "torchvision-v2": 4})
        for name in recipes.presets():
            recipe = recipes.preset(name)
            self.check_same(recipe.train, recipe.train)
            self.check_same(recipe.val, recipe.val)
            self.assertIn(recipe.train, recipes.explain(name))
            if recipe.mix:
                Mix(**recipe.mix)
            if recipe.erasing:
                RandomErasing(**recipe.erasing)
        with self.assertRaisesRegex(ValueError, "recipe 'timm-a9': none of byol, deeplab, deit"):
            recipes.preset("timm-a9")


class Reader(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.images, self.texts = [], []

    def handle_starttag(self, tag, attributes):
        if tag == "img":
            self.images.append(dict(attributes)["src"])

    def handle_data(self, data):
        self.texts.append(data)


class Preview(support.SetTest):
    def test_a_page_of_draws(self):
        odd = os.path.join(self.root, "<b>&.png")
        self.addCleanup(os.unlink, odd)
        image = Image.new("RGB", (70, 90), (1, 2, 3))
        image.save(odd)
        text = "decode,center_crop=50,invert,one_of(equalize,brightness=0.5-1.5),to_tensor"
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "page.html")
            page = sluice.preview([odd, odd], text, draws=3, out=out)
            with open(out, encoding="utf-8") as file:
                self.assertEqual(file.read(), page)
        reader = Reader()
        reader.feed(page)
        self.assertEqual(len(reader.images), 6)
        self.assertIn("<b>&.png", reader.texts)
        self.assertIn("center_crop: from 50 x 50 at 10, 20; keep 50 x 50 at 0, 0; at 0, 0; size 50, 50", reader.texts)
        shown = Image.open(io.BytesIO(base64.b64decode(reader.images[0].split(",")[1])))
        self.assertEqual((shown.size, shown.mode), ((50, 50), "RGB"))
        factors = {line for line in reader.texts if line.startswith("brightness: ")}
        self.assertTrue(factors or "equalize" in reader.texts)
        self.assertIn("Mix", sluice.preview(self.root, "timm-a2", num=1, draws=1))
        self.assertIn("srcdoc", page._repr_html_())

    def test_each_view_is_shown_with_its_draws(self):
        image = Image.new("RGB", (70, 90), (1, 2, 3))
        path = os.path.join(self.root, "views.png")
        self.addCleanup(os.unlink, path)
        image.save(path)
        page = sluice.preview(path, "decode,hflip,views(2x[center_crop=50,brightness=0.5-1.5],[resize=20x30]),to_tensor",
                              draws=3)
        reader = Reader()
        reader.feed(page)
        sizes = [Image.open(io.BytesIO(base64.b64decode(image.split(",")[1]))).size for image in reader.images]
        self.assertEqual(sizes, [(50, 50), (50, 50), (30, 20)] * 3)
        self.assertEqual(page.count('<div class="row">'), 3)
        self.assertTrue({"epoch 2, view 1", "epoch 0, view 2"} <= set(reader.texts))
        self.assertEqual(sum(line.startswith("brightness: ") for line in reader.texts), 6)
        self.assertEqual(sum(line.startswith("hflip: ") for line in reader.texts), 9)

    def test_offload_dataset_preview_is_that_page(self):
        with tempfile.TemporaryDirectory() as folder:
            python = os.path.join(folder, "python3")
            with open(python, "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
            os.chmod(python, 0o755)
            out = os.path.join(folder, "page.html")
            command = [support.BIN / "offload_dataset", "preview", self.root, "--recipe", "timm-a2", "--num", "2",
                       "--draws", "1", "-o", out]
            environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
            subprocess.run(command, env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)}, check=True)
            with open(out, encoding="utf-8") as file:
                self.assertEqual(file.read(), sluice.preview(self.root, "timm-a2", num=2, draws=1))
            with open(os.path.join(folder, "sluice.py"), "w", encoding="utf-8"):
                pass  # a module of that name that is another
            done = subprocess.run(command, env={**environment, "PYTHONPATH": folder}, capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("the page is made by the Python package sluice", done.stderr)

    def test_what_cannot_be_shown_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(ValueError, "no images in"):
                sluice.preview(folder, "mae")
            path = os.path.join(folder, "a.jpg")
            with open(path, "wb") as file:
                file.write(b"no image")
            with self.assertRaisesRegex(ValueError, "a.jpg"):
                sluice.preview(folder, "mae")
            with self.assertRaisesRegex(ValueError, "none of byol, deeplab"):
                sluice.preview(folder, "imagenet")
            done = subprocess.run([sys.executable, "-m", "sluice.contact_sheet", folder, "--recipe", "mae", "-o",
                                   os.path.join(folder, "x")], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn("sluice.contact_sheet: preview: ", done.stderr)


class Loaders(support.SetTest):
    def batches(self, batch_size=8, epoch=1, **options):
        options = {"pipeline": support.PIPELINE, "workers": 2, "seed": 3, "normalize": True, **options}
        with sluice.torch.Loader(self.root, batch_size, sample_ids=True, **options) as loader:
            loader.set_epoch(epoch)
            return [(images.clone(), labels.clone(), ids.clone()) for images, labels, ids in loader]

    def test_batches_are_mixed_by_their_key(self):
        mix = Mix(mixup=0.8, cutmix=1, label_smoothing=0.1)
        plain, mixed = self.batches(), self.batches(batch_ops=[mix])
        self.assertEqual(len(plain), len(mixed))
        with sluice.torch.Loader(self.root, 8, pipeline=support.PIPELINE) as loader:
            num_classes = loader.info["num_classes"]
        for index, ((images, labels, ids), (got, soft, _)) in enumerate(zip(plain, mixed)):
            want, targets = mix(images, labels, BatchKey(3, 1, index, 0, ids, ids), num_classes)
            self.assertTrue(torch.equal(got, want))
            self.assertTrue(torch.equal(soft, targets))
        self.assertFalse(torch.equal(self.batches(epoch=2, batch_ops=[mix])[0][1], mixed[0][1]))

    def test_a_sample_is_erased_alike_in_every_batch_and_mode(self):
        def rows(batches):
            return {int(of): image for images, _, ids in batches for image, of in zip(images, ids)}

        tail = T.Compose([T.RandomResizedCrop(64), T.RandomHorizontalFlip(), T.ToTensor(),
                          T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]), T.RandomErasing(0.5, value="random")])
        small, large = (rows(self.batches(size, pipeline=None, recipe=tail)) for size in (4, 16))
        plain = rows(self.batches())
        self.assertEqual(small.keys(), large.keys())
        self.assertTrue(all(torch.equal(small[of], large[of]) for of in small))
        num_erased = sum(not torch.equal(small[of], plain[of]) for of in small)
        self.assertGreater(num_erased, 10)
        self.assertLess(num_erased, 40)

    def test_draws_are_what_rows_are_made_of(self):
        """Pillow, given them, makes the same pixels."""
        pipeline = "decode,random_resized_crop=40:filter=random,hflip,when(epoch>=2,solarize=100-200:p=0.7)"
        with sluice.numpy.Loader(self.root, 8, seed=5, pipeline=pipeline, sample_ids=True) as loader:
            with self.assertRaisesRegex(_sluice.NotFoundError, "no sample 999"):
                loader.draws([999], sizes=[(3, 4)])
            seen = set()
            for epoch in range(3):
                for pixels, _, ids in loader:
                    images = [Image.open(os.path.join(self.root, loader.path(of))).convert("RGB") for of in ids]
                    drawn = loader.draws(ids, epoch, sizes=[image.size for image in images])
                    self.assertEqual(loader.draws(ids, epoch), drawn)  # by the sizes that the files say
                    for row, image, ops in zip(pixels, images, drawn):
                        self.assertTrue((row == self.made(image, ops)).all(), ops)
                        seen.update(op["op"] for op in ops)
                self.assertEqual("solarize" in seen, epoch == 2)

        with sluice.numpy.Loader(self.address, 8, seed=5, pipeline=pipeline) as loader:
            iter(loader)
            with self.assertRaisesRegex(_sluice.InvalidError, "list has no image sizes: index the dataset"):
                loader.draws([0])
            self.assertEqual(loader.draws(ids, epoch, sizes=[image.size for image in images]), drawn)

    def test_draws_of_turned_images(self):
        """Their sizes are those of the images as they are turned, also where a list has sizes."""
        pipeline = "decode,exif_transpose,random_resized_crop=40,hflip"
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "train", "a"))
            rng = numpy.random.default_rng(1)
            for orientation in range(1, 9):
                exif = Image.Exif()
                exif[0x0112] = orientation
                Image.fromarray(rng.integers(0, 256, (60, 200, 3), numpy.uint8)).save(
                    os.path.join(folder, "train", "a", f"{orientation}.png"), exif=exif)
            for is_indexed in (False, True):
                if is_indexed:
                    support.run("offload_dataset", "index", folder)
                with sluice.numpy.Loader(folder, 8, seed=5, pipeline=pipeline, sample_ids=True) as loader:
                    (pixels, _, ids), = loader
                    paths = [os.path.join(folder, loader.path(of)) for of in ids]
                    for row, path, ops in zip(pixels, paths, loader.draws(ids)):
                        with self.subTest(is_indexed=is_indexed, path=path):
                            image = ImageOps.exif_transpose(Image.open(path))
                            self.assertTrue((row == self.made(image, ops)).all(), ops)
            with support.Server(folder) as server, \
                    sluice.numpy.Loader(server.address, 8, pipeline=pipeline) as loader:
                iter(loader)
                with self.assertRaisesRegex(_sluice.InvalidError, "exif_transpose"):
                    loader.draws([0])

    @staticmethod
    def made(image, ops):
        for op in ops:
            if op["op"] == "random_resized_crop":
                box = op["from"]
                image = image.crop((box["left"], box["top"], box["left"] + box["width"], box["top"] + box["height"]))
                image = image.resize(op["to"], getattr(Image, op["filter"].upper()))
            elif op["op"] == "hflip":
                image = image.transpose(Image.FLIP_LEFT_RIGHT) if op["mirrored"] else image
            else:
                image = ImageOps.solarize(image, op["threshold"])
        return numpy.asarray(image)

    def test_a_preset_trains_and_validates_at_its_sizes(self):
        with sluice.torch.Loader(self.root, 8, recipe="torchvision-v2", normalize=True) as train, \
                sluice.torch.Loader(self.root, 8, recipe="torchvision-v2", normalize=True, part="val") as val:
            images, labels = next(iter(train))
            self.assertEqual(images.shape[2:], (176, 176))
            self.assertEqual(labels.shape, (8, train.info["num_classes"]))
            torch.testing.assert_close(labels.sum(1), torch.ones(8))
            images, labels = next(iter(val))
            self.assertEqual(images.shape[2:], (224, 224))
            self.assertEqual(labels.dtype, torch.int64)
            self.assertEqual(train.info["pipeline_fingerprint"], val.info["pipeline_fingerprint"])
        with sluice.torch.Loader(self.root, 8, recipe="torchvision-v2", normalize=True, sample_ids=True) as train:
            ids = [int(of) for _, _, batch in train for of in batch]
            self.assertEqual(len(ids), train.info["num_samples"][0])
            self.assertEqual([len(set(ids[at:at + 4])) for at in range(0, len(ids) - 3, 4)], [1] * (len(ids) // 4))
        with self.assertRaisesRegex(ValueError, "for sluice.torch.Loader"):
            sluice.numpy.Loader(self.root, 8, recipe="deit")
        with sluice.numpy.Loader(self.root, 8, recipe="mae") as plain:
            self.assertEqual(next(iter(plain))[0].shape, (8, 224, 224, 3))

    def test_validation_is_left_alone(self):
        (images, labels, _), *_ = self.batches(part="val", batch_ops=[Mix(mixup=1), RandomErasing(1)])
        (want, same, _), *_ = self.batches(part="val")
        self.assertTrue(torch.equal(images, want))
        self.assertTrue(torch.equal(labels, same))

    def test_pixels_are_not_mixed_up(self):
        with self.assertRaisesRegex(ValueError, "normalize=True"):
            self.batches(normalize=False, batch_ops=[Mix(mixup=1)])
        with self.assertRaisesRegex(ValueError, "one Mix"):
            self.batches(pipeline=None, recipe="timm-a2", batch_ops=[Mix(mixup=1)])


@unittest.skipUnless(torch.cuda.is_available(), "no GPU with CUDA")
class OnTheGpu(support.SetTest):
    def batches(self, part="train", **options):
        with sluice.torch.Loader(self.root, 8, recipe="torchvision-v2", seed=3, part=part, batch_ops=[
                RandomErasing(0.5, fill="pixel")], **options) as loader:
            return [(images.cpu(), labels.cpu()) for images, labels in loader]

    def test_the_same_batches_as_on_the_cpu(self):
        for part in ("train", "val"):
            want = self.batches(part, normalize=True)
            for decode in ("on", "off"):
                got = self.batches(part, device="cuda", gpu_decode=decode)
                self.assertEqual(len(got), len(want))
                for (images, labels), (wanted, targets) in zip(got, want):
                    self.assertTrue(torch.equal(images, wanted), (part, decode))
                    self.assertTrue(torch.equal(labels, targets), (part, decode))


if __name__ == "__main__":
    support.main()
