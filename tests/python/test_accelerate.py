#!/usr/bin/env python3
"""Hugging Face's Accelerate with sluice.torch.Loader: prepare() leaves it alone, the process is its
rank, and a saved state goes on in mid-epoch."""
import json
import os
import pathlib
import sys
import tempfile

import support

support.require("numpy", "torch")
try:
    from accelerate import Accelerator
except ImportError as error:
    support.skip(f"accelerate is missing ({error})")

import torch

import sluice.torch

OPTIONS = {"pipeline": support.PIPELINE, "workers": 2, "seed": 3, "sample_ids": True}


class AccelerateTest(support.SetTest):
    def train(self, accelerator, loader, model, optimizer, num_batches=None):
        seen = []
        for at, (images, labels, ids) in enumerate(loader):
            self.assertEqual(images.device, accelerator.device)
            loss = torch.nn.functional.cross_entropy(model(images.mean((2, 3))), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            seen.append(ids.tolist())
            if at + 1 == num_batches:
                break
        return seen

    def prepared(self):
        accelerator = Accelerator(cpu=True)
        loader = sluice.torch.Loader(self.root, 8, device=accelerator.device, **OPTIONS)
        self.assertIs(accelerator.prepare(loader), loader)
        accelerator.register_for_checkpointing(loader)
        model = torch.nn.Linear(3, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        return (accelerator, loader, *accelerator.prepare(model, optimizer))

    def test_a_saved_state_goes_on_in_mid_epoch(self):
        with tempfile.TemporaryDirectory() as folder:
            accelerator, loader, model, optimizer = self.prepared()
            whole = self.train(accelerator, loader, model, optimizer)
            loader.set_epoch(0)
            taken = self.train(accelerator, loader, model, optimizer, 3)
            accelerator.save_state(folder)
            loader.close()

            accelerator, loader, model, optimizer = self.prepared()
            accelerator.load_state(folder)
            self.assertEqual(taken + self.train(accelerator, loader, model, optimizer), whole)
            loader.close()

    def test_processes_share_each_batch(self):
        run = ("import json, sys\n"
               "from accelerate import Accelerator\n"
               "import sluice.torch, test_accelerate\n"
               "accelerator = Accelerator(cpu=True)\n"
               "loader = sluice.torch.Loader(sys.argv[1], 4, device=accelerator.device,\n"
               "                             **test_accelerate.OPTIONS)\n"
               "ids = [ids.tolist() for _, _, ids in loader]\n"
               "with open(f'{sys.argv[2]}/{accelerator.process_index}', 'w') as file:\n"
               "    json.dump(ids, file)\n")
        here = os.path.dirname(os.path.abspath(__file__))
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "run.py")
            script.write_text(run)
            support.run_ranks([sys.executable, script, self.root, folder], 2, timeout=300,
                              PYTHONPATH=os.pathsep.join([here, *filter(None, sys.path)]))
            ranks = [json.loads(pathlib.Path(folder, str(rank)).read_text()) for rank in range(2)]
        with sluice.torch.Loader(self.root, 8, **OPTIONS) as loader:
            whole = [ids.tolist() for _, _, ids in loader]
        self.assertEqual([first + second for first, second in zip(*ranks)], whole)


if __name__ == "__main__":
    support.main()
