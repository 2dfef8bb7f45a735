"""bench/experiments/summary: the main columns of the results pages, ARM beside x86.

Started by the script `summary`; reads docs/results/*.md and docs/results/x86/*.md and writes docs/results/README.md. A
missing page leaves its columns empty.
"""
import os

import plot

# page, heading, column with the names of rows, further columns that distinguish rows, columns shown for each machine
PAGES = [("latency", "TAESD family, 512x512, encode + decode", "network", [],
          ["ms, median (least to most)", "of roofline", "of TAESD"]),
         ("speed128", "Prune family, 128x128", "network", ["engine"],
          ["forward ms, inference", "backward ms", "of roofline"]),
         ("sparsity", "A Prune block, 16x16 pixels, 8192 channels", "pruned", ["share"],
          ["forward ms, median (least)", "backward ms, median (least)", "of roofline"]),
         ("convergence", "Error against time, wavelet images", "", [],
          ["ms a step", "of roofline", "error after 20 s"]),
         ("restoration", "Training steps of the restoration networks", "", ["training"], ["ms a step", "of roofline"])]
MACHINES = {"ARM": "", "x86": "x86"}
SECTION = {"sparsity": "512x512"}  # section with the table, for pages with several similar tables


def tables(lines):
    """The tables of a page: (heading above, column names, rows as {column: cell})."""
    heading, at = "", 0
    while at < len(lines):
        if lines[at].startswith("#"):
            heading = lines[at]
        if not lines[at].startswith("|"):
            at += 1
            continue
        block = []
        while at < len(lines) and lines[at].startswith("|"):
            block.append([cell.strip() for cell in lines[at].strip().strip("|").split("|")])
            at += 1
        yield heading, block[0], [dict(zip(block[0], row)) for row in block[2:]]


def read(page, machine, columns):
    """The line that names the machine, and the rows of the page's table, indexed by the cells of `columns`."""
    path = os.path.join(plot.ROOT, "docs", "results", MACHINES[machine], page + ".md")
    if not os.path.exists(path):
        return None, {}
    lines = open(path).read().splitlines()
    where = next(line for line in lines if line.startswith("Made by")).split("; ", 1)[1].split(";")[0].split(". ")[0]
    for heading, names, rows in tables(lines):
        if all(column in names for column in columns) and SECTION.get(page, "") in heading:
            return where, {tuple(row[column] for column in columns): row for row in rows}
    return where, {}


def section(page, heading, name, others, shown):
    columns = [name] + others
    found = {machine: read(page, machine, columns) for machine in MACHINES}
    keys = list(dict.fromkeys(key for _, rows in found.values() for key in rows))
    head = [name or "network"] + others + [f"{machine}: {column}" for machine in MACHINES for column in shown]
    body = [list(key) + [found[machine][1].get(key, {}).get(column, "") for machine in MACHINES for column in shown]
            for key in keys if any(found[m][1].get(key, {}).get(shown[0]) for m in MACHINES)]
    links = "; ".join(f"{machine}: {where or 'not measured yet'}" +
                      (f" ([page]({os.path.join(MACHINES[machine], page + '.md')}))" if where else "")
                      for machine, (where, _) in found.items())
    return f"## {heading}\n\n{links}.\n\n{plot.table(head, body)}\n"


def main():
    text = """# Results, ARM beside x86

The main columns of the pages in this folder, made by `bench/experiments/summary`. Each page explains its columns; pages of the x86
machine are in `x86/` and were made by the same commands (`ZENITH_RESULTS=docs/results/x86 bench/experiments/latency`, and so on).

"""
    text += "".join(section(*page) for page in PAGES)
    plot.RESULTS = os.path.join(plot.ROOT, "docs", "results")
    plot.write("README", text)


if __name__ == "__main__":
    main()
