"""Wan's video autoencoders in Zenith and in diffusers; started by the script `wan-diffusers`.

diffusers makes a model with random weights, saves it, and codes a clip of five images; Zenith reads the saved folder as
a user would and codes the same images. Prints a Markdown table of the differences: of latents relative to the largest
value, once Zenith's normalisation (a factor and an offset for each channel) is taken away, and of images in steps of 8
bits.
"""
import argparse
import os
import subprocess
import tempfile

FRAMES, WIDTH, HEIGHT = 5, 96, 64
WAN22 = dict(base_dim=160, decoder_base_dim=256, z_dim=48, is_residual=True, in_channels=12, out_channels=12, patch_size=2,
             scale_factor_spatial=16, latents_mean=[0.0] * 48, latents_std=[1.0] * 48,
             temperal_downsample=[False, True, True])
MODELS = {
    "wan": ("AutoencoderKLWan", {}),
    "qwen": ("AutoencoderKLQwenImage", {}),
    "wan22": ("AutoencoderKLWan", WAN22),
    "light24": ("AutoencoderKLWan", dict(base_dim=24)),  # LightVAE's widths
    "light48": ("AutoencoderKLWan", dict(base_dim=48)),
}


def make_clip():
    y, x, t, c = np.meshgrid(*map(np.arange, (HEIGHT, WIDTH, FRAMES, 3)), indexing="ij")
    wave = 127 + 80 * np.sin(x / 9 + 0.3 * t + c) + 40 * np.cos(y / 7 - 0.2 * c * t)
    return wave.clip(0, 255).astype(np.uint8).transpose(2, 0, 1, 3)


def code(zenith, model, folder, images):
    """Latents and images by Zenith."""
    latent, results = os.path.join(folder, "z.npy"), os.path.join(folder, "results")
    subprocess.run([zenith, "encode", "--quiet", "--clip", images, "-m", model, "-o", latent], check=True)
    subprocess.run([zenith, "decode", "--quiet", latent, "-m", model, "-o", results + "/"], check=True)
    files = sorted(os.listdir(results))
    return np.load(latent), np.stack([np.asarray(Image.open(os.path.join(results, f)).convert("RGB")) for f in files])


def compare(zenith, name):
    kind, settings = MODELS[name]
    torch.manual_seed(0)
    network, clip = getattr(diffusers, kind)(**settings).eval(), make_clip()
    with tempfile.TemporaryDirectory() as folder:
        model, images = os.path.join(folder, "model"), os.path.join(folder, "images")
        os.mkdir(images)
        for t in range(FRAMES):
            Image.fromarray(clip[t]).save(f"{images}/{t}.png")
        network.save_pretrained(model)
        z = network.encode(torch.from_numpy(clip).float().div(127.5).sub(1).permute(3, 0, 1, 2)[None]).latent_dist.mean
        y = network.decode(z).sample[0].permute(1, 2, 3, 0).clamp(-1, 1)
        parameters = sum(p.numel() for p in network.parameters())
        del network
        ours, results = code(zenith, model, folder, images)
    z, ours = z[0].flatten(1).numpy(), ours.reshape(z.shape)[0].reshape(z.shape[1], -1)
    latents = max(np.abs(np.polyval(np.polyfit(a, b, 1), a) - b).max() for a, b in zip(ours, z)) / np.abs(z).max()
    steps = np.abs(results - ((y + 1) * 127.5).round().numpy())
    print(f"| {name} | {parameters:,} | {latents:.1e} | {steps.max():.0f} | {(steps > 0).mean():.2%} |", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="bench/experiments/wan-diffusers")
    parser.add_argument("zenith", help=argparse.SUPPRESS)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"{', '.join(MODELS)} (all)")
    a = parser.parse_args()
    global diffusers, np, torch, Image  # after --help, which needs none of them
    import diffusers
    import numpy as np
    import torch
    from PIL import Image
    torch.set_grad_enabled(False)
    print(f"\ndiffusers {diffusers.__version__}, PyTorch {torch.__version__}\n")
    print("| model | parameters | latents | images, most | values that differ |\n|---|---:|---:|---:|---:|")
    for name in a.models or MODELS:
        compare(a.zenith, name)


main()
