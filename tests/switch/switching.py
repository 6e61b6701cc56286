"""What the tests of offload_switch share: weights, a server without a GPU, a client that speaks the wire of
PipeSwitch's published program."""
import array
import json
import math
import pathlib
import random
import signal
import socket
import struct
import subprocess
import tempfile

from programs import BIN, TIMEOUT_S, check, text_of

SIDE, CLASSES, BATCH = 224, 10, 4
ROW = 3 * SIDE * SIDE
DONE, FAILED = b"FNSH", b"FAIL"
END = struct.pack("I", 0)


def norm(name, channels):
    return {f"{name}.{part}": (channels,) for part in ("weight", "bias", "running_mean", "running_var")}


def small_cnn():
    """{name: shape}, in the model's order."""
    found, inputs = {}, 3
    for stage in range(4):
        outputs = 32 << stage
        found |= {f"features.{3 * stage}.weight": (outputs, inputs, 3, 3)} | norm(f"features.{3 * stage + 1}", outputs)
        inputs = outputs
    return found | {"classifier.weight": (CLASSES, inputs), "classifier.bias": (CLASSES,)}


def resnet18():
    found, inputs = {"conv1.weight": (64, 3, 7, 7)} | norm("bn1", 64), 64
    for layer in range(4):
        outputs = 64 << layer
        for block in range(2):
            name = f"layer{layer + 1}.{block}"
            found |= {f"{name}.conv1.weight": (outputs, inputs, 3, 3)} | norm(f"{name}.bn1", outputs)
            found |= {f"{name}.conv2.weight": (outputs, outputs, 3, 3)} | norm(f"{name}.bn2", outputs)
            if inputs != outputs:
                found |= {f"{name}.downsample.0.weight": (outputs, inputs, 1, 1)} | norm(f"{name}.downsample.1", outputs)
            inputs = outputs
    return found | {"fc.weight": (CLASSES, inputs), "fc.bias": (CLASSES,)}


def write_weights(path, seed, shapes=small_cnn()):
    """Random weights of a model in the safetensors format; {name: its first value}."""
    rng, head, data, first, at = random.Random(seed), {}, [], {}, 0
    for name, shape in shapes.items():
        count = math.prod(shape)
        values = array.array("f", [0.75]) * count
        values[0] = 0.5 + rng.random()
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": (at, at + 4 * count)}
        first[name] = values[0]
        at += 4 * count
        data.append(values.tobytes())
    text = json.dumps(head).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))
    return first


def sum_of_stages(first):
    """What device none adds to each logit: the first byte of each stage's weights in an image (train/infer.h).
    Filters and matrices are bf16 there, a batch norm's begin with its float32 weight."""
    total = 0
    for name, value in first.items():
        bits, = struct.unpack("<I", struct.pack("<f", value))
        if name.endswith(".weight"):
            is_norm = name.replace(".weight", ".running_var") in first
            total += bits & 255 if is_norm else ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) & 255
    return total


def rows_of(*values):
    """The data of a request: each row has one value everywhere."""
    return b"".join(array.array("f", [value]).tobytes() * ROW for value in values)


def logits_of(values, stages):
    """What device none replies to them, exact as long as the numbers are small and whole."""
    counts = [ROW // CLASSES + (c < ROW % CLASSES) for c in range(CLASSES)]
    return [value * count + stages for value in values for count in counts]


def request(name, data=b""):
    name = name.encode() if isinstance(name, str) else name
    return struct.pack("I", len(name)) + name + struct.pack("I", len(data)) + data


class Client:
    def __init__(self, port, receive_bytes=None):
        self.socket = socket.socket()
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect(("127.0.0.1", port))

    def send(self, data):
        self.socket.sendall(data)

    def receive(self, size):
        """Less, if the connection ends."""
        data = b""
        while len(data) < size:
            try:
                more = self.socket.recv(size - len(data))
            except ConnectionError:
                more = b""
            if not more:
                break
            data += more
        return data

    def ask(self, name, data=b""):
        """The reply: FNSH, FAIL, or "" where the server ended the connection."""
        self.send(request(name, data))
        return self.receive(4)

    def logits(self, name, data):
        """None if the request failed."""
        return self.logits_after_reply() if self.ask(name, data) == DONE else None

    def logits_after_reply(self):
        size, = struct.unpack("I", self.receive(4))
        return list(array.array("f", self.receive(size)))

    def is_ended(self):
        return self.receive(1) == b""

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


class Switch:
    """offload_switch without a GPU, which is ready when this returns."""

    def __init__(self, weights, *flags):
        self.log_file = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [BIN / "offload_switch", "--device", "none", "--model", f"small_cnn={weights}", "--num-classes", str(CLASSES),
             "--batch", str(BATCH), "--json", *map(str, flags)],
            stdout=subprocess.PIPE, stderr=self.log_file, text=True)
        line = self.process.stdout.readline()
        if not line:
            self.process.wait(TIMEOUT_S)
            raise RuntimeError(f"offload_switch ended with {self.process.returncode}: {self.log()}")
        self.port = json.loads(line)["port"]

    def client(self):
        return Client(self.port)

    def log(self):
        return text_of(self.log_file)

    def workers(self, role):
        """{pid: where it takes the GPU} of its processes in this role."""
        found = {}
        for folder in pathlib.Path("/proc").iterdir():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            if parent == self.process.pid and words[1:3] == [b"--as-worker", role.encode()]:
                found[int(folder.name)] = words[3].decode()
        return found

    def stop(self):
        """What it counted."""
        self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=TIMEOUT_S)
        check("offload_switch", self.process.returncode, 0, self.log())
        return json.loads(out.splitlines()[-1])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log_file.close()
