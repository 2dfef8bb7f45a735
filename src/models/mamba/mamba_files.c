/* Forms of Mamba parts from the shapes of their tensors. The grid of the scan orders and the deviation of the Fourier
 * features leave no trace in a file: they are always the usual ones. */
#include "models/mamba/mamba_files.h"

#include "models/stored.h"

enum { MOST = 1 << 13, MOST_BLOCKS = 64, MOST_PATCH = 32 };

/* Side `axis` of the tensor of this rank, or 0. */
static int side(const zn_weights *w, const char *prefix, const char *name, int rank, int axis)
{
    const zn_weight *t = zn_find_after(w, prefix, "%s", name);
    return t && t->rank == rank && t->shape[axis] >= 1 && t->shape[axis] <= MOST ? (int)t->shape[axis] : 0;
}

bool zn_mamba_read_encoder(const zn_weights *w, const char *prefix, zn_mamba_form *k)
{
    zn_field *n = &k->net;
    const int inner = side(w, prefix, "blocks.0.mixer.A_log", 3, 1);
    *k = (zn_mamba_form){ .net = zn_field_usual };
    n->width = side(w, prefix, "embed.weight", 2, 0);
    n->features = side(w, prefix, "fourier.B", 2, 0);
    n->latent = side(w, prefix, "proj.weight", 2, 0);
    n->mixer.states = side(w, prefix, "blocks.0.mixer.A_log", 3, 2);
    n->mixer.taps = side(w, prefix, "blocks.0.mixer.conv1d.weight", 3, 2);
    if (!n->width || !n->features || !n->latent || !n->mixer.states || !n->mixer.taps || !inner || inner % n->width)
        return false;
    n->embed = n->hidden = n->width;
    n->mixer.expand = inner / n->width;
    for (n->blocks = 0; n->blocks < MOST_BLOCKS; n->blocks++)
        if (!zn_find_after(w, prefix, "blocks.%d.mixer.A_log", n->blocks))
            break;
    const int values = side(w, prefix, "embed.weight", 2, 1) - 2 * n->features;
    while (++k->patch <= MOST_PATCH)
        if (values == ZN_FIELD_COLOURS * k->patch * k->patch)
            return true;
    return false;
}

bool zn_mamba_read_decoder(const zn_weights *w, const char *prefix, zn_mamba_form *k)
{
    zn_field *n = &k->net;
    const int in = side(w, prefix, "embed.weight", 2, 1), out = side(w, prefix, "head.weight", 2, 0);
    const int features = 2 * n->features, hidden = side(w, prefix, "rgb.0.weight", 2, 0);
    n->embed = side(w, prefix, "time.0.weight", 2, 0);
    n->hidden = hidden ? hidden : n->hidden;
    if (in == features + ZN_FIELD_COLOURS && out == ZN_FIELD_COLOURS)
        k->kind = ZN_FIELD_NOISE;
    else if (in == features && out == ZN_FIELD_COLOURS)
        k->kind = ZN_FIELD_VALUES;
    else if (in == features && out == features && hidden)
        k->kind = ZN_FIELD_FEATURES;
    return k->kind != ZN_FIELD_NONE && n->embed && k->patch == 1;
}
