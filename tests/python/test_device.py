#!/usr/bin/env python3
"""Batches on a CUDA device, without one: an extension that takes the host's memory for a device's
(fake_device.c) and consumers of DLPack that look at what they get."""
import ctypes
import gc
import importlib.machinery
import importlib.util
import sys
import threading

import support

support.require("numpy")

PATH = str(support.BIN.parent / "tests/_sluice_fake.so")
_spec = importlib.util.spec_from_loader(
    "sluice._sluice", importlib.machinery.ExtensionFileLoader("sluice._sluice", PATH))
_sluice = sys.modules["sluice._sluice"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_sluice)

import numpy

import sluice
import sluice.numpy

BATCH, DEVICE = 8, 3
CUDA = 2  # DLPack's kDLCUDA


class Release(ctypes.Structure):
    _fields_ = [("index", ctypes.c_uint64), ("stream", ctypes.c_uint64), ("is_after", ctypes.c_int)]


class Fake:
    library = ctypes.CDLL(PATH)
    device = ctypes.c_int.in_dll(library, "fake_device")
    num_released = ctypes.c_uint.in_dll(library, "fake_num_released")
    list = (Release * 4096).in_dll(library, "fake_released")

    @classmethod
    def released(cls):
        """(index, stream) of each batch released, stream None: nothing uses it; empties the list."""
        done = [(r.index, r.stream if r.is_after else None)
                for r in cls.list[:cls.num_released.value]]
        cls.num_released.value = 0
        return done


class DlTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
                ("manager", ctypes.c_void_p), ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]


class Consumer:
    """Takes a capsule as PyTorch does; delete() may be called on any thread."""

    def __init__(self, capsule):
        get, rename = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_SetName
        get.restype = ctypes.c_void_p
        get.argtypes = rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
        self.address = get(capsule, b"dltensor")
        self.tensor = DlTensor.from_address(self.address)
        assert rename(capsule, b"used_dltensor") == 0

    def delete(self):
        self.tensor.deleter(self.address)  # ctypes gives up the GIL


class DeviceTest(support.SetTest):
    def setUp(self):
        Fake.device.value = DEVICE
        self.addCleanup(setattr, Fake.device, "value", -1)
        self.loader = _sluice.Loader({"dir": self.root, "dataset-mode": "local", "seed": "3",
                                      "batch-size": str(BATCH), "pipeline": support.PIPELINE})
        self.addCleanup(self.loader.close)
        self.loader.open()
        self.loader.start()
        Fake.released()

    def test_a_loader_says_its_device(self):
        self.assertEqual(self.loader.device(), DEVICE)
        self.assertEqual(self.loader.next().device, DEVICE)

    def test_a_capsule_has_the_rows_where_they_are(self):
        batch = self.loader.next()
        self.assertEqual(batch.pixels.__dlpack_device__(), (CUDA, DEVICE))
        made = Consumer(batch.pixels.__dlpack__(stream=1))
        tensor = made.tensor
        self.assertEqual((tensor.device_type, tensor.device_id), (CUDA, DEVICE))
        self.assertEqual(tensor.data, batch.pixels.address)
        self.assertEqual(tensor.shape[:tensor.ndim], [BATCH, 64, 64, 3])
        self.assertEqual(tensor.strides[:tensor.ndim], [64 * 64 * 3, 64 * 3, 3, 1])
        self.assertEqual((tensor.code, tensor.bits, tensor.lanes, tensor.byte_offset), (1, 8, 1, 0))
        made.delete()

    def test_labels_and_ids_are_on_the_host(self):
        batch = self.loader.next()
        for array in (batch.labels, batch.ids, batch.ids.signed(), batch.draw_epochs):
            self.assertEqual(array.__dlpack_device__(), (1, 0))
            self.assertEqual(len(numpy.asarray(array)), BATCH)
            self.assertFalse(hasattr(array, "__cuda_array_interface__"))
            with self.assertRaisesRegex(BufferError, "host has no stream"):
                array.__dlpack__(stream=1)
        del array, batch
        self.assertEqual(Fake.released(), [(0, None)])

    def test_rows_go_after_the_stream_that_they_were_asked_for(self):
        for index, (number, stream) in enumerate(
                ((0x7f00, 0x7f00), (None, 0), (-1, 0), (1, 0), (2, 0))):
            with self.subTest(number):
                batch = self.loader.next()
                made = Consumer(batch.pixels.__dlpack__(stream=number))
                del batch
                self.assertEqual(Fake.released(), [])
                thread = threading.Thread(target=made.delete)
                thread.start()
                thread.join()
                self.assertEqual(Fake.released(), [(index, stream)])

    def test_nobody_waits_for_what_nobody_was_told_of(self):
        batch = self.loader.next()
        batch.release()
        self.assertEqual(Fake.released(), [(0, None)])
        batch = self.loader.next()
        batch.pixels.address, batch.pixels.nbytes, batch.pixels.__dlpack_device__()
        del batch
        self.assertEqual(Fake.released(), [(1, None)])

    def test_the_last_of_several_gives_the_rows_back(self):
        batch = self.loader.next()
        made = [Consumer(batch.pixels.__dlpack__(stream=7)) for _ in range(3)]
        self.assertTrue(batch.is_shared)
        while made:
            self.assertEqual(Fake.released(), [])
            self.assertTrue(batch.is_shared)
            made.pop().delete()
        self.assertFalse(batch.is_shared)
        batch.release()
        self.assertEqual(Fake.released(), [(0, 7)])

    def test_a_capsule_that_nobody_took_gives_them_back(self):
        batch = self.loader.next()
        capsule = batch.pixels.__dlpack__(stream=9)
        self.assertTrue(batch.is_shared)
        del capsule
        self.assertFalse(batch.is_shared)
        del batch
        self.assertEqual(Fake.released(), [(0, 9)])

    def test_rows_are_held_past_the_loader(self):
        batch = self.loader.next()
        before = ctypes.string_at(batch.pixels.address, batch.pixels.nbytes)
        made, size = Consumer(batch.pixels.__dlpack__(stream=5)), batch.pixels.nbytes
        del batch
        self.loader.close()
        gc.collect()
        self.assertEqual(ctypes.string_at(made.tensor.data, size), before)
        self.assertEqual(Fake.released(), [])
        made.delete()
        self.assertEqual(Fake.released(), [(0, 5)])

    def test_release_after_names_the_stream(self):
        batch = self.loader.next()
        made = Consumer(batch.pixels.__dlpack__(stream=5))
        batch.release_after(11)
        with self.assertRaisesRegex(sluice.InvalidError, "released"):
            batch.pixels
        batch.release_after(12)  # of nothing any more
        self.assertEqual(Fake.released(), [])
        made.delete()
        self.assertEqual(Fake.released(), [(0, 11)])
        self.loader.next().release_after(0)
        self.assertEqual(Fake.released(), [(1, 0)])

    def test_streams_that_are_none_are_refused(self):
        pixels = self.loader.next().pixels
        for number in (0, -2):
            with self.subTest(number), self.assertRaisesRegex(BufferError, "legacy"):
                pixels.__dlpack__(stream=number)
        with self.assertRaises(TypeError):
            pixels.__dlpack__(stream="x")
        del pixels
        self.assertEqual(Fake.released(), [(0, None)])

    def test_a_batch_is_for_one_stream(self):
        batch = self.loader.next()
        made = Consumer(batch.pixels.__dlpack__(stream=5))
        with self.assertRaisesRegex(BufferError, "one stream"):
            batch.pixels.__dlpack__(stream=6)
        made.delete()

    def test_another_device_or_a_copy_is_refused(self):
        pixels = self.loader.next().pixels
        for options in ({"dl_device": (1, 0)}, {"dl_device": (CUDA, DEVICE + 1)}, {"copy": True}):
            with self.subTest(options), self.assertRaises(BufferError):
                pixels.__dlpack__(stream=1, **options)
        Consumer(pixels.__dlpack__(stream=1, dl_device=(CUDA, DEVICE), copy=False,
                                   max_version=(1, 0))).delete()

    def test_the_interface_of_numba(self):
        batch = self.loader.next()
        said = batch.pixels.__cuda_array_interface__
        self.assertEqual(said, {"shape": (BATCH, 64, 64, 3), "typestr": "|u1", "version": 3,
                                "data": (batch.pixels.address, False), "stream": None})
        batch.release()
        self.assertEqual(Fake.released(), [(0, 0)])  # whatever uses it follows the legacy stream

    def test_the_host_is_refused(self):
        batch = self.loader.next()
        with self.assertRaisesRegex(TypeError, f"CUDA device {DEVICE}"):
            numpy.asarray(batch.pixels)
        finisher = _sluice.Finisher(self.loader.info(_sluice.TRAIN)["table"], _sluice.F32, _sluice.NCHW, BATCH,
                                    64, 64)
        with self.assertRaisesRegex(TypeError, f"CUDA device {DEVICE}"):
            finisher.finish(batch)
        with self.assertRaisesRegex(sluice.InvalidError, "gpu_decode.*for the host"):
            sluice.numpy.Loader(self.root, BATCH, pipeline=support.PIPELINE)

    def test_batches_of_the_host_stay_as_they_are(self):
        Fake.device.value = -1
        batch = self.loader.next()
        self.assertEqual((batch.device, batch.pixels.__dlpack_device__()), (-1, (1, 0)))
        made = Consumer(batch.pixels.__dlpack__())
        self.assertEqual((made.tensor.device_type, made.tensor.device_id), (1, 0))
        batch.release_after(4)
        made.delete()
        self.assertEqual(Fake.released(), [(0, None)])


if __name__ == "__main__":
    support.main()
