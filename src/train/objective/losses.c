/* Terms that compare two images. */
#include "train/objective/objective.h"

#include "base/fail.h"
#include "base/file.h"

#include <stdio.h>
#include <string.h>

enum { BANDS = 3 };

static bool is_even(const zn_node *x) { return x->shape.dim[1] % 2 == 0 && x->shape.dim[2] % 2 == 0; }

static zn_node *plus(zn_node *sum, zn_node *term, int level)
{
    term = zn_scale(term, (float)(4 >> level));
    return sum ? zn_add(sum, term) : term;
}

zn_node *zn_laplacian_loss(zn_node *a, zn_node *b)
{
    zn_node *sum = NULL;
    for (int level = 0; level < BANDS && is_even(a); level++) {
        zn_node *a2 = zn_downsample2(a), *b2 = zn_downsample2(b);
        sum = plus(sum, zn_mean_absolute_error(zn_sub(a, zn_upsample2(a2)), zn_sub(b, zn_upsample2(b2))), level);
        a = a2;
        b = b2;
    }
    return sum;
}

/* R - G and B - G: what a grey image has none of. */
static zn_node *colour_differences(zn_node *x)
{
    static const int32_t ends[] = { 0, 2 }, middle[] = { 1, 1 };
    return zn_sub(zn_select_channels(x, ends, 2), zn_select_channels(x, middle, 2));
}

zn_node *zn_chroma_loss(zn_node *a, zn_node *b)
{
    return zn_laplacian_loss(colour_differences(a), colour_differences(b));
}

static zn_node *absolute(zn_node *x) { return zn_add(zn_relu(x), zn_relu(zn_scale(x, -1))); }

/* How much detail there is around each place: the mean absolute value of the finest Laplacian band over squares of 8x8
 * (less where the sides do not divide). */
static zn_node *detail_around(zn_node *x)
{
    zn_node *amount = absolute(zn_sub(x, zn_upsample2(zn_downsample2(x))));
    for (int i = 0; i < 3 && is_even(amount); i++)
        amount = zn_downsample2(amount);
    return amount;
}

zn_node *zn_texture_loss(zn_node *a, zn_node *b)
{
    if (!is_even(a))
        return NULL;
    return zn_add(zn_mean_absolute_error(detail_around(a), detail_around(b)),
                  zn_mean_absolute_error(detail_around(colour_differences(a)), detail_around(colour_differences(b))));
}

/* Standard deviation of every channel of every image: the mean of x times x normalised. */
static zn_node *deviation(zn_node *x)
{
    const int64_t channels = x->shape.dim[3];
    zn_node *means = zn_reshape(zn_sample_mean(x), ZN_SHAPE(x->shape.dim[0], 1, 1, channels));
    zn_node *ones = zn_ones_like(zn_frames(&means, 1, (const int32_t[]){ 0 }, 1)); /* one for each channel */
    return zn_sample_mean(zn_multiply(x, zn_group_norm(x, ones, zn_scale(ones, 0), (int)channels, 1e-6f)));
}

/* The finest Laplacian band of R - G, B - G and G, the colours four times: they are that much weaker in photos. */
static zn_node *finest_band(zn_node *x)
{
    static const int32_t green[] = { 1 };
    zn_node *opponent = zn_concat(zn_scale(colour_differences(x), 4), zn_select_channels(x, green, 1));
    return zn_sub(opponent, zn_upsample2(zn_downsample2(opponent)));
}

zn_node *zn_contrast_loss(zn_node *a, zn_node *b)
{
    return is_even(a) ? zn_mean_absolute_error(deviation(finest_band(a)), deviation(finest_band(b))) : NULL;
}

/* Pixel `index` of every 2x2 square. */
static zn_node *corner(zn_node *patches, int index)
{
    int32_t from[16];
    const int channels = (int)patches->shape.dim[3] / 4;
    if (channels > 16)
        return zn_graph_poison(patches->graph, ZN_ESHAPE, "a Haar transform of more than 16 channels");
    for (int c = 0; c < channels; c++)
        from[c] = index * channels + c;
    return zn_select_channels(patches, from, channels);
}

/* One level: out[0] the mean of each 2x2 square, out[1..3] half the differences across, down and both. */
static void haar(zn_node *x, zn_node *out[4])
{
    zn_node *p = zn_space_to_depth(x, 2), *q[4];
    for (int i = 0; i < 4; i++)
        q[i] = corner(p, i);
    zn_node *top = zn_add(q[0], q[1]), *bottom = zn_add(q[2], q[3]);
    zn_node *over = zn_sub(q[0], q[1]), *under = zn_sub(q[2], q[3]);
    out[0] = zn_scale(zn_add(top, bottom), 0.25f);
    out[1] = zn_scale(zn_add(over, under), 0.5f);
    out[2] = zn_scale(zn_sub(top, bottom), 0.5f);
    out[3] = zn_scale(zn_sub(over, under), 0.5f);
}

zn_node *zn_haar_loss(zn_node *a, zn_node *b)
{
    zn_node *sum = NULL;
    for (int level = 0; level < BANDS && is_even(a); level++) {
        zn_node *p[4], *q[4];
        haar(a, p);
        haar(b, q);
        for (int i = 1; i < 4; i++)
            sum = plus(sum, zn_mean_absolute_error(p[i], q[i]), level);
        a = p[0];
        b = q[0];
    }
    return sum;
}

zn_node *zn_lpips_loss(const zn_model *m, zn_node *a, zn_node *b)
{
    char prefix[64];
    snprintf(prefix, sizeof prefix, "%s.", m->config.name);
    zn_node *distance =
        m->arch->network((zn_scope){ a->graph, m->config.name }, ZN_ENCODER, (zn_node *[]){ a, b }, &m->config);
    zn_model_bind(m, a->graph, prefix);
    return distance;
}

static zn_status open_lpips(const char *name, const zn_recipe *r, zn_model **out)
{
    ZN_TRY(zn_model_find(name, out));
    const zn_model *m = *out;
    if (strcmp(m->arch->name, "lpips"))
        return ZN_FAIL(ZN_EINVALID, "%s: loss.lpips_model must be a network of LPIPS, not %s", m->info.path,
                       m->config.name);
    if (r->size < m->config.downscale)
        return ZN_FAIL(ZN_EINVALID, "loss.lpips needs crops of at least %d, and size is %d", m->config.downscale,
                       r->size);
    return ZN_OK;
}

/* Weights of LPIPS are found by name, like any model's. Two names are joined by a plus. */
zn_status zn_open_picture_terms(zn_objective *o, const zn_recipe *r)
{
    if (r->lpips <= 0 || !(zn_train_task_of(r)->takes & ZN_TAKES_LOSSES))
        return ZN_OK;
    char first[sizeof r->lpips_model];
    snprintf(first, sizeof first, "%s", r->lpips_model);
    char *plus = zn_exists(first) ? NULL : strchr(first, '+');
    if (plus)
        *plus = 0;
    ZN_TRY(open_lpips(first, r, &o->lpips[0]));
    if (!plus)
        return ZN_OK;
    ZN_TRY(open_lpips(plus + 1, r, &o->lpips[1]));
    if (strcmp(o->lpips[0]->config.name, o->lpips[1]->config.name) == 0)
        return ZN_FAIL(ZN_EINVALID, "loss.lpips_model names %s twice", o->lpips[0]->config.name);
    return ZN_OK;
}

static zn_node *lpips_term(const zn_objective *o, zn_node *y, zn_node *target)
{
    zn_node *first = zn_lpips_loss(o->lpips[0], y, target);
    return o->lpips[1] ? zn_scale(zn_add(first, zn_lpips_loss(o->lpips[1], y, target)), 0.5f) : first;
}

void zn_add_picture_terms(zn_objective *o, const zn_recipe *r, zn_node *y, zn_node *target)
{
    if (r->mse > 0)
        zn_objective_add(o, "mse", zn_mean_square_error(y, target), (zn_ramp){ .to = r->mse });
    if (r->l1 > 0)
        zn_objective_add(o, "l1", zn_mean_absolute_error(y, target), (zn_ramp){ .to = r->l1 });
    if (r->huber > 0)
        zn_objective_add(o, "huber", zn_huber(y, target, 0.05f), (zn_ramp){ .to = r->huber });
    if (r->bands > 0 && is_even(y))
        zn_objective_add(o, "bands", zn_laplacian_loss(y, target), (zn_ramp){ .to = r->bands });
    if (r->haar > 0 && is_even(y))
        zn_objective_add(o, "haar", zn_haar_loss(y, target), (zn_ramp){ .to = r->haar });
    if (r->chroma > 0 && is_even(y))
        zn_objective_add(o, "chroma", zn_chroma_loss(y, target), (zn_ramp){ .to = r->chroma });
    if (r->texture > 0 && is_even(y))
        zn_objective_add(o, "texture", zn_texture_loss(y, target), (zn_ramp){ .to = r->texture });
    if (r->contrast > 0 && is_even(y))
        zn_objective_add(o, "contrast", zn_contrast_loss(y, target), (zn_ramp){ .to = r->contrast });
    if (r->ssim > 0)
        zn_objective_add(o, "ssim", zn_ssim_loss(y, target), (zn_ramp){ .to = r->ssim });
    if (o->lpips[0])
        zn_objective_add(o, "lpips", lpips_term(o, y, target), (zn_ramp){ .to = r->lpips });
}
