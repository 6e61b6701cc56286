#!/usr/bin/env python3
"""bench/python/link from one end to the other on a handful of images: fields, not times."""
import http.server
import importlib.util
import os
import shutil
import sys
import threading
import unittest

from benches import SKIPPED, BenchTest, load_one
from programs import BIN, reports

NUM_IMAGES = 12
SMALL = ("--rounds", 1, "--seconds", 0.05, "--batch", 4, "--repeat", 1, "--link", 1000,
         "--storage-cores", 1, "--compute-cores", 1)


class LinkTest(BenchTest):
    SYNTH = ("-n", NUM_IMAGES, "--num-val", 0, "--classes", 2, "-j", 1, "--log-level", "warn")
    PROGRAM, FLAGS = "python/link", ("--bin", BIN)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.chmod(cls.path, 0o755)  # nginx's workers are another user

    def rows(self, *arguments):
        done = self.bench(self.root, *SMALL, "--json", *arguments)
        self.assertIn("one digest of epoch 0", done.stderr)
        return reports(done.stdout)

    def check(self, rows, names):
        self.assertEqual([(row["name"], row["output"].split()[0]) for row in rows], names)
        auto = {row["output"].split()[0]: row for row in rows if "auto" in row["name"]}
        for row in rows:
            self.assertEqual(row["rounds"], 1)
            self.assertGreater(row["samples_per_s"], 0)
            self.assertAlmostEqual(row["us"] * row["samples_per_s"], 1e6, places=3)
            self.assertGreater(row["bytes"], 0)
            self.assertAlmostEqual(row["mbit"], row["bytes"] * row["samples_per_s"] * 8e-6)
            self.assertAlmostEqual(row["of_link"], row["mbit"] / 1000)
            of = auto[row["output"].split()[0]]
            self.assertAlmostEqual(row["auto_over"], of["samples_per_s"] / row["samples_per_s"])

    def test_every_row_has_its_columns_without_root(self):
        self.check(self.rows("--no-root", "--web", "python", "--workers", 2), [
            (name, output) for output in ("u8", "f32") for name in
            ("sluice.torch, remote_auto", "sluice.torch, remote_nooff",
             "torchvision, HTTP, 2 workers")])

    @unittest.skipUnless(shutil.which("nginx") or shutil.which("/usr/sbin/nginx"),
                         "nginx is missing (nginx-light)")
    def test_two_hosts_of_this_machine_or_what_it_has_of_them(self):
        self.check(self.rows("--workers", 1, "--modes", "remote_auto", "--outputs", "u8"),
                   [("sluice.torch, remote_auto", "u8"), ("torchvision, HTTP, 1 workers", "u8")])

    def test_what_fails_is_exit_code_1_in_words(self):
        done = self.bench(self.path / "none", *SMALL, "--no-root", "--web", "python", code=1)
        self.assertIn("offload_server: ", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_what_cannot_be_imported_is_skipped_with_its_reason(self):
        self.check_a_broken_package_skips()

    def test_a_site_gives_files_over_one_connection_and_says_what_it_lacks(self):
        one, root, clients = load_one(), self.root, set()

        class Handler(http.server.SimpleHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def __init__(self, *arguments):
                super().__init__(*arguments, directory=root)

            def log_request(self, *_):
                clients.add(self.client_address)

            def log_error(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            site = one.Site(f"127.0.0.1:{server.server_port}")
            paths = list(self.root.rglob("*.jp*g"))
            self.assertEqual(len(paths), NUM_IMAGES)
            for path in paths:
                self.assertEqual(site.get(str(path.relative_to(self.root))), path.read_bytes())
            self.assertEqual(len(clients), 1)
            with self.assertRaisesRegex(RuntimeError, "none such.jpg: 404"):
                site.get("none such.jpg")
            site.connection.close()
            server.shutdown()


if __name__ == "__main__":
    for module in ("numpy", "torch", "torchvision"):
        if importlib.util.find_spec(module) is None:
            print(f"SKIPPED: python3-{module} is missing")
            sys.exit(SKIPPED)
    unittest.main()
