/* Presets: recipes by name, for models from scratch and for students of a teacher. */
#include <zenith/train.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "train/recipe/recipe.h"

#include <string.h>

typedef struct preset {
    const char *name, *description, *yaml; /* ends with a NULL name */
} preset;

static const preset presets[] = {
    { "zenith-r", "Zenith's own autoencoder, 16 channels at 1/8", "model: zenith-r\nlr: 2e-3\n" },
    { "taesd", "the TAESD network from scratch, 4 channels at 1/8", "model: taesd\nlr: 3e-4\nbeta2: 0.999\n" },
    { "taesd3", "the TAESD network from scratch, 16 channels at 1/8", "model: taesd3\nlr: 3e-4\nbeta2: 0.999\n" },
    { "restore", "a network that removes noise, impulse noise and blur from photos",
      "model: zenith-restore\ntask: restore\nbatch: 16\nhalve: 0.5\nsteps: 8000\nlr: 1.5e-3\nloss: {bands: 0}\n" },
    { "restore-small", "restore with half the channels: a quarter of the arithmetic",
      "model: zenith-restore\ntask: restore\nwidth: 16\nbatch: 16\nhalve: 0.5\nsteps: 8000\nlr: 1.5e-3\nloss: {bands: "
      "0}\n" },
    { "zenith-hier", "a hierarchical autoencoder whose block gates learn what to prune; for experiments",
      "model: zenith-hier\nlr: 1e-2\nsteps: 4000\nloss: {mse: 1, l1: 0, bands: 0}\ngates: {penalty: 0.003}\n" },
    { "diffae-celeba64", "a diffusion autoencoder for 64x64 images, trained as the original",
      "model: diffae-celeba64\ntask: diffuse\nsize: 64\ndropout: 0.1\nbatch: 128\naccumulate: 16\nsteps: 562500\n"
      "lr: 1e-4\n"
      "optimizer: adam\nbeta2: 0.999\nweight_decay: 0\nschedule: constant\nwarmup: 0\nema: 0.9999\n"
      "ema_warmup: false\n" },
    { "diffae-small", "diffae-celeba64 with half the channels and 128-number conditions: an afternoon on a CPU",
      "model: diffae-celeba64\ntask: diffuse\nwidth: 32\nlatent: 128\nsize: 64\nbatch: 16\nsteps: 20000\nlr: 3e-4\n"
      "optimizer: adam\nbeta2: 0.999\nweight_decay: 0\nema: 0.999\n" },
    { "diffae-latent", "the latent net of a diffusion autoencoder (--from), trained as the original of CelebA",
      "model: diffae-celeba64\ntask: imagine\nbatch: 512\nsteps: 587891\nlr: 1e-4\nbeta2: 0.999\nschedule: constant\n"
      "warmup: 0\nema: 0.9999\nema_warmup: false\n" },
    { "diffae-latent-small", "diffae-latent for diffae-small: an hour on a CPU",
      "model: diffae-celeba64\ntask: imagine\nbatch: 128\nsteps: 50000\nlr: 3e-4\nbeta2: 0.999\neval_every: 5000\n"
      "checkpoint_every: 5000\n" },
    { "diffae-classifier", "the classifier of a diffusion autoencoder (--from), from images with --labels",
      "model: diffae-celeba64\ntask: classify\nbatch: 32\nsteps: 9375\nlr: 1e-3\noptimizer: adam\nbeta2: 0.999\n"
      "weight_decay: 0\nschedule: constant\nwarmup: 0\nclip: 0\nema: 0\n" },
    { NULL, NULL, NULL },
};

static const preset students[] = {
    { "zenith-r", "Zenith's own network for the teacher's latents at 1/8", "model: zenith-r\nlr: 2e-3\n" },
    { "zenith-r-wide", "zenith-r with 1.5x the channels", "model: zenith-r\nwidth: 48\nlr: 2e-3\n" },
    { "taesd-half", "the teacher's network with half its channels", "model: taesd\nwidth: 32\nlr: 5e-4\n" },
    { NULL, NULL, NULL },
};

/* Crops that hold whole tiles of the spectral blocks at 1/8: on smaller ones a student learns to use the tiles for what
 * a teacher gets from the whole crop, and leaves their edges in larger pictures. */
static const char student_base[] = "size: 256\nbatch: 4\nloss: {features: 0.5, latent: 0.1}\n"
                                   "distill: {encoder: 6000, decoder: 9000, joint: 5000, jitter: 0.05}\n";

static const char *name_in(const preset *list, int index, const char **description)
{
    for (int i = 0; i <= index; i++)
        if (!list[i].name)
            return NULL;
    if (description)
        *description = list[index].description;
    return list[index].name;
}

const char *zn_recipe_preset(int index, const char **description) { return name_in(presets, index, description); }
const char *zn_recipe_student(int index, const char **description) { return name_in(students, index, description); }

/* `base` is what the list's recipes have in common. */
static zn_status read_from(const preset *list, const char *base, const char *name, zn_recipe *out)
{
    ZN_TRY(zn_recipe_parse(base, strlen(base), name, out));
    for (const preset *p = list; p->name; p++)
        if (strcmp(p->name, name) == 0)
            return zn_recipe_apply(p->yaml, strlen(p->yaml), name, out);
    const char *dot = strrchr(name, '.');
    if (!dot || (strcmp(dot, ".yaml") && strcmp(dot, ".yml")))
        return ZN_FAIL(ZN_ENOTFOUND, "no %s is called '%s', and it is no .yaml file",
                       list == students ? "student" : "recipe", name);
    zn_map map;
    ZN_TRY(zn_map_open(&map, name));
    const zn_status status = zn_recipe_apply((const char *)map.bytes, map.size, name, out);
    zn_map_close(&map);
    return status;
}

zn_status zn_recipe_read(const char *name, zn_recipe *out) { return read_from(presets, "", name, out); }
zn_status zn_recipe_read_student(const char *name, zn_recipe *out)
{
    return read_from(students, student_base, name, out);
}

/* The recipe that `read` finds, with settings, as text for a caller of the library. */
static zn_status print(zn_status (*read)(const char *, zn_recipe *), const char *name, const char *const *settings,
                       char **yaml)
{
    zn_recipe recipe;
    char text[ZN_RECIPE_TEXT];
    *yaml = NULL;
    ZN_TRY(read(name, &recipe));
    ZN_TRY(zn_recipe_set_all(settings, &recipe));
    const size_t size = (size_t)zn_recipe_text(&recipe, text, sizeof text) + 1;
    ZN_TRY(zn_alloc_for("a recipe", size, (void **)yaml));
    memcpy(*yaml, text, size);
    return ZN_OK;
}

zn_status zn_train_recipe(const char *recipe, const char *const *settings, char **yaml)
{
    return print(zn_recipe_read, recipe, settings, yaml);
}

zn_status zn_distill_recipe(const char *student, const char *const *settings, char **yaml)
{
    return print(zn_recipe_read_student, student, settings, yaml);
}
