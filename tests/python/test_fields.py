"""Fields: what a dataset says of each sample under names comes with its rows, in every mode, from a table, from files
beside the images and from tars, from a folder or over the wire."""
import functools
import http.server
import json
import pathlib
import tempfile
import threading
import unittest

import support

support.require("numpy", "torch")

import numpy
import torch

import sluice
import sluice.numpy
import sluice.torch

NUM, NUM_VAL = 23, 4
MODES = ("remote_nooff", "remote_alloff", "remote_piloff", "remote_auto")
COLUMNS = ("--target", "caption:text", "--target", "y:vector", "--target", "boxes=objects:boxes",
           "--target", "points:keypoints", "--target", "meta:json")
BESIDE = ("--target", ".raw", "--target", ".mask.png:mask")


def dataset(*arguments, code=0):
    return support.run("offload_dataset", *arguments, code=code)


class FieldsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="sluice-fields-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.root = cls.folder / "root"
        dataset("synth", cls.root, "-n", NUM, "--num-val", NUM_VAL, "--classes", 3)
        cls.paths = sorted(str(path.relative_to(cls.root)) for path in cls.root.rglob("*.*")
                           if path.is_file() and path.parent.parent.parent == cls.root)
        dataset("index", cls.root)
        cls.plain = cls.digest(cls.root)
        cls.want, rows = {}, []
        for i, path in enumerate(cls.paths):
            boxes = [[k, 2 * k, k + 0.5, 3 * k + i, 7 + k] for k in range(i % 4)]
            points = [[[k + 0.25, i, 1], [k, i, 0]] for k in range(i % 3)]
            row = {"caption": f'caption "{i}",\n\té' if i != 3 else "", "y": [0.1 * i, -i, 1 / (i + 1)],
                   "objects": {"boxes": [box[:4] for box in boxes], "labels": [box[4] for box in boxes]},
                   "points": points, "meta": {"i": i, "deep": [None, "ü"]}}
            rows.append(json.dumps({"file_name": path, **row}))
            raw, mask = bytes([i, 0, 255]) * i, b"\x89PNG" + bytes(i)
            stem = cls.root / path.rsplit(".", 1)[0]
            pathlib.Path(f"{stem}.raw").write_bytes(raw)
            pathlib.Path(f"{stem}.mask.png").write_bytes(mask)
            cls.want[path] = {
                "caption": row["caption"], "y": numpy.float32(row["y"]),
                "boxes": {"boxes": numpy.float32([box[:4] for box in boxes]).reshape(-1, 4),
                          "labels": numpy.int64([box[4] for box in boxes])},
                "points": {"keypoints": numpy.float32(points).reshape(-1, 2, 3)}, "meta": row["meta"],
                "raw": raw, "mask.png": mask}
        (cls.root / "metadata.jsonl").write_text("\n".join(rows), encoding="utf-8")
        dataset("index", cls.root, *COLUMNS, *BESIDE)

    @classmethod
    def digest(cls, root):
        return support.train(root, "-b", "4", "-p", "0", "--image-size", "32")[-1]["digest"]

    def same(self, got, want):
        if isinstance(want, dict) and set(want) & {"boxes", "keypoints"}:
            self.assertEqual(set(got), set(want))
            for name, array in want.items():
                self.same(got[name], array)
        elif isinstance(want, numpy.ndarray):
            got = numpy.asarray(got)
            self.assertEqual((got.dtype, got.shape), (want.dtype, want.shape))
            self.assertEqual(got.tobytes(), want.tobytes())
        else:
            self.assertEqual(got, want)

    def row_of(self, fields, i):
        def of(value):
            if not isinstance(value, dict):
                return value[i]
            begin, end = value["offsets"][i], value["offsets"][i + 1]
            return {name: array[begin:end] for name, array in value.items() if name != "offsets"}

        return {name: of(value) for name, value in fields.items()}

    def check(self, loader, num=NUM, want=None):
        want, seen = want or self.want, set()
        with loader:
            for images, labels, fields, ids in loader:
                self.assertEqual(list(fields), list(loader.fields))
                for value in fields.values():
                    self.assertEqual(len(value["offsets"]) - 1 if isinstance(value, dict) else len(value), len(ids))
                for i, sample in enumerate(numpy.asarray(ids)):
                    path = loader.path(int(sample))
                    seen.add(path)
                    row = self.row_of(fields, i)
                    for name, value in row.items():
                        self.same(value, want[path][name])
        self.assertEqual(len(seen), num)

    def loader(self, module, source, **options):
        return module.Loader(source, 4, fields=True, sample_ids=True, image_size=32, **options)

    def test_every_mode_gives_every_field(self):
        self.check(self.loader(sluice.numpy, self.root))
        self.check(self.loader(sluice.torch, self.root, device="cpu"))
        with support.Server(self.root) as server:
            for mode in MODES:
                self.check(self.loader(sluice.numpy, server.address, mode=mode))
            self.check(self.loader(sluice.torch, server.address))
            self.check(self.loader(sluice.torch, server.address, part="val"), num=NUM_VAL)
        self.assertEqual(self.digest(self.root), self.plain)

    def test_kinds_are_named(self):
        with self.loader(sluice.numpy, self.root) as loader:
            self.assertEqual(loader.fields, {"caption": "text", "y": "vector", "boxes": "boxes", "points": "keypoints",
                                             "meta": "json", "raw": "bytes", "mask.png": "mask"})
            self.assertEqual(loader.info["target_kind"], "bytes")

    def test_some_fields_in_their_order_and_targets_are_field_0(self):
        with sluice.torch.Loader(self.root, 4, fields=["meta", "caption"], image_size=32, shuffle=False) as loader:
            images, labels, fields = next(iter(loader))
            self.assertEqual(list(fields), ["meta", "caption"])
        with sluice.torch.Loader(self.root, 4, targets=True, image_size=32, shuffle=False) as loader:
            self.assertEqual([text.decode() for text in next(iter(loader))[2]], fields["caption"])

    def test_tensors_are_the_callers_own(self):
        with self.loader(sluice.torch, self.root, shuffle=False) as loader:
            fields = next(iter(loader))[2]
            self.assertEqual(fields["y"].shape, (4, 3))
            fields["y"] += 1
            fields["boxes"]["boxes"] += 1
            again = next(iter(loader))[2]
            self.assertTrue(torch.equal(again["y"] + 1, fields["y"]))

    def test_members_of_tars_and_back(self):
        packed, unpacked = self.folder / "packed", self.folder / "unpacked"
        dataset("pack", self.root, packed)
        options = [text for name, kind in (("caption", "text"), ("y", "vector"), ("boxes", "boxes"), ("points", "keypoints"),
                                           ("meta", "json"), ("raw", "bytes"), ("mask.png", "mask"))
                   for text in ("--target", f".{name}:{kind}")]
        dataset("index", packed, *options)
        dataset("verify", packed, *options)
        in_tars = {}
        for path, want in self.want.items():
            part, name = path.split("/", 1)
            in_tars[f"{part}/shard-000000.tar/{name}"] = want
        self.check(self.loader(sluice.numpy, packed), want=in_tars)
        self.assertEqual(self.digest(packed), self.plain)
        said = dataset("unpack", packed, self.folder / "nowhere", *options, code=1).stderr
        self.assertIn("has a NUL byte, which no table can hold", said)
        texts = [text for text in options if not text.endswith(":bytes")]
        texts.pop(10)  # the option before it
        next_ = dataset("unpack", packed, unpacked, *texts).stdout.split("index ")[1].split()
        self.assertEqual([text.strip("'") for text in next_[2::2]],
                         [text.replace(".", "", 1) if "mask" not in text else text for text in texts[1::2]])
        dataset("index", unpacked, *(text.strip("'") for text in next_[1:]))
        self.check(self.loader(sluice.numpy, unpacked))

    def test_a_dataset_gives_the_fields_of_a_sample(self):
        data = sluice.torch.Dataset(self.root, fields=True, image_size=32)
        with sluice.numpy.Loader(self.root, 1, image_size=32) as loader:
            paths = [loader.path(i) for i in range(NUM)]
        for i in (0, 3, NUM - 1):
            image, label, fields = data[i]
            for name, value in fields.items():
                self.same(value, self.want[paths[i]][name])

    def test_a_python_tail_and_rows_that_stand_in_keep_their_fields(self):
        loader = self.loader(sluice.numpy, self.root, python_tail=support_tail, python_tail_workers=1)
        self.check(loader)

    def test_wrong_fields_are_refused(self):
        with self.assertRaisesRegex(ValueError, "fields: the dataset has no 'text', but 'caption', 'y'"):
            sluice.numpy.Loader(self.root, 4, fields=["text"])
        with self.assertRaisesRegex(ValueError, "True, or a list of names"):
            sluice.numpy.Loader(self.root, 4, fields="caption")
        with self.assertRaisesRegex(ValueError, "give one of them"):
            sluice.numpy.Loader(self.root, 4, fields=True, targets=True)
        plain = self.folder / "plain"
        dataset("synth", plain, "-n", 4, "--classes", 2)
        with self.assertRaisesRegex(ValueError, "fields: the dataset has none"):
            sluice.numpy.Loader(plain, 4, fields=True)

    def test_verify_finds_another_value(self):
        dataset("verify", self.root, *COLUMNS, *BESIDE)
        table = self.root / "metadata.jsonl"
        text = table.read_text(encoding="utf-8")
        table.write_text(text.replace('caption \\"5\\"', 'caption \\"6\\"'), encoding="utf-8")
        said = dataset("verify", self.root, *COLUMNS, *BESIDE, code=1).stderr
        self.assertIn("another target than the manifest says", said)
        table.write_text(text, encoding="utf-8")

    def test_annotations_of_coco_and_of_yolo(self):
        """Files of both kinds, and a reference in NumPy; boxes stay with their images in every mode."""
        root, labels = self.folder / "coco", self.folder / "labels"
        dataset("synth", root, "-n", 9, "--num-val", 2, "--classes", 2)
        dataset("index", root)
        rows = [line.split("\t") for line in (root / "sluice-manifest.tsv").read_text().splitlines() if ".jpg\t" in line]
        coco = {"images": [], "annotations": [], "categories": [{"id": i} for i in range(90)]}
        want_coco, want_yolo = {}, {}
        for i, row in enumerate(rows):
            path, width, height = row[0], int(row[4]), int(row[5])
            coco["images"].append({"id": 1000 - i, "file_name": path.split("/")[-1]})
            sized = [[k, 2 * k + 0.25, 3, 4 + k] for k in range(i % 4)]
            coco["annotations"] += [{"image_id": 1000 - i, "category_id": k, "bbox": box,
                                     "keypoints": [k, 1, 2] * 17} for k, box in enumerate(sized)]
            want_coco[path] = {
                "boxes": {"boxes": numpy.float32([[x, y, x + w, y + h] for x, y, w, h in sized]).reshape(-1, 4),
                          "labels": numpy.int64(range(len(sized)))},
                "keypoints": {"keypoints": numpy.float32([[[k, 1, 2]] * 17 for k in range(len(sized))]).reshape(-1, 17, 3)}}
            text = labels / pathlib.Path(path).with_suffix(".txt")
            text.parent.mkdir(parents=True, exist_ok=True)
            parts = numpy.float32([[0.5, 0.25, 0.125 * k, 0.5] for k in range(i % 3)]).reshape(-1, 4)
            text.write_text("".join(f"{k} {' '.join(map(str, part))}\n" for k, part in enumerate(parts)))
            scale = numpy.float32([width, height, width, height])
            corners = numpy.concatenate([parts[:, :2] - parts[:, 2:] / 2, parts[:, :2] + parts[:, 2:] / 2], 1)
            want_yolo[path] = {"boxes": {"boxes": corners * scale, "labels": numpy.int64(range(len(parts)))}}
        (self.folder / "instances.json").write_text(json.dumps(coco))
        for at, want in ((self.folder / "instances.json", want_coco), (labels, want_yolo)):
            dataset("index", root, "--annotations", at)
            dataset("verify", root, "--annotations", at)
            self.check(self.loader(sluice.numpy, root), num=9, want=want)
            with support.Server(root) as server:
                self.check(self.loader(sluice.torch, server.address), num=9, want=want)
        coco["annotations"][0]["bbox"][2] = -1
        (self.folder / "instances.json").write_text(json.dumps(coco))
        self.assertIn("instances.json: annotations[0]: its bbox has a negative width or height",
                      dataset("index", root, "--annotations", self.folder / "instances.json", code=1).stderr)
        dataset("index", root, "--anew", "--no-hash", "--annotations", labels)
        self.check(self.loader(sluice.numpy, root), num=9, want=want_yolo)
        for image in root.rglob("*.jpg"):
            image.write_bytes(bytes(99))
        self.assertIn("YOLO's boxes need the sizes of the images, and none can be read",
                      dataset("index", root, "--annotations", labels, code=1).stderr)

    def test_boxes_of_yolo_are_of_the_image_as_it_is_shown(self):
        """Also of those in tars, and on a web server: the manifest has them in pixels of the file."""
        root, labels, tars, web = (self.folder / name for name in ("shown", "shown-labels", "shown-tars", "shown.tsv"))
        dataset("synth", root, "-n", 6, "--num-val", 0, "--classes", 2)
        files = sorted(root.rglob("*.jpg"))
        for i, image in enumerate(files):
            if i % 2:  # EXIF orientation 6: to be turned to the right
                exif = b"\xff\xe1\0\x22Exif\0\0II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0"
                image.write_bytes(image.read_bytes()[:2] + exif + image.read_bytes()[2:])
            text = (labels / image.relative_to(root)).with_suffix(".txt")
            text.parent.mkdir(parents=True, exist_ok=True)
            text.write_text("1 0.25 0.5 0.125 0.5\n")

        def boxes(manifest):
            rows = [line.split("\t") for line in manifest.read_text().splitlines() if ".jpg\t" in line]
            return {row[0].split(".tar/")[-1]: (row[4], row[5], row[-1]) for row in rows}

        dataset("index", root, "--annotations", labels)
        dataset("verify", root, "--annotations", labels)
        got = boxes(root / "sluice-manifest.tsv")
        self.assertEqual(len(got), 6)
        for i, image in enumerate(files):
            width, height, box = got[str(image.relative_to(root))]
            width, height = int(width), int(height)
            want = [width * 0.1875, height * 0.25, width * 0.3125, height * 0.75]
            if i % 2:  # a column of what is shown is a row of the file from its end
                want = [width * 0.25, height * (1 - 0.3125), width * 0.75, height * (1 - 0.1875)]
            self.assertEqual([float(number) for number in box.split()], [*want, 1])
        dataset("pack", root, tars)
        dataset("index", tars, "--annotations", labels)
        self.assertEqual(boxes(tars / "sluice-manifest.tsv"), got)

        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *unused):
                pass

        (root / "list.txt").write_text("".join(f"{image.relative_to(root)} {image.stat().st_size} -\n" for image in files))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(root)))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        dataset("index", f"http://127.0.0.1:{server.server_port}/list.txt", "--out", web, "--annotations", labels)
        self.assertEqual(boxes(web), got)

    def test_jax_has_them_on_the_host(self):
        try:
            import sluice.jax
        except ImportError as error:
            self.skipTest(str(error))
        self.check(self.loader(sluice.jax, self.root))

    def test_dali_refuses(self):
        try:
            import sluice.dali
        except ImportError as error:
            self.skipTest(str(error))
        with self.assertRaisesRegex(ValueError, "fields: these batches have none"):
            sluice.dali.Loader(self.root, 4, fields=True)


def support_tail(image, rng):
    return image


if __name__ == "__main__":
    unittest.main()
