#!/usr/bin/env python3
"""Pipelines with views: lists of arrays from sluice.numpy and sluice.torch, the same in every mode, each view as its own
pipeline makes it.  sluice.jax is in test_jax.py."""
import pathlib
import tempfile
import unittest.mock

import support

support.require("numpy", "xxhash")

import numpy

import sluice
import sluice.numpy

# With draws of their own numbers, which a pipeline of one view has, too.
CROPS = ("random_resized_crop=64:scale=0.32-1:filter=bicubic:draws=1,hflip:draws=2,brightness=0.6-1.4:p=0.8:draws=3",
         "random_resized_crop=33x29:scale=0.05-0.32:draws=4,grayscale:p=0.3:draws=5,hflip:draws=6",
         "random_resized_crop=33x29:scale=0.05-0.32:draws=7,tv_blur=0.1-2:kernel=9:p=0.5:draws=8",
         "resize=40,center_crop=21x35")
SIZES = [[64, 64], [33, 29], [33, 29], [21, 35]]
TAIL = ",to_tensor,normalize=imagenet"
VIEWS = f"decode,views({','.join(f'[{crop}]' for crop in CROPS)}){TAIL}"
BATCH = 7
OPTIONS = {"workers": 2, "seed": 3}
MODES = ("local", "remote_nooff", "remote_alloff", "remote_piloff", "remote_sophon", "remote_auto")


def load(source, pipeline=VIEWS, **options):
    return sluice.numpy.Loader(source, BATCH, pipeline=pipeline, **OPTIONS, **options)


def copied(loader):
    return [([view.copy() for view in views], labels.copy()) for views, labels in loader]


def digest_of(batches):
    """Of an epoch: each sample's hash is over its views' bytes in order, then its label."""
    import xxhash
    hashes = []
    for views, labels in batches:
        for row, label in enumerate(labels):
            total = xxhash.xxh3_128()
            for view in views:
                total.update(numpy.ascontiguousarray(view[row]))
            total.update(int(label).to_bytes(8, "little"))
            hashes.append(total.digest())
    return support.digest_of(hashes)


class ViewsTest(support.SetTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with load(cls.root) as loader:
            cls.expected = copied(loader)

    def assert_same(self, batches, wanted):
        self.assertEqual(len(batches), len(wanted))
        for (views, labels), (others, other_labels) in zip(batches, wanted):
            self.assertTrue(numpy.array_equal(labels, other_labels))
            self.assertEqual(len(views), len(others))
            for view, other in zip(views, others):
                self.assertTrue(numpy.array_equal(view, other))

    def test_each_view_is_what_its_own_pipeline_makes(self):
        for i, crop in enumerate(CROPS):
            with load(self.root, f"decode,{crop}{TAIL}") as alone:
                self.assertEqual(alone.info["views"], SIZES[i:i + 1])
                for (images, _), (views, _) in zip(alone, self.expected, strict=True):
                    self.assertTrue(numpy.array_equal(images, views[i]), crop)

    def test_one_digest_in_all_modes(self):
        with tempfile.TemporaryDirectory() as folder:
            sophon = support.sophon(self.root, pathlib.Path(folder, "profile"), "--pipeline", VIEWS)
            for mode in MODES:
                options = sophon if mode == "remote_sophon" else {"mode": mode}
                source = self.root if mode == "local" else self.address
                with self.subTest(mode), load(source, digest=True, **options) as loader:
                    self.assertEqual(loader.info["views"], SIZES)
                    batches = copied(loader)
                    self.assert_same(batches, self.expected)
                    self.assertEqual(loader.stats()["digest"], digest_of(batches))
                    self.assertEqual(loader.info["mode"], mode)

    def test_rows_that_go_through_a_gpu(self):
        for options in ({}, {"on_error": "substitute"}):
            with support.the_cpu_stands_in(), load(self.root, gpu_decode="on", **options) as loader:
                self.assert_same(copied(loader), self.expected)

    def test_a_state_goes_on_in_another_mode(self):
        with load(self.root) as loader:
            epoch = iter(loader)
            for _ in range(3):
                next(epoch)
            state = loader.state_dict()
            epoch.close()
        with load(self.address, mode="remote_piloff") as loader:
            loader.load_state_dict(state)
            self.assert_same(copied(loader), self.expected[3:])
        with load(self.root, VIEWS.replace("[resize=40", "[resize=41")) as other:
            other.load_state_dict(state)
            with self.assertRaisesRegex(sluice.InvalidError, "pipeline"):
                next(iter(other))

    def test_ranks_share_an_epoch_with_padded_rows(self):
        rows = []
        for rank in range(3):
            with load(self.root, rank=rank, world_size=3, sample_ids=True) as loader:
                rows.append([([view.copy() for view in views], ids.copy(), loader.num_padded)
                             for views, _, ids in loader])
        with load(self.root, sample_ids=True) as loader:
            whole = {int(of): [view[row].copy() for view in views]
                     for views, _, ids in loader for row, of in enumerate(ids)}
        seen = set()
        for views, ids, num_padded in (batch for rank in rows for batch in rank):
            for row, of in enumerate(ids):
                for view, want in zip(views, whole[int(of)]):
                    self.assertTrue(numpy.array_equal(view[row], want))
                seen |= {int(of)} if row < len(ids) - num_padded else set()
        self.assertEqual(len(seen), support.NUM_TRAIN)
        self.assertGreater(sum(num_padded for rank in rows for _, _, num_padded in rank), 0)

    def test_held_batches_stay_as_they_are(self):
        with load(self.root, prefetch_bytes="1MiB") as loader:
            held = list(loader)
        self.assert_same(held, self.expected)
        for views, _ in held:
            for view in views:
                view[:] = 7  # they are writable, and share nothing
        self.assertEqual(len({view.ctypes.data for views, _ in held for view in views}), len(SIZES) * len(held))

    def test_draws_are_of_every_view(self):
        with load(self.root) as loader:
            (drawn,), = loader.draws([3], epoch=1)
        self.assertEqual(drawn["op"], "views")
        for crop, size, ops in zip(CROPS, SIZES, drawn["views"], strict=True):
            with load(self.root, f"decode,{crop}{TAIL}") as alone:
                self.assertEqual(alone.draws([3], epoch=1), [ops])
            if "random_resized_crop" in crop:
                self.assertEqual(ops[0]["to"], size[::-1])

    def test_geometry_is_of_each_view(self):
        pipeline = f"decode,views([{CROPS[0]}],[{CROPS[3]}]){TAIL}"
        with load(self.root, pipeline, geometry=True) as loader:
            for views, labels, geometry in loader:
                self.assertEqual(len(geometry), 2)
                self.assertEqual(geometry[1]["matrix"].shape, (len(labels), 3, 3))
                self.assertFalse(numpy.array_equal(geometry[0]["matrix"], geometry[1]["matrix"]))

    def test_what_is_for_one_image_refuses(self):
        with self.assertRaisesRegex(sluice.InvalidError, "python_tail: it is for one image"):
            load(self.root, python_tail=numpy.copy)
        with unittest.mock.patch.object(sluice.numpy.Loader, "_takes_views", False), \
                self.assertRaisesRegex(sluice.InvalidError, "4 views of each sample"):
            load(self.root)
        failed = support.run("offload_train", self.root, "--device", "cpu", "-a", "small_cnn", "--pipeline", VIEWS, code=None)
        self.assertIn("--device none takes them", failed.stderr)
        self.assertEqual(support.train(self.root, "--device", "none", "-b", BATCH, "--seed", 3, "-p", 0, "--digest",
                                       "--pipeline", VIEWS)[-1]["digest"], digest_of(self.expected))

    def test_val_of_a_pipeline_with_views_is_one_image(self):
        with load(self.root, part="val") as loader:
            self.assertEqual(loader.info["views"], [[64, 64]])
            self.assertEqual({images.shape[1:] for images, _ in loader}, {(64, 64, 3)})
        with load(self.root, part="val", val_pipeline="decode,views([center_crop=8],[center_crop=9])") as loader:
            self.assertEqual({tuple(view.shape[1] for view in views) for views, _ in loader}, {(8, 9)})


class BadSampleTest(support.CorruptSetTest):
    def test_bad_rows_are_left_out_or_replaced_with_all_views(self):
        with load(self.root, on_error="skip", sample_ids=True) as loader:
            whole = {int(of): [view[row].copy() for view in views]
                     for views, _, ids in loader for row, of in enumerate(ids)}
        self.assertEqual(len(whole), support.NUM_TRAIN - 1)
        for options in ({}, {"gpu_decode": "on"}):
            with support.the_cpu_stands_in(), load(self.root, on_error="substitute", sample_ids=True, **options) as loader:
                num_rows = 0
                for views, _, ids in loader:
                    num_rows += len(ids)
                    for row, of in enumerate(ids):
                        for view, want in zip(views, whole[int(of)], strict=True):
                            self.assertTrue(numpy.array_equal(view[row], want))
            self.assertEqual(num_rows, support.NUM_TRAIN)


try:
    import torch

    import sluice.torch
except ImportError:
    torch = None


@unittest.skipIf(torch is None, "torch is missing")
class TorchTest(support.SetTest):
    def load(self, **options):
        return sluice.torch.Loader(self.root, BATCH, pipeline=VIEWS, **OPTIONS, **options)

    def test_views_are_those_of_numpy(self):
        with load(self.root) as loader:
            expected = copied(loader)
            table = torch.from_numpy(sluice.numpy.normalization(loader).copy())
        for options in ({}, {"normalize": True}, {"normalize": True, "channels_last": True}, {"device": "cpu"},
                        {"device": "cpu", "normalize": False}, {"normalize": True, "dtype": torch.bfloat16}):
            with self.subTest(**options), self.load(**options) as loader:
                for (views, labels), (others, other_labels) in zip(loader, expected, strict=True):
                    self.assertTrue(torch.equal(labels, torch.from_numpy(other_labels)))
                    for view, other in zip(views, others, strict=True):
                        want = torch.from_numpy(other).permute(0, 3, 1, 2)
                        if options.get("normalize", "device" in options):
                            index = want.to(torch.int64) + torch.tensor([0, 256, 512]).view(3, 1, 1)
                            want = table.reshape(-1)[index].to(options.get("dtype", torch.float32))
                            self.assertEqual(view.stride(1) == 1, "channels_last" in options)
                        self.assertEqual(view.dtype, want.dtype)
                        self.assertTrue(torch.equal(view, want))

    @unittest.skipUnless(torch is not None and torch.cuda.is_available(), "no GPU")
    def test_a_gpu_has_the_same_bits(self):
        with self.load(normalize=True, geometry=True) as loader:
            expected = list(loader)
        for decode in ("on", "off"):
            with self.subTest(decode), self.load(device="cuda", gpu_decode=decode, geometry=True) as loader:
                for (views, labels, geometry), (others, other_labels, wanted) in zip(loader, expected, strict=True):
                    self.assertTrue(torch.equal(labels.cpu(), other_labels))
                    for view, other in zip(views, others, strict=True):
                        self.assertTrue(view.is_cuda and torch.equal(view.cpu(), other))
                    for one, other in zip(geometry, wanted, strict=True):
                        self.assertTrue(torch.equal(one["matrix"], other["matrix"]))

    def test_a_transform_gets_the_list(self):
        with self.load(transform=len) as loader:
            self.assertEqual({count for count, _ in loader}, {len(SIZES)})

    def test_a_dataset_gives_the_views_of_a_sample(self):
        dataset = sluice.torch.Dataset(self.root, pipeline=VIEWS, seed=3, workers=2)
        with self.load(sample_ids=True, shuffle=False) as loader:
            rows = [([view[row] for view in views], int(label))
                    for views, labels, _ in loader for row, label in enumerate(labels)]
        for views, label in (dataset[11], dataset[12], *dataset.__getitems__([4, 2, 4])):
            self.assertIsInstance(views, list)
            self.assertTrue(any(label == other and all(map(torch.equal, views, others)) for others, other in rows))
        batch, _ = next(iter(torch.utils.data.DataLoader(dataset, 5)))
        self.assertEqual([tuple(view.shape) for view in batch], [(5, 3, *size) for size in SIZES])

    def test_ops_of_batches_refuse(self):
        for op in (sluice.torch.Mix(mixup=0.2), sluice.torch.RandomErasing()):
            with self.assertRaisesRegex(sluice.InvalidError, "batch_ops: Mix and RandomErasing are for one image"):
                self.load(normalize=True, batch_ops=[op])
        with self.load(normalize=True, batch_ops=[sluice.torch.RandomErasing()], part="val") as loader:
            self.assertEqual(loader.info["views"], [[64, 64]])


if __name__ == "__main__":
    support.main()
