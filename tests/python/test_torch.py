#!/usr/bin/env python3
"""sluice.torch: tensors that are the library's memory, normalisation bit for bit as torchvision's,
and the same on a GPU where there is one."""
import gc
import unittest

import support

support.require("numpy", "torch")

import torch

import sluice
import sluice.torch

BATCH = 8
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def load(source, **options):
    options = {"pipeline": support.PIPELINE, "workers": 2, "seed": 3, **options}
    return sluice.torch.Loader(source, BATCH, **options)


def normalized(u8):
    """What torchvision's ToTensor and Normalize compute."""
    mean, std = (torch.tensor(v, dtype=torch.float32).view(1, 3, 1, 1) for v in (MEAN, STD))
    return u8.contiguous().to(torch.float32).div(255).sub(mean).div(std)


class TorchTest(support.SetTest):
    def test_images_are_the_memory_of_the_batch(self):
        with load(self.root) as loader:
            loader._loader.start()
            batch = loader._loader.next()
            images, labels = loader._made_of(batch)
            self.assertEqual(images.data_ptr(), batch.pixels.address)
            self.assertEqual(labels.data_ptr(), batch.labels.address)
            self.assertEqual(images.dtype, torch.uint8)
            self.assertEqual(images.shape, (BATCH, 3, 64, 64))
            self.assertTrue(images.is_contiguous(memory_format=torch.channels_last))

    def test_a_view_of_a_row_keeps_its_batch(self):
        with load(self.root) as loader:
            whole = [images.clone() for images, _ in loader]
            loader.set_epoch(0)
            rows = [images[-1] for images, _ in loader]
        gc.collect()
        for row, images in zip(rows, whole):
            self.assertTrue(torch.equal(row, images[-1]))

    def test_ids_and_paths_come_with_the_rows(self):
        with load(self.address, sample_ids=True, paths=True) as loader:
            for images, labels, ids, paths in loader:
                self.assertEqual(ids.dtype, torch.int64)
                self.assertEqual(len(images), len(paths))
                self.assertEqual(paths, [loader.path(i) for i in ids])

    def test_normalised_images_are_those_of_torchvision(self):
        with load(self.root) as loader:
            expected = [normalized(images) for images, _ in loader]
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            for channels_last in (False, True):
                with self.subTest(dtype=dtype, channels_last=channels_last), \
                        load(self.address, normalize=True, dtype=dtype,
                             channels_last=channels_last) as loader:
                    layout = torch.channels_last if channels_last else torch.contiguous_format
                    batches = list(loader)
                    self.assertEqual(len(batches), len(expected))
                    for (images, _), wanted in zip(batches, expected):
                        self.assertEqual(images.dtype, dtype)
                        self.assertTrue(images.is_contiguous(memory_format=layout))
                        self.assertTrue(torch.equal(images, wanted.to(dtype)))

    def test_transforms_get_the_batch(self):
        with load(self.root, transform=lambda images: images[:, :, ::2],
                  target_transform=lambda labels: labels + 100) as loader:
            images, labels = next(iter(loader))
        self.assertEqual(images.shape, (BATCH, 3, 32, 64))
        self.assertTrue((labels >= 100).all())

    def test_a_sampler_of_torch_decides(self):
        sampler = torch.utils.data.SubsetRandomSampler(range(20))
        with load(self.root, sampler=sampler, sample_ids=True) as loader:
            self.assertEqual(len(loader), 3)
            seen = torch.cat([ids for _, _, ids in loader])
        self.assertEqual(len(set(seen.tolist())), 20)

    def test_a_dtype_needs_normalisation(self):
        with self.assertRaisesRegex(sluice.InvalidError, "normalize"):
            load(self.root, dtype=torch.float16)


@unittest.skipUnless(torch.cuda.is_available(), "no GPU")
class CudaTest(support.SetTest):
    def test_a_gpu_has_the_same_bits(self):
        with load(self.root) as loader:
            expected = [(normalized(images), labels.clone()) for images, labels in loader]
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            for channels_last in (False, True):
                with self.subTest(dtype=dtype, channels_last=channels_last), \
                        load(self.root, device="cuda", dtype=dtype,
                             channels_last=channels_last) as loader:
                    batches = list(loader)
                    self.assertEqual(len(batches), len(expected))
                    for (images, labels), (wanted, wanted_labels) in zip(batches, expected):
                        self.assertTrue(images.is_cuda and labels.is_cuda)
                        self.assertTrue(torch.equal(images.cpu(), wanted.to(dtype)))
                        self.assertTrue(torch.equal(labels.cpu(), wanted_labels))

    def test_memory_is_page_locked(self):
        with load(self.root, pin_memory=True) as loader:
            images, _ = next(iter(loader))
            self.assertTrue(images.is_pinned())


class NoCudaTest(support.SetTest):
    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU")
    def test_page_locked_memory_without_a_driver_is_refused(self):
        with self.assertRaisesRegex(sluice.Error, "CUDA"):
            sluice._sluice.Loader({"dir": self.root}, 0)


if __name__ == "__main__":
    support.main()
