"""bench/cuda: times models on a GPU in Zenith and PyTorch in turn. Started by the script `cuda`.

Times are medians of milliseconds from device memory to device memory; Zenith's with copies are in a column of their own.
PyTorch runs channels last: eager, eager as a CUDA graph, and compiled as a CUDA graph. First all networks are compiled, some
at once; then the rows are measured one by one, while nothing else runs, and printed. Each is also a line of the log, from
which --table makes the table of several calls. What fails or does not end within its time is a dash and a sentence.
"""
import argparse
import json
import os
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
COLUMNS = ("zenith", "copies", "eager", "graph", "compiled")
START = time.monotonic()


def arguments():
    parser = argparse.ArgumentParser(prog="bench/cuda")
    parser.add_argument("build", nargs="?", default="build-cuda")
    parser.add_argument("--only", default="")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--limit", type=float, default=450)
    parser.add_argument("--compile-limit", type=float, default=240)
    parser.add_argument("--jobs", type=int, default=max(1, min(8, (os.cpu_count() or 1) // 2)))
    parser.add_argument("--log", default="bench-cuda.jsonl")
    parser.add_argument("--table", metavar="LOG")
    parser.add_argument("--after", metavar="FILE")
    parser.add_argument("--weights", default=os.path.join(tempfile.gettempdir(), "zenith-bench-weights"))
    parser.add_argument("--used", type=float, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def left(a):
    return a.limit - a.used - (time.monotonic() - START)


def complain(text):
    print(f"bench/cuda: {text}", file=sys.stderr, flush=True)


def program(a, name):
    """Build folders have zenith in cli/, packages have everything in one folder."""
    inside = os.path.join(a.build, "cli", name)
    return inside if os.path.exists(inside) else os.path.join(a.build, name)


# ---- processes that are asked and answer in lines of JSON ----


class Process:
    def __init__(self, words, name, environment=None):
        self.name, self.rest, self.answers = name, b"", []
        self.errors = tempfile.TemporaryFile()
        self.process = None
        try:
            self.process = subprocess.Popen([str(w) for w in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=self.errors, bufsize=0, env=environment, start_new_session=True)
        except OSError as error:
            complain(f"{name}: {error}")

    def alive(self):
        return self.process is not None

    def poll(self):
        """Reads what is there. A process that ended is told of, once."""
        more = os.read(self.process.stdout.fileno(), 65536)
        if not more:
            self.stop("")
            return
        *lines, self.rest = (self.rest + more).split(b"\n")
        self.answers += [json.loads(line) for line in lines if line.startswith(b"{")]

    def read(self, limit):
        """The next answer; None, and the process ends, if there is none in time."""
        end = time.monotonic() + limit
        while not self.answers and self.alive():
            wait = end - time.monotonic()
            if wait <= 0:
                self.stop("no result in time")
            elif select.select([self.process.stdout], [], [], wait)[0]:
                self.poll()
        return self.answers.pop(0) if self.answers else None

    def write(self, text):
        try:
            self.process.stdin.write(text.encode() + b"\n")
        except OSError:
            self.stop("")

    def ask(self, request, limit):
        if self.alive():
            self.write(request if isinstance(request, str) else json.dumps(request))
        result = self.read(limit) if self.alive() else None
        if result and "error" in result:
            complain(f"{self.name}: {result['error']}")
            if "CUDA error" in result["error"]:  # nothing works in that process from here on
                self.stop()
            return None
        return result

    def stop(self, why=None):
        """why: None: it is not needed any more; "": it ended by itself."""
        if not self.alive():
            return
        if why != "":  # with the processes that compile for it
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.stdin.close()
        code = self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        if why or (why == "" and code):
            complain(f"{self.name}: {why or (lines or [f'exit status {code}'])[-1][:300]}")
        self.process = None


# ---- ours ----


class Ours:
    """One of our programs, which measures once for every line that it gets (`turns`)."""

    def __init__(self, words, name, read):
        self.words, self.name, self.how, self.process = words, name, read, None

    def start(self, a):
        if not self.process:
            self.process = Process([program(a, self.words[0]), *(w(a) if callable(w) else w for w in self.words[1:])], self.name)
            self.waits = True

    def turn(self, a):
        """A dictionary of columns; empty without a result."""
        self.start(a)
        if self.waits:
            self.waits = False
            self.process.read(min(60, left(a)))  # {}: it is ready
        result = self.process.ask("", min(60, left(a)))
        return self.how(result) if result else {}

    def stop(self):
        if self.process:
            self.process.stop()
        self.process = None


class Once:
    """One of our programs that prints its result and ends."""

    def __init__(self, words, name, read, limit=60):
        self.words, self.name, self.how, self.limit = words, name, read, limit

    def turn(self, a):
        words = [str(w(a) if callable(w) else w) for w in (lambda a: program(a, self.words[0]), *self.words[1:])]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=max(5, min(self.limit, left(a))))
        except (subprocess.TimeoutExpired, OSError) as error:
            complain(f"{self.name}: {'no result in time' if isinstance(error, subprocess.TimeoutExpired) else error}")
            return {}
        if done.returncode:
            complain(f"{self.name}: {(done.stderr.strip() or f'exit status {done.returncode}').splitlines()[-1]}")
            return {}
        return self.how(done.stdout)

    def stop(self):
        pass


def objects(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def device_times(model, part, side, batch, precision):
    return Ours(["device-times", model, part, side, batch, precision, lambda a: a.runs, "turns"], f"device-times {model} {part}",
                lambda r: {"zenith": r["ms"], "copies": r["ms_with_copies"]})


def pictures(side, batch):
    def path(a):
        name = os.path.join(a.folder, f"pictures-{side}-{batch}.raw")
        if not os.path.exists(name):
            block = os.urandom(1 << 20).translate(bytes(i & 0x3F for i in range(256)))
            with open(name, "wb") as f:
                for _ in range(batch * side * side * 12 // len(block) + 1):
                    f.write(block)
        return name

    return path


def train_step(model, side, batch, *lines):
    return Ours(["train-step", model, side, batch, 8, lambda a: min(a.runs, 10), pictures(side, batch), "turns", "cuda", *lines],
                f"train-step {model}", lambda r: {"copies": statistics.median(r["ms"])})


def diffae_step(preset, side, batch):
    return train_step(f"random:diffae-{preset}", side, batch, f"model: diffae-{preset}", "task: diffuse", "dropout: 0.1",
                      "precision: bf16")


def generate_part(part, file, size):
    return Once(["generate-parts", part, lambda a: os.path.join(a.weights, file), size, os.cpu_count() or 8,
                 lambda a: min(a.runs, 10), "cuda"], f"generate-parts {part}",
                lambda text: {"zenith": 1e3 * statistics.median(objects(text)[0]["wall_s"])})


def fp8_step(side):
    def read(text):
        plain, fp8 = objects(text)[:2]
        return {"zenith": 1e3 * statistics.median(fp8["wall_s"]), "bf16": 1e3 * statistics.median(plain["wall_s"]),
                "error": fp8.get("error")}

    return Once(["generate-parts", "step", lambda a: os.path.join(a.weights, "zimage.safetensors"), side, os.cpu_count() or 8,
                 lambda a: min(a.runs, 10), "cuda", "fp8"], "generate-parts step fp8", read, 90)


def clip(part, precision="bf16"):
    def read(text):
        result = objects(text)[0]
        return {"copies": 1e3 * statistics.median(x["wall"] for x in result["runs"]), "plan": result["plan"]}

    return Once(["clip-times", "random:wan21-vae", part, "832x480", 21, precision, 8, 2, 0, "cuda"], f"clip-times {part}", read)


def scan(sequences, length, channels, states):
    def read(text):
        r = objects(text)[0]
        return {"forward": r["forward_gbs"], "backward": r["backward_gbs"]}

    return Once(["scan-times", sequences, length, channels, states, lambda a: a.runs, "cuda"], "scan-times", read)


MEGABYTES = re.compile(r"([0-9.]+) MB go into and out of the nodes")


def bytes_of(model, part, side, batch, precision):
    """Megabytes that the nodes of a run read and write."""
    return Once(["device-times", model, part, side, batch, precision, 1, "profile"], f"device-times {model} profile",
                lambda text: {"mb": float(MEGABYTES.search(text).group(1))})


TIMES = re.compile(r"prompt ([0-9.]+) s, image ([0-9.]+) s, steps ([0-9.]+) s, decode ([0-9.]+) s, file and other ([0-9.]+) s")


class GpuMemory:
    """The most MiB of the GPU that a process has while it runs, as the driver counts them: with about 0.5 GB of its own."""

    def __init__(self):
        words = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits", "-lms", "100"]
        try:
            self.lines = tempfile.TemporaryFile("w+")
            self.process = subprocess.Popen(words, stdout=self.lines, stderr=subprocess.DEVNULL)
        except OSError:
            self.process = None

    def stop(self, pid=0):
        """None where there is no such program."""
        if not self.process:
            return None
        self.process.kill()
        self.process.wait()
        self.lines.seek(0)
        found = [words[1].strip() for words in (line.split(",") for line in self.lines) if words[0] == str(pid) and len(words) == 2]
        return max((int(mib) for mib in found if mib.isdigit()), default=None)


class Generate:
    """Images of some prompts with one handle. The first batch copies the weights; the median of the other images counts."""

    PROMPTS = ("a red fox in the snow", "a grey heron on a jetty", "a tin robot on a shelf", "a small boat in the fog")

    def __init__(self, side, *options, images=4, batch=1, transformer="zimage.safetensors", text="qwen3.safetensors"):
        self.side, self.options, self.images, self.batch = side, options, images, batch
        self.transformer, self.text = transformer, text

    def command(self, a, prompts, images):
        parts = {"--transformer": self.transformer, "--text-encoder": self.text, "--vae": "ae.safetensors",
                 "--tokenizer": "tokenizer.json"}
        files = [word for option, name in parts.items() for word in (option, os.path.join(a.weights, name))]
        options = [option.format(weights=a.weights, folder=a.folder) for option in self.options]
        return [program(a, "zenith"), "generate", "--prompts", prompts, *files, "--size", f"{self.side}x{self.side}", "--steps", "8",
                "--batch", str(self.batch), "--seed", "1", "--device", "cuda", "-v", "-o", images + "/", *options]

    @staticmethod
    def run(command, environment, limit):
        """Exit status, what it said, and its memory on the GPU."""
        memory, process = GpuMemory(), None
        try:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
            text = process.communicate(timeout=limit)[1]
        except (subprocess.TimeoutExpired, OSError) as error:
            if process:  # whose memory the next row needs
                process.kill()
                process.communicate()
            memory.stop()
            return 1, f"zenith generate: {error if isinstance(error, OSError) else 'no result in time'}", None
        return process.returncode, text, memory.stop(process.pid)

    def turn(self, a):
        prompts, images = os.path.join(a.folder, "prompts.txt"), os.path.join(a.folder, f"images-{self.side}-{time.time()}")
        with open(prompts, "w") as f:
            f.writelines(f"{self.PROMPTS[i % len(self.PROMPTS)]}, picture {i}\n" for i in range(self.images))
        environment = dict(os.environ, XDG_CACHE_HOME=images + "-cache")  # what an earlier turn remembers
        code, text, most = self.run(self.command(a, prompts, images), environment, max(5, min(120, left(a))))
        for line in text.splitlines():
            complain(line)
        times = [[1e3 * float(x) for x in image] for image in TIMES.findall(text)][self.batch:]
        if code or not times:
            return {}
        parts = {name: statistics.median(x) for name, x in zip(("text", "encode", "steps", "decode", "file"), zip(*times))}
        return {"copies": statistics.median(map(sum, times)), **parts, "gpu_mib": most}

    def stop(self):
        pass


# ---- PyTorch ----


def start_peer(case):
    environment = dict(os.environ)
    environment.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(tempfile.gettempdir(), "zenith-bench-inductor"))
    environment.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")
    return Process([sys.executable, os.path.join(HERE, "cuda_peer.py")], f"PyTorch, {case}", environment)


class Peers:
    """One process for everything that runs without a compiler, and one for each compiled case."""

    def __init__(self, a):
        self.plain, self.compiled, self.about, self.started = None, {}, None, []
        if not a.no_torch:
            self.restart(a)

    def restart(self, a):
        self.plain = self.start("eager")
        self.about = self.plain.read(min(90, left(a))) or self.about
        if not self.plain.alive():
            a.no_torch = True

    def start(self, case):
        self.started.append(start_peer(case))
        return self.started[-1]

    def compile(self, a, cases, seconds):
        """Compiles all cases, a.jobs at once; those that are not ready in time are given up."""
        begin, waiting, busy = time.monotonic(), list(cases), []
        while (waiting or busy) and time.monotonic() - begin < seconds:
            while waiting and len(busy) < a.jobs:
                case = waiting.pop(0)
                peer = self.start(f"{case} compiled")
                if peer.alive():
                    peer.case = case
                    peer.write(json.dumps({"prepare": case, "compile": True}))
                    busy.append(peer)
            ready = select.select([p.process.stdout for p in busy if p.alive()], [], [], 0.5)[0]
            for peer in list(busy):
                if peer.alive() and peer.process.stdout in ready:
                    peer.poll()
                if len(peer.answers) > 1:  # the first is about the process
                    self.finish(peer, peer.answers.pop())
                    peer.answers.clear()
                if not peer.alive() or peer.case in self.compiled:
                    busy.remove(peer)
        for peer in busy:
            peer.stop(f"not compiled in {seconds:.0f} s")
        for case in waiting:
            complain(f"PyTorch, {case}: no time to compile it")

    def finish(self, peer, result):
        if "error" in result:
            complain(f"{peer.name}: {result['error']}")
            peer.stop()
            return
        self.compiled[peer.case] = (peer, result)
        complain(f"{peer.name}: mode {result['mode']}{'' if result['graph'] else ', no CUDA graph'}, {result['seconds']:.0f} s")

    def open(self, a, case):
        """Functions that measure once, by column, and what is to be said about them."""
        calls, notes = {}, {}
        if a.no_torch or not case:
            return calls, notes
        if not self.plain.alive():
            self.restart(a)
        result = self.plain.ask({"prepare": case, "compile": False}, min(90, left(a)))
        for kind in result["kinds"] if result else ():
            calls[kind] = lambda kind=kind: self.time(a, self.plain, case, kind)
        if case in self.compiled:
            peer, result = self.compiled[case]
            calls["compiled"] = lambda: self.time(a, peer, case, "compiled")
            mode = result["mode"].replace("-no-cudagraphs", "")
            notes = {"mode": mode, "recorded": result["graph"], "compile_s": result["seconds"]}
        return calls, notes

    @staticmethod
    def time(a, peer, case, kind):
        result = peer.ask({"time": case, "kind": kind, "runs": a.runs}, min(60, left(a)))
        return {kind: result["ms"]} if result else {}

    def close(self, case):
        if self.plain and self.plain.alive():
            self.plain.ask({"drop": case}, 20)
        if case in self.compiled:
            self.compiled.pop(case)[0].stop()

    def copy(self, a):
        """GB/s of a copy on the device."""
        if a.no_torch or not self.plain.alive():
            return None
        result = self.plain.ask({"copy": 1024 if "CPU" not in self.about["device"] else 64}, min(30, left(a)))
        return result and result["gbs"]

    def stop(self):
        for peer in self.started:
            peer.stop()


# ---- rows ----


class Row:
    def __init__(self, group, name, ours, case=None, rounds=None, profile=None):
        self.group, self.name, self.ours, self.case, self.rounds, self.profile = group, name, ours, case, rounds, profile


def batch_of(count):
    return f", batch {count}" if count > 1 else ""


def taesd(part, batch=1, precision="bf16"):
    return Row("taesd", f"TAESD {part} 512x512, {precision}{batch_of(batch)}", device_times("taesd", part, 512, batch, precision),
               f"taesd:{part}:512:{batch}:{precision}")


def unet(group, preset, side, batch=1):
    return Row(group, f"DiffAE {preset} U-Net, bf16{batch_of(batch)}",
               device_times(f"diffae-{preset}", "decode", side, batch, "bf16"), f"unet:{preset}:{batch}")


def diffae_training(group, preset, side, batch):
    return Row(group, f"DiffAE {preset} training step, bf16, batch {batch}", diffae_step(preset, side, batch),
               f"train:{preset}:{side}:{batch}")


def wan_frame(part):
    return Row("wan", f"Wan 2.1 {part} 512x512, one frame, bf16", device_times("wan21-vae", part, 512, 1, "bf16"),
               f"wan:{part}:512:512:1")


def wan_clip(part):
    return Row("clip", f"Wan 2.1 {part} 832x480, 21 frames, bf16", clip(part), f"wan:{part}:832:480:21")


def scan_rate(sequences, length, channels, states):
    return Row("scan", f"scan of Mamba, {sequences} sequences of {length}, {channels} channels, {states} states",
               scan(sequences, length, channels, states), rounds=1)


def zimage(side):
    return Row("zimage", f"Z-Image step {side}x{side}, bf16", generate_part("step", "zimage.safetensors", side),
               f"zimage:{side}:bf16", 1)


def flux(side):
    return Row("flux", f"FLUX decoder {side}x{side}, bf16", generate_part("decode", "ae.safetensors", side), f"flux:{side}")


def mamba(name):
    return Row("mamba", f"training step of {name}, 64 x 64x64, bf16", train_step(f"recipe:{name}", 64, 64, "precision: bf16"))


def prompt_to_png(group, side, how, *options, **more):
    return Row(group, f"prompt to PNG {side}x{side}, 8 steps, {how}", Generate(side, *options, **more), rounds=1)


FOUR_BITS = {"images": 3, "transformer": "zimage-q4_0.gguf", "text": "qwen3-q4_0.gguf"}

ROWS = [
    taesd("decode"), taesd("decode", 8), taesd("encode"), taesd("encode", 8), taesd("decode", 1, "f32"),
    Row("train", "TAESD training step, 16 x 256x256, bf16", train_step("random:taesd", 256, 16, "precision: bf16"),
        "train:taesd:256:16"),
    diffae_training("train", "celeba64", 64, 64),
    unet("ffhq", "ffhq128", 128), unet("ffhq", "ffhq128", 128, 16), unet("ffhq", "ffhq256", 256), unet("ffhq", "ffhq256", 256, 16),
    diffae_training("ffhq-train", "ffhq128", 128, 32), diffae_training("ffhq-train", "ffhq256", 256, 8),
    unet("diffae", "celeba64", 64), unet("diffae", "celeba64", 64, 16),
    Row("zenith-r", "zenith-r decode 512x512, bf16", device_times("zenith-r", "decode", 512, 1, "bf16"),
        profile=bytes_of("zenith-r", "decode", 512, 1, "bf16")),
    wan_clip("decode"), wan_clip("encode"),
    Row("clip", "Wan 2.1 decode 832x480, 21 frames, FP8", clip("decode", "fp8")), wan_frame("decode"), wan_frame("encode"),
    scan_rate(64, 1024, 512, 16), scan_rate(16, 4096, 1024, 16),
    zimage(512), zimage(1024),
    Row("fp8", "Z-Image step 512x512, FP8", fp8_step(512), "zimage:512:fp8", 1),
    Row("fp8", "Z-Image step 1024x1024, FP8", fp8_step(1024), "zimage:1024:fp8", 1),
    Row("text", "Qwen3-4B, 100 tokens, bf16", generate_part("text", "qwen3.safetensors", 100), "text:100", 1),
    flux(512), flux(1024),
    mamba("diffae-mamba-small"), mamba("mamba-field"), mamba("mamba-field-direct"), mamba("mamba-coordinates"),
    prompt_to_png("generate", 1024, "bf16"),
    prompt_to_png("generate", 1024, "FP8", "-p", "fp8"),
    prompt_to_png("generate", 1024, "bf16, previews", "--preview={folder}/step.png", images=3),
    prompt_to_png("generate", 1024, "bf16, LoRA of rank 16", "--lora", "{weights}/lora.safetensors:0.8", images=3),
    prompt_to_png("generate", 512, "bf16"), prompt_to_png("generate", 512, "bf16, four at once", images=8, batch=4),
    prompt_to_png("generate", 256, "bf16"), prompt_to_png("generate", 256, "bf16, four at once", images=8, batch=4),
    prompt_to_png("generate", 1024, "bf16, from an image, 5 steps", "--image", os.path.join(ROOT, "assets", "demo.png"), images=3),
    prompt_to_png("small", 1024, "bf16, within 8 GB", "--memory", "8G", images=3),
    prompt_to_png("small", 512, "bf16, within 6 GB", "--memory", "6G", images=3),
    prompt_to_png("small", 1024, "4-bit weights, within 8 GB", "--memory", "8G", **FOUR_BITS),
    prompt_to_png("small", 512, "4-bit weights, within 6 GB", "--memory", "6G", **FOUR_BITS),
]
ALL = "ae zimage qwen3 taef1_decoder lora"
WEIGHTS = {"zimage": "zimage", "fp8": "zimage", "text": "qwen3", "flux": "ae", "generate": ALL, "small": ALL}
GROUPS = list(dict.fromkeys(row.group for row in ROWS))
# about what a row takes once everything is compiled
SECONDS = {"taesd": 4, "train": 8, "ffhq": 6, "ffhq-train": 13, "diffae": 5, "zenith-r": 5, "clip": 10, "wan": 6, "scan": 4, "zimage": 25,
           "fp8": 40, "text": 20, "flux": 10, "mamba": 10, "generate": 40, "small": 60}


def longest_first(case):
    """Order of compilation: what takes longest begins first."""
    order = ("train:ffhq256", "train:ffhq128", "unet:ffhq256", "unet:ffhq128", "train:celeba64", "unet", "wan")
    return next((i for i, start in enumerate(order) if case.startswith(start)), len(order))


# ---- the table ----


def number(x):
    return "-" if x is None else f"{x:.2f}" if x < 100 else f"{x:.0f}"


def cells_of(entry):
    values = [entry.get(column) for column in COLUMNS]
    best = min((v for v in values if v is not None), default=None)
    cells = [f"**{number(v)}**" if v is not None and v == best else number(v) for v in values]
    if entry.get("compiled") is not None:
        said = [entry["mode"]] if entry.get("mode") == "default" else []
        said += [] if entry.get("recorded") else ["no graph"]
        cells[-1] += f" ({', '.join(said)})" if said else ""
    ours = entry.get("zenith") or entry.get("copies")
    cells.append(f"{ours / entry['compiled']:.2f}" if ours and entry.get("compiled") else "-")
    return cells


def line_of(entry):
    """A line of the table of times, or a sentence about what is measured in GB/s."""
    if "forward" in entry:
        copy = entry.get("copy_gbs")
        share = [f" ({100 * entry[k] / copy:.0f} %)" if copy else "" for k in ("forward", "backward")]
        return (f"{entry['name']}: forward {entry['forward']:.0f} GB/s{share[0]}, backward {entry['backward']:.0f} GB/s{share[1]}"
                f"; a copy on the device {number(copy)} GB/s.")
    return f"| {entry['name']} | " + " | ".join(cells_of(entry)) + " |"


def share_of(entry):
    return (f"{entry['name']}: its nodes read and write {entry['mb']:.0f} MB, {entry['bound_ms']:.2f} ms at the speed of a copy; "
            f"{100 * entry['bound_ms'] / entry['zenith']:.0f} % of what that allows.")


def parts_of(entry):
    """What an image was made of, or the plan of a clip."""
    if "plan" in entry:
        return f"{entry['name']}: {entry['plan']}."
    named = {"text": "prompt", "encode": "image", "steps": "steps", "decode": "decode", "file": "file and other"}
    parts = ", ".join(f"{named[key]} {number(entry[key])}" for key in named if entry.get(key))
    memory = f"; {entry['gpu_mib']} MiB of the GPU" if entry.get("gpu_mib") else ""
    return f"{entry['name']}: {parts} ms{memory}."


def sentences_of(entry):
    return [tell(entry) for key, tell in (("bound_ms", share_of), ("steps", parts_of), ("plan", parts_of)) if entry.get(key)]


HEAD = ("| work | Zenith | with copies | PyTorch eager | eager, CUDA graph | compiled, CUDA graph | Zenith / compiled |\n"
        "|---|---:|---:|---:|---:|---:|---:|")


def print_table(path):
    """The newest result of each row; a column that failed then keeps an older one."""
    kept, about = {}, {}
    with open(path) as f:
        for line in f:
            entry = json.loads(line)
            kept.setdefault(entry["name"], {}).update({k: v for k, v in entry.items() if v is not None})
            about[entry["about"]] = None
    entries = [kept[row.name] for row in ROWS if row.name in kept]
    print("\n".join(about) + "\n\n" + HEAD)
    for entry in entries:
        if "forward" not in entry:
            print(line_of(entry))
    print()
    for entry in entries:
        for sentence in [line_of(entry)] if "forward" in entry else sentences_of(entry):
            print(sentence)


# ---- measuring ----


def medians(results):
    """Of numbers; of what is said, the last."""
    keys = dict.fromkeys(k for r in results for k in r)
    values = {k: [r[k] for r in results if r.get(k) is not None] for k in keys}
    return {k: v[-1] if isinstance(v[-1], str) else statistics.median(v) for k, v in values.items() if v}


def measure(a, row, peers):
    """A dictionary of columns: medians over rounds. In each round everyone runs once."""
    calls, notes = peers.open(a, row.case)
    rounds = 1 if left(a) < 40 else row.rounds or a.rounds
    results = []
    for _ in range(rounds):
        results.append(row.ours.turn(a))
        for call in calls.values():
            results.append(call())
    row.ours.stop()
    if row.case:
        peers.close(row.case)
    entry = dict(medians(results), **notes)
    if row.profile and entry:
        entry.update(row.profile.turn(a))
    if (row.profile or row.group == "scan") and entry:
        entry["copy_gbs"] = peers.copy(a)
    if entry.get("mb") and entry.get("copy_gbs"):
        entry["bound_ms"] = entry["mb"] / entry["copy_gbs"]
    return entry


def make_weights(a, names):
    """False if they cannot be written."""
    files = ["tokenizer.json"] + [f"{name}.safetensors" for name in names]
    if all(os.path.exists(os.path.join(a.weights, file)) for file in files):
        return True
    begin = time.monotonic()
    done = subprocess.run([sys.executable, os.path.join(HERE, "cuda_weights.py"), a.weights, *names], capture_output=True, text=True)
    if done.returncode:
        complain(f"random weights: {(done.stderr.strip() or '?').splitlines()[-1]}")
    elif time.monotonic() - begin > 5:
        complain(f"random weights in {a.weights}: {time.monotonic() - begin:.0f} s")
    return not done.returncode


def make_four_bits(a, row):
    """Files of 4 bits that a row reads, made of those of 16. False if they cannot be written."""
    wanted = [getattr(row.ours, name, "") for name in ("transformer", "text")]
    for name in (name for name in wanted if name.endswith("-q4_0.gguf")):
        path, begin = os.path.join(a.weights, name), time.monotonic()
        if os.path.exists(path):
            continue
        source = os.path.join(a.weights, name.replace("-q4_0.gguf", ".safetensors"))
        done = subprocess.run([program(a, "zenith"), "convert", source, path, "--dtype", "q4_0"], capture_output=True, text=True)
        if done.returncode:
            complain(f"{name}: {(done.stderr.strip() or '?').splitlines()[-1]}")
            return False
        complain(f"{name}: {time.monotonic() - begin:.0f} s")
    return True


def commit():
    """From git, or from the file COMMIT that a package may bring."""
    said = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    file = os.path.join(ROOT, "COMMIT")
    if os.path.exists(file):
        with open(file) as f:
            said = f.read().strip()
    return said or "unknown"


def choose(a):
    """Rows in the order in which --only names their groups."""
    chosen = a.only.split(",") if a.only else GROUPS
    unknown = [g for g in chosen if g not in GROUPS]
    if unknown:
        complain(f"{unknown[0]} is not known; there are {', '.join(GROUPS)}")
        sys.exit(2)
    return [row for group in chosen for row in ROWS if row.group == group]


def run_rows(a, rows, peers, about):
    for row in rows:
        if left(a) < 8:
            complain(f"{row.name}: not measured, {max(0, left(a)):.0f} s are left")
            continue
        if row.group in WEIGHTS and not (make_weights(a, WEIGHTS[row.group].split()) and make_four_bits(a, row)):
            continue
        try:
            entry = measure(a, row, peers)
        except Exception as error:  # a fault in one row is not one of the others
            complain(f"{row.name}: {type(error).__name__}: {error}")
            row.ours.stop()
            continue
        if not entry:
            continue
        entry = {"name": row.name, **entry, "rounds": row.rounds or a.rounds, "about": about}
        with open(a.log, "a") as f:
            f.write(json.dumps(entry) + "\n")
        print(line_of(entry), flush=True)
        for sentence in sentences_of(entry):
            print(sentence, flush=True)


def main():
    a = arguments()
    if a.table:
        print_table(a.table)
        return 0
    rows = choose(a)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # no process stays behind
    a.folder = tempfile.mkdtemp(prefix="zenith-bench-")
    peers = Peers(a)
    try:
        torch = f"{peers.about['device']}, PyTorch {peers.about['torch']}, cuDNN {peers.about['cudnn']}" if peers.about else "no PyTorch"
        about = f"{torch}, commit {commit()}, {time.strftime('%d %b %Y', time.gmtime())}"
        print(f"{about}. Medians of {a.rounds} rounds of {a.runs} runs, ms.\n")
        if not a.no_torch and not a.no_compile:
            cases = sorted((row.case for row in rows if row.case), key=longest_first)
            peers.compile(a, cases, min(a.compile_limit, left(a) - sum(SECONDS[row.group] for row in rows)))
        while a.after and not os.path.exists(a.after) and left(a) > 0:
            time.sleep(0.2)
        print(HEAD, flush=True)
        run_rows(a, rows, peers, about)
    finally:
        peers.stop()
        for row in rows:
            row.ours.stop()
        shutil.rmtree(a.folder, ignore_errors=True)
    complain(f"{a.used + time.monotonic() - START:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
