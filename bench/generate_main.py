"""Runs our programs and stable-diffusion.cpp in turn and prints a table of CPU seconds; see bench/generate."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

TICK = os.sysconf("SC_CLK_TCK")
PROMPT = "a lovely cat"
# The lines of its log between which a part computes; weights are read before the first of a pair.
PEER_PARTS = (("text", "qwen3 compute buffer size", "computing condition graph completed"),
              ("step", "z_image compute buffer size", "sampling completed"),
              ("decode", "vae compute buffer size", "decode_first_stage completed"))


def cpu_of(pid):
    """User and system time of a running process, in seconds."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def finished(process):
    """Waits; returns exit status, CPU seconds and peak MiB."""
    _, status, usage = os.wait4(process.pid, 0)
    return status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def run_peer(a, kind, size):
    """CPU seconds of the parts of stable-diffusion.cpp, of the whole process, and its peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        command = [a.peer, "--diffusion-model", f"{a.folder}/zimage-dit-{kind}.gguf", "--llm",
                   f"{a.folder}/qwen3-4b-{kind}.gguf", "--vae", f"{a.folder}/ae.safetensors", "-p", PROMPT, "-W", str(size),
                   "-H", str(size), "--steps", str(a.steps), "--cfg-scale", "1", "-t", str(a.threads), "-v", "-o",
                   folder + "/out.png", *a.peer_options.split()]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        parts, begun = {}, {}
        for line in process.stdout:
            for name, first, last in PEER_PARTS:
                if first in line and name not in begun:
                    begun[name] = cpu_of(process.pid)
                if last in line and name in begun and name not in parts:
                    parts[name] = cpu_of(process.pid) - begun[name]
        status, cpu, rss = finished(process)
    if status != 0:
        sys.exit(f"{a.peer} failed with status {status}")
    if "step" in parts:
        parts["step"] /= a.steps
    return {**parts, "whole": cpu, "rss": rss}


def run_part(a, part, file, size):
    out = subprocess.run(["build/generate-parts", part, f"{a.folder}/{file}", str(size), str(a.threads), "1"],
                         check=True, capture_output=True, text=True).stdout
    result = json.loads(out)
    return result["cpu_s"][0], result["gflop"]


def run_ours(a, kind, size):
    """The same of ours; the parts each in a process of their own."""
    result, flop = {}, {}
    for part, file, n in (("text", f"qwen3-4b-{kind}.gguf", a.tokens), ("step", f"zimage-dit-{kind}.gguf", size),
                          ("decode", "ae.safetensors", size)):
        result[part], flop[part] = run_part(a, part, file, n)
    if not os.path.exists(f"{a.folder}/tokenizer.json"):
        return result, flop
    with tempfile.TemporaryDirectory() as folder:
        command = [a.zenith, "generate", PROMPT, "--transformer", f"{a.folder}/zimage-dit-{kind}.gguf", "--text-encoder",
                   f"{a.folder}/qwen3-4b-{kind}.gguf", "--vae", f"{a.folder}/ae.safetensors", "--tokenizer",
                   f"{a.folder}/tokenizer.json", "--size", str(size), "--steps", str(a.steps), "--seed", "1", "-t",
                   str(a.threads), "-q", "-o", folder + "/out.png"]
        process = subprocess.Popen(command, env={**os.environ, "XDG_CACHE_HOME": folder})
        status, result["whole"], result["rss"] = finished(process)
    if status != 0:
        sys.exit(f"{a.zenith} failed with status {status}")
    return result, flop


def row(kind, size, name, ours, theirs, rate=None):
    def number(x):
        return "-" if x is None else f"{x:.1f}"
    ratio = f"{ours / theirs:.2f}" if ours is not None and theirs else "-"
    print(f"| {kind} | {size} | {name} | {number(ours)} | {number(theirs)} | {ratio} | {number(rate)} |", flush=True)


def main():
    p = argparse.ArgumentParser(prog="bench/generate")
    p.add_argument("--folder", required=True, help="of the weights")
    p.add_argument("--peer", help="sd-cli of stable-diffusion.cpp")
    p.add_argument("--peer-options", default="", help="further words for it, such as --mmap")
    p.add_argument("--zenith", default="build/cli/zenith")
    p.add_argument("--types", default="q4_0,q8_0", help="of the weights")
    p.add_argument("--sizes", default="512", help="sides of square images")
    p.add_argument("--tokens", type=int, default=13, help="of the prompt with its template, for our text encoder")
    p.add_argument("--steps", type=int, default=1)
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    print("| weights | size | part | ours, CPU s | stable-diffusion.cpp | ratio | ours, GFLOP/s a core |")
    print("|---|---:|---|---:|---:|---:|---:|")
    for _ in range(a.rounds):
        for kind in a.types.split(","):
            for size in (int(s) for s in a.sizes.split(",")):
                ours, flop = run_ours(a, kind, size)
                theirs = run_peer(a, kind, size) if a.peer else {}
                for name in ("text", "step", "decode"):
                    row(kind, size, name, ours[name], theirs.get(name), flop[name] / ours[name])
                row(kind, size, f"whole, {a.steps} steps", ours.get("whole"), theirs.get("whole"))
                row(kind, size, "peak MiB", ours.get("rss"), theirs.get("rss"))


main()
