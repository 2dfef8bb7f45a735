"""The Python package with PyTorch, which it does not need. Without PyTorch the test is skipped (exit 77), so that ctest
counts it as such: scripts/deps.sh does not install it.
"""

import sys
import unittest

from test_package import ROOT, Case, np, photo, zenith

try:
    import torch
except ImportError:
    print("skipped: Python has no torch")
    sys.exit(77)


class Torch(Case):
    def test_tensors(self):
        codec, pixels = zenith.Codec("random:taesd"), photo()
        latent = codec.encode(pixels)
        self.same(codec.encode(torch.from_numpy(pixels)), latent)
        tensor = torch.from_dlpack(latent)
        self.assertEqual(tensor.data_ptr(), latent._address)
        self.same(codec.decode(tensor.contiguous().requires_grad_()), codec.decode(tensor))

    def test_comfyui_nodes(self):
        sys.path.insert(0, str(ROOT / "python/examples"))
        import comfyui_zenith

        images = torch.from_numpy(np.stack([photo(48, 64), photo(48, 64, 2)]).astype(np.float32) / 255)
        (latent,) = comfyui_zenith.ZenithEncode().run(images, "zenith-r")
        (decoded,) = comfyui_zenith.ZenithDecode().run(latent, "zenith-r")
        codec = zenith.Codec("zenith-r")
        self.same((decoded[1] * 255).round().to(torch.uint8), codec.decode(codec.encode(photo(48, 64, 2))))
        self.assertEqual(comfyui_zenith.ZenithRestore().run(images, "auto")[0].shape, (2, 48, 64, 3))


if __name__ == "__main__":
    unittest.main(verbosity=2)
