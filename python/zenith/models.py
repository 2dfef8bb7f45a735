"""Models, and how they are computed."""

import ctypes
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Union

from . import _c
from ._library import Call, Handle, PathLike, Progress, check, lib, path_bytes, text, text_bytes


@dataclass(frozen=True)
class ModelInfo:
    """What a model is and can do; see zn_model_info."""

    architecture: str
    description: str
    path: str
    latent_channels: int
    downscale: int
    clip_frames: int
    has_encoder: bool
    has_decoder: bool
    restores: bool
    upscales: bool
    judges: bool
    diffuses: bool
    image_size: int
    has_latent_net: bool
    has_classifier: bool
    is_random: bool
    parameters: int


def _info(c: Any) -> ModelInfo:
    values: Dict[str, Any] = {}
    for name, kind in ModelInfo.__annotations__.items():
        value = getattr(c, name)
        values[name] = text(value) if kind is str else kind(value)
    return ModelInfo(**values)


class Model(Handle):
    """An architecture with its weights: a name, a file, a folder, or "random:ARCHITECTURE"."""

    def __init__(self, name: PathLike, *, seed: int = 0) -> None:
        out = ctypes.POINTER(_c.zn_model)()
        words = path_bytes(name) or b""
        if words.startswith(b"random:"):
            check(lib.zn_model_random(words[len(b"random:"):], seed, ctypes.byref(out)))
        else:
            check(lib.zn_model_find(words, ctypes.byref(out)))
        super().__init__(out, lib.zn_model_free)
        self._users = 0  # codecs and others that borrow the pointer
        self._borrowed: Any = None  # the pointer after close(), until the last of them is closed

    def close(self) -> None:
        """Closes the model; what was made with it keeps working, and the memory is freed with the last of these."""
        with self._lock:
            if not self._users:
                super().close()
            elif self._pointer:
                self._borrowed, self._pointer = self._pointer, None

    def _lend(self) -> None:
        with self._lock:
            self._users += 1

    def _take_back(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users and self._borrowed:
                borrowed, self._borrowed = self._borrowed, None
                self._free(borrowed)

    def extend(self, path: PathLike) -> None:
        """Adds the latent net or the classifier of a diffusion autoencoder. Call before the model is used."""
        check(lib.zn_model_extend(self.pointer, path_bytes(path)))

    @property
    def info(self) -> ModelInfo:
        return _info(lib.zn_model_info_of(self.pointer).contents)

    @property
    def family(self) -> str:
        """Family of generators whose latents it uses, for Latent.rescale: "sd", "sdxl", "flux", ...; "" if unknown."""
        return text(lib.zn_model_family(lib.zn_model_info_of(self.pointer)))


ModelLike = Union[Model, PathLike]


def model_of(model: ModelLike) -> Model:
    return model if isinstance(model, Model) else Model(model)


def models() -> List[ModelInfo]:
    """The models found in $ZENITH_MODELS, the user's data folder, ./weights and the installed ones."""
    found: List[ModelInfo] = []
    call = Call()

    @_c.zn_model_visit_fn
    def visit(user: Any, path: bytes, info: Any, error: bytes) -> None:
        if info and not error:
            call.visit(lambda: found.append(_info(info.contents)))

    call.run(lib.zn_models_visit, visit, None)
    return found


def architectures() -> Dict[str, str]:
    """Names and descriptions of the architectures of this build."""
    result, description = {}, ctypes.c_char_p()
    for index in range(lib.zn_architecture_count()):
        name = lib.zn_architecture_at(index, ctypes.byref(description))
        result[text(name)] = text(description.value)
    return result


class Context(Handle):
    """Threads and packed weights that several codecs share, so that a second one costs little."""

    def __init__(self, threads: int = 0) -> None:
        out = ctypes.POINTER(_c.zn_context)()
        check(lib.zn_context_new(threads, ctypes.byref(out)))
        super().__init__(out, lib.zn_context_free)


PRECISIONS = {"f32": _c.ZN_PRECISION_F32, "bf16": _c.ZN_PRECISION_BF16, "f16": _c.ZN_PRECISION_F16,
              "int8": _c.ZN_PRECISION_INT8, "fp8": _c.ZN_PRECISION_FP8}


def named(table: Dict[str, int], value: str, what: str) -> int:
    """The number of a name."""
    if value not in table:
        raise ValueError(f"{what} must be one of {', '.join(table)}, not '{value}'")
    return table[value]


class Compute:
    """How something is computed: the options that everything takes. See zn_options.

    threads: 0 for one on each CPU. precision: "f32", "bf16", "f16", "int8" or "fp8". device: "cpu", "cuda" or "cuda:N".
    memory: budget in bytes. tile: side of tiles in pixels, -1 for none. progress: called with the finished fraction;
    it ends the work, with zenith.Cancelled, by returning True. Ctrl-C ends it too.
    """

    def __init__(self, *, threads: int = 0, precision: Optional[str] = None, device: Optional[str] = None,
                 memory: int = 0, tile: int = 0, context: Optional[Context] = None,
                 progress: Optional[Progress] = None) -> None:
        self.call = Call()
        self.progress = progress
        self._callback = _c.zn_progress_fn(lambda user, fraction: self.call.visit(self.progress, fraction))
        self._context = context
        self.struct = _c.zn_options(
            size=ctypes.sizeof(_c.zn_options), context=context.pointer if context else None, threads=threads,
            precision=named(PRECISIONS, precision, "precision") if precision else _c.ZN_PRECISION_DEFAULT,
            device=text_bytes(device), memory=memory, tile=tile, progress=self._callback)
        self.pointer = ctypes.pointer(self.struct)


class Computing(Handle):
    """A handle that computes with a model."""

    def __init__(self, pointer: Any, free: Any, model: Optional[Model], compute: Compute) -> None:
        super().__init__(pointer, free)
        self._model = model  # borrowed by the library
        self._compute = compute
        if model is not None:
            model._lend()

    def close(self) -> None:
        with self._lock:
            was_open = bool(self._pointer)
            super().close()
            if was_open and self._model is not None:
                self._model._take_back()

    @property
    def model(self) -> Model:
        if self._model is None:
            raise ValueError("the object has no model")
        return self._model

    def _run(self, function: Any, *arguments: Any) -> None:
        """Calls function(handle, arguments...)."""
        with self._lock:
            self._compute.call.run(function, self.pointer, *arguments)
