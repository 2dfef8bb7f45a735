/* An opened model, ready to run, with its progress bar. */
#ifndef ZN_CLI_SESSION_H
#define ZN_CLI_SESSION_H

#include "options/options.h"
#include "ui/json.h"
#include "ui/progress.h"

typedef struct session {
    const options *o;
    zn_model *model;
    const zn_model_info *info;
    zn_codec *codec;
    void *diffusion; /* replaces codec for a diffusion autoencoder; see session/diffusion.h */
    char asked[128]; /* decode: the model that the last latent names */
    void *own;       /* data of the command */
    char *wrote;     /* decode of a video: its first image, reported as the job's result */
    progress bar;
    int ran_clip; /* clips have handles of their own: these are what session_ran_clip took from one */
    double clip_share;
    int clip_retains_16;
    int told_slow, told_precision; /* the remark was printed; it is printed once */
} session;

enum {
    NEED_ENCODER = 1,
    NEED_DECODER = 2,
    NEED_RESTORER = 4,
    NEED_DIFFUSION = 8, /* a diffusion autoencoder */
    TAKE_DIFFUSION = 16 /* a diffusion autoencoder is accepted in place of the other needs */
};

/* Opens the model called name (NULL: the first found; "random:ARCH": a network with seeded random weights). Reports
 * errors. On the CPU the large weights of a video autoencoder stay in their file, which layers are prepared from. */
int model_open(const options *o, const char *name, zn_model **out);

/* Opens model and codec, or a diffusion autoencoder with the parts that --latent and --classifier name, and catches
 * Ctrl-C. Returns 0, or an exit status after reporting an error. Opening again replaces the model. */
int session_open(session *s, const options *o, const char *name, unsigned needs);
void session_close(session *s);
/* Prints a plan of several lines. */
void print_plan(const options *o, const char *plan);
/* After a call: a remark, once, if it did not use the precision of --precision; and with -v how it was divided into
 * tiles and segments. */
void session_explain(session *s);
/* After a call of a video: what session_explain and session_precision_facts tell is of it. */
void session_ran_clip(session *s, const zn_video *v);
/* With --precision, members of the JSON object: the precision used, the one asked for, and its share. */
void session_precision_facts(const session *s, json *j);

#endif
