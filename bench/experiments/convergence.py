"""bench/experiments/convergence: held-out error against seconds of training.

Started by the script `convergence`; writes docs/results/convergence.md and convergence.png.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys

import plot

KINDS = [("seed", "ZenithHierarchicalAE (gates, SRIG, dropout)"), ("baseline", "ConvBaselineAE"),
         ("residual", "residual form (zenith-hier-r)")]


def arguments():
    parser = argparse.ArgumentParser(prog="bench/experiments/convergence")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=20, help="of training, for each run")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--prefix", default="", help='put before the timed program, such as "chrt -f 10"')
    return parser.parse_args()


def run(a, kind, seed):
    program = os.path.join(plot.ROOT, "build", "convergence-run")
    command = shlex.split(a.prefix) + [program, kind, str(a.rate), str(a.seconds), str(seed), str(a.threads)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"convergence: {(done.stderr.strip() or 'failed').splitlines()[-1]}")
    result = json.loads(done.stdout)
    print(f"{kind}, seed {seed}: {result['curve'][-1]}", file=sys.stderr)
    return result


def at(curve, seconds):
    """The last measurement before this time."""
    return [point for point in curve if point[1] <= seconds][-1][2]


def cell(values):
    places = 3 if statistics.mean(values) >= 0.1 else 5
    if len(values) == 1:
        return f"{values[0]:.{places}f}"
    return f"{statistics.mean(values):.{places}f} ({min(values):.{places}f} to {max(values):.{places}f})"


def chart(results):
    series, gap = {}, [0, float("nan"), float("nan")]
    for (kind, label), style in zip(KINDS, ("o-", "s-", "^-")):
        points = [p for result in results[kind] for p in result["curve"][1:] + [gap]]  # a line for each seed
        series[label] = ([p[1] for p in points], [p[2] for p in points], style)
    if not plot.pyplot:
        return ""
    plot.lines("convergence.png", "Wavelet images 128x128, 32 held out",
               "seconds of training", "mean square error", series, logx=True, logy=True)
    return "![error against seconds](convergence.png)\n\n"


def rows(a, results):
    times = [a.seconds / 16, a.seconds / 4, a.seconds]
    body = []
    for kind, label in KINDS:
        curves = [r["curve"] for r in results[kind]]
        steps = statistics.mean(c[-1][0] for c in curves)
        ms = step_ms(results, kind)
        one = results[kind][0]
        body.append([label, f"{one['parameters']:,}", f"{one['mflop']:.1f}", f"{steps:.0f}", f"{ms:.1f}", f"{one['step_mflop']:.0f}",
                     f"{one['step_mbyte']:.0f}", plot.roofline(one, one["step_mflop"], one["step_mbyte"], ms)] + [cell([at(c, t * 1.001) for c in curves]) for t in times[:-1]] +
                    [cell([c[-1][2] for c in curves])])
    return plot.table(["", "parameters", "MFLOP", "steps", "ms a step", "MFLOP a step", "MB a step", "of roofline"] + [f"error after {t:.3g} s" for t in times], body)


def last(results, kind):
    return [r["curve"][-1][2] for r in results[kind]]


def step_ms(results, kind):
    return statistics.mean(1000 * r["curve"][-1][1] / r["curve"][-1][0] for r in results[kind])


def verdict(seed, conv):
    if max(seed) < min(conv):
        return "the hierarchical network is ahead of the convolutional baseline"
    if min(seed) > max(conv):
        return "the hierarchical network is behind the convolutional baseline"
    return "the hierarchical network and the convolutional baseline cannot be distinguished"


def first(results, kind):
    return statistics.mean(r["curve"][0][2] for r in results[kind])


def main():
    a = arguments()
    results = {kind: [] for kind, _ in KINDS}
    for seed in range(1, a.seeds + 1):  # in turn, so that other load on the machine affects all alike
        for kind, _ in KINDS:
            results[kind].append(run(a, kind, seed))
    seed, conv, residual = (last(results, kind) for kind, _ in KINDS)
    text = f"""# Error against time

Made by `bench/experiments/convergence`; {plot.machine(a.threads)}. Mean square error of 32 held-out images against seconds of
training; {f"mean (least to most) of {a.seeds} seeds" if a.seeds > 1 else "one seed"}, run in turn{" at real-time priority" if "chrt" in a.prefix else ""}.

{chart(results)}{rows(a, results)}
MFLOP: exact, forward, one image; a step: forward and backward of a batch, without the optimiser. MB: what the ops read and write. of
roofline: the larger of operations at peak and bytes at full bandwidth, over the time of a step. Wavelet images 128x128, batches of 2, new ones in every step, Adam at {a.rate:g}; base 16; all
gradients exact; convolutions tuned. Time is that of the training steps: drawing images and measuring are excluded.
Measured with soft gates without noise, dropout off.

- **The original's "divergence" (a loss that rises from 3.24 to 4.13) is not there**: its figure added 1e-4 for every open gate, up to
  3.28 in all, with no gradient behind it. The error itself goes from {first(results, 'seed'):.3f} to {statistics.mean(seed):.3f} here.
- **At equal time {verdict(seed, conv)}**{" (one run each)" if a.seeds == 1 else ""}: {cell(seed)} against {cell(conv)} in the end, when the
  baseline has right gradients and a tuned convolution. Its step takes {step_ms(results, 'baseline') / step_ms(results, 'seed'):.0f} times as long. The variance within an image is about
  0.22: both are far from done.
- The residual form of the same skeleton reaches {cell(residual)}, some {statistics.mean(seed) / statistics.mean(residual):.0f} times less. The "latent" of all three is larger than the
  image, so none of this says anything about compression.
"""
    plot.write("convergence", text)


if __name__ == "__main__":
    main()
