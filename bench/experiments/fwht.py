"""bench/experiments/fwht: Walsh-Hadamard transforms along rows, columns and channels, against memory and L1 cache.

Started by the script `fwht`; writes docs/results/fwht.md and fwht.png. Each round runs the program
build/fwht once; figures are medians over the rounds.
"""
import argparse
import os
import re
import shlex
import statistics
import subprocess
import sys

import plot

FIELDS = ("gbs", "of_memcpy", "cycles", "l1", "memory", "of_bound")


def arguments():
    parser = argparse.ArgumentParser(prog="bench/experiments/fwht")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prefix", default="", help='put before the timed program, such as "chrt -f 10"')
    return parser.parse_args()


def run(a):
    """The output of one run: (its first line, {axis: {length: {field: value}}})"""
    command = shlex.split(a.prefix) + [os.path.join(plot.ROOT, "build", "fwht"), str(a.threads)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"fwht: {(done.stderr.strip() or 'failed').splitlines()[-1]}")
    axes, axis = {}, None
    for line in done.stdout.splitlines():
        cells = [cell.strip(" %") for cell in line.strip("|").split("|")]
        if cells[0].endswith(" of"):
            axis = axes.setdefault(cells[0][:-3], {})
        elif axis is not None and cells[0].isdigit():
            axis[int(cells[0])] = dict(zip(FIELDS, map(float, cells[1:])))
    return done.stdout.splitlines()[0], axes


def medians(runs):
    first = runs[0][1]
    return {axis: {n: {f: statistics.median(r[1][axis][n][f] for r in runs) for f in FIELDS} for n in first[axis]}
            for axis in first}


def table(lengths):
    body = [[str(n), plot.digits(e["gbs"]), f"{e['of_memcpy']:.0f} %", f"{e['cycles']:.2f}", f"{e['l1']:.2f}",
             f"{e['memory']:.2f}", f"{e['of_bound']:.0f} %"] for n, e in lengths.items()]
    return plot.table(["length", "GB/s", "of memcpy", "cycles a vector", "in the L1", "memory", "of the limit"], body)


def sentences(axes):
    for axis, lengths in axes.items():
        at_speed = [n for n, e in lengths.items() if e["of_memcpy"] >= 90]
        worst = min(lengths, key=lambda n: lengths[n]["of_bound"])
        until = f"up to length {max(at_speed)} they run at 90 % of memcpy or more" if at_speed else "no length reaches 90 % of memcpy"
        free = [n for n, e in lengths.items() if e["l1"] <= e["memory"]]
        binds = f"memory is the larger bound up to length {max(free)}, the passes beyond" if free else "the passes are the larger bound at every length"
        yield (f"- {axis.capitalize()}: {until}; {binds}. Furthest from its bound: length {worst}, {lengths[worst]['of_bound']:.0f} %.")


def draw(axes):
    series = {}
    for axis, lengths in axes.items():
        series[axis] = (list(lengths), [e["cycles"] for e in lengths.values()])
        series[axis + ", limit"] = (list(lengths), [max(e["l1"], e["memory"]) for e in lengths.values()], "--")
    plot.lines("fwht.png", "Walsh-Hadamard transforms of 64 MB", "length", "cycles a vector and core",
               series, logx=True, logy=True)


def main():
    a = arguments()
    runs = [run(a) for _ in range(a.rounds)]
    axes = medians(runs)
    draw(axes)
    said = re.sub(r"^\d+ threads, ", "", runs[0][0])
    text = f"""# Walsh-Hadamard transforms and what limits them

Made by `bench/experiments/fwht`; {plot.machine(a.threads)}; {said}.
Maps of 64 MB with 16 channels, fp32, read once and written once; consecutive rows, columns of rows of 256 pixels, channels of
one pixel. Best of 7 runs, medians over {a.rounds} rounds.

![cycles](fwht.png)

{chr(10).join(f"## Along {axis}{chr(10)}{chr(10)}{table(lengths)}" for axis, lengths in axes.items())}
GB/s: bytes read and written. of memcpy: of a large memcpy by all threads; a copy that fetches ahead is faster, so that more than 100 % is
possible. cycles a vector: what a core takes for four floats. in the L1: the same kernel on the same addresses, one thread, but all of them
are 16 KB of memory, mapped again and again, so that the map stays in the first cache. These are small pages, the maps large ones: a figure
may be too high by what their translation costs, which was not measured. memory: what a vector takes at the rate of the copy that fetches
ahead. of the limit: the larger of the last two, over the cycles taken.

{chr(10).join(sentences(axes))}
"""
    plot.write("fwht", text)


if __name__ == "__main__":
    main()
