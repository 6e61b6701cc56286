"""geometry=True: where the pixels of each row come from, the same to the bit in every mode, and true of the pixels."""
import pathlib
import tempfile
import unittest

import support

support.require("numpy", "torch", "PIL")

import numpy
import torch
from PIL import Image

import sluice
import sluice.numpy
import sluice.torch

NUM = 24
TURNED = "decode,exif_transpose,random_resized_crop=48:scale=0.3-1,hflip,affine=-20-20:scale=0.8-1.2:filter=bilinear"
PLAIN = "decode,random_resized_crop=48:scale=0.3-1,hflip,vflip:p=0.5,to_tensor"
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
                for i, sample in enumerate(ids):
                    seen.setdefault(int(sample), []).append(
                        (b"".join(geometry[name][i].tobytes() for name in ("matrix", "size", "crop", "flip")),
                         images[i].tobytes()))
        return seen

    def test_it_is_the_same_in_every_mode(self):
        for pipeline in (TURNED, PLAIN, SDXL):
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
        for pipeline in (TURNED, PLAIN, SDXL):
            with self.subTest(pipeline), sluice.numpy.Loader(
                    self.root, NUM, pipeline=pipeline, shuffle=False, sample_ids=True, geometry=True) as loader:
                images, _, ids, geometry = next(iter(loader))
                for image, sample, matrix in zip(images, ids, geometry["matrix"]):
                    width, height = size_of(int(loader.path(sample)[6:8]))
                    v, u = numpy.mgrid[:image.shape[0], :image.shape[1]] + 0.5
                    x, y, w = numpy.linalg.inv(matrix) @ [u.ravel(), v.ravel(), 1 + 0 * u.ravel()]
                    red, green, blue = image.reshape(-1, 3).T.astype(float)
                    is_inner = (blue > 245) & (x > 8) & (x < width - 8) & (y > 8) & (y < height - 8)
                    self.assertGreater(is_inner.sum(), 50)
                    self.assertEqual(w.tolist(), [1] * len(w))
                    self.assertLess(abs((red * width / 255 + 0.5 - x)[is_inner].mean()), 0.8)
                    self.assertLess(abs((green * height / 255 + 0.5 - y)[is_inner].mean()), 0.8)

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
