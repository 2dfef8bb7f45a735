/* Encoding a data set, and taking its conditions in an order. */
#include "train/data/conditions.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "graph/exec.h"
#include "io/image/pixels/resample.h"
#include "train/data/order.h"

#include <math.h>
#include <string.h>

/* Pixels encoded at a time: 16 pictures of 64x64, one of 256x256. */
enum { BATCH_PIXELS = 1 << 16, MOST_AT_ONCE = 64 };

/* A number of conditions that is the same in all pictures would make normalised ones infinite. */
static const double least_deviation = 1e-6;

zn_status zn_conditions_new(const zn_dataset *set, int width, int views, zn_conditions **out)
{
    zn_conditions *c = *out = zn_calloc(1, sizeof *c);
    if (!c)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for conditions");
    *c = (zn_conditions){ .width = width, .views = views, .pictures = zn_dataset_count(set) };
    const size_t count = (size_t)c->pictures + 1;
    c->values = zn_calloc(count, sizeof(float) * (size_t)width * (size_t)views);
    c->known = zn_calloc(count, sizeof *c->known);
    c->learned = zn_calloc(count, sizeof *c->learned);
    c->held = zn_calloc(count, sizeof *c->held);
    if (c->values && c->known && c->learned && c->held)
        return ZN_OK;
    zn_conditions_free(c);
    *out = NULL;
    return ZN_FAIL(ZN_ENOMEM, "out of memory for the conditions of %lld pictures", (long long)zn_dataset_count(set));
}

void zn_conditions_free(zn_conditions *c)
{
    if (!c)
        return;
    zn_free(c->values);
    zn_free(c->known);
    zn_free(c->learned);
    zn_free(c->held);
    zn_free(c);
}

void zn_conditions_forget(zn_conditions *c)
{
    memset(c->values, 0, sizeof(float) * (size_t)(c->pictures * c->views * c->width));
    memset(c->known, 0, sizeof(float) * (size_t)c->pictures);
}

/* ---- encoding ---- */

static float *values_of(const zn_conditions *c, int64_t picture, int view)
{
    return c->values + (picture * c->views + view) * c->width;
}

/* The encoder, and the places that its inputs' results go to. */
typedef struct desk {
    zn_conditions *c;
    const zn_encoding *how;
    zn_network network;
    zn_exec *exec;
    int side, batch, used;
    float *to[MOST_AT_ONCE];
} desk;

static zn_status desk_open(desk *k)
{
    const zn_model *m = k->how->model;
    k->side = k->how->side ? k->how->side : m->config.size;
    k->batch = BATCH_PIXELS / (k->side * k->side);
    k->batch = k->batch < 1 ? 1 : k->batch > MOST_AT_ONCE ? MOST_AT_ONCE : k->batch;
    if (m->arch->network)
        ZN_TRY(zn_model_network(m, ZN_ENCODER, k->batch, k->side, k->side, &k->network));
    else
        ZN_TRY(zn_model_graph(m, ZN_ENCODER, ZN_SHAPE(k->batch, k->side, k->side, 3), &k->network.graph,
                              &k->network.input[0], &k->network.output));
    zn_graph_fuse(k->network.graph, &k->network.output, 1);
    const zn_exec_options options = { .pool = k->how->pool, .device = k->how->device, .whole = true };
    return zn_exec_new(k->network.graph, &k->network.output, 1, &options, &k->exec);
}

static zn_status desk_clear(desk *k)
{
    if (!k->used)
        return ZN_OK;
    ZN_TRY(zn_exec_run(k->exec));
    ZN_TRY(zn_exec_check_finite(k->exec));
    for (int i = 0; i < k->used; i++)
        memcpy(k->to[i], k->network.output->data + (int64_t)i * k->c->width, sizeof(float) * (size_t)k->c->width);
    k->used = 0;
    return ZN_OK;
}

/* Where the next picture belongs; its result goes to `to`. */
static zn_status desk_place(desk *k, float *to, float **pixels)
{
    if (k->used == k->batch)
        ZN_TRY(desk_clear(k));
    *pixels = k->network.input[0]->data + (int64_t)k->used * k->side * k->side * 3;
    k->to[k->used++] = to;
    return ZN_OK;
}

static void mirror(float *pixels, int side)
{
    for (float *row = pixels; row < pixels + side * side * 3; row += side * 3)
        for (int left = 0, right = side - 1; left < right; left++, right--)
            for (int c = 0; c < 3; c++) {
                const float swap = row[left * 3 + c];
                row[left * 3 + c] = row[right * 3 + c];
                row[right * 3 + c] = swap;
            }
}

/* NULL where the picture cannot be read. */
static zn_status read_square(const zn_encoding *how, int64_t picture, int side, zn_image **out)
{
    zn_image *photo;
    *out = NULL;
    ZN_TRY(zn_picture_read(how->set, picture, &how->skip, &photo));
    if (!photo)
        return ZN_OK;
    const zn_status status = zn_image_fit(photo, side, side, out);
    zn_image_free(photo);
    if (status == ZN_OK || status == ZN_ENOMEM)
        return status;
    if (how->skip.note)
        how->skip.note(how->skip.user, picture, zn_error_text());
    return ZN_OK;
}

static zn_status encode_picture(desk *k, int64_t picture)
{
    zn_image *square;
    ZN_TRY(read_square(k->how, picture, k->side, &square));
    if (!square)
        return ZN_OK;
    zn_status status = ZN_OK;
    for (int view = 0; view < k->c->views && status == ZN_OK; view++) {
        float *pixels;
        status = desk_place(k, values_of(k->c, picture, view), &pixels);
        if (status == ZN_OK)
            (k->how->model->arch->network ? zn_picture_signed : zn_picture_plain)(square, pixels);
        if (status == ZN_OK && view == 1)
            mirror(pixels, k->side);
    }
    zn_image_free(square);
    k->c->known[picture] = 1;
    return status;
}

static zn_status encode_share(desk *k)
{
    const zn_encoding *how = k->how;
    const int ranks = zn_ranks_count(how->ranks);
    int64_t done = 0, all = 0;
    for (int64_t i = zn_ranks_rank(how->ranks); i < k->c->pictures; i += ranks)
        all += !how->wanted || how->wanted[i];
    ZN_TRY(desk_open(k));
    for (int64_t i = zn_ranks_rank(how->ranks); i < k->c->pictures; i += ranks) {
        if (how->wanted && !how->wanted[i])
            continue;
        ZN_TRY(encode_picture(k, i));
        if (how->progress && how->progress(how->user, ++done, all))
            return ZN_FAIL(ZN_ECANCELLED, "stopped while the images were encoded");
    }
    return desk_clear(k);
}

zn_status zn_conditions_encode(zn_conditions *c, const zn_encoding *how)
{
    desk k = { .c = c, .how = how };
    const zn_status status = encode_share(&k);
    zn_exec_free(k.exec);
    zn_graph_free(k.network.graph);
    ZN_TRY(zn_ranks_agree(how->ranks, status));
    ZN_TRY(zn_ranks_sum(how->ranks, c->values, c->pictures * c->views * c->width));
    return zn_ranks_sum(how->ranks, c->known, c->pictures);
}

/* ---- taking ---- */

zn_status zn_conditions_split(zn_conditions *c, const zn_dataset *set, int held_out)
{
    c->learned_count = c->held_count = 0;
    for (int64_t i = 0; i < c->pictures; i++) {
        if (c->known[i] == 0)
            continue;
        if (zn_dataset_held_out(set, i, held_out))
            c->held[c->held_count++] = i;
        else
            c->learned[c->learned_count++] = i;
    }
    if (c->learned_count > 1)
        return ZN_OK;
    return ZN_FAIL(ZN_EINVALID, "%lld of the %lld images can be learned from: at least two are needed",
                   (long long)c->learned_count, (long long)c->pictures);
}

void zn_conditions_statistics(const zn_conditions *c, float *mean, float *deviation)
{
    for (int k = 0; k < c->width; k++) {
        double sum = 0, square = 0;
        for (int64_t i = 0; i < c->learned_count; i++)
            sum += (double)values_of(c, c->learned[i], 0)[k];
        sum /= (double)c->learned_count;
        for (int64_t i = 0; i < c->learned_count; i++) {
            const double d = (double)values_of(c, c->learned[i], 0)[k] - sum;
            square += d * d;
        }
        const double wide = sqrt(square / (double)(c->learned_count - 1));
        mean[k] = (float)sum;
        deviation[k] = (float)(wide > least_deviation ? wide : least_deviation);
    }
}

const float *zn_conditions_at(const zn_conditions *c, uint64_t seed, uint64_t n, int64_t *picture)
{
    *picture = c->learned[zn_order_at(seed, n, (uint64_t)c->learned_count)];
    return values_of(c, *picture, (int)(zn_order_mix(seed + 1, n) % (uint64_t)c->views));
}
