#!/usr/bin/env python3
"""sluice._sluice, sluice.numpy and sluice.Server: the same bytes from a folder and a server,
places, batches that are held, errors in words, and Ctrl-C."""
import contextlib
import gc
import hashlib
import json
import os
import pathlib
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import support
from support import programs

support.require("numpy")

import numpy

import sluice
import sluice.numpy
from sluice import _batches, _sluice

BATCH = 8
WALK = """
import sys, sluice.numpy
try:
    sluice.numpy.Loader(sys.argv[1], 8)
except KeyboardInterrupt:
    print("interrupted")
"""


def load(source, **options):
    options = {"pipeline": support.PIPELINE, "workers": 2, "seed": 3, **options}
    return sluice.numpy.Loader(source, BATCH, sample_ids=True, **options)


def digest(batches):
    """Of all rows, in the order they came."""
    total = hashlib.sha256()
    for images, labels, ids in batches:
        for array in (images, labels, ids):
            total.update(numpy.ascontiguousarray(array))
    return total.hexdigest()


class LoaderTest(support.SetTest):
    def test_every_mode_gives_the_same_bytes(self):
        with load(self.root) as loader:
            expected = digest(loader)
            other_epoch = digest(loader)
        self.assertNotEqual(expected, other_epoch)
        for mode in ("remote_nooff", "remote_alloff", "remote_piloff", "remote_auto"):
            with self.subTest(mode), load(self.address, mode=mode) as loader:
                self.assertEqual(loader.info["mode"], mode)
                self.assertEqual(digest(loader), expected)

    def test_an_epoch_has_every_sample_once(self):
        with load(self.root) as loader:
            batches = list(loader)
            self.assertEqual(len(batches), len(loader))
            ids = numpy.concatenate([batch[2] for batch in batches])
            self.assertEqual(ids.dtype, numpy.uint64)
            self.assertEqual(len(set(ids.tolist())), support.NUM_TRAIN)
            self.assertEqual(loader.info["num_samples"], (support.NUM_TRAIN, support.NUM_VAL))
            for images, labels, ids in batches:
                self.assertEqual(images.shape, (len(ids), 64, 64, 3))
                classes = [loader.path(i).split("/")[-2] for i in ids]
                self.assertEqual([sorted(os.listdir(self.root + "/train")).index(c)
                                  for c in classes], labels.tolist())
            self.assertIsNone(loader.path(10 ** 9))

    def test_rows_need_not_be_square(self):
        pipeline = "decode,center_crop=40x24,to_tensor"
        with sluice.numpy.Loader(self.root, 7, pipeline=pipeline, part="val") as loader:
            self.assertEqual(loader.info["views"], [[40, 24]])
            expected = [images for images, _ in loader]
            self.assertEqual({images.shape[1:] for images in expected}, {(40, 24, 3)})
        finished = _sluice.Finisher(loader.info["table"], _sluice.F32, _sluice.NCHW, 7, 40, 24)
        with sluice.numpy.Loader(self.address, 7, pipeline=pipeline, part="val") as loader:
            loader._loader.start(0, _sluice.VAL)
            for want in expected:
                batch = loader._loader.next()
                self.assertTrue((numpy.asarray(batch.pixels) == want).all())
                made = numpy.asarray(finished.finish(batch))
                self.assertTrue((made * numpy.float32(255) == want.transpose(0, 3, 1, 2)).all())

    def test_a_batch_of_one_view_has_that_in_its_list(self):
        loader = _sluice.Loader({"dir": self.root, "dataset-mode": "local", "batch-size": "5", "image-size": "32"})
        loader.open()
        info = loader.info(_sluice.TRAIN)
        self.assertEqual(info["views"], [[32, 32]])
        loader.start()
        batch = loader.next()
        view, = batch.views
        self.assertEqual((view.address, view.shape), (batch.pixels.address, batch.pixels.shape))
        of_view_1 = _sluice.Finisher(info["table"], _sluice.F32, _sluice.NCHW, 5, 32, 32, view=1)
        with self.assertRaisesRegex(ValueError, "the batch has no view 1"):
            of_view_1.finish(batch)
        loader.close()

    def test_val_is_a_part(self):
        with load(self.root, part="val") as loader:
            self.assertEqual(sum(len(labels) for _, labels, _ in loader), support.NUM_VAL)

    def test_held_batches_stay_as_they_are(self):
        with load(self.root, prefetch_bytes="1MiB") as loader:
            expected = [digest([batch]) for batch in loader]
            loader.set_epoch(0)
            held = list(loader)
        gc.collect()
        self.assertEqual([digest([batch]) for batch in held], expected)  # after close, too
        for images, _, _ in held:
            images[:] = 7  # they are writable, and each its own memory
        self.assertEqual(len({batch[0].ctypes.data for batch in held}), len(held))

    def test_a_state_goes_on_after_the_batch_yielded_last(self):
        with load(self.root) as loader:
            loader.set_epoch(2)
            epoch = iter(loader)
            for _ in range(3):
                next(epoch)
            state = loader.state_dict()
            self.assertLess(len(json.dumps(state)), 1024)
            rest = [digest([batch]) for batch in epoch]
            self.assertEqual(loader.state_dict(), {"epoch": 3})
            loader.load_state_dict(json.loads(json.dumps(state)))
            self.assertEqual([digest([batch]) for batch in loader], rest)
        with load(self.address) as loader:
            loader.load_state_dict(state)
            self.assertEqual([digest([batch]) for batch in loader], rest)
            self.assertEqual(loader.state_dict(), {"epoch": 3})

    def test_an_epoch_goes_on_with_other_numbers_of_ranks(self):
        """One global batch with 1 rank, one with 2, the rest with 3: each sample once, in the same order."""
        size, pipeline = 12, {"pipeline": support.PIPELINE, "workers": 2, "seed": 3, "sample_ids": True}
        with sluice.numpy.Loader(self.root, size, **pipeline) as loader:
            whole = [i for *_, ids in loader for i in ids.tolist()]
        self.assertEqual(sorted(whole), list(range(support.NUM_TRAIN)))
        seen, state = [], None
        for world_size, num_batches in ((1, 1), (2, 1), (3, None)):
            shares = []
            for rank in range(world_size):
                with sluice.numpy.Loader(self.root, size // world_size, rank=rank, world_size=world_size,
                                         **pipeline) as loader:
                    if state:
                        loader.load_state_dict(state)
                    epoch = iter(loader)
                    shares.append([ids.tolist() for _, (*_, ids) in zip(range(num_batches or 99), epoch)])
                    after = loader.state_dict()
            self.assertEqual(len({len(batches) for batches in shares}), 1)
            seen += [i for batches in zip(*shares) for ids in batches for i in ids]
            state = after
        self.assertEqual(seen[:len(whole)], whole)
        self.assertLess(len(seen) - len(whole), 3)  # what pads the last batch

    def test_an_order_of_shards_is_one_for_all_ranks_and_goes_on(self):
        with load(self.root, shuffle_shards=1) as loader:
            whole = [batch[2].tolist() for batch in loader]
            epoch = iter(loader)
            again = [next(epoch)[2].tolist()]
            state = loader.state_dict()
        ids = sum(whole, [])
        self.assertEqual(sorted(ids), list(range(len(ids))))
        with load(self.address, shuffle_shards=1) as loader:
            self.assertEqual([batch[2].tolist() for batch in loader], whole)
            loader.load_state_dict(state)
            again += [batch[2].tolist() for batch in loader]
        with load(self.root, shuffle_shards=1) as loader:
            loader.set_epoch(1)
            self.assertEqual([batch[2].tolist() for batch in loader], again)
            classes = [loader.path(i).split("/")[-2] for i in ids]
        # One folder after another.
        self.assertEqual(sum(a != b for a, b in zip(classes, classes[1:])), len(set(classes)) - 1)
        ranks = []
        for rank in range(2):
            with sluice.numpy.Loader(self.root, BATCH // 2, sample_ids=True, seed=3, rank=rank,
                                     world_size=2, pipeline=support.PIPELINE,
                                     shuffle_shards=1) as loader:
                ranks.append([batch[2] for batch in loader])
        shared = numpy.concatenate([part for pair in zip(*ranks) for part in pair])
        self.assertEqual(shared.tolist(), ids)
        with load(self.root) as loader:
            loader.load_state_dict(state)
            with self.assertRaisesRegex(sluice.InvalidError, "shuffle-shards"):
                next(iter(loader))

    def test_a_state_of_the_other_part_is_refused(self):
        with load(self.root) as train, load(self.root, part="val") as val:
            next(iter(train))
            next(iter(val))
            states = {"train": train.state_dict(), "val": val.state_dict()}
            for loader, part, other in (train, "train", "val"), (val, "val", "train"):
                loader.set_epoch(5)
                with self.assertRaisesRegex(ValueError, f"the state is of the {other} part, and "
                                            f"this loader is of the {part} part"):
                    loader.load_state_dict(states[other])
                self.assertEqual(loader.state_dict(), {"epoch": 5})  # as before
                loader.load_state_dict(states[part])
                self.assertEqual(loader.state_dict(), states[part])
            with self.assertRaises(sluice.CorruptError):
                train.load_state_dict({"epoch": 0, "batch": "{}"})

    def test_a_state_of_another_seed_is_refused(self):
        with load(self.root) as loader:
            next(iter(loader))
            state = loader.state_dict()
        with load(self.root, seed=4) as loader:
            loader.load_state_dict(state)
            with self.assertRaisesRegex(sluice.InvalidError, "seed"):
                next(iter(loader))

    def test_an_epoch_is_that_which_was_set(self):
        with load(self.root) as loader:
            in_turn = [digest(loader) for _ in range(3)]
            self.assertEqual(len(set(in_turn)), 3)
            loader.set_epoch(1)
            self.assertEqual([digest(loader), digest(loader)], in_turn[1:])
            with self.assertRaises(TypeError):
                loader.set_epoch("1")

    def test_an_order_is_delivered_as_given(self):
        positions = [7, 3, 3, 40, 0, 11, 12, 13, 14]
        with load(self.root, sampler=positions) as loader:
            self.assertEqual(len(loader), 2)
            ids = numpy.concatenate([batch[2] for batch in loader])
        with load(self.root, shuffle=False) as loader:
            in_turn = numpy.concatenate([batch[2] for batch in loader])
        self.assertEqual(len(in_turn), support.NUM_TRAIN)
        self.assertEqual(in_turn.tolist(), sorted(in_turn.tolist()))
        self.assertEqual(ids.tolist(), in_turn[positions].tolist())

    def test_the_last_batch_can_be_dropped(self):
        for sampler, whole in ((None, support.NUM_TRAIN // BATCH), (range(20), 20 // BATCH),
                               (range(BATCH), 1), (range(BATCH - 1), 0)):
            with self.subTest(sampler=sampler), \
                    load(self.root, drop_last=True, sampler=sampler) as loader:
                self.assertEqual(len(loader), whole)
                self.assertEqual([len(labels) for _, labels, _ in loader], [BATCH] * whole)

    def test_ranks_share_global_batches(self):
        with load(self.root) as loader:
            whole = numpy.concatenate([batch[2] for batch in loader])
        ranks = []
        for rank in range(2):
            with sluice.numpy.Loader(self.root, BATCH // 2, sample_ids=True, seed=3, rank=rank,
                                     world_size=2, pipeline=support.PIPELINE) as loader:
                ranks.append([batch[2] for batch in loader])
        shared = numpy.concatenate([ids for pair in zip(*ranks) for ids in pair])
        self.assertEqual(shared.tolist(), whole.tolist())

    def test_a_later_iter_ends_the_earlier_one(self):
        with load(self.root) as loader:
            first = iter(loader)
            next(first)
            second = iter(loader)
            rows = len(next(second)[1])
            with self.assertRaisesRegex(sluice.InvalidError, "later iter"):
                next(first)
            self.assertEqual(rows + sum(len(batch[1]) for batch in second), support.NUM_TRAIN)

    def test_an_iterator_that_is_not_used_takes_no_epoch(self):
        with load(self.root) as loader:
            expected = [digest(loader), digest(loader)]
            loader.set_epoch(0)
            iter(loader)
            self.assertEqual(digest(loader), expected[0])
            iter(loader)
            self.assertEqual(digest(loader), expected[1])

    def test_stats_are_those_of_the_epoch(self):
        with load(self.root) as loader:
            with self.assertRaises(sluice.InvalidError):
                loader.stats()  # none has ended
            list(loader)
            self.assertEqual(loader.stats()["epoch"], 0)

    def test_counters_are_there_at_any_time(self):
        with load(self.root) as loader:
            self.assertEqual(loader.counters()["samples"], 0)
            batches = iter(loader)
            next(batches), next(batches)
            before = loader.counters()
            self.assertEqual((before["samples"], before["batches"]), (2 * BATCH, 1))
            self.assertGreaterEqual(before["choices"]["raw@0"], 2 * BATCH)
            self.assertGreater(before["wait_s"]["trainer"], 0)
            self.assertEqual((before["errors"], before["lost_s"]), (0, 0))
            list(batches)
            self.assertEqual(loader.counters()["samples"], loader.stats()["samples"])

    def test_normalization_is_that_of_the_pipeline(self):
        with load(self.root) as loader:
            table = sluice.numpy.normalization(loader)
        u8 = numpy.arange(256, dtype=numpy.float32) / numpy.float32(255)
        for c, (mean, std) in enumerate(zip((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))):
            expected = (u8 - numpy.float32(mean)) / numpy.float32(std)
            self.assertEqual(table[c].tolist(), expected.tolist())


class DigestTest(support.SetTest):
    """The digest over what Python received, of all ranks in global order."""
    MODES = ("local", "remote_nooff", "remote_alloff", "remote_piloff", "remote_sophon",
             "remote_auto")
    EPOCH = 1

    def received(self, source, world_size, **options):
        """Hashes of the rows: of each global batch rank after rank, without what repeats others."""
        ranks = []
        for rank in range(world_size):
            with sluice.numpy.Loader(source, BATCH // world_size, seed=3, rank=rank,
                                     world_size=world_size, pipeline=support.PIPELINE, workers=2,
                                     **options) as loader:
                loader.set_epoch(self.EPOCH)
                ranks.append([
                    [support.row_hash(*row) for row in zip(images, labels)]
                    [:len(labels) - loader.num_padded] for images, labels in loader])
        self.assertEqual(len({len(batches) for batches in ranks}), 1)
        return [row for shares in zip(*ranks) for rows in shares for row in rows]

    def test_it_is_that_of_offload_train(self):
        support.require("xxhash")
        flags = ("--batch-size", str(BATCH), "--seed", "3", "--pipeline", support.PIPELINE)
        expected = support.train(self.root, "--epochs", str(self.EPOCH + 1),
                                 *flags)[self.EPOCH]["digest"]
        sophon = support.sophon(self.root, os.path.join(os.path.dirname(self.root), "profile"),
                                *flags)
        # With a sanitizer a loader takes seconds.
        worlds = (1, 4) if os.environ.get("SLUICE_SANITIZE") else (1, 2, 4, 8)
        for mode in self.MODES:
            source = self.root if mode == "local" else self.address
            options = sophon if mode == "remote_sophon" else {"mode": mode}
            for world_size in worlds:
                with self.subTest(mode, world_size=world_size):
                    hashes = self.received(source, world_size, **options)
                    self.assertEqual(len(hashes), support.NUM_TRAIN)
                    self.assertEqual(support.digest_of(hashes), expected)


def finisher(loader, dtype=_sluice.F32, layout=_sluice.NCHW, rows=support.NUM_TRAIN, threads=1):
    info = loader.info
    return _sluice.Finisher(info["table"], dtype, layout, rows, info["height"], info["width"],
                            threads)


def one_batch(loader):
    loader._loader.start()
    return loader._loader.next()


class FinisherTest(support.SetTest):
    LARGE = "decode,random_resized_crop=256,hflip,to_tensor,normalize=imagenet"  # 38 MB in float32

    def test_any_number_of_threads_gives_the_bytes_of_the_table(self):
        with sluice.numpy.Loader(self.root, support.NUM_TRAIN, pipeline=self.LARGE) as loader:
            batch = one_batch(loader)
            table = sluice.numpy.normalization(loader)
            u8 = numpy.asarray(batch.pixels)
            expected = numpy.stack([table[c][u8[..., c]] for c in range(3)], axis=-1)
            for threads in (1, 2, 7, 1000):
                with self.subTest(threads=threads):
                    made = finisher(loader, layout=_sluice.NHWC, threads=threads).finish(batch)
                    self.assertTrue((numpy.asarray(made) == expected).all())
                    made = finisher(loader, threads=threads).finish(batch)
                    self.assertTrue((numpy.asarray(made) == expected.transpose(0, 3, 1, 2)).all())
                    half = finisher(loader, _sluice.F16, threads=threads).finish(batch)
                    self.assertTrue((numpy.asarray(half) ==
                                     expected.transpose(0, 3, 1, 2).astype(numpy.float16)).all())

    def test_no_thread_stays(self):
        with sluice.numpy.Loader(self.root, support.NUM_TRAIN, pipeline=self.LARGE) as loader:
            batch = one_batch(loader)
            for _ in loader:  # its threads are there now
                pass
            before = len(os.listdir("/proc/self/task"))
            finisher(loader, threads=8).finish(batch)
            ends = time.monotonic() + 10  # the kernel takes a joined one off the list a bit later
            while len(os.listdir("/proc/self/task")) > before and time.monotonic() < ends:
                pass
            self.assertLessEqual(len(os.listdir("/proc/self/task")), before)

    def test_memory_is_used_anew_once_nobody_holds_it(self):
        with load(self.root) as loader:
            batch = one_batch(loader)
            finish = finisher(loader).finish
            first = numpy.asarray(finish(batch))
            expected, address = first.copy(), first.ctypes.data
            row = first[3]
            del first
            held = [numpy.asarray(finish(batch)) for _ in range(5)]
            self.assertEqual(len({address, *(array.ctypes.data for array in held)}), 6)
            self.assertTrue((row == expected[3]).all())
            del row
            self.assertEqual(finish(batch).address, address)
            del finish  # arrays outlive it
            batch.release()
        for array in held:
            self.assertTrue((array == expected).all())
            array[:] = 7

    def test_what_does_not_fit_is_refused(self):
        with load(self.root) as loader:
            batch = one_batch(loader)
            with self.assertRaisesRegex(ValueError, "8 rows of 64 x 64 pixels is too large"):
                finisher(loader, rows=BATCH - 1).finish(batch)
            with self.assertRaisesRegex(ValueError, "0 rows"):
                finisher(loader, rows=0)
            with self.assertRaisesRegex(ValueError, "dtype"):
                finisher(loader, dtype=9)
            with self.assertRaisesRegex(ValueError, "layout"):
                finisher(loader, layout=9)
            with self.assertRaisesRegex(ValueError, "3072 bytes"):
                _sluice.Finisher(b"", _sluice.F32, _sluice.NCHW, 1, 1, 1)
            with self.assertRaisesRegex(TypeError, "Batch"):
                finisher(loader).finish(None)
            batch.release()
            with self.assertRaisesRegex(sluice.InvalidError, "released"):
                finisher(loader).finish(batch)


class ErrorTest(support.SetTest):
    def test_an_unknown_setting_is_named(self):
        with self.assertRaisesRegex(ValueError, "batch-sice") as caught:
            _sluice.Loader({"batch-sice": "8"})
        self.assertEqual(caught.exception.status, "invalid")
        self.assertIsInstance(caught.exception, sluice.InvalidError)

    def test_a_source_is_a_folder_or_a_server(self):
        with self.assertRaisesRegex(sluice.InvalidError, "nothing here"):
            load("nothing here")
        with self.assertRaises(sluice.Error):
            load("/no/such/folder")

    def test_an_order_has_positions_of_the_part(self):
        for sampler, words in (([1, support.NUM_TRAIN], "place 1 .* is 50: train has .* 0 to 49"),
                               ([1, -1], "sampler: .* from 0 on"),
                               ([[1, 2]], "sampler: .* one by one"),
                               (7, "sampler: .* 'int' object is not iterable")):
            with self.subTest(sampler=sampler), load(self.root, sampler=sampler) as loader:
                with self.assertRaisesRegex(sluice.InvalidError, words):
                    next(iter(loader))

    def test_half_of_what_a_launcher_says_is_refused(self):
        for half, other in (("SLURM_NTASKS", "SLURM_PROCID"),  # salloc without srun
                            ("WORLD_SIZE", "RANK")):
            with self.subTest(half), unittest.mock.patch.dict(os.environ, {half: "4"}):
                os.environ.pop(other, None)
                with self.assertRaisesRegex(sluice.InvalidError,
                                            f"{half} .* {other} is not: .*rank and .*world-size"):
                    load(self.root)
                with sluice.numpy.Loader(self.root, BATCH, rank=0, world_size=1) as loader:
                    self.assertEqual(len(loader), -(-support.NUM_TRAIN // BATCH))

    def test_settings_are_strings(self):
        with self.assertRaisesRegex(TypeError, "'batch-size'"):
            _sluice.Loader({"batch-size": 8})
        with self.assertRaisesRegex(ValueError, "null"):
            _sluice.Loader({"batch-size": "8\0"})

    def test_val_may_end_at_another_size_and_table(self):
        train = "decode,random_resized_crop=32,hflip,to_tensor"
        val = "decode,resize=56,center_crop=48,to_tensor,normalize=imagenet"
        settings = {"dir": self.root, "dataset-mode": "local", "batch-size": str(BATCH), "workers": "2"}

        def rows(loader, part):
            loader.start(1, part, None, None)
            while (batch := loader.next()) is not None:
                yield numpy.asarray(batch.pixels).copy()
            loader.finish()

        def opened(**pipelines):
            loader = _sluice.Loader({**settings, **pipelines}, -1)
            loader.open()
            return loader

        def check(loader, part, want):
            self.assertTrue(want)
            for got, row in zip(rows(loader, part), want, strict=True):
                numpy.testing.assert_array_equal(got, row)

        alone = opened(pipeline=train)
        want_train = list(rows(alone, _sluice.TRAIN))
        self.assertEqual(alone.info(_sluice.VAL)["table"], alone.info(_sluice.TRAIN)["table"])
        alone.close()
        for gpu in ("off", "on"):
            with self.subTest(gpu), support.the_cpu_stands_in():
                loader = opened(pipeline=train, **{"val-pipeline": val, "gpu-decode": gpu})
                of_val = opened(pipeline=val, **{"val-pipeline": val, "gpu-decode": gpu})
                want_val = list(rows(of_val, _sluice.VAL))
                self.assertEqual(want_val[0].shape[1:], (48, 48, 3))
                for part, want in ((_sluice.TRAIN, want_train), (_sluice.VAL, want_val),
                                   (_sluice.TRAIN, want_train)):
                    check(loader, part, want)
                info = loader.info(_sluice.VAL)
                self.assertEqual((info["height"], info["width"]), (48, 48))
                self.assertEqual(info["table"], of_val.info(_sluice.TRAIN)["table"])
                self.assertNotEqual(info["table"], loader.info(_sluice.TRAIN)["table"])
                self.assertEqual(loader.info(_sluice.TRAIN)["height"], 32)
                loader.close()
                of_val.close()

    def test_a_closed_loader_says_so(self):
        loader = load(self.root)
        loader.close()
        loader.close()
        for call in (loader.stats, loader.__len__, lambda: next(iter(loader))):
            with self.assertRaisesRegex(sluice.ClosedError, "closed"):
                call()

    def test_a_loader_must_be_open(self):
        loader = _sluice.Loader({"dir": self.root, "dataset-mode": "local"})
        for call in (lambda: loader.info(_sluice.TRAIN), loader.start, loader.next, loader.finish):
            with self.assertRaisesRegex(sluice.InvalidError, "open"):
                call()

    @unittest.skipIf("thread" in os.environ.get("SLUICE_SANITIZE", ""),
                     "ThreadSanitizer ends a child of fork that starts a thread")
    def test_a_child_of_fork_is_refused(self):
        with load(self.root) as loader:
            child = os.fork()
            if child == 0:
                try:
                    next(iter(loader))
                    os._exit(1)
                except sluice.InvalidError as error:
                    loader.close()  # does nothing there, and does not wait
                    os._exit(0 if "fork" in str(error) else 3)
                finally:
                    os._exit(2)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(sum(len(batch[1]) for batch in loader), support.NUM_TRAIN)

    def test_a_batch_that_was_released_is_refused(self):
        with load(self.root) as loader:
            loader._loader.start()
            batch = loader._loader.next()
            pixels = numpy.asarray(batch.pixels)
            before = pixels.copy()
            batch.release()
            batch.release()
            with self.assertRaisesRegex(sluice.InvalidError, "released"):
                batch.pixels
            loader._loader.finish()
        self.assertTrue((pixels == before).all())

    def test_a_wait_ends_after_its_time(self):
        with support.Server(self.root) as server:
            loader = load(server.address, repeat=100, prefetch_bytes="1MiB", sample_timeout=60)
            loader._loader.start()
            server.process.send_signal(signal.SIGSTOP)
            try:
                with self.assertRaises(TimeoutError) as caught:
                    while loader._loader.next(timeout=0.1):
                        pass
            finally:
                server.process.send_signal(signal.SIGCONT)
            self.assertIsInstance(caught.exception, sluice.AgainError)
            self.assertTrue(loader._loader.next())  # nothing was wrong
            loader.close()


class BadSampleTest(support.CorruptSetTest):
    def sources(self):
        yield self.root, None
        for mode in ("remote_nooff", "remote_alloff", "remote_auto"):
            yield self.address, mode

    def test_an_error_names_the_sample_and_its_file(self):
        for source, mode in self.sources():
            with self.subTest(mode=mode), load(source, mode=mode, on_error="fail") as loader:
                with self.assertRaisesRegex(sluice.CorruptError, rf"sample 10 \({self.corrupt}\)"):
                    for _ in loader:
                        pass

    def test_what_comes_without_it_is_what_offload_train_gets(self):
        for on_error, rows in (("skip", support.NUM_TRAIN - 1), ("substitute", support.NUM_TRAIN)):
            expected = support.train(
                self.root, "--batch-size", str(BATCH), "--seed", "3", "--pipeline",
                support.PIPELINE, "--on-error", on_error, "--epochs", "1")[0]
            self.assertEqual((expected["samples"], expected["errors"]), (rows, 1))
            seen = set()
            for source, mode in self.sources():
                with self.subTest(on_error, mode=mode), \
                        load(source, mode=mode, on_error=on_error) as loader:
                    seen.add(digest(loader))
                    stats = loader.stats()
                    self.assertEqual(stats["digest"], expected["digest"])
                    self.assertEqual(stats["error_samples"][0]["path"], self.corrupt)
            self.assertEqual(len(seen), 1)


class StandInTest(support.SetTest):
    """Batches that are made on the GPU, for which the CPU stands in."""

    def test_every_mode_gives_the_same_bytes(self):
        with load(self.root) as loader:
            expected = digest(loader)
        for source, mode in ((self.root, None), (self.address, "remote_nooff"),
                             (self.address, "remote_alloff"), (self.address, "remote_auto")):
            with self.subTest(mode), support.the_cpu_stands_in(), \
                    load(source, mode=mode, gpu_decode="on") as loader:
                self.assertEqual(digest(loader), expected)

    def test_batches_go_back_on_any_thread_and_after_the_loader(self):
        with load(self.root, repeat=4) as loader:
            wanted = [digest([batch]) for batch in loader]
        given = queue.Queue(maxsize=1)

        def take():
            while (item := given.get()) is not None:
                seen.append(digest([item]))
                del item

        seen = []
        thread = threading.Thread(target=take)
        thread.start()
        with support.the_cpu_stands_in(), load(self.root, repeat=4, gpu_decode="on") as loader:
            for batch in loader:
                given.put(batch)
            last = batch
        given.put(None)
        thread.join()
        self.assertEqual(seen, wanted)
        self.assertEqual(digest([last]), wanted[-1])

    def test_a_loader_goes_on_when_one_of_all_batches_goes_back(self):
        with support.the_cpu_stands_in(), load(self.root, repeat=2, gpu_decode="on") as loader:
            inner = loader._loader
            inner.start()
            held = []
            with self.assertRaisesRegex(sluice.NoMemoryError, "held: release one") as caught:
                while (batch := inner.next()) is not None:
                    held.append(batch)
            self.assertIsInstance(caught.exception, MemoryError)
            indices = [batch.index for batch in held]
            while held:
                held.pop(0).release()
                if (batch := inner.next()) is not None:
                    held.append(batch)
                    indices.append(batch.index)
            self.assertEqual(indices, list(range(len(loader))))
            inner.finish()


class SignalTest(support.SetTest):
    def test_ctrl_c_leaves_open(self):
        with socket.socket() as port:  # that nobody listens on
            port.bind(("127.0.0.1", 0))
            with support.signal_after(0.3) as since:
                with self.assertRaises(KeyboardInterrupt):
                    load(f"127.0.0.1:{port.getsockname()[1]}", retry_for="2m")
                self.assertLess(since(), 60)  # of the two minutes

    @unittest.skipIf(os.environ.get("SLUICE_SANITIZE"), "a sanitizer's library is loaded first")
    def test_ctrl_c_leaves_a_walk_over_a_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            walked = os.path.join(folder, "calls")  # how many, as 8 bytes

            def num_walked():
                with contextlib.suppress(FileNotFoundError), open(walked, "rb") as file:
                    return int.from_bytes(file.read(), "little")
                return 0

            with subprocess.Popen(
                    [sys.executable, "-c", WALK, self.root], stdout=subprocess.PIPE,
                    env=programs.bad_disk(
                        f"call=readdir,path={self.root},count={walked},do=delay:100000")) as process:
                while num_walked() < 3:
                    self.assertIsNone(process.poll())
                process.send_signal(signal.SIGINT)
                self.assertEqual(process.communicate()[0], b"interrupted\n")
            # The rest of the walk would be as many calls as there are files, and more.
            self.assertLess(num_walked(), support.NUM_TRAIN / 2)

    def test_ctrl_c_leaves_next(self):
        with support.Server(self.root) as server:
            loader = load(server.address, repeat=100, prefetch_bytes="1MiB", sample_timeout=60)
            batches = iter(loader)
            next(batches)
            server.process.send_signal(signal.SIGSTOP)
            try:
                with support.signal_after(0.3) as since:
                    with self.assertRaises(KeyboardInterrupt):
                        for _ in batches:
                            pass
                    self.assertLess(since(), 30)  # of the sample's minute
            finally:
                server.process.send_signal(signal.SIGCONT)
            loader.close()

    def test_stop_leaves_next(self):
        with load(self.root) as loader:
            batches = iter(loader)
            next(batches)
            thread = threading.Thread(target=loader.stop)
            thread.start()
            thread.join()
            with self.assertRaises(sluice.ClosedError):
                for _ in batches:
                    pass


class ServerTest(support.SetTest):
    def test_a_server_in_the_process_serves(self):
        with load(self.root) as loader:
            expected = digest(loader)
        with sluice.Server(self.root) as server:
            with load(server.address) as loader:
                self.assertEqual(digest(loader), expected)
            self.assertIsInstance(server.stats(), dict)
            server.reread()
        with self.assertRaises(sluice.ClosedError):
            server.stats()

    def test_a_folder_that_is_not_there_is_an_error(self):
        with self.assertRaises(sluice.Error):
            sluice.Server("/no/such/folder")


class RootsTest(support.SetTest):
    """Two folders as one dataset, and a mix of them."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.other = cls.root + "-other"
        support.run("offload_dataset", "synth", cls.other, "--num", 20, "--num-val", 4, "--classes", 2,
                    "--seed", 9)
        cls.roots = {"b": pathlib.Path(cls.other), "a": cls.root}
        cls.mix = {"a": 0.75, "b": 1.5}
        cls.num_mixed = round(support.NUM_TRAIN * 0.75) + 30

    def test_folders_by_name_are_one_dataset_here_and_at_a_server(self):
        with load(self.roots) as loader:
            expected = digest(loader)
            self.assertEqual(loader.info["num_samples"][0], support.NUM_TRAIN + 20)
            self.assertEqual(loader.path(0).split("/")[0], "a")
        with sluice.Server(self.roots) as server, load(server.address) as loader:
            self.assertEqual(digest(loader), expected)

    def test_a_mix_is_of_its_length_and_the_same_everywhere(self):
        with sluice.Server(self.roots) as server:
            expected = None
            for source in (self.roots, server.address):
                with load(source, mix=self.mix) as loader:
                    self.assertEqual(len(loader), -(-self.num_mixed // BATCH))
                    epochs = [list(loader) for _ in range(3)]
                    self.assertEqual([sum(len(ids) for _, _, ids in batches) for batches in epochs],
                                     [self.num_mixed] * 3)
                    got = [digest(batches) for batches in epochs]
                    expected = expected or got
                    self.assertEqual(got, expected)
                    counts = numpy.bincount(numpy.concatenate(
                        [ids for batches in epochs for _, _, ids in batches]).astype(int))
                    train = [loader.path(i).split("/")[0] for i in range(len(counts))
                             if "/train/" in loader.path(i)]
                    by_root = {name: [int(count) for i, count in enumerate(counts)
                                      if loader.path(i).startswith(f"{name}/train/")]
                               for name in "ab"}
                    self.assertEqual(len(train), support.NUM_TRAIN + 20)
                    for name in "ab":  # walked through evenly
                        self.assertLessEqual(max(by_root[name]) - min(by_root[name]), 1)
                    self.assertEqual(sum(by_root["b"]), 90)
            with load(server.address, mix=self.mix) as loader:  # and from the middle on
                loader.set_epoch(1)
                epoch = iter(loader)
                first = [next(epoch) for _ in range(2)]
                state = loader.state_dict()
                epoch.close()
            with load(self.roots, mix="b=1.5,a=.75") as loader:
                loader.load_state_dict(state)
                self.assertEqual(digest(first + list(loader)), expected[1])
            with load(self.roots, mix={"a": 0.75}) as loader:
                loader.load_state_dict(state)
                with self.assertRaisesRegex(sluice.InvalidError, "of --mix a=0.75,b=1.5, and this"):
                    next(iter(loader))

    def ids_of_ranks(self, source, world_size, state=None):
        """Of epoch 1, in the global order, from the state on; and the state after two batches."""
        by_rank, middle = [], None
        for rank in range(world_size):
            with sluice.numpy.Loader(source, BATCH // world_size, seed=3, sample_ids=True, rank=rank,
                                     world_size=world_size, mix=self.mix,
                                     pipeline=support.PIPELINE) as loader:
                if state:
                    loader.load_state_dict(state)
                else:
                    loader.set_epoch(1)
                batches = []
                for _, _, ids in loader:
                    batches.append([int(i) for i in ids])
                    if len(batches) == 2:
                        middle = loader.state_dict()
                by_rank.append(batches)
        self.assertEqual(len({len(batches) for batches in by_rank}), 1)
        ids = [i for batches in zip(*by_rank) for rows in batches for i in rows]
        return ids[:self.num_mixed - (2 * BATCH if state else 0)], middle  # without what was padded

    def test_a_mix_is_the_same_for_any_number_of_ranks_and_from_the_middle_on(self):
        with sluice.Server(self.roots) as server:
            expected, middle = self.ids_of_ranks(self.roots, 1)
            self.assertEqual(len(expected), self.num_mixed)
            for world_size, source in ((2, server.address), (4, self.roots), (4, server.address)):
                with self.subTest(world_size=world_size, source=source):
                    self.assertEqual(self.ids_of_ranks(source, world_size)[0], expected)
                    self.assertEqual(self.ids_of_ranks(source, world_size, middle)[0],
                                     expected[2 * BATCH:])

    def test_what_is_wrong_is_said(self):
        for wrong in ({}, {7: self.root}):
            with self.assertRaisesRegex(sluice.InvalidError, "names no roots"):
                load(wrong)
            with self.assertRaisesRegex(sluice.InvalidError, "names no roots"):
                sluice.Server(wrong)
        with self.assertRaisesRegex(sluice.InvalidError, "no path of the dataset begins with c/"):
            load(self.roots, mix={"c": 2})
        with self.assertRaisesRegex(sluice.InvalidError, "a weight is 0 to"):
            load(self.roots, mix={"a": -1})


@unittest.skipUnless(shutil.which("openssl"), "openssl is missing")
class TlsTest(support.SetTest):
    def test_a_server_with_tls_and_a_token_gives_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as certs:
            subprocess.run([pathlib.Path(__file__).parents[2] / "scripts/dev-certs", certs], check=True,
                           capture_output=True)

            def file(name):
                return os.path.join(certs, name)
            tls = {"tls": True, "ca": file("ca.pem"), "cert": file("client.pem"), "key": file("client-key.pem"),
                   "token_file": file("token")}
            with load(self.root) as loader:
                expected = digest(loader)
            with support.Server(
                    self.root, "--tls-cert", file("server.pem"), "--tls-key", file("server-key.pem"),
                    "--tls-client-ca", file("ca.pem"), "--tokens", file("tokens")) as server:
                with load(server.address, **tls) as loader:
                    self.assertEqual(digest(loader), expected)
                for without, words in (("token_file", "this server wants a token"),
                                       ("cert", "certificate"), ("tls", "wants TLS")):
                    less = {name: value for name, value in tls.items() if name != without}
                    if without == "cert":
                        del less["key"]
                    if without == "tls":
                        less = {}
                    with self.assertRaisesRegex(sluice.Error, words):
                        load(server.address, retry_for=0, **less)


class SeveralServersTest(support.SetTest):
    def test_replicas_and_shards_give_the_same_bytes_and_go_on_for_each_other(self):
        with contextlib.ExitStack() as stack:
            with load(self.root) as loader:
                batches = [digest([batch]) for batch in loader]
            copies = [stack.enter_context(sluice.Server(self.root)).address for _ in range(2)]
            halves = programs.split(self.root, stack.enter_context(tempfile.TemporaryDirectory()), 2)
            shards = [stack.enter_context(sluice.Server(half)).address for half in halves]
            spreads = [",".join(copies), shards, tuple(shards[::-1]), copies[:1]]
            state = None
            for spread in spreads:
                with self.subTest(spread), load(spread, retry_for="20s") as loader:
                    self.assertEqual([digest([batch]) for batch in loader], batches)
                    loader.set_epoch(0)
                    if state:
                        loader.load_state_dict(state)
                        self.assertEqual([digest([batch]) for batch in loader], batches[3:])
                        loader.set_epoch(0)
                    epoch = iter(loader)
                    for _ in range(3):
                        next(epoch)
                    state = loader.state_dict()
                    epoch.close()

    def test_counters_tell_of_replicas_that_are_lost(self):
        with programs.Node(self.root) as first, programs.Node(self.root) as second:
            second.pause()  # so that the first serves, however late it answers
            with load(f"{first.address},{second.address}", mode="remote_piloff", retry_for="60s",
                      repeat=20) as loader:
                self.assertEqual((loader.counters()["failed_over"], loader.counters()["hedged"]), (0, 0))
                epoch = iter(loader)
                next(epoch)
                first.pause()  # it owes what it was asked for, and is not heard of again
                second.go_on()
                for _ in epoch:
                    pass
                while loader.counters()["failed_over"] == 0:  # it owed nothing any more: it is asked again
                    for _ in loader:
                        pass
                self.assertEqual(loader.counters()["errors"], 0)

    def test_what_names_servers_is_told_from_folders(self):
        place = _batches.place
        self.assertEqual(place("a:1"), {"host": "a:1"})
        self.assertEqual(place("a,b"), {"host": "a,b"})
        self.assertEqual(place("dns:name"), {"host": "dns:name"})
        self.assertEqual(place(["a", "b,c"]), {"host": ["a", "b,c"]})
        self.assertEqual(place(("a",)), {"host": ["a"]})
        self.assertEqual(place("/a,b")["dir"], "/a,b")
        self.assertEqual(_batches.servers(["a", "b,c"]), ["a", "b,c"])
        self.assertEqual(_batches.servers("a,b"), ["a,b"])
        self.assertEqual(_batches.servers("/a"), [])
        for wrong in ([], ["a", 7], "a"):
            with self.assertRaises(sluice.InvalidError):
                place(wrong)

    def test_servers_that_do_not_fit_are_refused(self):
        with self.assertRaisesRegex(sluice.InvalidError, "--host: 'a,,b'"):
            load("a,,b")
        with sluice.Server(self.root) as other, \
                self.assertRaisesRegex(sluice.InvalidError, "shards share no file"):
            load([self.address, other.address])


class PureTest(unittest.TestCase):
    def test_settings_are_named_as_flags(self):
        self.assertEqual(sluice.settings(batch_size=8, retry_for="2m", strict=True, verify=False,
                                         mode=None, mix={"a": 1, "b": 0.5}),
                         {"batch-size": "8", "retry-for": "2m", "strict": "true",
                          "verify": "false", "mix": "a=1,b=0.5"})

    def test_a_version_is_said(self):
        self.assertEqual(sluice.__version__, sluice.version())


if __name__ == "__main__":
    support.main()
