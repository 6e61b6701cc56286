#!/usr/bin/env python3
"""Aspect buckets (fit_bucket): one digest in all modes, ranks that share an epoch, an evaluation, and what is refused;
without an index the sizes are read from the files."""
import functools
import http.server
import os
import pathlib
import shutil
import threading
import unittest

from programs import TIMEOUT_S, Node, SynthTest, Train, reports, run

NUM_TRAIN = 60
BUCKETS = "96x96/80x112/112x80/48x144"
PIPELINE = f"decode,fit_bucket={BUCKETS}:crop=random,hflip,color_jitter=0.4,to_tensor,normalize=imagenet"
TURNED = PIPELINE.replace("decode,", "decode,exif_transpose,")
# APP1 with EXIF orientation 6: to be turned to the right.
EXIF = b"\xff\xe1\0\x22Exif\0\0II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0"
MODES = ("remote_nooff", "remote_alloff", "remote_piloff", "remote_auto")


class Test(SynthTest):
    SYNTH = ("-n", NUM_TRAIN, "--num-val", 11, "--classes", "3")

    @classmethod
    def train(cls, *flags, code=0, pipeline=PIPELINE):
        done = run("offload_train", "--device", "none", "--epochs", 2, "-j", 2, "-p", 0, "--json", "--pipeline",
                   pipeline, *flags, code=code)
        return done.stderr if code else reports(done.stdout)

    def local(self, *flags, **named):
        return self.train(self.root, "--dataset-mode", "local", *flags, **named)


class BucketsTest(Test):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("offload_dataset", "index", cls.root)

    def test_one_digest(self):
        want = [report["digest"] for report in self.local("-b", 8)]
        self.assertNotEqual(want[0], want[1])
        server = self.serve("--prep-workers", 2)
        for mode in MODES:
            with self.subTest(mode=mode):
                got = self.train("--host", server.address, "--dataset-mode", mode, "-b", 8)
                self.assertEqual([report["digest"] for report in got], want)
                self.assertEqual([report["samples"] for report in got], [NUM_TRAIN] * 2)
                self.assertEqual([report["errors"] for report in got], [0, 0])

    def test_the_flag_is_the_op(self):
        (plain, _), sizes = self.local("-b", 8), BUCKETS.replace("/", ",")
        (flag, _) = self.local("-b", 8, "--buckets", f"{sizes}:crop=random",
                               pipeline="decode,hflip,color_jitter=0.4,to_tensor,normalize=imagenet")
        self.assertEqual(flag["digest"], plain["digest"])
        self.assertIn("has fit_bucket already", self.local("--buckets", sizes, code=1))
        self.assertIn("gives all images one size", self.local("--buckets", sizes, code=1,
                                                              pipeline="decode,random_resized_crop=64"))

    def test_ranks_share_an_epoch(self):
        for world_size in (1, 2, 3):
            ranks = [self.local("-b", 4, "--rank", rank, "--world-size", world_size)[0] for rank in range(world_size)]
            rows = [report["samples"] for report in ranks]
            self.assertEqual(len(set(rows)), 1)
            self.assertEqual(sum(report["padded"] for report in ranks), sum(rows) - NUM_TRAIN)
            padded = sum(rows) - NUM_TRAIN
            for rank, report in enumerate(ranks if world_size == 3 else ()):  # in words, too
                text = run("offload_train", self.root, "--device", "none", "-p", 0, "--pipeline", PIPELINE, "-b", 4,
                           "--rank", rank, "--world-size", world_size).stdout
                self.assertEqual(f"({report['padded']} padded)" in text, report["padded"] > 0)
            self.assertTrue(0 <= padded < len(BUCKETS.split("/")) * world_size, padded)
            dropped = self.local("-b", 4, "--world-size", world_size, "--rank", 0, "--tail", "drop")[0]["samples"]
            self.assertEqual(dropped % 4, 0)
            self.assertGreater(dropped * world_size, NUM_TRAIN - len(BUCKETS.split("/")) * 4 * world_size)

    def test_evaluation(self):
        """Without --val-pipeline it has the buckets of training."""
        (report,) = self.local("-b", 8, "--evaluate")
        self.assertEqual(report["samples"], 11)
        given = self.local("-b", 8, "--evaluate", "--val-pipeline",
                           f"decode,fit_bucket={BUCKETS},to_tensor,normalize=imagenet")
        self.assertEqual(given[0]["digest"], report["digest"])

    def test_refused(self):
        self.assertIn("cannot be profiled", self.local(
            "--profiling", "--write-profile-folder", pathlib.Path(self.folder.name, "profile"), code=1))
        self.assertIn("a model here takes one", run(
            "offload_train", self.root, "--dataset-mode", "local", "-a", "small_cnn", "--pipeline", PIPELINE,
            code=1).stderr)

    def test_an_image_that_changed_its_shape(self):
        """A file of the same length and time as in the list is an error, not a row of another shape."""
        root = pathlib.Path(self.folder.name, "changed")
        run("offload_dataset", "synth", root, "-n", 20, "--num-val", 0, "--classes", 2)
        run("offload_dataset", "index", root)
        rows = [line.split("\t") for line in (root / "sluice-manifest.tsv").read_text().splitlines()]
        rows = [row for row in rows if row[0].endswith(".jpg")]
        wide, tall = (sorted((int(row[1]), row[0]) for row in rows if is_such(int(row[4]), int(row[5])))
                      for is_such in (lambda w, h: w > h * 1.3, lambda w, h: h > w * 1.3))
        short, long = (tall[0], wide[-1]) if tall[0] < wide[-1] else (wide[0], tall[-1])
        self.assertLess(short[0], long[0])
        path = root / long[1]
        time_ns = path.stat().st_mtime_ns
        path.write_bytes((root / short[1]).read_bytes().ljust(long[0], b"\0"))
        os.utime(path, ns=(time_ns, time_ns))
        for mode, where in (("local", [root]), ("remote_piloff", ["--host", self.serve(root=root).address])):
            done = run("offload_train", *where, "--device", "none", "--epochs", 1, "-j", 1, "-b", 4, "--dataset-mode",
                       mode, "--json", "--on-error", "skip", "--pipeline", PIPELINE)
            self.assertEqual(reports(done.stdout)[0]["errors"], 1)
            self.assertIn(f"({long[1]}) is corrupt: the image ends as ", done.stderr)

    def test_turned_images_are_in_the_buckets_of_their_turned_sizes(self):
        """The list has their sizes as stored; a wrong bucket would be an error of the sample."""
        root = self.path / "turned"
        shutil.copytree(self.root, root)
        for image in sorted(root.rglob("*.jpg"))[::2]:
            image.write_bytes(image.read_bytes()[:2] + EXIF + image.read_bytes()[2:])
        (root / "sluice-manifest.tsv").unlink()
        unlisted = self.train(root, "--dataset-mode", "local", "-b", 8, pipeline=TURNED)
        as_stored = self.train(root, "--dataset-mode", "local", "-b", 8)
        run("offload_dataset", "index", root)
        want = self.train(root, "--dataset-mode", "local", "-b", 8, pipeline=TURNED)
        self.assertEqual([report["errors"] for report in want + as_stored], [0] * 4)
        self.assertEqual(unlisted[1]["digest"], want[1]["digest"])
        self.assertNotEqual(as_stored[1]["digest"], want[1]["digest"])
        server = self.serve(root=root)
        for mode in MODES:
            with self.subTest(mode=mode):
                got = self.train("--host", server.address, "--dataset-mode", mode, "-b", 8, pipeline=TURNED)
                self.assertEqual([(report["digest"], report["errors"]) for report in got],
                                 [(report["digest"], 0) for report in want])


class Files(http.server.SimpleHTTPRequestHandler):
    """A web server that knows ranges, and counts those from the beginning of a file; one file waits for the gate."""
    protocol_version = "HTTP/1.1"
    heads = set()
    held, is_asked, gate = None, threading.Event(), threading.Event()

    def log_message(self, *unused):
        pass

    def do_GET(self):
        wanted = self.headers.get("Range", "")
        if not wanted.startswith("bytes="):
            super().do_GET()
            return
        path = pathlib.Path(self.translate_path(self.path))
        if path == self.held:
            self.is_asked.set()
            self.gate.wait()
        body = path.read_bytes()
        first, last = (int(number) for number in wanted.removeprefix("bytes=").split("-"))
        if first == 0 and last < len(body) - 1:
            self.heads.add(self.path)
        part = body[first:last + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime))
        self.end_headers()
        self.wfile.write(part)


class WithoutIndexTest(Test):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        indexed = cls.path / "indexed"
        shutil.copytree(cls.root, indexed)
        run("offload_dataset", "index", indexed)
        cls.want = cls.digests(indexed, "--dataset-mode", "local")

    @classmethod
    def digests(cls, *flags):
        got = cls.train(*flags, "-b", 8)
        if [report["errors"] for report in got] != [0, 0]:
            raise AssertionError(got)
        return [report["digest"] for report in got]

    def test_one_digest(self):
        self.assertEqual(self.digests(self.root, "--dataset-mode", "local"), self.want)
        server = self.serve("--prep-workers", 2)
        for mode in MODES:
            with self.subTest(mode=mode):
                self.assertEqual(self.digests("--host", server.address, "--dataset-mode", mode), self.want)

    def test_images_of_their_own_sizes(self):
        ops = "decode,exif_transpose,smart_resize=28:min_pixels=784:max_pixels=30000,hflip,to_tensor,normalize=imagenet"
        want = self.train(self.root, "--dataset-mode", "local", pipeline=ops)
        server = self.serve()
        for mode in MODES:
            with self.subTest(mode=mode):
                got = self.train("--host", server.address, "--dataset-mode", mode, pipeline=ops)
                self.assertEqual([(report["digest"], report["errors"]) for report in got],
                                 [(report["digest"], 0) for report in want])

    def test_members_of_tars(self):
        tars = self.path / "tars"
        run("offload_dataset", "pack", "--shard-bytes", "1MB", self.root, tars)
        self.assertEqual(self.digests(tars, "--dataset-mode", "local"), self.want)
        server = self.serve(root=tars)
        self.assertEqual(self.digests("--host", server.address), self.want)

    def serve_web(self):
        """The URL of a list of the images, and their paths."""
        files = sorted(path for path in self.root.rglob("*.*") if path.is_file())
        listed = self.path / "set" / "list.txt"
        listed.write_text("".join(f"{path.relative_to(self.root)} {path.stat().st_size} -\n" for path in files))
        self.addCleanup(listed.unlink)
        web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=str(self.root)))
        web.daemon_threads = True
        threading.Thread(target=web.serve_forever, daemon=True).start()
        self.addCleanup(web.server_close)
        self.addCleanup(web.shutdown)
        return f"http://127.0.0.1:{web.server_port}/list.txt", files

    def test_a_web_server_is_asked_for_the_heads_alone(self):
        url, files = self.serve_web()
        server = self.serve(root=url)
        self.assertEqual(self.digests("--host", server.address), self.want)
        long = {"/" + str(path.relative_to(self.root)) for path in files if path.stat().st_size > 32 << 10}
        self.assertTrue(long)
        self.assertEqual(long - Files.heads, set())

    def test_a_server_that_is_killed_while_it_reads_is_asked_again(self):
        url, files = self.serve_web()
        Files.held = next(path for path in files[20:] if path.stat().st_size > 32 << 10)
        self.addCleanup(Files.gate.set)
        with Node(url) as node:
            train = Train("--host", node.address, "--epochs", 1, "-p", 0, "-b", 8, "--pipeline", PIPELINE)
            self.assertTrue(Files.is_asked.wait(TIMEOUT_S))
            node.kill()
            Files.gate.set()
            node.start()
            (report,), log = train.end()
        self.assertEqual((report["digest"], report["errors"]), (self.want[0], 0))
        self.assertIn(f"reading sizes: {NUM_TRAIN + 11}/{NUM_TRAIN + 11}", log)

    def test_servers_with_a_part_each(self):
        parts = [self.path / f"part{i}" for i in range(2)]
        for i, path in enumerate(sorted(path for path in self.root.rglob("*.*") if path.is_file())):
            copy = parts[i % 2] / path.relative_to(self.root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)
        flags = [flag for part in parts for flag in ("--host", self.serve(root=part).address)]
        self.assertEqual(self.digests(*flags), self.want)

    def test_a_damaged_header_counts_as_a_square(self):
        """The sample is an error, and the batches of the others stay as they are in each mode."""
        root = self.path / "damaged"
        shutil.copytree(self.root, root)
        damaged = sorted((root / "train").rglob("*.jpg"))[5]
        damaged.write_bytes(damaged.read_bytes()[:2].ljust(damaged.stat().st_size, b"\0"))
        server = self.serve(root=root)
        want = None
        for where in ([root, "--dataset-mode", "local"], ["--host", server.address, "--dataset-mode", "remote_nooff"],
                      ["--host", server.address, "--dataset-mode", "remote_alloff"]):
            got = self.train(*where, "-b", 8, "--on-error", "skip")
            self.assertEqual([report["errors"] for report in got], [1, 1])
            self.assertEqual([report["samples"] for report in got], [NUM_TRAIN - 1] * 2)
            want = want or got
            self.assertEqual([report["digest"] for report in got], [report["digest"] for report in want])

    def test_isolated_decoders_read_no_headers(self):
        server = self.serve("--isolate-decoders")
        log = self.train("--host", server.address, code=1)
        self.assertIn("with --isolate-decoders it reads no headers: run offload_dataset index", log)


if __name__ == "__main__":
    unittest.main()
