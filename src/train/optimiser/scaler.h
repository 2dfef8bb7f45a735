/* Loss scaling for training in fp16: small gradients are lifted into range by a factor that finds its own size.
 *
 *     zn_scaler s = ZN_SCALER_START;                 // loss * s.scale, gradients / s.scale
 *     if (zn_scaler_step(&s, gradients_are_finite))
 *         ...update...                               // else this step is left out */
#ifndef ZN_SCALER_H
#define ZN_SCALER_H

#include <stdbool.h>

typedef struct zn_scaler {
    float scale;
    int interval; /* so many good steps one after the other double the factor */
    int good;
} zn_scaler;

/* The factor grows no further: beyond it the scaled loss itself would leave the range of floats. */
#define ZN_SCALER_MOST  0x1p24f
#define ZN_SCALER_START ((zn_scaler){ .scale = 65536, .interval = 2000 })

/* Halves the factor after a step whose gradients are not all finite. True: the step counts. */
bool zn_scaler_step(zn_scaler *s, bool finite);

#endif
