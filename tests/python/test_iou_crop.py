"""iou_crop: the boxes are drawn as torchvision's RandomIoUCrop would draw them, and come with the rows as it leaves
them.  The reference is written from torchvision's definition, in NumPy's float32, with the draws of the loader."""
import json
import pathlib
import sys
import tempfile
import unittest

import support

support.require("numpy", "PIL")

import numpy
from PIL import Image

import sluice.annotations
import sluice.numpy

sys.path.append(str(pathlib.Path(__file__).parents[1] / "golden"))
from reference_draws import Rng  # noqa: E402

NUM, SEED, P = 40, 3, 0.9
F = numpy.float32
SIZE = (64, 80)
PIPELINE = f"decode,zoom_out=1-3:p=0.5,iou_crop=0.3-1:p={P},hflip,resize={SIZE[0]}x{SIZE[1]},to_tensor"
MODES = ("remote_nooff", "remote_alloff", "remote_piloff", "remote_auto")


def boxes_of(i):
    rng = numpy.random.default_rng(i)
    width, height = size_of(i)
    sides = rng.uniform(0.05, 0.7, (i % 5, 1))
    corner = rng.uniform(0, 1 - sides, (i % 5, 2))
    return numpy.concatenate([corner, corner + sides], axis=1).astype(F) * F([width, height] * 2)


def size_of(i):
    return 90 + 7 * (i % 9), 140 - 3 * (i % 13)


class Draws:
    """torch.rand() and torch.randint() from the op's stream."""

    def __init__(self, epoch, sample, op):
        self.rng = Rng(SEED, epoch, sample, op)

    def rand(self):
        return F(self.rng.word() >> 8) * F(2**-24)


def iou_crop(draws, width, height, boxes):
    """RandomIoUCrop.make_params() of boxes within the image: (left, top, width, height), which of the boxes are kept."""
    options = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]
    as_it_is = (0, 0, width, height), numpy.ones(len(boxes), bool)
    if len(boxes) == 0 or draws.rng.uniform() >= P:
        return as_it_is
    while True:
        least = options[draws.rng.below(len(options))]
        if least >= 1:
            return as_it_is
        for _ in range(40):
            r = [F(0.3) + F(0.7) * draws.rand() for _ in range(2)]
            new_w, new_h = int(F(width) * r[0]), int(F(height) * r[1])
            if not 0.5 <= new_w / new_h <= 2:
                continue
            r = [draws.rand() for _ in range(2)]
            left, top = int(F(width - new_w) * r[0]), int(F(height - new_h) * r[1])
            right, bottom = left + new_w, top + new_h
            center = F(0.5) * (boxes[:, :2] + boxes[:, 2:])
            within = ((F(left) < center[:, 0]) & (center[:, 0] < F(right))
                      & (F(top) < center[:, 1]) & (center[:, 1] < F(bottom)))
            if not within.any():
                continue
            crop, some = F([left, top, right, bottom]), boxes[within]
            sides = (numpy.minimum(some[:, 2:], crop[2:]) - numpy.maximum(some[:, :2], crop[:2])).clip(0)
            both = sides[:, 0] * sides[:, 1]
            area = (some[:, 2] - some[:, 0]) * (some[:, 3] - some[:, 1])
            if (both / (area + F(new_w) * F(new_h) - both)).max() < F(least):
                continue
            return (left, top, new_w, new_h), within


class IouCropTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="sluice-iou-crop-")
        cls.addClassCleanup(folder.cleanup)
        cls.root = pathlib.Path(folder.name)
        (cls.root / "class").mkdir()
        rows = []
        for i in range(NUM):
            noise = numpy.random.default_rng(i).integers(0, 255, (*size_of(i)[::-1], 3), numpy.uint8)
            Image.fromarray(noise).save(cls.root / "class" / f"{i:02}.jpg")
            objects = {"boxes": boxes_of(i).tolist(), "labels": list(range(i % 5))}
            rows.append(json.dumps({"file_name": f"class/{i:02}.jpg", "objects": objects}))
        (cls.root / "metadata.jsonl").write_text("\n".join(rows))
        support.run("offload_dataset", "index", cls.root, "--target", "objects:boxes")

    def loader(self, source, **options):
        return sluice.numpy.Loader(source, 8, seed=SEED, pipeline=PIPELINE, val_pipeline=PIPELINE, fields=True,
                                   geometry=True, sample_ids=True, workers=2, **options)

    def rows(self, loader):
        """By image: its pixels, and the boxes and labels of its row."""
        seen = {}
        for images, _, fields, ids, _ in loader:
            value = fields["objects"]
            for row, sample in enumerate(ids):
                here = slice(*value["offsets"][row:row + 2])
                seen[int(sample)] = (images[row].tobytes(), value["boxes"][here].copy(), value["labels"][here].tolist())
        return seen

    def test_draws_are_those_of_the_reference(self):
        num_cut = num_dropped = 0
        for epoch in range(6):
            with self.loader(self.root) as loader:
                loader.set_epoch(epoch)
                rows = self.rows(loader)
                for sample, (_, boxes, labels) in rows.items():
                    (zoom, cut, flip, _) = loader.draws([sample], epoch=epoch)[0]
                    (left, top), (width, height) = zoom["at"], zoom["size"]
                    moved = boxes_of(sample) + F([left, top] * 2)
                    crop, within = iou_crop(Draws(epoch, sample, 2), width, height, moved)
                    self.assertEqual((cut["from"]["left"], cut["from"]["top"], cut["from"]["width"],
                                      cut["from"]["height"]), crop)
                    num_cut += crop != (0, 0, width, height)
                    num_dropped += int((~within).sum())

                    # CropBoundingBoxes, HorizontalFlip, Resize and SanitizeBoundingBoxes.
                    left, top, width, height = crop
                    want = (moved - F([left, top] * 2)).clip(0, [width, height] * 2)
                    if flip["mirrored"]:
                        want[:, [0, 2]] = width - want[:, [2, 0]]
                    want *= F([SIZE[1] / width, SIZE[0] / height] * 2)
                    sides = want[:, 2:] - want[:, :2]
                    keep = within & (sides >= 1).all(axis=1)
                    self.assertEqual(labels, numpy.flatnonzero(keep).tolist())
                    numpy.testing.assert_allclose(boxes, want[keep], atol=1e-3)
        self.assertGreater(num_cut, 60)
        self.assertGreater(num_dropped, 60)

    def test_every_mode_has_the_same_rows(self):
        with self.loader(self.root) as loader:
            want = self.rows(loader)
        with support.Server(self.root) as server:
            for mode in MODES:
                with self.loader(server.address, mode=mode) as loader:
                    got = self.rows(loader)
                self.assertEqual(set(got), set(want))
                for sample, (pixels, boxes, labels) in want.items():
                    self.assertEqual(got[sample][0], pixels)
                    self.assertEqual((got[sample][1].tobytes(), got[sample][2]), (boxes.tobytes(), labels))

    def test_boxes_may_be_kept_by_their_centre(self):
        matrix = numpy.eye(3)[None]
        boxes = F([[0, 0, 4, 4], [-5, 1, 3, 3], [-3, 1, 5, 3], [7, 7, 9, 10], [7, 2, 20, 3]])
        move = lambda **named: sluice.annotations.move_boxes(matrix, (9, 8), boxes, [0, 5], **named)[1].tolist()
        self.assertEqual(move(), [0, 1, 2, 3, 4])
        self.assertEqual(move(by_center=True), [0, 2])
        _, kept, offsets = sluice.annotations.move_boxes(numpy.tile(matrix, (2, 1, 1)), (9, 8), boxes, [0, 2, 5],
                                                         by_center=True)
        self.assertEqual((kept.tolist(), offsets.tolist()), ([0, 2], [0, 1, 2]))

    def test_the_loader_says_so(self):
        with self.loader(self.root) as loader:
            self.assertTrue(loader.info["draws_by_boxes"])
        with sluice.numpy.Loader(self.root, 8, image_size=32) as loader:
            self.assertFalse(loader.info["draws_by_boxes"])


if __name__ == "__main__":
    support.main()
