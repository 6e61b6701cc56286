#!/usr/bin/env python3
"""offload_dataset fetch against a local HTTP server that misbehaves on purpose."""
import collections
import http.server
import json
import pathlib
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from programs import BIN, Port, run



class Handler(http.server.BaseHTTPRequestHandler):
    """What a path answers is its behaviour: `modes[path]`, else the file with Range support."""

    protocol_version = "HTTP/1.1"
    files = {}
    modes = {}
    requests = collections.defaultdict(list)
    lock = threading.Lock()
    running = 0  # of which no answer has begun
    peak = 0
    times = []
    together = None  # so many wait for each other

    def log_message(self, *args):
        pass

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            pass  # a client that has enough closes the connection

    def do_GET(self):
        cls = type(self)
        with cls.lock:
            cls.running += 1
            cls.peak = max(cls.peak, cls.running)
            cls.requests[self.path].append(self.headers.get("Range"))
            turn = len(cls.requests[self.path])
        if cls.together:
            cls.together.wait(120)
        self.answer(cls.modes.get(self.path), turn)

    def send_response(self, *args):
        with type(self).lock:
            type(self).running -= 1
        super().send_response(*args)

    def answer(self, mode, turn):
        body = self.files.get(self.path.split("?")[0])
        if mode == "503 twice" and turn <= 2:
            return self.reply(503, b"busy")
        if mode == "in a second":
            self.times.append(time.monotonic())
            if turn == 1:
                return self.reply(503, b"busy", {"Retry-After": "1"})
        if mode == "always 500":
            return self.reply(500, b"broken")
        if mode == "cut" and turn == 1:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return None
        if mode == "redirect":
            self.send_response(302)
            self.send_header("Location", "/train/good0.jpg")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        if body is None:
            return self.reply(404, b"<html>no such image</html>")
        start = self.headers.get("Range")
        if start and mode != "no ranges":
            first = int(start[len("bytes="):].rstrip("-"))
            if first >= len(body):
                return self.reply(416, b"")
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")
            self.send_header("Content-Length", str(len(body) - first))
            self.end_headers()
            self.wfile.write(body[first:])
            return None
        return self.reply(200, body)

    def reply(self, status, body, headers={}):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def make_images(num):
    """Real images of the project's own making."""
    with tempfile.TemporaryDirectory() as folder:
        run("offload_dataset", "synth", f"{folder}/set", "-n", num, "--num-val", 0)
        return [path.read_bytes() for path in sorted(pathlib.Path(folder).rglob("*.*g"))]


class FetchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.images = make_images(12)
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        cls.base = f"http://127.0.0.1:{cls.server.server_port}"
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.server.server_close()

    def setUp(self):
        Handler.files = {f"/train/good{i}.jpg": image for i, image in enumerate(self.images)}
        Handler.modes = {}
        Handler.requests.clear()
        Handler.running = Handler.peak = 0
        Handler.together = None
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name, "images")

    def fetch(self, lines, *options, base=True):
        path = pathlib.Path(self.folder.name, "list.txt")
        path.write_text("".join(line + "\n" for line in lines))
        done = run("offload_dataset", "fetch", path, self.root, "--json", "--retry-ms", 5,
                   *(["--base-url", self.base + "/"] if base else []), *options, code=None)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done.returncode, json.loads(done.stdout), done.stderr

    def assert_file(self, name, body):
        self.assertEqual((self.root / name).read_bytes(), body)
        self.assertFalse((self.root / (name + ".part")).exists())

    def test_downloads_all_in_parallel_and_a_second_run_nothing(self):
        lines = ["# a comment", ""] + [f"train/good{i}" for i in range(12)]
        Handler.together = threading.Barrier(4)
        code, totals, _ = self.fetch(lines, "--parallel", "4")
        self.assertEqual((code, totals["downloaded"], totals["failed"]), (0, 12, 0))
        self.assertEqual(totals["bytes"], sum(len(image) for image in self.images))
        for i, image in enumerate(self.images):
            self.assert_file(f"train/good{i}.jpg", image)
        self.assertEqual(Handler.peak, 4)
        Handler.requests.clear()
        code, totals, _ = self.fetch(lines)
        self.assertEqual((code, totals["already_there"], totals["bytes"]), (0, 12, 0))
        self.assertEqual(len(Handler.requests), 0)

    def test_plain_urls_and_redirects(self):
        Handler.modes = {"/elsewhere.jpg": "redirect"}
        code, totals, _ = self.fetch([f"{self.base}/train/good1.jpg?width=1",
                                      f"{self.base}/elsewhere.jpg"], base=False)
        self.assertEqual((code, totals["downloaded"]), (0, 2))
        self.assert_file("good1.jpg", self.images[1])
        self.assert_file("elsewhere.jpg", self.images[0])

    def fetch_twice(self, lines, *options):
        """Fetches a list, and again, which downloads nothing; {name: content}."""
        code, totals, errors = self.fetch(lines, *options, base=False)
        self.assertEqual((code, totals["failed"]), (0, 0), errors)
        files = {path.name: path.read_bytes() for path in self.root.rglob("*") if path.is_file()}
        self.assertEqual(totals["downloaded"], len(files))
        self.assertEqual(totals["listed"], totals["downloaded"] + totals["repeated"])
        Handler.requests.clear()
        code, totals, errors = self.fetch(lines, *options, base=False)
        self.assertEqual((code, totals["already_there"], totals["bytes"]), (0, len(files), 0))
        self.assertEqual((len(Handler.requests), errors.count("warning")), (0, 0), errors)
        return files

    def test_urls_that_end_alike_all_arrive_whatever_is_parallel(self):
        for i, path in enumerate(("/a/1.jpg", "/b/1.jpg", "/a/2.jpg")):
            Handler.files[path] = self.images[i]
        lines = [self.base + path for path in ("/a/1.jpg", "/b/1.jpg", "/a/2.jpg", "/b/1.jpg")]
        names = []
        for parallel in ("1", "2", "16"):
            for order in (lines, lines[::-1]):
                self.root = pathlib.Path(self.folder.name, f"images-{len(names)}")
                files = self.fetch_twice(order, "--parallel", parallel)
                self.assertEqual(sorted(files.values()), sorted(self.images[:3]))
                self.assertEqual(files["2.jpg"], self.images[2])
                names.append(sorted((name, len(body)) for name, body in files.items()))
        self.assertEqual(names, names[:1] * 6)

    def test_urls_that_differ_in_the_query_alone_are_different_files(self):
        lines = [f"{self.base}/train/good0.jpg?width={i}" for i in range(3)]
        self.assertEqual(len(self.fetch_twice(lines)), 3)

    def test_the_same_url_twice_is_one_file_and_counted_so(self):
        files = self.fetch_twice([f"{self.base}/train/good0.jpg", f"{self.base}/train/good1.jpg",
                                  f"{self.base}/train/good0.jpg", f"{self.base}/train/good0.jpg#x"],
                                 "--parallel", "4")
        self.assertEqual(sorted(files), ["good0.jpg", "good1.jpg"])
        _, totals, _ = self.fetch(["train/good2", "train/good2"], "--parallel", "2")
        self.assertEqual((totals["downloaded"], totals["repeated"]), (1, 1))

    def test_names_do_not_depend_on_the_limit(self):
        Handler.files["/b/good0.jpg"] = self.images[1]
        lines = [f"{self.base}/train/good0.jpg", f"{self.base}/b/good0.jpg"]
        self.fetch(lines, "--limit", "1", base=False)
        _, totals, _ = self.fetch(lines, base=False)
        self.assertEqual((totals["already_there"], totals["downloaded"]), (1, 1))

    def test_a_file_of_a_shorter_list_is_named_once_its_name_is_shared(self):
        Handler.files["/b/good0.jpg"] = self.images[1]
        lines = [f"{self.base}/train/good0.jpg", f"{self.base}/b/good0.jpg"]
        self.fetch(lines[:1], base=False)
        code, totals, errors = self.fetch(lines, base=False)
        self.assertEqual((code, totals["downloaded"]), (0, 2))
        self.assertIn("/good0.jpg is there from another list", errors)

    def test_a_file_that_cannot_be_written_fails_alone(self):
        (self.root / "good0.jpg.part").mkdir(parents=True)
        code, totals, errors = self.fetch([f"{self.base}/train/good0.jpg",
                                           f"{self.base}/train/good1.jpg"], base=False)
        self.assertEqual((code, totals["failed"], totals["downloaded"]), (1, 1, 1))
        self.assertIn("/train/good0.jpg: Is a directory", errors)

    def test_busy_and_broken_connections_are_tried_again(self):
        Handler.modes = {"/train/good0.jpg": "503 twice", "/train/good1.jpg": "cut"}
        code, totals, _ = self.fetch(["train/good0", "train/good1"])
        self.assertEqual((code, totals["downloaded"], totals["retries"]), (0, 2, 3))
        self.assert_file("train/good0.jpg", self.images[0])
        self.assert_file("train/good1.jpg", self.images[1])
        half = len(self.images[1]) // 2
        self.assertEqual(Handler.requests["/train/good1.jpg"], [None, f"bytes={half}-"])
        self.assertEqual(totals["resumed"], 1)
        self.assertEqual(totals["bytes"], len(self.images[0]) + len(self.images[1]))

    def test_waits_as_the_server_says(self):
        Handler.modes = {"/train/good0.jpg": "in a second"}
        Handler.times = []
        code, totals, _ = self.fetch(["train/good0"])
        self.assertEqual((code, totals["downloaded"], totals["retries"]), (0, 1, 1))
        self.assertGreater(Handler.times[1] - Handler.times[0], 0.99)

    def test_every_legal_url_is_taken(self):
        names = ["Cat_(1).jpg", "a!b.jpg", "a~b.jpg", "q'x.jpg", "a*b.jpg", "x.jpg:large.jpg", "a&b.jpg",
                 "a;b.jpg", "a$b.jpg", "a%20b.jpg"]
        Handler.files = {f"/w/{name}": self.images[i] for i, name in enumerate(names)}
        files = self.fetch_twice([f"{self.base}/w/{name}" for name in names])
        self.assertEqual(files, dict(zip(names, self.images)))
        code, totals, _ = self.fetch([f"{self.base}/w/.hidden.jpg", f"{self.base}/w/..",
                                      f"{self.base}/w/a\tb.jpg"], base=False)
        self.assertEqual((code, totals["bad_lines"]), (1, 3))

    def test_a_long_name_is_cut_and_gets_a_hash(self):
        name = "n" * 230 + ".jpeg"
        Handler.files[f"/w/{name}"] = self.images[0]
        (kept,) = self.fetch_twice([f"{self.base}/w/{name}"])
        self.assertRegex(kept, "^n{200}-[0-9a-f]{16}[.]jpeg$")

    def test_what_has_no_suffix_gets_that_of_its_content(self):
        for path in ("/image", "/photo.php", "/w/latest"):
            Handler.files[path] = self.images[0]
        is_jpeg = self.images[0][:2] == b"\xff\xd8"
        suffix = ".jpg" if is_jpeg else ".png"
        files = self.fetch_twice([f"{self.base}/photo.php?id=4", f"{self.base}/w/latest"])
        self.assertEqual(sorted(files), ["latest" + suffix, "photo.php" + suffix])
        self.root = pathlib.Path(self.folder.name, "shared")
        files = self.fetch_twice([f"{self.base}/image?id={i}" for i in range(3)])
        self.assertEqual([name.endswith(suffix) for name in files], [True] * 3)

    def test_a_byte_order_mark_is_no_part_of_the_first_line(self):
        files = self.fetch_twice([f"\ufeff{self.base}/train/good0.jpg", f"{self.base}/train/good1.jpg"])
        self.assertEqual(sorted(files), ["good0.jpg", "good1.jpg"])

    def test_goes_on_from_a_part_and_starts_over_where_it_must(self):
        Handler.modes = {"/train/good1.jpg": "no ranges"}
        (self.root / "train").mkdir(parents=True)
        for i, part in enumerate([self.images[0][:1000], self.images[1][:1000], self.images[2],
                                  b"not the beginning", self.images[4] + b"and more"]):
            (self.root / f"train/good{i}.jpg.part").write_bytes(part)
        code, totals, errors = self.fetch([f"train/good{i}" for i in range(5)])
        self.assertEqual((code, totals["downloaded"]), (0, 5), errors)
        for i in range(5):
            self.assert_file(f"train/good{i}.jpg", self.images[i])

    def test_failures_are_named_and_the_rest_goes_on(self):
        Handler.files["/train/page.jpg"] = b"<html>captcha</html>"
        Handler.files["/train/torn.jpg"] = self.images[1][:-500]
        Handler.files["/train/none.jpg"] = b""
        Handler.modes = {"/train/down.jpg": "always 500"}
        code, totals, errors = self.fetch(
            ["train/page", "train/torn", "train/none", "train/missing", "train/down",
             "train/../../x", "nonsense", "ftp://x/y.jpg", "train/good2"], "--retries", "2")
        self.assertEqual(code, 1)
        self.assertEqual((totals["downloaded"], totals["failed"], totals["bad_lines"]), (1, 5, 3))
        for name in ("page", "torn", "none", "missing", "down"):
            self.assertIn(f"/train/{name}.jpg: ", errors)
        self.assertIn("404", errors)
        for line in ("list.txt:6", "list.txt:7", "list.txt:8"):
            self.assertIn(line, errors)
        self.assertEqual(len(Handler.requests["/train/down.jpg"]), 3)
        self.assertEqual(len(Handler.requests["/train/missing.jpg"]), 1)
        self.assertEqual([p.name for p in self.root.rglob("*") if p.is_file()], ["good2.jpg"])

    def test_large_files_are_given_up(self):
        code, totals, errors = self.fetch(["train/good0"], "--max-file-bytes", "1000")
        self.assertEqual((code, totals["failed"]), (1, 1))
        self.assertIn("--max-file-bytes", errors)

    def test_a_list_that_cannot_be_read_twice_is_refused(self):
        done = subprocess.run([BIN / "offload_dataset", "fetch", "/dev/stdin", self.root],
                              input=f"{self.base}/train/good0.jpg\n", capture_output=True, text=True,
                              timeout=120)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("/dev/stdin: ", done.stderr)

    def test_no_server_is_an_error_of_each_file(self):
        with Port() as port:
            code, totals, errors = self.fetch([f"http://127.0.0.1:{port}/x.jpg"], "--retries", "1")
        self.assertEqual((code, totals["failed"], totals["retries"]), (1, 1, 1))
        self.assertIn(f"127.0.0.1:{port}/x.jpg", errors)


if __name__ == "__main__":
    unittest.main(verbosity=2)
