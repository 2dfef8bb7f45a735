/* The journal of a run: metrics as JSON lines and TensorBoard events, sample pictures, and a report page. */
#ifndef ZN_JOURNAL_H
#define ZN_JOURNAL_H

#include "train/recipe/recipe.h"

#include <zenith/image.h>

typedef struct zn_journal zn_journal;

/* Opens the journal of a run folder; entries of steps after `step` (of a run that was cut off) are dropped. */
ZN_MUST_USE zn_status zn_journal_open(const char *folder, int64_t step, zn_journal **out);
void zn_journal_close(zn_journal *j);

/* One number of a step, by a name such as "loss" or "loss/l1". */
typedef struct zn_metric {
    const char *name;
    double value; /* NaN: not measured, not written */
} zn_metric;

enum { ZN_MAX_METRICS = 40 };

/* The last value that a number had; NaN if it had none. */
double zn_journal_last(const zn_journal *j, const char *name);

ZN_MUST_USE zn_status zn_journal_add(zn_journal *j, int64_t step, const zn_metric *metrics, int count);
/* Writes samples/step-NNNNNNN.png. */
ZN_MUST_USE zn_status zn_journal_sample(zn_journal *j, int64_t step, const zn_image *picture);
/* report.html: one page with the curves and the last samples, no network needed. */
ZN_MUST_USE zn_status zn_journal_report(zn_journal *j, const zn_recipe *recipe);

#endif
