/* What the commands of diffusion autoencoders share: an image as its condition and its noise, and back, with one
 * progress bar for all of it. */
#ifndef ZN_CLI_DIFFUSION_H
#define ZN_CLI_DIFFUSION_H

#include "commands/results.h"
#include "commands/session.h"
#include "ui/facts.h"

/* Opens the session's model as a diffusion autoencoder, with the parts that --latent and --classifier name; closes it.
 */
zn_status diffusion_attach(session *s);
void diffusion_detach(session *s);
static inline zn_diffae *diffusion_net(const session *s) { return s->diffusion; }

/* An image taken apart. picture: as the model sees it, the centre of the file's image scaled to the model's size. */
typedef struct parts {
    zn_image *picture;
    float *cond, *noise;
} parts;

/* Number of steps in each direction, and the progress: one bar covers the steps of all of them. */
typedef struct diffusion {
    session *s;
    int steps, encode_steps; /* encode_steps 0: noise is drawn, not looked for */
    double base, scale;      /* of the bar */
    double begun, all;       /* steps, of those that the work takes */
} diffusion;

/* Looks at --steps, --encode-steps, --latent-steps: 0, or an exit status after saying which number is not possible. */
int diffusion_check(const options *o);

/* Work of `inversions` images to noise, `renders` images from noise and `more` other steps, with the session's bar
 * as it is now. steps: where --steps does not say. */
diffusion diffusion_begin(session *s, int steps, int inversions, int renders, int more);
/* The next so many steps are these. */
void diffusion_stage(diffusion *d, const char *label, int steps);

/* Reads an image, and takes it apart: to its condition alone, or to its noise too. *out is to be freed also on
 * failure.
 */
zn_status diffusion_read(session *s, const char *path, parts *out);
zn_status diffusion_take(diffusion *d, const char *path, parts *out);
zn_status diffusion_render(diffusion *d, const float *cond, const float *noise, zn_image **out);

/* Where the noise of images came from. */
void diffusion_noise_facts(const diffusion *d, facts *f);

/* Memory for what an image is made of; the program ends if there is none. */
void parts_alloc(const zn_diffae *d, parts *out);
void parts_free(parts *p);

/* A command that makes images of one model. */
typedef struct diffusion_command {
    int expected, columns; /* images, and how many beside each other on a sheet; 0: as results.h has it */
    unsigned kinds;        /* of results.h */
    int steps;             /* from noise to image, where --steps does not say */
    int inversions, more;  /* images taken apart, and steps of something else */
    zn_part needs;         /* ZN_LATENT_NET, ZN_CLASSIFIER, or ZN_ENCODER for nothing that not all of them have */
    /* Adds its images to r. Returns 0, or an exit status after reporting the error. */
    int (*make)(void *self, diffusion *d, results *r);
    void (*report)(const void *self, facts *f); /* facts of its own */
    void *self;
} diffusion_command;

/* All of it, from the look at the options to the report. Returns the exit status. */
int diffusion_run(const options *o, const diffusion_command *c);
/* The session of a diffusion autoencoder that has this part. */
int diffusion_open(session *s, const options *o, zn_part needs);

#endif
