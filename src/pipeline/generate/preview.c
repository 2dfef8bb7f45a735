/* Previews. */
#include "pipeline/generate/preview.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "diffusion/noise.h"
#include "io/image/pixels/pixels.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <zenith/codec.h>

/* A latent to fit to: squares of one value, and noise. */
enum { FIT_SIDE = 16, FIT_SQUARE = 4 };

/* From a pixel of the latent to eight of the image. */
enum { DOUBLINGS = 3 };

typedef enum preview_state { IDLE, BEGUN, ENDED, CLOSED } preview_state;

struct zn_preview {
    zn_autoencoder *own; /* the generator's, or NULL */
    zn_model *model;     /* TAEF1, or NULL */
    zn_codec *codec;
    float (*map)[3]; /* without either: [channels + 1] */
    int channels;
    zn_latent *latent; /* what is decoded now */
    zn_image *image;   /* what became of it; NULL: no memory, or status is not ZN_OK */
    zn_status status;
    char why[512]; /* text of the failure, which belongs to the thread that failed */
    /* a thread that decodes; without it, zn_preview_begin does */
    bool has_thread;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    preview_state state;
};

/* ---- networks ---- */

/* For the thread, a codec has a context and so a stream of its own: the generator's is busy with steps. */
static zn_options codec_options(const zn_generator *g)
{
    zn_options options = zn_generator_codec_options(g);
    if (g->compute.device) {
        options.context = NULL;
        options.threads = 2;
    }
    return options;
}

static zn_status open_model(zn_preview *p, const char *path, const zn_options *options)
{
    ZN_TRY(zn_model_open(path, &p->model));
    const zn_model_info *info = zn_model_info_of(p->model);
    if (!info->has_decoder || info->latent_channels != p->channels)
        return ZN_FAIL(ZN_ESHAPE, "%s cannot show previews: it has no decoder for latents of %d channels", path,
                       p->channels);
    return zn_codec_new(p->model, options, &p->codec);
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
    zn_torch_noise_fill(&n, coarse, (int64_t)(squares * channels), NULL);
    zn_torch_noise_fill(&n, z->data, (int64_t)(cells * channels), NULL);
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

/* As large as the image will be. */
static zn_status enlarge(zn_image **image)
{
    zn_status status = ZN_OK;
    for (int i = 0; i < DOUBLINGS && status == ZN_OK; i++) {
        zn_image *larger = NULL;
        status = zn_image_enlarge(*image, &larger);
        zn_image_free(*image);
        *image = larger;
    }
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
    zn_status status = zn_image_new(z->width, z->height, 8, out);
    if (status == ZN_OK) {
        zn_pixels_from_float(rgb, (size_t)z->width * 3, *out, (zn_region){ 0, 0, z->width, z->height });
        status = enlarge(out);
    }
    zn_free(rgb);
    return status;
}

/* ---- all of them ---- */

static void make(zn_preview *p)
{
    p->status = p->own     ? zn_autoencoder_decode(p->own, p->latent, &p->image)
                : p->codec ? zn_decode(p->codec, p->latent, &p->image)
                           : make_linear(p, p->latent, &p->image);
    if (p->status == ZN_ENOMEM) /* the image itself may be decoded in tiles */
        p->status = ZN_OK;
    if (p->status != ZN_OK)
        snprintf(p->why, sizeof p->why, "%s", zn_error_text());
}

static void *make_all(void *self)
{
    zn_preview *p = self;
    pthread_mutex_lock(&p->lock);
    while (p->state != CLOSED) {
        if (p->state == BEGUN) {
            pthread_mutex_unlock(&p->lock);
            make(p);
            pthread_mutex_lock(&p->lock);
            if (p->state == BEGUN)
                p->state = ENDED;
            pthread_cond_broadcast(&p->changed);
        } else {
            pthread_cond_wait(&p->changed, &p->lock);
        }
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Without a thread previews only take longer. */
static void start_thread(zn_preview *p)
{
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->has_thread = pthread_create(&p->thread, NULL, make_all, p) == 0;
    if (!p->has_thread) {
        pthread_cond_destroy(&p->changed);
        pthread_mutex_destroy(&p->lock);
    }
}

static void end_thread(zn_preview *p)
{
    pthread_mutex_lock(&p->lock);
    p->state = CLOSED;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
}

zn_status zn_preview_new(zn_generator *g, int channels, zn_preview **out)
{
    const char *path = g->paths.part[ZN_GENERATOR_PREVIEW];
    *out = NULL;
    zn_preview *p = zn_calloc(1, sizeof *p);
    if (!p)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a preview");
    p->channels = channels;
    const zn_options options = codec_options(g);
    zn_status status = zn_autoencoder_open_small(g, &options, &p->own);
    if (status == ZN_OK && !p->own)
        status = path[0] ? open_model(p, path, &options) : fit_to_decoder(p, g);
    if (status != ZN_OK) {
        zn_preview_free(p);
        return status;
    }
    if (g->compute.device)
        start_thread(p);
    *out = p;
    return ZN_OK;
}

void zn_preview_free(zn_preview *p)
{
    if (!p)
        return;
    if (p->has_thread)
        end_thread(p);
    zn_autoencoder_free(p->own);
    zn_codec_free(p->codec);
    zn_model_free(p->model);
    zn_latent_free(p->latent);
    zn_image_free(p->image);
    zn_free(p->map);
    zn_free(p);
}

bool zn_preview_has_thread(const zn_preview *p) { return p->has_thread; }

static void change(zn_preview *p, preview_state to)
{
    if (!p->has_thread) {
        p->state = to;
        return;
    }
    pthread_mutex_lock(&p->lock);
    p->state = to;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

zn_status zn_preview_begin(zn_preview *p, const zn_latent *latent)
{
    const size_t count = (size_t)latent->width * (size_t)latent->height * (size_t)latent->channels;
    if (!p->latent || p->latent->width != latent->width || p->latent->height != latent->height) {
        zn_latent_free(p->latent);
        p->latent = NULL;
        ZN_TRY(zn_latent_new(latent->width, latent->height, latent->channels, &p->latent));
    }
    p->latent->downscale = latent->downscale;
    memcpy(p->latent->data, latent->data, sizeof *latent->data * count);
    change(p, BEGUN);
    if (!p->has_thread) {
        make(p);
        change(p, ENDED);
    }
    return ZN_OK;
}

zn_status zn_preview_end(zn_preview *p, zn_image **out)
{
    *out = NULL;
    if (p->has_thread) {
        pthread_mutex_lock(&p->lock);
        while (p->state == BEGUN)
            pthread_cond_wait(&p->changed, &p->lock);
        pthread_mutex_unlock(&p->lock);
    }
    if (p->state == IDLE)
        return ZN_OK;
    change(p, IDLE);
    *out = p->image;
    p->image = NULL;
    return p->status == ZN_OK ? ZN_OK : ZN_FAIL(p->status, "%s", p->why);
}
