#!/usr/bin/env python3
"""PipeSwitch's published client, unchanged, against offload_switch.  SLUICE_PIPESWITCH names a folder with its
repository (client/, util/); without it, or where its port is in use, the test is skipped.

Only task/helper.py is a stub, as the published one loads a model with PyTorch.
"""
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

from programs import TIMEOUT_S
from switching import BATCH, Switch, write_weights

PORT = 12345  # in the published client
FOLDER = os.environ.get("SLUICE_PIPESWITCH")
HELPER = '''
import array


class Rows:
    def __init__(self, count):
        self.data = array.array("f", [1.0]) * (count * 3 * 224 * 224)

    def numpy(self):
        return self.data  # which has tobytes(), too


def get_data(model_name, batch_size):
    return Rows(batch_size)
'''


class PublishedClient(unittest.TestCase):
    def test_client_inference_is_answered(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            write_weights(path / "weights", 1)
            (path / "task").mkdir()
            (path / "task" / "__init__.py").touch()
            (path / "task" / "helper.py").write_text(HELPER)
            with Switch(path / "weights", "--port", PORT) as switch:
                done = subprocess.run(
                    [sys.executable, pathlib.Path(FOLDER) / "client" / "client_inference.py", "small_cnn", str(BATCH)],
                    env={**os.environ, "PYTHONPATH": f"{path}:{FOLDER}"}, capture_output=True, text=True,
                    timeout=TIMEOUT_S)
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                self.assertRegex(done.stdout, r"Latency: [\d.]+ ms")
                self.assertNotIn("FAIL", done.stderr)
                counts = switch.stop()
                self.assertEqual((counts["inferences"], counts["failed"]), (100, 0))


if __name__ == "__main__":
    if not FOLDER:
        print("SKIPPED: SLUICE_PIPESWITCH is not set")
        sys.exit(77)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", PORT))
        except OSError as error:
            print(f"SKIPPED: port {PORT}: {error}")
            sys.exit(77)
    unittest.main(verbosity=2)
