"""Batches for an NVIDIA DALI pipeline, by fn.external_source.

    loader = sluice.dali.Loader("storage:50051", 256)

    @pipeline_def(batch_size=256, num_threads=2, device_id=0)
    def pipe():
        images, labels = sluice.dali.external_source(loader)
        return fn.crop_mirror_normalize(images.gpu(), dtype=types.FLOAT16, output_layout="CHW",
                                        mean=[123.675, 116.28, 103.53],
                                        std=[58.395, 57.12, 57.375]), labels

images is uint8 [rows, height, width, 3] of layout HWC, cropped and flipped; labels int64 [rows].
The pipeline reads the library's memory without a copy, and holds it as long as it needs it.
"""
from nvidia.dali import fn
from nvidia.dali.tensors import TensorListCPU

from sluice._batches import Batches


class Loader(Batches):
    """Of a folder or HOST:PORT; yields tuples of TensorListCPU: (images, labels[, ids]).  Options
    as of sluice.torch.Loader, without devices, targets and geometry; sample_ids gives int64 [rows] as a third output.
    """

    _gives_targets = False
    _gives_geometry = False
    _takes_views = False

    def __init__(self, source, batch_size, *, sample_ids=False, **options):
        self.num_outputs = 3 if sample_ids else 2
        super().__init__(source, batch_size, **options)

    def _made_of(self, batch):
        # DALI gives the memory back when the last that shares a capsule's has gone.
        made = (TensorListCPU(batch.pixels.__dlpack__(), "HWC"),
                TensorListCPU(batch.labels.__dlpack__(), ""),
                TensorListCPU(batch.ids.signed().__dlpack__(), ""))
        return made[:self.num_outputs]


def external_source(loader, **options):
    """The loader's batches as fn.external_source(), which takes the options: a list of outputs.

    Pipeline.run() raises StopIteration after each epoch's last batch, which may have fewer rows;
    after Pipeline.reset(), and set_epoch() if need be, the next epoch comes.  A loader is for one
    pipeline.
    """
    def epoch():  # DALI calls it as soon as an epoch ends, and next() with the next run()
        yield from loader

    return fn.external_source(source=epoch, num_outputs=loader.num_outputs, batch=True,
                              cycle="raise", no_copy=True, **options)
