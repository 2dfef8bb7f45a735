/* Codec: encode images to latents and decode them back.
 *
 *     zn_codec *c;
 *     zn_codec_new(model, NULL, &c);
 *     zn_encode(c, image, &latent);
 *     zn_decode(c, latent, &image2);
 *     zn_codec_free(c);
 *
 * A codec borrows its model. It may be used from several threads; calls on one codec take turns. Several codecs share
 * threads and packed weights through a context (options.h). Any image size works: sides are padded by repeating the
 * edge, and the result is cropped back. If memory is short, large images are processed in bands of rows, or in tiles,
 * and the result has the same bits. */
#ifndef ZN_CODEC_H
#define ZN_CODEC_H

#include <zenith/image.h>
#include <zenith/latent.h>
#include <zenith/model.h>
#include <zenith/options.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_codec zn_codec;

/* options may be NULL. */
ZN_API ZN_MUST_USE zn_status zn_codec_new(const zn_model *model, const zn_options *options, zn_codec **out);
ZN_API void zn_codec_free(zn_codec *codec);
/* Bytes of options.memory that the caller takes from now on, such as those of videos that it reads and writes
 * (zn_film_bytes); with these the program itself counts too. 0 cancels that. Of a GPU's budget the caller takes
 * nothing. */
ZN_API void zn_codec_hold(zn_codec *codec, size_t bytes);

/* The latent records the size of the image, so that decoding gives it back. ZN_ENUMERIC if NaN or infinity appears,
 * here and in zn_decode. */
ZN_API ZN_MUST_USE zn_status zn_encode(zn_codec *codec, const zn_image *image, zn_latent **out);
/* The image has 8 bits; zn_decode_bits takes 8 or 16. Packed latents are accepted too if zn_codec_unpacks. ZN_EINVALID
 * for a raw latent (zn_latent_rescale). */
ZN_API ZN_MUST_USE zn_status zn_decode(zn_codec *codec, const zn_latent *latent, zn_image **out);
ZN_API ZN_MUST_USE zn_status zn_decode_bits(zn_codec *codec, const zn_latent *latent, int bits, zn_image **out);
/* Non-zero if the latent is a packed one (zn_latent_pack) for this model, which has FLUX.2's: 32 channels at 1/8. */
ZN_API int zn_codec_unpacks(const zn_model_info *info, const zn_latent *latent);

/* The plan of the last call as text: segments, bands or tiles, memory. Valid until the next call on the codec. */
ZN_API const char *zn_codec_plan(const zn_codec *codec);
/* Arithmetic of the last call over that of the image processed at once: 1, or more where a small memory budget makes
 * pieces overlap. Known during the call too, from the first progress report on. */
ZN_API double zn_codec_overhead(const zn_codec *codec);
/* Share of the operations of the last call that were computed in the requested precision of 16 bits; the others are
 * f32, and all of them are where the processor is not faster with 16 bits. Known like the overhead; NaN before the
 * first call. */
ZN_API double zn_codec_precision_share(const zn_codec *codec);

/* One row for each layer of the last call, if zn_options.profile is set. zn_codec_profile returns the number of rows,
 * which are valid until the next call on the codec. */
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

/* zn_bench times one part of a model on random input. */
typedef struct zn_bench_options {
    zn_part part;
    int width, height; /* image pixels, at most 1 << 24; 0: 512, or the size of a diffusion autoencoder */
    int runs;          /* timed runs after two warm-ups; 0: 7 */
    uint64_t seed;
    /* NULL: defaults. Progress is that of all runs together; times on a GPU include the copies to it and back. */
    const zn_options *compute;
} zn_bench_options;

typedef struct zn_bench_result {
    double ms_median, ms_min;
    double cpu_ms; /* mean CPU time of a run, that of all threads of the process together */
    int runs, threads;
    double gflop;           /* as if convolved directly; additions and ReLUs fused into convolutions are not counted */
    double gflops;          /* gflop / median seconds */
    zn_precision precision; /* f32 if no layer was computed in the requested precision */
    double precision_share; /* share of the operations computed in it; the others are fp32 */
    zn_machine machine;
    double rss_mb;        /* peak resident memory of the process, MiB */
    zn_profile_row *rows; /* with profile: mean over the runs; free with zn_bench_result_clear */
    int row_count;
    char plan[4096]; /* what each pass of the engine decided, as text; a line for each */
} zn_bench_result;

ZN_API ZN_MUST_USE zn_status zn_bench(const zn_model *model, const zn_bench_options *options, zn_bench_result *out);
ZN_API void zn_bench_result_clear(zn_bench_result *result);

#ifdef __cplusplus
}
#endif
#endif
