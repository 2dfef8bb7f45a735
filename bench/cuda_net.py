"""Networks that bench/cuda and bench/diffae compare Zenith with, in PyTorch and with random weights: DiffAE's U-Net and
encoder (all that bench/diffae uses), Z-Image's transformer, Qwen3 and FLUX's decoder. TAESD is in peers_net.py, Wan in
video_net.py."""
import torch
import torch.nn.functional as F
from torch import nn

# ---- DiffAE (docs/models/diffae.md) ----

KNOWN = 512  # numbers of a condition, and of an embedded time
# side of the images, channels, their multiples in the U-Net, those of the encoder's further level
DIFFAE = {"celeba64": (64, 64, (1, 2, 4, 8), (8,)),
          "ffhq128": (128, 128, (1, 1, 2, 3, 4), (4,)),
          "ffhq256": (256, 128, (1, 1, 2, 2, 4, 4), (4,))}


def group_norm(c):
    return nn.GroupNorm(min(32, c), c)


class Residual(nn.Module):
    def __init__(self, inputs, outputs, how="", known=True):
        super().__init__()
        self.how, self.norm, self.conv = how, group_norm(inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()
        self.known = known
        if known:
            self.time, self.cond = nn.Linear(KNOWN, 2 * outputs), nn.Linear(KNOWN, outputs)
            self.norm2, self.conv2 = group_norm(outputs), nn.Conv2d(outputs, outputs, 3, padding=1)

    def resample(self, x):
        if self.how == "up":
            return F.interpolate(x, scale_factor=2)
        return F.avg_pool2d(x, 2) if self.how == "down" else x

    def forward(self, x, time=None, cond=None):
        h = self.conv(self.resample(F.silu(self.norm(x))))
        if self.known:
            scale, shift = self.time(time)[:, :, None, None].chunk(2, 1)
            h = (self.norm2(h) * (1 + scale) + shift) * (1 + self.cond(cond)[:, :, None, None])
            h = self.conv2(F.dropout(F.silu(h), 0.1, self.training))
        return self.skip(self.resample(x)) + h


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm, self.qkv, self.out = group_norm(c), nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).permute(0, 2, 3, 1).reshape(b, 1, h * w, 3 * c).chunk(3, -1)
        y = F.scaled_dot_product_attention(q, k, v).reshape(b, h, w, c).permute(0, 3, 1, 2)
        return x + self.out(y)


def angles(t, width):
    half = width // 2
    f = torch.exp(-9.210340371976184 / half * torch.arange(half, device=t.device)) * t[:, None].float()
    return torch.cat([f.cos(), f.sin()], 1)


class Unet(nn.Module):
    """Attention is where a map has 16x16 pixels, and in the middle."""

    def __init__(self, preset):
        super().__init__()
        side, self.channels, multiples, _ = DIFFAE[preset]
        self.time = nn.Sequential(nn.Linear(self.channels, KNOWN), nn.SiLU(), nn.Linear(KNOWN, KNOWN))
        self.first, self.down, self.up = nn.Conv2d(3, self.channels, 3, padding=1), nn.ModuleList(), nn.ModuleList()
        kept, c = [[] for _ in multiples], self.channels
        kept[0].append(c)
        for level, times in enumerate(multiples):
            out = self.channels * times
            for _ in range(2):
                self.down.append(nn.ModuleList([Residual(c, out)] + ([Attention(out)] if side >> level == 16 else [])))
                c = out
                kept[level].append(c)
            if level + 1 < len(multiples):
                self.down.append(nn.ModuleList([Residual(c, c, "down")]))
                kept[level + 1].append(c)
        self.middle = nn.ModuleList([Residual(c, c), Attention(c), Residual(c, c)])
        for level in reversed(range(len(multiples))):
            out = self.channels * multiples[level]
            for i in range(3):
                block = [Residual(c + kept[level].pop(), out)] + ([Attention(out)] if side >> level == 16 else [])
                self.up.append(nn.ModuleList(block + ([Residual(out, out, "up")] if level and i == 2 else [])))
                c = out
        self.last = nn.Sequential(group_norm(c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))

    def forward(self, x, t, cond):
        time, cond = F.silu(self.time(angles(t, self.channels).to(cond.dtype))), F.silu(cond)

        def run(block, x):
            for layer in block:
                x = layer(x, time, cond) if isinstance(layer, Residual) else layer(x)
            return x

        x, kept = self.first(x), []
        kept.append(x)
        for block in self.down:
            x = run(block, x)
            kept.append(x)
        x = run(self.middle, x)
        for block in self.up:
            x = run(block, torch.cat([x, kept.pop()], 1))
        return self.last(x)


class Encoder(nn.Module):
    def __init__(self, preset):
        super().__init__()
        side, channels, multiples, further = DIFFAE[preset]
        layers, c = [nn.Conv2d(3, channels, 3, padding=1)], channels
        for level, times in enumerate(multiples + further):
            out = channels * times
            for _ in range(2):
                layers += [Residual(c, out, known=False)] + ([Attention(out)] if side >> level == 16 else [])
                c = out
            if level < len(multiples):
                layers.append(Residual(c, c, "down", known=False))
        layers += [Residual(c, c, known=False), Attention(c), Residual(c, c, known=False), group_norm(c), nn.SiLU()]
        self.layers, self.out = nn.Sequential(*layers), nn.Conv2d(c, KNOWN, 1)

    def forward(self, x):
        return self.out(self.layers(x).mean((2, 3), keepdim=True)).flatten(1)


class Diffae(nn.Module):
    """The loss of a training step: the error of the predicted noise."""

    def __init__(self, preset):
        super().__init__()
        self.encoder, self.unet = Encoder(preset), Unet(preset)
        self.register_buffer("alpha", torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0))

    def forward(self, x, noise, t):
        a = self.alpha[t][:, None, None, None]
        guess = self.unet(a.sqrt() * x + (1 - a).sqrt() * noise, t, self.encoder(x))
        return F.mse_loss(guess.float(), noise)


# ---- Z-Image's transformer and Qwen3 (docs/models/zimage.md) ----


class Rms(nn.Module):
    def __init__(self, c, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(c)), eps

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight, self.eps)


def turn(x, cos, sin, halves):
    """x [1,L,heads,head]; pairs are neighbours, or numbers half a head apart."""
    if halves:
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


class Heads(nn.Module):
    def __init__(self, dim, heads, groups, head, eps, causal):
        super().__init__()
        self.shape, self.causal = (heads, groups, head), causal
        self.qkv = nn.Linear(dim, (heads + 2 * groups) * head, bias=False)
        self.out = nn.Linear(heads * head, dim, bias=False)
        self.q_norm, self.k_norm = Rms(head, eps), Rms(head, eps)

    def forward(self, x, cos, sin):
        heads, groups, head = self.shape
        q, k, v = self.qkv(x).unflatten(-1, (-1, head)).split([heads, groups, groups], 2)
        q, k = turn(self.q_norm(q), cos, sin, self.causal), turn(self.k_norm(k), cos, sin, self.causal)
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=self.causal,
                                           enable_gqa=heads != groups)
        return self.out(y.transpose(1, 2).flatten(2))


class Gated(nn.Module):
    def __init__(self, dim, inner):
        super().__init__()
        self.w1, self.w3 = nn.Linear(dim, inner, bias=False), nn.Linear(dim, inner, bias=False)
        self.w2 = nn.Linear(inner, dim, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Fp8Linear(nn.Module):
    """A product of E4M3 numbers. Each row of both factors has a scale, its largest magnitude / 448, as in docs/cuda.md."""

    def __init__(self, linear):
        super().__init__()
        codes, scale = self.codes_of(linear.weight.detach())
        self.register_buffer("codes", codes)
        self.register_buffer("scale", scale.t().contiguous())

    @staticmethod
    def codes_of(x):
        scale = x.abs().amax(-1, keepdim=True).float().clamp(min=1e-12) / 448
        return (x.float() / scale).to(torch.float8_e4m3fn), scale

    def forward(self, x):
        codes, scale = self.codes_of(x.flatten(0, -2))
        y = torch._scaled_mm(codes, self.codes.t(), scale, self.scale, out_dtype=x.dtype, use_fast_accum=True)
        return y.unflatten(0, x.shape[:-1])


def use_fp8(module):
    """All products of these blocks, as `zenith generate -p fp8` without a calibration."""
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, Fp8Linear(child))


class ImageBlock(nn.Module):
    def __init__(self, dim=3840, heads=30, inner=10240, eps=1e-5):
        super().__init__()
        self.attention, self.feed = Heads(dim, heads, heads, dim // heads, eps, False), Gated(dim, inner)
        self.norms = nn.ModuleList(Rms(dim, eps) for _ in range(4))

    def forward(self, x, m, cos, sin):
        scale, gate, scale2, gate2 = m.unsqueeze(1).chunk(4, -1)
        h = self.attention(self.norms[0](x) * (1 + scale), cos, sin)
        x = x + gate.tanh() * self.norms[1](h)
        h = self.feed(self.norms[2](x) * (1 + scale2))
        return x + gate2.tanh() * self.norms[3](h)


class ImageStep(nn.Module):
    """A step without what is computed once: modulations and the caption's tokens are inputs."""

    def __init__(self, layers=30, refiners=2, dim=3840):
        super().__init__()
        self.first, self.last, self.refiners = nn.Linear(64, dim), nn.Linear(dim, 64), refiners
        self.blocks = nn.ModuleList(ImageBlock(dim) for _ in range(refiners + layers))

    def forward(self, patches, m, caption, cos, sin):
        x, count = self.first(patches), patches.shape[1]
        for i, block in enumerate(self.blocks):
            if i == self.refiners:
                x = torch.cat([x, caption], 1)
            length = x.shape[1]
            x = block(x, m[i], cos[:, :length], sin[:, :length])
        x = F.layer_norm(x[:, :count], x.shape[-1:], eps=1e-6) * (1 + m[-1].unsqueeze(1)[..., : x.shape[-1]])
        return self.last(x)


class TextBlock(nn.Module):
    def __init__(self, dim=2560, inner=9728, eps=1e-6):
        super().__init__()
        self.attention, self.feed = Heads(dim, 32, 8, 128, eps, True), Gated(dim, inner)
        self.norm, self.norm2 = Rms(dim, eps), Rms(dim, eps)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.norm(x), cos, sin)
        return x + self.feed(self.norm2(x))


class Text(nn.Module):
    """All blocks but the last, whose result nobody reads."""

    def __init__(self, blocks=35):
        super().__init__()
        self.blocks = nn.ModuleList(TextBlock() for _ in range(blocks))

    def forward(self, x, cos, sin):
        for block in self.blocks:
            x = block(x, cos, sin)
        return x


# ---- FLUX's decoder ----


class FluxResidual(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm, self.norm2 = nn.GroupNorm(32, inputs, 1e-6), nn.GroupNorm(32, outputs, 1e-6)
        self.conv, self.conv2 = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x):
        return self.skip(x) + self.conv2(F.silu(self.norm2(self.conv(F.silu(self.norm(x))))))


def flux_decoder():
    c, layers = 512, [nn.Conv2d(16, 512, 3, padding=1), FluxResidual(512, 512), Attention(512), FluxResidual(512, 512)]
    for level, out in enumerate((512, 512, 256, 128)):
        for _ in range(3):
            layers.append(FluxResidual(c, out))
            c = out
        if level < 3:
            layers += [nn.Upsample(scale_factor=2), nn.Conv2d(c, c, 3, padding=1)]
    return nn.Sequential(*layers, nn.GroupNorm(32, c, 1e-6), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))
