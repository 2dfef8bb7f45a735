/* ICC profiles through lcms2: perceptual intent with black point compensation, which for the matrix profiles of cameras
 * and displays is the plain colorimetric conversion.
 *
 * lcms2 does not survive a failed allocation everywhere, and a hostile profile can ask for much. So its context is
 * private to one image and lives in an arena: an allocation that cannot be met, or that goes beyond a limit, jumps
 * out of the library, and freeing the arena frees all it had. The jump is armed only while a transform is being made.
 */
#include "io/image/pixels/icc.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/fail.h"

#include <lcms2.h>
#include <lcms2_plugin.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY_LIMIT = 64 << 20, HEAD = 16 };

struct zn_icc {
    zn_arena arena;
    size_t used;
    cmsContext context;
    cmsHTRANSFORM transform;
    jmp_buf escape;
    int armed;
    int bits, channels;
    void *widened; /* a row of RGB, when a grey raster carries an RGB profile */
};

/* A block remembers its size in front, for lcms_realloc. */
static void *lcms_malloc(cmsContext context, cmsUInt32Number size)
{
    zn_icc *icc = cmsGetContextUserData(context);
    char *block = icc->used + size > MEMORY_LIMIT ? NULL : zn_arena_alloc(&icc->arena, HEAD + (size_t)size);
    if (!block) {
        if (icc->armed)
            longjmp(icc->escape, 1);
        return NULL;
    }
    icc->used += HEAD + size;
    memcpy(block, &size, sizeof size);
    return block + HEAD;
}

static void *lcms_realloc(cmsContext context, void *block, cmsUInt32Number size)
{
    void *bigger = lcms_malloc(context, size);
    cmsUInt32Number old = 0;
    if (block)
        memcpy(&old, (char *)block - HEAD, sizeof old);
    if (bigger && block)
        memcpy(bigger, block, old < size ? old : size);
    return bigger;
}

static void lcms_free(cmsContext context, void *block) { (void)context, (void)block; }

static cmsContext new_context(zn_icc *icc)
{
    cmsPluginMemHandler memory = {
        .base = { cmsPluginMagicNumber, 2060, cmsPluginMemHandlerSig, NULL },
        .MallocPtr = lcms_malloc,
        .FreePtr = lcms_free,
        .ReallocPtr = lcms_realloc,
    };
    /* The context itself fits in the arena's first block, so its making, during which no jump is allowed, succeeds. */
    return zn_arena_alloc(&icc->arena, 1) ? cmsCreateContext(&memory, icc) : NULL;
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
static bool changes_nothing(const zn_icc *icc, int grey)
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
                return false;
    }
    return true;
}

/* Leaves icc->transform NULL when the profile is of no use. */
static void make_transform(zn_icc *icc, const zn_raster *r)
{
    cmsHPROFILE profile = cmsOpenProfileFromMemTHR(icc->context, r->icc, (cmsUInt32Number)r->icc_size);
    cmsHPROFILE srgb = profile ? cmsCreate_sRGBProfileTHR(icc->context) : NULL;
    int widen = 0;
    const cmsUInt32Number from = srgb ? input_format(r, profile, &widen) : 0;
    if (!from)
        return;
    const cmsUInt32Number to = COLORSPACE_SH(PT_RGB) | CHANNELS_SH(3) | BYTES_SH(r->bits / 8);
    /* At 16 bits lcms2 would replace the profile by a coarse table, off by several 8-bit steps in places. */
    const cmsUInt32Number flags = cmsFLAGS_BLACKPOINTCOMPENSATION | (r->bits == 16 ? cmsFLAGS_NOOPTIMIZE : 0);
    icc->transform = cmsCreateTransformTHR(icc->context, profile, from, srgb, to, INTENT_PERCEPTUAL, flags);
    if (!icc->transform)
        return;
    if (r->ink == ZN_INK_NONE && changes_nothing(icc, T_COLORSPACE(from) == PT_GRAY))
        icc->transform = NULL;
    else if (widen)
        icc->widened = zn_arena_alloc(&icc->arena, (size_t)r->width * 3 * (size_t)(r->bits / 8));
}

static void try_transform(zn_icc *icc, const zn_raster *r)
{
    if (setjmp(icc->escape)) {
        icc->transform = NULL;
    } else {
        icc->armed = 1;
        make_transform(icc, r);
    }
    icc->armed = 0;
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
        try_transform(icc, raster);
    const int no_memory = icc->arena.failed;
    if (no_memory || !icc->transform) {
        zn_icc_close(icc);
        return no_memory ? ZN_FAIL(ZN_ENOMEM, "out of memory for a colour profile of %zu bytes", raster->icc_size)
                         : ZN_OK;
    }
    *out = icc;
    return ZN_OK;
}

/* The transform and the profiles are memory of the arena and nothing else. */
void zn_icc_close(zn_icc *icc)
{
    if (!icc)
        return;
    if (icc->context)
        cmsDeleteContext(icc->context);
    zn_arena_free(&icc->arena);
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
