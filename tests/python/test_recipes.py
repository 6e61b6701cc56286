#!/usr/bin/env python3
"""sluice.recipes: pipelines from torchvision's transforms, which give the same tensors where nothing is drawn."""
import pathlib
import tempfile
import unittest
from unittest import mock

import support

support.require("torch", "torchvision", "PIL")

import torch  # noqa: E402
from PIL import Image  # noqa: E402
from torchvision import transforms as T  # noqa: E402
from torchvision.transforms import InterpolationMode as Mode  # noqa: E402

import sluice  # noqa: E402
import sluice.torch  # noqa: E402
from sluice import recipes  # noqa: E402

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
TAIL = [T.ToTensor(), T.Normalize(MEAN, STD)]
TAIL_TEXT = ",to_tensor,normalize=0.485:0.456:0.406/0.229:0.224:0.225"


def own_policies(part):
    """One that is not known by its name, so that its text spells out its ops."""
    part._get_policies = lambda policy: None
    return part


def timms_ops(part):
    """The text of timm's AutoAugment without mstd, from its own functions."""
    def text(op, warp):
        name, level = op.name, op.level_fn(op.magnitude, op.hparams)[0] if op.level_fn else None
        number = "" if level is None else f"{abs(level):.9f}"
        form = {"AutoContrast": "autocontrast", "Equalize": "equalize", "Invert": "invert", "Rotate": f"rotate=~{number}{warp}",
                "Solarize": f"solarize={number}", "SolarizeAdd": f"solarize_add={number}", "ShearX": f"shear_x=~{number}{warp}",
                "ShearY": f"shear_y=~{number}{warp}", "TranslateYRel": f"translate_y=~{number}{warp}"}.get(name)
        if form is None and name.startswith("Posterize"):
            form = f"posterize={number}" + (":rounding=up" if name == "PosterizeIncreasing" else "")
        return (form or f"{name.lower()}={number}") + ("" if op.prob == 1 else f":p={op.prob}")

    warp = ":filter=bicubic:fill=124/116/104"
    return "one_of(" + ",".join(f"sequence({','.join(text(op, warp) for op in pair)})" for pair in part.policy) + ")"


class Text(unittest.TestCase):
    def check(self, transform, text):
        self.assertEqual(recipes.text(transform), text)

    def test_the_usual_training(self):
        self.check(T.Compose([T.RandomResizedCrop(176), T.RandomHorizontalFlip(), T.TrivialAugmentWide(), *TAIL]),
                   "decode,random_resized_crop=176:scale=0.08-1:ratio=3/4-4/3,hflip=0.5,"
                   "trivial_augment_wide=nearest:fill=0" + TAIL_TEXT)
        self.check(T.Compose([T.RandomResizedCrop(224, scale=(0.2, 1)), T.RandAugment(2, 9, fill=[124, 116, 104],
                                                                                   interpolation=Mode.BILINEAR)]),
                   "decode,random_resized_crop=224:scale=0.2-1:ratio=3/4-4/3,"
                   "randaugment=2:magnitude=9:bins=31:filter=bilinear:fill=124/116/104")

    def test_simclr_like_choices(self):
        jitter = T.ColorJitter(0.4, 0.4, 0.2, 0.1)
        self.check(T.Compose([T.RandomResizedCrop(224), T.RandomApply([jitter], p=0.8), T.RandomGrayscale(0.2),
                              T.RandomSolarize(128, p=0.2), T.RandomHorizontalFlip(0.5)]),
                   "decode,random_resized_crop=224:scale=0.08-1:ratio=3/4-4/3,"
                   "sequence(shuffled(brightness=0.6-1.4,contrast=0.6-1.4,color=0.8-1.2,hue=-0.1-0.1)):p=0.8,"
                   "grayscale:p=0.2,solarize=128:p=0.2,hflip=0.5")
        self.check(T.RandomChoice([T.Grayscale(3), T.RandomSolarize(128, p=1)], p=[1, 3]),
                   "decode,one_of(grayscale,solarize=128:weight=3)")
        self.check(T.RandomOrder([T.RandomEqualize(0.5), T.RandomAutocontrast(1)]),
                   "decode,shuffled(equalize:p=0.5,autocontrast)")

    def test_crops_blurs_and_distortions(self):
        self.check(T.Compose([T.RandomCrop(32, padding=4), T.GaussianBlur(9, (0.1, 2)), *TAIL]),
                   "decode,random_crop=32:padding=4,tv_blur=0.1-2:kernel=9" + TAIL_TEXT)
        self.check(T.Compose([T.RandomCrop(32, padding=None)]), "decode,random_crop=32:padding=0")

    def test_auto_augment(self):
        self.check(T.AutoAugment(T.AutoAugmentPolicy.SVHN, interpolation=Mode.BILINEAR),
                   "decode,auto_augment=svhn:filter=bilinear:fill=0")
        text = recipes.text(own_policies(T.AutoAugment(T.AutoAugmentPolicy.IMAGENET, fill=[7, 8, 9])))
        self.assertEqual(text.count("sequence("), 25)
        self.assertTrue(text.startswith(
            "decode,one_of(sequence(posterize=4:p=0.4,rotate=~30:filter=nearest:fill=7/8/9:p=0.6),"
            "sequence(solarize=113.333333333:p=0.6,autocontrast:p=0.6),"), text[:200])
        self.assertIn("sequence(invert:p=0.6,equalize)", text)
        self.assertIn("shear_y=~", recipes.text(own_policies(T.AutoAugment(T.AutoAugmentPolicy.SVHN))))

    def test_timm(self):
        try:
            from timm.data import create_transform
        except ImportError as error:
            self.skipTest(f"timm: {error}")
        train = create_transform(224, is_training=True, auto_augment="rand-m9-mstd0.5-inc1", interpolation="random")
        self.check(train, "decode,random_resized_crop=224:scale=0.08-1:ratio=3/4-4/3:filter=random,hflip=0.5,"
                   "rand_augment_timm=9:mstd=0.5:num_ops=2:prob=0.5:increasing=1:filter=random:fill=124/116/104" +
                   TAIL_TEXT)
        plain = create_transform(160, is_training=True, auto_augment="rand-m7-n3-p0.25", interpolation="bicubic", hflip=0)
        self.check(plain, "decode,random_resized_crop=160:scale=0.08-1:ratio=3/4-4/3:filter=bicubic,"
                   "rand_augment_timm=7:mstd=0:num_ops=3:prob=0.25:increasing=0:filter=bicubic:fill=124/116/104" +
                   TAIL_TEXT)
        for name, mstd in (("original", ""), ("originalr", ""), ("v0", ":mstd=0.5"), ("v0r", "")):
            auto = create_transform(64, is_training=True, interpolation="bicubic",
                                    auto_augment=name + mstd.replace(":mstd=", "-mstd")).transforms[2]
            self.check(auto, f"decode,auto_augment={name}{mstd}:filter=bicubic:fill=124/116/104")
        self.check(create_transform(224, is_training=False, crop_pct=0.875),
                   "decode,resize=256,center_crop=224" + TAIL_TEXT)
        with self.assertRaisesRegex(ValueError, "AutoAugment: unknown policy: the known ones are original"):
            recipes.text(create_transform(224, is_training=True, auto_augment="3a"))
        with self.assertRaises(ValueError) as caught:
            recipes.text(create_transform(224, is_training=True, re_prob=0.25))
        self.assertIn("RandomErasing", str(caught.exception))

    def test_padding(self):
        self.check(T.RandomCrop(9, 4, padding_mode="reflect"), "decode,random_crop=9:padding=4:mode=reflect")
        self.check(T.RandomCrop(9, 4, fill=(7, 8, 9)), "decode,random_crop=9:padding=4:fill=7/8/9")
        self.check(T.Pad(4), "decode,pad=4")
        self.check(T.Pad((1, 2), fill=7), "decode,pad=1/2:fill=7")
        self.check(T.Pad([1, 2, 3, 4], padding_mode="symmetric"), "decode,pad=1/2/3/4:mode=symmetric")

    def test_augmix(self):
        self.check(T.AugMix(), "decode,augmix=3:width=3:alpha=1:all_ops=1:filter=bilinear:fill=0")
        self.check(T.AugMix(5, 4, 2, 0.5, all_ops=False, interpolation=Mode.NEAREST, fill=[1, 2, 3]),
                   "decode,augmix=5:width=4:depth=2:alpha=0.5:all_ops=0:filter=nearest:fill=1/2/3")

    def test_perspective(self):
        self.check(T.RandomPerspective(0.4, 0.3, fill=7), "decode,perspective=0.4:filter=bilinear:fill=7:p=0.3")

    def test_filters_of_resizes(self):
        for mode, name in ((Mode.NEAREST, "nearest"), (Mode.LANCZOS, "lanczos"), (Mode.BOX, "box"), (Mode.HAMMING, "hamming")):
            self.check(T.Resize(9, interpolation=mode), f"decode,resize=9:filter={name}")

    def test_sizes(self):
        self.check(T.Resize((20, 30)), "decode,resize=20x30")
        self.check(T.Resize((20, 20), interpolation=Mode.BOX), "decode,resize=20x20:filter=box")
        self.check(T.Resize(20, max_size=30), "decode,resize=20:max=30")
        self.check(T.CenterCrop((8, 9)), "decode,center_crop=8x9")
        self.check(T.RandomCrop((8, 9), 2), "decode,random_crop=8x9:padding=2")
        self.check(T.RandomResizedCrop((8, 9)), "decode,random_resized_crop=8x9:scale=0.08-1:ratio=3/4-4/3")

        class Resize:  # v2's, whose size may be None
            __module__ = "torchvision.transforms.v2"
            size, max_size, interpolation = None, 30, Mode.BICUBIC
        self.check(Resize(), "decode,resize=30:filter=bicubic:side=longer")

    def test_a_list_is_the_views_of_a_sample(self):
        small, large = T.Resize((8, 9)), T.Compose([T.CenterCrop(20), T.RandomHorizontalFlip()])
        self.check([T.Compose([large, *TAIL]), T.Compose([small, *TAIL]), T.Compose([small, *TAIL])],
                   "decode,views([center_crop=20,hflip=0.5],2x[resize=8x9])" + TAIL_TEXT)
        self.check((small, large), "decode,views([resize=8x9],[center_crop=20,hflip=0.5])")
        self.assertTrue(recipes.is_recipe([T.Compose([small, *TAIL])] * 2))
        self.assertEqual(recipes.of([small, small]).train, "decode,views(2x[resize=8x9])")
        lines = recipes.explain([small, large]).splitlines()
        self.assertTrue(lines[0].startswith("view 0: Resize(") and lines[0].endswith("  resize=8x9"))
        self.assertTrue(lines[1].startswith("view 1: Compose("))
        for transform, words in (
                ([], "a list without a transform"),
                ([T.Compose([small, *TAIL]), T.Compose([small, T.ToTensor()])], "view 1 ends in to_tensor, and view 0 in to_t"),
                ([small, T.Compose([small, *TAIL])], "view 1 ends in to_tensor,normalize=.* and view 0 in u8"),
                ([small, T.Compose([*TAIL, T.RandomErasing()])], "RandomErasing: no op does this")):
            with self.subTest(words), self.assertRaisesRegex(ValueError, words):
                recipes.of(transform)

    def test_a_class_that_only_gives_arguments_is_known(self):
        class Blur(T.RandomApply):
            def __init__(self, p):
                super().__init__([T.GaussianBlur(9, (0.1, 2))], p=1 - p)

        class Crop(T.CenterCrop):
            def forward(self, image):
                return super().forward(image).rotate(90)

        self.check(Blur(0.1), "decode,sequence(tv_blur=0.1-2:kernel=9):p=0.9")
        self.check(T.Compose([Blur(1), T.Grayscale(3)]), "decode,grayscale")
        with self.assertRaisesRegex(ValueError, "Crop: no op does this"):
            recipes.text(Crop(8))

    def test_data_augmentation_dino(self):
        class Dino:
            local_crops_number = 3
            geometric_augmentation_global = T.Compose([T.RandomResizedCrop(20, (0.32, 1), interpolation=Mode.BICUBIC)])
            geometric_augmentation_local = T.Compose([T.RandomResizedCrop(10, (0.05, 0.32)), T.RandomHorizontalFlip()])
            global_transfo1 = T.Compose([torch.nn.Identity(), *TAIL])
            global_transfo2 = T.Compose([T.RandomSolarize(128, 0.2), *TAIL])
            local_transfo = T.Compose(TAIL)
            gram_teacher_crops_size = None

        crop = "random_resized_crop=20:scale=0.32-1:ratio=3/4-4/3:filter=bicubic"
        self.check(Dino(), f"decode,views([{crop}],[{crop},solarize=128:p=0.2],"
                   "3x[random_resized_crop=10:scale=0.05-0.32:ratio=3/4-4/3,hflip=0.5])" + TAIL_TEXT)
        self.assertTrue(recipes.is_recipe(Dino()))
        dino = Dino()
        dino.share_color_jitter = True
        with self.assertRaisesRegex(ValueError, "Dino: share_color_jitter: write it as views"):
            recipes.of(dino)

    def dino_with_gram(self, size, gram):
        """As DINOv3's code makes it."""
        class Dino:
            local_crops_number = 1
            global_crops_size, gram_teacher_crops_size, gram_teacher_no_distortions = size, gram, True
            geometric_augmentation_global = T.Compose([T.RandomResizedCrop(max(size, gram), interpolation=Mode.BICUBIC),
                                                       T.RandomHorizontalFlip()])
            geometric_augmentation_local = T.Compose([T.RandomResizedCrop(10)])
            resize_gram_teacher = T.Resize(gram, interpolation=Mode.BICUBIC)
            normalize = T.Compose(TAIL)
            global_transfo1 = T.Compose([T.Resize(size, interpolation=Mode.BICUBIC), normalize])
            global_transfo2 = T.Compose([T.Resize(size, interpolation=Mode.BICUBIC), T.RandomSolarize(128, 0.2), normalize])
            local_transfo = normalize

        return Dino()

    def test_the_gram_teachers_crops_of_dinov3(self):
        one, two = (f"random_resized_crop=40:scale=0.08-1:ratio=3/4-4/3:filter=bicubic:draws={i},hflip=0.5:draws={i + 1}"
                    for i in (1, 11))
        to_20, local = "resize=20:filter=bicubic", "[random_resized_crop=10:scale=0.08-1:ratio=3/4-4/3]"
        self.check(self.dino_with_gram(20, 40), f"decode,views([{one},{to_20}],[{two},{to_20},solarize=128:p=0.2],[{one}],[{two}],"
                   f"{local})" + TAIL_TEXT)
        # Of a size that is not the larger one.
        self.check(self.dino_with_gram(40, 20), f"decode,views([{one},resize=40:filter=bicubic],[{two},resize=40:filter=bicubic,"
                   f"solarize=128:p=0.2],[{one},{to_20}],[{two},{to_20}],{local})" + TAIL_TEXT)
        self.assertTrue(recipes.is_recipe(self.dino_with_gram(20, 40)))
        dino = self.dino_with_gram(20, 40)
        self.assertIn("view 2: Compose", recipes.explain(dino))
        dino.gram_teacher_no_distortions = False
        with self.assertRaisesRegex(ValueError, "Dino: gram_teacher_no_distortions=False: it resizes"):
            recipes.of(dino)

    def test_transforms_of_boxes(self):
        class Part:
            def __init__(self, **fields):
                self.__dict__.update(fields)

        zoom, clamp, sanitize, resize, crop = (type(name, (Part,), {"__module__": "torchvision.transforms.v2"}) for name in (
            "RandomZoomOut", "ClampBoundingBoxes", "SanitizeBoundingBoxes", "RandomResize", "RandomIoUCrop"))
        self.check(T.Compose([zoom(side_range=(1.0, 4.0), p=0.5, fill=[123, 117, 104]), T.Resize((20, 30)), clamp(), sanitize()]),
                   "decode,zoom_out=1-4:p=0.5:fill=123/117/104,resize=20x30")
        self.check(T.Compose([resize(min_size=260, max_size=1041, interpolation=Mode.BICUBIC), T.RandomCrop(480)]),
                   "decode,random_resize=260-1040:filter=bicubic,random_crop=480:padding=0")
        usual = {"min_scale": 0.3, "max_scale": 1.0, "min_aspect_ratio": 0.5, "max_aspect_ratio": 2.0, "trials": 40,
                 "options": [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]}
        self.check(T.Compose([crop(**usual), T.Resize((20, 30))]), "decode,iou_crop=0.3-1:ratio=1/2-2:p=1,resize=20x30")
        self.check(T.Compose([crop(**{**usual, "trials": 9}, p=0.8), T.Resize((20, 30))]),
                   "decode,iou_crop=0.3-1:ratio=1/2-2:p=0.8:trials=9,resize=20x30")
        with self.assertRaisesRegex(ValueError, "RandomIoUCrop: sampler_options"):
            recipes.text(T.Compose([crop(**{**usual, "options": [0.5]})]))

    def test_a_text_stays_as_it_is(self):
        self.check("decode,resize=8", "decode,resize=8")

    def test_what_no_op_does_is_named(self):
        for transform, words in (
                (T.Compose([T.GaussianBlur((9, 5))]), "GaussianBlur: kernel_size (9, 5)"),
                (T.Compose([T.RandomCrop(9, 4, fill=7.5)]), "RandomCrop: fill 7.5"),
                (T.Pad((-1, 2)), "Pad: padding (-1, 2)"),
                (T.Compose([T.ToTensor(), T.RandomErasing()]), "RandomErasing: no op does this"),
                (T.Compose([T.Lambda(lambda image: image)]), "Lambda: no op does this"),
                (T.RandomRotation(10, expand=True), "RandomRotation: expand"),
                (T.Grayscale(1), "Grayscale: num_output_channels"),
                (print, "builtin_function_or_method: no op does this")):
            with self.subTest(words), self.assertRaises(ValueError) as caught:
                recipes.text(transform)
            self.assertIn(words, str(caught.exception))

    def test_numerics_are_of_all_pipelines(self):
        transform = T.Compose([T.Resize(256), T.CenterCrop(224)])
        self.assertEqual(recipes.of(transform, numerics="pillow13").train, "decode=pillow13,resize=256,center_crop=224")
        both = recipes.of("timm-a3", numerics="pillow13")
        self.assertTrue(both.train.startswith("decode=pillow13,random_resized_crop=160"))
        self.assertTrue(both.val.startswith("decode=pillow13,resize="))
        self.assertEqual(recipes.of(both, numerics="pillow12").train, recipes.of("timm-a3").train.replace(
            "decode", "decode=pillow12", 1))
        with self.assertRaisesRegex(sluice.InvalidError, "@recipe.json is a file; write decode=pillow13 into"):
            recipes.of("@recipe.json", numerics="pillow13")

    def test_another_pillow_is_told_of_once(self):
        resize = "decode,resize=256,center_crop=224"
        with mock.patch.object(recipes, "_is_told", False):
            for version, recipe in (("12.3.0", resize), ("13.0.0", "decode,center_crop=224"),
                                    ("13.0.0", resize.replace("decode", "decode=pillow12"))):
                with mock.patch("importlib.metadata.version", return_value=version), self.assertNoLogs("sluice"):
                    recipes.of(recipe)
            with mock.patch("importlib.metadata.version", return_value="13.0.0"):
                with self.assertLogs("sluice", "WARNING") as logs:
                    recipes.of(resize)
                self.assertIn('numerics="pillow13"', logs.output[0])
                with self.assertNoLogs("sluice"):
                    recipes.of(resize)

        lines = recipes.explain(T.Compose([T.Resize(72), T.RandomEqualize(0.25), T.PILToTensor()])).splitlines()
        self.assertEqual(len(lines), 3)
        self.assertTrue(lines[0].startswith("Resize(size=72") and lines[0].endswith("  resize=72"))
        self.assertTrue(lines[1].endswith("  equalize:p=0.25"))
        self.assertIn("nothing", lines[2])


class Blur(unittest.TestCase):
    def test_within_one_of_torchvisions(self):
        import numpy
        generator = torch.Generator().manual_seed(3)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for kernel, sigma in ((9, 0.3), (23, 1.7), (3, 100), (1, 1), (63, 9.5), (127, 30)):
                pixels = torch.randint(256, (80, 64 + kernel, 3), generator=generator, dtype=torch.uint8)
                image = Image.fromarray(pixels.numpy())
                image.save(folder / "image.png")
                support.run("offload_dataset", "tensor", "--pipeline",
                            f"decode,tv_blur={sigma}:kernel={kernel}", "-o", folder / "out.npy",
                            folder / "image.png")
                got = numpy.load(folder / "out.npy").astype(int)
                want = numpy.asarray(T.functional.gaussian_blur(image, kernel, sigma)).astype(int)
                off = abs(got - want)
                self.assertLessEqual(off.max(), 1, (kernel, sigma))
                self.assertLess((off > 0).mean(), 1e-3, (kernel, sigma))


class Batches(unittest.TestCase):
    """Bit for bit where each parameter is given: torchvision on PIL images, and a loader."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.root = pathlib.Path(cls.folder.name, "set")
        support.run("offload_dataset", "synth", cls.root, "-n", "6", "--num-val", "6", "--classes", "2")

    def same(self, *parts):
        transform = T.Compose([*parts, *TAIL])
        with sluice.torch.Loader(self.root, 3, part="val", recipe=transform, normalize=True, paths=True) as loader:
            count = 0
            for images, _, paths in loader:
                for image, path in zip(images, paths):
                    want = transform(Image.open(self.root / path).convert("RGB"))
                    self.assertTrue(torch.equal(image, want), f"{path}: {transform}")
                    count += 1
        self.assertEqual(count, 6)

    def test_of_the_val_part(self):
        self.same(T.Resize(72), T.CenterCrop(64))
        self.same(T.Resize(70, interpolation=Mode.BICUBIC), T.CenterCrop(64))

    def test_of_sizes(self):
        self.same(T.Resize((60, 80)), T.CenterCrop((50, 70)), T.Resize((64, 64), interpolation=Mode.BICUBIC))
        self.same(T.Resize(60, max_size=75), T.CenterCrop((64, 80)), T.Resize((64, 64)))
        self.same(T.Resize((64, 80)))
        self.same(T.Resize(90), T.CenterCrop((80, 48)))

    def test_of_views(self):
        views = [T.Compose([T.Resize(72), T.CenterCrop(64), *TAIL]), T.Compose([T.CenterCrop((50, 60)), T.Grayscale(3), *TAIL])]
        for given in ({"recipe": views}, {"transform": views}):
            with sluice.torch.Loader(self.root, 3, part="val", normalize=True, paths=True, **given) as loader:
                count = 0
                for made, _, paths in loader:
                    for i, path in enumerate(paths):
                        image = Image.open(self.root / path).convert("RGB")
                        for view, transform in zip(made, views, strict=True):
                            self.assertTrue(torch.equal(view[i], transform(image)), f"{path}: {transform}")
                            count += 1
            self.assertEqual(count, 12)

    def test_of_pads(self):
        for options in ({}, {"fill": (9, 99, 199)}, {"padding_mode": "edge"}, {"padding_mode": "reflect"},
                        {"padding_mode": "symmetric"}):
            self.same(T.Pad((3, 0, 90, 77), **options), T.Resize(72), T.CenterCrop(64), T.Pad((2, 5), **options),
                      T.CenterCrop(68))

    def test_of_colour(self):
        self.same(T.Resize(72), T.CenterCrop(64), T.RandomSolarize(100, p=1), T.RandomEqualize(p=1))
        self.same(T.Resize(72), T.CenterCrop(64), T.RandomPosterize(3, p=1), T.RandomAutocontrast(p=1))
        self.same(T.Resize(72), T.CenterCrop(64), T.RandomAdjustSharpness(1.7, p=1), T.RandomInvert(p=1))
        self.same(T.Resize(72), T.CenterCrop(64), T.ColorJitter(brightness=(1.3, 1.3)), T.Grayscale(3))
        self.same(T.Resize(72), T.CenterCrop(64), T.ColorJitter(saturation=(0.4, 0.4)))
        self.same(T.Resize(72), T.CenterCrop(64), T.ColorJitter(contrast=(1.6, 1.6)))
        self.same(T.Resize(72), T.CenterCrop(64), T.ColorJitter(hue=(0.1, 0.1)))

    def test_of_geometry(self):
        self.same(T.Resize(72), T.CenterCrop(64), T.RandomVerticalFlip(1), T.RandomRotation((20, 20), fill=9))
        self.same(T.Resize(72), T.CenterCrop(64), T.RandomRotation((33, 33), interpolation=Mode.BILINEAR))
        self.same(T.Resize(72), T.CenterCrop(64), T.RandomAffine((12, 12), scale=(0.8, 0.8), shear=(5, 5, -7, -7),
                                                                 interpolation=Mode.BICUBIC, fill=[1, 2, 3]))

    def test_of_training_it_is_the_pipeline(self):
        transform = T.Compose([T.RandomResizedCrop(48), T.RandomHorizontalFlip(), T.RandAugment(), T.AutoAugment(),
                               *TAIL])
        rows = []
        for options in ({"recipe": transform}, {"pipeline": recipes.text(transform)}):
            with sluice.torch.Loader(self.root, 6, seed=3, normalize=True, **options) as loader:
                rows.append([images.clone() for images, _ in loader])
        self.assertTrue(all(torch.equal(one, other) for one, other in zip(*rows)) and rows[0])

    def rows(self, ops):
        with sluice.torch.Loader(self.root, 6, seed=3, pipeline="decode,random_resized_crop=48," + ops) as loader:
            return [images.clone() for _ in range(12) for images, _ in loader]

    def same_ops(self, name, spelled):
        made, wanted = self.rows(name), self.rows(spelled)
        self.assertTrue(made and all(torch.equal(one, other) for one, other in zip(made, wanted, strict=True)), name)

    def test_auto_augment_is_its_policies(self):
        for policy in T.AutoAugmentPolicy:
            spelled = recipes.text(own_policies(T.AutoAugment(policy))).removeprefix("decode,")
            self.same_ops(f"auto_augment={policy.value}", spelled)

    def test_auto_augment_of_timm_is_its_policies(self):
        try:
            from timm.data.auto_augment import auto_augment_transform
        except ImportError as error:
            self.skipTest(f"timm: {error}")
        for name in ("original", "originalr", "v0", "v0r"):
            self.same_ops(f"auto_augment={name}:filter=bicubic:fill=124/116/104", timms_ops(auto_augment_transform(name)))

    def test_a_transform_with_to_tensor_is_a_recipe_and_others_get_the_batch(self):
        train = T.Compose([T.RandomResizedCrop(32), T.RandomHorizontalFlip(), *TAIL])
        made = []
        for options in ({"recipe": train}, {"transform": train}):
            with sluice.torch.Loader(self.root, 4, seed=3, workers=2, normalize=True, **options) as loader:
                made.append([images.clone() for images, _ in loader])
        self.assertGreater(len(made[0]), 0)
        for want, images in zip(*made, strict=True):
            self.assertTrue(torch.equal(images, want))
        with self.assertRaisesRegex(ValueError, "transform and recipe"):
            sluice.torch.Loader(self.root, 4, recipe=train, transform=train)
        for either in (T.Compose([T.RandomHorizontalFlip()]), torch.nn.Sequential(T.CenterCrop(8), T.Normalize(MEAN, STD))):
            with self.assertRaisesRegex(ValueError, "may be for each image or for each batch"):
                sluice.torch.Loader(self.root, 4, transform=either)
        for of_batches in (T.Normalize(MEAN, STD), T.Compose([T.RandomHorizontalFlip(), T.RandomErasing()]), torch.clone,
                           torch.nn.Sequential(), T.Compose([T.Lambda(torch.clone)])):
            self.assertFalse(recipes.is_recipe(of_batches))

    def test_recipe_and_pipeline_are_one(self):
        with self.assertRaises(ValueError):
            sluice.torch.Loader(self.root, 3, recipe="decode,resize=8,center_crop=8", pipeline="decode")


if __name__ == "__main__":
    support.main()
