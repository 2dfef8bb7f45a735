#!/usr/bin/env python3
"""pets_cut.py PETS OUT [MOST]: cuts the heads of Oxford-IIIT Pet for diffae-data.

  PETS  images/ (128x128), meta.csv with head boxes and captions.csv with species and breed
  OUT   gets all/, boxed/ (64x64), wide/ (72x72) and pets.csv with the labels
  MOST  only the first heads, for a try

Where the data set has no head box, it is that of pets-heads.csv (pets_heads.py) if that is sure; boxed/ is without
those. wide/ has two views of each head, for random crops of 64x64. Needs Pillow.
"""
import csv
import sys
from pathlib import Path

from PIL import Image

SURE = 0.8  # the least overlap of the boxes found in several views of a picture
LEAST = 46  # pixels of 128 that a head must have
BOX = ("head_x0", "head_y0", "head_x1", "head_y1")


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def square(box, times):
    """A square of so many times the head box, inside the picture."""
    x0, y0, x1, y1 = box
    side = min(128, int(times * max(x1 - x0, y1 - y0) + 0.5))
    x, y = (max(0, min(int(at), 128 - side)) for at in ((x0 + x1 - side) / 2, (y0 + y1 - side) / 2))
    return x, y, x + side, y + side


def title(breed):
    return " ".join(word[:1].upper() + word[1:] for word in breed.split())


def main():
    pets, out = Path(sys.argv[1]), Path(sys.argv[2])
    most = int(sys.argv[3]) if len(sys.argv) > 3 else None
    known = [row for row in rows(pets / "meta.csv") if row["head_x0"]]
    found = [row for row in rows(Path(__file__).parent / "pets-heads.csv") if float(row["overlap"]) >= SURE]
    heads = [(row["file"], [int(row[name]) for name in BOX], kind)
             for kind, list in (("boxed", known), ("found", found)) for row in list]
    heads = [(file, box, kind) for file, box, kind in heads if max(box[2] - box[0], box[3] - box[1]) >= LEAST][:most]
    for folder in ("all", "boxed", "wide"):
        (out / folder).mkdir(parents=True, exist_ok=True)

    for i, (file, box, kind) in enumerate(heads):
        picture = Image.open(pets / "images" / file).convert("RGB")

        def cut(times, side):
            return picture.crop(square(box, times)).resize((side, side), Image.BICUBIC)

        name = Path(file).stem + ".png"
        cut(1.25, 64).save(out / "all" / name)
        if kind == "boxed":
            (out / "boxed" / name).hardlink_to(out / "all" / name)
        # A crop of 64 pixels of the first has the size of the head in all/; of the second it is nearer or farther, in
        # turn. What follows '#' does not count when images are held out.
        cut(1.25 * 72 / 64, 72).save(out / "wide" / name)
        cut((1.45 if i % 2 else 1.1) * 72 / 64, 72).save(out / "wide" / f"{name}#2.png")

    captions = {row["file"]: row for row in rows(pets / "captions.csv")}
    breeds = list(dict.fromkeys(row["breed"] for row in captions.values()))
    with open(out / "pets.csv", "w") as file:
        print("file,Cat,Dog", *map(title, breeds), sep=",", file=file)
        for name, _, _ in heads:
            species, breed = captions[name]["species"], captions[name]["breed"]
            marks = [species == "cat", species == "dog"] + [breed == one for one in breeds]
            print(Path(name).stem + ".png", *map(int, marks), sep=",", file=file)


if __name__ == "__main__":
    main()
