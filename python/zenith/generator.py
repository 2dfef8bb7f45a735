"""Images from prompts."""

import ctypes
from dataclasses import dataclass
from typing import Any, Callable, Iterable, List, Optional, Sequence, Tuple

from . import _c
from ._library import Call, PathLike, check, lib, path_bytes, text, text_bytes
from .codec import _copy
from .images import Borrowed, Image, ImageLike
from .models import Compute, Computing

STAGES = {_c.ZN_STAGE_TEXT: "text", _c.ZN_STAGE_ENCODE: "encode", _c.ZN_STAGE_STEPS: "steps",
          _c.ZN_STAGE_DECODE: "decode"}


@dataclass(frozen=True)
class GenerationProgress:
    stage: str  #: "text", "encode", "steps" or "decode"
    fraction: float  #: of the whole generation
    step: int  #: finished steps
    steps: int
    preview: Optional[Image]  #: after a step, if previews were asked for


class Generator(Computing):
    """Generates images from prompts, with Z-Image-Turbo or the small model that comes with the library.

        g = zenith.Generator("z-image-turbo")
        g.generate("a red fox in the snow", seed=1).write("fox.png")

    Without a name it is z-image-turbo if that is there, else the first model found, else the bundled zenith-mini.
    loras: (path, strength) pairs. Options besides the files: those of zenith.models.Compute; docs/generate.md names the
    files to download.
    """

    def __init__(self, model: Optional[PathLike] = None, *, transformer: Optional[PathLike] = None,
                 text_encoder: Optional[PathLike] = None, vae: Optional[PathLike] = None,
                 tokenizer: Optional[PathLike] = None, preview: Optional[PathLike] = None,
                 cache: Optional[PathLike] = None, loras: Iterable[Tuple[PathLike, float]] = (),
                 **compute: Any) -> None:
        how = Compute(**compute)
        files = _c.zn_generator_files(
            size=ctypes.sizeof(_c.zn_generator_files), model=path_bytes(model), transformer=path_bytes(transformer),
            text_encoder=path_bytes(text_encoder), vae=path_bytes(vae), tokenizer=path_bytes(tokenizer),
            preview=path_bytes(preview), cache=path_bytes(cache))
        out = ctypes.POINTER(_c.zn_generator)()
        how.call.run(lib.zn_generator_open, ctypes.byref(files), how.pointer, ctypes.byref(out))
        super().__init__(out, lib.zn_generator_free, None, how)
        for path, strength in loras:
            check(lib.zn_generator_add_lora(self.pointer, path_bytes(path), strength))

    def generate(self, prompt: str, *, negative: Optional[str] = None, width: int = 0, height: int = 0, steps: int = 0,
                 seed: int = 0, guidance: float = 0, shift: float = 0, image: Optional[ImageLike] = None,
                 strength: float = 0, mask: Optional[ImageLike] = None, preview: bool = False,
                 progress: Optional[Callable[[GenerationProgress], Any]] = None) -> Image:
        """One image. Zero means the default of the model, guidance=-1 none; progress ends the work by returning True."""
        return self.generate_batch([prompt], negative=negative, width=width, height=height, steps=steps, seeds=[seed],
                                   guidance=guidance, shift=shift, image=image, strength=strength, mask=mask,
                                   preview=preview, progress=progress)[0]

    def generate_batch(self, prompts: Sequence[str], *, negative: Optional[str] = None, width: int = 0, height: int = 0,
                       steps: int = 0, seeds: Optional[Sequence[int]] = None, guidance: float = 0, shift: float = 0,
                       image: Optional[ImageLike] = None, strength: float = 0, mask: Optional[ImageLike] = None,
                       preview: bool = False,
                       progress: Optional[Callable[[GenerationProgress], Any]] = None) -> List[Image]:
        """An image of each prompt, with its seed (from 0 on), made at once: faster for each on a GPU.

        Those whose prompts have about the same length take their steps together, one group after the other: previews
        are those of the first image of a group, and progress.step begins again with each.
        """
        if isinstance(prompts, str):
            raise TypeError("prompts is a list of texts, not one text")
        if seeds is None:
            seeds = range(len(prompts))
        if len(seeds) != len(prompts):
            raise ValueError(f"{len(prompts)} prompts need as many seeds, not {len(seeds)}")
        call = Call()
        start, region = (Borrowed(x) if x is not None else None for x in (image, mask))

        @_c.zn_generation_fn
        def report(user: Any, p: Any) -> int:
            return call.visit(lambda: progress(_progress(p.contents)) if progress else None)

        requests = [_c.zn_generation(
            size=ctypes.sizeof(_c.zn_generation), prompt=text_bytes(prompt), negative=text_bytes(negative), width=width,
            height=height, steps=steps, seed=seed, guidance=guidance, shift=shift,
            image=start.pointer if start else None, strength=strength, mask=region.pointer if region else None,
            preview=preview, progress=report) for prompt, seed in zip(prompts, seeds)]
        pointers = (ctypes.POINTER(_c.zn_generation) * len(requests))(*(ctypes.pointer(r) for r in requests))
        out = (ctypes.POINTER(_c.zn_image) * len(requests))()
        with self._lock:
            try:
                call.run(lib.zn_generate_batch, self.pointer, pointers, len(requests), out)
            finally:  # images that were finished before a failure are freed with this list
                images = [Image(pointer) for pointer in out if pointer]
        return images


def _progress(p: Any) -> GenerationProgress:
    return GenerationProgress(STAGES.get(p.stage, ""), p.fraction, p.step, p.steps,
                              _copy(p.preview) if p.preview else None)
