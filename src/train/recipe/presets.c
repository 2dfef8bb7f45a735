/* Presets: recipes by name, for models from scratch and for students of a teacher. A family may bring its own
 * (zn_arch.presets). */
#include <zenith/train.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "models/arch.h"
#include "train/recipe/recipe.h"
#include "train/recipe/yaml.h"

#include <string.h>

static const zn_preset presets[] = {
    { "zenith-r", "Zenith's own autoencoder, 16 channels at 1/8", "model: zenith-r\nlr: 2e-3\n" },
    { "taesd", "the TAESD network from scratch, 4 channels at 1/8", "model: taesd\nlr: 3e-4\nbeta2: 0.999\n" },
    { "taesd3", "the TAESD network from scratch, 16 channels at 1/8", "model: taesd3\nlr: 3e-4\nbeta2: 0.999\n" },
    { "restore", "a network that removes noise, impulse noise and blur from photos",
      "model: zenith-restore\ntask: restore\nbatch: 16\nhalve: 0.5\nsteps: 8000\nlr: 1.5e-3\nloss: {bands: 0}\n" },
    { "restore-small", "restore with half the channels: a quarter of the arithmetic",
      "model: zenith-restore\ntask: restore\nwidth: 16\nbatch: 16\nhalve: 0.5\nsteps: 8000\nlr: 1.5e-3\nloss: {bands: "
      "0}\n" },
    { "restore-photo", "restore for photos as they are: also JPEG, grey and camera noise, and clean ones",
      "model: zenith-restore\ntask: restore\nbatch: 16\nhalve: 0.5\nsteps: 20000\nlr: 1.5e-3\nloss: {bands: 0}\n"
      "damage: {mix: photo}\n" },
    { "restore-photo-fast", "restore-photo with half the channels of zenith-restore: a quarter of the arithmetic",
      "model: zenith-restore\ntask: restore\nwidth: 32\nbatch: 32\nhalve: 0.5\nsteps: 20000\nlr: 1.5e-3\n"
      "loss: {bands: 0}\ndamage: {mix: photo}\n" },
    { "upscale", "a network that sharpens photos enlarged by two, for zenith upscale",
      "model: zenith-restore\ntask: restore\nwidth: 64\nbatch: 32\nhalve: 0.5\nsteps: 20000\nlr: 1.5e-3\n"
      "loss: {bands: 0}\ndamage: {mix: upscale, quality: 60}\n" },
    { "zenith-hier", "a hierarchical autoencoder whose block gates learn what to prune; for experiments",
      "model: zenith-hier\nlr: 1e-2\nsteps: 4000\nloss: {mse: 1, l1: 0, bands: 0}\ngates: {penalty: 0.003}\n" },
    { NULL, NULL, NULL },
};

static const zn_preset students[] = {
    { "zenith-r", "Zenith's own network for the teacher's latents at 1/8", "model: zenith-r\nlr: 2e-3\n" },
    { "zenith-r-wide", "zenith-r with 1.5x the channels", "model: zenith-r\nwidth: 48\nlr: 2e-3\n" },
    { "zenith-f2", "cut from taef2, its teacher: with its layers at 1/8 and 1/4, and a narrow rest",
      "model: zenith-f2\nlr: 2e-3\nweight_decay: 0\nloss: {mse: 10, lpips: 0.1}\n"
      "distill: {start: teacher, encoder: 12000, decoder: 12000, joint: 0, jitter: 0}\n" },
    { "taesd-half", "the teacher's network with half its channels", "model: taesd\nwidth: 32\nlr: 5e-4\n" },
    { "taew2_1", "the tiny video autoencoder TAEHV, for latents at 1/8 of a video autoencoder, with --clips",
      "model: taew2_1\nsize: 128\naccumulate: 4\nlr: 5e-4\n" },
    { "taew2_2", "the same for latents at 1/16", "model: taew2_2\nsize: 128\naccumulate: 4\nlr: 5e-4\n" },
    { NULL, NULL, NULL },
};

/* Crops that hold whole tiles of the spectral blocks at 1/8: on smaller ones a student learns to use the tiles for what
 * a teacher gets from the whole crop, and leaves their edges in larger images. */
static const char student_base[] = "size: 256\nbatch: 4\nloss: {features: 0.5, latent: 0.1}\n"
                                   "distill: {encoder: 6000, decoder: 9000, joint: 5000, jitter: 0.05}\n";

/* The preset number `index` of a list; *index is then that of the lists after it. */
static const zn_preset *preset_in(const zn_preset *list, int *index)
{
    for (; list && list->name; list++)
        if ((*index)-- == 0)
            return list;
    return NULL;
}

/* Ours, then those that families bring. */
static const zn_preset *preset_at(int index)
{
    const zn_preset *p = preset_in(presets, &index);
    for (int i = 0; zn_archs[i] && !p; i++)
        p = preset_in(zn_archs[i]->presets, &index);
    return p;
}

static const zn_preset *student_at(int index) { return preset_in(students, &index); }

static const char *name_of(const zn_preset *p, const char **description)
{
    if (p && description)
        *description = p->description;
    return p ? p->name : NULL;
}

const char *zn_recipe_preset(int index, const char **description) { return name_of(preset_at(index), description); }
const char *zn_recipe_student(int index, const char **description) { return name_of(student_at(index), description); }

static zn_status count_value(void *count, const char *key, const char *value, const char *where)
{
    (void)key, (void)where;
    *(int *)count += value != NULL;
    return ZN_OK;
}

/* Refuses a file that sets nothing, such as one that was cut off: it would train the defaults for hours. example: a
 * command that prints a whole recipe. */
static zn_status apply_file(const zn_map *map, const char *name, const char *example, zn_recipe *out)
{
    const char *text = (const char *)map->bytes;
    int count = 0;
    ZN_TRY(zn_recipe_apply(text, map->size, name, out));
    ZN_TRY(zn_yaml_read(text, map->size, name, count_value, &count));
    if (!count)
        return ZN_FAIL(ZN_EFORMAT, "%s: the recipe sets nothing; '%s' prints a whole one", name, example);
    return ZN_OK;
}

/* `base` is what the list's recipes have in common. */
static zn_status read_from(const zn_preset *(*at)(int), const char *base, const char *name, zn_recipe *out)
{
    ZN_TRY(zn_recipe_parse(base, strlen(base), name, out));
    const bool is_student = at == student_at;
    const zn_preset *p;
    for (int i = 0; (p = at(i)); i++)
        if (strcmp(p->name, name) == 0)
            return zn_recipe_apply(p->yaml, strlen(p->yaml), name, out);
    const char *dot = strrchr(name, '.');
    if (!dot || (strcmp(dot, ".yaml") && strcmp(dot, ".yml")))
        return ZN_FAIL(ZN_ENOTFOUND, "no %s is called '%s', and it is not a .yaml file",
                       is_student ? "student" : "recipe", name);
    zn_map map;
    ZN_TRY(zn_map_open(&map, name));
    const zn_status status = apply_file(
        &map, name, is_student ? "zenith distill --print --student taesd-half" : "zenith train --print zenith-r", out);
    zn_map_close(&map);
    return status;
}

zn_status zn_recipe_read(const char *name, zn_recipe *out) { return read_from(preset_at, "", name, out); }
zn_status zn_recipe_read_student(const char *name, zn_recipe *out)
{
    return read_from(student_at, student_base, name, out);
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
