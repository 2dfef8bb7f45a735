"""bench/training: times training steps of TAESD in Zenith and PyTorch in turn. Started by the script `training`.

A step is the forward pass of encoder and decoder, the mean square error, the gradients of all parameters and an AdamW
update.
Rounds are interleaved and their order rotates; the losses and the norms of the gradients must agree.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys

import numpy as np

import peers_main as peers
import peers_net as net

HERE, ROOT = peers.HERE, peers.ROOT
# name and label, by precision; PyTorch runs with its default layout and with the one that is usually faster
SIDES = {"f32": [("zenith", "**Zenith** f32"), ("torch-nhwc", "PyTorch fp32, channels last"), ("torch", "PyTorch fp32")],
         "bf16": [("zenith", "**Zenith** bf16"), ("torch-bf16-nhwc", "PyTorch bf16 (autocast), channels last"),
                  ("torch-bf16", "PyTorch bf16 (autocast)")]}
# on a GPU, where images of a batch are sent to Zenith in every step, and PyTorch has them there already
GPU_SIDES = {"f32": [("zenith", "**Zenith** f32"), ("torch-nhwc", "PyTorch fp32, channels last")],
             "bf16": [("zenith", "**Zenith** bf16"), ("torch-bf16-nhwc", "PyTorch bf16 (autocast), channels last"),
                      ("torch-compile-bf16-nhwc", "PyTorch bf16, compiled with max-autotune")]}
# relative; after a few steps the runs diverge slightly
LIMITS = {"f32": {"loss": 1e-4, "gradient_norm": 1e-3, "last_loss": 2e-2},
          "bf16": {"loss": 1e-2, "gradient_norm": 5e-2, "last_loss": 1e-1}}


def arguments():
    parser = argparse.ArgumentParser(prog="bench/training")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--precision", choices=list(SIDES), default="f32")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--prefix", default="")
    parser.add_argument("--step", default=os.path.join(ROOT, "build", "train-step"))
    parser.add_argument("--json", default="")
    a = parser.parse_args()
    if a.size % 8:
        parser.error("the size must be a multiple of 8")
    a.sides = (SIDES if a.device == "cpu" else GPU_SIDES)[a.precision]
    a.folder = os.path.join(ROOT, "build", "training")
    return a


def prepare(a):
    """Writes weights with TAESD's own names, and the images in both layouts."""
    os.makedirs(f"{a.folder}/taesd", exist_ok=True)
    for part in ("encode", "decode"):
        net.save_safetensors(f"{a.folder}/taesd/taesd_{part}r.safetensors", net.random_weights(part, 1))
    x = np.concatenate([net.random_input("encode", a.size, a.size, 1 + i) for i in range(a.batch)])
    np.save(f"{a.folder}/pictures.npy", x)
    np.ascontiguousarray(x.transpose(0, 2, 3, 1)).tofile(f"{a.folder}/pictures.raw")


def measure(name, a):
    if name == "zenith":
        command = [a.step, f"{a.folder}/taesd", str(a.size), str(a.batch), str(a.threads), str(a.runs),
                   f"{a.folder}/pictures.raw", *(["cuda"] if a.device == "cuda" else []), f"precision: {a.precision}"]
    else:
        command = [sys.executable, f"{HERE}/training_worker.py", name, a.folder, str(a.threads), str(a.runs), a.device]
    environment = dict(os.environ, OMP_NUM_THREADS=str(a.threads))
    result = json.loads(peers.command_output(shlex.split(a.prefix) + command, env=environment))
    return {**result, "ms_median": statistics.median(result["ms"])}


def run_rounds(a):
    results = {name: [] for name, _ in a.sides}
    names = list(results)
    for i in range(a.rounds):
        turn = i % len(names)
        for name in names[turn:] + names[:turn]:
            print(f"round {i + 1}/{a.rounds}  {name}", file=sys.stderr)
            results[name].append(measure(name, a))
    return results


def disagreements(results, a):
    """Messages about values that differ from the last side by more than the limits."""
    want = results[a.sides[-1][0]][0]
    return [f"{name}: {key} {rounds[0][key]:.6g}, not {want[key]:.6g}" for name, rounds in results.items()
            for key, limit in LIMITS[a.precision].items() if not abs(rounds[0][key] - want[key]) <= limit * abs(want[key])]


def main():
    a = arguments()
    prepare(a)
    before = peers.busy() - peers.own()
    results = run_rounds(a)
    others = peers.busy() - peers.own() - before
    medians = {name: statistics.median(r["ms_median"] for r in rounds) for name, rounds in results.items()}
    best = min(ms for name, ms in medians.items() if name != "zenith")
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout
    version = results[a.sides[-1][0]][0]["version"]
    print(f"TAESD training step, batch {a.batch}, {a.size}x{a.size}, {a.precision}, AdamW, {a.threads} threads, "
          f"{peers.cpu_name()} ({len(os.sched_getaffinity(0))} CPUs), commit {commit.strip() or 'unknown'}. Median of "
          f"{a.rounds} rounds of {a.runs} steps; other programs used {others:.0f} CPU seconds meanwhile. {version}.\n")
    print("| engine | median ms | best ms | time / best PyTorch | loss | gradient norm | peak MiB |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, label in a.sides:
        rounds = results[name]
        print(f"| {label} | {medians[name]:.1f} | {min(min(r['ms']) for r in rounds):.1f} | {medians[name] / best:.2f} | "
              f"{rounds[0]['loss']:.6f} | {rounds[0]['gradient_norm']:.6f} | {max(r['rss_mb'] for r in rounds):.0f} |")
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"size": a.size, "batch": a.batch, "threads": a.threads, "precision": a.precision,
                       "cpu": peers.cpu_name(), "commit": commit.strip(), "ratio": medians["zenith"] / best, "results": results}, f, indent=1)
    wrong = disagreements(results, a)
    for sentence in wrong:
        print(f"bench/training: {sentence}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
