"""TAESD on a GPU: Zenith against PyTorch, same weights, same input, one run.

    python3 bench/peers_cuda.py build-cuda/cli/zenith [SIDE ...]

Times are medians of wall-clock milliseconds from host memory to host memory; for PyTorch also without the copies.
Errors are RMS differences from 64-bit arithmetic, divided by the RMS of the result.
"""
import copy
import json
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zlib

import numpy as np
import torch

import peers_net as net

RUNS = 30


def write_png(path, picture):
    """picture: [height][width][3] of 16 bits."""
    height, width, _ = picture.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in picture)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 1)) +
                     chunk(b"IEND", b""))


def median(call, finish):
    for _ in range(5):
        call()
    finish()
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        call()
        finish()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def torch_rows(module, x, exact):
    """(name, with copies, without, error) for each precision."""
    out = torch.empty(exact.shape, dtype=torch.float32).pin_memory()
    host = x.pin_memory()
    for name, kind, tf32 in (("PyTorch fp32", torch.float32, False), ("PyTorch TF32", torch.float32, True),
                             ("PyTorch bf16", torch.bfloat16, False), ("PyTorch fp16", torch.float16, False)):
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.benchmark = True
        m = copy.deepcopy(module).to(device="cuda", dtype=kind, memory_format=torch.channels_last)
        there = host.cuda().to(kind).contiguous(memory_format=torch.channels_last)
        error = relative(m(there).double().cpu(), exact)
        alone = median(lambda: m(there), torch.cuda.synchronize)

        def whole():
            y = m(host.to("cuda", non_blocking=True).to(dtype=kind, memory_format=torch.channels_last))
            out.copy_(y.float(), non_blocking=True)

        yield name, median(whole, torch.cuda.synchronize), alone, error


def relative(y, exact):
    return float(((y - exact).pow(2).mean() / exact.pow(2).mean()).sqrt())


def zenith(program, folder, *words):
    text = subprocess.run([program, *words, "-m", str(folder / "taesd"), "--device", "cuda", "--quiet"], check=True,
                          stdout=subprocess.PIPE).stdout
    return text.decode()


def zenith_encode_error(program, folder, picture, precision, exact):
    write_png(folder / "in.png", picture)
    zenith(program, folder, "encode", str(folder / "in.png"), "-o", str(folder / "z.safetensors"), "-f", "-p", precision)
    data = (folder / "z.safetensors").read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]  # one tensor and nothing after it
    z = torch.from_numpy(np.frombuffer(data[begin:], "<f4").copy()).double()
    return relative(z.reshape(exact.shape), exact)


def main():
    program, sides = sys.argv[1], [int(s) for s in sys.argv[2:]] or [512, 1024]
    torch.set_grad_enabled(False)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "taesd").mkdir()
        for part in ("encode", "decode"):
            net.save_safetensors(folder / "taesd" / f"taesd_{part}r.safetensors", net.random_weights(part, 1))
        for side in sides:
            for part in ("encode", "decode"):
                module = net.torch_module(part, net.random_weights(part, 1))
                x = torch.from_numpy(net.random_input(part, side, side, 1))
                exact = copy.deepcopy(module).double().cuda()(x.double().cuda()).cpu()
                print(f"\n{part} {side}x{side}: ms with copies, ms without, error")
                for precision in ("f32", "f16"):
                    found = json.loads(zenith(program, folder, "bench", "--part", part, "--size", str(side), "--runs",
                                              str(RUNS), "-p", precision, "--json"))
                    error = ""
                    if part == "encode":
                        picture = np.round(x[0].permute(1, 2, 0).numpy() * 65535).astype(np.uint16)
                        error = f"{zenith_encode_error(program, folder, picture, precision, exact):9.1e}"
                    print(f"  {'Zenith ' + precision:14} {found['ms_median']:8.3f} {'':8} {error}")
                for row in torch_rows(module, x, exact):
                    print(f"  {row[0]:14} {row[1]:8.3f} {row[2]:8.3f} {row[3]:9.1e}", flush=True)


if __name__ == "__main__":
    main()
