"""diffusers with Zenith's decoder: the pipeline makes latents, Zenith makes the image.

    pip install diffusers transformers torch
    zenith pull taesd
    python diffusers_vae.py "a red fox in the snow" fox.png

The pipeline needs no VAE weights of its own: output_type="latent" ends it before the VAE. Its latents are scaled as
Zenith's models expect them. For SDXL use taesdxl, for SD3 taesd3, for FLUX.1 and Z-Image taef1 or ae.
"""

import sys

import torch
from diffusers import DiffusionPipeline

import zenith

prompt, output = sys.argv[1:3]
pipeline = DiffusionPipeline.from_pretrained("stable-diffusion-v1-5/stable-diffusion-v1-5", torch_dtype=torch.float32)
pipeline.to("cuda" if torch.cuda.is_available() else "cpu")

latents = pipeline(prompt, num_inference_steps=25, output_type="latent").images  # [N, 4, 64, 64]
with zenith.Codec("taesd") as codec:
    for number, latent in enumerate(latents.float().cpu()):
        codec.decode(latent).write(output if number == 0 else f"{number}-{output}")
