"""PyTorch's side of bench/cuda, in a process of its own that can be stopped.

    python3 cuda_peer.py CASE [compile]

Prints {"ready": [KINDS]}, then reads lines "KIND RUNS" and prints {"ms": MEDIAN} for each. Kinds: eager; graph: the same
as a CUDA graph; compiled: compiled with max-autotune, as a CUDA graph. Training steps have no CUDA graph.
"""
import json
import os
import statistics
import sys
import time

import torch

import cuda_net as net

BF16 = torch.bfloat16
NHWC = torch.channels_last


def image(*shape):
    return torch.randn(*shape, device="cuda", dtype=BF16).contiguous(memory_format=NHWC)


def on_gpu(module, kind=BF16):
    return module.eval().to("cuda", kind).to(memory_format=NHWC)


def taesd(part, side, batch, precision):
    import peers_net

    kind = BF16 if precision == "bf16" else torch.float32
    x = torch.from_numpy(peers_net.random_input(part, side, side, 1)).to("cuda", kind).repeat(batch, 1, 1, 1)
    module = on_gpu(peers_net.torch_module(part, peers_net.random_weights(part, 1)), kind)
    return module, (x.contiguous(memory_format=NHWC),)


def unet(batch):
    t, cond = torch.full((batch,), 500, device="cuda"), torch.randn(batch, net.KNOWN, device="cuda", dtype=BF16)
    return on_gpu(net.Unet()), (image(batch, 3, 64, 64), t, cond)


def rotations(tokens, head):
    angle = torch.randn(1, tokens, 1, head // 2, device="cuda")
    return angle.cos().to(BF16), angle.sin().to(BF16)


def blocks_on_gpu(make):
    with torch.device("cuda"):
        torch.set_default_dtype(BF16)
        module = make().eval()
        torch.set_default_dtype(torch.float32)
    return module


def zimage(side):
    tokens, caption, dim = (side // 16) ** 2, 32, 3840
    module = blocks_on_gpu(net.ImageStep)
    m = [torch.randn(1, 4 * dim, device="cuda", dtype=BF16) * 0.1 for _ in range(len(module.blocks) + 1)]
    x = torch.randn(1, tokens, 64, device="cuda", dtype=BF16)
    words = torch.randn(1, caption, dim, device="cuda", dtype=BF16)
    return module, (x, m, words, *rotations(tokens + caption, 128))


def text(tokens):
    return blocks_on_gpu(net.Text), (torch.randn(1, tokens, 2560, device="cuda", dtype=BF16), *rotations(tokens, 128))


def flux(side):
    return on_gpu(net.flux_decoder()), (image(1, 16, side // 8, side // 8),)


def wan(part, width, height, frames):
    import video_net

    module, x, run = video_net.prepare("wan21-vae", part, width, height, frames)
    module, x = module.to("cuda", BF16), x.to("cuda", BF16)
    return (lambda v: run(module, v)), (x,)


class TaesdLoss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        import peers_net

        halves = [peers_net.torch_module(part, peers_net.random_weights(part, 1)) for part in ("encode", "decode")]
        self.both = torch.nn.Sequential(*halves)

    def forward(self, x):
        return torch.nn.functional.mse_loss(self.both(x).float(), x)


def training(module, inputs, compile_it):
    """Whole steps with fp32 parameters and bf16 arithmetic."""
    module = module.train().to("cuda").to(memory_format=NHWC)
    optimiser = torch.optim.AdamW(module.parameters(), lr=1e-4, fused=True)
    run = torch.compile(module, mode="max-autotune-no-cudagraphs") if compile_it else module

    def step():
        optimiser.zero_grad()
        with torch.autocast("cuda", BF16):
            loss = run(*inputs)
        loss.backward()
        optimiser.step()

    return step


def train_inputs(name):
    if name == "taesd":
        return TaesdLoss(), (torch.rand(16, 3, 256, 256, device="cuda").contiguous(memory_format=NHWC),)
    x, noise = (torch.randn(64, 3, 64, 64, device="cuda").contiguous(memory_format=NHWC) for _ in range(2))
    return net.Diffae(), (x, noise, torch.randint(0, 1000, (64,), device="cuda"))


CASES = {"taesd": lambda part, side, batch, kind: taesd(part, int(side), int(batch), kind), "unet": lambda batch: unet(int(batch)),
         "zimage": lambda side: zimage(int(side)), "text": lambda tokens: text(int(tokens)), "flux": lambda side: flux(int(side)),
         "wan": lambda part, width, height, frames: wan(part, int(width), int(height), int(frames))}


def captured(call):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def compiled(module):
    """Blocks are compiled once for all of them."""
    if hasattr(module, "blocks"):
        for block in module.blocks:
            block.compile(mode="max-autotune-no-cudagraphs")
        return module
    return torch.compile(module, mode="max-autotune-no-cudagraphs")


def forward_kinds(name, arguments, compile_it):
    torch.set_grad_enabled(False)
    module, inputs = CASES[name](*arguments)
    kinds = {"eager": lambda: module(*inputs)}
    torch.cuda.synchronize()
    if name != "wan":  # pieces of a clip change the network's state
        kinds["graph"] = captured(kinds["eager"])
    if compile_it and name != "wan":
        other = compiled(CASES[name](*arguments)[0])
        call = lambda: other(*inputs)
        call()
        kinds["compiled"] = captured(call)
    return kinds


def train_kinds(name, compile_it):
    kinds = {"eager": training(*train_inputs(name), False)}
    if compile_it:
        kinds["compiled"] = training(*train_inputs(name), True)
    return kinds


def median(call, runs):
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def main():
    words, compile_it = sys.argv[1].split(":"), "compile" in sys.argv[2:]
    torch.manual_seed(1)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    kinds = train_kinds(words[1], compile_it) if words[0] == "train" else forward_kinds(words[0], words[1:], compile_it)
    for call in kinds.values():
        call()
    torch.cuda.synchronize()
    print(json.dumps({"ready": list(kinds), "torch": torch.__version__, "device": torch.cuda.get_device_name()}), flush=True)
    for line in sys.stdin:
        kind, runs = line.split()
        torch.cuda.reset_peak_memory_stats()
        ms = median(kinds[kind], int(runs))
        print(json.dumps({"ms": ms, "peak_mib": torch.cuda.max_memory_allocated() / 2**20}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
