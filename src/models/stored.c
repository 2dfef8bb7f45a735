/* Binding parameters to the tensors of open files. */
#include "models/stored.h"

#include "base/fail.h"
#include "base/text.h"
#include "io/weights/mlx.h"
#include "io/weights/scaled.h"
#include "models/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool zn_find_prefix(const zn_weights *const *files, int count, const char *ending, char *prefix, size_t size)
{
    for (int f = 0; f < count; f++)
        for (int64_t i = 0; i < zn_weights_count(files[f]); i++) {
            const char *name = zn_weights_at(files[f], i)->name, *end = zn_ending(name, ending);
            if (!end || (size_t)(end - name) >= size)
                continue;
            snprintf(prefix, size, "%.*s", (int)(end - name), name);
            return true;
        }
    return false;
}

const zn_weight *zn_find_after(const zn_weights *w, const char *prefix, const char *format, ...)
{
    char name[256];
    const int used = snprintf(name, sizeof name, "%s", prefix);
    if (used < 0 || (size_t)used >= sizeof name)
        return NULL;
    va_list args;
    va_start(args, format);
    const int more = vsnprintf(name + used, sizeof name - (size_t)used, format, args);
    va_end(args);
    return more >= 0 && (size_t)(used + more) < sizeof name ? zn_weights_find(w, name) : NULL;
}

const zn_weight *zn_stored_find(const zn_stored *s, const char *name, zn_place *place, const zn_weights **file)
{
    zn_place at = { .parts = 1 };
    const int length = snprintf(at.name, sizeof at.name, "%s", name);
    if (length < 0 || (size_t)length >= sizeof at.name)
        return NULL;
    if (s->place)
        s->place(s->self, &at);
    if (place)
        *place = at;
    for (int i = 0; i < s->count; i++) {
        const zn_weight *w = zn_weights_find(s->files[i], at.name);
        if (w && file)
            *file = s->files[i];
        if (w)
            return w;
    }
    return NULL;
}

int64_t zn_stored_side(const zn_stored *s, const char *name, int side)
{
    enum { MOST = 1 << 24 };
    const zn_weight *w = zn_stored_find(s, name, NULL, NULL);
    return w && side < w->rank && w->shape[side] <= MOST ? w->shape[side] : 0;
}

/* Without its sides of 1. */
static zn_shape squeezed(zn_shape s)
{
    zn_shape out = { 0 };
    for (int i = 0; i < s.rank; i++)
        if (s.dim[i] != 1)
            out.dim[out.rank++] = s.dim[i];
    return out;
}

static zn_status misfit(const zn_weight *w, zn_shape stored, zn_shape wanted)
{
    char a[96], b[96];
    return ZN_FAIL(ZN_ESHAPE, "tensor '%s' is %s, but the network needs %s", w->name,
                   zn_shape_text(stored, a, sizeof a), zn_shape_text(wanted, b, sizeof b));
}

static zn_status check_shape(const zn_weight *w, zn_shape wanted)
{
    zn_shape stored = { .rank = w->rank };
    memcpy(stored.dim, w->shape, sizeof stored.dim);
    return zn_shape_equal(squeezed(stored), squeezed(wanted)) ? ZN_OK : misfit(w, stored, wanted);
}

/* A matrix of MLX codes: bits and group follow from the number of inputs. */
static zn_status pack_mlx(const zn_weights *file, const char *layer, int64_t rows, int64_t columns, zn_packed *out)
{
    zn_mlx m;
    ZN_TRY(zn_mlx_find(file, layer, columns, &m));
    if (m.rows != rows)
        return misfit(m.weight, ZN_SHAPE(m.rows, columns), ZN_SHAPE(rows, columns));
    *out = (zn_packed){ .data = m.weight->data,
                        .row_bytes = (size_t)m.weight->shape[1] * 4,
                        .form = m.form,
                        .scales = m.scales->data,
                        .biases = m.biases->data,
                        .scale_dtype = m.scales->dtype,
                        .bias_dtype = m.biases->dtype,
                        .groups = (size_t)m.scales->shape[1] };
    return ZN_OK;
}

/* A matrix of numbers, which may have scales. */
static zn_status pack_rows(const zn_weights *file, const char *layer, const zn_weight *w, zn_shape shape,
                           zn_packed *out)
{
    zn_scaled s;
    ZN_TRY(zn_scaled_find(file, layer, w, &s));
    ZN_TRY(check_shape(w, shape));
    *out = (zn_packed){ .data = w->data,
                        .row_bytes = w->bytes / (size_t)shape.dim[0],
                        .dtype = w->dtype,
                        .scales = s.scales ? s.scales->data : NULL,
                        .scale_dtype = s.scales ? s.scales->dtype : ZN_F32,
                        .groups = (size_t)s.per_row,
                        .rotated = s.rotated };
    return ZN_OK;
}

/* The layer of a tensor: its name without ".weight". */
static void layer_of(const char *name, char *layer, size_t size)
{
    const char *end = zn_ending(name, ".weight");
    snprintf(layer, size, "%.*s", (int)(end ? end - name : (long)strlen(name)), name);
}

static zn_status pack(const zn_weights *file, const zn_weight *w, const zn_place *at, zn_shape shape, zn_packed *out)
{
    const int64_t rows = shape.dim[2] * at->parts, columns = shape.dim[3];
    char layer[sizeof at->name];
    layer_of(at->name, layer, sizeof layer);
    if (zn_mlx_has(file, layer))
        ZN_TRY(pack_mlx(file, layer, rows, columns, out));
    else
        ZN_TRY(pack_rows(file, layer, w, ZN_SHAPE(rows, columns), out));
    *out = zn_packed_from(out, at->part * shape.dim[2]);
    return ZN_OK;
}

/* The tensor under the shape that files give such a parameter. */
static zn_status import(const zn_weights *file, const zn_weight *w, zn_node *n)
{
    char layer[sizeof((zn_place *)0)->name];
    zn_scaled s;
    layer_of(w->name, layer, sizeof layer);
    ZN_TRY(zn_scaled_find(file, layer, w, &s));
    if (s.scales)
        return ZN_FAIL(ZN_EUNSUPPORTED, "tensor '%s' has scales, but is not a matrix", w->name);
    const zn_shape wanted = zn_weight_file_shape(n->shape, n->layout);
    ZN_TRY(check_shape(w, wanted));
    zn_weight same = *w;
    same.rank = wanted.rank;
    memcpy(same.shape, wanted.dim, sizeof same.shape);
    return zn_weight_import(&same, n->shape, n->layout, n->data);
}

static zn_status bind(const zn_stored *s, zn_node *n)
{
    zn_place at = { .name = "" };
    const zn_weights *file;
    const zn_weight *w = zn_stored_find(s, n->name, &at, &file);
    zn_arena *arena = zn_graph_arena(n->graph);
    if (!w)
        return ZN_FAIL(ZN_ENOTFOUND, "tensor '%s' is missing", at.name);
    if (n->layout == ZN_LAYOUT_ROWS) {
        zn_packed *packed = zn_arena_alloc(arena, sizeof *packed);
        n->packed = packed;
        return packed ? pack(file, w, &at, n->shape, packed) : ZN_FAIL(ZN_ENOMEM, "out of memory for '%s'", n->name);
    }
    n->data = zn_arena_alloc(arena, sizeof(float) * (size_t)zn_shape_count(n->shape));
    return n->data ? import(file, w, n) : ZN_FAIL(ZN_ENOMEM, "out of memory for '%s'", n->name);
}

zn_status zn_stored_bind(const zn_stored *s, zn_graph *g)
{
    ZN_TRY(zn_graph_status(g));
    for (int i = 0; i < zn_graph_count(g); i++) {
        zn_node *n = zn_graph_at(g, i);
        if (n->op == &zn_op_parameter && !n->data && !n->packed)
            ZN_TRY(bind(s, n));
    }
    return ZN_OK;
}
