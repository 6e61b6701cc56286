#!/usr/bin/env python3
"""sluice.dali: what a DALI pipeline gets is the loader's memory, and the same bytes."""
import support

support.require("numpy")
try:
    from nvidia.dali import fn, pipeline_def
except ImportError as error:
    support.skip(f"DALI is missing ({error})")

import numpy

import sluice.dali
import sluice.numpy

BATCH = 8
OPTIONS = {"pipeline": support.PIPELINE, "workers": 2, "seed": 3, "sample_ids": True}


def epoch_of(pipeline):
    """[(images, labels, ids)] until the epoch ends; then the next one can begin."""
    batches = []
    try:
        while True:
            batches.append([numpy.array(output.as_array()) for output in pipeline.run()])
    except StopIteration:
        pipeline.reset()
    return batches


class DaliTest(support.SetTest):
    def expected(self, epoch):
        with sluice.numpy.Loader(self.root, BATCH, **OPTIONS) as loader:
            loader.set_epoch(epoch)
            return [tuple(array.copy() for array in batch) for batch in loader]

    def assert_same(self, batches, wanted):
        self.assertEqual(len(batches), len(wanted))
        for batch, others in zip(batches, wanted):
            for array, other in zip(batch, others):
                self.assertTrue(numpy.array_equal(array, other))

    def test_a_pipeline_gets_every_epoch(self):
        # As much ahead as there is, and little room: memory that was given back would be seen.
        for depth in (1, 4):
            loader = sluice.dali.Loader(self.address, BATCH, prefetch_bytes="1MiB", **OPTIONS)

            @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None,
                          prefetch_queue_depth=depth)
            def whole():
                return tuple(sluice.dali.external_source(loader))

            pipeline = whole()
            pipeline.build()
            for epoch in range(2):
                self.assert_same(epoch_of(pipeline), self.expected(epoch))
            loader.set_epoch(5)
            self.assert_same(epoch_of(pipeline), self.expected(5))

    def test_views_are_refused(self):
        with self.assertRaisesRegex(sluice.InvalidError, "2 views of each sample"):
            sluice.dali.Loader(self.root, BATCH, pipeline="decode,views(2x[center_crop=8])")

    def test_a_pipeline_reads_the_memory_of_the_loader(self):
        loader = sluice.dali.Loader(self.root, BATCH, pipeline=support.PIPELINE)
        given, read = [], []
        made_of = loader._made_of

        def noted(batch):
            given.append(batch.pixels.address)
            return made_of(batch)

        def look(image):
            read.append(image.ctypes.data)
            return image

        loader._made_of = noted

        @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None, exec_async=False,
                      exec_pipelined=False)
        def addresses():
            images, labels = sluice.dali.external_source(loader)
            return fn.python_function(images, function=look), labels

        pipeline = addresses()
        pipeline.build()
        for _ in range(3):
            pipeline.run()
        self.assertEqual(len(read), 3 * BATCH)
        self.assertEqual(read[::BATCH], given[:3])

    def test_images_have_the_layout_of_rows(self):
        with sluice.dali.Loader(self.root, BATCH, pipeline=support.PIPELINE) as loader:
            images, labels = next(iter(loader))
            self.assertEqual(loader.num_outputs, 2)
        self.assertEqual(images.layout(), "HWC")
        self.assertEqual(images.shape(), [(64, 64, 3)] * BATCH)
        self.assertEqual(labels.shape(), [()] * BATCH)


if __name__ == "__main__":
    support.main()
