#!/usr/bin/env python3
"""nearest.py DATA FOLDER...: for the images of each folder, the distance to the nearest image of the data, by features.

To see whether a generator copies its data: its samples are no nearer to the data than photos that are not in it. Needs
the package (pip install ./python, or PYTHONPATH=python) and efficientnet_lite0.safetensors among the models
(docs/scores.md).
"""
import ctypes
import statistics
import sys
from pathlib import Path

import zenith
from zenith import _c
from zenith._library import check, lib


def nearest(data, files):
    """(file, distance, name of the nearest) of each file."""
    images = [zenith.Image.read(file) for file in files]
    pointers = (ctypes.POINTER(_c.zn_image) * len(images))(*[image._pointer for image in images])
    found = (_c.zn_neighbour * len(images))()
    options = _c.zn_nearest_options(data=str(data).encode())
    check(lib.zn_nearest(ctypes.byref(options), len(images), pointers, found, None))
    return [(file, one.distance, one.name.decode()) for file, one in zip(files, found)]


def main():
    data, *folders = sys.argv[1:]
    sets = [sorted(path for path in Path(folder).iterdir() if path.is_file()) for folder in folders]
    rows = nearest(data, [file for files in sets for file in files])
    for file, distance, name in rows:
        print(f"{distance:8.3f}  {file}  {name}")
    for folder, files in zip(folders, sets):
        some = [distance for file, distance, _ in rows if file in files]
        print(f"{folder}: {len(some)} images, nearest {min(some):.3f}, median {statistics.median(some):.3f}, farthest {max(some):.3f}")


if __name__ == "__main__":
    main()
