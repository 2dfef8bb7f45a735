/* The tasks, and what several of them use. A new task is one descriptor and one line in tasks.c. */
#ifndef ZN_SERVER_TASKS_H
#define ZN_SERVER_TASKS_H

#include "files/film_pipe.h"
#include "server/models.h"

extern const sv_task sv_task_generate, sv_task_encode, sv_task_decode, sv_task_reconstruct, sv_task_restore,
    sv_task_upscale, sv_task_edit, sv_task_interpolate, sv_task_sample, sv_task_compare, sv_task_clip, sv_task_profile;

/* Writes an image as a result of the job, in the format of its options (png). */
ZN_MUST_USE zn_status sv_write_image(sv_job *job, const char *name, const zn_image *image, const zn_image *alpha,
                                     const zn_image_metadata *metadata);
/* The file extension for images of this job; fails if it is not one that can be written. */
ZN_MUST_USE zn_status sv_image_extension(const sv_job *job, const char **extension);
/* Before the work: whether the format of the results can hold such an image, with option compare three of them side by
 * side. bits 16: with so many a sample. */
ZN_MUST_USE zn_status sv_check_format(const sv_job *job, int64_t width, int64_t height, int bits);
/* Converts a latent between the scale of files and that of models, as --scaling of the program does. */
ZN_MUST_USE zn_status sv_scale_latent(const sv_job *job, const zn_model_info *info, const char *extension, int reading,
                                      zn_latent *latent);
/* Refuses a latent whose image has more pixels than the server allows. */
ZN_MUST_USE zn_status sv_latent_limit(const sv_job *job, const zn_model_info *info, const zn_latent *latent);
/* Writes a latent as a result, in the format of the options (safetensors). Changes its scale. */
ZN_MUST_USE zn_status sv_write_latent(sv_job *job, const zn_model_info *info, const char *name, zn_latent *latent);
void sv_difference_facts(json *j, const zn_image_difference *d);
/* Part of reconstruct for diffusion autoencoders. */
ZN_MUST_USE zn_status sv_reconstruct_by_diffusion(sv_job *job, sv_engine *e, zn_image **original, zn_image **result,
                                                  double ms[2]);

/* Processes all images of a video: film_next, then film_put for each. */
typedef zn_status (*sv_film_fn)(sv_job *job, sv_engine *e, film_pipe *p);
/* Takes input i, a video, through `process`; the result is an MP4 with the audio of the original. measure: compare the
 * results with their originals. */
ZN_MUST_USE zn_status sv_film(sv_job *job, sv_engine *e, int i, int measure, sv_film_fn process);
/* Refuses settings that only images have, when the result is a video. */
ZN_MUST_USE zn_status sv_film_settings(const sv_job *job);
/* Refuses a video whose images, or results, have more pixels than the server allows. */
ZN_MUST_USE zn_status sv_film_limit(const sv_job *job, const sv_file *file);
/* Adds what was wrong with a video to the job's remarks. */
void sv_film_remarks(sv_job *job, const sv_file *file, const zn_film_faults *faults);

#endif
