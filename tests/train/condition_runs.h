/* Training runs on conditions, in the folder of train_files.h, with an autoencoder "auto" and "labels.csv". */
#ifndef ZN_TESTS_CONDITION_RUNS_H
#define ZN_TESTS_CONDITION_RUNS_H

#include "models/model.h"

#include <zenith/diffae.h>
#include <zenith/train.h>

enum { WIDTH = 16, PICTURES = 20 };

/* Losses of the first and last ten steps; the step to stop at, or the number of encoded images to stop at. */
typedef struct watch {
    double first, last;
    int64_t stop, stop_encoding, encoded;
} watch;

typedef struct order {
    const char *name, *recipe, *from, *labels;
    int threads;
    bool resume;
} order;

int conditions_set_up(void **state);

/* Runs the order and watches it. finish fails the test unless the run reaches its end. */
zn_status start(const order *o, watch *w, zn_train_result *r);
void finish(const order *o, watch *w, zn_train_result *r);

void same_models(const char *a, const char *b);
/* Images whose rows are all equal are "flat": one in five. Every second image is "odd". */
void write_labels(const char *name);
zn_model *open_run(const char *name);
/* The condition of image n, as computed by the library. */
void condition_of(zn_diffae *d, int n, float cond[WIDTH]);

#endif
