/* Layers for video. A convolution over time is the sum of one 2D convolution per tap. The lag of each convolution says
 * which frame contributes to which result, so nothing is copied, and the zero frames before the first are not
 * multiplied. */
#include "nn/video.h"

#include <stdio.h>
#include <string.h>

enum { TAPS = 3 };

static int frames_of(const zn_node *x) { return (int)x->shape.dim[0]; }

/* Calls zn_frames, or the function like it, with from[t] = rule(t), for videos of any length. */
typedef int32_t (*frame_rule)(int t, const int *k);
typedef zn_node *(*frame_maker)(zn_node *const *sources, int count, const int32_t *from, int frames);

static zn_node *arrange_by(frame_maker make, zn_node *const *sources, int count, int frames, frame_rule rule,
                           const int *k)
{
    zn_graph *g = sources[0]->graph;
    int32_t *from = frames > 0 ? zn_arena_alloc(zn_graph_arena(g), sizeof *from * (size_t)frames) : NULL;
    if (!from)
        return zn_graph_poison(g, frames > 0 ? ZN_ENOMEM : ZN_ESHAPE,
                               frames > 0 ? "out of memory while building a graph" : "a clip needs a frame");
    for (int t = 0; t < frames; t++)
        from[t] = rule(t, k);
    return make(sources, count, from, frames);
}

static zn_node *arrange(zn_node *const *sources, int count, int frames, frame_rule rule, const int *k)
{
    return arrange_by(zn_frames, sources, count, frames, rule, k);
}

static int32_t line(int t, const int *k) { return k[0] + t * k[1]; }

zn_node *zn_take_frames(zn_node *x, int first, int step, int count)
{
    return arrange(&x, 1, count, line, (int[]){ first, step });
}

static int32_t filled(int t, const int *k) { return t < k[0] ? -1 : t - k[0]; }

zn_node *zn_fill_front(zn_node *x, int count) { return arrange(&x, 1, frames_of(x) + count, filled, &count); }

static int32_t filled_each(int t, const int *k) { return t % (k[0] + 1) < k[0] ? -1 : t / (k[0] + 1); }

zn_node *zn_fill_each(zn_node *x, int count) { return arrange(&x, 1, frames_of(x) * (count + 1), filled_each, &count); }

static int32_t again(int t, const int *k) { return t / k[0]; }

zn_node *zn_repeat_each(zn_node *x, int times) { return arrange(&x, 1, frames_of(x) * times, again, &times); }

static int32_t held(int t, const int *k) { return t < k[0] ? t : k[0] - 1; }

zn_node *zn_repeat_last(zn_node *x, int count)
{
    const int frames = frames_of(x);
    return count ? arrange(&x, 1, frames + count, held, &frames) : x;
}

zn_node *zn_join_frames(zn_node *a, zn_node *b)
{
    return arrange((zn_node *[]){ a, b }, 2, frames_of(a) + frames_of(b), line, (int[]){ 0, 1 });
}

/* The last n frames. If there are fewer, zero frames come first. */
static zn_node *last_frames_by(frame_maker make, zn_node *x, int n)
{
    const int all = frames_of(x), lacking = n - all;
    return all >= n ? arrange_by(make, &x, 1, n, line, (int[]){ all - n, 1 })
                    : arrange_by(make, &x, 1, n, filled, &lacking);
}

static zn_node *last_frames(zn_node *x, int n) { return last_frames_by(zn_frames, x, n); }

/* k: frames of a, skip, count, frames of each b. */
static int32_t turns(int t, const int *k)
{
    if (t == 0 && k[0])
        return 0;
    const int i = t - (k[0] > 0) + k[1];
    return k[0] + i % k[2] * k[3] + i / k[2];
}

zn_node *zn_interleave_frames(zn_node *a, zn_node *const *b, int count, int skip)
{
    zn_node *sources[ZN_MAX_SOURCES];
    int used = 0;
    if (a)
        sources[used++] = a;
    for (int i = 0; i < count && used < ZN_MAX_SOURCES; i++)
        sources[used++] = b[i];
    const int each = frames_of(b[0]), frames = (a != NULL) + count * each - skip;
    return arrange(sources, used, frames, turns, (int[]){ a ? frames_of(a) : 0, skip, count, each });
}

static zn_node *frames_like(const zn_node *x, const char *what, int number, int frames)
{
    char name[32];
    zn_shape s = x->shape;
    s.dim[0] = frames;
    snprintf(name, sizeof name, "%s.%d", what, number);
    return zn_graph_input(x->graph, name, s);
}

zn_node *zn_cut(zn_stream *m, zn_node *x)
{
    if (!m || m->apart || zn_is_poison(x))
        return x;
    if (m->cuts == ZN_CUTS)
        return zn_graph_poison(x->graph, ZN_ELIMIT, "a network has too many stages");
    const int passed = ++m->cuts;
    x->wide = true;
    m->cut[passed - 1] = x;
    if (m->stage == passed) {
        m->end = x;
        return frames_like(x, "rest", passed, frames_of(x) * m->parts);
    }
    if (m->stage == passed + 1)
        return m->begin = frames_like(x, "stage", passed + 1, frames_of(x) / m->parts);
    return x;
}

/* The input for the n frames that the next layer of x retained. */
static zn_node *history(const zn_stream *m, const zn_node *x, int n) { return frames_like(x, "kept", m->count, n); }

/* Retains frames for the next piece; before: those of the piece before, NULL in the first one. */
static void retain(zn_stream *m, zn_node *before, zn_node *after)
{
    if (m->stage && m->stage != m->cuts + 1)
        return;
    if (m->count == ZN_KEPT) {
        zn_graph_poison(after->graph, ZN_ELIMIT, "a network keeps the frames of too many layers");
        return;
    }
    m->before[m->count] = before;
    m->after[m->count++] = after;
}

static zn_node *with_history_by(frame_maker make, zn_stream *m, zn_node *x, int n, int *have)
{
    *have = 0;
    if (!m || m->apart)
        return x;
    if (m->first) {
        retain(m, NULL, last_frames_by(make, x, n));
        return x;
    }
    zn_node *before = history(m, x, n);
    x = arrange_by(make, (zn_node *[]){ before, x }, 2, n + frames_of(x), line, (int[]){ 0, 1 });
    retain(m, before, last_frames(x, n));
    *have = n;
    return x;
}

zn_node *zn_with_history(zn_stream *m, zn_node *x, int n, int *have)
{
    return with_history_by(zn_frames, m, x, n, have);
}

/* The same where in later pieces convolutions alone read the frames. */
static zn_node *with_history_to_multiply(zn_stream *m, zn_node *x, int n, int *have)
{
    return with_history_by(zn_frames_to_multiply, m, x, n, have);
}

static int32_t one_before(int t, const int *k) { return t % k[0] ? t - 1 : -1; }

zn_node *zn_frames_before(zn_stream *m, zn_node *x)
{
    const int frames = frames_of(x), each = m && m->apart ? frames / m->apart : frames;
    int have;
    if (m && !m->apart)
        return zn_take_frames(zn_with_history(m, x, 1, &have), m->first ? -1 : 0, 1, frames);
    return arrange(&x, 1, frames, one_before, &each);
}

/* x has `have` more frames at the front than the result. w is [3,..]; only the last `taps` taps are used. */
static zn_node *over_time(zn_node *x, zn_node *w, zn_node *bias, int pad, int have, int taps)
{
    const int results = frames_of(x) - have;
    zn_node *y = NULL;
    for (int age = 0; age < taps && age - have < results; age++) {
        const zn_conv_spec k = { .stride = 1, .pad = pad, .lag = age - have, .results = results };
        zn_node *part = zn_conv(x, zn_row(w, TAPS - 1 - age), age ? NULL : bias, k);
        y = y ? zn_add(y, part) : part;
    }
    return y;
}

/* The same for a piece of a clip, with the frames before it apart. No copy of both is made: frames that are missing in
 * x are those of `before`, of which a result of age `age` reads the last ones. What the next piece needs is retained
 * after all that reads `before`, since it takes the same memory. */
static zn_node *over_pieces(zn_stream *m, zn_node *x, zn_node *w, zn_node *bias, int pad)
{
    const int results = frames_of(x), n = TAPS - 1;
    zn_node *before = m->first ? NULL : history(m, x, n), *y = NULL;
    for (int age = 0; age < TAPS; age++) {
        zn_node *tap = zn_row(w, TAPS - 1 - age), *from[] = { age < results ? x : NULL, age ? before : NULL };
        for (int i = 0; i < 2; i++) {
            const zn_conv_spec k = { .stride = 1, .pad = pad, .lag = i ? age - n : age, .results = results };
            if (!from[i])
                continue;
            zn_node *part = zn_conv(from[i], tap, age ? NULL : bias, k);
            y = y ? zn_add(y, part) : part;
        }
    }
    const bool both = before && results < n;
    retain(m, before,
           both ? arrange((zn_node *[]){ before, x }, 2, n, line, (int[]){ results, 1 }) : last_frames(x, n));
    return y;
}

static zn_node *weight(zn_scope s, int taps, int side, int in, int out)
{
    zn_graph_name_layer(s.graph, s.prefix);
    return zn_parameter(s, "weight", ZN_SHAPE(taps, side, side, in, out), ZN_LAYOUT_CONV3D, ZN_ROLE_WEIGHT);
}

static zn_node *bias(zn_scope s, int out) { return zn_vector(s, "bias", out, ZN_ROLE_BIAS); }

static zn_node *causal(zn_scope s, zn_node *x, const zn_link *k, zn_stream *m)
{
    zn_node *w = weight(s, k->taps, k->side, zn_channels(x), k->out), *b = k->bias ? bias(s, k->out) : NULL;
    const int pad = k->side / 2;
    if (k->taps == 1)
        return zn_conv(x, zn_row(w, 0), b, (zn_conv_spec){ .stride = 1, .pad = pad });
    if (m && !m->apart)
        return over_pieces(m, x, w, b, pad);
    return over_time(x, w, b, pad, 0, m ? 1 : TAPS);
}

zn_node *zn_conv3d(zn_scope s, zn_node *x, int out, zn_stream *m)
{
    const zn_split *split = zn_graph_split(s.graph, s.prefix);
    for (int i = 0; split && i < split->count; i++)
        x = causal(zn_at(s, "factors.%d", i), x, &split->link[i], m);
    return split ? x : causal(s, x, &(zn_link){ .taps = TAPS, .side = 3, .out = out, .bias = "bias" }, m);
}

zn_node *zn_conv3d_1x1(zn_scope s, zn_node *x, int out)
{
    return causal(s, x, &(zn_link){ .taps = 1, .side = 1, .out = out, .bias = "bias" }, NULL);
}

zn_node *zn_halve_frames(zn_scope s, zn_node *x, zn_stream *m)
{
    const int c = zn_channels(x);
    int have;
    zn_node *w = weight(s, TAPS, 1, c, c), *b = bias(s, c), *y = NULL;
    if (m && m->apart)
        return x;
    x = with_history_to_multiply(m, x, 1, &have);
    const int count = (frames_of(x) - 1) / 2;
    for (int i = TAPS - 1; i >= 0 && count; i--) {
        zn_node *part =
            zn_conv(zn_take_frames(x, i, 2, count), zn_row(w, i), y ? NULL : b, (zn_conv_spec){ .stride = 1 });
        y = y ? zn_add(y, part) : part;
    }
    if (have)
        return y ? y : zn_graph_poison(x->graph, ZN_ESHAPE, "a later piece of a clip needs frames in pairs");
    return y ? zn_interleave_frames(x, &y, 1, 0) : zn_take_frames(x, 0, 1, 1);
}

zn_node *zn_double_frames(zn_scope s, zn_node *x, zn_stream *m)
{
    const int c = zn_channels(x);
    int have;
    zn_node *w = weight(s, TAPS, 1, c, 2 * c), *b = bias(s, 2 * c), *first = NULL, *rest = x;
    if (m && m->apart)
        return x;
    if (!m || m->first) { /* the first frame is not part of the history of the others */
        if (frames_of(x) == 1) {
            with_history_to_multiply(m, arrange(&x, 1, 1, line, (int[]){ -1, 0 }), TAPS - 1, &have);
            return x;
        }
        first = x;
        rest = zn_take_frames(x, 1, 1, frames_of(x) - 1);
    }
    rest = with_history_to_multiply(m, rest, TAPS - 1, &have);
    zn_node *y = over_time(rest, w, b, 0, have, TAPS);
    zn_node *both[] = { zn_slice_channels(y, 0, c), zn_slice_channels(y, c, c) };
    return zn_interleave_frames(first, both, 2, 0);
}
