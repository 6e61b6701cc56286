#!/usr/bin/env python3
"""sluice.torch.Dataset and IterableDataset: the samples of the Loader, also in workers."""
import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

import support
from support import programs


support.require("numpy", "torch")

import torch
from torch.utils.data import DataLoader

import sluice
import sluice.torch

OPTIONS = {"pipeline": support.PIPELINE, "workers": 2, "seed": 3}


def expected(source, epoch, part="train", **options):
    """[(image, label)] by position in the part, as a Loader gives them."""
    with sluice.torch.Loader(source, 8, part=part, sample_ids=True, **OPTIONS, **options) as loader:
        loader.set_epoch(epoch)
        rows = {i: (image.clone(), label) for images, labels, ids in loader
                for image, label, i in zip(images, labels.tolist(), ids.tolist())}
    return [rows[i] for i in sorted(rows)]


def through_workers(root, method, persistent):
    """In a process that has not used the library: what DataLoader's workers give, two epochs."""
    dataset = sluice.torch.Dataset(root, **OPTIONS)
    loader = DataLoader(dataset, 8, num_workers=2, persistent_workers=persistent,
                        multiprocessing_context=method)
    epochs = []
    for epoch in (0, 4):
        dataset.set_epoch(epoch)
        epochs.append([(image.clone(), label) for images, labels in loader
                       for image, label in zip(images, labels.tolist())])
    return epochs


class SampleTest(support.SetTest):
    def assert_same(self, samples, wanted):
        self.assertEqual(len(samples), len(wanted))
        for (image, label), (other, other_label) in zip(samples, wanted):
            self.assertEqual(label, other_label)
            self.assertTrue(torch.equal(image, other))


class DatasetTest(SampleTest):
    def test_samples_are_those_of_the_loader(self):
        for source in (self.root, self.address):
            for epoch in (0, 4):
                dataset = sluice.torch.Dataset(source, **OPTIONS)
                dataset.set_epoch(epoch)
                self.assertEqual(len(dataset), support.NUM_TRAIN)
                self.assert_same([dataset[i] for i in range(len(dataset))],
                                 expected(self.root, epoch))

    def test_samples_are_those_of_replicas_and_shards(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            shards = [stack.enter_context(support.Server(half)).address
                      for half in programs.split(self.root, folder, 2)]
            other = stack.enter_context(support.Server(self.root)).address
            wanted = expected(self.root, 0)
            for source in (f"{self.address},{other}", shards, tuple(shards)):
                with self.subTest(source):
                    dataset = sluice.torch.Dataset(source, **OPTIONS)
                    self.assertEqual(len(dataset), support.NUM_TRAIN)
                    self.assert_same(dataset.__getitems__(range(0, 50, 7)), wanted[::7])

    def test_epochs_differ(self):
        dataset = sluice.torch.Dataset(self.root, **OPTIONS)
        first = dataset[7][0]
        dataset.set_epoch(1)
        self.assertFalse(torch.equal(dataset[7][0], first))
        dataset.set_epoch(0)
        self.assertTrue(torch.equal(dataset[7][0], first))

    def test_items_come_in_the_order_asked_for(self):
        dataset = sluice.torch.Dataset(self.root, rows=4, **OPTIONS)
        wanted = expected(self.root, 0)
        indices = [40, 3, 3, 0, 49, 12, 11, 10, 9]
        self.assert_same(dataset.__getitems__(indices), [wanted[i] for i in indices])
        self.assertEqual(dataset.__getitems__([]), [])

    def test_the_validation_part_has_its_own_numbers(self):
        dataset = sluice.torch.Dataset(self.root, part="val", **OPTIONS)
        self.assertEqual(len(dataset), support.NUM_VAL)
        self.assertEqual(dataset.num_classes, 3)
        self.assert_same(list(dataset), expected(self.root, 0, "val"))

    def test_normalised_samples_are_those_of_the_loader(self):
        dataset = sluice.torch.Dataset(self.root, normalize=True, dtype=torch.float16, **OPTIONS)
        wanted = expected(self.root, 0, normalize=True, dtype=torch.float16)
        self.assertEqual(dataset[0][0].shape, (3, 64, 64))
        self.assert_same([dataset[i] for i in range(9)], wanted[:9])

    def test_transforms_get_the_sample(self):
        dataset = sluice.torch.Dataset(self.root, transform=lambda image: image[:, ::2],
                                       target_transform=lambda label: label + 100, **OPTIONS)
        image, label = dataset[5]
        self.assertEqual(image.shape, (3, 32, 64))
        self.assertGreaterEqual(label, 100)

    def test_a_data_loader_takes_it_without_workers(self):
        dataset = sluice.torch.Dataset(self.root, **OPTIONS)
        wanted = expected(self.root, 0)
        images, labels = zip(*DataLoader(dataset, 8))
        self.assert_same(list(zip(torch.cat(images), torch.cat(labels).tolist())), wanted)

    def test_a_sample_that_there_is_not_is_an_index_error(self):
        dataset = sluice.torch.Dataset(self.root, **OPTIONS)
        for index in (-1, support.NUM_TRAIN):
            with self.assertRaisesRegex(IndexError, str(index)):
                dataset[index]

    def test_bad_arguments_are_named(self):
        for name, value in (("on_error", "skip"), ("part", "test"), ("device", "cuda"),
                            ("shuffle", True)):
            with self.assertRaisesRegex(sluice.InvalidError, name):
                sluice.torch.Dataset(self.root, **{name: value})
        with self.assertRaisesRegex(sluice.InvalidError, "epoch -1"):
            sluice.torch.Dataset(self.root).set_epoch(-1)
        with self.assertRaisesRegex(sluice.InvalidError, "nothing here"):
            len(sluice.torch.Dataset("nothing here"))

    def test_a_dataset_that_changed_is_refused(self):
        dataset = sluice.torch.Dataset(self.root, **OPTIONS)
        len(dataset)
        dataset._found["id"] = "0" * 32  # as if the folder had had others then
        with self.assertRaisesRegex(sluice.StaleError, "0" * 32):
            dataset[0]


@unittest.skipIf(os.environ.get("SLUICE_SANITIZE"), "with a sanitizer workers take half a minute")
class WorkerTest(SampleTest):
    """Each in a process of its own, which has not used the library before."""

    def through_workers(self, method, persistent):
        run = (f"import test_dataset, pickle, sys; sys.stdout.buffer.write(pickle.dumps("
               f"test_dataset.through_workers({self.root!r}, {method!r}, {persistent!r})))")
        here = os.path.dirname(os.path.abspath(__file__))
        path = os.pathsep.join([here, *filter(None, sys.path)])
        done = subprocess.run([sys.executable, "-c", run], stdout=subprocess.PIPE, check=True,
                              env={**os.environ, "PYTHONPATH": path}, timeout=300)
        for epoch, samples in zip((0, 4), pickle.loads(done.stdout)):
            self.assert_same(samples, expected(self.root, epoch))

    def test_forked_workers_give_the_same(self):
        self.through_workers("fork", False)

    def test_spawned_workers_give_the_same(self):
        self.through_workers("spawn", False)

    def test_workers_that_live_on_see_the_epoch(self):
        self.through_workers("fork", True)

    def test_workers_of_a_process_that_used_the_library_are_refused_in_words(self):
        dataset = sluice.torch.Dataset(self.root, **OPTIONS)
        dataset[0]
        with self.assertRaisesRegex(Exception, "forked"):
            list(DataLoader(dataset, 8, num_workers=1, multiprocessing_context="fork"))


class IterableDatasetTest(support.SetTest):
    def ids(self, batches):
        return [ids.tolist() for _, _, ids in batches]

    def test_a_data_loader_yields_the_batches_of_the_loader(self):
        with sluice.torch.Loader(self.root, 8, sample_ids=True, **OPTIONS) as loader:
            wanted = [self.ids(loader) for epoch in range(2)]
        dataset = sluice.torch.IterableDataset(self.root, 8, sample_ids=True, **OPTIONS)
        loader = DataLoader(dataset, batch_size=None)
        iter(loader)  # takes no epoch, as it is not asked for a batch
        self.assertEqual([self.ids(loader) for epoch in range(2)], wanted)
        dataset.set_epoch(1)
        self.assertEqual(self.ids(loader), wanted[1])

    def test_a_state_goes_on_after_the_batch_yielded_last(self):
        dataset = sluice.torch.IterableDataset(self.root, 8, sample_ids=True, **OPTIONS)
        dataset.set_epoch(2)
        self.assertEqual(dataset.state_dict(), {"epoch": 2})
        batches = iter(dataset)
        for _ in range(3):
            next(batches)
        state = dataset.state_dict()
        rest = self.ids(batches)
        other = sluice.torch.IterableDataset(self.address, 8, sample_ids=True, **OPTIONS)
        other.load_state_dict(state)
        self.assertEqual(other.state_dict(), state)
        self.assertEqual(self.ids(other), rest)

    def test_a_state_of_the_other_part_is_refused(self):
        dataset = sluice.torch.IterableDataset(self.root, 8, **OPTIONS)
        next(iter(dataset))
        val = sluice.torch.IterableDataset(self.root, 8, part="val", **OPTIONS)
        with self.assertRaisesRegex(ValueError, "the state is of the train part"):
            val.load_state_dict(dataset.state_dict())

    def in_a_process(self, num_workers):
        """Two epochs of ids by workers, of a process that has not used the library before."""
        run = ("import sluice.torch, test_dataset, torch.utils.data\n"
               f"dataset = sluice.torch.IterableDataset({self.root!r}, 8, sample_ids=True,\n"
               "                                       **test_dataset.OPTIONS)\n"
               "loader = torch.utils.data.DataLoader(dataset, batch_size=None,\n"
               f"                                     num_workers={num_workers})\n"
               "print([[ids.tolist() for _, _, ids in loader] for epoch in range(2)])")
        here = os.path.dirname(os.path.abspath(__file__))
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *filter(None, sys.path)])}
        return subprocess.run([sys.executable, "-c", run], env=env, capture_output=True, text=True,
                              timeout=300)

    @unittest.skipIf(os.environ.get("SLUICE_SANITIZE"), "a worker, as above")
    def test_a_worker_gives_each_epoch(self):
        with sluice.torch.Loader(self.root, 8, sample_ids=True, **OPTIONS) as loader:
            wanted = [self.ids(loader) for epoch in range(2)]
        done = self.in_a_process(1)
        self.assertEqual(done.stdout, f"{wanted}\n", done.stderr)

    def test_two_workers_are_refused(self):
        self.assertIn("num_workers 2", self.in_a_process(2).stderr)


if __name__ == "__main__":
    support.main()
