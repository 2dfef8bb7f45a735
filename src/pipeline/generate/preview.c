/* Previews. */
#include "pipeline/generate/preview.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "diffusion/noise.h"
#include "io/image/pixels/pixels.h"

#include <math.h>
#include <string.h>
#include <zenith/codec.h>

/* A latent to fit to: squares of one value, and noise. */
enum { FIT_SIDE = 16, FIT_SQUARE = 4 };

struct zn_preview {
    zn_model *model; /* TAEF1, or NULL */
    zn_codec *codec;
    float (*map)[3]; /* without a model: [channels + 1] */
    int channels;
};

/* ---- TAEF1 ---- */

static zn_status open_model(zn_preview *p, zn_generator *g, const char *path)
{
    const zn_options options = zn_generator_codec_options(g);
    ZN_TRY(zn_model_open(path, &p->model));
    const zn_model_info *info = zn_model_info_of(p->model);
    if (!info->has_decoder || info->latent_channels != p->channels)
        return ZN_FAIL(ZN_ESHAPE, "%s cannot show previews: it has no decoder for latents of %d channels", path,
                       p->channels);
    return zn_codec_new(p->model, &options, &p->codec);
}

/* ---- the linear map ---- */

/* Mean colour of the square of latent pixel (x,y). */
static void mean_colour(const float *rgb, int width, int scale, int x, int y, double mean[3])
{
    mean[0] = mean[1] = mean[2] = 0;
    for (int j = 0; j < scale; j++)
        for (int i = 0; i < scale; i++)
            for (int c = 0; c < 3; c++)
                mean[c] +=
                    (double)rgb[((size_t)(y * scale + j) * (size_t)width + (size_t)(x * scale + i)) * 3 + (size_t)c] /
                    (scale * scale);
}

/* Solves a x = b for three right sides by Gauss; a [n][n] is symmetric and positive. Both are overwritten. */
static void solve(double *a, double (*b)[3], int n)
{
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++) {
            const double factor = i == k ? 0 : a[i * n + k] / a[k * n + k];
            for (int j = k; j < n && i != k; j++)
                a[i * n + j] -= factor * a[k * n + j];
            for (int c = 0; c < 3 && i != k; c++)
                b[i][c] -= factor * b[k][c];
        }
    for (int k = 0; k < n; k++)
        for (int c = 0; c < 3; c++)
            b[k][c] /= a[k * n + k];
}

/* Least squares: sums over all latent pixels, with a little added to the diagonal so that they can be solved. */
static void fit(const zn_latent *z, const float *rgb, int scale, double *a, double (*b)[3])
{
    const int c = z->channels, n = c + 1;
    memset(a, 0, sizeof *a * (size_t)(n * n));
    memset(b, 0, sizeof *b * (size_t)n);
    for (int y = 0; y < z->height; y++)
        for (int x = 0; x < z->width; x++) {
            const float *v = z->data + (size_t)(y * z->width + x) * (size_t)c;
            double colour[3];
            mean_colour(rgb, z->width * scale, scale, x, y, colour);
            for (int i = 0; i < n; i++) {
                const double vi = i < c ? (double)v[i] : 1;
                for (int j = 0; j < n; j++)
                    a[i * n + j] += vi * (j < c ? (double)v[j] : 1);
                for (int k = 0; k < 3; k++)
                    b[i][k] += vi * colour[k];
            }
        }
    for (int i = 0; i < n; i++)
        a[i * n + i] += 1e-6 * z->width * z->height;
    solve(a, b, n);
}

zn_status zn_preview_fit(const zn_latent *latent, const zn_image *image, float (*map)[3])
{
    const int n = latent->channels + 1, scale = image->width / latent->width;
    const size_t pixels = (size_t)image->width * (size_t)image->height;
    float *rgb = NULL;
    double *sums = NULL;
    zn_status status;
    ZN_TRY_DONE(zn_alloc_for("a preview", sizeof *rgb * 3 * pixels, (void **)&rgb));
    ZN_TRY_DONE(zn_alloc_for("a preview", sizeof *sums * (size_t)(n * (n + 3)), (void **)&sums));
    double(*right)[3] = (double(*)[3])(sums + n * n);
    zn_pixels_to_float(image, (zn_region){ 0, 0, image->width, image->height }, rgb, (size_t)image->width * 3);
    fit(latent, rgb, scale, sums, right);
    for (int i = 0; i < n; i++)
        for (int c = 0; c < 3; c++)
            map[i][c] = (float)right[i][c];
done:
    zn_free(rgb);
    zn_free(sums);
    return status;
}

static zn_status fit_to_decoder(zn_preview *p, zn_generator *g)
{
    const size_t cells = FIT_SIDE * FIT_SIDE, squares = (FIT_SIDE / FIT_SQUARE) * (FIT_SIDE / FIT_SQUARE);
    const size_t channels = (size_t)p->channels;
    zn_torch_noise n;
    zn_latent *z = NULL;
    zn_image *image = NULL;
    float *coarse = NULL;
    zn_status status;
    ZN_TRY_DONE(zn_alloc_for("a preview", sizeof *p->map * (channels + 1), (void **)&p->map));
    ZN_TRY_DONE(zn_alloc_for("a preview", sizeof *coarse * squares * channels, (void **)&coarse));
    ZN_TRY_DONE(zn_latent_new(FIT_SIDE, FIT_SIDE, p->channels, &z));
    zn_torch_noise_seed(&n, 0);
    zn_torch_noise_fill(&n, coarse, (int64_t)(squares * channels));
    zn_torch_noise_fill(&n, z->data, (int64_t)(cells * channels));
    for (size_t i = 0; i < cells; i++) {
        const size_t square = i / FIT_SIDE / FIT_SQUARE * (FIT_SIDE / FIT_SQUARE) + i % FIT_SIDE / FIT_SQUARE;
        for (size_t c = 0; c < channels; c++)
            z->data[i * channels + c] = sqrtf(0.5f) * (z->data[i * channels + c] + coarse[square * channels + c]);
    }
    ZN_TRY_DONE(zn_generator_decode(g, z, ZN_TILE_AUTO, (zn_stage_progress){ 0 }, &image));
    status = zn_preview_fit(z, image, p->map);
done:
    zn_free(coarse);
    zn_latent_free(z);
    zn_image_free(image);
    return status;
}

static zn_status make_linear(const zn_preview *p, const zn_latent *z, zn_image **out)
{
    const size_t pixels = (size_t)z->width * (size_t)z->height;
    float *rgb;
    ZN_TRY(zn_alloc_for("a preview", sizeof *rgb * 3 * pixels, (void **)&rgb));
    for (size_t i = 0; i < pixels; i++)
        for (int c = 0; c < 3; c++) {
            float sum = p->map[p->channels][c];
            for (int k = 0; k < p->channels; k++)
                sum += p->map[k][c] * z->data[i * (size_t)p->channels + (size_t)k];
            rgb[3 * i + (size_t)c] = sum;
        }
    const zn_status status = zn_image_new(z->width, z->height, 8, out);
    if (status == ZN_OK)
        zn_pixels_from_float(rgb, (size_t)z->width * 3, *out, (zn_region){ 0, 0, z->width, z->height });
    zn_free(rgb);
    return status;
}

/* ---- both ---- */

zn_status zn_preview_new(zn_generator *g, int channels, zn_preview **out)
{
    const char *path = g->paths.part[ZN_GENERATOR_PREVIEW];
    *out = NULL;
    zn_preview *p = zn_calloc(1, sizeof *p);
    if (!p)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a preview");
    p->channels = channels;
    const zn_status status = path[0] ? open_model(p, g, path) : fit_to_decoder(p, g);
    if (status != ZN_OK)
        zn_preview_free(p);
    else
        *out = p;
    return status;
}

void zn_preview_free(zn_preview *p)
{
    if (!p)
        return;
    zn_codec_free(p->codec);
    zn_model_free(p->model);
    zn_free(p->map);
    zn_free(p);
}

zn_status zn_preview_make(zn_preview *p, const zn_latent *latent, zn_image **out)
{
    return p->codec ? zn_decode(p->codec, latent, out) : make_linear(p, latent, out);
}
