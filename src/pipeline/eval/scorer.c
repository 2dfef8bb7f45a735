/* All scores of a pair of images. The networks of LPIPS are found by name like any model, and run on the CPU in fp32
 * whatever the model under test uses, so that scores are the same everywhere. */
#include "pipeline/eval/scorer.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "graph/compute.h"
#include "graph/exec.h"
#include "io/image/pixels/pixels.h"
#include "models/model.h"
#include "ops/ops.h"
#include "train/score/bands.h"
#include "train/score/metrics.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum {
    LEAST_MS_SSIM = 176,
    LEAST_LPIPS = 64,   /* below, its deepest features see mostly padding */
    LARGEST_SIDE = 2048 /* of a piece that goes through the network at once: about 1 GB of activations */
};

_Static_assert((int)ZN_BANDS == (int)ZN_SCORE_BANDS, "scores have a share for every band");

/* A network of LPIPS for pairs of one size. */
typedef struct perception {
    zn_model *model; /* NULL: there is none */
    zn_network network;
    zn_exec *exec;
} perception;

struct zn_scorer {
    zn_compute compute;
    perception lpips[ZN_LPIPS_NETWORKS];
};

static const struct {
    const char *name, *file; /* of the weights: ours, and as published */
    size_t score;
} networks[ZN_LPIPS_NETWORKS] = {
    { "lpips-alex", "lpips_alex", offsetof(zn_scores, lpips_alex) },
    { "lpips-squeeze", "lpips_squeeze", offsetof(zn_scores, lpips_squeeze) },
};

zn_scores zn_no_scores(void)
{
    zn_scores s = { .psnr = NAN, .ssim = NAN, .ms_ssim = NAN, .lpips_alex = NAN, .lpips_squeeze = NAN, .flicker = NAN };
    for (int i = 0; i < ZN_SCORE_BANDS; i++)
        s.luma_kept[i] = s.chroma_kept[i] = NAN;
    return s;
}

const char *zn_lpips_name(int lpips)
{
    static const char *const names[] = { "auto", "none", "alex", "squeeze" };
    return lpips >= 0 && lpips < (int)(sizeof names / sizeof *names) ? names[lpips] : NULL;
}

/* ---- opening ---- */

static zn_status find(int which, zn_model **out)
{
    if (zn_model_find(networks[which].name, out) == ZN_OK)
        return ZN_OK;
    const zn_status status = zn_model_find(networks[which].file, out);
    return status == ZN_OK || status == ZN_ENOMEM
               ? status
               : ZN_FAIL(status, "no weights of %s found; docs/scores.md tells where to get them",
                         networks[which].name);
}

static zn_status open_networks(zn_scorer *s, zn_lpips choice)
{
    for (int i = 0; i < ZN_LPIPS_NETWORKS; i++) {
        if (choice != ZN_LPIPS_AUTO && choice != (zn_lpips)(ZN_LPIPS_ALEX + i))
            continue;
        const zn_status status = find(i, &s->lpips[i].model);
        if (status != ZN_OK && (choice != ZN_LPIPS_AUTO || status == ZN_ENOMEM))
            return status;
        if (status == ZN_OK && !s->lpips[i].model->info.judges)
            return ZN_FAIL(ZN_EFORMAT, "%s: this is a %s, not %s", s->lpips[i].model->info.path,
                           s->lpips[i].model->info.architecture, networks[i].name);
    }
    return ZN_OK;
}

zn_status zn_scorer_new(zn_lpips lpips, const zn_options *compute, zn_scorer **out)
{
    zn_scorer *s = *out = zn_calloc(1, sizeof *s);
    if (!s)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for scores");
    zn_options own;
    zn_status status;
    ZN_TRY_DONE(zn_options_read(compute, &own));
    own.device = NULL;
    ZN_TRY_DONE(zn_compute_begin(&own, &s->compute));
    status = open_networks(s, lpips);
done:
    if (status != ZN_OK) {
        zn_scorer_free(s);
        *out = NULL;
    }
    return status;
}

static void drop_network(perception *p)
{
    zn_exec_free(p->exec);
    zn_graph_free(p->network.graph);
    p->exec = NULL;
    p->network.graph = NULL;
}

void zn_scorer_free(zn_scorer *s)
{
    if (!s)
        return;
    for (int i = 0; i < ZN_LPIPS_NETWORKS; i++) {
        drop_network(&s->lpips[i]);
        zn_model_free(s->lpips[i].model);
    }
    zn_compute_end(&s->compute);
    zn_free(s);
}

/* ---- LPIPS ---- */

static zn_status prepare(const zn_scorer *s, perception *p, int width, int height)
{
    if (p->exec && p->network.input[0]->shape.dim[1] == height && p->network.input[0]->shape.dim[2] == width)
        return ZN_OK;
    drop_network(p);
    ZN_TRY(zn_model_network(p->model, ZN_ENCODER, 1, height, width, &p->network));
    zn_graph_fuse(p->network.graph, &p->network.output, 1);
    const zn_exec_options options = { .pool = s->compute.pool, .packs = s->compute.packs, .whole = true };
    return zn_exec_new(p->network.graph, &p->network.output, 1, &options, &p->exec);
}

/* Rows of a region of two images [H][width][3] into the network. */
static zn_status distance(const zn_scorer *s, perception *p, const float *const images[2], int64_t width,
                          zn_region part, double *out)
{
    ZN_TRY(prepare(s, p, part.width, part.height));
    for (int i = 0; i < 2; i++)
        for (int y = 0; y < part.height; y++)
            memcpy(p->network.input[i]->data + (int64_t)y * part.width * 3,
                   images[i] + ((part.y + y) * width + part.x) * 3, sizeof(float) * 3 * (size_t)part.width);
    ZN_TRY(zn_exec_run(p->exec));
    *out = (double)p->network.output->data[0];
    return ZN_OK;
}

/* Where piece i of n begins along a side; all pieces but the last have the same length. */
static int begin_of(int side, int i, int n) { return i < n ? i * ((side + n - 1) / n) : side; }

/* Large images in pieces, whose distances are averaged by area. */
static zn_status perceive(const zn_scorer *s, perception *p, const float *const images[2], int width, int height,
                          double *out)
{
    const int across = (width + LARGEST_SIDE - 1) / LARGEST_SIDE, down = (height + LARGEST_SIDE - 1) / LARGEST_SIDE;
    double sum = 0;
    *out = NAN;
    if (!p->model || width < LEAST_LPIPS || height < LEAST_LPIPS)
        return ZN_OK;
    for (int i = 0; i < across * down; i++) {
        const int x = begin_of(width, i % across, across), y = begin_of(height, i / across, down);
        const zn_region part = { x, y, begin_of(width, i % across + 1, across) - x,
                                 begin_of(height, i / across + 1, down) - y };
        double d;
        ZN_TRY(distance(s, p, images, width, part, &d));
        sum += d * part.width * part.height;
    }
    *out = sum / ((double)width * height);
    return ZN_OK;
}

/* ---- all scores ---- */

/* 8-bit values as floats in [0,1]. */
static void to_float(const zn_image *image, float *out)
{
    const size_t row = (size_t)image->width * 3, samples = row * (size_t)image->height;
    zn_pixels_to_float(image, (zn_region){ 0, 0, image->width, image->height }, out, row);
    for (size_t i = 0; image->bits == 16 && i < samples; i++)
        out[i] = floorf(out[i] * 255 + 0.5f) / 255;
}

zn_status zn_scorer_measure(zn_scorer *s, const zn_image *truth, const zn_image *got, bool perceives, zn_scores *out)
{
    zn_image_difference d;
    *out = zn_no_scores();
    ZN_TRY(zn_image_compare(truth, got, &d));
    out->psnr = d.psnr;
    out->ssim = d.ssim;
    out->psnr_infinite = isinf(d.psnr);
    const zn_shape shape = ZN_SHAPE(1, truth->height, truth->width, 3);
    const size_t samples = (size_t)zn_shape_count(shape);
    float *both;
    ZN_TRY(zn_alloc_for("comparing images", sizeof *both * samples * 2, (void **)&both));
    const float *const images[2] = { both, both + samples };
    zn_status status = ZN_OK;
    to_float(truth, both);
    to_float(got, both + samples);
    if (truth->width >= LEAST_MS_SSIM && truth->height >= LEAST_MS_SSIM)
        ZN_TRY_DONE(zn_ms_ssim(images[0], images[1], shape, 1, &out->ms_ssim));
    ZN_TRY_DONE(zn_bands_kept(images[0], images[1], shape, out->luma_kept, out->chroma_kept));
    for (int i = 0; i < ZN_LPIPS_NETWORKS && perceives; i++)
        ZN_TRY_DONE(perceive(s, &s->lpips[i], images, truth->width, truth->height,
                             (double *)((char *)out + networks[i].score)));
done:
    zn_free(both);
    return status;
}

zn_status zn_scorer_compare(zn_scorer *s, const zn_image *original, const zn_image *result, zn_scores *out)
{
    return zn_scorer_measure(s, original, result, true, out);
}
