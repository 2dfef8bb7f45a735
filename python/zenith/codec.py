"""Codecs, restorers and video autoencoders."""

import ctypes
from typing import Any, Iterable, Iterator, List

from . import _c
from ._library import lib, text
from .images import Borrowed, Image, ImageLike, Latent
from .models import Compute, Computing, ModelLike, model_of, named

TASKS = {"auto": _c.ZN_TASK_AUTO, "denoise": _c.ZN_TASK_DENOISE, "impulse": _c.ZN_TASK_IMPULSE,
         "deblur": _c.ZN_TASK_DEBLUR, "jpeg": _c.ZN_TASK_JPEG}


class _ImageCodec(Computing):
    def __init__(self, model: ModelLike, **compute: Any) -> None:
        opened, how = model_of(model), Compute(**compute)
        out = ctypes.POINTER(_c.zn_codec)()
        how.call.run(lib.zn_codec_new, opened.pointer, how.pointer, ctypes.byref(out))
        super().__init__(out, lib.zn_codec_free, opened, how)

    @property
    def plan(self) -> str:
        """How the last call was computed: segments, bands or tiles, memory."""
        return text(lib.zn_codec_plan(self.pointer))


class Codec(_ImageCodec):
    """Encodes images to latents and decodes them.

        codec = zenith.Codec("zenith-r")
        latent = codec.encode("photo.jpg")
        codec.decode(latent).write("copy.png")

    Options: those of zenith.models.Compute.
    """

    def encode(self, image: ImageLike) -> Latent:
        """The latent of an image: a zenith.Image, a path, or an array [height, width, 3] of uint8 or uint16."""
        borrowed, out = Borrowed(image), ctypes.POINTER(_c.zn_latent)()
        self._run(lib.zn_encode, borrowed.pointer, ctypes.byref(out))
        return Latent(out)

    def decode(self, latent: Any, *, bits: int = 8) -> Image:
        """The image of a latent, or of an array [C, H, W] or [1, C, H, W] of float32, with 8 or 16 bits."""
        z, out = Latent.of(latent), ctypes.POINTER(_c.zn_image)()
        self._run(lib.zn_decode_bits, z._pointer, bits, ctypes.byref(out))
        return Image(out)


class Restorer(_ImageCodec):
    """Removes noise, impulse noise, JPEG artefacts and blur from photos."""

    def __init__(self, model: ModelLike = "zenith-restore", **compute: Any) -> None:
        super().__init__(model, **compute)

    def restore(self, image: ImageLike, *, task: str = "auto", strength: float = 1.0) -> Image:
        """The restored image. task: "auto", "denoise", "impulse", "deblur" or "jpeg". strength: how much of the change
        is kept, from 0 to 1."""
        if not 0 <= strength <= 1:
            raise ValueError(f"strength must be a number from 0 to 1, not {strength}")
        borrowed, out = Borrowed(image), ctypes.POINTER(_c.zn_image)()
        self._run(lib.zn_restore, borrowed.pointer, named(TASKS, task, "task"), ctypes.byref(out))
        restored = Image(out)
        if strength < 1:
            self._run(lambda handle: lib.zn_image_blend(out, borrowed.pointer, 1 - strength))
        return restored


class Upscaler(_ImageCodec):
    """Enlarges photos."""

    def __init__(self, model: ModelLike = "zenith-upscale", **compute: Any) -> None:
        super().__init__(model, **compute)

    def upscale(self, image: ImageLike, *, factor: int = 2) -> Image:
        """The image, 2 or 4 times as large."""
        borrowed, out = Borrowed(image), ctypes.POINTER(_c.zn_image)()
        self._run(lib.zn_upscale, borrowed.pointer, factor, ctypes.byref(out))
        return Image(out)


class Video(Computing):
    """Encodes and decodes video, a few images at a time. An image autoencoder codes them one by one."""

    def __init__(self, model: ModelLike, **compute: Any) -> None:
        opened, how = model_of(model), Compute(**compute)
        out = ctypes.POINTER(_c.zn_video)()
        how.call.run(lib.zn_video_new, opened.pointer, how.pointer, ctypes.byref(out))
        super().__init__(out, lib.zn_video_free, opened, how)

    def encode(self, frames: Iterable[ImageLike]) -> Latent:
        """The latent of a video: images of one size."""
        clip = ctypes.POINTER(_c.zn_latent)()
        with self._lock:
            try:
                for frame in frames:
                    borrowed = Borrowed(frame)
                    self._run(lib.zn_video_encode, borrowed.pointer, ctypes.byref(clip))
            finally:  # also after a failure of `frames`, so that the next video starts afresh
                self._run(lib.zn_video_encode_end, ctypes.byref(clip))
        if not clip:
            raise ValueError("a video has at least one image")
        return Latent(clip)

    def decode(self, latent: Any, *, bits: int = 8) -> Iterator[Image]:
        """The images of a video, as they are made. Take them all before the next call."""
        z = Latent.of(latent)
        size = int(z._pointer.contents.width) * z._pointer.contents.height * z._pointer.contents.channels
        step, left = max(self.model.info.clip_frames, 1), int(z._pointer.contents.image_frames)
        counted = left > 0
        try:
            for frame in range(z.frames):
                if counted and not left:
                    break
                one = _c.zn_latent.from_buffer_copy(z._pointer.contents)
                one.frames = 1
                one.image_frames = min(left, step if frame else 1)  # the last frame may stand for fewer images
                left -= one.image_frames
                address = ctypes.cast(z._pointer.contents.data, ctypes.c_void_p).value or 0
                one.data = ctypes.cast(address + 4 * size * frame, ctypes.POINTER(ctypes.c_float))
                yield from self._decode_piece(one, bits)
        finally:
            lib.zn_video_decode_end(self.pointer)

    def _decode_piece(self, piece: Any, bits: int) -> List[Image]:
        made: List[Image] = []

        @_c.zn_video_picture_fn
        def take(user: Any, picture: Any) -> int:
            return _c.ZN_ECANCELLED if self._compute.call.visit(lambda: made.append(_copy(picture))) else _c.ZN_OK

        self._run(lib.zn_video_decode, ctypes.byref(piece), bits, take, None)
        return made


def _copy(picture: Any) -> Image:
    """An image of ours with the pixels of one that the library owns."""
    c, out = picture.contents, ctypes.POINTER(_c.zn_image)()
    status = lib.zn_image_new(c.width, c.height, c.bits, ctypes.byref(out))
    if status != _c.ZN_OK:
        raise MemoryError("out of memory for a decoded image")
    ctypes.memmove(out.contents.pixels, c.pixels, c.width * c.height * 3 * c.bits // 8)
    out.contents.grey = c.grey
    return Image(out)
