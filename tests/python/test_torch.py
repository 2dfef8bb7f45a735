"""Tests of the Python package with packages that it does not need: test_optional.py torch|mypy.

Without the package the test is skipped (exit 77), so that ctest counts it as such.
"""

import importlib
import sys
import unittest

from test_package import ROOT, Case, np, photo, zenith

PACKAGE = sys.argv.pop(1)
try:
    importlib.import_module(PACKAGE)
except ImportError:
    print(f"skipped: Python has no {PACKAGE}")
    sys.exit(77)


class Torch(Case):
    def test_tensors(self):
        import torch

        codec, pixels = zenith.Codec("random:taesd"), photo()
        latent = codec.encode(pixels)
        self.same(codec.encode(torch.from_numpy(pixels)), latent)
        tensor = torch.from_dlpack(latent)
        self.assertEqual(tensor.data_ptr(), latent._address)
        self.same(codec.decode(tensor.contiguous().requires_grad_()), codec.decode(tensor))

    def test_comfyui_nodes(self):
        import torch

        sys.path.insert(0, str(ROOT / "python/examples"))
        import comfyui_zenith

        images = torch.from_numpy(np.stack([photo(48, 64), photo(48, 64, 2)]).astype(np.float32) / 255)
        (latent,) = comfyui_zenith.ZenithEncode().run(images, "zenith-r")
        (decoded,) = comfyui_zenith.ZenithDecode().run(latent, "zenith-r")
        codec = zenith.Codec("zenith-r")
        self.same((decoded[1] * 255).round().to(torch.uint8), codec.decode(codec.encode(photo(48, 64, 2))))
        self.assertEqual(comfyui_zenith.ZenithRestore().run(images, "auto")[0].shape, (2, 48, 64, 3))


class Types(Case):
    def test_types(self):
        import mypy.api

        python = str(ROOT / "python")
        out, _, status = mypy.api.run(["--config-file", f"{python}/pyproject.toml", "--cache-dir", str(self.folder),
                                       f"{python}/zenith"])
        self.assertEqual(status, 0, out)


if __name__ == "__main__":
    unittest.main(verbosity=2, defaultTest={"torch": "Torch", "mypy": "Types"}[PACKAGE])
