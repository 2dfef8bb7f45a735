/* The public promise of diffusion autoencoders. Keeps the network of each part as it was used last. */
#include <zenith/diffae.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "diffusion/edit.h"
#include "diffusion/sampler.h"
#include "graph/exec.h"
#include "io/image/pixels.h"
#include "io/image/resample.h"
#include "models/model.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Classes of the original's classifiers, in the order of their rows. */
static const char *const attributes[] = {
    "5_o_Clock_Shadow",
    "Arched_Eyebrows",
    "Attractive",
    "Bags_Under_Eyes",
    "Bald",
    "Bangs",
    "Big_Lips",
    "Big_Nose",
    "Black_Hair",
    "Blond_Hair",
    "Blurry",
    "Brown_Hair",
    "Bushy_Eyebrows",
    "Chubby",
    "Double_Chin",
    "Eyeglasses",
    "Goatee",
    "Gray_Hair",
    "Heavy_Makeup",
    "High_Cheekbones",
    "Male",
    "Mouth_Slightly_Open",
    "Mustache",
    "Narrow_Eyes",
    "No_Beard",
    "Oval_Face",
    "Pale_Skin",
    "Pointy_Nose",
    "Receding_Hairline",
    "Rosy_Cheeks",
    "Sideburns",
    "Smiling",
    "Straight_Hair",
    "Wavy_Hair",
    "Wearing_Earrings",
    "Wearing_Hat",
    "Wearing_Lipstick",
    "Wearing_Necklace",
    "Wearing_Necktie",
    "Young",
};
enum { ATTRIBUTES = sizeof attributes / sizeof *attributes, CHANNELS = 3 };

typedef struct kept {
    zn_network network;
    zn_exec *exec;
    int64_t n;
} kept;

struct zn_diffae {
    const zn_model *model;
    zn_diffae_options options;
    zn_pool *pool;
    pthread_mutex_t lock;
    kept part[ZN_PARTS];
};

static const zn_diffae_form *form_of(const zn_diffae *d) { return &d->model->config.diffae; }

zn_status zn_diffae_new(const zn_model *model, const zn_diffae_options *options, zn_diffae **out)
{
    *out = NULL;
    if (!model->info.diffuses)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s is a %s, no diffusion autoencoder", model->info.path,
                       model->info.architecture);
    if (!model->has[ZN_DECODER] || !model->has[ZN_ENCODER])
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s has no %s", model->info.path,
                       model->has[ZN_DECODER] ? "encoder, so its pictures have no conditions" : "decoder");
    zn_diffae *d = zn_calloc(1, sizeof *d);
    if (!d)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a diffusion autoencoder");
    d->model = model;
    d->options = options ? *options : (zn_diffae_options){ 0 };
    pthread_mutex_init(&d->lock, NULL);
    const zn_status status = zn_pool_new(d->options.threads, &d->pool);
    if (status != ZN_OK)
        zn_diffae_free(d);
    else
        *out = d;
    return status;
}

static void forget(kept *k)
{
    zn_exec_free(k->exec);
    zn_graph_free(k->network.graph);
    *k = (kept){ 0 };
}

void zn_diffae_free(zn_diffae *d)
{
    if (!d)
        return;
    for (int part = 0; part < ZN_PARTS; part++)
        forget(&d->part[part]);
    zn_pool_free(d->pool);
    pthread_mutex_destroy(&d->lock);
    zn_free(d);
}

int zn_diffae_width(const zn_diffae *d) { return form_of(d)->encoder.out; }

size_t zn_diffae_noise_size(const zn_diffae *d, int count)
{
    const size_t side = (size_t)form_of(d)->size;
    return (size_t)count * side * side * CHANNELS;
}

const char *zn_diffae_attribute(int index) { return index >= 0 && index < ATTRIBUTES ? attributes[index] : NULL; }

/* A part for n samples, planned and with its weights packed. */
static zn_status network_of(zn_diffae *d, zn_part part, int64_t n, kept **out)
{
    kept *k = &d->part[part];
    *out = k;
    if (!d->model->has[part])
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s has no %s", d->model->info.path, zn_part_name(part));
    if (k->exec && k->n == n)
        return ZN_OK;
    forget(k);
    const int side = form_of(d)->size;
    ZN_TRY(zn_model_network(d->model, part, n, side, side, &k->network));
    zn_graph_fuse(k->network.graph, &k->network.output, 1);
    k->n = n;
    const zn_exec_options options = { .pool = d->pool, .math = (zn_math)d->options.precision, .whole = true };
    return zn_exec_new(k->network.graph, &k->network.output, 1, &options, &k->exec);
}

static zn_status check_picture(const zn_diffae *d, const zn_image *picture)
{
    const int side = form_of(d)->size;
    if (picture->width == side && picture->height == side)
        return ZN_OK;
    return ZN_FAIL(ZN_ESHAPE, "the picture is %dx%d, but %s is made for %dx%d", picture->width, picture->height,
                   d->model->info.architecture, side, side);
}

zn_status zn_diffae_fit(const zn_diffae *d, const zn_image *photo, zn_image **out)
{
    return zn_image_fit(photo, form_of(d)->size, out);
}

/* [0,1] to [-1,1] and back. */
static void to_signed(float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = 2 * x[i] - 1;
}

static void to_unit(float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = 0.5f * (x[i] + 1);
}

static void pixels_of(const zn_image *picture, float *x)
{
    zn_pixels_to_float(picture, (zn_region){ 0, 0, picture->width, picture->height }, x,
                       (size_t)picture->width * CHANNELS);
    to_signed(x, (int64_t)picture->width * picture->height * CHANNELS);
}

static zn_status encode(zn_diffae *d, const zn_image *picture, float *cond)
{
    kept *k;
    ZN_TRY(check_picture(d, picture));
    ZN_TRY(network_of(d, ZN_ENCODER, 1, &k));
    pixels_of(picture, k->network.input[0]->data);
    ZN_TRY(zn_exec_run(k->exec));
    ZN_TRY(zn_exec_check_finite(k->exec));
    memcpy(cond, k->network.output->data, sizeof *cond * (size_t)zn_diffae_width(d));
    return ZN_OK;
}

zn_status zn_diffae_encode(zn_diffae *d, const zn_image *picture, float *cond)
{
    pthread_mutex_lock(&d->lock);
    const zn_status status = encode(d, picture, cond);
    pthread_mutex_unlock(&d->lock);
    return status;
}

/* ---- sampling ---- */

typedef struct walk {
    zn_diffae *d;
    kept *k;
    int width; /* of the embedding of a step */
} walk;

static zn_status predict(void *self, const float *x, int step, float *noise)
{
    const walk *w = self;
    const zn_network *n = &w->k->network;
    memcpy(n->input[0]->data, x, sizeof *x * (size_t)zn_shape_count(n->input[0]->shape));
    for (int64_t i = 0; i < w->k->n; i++)
        zn_time_embedding(step, w->width, n->input[1]->data + i * w->width);
    ZN_TRY(zn_exec_run(w->k->exec));
    ZN_TRY(zn_exec_check_finite(w->k->exec));
    memcpy(noise, n->output->data, sizeof *noise * (size_t)zn_shape_count(n->output->shape));
    return ZN_OK;
}

static zn_status report(void *self, int done, int of, const float *x)
{
    (void)x;
    const zn_diffae_options *o = &((walk *)self)->d->options;
    if (o->progress && o->progress(o->user, done / (double)of))
        return ZN_FAIL(ZN_ECANCELLED, "cancelled");
    return ZN_OK;
}

static zn_status go(walk *w, zn_status (*sampler)(const zn_sampling *, float *), const char *betas, int steps,
                    bool clamp, float *x)
{
    zn_diffusion *schedule;
    ZN_TRY(zn_diffusion_new(betas, ZN_SPACING_DDIM, steps, &schedule));
    const zn_sampling s = { .schedule = schedule,
                            .count = zn_shape_count(w->k->network.input[0]->shape),
                            .clamp = clamp,
                            .predict = predict,
                            .done = report,
                            .self = w };
    const zn_status status = sampler(&s, x);
    zn_diffusion_free(schedule);
    return status;
}

/* From noise to pictures or back, in place. */
static zn_status travel(zn_diffae *d, int count, const float *cond, int steps,
                        zn_status (*sampler)(const zn_sampling *, float *), float *x)
{
    walk w = { .d = d, .width = form_of(d)->unet.width };
    ZN_TRY(network_of(d, ZN_DECODER, count, &w.k));
    memcpy(w.k->network.input[2]->data, cond, sizeof *cond * (size_t)(count * zn_diffae_width(d)));
    return go(&w, sampler, "linear", steps, true, x);
}

zn_status zn_diffae_invert(zn_diffae *d, const zn_image *picture, const float *cond, int steps, float *noise)
{
    ZN_TRY(check_picture(d, picture));
    pixels_of(picture, noise);
    pthread_mutex_lock(&d->lock);
    const zn_status status = travel(d, 1, cond, steps, zn_ddim_invert, noise);
    pthread_mutex_unlock(&d->lock);
    return status;
}

static zn_status pictures_of(const zn_diffae *d, int count, float *x, zn_image **out)
{
    const int side = form_of(d)->size;
    const int64_t size = (int64_t)zn_diffae_noise_size(d, 1);
    to_unit(x, count * size);
    for (int i = 0; i < count; i++) {
        const zn_status status = zn_image_new(side, side, 8, &out[i]);
        if (status != ZN_OK) {
            while (i-- > 0) {
                zn_image_free(out[i]);
                out[i] = NULL;
            }
            return status;
        }
        zn_pixels_from_float(x + i * size, (size_t)side * CHANNELS, out[i], (zn_region){ 0, 0, side, side });
    }
    return ZN_OK;
}

zn_status zn_diffae_render(zn_diffae *d, int count, const float *cond, const float *noise, int steps, zn_image **out)
{
    float *x;
    const size_t bytes = sizeof *x * zn_diffae_noise_size(d, count);
    for (int i = 0; i < count; i++)
        out[i] = NULL;
    if (count < 1)
        return ZN_FAIL(ZN_EINVALID, "%d pictures cannot be rendered", count);
    ZN_TRY(zn_alloc_for("pictures", bytes, (void **)&x));
    memcpy(x, noise, bytes);
    pthread_mutex_lock(&d->lock);
    zn_status status = travel(d, count, cond, steps, zn_ddim, x);
    pthread_mutex_unlock(&d->lock);
    if (status == ZN_OK)
        status = pictures_of(d, count, x, out);
    zn_free(x);
    return status;
}

static void fill_normal(uint64_t seed, float *x, size_t count)
{
    zn_rng rng = zn_rng_new(seed);
    for (size_t i = 0; i < count; i++)
        x[i] = zn_rng_normal(&rng);
}

void zn_diffae_noise(const zn_diffae *d, int count, uint64_t seed, float *noise)
{
    fill_normal(seed, noise, zn_diffae_noise_size(d, count));
}

/* Mean and deviation of conditions, or NULL where there are none. */
static const float *statistic(const zn_diffae *d, const char *name)
{
    const zn_model_parameter *p = zn_model_parameter_find(d->model, name);
    return p ? p->data : NULL;
}

zn_status zn_diffae_imagine(zn_diffae *d, int count, uint64_t seed, int steps, float *cond)
{
    const int width = zn_diffae_width(d);
    const float *mean = statistic(d, "conds_mean"), *deviation = statistic(d, "conds_std");
    walk w = { .d = d, .width = form_of(d)->latent.time };
    if (count < 1)
        return ZN_FAIL(ZN_EINVALID, "%d conditions cannot be made", count);
    fill_normal(zn_seed_for(seed, "conditions"), cond, (size_t)count * (size_t)width);
    pthread_mutex_lock(&d->lock);
    zn_status status = network_of(d, ZN_LATENT_NET, count, &w.k);
    if (status == ZN_OK)
        status = go(&w, zn_ddim, "const0.008", steps, false, cond);
    pthread_mutex_unlock(&d->lock);
    for (int64_t i = 0; status == ZN_OK && i < (int64_t)count * width; i++)
        cond[i] = cond[i] * deviation[i % width] + mean[i % width];
    return status;
}

/* ---- editing ---- */

zn_status zn_diffae_move(const zn_diffae *d, const float *cond, const char *attribute, double strength, float *out)
{
    const int width = zn_diffae_width(d), classes = form_of(d)->classes;
    char *end;
    long row = strtol(attribute, &end, 10);
    if (!d->model->has[ZN_CLASSIFIER])
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s has no classifier, so no attribute is known", d->model->info.path);
    if (end == attribute || *end)
        for (row = 0; row < classes && row < ATTRIBUTES && strcmp(attributes[row], attribute) != 0;)
            row++;
    if (row < 0 || row >= classes || (*end && row >= ATTRIBUTES))
        return ZN_FAIL(ZN_ENOTFOUND, "there is no attribute '%s'", attribute);
    const zn_model_parameter *w = zn_model_parameter_find(d->model, "classifier.weight");
    float *direction;
    ZN_TRY(zn_alloc_for("a direction", sizeof *direction * (size_t)width, (void **)&direction));
    for (int i = 0; i < width; i++) /* ours is [in][out] */
        direction[i] = w->data[(int64_t)i * classes + row];
    zn_move_condition(cond, statistic(d, "conds_mean"), statistic(d, "conds_std"), direction, strength, out, width);
    zn_free(direction);
    return ZN_OK;
}

void zn_diffae_between(const zn_diffae *d, const float *cond_a, const float *noise_a, const float *cond_b,
                       const float *noise_b, double at, float *cond, float *noise)
{
    zn_lerp(cond_a, cond_b, at, cond, zn_diffae_width(d));
    zn_slerp(noise_a, noise_b, at, noise, (int64_t)zn_diffae_noise_size(d, 1));
}
