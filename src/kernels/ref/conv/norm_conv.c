/* The norm of maps of F32 that were measured while they were written; see norm_conv.h. */
#include "kernels/norm_conv.h"

#include <math.h>

typedef struct moments {
    double count, mean, squares;
} moments;

/* All that was measured of a channel. */
static moments channel_of(const zn_norm_conv_args *a, int64_t map, int c)
{
    const int split = a->n.more ? a->n.split : a->n.c;
    const zn_measured *m = c < split ? &a->x : &a->more;
    const float *at = m->at + map * m->blocks * 2 * m->c + (c < split ? c : c - split);
    moments all = { (double)a->n.pixels, 0, 0 };
    for (int b = 0; b < m->blocks; b++)
        all.mean += (double)at[(int64_t)b * 2 * m->c] / m->blocks;
    for (int b = 0; b < m->blocks; b++) {
        const double off = (double)at[(int64_t)b * 2 * m->c] - all.mean;
        all.squares += (double)at[((int64_t)b * 2 + 1) * m->c] + off * off * all.count / m->blocks;
    }
    return all;
}

static moments group_of(const zn_norm_conv_args *a, int64_t map, int first, int width)
{
    moments all = { (double)a->n.pixels * width, 0, 0 };
    for (int c = first; c < first + width; c++)
        all.mean += channel_of(a, map, c).mean / width;
    for (int c = first; c < first + width; c++) {
        const moments m = channel_of(a, map, c);
        all.squares += m.squares + (m.mean - all.mean) * (m.mean - all.mean) * m.count;
    }
    return all;
}

static void normalise(const zn_norm_conv_args *a, int64_t map, int c, const moments *group)
{
    const zn_norm_args *n = &a->n;
    const int split = n->more ? n->split : n->c, row = c < split ? split : n->c - split;
    const float *x = (c < split ? n->x + c : n->more + c - split) + map * n->pixels * row;
    const double gain = 1 + (n->gain ? (double)n->gain[map * n->gain_step + c] : 0);
    const double scale = 1 + (n->scale ? (double)n->scale[map * n->scale_step + c] : 0);
    const double shift = n->shift ? (double)n->shift[map * n->shift_step + c] : 0;
    const double rate = 1 / sqrt(group->squares / group->count + (double)n->eps);
    for (int64_t p = 0; p < n->pixels; p++) {
        double v = ((double)x[p * row] - group->mean) * rate * (double)n->gamma[c] + (double)n->beta[c];
        v = (v * scale + shift) * gain;
        n->y[(map * n->pixels + p) * n->c + c] = (float)(n->act == ZN_ACT_SILU ? v / (1 + exp(-v)) : v);
    }
}

void zn_k_norm_measured(const void *args, zn_range r)
{
    const zn_norm_conv_args *a = args;
    const int width = a->n.c / a->n.groups;
    for (int64_t map = r.begin; map < r.end; map++)
        for (int first = 0; first < a->n.c; first += width) {
            const moments group = group_of(a, map, first, width);
            for (int c = first; c < first + width; c++)
                normalise(a, map, c, &group);
        }
}
