/* The images that one command makes, all of one size: tiles of one image, files of a folder, or frames of a video.
 *
 *     results r;
 *     status = results_begin(&r, o, 5, 5, RESULTS_VIDEO);      // -o is looked at before any work is done
 *     while (!status && ...)
 *         status = results_add(&r, image);                  // it is theirs from now on
 *     if (!status)
 *         status = results_write(&r);
 *     results_end(&r); */
#ifndef ZN_CLI_RESULTS_H
#define ZN_CLI_RESULTS_H

#include "ui/facts.h"
#include "ui/options.h"

enum { RESULTS_VIDEO = 1 }; /* a video is possible too */

typedef struct results {
    const options *o;
    zn_image_write_options writing;
    zn_image **pictures; /* those that are kept for one file; NULL where each has its own */
    int count, expected, columns;
    int folder;
    int width, height; /* of what was written */
} results;

/* Expects so many images, in so many columns where they become one; 0: one row, and as many rows as columns where
 * that would be long. Returns 0, or an exit status after saying what is wrong: with -o, or that a result would replace
 * one of the command's files. */
int results_begin(results *r, const options *o, int expected, int columns, unsigned kinds);
/* Each returns 0, or an exit status after saying what is wrong. */
int results_add(results *r, zn_image *picture);
int results_write(results *r);
/* Is standard output the image's, and not for facts? */
int results_to_standard_output(const results *r);
/* Number of images, size and place of what was written. */
void results_facts(const results *r, facts *f);
void results_end(results *r);

#endif
