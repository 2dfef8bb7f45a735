"""The Prune family in PyTorch, for bench/experiments/speed128: same weights, same input, same gradient.

    speed128_torch.py KIND FOLDER THREADS WARM_UPS RUNS      KIND: hier, srig, baseline, baseline-conv

Reads the files that prune-run wrote to FOLDER. Prints a JSON object with times and the differences of result and
gradients. Feature maps are [height][width][channels]. Transforms are two small matrix products and depthwise
convolutions are nine shifted products, the fastest forms found here.
"""
import glob
import json
import os
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

EPS = 1e-5


def hadamard(n):
    h = torch.ones(1, 1)
    while h.shape[0] < n:
        h = torch.cat((torch.cat((h, h), 1), torch.cat((h, -h), 1)))
    return h


class Walsh:
    """H x along the channels, as H_a X H_b with a b = channels."""

    def __init__(self):
        self.kept = {}

    def __call__(self, x):
        c = x.shape[-1]
        if c not in self.kept:
            a = 1 << ((c.bit_length() - 1) // 2)
            self.kept[c] = hadamard(a), hadamard(c // a)
        left, right = self.kept[c]
        return (left @ x.reshape(-1, left.shape[0], right.shape[0]) @ right).reshape(x.shape)


walsh = Walsh()


def unshuffle(x, r):
    h, w, c = x.shape
    return x.reshape(h // r, r, w // r, r, c).permute(0, 2, 4, 1, 3).reshape(h // r, w // r, c * r * r)


def shuffle(x, r):
    h, w, c = x.shape
    return x.reshape(h, w, c // (r * r), r, r).permute(0, 3, 1, 4, 2).reshape(h * r, w * r, c // (r * r))


def patches(x, r):
    h, w, c = x.shape
    return x.reshape(h // r, r, w // r, r, c).permute(0, 2, 1, 3, 4).reshape(h // r, w // r, r * r * c)


def srig(u, w, b):
    start = est = u.abs()
    norm = (w.square().sum(1) + 1e-8).sqrt()
    for _ in range(3):
        window = F.pad(est, (2, 2)).unfold(-1, 5, 1)
        r = (window.square().sum(-1) / 5 + 1e-10).sqrt()
        cosine = (window * w).sum(-1) / (r * norm + 1e-6)
        g = torch.sigmoid((cosine * (r + 1e-10).sqrt() + b).clamp(min=0))
        est = start * g
    return u * g


def depthwise(x, w):
    """Nine shifted products: for thousands of channels several times faster than F.conv2d with groups."""
    h, wide, c = x.shape
    x, w = F.pad(x, (0, 0, 1, 1, 1, 1)), w.reshape(c, 9).t()
    return sum(w[t] * x[t // 3:t // 3 + h, t % 3:t % 3 + wide] for t in range(9))


def block(x, p, name, mask=None):
    c = x.shape[-1]
    e = depthwise(x, p[name + ".eyes"])
    u = walsh(e if mask is None else e * mask)
    if name + ".srig_w" in p:
        u = srig(u, p[name + ".srig_w"].reshape(c, 5), p[name + ".srig_b"])
    s = F.pad(u * p[name + ".scale"], (1, 1))
    left, centre, right = p[name + ".mixer"].reshape(3, c)
    z = walsh(left * s[..., :-2] + centre * s[..., 1:-1] + right * s[..., 2:])
    r = F.relu(z).permute(2, 0, 1)[None]
    return F.group_norm(r, 1 if c % 32 else 32, p[name + ".gamma"], p[name + ".beta"], EPS)[0].permute(1, 2, 0)


def gate(x, p, name):
    h, w, c = x.shape
    with torch.no_grad():
        score = p[name + ".w"] * x.abs().reshape(h, w, c // 8, 8).sum(-1) + p[name + ".v"]
        mask = (score > 0).float().repeat_interleave(8, -1)
    return x * mask, mask


def hier(x, p):
    x = unshuffle(patches(x, 2) @ p["stem.weight"].reshape(12, -1) + p["stem.bias"], 4)
    x = unshuffle(block(x, p, "block0"), 4)
    for i in (1, 2):
        x, mask = gate(x, p, f"gate{i}")
        x = block(x, p, f"block{i}", mask)
    x = shuffle(shuffle(shuffle(x, 4), 4), 2)
    w = p["out.weight"].reshape(3, 3, x.shape[-1], 3).permute(3, 2, 0, 1)
    return F.conv2d(x.permute(2, 0, 1)[None], w, p["out.bias"], padding=1)[0].permute(1, 2, 0)


def baseline(x, p):
    """Kernel = stride: every layer is one matrix product."""
    for name, r in (("enc0", 2), ("enc1", 4), ("enc2", 4)):
        k = patches(x, r)
        x = F.relu(k @ p[name + ".weight"].reshape(k.shape[-1], -1) + p[name + ".bias"])
    for name, r in (("dec0", 4), ("dec1", 4), ("dec2", 2)):
        x = shuffle(x @ p[name + ".weight"].reshape(x.shape[-1], -1) + p[name + ".bias"], r)
        x = x if name == "dec2" else F.relu(x)
    return x


def baseline_conv(x, p):
    """The same as convolutions and transposed convolutions, on weights that were transposed beforehand."""
    x = x.permute(2, 0, 1)[None]
    for name, r in (("enc0", 2), ("enc1", 4), ("enc2", 4)):
        x = F.relu(F.conv2d(x, p[name + ".weight"], p[name + ".bias"], stride=r))
    for name, r in (("dec0", 4), ("dec1", 4), ("dec2", 2)):
        bias = F.pixel_shuffle(p[name + ".bias"][None, :, None, None], r).repeat(1, 1, *x.shape[2:])
        x = F.conv_transpose2d(x, p[name + ".weight"], stride=r) + bias
        x = x if name == "dec2" else F.relu(x)
    return x[0].permute(1, 2, 0)


def turned(name, w, inputs):
    """Weights of baseline in the layout of PyTorch's convolutions."""
    r = {"enc0": 2, "enc1": 4, "enc2": 4, "dec0": 4, "dec1": 4, "dec2": 2}[name]
    if name.startswith("enc"):
        return w.reshape(r, r, inputs, -1).permute(3, 2, 0, 1).contiguous()
    return w.reshape(inputs, -1, r, r).contiguous()


def load(folder):
    parameters = {}
    for path in glob.glob(os.path.join(folder, "w.*.f32")):
        parameters[os.path.basename(path)[2:-4]] = torch.from_numpy(np.fromfile(path, np.float32))
    return parameters


def difference(a, b):
    """RMS of the difference, divided by the RMS of b."""
    a, b = a.double().reshape(-1), b.double().reshape(-1)
    return float((a - b).norm() / max(float(b.norm()), 1e-30))


def main():
    kind, folder, threads, warm_ups, runs = sys.argv[1], sys.argv[2], *(int(v) for v in sys.argv[3:6])
    torch.set_num_threads(threads)
    p = load(folder)
    x = torch.from_numpy(np.fromfile(os.path.join(folder, "input.f32"), np.float32)).reshape(128, 128, 3)
    network = {"hier": hier, "srig": hier, "baseline": baseline, "baseline-conv": baseline_conv}[kind]
    if kind == "baseline-conv":
        inputs = {"enc0": 3, "enc1": 32, "enc2": 512, "dec0": 8192, "dec1": 512, "dec2": 32}
        p = {n: turned(n[:4], w, inputs[n[:4]]) if n.endswith("weight") else w for n, w in p.items()}
    times = {"inference_ms": [], "forward_ms": [], "backward_ms": []}
    with torch.no_grad():
        for i in range(warm_ups + runs):
            start = time.perf_counter()
            network(x, p)
            if i >= warm_ups:
                times["inference_ms"].append(1e3 * (time.perf_counter() - start))
    for w in p.values():
        w.requires_grad_()
    for i in range(warm_ups + runs):
        for w in p.values():
            w.grad = None
        start = time.perf_counter()
        y = network(x, p)
        middle = time.perf_counter()
        y.backward(torch.ones_like(y))
        if i >= warm_ups:
            times["forward_ms"].append(1e3 * (middle - start))
            times["backward_ms"].append(1e3 * (time.perf_counter() - middle))
    want = torch.from_numpy(np.fromfile(os.path.join(folder, "output.f32"), np.float32))
    worst = 0
    for name, w in p.items():
        path = os.path.join(folder, f"g.{name}.f32")
        if os.path.exists(path) and kind != "baseline-conv":
            worst = max(worst, difference(torch.from_numpy(np.fromfile(path, np.float32)), w.grad))
    print(json.dumps({**times, "output_difference": difference(want, y.detach()), "gradient_difference": worst,
                      "version": "PyTorch " + torch.__version__}))


if __name__ == "__main__":
    main()
