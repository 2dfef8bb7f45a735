#!/usr/bin/env python3
"""Writes src/text/unicode_tables.inc from Python's own Unicode database: scripts/unicode_tables.py >FILE"""
import sys
import unicodedata

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
HANGUL = range(0xAC00, 0xAC00 + 11172)


def ranges(kept):
    """[(first, last, value)] for runs of code points with the same non-zero value."""
    out = []
    for c in POINTS:
        value = kept(c)
        if not value:
            continue
        if out and out[-1][1] == c - 1 and out[-1][2] == value:
            out[-1][1] = c
        else:
            out.append([c, c, value])
    return out


def table(kind, name, rows):
    print("\nstatic const %s %s[] = {" % (kind, name))
    line = ""
    for row in rows:
        item = "{ %s }," % ", ".join(str(v) if v < 256 else "0x%x" % v for v in row)
        if len(line) + len(item) > 115:
            print("    " + line.rstrip())
            line = ""
        line += item + " "
    print("    " + line.rstrip())
    print("};")


def pieces(c):
    """One step of the canonical decomposition: one or two code points."""
    text = unicodedata.decomposition(chr(c))
    return [int(v, 16) for v in text.split()] if text and not text.startswith("<") else []


print("/* Made by scripts/unicode_tables.py from Unicode %s: do not edit. */" % unicodedata.unidata_version)
letters = ranges(lambda c: unicodedata.category(chr(c))[0] == "L")
numbers = ranges(lambda c: unicodedata.category(chr(c))[0] == "N")
classes = ranges(lambda c: unicodedata.combining(chr(c)))
split = [(c, pieces(c)) for c in POINTS if c not in HANGUL and pieces(c)]
joined = sorted((p[0], p[1], c) for c, p in split
                if len(p) == 2 and unicodedata.normalize("NFC", chr(p[0]) + chr(p[1])) == chr(c))
if any(len(p) > 2 for _, p in split):
    sys.exit("a decomposition has more than two parts")
table("range", "letters", [r[:2] for r in letters])
table("range", "numbers", [r[:2] for r in numbers])
table("class_range", "classes", classes)
table("pair", "decompositions", [(c, p[0], p[1] if len(p) > 1 else 0) for c, p in split])
table("pair", "compositions", [(c, a, b) for a, b, c in joined])
