#!/usr/bin/env python3
"""A PyTorch process is put aside: its GPU memory is free meanwhile, it waits, and afterwards its tensors are what they
were and its graph still runs.

usage: test_aside_cuda.py SWITCH_ASIDE      the program tests/switch_aside of a build; 77: skipped
"""
import os
import subprocess
import sys
import tempfile

GB = 1 << 30
SIZE = 4 * GB

PROCESS = """
import socket, sys, torch
listener = socket.socket(socket.AF_UNIX)
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
    print("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
