/* Context: what handles share, so that a second handle costs little: threads, devices, and weights packed for the
 * kernels.
 *
 *     zn_context *context;
 *     zn_context_new(0, &context);
 *     zn_options o = { .context = context };
 *     for (int i = 0; i < 10; i++)
 *         zn_codec_new(model, &o, &codec[i]);      // one pool of threads, one set of packed weights
 *     zn_context_free(context);                    // the codecs keep it as long as they need it
 *
 * Packed weights belong to a model: handles of the same zn_model share them, whatever the size of their images, and
 * they are freed with the last handle that uses them. A handle without a context makes one for itself.
 *
 * A context may be used from several threads, and so may handles that share it. With several threads in the pool,
 * layers of different handles take turns on the whole pool; in a context of one thread each handle computes on its
 * caller's thread, and no caller waits. On a GPU whole calls take turns. Results do not depend on what is shared. */
#ifndef ZN_CONTEXT_H
#define ZN_CONTEXT_H

#include <stddef.h>
#include <zenith/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_context zn_context;

/* threads 0: one for each CPU this process may use; at most 1024. */
ZN_API ZN_MUST_USE zn_status zn_context_new(int threads, zn_context **out);
/* Releases the caller's reference. The context itself is freed with the last handle that uses it. */
ZN_API void zn_context_free(zn_context *context);

ZN_API int zn_context_threads(const zn_context *context);
/* Bytes of packed weights that handles use now. */
ZN_API size_t zn_context_packed_bytes(const zn_context *context);
/* Bytes that the driver and the libraries of a GPU take, an estimate: once, though zn_options.memory of each handle has
 * to contain them. device: as in zn_options, which this opens. 0: the CPU, or it cannot be used. */
ZN_API size_t zn_context_overhead(zn_context *context, const char *device);

#ifdef __cplusplus
}
#endif
#endif
