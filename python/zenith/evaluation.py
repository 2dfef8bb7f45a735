"""The quality of models on many images."""

import ctypes
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import _c
from ._library import Call, PathLike, Progress, check, lib, path_bytes, text, text_bytes
from .codec import TASKS
from .models import Compute, ModelLike, model_of, named

LPIPS = {"auto": _c.ZN_LPIPS_AUTO, "none": _c.ZN_LPIPS_NONE, "alex": _c.ZN_LPIPS_ALEX, "squeeze": _c.ZN_LPIPS_SQUEEZE}


@dataclass(frozen=True)
class Scores:
    """NaN where there is nothing to measure; docs/scores.md explains them."""

    psnr: float
    ssim: float
    ms_ssim: float
    lpips_alex: float
    lpips_squeeze: float
    luma_kept: Tuple[float, ...]
    chroma_kept: Tuple[float, ...]
    psnr_infinite: int
    flicker: float  #: of clips; see zn_scores


@dataclass(frozen=True)
class Row:
    """One image, with one degradation if the model is a restorer."""

    name: str
    damage: str
    width: int
    height: int
    ms: float
    model: Scores
    plain: Dict[str, Scores]  #: the degraded image and plain filters, for a restorer


@dataclass(frozen=True)
class Group:
    """Means over the images with one degradation."""

    damage: str
    pictures: int
    ms: float
    model: Scores
    plain: Dict[str, Scores]
    fid: float


@dataclass(frozen=True)
class EvalResult:
    architecture: str
    rows: List[Row]
    groups: List[Group]
    failed: int
    seconds: float


def _scores(c: Any) -> Scores:
    return Scores(c.psnr, c.ssim, c.ms_ssim, c.lpips_alex, c.lpips_squeeze, tuple(c.luma_kept), tuple(c.chroma_kept),
                  c.psnr_infinite, c.flicker)


def _plain(c: Any, count: int) -> Dict[str, Scores]:
    return {text(lib.zn_eval_plain_name(i)): _scores(c.plain[i]) for i in range(count if c.damage else 0)}


def evaluate(model: ModelLike, data: PathLike, *, task: str = "auto", damage: Optional[str] = None, seed: int = 0,
             held_out: int = 0, nlm: bool = False, lpips: str = "auto", fid: bool = False,
             clips: bool = False, output: Optional[PathLike] = None,
             skipped: Optional[Callable[[str, str], Any]] = None, progress: Optional[Progress] = None,
             **compute: Any) -> EvalResult:
    """Evaluates a model on a folder of images or a data set: round trips, or restoration after degradation.

    clips: the data are clips, for a video autoencoder. output: also write the scores of each image as .csv or .json.
    """
    opened, how, call = model_of(model), Compute(**compute), Call()
    corruption = _c.zn_corruption()
    if damage is not None:
        check(lib.zn_corruption_parse(text_bytes(damage), ctypes.byref(corruption)))

    @_c.zn_progress_fn
    def report(user: Any, fraction: float) -> int:
        return call.visit(progress, fraction)

    @_c.zn_skipped_fn
    def leave_out(user: Any, name: bytes, why: bytes) -> None:
        call.visit(skipped, text(name), text(why))

    options = _c.zn_eval_options(
        data=path_bytes(data), compute=how.pointer, task=named(TASKS, task, "task"), damage=corruption, seed=seed,
        held_out=held_out, nlm=nlm, lpips=named(LPIPS, lpips, "lpips"), clips=clips, fid=fid,
        skipped=leave_out, progress=report)
    result = _c.zn_eval_result()
    call.run(lib.zn_eval, opened.pointer, ctypes.byref(options), ctypes.byref(result))
    try:
        if output is not None:
            check(lib.zn_eval_write(path_bytes(output), ctypes.byref(result)))
        count = _c.ZN_PLAIN_COUNT if nlm else _c.ZN_PLAIN_NLM
        rows = [Row(text(r.name), text(r.damage), r.width, r.height, r.ms, _scores(r.model), _plain(r, count))
                for r in (result.rows[i] for i in range(result.row_count))]
        groups = [Group(text(g.damage), g.pictures, g.ms, _scores(g.model), _plain(g, count), g.fid)
                  for g in (result.groups[i] for i in range(result.group_count))]
        return EvalResult(text(result.architecture), rows, groups, result.failed, result.seconds)
    finally:
        lib.zn_eval_result_clear(ctypes.byref(result))
