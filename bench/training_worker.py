"""The PyTorch part of bench/training: a new process that warms up, times whole steps and prints a JSON line.

    python3 training_worker.py torch|torch-nhwc|torch-bf16|... FOLDER THREADS RUNS [cpu|cuda]

torch-compile-...: compiled with max-autotune.

The settings are those of bench/train_step.c: mean square error, AdamW with decay on matrices only. training_main.py
prepares FOLDER.
"""
import json
import os
import resource
import sys
import time

import numpy as np
import torch

import peers_net as net

WARM_UPS = 3


def prepare(kind, folder, device):
    halves = [net.torch_module(part, net.load_safetensors(f"{folder}/taesd/taesd_{part}r.safetensors"))
              for part in ("encode", "decode")]
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = "tf32" in kind
    model = torch.nn.Sequential(*halves).train().to(device)
    x = torch.from_numpy(np.load(f"{folder}/pictures.npy")).to(device)
    if "nhwc" in kind:
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
    return model, x, torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.999), eps=1e-8, fused=True)


def main():
    kind, folder, threads, runs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    device = sys.argv[5] if len(sys.argv) > 5 else "cpu"
    torch.set_num_threads(threads)
    model, x, optimiser = prepare(kind, folder, device)
    forward = torch.compile(model, mode="max-autotune-no-cudagraphs") if "compile" in kind else model
    times = []
    for i in range(-WARM_UPS, runs):
        begin = time.perf_counter()
        optimiser.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled="bf16" in kind):
            y = forward(x)
        loss = torch.nn.functional.mse_loss(y.float(), x)
        loss.backward()
        optimiser.step()
        last = loss.item()
        if i >= 0:
            times.append(1e3 * (time.perf_counter() - begin))
        elif i == -WARM_UPS:
            first = last
            norm = sum(float((p.grad.double() ** 2).sum()) for p in model.parameters()) ** 0.5
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"loss": first, "gradient_norm": norm, "last_loss": last, "ms": times, "rss_mb": memory,
                      "version": "PyTorch " + torch.__version__.split("+")[0]}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
