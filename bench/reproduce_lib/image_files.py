"""The images of a folder: by their suffixes, as offload_dataset finds them."""
import os

SUFFIXES = (".jpg", ".jpeg", ".png")


def find(root):
    """Their paths, sorted."""
    return sorted(os.path.join(parent, name) for parent, _, names in os.walk(root)
                  for name in names if name.lower().endswith(SUFFIXES))
