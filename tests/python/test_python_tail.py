#!/usr/bin/env python3
"""python_tail: a function of the user's for each image, in processes of its own."""
import functools
import multiprocessing
import os
import pathlib
import signal
import threading
import time

import support

support.require("numpy")

import numpy

if __name__ != "__mp_main__":  # a worker needs the functions alone, and PyTorch takes a second
    support.require("torch")

    import torch

    import sluice
    import sluice.doctor
    import sluice.numpy
    import sluice.torch

BATCH = 8


def noisy(image, rng):
    return (image // 2 + rng.integers(0, 100, image.shape, numpy.uint8)).astype(numpy.uint8)


def seen(image, rng):
    """A row of two numbers: of the image, and drawn."""
    return numpy.array([image.astype(numpy.int64).sum(), rng.integers(2**40)], numpy.int64)


def with_target(image, rng, target):
    return image[:, ::-1], target * 2


def named(image, rng, target):
    return image, target[::-1]


def is_bad(bad, image):
    return int(image.astype(numpy.int64).sum()) == bad


def fails_for(bad, image, rng):
    if is_bad(bad, image):
        raise KeyError("no mask of this one")
    return image


def dies_for(bad, image, rng):
    if is_bad(bad, image):
        os.kill(os.getpid(), signal.SIGKILL)
    return image


def halved(image, rng):
    return image[::2]


def slow(image, rng):
    time.sleep(0.03)
    return image


def waits_for_ever(image, rng):
    threading.Event().wait()


class Unreadable:
    def __call__(self, image, rng):
        return image

    def __reduce__(self):
        return functools.partial(__import__, "no_such_module_of_a_tail"), ()


def load(source, tail=None, module=None, **options):
    options = {"pipeline": support.PIPELINE, "workers": 2, "seed": 3, **options}
    if tail is not None:
        options = {"python_tail_workers": 2, "python_tail": tail, **options}
    return (module or sluice.numpy).Loader(source, BATCH, **options)


def expected(loader, function, epoch=0):
    """What the loader without a tail gives, through the function in this process."""
    loader.set_epoch(epoch)
    loader._loader.start(epoch)
    made = []
    while (batch := loader._loader.next()) is not None:
        pixels, ids = numpy.array(batch.pixels), numpy.array(batch.ids).tolist()
        keys = zip(ids, numpy.array(batch.draw_epochs).tolist())
        rows = [function(image, numpy.random.Generator(numpy.random.Philox(
            key=[3, 0], counter=[0, 0, epoch, sample]))) for image, (sample, epoch) in zip(pixels, keys)]
        made.append((numpy.stack(rows), numpy.array(batch.labels), ids))
    loader._loader.finish()
    return made


class PythonTailTest(support.SetTest):
    def check(self, batches, wanted):
        self.assertEqual(len(batches), len(wanted))
        for (rows, labels, ids), (wanted_rows, wanted_labels, wanted_ids) in zip(batches, wanted):
            numpy.testing.assert_array_equal(rows, wanted_rows)
            numpy.testing.assert_array_equal(labels, wanted_labels)
            self.assertEqual(ids.tolist(), wanted_ids)

    def test_rows_are_those_of_the_function_in_order_with_the_generator_of_each_sample(self):
        with load(self.root) as plain:
            wanted = [expected(plain, noisy, epoch) for epoch in range(2)]
        self.assertFalse(numpy.array_equal(wanted[0][0][0], wanted[1][0][0]))
        for source in (self.root, self.address):
            with load(source, noisy, sample_ids=True) as loader:
                for epoch in range(2):
                    self.check(list(loader), wanted[epoch])
        with load(self.root, noisy, python_tail_workers=1, sample_ids=True) as loader:
            self.check(list(loader), wanted[0])

    def test_a_declared_shape_and_dtype_is_yielded_as_it_is(self):
        options = {"python_tail_shape": [2], "python_tail_dtype": "int64", "sample_ids": True}
        with load(self.root) as plain:
            wanted = expected(plain, seen)
        with load(self.root, seen, **options) as loader:
            self.check(list(loader), wanted)
        with load(self.root, seen, module=sluice.torch, device="cpu", **options) as loader:
            for (rows, _, _), (wanted_rows, _, _) in zip(loader, wanted, strict=True):
                self.assertTrue(torch.equal(rows, torch.from_numpy(wanted_rows)))

    def test_normalize_and_batch_ops_follow(self):
        with load(self.root) as plain:
            wanted = [torch.from_numpy(rows).permute(0, 3, 1, 2).float() for rows, _, _ in expected(plain, noisy)]
        mean, std = (torch.tensor(v).view(3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
        with load(self.root, noisy, module=sluice.torch, normalize=True,
                  batch_ops=[sluice.torch.Mix(label_smoothing=0.1)]) as loader:
            for (images, labels), u8 in zip(loader, wanted, strict=True):
                self.assertTrue(torch.equal(images, u8.div(255).sub(mean).div(std)))
                self.assertEqual(labels.shape, (len(images), 3))

    def test_the_digest_is_of_the_rows_before(self):
        digests = []
        for tail in (None, noisy):
            with load(self.root, tail) as loader:
                list(loader)
                digests.append(loader.stats()["digest"])
        self.assertEqual(*digests)

    def test_an_epoch_goes_on_after_the_batch_that_was_yielded(self):
        with load(self.root, noisy, sample_ids=True) as loader:
            whole = list(loader)
            loader.set_epoch(0)
            batches = iter(loader)
            for _ in range(2):
                next(batches)
            state = loader.state_dict()
            batches.close()
            loader.load_state_dict(state)
            self.check(list(loader), [(rows, labels, ids.tolist()) for rows, labels, ids in whole[2:]])

    def test_the_wait_is_a_stall_of_its_own(self):
        with load(self.root, noisy) as loader:
            list(loader)
            stats = loader.stats()
        self.assertEqual(stats["python_tail"]["samples"], support.NUM_TRAIN)
        self.assertGreater(stats["python_tail"]["cpu_s"], 0)
        self.assertGreater(stats["stalls"]["python_tail"], 0)  # the processes are started meanwhile
        self.assertGreaterEqual(stats["stalls"]["trainer"], 0)
        self.assertLessEqual(sum(stats["stalls"].values()), 1 + 1e-6)
        with load(self.root) as loader:
            list(loader)
            self.assertNotIn("python_tail", loader.stats()["stalls"])
            self.assertNotIn("python_tail", loader.counters()["wait_s"])

    def test_stats_counters_and_the_doctor_say_that_it_limits(self):
        for options in ({}, {"limit_samples": 2 * BATCH}):  # of two batches the library has none left for the workers
            with self.subTest(options), load(self.root, slow, **options) as loader:
                wait_s = 0.0
                for epoch in range(2):
                    watched = sluice.doctor.watch(loader, quiet=True)
                    for _ in watched:
                        self.assertGreater(loader.counters()["wait_s"]["python_tail"], wait_s)
                    stats, counters, found = loader.stats(), loader.counters(), watched.report().found
                    wait_s += stats["python_tail"]["wait_s"]
                    self.assertEqual(stats["bound_by"], "python_tail")
                    self.assertAlmostEqual(stats["stalls"]["python_tail"] * stats["seconds"], stats["python_tail"]["wait_s"])
                    self.assertLessEqual(sum(stats["stalls"].values()), 1 + 1e-6)
                    self.assertAlmostEqual(stats["samples_per_s"] * stats["seconds"], stats["samples"])
                    self.assertAlmostEqual(counters["wait_s"]["python_tail"], wait_s)
                    self.assertGreaterEqual(counters["wait_s"]["trainer"], 0)
                    self.assertEqual(found["stalls"], stats["stalls"])
                    self.assertEqual(found["limit"], "python_tail")
                self.assertIn("python_tail_workers", watched.report().advice())
                self.assertNotIn("python -m", "".join(watched.report().lines()))

    def test_a_wait_is_counted_while_it_lasts(self):
        with load(self.root, waits_for_ever) as loader:
            def look():
                for waits in iter(loader.counters, None):
                    if waits["wait_s"]["python_tail"] > 0.1 and waits["waits_s"] > 0.1:
                        return loader.stop()
                    time.sleep(0.01)

            looker = threading.Thread(target=look)
            looker.start()
            with self.assertRaises(sluice.ClosedError):
                next(iter(loader))
            looker.join()

    def sum_and_id(self):
        """Of a row in the third batch."""
        with load(self.root, sample_ids=True) as plain:
            rows, _, ids = list(plain)[2]
        return int(rows[5].astype(numpy.int64).sum()), int(ids[5])

    def test_an_error_names_the_sample_and_has_the_traceback(self):
        bad, sample = self.sum_and_id()
        with load(self.root, functools.partial(fails_for, bad)) as loader:
            for _ in range(2):  # the next epoch is not harmed
                loader.set_epoch(0)
                batches = iter(loader)
                next(batches), next(batches)
                with self.assertRaises(sluice.Error) as raised:
                    next(batches)
                self.assertIn(f"python_tail: sample {sample} ({loader.path(sample)})", str(raised.exception))
                self.assertIn("KeyError: 'no mask of this one'", str(raised.exception))
                self.assertIn("in fails_for", str(raised.exception))

    def test_a_worker_that_dies_is_an_error_and_the_next_epoch_has_others(self):
        bad, _ = self.sum_and_id()
        with load(self.root, functools.partial(dies_for, bad)) as loader:
            for _ in range(2):
                loader.set_epoch(0)
                with self.assertRaisesRegex(sluice.Error, "python_tail: a worker process died .signal SIGKILL"):
                    list(loader)
                self.assertEqual(multiprocessing.active_children(), [])

    def test_stop_ends_a_wait_for_the_workers_and_close_ends_them(self):
        with load(self.root, waits_for_ever) as loader:
            timer = threading.Timer(0.2, loader.stop)
            timer.start()
            with self.assertRaises(sluice.ClosedError):
                next(iter(loader))
        self.assertEqual(multiprocessing.active_children(), [])

    def test_what_cannot_be_done_is_refused_in_words(self):
        for options, words in (
                ({"tail": lambda image, rng: image}, "cannot be pickled"),
                ({"tail": 3}, "cannot be called"),
                ({"tail": noisy, "gpu_decode": "on"}, "rows on the host"),
                ({"tail": noisy, "gpu_decode": "auto", "module": sluice.torch}, "rows on the host"),
                ({"tail": noisy, "python_tail_workers": -1}, "1 or more"),
                ({"tail": noisy, "python_tail_shape": [0]}, "sides of 1"),
                ({"tail": noisy, "python_tail_dtype": "object"}, "numbers"),
                ({"tail": seen, "python_tail_shape": [2], "normalize": True, "module": sluice.torch}, "as it is"),
                ({"python_tail_shape": [2]}, "go with python_tail")):
            with self.subTest(words=words), self.assertRaisesRegex(ValueError, words):
                load(self.root, **options)
        with self.assertRaisesRegex(ValueError, "python_tail: a Dataset has none"):
            sluice.torch.Dataset(self.root, python_tail=noisy)
        for tail, words in ((halved, r"returned uint8 \[32, 64, 3\], but uint8 \[64, 64, 3\] is declared"),
                            (Unreadable(), "cannot be unpickled in a worker")):
            with self.subTest(words=words), load(self.root, tail) as loader, \
                    self.assertRaisesRegex(sluice.Error, words):
                next(iter(loader))


class TargetsTest(support.SetTest):
    @classmethod
    def change_set(cls):
        names = sorted(str(path.relative_to(cls.root)) for path in pathlib.Path(cls.root).rglob("*.*") if path.is_file())
        cls.rows = "".join(f'{name},"{i} {i + 0.5}",text{i}\n' for i, name in enumerate(names))
        pathlib.Path(cls.root, "metadata.csv").write_text("file_name,y,t\n" + cls.rows, encoding="utf-8")

    def index(self, column):
        support.run("offload_dataset", "index", self.root, "--target", column)

    def test_targets_go_through_the_function(self):
        for column, tail, changed in (("y", with_target, lambda target: target * 2),
                                      ("t", named, lambda target: target[::-1])):
            self.index(column)
            with self.subTest(column=column), load(self.root, targets=True) as plain, \
                    load(self.root, tail, targets=True) as loader, \
                    load(self.root, tail, module=sluice.torch, targets=True) as tensors:
                for (images, _, targets), (made, _, made_targets), (_, _, tensor) in zip(
                        plain, loader, tensors, strict=True):
                    if column == "y":
                        numpy.testing.assert_array_equal(made_targets, changed(targets))
                        numpy.testing.assert_array_equal(tensor.numpy(), changed(targets))
                        numpy.testing.assert_array_equal(made, images[:, :, ::-1])
                    else:
                        self.assertEqual(made_targets, [changed(target) for target in targets])
                        self.assertEqual(tensor, made_targets)


if __name__ == "__main__":
    support.main()
