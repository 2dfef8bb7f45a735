"""bench/experiments/speed128: forward and backward of the Prune family at 128x128, in Zenith and PyTorch, in one run.

Started by the script `speed128`; writes docs/results/speed128.md and speed128.png. Protocol of the original benchmark:
one 128x128 image of normal noise, base 32, hard gates, 5 warm-ups, 20 timed runs, gradient of ones. If PyTorch
cannot be imported, its rows are left out.
"""
import argparse
import importlib.util
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys

import plot

MODELS = [("hier", "Hierarchical, with gates", "zenith-hier-32"), ("srig", "the same with SRIG (\"Prune\")", "zenith-srig-32"),
          ("baseline", "ConvBaseline", "zenith-baseline-32")]
FOLDER = os.path.join(plot.ROOT, "build", "speed128")
ALIKE = 1e-3
HAVE_TORCH = importlib.util.find_spec("torch") is not None


def arguments():
    parser = argparse.ArgumentParser(prog="bench/experiments/speed128")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)  # other load may disturb one
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--prefix", default="", help='put before every timed program, such as "chrt -f 10"')
    parser.add_argument("--no-convolutions", action="store_true", help="leave out PyTorch's slow form of the baseline")
    return parser.parse_args()


def output_of(a, command):
    done = subprocess.run(shlex.split(a.prefix) + [str(v) for v in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"speed128: {(done.stderr.strip() or 'failed').splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def ours(a, name, folder=None):
    program = os.path.join(plot.ROOT, "build", "prune-run")
    return output_of(a, [program, name, 128, a.threads, 5, a.runs] + ([folder] if folder else []))


def torch(a, kind, folder, warm_ups=5, runs=None):
    script = os.path.join(plot.ROOT, "bench", "experiments", "speed128_torch.py")
    return output_of(a, [sys.executable, script, kind, folder, a.threads, warm_ups, runs or a.runs])


def add(results, key, new):
    entry = results.setdefault(key, new)
    if entry is not new:
        for part in ("inference_ms", "forward_ms", "backward_ms"):
            entry[part] += new[part]


def measure(a):
    results = {}
    for kind, _, name in MODELS:
        folder = os.path.join(FOLDER, kind)
        os.makedirs(folder, exist_ok=True)
        for turn in range(a.rounds):
            add(results, (kind, "ours"), ours(a, name, folder if turn == 0 else None))
            if HAVE_TORCH:
                add(results, (kind, "torch"), torch(a, kind, folder))
        if HAVE_TORCH and kind == "baseline" and not a.no_convolutions:
            results[kind, "torch-conv"] = torch(a, "baseline-conv", folder, 1, 2)
        shutil.rmtree(folder)
        for who in ("torch", "torch-conv"):
            other = results.get((kind, who))
            if other and max(other["output_difference"], other["gradient_difference"]) > ALIKE:
                sys.exit(f"speed128: {kind}: PyTorch computes something else: {other['output_difference']:.1e}, "
                         f"{other['gradient_difference']:.1e}")
    return results


def median(entry, part):
    return statistics.median(entry[part])


def roofline(entry, ms, flops, size):
    """Share of the speed that peak arithmetic or memory bandwidth allows, whichever is slower."""
    return max(flops / entry["peak_gflops"], size / entry["bandwidth_gbs"]) * 1e-6 / ms


def table(results):
    body = []
    for kind, label, _ in MODELS:
        for who, engine in (("ours", "**Zenith**"), ("torch", "PyTorch"), ("torch-conv", "PyTorch, as convolutions")):
            e, own = results.get((kind, who)), results[kind, "ours"]
            if not e:
                continue
            back, forward = own["all_flops"] - own["flops"], own["flops"]
            ms = [median(e, part) for part in ("inference_ms", "forward_ms", "backward_ms")]
            body.append([label, engine, plot.spread(e["inference_ms"]), plot.digits(ms[1]), plot.spread(e["backward_ms"]),
                         f"{forward * 1e-6:.1f} / {back * 1e-6:.1f}",
                         f"{forward / ms[0] * 1e-6:.1f} / {back / ms[2] * 1e-6:.1f}",
                         f"{own['bytes'] * 1e-6:.1f} / {(own['all_bytes'] - own['bytes']) * 1e-6:.1f}" if who == "ours" else "",
                         (f"{100 * roofline(own, ms[0], forward, own['bytes']):.0f} % / "
                          f"{100 * roofline(own, ms[2], back, own['all_bytes'] - own['bytes']):.0f} %") if who == "ours" else "",
                         "" if who == "ours" else f"{e['output_difference']:.0e} / {e['gradient_difference']:.0e}"])
    return plot.table(["network", "engine", "forward ms, inference", "forward ms, training", "backward ms",
                       "MFLOP fwd / bwd", "GFLOP/s", "MB", "of roofline", "difference"], body)


def protocol(r):
    """Describes what was compared, and how."""
    if not HAVE_TORCH:
        return ""
    return f""", engines in turn, same weights and
input, results and gradients compared; {r['hier', 'torch']['version']}. Times of the PyTorch networks are those of the fastest form found for
it: transforms as two small matrix products, depthwise convolutions as shifted products, the baseline as matrix products"""


def main():
    a = arguments()
    r = measure(a)
    one = {key: median(e, "inference_ms") for key, e in r.items()}
    back = {key: median(e, "backward_ms") for key, e in r.items()}
    base = r["baseline", "ours"]
    plot.bars("speed128.png", "128x128, one image, base 32", "ms (logarithmic)",
              ["Hierarchical\nforward", "backward", "SRIG\nforward", "backward", "ConvBaseline\nforward", "backward"],
              {engine: [v[k, who] for k, _, _ in MODELS for v in (one, back)]
               for engine, who in (("Zenith", "ours"), ("PyTorch", "torch")) if who == "ours" or HAVE_TORCH}, logy=True)
    peak = base["flops"] / one["baseline", "ours"] * 1e-6 / base["peak_gflops"]
    text = f"""# The Prune family at 128x128

Made by `bench/experiments/speed128`; {plot.machine(a.threads)}; peak {base['peak_gflops']:.0f} GFLOP/s and
{base['bandwidth_gbs']:.0f} GB/s, measured in the same run. Median (least to most) of {a.rounds} rounds of {a.runs} runs after 5 warm-ups{protocol(r)}.

![times](speed128.png)

{table(r)}
MFLOP: exact, counted on the graph. MB: what the ops read and write, most of it inside the caches at this size except for the 539 MB
of weights of the baseline. of roofline: the larger of MFLOP at peak and MB at full bandwidth, over the time.

- **The original's 70x does not hold against a tuned convolution**: here the hierarchical network takes 1/{one['baseline', 'ours'] / one['hier', 'ours']:.0f} of the baseline's
  forward time and 1/{back['baseline', 'ours'] / back['hier', 'ours']:.0f} of its backward time, with SRIG 1/{one['baseline', 'ours'] / one['srig', 'ours']:.0f} and 1/{back['baseline', 'ours'] / back['srig', 'ours']:.0f}; and it does
  1/{base['flops'] / r['hier', 'ours']['flops']:.0f} of the operations with 1/{base['parameters'] / r['hier', 'ours']['parameters']:.0f} of the parameters, so for each operation the convolutions are the faster ones.
- The baseline's forward runs at {100 * peak:.0f} % of the machine's peak, its products of the backward at
  {100 * (base['all_flops'] - base['flops']) / back['baseline', 'ours'] * 1e-6 / base['peak_gflops']:.0f} %: a bar that a naive convolution does not set.
- "Prune" and "hierarchical" both contain the gates and differ by SRIG; with the gates' start values nothing is pruned in either.
  [sparsity.md](sparsity.md) has what pruning saves.
"""
    plot.write("speed128", text)


if __name__ == "__main__":
    main()
