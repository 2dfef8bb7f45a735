/* What samples should be that are known to be wrong. Channels go together in photos, so a sample is predicted from the
 * other channels of its pixel, with slopes found among the neighbours. */
#include "base/fail.h"
#include "io/image/pixels/impulse_parts.h"

#include <string.h>

enum { REACH = 2 };

zn_samples zn_samples_of(const zn_image *image)
{
    return (zn_samples){ image, (int64_t)image->width * 3, image->bits == 8 ? UINT8_MAX : UINT16_MAX };
}

int zn_sample_neighbours(const zn_samples *s, int64_t i, int64_t offset[8])
{
    const int64_t x = i % s->row / 3, y = i / s->row;
    int count = 0;
    for (int k = 0; k < 9; k++) {
        const int dx = k % 3 - 1, dy = k / 3 - 1;
        if (k != 4 && x + dx >= 0 && x + dx < s->image->width && y + dy >= 0 && y + dy < s->image->height)
            offset[count++] = dy * s->row + dx * 3;
    }
    return count;
}

double zn_cells_quantile(const zn_cells *cells, double part)
{
    int64_t all = 0, below = 0;
    int share = 0;
    for (int i = 0; i <= ZN_SHARES; i++)
        all += cells->by_share[i];
    while ((double)(below += cells->by_share[share]) < part * (double)all)
        share++;
    return (double)share / ZN_SHARES;
}

double zn_nearness(int dx, int dy)
{
    static const double near[] = { 1, 0.6065, 0.3679, 0, 0.1353, 0.0821, 0, 0, 0.0183 };
    return near[dx * dx + dy * dy];
}

void zn_moments_add(zn_moments *m, double weight, double v, double a, double b)
{
    m->weight += weight;
    m->v += weight * v;
    m->a += weight * a;
    m->b += weight * b;
    m->va += weight * v * a;
    m->vb += weight * v * b;
    m->aa += weight * a * a;
    m->bb += weight * b * b;
    m->ab += weight * a * b;
}

zn_line zn_moments_line(const zn_moments *m, bool has_a, bool has_b)
{
    const double w = m->weight, pull = 20, slope = has_a && has_b ? 0.45 : 0.9;
    const double v = m->v / w, a = m->a / w, b = m->b / w;
    const double va = m->va / w - v * a + (has_a ? pull * slope : 0),
                 vb = m->vb / w - v * b + (has_b ? pull * slope : 0);
    const double aa = m->aa / w - a * a + pull, bb = m->bb / w - b * b + pull, ab = m->ab / w - a * b;
    const double whole = aa * bb - ab * ab;
    zn_line line = { .a = (va * bb - vb * ab) / whole, .b = (aa * vb - ab * va) / whole };
    line.value = v - line.a * a - line.b * b;
    return line;
}

/* What the samples around suggest for a wrong one, of 255. False: all of them are wrong. */
static bool suggest(const zn_samples *s, const uint8_t *state, int64_t i, double *value)
{
    const int64_t x = i % s->row / 3, y = i / s->row, first = i / 3 * 3, ia = first + (i + 1) % 3,
                  ib = first + (i + 2) % 3;
    const bool has_a = !state[ia], has_b = !state[ib];
    const double scale = 255.0 / s->top;
    zn_moments m = { 0 };
    for (int k = 0; k < (2 * REACH + 1) * (2 * REACH + 1); k++) {
        const int dx = k % (2 * REACH + 1) - REACH, dy = k / (2 * REACH + 1) - REACH;
        const int64_t d = dy * s->row + dx * 3;
        if (x + dx < 0 || x + dx >= s->image->width || y + dy < 0 || y + dy >= s->image->height || state[i + d] ||
            (has_a && state[ia + d]) || (has_b && state[ib + d]))
            continue;
        const double a = has_a ? scale * (zn_sample_at(s, ia + d) - zn_sample_at(s, ia)) : 0;
        const double b = has_b ? scale * (zn_sample_at(s, ib + d) - zn_sample_at(s, ib)) : 0;
        zn_moments_add(&m, zn_nearness(dx, dy) / (100 + a * a + b * b), scale * zn_sample_at(s, i + d), a, b);
    }
    *value = m.weight > 0 ? zn_moments_line(&m, has_a, has_b).value : 0;
    return m.weight > 0;
}

static void put(zn_image *image, int64_t i, double value)
{
    const double v = value < 0 ? 0 : value > 255 ? 255 : value;
    if (image->bits == 8)
        ((uint8_t *)image->pixels)[i] = (uint8_t)(v + 0.5);
    else
        ((uint16_t *)image->pixels)[i] = (uint16_t)(v * 257 + 0.5);
}

/* Fills the samples that have something to go by. What is filled counts in the next round; false: nothing is left. */
static bool fill(zn_image *image, uint8_t *state, int64_t count)
{
    const zn_samples s = zn_samples_of(image);
    bool some = false, left = false;
    double value;
    for (int64_t i = 0; i < count; i++)
        if (state[i] == ZN_SAMPLE_WRONG && suggest(&s, state, i, &value)) {
            put(image, i, value);
            state[i] = ZN_SAMPLE_FILLED;
            some = true;
        }
    for (int64_t i = 0; i < count; i++) {
        state[i] = state[i] == ZN_SAMPLE_WRONG ? ZN_SAMPLE_WRONG : ZN_SAMPLE_RIGHT;
        left |= state[i] == ZN_SAMPLE_WRONG;
    }
    return some && left;
}

zn_status zn_impulses_replace(const zn_image *image, uint8_t *state, zn_image **out)
{
    const int64_t count = (int64_t)image->width * image->height * 3;
    ZN_TRY(zn_image_new(image->width, image->height, image->bits, out));
    memcpy((*out)->pixels, image->pixels, (size_t)count * (size_t)(image->bits / 8));
    (*out)->grey = image->grey;
    while (fill(*out, state, count))
        ;
    return ZN_OK;
}
