"""Runs our programs and stable-diffusion.cpp in turn and prints a table of CPU seconds and seconds; see bench/generate."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

TICK = os.sysconf("SC_CLK_TCK")
PROMPT = "a lovely cat"
PARTS = ("text", "step", "decode")
# The lines of its log between which a part computes; weights are read before the first of a pair.
PEER_PARTS = (("text", "qwen3 compute buffer size", "computing condition graph completed"),
              ("step", "z_image compute buffer size", "sampling completed"),
              ("decode", "vae compute buffer size", "decode_first_stage completed"))


def clocks(pid):
    """CPU time of a running process (user and system) and the wall clock, in seconds."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK, time.monotonic()


def run(command, limit, log, env=None, each_line=None):
    """Runs a command to its end, or for `limit` seconds. Returns its exit status, (CPU seconds, seconds) and peak MiB.
    Its output goes to the file `log`; each_line(pid, line) is called as lines arrive."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=env)
    timer = threading.Timer(limit, process.kill)
    timer.start()
    with open(log, "w") as f:
        for line in process.stdout:
            f.write(line)
            if each_line:
                each_line(process.pid, line)
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    return status, (usage.ru_utime + usage.ru_stime, time.monotonic() - begin), usage.ru_maxrss / 1024


def files(a, kind):
    return f"{a.folder}/zimage-dit-{kind}.gguf", f"{a.folder}/qwen3-4b-{kind}.gguf", f"{a.folder}/ae.safetensors"


def run_peer(a, kind, size, logs):
    """Times of the parts of stable-diffusion.cpp that ended within the limit; of the whole process, and its peak memory."""
    transformer, encoder, decoder = files(a, kind)
    result, begun = {}, {}

    def each_line(pid, line):
        for name, first, last in PEER_PARTS:
            if first in line and name not in begun:
                begun[name] = clocks(pid)
            if last in line and name in begun and name not in result:
                steps = a.steps if name == "step" else 1
                result[name] = tuple((now - then) / steps for now, then in zip(clocks(pid), begun[name]))

    command = [a.peer, "--diffusion-model", transformer, "--llm", encoder, "--vae", decoder, "-p", PROMPT, "-W", str(size),
               "-H", str(size), "--steps", str(a.steps), "--cfg-scale", "1", "-t", str(a.threads), "-v", "-o",
               logs + "/peer.png", *a.peer_options.split()]
    log = f"{logs}/peer-{kind}-{size}.log"
    status, whole, result["rss"] = run(command, a.limit, log, each_line=each_line)
    if status == 0:
        result["whole"] = whole
    else:
        print(f"bench/generate: {a.peer} ended with status {status} after {whole[1]:.0f} s; {log}", file=sys.stderr)
    return result


def run_part(a, part, file, size):
    """Times of the fastest run of one network, and its operations in GFLOP."""
    command = ["build/generate-parts", part, file, str(size), str(a.threads), str(a.runs)]
    out = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return (min(out["cpu_s"]), min(out["wall_s"])), out["gflop"]


def run_ours(a, kind, size, logs):
    """The same of ours; the parts each in a process of their own, the whole only if there is a tokenizer."""
    transformer, encoder, decoder = files(a, kind)
    result, flop = {}, {}
    for part, file, n in zip(PARTS, (encoder, transformer, decoder), (a.tokens, size, size)):
        result[part], flop[part] = run_part(a, part, file, n)
    tokenizer = f"{a.folder}/tokenizer.json"
    if not os.path.exists(tokenizer):
        return result, flop
    with tempfile.TemporaryDirectory() as cache:
        command = [a.zenith, "generate", PROMPT, "--transformer", transformer, "--text-encoder", encoder, "--vae", decoder,
                   "--tokenizer", tokenizer, "--size", str(size), "--steps", str(a.steps), "--seed", "1", "-t",
                   str(a.threads), "-v", "-o", logs + "/ours.png"]
        log = f"{logs}/ours-{kind}-{size}.log"
        status, result["whole"], result["rss"] = run(command, a.limit, log, env={**os.environ, "XDG_CACHE_HOME": cache})
    if status != 0:
        sys.exit(f"bench/generate: {a.zenith} ended with status {status}; {log}")
    return result, flop


def number(x):
    return "-" if x is None else f"{x:.2f}" if x < 10 else f"{x:.1f}"


def print_row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def print_times(kind, size, name, ours, theirs, gflop=None):
    ours, theirs = ours or (None, None), theirs or (None, None)
    ratios = [number(x / y) if x is not None and y else "-" for x, y in zip(ours, theirs)]
    rate = number(gflop / ours[0]) if gflop else "-"
    print_row(kind, size, name, number(ours[0]), number(theirs[0]), ratios[0], number(ours[1]), number(theirs[1]), ratios[1], rate)


def main():
    p = argparse.ArgumentParser(prog="bench/generate")
    p.add_argument("--folder", required=True, help="of the weights")
    p.add_argument("--peer", help="sd-cli of stable-diffusion.cpp")
    p.add_argument("--peer-options", default="", help="further words for it, such as --mmap")
    p.add_argument("--zenith", default="build/cli/zenith")
    p.add_argument("--types", default="q4_0,q8_0", help="of the weights")
    p.add_argument("--sizes", default="512", help="sides of square images")
    p.add_argument("--tokens", type=int, default=11, help="for our text encoder; the prompt has 11 with its template")
    p.add_argument("--steps", type=int, default=1)
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--runs", type=int, default=1, help="of each of our parts; the fastest counts")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--limit", type=float, default=3600, help="seconds for one run of a program; parts that ended count")
    p.add_argument("--logs", help="folder for the output of the programs (default: not kept)")
    a = p.parse_args()
    print_row("weights", "size", "part", "ours, CPU s", "stable-diffusion.cpp, CPU s", "ratio", "ours, s",
              "stable-diffusion.cpp, s", "ratio", "ours, GFLOP/s a core")
    print_row("---", "---:", "---", *["---:"] * 7)
    with tempfile.TemporaryDirectory() as scratch:
        logs = a.logs or scratch
        os.makedirs(logs, exist_ok=True)
        for _ in range(a.rounds):
            for kind in a.types.split(","):
                for size in (int(s) for s in a.sizes.split(",")):
                    ours, flop = run_ours(a, kind, size, logs)
                    theirs = run_peer(a, kind, size, logs) if a.peer else {}
                    for name in PARTS:
                        print_times(kind, size, name, ours[name], theirs.get(name), flop[name])
                    print_times(kind, size, f"whole, steps: {a.steps}", ours.get("whole"), theirs.get("whole"))
                    rss = ours.get("rss"), theirs.get("rss")
                    ratio = number(rss[0] / rss[1]) if all(rss) else "-"
                    print_row(kind, size, "peak MiB", *map(number, rss), ratio, "", "", "", "")


main()
