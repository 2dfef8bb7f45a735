/* Recipes that diffusion autoencoders bring (docs/training.md). */
#include "models/diffae/diffae_files.h"

/* Few steps, so the rate is high and falls to the end, and velocities are predicted: a network that tells noise leaves
 * some of it in its images until it is very exact. Little dropout, since images are seen hundreds of times at most. */
#define COMPACT                                                                                                        \
    "task: diffuse\nsize: 64\ndropout: 0.05\nprediction: velocity\nmin_snr: 5\nbatch: 128\nsteps: 12000\nlr: "         \
    "4e-4\noptimizer: adam\nbeta2: 0.999\n"                                                                            \
    "weight_decay: 0\nwarmup: 300\nfinal_lr: 0.02\nema: 0.9995\nheld_out: 4\neval_every: 2000\n"                       \
    "checkpoint_every: 2000\n"
/* Of networks over points: a quarter of the usual width, which 64x64 images do not fill. */
#define FIELD                                                                                                          \
    "task: diffuse\nsize: 64\nbatch: 16\nsteps: 20000\nlr: 5e-4\noptimizer: adam\nbeta2: 0.999\nweight_decay: 0\n"     \
    "ema: 0.999\npoints: {least: 0.05, most: 0.5, asked: 0.25}\n"

/* The original's settings, which differ in sizes alone. */
#define ORIGINAL                                                                                                       \
    "task: diffuse\ndropout: 0.1\nlr: 1e-4\noptimizer: adam\nbeta2: 0.999\nweight_decay: 0\nschedule: constant\n"      \
    "warmup: 0\nema: 0.9999\nema_warmup: false\n"
#define ORIGINAL_LATENT                                                                                                \
    "task: imagine\nlr: 1e-4\nbeta2: 0.999\nschedule: constant\nwarmup: 0\nema: 0.9999\nema_warmup: false\n"

const zn_preset zn_diffae_presets[] = {
    { "diffae-celeba64", "a diffusion autoencoder for 64x64 images, trained as the original",
      "model: diffae-celeba64\nsize: 64\nbatch: 128\naccumulate: 16\nsteps: 562500\n" ORIGINAL },
    { "diffae-ffhq128", "the original for 128x128 images: faces, 72 million of them",
      "model: diffae-ffhq128\nsize: 128\nbatch: 128\naccumulate: 16\nsteps: 562500\n" ORIGINAL },
    { "diffae-horse128", "the original for 128x128 images: horses, 130 million of them",
      "model: diffae-horse128\nsize: 128\nbatch: 128\naccumulate: 16\nsteps: 1015625\n" ORIGINAL },
    { "diffae-ffhq256", "the original for 256x256 images: faces, 100 million of them",
      "model: diffae-ffhq256\nsize: 256\nbatch: 64\naccumulate: 16\nsteps: 1562500\n" ORIGINAL },
    { "diffae-small", "diffae-celeba64 with half the channels and 128-number conditions: an afternoon on a CPU",
      "model: diffae-celeba64\ntask: diffuse\nwidth: 32\nlatent: 128\nsize: 64\nbatch: 16\nsteps: 20000\nlr: 3e-4\n"
      "optimizer: adam\nbeta2: 0.999\nweight_decay: 0\nema: 0.999\n" },
    { "diffae-compact", "a diffusion autoencoder for 64x64 images that fits 24 MB: ten minutes on a GPU",
      "model: diffae-compact\n" COMPACT },
    { "ddim-compact", "the U-Net of diffae-compact as a plain diffusion model, to compare with",
      "model: ddim-compact\n" COMPACT },
    { "diffae-latent-compact", "the latent net of a diffae-compact (--from)",
      "model: diffae-compact\ntask: imagine\nbatch: 128\nsteps: 8000\nlr: 5e-4\nbeta2: 0.999\nema: 0.9995\n"
      "held_out: 4\neval_every: 1000\ncheckpoint_every: 2000\n" },
    { "diffae-mamba-small", "diffae-small with a Mamba encoder of the same size, over patches of 4x4 pixels",
      "model: diffae-mamba64\ntask: diffuse\nwidth: 32\nlayers: 8\nlatent: 128\nsize: 64\nbatch: 16\nsteps: 20000\nlr: "
      "3e-4\n"
      "optimizer: adam\nbeta2: 0.999\nweight_decay: 0\nema: 0.999\n" },
    { "diffae-masked-small", "diffae-small that encodes any pixels, beside a mask of them: to compare mamba-field with",
      "model: diffae-masked64\ntask: diffuse\nwidth: 32\nlatent: 128\nsize: 64\nbatch: 16\nsteps: 20000\nlr: 3e-4\n"
      "optimizer: adam\nbeta2: 0.999\nweight_decay: 0\nema: 0.999\n" },
    { "mamba-field", "a diffusion autoencoder over points: encodes any pixels, decodes at any resolution",
      "model: mamba-field\n" FIELD "width: 128\nlatent: 128\n" },
    { "mamba-field-direct", "mamba-field by regression: no noise, a single step, blurred detail",
      "model: mamba-field-direct\n" FIELD "width: 128\nlatent: 128\n" },
    { "mamba-coordinates", "diffusion of the Fourier features of points, coloured by a condition",
      "model: mamba-coordinates\n" FIELD "width: 128\nlatent: 128\n" },
    { "diffae-latent", "the latent net of a diffusion autoencoder (--from), trained as the original of CelebA",
      "model: diffae-celeba64\nbatch: 512\nsteps: 587891\n" ORIGINAL_LATENT },
    { "diffae-latent-ffhq", "the same, trained as the original of FFHQ, at 128x128 or 256x256",
      "model: diffae-ffhq128\nbatch: 256\nsteps: 394531\n" ORIGINAL_LATENT },
    { "diffae-latent-horse", "the same with 20 layers, trained as the original of horses and bedrooms",
      "model: diffae-horse128\nbatch: 2048\nsteps: 977051\noptimizer: adam\nweight_decay: 0\n" ORIGINAL_LATENT },
    { "diffae-latent-small", "diffae-latent for diffae-small: an hour on a CPU",
      "model: diffae-celeba64\ntask: imagine\nbatch: 128\nsteps: 50000\nlr: 3e-4\nbeta2: 0.999\neval_every: 5000\n"
      "checkpoint_every: 5000\n" },
    { "diffae-classifier", "the classifier of a diffusion autoencoder (--from), from images with --labels",
      "model: diffae-celeba64\ntask: classify\nbatch: 32\nsteps: 9375\nlr: 1e-3\noptimizer: adam\nbeta2: 0.999\n"
      "weight_decay: 0\nschedule: constant\nwarmup: 0\nclip: 0\nema: 0\n" },
    { NULL, NULL, NULL },
};
