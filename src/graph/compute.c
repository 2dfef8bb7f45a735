/* Reads and checks zn_options, and borrows from a context what a handle needs; see compute.h. */
#include "graph/compute.h"

#include "base/fail.h"

#include <string.h>

/* Size of zn_options in the first version: `user` was its last field. */
static const size_t least_size = offsetof(zn_options, user) + sizeof(void *);

static const char *const names[] = { NULL, "f32", "bf16", "f16", "int8", "fp8" };
enum { PRECISIONS = sizeof names / sizeof *names, MOST_THREADS = 1024 };
/* Smaller tiles consist of borders that are computed again for every neighbour. */
enum { LEAST_TILE = 64 };

const char *zn_precision_name(int precision)
{
    return precision >= 0 && precision < PRECISIONS ? names[precision] : NULL;
}

static zn_status copy(const zn_options *given, zn_options *out)
{
    const size_t size = given->size ? given->size : least_size;
    if (size < least_size)
        return ZN_FAIL(ZN_EINVALID, "options of %zu bytes: size is at least %zu, sizeof(zn_options)", size, least_size);
    for (size_t i = sizeof *out; i < size; i++)
        if (((const char *)given)[i])
            return ZN_FAIL(ZN_EUNSUPPORTED, "options of %zu bytes set something that this version does not have", size);
    memcpy(out, given, size < sizeof *out ? size : sizeof *out);
    return ZN_OK;
}

zn_status zn_options_read(const zn_options *given, zn_options *out)
{
    *out = (zn_options){ 0 };
    if (given)
        ZN_TRY(copy(given, out));
    out->size = sizeof *out;
    if (out->threads < 0 || out->threads > MOST_THREADS)
        return ZN_FAIL(ZN_EINVALID, "%d threads: 0 (one for each CPU) to %d", out->threads, MOST_THREADS);
    if (out->context && out->threads && out->threads != zn_context_threads(out->context))
        return ZN_FAIL(ZN_EINVALID, "%d threads in a context of %d: leave one of them out", out->threads,
                       zn_context_threads(out->context));
    if ((int)out->precision < 0 || (int)out->precision >= PRECISIONS)
        return ZN_FAIL(ZN_EINVALID, "precision %d is not known", (int)out->precision);
    if (out->tile < ZN_TILE_OFF || (out->tile > 0 && out->tile < LEAST_TILE))
        return ZN_FAIL(ZN_EINVALID, "a tile of %d pixels: the side is at least %d, 0 (automatic) or -1 (off)",
                       out->tile, LEAST_TILE);
    return ZN_OK;
}

zn_status zn_compute_begin(const zn_options *given, zn_compute *c)
{
    *c = (zn_compute){ 0 };
    zn_status status;
    ZN_TRY_DONE(zn_options_read(given, &c->options));
    ZN_TRY_DONE(zn_context_borrow(c->options.context, c->options.threads, &c->context));
    ZN_TRY_DONE(zn_packs_new(zn_context_packs(c->context), &c->packs));
    ZN_TRY_DONE(zn_context_device(c->context, c->options.device, &c->device));
    c->options.device = NULL;
    c->pool = zn_context_pool(c->context);
    c->math = zn_precision_or_f32(c->options.precision);
    return ZN_OK;
done:
    zn_compute_end(c);
    return status;
}

zn_status zn_compute_refuse_fp8(const zn_compute *c, const char *who)
{
    return c->math != ZN_PRECISION_FP8
               ? ZN_OK
               : ZN_FAIL(ZN_EUNSUPPORTED, "%s have no fp8, which is for video autoencoders and generators: use bf16",
                         who);
}

size_t zn_compute_overhead(const zn_compute *c)
{
    return c->device && c->options.memory ? zn_device_overhead(c->device) : 0;
}

void zn_compute_end(zn_compute *c)
{
    zn_packs_free(c->packs);
    zn_context_free(c->context);
    *c = (zn_compute){ 0 };
}
