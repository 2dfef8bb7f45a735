"""Writes the networks of Z-Image with random weights, in the names and sizes of the published files, and a tokenizer that
knows bytes: bench/cuda times with them what the real ones would take.

    python3 cuda_weights.py FOLDER [NAME...]    # zimage, qwen3, ae, taef1_decoder, lora .safetensors (bf16), tokenizer.json
"""
import json
import math
import os
import struct
import sys

import torch


def layer(name, *shape):
    return (name + ".weight", shape), (name + ".bias", shape[:1])


def transformer(dim=3840, head=128, caption=2560, layers=30, refiners=2):
    inner = dim * 8 // 3
    yield from layer("x_embedder", dim, 64)
    yield "cap_embedder.0.weight", (caption,)
    yield from layer("cap_embedder.1", dim, caption)
    yield from layer("t_embedder.mlp.0", 1024, 256)
    yield from layer("t_embedder.mlp.2", 256, 1024)
    yield from (("x_pad_token", (1, dim)), ("cap_pad_token", (1, dim)))
    for group, count in (("noise_refiner", refiners), ("context_refiner", refiners), ("layers", layers)):
        for i in range(count):
            p = f"{group}.{i}."
            yield from ((p + "attention.qkv.weight", (3 * dim, dim)), (p + "attention.out.weight", (dim, dim)))
            yield from ((p + "attention.q_norm.weight", (head,)), (p + "attention.k_norm.weight", (head,)))
            yield from ((p + "feed_forward.w1.weight", (inner, dim)), (p + "feed_forward.w3.weight", (inner, dim)))
            yield p + "feed_forward.w2.weight", (dim, inner)
            for norm in ("attention_norm1", "attention_norm2", "ffn_norm1", "ffn_norm2"):
                yield p + norm + ".weight", (dim,)
            if group != "context_refiner":
                yield from layer(p + "adaLN_modulation.0", 4 * dim, 256)
    yield from layer("final_layer.linear", 64, dim)
    yield from layer("final_layer.adaLN_modulation.1", dim, 256)


def text_encoder(dim=2560, head=128, q=4096, kv=1024, inner=9728, layers=36, words=151936):
    yield "model.embed_tokens.weight", (words, dim)
    for i in range(layers):
        p = f"model.layers.{i}."
        yield from ((p + "input_layernorm.weight", (dim,)), (p + "post_attention_layernorm.weight", (dim,)))
        for name, rows, columns in (("q", q, dim), ("k", kv, dim), ("v", kv, dim), ("o", dim, q)):
            yield f"{p}self_attn.{name}_proj.weight", (rows, columns)
        yield from ((p + "self_attn.q_norm.weight", (head,)), (p + "self_attn.k_norm.weight", (head,)))
        yield from ((p + "mlp.gate_proj.weight", (inner, dim)), (p + "mlp.up_proj.weight", (inner, dim)))
        yield p + "mlp.down_proj.weight", (dim, inner)
    yield "model.norm.weight", (dim,)


def residual(name, inputs, outputs):
    yield from layer(name + ".norm1", inputs)
    yield from layer(name + ".conv1", outputs, inputs, 3, 3)
    yield from layer(name + ".norm2", outputs)
    yield from layer(name + ".conv2", outputs, outputs, 3, 3)
    if inputs != outputs:
        yield from layer(name + ".nin_shortcut", outputs, inputs, 1, 1)


def middle(side):
    yield from residual(side + ".mid.block_1", 512, 512)
    yield from layer(side + ".mid.attn_1.norm", 512)
    for name in ("q", "k", "v", "proj_out"):
        yield from layer(f"{side}.mid.attn_1.{name}", 512, 512, 1, 1)
    yield from residual(side + ".mid.block_2", 512, 512)


def autoencoder(widths=(128, 256, 512, 512), latent=16):
    yield from layer("encoder.conv_in", widths[0], 3, 3, 3)
    c = widths[0]
    for i, out in enumerate(widths):
        for j in range(2):
            yield from residual(f"encoder.down.{i}.block.{j}", c, out)
            c = out
        if i < 3:
            yield from layer(f"encoder.down.{i}.downsample.conv", c, c, 3, 3)
    yield from middle("encoder")
    yield from layer("encoder.norm_out", c)
    yield from layer("encoder.conv_out", 2 * latent, c, 3, 3)
    yield from layer("decoder.conv_in", c, latent, 3, 3)
    yield from middle("decoder")
    for i in reversed(range(4)):
        for j in range(3):
            yield from residual(f"decoder.up.{i}.block.{j}", c, widths[i])
            c = widths[i]
        if i > 0:
            yield from layer(f"decoder.up.{i}.upsample.conv", c, c, 3, 3)
    yield from layer("decoder.norm_out", c)
    yield from layer("decoder.conv_out", 3, c, 3, 3)


def tiny_decoder(latent=16, width=64):
    """TAEF1's, for previews: three blocks before each doubling."""
    yield from layer("1", width, latent, 3, 3)
    for first in (3, 8, 13):
        for block in range(first, first + 3):
            for conv in (0, 2, 4):
                yield from layer(f"{block}.conv.{conv}", width, width, 3, 3)
        yield f"{first + 4}.weight", (width, width, 3, 3)
    for conv in (0, 2, 4):
        yield from layer(f"18.conv.{conv}", width, width, 3, 3)
    yield from layer("19", 3, width, 3, 3)


def lora(dim=3840, layers=30, rank=16):
    """For all products of the main blocks."""
    inner = dim * 8 // 3
    for i in range(layers):
        for name, inputs, outputs in (("attention.to_q", dim, dim), ("attention.to_k", dim, dim), ("attention.to_v", dim, dim),
                                      ("attention.to_out.0", dim, dim), ("feed_forward.w1", dim, inner),
                                      ("feed_forward.w3", dim, inner), ("feed_forward.w2", inner, dim)):
            p = f"diffusion_model.layers.{i}.{name}.lora_"
            yield from ((p + "A.weight", (rank, inputs)), (p + "B.weight", (outputs, rank)))


def values(name, shape):
    """Matrices keep the size of what they multiply; norms are near 1."""
    spread = 0.02 if len(shape) == 1 else 1 / math.sqrt(math.prod(shape[1:]))
    offset = 1.0 if len(shape) == 1 and name.endswith("weight") else 0.0
    x = torch.randn(shape, device="cuda" if torch.cuda.is_available() else "cpu") * spread + offset
    return x.to(torch.bfloat16).cpu().contiguous().view(torch.int16).numpy()


def write(path, tensors):
    tensors, at, header = list(tensors), 0, {}
    for name, shape in tensors:
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".part", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, shape in tensors:
            values(name, shape).tofile(f)
    os.replace(path + ".part", path)


def tokenizer():
    """Bytes, under the symbols of byte-level BPE, without merges: about 100 tokens for a sentence with its template."""
    plain = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    symbol = {b: chr(b) for b in plain}
    symbol.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in symbol)})
    split = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
    return {"added_tokens": [{"id": 151643 + i, "content": t, "lstrip": False} for i, t in enumerate(special)],
            "normalizer": {"type": "NFC"},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": split}, "behavior": "Isolated", "invert": False},
                {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]},
            "model": {"type": "BPE", "vocab": {symbol[b]: b for b in range(256)}, "merges": []}}


def main():
    folder, *chosen = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(1)
    for name, tensors in (("ae", autoencoder()), ("zimage", transformer()), ("qwen3", text_encoder()),
                          ("taef1_decoder", tiny_decoder()), ("lora", lora())):
        if (not chosen or name in chosen) and not os.path.exists(f"{folder}/{name}.safetensors"):
            write(f"{folder}/{name}.safetensors", tensors)
    with open(f"{folder}/tokenizer.json", "w") as f:
        json.dump(tokenizer(), f)


if __name__ == "__main__":
    main()
