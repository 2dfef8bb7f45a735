"""PyTorch's side of bench/cuda, in a process of its own that can be stopped.

    python3 cuda_peer.py

Prints a JSON object about itself, then answers each line on standard input, a JSON object too, with one:

    {"prepare": CASE, "compile": false}    {"kinds": [...], "mode": ..., "seconds": ...}
    {"time": CASE, "kind": KIND, "runs": N}    {"ms": MEDIAN, "peak_mib": ...}
    {"drop": CASE}    {}
    {"copy": MEBIBYTES}    {"gbs": ...}: bytes read and written by a copy on the device

or {"error": SENTENCE}. Kinds: eager; graph: the same as a CUDA graph; compiled: compiled in the mode that is told, as a
CUDA graph too if that can be recorded ("graph" says so). Without a GPU it runs on the CPU, to see that it works.
"""
import gc
import json
import os
import statistics
import sys
import time

import torch

import cuda_net as net

BF16 = torch.bfloat16
NHWC = torch.channels_last
GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


def random(*shape):
    return torch.randn(*shape, device=DEVICE, dtype=BF16)


def image(*shape):
    return random(*shape).contiguous(memory_format=NHWC)


def made(make, kind=BF16):
    """A network whose parameters are drawn on the GPU."""
    torch.manual_seed(1)
    with torch.device(DEVICE):
        torch.set_default_dtype(kind)
        try:
            module = make()
        finally:
            torch.set_default_dtype(torch.float32)
    return module.eval()


# ---- networks and their inputs ----


def taesd(part, side, batch, precision):
    import peers_net

    kind = BF16 if precision == "bf16" else torch.float32
    x = torch.from_numpy(peers_net.random_input(part, side, side, 1)).to(DEVICE, kind).repeat(batch, 1, 1, 1)
    module = peers_net.torch_module(part, peers_net.random_weights(part, 1)).eval().to(DEVICE, kind)
    return module.to(memory_format=NHWC), (x.contiguous(memory_format=NHWC),)


def unet(preset, batch):
    side = net.DIFFAE[preset][0]
    t = torch.full((batch,), 500, device=DEVICE)
    return made(lambda: net.Unet(preset)).to(memory_format=NHWC), (image(batch, 3, side, side), t, random(batch, net.KNOWN))


def rotations(tokens, head):
    angle = torch.randn(1, tokens, 1, head // 2, device=DEVICE)
    return angle.cos().to(BF16), angle.sin().to(BF16)


def zimage(side, precision):
    tokens, caption, dim = (side // 16) ** 2, 32, 3840
    module = made(net.ImageStep)
    if precision == "fp8":
        net.use_fp8(module.blocks[module.refiners:])
    m = [random(1, 4 * dim) * 0.1 for _ in range(len(module.blocks) + 1)]
    return module, (random(1, tokens, 64), m, random(1, caption, dim), *rotations(tokens + caption, 128))


def text(tokens):
    return made(net.Text), (random(1, tokens, 2560), *rotations(tokens, 128))


def flux(side):
    return made(net.flux_decoder).to(memory_format=NHWC), (image(1, 16, side // 8, side // 8),)


class Clip(torch.nn.Module):
    """Wan's network over all pieces of a clip."""

    def __init__(self, part, width, height, frames):
        super().__init__()
        import video_net

        module, self.x, self.run = video_net.prepare("wan21-vae", part, width, height, frames)
        self.net = module.to(DEVICE, BF16)

    def forward(self, x):
        return self.run(self.net, x)


def wan(part, width, height, frames):
    module = Clip(part, width, height, frames)
    return module, (module.x.to(DEVICE, BF16),)


class TaesdLoss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        import peers_net

        halves = [peers_net.torch_module(part, peers_net.random_weights(part, 1)) for part in ("encode", "decode")]
        self.both = torch.nn.Sequential(*halves).to(DEVICE)

    def forward(self, x):
        return torch.nn.functional.mse_loss(self.both(x).float(), x)


def train(name, side, batch):
    """fp32 parameters; the module's result is the loss."""
    x = torch.rand(batch, 3, side, side, device=DEVICE).contiguous(memory_format=NHWC)
    if name == "taesd":
        return TaesdLoss().train().to(memory_format=NHWC), (x,)
    module = made(lambda: net.Diffae(name), torch.float32).train().to(memory_format=NHWC)
    return module, (2 * x - 1, torch.randn_like(x), torch.randint(0, 1000, (batch,), device=DEVICE))


CASES = {"taesd": taesd, "unet": unet, "zimage": zimage, "text": text, "flux": flux, "wan": wan, "train": train}


def load(case):
    name, *words = case.split(":")
    return CASES[name](*(int(w) if w.isdigit() else w for w in words))


# ---- ways to run them ----


def mode_of(case):
    """max-autotune where a network has few shapes of layers. For the others it takes many minutes, and the library's
    convolutions are the fastest of what it tries."""
    return "default" if case.split(":")[0] in ("unet", "wan") or case.startswith("train:") else "max-autotune-no-cudagraphs"


def compiled(module, mode):
    """Blocks are compiled once for all of them."""
    import torch._dynamo.config as config

    name = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"
    setattr(config, name, 64)  # pieces of a clip have shapes and states of their own
    if not GPU:
        mode = "default"
    if hasattr(module, "blocks"):
        for block in module.blocks:
            block.compile(mode=mode, dynamic=False)
        return module
    if isinstance(module, Clip):
        module.net.compile(mode=mode, dynamic=False)
        return module
    return torch.compile(module, mode=mode, dynamic=False)


def training_step(module, run, inputs):
    """A whole step with bf16 arithmetic."""
    optimiser = torch.optim.AdamW(module.parameters(), lr=1e-4, fused=True, capturable=GPU)

    def step():
        optimiser.zero_grad()
        with torch.autocast(DEVICE, BF16):
            loss = run(*inputs)
        loss.backward()
        optimiser.step()

    return step


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


def synchronise():
    if GPU:
        torch.cuda.synchronize()


def first_line(error):
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


class Prepared:
    def __init__(self, case, compile_it):
        begin, is_training = time.perf_counter(), case.startswith("train:")
        module, inputs = load(case)
        self.mode, run = mode_of(case) if compile_it else None, module
        if compile_it:
            run = compiled(module, self.mode)
        if is_training:
            call = training_step(module, run, inputs)
        else:
            module.requires_grad_(False)
            call = lambda: run(*inputs)
        self.calls, self.graph = {"compiled" if compile_it else "eager": call}, False
        self.kept = call  # a graph does not own the parameters and inputs that it reads
        with torch.set_grad_enabled(is_training):
            call()
            synchronise()
            if GPU and (compile_it or not is_training):
                self.record(call, compile_it)
        self.is_training, self.seconds = is_training, time.perf_counter() - begin

    def record(self, call, compile_it):
        try:
            self.calls["compiled" if compile_it else "graph"] = captured(call)
            self.graph = True
        except Exception as error:  # what cannot be recorded is timed as it is
            print(f"no CUDA graph: {first_line(error)}", file=sys.stderr, flush=True)
            synchronise()

    def median(self, kind, runs):
        times = []
        with torch.set_grad_enabled(self.is_training):
            for i in range(-3, runs):
                begin = time.perf_counter()
                self.calls[kind]()
                synchronise()
                times += [1e3 * (time.perf_counter() - begin)] if i >= 0 else []
                if i >= 4 and sum(times) > 3e3:  # slow enough to be known from a few
                    break
        return statistics.median(times)


def copy_rate(mebibytes):
    a = torch.empty(mebibytes << 20, dtype=torch.uint8, device=DEVICE).zero_()
    b = torch.empty_like(a)
    times = []
    for _ in range(20):
        synchronise()
        begin = time.perf_counter()
        for _ in range(10):
            b.copy_(a)
        synchronise()
        times.append((time.perf_counter() - begin) / 10)
    return 2e-9 * a.numel() / statistics.median(times)


def answer(prepared, request):
    if "prepare" in request:
        case = request["prepare"]
        prepared[case] = p = Prepared(case, request["compile"])
        return {"kinds": list(p.calls), "mode": p.mode, "graph": p.graph, "seconds": p.seconds}
    if "time" in request:
        if GPU:
            torch.cuda.reset_peak_memory_stats()
        ms = prepared[request["time"]].median(request["kind"], request["runs"])
        return {"ms": ms, "peak_mib": torch.cuda.max_memory_allocated() / 2**20 if GPU else None}
    if "copy" in request:
        return {"gbs": copy_rate(request["copy"])}
    prepared.pop(request["drop"], None)
    return {}


def main():
    torch.manual_seed(1)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    name = torch.cuda.get_device_name() if GPU else "CPU"
    print(json.dumps({"torch": torch.__version__, "device": name, "cudnn": torch.backends.cudnn.version()}), flush=True)
    prepared = {}
    for line in sys.stdin:
        try:
            result = answer(prepared, json.loads(line))
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {first_line(error)}"}
        gc.collect()
        if GPU and "ms" not in result:
            torch.cuda.empty_cache()
        print(json.dumps(result), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
