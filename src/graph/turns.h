/* Weights in their file format that are copied to the device just before they are used, in every run, because the
 * device cannot hold all of them. Some stay there; the others take turns in a window (kernels/device.h), and are copied
 * while the layers before them compute. Which bits a run has does not depend on it.
 *
 *     ZN_TRY(zn_turns_make(&s, device, &plan, first, bytes, pins)); // empty if all weights fit
 *     zn_turns_begin(&s);
 *     zn_turns_enter(&s, step); ...; zn_turns_leave(&s, step);   // around every step
 *     zn_turns_end(&s);
 *     zn_turns_free(&s); */
#ifndef ZN_TURNS_H
#define ZN_TURNS_H

#include "graph/plan.h"

/* A matrix that takes turns. */
typedef struct zn_turns_piece {
    const zn_packed *weights;
    int step; /* that reads it */
    zn_window_buffer buffer[3];
    int count;
    size_t bytes;
    void *pinned; /* a copy that the device reads fast, from the second run on; NULL: there is none */
} zn_turns_piece;

typedef struct zn_turns {
    zn_device *device;
    zn_window *window;
    zn_turns_piece *pieces; /* in the order of their steps */
    size_t count, capacity;
    int slots;
    bool pins;
    size_t loaded; /* pieces whose copies were started in this run */
    size_t next;   /* piece that is used next */
    int64_t runs;
    size_t bytes, resident, window_bytes; /* of the pieces, of the weights that stay, and of the window */
} zn_turns;

/* bytes: device memory for weights and window; 0: no limit. ZN_ENOMEM, with a sentence, if it is too little. pins: from
 * the second run on they are copied from pinned memory, as far as there is some. */
ZN_MUST_USE zn_status zn_turns_make(zn_turns *s, zn_device *d, const zn_plan *plan, int first, size_t bytes, bool pins);
void zn_turns_free(zn_turns *s); /* harmless on a zeroed one */
bool zn_turns_has(const zn_turns *s, const zn_packed *w);

void zn_turns_begin(zn_turns *s);
void zn_turns_enter(zn_turns *s, int step);
void zn_turns_leave(zn_turns *s, int step);
void zn_turns_end(zn_turns *s);

/* The buffers of a matrix with so many rows: numbers, scales, biases. Returns how many. */
int zn_packed_buffers(const zn_packed *w, int64_t rows, zn_window_buffer out[3]);

#endif
