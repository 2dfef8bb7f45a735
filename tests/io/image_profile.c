/* ICC profiles for the tests. */
#include "image_make.h"

#include <lcms2.h>
#include <math.h>

static blob saved(cmsHPROFILE profile)
{
    cmsUInt32Number size = 0;
    assert_true(cmsSaveProfileToMem(profile, NULL, &size));
    blob b = { malloc(size), size };
    assert_true(cmsSaveProfileToMem(profile, b.data, &size));
    cmsCloseProfile(profile);
    return b;
}

blob make_srgb_profile(void) { return saved(cmsCreate_sRGBProfile()); }

static cmsToneCurve *srgb_curve(void)
{
    const cmsFloat64Number p[5] = { 2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045 };
    return cmsBuildParametricToneCurve(NULL, 4, p);
}

blob make_display_p3(void)
{
    const cmsCIExyY white = { 0.3127, 0.3290, 1 };
    const cmsCIExyYTRIPLE primaries = { { 0.680, 0.320, 1 }, { 0.265, 0.690, 1 }, { 0.150, 0.060, 1 } };
    cmsToneCurve *curve = srgb_curve(), *curves[3] = { curve, curve, curve };
    const blob b = saved(cmsCreateRGBProfile(&white, &primaries, curves));
    cmsFreeToneCurve(curve);
    return b;
}

blob make_grey_profile(double gamma)
{
    cmsToneCurve *curve = cmsBuildGamma(NULL, gamma);
    const blob b = saved(cmsCreateGrayProfile(cmsD50_xyY(), curve));
    cmsFreeToneCurve(curve);
    return b;
}

static cmsInt32Number ink_to_lab(const cmsUInt16Number in[], cmsUInt16Number out[], void *cargo)
{
    (void)cargo;
    const double l = (1 - 0.5 * in[0] / 65535.0) * (1 - in[3] / 65535.0);
    out[0] = (cmsUInt16Number)lrint(l * 65535);
    out[1] = out[2] = 0x8080;
    return 1;
}

blob make_ink_profile(void)
{
    cmsHPROFILE p = cmsCreateProfilePlaceholder(NULL);
    cmsSetProfileVersion(p, 4.3);
    cmsSetDeviceClass(p, cmsSigOutputClass);
    cmsSetColorSpace(p, cmsSigCmykData);
    cmsSetPCS(p, cmsSigLabData);
    cmsPipeline *lut = cmsPipelineAlloc(NULL, 4, 3);
    cmsStage *clut = cmsStageAllocCLut16bit(NULL, 9, 4, 3, NULL);
    assert_true(cmsStageSampleCLut16bit(clut, ink_to_lab, NULL, 0));
    assert_true(cmsPipelineInsertStage(lut, cmsAT_END, cmsStageAllocToneCurves(NULL, 4, NULL)));
    assert_true(cmsPipelineInsertStage(lut, cmsAT_END, clut));
    assert_true(cmsPipelineInsertStage(lut, cmsAT_END, cmsStageAllocToneCurves(NULL, 3, NULL)));
    assert_true(cmsWriteTag(p, cmsSigAToB0Tag, lut));
    cmsPipelineFree(lut);
    return saved(p);
}
