/* TensorBoard event files: scalars and images that the viewer of that name can show.
 *
 *     zn_events *e;
 *     ZN_TRY(zn_events_open("run", 0, &e));
 *     ZN_TRY(zn_events_scalar(e, "loss", step, 0.25));
 *     ZN_TRY(zn_events_image(e, "samples", step, image));
 *     zn_events_close(e);
 *
 * A record is length u64, masked CRC-32C of it, a protobuf message, masked CRC-32C of that. Readers stop at a record
 * that is not whole, so nothing is written after a failed write: opening the file again cuts it off. */
#ifndef ZN_EVENTS_H
#define ZN_EVENTS_H

#include <stdint.h>
#include <zenith/image.h>

typedef struct zn_events zn_events;

/* Appends to FOLDER/events.out.tfevents.zenith, which is made when absent; events of steps after `step` (of a run that
 * was cut off) are dropped. */
ZN_MUST_USE zn_status zn_events_open(const char *folder, int64_t step, zn_events **out);
ZN_MUST_USE zn_status zn_events_scalar(zn_events *e, const char *tag, int64_t step, double value);
ZN_MUST_USE zn_status zn_events_image(zn_events *e, const char *tag, int64_t step, const zn_image *image);
void zn_events_close(zn_events *e);

#endif
