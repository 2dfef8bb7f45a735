/* A network run in bands of rows, from the top down. Each layer computes the rows that the next band of the output
 * needs and keeps the last few that layers after it will read again, so memory grows with the width of the map and not
 * with its height, and hardly anything is computed twice.
 *
 *     bool possible;
 *     zn_bands *b;
 *     ZN_TRY(zn_bands_new(graph, input, output, &prepare, 128, &b, &possible));   // 128 rows of output for each band
 *     ...zn_exec_new with .bands = zn_bands_hooks(b), after zn_bands_allocate...
 *     for (int i = 0; i < zn_bands_count(b); i++) {
 *         fill(zn_bands_input(b, i, &first, &rows));     // rows of the input that are new
 *         zn_bands_begin(b, i);
 *         ZN_TRY(zn_exec_run(exec));
 *         use(zn_bands_output(b, i, &first, &rows));
 *     }
 *     zn_bands_free(b);
 *
 * The result has the bits of the whole run: layers are given windows that begin where the squares of their kernels do,
 * and what is wrong at the border of a window is not used. */
#ifndef ZN_BANDS_H
#define ZN_BANDS_H

#include "graph/exec.h"

typedef struct zn_bands zn_bands;

/* Plans bands of `rows` rows of the output of a fused graph, which must outlive the plan. *possible is false, and *out
 * NULL, where a layer needs more than a few rows of its source (a norm over the whole map) or rows do not correspond.
 */
ZN_MUST_USE zn_status zn_bands_new(zn_graph *g, zn_node *input, zn_node *output, const zn_prepare *p, int64_t rows,
                                   zn_bands **out, bool *possible);
void zn_bands_free(zn_bands *b);

size_t zn_bands_bytes(const zn_bands *b); /* activations, kept rows and scratch, once allocated */
double zn_bands_flops(const zn_bands *b); /* of all bands */
double zn_bands_band_flops(const zn_bands *b, int band);
int zn_bands_count(const zn_bands *b);
int64_t zn_bands_height(const zn_bands *b); /* rows of output for each band */

/* Gives the nodes of the graph their memory, and zn_exec_new what it needs to run bands. */
ZN_MUST_USE zn_status zn_bands_allocate(zn_bands *b);
void zn_bands_release(zn_bands *b); /* the memory, until it is allocated again */
const zn_exec_bands *zn_bands_hooks(const zn_bands *b);

/* Memory for the rows [*first, *first + *rows) of the input that a band reads for the first time. */
float *zn_bands_input(zn_bands *b, int band, int64_t *first, int64_t *rows);
/* Before each run: which band it is; the input has been filled. */
void zn_bands_begin(zn_bands *b, int band);
/* After the run: rows [*first, *first + *rows) of the output. */
const float *zn_bands_output(const zn_bands *b, int band, int64_t *first, int64_t *rows);

#endif
