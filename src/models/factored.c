/* Convolutions that a file stores as a chain of smaller ones. */
#include "models/factored.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "models/model.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AXES = 3, MOST = 1 << 20 };

/* A convolution by its shape: [out,in], [out,in,frames], [out,in,rows,columns] or [out,in,frames,rows,columns]. */
typedef struct kernel {
    int64_t out, in, side[AXES]; /* frames, rows, columns */
} kernel;

static kernel kernel_of(const zn_weight *w)
{
    kernel k = { w->shape[0], w->shape[1], { 1, 1, 1 } };
    if (w->rank == 3)
        k.side[0] = w->shape[2];
    for (int a = 0; w->rank > 3 && a < w->rank - 2; a++)
        k.side[AXES - (w->rank - 2) + a] = w->shape[2 + a];
    return k;
}

static int64_t taps_of(const kernel *k) { return k->side[0] * k->side[1] * k->side[2]; }
static int64_t elements(const kernel *k) { return k->out * k->in * taps_of(k); }

/* ---- which tensors, and in which order ---- */

/* What may be a factor: a tensor below the layer that is neither a scale nor a bias. */
static bool is_factor(const zn_weight *w, const char *layer)
{
    const size_t length = strlen(layer);
    for (int i = 0; i < w->rank; i++)
        if (w->shape[i] < 1 || w->shape[i] > MOST)
            return false;
    return w->rank >= 2 && w->rank <= 5 && strncmp(w->name, layer, length) == 0 && w->name[length] == '.' &&
           strcmp(w->name + length, ".weight") != 0 && !strstr(w->name + length, "scale");
}

/* The bias beside NAME.weight, or NULL. */
static const zn_weight *bias_beside(const zn_weights *file, const char *weight)
{
    char name[320];
    const size_t length = strlen(weight), end = strlen(".weight");
    if (length < end || strcmp(weight + length - end, ".weight") != 0)
        return NULL;
    snprintf(name, sizeof name, "%.*s.bias", (int)(length - end), weight);
    return zn_weights_find(file, name);
}

/* Whether the factors can run in this order. Along each axis one of them at most has a kernel: only then does padding
 * with zeros mean the same for the chain and for the product. */
static bool is_chain(const zn_weight *const *w, int count, kernel *whole)
{
    *whole = kernel_of(w[0]);
    for (int i = 1; i < count; i++) {
        const kernel k = kernel_of(w[i]);
        if (k.in != whole->out)
            return false;
        whole->out = k.out;
        for (int a = 0; a < AXES; a++) {
            if (k.side[a] > 1 && whole->side[a] > 1)
                return false;
            whole->side[a] *= k.side[a];
        }
    }
    return true;
}

/* The number that a factor's own name begins with; -1: none. */
static long number_of(const zn_weight *w, const char *layer)
{
    const char *own = w->name + strlen(layer) + 1;
    return isdigit((unsigned char)*own) ? strtol(own, NULL, 10) : -1;
}

static bool is_numbered(const zn_weight *const *w, int count, const char *layer)
{
    for (int i = 0; i < count; i++)
        if (number_of(w[i], layer) <= (i ? number_of(w[i - 1], layer) : -1))
            return false;
    return true;
}

static zn_status refuse(const zn_weight *const *w, int count, const char *layer, const char *why)
{
    char text[512];
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        zn_shape s = { .rank = w[i]->rank };
        char shape[96];
        memcpy(s.dim, w[i]->shape, sizeof s.dim);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s'%.100s' %s", i ? " and " : "",
                                 w[i]->name + strlen(layer) + 1, zn_shape_text(s, shape, sizeof shape));
        used = used < sizeof text ? used : sizeof text - 1;
    }
    return ZN_FAIL(ZN_ESHAPE, "the factors of '%s' %s: %s", layer, why, text);
}

/* Puts the factors in the order in which they run; whole: their product. */
static zn_status order(const zn_weight **w, int count, const char *layer, int64_t out, int64_t in, kernel *whole)
{
    static const int ways[6][ZN_LINKS] = {
        { 0, 1, 2 }, { 1, 0, 2 }, { 0, 2, 1 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 }
    };
    const zn_weight *best[ZN_LINKS] = { NULL };
    int64_t most = 0;
    int found = 0;
    bool numbered = false;
    for (int i = 0; i < (count == 2 ? 2 : 6); i++) {
        const zn_weight *one[ZN_LINKS] = { w[ways[i][0]], w[ways[i][1]], count > 2 ? w[ways[i][2]] : NULL };
        kernel k;
        if (!is_chain(one, count, &k) || (out && (k.out != out || k.in != in)))
            continue;
        const bool in_turn = is_numbered(one, count, layer);
        const bool better = k.out * k.in > most || (k.out * k.in == most && in_turn);
        found++;
        numbered |= in_turn;
        if (!better)
            continue;
        most = k.out * k.in;
        *whole = k;
        memcpy(best, one, sizeof best);
    }
    char why[128];
    snprintf(why, sizeof why, "do not make one convolution from %lld channels to %lld", (long long)in, (long long)out);
    if (!found)
        return refuse(w, count, layer, out ? why : "do not make one convolution");
    if (out && found > 1 && !numbered)
        return refuse(w, count, layer, "fit in any order, and their names have no numbers");
    memcpy(w, best, sizeof best[0] * (size_t)count);
    return ZN_OK;
}

bool zn_lacks_layer(const zn_weights *file, const char *name, char *layer, size_t size)
{
    const char *dot = strrchr(name, '.');
    char weight[288];
    if (!dot || (strcmp(dot, ".weight") && strcmp(dot, ".bias")))
        return false;
    snprintf(layer, size, "%.*s", (int)(dot - name), name);
    snprintf(weight, sizeof weight, "%.256s.weight", layer);
    return !zn_weights_find(file, weight);
}

zn_status zn_factored_find(const zn_weights *file, const char *layer, int64_t out, int64_t in, zn_factored *f)
{
    const zn_weight *found[ZN_LINKS + 1];
    int count = 0;
    kernel k = { 0 };
    *f = (zn_factored){ 0 };
    for (int64_t i = 0; i < zn_weights_count(file) && count <= ZN_LINKS; i++)
        if (is_factor(zn_weights_at(file, i), layer))
            found[count++] = zn_weights_at(file, i);
    if (!count)
        return ZN_OK;
    if (count == 1)
        return ZN_FAIL(ZN_EFORMAT, "tensor '%s.weight' is missing, and of its factors only '%s' is present", layer,
                       found[0]->name);
    if (count > ZN_LINKS)
        return ZN_FAIL(ZN_EUNSUPPORTED, "'%s' is stored as more than %d convolutions, which is not supported", layer,
                       ZN_LINKS);
    ZN_TRY(order(found, count, layer, out, in, &k));
    snprintf(f->name, sizeof f->name, "%s.weight", layer);
    f->count = count;
    f->whole = (zn_weight){ .name = f->name, .dtype = ZN_F32, .rank = 2, .shape = { k.out, k.in } };
    for (int i = 0; i < count; i++) {
        f->weight[i] = found[i];
        f->bias[i] = bias_beside(file, found[i]->name);
        const int rank = found[i]->rank == 3 ? 5 : found[i]->rank;
        f->whole.rank = rank > f->whole.rank ? rank : f->whole.rank;
    }
    for (int a = 2; a < f->whole.rank; a++)
        f->whole.shape[a] = k.side[AXES - f->whole.rank + a];
    const zn_weight *own = bias_beside(file, f->name);
    if (own && f->bias[count - 1])
        return ZN_FAIL(ZN_EFORMAT, "'%s' has two biases: its own, and that of its last factor", layer);
    if (own)
        f->bias[count - 1] = own;
    return ZN_OK;
}

/* ---- as layers ---- */

bool zn_factored_split(const zn_factored *f, zn_split *out)
{
    int64_t needed = 0;
    const kernel whole = kernel_of(&f->whole);
    *out = (zn_split){ .count = f->count };
    for (int i = 0; i < f->count; i++) {
        const zn_weight *w = f->weight[i];
        const kernel k = kernel_of(w);
        const bool taps = k.side[0] == 1 || k.side[0] == 3, sides = k.side[1] == 1 || k.side[1] == 3;
        if (!taps || !sides || k.side[1] != k.side[2] || (w->rank == 4 && k.side[1] > 1))
            return false;
        needed += elements(&k);
        out->link[i] = (zn_link){ .taps = (int)k.side[0],
                                  .side = (int)k.side[1],
                                  .out = (int)k.out,
                                  .weight = w->name,
                                  .bias = f->bias[i] ? f->bias[i]->name : NULL };
    }
    return needed < elements(&whole);
}

zn_status zn_splits_add(zn_splits *s, zn_arena *arena, const char *weight, const zn_split *split)
{
    if (!ZN_GROW(s->all, s->capacity, s->count + 1))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a model");
    zn_split *own = &s->all[s->count];
    *own = *split;
    own->layer = zn_arena_format(arena, "%.*s", (int)(strlen(weight) - strlen(".weight")), weight);
    for (int i = 0; i < own->count; i++) {
        zn_link *link = &own->link[i];
        link->weight = zn_arena_copy(arena, link->weight);
        link->bias = link->bias ? zn_arena_copy(arena, link->bias) : NULL;
    }
    if (arena->failed)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a model");
    s->count++;
    return ZN_OK;
}

const char *zn_splits_tensor(const zn_splits *s, const char *name)
{
    for (int i = 0; i < s->count; i++) {
        const zn_split *split = &s->all[i];
        const size_t length = strlen(split->layer);
        int link = 0, used = 0;
        if (strncmp(name, split->layer, length) == 0 && sscanf(name + length, ".factors.%d.%n", &link, &used) == 1 &&
            used && link < split->count)
            return strcmp(name + length + used, "bias") ? split->link[link].weight : split->link[link].bias;
    }
    return NULL;
}

/* ---- as one ---- */

/* The numbers of a tensor as the file has them; NULL if that fails. */
static zn_status read_factor(const zn_weights *file, const zn_weight *w, float **out)
{
    zn_shape s = { .rank = w->rank };
    memcpy(s.dim, w->shape, sizeof s.dim);
    ZN_TRY(zn_alloc_for("a weight", sizeof **out * (size_t)zn_shape_count(s), (void **)out));
    const zn_status status = zn_weight_read(file, w, s, ZN_LAYOUT_PLAIN, *out);
    if (status != ZN_OK) {
        zn_free(*out);
        *out = NULL;
    }
    return status;
}

/* The index of tap t of a kernel among the taps of the product. */
static int64_t tap_in_product(int64_t t, const kernel *k, const kernel *whole)
{
    const int64_t column = t % k->side[2], row = t / k->side[2] % k->side[1], frame = t / k->side[2] / k->side[1];
    return (frame * whole->side[1] + row) * whole->side[2] + column;
}

/* y = b a, of which a runs first; all [out][in][taps]. y is zero. */
static void multiply(const float *a, const kernel *ka, const float *b, const kernel *kb, const kernel *whole, float *y)
{
    const int64_t ta = taps_of(ka), tb = taps_of(kb), taps = taps_of(whole);
    for (int64_t o = 0; o < kb->out; o++)
        for (int64_t r = 0; r < kb->in; r++)
            for (int64_t t = 0; t < tb; t++) {
                const float factor = b[(o * kb->in + r) * tb + t];
                for (int64_t u = 0; u < ta; u++) {
                    float *to = y + o * ka->in * taps + tap_in_product(t, kb, whole) + tap_in_product(u, ka, whole);
                    const float *from = a + r * ka->in * ta + u;
                    for (int64_t i = 0; i < ka->in; i++)
                        to[i * taps] += factor * from[i * ta];
                }
            }
}

/* A product of the first factors may take no more memory than the layer or what the file holds: a few megabytes could
 * ask for a terabyte through a million channels between two factors. */
static zn_status check_between(const zn_factored *f)
{
    int64_t stored = 0;
    const kernel whole = kernel_of(&f->whole);
    kernel first;
    for (int i = 0; i < f->count; i++) {
        const kernel k = kernel_of(f->weight[i]);
        stored += elements(&k);
    }
    is_chain(f->weight, f->count - 1, &first);
    return elements(&first) <= stored || elements(&first) <= elements(&whole)
               ? ZN_OK
               : ZN_FAIL(ZN_EUNSUPPORTED,
                         "the factors of '%s' have %lld channels between them, too many for a layer from "
                         "%lld channels to %lld",
                         f->name, (long long)first.out, (long long)whole.in, (long long)whole.out);
}

zn_status zn_factored_multiply(const zn_weights *file, const zn_factored *f, zn_shape shape, zn_layout layout,
                               float *out)
{
    ZN_TRY(zn_weight_check_shape(&f->whole, shape, layout));
    ZN_TRY(check_between(f));
    float *product, *next = NULL, *made;
    kernel ka = kernel_of(f->weight[0]);
    ZN_TRY(read_factor(file, f->weight[0], &product));
    zn_status status = ZN_OK;
    for (int i = 1; i < f->count; i++) {
        const kernel kb = kernel_of(f->weight[i]);
        kernel whole;
        is_chain(f->weight, i + 1, &whole);
        ZN_TRY_DONE(read_factor(file, f->weight[i], &next));
        made = zn_calloc((size_t)elements(&whole), sizeof *made);
        if (!made) {
            status = ZN_FAIL(ZN_ENOMEM, "out of memory for '%s'", f->name);
            goto done;
        }
        multiply(product, &ka, next, &kb, &whole, made);
        zn_free(product);
        zn_free(next);
        next = NULL;
        product = made;
        ka = whole;
    }
    zn_weight whole = f->whole;
    whole.data = product;
    whole.bytes = sizeof *product * (size_t)elements(&ka);
    status = zn_weight_import(&whole, shape, layout, out);
done:
    zn_free(next);
    zn_free(product);
    return status;
}

/* The bias after a factor: its own, and what it makes of the one before it (NULL: none). */
static zn_status bias_after(const zn_weights *file, const zn_factored *f, int i, const float *before, float *out)
{
    const kernel k = kernel_of(f->weight[i]);
    const zn_weight *own = f->bias[i];
    float *w;
    if (before && taps_of(&k) > 1)
        return ZN_FAIL(ZN_EUNSUPPORTED,
                       "a factor of '%s' has a bias before the kernel of another, so their product is not one layer",
                       f->name);
    memset(out, 0, sizeof *out * (size_t)k.out);
    if (own)
        ZN_TRY(zn_weight_read(file, own, ZN_SHAPE(k.out), ZN_LAYOUT_PLAIN, out));
    if (!before)
        return ZN_OK;
    ZN_TRY(read_factor(file, f->weight[i], &w));
    for (int64_t o = 0; o < k.out; o++)
        for (int64_t r = 0; r < k.in; r++)
            out[o] += w[o * k.in + r] * before[r];
    zn_free(w);
    return ZN_OK;
}

zn_status zn_factored_bias(const zn_weights *file, const zn_factored *f, float *out)
{
    const int last = f->count - 1;
    float *before = NULL;
    zn_status status = ZN_OK;
    for (int i = 0; i < last && status == ZN_OK; i++) {
        float *next;
        if (!before && !f->bias[i])
            continue;
        status = zn_alloc_for("a bias", sizeof *next * (size_t)f->weight[i]->shape[0], (void **)&next);
        if (status == ZN_OK)
            status = bias_after(file, f, i, before, next);
        zn_free(before);
        before = next;
    }
    if (status == ZN_OK)
        status = bias_after(file, f, last, before, out);
    zn_free(before);
    return status;
}
