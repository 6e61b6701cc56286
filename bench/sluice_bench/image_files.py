"""The images of a folder: by their suffixes, as offload_dataset finds them."""
import os

SUFFIXES = (".jpg", ".jpeg", ".png")


def find(root):
    """Their paths, sorted."""
    return sorted(os.path.join(parent, name) for parent, _, names in os.walk(root)
                  for name in names if name.lower().endswith(SUFFIXES))


def _available_bytes():
    with open("/proc/meminfo", encoding="ascii") as file:
        fields = dict(line.split(":") for line in file)
    return int(fields["MemAvailable"].split()[0]) * 1024


def warm(root, most_bytes=None):
    """Reads all of them once, so that they are in the page cache, if they fit into most_bytes (half
    of the memory that is available).  Whether they do."""
    paths = find(root)
    if most_bytes is None:
        most_bytes = _available_bytes() // 2
    if sum(map(os.path.getsize, paths)) > most_bytes:
        return False
    for path in paths:
        with open(path, "rb") as file:
            while file.read(1 << 20):
                pass
    return True
