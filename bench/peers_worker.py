"""Measures one part with one engine in one process: load, warm up, time, and print a JSON line.

    python3 peers_worker.py ENGINE PART FOLDER THREADS RUNS [OUTPUT.npy]

A new process for each measurement separates the thread pools and allocators of the engines, and gives the peak memory
of this engine alone. peers_main.py prepares FOLDER.
"""
import json
import os
import resource
import sys
import time

import numpy as np

import peers_net as net


def torch_engine(part, folder, threads, kind):
    if kind == "fastmath":
        os.environ["DNNL_DEFAULT_FPMATH_MODE"] = "BF16"
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    model = net.torch_module(part, net.load_safetensors(f"{folder}/taesd/taesd_{part}r.safetensors"))
    x = torch.from_numpy(np.load(f"{folder}/{part}.npy"))
    if "bf16" in kind:
        model, x = model.bfloat16(), x.bfloat16()
    if kind == "double":
        model, x = model.double(), x.double()
    if "nhwc" in kind or kind == "compile":
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    if kind == "compile":
        model = torch.compile(model)
    finish = (lambda y: y.numpy()) if kind == "double" else (lambda y: y.float().contiguous().numpy())
    return (lambda: model(x)), finish, "PyTorch " + torch.__version__.split("+")[0]


def ort_engine(part, folder, threads, kind):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    if kind == "fastmath":
        options.add_session_config_entry("mlas.enable_gemm_fastmath_arm64_bfloat16", "1")
    path = f"{folder}/{part}{'.f16' if kind == 'fp16' else ''}.onnx"
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    x = {"input": np.load(f"{folder}/{part}.npy").astype(np.float16 if kind == "fp16" else np.float32)}
    return (lambda: session.run(None, x)[0]), (lambda y: y.astype(np.float32)), "ONNX Runtime " + ort.__version__


def ncnn_engine(part, folder, threads, kind):
    import ncnn

    model = ncnn.Net()
    o = model.opt
    o.num_threads = threads
    o.use_vulkan_compute = False
    o.use_fp16_packed = o.use_fp16_storage = o.use_fp16_arithmetic = kind == "fp16"
    o.use_bf16_packed = o.use_bf16_storage = kind == "bf16"
    model.load_param(f"{folder}/{part}.param")
    model.load_model(f"{folder}/{part}.bin")
    output = open(f"{folder}/{part}.param.output").read()
    array = np.load(f"{folder}/{part}.npy")[0]
    x = ncnn.Mat(array).clone()

    def call():
        extractor = model.create_extractor()
        extractor.input("input", x)
        status, y = extractor.extract(output)
        assert status == 0
        return extractor, y, array  # blobs borrow memory from the extractor and the array

    return call, (lambda kept: np.array(kept[1])[None]), "ncnn " + ncnn.__version__


def openvino_engine(part, folder, threads, kind):
    import openvino as ov

    core = ov.Core()
    config = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": kind}
    request = core.compile_model(core.read_model(f"{folder}/{part}.onnx"), "CPU", config).create_infer_request()
    x = np.load(f"{folder}/{part}.npy")
    return (lambda: request.infer([x])), (lambda y: next(iter(y.values()))), "OpenVINO " + ov.__version__.split("-")[0]


def mnn_engine(part, folder, threads, kind):
    import MNN
    import MNN.numpy as mnp

    config = {"backend": "CPU", "precision": "high" if kind == "fp32" else "low", "numThread": threads}
    manager = MNN.nn.create_runtime_manager((config,))
    model = MNN.nn.load_module_from_file(f"{folder}/{part}.mnn", [], [], runtime_manager=manager)
    x = MNN.expr.convert(mnp.array(np.load(f"{folder}/{part}.npy")), MNN.expr.NC4HW4)

    def call():
        y = MNN.expr.convert(model.forward([x])[0], MNN.expr.NCHW)
        y.read()
        return y

    return call, (lambda y: np.array(y.read())), "MNN " + MNN.version()


FAMILIES = {"torch": torch_engine, "ort": ort_engine, "ncnn": ncnn_engine, "openvino": openvino_engine,
            "mnn": mnn_engine}


def main():
    engine, part, folder, threads, runs = sys.argv[1:6]
    family, kind = engine.split("-", 1)
    call, finish, version = FAMILIES[family](part, folder, int(threads), kind)
    result = None
    for _ in range(2 if int(runs) else 1):
        result = call()
    times = []
    for _ in range(int(runs)):
        begin = time.perf_counter()
        result = call()
        times.append(1e3 * (time.perf_counter() - begin))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if len(sys.argv) > 6:
        np.save(sys.argv[6], finish(result))
    print(json.dumps({"ms": times, "rss_mb": memory, "version": version}), flush=True)
    os._exit(0)  # some engines crash in their static destructors, after the result was printed


if __name__ == "__main__":
    main()
