/* Clips of golden files. */
#include "clips.h"
#include "network.h"

#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"
#include "pipeline/video/clip.h"

#include <string.h>

/* Sides of a clip in a file. */
typedef struct sides {
    int64_t n, t, h, w, c;
} sides;

static int64_t in_file(const sides *s, clip_order order, int64_t frame, int64_t pixel, int64_t k)
{
    const int64_t pixels = s->h * s->w, n = frame / s->t, t = frame % s->t;
    return order == CHANNELS_FIRST ? ((n * s->c + k) * s->t + t) * pixels + pixel
                                   : ((n * s->t + t) * s->c + k) * pixels + pixel;
}

static sides sides_of(const int64_t *d, clip_order order)
{
    return order == CHANNELS_FIRST ? (sides){ d[0], d[2], d[3], d[4], d[1] } : (sides){ d[0], d[1], d[3], d[4], d[2] };
}

zn_status clip_load(const golden *g, const char *name, clip_order order, clip *c)
{
    const zn_weight *w = golden_find(g, "in.", name);
    if (!w || w->rank != 5)
        return ZN_FAIL(ZN_ENOTFOUND, "no clip 'in.%s'", name);
    const sides s = sides_of(w->shape, order);
    c->shape = ZN_SHAPE(s.n * s.t, s.h, s.w, s.c);
    const size_t count = (size_t)zn_shape_count(c->shape);
    float *file;
    ZN_TRY(zn_alloc_for(name, sizeof(float) * 2 * (count + 1), (void **)&c->data));
    file = c->data + count;
    zn_to_f32(file, w->data, w->dtype, count);
    for (int64_t f = 0; f < s.n * s.t; f++)
        for (int64_t p = 0; p < s.h * s.w; p++)
            for (int64_t k = 0; k < s.c; k++)
                c->data[(f * s.h * s.w + p) * s.c + k] = file[in_file(&s, order, f, p, k)];
    return ZN_OK;
}

void clip_free(clip *c)
{
    zn_free(c->data);
    c->data = NULL;
}

/* A product has 8 bits less; sums are in 32 bits. */
#define BF16_TOLERANCE 3e-2

zn_status clip_compare(golden *g, const char *name, const clip *c, int64_t begin, int64_t end, clip_order order)
{
    const zn_weight *w = golden_find(g, "out.", name);
    if (!w || w->rank != 5)
        return ZN_OK;
    const int64_t *d = c->shape.dim;
    const sides s = { w->shape[0], (end - begin) / w->shape[0], d[1], d[2], d[3] };
    float *file;
    ZN_TRY(zn_alloc_for(name, sizeof(float) * (size_t)((end - begin) * s.h * s.w * s.c + 1), (void **)&file));
    for (int64_t f = 0; f < end - begin; f++)
        for (int64_t p = 0; p < s.h * s.w; p++)
            for (int64_t k = 0; k < s.c; k++)
                file[in_file(&s, order, f, p, k)] = c->data[((begin + f) * s.h * s.w + p) * s.c + k];
    const zn_shape shape =
        order == CHANNELS_FIRST ? ZN_SHAPE(s.n, s.c, s.t, s.h, s.w) : ZN_SHAPE(s.n, s.t, s.c, s.h, s.w);
    const zn_status status = g->math == ZN_PRECISION_BF16
                                 ? golden_compare_within(g, name, file, shape, BF16_TOLERANCE)
                                 : golden_compare(g, name, file, shape, ZN_LAYOUT_PLAIN, GOLDEN_FORWARD);
    zn_free(file);
    return status;
}

/* ---- runs ---- */

/* One graph, with what the pieces before it have left. */
typedef struct piece {
    zn_graph *graph;
    zn_exec *exec;
    zn_node *x, *y;
    zn_stream stream;
} piece;

static void piece_free(piece *p)
{
    zn_exec_free(p->exec);
    zn_graph_free(p->graph);
    *p = (piece){ 0 };
}

static zn_status start(golden *g, const clip_network *n, piece *p)
{
    zn_node *traced[4096], *outputs[ZN_KEPT + 1] = { p->y };
    int count = 1;
    if (n->look) {
        count = 0;
        for (int i = 0; i < zn_graph_count(p->graph) && count < 4096; i++)
            if (!zn_graph_at(p->graph, i)->op->is_leaf)
                traced[count++] = zn_graph_at(p->graph, i);
        return golden_exec_new(g, p->graph, traced, count, &(zn_exec_options){ .math = g->math }, &p->exec);
    }
    for (int i = 0; i < p->stream.count; i++)
        outputs[count++] = p->stream.after[i];
    zn_graph_fuse(p->graph, outputs, count);
    return golden_exec_new(g, p->graph, outputs, count, &(zn_exec_options){ .math = g->math }, &p->exec);
}

/* before: the piece before this one; NULL: the first, or the whole clip when `whole`. */
static zn_status piece_run(golden *g, const clip_network *n, zn_shape shape, const float *x, const piece *before,
                           bool whole, piece *p)
{
    *p = (piece){ .graph = zn_graph_new(), .stream = { .first = !before } };
    if (!p->graph)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a graph");
    p->x = zn_graph_input(p->graph, "x", shape);
    p->y = n->build((zn_scope){ p->graph, n->prefix }, p->x, n->k, whole ? NULL : &p->stream);
    ZN_TRY(network_bind(g, p->graph, "w."));
    ZN_TRY(start(g, n, p));
    memcpy(p->x->data, x, sizeof(float) * (size_t)zn_shape_count(shape));
    for (int i = 0; before && i < p->stream.count; i++)
        memcpy(p->stream.before[i]->data, before->stream.after[i]->data,
               sizeof(float) * (size_t)zn_shape_count(p->stream.before[i]->shape));
    ZN_TRY(zn_exec_run(p->exec));
    if (n->look)
        n->look(g, p->graph, n->self);
    return ZN_OK;
}

static zn_status append(clip *y, const zn_node *n)
{
    const int64_t had = y->data ? zn_shape_count(y->shape) : 0, more = zn_shape_count(n->shape);
    float *all = zn_realloc(y->data, sizeof(float) * (size_t)(had + more));
    if (!all)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a clip");
    memcpy(all + had, n->data, sizeof(float) * (size_t)more);
    const int64_t frames = had ? y->shape.dim[0] : 0;
    *y = (clip){ n->shape, all };
    y->shape.dim[0] += frames;
    return ZN_OK;
}

zn_status clip_whole(golden *g, const clip_network *n, const clip *x, clip *y)
{
    piece p;
    *y = (clip){ 0 };
    zn_status status = piece_run(g, n, x->shape, x->data, NULL, true, &p);
    if (status == ZN_OK)
        status = append(y, p.y);
    piece_free(&p);
    return status;
}

zn_status clip_pieces(golden *g, const clip_network *n, const clip *x, const int *sizes, int count, clip *y)
{
    piece now = { 0 }, before = { 0 };
    const int64_t frame = zn_shape_count(x->shape) / x->shape.dim[0];
    zn_status status = ZN_OK;
    *y = (clip){ 0 };
    for (int64_t at = 0, i = 0; at < x->shape.dim[0] && status == ZN_OK; i++) {
        zn_shape shape = x->shape;
        const int64_t left = x->shape.dim[0] - at, size = sizes[i < count ? i : count - 1];
        shape.dim[0] = size < left ? size : left;
        status = piece_run(g, n, shape, x->data + at * frame, i ? &before : NULL, false, &now);
        if (status == ZN_OK)
            status = append(y, now.y);
        piece_free(&before);
        before = now;
        now = (piece){ 0 };
        at += shape.dim[0];
    }
    piece_free(&before);
    return status;
}

/* ---- as a model ---- */

static void scale(clip *y, float factor, float more)
{
    for (int64_t i = 0; i < zn_shape_count(y->shape); i++)
        y->data[i] = factor * y->data[i] + more;
}

/* Pieces as the model wants them; the last frame again where the last piece lacks some. */
static zn_status run_pieces(zn_clip *c, const clip *x, clip *y)
{
    const int64_t size = zn_shape_count(x->shape) / x->shape.dim[0], last = x->shape.dim[0] - 1;
    for (int64_t at = 0; at <= last;) {
        float *input;
        int frames;
        zn_node result = { 0 };
        const float *output;
        ZN_TRY(zn_clip_begin(c, &input, &frames));
        for (int i = 0; i < frames; i++, at++)
            memcpy(input + i * size, x->data + (at < last ? at : last) * size, sizeof *input * (size_t)size);
        ZN_TRY(zn_clip_run(c, &output, &result.shape));
        result.data = (float *)output;
        ZN_TRY(append(y, &result));
    }
    return ZN_OK;
}

zn_status clip_model(golden *g, zn_part part, const clip *x, bool given, clip *y)
{
    zn_model *m = NULL;
    zn_clip *c = NULL;
    clip in = { x->shape, NULL };
    zn_shape frame = x->shape;
    zn_status status;
    frame.dim[0] = 1;
    *y = (clip){ 0 };
    ZN_TRY_DONE(zn_alloc_for("a clip", sizeof(float) * (size_t)zn_shape_count(x->shape), (void **)&in.data));
    memcpy(in.data, x->data, sizeof(float) * (size_t)zn_shape_count(x->shape));
    if (given && part == ZN_ENCODER)
        scale(&in, 0.5f, 0.5f);
    ZN_TRY_DONE(zn_model_open(g->path, &m));
    ZN_TRY_DONE(zn_clip_new(m, part, frame, &(zn_clip_options){ .pool = g->pool }, &c));
    ZN_TRY_DONE(run_pieces(c, &in, y));
    if (given && part == ZN_DECODER)
        scale(y, 2, -1);
done:
    clip_free(&in);
    zn_clip_free(c);
    zn_model_free(m);
    return status;
}
