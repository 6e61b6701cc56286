"""A small network on the images of a folder or a server (HOST:PORT), trained by Lightning.

A second run with --checkpoint goes on where the checkpoint was written, also in mid-epoch.  On
several devices: torchrun --nproc-per-node 2 examples/train_lightning.py ... --devices 2
"""
import argparse

import lightning
import sluice.torch
import torch


class Model(lightning.LightningModule):
    def __init__(self, source, batch_size):
        super().__init__()
        self.source, self.batch_size = source, batch_size
        self.net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 32, 7, stride=4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(), torch.nn.Linear(32, 1000))

    def train_dataloader(self):
        return sluice.torch.Loader(self.source, self.batch_size, device=self.device)

    def training_step(self, batch, index):
        images, labels = batch
        return torch.nn.functional.cross_entropy(self.net(images), labels)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--checkpoint")
    args = parser.parse_args()
    trainer = lightning.Trainer(max_epochs=args.epochs, devices=args.devices, logger=False)
    trainer.fit(Model(args.source, args.batch_size), ckpt_path=args.checkpoint)
