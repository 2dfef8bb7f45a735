/* A model ready to run, with its progress bar. */
#ifndef ZN_CLI_SESSION_H
#define ZN_CLI_SESSION_H

#include "ui/options.h"
#include "ui/progress.h"

typedef struct session {
    const options *o;
    zn_model *model;
    const zn_model_info *info;
    zn_codec *codec;
    void *diffusion; /* in the place of a codec, for a diffusion autoencoder: see commands/diffusion.h */
    char asked[128]; /* decode: what the last latent said of its model */
    void *own;       /* of the command */
    char *wrote;     /* decode of a clip: its first image, in the place of the job's result */
    progress bar;
    int told_slow; /* the remark about a slow plan is made once */
} session;

enum {
    NEED_ENCODER = 1,
    NEED_DECODER = 2,
    NEED_RESTORER = 4,
    NEED_DIFFUSION = 8, /* a diffusion autoencoder */
    TAKE_DIFFUSION = 16 /* one is as good as what else is needed */
};

/* Opens the model called name (NULL: the first found; "random:ARCH": a seeded network). Complains on failure. */
int model_open(const options *o, const char *name, zn_model **out);

/* Opens model and codec, or a diffusion autoencoder with the parts that --latent and --classifier name, and catches
 * Ctrl-C. Returns 0, or an exit status after saying what is wrong. Opening again replaces the model. */
int session_open(session *s, const options *o, const char *name, unsigned needs);
void session_close(session *s);
/* With -v: how the last call was cut into tiles and segments. */
void session_explain(const session *s);

#endif
