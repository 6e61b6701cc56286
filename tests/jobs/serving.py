"""A running `offload_job serve` and a client of it, for the tests of both the API and the page."""
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

import programs
import support
from jobs import engines, store


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=programs.TIMEOUT_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class ServeTest(support.JobTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="sluice-set-")
        cls.addClassCleanup(folder.cleanup)
        cls.root = os.path.join(folder.name, "set")
        programs.run("offload_dataset", "synth", cls.root, "-n", 48, "--num-val", 8, "--classes", 3)

    def setUp(self):
        super().setUp()
        self.unix = None
        self.serve()
        self.addCleanup(self.end_all)

    def serve(self, *words):
        """Starts it; self.url, self.token, self.host, self.process."""
        self.process = subprocess.Popen([sys.executable, support.BIN / "offload_job", "serve", *words], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, self.process)
        self.line = self.process.stdout.readline().strip()
        self.assertTrue(self.line, "it did not start")
        self.url, _, self.token = self.line.partition("#")
        self.host = self.url.split("/")[2]

    @staticmethod
    def end(process):
        if process.stdout.closed:
            return
        process.terminate()
        _, log = process.communicate(timeout=programs.TIMEOUT_S)
        assert process.returncode in (0, -signal.SIGKILL) and "Traceback" not in log, log

    def end_all(self):
        for record in store.Store().records():
            engine = engines.find("local")
            if engine.state(record) not in store.ENDED:
                engine.cancel(record)

    def connection(self):
        return UnixConnection(self.unix) if self.unix else http.client.HTTPConnection(
            self.host, timeout=programs.TIMEOUT_S)

    def request(self, method, path, body=None, headers=None, **more):
        """(status, bytes, headers); a header that is None is left out."""
        sent = {"Host": self.host, "Authorization": f"Bearer {self.token}", **(headers or {})}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        if body is not None or method == "POST":
            sent.setdefault("Content-Length", str(len(body or b"")))
        one = self.connection()
        try:
            one.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                for item in value if isinstance(value, list) else [value]:
                    if item is not None:
                        one.putheader(name, item)
            one.endheaders(body)
            answer = one.getresponse()
            return answer.status, answer.read(), dict(answer.getheaders())
        finally:
            one.close()

    def api(self, method, path, body=None, status=200):
        """The JSON of an answer with this status."""
        got, data, _ = self.request(method, f"/api/v1{path}", body)
        self.assertEqual(got, status, data[:500])
        return json.loads(data)

    def text(self, compute, more=""):
        return f"name: test\noutputs: runs\ndata: {{root: {self.root}}}\ncompute: {compute}\n{more}"

    def submit(self, compute, more=""):
        body = {"text": self.text(compute, more), "folder": str(self.folder)}
        return self.api("POST", "/jobs", body, 201)["id"]

    def await_state(self, id, *states):
        while (job := self.api("GET", f"/jobs/{id}"))["state"] not in states:
            self.assertNotIn(job["state"], store.ENDED + ("lost",), job["events"][-1])
            time.sleep(0.05)
        return job


def source(name):
    """A file that ships with the modules."""
    return pathlib.Path(support.SHARE) / "jobs" / name
