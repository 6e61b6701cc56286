"""The original Python client's calls: DataTransfer, by file name, one image a call."""
import io
import os
import unittest

import harness

import grpc
import numpy as np
from PIL import Image

pb = harness.stubs()
wire, wire_grpc = pb["data_transfer_pb2"], pb["data_transfer_pb2_grpc"]
offload, offload_grpc = pb["offload_pb2"], pb["offload_pb2_grpc"]

MEAN = np.array([0.485, 0.456, 0.406], np.float32)[:, None, None]
STD = np.array([0.229, 0.224, 0.225], np.float32)[:, None, None]
T = harness.TIMEOUT_S


def image_of(reply):
    return np.asarray(Image.frombytes(reply.pil_mode, (reply.width, reply.height), reply.image))


def tensor_of(reply):
    return np.frombuffer(reply.image, dtype=np.dtype(reply.dtype)).reshape(tuple(reply.shape))


def ramp(width, height):
    """Red grows to the right, green downward: a crop tells where it is from and how turned."""
    picture = np.zeros((height, width, 3), np.uint8)
    picture[..., 0] = np.linspace(0, 255, width).astype(np.uint8)[None, :]
    picture[..., 1] = np.linspace(0, 255, height).astype(np.uint8)[:, None]
    return picture


def grows(values):
    """Along the last axis: never down, and up in all."""
    steps = np.diff(values.astype(int))
    return bool((steps >= 0).all() and steps.sum() > 0)


class DataTransfer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = harness.temporary_folder("data")
        harness.make_images(cls.root)
        cls.outside = harness.temporary_folder("data-outside")
        Image.fromarray(ramp(60, 50)).save(cls.outside / "secret.png")
        Image.fromarray(ramp(640, 480)).save(cls.root / "train/cat/ramp.png")
        os.symlink(cls.outside / "secret.png", cls.root / "train/cat/link_out.png")
        os.symlink("cat_0.jpg", cls.root / "train/cat/link_in.jpg")
        (cls.root / "train/cat/broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 no image")
        cls.server = harness.Server(cls.root, "--data-transfer")
        cls.channel = cls.server.channel()
        cls.stub = wire_grpc.DataTransferStub(cls.channel)
        cls.ramp = "train/cat/ramp.png"

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        cls.server.stop()

    def call(self, method, fname, pproc=0, size=0):
        return getattr(self.stub, "get_data_" + method)(
            wire.DataRequest(fname=str(fname), pproc=pproc, size=size), timeout=T)

    def fails(self, method, fname, **fields):
        with self.assertRaises(grpc.RpcError) as caught:
            self.call(method, fname, **fields)
        self.assertTrue(caught.exception.details())
        return caught.exception.code()

    def check_crop(self, picture, size, may_flip):
        """A piece of the ramp, upright; True if it is mirrored."""
        self.assertEqual(picture.shape, (size, size, 3))
        self.assertTrue(grows(picture[..., 1].T))
        if may_flip and grows(picture[:, ::-1, 0]):
            return True
        self.assertTrue(grows(picture[..., 0]))
        return False

    # --- the five methods ---

    def test_nooff_is_the_file_by_relative_and_absolute_name(self):
        content = (self.root / "train/dog/dog_0.jpg").read_bytes()
        for fname in ("train/dog/dog_0.jpg", "./train/dog/dog_0.jpg",
                      self.root / "train/dog/dog_0.jpg"):
            reply = self.call("nooff", fname)
            self.assertEqual(reply.image, content)
            self.assertEqual(reply.fname, str(fname))
            self.assertEqual(reply.label, b"1")
            Image.open(io.BytesIO(reply.image)).convert("RGB")

    def test_piloff_is_a_flipped_crop(self):
        flips = [self.check_crop(image_of(self.call("piloff", self.ramp)), 224, True)
                 for _ in range(24)]
        # All alike by chance: 1 in 8 million.
        self.assertTrue(any(flips) and not all(flips))
        reply = self.call("piloff", self.root / "train/cat/cat_0.jpg", size=64)
        self.assertEqual((reply.pil_mode, reply.width, reply.height), ("RGB", 64, 64))
        self.assertEqual(len(reply.image), 64 * 64 * 3)

    def test_alloff_is_a_normalized_tensor(self):
        reply = self.call("alloff", self.ramp)
        self.assertEqual(reply.dtype, "float32")
        tensor = tensor_of(reply)
        self.assertEqual(tensor.shape, (3, 224, 224))
        self.check_normalized(tensor)
        self.assertEqual(tensor_of(self.call("alloff", self.ramp, size=32)).shape, (3, 32, 32))

    def check_normalized(self, tensor):
        """Every value is what some u8 becomes, and the picture is a crop of the ramp."""
        levels = np.arange(256, dtype=np.float32) / np.float32(255)
        table = (levels[None, :, None] - MEAN) / STD
        u8 = np.empty((224, 224, 3), np.uint8)
        for c in range(3):
            column = table[c, :, 0]
            index = np.searchsorted(column, tensor[c])
            self.assertTrue((column[index.clip(0, 255)] == tensor[c]).all())
            u8[..., c] = index
        self.check_crop(u8, 224, True)

    def test_sophon_and_smartoff_answer_each_stage_in_its_form(self):
        content = (self.root / self.ramp).read_bytes()
        for method in ("sophon", "smartoff"):
            reply = self.call(method, self.ramp, pproc=-1)
            self.assertEqual((reply.pproc, reply.image), (-1, content))

            reply = self.call(method, self.ramp, pproc=0)
            self.assertEqual(reply.pproc, 0)
            self.assertTrue(np.array_equal(image_of(reply), ramp(640, 480)))

            reply = self.call(method, self.ramp, pproc=1)
            self.assertEqual(reply.pproc, 1)
            self.check_crop(image_of(reply), 224, False)

            reply = self.call(method, self.ramp, pproc=2)
            self.assertEqual(reply.pproc, 2)
            self.check_crop(image_of(reply), 224, True)

            reply = self.call(method, self.ramp, pproc=3)
            self.assertEqual((reply.pproc, reply.dtype), (3, "float32"))
            tensor = tensor_of(reply)
            u8 = np.rint(tensor * 255).astype(np.uint8)
            self.assertTrue((u8.astype(np.float32) / np.float32(255) == tensor).all())
            self.check_crop(u8.transpose(1, 2, 0), 224, True)

            reply = self.call(method, self.ramp, pproc=4)
            self.assertEqual((reply.pproc, reply.dtype), (4, "float32"))
            self.check_normalized(tensor_of(reply))

    def test_decoded_is_what_pillow_decodes(self):
        for fname in ("train/cat/cat_0.jpg", "train/cat/cat_1.png", "val/dog/dog_0.jpg"):
            reply = self.call("sophon", fname, pproc=0)
            data, width, height = harness.pixels(self.root / fname)
            self.assertEqual((reply.width, reply.height), (width, height))
            self.assertEqual(reply.image, data)

    def test_every_call_draws_afresh(self):
        # Of the ramp, as a picture much wider than high often gets the central crop.
        for method, pproc in (("piloff", 0), ("alloff", 0), ("sophon", 1), ("smartoff", 4)):
            images = {self.call(method, self.ramp, pproc=pproc).image
                      for _ in range(6)}
            self.assertEqual(len(images), 6, method)

    # --- refusals ---

    def test_paths_out_of_the_root_are_refused_and_counted(self):
        stats = offload_grpc.OffloadStub(self.channel)
        before = stats.Stats(offload.StatsRequest(), timeout=T).refused_paths
        secret = self.outside / "secret.png"
        self.assertTrue(secret.exists())
        paths = (secret, f"../{self.outside.name}/secret.png",
                 f"train/../../{self.outside.name}/secret.png",
                 f"{self.root}/../{self.outside.name}/secret.png",
                 "/etc/passwd")
        for path in paths:
            for method in ("nooff", "piloff"):
                self.assertEqual(self.fails(method, path), grpc.StatusCode.PERMISSION_DENIED, path)
        after = stats.Stats(offload.StatsRequest(), timeout=T).refused_paths
        self.assertEqual(after - before, 2 * len(paths))
        # A link that leads out is no sample, and one that stays inside is a file like any other.
        self.assertEqual(self.fails("nooff", "train/cat/link_out.png"), grpc.StatusCode.NOT_FOUND)
        self.assertEqual(self.call("nooff", "train/cat/link_in.jpg").image,
                         (self.root / "train/cat/cat_0.jpg").read_bytes())

    def test_what_is_no_image_is_an_error_of_that_call(self):
        self.assertEqual(self.fails("nooff", "train/cat/none.jpg"), grpc.StatusCode.NOT_FOUND)
        self.fails("nooff", "train/cat")
        self.fails("nooff", "")
        self.fails("piloff", "train/cat/broken.jpg")
        self.call("nooff", "train/cat/broken.jpg")  # the bytes of a file need not be an image's
        self.call("piloff", "train/cat/cat_0.jpg")

    def test_arguments_out_of_range_are_refused(self):
        for fields in ({"pproc": 5}, {"pproc": -2}, {"pproc": 1, "size": -1},
                       {"pproc": 1, "size": 1 << 30}):
            self.assertEqual(self.fails("sophon", self.ramp, **fields),
                             grpc.StatusCode.INVALID_ARGUMENT, fields)


if __name__ == "__main__":
    harness.main()
