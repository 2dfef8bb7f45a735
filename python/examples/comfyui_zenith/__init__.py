"""ComfyUI nodes on Zenith. Copy this folder to ComfyUI/custom_nodes, install the package into ComfyUI's Python, restart.

    Zenith Decode    latent -> image, with any model of `zenith models` (taesd, taesdxl, taef1, ae, zenith-r, ...)
    Zenith Encode    image -> latent
    Zenith Restore   image -> image without noise, JPEG artefacts and blur

ComfyUI's images are float [N, H, W, 3] from 0 to 1. Its latents are a VAE's raw numbers; Zenith's are scaled. Those of
FLUX.2 are packed and normalised in ComfyUI: 128 channels at 1/16, which Zenith takes as they are.
"""

import numpy
import torch

import zenith


def _names(wanted):
    found = [info.path.rsplit("/", 1)[-1] for info in zenith.models() if wanted(info)]
    return sorted(set(found)) or ["zenith-r"]


def _to_images(images):
    """Arrays of uint8 for Zenith."""
    return [(image.clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy() for image in images]


def _from_images(images):
    return torch.stack([torch.from_numpy(numpy.asarray(image).astype(numpy.float32) / 255) for image in images])


def _family(codec):
    """The scale of the raw numbers, or None where both have the same."""
    family = codec.model.family
    return family if family and family not in ("none", "flux2") else None


class ZenithDecode:
    CATEGORY, FUNCTION, RETURN_TYPES = "zenith", "run", ("IMAGE",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"latent": ("LATENT",), "model": (_names(lambda m: m.has_decoder),)}}

    def run(self, latent, model):
        with zenith.Codec(model) as codec:
            images = []
            for one in latent["samples"].float().cpu():
                z = zenith.Latent.of(one, raw=_family(codec) is not None)
                if z.raw:
                    z.rescale(_family(codec), raw=False)
                images.append(codec.decode(z))
        return (_from_images(images),)


class ZenithEncode:
    CATEGORY, FUNCTION, RETURN_TYPES = "zenith", "run", ("LATENT",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"image": ("IMAGE",), "model": (_names(lambda m: m.has_encoder),)}}

    def run(self, image, model):
        with zenith.Codec(model) as codec:
            latents = [codec.encode(one) for one in _to_images(image)]
            if codec.model.family == "flux2":
                latents = [latent.packed() for latent in latents]
            for latent in latents:
                if _family(codec):
                    latent.rescale(_family(codec), raw=True)
        return ({"samples": torch.cat([torch.from_dlpack(latent).clone() for latent in latents])},)


class ZenithRestore:
    CATEGORY, FUNCTION, RETURN_TYPES = "zenith", "run", ("IMAGE",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"image": ("IMAGE",), "task": (["auto", "denoise", "impulse", "deblur", "jpeg"],)}}

    def run(self, image, task):
        with zenith.Restorer() as restorer:
            return (_from_images([restorer.restore(one, task=task) for one in _to_images(image)]),)


NODE_CLASS_MAPPINGS = {"ZenithDecode": ZenithDecode, "ZenithEncode": ZenithEncode, "ZenithRestore": ZenithRestore}
NODE_DISPLAY_NAME_MAPPINGS = {"ZenithDecode": "Zenith Decode", "ZenithEncode": "Zenith Encode",
                              "ZenithRestore": "Zenith Restore"}
