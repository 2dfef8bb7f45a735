"""bench/experiments/restoration: networks of the Prune family, controls and plain filters on damaged wavelet pictures.

Started by the script `restoration`; writes docs/results/restoration.md and restoration.png.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

import plot

TASKS = ["Gaussian 0.3", "shot 5 %", "blur 7x7", "blur 3x3"]
# kind, steps (0: as asked for), rate (below 0: Adam alone, as the original), what it is
ROWS = [("seed", 200, -1e-3, "the original's network (gates, SRIG, dropout), trained its way"),
        ("seed", 0, 2e-3, "the original's network, trained as the others"),
        ("none", 0, 2e-3, "control: skeleton without spectral blocks"),
        ("depthwise", 0, 2e-3, "control: depthwise-separable blocks, equal operations"),
        ("residual", 0, 2e-3, "**residual spectral blocks (zenith-hier-r)**")]
ALONE = ["none", "depthwise", "residual"]  # also trained on blur 7x7 and nothing else
BLUR7 = 2
# What counts as restored: the specification's limits, the last of them "do no harm"; blur 7x7 is judged by its ratio.
LIMITS = [0.004, 0.008, None, 0.002]
RATIO = 2


def arguments():
    parser = argparse.ArgumentParser(prog="bench/experiments/restoration")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--seeds", type=int, default=3)
    return parser.parse_args()


def run(*words):
    done = subprocess.run([os.path.join(plot.ROOT, "build", "restoration-run")] + [str(w) for w in words],
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"restoration: {(done.stderr.strip() or 'failed').splitlines()[-1]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def measure(a):
    results = []
    for kind, steps, rate, label in ROWS:
        runs = [run(kind, steps or a.steps, rate, seed, a.threads)[0] for seed in range(1, a.seeds + 1)]
        results.append((label, runs))
        print(f"{kind} {steps or a.steps}: " + ", ".join(f"{value:.4g}" for value in runs[-1]["mse"]), file=sys.stderr)
    return results


def measure_alone(a):
    return {kind: [run(kind, a.steps, 2e-3, seed, a.threads, BLUR7)[0]["mse"][BLUR7] for seed in range(1, a.seeds + 1)]
            for kind in ALONE}


def error(values):
    """Mean and half the distance of the extremes."""
    mean = statistics.mean(values)
    places = 4 if mean >= 1e-3 else 5
    return f"{mean:.{places}f}" + (f" ± {(max(values) - min(values)) / 2:.{places}f}" if len(values) > 1 else "")


def passed(identity, runs):
    means = [statistics.mean(r["mse"][k] for r in runs) for k in range(len(TASKS))]
    return [means[k] <= LIMITS[k] if LIMITS[k] else identity[k] >= RATIO * means[k] for k in range(len(TASKS))]


def tables(filters, results):
    identity = filters[0]["mse"]
    rows = [[f["filter"], "", "", ""] + [error([v]) for v in f["mse"]] for f in filters]
    for label, runs in results:
        good = passed(identity, runs)
        cells = [error([r["mse"][k] for r in runs]) + (" ✓" if good[k] else "") for k in range(len(TASKS))]
        rows.append([label, f"{runs[0]['parameters']:,}", f"{runs[0]['mflop']:.2f}", runs[0]["steps"]] + cells)
    return plot.table(["", "parameters", "MFLOP", "steps"] + TASKS, rows)


def chart(filters, results):
    names = ["original, its way", None, "no blocks", "depthwise-separable", "residual spectral"]
    series = {f["filter"]: f["mse"] for f in filters if f["filter"] != "mean 3x3"}
    for name, (_, runs) in zip(names, results):
        if name:
            series[name] = [statistics.mean(r["mse"][k] for r in runs) for k in range(len(TASKS))]
    plot.bars(os.path.join(plot.RESULTS, "restoration.png"), "Error on 64 damaged wavelet pictures", "mean square error",
              TASKS, series, logy=True, below=True)


def alone_table(identity, alone):
    labels = {kind: label for kind, _, _, label in ROWS}
    return plot.table(["trained on blur 7x7 alone", "blur 7x7", "of its input's error"],
                      [[labels[kind], error(values) + (" ✓" if RATIO * statistics.mean(values) <= identity[BLUR7] else ""),
                        f"{statistics.mean(values) / identity[BLUR7]:.2f}"] for kind, values in alone.items()])


def means_of(results, label):
    runs = next(runs for name, runs in results if label in name)
    return [statistics.mean(r["mse"][k] for r in runs) for k in range(len(TASKS))]


def sentences(filters, results, alone):
    identity, mean5, median = filters[0]["mse"], filters[2]["mse"], filters[3]["mse"]
    own, way = means_of(results, "residual spectral"), means_of(results, "trained its way")
    same, none = means_of(results, "trained as the others"), means_of(results, "skeleton")
    depthwise = means_of(results, "depthwise")
    good = passed(identity, next(runs for name, runs in results if "residual spectral" in name))
    said = ["yes" if g else "no" for g in good]
    better = [d / o for d, o in zip(depthwise, own)]
    return f"""
- **The original's claim does not hold.** It reports 0.09 to 0.02, 0.08 to 0.03 and 0.01 to 0.005 as passed. With exact gradients and
  its own training the network turns {identity[0]:.3f} into {way[0]:.2f}, {identity[1]:.3f} into {way[1]:.2f} and, for blur 3x3, {identity[3]:.5f} into {way[3]:.2f}: pictures
  come back worse than they went in. Trained as the others it reaches {same[0]:.3f}, {same[1]:.3f} and {same[3]:.3f}, which is still worse than a 5x5 mean ({mean5[0]:.4f}) on noise.
  Two of its three input errors cannot come from the damages it describes: 5 % of ±2 is 0.2, and a 3x3 blur changes these
  smooth pictures by {identity[3]:.5f}.
- Does the residual form meet the limits? Gaussian ≤ 0.004: {said[0]}. Shot ≤ 0.008: {said[1]}. Blur 3x3 ≤ 0.002, "do no harm": {said[3]}.
  Blur 7x7 at most half of its input's error: {said[2]} ({own[2] / identity[2]:.2f} of it): one blind network for noise and blur smooths more than
  this blur does. Trained on that blur alone it reaches {statistics.mean(alone["residual"]) / identity[2]:.2f} of the input's error.
- Its spectral blocks are worth a factor of {none[0] / own[0]:.1f} (Gaussian), {none[1] / own[1]:.1f} (shot) and {none[2] / own[2]:.1f} (blur 7x7) over the same skeleton without
  blocks, and {better[0]:.1f}, {better[1]:.1f} and {better[2]:.1f} over depthwise-separable blocks of as many operations{" (below 1: those are better)" if min(better[:3]) < 1 else ""}.
- A 3x3 median takes shot noise out better ({median[1]:.5f}) than any network here, and doing nothing is best against a 3x3 blur
  ({identity[3]:.5f}).
"""


def main():
    a = arguments()
    filters = run("filters")
    results, alone = measure(a), measure_alone(a)
    chart(filters, results)
    seconds = {label: statistics.mean(r["seconds"] for r in runs) for label, runs in results}
    text = f"""# Restoring wavelet pictures

Made by `bench/experiments/restoration`; {plot.machine(a.threads)}. Mean square error over 64 test pictures of 64x64, the same for
all rows; networks: mean ± half the spread of {a.seeds} seeds (start, training pictures, damages). ✓ where the limit is met.

![errors](restoration.png)

{tables(filters, results)}
MFLOP: exact, counted on the graph, forward, one picture. Training: 50 batches of 4 pictures again and again, damaged anew by Gaussian
noise of 0.2, shot noise, box blur 3x3 or 7x7; Adam at 2e-3 with warm-up, cosine and clipping; the original's way is 200 steps
of Adam at 1e-3. Gates stay soft in its test as in the original, dropout is off. Training took {min(seconds.values()):.0f} to {max(seconds.values()):.0f} s a run.

{alone_table(filters[0]['mse'], alone)}{sentences(filters, results, alone)}
These pictures are sums of a few smooth grey blobs; nothing here says how photos would fare. For photos see `zenith restore`.
"""
    os.makedirs(plot.RESULTS, exist_ok=True)
    with open(os.path.join(plot.RESULTS, "restoration.md"), "w") as f:
        f.write(text.rstrip() + "\n")
    print(text)


if __name__ == "__main__":
    main()
