#!/usr/bin/env python3
"""A PyTorch process is put aside: its GPU memory is free meanwhile, it waits, and afterwards its tensors are what they
were and its graph still runs.  With OFFLOAD_SWITCH also by offload_switch --aside, on a GPU whose memory the process
has filled: the logits are those of a GPU that is free.

usage: test_aside_cuda.py SWITCH_ASIDE [OFFLOAD_SWITCH]     tests/switch_aside and bin/offload_switch of a build
77: skipped
"""
import array
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from switching import CLASSES, Client, write_weights  # noqa: E402

GB = 1 << 30
SIZE = 4 * GB
LEFT = GB * 5 // 4  # of the GPU's memory: for the context of a worker, not for its block
BATCH = 256  # of a block of more than 1 GB

PROCESS = """
import socket, sys, torch
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # as an owner's
listener.bind(sys.argv[1])
listener.listen(16)
x = torch.arange({size} // 4, dtype=torch.int32, device="cuda")
y = torch.zeros(1, dtype=torch.int64, device="cuda")
graph = torch.cuda.CUDAGraph()
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    y.copy_(x.sum(dtype=torch.int64))
stream.synchronize()
with torch.cuda.graph(graph):
    y.copy_(x.sum(dtype=torch.int64))
torch.cuda.synchronize()
filling = []
if len(sys.argv) > 2:
    filling.append(torch.empty(torch.cuda.mem_get_info(0)[0] - int(sys.argv[2]), dtype=torch.uint8, device="cuda"))
print("ready", flush=True)
for line in sys.stdin:
    graph.replay()
    torch.cuda.synchronize()
    print(int(y.item()), bool((x == torch.arange({size} // 4, dtype=torch.int32, device="cuda")).all()), flush=True)
"""


def used_bytes():
    """Of the GPU, by all processes."""
    import torch
    free, total = torch.cuda.mem_get_info(0)
    return total - free


def logits_of_switch(program, folder, *flags):
    """Of the same rows and weights; and what it logged."""
    weights, rng = os.path.join(folder, "weights.safetensors"), random.Random(7)
    write_weights(weights, 7)
    data = array.array("f", [rng.uniform(-1, 1) for _ in range(3 * 224)]).tobytes() * 224
    with tempfile.TemporaryFile("w+") as log:
        switch = subprocess.Popen([program, "--model", f"small_cnn={weights}", "--num-classes", str(CLASSES), "--batch",
                                   str(BATCH), "--workers", "1", "--port", "0", *flags],
                                  stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            line = switch.stdout.readline()
            found = None
            if line:
                with Client(json.loads(line)["port"]) as client:
                    found = client.logits("small_cnn_logits", data)
                    assert found == client.logits("small_cnn_logits", data)
            switch.terminate()
            switch.wait(60)
        finally:
            switch.kill()
            log.seek(0)
            said = log.read()
    assert found, said
    return found, said


def test_switch(program):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "owner")
        wanted, _ = logits_of_switch(program, folder)
        process = subprocess.Popen([sys.executable, "-c", PROCESS.format(size=SIZE), path, str(LEFT)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout.readline() == "ready\n"
            found, said = logits_of_switch(program, folder, "--lend", path, "--aside")
            assert "will put the owner aside" in said, said
            assert found == wanted, (found, wanted)
            process.stdin.write("\n")
            process.stdin.flush()
            line = process.stdout.readline().strip()
            assert line.endswith(" True"), line
        finally:
            process.kill()
            process.wait()
    print("offload_switch --aside: the same logits")


def main():
    try:
        import torch
        if not torch.cuda.is_available():
            raise ImportError("no GPU")
    except ImportError as error:
        print(f"SKIPPED: {error}")
        return 77
    torch.zeros(1, device="cuda")
    count = SIZE // 4
    wanted = f"{count * (count - 1) // 2} True"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "owner")
        process = subprocess.Popen([sys.executable, "-c", PROCESS.format(size=SIZE), path], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout.readline() == "ready\n"
            for turn in range(3):
                with_it = used_bytes()
                aside = subprocess.Popen([sys.argv[1], path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True)
                if aside.stdout.readline() != "aside\n":
                    _, why = aside.communicate(timeout=60)
                    print(f"SKIPPED: {why}" if aside.returncode == 77 else f"not put aside: {why}")
                    return 77 if aside.returncode == 77 else 1
                without_it = used_bytes()
                assert with_it - without_it >= SIZE, (with_it, without_it)
                full = torch.full((SIZE // 4,), turn, dtype=torch.int32, device="cuda")  # over where it was
                process.stdin.write("\n")  # it waits at its next call of CUDA
                process.stdin.flush()
                assert int(full.sum(dtype=torch.int64).item()) == turn * (SIZE // 4)
                del full
                torch.cuda.empty_cache()
                out, why = aside.communicate(timeout=120)
                assert aside.returncode == 0 and out == "back\n", (out, why)
                line = process.stdout.readline().strip()
                assert line == wanted, (line, wanted)
                print(f"turn {turn}: {(with_it - without_it) / GB:.2f} GB were free meanwhile")
            # A process that was left aside is brought back by whoever comes next.
            aside = subprocess.Popen([sys.argv[1], path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert aside.stdout.readline() == "aside\n"
            aside.kill()
            aside.wait()
            done = subprocess.run([sys.argv[1], path], stdin=subprocess.DEVNULL, capture_output=True, text=True)
            assert done.returncode == 1 and "is locked or aside" in done.stderr, done
            # switch_aside does not return what it did not put aside; a worker of offload_switch does.
        finally:
            process.kill()
            process.wait()
    if len(sys.argv) > 2:
        torch.cuda.empty_cache()
        test_switch(sys.argv[2])
    print("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
