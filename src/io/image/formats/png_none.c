/* PNG in a build without libpng. */
#include "base/fail.h"
#include "io/image/formats/png.h"

zn_status zn_png_read_stored(const zn_source *source, int64_t max_pixels, zn_png_text_fn on_text, void *user,
                             zn_raster *raster)
{
    (void)max_pixels, (void)on_text, (void)user, (void)raster;
    return ZN_FAIL(ZN_EUNSUPPORTED, "%s: this build cannot read PNG", source->name);
}

zn_status zn_png_write_stored(const zn_raster *raster, const zn_png_text *text, int count, int colours, int threads,
                              zn_bytes *out)
{
    (void)raster, (void)text, (void)count, (void)colours, (void)threads, (void)out;
    return ZN_FAIL(ZN_EUNSUPPORTED, "this build cannot write PNG");
}
