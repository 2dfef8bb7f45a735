"""Zenith: image latents, restoration, video, diffusion autoencoders and images from prompts, on libzenith.

    import zenith
    codec = zenith.Codec("zenith-r")
    latent = codec.encode("photo.jpg")        # or a NumPy array, a PyTorch tensor, a Pillow image
    codec.decode(latent).write("copy.png")

docs/python.md has the guide. The library computes without the GIL, so calls from several threads run side by side.
"""

from ._arrays import Array
from ._library import Cancelled, Error, InputOutput, Invalid, NotFound, OutOfMemory, Unsupported, __version__, version
from .codec import Codec, Restorer, Upscaler, Video
from .diffae import DiffAE
from .evaluation import EvalResult, evaluate
from .generator import GenerationProgress, Generator
from .images import Difference, Image, Latent, compare, degrade, write
from .models import Context, Model, ModelInfo, architectures, models
from .training import DistillResult, TrainProgress, TrainResult, distill, presets, recipe, train

__all__ = [
    "Array", "Cancelled", "Codec", "Context", "DiffAE", "Difference", "DistillResult", "Error", "EvalResult",
    "GenerationProgress", "Generator", "Image", "InputOutput", "Invalid", "Latent", "Model", "ModelInfo", "NotFound",
    "OutOfMemory", "Restorer", "TrainProgress", "TrainResult", "Unsupported", "Upscaler", "Video", "__version__",
    "architectures", "compare", "degrade", "distill", "evaluate", "models", "presets", "recipe", "train", "version", "write",
]
