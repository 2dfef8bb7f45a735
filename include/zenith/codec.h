/* Codec: encode images to latents and decode them back.
 *
 *     zn_codec *c;
 *     zn_codec_new(model, NULL, &c);
 *     zn_encode(c, image, &latent);
 *     zn_decode(c, latent, &image2);
 *     zn_codec_free(c);
 *
 * A codec borrows its model. It may be used from several threads; calls on one codec take turns. Any image size works:
 * sides are padded by repeating the edge and the result is cropped back. Large images are cut into tiles that overlap
 * by the network's receptive field, so a tiled result equals an untiled one. */
#ifndef ZN_CODEC_H
#define ZN_CODEC_H

#include <zenith/image.h>
#include <zenith/latent.h>
#include <zenith/model.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_codec zn_codec;

/* Precision of the multiplications; everything else is always fp32. The 16-bit ones allow what is faster: on ARM f16 is
 * fixed-point arithmetic of 15 bits on the int8 matrix unit, and bf16 the same but for large maps and 1x1 layers, where
 * it is bf16 on the matrix unit; on x86 bf16 is AMX, on a GPU both are TF32. Where there is nothing faster for a layer
 * (f16 on x86), it is computed in fp32. */
typedef enum zn_precision { ZN_PRECISION_F32, ZN_PRECISION_BF16, ZN_PRECISION_F16 } zn_precision;

enum { ZN_TILE_AUTO = 0, ZN_TILE_OFF = -1 };

typedef struct zn_codec_options {
    int threads; /* 0: one for each CPU this process may use */
    zn_precision precision;
    int tile;                /* ZN_TILE_AUTO (from memory), ZN_TILE_OFF, or the side of a tile in image pixels */
    size_t memory;           /* budget for activations in bytes; 0: half of what the machine has free */
    int profile;             /* non-zero: keep times of each layer for zn_codec_profile */
    zn_progress_fn progress; /* may be NULL */
    void *user;
    const char *device; /* NULL or "cpu": the CPU; "cuda": the first GPU, in a build that has CUDA; kept by nobody */
} zn_codec_options;

ZN_API ZN_MUST_USE zn_status zn_codec_new(const zn_model *model, const zn_codec_options *options, zn_codec **out);
ZN_API void zn_codec_free(zn_codec *codec);

ZN_API ZN_MUST_USE zn_status zn_encode(zn_codec *codec, const zn_image *image, zn_latent **out);
/* The image has 8 bits; zn_decode_bits gives 16 when asked. */
ZN_API ZN_MUST_USE zn_status zn_decode(zn_codec *codec, const zn_latent *latent, zn_image **out);
ZN_API ZN_MUST_USE zn_status zn_decode_bits(zn_codec *codec, const zn_latent *latent, int bits, zn_image **out);

/* The plan of the last call as text: segments, tile, overlap, memory. Valid until the next call. */
ZN_API const char *zn_codec_plan(const zn_codec *codec);

/* One row for each layer of the last profiled call; valid until the next call. */
typedef struct zn_profile_row {
    const char *name;   /* "decoder.3.conv.0" */
    const char *kernel; /* "winograd6 f32 neon" */
    double ms;
    double gflop;      /* direct-equivalent */
    double gflop_done; /* multiplications and additions executed */
    double gslot;      /* least issue slots: one for a multiply-add, or for an operation that is not part of one */
    double mbytes;     /* least traffic: inputs, outputs and weights once each */
    double roofline;   /* the larger of gslot at peak_gflops / 2 and mbytes at full bandwidth, over the time */
} zn_profile_row;
ZN_API int zn_codec_profile(zn_codec *codec, const zn_profile_row **rows);

/* Peak rates of this machine, measured once per process on first use (about half a second). */
typedef struct zn_machine {
    char isa[64];         /* instruction set in use, "neon+fp16+bf16+i8mm"; for a GPU its name, and the figures below
                             are those of its data sheet */
    int cpus;             /* CPUs this process may use */
    double peak_gflops;   /* fp32 multiply-add, registers only, `threads` threads */
    double bandwidth_gbs; /* memory, read + write */
} zn_machine;
ZN_API ZN_MUST_USE zn_status zn_machine_measure(int threads, zn_precision precision, zn_machine *out);

/* Times one part of a model on random input. */
typedef struct zn_bench_options {
    zn_part part;
    int width, height; /* image pixels, at most 1 << 24; 0: 512 */
    int threads;
    zn_precision precision;
    int runs; /* timed runs after two warm-ups; 0: 7 */
    uint64_t seed;
    int profile;
    int tile;
    size_t memory;
    zn_progress_fn progress; /* of all runs together; may be NULL */
    void *user;
    const char *device; /* as in zn_codec_options; times on a GPU are with the copies to it and back */
} zn_bench_options;

typedef struct zn_bench_result {
    double ms_median, ms_min;
    int runs, threads;
    double gflop;           /* as if convolved directly; additions and ReLUs fused into convolutions are not counted */
    double gflops;          /* gflop / median seconds */
    zn_precision precision; /* f32 if no layer was computed in the requested precision */
    double precision_share; /* share of the operations computed in it; the others are fp32 */
    zn_machine machine;
    double rss_mb;        /* peak resident memory of the process, MiB */
    zn_profile_row *rows; /* with profile: mean over the runs; free with zn_bench_result_clear */
    int row_count;
} zn_bench_result;

ZN_API ZN_MUST_USE zn_status zn_bench(const zn_model *model, const zn_bench_options *options, zn_bench_result *out);
ZN_API void zn_bench_result_clear(zn_bench_result *result);

#ifdef __cplusplus
}
#endif
#endif
