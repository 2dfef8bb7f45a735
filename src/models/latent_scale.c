/* Between a VAE's own latents and those of a generator: the numbers of diffusers' pipelines. */
#include "base/fail.h"
#include "models/wan/wan.h"

#include <stdio.h>
#include <string.h>
#include <zenith/latent.h>
#include <zenith/model.h>

typedef struct family {
    const char *name;
    double factor, shift;   /* scaled = (raw - shift) * factor */
    const zn_wan_form *wan; /* in their place: mean and deviation of each channel */
} family;

static const family families[] = {
    { .name = "sd", .factor = 0.18215 },
    { .name = "sdxl", .factor = 0.13025 },
    { .name = "sd3", .factor = 1.5305, .shift = 0.0609 },
    { .name = "flux", .factor = 0.3611, .shift = 0.1159 }, /* FLUX.1 and Z-Image */
    { .name = "flux2" },                                   /* statistics: zn_latent_normalise */
    { .name = "sana", .factor = 0.41407 },
    { .name = "wan2.1", .wan = &zn_wan21 },
    { .name = "wan2.2", .wan = &zn_wan22 },
    { .name = "none", .factor = 1 },
};
enum { FAMILIES = sizeof families / sizeof *families };

/* Networks of one form are distinguished by a hint. */
static const struct {
    const char *architecture, *hint; /* in the name of the weights; NULL: any name */
    const char *family;
} serves[] = {
    { "taesd", "xl", "sdxl" },          { "taesd", NULL, "sd" },
    { "taesd3", "f1", "flux" },         { "taesd3", "flux", "flux" },
    { "taesd3", NULL, "sd3" },          { "flux-vae", NULL, "flux" },
    { "taesana", NULL, "sana" },        { "wan21-vae", NULL, "wan2.1" },
    { "taew2_1", NULL, "wan2.1" },      { "wan22-vae", NULL, "wan2.2" },
    { "taew2_2", NULL, "wan2.2" },      { "zenith-r", NULL, "none" },
    { "lighttaew2_1", NULL, "wan2.1" }, { "lighttaew2_2", NULL, "wan2.2" },
    { "taef2", NULL, "flux2" },         { "zenith-f2", NULL, "flux2" },
};

/* The last two parts of a path: diffusers' folders have the name, and the files in them are all called alike. */
static const char *name_of(const char *path)
{
    const char *at = path + strlen(path);
    for (int slashes = 0; at > path; at--)
        if (at[-1] == '/' && ++slashes == 2)
            break;
    return at;
}

const char *zn_model_family(const zn_model_info *info)
{
    const char *name = name_of(info->path);
    for (size_t i = 0; i < sizeof serves / sizeof *serves; i++)
        if (!strcmp(info->architecture, serves[i].architecture) && (!serves[i].hint || strstr(name, serves[i].hint)))
            return serves[i].family;
    return NULL;
}

const char *zn_latent_family_at(int index, double *factor, double *shift)
{
    if (index < 0 || index >= FAMILIES)
        return NULL;
    *factor = families[index].factor;
    *shift = families[index].shift;
    return families[index].name;
}

static zn_status find(const char *name, const family **out)
{
    char names[128] = "";
    for (int i = 0; i < FAMILIES; i++) {
        *out = &families[i];
        if (!strcmp(name, families[i].name))
            return ZN_OK;
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", families[i].name);
    }
    return ZN_FAIL(ZN_ENOTFOUND, "no scaling of latents is called '%s', only %s", name, names);
}

zn_status zn_latent_rescale(zn_latent *z, const char *name, int raw)
{
    const family *f;
    const int64_t cells = (int64_t)z->width * z->height * (z->frames > 1 ? z->frames : 1);
    ZN_TRY(find(name, &f));
    if (!z->raw == !raw)
        return ZN_OK;
    if (!f->wan && !f->factor)
        return ZN_FAIL(ZN_EUNSUPPORTED,
                       "raw latents of FLUX.2 need the file of its VAE (--vae), whose bn.running_mean and "
                       "bn.running_var normalise them");
    if (f->wan && f->wan->latent != z->channels)
        return ZN_FAIL(ZN_ESHAPE, "the latent has %d channels, those of %s have %d", z->channels, name, f->wan->latent);
    if (f->wan && raw)
        zn_wan_restore(f->wan, z->data, cells);
    else if (f->wan)
        zn_wan_normalise(f->wan, z->data, cells);
    else
        for (int64_t i = 0; i < cells * z->channels; i++)
            z->data[i] = (float)(raw ? z->data[i] / f->factor + f->shift : (z->data[i] - f->shift) * f->factor);
    z->raw = raw != 0;
    return ZN_OK;
}
