/* Convolutions that a file stores as chains of smaller ones: whatever the names of these, the network decodes as the
 * one whose weights are their products. */
#include "base/alloc.h"
#include "base/file.h"
#include "graph/exec.h"
#include "io/weights/writer.h"
#include "model_file.h"
#include "models/factored.h"
#include "train/objective/objective.h"
#include "video_models.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <zenith/codec.h>
#include <zenith/video.h>

static char folder[] = "/tmp/zenith-factored.XXXXXX", path[64];

/* ---- files ---- */

enum { MOST = 512 };
static zn_weight tensors[MOST];
static float *tensor_data[MOST]; /* of each */
static char tensor_names[MOST][192];
static int used;

/* Zeros; the caller fills them. */
static float *add_tensor(const char *name, const char *more, zn_shape s)
{
    const int i = used++;
    assert_true(used <= MOST);
    snprintf(tensor_names[i], sizeof tensor_names[i], "%s%s", name, more);
    tensor_data[i] = zn_calloc((size_t)zn_shape_count(s) + 1, sizeof(float));
    tensors[i] = (zn_weight){ .name = tensor_names[i], .dtype = ZN_F32, .rank = s.rank, .data = tensor_data[i] };
    memcpy(tensors[i].shape, s.dim, sizeof s.dim);
    return tensor_data[i];
}

static void write_tensors(void)
{
    assert_int_equal(zn_safetensors_write(path, tensors, used, NULL, 0), ZN_OK);
    while (used > 0)
        zn_free(tensor_data[--used]);
}

/* ---- factors ---- */

typedef struct style {
    const char *name[ZN_LINKS]; /* in the order in which they run */
    int kernel;                 /* which of them has it */
    bool backwards;             /* in the file */
    const char *bias;
    const char *middle; /* another bias, after the first */
} style;

static const style styles[] = {
    { { ".0.weight", ".1.weight" }, 1, false, ".1.bias", NULL },
    { { ".conv_in.weight", ".conv_out.weight" }, 0, false, ".conv_out.bias", NULL },
    { { ".lora_down.weight", ".lora_up.weight" }, 0, true, ".bias", ".lora_down.bias" },
    { { ".V", ".U" }, 0, true, ".bias", NULL },
    { { ".first.weight", ".core.weight", ".last.weight" }, 1, false, ".last.bias", NULL },
};
enum { STYLES = sizeof styles / sizeof *styles, SEPARABLE = STYLES };

static uint32_t state_of_numbers = 1;
static float number(void)
{
    state_of_numbers = state_of_numbers * 1664525u + 1013904223u;
    return (float)(state_of_numbers >> 8) / (1 << 23) - 1;
}

static void fill(float *x, int64_t count, double deviation)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)(deviation * sqrt(3)) * number();
}

/* The weight of a layer as one matrix for each tap: [taps][out][in]. */
typedef struct matrices {
    int taps;
    int64_t out, in;
    double *x;
} matrices;

/* What a kernel [out,in,...], whose taps are those of the product or a single one, makes of those before it. */
static matrices follow(const matrices *a, const float *b, int64_t out, int taps)
{
    const int all = a->taps > taps ? a->taps : taps;
    matrices y = { all, out, a->in, zn_calloc((size_t)(all * out * a->in), sizeof(double)) };
    for (int t = 0; t < all; t++)
        for (int64_t o = 0; o < out; o++)
            for (int64_t i = 0; i < a->in; i++)
                for (int64_t r = 0; r < a->out; r++)
                    y.x[(t * out + o) * a->in + i] += (double)b[(o * a->out + r) * taps + (taps > 1 ? t : 0)] *
                                                      a->x[((a->taps > 1 ? t : 0) * a->out + r) * a->in + i];
    zn_free(a->x);
    return y;
}

static matrices identity(int64_t n)
{
    matrices y = { 1, n, n, zn_calloc((size_t)(n * n), sizeof(double)) };
    for (int64_t i = 0; i < n; i++)
        y.x[i * n + i] = 1;
    return y;
}

/* Stores the products in a parameter: [taps][in][out] there. */
static void set_product(zn_model_parameter *p, matrices *w)
{
    for (int t = 0; t < w->taps; t++)
        for (int64_t o = 0; o < w->out; o++)
            for (int64_t i = 0; i < w->in; i++)
                p->data[(t * w->in + i) * w->out + o] = (float)w->x[(t * w->out + o) * w->in + i];
    zn_free(w->x);
}

static zn_shape with_sides(int64_t out, int64_t in, const zn_shape *whole, bool kernel)
{
    zn_shape s = *whole;
    s.dim[0] = out;
    s.dim[1] = in;
    for (int d = 2; d < s.rank && !kernel; d++)
        s.dim[d] = 1;
    if (!kernel && whole->rank == 4) /* a matrix is as good */
        s.rank = 2;
    return s;
}

/* A layer as its factors of rank `rank` in the file, and their product in the model. */
static void factor(zn_model_parameter *w, zn_model_parameter *b, const style *k, int64_t rank)
{
    const zn_shape s = zn_weight_file_shape(w->shape, w->layout);
    const int taps = (int)(zn_shape_count(s) / (s.dim[0] * s.dim[1])), count = k->name[2] ? 3 : 2;
    char layer[160];
    float *data[ZN_LINKS];
    int64_t out[ZN_LINKS];
    snprintf(layer, sizeof layer, "%.*s", (int)(strlen(w->name) - strlen(".weight")), w->name);
    matrices y = identity(s.dim[1]);
    for (int i = 0; i < count; i++) { /* made in the order of the file */
        const int own = k->backwards ? count - 1 - i : i;
        const int64_t in = own ? rank : s.dim[1];
        out[own] = own == count - 1 ? s.dim[0] : rank;
        const zn_shape f = with_sides(out[own], in, &s, own == k->kernel);
        data[own] = add_tensor(layer, k->name[own], f);
        fill(data[own], zn_shape_count(f), 1 / sqrt((double)in * (own == k->kernel ? taps : 1)));
    }
    for (int i = 0; i < count; i++)
        y = follow(&y, data[i], out[i], i == k->kernel ? taps : 1);
    set_product(w, &y);
    float *bias = add_tensor(layer, k->bias, ZN_SHAPE(s.dim[0]));
    fill(bias, s.dim[0], 0.1);
    memcpy(b->data, bias, sizeof *bias * (size_t)s.dim[0]);
    if (!k->middle)
        return;
    float *middle = add_tensor(layer, k->middle, ZN_SHAPE(rank));
    fill(middle, rank, 0.1);
    for (int64_t o = 0; o < s.dim[0]; o++)
        for (int64_t r = 0; r < rank; r++)
            b->data[o] += data[1][o * rank + r] * middle[r];
}

/* Rows and columns first, then frames. */
static void separate(zn_model_parameter *w, zn_model_parameter *b, int64_t rank)
{
    const zn_shape s = zn_weight_file_shape(w->shape, w->layout);
    char layer[160];
    snprintf(layer, sizeof layer, "%.*s", (int)(strlen(w->name) - strlen(".weight")), w->name);
    float *space = add_tensor(layer, ".spatial.weight", ZN_SHAPE(rank, s.dim[1], 1, 3, 3));
    float *time = add_tensor(layer, ".temporal.weight", ZN_SHAPE(s.dim[0], rank, 3, 1, 1));
    float *bias = add_tensor(layer, ".temporal.bias", ZN_SHAPE(s.dim[0]));
    fill(space, rank * s.dim[1] * 9, 1 / sqrt(9.0 * (double)s.dim[1]));
    fill(time, s.dim[0] * rank * 3, 1 / sqrt(3.0 * (double)rank));
    fill(bias, s.dim[0], 0.1);
    memcpy(b->data, bias, sizeof *bias * (size_t)s.dim[0]);
    matrices y = { 27, s.dim[0], s.dim[1], zn_calloc((size_t)(27 * s.dim[0] * s.dim[1]), sizeof(double)) };
    for (int t = 0; t < 27; t++)
        for (int64_t o = 0; o < y.out; o++)
            for (int64_t i = 0; i < y.in; i++)
                for (int64_t r = 0; r < rank; r++)
                    y.x[(t * y.out + o) * y.in + i] +=
                        (double)time[(o * rank + r) * 3 + t / 9] * (double)space[(r * y.in + i) * 9 + t % 9];
    set_product(w, &y);
}

/* Writes a model with all convolutions of its decoder factored, which changes their values. Returns how many of 3x3x3
 * there are. */
static int write_factored(zn_model *m, int which)
{
    int layers = 0;
    for (int i = 0; i < m->count; i++) {
        zn_model_parameter *p = &m->parameters[i];
        const zn_shape s = zn_weight_file_shape(p->shape, p->layout);
        const bool weight = p->layout == ZN_LAYOUT_CONV || p->layout == ZN_LAYOUT_CONV3D;
        const bool whole = s.rank == 5 && s.dim[2] == 3 && s.dim[3] == 3;
        const bool bias = i && p->role == ZN_ROLE_BIAS;
        if (p->part == ZN_DECODER && weight) {
            const int64_t few = s.dim[0] < s.dim[1] ? s.dim[0] : s.dim[1], rank = few > 4 ? few / 4 : few - 1;
            assert_string_equal(m->parameters[i + 1].name + strlen(p->name) - strlen("weight"), "bias");
            if (which == SEPARABLE && whole)
                separate(p, p + 1, rank);
            else
                factor(p, p + 1, &styles[which % STYLES], rank);
            layers += whole;
        } else if (!(p->part == ZN_DECODER && bias)) {
            float *out = add_tensor(p->name, "", s);
            zn_weight_export(p->data, p->shape, p->layout, out);
        }
    }
    write_tensors();
    return layers;
}

/* ---- comparisons ---- */

typedef struct clip {
    int images;
    uint8_t pixels[5 * 3 * 64 * 32];
} clip;

static zn_status keep_image(void *user, const zn_image *im)
{
    clip *c = user;
    const size_t bytes = (size_t)(3 * im->width * im->height);
    assert_true((size_t)(c->images + 1) * bytes <= sizeof c->pixels);
    memcpy(c->pixels + (size_t)c->images++ * bytes, im->pixels, bytes);
    return ZN_OK;
}

/* Two latent frames, in two pieces. */
static void decode_clip(const zn_model *m, clip *out)
{
    zn_latent *one, *all = NULL;
    zn_video *v;
    memset(out, 0, sizeof *out);
    state_of_numbers = 7;
    assert_int_equal(zn_latent_new(4, 2, 3, &one), ZN_OK);
    for (int i = 0; i < 2; i++) {
        fill(one->data, 4 * 2 * 3, 1);
        assert_int_equal(zn_latent_append(&all, one), ZN_OK);
    }
    assert_int_equal(zn_video_new(m, &(zn_options){ .threads = 1 }, &v), ZN_OK);
    if (zn_video_decode(v, all, 8, keep_image, out) != ZN_OK)
        fail_msg("%s", zn_error_text());
    zn_video_free(v);
    zn_latent_free(one);
    zn_latent_free(all);
}

static void check_same_clip(const zn_model *a, const zn_model *b)
{
    static clip c[2];
    int lowest = 255, highest = 0;
    decode_clip(a, &c[0]);
    decode_clip(b, &c[1]);
    assert_int_equal(c[0].images, 5);
    assert_int_equal(c[1].images, 5);
    for (size_t i = 0; i < sizeof c[0].pixels; i++) {
        if (abs(c[0].pixels[i] - c[1].pixels[i]) > 1)
            fail_msg("value %zu is %d, not %d", i, c[1].pixels[i], c[0].pixels[i]);
        lowest = c[0].pixels[i] < lowest ? c[0].pixels[i] : lowest;
        highest = c[0].pixels[i] > highest ? c[0].pixels[i] : highest;
    }
    assert_true(highest - lowest > 40);
}

/* ---- tests ---- */

static void chains_decode_as_their_products(void **state)
{
    (void)state;
    for (int which = 0; which <= SEPARABLE; which++)
        for (int staged = 0; staged < 2; staged++) {
            zn_model *made = wider_wan(staged, 16), *found;
            const int layers = write_factored(made, which);
            for (int released = 0; released < 2; released++) {
                if ((released ? zn_model_find_released : zn_model_open)(path, &found) != ZN_OK)
                    fail_msg("%d: %s", which, zn_error_text());
                assert_string_equal(found->config.name, staged ? "wan22-vae-custom" : "wan21-vae-custom");
                assert_int_equal(found->splits.count, layers);
                assert_true(found->info.parameters < made->info.parameters);
                check_same_clip(made, found);
                zn_model_free(found);
            }
            zn_model_free(made);
        }
}

/* The layers that only the product can be, number by number. */
static void products_are_exact(void **state)
{
    (void)state;
    for (int which = 0; which < STYLES; which++) {
        zn_model *made = wider_wan(0, 16), *found;
        int compared = 0;
        write_factored(made, which);
        assert_int_equal(zn_model_open(path, &found), ZN_OK);
        for (int i = 0; i < made->count; i++) {
            const zn_model_parameter *p = &made->parameters[i], *q = zn_model_parameter_find(found, p->name);
            for (int64_t n = 0; q && p->part == ZN_DECODER && n < zn_shape_count(p->shape); n++)
                if (fabsf(p->data[n] - q->data[n]) > 1e-6f)
                    fail_msg("%s of %d: %g, not %g", p->name, which, (double)q->data[n], (double)p->data[n]);
            compared += q && p->part == ZN_DECODER && p->shape.rank > 1;
        }
        assert_true(compared > 5);
        zn_model_free(made);
        zn_model_free(found);
    }
}

/* A model whose chains are layers is written and read as such. */
static void chains_are_written_as_chains(void **state)
{
    (void)state;
    zn_model *made = wider_wan(1, 16), *found, *again;
    size_t size;
    write_factored(made, 3);
    assert_int_equal(zn_model_open(path, &found), ZN_OK);
    uint8_t *bytes = model_bytes(found, &size);
    assert_int_equal(zn_file_write(path, bytes, size), ZN_OK);
    zn_free(bytes);
    if (zn_model_open(path, &again) != ZN_OK)
        fail_msg("%s", zn_error_text());
    assert_int_equal(again->splits.count, found->splits.count);
    assert_int_equal(again->info.parameters, found->info.parameters);
    check_same_clip(found, again);
    zn_model_free(made);
    zn_model_free(found);
    zn_model_free(again);
}

/* A decoder of two frames in a graph, and beside it that of a student without chains; the result is the caller's. */
static float *run_teacher(const zn_model *m, const zn_model *student, int64_t *count)
{
    zn_pool *pool;
    zn_exec *e;
    zn_graph *g = zn_graph_new();
    zn_node *x = zn_graph_input(g, "x", ZN_SHAPE(2, 2, 4, 3)), *out[2];
    out[0] = zn_part_of(m, ZN_DECODER, student ? ZN_TEACHER : "", x, 1);
    out[1] = student ? zn_part_of(student, ZN_DECODER, "", x, 1) : out[0];
    assert_int_equal(zn_graph_status(g), ZN_OK);
    zn_model_bind(m, g, student ? ZN_TEACHER : "");
    if (student)
        zn_model_bind(student, g, "");
    assert_int_equal(zn_pool_new(1, &pool), ZN_OK);
    if (zn_exec_new(g, out, student ? 2 : 1, &(zn_exec_options){ .pool = pool }, &e) != ZN_OK)
        fail_msg("%s", zn_error_text());
    state_of_numbers = 7;
    fill(x->data, zn_shape_count(x->shape), 1);
    assert_int_equal(zn_exec_run(e), ZN_OK);
    *count = zn_shape_count(out[0]->shape);
    float *copy = zn_alloc(sizeof *copy * (size_t)*count);
    memcpy(copy, out[0]->data, sizeof *copy * (size_t)*count);
    zn_exec_free(e);
    zn_pool_free(pool);
    zn_graph_free(g);
    return copy;
}

static void a_teacher_has_chains_of_its_own(void **state)
{
    (void)state;
    zn_model *student = wider_wan(0, 16), *made = wider_wan(0, 16), *teacher;
    int64_t count;
    write_factored(made, 0);
    assert_int_equal(zn_model_open(path, &teacher), ZN_OK);
    float *alone = run_teacher(teacher, NULL, &count), *beside = run_teacher(teacher, student, &count);
    assert_memory_equal(beside, alone, sizeof *alone * (size_t)count);
    zn_free(alone);
    zn_free(beside);
    zn_model_free(student);
    zn_model_free(made);
    zn_model_free(teacher);
}

static void find_chain(const zn_shape *shapes, const char *const *names, int count, int64_t out, int64_t in,
                       zn_status wanted, const char *sentence)
{
    zn_weights *w;
    zn_factored f;
    add_tensor("a", ".bc.weight", ZN_SHAPE(8, 16, 1, 1, 1)); /* of another layer */
    for (int i = 0; i < count; i++)
        add_tensor("a.b", names[i], shapes[i]);
    write_tensors();
    assert_int_equal(zn_weights_open(path, &w), ZN_OK);
    assert_int_equal(zn_factored_find(w, "a.b", out, in, &f), wanted);
    if (sentence)
        assert_string_equal(zn_error_text(), sentence);
    else
        assert_int_equal(f.count, count);
    zn_weights_close(w);
}

static void what_makes_no_convolution_is_refused(void **state)
{
    (void)state;
    static const char *const numbered[] = { ".1.weight", ".0.weight" }, *const named[] = { ".U", ".V", ".W", ".X" };
    const zn_shape kernel = ZN_SHAPE(4, 16, 3, 3, 3), point = ZN_SHAPE(8, 4, 1, 1, 1), square = ZN_SHAPE(8, 8, 1, 1, 1);
    find_chain((zn_shape[]){ kernel, point }, named, 2, 8, 16, ZN_OK, NULL);
    find_chain((zn_shape[]){ point, kernel }, numbered, 2, 8, 16, ZN_OK, NULL);
    find_chain((zn_shape[]){ square, square }, numbered, 2, 8, 8, ZN_OK, NULL);
    find_chain(NULL, NULL, 0, 8, 16, ZN_OK, NULL);
    find_chain((zn_shape[]){ kernel }, named, 1, 8, 16, ZN_EFORMAT,
               "tensor 'a.b.weight' is missing, and of its factors only 'a.b.U' is present");
    find_chain((zn_shape[]){ kernel, ZN_SHAPE(8, 0, 1, 1, 1) }, named, 2, 8, 16, ZN_EFORMAT,
               "tensor 'a.b.weight' is missing, and of its factors only 'a.b.U' is present");
    find_chain((zn_shape[]){ kernel, ZN_SHAPE(8, 5, 1, 1, 1) }, named, 2, 8, 16, ZN_ESHAPE,
               "the factors of 'a.b' do not make one convolution from 16 channels to 8: 'U' 4x16x3x3x3 and 'V' "
               "8x5x1x1x1");
    find_chain((zn_shape[]){ kernel, ZN_SHAPE(8, 4, 3, 1, 1) }, named, 2, 8, 16, ZN_ESHAPE,
               "the factors of 'a.b' do not make one convolution from 16 channels to 8: 'U' 4x16x3x3x3 and 'V' "
               "8x4x3x1x1");
    find_chain((zn_shape[]){ square, square }, named, 2, 8, 8, ZN_ESHAPE,
               "the factors of 'a.b' fit in any order, and their names have no numbers: 'U' 8x8x1x1x1 and 'V' "
               "8x8x1x1x1");
    find_chain((zn_shape[]){ kernel, square, square, point }, named, 4, 8, 16, ZN_EUNSUPPORTED,
               "'a.b' is stored as more than 3 convolutions, which is not supported");
}

/* A bias in front of a kernel does not reach what is beyond the border: no bias after it is the same. */
static void a_bias_in_front_of_a_kernel_is_not_moved(void **state)
{
    (void)state;
    zn_weights *w;
    zn_factored f;
    zn_split split;
    float bias[8];
    add_tensor("a.b", ".0.weight", ZN_SHAPE(2, 16, 1, 1, 1));
    add_tensor("a.b", ".0.bias", ZN_SHAPE(2));
    add_tensor("a.b", ".1.weight", ZN_SHAPE(8, 2, 3, 3, 3));
    write_tensors();
    assert_int_equal(zn_weights_open(path, &w), ZN_OK);
    assert_int_equal(zn_factored_find(w, "a.b", 8, 16, &f), ZN_OK);
    assert_int_equal(zn_factored_bias(w, &f, bias), ZN_EUNSUPPORTED);
    assert_non_null(strstr(zn_error_text(), "'a.b.weight' has a bias before the kernel of another"));
    assert_true(zn_factored_split(&f, &split)); /* as layers it runs */
    assert_string_equal(split.link[0].bias, "a.b.0.bias");
    assert_null(split.link[1].bias);
    zn_weights_close(w);
}

/* What was made of the factors before is freed, once: a sanitizer or valgrind sees it. */
static void a_factor_that_cannot_be_read_is_an_error(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        zn_weights *w;
        zn_factored f;
        float out[8 * 16], bias[8];
        add_tensor("a.b", ".0.weight", ZN_SHAPE(2, 16));
        add_tensor("a.b", ".0.bias", ZN_SHAPE(which ? 3 : 2));
        add_tensor("a.b", ".1.weight", ZN_SHAPE(8, 2));
        tensors[used - 1].dtype = which ? ZN_F32 : ZN_I8; /* without a scale */
        write_tensors();
        assert_int_equal(zn_weights_open(path, &w), ZN_OK);
        assert_int_equal(zn_factored_find(w, "a.b", 8, 16, &f), ZN_OK);
        assert_int_equal(zn_factored_multiply(w, &f, ZN_SHAPE(1, 1, 16, 8), ZN_LAYOUT_CONV, out),
                         which ? ZN_OK : ZN_EFORMAT);
        assert_int_equal(zn_factored_bias(w, &f, bias), which ? ZN_ESHAPE : ZN_EFORMAT);
        zn_weights_close(w);
    }
}

/* What a file asks for is not more than it holds, or than the layer takes. */
static void many_channels_between_factors_are_refused(void **state)
{
    (void)state;
    for (int64_t between = 8; between <= 4096; between *= 512) {
        zn_weights *w;
        zn_factored f;
        float out[8 * 16];
        add_tensor("a.b", ".0.weight", ZN_SHAPE(1, 16));
        add_tensor("a.b", ".1.weight", ZN_SHAPE(between, 1));
        add_tensor("a.b", ".2.weight", ZN_SHAPE(8, between));
        write_tensors();
        assert_int_equal(zn_weights_open(path, &w), ZN_OK);
        assert_int_equal(zn_factored_find(w, "a.b", 8, 16, &f), ZN_OK);
        assert_int_equal(zn_factored_multiply(w, &f, ZN_SHAPE(1, 1, 16, 8), ZN_LAYOUT_CONV, out),
                         between > 8 ? ZN_EUNSUPPORTED : ZN_OK);
        zn_weights_close(w);
    }
}

/* One bad layer of a decoder: the sentence names it. */
static void a_decoder_with_a_bad_chain_is_refused(void **state)
{
    (void)state;
    zn_model *made = wider_wan(0, 16), *found;
    for (int i = 0; i < made->count; i++) {
        const zn_model_parameter *p = &made->parameters[i];
        const zn_shape s = zn_weight_file_shape(p->shape, p->layout);
        if (strcmp(p->name, "decoder.conv1.weight")) {
            zn_weight_export(p->data, p->shape, p->layout, add_tensor(p->name, "", s));
            continue;
        }
        add_tensor("decoder.conv1", ".0.weight", ZN_SHAPE(2, s.dim[1], 1, 1, 1));
        add_tensor("decoder.conv1", ".1.weight", ZN_SHAPE(s.dim[0], 3, 3, 3, 3));
    }
    write_tensors();
    assert_int_equal(zn_model_open(path, &found), ZN_ESHAPE);
    assert_non_null(strstr(zn_error_text(), "the factors of 'decoder.conv1' do not make one convolution"));
    zn_model_free(made);
}

static void failing_memory_is_an_error(void **state)
{
    (void)state;
    zn_model *made = small_wan(1), *found;
    write_factored(made, 2);
    zn_model_free(made);
    const int64_t before = zn_alloc_calls();
    assert_int_equal(zn_model_open(path, &found), ZN_OK);
    zn_model_free(found);
    const int64_t calls = zn_alloc_calls() - before;
    for (int64_t nth = 1; nth <= calls; nth++) {
        zn_alloc_fail_at(nth);
        const zn_status status = zn_model_open(path, &found);
        zn_alloc_fail_at(0);
        assert_int_equal(status, ZN_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_decode_as_their_products),
        cmocka_unit_test(products_are_exact),
        cmocka_unit_test(chains_are_written_as_chains),
        cmocka_unit_test(a_teacher_has_chains_of_its_own),
        cmocka_unit_test(what_makes_no_convolution_is_refused),
        cmocka_unit_test(a_bias_in_front_of_a_kernel_is_not_moved),
        cmocka_unit_test(a_factor_that_cannot_be_read_is_an_error),
        cmocka_unit_test(many_channels_between_factors_are_refused),
        cmocka_unit_test(failing_memory_is_an_error),
        cmocka_unit_test(a_decoder_with_a_bad_chain_is_refused),
    };
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    rmdir(folder);
    return failed;
}
