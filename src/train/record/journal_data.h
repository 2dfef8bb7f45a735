/* What the journal remembers; for journal.c, which fills it, and report.c, which draws it. */
#ifndef ZN_JOURNAL_DATA_H
#define ZN_JOURNAL_DATA_H

#include "train/record/events.h"
#include "train/record/journal.h"

#include <stdio.h>

enum { ZN_METRIC_NAME = 32 };

typedef struct zn_journal_entry {
    int64_t step;
    double value[ZN_MAX_METRICS]; /* by column; NaN: none */
} zn_journal_entry;

struct zn_journal {
    char *folder;
    FILE *lines;
    zn_events *events;
    char names[ZN_MAX_METRICS][ZN_METRIC_NAME]; /* of the columns */
    int columns;
    zn_journal_entry *entries;
    int64_t count;
    size_t capacity;
    char sample[64]; /* file name of the last one, "" before the first */
};

#endif
