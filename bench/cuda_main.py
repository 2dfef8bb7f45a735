"""bench/cuda: times models on a GPU in Zenith and PyTorch in turn. Started by the script `cuda`.

Times are medians of milliseconds from device memory to device memory; Zenith's with copies are in a column of their own.
PyTorch runs channels last: eager, eager as a CUDA graph, and compiled with max-autotune as a CUDA graph. A row is printed
when it is measured. What does not end within its time is a dash.
"""
import argparse
import json
import os
import re
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
KINDS = ("eager", "graph", "compiled")
START = time.monotonic()


def arguments():
    parser = argparse.ArgumentParser(prog="bench/cuda")
    parser.add_argument("build")
    parser.add_argument("--only", default="")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--limit", type=float, default=450)
    parser.add_argument("--compile-limit", type=float, default=90)
    parser.add_argument("--weights", default=os.path.join(tempfile.gettempdir(), "zenith-bench-weights"))
    parser.add_argument("--used", type=float, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def left(a):
    return a.limit - a.used - (time.monotonic() - START)


def complain(text):
    print(f"bench/cuda: {text}", file=sys.stderr, flush=True)


# ---- ours: each function returns ms and ms with copies, or None ----


def output(a, command, limit=60):
    command = [str(c) for c in command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=max(5, min(limit, left(a))))
    except subprocess.TimeoutExpired:
        complain(f"{' '.join(command)}: no result in time")
        return None
    if done.returncode:
        complain(f"{' '.join(command)}: {(done.stderr.strip() or str(done.returncode)).splitlines()[-1]}")
        return None
    return done.stdout


def last_json(text):
    return json.loads(text.strip().splitlines()[-1]) if text else None


def device_times(model, part, side, batch, precision):
    def run(a):
        r = last_json(output(a, [f"{a.build}/device-times", model, part, side, batch, precision, a.runs]))
        return r and (r["ms"], r["ms_with_copies"])

    return run


def train_step(model, side, batch, *lines):
    def run(a):
        pictures = os.path.join(a.folder, f"pictures-{side}-{batch}.raw")
        if not os.path.exists(pictures):
            with open(pictures, "wb") as f:
                f.write(os.urandom(1 << 20).translate(bytes(i & 0x3F for i in range(256))) * (batch * side * side * 12 // (1 << 20) + 1))
        r = last_json(output(a, [f"{a.build}/train-step", model, side, batch, 8, a.runs, pictures, "cuda", *lines]))
        return r and (None, statistics.median(r["ms"]))

    return run


def generate_part(part, file, size):
    def run(a):
        path = os.path.join(a.weights, file)
        r = last_json(output(a, [f"{a.build}/generate-parts", part, path, size, 8, min(a.runs, 10), "cuda"]))
        return r and (1e3 * statistics.median(r["wall_s"]), None)

    return run


def clip(part):
    def run(a):
        r = last_json(output(a, [f"{a.build}/clip-times", "random:wan21-vae", part, "832x480", 21, "bf16", 8, 3, 0, "cuda"]))
        return r and (None, 1e3 * statistics.median(x["wall"] for x in r["runs"]))

    return run


TIMES = re.compile(r"prompt ([0-9.]+) s, image ([0-9.]+) s, steps ([0-9.]+) s, decode ([0-9.]+) s, file and other ([0-9.]+) s")


def generate(side, *options):
    """Three prompts with one handle; the last is the one that counts."""

    def run(a):
        prompts, images = os.path.join(a.folder, "prompts.txt"), os.path.join(a.folder, f"images-{side}-{time.time()}")
        with open(prompts, "w") as f:
            f.write("a red fox in the snow\na grey heron on a jetty\na tin robot on a shelf\n")
        command = [f"{a.build}/cli/zenith", "generate", "--prompts", prompts, "--transformer", f"{a.weights}/zimage.safetensors",
                   "--text-encoder", f"{a.weights}/qwen3.safetensors", "--vae", f"{a.weights}/ae.safetensors", "--tokenizer",
                   f"{a.weights}/tokenizer.json", "--size", f"{side}x{side}", "--steps", "8", "--seed", "1", "--device", "cuda",
                   "-v", "-o", images + "/", *options]
        environment = dict(os.environ, XDG_CACHE_HOME=images + "-cache")  # prompts are encoded, not remembered
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=max(5, min(120, left(a))))
        except subprocess.TimeoutExpired:
            complain("zenith generate: no result in time")
            return None
        times = TIMES.findall(done.stderr)
        for line in done.stderr.splitlines():
            complain(line)
        return (None, 1e3 * sum(map(float, times[-1]))) if times and not done.returncode else None

    return run


# ---- PyTorch ----


class Peer:
    """A process of cuda_peer.py, which may fail or take too long."""

    def __init__(self, a, case, compile_it):
        words = [sys.executable, os.path.join(HERE, "cuda_peer.py"), case] + (["compile"] if compile_it else [])
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, bufsize=0)
        self.case, self.rest, self.kinds = case, b"", []
        about = self.read(min(a.compile_limit if compile_it else 60, left(a)))
        self.kinds = about["ready"] if about else []

    def read(self, limit):
        """The next JSON line; None, and the process ends, if there is none in time."""
        end = time.monotonic() + limit
        while b"\n" not in self.rest:
            wait = end - time.monotonic()
            ready = select.select([self.process.stdout], [], [], max(0, wait))[0]
            more = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not more:
                self.stop("no result in time" if wait <= 0 else None)
                return None
            self.rest += more
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line) if line.startswith(b"{") else self.read(end - time.monotonic())

    def stop(self, why=None):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        if why or self.process.returncode not in (0, -9):
            complain(f"PyTorch, {self.case}: {why or (lines or ['?'])[-1]}")
        self.kinds = []

    def time(self, a, kind):
        if kind not in self.kinds:
            return None
        self.process.stdin.write(f"{kind} {a.runs}\n".encode())
        result = self.read(min(60, left(a)))
        return result and result["ms"]


def open_peer(a, case):
    """Compiled if that ends in time, else without."""
    if a.no_torch or not case:
        return None
    peer = Peer(a, case, not a.no_compile)
    if not peer.kinds and not a.no_compile and left(a) > 30:
        peer = Peer(a, case, False)
    return peer


# ---- rows ----

# group, work, our side, PyTorch's case, seconds that it should have left to begin
ROWS = [
    ("taesd", "TAESD decode 512x512, bf16", device_times("taesd", "decode", 512, 1, "bf16"), "taesd:decode:512:1:bf16", 15),
    ("taesd", "batch 8", device_times("taesd", "decode", 512, 8, "bf16"), "taesd:decode:512:8:bf16", 15),
    ("taesd", "TAESD encode 512x512, bf16", device_times("taesd", "encode", 512, 1, "bf16"), "taesd:encode:512:1:bf16", 15),
    ("taesd", "batch 8", device_times("taesd", "encode", 512, 8, "bf16"), "taesd:encode:512:8:bf16", 15),
    ("taesd", "TAESD decode 512x512, f32", device_times("taesd", "decode", 512, 1, "f32"), "taesd:decode:512:1:f32", 15),
    ("train", "TAESD training step, 16 x 256x256, bf16", train_step("random:taesd", 256, 16, "precision: bf16"), "train:taesd", 20),
    ("zenith-r", "zenith-r decode 512x512, bf16", device_times("zenith-r", "decode", 512, 1, "bf16"), None, 10),
    ("diffae", "DiffAE celeba64 U-Net, bf16", device_times("diffae-celeba64", "decode", 64, 1, "bf16"), "unet:1", 15),
    ("diffae", "batch 16", device_times("diffae-celeba64", "decode", 64, 16, "bf16"), "unet:16", 15),
    ("train", "DiffAE celeba64 training step, 64 x 64x64, bf16",
     train_step("random:diffae-celeba64", 64, 64, "model: diffae-celeba64", "task: diffuse", "dropout: 0.1", "precision: bf16"),
     "train:diffae", 20),
    ("mamba", "training step of diffae-mamba-small, 64 x 64x64, bf16", train_step("recipe:diffae-mamba-small", 64, 64, "precision: bf16"),
     None, 20),
    ("mamba", "of mamba-field", train_step("recipe:mamba-field", 64, 64, "precision: bf16"), None, 20),
    ("mamba", "of mamba-field-direct", train_step("recipe:mamba-field-direct", 64, 64, "precision: bf16"), None, 20),
    ("mamba", "of mamba-coordinates", train_step("recipe:mamba-coordinates", 64, 64, "precision: bf16"), None, 20),
    ("wan", "Wan 2.1 decode 512x512, one frame, bf16", device_times("wan21-vae", "decode", 512, 1, "bf16"), "wan:decode:512:512:1", 15),
    ("wan", "encode", device_times("wan21-vae", "encode", 512, 1, "bf16"), "wan:encode:512:512:1", 15),
    ("clip", "Wan 2.1 decode 832x480, 21 frames, bf16", clip("decode"), "wan:decode:832:480:21", 20),
    ("clip", "encode", clip("encode"), "wan:encode:832:480:21", 20),
    ("zimage", "Z-Image step 512x512, bf16", generate_part("step", "zimage.safetensors", 512), "zimage:512", 30),
    ("zimage", "1024x1024", generate_part("step", "zimage.safetensors", 1024), "zimage:1024", 30),
    ("text", "Qwen3-4B, 100 tokens, bf16", generate_part("text", "qwen3.safetensors", 100), "text:100", 20),
    ("flux", "FLUX decoder 512x512, bf16", generate_part("decode", "ae.safetensors", 512), "flux:512", 15),
    ("flux", "1024x1024", generate_part("decode", "ae.safetensors", 1024), "flux:1024", 15),
    ("generate", "prompt to PNG 1024x1024, 8 steps, weights on the GPU, bf16", generate(1024), None, 40),
    ("small", "the same within 8 GB", generate(1024, "--memory", "8G"), None, 60),
    ("small", "512x512 within 6 GB", generate(512, "--memory", "6G"), None, 60),
]
NEEDS_WEIGHTS = {"zimage", "text", "flux", "generate", "small"}
GROUPS = list(dict.fromkeys(row[0] for row in ROWS))


def number(x):
    return "-" if x is None else f"{x:.2f}" if x < 100 else f"{x:.0f}"


def middle(values):
    values = [v for v in values if v is not None]
    return statistics.median(values) if values else None


def measure(a, ours, case):
    """Medians over rounds: ours, ours with copies, and the kinds of PyTorch. In each round everyone runs once."""
    peer, results = open_peer(a, case), []
    rounds = 1 if left(a) < 60 or ours.__qualname__.split(".")[0] in ("generate", "generate_part") else a.rounds
    for _ in range(rounds):
        mine = ours(a) or (None, None)
        results.append([*mine, *(peer.time(a, kind) if peer else None for kind in KINDS)])
    if peer:
        peer.stop()
    return [middle(column) for column in zip(*results)]


def make_weights(a):
    """False if they cannot be written."""
    begin = time.monotonic()
    done = subprocess.run([sys.executable, os.path.join(HERE, "cuda_weights.py"), a.weights], capture_output=True, text=True)
    if done.returncode:
        complain(f"random weights: {(done.stderr.strip() or '?').splitlines()[-1]}")
    complain(f"random weights in {a.weights}: {time.monotonic() - begin:.0f} s")
    return not done.returncode


def print_row(name, values):
    best = min((v for v in values if v is not None), default=None)
    cells = [f"**{number(v)}**" if v is not None and v == best else number(v) for v in values]
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main():
    a = arguments()
    chosen = a.only.split(",") if a.only else GROUPS
    unknown = [g for g in chosen if g not in GROUPS]
    if unknown:
        complain(f"{unknown[0]} is not known; there are {', '.join(GROUPS)}")
        return 2
    a.folder = tempfile.mkdtemp(prefix="zenith-bench-")
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    version = "import torch; print(torch.cuda.get_device_name() + ', PyTorch ' + torch.__version__ + ', cuDNN ' + str(torch.backends.cudnn.version()))"
    about = subprocess.run([sys.executable, "-c", version], capture_output=True, text=True).stdout.strip() or "no PyTorch"
    a.no_torch = a.no_torch or about == "no PyTorch"
    print(f"{about}, commit {commit or 'unknown'}. Medians of {a.rounds} rounds of {a.runs} runs, ms.\n")
    print("| work | Zenith | with copies | PyTorch eager | eager, CUDA graph | compiled, CUDA graph |")
    print("|---|---:|---:|---:|---:|---:|", flush=True)
    ready = None
    for group, name, ours, case, least in ROWS:
        if group not in chosen:
            continue
        if left(a) < least:
            complain(f"{name}: not measured, {left(a):.0f} s are left")
            continue
        if group in NEEDS_WEIGHTS:
            ready = make_weights(a) if ready is None else ready
        if group not in NEEDS_WEIGHTS or ready:
            print_row(name, measure(a, ours, case))
    shutil.rmtree(a.folder, ignore_errors=True)
    complain(f"{a.used + time.monotonic() - START:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
