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

    @unittest.skipUnless(torch.cuda.is_available(), "no CUDA device")
    def test_tensors_on_cuda(self):
        codec, pixels = zenith.Codec("random:taesd"), photo()
        latent = codec.encode(torch.from_numpy(pixels).cuda())
        self.same(latent, codec.encode(pixels))
        tensor = torch.from_dlpack(latent.cuda())
        self.assertEqual(tensor.device, torch.device("cuda", 0))
        self.same(tensor.cpu(), latent)
        self.same((2 * tensor).cpu(), 2 * np.asarray(latent))
        image = codec.decode(tensor)
        self.same(image, codec.decode(latent))
        self.same(torch.from_dlpack(image.cuda()).cpu(), image)
        try:
            there = zenith.Codec("random:taesd", device="cuda", precision="f32")
        except zenith.Unsupported as problem:
            if "no CUDA" not in str(problem):
                raise
            self.skipTest(str(problem))  # a build without CUDA, which has read PyTorch's tensors all the same
        with there:
            near = torch.from_dlpack(there.encode(torch.from_numpy(pixels).cuda()).cuda())
            self.assertLess(float((near - tensor).norm() / tensor.norm()), 1e-4)

    def test_comfyui_nodes(self):
        sys.path.insert(0, str(ROOT / "python/examples"))
        import comfyui_zenith

        images = torch.from_numpy(np.stack([photo(48, 64), photo(48, 64, 2)]).astype(np.float32) / 255)
        for model, shape in ("zenith-r", (2, 16, 6, 8)), ("zenith-f2", (2, 128, 3, 4)):
            (latent,) = comfyui_zenith.ZenithEncode().run(images, model)
            self.assertEqual(latent["samples"].shape, shape)
            (decoded,) = comfyui_zenith.ZenithDecode().run(latent, model)
            codec = zenith.Codec(model)
            self.same((decoded[1] * 255).round().to(torch.uint8), codec.decode(codec.encode(photo(48, 64, 2))))
        self.assertEqual(comfyui_zenith.ZenithRestore().run(images, "auto")[0].shape, (2, 48, 64, 3))


if __name__ == "__main__":
    unittest.main(verbosity=2)
