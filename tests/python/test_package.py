"""The Python package against the program: the same bits, no copies, errors, progress and Ctrl-C.

$ZENITH_LIBRARY, $ZENITH_PROGRAM and $ZENITH_TINYMODEL name what was built. Without NumPy all is skipped (exit 77).
"""

import ctypes
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("skipped: Python has no numpy")
    sys.exit(1 if os.environ.get("ZENITH_MUST_RUN") else 77)

import zenith
from zenith import _arrays, _c

PROGRAM = os.environ["ZENITH_PROGRAM"]
CACHE = tempfile.TemporaryDirectory()
os.environ["XDG_CACHE_HOME"] = CACHE.name  # the user's may have prompts that other versions computed
ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "assets" / "demo.png"


def zenith_program(*arguments):
    subprocess.run([PROGRAM, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def photo(height=40, width=56, seed=1):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def same(self, a, b):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


class OnCuda:
    """A NumPy array that says it lies on a CUDA device, as objects do that speak nothing but DLPack."""

    def __init__(self, array, device, streams):
        self.array, self.device, self.streams = array, device, streams

    def __dlpack_device__(self):
        return (2, self.device)

    def __dlpack__(self, *, stream=None):
        self.streams.append(stream)
        capsule = self.array.__dlpack__()
        managed = ctypes.cast(_arrays._api.PyCapsule_GetPointer(capsule, b"dltensor"), ctypes.POINTER(_arrays._DLManagedTensor))
        managed.contents.tensor.device_type, managed.contents.tensor.device_id = 2, self.device
        return capsule


class Arrays(Case):
    def test_results_are_shown_without_a_copy(self):
        image = zenith.Image.read(DEMO)
        first, second = np.asarray(image), np.asarray(image)
        first[0, 0] = (1, 2, 3)
        self.assertEqual(list(second[0, 0]), [1, 2, 3])
        self.assertEqual(first.shape, (512, 512, 3))
        before = first.copy()
        del image, second
        gc.collect()
        self.same(first, before)  # the view keeps the image

    def test_inputs_are_not_copied(self):
        pixels = photo()
        pixels.setflags(write=False)
        self.assertEqual(_arrays.view_of(pixels).address, pixels.ctypes.data)
        self.assertEqual(zenith.images.Borrowed(pixels).struct.pixels, pixels.ctypes.data)
        self.assertEqual(zenith.images.Borrowed(memoryview(pixels)).struct.pixels, pixels.ctypes.data)

    def test_dlpack(self):
        latent = zenith.Codec("random:taesd", threads=1).encode(photo())
        taken = np.from_dlpack(latent)
        self.assertEqual(taken.ctypes.data, latent._address)
        self.same(taken, latent)
        self.assertEqual(len(_arrays._exported), 1)
        del taken
        latent.__dlpack__()  # a capsule that nobody takes
        gc.collect()
        self.assertEqual(len(_arrays._exported), 0)

        class OnlyDLPack:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self):
                return self.array.__dlpack__()

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        pixels = photo()
        self.assertEqual(_arrays.view_of(OnlyDLPack(pixels)).address, pixels.ctypes.data)
        self.same(zenith.Codec("random:taesd").encode(OnlyDLPack(pixels)), latent)

    def test_a_tensor_with_its_own_copy_to_the_cpu(self):
        pixels = photo()

        class WithCpu:
            def __dlpack__(self):
                raise AssertionError

            def __dlpack_device__(self):
                return (10, 0)

            def cpu(self):
                return pixels

        self.assertEqual(_arrays._of_dlpack(WithCpu()).address, pixels.ctypes.data)

    def test_a_tensor_of_cuda_is_read_by_one_copy(self):
        calls = []

        class Driver:
            """Memory of the CPU in the place of a device's; cuMemcpyDtoH is the real work."""

            def __getattr__(self, name):
                def call(*arguments):
                    calls.append((name, arguments))
                    if name == "cuMemcpyDtoH_v2":
                        ctypes.memmove(*arguments)
                    return 0
                return call

        pixels, streams = photo(40, 56), []
        expected = zenith.Codec("random:taesd", threads=1).encode(np.ascontiguousarray(pixels[::2, 1::3]))
        with unittest.mock.patch.object(_arrays._cuda, "_libcuda", Driver()):
            tensor = OnCuda(pixels[::2, 1::3], 3, streams)
            self.same(zenith.Codec("random:taesd", threads=1).encode(tensor), expected)
            with self.assertRaises(TypeError):  # the sentence about the numbers, not one about the device
                zenith.Codec("random:taesd").decode(OnCuda(np.zeros((1, 4, 8, 8)), 0, []))
        self.assertEqual(streams, [1])  # the legacy default stream, on which the copy is made
        copies = [arguments for name, arguments in calls if name == "cuMemcpyDtoH_v2"]
        self.assertEqual(copies[0][1:], (pixels[::2, 1::3].ctypes.data, pixels.nbytes - pixels.strides[0] - 3))  # from the first number to the last
        self.assertEqual([arguments[1] for name, arguments in calls if name == "cuDeviceGet"][0], 3)
        names = [name for name, _ in calls]
        self.assertEqual(names.count("cuDevicePrimaryCtxRetain"), names.count("cuDevicePrimaryCtxRelease_v2"))
        self.assertEqual(names.count("cuCtxPushCurrent_v2"), names.count("cuCtxPopCurrent_v2"))

    def test_a_tensor_of_cuda_that_cannot_be_read(self):
        class Broken:
            def __getattr__(self, name):
                return lambda *arguments: 700 if name == "cuMemcpyDtoH_v2" else 0

        with unittest.mock.patch.object(_arrays._cuda, "_libcuda", Broken()):
            with self.assertRaisesRegex(RuntimeError, "cannot be read: .* bytes: error 700"):
                _arrays.view_of(OnCuda(photo(), 0, []))
        with unittest.mock.patch.object(_arrays._cuda, "_driver", side_effect=OSError("no libcuda")):
            with self.assertRaisesRegex(ValueError, "no libcuda.*copy it to the CPU first"):
                _arrays.view_of(OnCuda(photo(), 0, []))

    def test_a_copy_of_a_result_on_cuda(self):
        calls, memory = [], {}

        class Driver:
            """Memory of the CPU in the place of a device's."""

            def __getattr__(self, name):
                def call(*arguments):
                    calls.append(name)
                    if name == "cuMemAlloc_v2":
                        block = (ctypes.c_char * arguments[1])()
                        memory[ctypes.addressof(block)] = block
                        arguments[0]._obj.value = ctypes.addressof(block)
                    if name == "cuMemFree_v2":
                        del memory[arguments[0]]
                    if name == "cuMemcpyHtoD_v2":
                        ctypes.memmove(*arguments)
                    return 0
                return call

        class OnTheCpu:
            """The capsule of a CUDA tensor, said to be on the CPU, so that NumPy can look into it."""

            def __init__(self, capsule):
                self.capsule = capsule

            def __dlpack_device__(self):
                return (1, 0)

            def __dlpack__(self, **_):
                managed = ctypes.cast(_arrays._api.PyCapsule_GetPointer(self.capsule, b"dltensor"),
                                      ctypes.POINTER(_arrays._DLManagedTensor))
                managed.contents.tensor.device_type = 1
                return self.capsule

        latent = zenith.Codec("random:taesd", threads=1).encode(photo())
        with unittest.mock.patch.object(_arrays._cuda, "_libcuda", Driver()):
            copy = latent.cuda(3)
            self.assertEqual(copy.__dlpack_device__(), (2, 3))
            self.assertEqual(copy.shape, latent.shape)
            taken = np.from_dlpack(OnTheCpu(copy.__dlpack__(stream=1)))
            self.assertNotEqual(taken.ctypes.data, latent._address)
            asked = np.from_dlpack(OnTheCpu(latent.__dlpack__(dl_device=(2, 1))))
            with self.assertRaisesRegex(BufferError, "another device"):
                copy.__dlpack__(dl_device=(2, 1))
            del copy
            gc.collect()
            self.same(taken, latent)  # the tensors keep the memory
            self.same(asked, latent)
            self.assertEqual(len(memory), 2)
            del taken, asked
            gc.collect()
        self.assertEqual(memory, {})
        self.assertIn("cuCtxSynchronize", calls)
        self.assertEqual(calls.count("cuDevicePrimaryCtxRetain"), calls.count("cuDevicePrimaryCtxRelease_v2"))
        self.assertEqual(calls.count("cuCtxPushCurrent_v2"), calls.count("cuCtxPopCurrent_v2"))

    def test_a_result_that_cannot_be_copied_to_a_device(self):
        latent = zenith.Codec("random:taesd", threads=1).encode(photo())

        class Full:
            def __getattr__(self, name):
                return lambda *arguments: 2 if name == "cuMemAlloc_v2" else 0

        with unittest.mock.patch.object(_arrays._cuda, "_libcuda", Full()):
            with self.assertRaisesRegex(RuntimeError, "cannot be copied .* bytes: error 2"):
                latent.cuda()
        with unittest.mock.patch.object(_arrays._cuda, "_driver", side_effect=OSError("no libcuda")):
            with self.assertRaisesRegex(BufferError, "CPU's memory.*no libcuda"):
                latent.__dlpack__(dl_device=(2, 0))
        with self.assertRaisesRegex(BufferError, "CPU's memory"):
            latent.__dlpack__(dl_device=(10, 0))

    def test_pillow_array_interface(self):
        pixels = photo()

        class Picture:
            __array_interface__ = {"version": 3, "shape": pixels.shape, "typestr": "|u1", "data": pixels.tobytes()}

        codec = zenith.Codec("random:taesd")
        self.same(codec.encode(Picture()), codec.encode(pixels))

    def test_any_layout(self):
        codec, pixels = zenith.Codec("random:taesd"), photo()
        wide = np.zeros((40, 112, 4), np.uint8)
        wide[:, ::2, :3] = pixels
        self.same(codec.encode(wide[:, ::2, :3]), codec.encode(pixels))
        self.same(codec.encode(np.flipud(pixels)), codec.encode(np.flipud(pixels).copy()))
        latent = np.asarray(codec.encode(pixels))
        decoded = codec.decode(latent)
        self.same(codec.decode(np.ascontiguousarray(latent)), decoded)
        self.same(codec.decode(latent[0]), decoded)
        grey = pixels[..., 0]
        self.same(codec.encode(grey), codec.encode(np.repeat(grey[..., None], 3, 2)))
        self.assertTrue(codec.decode(codec.encode(grey)).grey)

    def test_wrong_arrays_are_one_sentence(self):
        codec = zenith.Codec("random:taesd")
        for wrong, kind, words in (
            (np.zeros((4, 4, 3)), TypeError, "uint8 or uint16"),
            (np.zeros((4, 4, 4), np.uint8), ValueError, r"drop alpha with image\[\.\.\., :3\]"),
            (np.zeros((0, 4, 3), np.uint8), ValueError, "height, width, 3"),
            (7, TypeError, "an array is needed .* not int"),
        ):
            with self.assertRaisesRegex(kind, words):
                codec.encode(wrong)
        with self.assertRaisesRegex(ValueError, "a latent must be"):
            codec.decode(np.zeros((2, 4, 3, 3), np.float32))
        with self.assertRaisesRegex(zenith.Invalid, "channels"):
            codec.decode(np.zeros((5, 3, 3), np.float32))


class AgainstTheProgram(Case):
    def test_codec(self):
        codec = zenith.Codec("zenith-r", threads=2)
        zenith_program("encode", DEMO, "-m", "zenith-r", "-o", self.folder / "z.safetensors")
        zenith_program("decode", self.folder / "z.safetensors", "-o", self.folder / "i.png")
        latent = codec.encode(np.asarray(zenith.Image.read(DEMO)))
        self.same(latent, zenith.Latent.read(self.folder / "z.safetensors"))
        latent.write(self.folder / "own.safetensors")
        self.assertEqual((self.folder / "own.safetensors").read_bytes(), (self.folder / "z.safetensors").read_bytes())
        decoded = codec.decode(latent)
        decoded.write(self.folder / "own.png")
        self.assertEqual((self.folder / "own.png").read_bytes(), (self.folder / "i.png").read_bytes())
        self.assertEqual(codec.decode(latent, bits=16).bits, 16)
        self.assertGreater(zenith.compare(DEMO, decoded).psnr, 30)

    def test_packed_latents_of_flux2(self):
        zenith.write(self.folder / "a.png", photo())
        for name, more in (("plain", ()), ("packed", ("--packed",))):
            zenith_program("encode", self.folder / "a.png", "-m", "random:taef2", "-q", *more, "-o",
                           self.folder / f"{name}.safetensors")
        codec = zenith.Codec("random:taef2")
        latent = codec.encode(photo())
        packed = latent.packed()
        self.same(packed, zenith.Latent.read(self.folder / "packed.safetensors"))
        self.same(packed.unpacked(), zenith.Latent.read(self.folder / "plain.safetensors"))
        self.same(codec.decode(packed), codec.decode(latent))

        latent = codec.encode(photo(32, 48))  # without repeated cells
        packed, kept = latent.packed(), np.asarray(latent).copy()
        mean, variance = np.linspace(-1, 1, 128), np.linspace(0, 2, 128)
        header = json.dumps({f"bn.running_{name}": {"dtype": "F64", "shape": [128], "data_offsets": [1024 * i, 1024 * i + 1024]}
                             for i, name in enumerate(("mean", "var"))}).encode()
        vae = self.folder / "vae.safetensors"
        vae.write_bytes(len(header).to_bytes(8, "little") + header + mean.tobytes() + variance.tobytes())
        latent.rescale("flux2", raw=True, vae=vae)
        numbers = np.asarray(packed) * np.sqrt(variance + 1e-4)[:, None, None] + mean[:, None, None]
        np.testing.assert_allclose(np.asarray(latent.packed()), numbers, rtol=1e-5, atol=1e-5)
        latent.rescale("flux2", raw=False, vae=vae)
        np.testing.assert_allclose(np.asarray(latent), kept, rtol=1e-4, atol=1e-5)
        with self.assertRaisesRegex(zenith.Error, "bn.running_mean"):
            latent.rescale("flux2", raw=True)
        with self.assertRaisesRegex(ValueError, "only FLUX.2's latents"):
            zenith.Codec("random:taesd").encode(photo()).packed()

    def test_restorer(self):
        noisy = zenith.degrade(photo(64, 80), "gaussian:25", seed=3)
        noisy.write(self.folder / "noisy.png")
        zenith_program("restore", self.folder / "noisy.png", "--task", "denoise", "-o", self.folder / "clean.png")
        self.same(zenith.Restorer().restore(noisy, task="denoise"), zenith.Image.read(self.folder / "clean.png"))
        zenith_program("restore", self.folder / "noisy.png", "--strength", "0.4", "-o", self.folder / "softly.png")
        self.same(zenith.Restorer().restore(noisy, strength=0.4), zenith.Image.read(self.folder / "softly.png"))
        with self.assertRaisesRegex(ValueError, "strength must be a number from 0 to 1"):
            zenith.Restorer().restore(noisy, strength=2)
        with self.assertRaisesRegex(ValueError, "task must be one of auto, denoise"):
            zenith.Restorer().restore(noisy, task="sharpen")

    def test_upscaler(self):
        zenith.write(self.folder / "small.png", photo(24, 32))
        zenith_program("upscale", self.folder / "small.png", "-m", "zenith-restore", "-o", self.folder / "large.png")
        large = zenith.Upscaler("zenith-restore").upscale(photo(24, 32))
        self.same(large, zenith.Image.read(self.folder / "large.png"))
        self.assertEqual(large.shape, (48, 64, 3))

    def test_video(self):
        frames = [photo(32, 48, n) for n in range(5)]
        for n, frame in enumerate(frames):
            zenith.write(self.folder / f"f{n}.png", frame)
        video = zenith.Video("random:taew2_1")
        inputs = [self.folder / f"f{n}.png" for n in range(5)]
        zenith_program("encode", "-q", "--clip", *inputs, "-m", "random:taew2_1", "-o", self.folder / "clip.safetensors")
        latent = video.encode(frames)
        self.same(latent, zenith.Latent.read(self.folder / "clip.safetensors"))
        zenith_program("decode", "-q", self.folder / "clip.safetensors", "-m", "random:taew2_1", "-o", self.folder / "out.png")
        decoded = list(video.decode(latent))
        self.assertEqual(len(decoded), 5)
        for n, frame in enumerate(decoded):
            self.same(frame, zenith.Image.read(self.folder / f"out_{n + 1:04}.png"))
        latent._pointer.contents.image_frames = 3  # as Wan's encoder, which takes one image first, records them
        self.assertEqual(len(list(video.decode(latent))), 3)

    def test_video_by_an_image_autoencoder(self):
        frames = [photo(32, 48, n) for n in range(3)]
        video, codec = zenith.Video("zenith-r"), zenith.Codec("zenith-r")
        latent = video.encode(frames)
        self.assertEqual(latent.frames, 3)
        for frame, decoded in zip(frames, video.decode(latent)):
            self.same(decoded, codec.decode(codec.encode(frame)))
        with self.assertRaisesRegex(zenith.Error, "not an autoencoder"):
            zenith.Video("zenith-restore")

    def test_generator(self):
        subprocess.run([os.environ["ZENITH_TINYMODEL"], str(self.folder / "model")], check=True, stdout=subprocess.DEVNULL)
        zenith_program("generate", "a red fox", "-m", self.folder / "model", "--size", "48x32", "--steps", "2", "--seed",
                       "7", "-q", "-o", self.folder / "fox.png")
        seen = []
        generator = zenith.Generator(self.folder / "model", cache="")
        image = generator.generate("a red fox", width=48, height=32, steps=2, seed=7, preview=True, progress=seen.append)
        self.same(image, zenith.Image.read(self.folder / "fox.png"))
        self.assertEqual([p.step for p in seen if p.preview][-1], 2)
        with self.assertRaises(zenith.Cancelled):
            generator.generate("a red fox", width=48, height=32, progress=lambda p: True)
        with self.assertRaisesRegex(zenith.Invalid, "multiple"):
            generator.generate("a red fox", width=50, height=32)
        pair = generator.generate_batch(["a red fox", "a dog"], seeds=[7, 8], width=48, height=32, steps=2)
        self.same(pair[0], image)
        self.assertEqual(len(pair), 2)
        with self.assertRaises(ValueError):
            generator.generate_batch(["a red fox"], seeds=[1, 2])

    def test_bundled_generator(self):
        """Without a name it is the one that comes with the library, with its own size."""
        image = zenith.Generator(cache="").generate("a portrait of a smiling woman", steps=2, seed=1)
        zenith_program("generate", "a portrait of a smiling woman", "--steps", "2", "--seed", "1", "-q", "-o",
                       self.folder / "woman.png")
        self.assertEqual((image.width, image.height), (128, 128))
        self.same(image, zenith.Image.read(self.folder / "woman.png"))

    def test_training_evaluation_and_diffusion(self):
        (self.folder / "images").mkdir()
        for n in range(4):
            zenith.write(self.folder / "images" / f"{n}.png", photo(64, 64, n))
        common = "batch: 2\nsteps: 3\nwarmup: 0\nlr: 1e-2\nema: 0\nheld_out: 0\nmodel: diffae-celeba64\n"
        (self.folder / "auto.yaml").write_text(common + "task: diffuse\nwidth: 2\nlatent: 16\nsize: 64\n")
        (self.folder / "latent.yaml").write_text(common + "task: imagine\n")
        steps = []
        result = zenith.train(self.folder / "auto.yaml", self.folder / "images", self.folder / "auto",
                              progress=lambda p: steps.append(p.step))
        self.assertEqual((result.steps, steps), (3, [1, 2, 3]))
        zenith_program("train", "-q", self.folder / "auto.yaml", "--data", self.folder / "images", "-o", self.folder / "same")
        name = "model.safetensors"
        self.assertEqual((self.folder / "auto" / name).read_bytes(), (self.folder / "same" / name).read_bytes())
        zenith.train(self.folder / "latent.yaml", self.folder / "images", self.folder / "net", start=self.folder / "auto")

        d = zenith.DiffAE(self.folder / "auto", latent=self.folder / "net" / name)
        zenith_program("sample", "-m", self.folder / "auto", "--latent", self.folder / "net" / name, "--steps", "5",
                       "--latent-steps", "10", "--seed", "4", "-q", "-o", self.folder / "s.png")
        self.same(d.sample(seed=4, steps=5, latent_steps=10)[0], zenith.Image.read(self.folder / "s.png"))
        zenith_program("reconstruct", self.folder / "images" / "1.png", "-m", self.folder / "auto", "--encode-steps",
                       "10", "--steps", "5", "-q", "-o", self.folder / "r.png")
        face = d.fit(self.folder / "images" / "1.png")
        condition = d.encode(face)
        noise = d.invert(face, condition, steps=10)
        self.same(d.render(np.asarray(condition), noise, steps=5)[0], zenith.Image.read(self.folder / "r.png"))
        a, b = d.between((condition, noise), (condition, noise), 0)
        self.same(a, condition)
        with self.assertRaisesRegex(ValueError, "the noise must have 12288 numbers, not 3"):
            d.render(condition, np.zeros(3, np.float32))

    def test_edits(self):
        (self.folder / "images").mkdir()
        for n in range(4):
            zenith.write(self.folder / "images" / f"{n}.png", photo(64, 64, n))
        grey = self.folder / "grey.png"
        zenith.write(grey, photo(64, 64, 9)[:, :, 0])
        (self.folder / "labels.csv").write_text("file,Smiling\n0.png,1\n1.png,0\n2.png,1\n3.png,0\n")
        common = "batch: 2\nsteps: 1\nwarmup: 0\nlr: 1e-2\nema: 0\nheld_out: 0\nmodel: diffae-celeba64\n"
        last = None
        for task in ("diffuse\nwidth: 2\nlatent: 16\nsize: 64", "classify", "imagine\nwidth: 32"):
            name, start = task.split()[0], {} if last is None else {"start": last}
            (self.folder / f"{name}.yaml").write_text(common + f"task: {task}\n")
            last = self.folder / name
            labels = {"labels": self.folder / "labels.csv"} if name == "classify" else {}
            zenith.train(self.folder / f"{name}.yaml", self.folder / "images", last, **start, **labels)

        d = zenith.DiffAE(last)
        for photo_, ways in ((self.folder / "images" / "1.png", [[], ["--imagine"]]), (grey, [["--imagine"]])):
            for way in ways:
                zenith_program("edit", photo_, "-m", last, "--attribute", "Smiling", "--amount=-0.5,0,1", *way,
                               "--encode-steps", "3", "--steps", "3", "--seed", "4", "-q", "-o", f"{self.folder}/out/")
                made = d.edit(photo_, "Smiling", -0.5, 0, 1, imagine=bool(way), encode_steps=3, steps=3, seed=4)
                self.assertEqual(len(made), 3)
                for n, image in enumerate(made):
                    self.same(image, zenith.Image.read(self.folder / "out" / f"000{n + 1}.png"))
                self.assertEqual(made[0].grey, photo_ is grey)
        self.same(d.edit(grey, "Smiling", imagine=True, encode_steps=3, steps=3, seed=4)[0], made[2])
        self.same(d.edit(grey, "Smiling", encode_steps=0, steps=3)[0], d.edit(grey, "0", 0.3, encode_steps=0, steps=3)[0])
        calls = []
        with self.assertRaisesRegex(zenith.Error, "there is no attribute 'Old'"):
            zenith.DiffAE(last, progress=calls.append).edit(grey, "Old")
        with self.assertRaisesRegex(zenith.Unsupported, "has no latent net"):
            zenith.DiffAE(self.folder / "classify", progress=calls.append).edit(grey, "Smiling", imagine=True)
        self.assertEqual(calls, [], "before the minutes that inverting takes")

    def test_evaluate(self):
        (self.folder / "images").mkdir()
        zenith.write(self.folder / "images" / "a.png", photo(64, 64))
        (self.folder / "images" / "b.png").write_bytes(b"no image")
        lost = []
        result = zenith.evaluate("zenith-r", self.folder / "images", output=self.folder / "own.csv", lpips="none",
                                 skipped=lambda name, why: lost.append(name))
        image = zenith.Codec("zenith-r")
        expected = zenith.compare(photo(64, 64), image.decode(image.encode(photo(64, 64))))
        self.assertEqual(result.groups[0].model.psnr, expected.psnr)
        self.assertEqual((result.failed, len(result.rows), len(lost)), (1, 1, 1))
        self.assertTrue((self.folder / "own.csv").read_text().startswith("image"))


class Examples(Case):
    def test_notebook(self):
        names = {}
        for cell in json.loads((ROOT / "python/examples/zenith.ipynb").read_text())["cells"]:
            if cell["cell_type"] == "code":
                exec(cell["source"].replace("assets/demo.png", str(DEMO)), names)
        self.assertGreater(zenith.compare(names["image"], names["clean"]).psnr,
                           zenith.compare(names["image"], names["noisy"]).psnr + 5)


class Declarations(Case):
    def test_dataclasses_have_every_field_of_their_struct(self):
        for own, struct in ((zenith.ModelInfo, _c.zn_model_info), (zenith.TrainProgress, _c.zn_train_progress),
                            (zenith.TrainResult, _c.zn_train_result), (zenith.DistillResult, _c.zn_distill_result),
                            (zenith.GenerationProgress, _c.zn_generation_progress)):
            fields = [field[0] for field in struct._fields_ if field[0] != "size"]
            self.assertEqual(sorted(own.__annotations__), sorted(fields), own.__name__)


class Errors(Case):
    def test_the_sentence_of_the_library(self):
        with self.assertRaises(zenith.NotFound) as caught:
            zenith.Image.read(self.folder / "missing.png")
        self.assertIn("missing.png", str(caught.exception))
        self.assertIsInstance(caught.exception, FileNotFoundError)
        with self.assertRaisesRegex(zenith.Error, "nothing-of-this-name"):
            zenith.Codec("nothing-of-this-name")
        with self.assertRaisesRegex(zenith.Unsupported, "single images have no fp8, which is for video"):
            zenith.Video("zenith-r", precision="fp8")
        with self.assertRaisesRegex(zenith.Unsupported, "diffusion autoencoders have no fp8"):
            zenith.DiffAE("diffae-faces", precision="fp8")
        with self.assertRaisesRegex(ValueError, "precision must be one of f32, bf16, f16, int8, fp8, not 'half'"):
            zenith.Codec("random:taesd", precision="half")
        for number in ({"threads": 2**32 + 1}, {"memory": -1}, {"tile": 2**32 + 64}):
            with self.assertRaisesRegex(ValueError, f"{next(iter(number))}: .* is out of range"):
                zenith.Codec("random:taesd", **number)
        with self.assertRaisesRegex(ValueError, "has a NUL"):
            zenith.Codec("random:taesd\0x")
        with self.assertRaisesRegex(ValueError, "at least one image"):
            zenith.Video("random:taesd").encode([])
        with self.assertRaisesRegex(TypeError, "a list of texts"):
            zenith.Generator.generate_batch(None, "a red fox")

    def test_closed(self):
        with zenith.Codec("random:taesd") as codec:
            codec.encode(photo())
        with self.assertRaisesRegex(ValueError, "closed"):
            codec.encode(photo())


class Progress(Case):
    def test_fractions_cancel_and_exceptions(self):
        seen = []
        zenith.Codec("random:taesd", progress=seen.append).encode(photo(256, 256))
        self.assertEqual(seen, sorted(seen))
        self.assertTrue(seen and 0 <= seen[0] and seen[-1] <= 1)
        with self.assertRaises(zenith.Cancelled):
            zenith.Codec("random:taesd", progress=lambda fraction: True).encode(photo(256, 256))

        def broken(fraction):
            raise KeyError("mine")

        codec = zenith.Codec("random:taesd", progress=broken)
        with self.assertRaisesRegex(KeyError, "mine"):
            codec.encode(photo(256, 256))

    def test_interrupt_saves_a_run_and_it_resumes(self):
        (self.folder / "images").mkdir()
        for n in range(4):
            zenith.write(self.folder / "images" / f"{n}.png", photo(64, 64, n))
        (self.folder / "r.yaml").write_text("model: taesd\nbatch: 2\nsize: 64\nsteps: 100000\nheld_out: 0\n")
        # Jobs in the background of a script start with SIGINT ignored, and Python leaves it so.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        timer = threading.Timer(0, os.kill, (os.getpid(), signal.SIGINT))

        def progress(p):
            if p.step == 2:
                timer.start()

        with self.assertRaises(KeyboardInterrupt):
            zenith.train(self.folder / "r.yaml", self.folder / "images", self.folder / "run", progress=progress)
        timer.join()
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        self.assertTrue((self.folder / "run" / "checkpoint.safetensors").exists())
        done = []
        with self.assertRaises(zenith.Cancelled):
            zenith.train(None, self.folder / "images", self.folder / "run", resume=True,
                         progress=lambda p: done.append(p.step) or True)
        self.assertGreaterEqual(done[0], 3)

    def test_the_gil_is_not_held(self):
        codec, counted, finished = zenith.Codec("random:taesd", threads=1), [0], threading.Event()

        def count():
            while not finished.is_set():
                counted[0] += 1
                time.sleep(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        try:
            before = counted[0]
            codec.encode(photo(512, 512))
            during = counted[0] - before
        finally:
            finished.set()
            thread.join()
        self.assertGreater(during, 3)

    def test_closed_model(self):
        """What was made with a model outlives its close()."""
        expected = zenith.Codec("random:taesd").encode(photo(64, 64))
        model = zenith.Model("random:taesd")
        first, second = zenith.Codec(model), zenith.Codec(model)
        model.close()
        model.close()
        first.close()
        first.close()
        self.same(second.encode(photo(64, 64)), expected)
        with self.assertRaisesRegex(ValueError, "closed"):
            zenith.Codec(model)
        self.assertTrue(model._borrowed)
        second.close()
        self.assertFalse(model._borrowed)
        with zenith.Model("random:taesd") as model:
            codec = zenith.Codec(model)
        self.same(codec.encode(photo(64, 64)), expected)

    def test_threads(self):
        context = zenith.Context(1)
        expected = zenith.Codec("random:taesd").encode(photo(64, 64))
        model, results = zenith.Model("random:taesd"), [None] * 4

        def work(n):
            results[n] = zenith.Codec(model, context=context).encode(photo(64, 64))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in results:
            self.same(result, expected)


if __name__ == "__main__":
    unittest.main(verbosity=2)
