/* Runs that learn from conditions, in the folder of train_files.h: an autoencoder "auto", and "labels.csv". */
#ifndef ZN_TESTS_CONDITION_RUNS_H
#define ZN_TESTS_CONDITION_RUNS_H

#include "models/model.h"

#include <zenith/diffae.h>
#include <zenith/train.h>

enum { WIDTH = 16, PICTURES = 20 };

/* Losses of the first and last ten steps; a step to stop at, or pictures to have encoded before that. */
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

/* A run as ordered, watched; finish fails the test unless it gets to its end. */
zn_status start(const order *o, watch *w, zn_train_result *r);
void finish(const order *o, watch *w, zn_train_result *r);

void same_models(const char *a, const char *b);
/* Pictures whose rows are all alike are "flat": one in five. Every second one is "odd". */
void write_labels(const char *name);
zn_model *open_run(const char *name);
/* The condition of picture n, as the library gives it. */
void condition_of(zn_diffae *d, int n, float cond[WIDTH]);

#endif
