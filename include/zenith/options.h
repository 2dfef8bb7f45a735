/* Options: how anything is computed. Codecs, videos, diffusion autoencoders, evaluations, benchmarks and training take
 * the same struct, and check it in the same way.
 *
 *     zn_options o = { .size = sizeof o, .threads = 4, .precision = ZN_PRECISION_BF16 };
 *     zn_codec_new(model, &o, &codec);
 *
 * Zero means the default in every field, and NULL for the struct means all zero. Impossible values are ZN_EINVALID;
 * fields that a handle has no use for are ignored. */
#ifndef ZN_OPTIONS_H
#define ZN_OPTIONS_H

#include <zenith/context.h>
#include <zenith/precision.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ZN_TILE_AUTO = 0, ZN_TILE_OFF = -1 };

typedef struct zn_options {
    /* sizeof(zn_options) where the caller was compiled: later versions add fields at the end, and the library reads no
     * more than this. 0: the fields up to `user`. Non-zero fields that the library does not have yet are
     * ZN_EUNSUPPORTED. */
    size_t size;
    zn_context *context; /* retained by the handle; NULL: the handle makes its own */
    int threads;         /* 0: the context's, or one for each CPU this process may use; at most 1024 */
    zn_precision precision;
    const char *device;      /* NULL or "cpu": the CPU; "cuda": the first GPU, in a build with CUDA. Not retained. */
    size_t memory;           /* budget in bytes for weights, image, result and activations, on a GPU for all that the
                                process has there; one that is too small is refused with the least that works
                                (ZN_ENOMEM; videos: ZN_ELIMIT). 0: half of what the machine has free */
    int tile;                /* ZN_TILE_AUTO (from memory), ZN_TILE_OFF, or the side of a tile in image pixels, at
                                least 64 */
    int profile;             /* non-zero: keep the time of each layer */
    zn_progress_fn progress; /* may be NULL */
    void *user;              /* for progress */
    int blend; /* non-zero, of videos: tiles of `tile` pixels overlap by a quarter and are blended, as diffusers does.
                  Less memory for large frames, but approximate, and all frames are kept until the end */
} zn_options;

#ifdef __cplusplus
}
#endif
#endif
