"""bench/experiments/sparsity: time of a Prune block against the pruned share, and what gates learn to prune.

Started by the script `sparsity`; writes docs/results/sparsity.md and sparsity.png.
"""
import argparse
import json
import os
import shlex
import subprocess

import plot

STRUCTURES = {"pixels": "whole pixels", "channels": "the same blocks in all pixels", "random": "any block of any pixel"}
BLOCKS = [(8192, 4, 0, "block at 128x128 (4x4 map)"), (8192, 16, 0, "block at 512x512 (16x16 map)"),
          (8192, 4, 1, "block with SRIG at 128x128")]
PENALTIES = [0, 0.03, 0.1, 0.3]

OPEN = 0.1  # share of open blocks, for the number of remaining operations


def open_of(blocks):
    """The probability that at least one of this many blocks is open."""
    return 1 - (1 - OPEN) ** blocks


# Operations of a block per element, C = 8192: all; those left when blocks are pruned at random, if a butterfly with an
# empty side counts as a copy; and those that the kernels execute. The kernels work on 16 channels in the depthwise part
# and on eight vectors (32 channels here) in the first transform.
FORWARD = [("depthwise", 18, 18 * OPEN, 18 * open_of(2)),
           ("first transform, 3 steps inside a block", 3, 3 * OPEN, 3 * open_of(4)),
           ("first transform, 10 steps between blocks", 10, sum(open_of(2 ** i) ** 2 for i in range(10)), 2 * open_of(4) + 8),
           ("scale, mixer", 6, 6, 6), ("second transform", 13, 13, 13), ("rectifier, norm", 7, 7, 7)]


def arguments():
    parser = argparse.ArgumentParser(prog="bench/experiments/sparsity")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--steps", type=int, default=400, help="of the training; 0 leaves it out")
    parser.add_argument("--prefix", default="", help='put before the timed program, such as "chrt -f 10"')
    return parser.parse_args()


def rows_of(command):
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def time_blocks(a):
    results = []
    for channels, side, srig, label in BLOCKS:
        command = [os.path.join(plot.ROOT, "build", "prune-sparsity"), channels, side, srig, a.threads, a.runs]
        results.append((label, rows_of(shlex.split(a.prefix) + [str(v) for v in command])))
    return results


def pair(row, text):
    """'forward / backward' of text(0 or 1, ms)"""
    return " / ".join(text(k, row[part][0]) for k, part in enumerate(("forward", "backward")))


def time_table(rows):
    dense = rows[0]
    body = [["no mask", "0 %", f"{dense['forward'][0]:.3f} ({dense['forward'][1]:.3f})", "1.00",
             f"{dense['backward'][0]:.3f} ({dense['backward'][1]:.3f})", "1.00", pair(dense, lambda k, _: f"{dense['mbyte'][k]:.1f}"),
             pair(dense, lambda k, ms: plot.roofline(dense, dense["mflop"][k], dense["mbyte"][k], ms))]]
    for row in rows[1:]:
        body.append([STRUCTURES[row["structure"]], f"{100 * row['pruned']:.0f} %",
                     f"{row['forward'][0]:.3f} ({row['forward'][1]:.3f})", f"{row['forward'][0] / dense['forward'][0]:.2f}",
                     f"{row['backward'][0]:.3f} ({row['backward'][1]:.3f})",
                     f"{row['backward'][0] / dense['backward'][0]:.2f}", "", ""])
    return plot.table(["pruned", "share", "forward ms, median (least)", "of dense", "backward ms, median (least)",
                       "of dense", "MB fwd / bwd", "of roofline"], body)


def chart(rows):
    dense, series = rows[0], {}
    for structure, label in STRUCTURES.items():
        own = [row for row in rows if row["structure"] == structure]
        for part, style in (("forward", "o-"), ("backward", "s--")):
            series[f"{label}, {part}"] = ([100 * row["pruned"] for row in own],
                                          [row[part][0] / dense[part][0] for row in own], style)
    plot.lines("sparsity.png", "Time of a Prune block, 8192 channels, 16x16 pixels",
               "pruned, %", "time / dense", series, limits=(0, 1.3), mark=(0.35, "0.35"))


def learn(a):
    body = []
    for penalty in PENALTIES:
        command = [os.path.join(plot.ROOT, "build", "prune-learn"), 16, 64, a.steps, penalty, 1, 1, a.threads]
        last = rows_of([str(v) for v in command])[-1]
        body.append([f"{penalty:g}", f"{last['mse']:.3f}"] +
                    [" / ".join(f"{100 * last[gate][k]:.0f} %" for gate in ("gate1", "gate2")) for k in range(3)])
    return plot.table(["penalty on the mean mask", "held-out MSE", "pruned pairs, gate 1 / 2", "pixels pruned whole",
                       "blocks pruned in every pixel"], body)


def limits():
    sums = [sum(row[i] for row in FORWARD) for i in (1, 2, 3)]
    rows = FORWARD + [("all", *sums), ("of dense", *(total / sums[0] for total in sums))]
    text = plot.table(["step, for each element", "FLOP", "left at 90 %", "done at 90 %"],
                      [[row[0], f"{row[1]:.0f}"] + [f"{value:.1f}" if value > 1.01 else f"{value:.2f}" for value in row[2:]]
                       for row in rows])
    return text, sums[1] / sums[0], sums[2] / sums[0]


def main():
    a = arguments()
    blocks = time_blocks(a)
    chart(blocks[1][1])
    table, least, done = limits()
    ninety = {row["structure"]: row for row in blocks[1][1] if row["pruned"] > 0.85}
    dense = blocks[1][1][0]
    share = {s: [ninety[s][p][0] / dense[p][0] for p in ("forward", "backward")] for s in STRUCTURES}
    zero = next(row for row in blocks[1][1] if row["structure"] == "channels" and row["pruned"] == 0)
    nothing = [zero[p][0] / dense[p][0] for p in ("forward", "backward")]
    text = f"""# Skipping pruned work

Made by `bench/experiments/sparsity`; {plot.machine(a.threads)}. Medians (and least) of {a.runs} runs after 5 warm-ups.
Masks are constants (hard gates); backward computes the gradients of the input and of all parameters. MB: what the ops of the dense
block read and write. of roofline: the larger of operations at peak and bytes at full bandwidth, over its time.

![time against the pruned share](sparsity.png)

At 90 % pruned a block takes {share['pixels'][0]:.2f} (forward) and {share['pixels'][1]:.2f} (backward) of its dense time **when whole pixels are
pruned**; the aim was 0.35. When the same share is pruned as blocks of channels it takes {share['channels'][0]:.2f} and {share['channels'][1]:.2f}, and spread at
random {share['random'][0]:.2f} and {share['random'][1]:.2f}. There the aim is out of reach: the first transform spreads every open block over all channels of
its pixel, so whatever follows is dense unless the whole pixel is zero.

{table}
With every block of a pixel pruned all of it is saved but the writing of the result, which is a constant there. With 90 % of the
blocks pruned at least {least:.2f} of the operations remain; {done:.2f} are done, since vectors span blocks. Time follows bytes more than
operations: what is left is read from lines of the cache that lie apart, and every result is written.

A mask that prunes nothing costs {nothing[0]:.2f} and {nothing[1]:.2f} of no mask. Masks are read once for each op, into bits; pixels that are
open in all blocks take the dense way.

"""
    for label, rows in blocks:
        text += f"## {label[0].upper() + label[1:]}, 8192 channels\n\n{time_table(rows)}\n"
    if a.steps:
        text += f"""## What gates learn

`zenith-hier` (base 16) on wavelet images, 64x64, {a.steps} steps of Adam, one seed, straight-through masks and a penalty on
their mean (`prune-learn`). Error and masks are those of 32 held-out images with hard gates.

{learn(a)}
So training with a penalty does prune, at a price in error that the table states. What it prunes are **blocks of channels, in all
pixels alike**: a gate has one scale and one bias for each block, and no pixel is ever shut whole. That is the structure from which the
block's function saves little time; pruning that is to save time has to shut whole pixels.
"""
    plot.write("sparsity", text)


if __name__ == "__main__":
    main()
