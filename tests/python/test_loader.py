#!/usr/bin/env python3
"""sluice._sluice, sluice.numpy and sluice.Server: the same bytes from a folder and a server,
places, batches that are held, errors in words, and Ctrl-C."""
import gc
import hashlib
import json
import os
import signal
import socket
import threading
import unittest

import support

support.require("numpy")

import numpy

import sluice
import sluice.numpy
from sluice import _sluice

BATCH = 8


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

    def test_a_state_of_another_seed_is_refused(self):
        with load(self.root) as loader:
            next(iter(loader))
            state = loader.state_dict()
        with load(self.root, seed=4) as loader:
            loader.load_state_dict(state)
            with self.assertRaisesRegex(sluice.InvalidError, "seed"):
                iter(loader)

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
        with load(self.root, drop_last=True) as loader:
            self.assertEqual([len(labels) for _, labels, _ in loader],
                             [BATCH] * (support.NUM_TRAIN // BATCH))

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
            with self.assertRaisesRegex(sluice.InvalidError, "later iter"):
                next(first)
            self.assertEqual(sum(len(batch[1]) for batch in second), support.NUM_TRAIN)

    def test_stats_are_those_of_the_epoch(self):
        with load(self.root) as loader:
            with self.assertRaises(sluice.InvalidError):
                loader.stats()  # none has ended
            list(loader)
            self.assertEqual(loader.stats()["epoch"], 0)

    def test_normalization_is_that_of_the_pipeline(self):
        with load(self.root) as loader:
            table = sluice.numpy.normalization(loader)
        u8 = numpy.arange(256, dtype=numpy.float32) / numpy.float32(255)
        for c, (mean, std) in enumerate(zip((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))):
            expected = (u8 - numpy.float32(mean)) / numpy.float32(std)
            self.assertEqual(table[c].tolist(), expected.tolist())


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

    def test_settings_are_strings(self):
        with self.assertRaisesRegex(TypeError, "'batch-size'"):
            _sluice.Loader({"batch-size": 8})
        with self.assertRaisesRegex(ValueError, "null"):
            _sluice.Loader({"batch-size": "8\0"})

    def test_a_closed_loader_says_so(self):
        loader = load(self.root)
        loader.close()
        loader.close()
        for call in (loader.stats, loader.__len__, lambda: iter(loader)):
            with self.assertRaisesRegex(sluice.ClosedError, "closed"):
                call()

    def test_a_loader_must_be_open(self):
        loader = _sluice.Loader({"dir": self.root, "dataset-mode": "local"})
        for call in (loader.info, loader.start, loader.next, loader.finish):
            with self.assertRaisesRegex(sluice.InvalidError, "open"):
                call()

    def test_a_child_of_fork_is_refused(self):
        with load(self.root) as loader:
            child = os.fork()
            if child == 0:
                try:
                    loader._loader.start()
                    os._exit(1)
                except sluice.InvalidError:
                    os._exit(0)
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
        with support.offload_server(self.root) as server:
            loader = load(server.address, repeat=100, prefetch_bytes="1MiB", sample_timeout=60)
            loader._loader.start()
            server.send_signal(signal.SIGSTOP)
            try:
                with self.assertRaises(TimeoutError) as caught:
                    while loader._loader.next(timeout=0.1):
                        pass
            finally:
                server.send_signal(signal.SIGCONT)
            self.assertIsInstance(caught.exception, sluice.AgainError)
            self.assertTrue(loader._loader.next())  # nothing was wrong
            loader.close()


class SignalTest(support.SetTest):
    def test_ctrl_c_leaves_open(self):
        with socket.socket() as port:  # that nobody listens on
            port.bind(("127.0.0.1", 0))
            with support.signal_after(0.3) as since:
                with self.assertRaises(KeyboardInterrupt):
                    load(f"127.0.0.1:{port.getsockname()[1]}", retry_for="2m")
                self.assertLess(since(), 1)

    def test_ctrl_c_leaves_next(self):
        with support.offload_server(self.root) as server:
            loader = load(server.address, repeat=100, prefetch_bytes="1MiB", sample_timeout=60)
            batches = iter(loader)
            next(batches)
            server.send_signal(signal.SIGSTOP)
            try:
                with support.signal_after(0.3) as since:
                    with self.assertRaises(KeyboardInterrupt):
                        for _ in batches:
                            pass
                    self.assertLess(since(), 1)
            finally:
                server.send_signal(signal.SIGCONT)
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


class PureTest(unittest.TestCase):
    def test_settings_are_named_as_flags(self):
        self.assertEqual(sluice.settings(batch_size=8, retry_for="2m", strict=True, verify=False,
                                         mode=None),
                         {"batch-size": "8", "retry-for": "2m", "strict": "true",
                          "verify": "false"})

    def test_a_version_is_said(self):
        self.assertEqual(sluice.__version__, sluice.version())


if __name__ == "__main__":
    support.main()
