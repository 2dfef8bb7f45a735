/* zn_sample: conditions imagined by the latent net, rendered from fresh noise. */
#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>
#include <zenith/diffae.h>
#include <zenith/sample.h>

enum { STEPS = 20 };

static zn_status draw(zn_diffae *d, const zn_sample_options *o, int count, zn_image **images)
{
    const int steps = o->steps ? o->steps : STEPS;
    float *cond = zn_alloc(sizeof *cond * ((size_t)count * (size_t)zn_diffae_width(d) + 1));
    float *noise = zn_alloc(sizeof *noise * zn_diffae_noise_size(d, count));
    zn_status status = cond && noise ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for a sample");
    if (status == ZN_OK)
        status = zn_diffae_imagine(d, count, o->seed, steps, cond);
    if (status == ZN_OK) {
        zn_diffae_noise(d, count, o->seed, noise);
        status = zn_diffae_render(d, count, cond, noise, steps, images);
    }
    zn_free(cond);
    zn_free(noise);
    return status;
}

zn_status zn_sample(const zn_model *model, const zn_sample_options *options, int count, zn_image **images)
{
    const zn_sample_options o = options ? *options : (zn_sample_options){ 0 };
    zn_diffae *d;
    if (count < 1)
        return ZN_FAIL(ZN_EINVALID, "%d images cannot be generated", count);
    memset(images, 0, sizeof *images * (size_t)count);
    ZN_TRY(zn_diffae_new(model, o.compute, &d));
    const zn_status status = draw(d, &o, count, images);
    zn_diffae_free(d);
    return status;
}
