#!/usr/bin/env python3
"""sluice.torch.IterableDataset in torchdata's StatefulDataLoader: a state that was saved in the
middle of an epoch goes on in another process with exactly the samples that are left."""
import json
import os
import subprocess
import sys

import support

support.require("numpy", "torch")
try:
    from torchdata.stateful_dataloader import StatefulDataLoader
except ImportError as error:
    support.skip(f"torchdata is missing ({error})")

import sluice.torch

OPTIONS = {"pipeline": support.PIPELINE, "workers": 2, "seed": 3, "sample_ids": True}


def made(source, num_workers=0):
    dataset = sluice.torch.IterableDataset(source, 8, **OPTIONS)
    return StatefulDataLoader(dataset, batch_size=None, num_workers=num_workers)


def ids_of(batches):
    return [ids.tolist() for _, _, ids in batches]


def begin(source, num_batches, num_workers):
    """An epoch, a part of the next, the state there, what is left of it, and the epoch after."""
    loader = made(source, num_workers)
    first = ids_of(loader)
    batches = iter(loader)
    taken = [next(batches)[2].tolist() for _ in range(num_batches)]
    state = loader.state_dict()
    return {"first": first, "taken": taken, "state": state, "rest": ids_of(batches),
            "next": ids_of(loader)}


def go_on(source, state, num_workers):
    loader = made(source, num_workers)
    loader.load_state_dict(state)
    return {"rest": ids_of(loader), "next": ids_of(loader)}


class StatefulTest(support.SetTest):
    def in_a_process(self, call, *arguments):
        run = ("import json, sys, test_torchdata\n"
               f"made = test_torchdata.{call}(*json.load(sys.stdin))\n"
               "print('made', json.dumps(made))\n")
        here = os.path.dirname(os.path.abspath(__file__))
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *filter(None, sys.path)])}
        done = subprocess.run([sys.executable, "-c", run], input=json.dumps(arguments), env=env,
                              stdout=subprocess.PIPE, text=True, timeout=300, check=True)
        return json.loads(done.stdout.partition("made ")[2])

    def check(self, num_batches, workers_before, workers_after):
        before = self.in_a_process("begin", self.root, num_batches, workers_before)
        after = self.in_a_process("go_on", self.address, before["state"], workers_after)
        whole = [i for ids in before["taken"] + before["rest"] for i in ids]
        self.assertEqual(sorted(whole), sorted(i for ids in before["first"] for i in ids))
        self.assertEqual(len(set(whole)), support.NUM_TRAIN)
        self.assertNotEqual(before["taken"] + before["rest"], before["first"])
        self.assertEqual(after["rest"], before["rest"])
        self.assertEqual(after["next"], before["next"])

    def test_a_new_process_goes_on_in_mid_epoch(self):
        self.check(3, 0, 0)

    def test_a_worker_goes_on_in_mid_epoch(self):
        self.check(3, 1, 1)


if __name__ == "__main__":
    support.main()
