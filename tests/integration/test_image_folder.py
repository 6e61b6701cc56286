#!/usr/bin/env python3
"""The labels of offload_dataset index are those of torchvision's ImageFolder, over random trees.

Without torchvision the reference is a transcription of its rule; with it, both are compared.
"""
import inspect
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import unittest

from programs import BIN, run

SEED = int(os.environ.get("SLUICE_TEST_SEED", "20240708"))
NUM_TREES = int(os.environ.get("SLUICE_NUM_TREES", "40"))
READ = (".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".bmp", ".ppm", ".pgm")
IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")

try:
    from torchvision.datasets import ImageFolder
    if "allow_empty" not in inspect.signature(ImageFolder).parameters:
        ImageFolder = None  # older than 0.17: the rule was another one
except ImportError:
    ImageFolder = None


def by_rule(root, allow_empty):
    """(classes, {path: label}) as torchvision/datasets/folder.py makes them; None: it refuses."""
    classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    labels, available = {}, set()
    for label, name in enumerate(classes):
        for folder, _, files in sorted(os.walk(os.path.join(root, name), followlinks=True)):
            for file in sorted(files):
                if file.lower().endswith(IMG_EXTENSIONS):
                    labels[os.path.relpath(os.path.join(folder, file), root)] = label
                    available.add(name)
    if not classes or (set(classes) - available and not allow_empty):
        return None
    return classes, labels


def by_torchvision(root, allow_empty):
    try:
        found = ImageFolder(root, allow_empty=allow_empty)
    except FileNotFoundError:
        return None
    return found.classes, {os.path.relpath(path, root): label for path, label in found.samples}


def image_folder(root, allow_empty=False):
    expected = by_rule(root, allow_empty)
    if ImageFolder:
        real = by_torchvision(root, allow_empty)
        assert real == expected, f"the transcription differs: {real} {expected}"
    return expected


def unescape(text):
    return text.replace(b"\\\\", b"\0").replace(b"\\t", b"\t").replace(b"\\n", b"\n").replace(
        b"\0", b"\\")


def index(root, *flags):
    """(classes, {path: (label, subset)}, stderr) of our own index; None where it lists nothing."""
    out = root + ".tsv"
    done = subprocess.run([BIN / "offload_dataset", "index", root, "-o", out, "-j1", *flags],
                          capture_output=True, timeout=120)
    if done.returncode:
        assert b"no image file " in done.stderr, done.stderr
        return None
    classes, samples = [], {}
    for line in pathlib.Path(out).read_bytes().splitlines():
        if line.startswith(b"class\t"):
            classes.append(os.fsdecode(unescape(line[6:])))
        elif not line.startswith(b"#"):
            path, _, label, subset = line.split(b"\t")[:4]
            samples[os.fsdecode(unescape(path))] = int(label), subset.decode()
    return classes, samples, done.stderr.decode(errors="replace")


def put(*parts):
    path = os.path.join(*parts)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not os.path.lexists(path):
        pathlib.Path(path).write_bytes(b"x")


def escaped(name):
    """As our programs write a name that is no UTF-8."""
    return "".join(f"\\x{ord(c) - 0xdc00:02x}" if 0xdc00 <= ord(c) < 0xdd00 else c for c in name)


def is_ours(root, path):
    """Whether our rule reads it: suffix, no hidden name in the class, UTF-8, nothing out of root,
    no folder within itself."""
    parts = path.split(os.sep)
    real, above = os.path.realpath(os.path.join(root, path)), set()
    for i in range(len(parts)):
        folder = os.path.realpath(os.path.join(root, *parts[:i]))
        if folder in above:
            return False
        above.add(folder)
        link = os.path.join(root, *parts[:i + 1])
        if os.path.islink(link) and os.path.isabs(os.readlink(link)):
            return False
    return (path.lower().endswith(READ) and not any(part.startswith(".") for part in parts[1:]) and
            real.startswith(os.path.realpath(root) + os.sep) and os.path.isfile(real) and
            not any(0xdc00 <= ord(c) < 0xdd00 for c in path))


class Labels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print(f"seed {SEED}, torchvision {'there' if ImageFolder else 'not there'}", flush=True)

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="sluice-image-folder-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.root = os.path.join(self.folder, "root")
        os.makedirs(self.root)

    NAMES = ("cat", "Dog", "ant-x", "ant", "a b", "\u00e4hre", "\uffee", "\U0001f431", "bad\udcff",
             "bad\udc80x", "x.jpg", "9", "10", ".hid", "_z", "a.b", "\\n", "new\nline")
    FILES = ("1.jpg", "2.JPG", "3.JpEg", "4.png", "5.PNG", "a.webp", "b.TIF", "b.pgm", "c.txt", "d", "e.jpe",
             ".h.jpg", "jpg", "f.jpg.txt", "g.tar.jpeg", "\u00fc.jpg", "z\udcfe.jpg")

    def fill(self, rng, folder, depth):
        for _ in range(rng.choice((0, 1, 1, 2, 4))):
            put(folder, rng.choice(self.FILES))
        if depth < 3:
            for _ in range(rng.choice((0, 0, 1, 2))):
                inner = os.path.join(folder, rng.choice(self.NAMES))
                if not os.path.lexists(inner):
                    os.makedirs(inner)
                    self.fill(rng, inner, depth + 1)

    def add_links(self, rng, root):
        """One link to any folder, which may be a circle (two would take os.walk for ever), some to
        class folders, to files and out of the root."""
        folders = [os.path.join(at, name) for at, names, _ in os.walk(root) for name in names]
        files = [os.path.join(at, name) for at, _, names in os.walk(root) for name in names]
        targets = [self.folder + "/outside", self.folder + "/outside/cat", root + "/nowhere"] + files
        links = []
        if rng.random() < 0.3:
            links.append((rng.choice(folders), rng.choice(folders + [root])))
        for _ in range(rng.choice((0, 0, 1, 2))):
            links.append((rng.choice(folders + [root]), rng.choice(targets)))
        if not links and rng.random() < 0.5:
            links = [(root, rng.choice(folders)) for _ in range(2)]
        for i, (at, target) in enumerate(links):
            is_absolute = rng.random() < 0.15
            os.symlink(target if is_absolute else os.path.relpath(target, at),
                       os.path.join(at, rng.choice(("link{}", "a{}", "l{}.jpg")).format(i)))

    def make(self, rng):
        shutil.rmtree(self.root)
        os.makedirs(self.root)
        for name in rng.sample(self.NAMES, rng.randint(1, 6)):
            os.makedirs(os.path.join(self.root, name))
            self.fill(rng, os.path.join(self.root, name), 0)
            if rng.random() < 0.8:
                put(self.root, name, rng.choice(self.FILES[:7]))
        for _ in range(rng.choice((0, 0, 1, 3))):
            put(self.root, rng.choice(self.FILES))
        put(self.folder, "outside", "cat", "1.jpg")
        self.add_links(rng, self.root)

    def check(self, expected, ours, root):
        classes, labels = expected
        found, samples, _ = ours
        self.assertEqual(found, [escaped(name) for name in classes])
        for path, (label, _) in samples.items():
            self.assertEqual(labels[path], label, path)
        self.assertEqual(sorted(samples), sorted(p for p in labels if is_ours(root, p)))

    def test_labels_equal_image_folders_for_any_tree_that_it_accepts(self):
        num_accepted = num_empty = 0
        for i in range(NUM_TREES):
            rng = random.Random(f"{SEED} {i}")
            self.make(rng)
            with self.subTest(tree=i):
                ours = index(self.root)
                accepted = image_folder(self.root)
                if accepted:
                    num_accepted += 1
                    if ours:
                        self.check(accepted, ours, self.root)
                    else:
                        self.assertFalse([p for p in accepted[1] if is_ours(self.root, p)])
                    continue
                # With allow_empty all folders are classes; ours leave out hidden ones, and take a
                # set in which no folder holds an image for one without classes.
                classes, labels = image_folder(self.root, allow_empty=True)
                if ours and labels:
                    num_empty += 1
                    used = {classes[label] for label in labels.values()}
                    kept = [c for c in classes if not c.startswith(".") or c in used]
                    labels = {p: kept.index(classes[label]) for p, label in labels.items()}
                    self.check((kept, labels), ours, self.root)
        print(f"{num_accepted} trees were accepted, {num_empty} with allow_empty", flush=True)
        self.assertGreater(num_accepted, NUM_TREES // 10)
        self.assertGreater(num_empty, NUM_TREES // 20)

    def test_an_image_beside_the_class_folders_is_passed_over_with_a_line(self):
        for path in ("cat/1.jpg", "dog/2.jpg", "stray.jpg", "STRAY.PNG"):
            put(self.root, path)
        ours = index(self.root)
        self.check(image_folder(self.root), ours, self.root)
        self.assertEqual(ours[0], ["cat", "dog"])
        self.assertIn("passed over: 2 images beside the class folders", ours[2])
        self.assertIn("STRAY.PNG, ...", ours[2])

    def test_empty_class_folders_keep_their_labels_with_a_line(self):
        put(self.root, "b", "1.jpg")
        put(self.root, "d", "2.jpg")
        for name in ("a", "c"):
            os.makedirs(os.path.join(self.root, name))
        self.assertIsNone(image_folder(self.root))
        ours = index(self.root)
        self.check(image_folder(self.root, allow_empty=True), ours, self.root)
        self.assertIn("2 of 4 classes have no samples and keep their label", ours[2])
        self.assertIn(": a, c\n", ours[2])

    def test_class_folders_that_are_links_are_followed_within_the_root_alone(self):
        put(self.root, "b", "1.jpg")
        put(self.folder, "outside", "2.jpg")
        os.symlink("b", os.path.join(self.root, "a"))
        os.symlink("../outside", os.path.join(self.root, "c"))
        os.symlink(os.path.join(self.root, "b"), os.path.join(self.root, "d"))
        os.symlink(".", os.path.join(self.root, "b", "self"))
        ours = index(self.root)
        self.assertEqual(ours[0], image_folder(self.root)[0])
        self.assertEqual(ours[1], {"a/1.jpg": (0, "train"), "b/1.jpg": (1, "train")})
        for line in ("root/c: a link that leaves the root, is absolute",
                     "root/d: a link that leaves the root, is absolute",
                     "/self: a link to a folder that it lies in; passed over"):
            self.assertIn(line, ours[2])

    def test_a_hidden_folder_with_images_is_a_class_with_a_line(self):
        put(self.root, "b", "1.jpg")
        put(self.root, ".checkpoints", "2.jpg")
        put(self.root, ".git", "objects", "x")
        ours = index(self.root)
        self.assertEqual(ours[0], [".checkpoints", "b"])
        self.assertIn("hidden folders that hold images are classes", ours[2])
        shutil.rmtree(os.path.join(self.root, ".git"))  # which ImageFolder would refuse
        self.check(image_folder(self.root), ours, self.root)

    def test_images_without_class_folders_have_one_class_without_a_name(self):
        for path in ("1.jpg", "2.jpg", "notes/read.txt"):
            put(self.root, path)
        self.assertIsNone(image_folder(self.root))
        self.assertEqual(index(self.root)[:2], ([""], {"1.jpg": (0, "train"), "2.jpg": (0, "train")}))

    def test_nothing_beside_train_and_val_makes_them_classes_without_a_line(self):
        for path in ("train/a/1.jpg", "train/b/2.jpg", "val/a/3.jpg", "val/b/4.jpg"):
            put(self.root, path)
        expected = {"train/a/1.jpg": (0, "train"), "train/b/2.jpg": (1, "train"),
                    "val/a/3.jpg": (0, "val"), "val/b/4.jpg": (1, "val")}
        self.assertEqual(index(self.root)[:2], (["a", "b"], expected))
        for subset in ("train", "val"):
            for path, label in image_folder(os.path.join(self.root, subset))[1].items():
                self.assertEqual(expected[f"{subset}/{path}"], (label, subset))
        # Side files, folders without images, hidden ones and stray images change nothing.
        for path in ("README.md", "notes/labels.csv", ".cache/x.jpg", "stray.jpg", "train/s.jpg"):
            put(self.root, path)
        ours = index(self.root)
        self.assertEqual(ours[:2], (["a", "b"], expected))
        self.assertIn("passed over: 3 images beside the class folders", ours[2])
        # Nor does test.
        put(self.root, "test", "c", "1.jpg")
        ours = index(self.root)
        self.assertEqual(ours[:2], (["a", "b"], expected))
        self.assertIn("1 of 5 images are of split test, and are no samples", ours[2])

    def test_a_class_may_be_called_as_a_split_is(self):
        for path in ("train/1.jpg", "plane/2.jpg", "dev/3.jpg", "test/4.jpg"):
            put(self.root, path)
        ours = index(self.root)
        self.check(image_folder(self.root), ours, self.root)
        self.assertEqual(ours[0], ["dev", "plane", "test", "train"])
        self.assertIn("train and dev are taken for classes, as plane", ours[2])
        # With class folders in it, it is a split, and nobody guesses what the others are.
        put(self.root, "train", "steam", "5.jpg")
        out = self.root + ".tsv"
        done = run("offload_dataset", "index", self.root, "-o", out, code=1)
        self.assertIn(f"{self.root}: train/ is a split (train, val, test), and plane/ beside it, "
                      "which holds images too, is none: move plane/ away, or list all folders as "
                      "classes: offload_dataset index --classes-are-folders\n", done.stderr)
        ours = index(self.root, "--classes-are-folders")
        self.check(image_folder(self.root), ours, self.root)
        self.assertEqual({subset for _, subset in ours[1].values()}, {"train"})

    def test_classes_that_only_one_subset_has_are_named(self):
        for path in ("train/b/1.jpg", "val/a/2.jpg", "val/b/3.jpg"):
            put(self.root, path)
        ours = index(self.root)
        self.assertEqual(ours[0], ["a", "b"])
        self.assertIn("1 of 2 class folders is in val alone (a)", ours[2])

    def test_val_without_class_folders_does_not_shift_the_labels_of_train(self):
        for path in ("train/a/1.jpg", "val/2.jpg", "val/3.jpg"):
            put(self.root, path)
        ours = index(self.root)
        self.assertEqual(ours[:2], (["a"], {"train/a/1.jpg": (0, "train")}))
        self.assertIn("passed over: 2 images beside the class folders", ours[2])


if __name__ == "__main__":
    unittest.main(verbosity=2)
