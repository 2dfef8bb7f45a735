/* Parcels: results of one rank packed for another.
 *
 *     zn_parcel p = { 0 };
 *     zn_parcel_put(&p, &row, sizeof row);
 *     zn_parcel_put_text(&p, row.name);
 *     ZN_TRY(zn_parcel_gather(&p, ranks));     // on rank 0: everyone's, in the order of the ranks; on others: nothing
 *     while (zn_parcel_take(&p, &row, sizeof row))
 *         name = zn_parcel_take_bytes(&p, &size);
 *     zn_parcel_free(&p); */
#ifndef ZN_TRAIN_PARCEL_H
#define ZN_TRAIN_PARCEL_H

#include "train/ranks/ranks.h"

typedef struct zn_parcel {
    char *bytes;
    size_t size, capacity, at; /* at: what has been taken */
    bool failed;               /* memory ran out while packing; gather tells */
} zn_parcel;

void zn_parcel_put(zn_parcel *p, const void *bytes, size_t size);
/* With their size, so that they can be taken without knowing it. */
void zn_parcel_put_bytes(zn_parcel *p, const void *bytes, size_t size);
void zn_parcel_put_text(zn_parcel *p, const char *text);

ZN_MUST_USE zn_status zn_parcel_gather(zn_parcel *p, zn_ranks *ranks);

/* False when there is not that much left. */
bool zn_parcel_take(zn_parcel *p, void *to, size_t size);
/* Inside the parcel; texts end with a zero. NULL when there is nothing left. */
const void *zn_parcel_take_bytes(zn_parcel *p, size_t *size);

void zn_parcel_free(zn_parcel *p);

#endif
