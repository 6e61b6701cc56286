#!/usr/bin/env python3
"""Pipelines that leave images in sizes of their own: a batch is a list of arrays, the same from everywhere."""
import importlib
import json
import math
import pathlib
import tempfile
import unittest

import support

support.require("numpy")

import numpy

import sluice
import sluice.numpy

OPS = "decode,smart_resize=28:min_pixels=784:max_pixels=30000,hflip"
PIPELINE = OPS + ",to_tensor,normalize=imagenet"


def smart_resize(height, width, factor=28, min_pixels=784, max_pixels=30000):
    """qwen_vl_utils.vision_process.smart_resize."""
    h_bar = max(factor, round(height / factor) * factor)
    w_bar = max(factor, round(width / factor) * factor)
    if h_bar * w_bar > max_pixels:
        beta = math.sqrt((height * width) / max_pixels)
        h_bar = max(factor, math.floor(height / beta / factor) * factor)
        w_bar = max(factor, math.floor(width / beta / factor) * factor)
    elif h_bar * w_bar < min_pixels:
        beta = math.sqrt(min_pixels / (height * width))
        h_bar = math.ceil(height * beta / factor) * factor
        w_bar = math.ceil(width * beta / factor) * factor
    return h_bar, w_bar


class OwnSizesTest(support.SetTest):
    corrupt = "train/class000/00000030.jpg"

    @classmethod
    def change_set(cls):
        path = pathlib.Path(cls.root, cls.corrupt)  # its header stays
        path.write_bytes(path.read_bytes()[:path.stat().st_size // 2])
        support.run("offload_dataset", "index", cls.root)

    def load(self, source=None, batch_size=8, **options):
        return sluice.numpy.Loader(source or self.root, batch_size, sample_ids=True,
                                   **{"pipeline": PIPELINE, "workers": 2, "seed": 3, **options})

    def test_images_have_their_sizes_in_every_mode(self):
        with self.load(geometry=True) as loader:
            self.assertEqual((loader.info["views"], loader.info["buckets"]), ([[0, 0]], []))
            expected = [([image.copy() for image in images], ids.copy()) for images, _, ids, geometry in loader]
            for images, _, ids, geometry in loader:
                self.assertIsInstance(images, list)
                self.assertEqual(len(images), len(ids))
                for image, size in zip(images, geometry["size"].tolist(), strict=True):
                    self.assertEqual(image.shape, (*smart_resize(*size), 3))
            digest = loader.stats()["digest"]
        self.assertGreater(len({image.shape for images, _ in expected for image in images}), 2)
        self.assertEqual(sum(len(ids) for _, ids in expected), support.NUM_TRAIN - 1)  # one is corrupt
        for mode in ("remote_nooff", "remote_piloff", "remote_alloff", "remote_auto"):
            with self.subTest(mode=mode), self.load(self.address, mode=mode) as loader:
                for (images, _, ids), (others, other_ids) in zip(loader, expected, strict=True):
                    numpy.testing.assert_array_equal(ids, other_ids)
                    for image, other in zip(images, others, strict=True):
                        numpy.testing.assert_array_equal(image, other)
                loader.set_epoch(1)
                for _ in loader:
                    pass
                self.assertEqual(loader.stats()["digest"], digest)

    def test_sizes_that_are_drawn_are_the_same_in_every_mode(self):
        detr = ("decode,hflip,random_size_crop=60-90:shorter=64-96/3,random_resize=72-120/4:max=150,to_tensor,"
                "normalize=imagenet")
        seen = {}
        for epoch in range(3):
            with self.load(pipeline=detr, val_pipeline=detr, geometry=True) as loader:
                loader.set_epoch(epoch)
                for images, _, ids, geometry in loader:
                    for image, i, matrix in zip(images, ids.tolist(), geometry["matrix"], strict=True):
                        self.assertLessEqual(max(image.shape), 150)
                        seen.setdefault(i, []).append((image.shape, image.tobytes(), matrix.tobytes()))
        self.assertGreater(sum(len({row[0] for row in rows}) == 3 for rows in seen.values()), support.NUM_TRAIN // 2)
        for mode in ("remote_nooff", "remote_piloff", "remote_alloff", "remote_auto"):
            with self.subTest(mode=mode), self.load(self.address, mode=mode, pipeline=detr, val_pipeline=detr,
                                                    geometry=True) as loader:
                loader.set_epoch(2)
                got = {i: (image.shape, image.tobytes(), matrix.tobytes()) for images, _, ids, geometry in loader
                       for image, i, matrix in zip(images, ids.tolist(), geometry["matrix"], strict=True)}
                self.assertEqual(got, {i: rows[2] for i, rows in seen.items()})

    def test_the_preset_of_detr_draws_what_detr_does(self):
        """make_coco_transforms("train"): the flip, RandomSelect of a crop, RandomResize(scales, max_size=1333)."""
        scales, cropped = set(), 0
        with sluice.numpy.Loader(self.root, 8, recipe="detr", seed=3) as loader:
            for epoch in range(6):
                for flip, crop, resize in loader.draws(list(range(30)), epoch=epoch):
                    self.assertEqual((flip["op"], crop["op"], resize["op"]), ("hflip", "random_size_crop", "random_resize"))
                    given = crop["from"]["width"], crop["from"]["height"]
                    width, height = crop["keep"]["width"], crop["keep"]["height"]
                    if (width, height) != given:
                        cropped += 1
                        self.assertIn(min(crop["to"]), (400, 500, 600))
                        for side, most in zip((width, height), crop["to"], strict=True):
                            self.assertTrue(384 <= side <= min(600, most))
                    shorter, longer = min(resize["to"]), max(resize["to"])
                    short, long = min(width, height), max(width, height)
                    if longer < 1333:
                        self.assertIn(shorter, range(480, 801, 32))
                        self.assertEqual(longer, int(shorter * long / short))
                        scales.add(shorter)
                    else:
                        self.assertTrue(abs(shorter - 1333 * short / long) <= 1)
        self.assertEqual(scales, set(range(480, 801, 32)))
        self.assertTrue(60 < cropped < 120, cropped)  # of 180

    def test_a_row_that_stands_in_shares_the_pixels_of_the_other(self):
        with self.load(on_error="substitute") as loader:
            num_shared = 0
            for images, _, ids in loader:
                for i in range(1, len(ids)):
                    if ids[i] == ids[i - 1]:
                        numpy.testing.assert_array_equal(images[i], images[i - 1])
                        num_shared += 1
            self.assertEqual(num_shared, 1)

    def test_a_state_goes_on(self):
        with self.load() as loader:
            batches = iter(loader)
            next(batches)
            next(batches)
            state = loader.state_dict()
            rest = [(ids.tolist(), [image.tobytes() for image in images]) for images, _, ids in batches]
        with self.load() as loader:
            loader.load_state_dict(state)
            self.assertEqual(rest, [(ids.tolist(), [image.tobytes() for image in images]) for images, _, ids in loader])

    def test_images_outlive_their_loader(self):
        with self.load() as loader:
            images, _, _ = next(iter(loader))
            kept, copies = images[3], [image.copy() for image in images]
            del images
        numpy.testing.assert_array_equal(kept, copies[3])

    def test_an_order_may_not_repeat_samples_beyond_the_memory(self):
        with self.load(sampler=list(range(8, 16))) as loader:
            self.assertEqual(len(list(loader)), 1)
        with self.load() as loader:
            sizes = {int(i): image.size for images, _, ids in loader for image, i in zip(images, ids)}
        first = min(sizes, key=lambda i: -sizes[i])  # ids of the part are its positions: it comes first in the dataset
        with self.load(batch_size=48, sampler=[first] * 48) as loader:
            with self.assertRaisesRegex(sluice.InvalidError, "it repeats samples"):
                next(iter(loader))

    def test_what_is_refused(self):
        with self.assertRaisesRegex(sluice.InvalidError, r"more than the 1000 of --max-output-pixels"):
            self.load(max_output_pixels=1000)
        with self.assertRaisesRegex(sluice.InvalidError, "python_tail: it is for images of one size"):
            self.load(python_tail=support.row_hash)
        with self.assertRaisesRegex(sluice.UnsupportedError, "gpu-decode: the GPU makes no batches whose images have sizes of their own"):
            self.load(gpu_decode="on")

    def test_detection(self):
        """Shorter side 80, longer at most 133, flip: each row's boxes and keypoints are in its own pixels."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name, "set")
        support.run("offload_dataset", "synth", root, "-n", 24, "--num-val", 0, "--classes", 2)
        support.run("offload_dataset", "index", root)
        rows = [line.split("\t") for line in (root / "sluice-manifest.tsv").read_text().splitlines() if ".jpg\t" in line]
        coco = {"images": [{"id": i, "file_name": row[0].split("/")[-1]} for i, row in enumerate(rows)],
                "categories": [{"id": 0}, {"id": 1}, {"id": 2}], "annotations": []}
        given, points = {}, {}
        for i, row in enumerate(rows):
            width, height = int(row[4]), int(row[5])
            given[row[0]] = [[width * k / 8, 5, width * (k + 2) / 8, height - 3] for k in range(i % 4)]
            points[row[0]] = [[[x0 + 1, 9, 2]] * 17 for x0, *_ in given[row[0]]]
            coco["annotations"] += [
                {"image_id": i, "category_id": k % 3, "bbox": [x0, y0, x1 - x0, y1 - y0],
                 "keypoints": [x0 + 1, 9, 2] * 17} for k, (x0, y0, x1, y1) in enumerate(given[row[0]])]
        annotations = pathlib.Path(folder.name, "instances.json")
        annotations.write_text(json.dumps(coco))
        support.run("offload_dataset", "index", root, "--annotations", annotations)
        num_boxes = 0
        with self.load(str(root), pipeline="decode,resize=80:max=133,hflip,to_tensor,normalize=imagenet", fields=True,
                       geometry=True) as loader:
            for images, _, fields, ids, geometry in loader:
                boxes, keypoints = fields["boxes"], fields["keypoints"]
                for row, image in enumerate(images):
                    path = loader.path(ids[row])
                    (file_height, file_width), (height, width, _) = geometry["size"][row].tolist(), image.shape
                    self.assertTrue(max(height, width) <= 133 and (min(height, width) == 80 or max(height, width) == 133))
                    scale = numpy.float64([width / file_width, height / file_height] * 2)
                    want = numpy.float64(given.get(path, [])).reshape(-1, 4) * scale
                    places = numpy.float64([[x * scale[0], y * scale[1]] for [[x, y, _], *_] in points.get(path, [])])
                    if geometry["flip"][row]:
                        want[:, [0, 2]] = width - want[:, [2, 0]]
                        places = numpy.float64([[width - x, y] for x, y in places])
                    begin, end = boxes["offsets"][row:row + 2]
                    numpy.testing.assert_allclose(boxes["boxes"][begin:end], want, atol=1e-3)
                    numpy.testing.assert_array_equal(boxes["labels"][begin:end], [k % 3 for k in range(len(want))])
                    begin, end = keypoints["offsets"][row:row + 2]
                    numpy.testing.assert_allclose(keypoints["keypoints"][begin:end, 0, :2].reshape(-1, 2),
                                                  places.reshape(-1, 2), atol=1e-3)
                    num_boxes += len(want)
        self.assertEqual(num_boxes, len(coco["annotations"]))

    def test_torch_normalizes_each_image(self):
        try:
            import torch
        except ImportError as error:
            self.skipTest(str(error))
        import sluice.torch
        options = {"pipeline": PIPELINE, "workers": 2, "seed": 3}
        mean, std = (torch.tensor(v, dtype=torch.float32).view(3, 1, 1)
                     for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
        with sluice.torch.Loader(self.root, 8, normalize=True, **options) as loader, \
                sluice.torch.Loader(self.root, 8, **options) as plain, self.load() as reference:
            for (images, _), (u8, _), (arrays, _, _) in zip(loader, plain, reference, strict=True):
                for image, raw, array in zip(images, u8, arrays, strict=True):
                    self.assertEqual(raw.numpy().transpose(1, 2, 0).tobytes(), array.tobytes())
                    want = raw.contiguous().to(torch.float32).div(255).sub(mean).div(std)
                    self.assertTrue(torch.equal(image, want))

    def test_torch_makes_one_tensor_of_a_list(self):
        try:
            import torch
        except ImportError as error:
            self.skipTest(str(error))
        import sluice.torch
        with sluice.torch.Loader(self.root, 8, pipeline=PIPELINE, workers=2, seed=3) as loader:
            images, _ = next(iter(loader))
            images = [image.clone() for image in images]
        self.assertGreater(len({image.shape for image in images}), 1)
        for multiple in (1, 64):
            batch, mask = sluice.torch.pad(images, multiple)
            height, width = (max(-(-image.shape[axis] // multiple) * multiple for image in images) for axis in (1, 2))
            self.assertEqual((batch.shape, mask.shape), ((len(images), 3, height, width), (len(images), height, width)))
            for image, row, inside in zip(images, batch, mask, strict=True):
                self.assertTrue(torch.equal(row[:, :image.shape[1], :image.shape[2]], image))
                self.assertEqual(int(row.to(torch.int64).sum()), int(image.to(torch.int64).sum()))
                self.assertEqual(int(inside.sum()), image[0].numel())
                self.assertTrue(inside[:image.shape[1], :image.shape[2]].all())
        patches, offsets, grids = sluice.torch.patchify(images, 14)
        for row, image in enumerate(images):
            self.assertEqual(grids[row].tolist(), [image.shape[1] // 14, image.shape[2] // 14])
            of_row = iter(patches[offsets[row]:offsets[row + 1]])
            for y in range(0, image.shape[1], 14):
                for x in range(0, image.shape[2], 14):
                    self.assertTrue(torch.equal(next(of_row), image[:, y:y + 14, x:x + 14].reshape(-1)))
            self.assertIsNone(next(of_row, None))
        self.assertEqual(offsets[-1], len(patches))
        with self.assertRaisesRegex(sluice.InvalidError, "image 0 has .* no multiple of size=15"):
            sluice.torch.patchify(images, 15)
        with self.assertRaisesRegex(sluice.InvalidError, "0 images"):
            sluice.torch.pad([])

    def test_numpy_makes_one_array_of_a_list(self):
        rng = numpy.random.default_rng(5)
        images = [rng.integers(1, 256, (height, width, 3), numpy.uint8) for height, width in ((28, 42), (14, 70), (56, 14))]
        for options, height, width in (({}, 56, 70), ({"multiple": 64}, 64, 128), ({"size": (60, 71)}, 60, 71)):
            batch, mask = sluice.numpy.pad(images, **options)
            self.assertEqual((batch.shape, batch.dtype, mask.dtype), ((3, height, width, 3), numpy.uint8, bool))
            for image, row, inside in zip(images, batch, mask, strict=True):
                self.assertTrue(numpy.array_equal(row[:image.shape[0], :image.shape[1]], image))
                self.assertTrue(numpy.array_equal((row > 0).all(-1), inside))
                self.assertEqual(inside.sum(), image.shape[0] * image.shape[1])
        with self.assertRaisesRegex(sluice.InvalidError, r"image 1 has 14 x 70 pixels, more than size=\(60, 69\)"):
            sluice.numpy.pad(images, size=(60, 69))
        wanted = [image[y:y + 14, x:x + 14].transpose(2, 0, 1).ravel() for image in images
                  for y in range(0, image.shape[0], 14) for x in range(0, image.shape[1], 14)]
        for num_patches in (None, 15, 20):
            patches, offsets, grids = sluice.numpy.patchify(images, 14, num_patches)
            self.assertTrue(numpy.array_equal(patches[:15], wanted))
            self.assertEqual((len(patches), patches[15:].any()), (num_patches or 15, False))
            self.assertEqual((offsets.tolist(), grids.tolist()), ([0, 6, 11, 15], [[2, 3], [1, 5], [4, 1]]))
        with self.assertRaisesRegex(sluice.InvalidError, "the images have 15 patches, more than num_patches=14"):
            sluice.numpy.patchify(images, 14, 14)
        with self.assertRaisesRegex(sluice.InvalidError, "patchify: 0 images"):
            sluice.numpy.patchify([], 14)
        for library, own in (("torch", lambda module, image: module.from_numpy(image.transpose(2, 0, 1).copy())),
                             ("jax", lambda module, image: module.numpy.asarray(image))):
            with self.subTest(library):
                try:
                    module = importlib.import_module(library)
                except ImportError:
                    continue
                ours = importlib.import_module(f"sluice.{library}")
                same = [own(module, image) for image in images]
                batch, mask = ours.pad(same, size=(60, 71))
                batch = numpy.asarray(batch)
                for got, want in zip((batch.transpose(0, 2, 3, 1) if library == "torch" else batch, mask),
                                     sluice.numpy.pad(images, size=(60, 71)), strict=True):
                    numpy.testing.assert_array_equal(numpy.asarray(got), want)
                for got, want in zip(ours.patchify(same, 14, 20), sluice.numpy.patchify(images, 14, 20), strict=True):
                    numpy.testing.assert_array_equal(numpy.asarray(got), want)
                self.assertIsInstance(ours.pad(same)[1], type(same[0]))

    def test_one_compilation_for_lists_of_any_size(self):
        try:
            import jax
        except ImportError as error:
            self.skipTest(str(error))
        import sluice.jax
        compiled = []

        @jax.jit
        def mean(patches, end):
            compiled.append(patches.shape)
            inside = jax.numpy.arange(len(patches))[:, None] < end
            return jax.numpy.where(inside, patches, 0).sum()

        with sluice.jax.Loader(self.root, 8, pipeline=PIPELINE, workers=2, seed=3) as loader:
            for images, _ in loader:
                patches, offsets, _ = sluice.jax.patchify(images, 28, 8 * 39)
                self.assertEqual(int(mean(patches.astype(int), offsets[-1])), sum(int(image.astype(int).sum()) for image in images))
        self.assertEqual(compiled, [(8 * 39, 3 * 28 * 28)])

    def test_jax_has_a_list(self):
        try:
            import jax  # noqa: F401
        except ImportError as error:
            self.skipTest(str(error))
        import sluice.jax
        with sluice.jax.Loader(self.root, 8, pipeline=PIPELINE, workers=2, seed=3) as loader, self.load() as reference:
            for (images, _), (arrays, _, _) in zip(loader, reference, strict=True):
                for image, array in zip(images, arrays, strict=True):
                    numpy.testing.assert_array_equal(image, array)
        with self.assertRaisesRegex(sluice.InvalidError, "images in sizes of their own"):
            sluice.jax.Loader(self.root, 8, pipeline=PIPELINE, normalize=True)


if __name__ == "__main__":
    support.main()
