/* TAESD's own settings, and the block that its networks are made of. */
#ifndef ZN_MODELS_TAESD_H
#define ZN_MODELS_TAESD_H

#include "models/arch.h"

typedef struct zn_taesd_form {
    bool pooled; /* TAEF2: blocks at latent resolution have the pooled group-norm path */
    bool deep;   /* Sana: 32x, five levels */
} zn_taesd_form;

/* relu(conv(relu(conv(relu(conv(x))))) + skip(x)), to `out` channels. */
zn_node *zn_taesd_block(zn_scope s, zn_node *x, int out, bool pooled);

#endif
