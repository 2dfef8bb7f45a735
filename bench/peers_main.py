"""bench/peers: measures Zenith and other engines in turn and prints Markdown tables. Started by the script `peers`.

Each measurement is a new process: two warm-ups, then the timed runs. Rounds are interleaved and their order rotates, so
that other load on the machine affects all engines. Errors are relative to the same network in 64-bit arithmetic.
"""
import argparse
import importlib.util
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys

import numpy as np

import peers_net as net

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
ARM = platform.machine() in ("aarch64", "arm64")
MODULES = {"torch": "torch", "ort": "onnxruntime", "ncnn": "ncnn", "openvino": "openvino", "mnn": "MNN"}

# name, label, arithmetic. Each engine runs with its defaults and with the settings that were fastest here.
ENGINES = [
    ("zenith-f32", "**Zenith** f32", 32),
    ("ncnn-fp32", "ncnn fp32", 32),
    ("mnn-fp32", "MNN fp32 (precision high)", 32),
    ("openvino-f32", "OpenVINO f32", 32),
    ("ort-fp32", "ONNX Runtime fp32", 32),
    ("torch-nhwc", "PyTorch fp32, channels last", 32),
    ("torch-fp32", "PyTorch fp32", 32),
    ("zenith-f16", "**Zenith** f16", 16),
    ("zenith-bf16", "**Zenith** bf16", 16),
    ("ncnn-fp16", "ncnn fp16", 16),
    ("ncnn-bf16", "ncnn bf16 storage", 16),
    ("mnn-low", "MNN precision low (16-bit)", 16),
    ("openvino-f16" if ARM else "openvino-bf16", "OpenVINO " + ("f16" if ARM else "bf16"), 16),
    ("ort-fp16", "ONNX Runtime fp16", 16),
    ("torch-bf16-nhwc", "PyTorch bf16, channels last", 16),
    ("torch-bf16", "PyTorch bf16", 16),
]
ONLY_ARM = ("ncnn-fp16", "ort-fp16")
WRONG = {32: 1e-3, 16: 0.3}  # with a larger relative error, an engine did not run this network


def arguments():
    parser = argparse.ArgumentParser(prog="bench/peers")
    parser.add_argument("--size", default="512x512")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--parts", default="encode,decode")
    parser.add_argument("--engines", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--prefix", default="")
    parser.add_argument("--zenith", default="")
    parser.add_argument("--json", default="")
    parser.add_argument("--list", action="store_true")
    a = parser.parse_args()
    a.width, a.height = (int(v) for v in (a.size.split("x") * 2)[:2])
    if a.width % 8 or a.height % 8:
        parser.error("sides must be multiples of 8: not every engine pads")
    a.parts = a.parts.split(",")
    a.folder = os.path.join(ROOT, "build", "peers")
    return a


def command_output(command, **more):
    """Last line of stdout, if any; RuntimeError with the last line of stderr when the command fails."""
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode:
        words = (done.stderr.strip() or done.stdout.strip() or f"ended with {done.returncode}").splitlines()[-1]
        raise RuntimeError(words)
    return (done.stdout.strip().splitlines() or [""])[-1]


def find_zenith(a):
    """The program, and a small tool beside it that writes raw numbers; None if there is no program."""
    build = os.path.join(ROOT, "build")
    found = [a.zenith] if a.zenith else [os.path.join(build, p) for p in ("cli/zenith", "zenith", "bin/zenith")]
    a.zenith = next((p for p in found if os.access(p, os.X_OK)), None)
    if not a.zenith:
        return None
    a.raw = os.path.join(a.folder, "raw")
    library = os.path.join(build, "src")
    command_output([os.environ.get("CC", "cc"), "-O2", "-std=c17", f"-I{ROOT}/include", f"{HERE}/raw.c", "-o", a.raw,
                    f"-L{library}", "-lzenith", f"-Wl,-rpath,{library}"])
    return a.zenith


def available(name, a):
    family = name.split("-")[0]
    if name in ONLY_ARM and not ARM:
        return False
    if family == "zenith":
        return a.zenith is not None
    return importlib.util.find_spec(MODULES[family]) is not None


def prepare(a):
    """Writes weights with TAESD's own names, inputs, graphs for the other engines, and the reference results."""
    os.makedirs(f"{a.folder}/taesd", exist_ok=True)
    for part in a.parts:
        stem = f"{a.folder}/{part}"
        weights = net.random_weights(part, 1)
        x = net.random_input(part, a.width, a.height, 1)
        net.save_safetensors(f"{a.folder}/taesd/taesd_{part}r.safetensors", weights)
        np.save(stem + ".npy", x)
        last = x[0].transpose(1, 2, 0)
        if part == "encode":
            np.round(last * 65535).astype(np.uint16).tofile(stem + ".raw")
        else:
            last.astype(np.float32).tofile(stem + ".raw")
        net.save_onnx(stem + ".onnx", part, weights, a.width, a.height)
        net.save_onnx(stem + ".f16.onnx", part, weights, a.width, a.height, "<f2")
        with open(stem + ".param.output", "w") as f:
            f.write(net.save_ncnn(stem, part, weights))
        if importlib.util.find_spec("MNN"):
            code = (f"import sys; sys.argv = ['mnnconvert', '-f', 'ONNX', '--modelFile', '{stem}.onnx', '--MNNModel', "
                    f"'{stem}.mnn', '--bizCode', 'bench']; from MNN.tools import mnnconvert; mnnconvert.main()")
            subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        worker("torch-double", part, a, runs=0, output=f"{a.folder}/reference_{part}.npy")


def worker(name, part, a, runs, output=None, prefix=()):
    command = [*prefix, sys.executable, f"{HERE}/peers_worker.py", name, part, a.folder, str(a.threads), str(runs)]
    environment = dict(os.environ, OMP_NUM_THREADS=str(a.threads))
    return json.loads(command_output(command + ([output] if output else []), env=environment))


def zenith(name, part, a, output=None):
    precision = name.split("-")[1]
    common = ["--threads", str(a.threads), "--precision", precision, "--json", "--quiet"]
    bench = [a.zenith, "bench", "--model", f"{a.folder}/taesd", "--part", part, "--size", f"{a.width}x{a.height}",
             "--runs", str(a.runs), *common]
    done = subprocess.run(shlex.split(a.prefix) + bench, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    result = json.loads(done.stdout)
    if output:
        raw = output + ".raw"
        command_output([a.raw, f"{a.folder}/taesd", part, f"{a.width}x{a.height}", precision, str(a.threads),
                        f"{a.folder}/{part}.raw", raw])
        _, shape = net.shapes(part, a.width, a.height)
        y = np.fromfile(raw, np.float32 if part == "encode" else np.uint16)
        y = y.reshape(shape[2], shape[3], shape[1]).transpose(2, 0, 1)[None]
        np.save(output, y if part == "encode" else y / 65535.0)
    return {"ms_median": result["ms_median"], "ms_min": result["ms_min"], "rss_mb": result["rss_mb"],
            "version": "Zenith on " + result["isa"]}


def measure(name, part, a, output):
    if name.startswith("zenith"):
        return zenith(name, part, a, output)
    result = worker(name, part, a, a.runs, output, shlex.split(a.prefix))
    return {**result, "ms_median": statistics.median(result["ms"]), "ms_min": min(result["ms"])}


def relative_error(name, part, a, output):
    """RMS of the difference, divided by the RMS of the reference. Zenith's image has 16 bits. Their rounding noise, a
    twelfth of a step squared, does not come from the network and is subtracted; the rest is accurate to about 2e-6."""
    reference = np.load(f"{a.folder}/reference_{part}.npy")
    mse = np.mean((np.load(output).astype(np.float64) - reference) ** 2)
    if name.startswith("zenith") and part == "decode":
        mse = max(mse - (1 / 65535) ** 2 / 12, 0)
    return float(np.sqrt(mse / np.mean(reference**2)))


def busy():
    """Busy seconds of all CPUs together since boot."""
    with open("/proc/stat") as f:
        fields = [int(v) for v in f.readline().split()[1:]]
    return (sum(fields[:8]) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def own():
    return sum(os.times()[:4])


def run_rounds(a, names):
    """{(name, part): {"rounds": [...], "error": e} or {"failed": text}}"""
    results = {}
    for round_number in range(a.rounds):
        turn = round_number % len(names)
        for part in a.parts:
            for name in names[turn:] + names[:turn]:
                entry = results.setdefault((name, part), {"rounds": []})
                if "failed" in entry:
                    continue
                print(f"round {round_number + 1}/{a.rounds}  {part}  {name}", file=sys.stderr)
                output = f"{a.folder}/{part}.{name}.npy" if round_number == 0 else None
                before = busy() - own()
                try:
                    entry["rounds"].append(measure(name, part, a, output))
                    entry["others_s"] = entry.get("others_s", 0) + busy() - own() - before
                    if output:
                        entry["error"] = relative_error(name, part, a, output)
                except (RuntimeError, OSError, ValueError) as e:
                    entry["failed"] = str(e)
    return results


def summary(entry):
    medians = [r["ms_median"] for r in entry["rounds"]]
    return {"median": statistics.median(medians), "min": min(r["ms_min"] for r in entry["rounds"]),
            "rss": max(r["rss_mb"] for r in entry["rounds"])}


def table(part, bits, results):
    rows = [(name, label, results[name, part]) for name, label, b in ENGINES if b == bits and (name, part) in results]
    good = [(name, label, e, summary(e)) for name, label, e in rows if "failed" not in e]
    ours = [s for name, _, _, s in good if name.startswith("zenith")]
    base = min(ours, key=lambda s: s["median"]) if ours else None
    print(f"\n**{part}**, {bits}-bit arithmetic\n")
    print("| engine | median ms | best ms | time / Zenith | error | peak MiB |\n|---|---:|---:|---:|---:|---:|")
    for name, label, entry, s in sorted(good, key=lambda row: row[3]["median"]):
        ratio = f"{s['median'] / base['median']:.2f}" if base else "-"
        error = entry["error"]
        mark = "" if error < WRONG[bits] else " (wrong)"
        text = "under 2e-6" if name.startswith("zenith") and part == "decode" and error < 2e-6 else f"{error:.1e}"
        print(f"| {label} | {s['median']:.1f} | {s['min']:.1f} | {ratio} | {text}{mark} | {s['rss']:.0f} |")
    for name, label, entry in rows:
        if "failed" in entry:
            print(f"\n{label}: not measured, {entry['failed']}")


def cpu_name():
    try:
        return command_output(["sh", "-c", "lscpu | sed -n 's/^Model name: *//p'"]) or platform.machine()
    except RuntimeError:
        return platform.machine()


def main():
    a = arguments()
    os.makedirs(a.folder, exist_ok=True)
    if a.list:
        print("\n".join(f"{name:16} {label.replace('*', '')}" for name, label, _ in ENGINES))
        return 0
    if not importlib.util.find_spec("torch"):
        sys.exit("bench/peers: PyTorch is needed for the reference results")
    if not find_zenith(a):
        print("bench/peers: no zenith program in build/, measuring the others", file=sys.stderr)
    wanted = a.engines.split(",") if a.engines else [name for name, _, _ in ENGINES]
    unknown = set(wanted) - {name for name, _, _ in ENGINES}
    if unknown:
        sys.exit(f"bench/peers: unknown engine {', '.join(sorted(unknown))}; --list names them")
    names = [name for name in wanted if available(name, a)]
    prepare(a)
    results = run_rounds(a, names)
    versions = sorted({r["version"] for e in results.values() for r in e["rounds"]})
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout
    others = sum(e.get("others_s", 0) for e in results.values())
    print(f"TAESD {a.width}x{a.height}, {a.threads} threads, {cpu_name()} ({len(os.sched_getaffinity(0))} CPUs), commit "
          f"{commit.strip() or 'unknown'}. Median of {a.rounds} rounds of {a.runs} runs; other programs used "
          f"{others:.0f} CPU seconds meanwhile.\n{', '.join(versions)}.")
    for part in a.parts:
        for bits in (32, 16):
            if any((name, part) in results for name, _, b in ENGINES if b == bits):
                table(part, bits, results)
    print("\nerror: RMS of the difference to 64-bit arithmetic, over the RMS of the result. peak: of the whole process, "
          "interpreter and libraries with it.")
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"size": [a.width, a.height], "threads": a.threads, "cpu": cpu_name(), "commit": commit.strip(),
                       "gflop": {p: net.gflop(p, a.width, a.height) for p in a.parts}, "versions": versions,
                       "results": {f"{n} {p}": e for (n, p), e in results.items()}}, f, indent=1)
    bits_of = {name: bits for name, _, bits in ENGINES}
    wrong = [n for (n, p), e in results.items() if "failed" not in e and not e["error"] < WRONG[bits_of[n]]]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
