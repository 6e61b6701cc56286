#!/usr/bin/env python3
"""A Lightning Trainer over sluice.torch.Loader: fit, a checkpoint in mid-epoch, and the rest of
that epoch after it."""
import os
import tempfile
import warnings

import support

support.require("numpy", "torch")
try:
    import lightning
except ImportError as error:
    support.skip(f"lightning is missing ({error})")

import torch

import sluice.torch

support.mend_torch()
OPTIONS = {"pipeline": support.PIPELINE, "workers": 2, "seed": 3, "sample_ids": True}
warnings.filterwarnings("ignore")


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.seen = []  # (epoch, ids) of each training step
        self.num_validated = 0

    def training_step(self, batch, index):
        images, labels, ids = batch
        self.seen.append((self.current_epoch, ids.tolist()))
        return torch.nn.functional.cross_entropy(self.layer(images.float().mean((2, 3))), labels)

    def validation_step(self, batch, index):
        self.num_validated += len(batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)


def trainer(folder, callbacks=(), **options):
    return lightning.Trainer(accelerator="cpu", devices=1, max_epochs=3, logger=False,
                             enable_progress_bar=False, enable_model_summary=False,
                             callbacks=list(callbacks), default_root_dir=folder, **options)


class LightningTest(support.SetTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def load(self, part="train"):
        return sluice.torch.Loader(self.root, 8, part=part, **OPTIONS)

    def whole(self):
        with self.load() as loader:
            return [(epoch, ids.tolist()) for epoch in range(3) for _, _, ids in loader]

    def test_fit_takes_every_epoch(self):
        model = Model()
        with self.load() as train, self.load("val") as val:
            trainer(self.folder, num_sanity_val_steps=0,
                    enable_checkpointing=False).fit(model, train, val)
        self.assertEqual(model.seen, self.whole())
        self.assertEqual(model.num_validated, 3 * support.NUM_VAL)

    def test_a_checkpoint_in_mid_epoch_goes_on_there(self):
        saver = lightning.pytorch.callbacks.ModelCheckpoint(
            self.folder, filename="{step}", every_n_train_steps=10, save_top_k=-1)
        model = Model()
        with self.load() as train:
            trainer(self.folder, [saver]).fit(model, train)
        self.assertEqual(model.seen, self.whole())
        resumed = Model()
        with self.load() as train:
            trainer(self.folder, enable_checkpointing=False).fit(
                resumed, train, ckpt_path=os.path.join(self.folder, "step=10.ckpt"))
        self.assertEqual(resumed.seen, self.whole()[10:])


if __name__ == "__main__":
    support.main()
