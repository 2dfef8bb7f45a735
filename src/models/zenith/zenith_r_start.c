/* The first weights of Zenith-R: a Walsh transform codec with random channels beside it.
 *
 * The way through the network, without its blocks, is linear: three times 2x2 pixels become channels and are mixed.
 * With a 2x2 Haar transform at each level that is the Walsh transform of 8x8 squares, of which the encoder keeps as
 * many coefficients as there are latents, those with most energy in photos first; the decoder turns it around. So a new
 * network reconstructs photos at about 25 dB before its first step, where random weights take hundreds of steps to
 * come, and training goes on from there. Blocks and the other channels start at random. */
#include "models/zenith/zenith.h"

#include <string.h>

enum { COLOURS = 3, LAST = 3 };

/* Grey, then two differences; orthonormal. */
static const float colour[COLOURS][3] = { { 0.57735027f, 0.57735027f, 0.57735027f },
                                          { 0.70710678f, 0, -0.70710678f },
                                          { 0.40824829f, -0.81649658f, 0.40824829f } };

/* Coefficients by energy: colour, sign changes down and across, and the deviation in photos. */
static const struct {
    int colour, down, across;
    float deviation;
} kept[] = {
    { 0, 0, 0, 3.42f }, { 1, 0, 0, 1.51f }, { 2, 0, 0, 0.60f }, { 0, 1, 0, 0.52f }, { 0, 0, 1, 0.50f },
    { 0, 2, 0, 0.28f }, { 0, 0, 2, 0.27f }, { 0, 3, 0, 0.26f }, { 0, 1, 1, 0.26f }, { 0, 0, 3, 0.25f },
    { 0, 2, 1, 0.18f }, { 0, 1, 2, 0.18f }, { 1, 0, 1, 0.15f }, { 0, 3, 1, 0.15f }, { 1, 1, 0, 0.14f },
    { 0, 1, 3, 0.15f }, { 0, 4, 0, 0.15f }, { 0, 0, 4, 0.14f }, { 0, 5, 0, 0.15f }, { 0, 0, 5, 0.14f },
    { 0, 6, 0, 0.14f }, { 0, 0, 6, 0.13f }, { 0, 2, 2, 0.13f }, { 0, 7, 0, 0.12f }, { 0, 0, 7, 0.12f },
    { 0, 3, 2, 0.11f }, { 0, 2, 3, 0.11f }, { 0, 4, 1, 0.11f }, { 0, 1, 4, 0.11f }, { 0, 5, 1, 0.10f },
    { 0, 1, 5, 0.10f }, { 0, 3, 3, 0.09f },
};
enum { KEPT = sizeof kept / sizeof *kept };

/* What starts at random must not drown what does not: branches, and random channels in the image. */
static const float branch = 0.2f, beside = 0.1f;
static const float spread = 0.5f; /* deviation of the latents, where the decoder's soft clamp is still straight */

/* Which bit of a pixel's position a Walsh function of that many sign changes looks at, level by level: Gray code. */
static int looks_at(int changes, int level) { return (changes ^ changes >> 1) >> (LAST - level) & 1; }

/* The channel at 1/8 that holds a coefficient: its 2x2 transforms from the finest level on are the digits to base 4. */
static int64_t channel_of(int index)
{
    int64_t channel = kept[index].colour;
    for (int level = 1; level <= LAST; level++)
        channel = 4 * channel + 2 * looks_at(kept[index].down, level) + looks_at(kept[index].across, level);
    return channel;
}

/* Sign of pixel `k` (2 y + x) in the 2x2 Haar function `h`, times its norm. */
static float haar(int64_t h, int64_t k)
{
    const int64_t both = h & k;
    return (both & 1) ^ (both >> 1) ? -0.5f : 0.5f;
}

/* A weight [k,k,in,out] of which only the middle tap is written. */
typedef struct taps {
    float *w;
    int64_t count, middle, in, out;
} taps;

static taps taps_of(const zn_fresh *p)
{
    const zn_shape s = p->shape;
    const int64_t count = s.dim[0] * s.dim[1];
    return (taps){ p->out, count, count / 2, s.dim[2], s.dim[3] };
}

static void clear_output(const taps *t, int64_t o)
{
    for (int64_t i = 0; i < t->count * t->in; i++)
        t->w[i * t->out + o] = 0;
}

static void set(const taps *t, int64_t i, int64_t o, float value)
{
    t->w[(t->middle * t->in + i) * t->out + o] = value;
}

/* Channels that carry the transform at a level. */
static int64_t carried(int level) { return (int64_t)COLOURS << (2 * level); }

/* 2x2 squares of every carried channel to their Haar transforms, or back: the matrix is its own inverse. */
static void start_level(const taps *t, int level)
{
    for (int64_t o = 0; o < carried(level); o++) {
        clear_output(t, o);
        for (int64_t k = 0; k < 4; k++)
            set(t, o / 4 * 4 + k, o, haar(o % 4, k));
    }
}

bool zn_walsh_fits(const zn_config *k) { return carried(LAST) <= (int64_t)k->width << LAST; }

void zn_walsh_start_down(const zn_fresh *p, float a)
{
    const taps t = taps_of(p);
    zn_start_he(p, 1);
    start_level(&t, (int)a);
}

void zn_walsh_start_up(const zn_fresh *p, float a)
{
    const taps t = taps_of(p);
    zn_start_shared(p, 4);
    start_level(&t, (int)a);
}

void zn_walsh_start_latent(const zn_fresh *p, float a)
{
    (void)a;
    const taps t = taps_of(p);
    zn_start_he(p, 1);
    for (int z = 0; z < t.out && z < KEPT; z++) {
        clear_output(&t, z);
        set(&t, channel_of(z), z, spread / kept[z].deviation);
    }
}

void zn_walsh_start_in(const zn_fresh *p, float a)
{
    (void)a;
    const taps t = taps_of(p);
    zn_start_he(p, 1);
    for (int64_t o = 0; o < carried(LAST); o++)
        clear_output(&t, o);
    for (int z = 0; z < t.in && z < KEPT; z++)
        set(&t, z, channel_of(z), kept[z].deviation / spread);
}

void zn_walsh_start_stem(const zn_fresh *p, float a)
{
    (void)a;
    const taps t = taps_of(p);
    zn_start_he(p, 1);
    for (int64_t c = 0; c < COLOURS; c++)
        clear_output(&t, c);
    for (int64_t c = 0; c < COLOURS; c++)
        for (int64_t rgb = 0; rgb < 3; rgb++)
            set(&t, rgb, c, colour[c][rgb]);
}

/* Images are about 0.5. */
void zn_walsh_start_stem_bias(const zn_fresh *p, float a)
{
    (void)a;
    zn_start_value(p, 0);
    p->out[0] = -0.5f * (colour[0][0] + colour[0][1] + colour[0][2]);
}

static void scale(const zn_fresh *p, float by)
{
    for (int64_t i = 0; i < zn_shape_count(p->shape); i++)
        p->out[i] *= by;
}

void zn_walsh_start_image(const zn_fresh *p, float a)
{
    (void)a;
    const taps t = taps_of(p);
    zn_start_he(p, 0.1f);
    scale(p, beside);
    for (int64_t c = 0; c < COLOURS; c++)
        for (int64_t tap = 0; tap < t.count; tap++)
            memset(t.w + (tap * t.in + c) * t.out, 0, sizeof(float) * (size_t)t.out);
    for (int64_t c = 0; c < COLOURS; c++)
        for (int64_t rgb = 0; rgb < 3; rgb++)
            set(&t, c, rgb, colour[c][rgb]);
}

void zn_walsh_start_branch(const zn_fresh *p, float a)
{
    zn_start_he(p, a);
    scale(p, branch);
}
