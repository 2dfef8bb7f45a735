"""The TAESD network as data, and its conversion to a weights file, PyTorch, ONNX and ncnn.

Every engine in the comparison runs this network: the same layers, the same random weights, the same input.
ONNX and ncnn files are written byte by byte, so neither the onnx package nor a converter is needed.
"""
import json
import struct

import numpy as np

WIDTH = 64
LATENT = 4


def encoder():
    """Layers as (kind, name, ...); conv is (kind, name, in, out, stride, has_bias, relu)."""
    yield "conv", "0", 3, WIDTH, 1, True, False
    yield "block", "1"
    index = 2
    for _ in range(3):
        yield "conv", str(index), WIDTH, WIDTH, 2, False, False
        for i in range(1, 4):
            yield "block", str(index + i)
        index += 4
    yield "conv", str(index), WIDTH, LATENT, 1, True, False


def decoder():
    yield "clamp", "0"
    yield "conv", "1", LATENT, WIDTH, 1, True, True
    index = 3
    for _ in range(3):
        for i in range(3):
            yield "block", str(index + i)
        yield "up", str(index + 3)
        yield "conv", str(index + 4), WIDTH, WIDTH, 1, False, False
        index += 5
    yield "block", str(index)
    yield "conv", str(index + 1), WIDTH, 3, 1, True, False


PARTS = {"encode": encoder, "decode": decoder}


def shapes(part, width, height):
    """Input and output shape, NCHW."""
    image, latent = (1, 3, height, width), (1, LATENT, height // 8, width // 8)
    return (image, latent) if part == "encode" else (latent, image)


def gflop(part, width, height):
    """Operations of the convolutions in the direct algorithm; a multiply-add counts as two."""
    pixels = width * height if part == "encode" else width * height // 64
    total = 0
    for layer in PARTS[part]():
        if layer[0] == "conv":
            pixels //= layer[4] ** 2
            total += 2 * 9 * layer[2] * layer[3] * pixels
        elif layer[0] == "block":
            total += 3 * 2 * 9 * WIDTH * WIDTH * pixels
        elif layer[0] == "up":
            pixels *= 4
    return total / 1e9


def random_weights(part, seed):
    """He initialisation. The last layer of each block is scaled down so that activations keep their size and the
    decoder's image is in [0,1]."""
    rng = np.random.default_rng(seed)
    weights = {}

    def conv(name, c_in, c_out, bias, gain=1.0):
        scale = gain * np.sqrt(2.0 / (9 * c_in))
        weights[name + ".weight"] = (scale * rng.standard_normal((c_out, c_in, 3, 3))).astype(np.float32)
        if bias:
            weights[name + ".bias"] = (0.05 * rng.standard_normal(c_out)).astype(np.float32)

    layers = list(PARTS[part]())
    for layer in layers:
        if layer[0] == "conv":
            last = layer is layers[-1]
            conv(layer[1], layer[2], layer[3], layer[5], 0.08 if last else 1.0)
            if last and part == "decode":
                weights[layer[1] + ".bias"][:] = 0.5
        elif layer[0] == "block":
            for i, gain in ((0, 1.0), (2, 1.0), (4, 0.3)):
                conv(f"{layer[1]}.conv.{i}", WIDTH, WIDTH, True, gain)
    return weights


def random_input(part, width, height, seed):
    """Encoder: values of a 16-bit image; decoder: a latent with unit standard deviation."""
    rng = np.random.default_rng(seed + 1)
    shape = shapes(part, width, height)[0]
    if part == "decode":
        return rng.standard_normal(shape).astype(np.float32)
    y, x = np.mgrid[0:height, 0:width]
    waves = [0.5 + 0.3 * np.sin(x / (7.0 + 5 * c) + y / (11.0 + 3 * c)) for c in range(3)]
    picture = np.clip(np.stack(waves) + 0.1 * rng.standard_normal((3, height, width)), 0, 1)
    return (np.round(picture * 65535) / 65535).astype(np.float32)[None]


def save_safetensors(path, tensors):
    header, offset = {}, 0
    for name, value in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [offset, offset + value.nbytes]}
        offset += value.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for value in tensors.values():
            f.write(np.ascontiguousarray(value, "<f4").tobytes())


def load_safetensors(path):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header, data = json.loads(f.read(size)), f.read()
    out = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        out[name] = np.frombuffer(data[begin:end], "<f4").reshape(entry["shape"])
    return out


def torch_module(part, weights):
    import torch
    from torch import nn

    class Clamp(nn.Module):
        def forward(self, x):
            return torch.tanh(x / 3) * 3

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            conv = lambda: nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
            self.conv = nn.Sequential(conv(), nn.ReLU(), conv(), nn.ReLU(), conv())

        def forward(self, x):
            return torch.relu(self.conv(x) + x)

    stack = []
    names = {}
    for layer in PARTS[part]():
        names[layer[1]] = len(stack)
        if layer[0] == "clamp":
            stack.append(Clamp())
        elif layer[0] == "up":
            stack.append(nn.Upsample(scale_factor=2, mode="nearest"))
        elif layer[0] == "block":
            stack.append(Block())
        else:
            _, _, c_in, c_out, stride, bias, relu = layer
            stack.append(nn.Conv2d(c_in, c_out, 3, stride=stride, padding=1, bias=bias))
            if relu:
                stack.append(nn.ReLU())
    net = nn.Sequential(*stack)
    state = {}
    for name, value in weights.items():
        head, rest = name.split(".", 1)
        state[f"{names[head]}.{rest}"] = torch.from_numpy(value.copy())
    net.load_state_dict(state)
    return net.eval()


class Proto:
    """The part of the protobuf wire format that an ONNX file needs."""

    def __init__(self):
        self.bytes = bytearray()

    def varint(self, value):
        value &= (1 << 64) - 1
        while value > 127:
            self.bytes.append(value & 127 | 128)
            value >>= 7
        self.bytes.append(value)

    def integer(self, field, value):
        self.varint(field << 3)
        self.varint(value)
        return self

    def blob(self, field, value):
        if isinstance(value, Proto):
            value = bytes(value.bytes)
        elif isinstance(value, str):
            value = value.encode()
        self.varint(field << 3 | 2)
        self.varint(len(value))
        self.bytes += value
        return self


def onnx_attribute(name, value):
    p = Proto().blob(1, name)
    if isinstance(value, str):
        return p.blob(4, value).integer(20, 3)
    if isinstance(value, int):
        return p.integer(3, value).integer(20, 2)
    for v in value:
        p.integer(8, v)
    return p.integer(20, 7)


ONNX_TYPES = {"<f4": 1, "<f2": 10}


def onnx_tensor(name, value, dtype):
    p = Proto()
    for d in value.shape:
        p.integer(1, d)
    return p.integer(2, ONNX_TYPES[dtype]).blob(8, name).blob(9, np.ascontiguousarray(value, dtype).tobytes())


def onnx_value(name, shape, dtype):
    dims = Proto()
    for d in shape:
        dims.blob(1, Proto().integer(1, d))
    return Proto().blob(1, name).blob(2, Proto().blob(1, Proto().integer(1, ONNX_TYPES[dtype]).blob(2, dims)))


def save_onnx(path, part, weights, width, height, dtype="<f4"):
    graph = Proto().blob(2, "taesd_" + part)
    count = 0

    def node(op, inputs, **attributes):
        nonlocal count
        count += 1
        p = Proto()
        for i in inputs:
            p.blob(1, i)
        p.blob(2, f"t{count}").blob(3, f"n{count}").blob(4, op)
        for key, value in attributes.items():
            p.blob(5, onnx_attribute(key, value))
        graph.blob(1, p)
        return f"t{count}"

    def conv(x, name, stride=1):
        names = [name + s for s in (".weight", ".bias") if name + s in weights]
        return node("Conv", [x] + names, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[stride, stride])

    x = "input"
    for layer in PARTS[part]():
        if layer[0] == "clamp":
            x = node("Mul", [node("Tanh", [node("Div", [x, "three"])]), "three"])
        elif layer[0] == "up":
            x = node("Resize", [x, "", "scales"], mode="nearest", coordinate_transformation_mode="asymmetric",
                     nearest_mode="floor")
        elif layer[0] == "block":
            y = x
            for i in (0, 2, 4):
                y = conv(y, f"{layer[1]}.conv.{i}")
                if i < 4:
                    y = node("Relu", [y])
            x = node("Relu", [node("Add", [y, x])])
        else:
            x = conv(x, layer[1], layer[4])
            if layer[6]:
                x = node("Relu", [x])
    for name, value in weights.items():
        graph.blob(5, onnx_tensor(name, value, dtype))
    if part == "decode":
        graph.blob(5, onnx_tensor("three", np.array(3.0), dtype))
        graph.blob(5, onnx_tensor("scales", np.array([1, 1, 2, 2]), "<f4"))
    before, after = shapes(part, width, height)
    graph.blob(11, onnx_value("input", before, dtype)).blob(12, onnx_value(x, after, dtype))
    model = Proto().integer(1, 8).blob(2, "zenith-bench").blob(7, graph).blob(8, Proto().blob(1, "").integer(2, 13))
    with open(path, "wb") as f:
        f.write(bytes(model.bytes))


def save_ncnn(stem, part, weights):
    """Writes stem.param (text) and stem.bin. ReLU is fused into the convolutions, as ncnn's own optimiser does."""
    lines, blobs, data = [], ["input"], bytearray()
    lines.append("Input input 0 1 input")

    def layer(kind, inputs, outputs=1, params=""):
        names = [f"b{len(blobs) + i}" for i in range(outputs)]
        blobs.extend(names)
        lines.append(f"{kind} l{len(lines)} {len(inputs)} {outputs} {' '.join(inputs + names)} {params}".rstrip())
        return names if outputs > 1 else names[0]

    def conv(x, name, stride=1, relu=False):
        w, b = weights[name + ".weight"], weights.get(name + ".bias")
        data.extend(struct.pack("<I", 0) + w.astype("<f4").tobytes())
        if b is not None:
            data.extend(b.astype("<f4").tobytes())
        return layer("Convolution", [x], params=f"0={w.shape[0]} 1=3 3={stride} 4=1 5={int(b is not None)} "
                                                f"6={w.size} 9={int(relu)}")

    x = "input"
    for item in PARTS[part]():
        if item[0] == "clamp":
            x = layer("BinaryOp", [x], params="0=3 1=1 2=3.0")
            x = layer("BinaryOp", [layer("TanH", [x])], params="0=2 1=1 2=3.0")
        elif item[0] == "up":
            x = layer("Interp", [x], params="0=1 1=2.0 2=2.0")
        elif item[0] == "block":
            y, skip = layer("Split", [x], 2)
            for i in (0, 2, 4):
                y = conv(y, f"{item[1]}.conv.{i}", relu=i < 4)
            x = layer("ReLU", [layer("BinaryOp", [y, skip], params="0=0")])
        else:
            x = conv(x, item[1], item[4], item[6])
    with open(stem + ".param", "w") as f:
        f.write(f"7767517\n{len(lines)} {len(blobs)}\n" + "\n".join(lines) + "\n")
    with open(stem + ".bin", "wb") as f:
        f.write(bytes(data))
    return x
