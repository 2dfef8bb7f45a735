/* Which parts of a photo are out of focus while others are sharp, as a background often is: on purpose, so a restorer
 * should not sharpen them. A photo without sharp parts has none: it is blurred by mistake.
 *
 *     zn_focus f;
 *     ZN_TRY(zn_focus_of(image, &f));
 *     if (zn_focus_is_soft(&f, x, y))
 *         ...
 *     zn_focus_free(&f); */
#ifndef ZN_FOCUS_H
#define ZN_FOCUS_H

#include "io/image/pixels/pixels.h"

/* Cells of 32x32 pixels; soft: [down][across]. */
typedef struct zn_focus {
    int across, down;
    bool *soft;
    bool sharp; /* the photo is meant to be sharp; else no cell is soft */
} zn_focus;

ZN_MUST_USE zn_status zn_focus_of(const zn_image *image, zn_focus *out);
/* Beyond the image: as the nearest pixel. */
bool zn_focus_is_soft(const zn_focus *f, int x, int y);
/* Bounds how much soft parts of an image have changed: `after` may differ from `before`, of the same size and bits, by
 * what JPEG does to a soft background, not by what sharpening does. The bound rises towards sharp parts. */
void zn_focus_bound(const zn_focus *f, const zn_image *before, zn_image *after);
/* Undoes sharpening where nothing else was to be restored: if a sharp photo is as rough after as before in half of its
 * cells, as clean ones are, those that became rougher get their pixels back. ZN_ENOMEM leaves `after` as it is. */
ZN_MUST_USE zn_status zn_focus_keep_clean(const zn_focus *f, const zn_image *before, zn_image *after);
void zn_focus_free(zn_focus *f);

#endif
