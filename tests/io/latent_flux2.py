#!/usr/bin/env python3
"""Writes latent_flux2.inc: a raw latent of FLUX.2's VAE, its statistics, and what a generator sees, computed with NumPy.

    tests/io/latent_flux2.py > tests/io/latent_flux2.inc

The formulas are those of diffusers' Flux2Pipeline: view, permute and reshape of [N,C,H,W] to patches, then the batch norm
of AutoencoderKLFlux2 (batch_norm_eps 1e-4) without weight and bias.
"""

import numpy as np

random = np.random.default_rng(2)
raw = random.normal(0, 1.5, (1, 32, 4, 2))
mean = random.normal(0, 0.5, 128)
variance = random.uniform(0, 3, 128)
variance[5] = 0  # the epsilon is all there is
raw, mean, variance = (a.astype(np.float32) for a in (raw, mean, variance))

n, c, h, w = raw.shape
packed = raw.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 3, 5, 2, 4).reshape(n, 4 * c, h // 2, w // 2)
deviation = np.sqrt(variance.astype(np.float64) + 1e-4)
packed = (packed - mean[None, :, None, None].astype(np.float64)) / deviation[None, :, None, None]

print("/* Made by latent_flux2.py. Arrays are [C,H,W], as files have them. */")
for name, values in (("raw", raw), ("mean", mean), ("variance", variance), ("packed", packed)):
    text = [f"{v:.9g}f" if "." in f"{v:.9g}" or "e" in f"{v:.9g}" else f"{v:.9g}.0f" for v in values.ravel()]
    print(f"static const float {name}[] = {{")
    for i in range(0, len(text), 8):
        print("    " + ", ".join(text[i:i + 8]) + ",")
    print("};")
