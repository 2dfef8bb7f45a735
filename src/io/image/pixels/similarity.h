/* Structural similarity as a metric: of two maps that are read row by row, so that neither has to exist as a whole.
 *
 *     const zn_similarity_rows rows = { .height = h, .width = w, .channels = 3, .range = 255, .row = read, .self =
 * &pair }; ZN_TRY(zn_similarity_of(&rows, &ssim, NULL));
 *
 * The loss, which needs gradients, is kernels/ref/loss/ssim.c. */
#ifndef ZN_SIMILARITY_H
#define ZN_SIMILARITY_H

#include <zenith/status.h>

typedef struct zn_similarity_rows {
    int height, width, channels; /* channels lie side by side */
    double range;                /* of the values a and b: from 0 to this */
    /* Writes sum = a + b - range and difference = a - b of row y, width * channels of each. Called for every row once,
     * from the top. */
    void (*row)(void *self, int y, float *sum, float *difference);
    void *self;
} zn_similarity_rows;

/* Mean over channels and the valid positions of the window (kernels/ssim.h), which is as large as the map where that is
 * smaller. structure: the same without the term of luminance, as several scales need it; may be NULL. */
ZN_MUST_USE zn_status zn_similarity_of(const zn_similarity_rows *rows, double *whole, double *structure);

#endif
