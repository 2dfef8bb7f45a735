/* The images that one command makes, all of the same size: tiles of one image, files in a folder, or frames of a video.
 *
 *     results r;
 *     status = results_begin(&r, o, 5, 5, RESULTS_VIDEO);      // checks -o before any work is done
 *     while (!status && ...)
 *         status = results_add(&r, image);                  // takes ownership of image
 *     if (!status)
 *         status = results_write(&r);
 *     results_end(&r); */
#ifndef ZN_CLI_RESULTS_H
#define ZN_CLI_RESULTS_H

#include "options/options.h"
#include "ui/facts.h"

enum { RESULTS_VIDEO = 1 }; /* a video is also possible */

typedef struct results {
    const options *o;
    zn_image_write_options writing;
    zn_image **pictures; /* images for one file; NULL if each image has its own file */
    int count, expected, columns;
    int folder;
    int width, height; /* size of what was written */
} results;

/* expected: number of images. columns: used if they become one image; 0 means one row, or about as many rows as columns
 * if one row would be too long. Returns 0, or an exit status after reporting an error: -o is not valid, or a result
 * would replace an input. */
int results_begin(results *r, const options *o, int expected, int columns, unsigned kinds);
/* Before the first image, whose size is known then: reports an error if the file cannot hold all of them. Returns 0, or
 * an exit status. */
int results_check_size(const results *r, int width, int height);
/* Each returns 0, or an exit status after reporting an error. */
int results_add(results *r, zn_image *picture);
int results_write(results *r);
/* True if the image goes to standard output, so facts must not. */
int results_to_standard_output(const results *r);
/* Reports number of images, size and path of what was written. */
void results_facts(const results *r, facts *f);
void results_end(results *r);

#endif
