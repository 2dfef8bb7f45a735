"""bench/cuda: times models on a GPU in Zenith and PyTorch in turn. Started by the script `cuda`.

Times are medians of milliseconds from device memory to device memory; Zenith's with copies are in a column of their own.
PyTorch runs channels last: eager, and compiled with max-autotune and CUDA graphs.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import torch

import peers_net as net

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
KINDS = {"f32": torch.float32, "bf16": torch.bfloat16}
# part, side, batch, precision
CODECS = [("decode", 512, 1, "bf16"), ("decode", 512, 8, "bf16"), ("encode", 512, 1, "bf16"), ("encode", 512, 8, "bf16"),
          ("decode", 512, 1, "f32")]
# architecture, part, side, batch, precision: only ours
ALONE = [("zenith-r", "decode", 512, 1, "bf16"), ("zenith-r", "encode", 512, 1, "bf16"),
         ("diffae-celeba64", "decode", 64, 1, "bf16"), ("diffae-celeba64", "decode", 64, 16, "bf16")]


def arguments():
    parser = argparse.ArgumentParser(prog="bench/cuda")
    parser.add_argument("build")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=30)
    return parser.parse_args()


def ours(a, model, part, side, batch, precision):
    command = [f"{a.build}/device-times", model, part, str(side), str(batch), precision, str(a.runs)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr.strip(), file=sys.stderr)
        return {"ms": float("nan"), "ms_with_copies": float("nan"), "steps": 0, "on_host": 0}
    return json.loads(done.stdout)


def time_torch(call, runs):
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


class Peer:
    """A part of TAESD in PyTorch, made once for all rounds."""

    def __init__(self, part, side, batch, precision, compile_it):
        kind = KINDS[precision]
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        module = net.torch_module(part, net.random_weights(part, 1)).to("cuda", kind, memory_format=torch.channels_last)
        x = torch.from_numpy(net.random_input(part, side, side, 1)).to("cuda", kind).repeat(batch, 1, 1, 1)
        self.x = x.contiguous(memory_format=torch.channels_last)
        self.eager = module
        self.compiled = torch.compile(module, mode="max-autotune") if compile_it else None

    def times(self, runs):
        eager = time_torch(lambda: self.eager(self.x), runs)
        return eager, time_torch(lambda: self.compiled(self.x), runs) if self.compiled else float("nan")


def number(x):
    return "-" if x != x else f"{x:.2f}" if x < 100 else f"{x:.0f}"


def codec_rows(a):
    for part, side, batch, precision in CODECS:
        peer = Peer(part, side, batch, precision, not a.no_compile)
        rounds = []
        for _ in range(a.rounds):
            mine = ours(a, "taesd", part, side, batch, precision)
            rounds.append((mine["ms"], mine["ms_with_copies"], *peer.times(a.runs)))
        middle = [statistics.median(r[i] for r in rounds) for i in range(4)]
        yield (f"TAESD {part} {side}x{side}, batch {batch}, {precision}", *middle, mine["steps"], mine["on_host"])
        del peer
        torch.cuda.empty_cache()


def alone_rows(a):
    nan = float("nan")
    for model, part, side, batch, precision in ALONE:
        rounds = [ours(a, model, part, side, batch, precision) for _ in range(a.rounds)]
        yield (f"{model} {part} {side}x{side}, batch {batch}, {precision}", statistics.median(r["ms"] for r in rounds),
               statistics.median(r["ms_with_copies"] for r in rounds), nan, nan, rounds[0]["steps"], rounds[0]["on_host"])


def main():
    a = arguments()
    torch.set_grad_enabled(False)
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, commit "
          f"{commit.strip() or 'unknown'}. Medians of {a.rounds} rounds of {a.runs} runs, ms.\n")
    print("| work | Zenith | with copies | PyTorch eager | compiled | steps on the GPU |")
    print("|---|---:|---:|---:|---:|---:|")
    for rows in (codec_rows(a), alone_rows(a)):
        for name, mine, copies, eager, compiled, steps, on_host in rows:
            print(f"| {name} | **{number(mine)}** | {number(copies)} | {number(eager)} | {number(compiled)} | "
                  f"{steps - on_host} of {steps} |", flush=True)


if __name__ == "__main__":
    main()
