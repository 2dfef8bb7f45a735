"""Wan's video autoencoders and TAEHV in PyTorch, with random weights: what bench/video compares Zenith with.

The networks follow docs/models/wan.md and run as the originals do: a first piece of one frame, then pieces of four (of
one latent frame when decoding), each convolution over time keeping the two frames before it. TAEHV takes all frames at
once, which is its fast mode.
"""
import torch
import torch.nn.functional as F
from torch import nn

PARAMETERS = {"wan21-vae": 126892531, "wan22-vae": 704688668, "taew2_1": 11315539, "taew2_2": 11418108}


class Causal(nn.Conv3d):
    """3x3x3 convolution that sees the two frames before its input."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs, 3, padding=(0, 1, 1))
        self.kept = None

    def forward(self, x):
        before = self.kept if self.kept is not None else x.new_zeros(*x.shape[:2], 2, *x.shape[3:])
        x = torch.cat([before, x], 2)
        self.kept = x[:, :, -2:].clone()
        return super().forward(x)


class Norm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels, 1, 1, 1))

    def forward(self, x):
        return F.normalize(x, dim=1) * x.shape[1] ** 0.5 * self.gamma


def residual(inputs, outputs):
    body = nn.Sequential(Norm(inputs), nn.SiLU(), Causal(inputs, outputs), Norm(outputs), nn.SiLU(), Causal(outputs, outputs))
    return Sum(body, nn.Conv3d(inputs, outputs, 1) if inputs != outputs else nn.Identity())


class Sum(nn.Module):
    def __init__(self, body, around):
        super().__init__()
        self.body, self.around = body, around

    def forward(self, x):
        return self.body(x) + self.around(x)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm, self.qkv, self.out = Norm(c), nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)

    def forward(self, x):
        b, c, t, h, w = x.shape
        y = self.norm(x).transpose(1, 2).reshape(b * t, c, h, w)
        q, k, v = self.qkv(y).reshape(b * t, 1, 3 * c, h * w).transpose(2, 3).contiguous().chunk(3, -1)
        y = F.scaled_dot_product_attention(q, k, v).transpose(2, 3).reshape(b * t, c, h, w)
        return x + self.out(y).reshape(b, t, c, h, w).transpose(1, 2)


def each_frame(layer, x):
    b, _, t, _, _ = x.shape
    y = layer(x.transpose(1, 2).flatten(0, 1))
    return y.unflatten(0, (b, t)).transpose(1, 2)


class Down(nn.Module):
    def __init__(self, c, time):
        super().__init__()
        self.space = nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(c, c, 3, stride=2))
        self.time = nn.Conv3d(c, c, (3, 1, 1), stride=(2, 1, 1)) if time else None
        self.kept = None

    def forward(self, x):
        x = each_frame(self.space, x)
        if self.time is None:
            return x
        before, self.kept = self.kept, x[:, :, -1:].clone()
        return x if before is None else self.time(torch.cat([before, x], 2))


class Up(nn.Module):
    def __init__(self, c, outputs, time):
        super().__init__()
        self.space = nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest-exact"), nn.Conv2d(c, outputs, 3, padding=1))
        self.time = nn.Conv3d(c, 2 * c, (3, 1, 1)) if time else None
        self.kept = None

    def forward(self, x):
        if self.time is not None:
            x = self.twice(x)
        return each_frame(self.space, x)

    def twice(self, x):
        if self.kept is None:  # the first latent frame stays one frame; the others see zeros before them
            self.kept = x.new_zeros(*x.shape[:2], 2, *x.shape[3:])
            return x
        x = torch.cat([self.kept, x], 2)
        self.kept = x[:, :, -2:].clone()
        y = self.time(x)
        b, c, t, h, w = y.shape
        return y.reshape(b, 2, c // 2, t, h, w).permute(0, 2, 3, 1, 4, 5).reshape(b, c // 2, 2 * t, h, w)


class Average(nn.Module):
    """Shortcut around a level of the 2.2 encoder: means over neighbouring positions."""

    def __init__(self, outputs, frames, side):
        super().__init__()
        self.outputs, self.frames, self.side = outputs, frames, side

    def forward(self, x):
        x = F.pad(x, (0, 0, 0, 0, -x.shape[2] % self.frames, 0))
        b, c, t, h, w = x.shape
        f, s = self.frames, self.side
        x = x.reshape(b, c, t // f, f, h // s, s, w // s, s).permute(0, 1, 3, 5, 7, 2, 4, 6)
        return x.reshape(b, self.outputs, -1, t // f, h // s, w // s).mean(2)


class Repeat(nn.Module):
    """Shortcut around a level of the 2.2 decoder: channels repeated over new positions."""

    def __init__(self, outputs, frames):
        super().__init__()
        self.outputs, self.frames, self.kept = outputs, frames, None

    def forward(self, x):
        f = self.frames
        b, c, t, h, w = x.shape
        x = x.repeat_interleave(self.outputs * f * 4 // c, 1).reshape(b, self.outputs, f, 2, 2, t, h, w)
        x = x.permute(0, 1, 5, 2, 6, 3, 7, 4).reshape(b, self.outputs, t * f, 2 * h, 2 * w)
        first, self.kept = self.kept is None, True
        return x[:, :, f - 1 :] if first else x


def middle(c):
    return [residual(c, c), Attention(c), residual(c, c)]


def wan_encoder(width, latent, staged):
    c, layers = width, [Causal(12 if staged else 3, width)]
    for level, times in enumerate((1, 2, 4, 4)):
        out, time = width * times, level in (1, 2)
        body = [residual(c, out), residual(out, out)] + ([Down(out, time)] if level < 3 else [])
        around = Average(out, 2 if time else 1, 2 if level < 3 else 1)
        layers += [Sum(nn.Sequential(*body), around)] if staged else body
        c = out
    layers += middle(c) + [Norm(c), nn.SiLU(), Causal(c, 2 * latent), nn.Conv3d(2 * latent, 2 * latent, 1)]
    return nn.Sequential(*layers)


def wan_decoder(width, latent, staged):
    c = width * 4
    layers = [nn.Conv3d(latent, latent, 1), Causal(latent, c)] + middle(c)
    for level, times in enumerate((4, 4, 2, 1)):
        out, time = width * times, level < 2
        after = out if staged else out // 2
        body = [residual(c, out), residual(out, out), residual(out, out)] + ([Up(out, after, time)] if level < 3 else [])
        layers += [Sum(nn.Sequential(*body), Repeat(out, 2 if time else 1))] if staged and level < 3 else body
        c = after if level < 3 else out
    layers += [Norm(c), nn.SiLU(), Causal(c, 12 if staged else 3)]
    return nn.Sequential(*layers)


class Memory(nn.Module):
    """TAEHV's block, which also sees its input of the frame before."""

    def __init__(self, c):
        super().__init__()
        conv = [nn.Conv2d(2 * c, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1)]
        self.conv = nn.Sequential(*conv)

    def forward(self, x):
        before = torch.cat([torch.zeros_like(x[:1]), x[:-1]])
        return F.relu(self.conv(torch.cat([x, before], 1)) + x)


class Frames(nn.Module):
    """1x1 convolution that joins `join` frames, or splits one into `split`."""

    def __init__(self, c, join=1, split=1):
        super().__init__()
        self.conv, self.join, self.split = nn.Conv2d(c * join, c * split, 1, bias=False), join, split

    def forward(self, x):
        t, c, h, w = x.shape
        x = self.conv(x.reshape(t // self.join, c * self.join, h, w))
        return x.reshape(-1, c, h, w)


class SoftClamp(nn.Module):
    def forward(self, x):
        return torch.tanh(x / 3) * 3


def tae_encoder(latent, patch):
    layers = [nn.PixelUnshuffle(patch), nn.Conv2d(3 * patch * patch, 64, 3, padding=1), nn.ReLU()]
    for join in (2, 2, 1):
        layers += [Frames(64, join=join), nn.Conv2d(64, 64, 3, stride=2, padding=1, bias=False)] + [Memory(64) for _ in range(3)]
    return nn.Sequential(*layers, nn.Conv2d(64, latent, 3, padding=1))


def tae_decoder(latent, patch):
    layers, widths = [SoftClamp(), nn.Conv2d(latent, 256, 3, padding=1), nn.ReLU()], (256, 128, 64, 64)
    for i, split in enumerate((1, 2, 2)):
        c = widths[i]
        layers += [Memory(c) for _ in range(3)] + [nn.Upsample(scale_factor=2), Frames(c, split=split)]
        layers += [nn.Conv2d(c, widths[i + 1], 3, padding=1, bias=False)]
    return nn.Sequential(*layers, nn.ReLU(), nn.Conv2d(64, 3 * patch * patch, 3, padding=1), nn.PixelShuffle(patch))


PARTS = {
    "wan21-vae": (lambda: wan_encoder(96, 16, False), lambda: wan_decoder(96, 16, False)),
    "wan22-vae": (lambda: wan_encoder(160, 48, True), lambda: wan_decoder(256, 48, True)),
    "taew2_1": (lambda: tae_encoder(16, 1), lambda: tae_decoder(16, 1)),
    "taew2_2": (lambda: tae_encoder(48, 2), lambda: tae_decoder(48, 2)),
}
LATENT = {"wan21-vae": (16, 8), "wan22-vae": (48, 16), "taew2_1": (16, 8), "taew2_2": (48, 16)}


def forget(net):
    for layer in net.modules():
        if hasattr(layer, "kept"):
            layer.kept = None


def patches(x):
    b, c, t, h, w = x.shape
    return x.reshape(b, c, t, h // 2, 2, w // 2, 2).permute(0, 1, 6, 4, 2, 3, 5).reshape(b, 4 * c, t, h // 2, w // 2)


def pixels(x):
    b, c, t, h, w = x.shape
    return x.reshape(b, c // 4, 2, 2, t, h, w).permute(0, 1, 4, 5, 3, 6, 2).reshape(b, c // 4, t, 2 * h, 2 * w)


def run_wan(net, part, x, staged):
    """x [1,C,T,H,W]. Pieces of the first frame and then of four images, or one latent frame."""
    forget(net)
    step = 4 if part == "encode" else 1
    pieces = [x[:, :, :1]] + list(x[:, :, 1:].split(step, 2)) if x.shape[2] > 1 else [x]
    results = []
    for piece in pieces:
        piece = patches(piece) if staged and part == "encode" else piece
        y = net(piece)
        results.append(pixels(y) if staged and part == "decode" else y)
    return torch.cat(results, 2)


def run_tae(net, part, x):
    """x [T,C,H,W]."""
    if part == "encode":
        x = torch.cat([x, x[-1:].expand(-x.shape[0] % 4, -1, -1, -1)])
    y = net(x)
    return y if part == "encode" else y[3:]


def prepare(model, part, width, height, frames):
    """A network and a function that runs it on random input."""
    torch.manual_seed(1)
    net = PARTS[model][part == "decode"]().eval()
    latent, down = LATENT[model]
    t = frames if part == "encode" else 1 + (frames - 1) // 4
    shape = (3, height, width) if part == "encode" else (latent, height // down, width // down)
    if model.startswith("tae"):
        x = torch.rand(t, *shape) if part == "encode" else torch.randn(t, *shape)
        return net, x, lambda n, v: run_tae(n, part, v)
    x = torch.randn(1, shape[0], t, *shape[1:])
    return net, x, lambda n, v: run_wan(n, part, v, model == "wan22-vae")
