"""Images and latents."""

import ctypes
import os
from typing import Any, Literal, Optional, Sequence, Tuple, Union, cast

from . import _c
from ._arrays import Memory, View, of_bytes, view_of
from ._library import PathLike, check, lib, path_bytes, text, text_bytes

# ---- images ----


class Image(Memory):
    """An RGB image of the library: uint8 or uint16, [height, width, 3]. np.asarray(image) shows it without a copy."""

    def __init__(self, pointer: Any) -> None:
        self._pointer = pointer
        c = pointer.contents
        self._show(c.pixels, "H" if c.bits == 16 else "B", (c.height, c.width, 3))

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            lib.zn_image_free(self._pointer)

    @staticmethod
    def read(path: PathLike, *, background: Tuple[int, int, int] = (0, 0, 0)) -> "Image":
        """Reads PNG, JPEG, WebP and what else the library was built for; alpha is composited over `background`."""
        options = _c.zn_image_read_options(background=(ctypes.c_uint8 * 3)(*background))
        out = ctypes.POINTER(_c.zn_image)()
        check(lib.zn_image_read(path_bytes(path), ctypes.byref(options), ctypes.byref(out)))
        return Image(out)

    @property
    def width(self) -> int:
        return self._shape[1]

    @property
    def height(self) -> int:
        return self._shape[0]

    @property
    def bits(self) -> int:
        """8 or 16 for each sample."""
        return int(self._pointer.contents.bits)

    @property
    def grey(self) -> bool:
        """True if the three samples of each pixel are equal; PNG and JPEG then store one of them."""
        return bool(self._pointer.contents.grey)

    def write(self, path: PathLike, *, quality: int = 0, lossless: bool = False) -> None:
        """Writes .png, .jpg, .jpeg or .webp. The file appears whole or not at all."""
        write(path, self, quality=quality, lossless=lossless)

    def __repr__(self) -> str:
        return f"<zenith.Image {self.width}x{self.height}, {self.bits} bits>"


ImageLike = Union[Image, PathLike, Any]  # or any array [height, width, 3], [height, width] or [height, width, 1]


class Borrowed:
    """A zn_image in the memory of another object, valid as long as this."""

    def __init__(self, source: ImageLike) -> None:
        if isinstance(source, (str, os.PathLike)):
            source = Image.read(source)
        if isinstance(source, Image):
            self.owner: Any = source
            self.pointer = source._pointer
            return
        view, grey = _rgb(view_of(source))
        self.owner = view
        self.struct = _c.zn_image(view.shape[1], view.shape[0], 16 if view.kind == "H" else 8, view.address, grey)
        self.pointer = ctypes.pointer(self.struct)


def _rgb(view: View) -> Tuple[View, int]:
    """Contiguous RGB samples: those of the array if they are, and whether they are grey."""
    shape = view.shape
    if view.kind not in ("B", "H"):
        raise TypeError(f"an image must be uint8 or uint16, not of format '{view.kind}'")
    if len(shape) not in (2, 3) or 0 in shape or (len(shape) == 3 and shape[2] not in (1, 3)):
        hint = "; drop alpha with image[..., :3]" if len(shape) == 3 and shape[2] == 4 else ""
        raise ValueError(f"an image must be [height, width, 3] or [height, width], not {list(shape)}{hint}")
    view = view.contiguous()
    if len(shape) == 3 and shape[2] == 3:
        return view, 0
    size, kind = 2 if view.kind == "H" else 1, cast(Literal["B", "H"], view.kind)
    samples = memoryview(ctypes.string_at(view.address, shape[0] * shape[1] * size)).cast(kind)
    rgb = bytearray(3 * len(samples) * size)
    target = memoryview(rgb).cast(kind)
    for channel in range(3):
        target[channel::3] = samples
    return of_bytes(rgb, view.kind, (shape[0], shape[1], 3)), 1


def write(path: PathLike, image: ImageLike, *, quality: int = 0, lossless: bool = False) -> None:
    """Writes an image or an array as .png, .jpg, .jpeg or .webp."""
    borrowed = Borrowed(image)
    options = _c.zn_image_write_options(quality=quality, lossless=lossless)
    check(lib.zn_image_write(path_bytes(path), borrowed.pointer, ctypes.byref(options)))


class Difference:
    """How far an image is from its original."""

    def __init__(self, psnr: float, ssim: float, max_difference: int) -> None:
        self.psnr = psnr  #: dB; infinity for equal images
        self.ssim = ssim
        self.max_difference = max_difference  #: of two 8-bit values

    def __repr__(self) -> str:
        return f"<zenith.Difference {self.psnr:.2f} dB, SSIM {self.ssim:.4f}>"


def compare(original: ImageLike, result: ImageLike) -> Difference:
    """PSNR and SSIM of two images of one size."""
    a, b, d = Borrowed(original), Borrowed(result), _c.zn_image_difference()
    check(lib.zn_image_compare(a.pointer, b.pointer, ctypes.byref(d)))
    return Difference(d.psnr, d.ssim, d.max_difference)


def degrade(image: ImageLike, kind: str, *, seed: int = 0) -> Image:
    """The image with noise, blur or JPEG artefacts, such as "gaussian:25" or "gaussian:20+jpeg:90"."""
    borrowed, corruption = Borrowed(image), _c.zn_corruption()
    out = ctypes.POINTER(_c.zn_image)()
    check(lib.zn_corruption_parse(text_bytes(kind), ctypes.byref(corruption)))
    check(lib.zn_corrupt(borrowed.pointer, corruption, seed, ctypes.byref(out)))
    return Image(out)


# ---- latents ----


class Latent(Memory):
    """The output of an encoder: float32, [1, channels, height, width]; of a video [1, channels, frames, height, width].

    In memory the channels come last, so np.asarray(latent) and torch.from_dlpack(latent) have strides, and no copy is
    made. Numbers are scaled as diffusers' pipelines use them, unless `raw`.
    """

    def __init__(self, pointer: Any) -> None:
        self._pointer = pointer
        c = pointer.contents
        t, h, w, n = max(c.frames, 1), c.height, c.width, c.channels
        step = 4 * n
        address = ctypes.cast(c.data, ctypes.c_void_p).value or 0
        if c.frames > 1:
            self._show(address, "f", (1, n, t, h, w), (t * h * w * step, 4, h * w * step, w * step, step))
        else:
            self._show(address, "f", (1, n, h, w), (h * w * step, 4, w * step, step))

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            lib.zn_latent_free(self._pointer)

    @staticmethod
    def read(path: PathLike) -> "Latent":
        """Reads .safetensors, .npy, .latent (ComfyUI) or an RGBA PNG."""
        out = ctypes.POINTER(_c.zn_latent)()
        check(lib.zn_latent_read(path_bytes(path), ctypes.byref(out)))
        return Latent(out)

    @staticmethod
    def of(values: Any, *, image_size: Optional[Tuple[int, int]] = None, model: str = "", frames: int = 0,
           raw: bool = False) -> "Latent":
        """A latent with a copy of an array [C, H, W], [1, C, H, W] or [1, C, T, H, W] of float32.

        image_size: (width, height) of the image; None: what the decoder gives. frames: images of the video, if known.
        raw: the numbers are a VAE's own, not yet scaled for a generator.
        """
        if isinstance(values, Latent):
            return values
        view = view_of(values)
        if view.kind != "f":
            raise TypeError(f"a latent must be float32, not of format '{view.kind}'")
        shape = view.shape
        if len(shape) == 3:
            view, shape = View(view.address, "f", (1, *shape), (0, *view.strides), view.owner), (1, *shape)
        if len(shape) not in (4, 5) or shape[0] != 1 or 0 in shape:
            raise ValueError(f"a latent must be [C, H, W], [1, C, H, W] or [1, C, T, H, W], not {list(shape)}")
        packed = view.reordered((0, 2, 3, 1) if len(shape) == 4 else (0, 2, 3, 4, 1)).contiguous()
        count, t = shape[1], shape[2] if len(shape) == 5 else 1
        out: Any = ctypes.POINTER(_c.zn_latent)()
        for frame in range(t):
            one: Any = ctypes.POINTER(_c.zn_latent)()
            check(lib.zn_latent_new(shape[-1], shape[-2], count, ctypes.byref(one)))
            size = shape[-1] * shape[-2] * count * 4
            ctypes.memmove(one.contents.data, packed.address + frame * size, size)
            if t == 1:
                out = one
                break
            status = lib.zn_latent_append(ctypes.byref(out), one)
            lib.zn_latent_free(one)
            check(status)
        c = out.contents
        c.image_width, c.image_height = image_size or (0, 0)
        c.model, c.image_frames, c.raw = model.encode()[:63], frames, raw
        return Latent(out)

    def write(self, path: PathLike) -> None:
        """Writes .safetensors, .npy, .latent (raw ones) or .png (4 channels). The file appears whole or not at all."""
        check(lib.zn_latent_write(path_bytes(path), self._pointer))

    @staticmethod
    def write_batch(path: PathLike, latents: Sequence["Latent"]) -> None:
        """Several latents of one size as one file of shape [N, C, H, W]."""
        pointers = (ctypes.POINTER(_c.zn_latent) * len(latents))(*(latent._pointer for latent in latents))
        check(lib.zn_latent_write_batch(path_bytes(path), pointers, len(latents)))

    def rescale(self, family: str, *, raw: bool, vae: Optional[PathLike] = None) -> None:
        """Converts in place to the VAE's own numbers (raw) or back. family: "sd", "sdxl", "sd3", "flux", ...

        vae: for "flux2", the weights of FLUX.2's VAE, which alone have the statistics that its latents need.
        """
        if family == "flux2" and vae is not None:
            statistics = _c.zn_latent_statistics()
            check(lib.zn_latent_statistics_read(path_bytes(vae), ctypes.byref(statistics)))
            check(lib.zn_latent_normalise(self._pointer, ctypes.byref(statistics), raw))
        else:
            check(lib.zn_latent_rescale(self._pointer, text_bytes(family), raw))

    def packed(self) -> "Latent":
        """A copy as FLUX.2's generators use it, with 128 channels at 1/16 of the image instead of 32 at 1/8. Codecs of
        FLUX.2's latents decode both."""
        return self._repacked(True)

    def unpacked(self) -> "Latent":
        """The opposite of packed()."""
        return self._repacked(False)

    def _repacked(self, packed: bool) -> "Latent":
        out = ctypes.POINTER(_c.zn_latent)()
        check(lib.zn_latent_append(ctypes.byref(out), self._pointer))
        status = lib.zn_latent_pack(out, packed)
        if status != _c.ZN_OK:
            lib.zn_latent_free(out)
        check(status)
        return Latent(out)

    @property
    def raw(self) -> bool:
        return bool(self._pointer.contents.raw)

    @property
    def model(self) -> str:
        """Name of the architecture that made it; "" if unknown."""
        return text(self._pointer.contents.model)

    @property
    def image_size(self) -> Tuple[int, int]:
        """Width and height of the encoded image; 0 if unknown."""
        return self._pointer.contents.image_width, self._pointer.contents.image_height

    @property
    def frames(self) -> int:
        """Latent frames of a video; 1 for an image."""
        return max(int(self._pointer.contents.frames), 1)

    @property
    def image_frames(self) -> int:
        """Images of the encoded video; 0 if unknown."""
        return int(self._pointer.contents.image_frames)

    def __repr__(self) -> str:
        return f"<zenith.Latent {'x'.join(map(str, self._shape))}{' of ' + self.model if self.model else ''}>"
