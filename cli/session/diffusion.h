/* Shared by the commands for diffusion autoencoders: converts an image to its condition and its noise, and back, with
 * one progress bar. */
#ifndef ZN_CLI_DIFFUSION_H
#define ZN_CLI_DIFFUSION_H

#include "session/results.h"
#include "session/session.h"
#include "ui/facts.h"

/* Open the session's model as a diffusion autoencoder with the parts that --latent and --classifier name, and close it.
 */
zn_status diffusion_attach(session *s);
void diffusion_detach(session *s);
/* As zn_codec_precision_share; NAN for a session without a diffusion autoencoder. */
double diffusion_precision_share(const session *s);
static inline zn_diffae *diffusion_net(const session *s) { return s->diffusion; }

/* An encoded image. picture: the input of the model, which is the centre of the file's image scaled to the model's
 * size. */
typedef struct parts {
    zn_image *picture;
    float *cond, *noise;
} parts;

/* Number of steps in each direction, and the progress: one bar covers all steps. */
typedef struct diffusion {
    session *s;
    int steps, encode_steps; /* encode_steps 0: noise is drawn at random, not computed from the image */
    double base, scale;      /* part of the bar */
    double begun, all;       /* steps started, and total steps */
} diffusion;

/* Checks --steps, --encode-steps and --latent-steps. Returns 0, or an exit status after reporting an invalid number. */
int diffusion_check(const options *o);

/* The option given that only diffusion autoencoders take; NULL if none is. For commands that take other models too. */
const char *diffusion_option(const options *o);

/* --memory cannot be kept: images of the one size of the model are not computed in pieces. Returns EXIT_USAGE. */
int diffusion_refuse_memory(const options *o);

/* Starts work that inverts `inversions` images to noise, renders `renders` images from noise and takes `more` other
 * steps. It fills the current range of the session's bar. steps: default of --steps. */
diffusion diffusion_begin(session *s, int steps, int inversions, int renders, int more);
/* Begins a stage of this many steps with this label. */
void diffusion_stage(diffusion *d, const char *label, int steps);

/* Remarks that only the centre of an image is used, and that it is scaled. */
void diffusion_remark_size(const session *s, const char *path, const zn_image *photo);
/* The centre of a file's image, scaled to the model's size. */
zn_status diffusion_fit(const session *s, const char *path, zn_image **out);
/* Read and encode an image: diffusion_read computes only its condition, diffusion_take also its noise. The caller frees
 * *out, even on failure. */
zn_status diffusion_read(session *s, const char *path, parts *out);
zn_status diffusion_take(diffusion *d, const char *path, parts *out);
/* Renders image `number` of the results: noise that --ddpm or --eta adds comes from its seed. */
zn_status diffusion_render(diffusion *d, const float *cond, const float *noise, int number, zn_image **out);

/* Conditions as latents of 1x1, with a channel for each number, for encode and decode. Decoding draws the noise from
 * --seed. */
zn_status diffusion_encode(const session *s, const zn_image *photo, zn_latent **out);
zn_status diffusion_decode(const session *s, const zn_latent *latent, zn_image **out);

/* Report the number of steps, and the sampler if it is not the default one; and where the noise of the images came
 * from. Models that use neither have none of these facts. */
void diffusion_steps_facts(const diffusion *d, facts *f);
void diffusion_noise_facts(const diffusion *d, facts *f);

/* Allocates condition and noise of an image. Exits the program when out of memory. */
void parts_alloc(const zn_diffae *d, parts *out);
void parts_free(parts *p);

/* A command that makes images with one model. */
typedef struct diffusion_command {
    int expected, columns; /* number of images, and columns of the sheet; 0: the default of results.h */
    unsigned kinds;        /* of results.h */
    int steps;             /* steps from noise to image; default of --steps */
    int inversions, more;  /* number of images to invert, and number of other steps */
    zn_part needs;         /* ZN_LATENT_NET, ZN_CLASSIFIER, or ZN_ENCODER: no optional part */
    /* Adds the images to r. Returns 0, or an exit status after reporting the error. */
    int (*make)(void *self, diffusion *d, results *r);
    void (*report)(const void *self, facts *f); /* facts of this command */
    void *self;
} diffusion_command;

/* Runs the whole command, from checking the options to the report. Returns the exit status. */
int diffusion_run(const options *o, const diffusion_command *c);
/* Opens a session with a diffusion autoencoder that has this part. Returns 0, or an exit status after reporting an
 * error. */
int diffusion_open(session *s, const options *o, zn_part needs);

#endif
