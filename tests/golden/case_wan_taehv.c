/* Wan: the tiny autoencoders, whole clips and pieces (specification 5). */
#include "clips.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "models/taehv/taehv.h"

#include <math.h>
#include <string.h>

static bool matches(const golden *g)
{
    const char *own = zn_weights_metadata(g->file, "case");
    return own && (!strcmp(own, "taew2_1") || !strcmp(own, "taew2_2") || !strcmp(own, "taew2_2_super"));
}

enum { MOST = 1024 }; /* frames of a clip */

static zn_node *encoder(zn_scope s, zn_node *x, const void *k, zn_stream *m) { return zn_taehv_encoder(s, x, k, m); }
static zn_node *decoder(zn_scope s, zn_node *x, const void *k, zn_stream *m) { return zn_taehv_decoder(s, x, k, m); }

static void form_of(const golden *g, zn_taehv_form *k)
{
    *k = (zn_taehv_form){ .patch = (int)golden_int(g, "patch_size", 1),
                          .latent = (int)golden_int(g, "latent_channels", 0),
                          .width = (int)golden_int(g, "n_enc", 64),
                          .large = golden_int(g, "super", 0) != 0 };
    int count = 0;
    ZN_JSON_EACH(n, zn_json_get(g->config, "n_f"))
    {
        int64_t value = 0;
        if (count <= ZN_TAEHV_GROUPS && zn_json_i64(n, &value))
            k->back_width[count++] = (int)value;
    }
}

static void clamp(clip *y)
{
    for (int64_t i = 0; i < zn_shape_count(y->shape); i++)
        y->data[i] = fminf(fmaxf(y->data[i], 0), 1);
}

/* Frames that fill the last piece. */
static zn_status fill(clip *x)
{
    const int64_t frames = x->shape.dim[0], size = zn_shape_count(x->shape) / frames;
    const int64_t all = (frames + ZN_TAEHV_EACH - 1) / ZN_TAEHV_EACH * ZN_TAEHV_EACH;
    float *more = zn_realloc(x->data, sizeof(float) * (size_t)(all * size));
    if (!more)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a clip");
    for (int64_t t = frames; t < all; t++)
        memcpy(more + t * size, more + (frames - 1) * size, sizeof(float) * (size_t)size);
    x->data = more;
    x->shape.dim[0] = all;
    return ZN_OK;
}

/* A latent frame is there with its fourth frame, or at the end of the clip. */
static zn_status check_encoder(golden *g, const zn_taehv_form *k)
{
    clip x = { 0 }, y = { 0 };
    const clip_network n = { .prefix = "encoder", .build = encoder, .k = k };
    float when[MOST];
    zn_status status;
    ZN_TRY_DONE(clip_load(g, "x", FRAMES_FIRST, &x));
    const int64_t frames = x.shape.dim[0];
    ZN_TRY_DONE(clip_whole(g, &n, &x, &y));
    ZN_TRY_DONE(clip_compare(g, "enc_parallel", &y, 0, y.shape.dim[0], FRAMES_FIRST));
    clip_free(&y);
    ZN_TRY_DONE(fill(&x));
    ZN_TRY_DONE(clip_pieces(g, &n, &x, (int[]){ ZN_TAEHV_EACH }, 1, &y));
    ZN_TRY_DONE(clip_compare(g, "enc_stream", &y, 0, y.shape.dim[0], FRAMES_FIRST));
    clip_free(&y);
    ZN_TRY_DONE(clip_model(g, ZN_ENCODER, &x, false, &y));
    ZN_TRY_DONE(clip_compare(g, "enc_stream", &y, 0, y.shape.dim[0], FRAMES_FIRST));
    for (int64_t i = 0; i < y.shape.dim[0] && i < MOST; i++)
        when[i] = (float)(i * ZN_TAEHV_EACH + 3 < frames ? i * ZN_TAEHV_EACH + 3 : frames);
    status = golden_compare_exact(g, "enc_stream_when", when, y.shape.dim[0] < MOST ? y.shape.dim[0] : MOST);
done:
    clip_free(&x);
    clip_free(&y);
    return status;
}

/* The first latent frame makes one frame, each other one four. */
static zn_status check_decoder(golden *g, const zn_taehv_form *k)
{
    clip z = { 0 }, y = { 0 };
    const clip_network n = { .prefix = "decoder", .build = decoder, .k = k };
    float when[MOST];
    zn_status status;
    ZN_TRY_DONE(clip_load(g, "z", FRAMES_FIRST, &z));
    ZN_TRY_DONE(clip_whole(g, &n, &z, &y));
    clamp(&y);
    ZN_TRY_DONE(clip_compare(g, "dec_parallel", &y, 0, y.shape.dim[0], FRAMES_FIRST));
    clip_free(&y);
    ZN_TRY_DONE(clip_pieces(g, &n, &z, (int[]){ 1 }, 1, &y));
    clamp(&y);
    ZN_TRY_DONE(clip_compare(g, "dec_stream", &y, 0, y.shape.dim[0], FRAMES_FIRST));
    clip_free(&y);
    ZN_TRY_DONE(clip_model(g, ZN_DECODER, &z, false, &y));
    clamp(&y);
    ZN_TRY_DONE(clip_compare(g, "dec_stream", &y, 0, y.shape.dim[0], FRAMES_FIRST));
    for (int64_t t = 0; t < y.shape.dim[0] && t < MOST; t++)
        when[t] = (float)((t + 3) / ZN_TAEHV_EACH);
    status = golden_compare_exact(g, "dec_stream_when", when, y.shape.dim[0] < MOST ? y.shape.dim[0] : MOST);
done:
    clip_free(&z);
    clip_free(&y);
    return status;
}

/* Pieces of both parts with bf16 products, against the exact values. */
static zn_status check_bf16(golden *g, const zn_taehv_form *k)
{
    const clip_network n[2] = { { .prefix = "encoder", .build = encoder, .k = k },
                                { .prefix = "decoder", .build = decoder, .k = k } };
    clip x[2] = { 0 }, y[2] = { 0 };
    zn_status status;
    g->math = ZN_PRECISION_BF16;
    ZN_TRY_DONE(clip_load(g, "x", FRAMES_FIRST, &x[0]));
    ZN_TRY_DONE(fill(&x[0]));
    ZN_TRY_DONE(clip_pieces(g, &n[0], &x[0], (int[]){ ZN_TAEHV_EACH }, 1, &y[0]));
    ZN_TRY_DONE(clip_compare(g, "enc_stream", &y[0], 0, y[0].shape.dim[0], FRAMES_FIRST));
    ZN_TRY_DONE(clip_load(g, "z", FRAMES_FIRST, &x[1]));
    ZN_TRY_DONE(clip_pieces(g, &n[1], &x[1], (int[]){ 1 }, 1, &y[1]));
    clamp(&y[1]);
    status = clip_compare(g, "dec_stream", &y[1], 0, y[1].shape.dim[0], FRAMES_FIRST);
done:
    g->math = ZN_PRECISION_DEFAULT;
    for (int i = 0; i < 2; i++) {
        clip_free(&x[i]);
        clip_free(&y[i]);
    }
    return status;
}

static zn_status run(golden *g)
{
    zn_taehv_form k;
    form_of(g, &k);
    ZN_TRY(check_encoder(g, &k));
    ZN_TRY(check_decoder(g, &k));
    return check_bf16(g, &k);
}

const golden_kind golden_wan_taehv = { "wan tiny autoencoder", matches, run };
