"""bench/video: measures Zenith, PyTorch and, with --peer, stable-diffusion.cpp in turn and prints a Markdown table.
Started by the script `video`.

Each measurement is a new process, so that the peak memory is that of one engine and one case. The first run is a
warm-up of at most five frames; --warm makes that of PyTorch shorter, or leaves it out (0).
"""
import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def arguments():
    parser = argparse.ArgumentParser(prog="bench/video")
    parser.add_argument("--models", default="wan21-vae,wan22-vae,taew2_1")
    parser.add_argument("--sizes", default="256x256,832x480")
    parser.add_argument("--frames", default="1,5,21")
    parser.add_argument("--parts", default="encode,decode")
    parser.add_argument("--precisions", default="f32,bf16")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=5)
    parser.add_argument("--limit", type=float, default=float("inf"))
    parser.add_argument("--memory", type=int, default=0)
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "clip-times"))
    parser.add_argument("--peer", default="")
    parser.add_argument("--json", default="")
    parser.add_argument("--worker", nargs=5, help=argparse.SUPPRESS)
    return parser.parse_args()


def worker(model, part, size, frames, precision, threads, warm):
    """One measurement of PyTorch."""
    import torch

    import video_net as net

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    width, height = (int(v) for v in size.split("x"))
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    runs = []
    for count in filter(None, (min(frames, warm), frames)):
        network, x, run = net.prepare(model, part, width, height, count)
        network, x = network.to(kind), x.to(kind)
        wall, cpu = time.perf_counter(), time.process_time()
        y = run(network, x)
        runs.append({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu})
    made = frames if part == "encode" else (y.shape[0] if model.startswith("tae") else y.shape[2])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"runs": runs[-1:], "frames": made, "peak_mib": peak}))


def weights_of(a, model):
    """A file of random weights for stable-diffusion.cpp, which makes none itself."""
    path = os.path.join(a.folder, model + ".safetensors")
    if not os.path.exists(path):
        subprocess.run([os.path.join(os.path.dirname(a.program), "clip-weights"), model, path], check=True)
    return path


def measure(a, engine, case):
    model, part, size, frames, precision = case
    if engine == "zenith":
        command = [a.program, "random:" + model, part, size, str(frames), precision, str(a.threads)]
        command += ["1", str(a.memory)] if a.memory else []
    elif engine == "peer":
        runs = 2 if a.warm else 1
        command = [a.peer, weights_of(a, model), model, part, size, str(frames), str(a.threads), str(runs)]
    else:
        command = [sys.executable, os.path.abspath(__file__), "--threads", str(a.threads), "--warm", str(a.warm)]
        command += ["--worker", *map(str, case)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(f"{engine} {case}: {(done.stderr.strip() or str(done.returncode)).splitlines()[-1]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def best(results, key):
    values = [run[key] for r in results if r for run in r["runs"]]
    return min(values) if values else None


def peak(results):
    return max((r["peak_mib"] for r in results if r), default=None)


def row(case, results, others):
    """Frames per second and MiB of all, and the ratios of CPU and wall time to each of the others."""
    frames = case[3]
    cells = list(map(str, case))
    for engine in ["zenith"] + others:
        wall = best(results[engine], "wall")
        cells += [f"{frames / wall:.2f}" if wall else "-", f"{peak(results[engine]):,}" if wall else "-"]
    for engine in others:
        for key in ("wall", "cpu"):
            ours, theirs = best(results["zenith"], key), best(results[engine], key)
            cells.append(f"{ours / theirs:.2f}" if ours and theirs else "-")
    return "| " + " | ".join(cells) + " |"


def cases(a):
    for model in a.models.split(","):
        for size in a.sizes.split(","):
            width, height = (int(v) for v in size.split("x"))
            for frames in map(int, a.frames.split(",")):
                if frames * width * height > a.limit * 832 * 480:
                    continue
                for part in a.parts.split(","):
                    for precision in a.precisions.split(","):
                        yield model, part, size, frames, precision


def main():
    a = arguments()
    if a.worker:
        model, part, size, frames, precision = a.worker
        return worker(model, part, size, int(frames), precision, a.threads, a.warm)
    engines = ["zenith"] + (["torch"] if importlib.util.find_spec("torch") else []) + (["peer"] if a.peer else [])
    others = engines[1:] or ["torch"]
    named = {"torch": "PyTorch", "peer": "stable-diffusion.cpp"}
    heads = ["model", "part", "size", "frames", "precision", "Zenith frames/s", "MiB"]
    for engine in others:
        heads += [named[engine] + " frames/s", "MiB"]
    for engine in others:
        heads += ["time", "CPU time"] if len(others) == 1 else ["time to " + named[engine], "CPU time"]
    print(f"\n{a.threads} threads, {a.rounds} rounds\n")
    print("| " + " | ".join(heads) + " |")
    print("|---|---|---|---:|---|" + "---:|" * (len(heads) - 5), flush=True)
    every = []
    with tempfile.TemporaryDirectory() as a.folder:
        for case in cases(a):
            results = {"zenith": [], "torch": [], "peer": []}
            for turn in range(a.rounds):
                for engine in engines[turn % len(engines) :] + engines[: turn % len(engines)]:
                    results[engine].append(measure(a, engine, case))
            print(row(case, results, others), flush=True)
            every.append({"case": case, **results})
    if a.json:
        with open(a.json, "w") as file:
            json.dump(every, file, indent=1)


if __name__ == "__main__":
    main()
