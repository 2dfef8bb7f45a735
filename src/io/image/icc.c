/* ICC profiles through lcms2: perceptual intent with black point compensation, which for the matrix profiles of cameras
 * and displays is the plain colorimetric conversion. The lcms2 context is private to the call and uses our allocator,
 * so a hostile profile cannot reach shared state and a lack of memory is seen. */
#include "io/image/icc.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <lcms2.h>
#include <lcms2_plugin.h>
#include <stdlib.h>
#include <string.h>

struct zn_icc {
    cmsContext context;
    cmsHTRANSFORM transform;
    int no_memory;
    int bits, channels;
    void *widened; /* a row of RGB, when a grey raster carries an RGB profile */
};

static void *lcms_malloc(cmsContext context, cmsUInt32Number size)
{
    void *block = zn_alloc(size);
    zn_icc *icc = cmsGetContextUserData(context);
    if (!block && icc)
        icc->no_memory = 1;
    return block;
}

static void *lcms_realloc(cmsContext context, void *block, cmsUInt32Number size)
{
    void *bigger = zn_realloc(block, size);
    zn_icc *icc = cmsGetContextUserData(context);
    if (!bigger && icc)
        icc->no_memory = 1;
    return bigger;
}

static void lcms_free(cmsContext context, void *block)
{
    (void)context;
    zn_free(block);
}

static cmsContext new_context(zn_icc *icc)
{
    cmsPluginMemHandler memory = {
        .base = { cmsPluginMagicNumber, 2060, cmsPluginMemHandlerSig, NULL },
        .MallocPtr = lcms_malloc,
        .FreePtr = lcms_free,
        .ReallocPtr = lcms_realloc,
    };
    return cmsCreateContext(&memory, icc);
}

/* The lcms2 description of the raster's samples under this profile; 0 if the profile is for something else. */
static cmsUInt32Number input_format(const zn_raster *r, cmsHPROFILE profile, int *widen)
{
    const cmsProfileClassSignature class = cmsGetDeviceClass(profile);
    if (class != cmsSigInputClass && class != cmsSigDisplayClass && class != cmsSigOutputClass &&
        class != cmsSigColorSpaceClass)
        return 0;
    const cmsUInt32Number depth = BYTES_SH(r->bits / 8), alpha = EXTRA_SH(r->channels == 2 || r->channels == 4);
    const cmsColorSpaceSignature space = cmsGetColorSpace(profile);
    *widen = 0;
    if (r->ink != ZN_INK_NONE)
        return space == cmsSigCmykData
                   ? COLORSPACE_SH(PT_CMYK) | CHANNELS_SH(4) | depth | FLAVOR_SH(r->ink == ZN_INK_INVERTED)
                   : 0;
    if (space == cmsSigGrayData && r->channels <= 2)
        return COLORSPACE_SH(PT_GRAY) | CHANNELS_SH(1) | depth | alpha;
    if (space != cmsSigRgbData)
        return 0;
    *widen = r->channels <= 2;
    return COLORSPACE_SH(PT_RGB) | CHANNELS_SH(3) | depth | (*widen ? 0 : alpha);
}

static int sample(const void *samples, int bits, int i)
{
    return bits == 8 ? ((const uint8_t *)samples)[i] * 257 : ((const uint16_t *)samples)[i];
}

/* True if a grid of colours comes out within one 8-bit step of itself: then the profile is sRGB under one of its many
 * names, and the pixels are better left alone. */
static int changes_nothing(const zn_icc *icc, int grey)
{
    enum { STEPS = 6 };
    const int count = grey ? STEPS : STEPS * STEPS * STEPS;
    for (int i = 0; i < count; i++) {
        const int level[3] = { i % STEPS, grey ? i : i / STEPS % STEPS, grey ? i : i / STEPS / STEPS };
        uint8_t in8[4] = { 0 }, out8[3];
        uint16_t in16[4] = { 0 }, out16[3];
        for (int c = 0; c < 3; c++) {
            in8[c] = (uint8_t)(level[c] * 255 / (STEPS - 1));
            in16[c] = (uint16_t)(in8[c] * 257);
        }
        const void *in = icc->bits == 8 ? (void *)in8 : in16;
        void *out = icc->bits == 8 ? (void *)out8 : out16;
        cmsDoTransform(icc->transform, in, out, 1);
        for (int c = 0; c < 3; c++)
            if (abs(sample(out, icc->bits, c) - in16[c]) > 257)
                return 0;
    }
    return 1;
}

/* Leaves icc->transform NULL when the profile is of no use. */
static void make_transform(zn_icc *icc, const zn_raster *r)
{
    cmsHPROFILE profile = cmsOpenProfileFromMemTHR(icc->context, r->icc, (cmsUInt32Number)r->icc_size);
    cmsHPROFILE srgb = profile ? cmsCreate_sRGBProfileTHR(icc->context) : NULL;
    int widen = 0;
    const cmsUInt32Number from = srgb ? input_format(r, profile, &widen) : 0;
    if (from) {
        const cmsUInt32Number to = COLORSPACE_SH(PT_RGB) | CHANNELS_SH(3) | BYTES_SH(r->bits / 8);
        icc->transform = cmsCreateTransformTHR(icc->context, profile, from, srgb, to, INTENT_PERCEPTUAL,
                                               cmsFLAGS_BLACKPOINTCOMPENSATION);
    }
    if (srgb)
        cmsCloseProfile(srgb);
    if (profile)
        cmsCloseProfile(profile);
    const int grey = from && T_COLORSPACE(from) == PT_GRAY;
    if (icc->transform && r->ink == ZN_INK_NONE && changes_nothing(icc, grey)) {
        cmsDeleteTransform(icc->transform);
        icc->transform = NULL;
    }
    if (icc->transform && widen) {
        icc->widened = zn_alloc((size_t)r->width * 3 * (size_t)(r->bits / 8));
        icc->no_memory |= !icc->widened;
    }
}

zn_status zn_icc_open(const zn_raster *raster, zn_icc **out)
{
    *out = NULL;
    if (!raster->icc)
        return ZN_OK;
    zn_icc *icc = zn_calloc(1, sizeof *icc);
    if (!icc)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a colour profile");
    icc->bits = raster->bits;
    icc->channels = raster->channels;
    icc->context = new_context(icc);
    if (icc->context)
        make_transform(icc, raster);
    if (!icc->context || icc->no_memory) {
        zn_icc_close(icc);
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a colour profile of %zu bytes", raster->icc_size);
    }
    if (!icc->transform) {
        zn_icc_close(icc);
        return ZN_OK;
    }
    *out = icc;
    return ZN_OK;
}

void zn_icc_close(zn_icc *icc)
{
    if (!icc)
        return;
    if (icc->transform)
        cmsDeleteTransform(icc->transform);
    if (icc->context)
        cmsDeleteContext(icc->context);
    zn_free(icc->widened);
    zn_free(icc);
}

void zn_icc_row(const zn_icc *icc, const void *from, void *rgb, int pixels)
{
    if (icc->widened) {
        for (int64_t i = 0; i < pixels; i++)
            for (int c = 0; c < 3; c++) {
                if (icc->bits == 8)
                    ((uint8_t *)icc->widened)[i * 3 + c] = ((const uint8_t *)from)[i * icc->channels];
                else
                    ((uint16_t *)icc->widened)[i * 3 + c] = ((const uint16_t *)from)[i * icc->channels];
            }
        from = icc->widened;
    }
    cmsDoTransform(icc->transform, from, rgb, (cmsUInt32Number)pixels);
}
