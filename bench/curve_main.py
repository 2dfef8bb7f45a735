"""bench/curve: the training of the preset wan2d in Zenith and in PyTorch. Started by the script `curve`.

The PyTorch side is written from the specification alone: network, losses, AdamW, rates, clipping, the sum of parts. It
repeats what Zenith draws at random (which image, where, mirrored or not, the noise of the latents) from the same
generator, so that both learn from the same numbers.
"""
import argparse
import copy
import glob
import json
import math
import os
import shutil
import struct
import subprocess
import sys

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MASK = (1 << 64) - 1
SEED, LR, WARMUP, FINAL = 1, 2e-4, 20, 0.01
WEIGHTS = {"mse": 4, "lpips": 0.1, "kl": 0.004}
KL_RISE, CLIP, PARTS, LATENT = 0.1, 1.0, 2, 4


# ---- what Zenith draws (src/base/rng.c, src/train/data/order.c) ----

class Rng:
    def __init__(self, seed):
        self.s = []
        for _ in range(4):
            seed = (seed + 0x9E3779B97F4A7C15) & MASK
            z = ((seed ^ seed >> 30) * 0xBF58476D1CE4E5B9) & MASK
            z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
            self.s.append(z ^ z >> 31)

    def next(self):
        s = self.s
        rotl = lambda x, k: (x << k | x >> 64 - k) & MASK
        result, t = rotl(s[1] * 5 & MASK, 7) * 9 & MASK, s[1] << 17 & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotl(s[3], 45)
        return result

    def normal(self):
        u, v = ((self.next() >> 11) + 0.5) * 2.0 ** -53, (self.next() >> 11) * 2.0 ** -53
        return math.sqrt(-2 * math.log(u)) * math.cos(6.283185307179586 * v)


def mix(a, b):
    return Rng(a ^ b * 0x9E3779B97F4A7C15 & MASK).next()


def order_at(n, count):
    epoch, i, bits = n // count, n % count, 2
    while 1 << bits < count:
        bits += 2
    half = bits // 2
    mask = (1 << half) - 1
    while True:
        left, right = i >> half, i & mask
        for turn in range(4):
            left, right = right, left ^ mix(SEED ^ epoch << 8 ^ turn, right) & mask
        i = left << half | right
        if i < count:
            return i


def crop(image, n, size):
    rng = Rng(mix(SEED + 1, n))
    y_spare, x_spare = image.shape[0] - size, image.shape[1] - size
    x = rng.next() % (x_spare + 1) if x_spare else 0
    y = rng.next() % (y_spare + 1) if y_spare else 0
    part = image[y:y + size, x:x + size]
    return part[:, ::-1] if rng.next() & 1 else part


def batch_at(images, step, a):
    """Images and noise of a step, in its parts."""
    numbers = [step * a.batch + i for i in range(a.batch)]
    x = np.stack([crop(images[order_at(n, len(images))], n, a.size) for n in numbers])
    side = a.size // 16
    noise = []
    for n in numbers:
        rng = Rng((SEED * 0x9E3779B97F4A7C15 + n) & MASK)
        noise.append(np.array([rng.normal() for _ in range(side * side * LATENT)]).reshape(side, side, LATENT))
    as_torch = lambda v: torch.from_numpy(np.ascontiguousarray(np.moveaxis(v, -1, 1))).float()
    return as_torch(x).chunk(PARTS), as_torch(np.stack(noise)).chunk(PARTS)


# ---- the network ----

def norm(c):
    return nn.GroupNorm(min(32, c), c)


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(c, c, 3, padding=1), norm(c)
        self.conv2, self.norm2 = nn.Conv2d(c, c, 3, padding=1), norm(c)

    def forward(self, x):
        h = F.silu(self.norm1(self.conv1(x)))
        return F.silu(self.norm2(self.conv2(h)) + x)


class Attention(nn.Module):
    def __init__(self, c, heads):
        super().__init__()
        self.heads, self.norm = heads, norm(c)
        self.qkv, self.proj = nn.Linear(c, 3 * c), nn.Linear(c, c)

    def forward(self, x):
        n, c, h, w = x.shape
        rows = self.norm(x).flatten(2).transpose(1, 2)
        qkv = self.qkv(rows).view(n, h * w, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*qkv).transpose(1, 2).reshape(n, h * w, c)
        return x + self.proj(y).transpose(1, 2).view(n, c, h, w)


class Level(nn.Module):
    def __init__(self, conv, c, heads):
        super().__init__()
        self.conv_in, self.res_blocks = conv, nn.ModuleList([Residual(c), Residual(c)])
        self.attention = Attention(c, heads) if heads else nn.Identity()

    def forward(self, x):
        x = self.conv_in(x)
        for block in self.res_blocks:
            x = block(x)
        return self.attention(x)


class Part(nn.Module):
    def middle(self, c):
        self.middle_res_blocks = nn.ModuleList([Residual(c), Residual(c)])
        self.middle_attention = Attention(c, 4)

    def run_middle(self, x):
        for block in self.middle_res_blocks:
            x = block(x)
        return self.middle_attention(x)


MULT, HEADS = (1, 2, 4, 8), (0, 2, 4, 4)


class Encoder(Part):
    def __init__(self, width):
        super().__init__()
        self.conv_in = nn.Conv2d(3, width, 3, padding=1)
        sides = [width] + [width * m for m in MULT]
        self.down_blocks = nn.ModuleList([Level(nn.Conv2d(sides[i], sides[i + 1], 3, stride=2, padding=1), sides[i + 1],
                                                HEADS[i]) for i in range(4)])
        self.middle(sides[-1])
        self.norm_out, self.conv_out = norm(sides[-1]), nn.Conv2d(sides[-1], 2 * LATENT, 3, padding=1)

    def forward(self, x):
        x = self.conv_in(2 * x - 1)
        for level in self.down_blocks:
            x = level(x)
        return self.conv_out(F.silu(self.norm_out(self.run_middle(x)))).chunk(2, 1)


class Decoder(Part):
    def __init__(self, width):
        super().__init__()
        sides = [8 * width] + [width * m for m in reversed(MULT)]
        self.z_to_h = nn.Conv2d(LATENT, sides[0], 1)
        self.middle(sides[0])
        self.up_blocks = nn.ModuleList([Level(nn.Conv2d(sides[i], sides[i + 1], 3, padding=1), sides[i + 1],
                                              HEADS[3 - i]) for i in range(4)])
        self.norm_out, self.conv_out = norm(width), nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, z):
        x = self.run_middle(self.z_to_h(z))
        for level in self.up_blocks:
            x = level(F.interpolate(x, scale_factor=2, mode="nearest"))
        return 0.5 * torch.tanh(self.conv_out(F.silu(self.norm_out(x)))) + 0.5


# ---- the perceptual distance, from the weights that come with Zenith ----

def load(path):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header, data = json.loads(f.read(size)), f.read()
    types = {"F32": np.float32, "F16": np.float16}
    return {k: torch.from_numpy(np.frombuffer(data[slice(*v["data_offsets"])], types[v["dtype"]]).astype(np.float32)
                                .reshape(v["shape"])) for k, v in header.items() if k != "__metadata__"}


def save(path, tensors):
    header, blobs, at = {}, [], 0
    for name, t in tensors.items():
        blob = t.detach().contiguous().numpy().astype(np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def lpips(w, x, y):
    mean = torch.tensor([-0.030, -0.088, -0.188]).view(3, 1, 1)
    deviation = torch.tensor([0.458, 0.448, 0.450]).view(3, 1, 1)
    h, taps = (2 * torch.cat([x, y]) - 1 - mean) / deviation, []
    conv = lambda h, name, **k: F.relu(F.conv2d(h, w[name + ".weight"], w[name + ".bias"], **k))

    def tap(h):
        a, b = F.normalize(h, dim=1, eps=1e-10).chunk(2)
        taps.append(((a - b) ** 2 * w[f"lin{len(taps)}.weight"].view(-1, 1, 1)).sum(1).mean((1, 2)).mean())

    h = conv(h, "conv1", stride=2)
    tap(h)
    for i in range(2, 10):
        if i in (2, 4, 6):
            h = F.max_pool2d(h, 3, 2, ceil_mode=True)
        s = conv(h, f"fire{i}.squeeze")
        h = torch.cat([conv(s, f"fire{i}.expand1"), conv(s, f"fire{i}.expand3", padding=1)], 1)
        if i in (3, 5, 6, 7, 8, 9):
            tap(h)
    return sum(taps)


# ---- training ----

def rate(step, steps):
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    t = (step - WARMUP) / (steps - WARMUP)
    return LR * (FINAL + (1 - FINAL) * 0.5 * (1 + math.cos(math.pi * min(t, 1))))


def train_torch(model, images, a):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.999), eps=1e-8)
    perceptual = load(f"{ROOT}/weights/lpips-squeeze.safetensors")
    rows = []
    for step in range(a.steps):
        rise = int(KL_RISE * a.steps)
        weights = {**WEIGHTS, "kl": WEIGHTS["kl"] * min(1, step / rise if rise else 1)}
        sums = dict.fromkeys(("loss", *WEIGHTS), 0.0)
        optimiser.zero_grad()
        for x, eps in zip(*batch_at(images, step, a)):
            mean, logvar = model["encoder"](x)
            y = model["decoder"](mean + eps * torch.exp(0.5 * logvar.clamp(-30, 20)))
            terms = {"mse": F.mse_loss(y, x), "lpips": lpips(perceptual, y, x),
                     "kl": 0.5 * (mean ** 2 + logvar.exp() - 1 - logvar).mean()}
            loss = sum(weights[k] * v for k, v in terms.items())
            (loss / PARTS).backward()
            for k, v in {"loss": loss, **terms}.items():
                sums[k] += float(v.detach()) / PARTS
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        for group in optimiser.param_groups:
            group["lr"] = rate(step, a.steps)
        optimiser.step()
        rows.append(sums)
    return rows


def train_zenith(a):
    run = f"{a.folder}/run"
    shutil.rmtree(run, ignore_errors=True)
    settings = {"width": a.width, "size": a.size, "batch": a.batch, "accumulate": PARTS, "lr": LR, "warmup": WARMUP,
                "final_lr": FINAL, "held_out": 0, "ema": 0, "loss.kl_rise": KL_RISE, "eval_every": 10 * a.steps,
                **{"loss." + k: v for k, v in WEIGHTS.items()}}
    command = [a.zenith, "train", "wan2d", "--data", a.data, "-o", run, "--steps", str(a.steps), "--seed", str(SEED),
               "--from", f"{a.folder}/init.safetensors", "-t", str(a.threads), "-q"]
    for k, v in settings.items():
        command += ["--set", f"{k}={v}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(f"{run}/metrics.jsonl") as f:
        return [json.loads(line) for line in f]


def disturbed(model):
    """The same weights, each changed by about one unit in its last place."""
    torch.manual_seed(SEED + 1)
    with torch.no_grad():
        for p in model.parameters():
            p *= 1 + 6e-8 * torch.randn_like(p)
    return model


def compare(ours, theirs, control, a):
    """Adam turns rounding into steps of full size where gradients are near zero, so no two programs stay together: the
    control is how far PyTorch's own run moves when its weights are changed by their last digit."""
    sums = [0.0, 0.0]
    print("| step | loss, Zenith | PyTorch | difference | PyTorch, disturbed | difference |")
    print("|---:|---:|---:|---:|---:|---:|")
    for row in ours:
        here, there = theirs[row["step"] - 1]["loss"], control[row["step"] - 1]["loss"]
        apart = [abs(row["loss"] / here - 1), abs(there / here - 1)]
        sums = [sums[i] + apart[i] / len(ours) for i in range(2)]
        print(f"| {row['step']} | {row['loss']:.6f} | {here:.6f} | {apart[0]:.1e} | {there:.6f} | {apart[1]:.1e} |")
    print(f"\nmean relative difference: {sums[0]:.2e}, of the control {sums[1]:.2e}")
    return sums[0] <= a.limit + 2 * sums[1]


def main():
    parser = argparse.ArgumentParser(prog="bench/curve")
    parser.add_argument("--data", required=True)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--zenith", default=f"{ROOT}/build/cli/zenith")
    parser.add_argument("--limit", type=float, default=1e-3)
    parser.add_argument("--folder", default=f"{ROOT}/build/curve")
    a = parser.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    torch.set_num_threads(a.threads)
    torch.manual_seed(SEED)
    model = nn.ModuleDict({"encoder": Encoder(a.width), "decoder": Decoder(a.width)})
    save(f"{a.folder}/init.safetensors", model.state_dict())
    names = sorted(glob.glob(f"{a.data}/*.png"), key=lambda n: os.path.basename(n).encode())
    images = [np.asarray(Image.open(n).convert("RGB")).astype(np.float32) / np.float32(255) for n in names]
    other = disturbed(copy.deepcopy(model))
    runs = train_zenith(a), train_torch(model, images, a), train_torch(other, images, a)
    sys.exit(0 if compare(*runs, a) else 1)


if __name__ == "__main__":
    main()
