"""Diffusion autoencoders: an image as a condition (its content) and noise (the remaining detail)."""

import ctypes
from typing import Any, Dict, List, Optional, Tuple

from . import _c
from ._arrays import Array, floats
from ._library import PathLike, Unsupported, check, lib, text, text_bytes
from .images import Borrowed, Image, ImageLike
from .models import Compute, Computing, ModelLike, model_of


class DiffAE(Computing):
    """A diffusion autoencoder.

        d = zenith.DiffAE("ffhq256", classifier="classifier.ckpt")
        d.edit("face.jpg", "Smiling", 0.3)[0].write("smile.png")

    The same step by step:

        face = d.fit("face.jpg")
        condition = d.encode(face)
        noise = d.invert(face, condition)
        smiling = d.move(condition, "Smiling", 0.3)
        d.render(smiling, noise)[0].write("smile.png")

    Options besides the weights: those of zenith.models.Compute.
    """

    def __init__(self, model: ModelLike, *, latent: Optional[PathLike] = None, classifier: Optional[PathLike] = None,
                 **compute: Any) -> None:
        opened, how = model_of(model), Compute(**compute)
        for path in (latent, classifier):
            if path is not None:
                opened.extend(path)
        out = ctypes.POINTER(_c.zn_diffae)()
        how.call.run(lib.zn_diffae_new, opened.pointer, how.pointer, ctypes.byref(out))
        super().__init__(out, lib.zn_diffae_free, opened, how)

    @property
    def width(self) -> int:
        """Numbers of a condition."""
        return int(lib.zn_diffae_width(self.pointer))

    def _noise_shape(self, count: int) -> Tuple[int, ...]:
        side = self.model.info.image_size
        each = int(lib.zn_diffae_noise_size(self.pointer, 1))
        return (count, side, side, each // (side * side)) if each % (side * side) == 0 else (count, each)

    def fit(self, photo: ImageLike) -> Image:
        """The centre of a photo, scaled to the model's size, which the other calls want."""
        borrowed, out = Borrowed(photo), ctypes.POINTER(_c.zn_image)()
        check(lib.zn_diffae_fit(self.pointer, borrowed.pointer, ctypes.byref(out)))
        return Image(out)

    def encode(self, image: ImageLike) -> Array:
        """The condition of an image."""
        borrowed, out = Borrowed(image), Array((1, self.width))
        self._run(lib.zn_diffae_encode, borrowed.pointer, out.data)
        return out

    def invert(self, image: ImageLike, condition: Any, *, steps: int = 250) -> Array:
        """The noise from which, with its condition, the image is rendered."""
        borrowed, out = Borrowed(image), Array(self._noise_shape(1))
        pointer, _keep = floats(condition, self.width, "the condition")
        self._run(lib.zn_diffae_invert, borrowed.pointer, pointer, steps, out.data)
        return out

    def render(self, condition: Any, noise: Any, *, count: int = 1, steps: int = 100) -> List[Image]:
        """`count` images from as many conditions and noises."""
        c, _keep_c = floats(condition, count * self.width, "the conditions")
        n, _keep_n = floats(noise, int(lib.zn_diffae_noise_size(self.pointer, count)), "the noise")
        out = (ctypes.POINTER(_c.zn_image) * count)()
        self._run(lib.zn_diffae_render, count, c, n, steps, out)
        return [Image(image) for image in out]

    def noise(self, *, count: int = 1, seed: int = 0) -> Array:
        """Noise for new images; image i uses seed + i."""
        out = Array(self._noise_shape(count))
        lib.zn_diffae_noise(self.pointer, count, seed, out.data)
        return out

    def imagine(self, *, count: int = 1, seed: int = 0, steps: int = 200) -> Array:
        """Conditions of new images, by the latent net."""
        out = Array((count, self.width))
        self._run(lib.zn_diffae_imagine, count, seed, steps, out.data)
        return out

    def move(self, condition: Any, attribute: str, strength: float) -> Array:
        """A condition moved along an attribute of the classifier, by name or by number as text."""
        pointer, _keep = floats(condition, self.width, "the condition")
        out = Array((1, self.width))
        check(lib.zn_diffae_move(self.pointer, pointer, text_bytes(attribute), strength, out.data))
        return out

    def goal(self, condition: Any, attribute: str, *, shown: bool = True, steps: int = 50, seed: int = 0) -> Array:
        """A condition to move to for changes too large for move: similar ones that the latent net imagines, with or
        without the attribute, averaged. approach goes there."""
        pointer, _keep = floats(condition, self.width, "the condition")
        out = Array((1, self.width))
        self._run(lib.zn_diffae_goal, pointer, text_bytes(attribute), shown, steps, seed, out.data)
        return out

    def approach(self, condition: Any, goal: Any, share: float) -> Array:
        """A condition on the way to a goal: share 0 is the condition, 1 the goal."""
        pointer, _keep = floats(condition, self.width, "the condition")
        end, _also = floats(goal, self.width, "the goal")
        out = Array((1, self.width))
        lib.zn_diffae_approach(self.pointer, pointer, end, share, out.data)
        return out

    def loosen(self, noise: Any, share: float, *, seed: int = 0) -> Array:
        """The noise of an image for a condition on the way to a goal: part of it is replaced by noise drawn by the
        seed, none at share 0 and half at 1."""
        each = int(lib.zn_diffae_noise_size(self.pointer, 1))
        pointer, _keep = floats(noise, each, "the noise")
        out = Array(self._noise_shape(1))
        self._run(lib.zn_diffae_loosen, pointer, share, seed, out.data)
        return out

    def edit(self, photo: ImageLike, attribute: str, *amounts: float, imagine: bool = False, steps: int = 100,
             encode_steps: int = 250, seed: int = 0) -> List[Image]:
        """The centre of a photo with more of an attribute, or less: one image for each amount (0.3). An amount of 0
        leaves it as it is, 1 changes any image strongly. imagine: goes to what the latent net imagines, for large
        changes such as a cat to a dog; 1, which is the default then, is there, and -1 where the attribute is not shown.
        encode_steps=0 draws the noise by the seed."""
        edit = _c.zn_diffae_edit(attribute=text_bytes(attribute), imagine=imagine, seed=seed)
        check(lib.zn_diffae_find_attribute(self.pointer, edit.attribute, ctypes.byref(ctypes.c_int())))
        if imagine and not self.model.info.has_latent_net:
            raise Unsupported(f"{self.model.info.path} has no latent net, so nothing can be imagined",
                              _c.ZN_EUNSUPPORTED)
        image = self.fit(photo)
        condition = self.encode(image)
        noise = self.invert(image, condition, steps=encode_steps) if encode_steps else self.noise(seed=seed)
        moved, its_noise = Array((1, self.width)), Array(self._noise_shape(1))
        out = []
        try:
            for amount in amounts or (1.0 if imagine else 0.3,):
                self._run(lib.zn_diffae_edit_by, ctypes.byref(edit), condition.data, noise.data, amount, moved.data,
                          its_noise.data)
                out += self.render(moved, its_noise, steps=steps)
                if image.grey:
                    lib.zn_image_make_grey(Borrowed(out[-1]).pointer)
        finally:
            lib.zn_diffae_edit_clear(ctypes.byref(edit))
        return out

    @property
    def attributes(self) -> List[str]:
        """Names of the classifier's attributes; a number as text for one without a name."""
        names = []
        for index in range(lib.zn_diffae_attribute_count(self.pointer)):
            name = lib.zn_diffae_attribute(self.pointer, index)
            names.append(text(name) if name else str(index))
        return names

    def judge(self, condition: Any) -> Dict[str, float]:
        """The probability of each attribute."""
        names = self.attributes
        pointer, _keep = floats(condition, self.width, "the condition")
        scores = (ctypes.c_float * max(len(names), 1))()
        self._run(lib.zn_diffae_judge, pointer, scores)
        return dict(zip(names, scores))

    def between(self, a: Tuple[Any, Any], b: Tuple[Any, Any], at: float) -> Tuple[Array, Array]:
        """Condition and noise between two such pairs: at 0 the first, at 1 the second."""
        size = int(lib.zn_diffae_noise_size(self.pointer, 1))
        kept = [floats(pair[i], self.width if i == 0 else size, "a condition" if i == 0 else "noise")
                for pair in (a, b) for i in (0, 1)]
        condition, noise = Array((1, self.width)), Array(self._noise_shape(1))
        lib.zn_diffae_between(self.pointer, *(pointer for pointer, _ in kept), at, condition.data, noise.data)
        return condition, noise

    def sample(self, *, count: int = 1, seed: int = 0, steps: int = 20, latent_steps: int = 200) -> List[Image]:
        """New images; image i uses seed + i."""
        conditions = self.imagine(count=count, seed=seed, steps=latent_steps)
        return self.render(conditions, self.noise(count=count, seed=seed), count=count, steps=steps)
