"""geometry=True: where the pixels of each row come from, the same to the bit in every mode, and true of the pixels."""
import json
import os
import pathlib
import tarfile
import tempfile
import unittest

import support

support.require("numpy", "torch", "PIL")

import numpy
import torch
from PIL import Image

import sluice
import sluice.annotations
import sluice.numpy
import sluice.torch
from sluice import _fields

NUM = 24
TURNED = "decode,exif_transpose,random_resized_crop=48:scale=0.3-1,hflip,affine=-20-20:scale=0.8-1.2:filter=bilinear"
PLAIN = "decode,random_resized_crop=48:scale=0.3-1,hflip,vflip:p=0.5,to_tensor"
VIEWS = "decode,views(2x[random_resized_crop=48,hflip],3x[random_resized_crop=40x32:scale=0.2-0.5,rotate=-20-20]),to_tensor"
SDXL = "decode,resize=64,random_crop=64,hflip,to_tensor"


def ramp(width, height):
    """Red is the place from the left, green that from above, in 255ths of the sides; blue is full."""
    across, down = numpy.meshgrid(numpy.arange(width) * 255 / width, numpy.arange(height) * 255 / height)
    return Image.fromarray(numpy.stack([across, down, 255 + 0 * down], axis=-1).round().astype(numpy.uint8))


def size_of(i):
    return 90 + 7 * i, 140 - 3 * i


class GeometryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="sluice-geometry-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.root = cls.folder / "root"
        (cls.root / "class").mkdir(parents=True)
        for i in range(NUM):
            exif = Image.Exif()
            exif[0x112] = 1 + i % 8
            ramp(*size_of(i)).save(cls.root / "class" / f"{i:02}.jpg", quality=100, subsampling=0, exif=exif)
        support.run("offload_dataset", "index", "--jpeg-index", cls.root)

    @staticmethod
    def rows(source, **options):
        """By sample: the bytes of its geometry, and its pixels."""
        seen = {}
        with sluice.numpy.Loader(source, 5, seed=3, geometry=True, sample_ids=True, workers=2, **options) as loader:
            loader.set_epoch(1)
            for images, _, ids, geometry in loader:
                views = zip(images, geometry) if isinstance(images, list) else [(images, geometry)]
                for pixels, fields in views:
                    for i, sample in enumerate(ids):
                        seen.setdefault(int(sample), []).append(
                            (b"".join(fields[name][i].tobytes() for name in ("matrix", "size", "crop", "flip")),
                             pixels[i].tobytes()))
        return seen

    def test_it_is_the_same_in_every_mode(self):
        for pipeline in (TURNED, PLAIN, VIEWS, SDXL):
            expected = self.rows(self.root, pipeline=pipeline)
            self.assertEqual(len(expected), NUM)
            self.assertEqual(len({rows[0][0] for rows in expected.values()}), NUM)
            sophon = support.sophon(self.root, tempfile.mkdtemp(dir=self.folder), "--pipeline", pipeline,
                                    "--val-pipeline", PLAIN, "-b", "5")
            for flags in ((), ("--isolate-decoders",)):
                with support.Server(self.root, *flags) as server:
                    for options in (*({"mode": f"remote_{mode}"} for mode in ("nooff", "alloff", "piloff", "auto")), sophon,
                                    *({"mode": "remote_piloff", "remote_form": form}
                                      for form in ("jpeg_crop", "u8_packed", "jpeg_rows"))):
                        with self.subTest(pipeline, flags=flags, **options):
                            self.assertEqual(self.rows(server.address, pipeline=pipeline, **options), expected)
            for index in ("auto", "off"):
                with self.subTest(pipeline, gpu=index), support.the_cpu_stands_in():
                    self.assertEqual(self.rows(self.root, pipeline=pipeline, gpu_decode="on", jpeg_index=index), expected)

    def test_pixels_are_where_the_matrix_says(self):
        for pipeline in (TURNED, PLAIN, VIEWS, SDXL):
            with self.subTest(pipeline), sluice.numpy.Loader(
                    self.root, NUM, pipeline=pipeline, shuffle=False, sample_ids=True, geometry=True) as loader:
                images, _, ids, geometry = next(iter(loader))
                views = zip(images, geometry) if isinstance(images, list) else [(images, geometry)]
                for image, sample, matrix in (
                        row for pixels, fields in views for row in zip(pixels, ids, fields["matrix"])):
                    width, height = size_of(int(loader.path(sample)[6:8]))
                    v, u = numpy.mgrid[:image.shape[0], :image.shape[1]] + 0.5
                    x, y, w = numpy.linalg.inv(matrix) @ [u.ravel(), v.ravel(), 1 + 0 * u.ravel()]
                    red, green, blue = image.reshape(-1, 3).T.astype(float)
                    is_inner = (blue > 245) & (x > 8) & (x < width - 8) & (y > 8) & (y < height - 8)
                    self.assertGreater(is_inner.sum(), 50)
                    self.assertEqual(w.tolist(), [1] * len(w))
                    self.assertLess(abs((red * width / 255 + 0.5 - x)[is_inner].mean()), 0.8)
                    self.assertLess(abs((green * height / 255 + 0.5 - y)[is_inner].mean()), 0.8)

    def test_buckets(self):
        """SDXL's conditioning: the crop is of the image as it was resized to its bucket."""
        pipeline = "decode,fit_bucket=48x64/64x48:crop=random,hflip,to_tensor"
        expected = self.rows(self.root, pipeline=pipeline)
        self.assertEqual(len(expected), NUM)
        with support.Server(self.root) as server:
            for mode in ("alloff", "piloff", "auto"):
                self.assertEqual(self.rows(server.address, pipeline=pipeline, mode=f"remote_{mode}"), expected)
        with sluice.numpy.Loader(self.root, 5, pipeline=pipeline, sample_ids=True, geometry=True) as loader:
            for images, _, ids, geometry in loader:
                for row, sample in enumerate(ids.tolist()):
                    width, height = size_of(int(loader.path(sample)[6:8]))
                    fitted = loader.draws([sample], sizes=[(width, height)])[0][0]
                    self.assertEqual(fitted["keep"], dict(zip(("top", "left", "height", "width"), geometry["crop"][row].tolist())))
                    self.assertEqual(geometry["crop"][row][2:].tolist(), list(images.shape[1:3]))

    def test_sizes_crops_and_flips(self):
        """What SDXL's training conditions on: the original size, and the crop's corner in the resized image."""
        with sluice.torch.Loader(self.root, NUM, pipeline=SDXL, shuffle=False, sample_ids=True, geometry=True) as loader:
            images, _, ids, geometry = next(iter(loader))
            self.assertEqual([tensor.dtype for tensor in geometry.values()],
                             [torch.float64, torch.int64, torch.int64, torch.bool])
            self.assertEqual([list(tensor.shape) for tensor in geometry.values()],
                             [[NUM, 3, 3], [NUM, 2], [NUM, 4], [NUM]])
            flips = set()
            for row, sample in enumerate(ids.tolist()):
                width, height = size_of(int(loader.path(sample)[6:8]))
                resize, crop, *_, flip = loader.draws([sample], sizes=[(width, height)])[0]
                self.assertEqual(geometry["size"][row].tolist(), [height, width])
                self.assertEqual(geometry["crop"][row].tolist(),
                                 [crop["from"][name] for name in ("top", "left", "height", "width")])
                self.assertEqual(bool(geometry["flip"][row]), flip["mirrored"])
                scale = resize["to"][0] / width
                left = crop["from"]["left"]
                across = [-scale, 0, 64 + left] if flip["mirrored"] else [scale, 0, -left]
                self.assertEqual(geometry["matrix"][row][0].tolist(), across)
                flips.add(flip["mirrored"])
            self.assertEqual(flips, {False, True})

    def test_rows_that_replace_and_repeat_others_have_theirs(self):
        broken = self.root / "class" / "99.jpg"
        broken.write_bytes(b"\xff\xd8\xff no image")
        self.addCleanup(support.run, "offload_dataset", "index", "--jpeg-index", self.root)
        self.addCleanup(broken.unlink)
        support.run("offload_dataset", "index", self.root)
        expected = self.rows(self.root, pipeline=PLAIN, on_error="skip")
        self.assertEqual(len(expected), NUM)
        with support.Server(self.root) as server:
            for on_error, num in (("skip", NUM), ("substitute", NUM + 1)):
                for mode in ("nooff", "alloff"):
                    seen = self.rows(server.address, mode=f"remote_{mode}", pipeline=PLAIN, on_error=on_error)
                    self.assertEqual(sum(map(len, seen.values())), num)
                    for sample, rows in seen.items():
                        self.assertEqual(set(rows), set(expected[sample]))
        seen = self.rows(self.root, pipeline=PLAIN, rank=1, world_size=6, drop_last=False)
        for sample, rows in seen.items():
            self.assertEqual(set(rows), set(expected[sample]))

    def test_boxes_follow_the_pixels(self):
        """A white rectangle is drawn in each image: its box goes where the rectangle is seen."""
        root = pathlib.Path(tempfile.mkdtemp(dir=self.folder)) / "boxes"
        (root / "class").mkdir(parents=True)
        given = []
        for i in range(NUM):
            width, height = size_of(i)
            box = numpy.float32([20 + i, 30, 50 + i, 70 + i])
            image = numpy.zeros((height, width, 3), numpy.uint8)
            image[30:70 + i, 20 + i:50 + i] = 255
            Image.fromarray(image).save(root / "class" / f"{i:02}.png")
            given.append(numpy.stack([box, [0, 0, width, height], [0, 0, 0.5, 0.5]]))
        num_seen = 0
        pipeline = "decode,random_resized_crop=96:scale=0.5-1:ratio=1-1,hflip,vflip:p=0.5"
        with sluice.numpy.Loader(root, 6, pipeline=pipeline, shuffle=False, geometry=True, sample_ids=True) as loader:
            for images, _, ids, geometry in loader:
                ours = [given[int(loader.path(i)[6:8])] for i in ids]
                boxes, kept, offsets = sluice.annotations.move_boxes(geometry, (96, 96),
                                                                     *sluice.annotations.ragged(ours))
                self.assertEqual((boxes.dtype, kept.dtype, offsets.dtype),
                                 (numpy.float32, numpy.int64, numpy.int64))
                self.assertEqual(offsets[0], 0)
                self.assertEqual(offsets[-1], len(boxes))
                for row, image in enumerate(images):
                    here = slice(offsets[row], offsets[row + 1])
                    found = dict(zip((kept[here] - 3 * row).tolist(), boxes[here].tolist()))
                    self.assertEqual(found[1], [0, 0, 96, 96])
                    self.assertTrue(set(found) <= {0, 1})  # the third is too small
                    down, across = numpy.nonzero(image[..., 0] > 127)
                    if 0 in found and len(across):
                        num_seen += 1
                        seen = [across.min(), down.min(), across.max() + 1, down.max() + 1]
                        self.assertLess(numpy.abs(numpy.subtract(seen, found[0])).max(), 1)
                    else:
                        self.assertLess(len(across), 200)
        self.assertGreater(num_seen, NUM // 2)

    def annotated(self):
        """A folder whose images have boxes, and a keypoint for each."""
        root = pathlib.Path(tempfile.mkdtemp(dir=self.folder)) / "annotated"
        (root / "class").mkdir(parents=True)
        rng = numpy.random.default_rng(3)
        rows, given = [], {}
        for i in range(NUM):
            width, height = size_of(i)
            path = f"class/{i:02}.png"
            Image.new("RGB", (width, height)).save(root / path)
            corner = rng.uniform(0, 0.7, (i % 5, 2))
            boxes = numpy.float32(numpy.concatenate([corner, corner + 0.2], axis=1) * [width, height, width, height])
            points = numpy.concatenate([boxes[:, None, :2], numpy.full((len(boxes), 1, 1), 2, numpy.float32)], axis=2)
            given[path] = boxes, numpy.arange(len(boxes)) + 7 * i, points
            rows.append(json.dumps({"file_name": path, "points": points.tolist(),
                                    "objects": {"boxes": boxes.tolist(), "labels": given[path][1].tolist()}}))
        (root / "metadata.jsonl").write_text("\n".join(rows))
        support.run("offload_dataset", "index", root, "--target", "boxes=objects:boxes", "--target", "points:keypoints")
        return root, given

    def test_fields_come_as_the_rows_show_them(self):
        root, given = self.annotated()
        pipelines = ("decode,random_resized_crop=48x64:scale=0.2-0.8,hflip,to_tensor",
                     "decode,views(2x[random_resized_crop=48:scale=0.2-0.8,hflip],[resize=32x40,rotate=30])")

        def check(moved, geometry, size, ids, loader, min_box):
            boxes, labels, points = (list(column) for column in zip(*(given[loader.path(i)] for i in ids)))
            ragged = sluice.annotations.ragged(boxes)
            want, kept, ends = sluice.annotations.move_boxes(geometry, size, *ragged, min_size=min_box[0], min_area=min_box[1])
            found = {name: numpy.asarray(array) for name, array in moved["boxes"].items()}
            self.assertEqual(found["boxes"].tolist(), want.tolist())
            self.assertEqual(found["kept"].tolist(), kept.tolist())
            self.assertEqual(found["offsets"].tolist(), ends.tolist())
            self.assertEqual(found["labels"].tolist(), numpy.concatenate(labels)[kept].tolist())
            want = sluice.annotations.move_keypoints(geometry, size, numpy.concatenate(points), ragged[1])
            self.assertEqual(numpy.asarray(moved["points"]["keypoints"]).tolist(), want.tolist())
            self.assertEqual(moved["points"]["offsets"].tolist(), ragged[1].tolist())
            return len(kept)

        with support.Server(root) as server:
            for pipeline in pipelines:
                for module, source, options in ((sluice.numpy, root, {}), (sluice.torch, root, {"min_box": (5, 60)}),
                                                (sluice.numpy, server.address, {"mode": "remote_alloff"})):
                    with self.subTest(pipeline, **options), module.Loader(
                            source, 5, pipeline=pipeline, fields=True, geometry=True, sample_ids=True, **options) as loader:
                        num_kept = 0
                        for images, _, fields, ids, geometry in loader:
                            num_views = len(images) if isinstance(images, list) else 1
                            for view in range(num_views):
                                one = fields if num_views == 1 else {name: value[view] for name, value in fields.items()}
                                of = geometry if num_views == 1 else geometry[view]
                                num_kept += check(one, of, loader.info["views"][view], ids.tolist(), loader,
                                                  options.get("min_box", (1, 1)))
                        self.assertGreater(num_kept, NUM // 2)
                        self.assertLess(num_kept, 3 * sum(len(boxes) for boxes, _, _ in given.values()))

    def test_rows_of_jax_that_repeat_others_have_their_boxes(self):
        boxes = {"boxes": numpy.arange(12).reshape(3, 4), "labels": numpy.arange(3), "offsets": numpy.array([0, 2, 3])}
        taken = _fields.taken({"boxes": (boxes, boxes), "plain": boxes}, [0, 1, 0])
        for found in (*taken["boxes"], taken["plain"]):
            self.assertEqual(found["labels"].tolist(), [0, 1, 2, 0, 1])
            self.assertEqual(found["offsets"].tolist(), [0, 2, 3, 5])
        doubled = _fields.mapped((boxes, boxes), lambda array: 2 * array)
        self.assertEqual([one["labels"].tolist() for one in doubled], [[0, 2, 4]] * 2)
        self.assertEqual(len(_fields.arrays_in((boxes, boxes))), 6)

    def test_fields_may_stay_as_the_files_have_them(self):
        root, given = self.annotated()
        for options in ({}, {"geometry": True, "annotations": "file"}):
            with sluice.numpy.Loader(root, NUM, pipeline=PLAIN, fields=["boxes"], sample_ids=True, **options) as loader:
                _, _, fields, ids, *_ = next(iter(loader))
                want = numpy.concatenate([given[loader.path(i)][0] for i in ids])
                self.assertEqual(fields["boxes"]["boxes"].tolist(), want.tolist())
                self.assertEqual(sorted(fields["boxes"]), ["boxes", "labels", "offsets"])
        for wrong, words in (({"annotations": "rows"}, "annotations='rows': 'row' or 'file'"),
                             ({"min_box": (1, -1)}, "the least side and the least area"),
                             ({"min_box": (1,)}, "the least side and the least area")):
            with self.assertRaisesRegex(sluice.InvalidError, words):
                sluice.numpy.Loader(root, 5, pipeline=PLAIN, fields=True, geometry=True, **wrong)

    def test_masks_come_as_the_rows_show_them(self):
        """Pillow's crop, nearest resize and flip of the masks, by the images' draws."""
        root = pathlib.Path(tempfile.mkdtemp(dir=self.folder)) / "masks"
        (root / "class").mkdir(parents=True)
        rng, masks = numpy.random.default_rng(4), {}
        for i in range(NUM):
            width, height = size_of(i)
            mask = Image.fromarray(rng.integers(0, 200 if i % 2 else 4, (height, width)).astype(numpy.uint8))
            if i % 2 == 0:
                mask = mask.convert("P")
                mask.putdata(rng.integers(0, 4, width * height).tolist())
                mask.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0, 9, 9, 9])
            Image.new("RGB", (width, height)).save(root / f"class/{i:02}.jpg")
            mask.save(root / f"class/{i:02}.mask.png")
            masks[f"class/{i:02}.jpg"] = mask
        support.run("offload_dataset", "index", root, "--target", "mask=.mask.png:mask")
        pipelines = ("random_resized_crop=40x50:scale=0.1-1,hflip", "resize=30x90,vflip,hflip", "random_crop=70:padding=9,hflip")
        with support.Server(root) as server:
            for pipeline in pipelines:
                for module, source, options in ((sluice.numpy, root, {}), (sluice.torch, root, {"mask_fill": 7}),
                                                (sluice.numpy, server.address, {"mode": "remote_alloff"})):
                    with self.subTest(pipeline, **options), module.Loader(
                            source, 5, pipeline=f"decode,{pipeline}", fields=["mask"], geometry=True, sample_ids=True,
                            **options) as loader:
                        num_edges = 0
                        for images, _, fields, ids, geometry in loader:
                            found = numpy.asarray(fields["mask"])
                            self.assertEqual(found.dtype, numpy.uint8)
                            self.assertEqual(list(found.shape), [len(ids), *loader.info["views"][0]])
                            for row, sample, matrix in zip(found, ids.tolist(), numpy.asarray(geometry["matrix"])):
                                mask = masks[loader.path(sample)]
                                draws = loader.draws([sample], sizes=[mask.size])[0]
                                want = self.of_pillow(mask, draws, options.get("mask_fill", 255))
                                v, u = numpy.mgrid[:row.shape[0], :row.shape[1]] + 0.5
                                points = numpy.linalg.inv(matrix) @ [u.ravel(), v.ravel(), 1 + 0 * u.ravel()]
                                is_edge = (abs(points - points.round())[:2].min(axis=0) < 1e-6).reshape(row.shape)
                                self.assertTrue((row == numpy.asarray(want))[~is_edge].all())
                                num_edges += is_edge.mean()
                        self.assertLess(num_edges, NUM / 4)
        views = "decode,views([resize=30x20],[center_crop=9])"
        with sluice.numpy.Loader(root, 5, pipeline=views, fields=True, geometry=True) as loader:
            fields = next(iter(loader))[2]
            self.assertEqual([mask.shape for mask in fields["mask"]], [(5, 30, 20), (5, 9, 9)])
        with sluice.numpy.Loader(root, 5, pipeline=views, fields=True) as loader:
            self.assertTrue(all(mask.startswith(b"\x89PNG") for mask in next(iter(loader))[2]["mask"]))
        of_threads = []
        for workers in (1, 3, 40):
            with sluice.numpy.Loader(root, 16, pipeline=views, fields=True, geometry=True, workers=workers) as loader:
                of_threads.append([mask for _, _, fields, _ in loader for mask in fields["mask"]])
        for other in of_threads[1:]:
            for mask, want in zip(other, of_threads[0], strict=True):
                self.assertTrue(numpy.array_equal(mask, want))
        for i in range(6):  # bad rows are named in the order of the batch, whichever thread finds them
            (root / f"class/{i:02}.mask.png").write_bytes(b"no PNG")
        support.run("offload_dataset", "index", root, "--target", "mask=.mask.png:mask")
        for workers in (1, 2, 5):
            with sluice.numpy.Loader(root, NUM, pipeline=views, fields=True, geometry=True, shuffle=False,
                                     workers=workers) as loader:
                with self.assertRaisesRegex(sluice.Error, "mask of sample 0: "):
                    next(iter(loader))
        for i in range(6):
            masks[f"class/{i:02}.jpg"].save(root / f"class/{i:02}.mask.png")
        ramp(90, 90).save(root / "class/01.mask.png")
        support.run("offload_dataset", "index", root, "--target", "mask=.mask.png:mask")
        with sluice.numpy.Loader(root, NUM, pipeline=views, fields=True, geometry=True) as loader:
            with self.assertRaisesRegex(sluice.Error, "mask of sample 1: a mask of 90 x 90 pixels for an image of 97 x 137"):
                next(iter(loader))

    def test_masks_of_some_megabytes(self):
        """Noise, which does not compress, beside the images and in a tar, from a server and not."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (folder / "files/class").mkdir(parents=True)
        rng = numpy.random.default_rng(7)
        for i in range(3):
            Image.new("RGB", (2400, 2000)).save(folder / f"files/class/{i}.jpg")
            Image.fromarray(rng.integers(0, 256, (2000, 2400)).astype(numpy.uint8)).save(folder / f"files/class/{i}.mask.png")
        self.assertGreater((folder / "files/class/0.mask.png").stat().st_size, 4 << 20)
        (folder / "tars").mkdir()
        with tarfile.open(folder / "tars/a.tar", "w") as tar:
            tar.add(folder / "files/class", "class")
        options = {"pipeline": "decode,random_resized_crop=40,hflip", "fields": ["mask"], "geometry": True, "seed": 4}
        found = []
        for root in ("files", "tars"):
            support.run("offload_dataset", "index", folder / root, "--target", "mask=.mask.png:mask")
            with support.Server(folder / root) as server:
                for source in (folder / root, server.address):
                    with sluice.numpy.Loader(source, 3, **options) as loader:
                        found.append([fields["mask"].copy() for _, _, fields, _ in loader])
        self.assertGreater(len(numpy.unique(found[0])), 200)
        for other in found[1:]:
            self.assertTrue(numpy.array_equal(other, found[0]))
        os.truncate(folder / "files/class/1.mask.png", (16 << 20) + 1)
        with tarfile.open(folder / "tars/a.tar", "w") as tar:
            tar.add(folder / "files/class", "class")
        for root in ("files", "tars"):
            index = support.run("offload_dataset", "index", folder / root, "--target", "mask=.mask.png:mask", code=1)
            self.assertIn("class/1.mask.png has more than 16 MiB", index.stderr)

    @staticmethod
    def of_pillow(mask, draws, fill):
        for op in draws:
            if "from" in op:
                box, keep = op["from"], op["keep"]
                left, top = box["left"], box["top"]
                mask = mask.crop((left, top, left + box["width"], top + box["height"]))
                if "to" in op:
                    mask = mask.resize(op["to"], Image.NEAREST)
                if "at" in op:
                    canvas = Image.new(mask.mode, op["size"], fill)
                    canvas.paste(mask, op["at"])
                    mask = canvas
            elif op["op"] == "vflip" or op.get("mirrored"):
                mask = mask.transpose(Image.FLIP_TOP_BOTTOM if op["op"] == "vflip" else Image.FLIP_LEFT_RIGHT)
        return mask

    def test_keypoints(self):
        matrices = numpy.stack([numpy.eye(3), numpy.float64([[-1, 0, 10], [0, 2, 0], [0, 0, 1]])])
        points = numpy.float32([[[1, 2, 2], [20, 2, 2]], [[1, 2, 1], [0, 0, 0]], [[4, 4, 2], [4, 6, 2]]])
        moved = sluice.annotations.move_keypoints(matrices, (10, 10), points, [0, 1, 3])
        self.assertEqual(moved.tolist(), [[[1, 2, 2], [0, 0, 0]], [[9, 4, 1], [0, 0, 0]], [[6, 8, 2], [0, 0, 0]]])
        moved = sluice.annotations.move_keypoints({"matrix": matrices}, (10, 10), points[..., :2], [0, 1, 3])
        self.assertEqual(moved.tolist(), [[[1, 2], [20, 2]], [[9, 4], [10, 0]], [[6, 8], [6, 12]]])

    def test_ragged_arrays_that_do_not_fit_are_refused(self):
        eyes, boxes = numpy.stack([numpy.eye(3)] * 2), numpy.float32([[0, 0, 5, 5]] * 3)
        made, kept, offsets = sluice.annotations.move_boxes(eyes, (10, 10), boxes, [0, 0, 3])
        self.assertEqual((len(made), kept.tolist(), offsets.tolist()), (3, [0, 1, 2], [0, 0, 3]))
        for offsets in ([0, 3], [0, 1, 2], [1, 2, 3], [0, 2, 1], [0, -1, 3], [0, 2 ** 62, 3], []):
            with self.subTest(offsets), self.assertRaisesRegex(ValueError, "offsets: from 0 to the number"):
                sluice.annotations.move_boxes(eyes, (10, 10), boxes, offsets)
            with self.subTest(offsets), self.assertRaisesRegex(ValueError, "offsets: from 0 to the number"):
                sluice.annotations.move_keypoints(eyes, (10, 10), boxes.reshape(3, 2, 2), offsets)
        for shape in ((3, 4), (1, 3, 4), (3, 4, 1)):
            with self.subTest(shape), self.assertRaisesRegex(ValueError, "keypoints"):
                sluice.annotations.move_keypoints(eyes, (10, 10), boxes.reshape(shape), [0, 1, 3])
        empty = sluice.annotations.move_boxes(eyes, (10, 10), *sluice.annotations.ragged([boxes[:0]] * 2))
        self.assertEqual([len(array) for array in empty], [0, 0, 3])

    def test_without_it_batches_are_as_ever(self):
        with sluice.numpy.Loader(self.root, 5, pipeline=PLAIN) as loader:
            self.assertEqual(len(next(iter(loader))), 2)
            loader._loader.start()
            self.assertIsNone(loader._loader.next().geometry(0))
        with sluice.numpy.Loader(self.root, 5, pipeline=PLAIN, geometry=True) as loader:
            loader._loader.start()
            batch = loader._loader.next()
            self.assertIsNone(batch.geometry(1))
            with self.assertRaises(OverflowError):
                batch.geometry(-1)

    def test_what_has_none_says_so(self):
        with self.assertRaisesRegex(sluice.InvalidError, r"--geometry and --pipeline .*op 3 \(augmix\) mixes images"):
            sluice.numpy.Loader(self.root, 5, pipeline="decode,random_resized_crop=48,augmix", geometry=True)
        with self.assertRaisesRegex(sluice.InvalidError, "geometry: a Dataset has none"):
            sluice.torch.Dataset(self.root, geometry=True)


if __name__ == "__main__":
    support.main()
