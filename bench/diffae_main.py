"""bench/diffae: measures DiffAE's U-Net and encoder in Zenith and PyTorch in turn and prints a Markdown table. Started by
the script `diffae`.

Each measurement is a new process, so that the peak memory is that of one engine and one case.
"""
import argparse
import importlib.util
import json
import os
import resource
import shlex
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WARM_UPS = 2
PARTS = {"step": "decode", "encode": "encode"}  # what `zenith bench` calls them


def arguments():
    parser = argparse.ArgumentParser(prog="bench/diffae")
    parser.add_argument("--models", default="celeba64,ffhq128")
    parser.add_argument("--parts", default="step")
    parser.add_argument("--precisions", default="f32,bf16")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prefix", default="")
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "cli", "zenith"))
    parser.add_argument("--json", default="")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def worker(a, model, part, precision):
    """One measurement of PyTorch."""
    import torch

    import cuda_net as net

    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    network = (net.Unet if part == "step" else net.Encoder)(model).eval()
    network = network.to(kind, memory_format=torch.channels_last)
    side = net.DIFFAE[model][0]
    inputs = [torch.rand(1, 3, side, side).to(kind, memory_format=torch.channels_last)]
    if part == "step":
        inputs += [torch.tensor([500]), torch.randn(1, net.KNOWN).to(kind)]
    runs = []
    with torch.inference_mode():
        for i in range(-WARM_UPS, a.runs):
            wall, cpu = time.perf_counter(), time.process_time()
            network(*inputs)
            if i >= 0:
                runs.append((1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - cpu)))
    wall, cpu = statistics.median(run[0] for run in runs), statistics.mean(run[1] for run in runs)
    print(json.dumps({"wall": wall, "cpu": cpu, "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))


def run(command):
    """The JSON that a command prints."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench/diffae: {' '.join(command)}: {(done.stderr.strip() or str(done.returncode)).splitlines()[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure(a, engine, case):
    model, part, precision = case
    prefix = shlex.split(a.prefix)
    if engine == "torch":
        options = ["--threads", str(a.threads), "--runs", str(a.runs), "--worker", *case]
        return run(prefix + [sys.executable, os.path.abspath(__file__), *options])
    options = ["-m", f"random:diffae-{model}", "--part", PARTS[part], "-p", precision, "-t", str(a.threads)]
    result = run(prefix + [a.program, "bench", "--json", "-q", "--runs", str(a.runs), *options])
    return {"wall": result["ms_median"], "cpu": result["cpu_ms"], "mib": round(result["rss_mb"])}


def median(results, key):
    return statistics.median(r[key] for r in results)


def row(case, results):
    cells, ours = list(case), results["zenith"]
    for engine in results:
        cells += [f"{median(results[engine], 'wall'):.1f}", f"{max(r['mib'] for r in results[engine]):,}"]
    if "torch" in results:
        cells += [f"{median(ours, key) / median(results['torch'], key):.2f}" for key in ("wall", "cpu")]
    return "| " + " | ".join(cells) + " |"


def main():
    a = arguments()
    if a.worker:
        return worker(a, *a.worker)
    engines = ["zenith"] + (["torch"] if importlib.util.find_spec("torch") else [])
    heads = ["model", "part", "precision", "Zenith ms", "MiB"]
    heads += ["PyTorch ms", "MiB", "time", "CPU time"] if "torch" in engines else []
    print(f"\n{a.threads} threads, {a.rounds} rounds of {a.runs} runs, batch 1\n")
    print("| " + " | ".join(heads) + " |")
    print("|---|---|---|" + "---:|" * (len(heads) - 3), flush=True)
    every = []
    for case in [(m, p, k) for m in a.models.split(",") for p in a.parts.split(",") for k in a.precisions.split(",")]:
        results = {engine: [] for engine in engines}
        for turn in range(a.rounds):
            for engine in engines if turn % 2 == 0 else engines[::-1]:
                results[engine].append(measure(a, engine, case))
        print(row(case, results), flush=True)
        every.append({"case": case, **results})
    if a.json:
        with open(a.json, "w") as file:
            json.dump(every, file, indent=1)


if __name__ == "__main__":
    main()
