/* Frames in one graph, and in pieces. */
#include "video_pieces.h"

#include "base/alloc.h"
#include "base/cpu.h"
#include "graph/exec.h"
#include "graph/packs.h"
#include "kernels/conv.h"
#include "ops/ops.h"
#include "pipeline/video/clip_stage.h"
#include "video_models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static float number(int64_t i) { return (float)(i * 7919 % 1201) / 1201.0f; }

/* The result of all frames in one graph. */
static zn_shape run_whole(const zn_model *m, zn_part part, zn_shape shape, zn_pool *pool, float **out)
{
    zn_graph *g;
    zn_node *x, *y;
    zn_exec *e;
    assert_int_equal(zn_model_clip(m, part, shape, NULL, &g, &x, &y), ZN_OK);
    zn_graph_fuse(g, &y, 1);
    assert_int_equal(zn_exec_new(g, &y, 1, &(zn_exec_options){ .pool = pool }, &e), ZN_OK);
    for (int64_t i = 0; i < zn_shape_count(shape); i++)
        x->data[i] = number(i);
    assert_int_equal(zn_exec_run(e), ZN_OK);
    const zn_shape made = y->shape;
    *out = zn_alloc(sizeof(float) * (size_t)zn_shape_count(made));
    memcpy(*out, y->data, sizeof(float) * (size_t)zn_shape_count(made));
    zn_exec_free(e);
    zn_graph_free(g);
    return made;
}

static void check_pieces(const zn_model *m, zn_part part, int frames, int threads)
{
    const int d = part == ZN_ENCODER ? 1 : m->config.downscale, c = zn_model_inputs(m, part);
    const zn_shape frame = ZN_SHAPE(1, 32 / d, 48 / d, c);
    zn_shape all = frame, shape;
    zn_pool *pool;
    zn_clip *clip;
    float *whole;
    int64_t done = 0;
    all.dim[0] = frames;
    assert_int_equal(zn_pool_new(threads, &pool), ZN_OK);
    const int64_t expected = zn_shape_count(run_whole(m, part, all, pool, &whole));
    assert_int_equal(zn_clip_new(m, part, frame, &(zn_clip_options){ .pool = pool }, &clip), ZN_OK);
    for (int64_t at = 0, size = zn_shape_count(frame); at < frames;) {
        float *input;
        const float *output;
        int piece;
        assert_int_equal(zn_clip_begin(clip, &input, &piece), ZN_OK);
        for (int64_t i = 0; i < piece * size; i++)
            input[i] = number(at * size + i);
        assert_int_equal(zn_clip_run(clip, &output, &shape), ZN_OK);
        assert_true(done + zn_shape_count(shape) <= expected);
        assert_memory_equal(output, whole + done, sizeof(float) * (size_t)zn_shape_count(shape));
        done += zn_shape_count(shape);
        at += piece;
    }
    assert_int_equal(done, expected);
    zn_clip_free(clip);
    zn_free(whole);
    zn_pool_free(pool);
}

void pieces_have_the_bits_of_the_whole(void **state)
{
    (void)state;
    for (int i = 0; i < SMALL_VIDEOS; i++) {
        zn_model *m = small_video(i);
        check_pieces(m, ZN_ENCODER, m->config.first_frames + 2 * m->config.frames, 2);
        check_pieces(m, ZN_DECODER, 4, 1 + i % 2);
        zn_model_free(m);
    }
}

/* ---- stages ---- */

enum { PIECES = 3, MOST_FRAMES = 16 };

typedef struct clip_run {
    zn_shape frame; /* of the result */
    int frames;     /* of it */
    size_t bytes;   /* that the clip takes */
    size_t packed;  /* bytes of packed weights after the last piece */
    char plan[256];
    float values[MOST_FRAMES << 13]; /* the result */
} clip_run;

static zn_status run_clip(const zn_model *m, zn_part part, zn_precision math, size_t memory, clip_run *out)
{
    const int d = part == ZN_ENCODER ? 1 : m->config.downscale;
    const zn_shape frame = ZN_SHAPE(1, 32 / d, 48 / d, zn_model_inputs(m, part));
    zn_pool *pool;
    zn_pack_cache *cache;
    zn_packs *packs;
    zn_clip *clip;
    int64_t number_of = 0;
    assert_int_equal(zn_pool_new(2, &pool), ZN_OK);
    assert_int_equal(zn_pack_cache_new(&cache), ZN_OK);
    assert_int_equal(zn_packs_new(cache, &packs), ZN_OK);
    const zn_clip_options options = { .pool = pool, .packs = packs, .math = math, .memory = memory };
    assert_int_equal(zn_clip_new(m, part, frame, &options, &clip), ZN_OK);
    out->frames = 0;
    zn_status status = ZN_OK;
    for (int piece = 0; piece < PIECES && status == ZN_OK; piece++) {
        float *input;
        const float *output;
        int frames;
        zn_shape shape;
        status = zn_clip_begin(clip, &input, &frames);
        for (int64_t i = 0; i < frames * zn_shape_count(frame) && status == ZN_OK; i++)
            input[i] = number(number_of++);
        if (status != ZN_OK || (status = zn_clip_run(clip, &output, &shape)) != ZN_OK)
            break;
        const int64_t each = zn_shape_count(shape) / shape.dim[0];
        assert_true(out->frames + shape.dim[0] <= MOST_FRAMES && each <= 1 << 13);
        memcpy(out->values + out->frames * each, output, sizeof(float) * (size_t)zn_shape_count(shape));
        out->frames += (int)shape.dim[0];
        out->frame = shape;
    }
    out->bytes = zn_clip_bytes_of(clip);
    out->packed = zn_pack_cache_bytes(cache);
    zn_clip_describe(clip, out->plan, sizeof out->plan);
    zn_clip_free(clip);
    zn_packs_free(packs);
    zn_pack_cache_free(cache);
    zn_pool_free(pool);
    return status;
}

static bool takes_turns(const clip_run *r, const clip_run *whole)
{
    return strstr(r->plan, "take turns") && r->packed < whole->packed;
}

static void check_stages(const zn_model *m, zn_part part, zn_precision math)
{
    clip_run *whole = zn_calloc(2, sizeof *whole), *divided = whole + 1;
    assert_non_null(whole);
    assert_int_equal(run_clip(m, part, math, (size_t)1 << 40, whole), ZN_OK);
    assert_int_equal(run_clip(m, part, math, whole->bytes - 1, divided), ZN_OK);
    assert_true(divided->bytes < whole->bytes);
    assert_int_equal(divided->frames, whole->frames);
    const int64_t count = zn_shape_count(whole->frame) / whole->frame.dim[0] * whole->frames;
    assert_memory_equal(divided->values, whole->values, sizeof(float) * (size_t)count);
    /* a byte less may still fit, with the weights of one stage at a time or with lean ones, whose last digits differ */
    bool turned = takes_turns(divided, whole);
    for (size_t least = divided->bytes; run_clip(m, part, math, least - 1, divided) == ZN_OK; least = divided->bytes) {
        const bool lean = strstr(divided->plan, "lean");
        turned |= takes_turns(divided, whole);
        assert_true(divided->bytes < least);
        if (!lean)
            assert_memory_equal(divided->values, whole->values, sizeof(float) * (size_t)count);
        for (int64_t i = 0; i < count; i++)
            assert_float_equal(divided->values[i], whole->values[i], math == ZN_PRECISION_F32 ? 1e-4f : 0.1f);
    }
    assert_true(turned);
    zn_free(whole);
}

/* Where memory is short, a few frames go through one part of the network after the other. */
void stages_have_the_bits_of_the_whole(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        zn_model *m = wider_wan(i % 2, 32);
        const zn_precision math = i < 2 ? ZN_PRECISION_F32 : ZN_PRECISION_BF16;
        check_stages(m, ZN_ENCODER, math);
        check_stages(m, ZN_DECODER, math);
        zn_model_free(m);
    }
}

/* With maps and kept frames of 16 bits, where the CPU has them. */
void bf16_is_near_f32(void **state)
{
    (void)state;
    clip_run *exact = zn_calloc(2, sizeof *exact), *narrow = exact + 1;
    assert_non_null(exact);
    for (int i = 0; i < 4; i++) {
        zn_model *m = wider_wan(i % 2, 32);
        const zn_part part = i < 2 ? ZN_ENCODER : ZN_DECODER;
        double error = 0, size = 0;
        assert_int_equal(run_clip(m, part, ZN_PRECISION_F32, 0, exact), ZN_OK);
        assert_int_equal(run_clip(m, part, ZN_PRECISION_BF16, 0, narrow), ZN_OK);
        assert_int_equal(exact->frames, narrow->frames);
        for (int64_t k = 0; k < zn_shape_count(exact->frame) / exact->frame.dim[0] * exact->frames; k++) {
            const double difference = (double)narrow->values[k] - (double)exact->values[k];
            error += difference * difference;
            size += (double)exact->values[k] * (double)exact->values[k];
        }
        assert_true(size > 0 && error <= 0.03 * 0.03 * size);
        zn_model_free(m);
    }
    zn_free(exact);
}

/* The least budget for a part of a model, in MiB. Nothing is run. */
static long least_budget(const zn_model *m, zn_part part, int width, int height, zn_precision math)
{
    const int d = part == ZN_ENCODER ? 1 : m->config.downscale;
    const zn_shape frame = ZN_SHAPE(1, height / d, width / d, zn_model_inputs(m, part));
    zn_pool *pool;
    zn_clip *clip;
    float *input;
    int frames;
    assert_int_equal(zn_pool_new(2, &pool), ZN_OK);
    assert_int_equal(zn_clip_new(m, part, frame, &(zn_clip_options){ .pool = pool, .math = math, .memory = 1 }, &clip),
                     ZN_OK);
    assert_int_equal(zn_clip_begin(clip, &input, &frames), ZN_ELIMIT);
    const char *least = strstr(zn_error_text(), "the least is ");
    assert_non_null(least);
    zn_clip_free(clip);
    zn_pool_free(pool);
    return strtol(least + strlen("the least is "), NULL, 10);
}

/* Most of it is what layers retain, which grows with the size of frames alone. */
void large_frames_take_what_layers_retain(void **state)
{
    (void)state;
    zn_model *m = quarter_wan();
    assert_in_range(least_budget(m, ZN_DECODER, 1280, 720, ZN_PRECISION_F32), 2078, 2510);
    zn_model_free(m);
}

/* On any CPU. */
void bf16_halves_what_layers_retain(void **state)
{
    (void)state;
    zn_model *m = quarter_wan();
    assert_in_range(least_budget(m, ZN_DECODER, 1280, 720, ZN_PRECISION_BF16), 1000, 1600);
    zn_model_free(m);
}

/* Where convolutions multiply bf16, the largest maps have it from the first layer on, also in a network that retains
 * little. Elsewhere bf16 costs no memory. */
void bf16_takes_less_than_f32(void **state)
{
    (void)state;
    zn_model *m = whole_taehv();
    const bool multiplies = zn_cpu_flags() & (ZN_CPU_BF16 | ZN_CPU_AMX_BF16);
    for (int i = 0; i < 2; i++) {
        const zn_part part = i ? ZN_DECODER : ZN_ENCODER;
        const long wide = least_budget(m, part, 832, 480, ZN_PRECISION_F32);
        const long narrow = least_budget(m, part, 832, 480, ZN_PRECISION_BF16);
        assert_in_range(narrow, wide / 3, multiplies ? wide * 4 / 5 : wide + 16);
    }
    zn_model_free(m);
}

static size_t kept_bytes(const zn_model *m, zn_part part, zn_precision math, bool later)
{
    const int d = part == ZN_ENCODER ? 1 : m->config.downscale, each = part == ZN_ENCODER ? m->config.frames : 1;
    zn_pool *pool;
    zn_clip_bytes bytes;
    assert_int_equal(zn_pool_new(1, &pool), ZN_OK);
    const zn_clip_options options = { .pool = pool, .math = math };
    const zn_clip_work work = {
        .model = m, .part = part, .frame = ZN_SHAPE(1, 64 / d, 96 / d, zn_model_inputs(m, part)), .options = &options
    };
    assert_int_equal(zn_clip_stage_measure(&work, 0, 1, later ? each : 1, later, &bytes), ZN_OK);
    zn_pool_free(pool);
    return bytes.kept;
}

/* Also the frames that convolutions over time alone read, after layers that write floats; all but the clip itself,
 * whose channels may be odd, and what the last layer of the encoder reads: on AMX, small maps with few weights are
 * multiplied in floats. */
void bf16_is_all_that_layers_retain(void **state)
{
    (void)state;
    enum { WIDTH = 96, LAST = 2 * WIDTH };
    const size_t frames = sizeof(float) * 2 * 64 * 96, headers = 64 * ZN_KEPT;
    for (int which = 0; which < 2; which++) {
        zn_model *m = wider_wan(which, WIDTH);
        const size_t shrinks = (size_t)m->config.downscale * (size_t)m->config.downscale;
        for (int i = 0; i < 4; i++) {
            const zn_part part = i < 2 ? ZN_ENCODER : ZN_DECODER;
            const size_t given = frames * (size_t)zn_model_inputs(m, part) / (part == ZN_ENCODER ? 1 : shrinks);
            const size_t last = part == ZN_ENCODER ? frames * LAST / shrinks : 0;
            const size_t wide = kept_bytes(m, part, ZN_PRECISION_F32, i % 2);
            assert_in_range(kept_bytes(m, part, ZN_PRECISION_BF16, i % 2), wide / 2,
                            (wide + given + last + headers) / 2);
        }
        zn_model_free(m);
    }
}

static const zn_conv_kernel *kernel_for(int cin, int cout, bool up2, int lean)
{
    const zn_conv_shape s = { .n = 1,
                              .h = up2 ? 360 : 720,
                              .w = up2 ? 640 : 1280,
                              .cin = cin,
                              .cout = cout,
                              .kh = 3,
                              .kw = 3,
                              .stride = 1,
                              .pad = 1,
                              .up2 = up2,
                              .oh = 720,
                              .ow = 1280,
                              .threads = 2 };
    const zn_conv_wish wish = {
        .math = ZN_PRECISION_BF16, .cpu = zn_cpu_flags(), .largest = 720 * 1280, .grows = true, .lean = lean
    };
    return zn_conv_choose(&s, wish);
}

/* Other kernels write floats, which take more than the weights save. */
void lean_weights_leave_large_maps_in_bf16(void **state)
{
    (void)state;
    const zn_conv_kernel *const plain = kernel_for(96, 96, false, 0), *const up = kernel_for(192, 96, true, 0);
    for (int lean = 1; lean <= 2; lean++) {
        if (plain->math != ZN_PRECISION_F32)
            assert_ptr_equal(kernel_for(96, 96, false, lean), plain);
        if (up->math != ZN_PRECISION_F32)
            assert_ptr_equal(kernel_for(192, 96, true, lean), up);
    }
}

/* Several pictures at once, as training takes them, know nothing of each other. */
void pictures_may_come_together(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * SMALL_VIDEOS; i++) {
        const zn_part part = i < SMALL_VIDEOS ? ZN_ENCODER : ZN_DECODER;
        zn_model *m = small_video(i % SMALL_VIDEOS);
        const int d = part == ZN_ENCODER ? 1 : m->config.downscale;
        zn_pool *pool;
        zn_graph *g[2];
        zn_exec *e[2];
        zn_node *x[2], *y[2];
        assert_int_equal(zn_pool_new(1, &pool), ZN_OK);
        for (int k = 0; k < 2; k++) {
            const zn_shape shape = ZN_SHAPE(k ? 1 : 3, 32 / d, 48 / d, zn_model_inputs(m, part));
            assert_int_equal(zn_model_graph(m, part, shape, &g[k], &x[k], &y[k]), ZN_OK);
            assert_int_equal(zn_exec_new(g[k], &y[k], 1, &(zn_exec_options){ .pool = pool }, &e[k]), ZN_OK);
        }
        const int64_t in = zn_shape_count(x[1]->shape), out = zn_shape_count(y[1]->shape);
        for (int64_t k = 0; k < 3 * in; k++)
            x[0]->data[k] = number(k);
        assert_int_equal(zn_exec_run(e[0]), ZN_OK);
        assert_int_equal(zn_shape_count(y[0]->shape), 3 * out);
        for (int k = 0; k < 3; k++) {
            memcpy(x[1]->data, x[0]->data + k * in, sizeof(float) * (size_t)in);
            assert_int_equal(zn_exec_run(e[1]), ZN_OK);
            assert_memory_equal(y[1]->data, y[0]->data + k * out, sizeof(float) * (size_t)out);
        }
        for (int k = 0; k < 2; k++) {
            zn_exec_free(e[k]);
            zn_graph_free(g[k]);
        }
        zn_pool_free(pool);
        zn_model_free(m);
    }
}
