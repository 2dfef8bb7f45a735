"""Training and distillation."""

import ctypes
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, Mapping, Optional

from . import _c
from ._library import Call, PathLike, check, lib, path_bytes, text, text_bytes
from .models import Compute


@dataclass(frozen=True)
class TrainProgress:
    """After each step; see zn_train_progress."""

    step: int
    steps: int
    stage: str
    stage_number: int
    stage_count: int
    loss: float
    lr: float
    images_per_second: float
    seconds_left: float
    waited: float
    eval_psnr: float
    eval_pruned: float
    encoded: int
    to_encode: int


@dataclass(frozen=True)
class TrainResult:
    """See zn_train_result."""

    first: int
    steps: int
    skipped: int
    loss: float
    eval_psnr: float
    eval_pruned: float
    eval_loss: float
    eval_accuracy: float
    eval_auroc: float
    bf16: float
    seconds: float
    waited: float
    precision: int


@dataclass(frozen=True)
class DistillResult:
    """See zn_distill_result."""

    first: int
    steps: int
    skipped: int
    loss: float
    seconds: float
    latent_error: float
    decoder_psnr: float
    psnr: float
    teacher_psnr: float


def values_of(kind: Any, c: Any) -> Any:
    """A dataclass with the values of the C struct of the same fields."""
    values: Dict[str, Any] = {name: getattr(c, name) for name in kind.__annotations__}
    return kind(**{name: text(v) if isinstance(v, bytes) else v for name, v in values.items()})


class _Run:
    """zn_run_options with what they point to."""

    def __init__(self, data: Optional[PathLike], folder: PathLike, start: Optional[PathLike], resume: bool,
                 seed: Optional[int], steps: int, settings: Mapping[str, Any],
                 progress: Optional[Callable[[TrainProgress], Any]], skipped: Optional[Callable[[str, str], Any]],
                 remark: Optional[Callable[[str], Any]], compute: Dict[str, Any]) -> None:
        self.call = Call()
        self.compute = Compute(**compute)
        words = [f"{key}={_yaml(value)}".encode() for key, value in settings.items()]
        self.settings = (ctypes.c_char_p * (len(words) + 1))(*words, None)
        self.seed = ctypes.c_int64(seed if seed is not None else 0)
        o = self.struct = _c.zn_run_options(
            data=path_bytes(data), folder=path_bytes(folder), resume=resume, steps=steps, settings=self.settings,
            compute=self.compute.pointer)
        o.from_ = path_bytes(start)
        if seed is not None:
            o.seed = ctypes.pointer(self.seed)
        types: Dict[str, Any] = {field[0]: field[1] for field in _c.zn_run_options._fields_}
        visit = self.call.visit
        callbacks: Dict[str, Any] = {
            "progress": lambda user, p: visit(lambda: progress and progress(values_of(TrainProgress, p.contents))),
            "stop": lambda user: visit(None),
            "skipped": lambda user, name, why: void(visit(skipped, text(name), text(why))),
            "remark": lambda user, sentence: void(visit(remark, text(sentence))),
        }
        for name, function in callbacks.items():
            setattr(o, name, types[name](function))


def void(value: Any) -> None:
    """For callbacks without a result."""


def _yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def train(recipe: Optional[PathLike], data: Optional[PathLike], folder: PathLike, *, labels: Optional[PathLike] = None,
          captions: Optional[PathLike] = None, start: Optional[PathLike] = None, resume: bool = False,
          seed: Optional[int] = None, steps: int = 0,
          settings: Mapping[str, Any] = {}, progress: Optional[Callable[[TrainProgress], Any]] = None,
          skipped: Optional[Callable[[str, str], Any]] = None, remark: Optional[Callable[[str], Any]] = None,
          **compute: Any) -> TrainResult:
    """Trains a model by a recipe (a preset or a .yaml file) on a folder of images; `folder` receives the run.

        zenith.train("zenith-r", "photos", "runs/first", steps=1000, settings={"lr": 1e-3}, progress=print)

    Ctrl-C, or a `progress` that returns True, saves the state; resume=True continues. start: weights to start from.
    skipped is called with the name of each unreadable image and the reason, remark with sentences about the data.
    """
    run = _Run(data, folder, start, resume, seed, steps, settings, progress, skipped, remark, compute)
    options = _c.zn_train_options(recipe=path_bytes(recipe), labels=path_bytes(labels), run=run.struct,
                                  captions=path_bytes(captions))
    result = _c.zn_train_result()
    run.call.run(lib.zn_train, ctypes.byref(options), ctypes.byref(result))
    return values_of(TrainResult, result)  # type: ignore[no-any-return]


def distill(teacher: Optional[PathLike], student: Optional[PathLike], data: Optional[PathLike], folder: PathLike, *,
            start: Optional[PathLike] = None, resume: bool = False, seed: Optional[int] = None, steps: int = 0,
            settings: Mapping[str, Any] = {}, progress: Optional[Callable[[TrainProgress], Any]] = None,
            skipped: Optional[Callable[[str, str], Any]] = None, remark: Optional[Callable[[str], Any]] = None,
            clips: bool = False, **compute: Any) -> DistillResult:
    """Trains a small model for the latents of a large one; otherwise as train.

    clips: learn from a data set of clips; teacher and student are video autoencoders.
    """
    run = _Run(data, folder, start, resume, seed, steps, settings, progress, skipped, remark, compute)
    options = _c.zn_distill_options(path_bytes(teacher), path_bytes(student), run.struct, clips)
    result = _c.zn_distill_result()
    run.call.run(lib.zn_distill, ctypes.byref(options), ctypes.byref(result))
    return values_of(DistillResult, result)  # type: ignore[no-any-return]


def recipe(name: PathLike, settings: Iterable[str] = ()) -> str:
    """A preset or .yaml file as YAML with every setting written out."""
    words = [text_bytes(setting) for setting in settings]
    out = ctypes.c_char_p()
    check(lib.zn_train_recipe(path_bytes(name), (ctypes.c_char_p * (len(words) + 1))(*words, None), ctypes.byref(out)))
    try:
        return text(out.value)
    finally:
        lib.zn_memory_free(ctypes.cast(out, ctypes.c_void_p))


def presets() -> Dict[str, str]:
    """Names and descriptions of the recipes that come with the library."""
    result: Dict[str, str] = {}
    description = ctypes.c_char_p()
    while True:
        name = lib.zn_train_preset(len(result), ctypes.byref(description))
        if not name:
            return result
        result[text(name)] = text(description.value)
